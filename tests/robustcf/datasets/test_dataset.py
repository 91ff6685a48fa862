"""A data set: what it refuses, and how it encodes rows."""

import numpy as np
import pandas as pd
import pytest

from robustcf.datasets import Dataset, DatasetError
from robustcf.schema.schema import Feature, Schema

SCHEMA = Schema(
    (
        Feature("age", "discrete", values=(20, 30, 60), lower=0),
        Feature("job", "categorical", values=("clerk", "cook", "pilot")),
        Feature("planet", "categorical", values=("Earth",)),
    )
)
FRAME = pd.DataFrame({"age": [20, 60], "job": ["pilot", "clerk"], "planet": ["Earth", "Earth"]})


def staff() -> Dataset:
    return Dataset("staff", FRAME, np.array([0, 1]), SCHEMA)


def test_encodes_a_frame_and_one_mapping_alike() -> None:
    data = staff()
    matrix = data.encode(FRAME)
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, [[0, 0, 0, 1], [1, 1, 0, 0]])
    np.testing.assert_array_equal(data.encode(FRAME.iloc[1].to_dict()), matrix[1:])


def test_the_first_bad_row_is_named_with_its_reason() -> None:
    bad = pd.DataFrame({"age": [20, 30, -1], "job": ["cook", "spy", "cook"], "planet": ["Earth"] * 3})
    with pytest.raises(ValueError, match=r"'staff', row 1: column 'job': 'spy' is not one of its values"):
        staff().encode(bad)


def test_length_and_classes() -> None:
    data = Dataset("staff", FRAME, np.array([True, False]), SCHEMA)
    assert (len(data), data.classes, data.y.dtype) == (2, (0, 1), np.int64)


@pytest.mark.parametrize(
    ("frame", "labels", "message"),
    [
        (FRAME, np.array([1]), "2 rows need as many labels, not shape"),
        (FRAME, np.array([0.5, 1.0]), "labels must be whole numbers"),
        (
            FRAME[["job", "age", "planet"]],
            np.array([0, 1]),
            "must be the schema's features, in the same order",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(frame: pd.DataFrame, labels: np.ndarray, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        Dataset("staff", frame, labels, SCHEMA)
