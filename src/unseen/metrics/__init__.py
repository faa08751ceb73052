"""Statistics of validation over domains: performance, calibration, meta-analysis, expected performance."""

from ._count_effects import count_random_effects
from ._meta_analysis import (
    TAU_PRIOR_SCALES,
    Estimate,
    ExpectedPerformance,
    RandomEffects,
    Scale,
    expected_performance,
    random_effects,
)
from ._probabilities import (
    CalibrationCurve,
    DevelopmentSize,
    auc,
    brier_score,
    calibration_curve,
    calibration_in_the_large,
    calibration_slope,
    development_size,
    log_loss,
    observed_expected_ratio,
    scaled_brier_score,
)
from ._thresholds import (
    DecisionCurve,
    ThresholdChoice,
    choose_threshold,
    decision_curve,
    share,
    stated_odds,
    threshold_performance,
)

__all__ = [
    "TAU_PRIOR_SCALES",
    "CalibrationCurve",
    "DecisionCurve",
    "Estimate",
    "ExpectedPerformance",
    "RandomEffects",
    "Scale",
    "ThresholdChoice",
    "auc",
    "brier_score",
    "calibration_curve",
    "calibration_in_the_large",
    "calibration_slope",
    "choose_threshold",
    "count_random_effects",
    "decision_curve",
    "development_size",
    "expected_performance",
    "log_loss",
    "observed_expected_ratio",
    "random_effects",
    "scaled_brier_score",
    "share",
    "stated_odds",
    "threshold_performance",
]
