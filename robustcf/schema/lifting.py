"""A schema's single constraints, and the schema without some of them.

Lifting a constraint never closes a move. A lifted bound gives way to the range in the schema, because the
model has seen no values beyond it. Missing values stay missing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from robustcf.schema.feature import RELATIVE, Feature, SchemaError
from robustcf.schema.schema import Schema


@dataclass(frozen=True)
class Constraint:
    """One constraint: a feature's setting, or a rule across features.

    `kind` is a key of the schema file: "action", "lower", "upper", "allowed", "forbidden", "at_most_up" and
    the other relative bounds, "link" or "max_changes". `link` is the link's position.
    """

    kind: str
    feature: str | None = None
    link: int | None = None


def constraints_of(schema: Schema) -> tuple[Constraint, ...]:
    """Return the constraints that can be lifted, in the order of the schema.

    >>> schema = Schema((Feature("age", "discrete", "increase", values=(20, 30)),
    ...                  Feature("income", "continuous", low=0, high=9, upper=5)))
    >>> [(c.feature, c.kind) for c in constraints_of(schema)]
    [('age', 'action'), ('income', 'upper')]
    """
    found = [c for f in schema.features if f.n_columns for c in _own(f)]
    found += [Constraint("link", link=k) for k in range(len(schema.links))]
    if schema.max_changes is not None:
        found.append(Constraint("max_changes"))
    return tuple(c for c in found if _can_lift(schema, c))


def lifted(schema: Schema, constraints: Collection[Constraint]) -> Schema:
    """Return the schema without these constraints."""
    features = tuple(
        _without(f, kinds) if (kinds := {c.kind for c in constraints if c.feature == f.name}) else f
        for f in schema.features
    )
    dropped = {c.link for c in constraints if c.kind == "link"}
    links = tuple(link for k, link in enumerate(schema.links) if k not in dropped)
    free = any(c.kind == "max_changes" for c in constraints)
    return replace(schema, features=features, links=links, max_changes=None if free else schema.max_changes)


def describe(schema: Schema, constraint: Constraint) -> str:
    """Return a constraint in words.

    >>> schema = Schema((Feature("age", "discrete", "fixed", values=(20, 30), label="Age"),))
    >>> describe(schema, constraints_of(schema)[0])
    'Age may not change'
    """
    if constraint.feature is None:
        if constraint.kind == "max_changes":
            most = schema.max_changes or 0
            return f"at most {most} feature{'s' * (most > 1)} may change"
        return f"the rule {schema.links[constraint.link or 0]}"
    feature = schema[constraint.feature]
    value, unit = getattr(feature, constraint.kind), f" {feature.unit}".rstrip()
    if constraint.kind.endswith("percent"):
        unit = " %"
    said = {
        "action": {
            "fixed": "may not change",
            "increase": "may not decrease",
            "decrease": "may not increase",
        }.get(str(value), ""),
        "lower": f"may not go below {_plain(value)}{unit}",
        "upper": f"may not go above {_plain(value)}{unit}",
        "allowed": "may take only the allowed values",
        "forbidden": "has forbidden moves",
        "at_most_up": f"may rise by at most {_plain(value)}{unit}",
        "at_most_down": f"may fall by at most {_plain(value)}{unit}",
        "at_most_up_percent": f"may rise by at most {_plain(value)}{unit}",
        "at_most_down_percent": f"may fall by at most {_plain(value)}{unit}",
    }[constraint.kind]
    return f"{feature.label or feature.name} {said}"


def _plain(value: Any) -> str:
    return f"{value:,g}" if isinstance(value, int | float) else str(value)


def _own(feature: Feature) -> list[Constraint]:
    kinds = ["action"] if feature.action != "free" else []
    kinds += [k for k in ("allowed", "forbidden", *RELATIVE) if getattr(feature, k) is not None]
    low, high = feature.span if feature.is_number else (0.0, 0.0)
    if feature.kind == "continuous" and any(
        not low <= feature.number(v) <= high for v in feature.allowed or ()
    ):
        kinds.remove("allowed")  # the range that would replace it closes the values beyond
    kinds += ["lower"] if feature.lower is not None and feature.lower > low else []
    kinds += ["upper"] if feature.upper is not None and feature.upper < high else []
    return [Constraint(kind, feature.name) for kind in kinds]


def _without(feature: Feature, kinds: Collection[str]) -> Feature:
    changes: dict[str, Any] = {k: None for k in kinds if k != "action"}
    if "action" in kinds:
        changes["action"] = "free"
    return replace(feature, **changes)


def _can_lift(schema: Schema, constraint: Constraint) -> bool:
    """Whether the schema stays valid: a link may need listed values, and a constant must be fixed."""
    try:
        lifted(schema, [constraint])
    except SchemaError:
        return False
    return True
