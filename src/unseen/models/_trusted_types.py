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
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
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
from sklearn.preprocessing import LabelBinarizer, Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree._tree import Tree

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
from ..exceptions import ignore_warnings
from ..kernels import PivotedNystroem
from ..model_selection import METHODS, EnsembleClassifier
from ..shift import Novelty
from ..tables import TablePreparation
from ..utils.validation import MAX_LABEL_LENGTH
from ._table_model import TableModel
from ._trees import (
    FORESTS,
    NODE_DTYPE,
    PREDICTOR_RECORD_DTYPE,
    SINGLE_TREES,
    TREE_ESTIMATORS,
    TREE_PARTS,
    TreePredictor,
    check_boosting,
    check_forest,
    clear_training_fields,
    restore_boosting,
    strip_boosting,
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
# Parameters that say how and where to compute, not what: a file does not decide them.
RUNTIME_PARAMETERS = ("batch_size", "cache", "memory", "n_jobs", "verbose")
OUTPUT_CONFIG = "_sklearn_output_config"  # what `set_output` stores
CONTAINERS = (dict, list, set, tuple)
VALUES = (bool, float, int, slice, str, type(None))
# What estimators have beside parameters before they are fitted; constructors of scikit-learn set the last five.
UNFITTED = {OUTPUT_CONFIG, "_metadata_request", "epsilon", "estimator", "estimator_params", "nu", "radius"}


def estimator_types() -> tuple[type, ...]:
    """What a model may consist of: the parts of our own models, and what methods in the table say they need."""
    return (*ESTIMATORS, *(kind for method in METHODS.values() for kind in method.trusted_types))


def type_name(kind: type) -> str:
    """The name of a type, as model files have it."""
    return f"{kind.__module__}.{kind.__qualname__}"


# What skops may build, and by which of its loaders: all else, such as functions, sparse matrices, random generators and
# references to what came before, is in no model of this package.
SCALARS = {type_name(kind) for kind in np.sctypeDict.values() if issubclass(kind, (np.number, np.bool_, np.str_))}
LOADERS = {
    "DictNode": {"builtins.dict"},
    "DTypeNode": {"numpy.dtype"},
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "NdArrayNode": {"numpy.ndarray", *SCALARS},
    "ObjectNode": set(),  # the types of estimators
    "SetNode": {"builtins.set"},
    "SliceNode": {"builtins.slice"},
    "TreeNode": {"sklearn.tree._tree.Tree"},
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {*map(type_name, (bool, float, int, str)), *SCALARS},
}
REPEATED_TYPES = {*map(type_name, (*SINGLE_TREES, TreePredictor))}  # of which an ensemble has many
HEADER_KEYS = {"protocol", "_skops_version"}  # of the first node alone
PROTOCOL = 2  # of skops 0.16; a file that asks for an older one would be built by older code
SCHEMA = "schema.json"
MAX_SCHEMA = 2**26  # bytes
MAX_JSON_MARKS = 2_500_000  # brackets, commas and colons; what lies between two takes up to 125 bytes once parsed
MAX_NODES = 200_000  # an ensemble of 8 members has 2,500, a column of levels 8
ESTIMATOR_NODES = 400  # for which an estimator counts, except trees: an ensemble of 15 members has 110, of milliseconds
MAX_DEPTH = 30  # models of this package have 14
MAX_FEATURES = 2**22  # that an estimator may declare without an array of that length
MAX_WIDTH = 2**21  # values that a model computes for one row at a time
MAX_DOMAINS = 10_000  # of the novelty score, which compares each with all others
MAX_MEMBERS = 200  # of an ensemble
SMALLEST = float(np.finfo(float).tiny)  # number above zero
WEIGHT_TOLERANCE = 1e-6  # of the sum of weights, for rounding errors
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
        self._objects = set(map(type_name, estimator_types()))
        self._sizes: dict[int, int] = {}  # of nodes by their number; 0 while it is not known yet

    def check(self, node: Mapping[str, Any], depth: int) -> int:
        """Check a node and all below it; return how many they are.

        An object that is held in two places is written out twice, under one number, of which skops builds the first.
        So both must be as large: a mere reference would let a short file stand for a huge structure.
        """
        if depth > MAX_DEPTH:
            raise ValueError(f"its parts are nested deeper than {MAX_DEPTH} levels")
        number, loader, name = node["__id__"], node["__loader__"], f"{node['__module__']}.{node['__class__']}"
        if type(number) is not int or number <= 0:
            raise ValueError(f"a part of it has the number {number!r}")
        if not name.replace(".", "").isidentifier():  # it may enter a command that users are told to run
            raise ValueError(f"a part of it has the type {name!r}, which is not a name that readers can import")
        if name not in (self._objects if loader == "ObjectNode" else LOADERS.get(loader, ())):
            self.untrusted_types.add(name)
        elif loader == "NdArrayNode":
            self._check_array(node, name)
        elif loader == "JsonNode" and type(json.loads(node["content"])) not in VALUES:
            raise ValueError(f"a value of it is {node['content'][:40]!r}")
        known_size = self._sizes.get(number)
        self._sizes.setdefault(number, 0)
        size = ESTIMATOR_NODES if loader == "ObjectNode" and name not in REPEATED_TYPES else 1
        for part in _nested_nodes(node):
            size += self.check(part, depth + 1)
            if size > MAX_NODES:
                raise ValueError(
                    f"it has more than {MAX_NODES:,} parts, of which an estimator counts as {ESTIMATOR_NODES}"
                )
        if known_size is not None and size != known_size:
            raise ValueError(f"it repeats {name} with another content")
        self._sizes[number] = size
        return size

    def _check_array(self, node: Mapping[str, Any], name: str) -> None:
        """Type and shape of an array must be those of the bytes that are there."""
        if node["type"] != "numpy":
            # NumPy would copy arrays into an array of objects element by element, as often as they are repeated.
            if name != "numpy.ndarray" or any(part["__class__"] == "ndarray" for part in node["content"]):
                raise ValueError("an array of it holds arrays")
            return
        if node["file"] != f"{node['__id__']}.npy":  # so that no file is read more than once
            raise ValueError(f"an array of it is in {node['file']!r}")
        with self._archive.open(node["file"]) as file, ignore_warnings(Warning):  # of a damaged header
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


def _nested_nodes(node: Any) -> Iterator[Mapping[str, Any]]:
    """The nodes directly below a node of any form: all that skops may build something of."""
    for value in node.values() if isinstance(node, dict) else node:
        if isinstance(value, dict) and value.keys() & {"__loader__", "__id__"}:
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
            strip_boosting(part)
        elif isinstance(part, Tree):
            clear_training_fields(part.__getstate__()["nodes"])
    if isinstance(copied, TableModel):
        for member in copied.ensemble.members_:
            for _, step in member.steps:
                if "statistics_" in vars(step):  # sums of the training rows, from which `finalize` has computed
                    step.finalize()
                    del step.statistics_
    return copied


def check_estimators(model: Any, trusted: Collection[str] = ()) -> None:
    """Raise ValueError for state that compiled code would not survive, or that would take too much memory to use."""
    for part in _parts(model, trusted):
        if isinstance(part, np.ndarray):
            _check_array(part)
    in_forest: set[int] = set()  # trees that were checked together with their forest
    for part in _estimators(model, trusted):
        _check_attributes(part)
        width = measure_width(part)
        if width > MAX_WIDTH:
            raise ValueError(
                f"{type(part).__name__} computes {width:,} values a row; at most {MAX_WIDTH:,} are allowed"
            )
        if type(part) in TREE_CHECKS and id(part) not in in_forest and _is_fitted(part):
            TREE_CHECKS[type(part)](part)
            in_forest.update(map(id, getattr(part, "estimators_", ())))


def reset_runtime_settings(model: Any, trusted: Collection[str] = ()) -> None:
    """Set parameters that say how and where to compute to their defaults, and remove output configurations."""
    parts = list(_estimators(model, trusted))
    for part in parts:
        state, parameters = vars(part), inspect.signature(type(part)).parameters
        state.pop(OUTPUT_CONFIG, None)
        for name in RUNTIME_PARAMETERS:
            if name in parameters and name in state:
                state[name] = parameters[name].default
    for part in parts:
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


def _estimators(model: Any, trusted: Collection[str] = ()) -> Iterator[Any]:
    """The estimators that a model consists of, once each."""
    estimators = set(estimator_types())
    return (part for part in _parts(model, trusted) if type(part) in estimators)


def _is_fitted(part: Any) -> bool:
    """Whether an estimator holds more than its parameters; without, no compiled code is ever reached."""
    more = vars(part).keys() - part.get_params(deep=False).keys()
    return not more <= UNFITTED


def find_width(model: Any) -> int:
    """The largest number of values that a part of a fitted model computes for one row."""
    return max(map(measure_width, _estimators(model)), default=1)


Sizes = dict[str, int]  # of dimensions by their letters
Checks = Iterator[tuple[str, Any]]  # names of attributes, and whether they are sound


def measure_width(part: Any) -> int:
    """Number of values that an estimator computes for one row; ValueError if its attributes do not fit together.

    Sizes have letters: "n" is the number of features, "k" that of classes, and capital letters are not held in memory
    for each row.
    """
    if type(part) not in CHECKED_TYPES or not _is_fitted(part):
        return 1
    sizes: Sizes = {"n": int(getattr(part, "n_features_in_", 1)), "k": len(getattr(part, "classes_", ()))}
    for name, is_sound in _check_part(part, sizes):
        if not is_sound:
            raise ValueError(f"{type(part).__name__} does not fit together: {name}")
    return max(1, *(size for letter, size in sizes.items() if letter.islower()))


def _check_part(part: Any, sizes: Sizes) -> Checks:
    """Check the shapes of arrays, which become sizes, values that must be one of a few, and what else is relied on."""
    kind = type(part)
    for name, shape in SHAPES.get(kind, {}).items():
        array = vars(part).get(name)
        if array is not None:
            is_array = type(array) is np.ndarray and array.ndim == len(shape)
            yield name, is_array and all(sizes.setdefault(a, n) == n for a, n in zip(shape, array.shape, strict=True))
    for name, allowed in CONSTANTS.get(kind, {}).items():
        value = getattr(part, name)  # it may be an attribute of the class
        yield name, any(type(value) is type(one) and value == one for one in allowed)
    if kind in CHECKS:
        yield from CHECKS[kind](part, sizes)


def _are_codes(values: Any, length: int, n: int) -> bool:
    """Whether values are whole numbers from 0 to n - 1."""
    is_array = type(values) is np.ndarray and values.shape == (length,) and values.dtype.kind == "i"
    return is_array and bool(((values >= 0) & (values < n)).all())


def _check_novelty(novelty: Novelty, sizes: Sizes) -> Checks:
    yield "domains", 2 <= sizes["d"] <= MAX_DOMAINS


def _check_neighbors(neighbors: KNeighborsClassifier, sizes: Sizes) -> Checks:
    """Compiled code counts the classes of neighbors without checking that they exist."""
    rows = neighbors._fit_X
    yield "_fit_X", rows.dtype.kind == "f" and 1 <= neighbors.n_neighbors <= len(rows) == neighbors.n_samples_fit_
    yield "_y", _are_codes(neighbors._y, len(rows), sizes["k"])


def _check_supports(svc: SVC, sizes: Sizes) -> Checks:
    """As many numbers are read as the counts of support vectors say."""
    k = sizes["k"]
    n = len(svc.support_)
    sizes["p"] = k * (k - 1) // 2
    yield "_n_support", k >= 2 and (svc._n_support >= 0).all() and int(svc._n_support.sum(dtype=np.int64)) == n
    yield "_dual_coef_", svc._dual_coef_.shape == (k - 1, n) and svc._intercept_.shape == (sizes["p"],)
    yield "_probA", {svc._probA.shape, svc._probB.shape} in ({(0,)}, {(sizes["p"],)})


def _check_levels(encoder: OneHotEncoder, sizes: Sizes) -> Checks:
    """Positions of levels become those of columns, which SciPy fills without asking whether there is such a column."""
    widths = encoder._n_features_outs
    levels = encoder.categories_
    sizes["o"] = sum(widths)
    none = [None] * len(levels)
    mappings = encoder._default_to_infrequent_mappings if encoder._infrequent_enabled else none
    rare = encoder._infrequent_indices if encoder._infrequent_enabled else none
    are_complete = len(widths) == len(levels) == len(mappings) == len(rare) == encoder.n_features_in_
    # One large array is not used for many columns.
    yield "levels", are_complete and len({id(own) for own in levels}) == len(levels)
    for own, width, mapping, rare_levels in zip(levels, widths, mappings, rare, strict=True):
        has_columns = len(own) == width if mapping is None else _are_codes(mapping, len(own), width)
        yield "levels", type(width) is int and has_columns and (mapping is None) == (rare_levels is None)
        yield "levels", np.array_equal(own, np.unique(own), equal_nan=True)


def _check_columns(transformer: ColumnTransformer, sizes: Sizes) -> Checks:
    """Columns that are used several times widen the output; a few such transformers in a row would fill the memory."""
    n_used = 0
    for _, _, columns in transformer.transformers_:
        if isinstance(columns, slice):
            n_used += len(range(sizes["n"])[columns])
        else:
            entries = np.atleast_1d(columns)
            n_used += int(entries.sum()) if entries.dtype.kind == "b" else len(entries)
    yield "columns", n_used <= sizes["n"]


def _check_ensemble(ensemble: EnsembleClassifier, sizes: Sizes) -> Checks:
    n_members = len(ensemble.members_)
    k = sizes["k"]
    sizes["w"] = n_members * k
    yield "members", len(ensemble.members) == n_members and 0 < n_members <= MAX_MEMBERS
    yield "classes", all(np.array_equal(member.classes_, ensemble.classes_) for member in ensemble.members_)
    weights = ensemble.weights
    yield (
        "weights",
        weights.shape == (n_members,) and (weights >= 0).all() and abs(weights.sum() - 1) < WEIGHT_TOLERANCE,
    )
    yield "inverse_temperatures", ensemble.inverse_temperatures.shape == (n_members,)
    for name, low in (("inverse_temperatures", SMALLEST), ("smoothing", 0.0), ("inverse_temperature", SMALLEST)):
        values = np.asarray(getattr(ensemble, name), dtype=float)
        yield name, ((values >= low) & (values <= MAX_ABSOLUTE_VALUE)).all()
    yield "prior_ratio", ensemble.prior_ratio is None or (ensemble.prior_ratio >= SMALLEST).all()
    for name in ("calibration_offsets", "feature_effects"):
        yield name, getattr(ensemble, name) is None or np.isfinite(getattr(ensemble, name)).all()
    # Out-of-domain predictions, and the codes of the true classes behind them and behind conformal scores.
    yield (
        "held_out",
        all(
            type(name) is str and P.shape == (len(codes), k) and _are_codes(codes, len(codes), k)
            for name, P, codes in ensemble.held_out or ()
        ),
    )
    yield "held_out", all(((P >= 0) & (P <= 1)).all() for _, P, _ in ensemble.held_out or ())
    if ensemble.conformal_codes is not None:
        pairs = zip(ensemble.conformal_scores or (), ensemble.conformal_codes, strict=True)
        yield "conformal_codes", all(_are_codes(codes, len(scores), k) for scores, codes in pairs)
    yield "raw_members", set(ensemble.raw_members) <= set(range(n_members))
    yield "n_prepared_features", type(ensemble.n_prepared_features) in (int, type(None))


def _check_preparation(preparation: TablePreparation, sizes: Sizes) -> Checks:
    """Positions of levels are looked up in arrays, with one entry more for unknown levels."""
    categorical = preparation.categorical
    coded = preparation.coded_columns_
    yield "tail_scales_", preparation.tail_scales_.shape == (sizes["n"],)
    yield "coded_columns_", _are_codes(coded, len(coded), sizes["n"])
    is_consistent = len(set(categorical)) == len(categorical) == len(preparation.level_codes_)
    yield "categorical", is_consistent and set(categorical) <= set(range(sizes["n"]))
    n_numbers = sizes["n"] - len(categorical)
    yield "means_", preparation.means_.shape == preparation.scales_.shape == (n_numbers,)
    yield (
        "level_codes_",
        all(codes.ndim == 1 and codes.dtype.kind == "f" and len(codes) for codes in preparation.level_codes_),
    )


# The shapes of arrays of fitted estimators, which may be absent: one letter for each dimension, and the same letter for
# the same size within an estimator.
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
LINEAR_SHAPES = {"coef_": "mn", "intercept_": "m"}
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
    UndoBias: {**LINEAR_SHAPES, "domains_": "d", "domain_coef_": "dmn", "domain_intercept_": "dm"},
    LinearSVC: LINEAR_SHAPES,
    LogisticRegression: LINEAR_SHAPES,
    RidgeClassifier: {"intercept_": "m"},
    Nystroem: {"components_": "mn", "component_indices_": "m", "normalization_": "mm"},
    RBFSampler: {"random_weights_": "nm", "random_offset_": "m"},
    SimpleImputer: {"statistics_": "n"},
    StandardScaler: {"mean_": "n", "scale_": "n", "var_": "n"},
    LabelBinarizer: {"classes_": "k"},
    KNeighborsClassifier: {"_fit_X": "Sn"},
    SVC: {"support_": "S", "support_vectors_": "Sn", "_n_support": "k"},
    EnsembleClassifier: {"prior_ratio": "k", "calibration_offsets": "k", "feature_effects": "ek"},
}
CONSTANTS: dict[type, dict[str, tuple[Any, ...]]] = {
    OneHotEncoder: {"drop": (None,), "_drop_idx_after_grouping": (None,), "dtype": (np.float64,)},
    KNeighborsClassifier: {
        "_fit_method": ("brute",),
        "algorithm": ("brute",),
        "_tree": (None,),
        "metric": ("euclidean", "minkowski"),
        "p": (2,),
        "metric_params": (None,),
        "effective_metric_": ("euclidean",),
        "effective_metric_params_": ({},),
        "weights": ("uniform",),
        "outputs_2d_": (False,),
    },
    SVC: {"_impl": ("c_svc",), "kernel": ("linear", "poly", "rbf", "sigmoid"), "_sparse": (False,)},
}
CHECKS: dict[type, Callable[[Any, Sizes], Checks]] = {
    Novelty: _check_novelty,
    ColumnTransformer: _check_columns,
    OneHotEncoder: _check_levels,
    KNeighborsClassifier: _check_neighbors,
    SVC: _check_supports,
    EnsembleClassifier: _check_ensemble,
    TablePreparation: _check_preparation,
}
CHECKED_TYPES = {*SHAPES, *CONSTANTS, *CHECKS}
TREE_CHECKS: dict[type, Callable[[Any], None]] = {
    HistGradientBoostingClassifier: check_boosting,
    **dict.fromkeys((*SINGLE_TREES, *FORESTS), check_forest),
}
