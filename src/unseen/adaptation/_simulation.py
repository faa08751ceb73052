"""Simulation of adaptation on source domains that are held out in turn.

The input are out-of-domain predictions of the members of an ensemble, so nothing is fitted to samples here, except for
the local model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from ..linalg import Array, Ints
from ._estimates import (
    MIN_PROBABILITY,
    OffsetPrior,
    apply_offsets,
    fit_feature_effects,
    fit_offsets,
    log_evidence,
    update_weights,
)
from ._plan import AS_IS, FEATURES, LOCAL, METRICS, OFFSETS, SIZES, WEIGHTS, AdaptationPlan

MAX_ROWS = 300  # of a domain in the simulation
MAX_EVIDENCE_ROWS = 200  # of a domain for the priors
MIN_TEST_ROWS = 20  # that are scored
MAX_SIMULATED_DOMAINS = 24  # at random, if there are more
DRAWS = (5, 12)  # fewest and most draws of labels from a domain
TOTAL_DRAWS = 100  # of all domains together, as far as the limits allow
# Levels that use features are fitted draw by draw, so they are simulated on few draws.
MAX_LOCAL_DOMAINS = 6
LOCAL_DRAWS = 2
MIN_LOCAL_LABELS = 10
MAX_LOCAL_FEATURES = 1_000
OFFSET_STDS = (0.1, 0.2, 0.4, 0.8, 1.6)
SCALE_STDS = (0.05, 0.1, 0.2, 0.4)
# Hyperpriors of the standard deviations: log-normal with these medians and a factor of e. They count about as much as
# one domain, and decide if there are very few domains.
OFFSET_STD_MEDIAN = 0.4
SCALE_STD_MEDIAN = 0.15
PRIOR_ROWS = (25.0, 100.0)
FEATURE_STDS = (2.0, 0.5)
N_DECIMALS = 7  # of simulated gains, which model cards store


@dataclass(frozen=True, eq=False)
class HeldOutDomain:
    """Out-of-domain predictions for one source domain, by a model that was fitted without it.

    Attributes
    ----------
    name : str
        Name of the domain.
    probabilities : ndarray of shape (n, C)
        Predictions under the natural class frequencies.
    codes : ndarray of shape (n,)
        Positions of the true classes.
    members : ndarray of shape (J, n, C) or None
        Probabilities of the members; None if weights cannot be updated, as with one member or with smoothing.
    weights : ndarray of shape (J,) or None
        Weights of the members.
    inverse_temperature : float
        Applied to the weighted mean of the members.
    calibration_offsets : ndarray of shape (C,) or None
        Class offsets that are added to its log-probabilities.
    prior_ratio : ndarray of shape (C,) or None
        Natural class frequencies over those of training, if classes were balanced.
    features : ndarray of shape (n, d) or None
        Prepared features, for the local model.
    """

    name: str
    probabilities: Array
    codes: Ints
    members: Array | None = None
    weights: Array | None = None
    inverse_temperature: float = 1.0
    calibration_offsets: Array | None = None
    prior_ratio: Array | None = None
    features: Array | None = None

    def take(self, rows: Ints) -> HeldOutDomain:
        """The same with some of the rows."""
        return replace(
            self,
            probabilities=self.probabilities[rows],
            codes=self.codes[rows],
            members=None if self.members is None else self.members[:, rows],
            features=None if self.features is None else self.features[rows],
        )


def make_local_model() -> Pipeline:
    """Logistic regression of standardized features, for the labels of the new domain alone."""
    steps = [("scaler", StandardScaler()), ("classifier", LogisticRegression(max_iter=500))]
    return Pipeline(steps)


def mix_members(
    members: Array,
    weights: Array,
    inverse_temperature: float = 1.0,
    prior_ratio: Array | None = None,
    calibration_offsets: Array | None = None,
) -> Array:
    """Probabilities (B, n, C) of opinion pools with weights (B, J), after a calibration and a change of priors."""
    mixed = np.tensordot(weights, members, axes=1)
    if inverse_temperature == 1.0 and prior_ratio is None and calibration_offsets is None:
        return mixed
    offsets = np.zeros(members.shape[2]) if calibration_offsets is None else calibration_offsets
    offsets = offsets if prior_ratio is None else offsets + np.log(prior_ratio)
    scales = np.full(len(weights), inverse_temperature)
    return apply_offsets(mixed, np.broadcast_to(offsets, (len(weights), len(offsets))), scales)


def simulate_adaptation(domains: Sequence[HeldOutDomain], *, seed: int = 0) -> AdaptationPlan:
    """Simulate the levels of adaptation that need no refit on held-out domains.

    Parameters
    ----------
    domains : sequence of HeldOutDomain
        Out-of-domain predictions.
    seed : int, default=0
        Seed of the draws.

    Returns
    -------
    plan : AdaptationPlan
        Gains by level, number of labels and domain, and the priors for adapting the deployed model.
    """
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(domains))[:MAX_SIMULATED_DOMAINS]).tolist()
    parts = [_limit_rows(domains[k], MAX_ROWS, rng) for k in chosen]
    m = len(parts)
    evidence = np.array([_prior_evidence(_limit_rows(part, MAX_EVIDENCE_ROWS, rng)) for part in parts]).reshape(m, -1)
    settings: dict[str, tuple[float, ...]] = {OFFSETS: (0.0,)}
    if all(part.members is not None for part in parts):
        settings[WEIGHTS] = PRIOR_ROWS
    if all(part.features is not None and part.features.shape[1] <= MAX_LOCAL_FEATURES for part in parts):
        settings[FEATURES] = FEATURE_STDS
        settings[LOCAL] = (0.0,)
    variants = [(level, setting) for level, values in settings.items() for setting in values]
    # For each variant and metric: the mean gain over draws of labels, and its variance, by number of labels and domain.
    scores = np.full((len(variants), len(METRICS), 2, len(SIZES), m), np.nan)
    n_draws = int(np.clip(TOTAL_DRAWS // max(m, 1), *DRAWS))
    local_domains = set(rng.permutation(m)[:MAX_LOCAL_DOMAINS].tolist())
    for k, part in enumerate(parts):
        prior = _best_prior(np.delete(evidence, k, axis=0))
        for s, n in enumerate(SIZES):
            if len(part.codes) - n < MIN_TEST_ROWS:
                continue
            rows = np.array([rng.permutation(len(part.codes))[:n] for _ in range(n_draws)])
            for v, (level, setting) in enumerate(variants):
                labeled = rows
                if level in (FEATURES, LOCAL):
                    if k not in local_domains or n < MIN_LOCAL_LABELS:
                        continue
                    labeled = rows[:LOCAL_DRAWS]
                plan = AdaptationPlan.empty(prior=prior, prior_rows=setting, feature_std=setting)
                gains = score_gains(part, adapt_probabilities(part, labeled, plan, level), labeled)
                for i, metric in enumerate(METRICS):
                    scores[v, i, :, s, k] = gains[metric].mean(), gains[metric].var(ddof=1)
    # The setting that is applied to a domain is the one that gains most on the others.
    best = {}
    applied = np.empty((len(settings), *scores.shape[1:]))
    for position, (level, values) in enumerate(settings.items()):
        own = scores[[v for v, variant in enumerate(variants) if variant[0] == level]]
        log_loss = own[:, METRICS.index("log_loss"), 0]
        best[level] = values[_best_setting(log_loss)]
        for k in range(m):
            applied[position, ..., k] = own[_best_setting(np.delete(log_loss, k, axis=2)), ..., k]
    means = {metric: applied[:, i, 0] for i, metric in enumerate(METRICS)}
    variances = {metric: _mean_over_domains(applied[:, i, 1]) for i, metric in enumerate(METRICS)}
    defaults = AdaptationPlan.empty()
    return AdaptationPlan(
        levels=tuple(settings),
        sizes=SIZES,
        domains=tuple(part.name for part in parts),
        gains={metric: values.round(N_DECIMALS) for metric, values in means.items()},
        draw_variances={metric: values.round(N_DECIMALS) for metric, values in variances.items()},
        prior=_best_prior(evidence),
        prior_rows=best.get(WEIGHTS, defaults.prior_rows),
        feature_std=best.get(FEATURES, defaults.feature_std),
    )


def adapt_probabilities(part: HeldOutDomain, rows: Ints, plan: AdaptationPlan, level: str) -> Array:
    """Probabilities (B, n, C) of all rows of a domain after adaptation to each set of labeled rows (B, n_labels).

    The level is any but a refit. Where a class has no label, a local model is not possible and nothing changes.
    """
    P = np.broadcast_to(part.probabilities, (len(rows), *part.probabilities.shape))
    if level == AS_IS:
        return P
    if level in (FEATURES, LOCAL):
        return np.array([_adapt_with_features(part, labeled, plan, level) for labeled in rows])
    if level == WEIGHTS:
        assert part.members is not None
        assert part.weights is not None
        q = part.members[:, np.arange(len(part.codes)), part.codes].T
        weights = update_weights(q[rows], part.weights, plan.prior_rows)
        P = mix_members(part.members, weights, part.inverse_temperature, part.prior_ratio, part.calibration_offsets)
    labeled_P = np.take_along_axis(P, rows[:, :, None], axis=1)
    offsets, scale = fit_offsets(labeled_P, part.codes[rows], plan.prior)
    return apply_offsets(P, offsets, scale)


def _adapt_with_features(part: HeldOutDomain, labeled: Ints, plan: AdaptationPlan, level: str) -> Array:
    """The same for one set of labeled rows and a level that uses features."""
    P = part.probabilities
    X: Any = part.features
    codes = part.codes[labeled]
    if level == FEATURES:
        return fit_feature_effects(P[labeled], X[labeled], codes, plan.prior, plan.feature_std).apply(P, X)
    if len(np.unique(codes)) < P.shape[1]:
        return P
    return np.asarray(make_local_model().fit(X[labeled], codes).predict_proba(X))


def _limit_rows(part: HeldOutDomain, max_rows: int, rng: np.random.Generator) -> HeldOutDomain:
    n = len(part.codes)
    return part if n <= max_rows else part.take(np.sort(rng.permutation(n)[:max_rows]))


def _priors() -> list[OffsetPrior]:
    return [OffsetPrior(offset**2, scale**2) for offset in OFFSET_STDS for scale in SCALE_STDS]


def _prior_evidence(part: HeldOutDomain) -> Array:
    return log_evidence(part.probabilities, part.codes, _priors())


def _best_prior(evidence: Array) -> OffsetPrior:
    """The prior with the largest product of marginal likelihood, over domains, and hyperprior."""
    offset_stds = np.repeat(OFFSET_STDS, len(SCALE_STDS))
    scale_stds = np.tile(SCALE_STDS, len(OFFSET_STDS))
    hyperprior = -0.5 * np.log(offset_stds / OFFSET_STD_MEDIAN) ** 2
    hyperprior -= 0.5 * np.log(scale_stds / SCALE_STD_MEDIAN) ** 2
    return _priors()[int(np.argmax(evidence.sum(axis=0) + hyperprior))]


def _best_setting(gains: Array) -> int:
    """Position of the setting with the largest mean gain over numbers of labels and domains; the last without any."""
    means = [np.nanmean(gain) if np.isfinite(gain).any() else -np.inf for gain in gains]
    return int(np.argmax(means)) if np.isfinite(means).any() else len(means) - 1


def _mean_over_domains(variances: Array) -> Array:
    """Mean over the last axis; 0 where there are no values."""
    count = np.isfinite(variances).sum(axis=-1)
    return np.nansum(variances, axis=-1) / np.maximum(count, 1)


def score_gains(part: HeldOutDomain, adapted: Array, rows: Ints) -> dict[str, Array]:
    """Gains (B,) over the model as it is on the rows that were not labeled."""
    n = len(part.codes)
    is_test = np.ones((len(rows), n), dtype=bool)
    np.put_along_axis(is_test, rows, False, axis=1)
    share = is_test / is_test.sum(axis=1, keepdims=True)
    before_loss, before_hits = _row_scores(part, part.probabilities[None])
    after_loss, after_hits = _row_scores(part, adapted)
    return {
        "log_loss": np.sum(share * (before_loss - after_loss), axis=1),
        "accuracy": np.sum(share * (after_hits - before_hits), axis=1),
    }


def _row_scores(part: HeldOutDomain, P: Array) -> tuple[Array, Array]:
    """Log loss and hits (B, n) of the rows; labels follow the class balance of training."""
    p_true = P[:, np.arange(len(part.codes)), part.codes]
    decisions = P if part.prior_ratio is None else P / part.prior_ratio
    hits = (decisions.argmax(axis=2) == part.codes).astype(float)
    return -np.log(np.maximum(p_true, MIN_PROBABILITY)), hits
