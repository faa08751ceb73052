"""Validation of models on held-out sites: discrimination, calibration, usefulness, summaries, report.

Imports from `models`, `metrics`, `model_selection`, `tables` and `report`.
"""

from ._importance import ColumnImportance, Importance
from ._measures import MEASURES
from ._pdf import find_browser
from ._result import ValidationResult, plain_values
from ._validate import DEFAULT_COMPARISONS, validate, validate_predictions

__all__ = ["Importance", "ValidationResult", "validate", "validate_predictions"]
