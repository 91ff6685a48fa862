"""Configs: every key known and typed, or one line that names what is wrong."""

from pathlib import Path
from typing import Any

import pytest
from robustcf_jobs.inputs.config import AuditConfig, SweepConfig, config_as_json, config_hash, read_config
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.inputs.method_tables import methods_of
from robustcf_jobs.inputs.secrets import without_secrets
from robustcf_jobs.inputs.uri import absolute, find_files

from robustcf import Certified, DirectSAA, Naive, RobustSAA
from tests.helpers.jobworld import write_config

AUDIT: dict[str, Any] = {
    "output": "run",
    "model": {"forest": "f", "schema": "s.toml", "favourable": 1},
    "customers": {"data": "c.parquet"},
    "method": [{"name": "naive"}],
}
SWEEP: dict[str, Any] = {"output": "run", "sweep": {"datasets": ["a"]}, "method": [{"name": "naive"}]}


def audit(tmp_path: Path, **changes: Any) -> AuditConfig:
    return read_config(AuditConfig, write_config(tmp_path / "a.toml", AUDIT | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"colour": 1}, "unknown key 'colour'"),
        ({"model": AUDIT["model"] | {"voitng": "soft"}}, "model: unknown key 'voitng'"),
        ({"model": AUDIT["model"] | {"voting": "loud"}}, "voting must be 'soft' or 'hard', not 'loud'"),
        ({"model": AUDIT["model"] | {"favourable": [1]}}, "favourable must be text or a number, not [1]"),
        ({"customers": {}}, "customers: key 'data' is missing"),
        ({"customers": {"dta": "c"}}, "customers: unknown key 'dta'; allowed keys: data, id, cohort"),
        ({"training": {"data": "t", "lable": "y"}}, "unknown key 'lable'; allowed keys: data, label, later"),
        ({"customers": {"data": "c", "cohort": ["sex", 3]}}, "customers: cohort must be text, not 3"),
        ({"model": {"favourable": 1}}, "model: give either forest or file"),
        ({"model": {"favourable": 1, "forest": "f"}}, "model: a forest folder also needs a schema"),
        ({"solver": {"memory_limit": -0.5}}, "solver: memory_limit must be at least 0, not -0.5"),
        ({"method": [3]}, "method must be a table, not 3"),
        ({"customers": 3}, "customers must be a table, not 3"),
        ({"customers": {"data": 3}}, "data must be text, not 3"),
        ({"customers": {"data": "c", "cohort": "sex"}}, "cohort must be a list"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"seed": True}, "seed must be a whole number, not True"),
        ({"shared": 1}, "shared must be true or false"),
        ({"solver": {"time_limit": 0}}, "time_limit must be greater than 0, not 0"),
        ({"solver": {"threads": 0}}, "threads must be at least 1"),
        ({"solver": {"name": "cplex"}}, "name is 'cplex'"),
        ({"validation": {"scenarios": ["tomorrow"]}}, "unknown scenario 'tomorrow'"),
        ({"validation": {"scenarios": ["same-data"] * 2}}, "listed twice"),
        ({"validation": {"forests": 0}}, "forests must be at least 1"),
        ({"keep_valid": True}, "needs a previous run"),
        ({"shard": {"rows": 0}}, "rows must be at least 1, not 0"),
        (
            {"training": {"data": "t", "label": "y"}, "validation": {"scenarios": ["evolving"]}},
            "training.later",
        ),
        ({"method": []}, "no [[method]]"),
        ({"method": [{"name": "magic"}]}, "name is 'magic'"),
        ({"method": [{"name": "naive", "alpha": 0.1}]}, "unknown key 'alpha'"),
        ({"method": [{"name": "direct-saa", "alpha": 0.7}]}, "must lie in (0, 1/2]"),
        ({"method": [{"name": "direct-saa"}]}, "alpha"),
        ({"method": [{"name": "direct-saa", "alpha": "x"}]}, "direct-saa"),
        ({"method": [{"name": "naive"}, {"name": "naive"}]}, "listed twice"),
        (
            {"method": [{"name": "robust-saa", "alpha": [0.1] * 1500, "beta": [0.1] * 1500}]},
            "the lists make 2,250,000 methods; at most 1,000 are allowed",
        ),
    ],
)
def test_a_slip_is_one_line_that_names_it(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        audit(tmp_path, **changes)
    message = caught.value.format_message()
    assert words in message
    assert "\n" not in message


TRAINING = {"data": "t.parquet", "label": "y"}


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        ({}, {}, "missing 1 required positional argument: 'alpha'"),
        ({"alpha": 0.7}, {}, "alpha is 0.7; it must lie in (0, 1/2]"),
        ({"alpha": [0.05, 0.0]}, {}, "alpha is 0.0"),
        ({"delta": 0}, {}, "delta is 0; it must lie strictly between 0 and 1"),
        ({"delta": "x"}, {}, "delta is 'x'; it must lie strictly between 0 and 1"),
        (
            {"forests": 50, "test": "forests"},
            {},
            "forests is 50; at alpha = 0.05 and delta = 0.05, at least 59",
        ),
        ({"forests": 100, "test": "forests", "tests": 1000}, {}, "shared by 1,000 tests, at least 194"),
        ({"forests": 0}, {}, "forests is 0; it must be a whole number of at least 1"),
        ({"forests": 100.5}, {}, "forests is 100.5; it must be a whole number"),
        ({"pool": -1}, {}, "pool is -1; it must be a whole number of at least 0"),
        ({"pilot": 10}, {}, "pilot is 10; it must be a whole number of at least 50"),
        ({"tests": 0}, {}, "tests is 0; it must be a whole number of at least 1"),
        ({"tests": 5, "joint": True}, {}, "joint sets the number of tests, but tests is 5; leave one out"),
        ({"joint": "yes"}, {}, "joint is 'yes'; it must be true or false"),
        ({"scenario": "tomorrow"}, {}, "unknown scenario 'tomorrow'"),
        ({"scenario": 3}, {}, "scenario is 3; it must be text"),
        ({"scenario": "evolving"}, {}, "'evolving' needs the rows collected since: set training.later"),
        ({"levels": [0.6, 0.5]}, {}, "levels is [0.6, 0.5]; levels must rise"),
        ({"levels": [0.4, 0.6]}, {}, "lie in [1/2, 1]"),
        ({"levels": []}, {}, "levels is []"),
        ({"levels": ["x"]}, {}, "levels is ['x']"),
        ({"levels": "x"}, {}, "levels is 'x'"),
        ({"test": "magic"}, {}, "test is 'magic'; choose among"),
        ({"test": "trees", "scenario": "bootstrap"}, {}, "test 'trees' needs independent trees"),
        ({"tset": "trees"}, {}, "unknown key 'tset'; allowed keys: alpha, delta, forests"),
        (
            {},
            {"training": None, "method": [{"name": "certified", "alpha": 0.05}]},
            "name them under [training]",
        ),
    ],
)
def test_a_slip_in_a_certificate_is_one_line_that_names_it(
    tmp_path: Path, method: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    own = {"name": "certified", **({"alpha": 0.05} if method else {}), **method}
    with pytest.raises(BadInput) as caught:
        audit(tmp_path, **({"training": TRAINING, "method": [own]} | changes))
    message = caught.value.format_message()
    assert words in message
    assert "\n" not in message


def test_certificates_in_a_config(tmp_path: Path) -> None:
    """A list of levels is one value; a list of lists gives one method each."""
    own = {"name": "certified", "alpha": [0.1, 0.05], "levels": [0.5, 0.6, 0.9]}
    found = methods_of(audit(tmp_path, training=TRAINING, method=[own]))
    levels = (0.5, 0.6, 0.9)
    assert found == [Certified(0.1, levels=levels), Certified(0.05, levels=levels)]
    deltas = {"name": "certified", "alpha": 0.05, "delta": [0.05, 0.1], "levels": [[0.6, 0.7]]}
    found = methods_of(audit(tmp_path, training=TRAINING, method=[deltas]))
    assert [m.levels for m in found] == [(0.6, 0.7)] * 2
    later = TRAINING | {"later": "l.parquet"}
    evolving = {"name": "certified", "alpha": 0.05, "scenario": "evolving"}
    assert methods_of(audit(tmp_path, training=later, method=[evolving]))


def test_a_sweep_certifies_evolving_data_only_with_a_first_share(tmp_path: Path) -> None:
    evolving = [{"name": "certified", "alpha": 0.05, "scenario": "evolving"}]
    path = write_config(tmp_path / "s.toml", SWEEP | {"method": evolving})
    with pytest.raises(BadInput, match=r"'evolving' needs .* set sweep\.first_share = 0\.8"):
        read_config(SweepConfig, path)
    grid = SWEEP["sweep"] | {"first_share": 0.8}
    read_config(SweepConfig, write_config(path, SWEEP | {"method": evolving, "sweep": grid}))


def test_files_that_are_no_configs(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_config(AuditConfig, tmp_path / "none.toml")
    (tmp_path / "a.toml").write_text("= 3")
    with pytest.raises(BadInput, match="not a TOML file"):
        read_config(AuditConfig, tmp_path / "a.toml")
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="not a TOML file"):
        read_config(AuditConfig, tmp_path / "a.toml")


def test_lists_of_parameters_are_multiplied_out(tmp_path: Path) -> None:
    methods = [
        {"name": "naive"},
        {"name": "direct-saa", "alpha": [0.2, 0.05]},
        {"name": "robust-saa", "alpha": [0.2, 0.05], "beta": 0.1},
        {
            "name": "isolation-forest",
            "contamination": [0.1, 0.2],
            "method": {"name": "direct-saa", "alpha": 0.1},
        },
    ]
    found = methods_of(audit(tmp_path, method=methods))
    assert found[:5] == [Naive(), DirectSAA(0.2), DirectSAA(0.05), RobustSAA(0.2, 0.1), RobustSAA(0.05, 0.1)]
    assert [(m.parameter, m.method) for m in found[5:]] == [(0.1, DirectSAA(0.1)), (0.2, DirectSAA(0.1))]


def test_paths_are_relative_to_the_config(tmp_path: Path) -> None:
    config = audit(tmp_path, output="s3://bucket/run")
    assert config.customers.data == str(tmp_path / "c.parquet")
    assert config.output == "s3://bucket/run"
    assert absolute("/x/y", tmp_path) == "/x/y"


def test_the_hash_is_of_what_decides_the_rows(tmp_path: Path) -> None:
    base = config_hash(audit(tmp_path))
    for same in ({"output": "b"}, {"shard": {"rows": 3}}, {"shared": True}, {"solver": {"threads": 2}}):
        assert config_hash(audit(tmp_path, **same)) == base
    for other in (
        {"seed": 1},
        {"method": [{"name": "direct-saa", "alpha": 0.1}]},
        {"solver": {"name": "highs"}},
    ):
        assert config_hash(audit(tmp_path, **other)) != base


def test_the_hash_of_a_config_is_the_one_of_earlier_versions(tmp_path: Path) -> None:
    """Runs that robustcf 0.2.0 began can be resumed only if it stays the same."""
    model = {"forest": "s3://b/f", "schema": "s3://b/s.toml", "favourable": "good"}
    methods = [{"name": "naive"}, {"name": "direct-saa", "alpha": [0.2, 0.05]}]
    found = audit(tmp_path, model=model, customers={"data": "s3://b/c.parquet"}, method=methods)
    assert config_hash(found) == "0266795eb03bab4cae10102bf7365f0b0c19cefb58922ec110e291099b5d2a38"
    config = {"output": "run", "sweep": {"datasets": ["a"], "first_share": 1}, "method": methods, "seed": 3}
    found = read_config(SweepConfig, write_config(tmp_path / "s.toml", config))
    assert config_hash(found) == "d7c95a16cbbeb168044a4e832f6961f0a409ded237ab7c4870faaa591248d223"


def test_credentials_are_never_kept(tmp_path: Path) -> None:
    address = "s3://AKIA:hush@bucket/run?endpoint_override=localhost:9&secret_key=hush"
    kept = str(config_as_json(audit(tmp_path, output=address, previous=address)))
    assert "hush" not in kept
    assert "AKIA" not in kept
    assert without_secrets(address) == "s3://bucket/run?endpoint_override=localhost:9"


def test_a_sweep_needs_sensible_counts(tmp_path: Path) -> None:
    for changes, words in (
        ({"trees": [0]}, "trees"),
        ({"rows": 0}, "rows must be at least 1, not 0"),
        ({"first_share": 2.0}, "share"),
        ({"simulations": 10**6, "trees": [10, 20]}, "sweep: .* make 2,000,000 shards; at most 1,048,576"),
    ):
        config = SWEEP | {"sweep": {"datasets": ["a"], **changes}}
        with pytest.raises(BadInput, match=words):
            read_config(SweepConfig, write_config(tmp_path / "s.toml", config))


def test_files_of_a_path_a_folder_or_a_glob(tmp_path: Path) -> None:
    for name in ("a/x.parquet", "a/b/y.parquet", "a/_hidden/z.parquet", "a/note.txt", "a/w.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def found(pattern: str) -> list[str]:
        names = find_files(str(tmp_path / pattern), (".parquet", ".csv"))[1]
        return [str(Path(name).relative_to(tmp_path / "a")) for name in names]

    assert found("a") == ["b/y.parquet", "w.csv", "x.parquet"]
    assert found("a/*.parquet") == ["x.parquet"]
    assert found("a/w.csv") == ["w.csv"]
    with pytest.raises(BadInput, match="no file ending in"):
        find_files(str(tmp_path / "nothing"), (".csv",))
