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
from dataclasses import dataclass
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
    TreePredictor,
    check_boosting,
    check_forest,
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
            raise ValueError(f"a part of it has the type {name!r}, which is not a name that readers can import")
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
        if loader == "TypeNode":
            return None, []
        if loader == "NdArrayNode" and node["type"] == "numpy":
            return self._array(node, name), []
        content = node["content"]
        if loader == "DictNode":
            return tuple(content), [node["key_types"], *content.values()]
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
            strip_boosting(part)
    if isinstance(copied, TableModel):
        for member in copied.ensemble.members_:
            for _, step in member.steps:
                if "statistics_" in vars(step):  # sums of the training rows, from which `finalize` has computed
                    step.finalize()
                    del step.statistics_
    return copied


def check_estimators(model: Any, trusted: Collection[str] = ()) -> None:
    """Raise ValueError for state that compiled code would not survive, or that would take too much memory to use."""
    estimators = set(estimator_types())
    in_forest: set[int] = set()  # trees that were checked together with their forest
    for part in _parts(model, trusted):
        if isinstance(part, np.ndarray):
            _check_array(part)
        elif type(part) in estimators:
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
    estimators = set(estimator_types())
    for part in _parts(model, trusted):
        if type(part) not in estimators:
            continue
        state, parameters = vars(part), inspect.signature(type(part)).parameters
        state.pop(OUTPUT_CONFIG, None)
        for name in RUNTIME_PARAMETERS:
            if name in parameters and name in state:
                state[name] = parameters[name].default
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


def find_width(model: Any) -> int:
    """The largest number of values that a part of a fitted model computes for one row."""
    estimators = set(estimator_types())
    return max((measure_width(part) for part in _parts(model) if type(part) in estimators), default=1)


def measure_width(part: Any) -> int:
    """Number of values that an estimator computes for one row; ValueError if its attributes do not fit together."""
    if type(part) not in RULES or not _is_fitted(part):
        return 1
    sizes: Sizes = {"n": int(getattr(part, "n_features_in_", 1)), "k": len(getattr(part, "classes_", ()))}
    for name, rule in RULES[type(part)].items():
        if isinstance(rule, Rule):  # values may be constants of the class, arrays are attributes
            is_valid = rule.check(getattr(part, name) if rule.values else vars(part).get(name), sizes)
        else:
            is_valid = rule(part, sizes)
        if not is_valid:
            raise ValueError(f"{type(part).__name__} does not fit together: {name}")
    return max(1, *(size for letter, size in sizes.items() if letter.islower()))


Sizes = dict[str, int]  # of dimensions by their letters; capital letters are not held in memory for each row


@dataclass(frozen=True)
class Rule:
    """What must be true of an attribute.

    Parameters
    ----------
    shape : str, default=None
        One letter for each dimension of an array, and the same letter for the same size within an estimator: "n" is the
        number of features, "k" that of classes. Empty for a number.
    low, high : float, default=None
        Range of all values.
    below : str, default=None
        Letter of the size below which all values are, which are whole numbers from 0.
    values : tuple, default=()
        Instead of an array: values of which the attribute must be one.
    is_optional : bool, default=True
        Whether the attribute may be None.
    """

    shape: str = ""
    low: float | None = None
    high: float | None = None
    below: str | None = None
    values: tuple[Any, ...] = ()
    is_optional: bool = True

    def check(self, value: Any, sizes: Sizes) -> bool:
        """Whether a value follows the rule; adds the sizes of its dimensions to those that are known."""
        if self.values:
            return any(type(value) is type(allowed) and value == allowed for allowed in self.values)
        if value is None:
            return self.is_optional
        if isinstance(value, float):
            value = np.array(value)
        elif type(value) is not np.ndarray or value.ndim != len(self.shape):
            return False
        for letter, size in zip(self.shape, value.shape, strict=False):
            if sizes.setdefault(letter, size) != size:
                return False
        low = 0 if self.below is not None else self.low
        high = sizes[self.below] - 1 if self.below is not None else self.high
        if self.below is not None and value.dtype.kind != "i":
            return False
        return (low is None or bool((value >= low).all())) and (high is None or bool((value <= high).all()))


def one_of(*values: Any) -> Rule:
    """The rule of an attribute that has one of a few values."""
    return Rule(values=values)


def array(shape: str, **bounds: Any) -> Rule:
    """The rule of an array that compiled code relies on."""
    return Rule(shape, is_optional=False, **bounds)


def shapes(**letters: str) -> dict[str, Rule]:
    """The rules of arrays that may be absent."""
    return {name: Rule(shape) for name, shape in letters.items()}


def _check_domains(novelty: Novelty, sizes: Sizes) -> bool:
    return 2 <= sizes["d"] <= MAX_DOMAINS


def _check_supports(svc: SVC, sizes: Sizes) -> bool:
    """As many numbers are read as the counts of support vectors say."""
    k = sizes["k"]
    sizes["p"] = k * (k - 1) // 2
    return (
        k >= 2
        and int(svc._n_support.sum(dtype=np.int64)) == len(svc.support_)
        and svc._dual_coef_.shape == (k - 1, len(svc.support_))
        and svc._intercept_.shape == (sizes["p"],)
        and {svc._probA.shape, svc._probB.shape} in ({(0,)}, {(sizes["p"],)})
    )


def _check_levels(encoder: OneHotEncoder, sizes: Sizes) -> bool:
    """Positions of levels become those of columns, which SciPy fills without asking whether there is such a column."""
    widths = encoder._n_features_outs
    levels = encoder.categories_
    sizes["o"] = sum(widths)
    is_grouped = encoder._infrequent_enabled
    mappings = encoder._default_to_infrequent_mappings if is_grouped else [None] * len(levels)
    rare = encoder._infrequent_indices if is_grouped else mappings
    return (
        len({id(own) for own in levels}) == len(levels)  # one large array is not used for many columns
        and len(widths) == len(levels) == len(mappings) == len(rare) == encoder.n_features_in_
        and all(type(width) is int for width in widths)
        and all(np.array_equal(own, np.unique(own), equal_nan=True) for own in levels)
        and all((mapping is None) == (own is None) for mapping, own in zip(mappings, rare, strict=True))
        and all(
            len(own) == width if mapping is None else array("l", below="w").check(mapping, {"l": len(own), "w": width})
            for own, width, mapping in zip(levels, widths, mappings, strict=True)
        )
    )


def _check_columns(transformer: ColumnTransformer, sizes: Sizes) -> bool:
    """Columns that are used several times widen the output; a few such transformers in a row would fill the memory."""
    n_used = 0
    for _, _, columns in transformer.transformers_:
        if isinstance(columns, slice):
            n_used += len(range(sizes["n"])[columns])
        else:
            entries = np.atleast_1d(columns)
            n_used += int(entries.sum()) if entries.dtype.kind == "b" else len(entries)
    return n_used <= sizes["n"]


def _check_members(ensemble: EnsembleClassifier, sizes: Sizes) -> bool:
    sizes["M"] = len(ensemble.members_)
    sizes["w"] = sizes["M"] * sizes["k"]
    return sizes["M"] == len(ensemble.members) and 0 < sizes["M"] <= MAX_MEMBERS


def _check_classes(ensemble: EnsembleClassifier, sizes: Sizes) -> bool:
    return all(np.array_equal(member.classes_, ensemble.classes_) for member in ensemble.members_)


def _check_held_out(ensemble: EnsembleClassifier, sizes: Sizes) -> bool:
    """Out-of-domain predictions, and the codes of the true classes behind them and behind conformal scores."""
    scores_of_codes = () if ensemble.conformal_codes is None else ensemble.conformal_scores or ()
    pairs = zip(scores_of_codes, ensemble.conformal_codes or (), strict=True)
    code_rule = array("r", below="k")
    return all(code_rule.check(codes, {"r": len(scores), "k": sizes["k"]}) for scores, codes in pairs) and all(
        type(name) is str
        and array("rk", low=0, high=1).check(P, {"r": len(codes), "k": sizes["k"]})
        and code_rule.check(codes, {"r": len(P), "k": sizes["k"]})
        for name, P, codes in ensemble.held_out or ()
    )


def _check_raw_members(ensemble: EnsembleClassifier, sizes: Sizes) -> bool:
    return (
        type(ensemble.raw_members) in (list, tuple)
        and set(ensemble.raw_members) <= set(range(sizes["M"]))
        and type(ensemble.n_prepared_features) in (int, type(None))
    )


def _check_weights(ensemble: EnsembleClassifier, sizes: Sizes) -> bool:
    return abs(ensemble.weights.sum() - 1) < WEIGHT_TOLERANCE


def _check_preparation(preparation: TablePreparation, sizes: Sizes) -> bool:
    """Positions of levels are looked up in arrays, with one entry more for unknown levels."""
    categorical = preparation.categorical
    return (
        len(set(categorical)) == len(categorical) == len(preparation.level_codes_)
        and set(categorical) <= set(range(sizes["n"]))
        and preparation.means_.shape == preparation.scales_.shape == (sizes["n"] - len(categorical),)
        and all(codes.ndim == 1 and codes.dtype.kind == "f" and len(codes) for codes in preparation.level_codes_)
    )


# What must be true of the attributes of fitted estimators, in the order in which it is checked. A function checks what
# concerns several attributes.
Rules = dict[str, Rule | Callable[[Any, Sizes], bool]]
PROJECTION_RULES: Rules = {
    **shapes(X_fit_="sn", dual_coef_="sm", coef_="fm", offset_="m", eigenvalues_="m", domains_="d", classes_="k"),
    **shapes(cell_counts_="dk"),
}
LINEAR_RULES: Rules = {**shapes(coef_="mn", intercept_="m")}
RULES: dict[type, Rules] = {
    **dict.fromkeys(PROJECTIONS, PROJECTION_RULES),
    DomainCenterer: {**shapes(domains_="d", means_="dn")},
    DomainHarmonizer: {
        **shapes(domains_="d", center_="n", scale_="n", covariate_coef_="cn", covariate_center_="c"),
        **shapes(domain_location_="dn", domain_scale_="dn"),
    },
    MarginalTransferClassifier: {
        **shapes(classes_="k", domains_="d", X_fit_="sn", dual_coef_="sm", intercept_="m", domain_distances_="dd"),
        **shapes(_domain="s", _shares="sd", _similarities="dd"),
    },
    Novelty: {
        **shapes(domains_="d", directions_="nc", knots_="c", means_="dc", counts_="d", traces_="d", reference_="d"),
        **shapes(shape_="cc"),
        "domains": _check_domains,
    },
    PivotedNystroem: {**shapes(components_="mn", component_indices_="m", cholesky_="mm")},
    UndoBias: {**LINEAR_RULES, **shapes(domains_="d", domain_coef_="dmn", domain_intercept_="dm")},
    LinearSVC: LINEAR_RULES,
    LogisticRegression: LINEAR_RULES,
    RidgeClassifier: {**shapes(intercept_="m")},
    Nystroem: {**shapes(components_="mn", component_indices_="m", normalization_="mm")},
    RBFSampler: {**shapes(random_weights_="nm", random_offset_="m")},
    SimpleImputer: {**shapes(statistics_="n")},
    StandardScaler: {**shapes(mean_="n", scale_="n", var_="n")},
    LabelBinarizer: {**shapes(classes_="k")},
    ColumnTransformer: {"columns": _check_columns},
    OneHotEncoder: {
        "drop": one_of(None),
        "_drop_idx_after_grouping": one_of(None),
        "dtype": one_of(np.float64),
        "levels": _check_levels,
    },
    KNeighborsClassifier: {  # compiled code counts the classes of neighbors without checking that they exist
        "_fit_method": one_of("brute"),
        "algorithm": one_of("brute"),
        "_tree": one_of(None),
        "metric": one_of("euclidean", "minkowski"),
        "p": one_of(2),
        "metric_params": one_of(None),
        "effective_metric_": one_of("euclidean"),
        "effective_metric_params_": one_of({}),
        "weights": one_of("uniform"),
        "outputs_2d_": one_of(False),
        "_fit_X": array("Sn"),
        "_y": array("S", below="k"),
        "rows": lambda neighbors, sizes: (
            neighbors._fit_X.dtype.kind == "f" and 1 <= neighbors.n_neighbors <= sizes["S"] == neighbors.n_samples_fit_
        ),
    },
    SVC: {
        "_impl": one_of("c_svc"),
        "kernel": one_of("linear", "poly", "rbf", "sigmoid"),
        "_sparse": one_of(False),
        "support_": array("S"),
        "support_vectors_": array("Sn"),
        "_n_support": array("k", low=0),
        "counts": _check_supports,
    },
    EnsembleClassifier: {
        "members": _check_members,
        "classes": _check_classes,
        "weights": array("M", low=0, high=1),
        "weights_": _check_weights,
        "inverse_temperatures": array("M", low=SMALLEST),
        "smoothing": array("", low=0, high=MAX_ABSOLUTE_VALUE),
        "inverse_temperature": array("", low=SMALLEST, high=MAX_ABSOLUTE_VALUE),
        "prior_ratio": Rule("k", low=SMALLEST, high=MAX_ABSOLUTE_VALUE),
        "calibration_offsets": Rule("k", low=-MAX_ABSOLUTE_VALUE, high=MAX_ABSOLUTE_VALUE),
        "feature_effects": Rule("ek", low=-MAX_ABSOLUTE_VALUE, high=MAX_ABSOLUTE_VALUE),
        "held_out": _check_held_out,
        "raw_members": _check_raw_members,
    },
    TablePreparation: {
        "tail_scales_": array("n"),
        "coded_columns_": array("C", below="n"),
        "categorical": _check_preparation,
    },
}
TREE_CHECKS: dict[type, Callable[[Any], None]] = {
    HistGradientBoostingClassifier: check_boosting,
    **dict.fromkeys((*SINGLE_TREES, *FORESTS), check_forest),
}
