"""A name for all that a fitted object holds, by its bits: equal names mean equal types, shapes, numbers and texts."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np
from scipy import sparse

CLOCKS = ("seconds", "_time", "timestamp")  # parts of names of what was measured, which is different each time


def digest(*values: Any) -> str:
    """The name of some values; clocks among their attributes and keys have no say in it."""
    sha = hashlib.sha256()
    _feed(sha, values, set())
    return sha.hexdigest()


def _feed(sha: Any, value: Any, above: set[int]) -> None:
    sha.update(type(value).__name__.encode())
    if isinstance(value, np.ndarray) and value.dtype != object:
        sha.update(f"{value.dtype.str} {value.shape}".encode())
        sha.update(np.ascontiguousarray(value).tobytes())
    elif value is None or isinstance(value, (str, bytes, bool, int, float, np.generic)):
        sha.update(value.tobytes() if isinstance(value, np.generic) else repr(value).encode())
    elif id(value) in above or callable(value) or isinstance(value, type):
        sha.update(getattr(value, "__qualname__", "").encode())  # itself once more, or code
    else:
        for part in _parts(value):
            _feed(sha, part, above | {id(value)})
    sha.update(b";")


def _parts(value: Any) -> Any:
    """What a value is made of."""
    if sparse.issparse(value):
        rows = value.tocsr()
        return rows.shape, rows.data, rows.indices, rows.indptr
    if isinstance(value, (set, frozenset)):
        return sorted(map(digest, value))
    if isinstance(value, (list, tuple, np.ndarray)):
        return list(value)
    if isinstance(value, dict) or hasattr(value, "__dict__"):
        told = value if isinstance(value, dict) else vars(value)
        return [part for pair in told.items() if not any(clock in str(pair[0]) for clock in CLOCKS) for part in pair]
    if hasattr(value, "get_arrays"):  # a tree of scikit-learn
        return [np.asarray(array) for array in value.get_arrays()]
    return [pickle.dumps(value)]
