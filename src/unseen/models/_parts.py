"""What a model that is read from a file may consist of, and may hold.

Its structure is checked before anything is made of it: skops inflates, allocates and repeats as a file tells it to.
Types alone are not enough. Some estimators hand their arrays to compiled code that takes sizes and indices on trust, so
a file that was altered could end the process instead of raising an error. What such code relies on is checked here.
"""

from __future__ import annotations

import io
import json
import math
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelBinarizer, Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from ..estimators import CIDG, DICA, KFDA, MDA, SCA, DomainCenterer, UndoBias
from ..kernels import PivotedNystroem
from ..selection import METHODS, Pool
from ..shift import Novelty
from ._model import TableModel

PROJECTIONS = (CIDG, DICA, KFDA, MDA, SCA)
OURS: tuple[type, ...] = (*PROJECTIONS, DomainCenterer, Novelty, PivotedNystroem, Pool, TableModel, UndoBias)
CLASSIFIERS = (KNeighborsClassifier, LabelBinarizer, LinearSVC, LogisticRegression, RidgeClassifier, SVC)
PREPARATIONS = (ColumnTransformer, Normalizer, OneHotEncoder, SimpleImputer, StandardScaler)
ESTIMATORS = (*OURS, *CLASSIFIERS, *PREPARATIONS, FrozenEstimator, Nystroem, Pipeline, RBFSampler)
# Of rooms above this one, by module and name: skops loads them when a file holds one.
FROM_ABOVE = {"unseen.images._features": "ImageFeatures"}
CONTAINERS = (dict, list, set, tuple)
VALUES = (bool, float, int, slice, str, type(None))
# What estimators have beside parameters before they are fitted; constructors of scikit-learn set the last three.
UNFITTED = {"_sklearn_output_config", "_metadata_request", "epsilon", "nu", "radius"}


def estimator_types() -> tuple[type, ...]:
    """What a model may consist of: the parts of our own models, and what methods in the table say they need."""
    above = (getattr(sys.modules[home], name) for home, name in FROM_ABOVE.items() if home in sys.modules)
    return (*ESTIMATORS, *above, *(kind for method in METHODS.values() for kind in method.types))


def estimator_names() -> list[str]:
    """Their names, as model files have them, whether or not they are loaded."""
    return [*map(type_name, estimator_types()), *(f"{home}.{name}" for home, name in FROM_ABOVE.items())]


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
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {*map(type_name, (bool, float, int, str)), *SCALARS},
}
PROTOCOL = 2  # of skops 0.16; a file that asks for an older one would be built by older code
SCHEMA = "schema.json"
MAX_SCHEMA = 2**28  # bytes
MAX_NODES = 10**6  # of which a column of levels takes eight
MAX_DEPTH = 50  # models of this package have 14
LARGEST = 1e150  # tables hold no number that is larger, and squares of such numbers would be infinite


def check_structure(payload: bytes) -> list[str]:
    """Names of the types that a stored model has and no model of this package does; ValueError if it is not sound.

    Reads the description of the model and the headers of its arrays, and builds nothing.
    """
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        members = archive.infolist()
        size = sum(member.file_size for member in members)
        if any(m.compress_type != zipfile.ZIP_STORED for m in members) or size > len(payload):
            raise ValueError("the model in the file is compressed, and those that `unseen fit` writes never are")
        if archive.getinfo(SCHEMA).file_size > MAX_SCHEMA:
            raise ValueError(f"its description has more than {MAX_SCHEMA:,} bytes")
        schema = json.loads(archive.read(SCHEMA))
        if type(schema["protocol"]) is not int or schema["protocol"] < PROTOCOL:
            raise ValueError(f"its protocol is {schema['protocol']!r}; at least {PROTOCOL} is expected")
        structure = _Structure(archive)
        try:
            structure.check(schema, depth=1)
        except ValueError:
            if not structure.strangers:  # whose names say more
                raise
    return sorted(structure.strangers)


class _Structure:
    """A walk through the description of a model, node by node."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.strangers: set[str] = set()
        self._archive = archive
        self._objects = set(estimator_names())
        self._nodes = 0
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
        if name not in (self._objects if loader == "ObjectNode" else LOADERS.get(loader, ())):
            self.strangers.add(name)
            if loader not in LOADERS:
                return 0
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
        if dtype.kind not in "biufSU" or count * dtype.itemsize != there or (count and not dtype.itemsize):
            raise ValueError(f"{node['file']} says that it holds {shape} of {dtype}, but it has {there:,} bytes")
        if name != "numpy.ndarray" and shape:
            raise ValueError(f"a {name} of it has the shape {shape}")
        return dtype.str, shape


def strangers(model: Any) -> list[str]:
    """Names of the types in a model that no model of this package has."""
    return sorted({type_name(type(part)) for part in _parts(model) if not _is_known(part)})


def check_parts(model: Any) -> None:
    """Refuse arrays that would lead compiled code astray, and numbers that no table has."""
    for part in _parts(model):
        if isinstance(part, np.ndarray) and part.dtype.kind == "f":
            if float(np.abs(part).max(initial=0, where=np.isfinite(part))) > LARGEST:
                raise ValueError(f"an array of it holds numbers beyond {LARGEST:g}")
            continue
        check = CHECKS.get(type(part))
        if check is not None and _is_fitted(part):
            check(part)


def _parts(model: Any) -> Iterator[Any]:
    """Everything that a model consists of, once each."""
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
        elif type(part) in estimator_types():
            rest.append(vars(part))


def _is_fitted(part: Any) -> bool:
    """Whether an estimator holds more than its parameters; without, no compiled code is ever reached."""
    more = vars(part).keys() - part.get_params(deep=False).keys()
    return not more <= UNFITTED


def _is_known(part: Any) -> bool:
    if isinstance(part, type):
        return issubclass(part, np.generic)
    known = (*estimator_types(), *CONTAINERS, *VALUES, np.ndarray)
    return type(part) in known or isinstance(part, (np.generic, np.dtype))


def _require(part: Any, **claims: bool) -> None:
    wrong = [name for name, holds in claims.items() if not holds]
    if wrong:
        raise ValueError(f"{type(part).__name__} does not fit together: {', '.join(wrong)}")


def _is_whole(array: Any, low: int, high: int) -> bool:
    """Whether an array holds whole numbers from `low` to below `high`."""
    return bool(array.dtype.kind == "i" and (array.size == 0 or (array.min() >= low and array.max() < high)))


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


def _check_neighbours(neighbours: KNeighborsClassifier) -> None:
    """Compiled code counts the classes of neighbours without asking whether there is such a class."""
    rows = neighbours._fit_X
    _require(
        neighbours,
        kind=neighbours._fit_method == neighbours.algorithm == "brute" and neighbours._tree is None,
        metric=neighbours.metric in ("euclidean", "minkowski")
        and neighbours.p == 2
        and neighbours.metric_params is None
        and neighbours.effective_metric_ == "euclidean"
        and neighbours.effective_metric_params_ == {},
        weights=neighbours.weights == "uniform" and neighbours.outputs_2d_ is False,
        rows=type(rows) is np.ndarray
        and rows.dtype.kind == "f"
        and rows.shape == (neighbours.n_samples_fit_, neighbours.n_features_in_),
        n_neighbors=1 <= neighbours.n_neighbors <= len(rows),
        labels=neighbours._y.shape == (len(rows),) and _is_whole(neighbours._y, 0, len(neighbours.classes_)),
    )


def _check_encoder(encoder: OneHotEncoder) -> None:
    """Positions of levels become those of columns, which SciPy fills without asking whether there is such a column."""
    widths, levels = encoder._n_features_outs, encoder.categories_
    _require(
        encoder,
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


def _check_pool(pool: Pool) -> None:
    """No compiled code here: but a member without a weight would take part, or not, by accident."""
    n = len(pool.members_)
    _require(
        pool,
        members=n == len(pool.members) > 0 and all(np.array_equal(m.classes_, pool.classes_) for m in pool.members_),
        weights=pool.weights.shape == (n,) and bool((pool.weights >= 0).all()) and abs(pool.weights.sum() - 1) < 1e-6,
        betas=pool.betas.shape == (n,) and bool((pool.betas > 0).all()),
        steps=0 <= pool.smoothing < np.inf and 0 < pool.sharpness < np.inf,
        priors=pool.prior_ratio is None or _is_positive(pool.prior_ratio, pool.classes_.shape),
    )


def _is_positive(values: Any, shape: tuple[int, ...]) -> bool:
    """Whether these are finite numbers above zero in an array of this shape."""
    return isinstance(values, np.ndarray) and values.shape == shape and bool(((values > 0) & (values < np.inf)).all())


CHECKS: dict[type, Callable[[Any], None]] = {
    KNeighborsClassifier: _check_neighbours,
    OneHotEncoder: _check_encoder,
    Pool: _check_pool,
    SVC: _check_svc,
}
