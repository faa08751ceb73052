"""Comparisons of methods over domains: tasks, a protocol, a store of results, and tables."""

from ..selection import METHODS
from ._compare import Comparison, compare, compare_subject
from ._figure import synthetic_figure
from ._protocol import Protocol, thin
from ._published import published
from ._run import run
from ._store import Row, Store
from ._subject import subject_of_table
from ._synthetic import CHOSEN_BY, check_draw, fresh_draw, run_synthetic, synthetic_problem, ties
from ._tables import Cell, Table, summary_lines, tabulate
from ._tasks import Task, tasks

__all__ = ["METHODS", "Comparison", "Protocol", "Row", "Store", "Task", "run", "tasks"]
# For other rooms, and for nobody else.
__all__ += [
    "CHOSEN_BY",
    "Cell",
    "Table",
    "check_draw",
    "compare",
    "compare_subject",
    "fresh_draw",
    "published",
    "run_synthetic",
    "subject_of_table",
    "summary_lines",
    "synthetic_figure",
    "synthetic_problem",
    "tabulate",
    "thin",
    "ties",
]
