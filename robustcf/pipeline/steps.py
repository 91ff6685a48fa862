"""Follow raw columns through the fitted steps of a scikit-learn pipeline.

Supported steps treat each column by itself: scalers, constant imputation, one-hot and ordinal encoders, in
pipelines and column transformers of any depth. Any other step is refused with its name and the column's.

Scalers compute x * (1 / scale) on sparse matrices and x / scale on dense ones. One-hot encoders and column
transformers decide at fit time whether their output is sparse. Each column therefore records at each step
whether it is part of a sparse matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_array, check_is_fitted

from robustcf.schema.coding import Operation
from robustcf.schema.feature import SchemaError, native

Encoder = Literal["one-hot", "ordinal", "graded"]  # graded: ordinal, in an order that the user chose


@dataclass(frozen=True)
class Track:
    """One column and the operations applied to it so far.

    - `categories`: the encoder's categories. The pipeline itself is asked for their codes.
    - `fill`: the value that replaced a missing value before encoding.
    - `observed`: the range that a scaler was fitted on, in original units.
    - `sparse`: whether the column is now part of a sparse matrix.
    - `takes_others`: whether the encoder accepts words that it was not fitted on.
    """

    name: str
    step: str
    operations: tuple[Operation, ...] = ()
    fill: Any = None
    encoder: Encoder | None = None
    categories: tuple[Any, ...] = ()
    observed: tuple[float, float] | None = None
    sparse: bool = False
    takes_others: bool = False

    @property
    def fills_missing(self) -> bool:
        """Whether a number replaces a missing value."""
        return any(name == "fill" for name, _ in self.operations)

    def fail(self, message: str) -> SchemaError:
        return SchemaError(f"step {self.step!r}, column {self.name!r}: {message}")


def follow(step: Any, tracks: Sequence[Track], path: str = "") -> list[Track]:
    """Return the columns that a fitted step makes from its input columns."""
    here = [replace(track, step=path or type(step).__name__) for track in tracks]
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return here
    if isinstance(step, Pipeline):
        for name, inner in step.steps:
            here = follow(inner, here, f"{path}/{name}" if path else name)
        return here
    try:
        check_is_fitted(step)
    except (NotFittedError, TypeError):
        raise SchemaError(f"step {path!r}: the {type(step).__name__} is not fitted") from None
    if isinstance(step, ColumnTransformer):
        return _divide(step, here, path)
    for kind, reader in _READERS.items():
        if type(step) is kind:
            return [made for i, track in enumerate(here) for made in reader(step, track, i)]
    names = ", ".join(repr(track.name) for track in here[:3]) + (", ..." if len(here) > 3 else "")
    known = ", ".join(
        f"{kind.__name__} (without a function)" if kind is FunctionTransformer else kind.__name__
        for kind in _READERS
    )
    raise SchemaError(
        f"step {path!r}, column {names}: {type(step).__name__} is not supported; supported steps are {known}"
    )


def _divide(step: ColumnTransformer, tracks: list[Track], path: str) -> list[Track]:
    if step.transformer_weights:
        raise SchemaError(f"step {path!r}: transformer_weights are not supported")
    made: list[Track] = []
    for name, inner, _ in step.transformers_:
        picked = [tracks[i] for i in step._transformer_to_input_indices.get(name, [])]
        if picked and not (isinstance(inner, str) and inner == "drop"):
            made += follow(inner, picked, f"{path}/{name}" if path else name)
    return [replace(track, sparse=bool(step.sparse_output_)) for track in made]


def _scaled(track: Track, *operations: Operation) -> list[Track]:
    """Add operations to a number; categories need none.

    The pipeline itself is asked for the scaled codes of categories.
    """
    if track.encoder is not None:
        return [track]
    return [replace(track, operations=track.operations + operations)]


def _divided(track: Track, scale: np.floating[Any]) -> Operation:
    """Return the division by a scale, as computed for dense or sparse matrices."""
    if not track.sparse:
        return "divide", float(scale)
    with np.errstate(over="ignore"):
        inverse = float(1.0 / scale)  # in the precision of the scale, which may be float32
    if not math.isfinite(inverse):
        raise track.fail(f"the scale {scale:g} is too small: 1 / scale is infinite")
    return "multiply", inverse


def _standard(step: StandardScaler, track: Track, i: int) -> list[Track]:
    operations: list[Operation] = []
    if step.with_mean:
        operations.append(("subtract", float(step.mean_[i])))
    if step.with_std:
        operations.append(_divided(track, step.scale_[i]))
    return _scaled(track, *operations)


def _minmax(step: MinMaxScaler, track: Track, i: int) -> list[Track]:
    operations: list[Operation] = [("multiply", float(step.scale_[i])), ("add", float(step.min_[i]))]
    if step.clip:
        low, high = step.feature_range
        operations += [("at_least", float(low)), ("at_most", float(high))]
    if track.encoder is None and all(name == "fill" for name, _ in track.operations):
        track = replace(track, observed=(float(step.data_min_[i]), float(step.data_max_[i])))
    return _scaled(track, *operations)


def _maxabs(step: MaxAbsScaler, track: Track, i: int) -> list[Track]:
    clipped: list[Operation] = [("at_least", -1.0), ("at_most", 1.0)] if getattr(step, "clip", False) else []
    return _scaled(track, _divided(track, step.scale_[i]), *clipped)


def _robust(step: RobustScaler, track: Track, i: int) -> list[Track]:
    operations: list[Operation] = []
    if step.with_centering:
        operations.append(("subtract", float(step.center_[i])))
    if step.with_scaling:
        operations.append(_divided(track, step.scale_[i]))
    return _scaled(track, *operations)


def _impute(step: SimpleImputer, track: Track, i: int) -> list[Track]:
    if step.add_indicator:
        raise track.fail("add_indicator=True is not supported")
    if not (isinstance(step.missing_values, float) and math.isnan(step.missing_values)):
        raise track.fail(f"missing_values={step.missing_values!r} is not supported, only NaN")
    fill = native(step.statistics_[i])
    if isinstance(fill, float) and math.isnan(fill):
        raise track.fail("the imputer was fitted on a column without any value")
    if track.encoder is not None:
        return [track]
    if isinstance(fill, str):
        return [replace(track, fill=fill)]
    scaled = any(name != "fill" for name, _ in track.operations)  # the fill is then not in original units
    return [
        replace(track, fill=None if scaled else fill, operations=(*track.operations, ("fill", float(fill))))
    ]


def _one_hot(step: OneHotEncoder, track: Track, i: int) -> list[Track]:
    made = _encoded(track, "one-hot", step.categories_[i], accepts=step.handle_unknown != "error")
    made = replace(made, sparse=bool(step.sparse_output))
    rare = _rare(step, i)
    columns = len(made.categories) - max(len(rare) - 1, 0)
    if step.drop_idx_ is not None and step.drop_idx_[i] is not None:
        columns -= 1
    return [made] * columns


def _rare(step: OneHotEncoder, i: int) -> Sequence[Any]:
    """Return the infrequent categories, which share one column."""
    groups = getattr(step, "infrequent_categories_", None)
    found: Sequence[Any] | None = None if groups is None else groups[i]
    return () if found is None else found


def _ordinal(step: OrdinalEncoder, track: Track, i: int) -> list[Track]:
    chosen = not (isinstance(step.categories, str) and step.categories == "auto")
    gone = any(is_missing(category) for category in step.categories_[i])
    if gone and math.isnan(float(step.encoded_missing_value)):
        raise track.fail(
            "missing categories become NaN, not a code; fill them with a category of their own, such as "
            "'unknown', before the model"
        )
    accepts = step.handle_unknown != "error" and math.isfinite(float(step.unknown_value))
    made = _encoded(track, "graded" if chosen else "ordinal", step.categories_[i], accepts=accepts)
    return [replace(made, sparse=False)]


def _encoded(track: Track, encoder: Encoder, categories: Sequence[Any], accepts: bool) -> Track:
    if track.encoder is not None:
        raise track.fail("is encoded twice, which is not supported")
    if any(name != "fill" for name, _ in track.operations):
        raise track.fail("is scaled before it is encoded, which is not supported")
    known = tuple(native(v) for v in categories)
    words = all(isinstance(v, str) or is_missing(v) for v in known)  # other types cannot be told apart safely
    return replace(
        track, encoder=encoder, categories=known, takes_others=accepts and words and encoder != "graded"
    )


def _unchanged(step: FunctionTransformer, track: Track, i: int) -> list[Track]:
    if getattr(step.func, "func", None) is check_array:  # in scikit-learn's own boosting: nothing changes
        return [track]
    if step.func is not None:
        name = getattr(step.func, "__name__", step.func)
        raise track.fail(
            f"the function {name!r} cannot be followed, only a FunctionTransformer without a function; trees "
            "need no rising function of one column, so train without it, or apply it to the table first"
        )
    return [track]


_READERS: dict[type, Callable[[Any, Track, int], list[Track]]] = {
    OneHotEncoder: _one_hot,
    OrdinalEncoder: _ordinal,
    MinMaxScaler: _minmax,
    StandardScaler: _standard,
    MaxAbsScaler: _maxabs,
    RobustScaler: _robust,
    SimpleImputer: _impute,
    FunctionTransformer: _unchanged,
}


def is_missing(value: Any) -> bool:
    """Whether an encoder's category stands for a missing value."""
    return value is None or (isinstance(value, float | np.floating) and math.isnan(value))
