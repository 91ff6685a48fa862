"""Texts on what the report does not prove, with the counts of this run."""

from __future__ import annotations

from collections.abc import Iterator

from robustcf.report.content import Report
from robustcf.report.words import count, share

Doubt = tuple[str, str]


def not_proved(report: Report) -> list[Doubt]:
    """Return headings and texts; those about this run's own rows come first."""
    return [*_rows(report), *_retraining(report), *_numbers(report), *_always()]


def _rows(report: Report) -> Iterator[Doubt]:
    d = report.doubts
    if report.state != "complete":
        yield (
            "The run is not complete.",
            f"Its state is “{report.state}”. All numbers on this page lack the missing rows.",
        )
    if d.unverified:
        yield (
            "Unverified answers.",
            f"{count(d.unverified)} rows have a point that the model did not confirm. Do not use them.",
        )
    if d.error:
        yield "Errors.", f"{count(d.error)} rows ended in an error and have no answer."
    if d.feasible:
        kept = (
            f" {count(d.kept)} of them were copied from the previous run without solving." if d.kept else ""
        )
        yield (
            "Not proved nearest.",
            f"{count(d.feasible)} rows have an answer that works, but a nearer one may exist (by up to "
            f"{share(d.worst_gap)} of the distance).{kept}",
        )
    if d.timeout:
        yield (
            "Nothing found, nothing proved.",
            f"{count(d.timeout)} rows reached the time limit. These customers may have recourse.",
        )
    if d.heuristic:
        yield (
            "Heuristics.",
            f"{count(d.heuristic)} rows come from a heuristic method, which proves nothing.",
        )
    if d.relaxed:
        yield (
            "Relaxed plausibility.",
            f"In {count(d.relaxed)} rows no allowed point meets the plausibility condition. Their answers "
            "violate it.",
        )
    if d.open_best_scores:
        yield (
            "Best reachable scores.",
            "Every “proved none” is proved. In "
            f"{count(d.open_best_scores)} of these rows, the best reachable score is not proved.",
        )
    if d.invalid:
        yield (
            "Unreadable customers.",
            f"{count(d.invalid)} rows of the table could not be read. No mean and no share includes them.",
        )
    if not (d.unverified or d.error or d.feasible or d.timeout or d.heuristic or d.relaxed):
        yield (
            "All answers of this run are proved.",
            "For every denied customer and every method, the run has the nearest allowed change or a proof "
            "that none exists. These proofs do not cover the points below.",
        )


def _retraining(report: Report) -> Iterator[Doubt]:
    d = report.doubts
    if d.measured:
        yield (
            "Agreement of future forests.",
            f"Validity was measured on {count(d.forests)} retrained forests in each listed scenario. The "
            "measurement does not cover forests trained on other data, later, or in another way.",
        )
    else:
        yield (
            "Validity was not measured.",
            "The run had no training data, so no forest was retrained. The report shows only the predicted "
            "validity, which tends to be optimistic.",
        )
    if d.certified:
        yield (
            "Certificates.",
            f"{count(d.certified)} rows are certified. Each certificate may be wrong with the probability δ "
            "that it names. It covers one scenario, and only the exact values of the point.",
        )
    yield (
        "Predicted validity.",
        "It comes from the explained forest alone. The point was chosen because this forest gives it a high "
        "score, so the prediction tends to be too high, most of all on data with many features. Prefer the "
        "measured validity where it is available.",
    )
    if d.soft:
        yield (
            "The theory counts votes; this run averages probabilities.",
            "The guarantee behind α holds for trees that vote yes or no. For soft voting, as in "
            "scikit-learn, it is an approximation.",
        )


def _numbers(report: Report) -> Iterator[Doubt]:
    d = report.doubts
    kinds = (("validity", d.validity_interval), ("distance", d.distance_interval))
    parts = "; ".join(f"{name}: {kind}" for name, kind in kinds if kind)
    if parts:
        yield (
            "Intervals.",
            f"All intervals have a confidence level of 95 % ({parts}). Only those of the differences "
            "between groups are corrected for multiple comparisons.",
        )
    if any(p.groups for p in report.populations):
        yield (
            "Groups.",
            "Differences between groups describe this table only. They do not test fairness or show causes. "
            "In small groups they are mostly chance. A group that does not differ here may still be treated "
            "differently: an interval that includes 0 proves nothing.",
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
        "The advice shows what the model rewards. A customer who follows it need not become a better risk.",
    )
    yield (
        "Feasibility for people.",
        "The report excludes only the changes that the schema forbids. The distance uses the schema's "
        "weights, not the effort of a person.",
    )
    yield (
        "This page.",
        "It shows the run's tables and does not check them again. “robustcf verify” checks a run from its "
        "files alone.",
    )
