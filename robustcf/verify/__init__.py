"""Checks of a finished run by other means than those it was made with.

Nothing here knows cells, engines or the explainer: trees are walked, thresholds solved for, moves priced
and rules applied as an auditor would write them down from the documentation. Each check takes plain
arrays and notes what differs in `Findings`; reading files is for others (`robustcf_jobs.verify.command`).
"""

from robustcf.verify.demands import Demand, predicted, threshold
from robustcf.verify.findings import Findings
from robustcf.verify.moves import Changes, Moves, check_moves
from robustcf.verify.rows import check_block
from robustcf.verify.sheet import Asked, Block
from robustcf.verify.summary import Tally
from robustcf.verify.trees import Trees

__all__ = [
    "Asked",
    "Block",
    "Changes",
    "Demand",
    "Findings",
    "Moves",
    "Tally",
    "Trees",
    "check_block",
    "check_moves",
    "predicted",
    "threshold",
]
