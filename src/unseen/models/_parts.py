"""What a model that was read from a file may consist of, and may hold.

Types alone are not enough. Some estimators hand their arrays to compiled code that takes sizes and indices on trust, so
a file that was altered could end the process instead of raising an error. What such code relies on is checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from ..shift import Novelty
from ._model import TableModel

OURS: tuple[type, ...] = (DomainCenterer, Novelty, PivotedNystroem, CIDG, DICA, KFDA, MDA, SCA, TableModel, UndoBias)
ESTIMATORS = (
    *OURS,
    ColumnTransformer,
    FrozenEstimator,
    KNeighborsClassifier,
    LabelBinarizer,
    LinearSVC,
    LogisticRegression,
    Normalizer,
    Nystroem,
    OneHotEncoder,
    Pipeline,
    RBFSampler,
    RidgeClassifier,
    SVC,
    SimpleImputer,
    StandardScaler,
)
CONTAINERS = (dict, list, set, tuple)
VALUES = (bool, float, int, slice, str, type(None))


def name_of(kind: type) -> str:
    """The name of a type, as model files have it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def strangers(model: Any) -> list[str]:
    """Names of the types in a model that no model of this package has."""
    return sorted({name_of(type(part)) for part in _parts(model) if not _is_known(part)})


def check_parts(model: Any) -> None:
    """Refuse arrays that would lead compiled code astray."""
    for part in _parts(model):
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
        elif type(part) in ESTIMATORS:
            rest.append(vars(part))


def _is_fitted(part: Any) -> bool:
    """Whether an estimator holds more than its parameters; without, no compiled code is ever reached."""
    more = vars(part).keys() - part.get_params(deep=False).keys()
    return not more <= {"_sklearn_output_config", "_metadata_request"}


def _is_known(part: Any) -> bool:
    if isinstance(part, type):
        return issubclass(part, np.generic)
    known = (*ESTIMATORS, *CONTAINERS, *VALUES, np.ndarray)
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


CHECKS: dict[type, Callable[[Any], None]] = {
    KNeighborsClassifier: _check_neighbours,
    OneHotEncoder: _check_encoder,
    SVC: _check_svc,
}
