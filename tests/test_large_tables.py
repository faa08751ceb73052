"""Tables of more rows than exact kernels allow: what is fitted, calibrated and scored on all rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from studies.large_table import simulate_table

import unseen
from helpers import fit_model
from unseen.metrics import choose_threshold
from unseen.tables import table_from_arrays

N_ROWS = 9_000  # just above the limit of exact kernels


@pytest.fixture(scope="module")
def large():
    return simulate_table(N_ROWS, n_sites=6)


def held_out_risks(X, y, site):
    """Risks of each site by logistic regression of scikit-learn, fitted to all rows of the other sites."""
    risks = np.empty(len(y))
    for name in np.unique(site):
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[site != name], y[site != name])
        risks[site == name] = model.predict_proba(X[site == name])[:, 1]
    return risks


def test_logistic_regression_of_a_large_table_is_that_of_scikit_learn(large):
    X, y, site = large
    aim = {"threshold": "sensitivity=0.9", "positive": "dead"}
    fit = fit_model(table_from_arrays(X, y, site), ("mine", LogisticRegression(), {"C": [1.0]}), **aim)
    exact = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    np.testing.assert_allclose(fit.estimator.predict_proba(X), exact.predict_proba(X), atol=1e-6)
    events = y == "dead"
    expected = held_out_risks(X, y, site)
    assert sum(fit.card["scores"]["rows"].values()) == N_ROWS
    weight = 1 / np.unique(site, return_counts=True)[1][np.unique(site, return_inverse=True)[1]]
    threshold = choose_threshold(events, expected, "sensitivity=0.9", sample_weight=weight).threshold
    assert fit.estimator.threshold == pytest.approx(threshold, abs=0.002)


def test_trees_are_fitted_to_all_rows_and_predict_all_held_out_rows(large):
    X, y, site = large
    fit = fit_model(table_from_arrays(X, y, site), "gradient boosting")
    assert fit.card["stream"]["classifier_rows"] == N_ROWS
    assert fit.card["stream"]["choice_rows"] == 3_000
    assert sum(fit.card["scores"]["rows"].values()) == N_ROWS
    assert f"fitted to all {N_ROWS:,} rows" in fit.card["data"]["notices"][-1]
    assert fit.card["ensemble"]["calibration"]["after"]["ece"] < 0.02


def test_validation_fits_the_model_that_fit_returns(large, monkeypatch):
    X, y, site = large
    kept = np.isin(site, np.unique(site)[:3])  # each training set of two sites is large
    monkeypatch.setattr("unseen.kernels._nystroem.EXACT_ROWS", 500)
    monkeypatch.setattr("unseen.kernels._nystroem.CLASSIFIER_CHOICE_ROWS", 400)
    X, y, site = X[kept], y[kept], site[kept]
    options = {"positive": "dead", "threshold": "sensitivity=0.9", "methods": "gradient boosting"}
    result = unseen.validate(X, y, sample_domain=site, compare_with=(), **options)
    assert "models fitted to 400 of them" in result.methods_text()
    name = np.unique(site)[0]
    is_held_out = site == name
    with pytest.warns(unseen.exceptions.DataWarning):
        model = unseen.fit(X[~is_held_out], y[~is_held_out], sample_domain=site[~is_held_out], **options)
    one = next(prediction for prediction in result.rows if prediction.domain == name)
    np.testing.assert_array_equal(one.probabilities, model.predict_proba(X[is_held_out]))
    assert one.threshold == model.card["threshold"]["value"]


def test_a_subsample_keeps_the_proportions_of_all_rows(large):
    samples = table_from_arrays(*large).samples
    kept = samples.take(samples.subsample_rows(900, proportional=True))
    assert len(kept) == 900
    np.testing.assert_allclose(kept.counts(), samples.counts() / 10, atol=2)
