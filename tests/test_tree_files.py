"""Model files with trees: predictions are equal bit by bit, and forged trees are refused before they are followed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import NODE_DTYPE, Tree

pytest.importorskip("polars", reason="tables need the extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl
import skops.io as skops

import forged_trees
import unseen
from helpers import measure_memory
from model_files import (
    inner_archive,
    inner_members,
    pack,
    unpack,
    with_payload,
)
from unseen.models import ModelFileError, _trees, load_model, save_model

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


def test_the_data_above_have_what_the_tests_are_about():
    forest = fitted("random forest")
    assert any(np.isinf(member.tree_.threshold).any() for member in forest.estimators_)  # splits off missing values
    boosting = fitted("boosting with categories", n_classes=3)
    nodes = np.concatenate([tree.nodes for iteration in boosting._predictors for tree in iteration])
    assert nodes["is_categorical"].any()
    assert (nodes["num_threshold"] == np.inf).any()
    assert (nodes["is_categorical"] & (nodes["num_threshold"] == np.inf)).any()  # the feature of one category


def test_named_categories_are_refused(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = samples(300, 0)
    frame = pd.DataFrame(X[:, :3], columns=["x", "y", "z"])
    boosting = HistGradientBoostingClassifier(max_iter=5, categorical_features=["y"], random_state=0).fit(frame, y)
    with pytest.raises(ModelFileError, match="categorical_features are not positions of columns"):
        save_model(boosting, tmp_path / "m.unseen", {})


@pytest.mark.parametrize("name", ["random forest", "boosting"])
def test_estimators_that_are_not_fitted_are_stored_as_such(name, tmp_path):
    copied = reloaded(tmp_path, ESTIMATORS[name])
    assert copied.get_params() == ESTIMATORS[name].get_params()
    with pytest.raises(NotFittedError):
        copied.predict(np.zeros((1, 6)))


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


# Refusal


@pytest.mark.system
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


def load_changed(tmp_path, estimator, change):
    """Load a file whose description was changed."""
    save_model(estimator, tmp_path / "m.unseen", {})
    members = inner_members(unpack(tmp_path / "m.unseen")[1])
    schema = json.loads(members["schema.json"])
    for node in forged_trees.nested_nodes(schema):
        change(node)
    members["schema.json"] = json.dumps(schema)
    return load_model(with_payload(tmp_path / "forged.unseen", tmp_path / "m.unseen", inner_archive(members)))


@pytest.mark.parametrize(("name", "value"), [("node_count", 10**9), ("node_count", 1), ("max_depth", 10**9)])
def test_numbers_that_a_tree_states_about_itself_are_checked_before_they_are_used(tmp_path, name, value):
    def change(node):
        if node.get("__loader__") == "TreeNode":
            node["content"]["content"][name]["content"] = json.dumps(value)

    if (name, value) == ("node_count", 10**9):  # scikit-learn limits it to the length of the array
        tree = load_changed(tmp_path, fitted("one tree"), change).estimator
        assert tree.tree_.node_count == fitted("one tree").tree_.node_count
        return
    with pytest.raises(ModelFileError, match=r"trees are not sound: a tree (has more or fewer|is not as deep)"):
        load_changed(tmp_path, fitted("one tree"), change)


@pytest.mark.parametrize(("position", "value"), [(0, 10**9), (0, 1), (2, 10**9), (2, 2), (2, -1)])
def test_features_and_outputs_that_a_tree_declares_are_checked(tmp_path, position, value):
    def change(node):
        if node.get("__loader__") == "TreeNode":
            # With a number of its own, since skops builds equal numbers once, from the first one.
            changed = {"content": json.dumps(value), "__id__": 10**15 + position}
            node["__reduce__"]["args"]["content"][position].update(changed)

    with pytest.raises(ModelFileError, match="the model in it cannot be rebuilt"):
        load_changed(tmp_path, fitted("one tree"), change)


def change_categories(change):
    """A function for `load_changed` of boosting: changes the array of the first categories."""
    boosting = fitted("boosting with categories")
    encoder = boosting._preprocessor.named_transformers_["encoder"]
    encoder.categories_[0] = change(encoder.categories_[0])
    return boosting


@pytest.mark.parametrize(
    "change",
    [
        lambda own: own[::-1].copy(),
        lambda own: np.arange(300.0),
        lambda own: own[:0],
        lambda own: own[:, np.newaxis],
        lambda own: np.array(["a", "b"]),
    ],
)
def test_categories_that_encoders_do_not_have_are_refused(change, tmp_path):
    with pytest.raises(ModelFileError, match="its trees are not sound"):
        save_model(change_categories(change), tmp_path / "m.unseen", {})


def chain(n_levels):
    """A tree each of whose splits has a leaf on its left."""
    estimator = fitted("a stump of one node")
    numbers = np.arange(2 * n_levels + 1)
    is_split = (numbers % 2 == 0) & (numbers < 2 * n_levels)
    nodes = np.zeros(len(numbers), dtype=NODE_DTYPE)
    nodes["left_child"] = np.where(is_split, numbers + 1, -1)
    nodes["right_child"] = np.where(is_split, numbers + 2, -1)
    values = np.tile([[[0.0, 1.0]]], (len(numbers), 1, 1))
    tree = Tree(6, np.array([2]), 1)
    tree.__setstate__({"nodes": nodes, "values": values, "node_count": len(nodes), "max_depth": n_levels})
    estimator.tree_ = tree
    return estimator


def test_the_number_of_levels_is_bounded(tmp_path):
    tree = reloaded(tmp_path, chain(_trees.MAX_TREE_LEVELS))
    assert tree.predict(np.ones((1, 6))).tolist() == [1]
    with pytest.raises(ModelFileError, match=r"more than 10,000 levels"):
        save_model(chain(_trees.MAX_TREE_LEVELS + 1), tmp_path / "deep.unseen", {})


@pytest.mark.system
def test_memory_is_in_proportion_to_the_model_and_bounded_by_the_file(tmp_path):
    """Trees of equal nodes, which compress best: 33 MB become 1 MB."""
    forest = RandomForestClassifier(2, random_state=0).fit(*samples(300, 0))
    forest.estimators_ = [chain(2000) for _ in range(100)]
    save_model(DecisionTreeClassifier(), tmp_path / "sound.unseen", {})
    card, _ = unpack(tmp_path / "sound.unseen")
    payload = skops.dumps(forest)
    card["payload"]["sha256"] = hashlib.sha256(payload).hexdigest()
    setup = "from unseen.models import load_model; load_model(arguments[0])"
    for compression, factor in ((zipfile.ZIP_STORED, 6), (zipfile.ZIP_DEFLATED, 0)):
        pack(tmp_path / "forged.unseen", card, payload, compression)
        paths = (tmp_path / "sound.unseen", tmp_path / "forged.unseen")
        grown, said = measure_memory(setup, "load_model(arguments[1])", *paths)
        assert ("more than any model" in said) == (compression == zipfile.ZIP_DEFLATED)
        assert grown * 2**20 < factor * len(payload) + 10 * 2**20


@pytest.mark.parametrize("fields", ["NODE_FIELDS", "BOOSTING_FIELDS"])
def test_other_fields_of_nodes_are_refused_on_both_sides(fields, tmp_path, monkeypatch):
    save_model(fitted("random forest"), tmp_path / "m.unseen", {})
    monkeypatch.setattr(_trees, fields, set(list(getattr(_trees, fields))[1:]))
    with pytest.raises(ModelFileError, match=r"other fields than .* unseen can check\. Install a newer"):
        load_model(tmp_path / "m.unseen")
    with pytest.raises(ModelFileError, match=r"cannot be stored: .*other fields"):
        save_model(fitted("random forest"), tmp_path / "other.unseen", {})


def test_what_cannot_be_stored_says_why(tmp_path):
    X, y = samples(300, 0)
    several = RandomForestClassifier(2, random_state=0).fit(np.nan_to_num(X), np.column_stack([y, y]))
    with pytest.raises(ModelFileError, match=r"cannot be stored: its trees are not sound: .*outputs"):
        save_model(several, tmp_path / "m.unseen", {})
    seeded = ExtraTreesClassifier(2, random_state=np.random.RandomState(0)).fit(X, y)
    with pytest.raises(ModelFileError, match=r"cannot be stored: .*RandomState"):
        save_model(seeded, tmp_path / "m.unseen", {})
