"""The ensemble that predicts: fitted members, their weights and temperatures, smoothing, and prediction sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..estimators import (
    DomainTransformer,
    Projection,
    align_blocks,
    apply_centering,
    centers_batches,
    get_domain_centers,
    map_blocks,
    reduce_blocks,
    row_blocks,
    transform_all_without_centering,
)
from ..exceptions import CoverageWarning, ParameterError, SmallBatchError, warn
from ..linalg import Array, Ints, Moments, merge_moments
from ..utils.validation import DocLinkMixin, EncodedLabels, Labels, check_domains, keyword_parameters
from ._candidate import bind_domains, fit_clone, flatten_steps, is_transductive, tree_features
from ._ensemble_math import (
    Arrays,
    Codes,
    LogitCalibration,
    Mask,
    adjust_priors,
    average_members,
    row_weights,
    softmax,
    true_class_values,
)
from ._evaluation import decision_scores

CentersByMember = Mapping[tuple[int, Any], Moments]  # by member and new domain
# A transductive prediction needs at least this many rows of a new domain: the mean and the neighbors of fewer rows are
# mostly noise, and a caller who passes fewer rows probably expects row-wise predictions.
MIN_BATCH_ROWS = 10
DEFAULT_COVERAGE = 0.9
# Tolerance of sums of row weights.
COVERAGE_ROUNDING = 1e-9
# Sets are class-conditional if a class has less than this share of the rows that it would have among equal classes.
# Sets with a common threshold may then leave out most of its rows, at the coverage of all rows.
UNBALANCED_SHARE = 0.5


@keyword_parameters
class EnsembleClassifier(DocLinkMixin, ClassifierMixin, BaseEstimator):
    """A weighted mean of the probabilities of several classifiers: a linear opinion pool.

    :class:`~unseen.UnseenClassifier` and :func:`unseen.fit` build such ensembles: they select members, weights and
    temperatures on predictions for domains that the members were not trained on. `fit` fits the members only.

    Parameters
    ----------
    members : list of Pipeline
        Classifiers, each alone or behind one transformer.
    weights : ndarray of shape (n_members,)
        Their weights, which sum to 1.
    inverse_temperatures : ndarray of shape (n_members,)
        The probabilities of a member are the softmax of its decision scores times this.
    smoothing : float, default=0.0
        Strength of smoothing among nearest neighbors within a batch; 0 for none.
    inverse_temperature : float, default=1.0
        Slope of the calibration of the ensemble itself: its log-probabilities are multiplied by this.
    calibration_offsets : ndarray of shape (n_classes,), default=None
        Class offsets that are added to these; None for zeros.
    conformal_scores : list of ndarray, default=None
        For prediction sets: 1 - p(true class) of the samples of each held-out domain.
    conformal_codes : list of ndarray, default=None
        Positions of the true classes of these samples, for class-conditional prediction sets.
    feature_effects : ndarray of shape (n_features, n_classes), default=None
        Effects of features on the logits, of an ensemble that was adapted to a domain; of a table, of the features for
        members that are not trees.
    prior_ratio : ndarray of shape (n_classes,), default=None
        Natural class frequencies over those that the members were trained with, if classes were balanced in training.
        `predict_proba` then refers to the natural frequencies; `predict` and `predict_set` keep the balance.
    held_out : list of tuple, default=None
        For plans of adaptation: name, probabilities (n, C) under the natural class frequencies and positions of the
        true classes of some samples of each held-out domain.
    raw_members : sequence of int, default=()
        Positions of members of trees. They take the features after the first `n_prepared_features`, which are the
        columns of a table: see `TablePreparation`.
    n_prepared_features : int, default=None
        Number of features for the other members; None means that all members take all features.

    Attributes
    ----------
    members_ : list of Pipeline
        The same, fitted.
    classes_ : ndarray of shape (n_classes,)
        Class labels.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from unseen.model_selection import EnsembleClassifier
    >>> members = [make_pipeline(LogisticRegression(C=C)) for C in (0.1, 10)]
    >>> ensemble = EnsembleClassifier(members, weights=np.array([0.5, 0.5]), inverse_temperatures=np.ones(2))
    >>> ensemble = ensemble.fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> ensemble.predict([[-1.0], [5.0]])
    array([0, 1])
    """

    members: Sequence[Pipeline] = field(kw_only=False)
    weights: Array = field(kw_only=False)
    inverse_temperatures: Array = field(kw_only=False)
    smoothing: float = 0.0
    inverse_temperature: float = 1.0
    calibration_offsets: Array | None = None
    feature_effects: Array | None = None
    conformal_scores: Sequence[Array] | None = None
    conformal_codes: Sequence[Ints] | None = None
    prior_ratio: Array | None = None
    held_out: Sequence[tuple[str, Array, Ints]] | None = None
    raw_members: Sequence[int] = ()
    n_prepared_features: int | None = None

    def fit(self, X: Any, y: Any, *, sample_domain: Any = None, sample_weight: Any = None) -> Self:
        """Fit all members.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of all source domains.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain each sample comes from.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, for members that take them.

        Returns
        -------
        self : object
            The fitted ensemble.
        """
        fitted = [
            fit_clone(member, self._member_features(j, X), np.asarray(y), sample_domain, sample_weight)
            for j, member in enumerate(self.members)
        ]
        return self.with_members(fitted)

    def prepared_features(self, X: Any) -> Any:
        """Features of members that are not trees."""
        return X if self.n_prepared_features is None else X[:, : self.n_prepared_features]

    def _member_features(self, j: int, X: Any) -> Any:
        """Features of a member."""
        if j not in self.raw_members:
            return self.prepared_features(X)
        return tree_features(X if self.n_prepared_features is None else X[:, self.n_prepared_features :])

    def with_members(self, members: Sequence[Pipeline]) -> Self:
        """Use members that are already fitted, all to the same samples."""
        stored: list[Any] = []  # training samples that several projections hold are stored once
        for member in members:
            X_fit = vars(member[0]).get("X_fit_") if isinstance(member[0], Projection) else None
            if isinstance(X_fit, np.ndarray):
                same = next((other for other in stored if np.array_equal(X_fit, other)), None)
                if same is None:
                    stored.append(X_fit)
                else:
                    member[0].X_fit_ = same
        self.members_ = list(members)
        self.classes_ = members[0].classes_
        return self

    @property
    def transductive(self) -> bool:
        """Whether predictions depend on the other samples of their domain."""
        return bool(self.smoothing) or any(map(is_transductive, self.members))

    def predict(self, X: Any, *, sample_domain: Any = None) -> Labels:
        """Classify samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; if the ensemble is transductive, at least 10 of each new domain.
        sample_domain : array-like of shape (n_samples,), default=None
            Their domains; None means one new domain.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            The most probable classes; if classes were balanced in training, those that would be most probable if all
            classes were equally frequent.
        """
        return self.classes_[self.decision_proba(X, sample_domain=sample_domain).argmax(axis=1)]

    def predict_proba(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Class probabilities, which refer to the natural class frequencies also if classes were balanced in training.

        Parameters
        ----------
        X, sample_domain
            As for `predict`.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        return self.with_natural_priors(self.decision_proba(X, sample_domain=sample_domain))

    def decision_proba(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Class probabilities under the class frequencies of training, which labels and prediction sets follow.

        They differ from `predict_proba` if classes were balanced in training.

        Parameters
        ----------
        X, sample_domain
            As for `predict`.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        check_is_fitted(self, "members_")
        n_samples = _num_samples(X)
        domain = None if sample_domain is None else check_domains(sample_domain, n_samples)
        self.check_batches(domain_sizes(domain, n_samples))
        return self.combine_members(X, domain)

    def with_natural_priors(self, P: Array) -> Array:
        """Convert the result of `decision_proba` or `combine_members` to the natural class frequencies."""
        return P if self.prior_ratio is None else adjust_priors(P, self.prior_ratio)

    def resolve_coverage(self, coverage: float | None = None) -> float:
        """The coverage if it is attainable, else ValueError; for None 0.9 or the largest attainable coverage."""
        if coverage is not None:
            self._conformal.check_coverage(coverage)
            return coverage
        attainable = self._conformal.attainable
        if attainable >= DEFAULT_COVERAGE:
            return DEFAULT_COVERAGE
        m = len(self._conformal.scores)
        warn(
            f"The coverage of these prediction sets is {attainable:.3g}, on average over new domains: {m} held-out "
            f"domain{'s' * (m > 1)} attain at most 1 - 1/(m + 1). Pass this or a lower coverage to avoid the warning.",
            CoverageWarning,
        )
        return attainable

    def named_sets(self, P: Array, coverage: float) -> list[Labels]:
        """Prediction sets of samples with these probabilities: labels, the most probable first."""
        order = np.argsort(-P, axis=1, kind="stable")
        inside = np.take_along_axis(self._conformal.sets(P, coverage), order, axis=1)
        return [self.classes_[codes[is_inside]] for codes, is_inside in zip(order, inside, strict=True)]

    def warn_full_sets(self, is_full: bool, coverage: float) -> None:
        """Warn if the sets of all samples contain all classes."""
        if is_full:
            warn(self.explain_full_sets(coverage), UserWarning)

    def explain_full_sets(self, coverage: float) -> str:
        """Why all sets contain all classes."""
        return (
            f"Every prediction set contains all {len(self.classes_)} classes, so the sets are uninformative: "
            f"{len(self._conformal.scores)} held-out domains are too few for coverage {coverage:g}, given the errors "
            "on them. Use a lower coverage, or more domains."
        )

    @property
    def _conformal(self) -> ConformalSets:
        if not self.conformal_scores:
            raise ValueError("This ensemble has no conformal_scores of held-out domains, which prediction sets need.")
        return ConformalSets(self.conformal_scores, self.conformal_codes)

    def member_scores(
        self, X: Any, domain: Labels | None = None, centers: CentersByMember | None = None
    ) -> list[Array]:
        """Decision scores of each member; members with given `centers` use these, others center as fitted."""
        Z = self._transform_without_centering(X)
        scores = []
        for j, member in enumerate(self.members_):
            if j in Z:
                member_centers = {name: center for (i, name), center in (centers or {}).items() if i == j} or None
                features: Any = apply_centering(member[0], Z[j], domain, member_centers)
                classifier, features = bind_domains(member[-1], features, domain)
            else:
                classifier, features = bind_domains(member, self._member_features(j, X), domain)
            scores.append(decision_scores(classifier, features, None, self.classes_))
        return scores

    def combine_members(self, X: Any, domain: Labels | None = None, centers: CentersByMember | None = None) -> Array:
        """Probabilities of samples, which are all rows of their domains unless `centers` of whole domains are given.

        Smoothing searches neighbors of a sample among the rows of its domain in `X`.
        """
        return self.combine_scores(self.member_scores(X, domain, centers), X, domain)

    def combine_scores(self, scores: Sequence[Array], X: Any, domain: Labels | None = None) -> Array:
        """The same from decision scores of members, which need not be fitted."""
        tempered = [softmax(S, beta) for S, beta in zip(scores, self.inverse_temperatures, strict=True)]
        P = average_members(self.weights, np.array(tempered))
        if self.smoothing:
            X = self.prepared_features(X)
            for _, rows in EncodedLabels.from_domains(domain, X.shape[0]).iter_rows():
                P[rows] = smooth_probabilities(P[rows], neighbor_graph(_safe_indexing(X, rows)), self.smoothing)
        P = LogitCalibration(self.inverse_temperature, self.calibration_offsets).apply(P)
        if self.feature_effects is None:
            return P
        with np.errstate(divide="ignore"):
            return softmax(np.log(P) + self.prepared_features(X) @ self.feature_effects)

    def with_offsets(self, offsets: Array, scale: float = 1.0, feature_effects: Array | None = None) -> Self:
        """The ensemble whose logits under the natural class frequencies are multiplied and shifted by these."""
        shifted = copy(self)
        log_ratio = 0.0 if self.prior_ratio is None else np.log(self.prior_ratio)
        before = 0.0 if self.calibration_offsets is None else self.calibration_offsets
        if feature_effects is not None:
            shifted.feature_effects = feature_effects
        shifted.inverse_temperature = scale * self.inverse_temperature
        shifted.calibration_offsets = scale * before + (scale - 1) * log_ratio + offsets
        return shifted

    def moments(self, X: Any, domain: Labels | None = None) -> dict[tuple[int, Any], Moments]:
        """Additive moments of samples by domain and member that centers new domains, for their centers."""
        Z = self._transform_without_centering(X)
        moments = {}
        for j, features in Z.items():
            transformer = self.members_[j][0]
            if centers_batches(transformer):
                for name, domain_moments in get_domain_centers(transformer).moments(features, domain).items():
                    moments[j, name] = domain_moments
        return moments

    def check_batches(self, rows: Mapping[Any, int]) -> None:
        """Raise SmallBatchError if predictions depend on the rows of a new domain and it has too few of them.

        Source domains keep the centers that they had in training. Neighbors are looked for in every domain, so with
        smoothing source domains need a batch as well.

        Parameters
        ----------
        rows : mapping
            The number of rows of each domain; the name None stands for rows without names, which are a new domain.
        """
        steps = [step for member in self.members_ for step in flatten_steps(member)]
        centering = [step for step in steps if _centers_batches(step)]
        if not centering and not self.smoothing:
            return
        known_domains = [
            set(get_domain_centers(step).stored_means) if isinstance(step, DomainTransformer) else set()
            for step in centering
        ]
        sources = set() if self.smoothing else set.intersection(*known_domains)
        for name, n in rows.items():
            if n < MIN_BATCH_ROWS and (name is None or name not in sources):
                remedies = ("batch", "inductive", *(("source",) if sources else ()))
                raise SmallBatchError(name, n, MIN_BATCH_ROWS, remedies)

    def predict_dask(self, X: Any, *, sample_domain: Any, method: str) -> Any:
        """Predict a Dask collection lazily; new domains are centered on all their blocks, which takes a pass over X.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Samples.
        sample_domain : array-like or Dask collection of shape (n_samples,) or None
            Domain of each sample; None means one new domain.
        method : str
            Name of a prediction method of this class.

        Returns
        -------
        result : dask array
            Lazy result of the method.
        """
        rows = row_blocks(X)
        if not self.transductive:
            return map_blocks(getattr(self, method), rows)
        self.check_partial_batches()

        def collect_block(block: Any, domain: Any) -> tuple[dict[Any, Moments], dict[Any, int]]:
            if not block.shape[0]:
                return {}, {}
            return self.moments(block, domain), domain_sizes(domain, block.shape[0])

        def merge_parts(parts: Sequence[tuple[dict[Any, Moments], dict[Any, int]]]) -> Any:
            return tuple(reduce(merge_moments, values) for values in zip(*parts, strict=True))

        labels = {"sample_domain": sample_domain}
        centers, sizes = reduce_blocks(collect_block, rows, labels, merge_parts)
        self.check_batches(sizes)

        def predict_block(block: Any, domain: Any = None) -> Any:
            P = self.combine_members(block, None if domain is None else domain[:, 0], centers)
            if method == "predict":
                return self.classes_[P.argmax(axis=1)]
            return self.with_natural_priors(P) if method == "predict_proba" else P

        empty = self.classes_[:0] if method == "predict" else np.empty((0, len(self.classes_)))
        if sample_domain is None:
            return map_blocks(predict_block, rows, empty)
        rows, domains = align_blocks(rows, labels)
        return map_blocks(predict_block, rows, empty, domains[:, None])

    def check_partial_batches(self) -> None:
        """Raise ValueError if a step inside a member needs whole batches, which cannot be predicted in parts."""
        centering_members = self._centering_members()
        for j, member in enumerate(self.members_):
            if is_transductive(member[-1] if j in centering_members else member):
                raise ValueError(
                    "A step inside the model needs all samples of a new domain at once, so they cannot be predicted in "
                    "parts. Predict them at once with `predict`, or fit a pipeline of two steps: the projection or "
                    "DomainCenterer, then the classifier."
                )

    def _centering_members(self) -> dict[int, Any]:
        """Transformers, by member, of members that are a centering transformer and a classifier."""
        return {j: m[0] for j, m in enumerate(self.members_) if isinstance(m[0], DomainTransformer) and len(m) == 2}

    def _transform_without_centering(self, X: Any) -> dict[int, Array]:
        """Features of these members, before centering."""
        transformers = self._centering_members()
        features = transform_all_without_centering([*transformers.values()], self.prepared_features(X))
        return dict(zip(transformers, features, strict=True))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")


def domain_sizes(domain: Labels | None, n_rows: int) -> dict[Any, int]:
    """Number of rows of each domain; without domains all rows belong to one, called None."""
    coded = EncodedLabels.from_domains(domain, n_rows)
    return dict(zip(coded.names.tolist(), np.bincount(coded.codes, minlength=len(coded.names)).tolist(), strict=True))


def _centers_batches(step: Any) -> bool:
    """Whether a fitted step of a pipeline subtracts a mean of the batch."""
    return centers_batches(step) if isinstance(step, DomainTransformer) else is_transductive(step)


N_NEIGHBORS = 5
# Neighbors are searched within blocks of this many rows, so that time grows linearly beyond one block.
NEIGHBOR_BLOCK_ROWS = 4096
SMOOTHING_STRENGTHS = (0.5, 1.0, 2.0)
# Iterations end when no probability changes by more than this.
SMOOTHING_TOLERANCE = 1e-6


def neighbor_graph(X: Array, n_neighbors: int = N_NEIGHBORS) -> csr_array:
    """Symmetrized graph of the nearest neighbors in a batch, (A + A') / 2.

    The graph is empty where a batch has fewer than n_neighbors + 2 rows. Neighbors are searched within blocks of rows
    spread evenly over the batch; a single block is exact.
    """
    n = X.shape[0]
    if n < n_neighbors + 2:
        return csr_array((n, n))
    neighbors = np.empty((n, n_neighbors), dtype=np.intp)
    n_blocks = -(-n // NEIGHBOR_BLOCK_ROWS)
    for first in range(n_blocks):
        rows = np.arange(first, n, n_blocks)
        search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(X[rows])
        neighbors[rows] = rows[search.kneighbors(return_distance=False)]  # excludes the row itself
    edges = np.repeat(np.arange(n), n_neighbors), neighbors.ravel()
    graph = csr_array((np.full(n * n_neighbors, 0.5), edges), shape=(n, n))
    return (graph + graph.T).tocsr()


def smooth_probabilities(P: Array, graph: csr_array, strength: float, max_iterations: int = 30) -> Array:
    """Probabilities (n, C) that agree better among neighbors: LAME (Boudiaf and others, CVPR 2022).

    Iterates Z <- softmax(log P + (2 strength / n_neighbors) graph Z) from Z = P. Zeros stay zero.
    """
    if not strength:
        return P
    with np.errstate(divide="ignore"):
        log_P = np.log(P)
    scaled_graph = (2 * strength / N_NEIGHBORS) * graph
    Z = P
    for _ in range(max_iterations):
        previous = Z
        Z = softmax(log_P + scaled_graph @ Z)
        if np.abs(Z - previous).max() < SMOOTHING_TOLERANCE:
            break
    return Z


@dataclass(frozen=True)
class ConformalSets:
    """Prediction sets that contain the true class on a new domain with a given probability (Lee, Barber, Willett 2023).

    `scores` holds 1 - p(true class) of the rows of each held-out domain. If domains are exchangeable, each of them and
    the new one has a weight of 1 / (m + 1), divided among rows; the weight of the new domain lies at infinity. Coverage
    is a mean over new domains: exact if one model that saw none of the domains gave all scores, approximate if each
    domain was scored by a model that did not see that domain.

    With `codes`, the classes of these rows, sets are class-conditional (Mondrian): each class has a threshold from the
    rows of this class, in the domains that have it, and the coverage holds for each class. A class that too few domains
    have for the coverage belongs to every set.
    """

    scores: Arrays
    codes: Codes | None = None

    @classmethod
    def from_predictions(cls, P: Arrays, codes: Codes) -> Self:
        """From out-of-domain probabilities (n_k, C); class-conditional if classes are unbalanced."""
        shares = np.bincount(np.concatenate(codes), minlength=P[0].shape[1]) / sum(map(len, codes))
        is_unbalanced = shares[shares > 0].min() < UNBALANCED_SHARE / P[0].shape[1]
        scores = [1 - true_class_values(p, c) for p, c in zip(P, codes, strict=True)]
        return cls(scores, codes if is_unbalanced else None)

    @property
    def attainable(self) -> float:
        """The largest coverage that is attainable with this number of held-out domains."""
        return len(self.scores) / (len(self.scores) + 1)

    def check_coverage(self, coverage: float) -> None:
        """Raise ValueError if a coverage is not attainable."""
        m = len(self.scores)
        if not 0 < coverage < 1:
            raise ParameterError(
                "coverage", f"coverage={coverage!r} is not between 0 and 1. Use for example coverage=0.9."
            )
        if coverage - COVERAGE_ROUNDING > self.attainable:
            raise ParameterError(
                "coverage",
                f"coverage={coverage:g} is not attainable with {m} held-out domain{'s' * (m > 1)}: at most "
                f"1 - 1/(m + 1) = {self.attainable:.3g}. Use a smaller coverage or more domains.",
            )

    def thresholds(self, coverage: float, n_classes: int) -> Array:
        """The scores (C,) up to which classes belong to a set."""
        self.check_coverage(coverage)
        if self.codes is None:
            return np.full(n_classes, _weighted_quantile(self.scores, coverage))
        cells = [
            [scores[codes == j] for scores, codes in zip(self.scores, self.codes, strict=True)]
            for j in range(n_classes)
        ]
        return np.array([_weighted_quantile([cell for cell in of_class if len(cell)], coverage) for of_class in cells])

    def sets(self, P: Array, coverage: float) -> Mask:
        """Which classes belong to the set of each row (n, C); the most probable class always does."""
        is_most_probable = np.arange(P.shape[1]) == P.argmax(axis=1)[:, None]
        return is_most_probable | (self.thresholds(coverage, P.shape[1]) >= 1 - P)


def _weighted_quantile(scores: Arrays, coverage: float) -> float:
    """Quantile of the scores of domains with equal weights; 1, the largest score, if there are too few domains."""
    m = len(scores)
    if coverage - COVERAGE_ROUNDING > m / (m + 1):
        return 1.0
    all_scores = np.concatenate(scores)
    order = np.argsort(all_scores)
    cumulative = np.cumsum(row_weights(scores)[order]) * m / (m + 1)
    return float(all_scores[order[np.searchsorted(cumulative, coverage - COVERAGE_ROUNDING)]])
