"""A candidate: one setting of a method, and how it is fitted and asked, by whoever asks."""

from __future__ import annotations

import hashlib
import inspect
import re
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, update_wrapper
from typing import Any, Literal

import numpy as np
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from ..estimators import LIBLINEAR, DomainCenterer, Projection
from ..exceptions import FewerComponentsWarning, MaskedLabelsWarning, SingleDomainWarning
from ..kernels import is_multiple, median_squared_distance, parse_multiple
from ..linalg import Array
from ..utils.validation import MANY_CLASSES_WARNING
from ..utils.warnings import ignore_warnings

BLOCK = 64  # rows of scores that stay in cache between the product and the search for their maximum
PREDICTION_METHODS = ("predict", "predict_proba", "decision_function", "decision_proba")  # the last of a pool
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
        What it has in common with others of its method: see `unseen.model_selection.Method`.
    plain : bool
        Whether it ignores domains.
    own : bool
        Whether it is a user's: whatever it raises is its answer.
    """

    method: str
    settings: dict[str, Any]
    transformer: Any
    classifier: Any
    head: str = ""
    shares: Sharing = "nothing"
    plain: bool = True
    own: bool = False

    @property
    def transductive(self) -> bool:
        """Whether predictions depend on the other samples of their domain."""
        return is_transductive(self.transformer) or is_transductive(self.classifier)

    @property
    def kind(self) -> Literal["plain", "inductive", "transductive"]:
        """From simple to demanding."""
        return "plain" if self.plain else "transductive" if self.transductive else "inductive"

    @property
    def variant(self) -> str:
        """What the best settings are sought for: a method with its head and its centering."""
        centered = ", target-centered" if self.head and self.transductive else ""
        return f"{self.method} + {self.head}{centered}" if self.head else self.method

    @property
    def params(self) -> dict[str, Any]:
        """The settings, and the centering of a projection."""
        return {**self.settings, "centering": self.transformer.centering} if self.head else self.settings

    @cached_property
    def key(self) -> str:
        """What tells it from all others, in this process and in any other."""
        parts = (full_repr(part) for part in (self.transformer, self.classifier))
        return hashlib.sha256("\n".join((self.variant, *parts)).encode()).hexdigest()[:16]

    @property
    def pipeline(self) -> Pipeline:
        """The same as an estimator."""
        steps = [] if self.transformer is None else [("transformer", self.transformer)]
        return Pipeline([*steps, ("classifier", self.classifier)])

    def fitted(self, X: Any, y: Any, sample_domain: Any, sample_weight: Array | None = None) -> Pipeline:
        """A fitted pipeline."""
        return fit_pipeline(self.pipeline, X, y, sample_domain, sample_weight)


def fit_pipeline(
    pipeline: Pipeline, X: Any, y: Any, sample_domain: Any, sample_weight: Array | None = None
) -> Pipeline:
    """A copy of a candidate's pipeline, fitted step by step: Pipeline.fit takes metadata differently with routing."""
    steps, Z = [], X
    for _, unfitted in pipeline.steps[:-1]:
        transformer = resolve_width(unfitted, Z)
        transformer.fit(Z, y, **domain_kwargs(transformer.fit, sample_domain))
        Z = transformer.transform(Z, **domain_kwargs(transformer.transform, sample_domain))
        steps.append(("projection" if isinstance(transformer, Projection) else "transformer", transformer))
    classifier = fit_clone(pipeline.steps[-1][1], Z, y, sample_domain, sample_weight)
    pair = not steps and type(classifier) is Pipeline and len(classifier) == 2
    if pair and isinstance(classifier[0], (DomainCenterer, Projection)):  # a user's own, of the form that ours have
        return classifier
    return Pipeline([*steps, ("classifier", classifier)])


def full_repr(value: Any) -> str:
    """An estimator with every parameter, which scikit-learn's own representation may shorten; functions by code."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        params = sorted(value.get_params(deep=False).items())
        return f"{type(value).__name__}({', '.join(f'{name}={full_repr(part)}' for name, part in params)})"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(full_repr, value))})"
    if hasattr(value, "__code__"):
        code = value.__code__
        digest = hashlib.sha256(code.co_code).hexdigest()[:16]
        return f"{value.__qualname__}:{digest}{_without_addresses(repr(code.co_consts))}"
    return _without_addresses(repr(value))


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)  # where something lies in memory says nothing about it


def is_transductive(estimator: Any) -> bool:
    """Whether an estimator, or a step of a pipeline, looks at the batch that it transforms."""
    if isinstance(estimator, Pipeline):
        return any(map(is_transductive, flatten_steps(estimator)))
    return isinstance(estimator, DomainCenterer) or getattr(estimator, "centering", "source") == "target"


def flatten_steps(estimator: Any) -> list[Any]:
    """The steps of a pipeline, and of pipelines inside it; of any other estimator, itself."""
    if isinstance(estimator, Pipeline):
        return [inner for _, step in estimator.steps for inner in flatten_steps(step)]
    return [estimator]


def fit_clone(estimator: Any, X: Any, y: Any, sample_domain: Any, sample_weight: Array | None = None) -> Any:
    """A fitted copy; who asks is told domains and weights, steps of a pipeline among them, with routing on and off."""
    return _fit(resolve_width(estimator, X), X, y, sample_domain, sample_weight)


def _fit(model: Any, X: Any, y: Any, sample_domain: Any, weight: Array | None) -> Any:
    if not _step_by_step(model):
        told = domain_kwargs(model.fit, sample_domain)
        # Steps of a pipeline are told of weights by their names, which routing would refuse.
        by_name = nullcontext() if weight is None else config_context(enable_metadata_routing=False)
        with by_name, LIBLINEAR if _draws_in_liblinear(model) else nullcontext():
            return model.fit(X, y, **told, **({} if weight is None else weight_kwargs(model, weight)))
    for _, step in model.steps[:-1]:
        if _step_by_step(step) or consumes_domains(step):
            X = _transform_step(_fit(step, X, y, sample_domain, weight), X, sample_domain)
        elif not _is_passthrough(step):
            told = {} if weight is None else weight_kwargs(step, weight)
            fits = hasattr(step, "fit_transform")
            X = step.fit_transform(X, y, **told) if fits else step.fit(X, y, **told).transform(X)
    _fit(model.steps[-1][1], X, y, sample_domain, weight)
    return model


def _draws_in_liblinear(model: Any) -> bool:
    """Whether a fit draws random numbers that belong to the whole process, as liblinear's and libsvm's do."""
    last = model[-1] if isinstance(model, Pipeline) else model
    by_liblinear = isinstance(last, LinearSVC) or getattr(last, "solver", None) == "liblinear"
    return by_liblinear or (isinstance(last, SVC) and last.probability is True)


def _step_by_step(model: Any) -> bool:
    """Whether a model is a pipeline with a step that asks for domains, which Pipeline would not always hand on."""
    return type(model) is Pipeline and consumes_domains(model)


def _is_passthrough(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _transform_step(step: Any, X: Any, sample_domain: Any) -> Any:
    """Samples behind a fitted step, which may be a pipeline."""
    if _step_by_step(step):
        return _transform_step(step.steps[-1][1], transform_for_classifier(step, X, sample_domain), sample_domain)
    return X if _is_passthrough(step) else step.transform(X, **domain_kwargs(step.transform, sample_domain))


def bind_domains(model: Any, X: Any, sample_domain: Any) -> tuple[Any, Any]:
    """A fitted classifier and samples for whoever asks it without a word on domains, as scorers do.

    Steps of a pipeline that ask for domains are behind it, and a classifier that asks is told them.
    """
    if _step_by_step(model):
        return bind_domains(model.steps[-1][1], transform_for_classifier(model, X, sample_domain), sample_domain)
    asking = [name for name in PREDICTION_METHODS if accepts_domains(getattr(model, name, None))]
    told = copy(model) if asking else model
    for name in asking:
        method = getattr(model, name)  # whose name scorers want to know
        setattr(told, name, update_wrapper(partial(method, sample_domain=sample_domain), method))
    return told, X


def transform_for_classifier(pipeline: Pipeline, X: Any, sample_domain: Any = None) -> Any:
    """Samples as the last step of a fitted pipeline sees them."""
    for _, step in pipeline.steps[:-1]:
        X = _transform_step(step, X, sample_domain)
    return X


def consumes_domains(estimator: Any) -> bool:
    """Whether an estimator, or a step of a pipeline, asks for the domains of samples anywhere."""
    if type(estimator) is Pipeline:
        return any(consumes_domains(step) for _, step in estimator.steps)
    return any(accepts_domains(getattr(estimator, name, None)) for name in ("fit", "transform", *PREDICTION_METHODS))


def accepts_domains(method: Any) -> bool:
    """Whether a method of an estimator asks for the domains of samples; others may by routing, while that is on."""
    if method is None or _has_domain_parameter(getattr(method, "__func__", method)):
        return method is not None
    owner = getattr(method, "__self__", None)
    if not get_config()["enable_metadata_routing"] or type(owner) is Pipeline or not isinstance(owner, BaseEstimator):
        return False
    return bool(get_routing_for_object(owner).consumes(method.__name__, ["sample_domain"]))


@lru_cache(maxsize=1000)
def _has_domain_parameter(function: Any) -> bool:
    return "sample_domain" in inspect.signature(function).parameters


def domain_kwargs(method: Any, sample_domain: Any) -> dict[str, Any]:
    """What a method is told of domains: nothing, unless it asks."""
    return {"sample_domain": sample_domain} if accepts_domains(method) else {}


def weight_kwargs(estimator: Any, weight: Array) -> dict[str, Any]:
    """What the fit of an estimator is told of weights: nothing, unless it asks; of a pipeline, each step that asks."""
    if isinstance(estimator, Pipeline):
        told = ((name, weight_kwargs(step, weight)) for name, step in estimator.steps if hasattr(step, "fit"))
        return {f"{name}__{key}": value for name, values in told for key, value in values.items()}
    return {"sample_weight": weight} if has_fit_parameter(estimator, "sample_weight") else {}


def resolve_width(estimator: Any, X: Any) -> Any:
    """A copy; a kernel coefficient in multiples of the median rule becomes a number, which is for X to say."""
    copy = clone(estimator)
    gamma = copy.get_params(deep=False).get("gamma")
    if is_multiple(gamma, "median") and not isinstance(copy, Projection):  # those see to it themselves
        copy.set_params(gamma=median_width(str(gamma), X))
    return copy


def median_width(gamma: str, X: Any) -> float:
    """What a multiple of the median rule is on some samples."""
    return parse_multiple(gamma, "median", "gamma") / median_squared_distance(X)


def ignore_expected_warnings() -> AbstractContextManager[None]:
    """Ignore warnings that are expected in small folds, where models are judged by their scores."""
    ours = SingleDomainWarning, MaskedLabelsWarning, FewerComponentsWarning
    constant = UserWarning, "self.within_class_std_dev_"  # of a constant feature's mean
    # Of classifiers on samples in units that are not theirs: overflow, and searches along a line that find nothing.
    units = (RuntimeWarning, ".* encountered in "), (Warning, "(?i).*line search")
    return ignore_warnings(*ours, ConvergenceWarning, constant, *units, MANY_CLASSES_WARNING)


def nearest_index(train: Array, test: Array) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Index of the training row nearest to each test row; the first one among equals.

    The nearest row maximizes ``x't - |t|^2 / 2``, which one product of augmented matrices computes.
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
