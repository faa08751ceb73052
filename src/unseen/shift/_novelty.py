"""Novelty: the distance of a new batch from the source domains, relative to the distances between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import nnls
from scipy.special import stdtrit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from ..linalg import Array, Ints, Moments
from ..utils.validation import Labels, check_domains, encode_domains

FAR_RATIO = 1.5  # ratio of a distance to the usual distance above which a batch is far
N_STANDARD_ERRORS = 3.0  # of a distance, by which a far batch must exceed the limit
# Quantile of the distance of one more source. It is exact if sources differ along a line, with a margin otherwise.
NEW_SOURCE_QUANTILE = 0.98
MIN_SHOWN_SHIFT = 0.5  # relative to the spread within a source; batches that cannot show such a shift are too small
OUTLIER_FACTOR = 2.0  # times the median: larger distances between sources do not determine the usual distance
EXTREME_FACTOR = 10.0  # times the median: sources at larger distances do not predict the distance of one more source
MIN_CREDIBLE_ROWS = 10  # degrees of freedom of the spread within sources when it is averaged with that of a batch
MAX_VALUE = 1e100  # Larger new values are replaced by this, so that nothing overflows.


@dataclass(frozen=True)
class NoveltyResult:
    """Distance of a batch from the source domains.

    Attributes
    ----------
    distance : float
        Distance of the batch from the nearest mixture of source domains, corrected for sampling noise.
    usual_distance : float
        Largest usual distance of a source domain from its nearest other source: at most twice the median of these
        distances, so that one outlier among the sources has little influence. At least the resolution of samples of
        this size.
    ratio : float
        `distance` over `usual_distance`.
    nearest_domain : str
        The most similar source domain.
    far : bool
        Whether the distance exceeds 1.5 times the usual distance by more than sampling noise, and exceeds the likely
        distance of one more source of the same population.
    too_few : bool
        Whether the batch or the sources have too few rows to detect that a batch is far.
    text : str
        The result as a sentence.

    Examples
    --------
    >>> from unseen.datasets import load_rotated_digits
    >>> from unseen.shift import Novelty
    >>> X, _, angle = load_rotated_digits(return_X_y=True)
    >>> novelty = Novelty().fit(X, sample_domain=angle)
    >>> result = novelty.compare(X[:100])
    >>> result.far, result.nearest_domain
    (False, 'rot00')
    """

    distance: float
    usual_distance: float
    ratio: float
    nearest_domain: str
    far: bool
    too_few: bool
    text: str

    def __str__(self) -> str:
        return self.text


class Novelty(BaseEstimator):
    """Measure whether new samples lie outside of the source domains.

    Domains are compared by the mean distances of their samples from fixed points along random directions. Domains that
    differ in location, spread or shape differ in these means, and the difference grows without bound with the shift.
    Square roots of distances are averaged, so that long tails do not dominate. The expected contribution of sampling is
    subtracted from squared distances between means, so that small batches do not look novel because they are small.

    Parameters
    ----------
    n_components : int, default=200
        Number of directions.
    random_state : int, RandomState instance or None, default=0
        Seed of the directions and of the samples that define the fixed points.

    Attributes
    ----------
    domains_ : ndarray of shape (n_domains,)
        The source domains.
    directions_ : ndarray of shape (n_features, n_components)
        The directions.
    knots_ : ndarray of shape (n_components,)
        Position of the fixed point along each direction: that of a random source sample.
    means_ : ndarray of shape (n_domains, n_components)
        Mean embeddings of the source domains.
    counts_, traces_ : ndarray of shape (n_domains,)
        Number of samples and trace of the covariance of each source domain.
    shape_ : ndarray of shape (n_components, n_components)
        Covariance of embedded samples within domains, normalized to trace 1 and averaged over domains.
    reference_ : ndarray of shape (n_domains,)
        Distance of each source domain from its nearest other source domain.
    resolution_ : float
        Distances of source domains below this value cannot be distinguished from sampling noise.
    n_features_in_ : int
        Number of features seen during `fit`.

    Examples
    --------
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.shift import Novelty
    >>> data = make_synthetic(random_state=0)
    >>> novelty = Novelty().fit(data.data, sample_domain=data.domain)
    >>> known = data.data[data.domain == "domain 2"]
    >>> novelty.compare(known).far
    False
    >>> novelty.compare(known + 50).far
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
        """Learn the positions of the source domains and the distances between them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples of all source domains; columns must have comparable scales.
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
        largest = float(np.abs(X).max())
        if largest > MAX_VALUE:
            raise ValueError(
                f"X is too large: Novelty accepts values up to {MAX_VALUE:g}; the largest is {largest:.3g}. Scale X, "
                "for example divide its columns by their largest values."
            )
        self.domains_, codes = encode_domains(check_domains(sample_domain, len(X)))
        if len(self.domains_) < 2:
            raise ValueError(
                "Novelty compares a batch with the distances between source domains, so it needs at least 2 domains; "
                f"sample_domain holds {len(self.domains_)}."
            )
        random = check_random_state(self.random_state)
        # Random directions preserve lengths on average; fixed points are samples of random domains.
        self.directions_ = random.normal(size=(X.shape[1], self.n_components)) / np.sqrt(self.n_components)
        weights = 1 / np.bincount(codes)[codes]
        rows = random.choice(len(X), size=self.n_components, p=weights / weights.sum())
        self.knots_ = np.einsum("ij,ji->i", X[rows], self.directions_)
        counts = np.bincount(codes)
        self._compare_sources(counts, (_mean_and_scatter(self._embed(X[codes == s])) for s in range(len(counts))))
        return self

    @classmethod
    def from_moments(
        cls, directions: Array, knots: Array, domains: Labels, counts: Ints, moments: Iterable[tuple[Array, Array]]
    ) -> Self:
        """Return a fitted novelty score from the moments of each source domain, without its samples.

        Parameters
        ----------
        directions, knots : ndarray of shape (n_features, n_components) and (n_components,)
            Directions and fixed points, chosen without looking at samples.
        domains : ndarray of shape (n_domains,)
            The source domains, in sorted order.
        counts : ndarray of shape (n_domains,)
            Numbers of samples.
        moments : iterable of (ndarray of shape (n_components,), ndarray of shape (n_components, n_components))
            For each domain the mean of its embedded samples, and their scatter about it.

        Returns
        -------
        novelty : Novelty
            The fitted estimator.
        """
        novelty = cls(n_components=len(knots))
        novelty.n_features_in_ = len(directions)
        novelty.directions_, novelty.knots_, novelty.domains_ = directions, knots, domains
        novelty._compare_sources(counts, moments)
        return novelty

    def _compare_sources(self, counts: Ints, moments: Iterable[tuple[Array, Array]]) -> None:
        """Compute the distances between the source domains from their means and scatters."""
        n_domains = len(counts)
        self.counts_ = counts
        self.means_ = np.empty((n_domains, self.n_components))
        traces = np.full(n_domains, np.nan)
        self.shape_ = np.zeros((self.n_components, self.n_components))
        for s, (count, (mean, scatter)) in enumerate(zip(counts.tolist(), moments, strict=True)):
            self.means_[s] = mean
            if count > 1:
                covariance = scatter / (count - 1)
                traces[s] = np.trace(covariance)
                if traces[s] > 0:  # normalized, so that wide domains do not dominate
                    self.shape_ += covariance / (traces[s] * n_domains)
        # A domain with one sample has no spread: the median over the other domains replaces it.
        median_trace = float(np.nanmedian(traces)) if np.isfinite(traces).any() else 0.0
        self.traces_ = np.where(np.isnan(traces), median_trace, traces)
        nearest = [self._nearest(self.means_[s], self.traces_[s] / self.counts_[s], skip=s) for s in range(n_domains)]
        self.reference_ = np.sqrt(np.maximum([square for _, square, _ in nearest], 0.0))
        rounding = float(np.sqrt(np.finfo(float).eps * np.abs(self.knots_).sum()))
        self.resolution_ = max(
            _largest_without_outliers(np.array([resolution for *_, resolution in nearest])), rounding
        )

    def moments(self, X: Any) -> Moments:
        """Return the moments of samples; those of several pieces can be added.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, preprocessed like those of `fit`.

        Returns
        -------
        moments : Moments
            Moments of the embedded samples.
        """
        check_is_fitted(self, "reference_")
        return Moments.from_values(self._embed(validate_data(self, X, reset=False, dtype=np.float64)))

    def compare(self, X: Any) -> NoveltyResult:
        """Compare a batch of samples with the sources.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, preprocessed like those of `fit`.

        Returns
        -------
        result : NoveltyResult
            Distance of the batch, compared with the sources.
        """
        return self.score_moments(self.moments(X))

    def score_moments(self, batch: Moments) -> NoveltyResult:
        """Compare a batch with the sources.

        Parameters
        ----------
        batch : Moments
            Moments of its embedded samples. A single sample has no spread; the spread of the nearest sources is used.

        Returns
        -------
        result : NoveltyResult
            Distance of the batch, compared with the sources.
        """
        check_is_fitted(self, "reference_")
        mean = batch.mean
        count = batch.count
        if count < 1:
            raise ValueError("Novelty needs at least one sample; no sample was added.")
        reference = _largest_without_outliers(self.reference_)
        weights = _nearest_mixture(self.means_ - mean)
        source_trace = float(weights @ self.traces_)
        trace = source_trace if np.isnan(batch.trace) else batch.trace
        square, *_ = self._squared_distance(mean, trace / count, weights)
        # The spread of a small batch is uncertain, so it is averaged with the spread within sources.
        credible_trace = ((count - 1) * trace + MIN_CREDIBLE_ROWS * source_trace) / (count - 1 + MIN_CREDIBLE_ROWS)
        _, error, resolution = self._squared_distance(mean, credible_trace / count, weights)
        nearest = str(self.domains_[self._nearest(mean, trace / count)[0]])
        distance = float(np.sqrt(max(square, 0.0)))
        # Distances below the resolution of the batch or of the sources are noise.
        usual_distance = max(reference, self.resolution_, resolution, np.finfo(float).tiny)
        ratio = distance / usual_distance
        exceeds = square - N_STANDARD_ERRORS * error > (FAR_RATIO * usual_distance) ** 2
        far = exceeds and self._exceeds_new_source(mean)
        shown_shift = max(FAR_RATIO * reference, MIN_SHOWN_SHIFT * np.sqrt(source_trace))
        too_few = not far and (count < 2 or bool(N_STANDARD_ERRORS * resolution**2 > shown_shift**2))
        text = f"{ratio:.1f} times the usual distance between sources"
        if too_few:
            text = (
                f"Too few rows to tell how far they lie from the sources: {count:,} here, {self.counts_.min():,} in "
                "the smallest source."
            )
        elif square < N_STANDARD_ERRORS * error:
            text = "No measurable distance from the sources."
        elif far:
            text = f"Far outside: {text}. Accuracy on the sources may not hold here."
        elif ratio <= FAR_RATIO:
            text = f"Within reach: {text} (limit: {FAR_RATIO})."
        else:
            few = f"{len(self.domains_)} sources are too few to rule out that another source lies there"
            noise = "the rows are too few to rule out that this is sampling noise"
            text = f"Undecided: {text}, above the limit of {FAR_RATIO}, but {few if exceeds else noise}."
        return NoveltyResult(
            distance=distance,
            usual_distance=usual_distance,
            ratio=ratio,
            nearest_domain=nearest,
            far=far,
            too_few=too_few,
            text=f"{text} The nearest source is {nearest!r}.",
        )

    def _embed(self, X: Array) -> Array:
        """Return the square roots of the distances from the fixed points along the directions."""
        return embed(X, self.directions_, self.knots_)

    def _exceeds_new_source(self, mean: Array) -> bool:
        """Whether a batch is farther from the center of the sources than one more source is likely to be.

        Uses Student's prediction limit for sources that differ along a line, which is the widest limit. The means
        contain sampling noise, so the limit is wider if the sources have fewer rows.
        """
        is_usual = self.reference_ <= EXTREME_FACTOR * max(float(np.median(self.reference_)), self.resolution_)
        means = self.means_[is_usual] if is_usual.sum() > 2 else self.means_
        n = len(means)
        center = means.mean(axis=0)
        variance = np.square(means - center).sum() / (n - 1)
        limit = stdtrit(n - 1, NEW_SOURCE_QUANTILE) ** 2 * variance * (1 + 1 / n)
        return bool(np.square(mean - center).sum() > limit)

    def _nearest(self, mean: Array, noise: float, skip: int | None = None) -> tuple[int, float, float]:
        """Return the nearest domain, its squared distance, and the resolution of that distance."""
        squares = np.square(self.means_ - mean).sum(axis=1) - noise - self.traces_ / self.counts_
        if skip is not None:
            squares[skip] = np.inf
        nearest = int(np.argmin(squares))
        weights = np.zeros(len(squares))
        weights[nearest] = 1.0
        return nearest, float(squares[nearest]), self._squared_distance(mean, noise, weights)[2]

    def _squared_distance(self, mean: Array, noise: float, weights: Array) -> tuple[float, float, float]:
        """Return the unbiased squared distance of a mean from a mixture, its standard error, and its resolution.

        The resolution is the distance that noise alone is likely to produce. Both follow from the squared length of a
        normal vector whose covariance has the size given by the traces and the shape of the sources. `noise` is the
        expected squared error of the mean.
        """
        step = weights @ (self.means_ - mean)
        noise += float(np.square(weights) @ (self.traces_ / self.counts_))
        noise_variance = 2 * noise**2 * float(np.square(self.shape_).sum())
        error = np.sqrt(4 * noise * float(step @ self.shape_ @ step) + noise_variance)
        return float(step @ step - noise), float(error), float(noise_variance**0.25)


def embed(X: Array, directions: Array, knots: Array) -> Array:
    """Return the square roots of the distances of samples from fixed points along directions."""
    features = np.clip(X, -MAX_VALUE, MAX_VALUE) @ directions - knots
    return np.sqrt(np.abs(features, out=features), out=features)


def _mean_and_scatter(embedded: Array) -> tuple[Array, Array]:
    mean = embedded.mean(axis=0)
    embedded -= mean
    return mean, embedded.T @ embedded


def _nearest_mixture(points: Array) -> Array:
    """Return non-negative weights of sum 1 for which the average of the points is nearest to the origin.

    Solves a non-negative least squares problem for the points, with one more equation for the sum. The penalty shrinks
    the sum, not the shares (Lawson and Hanson 1974, chapter 23).
    """
    lengths = np.sqrt(np.square(points).sum(axis=1))
    size = max(lengths.min(), np.finfo(float).eps * lengths.max()) or 1.0
    weights, _ = nnls(np.vstack([points.T / size, np.ones(len(points))]), np.append(np.zeros(points.shape[1]), 1.0))
    return weights / weights.sum()


def _largest_without_outliers(values: Array) -> float:
    return float(min(values.max(), OUTLIER_FACTOR * np.median(values)))
