"""Comparisons of methods over domains: who is left out, by which rules, what came of it, and what that means.

`compare` does it all for a table; `run` gives the rows of results for tasks under a `Protocol`, kept in a `Store`.
Tables, verdicts and pictures are readings of these rows. May use every room but the command.
"""

from ..model_selection import METHODS
from ._compare import Comparison, compare, compare_table
from ._protocol import Protocol, Task, subsample_task, tasks
from ._result_tables import AccuracyTable, Cell, accuracy_table, published, summary_lines
from ._run import Execution, run
from ._store import Row, Store
from ._synthetic import CHOSEN_BY, check_draw, fresh_draw, run_synthetic, synthetic_problem, ties
from ._synthetic_figure import synthetic_figure
from ._verdict import imbalance

__all__ = ["METHODS", "Comparison", "Protocol", "Row", "Store", "Task", "run", "tasks"]
# For other rooms, and for nobody else.
__all__ += [
    "CHOSEN_BY",
    "AccuracyTable",
    "Cell",
    "Execution",
    "accuracy_table",
    "check_draw",
    "compare",
    "compare_table",
    "fresh_draw",
    "imbalance",
    "published",
    "run_synthetic",
    "subsample_task",
    "summary_lines",
    "synthetic_figure",
    "synthetic_problem",
    "ties",
]
