"""What candidates share, and which rows are where, is what each would have by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.decomposition import PCA, KernelPCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC, LinearSVC

from evaluation_sample import SAMPLES, SPLITS, X, own
from unseen import CIDG, SCA, DomainCenterer
from unseen.kernels import _size_plan as _plan
from unseen.model_selection import (
    Candidate,
    EvaluationConfig,
    bind_domains,
    evaluate_candidates,
    ignore_expected_warnings,
)
from unseen.model_selection._decompositions import Decomposition, solution_params
from unseen.model_selection._split_evaluation import (
    FeatureStage,
    SplitRows,
    group_by,
    hashable_key,
    kernel_key,
    rotate_to_span,
    sharing_key,
)
from unseen.utils.samples import Samples


def test_rows_are_held_out_once_however_many_splits_hold_them_out():
    rows = SplitRows(np.array([7, 9]), (np.array([5, 1, 3]), np.array([3, 4])))
    assert [part.tolist() for part in rows] == [[7, 9], [5, 1, 3], [3, 4]]
    assert rows.test.tolist() == [1, 3, 4, 5]
    assert rows.all.tolist() == [7, 9, 1, 3, 4, 5]
    for place, test in zip(rows.places, rows.tests, strict=True):
        np.testing.assert_array_equal(rows.test[place], test)
    again = rows.in_order
    for place, part in zip(again, rows, strict=True):
        np.testing.assert_array_equal(rows.all[place], part)
    assert [part.tolist() for part in rows.parts(rows.test)] == [[5, 1, 3], [3, 4]]


def test_a_single_split_keeps_the_order_and_the_copies_of_its_rows():
    rows = SplitRows(np.array([7]), (np.array([5, 1, 5]),))
    assert rows.test.tolist() == [5, 1, 5]
    assert [place.tolist() for place in rows.places] == [[0, 1, 2]]
    Z = np.arange(3)
    assert rows.parts(Z)[0] is Z
    np.testing.assert_array_equal(rows.all[rows.in_order.tests[0]], [5, 1, 5])


# What is shared


def test_parameters_are_told_apart_by_value_or_else_by_identity():
    one, two = [1], [1]
    assert hashable_key("rbf") == "rbf"
    assert hashable_key(one) == hashable_key(one) != hashable_key(two)
    assert group_by([3, 1, 4, 1, 5], lambda n: n % 2) == [[3, 1, 1, 5], [4]]
    assert kernel_key(CIDG(gamma=1.0)) == kernel_key(CIDG(gamma=1.0, ridge=5.0))
    assert kernel_key(CIDG(gamma=1.0)) != kernel_key(CIDG(gamma=2.0))


def test_candidates_share_a_kernel_or_a_method_but_never_with_those_of_a_user():
    ours = own(GaussianNB(), CIDG(), shares="decomposition")
    assert sharing_key((0, ours)) == sharing_key((1, replace(ours, method="other")))
    assert sharing_key((0, ours)) != sharing_key((1, replace(ours, own=True)))
    assert sharing_key((0, own(GaussianNB()))) == "own"
    assert {"__class__", "ridge", "conditional_weight", "prior_weight"} <= set(solution_params(CIDG))
    assert not {"gamma", "kernel", "scaling", "centering", "n_components"} & set(solution_params(CIDG))


def test_a_stage_computes_what_is_shared_once():
    stage, (train, test) = FeatureStage(SAMPLES), SPLITS[0]
    assert stage.distances_to(train, train) is stage.distances_to(train, train)
    assert stage.distances_to(train, test) is stage.distances_to(train, test)
    one, two = stage.source(CIDG(gamma=1.0)), stage.source(CIDG(gamma=2.0))
    assert one is not two
    assert one.grams is two.grams  # of which all widths are powers
    assert stage.source(CIDG(gamma=2.0, ridge=3.0)) is two
    assert stage.source(CIDG(kernel="linear")).grams is not one.grams
    assert stage.source(CIDG(feature_map="linear")).grams is None


@pytest.mark.parametrize("far", [1e9, 1e12, 1e15])
def test_a_row_outside_a_split_does_not_change_the_rounding_of_its_distances(far):
    train, test = SPLITS[0]
    near = FeatureStage(SAMPLES)
    stretched = np.vstack([X, np.full((1, X.shape[1]), far)])
    beside = FeatureStage(
        Samples(stretched, np.append(SAMPLES.y, SAMPLES.y[0]), np.append(SAMPLES.domain, SAMPLES.domain[0]))
    )
    for rows in (train, test):
        np.testing.assert_array_equal(beside.distances_to(train, rows), near.distances_to(train, rows))
    for kernel in ("rbf", "linear", "poly", "laplacian"):
        model = CIDG(kernel=kernel, gamma=0.1)
        folds = [stage.source(model).decompose(train, test) for stage in (near, beside)]
        one, two = (fold.project(model, fold.solve(model), lambda Z: [Z]) for fold in folds)
        for ours, theirs in zip(one, two, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("transformer", [PCA(2), DomainCenterer(), FrozenEstimator(PCA(2).fit(X)), None])
def test_behind_a_transformer_rows_are_where_they_are_said_to_be(transformer):
    train = SPLITS[0][0]
    rows = SplitRows(train, (SPLITS[0][1], SPLITS[0][1][::2]))
    stage, here = FeatureStage(SAMPLES).after(transformer, rows)
    np.testing.assert_array_equal(stage.samples.y[here.train], SAMPLES.y[train])
    for place, test in zip(here.tests, rows.tests, strict=True):
        np.testing.assert_array_equal(stage.samples.y[place], SAMPLES.y[test])
        np.testing.assert_array_equal(stage.samples.domain[place], SAMPLES.domain[test])
        if isinstance(transformer, DomainCenterer):
            fitted = DomainCenterer().fit(X[train], sample_domain=SAMPLES.domain[train])
            alone = fitted.transform(X[test], sample_domain=SAMPLES.domain[test])  # each part by itself
            np.testing.assert_allclose(stage.samples.X[place], alone, atol=1e-12)
        elif transformer is not None:
            fitted = PCA(2).fit(X[train]) if isinstance(transformer, PCA) else transformer
            np.testing.assert_allclose(stage.samples.X[place], fitted.transform(X[test]), atol=1e-12)


def test_a_frozen_transformer_serves_all_splits_and_no_transformer_is_the_stage_itself():
    frozen, stage = FrozenEstimator(PCA(2).fit(X)), FeatureStage(SAMPLES)
    rows = [SplitRows(train, (test,)) for train, test in SPLITS]
    first, second = (stage.after(frozen, one) for one in rows[:2])
    assert first[0] is second[0]
    assert first[1] is rows[0]
    assert stage.after(None, rows[0]) == (stage, rows[0])


def test_linear_classifiers_see_the_same_inner_products_in_fewer_dimensions():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(10, 15)), rng.normal(size=(4, 15))
    Z, Z_test = rotate_to_span(A, B)
    assert Z.shape == (10, 11)
    np.testing.assert_allclose(Z @ Z.T, A @ A.T, atol=1e-12)
    np.testing.assert_allclose(Z_test @ Z.T, B @ A.T, atol=1e-12)
    assert rotate_to_span(A[:, :14], B[:, :14])[0].shape == (10, 14)  # not worth it: 1.5 rows for each feature


def test_principal_components_are_those_of_scikit_learn():
    train, test = SPLITS[1]
    candidate = CIDG(gamma=0.1)
    fold = FeatureStage(SAMPLES).source(candidate).decompose(train, test)
    theirs = KernelPCA(3, kernel="rbf", gamma=0.1, eigen_solver="dense").fit(X[train])
    found = fold.principal(3)
    expected, expected_test = theirs.transform(X[train]), theirs.transform(X[test])
    signs = np.sign((found.train * expected).sum(axis=0))
    np.testing.assert_allclose(found.train * signs, expected, atol=1e-8)
    np.testing.assert_allclose((found.test - found.offset) * signs, expected_test, atol=1e-8)
    most = fold.principal(10**6).train.shape[1]
    assert most == np.count_nonzero(fold.spectrum.values > 0)


@pytest.mark.parametrize("most", [1, 2, np.inf])
def test_pencils_that_are_not_kept_are_computed_again(most, monkeypatch):
    monkeypatch.setattr(Decomposition, "max_reductions", most)
    train, test = SPLITS[0]
    fold = FeatureStage(SAMPLES).source(CIDG(gamma=0.1)).decompose(train, test)
    first = [fold.solve(CIDG(gamma=0.1, ridge=ridge))[0].eigenvalues for ridge in (0.1, 1.0, 10.0)]
    again = [fold.solve(CIDG(gamma=0.1, ridge=ridge))[0].eigenvalues for ridge in (0.1, 1.0, 10.0)]
    np.testing.assert_array_equal(first, again)
    assert first[0][0] > first[1][0] > first[2][0]
    assert len(fold._reductions) == min(most, 3)


@pytest.mark.parametrize("kernel", ["linear", "precomputed", "rbf"])
def test_kernel_matrices_of_a_search_are_refused_where_three_do_not_fit(kernel, monkeypatch):
    samples = replace(SAMPLES, X=X @ X.T) if kernel == "precomputed" else SAMPLES
    need = 3 * 8 * len(X) ** 2
    monkeypatch.setattr(_plan, "available_bytes", lambda: need)
    assert FeatureStage(samples).source(CIDG(kernel=kernel)).grams is not None
    monkeypatch.setattr(_plan, "available_bytes", lambda: need - 1)
    with pytest.raises(MemoryError, match=r"A search over CIDG .* needs 3 matrices"):
        FeatureStage(samples).source(CIDG(kernel=kernel))


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
