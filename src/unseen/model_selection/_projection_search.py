"""Grid search over a projection and a classifier, with one decomposition of the kernel matrix per fold and kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..estimators import Projection, validation_options
from ..exceptions import MaskedLabelsWarning, SingleDomainWarning, ignore_warnings, warn
from ..kernels import check_gram
from ..utils.samples import Samples, make_samples
from ..utils.validation import (
    MANY_CLASSES_WARNING,
    DocLinkMixin,
    encode_classes,
    is_dask,
    keyword_parameters,
    require_named_domains,
    reset_fitted_attributes,
)
from ._candidate import Candidate, bind_domains
from ._evaluation import (
    KERNEL_PARAMS,
    EvaluationConfig,
    hashable_key,
    single_thread,
    tabulate_candidates,
)
from ._methods import HEADS, METHODS
from ._scoring import SCORING_NAMES, TIE_TOLERANCE, best_index, score_model
from ._splitters import domain_splits, resolve_splitter


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
class BaseSelector(DocLinkMixin, ClassifierMixin, BaseEstimator):
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
        return score_model(self.scoring, model, Z, y, sample_weight)

    def _call_classifier(self, method: str, X: Any, sample_domain: Any) -> Any:
        """Call a prediction method of the selected classifier; for Dask collections, block by block."""
        if is_dask(X):
            from .. import distributed

            return distributed.predict(self, X, sample_domain=sample_domain, method=method)
        model, Z = self._prepare_prediction(X, sample_domain)
        return getattr(model, method)(Z)

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
            .add(splitter=resolve_splitter(self.cv), method_mapping=mapping)
        )


@keyword_parameters
class ProjectionSearchCV(MetaEstimatorMixin, BaseSelector):
    """Select the settings of a projection, and of the classifier after it, by cross-validation over domains.

    The scores equal those of :class:`~sklearn.model_selection.GridSearchCV` on the pipeline of projection and
    classifier, in less time: all kernel widths of a fold share its distances, each fold is decomposed once for each
    kernel width, and every further setting of weights, ridge and components is a problem of the size of the table of
    domains and classes.

    Parameters
    ----------
    estimator : projection
        One of this package's projections, such as :class:`CIDG`.
    param_grid : dict or list of dicts, default=None
        Lists of values for parameters of the projection and, prefixed ``classifier__``, of the classifier. None means
        the default grid of the method, in multiples of scales of the data.
    classifier : classifier, default=None
        Classifier of the projected samples; None means 1-nearest-neighbor, as in the CIDG paper.
    cv : splitter, int or iterable, default=None
        None means :class:`~unseen.model_selection.LeaveOneDomainOut`: the weights determine the performance on a *new*
        domain, so they are selected on held-out domains.
    scoring : str or callable, default="accuracy"
        A scikit-learn scorer.
    refit : bool, default=True
        Whether to refit the selected setting on all data.
    n_jobs : int, default=None
        Number of processes over folds and kernels.
    verbose : int, default=0
        1 shows the progress.

    Attributes
    ----------
    cv_results_ : dict of ndarrays
        As in GridSearchCV; also `n_ties`, the number of other settings with the same mean score, and `transductive`,
        whether a setting centers a new domain on its unlabeled samples.
    best_index_, best_params_, best_score_ : int, dict, float
        The selected setting. Ties go to fewer components, then to the larger ridge, then to the larger invariance
        weights, then to the first setting in the grid.
    best_estimator_ : Pipeline
        Projection and classifier, refitted on all data; only with `refit`.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_splits_ : int
        Number of folds.
    {features_in}

    See Also
    --------
    UnseenClassifier : Selects among several methods, or combines them in an ensemble.

    Examples
    --------
    >>> from unseen import CIDG, ProjectionSearchCV
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> grid = {"conditional_weight": [0, 1e2, 1e4], "ridge": ["1e-2*scale", "scale"]}
    >>> search = ProjectionSearchCV(CIDG(), grid).fit(data.data, data.target, sample_domain=data.domain)
    >>> len(search.cv_results_["params"])
    6
    >>> search.predict(data.data).shape
    (320,)
    """

    estimator: Projection = field(kw_only=False)
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None = field(
        default=None, kw_only=False
    )
    classifier: Any = None
    refit: bool = True

    __metadata_request__transform: ClassVar = {"sample_domain": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSelector._parameter_constraints,
        "estimator": [HasMethods(["fit", "transform"])],
        "param_grid": [dict, list, None],
        "classifier": [HasMethods(["fit", "predict"]), None],
        "refit": ["boolean"],
    }

    @require_named_domains
    def fit(self, X: Any, y: Any, *, sample_domain: Any = None, sample_weight: Any = None, **params: Any) -> Self:
        """Score every setting and refit the best one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of all source domains; the Gram matrix for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample; also passed to `cv`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, for scores and for a classifier that accepts them. The projection does not use them.
        **params : dict
            `groups`: groups of samples that must be on one side of each split of `cv`; otherwise an error is raised.
            With metadata routing, also the metadata that `cv` requests.

        Returns
        -------
        self : object
            The fitted search.
        """
        self._validate_params()
        reset_fitted_attributes(self)
        if not isinstance(self.estimator, Projection):
            raise TypeError(
                f"estimator must be a projection of unseen, such as CIDG(); got {self.estimator!r}. For other "
                "estimators use sklearn.model_selection.GridSearchCV with cv=LeaveOneDomainOut()."
            )
        reject_dask(X, type(self).__name__)
        data = self._check_data(X, y, sample_domain, sample_weight, params.pop("groups", None))
        splits = domain_splits(self, data, sample_domain, params)
        settings = self._settings()
        if not settings:
            raise ValueError(
                f"param_grid={self.param_grid!r} contains no setting. Use {{}} to score the estimator as it is."
            )
        candidates = self._candidates(settings)
        config = EvaluationConfig(
            scoring=self.scoring,
            n_jobs=self.n_jobs,
            description=f"{type(self.estimator).__name__} search",
            verbose=self.verbose,
        )
        results = tabulate_candidates(candidates, data, splits, config)
        _report_failures(results["errors"])
        self.n_splits_ = len(splits)
        self.cv_results_ = make_cv_results(results, candidates)
        self.best_index_ = best_index(results)
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        if self.refit:
            # The search has issued these warnings already.
            with single_thread(), ignore_warnings(SingleDomainWarning, MaskedLabelsWarning, MANY_CLASSES_WARNING):
                self.best_estimator_ = candidates[self.best_index_].fit(data.X, data.y, sample_domain, data.weight)
        return self

    def _validate_samples(self, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
        """Validate samples as the projection does, with labels if these are given."""
        return validate_data(self, X, y, reset=reset, **validation_options(self.estimator))

    def _check_data(self, X: Any, y: Any, sample_domain: Any, sample_weight: Any, groups: Any) -> Samples:
        X, y = self._validate_samples(X, y)
        if self.estimator.kernel == "precomputed" and self.estimator.feature_map is None:
            check_gram(X)
        self.classes_, _ = encode_classes(y, type(self).__name__)
        return make_samples(X, y, sample_domain, sample_weight, groups)

    def _get_head(self) -> Any:
        return HEADS["1-NN"] if self.classifier is None else self.classifier

    def _candidates(self, settings: list[dict[str, Any]]) -> list[Candidate]:
        head = self._get_head()
        prefix = "classifier__"
        candidates: list[Candidate] = []
        feature_maps: dict[Any, Any] = {}
        for setting in settings:
            params = {name: value for name, value in setting.items() if not name.startswith(prefix)}
            projection = clone(self.estimator).set_params(**params)
            # Settings with the same feature map share one object, which is evaluated once.
            map_params = tuple(
                (name, hashable_key(value)) for name, value in params.items() if name.startswith("feature_map")
            )
            projection.feature_map = feature_maps.setdefault(map_params, projection.feature_map)
            projection._validate_params()
            _check_params_have_effect(projection, params)
            head_params = {
                name.removeprefix(prefix): value for name, value in setting.items() if name.startswith(prefix)
            }
            candidates.append(
                Candidate(
                    type(projection).__name__,
                    setting,
                    projection,
                    clone(head).set_params(**head_params) if head_params else head,
                    shares="decomposition",
                    plain=False,
                )
            )
        return candidates

    def _settings(self) -> list[dict[str, Any]]:
        if self.param_grid is not None:
            return list(ParameterGrid(self.param_grid))
        for method in METHODS.values():
            if method.is_projection and isinstance(self.estimator, type(method.transformer)):
                return replace(method, transformer=self.estimator).settings(len(self.classes_))
        raise ValueError(f"There is no default grid for {type(self.estimator).__name__}. Pass param_grid.")

    def _get_classifiers(self) -> Sequence[Any]:
        return [self._get_head()]

    def _prepare_prediction(self, X: Any, sample_domain: Any) -> tuple[Any, Any]:
        Z = self.transform(X, sample_domain=sample_domain)
        return bind_domains(self.best_estimator_[-1], Z, sample_domain)

    def transform(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Project samples with the selected projection.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        sample_domain : array-like of shape (n_samples,), default=None
            Their domains, which ``centering="target"`` uses.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Learned features.
        """
        check_is_fitted(self, "cv_results_")
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(
                f"This {type(self).__name__} was fitted with refit=False, so it cannot predict. Use refit=True."
            )
        X = self._validate_samples(X, reset=False)
        return self.best_estimator_[0].transform(X, sample_domain=sample_domain)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the components of the selected projection.

        Parameters
        ----------
        input_features : None
            Not used.

        Returns
        -------
        names : ndarray of str
            Such as ``["cidg0", "cidg1"]``.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_[0].get_feature_names_out(input_features)

    @require_named_domains
    def fit_transform(self, X: Any, y: Any, *, sample_domain: Any = None, **params: Any) -> Any:
        """Fit to samples, and project these.

        Parameters
        ----------
        X, y, sample_domain, **params
            As for `fit`.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Learned features of the training samples.
        """
        return self.fit(X, y, sample_domain=sample_domain, **params).transform(X, sample_domain=sample_domain)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator_tags = get_tags(self.estimator)
        tags.transformer_tags = estimator_tags.transformer_tags
        tags.input_tags.sparse = estimator_tags.input_tags.sparse
        tags.input_tags.pairwise = estimator_tags.input_tags.pairwise
        return tags


def make_cv_results(results: dict[str, Any], candidates: Sequence[Candidate]) -> dict[str, Any]:
    """Convert results to ``cv_results_`` as in GridSearchCV, with further columns."""
    scores = results["scores"]
    means = results["mean_test_score"]
    fit_seconds = results["facts"]["fit_seconds"]
    predict_seconds = results["facts"]["predict_seconds"]
    n_ties = [np.sum(np.abs(means - mean) <= TIE_TOLERANCE) - 1 if np.isfinite(mean) else 0 for mean in means]
    params = [candidate.settings for candidate in candidates]
    return {
        "mean_fit_time": fit_seconds.mean(axis=1),
        "std_fit_time": fit_seconds.std(axis=1),
        "mean_score_time": predict_seconds.mean(axis=1),
        "std_score_time": predict_seconds.std(axis=1),
        **{
            f"param_{name}": np.ma.MaskedArray(
                np.fromiter((setting.get(name) for setting in params), dtype=object, count=len(params)),
                mask=[name not in setting for setting in params],
            )
            for name in dict.fromkeys(name for setting in params for name in setting)
        },
        "params": params,
        **{f"split{k}_test_score": column for k, column in enumerate(scores.T)},
        "mean_test_score": means,
        "std_test_score": scores[:, results["defined"]].std(axis=1),
        "rank_test_score": rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32),
        "n_ties": np.array(n_ties),
        "transductive": np.array([candidate.transductive for candidate in candidates]),
    }


def _check_params_have_effect(projection: Projection, params: dict[str, Any]) -> None:
    if projection.feature_map is None:
        return
    for name in KERNEL_PARAMS:
        if name in params and name != "feature_map":
            raise ValueError(
                f"param_grid contains {name!r}, which has no effect with feature_map={projection.feature_map!r}. "
                f"Search over parameters of the map, such as 'feature_map__{name}', or remove {name!r}."
            )


def _report_failures(errors: list[str]) -> None:
    failures = [error for error in errors if error]
    if failures and len(failures) == len(errors):
        raise ValueError(f"All {len(errors)} settings failed. The first error is: {failures[0]}")
    if failures:
        warn(
            f"{len(failures)} of {len(errors)} settings failed on some fold, and their score is NaN. The first error "
            f"is: {failures[0]}",
            RuntimeWarning,
        )
