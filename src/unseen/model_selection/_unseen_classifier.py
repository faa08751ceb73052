"""UnseenClassifier: the best model for the next domain, chosen honestly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import get_scorer_names
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..estimators import FEATURE_MAPS, collect_statistics
from ..kernels import SizePlan
from ..utils.estimator_mixins import reset_fitted_attributes
from ..utils.progress import with_callbacks
from ..utils.samples import Balance, Samples, make_samples
from ..utils.validation import Labels, encode_classes, require_named_domains
from ._base_selector import BaseSelector, reject_dask
from ._candidate import bind_domains, ignore_expected_warnings, is_transductive
from ._comparison import CandidateResult, warn_about_failures
from ._ensemble import EnsembleClassifier
from ._ensemble_selection import FittedEnsemble, evaluate_and_fit_ensemble, make_leaderboard
from ._landmark_fit import LandmarkFit
from ._metrics import check_metric
from ._registry import HEADS, MAPPED_RIDGE, METHODS, Method, expand_methods, parse_methods
from ._split_evaluation import single_thread
from ._splitters import domain_splits
from ._validation import Split


class UnseenClassifier(BaseSelector):
    """The best classifier for a domain that nobody has seen.

    Asks many models about each domain, none of them trained on it, and pools what they say: plain classifiers (logistic
    regression, linear and rbf SVM), the same behind a :class:`DomainCenterer`, and CIDG with a logistic head under
    source and target centering. Each has a temperature, and a share in a linear pool, that minimize the log loss on
    held-out domains. There are two pools, one of *inductive* models and one of all. *Transductive* models, which look
    at unlabeled samples of the new domain and predict batches, take part only if the second pool is significantly
    better on held-out domains, by a one-sided paired t test at 5%, by more than a point on average, and not worse where
    these are drawn again with a skew of classes; smoothing by nearest neighbors within a batch is taken by the same
    rule. Scores that are reported for a held-out domain are cross-fitted: whatever is applied to it was fitted on other
    domains. See :ref:`pooling`.

    Parameters
    ----------
    methods : "auto" or list, default="auto"
        Who takes part: names in `unseen.model_selection.METHODS`, and classifiers of your own, as pairs ``("mine",
        SVC())`` or, to have several settings take part, as triples ``("mine", SVC(), {"C": [1, 10]})``; see
        :ref:`own_models`. "auto" is "logistic", "linear SVM", "RBF SVM", the
        same behind a centerer ("centered logistic" and so on), and "CIDG". With `feature_map` also
        "mapped ridge", ridge classification behind the map, which stands in for the RBF SVMs in "auto".
    pool : bool, default=True
        Whether models are pooled. Otherwise the one with the best mean over held-out domains is picked, except that a
        simpler kind is preferred whenever the winner's advantage over it, paired by domain, is within one standard
        error of zero; among plain models the rbf SVM, which nests the linear ones, stands for all such.
    heads : sequence of {"1-NN", "logistic"}, default=("logistic",)
        What classifies behind a projection.
    feature_map : transformer, "linear" or None, default=None
        For more samples than a kernel matrix can hold: what the projections see in place of a kernel, such as
        :class:`~unseen.PivotedNystroem`. Each fold fits it anew. A fitted map in a
        :class:`~sklearn.frozen.FrozenEstimator`, or "linear" for the features as they are, is evaluated once for all
        folds, settings and methods; the statistics of each domain are then collected once, and added up for each fold.
    transductive : bool, default=True
        Whether models that look at the new domain, and smoothing, may be used. Set it to False to predict single
        samples, or to keep the new domain's samples out of its predictions. What that promises is the level of the best
        plain model, chosen for you.
    cv : splitter, int or iterable, default=None
        None means :class:`~unseen.model_selection.LeaveOneDomainOut`.
    scoring : str or callable, default="accuracy"
        A scikit-learn scorer, for `leaderboard_`, `forecast_`, the acceptance tests and what is picked; weights of a
        pool and temperatures follow from log loss. A held-out part on which it is not defined, such as AUC on a domain
        with one class, is left out for all models alike, with a warning.
    balance : {"none", "classes", "domains"}, default="none"
        What weighs alike in training: nothing, all classes (as with scikit-learn's ``class_weight="balanced"``) or all
        domains. These are weights of samples, made for each training set, for classifiers that take them: all but
        1-nearest-neighbor. Scores are not balanced: that is for `scoring` to say. Balanced classes change labels and
        prediction sets, which treat all classes as equally frequent; `predict_proba` refers to the natural class
        frequencies of the training data all the same.
    n_jobs : int, default=None
        Number of processes over methods.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    leaderboard_ : list of dict
        Pools and single models, best first: `model`, `kind`, `mean`, `standard_error`, `scores` (one per held-out part,
        by the name of the domain where it is one domain; NaN where there is none), `skewed` (mean score on the same
        parts drawn again, half of the classes with 80% of the samples), `params`, `seconds`, `weight` (its share in the
        pool), `guard` (why the step that a pool adds is or is not taken) and whether it was `chosen`. All scores are
        cross-fitted: those of a pool by weights and temperatures that did not see the part, those of a single model by
        the settings that are best on the other parts; `params` are the settings that are best on all of them.
    members_ : list of dict
        Who is in the pool, the weightiest first: `model`, `weight`, `kind` and `params`.
    decisions_ : list of str
        Why steps that look at the new domain are or are not taken: gains, p value and the rule, in sentences.
    best_model_ : str
        Name of the pool, or of the model if it has one member.
    best_kind_ : {"plain", "inductive", "transductive"}
        Its kind.
    best_score_ : float
        Its mean score over held-out domains, cross-fitted. With ``pool=False`` the model is picked anew without each
        domain, so that it may be another one than the one that is refitted.
    forecast_ : tuple of float
        What to expect on the next domain: the mean of the scores on held-out domains, and the ends of a 95% prediction
        interval for one more, within the range of the score.
    calibration_ : dict
        Expected calibration error, log loss and reliability on held-out domains, cross-fitted, "before" probabilities
        were tempered, and "after".
    best_estimator_ : Pool
        The pool, its members refitted on all data.
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
    Features are used as they come. Unless they share one scale, put a scaler in front, as for any kernel method.

    Above 8,000 samples, unless `feature_map` or `cv` says otherwise, a part of the samples chooses, another trains the
    classifier, and a projection sees all of them through landmarks: see `unseen.kernels.Plan`.

    Up to 1,000 samples of four domains or more, models are also trained without each pair of domains, for the reported
    scores alone, which takes two to three times as long; see :doc:`/mathematics_ensemble`.

    Examples
    --------
    >>> from unseen import UnseenClassifier
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(validation_domain=True, random_state=0)
    >>> model = UnseenClassifier(methods=["logistic", "CIDG"])
    >>> model = model.fit(data.data, data.target, sample_domain=data.domain)
    >>> float(model.predict_proba(data.data[:20]).sum().round(6))
    20.0

    Beside a classifier of one's own, with settings to choose from:

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> mine = ("mine", KNeighborsClassifier(), {"n_neighbors": [5, 25]})
    >>> model = UnseenClassifier(methods=["logistic", mine]).fit(data.data, data.target, sample_domain=data.domain)
    >>> sorted(row["model"] for row in model.leaderboard_ if "pool" not in row["model"])
    ['logistic', 'mine']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "methods": [StrOptions({"auto"}), list, tuple],
        "pool": ["boolean"],
        "heads": [list, tuple],
        "feature_map": FEATURE_MAPS,
        "transductive": ["boolean"],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable],
        "balance": [StrOptions(set(get_args(Balance)))],
        "n_jobs": [Integral, None],
        "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }

    def __init__(
        self,
        methods: Literal["auto"] | Sequence[Any] = "auto",
        *,
        pool: bool = True,
        heads: Sequence[str] = ("logistic",),
        feature_map: Any = None,
        transductive: bool = True,
        cv: Any = None,
        scoring: str | Callable[..., float] = "accuracy",
        balance: Balance = "none",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.methods = methods
        self.pool = pool
        self.heads = heads
        self.feature_map = feature_map
        self.transductive = transductive
        self.cv = cv
        self.scoring = scoring
        self.balance = balance
        self.n_jobs = n_jobs
        self.verbose = verbose

    @require_named_domains
    def fit(self, X: Any, y: Any, *, sample_domain: Any = None, sample_weight: Any = None, **params: Any) -> Self:
        """Ask the models about held-out domains, pool them, and refit those that matter.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of all source domains.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain each sample comes from; also handed to `cv`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, for scores and for classifiers that take them. Projections see all samples alike.
        **params : dict
            `groups`: which samples belong together, for `cv` to keep on one side of a split; one that parts them is
            refused.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._validate_params()
        reset_fitted_attributes(self)
        reject_dask(X, type(self).__name__)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32))
        self.classes_, _ = encode_classes(y, type(self).__name__)
        check_metric(self.scoring, self.classes_)
        methods = self._methods(X)
        samples = make_samples(X, y, sample_domain, sample_weight, params.pop("groups", None))
        X = samples.X
        plan = self._plan(methods, len(samples), params)
        few = samples if plan.exact else samples.take(samples.subsample_rows(plan.choice_rows))
        domain = None if sample_domain is None else few.domain
        splits = domain_splits(self, few, sample_domain if plan.exact else domain, params)
        with single_thread():
            field, pooling = self._compare(methods, few, splits)
        self._tell(field, pooling, _held_out_names(splits, domain))
        with ignore_expected_warnings():  # the comparison has said what there is to say
            if plan.exact:
                weight = samples.weights(balance=self.balance)
                with single_thread():
                    members = [member.fitted(X, y, sample_domain, weight) for member in pooling.members]
            else:
                sample = samples.take(samples.subsample_rows(plan.sample_rows))
                large = LandmarkFit(
                    sample, lambda p: collect_statistics(p, X, y, samples.domain), plan, balance=self.balance
                )
                members = [large.fitted(member)[0] for member in pooling.members]
        self.best_estimator_ = pooling.estimator(members)
        return self

    def _tell(self, field: list[CandidateResult], pooling: FittedEnsemble, names: list[str]) -> None:
        """Set what says how the choice was made."""
        self.leaderboard_ = make_leaderboard(field, pooling, names)
        self.members_ = pooling.table
        self.decisions_ = [guard.reason for guard in pooling.guards]
        self.best_model_, self.best_kind_ = pooling.name, pooling.kind
        self.best_score_, self.forecast_ = pooling.mean, pooling.forecast
        self.calibration_ = pooling.calibration

    def _plan(self, methods: Sequence[Method], n_samples: int, params: dict[str, Any]) -> SizePlan:
        """By size, unless somebody has said what stands for the kernel or what to hold out, or there is no kernel."""
        kernels = any(method.shares != "nothing" for method in methods)
        own = self.feature_map is None and self.cv is None and kernels and not params
        plan = SizePlan.from_rows(n_samples, exact=None if own else True)
        if self.verbose and not plan.exact:
            print(f"{type(self).__name__}: {plan}", file=sys.stderr)
        return plan

    @with_callbacks
    def _compare(
        self, methods: Sequence[Method], samples: Samples, splits: list[Split]
    ) -> tuple[list[CandidateResult], FittedEnsemble]:
        unknown = [head for head in self.heads if head not in HEADS]
        if unknown or not self.heads:
            raise ValueError(f"heads must be among {', '.join(HEADS)}; got {self.heads!r}.")
        centerings = ("source", "target") if self.transductive else ("source",)
        how: dict[str, Any] = {"coarse": True, "heads": tuple(self.heads), "centerings": centerings}
        candidates = [c for method in methods for c in method.candidates(len(self.classes_), **how)]
        shown = {"description": type(self).__name__, "verbose": self.verbose, "owner": self}
        work: dict[str, Any] = {"balance": self.balance, "n_jobs": self.n_jobs, "shown": shown, "scoring": self.scoring}
        found = evaluate_and_fit_ensemble(
            candidates, samples, splits, pool=self.pool, transductive=self.transductive, **work
        )
        warn_about_failures(found[0])
        return found

    def _methods(self, X: Any) -> list[Method]:
        """The methods to compare, with the feature map in its place."""
        if not self.methods:
            raise ValueError(
                f'methods must be "auto" or a list of names among {", ".join(METHODS)}, or of classifiers of your own; '
                f"got {self.methods!r}."
            )
        mapped = self.feature_map is not None and not isinstance(self.feature_map, str)
        asked = parse_methods([self.methods] if isinstance(self.methods, str) else self.methods)
        self._refuse_useless([method for method in asked if not method.members], X, mapped)
        parts = (self._useful(method, X, mapped) if method.members else [method] for method in asked)
        return [self._with_map(method) for method in dict.fromkeys(chain.from_iterable(parts))]

    def _useful(self, method: Method, X: Any, mapped: bool) -> list[Method]:
        """Those that a method chooses among, as far as they are of use here: nobody has asked for them by name."""
        methods = expand_methods([method])
        if self.feature_map is not None:  # what stands behind a map has no kernel matrix
            methods = [method for method in methods if method.shares != "kernel matrix"]
            methods += [METHODS[MAPPED_RIDGE]] if mapped else []
        if not self.transductive or sparse.issparse(X):  # sparse samples cannot be centered
            methods = [method for method in methods if not method.transductive]
        return methods

    def _refuse_useless(self, methods: list[Method], X: Any, mapped: bool) -> None:
        looking = [method.name for method in methods if method.transductive]
        if looking and not self.transductive:
            raise ValueError(f"transductive=False leaves no use for {looking[0]!r} in methods={self.methods!r}.")
        centered = [method.name for method in methods if is_transductive(method.transformer)]
        if centered and sparse.issparse(X):
            raise ValueError(f"methods={self.methods!r} holds {centered[0]!r}, but sparse X cannot be centered.")
        if METHODS[MAPPED_RIDGE] in methods and not mapped:
            raise ValueError(
                f"methods={self.methods!r} holds {MAPPED_RIDGE!r}, which needs a transformer as feature_map; got "
                f"feature_map={self.feature_map!r}."
            )

    def _with_map(self, method: Method) -> Method:
        if method.is_projection and self.feature_map is not None:
            projection = clone(method.transformer).set_params(feature_map=self.feature_map)
            return replace(method, transformer=projection)
        return replace(method, transformer=self.feature_map) if method.name == MAPPED_RIDGE else method

    def predict_set(self, X: Any, coverage: float | None = None, *, sample_domain: Any = None) -> list[Any]:
        """Tell which classes samples may have: sets that hold the true one as often as asked, on new domains.

        Parameters
        ----------
        X, sample_domain
            As for `predict`.
        coverage : float, default=None
            How often the true class is to be in the set, on average over new domains like those seen in `fit`. With m
            held-out domains at most 1 - 1/(m + 1) is attainable, as the next may be the strangest: more is refused.
            None means 0.9 or, with fewer than 9 held-out domains, the largest attainable coverage, which a
            :class:`~unseen.exceptions.CoverageWarning` states.

        Returns
        -------
        sets : list of ndarray
            The classes of each sample, the likeliest first.
        """
        check_is_fitted(self, "best_estimator_")
        pool = self.best_estimator_
        coverage = pool.resolve_coverage(coverage)  # before anything is computed
        sets = pool.named_sets(np.asarray(self._answer("decision_proba", X, sample_domain)), coverage)
        pool.warn_of_full_sets(all(len(classes) == len(self.classes_) for classes in sets), coverage)
        return sets

    def _classifiers(self) -> Sequence[Any]:
        return [getattr(self, "best_estimator_", EnsembleClassifier((), np.empty(0), np.empty(0)))]

    def _seen(self, X: Any, sample_domain: Any) -> tuple[Any, Any]:
        check_is_fitted(self, "best_estimator_")
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=(np.float64, np.float32))
        return bind_domains(self.best_estimator_, X, sample_domain)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _held_out_names(splits: list[Split], labels: Labels | None) -> list[str]:
    """Name each held-out part after its domain where it is one domain and no other part has that name."""
    if labels is not None:
        held_out = [np.unique(labels[test].astype(str)) for _, test in splits]
        names = [str(part[0]) for part in held_out]
        if all(len(part) == 1 for part in held_out) and len(set(names)) == len(names):
            return names
    return [f"split {k}" for k in range(len(splits))]
