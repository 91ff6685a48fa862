"""The `[limits]` of an audit's config: each figure has a level that warns and a level that fails."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictFloat, ValidationInfo
from pydantic.dataclasses import dataclass

from .field_types import SETTINGS

HIGH = ("validity", "survival")  # figures that must be high; all others must be low


@dataclass(frozen=True, config=SETTINGS)
class ShareLimit:
    """The levels of a share, in [0, 1]; one of them may be missing."""

    warn: Annotated[StrictFloat, Field(ge=0, le=1)] | None = None
    fail: Annotated[StrictFloat, Field(ge=0, le=1)] | None = None


@dataclass(frozen=True, config=SETTINGS)
class SecondsLimit:
    """The levels of the run time, in seconds; one of them may be missing."""

    warn: Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)] | None = None
    fail: Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)] | None = None


def _in_order(limit: Any, info: ValidationInfo) -> Any:
    """Refuse levels in the wrong order: the level that warns is reached first."""
    if limit is None:
        return None
    if limit.warn is None and limit.fail is None:
        raise ValueError("give warn, fail or both")
    if limit.warn is None or limit.fail is None or limit.warn == limit.fail:
        return limit
    if info.field_name in HIGH and limit.warn < limit.fail:
        raise ValueError(
            f"must be high, so warn must be at least fail; warn = {limit.warn:g}, fail = {limit.fail:g}"
        )
    if info.field_name not in HIGH and limit.warn > limit.fail:
        raise ValueError(
            f"must be low, so warn must be at most fail; warn = {limit.warn:g}, fail = {limit.fail:g}"
        )
    return limit


Share = Annotated[ShareLimit | None, AfterValidator(_in_order)]
Seconds = Annotated[SecondsLimit | None, AfterValidator(_in_order)]


@dataclass(frozen=True, config=SETTINGS)
class Limits:
    """The limits of an audit; `robustcf_jobs.run.alarms` defines the figures."""

    validity: Share = None
    without_recourse: Share = None
    unproved: Share = None
    survival: Share = None
    group_difference: Share = None
    seconds: Seconds = None
