"""Check a finished run with code that is independent of the code that made it.

Nothing here uses cells, engines or the explainer. This package walks the trees, solves for thresholds,
prices moves and applies rules as an auditor would implement them from the documentation. Each check
takes arrays and adds differences to `Findings`. `robustcf_jobs.verify` reads the files.
"""

from robustcf.verify.demands import Demand, predicted, threshold
from robustcf.verify.findings import Findings
from robustcf.verify.moves import Changes, Moves, check_moves
from robustcf.verify.rows import check_block
from robustcf.verify.sheet import Block, ShardQuestion
from robustcf.verify.summary import Tally
from robustcf.verify.trees import Trees

__all__ = [
    "Block",
    "Changes",
    "Demand",
    "Findings",
    "Moves",
    "ShardQuestion",
    "Tally",
    "Trees",
    "check_block",
    "check_moves",
    "predicted",
    "threshold",
]
