"""Evaluation of methods on held-out domains: comparison, validation, and the learning curve over domains.

`run` computes the result rows of tasks under a `Protocol` and keeps them in a `Store`; tables, recommendations,
statistics of validation, texts and figures are computed from held-out predictions. May import every package except
`images`, `explore` and `cli`.
"""

from ..model_selection import METHODS
from ._compare import Comparison, compare, compare_table, comparison_methods
from ._held_out import ValidationOptions
from ._importance import ColumnImportance, Importance
from ._measures import MEASURES
from ._pdf import find_browser
from ._protocol import COMPARISON_PROTOCOL, Protocol, Task, choose_repeats, make_tasks, subsample_domains
from ._result import ValidationResult
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
from ._validate import DEFAULT_COMPARISONS, validate, validate_predictions
from ._verdict import describe_imbalance

__all__ = [
    "METHODS",
    "Comparison",
    "Importance",
    "Protocol",
    "Row",
    "SiteLearningCurve",
    "Store",
    "Task",
    "ValidationResult",
    "compare",
    "make_tasks",
    "run",
    "site_learning_curve",
    "validate",
    "validate_predictions",
]
