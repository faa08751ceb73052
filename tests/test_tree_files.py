"""Model files with trees: predictions are equal bit by bit, and forged trees are refused before they are followed."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, export_text

pytest.importorskip("polars", reason="tables need the extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl
import skops.io as skops

import forged_trees
import unseen
from helpers import measure_memory
from model_files import TABLE, assert_same_answers, by_hand, saved, with_payload
from unseen.models import ModelFileError, _tree_checks, _tree_state, load_model, save_model
from unseen.models._tree_state import TreeState, decode_trees, encode_trees

ESTIMATORS = {
    "random forest": RandomForestClassifier(12, random_state=0),
    "forest with class weights": RandomForestClassifier(5, class_weight={0: 1.0, 1: 3.0}, random_state=0),
    "extra trees": ExtraTreesClassifier(12, criterion="entropy", random_state=0),
    "bootstrapped extra trees": ExtraTreesClassifier(5, bootstrap=True, min_samples_leaf=3, random_state=0),
    "one tree": DecisionTreeClassifier(random_state=0),
    "one tree, best leaves first": DecisionTreeClassifier(max_leaf_nodes=15, random_state=0),
    "a pruned tree": DecisionTreeClassifier(ccp_alpha=0.01, random_state=0),
    "a stump of one node": DecisionTreeClassifier(min_samples_leaf=1000),
    "boosting": HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=5, random_state=0),
    "boosting with few bins": HistGradientBoostingClassifier(max_iter=4, max_bins=16, max_depth=3, random_state=0),
    "boosting with categories": HistGradientBoostingClassifier(
        max_iter=8, min_samples_leaf=5, categorical_features=[1, 4, 5], random_state=0
    ),
    "boosting of categories alone": HistGradientBoostingClassifier(
        max_iter=4, min_samples_leaf=5, categorical_features=[True] * 6, random_state=0
    ),
}


def samples(n_samples, seed, n_classes=2):
    """Numbers and categories with missing values; the category of feature 1 is always the same, if it is not missing.

    Tests give new samples, which have categories that training samples do not have.
    """
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(n_samples, 6)) / 2 + 3.0
    X[:, 1] = 2
    X[:, 4] = rng.integers(0, 6 + seed, n_samples)
    X[:, 5] = rng.integers(0, 50 + seed, n_samples)
    X[rng.random(X.shape) < 0.15] = np.nan
    noisy = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 4]) + np.isnan(X[:, 1]) + rng.normal(size=n_samples)
    return X, np.argsort(np.argsort(noisy)) * n_classes // n_samples


def fitted(name, n_classes=2, weighted=False):
    X, y = samples(300, 0, n_classes)
    weight = np.random.default_rng(5).random(len(X)) + 0.1 if weighted else None
    return clone(ESTIMATORS[name]).fit(X, y, sample_weight=weight)


def reloaded(tmp_path, estimator):
    save_model(estimator, tmp_path / "m.unseen", {})
    return load_model(tmp_path / "m.unseen").estimator


def assert_equal_predictions(copied, estimator, X):
    assert type(copied) is type(estimator)
    assert copied.predict_proba(X).tobytes() == estimator.predict_proba(X).tobytes()
    assert np.array_equal(copied.predict(X), estimator.predict(X))


# Equality


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_predictions_are_equal_bit_by_bit(name, n_classes, weighted, tmp_path):
    estimator = fitted(name, n_classes, weighted)
    X, _ = samples(500, 3)
    copied = reloaded(tmp_path, estimator)
    assert_equal_predictions(copied, estimator, X)
    assert copied.get_params() == estimator.get_params()
    assert copied.n_features_in_ == estimator.n_features_in_
    assert clone(copied).get_params() == estimator.get_params()


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if "boosting" not in name])
def test_what_is_computed_from_the_leaves_of_a_forest_differs_by_rounding_errors(name):
    estimator = fitted(name, n_classes=3, weighted=True)
    copied = decode_trees(encode_trees(estimator))
    np.testing.assert_allclose(copied.feature_importances_, estimator.feature_importances_, rtol=1e-10, atol=1e-14)
    members = [estimator] if isinstance(estimator, DecisionTreeClassifier) else estimator.estimators_
    others = [copied] if isinstance(copied, DecisionTreeClassifier) else copied.estimators_
    for member, other in zip(members, others, strict=True):
        tree, same = member.tree_, other.tree_
        for field in ("children_left", "children_right", "feature", "threshold", "n_node_samples"):
            assert np.array_equal(getattr(tree, field), getattr(same, field))
        splits = tree.children_left >= 0
        assert np.array_equal(tree.missing_go_to_left[splits], same.missing_go_to_left[splits])
        for field in ("value", "impurity", "weighted_n_node_samples"):
            np.testing.assert_allclose(getattr(same, field), getattr(tree, field), rtol=1e-10, atol=1e-13)
        assert (same.max_depth, same.node_count, same.n_leaves) == (tree.max_depth, tree.node_count, tree.n_leaves)
        assert export_text(other) == export_text(member)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if "boosting" in name])
def test_all_fields_of_boosted_trees_are_restored(name):
    estimator = fitted(name, n_classes=3)
    copied = decode_trees(encode_trees(estimator))
    assert copied.n_iter_ == estimator.n_iter_
    assert np.array_equal(copied.is_categorical_, estimator.is_categorical_)
    for iteration, same_iteration in zip(estimator._predictors, copied._predictors, strict=True):
        for tree, same in zip(iteration, same_iteration, strict=True):
            assert np.array_equal(same.nodes, tree.nodes)
            assert np.array_equal(same.raw_left_cat_bitsets, tree.raw_left_cat_bitsets)
            assert np.array_equal(same.binned_left_cat_bitsets, tree.binned_left_cat_bitsets)


def test_the_data_above_have_what_the_tests_are_about():
    forest = fitted("random forest")
    assert any(np.isinf(member.tree_.threshold).any() for member in forest.estimators_)  # splits off missing values
    boosting = fitted("boosting with categories", n_classes=3)
    nodes = np.concatenate([tree.nodes for iteration in boosting._predictors for tree in iteration])
    assert nodes["is_categorical"].any()
    assert (nodes["num_threshold"] == np.inf).any()
    assert (nodes["is_categorical"] & (nodes["num_threshold"] == np.inf)).any()  # the feature of one category


@pytest.mark.parametrize("categories", ["from_dtype", ["color"]])
def test_frames_with_named_categories(categories, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = samples(300, 0)
    colors = np.array([None, "red", "green", "blue", "black", "white", "grey"], dtype=object)
    frame = pd.DataFrame(X[:, :3], columns=["x", "y", "z"])
    frame.insert(1, "color", pd.Categorical(colors[np.nan_to_num(X[:, 4] + 1).astype(int)]))
    boosting = HistGradientBoostingClassifier(max_iter=5, categorical_features=categories, random_state=0).fit(frame, y)
    copied = reloaded(tmp_path, boosting)
    assert boosting.is_categorical_.tolist() == [False, True, False, False]
    assert_equal_predictions(copied, boosting, frame)
    assert copied.feature_names_in_.tolist() == ["x", "color", "y", "z"]
    with pytest.raises(ValueError, match=r"columns are missing|feature names"):
        copied.predict(frame[["x", "color", "y"]])
    forest = RandomForestClassifier(3, random_state=0).fit(frame[["x", "y"]], y)
    assert_equal_predictions(reloaded(tmp_path, forest), forest, frame[["x", "y"]])


def test_trees_in_pipelines_are_replaced_in_copies_alone(tmp_path):
    X, y = samples(300, 0)
    pipeline = make_pipeline(StandardScaler(), ExtraTreesClassifier(5, random_state=0)).fit(X, y)
    trees = pipeline[-1]
    assert_equal_predictions(reloaded(tmp_path, pipeline), pipeline, X)
    assert pipeline[-1] is trees


@pytest.mark.parametrize("name", ["random forest", "boosting"])
def test_estimators_that_are_not_fitted_are_stored_as_such(name, tmp_path):
    copied = reloaded(tmp_path, ESTIMATORS[name])
    assert copied.get_params() == ESTIMATORS[name].get_params()
    with pytest.raises(NotFittedError):
        copied.predict(np.zeros((1, 6)))


@pytest.mark.parametrize("classifier", [ExtraTreesClassifier(5), HistGradientBoostingClassifier(max_iter=5)])
def test_members_of_an_ensemble_may_be_trees(classifier, tmp_path):
    model = by_hand(None, clone(classifier).set_params(random_state=0))
    save_model(model, tmp_path / "m.unseen", {"schema": TABLE.schema.to_dict()})
    assert_same_answers(load_model(tmp_path / "m.unseen").estimator, model)


def test_a_model_of_fit_with_trees_is_saved_and_loaded(tmp_path, few_trees):
    rng = np.random.default_rng(0)
    ages = rng.normal(50, 10, 90)
    columns = {
        "age": np.where(rng.random(90) < 0.1, None, ages),
        "sex": rng.choice(["f", "m"], 90),
        "ill": np.where(ages + rng.normal(0, 5, 90) > 50, "yes", "no"),
        "hospital": np.repeat(["bonn", "leeds", "oslo"], 30),
    }
    frame = pl.DataFrame({name: column.tolist() for name, column in columns.items()})
    model = unseen.fit(frame, methods=["gradient boosting", "extra trees"], label="ill", domain="hospital")
    model.save(tmp_path / "m.unseen")
    copied = unseen.load_model(tmp_path / "m.unseen")
    assert {type(member[-1]).__name__ for member in copied.estimator.ensemble.members_} <= {
        "ExtraTreesClassifier",
        "HistGradientBoostingClassifier",
    }
    assert copied.predict_proba(frame).tobytes() == model.predict_proba(frame).tobytes()
    assert np.array_equal(copied.predict(frame), model.predict(frame))


def test_numbers_of_processes_are_not_restored(tmp_path):
    forest = fitted("random forest").set_params(n_jobs=7, verbose=3)
    copied = reloaded(tmp_path, forest)
    assert (copied.n_jobs, copied.verbose) == (None, 0)


def test_columns_are_divided_into_chunks_without_a_trace(monkeypatch):
    states = [encode_trees(fitted(name, 3)) for name in ("random forest", "boosting with categories")]
    X, _ = samples(200, 3)
    whole = [decode_trees(state).predict_proba(X).tobytes() for state in states]
    for nodes in (1, 40, 200):
        monkeypatch.setattr(_tree_checks, "CHUNK_NODES", nodes)
        assert [decode_trees(state).predict_proba(X).tobytes() for state in states] == whole


def test_small_types_hold_the_same_numbers():
    shrink = _tree_state._shrink
    for values, dtype in (
        (np.array([1.0, -2.0]), np.int8),
        (np.array([0.0, -0.0]), np.float32),
        (np.array([300, -1]), np.int16),
        (np.array([2**40]), np.int64),
        (np.array([0.5, np.inf]), np.float32),
        (np.array([0.1]), np.float64),
        (np.array([2.0**60]), np.float32),
        (np.array([1e300, 0.5]), np.float64),
        (np.empty(0), np.int8),
    ):
        small = shrink(values)
        assert small.dtype == dtype
        assert small.astype(values.dtype).tobytes() == values.tobytes()


def test_files_are_smaller_than_pickles(tmp_path):
    forest = RandomForestClassifier(20, random_state=0).fit(*samples(1000, 0))
    save_model(forest, tmp_path / "m.unseen", {})
    nodes = sum(member.tree_.node_count for member in forest.estimators_)
    in_memory = nodes * (_tree_state.NODE_DTYPE.itemsize + 16)
    assert (tmp_path / "m.unseen").stat().st_size < in_memory / 3


# Refusal


@pytest.mark.parametrize("n_files", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_forged_trees_are_refused_or_harmless(n_files, tmp_path):
    """In a process of its own, which a crash or an endless loop would end with an error."""
    command = [sys.executable, str(Path(forged_trees.__file__)), str(tmp_path), "0", str(n_files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(done.stdout)
    assert sum(count for result in results.values() for count in result.values()) == n_files
    assert results.keys() == {change.__name__ for change in (*forged_trees.REFUSED, *forged_trees.OTHERS)}
    for change in forged_trees.REFUSED:
        assert results[change.__name__]["harmless"] == 0, change
    assert results["swapped_children"]["harmless"] > results["swapped_children"]["refused"]
    assert sum(result["refused"] for result in results.values()) > 0.7 * n_files


def test_trees_that_scikit_learn_would_rebuild_itself_are_refused(tmp_path):
    """Their constructors would copy whatever arrays a file has."""
    file = saved(tmp_path, DecisionTreeClassifier())
    for name in ("one tree", "random forest", "boosting"):
        payload = skops.dumps(fitted(name))
        with pytest.raises(ModelFileError, match=rf"refused.*{type(ESTIMATORS[name]).__name__}"):
            load_model(with_payload(tmp_path / "forged.unseen", file, payload))


def test_limits_hold_for_all_ensembles_together_on_both_sides(tmp_path, monkeypatch):
    pair = [fitted("random forest"), fitted("extra trees")]
    n_trees = 24
    n_nodes = sum(member.tree_.node_count for forest in pair for member in forest.estimators_)
    save_model(pair, tmp_path / "m.unseen", {})
    for limit, value, message in (
        ("MAX_TREES", n_trees, r"it has 24 trees; at most 23 are allowed in a file\. Fit fewer"),
        ("MAX_TREE_NODES", n_nodes, rf"its trees have {n_nodes:,} nodes; at most {n_nodes - 1:,}"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(_tree_checks, limit, value)
            load_model(tmp_path / "m.unseen")
            patch.setattr(_tree_checks, limit, value - 1)
            with pytest.raises(ModelFileError, match=message):
                load_model(tmp_path / "m.unseen")
            with pytest.raises(ModelFileError, match=f"cannot be stored: {message}"):
                save_model(pair, tmp_path / "other.unseen", {})
    with monkeypatch.context() as patch:
        patch.setattr(_tree_checks, "MAX_TREE_LEVELS", 3)
        with pytest.raises(ModelFileError, match=r"a tree has more than 3 levels\. Set max_depth"):
            load_model(tmp_path / "m.unseen")
        with pytest.raises(ModelFileError, match=r"cannot be stored: a tree has more than 3 levels\. Set max_depth"):
            save_model(pair, tmp_path / "other.unseen", {})
    assert not (tmp_path / "other.unseen").exists()


def chain(n_levels):
    """A tree each of whose splits has a leaf on its left."""
    state = encode_trees(fitted("a stump of one node"))
    nodes = np.arange(2 * n_levels + 1)
    is_split = (nodes % 2 == 0) & (nodes < 2 * n_levels)
    state.fitted["columns"] = {
        "node_counts": np.array([len(nodes)]),
        "left": np.where(is_split, nodes + 1, -1),
        "right": np.where(is_split, nodes + 2, -1),
        "feature": np.zeros(n_levels, dtype=np.int8),
        "threshold": np.zeros(n_levels),
        "missing_go_to_left": np.zeros(n_levels, dtype=np.int8),
        "probability": np.tile(np.array([[0, 1]], dtype=np.int8), (n_levels + 1, 1)),
        "samples": np.ones(n_levels + 1, dtype=np.int8),
        "weight": np.ones(n_levels + 1, dtype=np.int8),
    }
    return state


def test_the_number_of_levels_is_bounded():
    tree = decode_trees(chain(_tree_checks.MAX_TREE_LEVELS))
    assert tree.get_depth() == _tree_checks.MAX_TREE_LEVELS
    assert tree.predict(np.ones((1, 6))).tolist() == [1]
    with pytest.raises(ValueError, match=r"more than 10,000 levels"):
        decode_trees(chain(_tree_checks.MAX_TREE_LEVELS + 1))


def test_loading_takes_memory_in_proportion_to_the_file(tmp_path):
    """Single nodes of one byte per column, which is the least that a file can hold of a tree."""
    n_trees = 2000
    n_levels = 50
    state = chain(n_levels)
    columns = state.fitted["columns"]
    state.estimator = "RandomForestClassifier"
    state.parameters.pop("splitter")
    columns["node_counts"] = columns["node_counts"].astype(np.int8)
    columns["threshold"] = columns["threshold"].astype(np.int8)
    columns["left"], columns["right"] = columns["left"].astype(np.int8), columns["right"].astype(np.int8)
    state.fitted["columns"] = {name: np.concatenate([column] * n_trees) for name, column in columns.items()}
    file = saved(tmp_path, DecisionTreeClassifier())
    forged = with_payload(tmp_path / "forged.unseen", file, skops.dumps(state))
    setup = "from unseen.models import load_model; load_model(arguments[0])"
    grown, said = measure_memory(setup, "load_model(arguments[1])", file, forged)
    assert not said
    assert grown * 2**20 < 30 * forged.stat().st_size + 40 * 2**20


def test_ensembles_that_share_arrays_are_refused(tmp_path):
    """One array that a file names in many places would stand for much memory."""
    first = encode_trees(fitted("random forest"))
    second = copy.copy(first)
    file = saved(tmp_path, DecisionTreeClassifier())
    payload = skops.dumps([first, TreeState(second.estimator, second.parameters, dict(second.fitted))])
    with pytest.raises(ModelFileError, match="two tree ensembles share an array"):
        load_model(with_payload(tmp_path / "forged.unseen", file, payload))
    twice = load_model(with_payload(tmp_path / "forged.unseen", file, skops.dumps([first, first]))).estimator
    assert twice[0] is twice[1]


@pytest.mark.parametrize("fields", ["NODE_FIELDS", "BOOSTING_FIELDS"])
def test_other_fields_of_nodes_are_refused_on_both_sides(fields, tmp_path, monkeypatch):
    save_model(fitted("random forest"), tmp_path / "m.unseen", {})
    known = getattr(_tree_state, fields)
    fewer = dict(list(known.items())[1:]) if isinstance(known, dict) else known[1:]
    monkeypatch.setattr(_tree_state, fields, fewer)
    with pytest.raises(ModelFileError, match=r"other fields than .* unseen can check\. Install a newer"):
        load_model(tmp_path / "m.unseen")
    with pytest.raises(ModelFileError, match=r"cannot be stored: .*other fields"):
        save_model(fitted("random forest"), tmp_path / "other.unseen", {})


def test_what_cannot_be_stored_says_why(tmp_path):
    X, y = samples(300, 0)
    several = RandomForestClassifier(2, random_state=0).fit(np.nan_to_num(X), np.column_stack([y, y]))
    with pytest.raises(ModelFileError, match="cannot be stored: RandomForestClassifier predicts several outputs"):
        save_model(several, tmp_path / "m.unseen", {})
    seeded = ExtraTreesClassifier(2, random_state=np.random.RandomState(0)).fit(X, y)
    with pytest.raises(ModelFileError, match=r"cannot be stored: .*RandomState"):
        save_model(seeded, tmp_path / "m.unseen", {})
