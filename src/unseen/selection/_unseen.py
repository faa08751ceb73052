"""UnseenClassifier: the best model for the next domain, chosen honestly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import get_scorer_names
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..citizen import forget
from ..estimators import FEATURE_MAPS, collect
from ..kernels import EXACT_ROWS, Plan
from ..labels import Balance, Labels, Samples, domains_by_name, encode_classes, samples_of
from ..progress import with_callbacks
from ._candidate import expected_warnings, is_transductive, seen_by_classifier
from ._chosen import ChosenModel, refuse_dask
from ._contest import Contender, choose, contest, leaderboard, warn_of_failures
from ._engine import Split
from ._large import LargeFit
from ._methods import HEADS, MAPPED, METHODS, Method, contestants, methods_from
from ._splitters import domain_splits


class UnseenClassifier(ChosenModel):
    """The best classifier for a domain that nobody has seen.

    Tunes and compares, by holding out one domain after the other: plain classifiers (logistic regression, linear and
    rbf SVM), the same behind a :class:`DomainCenterer`, and CIDG under
    source and target centring with 1-nearest-neighbour and logistic heads. The best mean over held-out domains wins,
    except that a simpler kind of model is preferred whenever the winner's advantage over it, paired by domain, is
    within one standard error of zero. Plain models are simplest, then inductive projections, then *transductive*
    models, which look at unlabelled samples of the new domain and predict batches. Among plain models the rbf SVM,
    which nests the linear ones, stands for all that are within one standard error of the best.

    Parameters
    ----------
    methods : "auto" or list, default="auto"
        What to compare: names in `unseen.selection.METHODS`, and classifiers of your own, as pairs ``("mine", SVC())``
        or, to have their settings chosen as well, as triples ``("mine", SVC(), {"C": [1, 10]})``; see
        :ref:`own_models`. "auto" is "logistic", "linear SVM", "RBF SVM", the
        same behind a centerer ("centred logistic" and so on), and "CIDG". With `feature_map` also
        "mapped ridge", ridge classification behind the map, which stands in for the RBF SVMs in "auto".
    feature_map : transformer, "linear" or None, default=None
        For more samples than a kernel matrix can hold: what the projections see in place of a kernel, such as
        :class:`~unseen.PivotedNystroem`. Each fold fits it anew. A fitted map in a
        :class:`~sklearn.frozen.FrozenEstimator`, or "linear" for the features as they are, is evaluated once for all
        folds, settings and methods; the statistics of each domain are then collected once, and added up for each fold.
        Above 8,000 samples projections are followed by logistic regression alone.
    transductive : bool, default=True
        Whether transductive models may be chosen. Set it to False to predict single samples, or to keep the new
        domain's samples out of its predictions.
    cv : splitter, int or iterable, default=None
        None means :class:`~unseen.selection.LeaveOneDomainOut`.
    scoring : str or callable, default="accuracy"
        A scikit-learn scorer. A held-out part on which it is not defined, such as AUC on a domain with one class, is
        left out for all models alike, with a warning.
    balance : {"none", "classes", "domains"}, default="none"
        What weighs alike in training: nothing, all classes (as with scikit-learn's ``class_weight="balanced"``) or all
        domains. These are weights of samples, made for each training set, for classifiers that take them: all but
        1-nearest-neighbour. Scores are not balanced: that is for `scoring` to say.
    n_jobs : int, default=None
        Number of processes over methods.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    leaderboard_ : list of dict
        Every contender, best first: `model`, `kind`, `mean`, `standard_error`, `scores` (one per held-out part, by the
        name of the domain where it is one domain; NaN where there is none), `params`, `seconds` and whether it was
        `chosen`.
    best_model_ : str
        Name of the chosen contender.
    best_kind_ : {"plain", "inductive", "transductive"}
        Its kind.
    best_score_ : float
        Its mean score over held-out domains.
    best_estimator_ : Pipeline
        The chosen model, refitted on all data.
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

    Examples
    --------
    >>> from unseen import UnseenClassifier
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(validation_domain=True, random_state=0)
    >>> model = UnseenClassifier(methods=["logistic", "CIDG"])
    >>> model = model.fit(data.data, data.target, sample_domain=data.domain)
    >>> [row["model"] for row in model.leaderboard_ if row["chosen"]] == [model.best_model_]
    True

    Beside a classifier of one's own, with settings to choose from:

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> mine = ("mine", KNeighborsClassifier(), {"n_neighbors": [5, 25]})
    >>> model = UnseenClassifier(methods=["logistic", mine]).fit(data.data, data.target, sample_domain=data.domain)
    >>> sorted(row["model"] for row in model.leaderboard_)
    ['logistic', 'mine']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "methods": [StrOptions({"auto"}), list, tuple],
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
        feature_map: Any = None,
        transductive: bool = True,
        cv: Any = None,
        scoring: str | Callable[..., float] = "accuracy",
        balance: Balance = "none",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.methods = methods
        self.feature_map = feature_map
        self.transductive = transductive
        self.cv = cv
        self.scoring = scoring
        self.balance = balance
        self.n_jobs = n_jobs
        self.verbose = verbose

    @domains_by_name
    def fit(self, X: Any, y: Any, *, sample_domain: Any = None, sample_weight: Any = None, **params: Any) -> Self:
        """Compare the models and refit the chosen one.

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
        forget(self)
        refuse_dask(X, type(self).__name__)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32))
        self.classes_, _ = encode_classes(y, type(self).__name__)
        methods = self._methods(X)
        samples = samples_of(X, y, sample_domain, sample_weight, params.pop("groups", None))
        plan = self._plan(methods, len(samples), params)
        few = samples if plan.exact else samples.take(samples.thinned(plan.choice_rows))
        domain = None if sample_domain is None else few.domain
        splits = domain_splits(self, few, sample_domain if plan.exact else domain, params)
        field = self._compare(methods, few, splits)
        chosen = choose(field)
        self.leaderboard_ = leaderboard(field, chosen, _names(splits, domain))
        self.best_model_, self.best_kind_, self.best_score_ = chosen.name, chosen.kind, chosen.mean
        with expected_warnings():  # the comparison has said what there is to say
            if plan.exact:
                weight = samples.weights(balance=self.balance)
                self.best_estimator_ = chosen.candidate.fitted(X, y, sample_domain, weight)
            else:
                sample = samples.take(samples.thinned(plan.sample_rows))
                large = LargeFit(sample, lambda p: collect(p, X, y, samples.domain), plan, balance=self.balance)
                self.best_estimator_, _ = large.fitted(chosen.candidate)
        return self

    def _plan(self, methods: Sequence[Method], n_samples: int, params: dict[str, Any]) -> Plan:
        """By size, unless somebody has said what stands for the kernel or what to hold out, or there is no kernel."""
        kernels = any(method.shares != "nothing" for method in methods)
        own = self.feature_map is None and self.cv is None and kernels and not params
        plan = Plan.of(n_samples, exact=None if own else True)
        if self.verbose and not plan.exact:
            print(f"{type(self).__name__}: {plan}", file=sys.stderr)
        return plan

    @with_callbacks
    def _compare(self, methods: Sequence[Method], samples: Samples, splits: list[Split]) -> list[Contender]:
        # Among very many samples a nearest neighbour costs more than all else.
        few = self.feature_map is None or len(samples) <= EXACT_ROWS
        heads = tuple(HEADS) if few else ("logistic",)
        centerings = ("source", "target") if self.transductive else ("source",)
        how: dict[str, Any] = {"coarse": True, "heads": heads, "centerings": centerings}
        candidates = [c for method in methods for c in method.candidates(len(self.classes_), **how)]
        shown = {"description": type(self).__name__, "verbose": self.verbose, "owner": self}
        work: dict[str, Any] = {"balance": self.balance, "n_jobs": self.n_jobs, "shown": shown}
        field = contest(candidates, samples, splits, scoring=self.scoring, **work)
        warn_of_failures(field)
        return field

    def _methods(self, X: Any) -> list[Method]:
        """The methods to compare, with the feature map in its place."""
        mapped = self.feature_map is not None and not isinstance(self.feature_map, str)
        if isinstance(self.methods, str):
            methods = contestants([METHODS["auto"]])
            if self.feature_map is not None:  # what stands behind a map has no kernel matrix
                methods = [method for method in methods if method.shares != "kernel matrix"]
                methods += [METHODS[MAPPED]] if mapped else []
            if not self.transductive or sparse.issparse(X):  # sparse samples cannot be centred
                methods = [method for method in methods if not method.transductive]
        elif not self.methods:
            raise ValueError(
                f'methods must be "auto" or a list of names among {", ".join(METHODS)}, or of classifiers of your own; '
                f"got {self.methods!r}."
            )
        else:
            methods = contestants(methods_from(self.methods))
            self._refuse_useless(methods, X, mapped)
        return [self._with_map(method) for method in methods]

    def _refuse_useless(self, methods: list[Method], X: Any, mapped: bool) -> None:
        looking = [method.name for method in methods if method.transductive]
        if looking and not self.transductive:
            raise ValueError(f"transductive=False leaves no use for {looking[0]!r} in methods={self.methods!r}.")
        centred = [method.name for method in methods if is_transductive(method.transformer)]
        if centred and sparse.issparse(X):
            raise ValueError(f"methods={self.methods!r} holds {centred[0]!r}, but sparse X cannot be centred.")
        if METHODS[MAPPED] in methods and not mapped:
            raise ValueError(
                f"methods={self.methods!r} holds {MAPPED!r}, which needs a transformer as feature_map; got "
                f"feature_map={self.feature_map!r}."
            )

    def _with_map(self, method: Method) -> Method:
        if method.is_projection and self.feature_map is not None:
            projection = clone(method.transformer).set_params(feature_map=self.feature_map)
            return replace(method, transformer=projection)
        return replace(method, transformer=self.feature_map) if method.name == MAPPED else method

    def _classifiers(self) -> Sequence[Any]:
        if hasattr(self, "best_estimator_"):
            return [self.best_estimator_[-1]]
        methods = self._methods(None)
        heads = HEADS.values() if any(method.is_projection for method in methods) else ()
        return [*(method.classifier for method in methods if not method.is_projection), *heads]

    def _transformed(self, X: Any, sample_domain: Any) -> Any:
        """Samples as the chosen classifier sees them."""
        check_is_fitted(self, "best_estimator_")
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=(np.float64, np.float32))
        return seen_by_classifier(self.best_estimator_, X, sample_domain)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _names(splits: list[Split], labels: Labels | None) -> list[str]:
    """Name each held-out part after its domain where it is one domain and no other part has that name."""
    if labels is not None:
        held_out = [np.unique(labels[test].astype(str)) for _, test in splits]
        names = [str(part[0]) for part in held_out]
        if all(len(part) == 1 for part in held_out) and len(set(names)) == len(names):
            return names
    return [f"split {k}" for k in range(len(splits))]
