"""Statistics of validation over domains: performance, calibration, meta-analysis, expected performance."""

from ._expected_performance import ExpectedPerformance, expected_performance
from ._meta_analysis import TAU_PRIOR_SCALES, RandomEffects, random_effects

__all__ = ["TAU_PRIOR_SCALES", "ExpectedPerformance", "RandomEffects", "expected_performance", "random_effects"]
