"""What candidates share, and which rows are where, is what each would have by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.decomposition import PCA, KernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC, LinearSVC

from evaluation_sample import SAMPLES, SPLITS, X
from unseen import CIDG, SCA, DomainCenterer
from unseen.kernels import _size_plan as _plan
from unseen.model_selection import (
    Candidate,
    EvaluationConfig,
    PreparedSplits,
    _evaluation,
    bind_domains,
    evaluate_candidates,
    ignore_expected_warnings,
)
from unseen.utils.samples import Samples

# What is shared


@pytest.mark.parametrize("far", [1e9, 1e12, 1e15])
def test_a_row_outside_a_split_does_not_change_the_rounding_of_its_distances(far):
    stretched = np.vstack([X, np.full((1, X.shape[1]), far)])
    more = Samples(stretched, np.append(SAMPLES.y, SAMPLES.y[0]), np.append(SAMPLES.domain, SAMPLES.domain[0]))
    near, beside = (PreparedSplits.from_splits(samples, {0: SPLITS[0]}) for samples in (SAMPLES, more))
    for ours, theirs in zip(beside.distances, near.distances, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for kernel in ("rbf", "linear", "poly", "laplacian"):
        model = CIDG(kernel=kernel, gamma=0.1)
        one, two = (rows.decompose(model).project(model)[0] for rows in (near, beside))
        np.testing.assert_array_equal(one.train, two.train)
        np.testing.assert_array_equal(one.test, two.test)


@pytest.mark.parametrize("most", [1, 2, 8])
def test_pencils_that_are_not_kept_are_computed_again(most, monkeypatch):
    monkeypatch.setattr(_evaluation, "MAX_REDUCTIONS", most)
    fold = PreparedSplits.from_splits(SAMPLES, {0: SPLITS[0]}).decompose(CIDG(gamma=0.1))
    first = [fold.solve(CIDG(gamma=0.1, ridge=ridge))[1].eigenvalues for ridge in (0.1, 1.0, 10.0)]
    again = [fold.solve(CIDG(gamma=0.1, ridge=ridge))[1].eigenvalues for ridge in (0.1, 1.0, 10.0)]
    np.testing.assert_array_equal(first, again)
    assert first[0][0] > first[1][0] > first[2][0]
    assert len(fold._reductions) == min(most, 3)


@pytest.mark.parametrize("kernel", ["linear", "precomputed", "rbf"])
def test_kernel_matrices_of_a_search_are_refused_where_three_do_not_fit(kernel, monkeypatch):
    samples = replace(SAMPLES, X=X @ X.T) if kernel == "precomputed" else SAMPLES
    need = 3 * 8 * len(X) ** 2
    monkeypatch.setattr(_plan, "available_bytes", lambda: need)
    PreparedSplits.from_splits(samples, {0: SPLITS[0]}).decompose(CIDG(kernel=kernel))
    monkeypatch.setattr(_plan, "available_bytes", lambda: need - 1)
    with pytest.raises(MemoryError, match=r"A search over CIDG .* needs 3 matrices"):
        PreparedSplits.from_splits(samples, {0: SPLITS[0]}).decompose(CIDG(kernel=kernel))


def alone(candidate, samples, train, test):
    """What a candidate predicts that is fitted by itself."""
    with ignore_expected_warnings():
        pipeline = candidate.fit(samples.X[train], samples.y[train], samples.domain[train])
        model, seen = bind_domains(pipeline, samples.X[test], samples.domain[test])
        return model.predict(seen)


def settings(*transformers, classifier=None, **options):
    return [Candidate("own", {}, one, classifier or GaussianNB(), **options) for one in transformers]


@pytest.mark.parametrize(
    "candidates",
    [
        settings(*(CIDG(n, gamma=0.1) for n in (1, 2, None)), head="h", shares="decomposition"),
        settings(
            *(CIDG(2, gamma=0.1, centering=how) for how in ("source", "target")), head="h", shares="decomposition"
        ),
        settings(*(SCA(n, gamma=0.1) for n in (3, 1)), head="h", shares="decomposition"),
        settings(*(CIDG(1, scaling=how) for how in ("paper", "unit_norm")), head="h", shares="decomposition"),
        settings(*(KernelPCA(n, kernel="rbf", gamma=0.1) for n in (1, 3, None)), shares="decomposition"),
        [*settings(CIDG(1)), *settings(CIDG(1), classifier=LogisticRegression())],
        *(settings(None, classifier=SVC(gamma=g), shares="kernel matrix") for g in (0.1, "scale", "auto", "2*median")),
        settings(PCA(2), DomainCenterer(), None, classifier=SVC(gamma=0.3), shares="kernel matrix"),
    ],
    ids=range(11),
)
def test_together_candidates_predict_what_each_predicts_alone(candidates):
    splits = [*SPLITS, (SPLITS[0][0], SPLITS[0][1][::3])]
    found = list(evaluate_candidates(candidates, SAMPLES, splits, EvaluationConfig()))
    assert len({(one.candidate, one.split) for one in found}) == len(found) == len(candidates) * len(splits)
    for one in found:
        train, test = splits[one.split]
        assert one.error == ""
        expected = alone(candidates[one.candidate], SAMPLES, train, test)
        np.testing.assert_array_equal(SAMPLES.classes[one.codes], expected)


@pytest.mark.parametrize("classifier", [GaussianNB(), LogisticRegression(), LinearSVC()])
def test_with_more_features_than_samples_too(classifier):
    rng = np.random.default_rng(0)
    wide = replace(SAMPLES, X=np.hstack([3 * X, rng.normal(size=(len(X), 200)) ** 3]))
    found = list(evaluate_candidates(settings(None, classifier=classifier), wide, SPLITS, EvaluationConfig()))
    assert len(found) == len(SPLITS)
    for one in found:
        expected = alone(settings(None, classifier=classifier)[0], wide, *SPLITS[one.split])
        np.testing.assert_array_equal(wide.classes[one.codes], expected)
