"""At a new domain with a few labels: levels of adaptation, and their simulation on source domains.

Functions on arrays of probabilities and labels. `UnseenClassifier.adapt` and `Model.adapt` apply them to models.
"""

from ._estimates import (
    OffsetPrior,
    apply_offsets,
    fit_feature_effects,
    fit_offsets,
    log_evidence,
    update_weights,
)
from ._plan import (
    AS_IS,
    FEATURES,
    LEVEL_NAMES,
    LEVELS,
    LOCAL,
    METRICS,
    OFFSETS,
    REFIT,
    WEIGHTS,
    AdaptationPlan,
    Decision,
    check_level,
)
from ._simulation import (
    MAX_ROWS,
    MIN_TEST_ROWS,
    HeldOutDomain,
    adapt_probabilities,
    make_local_model,
    mix_members,
    score_gains,
    simulate_adaptation,
)

__all__ = ["AdaptationPlan"]
