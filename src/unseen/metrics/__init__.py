"""Statistics of validation over domains: performance, calibration, meta-analysis, expected performance."""

from ._calibration import (
    CalibrationCurve,
    CalibrationFit,
    ClassCalibration,
    brier_score,
    calibration_curve,
    calibration_in_the_large,
    calibration_slope,
    class_calibration,
    log_loss,
    observed_expected_ratio,
    scaled_brier_score,
)
from ._discrimination import auc, one_vs_rest_auc
from ._estimates import Estimate, back_transform
from ._expected_performance import ExpectedPerformance, expected_performance
from ._meta_analysis import TAU_PRIOR_SCALES, RandomEffects, random_effects
from ._thresholds import (
    DecisionCurve,
    ThresholdChoice,
    ThresholdPerformance,
    choose_threshold,
    decision_curve,
    net_benefit,
    share,
    threshold_performance,
)

__all__ = [
    "TAU_PRIOR_SCALES",
    "CalibrationCurve",
    "CalibrationFit",
    "ClassCalibration",
    "DecisionCurve",
    "Estimate",
    "ExpectedPerformance",
    "RandomEffects",
    "ThresholdChoice",
    "ThresholdPerformance",
    "auc",
    "back_transform",
    "brier_score",
    "calibration_curve",
    "calibration_in_the_large",
    "calibration_slope",
    "choose_threshold",
    "class_calibration",
    "decision_curve",
    "expected_performance",
    "log_loss",
    "net_benefit",
    "observed_expected_ratio",
    "one_vs_rest_auc",
    "random_effects",
    "scaled_brier_score",
    "share",
    "threshold_performance",
]
