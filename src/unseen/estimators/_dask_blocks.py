"""Blocks of rows of Dask collections: found, paired with their labels, and computed without waiting for ever."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ..citizen import is_dask
from ..labels import check_domains
from ._cluster import awaited


class Misaligned(ValueError):
    """Blocks of labels have other lengths than the blocks of rows that they were paired with."""


def as_array(collection: Any) -> Any:
    """A Dask array with all columns of a row in one block; of a dataframe, its values."""
    if hasattr(collection, "divisions"):
        da, dask = import_module("dask.array"), import_module("dask")
        meta = np.asarray(collection._meta)
        shape = (np.nan, *meta.shape[1:])
        values = dask.delayed(np.asarray)
        parts = [da.from_delayed(values(part), shape, dtype=meta.dtype) for part in collection.to_delayed()]
        collection = da.concatenate(parts, allow_unknown_chunksizes=True)
    return collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))


def aligned(rows: Any, labels: dict[str, Any], *, exact: bool) -> tuple[Any, list[Any]]:
    """Rows and labels in blocks that belong together; labels that are None stay so.

    Where lengths are unknown, equal numbers of blocks are taken at their word unless `exact` asks to count: that costs
    a pass over the data.
    """
    arrays = {name: as_array(part) for name, part in labels.items() if is_dask(part)}
    here = {name: part for name, part in labels.items() if part is not None and name not in arrays}
    unknown = any(_unknown(array) for array in (rows, *arrays.values()))
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
    return rows, [arrays.get(name) for name in labels]


def _unknown(array: Any) -> bool:
    return bool(np.isnan(array.chunks[0]).any())


def _counted(array: Any) -> Any:
    """The same array with known lengths of its blocks; `compute_chunk_sizes` would change the caller's."""
    if not _unknown(array):
        return array
    da, dask = import_module("dask.array"), import_module("dask")
    blocks = array.to_delayed().ravel()
    lengths = compute(dask.delayed([dask.delayed(_length)(block) for block in blocks]))
    rest, dtype = array.shape[1:], array.dtype
    return da.concatenate(
        [da.from_delayed(block, (n, *rest), dtype=dtype) for block, n in zip(blocks, lengths, strict=True)]
    )


def _length(block: Any) -> int:
    return int(block.shape[0])


def compute(task: Any) -> Any:
    """Compute a task with Dask's scheduler of the moment; on a cluster, as long as that has workers."""
    client: Any = getattr(import_module("dask.base").get_scheduler(), "__self__", None)
    if type(client).__name__ != "Client":
        return task.compute()
    future = client.compute(task)
    try:
        return awaited(future, client)
    finally:
        future.cancel()
