"""Adaptation of a fitted ensemble to a few labels of a new domain."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from ..adaptation import (
    AS_IS,
    LEVELS,
    METRICS,
    MIN_TEST_ROWS,
    OFFSETS,
    REFIT,
    AdaptationPlan,
    Decision,
    HeldOutDomain,
    fit_offsets,
    score_gains,
    simulate_adaptation,
)
from ..linalg import Ints
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels, format_list
from ._candidate import ignore_expected_warnings
from ._ensemble import EnsembleClassifier
from ._evaluation import single_thread

# A refit gives the rows of the new domain the weight of an average source domain, but no row more than this.
MAX_SITE_WEIGHT = 20.0
MAX_REFIT_DOMAINS = 6  # source domains on which a refit is simulated
MAX_REFIT_ROWS = 4_000  # source rows of this simulation


@dataclass(frozen=True)
class SourceData:
    """The source domains, prepared as the members of the ensemble receive them, for a refit."""

    samples: Samples
    balance: Balance = "none"


def plan_adaptation(ensemble: EnsembleClassifier) -> AdaptationPlan:
    """Expected gains of adaptation, simulated on the out-of-domain predictions that an ensemble keeps."""
    domains = [HeldOutDomain(*domain) for domain in ensemble.held_out or ()]
    with single_thread():
        return simulate_adaptation(domains, ensemble.prior_ratio)


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
    plan = plan_adaptation(ensemble)
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
            (offsets,), (scale,) = fit_offsets(P[None], codes[None], plan.prior)
            adapted = ensemble.with_offsets(offsets, float(scale))
    names = map(str, ensemble.classes_)
    return adapted, {
        "level": decision.level,
        "reason": decision.reason,
        "labels": len(codes),
        "offsets": None if offsets is None else dict(zip(names, offsets.tolist(), strict=True)),
        "scale": float(scale),
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
            adapted = after.predict_proba(X)[None]
            for metric, values in score_gains(part, adapted, labeled[None], ensemble.prior_ratio).items():
                gains[metric][k] = values
    return plan.with_refit(n_labels, gains)
