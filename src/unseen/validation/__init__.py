"""Validation of models on held-out sites: discrimination, calibration, usefulness, summaries, report.

Imports from `models`, `metrics`, `model_selection`, `tables` and `report`.
"""

from ._held_out import FitOptions, SitePrediction, fit_threshold
from ._measures import MEASURES
from ._pdf import find_browser
from ._result import ValidationResult, ValidationSettings
from ._validate import DEFAULT_COMPARISONS, choose_positive, validate, validate_predictions

__all__ = ["ValidationResult", "validate", "validate_predictions"]
