"""Comparisons of methods on held-out domains.

`compare` runs a comparison on a table. `run` computes the result rows of tasks under a `Protocol` and keeps them in a
`Store`; tables, verdicts and figures are computed from these rows. May import every package except
`images`, `explore` and `cli`.
"""

from ..model_selection import METHODS
from ._compare import Comparison, compare, compare_table, comparison_methods
from ._held_out import ValidationOptions
from ._protocol import COMPARISON_PROTOCOL, Protocol, Task, choose_repeats, make_tasks, subsample_domains
from ._result_tables import AccuracyTable, Cell, load_published, make_accuracy_table, make_summary_rows
from ._run import Execution, run
from ._site_curve import SiteLearningCurve, site_learning_curve
from ._store import Row, Store
from ._synthetic import (
    CHOSEN_BY,
    SYNTHETIC_METHODS,
    check_draw,
    draw_synthetic,
    make_synthetic_problem,
    run_synthetic,
    tied_target_accuracies,
)
from ._synthetic_figure import draw_synthetic_figure
from ._verdict import describe_imbalance

__all__ = [
    "METHODS",
    "Comparison",
    "Protocol",
    "Row",
    "SiteLearningCurve",
    "Store",
    "Task",
    "compare",
    "make_tasks",
    "run",
    "site_learning_curve",
]
