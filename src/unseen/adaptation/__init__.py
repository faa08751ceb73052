"""At a new domain with a few labels: levels of adaptation, their simulation on source domains, and monitoring.

Functions on arrays of probabilities and labels. `UnseenClassifier.adapt` and `Model.adapt` apply them to models.
"""

from ._member_weights import update_weights
from ._offsets import OffsetPrior, apply_offsets, fit_offsets, log_evidence, log_probabilities
from ._plan import (
    AS_IS,
    LEVEL_NAMES,
    LEVELS,
    LOCAL,
    METRICS,
    MIN_LABELS,
    OFFSETS,
    REFIT,
    SIZES,
    WEIGHTS,
    AdaptationPlan,
    Decision,
    Gain,
    check_level,
    format_levels,
)
from ._row_selection import select_rows_to_label
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

__all__ = [
    "AS_IS",
    "LEVELS",
    "LEVEL_NAMES",
    "LOCAL",
    "MAX_ROWS",
    "METRICS",
    "MIN_LABELS",
    "MIN_TEST_ROWS",
    "OFFSETS",
    "REFIT",
    "SIZES",
    "WEIGHTS",
    "AdaptationPlan",
    "Decision",
    "Gain",
    "HeldOutDomain",
    "OffsetPrior",
    "adapt_probabilities",
    "apply_offsets",
    "check_level",
    "fit_offsets",
    "format_levels",
    "log_evidence",
    "log_probabilities",
    "make_local_model",
    "mix_members",
    "score_gains",
    "select_rows_to_label",
    "simulate_adaptation",
    "update_weights",
]
