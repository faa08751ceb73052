"""The regime curve of a model: the expected gain of each level of adaptation against the number of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import stdtrit

from ..linalg import Array
from ._estimates import OffsetPrior

AS_IS = "none"
OFFSETS = "offsets"
WEIGHTS = "weights"
FEATURES = "features"
REFIT = "refit"
LOCAL = "local"
LEVELS = (AS_IS, OFFSETS, WEIGHTS, FEATURES, REFIT, LOCAL)  # from the least to the most demanding
LEVEL_NAMES = {
    AS_IS: "the model as it is",
    OFFSETS: "class offsets and temperature",
    WEIGHTS: "member weights, class offsets and temperature",
    FEATURES: "feature effects, class offsets and temperature",
    REFIT: "refit with the new domain",
    LOCAL: "local model only",
}
METRICS = ("log_loss", "accuracy")
SIZES = (5, 10, 25, 50, 100, 200)  # numbers of labels of the simulation
MIN_LABELS = SIZES[0]  # with fewer labels the model stays as it is
MIN_DOMAINS = 2  # a gain over fewer domains has no interval
CONFIDENCE = 0.9  # one-sided, of the bounds that a level must respect
PREDICTION_LEVEL = 0.9  # of the interval for the gain at one new domain
# A level is eligible only if the lower bounds of its mean gains exceed minus these margins.
MAX_LOG_LOSS_DECREASE = 0.01
MAX_ACCURACY_DECREASE = 0.01


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
    levels : tuple of str
        The simulated levels.
    sizes : tuple of int
        The numbers of labels.
    domains : tuple of str
        Names of the source domains.
    gains : dict of str to ndarray of shape (n_levels, n_sizes, n_domains)
        Gain over the model as it is, by metric: decrease of the log loss in nats, and increase of the accuracy as a
        share. NaN where a domain has too few rows.
    draw_variances : dict of str to ndarray of shape (n_levels, n_sizes)
        Variance of the gain between draws of labels from one domain, averaged over domains.
    prior : OffsetPrior
        Variances for class offsets and temperature.
    prior_rows : float
        Number of rows that the weights of the model count for when they are updated.
    feature_std : float
        Prior standard deviation, in logits, of the effects of all features together.
    """

    levels: tuple[str, ...]
    sizes: tuple[int, ...]
    domains: tuple[str, ...]
    gains: dict[str, Array]
    draw_variances: dict[str, Array]
    prior: OffsetPrior = field(default_factory=OffsetPrior)
    prior_rows: float = 100.0
    feature_std: float = 0.5

    @classmethod
    def empty(cls, *, prior: OffsetPrior | None = None, prior_rows: float = 100.0, feature_std: float = 0.5) -> Self:
        """A plan without simulations: priors alone, and no level that could be chosen."""
        prior = OffsetPrior() if prior is None else prior
        gains = {metric: np.empty((0, 0, 0)) for metric in METRICS}
        variances = {metric: np.empty((0, 0)) for metric in METRICS}
        return cls((), (), (), gains, variances, prior, prior_rows, feature_std)

    def gain(self, level: str, n_labels: int, metric: str = "log_loss") -> Gain | None:
        """Expected gain of a level with this number of labels; None if fewer than two domains have enough rows.

        Gains are interpolated between simulated numbers of labels on a logarithmic axis. Above the largest number at
        which two domains were simulated they are those of that number.
        """
        if level not in self.levels or n_labels < MIN_LABELS:
            return None
        position = self.levels.index(level)
        is_known = np.isfinite(self.gains[metric][position]).sum(axis=1) >= MIN_DOMAINS
        sizes = np.array(self.sizes)[is_known]
        if not len(sizes) or n_labels < sizes[0]:
            return None
        curve = self.gains[metric][position][is_known]
        variances = self.draw_variances[metric][position][is_known]
        lower = int(np.searchsorted(sizes, n_labels, side="right")) - 1
        values = curve[lower]
        variance = variances[lower]
        if sizes[lower] < n_labels and lower + 1 < len(sizes):
            share = np.log(n_labels / sizes[lower]) / np.log(sizes[lower + 1] / sizes[lower])
            between = (1 - share) * values + share * curve[lower + 1]
            if np.isfinite(between).sum() >= MIN_DOMAINS:
                values = between
                variance = (1 - share) * variance + share * variances[lower + 1]
        return Gain.from_domains(values, float(variance))

    def choose(self, n_labels: int, available: Iterable[str]) -> Decision:
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
        for level in (level for level in LEVELS if level in set(available)):
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
        reason = f"With {n_labels} labels: {LEVEL_NAMES[best]}. {self.describe(best, n_labels)}"
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
        is_known = np.isfinite(self.gains["log_loss"]).sum(axis=2) >= MIN_DOMAINS
        sizes = [n for n, known in zip(self.sizes, is_known.any(axis=0), strict=True) if known]
        if not sizes:
            return ["The source domains are too few, or have too few rows, to simulate adaptation."]
        decisions = {n: self.choose(n, self.levels) for n in sizes}
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
                    f"With about {n} labels use {LEVEL_NAMES[decision.level]}. {self.describe(decision.level, n)}"
                )
            elif n > useful[0]:
                sentences.append(f"With about {n} labels: {decision.reason}")
        return sentences

    def with_level(self, level: str, n_labels: int, gains: Mapping[str, Array]) -> Self:
        """A plan with one more level, simulated for one number of labels."""
        sizes = tuple(sorted({*self.sizes, n_labels}))
        old_positions = [sizes.index(n) for n in self.sizes]
        shape = (len(self.levels) + 1, len(sizes), len(self.domains))
        new_gains = {metric: np.full(shape, np.nan) for metric in METRICS}
        new_variances = {metric: np.zeros(shape[:2]) for metric in METRICS}
        for metric in METRICS:
            new_gains[metric][:-1, old_positions] = self.gains[metric]
            new_gains[metric][-1, sizes.index(n_labels)] = gains[metric]
            new_variances[metric][:-1, old_positions] = self.draw_variances[metric]
        levels = (*self.levels, level)
        return replace(self, levels=levels, sizes=sizes, gains=new_gains, draw_variances=new_variances)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "levels": list(self.levels),
            "sizes": list(self.sizes),
            "domains": list(self.domains),
            "gains": {metric: _to_lists(self.gains[metric]) for metric in METRICS},
            "draw_variances": {metric: _to_lists(self.draw_variances[metric]) for metric in METRICS},
            "offset_variance": self.prior.offset_variance,
            "scale_variance": self.prior.scale_variance,
            "prior_rows": self.prior_rows,
            "feature_std": self.feature_std,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From the result of `to_dict`; ValueError if it is not one."""
        try:
            levels = tuple(map(str, values["levels"]))
            sizes = tuple(int(n) for n in values["sizes"])
            domains = tuple(map(str, values["domains"]))
            gains = {metric: np.array(values["gains"][metric], dtype=np.float64) for metric in METRICS}
            variances = {metric: np.array(values["draw_variances"][metric], dtype=np.float64) for metric in METRICS}
            prior = OffsetPrior(float(values["offset_variance"]), float(values["scale_variance"]))
            prior_rows = float(values["prior_rows"])
            feature_std = float(values["feature_std"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the simulation of adaptation is incomplete ({type(error).__name__}: {error})") from error
        shape = (len(levels), len(sizes), len(domains))
        is_valid = set(levels) <= set(LEVELS) and list(sizes) == sorted(set(sizes))
        for metric in METRICS:
            is_valid &= gains[metric].shape == shape and variances[metric].shape == shape[:2]
            is_valid &= bool((variances[metric] >= 0).all())
        numbers = (prior.offset_variance, prior.scale_variance, prior_rows, feature_std)
        if not is_valid or not all(0 < number < np.inf for number in numbers) or any(n < 1 for n in sizes):
            raise ValueError("the simulation of adaptation has arrays that do not match, or numbers out of range")
        return cls(levels, sizes, domains, gains, variances, prior, prior_rows, feature_std)

    def summary(self) -> dict[str, Any]:
        """The curves in plain values, for figures: for each level, the gains at each number of labels."""
        curves = []
        for level in self.levels:
            points = []
            for n in self.sizes:
                point: dict[str, Any] = {"labels": n}
                for metric in METRICS:
                    gain = self.gain(level, n, metric)
                    point[metric] = gain and {"mean": gain.mean, "low": gain.low, "high": gain.high}
                points.append(point)
            curves.append({"level": level, "name": LEVEL_NAMES[level], "points": points})
        return {"curves": curves, "domains": list(self.domains), "sentences": self.sentences()}


def _to_lists(values: Array) -> list[Any]:
    """Nested lists, with None for NaN."""
    without_nan = values.astype(object)
    without_nan[~np.isfinite(values)] = None
    return without_nan.tolist()


def check_level(level: str) -> None:
    """Raise ValueError for an unknown level."""
    if level != "auto" and level not in LEVELS:
        raise ValueError(f"level={level!r} is not 'auto' or one of {', '.join(map(repr, LEVELS))}.")
