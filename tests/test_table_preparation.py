"""Tables reach trees with missing values and levels as such, and linear models with codes and logarithms as well."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from helpers import fit_model
from unseen import UnseenClassifier
from unseen.model_selection import (
    METHODS,
    Candidate,
    EvaluationConfig,
    LeaveOneDomainOut,
    TableSize,
    evaluate_candidates,
    expand_methods,
    prepare_samples,
    tree_samples,
)
from unseen.model_selection._candidate import CANDIDATE_LANDMARKS
from unseen.model_selection._evaluation import decision_scores
from unseen.model_selection._methods import ENSEMBLE_EXACT_ROWS, ENSEMBLE_TRAIN_ROWS
from unseen.models import make_preparation
from unseen.tables import Column, Schema, Table, TablePreparation, make_preprocessor
from unseen.tables._preparation import MAX_CODED_COLUMNS, MAX_TREE_LEVELS
from unseen.utils.samples import Samples

SCHEMA = Schema(
    (
        Column("age", "numeric", missing=True),
        Column("dose", "numeric"),
        Column("grade", "numeric", missing=True),
        Column("ward", "categorical", ("a", "b", "c", "d"), missing=True),
    )
)
AGE, DOSE, GRADE, WARD = range(4)


def transformed(preparation, X):
    """Features for linear and kernel methods, and columns for trees."""
    return np.hsplit(preparation.transform(X), [preparation.n_prepared_features_])


def encoded(n=240, seed=0):
    """A table with a missing value in most rows, long-tailed doses, grades from 1 to 4, and wards."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.normal(50, 9, n), rng.lognormal(0, 2, n), rng.integers(1, 5, n), rng.integers(0, 4, n)]
    ).astype(float)
    y = ((X[:, GRADE] == 2) ^ (X[:, WARD] == 1)).astype(int)
    for column in (AGE, GRADE, WARD):
        X[rng.random(n) < 0.2, column] = np.nan
    return X, y, np.arange(n) % 4


def prepared_samples(n=240):
    X, y, domain = encoded(n)
    return prepare_samples(make_preparation(SCHEMA).fit(X), Samples(X, y, domain))


def make_table(n=404):
    X, y, domain = encoded(n)
    labels = np.array(["no", "yes"])[y]
    names = np.array(["Athens", "Bern", "Cork", "Derry"])[domain]
    return Table(X, labels, names, SCHEMA, [], "patients")


# Columns for trees


def test_trees_get_the_numbers_in_their_order_with_gaps_and_the_levels_as_codes():
    X, _, _ = encoded()
    fitted = make_preparation(SCHEMA).fit(X)
    _, columns = transformed(fitted, X)
    np.testing.assert_array_equal(np.isnan(columns), np.isnan(X))
    for j in (AGE, DOSE, GRADE):
        is_known = ~np.isnan(X[:, j])
        np.testing.assert_array_equal(np.argsort(columns[is_known, j]), np.argsort(X[is_known, j]))
    np.testing.assert_array_equal(columns[:, WARD], X[:, WARD])
    np.testing.assert_array_equal(fitted.transform(X)[:, fitted.n_prepared_features_ :], columns)


def test_levels_that_training_rows_do_not_have_are_missing():
    X, _, _ = encoded()
    fitted = make_preparation(SCHEMA).fit(X[X[:, WARD] < 2])
    new = np.tile(X[:1], (4, 1))
    new[:, WARD] = [0, 1, 2, -1]  # the last one is new to the schema as well
    np.testing.assert_array_equal(transformed(fitted, new)[1][:, WARD], [0, 1, np.nan, np.nan])


def test_rare_levels_of_a_column_with_many_share_one_code():
    column = np.repeat(np.arange(100.0), np.arange(1, 101))[:, None]
    schema = Schema((Column("zip", "categorical", tuple(map(str, range(100)))),))
    _, codes = transformed(make_preparation(schema).fit(column), np.arange(100.0)[:, None])
    assert len(np.unique(codes)) == MAX_TREE_LEVELS
    assert len(set(codes[-MAX_TREE_LEVELS + 1 :, 0])) == MAX_TREE_LEVELS - 1
    assert set(codes[: -MAX_TREE_LEVELS + 1, 0]) == {MAX_TREE_LEVELS - 1}


@pytest.mark.parametrize("column", [AGE, WARD])
def test_boosting_can_be_fitted_although_a_column_is_empty(column):
    X, y, _ = encoded()
    X[:, column] = np.nan
    samples = prepare_samples(make_preparation(SCHEMA).fit(X), Samples(X, y, np.zeros(len(y))))
    (candidate, *_) = METHODS["gradient boosting"].candidates(2)
    pipeline = candidate.fit_samples(samples)
    full, _, _ = encoded()
    _, columns = transformed(make_preparation(SCHEMA).fit(X), full)
    assert np.isfinite(pipeline.predict_proba(columns)).all()


def test_boosting_treats_levels_as_categories():
    pipeline = next(METHODS["gradient boosting"].candidates(2)).fit_samples(prepared_samples())
    assert pipeline[-1].is_categorical_.tolist() == [False, False, False, True]


def test_numbers_beyond_single_precision_reach_forests():
    X, y, domain = encoded()
    X = np.nan_to_num(X)
    X[0, DOSE] = 1e40
    model = UnseenClassifier(["extra trees"], ensemble=False).fit(X, y, sample_domain=domain % 3)
    assert np.isfinite(model.predict_proba(X)).all()


# Features for linear and kernel methods


def test_long_tails_become_logarithms_and_nothing_else_changes():
    X, _, _ = encoded()
    prepared, _ = transformed(make_preparation(SCHEMA).fit(X), X)
    plain = make_preprocessor(SCHEMA)
    expected = plain.fit_transform(X)
    scale = np.median(X[:, DOSE])
    logarithms = np.log1p(X[:, DOSE] / scale)
    np.testing.assert_allclose(prepared[:, DOSE], (logarithms - logarithms.mean()) / logarithms.std())
    others = np.delete(np.arange(expected.shape[1]), DOSE)
    np.testing.assert_array_equal(prepared[:, others], expected[:, others])


def test_a_column_with_a_negative_number_keeps_its_scale():
    X, _, _ = encoded()
    X[0, DOSE] = -1
    prepared, _ = transformed(make_preparation(SCHEMA).fit(X), X)
    expected = make_preprocessor(SCHEMA).fit_transform(X)
    np.testing.assert_array_equal(prepared[:, : expected.shape[1]], expected)


def test_few_integers_are_numbers_and_categories():
    X, y, _ = encoded(1000)
    fitted = make_preparation(SCHEMA).fit(X)
    assert fitted.coded_columns_.tolist() == [GRADE]
    prepared, _ = transformed(fitted, X)
    codes = prepared[:, -5:]  # four grades, and missing
    np.testing.assert_array_equal(codes.sum(axis=1), 1)
    np.testing.assert_array_equal(codes[:, 1], X[:, GRADE] == 2)
    parity = y == 1  # the second grade in all wards but one: not monotone in the grade
    plain = make_preprocessor(SCHEMA).fit_transform(X)
    gain = [LogisticRegression(max_iter=1000).fit(Z, parity).score(Z, parity) for Z in (plain, prepared)]
    assert gain[1] > gain[0]


def test_pixels_are_not_codes():
    X = np.random.default_rng(0).integers(0, 5, (50, MAX_CODED_COLUMNS + 1)).astype(float)
    schema = Schema(tuple(Column(f"p{j}", "numeric") for j in range(X.shape[1])))
    assert make_preparation(schema).fit_transform(X).shape == X.shape
    fewer = Schema(schema.columns[1:])
    assert make_preparation(fewer).fit_transform(X[:, 1:]).shape == (50, 6 * MAX_CODED_COLUMNS)


def test_only_training_rows_decide():
    X, _, _ = encoded()
    fitted = make_preparation(SCHEMA).fit(X[:100])
    before = fitted.transform(X[100:])
    far = fitted.transform(np.vstack([X[100:], [[1e9, -5.0, 77.0, 3.0]]]))
    np.testing.assert_array_equal(far[:-1], before)
    assert np.isfinite(far[-1]).all()


def test_other_scales_use_the_preprocessor_alone():
    assert not isinstance(make_preparation(SCHEMA, "none"), TablePreparation)


# What is fitted to how many rows


def evaluated(candidate, samples, split):
    (prediction,) = evaluate_candidates([candidate], samples, [split], EvaluationConfig(), with_decision_scores=True)
    assert not prediction.error
    return prediction.responses["decision_scores"]


@pytest.mark.parametrize("method", ["RBF SVM", "CIDG", "extra trees", "random forest", "gradient boosting"])
@pytest.mark.parametrize("limits", [{}, {"max_train_rows": 60}, {"max_exact_rows": 60}], ids=["all", "rows", "exact"])
def test_what_is_evaluated_is_what_is_refitted(method, limits):
    samples = prepared_samples()
    split = next(iter(LeaveOneDomainOut().split(samples.X, samples.y, samples.domain)))
    first = next(METHODS[method].candidates(2, heads=["logistic"]))
    candidate = Candidate(**{**vars(first), **limits})
    pipeline = candidate.fit_samples(samples.take(split[0]))
    held_out = samples.take(split[1])
    X = tree_samples(held_out).X if candidate.features == "raw" else held_out.X
    expected = decision_scores(pipeline, X, None, samples.classes)
    np.testing.assert_allclose(evaluated(candidate, samples, split), expected, rtol=1e-6, atol=1e-8)


def test_a_limit_of_rows_keeps_all_domains_and_classes():
    samples = prepared_samples()
    (candidate, *_) = METHODS["RBF SVM"].candidates(2, grid="ensemble")
    limited = Candidate(**{**vars(candidate), "max_train_rows": 40})
    rows = limited.training_rows(samples)
    assert len(rows) == 40
    assert (samples.take(rows).counts() >= 2).all()
    assert len(candidate.training_rows(samples)) == len(samples)  # there are fewer rows than its limit
    assert limited.key != candidate.key != candidate.without_limits.key


def test_members_of_ensembles_are_limited_and_single_methods_are_not():
    for name in expand_methods([METHODS["auto"]]):
        for candidate in name.candidates(2, grid="ensemble", heads=["logistic"]):
            is_svm = candidate.shares == "kernel matrix"
            assert candidate.max_train_rows == (ENSEMBLE_TRAIN_ROWS if is_svm else None)
            assert candidate.max_exact_rows == (ENSEMBLE_EXACT_ROWS if candidate.head else None)
        assert {(one.max_train_rows, one.max_exact_rows) for one in name.candidates(2)} == {(None, None)}
    X, y, domain = encoded()
    single = UnseenClassifier(["RBF SVM"]).fit(np.nan_to_num(X), y, sample_domain=domain)
    assert single.best_estimator_.members_[0][-1].shape_fit_[0] == len(X)


def test_projections_use_landmarks_beyond_a_number_of_rows():
    samples = prepared_samples(ENSEMBLE_EXACT_ROWS + 1)
    candidate = next(METHODS["CIDG"].candidates(2, grid="ensemble", heads=["logistic"]))
    landmarks = candidate.fit_samples(samples)[0].feature_map_
    assert landmarks.n_components_ <= CANDIDATE_LANDMARKS
    assert candidate.fit_samples(samples.take(slice(-1)))[0].feature_map is None


@pytest.mark.parametrize(
    ("rows", "columns", "classes", "is_member"),
    [(550, 484, 2, True), (10**6, 500, 2, True), (10**6, 50, 10, True), (1797, 64, 10, False), (2500, 800, 10, False)],
)
def test_boosting_is_a_member_where_its_estimated_work_is_small(rows, columns, classes, is_member):
    size = TableSize((rows, columns), classes)
    candidates = list(METHODS["auto"].candidates(classes, size=size))
    everything = list(METHODS["auto"].candidates(classes))
    boosted = [one for one in everything if isinstance(one.classifier, HistGradientBoostingClassifier)]
    assert len(boosted) == 2
    assert {one.key for one in everything} - {one.key for one in candidates} == (
        set() if is_member else {one.key for one in boosted}
    )
    named = expand_methods([METHODS["gradient boosting"]], size=size)
    assert isinstance(named[0].classifier, HistGradientBoostingClassifier)


# Models of tables


@pytest.fixture(scope="module")
def fitted():
    return fit_model(make_table(), ["logistic", "extra trees", "gradient boosting"])


def test_an_ensemble_passes_each_member_its_features(fitted):
    table = make_table()
    model = fitted.estimator
    prepared = prepare_samples(model.preprocessor, table.samples)
    ensemble = model.ensemble
    assert {type(member[-1]).__name__ for member in ensemble.members_} > {"LogisticRegression"}
    joined = model.prepare(table.X)
    for j, scores in enumerate(ensemble.member_scores(joined)):
        is_tree = j in ensemble.raw_members
        X = tree_samples(prepared).X if is_tree else prepared.X
        np.testing.assert_array_equal(scores, decision_scores(ensemble.members_[j], X, None, ensemble.classes_))
    refitted = clone(ensemble).fit(joined, table.y, sample_domain=table.domain)
    assert refitted.predict_proba(joined).shape == (len(joined), 2)
