"""Acceptance tests of transductive steps, on held-out domains as they are and resampled with skewed classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from ..linalg import Array, Ints

# Skewed batches sampled from each held-out domain.
N_SKEWED_BATCHES = 5
# Share of a skewed batch that half of the classes make up.
SKEWED_SHARE = 0.8
# One-sided significance level of the acceptance test, which is its rate of false positives.
SIGNIFICANCE = 0.05
# A step is never accepted with fewer held-out domains.
MIN_TEST_DOMAINS = 3
# Points that a step must gain to be worth its requirements.
MIN_GAIN = 1.0
# With fewer held-out domains than this the required gain is larger, since a t test then has little power against skew.
SMALL_N_DOMAINS = 4
MIN_GAIN_SMALL = 5.0
# Points of mean loss on skewed batches that an accepted step may show.
MAX_SKEWED_LOSS = 1.0


def sample_skewed_batch(codes: Ints, rng: np.random.Generator, share: float = SKEWED_SHARE) -> Ints:
    """Rows of a batch of the same size, of which a random half of the classes makes up this share.

    Rows are repeated only where there are too few, and then equally often up to one. A single class stays as it is.
    """
    present = np.unique(codes)
    n = len(codes)
    is_frequent = np.isin(codes, rng.permutation(present)[: len(present) // 2])
    if not is_frequent.any():
        return np.arange(n)
    n_frequent = round(share * n)
    batch = []
    for rows, size in [(np.flatnonzero(is_frequent), n_frequent), (np.flatnonzero(~is_frequent), n - n_frequent)]:
        repeats, remainder = divmod(size, len(rows))
        batch += [np.tile(rows, repeats), rng.permutation(rows)[:remainder]]
    return np.concatenate(batch)


def make_trial_batches(codes: Ints, seed: int | Sequence[int] = 0) -> list[Ints]:
    """Rows of the batches on which a domain is evaluated: all rows in order, then skewed batches."""
    rng = np.random.default_rng(seed)
    return [np.arange(len(codes)), *(sample_skewed_batch(codes, rng) for _ in range(N_SKEWED_BATCHES))]


def score_trials(batches: Iterable[Iterable[Array]], score: Callable[[int, int, Array], float]) -> Array:
    """Scores of an ensemble on natural and skewed batches: (2, m), times 100, so that 1 is a point of accuracy.

    `batches` hold, for each domain, the probabilities of its natural batch, then those of skewed ones; `score` takes
    the domain, the batch and the probabilities. Batches without a score, such as AUC of a single class, do not count.
    """
    natural = []
    skewed = []
    for domain, domain_batches in enumerate(batches):
        scores = [100 * score(domain, batch, P) for batch, P in enumerate(domain_batches)]
        defined = [value for value in scores[1:] if value == value]
        natural.append(scores[0])
        skewed.append(np.mean(defined) if defined else np.nan)
    return np.array([natural, skewed])


@dataclass(frozen=True)
class AcceptanceTest:
    """Acceptance test of a transductive step, by its cross-fitted gains on each held-out domain, in points.

    A step is accepted if

    - at least 3 domains were held out,
    - the gain on natural batches is significant: a one-sided paired t test over domains has p <= 0.05, which is its
      rate of false positives,
    - the mean gain over natural and skewed batches exceeds 1 point, or 5 points with 3 domains,
    - the mean loss on skewed batches is at most 1 point.
    """

    step: str
    natural: Array
    skewed: Array

    @classmethod
    def from_trials(cls, step: str, without: Array, with_step: Array) -> AcceptanceTest:
        """Compare the scores (2, m) of `score_trials` without and with a step, on domains where both are defined."""
        gains = with_step - without
        natural, skewed = gains[:, np.isfinite(gains).all(axis=0)]
        return cls(step, natural, skewed)

    @property
    def gains(self) -> Array:
        """Gain of each domain: the mean of its gains on the natural and on skewed batches."""
        return (self.natural + self.skewed) / 2

    @property
    def min_gain(self) -> float:
        """Points that the mean gain must exceed."""
        return MIN_GAIN if len(self.gains) >= SMALL_N_DOMAINS else MIN_GAIN_SMALL

    @property
    def p_value(self) -> float:
        """One-sided paired t test that the mean gain on natural batches is not positive; 1 for one domain."""
        m = len(self.natural)
        if m < 2:
            return 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            t = self.natural.mean() / (self.natural.std(ddof=1) / np.sqrt(m))
        return 1.0 if np.isnan(t) else float(stdtr(m - 1, -t))  # NaN where nothing changes

    @property
    def is_accepted(self) -> bool:
        """Whether the step is accepted."""
        if len(self.gains) < MIN_TEST_DOMAINS:
            return False
        is_significant = self.p_value <= SIGNIFICANCE
        return bool(is_significant and self.gains.mean() > self.min_gain and self.skewed.mean() >= -MAX_SKEWED_LOSS)

    @property
    def reason(self) -> str:
        """Why the step is or is not used, with its gains, the p value and the rule."""
        m = len(self.gains)
        decision = f"{self.step} is {'' if self.is_accepted else 'not '}used"
        if m < MIN_TEST_DOMAINS:
            return (
                f"{decision}: a test of its gain needs at least {MIN_TEST_DOMAINS} held-out domains, and there are {m}."
            )
        natural = round(float(self.natural.mean()), 1) + 0.0  # never -0.0
        skewed = round(float(self.skewed.mean()), 1) + 0.0
        p_text = "< 0.001" if self.p_value < 0.001 else f"= {self.p_value:.3f}"
        return (
            f"{decision}: on {m} held-out domains it gains {natural:.1f} points on natural batches "
            f"(p {p_text}, one-sided paired t test) and {skewed:.1f} on "
            f"skewed ones. A step is used if p <= {SIGNIFICANCE:g}, the mean of both gains exceeds {self.min_gain:g} "
            f"point{'s' * (self.min_gain != 1)}, and skewed batches lose at most {MAX_SKEWED_LOSS:g} point."
        )
