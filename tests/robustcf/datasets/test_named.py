"""Data sets by name: where they are looked for, and what is said when they are not there."""

from pathlib import Path

import pytest

from robustcf.datasets import DatasetError, available, describe, load
from robustcf.datasets.registry import PAPER_SETS

SMALL = "Age,Sex,Class\nD,C,B\nINC,FIXED,PREDICT\n30,male,1\n40,female,0\n50,male,1\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and no folder named: what the user has on this machine must not matter."""
    monkeypatch.delenv("ROBUSTCF_DATA", raising=False)
    folder = tmp_path / "cache" / "datasets"
    folder.mkdir(parents=True)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda *_, **__: str(folder.parent))
    return folder


def put(folder: Path, name: str = "German-Credit.csv", text: str = SMALL) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_the_eight_names_are_the_file_names_in_lower_case() -> None:
    assert list(PAPER_SETS) == [
        "adult",
        "compas",
        "credit-card-default",
        "german-credit",
        "onlinenewspopularity",
        "phishing",
        "spambase",
        "students-performance",
    ]


def test_a_file_or_a_folder_can_be_passed(tmp_path: Path) -> None:
    odd = put(tmp_path / "mine", "Other name.csv")
    assert len(load("german-credit", odd)) == 3
    assert load("german-credit", str(odd)).name == "german-credit"
    put(tmp_path / "folder")
    assert load("German-Credit", tmp_path / "folder").name == "german-credit"


def test_path_comes_before_the_variable_and_the_variable_before_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = "Age,Class\nD,B\nFREE,PREDICT\n"
    put(cache, text=header + "1,0\n")
    assert len(load("german-credit")) == 1
    put(tmp_path / "named", text=header + "1,0\n2,1\n")
    monkeypatch.setenv("ROBUSTCF_DATA", str(tmp_path / "named"))
    assert len(load("german-credit")) == 2
    put(tmp_path / "passed")
    assert len(load("german-credit", tmp_path / "passed")) == 3
    monkeypatch.setenv("ROBUSTCF_DATA", str(tmp_path / "nowhere"))
    assert len(load("german-credit")) == 1


def test_a_file_name_in_lower_case_is_found(tmp_path: Path) -> None:
    put(tmp_path / "folder", "german-credit.csv")
    assert len(load("german-credit", tmp_path / "folder")) == 3


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        load("spambase", tmp_path)
    message = str(caught.value)
    assert str(tmp_path) in message
    for hint in ("Spambase.csv", "set ROBUSTCF_DATA", "pass path=", "`robustcf datasets fetch spambase`"):
        assert hint in message


def test_an_unknown_name_offers_the_nearest_or_all() -> None:
    with pytest.raises(DatasetError, match="did you mean 'german-credit'"):
        load("german_credit")
    with pytest.raises(DatasetError, match=r"known: adult, compas, .*, synthetic-credit"):
        load("zzz")


def test_available_lists_all_nine_with_where_they_are(cache: Path) -> None:
    file = put(cache)
    where = {listing.name: listing.where for listing in available()}
    assert list(where) == ["synthetic-credit", *PAPER_SETS]
    assert where.pop("synthetic-credit") == "built in"
    assert where.pop("german-credit") == file
    assert set(where.values()) == {None}


def test_describe_counts_kinds_and_classes_and_says_whether_the_file_is_the_known_one(tmp_path: Path) -> None:
    about = describe("german-credit", put(tmp_path / "mine"))
    assert (about.rows, about.features, about.classes, about.genuine) == (3, 2, {0: 1, 1: 2}, False)
    assert about.kinds == {"binary": 0, "categorical": 1, "discrete": 1, "continuous": 0}


def test_the_built_in_set_needs_no_file(tmp_path: Path) -> None:
    assert len(load("synthetic-credit", tmp_path / "nowhere")) == 1000
    about = describe("Synthetic-Credit")
    assert (about.rows, about.features, set(about.classes)) == (1000, 13, {0, 1})
    assert sum(about.kinds.values()) == 13
