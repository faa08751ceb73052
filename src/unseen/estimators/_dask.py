"""Functions of the blocks of Dask collections, which stay where they are stored.

A block of rows is reduced to a small result on its worker, and the results are combined in a tree. Any Dask scheduler
works. Dask is imported when it is used.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from ..utils.jobs import cluster_errors
from ..utils.validation import check_domains, is_dask

MAX_SAMPLE_ROWS = 10_000  # rows that a feature map learns from, drawn from all blocks
FAN_IN = 8  # results that one task combines
NOT_SENT = ("statistics_", "feature_names_in_")  # fitted attributes that workers do not need
T = TypeVar("T")
E = TypeVar("E")


def compute(task: Any) -> Any:
    """Compute a task with the current scheduler of Dask; raise ClusterLostError if the cluster is lost."""
    client: Any = getattr(import_module("dask.base").get_scheduler(), "__self__", None)
    if type(client).__name__ != "Client":
        return task.compute()
    with cluster_errors(client):
        return task.compute()


def tree_reduce(parts: list[Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
    """Return a lazy value that combines lazy parts in a tree."""
    delayed = import_module("dask").delayed
    while len(parts) > 1:
        parts = [delayed(combine)(parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
    return parts[0]


def row_blocks(collection: Any) -> Any:
    """Return a Dask array that has all columns of a row in one block."""
    if hasattr(collection, "divisions"):
        # The attribute `values` of a dataframe is not a plain array if it holds strings or categories.
        collection = collection.map_partitions(np.asarray, meta=np.asarray(collection._meta))
    return collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))


def align_blocks(rows: Any, labels: dict[str, Any]) -> list[Any]:
    """Return rows and labels in blocks of equal lengths; labels that are None stay None."""
    arrays: list[Any] = []
    for name, part in labels.items():
        if part is None:
            arrays.append(None)
            continue
        rows = count_rows(rows)
        if is_dask(part):
            array = count_rows(row_blocks(part))
        else:
            values = check_domains(part, rows.shape[0]) if name == "sample_domain" else np.asarray(part)
            array = import_module("dask.array").from_array(values, chunks=-1)
        if array.shape[0] != rows.shape[0]:
            raise ValueError(f"X has {rows.shape[0]} samples, but {name} has {array.shape[0]}.")
        arrays.append(array.rechunk({0: rows.chunks[0]}))
    return [rows, *arrays]


def count_rows(array: Any) -> Any:
    """Return the same array with known block lengths, which costs a pass over the data if they are not known.

    `compute_chunk_sizes` would modify the array of the caller.
    """
    if not math.isnan(array.shape[0]):
        return array
    delayed = import_module("dask").delayed
    shapes = compute(delayed([delayed(np.shape)(block) for block in array.to_delayed().ravel()]))
    chunks = (tuple(shape[0] for shape in shapes), *array.chunks[1:])
    return import_module("dask.array").Array(array.dask, array.name, chunks, meta=array._meta)


def map_blocks(function: Callable[..., Any], rows: Any, empty: Any = None, *columns: Any) -> Any:
    """Apply a row-wise function lazily to each block, and to the corresponding blocks of other columns.

    `empty` is the result for no rows. If it is None, the result for one row of ones gives the type and shape.
    """
    if empty is None:
        empty = function(np.ones((1, rows.shape[1]), dtype=rows.dtype))[:0]

    def apply(block: Any, *column_blocks: Any) -> Any:
        return function(block, *column_blocks) if block.shape[0] else empty

    chunks = (rows.chunks[0], *((n,) for n in empty.shape[1:]))
    drop_axis = [1] if empty.ndim == 1 else []
    return rows.map_blocks(apply, *columns, dtype=empty.dtype, chunks=chunks, meta=empty, drop_axis=drop_axis)


def reduce_blocks(
    function: Callable[..., T], rows: Any, labels: dict[str, Any], combine: Callable[[Sequence[T]], T]
) -> T:
    """Apply a function to each block of rows with its labels, and combine the results in a tree."""
    delayed = import_module("dask").delayed

    arrays = align_blocks(rows, labels)
    absent = [None] * arrays[0].numblocks[0]
    columns = (absent if array is None else array.to_delayed().ravel() for array in arrays)
    shared = delayed(function)  # The function is sent once, not with every block.
    return compute(tree_reduce([shared(*blocks) for blocks in zip(*columns, strict=True)], combine))


def sample_rows(rows: Any) -> Any:
    """Return a reproducible uniform sample of at most `MAX_SAMPLE_ROWS` rows, in their order."""
    rows = count_rows(rows)
    n = rows.shape[0]
    return compute(rows[np.sort(np.random.default_rng(0).choice(n, min(n, MAX_SAMPLE_ROWS), replace=False))])


def describe_columns(X: Any) -> Any:
    """Return an empty table with the columns of X, and their names if it has names."""
    if hasattr(X, "columns"):
        return X._meta
    if not hasattr(X, "ndim"):
        raise TypeError(f"X must be a Dask array or dataframe; got a Dask {type(X).__name__}.")
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, samples and features; got a Dask collection with {X.ndim}.")
    return np.empty((0, X.shape[1]))


def copy_for_workers(estimator: E) -> E:
    """Return a copy that takes and returns plain arrays, without the attributes that workers do not need."""
    worker_copy = copy.copy(estimator)
    for name in NOT_SENT:
        vars(worker_copy).pop(name, None)
    if hasattr(worker_copy, "set_output"):
        vars(worker_copy)["_sklearn_output_config"] = {"transform": "default"}
    return worker_copy


def predict(model: Any, X: Any, *, sample_domain: Any = None, method: str = "predict") -> Any:
    """Predict lazily for a Dask collection, block by block.

    Parameters
    ----------
    model : estimator
        A fitted pipeline of projections, row-wise transformers and a classifier, a fitted
        :class:`~unseen.ProjectionSearchCV` or :class:`~unseen.UnseenClassifier`, or a classifier alone. An ensemble
        that centers new domains reads X once when this function is called. An ensemble that smooths searches the
        neighbors of a sample within its block, so that its predictions depend on the blocks of X.
    X : dask array or dataframe of shape (n_samples, n_features)
        Samples.
    sample_domain : array-like or Dask collection of shape (n_samples,), default=None
        Domain of each sample; matters for ``centering="target"``, which reads X once when this function is called.
    method : str, default="predict"
        Any row-wise method of the classifier, such as "predict_proba".

    Returns
    -------
    y : dask array
        Lazy predictions.

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
        raise TypeError(
            f"X must be a Dask array or dataframe; got {type(X).__name__}. Call model.{method}(X) for data in memory."
        )
    validate_data(model, describe_columns(X), reset=False, skip_check_array=True)  # compares column names, if any
    model = getattr(model, "best_estimator_", model)
    if hasattr(model, "predict_dask"):  # predictions of an ensemble are not row-wise
        return model.predict_dask(X, sample_domain=sample_domain, method=method)
    *transformers, classifier = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    for step in transformers:
        if hasattr(step, "_transform_dask"):
            X = step._transform_dask(X, sample_domain)
        elif _needs_domains(step):
            raise ValueError(
                f"{type(step).__name__} needs whole domains at a time, but Dask collections come in blocks. Use a "
                'projection with centering="target", or predict domain by domain in memory.'
            )
        elif step not in (None, "passthrough"):
            X = map_blocks(copy_for_workers(step).transform, row_blocks(X))
    check_is_fitted(classifier)
    return map_blocks(getattr(copy_for_workers(classifier), method), row_blocks(X))


def _needs_domains(step: Any) -> bool:
    """Whether `transform` of a step takes the domains of samples."""
    return hasattr(step, "set_transform_request") and "sample_domain" in step.get_metadata_routing().transform.requests
