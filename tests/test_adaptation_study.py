"""The study of adaptation evaluates the model that `unseen.fit` returns."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import fit_model
from unseen.models import make_preparation
from unseen.tables import Column, Schema, Table
from unseen.utils.samples import Samples

pytest.importorskip("polars", reason="the study reads tables with polars")
study = pytest.importorskip("studies.adaptation", reason="this distribution comes without the studies")
N_ROWS = 40
SCHEMA = Schema((Column("x", "numeric", missing=True), Column("ward", "categorical", ("a", "b", "c"), missing=True)))


def make_samples(n_domains):
    """Sites whose label depends on an interaction, so that trees have a weight; some values are missing."""
    rng = np.random.default_rng(0)
    n = n_domains * N_ROWS
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n)])
    y = np.where((X[:, 0] > 0) ^ (X[:, 1] == 1) ^ (rng.random(n) < 0.1), "ill", "well")
    X[rng.random(X.shape) < 0.1] = np.nan
    return Samples(X, y, np.repeat([f"site {k}" for k in range(n_domains)], N_ROWS))


@pytest.mark.slow
def test_the_study_evaluates_the_ensemble_of_fit(monkeypatch):
    samples = make_samples(5)
    sources, site = study.draw_site(samples, "site 4", seed=0)
    parts = []
    make_part = study.HeldOutDomain

    def record(*values):
        parts.append(make_part(*values))
        return parts[-1]

    monkeypatch.setattr(study, "HeldOutDomain", record)
    results = study.evaluate_site(sources, site, make_preparation(SCHEMA))
    assert [result["n"] for result in results] == [10]  # at least 20 of the 40 rows of the site are scored
    fitted = fit_model(Table(sources.X, sources.y, sources.domain, SCHEMA, [], "sites"))
    model = fitted.estimator
    assert model.ensemble.raw_members
    prepared = model.prepare(site.X)
    np.testing.assert_array_equal(parts[0].probabilities, model.ensemble.predict_proba(prepared))
    rows = study.summarize([{"data": "heart", "site": "site 4", "results": results, "seconds": 0.0}])
    gaps = study.hindsight_gaps([rows])
    assert gaps["each site, by log loss"] == pytest.approx(gaps["each set, by log loss"])
    assert gaps["each set, by accuracy"] >= gaps["each set, by log loss"]
