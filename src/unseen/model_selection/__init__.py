"""Model selection over held-out domains: splitters, methods, evaluation, searches, ensembles and their displays.

`evaluate_candidates` turns samples, splits and candidates into out-of-domain predictions; every selection is a function
of these.
"""

from ._acceptance import AcceptanceTest, make_trial_batches, sample_skewed_batch
from ._adaptation import SourceData, adapt_ensemble, check_new_domain, check_not_adapted, plan_adaptation
from ._average import (
    AVERAGE_METHODS,
    iterate_averages,
    make_average_candidates,
    predict_by_average,
    score_probabilities,
)
from ._calibration import N_CALIBRATION_BINS
from ._candidate import (
    Candidate,
    bind_domains,
    full_repr,
    hash_files,
    ignore_expected_warnings,
    is_transductive,
    transform_for_classifier,
)
from ._comparison import (
    CandidateResult,
    best_by_variant,
    check_comparison_size,
    forecast,
    select_result,
    warn_about_failures,
)
from ._displays import LeaderboardDisplay, ValidationSurfaceDisplay
from ._ensemble import MIN_BATCH_ROWS, EnsembleClassifier
from ._ensemble_selection import FULL_ENSEMBLE, INDUCTIVE_ENSEMBLE, FittedEnsemble, OutOfDomainPredictions
from ._evaluation import (
    EXPECTED_ERRORS,
    CachedSplit,
    DecompositionCache,
    EvaluationConfig,
    Prediction,
    ProgressOptions,
    collect_responses,
    decision_scores,
    encode_predictions,
    evaluate_candidates,
    group_by,
    required_responses,
    single_thread,
)
from ._forecast import (
    MAX_USABLE_SHARE,
    MIN_DOMAINS_FOR_INTERVAL,
    Forecast,
    describe_expected_performance,
    domains_for_coverage,
    domains_for_interval,
    explain_missing_interval,
    is_informative,
)
from ._leaderboard import Leaderboard, LeaderboardRow
from ._methods import (
    AUTO_TRANSDUCTIVE,
    HEADS,
    METHODS,
    GridName,
    Method,
    TableSize,
    describe_method,
    expand_methods,
    get_method,
    method_names,
    parse_methods,
    register,
)
from ._metrics import Metric, Scoring, check_metric, describe_rare_class, get_metric, metric_range, score_labels
from ._preparation import TablePreparation, join_views, prepare_samples, tree_features, tree_samples
from ._projection_search import ProjectionSearchCV
from ._refit import (
    RefittedMembers,
    SelectedModel,
    SelectionOptions,
    limit_evaluation_rows,
    refit_candidates,
    select_model,
)
from ._splitters import (
    HeldOutDomains,
    LeaveOneDomainOut,
    LeavePDomainsOut,
    Split,
    TrialSplits,
    WithinDomainSplit,
    check_groups_not_split,
)
from ._unseen_classifier import UnseenClassifier
from ._validation import TIE_TOLERANCE, Score, Scorer, score_predictions, tabulate_candidates, tabulate_scores

__all__ = [
    "METHODS",
    "EnsembleClassifier",
    "Forecast",
    "HeldOutDomains",
    "Leaderboard",
    "LeaderboardDisplay",
    "LeaderboardRow",
    "LeaveOneDomainOut",
    "LeavePDomainsOut",
    "Method",
    "ProjectionSearchCV",
    "UnseenClassifier",
    "ValidationSurfaceDisplay",
    "WithinDomainSplit",
    "register",
]
