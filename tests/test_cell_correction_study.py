"""The simulation of cell corrections: its population is the limit of its samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from unseen import CIDG

study = pytest.importorskip("studies.cell_correction", reason="this distribution comes without the studies")


@pytest.mark.parametrize("correction", study.CORRECTIONS)
def test_large_cells_have_the_scatter_and_the_components_of_the_population(correction):
    rng = np.random.default_rng(0)
    means = study.World(rng.normal(size=(study.N_CLASSES, study.N_FEATURES)), 0.7).draw_cell_means(4, rng)
    X, y, d = study.draw_rows(means, 20_000, rng)
    weights = {"conditional_weight": "10*scale", "prior_weight": "10*scale", "ridge": study.RIDGE}
    cidg = CIDG(**weights, feature_map="linear", cell_correction=correction).fit(X, y, sample_domain=d)
    exact = study.population_subspace(means, 10.0)
    assert np.degrees(linalg.subspace_angles(cidg.coef_, exact).max()) < 2
    truth = study.conditional_scatter(means)
    assert np.linalg.norm(study.estimate_conditional_scatter(cidg, X, y, d) - truth) < 0.03 * np.linalg.norm(truth)


def test_the_plug_in_scatter_of_equal_domains_is_the_sampling_error_of_cell_means():
    """Its expectation is C (m - 1) / m times the covariance within cells over the rows of a cell."""
    draws = [study.replicate("no shift", 4, 10, 1, seed) for seed in range(12)]
    expected = study.N_CLASSES * 3 / 4 / 10
    traces = np.array([[draw[name][0] for name in study.CORRECTIONS] for draw in draws])
    error = traces[:, 0].std(ddof=1) / np.sqrt(len(draws))
    assert traces[:, 0].mean() == pytest.approx(expected, abs=4 * error)
    assert np.all(traces[:, 1:] <= traces[:, :1] + 1e-12)
    assert {draw["population"][0] for draw in draws} == {0.0}
    assert study.VARIANCES.sum() == pytest.approx(12.5)
