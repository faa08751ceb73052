"""What a comparison costs as the number of domains grows and each has as many rows as before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
from threadpoolctl import threadpool_limits

import unseen

from .measure import Row, best_of

PER_DOMAIN, COLUMNS, CLASSES = 100, 10, 3
METHODS = ("CIDG", "SCA", "logistic", "RBF SVM")
NUMBERS = (4, 8, 16)


def rows() -> Iterator[Row]:
    seconds = best_of(2, *(partial(compared, m) for m in NUMBERS), clock=time.process_time)
    for (few, before), (many, after) in pairwise(zip(NUMBERS, seconds, strict=True)):
        detail = f"{after:.1f} s / {before:.1f} s of one core"
        # Four times as many training sets of twice the rows, each of which is decomposed: 4 * 2 ** 3.
        yield Row(f"compare with {many} domains / with {few}", after / before, 32, True, detail)


def compared(m: int) -> None:
    """One repeat in one process with one thread, so that the time of the process is that of the work."""
    rng = np.random.default_rng(0)
    y, d = rng.integers(0, CLASSES, PER_DOMAIN * m), np.repeat(np.arange(m), PER_DOMAIN)
    X = rng.normal(size=(len(y), COLUMNS)) + rng.normal(size=(CLASSES, COLUMNS))[y]
    X += 0.5 * rng.normal(size=(m, COLUMNS))[d]
    with threadpool_limits(1):
        unseen.compare(X, y, sample_domain=d, methods=METHODS)
