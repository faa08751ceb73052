"""Choosing a model for a domain that nobody has seen: the table of methods, the engine, the searches, their pictures.

Stands on the estimators. The engine turns samples, splits and candidates into out-of-domain predictions; choices are
readings of these.
"""

from ._asking import EXPECTED_ERRORS, Prediction, collect_responses, encode_predictions, group_by, single_thread
from ._bench import CachedSplit, DecompositionCache
from ._candidate import (
    Candidate,
    bind_domains,
    full_repr,
    ignore_expected_warnings,
    is_transductive,
    transform_for_classifier,
)
from ._contest import (
    CandidateResult,
    best_by_variant,
    check_comparison_size,
    forecast,
    select_result,
    warn_about_failures,
)
from ._displays import LeaderboardDisplay, ValidationSurfaceDisplay
from ._engine import (
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
from ._ensemble import MIN_BATCH_ROWS, EnsembleClassifier
from ._large import LandmarkFit
from ._methods import HEADS, METHODS, Method, expand_methods, get_method, method_names, parse_methods, register
from ._metric import Metric, check_metric, get_metric, metric_range, rare_class
from ._pool import N_CALIBRATION_BINS, sample_skewed_batch
from ._pooling import (
    FULL_ENSEMBLE,
    INDUCTIVE_ENSEMBLE,
    FittedEnsemble,
    OutOfDomainPredictions,
    TrialSplits,
    evaluate_and_fit_ensemble,
    make_leaderboard,
)
from ._sample_size import (
    MAX_USABLE_SHARE,
    MIN_DOMAINS_FOR_INTERVAL,
    domains_for_coverage,
    domains_for_interval,
    explain_missing_interval,
    is_informative,
)
from ._search import ProjectionSearchCV
from ._splitters import HeldOutDomains, LeaveOneDomainOut, LeavePDomainsOut, WithinDomainSplit, check_groups_not_split
from ._unseen import UnseenClassifier

__all__ = [
    "METHODS",
    "HeldOutDomains",
    "LeaderboardDisplay",
    "LeaveOneDomainOut",
    "LeavePDomainsOut",
    "Method",
    "EnsembleClassifier",
    "ProjectionSearchCV",
    "UnseenClassifier",
    "ValidationSurfaceDisplay",
    "WithinDomainSplit",
    "register",
]
# For other rooms, and for nobody else.
__all__ += [
    "FULL_ENSEMBLE",
    "N_CALIBRATION_BINS",
    "EXPECTED_ERRORS",
    "MIN_DOMAINS_FOR_INTERVAL",
    "MIN_BATCH_ROWS",
    "HEADS",
    "INDUCTIVE_ENSEMBLE",
    "TIE_TOLERANCE",
    "MAX_USABLE_SHARE",
    "OutOfDomainPredictions",
    "CachedSplit",
    "Candidate",
    "CandidateResult",
    "LandmarkFit",
    "Metric",
    "FittedEnsemble",
    "Prediction",
    "Score",
    "Scorer",
    "DecompositionCache",
    "Split",
    "TrialSplits",
    "required_responses",
    "check_metric",
    "select_result",
    "encode_predictions",
    "best_by_variant",
    "evaluate_and_fit_ensemble",
    "expand_methods",
    "domains_for_coverage",
    "domains_for_interval",
    "ignore_expected_warnings",
    "forecast",
    "score_predictions",
    "group_by",
    "full_repr",
    "is_informative",
    "is_transductive",
    "make_leaderboard",
    "get_method",
    "method_names",
    "parse_methods",
    "get_metric",
    "metric_range",
    "explain_missing_interval",
    "single_thread",
    "bind_domains",
    "evaluate_candidates",
    "rare_class",
    "check_groups_not_split",
    "check_comparison_size",
    "collect_responses",
    "tabulate_candidates",
    "score_candidates",
    "transform_for_classifier",
    "sample_skewed_batch",
    "tabulate_scores",
    "warn_about_failures",
]
