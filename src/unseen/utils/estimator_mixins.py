"""Shared parts of estimators: links to the documentation, generated constructors, resetting of fitted attributes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import ClassVar

from sklearn.base import BaseEstimator

# Generates the constructor that scikit-learn requires: explicit keyword arguments, which it only assigns.
keyword_parameters = dataclass(kw_only=True, eq=False, repr=False)
DOCUMENTATION_URL = "https://unseen.readthedocs.io/en/latest"
FEATURES_IN = """\
n_features_in_ : int
    Number of features seen during `fit`.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of features seen during `fit`, if `X` had string column names."""


class DocLinkMixin:
    """Link an estimator, public as ``unseen.<Name>``, to its documentation; inherit from it before `BaseEstimator`.

    A name in braces in its docstring is replaced by a text that several estimators share.
    """

    _shared_docs: ClassVar[dict[str, str]] = {"features_in": FEATURES_IN}
    _doc_link_module: ClassVar[str] = "unseen"
    _doc_link_template: ClassVar[str] = f"{DOCUMENTATION_URL}/generated/unseen.{{estimator_name}}.html"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        doc = inspect.cleandoc(cls.__doc__ or "")
        for name, text in cls._shared_docs.items():
            doc = doc.replace(f"{{{name}}}", text)
        cls.__doc__ = doc


def reset_fitted_attributes(estimator: BaseEstimator) -> None:
    """Delete the attributes of an earlier fit, so that none remains after a fit with other parameters."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)
