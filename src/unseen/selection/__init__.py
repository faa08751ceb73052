"""Choosing a model for a domain that nobody has seen: splitters, searches and their pictures."""

from ._displays import LeaderboardDisplay, ValidationSurfaceDisplay
from ._evaluate import Candidate, score_candidates
from ._grids import default_grid
from ._nearest import is_one_nearest, nearest
from ._results import TIE, preferred, tabulate
from ._search import ProjectionSearchCV
from ._splitters import HeldOutDomains, LeaveOneDomainOut, LeavePDomainsOut, WithinDomainSplit
from ._unseen import UnseenClassifier

__all__ = [
    "HeldOutDomains",
    "LeaderboardDisplay",
    "LeaveOneDomainOut",
    "LeavePDomainsOut",
    "ProjectionSearchCV",
    "UnseenClassifier",
    "ValidationSurfaceDisplay",
    "WithinDomainSplit",
]
# For other rooms, and for nobody else.
__all__ += [
    "TIE",
    "Candidate",
    "default_grid",
    "is_one_nearest",
    "nearest",
    "preferred",
    "score_candidates",
    "tabulate",
]
