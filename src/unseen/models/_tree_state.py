"""Tree ensembles as plain arrays: how a model file holds them.

scikit-learn stores trees through pickles whose constructors copy whatever arrays they are given. A model file holds a
`TreeState` in their place: the parameters of the estimator and columns of numbers. `decode_trees` checks the columns
(`_tree_checks`) and builds the estimator from them. Its predictions are equal to those of the estimator that was
stored, bit by bit.

A file holds what predictions need. Of inner nodes of a forest, the class proportions, impurities and numbers of samples
are computed from the leaves, and differ by rounding errors. What only describes training is not stored: out-of-bag
scores, training and validation scores of boosting, seeds of single trees and the bins of numeric features.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import NODE_DTYPE, Tree
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ._tree_checks import (
    BOOSTING_COLUMNS,
    BOOSTING_LEAF,
    FOREST_COLUMNS,
    FOREST_LEAF,
    LARGEST_COUNT,
    MAX_BINS,
    MAX_FEATURES,
    Array,
    TreeShape,
    check_boosting,
    check_forest,
    check_tree_total,
    count_trees,
    tree_chunks,
)

FORESTS = (DecisionTreeClassifier, ExtraTreesClassifier, RandomForestClassifier)
TREE_ESTIMATORS = (*FORESTS, HistGradientBoostingClassifier)
NOT_STORED = ("n_jobs", "verbose")  # parameters that say how to compute, not what: a file does not decide them
# The fields of nodes that this module can check. A version of scikit-learn with other ones needs other checks.
NODE_FIELDS = (
    "left_child",
    "right_child",
    "feature",
    "threshold",
    "impurity",
    "n_node_samples",
    "weighted_n_node_samples",
    "missing_go_to_left",
)
BOOSTING_FIELDS = {  # by the names of columns
    "left": "left",
    "right": "right",
    "value": "value",
    "samples": "count",
    "gain": "gain",
    "feature": "feature_idx",
    "threshold": "num_threshold",
    "missing_go_to_left": "missing_go_to_left",
    "bin_threshold": "bin_threshold",
    "is_categorical": "is_categorical",
    "bitset": "bitset_idx",
}
DERIVED_BOOSTING_FIELDS = ("depth", "is_leaf")
UNDEFINED = -2  # feature and threshold of the leaves of a forest


@dataclass(eq=False)
class TreeState:
    """A tree ensemble, or an estimator that would fit one, in plain values.

    Parameters
    ----------
    estimator : str
        Name of its type, one of `TREE_ESTIMATORS`.
    parameters : dict
        What its constructor takes, without `NOT_STORED`.
    fitted : dict
        What it has learned; empty before `fit`.
    """

    estimator: str
    parameters: dict[str, Any]
    fitted: dict[str, Any]

    @property
    def classes_(self) -> Any:
        """Class labels of a fitted ensemble."""
        if "classes" not in self.fitted:
            raise AttributeError(f"This {self.estimator} is not fitted.")
        return self.fitted["classes"]


def encode_trees(estimator: Any) -> TreeState:
    """Describe a tree ensemble in plain values.

    Parameters
    ----------
    estimator : DecisionTreeClassifier, ExtraTreesClassifier, RandomForestClassifier or HistGradientBoostingClassifier
        Fitted or not.

    Returns
    -------
    state : TreeState
        From which `decode_trees` makes an estimator with equal predictions. ValueError is raised for estimators of
        which that is not possible, such as those of several outputs.
    """
    _check_versions()
    parameters = estimator.get_params(deep=False)
    stored = {name: value for name, value in parameters.items() if name not in NOT_STORED}
    state = TreeState(type(estimator).__name__, stored, {})
    if not _is_fitted(estimator):
        return state
    if isinstance(estimator, HistGradientBoostingClassifier):
        state.fitted.update(_encode_boosting(estimator))
    else:
        state.fitted.update(_encode_forest(estimator))
    names = getattr(estimator, "feature_names_in_", None)
    state.fitted |= {
        "classes": estimator.classes_,
        "n_features": int(estimator.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
    }
    _Decoder(state).check_trees()  # what would not be read back is not written
    return state


def decode_trees(state: TreeState) -> Any:
    """Build the estimator that a state describes; ValueError if compiled code would not survive it.

    Parameters
    ----------
    state : TreeState
        Of any origin.

    Returns
    -------
    estimator : classifier
        With default values of `NOT_STORED`.
    """
    _check_versions()
    return _Decoder(state).build()


def replace_tree_estimators(model: Any, types: tuple[type, ...]) -> Any:
    """Replace the tree ensembles in a model by their states.

    Parameters
    ----------
    model : object
        Built from dictionaries, lists, tuples and objects of the given types. It is not changed: what holds trees is
        copied, and all else is shared.
    types : tuple of type
        Objects whose attributes are searched.

    Returns
    -------
    model : object
        The model without trees.
    """
    total = _Total()

    def encode(part: Any) -> Any:
        if type(part) not in TREE_ESTIMATORS:
            return part
        state = encode_trees(part)
        total.add(_Decoder(state))
        return state

    return _replace(model, encode, types)


def restore_tree_estimators(model: Any, types: tuple[type, ...]) -> Any:
    """Replace the states in a model by the tree ensembles that they describe: the inverse of the above."""
    total = _Total()

    def restore(part: Any) -> Any:
        if type(part) is not TreeState:
            return part
        decoder = _Decoder(part)
        total.add(decoder)
        return decoder.build()

    _check_versions()
    return _replace(model, restore, types)


class _Total:
    """What all tree ensembles of a model have together, which is bounded."""

    def __init__(self) -> None:
        self._n_trees = 0
        self._n_nodes = 0
        self._array_ids: set[int] = set()

    def add(self, decoder: _Decoder) -> None:
        # A file may name one array in many places. Each ensemble takes as much memory as its arrays stand for, so
        # ensembles that share arrays would let a small file take much.
        if not self._array_ids.isdisjoint(decoder.array_ids):
            raise ValueError("two tree ensembles share an array")
        self._array_ids |= decoder.array_ids
        self._n_trees += decoder.n_trees
        self._n_nodes += decoder.n_nodes
        check_tree_total(self._n_trees, self._n_nodes)


def _replace(model: Any, convert: Callable[[Any], Any], types: tuple[type, ...]) -> Any:
    """Copy a model, with parts replaced by what `convert` returns for them. Shared parts remain shared."""
    replaced: dict[int, Any] = {}

    def visit(part: Any) -> Any:
        if id(part) in replaced:
            return replaced[id(part)]
        replaced[id(part)] = part  # until it is known: a part may hold itself
        new = convert(part)
        if new is part:
            new = visit_inside(part)
        replaced[id(part)] = new
        return new

    def visit_inside(part: Any) -> Any:
        if type(part) is dict:
            values = {key: visit(value) for key, value in part.items()}
            return values if any(values[key] is not part[key] for key in part) else part
        if type(part) in (list, tuple):
            items = [visit(item) for item in part]
            has_changed = any(new is not old for new, old in zip(items, part, strict=True))
            return type(part)(items) if has_changed else part
        if type(part) in types:
            state = visit(vars(part))
            if state is not vars(part):
                part = copy.copy(part)
                vars(part).update(state)
        return part

    return visit(model)


def _check_versions() -> None:
    """Raise ValueError if nodes have other fields than those that are checked."""
    expected = {*BOOSTING_FIELDS.values(), *DERIVED_BOOSTING_FIELDS}
    if set(NODE_DTYPE.names) != set(NODE_FIELDS) or set(PREDICTOR_RECORD_DTYPE.names) != expected:
        raise ValueError(
            f"the trees of scikit-learn {sklearn.__version__} have other fields than this version of unseen can "
            "check. Install a newer version of unseen, or an older one of scikit-learn"
        )


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _encode_forest(estimator: Any) -> dict[str, Any]:
    single = isinstance(estimator, DecisionTreeClassifier)
    trees = [member.tree_ for member in ([estimator] if single else estimator.estimators_)]
    if any(tree.n_outputs != 1 for tree in trees):
        raise ValueError(f"{type(estimator).__name__} predicts several outputs; fit one estimator for each")
    states = [tree.__getstate__() for tree in trees]
    check_tree_total(len(trees), sum(len(state["nodes"]) for state in states))
    nodes = np.concatenate([state["nodes"] for state in states])
    values = np.concatenate([state["values"] for state in states])
    is_leaf = nodes["left_child"] == FOREST_LEAF
    columns = {
        "node_counts": np.array([len(state["nodes"]) for state in states]),
        "left": nodes["left_child"],
        "right": nodes["right_child"],
        "feature": nodes["feature"][~is_leaf],
        "threshold": nodes["threshold"][~is_leaf],
        "missing_go_to_left": nodes["missing_go_to_left"][~is_leaf],
        "probability": values[is_leaf, 0],
        "samples": nodes["n_node_samples"][is_leaf],
        "weight": nodes["weighted_n_node_samples"][is_leaf],
    }
    return {"columns": {name: _shrink(column) for name, column in columns.items()}}


def _encode_boosting(estimator: Any) -> dict[str, Any]:
    predictors = [predictor for iteration in estimator._predictors for predictor in iteration]
    check_tree_total(len(predictors), sum(len(predictor.nodes) for predictor in predictors))
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    is_split = nodes["is_leaf"] == 0
    of_splits = ("feature", "threshold", "missing_go_to_left", "bin_threshold", "is_categorical", "bitset")
    columns = {
        name: nodes[field][is_split] if name in of_splits else nodes[field] for name, field in BOOSTING_FIELDS.items()
    }
    columns["node_counts"] = np.array([len(predictor.nodes) for predictor in predictors])
    columns["bitset_counts"] = np.array([len(predictor.raw_left_cat_bitsets) for predictor in predictors])
    shrunk = {name: _shrink(column) for name, column in columns.items()}
    shrunk["binned_bitsets"] = np.concatenate([predictor.binned_left_cat_bitsets for predictor in predictors])
    shrunk["raw_bitsets"] = np.concatenate([predictor.raw_left_cat_bitsets for predictor in predictors])
    is_categorical = np.zeros(estimator.n_features_in_, dtype=bool)
    categories: list[Array] = []
    if estimator._preprocessor is not None:
        is_categorical[:] = estimator.is_categorical_
        categories = list(estimator._preprocessor.named_transformers_["encoder"].categories_)
    return {
        "columns": shrunk,
        "baseline": estimator._baseline_prediction,
        "n_bins": int(estimator._bin_mapper.n_bins),
        "is_categorical": is_categorical,
        "categories": categories,
    }


def _shrink(values: Array) -> Array:
    """The same numbers in the smallest type that holds them exactly, which makes files about three times smaller."""
    if values.dtype.kind == "f":
        is_whole = np.isfinite(values) & (np.trunc(values) == values) & (np.abs(values) < LARGEST_COUNT)
        if (is_whole & ~((values == 0) & np.signbit(values))).all():
            values = values.astype(np.int64)
        else:
            with np.errstate(over="ignore"):
                single = values.astype(np.float32)
            return single if np.array_equal(single, values) else values
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    for dtype in (np.int8, np.int16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values.astype(np.int64)


class _Decoder:
    """Builds the estimator of a state. All but the trees is checked first, and the trees chunk by chunk."""

    def __init__(self, state: TreeState) -> None:
        kinds = {kind.__name__: kind for kind in TREE_ESTIMATORS}
        if vars(state).keys() != {"estimator", "parameters", "fitted"}:
            raise ValueError(f"a tree ensemble has the attributes {sorted(vars(state))}")
        if type(state.estimator) is not str or state.estimator not in kinds:
            raise ValueError(f"a tree ensemble is of type {state.estimator!r}; {sorted(kinds)} are allowed")
        self._kind = kinds[state.estimator]
        self._unfitted = self._check_parameters(state.parameters)
        self._fitted = state.fitted
        self.n_trees = 0
        self.n_nodes = 0
        self.array_ids: set[int] = set()
        if type(state.fitted) is not dict:
            raise ValueError(f"what {state.estimator} has learned is {type(state.fitted).__name__}, not a dictionary")
        if not state.fitted:
            return
        expected = {"classes", "n_features", "feature_names", "columns"}
        is_boosting = self._kind is HistGradientBoostingClassifier
        if is_boosting:
            expected |= {"baseline", "n_bins", "is_categorical", "categories"}
        if state.fitted.keys() != expected:
            raise ValueError(
                f"{state.estimator} has learned {sorted(map(str, state.fitted))}; {sorted(expected)} is expected"
            )
        self._check_general()
        expected_columns = BOOSTING_COLUMNS if is_boosting else FOREST_COLUMNS
        self.n_trees, self.n_nodes = count_trees(state.fitted["columns"], expected_columns)
        self.array_ids = {id(column) for column in state.fitted["columns"].values()}
        if is_boosting:
            self._check_boosting()
            self.array_ids.add(id(state.fitted["is_categorical"]))
        elif self._kind is DecisionTreeClassifier and self.n_trees != 1:
            raise ValueError(f"{state.estimator} has {self.n_trees} trees; 1 is expected")

    def check_trees(self) -> None:
        """Raise ValueError unless the trees are sound; builds nothing."""
        for _ in self._chunks():
            pass

    def _chunks(self) -> Iterator[tuple[dict[str, Array], TreeShape]]:
        """The columns of a few trees after another, checked."""
        columns = self._fitted["columns"]
        if self._kind is HistGradientBoostingClassifier:
            for chunk in tree_chunks(columns, BOOSTING_COLUMNS, BOOSTING_LEAF):
                yield check_boosting(chunk, self._is_first, self._n_categories, self._fitted["n_bins"])
        else:
            for chunk in tree_chunks(columns, FOREST_COLUMNS, FOREST_LEAF):
                yield check_forest(chunk, self._n_features, self._n_classes)

    def build(self) -> Any:
        """The estimator."""
        estimator = self._unfitted
        if not self._fitted:
            return estimator
        estimator.classes_ = self._fitted["classes"]
        estimator.n_features_in_ = self._n_features
        names = self._feature_names
        if names is not None:
            estimator.feature_names_in_ = names
        if isinstance(estimator, HistGradientBoostingClassifier):
            self._build_boosting(estimator)
        else:
            self._build_forest(estimator)
        return estimator

    def _check_parameters(self, parameters: Any) -> Any:
        """An estimator that is not fitted, with parameters that scikit-learn accepts."""
        allowed = inspect.signature(self._kind).parameters.keys() - set(NOT_STORED)
        if type(parameters) is not dict or not parameters.keys() <= allowed:
            unknown = sorted(set(map(str, parameters)) - allowed) if isinstance(parameters, dict) else parameters
            raise ValueError(f"{self._kind.__name__} of scikit-learn {sklearn.__version__} has no parameters {unknown}")
        estimator = self._kind(**parameters)
        estimator._validate_params()
        return estimator

    def _check_general(self) -> None:
        fitted = self._fitted
        classes = fitted["classes"]
        is_array = type(classes) is np.ndarray and classes.ndim == 1 and classes.dtype.kind in "biufSUO"
        is_array = is_array and (classes.dtype != object or all(type(entry) is str for entry in classes))
        if not is_array or len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
            raise ValueError(f"the classes of {self._kind.__name__} are not an array of two or more, sorted")
        self._n_classes = len(classes)
        self._n_features = fitted["n_features"]
        if type(self._n_features) is not int or not 1 <= self._n_features <= MAX_FEATURES:
            raise ValueError(
                f"{self._kind.__name__} has n_features = {self._n_features!r}; 1 to {MAX_FEATURES:,} are allowed"
            )
        names = fitted["feature_names"]
        self._feature_names: Array | None = None
        if names is not None:
            if type(names) is not list or len(names) != self._n_features or {type(name) for name in names} != {str}:
                raise ValueError(f"the feature names of {self._kind.__name__} are not {self._n_features} texts")
            self._feature_names = np.array(names, dtype=object)

    def _check_boosting(self) -> None:
        fitted = self._fitted
        n_bins = fitted["n_bins"]
        if type(n_bins) is not int or not 3 <= n_bins <= MAX_BINS:
            raise ValueError(f"n_bins is {n_bins!r}; 3 to {MAX_BINS} are allowed")
        self._per_iteration = 1 if self._n_classes == 2 else self._n_classes
        baseline = fitted["baseline"]
        is_baseline = type(baseline) is np.ndarray and baseline.dtype == np.float64
        if not is_baseline or baseline.shape != (1, self._per_iteration) or not np.isfinite(baseline).all():
            raise ValueError(f"baseline is not {self._per_iteration} finite numbers in double precision")
        self._categories = self._check_categories(n_bins)
        # The preprocessor places categorical features before all others, and trees see them in that order.
        self._is_first = np.arange(self._n_features) < len(self._categories)
        self._n_categories = np.zeros(self._n_features, dtype=np.int64)
        self._n_categories[self._is_first] = [len(_without_missing(own)) for own in self._categories]
        if self.n_trees % self._per_iteration:
            raise ValueError(f"there are {self.n_trees} trees, but {self._per_iteration} in each iteration")

    def _check_categories(self, n_bins: int) -> list[Array]:
        mask = self._fitted["is_categorical"]
        categories = self._fitted["categories"]
        if type(mask) is not np.ndarray or mask.dtype != np.bool_ or mask.shape != (self._n_features,):
            raise ValueError(f"is_categorical is not an array of {self._n_features} logical values")
        if type(categories) is not list or len(categories) != int(mask.sum()):
            raise ValueError(f"there are not as many lists of categories as categorical features, {int(mask.sum())}")
        for own in categories:
            known = _without_missing(own) if type(own) is np.ndarray and own.ndim == 1 else None
            if known is None or len(own) == 0 or len(known) > n_bins - 1:
                raise ValueError(f"the categories of a feature are not an array of 1 to {n_bins - 1}")
            is_number = known.dtype.kind in "biuf"
            is_text = known.dtype.kind == "U" or (known.dtype == object and all(type(entry) is str for entry in known))
            if not (is_number or is_text) or not np.array_equal(np.unique(known), known):
                raise ValueError("the categories of a feature are not numbers or texts, sorted")
        return categories

    def _build_forest(self, estimator: Any) -> None:
        estimator.n_outputs_ = 1
        estimator.n_classes_ = self._n_classes
        trees = []
        for columns, shape in self._chunks():
            nodes, values = _forest_nodes(columns, shape, estimator.criterion)
            depth = shape.depth
            for start, stop in zip(shape.starts[:-1], shape.starts[1:], strict=True):
                tree = Tree(self._n_features, np.array([self._n_classes], dtype=np.intp), 1)
                state = {"nodes": nodes[start:stop], "values": values[start:stop], "node_count": int(stop - start)}
                tree.__setstate__({**state, "max_depth": int(depth[start:stop].max())})
                trees.append(tree)
        if isinstance(estimator, DecisionTreeClassifier):
            estimator.tree_ = trees[0]
            return
        estimator._validate_estimator()  # sets estimator_, of which the members are copies
        member = estimator._make_estimator(append=False)
        member.n_features_in_ = self._n_features
        member.n_outputs_ = 1
        member.classes_ = np.arange(self._n_classes, dtype=np.float64)  # the forest has the labels
        member.n_classes_ = self._n_classes
        estimator.estimators_ = [copy.copy(member) for _ in trees]
        for each, tree in zip(estimator.estimators_, trees, strict=True):
            each.tree_ = tree

    def _build_boosting(self, estimator: Any) -> None:
        predictors = []
        for columns, shape in self._chunks():
            nodes = _boosting_nodes(columns, shape)
            bitset_starts = np.concatenate([[0], np.cumsum(columns["bitset_counts"])])
            for tree in range(len(shape.starts) - 1):
                bitsets = slice(bitset_starts[tree], bitset_starts[tree + 1])
                predictor = TreePredictor(
                    nodes[shape.starts[tree] : shape.starts[tree + 1]],
                    columns["binned_bitsets"][bitsets],
                    columns["raw_bitsets"][bitsets],
                )
                predictors.append(predictor)
        k = self._per_iteration
        estimator._predictors = [predictors[i : i + k] for i in range(0, len(predictors), k)]
        estimator._baseline_prediction = self._fitted["baseline"]
        estimator.n_trees_per_iteration_ = k
        estimator._n_features = self._n_features
        estimator._loss = estimator._get_loss(sample_weight=None)
        n_categorical = len(self._categories)
        bin_mapper = _BinMapper(n_bins=self._fitted["n_bins"], is_categorical=self._is_first if n_categorical else None)
        bin_mapper.is_categorical_ = self._is_first.astype(np.uint8)
        bin_mapper.missing_values_bin_idx_ = self._fitted["n_bins"] - 1
        # Predictions of raw values use the categories and no thresholds of bins.
        codes = [np.arange(len(_without_missing(own)), dtype=np.float64) for own in self._categories]
        bin_mapper.bin_thresholds_ = [*codes, *[np.empty(0)] * (self._n_features - n_categorical)]
        estimator._bin_mapper = bin_mapper
        estimator.is_categorical_ = None
        estimator._preprocessor = None
        estimator._is_categorical_remapped = None
        if n_categorical:
            estimator.is_categorical_ = self._fitted["is_categorical"]
            estimator._is_categorical_remapped = self._is_first
            estimator._preprocessor = self._category_encoder()

    def _category_encoder(self) -> ColumnTransformer:
        """What `HistGradientBoostingClassifier` prepares its input with: codes of categories, then other columns."""
        mask = self._fitted["is_categorical"]
        is_number = all(own.dtype.kind in "biuf" for own in self._categories)
        example = np.zeros((1, self._n_features), dtype=np.float64 if is_number else object)
        for feature, own in zip(np.flatnonzero(mask), self._categories, strict=True):
            example[0, feature] = own[0]
        encoder = OrdinalEncoder(
            categories=self._categories,
            handle_unknown="use_encoded_value",
            unknown_value=np.nan,
            encoded_missing_value=np.nan,
            dtype=np.float64,
        )
        numbers = FunctionTransformer(partial(check_array, dtype=[np.float64], ensure_all_finite=False))
        prepare = ColumnTransformer([("encoder", encoder, mask), ("numerical", numbers, ~mask)])
        prepare.set_output(transform="default")
        prepare.fit(example)
        fitted_encoder = prepare.named_transformers_["encoder"]
        fitted_encoder.categories_ = self._categories  # `fit` gives all of them the type of the example
        if self._feature_names is not None:
            prepare.feature_names_in_ = self._feature_names
            fitted_encoder.feature_names_in_ = self._feature_names[mask]
        return prepare


def _without_missing(categories: Array) -> Array:
    """The categories without the mark of missing values, which stands last if there is one."""
    last = categories[-1] if len(categories) else None
    return categories[:-1] if isinstance(last, (float, np.floating)) and np.isnan(last) else categories


def _forest_nodes(columns: dict[str, Array], shape: TreeShape, criterion: str) -> tuple[Array, Array]:
    """Nodes and class proportions as scikit-learn has them; those of inner nodes are sums over their leaves."""
    is_leaf = shape.is_leaf
    is_split = ~is_leaf
    n_nodes = len(is_leaf)
    start = np.repeat(shape.starts[:-1], np.diff(shape.starts))
    weight = np.zeros(n_nodes)
    weight[is_leaf] = columns["weight"]
    samples = np.zeros(n_nodes, dtype=np.int64)
    samples[is_leaf] = columns["samples"]
    probability = np.zeros((n_nodes, columns["probability"].shape[1]))
    probability[is_leaf] = columns["probability"]
    for level in reversed(shape.levels):
        inner = level[is_split[level]]
        left, right = shape.left[inner], shape.right[inner]
        weight[inner] = weight[left] + weight[right]
        samples[inner] = samples[left] + samples[right]
        share = (weight[left] / weight[inner])[:, np.newaxis]
        probability[inner] = share * probability[left] + (1.0 - share) * probability[right]
    if criterion == "gini":
        impurity = 1.0 - np.square(probability).sum(axis=1)
    else:
        impurity = -(probability * np.log2(np.where(probability > 0, probability, 1.0))).sum(axis=1)
    nodes = np.zeros(n_nodes, dtype=NODE_DTYPE)
    nodes["left_child"] = np.where(is_leaf, FOREST_LEAF, shape.left - start)
    nodes["right_child"] = np.where(is_leaf, FOREST_LEAF, shape.right - start)
    nodes["feature"] = UNDEFINED
    nodes["threshold"] = UNDEFINED
    for name in ("feature", "threshold", "missing_go_to_left"):
        nodes[name][is_split] = columns[name]
    nodes["impurity"] = impurity
    nodes["n_node_samples"] = samples
    nodes["weighted_n_node_samples"] = weight
    return nodes, probability[:, np.newaxis, :]


def _boosting_nodes(columns: dict[str, Array], shape: TreeShape) -> Array:
    """Nodes as scikit-learn has them."""
    is_split = ~shape.is_leaf
    start = np.repeat(shape.starts[:-1], np.diff(shape.starts))
    nodes = np.zeros(len(is_split), dtype=PREDICTOR_RECORD_DTYPE)
    nodes["left"][is_split] = (shape.left - start)[is_split]
    nodes["right"][is_split] = (shape.right - start)[is_split]
    nodes["depth"] = shape.depth
    nodes["is_leaf"] = shape.is_leaf
    for column, field in BOOSTING_FIELDS.items():
        if column in ("value", "samples", "gain"):
            nodes[field] = columns[column]
        elif column not in ("left", "right"):
            nodes[field][is_split] = columns[column]
    return nodes
