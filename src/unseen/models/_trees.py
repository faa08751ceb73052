"""Checks of the decision trees in a model file, before compiled code of scikit-learn follows them.

A tree of scikit-learn is an array of nodes. Compiled code starts at the first node and follows the indices of children
without comparing them with the length of the array, and reads the column that a node names without comparing it with
the number of columns. A forged index would read memory outside of the arrays, or loop forever.

Loading follows no node. skops builds a `Tree` by its constructor and `Tree.__setstate__`, which compares dtype and
shapes of the arrays and copies them (sklearn/tree/_tree.pyx); a `TreePredictor` of gradient boosting only gets its
attributes (skops/io/_general.py, `ObjectNode`). Nodes are followed by `predict`, `apply` and `decision_path` alone. So
the functions below run after skops and before the first prediction, on the arrays that predictions will use.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.tree._tree import NODE_DTYPE, Tree

Array = npt.NDArray[Any]

SINGLE_TREES = (DecisionTreeClassifier, ExtraTreeClassifier)
FORESTS = (ExtraTreesClassifier, RandomForestClassifier)
TREE_ESTIMATORS = (*SINGLE_TREES, *FORESTS, HistGradientBoostingClassifier)
# Parts of them that are no estimators by themselves.
TREE_PARTS = (TreePredictor, _BinMapper)
# The fields of nodes that this module checks. A version of scikit-learn with other ones needs other checks.
NODE_FIELDS = {
    "left_child",
    "right_child",
    "feature",
    "threshold",
    "impurity",
    "n_node_samples",
    "weighted_n_node_samples",
    "missing_go_to_left",
}
BOOSTING_FIELDS = {
    "left",
    "right",
    "value",
    "count",
    "gain",
    "feature_idx",
    "num_threshold",
    "missing_go_to_left",
    "bin_threshold",
    "is_categorical",
    "bitset_idx",
    "depth",
    "is_leaf",
}
# Fields of both kinds of nodes that describe training, which predictions do not read.
TRAINING_FIELDS = {"impurity", "n_node_samples", "weighted_n_node_samples", "count", "gain", "bin_threshold"}
# Attributes of fitted boosting that a file does not hold: a random generator, an encoder of labels, the loss, which
# follows from the number of classes, and the encoder of categories, which follows from the categories.
DROPPED_ATTRIBUTES = ("_feature_subsample_rng", "_label_encoder", "_loss", "_preprocessor")
CATEGORIES = "_categories"  # attribute of boosting in a file: an array for each categorical feature
PREDICTOR_ARRAYS = {"nodes", "raw_left_cat_bitsets", "binned_left_cat_bitsets"}
FOREST_LEAF = -1  # child of a leaf
# The time of a prediction is proportional to the number of levels. Trees that are grown to purity on random data have
# about 2 log2(rows).
MAX_TREE_LEVELS = 10_000
MAX_ENCODED_VALUES = 2**24  # of the rows from which an encoder of categories is made
MAX_CATEGORIES = 255  # of a feature of boosting: their codes are bytes
BITSET_WORDS = 8  # of 32 bits, one bit for each code
PROBABILITY_TOLERANCE = 1e-6  # rounding errors of a sum of class proportions are far smaller


def check_node_fields() -> None:
    """Raise ValueError if nodes have other fields than those that are checked."""
    if set(NODE_DTYPE.names) != NODE_FIELDS or set(PREDICTOR_RECORD_DTYPE.names) != BOOSTING_FIELDS:
        raise ValueError(
            f"the trees of scikit-learn {sklearn.__version__} have other fields than this version of unseen can "
            "check. Install a newer version of unseen, or an older one of scikit-learn"
        )


def clear_training_fields(nodes: Array) -> None:
    """Set fields of nodes that only describe their training to zero, so that files are smaller."""
    for name in TRAINING_FIELDS.intersection(nodes.dtype.fields or ()):
        nodes[name] = 0


def strip_boosting(boosting: Any) -> None:
    """Remove from boosting what predictions do not need, or what follows from the rest, before it is stored."""
    for tree in itertools.chain(*getattr(boosting, "_predictors", ())):
        clear_training_fields(tree.nodes)
    encoder = getattr(boosting, "_preprocessor", None)
    for name in DROPPED_ATTRIBUTES:
        vars(boosting).pop(name, None)
    if encoder is not None:
        setattr(boosting, CATEGORIES, list(encoder.named_transformers_["encoder"].categories_))


def restore_boosting(boosting: Any) -> None:
    """Make what `strip_boosting` removed of boosting, which was loaded and checked."""
    if "_predictors" not in vars(boosting):
        return
    boosting._loss = boosting._get_loss(sample_weight=None)
    boosting._preprocessor = None
    categories = vars(boosting).pop(CATEGORIES, None)
    if categories is not None:  # the encoder is fitted to rows that have all of them
        X = np.zeros((max(map(len, categories)), boosting.n_features_in_))
        for column, own in zip(np.flatnonzero(boosting.is_categorical_), categories, strict=True):
            X[:, column] = np.resize(own, len(X))
        boosting._preprocess_X(X, reset=True)


def check_forest(forest: Any) -> None:
    """Check a fitted forest, or a single tree."""
    check_node_fields()
    members = [forest] if isinstance(forest, SINGLE_TREES) else forest.estimators_
    n_classes = len(forest.classes_)
    _require(type(members) is list and len(members) > 0, "it has no trees")
    for member in members:
        tree = member.tree_
        is_consistent = (
            type(member) in SINGLE_TREES
            and type(tree) is Tree
            and member.n_features_in_ == tree.n_features == forest.n_features_in_
            and tree.n_outputs == member.n_outputs_ == forest.n_outputs_ == 1
            and np.ndim(forest.classes_) == 1
            and tree.n_classes.tolist() == [n_classes]
            and member.n_classes_ == forest.n_classes_ == len(member.classes_) == n_classes
        )
        _require(is_consistent, "features, outputs or classes of a tree are not those of its forest")
        # The capacity is the length of the array; the node count is what the file says.
        _require(tree.node_count == tree.capacity > 0, "a tree has more or fewer nodes than it says")
    trees = [member.tree_ for member in members]
    nodes = np.concatenate([tree.__getstate__()["nodes"] for tree in trees])
    left = nodes["left_child"]
    is_leaf = left == FOREST_LEAF
    _require(
        np.array_equal(is_leaf, nodes["right_child"] == FOREST_LEAF), "a node has one child; two or none are allowed"
    )
    counts = np.array([tree.node_count for tree in trees])
    depth = _check_branches(left, nodes["right_child"], is_leaf, counts)
    starts = np.cumsum(counts) - counts
    declared = [tree.max_depth for tree in trees]
    _require(np.array_equal(np.maximum.reduceat(depth, starts), declared), "a tree is not as deep as it says")
    _check_splits(nodes[~is_leaf], "feature", "threshold", forest.n_features_in_)
    for tree in trees:
        proportions = tree.value
        is_distribution = np.abs(proportions.sum(axis=2) - 1.0) <= PROBABILITY_TOLERANCE
        _require(bool((proportions >= 0).all() and is_distribution.all()), "class proportions do not sum to 1")


def check_boosting(boosting: Any) -> None:
    """Check fitted gradient boosting."""
    check_node_fields()
    _require("_in_fit" not in vars(boosting), "boosting takes its input for bins, as within `fit`")
    n_features = boosting.n_features_in_
    n_classes = len(boosting.classes_)
    _require(np.ndim(boosting.classes_) == 1 and n_classes > 1, "the classes of boosting are not two or more names")
    n_columns = 1 if n_classes == 2 else n_classes
    baseline = boosting._baseline_prediction
    is_baseline = type(baseline) is np.ndarray and baseline.dtype == np.float64 and baseline.shape == (1, n_columns)
    _require(is_baseline and bool(np.isfinite(baseline).all()), f"the baseline is not {n_columns} finite numbers")
    iterations = boosting._predictors
    is_complete = (
        type(iterations) is list
        and len(iterations) > 0
        and all(type(trees) is list and len(trees) == n_columns for trees in iterations)
        and type(boosting.n_trees_per_iteration_) is int
        and boosting.n_trees_per_iteration_ == n_columns
    )
    _require(is_complete, f"an iteration of boosting does not have {n_columns} trees")
    is_categorical = _check_categories(boosting, n_features)
    trees = [tree for iteration in iterations for tree in iteration]
    for tree in trees:
        _check_predictor(tree)
    nodes = np.concatenate([tree.nodes for tree in trees])
    for name in ("is_leaf", "is_categorical"):
        _require(bool((nodes[name] <= 1).all()), f"{name} of a node is neither 0 nor 1")
    is_leaf = nodes["is_leaf"] == 1
    counts = np.array([len(tree.nodes) for tree in trees])
    depth = _check_branches(nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), is_leaf, counts)
    _require(np.array_equal(depth, nodes["depth"]), "a node is not as deep as it says")
    _require(bool(np.isfinite(nodes["value"]).all()), "a value of boosting is not finite")
    splits = nodes[~is_leaf]
    _check_splits(splits, "feature_idx", "num_threshold", n_features)
    # Compiled code looks up the known categories of a feature by its place among the categorical ones, which other
    # features do not have.
    splits_categories = splits["is_categorical"] == 1
    is_consistent = np.array_equal(splits_categories, is_categorical[splits["feature_idx"]])
    _require(is_consistent, "a split by categories is not of a categorical feature")
    n_bitsets = np.repeat([len(tree.raw_left_cat_bitsets) for tree in trees], counts)[~is_leaf]
    is_outside = splits_categories & (splits["bitset_idx"] >= n_bitsets)
    _require(not is_outside.any(), "a split names a bitset that its tree does not have")


def _check_predictor(tree: Any) -> None:
    """Check types and shapes of the arrays of a boosted tree."""
    _require(type(tree) is TreePredictor and vars(tree).keys() == PREDICTOR_ARRAYS, "a boosted tree is not one")
    nodes = tree.nodes
    has_nodes = type(nodes) is np.ndarray and nodes.dtype == PREDICTOR_RECORD_DTYPE
    _require(has_nodes and nodes.ndim == 1 and len(nodes) > 0, "a boosted tree has no array of nodes")
    shape = (len(tree.raw_left_cat_bitsets), BITSET_WORDS)
    for bitsets in (tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets):
        are_bitsets = type(bitsets) is np.ndarray and bitsets.dtype == np.uint32 and bitsets.shape == shape
        _require(are_bitsets, "the bitsets of a boosted tree are not rows of eight words")


def _check_categories(boosting: Any, n_features: int) -> Array:
    """Check the categories; return which features are categorical, in the order that trees see: these come first."""
    mapper = boosting._bin_mapper
    mask: Any = getattr(mapper, "is_categorical_", None)
    is_mapper = type(mapper) is _BinMapper and type(mask) is np.ndarray and mask.shape == (n_features,)
    is_mapper = is_mapper and type(mapper.bin_thresholds_) is list and len(mapper.bin_thresholds_) == n_features
    _require(is_mapper and mask.dtype == np.uint8, "the bins are not those of all features")
    categories = vars(boosting).get(CATEGORIES)
    n_categorical = 0 if categories is None else len(categories)
    is_categorical: Array = np.arange(n_features) < n_categorical
    _require(np.array_equal(mask, is_categorical), "the categorical features are not those with categories")
    if categories is None:
        return is_categorical
    positions = np.asarray(boosting.categorical_features)
    _require(positions.dtype.kind in "bi", "categorical_features are not positions of columns")
    chosen = np.zeros(n_features, dtype=bool)
    chosen[positions] = True
    is_chosen = np.array_equal(boosting.is_categorical_, chosen) and int(chosen.sum()) == n_categorical
    _require(is_chosen, "the categorical features are not those with categories")
    codes = mapper.bin_thresholds_[:n_categorical]
    are_bounded = all(own.ndim == 1 and 0 < len(own) <= MAX_CATEGORIES + 1 for own in categories) and all(
        own.ndim == 1 and bool(((own >= 0) & (own <= MAX_CATEGORIES)).all()) for own in codes
    )
    _require(are_bounded, f"a feature has more than {MAX_CATEGORIES} categories")
    are_sorted = all(
        own.dtype.kind == "f" and np.array_equal(own, np.unique(own), equal_nan=True) for own in categories
    )
    _require(are_sorted, "the categories of a feature are not different numbers in their order")
    _require(max(map(len, categories)) * n_features <= MAX_ENCODED_VALUES, "there are too many features")
    return is_categorical


def _check_branches(left: Array, right: Array, is_leaf: Array, counts: Array) -> Array:
    """Check that the children form one tree each; return the distance of each node from its root.

    A child has a larger index than its parent, and every node but the root is the child of exactly one node. By
    induction over the index, each node is then reached from the root on exactly one path, which has no cycle.

    Parameters
    ----------
    left, right : ndarray of shape (n_nodes,)
        Children, by their index in the own tree.
    is_leaf : ndarray of bool of shape (n_nodes,)
        Nodes whose children have no meaning.
    counts : ndarray of shape (n_trees,)
        Number of nodes of each tree; the trees follow each other.
    """
    starts = np.cumsum(counts) - counts
    start = np.repeat(starts, counts)
    local = np.arange(len(is_leaf)) - start
    size = np.repeat(counts, counts)
    for child in (left, right):
        _require(not (~is_leaf & ((child <= local) | (child >= size))).any(), "a child is not a later node of its tree")
    left = left + start
    right = right + start
    n_parents = np.bincount(np.concatenate([left[~is_leaf], right[~is_leaf]]), minlength=len(is_leaf))
    _require(np.array_equal(n_parents, local > 0), "a node has no parent or several; exactly one is expected")
    depth = np.zeros(len(is_leaf), dtype=np.int64)
    level = starts
    while True:
        splits = level[~is_leaf[level]]
        if len(splits) == 0:
            return depth
        level = np.concatenate([left[splits], right[splits]])
        depth[level] = depth[splits[0]] + 1
        if depth[level[0]] > MAX_TREE_LEVELS:
            raise ValueError(f"a tree has more than {MAX_TREE_LEVELS:,} levels. Set max_depth")


def _check_splits(splits: Array, feature: str, threshold: str, n_features: int) -> None:
    """Check features and thresholds of inner nodes."""
    features = splits[feature]
    _require(not ((features < 0) | (features >= n_features)).any(), "a split uses a feature that is not there")
    # Plus infinity separates missing values from all others; NaN is not above minus infinity.
    is_number = splits[threshold] > -np.inf
    _require(bool(is_number.all()), "a threshold is neither finite nor plus infinity")
    _require(bool((splits["missing_go_to_left"] <= 1).all()), "missing_go_to_left of a split is neither 0 nor 1")


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise ValueError(f"its trees are not sound: {reason}")
