"""The alarms of a run, `alarms.json`: its limits, what was measured, and which of them are broken."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StrictFloat, StrictStr, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from robustcf.methods.registry import title_of
from robustcf.support.documents import parse_json

from ..inputs.errors import BadInput
from ..inputs.limits import HIGH
from ..inputs.validation_error import first_problem
from .figures import Counted, figures
from .folder import RunFolder

FILE = "alarms.json"
STATES = ("ok", "warn", "fail")
NAMES = {
    "validity": "validity after retraining",
    "without_recourse": "share of denied customers without recourse",
    "unproved": "share of denied customers without a proved answer",
    "survival": "share of earlier promises that survive",
    "group_difference": "difference between a group and all others in the share without recourse",
    "seconds": "run time",
}
State = Literal["ok", "warn", "fail"]


def raised(
    limits: Mapping[str, Any], counted: Sequence[Counted], manifest: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of `alarms.json`.

    A figure that could not be measured breaks its limit: it fails, or warns if only `warn` is set.
    """
    key, found = figures(counted, manifest)
    alarms = []
    for name, limit in limits.items():
        measured = found[name]
        state = _state(measured.value, name in HIGH, limit["warn"], limit["fail"])
        alarms.append(
            {
                "figure": name,
                "state": state,
                "value": None if measured.value is None else float(measured.value),
                "must_be": "high" if name in HIGH else "low",
                "warn": limit["warn"],
                "fail": limit["fail"],
                "about": measured.about,
            }
        )
    worst = max((STATES.index(a["state"]) for a in alarms), default=0)
    return {"state": STATES[worst], "method": title_of(*key), "alarms": alarms}


def _state(value: float | None, high: bool, warn: float | None, fail: float | None) -> State:
    def broken(level: float | None) -> bool:
        return level is not None and (value is None or (value < level if high else value > level))

    return "fail" if broken(fail) else "warn" if broken(warn) else "ok"


def write_alarms(run: RunFolder, manifest: dict[str, Any], document: Mapping[str, Any]) -> None:
    """Publish `alarms.json`, and note its digest in the manifest."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    file = run.publish(FILE, (text + "\n").encode())
    manifest["alarms"] = {"size": file.size, "sha256": file.digest, "state": document["state"]}


def limits_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of a run's stored config, without those that are not set."""
    stored = (manifest["config"].get("limits") if manifest["kind"] == "audit" else None) or {}
    return {name: stored[name] for name in NAMES if stored.get(name) is not None}


@dataclass(frozen=True)
class Alarm:
    """One limit and what was measured, as `alarms.json` has it."""

    figure: StrictStr
    state: State
    value: StrictFloat | None
    must_be: Literal["high", "low"]
    warn: StrictFloat | None
    fail: StrictFloat | None
    about: StrictStr

    @property
    def text(self) -> str:
        """The alarm as one sentence."""
        name = NAMES.get(self.figure, self.figure)
        level = self.fail if self.state == "fail" else self.warn
        bound = "at least" if self.must_be == "high" else "at most"
        limit = (
            f"the limit that {'fails' if self.state == 'fail' else 'warns'} is {bound} {self._said(level)}"
        )
        if self.value is None:
            return f"{name}: not measured ({self.about}); {limit}"
        if self.state == "ok":
            return f"{name}: {self._said(self.value)} ({self.about}), within its limits"
        return f"{name}: {self._said(self.value)} ({self.about}); {limit}"

    def _said(self, value: float | None) -> str:
        from robustcf.report.words import share  # `verify`, which shows no text, loads no report

        if value is None or self.figure != "seconds":
            return share(value)
        return f"{value:,.0f} seconds"


@dataclass(frozen=True)
class Alarms:
    """The content of `alarms.json`."""

    state: State
    method: StrictStr
    alarms: Annotated[tuple[Alarm, ...], Field(max_length=100)]

    @property
    def broken(self) -> Iterator[Alarm]:
        """The alarms of broken limits, those that fail first."""
        return iter(sorted((a for a in self.alarms if a.state != "ok"), key=lambda a: a.state != "fail"))


_SHAPE = TypeAdapter(Alarms)


def read_alarms(run: RunFolder) -> Alarms | None:
    """Return the run's alarms, or None if it has no limits."""
    if not run.exists(FILE):
        return None
    try:
        return _SHAPE.validate_python(parse_json(run.read(FILE)))
    except ValidationError as error:
        raise BadInput(f"{run.showing(FILE)} is damaged: {first_problem(error, Alarms)}") from None
    except ValueError:
        raise BadInput(f"{run.showing(FILE)} is not JSON") from None
