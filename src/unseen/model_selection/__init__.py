"""Model selection over held-out domains: splitters, methods, evaluation, searches, ensembles and their displays.

`evaluate_candidates` turns samples, splits and candidates into out-of-domain predictions; every selection is a function
of these.
"""

from ._adaptation import (
    AS_IS,
    FEATURES,
    OFFSETS,
    REFIT,
    AdaptationPlan,
    Adjustment,
    HeldOutDomain,
    OffsetPrior,
    adapt_ensemble,
    check_new_domain,
    check_not_adapted,
    cross_validate_features,
    fit_adjustment,
    log_evidence,
    plan_adaptation,
    score_gains,
    simulate_adaptation,
)
from ._candidate import (
    Candidate,
    bind_domains,
    full_repr,
    hash_files,
    ignore_expected_warnings,
    is_transductive,
    prepare_samples,
    transform_for_classifier,
    tree_samples,
)
from ._ensemble import MIN_BATCH_ROWS, EnsembleClassifier
from ._ensemble_math import softmax
from ._ensemble_selection import (
    FULL_ENSEMBLE,
    INDUCTIVE_ENSEMBLE,
    FittedEnsemble,
    OutOfDomainPredictions,
    limit_held_out_domains,
)
from ._evaluation import (
    EXPECTED_ERRORS,
    EvaluationConfig,
    Prediction,
    PreparedSplits,
    decision_scores,
    evaluate_candidates,
    evaluate_group,
    group_by,
    single_thread,
    tabulate_candidates,
)
from ._leaderboard import (
    MAX_USABLE_SHARE,
    MIN_DOMAINS_FOR_INTERVAL,
    Forecast,
    Leaderboard,
    LeaderboardRow,
    describe_expected_performance,
    domains_for_interval,
    explain_missing_interval,
    forecast,
    is_informative,
)
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
from ._projection_search import ProjectionSearchCV
from ._refit import (
    FittedCandidates,
    check_comparison_size,
    limit_evaluation_rows,
    refit_ensemble,
    select_model,
)
from ._scoring import (
    TIE_TOLERANCE,
    CandidateResult,
    Metric,
    Scorer,
    Scoring,
    best_by_variant,
    check_metric,
    describe_rare_class,
    get_metric,
    metric_range,
    score_labels,
    score_model,
    select_result,
    tabulate_scores,
    uses_labels_only,
    warn_about_failures,
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

__all__ = [
    "METHODS",
    "AdaptationPlan",
    "EnsembleClassifier",
    "Forecast",
    "HeldOutDomains",
    "Leaderboard",
    "LeaderboardRow",
    "LeaveOneDomainOut",
    "LeavePDomainsOut",
    "Method",
    "ProjectionSearchCV",
    "UnseenClassifier",
    "WithinDomainSplit",
    "register",
]
