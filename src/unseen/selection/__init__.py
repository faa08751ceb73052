"""Choosing a model for a domain that nobody has seen: the table of methods, the engine, the searches, their pictures.

Stands on the estimators. The engine turns samples, splits and candidates into out-of-domain predictions; choices are
readings of these.
"""

from ._asking import EXPECTED, Prediction, codes_of, grouped, one_thread, responses
from ._bench import Bench, Shelf
from ._candidate import (
    Candidate,
    expected_warnings,
    in_full,
    is_transductive,
    placed,
    seen_by_classifier,
)
from ._contest import Contender, choose, contenders, forecast, require_contest, warn_of_failures
from ._displays import LeaderboardDisplay, ValidationSurfaceDisplay
from ._engine import TIE, Score, Scorer, Split, asks_for, graded, predictions, results_of, scores, tally
from ._ensemble import Pool
from ._large import LargeFit
from ._methods import HEADS, METHODS, Method, contestants, method_named, method_names, methods_from, register
from ._metric import Metric, metric_named, score_range
from ._pool import BINS, skewed
from ._pooling import ALL, INDUCTIVE, Ballot, Pooling, Trials, contest_and_pool, leaderboard
from ._search import ProjectionSearchCV
from ._splitters import HeldOutDomains, LeaveOneDomainOut, LeavePDomainsOut, WithinDomainSplit, refuse_parted
from ._unseen import UnseenClassifier

__all__ = [
    "METHODS",
    "HeldOutDomains",
    "LeaderboardDisplay",
    "LeaveOneDomainOut",
    "LeavePDomainsOut",
    "Method",
    "Pool",
    "ProjectionSearchCV",
    "UnseenClassifier",
    "ValidationSurfaceDisplay",
    "WithinDomainSplit",
    "register",
]
# For other rooms, and for nobody else.
__all__ += [
    "ALL",
    "BINS",
    "EXPECTED",
    "HEADS",
    "INDUCTIVE",
    "TIE",
    "Ballot",
    "Bench",
    "Candidate",
    "Contender",
    "LargeFit",
    "Metric",
    "Pooling",
    "Prediction",
    "Score",
    "Scorer",
    "Shelf",
    "Split",
    "Trials",
    "asks_for",
    "choose",
    "codes_of",
    "contenders",
    "contest_and_pool",
    "contestants",
    "expected_warnings",
    "forecast",
    "graded",
    "grouped",
    "in_full",
    "is_transductive",
    "leaderboard",
    "method_named",
    "method_names",
    "methods_from",
    "metric_named",
    "one_thread",
    "placed",
    "predictions",
    "refuse_parted",
    "require_contest",
    "responses",
    "results_of",
    "score_range",
    "scores",
    "seen_by_classifier",
    "skewed",
    "tally",
    "warn_of_failures",
]
