"""Comparisons of methods over domains: tasks, a protocol, a store of results, and tables."""

from ._compare import Comparison, Work, compare, compare_table
from ._figure import synthetic_figure
from ._methods import METHODS
from ._protocol import Protocol, thin
from ._run import run
from ._store import Row, Store
from ._synthetic import CHOSEN_BY, check_draw, fresh_draw, run_synthetic, synthetic_problem, ties
from ._tables import AccuracyTable, Cell, accuracy_table, published, summary_lines
from ._tasks import Task, tasks

__all__ = ["METHODS", "Comparison", "Protocol", "Row", "Store", "Task", "run", "tasks"]
# For other rooms, and for nobody else.
__all__ += [
    "CHOSEN_BY",
    "AccuracyTable",
    "Cell",
    "Work",
    "accuracy_table",
    "check_draw",
    "compare",
    "compare_table",
    "fresh_draw",
    "published",
    "run_synthetic",
    "summary_lines",
    "synthetic_figure",
    "synthetic_problem",
    "thin",
    "ties",
]
