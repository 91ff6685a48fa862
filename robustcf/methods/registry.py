"""All methods by name: those of robustcf, and those of installed packages.

Another package adds a method with an entry point in the group `robustcf.methods`. The entry point has the
method's name and its class, a frozen dataclass that extends `Method`. The method then works in `Explainer`,
configs, tables, reports and `verify`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from robustcf.methods.base import Method, title
from robustcf.methods.certified.method import Certified
from robustcf.methods.isolation.method import IsolationForest
from robustcf.methods.lof.method import LocalOutlierFactor
from robustcf.methods.robx.method import RobX
from robustcf.methods.thresholds import ConvexApproximation, DirectSAA, Margin, Naive, RobustSAA

OWN: tuple[type[Method], ...] = (
    Naive,
    Margin,
    DirectSAA,
    RobustSAA,
    ConvexApproximation,
    Certified,
    IsolationForest,
    LocalOutlierFactor,
    RobX,
)
PLUGINS = "robustcf.methods"


@cache
def methods_by_name() -> dict[str, type[Method]]:
    """Return the class of every known method by its name.

    >>> methods_by_name()["direct-saa"].label
    'Direct-SAA'
    """
    found: dict[str, type[Method]] = {own.name: own for own in OWN}
    for plugin in entry_points(group=PLUGINS):
        kind: Any = plugin.load()
        where = f"method {plugin.name!r} of {plugin.value}"
        is_method = isinstance(kind, type) and issubclass(kind, Method)
        if not (is_method and hasattr(kind, "__dataclass_fields__")):
            raise TypeError(f"{where} is not a dataclass that extends Method")
        if kind.name != plugin.name or kind.name in found:
            raise TypeError(
                f"{where}: its name {kind.name!r} is already taken, or differs from the entry point's"
            )
        found[kind.name] = kind
    return found


def title_of(name: str, alpha: float | None, beta: float | None, parameter: float | None) -> str:
    """Return the title of a method in a run's table; an unknown name stays as it is.

    >>> title_of("isolation-forest", None, None, 0.1)
    'Isolation forest, contamination = 0.1'
    """
    kind = methods_by_name().get(name)
    label, symbol = (name, Method.symbol) if kind is None else (kind.label, kind.symbol)
    return title(label, symbol, alpha, beta, parameter)


def certifies(name: str) -> bool:
    """Whether a method's rows have certificates.

    >>> certifies("certified"), certifies("direct-saa")
    (True, False)
    """
    kind = methods_by_name().get(name)
    return kind is not None and kind.design is not None


def promises(name: str) -> bool:
    """Whether a method aims at robustness against retraining."""
    kind = methods_by_name().get(name)
    return kind is not None and kind.promises


def is_own(name: str) -> bool:
    """Whether a method is robustcf's own; `verify` can recompute its threshold."""
    return any(kind.name == name for kind in OWN)
