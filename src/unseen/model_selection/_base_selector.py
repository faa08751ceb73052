"""Base class of estimators that select a model: they predict with the selected pipeline."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if

from ..estimators import is_dask
from ..utils.estimator_mixins import DocLinkMixin, keyword_parameters
from ..utils.progress import CallbackSupportMixin
from ._metrics import SCORING_NAMES, get_metric_scorer
from ._splitters import resolve_splitter


def _has_method(method: str) -> Callable[[Any], bool]:
    def check(model: BaseSelector) -> bool:
        return all(hasattr(classifier, method) for classifier in model._get_classifiers())

    return check


DASK_ADVICE = (
    "Select a model on a part of X, such as X[:10_000].compute(); then fit the projection of best_estimator_, with "
    "feature_map, on all of X."
)


def reject_dask(X: Any, name: str, advice: str = DASK_ADVICE) -> None:
    """Raise TypeError for Dask collections, since models are selected on samples in memory."""
    if is_dask(X):
        raise TypeError(f"{name} needs samples in memory, but X is a Dask collection. {advice}")


@keyword_parameters
class BaseSelector(DocLinkMixin, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """A classifier that predicts with its `best_estimator_`."""

    __metadata_request__fit: ClassVar = {"sample_domain": True, "sample_weight": True}
    __metadata_request__predict: ClassVar = {"sample_domain": True}
    __metadata_request__predict_proba: ClassVar = {"sample_domain": True}
    __metadata_request__decision_function: ClassVar = {"sample_domain": True}
    __metadata_request__score: ClassVar = {"sample_domain": True, "sample_weight": True}

    cv: Any = None
    scoring: str | Callable[..., float] = "accuracy"
    n_jobs: int | None = None
    verbose: int = 0
    best_estimator_: Any = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "cv": ["cv_object"],
        "scoring": [StrOptions(SCORING_NAMES), callable],
        "n_jobs": [Integral, None],
        "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }

    @abstractmethod
    def _get_classifiers(self) -> Sequence[Any]:
        """Return the selected classifier or, before `fit`, all candidates; methods that all have are available."""

    @abstractmethod
    def _prepare_prediction(self, X: Any, sample_domain: Any) -> tuple[Any, Any]:
        """Validate samples; return a classifier that needs no domains, and the samples as its input."""

    def predict(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Classify samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; if the selected model is transductive, a batch of each new domain. For a Dask array or dataframe,
            predictions are computed lazily, block by block: see :func:`unseen.distributed.predict`.
        sample_domain : array-like of shape (n_samples,), default=None
            Their domains, which transductive models use; None means one new domain.

        Returns
        -------
        y : ndarray or dask array of shape (n_samples,)
            Predicted classes.
        """
        return self._call_classifier("predict", X, sample_domain)

    @available_if(_has_method("predict_proba"))
    def predict_proba(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Predict class probabilities, if the classifier has them.

        Parameters
        ----------
        X, sample_domain
            As for `predict`.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        return self._call_classifier("predict_proba", X, sample_domain)

    @available_if(_has_method("decision_function"))
    def decision_function(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Compute confidence scores, if the classifier has them.

        Parameters
        ----------
        X, sample_domain
            As for `predict`.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            The scores of the classifier.
        """
        return self._call_classifier("decision_function", X, sample_domain)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sample_domain: Any = None) -> float:
        """Compute the score of the selected model, by `scoring`.

        Parameters
        ----------
        X, sample_domain
            As for `predict`.
        y : array-like of shape (n_samples,)
            True classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, for a `scoring` that accepts them.

        Returns
        -------
        score : float
            The score.
        """
        reject_dask(X, f"{type(self).__name__}.score", "Compute the result of `predict`, and compare it with y.")
        model, Z = self._prepare_prediction(X, sample_domain)
        scorer = get_metric_scorer(self.scoring, model)
        if sample_weight is None:  # some scorers do not accept weights
            return float(scorer(model, Z, y))
        return float(scorer(model, Z, y, sample_weight=sample_weight))

    def _call_classifier(self, method: str, X: Any, sample_domain: Any) -> Any:
        """Call a prediction method of the selected classifier; for Dask collections, block by block."""
        if is_dask(X):
            from .. import distributed

            return distributed.predict(self, X, sample_domain=sample_domain, method=method)
        model, Z = self._prepare_prediction(X, sample_domain)
        return getattr(model, method)(Z)

    def _make_splitter(self, y: Any = None) -> Any:
        return resolve_splitter(self.cv, y)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing: domains and weights for `fit`, and the metadata that the splitter requests.

        Returns
        -------
        routing : MetadataRouter
            The routing.
        """
        mapping = MethodMapping().add(caller="fit", callee="split")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(splitter=self._make_splitter(), method_mapping=mapping)
        )
