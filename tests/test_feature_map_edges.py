"""Feature maps where they are easy to get wrong: offsets, names, repeated samples, parameters that change."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import FunctionTransformer

from helpers import three_domains
from unseen import CIDG, KFDA, PivotedNystroem, ProjectionSearchCV
from unseen.kernels import median_squared_distance

X, Y, D = three_domains(n_per_cell=10, seed=5)
GRID = {"ridge": ["1e-2*scale", "scale"]}


# Offsets


@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_an_offset_common_to_all_samples_changes_nothing(offset):
    """Of samples, not of the library, are the digits that are lost: an offset of 1e6 leaves ten."""
    moved = X + offset
    assert median_squared_distance(moved) == pytest.approx(median_squared_distance(X), rel=1e-9)
    expected = CIDG(gamma=0.1).fit_transform(X, Y, sample_domain=D)
    size = np.abs(expected).max()
    for model in (CIDG(gamma=0.1), CIDG(feature_map=PivotedNystroem(len(X), gamma=0.1))):
        model.fit(moved, Y, sample_domain=D)
        np.testing.assert_allclose(model.transform(moved), expected, atol=1e-7 * size)
    search, there = (ProjectionSearchCV(CIDG(), GRID).fit(part, Y, sample_domain=D) for part in (X, moved))
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], there.cv_results_["mean_test_score"])


def test_the_median_rule_takes_single_precision_for_what_it_is():
    single = X.astype(np.float32)
    assert median_squared_distance(single) == median_squared_distance(single.astype(np.float64))


# Digits


@pytest.mark.parametrize("ridge", ["1e-8*scale", "1e-11*scale", "1e-14*scale"])
def test_explicit_features_keep_their_digits_at_tiny_ridges(ridge):
    """The exact kernel does, which is tested against fifty digits elsewhere."""
    few, y, d = X[::4], Y[::4], D[::4]
    exact = KFDA(gamma=0.5, ridge=ridge).fit(few, y, sample_domain=d)
    mapped = KFDA(feature_map=PivotedNystroem(len(few), gamma=0.5, random_state=0), ridge=ridge)
    mapped.fit(few, y, sample_domain=d)
    np.testing.assert_allclose(mapped.eigenvalues_, exact.eigenvalues_, rtol=1e-10)


# Searches


def test_a_fold_may_hold_a_sample_more_than_once():
    """As many rows as a domain has are not all of its rows."""
    frozen = FrozenEstimator(PivotedNystroem(20, random_state=0).fit(X))
    rng = np.random.default_rng(0)
    train = np.concatenate([rng.choice(np.flatnonzero(domain == D), np.sum(domain == D)) for domain in (0, 1)])
    test = np.flatnonzero(D == 2)
    search = ProjectionSearchCV(CIDG(feature_map=frozen), GRID, classifier=NearestCentroid(), cv=[(train, test)])
    found = search.fit(X, Y, sample_domain=D).cv_results_["mean_test_score"]
    for ridge, score in zip(GRID["ridge"], found, strict=True):
        model = CIDG(feature_map=frozen, ridge=ridge).fit(X[train], Y[train], sample_domain=D[train])
        head = NearestCentroid().fit(model.transform(X[train]), Y[train])
        assert score == head.score(model.transform(X[test]), Y[test])


def test_parameters_that_a_map_makes_idle_are_not_searched():
    search = ProjectionSearchCV(CIDG(feature_map="linear"), {"gamma": [0.1, 1.0]})
    with pytest.raises(ValueError, match=r"'gamma', which has no effect with feature_map='linear'.*feature_map__gamma"):
        search.fit(X, Y, sample_domain=D)
    ProjectionSearchCV(CIDG(), [{"gamma": [0.1]}, {"feature_map": ["linear"]}]).fit(X, Y, sample_domain=D)


# Names


def test_a_map_that_knows_names_is_used_without_a_word_and_checked():
    frame = pd.DataFrame(X, columns=list("abcd"))
    frozen = FrozenEstimator(PivotedNystroem(20, random_state=0).fit(frame))
    bare = FrozenEstimator(PivotedNystroem(20, random_state=0).fit(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = CIDG(feature_map=frozen).fit(frame, Y, sample_domain=D).transform(frame)
    expected = CIDG(feature_map=bare).fit(X, Y, sample_domain=D).transform(X)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    with pytest.raises(ValueError, match="feature_map was fitted to columns a, b, c, d, but X has d, c, b, a"):
        CIDG(feature_map=frozen).fit(frame[list("dcba")], Y, sample_domain=D)


# Parameters that change


def test_a_stream_keeps_to_the_map_that_it_began_with():
    model = CIDG(feature_map=PivotedNystroem(20, gamma=0.1, random_state=0)).partial_fit(X, Y, sample_domain=D)
    again = clone(model).partial_fit(X, Y, sample_domain=D).partial_fit(X, Y, sample_domain=D)
    assert again.cell_counts_.sum() == 2 * len(X)
    expected = again.transform(X)
    model.set_params(feature_map="linear").partial_fit(X, Y, sample_domain=D)
    np.testing.assert_array_equal(model.set_params(feature_map=None).transform(X), expected)


def test_a_map_must_give_the_same_number_of_features_for_any_chunk():
    widening = FunctionTransformer(lambda part: np.repeat(part, 2 if len(part) < 40 else 1, axis=1))
    model = CIDG(feature_map=widening).partial_fit(X, Y, sample_domain=D)
    with pytest.raises(ValueError, match="gave 4 features for some samples and 8 for others"):
        model.partial_fit(X[:30], Y[:30], sample_domain=D[:30])


# Landmarks


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_combinations_of_features_do_not_need_the_features(kernel, container):
    samples = container(X)
    model = PivotedNystroem(30, kernel=kernel, gamma=0.1, random_state=0).fit(samples)
    weights = np.random.default_rng(0).normal(size=(30, 3))
    expected = model.transform(samples) @ weights
    np.testing.assert_allclose(model.combine(samples, weights), expected, atol=1e-9 * np.abs(expected).max())
    with pytest.raises(ValueError, match="features"):
        model.combine(X[:, :2], weights)
