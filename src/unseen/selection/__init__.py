"""Choosing a model for a domain that nobody has seen: the table of methods, the engine, the searches, their pictures.

Stands on the estimators. The engine turns samples, splits and candidates into out-of-domain predictions; choices are
readings of these.
"""

from ._candidate import (
    Candidate,
    expected_warnings,
    is_one_nearest,
    is_transductive,
    nearest,
    seen_by_classifier,
)
from ._contest import Contender, choose, contest, leaderboard
from ._displays import LeaderboardDisplay, ValidationSurfaceDisplay
from ._engine import TIE, Scorer, Split, predictions, table_of
from ._large import LargeFit
from ._methods import HEADS, METHODS, Method, method_named, method_names, register
from ._metric import Metric, metric_named
from ._search import ProjectionSearchCV
from ._splitters import HeldOutDomains, LeaveOneDomainOut, LeavePDomainsOut, WithinDomainSplit
from ._unseen import UnseenClassifier

__all__ = [
    "METHODS",
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
    "HEADS",
    "TIE",
    "Candidate",
    "Contender",
    "LargeFit",
    "Metric",
    "Scorer",
    "Split",
    "choose",
    "contest",
    "expected_warnings",
    "is_one_nearest",
    "is_transductive",
    "leaderboard",
    "method_named",
    "method_names",
    "metric_named",
    "nearest",
    "predictions",
    "seen_by_classifier",
    "table_of",
]
