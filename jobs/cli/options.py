"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from ..inputs.errors import BadInput

Trees = Annotated[int, typer.Option(min=1, help="Number of trees in the forest.")]
Depth = Annotated[int, typer.Option(min=1, help="Maximum depth of the trees.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31, help="Random seed.")]
Solver = Annotated[str, typer.Option(help="Solver: auto, engine, highs, gurobi or oracle.")]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Load pickled models. A pickle can run any code.")
]
TimeLimit = Annotated[float, typer.Option(help="Time limit in seconds per customer and method.")]
Cutoff = Annotated[
    float | None,
    typer.Option(
        help="Score, in (0, 1), at which the model decides for the target. Default: the model's own."
    ),
]
ScoreOf = Annotated[
    str | None,
    typer.Option(help="Label whose score must be at most the cut-off, such as that of a default."),
]
Decision = Annotated[
    str | None,
    typer.Option(
        help="With more than two classes: plurality (the highest score wins; default) or one-against-rest."
    ),
]
Config = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A TOML file; docs/jobs.md lists its settings.")
]
Address = Annotated[
    str | None,
    typer.Option(help="Address of a Ray cluster (or RAY_ADDRESS). Default: start Ray on this machine."),
]
Cpus = Annotated[int | None, typer.Option(min=1, help="CPUs of this machine to use. Default: all.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, local or a URI.")]


def check_cutoff(cutoff: float | None, score_of: str | None, decision: str | None = None) -> None:
    """Raise BadInput unless the options of the decision fit together."""
    from robustcf.forest.decision import RULES  # loads numpy, which --help does not need

    if decision is not None and decision not in RULES:
        raise BadInput(f"--decision is {decision!r}; choose {' or '.join(RULES)}")
    if decision == "plurality" and cutoff is not None:
        raise BadInput("--decision plurality has no --cutoff; leave one of the two out")
    if cutoff is not None and not 0 < cutoff < 1:
        raise BadInput(f"--cutoff is {cutoff}; it must lie strictly between 0 and 1")
    if score_of is not None and cutoff is None:
        raise BadInput("--score-of needs --cutoff")
