"""Adaptation of an ensemble to a few labels of a new domain: class offsets, effects of features, or a refit.

An ensemble predicts probabilities p(c | x). At a new domain these become

    p'(c | x) proportional to exp(scale * log p(c | x) + offset_c + x' w_c),

where `scale` is an inverse temperature relative to that of the model. Offsets and scale have normal priors that are
centered at no change, offset_c ~ N(0, offset_variance) and scale ~ N(1, scale_variance). Effects of features are
optional: w_c ~ N(0, feature_std^2 / v), where v is the sum of the variances of all features over the labeled rows, so
that the effects of all features together have a standard deviation of `feature_std` logits before labels are seen.
Features have one common scale, as for the members: a feature that varies little among the labeled rows, such as a rare
category, gets a small effect. The estimate is the mode of the posterior, whose negative logarithm is convex, because it
is linear in the parameters up to the log-sum-exp.

The plan is the expected gain of offsets against the number of labels. It is simulated on out-of-domain predictions for
source domains that are held out in turn. Effects of features are not simulated, since a model contains no rows: they
are used where cross-validation on the labels of the new domain shows a gain.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import stdtrit
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing

from ..linalg import Array, Ints
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels, format_list
from ._candidate import ignore_expected_warnings
from ._ensemble import EnsembleClassifier
from ._ensemble_math import softmax, standard_error, true_class_values
from ._evaluation import single_thread

AS_IS = "none"
OFFSETS = "offsets"
FEATURES = "features"
REFIT = "refit"
# From the least to the most demanding.
LEVELS = {
    AS_IS: "the model as it is",
    OFFSETS: "class offsets and temperature",
    FEATURES: "effects of features, class offsets and temperature",
    REFIT: "refit with the new domain",
}
METRICS = ("log_loss", "accuracy")
SIZES = (5, 10, 25, 50, 100, 200)  # numbers of labels of the simulation
MIN_LABELS = SIZES[0]  # with fewer labels the model stays as it is
MIN_FEATURE_LABELS = 25  # with fewer labels, cross-validation cannot distinguish effects of features from none
MIN_TEST_ROWS = 20  # that are scored
MIN_DOMAINS = 2  # a gain over fewer domains has no interval
CONFIDENCE = 0.9  # one-sided, of the bounds that a level must respect
PREDICTION_LEVEL = 0.9  # of the interval for the gain at one new domain
# Offsets are used only if the lower bounds of their mean gains in log loss and accuracy exceed minus this.
MAX_LOSS = 0.01
DRAWS = (5, 12)  # fewest and most draws of labels from a domain
TOTAL_DRAWS = 100  # of all domains together, as far as the limits allow
# Strengths of the effects of features, of which cross-validation with this number of folds selects one.
FEATURE_STDS = (0.5, 2.0)
N_FOLDS = 10
# A refit gives the rows of the new domain the weight of an average source domain, but no row more than this.
MAX_SITE_WEIGHT = 20.0
# Smaller probabilities are raised to this value before their logarithm is taken: one row with a probability of zero
# would otherwise determine the scale alone.
MIN_ADAPTED_PROBABILITY = 1e-6
# The scale of the logits stays positive, so that the order of the classes of a row never reverses without offsets.
MIN_SCALE = 0.1
# Singular values below this, in logits, are rounding: their directions have no labeled row.
RANK_TOLERANCE = 1e-10
MINIMIZER_OPTIONS = {"ftol": 1e-12, "gtol": 1e-6, "maxiter": 200}


@dataclass(frozen=True)
class OffsetPrior:
    """Variances of the normal priors of class offsets and of the scale of the logits."""

    offset_variance: float = 0.25
    scale_variance: float = 0.04


class Adjustment(NamedTuple):
    """What adaptation changes in the logits of an ensemble: class offsets (C,), a scale, and effects of features."""

    offsets: Array
    scale: float = 1.0
    effects: Array | None = None  # (d, C)

    def apply(self, P: Array, X: Any = None) -> Array:
        """Adjusted probabilities (n, C); `X` (n, d) are the features, which only effects of features need."""
        logits = self.scale * log_probabilities(P) + self.offsets
        return softmax(logits if self.effects is None else logits + X @ self.effects)


def log_probabilities(P: Array) -> Array:
    """Logarithms of probabilities, which are raised to a minimum first."""
    return np.log(np.maximum(P, MIN_ADAPTED_PROBABILITY))


def fit_adjustment(
    P: Array, codes: Ints, prior: OffsetPrior, X: Array | None = None, feature_std: float = 0.0
) -> Adjustment:
    """Posterior mode of the class offsets, the scale of the logits and, with features, of their effects.

    Parameters
    ----------
    P : ndarray of shape (n, C)
        Probabilities of labeled rows.
    codes : ndarray of shape (n,)
        Positions of their classes.
    prior : OffsetPrior
        Variances of offsets and scale.
    X : ndarray of shape (n, d), default=None
        Features of the rows.
    feature_std : float, default=0.0
        Standard deviation of the effects of all features together, in logits.

    Returns
    -------
    adjustment : Adjustment
        The estimate. Without features, the offsets sum to zero.
    """
    if X is None:
        mode = _find_mode(P, codes, prior)
        return Adjustment(mode.offsets, max(mode.scale, MIN_SCALE))
    center = X.mean(axis=0)
    total_spread = np.sqrt(X.var(axis=0).sum())
    unit = feature_std / total_spread if total_spread > 0 else 0.0
    U, singular, V = np.linalg.svd(unit * (X - center), full_matrices=False)
    rank = int(np.sum(singular > RANK_TOLERANCE))
    # In these coordinates (n, r) the effects have independent standard normal priors.
    mode = _find_mode(P, codes, prior, U[:, :rank] * singular[:rank])
    effects = unit * (V[:rank].T @ mode.effects)
    return Adjustment(mode.offsets - center @ effects, max(mode.scale, MIN_SCALE), effects)


def log_evidence(P: Array, codes: Ints, prior: OffsetPrior) -> float:
    """Logarithm of the marginal likelihood of the labels of one domain, by Laplace's approximation, without features.

    With the mode t, the Hessian H of the negative log posterior at the mode and the prior precision D,
    log p(y) = log p(y | t) - t' D t / 2 + log det(D) / 2 - log det(H) / 2.
    """
    mode = _find_mode(P, codes, prior)
    L = log_probabilities(P)
    Q = softmax(mode.scale * L + mode.offsets)
    covariances = Q * (L - np.sum(Q * L, axis=1, keepdims=True))  # of class indicators with L, row by row
    hessian = np.diag(mode.precision)
    hessian[0, 0] += np.sum(covariances * L)
    hessian[0, 1:] = hessian[1:, 0] = covariances.sum(axis=0)
    hessian[1:, 1:] += np.diag(Q.sum(axis=0)) - Q.T @ Q
    return float(np.log(mode.precision).sum() - np.linalg.slogdet(hessian)[1]) / 2 - mode.value


class _Mode(NamedTuple):
    """Mode of the posterior, its negative logarithm without constants, and the precision of the prior."""

    scale: float
    offsets: Array  # (C,)
    effects: Array  # (r, C)
    value: float
    precision: Array


def _find_mode(P: Array, codes: Ints, prior: OffsetPrior, Z: Array | None = None) -> _Mode:
    """Mode of scale, offsets and the effects of `Z` (n, r), which have standard normal priors."""
    L = log_probabilities(P)
    n, n_classes = L.shape
    truth = np.eye(n_classes)[codes]
    design = np.ones((n, 1)) if Z is None else np.column_stack([np.ones(n), Z])
    # Parameters are the scale less 1, the offsets, and the effects.
    precision = np.ones(1 + n_classes * design.shape[1])
    precision[0] = 1 / prior.scale_variance
    precision[1 : n_classes + 1] = 1 / prior.offset_variance

    def objective(theta: Array) -> tuple[float, Array]:
        logits = (1 + theta[0]) * L + design @ theta[1:].reshape(-1, n_classes)
        logits -= logits.max(axis=1, keepdims=True)
        E = np.exp(logits)
        totals = E.sum(axis=1, keepdims=True)
        residuals = E / totals - truth
        loss = np.log(totals).sum() - np.sum(logits * truth) + precision @ theta**2 / 2
        gradient = np.append(np.sum(residuals * L), design.T @ residuals)
        return float(loss), gradient + precision * theta

    result = minimize(objective, np.zeros(len(precision)), jac=True, method="L-BFGS-B", options=MINIMIZER_OPTIONS)
    offsets, *effects = result.x[1:].reshape(-1, n_classes)
    return _Mode(1 + float(result.x[0]), offsets, np.reshape(effects, (-1, n_classes)), float(result.fun), precision)


def cross_validate_features(P: Array, codes: Ints, prior: OffsetPrior, X: Array) -> tuple[float, Array]:
    """The best of `FEATURE_STDS` by cross-validation, and the decrease of the log loss of each row against offsets."""
    stds = (0.0, *FEATURE_STDS)
    losses = np.empty((len(stds), len(codes)))
    for train, test in KFold(min(N_FOLDS, len(codes)), shuffle=True, random_state=0).split(X):
        for losses_of_std, feature_std in zip(losses, stds, strict=True):
            adjustment = fit_adjustment(P[train], codes[train], prior, X[train], feature_std)
            Q = adjustment.apply(P[test], X[test])
            losses_of_std[test] = -log_probabilities(true_class_values(Q, codes[test]))
    best = 1 + int(np.argmin(losses[1:].mean(axis=1)))
    return stds[best], losses[0] - losses[best]


class HeldOutDomain(NamedTuple):
    """Out-of-domain predictions for one source domain, by a model that was fitted without it.

    `probabilities` (n, C) are under the natural class frequencies, and `codes` (n,) are positions of the true classes.
    """

    name: str
    probabilities: Array
    codes: Ints


class Gain(NamedTuple):
    """Expected gain of class offsets over the model as it is; positive values are improvements.

    `mean` is that over held-out source domains, of which there are `n_domains`; `low` and `high` are the ends of a 90%
    prediction interval for the gain at one new domain with one draw of labels; `bound` is a lower bound of the mean
    that counts losses only: see `AdaptationPlan.choose`.
    """

    mean: float
    low: float
    high: float
    bound: float
    n_domains: int


class Decision(NamedTuple):
    """The level of adaptation for a number of labels, and why."""

    level: str
    reason: str


@dataclass(frozen=True, eq=False)
class AdaptationPlan:
    """Gains of class offsets and a temperature, simulated on held-out source domains.

    Each source domain was held out in turn; a number of its labels was revealed in repeated random draws, the model was
    adapted to them, and the remaining rows were scored. Everything that is applied to a domain, including the priors,
    was fitted on other domains.

    Attributes
    ----------
    domains : tuple of str
        Names of the source domains.
    gains : dict
        By number of labels: for each metric the gain over the model as it is on each draw of labels, an array of shape
        (n_domains, n_draws). Gains are the decrease of the log loss in nats, and the increase of the accuracy as a
        share. NaN where a domain has too few rows.
    prior : OffsetPrior
        Variances for class offsets and temperature.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.model_selection import AdaptationPlan
    >>> gains = {metric: np.full((3, 1), 0.02) for metric in ("log_loss", "accuracy")}
    >>> plan = AdaptationPlan(("bonn", "leeds", "turin"), {25: gains})
    >>> plan.choose(25).level, plan.choose(3).level
    ('offsets', 'none')
    """

    domains: tuple[str, ...] = ()
    gains: Mapping[int, Mapping[str, Array]] = field(default_factory=dict)
    prior: OffsetPrior = field(default_factory=OffsetPrior)

    def gain(self, n_labels: int, metric: str = "log_loss") -> Gain | None:
        """Expected gain with this number of labels, or with the largest one below it that was simulated.

        None if fewer than two domains have enough rows.
        """
        for n in sorted(self.gains, reverse=True):
            draws = self.gains[n][metric]
            draws = draws[np.isfinite(draws).all(axis=1)]
            if MIN_LABELS <= n <= n_labels and len(draws) >= MIN_DOMAINS:
                break
        else:
            return None
        values = draws.mean(axis=1)
        m = len(values)
        mean = float(values.mean())
        draw_variance = draws.var(axis=1, ddof=1).mean() if draws.shape[1] > 1 else 0.0
        width = stdtrit(m - 1, (1 + PREDICTION_LEVEL) / 2) * np.sqrt(values.var(ddof=1) * (1 + 1 / m) + draw_variance)
        downside = np.sqrt(np.sum(np.minimum(values, 0) ** 2) / (m * (m - 1)))
        bound = mean - stdtrit(m - 1, CONFIDENCE) * downside
        return Gain(mean, float(mean - width), float(mean + width), float(bound), m)

    def choose(self, n_labels: int) -> Decision:
        """Whether to use class offsets and temperature with this number of labels.

        They are used if they decrease the expected log loss and are unlikely to harm: the lower bounds of the mean
        gains in log loss and accuracy must be above minus the margins. The bound is the mean minus t (0.9, m - 1
        degrees of freedom) times the root of sum min(gain, 0)^2 / (m (m - 1)). Gains are skewed: most domains gain
        little and some gain much, and these must not count as risk, as they would with the standard deviation. Nothing
        here depends on the labels of the new domain except their number.
        """
        if n_labels < MIN_LABELS:
            return Decision(AS_IS, f"{n_labels} labels are fewer than {MIN_LABELS}, so the model is kept as it is.")
        accuracy = self.gain(n_labels, "accuracy")
        log_loss = self.gain(n_labels, "log_loss")
        if accuracy is None or log_loss is None:
            return Decision(
                AS_IS,
                "The source domains have too few rows, or are too few, to simulate adaptation, so the model is kept "
                "as it is. Set level to adapt it all the same.",
            )
        is_safe = min(log_loss.bound, accuracy.bound) > -MAX_LOSS and log_loss.mean > 0
        level = OFFSETS if is_safe else AS_IS
        reason = (
            f"With {n_labels} labels: {LEVELS[level]}. {LEVELS[OFFSETS].capitalize()} have an "
            f"expected change in accuracy of {100 * accuracy.mean:+.1f} points (90% prediction interval "
            f"{100 * accuracy.low:+.1f} to {100 * accuracy.high:+.1f}) and in log loss of {-log_loss.mean:+.3f} "
            f"({-log_loss.high:+.3f} to {-log_loss.low:+.3f}), from {accuracy.n_domains} held-out domains."
        )
        return Decision(level, reason)

    def sentences(self) -> list[str]:
        """What to expect from some numbers of labels, before any label is collected; the points have the figures."""
        numbers: dict[str, list[str]] = {}
        for n in self.gains:
            decision = self.choose(n)
            advice = decision.reason if self.gain(n) is None else LEVELS[decision.level]
            numbers.setdefault(advice, []).append(str(n))
        return [
            *(advice if advice[-1] == "." else f"{', '.join(n)} labels: {advice}." for advice, n in numbers.items()),
            f"From {MIN_FEATURE_LABELS} labels on, effects of features are added where cross-validation on the labels "
            "shows a gain.",
        ]

    def summary(self) -> dict[str, Any]:
        """The curve in plain values, for figures: the gains at each number of labels."""
        points = []
        for n in self.gains:
            gains = {metric: self.gain(n, metric) for metric in METRICS}
            ends = {
                metric: gain and {"mean": gain.mean, "low": gain.low, "high": gain.high}
                for metric, gain in gains.items()
            }
            points.append({"labels": n, **ends})
        curve = {"level": OFFSETS, "name": LEVELS[OFFSETS], "points": points}
        return {"curves": [curve], "domains": list(self.domains), "sentences": self.sentences()}


# Hyperpriors of the standard deviations: log-normal with these medians and a factor of e. They count about as much as
# one domain, and decide if there are very few domains.
HYPERPRIOR = {
    OffsetPrior(offset**2, scale**2): -0.5 * math.log(offset / 0.4) ** 2 - 0.5 * math.log(scale / 0.15) ** 2
    for offset in (0.1, 0.2, 0.4, 0.8, 1.6)
    for scale in (0.05, 0.1, 0.2, 0.4)
}


def simulate_adaptation(
    domains: Sequence[HeldOutDomain], prior_ratio: Array | None = None, sizes: Sequence[int] = SIZES
) -> AdaptationPlan:
    """Simulate class offsets and temperature on held-out domains.

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
    evidence = [[log_evidence(P, codes, prior) for prior in HYPERPRIOR] for _, P, codes in domains]
    n_draws = int(np.clip(TOTAL_DRAWS // max(m, 1), *DRAWS))
    gains = {n: {metric: np.full((m, n_draws), np.nan) for metric in METRICS} for n in sizes}
    for k, domain in enumerate(domains):
        prior = _best_prior([*evidence[:k], *evidence[k + 1 :]])
        for n, by_metric in gains.items():
            if len(domain.codes) - n < MIN_TEST_ROWS:
                continue
            for draw in range(n_draws):
                labeled = rng.permutation(len(domain.codes))[:n]
                adjustment = fit_adjustment(domain.probabilities[labeled], domain.codes[labeled], prior)
                adapted = adjustment.apply(domain.probabilities)
                for metric, gain in score_gains(domain, adapted, labeled, prior_ratio).items():
                    by_metric[metric][k, draw] = gain
    return AdaptationPlan(tuple(domain.name for domain in domains), gains, _best_prior(evidence))


def _best_prior(evidence: Sequence[Sequence[float]]) -> OffsetPrior:
    """The prior with the largest product of marginal likelihood, over domains, and hyperprior."""
    totals = np.sum([*evidence, list(HYPERPRIOR.values())], axis=0)
    return list(HYPERPRIOR)[int(np.argmax(totals))]


def score_gains(
    domain: HeldOutDomain, adapted: Array, labeled: Ints, prior_ratio: Array | None = None
) -> dict[str, float]:
    """Gains of adapted probabilities (n, C) on the rows that were not labeled, over the model as it is.

    Decisions follow the class balance of training.
    """
    test = np.setdiff1d(np.arange(len(domain.codes)), labeled)
    codes = domain.codes[test]
    ratio = 1.0 if prior_ratio is None else prior_ratio

    def score(P: Array) -> Array:
        is_hit = (P / ratio).argmax(axis=1) == codes
        return np.array([log_probabilities(true_class_values(P, codes)).mean(), np.mean(is_hit)])

    return dict(zip(METRICS, (score(adapted[test]) - score(domain.probabilities[test])).tolist(), strict=True))


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
    ensemble: EnsembleClassifier,
    X: Any,
    y: Any,
    *,
    level: str = "auto",
    source: Samples | None = None,
    balance: Balance = "none",
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
    level : {"auto", "none", "offsets", "features", "refit"}, default="auto"
        Level of adaptation. "auto" selects "offsets" if they are unlikely to harm in a simulation on source domains,
        and "features" if these are better in cross-validation on at least 25 labels.
    source : Samples, default=None
        The source domains, prepared as the members receive them, which "refit" needs.
    balance : {"none", "classes", "domains"}, default="none"
        What had equal weight in training, for "refit".

    Returns
    -------
    adapted : EnsembleClassifier
        The adapted ensemble; the same object if nothing was changed.
    description : dict
        How it was adapted, in plain values: `level`, `reason`, number of `labels`, class `offsets` at the mean of the
        labeled samples and `scale` of the logits, and `notices`.
    """
    if level != "auto" and level not in LEVELS:
        raise ValueError(f"level={level!r} is not 'auto' or one of {', '.join(map(repr, LEVELS))}.")
    if level == REFIT and source is None:
        raise ValueError("level='refit' is not possible: it needs the source data. Pass the training table as source.")
    if level != REFIT and source is not None:
        raise ValueError(f"level={level!r} does not use source. Leave source out, or use level='refit'.")
    rows, codes = encode_labels(y, ensemble.classes_)
    n = len(codes)
    notices = []
    if n < len(y):
        notices.append(f"{len(y) - n:,} of {len(y):,} rows have no label; they are not used to fit the adaptation.")
    if level not in ("auto", AS_IS) and n < 2:
        raise ValueError(f"level={level!r} needs at least 2 labels; got {n}. Use level='none'.")
    decision = Decision(level, f"{LEVELS.get(level, level).capitalize()}, as requested.")
    adapted = ensemble
    adjustment = None
    with ignore_expected_warnings(), single_thread():
        if source is not None:
            adapted = _refit(ensemble, source, _safe_indexing(X, rows), codes, balance)
        elif level != AS_IS:
            features = ensemble.prepared_features(_safe_indexing(X, rows))
            features = features.toarray() if sparse.issparse(features) else np.asarray(features, dtype=np.float64)
            decision, adjustment = _fit_level(ensemble, X, rows, features, codes, decision)
    named_offsets = None
    if adjustment is not None:
        adapted = ensemble.with_offsets(*adjustment)
        offsets = adjustment.offsets
        if adjustment.effects is not None:
            offsets = offsets + features.mean(axis=0) @ adjustment.effects
        named_offsets = dict(zip(map(str, ensemble.classes_), offsets.tolist(), strict=True))
    return adapted, {
        "level": decision.level,
        "reason": decision.reason,
        "labels": n,
        "offsets": named_offsets,
        "scale": 1.0 if adjustment is None else adjustment.scale,
        "notices": notices,
    }


def _fit_level(
    ensemble: EnsembleClassifier, X: Any, rows: Ints, features: Array, codes: Ints, decision: Decision
) -> tuple[Decision, Adjustment | None]:
    """Fit class offsets, and effects of features if these are requested or better in cross-validation.

    `features` and `codes` are those of the labeled `rows` of `X`.
    """
    n = len(codes)
    requested = decision.level
    plan = plan_adaptation(ensemble, n)
    if requested == "auto":
        decision = plan.choose(n)
    tests_features = requested == FEATURES or (requested == "auto" and n >= MIN_FEATURE_LABELS)
    if decision.level == AS_IS and not tests_features:
        return decision, None
    P = ensemble.predict_proba(X)[rows]
    if tests_features:
        feature_std, gains = cross_validate_features(P, codes, plan.prior, features)
        if requested == FEATURES or gains.mean() > standard_error(gains):
            comparison = "" if gains.mean() > 0 else ", which is worse than class offsets alone"
            reason = (
                f"With {n} labels: {LEVELS[FEATURES]}. In cross-validation on the labels, effects of features change "
                f"the log loss by {-gains.mean():+.3f}{comparison}."
            )
            return Decision(FEATURES, reason), fit_adjustment(P, codes, plan.prior, features, feature_std)
    return decision, None if decision.level == AS_IS else fit_adjustment(P, codes, plan.prior)


def encode_labels(y: Any, classes: Labels) -> tuple[Ints, Ints]:
    """Positions of labeled samples, and positions of their classes; ValueError for unknown classes or no label."""
    values = np.asarray(y, dtype=object).tolist()
    rows = [i for i, value in enumerate(values) if value is not None and value == value]
    if not rows:
        raise ValueError("y contains no label. Pass the classes of some rows of the new domain.")
    positions = {label: i for i, label in enumerate(classes.tolist())}
    unknown = sorted({str(values[i]) for i in rows if values[i] not in positions})
    if unknown:
        raise ValueError(
            f"y contains classes that the model was not trained on: {format_list(unknown, 5)}. Its classes are "
            f"{format_list(classes.tolist(), 10)}. Correct these labels, or leave these rows out."
        )
    return np.array(rows), np.array([positions[values[i]] for i in rows])


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
    return copy(ensemble).fit(X_all, y_all, sample_domain=domain_all, sample_weight=weights)
