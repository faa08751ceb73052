"""UnseenClassifier: a calibrated ensemble for new domains."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..estimators import FEATURE_MAPS, Projection, Statistics, collect_statistics
from ..kernels import SizePlan
from ..utils.samples import Balance, Samples, make_samples
from ..utils.validation import (
    Labels,
    encode_classes,
    keyword_parameters,
    require_named_domains,
    reset_fitted_attributes,
)
from ._adaptation import (
    AdaptationPlan,
    adapt_ensemble,
    check_new_domain,
    check_not_adapted,
    plan_adaptation,
)
from ._candidate import bind_domains, is_transductive
from ._ensemble import EnsembleClassifier
from ._ensemble_selection import FittedEnsemble
from ._evaluation import EvaluationConfig, single_thread
from ._leaderboard import Forecast
from ._methods import HEADS, MAPPED_RIDGE, METHODS, Method, TableSize, expand_methods, parse_methods
from ._projection_search import BaseSelector, reject_dask
from ._refit import limit_evaluation_rows, refit_ensemble, select_model
from ._scoring import check_metric, warn_about_failures
from ._splitters import Split, domain_splits


@keyword_parameters
class UnseenClassifier(BaseSelector):
    """Calibrated ensemble for domains that are not in the training data, selected by leaving out one domain at a time.

    Many candidates predict each held-out domain: plain classifiers (logistic regression, rbf SVM, extra trees, random
    forests and gradient boosting), and CIDG with a logistic head. Each gets a temperature and a weight in a linear
    opinion pool that minimize the log loss on held-out domains. By default the prediction of a sample does not depend
    on the other samples of its batch.

    ``transductive=True`` adds *transductive* candidates, which use the unlabeled samples of a new domain and predict
    batches: logistic regression and the rbf SVM after a :class:`DomainCenterer`, and CIDG with target centering. They
    take part only if the ensemble with them is significantly better on held-out domains, by a one-sided paired t test
    at 5%, by more than a point on average, and not worse on batches with skewed classes; smoothing among nearest
    neighbors within a batch is accepted by the same rule.

    Reported scores of a held-out domain are cross-fitted: everything that is applied to it was fitted on other domains.
    See :ref:`ensembles`.

    Parameters
    ----------
    methods : "auto" or list, default="auto"
        The candidates: names in `unseen.model_selection.METHODS`, and classifiers of your own, as pairs
        ``("mine", SVC())`` or, with several settings, as triples ``("mine", SVC(), {"C": [1, 10]})``; see
        :ref:`own_models`. "auto" is "logistic", "RBF SVM", "CIDG", "extra trees", "random forest" and, unless classes
        times features exceed 500 or `X` is sparse, "gradient boosting"; with ``transductive=True`` also "centered
        logistic" and "centered RBF SVM". With `feature_map` also "mapped ridge", ridge classification of mapped
        features, which replaces the RBF SVMs.
    ensemble : bool, default=True
        Whether to fit an ensemble. Otherwise the candidate with the best mean over held-out domains is selected, except
        that a simpler kind is preferred whenever the advantage over it, paired by domain, is within one standard error
        of zero; among plain models the rbf SVM, which nests the linear ones, is preferred in that case.
    heads : sequence of {"1-NN", "logistic"}, default=("logistic",)
        Classifiers of projected features.
    feature_map : transformer, "linear" or None, default=None
        For more samples than a kernel matrix can hold: explicit features that replace the kernel of projections, such
        as :class:`~unseen.PivotedNystroem`. It is fitted for each split. A fitted map in a
        :class:`~sklearn.frozen.FrozenEstimator`, or "linear" for the features as they are, is evaluated once for all
        splits, settings and methods; the statistics of each domain are then collected once, and summed for each split.
    transductive : bool, default=False
        Whether transductive candidates and smoothing may be used. With False the prediction of a sample does not depend
        on the other samples of its batch. With True, if the acceptance tests are passed, it does: batches of at least
        10 samples of each new domain are then needed.
    cv : splitter, int or iterable, default=None
        None means :class:`~unseen.model_selection.LeaveOneDomainOut`.
    scoring : str or callable, default="accuracy"
        A scikit-learn scorer, for `leaderboard_`, `forecast_`, the acceptance tests and the selection of one candidate;
        weights and temperatures minimize the log loss. A held-out part on which it is not defined, such as AUC on a
        domain with one class, is left out for all models, with a warning.
    balance : {"none", "classes", "domains"}, default="none"
        What has equal weight in training: all samples, all classes (as with scikit-learn's ``class_weight="balanced"``)
        or all domains. Sample weights are computed for each training set and passed to classifiers that take them: all
        but 1-NN. Scores are not balanced: use a balanced `scoring` for that. Balanced classes change labels and
        prediction sets, which treat all classes as equally frequent; `predict_proba` refers to the natural class
        frequencies of the training data all the same.
    n_jobs : int, default=None
        Number of processes over methods.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    leaderboard_ : Leaderboard
        Ensembles and candidates, best first: see :class:`~unseen.model_selection.LeaderboardRow`. All scores are
        cross-fitted: those of an ensemble with weights and temperatures fitted without the part, those of a candidate
        with the settings that are best on the other parts; `params` are the settings that are best on all of them.
    members_ : list of dict
        Members of the ensemble in order of decreasing weight: `model`, `weight`, `kind` and `params`.
    decisions_ : list of str
        Why transductive steps are or are not used: gains, p value and the rule. Empty with ``transductive=False``.
    best_model_ : str
        Name of the ensemble, or of its only member.
    best_kind_ : {"plain", "inductive", "transductive"}
        Its kind.
    best_score_ : float
        Its mean score over held-out domains, cross-fitted. With ``ensemble=False`` a model is selected without each
        domain, which may be another one than the one that is refitted.
    forecast_ : Forecast
        Expected score on a new domain (`mean`), and the ends of a 95% prediction interval (`lower`, `upper`).
    calibration_ : dict
        Expected calibration error, log loss and reliability on held-out domains, cross-fitted, "before" and "after"
        temperature scaling.
    adaptation_ : dict
        How the classifier was adapted to a new domain; only in the result of `adapt`.
    best_estimator_ : EnsembleClassifier
        The ensemble, with members refitted on all data.
    source_domains_ : list of str
        Names of the source domains; empty without `sample_domain`.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, if `X` had string column names.

    See Also
    --------
    ProjectionSearchCV : Tunes one projection.

    Notes
    -----
    Features are not scaled. Unless they share one scale, use a scaler in a pipeline, as for any kernel method.

    In an ensemble, SVMs are trained on at most 2,000 samples, drawn by domain and class, and projections use 500
    landmarks beyond 1,000 samples. Above 8,000 samples, unless `feature_map` or `cv` is given, models are selected on a
    part of the samples, classifiers are trained on another, and projections are fitted to all samples through
    landmarks: see `unseen.kernels.SizePlan`.

    With more than 12 domains, models are trained without two or more of them at a time, and predict each of these.
    Up to 400 samples of four domains or more, models are also trained without each pair of domains, for the reported
    scores only, which takes two to three times as long; see :doc:`/mathematics_ensemble`.

    Examples
    --------
    >>> from unseen import UnseenClassifier
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(validation_domain=True, random_state=0)
    >>> model = UnseenClassifier(methods=["logistic", "CIDG"])
    >>> model = model.fit(data.data, data.target, sample_domain=data.domain)
    >>> float(model.predict_proba(data.data[:20]).sum().round(6))
    20.0

    With a classifier of your own and a grid of its settings:

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> mine = ("mine", KNeighborsClassifier(), {"n_neighbors": [5, 25]})
    >>> model = UnseenClassifier(methods=["logistic", mine]).fit(data.data, data.target, sample_domain=data.domain)
    >>> sorted(row.model for row in model.leaderboard_ if "ensemble" not in row.model)
    ['logistic', 'mine']
    """

    methods: Literal["auto"] | Sequence[Any] = field(default="auto", kw_only=False)
    ensemble: bool = True
    heads: Sequence[str] = ("logistic",)
    feature_map: Any = None
    transductive: bool = False
    balance: Balance = "none"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSelector._parameter_constraints,
        "methods": [StrOptions({"auto"}), list, tuple],
        "ensemble": ["boolean"],
        "heads": [list, tuple],
        "feature_map": FEATURE_MAPS,
        "transductive": ["boolean"],
        "balance": [StrOptions(set(get_args(Balance)))],
    }

    @require_named_domains
    def fit(self, X: Any, y: Any, *, sample_domain: Any = None, sample_weight: Any = None, **params: Any) -> Self:
        """Evaluate the candidates on held-out domains, fit the ensemble, and refit its members on all data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of all source domains.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain each sample comes from; also passed to `cv`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, for scores and for classifiers that take them. Projections ignore them.
        **params : dict
            `groups`: samples that `cv` must keep on one side of a split; a split that separates them raises ValueError.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._validate_params()
        reset_fitted_attributes(self)
        reject_dask(X, type(self).__name__)
        X, y = self._validate_samples(X, y, reset=True)
        self.classes_, _ = encode_classes(y, type(self).__name__)
        check_metric(self.scoring, self.classes_)
        methods = self._methods(X, len(self.classes_))
        samples = make_samples(X, y, sample_domain, sample_weight, params.pop("groups", None))
        plan = self._plan(methods, len(samples), params)
        used = samples
        if not plan.exact and len(samples) > plan.fit_rows:
            used = samples.take(samples.subsample_rows(plan.fit_rows))
        domain = None if sample_domain is None else used.domain
        splits = domain_splits(self, used, sample_domain if used is samples else domain, params)
        config = EvaluationConfig(
            scoring=self.scoring,
            balance=self.balance,
            n_jobs=self.n_jobs,
            description=type(self).__name__,
            verbose=self.verbose,
        )
        with single_thread():
            ensemble = self._select(methods, used, splits, plan, config)
        self.leaderboard_ = ensemble.leaderboard(_held_out_names(splits, domain))
        self.members_ = ensemble.member_table
        self.decisions_ = [test.reason for test in ensemble.acceptance_tests]
        self.best_model_ = ensemble.name
        self.best_kind_ = ensemble.kind
        self.best_score_ = ensemble.mean
        self._forecast_inputs = ensemble.forecast_inputs
        self.calibration_ = ensemble.calibration
        self.source_domains_ = [] if sample_domain is None else np.unique(samples.domain.astype(str)).tolist()

        def collect(projection: Projection) -> Statistics:
            return collect_statistics(projection, samples.X, y, samples.domain)

        self.best_estimator_, _ = refit_ensemble(ensemble, used, plan, config, collect=collect)
        return self

    def _select(
        self,
        methods: Sequence[Method],
        samples: Samples,
        splits: list[Split],
        plan: SizePlan,
        config: EvaluationConfig,
    ) -> FittedEnsemble:
        unknown = [head for head in self.heads if head not in HEADS]
        if unknown or not self.heads:
            raise ValueError(f"heads must be among {', '.join(HEADS)}; got {self.heads!r}.")
        centerings = ("source", "target") if self.transductive else ("source",)
        candidates = [
            candidate if len(methods) > 1 else candidate.without_limits
            for method in methods
            for candidate in method.candidates(
                len(self.classes_), grid="ensemble", heads=tuple(self.heads), centerings=centerings
            )
        ]
        candidates = limit_evaluation_rows(candidates, plan, is_single=len(methods) == 1)
        model = select_model(
            candidates, samples, splits, config, ensemble=self.ensemble, transductive=self.transductive
        )
        warn_about_failures(model.predictions.candidate_results)
        return model

    @property
    def forecast_(self) -> Forecast:
        """Expected score on a new domain (`mean`), and the ends of a 95% prediction interval (`lower`, `upper`)."""
        check_is_fitted(self, "best_estimator_")
        return Forecast.from_scores(*self._forecast_inputs)

    def _plan(self, methods: Sequence[Method], n_samples: int, params: dict[str, Any]) -> SizePlan:
        """The plan for the number of samples; exact if a feature map or splits are given, or no method has a kernel."""
        has_kernels = any(method.shares != "nothing" for method in methods)
        is_automatic = self.feature_map is None and self.cv is None and has_kernels and not params
        plan = SizePlan.from_rows(n_samples, exact=None if is_automatic else True, ensemble=len(methods) > 1)
        if self.verbose and not plan.exact:
            print(f"{type(self).__name__}: {plan}", file=sys.stderr)
        return plan

    def _methods(self, X: Any, n_classes: int | None = None) -> list[Method]:
        """The methods to compare, with the feature map in its place; "auto" omits those that n_classes makes slow."""
        if not self.methods:
            raise ValueError(
                f'methods must be "auto" or a list of names among {", ".join(METHODS)}, or of classifiers of your own; '
                f"got {self.methods!r}."
            )
        has_map = self.feature_map is not None and not isinstance(self.feature_map, str)
        is_sparse = sparse.issparse(X)
        size = None if n_classes is None else TableSize(X.shape, n_classes)
        chosen: dict[str, Method] = {}
        for method in parse_methods([self.methods] if isinstance(self.methods, str) else self.methods):
            # Sparse samples cannot be centered. A method that is requested by name, and cannot be used, is an error.
            is_transductive_allowed = self.transductive and not (method.members and is_sparse)
            members = expand_methods([method], transductive=is_transductive_allowed, size=size)
            if not method.members:
                self._check_method(method, is_sparse, has_map)
                members = [method]
            elif is_sparse:  # histograms of features need dense samples
                members = [one for one in members if not isinstance(one.classifier, HistGradientBoostingClassifier)]
            if method.members and self.feature_map is not None:  # mapped features have no kernel matrix
                members = [one for one in members if one.shares != "kernel matrix"]
                members += [METHODS[MAPPED_RIDGE]] if has_map else []
            for one in members:
                transformer = one.transformer
                if one.is_projection and self.feature_map is not None:
                    transformer = clone(transformer).set_params(feature_map=self.feature_map)
                elif one.name == MAPPED_RIDGE:
                    transformer = self.feature_map
                chosen[one.name] = replace(one, transformer=transformer)
        return [*chosen.values()]

    def _check_method(self, method: Method, is_sparse: bool, has_map: bool) -> None:
        """Raise ValueError for a method that was requested by name and cannot be used."""
        if is_sparse and is_transductive(method.transformer):
            raise ValueError(f"methods={self.methods!r} contains {method.name!r}, but sparse X cannot be centered.")
        if method.name == MAPPED_RIDGE and not has_map:
            raise ValueError(
                f"methods={self.methods!r} contains {MAPPED_RIDGE!r}, which needs a transformer as feature_map; got "
                f"feature_map={self.feature_map!r}."
            )

    def predict_set(self, X: Any, coverage: float | None = None, *, sample_domain: Any = None) -> list[Any]:
        """Prediction sets: the classes that each sample may have, with a given coverage on new domains.

        Parameters
        ----------
        X, sample_domain
            As for `predict`.
        coverage : float, default=None
            Probability that the set contains the true class, on average over new domains like those in `fit`. With m
            held-out domains at most 1 - 1/(m + 1) is attainable; a larger value raises ValueError. None means 0.9 or,
            with fewer than 9 held-out domains, the largest attainable coverage, which a
            :class:`~unseen.exceptions.CoverageWarning` states.

        Returns
        -------
        sets : list of ndarray
            The classes of each sample, the most probable first.
        """
        check_is_fitted(self, "best_estimator_")
        ensemble = self.best_estimator_
        coverage = ensemble.resolve_coverage(coverage)  # before anything is computed
        sets = ensemble.named_sets(np.asarray(self._call_classifier("decision_proba", X, sample_domain)), coverage)
        ensemble.warn_full_sets(all(len(classes) == len(self.classes_) for classes in sets), coverage)
        return sets

    def adapt(self, X: Any, y: Any, *, level: str = "auto", sample_domain: Any = None, source: Any = None) -> Self:
        """Adapt the fitted classifier to one new domain, of which some labels are known.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of the new domain.
        y : array-like of shape (n_samples,)
            Their classes; None or NaN where the label is not known.
        level : {"auto", "none", "offsets", "features", "refit"}, default="auto"
            "none" keeps the model, "offsets" fits class offsets and a temperature, "features" adds linear effects of
            the features, and "refit" fits the members again with the new domain among the source domains. "auto"
            selects "offsets" if they gain in a simulation on held-out domains and are unlikely to harm, and "features"
            if these are better in cross-validation on at least 25 labels; see :ref:`adapt`.
        sample_domain : array-like of shape (n_samples,), default=None
            The name of the new domain, for each sample; it must not be one of the source domains.
        source : tuple (X, y, sample_domain), default=None
            The source domains, which "refit" needs.

        Returns
        -------
        adapted : UnseenClassifier
            A new classifier; this one is not changed. `adaptation_` describes the level and the reason.
        """
        check_is_fitted(self, "best_estimator_")
        X = self._validate_samples(X)
        check_not_adapted(getattr(self, "adaptation_", None))
        labels = np.asarray(y, dtype=object)
        if labels.shape != (X.shape[0],):
            raise ValueError(
                f"y must have one entry for each of the {X.shape[0]} samples; got the shape {labels.shape}."
            )
        if sample_domain is not None:
            check_new_domain(np.unique(np.asarray(sample_domain).astype(str)).tolist(), self.source_domains_)
        source_data = None
        if source is not None:
            source_X, source_y, source_domain = source
            source_X, source_y = self._validate_samples(source_X, source_y)
            source_data = make_samples(source_X, source_y, source_domain, None, None)
        adapted = copy.copy(self)
        adapted.best_estimator_, adapted.adaptation_ = adapt_ensemble(
            self.best_estimator_, X, labels, level=level, source=source_data, balance=self.balance
        )
        return adapted

    def plan_adaptation(self) -> AdaptationPlan:
        """Simulate `adapt` on held-out domains, to plan how many labels of a new domain to collect.

        Returns
        -------
        plan : AdaptationPlan
            Expected gain against the number of labels.
        """
        check_is_fitted(self, "best_estimator_")
        return plan_adaptation(self.best_estimator_)

    def _validate_samples(self, X: Any, y: Any = "no_validation", *, reset: bool = False) -> Any:
        """Validate samples, with labels if these are given."""
        return validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype=(np.float64, np.float32))

    def _get_classifiers(self) -> Sequence[Any]:
        return [getattr(self, "best_estimator_", EnsembleClassifier((), np.empty(0), np.empty(0)))]

    def _prepare_prediction(self, X: Any, sample_domain: Any) -> tuple[Any, Any]:
        check_is_fitted(self, "best_estimator_")
        X = self._validate_samples(X)
        return bind_domains(self.best_estimator_, X, sample_domain)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _held_out_names(splits: list[Split], labels: Labels | None) -> list[str]:
    """Names of held-out parts: those of their domains if each part is one domain, else "split 0" and so on."""
    if labels is not None:
        held_out = [np.unique(labels[test].astype(str)) for _, test in splits]
        names = [str(part[0]) for part in held_out]
        if all(len(part) == 1 for part in held_out) and len(set(names)) == len(names):
            return names
    return [f"split {k}" for k in range(len(splits))]
