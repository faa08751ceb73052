"""Choosing a model for a domain that nobody has seen: splitters, searches and their pictures."""

from ._displays import LeaderboardDisplay, ValidationSurfaceDisplay
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
