"""Read TOML configs into frozen dataclasses.

A one-line error names any wrong key or value.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from robustcf.support.documents import DocumentError, parse_toml

from .errors import BadInput
from .secrets import without_secrets
from .uri import absolute

T = TypeVar("T")
Label = str | int | float | bool
MOST_METHODS = 1000  # per [[method]] table; one customer with 1000 methods takes hours


@dataclass(frozen=True)
class Model:
    """The explained model and the decision that customers want.

    Give either `forest`, a folder made by `save_forest`, together with `schema`; or `file`, a fitted
    pipeline stored with skops (or a pickle, if `trust_pickle`). With `file`, `schema` is optional.
    """

    favourable: Label
    forest: str | None = None
    schema: str | None = None
    file: str | None = None
    trust_pickle: bool = False
    voting: Literal["soft", "hard"] = "soft"


@dataclass(frozen=True)
class Customers:
    """The customer table: Parquet or CSV, a file, a glob or a URI."""

    data: str
    id: str | None = None
    cohort: tuple[str, ...] = ()


@dataclass(frozen=True)
class Training:
    """The training table; `later` holds rows collected since (scenario `evolving`)."""

    data: str
    label: str
    later: str | None = None


@dataclass(frozen=True)
class Validation:
    """The number of retrained forests per scenario, and the scenarios."""

    forests: int = 20
    scenarios: tuple[str, ...] = ("same-data",)


@dataclass(frozen=True)
class SolverChoice:
    """The solver and its limits.

    `time_limit` is in seconds per row and method. `memory_limit` is in GB per solver process (0: no
    limit). `licence` names the Ray custom resource that represents a solver licence.
    """

    name: str = "auto"
    time_limit: float = 60.0
    memory_limit: float = 4.0
    threads: int = 1
    affinity: bool = False
    licence: str | None = None


@dataclass(frozen=True)
class Sharding:
    """The size of a shard: about `seconds` of work, or on average `rows` customers."""

    seconds: float = 20.0
    rows: int | None = None


@dataclass(frozen=True)
class Grid:
    """The grid of a sweep: every combination of these values is run."""

    datasets: tuple[str, ...]
    simulations: int = 40
    rows: int = 5
    trees: tuple[int, ...] = (100,)
    depth: int = 4
    first_share: float = 1.0
    voting: Literal["soft", "hard"] = "soft"


@dataclass(frozen=True)
class AuditConfig:
    """The config of `robustcf audit`."""

    output: str
    model: Model
    customers: Customers
    method: tuple[Mapping[str, Any], ...]
    training: Training | None = None
    validation: Validation = field(default_factory=Validation)
    solver: SolverChoice = field(default_factory=SolverChoice)
    shard: Sharding = field(default_factory=Sharding)
    previous: str | None = None
    keep_valid: bool = False
    seed: int = 0
    shared: bool = False


@dataclass(frozen=True)
class SweepConfig:
    """The config of `robustcf sweep`."""

    output: str
    sweep: Grid
    method: tuple[Mapping[str, Any], ...]
    validation: Validation = field(default_factory=Validation)
    solver: SolverChoice = field(default_factory=SolverChoice)
    seed: int = 0
    shared: bool = False


PATHS = {
    AuditConfig: ("output", "previous"),
    SweepConfig: ("output",),
    Model: ("forest", "schema", "file"),
    Customers: ("data",),
    Training: ("data", "later"),
}


def read_config(kind: type[T], path: str | Path) -> T:
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
    """Return a TOML table as a dataclass; check every key and type."""
    if not isinstance(table, Mapping):
        raise BadInput(f"{where}: expected a table, not {table!r}")
    hints = get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise BadInput(f"{where}: unknown key {key!r}; allowed keys: {', '.join(known)}")
    given: dict[str, Any] = {}
    for name, f in known.items():
        if name in table:
            given[name] = _value(hints[name], table[name], f"{where}: {name}", base)
        elif f.default is MISSING and f.default_factory is MISSING:
            raise BadInput(f"{where}: key {name!r} is missing")
    for name in PATHS.get(kind, ()):
        if given.get(name) is not None:
            given[name] = absolute(given[name], base)
    return kind(**given)


def _value(hint: Any, value: Any, where: str, base: Path) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        options = [h for h in get_args(hint) if h is not types.NoneType]
        if len(options) == 1:
            return _value(options[0], value, where, base)
        if type(value) in options:
            return value
        raise BadInput(f"{where} must be text or a number, not {value!r}")
    if dataclasses.is_dataclass(hint):
        return parse(typing.cast(type, hint), value, where, base)
    if origin is Literal:
        if value not in get_args(hint):
            raise BadInput(f"{where} is {value!r}; choose among {', '.join(map(str, get_args(hint)))}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise BadInput(f"{where} must be a list, not {value!r}")
        return tuple(_value(get_args(hint)[0], v, where, base) for v in value)
    if hint is float and type(value) is int:
        return float(value)
    wanted = Mapping if origin is not None else hint
    if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
        words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        raise BadInput(f"{where} must be {words.get(hint, 'a table')}, not {value!r}")
    return value


def check_config(config: Any, where: str) -> None:
    """Check the values of a config beyond their types."""
    from robustcf.solve import solver_names
    from robustcf.validate import Scenario

    def need(fine: bool, what: str) -> None:
        if not fine:
            raise BadInput(f"{where}: {what}")

    need(config.seed >= 0, f"seed is {config.seed}; it must be at least 0")
    need(config.validation.forests >= 1, "validation: forests must be at least 1")
    need(0 < config.solver.time_limit < math.inf, "solver: time_limit must be positive")
    need(config.solver.threads >= 1, "solver: threads must be at least 1")
    need(0 <= config.solver.memory_limit < math.inf, "solver: memory_limit must be in GB, 0 for none")
    solvers = solver_names()
    need(config.solver.name in solvers, f"solver: name is {config.solver.name!r}; choose among {solvers}")
    scenarios = config.validation.scenarios
    need(len(set(scenarios)) == len(scenarios), "validation: a scenario is listed twice")
    for name in scenarios:
        try:
            Scenario.parse(name)
        except ValueError as error:
            raise BadInput(f"{where}: validation: {error}") from None
    if isinstance(config, AuditConfig):
        model = config.model
        need((model.forest is None) != (model.file is None), "model: give either forest or file")
        need(model.forest is None or model.schema is not None, "model: a forest folder also needs a schema")
        need(config.shard.seconds > 0, "shard: seconds must be positive")
        need(config.shard.rows is None or config.shard.rows > 0, "shard: rows must be positive")
        need(config.previous is not None or not config.keep_valid, "keep_valid needs a previous run")
        later = config.training is not None and config.training.later is not None
        need(
            "evolving" not in scenarios or later or config.training is None,
            "scenario 'evolving' needs the rows collected since: set training.later",
        )
    if isinstance(config, SweepConfig):
        grid = config.sweep
        need(bool(grid.datasets), "sweep: datasets is empty")
        need(len(set(grid.datasets)) == len(grid.datasets), "sweep: a data set is listed twice")
        need(bool(grid.trees) and min(grid.trees) >= 1, "sweep: trees must be at least 1")
        need(len(set(grid.trees)) == len(grid.trees), "sweep: a number of trees is listed twice")
        need(min(grid.simulations, grid.rows, grid.depth) >= 1, "sweep: counts must be at least 1")
        need(0 < grid.first_share <= 1, "sweep: first_share must lie in (0, 1]")
        need(
            "evolving" not in scenarios or grid.first_share < 1,
            "scenario 'evolving' needs a first forest trained on fewer rows: set sweep.first_share = 0.8",
        )
    methods_of(config, where)


def methods_of(config: Any, where: str = "config") -> list[Any]:
    """Return the methods of the `[[method]]` tables.

    There is one per combination of listed parameters.
    """
    from robustcf.methods.registry import methods_by_name

    kinds = methods_by_name()
    if not config.method:
        raise BadInput(f"{where}: no [[method]] given")
    methods: list[Any] = []
    for table in config.method:
        methods += _methods(dict(table), kinds, where)
    seen = set()
    for method in methods:
        key = (method.name, method.alpha, method.beta, method.parameter)
        if key in seen:  # the result tables identify a method by these values
            raise BadInput(f"{where}: method {method} is listed twice")
        seen.add(key)
    return methods


def _methods(table: dict[str, Any], kinds: Mapping[str, Any], where: str) -> list[Any]:
    name = table.pop("name", None)
    if not isinstance(name, str) or name not in kinds:
        raise BadInput(f"{where}: method: name is {name!r}; choose among {', '.join(sorted(kinds))}")
    names = [f.name for f in dataclasses.fields(kinds[name])]
    for key in table:
        if key not in names:
            known = ", ".join(names) or "none"
            raise BadInput(f"{where}: method {name!r}: unknown key {key!r}; allowed keys: {known}")
    if "method" in table:
        if not isinstance(table["method"], Mapping):
            raise BadInput(f"{where}: method {name!r}: method must be a table, not {table['method']!r}")
        table["method"] = _methods(dict(table["method"]), kinds, where)
    lists = [v if isinstance(v, list) else [v] for v in table.values()]
    if (count := math.prod(map(len, lists))) > MOST_METHODS:
        raise BadInput(
            f"{where}: method {name!r}: the lists make {count:,} methods; "
            f"at most {MOST_METHODS:,} are allowed"
        )
    made = []
    for values in itertools.product(*lists):
        try:
            made.append(kinds[name](**dict(zip(table, values, strict=True))))
        except (TypeError, ValueError) as error:
            raise BadInput(f"{where}: method {name!r}: {error}") from None
    return made


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

    The output address, the shards and the workers' resources do not decide the rows.
    """
    return stored_config_hash(config_as_json(config))


def stored_config_hash(stored: dict[str, Any]) -> str:
    """Return the `config_hash` of a config stored in a manifest."""
    decisive = {**stored, "solver": dict(stored["solver"])}
    for key in ("output", "shared", "shard"):
        decisive.pop(key, None)
    for key in ("memory_limit", "threads", "affinity", "licence"):
        decisive["solver"].pop(key, None)
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
