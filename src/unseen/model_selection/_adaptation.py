"""Adaptation of an ensemble to a few labels of a new domain: class offsets, a refit, and the plan that selects them.

An ensemble predicts probabilities p(c | x). At a new domain these become

    p'(c | x) proportional to exp(scale * log p(c | x) + offset_c),

where `scale` is an inverse temperature relative to that of the model. Offsets and scale have normal priors that are
centered at no change, offset_c ~ N(0, offset_variance) and scale ~ N(1, scale_variance). The estimate is the mode of
the posterior, whose negative logarithm is convex, because it is linear in the parameters up to the log-sum-exp.

The plan is the expected gain of each level of adaptation against the number of labels. It is simulated on out-of-domain
predictions for source domains that are held out in turn.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.special import stdtrit
from sklearn.utils import _safe_indexing

from ..linalg import Array, Ints
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels, format_list
from ._calibration import softmax, true_class_values
from ._candidate import ignore_expected_warnings
from ._ensemble import EnsembleClassifier
from ._evaluation import single_thread

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
# Hyperpriors of the standard deviations: log-normal with these medians and a factor of e. They count about as much as
# one domain, and decide if there are very few domains.
OFFSET_STD_MEDIAN = 0.4
SCALE_STD_MEDIAN = 0.15
# A refit gives the rows of the new domain the weight of an average source domain, but no row more than this.
MAX_SITE_WEIGHT = 20.0
MAX_REFIT_DOMAINS = 6  # source domains on which a refit is simulated
MAX_REFIT_ROWS = 4_000  # source rows of this simulation
# Smaller probabilities are raised to this value before their logarithm is taken: one row with a probability of zero
# would otherwise determine the scale alone.
MIN_ADAPTED_PROBABILITY = 1e-6
# The scale of the logits stays positive, so that the order of the classes of a row never reverses without offsets.
MIN_SCALE = 0.1
MAX_NEWTON_STEPS = 30
# After a Newton step with all entries below this the error is about its square, which no probability shows.
STEP_TOLERANCE = 1e-4
MAX_HALVINGS = 40
VALUE_ROUNDING = 1e-12  # relative


@dataclass(frozen=True)
class OffsetPrior:
    """Variances of the normal priors of class offsets and of the scale of the logits."""

    offset_variance: float = 0.25
    scale_variance: float = 0.04


def apply_offsets(P: Array, offsets: Array, scale: float = 1.0) -> Array:
    """Probabilities (n, C) with class offsets (C,) and a scale of the logits."""
    return softmax(scale * np.log(np.maximum(P, MIN_ADAPTED_PROBABILITY)) + offsets)


def fit_offsets(P: Array, codes: Ints, prior: OffsetPrior) -> tuple[Array, float]:
    """Posterior modes of the class offsets (C,), which sum to zero, and of the scale of the logits.

    `P` (n, C) are probabilities of labeled rows, and `codes` (n,) positions of their classes.
    """
    theta, _, _ = _find_mode(P, codes, prior)
    return theta[:-1], max(1 + float(theta[-1]), MIN_SCALE)


def log_evidence(P: Array, codes: Ints, prior: OffsetPrior) -> float:
    """Logarithm of the marginal likelihood of the labels of one domain, by Laplace's approximation.

    With the mode t, the Hessian H of the negative log posterior at the mode and the prior precision D,
    log p(y) = log p(y | t) - t' D t / 2 + log det(D) / 2 - log det(H) / 2.
    """
    _, value, hessian = _find_mode(P, codes, prior)
    log_precision = -P.shape[1] * np.log(prior.offset_variance) - np.log(prior.scale_variance)
    return float(log_precision - np.linalg.slogdet(hessian)[1]) / 2 - value


def _find_mode(P: Array, codes: Ints, prior: OffsetPrior) -> tuple[Array, float, Array]:
    """Mode (C + 1,) of class offsets and scale minus 1, the negative log posterior without constants, and its Hessian.

    By Newton's method; a step that would increase the negative log posterior is halved.
    """
    L = np.log(np.maximum(P, MIN_ADAPTED_PROBABILITY))
    n_classes = L.shape[1]
    truth = np.eye(n_classes)[codes]
    precision = np.full(n_classes + 1, 1 / prior.offset_variance)
    precision[-1] = 1 / prior.scale_variance

    def objective(theta: Array) -> tuple[float, Array]:
        logits = (1 + theta[-1]) * L + theta[:-1]
        logits -= logits.max(axis=1, keepdims=True)
        E = np.exp(logits)
        totals = E.sum(axis=1, keepdims=True)
        loss = np.log(totals).sum() - np.sum(logits * truth) + precision @ theta**2 / 2
        return float(loss), E / totals

    theta = np.zeros(n_classes + 1)
    step = np.full(n_classes + 1, np.inf)
    value, Q = objective(theta)
    for _ in range(MAX_NEWTON_STEPS):
        covariances = Q * (L - np.sum(Q * L, axis=1, keepdims=True))  # of class indicators with L, row by row
        hessian = np.diag(precision)
        hessian[:-1, :-1] += np.diag(Q.sum(axis=0)) - Q.T @ Q
        hessian[-1, :-1] = hessian[:-1, -1] = covariances.sum(axis=0)
        hessian[-1, -1] += np.sum(covariances * L)
        if np.abs(step).max() < STEP_TOLERANCE:
            break
        residuals = Q - truth
        gradient = precision * theta + np.append(residuals.sum(axis=0), np.sum(residuals * L))
        step = np.linalg.solve(hessian, gradient)
        for _ in range(MAX_HALVINGS):
            proposed, Q = objective(theta - step)
            # Rounding of the value must not stop a step that is correct to the last digits.
            if proposed <= value + VALUE_ROUNDING * abs(value):
                break
            step = step / 2
        theta = theta - step
        value = proposed
    return theta, value, hessian


class HeldOutDomain(NamedTuple):
    """Out-of-domain predictions for one source domain, by a model that was fitted without it.

    `probabilities` (n, C) are under the natural class frequencies, and `codes` (n,) are positions of the true classes.
    """

    name: str
    probabilities: Array
    codes: Ints


def limit_held_out_domains(domains: Sequence[tuple[str, Array, Ints]]) -> list[tuple[str, Array, Ints]]:
    """As many domains and rows, drawn at random, as a model keeps for the simulation, in single precision."""
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.permutation(len(domains))[:MAX_DOMAINS]).tolist()
    limited = []
    for name, P, codes in (domains[k] for k in chosen):
        n_rows = min(MAX_ROWS, max(MAX_PROBABILITIES // (len(chosen) * P.shape[1]), 1))
        rows = np.arange(len(codes)) if len(codes) <= n_rows else np.sort(rng.permutation(len(codes))[:n_rows])
        limited.append((name, P[rows].astype(np.float32), codes[rows]))
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

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.model_selection import AdaptationPlan
    >>> gains = {metric: np.full((3, 1), 0.02) for metric in ("log_loss", "accuracy")}
    >>> plan = AdaptationPlan(("bonn", "leeds", "turin"), {"offsets": {25: gains}})
    >>> plan.choose(25).level, plan.choose(3).level
    ('offsets', 'none')
    """

    domains: tuple[str, ...] = ()
    gains: Mapping[str, Mapping[int, Mapping[str, Array]]] = field(default_factory=dict)
    prior: OffsetPrior = field(default_factory=OffsetPrior)

    def gain(self, level: str, n_labels: int, metric: str = "log_loss") -> Gain | None:
        """Expected gain of a level with this number of labels, or with the largest one below it that was simulated.

        None if fewer than two domains have enough rows.
        """
        known = {}
        for n, draws in self.gains.get(level, {}).items():
            is_known = np.isfinite(draws[metric]).all(axis=1)
            if MIN_LABELS <= n <= n_labels and np.sum(is_known) >= MIN_DOMAINS:
                known[n] = draws[metric], is_known
        if not known:
            return None
        values, is_known = known[max(known)]
        variances = values[is_known].var(axis=1, ddof=1) if values.shape[1] > 1 else np.zeros(1)
        return Gain.from_domains(values.mean(axis=1), float(variances.mean()))

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


PRIORS = [OffsetPrior(offset**2, scale**2) for offset in OFFSET_STDS for scale in SCALE_STDS]


def simulate_adaptation(
    domains: Sequence[HeldOutDomain], prior_ratio: Array | None = None, sizes: Sequence[int] = SIZES
) -> AdaptationPlan:
    """Simulate class offsets and temperature on held-out domains, which needs no refit.

    Parameters
    ----------
    domains : sequence of HeldOutDomain
        Out-of-domain predictions.
    prior_ratio : ndarray of shape (n_classes,), default=None
        Natural class frequencies over those of training, if classes were balanced.
    sizes : sequence of int
        Numbers of labels.

    Returns
    -------
    plan : AdaptationPlan
        Gains by number of labels and domain, and the priors for adapting the deployed model.
    """
    rng = np.random.default_rng(0)
    m = len(domains)
    evidence = np.array([[log_evidence(P, codes, prior) for prior in PRIORS] for _, P, codes in domains])
    evidence = evidence.reshape(m, len(PRIORS))
    n_draws = int(np.clip(TOTAL_DRAWS // max(m, 1), *DRAWS))
    gains = {n: {metric: np.full((m, n_draws), np.nan) for metric in METRICS} for n in sizes}
    for k, domain in enumerate(domains):
        prior = _best_prior(np.delete(evidence, k, axis=0))
        for n, by_metric in gains.items():
            if len(domain.codes) - n < MIN_TEST_ROWS:
                continue
            for draw in range(n_draws):
                labeled = rng.permutation(len(domain.codes))[:n]
                offsets = fit_offsets(domain.probabilities[labeled], domain.codes[labeled], prior)
                adapted = apply_offsets(domain.probabilities, *offsets)
                for metric, gain in score_gains(domain, adapted, labeled, prior_ratio).items():
                    by_metric[metric][k, draw] = gain
    return AdaptationPlan(tuple(domain.name for domain in domains), {OFFSETS: gains}, _best_prior(evidence))


def _best_prior(evidence: Array) -> OffsetPrior:
    """The prior with the largest product of marginal likelihood, over domains, and hyperprior."""
    offset_stds = np.repeat(OFFSET_STDS, len(SCALE_STDS))
    scale_stds = np.tile(SCALE_STDS, len(OFFSET_STDS))
    hyperprior = -0.5 * np.log(offset_stds / OFFSET_STD_MEDIAN) ** 2
    hyperprior -= 0.5 * np.log(scale_stds / SCALE_STD_MEDIAN) ** 2
    return PRIORS[int(np.argmax(evidence.sum(axis=0) + hyperprior))]


def score_gains(
    domain: HeldOutDomain, adapted: Array, labeled: Ints, prior_ratio: Array | None = None
) -> dict[str, float]:
    """Gains of adapted probabilities (n, C) on the rows that were not labeled, over the model as it is.

    Decisions follow the class balance of training.
    """
    test = np.setdiff1d(np.arange(len(domain.codes)), labeled)
    codes = domain.codes[test]
    losses = []
    hits = []
    for P in (domain.probabilities[test], adapted[test]):
        losses.append(-np.log(np.maximum(true_class_values(P, codes), MIN_ADAPTED_PROBABILITY)).mean())
        decisions = P if prior_ratio is None else P / prior_ratio
        hits.append(np.mean(decisions.argmax(axis=1) == codes))
    return {"log_loss": float(losses[0] - losses[1]), "accuracy": float(hits[1] - hits[0])}


@dataclass(frozen=True)
class SourceData:
    """The source domains, prepared as the members of the ensemble receive them, for a refit."""

    samples: Samples
    balance: Balance = "none"


def plan_adaptation(ensemble: EnsembleClassifier, n_labels: int | None = None) -> AdaptationPlan:
    """Expected gains of adaptation, simulated on the out-of-domain predictions that an ensemble keeps.

    With `n_labels`, adaptation to this number of labels is simulated, or to as many as two domains have.
    """
    domains = [HeldOutDomain(*domain) for domain in ensemble.held_out or ()]
    sizes: Sequence[int] = SIZES
    if n_labels is not None:
        n_rows = sorted((len(domain.codes) for domain in domains), reverse=True)[:MIN_DOMAINS]
        sizes = (max(min([n_labels, *(n - MIN_TEST_ROWS for n in n_rows)]), 1),)
    with single_thread():
        return simulate_adaptation(domains, ensemble.prior_ratio, sizes)


def adapt_ensemble(
    ensemble: EnsembleClassifier, X: Any, y: Any, *, level: str = "auto", source: SourceData | None = None
) -> tuple[EnsembleClassifier, dict[str, Any]]:
    """Adapt an ensemble to the labels of one new domain.

    Parameters
    ----------
    ensemble : EnsembleClassifier
        A fitted ensemble, which is not changed.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Samples of the new domain, as the ensemble receives them.
    y : ndarray of shape (n_samples,)
        Their classes; None or NaN where a label is missing. Samples without labels serve transductive members only.
    level : {"auto", "none", "offsets", "refit"}, default="auto"
        Level of adaptation; "auto" selects the one with the largest expected gain that is unlikely to harm.
    source : SourceData, default=None
        The source domains, which "refit" needs.

    Returns
    -------
    adapted : EnsembleClassifier
        The adapted ensemble; the same object if nothing was changed.
    description : dict
        How it was adapted, in plain values: `level`, `reason`, number of `labels`, class `offsets` and `scale` of the
        logits, and `notices` of what was not possible.
    """
    if level != "auto" and level not in LEVELS:
        raise ValueError(f"level={level!r} is not 'auto' or one of {', '.join(map(repr, LEVELS))}.")
    rows, codes = encode_labels(y, ensemble.classes_)
    notices = []
    n_missing = len(y) - len(rows)
    if n_missing:
        notices.append(f"{n_missing:,} of {len(y):,} rows have no label; they are not used to fit the adaptation.")
    plan = plan_adaptation(ensemble, len(codes))
    decision = Decision(level, f"{LEVELS.get(level, level).capitalize()}, as requested.")
    if level == "auto":
        if source is None:
            notices.append("The level 'refit' was not considered: it needs the source data, as source.")
        else:
            plan = _simulate_refit(ensemble, source, plan, len(codes))
        decision = plan.choose(len(codes))
    elif level == REFIT and source is None:
        raise ValueError("level='refit' is not possible: it needs the source data. Pass the training table as source.")
    elif level != AS_IS and len(codes) < 2:
        raise ValueError(f"level={level!r} needs at least 2 labels; got {len(codes)}. Use level='none'.")
    adapted = ensemble
    offsets = None
    scale = 1.0
    with ignore_expected_warnings(), single_thread():
        if decision.level == REFIT and source is not None:
            adapted = _refit(ensemble, source.samples, _safe_indexing(X, rows), codes, source.balance)
        elif decision.level == OFFSETS:
            P = ensemble.predict_proba(X)[rows]
            offsets, scale = fit_offsets(P, codes, plan.prior)
            adapted = ensemble.with_offsets(offsets, scale)
    names = map(str, ensemble.classes_)
    return adapted, {
        "level": decision.level,
        "reason": decision.reason,
        "labels": len(codes),
        "offsets": None if offsets is None else dict(zip(names, offsets.tolist(), strict=True)),
        "scale": scale,
        "notices": notices,
    }


def encode_labels(y: Any, classes: Labels) -> tuple[Ints, Ints]:
    """Positions of labeled samples, and positions of their classes; ValueError for unknown classes or no label."""
    values = np.asarray(y, dtype=object)
    is_missing = np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    rows = np.flatnonzero(~is_missing)
    if not len(rows):
        raise ValueError("y contains no label. Pass the classes of some rows of the new domain.")
    positions = {label: i for i, label in enumerate(classes.tolist())}
    labels = [value.item() if isinstance(value, np.generic) else value for value in values[rows].tolist()]
    unknown = sorted({repr(label) for label in labels if label not in positions})
    if unknown:
        raise ValueError(
            f"y contains classes that the model was not trained on: {format_list(unknown, 5, quote=False)}. Its "
            f"classes are {format_list(classes.tolist(), 10)}. Correct these labels, or leave these rows out."
        )
    return rows, np.array([positions[label] for label in labels], dtype=np.intp)


def check_not_adapted(adaptation: Mapping[str, Any] | None) -> None:
    """Raise ValueError if a model was changed by an adaptation, as its description says."""
    if adaptation is not None and adaptation["level"] != AS_IS:
        raise ValueError("This model was adapted already. Adapt the original model, with all labels together.")


def check_new_domain(names: Sequence[str], sources: Collection[str]) -> None:
    """Raise ValueError unless there is one domain, which is not a source domain."""
    if len(names) > 1:
        raise ValueError(
            f"The rows are of {len(names)} domains: {format_list(names, 5)}. A model is adapted to one domain: adapt "
            "it to each separately."
        )
    known = [name for name in names if name in sources]
    if known:
        raise ValueError(
            f"The domain {known[0]!r} was in the training data, so the model is fitted to it already. Adapt the model "
            "to a new domain, or rename the domain if its rows are new."
        )


def _refit(ensemble: EnsembleClassifier, samples: Samples, X: Any, codes: Ints, balance: Balance) -> EnsembleClassifier:
    """The ensemble fitted to the source domains and the labeled rows of the new domain, which are weighted up."""
    n = len(codes)
    domains = samples.domain.astype(str)
    n_domains = len(np.unique(domains))
    site_weight = float(np.clip(len(samples) / (n_domains * n), 1.0, MAX_SITE_WEIGHT))
    base = samples.weights(balance=balance)
    source_weights = np.ones(len(samples)) if base is None else np.asarray(base)
    weights = np.concatenate([source_weights, np.full(n, site_weight * source_weights.mean())])
    X_all = sparse.vstack([samples.X, X]).tocsr() if sparse.issparse(X) else np.concatenate([samples.X, X])
    y_all = np.concatenate([samples.y, ensemble.classes_[codes]])
    new_name = "new domain"
    while new_name in domains:
        new_name += "'"
    domain_all = np.concatenate([domains, np.full(n, new_name)])
    return copy.copy(ensemble).fit(X_all, y_all, sample_domain=domain_all, sample_weight=weights)


def _simulate_refit(
    ensemble: EnsembleClassifier, source: SourceData, plan: AdaptationPlan, n_labels: int
) -> AdaptationPlan:
    """The plan with the gain of a refit at this number of labels, by refitting without some source domains.

    The members are fitted without a domain, and again with some of its rows; weights and temperatures are those of the
    model. Offsets are simulated by the plan already.
    """
    rng = np.random.default_rng(0)
    samples = source.samples
    if len(samples) > MAX_REFIT_ROWS:
        samples = samples.take(samples.subsample_rows(MAX_REFIT_ROWS))
    domain = samples.domain.astype(str)
    gains = {metric: np.full((len(plan.domains), 1), np.nan) for metric in METRICS}
    large = [k for k, name in enumerate(plan.domains) if np.sum(domain == name) >= n_labels + MIN_TEST_ROWS]
    with ignore_expected_warnings(), single_thread():
        for k in rng.permutation(large)[:MAX_REFIT_DOMAINS].tolist():
            held_out = np.flatnonzero(domain == plan.domains[k])
            others = samples.take(np.flatnonzero(domain != plan.domains[k]))
            if not np.array_equal(np.unique(others.y), ensemble.classes_):
                continue
            labeled = rng.permutation(len(held_out))[:n_labels]
            codes = np.searchsorted(ensemble.classes_, samples.y[held_out])
            X = _safe_indexing(samples.X, held_out)
            weights = others.weights(balance=source.balance)
            before = copy.copy(ensemble).fit(others.X, others.y, sample_domain=others.domain, sample_weight=weights)
            after = _refit(ensemble, others, _safe_indexing(X, labeled), codes[labeled], source.balance)
            part = HeldOutDomain(plan.domains[k], before.predict_proba(X), codes)
            for metric, gain in score_gains(part, after.predict_proba(X), labeled, ensemble.prior_ratio).items():
                gains[metric][k] = gain
    return plan.with_refit(n_labels, gains)
