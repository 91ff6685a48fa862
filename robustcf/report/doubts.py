"""What the report does not prove, said plainly and with the counts of this run."""

from __future__ import annotations

from collections.abc import Iterator

from robustcf.report.content import Report
from robustcf.report.words import count, share

Doubt = tuple[str, str]


def not_proved(report: Report) -> list[Doubt]:
    """Headings and sentences, those about this run's own rows first."""
    return [*_rows(report), *_retraining(report), *_numbers(report), *_always()]


def _rows(report: Report) -> Iterator[Doubt]:
    d = report.doubts
    if report.state != "complete":
        yield (
            "The run is not complete.",
            f"Its state is “{report.state}”: rows are missing from every figure here.",
        )
    if d.unverified:
        yield (
            "Answers without verification.",
            f"{count(d.unverified)} rows hold a point that the model did not confirm. Do not use them.",
        )
    if d.error:
        yield "Errors.", f"{count(d.error)} rows ended in an error and have no answer."
    if d.feasible:
        kept = f" {count(d.kept)} of them were kept from the previous run without solving." if d.kept else ""
        yield (
            "Not proved nearest.",
            f"{count(d.feasible)} rows have an answer that works, but a nearer one may exist (by up to "
            f"{share(d.worst_gap)} of the distance).{kept}",
        )
    if d.timeout:
        yield (
            "Nothing found, nothing proved.",
            f"In {count(d.timeout)} rows the time was up. These customers may have recourse.",
        )
    if d.heuristic:
        yield (
            "Heuristics.",
            f"{count(d.heuristic)} rows come from a method that proves nothing about its answers.",
        )
    if d.relaxed:
        yield (
            "Relaxed plausibility.",
            f"In {count(d.relaxed)} rows no allowed point meets the plausibility condition, and the answer "
            "misses it.",
        )
    if d.open_best_scores:
        yield (
            "Best reachable scores.",
            "“Proved none” is proved in all rows that say so; the best score that can be reached is not, in "
            f"{count(d.open_best_scores)} of them.",
        )
    if d.invalid:
        yield (
            "Customers who could not be read.",
            f"{count(d.invalid)} rows of the table were refused; they are in no mean and no share.",
        )
    if not (d.unverified or d.error or d.feasible or d.timeout or d.heuristic or d.relaxed):
        yield (
            "All answers of this run are proved.",
            "Every denied customer has, for every method, the nearest allowed change or a proof that there "
            "is none. What follows is not covered by those proofs.",
        )


def _retraining(report: Report) -> Iterator[Doubt]:
    d = report.doubts
    if d.measured:
        yield (
            "That a future forest agrees.",
            f"Validity was measured on {count(d.forests)} retrained forests per scenario, under the "
            "scenarios named. A forest trained on other data, later, or in another way is not covered.",
        )
    else:
        yield (
            "Validity was not measured.",
            "The run had no training data, so no forest was trained again. Only the predicted figure is "
            "shown, and it tends to be optimistic.",
        )
    yield (
        "Predicted validity.",
        "It comes from the explained forest alone. The point was chosen because this forest likes it, so "
        "the prediction tends to be too high, most of all on data with many features. Where a measured "
        "figure stands beside it, trust that one.",
    )
    if d.soft:
        yield (
            "The theory counts votes; this run averages probabilities.",
            "The guarantee behind α is about trees that vote yes or no. Soft voting, as scikit-learn does "
            "it, makes it an approximation.",
        )


def _numbers(report: Report) -> Iterator[Doubt]:
    d = report.doubts
    kinds = (("validity", d.validity_interval), ("distance", d.distance_interval))
    parts = "; ".join(f"{name}: {kind}" for name, kind in kinds if kind)
    if parts:
        yield (
            "Intervals.",
            f"They are 95 % intervals of this kind: {parts}. They are not corrected for many comparisons.",
        )
    if any(p.groups for p in report.populations):
        yield (
            "Groups.",
            "Differences between groups describe this table. They are no test of fairness and no cause, and "
            "in small groups they are mostly chance.",
        )
    if len(report.customers) < report.denied:
        yield (
            "A sample is shown.",
            f"The page lists {count(len(report.customers))} of {count(report.denied)} denied customers, "
            "chosen by a hash of their names. The Parquet tables hold all of them.",
        )


def _always() -> Iterator[Doubt]:
    yield (
        "Causes.",
        "The advice says what the model rewards, not that a customer who follows it becomes a better risk.",
    )
    yield (
        "Whether people can do it.",
        "Only what the schema forbids is excluded; the distance is the schema's weights, not anyone's "
        "effort.",
    )
    yield (
        "This page.",
        "It repeats the run's tables and checks nothing again. “robustcf verify” checks a run from its "
        "files alone.",
    )
