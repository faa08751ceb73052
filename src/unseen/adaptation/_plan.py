"""The regime curve of a model: the expected gain of each level of adaptation against the number of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import stdtrit

from ..linalg import Array
from ._offsets import OffsetPrior

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
    """

    mean: float
    low: float
    high: float
    bound: float
    n_domains: int


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

    def _interpolate(self, level: str, n_labels: int, metric: str) -> tuple[Array, float] | None:
        """Gains of the domains, NaN where a domain has too few rows, and the variance between draws.

        They are interpolated between simulated numbers of labels on a logarithmic axis. Above the largest number at
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
        upper = min(int(np.searchsorted(sizes, n_labels)), len(sizes) - 1)
        if sizes[upper] <= n_labels:
            return curve[upper], float(variances[upper])
        lower = upper - 1
        share = float(np.log(n_labels / sizes[lower]) / np.log(sizes[upper] / sizes[lower]))
        values = (1 - share) * curve[lower] + share * curve[upper]
        if np.isfinite(values).sum() < MIN_DOMAINS:
            return curve[lower], float(variances[lower])
        return values, float((1 - share) * variances[lower] + share * variances[upper])

    def gain(self, level: str, n_labels: int, metric: str = "log_loss") -> Gain | None:
        """Expected gain of a level with this number of labels; None if fewer than two domains have enough rows."""
        interpolated = self._interpolate(level, n_labels, metric)
        if interpolated is None:
            return None
        values, draw_variance = interpolated
        return _summarize(values[np.isfinite(values)], draw_variance)

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
            interpolated = self._interpolate(level, n_labels, "log_loss")
            log_loss = self.gain(level, n_labels, "log_loss")
            accuracy = self.gain(level, n_labels, "accuracy")
            if interpolated is None or log_loss is None or accuracy is None:
                continue
            n_simulated += 1
            is_safe = log_loss.bound > -MAX_LOG_LOSS_DECREASE and accuracy.bound > -MAX_ACCURACY_DECREASE
            if not is_safe:
                continue
            difference = interpolated[0] - best_gains
            difference = difference[np.isfinite(difference)]
            if len(difference) < MIN_DOMAINS:
                continue
            error = difference.std(ddof=1) / np.sqrt(len(difference))
            # A more demanding level must be better than a simpler level by more than one standard error.
            if difference.mean() > (0 if best == AS_IS else error):
                best = level
                best_gains = interpolated[0]
        if not n_simulated:
            reason = (
                "The source domains have too few rows, or are too few, to simulate adaptation, so the model is kept "
                "as it is. Set level to adapt it all the same."
            )
            return Decision(AS_IS, reason)
        if best == AS_IS:
            reason = (
                f"With {n_labels} labels no level of adaptation is expected to improve the model without risk, so it "
                "is kept as it is."
            )
            return Decision(AS_IS, reason)
        return Decision(best, f"With {n_labels} labels: {LEVEL_NAMES[best]}. {self.describe(best, n_labels)}")

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

    def sentences(self, available: Iterable[str] | None = None) -> list[str]:
        """What to expect from some numbers of labels, before any label is collected."""
        among = [*(self.levels if available is None else available)]
        is_known = np.isfinite(self.gains["log_loss"]).sum(axis=2) >= MIN_DOMAINS
        sizes = [n for n, known in zip(self.sizes, is_known.any(axis=0), strict=True) if known]
        if not sizes:
            return ["The source domains are too few, or have too few rows, to simulate adaptation."]
        decisions = {n: self.choose(n, among) for n in sizes}
        sentences = []
        first_useful = next((n for n, decision in decisions.items() if decision.level != AS_IS), None)
        if first_useful is None:
            return [
                f"With up to {sizes[-1]} labels no level of adaptation is expected to improve the model: keep it as it "
                "is."
            ]
        sentences.append(f"With fewer than {first_useful} labels keep the model as it is.")
        for n, decision in decisions.items():
            if decision.level != AS_IS:
                sentences.append(
                    f"With about {n} labels use {LEVEL_NAMES[decision.level]}. {self.describe(decision.level, n)}"
                )
            elif n > first_useful:
                sentences.append(f"With about {n} labels: {decision.reason}")
        return sentences

    def with_level(self, level: str, n_labels: int, gains: Mapping[str, Array]) -> Self:
        """A plan with one more level, simulated for one number of labels."""
        sizes = tuple(sorted({*self.sizes, n_labels}))
        levels = (*self.levels, level)
        shape = (len(levels), len(sizes), len(self.domains))
        new_gains = {}
        new_variances = {}
        for metric in METRICS:
            values = np.full(shape, np.nan)
            variances = np.zeros(shape[:2])
            old_positions = [sizes.index(n) for n in self.sizes]
            values[:-1, old_positions] = self.gains[metric]
            variances[:-1, old_positions] = self.draw_variances[metric]
            values[-1, sizes.index(n_labels)] = gains[metric]
            new_gains[metric] = values
            new_variances[metric] = variances
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
                gains = {metric: self.gain(level, n, metric) for metric in METRICS}
                points.append(
                    {
                        "labels": n,
                        **{
                            metric: None if gain is None else {"mean": gain.mean, "low": gain.low, "high": gain.high}
                            for metric, gain in gains.items()
                        },
                    }
                )
            curves.append({"level": level, "name": LEVEL_NAMES[level], "points": points})
        return {"curves": curves, "domains": list(self.domains), "sentences": self.sentences()}


def _summarize(values: Array, draw_variance: float) -> Gain:
    m = len(values)
    mean = float(values.mean())
    spread = float(values.var(ddof=1))
    downside = np.sqrt(np.sum(np.minimum(values, 0) ** 2) / (m * (m - 1)))
    width = stdtrit(m - 1, (1 + PREDICTION_LEVEL) / 2) * np.sqrt(spread * (1 + 1 / m) + draw_variance)
    bound = mean - stdtrit(m - 1, CONFIDENCE) * downside
    return Gain(mean, float(mean - width), float(mean + width), float(bound), m)


def _to_lists(values: Array) -> list[Any]:
    """Nested lists, with None for NaN."""
    if values.ndim > 1:
        return [_to_lists(part) for part in values]
    return [value if np.isfinite(value) else None for value in values.tolist()]


def check_level(level: str) -> None:
    """Raise ValueError for an unknown level."""
    if level != "auto" and level not in LEVELS:
        raise ValueError(f"level={level!r} is not 'auto' or one of {', '.join(map(repr, LEVELS))}.")


def format_levels(levels: Sequence[str]) -> str:
    """Names of levels in a text."""
    return ", ".join(f"{level} ({LEVEL_NAMES[level]})" for level in levels)
