"""Past one machine: fit, transform and predict on Dask collections, which stay where they are.

Every block of rows is turned into its statistics where it lies, the statistics are added up in a tree, and the small
eigenproblem is solved at home. Any scheduler of Dask will do. Projections call this module by themselves when they are
given a Dask collection; `predict` is for the classifiers that stand behind them.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial, reduce
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.pipeline import Pipeline
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from ..linalg import Array, Moments, merge_moments
from ..utils.optional_imports import is_dask
from ..utils.validation import EncodedLabels, Labels, check_domains
from ._feature_space import fit_feature_map, is_fitted_map
from ._parallel import cluster_errors
from ._projection import Projection
from ._statistics import Statistics, collect_statistics, sum_statistics

__all__ = ["predict"]

# A feature map that learns from data learns from so many rows at most, drawn from all blocks with a fixed seed.
SAMPLE_ROWS = 10_000
SEED = 0
FAN_IN = 8  # statistics added up by one task
T = TypeVar("T")
E = TypeVar("E")


class MisalignedBlocksError(ValueError):
    """Blocks of labels have other lengths than the blocks of rows that they were paired with."""


def gather_statistics(
    projection: Projection, X: Any, y: Any, sample_domain: Any, *, declared: Labels | None, reset: bool
) -> Statistics:
    """Statistics of the features of a Dask collection; with `reset` the feature map learns from a sample first."""
    if projection._needs_labels() and y is None:
        raise ValueError(f"{type(projection).__name__} requires y to be passed, but the target y is None.")
    header, rows = _outline(X), row_blocks(X)
    if reset:
        _fit_to_sample(projection, rows)
    validate_data(projection, header, reset=reset, skip_check_array=True)  # last: the sample knows no names
    labels = {"y": _one_dimension(y) if projection._needs_labels() else None, "sample_domain": sample_domain}
    twin = _bare(projection)

    def part(block: Any, y: Any, domain: Any) -> Statistics | None:
        return (
            None if block.shape[0] == 0 else collect_statistics(twin, block, y, domain, declared=declared, reset=False)
        )

    found = _reduced(part, rows, labels, sum_statistics)
    if found is None:
        raise ValueError(f"X holds no samples; {type(projection).__name__} needs at least 2.")
    return found


def transform(projection: Projection, X: Any, sample_domain: Any, *, names: bool = True) -> Any:
    """Project a Dask collection lazily; target centering first computes the means of new domains, in one pass.

    Without `names` the columns of X have been compared already.
    """
    wanted = _get_output_config("transform", projection)["dense"]
    if names and wanted != "default":
        raise ValueError(
            f"transform of a Dask collection is lazy, but set_output asks for {wanted!r}, which would collect it. "
            'Call set_output(transform="default"), or transform data in memory.'
        )
    if names:
        validate_data(projection, _outline(X), reset=False, skip_check_array=True)
    rows, twin = row_blocks(X), _bare(projection)
    nothing = np.empty((0, len(twin.eigenvalues_)), dtype=np.float32 if rows.dtype == np.float32 else np.float64)
    if not projection._centers_batches():
        return _by_block(twin.transform, rows, nothing)
    centering, found = projection._centering(), moments(projection, rows, sample_domain)
    centering.require_batches(found)
    if sample_domain is None:
        return _by_block(twin._moved(found[None].mean).transform, rows, nothing)

    def centered(block: Any, domain: Any) -> Any:
        return centering.subtract(twin._uncentered(block), domain[:, 0], found).astype(nothing.dtype, copy=False)

    # The lengths have to agree before anything lazy is built: later there is nobody to turn to.
    rows, domains = align_blocks(rows, {"sample_domain": sample_domain}, exact=True)
    return _by_block(centered, rows, nothing, domains[:, None])


def predict(model: Any, X: Any, *, sample_domain: Any = None, method: str = "predict") -> Any:
    """Predict lazily for a Dask collection, block by block.

    Parameters
    ----------
    model : estimator
        A fitted pipeline of projections, row-wise transformers and a classifier, a fitted
        :class:`~unseen.ProjectionSearchCV` or :class:`~unseen.UnseenClassifier`, or a classifier alone. A pool that
        centers new domains reads X once when this function is called; one that smooths looks for neighbors of a sample
        within its block, so that its predictions depend on how X is divided.
    X : dask array or dataframe of shape (n_samples, n_features)
        Samples.
    sample_domain : array-like or Dask collection of shape (n_samples,), default=None
        Their domains; they matter for ``centering="target"``, which reads X once when this function is called.
    method : str, default="predict"
        Any method of the classifier that works row by row, such as "predict_proba".

    Returns
    -------
    y : dask array
        Predictions, to be computed.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from unseen import KFDA
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.distributed import predict
    >>> data = make_synthetic(random_state=0)
    >>> kfda = KFDA(feature_map="linear")
    >>> Z = kfda.fit_transform(data.data, data.target, sample_domain=data.domain)
    >>> model = make_pipeline(kfda, LogisticRegression().fit(Z, data.target))
    >>> y = predict(model, da.from_array(data.data, chunks=100))
    >>> y.compute().shape
    (320,)
    """
    if not is_dask(X):
        raise TypeError(f"X must be a Dask array or dataframe; got {type(X).__name__}. Use the model's own {method}.")
    validate_data(model, _outline(X), reset=False, skip_check_array=True)  # columns by name, where it knows names
    model = getattr(model, "best_estimator_", model)
    if hasattr(model, "moments") and hasattr(model, "answer"):
        return _of_pool(model, X, sample_domain, method)
    *transformers, classifier = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    for step in transformers:
        if isinstance(step, Projection):
            step._require_solution()
            X = transform(step, X, sample_domain, names=False)
        elif (
            hasattr(step, "set_transform_request") and "sample_domain" in step.get_metadata_routing().transform.requests
        ):
            raise ValueError(
                f"{type(step).__name__} needs whole domains at a time, and blocks of a Dask collection are not. Use a "
                'projection with centering="target", or predict domain by domain in memory.'
            )
        elif step not in (None, "passthrough"):
            X = _by_block(_bare(step).transform, row_blocks(X))
    check_is_fitted(classifier)
    return _by_block(getattr(_bare(classifier), method), row_blocks(X))


def _of_pool(pool: Any, X: Any, sample_domain: Any, method: str) -> Any:
    """What a pool says of a Dask collection: new domains are centered on all blocks, which takes a pass over them."""
    ask, rows = getattr(pool, method), row_blocks(X)
    if not pool.transductive:
        return _by_block(ask, rows)
    pool.require_pieces()

    def of_block(block: Any, domain: Any) -> dict[str, dict[Any, Any]]:
        if not block.shape[0]:
            return {"centers": {}, "sizes": {}}
        coded = EncodedLabels.from_domains(domain, block.shape[0])
        sizes = dict(zip(coded.names.tolist(), np.bincount(coded.codes).tolist(), strict=True))
        return {"centers": pool.moments(block, domain), "sizes": sizes}

    def combined(parts: Sequence[dict[str, dict[Any, Any]]]) -> dict[str, dict[Any, Any]]:
        return {key: reduce(merge_moments, [part[key] for part in parts]) for key in parts[0]}

    found = _reduced(of_block, rows, {"sample_domain": sample_domain}, combined)
    pool.require_batches(found["sizes"])

    def answered(block: Any, domain: Any = None) -> Any:
        P = pool.answer(block, None if domain is None else domain[:, 0], found["centers"])
        if method == "predict":
            return pool.classes_[P.argmax(axis=1)]
        return pool.with_natural_priors(P) if method == "predict_proba" else P

    nothing = pool.classes_[:0] if method == "predict" else np.empty((0, len(pool.classes_)))
    if sample_domain is None:
        return _by_block(answered, rows, nothing)
    rows, domains = align_blocks(rows, {"sample_domain": sample_domain}, exact=True)
    return _by_block(answered, rows, nothing, domains[:, None])


def _fit_to_sample(projection: Projection, rows: Any) -> None:
    """Fit the map to a sample; one that has nothing to learn is spared the pass over the data."""
    if is_fitted_map(projection.feature_map):
        fit_feature_map(projection, None)
        return

    def draw(block: Any, number: int) -> tuple[Array, Any]:
        return _smallest([(np.random.default_rng([SEED, number]).random(block.shape[0]), block)])

    delayed = import_module("dask").delayed
    parts = [delayed(draw)(block, i) for i, block in enumerate(rows.to_delayed().ravel())]
    _, sample = compute(tree_reduce(parts, _smallest))
    fit_feature_map(projection, projection._check_samples(sample))


def _smallest(parts: Sequence[tuple[Array, Any]]) -> tuple[Array, Any]:
    """Of rows with random keys keep those with the smallest, in their order: a uniform sample of unknown many rows."""
    keys = np.concatenate([keys for keys, _ in parts])
    blocks = [block for _, block in parts]
    kept = np.sort(np.argsort(keys)[:SAMPLE_ROWS])
    together = sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)
    return keys[kept], together[kept]


def moments(projection: Projection, X: Any, sample_domain: Any = None) -> dict[Any, Moments]:
    """What the components of a Dask collection tell about the means of new domains."""
    twin, centering = _bare(projection), projection._centering()
    none = {} if sample_domain is not None else centering.moments(np.empty((0, len(twin.eigenvalues_))))

    def collect_block(block: Any, domain: Any) -> dict[Any, Moments]:
        return centering.moments(twin._uncentered(block), domain) if block.shape[0] else none

    return _reduced(collect_block, row_blocks(X), {"sample_domain": sample_domain}, partial(reduce, merge_moments))


def _by_block(function: Callable[..., Any], rows: Any, nothing: Any = None, *columns: Any) -> Any:
    """Apply a row-wise function to each block, and to that of the columns beside it.

    `nothing` is what it gives for no rows; unless that is known, its answer to a row of ones tells the type and shape.
    """
    if nothing is None:
        nothing = function(np.ones((1, rows.shape[1]), dtype=rows.dtype))[:0]

    def block(part: Any, *beside: Any) -> Any:
        return function(part, *beside) if part.shape[0] else nothing

    chunks = (rows.chunks[0], *((n,) for n in nothing.shape[1:]))
    dropped = {"drop_axis": 1} if nothing.ndim == 1 else {}
    return rows.map_blocks(block, *columns, dtype=nothing.dtype, chunks=chunks, meta=nothing, **dropped)


def _outline(X: Any) -> Any:
    """What there is to know of X without looking at samples: the number of features, and names if it has any."""
    if hasattr(X, "columns"):
        return X._meta
    if not hasattr(X, "ndim"):
        raise TypeError(f"X must be a Dask array or dataframe; got a Dask {type(X).__name__}.")
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, samples and features; got a Dask collection with {X.ndim}.")
    return np.empty((0, X.shape[1]))


def _one_dimension(y: Any) -> Any:
    """Labels in one dimension, as scikit-learn takes them in memory: a single column will do, with a warning."""
    if getattr(y, "ndim", 1) != 2 or y.shape[1] != 1:
        return y
    text = "A column-vector y was passed when a 1d array was expected."
    warnings.warn(text, DataConversionWarning, stacklevel=6)
    return y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]


def _bare(estimator: E) -> E:
    """A copy to send around: it takes plain arrays, and leaves behind what only a stream needs."""
    twin = copy.copy(estimator)
    for name in ("statistics_", "feature_names_in_"):
        twin.__dict__.pop(name, None)
    if hasattr(twin, "set_output"):
        twin.__dict__["_sklearn_output_config"] = {"transform": "default"}  # whatever it is elsewhere
    return twin


def _reduced(function: Callable[..., T], rows: Any, labels: dict[str, Any], combine: Callable[[Sequence[T]], T]) -> T:
    """Apply a function to each block of rows with its labels, and combine the answers in a tree."""
    delayed = import_module("dask").delayed

    def checked(block: Any, *labels: Any) -> T:
        for values in labels:
            if values is not None and len(values) != block.shape[0]:
                raise MisalignedBlocksError(f"A block of X has {block.shape[0]} rows, its labels number {len(values)}.")
        return function(block, *labels)

    shared = delayed(checked)  # sent once, not with every block

    def answer(exact: bool) -> T:
        arrays = align_blocks(rows, labels, exact=exact)
        absent = [None] * arrays[0].numblocks[0]
        columns = (absent if array is None else array.to_delayed().ravel() for array in arrays)
        return compute(tree_reduce([shared(*parts) for parts in zip(*columns, strict=True)], combine))

    try:
        return answer(exact=False)
    except MisalignedBlocksError:
        return answer(exact=True)


def tree_reduce(parts: list[Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
    delayed = import_module("dask").delayed
    while len(parts) > 1:
        parts = [delayed(combine)(parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
    return parts[0]


def row_blocks(collection: Any) -> Any:
    """A Dask array with all columns of a row in one block; of a dataframe, its values."""
    if hasattr(collection, "divisions"):
        # Not its `values`, which are no plain arrays where it holds strings or categories.
        collection = collection.map_partitions(np.asarray, meta=np.asarray(collection._meta))
    return collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))


def align_blocks(rows: Any, labels: dict[str, Any], *, exact: bool) -> list[Any]:
    """Rows and labels in blocks that belong together; labels that are None stay so.

    Where lengths are unknown, equal numbers of blocks are taken at their word unless `exact` asks to count: that costs
    a pass over the data.
    """
    arrays = {name: row_blocks(part) for name, part in labels.items() if is_dask(part)}
    here = {name: part for name, part in labels.items() if part is not None and name not in arrays}
    unknown = any(math.isnan(array.shape[0]) for array in (rows, *arrays.values()))
    if unknown and (exact or here or any(part.numblocks[0] != rows.numblocks[0] for part in arrays.values())):
        rows, arrays = _counted(rows), {name: _counted(array) for name, array in arrays.items()}
        unknown = False
    for name, part in here.items():
        values = check_domains(part, rows.shape[0]) if name == "sample_domain" else np.asarray(part)
        arrays[name] = import_module("dask.array").from_array(values, chunks=-1)
    if not unknown:
        for name, array in arrays.items():
            if array.shape[0] != rows.shape[0]:
                raise ValueError(f"X has {rows.shape[0]} samples, but {name} has {array.shape[0]}.")
            arrays[name] = array.rechunk((rows.chunks[0],))
    return [rows, *(arrays.get(name) for name in labels)]


def _counted(array: Any) -> Any:
    """The same array with known lengths of its blocks; `compute_chunk_sizes` would change the caller's."""
    if not math.isnan(array.shape[0]):
        return array
    delayed = import_module("dask").delayed
    shapes = compute(delayed([delayed(np.shape)(block) for block in array.to_delayed().ravel()]))
    chunks = tuple(shape[0] for shape in shapes), *array.chunks[1:]
    return import_module("dask.array").Array(array.dask, array.name, chunks, meta=array._meta)


def compute(task: Any) -> Any:
    """Compute a task with the current scheduler of Dask; a cluster that is lost raises ClusterLostError."""
    client: Any = getattr(import_module("dask.base").get_scheduler(), "__self__", None)
    if type(client).__name__ != "Client":
        return task.compute()
    with cluster_errors(client):
        return task.compute()
