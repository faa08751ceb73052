"""Model files with forged trees, made by seeded changes of sound ones. Run as a program, so that a crash is noticed.

``python forged_trees.py FOLDER SEED NUMBER`` loads so many forged models and prints, as JSON, how often each change was
refused and how often it was harmless. Anything else ends the program with an error. Every fifth model is written to a
file, which `load_model` refuses with `ModelFileError`. The others go through the checks that `load_model` makes after
skops, which takes most of the time, has rebuilt the arrays; `load_model` turns their ValueError into `ModelFileError`.
"""

from __future__ import annotations

import copy
import faulthandler
import hashlib
import json
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import skops.io as skops
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from model_files import pack, unpack
from unseen.models import ModelFileError, load_model, save_model
from unseen.models._tree_checks import MAX_TREE_NODES
from unseen.models._tree_state import encode_trees, restore_tree_estimators
from unseen.models._trusted_types import check_estimators

NUMBERS = [-(2**63), -(2**31), -5, -2, -1, 0, 1, 2, 3, 7, 100, 255, 256, 10**6, 2**31, 2**32, 2**62, 2**63 - 1]
DTYPES = ["i1", "u1", ">i4", "<u8", "f2", "f4", ">f8", "c16", "?", "U3", "S2", "M8[s]", "O"]


def samples(n_samples, seed):
    """Four numeric features with missing values, and two of categories."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 6))
    X[:, 4] = rng.integers(0, 5, n_samples)
    X[:, 5] = rng.integers(0, 40, n_samples)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def sound_states():
    X = samples(300, 0)
    rng = np.random.default_rng(1)
    noisy = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 4]) + rng.normal(size=len(X))
    binary = np.where(noisy > 2, "yes", "no")
    multi = np.digitize(noisy, [0.0, 2.0, 4.0])
    boosting = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=6, min_samples_leaf=5, random_state=0)
    categorical = copy.deepcopy(boosting).set_params(categorical_features=[4, 5])
    return [
        encode_trees(estimator.fit(X, y))
        for estimator, y in (
            (RandomForestClassifier(3, max_depth=4, random_state=0), multi),
            (ExtraTreesClassifier(3, max_depth=4, random_state=0), binary),
            (DecisionTreeClassifier(max_leaf_nodes=12, random_state=0), multi),
            (boosting, binary),
            (categorical, binary),
            (copy.deepcopy(categorical), multi),
        )
    ]


def pick(rng, items):
    return items[rng.integers(len(items))]


def column_of(state, rng, *names):
    """The name of a column that the ensemble has and that is not empty."""
    columns = state.fitted["columns"]
    present = [name for name in (names or columns) if name in columns and columns[name].size]
    return pick(rng, present)


def change_entry(state, rng):
    columns = state.fitted["columns"]
    name = column_of(state, rng)
    column = columns[name] = columns[name].astype(np.int64 if columns[name].dtype.kind in "iu" else np.float64)
    column.flat[rng.integers(column.size)] = pick(rng, NUMBERS)


def change_child(state, rng):
    columns = state.fitted["columns"]
    name = pick(rng, ["left", "right"])
    column = columns[name] = columns[name].astype(np.int64)
    column[rng.integers(len(column))] = rng.integers(-2, len(column) + 2)


def split_node(state, rng):
    left = state.fitted["columns"]["left"]
    return pick(rng, np.flatnonzero(left > 0))


def own_parent(state, rng):
    node = split_node(state, rng)
    columns = state.fitted["columns"]
    starts = np.cumsum(columns["node_counts"]) - columns["node_counts"]
    start = starts[np.searchsorted(starts, node, side="right") - 1]
    columns[pick(rng, ["left", "right"])][node] = rng.integers(0, node - start + 1)  # itself, or a node before it


def shared_child(state, rng):
    columns = state.fitted["columns"]
    node = split_node(state, rng)
    columns["right"][node] = columns["left"][node]


def one_child(state, rng):
    name = pick(rng, ["left", "right"])
    is_boosting = "value" in state.fitted["columns"]
    state.fitted["columns"][name][split_node(state, rng)] = 0 if is_boosting else -1


def swapped_children(state, rng):
    """Harmless: the branches of one split change places."""
    columns = state.fitted["columns"]
    node = split_node(state, rng)
    columns["left"][node], columns["right"][node] = columns["right"][node], columns["left"][node]


def counts(state, rng):
    columns = state.fitted["columns"]
    node_counts = columns["node_counts"] = columns["node_counts"].astype(np.int64)
    node_counts[0] += pick(rng, [-node_counts[0], -1, 1, 2, MAX_TREE_NODES, 2**62])
    if len(node_counts) > 1 and rng.random() < 0.5:
        node_counts[1] = columns["left"].size - node_counts[2:].sum() - node_counts[0]


def longer_or_shorter(state, rng):
    columns = state.fitted["columns"]
    name = column_of(state, rng)
    column = columns[name]
    columns[name] = pick(rng, [column[:-1], column[:1][:0], np.concatenate([column, column[-1:]]), column[::2].copy()])


def other_shape(state, rng):
    columns = state.fitted["columns"]
    name = column_of(state, rng)
    column = columns[name]
    columns[name] = pick(rng, [column[:, np.newaxis], column[np.newaxis], column.flat[0], column[..., np.newaxis]])


def other_dtype(state, rng):
    columns = state.fitted["columns"]
    name = column_of(state, rng)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        columns[name] = columns[name].astype(pick(rng, DTYPES), casting="unsafe")


def not_finite(state, rng):
    """NaN, or an infinity that is no threshold of missing values."""
    columns = state.fitted["columns"]
    name = column_of(state, rng, "threshold", "probability", "weight", "value", "gain")
    column = columns[name] = columns[name].astype(np.float64)
    column.flat[rng.integers(column.size)] = pick(rng, [np.nan, -np.inf])


def feature(state, rng):
    columns = state.fitted["columns"]
    column = columns["feature"] = columns["feature"].astype(np.int64)
    column[rng.integers(len(column))] = pick(rng, [-2, -1, 6, 7, 10**9, 2**40])


def probabilities(state, rng):
    columns = state.fitted["columns"]
    name = column_of(state, rng, "probability", "value")
    column = columns[name] = columns[name].astype(np.float64)
    column[rng.integers(len(column))] += pick(rng, [-2.0, 0.25, 1.0, 1e300])


def categories(state, rng):
    columns = state.fitted["columns"]
    fitted = state.fitted
    changes = [
        lambda: columns.update(is_categorical=1 - columns["is_categorical"]),
        lambda: columns.update(bitset=columns["bitset"].astype(np.int64) + pick(rng, [1, 5, 10**6])),
        lambda: columns.update(bitset_counts=columns["bitset_counts"].astype(np.int64) + pick(rng, [-1, 1, 10**6])),
        lambda: columns.update(raw_bitsets=columns["raw_bitsets"] | np.uint32(2**31)),
        lambda: columns.update(binned_bitsets=np.roll(columns["binned_bitsets"], 1, axis=1)),
        lambda: columns.update(raw_bitsets=columns["raw_bitsets"][:-1]),
        lambda: columns.update(raw_bitsets=columns["raw_bitsets"].astype(np.int64)),
        lambda: fitted.update(is_categorical=~fitted["is_categorical"]),
        lambda: fitted.update(is_categorical=fitted["is_categorical"][:-1]),
        lambda: fitted.update(is_categorical=None),
        lambda: fitted.update(categories=fitted["categories"][:-1]),
        lambda: fitted.update(categories=[*fitted["categories"], np.arange(3.0)]),
        lambda: fitted.update(categories=[own[::-1].copy() for own in fitted["categories"]]),
        lambda: fitted.update(categories=[own[:2] for own in fitted["categories"]]),
        lambda: fitted.update(categories=[np.arange(300.0) for _ in fitted["categories"]]),
        lambda: fitted.update(categories=[np.array([1, "a", None], dtype=object) for _ in fitted["categories"]]),
        lambda: fitted.update(n_bins=pick(rng, [0, 2, 40, 257, 2**40, "many", None])),
    ]
    pick(rng, changes)()


def declared(state, rng):
    fitted = state.fitted
    classes = fitted["classes"]
    changes = [
        lambda: fitted.update(n_features=pick(rng, [-1, 0, 1, 2, 5, 7, 10**6, 2**62, 6.0, True, "6", None])),
        lambda: fitted.update(classes=pick(rng, [classes[:1], classes[:-1], classes[::-1].copy(), classes[:, None]])),
        lambda: fitted.update(classes=pick(rng, [np.arange(9), np.zeros(2), np.array(["a", 1, None], object), None])),
        lambda: fitted.update(feature_names=pick(rng, [["a"], list("abcdef"), [1] * 6, "abcdef", list("aaaaaa")])),
        lambda: fitted.pop(pick(rng, list(fitted))),
        lambda: fitted.update(extra=np.zeros(3)),
        lambda: fitted["columns"].pop(column_of(state, rng)),
        lambda: fitted["columns"].update(extra=np.zeros(3)),
        lambda: fitted["columns"].update({column_of(state, rng): pick(rng, [None, 3, "x", [1, 2, 3], {}])}),
        lambda: fitted.update(columns=pick(rng, [None, [], {}, np.zeros(3)])),
        lambda: fitted.update(baseline=pick(rng, [None, np.zeros((1, 1)), np.full((1, 4), np.nan), np.zeros(4)])),
        lambda: setattr(state, "estimator", pick(rng, ["SVC", "ExtraTreesClassifier", "DecisionTreeClassifier", 3])),
        lambda: state.parameters.update(max_depth=pick(rng, [-1, "deep", 2.5, [3]])),
        lambda: state.parameters.update(n_jobs=8),
        lambda: state.parameters.update(random_state="zero"),
        lambda: setattr(state, "parameters", pick(rng, [None, [], {"criterion": "odd"}])),
        lambda: setattr(state, "fitted", pick(rng, [None, [], 3])),
        lambda: setattr(state, "also", 3),
    ]
    pick(rng, changes)()


REFUSED = (own_parent, shared_child, one_child, not_finite, longer_or_shorter, feature)  # whatever the draw
OTHERS = (
    change_entry,
    change_child,
    swapped_children,
    counts,
    other_shape,
    other_dtype,
    probabilities,
    categories,
    declared,
)


def forge(states, rng):
    """A forged state and the name of its change."""
    change = pick(rng, (*REFUSED, *OTHERS))
    allowed = [state for state in states if change is not categories or state.fitted.get("categories")]
    state = copy.deepcopy(pick(rng, allowed))
    if change in OTHERS and rng.random() < 0.2:
        pick(rng, (change_entry, change_child, swapped_children, probabilities))(state, rng)
    change(state, rng)
    return state, change.__name__


def check_predictions(model, X):
    """A harmless change may change predictions; they remain probabilities."""
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), len(model.classes_))
    assert np.isfinite(proba).all()
    assert proba.min() >= 0
    assert proba.max() <= 1 + 1e-9
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
    assert np.isin(model.predict(X), model.classes_).all()


def load_state(state):
    """What `load_model` does after skops."""
    check_estimators(state)
    return restore_tree_estimators(state, ())


def write(folder, card, state):
    """A file of this state, with matching checksums."""
    payload = skops.dumps(state)
    card["payload"]["sha256"] = hashlib.sha256(payload).hexdigest()
    pack(folder / "forged.unseen", card, payload)
    return folder / "forged.unseen"


def main(folder, seed, number):
    faulthandler.enable()
    warnings.simplefilter("ignore")  # such as that X has no names of features
    rng = np.random.default_rng(seed)
    states = sound_states()
    save_model(DecisionTreeClassifier(), folder / "sound.unseen", {})
    card, _ = unpack(folder / "sound.unseen")
    X = samples(50, 2)
    X[0] = np.nan
    X[1] = 1e30
    X[2] = -1e30
    results = defaultdict(lambda: {"refused": 0, "harmless": 0})
    for state in states:
        check_predictions(load_model(write(folder, card, state)).estimator, X)
    for i in range(number):
        state, change = forge(states, rng)
        in_file = i % 5 == 0
        try:
            model = load_model(write(folder, card, state)).estimator if in_file else load_state(state)
        except ValueError as error:
            if in_file and not (isinstance(error, ModelFileError) and isinstance(error.__cause__, ValueError)):
                raise  # an accident that came after the checks
            results[change]["refused"] += 1
        else:
            check_predictions(model, X)
            results[change]["harmless"] += 1
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
