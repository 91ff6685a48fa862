"""The shape of a manifest: every file that claims to be one is checked against it.

Only the shape is checked. Whether the values are true is the task of `robustcf verify`. Keys that are not
listed here are allowed, so that runs of other versions stay readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from ..inputs.field_types import MOST_SHARDS, refuse_many_shards
from ..inputs.validation_error import first_problem

MOST_BITS = MOST_SHARDS.bit_length() - 1


def _refuse_null(value: Any) -> Any:
    if value is None:
        raise PydanticCustomError("null", "must not be null")
    return value


def _inside(name: str) -> str:
    """Refuse a name that leaves the run folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise ValueError("not a file in the run folder")
    return name


MayBeMissing = BeforeValidator(_refuse_null)  # the default None stands for a missing key, not for null
Count = Annotated[StrictInt, Field(ge=0)]
OptionalCount = Annotated[Count | None, MayBeMissing]
Counts = Annotated[Mapping[StrictStr, Count] | None, MayBeMissing]
Text = Annotated[StrictStr | None, MayBeMissing]
Texts = Annotated[Mapping[StrictStr, StrictStr] | None, MayBeMissing]
Piece = Annotated[StrictStr, Field(pattern=r"^_work/(rows-[0-9]{5,}-[0-9]{4,}|range-[0-9]{5,})\.arrow$")]


@dataclass(frozen=True, kw_only=True)
class Log:
    """What a worker logs about a shard, see `shard_log`."""

    host: Text = None
    ended: Annotated[StrictFloat | None, MayBeMissing] = None
    seconds: Annotated[StrictFloat | None, MayBeMissing] = None
    slowest: Annotated[tuple[tuple[StrictStr, StrictFloat], ...] | None, MayBeMissing] = None


@dataclass(frozen=True, kw_only=True)
class ShardNote:
    """What a shard stores about itself in its footer."""

    rows: OptionalCount = None
    customers: OptionalCount = None
    solved: OptionalCount = None
    copied: OptionalCount = None
    size: OptionalCount = None
    counts: Counts = None
    detectors: Texts = None
    fresh: Text = None
    log: Annotated[Log | None, MayBeMissing] = None


@dataclass(frozen=True, kw_only=True)
class Shard(ShardNote):
    """What the manifest stores about a shard."""

    sha256: StrictStr


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The division of an audit's customers into 2^bits shards."""

    rows: Count
    bits: Annotated[Count, Field(le=MOST_BITS)]
    pieces: tuple[Piece, ...]
    denied: OptionalCount = None
    invalid: OptionalCount = None


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The levels of one figure."""

    warn: StrictFloat | None
    fail: StrictFloat | None


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """The part of an audit's config that must have its shape before a reader uses it."""

    limits: Mapping[StrictStr, Limit | None] | None = None


@dataclass(frozen=True, kw_only=True)
class Survival:
    """The recourses of the earlier run that one method gave, and those that still work."""

    method: StrictStr
    alpha: StrictFloat | None
    beta: StrictFloat | None
    parameter: StrictFloat | None
    given: Count
    survived: Count


@dataclass(frozen=True, kw_only=True)
class FreshForest:
    """One forest that was trained for certificates."""

    kind: Literal["pool", "pilot", "certification"]
    number: Count
    seed: Count
    trees: Count
    fingerprint: StrictStr


@dataclass(frozen=True, kw_only=True)
class Certification:
    """The fresh forests of one design."""

    scenario: StrictStr
    forests: Count
    pool: Count
    pilot: Count
    trained: tuple[FreshForest, ...]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What the manifests of audits and sweeps have in common."""

    kind: Literal["audit", "sweep"]
    config: Mapping[StrictStr, Any]
    config_hash: StrictStr
    methods: Count
    state: Literal["running", "complete"]
    shards: Mapping[Annotated[StrictStr, AfterValidator(_inside)], Shard]
    counts: Mapping[StrictStr, Count]
    seed: OptionalCount = None
    joint_tests: OptionalCount = None  # certificates that hold together
    versions: Texts = None
    resumed_with: Texts = None
    validation: Text = None
    seeds: Annotated[Mapping[StrictStr, Any] | None, MayBeMissing] = None
    report: Annotated[Mapping[StrictStr, Any] | None, MayBeMissing] = None
    alarms: Annotated[Mapping[StrictStr, Any] | None, MayBeMissing] = None
    began: Annotated[StrictFloat | None, MayBeMissing] = None  # seconds since 1970
    seconds: Annotated[StrictFloat | None, MayBeMissing] = None  # of work, without pauses


@dataclass(frozen=True, kw_only=True)
class AuditManifest(Manifest):
    config: AuditSettings  # type: ignore[assignment]
    forest_hash: StrictStr
    schema_hash: StrictStr
    data_hash: Text = None
    other_hash: Text = None
    training_hash: Mapping[StrictStr, StrictStr] | None = None  # null without training rows
    inputs: Annotated[tuple[tuple[StrictStr, Count, StrictStr], ...] | None, MayBeMissing] = None
    plan: Annotated[Plan | None, MayBeMissing] = None
    answer_keys: Annotated[tuple[Mapping[StrictStr, Any], ...] | None, MayBeMissing] = None
    detectors: Texts = None
    certificates: Annotated[tuple[Certification, ...] | None, MayBeMissing] = None
    previous: Text = None
    survival: Annotated[tuple[Survival, ...] | None, MayBeMissing] = None


@dataclass(frozen=True, kw_only=True)
class Design:
    """The numbers of a sweep's grid that decide how many shards it has."""

    trees: tuple[Count, ...]
    simulations: Count


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    sweep: Design


@dataclass(frozen=True, kw_only=True)
class SweepManifest(Manifest):
    config: SweepSettings  # type: ignore[assignment]
    data_hash: Mapping[StrictStr, StrictStr]

    @model_validator(mode="after")
    def _check(self) -> Self:
        design = self.config.sweep
        refuse_many_shards(len(self.data_hash), len(design.trees), design.simulations)
        return self


KINDS = {"audit": AuditManifest, "sweep": SweepManifest}
SHAPES = {shape: TypeAdapter[Any](shape) for shape in (ShardNote, Manifest, *KINDS.values())}


def damage(manifest: Mapping[str, Any]) -> str | None:
    """Return the first thing that is wrong with a manifest and its key, or None."""
    kind = manifest.get("kind")
    return _damage(KINDS.get(kind, Manifest) if isinstance(kind, str) else Manifest, manifest)


def counts_are_sound(note: Any) -> bool:
    """Return whether all counts noted for a shard are whole numbers from 0 up."""
    return _damage(ShardNote, note) is None


def _damage(shape: type[Any], document: Any) -> str | None:
    try:
        SHAPES[shape].validate_python(document)
    except ValidationError as error:
        return first_problem(error, shape)
    return None
