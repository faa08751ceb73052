"""UnseenClassifier: the best model for the next domain, chosen honestly."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.metrics import get_scorer_names
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.parallel import delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from ..algebra import Array, Ints
from ..citizen import forget
from ..estimators import FEATURE_MAPS, processes
from ..exceptions import FewerComponentsWarning, MaskedLabelsWarning, SingleDomainWarning
from ..labels import Labels, check_domains, domains_by_name, encode_classes, encode_domains
from ..progress import track, with_callbacks
from ._chosen import ChosenModel, refuse_dask
from ._families import METHODS, Contender, batches, classifiers, contenders, offered
from ._plain import CENTERED, MAPPED
from ._splitters import domain_splits

SIMPLICITY = ("plain", "inductive", "transductive")


class UnseenClassifier(ChosenModel):
    """The best classifier for a domain that nobody has seen.

    Tunes and compares, by holding out one domain after the other: plain classifiers (logistic regression, linear and
    rbf SVM), the same behind a :class:`DomainCenterer`, and the invariant projections (CIDG, MDA, SCA, DICA) under
    source and target centring with 1-nearest-neighbour and logistic heads. The best mean over held-out domains wins,
    except that a simpler kind of model is preferred whenever the winner's advantage over it, paired by domain, is
    within one standard error of zero. Plain models are simplest, then inductive projections, then *transductive*
    models, which look at unlabelled samples of the new domain and predict batches. Among plain models the rbf SVM,
    which nests the linear ones, stands for all that are within one standard error of the best.

    Parameters
    ----------
    methods : "auto" or list of str, default="auto"
        What to compare, among "logistic", "linear_svm", "rbf_svm", "centered_logistic", "centered_linear_svm",
        "centered_rbf_svm", "cidg", "mda", "sca" and "dica"; "auto" is all of them. With `feature_map` also
        "mapped_ridge", ridge classification behind the map, which stands in for the rbf SVMs in "auto".
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
        A scikit-learn scorer.
    n_jobs : int, default=None
        Number of processes over methods.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    leaderboard_ : list of dict
        Every contender, best first: `model`, `kind`, `mean`, `standard_error`, `scores` (one per held-out part, by the
        name of the domain where it is one domain), `params`, `seconds` and whether it was `chosen`.
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

    Examples
    --------
    >>> from unseen import UnseenClassifier
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(validation_domain=True, random_state=0)
    >>> model = UnseenClassifier(methods=["logistic", "cidg"])
    >>> model = model.fit(data.data, data.target, sample_domain=data.domain)
    >>> [row["model"] for row in model.leaderboard_ if row["chosen"]] == [model.best_model_]
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "methods": [StrOptions({"auto"}), list, tuple],
        "feature_map": FEATURE_MAPS,
        "transductive": ["boolean"],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable],
        "n_jobs": [Integral, None],
        "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }

    def __init__(
        self,
        methods: Literal["auto"] | Sequence[str] = "auto",
        *,
        feature_map: Any = None,
        transductive: bool = True,
        cv: Any = None,
        scoring: str | Callable[..., float] = "accuracy",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.methods = methods
        self.feature_map = feature_map
        self.transductive = transductive
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    @domains_by_name
    def fit(self, X: Any, y: Any, *, sample_domain: Any = None, **params: Any) -> Self:
        """Compare the models and refit the chosen one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of all source domains.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain each sample comes from; also handed to `cv`.
        **params : dict
            `groups`, for a `cv` that wants other groups than the domains.

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
        labels = None if sample_domain is None else check_domains(sample_domain, X.shape[0])
        domain = np.zeros(X.shape[0], dtype=np.intp) if labels is None else encode_domains(labels)[1]
        splits = domain_splits(self, X, y, domain, sample_domain, params)
        field = self._compare(batches(methods), X, y, domain, splits)
        chosen = choose(field)
        self.leaderboard_ = leaderboard(field, chosen, _names(splits, labels))
        self.best_model_, self.best_kind_, self.best_score_ = chosen.model, chosen.kind, chosen.mean
        self.best_estimator_ = _fitted(chosen.pipeline, X, y, sample_domain)
        return self

    @with_callbacks
    def _compare(self, parts: list[list[str]], X: Any, y: Any, domain: Ints, splits: list[Any]) -> list[Contender]:
        arguments = (X, y, domain, splits, self.scoring, self.transductive, self.feature_map)
        found = processes(self.n_jobs)(delayed(contenders)(part, *arguments) for part in parts)
        return [c for part in track(found, len(parts), type(self).__name__, self.verbose, self) for c in part]

    def _methods(self, X: Any) -> Sequence[str]:
        if isinstance(self.methods, str):
            return offered(X, self.transductive, self.feature_map)
        refused = [] if self.transductive else [m for m in self.methods if m in CENTERED]
        if refused:
            raise ValueError(f"transductive=False leaves no use for {refused[0]!r} in methods={self.methods!r}.")
        if MAPPED in self.methods and (self.feature_map is None or isinstance(self.feature_map, str)):
            raise ValueError(
                f"methods={self.methods!r} holds {MAPPED!r}, which needs a transformer as feature_map; got "
                f"feature_map={self.feature_map!r}."
            )
        unknown = [method for method in self.methods if method not in (*METHODS, MAPPED)]
        if unknown or not self.methods:
            names = ", ".join(METHODS if self.feature_map is None else (*METHODS, MAPPED))
            raise ValueError(f'methods must be "auto" or a list of names among {names}; got {self.methods!r}.')
        centered = [method for method in self.methods if method in CENTERED]
        if centered and sparse.issparse(X):
            raise ValueError(f"methods={self.methods!r} holds {centered[0]!r}, but sparse X cannot be centred.")
        return list(dict.fromkeys(self.methods))

    def _classifiers(self) -> Sequence[Any]:
        return [self.best_estimator_[-1]] if hasattr(self, "best_estimator_") else classifiers(self._methods(None))

    def _transformed(self, X: Any, sample_domain: Any) -> Any:
        """Samples as the chosen classifier sees them."""
        check_is_fitted(self, "best_estimator_")
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=(np.float64, np.float32))
        steps = self.best_estimator_[:-1]
        return steps[0].transform(X, sample_domain=sample_domain) if len(steps) else X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def choose(field: list[Contender]) -> Contender:
    """Best mean, unless the champion of a simpler kind is no worse by one standard error of the paired difference."""
    field = [contender for contender in field if np.isfinite(contender.mean)]
    if not field:
        raise ValueError("No model could be scored on every held-out part; check the data and the scorer.")
    best = max(field, key=lambda c: (c.mean, -SIMPLICITY.index(c.kind)))
    for kind in SIMPLICITY[: SIMPLICITY.index(best.kind)]:
        rivals = [contender for contender in field if contender.kind == kind]
        if rivals and indistinguishable(best, max(rivals, key=lambda c: c.mean)):
            return champion(rivals)
    return champion([contender for contender in field if contender.kind == best.kind])


def champion(rivals: list[Contender]) -> Contender:
    """Best of one kind; among plain classifiers, the rbf SVM unless another is distinguishably better.

    A wide rbf kernel makes it a linear SVM, so it nests the linear models: where the data cannot tell them apart, it
    loses little when the truth is linear, and a linear model may lose much when it is not.
    """
    best = max(rivals, key=lambda c: c.mean)
    nesting = [c for c in rivals if c.model == "rbf_svm" and indistinguishable(best, c)]
    return nesting[0] if nesting else best


def indistinguishable(better: Contender, other: Contender) -> bool:
    """Whether an advantage, paired by held-out part, is within one standard error of zero."""
    difference = better.scores - other.scores
    return bool(difference.mean() <= standard_error(difference))


def standard_error(values: Array) -> float:
    """Standard error of a mean; zero for a single value, which says nothing about its own spread."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def leaderboard(field: list[Contender], chosen: Contender, names: list[str]) -> list[dict[str, Any]]:
    """Rows of plain values, best first."""
    return [
        {
            "model": c.model,
            "kind": c.kind,
            "mean": c.mean,
            "standard_error": standard_error(c.scores),
            "scores": dict(zip(names, c.scores.tolist(), strict=True)),
            "params": c.params,
            "seconds": c.seconds,
            "chosen": c is chosen,
        }
        for c in sorted(field, key=lambda c: -np.nan_to_num(c.mean, nan=-np.inf))
    ]


def _names(splits: list[tuple[Ints, Ints]], labels: Labels | None) -> list[str]:
    """Name each held-out part after its domain where it is one domain and no other part has that name."""
    if labels is not None:
        held_out = [np.unique(labels[test].astype(str)) for _, test in splits]
        names = [str(part[0]) for part in held_out]
        if all(len(part) == 1 for part in held_out) and len(set(names)) == len(names):
            return names
    return [f"split {k}" for k in range(len(splits))]


def _fitted(pipeline: Pipeline, X: Any, y: Any, sample_domain: Any) -> Pipeline:
    """Fit the steps one by one: Pipeline.fit takes metadata differently with routing on and off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SingleDomainWarning)  # the comparison has warned already
        warnings.simplefilter("ignore", MaskedLabelsWarning)
        warnings.simplefilter("ignore", FewerComponentsWarning)  # it was scored with as many as there are
        for _, step in pipeline.steps[:-1]:
            X = step.fit_transform(X, y, sample_domain=sample_domain)
    pipeline.steps[-1][1].fit(X, y)
    return pipeline
