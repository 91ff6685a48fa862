"""Cut the simulations of a sweep into tasks of some seconds each.

A simulation has rows and *bundles*: methods that are solved together because they share bounds. The smallest
part is one row with one bundle. The seconds of a row and bundle are estimated from the parts that have ended,
for each data set and number of trees. Parts of cheap simulations are joined, so that no task is far below the
target. The simulations that take longest start first. Towards the end of the sweep, the parts get smaller.

How the work is cut changes no answer. This module starts no task.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TARGET = 5.0  # seconds of a part
LEAST = 0.5  # seconds of a part near the end
LAST = 4  # parts per CPU that should be left when the parts begin to get smaller


@dataclass(frozen=True)
class Part:
    """Some rows of a simulation, by position, and the bundles to solve for each of them."""

    unit: Any
    rows: tuple[int, ...]
    bundles: tuple[int, ...]


class Cut:
    """The parts of a sweep, in the order in which they start. `next` takes the estimates so far into account.

    Parameters
    ----------
    units : mapping
        Each simulation and its group; simulations of one group take similar times.
    rows, bundles : int
        The rows of a simulation, and the bundles of each row.
    slots : callable
        Returns how many tasks the cluster can run at once now.
    """

    def __init__(
        self, units: Mapping[Any, Hashable], rows: int, bundles: int, slots: Callable[[], int]
    ) -> None:
        self.rows, self.bundles, self.slots = rows, bundles, slots
        self.left: dict[Hashable, deque[Any]] = defaultdict(deque)
        for unit, group in units.items():
            self.left[group].append(unit)
        self.group_of = dict(units)
        self.open: deque[Part] = deque()
        self.spent: dict[tuple[Hashable, int], list[float]] = {}  # [seconds, rows]

    def __iter__(self) -> Iterator[Part]:
        return self

    def __next__(self) -> Part:
        if not self.open:
            group = max((g for g, units in self.left.items() if units), key=self._urgency, default=None)
            if group is None:
                raise StopIteration
            self.open.extend(self._parts(self.left[group].popleft(), group))
        return self.open.popleft()

    def ended(self, part: Part, seconds: Sequence[float]) -> None:
        """Note the seconds that each bundle of a part took, over all rows of the part."""
        group = self.group_of[part.unit]
        for bundle, spent in zip(part.bundles, seconds, strict=True):
            noted = self.spent.setdefault((group, bundle), [0.0, 0])
            noted[0] += spent
            noted[1] += len(part.rows)

    def _estimates(self, group: Hashable) -> list[float] | None:
        """Return the mean seconds per row of each bundle, or None before all of them were measured."""
        noted = [self.spent.get((group, bundle)) for bundle in range(self.bundles)]
        if any(one is None for one in noted):
            return None
        return [one[0] / one[1] for one in noted if one is not None]

    def _urgency(self, group: Hashable) -> tuple[float, float]:
        """Order the groups: first one simulation of each, to measure it; then by the longest row."""
        estimates = self._estimates(group)
        if estimates is None:
            begun = any((group, bundle) in self.spent for bundle in range(self.bundles))
            return (1.0 if begun else 2.0, float(len(self.left[group])))
        return (0.0, max(estimates))

    def _target(self) -> float:
        """Return the seconds of a part: fewer near the end, so that all CPUs end at about the same time."""
        left = 0.0
        for group, units in self.left.items():
            estimates = self._estimates(group)
            if estimates is None and units:
                return TARGET
            left += len(units) * self.rows * sum(estimates or [])
        return min(TARGET, max(LEAST, left / (LAST * max(1, self.slots()))))

    def _parts(self, unit: Any, group: Hashable) -> Iterator[Part]:
        estimates = self._estimates(group)
        every = tuple(range(self.rows))
        if estimates is None:
            for bundle in range(self.bundles):
                for row in every:
                    yield Part(unit, (row,), (bundle,))
            return
        target = self._target()
        joined: list[int] = []
        seconds = 0.0
        for bundle in sorted(range(self.bundles), key=lambda b: -estimates[b]):
            whole = self.rows * estimates[bundle]
            if whole > target:
                step = max(1, int(target / estimates[bundle]))
                for start in range(0, self.rows, step):
                    yield Part(unit, every[start : start + step], (bundle,))
                continue
            if joined and seconds + whole > target:
                yield Part(unit, every, tuple(joined))
                joined, seconds = [], 0.0
            joined.append(bundle)
            seconds += whole
        if joined:
            yield Part(unit, every, tuple(joined))
