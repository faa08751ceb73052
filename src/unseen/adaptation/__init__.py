"""At a new domain with a few labels: class offsets, and the simulation of adaptation on source domains.

Functions on arrays of probabilities and labels. `UnseenClassifier.adapt` and `Model.adapt` apply them to models.
"""

from ._offsets import OffsetPrior, apply_offsets, fit_offsets, log_evidence
from ._plan import (
    AS_IS,
    LEVELS,
    METRICS,
    MIN_TEST_ROWS,
    OFFSETS,
    REFIT,
    AdaptationPlan,
    Decision,
    HeldOutDomain,
    limit_held_out_domains,
    score_gains,
    simulate_adaptation,
)

__all__ = ["AdaptationPlan"]
