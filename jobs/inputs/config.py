"""Read TOML configs into frozen pydantic dataclasses.

A one-line error names any wrong key or value.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import typing
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    model_validator,
)  # fmt: skip
from pydantic.dataclasses import dataclass

from robustcf.forest.decision import Rule
from robustcf.support.documents import DocumentError, parse_toml

from .errors import BadInput
from .field_types import (
    SETTINGS,
    Address,
    Count,
    Different,
    Label,
    Methods,
    Positive,
    Voting,
    refuse_many_shards,
)  # fmt: skip
from .limits import Limits
from .method_tables import check_certificates, methods_of, refuse_evolving
from .secrets import without_secrets
from .validation_error import first_problem

T = TypeVar("T")


@dataclass(frozen=True, config=SETTINGS)
class Model:
    """The explained model and the decision that customers want.

    Give either `forest`, a folder made by `save_forest`, together with `schema`; or `file`, a fitted
    pipeline stored with skops (or a pickle, if `trust_pickle`). With `file`, `schema` is optional.

    The decision is favourable where the score of `favourable` is at least `cutoff`. With `score_of`, it is
    favourable where the score of that class is at most `cutoff`. Without `cutoff`, the model decides.
    With more than two classes, `decision` is "plurality" (the highest score wins, as in `predict`: the
    default) or "one-against-rest" (the default with a `cutoff`).
    """

    favourable: Label
    forest: Address | None = None
    schema: Address | None = None
    file: Address | None = None
    trust_pickle: StrictBool = False
    voting: Voting = "soft"
    cutoff: Annotated[StrictFloat, Field(gt=0, lt=1)] | None = None
    score_of: Label | None = None
    decision: Rule | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.decision == "plurality" and self.cutoff is not None:
            raise ValueError("decision is 'plurality', which has no cutoff; leave one of the two out")
        if self.score_of is not None and self.cutoff is None:
            raise ValueError("score_of needs a cutoff")
        if (self.forest is None) == (self.file is None):
            raise ValueError("give either forest or file")
        if self.forest is not None and self.schema is None:
            raise ValueError("a forest folder also needs a schema")
        return self


@dataclass(frozen=True, config=SETTINGS)
class Customers:
    """The customer table: Parquet or CSV, a file, a glob or a URI."""

    data: Address
    id: StrictStr | None = None
    cohort: tuple[StrictStr, ...] = ()


@dataclass(frozen=True, config=SETTINGS)
class Training:
    """The training table; `later` holds rows collected since (scenario `evolving`)."""

    data: Address
    label: StrictStr
    later: Address | None = None


@dataclass(frozen=True, config=SETTINGS)
class Validation:
    """The number of retrained forests per scenario, and the scenarios."""

    forests: Count = 20
    scenarios: Annotated[tuple[StrictStr, ...], Different] = ("same-data",)


@dataclass(frozen=True, config=SETTINGS)
class SolverChoice:
    """The solver and its limits.

    `time_limit` is in seconds per row and method. `memory_limit` is in GB per solver process (0: no
    limit). `licence` names the Ray custom resource that represents a solver licence.
    """

    name: StrictStr = "auto"
    time_limit: Positive = 60.0
    memory_limit: Annotated[StrictFloat, Field(ge=0, allow_inf_nan=False)] = 4.0
    threads: Count = 1
    affinity: StrictBool = False
    licence: StrictStr | None = None


@dataclass(frozen=True, config=SETTINGS)
class Sharding:
    """The size of a shard: about `seconds` of work, or on average `rows` customers."""

    seconds: Positive = 20.0
    rows: Count | None = None


@dataclass(frozen=True, config=SETTINGS)
class Grid:
    """The grid of a sweep: every combination of these values is run."""

    datasets: Annotated[tuple[StrictStr, ...], Field(min_length=1), Different]
    simulations: Count = 40
    rows: Count = 5
    trees: Annotated[tuple[Count, ...], Field(min_length=1), Different] = (100,)
    depth: Count = 4
    first_share: Annotated[StrictFloat, Field(gt=0, le=1)] = 1.0
    voting: Voting = "soft"

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_many_shards(len(self.datasets), len(self.trees), self.simulations)
        return self


@dataclass(frozen=True, config=SETTINGS)
class AuditConfig:
    """The config of `robustcf audit`.

    `alternatives` is the number of answers per customer and method; `levers` are groups of features that
    count as one when alternatives are told apart.
    """

    output: Address
    model: Model
    customers: Customers
    method: Methods
    training: Training | None = None
    validation: Validation = field(default_factory=Validation)
    solver: SolverChoice = field(default_factory=SolverChoice)
    shard: Sharding = field(default_factory=Sharding)
    previous: Address | None = None
    keep_valid: StrictBool = False
    limits: Limits | None = None
    alternatives: Count = 1
    levers: dict[StrictStr, tuple[StrictStr, ...]] = field(default_factory=dict)
    seed: Annotated[StrictInt, Field(ge=0)] = 0
    shared: StrictBool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.levers and self.alternatives == 1:
            raise ValueError("levers tell alternatives apart: set alternatives to at least 2")
        if self.keep_valid and self.previous is None:
            raise ValueError("keep_valid needs a previous run")
        if "evolving" in self.validation.scenarios and self.training and self.training.later is None:
            raise ValueError("scenario 'evolving' needs the rows collected since: set training.later")
        self._check_limits()
        return self

    def _check_limits(self) -> None:
        """Refuse a limit on a figure that this run cannot measure."""
        limits = self.limits or Limits()
        for figure, limit, there, needed in (
            ("validity", limits.validity, self.training, "[training]"),
            ("survival", limits.survival, self.previous, "a previous run"),
            ("group_difference", limits.group_difference, self.customers.cohort, "customers.cohort"),
        ):
            if limit is not None and not there:
                raise ValueError(f"limits: {figure} needs {needed}")


@dataclass(frozen=True, config=SETTINGS)
class SweepConfig:
    """The config of `robustcf sweep`."""

    output: Address
    sweep: Grid
    method: Methods
    validation: Validation = field(default_factory=Validation)
    solver: SolverChoice = field(default_factory=SolverChoice)
    seed: Annotated[StrictInt, Field(ge=0)] = 0
    shared: StrictBool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if "evolving" in self.validation.scenarios and self.sweep.first_share == 1:
            raise ValueError(
                "scenario 'evolving' needs a first forest trained on fewer rows: set sweep.first_share = 0.8"
            )
        return self


Config = TypeVar("Config", AuditConfig, SweepConfig)


def read_config(kind: type[Config], path: str | Path) -> Config:
    """Read and check a TOML config; relative paths start at the file's folder."""
    path = Path(path)
    try:
        document = parse_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    except (DocumentError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not a TOML file: {error}") from None
    _refuse_odd_numbers(document, str(path))
    config = parse(kind, document, str(path), base=path.parent)
    check_config(config, str(path))
    return config


def _refuse_odd_numbers(value: Any, where: str) -> None:
    """Refuse `nan` and `inf`.

    TOML allows them, but no key accepts them and JSON cannot hold them.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{where} is {value}; give a finite number")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_odd_numbers(inner, f"{where}: {key}")
    if isinstance(value, list):
        for inner in value:
            _refuse_odd_numbers(inner, where)


def parse(kind: type[T], table: Any, where: str, base: Path = Path()) -> T:
    """Return a TOML table as a dataclass; check every key, type and range."""
    try:
        return TypeAdapter(kind).validate_python(table, context={"base": base})
    except ValidationError as error:
        raise BadInput(f"{where}: {first_problem(error, kind)}") from None


def check_config(config: AuditConfig | SweepConfig, where: str) -> None:
    """Check what the library knows: the names of solvers, scenarios and methods."""
    from robustcf.solve import solver_names
    from robustcf.validate import Scenario

    solver, solvers = config.solver.name, solver_names()
    if solver not in solvers:
        raise BadInput(f"{where}: solver: name is {solver!r}; choose among {', '.join(solvers)}")
    for name in config.validation.scenarios:
        try:
            Scenario.parse(name)
        except ValueError as error:
            raise BadInput(f"{where}: validation: {error}") from None
    methods = methods_of(config, where)
    if isinstance(config, AuditConfig):
        later = config.training is not None and config.training.later is not None
        check_certificates(methods, where, training=config.training is not None, later=later)
        if config.alternatives > 1 and not any(method.has_alternatives for method in methods):
            raise BadInput(f"{where}: alternatives: no method of this config has any; see docs/options.md")
    elif config.sweep.first_share == 1:
        refuse_evolving(methods, where, "a first forest trained on fewer rows: set sweep.first_share = 0.8")


def config_as_json(config: Any) -> dict[str, Any]:
    """Return the config as JSON values, without the credentials in its addresses."""
    values = json.loads(json.dumps(dataclasses.asdict(config)))
    return typing.cast(dict[str, Any], _cleaned(values))


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _cleaned(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_cleaned(v) for v in value]
    return without_secrets(value) if isinstance(value, str) else value


def config_hash(config: Any) -> str:
    """Return the SHA-256 of all settings that decide the rows.

    The output address, the limits, the shards and the workers' resources do not decide the rows.
    """
    return stored_config_hash(config_as_json(config))


def stored_config_hash(stored: dict[str, Any]) -> str:
    """Return the `config_hash` of a config stored in a manifest."""
    decisive = {**stored, "solver": dict(stored["solver"])}
    for key in ("output", "shared", "shard", "limits"):
        decisive.pop(key, None)
    for key in ("memory_limit", "threads", "affinity", "licence"):
        decisive["solver"].pop(key, None)
    for key, default in (("alternatives", 1), ("levers", {})):  # as in versions without them
        if decisive.get(key) == default:
            decisive.pop(key)
    if "model" in stored:  # without a cut-off, the hash is that of versions that knew none
        unset = {key for key in ("cutoff", "score_of", "decision") if stored["model"].get(key) is None}
        decisive["model"] = {key: value for key, value in stored["model"].items() if key not in unset}
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
