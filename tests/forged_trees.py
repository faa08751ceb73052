"""Model files with forged trees, made by seeded changes of sound ones. Run as a program, so that a crash is noticed.

``python forged_trees.py FOLDER SEED NUMBER`` loads so many forged files and prints, as JSON, how often each change was
refused and how often it was harmless. Anything else ends the program with an error. The arrays and the description in
the file are changed, as an attacker would.
"""

from __future__ import annotations

import copy
import faulthandler
import io
import json
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from model_files import inner_archive, inner_members, unpack, with_payload
from unseen.models import ModelFileError, load_model, save_model

NUMBERS = [-(2**63), -(2**31), -5, -2, -1, 0, 1, 2, 3, 7, 100, 255, 256, 10**6, 2**31, 2**32, 2**62, 2**63 - 1]
DTYPES = ["i1", "u1", ">i4", "<u8", "f2", "f4", ">f8", "c16", "?", "U3", "S2", "M8[s]"]


def samples(n_samples, seed):
    """Four numeric features with missing values, and two of categories."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 6))
    X[:, 4] = rng.integers(0, 5, n_samples)
    X[:, 5] = rng.integers(0, 40, n_samples)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def sound_estimators():
    X = samples(300, 0)
    rng = np.random.default_rng(1)
    noisy = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 4]) + rng.normal(size=len(X))
    binary = np.where(noisy > 2, "yes", "no")
    multi = np.digitize(noisy, [0.0, 2.0, 4.0])
    boosting = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=6, min_samples_leaf=5, random_state=0)
    categorical = copy.deepcopy(boosting).set_params(categorical_features=[4, 5])
    return [
        estimator.fit(X, y)
        for estimator, y in (
            (RandomForestClassifier(3, max_depth=4, random_state=0), multi),
            (ExtraTreesClassifier(3, max_depth=4, random_state=0), binary),
            (DecisionTreeClassifier(max_leaf_nodes=12, random_state=0), multi),
            (boosting, binary),
            (categorical, binary),
            (copy.deepcopy(categorical), multi),
        )
    ]


class Forgery:
    """The arrays and the description of a stored estimator, to be changed."""

    def __init__(self, payload, rng):
        members = inner_members(payload)
        self.rng = rng
        self.schema = json.loads(members.pop("schema.json"))
        self.arrays = {name: np.load(io.BytesIO(content)) for name, content in members.items()}

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def find(self, *kinds):
        """The name of an array of one of these kinds."""
        found = [name for name, array in self.arrays.items() if kind_of(array) in kinds]
        return self.pick(found) if found else None

    def nodes(self):
        """The nodes of a tree that has splits, and the names of its fields for children, feature and threshold."""
        names = [name for name, array in self.arrays.items() if kind_of(array) in FIELDS and len(array) > 1]
        nodes = self.arrays[self.pick(names)]
        return nodes, FIELDS[kind_of(nodes)]

    def payload(self):
        members = {}
        for name, array in self.arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            members[name] = buffer.getvalue()
        return inner_archive({"schema.json": json.dumps(self.schema), **members})


FIELDS = {
    "forest": ("left_child", "right_child", "feature", "threshold"),
    "boosting": ("left", "right", "feature_idx", "num_threshold"),
}


def kind_of(array):
    if array.dtype.names:
        return "forest" if "left_child" in array.dtype.names else "boosting"
    if array.dtype == np.uint32 and array.ndim == 2:
        return "bitsets"
    return "values" if array.ndim == 3 else "other"


def is_split(nodes):
    return nodes["left_child"] >= 0 if "left_child" in nodes.dtype.names else nodes["is_leaf"] == 0


def split_node(forgery, nodes):
    return forgery.pick(np.flatnonzero(is_split(nodes)))


def change_child(forgery):
    nodes, fields = forgery.nodes()
    low = -2 if kind_of(nodes) == "forest" else 0
    node = forgery.rng.integers(len(nodes))
    nodes[forgery.pick(fields[:2])][node] = forgery.rng.integers(low, len(nodes) + 2)


def own_parent(forgery):
    nodes, fields = forgery.nodes()
    node = split_node(forgery, nodes)
    nodes[forgery.pick(fields[:2])][node] = forgery.rng.integers(0, node + 1)  # itself, or a node before it


def shared_child(forgery):
    nodes, (left, right, *_) = forgery.nodes()
    node = split_node(forgery, nodes)
    nodes[right][node] = nodes[left][node]


def one_child(forgery):
    nodes, fields = forgery.nodes()
    node = split_node(forgery, nodes)
    nodes[forgery.pick(fields[:2])][node] = -1 if kind_of(nodes) == "forest" else 0


def swapped_children(forgery):
    """Harmless: the branches of one split change places."""
    nodes, (left, right, *_) = forgery.nodes()
    node = split_node(forgery, nodes)
    nodes[left][node], nodes[right][node] = nodes[right][node], nodes[left][node]


def feature(forgery):
    nodes, (_, _, name, _) = forgery.nodes()
    nodes[name][split_node(forgery, nodes)] = forgery.pick([-2, -1, 6, 7, 10**9, 2**40])


def not_finite(forgery):
    """NaN, or an infinity that is no threshold of missing values."""
    value = forgery.pick([np.nan, -np.inf])
    proportions = forgery.find("values")
    if proportions is not None and forgery.rng.random() < 0.5:
        forgery.arrays[proportions][0, 0, 0] = value
        return
    nodes, (_, _, _, threshold) = forgery.nodes()
    if kind_of(nodes) == "boosting" and forgery.rng.random() < 0.5:
        nodes["value"][forgery.rng.integers(len(nodes))] = value
    else:
        nodes[threshold][split_node(forgery, nodes)] = value


def longer_or_shorter(forgery):
    name = forgery.find("forest", "boosting", "values")
    array = forgery.arrays[name]
    changes = [array[:0], np.concatenate([array, array[-1:]])]
    forgery.arrays[name] = forgery.pick([*changes, array[:-1]] if len(array) > 1 else changes)


def leaves(forgery):
    """A leaf that is followed, a split that is not, or a depth that is wrong."""
    nodes, fields = forgery.nodes()
    if kind_of(nodes) == "forest":
        leaf = np.flatnonzero(nodes["left_child"] < 0)[0]
        nodes[fields[0]][leaf], nodes[fields[1]][leaf] = 1, 2
        return
    name = forgery.pick(["is_leaf", "depth"])
    nodes[name][forgery.rng.integers(len(nodes))] += 1


def change_entry(forgery):
    name = forgery.pick(list(forgery.arrays))
    array = forgery.arrays[name]
    if not array.size or array.dtype.kind in "US":
        return
    view = array[forgery.pick(array.dtype.names)] if array.dtype.names else array
    with np.errstate(all="ignore"):
        value = np.array(forgery.pick(NUMBERS)).astype(view.dtype, casting="unsafe")
    if view.ndim == 0:
        forgery.arrays[name] = value
    else:
        view[tuple(forgery.rng.integers(size) for size in view.shape)] = value


def other_shape(forgery):
    name = forgery.pick(list(forgery.arrays))
    array = forgery.arrays[name]
    forgery.arrays[name] = forgery.pick([array[np.newaxis], array[..., np.newaxis], array.ravel()[:1]])


def other_dtype(forgery):
    name = forgery.find("values", "bitsets", "other")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            forgery.arrays[name] = forgery.arrays[name].astype(forgery.pick(DTYPES), casting="unsafe")
        except (TypeError, ValueError):
            forgery.arrays[name] = np.zeros(3, dtype="V3")


def categories(forgery):
    name = forgery.find("bitsets")
    nodes, _ = forgery.nodes()
    if name is None or kind_of(nodes) == "forest":
        return feature(forgery)
    changes = [
        lambda: nodes.__setitem__("is_categorical", 1 - nodes["is_categorical"]),
        lambda: nodes.__setitem__("is_categorical", 2),
        lambda: nodes.__setitem__("bitset_idx", nodes["bitset_idx"] + forgery.pick([5, 10**6])),
        lambda: forgery.arrays.update({name: forgery.arrays[name][:-1]}),
        lambda: forgery.arrays.update({name: forgery.arrays[name][:, :-1].copy()}),
        lambda: forgery.arrays.update({name: forgery.arrays[name].astype(np.int64)}),
    ]
    return forgery.pick(changes)()


def declared(forgery):
    """A number or a text of the description, such as a number of nodes, outputs or features."""
    values = [node for node in nested_nodes(forgery.schema) if node.get("__loader__") == "JsonNode"]
    forgery.pick(values)["content"] = json.dumps(forgery.pick([*NUMBERS, 0.5, "x", None, True]))


def nested_nodes(node):
    if isinstance(node, dict):
        yield node
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nested_nodes(value)


REFUSED = (own_parent, shared_child, one_child, not_finite, longer_or_shorter, feature, leaves)  # whatever the draw
OTHERS = (change_entry, change_child, swapped_children, other_shape, other_dtype, categories, declared)


def forge(payloads, rng):
    """A forged payload and the name of its change."""
    change = (*REFUSED, *OTHERS)[rng.integers(len(REFUSED) + len(OTHERS))]
    forgery = Forgery(payloads[rng.integers(len(payloads))], rng)
    change(forgery)
    return forgery.payload(), change.__name__


def check_predictions(model, X):
    """A harmless change may change predictions; they remain probabilities."""
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), len(model.classes_))
    assert np.isfinite(proba).all()
    assert proba.min() >= 0
    assert proba.max() <= 1 + 1e-9
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)


def main(folder, seed, number):
    faulthandler.enable()
    warnings.simplefilter("ignore")  # such as that X has no names of features
    rng = np.random.default_rng(seed)
    X = samples(50, 2)
    X[0] = np.nan
    X[1] = 1e30
    X[2] = -1e30
    payloads = []
    for estimator in sound_estimators():
        save_model(estimator, folder / "sound.unseen", {})
        check_predictions(load_model(folder / "sound.unseen").estimator, X)
        payloads.append(unpack(folder / "sound.unseen")[1])
    results = defaultdict(lambda: {"refused": 0, "harmless": 0})
    for _ in range(number):
        payload, change = forge(payloads, rng)
        try:
            model = load_model(with_payload(folder / "forged.unseen", folder / "sound.unseen", payload)).estimator
        except ModelFileError:
            results[change]["refused"] += 1
            continue
        try:
            check_predictions(model, X)
        except (AttributeError, KeyError, TypeError, ValueError):  # such as a parameter that `predict` reads
            results[change]["refused"] += 1
        else:
            results[change]["harmless"] += 1
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
