"""How far a new batch lies from the sources, compared with how far the sources lie from each other."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from .cells import Array
from .kernels import resolve_gamma
from .labels import check_domains, encode_domains

# Kernel distances saturate: beyond a few widths everything is equally far. A kernel this much wider than the median
# rule's keeps ordinary distances between domains small, which leaves room above them for what is further out.
WIDTH = "0.1*median"
FAR = 1.5  # times the largest distance of a source from the others
SURE = 3.0  # standard errors
BELIEVED = 10  # degrees of freedom for which the spread inside sources counts beside that inside a batch
BLOCK = 4096  # rows embedded at a time: a few megabytes, which stay in cache


@dataclass(frozen=True)
class NoveltyResult:
    """How far a batch lies from the sources.

    Attributes
    ----------
    distance : float
        Kernel distance of the batch from the average of the source domains, free of the batch's sampling noise.
    reference_median, reference_max : float
        The same for the source domains, each from the average of the others.
    ratio : float
        `distance` over `reference_max`, or over what samples of this size can resolve, where that is larger.
    nearest_domain : str
        The source domain that the batch resembles most.
    far : bool
        Whether the distance exceeds 1.5 times `reference_max` by more than sampling noise.
    text : str
        The same in one sentence.
    """

    distance: float
    reference_median: float
    reference_max: float
    ratio: float
    nearest_domain: str
    far: bool
    text: str


class Accumulator:
    """Statistics of a batch that arrives in pieces: number of samples, mean embedding, trace of their covariance."""

    def __init__(self, novelty: Novelty) -> None:
        self._novelty = novelty
        self.count = 0
        self.mean = np.zeros(novelty._width)
        self._scatter = 0.0

    @property
    def trace(self) -> float:
        """Trace of the covariance of the embedded samples; NaN for fewer than two."""
        return self._scatter / (self.count - 1) if self.count > 1 else np.nan

    def add(self, X: Any) -> Self:
        """Take in some samples, prepared as those of `fit` were."""
        X = validate_data(self._novelty, X, reset=False, dtype=np.float64)
        for start in range(0, len(X), BLOCK):
            self._merge(self._novelty._embed(X[start : start + BLOCK]))
        return self

    def _merge(self, features: Array) -> None:
        """Pool two sets of statistics (Chan, Golub, LeVeque 1983): no cancellation, whatever the pieces."""
        count, mean = len(features), features.mean(axis=0)
        step = mean - self.mean
        total = self.count + count
        self._scatter += float(np.square(features - mean).sum() + step @ step * self.count * count / total)
        self.mean = self.mean + step * (count / total)
        self.count = total

    def result(self) -> NoveltyResult:
        """Compare what has been added so far with the sources."""
        return self._novelty.of(self.mean, self.count, self.trace)


class Novelty(BaseEstimator):
    """Tell whether new samples lie outside of what the source domains span.

    Domains are compared by their mean embeddings under a wide rbf kernel. From squared distances between sample means
    the part that sampling alone explains is subtracted, so that small batches do not look novel for being small.

    Parameters
    ----------
    n_components : int, default=200
        Landmarks of the kernel's Nystroem approximation; at most the number of samples.
    random_state : int, RandomState instance or None, default=0
        Which samples become landmarks.

    Attributes
    ----------
    domains_ : ndarray of shape (n_domains,)
        The source domains.
    means_ : ndarray of shape (n_domains, n_components + 1)
        Their mean embeddings.
    counts_, traces_ : ndarray of shape (n_domains,)
        Their numbers of samples and the traces of their covariances.
    covariance_ : ndarray of shape (n_components + 1, n_components + 1)
        Covariance of embedded samples inside domains, averaged over domains.
    reference_ : ndarray of shape (n_domains,)
        Distance of each source domain from the average of the others.
    resolution_ : float
        Distances of source domains below this cannot be told from sampling noise.
    map_ : Nystroem
        The kernel's approximation.
    n_features_in_ : int
        Number of features seen during `fit`.

    Examples
    --------
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.novelty import Novelty
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
            Samples of all source domains, prepared for a kernel method.
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
        self.domains_, codes = encode_domains(check_domains(sample_domain, len(X)))
        if len(self.domains_) < 2:
            raise ValueError(
                "Novelty compares a batch with the distances between source domains, so it needs at least 2 domains; "
                f"sample_domain holds {len(self.domains_)}."
            )
        gamma = resolve_gamma(WIDTH, "rbf", X)
        landmarks = min(self.n_components, len(X))
        self.map_ = Nystroem(kernel="rbf", gamma=gamma, n_components=landmarks, random_state=self.random_state).fit(X)
        own = [Accumulator(self).add(X[codes == s]) for s in range(len(self.domains_))]
        self.counts_ = np.array([part.count for part in own])
        self.means_ = np.stack([part.mean for part in own])
        self.covariance_ = self._covariance(X, codes)
        # A domain of one sample says nothing about its spread: the average over domains stands in.
        traces = np.array([part.trace for part in own])
        self.traces_ = np.where(np.isnan(traces), np.trace(self.covariance_), traces)
        squares = [self._squared_distance(self.means_[s], self._noise(s), self._others(s)) for s in range(len(own))]
        self.reference_ = np.sqrt(np.maximum([square for square, _ in squares], 0.0))
        self.resolution_ = float(np.sqrt(max(error for _, error in squares)))
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

    def of(self, mean: Array, count: int, trace: float) -> NoveltyResult:
        """Compare a batch with the sources, given its statistics as `start` collects them.

        Parameters
        ----------
        mean : ndarray of shape (n_components + 1,)
            Mean embedding of the batch.
        count : int
            Number of its samples.
        trace : float
            Trace of their covariance; NaN for a single sample, for which that of the sources is taken.

        Returns
        -------
        result : NoveltyResult
            How far the batch lies, compared with the sources.
        """
        check_is_fitted(self, "reference_")
        if count < 1:
            raise ValueError("Novelty needs at least one sample; nothing was added.")
        usual = float(np.trace(self.covariance_))
        own = usual if np.isnan(trace) else trace
        noise = own / count
        square, _ = self._squared_distance(mean, noise, slice(None))
        # Two samples that happen to be close say little about the spread: what is usual in sources counts as well.
        believed = ((count - 1) * own + BELIEVED * usual) / (count - 1 + BELIEVED)
        _, error = self._squared_distance(mean, believed / count, slice(None))
        squares = [self._squared_distance(mean, noise, [s])[0] for s in range(len(self.domains_))]
        nearest = str(self.domains_[int(np.argmin(squares))])
        largest = float(self.reference_.max())
        distance = float(np.sqrt(max(square, 0.0)))
        # Below the resolution of either side a distance is noise: nothing is divided by it, or far because of it.
        yardstick = max(largest, self.resolution_, float(np.sqrt(error)), np.finfo(float).tiny)
        ratio = distance / yardstick
        far = bool(square - SURE * error > (FAR * yardstick) ** 2)
        return NoveltyResult(
            distance=distance,
            reference_median=float(np.median(self.reference_)),
            reference_max=largest,
            ratio=ratio,
            nearest_domain=nearest,
            far=far,
            text=_text(ratio, far, square < SURE * error, nearest),
        )

    @property
    def _width(self) -> int:
        return len(self.map_.components_) + 1

    def _embed(self, X: Array) -> Array:
        """Features of the kernel; what the landmarks do not explain of a sample is a coordinate of its own.

        Without that coordinate samples beyond all landmarks would vanish into the origin instead of being far.
        """
        features = self.map_.transform(X)
        unexplained = np.sqrt(np.maximum(1 - np.square(features).sum(axis=1), 0.0))
        return np.column_stack([features, unexplained])

    def _covariance(self, X: Array, codes: Any) -> Array:
        total = np.zeros((self._width, self._width))
        for s, mean in enumerate(self.means_):
            rows = X[codes == s]
            for start in range(0, len(rows), BLOCK):
                centred = self._embed(rows[start : start + BLOCK]) - mean
                total += centred.T @ centred / max(len(rows) - 1, 1)
        return total / len(self.means_)

    def _noise(self, rows: Any) -> Any:
        """Expected squared error of the mean of each of some domains."""
        return self.traces_[rows] / self.counts_[rows]

    def _others(self, domain: int) -> list[int]:
        return [s for s in range(len(self.domains_)) if s != domain]

    def _squared_distance(self, mean: Array, noise: float, domains: Any) -> tuple[float, float]:
        """Unbiased squared distance of a mean from the average of some domains, and its standard error.

        Domains count equally, however large: the question is what a further domain would be. The error is that of the
        squared length of a normal vector, whose covariance has the size that the traces say and the shape of the
        sources'.
        """
        means = self.means_[domains]
        step = mean - means.mean(axis=0)
        noise = noise + float(np.sum(self._noise(domains))) / len(means) ** 2
        size = float(np.trace(self.covariance_))
        scale = noise / size if size > 0 else 0.0
        variance = 4 * scale * step @ self.covariance_ @ step + 2 * scale**2 * np.square(self.covariance_).sum()
        return float(step @ step - noise), float(np.sqrt(variance))


def _text(ratio: float, far: bool, is_noise: bool, nearest: str) -> str:
    if far:
        return (
            f"Far outside: {ratio:.1f} times as far from the sources as the most distant source is from the others. "
            f"Accuracy on the sources says little here. The nearest source is {nearest!r}."
        )
    if is_noise:
        return f"No measurable distance from the sources; the nearest is {nearest!r}."
    return (
        f"Within reach: {ratio:.1f} times as far from the sources as the most distant source is from the others. "
        f"The nearest source is {nearest!r}."
    )
