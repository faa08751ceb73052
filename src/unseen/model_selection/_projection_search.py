"""A grid search over a projection and a classifier that decomposes each fold's kernel matrix once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted, validate_data

from ..estimators import Projection, check_gram, validation_options
from ..exceptions import MaskedLabelsWarning, SingleDomainWarning, warn
from ..utils.estimator_mixins import keyword_parameters, reset_fitted_attributes
from ..utils.progress import with_callbacks
from ..utils.samples import Samples, make_samples
from ..utils.validation import MANY_CLASSES_WARNING, encode_classes, require_named_domains
from ..utils.warnings import ignore_warnings
from ._base_selector import BaseSelector, reject_dask
from ._candidate import Candidate, bind_domains
from ._decompositions import KERNEL_PARAMS
from ._registry import HEADS, METHODS
from ._split_evaluation import hashable_key, single_thread
from ._splitters import domain_splits
from ._validation import TIE_TOLERANCE, Split, best_index, tabulate_candidates


@keyword_parameters
class ProjectionSearchCV(MetaEstimatorMixin, BaseSelector):
    """Choose the settings of a projection, and of the classifier behind it, by cross-validation over domains.

    Gives the scores of :class:`~sklearn.model_selection.GridSearchCV` on the pipeline of projection and classifier,
    sooner: all kernel widths of a fold share its distances, each fold is decomposed once for each kernel width, and
    every further setting of weights, ridge and components is a problem of the size of the domain x class table.

    Parameters
    ----------
    estimator : projection
        One of this package's projections, such as :class:`CIDG`.
    param_grid : dict or list of dicts, default=None
        Lists of values for parameters of the projection and, prefixed ``classifier__``, of the classifier. None means
        the method's default grid, in multiples of the data's own scales.
    classifier : classifier, default=None
        What classifies the projected samples; None means 1-nearest-neighbor, as in the CIDG paper.
    cv : splitter, int or iterable, default=None
        None means :class:`~unseen.model_selection.LeaveOneDomainOut`: the weights decide how a *new* domain is
        treated, so only a held-out domain can choose them.
    scoring : str or callable, default="accuracy"
        A scikit-learn scorer.
    refit : bool or callable, default=True
        Whether to refit the chosen setting on all data; a callable gets `cv_results_` and returns its index.
    n_jobs : int, default=None
        Number of processes over folds and kernels.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    cv_results_ : dict of ndarrays
        As in GridSearchCV; also `n_ties`, how many other settings have exactly the same mean score; `transductive`,
        which settings center a domain on its own unlabeled samples; and the means over folds of the number of
        components, the ridge and the sum of the invariance weights, as numbers.
    best_index_, best_params_, best_score_ : int, dict, float
        The chosen setting. Of equal mean scores, the one with fewer components is preferred, then the larger ridge,
        then the larger invariance weights, then the first in the grid.
    best_estimator_ : Pipeline
        Projection and classifier, refitted on all data; only with `refit`.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_splits_ : int
        Number of folds.
    {features_in}

    See Also
    --------
    UnseenClassifier : Compares whole families of models this way.

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
    refit: bool | Callable[[dict[str, Any]], int] = True

    __metadata_request__transform: ClassVar = {"sample_domain": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSelector._parameter_constraints,
        "estimator": [HasMethods(["fit", "transform"])],
        "param_grid": [dict, list, None],
        "classifier": [HasMethods(["fit", "predict"]), None],
        "refit": ["boolean", callable],
    }

    @require_named_domains
    def fit(self, X: Any, y: Any, *, sample_domain: Any = None, sample_weight: Any = None, **params: Any) -> Self:
        """Score every setting and refit the best.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of all source domains; the Gram matrix for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain each sample comes from; also handed to `cv`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, for scores and for a classifier that takes them. The projection sees all samples alike.
        **params : dict
            `groups`: which samples belong together, for `cv` to keep on one side of a split; one that parts them is
            refused.

        Returns
        -------
        self : object
            The fitted search.
        """
        self._validate_params()
        reset_fitted_attributes(self)
        if not isinstance(self.estimator, Projection):
            raise TypeError(
                f"estimator must be one of unseen's projections, such as CIDG(); got {self.estimator!r}. For other "
                "estimators use sklearn.model_selection.GridSearchCV with cv=LeaveOneDomainOut()."
            )
        reject_dask(X, type(self).__name__)
        data = self._check_data(X, y, sample_domain, sample_weight, params.pop("groups", None))
        splits = domain_splits(self, data, sample_domain, params)
        settings = self._settings()
        if not settings:
            raise ValueError(
                f"param_grid={self.param_grid!r} holds no setting; pass {{}} to score the estimator as it is."
            )
        candidates = self._candidates(settings)
        results = self._score(candidates, data, splits)
        _report_failures(results["errors"])
        self.n_splits_ = len(splits)
        self.cv_results_ = tabulate(results, candidates)
        self._choose()
        if self.refit is not False:
            # The search has warned already.
            with single_thread(), ignore_warnings(SingleDomainWarning, MaskedLabelsWarning, MANY_CLASSES_WARNING):
                self.best_estimator_ = candidates[self.best_index_].fitted(data.X, data.y, sample_domain, data.weight)
        return self

    def _check_data(self, X: Any, y: Any, sample_domain: Any, sample_weight: Any, groups: Any) -> Samples:
        X, y = validate_data(self, X, y, **validation_options(self.estimator))
        if self.estimator.kernel == "precomputed" and self.estimator.feature_map is None:
            check_gram(X)
        self.classes_, _ = encode_classes(y, type(self).__name__)
        return make_samples(X, y, sample_domain, sample_weight, groups)

    def _head(self) -> Any:
        return HEADS["1-NN"] if self.classifier is None else self.classifier

    def _candidates(self, settings: list[dict[str, Any]]) -> list[Candidate]:
        head, prefix = self._head(), "classifier__"
        common = self.estimator.get_params(deep=False)
        candidates: list[Candidate] = []
        maps: dict[Any, Any] = {}
        valid = set[Any]()  # values that settings share are validated once
        for setting in settings:
            own = {k: v for k, v in setting.items() if not k.startswith(prefix)}
            if own.keys() <= common.keys():
                projection = type(self.estimator)(**{**common, **own})
            else:  # parameters of a feature map, or unknown ones
                projection = clone(self.estimator).set_params(**own)
                alike = tuple((k, hashable_key(v)) for k, v in own.items() if k.startswith("feature_map"))
                projection.feature_map = maps.setdefault(alike, projection.feature_map)  # one object, evaluated once
            values = {(name, type(value), hashable_key(value)) for name, value in own.items()}
            if not candidates or not values <= valid:
                projection._validate_params()
                valid |= values
            _require_effect(projection, own)
            tuned = {k.removeprefix(prefix): v for k, v in setting.items() if k.startswith(prefix)}
            classifier = clone(head).set_params(**tuned) if tuned else head
            parts = type(projection).__name__, setting, projection, classifier
            candidates.append(Candidate(*parts, shares="decomposition", plain=False))
        return candidates

    @with_callbacks
    def _score(self, candidates: list[Candidate], data: Samples, splits: list[Split]) -> dict[str, Any]:
        name = f"{type(self.estimator).__name__} search"
        shown = {"description": name, "verbose": self.verbose, "owner": self}
        return tabulate_candidates(candidates, data, splits, scoring=self.scoring, n_jobs=self.n_jobs, shown=shown)

    def _settings(self) -> list[dict[str, Any]]:
        if self.param_grid is not None:
            return list(ParameterGrid(self.param_grid))
        known = [m for m in METHODS.values() if m.is_projection and isinstance(self.estimator, type(m.transformer))]
        if not known:
            raise ValueError(f"There is no default grid for {type(self.estimator).__name__}; pass param_grid.")
        return replace(known[0], transformer=self.estimator).settings(len(self.classes_))

    def _choose(self) -> None:
        means = self.cv_results_["mean_test_score"]
        self.best_index_ = (self.refit if callable(self.refit) else best_index)(self.cv_results_)
        if not 0 <= self.best_index_ < len(means):
            raise IndexError(f"refit returned {self.best_index_!r}, which is no index among {len(means)} settings.")
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(means[self.best_index_])

    def _classifiers(self) -> Sequence[Any]:
        return [self._head()]

    def _seen(self, X: Any, sample_domain: Any) -> tuple[Any, Any]:
        Z = self.transform(X, sample_domain=sample_domain)
        return bind_domains(self.best_estimator_[-1], Z, sample_domain)

    def transform(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Project samples with the chosen projection.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        sample_domain : array-like of shape (n_samples,), default=None
            Their domains, which matter for ``centering="target"``.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Learned features.
        """
        check_is_fitted(self, "cv_results_")
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"This {type(self).__name__} was fitted with refit=False; it has no model to use.")
        X = validate_data(self, X, reset=False, **validation_options(self.estimator))
        return self.best_estimator_[0].transform(X, sample_domain=sample_domain)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the chosen projection's components.

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
        """Fit, then project the same samples.

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
        inner = get_tags(self.estimator)
        tags.transformer_tags = inner.transformer_tags
        tags.input_tags.sparse, tags.input_tags.pairwise = inner.input_tags.sparse, inner.input_tags.pairwise
        return tags


def tabulate(results: dict[str, Any], candidates: Sequence[Candidate]) -> dict[str, Any]:
    """The same as GridSearchCV's ``cv_results_``, with some columns of our own."""
    scores, means, facts = results["scores"], results["mean_test_score"], results["facts"]
    spread = scores[:, results["defined"]].std(axis=1)
    params = [candidate.settings for candidate in candidates]
    return {
        "mean_fit_time": facts["fit_seconds"].mean(axis=1),
        "std_fit_time": facts["fit_seconds"].std(axis=1),
        "mean_score_time": facts["predict_seconds"].mean(axis=1),
        "std_score_time": facts["predict_seconds"].std(axis=1),
        **_param_columns(params),
        "params": params,
        **{f"split{k}_test_score": column for k, column in enumerate(scores.T)},
        "mean_test_score": means,
        "std_test_score": spread,
        "rank_test_score": rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32),
        "n_ties": np.array(
            [np.sum(np.abs(means - mean) <= TIE_TOLERANCE) - 1 if np.isfinite(mean) else 0 for mean in means]
        ),
        **{name: results[name] for name in ("mean_n_components", "mean_ridge", "mean_invariance_weight")},
        "transductive": np.array([candidate.transductive for candidate in candidates]),
    }


def _param_columns(params: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for setting in params for name in setting)
    columns = {}
    for name in names:
        column = np.ma.MaskedArray(np.empty(len(params), dtype=object), mask=True)
        for i, setting in enumerate(params):
            if name in setting:
                column[i] = setting[name]
        columns[f"param_{name}"] = column
    return columns


def _require_effect(projection: Projection, setting: dict[str, Any]) -> None:
    idle = [name for name in KERNEL_PARAMS if name in setting and name != "feature_map"]
    if idle and projection.feature_map is not None:
        raise ValueError(
            f"param_grid holds {idle[0]!r}, which has no effect with feature_map={projection.feature_map!r}. Search "
            f"over parameters of the map, such as 'feature_map__{idle[0]}', or leave it out."
        )


def _report_failures(errors: list[str]) -> None:
    failed = [error for error in errors if error]
    if failed and len(failed) == len(errors):
        raise ValueError(f"Every one of the {len(errors)} settings failed; the first says: {failed[0]}")
    if failed:
        warn(
            f"{len(failed)} of {len(errors)} settings failed on some fold and score NaN; the first says: {failed[0]}",
            RuntimeWarning,
        )
