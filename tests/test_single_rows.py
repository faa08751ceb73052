"""One row at a time: without the checks that each member repeats, and with the predictions of a batch."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import unseen
from helpers import three_domains
from unseen import CIDG, PivotedNystroem
from unseen.model_selection import EnsembleClassifier, TablePreparation, expand_methods, parse_methods, prepare_samples
from unseen.models import Model, TableModel, make_preparation
from unseen.models._row_preparation import MAX_TABLE_ENTRIES, RowPreparation
from unseen.models._row_scores import MAX_ROWS, BoostingScores, RowScores, make_scores
from unseen.models._single_row import encode_row
from unseen.shift import Novelty
from unseen.tables import Column, Schema, make_preprocessor
from unseen.utils.samples import Samples

pl = pytest.importorskip("polars")

FAMILIES = ["logistic", "RBF SVM", "CIDG", "random forest", "extra trees", "gradient boosting"]
TOLERANCE = 1e-12  # of probabilities: sums of products are rounded in another order
WARDS = ["a", "b", "c", "d"]
pytestmark = pytest.mark.filterwarnings("ignore::unseen.exceptions.NewDataWarning")


def make_frame(n, seed=0):
    """Numbers, a long tail, integers that may be codes, and levels; missing values everywhere."""
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 9, n)
    ward = rng.choice(WARDS, n)
    score = 0.1 * (age - 50) + (ward == "b") + rng.normal(size=n)
    columns = {"age": age, "dose": rng.lognormal(0, 2, n), "grade": rng.integers(1, 5, n).astype(float)}
    for values in columns.values():
        values[rng.random(n) < 0.1] = np.nan
    texts = [None if is_missing else str(value) for value, is_missing in zip(ward, rng.random(n) < 0.1, strict=True)]
    label = np.array(["low", "middle", "high"])[np.digitize(score, [-0.3, 1.0])]
    site = [f"site {i % 4}" for i in range(n)]
    return pl.DataFrame({**columns, "ward": texts, "label": label, "site": site}).fill_nan(None)


def make_ensemble(samples, names):
    """One or two fitted members of each family, with equal weights."""
    candidates = []
    for method in expand_methods(parse_methods(names), transductive=False):
        grid = list(method.candidates(len(samples.classes), grid="ensemble", heads=("logistic",)))
        candidates += grid[:: len(grid) - 1] if method.name in ("CIDG", "RBF SVM") else grid[:1]
    members = [candidate.fit_samples(samples, "none") for candidate in candidates]
    raw = [j for j, candidate in enumerate(candidates) if candidate.features == "raw"]
    return EnsembleClassifier(
        members,
        np.full(len(members), 1 / len(members)),
        np.linspace(0.5, 2, len(members)),
        inverse_temperature=1.3,
        conformal_scores=[np.linspace(0, 0.4, 20)] * 4,
        raw_members=raw,
        n_prepared_features=samples.X.shape[1],
    ).with_members(members)


def make_model(n_classes, names=FAMILIES):
    """A model of a table whose ensemble contains all families."""
    frame = make_frame(160)
    if n_classes == 2:
        frame = frame.with_columns(label=pl.when(pl.col("label") == "high").then(pl.lit("ill")).otherwise(pl.lit("no")))
    base = unseen.fit(frame, label="label", domain="site", methods="logistic")
    schema = base.schema
    X = schema.encode(frame)
    preparation = make_preparation(schema).fit(X)
    labels = frame["label"].to_numpy().astype(str)
    samples = prepare_samples(preparation, Samples(X, labels, frame["site"].to_numpy()))
    novelty = Novelty().fit(samples.X, sample_domain=samples.domain)
    return replace(base, estimator=TableModel(preparation, make_ensemble(samples, names), novelty))


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def model(request):
    return make_model(request.param)


def new_rows(n=40):
    """Rows of a new site; some have missing values, and some a ward that is not in training."""
    frame = make_frame(n, seed=9).drop("label", "site")
    return frame.with_columns(ward=pl.Series(["new" if i % 6 == 0 else text for i, text in enumerate(frame["ward"])]))


def batch_probabilities(model, frame):
    """The estimators of scikit-learn, with all their checks."""
    X = model.schema.encode(frame)
    assert len(X) > MAX_ROWS
    return model.table_model.ensemble.predict_proba(model.table_model.preprocessor.transform(X))


# Models


def test_each_row_is_predicted_as_in_its_batch(model):
    frame = new_rows()
    expected = batch_probabilities(model, frame)
    np.testing.assert_allclose(model.predict_proba(frame), expected, rtol=0, atol=TOLERANCE)
    rows = frame.to_dicts()
    assert any(None in row.values() for row in rows)
    for row, p in zip(rows, expected, strict=True):
        np.testing.assert_allclose(model.predict_proba(row), p[None], rtol=0, atol=TOLERANCE)
    assert [model.predict(row).item() for row in rows] == model.predict(frame).tolist()
    for row, labels in zip(rows[:5], model.predict_set(frame, 0.7), strict=False):
        assert model.predict_set(row, 0.7)[0].tolist() == labels.tolist()
    few = frame[:MAX_ROWS]
    np.testing.assert_allclose(model.predict_proba(few), expected[:MAX_ROWS], rtol=0, atol=TOLERANCE)


def test_files_and_adapted_models_predict_single_rows_as_batches(model, tmp_path):
    pytest.importorskip("skops")
    frame = new_rows()
    row = frame.row(3, named=True)
    before = model.predict_proba(row)  # prepares the members, which are not part of the file
    model.save(tmp_path / "model.unseen")
    loaded = unseen.load_model(tmp_path / "model.unseen")
    np.testing.assert_allclose(loaded.predict_proba(row), before, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(row), before)
    labeled = make_frame(60, seed=5).with_columns(site=pl.lit("new"))
    if len(model.classes_) == 2:
        is_high = pl.col("label") == "high"
        labeled = labeled.with_columns(label=pl.when(is_high).then(pl.lit("ill")).otherwise(pl.lit("no")))
    for level in ("offsets", "features"):
        adapted = loaded.adapt(labeled, level=level)
        assert np.abs(adapted.predict_proba(row) - before).max() > 1e-6
        expected = batch_probabilities(adapted, frame)[3:4]
        np.testing.assert_allclose(adapted.predict_proba(row), expected, rtol=0, atol=TOLERANCE)
    prior = {model.classes_[0]: 0.05}
    expected = batch_probabilities(model.with_prior(prior), frame)[3:4]
    np.testing.assert_allclose(model.predict_proba(row, prior=prior), expected, rtol=0, atol=TOLERANCE)


def test_threads_share_a_model_from_the_first_row_on(model):
    fresh = replace(model)
    rows = new_rows().to_dicts()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fresh.predict_proba, rows * 3))
    alone = [model.predict_proba(row) for row in rows]
    np.testing.assert_array_equal(np.vstack(together), np.vstack(alone * 3))


def test_arrays_that_cannot_be_predicted_raise_the_same_errors_as_batches(model):
    X = model.schema.encode(new_rows())
    infinite = X.copy()
    infinite[:, 0] = np.inf
    for wrong, reason in ((X[:, :-1], "features"), (infinite, "infinity")):
        messages = []
        for rows in (wrong[:1], wrong):
            with pytest.raises(ValueError, match=reason) as error:
                model.predict(rows)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


# Members


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_scores_a_row_as_in_a_batch(model, name):
    X = model.table_model.prepare(model.schema.encode(new_rows()))
    ensemble = model.table_model.ensemble
    frame = make_frame(160)
    encoded = model.schema.encode(frame)
    labels = np.resize(model.classes_, len(encoded))
    samples = prepare_samples(model.table_model.preprocessor, Samples(encoded, labels, frame["site"].to_numpy()))
    single = make_ensemble(samples, [name])
    assert set(single.classes_) == set(ensemble.classes_)
    rows = RowScores.from_ensemble(single)
    expected = single.decision_proba(X)
    found = np.vstack([rows.decision_proba(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("params", "is_shared"),
    [
        ({}, True),
        ({"feature_map": PivotedNystroem(30, random_state=0)}, True),
        ({"feature_map": PivotedNystroem(30, kernel="poly", random_state=0)}, False),
        ({"feature_map": "linear"}, False),
        ({"kernel": "poly"}, False),
        ({"gamma": None}, False),
    ],
    ids=str,
)
def test_projections_of_all_kinds_score_a_row_as_in_a_batch(params, is_shared):
    X, y, domain = three_domains(n_classes=2)
    members = []
    for ridge in ("scale", "0.1*scale"):
        projection = CIDG(ridge=ridge, **params).fit(X, y, sample_domain=domain)
        head = make_pipeline(StandardScaler(), LogisticRegression()).fit(projection.transform(X), y)
        members.append(make_pipeline(projection, head))
    ensemble = EnsembleClassifier(members, np.array([0.4, 0.6]), np.ones(2)).with_members(members)
    rows = RowScores.from_ensemble(ensemble)
    samples = [kernel.samples for kernel in rows.components.values()]
    assert len(samples) == 2 * is_shared
    assert not samples or samples[0] is samples[1]
    new = X[::3] + 0.1
    found = np.vstack([rows.decision_proba(new[i : i + 1]) for i in range(len(new))])
    np.testing.assert_allclose(found, ensemble.decision_proba(new), rtol=0, atol=TOLERANCE)


def test_own_classifiers_are_called_as_they_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = rng.integers(0, 3, 80)
    own = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y)
    ensemble = EnsembleClassifier([own], np.ones(1), np.ones(1)).with_members([own])
    found = RowScores.from_ensemble(ensemble).decision_proba(X[:1])
    np.testing.assert_allclose(found, own.predict_proba(X[:1]), atol=TOLERANCE)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_rows_that_overflow_raise_the_same_errors_as_batches():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X.sum(axis=1) > 0).astype(int)
    member = make_pipeline(LogisticRegression(C=100)).fit(X, y)
    ensemble = EnsembleClassifier([member], np.ones(1), np.ones(1)).with_members([member])
    for value, reason in ((np.nan, "NaN"), (1e308, "decision values")):
        row = np.full((1, 3), value)
        for predict in (RowScores.from_ensemble(ensemble).decision_proba, ensemble.decision_proba):
            with pytest.raises(ValueError, match=reason):
                predict(row)


def test_classifiers_that_have_no_lookup_keep_their_checks():
    X = np.tile([[0.5], [1.5]], (30, 1))
    y = np.tile([0, 1], 30)
    boosting = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0]).fit(X, y)
    assert BoostingScores.from_classifier(boosting) is None
    for classes in ([0, 1], [0, 1, 2]):  # a class that the classifier does not know has the score -inf
        found = make_scores(boosting, np.array(classes))(X[:1])
        np.testing.assert_array_equal(found[:, 1] - found[:, 0], boosting.decision_function(X[:1]))
        assert np.isneginf(found[:, 2:]).all()


def test_rows_that_depend_on_their_batch_have_no_scores_of_their_own(model):
    smoothed = EnsembleClassifier(**{**model.table_model.ensemble.get_params(deep=False), "smoothing": 1.0})
    assert RowScores.from_ensemble(smoothed.with_members(model.table_model.ensemble.members_)) is None


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3]), st.booleans())
def test_boosted_trees_give_the_bits_of_scikit_learn(seed, n_classes, has_levels):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(120, 2)), rng.integers(0, 40, 120), rng.integers(-2, 3, 120)])
    y = (np.abs(X[:, 0] * 3 + X[:, 2] + rng.normal(size=120)).astype(int)) % n_classes
    X[rng.random(X.shape) < 0.15] = np.nan
    levels = [2, 3] if has_levels else None
    boosting = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3, categorical_features=levels).fit(X, y)
    new = X[:20].copy()
    new[::4, 2] = 77
    new[::5, 3] = -9
    scores = make_scores(boosting, boosting.classes_)
    assert isinstance(scores, BoostingScores)
    found = np.vstack([scores(new[i : i + 1]) for i in range(len(new))])
    if n_classes == 2:
        found = found[:, 1] - found[:, 0]
    np.testing.assert_array_equal(found, boosting.decision_function(new))


# Preparation


@st.composite
def tables(draw):
    """Encoded training rows, new rows, and the schema: all kinds of columns, empty ones included."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(20, 120))
    columns, values = [], []
    for j, kind in enumerate(draw(st.lists(st.sampled_from("nteclrm"), min_size=1, max_size=7))):
        if kind in "lrm":
            n_levels = 70 if kind == "r" else 3
            columns.append(Column(f"{j}", "categorical", tuple(f"{k}" for k in range(n_levels)), missing=True))
            codes = rng.geometric(0.03 if kind == "r" else 0.3, n).clip(max=n_levels) - 1.0
            values.append(np.full(n, np.nan) if kind == "m" else codes)
        else:
            columns.append(Column(f"{j}", "numeric", missing=True))
            draws = {"n": rng.normal(size=n), "t": rng.lognormal(0, 3, n), "e": np.full(n, np.nan)}
            draws["c"] = rng.integers(-3, 4, n).astype(float)
            values.append(draws[kind])
    X = np.column_stack(values)
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    new = X[rng.permutation(n)]
    new[rng.random(new.shape) < 0.2] = np.nan
    new[rng.random(new.shape) < 0.1] = -1.0  # a new level, or a number
    new[rng.random(new.shape) < 0.1] = 1000.0
    return Schema(tuple(columns)), X, new


@settings(max_examples=40, deadline=None)
@given(tables(), st.booleans())
def test_the_preparation_gives_the_bits_of_scikit_learn(table, tree_columns):
    schema, X, new = table
    preparation = make_preparation(schema).set_params(tree_columns=tree_columns).fit(X)
    rows = RowPreparation.from_preparation(preparation)
    expected = preparation.transform(new)
    np.testing.assert_array_equal(rows.transform(new), expected)
    np.testing.assert_array_equal(rows.transform(new[:1]), expected[:1])


def test_what_has_no_lookup_is_left_to_scikit_learn():
    X = np.column_stack([np.linspace(0, 1, 12), np.tile([0.5, 1.5], 6)])
    schema = Schema((Column("x", "numeric"), Column("level", "categorical", ("a", "b"))))
    assert RowPreparation.from_preparation(make_preprocessor(schema, "standardize").fit(X)) is None
    assert RowPreparation.from_preparation(make_preparation(schema).fit(X)) is None  # levels are not integers
    far = np.column_stack([X[:, 0], np.tile([0.0, 2.0 * MAX_TABLE_ENTRIES], 6)])
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=0.01, sparse_output=False)
    others = [
        SimpleImputer(),
        make_pipeline(SimpleImputer()),
        ColumnTransformer([("levels", encoder, [1]), ("rest", StandardScaler(), [0])]),
        ColumnTransformer([("levels", encoder, [1])]),
    ]
    for other in others:
        assert RowPreparation.from_preparation(TablePreparation(other, tree_columns=False).fit(far)) is None


# Encoding


@pytest.mark.parametrize("value", [-9, -9.0, np.float64(-9), np.int64(-9), 0.5, np.float32(0.5), np.int32(4), None])
def test_numbers_that_stand_for_missing_values_are_missing_in_a_row(value):
    schema = Schema((Column("age", "numeric", missing=True, missing_values=("-9", "unknown")),))
    encoded = encode_row(schema, {"age": value})
    np.testing.assert_array_equal(encoded, schema.encode(pl.DataFrame({"age": [value]}, strict=False)))
    assert np.isnan(encoded).all() == (value is None or value == -9)


def test_a_new_level_takes_the_path_of_tables(model):
    assert encode_row(model.schema, {**new_rows().row(1, named=True), "ward": "new"}) is None
    assert isinstance(model, Model)
