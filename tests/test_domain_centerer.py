"""DomainCenterer takes each domain's mean away, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from hypothesis import given
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from helpers import problems, three_domains
from unseen import DomainCenterer
from unseen.model_selection import LeaveOneDomainOut

X, Y, D = three_domains()


@given(problems())
def test_every_domain_has_mean_zero_and_keeps_its_differences(problem):
    X, _, d = problem
    Z = DomainCenterer(renormalize=False).fit_transform(X, sample_domain=d)
    for domain in np.unique(d):
        rows = d == domain
        np.testing.assert_allclose(Z[rows].mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(Z[rows] - Z[rows][0], X[rows] - X[rows][0], atol=1e-12)


def test_rows_have_unit_length_if_requested_or_if_they_had_it_before():
    plain = DomainCenterer(renormalize=False).fit_transform(X, sample_domain=D)
    unit = DomainCenterer(renormalize=True).fit_transform(X, sample_domain=D)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1)
    np.testing.assert_allclose(unit, normalize(plain))
    np.testing.assert_array_equal(DomainCenterer().fit_transform(X, sample_domain=D), plain)
    unit_rows = normalize(X)
    np.testing.assert_array_equal(
        DomainCenterer().fit_transform(unit_rows, sample_domain=D),
        DomainCenterer(renormalize=True).fit_transform(unit_rows, sample_domain=D),
    )


def test_a_sample_at_its_domains_mean_stays_at_zero():
    Z = DomainCenterer().fit_transform([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], sample_domain=["a"] * 3)
    np.testing.assert_array_equal(Z[1], 0)


def test_a_shift_of_any_domain_changes_nothing():
    rng = np.random.default_rng(0)
    moved = X + 10 * rng.normal(size=(3, X.shape[1]))[D]
    before, after = (DomainCenterer().fit_transform(data, sample_domain=D) for data in (X, moved))
    np.testing.assert_allclose(before, after, atol=1e-12)


def test_a_known_domain_keeps_its_training_mean_and_a_new_one_has_its_own():
    names = np.array(["a", "b", "c"])[D]
    centerer = DomainCenterer(renormalize=False).fit(X[D < 2], sample_domain=names[D < 2])
    np.testing.assert_allclose(centerer.means_, [X[D == 0].mean(axis=0), X[D == 1].mean(axis=0)])
    batch = np.r_[np.flatnonzero(D == 0)[:3], np.flatnonzero(D == 2)[:5]]
    Z = centerer.transform(X[batch], sample_domain=names[batch])
    np.testing.assert_allclose(Z[:3], X[batch[:3]] - X[D == 0].mean(axis=0))
    np.testing.assert_allclose(Z[3:], X[batch[3:]] - X[batch[3:]].mean(axis=0))


def test_without_names_a_batch_is_one_new_domain():
    centerer = DomainCenterer(renormalize=False).fit(X, sample_domain=D)
    np.testing.assert_allclose(centerer.transform(X[:5]), X[:5] - X[:5].mean(axis=0))
    nameless = DomainCenterer(renormalize=False).fit(X)
    np.testing.assert_allclose(nameless.transform(X[:5]), X[:5] - X[:5].mean(axis=0))
    assert nameless.domains_.tolist() == [None]
    np.testing.assert_allclose(nameless.means_, [X.mean(axis=0)])


def test_labels_of_classes_are_not_looked_at():
    first = DomainCenterer().fit_transform(X, Y, sample_domain=D)
    np.testing.assert_array_equal(first, DomainCenterer().fit_transform(X, Y[::-1], sample_domain=D))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_input_is_left_alone_and_its_precision_kept(dtype):
    data = (10 * X).astype(dtype)
    before = data.copy()
    Z = DomainCenterer().fit_transform(data, sample_domain=D)
    np.testing.assert_array_equal(data, before)
    assert Z.dtype == (np.float32 if dtype == np.float32 else np.float64)


def test_in_a_pipeline_it_gets_the_domains_by_metadata_routing():
    far = X + 20 * np.random.default_rng(0).normal(size=(3, 4))[D]
    pipeline = make_pipeline(DomainCenterer(), LogisticRegression())
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_validate(
            pipeline, far, Y, cv=LeaveOneDomainOut(), params={"sample_domain": D, "groups": D}, scoring="accuracy"
        )["test_score"]
    centered = DomainCenterer().fit_transform(far, sample_domain=D)
    by_hand = [
        LogisticRegression().fit(centered[train], Y[train]).score(centered[test], Y[test])
        for train, test in LeaveOneDomainOut().split(X, Y, D)
    ]
    np.testing.assert_array_equal(routed, by_hand)
