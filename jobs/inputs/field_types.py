"""The types of config fields: what pydantic checks beyond Python's types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from .uri import absolute

T = TypeVar("T")
MOST_SHARDS = 2**20  # of a run
SETTINGS = ConfigDict(extra="forbid")  # of every config table


def _absolute(path: str, info: ValidationInfo) -> str:
    """Return a path made absolute from the config's folder, if a config is being read."""
    return path if info.context is None else absolute(path, info.context["base"])


def _label(value: Any) -> Any:
    if type(value) not in (str, int, float, bool):
        raise PydanticCustomError("label_type", "must be text or a number")
    return value


def _all_different(values: tuple[T, ...]) -> tuple[T, ...]:
    seen = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{value!r} is listed twice")
        seen.add(value)
    return values


def refuse_many_shards(datasets: int, trees: int, simulations: int) -> None:
    """Refuse a sweep that would take years, or a forged one that would exhaust the memory."""
    shards = datasets * trees * simulations
    if shards > MOST_SHARDS:
        raise ValueError(
            f"data sets × numbers of trees × simulations make {shards:,} shards;"
            f" at most {MOST_SHARDS:,} are allowed"
        )


Label = Annotated[str | int | float | bool, BeforeValidator(_label)]
Address = Annotated[StrictStr, AfterValidator(_absolute)]  # a path or a URI
Count = Annotated[StrictInt, Field(ge=1)]
Positive = Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)]
Different = AfterValidator(_all_different)
Voting = Literal["soft", "hard"]
Methods = tuple[Mapping[str, Any], ...]
