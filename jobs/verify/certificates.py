"""The fresh forests of a run's certificates: read from the run folder, or trained again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from robustcf.certificate.design import KINDS, Design, Order, orders
from robustcf.certificate.fresh import Forests, orders_for
from robustcf.forest.arrays import ForestError
from robustcf.forest.forest import Forest
from robustcf.forest.join import join_forests
from robustcf.verify import Trees
from robustcf.verify.certificates import CERTIFIED, Terms, chosen_test, levels_of
from robustcf.verify.findings import short

from ..run.fresh_files import fresh_folder, fresh_name, unpacked
from ..terminal.progress import Stage, stage
from .hashing import derived_seed
from .records import Records, Unit
from .retrain import Retraining
from .tables import first_line


@dataclass
class Fresh:
    """The forests of one design that the run should have, and those of them that are available."""

    explained: Forest
    wanted: list[Order]
    forests: dict[Order, Forest] = field(default_factory=dict)

    @cached_property
    def certification(self) -> Forests | None:
        """The certification forests; None if one is not available."""
        found = self._all_of("certification")
        return None if found is None else Forests.of(found)

    @cached_property
    def pooled(self) -> Trees | None:
        """The explained forest's trees and then the pool's; None without a pool or if it lacks a forest."""
        found = self._all_of("pool")
        return Trees(join_forests([self.explained, *found])) if found else None

    def _all_of(self, kind: str) -> list[Forest] | None:
        mine = [order for order in self.wanted if order.kind == kind]
        if any(order not in self.forests for order in mine):
            return None
        return [self.forests[order] for order in mine]


class Certificates:
    """Provides what each certified method of a run demands, with the forests that decide it."""

    def __init__(self, records: Records, retraining: Retraining | None) -> None:
        self.records, self.retraining = records, retraining
        self.methods = {d: m for d, m in enumerate(records.methods) if m.name == CERTIFIED}
        self.designs: list[Design] = list(dict.fromkeys(m.design for m in self.methods.values()))
        self.notes: dict[str, None] = {}
        self._known: dict[int, Terms] | None = None
        self._progress: Stage | None = None

    def prepare(self) -> None:
        """Read an audit's fresh forests, and draw those that are trained again."""
        self._check_listing()
        units, retraining = self.records.units, self.retraining
        if not self.designs or not units:
            return
        if self.records.kind == "sweep":
            if retraining is not None:
                trees = {unit.n_trees for unit in units}
                sizes = {n: sum(len(orders(d, n, 0)) for d in self.designs) for n in trees}
                retraining.choose_units([(unit.shard, sizes[unit.n_trees]) for unit in units])
            return
        explained = self.records.forest(units[0].forest)
        if explained is None:
            return
        count = 0
        if retraining is not None:
            every = [(d, o) for d in self.designs for o in self._orders(units[0], explained, d)]
            count = retraining.choose_forests(every)
        with stage("retraining", count) if count else nullcontext() as self._progress:
            self.of(units[0])
        self._progress = None

    def _check_listing(self) -> None:
        """Check that the manifest lists no fresh forests if the run has none."""
        records = self.records
        if records.kind == "sweep" or not self.designs:
            noted = records.manifest.get("certificates")
            records.findings.expect("certificate", "manifest.json: certificates", noted, None)

    def of(self, unit: Unit) -> dict[int, Terms]:
        """Return the terms of each certified method, by its index among the methods."""
        if not self.methods:
            return {}
        if self.records.kind == "audit" and self._known is not None:
            return self._known
        explained = self.records.forest(unit.forest)
        if explained is None:
            return {}
        made = {design: self._fresh(unit, explained, design) for design in self.designs}
        if self.records.kind == "sweep":
            self._check_digest(unit, made)
        terms = {d: self._terms(m, d, made[m.design]) for d, m in self.methods.items()}
        self._known = terms
        return terms

    def _orders(self, unit: Unit, explained: Forest, design: Design) -> list[Order]:
        seed = self.records.seed
        if self.records.kind == "sweep":
            seed = derived_seed(seed, "fresh", unit.dataset, unit.simulation, len(explained))
        return orders_for(explained, design, seed)

    def _terms(self, method: Any, d: int, fresh: Fresh) -> Terms:
        design: Design = method.design
        n_trees, n_classes = design.size(len(fresh.explained)), len(fresh.explained.classes)
        return Terms(
            method.alpha,
            method.delta / method.tests,
            design.forests,
            design.pool,
            design.scenario,
            n_trees,
            chosen_test(method.test, self.records.demands[d].voting, n_classes, design.resamples),
            levels_of(n_trees, method.levels, self._cutoff(fresh.explained)),
            fresh.certification,
            fresh.pooled,
        )

    def _cutoff(self, explained: Forest) -> float:
        """Return the lowest level: the cut-off of the audit's favourable class."""
        trees = Trees(explained)
        target = self.records.target(trees)
        return 0.5 if target is None else trees.bar(trees.position(target)).score

    def _fresh(self, unit: Unit, explained: Forest, design: Design) -> Fresh:
        wanted = self._orders(unit, explained, design)
        tested = {order.seed for order in wanted if order.kind == "certification"}
        for scenario, seeds in unit.seeds.items():
            if tested & set(seeds):
                self.records.findings.add(
                    "seeds", f"{unit.shard}: {scenario}: validation uses the seed of a certification forest"
                )
        found = Fresh(explained, wanted)
        if self.records.kind == "audit":
            self._read_stored(unit, design, found)
        elif self.retraining is not None and self.retraining.wants_unit(unit):
            for order in wanted:
                found.forests[order] = self.retraining.train(unit, explained, design, order)
        return found

    def _read_stored(self, unit: Unit, design: Design, found: Fresh) -> None:
        """Read an audit's fresh forests, and compare them with the manifest."""
        records, wanted, explained, gone = self.records, found.wanted, found.explained, 0
        noted = self._noted(design, wanted)
        there = set(records.run.names(fresh_folder(design)))
        names = {order: fresh_name(design, order) for order in wanted}
        for stray in sorted(there - set(names.values())):
            records.findings.add("files", f"{short(stray)} does not belong to the run")
        for order, name in names.items():
            forest = None
            if name in there:
                forest = self._read(name, explained, order)
                if forest is not None:
                    stored = noted.get(order)
                    records.findings.expect("certificate", f"{name}: fingerprint", stored, forest.fingerprint)
            else:
                gone += 1
            if self.retraining is not None and self.retraining.wants(design, order):
                again = self.retraining.train(unit, explained, design, order)
                self.retraining.compare(name, noted.get(order), again)
                if self._progress is not None:
                    self._progress.advance(1)
                forest = again if name not in there else forest
            if forest is not None:
                found.forests[order] = forest
        if gone:
            self.notes[
                f"{gone:,} of {len(wanted):,} fresh forests of {design.scenario}: they are not stored"
            ] = None

    def _read(self, name: str, explained: Forest, order: Order) -> Forest | None:
        try:
            forest = unpacked(self.records.run.read(name), name)
        except (ForestError, OSError) as error:
            self.records.findings.add("files", first_line(error))
            return None
        shape = (forest.classes, forest.n_features, len(forest))
        if shape != (explained.classes, explained.n_features, order.n_trees):
            self.records.findings.add("certificate", f"{name}: it has other classes, columns or trees")
            return None
        return forest

    def _noted(self, design: Design, wanted: list[Order]) -> Mapping[Order, str]:
        """Return the fingerprints in the manifest; check everything beside them."""
        entries = self.records.manifest.get("certificates") or []
        place = self.designs.index(design)
        where = f"manifest.json: certificates: {design.scenario}"
        if place == 0:
            self.records.findings.expect(
                "certificate", "manifest.json: number of certificates", len(entries), len(self.designs)
            )
        entry = entries[place] if place < len(entries) else {}
        for key in ("scenario", "forests", "pool", "pilot"):
            self.records.findings.expect(
                "certificate", f"{where}: {key}", entry.get(key), getattr(design, key)
            )
        trained = entry.get("trained", [])
        for kind in KINDS:
            mine = [t for t in trained if t["kind"] == kind]
            plan = [o for o in wanted if o.kind == kind]
            stored = [(t["number"], t["seed"], t["trees"]) for t in mine]
            made = [(o.number, o.seed, o.n_trees) for o in plan]
            if stored != made:
                self.records.findings.add(
                    "seeds", f"{where}: {kind}: numbers, seeds or sizes are not those of the run's seed"
                )
        by_name = {(t["kind"], t["number"]): str(t["fingerprint"]) for t in trained}
        return {o: by_name[o.kind, o.number] for o in wanted if (o.kind, o.number) in by_name}

    def _check_digest(self, unit: Unit, made: Mapping[Design, Fresh]) -> None:
        """Compare the forests of a sweep's simulation with the digest that the shard stores."""
        if self.retraining is None or not self.retraining.wants_unit(unit):
            return
        prints = [[made[d].forests[o].fingerprint for o in made[d].wanted] for d in self.designs]
        facts = self.records.shards.get(f"counterfactuals/{unit.shard}") or {}
        self.retraining.compare_digest(unit.shard, facts.get("fresh"), prints)
