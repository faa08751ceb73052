"""A candidate: one setting of a method, and how it is fitted and asked, by whoever asks."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from ..algebra import Array
from ..estimators import DomainCenterer, Projection
from ..exceptions import FewerComponentsWarning, MaskedLabelsWarning, SingleDomainWarning
from ..kernels import factor, is_multiple, median_squared_distance

BLOCK = 64  # rows of scores that stay in cache between the product and the search for their maximum
Sharing = Literal["nothing", "decomposition", "kernel matrix"]


@dataclass(frozen=True)
class Candidate:
    """What stands before a classifier, if anything does, and the classifier; neither is ever fitted itself.

    Attributes
    ----------
    method : str
        Name of the method.
    settings : dict
        What tells it from other candidates of the method.
    transformer, classifier : estimators
        The first may be None. A `gamma` such as "0.1*median" follows the samples that they are fitted to.
    head : str
        Name of the classifier behind a projection; empty where the method has its own.
    shares : str
        What it has in common with others of its method: see `unseen.selection.Method`.
    plain : bool
        Whether it ignores domains.
    """

    method: str
    settings: dict[str, Any]
    transformer: Any
    classifier: Any
    head: str = ""
    shares: Sharing = "nothing"
    plain: bool = True

    @property
    def transductive(self) -> bool:
        """Whether predictions depend on the other samples of their domain."""
        return is_transductive(self.transformer)

    @property
    def kind(self) -> Literal["plain", "inductive", "transductive"]:
        """From simple to demanding."""
        return "plain" if self.plain else "transductive" if self.transductive else "inductive"

    @property
    def variant(self) -> str:
        """What the best settings are sought for: a method with its head and its centring."""
        centred = ", target-centred" if self.head and self.transductive else ""
        return f"{self.method} + {self.head}{centred}" if self.head else self.method

    @property
    def params(self) -> dict[str, Any]:
        """The settings, and the centring of a projection."""
        return {**self.settings, "centering": self.transformer.centering} if self.head else self.settings

    def fitted(self, X: Any, y: Any, sample_domain: Any, sample_weight: Array | None = None) -> Pipeline:
        """A pipeline fitted step by step: Pipeline.fit takes metadata differently with routing on and off."""
        steps, Z = [], X
        if self.transformer is not None:
            transformer = with_width(self.transformer, Z)
            transformer.fit(Z, y, **domains_for(transformer.fit, sample_domain))
            Z = transformer.transform(Z, **domains_for(transformer.transform, sample_domain))
            steps.append(("projection" if isinstance(transformer, Projection) else "transformer", transformer))
        classifier = fitted_classifier(self.classifier, Z, y, sample_domain, sample_weight)
        return Pipeline([*steps, ("classifier", classifier)])


def is_transductive(transformer: Any) -> bool:
    """Whether what stands before a classifier looks at the batch that it transforms."""
    return isinstance(transformer, DomainCenterer) or getattr(transformer, "centering", "source") == "target"


def seen_by_classifier(pipeline: Pipeline, X: Any, sample_domain: Any = None) -> Any:
    """Samples as the last step of a fitted pipeline sees them."""
    for _, step in pipeline.steps[:-1]:
        X = step.transform(X, **domains_for(step.transform, sample_domain))
    return X


def takes_domains(method: Any) -> bool:
    """Whether a method of an estimator asks for the domains of samples."""
    return "sample_domain" in inspect.signature(method).parameters


def domains_for(method: Any, sample_domain: Any) -> dict[str, Any]:
    """What a method is told of domains: nothing, unless it asks."""
    return {"sample_domain": sample_domain} if takes_domains(method) else {}


def weights_for(estimator: Any, weight: Array) -> dict[str, Any]:
    """What the fit of an estimator is told of weights: nothing, unless it asks; of a pipeline, each step that asks."""
    if isinstance(estimator, Pipeline):
        told = ((name, weights_for(step, weight)) for name, step in estimator.steps if hasattr(step, "fit"))
        return {f"{name}__{key}": value for name, values in told for key, value in values.items()}
    return {"sample_weight": weight} if has_fit_parameter(estimator, "sample_weight") else {}


def fitted_classifier(classifier: Any, Z: Any, y: Any, sample_domain: Any, sample_weight: Array | None) -> Any:
    """A copy of a classifier, fitted; it is told of domains and of weights if it asks for them."""
    model = with_width(classifier, Z)
    told = domains_for(model.fit, sample_domain)
    if sample_weight is None:
        return model.fit(Z, y, **told)
    # Steps of a pipeline are told by their names, which routing would refuse.
    with config_context(enable_metadata_routing=False):
        return model.fit(Z, y, **told, **weights_for(model, sample_weight))


def with_width(estimator: Any, X: Any) -> Any:
    """A copy; a kernel coefficient in multiples of the median rule becomes a number, which is for X to say."""
    copy = clone(estimator)
    gamma = copy.get_params(deep=False).get("gamma")
    if is_multiple(gamma, "median") and not isinstance(copy, Projection):  # those see to it themselves
        copy.set_params(gamma=width(str(gamma), X))
    return copy


def width(gamma: str, X: Any) -> float:
    """What a multiple of the median rule is on some samples."""
    return factor(gamma, "median", "gamma") / median_squared_distance(X)


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Ignore warnings that are expected in small folds, where models are judged by their scores."""
    with warnings.catch_warnings():
        for category in (SingleDomainWarning, MaskedLabelsWarning, FewerComponentsWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        yield


def nearest(train: Array, test: Array) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Index of the training row nearest to each test row; the first one among equals.

    The nearest row maximises ``x't - |t|^2 / 2``, which one product of augmented matrices computes.
    """
    extended = np.vstack([train.T, -0.5 * np.einsum("ij,ij->i", train, train)])
    rows = np.hstack([test, np.ones((len(test), 1))])
    found = np.empty(len(test), dtype=np.intp)
    for start in range(0, len(test), BLOCK):
        found[start : start + BLOCK] = (rows[start : start + BLOCK] @ extended).argmax(axis=1)
    return found


def is_one_nearest(classifier: BaseEstimator) -> bool:
    """Whether a classifier is Euclidean 1-NN, for which `nearest` gives the same labels sooner."""
    return (
        type(classifier) is KNeighborsClassifier
        and classifier.n_neighbors == 1
        and (classifier.metric == "euclidean" or (classifier.metric == "minkowski" and classifier.p == 2))
        and classifier.metric_params is None
    )
