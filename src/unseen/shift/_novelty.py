"""How far a new batch lies from the sources, compared with how far the sources lie from each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from numbers import Integral
from operator import add
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import nnls
from scipy.spatial.distance import cdist
from scipy.special import stdtrit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from ..linalg import Array, Moments
from ..utils.validation import check_domains, encode_domains

FAR_RATIO = 1.5  # times the yardstick
N_STANDARD_ERRORS = 3.0  # standard errors
NEW_SOURCE_QUANTILE = (
    0.98  # quantile of where one more source would lie: what is right on a line, with a margin for bends
)
MIN_SHOWN_SHIFT = 0.5  # times the spread inside a source: rows that cannot show such a shift are too few
OUTLIER_FACTOR = 2.0  # times the median: sources further from all others than this do not set the yardstick
EXTREME_FACTOR = 10.0  # times the median: sources further than this do not tell where one more would lie
MIN_CREDIBLE_ROWS = 10  # degrees of freedom for which the spread inside sources counts beside that inside a batch
BLOCK_ROWS = 4096  # rows embedded at a time: a few megabytes, which stay in cache
QUANTILES = np.linspace(0, 1, 101)
MAX_VALUE = 1e100  # new values beyond are taken as this, so that nothing overflows


@dataclass(frozen=True)
class NoveltyResult:
    """How far a batch lies from the sources.

    Attributes
    ----------
    distance : float
        Distance of the batch from the nearest mixture of source domains, free of the batch's sampling noise.
    reference_median, reference_max : float
        Distances of the source domains, each from the nearest of the others.
    yardstick : float
        How far a source may lie from the others: `reference_max`, but at most twice `reference_median`, so that one odd
        source does not let everything pass; or what samples of this size can resolve, where that is larger.
    ratio : float
        `distance` over `yardstick`.
    nearest_domain : str
        The source domain that the batch resembles most.
    far : bool
        Whether the distance exceeds 1.5 times the yardstick by more than sampling noise, and more than a further source
        of the same population would: few sources say little about where the next one lies.
    too_few : bool
        Whether the rows, here or in the sources, are too few to tell, so that `far` could only be False.
    text : str
        The same in one sentence.
    """

    distance: float
    reference_median: float
    reference_max: float
    yardstick: float
    ratio: float
    nearest_domain: str
    far: bool
    too_few: bool
    text: str


class Accumulator:
    """A batch that arrives in pieces."""

    def __init__(self, novelty: Novelty) -> None:
        self._novelty = novelty
        self.moments = Moments(0, np.zeros(len(novelty.knots_)), 0.0)

    def add(self, X: Any) -> Self:
        """Take in some samples, prepared as those of `fit` were."""
        self.moments += self._novelty.moments(X)
        return self

    def result(self) -> NoveltyResult:
        """Compare what has been added so far with the sources."""
        return self._novelty.score_moments(self.moments)


class Novelty(BaseEstimator):
    """Tell whether new samples lie outside of what the source domains span.

    Domains are compared by how far their samples lie from fixed points, on average, each along a direction of its own.
    Domains that differ in place, spread or shape differ in that; and it grows without bound, so what is further out is
    further away. Square roots are averaged, so that long tails do not drown the rest. From squared distances between
    averages the part that sampling alone explains is subtracted: small batches do not look novel for being small.

    Parameters
    ----------
    n_components : int, default=200
        Number of directions.
    random_state : int, RandomState instance or None, default=0
        Which directions, and through which samples.

    Attributes
    ----------
    domains_ : ndarray of shape (n_domains,)
        The source domains.
    directions_ : ndarray of shape (n_features, n_components)
        The directions.
    knots_ : ndarray of shape (n_components,)
        Where along each direction the fixed point lies: where some sample of the sources does.
    means_ : ndarray of shape (n_domains, n_components)
        Mean embeddings of the source domains.
    counts_, traces_ : ndarray of shape (n_domains,)
        Their numbers of samples and the traces of their covariances.
    shape_ : ndarray of shape (n_components, n_components)
        Covariance of embedded samples inside domains, of trace one each, averaged over domains.
    reference_ : ndarray of shape (n_domains,)
        Distance of each source domain from the nearest of the others.
    depths_ : ndarray of shape (101,)
        Percentiles of how far samples of the sources lie from the nearest mean embedding.
    resolution_ : float
        Distances of source domains below this cannot be told from sampling noise.
    n_features_in_ : int
        Number of features seen during `fit`.

    Examples
    --------
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.shift import Novelty
    >>> data = make_synthetic(random_state=0)
    >>> novelty = Novelty().fit(data.data, sample_domain=data.domain)
    >>> known = data.data[data.domain == "domain 2"]
    >>> novelty.start().add(known[:50]).add(known[50:]).result().far
    False
    >>> novelty.start().add(known + 50).result().far
    True
    """

    __metadata_request__fit: ClassVar = {"sample_domain": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, *, n_components: int = 200, random_state: Any = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, sample_domain: Any) -> Self:
        """Learn where the source domains lie and how far apart.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples of all source domains, in columns of comparable scale.
        y : None
            Not used.
        sample_domain : array-like of shape (n_samples,)
            The domain of each sample, at least two different ones.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        X = validate_data(self, X, dtype=np.float64)
        if (largest := float(np.abs(X).max())) > MAX_VALUE:
            raise ValueError(
                f"X is too large: Novelty takes values up to {MAX_VALUE:g}, and the largest here is {largest:.3g}. Scale X, "
                "for example divide its columns by their largest values."
            )
        self.domains_, codes = encode_domains(check_domains(sample_domain, len(X)))
        if len(self.domains_) < 2:
            raise ValueError(
                "Novelty compares a batch with the distances between source domains, so it needs at least 2 domains; "
                f"sample_domain holds {len(self.domains_)}."
            )
        self._draw(X, codes)
        own = [self._moments(X[codes == s]) for s in range(len(self.domains_))]
        self.counts_ = np.array([part.count for part in own])
        self.means_ = np.stack([part.mean for part in own])
        traces = np.array([part.trace for part in own])
        # A domain of one sample says nothing about its spread: the middle one of the others stands in.
        usual = float(np.nanmedian(traces)) if np.isfinite(traces).any() else 0.0
        self.traces_ = np.where(np.isnan(traces), usual, traces)
        self.shape_ = self._shape(X, codes)
        self.depths_ = np.percentile(self._depth(X), np.arange(101))
        found = [self._nearest(self.means_[s], self.traces_[s] / self.counts_[s], skip=s) for s in range(len(own))]
        self.reference_ = np.sqrt(np.maximum([square for _, square, _ in found], 0.0))
        rounding = float(np.sqrt(np.finfo(float).eps * np.abs(self.knots_).sum()))
        self.resolution_ = max(_largest_without_outliers(np.array([resolution for *_, resolution in found])), rounding)
        return self

    def start(self) -> Accumulator:
        """Begin a batch: ``add`` samples to what is returned, in as many pieces as you like, then ask its ``result``.

        Returns
        -------
        accumulator : Accumulator
            An empty batch.
        """
        check_is_fitted(self, "reference_")
        return Accumulator(self)

    def moments(self, X: Any) -> Moments:
        """All that is needed to know about some samples: what different machines found about pieces adds up.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, prepared as those of `fit` were.

        Returns
        -------
        moments : Moments
            Those of the embedded samples.
        """
        check_is_fitted(self, "reference_")
        return self._moments(validate_data(self, X, reset=False, dtype=np.float64))

    def farther(self, X: Any) -> Array:
        """Share of training samples that lie farther out than each of some samples, to about a hundredth.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, prepared as those of `fit` were.

        Returns
        -------
        shares : ndarray of shape (n_samples,)
            From 1, in the middle of a source, to 0, farther out than all of them.
        """
        check_is_fitted(self, "reference_")
        return 1 - np.interp(
            self._depth(validate_data(self, X, reset=False, dtype=np.float64)), self.depths_, QUANTILES
        )

    def _depth(self, X: Array) -> Array:
        """Distance of each sample from the nearest mean embedding of a source."""
        blocks = gen_batches(len(X), BLOCK_ROWS)
        return np.concatenate([cdist(self._embed(X[block]), self.means_).min(axis=1) for block in blocks])

    def _moments(self, X: Array) -> Moments:
        return reduce(add, (Moments.from_values(self._embed(X[block])) for block in gen_batches(len(X), BLOCK_ROWS)))

    def score_moments(self, batch: Moments) -> NoveltyResult:
        """Compare a batch with the sources.

        Parameters
        ----------
        batch : Moments
            Those of its embedded samples. A single one has no spread: that of the nearest sources is taken.

        Returns
        -------
        result : NoveltyResult
            How far the batch lies, compared with the sources.
        """
        mean, count, trace = batch.mean, batch.count, batch.trace
        check_is_fitted(self, "reference_")
        if count < 1:
            raise ValueError("Novelty needs at least one sample; nothing was added.")
        apart = _largest_without_outliers(self.reference_)
        weights = _nearest_mixture(self.means_ - mean)
        usual = float(weights @ self.traces_)
        own = usual if np.isnan(trace) else trace
        square, *_ = self._apart(mean, own / count, weights)
        # Two samples that happen to be close say little about the spread: what is usual in sources counts as well.
        believed = ((count - 1) * own + MIN_CREDIBLE_ROWS * usual) / (count - 1 + MIN_CREDIBLE_ROWS)
        _, error, resolution = self._apart(mean, believed / count, weights)
        nearest = str(self.domains_[self._nearest(mean, own / count)[0]])
        distance = float(np.sqrt(max(square, 0.0)))
        # Below the resolution of either side a distance is noise: nothing is divided by it, or far because of it.
        yardstick = max(apart, self.resolution_, resolution, np.finfo(float).tiny)
        ratio = distance / yardstick
        exceeds = square - N_STANDARD_ERRORS * error > (FAR_RATIO * yardstick) ** 2
        far = exceeds and self._beyond_a_further_source(mean)
        shown = max(FAR_RATIO * apart, MIN_SHOWN_SHIFT * np.sqrt(usual))
        too_few = not far and (count < 2 or bool(N_STANDARD_ERRORS * resolution**2 > shown**2))
        if too_few:
            told = (
                f"Too few rows to tell how far they lie from the sources: {count:,} here, {self.counts_.min():,} in "
                "the smallest source."
            )
        elif square < N_STANDARD_ERRORS * error:
            told = "No measurable distance from the sources."
        else:
            told = _distance_text(ratio, far, exceeds, len(self.domains_))
        text = f"{told} The nearest source is {nearest!r}."
        median, largest = float(np.median(self.reference_)), float(self.reference_.max())
        return NoveltyResult(distance, median, largest, yardstick, ratio, nearest, far, too_few, text)

    def plane(self, X: Any) -> tuple[Array, Array]:
        """Samples and source domains on the plane in which the sources differ most.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, prepared as those of `fit` were.

        Returns
        -------
        samples : ndarray of shape (n_samples, 2)
            Where each sample lies. Between two sources there is one direction; the other is one of the samples.
        sources : ndarray of shape (n_domains, 2)
            Where the mean of each source domain lies.
        """
        check_is_fitted(self, "reference_")
        rows = self._embed(validate_data(self, X, reset=False, dtype=np.float64)) - self.means_.mean(axis=0)
        means = self.means_ - self.means_.mean(axis=0)
        axes = np.linalg.svd(means, full_matrices=False)[2][: min(2, len(means) - 1)]
        rest = rows - rows @ axes.T @ axes
        axes = np.vstack([axes, np.linalg.svd(rest - rest.mean(axis=0), full_matrices=False)[2]])[:2]
        return rows @ axes.T, means @ axes.T

    def _draw(self, X: Array, codes: Any) -> None:
        """Directions of any kind, which keep lengths on average, and samples of any domain to start from."""
        random = check_random_state(self.random_state)
        self.directions_ = random.normal(size=(X.shape[1], self.n_components)) / np.sqrt(self.n_components)
        chance = 1 / np.bincount(codes)[codes]
        rows = random.choice(len(X), size=self.n_components, p=chance / chance.sum())
        self.knots_ = np.einsum("ij,ji->i", np.clip(X[rows], -MAX_VALUE, MAX_VALUE), self.directions_)

    def _embed(self, X: Array) -> Array:
        """Roots of the distances from the knots along the directions."""
        features = np.clip(X, -MAX_VALUE, MAX_VALUE) @ self.directions_ - self.knots_
        return np.sqrt(np.abs(features, out=features), out=features)

    def _shape(self, X: Array, codes: Any) -> Array:
        """Each domain counts equally, however wide: one whose spread is odd would set the shape for all."""
        total = np.zeros((self.n_components, self.n_components))
        for s, (mean, trace) in enumerate(zip(self.means_, self.traces_, strict=True)):
            rows = X[codes == s]
            weight = trace * len(self.means_) * (len(rows) - 1)
            for block in gen_batches(len(rows), BLOCK_ROWS) if weight > 0 else ():
                centered = self._embed(rows[block]) - mean
                total += centered.T @ centered / weight
        return total

    def _beyond_a_further_source(self, mean: Array) -> bool:
        """Whether a batch lies further from the middle of the sources than one more source is likely to.

        Student's prediction limit, as if sources differed along a line: the widest there is. The means hold their own
        sampling noise, so the fewer rows the sources have, the wider the limit.
        """
        usual = self.reference_ <= EXTREME_FACTOR * max(float(np.median(self.reference_)), self.resolution_)
        means = self.means_[usual] if usual.sum() > 2 else self.means_
        n, middle = len(means), means.mean(axis=0)
        variance = np.square(means - middle).sum() / (n - 1)
        limit = stdtrit(n - 1, NEW_SOURCE_QUANTILE) ** 2 * variance * (1 + 1 / n)
        return bool(np.square(mean - middle).sum() > limit)

    def _nearest(self, mean: Array, noise: float, skip: int | None = None) -> tuple[int, float, float]:
        """The nearest single domain, its squared distance, and the distance that noise alone is likely to show."""
        squares = np.square(self.means_ - mean).sum(axis=1) - noise - self.traces_ / self.counts_
        if skip is not None:
            squares[skip] = np.inf
        nearest = int(np.argmin(squares))
        alone = np.eye(len(squares))[nearest]
        return nearest, float(squares[nearest]), self._apart(mean, noise, alone)[2]

    def _apart(self, mean: Array, noise: float, weights: Array) -> tuple[float, float, float]:
        """Squared distance of a mean from a mixture of domains, unbiased: what sampling adds is taken off.

        With it its standard error, and the distance that noise alone is likely to show: those of the squared length of
        a normal vector, whose covariance has the size that the traces say and the shape of the sources'. `noise` is
        the expected squared error of the mean itself.
        """
        step = weights @ (self.means_ - mean)
        noise += float(np.square(weights) @ (self.traces_ / self.counts_))
        alone = 2 * noise**2 * float(np.square(self.shape_).sum())
        error = np.sqrt(4 * noise * float(step @ self.shape_ @ step) + alone)
        return float(step @ step - noise), float(error), float(alone**0.25)


def _nearest_mixture(points: Array) -> Array:
    """Weights, not negative and of sum one, for which the average of the points is nearest to the origin.

    Least squares on the points and, as one more equation, on the sum: the penalty shrinks the sum, not the shares
    (Lawson and Hanson 1974, chapter 23).
    """
    lengths = np.sqrt(np.square(points).sum(axis=1))
    size = max(lengths.min(), np.finfo(float).eps * lengths.max()) or 1.0
    weights, _ = nnls(np.vstack([points.T / size, np.ones(len(points))]), np.append(np.zeros(points.shape[1]), 1.0))
    return weights / weights.sum()


def _largest_without_outliers(values: Array) -> float:
    return float(min(values.max(), OUTLIER_FACTOR * np.median(values)))


def _distance_text(ratio: float, far: bool, exceeds: bool, n_sources: int) -> str:
    """What a distance means; `exceeds` tells whether it is above the limit by more than sampling noise."""
    distance = f"{ratio:.1f} times the usual distance between sources"
    if far:
        return f"Far outside: {distance}. Accuracy on the sources may not hold here."
    if ratio <= FAR_RATIO:
        return f"Within reach: {distance} (limit: {FAR_RATIO})."
    doubt = (
        f"{n_sources} sources are too few to rule out that another source lies there"
        if exceeds
        else "the rows are too few to rule out that this is sampling noise"
    )
    return f"Undecided: {distance}, above the limit of {FAR_RATIO}, but {doubt}."
