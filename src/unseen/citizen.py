"""Manners of a guest in scikit-learn's world: own links, clean fits, settings put back, facts beside results."""

from __future__ import annotations

import importlib
import inspect
import os
import platform
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_info

from . import __version__

# Dataclasses write the constructor that scikit-learn asks for: explicit keywords, assigned and nothing else.
keyword_parameters = dataclass(kw_only=True, eq=False, repr=False)
DOCUMENTATION_URL = "https://unseen.readthedocs.io/en/latest"
NOT_IN_EXTRAS = ("pandas",)  # optional packages that users bring along
FEATURES_IN = """\
n_features_in_ : int
    Number of features seen during `fit`.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of features seen during `fit`, if `X` had string column names."""
EXTRAS = {  # by package; all others are in cli
    "cryptography": "dask",
    "dask": "dask",
    "distributed": "dask",
    "onnx": "images",
    "onnxruntime": "images",
    "PIL": "images",
    "starlette": "explore",
    "uvicorn": "explore",
}


class DocLinkMixin:
    """Give an estimator that is public as ``unseen.<Name>`` a link to its page; goes before `BaseEstimator`.

    A name in braces in its docstring stands for a text that it shares with other estimators.
    """

    _shared_docs: ClassVar[dict[str, str]] = {"features_in": FEATURES_IN}
    _doc_link_module: ClassVar[str] = "unseen"
    _doc_link_template: ClassVar[str] = f"{DOCUMENTATION_URL}/generated/unseen.{{estimator_name}}.html"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        doc = inspect.cleandoc(cls.__doc__ or "")
        for name, text in cls._shared_docs.items():
            doc = doc.replace(f"{{{name}}}", text)
        cls.__doc__ = doc


def reset_fitted_attributes(estimator: BaseEstimator) -> None:
    """Delete what an earlier fit learned, so that nothing of it survives under other parameters."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)


class SharedContext:
    """A setting that all threads share: the first to enter makes it, the last to leave takes it back.

    Threads that each saved and restored it would bring back what another had set, and take away what another relies on.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._setting = self._make()
                self._setting.__enter__()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._setting.__exit__(None, None, None)


_FILTERS = SharedContext(warnings.catch_warnings)


@contextmanager
def ignore_warnings(*kinds: type[Warning] | tuple[type[Warning], str]) -> Iterator[None]:
    """Ignore warnings of some categories, or of those that begin with some words; within another, until both end."""
    with _FILTERS:
        for kind in kinds:
            category, message = kind if isinstance(kind, tuple) else (kind, "")
            warnings.filterwarnings("ignore", message, category)
        yield


def optional_import(module: str, purpose: str) -> Any:
    """The module, or an error that says what wanted it and how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        needed = name if name in NOT_IN_EXTRAS else f"'unseen[{EXTRAS.get(name, 'cli')}]'"
        raise ImportError(f"{purpose} needs {name}. Install it with: pip install {needed}") from error


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, found out without importing Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def environment_info() -> dict[str, Any]:
    """What results depend on and should stand beside them: versions, BLAS libraries with their threads, the machine."""
    return {
        "unseen": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "blas": sorted(
            f"{pool['internal_api']} {pool['version']} x{pool['num_threads']}" for pool in threadpool_info()
        ),
    }
