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

__all__ = ["AdaptationPlan", "select_rows_to_label"]
