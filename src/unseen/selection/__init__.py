"""Choosing a model for a domain that nobody has seen: splitters, searches and their pictures."""

from ._search import ProjectionSearchCV
from ._splitters import HeldOutDomains, LeaveOneDomainOut, LeavePDomainsOut, WithinDomainSplit
from ._unseen import UnseenClassifier

__all__ = [
    "HeldOutDomains",
    "LeaveOneDomainOut",
    "LeavePDomainsOut",
    "ProjectionSearchCV",
    "UnseenClassifier",
    "WithinDomainSplit",
]
