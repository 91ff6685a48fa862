"""The records of the experiment: one line per customer, voting, method and α."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from robustcf.reproduction.certified.design import Design, rows_of

ANSWER = ["scenario", "data", "simulation", "voting", "row", "method", "alpha", "certificate_for"]
COLUMNS = [*ANSWER, "status", "distance", "validity", "certified", "level", "pool_trees", "seconds"]
UNIT = ["scenario", "data", "simulation"]
ABOUT = [*UNIT, "one forest", "fresh forests", "training_rows"]
CUSTOMER = ["data", "simulation", "row"]


@dataclass(frozen=True)
class Results:
    """The records and the simulations of one or two scenarios, with the design of each."""

    rows: pd.DataFrame
    units: pd.DataFrame
    designs: Mapping[str, Design]

    def of(self, scenario: str) -> pd.DataFrame:
        return self.rows[self.rows["scenario"] == scenario]


def collect(
    records: Iterable[Mapping[str, Any]], units: Iterable[Mapping[str, Any]], design: Design
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the records of finished simulations, and these simulations, as tables.

    A record without a scenario is about the same data. An interrupted run may have stored a record twice;
    the last one counts.
    """
    about = pd.DataFrame(list(units)).reindex(columns=[*ABOUT])
    about["scenario"] = about["scenario"].astype(object).fillna("same-data")
    known = about["data"].map(lambda name: None if (n := rows_of(name)) is None else design.used_rows(n))
    about["training_rows"] = about["training_rows"].fillna(known.astype(float))
    about = about.drop_duplicates(UNIT, keep="last")
    rows = pd.DataFrame(list(records)).reindex(columns=COLUMNS)
    rows["scenario"] = rows["scenario"].astype(object).fillna("same-data")
    certified = (rows["method"] == "certified") & rows["certificate_for"].isna()
    rows["certificate_for"] = rows["certificate_for"].astype(object).mask(certified, "same-data")
    rows["certified"] = rows["certified"].astype("boolean")
    numbers = ["alpha", "distance", "validity", "level", "pool_trees", "seconds"]
    rows[numbers] = rows[numbers].astype(float)
    done = pd.MultiIndex.from_frame(rows[UNIT]).isin(pd.MultiIndex.from_frame(about[UNIT]))
    rows = rows[done].drop_duplicates(ANSWER, keep="last")
    order = ["data", "simulation"]
    return (
        rows.sort_values(order, kind="stable", ignore_index=True),
        about.sort_values(order, kind="stable", ignore_index=True),
    )


def with_recourse(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the records of customers whose naive answer is not `no_recourse`, per voting."""
    naive = rows[(rows["method"] == "naive") & (rows["status"] != "no_recourse")]
    key = ["voting", *CUSTOMER]
    return rows[pd.MultiIndex.from_frame(rows[key]).isin(pd.MultiIndex.from_frame(naive[key]))]


def answers(rows: pd.DataFrame, method: str, certificate_for: str | None = None) -> pd.DataFrame:
    """Return the records of one method, indexed by customer."""
    own = rows[rows["method"] == method]
    if certificate_for is not None:
        own = own[own["certificate_for"] == certificate_for]
    return own.set_index(CUSTOMER)


def granted(own: pd.DataFrame) -> pd.DataFrame:
    return own[own["certified"].fillna(False).astype(bool)]
