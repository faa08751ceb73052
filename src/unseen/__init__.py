"""Classify data from a place you have never seen.

Public names are loaded when first used, so ``import unseen`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .estimators import (
        CIDG,
        DICA,
        KFDA,
        MDA,
        SCA,
        DomainCenterer,
        DomainHarmonizer,
        MarginalTransferClassifier,
        UndoBias,
    )
    from .evaluation import compare, site_learning_curve, validate
    from .kernels import PivotedNystroem
    from .model_selection import ProjectionSearchCV, UnseenClassifier
    from .models import fit, load_model
    from .shift import diagnose

_HOMES = {
    **dict.fromkeys(("CIDG", "DICA", "KFDA", "MDA", "SCA", "DomainCenterer", "UndoBias"), "estimators"),
    "DomainHarmonizer": "estimators",
    "MarginalTransferClassifier": "estimators",
    "PivotedNystroem": "kernels",
    "ProjectionSearchCV": "model_selection",
    "UnseenClassifier": "model_selection",
    "compare": "evaluation",
    "diagnose": "shift",
    "fit": "models",
    "load_model": "models",
    "site_learning_curve": "evaluation",
    "validate": "evaluation",
}
_SUBMODULES = (
    "datasets",
    "distributed",
    "evaluation",
    "exceptions",
    "exchange",
    "images",
    "metrics",
    "models",
    "report",
    "model_selection",
    "shift",
    "tables",
)

__all__ = [
    "CIDG",
    "DICA",
    "KFDA",
    "MDA",
    "SCA",
    "DomainCenterer",
    "DomainHarmonizer",
    "MarginalTransferClassifier",
    "PivotedNystroem",
    "ProjectionSearchCV",
    "UndoBias",
    "UnseenClassifier",
    "compare",
    "diagnose",
    "fit",
    "load_model",
    "site_learning_curve",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
