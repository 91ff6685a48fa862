"""Run the parts of a sweep as tasks, and publish each simulation when its last part has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..cluster.tasks import Tasks
from ..run.fresh import designs_of
from ..run.manifest import ShardDone
from ..run.question import Question
from .cut import Cut, Part
from .unit import PartDone, Unit, explain_part, first_forest, fresh_of, publish_unit


@dataclass
class _Open:
    """A simulation in progress: references to its forests, how many rows × bundles are left, and the answers.

    The answers are small, so the driver keeps them: a lost node takes none of them with it.
    """

    forest: Any
    fresh: Any
    left: int
    parts: list[PartDone] = field(default_factory=list)


class Simulations:
    """The items of `Tasks.each`: parts of the cut, and simulations that are ready to be published."""

    def __init__(self, tasks: Tasks, cut: Cut, job: Any, data: Mapping[str, Any], question: Question) -> None:
        self.tasks, self.cut, self.job, self.data = tasks, cut, job, data
        self.certified = bool(designs_of(question))
        self.open: dict[Unit, _Open] = {}
        self.ready: deque[Unit] = deque()

    def run(self) -> Iterator[ShardDone]:
        """Yield the shard of each simulation when it is published."""
        for item, result in self.tasks.each(self._start, self):
            if isinstance(item, Unit):
                yield result
                continue
            self.cut.ended(item, result.seconds)
            unit = self.open[item.unit]
            unit.parts.append(result)
            unit.left -= len(item.rows) * len(item.bundles)
            if not unit.left:
                self.ready.append(item.unit)

    def __iter__(self) -> Iterator[Part | Unit]:
        return self

    def __next__(self) -> Part | Unit:
        return self.ready.popleft() if self.ready else next(self.cut)

    def _start(self, item: Part | Unit) -> Any:
        if isinstance(item, Unit):
            done = self.open.pop(item)
            shared = (self.job, self.data[item.dataset], done.forest, done.fresh)
            return self.tasks.start(publish_unit, *shared, item, *done.parts)
        unit: Unit = item.unit
        if unit not in self.open:
            self.open[unit] = self._begin(unit)
        begun = self.open[unit]
        shared = (self.job, self.data[unit.dataset], begun.forest, begun.fresh)
        return self.tasks.start(explain_part, *shared, item, solves=True)

    def _begin(self, unit: Unit) -> _Open:
        shared = (self.job, self.data[unit.dataset])
        forest = self.tasks.start(first_forest, *shared, unit)
        fresh: Any = self.tasks.start(fresh_of, *shared, forest, unit) if self.certified else ()
        return _Open(forest, fresh, self.cut.rows * self.cut.bundles)
