"""Manners of a guest in scikit-learn's world: own links, fits that leave nothing behind, optional imports."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

SITE = "https://unseen.readthedocs.io/en/latest"
NOT_IN_EXTRAS = ("pandas",)  # optional packages that users bring along
DASK = ("dask", "distributed")


class DocLinkMixin:
    """Give an estimator that is public as ``unseen.<Name>`` a link to its page; goes before `BaseEstimator`."""

    _doc_link_module: ClassVar[str] = "unseen"
    _doc_link_template: ClassVar[str] = f"{SITE}/generated/unseen.{{estimator_name}}.html"


def forget(estimator: BaseEstimator) -> None:
    """Delete what an earlier fit learned, so that nothing of it survives under other parameters."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)


def optional_import(module: str, purpose: str) -> Any:
    """The module, or an error that says what wanted it and how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        needed = name if name in NOT_IN_EXTRAS else f"'unseen[{'dask' if name in DASK else 'cli'}]'"
        raise ImportError(f"{purpose} needs {name}. Install it with: pip install {needed}") from error
