"""A pool that predicts: members, what each of them weighs, and what is done with their votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..estimators import (
    DomainTransformer,
    Projection,
    apply_centering,
    centers_batches,
    get_domain_centers,
    transform_all_without_centering,
)
from ..exceptions import CoverageWarning, SmallBatchError, warn
from ..linalg import Array, Moments
from ..utils.estimator_mixins import DocLinkMixin
from ..utils.validation import EncodedLabels, Labels, check_domains
from ._candidate import bind_domains, fit_pipeline, flatten_steps, is_transductive
from ._ensemble_math import ConformalSets, adjust_priors, average_members, neighbor_graph, smooth_probabilities, softmax
from ._sample_size import domains_for_coverage
from ._split_evaluation import decision_scores

CentersByMember = Mapping[tuple[int, Any], Moments]  # of new domains, for each member that is centered on them
# A transductive prediction needs at least so many rows of a new domain: the mean and the neighbors of fewer rows are
# mostly noise, and a caller who passes fewer rows probably expects row-wise predictions.
MIN_BATCH_ROWS = 10
DEFAULT_COVERAGE = 0.9  # of prediction sets, where so many held-out domains attain it


class EnsembleClassifier(DocLinkMixin, ClassifierMixin, BaseEstimator):
    """A weighted mean of the probabilities of several classifiers.

    :class:`~unseen.UnseenClassifier` and :func:`unseen.fit` make pools: they choose members, weights and temperatures
    by what the members say of domains that they were not trained on. `fit` fits the members and changes nothing else.

    Parameters
    ----------
    members : list of Pipeline
        Classifiers, each alone or behind one transformer.
    weights : ndarray of shape (n_members,)
        Their shares, which sum to 1.
    betas : ndarray of shape (n_members,)
        Inverse temperatures: a member's probabilities are the softmax of its votes times this.
    smoothing : float, default=0.0
        How strongly samples of a batch agree with their nearest neighbors there; 0 for not at all.
    sharpness : float, default=1.0
        Inverse temperature of the pool itself.
    held_out : list of ndarray, default=None
        For prediction sets: one less the probability of the true class, of the samples of each held-out domain.
    prior_ratio : ndarray of shape (n_classes,), default=None
        Natural class frequencies over those that the members were trained with, if classes were balanced in training.
        `predict_proba` then refers to the natural frequencies; `predict` and `predict_set` keep the balance.

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
    >>> from unseen.model_selection import Pool
    >>> members = [make_pipeline(LogisticRegression(C=C)) for C in (0.1, 10)]
    >>> pool = Pool(members, np.array([0.5, 0.5]), np.ones(2)).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> pool.predict([[-1.0], [5.0]])
    array([0, 1])
    """

    def __init__(
        self,
        members: Sequence[Pipeline],
        weights: Array,
        betas: Array,
        *,
        smoothing: float = 0.0,
        sharpness: float = 1.0,
        held_out: Sequence[Array] | None = None,
        prior_ratio: Array | None = None,
    ) -> None:
        self.members = members
        self.weights = weights
        self.betas = betas
        self.smoothing = smoothing
        self.sharpness = sharpness
        self.held_out = held_out
        self.prior_ratio = prior_ratio

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
            The fitted pool.
        """
        fitted = [fit_pipeline(member, X, np.asarray(y), sample_domain, sample_weight) for member in self.members]
        return self.with_members(fitted)

    def with_members(self, members: Sequence[Pipeline]) -> Self:
        """Take members that are fitted already, all to the same samples."""
        known: list[Any] = []  # samples that several members hold are kept, and looked at, once
        for member in members:
            own = vars(member[0]).get("X_fit_") if isinstance(member[0], Projection) else None
            if isinstance(own, np.ndarray):
                same = next((other for other in known if np.array_equal(own, other)), None)
                known += [own] if same is None else []
                member[0].X_fit_ = own if same is None else same
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
            Samples; if the pool is transductive, at least 10 of each new domain.
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
        self.require_batches(domain_sizes(domain, n_samples))
        return self.answer(X, domain)

    def with_natural_priors(self, P: Array) -> Array:
        """Convert what `decision_proba` or `answer` returned to the natural class frequencies."""
        return P if self.prior_ratio is None else adjust_priors(P, self.prior_ratio)

    def predict_set(self, X: Any, coverage: float | None = None, *, sample_domain: Any = None) -> np.ndarray[Any, Any]:
        """Tell which classes a sample may have.

        Parameters
        ----------
        X, sample_domain
            As for `predict`.
        coverage : float, default=None
            How often the true class is to be among them, on average over new domains. With m held-out domains at most
            1 - 1/(m + 1) is attainable; more is refused. None means 0.9 or, with fewer than 9 held-out domains, the
            largest attainable coverage, which a :class:`~unseen.exceptions.CoverageWarning` states.

        Returns
        -------
        sets : ndarray of bool of shape (n_samples, n_classes)
            Which classes belong to the set of each sample; never none.
        """
        coverage = self.resolve_coverage(coverage)  # before anything is computed
        sets = self.sets(self.decision_proba(X, sample_domain=sample_domain), coverage)
        self.warn_of_full_sets(bool(sets.all()), coverage)
        return sets

    def resolve_coverage(self, coverage: float | None = None) -> float:
        """Return an attainable coverage, or raise a ValueError; None means 0.9 or the largest that is attainable."""
        if coverage is not None:
            self.threshold(coverage)
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

    def threshold(self, coverage: float) -> float:
        """One less the probability from which on classes belong to sets; ValueError for what cannot be promised."""
        return self._conformal.threshold(coverage)

    def sets(self, P: Array, coverage: float) -> np.ndarray[Any, Any]:
        """Which classes belong to the sets of samples with these probabilities."""
        return self._conformal.sets(P, coverage)

    def named_sets(self, P: Array, coverage: float) -> list[Labels]:
        """The same as labels, the likeliest first."""
        order = np.argsort(-P, axis=1, kind="stable")
        inside = np.take_along_axis(self.sets(P, coverage), order, axis=1)
        return [self.classes_[own[held]] for own, held in zip(order, inside, strict=True)]

    def warn_of_full_sets(self, is_full: bool, coverage: float) -> None:
        """Warn if the sets of all samples hold all classes, with the number of domains that smaller ones take."""
        if is_full:
            warn(self.full_sets(coverage), UserWarning)

    def full_sets(self, coverage: float) -> str:
        """Why all sets hold all classes, and how many domains smaller sets take.

        A threshold below 1 - 1/C leaves out the least likely of C classes of every sample, whose probability is at most
        1/C. The share of held-out samples with scores below that tells how many domains such a threshold takes.
        """
        n_classes, m = len(self.classes_), len(self.held_out or ())
        share = float(np.mean([(scores < 1 - 1 / n_classes).mean() for scores in self.held_out or ()]))
        needed = domains_for_coverage(coverage, share)
        says_nothing = f"Every prediction set holds all {n_classes} classes, so the sets say nothing"
        if needed is None:
            return (
                f"{says_nothing}. With coverage {coverage:g} no number of domains changes that: the true class has a "
                f"probability above 1/{n_classes} for {share:.0%} of held-out samples. Use a coverage below that."
            )
        return (
            f"{says_nothing}: {m} held-out domains are too few for coverage {coverage:g}. Sets that leave out at least "
            f"one class of every sample take about {needed} domains, or a lower coverage."
        )

    @property
    def _conformal(self) -> ConformalSets:
        if not self.held_out:
            raise ValueError("This pool knows no held-out domains, from which prediction sets follow.")
        return ConformalSets(self.held_out)

    def votes(self, X: Any, domain: Labels | None = None, centers: CentersByMember | None = None) -> list[Array]:
        """Votes of each member on classes; members that `centers` name are centered on these, others as fitted."""
        Z = self._uncentered(X)
        found = []
        for j, member in enumerate(self.members_):
            if j in Z:
                own = {name: at for (i, name), at in (centers or {}).items() if i == j} or None
                seen: Any = apply_centering(member[0], Z[j], domain, own)
                classifier, seen = bind_domains(member[-1], seen, domain)
            else:
                classifier, seen = bind_domains(member, X, domain)
            found.append(decision_scores(classifier, seen, None, self.classes_))
        return found

    def members_say(self, X: Any, domain: Labels | None = None, centers: CentersByMember | None = None) -> Array:
        """Probabilities of each member: (n_members, n_samples, n_classes)."""
        return self._said(self.votes(X, domain, centers))

    def _said(self, votes: Sequence[Array]) -> Array:
        return np.array([softmax(own, beta) for own, beta in zip(votes, self.betas, strict=True)])

    def answer(self, X: Any, domain: Labels | None = None, centers: CentersByMember | None = None) -> Array:
        """Probabilities of samples: all that there are of their domains, unless `centers` are those of all pieces.

        Smoothing looks for neighbors of a sample among those that are here, of its domain.
        """
        return self.settled(self.votes(X, domain, centers), X, domain)

    def settled(self, votes: Sequence[Array], X: Any, domain: Labels | None = None) -> Array:
        """The same from what members vote, whoever has asked them; they need not be fitted here."""
        P = average_members(self.weights, self._said(votes))
        if self.smoothing:
            for _, rows in EncodedLabels.from_domains(domain, X.shape[0]).iter_rows():
                P[rows] = smooth_probabilities(P[rows], neighbor_graph(_safe_indexing(X, rows)), self.smoothing)
        if self.sharpness == 1.0:
            return P
        with np.errstate(divide="ignore"):
            return softmax(np.log(P), self.sharpness)

    def moments(self, X: Any, domain: Labels | None = None, *, every: bool = False) -> dict[tuple[int, Any], Moments]:
        """What samples tell about the centers of new domains, which add up; of `every` member that has a center."""
        Z = self._uncentered(X)
        moved = [j for j in Z if every or centers_batches(self.members_[j][0])]
        found = {j: get_domain_centers(self.members_[j][0]).moments(Z[j], domain) for j in moved}
        return {(j, name): own for j, parts in found.items() for name, own in parts.items()}

    def require_batches(self, rows: Mapping[Any, int], *, every: bool = False) -> None:
        """Raise a SmallBatchError if predictions depend on the rows of a new domain and it has too few of them.

        Source domains keep the centers that they had in training. Neighbors are looked for in every domain, so with
        smoothing source domains need a batch as well.

        Parameters
        ----------
        rows : mapping
            The number of rows of each domain; the name None stands for rows without names, which are a new domain.
        every : bool, default=False
            Whether projections are centered on new domains even if they were not fitted that way.
        """
        steps = [step for member in self.members_ for step in flatten_steps(member)]
        centering = [
            step for step in steps if _centers_batches(step) or (every and isinstance(step, DomainTransformer))
        ]
        if not centering and not self.smoothing:
            return
        known = [
            set(get_domain_centers(step).stored) if isinstance(step, DomainTransformer) else set() for step in centering
        ]
        sources = set() if self.smoothing else set.intersection(*known)
        for name, n in rows.items():
            if n < MIN_BATCH_ROWS and (name is None or name not in sources):
                own_way = self.smoothing or any(map(_centers_batches, steps))
                remedies = ("batch", "inductive" if own_way else "center", *(("source",) if sources else ()))
                raise SmallBatchError(name, n, MIN_BATCH_ROWS, remedies)

    def require_pieces(self) -> None:
        """Raise if a step inside a member looks at whole batches: their pieces do not tell it what it needs."""
        behind = self._behind()
        if any(is_transductive(member[-1] if j in behind else member) for j, member in enumerate(self.members_)):
            raise ValueError(
                "A step inside the model looks at all samples of a new domain, which samples that come in pieces do "
                "not give it. Predict them at once with `predict`, or fit a pipeline of two steps: the projection or "
                "DomainCenterer, then the classifier."
            )

    def _behind(self) -> dict[int, Any]:
        """Transformers of members that center samples and classify them, and do nothing else."""
        return {j: m[0] for j, m in enumerate(self.members_) if isinstance(m[0], DomainTransformer) and len(m) == 2}

    def _uncentered(self, X: Any) -> dict[int, Array]:
        """Samples as members have them that center them, before they do."""
        behind = self._behind()
        return dict(zip(behind, transform_all_without_centering([*behind.values()], X), strict=True))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")


def domain_sizes(domain: Labels | None, n_rows: int) -> dict[Any, int]:
    """Number of rows of each domain; without names all rows are of one, called None."""
    coded = EncodedLabels.from_domains(domain, n_rows)
    return dict(zip(coded.names.tolist(), np.bincount(coded.codes, minlength=len(coded.names)).tolist(), strict=True))


def _centers_batches(step: Any) -> bool:
    """Whether a fitted step of a pipeline subtracts a mean of the samples that it sees."""
    return centers_batches(step) if isinstance(step, DomainTransformer) else is_transductive(step)
