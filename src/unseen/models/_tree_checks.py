"""Checks of the nodes of decision trees, done before compiled code of scikit-learn sees them.

A decision tree in scikit-learn is an array of nodes. Compiled code starts at the first node and follows the indices of
children without comparing them with the length of the array, and reads the column of a sample that a node names without
comparing it with the number of columns. A forged index would read memory outside the arrays or loop forever. The
functions below take the nodes as plain columns, one array for each field, and raise ValueError unless every claim holds
that the compiled code relies on.

The trees of an ensemble are stored one after another, so each column is one array for all trees and the checks are
vectorized. ``node_counts`` holds the number of nodes of each tree. Indices of children count from the root of their own
tree, which is node 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Limits of a model file, for the sum over all ensembles in it. Each tree becomes Python objects of about 700 bytes
# however few nodes it has, so 100,000 trees take 70 MB. Boosting of 100 classes in 500 iterations has 50,000.
MAX_TREES = 100_000
# A node takes 64 bytes in memory, and 8 more for each class, while a forged file can describe it in about 6 bytes. So
# 2**25 nodes take 2.7 GB for two classes, and a file needs 180 MB for them. 500 trees grown to purity on
# 50,000 rows have 2**24.
MAX_TREE_NODES = 2**25
# Trees are checked and built in chunks of about this many nodes, because the checks need some 200 bytes for each node
# that they work on.
CHUNK_NODES = 2**17
# The checks take one step for each level. Trees that are grown to purity on random data have about 2 log2(rows) levels.
MAX_TREE_LEVELS = 10_000
MAX_FEATURES = 2**22  # that an estimator may declare without an array of that length
MAX_BINS = 256  # of gradient boosting, one of them for missing values: bins are bytes
BITSET_WORDS = 8  # of 32 bits, one bit for each bin
LARGEST_COUNT = 2**53  # whole numbers up to this one are exact in double precision
PROBABILITY_TOLERANCE = 1e-6  # rounding errors of a sum of class proportions are far smaller, forged values rarely are

# The columns of forests and single trees, and what they have a row for. Inner nodes have splits, all others are leaves.
FOREST_COLUMNS = {
    "node_counts": "tree",
    "left": "node",
    "right": "node",
    "feature": "split",
    "threshold": "split",
    "missing_go_to_left": "split",
    "probability": "leaf",
    "samples": "leaf",
    "weight": "leaf",
}
FOREST_LEAF = -1  # what marks a leaf in the columns "left" and "right"
BOOSTING_LEAF = 0
# The columns of gradient boosting. The trees of an iteration, one for each class, stand side by side.
BOOSTING_COLUMNS = {
    "node_counts": "tree",
    "left": "node",
    "right": "node",
    "value": "node",
    "samples": "node",
    "gain": "node",
    "feature": "split",
    "threshold": "split",
    "missing_go_to_left": "split",
    "bin_threshold": "split",
    "is_categorical": "split",
    "bitset": "split",
    "bitset_counts": "tree",
    "binned_bitsets": "bitset",
    "raw_bitsets": "bitset",
}


@dataclass(frozen=True)
class TreeShape:
    """The branches of several trees, which have been checked.

    Attributes
    ----------
    starts : ndarray of shape (n_trees + 1,)
        Where the nodes of each tree begin, and where those of the last tree end.
    left, right : ndarray of shape (n_nodes,)
        Children by their index among the nodes of all trees. Those of leaves have no meaning.
    is_leaf : ndarray of shape (n_nodes,), dtype=bool
    levels : list of ndarray
        Indices of the nodes at each distance from the roots; the first array holds the roots.
    """

    starts: Array
    left: Array
    right: Array
    is_leaf: Array
    levels: list[Array]

    @property
    def depth(self) -> Array:
        """Distance of each node from its root."""
        depth = np.zeros(len(self.is_leaf), dtype=np.int64)
        for level, nodes in enumerate(self.levels):
            depth[nodes] = level
        return depth


def check_tree_total(n_trees: int, n_nodes: int) -> None:
    """Raise ValueError if a model has more trees, or more nodes in its trees, than a file may hold."""
    if n_trees > MAX_TREES:
        raise ValueError(f"it has {n_trees:,} trees; at most {MAX_TREES:,} are allowed in a file. Fit fewer")
    if n_nodes > MAX_TREE_NODES:
        raise ValueError(
            f"its trees have {n_nodes:,} nodes; at most {MAX_TREE_NODES:,} are allowed in a file. Use fewer trees, or "
            "smaller ones by max_depth, max_leaf_nodes or min_samples_leaf"
        )


def tree_chunks(columns: Any, expected: Mapping[str, str], leaf_mark: int) -> Iterator[dict[str, Array]]:
    """Divide the columns of many trees into those of a few trees each.

    Parameters
    ----------
    columns : dict of ndarray
        Of any content.
    expected : dict of str
        `FOREST_COLUMNS` or `BOOSTING_COLUMNS`.
    leaf_mark : int
        `FOREST_LEAF` or `BOOSTING_LEAF`.

    Yields
    ------
    chunk : dict of ndarray
        Views of the columns. Those that are too short give chunks that `check_forest` or `check_boosting` refuse;
        ValueError is raised for those that are too long.
    """
    n_trees, n_nodes = count_trees(columns, expected)
    check_tree_total(n_trees, n_nodes)
    if n_trees == 0:
        raise ValueError("it has no trees")
    node_counts = _check_integers(columns, "node_counts", n_trees, 1, n_nodes)
    if int(node_counts.sum()) != n_nodes:
        raise ValueError(f"node_counts sum to {int(node_counts.sum()):,}, but there are {n_nodes:,} nodes")
    left = columns["left"]
    if left.ndim != 1 or left.dtype.kind not in "iu":
        raise ValueError(f"left of its trees is an array of {left.dtype} of shape {left.shape}; integers are expected")
    bitset_counts = np.zeros(n_trees, dtype=np.int64)
    if "bitset_counts" in columns:
        bitset_counts = _check_integers(columns, "bitset_counts", n_trees, 0, columns["raw_bitsets"].size)
    stops = dict.fromkeys(("tree", "node", "split", "leaf", "bitset"), 0)
    # A new chunk begins with the tree that has a node at a multiple of the number of nodes.
    firsts = np.flatnonzero(np.diff(np.cumsum(node_counts) // CHUNK_NODES, prepend=-1))
    for first, end in zip(firsts, [*firsts[1:], n_trees], strict=True):
        starts = stops
        node_stop = starts["node"] + int(node_counts[first:end].sum())
        n_leaves = int((left[starts["node"] : node_stop] == leaf_mark).sum())
        stops = {
            "tree": int(end),
            "node": node_stop,
            "split": starts["split"] + node_stop - starts["node"] - n_leaves,
            "leaf": starts["leaf"] + n_leaves,
            "bitset": starts["bitset"] + int(bitset_counts[first:end].sum()),
        }
        yield {name: columns[name][starts[rows] : stops[rows]] for name, rows in expected.items()}
    for name, rows in expected.items():
        if len(columns[name]) != stops[rows]:
            raise ValueError(f"{name} of its trees has {len(columns[name]):,} rows; {stops[rows]:,} are expected")


def count_trees(columns: Any, expected: Mapping[str, str]) -> tuple[int, int]:
    """Number of trees, and of their nodes, before anything is known of the columns but their names."""
    if type(columns) is not dict or columns.keys() != expected.keys():
        names = sorted(map(str, columns)) if isinstance(columns, dict) else type(columns).__name__
        raise ValueError(f"its trees have the columns {names}; {sorted(expected)} are expected")
    for name, column in columns.items():
        if type(column) is not np.ndarray or column.ndim == 0:
            raise ValueError(f"{name} of its trees is {type(column).__name__}; an array with rows is expected")
    return columns["node_counts"].size, columns["left"].size


def check_forest(columns: Mapping[str, Array], n_features: int, n_classes: int) -> tuple[dict[str, Array], TreeShape]:
    """Check some trees of a forest.

    Parameters
    ----------
    columns : dict of ndarray
        A chunk of `tree_chunks`, of any dtypes.
    n_features, n_classes : int
        Of the estimator.

    Returns
    -------
    columns : dict of ndarray
        The same values, as int64 or float64.
    shape : TreeShape
        The branches.
    """
    shape = _check_branches(columns, FOREST_LEAF)
    n_leaves = int(shape.is_leaf.sum())
    n_splits = len(shape.is_leaf) - n_leaves
    probability = _check_numbers(columns, "probability", (n_leaves, n_classes), 0.0, 1.0)
    if (np.abs(probability.sum(axis=1) - 1.0) > PROBABILITY_TOLERANCE).any():
        raise ValueError("the class probabilities of a leaf do not sum to 1")
    checked = {
        "feature": _check_integers(columns, "feature", n_splits, 0, n_features - 1),
        "threshold": _check_thresholds(columns, n_splits),
        "missing_go_to_left": _check_integers(columns, "missing_go_to_left", n_splits, 0, 1),
        "probability": probability,
        "samples": _check_integers(columns, "samples", n_leaves, 1, LARGEST_COUNT // n_leaves),
        "weight": _check_numbers(columns, "weight", (n_leaves,), low=np.finfo(np.float64).tiny),
    }
    return checked, shape


def check_boosting(
    columns: Mapping[str, Array], is_categorical: Array, n_categories: Array, n_bins: int
) -> tuple[dict[str, Array], TreeShape]:
    """Check some trees of gradient boosting.

    Parameters
    ----------
    columns : dict of ndarray
        A chunk of `tree_chunks`, of any dtypes.
    is_categorical : ndarray of shape (n_features,), dtype=bool
        Which features are categorical, in the order in which trees see them.
    n_categories : ndarray of shape (n_features,)
        Number of categories of the categorical features, 0 for others.
    n_bins : int
        Number of bins, with the one for missing values, which is the last.

    Returns
    -------
    columns : dict of ndarray
        The same values, as int64 or float64; bitsets as uint32.
    shape : TreeShape
        The branches.
    """
    shape = _check_branches(columns, BOOSTING_LEAF)
    n_trees = len(shape.starts) - 1
    n_nodes = len(shape.is_leaf)
    n_splits = n_nodes - int(shape.is_leaf.sum())
    feature = _check_integers(columns, "feature", n_splits, 0, len(is_categorical) - 1)
    splits_categories = _check_integers(columns, "is_categorical", n_splits, 0, 1).astype(bool)
    # Compiled code looks up the known categories of a feature by its place among the categorical ones. Other features
    # have no such place, and there may be no known categories at all.
    if not np.array_equal(splits_categories, is_categorical[feature]):
        raise ValueError("is_categorical of a split is not that of its feature")
    # A feature of one category is split by whether it is missing: scikit-learn keeps a bitset for such a split and may
    # let it name another one of the same tree, so each bitset exists but need not be used.
    tree = np.repeat(np.arange(n_trees), np.diff(shape.starts))[~shape.is_leaf]
    bitset_counts = _check_integers(columns, "bitset_counts", n_trees, 0, n_nodes)
    if not np.array_equal(bitset_counts, np.bincount(tree[splits_categories], minlength=n_trees)):
        raise ValueError("bitset_counts are not the numbers of categorical splits")
    bitset = _check_integers(columns, "bitset", n_splits, 0, n_nodes)
    if (bitset[splits_categories] >= bitset_counts[tree[splits_categories]]).any() or bitset[~splits_categories].any():
        raise ValueError("a split names a bitset that its tree does not have")
    n_bitsets = int(bitset_counts.sum())
    bitsets = {name: _check_bitsets(columns, name, n_bitsets) for name in ("binned_bitsets", "raw_bitsets")}
    bitset_starts = np.cumsum(bitset_counts) - bitset_counts
    rows = bitset[splits_categories] + bitset_starts[tree[splits_categories]]
    known = np.zeros(n_bitsets, dtype=np.int64)  # a bitset that no split names has no bits
    np.maximum.at(known, rows, n_categories[feature[splits_categories]])
    _check_bits(bitsets["raw_bitsets"], known, missing_bit=None)
    _check_bits(bitsets["binned_bitsets"], known, missing_bit=n_bins - 1)
    checked = {
        "value": _check_numbers(columns, "value", (n_nodes,)),
        "samples": _check_integers(columns, "samples", n_nodes, 0, 2**32 - 1),
        "gain": _check_numbers(columns, "gain", (n_nodes,)),
        "feature": feature,
        "threshold": _check_thresholds(columns, n_splits),
        "missing_go_to_left": _check_integers(columns, "missing_go_to_left", n_splits, 0, 1),
        "bin_threshold": _check_integers(columns, "bin_threshold", n_splits, 0, n_bins - 1),
        "is_categorical": splits_categories,
        "bitset": bitset,
        "bitset_counts": bitset_counts,
        **bitsets,
    }
    return checked, shape


def _check_branches(columns: Mapping[str, Any], leaf_mark: int) -> TreeShape:
    """Check that the children form one tree each, and number the nodes through all trees.

    A child has a larger index than its parent, and every node but the root is the child of exactly one node. By
    induction over the index, each node is then reached from the root on exactly one path, which has no cycle.
    """
    counts = columns["node_counts"].astype(np.int64)  # which `tree_chunks` has checked
    n_nodes = int(counts.sum())
    left = _check_integers(columns, "left", n_nodes, leaf_mark, n_nodes - 1)
    right = _check_integers(columns, "right", n_nodes, leaf_mark, n_nodes - 1)
    is_leaf = left == leaf_mark
    if not np.array_equal(is_leaf, right == leaf_mark):
        raise ValueError("a node has one child; two or none are expected")
    starts = np.concatenate([[0], np.cumsum(counts)])
    start = np.repeat(starts[:-1], counts)
    local = np.arange(n_nodes) - start
    size = np.repeat(counts, counts)
    for child in (left, right):
        if (~is_leaf & ((child <= local) | (child >= size))).any():
            raise ValueError("a child is not a later node of its tree")
    left += start
    right += start
    n_parents = np.bincount(np.concatenate([left[~is_leaf], right[~is_leaf]]), minlength=n_nodes)
    if (n_parents != (local > 0)).any():
        raise ValueError("a node has no parent or several; exactly one is expected, and none of a root")
    levels = [starts[:-1]]
    while True:
        splits = levels[-1][~is_leaf[levels[-1]]]
        if len(splits) == 0:
            return TreeShape(starts, left, right, is_leaf, levels)
        if len(levels) > MAX_TREE_LEVELS:
            raise ValueError(f"a tree has more than {MAX_TREE_LEVELS:,} levels. Set max_depth")
        levels.append(np.concatenate([left[splits], right[splits]]))


def _check_integers(columns: Mapping[str, Any], name: str, length: int, low: int, high: int) -> Array:
    """An array of whole numbers from `low` to `high`, as int64."""
    values = columns[name]
    if values.dtype.kind not in "iu" or values.shape != (length,):
        raise ValueError(
            f"{name} of its trees is an array of {values.dtype} of shape {values.shape}; integers of shape ({length},) "
            "are expected"
        )
    if length and not (low <= int(values.min()) and int(values.max()) <= high):
        raise ValueError(f"{name} of its trees is from {values.min()} to {values.max()}; {low} to {high} are allowed")
    return values.astype(np.int64)


def _check_numbers(
    columns: Mapping[str, Any], name: str, shape: tuple[int, ...], low: float = -np.inf, high: float = np.inf
) -> Array:
    """An array of finite numbers from `low` to `high`, as float64."""
    values = _check_real(columns, name, shape)
    if not (np.isfinite(values) & (low <= values) & (values <= high)).all():
        raise ValueError(f"{name} of its trees has values that are not finite numbers from {low:g} to {high:g}")
    return values


def _check_thresholds(columns: Mapping[str, Any], n_splits: int) -> Array:
    """Thresholds are finite, or plus infinity for splits that separate missing values from all others."""
    values = _check_real(columns, "threshold", (n_splits,))
    if not (values > -np.inf).all():  # which NaN is not
        raise ValueError("threshold of its trees has values that are neither finite nor plus infinity")
    return values


def _check_real(columns: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    values = columns[name]
    is_real = values.dtype.kind in "iu" or (values.dtype.kind == "f" and values.dtype.itemsize in (4, 8))
    if not is_real or values.shape != shape:
        raise ValueError(
            f"{name} of its trees is an array of {values.dtype} of shape {values.shape}; numbers of shape {shape} are "
            "expected"
        )
    return np.asarray(values, dtype=np.float64)


def _check_bitsets(columns: Mapping[str, Any], name: str, n_bitsets: int) -> Array:
    values = columns[name]
    if values.dtype != np.uint32 or values.shape != (n_bitsets, BITSET_WORDS):
        raise ValueError(
            f"{name} of its trees is an array of {values.dtype} of shape {values.shape}; uint32 of shape "
            f"{(n_bitsets, BITSET_WORDS)} is expected"
        )
    return np.ascontiguousarray(values, dtype=np.uint32)


def _check_bits(bitsets: Array, known: Array, missing_bit: int | None) -> None:
    """Bits stand for the known categories of the feature, and for missing values if there is a bit for them."""
    octets = bitsets.astype("<u4").view(np.uint8)  # so that bytes, and the bits in them, are in ascending order
    bits = np.unpackbits(octets, axis=1, bitorder="little").astype(bool)
    if missing_bit is not None:
        bits[:, missing_bit] = False
    if (bits & (np.arange(MAX_BINS) >= known[:, None])).any():
        raise ValueError("a bitset has categories that its feature does not have")
