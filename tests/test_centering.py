"""Source and target centering, and copies that are centered on a batch."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import textbook
from helpers import METHODS, make, three_domains
from unseen import CIDG

every_method = pytest.mark.parametrize("name", METHODS)


def split(seed=0):
    X, y, d = three_domains(seed=seed)
    source = d < 2
    return X[source], y[source], d[source], X[~source]


@every_method
def test_target_centering_is_step_4_of_algorithm_1(name):
    X, y, d, X_target = split()
    model = make(name, gamma=0.1, ridge=0.1, centering="target").fit(X, y, sample_domain=d)
    B = model.dual_coef_ * np.sqrt(model.eigenvalues_)
    expected = textbook.target_features(rbf_kernel(X, X_target, gamma=0.1), B, model.eigenvalues_)
    np.testing.assert_allclose(model.transform(X_target), expected, atol=1e-10 * np.abs(expected).max())


@every_method
def test_source_centering_subtracts_the_mean_of_the_training_data(name):
    X, y, d, X_target = split()
    model = make(name, gamma=0.1, ridge=0.1).fit(X, y, sample_domain=d)
    np.testing.assert_allclose(model.transform(X).mean(axis=0), 0, atol=1e-9)
    one_by_one = np.vstack([model.transform(row[None]) for row in X_target])
    np.testing.assert_allclose(one_by_one, model.transform(X_target), atol=1e-9)


@pytest.mark.parametrize("centering", ["source", "target"])
@every_method
def test_fit_transform_is_fit_then_transform(name, centering):
    X, y, d, _ = split()
    together = make(name, centering=centering).fit_transform(X, y, sample_domain=d)
    apart = make(name, centering=centering).fit(X, y, sample_domain=d).transform(X, sample_domain=d)
    np.testing.assert_array_equal(together, apart)


def test_each_new_domain_is_centered_by_itself_and_known_ones_keep_the_source_mean():
    X, y, d, X_target = split()
    names = np.array(["a", "b"])[d]
    model = CIDG(centering="target").fit(X, y, sample_domain=names)
    batch = np.vstack([X_target[:10], X[:5], X_target[10:] + 3])
    labels = ["c"] * 10 + ["a"] * 5 + ["e"] * (len(X_target) - 10)
    Z = model.transform(batch, sample_domain=labels)
    np.testing.assert_allclose(Z[:10].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Z[15:].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Z[10:15], CIDG().fit(X, y, sample_domain=names).transform(X[:5]), atol=1e-12)


@pytest.mark.parametrize("centering", ["source", "target"])
@pytest.mark.parametrize("feature_map", [None, "linear"])
def test_a_recentered_copy_transforms_single_samples_of_its_site(centering, feature_map):
    X, y, d, X_target = split()
    model = CIDG(centering=centering, feature_map=feature_map).fit(X, y, sample_domain=d)
    before = model.transform(X_target)
    twin = model.recenter(X_target)
    whole = CIDG(centering="target", feature_map=feature_map).fit(X, y, sample_domain=d).transform(X_target)
    np.testing.assert_allclose(np.vstack([twin.transform(row[None]) for row in X_target]), whole, atol=1e-9)
    assert twin.recentered_
    assert not model.recentered_
    np.testing.assert_array_equal(model.transform(X_target), before)
    assert not twin.fit(X, y, sample_domain=d).recentered_


def test_label_shift_moves_the_target_mean_for_an_innocent_reason():
    X, y, d, _ = split()
    model = CIDG(centering="target").fit(X, y, sample_domain=d)
    only_one_class = X[y == 0]  # source data: nothing has shifted but the proportions
    displaced = model.transform(only_one_class)
    honest = model.transform(only_one_class, sample_domain=d[y == 0])
    assert np.linalg.norm((displaced - honest).mean(axis=0)) > 0.5 * np.linalg.norm(honest.mean(axis=0))
