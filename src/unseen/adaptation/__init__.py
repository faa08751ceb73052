"""At a new domain with a few labels: levels of adaptation, their simulation on source domains, and monitoring.

Functions on arrays of probabilities and labels. `UnseenClassifier.adapt` and `Model.adapt` apply them to models.
"""

from ._batch_log import append_batch, read_batches, summarize_history
from ._control_charts import RUN_LENGTH, ControlChart, average_run_length, draw_control_chart, limit_multiplier
from ._feature_effects import FeatureEffects, fit_feature_effects
from ._member_weights import update_weights
from ._offsets import OffsetPrior, apply_offsets, fit_offsets, log_evidence, log_probabilities
from ._plan import (
    AS_IS,
    FEATURES,
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
    "FEATURES",
    "LEVELS",
    "LEVEL_NAMES",
    "LOCAL",
    "MAX_ROWS",
    "METRICS",
    "MIN_LABELS",
    "MIN_TEST_ROWS",
    "OFFSETS",
    "REFIT",
    "RUN_LENGTH",
    "SIZES",
    "WEIGHTS",
    "AdaptationPlan",
    "ControlChart",
    "Decision",
    "FeatureEffects",
    "Gain",
    "HeldOutDomain",
    "OffsetPrior",
    "adapt_probabilities",
    "append_batch",
    "apply_offsets",
    "average_run_length",
    "check_level",
    "draw_control_chart",
    "fit_feature_effects",
    "fit_offsets",
    "format_levels",
    "limit_multiplier",
    "log_evidence",
    "log_probabilities",
    "make_local_model",
    "mix_members",
    "read_batches",
    "score_gains",
    "select_rows_to_label",
    "simulate_adaptation",
    "summarize_history",
    "update_weights",
]
