"""Typed CSV: what is read, what is refused, and that nothing else can come out."""

import contextlib
import csv
import string
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from robustcf.datasets import Dataset, DatasetError, read_typed_csv

GOOD = "Age , Job,Sex,Pay,Class\nD,C,B,N,B\nINC,FREE,FIXED,DEC,PREDICT\n30,cook,f,1.5,1\n40,clerk,m,2,0\n"


def read(folder: Path, content: str | bytes, name: str = "Staff.csv") -> Dataset:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_typed_csv(path)


def test_reads_names_kinds_actions_numbers_and_words(tmp_path: Path) -> None:
    data = read(tmp_path, GOOD)
    assert data.name == "staff"
    assert list(data.X) == ["Age", "Job", "Sex", "Pay"]
    assert [(f.kind, f.action) for f in data.schema.features] == [
        ("discrete", "increase"),
        ("categorical", "free"),
        ("binary", "fixed"),
        ("continuous", "decrease"),
    ]
    assert data.X["Age"].dtype == np.int64
    assert list(data.X["Job"]) == ["cook", "clerk"]
    assert list(data.X["Pay"]) == [1.5, 2.0]
    assert list(data.y) == [1, 0]


def test_accepts_a_byte_order_mark_windows_lines_blank_lines_and_quotes(tmp_path: Path) -> None:
    odd = "\ufeff" + GOOD.replace("\n", "\r\n\r\n").replace("cook", '"cook, pastry"')
    assert list(read(tmp_path, odd).X["Job"]) == ["cook, pastry", "clerk"]


def test_the_label_may_stand_anywhere_and_have_any_values(tmp_path: Path) -> None:
    data = read(tmp_path, "Grade,Age\nC,D\nPREDICT,FREE\nlow,1\nhigh,2\nmiddle,3\nlow,4\n")
    assert list(data.X) == ["Age"]
    assert list(data.y) == [1, 0, 2, 1]
    assert read(tmp_path, "Age,Class\nD,D\nFREE,PREDICT\n1,-7\n2,12\n3,12\n").classes == (-7, 12)


def test_categories_named_by_number_are_sorted_as_numbers(tmp_path: Path) -> None:
    data = read(tmp_path, "Job,Class\nC,B\nFREE,PREDICT\n10,0\n9,1\n1,1\n")
    assert data.schema["Job"].values == (1, 9, 10)


def test_codes_with_leading_zeros_stay_words(tmp_path: Path) -> None:
    data = read(tmp_path, "Zip,Class\nC,B\nFREE,PREDICT\n01069,0\n80331,1\n")
    assert data.schema["Zip"].values == ("01069", "80331")


def test_a_binary_column_with_one_value_is_constant(tmp_path: Path) -> None:
    data = read(tmp_path, "On,Age,Class\nB,D,B\nFREE,FREE,PREDICT\nyes,1,0\nyes,2,1\n")
    assert data.encode(data.X).shape == (2, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("D,C,B", "D,Q,B"), "line 2, column 'Job': unknown type 'Q'"),
        (("INC,", "UP,"), "line 3, column 'Age': unknown actionability 'UP'"),
        (("PREDICT", "FREE"), "line 3: exactly one column must be PREDICT (the label); found: none"),
        (("INC", "PREDICT"), "line 3: exactly one column must be PREDICT (the label); found: 'Age', 'Class'"),
        (("INC,FREE", "FREE,INC"), "line 3, column 'Job': feature 'Job' is categorical and has no order"),
        (("1.5,1", "1.5"), "line 4, column 'Class': the line has 4 cells for 5 columns"),
        (("2,0", "2,0,0"), "line 5, column 'Class': the line has 6 cells for 5 columns"),
        (("40", "forty"), "line 5, column 'Age': 'forty' is not a finite number"),
        (("1.5", "nan"), "line 4, column 'Pay': 'nan' is not a finite number"),
        (("1.5", "1e999"), "line 4, column 'Pay': '1e999' is not a finite number"),
        (("1.5", "1_5"), "line 4, column 'Pay': '1_5' is not a finite number"),
        (("cook", " "), "line 4, column 'Job': the value is missing"),
        (("1.5,1", "1.5,"), "line 4, column 'Class': the value is missing"),
        (("Job", "Age"), "line 1, column 'Age': the name appears twice"),
        (("Job", " "), "line 1: column 2 has no name"),
        (("cook", '"cook"s'), "line 4: not a CSV line"),
        ((GOOD, ""), ": the file is empty"),
        ((GOOD, "A,B\nD,B\nFREE,PREDICT\n"), "at least one row"),
        ((GOOD, "Class\nB\nPREDICT\n1\n"), "line 3, column 'Class': the label is the only column"),
        ((GOOD, GOOD + "50,cook,x,1,0\n"), "line 6, column 'Sex': type B allows two values; 'x' is a third"),
        ((GOOD, GOOD + "\0"), "not a text file"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(DatasetError) as caught:
        read(tmp_path, GOOD.replace(*change))
    assert "Staff.csv" in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_text_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not a text file in UTF-8"):
        read(tmp_path, GOOD.encode("utf-16"))
    with pytest.raises(DatasetError, match=r"absent\.csv: cannot be read: No such file"):
        read_typed_csv(tmp_path / "absent.csv")
    with pytest.raises(DatasetError, match="cannot be read: Is a directory"):
        read_typed_csv(tmp_path)


words = st.text(string.ascii_letters + "äß -/,\"'", min_size=1, max_size=8).map(str.strip).filter(bool)
wholes = st.integers(-(10**9), 10**9)
reals = st.floats(-1e12, 1e12, allow_nan=False)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[str], list[str], list[list[object]]]:
    """Names, kinds, actions and columns of a file that must be read back as it was written."""
    n = draw(st.integers(1, 12))
    names = draw(st.lists(words, min_size=2, max_size=6, unique=True))
    kinds, actions, columns = [], [], []
    for _ in names[1:]:
        kind = draw(st.sampled_from("BCDN"))
        pool: st.SearchStrategy[object] = {"D": wholes, "N": reals}.get(kind, st.one_of(words, wholes))
        if kind == "B":
            pool = st.sampled_from(draw(st.lists(words | wholes, min_size=1, max_size=2, unique=True)))
        kinds.append(kind)
        actions.append(draw(st.sampled_from(["FREE", "FIXED"] + ["INC", "DEC"] * (kind != "C"))))
        columns.append(draw(st.lists(pool, min_size=n, max_size=n)))
    kinds.append("B")
    actions.append("PREDICT")
    columns.append(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    return names, kinds, actions, columns


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_what_is_written_is_read_back(
    tmp_path: Path, table: tuple[list[str], list[str], list[str], list[list[object]]]
) -> None:
    names, kinds, actions, columns = table
    path = tmp_path / "Table.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([names, kinds, actions, *zip(*columns, strict=True)])
    data = read_typed_csv(path)
    assert list(data.X) == names[:-1]
    assert list(data.y) == columns[-1]
    for name, column in zip(names, columns[:-1], strict=False):
        if any(isinstance(value, str) for value in column):
            column = [str(value) for value in column]
        assert data.X[name].tolist() == column
    assert data.encode(data.X).shape == (len(data), len(data.schema.columns))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, len(GOOD)), length=st.integers(0, 20), junk=st.binary(max_size=12))
@example(start=0, length=len(GOOD), junk=b"\xff\xfe")
@example(start=len(GOOD), length=0, junk=b'"')
def test_damage_anywhere_gives_a_data_set_or_one_clear_error(
    tmp_path: Path, start: int, length: int, junk: bytes
) -> None:
    content = GOOD.encode()
    damaged = content[:start] + junk + content[start + length :]
    assume(damaged != content)
    with contextlib.suppress(DatasetError):  # and nothing else
        data = read(tmp_path, damaged)
        assert len(data.encode(data.X)) == len(data)
