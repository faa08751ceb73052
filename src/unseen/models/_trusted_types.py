"""Which types a model file may hold, and what must be true of them.

The structure of a file is checked before skops builds anything from it: its size, its depth, its types, and the sizes
of its arrays. Types alone are not enough. Some estimators pass their arrays to compiled code that does not check sizes
and indices, so an altered file could end the process. What such code relies on is checked on the loaded objects, as is
what would let a small file allocate much memory in `transform`.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import io
import json
import math
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import PureWindowsPath
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, LabelBinarizer, Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from ..estimators import (
    CIDG,
    DICA,
    KFDA,
    MDA,
    SCA,
    DomainCenterer,
    DomainHarmonizer,
    MarginalTransferClassifier,
    UndoBias,
)
from ..kernels import PivotedNystroem
from ..model_selection import METHODS, EnsembleClassifier, TablePreparation
from ..shift import Novelty
from ..utils.validation import MAX_LABEL_LENGTH
from ._table_model import TableModel
from ._trees import (
    FORESTS,
    NODE_DTYPE,
    PREDICTOR_RECORD_DTYPE,
    SINGLE_TREES,
    TREE_ESTIMATORS,
    TREE_PARTS,
    Tree,
    TreePredictor,
    check_boosting,
    check_forest,
    check_function,
    drop_training_attributes,
    restore_boosting,
)

PROJECTIONS = (CIDG, DICA, KFDA, MDA, SCA)
OWN_TYPES: tuple[type, ...] = (
    *PROJECTIONS,
    DomainCenterer,
    DomainHarmonizer,
    MarginalTransferClassifier,
    Novelty,
    PivotedNystroem,
    EnsembleClassifier,
    TableModel,
    TablePreparation,
    UndoBias,
)
CLASSIFIERS = (KNeighborsClassifier, LabelBinarizer, LinearSVC, LogisticRegression, RidgeClassifier, SVC)
PREPARATIONS = (ColumnTransformer, Normalizer, OneHotEncoder, SimpleImputer, StandardScaler)
FEATURE_MAPS = (FrozenEstimator, Nystroem, Pipeline, RBFSampler)
ESTIMATORS = (*OWN_TYPES, *CLASSIFIERS, *PREPARATIONS, *FEATURE_MAPS, *TREE_ESTIMATORS, *TREE_PARTS)
# Types of packages above this one, by module and name. They read files when `transform` is called. A model file may
# hold them, but nothing of them runs while it is loaded, and `reset_runtime_settings` removes the paths that it names.
HIGHER_LAYER_TYPES = {"unseen.images._features": "ImageFeatures"}
# Parameters that say how and where to compute, not what: a file does not decide them.
RUNTIME_PARAMETERS = ("batch_size", "cache", "memory", "n_jobs", "verbose")
OUTPUT_CONFIG = "_sklearn_output_config"  # what `set_output` stores
CONTAINERS = (dict, list, set, tuple)
VALUES = (bool, float, int, slice, str, type(None))
# What estimators have beside parameters before they are fitted; constructors of scikit-learn set the last five.
UNFITTED = {OUTPUT_CONFIG, "_metadata_request", "epsilon", "estimator", "estimator_params", "nu", "radius"}


def estimator_types() -> tuple[type, ...]:
    """What a model may consist of: the parts of our own models, and what methods in the table say they need."""
    return (*ESTIMATORS, *_file_readers(), *(kind for method in METHODS.values() for kind in method.trusted_types))


def _file_readers() -> tuple[type, ...]:
    """The types of `HIGHER_LAYER_TYPES` that have been imported: no object has one of the others."""
    return tuple(getattr(sys.modules[home], name) for home, name in HIGHER_LAYER_TYPES.items() if home in sys.modules)


def estimator_names() -> list[str]:
    """Their names, as model files have them, whether or not they are loaded."""
    return [*map(type_name, estimator_types()), *(f"{home}.{name}" for home, name in HIGHER_LAYER_TYPES.items())]


def type_name(kind: type) -> str:
    """The name of a type, as model files have it."""
    return f"{kind.__module__}.{kind.__qualname__}"


# What skops may build, and by which of its loaders: all else, such as functions, sparse matrices, random generators and
# references to what came before, is in no model of this package.
SCALARS = {type_name(kind) for kind in np.sctypeDict.values() if issubclass(kind, (np.number, np.bool_, np.str_))}
LOADERS = {
    "DictNode": {"builtins.dict"},
    "DTypeNode": {"numpy.dtype"},
    "FunctionNode": {"sklearn.utils.validation.check_array"},  # of boosting with categories
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "NdArrayNode": {"numpy.ndarray", *SCALARS},
    "ObjectNode": set(),  # the types of estimators
    "PartialNode": {"functools.partial"},
    "SetNode": {"builtins.set"},
    "SliceNode": {"builtins.slice"},
    "TreeNode": {"sklearn.tree._tree.Tree"},
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {*map(type_name, (bool, float, int, str)), *SCALARS},
}
# The keys of a node: those of all nodes, and those of some loaders beside "content".
REPEATED_TYPES = {*map(type_name, (*SINGLE_TREES, TreePredictor))}  # of which an ensemble has many
NODE_KEYS = {"__class__", "__id__", "__loader__", "__module__", "content"}
LOADER_KEYS = {
    "DictNode": {"key_types"},
    "JsonNode": {"is_json"},
    "NdArrayNode": {"file", "shape", "type"},
    "TreeNode": {"__reduce__"},
}
HEADER_KEYS = {"protocol", "_skops_version"}  # of the first node alone
PROTOCOL = 2  # of skops 0.16; a file that asks for an older one would be built by older code
SCHEMA = "schema.json"
MAX_SCHEMA = 2**26  # bytes
MAX_JSON_MARKS = 2_500_000  # brackets, commas and colons; what lies between two takes up to 125 bytes once parsed
MAX_NODES = 200_000  # a pool of 8 members has 2,500, a column of levels 8
MAX_DEPTH = 30  # models of this package have 14
MAX_FEATURES = 2**22  # that an estimator may declare without an array of that length
MAX_WIDTH = 2**21  # values that a model computes for one row at a time
MAX_DOMAINS = 10_000  # of the novelty score, which compares each with all others
MAX_MEMBERS = 200  # of an ensemble
MAX_ESTIMATORS = (
    500  # without the trees of forests; an ensemble of 15 members has 110, and each takes some milliseconds
)
MAX_ABSOLUTE_VALUE = 1e150  # tables hold no number that is larger, and squares of such numbers would be infinite


def parse_json(content: bytes) -> Any:
    """Parse JSON; raise ValueError if its values would take far more memory than its text."""
    marks = sum(content.count(mark) for mark in (b"[", b"{", b",", b":"))
    if marks > MAX_JSON_MARKS:
        raise ValueError(f"its JSON has {marks:,} brackets, commas and colons; at most {MAX_JSON_MARKS:,} are read")
    return json.loads(content)


def check_structure(payload: bytes, trusted: Collection[str] = ()) -> list[str]:
    """Names of the types that a stored model has and no model of this package does; ValueError if it is not sound.

    Reads the description of the model and the headers of its arrays, and builds nothing. Trusted types may be stored in
    other ways than those of this package.
    """
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        members = archive.infolist()
        size = sum(member.file_size for member in members)
        if any(m.compress_type != zipfile.ZIP_STORED for m in members) or size > len(payload):
            raise ValueError("the model in the file is compressed twice")
        if archive.getinfo(SCHEMA).file_size > MAX_SCHEMA:
            raise ValueError(f"its description has more than {MAX_SCHEMA:,} bytes")
        schema = parse_json(archive.read(SCHEMA))
        if type(schema["protocol"]) is not int or schema["protocol"] < PROTOCOL:
            raise ValueError(f"its protocol is {schema['protocol']!r}; at least {PROTOCOL} is expected")
        structure = _Structure(archive, trusted)
        try:
            structure.check({key: schema[key] for key in schema.keys() - HEADER_KEYS}, depth=1)
        except ValueError:
            if not structure.untrusted_types:  # whose names say more
                raise
    return sorted(structure.untrusted_types)


class _Structure:
    """A walk through the description of a model, node by node."""

    def __init__(self, archive: zipfile.ZipFile, trusted: Collection[str]) -> None:
        self.untrusted_types: set[str] = set()
        self._archive = archive
        self._trusted = trusted
        self._objects = set(estimator_names())
        self._nodes = 0
        self._estimators = 0
        self._seen: dict[int, int | None] = {}  # content of nodes by their number; None while it is not known yet

    def check(self, node: Mapping[str, Any], depth: int) -> int:
        """Check a node and all below it; return a hash of what it holds.

        An object that is held in two places is written out twice, under one number, of which skops builds the first.
        So both must hold the same: a mere reference would let a short file stand for a huge structure.
        """
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise ValueError(f"it has more than {MAX_NODES:,} parts, or they are nested deeper than {MAX_DEPTH} levels")
        number, loader, name = node["__id__"], node["__loader__"], f"{node['__module__']}.{node['__class__']}"
        if type(number) is not int or number <= 0:
            raise ValueError(f"a part of it has the number {number!r}")
        if not name.replace(".", "").isidentifier():  # it may enter a command that users are told to run
            raise ValueError(f"a part of it has the type {name!r}, which is not a name")
        if name not in (self._objects if loader == "ObjectNode" else LOADERS.get(loader, ())):
            self.untrusted_types.add(name)
            if loader not in LOADERS or name in self._trusted:
                for part in _nested_nodes(node):
                    self.check(part, depth + 1)
                return 0
        if loader == "ObjectNode" and name not in REPEATED_TYPES:
            self._estimators += 1
            if self._estimators > MAX_ESTIMATORS:
                raise ValueError(f"it has more than {MAX_ESTIMATORS:,} estimators")
        unknown = node.keys() - NODE_KEYS - LOADER_KEYS.get(loader, set())
        if unknown:
            raise ValueError(f"a {name} of it has unknown keys: {', '.join(sorted(unknown))}")
        first = number not in self._seen
        known = self._seen.setdefault(number, None)
        value, parts = self._content(node, loader, name)
        content = hash((loader, name, value, *[self.check(part, depth + 1) for part in parts]))
        if not first and content != known:
            raise ValueError(f"it repeats {name} with another content")
        self._seen[number] = content
        return content

    def _content(self, node: Mapping[str, Any], loader: str, name: str) -> tuple[Any, list[Any]]:
        """What a node says about itself, and the nodes below it."""
        if loader in ("FunctionNode", "TypeNode"):
            return None, []
        if loader == "NdArrayNode" and node["type"] == "numpy":
            return self._array(node, name), []
        content = node["content"]
        if loader == "DictNode":
            return tuple(content), [node["key_types"], *content.values()]
        if loader == "PartialNode":
            return tuple(content), list(content.values())
        if loader == "TreeNode":
            return None, [node["__reduce__"]["args"], content]
        if loader == "JsonNode":
            if type(json.loads(content)) not in VALUES:
                raise ValueError(f"a value of it is {content[:40]!r}")
            return content, []
        if loader == "SliceNode":
            value = content["start"], content["stop"], content["step"]
            if not all(type(end) in (int, type(None)) for end in value):
                raise ValueError(f"a slice of it is {value!r}")
            return value, []
        if loader == "NdArrayNode":
            # NumPy would copy arrays into an array of objects element by element, as often as they are repeated.
            if name != "numpy.ndarray" or any(part["__class__"] == "ndarray" for part in content):
                raise ValueError("an array of it holds arrays")
            return None, [node["shape"], *content]
        if loader == "ObjectNode" and content["__loader__"] != "DictNode":
            raise ValueError(f"a {name} of it has no attributes")
        return None, [content] if loader in ("DTypeNode", "ObjectNode") else list(content)

    def _array(self, node: Mapping[str, Any], name: str) -> tuple[Any, ...]:
        """Type and shape of an array, which must be those of the bytes that are there."""
        if node["file"] != f"{node['__id__']}.npy":  # so that no file is read more than once
            raise ValueError(f"an array of it is in {node['file']!r}")
        with self._archive.open(node["file"]) as file:
            if np.lib.format.read_magic(file) != (1, 0):
                raise ValueError(f"{node['file']} is of another version of NumPy's format")
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            there = self._archive.getinfo(node["file"]).file_size - file.tell()
        count = math.prod(shape)
        is_plain = dtype.kind in "biufSU" or dtype in (NODE_DTYPE, PREDICTOR_RECORD_DTYPE)
        if not is_plain or count * dtype.itemsize != there or (count and not dtype.itemsize):
            raise ValueError(f"{node['file']} says that it holds {shape} of {dtype}, but it has {there:,} bytes")
        if name != "numpy.ndarray" and shape:
            raise ValueError(f"a {name} of it has the shape {shape}")
        return dtype.str, shape


def _nested_nodes(node: Any) -> Iterator[Mapping[str, Any]]:
    """The nodes directly below a node of any form."""
    for value in node.values() if isinstance(node, dict) else node:
        if isinstance(value, dict) and "__loader__" in value:
            yield value
        elif isinstance(value, (dict, list)):
            yield from _nested_nodes(value)


def copy_for_file(model: Any) -> Any:
    """Copy a model without what only served its training, with equal matrices of several members as one object.

    skops stores an object that is held in several places once.
    """
    originals: dict[Any, Any] = {}
    memo: dict[int, Any] = {}
    for part in _parts(model):
        if isinstance(part, np.ndarray) and part.ndim == 2 and not part.dtype.hasobject:
            content = hashlib.sha256(part.tobytes()).digest()
            key = (part.dtype.str, part.shape, part.flags.c_contiguous, content)
            memo[id(part)] = originals.setdefault(key, part)
    copied = copy.deepcopy(model, memo)
    for part in _parts(copied):
        if isinstance(part, HistGradientBoostingClassifier):
            drop_training_attributes(part)
    if isinstance(copied, TableModel):
        for member in copied.ensemble.members_:
            for _, step in member.steps:
                if "statistics_" in vars(step):  # sums of the training rows, from which `finalize` has computed
                    step.finalize()
                    del step.statistics_
    return copied


def untrusted_types(model: Any, trusted: Collection[str] = ()) -> list[str]:
    """Names of the types in a model that no model of this package has."""
    known = {*estimator_types(), *CONTAINERS, *VALUES, np.ndarray, Tree, partial}
    return sorted({type_name(type(part)) for part in _parts(model, trusted) if not _is_known(part, known)})


def check_estimators(model: Any, trusted: Collection[str] = ()) -> None:
    """Raise ValueError for state that compiled code would not survive, or that would take too much memory to use."""
    readers = _file_readers() if isinstance(model, TableModel) else ()
    estimators = set(estimator_types())
    checked: set[int] = set()  # trees, together with their forest
    for part in _parts(model, trusted):
        if isinstance(part, np.ndarray):
            _check_array(part)
        elif type(part) in readers:
            raise ValueError(f"a model of tables holds {type(part).__name__}, which reads files")
        elif type(part) in estimators:
            _check_attributes(part)
            if id(part) in checked or not _is_checked(part) or not _is_fitted(part):
                continue
            check_shapes(part)
            if type(part) in CHECKS:
                CHECKS[type(part)](part)
            width = _layer_width(part)
            if width > MAX_WIDTH:
                raise ValueError(
                    f"{type(part).__name__} computes {width:,} values a row; at most {MAX_WIDTH:,} are allowed"
                )
            if isinstance(part, FORESTS):
                checked.update(map(id, part.estimators_))


def reset_runtime_settings(model: Any, trusted: Collection[str] = ()) -> None:
    """Set parameters that say how and where to compute to their defaults, and remove output configurations.

    A transformer that reads a file keeps its name, not the folder: it is found in the current one, or by `set_params`.
    """
    estimators, readers = set(estimator_types()), _file_readers()
    for part in _parts(model, trusted):
        if type(part) not in estimators:
            continue
        state, parameters = vars(part), inspect.signature(type(part)).parameters
        state.pop(OUTPUT_CONFIG, None)
        for name in RUNTIME_PARAMETERS:
            if name in parameters and name in state:
                state[name] = parameters[name].default
        if type(part) in readers:
            state["model"] = PureWindowsPath(str(part.model)).name  # which splits at both kinds of slashes
    for part in _parts(model, trusted):
        if isinstance(part, HistGradientBoostingClassifier):
            restore_boosting(part)


def _check_array(array: Any) -> None:
    if array.dtype.kind == "f" and float(np.abs(array).max(initial=0, where=np.isfinite(array))) > MAX_ABSOLUTE_VALUE:
        raise ValueError(f"an array of it holds numbers beyond {MAX_ABSOLUTE_VALUE:g}")
    # Arrays of text have a fixed width: predictions would take as much memory for every row.
    if array.dtype.kind in "SU":
        length = array.dtype.itemsize // np.dtype(f"{array.dtype.kind}1").itemsize
        if length > MAX_LABEL_LENGTH:
            raise ValueError(f"an array of it holds text of {length:,} characters, more than {MAX_LABEL_LENGTH:,}")


def _check_attributes(part: Any) -> None:
    """Attributes may not replace methods or constants of the class, and declared widths must be plausible."""
    kind, state = type(part), vars(part)
    names = state.keys() - inspect.signature(kind).parameters.keys()
    # Public names that end in an underscore are learned in `fit`, and may be cached properties of the class.
    replaced = [name for name in names if hasattr(kind, name) and (name.startswith("_") or not name.endswith("_"))]
    if replaced:
        raise ValueError(f"{kind.__name__} has attributes that belong to its class: {', '.join(sorted(replaced))}")
    for name in ("n_features_in_", "_n_features_out"):
        width = state.get(name, 0)
        if not isinstance(width, (int, np.integer)) or not 0 <= width <= MAX_FEATURES:
            raise ValueError(f"{kind.__name__} has {name} = {width!r}; at most {MAX_FEATURES:,} are allowed")


def _parts(model: Any, trusted: Collection[str] = ()) -> Iterator[Any]:
    """Everything that a model consists of, once each."""
    estimators = set(estimator_types())
    seen: set[int] = set()
    rest = [model]
    while rest:
        part = rest.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            rest += [*part.keys(), *part.values()]
        elif isinstance(part, CONTAINERS):
            rest += part
        elif isinstance(part, np.ndarray) and part.dtype.hasobject:
            rest += part.ravel().tolist()
        elif type(part) in estimators or (type_name(type(part)) in trusted and hasattr(part, "__dict__")):
            rest.append(vars(part))


def _is_fitted(part: Any) -> bool:
    """Whether an estimator holds more than its parameters; without, no compiled code is ever reached."""
    more = vars(part).keys() - part.get_params(deep=False).keys()
    return not more <= UNFITTED


def _is_known(part: Any, known: set[type]) -> bool:
    if isinstance(part, type):
        return issubclass(part, np.generic)
    return type(part) in known or isinstance(part, (np.generic, np.dtype))


def _require(part: Any, **claims: bool) -> None:
    wrong = [name for name, holds in claims.items() if not holds]
    if wrong:
        raise ValueError(f"{type(part).__name__} does not fit together: {', '.join(wrong)}")


def _is_whole(array: Any, low: int, high: int) -> bool:
    """Whether an array holds whole numbers from `low` to below `high`."""
    return bool(array.dtype.kind == "i" and (array.size == 0 or (array.min() >= low and array.max() < high)))


def check_shapes(part: Any) -> dict[str, int]:
    """Check that the arrays of a fitted estimator have sizes that agree; return the sizes by their letters."""
    sizes: dict[str, int] = {}
    if "n_features_in_" in vars(part):
        sizes["n"] = int(part.n_features_in_)
    for name, letters in SHAPES.get(type(part), {}).items():
        array = vars(part).get(name)
        if array is None or isinstance(array, float):  # such as the mean of a scaler that does not center
            continue
        is_array = type(array) is np.ndarray and array.ndim == len(letters)
        agree = is_array and all(
            sizes.setdefault(letter, size) == size for letter, size in zip(letters, array.shape, strict=True)
        )
        if not agree:
            shape = getattr(array, "shape", type(array).__name__)
            raise ValueError(f"{type(part).__name__} does not fit together: {name} has the shape {shape}")
    return sizes


def find_width(model: Any) -> int:
    """The largest number of values that a part of a fitted model computes for one row."""
    estimators = set(estimator_types())
    parts = (part for part in _parts(model) if type(part) in estimators and _is_checked(part) and _is_fitted(part))
    return max((_layer_width(part) for part in parts), default=1)


def _layer_width(part: Any) -> int:
    """Number of values that a fitted estimator computes for one row, of which it may hold all rows at a time."""
    n_classes = len(getattr(part, "classes_", ()))
    if isinstance(part, OneHotEncoder):
        return sum(part._n_features_outs)
    if isinstance(part, SVC):
        return n_classes * (n_classes - 1) // 2
    if isinstance(part, EnsembleClassifier):
        return n_classes * len(part.members_)
    return max(n_classes, *check_shapes(part).values(), 1)


def _is_checked(part: Any) -> bool:
    return type(part) in SHAPES or type(part) in CHECKS


def _check_novelty(novelty: Novelty) -> None:
    n_domains = len(novelty.domains_)
    _require(novelty, domains=2 <= n_domains <= MAX_DOMAINS)


def _check_svc(svc: SVC) -> None:
    """As many numbers are read as the counts of support vectors say."""
    n_classes, n_support = len(svc.classes_), len(svc.support_)
    pairs = n_classes * (n_classes - 1) // 2
    _require(
        svc,
        kind=svc._impl == "c_svc" and svc.kernel in ("linear", "poly", "rbf", "sigmoid") and svc._sparse is False,
        classes=n_classes >= 2,
        counts=svc._n_support.shape == (n_classes,)
        and _is_whole(svc._n_support, 0, n_support + 1)
        and int(svc._n_support.sum(dtype=np.int64)) == n_support,
        support_vectors=svc.support_vectors_.shape == (n_support, svc.n_features_in_),
        coefficients=svc._dual_coef_.shape == (n_classes - 1, n_support),
        intercept=svc._intercept_.shape == (pairs,),
        probabilities={svc._probA.shape, svc._probB.shape} in ({(0,)}, {(pairs,)}),
    )


def _check_neighbors(neighbors: KNeighborsClassifier) -> None:
    """Compiled code counts the classes of neighbors without asking whether there is such a class."""
    rows = neighbors._fit_X
    _require(
        neighbors,
        kind=neighbors._fit_method == neighbors.algorithm == "brute" and neighbors._tree is None,
        metric=neighbors.metric in ("euclidean", "minkowski")
        and neighbors.p == 2
        and neighbors.metric_params is None
        and neighbors.effective_metric_ == "euclidean"
        and neighbors.effective_metric_params_ == {},
        weights=neighbors.weights == "uniform" and neighbors.outputs_2d_ is False,
        rows=type(rows) is np.ndarray
        and rows.dtype.kind == "f"
        and rows.shape == (neighbors.n_samples_fit_, neighbors.n_features_in_),
        n_neighbors=1 <= neighbors.n_neighbors <= len(rows),
        labels=neighbors._y.shape == (len(rows),) and _is_whole(neighbors._y, 0, len(neighbors.classes_)),
    )


def _check_encoder(encoder: OneHotEncoder) -> None:
    """Positions of levels become those of columns, which SciPy fills without asking whether there is such a column."""
    widths, levels = encoder._n_features_outs, encoder.categories_
    _require(
        encoder,
        levels=len({id(own) for own in levels}) == len(levels),  # one large array is not used for many columns
        kind=encoder.drop is None and encoder._drop_idx_after_grouping is None and encoder.dtype is np.float64,
        features=len(widths) == len(levels) == encoder.n_features_in_ and all(type(width) is int for width in widths),
        order=all(np.array_equal(own, np.unique(own), equal_nan=True) for own in levels),
    )
    for i, (width, own) in enumerate(zip(widths, levels, strict=True)):
        mapping = encoder._default_to_infrequent_mappings[i] if encoder._infrequent_enabled else None
        rare = encoder._infrequent_indices[i] if encoder._infrequent_enabled else None
        _require(
            encoder,
            rare=(mapping is None) == (rare is None),
            columns=len(own) == width if mapping is None else len(mapping) == len(own) and _is_whole(mapping, 0, width),
        )


def _check_columns(transformer: ColumnTransformer) -> None:
    """A column that is used twice widens the output; a few such transformers in a row would fill the memory."""
    n = transformer.n_features_in_
    names = {name: i for i, name in enumerate(getattr(transformer, "feature_names_in_", ()))}
    chosen: list[Any] = []
    for _, _, columns in transformer.transformers_:
        if not isinstance(columns, slice):
            entries = np.atleast_1d(columns)
            is_mask = entries.dtype.kind == "b" and len(entries) == n
            positions = [names.get(entry, entry) for entry in entries.tolist()]
            columns = np.flatnonzero(entries) if is_mask else np.array(positions, dtype=np.intp)
        chosen.append(columns)
    sizes = [len(range(n)[columns]) if isinstance(columns, slice) else len(columns) for columns in chosen]
    _require(transformer, columns=sum(sizes) <= n)
    uses = np.zeros(n, dtype=np.int32)
    for columns in chosen:
        np.add.at(uses, columns, 1)
    _require(transformer, columns=bool(uses.max(initial=0) <= 1))


def _check_ensemble(pool: EnsembleClassifier) -> None:
    """Raise ValueError unless members, weights and temperatures of an ensemble match and have valid values."""
    n = len(pool.members_)
    _require(
        pool,
        members=n == len(pool.members) and 0 < n <= MAX_MEMBERS,
        classes=all(np.array_equal(member.classes_, pool.classes_) for member in pool.members_),
        weights=pool.weights.shape == (n,) and bool((pool.weights >= 0).all()) and abs(pool.weights.sum() - 1) < 1e-6,
        inverse_temperatures=pool.inverse_temperatures.shape == (n,) and bool((pool.inverse_temperatures > 0).all()),
        steps=0 <= pool.smoothing < np.inf and 0 < pool.inverse_temperature < np.inf,
        priors=pool.prior_ratio is None or _is_positive(pool.prior_ratio, pool.classes_.shape),
        offsets=pool.calibration_offsets is None
        or (
            isinstance(pool.calibration_offsets, np.ndarray)
            and pool.calibration_offsets.shape == pool.classes_.shape
            and bool(np.isfinite(pool.calibration_offsets).all())
        ),
        conformal_codes=pool.conformal_codes is None
        or (
            len(pool.conformal_codes) == len(pool.conformal_scores or ())
            and all(
                isinstance(codes, np.ndarray)
                and codes.shape == scores.shape
                and _is_whole(codes, 0, len(pool.classes_))
                for codes, scores in zip(pool.conformal_codes, pool.conformal_scores or (), strict=True)
            )
        ),
        held_out=all(
            type(name) is str
            and P.shape == (len(codes), len(pool.classes_))
            and bool(((P >= 0) & (P <= 1)).all())
            and _is_whole(codes, 0, len(pool.classes_))
            for name, P, codes in pool.held_out or ()
        ),
        raw_members=type(pool.raw_members) in (list, tuple) and set(pool.raw_members) <= set(range(n)),
        n_prepared_features=pool.n_prepared_features is None or type(pool.n_prepared_features) is int,
    )


def _check_preparation(preparation: TablePreparation) -> None:
    """Positions of levels are looked up in arrays, with one entry more for unknown levels."""
    n = preparation.n_features_in_
    n_numeric = n - len(preparation.categorical)
    _require(
        preparation,
        columns=len(set(preparation.categorical)) == len(preparation.categorical)
        and set(preparation.categorical) <= set(range(n)),
        scales=preparation.means_.shape == preparation.scales_.shape == (n_numeric,),
        tails=preparation.tail_scales_.shape == (n,),
        codes=_is_whole(preparation.coded_columns_, 0, n) and preparation.coded_columns_.ndim == 1,
        levels=len(preparation.level_codes_) == len(preparation.categorical)
        and all(codes.ndim == 1 and codes.dtype.kind == "f" and len(codes) for codes in preparation.level_codes_),
    )


def _is_positive(values: Any, shape: tuple[int, ...]) -> bool:
    """Whether these are finite numbers above zero in an array of this shape."""
    return isinstance(values, np.ndarray) and values.shape == shape and bool(((values > 0) & (values < np.inf)).all())


# Shapes of fitted attributes: one letter for each dimension, and the same letter for the same size within an estimator;
# "n" is the number of features.
PROJECTION_SHAPES = {
    "X_fit_": "sn",
    "dual_coef_": "sm",
    "coef_": "fm",
    "offset_": "m",
    "eigenvalues_": "m",
    "domains_": "d",
    "classes_": "k",
    "cell_counts_": "dk",
}
SHAPES: dict[type, dict[str, str]] = {
    **dict.fromkeys(PROJECTIONS, PROJECTION_SHAPES),
    DomainCenterer: {"domains_": "d", "means_": "dn"},
    DomainHarmonizer: {
        "domains_": "d",
        "center_": "n",
        "scale_": "n",
        "covariate_coef_": "cn",
        "covariate_center_": "c",
        "domain_location_": "dn",
        "domain_scale_": "dn",
    },
    MarginalTransferClassifier: {
        "classes_": "k",
        "domains_": "d",
        "X_fit_": "sn",
        "dual_coef_": "sm",
        "intercept_": "m",
        "domain_distances_": "dd",
        "_domain": "s",
        "_shares": "sd",
        "_similarities": "dd",
    },
    Novelty: {
        "domains_": "d",
        "directions_": "nc",
        "knots_": "c",
        "means_": "dc",
        "counts_": "d",
        "traces_": "d",
        "reference_": "d",
        "shape_": "cc",
    },
    PivotedNystroem: {"components_": "mn", "component_indices_": "m", "cholesky_": "mm"},
    UndoBias: {"coef_": "mn", "intercept_": "m", "domains_": "d", "domain_coef_": "dmn", "domain_intercept_": "dm"},
    LinearSVC: {"coef_": "mn", "intercept_": "m"},
    LogisticRegression: {"coef_": "mn", "intercept_": "m"},
    RidgeClassifier: {"intercept_": "m"},
    Nystroem: {"components_": "mn", "component_indices_": "m", "normalization_": "mm"},
    RBFSampler: {"random_weights_": "nm", "random_offset_": "m"},
    SimpleImputer: {"statistics_": "n"},
    StandardScaler: {"mean_": "n", "scale_": "n", "var_": "n"},
    LabelBinarizer: {"classes_": "k"},
}

CHECKS: dict[type, Callable[[Any], None]] = {
    ColumnTransformer: _check_columns,
    FunctionTransformer: check_function,
    HistGradientBoostingClassifier: check_boosting,
    KNeighborsClassifier: _check_neighbors,
    OneHotEncoder: _check_encoder,
    EnsembleClassifier: _check_ensemble,
    Novelty: _check_novelty,
    SVC: _check_svc,
    TablePreparation: _check_preparation,
    **dict.fromkeys((*SINGLE_TREES, *FORESTS), check_forest),
}
