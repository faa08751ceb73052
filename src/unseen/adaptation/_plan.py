"""The regime curve of a model: the expected gain of each level of adaptation against the number of labels.

Adaptation is simulated on out-of-domain predictions for source domains that are held out in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import stdtrit

from ..linalg import Array, Ints
from ._offsets import MIN_PROBABILITY, OffsetPrior, apply_offsets, fit_offsets, log_evidence

AS_IS = "none"
OFFSETS = "offsets"
REFIT = "refit"
# From the least to the most demanding.
LEVELS = {
    AS_IS: "the model as it is",
    OFFSETS: "class offsets and temperature",
    REFIT: "refit with the new domain",
}
METRICS = ("log_loss", "accuracy")
SIZES = (5, 10, 25, 50, 100, 200)  # numbers of labels of the simulation
MIN_LABELS = SIZES[0]  # with fewer labels the model stays as it is
MIN_TEST_ROWS = 20  # that are scored
MIN_DOMAINS = 2  # a gain over fewer domains has no interval
CONFIDENCE = 0.9  # one-sided, of the bounds that a level must respect
PREDICTION_LEVEL = 0.9  # of the interval for the gain at one new domain
# A level is eligible only if the lower bounds of its mean gains exceed minus these margins.
MAX_LOG_LOSS_DECREASE = 0.01
MAX_ACCURACY_DECREASE = 0.01
# Predictions that a model keeps for the simulation: of so many domains, rows of a domain, and probabilities in all.
MAX_DOMAINS = 24
MAX_ROWS = 300
MAX_PROBABILITIES = 2**18
DRAWS = (5, 12)  # fewest and most draws of labels from a domain
TOTAL_DRAWS = 100  # of all domains together, as far as the limits allow
OFFSET_STDS = (0.1, 0.2, 0.4, 0.8, 1.6)
SCALE_STDS = (0.05, 0.1, 0.2, 0.4)
PRIORS = [OffsetPrior(offset**2, scale**2) for offset in OFFSET_STDS for scale in SCALE_STDS]
# Hyperpriors of the standard deviations: log-normal with these medians and a factor of e. They count about as much as
# one domain, and decide if there are very few domains.
OFFSET_STD_MEDIAN = 0.4
SCALE_STD_MEDIAN = 0.15


class HeldOutDomain(NamedTuple):
    """Out-of-domain predictions for one source domain, by a model that was fitted without it.

    `probabilities` (n, C) are under the natural class frequencies, and `codes` (n,) are positions of the true classes.
    """

    name: str
    probabilities: Array
    codes: Ints


def limit_held_out_domains(domains: Sequence[HeldOutDomain]) -> list[HeldOutDomain]:
    """As many domains and rows, drawn at random, as a model keeps for the simulation, in single precision."""
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.permutation(len(domains))[:MAX_DOMAINS]).tolist()
    limited = []
    for name, P, codes in (domains[k] for k in chosen):
        n_rows = min(MAX_ROWS, max(MAX_PROBABILITIES // (len(chosen) * P.shape[1]), 1))
        rows = np.arange(len(codes)) if len(codes) <= n_rows else np.sort(rng.permutation(len(codes))[:n_rows])
        limited.append(HeldOutDomain(name, P[rows].astype(np.float32), codes[rows]))
    return limited


@dataclass(frozen=True)
class Gain:
    """Expected gain of a level of adaptation over the model as it is; positive values are improvements.

    Attributes
    ----------
    mean : float
        Mean over held-out source domains.
    low, high : float
        90% prediction interval for the gain at one new domain with one draw of labels.
    bound : float
        Lower bound of the mean gain that counts losses only: see `AdaptationPlan.choose`.
    n_domains : int
        Number of domains behind them.
    by_domain : ndarray
        The gain on each domain; NaN where a domain has too few rows.
    """

    mean: float
    low: float
    high: float
    bound: float
    n_domains: int
    by_domain: Array = field(compare=False, repr=False)

    @classmethod
    def from_domains(cls, by_domain: Array, draw_variance: float) -> Self:
        """Summarize the gains of domains, given the variance between draws of labels from one domain."""
        values = by_domain[np.isfinite(by_domain)]
        m = len(values)
        mean = float(values.mean())
        downside = np.sqrt(np.sum(np.minimum(values, 0) ** 2) / (m * (m - 1)))
        spread = values.var(ddof=1) * (1 + 1 / m) + draw_variance
        width = float(stdtrit(m - 1, (1 + PREDICTION_LEVEL) / 2) * np.sqrt(spread))
        bound = float(mean - stdtrit(m - 1, CONFIDENCE) * downside)
        return cls(mean, mean - width, mean + width, bound, m, by_domain)


@dataclass(frozen=True)
class Decision:
    """The level of adaptation for a number of labels, and why."""

    level: str
    reason: str


@dataclass(frozen=True, eq=False)
class AdaptationPlan:
    """Gains of each level of adaptation, simulated on held-out source domains.

    Each source domain was held out in turn; a number of its labels was revealed in repeated random draws, the model was
    adapted to them, and the remaining rows were scored. Everything that is applied to a domain, including the priors,
    was fitted on other domains.

    Attributes
    ----------
    domains : tuple of str
        Names of the source domains.
    gains : dict
        By level, from the least to the most demanding, and number of labels: for each metric the gain over the model as
        it is on each draw of labels, an array of shape (n_domains, n_draws). Gains are the decrease of the log loss in
        nats, and the increase of the accuracy as a share. NaN where a domain has too few rows.
    prior : OffsetPrior
        Variances for class offsets and temperature.
    """

    domains: tuple[str, ...] = ()
    gains: Mapping[str, Mapping[int, Mapping[str, Array]]] = field(default_factory=dict)
    prior: OffsetPrior = field(default_factory=OffsetPrior)

    def gain(self, level: str, n_labels: int, metric: str = "log_loss") -> Gain | None:
        """Expected gain of a level with this number of labels; None if fewer than two domains have enough rows.

        Gains are interpolated between simulated numbers of labels on a logarithmic axis. Above the largest number at
        which two domains were simulated they are those of that number.
        """
        curve = {}
        for n, draws in self.gains.get(level, {}).items():
            is_known = np.isfinite(draws[metric]).all(axis=1)
            if np.sum(is_known) >= MIN_DOMAINS:
                variances = draws[metric][is_known].var(axis=1, ddof=1) if draws[metric].shape[1] > 1 else np.zeros(1)
                curve[n] = draws[metric].mean(axis=1), float(variances.mean())
        smaller = [n for n in curve if n <= n_labels]
        if not smaller or n_labels < MIN_LABELS:
            return None
        lower = max(smaller)
        values, variance = curve[lower]
        upper = min((n for n in curve if n > n_labels), default=None)
        if upper is not None and lower < n_labels:
            share = np.log(n_labels / lower) / np.log(upper / lower)
            between = (1 - share) * values + share * curve[upper][0]
            if np.isfinite(between).sum() >= MIN_DOMAINS:
                values = between
                variance = (1 - share) * variance + share * curve[upper][1]
        return Gain.from_domains(values, variance)

    def choose(self, n_labels: int) -> Decision:
        """The level with the largest expected decrease of log loss among those that are unlikely to harm.

        A level is eligible if the lower bounds of its mean gains in log loss and accuracy are above minus the margins.
        The bound is the mean minus t (0.9, m - 1 degrees of freedom) times the root of sum min(gain, 0)^2 / (m (m -
        1)). Gains are skewed: most domains gain little and some gain much, and these must not count as risk, as they
        would with the standard deviation. A more demanding level is preferred to a simpler one if it is better by more
        than one standard error of the difference, paired by domain. Nothing here depends on the labels of the new
        domain except their number.
        """
        if n_labels < MIN_LABELS:
            return Decision(AS_IS, f"{n_labels} labels are fewer than {MIN_LABELS}, so the model is kept as it is.")
        best = AS_IS
        best_gains = np.zeros(len(self.domains))
        n_simulated = 0
        for level in self.gains:
            log_loss = self.gain(level, n_labels, "log_loss")
            accuracy = self.gain(level, n_labels, "accuracy")
            if log_loss is None or accuracy is None:
                continue
            n_simulated += 1
            if log_loss.bound <= -MAX_LOG_LOSS_DECREASE or accuracy.bound <= -MAX_ACCURACY_DECREASE:
                continue
            difference = log_loss.by_domain - best_gains
            difference = difference[np.isfinite(difference)]
            if len(difference) < MIN_DOMAINS:
                continue
            error = difference.std(ddof=1) / np.sqrt(len(difference))
            # A more demanding level must be better than a simpler level by more than one standard error.
            if difference.mean() > (0 if best == AS_IS else error):
                best = level
                best_gains = log_loss.by_domain
        reason = f"With {n_labels} labels: {LEVELS[best]}. {self.describe(best, n_labels)}"
        if not n_simulated:
            reason = (
                "The source domains have too few rows, or are too few, to simulate adaptation, so the model is kept "
                "as it is. Set level to adapt it all the same."
            )
        elif best == AS_IS:
            reason = (
                f"With {n_labels} labels no level of adaptation is expected to improve the model without risk, so it "
                "is kept as it is."
            )
        return Decision(best, reason)

    def describe(self, level: str, n_labels: int) -> str:
        """The expected gain in a sentence."""
        accuracy = self.gain(level, n_labels, "accuracy")
        log_loss = self.gain(level, n_labels, "log_loss")
        if accuracy is None or log_loss is None:
            return "The gain was not simulated."
        return (
            f"Expected gain in accuracy {100 * accuracy.mean:+.1f} points (90% prediction interval "
            f"{100 * accuracy.low:+.1f} to {100 * accuracy.high:+.1f}) and in log loss {-log_loss.mean:+.3f} "
            f"({-log_loss.high:+.3f} to {-log_loss.low:+.3f}), from {accuracy.n_domains} held-out domains."
        )

    def sentences(self) -> list[str]:
        """What to expect from some numbers of labels, before any label is collected."""
        sizes = sorted({n for level, curve in self.gains.items() for n in curve if self.gain(level, n) is not None})
        if not sizes:
            return ["The source domains are too few, or have too few rows, to simulate adaptation."]
        decisions = {n: self.choose(n) for n in sizes}
        useful = [n for n, decision in decisions.items() if decision.level != AS_IS]
        if not useful:
            return [
                f"With up to {sizes[-1]} labels no level of adaptation is expected to improve the model: keep it as it "
                "is."
            ]
        sentences = [f"With fewer than {useful[0]} labels keep the model as it is."]
        for n, decision in decisions.items():
            if decision.level != AS_IS:
                sentences.append(
                    f"With about {n} labels use {LEVELS[decision.level]}. {self.describe(decision.level, n)}"
                )
            elif n > useful[0]:
                sentences.append(f"With about {n} labels: {decision.reason}")
        return sentences

    def with_refit(self, n_labels: int, gains: Mapping[str, Array]) -> Self:
        """A plan with the gains of a refit, simulated for one number of labels."""
        return replace(self, gains={**self.gains, REFIT: {n_labels: gains}})

    def summary(self) -> dict[str, Any]:
        """The curves in plain values, for figures: for each level, the gains at each number of labels."""
        curves = []
        for level, simulated in self.gains.items():
            points = []
            for n in simulated:
                point: dict[str, Any] = {"labels": n}
                for metric in METRICS:
                    gain = self.gain(level, n, metric)
                    point[metric] = gain and {"mean": gain.mean, "low": gain.low, "high": gain.high}
                points.append(point)
            curves.append({"level": level, "name": LEVELS[level], "points": points})
        return {"curves": curves, "domains": list(self.domains), "sentences": self.sentences()}


def simulate_adaptation(domains: Sequence[HeldOutDomain], prior_ratio: Array | None = None) -> AdaptationPlan:
    """Simulate class offsets and temperature on held-out domains, which needs no refit.

    Parameters
    ----------
    domains : sequence of HeldOutDomain
        Out-of-domain predictions.
    prior_ratio : ndarray of shape (n_classes,), default=None
        Natural class frequencies over those of training, if classes were balanced.

    Returns
    -------
    plan : AdaptationPlan
        Gains by number of labels and domain, and the priors for adapting the deployed model.
    """
    rng = np.random.default_rng(0)
    m = len(domains)
    evidence = np.array([log_evidence(P, codes, PRIORS) for _, P, codes in domains]).reshape(m, -1)
    n_draws = int(np.clip(TOTAL_DRAWS // max(m, 1), *DRAWS))
    gains = {n: {metric: np.full((m, n_draws), np.nan) for metric in METRICS} for n in SIZES}
    for k, domain in enumerate(domains):
        prior = _best_prior(np.delete(evidence, k, axis=0))
        for n, by_metric in gains.items():
            if len(domain.codes) - n < MIN_TEST_ROWS:
                continue
            rows = np.array([rng.permutation(len(domain.codes))[:n] for _ in range(n_draws)])
            offsets, scales = fit_offsets(domain.probabilities[rows], domain.codes[rows], prior)
            adapted = apply_offsets(domain.probabilities[None], offsets, scales)
            for metric, values in score_gains(domain, adapted, rows, prior_ratio).items():
                by_metric[metric][k] = values
    return AdaptationPlan(tuple(domain.name for domain in domains), {OFFSETS: gains}, _best_prior(evidence))


def _best_prior(evidence: Array) -> OffsetPrior:
    """The prior with the largest product of marginal likelihood, over domains, and hyperprior."""
    offset_stds = np.repeat(OFFSET_STDS, len(SCALE_STDS))
    scale_stds = np.tile(SCALE_STDS, len(OFFSET_STDS))
    hyperprior = -0.5 * np.log(offset_stds / OFFSET_STD_MEDIAN) ** 2
    hyperprior -= 0.5 * np.log(scale_stds / SCALE_STD_MEDIAN) ** 2
    return PRIORS[int(np.argmax(evidence.sum(axis=0) + hyperprior))]


def score_gains(
    domain: HeldOutDomain, adapted: Array, rows: Ints, prior_ratio: Array | None = None
) -> dict[str, Array]:
    """Gains (B,) of adapted probabilities (B, n, C) on the rows that were not labeled, over the model as it is.

    `rows` (B, n_labels) are the labeled ones. Labels follow the class balance of training.
    """
    is_test = np.ones((len(rows), len(domain.codes)), dtype=bool)
    np.put_along_axis(is_test, rows, False, axis=1)
    share = is_test / is_test.sum(axis=1, keepdims=True)
    losses = []
    hits = []
    for P in (domain.probabilities[None], adapted):
        p_true = P[:, np.arange(len(domain.codes)), domain.codes]
        losses.append(-np.log(np.maximum(p_true, MIN_PROBABILITY)))
        decisions = P if prior_ratio is None else P / prior_ratio
        hits.append((decisions.argmax(axis=2) == domain.codes).astype(float))
    return {
        "log_loss": np.sum(share * (losses[0] - losses[1]), axis=1),
        "accuracy": np.sum(share * (hits[1] - hits[0]), axis=1),
    }
