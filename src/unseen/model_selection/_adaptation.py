"""Adaptation of a fitted ensemble to a few labels of a new domain."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from ..adaptation import (
    AS_IS,
    FEATURES,
    LEVEL_NAMES,
    LEVELS,
    LOCAL,
    MAX_ROWS,
    METRICS,
    MIN_TEST_ROWS,
    REFIT,
    WEIGHTS,
    AdaptationPlan,
    Decision,
    HeldOutDomain,
    check_level,
    fit_feature_effects,
    fit_offsets,
    make_local_model,
    score_gains,
    simulate_adaptation,
    update_weights,
)
from ..linalg import Ints
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels, format_list
from ._calibration import adjust_priors, softmax, true_class_values
from ._candidate import ignore_expected_warnings
from ._ensemble import EnsembleClassifier
from ._ensemble_selection import FittedEnsemble, OutOfDomainPredictions, prepare_part
from ._evaluation import single_thread

# A refit gives the rows of the new domain the weight of an average source domain, but no row more than this.
MAX_SITE_WEIGHT = 20.0
MAX_REFIT_DOMAINS = 6  # source domains on which a refit is simulated
MAX_REFIT_ROWS = 4_000  # source rows of this simulation


@dataclass(frozen=True)
class AdaptedEnsemble:
    """An ensemble for a new domain, and how it was adapted.

    Attributes
    ----------
    ensemble : EnsembleClassifier
        The adapted ensemble; the same object if nothing was changed.
    level : str
        The level that was used.
    reason : str
        Why it was used.
    n_labels : int
        Number of labels.
    notices : list of str
        What was not possible, and what that would need.
    """

    ensemble: EnsembleClassifier
    level: str
    reason: str
    n_labels: int
    notices: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the card of a model."""
        ensemble = self.ensemble
        offsets = ensemble.class_offsets
        return {
            "level": self.level,
            "reason": self.reason,
            "labels": self.n_labels,
            "offsets": None
            if offsets is None
            else dict(zip(map(str, ensemble.classes_), offsets.tolist(), strict=True)),
            "scale": ensemble.logit_scale,
            "notices": self.notices,
        }


@dataclass(frozen=True)
class SourceData:
    """The source domains, prepared as the members of the ensemble receive them, for a refit."""

    samples: Samples
    balance: Balance = "none"


def plan_adaptation(
    predictions: OutOfDomainPredictions, ensemble: FittedEnsemble, preparation: Any = None
) -> AdaptationPlan:
    """Simulate the adaptation of an ensemble on its out-of-domain predictions.

    Parameters
    ----------
    predictions : OutOfDomainPredictions
        Out-of-domain predictions of all candidates.
    ensemble : FittedEnsemble
        The ensemble that was fitted on them.
    preparation : transformer, default=None
        Preparation of features, for the local model.

    Returns
    -------
    plan : AdaptationPlan
        Expected gains of each level against the number of labels.
    """
    domains = []
    for k, (train, test) in enumerate(predictions.trials.natural):
        rows = np.arange(len(test))
        if len(test) > MAX_ROWS:
            rows = np.sort(np.random.default_rng(k).permutation(len(test))[:MAX_ROWS])
        ratio = predictions.samples.prior_ratio(train, predictions.balance)
        P = ensemble.held_out[k][rows]
        members = None
        weights = ensemble.held_out_weights[k]
        positions = np.flatnonzero(weights > 0)
        if len(positions) > 1 and not ensemble.smoothing:
            betas = predictions.fold_inverse_temperatures[predictions.folds.predicted_by[k]]
            scores = [predictions.decision_scores[int(j), k][rows] for j in positions]
            members = np.array([softmax(S, betas[j]) for S, j in zip(scores, positions, strict=True)])
        X: Any = None
        if not sparse.issparse(predictions.samples.X):
            X = np.asarray(prepare_part(predictions.samples, (train, test[rows]), preparation))
        domains.append(
            HeldOutDomain(
                name=str(predictions.samples.domain[test[0]]),
                probabilities=P if ratio is None else adjust_priors(P, ratio),
                codes=predictions.codes[k][rows],
                members=members,
                weights=weights[positions] if members is not None else None,
                inverse_temperature=ensemble.held_out_calibrations[k].slope,
                calibration_offsets=ensemble.held_out_calibrations[k].offsets,
                prior_ratio=ratio,
                features=X,
            )
        )
    return simulate_adaptation(domains)


def adapt_ensemble(
    ensemble: EnsembleClassifier,
    X: Any,
    y: Any,
    plan: AdaptationPlan | None,
    *,
    level: str = "auto",
    source: SourceData | None = None,
) -> AdaptedEnsemble:
    """Adapt an ensemble to the labels of one new domain.

    Parameters
    ----------
    ensemble : EnsembleClassifier
        A fitted ensemble, which is not changed.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Samples of the new domain, as the ensemble receives them.
    y : ndarray of shape (n_samples,)
        Their classes; None or NaN where a label is missing. Samples without labels serve transductive members only.
    plan : AdaptationPlan or None
        Expected gains, which ``level="auto"`` needs.
    level : {"auto", "none", "offsets", "weights", "features", "refit", "local"}, default="auto"
        Level of adaptation; "auto" selects the one with the largest expected gain that is unlikely to harm.
    source : SourceData, default=None
        The source domains, which "refit" needs.

    Returns
    -------
    adapted : AdaptedEnsemble
        The adapted ensemble, the level and the reason.
    """
    check_level(level)
    if ensemble.class_offsets is not None:
        raise ValueError("This model was adapted already. Adapt the original model, with all labels together.")
    rows, codes = encode_labels(y, ensemble.classes_)
    notices = []
    n_missing = len(y) - len(rows)
    if n_missing:
        notices.append(f"{n_missing:,} of {len(y):,} rows have no label; they are not used to fit the adaptation.")
    available, missing = _available_levels(ensemble, X, codes, source)
    if level == "auto":
        if plan is None:
            raise ValueError(
                "level='auto' needs the simulation of adaptation that `fit` stores, and this model has none. Fit it "
                "again, or set level."
            )
        if REFIT in available:
            plan = _simulate_refit(ensemble, source, plan, len(codes))
        decision = plan.choose(len(codes), available)
        if REFIT in missing:
            notices.append(f"The level 'refit' was not considered: {missing[REFIT]}")
    else:
        if level in missing:
            raise ValueError(f"level={level!r} is not possible: {missing[level]}")
        decision = Decision(level, f"{LEVEL_NAMES[level].capitalize()}, as requested.")
        if level != AS_IS and len(codes) < 2:
            raise ValueError(f"level={level!r} needs at least 2 labels; got {len(codes)}. Use level='none'.")
    plan = AdaptationPlan.empty() if plan is None else plan
    with ignore_expected_warnings(), single_thread():
        adapted = _adapt(ensemble, X, rows, codes, plan, decision.level, source)
    return AdaptedEnsemble(adapted, decision.level, decision.reason, len(codes), notices)


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


def _available_levels(
    ensemble: EnsembleClassifier, X: Any, codes: Ints, source: SourceData | None
) -> tuple[list[str], dict[str, str]]:
    """Levels that are possible, and why the others are not."""
    missing = {}
    if len(ensemble.members_) == 1:
        missing[WEIGHTS] = "the model has one member, so there are no weights to update."
    elif ensemble.smoothing:
        missing[WEIGHTS] = "the model smooths predictions, which were not simulated with other weights."
    if source is None:
        missing[REFIT] = "it needs the source data. Pass the training table as source."
    if sparse.issparse(X):
        missing[FEATURES] = "feature effects need dense features."
    n_classes = len(np.unique(codes))
    if n_classes < len(ensemble.classes_):
        missing[LOCAL] = f"a local model needs labels of all {len(ensemble.classes_)} classes; got {n_classes}."
    elif sparse.issparse(X):
        missing[LOCAL] = "a local model needs dense features."
    levels = [level for level in LEVELS if level not in missing]
    return levels, missing


def _adapt(
    ensemble: EnsembleClassifier,
    X: Any,
    rows: Ints,
    codes: Ints,
    plan: AdaptationPlan,
    level: str,
    source: SourceData | None,
) -> EnsembleClassifier:
    """The ensemble at a level of adaptation."""
    if level == AS_IS:
        return ensemble
    if level == LOCAL:
        member = make_local_model().fit(ensemble.prepared_features(X)[rows], ensemble.classes_[codes])
        local = EnsembleClassifier(
            [make_local_model()], np.ones(1), np.ones(1), n_prepared_features=ensemble.n_prepared_features
        )
        return local.with_members([member])
    if level == REFIT:
        assert source is not None
        return _refit(ensemble, source.samples, _safe_indexing(X, rows), codes, source.balance)
    adapted = copy.copy(ensemble)
    ensemble.check_batches({None: X.shape[0]})
    scores = ensemble.member_scores(X)
    if level == WEIGHTS:
        q = true_class_values(ensemble.temper(scores)[:, rows], codes)
        adapted.weights = update_weights(q.T[None], ensemble.weights, plan.prior_rows)[0]
    P = adapted.with_natural_priors(adapted.combine_scores(scores, X))[rows]
    if level == FEATURES:
        effects = fit_feature_effects(P, ensemble.prepared_features(X)[rows], codes, plan.prior, plan.feature_std)
        adapted.class_offsets = effects.offsets
        adapted.logit_scale = effects.scale
        adapted.feature_weights = effects.weights
        return adapted
    offsets, scale = fit_offsets(P[None], codes[None], plan.prior)
    adapted.class_offsets = offsets[0]
    adapted.logit_scale = float(scale[0])
    return adapted


def _refit(ensemble: EnsembleClassifier, samples: Samples, X: Any, codes: Ints, balance: Balance) -> Any:
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
    ensemble: EnsembleClassifier, source: SourceData | None, plan: AdaptationPlan, n_labels: int
) -> AdaptationPlan:
    """The plan with the gain of a refit at this number of labels, by refitting without some source domains.

    The members are fitted without a domain, and again with some of its rows; weights and temperatures are those of the
    model. Offsets are simulated by the plan already.
    """
    assert source is not None
    rng = np.random.default_rng(0)
    samples = source.samples
    if len(samples) > MAX_REFIT_ROWS:
        samples = samples.take(samples.subsample_rows(MAX_REFIT_ROWS))
    domain = samples.domain.astype(str)
    gains = {metric: np.full(len(plan.domains), np.nan) for metric in METRICS}
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
            part = HeldOutDomain(plan.domains[k], before.predict_proba(X), codes, prior_ratio=ensemble.prior_ratio)
            for metric, values in score_gains(part, after.predict_proba(X)[None], labeled[None]).items():
                gains[metric][k] = values[0]
    return plan.with_level(REFIT, n_labels, gains)
