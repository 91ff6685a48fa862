"""Read a run folder's plan, methods, forests and schemas; trust none of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from robustcf.forest.arrays import ForestError
from robustcf.forest.files import load_forest
from robustcf.forest.forest import Forest
from robustcf.methods.registry import is_own
from robustcf.schema.schema import Schema, SchemaError
from robustcf.verify import Demand, Findings, Trees

from ..inputs.config import stored_config_hash
from ..inputs.errors import BadInput
from ..inputs.method_tables import methods_of
from ..run.folder import RunFolder
from .hashing import derived_seed
from .tables import first_line


class Unreadable(Exception):
    """The manifest lacks a value without which nothing more can be checked."""


@dataclass(frozen=True)
class Unit:
    """One shard with its forest, schema and seeds."""

    shard: str
    forest: str
    schema: str
    dataset: str = "customers"
    simulation: int = 0
    seeds: dict[str, list[int]] = field(default_factory=dict)
    n_trees: int = 0  # in a sweep


class Records:
    """The manifest and the files it describes; contradictions go to `findings`.

    The manifest comes from `require_run`, which has checked its shape.
    """

    def __init__(self, run: RunFolder, manifest: dict[str, Any], findings: Findings) -> None:
        self.run, self.manifest, self.findings = run, manifest, findings
        self.kind: str = manifest["kind"]
        self.config: dict[str, Any] = manifest["config"]
        self.shards: dict[str, Any] = manifest["shards"]
        self.seed: int = self.take("seed", int)
        part = "model" if self.kind == "audit" else "sweep"
        self.voting: str = self.take("config", part, "voting", str)
        self.methods = self._methods()
        self.demands = self._demands()
        self.units = list(self._units())
        self._forests: dict[str, tuple[Forest, Trees] | None] = {}
        self._schemas: dict[str, Schema | None] = {}

    def take(self, *path_and_type: Any) -> Any:
        """Return the manifest's value at a path of keys; the last argument is its type."""
        *path, kind = path_and_type
        value: Any = self.manifest
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise Unreadable(f"{'.'.join(path)} is missing or has the wrong type")
        return value

    @property
    def config_hash(self) -> str:
        try:
            return stored_config_hash(self.config)
        except (KeyError, TypeError, ValueError):
            raise Unreadable("config is not a valid config") from None

    @property
    def measured(self) -> bool:
        """Whether the run retrained forests."""
        return self.kind == "sweep" or self.config.get("training") is not None

    @property
    def cohorts(self) -> list[str]:
        return list(self.take("config", "customers", "cohort", list)) if self.kind == "audit" else []

    @property
    def rows(self) -> int:
        """The expected number of rows in `counterfactuals`."""
        if self.kind == "audit":
            return int(self.take("plan", "rows", int)) * len(self.demands)
        return len(self.units) * int(self.take("config", "sweep", "rows", int)) * len(self.demands)

    @property
    def alternatives(self) -> int:
        """The number of answers per customer and method."""
        most = self.config.get("alternatives", 1)
        return most if isinstance(most, int) else 1

    @property
    def most_answers(self) -> list[int]:
        """How many answers each method may have for a customer."""
        return [self.alternatives if method.has_alternatives else 1 for method in self.methods]

    @property
    def levers(self) -> dict[str, list[str]]:
        """The groups of features that count as one when alternatives are told apart."""
        found = self.config.get("levers")
        return {str(k): list(map(str, v)) for k, v in found.items()} if isinstance(found, dict) else {}

    def _methods(self) -> list[Any]:
        """Return the methods of the stored config."""
        try:
            return self._settled(methods_of(SimpleNamespace(method=self.take("config", "method", list))))
        except (BadInput, TypeError, ValueError, AttributeError) as error:
            raise Unreadable(f"config.method: {first_line(error)}") from None

    def _settled(self, methods: list[Any]) -> list[Any]:
        """Return the methods; joint ones divide δ among all certificates that the run may make."""
        joint = sum(method.joint for method in methods)
        stored, tests = self.manifest.get("joint_tests"), None
        if joint and self.kind == "audit":
            tests = joint * int(self.take("plan", "denied", int))
        elif joint:
            grid = self.take("config", "sweep", dict)
            units = len(self.take("data_hash", dict)) * len(grid["trees"]) * grid["simulations"]
            tests = joint * units * int(self.take("config", "sweep", "rows", int))
        self.findings.expect("certificate", "manifest.json: joint_tests", stored, tests)
        return [m.shared_by(tests) if m.joint and tests is not None else m for m in methods]

    def _demands(self) -> list[Demand]:
        """Return the parameters of each method, as the checks use them."""
        return [
            Demand(
                m.name,
                m.alpha,
                m.beta,
                m.parameter,
                m.voting or self.voting,
                getattr(m, "variant", getattr(getattr(m, "method", None), "variant", "agresti-coull")),
                isolation_trees=getattr(m, "n_trees", 0),
                neighbours=getattr(m, "neighbours", 0),
                gap=getattr(m, "gap", 0.0),
                foreign=None if is_own(m.name) else m,
            )
            for m in self.methods
        ]

    def _units(self) -> Iterator[Unit]:
        """Yield every shard of the run's plan."""
        if self.kind == "audit":
            bits = self.take("plan", "bits", int)
            seeds = self._seeds()
            if self.measured:
                self.findings.expect("seeds", "manifest.json: seeds", self.manifest.get("seeds"), seeds)
            for k in range(2**bits):
                yield Unit(f"shard-{k:05d}.parquet", "forest", "schema.toml", seeds=seeds)
            return
        wanted: dict[str, int] = {}
        for dataset in self.take("data_hash", dict):
            for n in map(int, self.take("config", "sweep", "trees", list)):
                for s in range(self.take("config", "sweep", "simulations", int)):
                    name = f"{dataset}-n{n:05d}-s{s:04d}"
                    wanted[name] = derived_seed(self.seed, "forest", dataset, s, n)
                    yield Unit(
                        f"{name}.parquet",
                        f"forest/{name}",
                        f"schema/{dataset}.toml",
                        dataset,
                        s,
                        self._seeds(dataset, s, n),
                        n,
                    )
        self.findings.expect("seeds", "manifest.json: seeds", self.manifest.get("seeds"), wanted)

    def _seeds(self, *unit: str | int) -> dict[str, list[int]]:
        """Return the seeds of the retrained forests, by scenario."""
        scenarios = self.take("config", "validation", "scenarios", list) if self.measured else []
        count = range(self.take("config", "validation", "forests", int))
        return {s: [derived_seed(self.seed, "validation", *unit, s, k) for k in count] for s in scenarios}

    def target(self, trees: Trees) -> str | None:
        """Return the favourable label as the tables write it; None in a sweep."""
        if self.kind == "sweep":
            return None
        label = self.take("config", "model", dict).get("favourable")
        for known in trees.classes:
            if known == label and isinstance(known, str) == isinstance(label, str):
                return str(known)
        raise Unreadable("config.model.favourable is not a class of the forest")

    def trees(self, name: str) -> Trees | None:
        """Return a forest of the run; None and a finding if it cannot be read."""
        found = self._loaded(name)
        return None if found is None else found[1]

    def forest(self, name: str) -> Forest | None:
        """Return a forest of the run to join or train again; None if it cannot be read."""
        found = self._loaded(name)
        return None if found is None else found[0]

    def _loaded(self, name: str) -> tuple[Forest, Trees] | None:
        if name not in self._forests:
            if self.kind == "sweep":
                self._forests.clear()  # in a sweep each forest belongs to one shard
            self._forests[name] = self._load_trees(name)
        return self._forests[name]

    def _load_trees(self, name: str) -> tuple[Forest, Trees] | None:
        try:
            files = {file: self.run.read(f"{name}/{file}") for file in ("trees.npz", "forest.json")}
            forest = load_forest(files, name=name)
            trees = Trees(forest)
        except (ForestError, OSError) as error:
            self.findings.add("forest", f"{name}: {first_line(error)}")
            return None
        if self.kind == "audit":
            stored = self.manifest.get("forest_hash")
            self.findings.expect("forest", f"{name}: fingerprint (forest_hash)", stored, trees.fingerprint)
        return forest, trees

    def schema(self, name: str) -> Schema | None:
        """Return a schema of the run; None and a finding if it cannot be read."""
        if name not in self._schemas:
            self._schemas[name] = self._load_schema(name)
        return self._schemas[name]

    def _load_schema(self, name: str) -> Schema | None:
        try:
            schema = Schema.from_toml(self.run.read(name), name=name)
        except (SchemaError, OSError) as error:
            self.findings.add("schema", f"{name}: {first_line(error)}")
            return None
        if self.kind == "audit":
            stored = self.manifest.get("schema_hash")
            self.findings.expect("schema", f"{name}: fingerprint (schema_hash)", stored, schema.fingerprint)
        return schema
