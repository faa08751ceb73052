"""Choosing a model for a domain that nobody has seen: the table of methods, the engine, the searches, their pictures.

Stands on the estimators. The engine turns samples, splits and candidates into out-of-domain predictions; choices are
readings of these.
"""

from ._candidate import (
    Candidate,
    bind_domains,
    full_repr,
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
from ._ensemble_math import N_CALIBRATION_BINS, sample_skewed_batch
from ._ensemble_selection import (
    FULL_ENSEMBLE,
    INDUCTIVE_ENSEMBLE,
    FittedEnsemble,
    OutOfDomainPredictions,
    TrialSplits,
    evaluate_and_fit_ensemble,
    make_leaderboard,
)
from ._landmark_fit import LandmarkFit
from ._metrics import Metric, check_metric, describe_rare_class, get_metric, metric_range
from ._projection_search import ProjectionSearchCV
from ._registry import HEADS, METHODS, Method, expand_methods, get_method, method_names, parse_methods, register
from ._sample_size import (
    MAX_USABLE_SHARE,
    MIN_DOMAINS_FOR_INTERVAL,
    domains_for_coverage,
    domains_for_interval,
    explain_missing_interval,
    is_informative,
)
from ._split_cache import CachedSplit, DecompositionCache
from ._split_evaluation import (
    EXPECTED_ERRORS,
    Prediction,
    collect_responses,
    encode_predictions,
    group_by,
    single_thread,
)
from ._splitters import HeldOutDomains, LeaveOneDomainOut, LeavePDomainsOut, WithinDomainSplit, check_groups_not_split
from ._unseen_classifier import UnseenClassifier
from ._validation import (
    TIE_TOLERANCE,
    Score,
    Scorer,
    Split,
    evaluate_candidates,
    required_responses,
    score_candidates,
    score_predictions,
    tabulate_candidates,
    tabulate_scores,
)

__all__ = [
    "METHODS",
    "EnsembleClassifier",
    "HeldOutDomains",
    "LeaderboardDisplay",
    "LeaveOneDomainOut",
    "LeavePDomainsOut",
    "Method",
    "ProjectionSearchCV",
    "UnseenClassifier",
    "ValidationSurfaceDisplay",
    "WithinDomainSplit",
    "register",
]
# For other rooms, and for nobody else.
__all__ += [
    "EXPECTED_ERRORS",
    "FULL_ENSEMBLE",
    "HEADS",
    "INDUCTIVE_ENSEMBLE",
    "MAX_USABLE_SHARE",
    "MIN_BATCH_ROWS",
    "MIN_DOMAINS_FOR_INTERVAL",
    "N_CALIBRATION_BINS",
    "TIE_TOLERANCE",
    "CachedSplit",
    "Candidate",
    "CandidateResult",
    "DecompositionCache",
    "FittedEnsemble",
    "LandmarkFit",
    "Metric",
    "OutOfDomainPredictions",
    "Prediction",
    "Score",
    "Scorer",
    "Split",
    "TrialSplits",
    "best_by_variant",
    "bind_domains",
    "check_comparison_size",
    "check_groups_not_split",
    "check_metric",
    "collect_responses",
    "describe_rare_class",
    "domains_for_coverage",
    "domains_for_interval",
    "encode_predictions",
    "evaluate_and_fit_ensemble",
    "evaluate_candidates",
    "expand_methods",
    "explain_missing_interval",
    "forecast",
    "full_repr",
    "get_method",
    "get_metric",
    "group_by",
    "ignore_expected_warnings",
    "is_informative",
    "is_transductive",
    "make_leaderboard",
    "method_names",
    "metric_range",
    "parse_methods",
    "required_responses",
    "sample_skewed_batch",
    "score_candidates",
    "score_predictions",
    "select_result",
    "single_thread",
    "tabulate_candidates",
    "tabulate_scores",
    "transform_for_classifier",
    "warn_about_failures",
]
