"""Discriminant models from the statistics of sites: of every setting, on all sites and without each of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from ..estimators import Statistics, fit_from_statistics
from ..exceptions import DataWarning, FewerComponentsWarning, ignore_warnings, warn
from ..linalg import Array, Ints, cell_within_contrast, pooled_class_means
from ..model_selection import EnsembleClassifier
from ..models import Model, TableModel
from ..shift import Novelty
from ..tables import format_count
from ..utils.jobs import environment_info
from ..utils.validation import format_list
from ._files import ExchangeError, Record, check_different_sites
from ._plan import Setting, StudyPlan
from ._statistics import SiteStatistics, novelty_points

EXCHANGE = "exchange"  # entry of the model card with the models of all settings
MIN_SITES = 3  # with one of two sites left out, there is one site to learn from, and no difference between sites


@dataclass(frozen=True)
class Discriminant:
    """A linear discriminant of components: log odds of classes that are linear in the features of a plan.

    Attributes
    ----------
    codes : ndarray of shape (n_present_classes,)
        Positions of the classes that it knows, among the classes of the plan.
    weights : ndarray of shape (n_features, n_present_classes)
        Weights of the features; those of the first class are 0.
    intercepts : ndarray of shape (n_present_classes,)
        Intercepts.
    """

    codes: Ints
    weights: Array
    intercepts: Array

    @classmethod
    def from_statistics(cls, plan: StudyPlan, setting: Setting, statistics: Statistics) -> Discriminant:
        """Fit the projection of a setting and a linear discriminant of its components."""
        projection = plan.make_projection(setting)
        with ignore_warnings(FewerComponentsWarning):
            fit_from_statistics(projection, statistics, plan.preprocessor.n_features_in_)
        cells = statistics.cells
        counts = cells.counts
        components = (cells.means[counts.ravel() > 0] - cells.mean) @ projection.coef_
        between_cells = cell_within_contrast(counts).T @ components
        within = projection.coef_.T @ cells.inside @ projection.coef_ + between_cells.T @ between_cells
        class_means = pooled_class_means(counts) @ components
        class_sizes = counts.sum(axis=0)
        # As LinearDiscriminantAnalysis(solver="lsqr") of scikit-learn computes it from rows.
        slopes = np.linalg.lstsq(within / class_sizes.sum(), class_means.T, rcond=None)[0]
        intercepts = np.log(class_sizes / class_sizes.sum()) - 0.5 * np.einsum("ij,ji->i", class_means, slopes)
        weights = projection.coef_ @ slopes
        intercepts = intercepts - cells.mean @ weights
        codes = np.searchsorted(plan.classes, statistics.classes)
        return cls(codes, weights - weights[:, :1], intercepts - intercepts[0])

    @classmethod
    def from_record(cls, record: Record, plan: StudyPlan) -> Discriminant:
        """Check a model that was read from a file."""
        codes = np.array([int(code) for code in record.array("classes", len(record.entries("classes")))])
        is_valid = len(codes) >= 2 and (np.diff(codes) > 0).all() and codes[0] >= 0 and codes[-1] < len(plan.classes)
        if not is_valid:
            record.fail("classes", "at least 2 positions of classes in increasing order are expected", codes.tolist())
        shape = len(codes), plan.n_features
        return cls(codes, record.array("weights", *shape).T, record.array("intercepts", len(codes)))

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {
            "classes": self.codes.tolist(),
            "intercepts": self.intercepts.tolist(),
            "weights": self.weights.T.tolist(),
        }

    def predict_proba(self, features: Array, n_classes: int) -> Array:
        """Return probabilities of all classes of a plan; a class that the model does not know has 0."""
        scores = features @ self.weights + self.intercepts
        likelihoods = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities = np.zeros((len(features), n_classes))
        probabilities[:, self.codes] = likelihoods / likelihoods.sum(axis=1, keepdims=True)
        return probabilities


@dataclass(frozen=True)
class StudyModels:
    """The models of a study: for each setting one of all sites, and one without each site.

    Attributes
    ----------
    plan : StudyPlan
        The plan.
    sites : tuple of str
        The sites.
    models : dict
        By setting and by the site that was left out; None for the model of all sites.
    """

    plan: StudyPlan
    sites: tuple[str, ...]
    models: Mapping[Setting, Mapping[str | None, Discriminant]]

    @classmethod
    def from_model(cls, model: Model) -> StudyModels | None:
        """Read the models from the card of a model; None if it has none."""
        if EXCHANGE not in model.card:
            return None
        record = Record(model.card[EXCHANGE], model.name, EXCHANGE)
        plan = StudyPlan.from_record(record.record("plan"))
        sites = tuple(record.texts("sites"))
        by_name = {setting.name: setting for setting in plan.settings}
        models = {}
        for entry in record.records("models"):
            name = entry.text("setting")
            if name not in by_name:
                entry.fail("setting", "is not a setting of the plan", name)
            fits = [Discriminant.from_record(fit, plan) for fit in entry.records("fits")]
            if len(fits) != len(sites) + 1:
                entry.fail("fits", f"{len(sites) + 1} models are expected: of all sites, and without each")
            models[by_name[name]] = dict(zip([None, *sites], fits, strict=True))
        return cls(plan, sites, models) if models else None

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
        models = [
            {"setting": setting.name, "fits": [fit.to_dict() for fit in fits.values()]}
            for setting, fits in self.models.items()
        ]
        return {"plan": self.plan.content, "sites": list(self.sites), "models": models}

    def unseen_by(self, site: str) -> Iterator[tuple[Setting, Discriminant]]:
        """Iterate over the models that were fitted without a site; of all sites for one that took no part."""
        for setting, fits in self.models.items():
            yield setting, fits[site if site in self.sites else None]


def identify(model: Model) -> str:
    """Return a checksum by which results of the same model are recognized."""
    if EXCHANGE in model.card:
        return hashlib.sha256(json.dumps(model.card[EXCHANGE], sort_keys=True).encode()).hexdigest()
    return str((model.card.get("payload") or {}).get("sha256", ""))


def fit_statistics(files: Sequence[SiteStatistics | str | os.PathLike[str]]) -> Model:
    """Fit the models of a study from the statistics of its sites, without their rows.

    For every setting of the plan there is a model of all sites and one without each site, whose statistics are those of
    all sites less those of the site. Fitting again with one more file adds a site.

    Parameters
    ----------
    files : sequence of SiteStatistics, str or path
        Statistics of at least 3 sites, with the same plan.

    Returns
    -------
    model : unseen.models.Model
        Predicts with the first setting of the plan, until :func:`~unseen.exchange.combine` has selected one. Its card
        holds the models without each site, which the sites evaluate by :func:`~unseen.exchange.score_site`.

    Examples
    --------
    >>> import tomllib
    >>> from unseen.datasets import load_hospitals
    >>> from unseen.exchange import aggregate, draft_plan, fit_statistics, load_plan
    >>> hospitals, _ = load_hospitals()
    >>> rows = {name: hospitals.filter(hospital=name).drop("hospital") for name in ("bonn", "essen", "kiel")}
    >>> plan = load_plan(tomllib.loads(draft_plan(rows["bonn"], label="diagnosis")))
    >>> model = fit_statistics([aggregate(own, plan, site=name) for name, own in rows.items()])
    >>> model.predict(rows["bonn"][:3]).shape, len(model.card["exchange"]["models"])
    ((3,), 8)
    """
    sites = [entry if isinstance(entry, SiteStatistics) else SiteStatistics.load(entry) for entry in files]
    names = [site.site for site in sites]
    if len(sites) < MIN_SITES:
        raise ExchangeError(
            f"Models that leave out each site need at least {MIN_SITES} sites; there are {len(sites)}: "
            f"{format_list(names)}."
        )
    check_different_sites((site.site, site.source) for site in sites)
    sites.sort(key=lambda site: site.site)
    plan = sites[0].plan
    for site in sites:
        if site.plan.content != plan.content:
            raise ExchangeError(
                f"{site.source}: follows another plan than {sites[0].source}. Send both sites the same plan, and "
                "aggregate again."
            )
    total = sites[0].statistics
    for site in sites[1:]:
        total = total + site.statistics
    parts = {None: total} | {site.site: total - site.statistics for site in sites}
    if len(total.classes) < 2:
        raise ExchangeError(f"All sites have the class {total.classes.tolist()[0]!r} only; at least 2 are needed.")
    models: dict[Setting, dict[str | None, Discriminant]] = {}
    reasons = []
    for setting in plan.settings:
        try:
            fits = {left_out: Discriminant.from_statistics(plan, setting, part) for left_out, part in parts.items()}
        except (ValueError, np.linalg.LinAlgError) as error:
            reasons.append(f"{setting.name} could not be fitted: {error}")
            continue
        if all(np.isfinite(fit.weights).all() for fit in fits.values()):
            models[setting] = fits
        else:
            reasons.append(f"{setting.name} could not be fitted: its weights are not finite")
    if not models:
        raise ExchangeError(f"No setting could be fitted. {reasons[0]}")
    for reason in reasons:
        warn(reason, DataWarning)
    study = StudyModels(plan, tuple(site.site for site in sites), models)
    return _make_model(study, sites)


def _make_model(study: StudyModels, sites: Sequence[SiteStatistics]) -> Model:
    plan = study.plan
    directions, knots = novelty_points(plan)
    counts = np.array([site.class_counts for site in sites])
    novelty = Novelty.from_moments(
        directions,
        knots,
        np.array(study.sites),
        counts.sum(axis=1),
        [(site.embedding.means[0], site.embedding.inside) for site in sites],
    )
    left_out = [f"{site.site}: left out {text}." for site in sites for text in site.left_out]
    classes = zip(plan.classes.tolist(), counts.sum(axis=0).tolist(), strict=True)
    card = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": "unseen.exchange.fit_statistics(...)",
        "data": {
            "name": plan.name,
            "rows": int(counts.sum()),
            "features": len(plan.schema.columns),
            "domains": dict(zip(study.sites, counts.sum(axis=1).tolist(), strict=True)),
            "classes": [{"class": name, "rows": rows} for name, rows in classes],
            "notices": [
                f"Fitted from statistics of {format_count(len(sites), 'site')}, without their rows.",
                *left_out,
            ],
        },
        "schema": plan.schema.to_dict(),
        "kind": "plain",
        "scale": "standardize",
        "balance": "none",
        "novelty": {
            "reference": dict(zip(study.sites, novelty.reference_.tolist(), strict=True)),
            "resolution": novelty.resolution_,
        },
        "machine": environment_info(),
        EXCHANGE: study.to_dict(),
    }
    return with_setting(Model(TableModel(plan.preprocessor, None, novelty), card), study, next(iter(study.models)))  # type: ignore[arg-type]


def with_setting(model: Model, study: StudyModels, setting: Setting) -> Model:
    """Return the model of all sites with one of the settings."""
    fit = study.models[setting][None]
    plan = study.plan
    classifier = LogisticRegression()  # whose predictions are those of any log odds that are linear in the features
    classifier.classes_ = plan.classes[fit.codes]
    is_binary = len(fit.codes) == 2
    classifier.coef_ = fit.weights.T[1:].copy() if is_binary else fit.weights.T.copy()
    classifier.intercept_ = fit.intercepts[1:].copy() if is_binary else fit.intercepts.copy()
    classifier.n_features_in_ = plan.n_features
    classifier.n_iter_ = np.ones(1, dtype=np.int32)
    steps: list[tuple[str, Any]] = [("classifier", classifier)]
    if plan.random_features is not None:
        steps.insert(0, ("features", plan.random_features))
    member = Pipeline(steps)
    ensemble = EnsembleClassifier([member], np.ones(1), np.ones(1)).with_members([member])
    table_model = model.table_model
    positive = None
    if is_binary:
        positive = int(np.flatnonzero(classifier.classes_ == plan.positive)[0])
    table_model = TableModel(
        table_model.preprocessor,
        ensemble,
        table_model.novelty,
        threshold=None if positive is None else plan.threshold,
        positive_code=1 if positive is None else positive,
    )
    card = {
        **model.card,
        "model": f"{setting.method} and a linear discriminant",
        "method": setting.method,
        "settings": dict(setting.parameters),
        "ensemble": {"members": [{"model": setting.method, "weight": 1.0, "kind": "plain"}], "decisions": []},
        "threshold": {
            "value": plan.threshold,
            "text": f"Rows with a probability of {plan.positive!r} of at least {plan.threshold:g} are labeled so.",
        }
        if positive is not None
        else {},
    }
    return Model(table_model, card, model.name)
