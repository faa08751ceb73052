"""Evaluation of methods on held-out domains: comparison, validation, and the learning curve over domains.

`run` fits methods without each held-out domain under a `Protocol`, predicts it, and keeps the predictions in a `Store`;
comparisons, validations, recommendations and texts are functions of these predictions. May import every package except
`images`, `explore` and `cli`.
"""

from ..model_selection import METHODS
from ._comparison import Comparison, compare, comparison_methods
from ._measures import MEASURES, Outcomes, measure_binary, measure_multiclass
from ._protocol import Protocol, Task, make_tasks
from ._recommendation import describe_imbalance
from ._reproduction import (
    CHOSEN_BY,
    SYNTHETIC_METHODS,
    check_draw,
    draw_synthetic,
    draw_synthetic_figure,
    load_published,
    make_accuracy_table,
    run_synthetic,
)
from ._result import ValidationResult, ValidationSettings
from ._run import HeldOutPredictions, run
from ._site_curve import SiteLearningCurve, make_average_candidates, predict_averages, site_learning_curve
from ._store import Row, Store
from ._validate import DEFAULT_COMPARISONS, check_cost, validate, validate_predictions

__all__ = [
    "METHODS",
    "Comparison",
    "HeldOutPredictions",
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
