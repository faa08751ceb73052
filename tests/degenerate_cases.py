"""Degenerate data: small, extreme, empty of variation, or of odd types; and one ordinary problem they are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

COUNTS = np.array([[3, 1, 2], [1, 2, 1], [2, 1, 2]])  # samples of each class in each domain
GRID = 2.0**-20  # samples on a grid: a power of two times them, or a number of the same size beside them, is exact


@dataclass(frozen=True)
class Case:
    """Samples, and what an estimator is set to on them.

    `plain` is the same problem in ordinary double precision, dense and of ordinary size, where there is one: `factor`
    times its samples are these. `settings` are parameters by name, for the estimators that have them.
    """

    X: Any
    y: Any
    d: Any
    plain: Case | None = None
    factor: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    weight: Any = None

    @property
    def precision(self) -> float:
        """What can be asked of features in the precision of the samples."""
        return 1e-6 if self.X.dtype == np.float32 else 0.0

    @property
    def is_large(self) -> bool:
        """Whether matrices of its samples are too large for 50 digits."""
        return len(self.y) > 100

    @property
    def magnitude(self) -> int:
        """How many more digits its settings and the size of its samples ask of an oracle."""
        sizes = [abs(np.log10(v)) for v in self.settings.values() if v]
        # Squares of the kernel matrix stand beside its own self; beyond this size they are refused.
        return int(max(sizes, default=0) + min(4 * abs(np.log10(self.factor)), 160))


def labels(counts: Any) -> tuple[Any, Any]:
    """Classes and domains of samples, in that many of each cell."""
    counts = np.asarray(counts)
    d, y = (np.repeat(index, counts.ravel()) for index in map(np.ravel, np.indices(counts.shape)))
    return y, d


def ordinary(counts: Any = COUNTS, n_features: int = 3, seed: int = 0) -> Case:
    """Shifted domains and classes apart."""
    y, d = labels(counts)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(y), n_features)) + 2 * rng.normal(size=(y.max() + 1, n_features))[y]
    X += rng.normal(size=(d.max() + 1, n_features))[d]
    return Case(np.round(X / GRID) * GRID, y, d)


def of(X: Any, like: Case | None = None, **more: Any) -> Case:
    """Other samples with the labels of a case, an ordinary one by default."""
    like = like or ordinary()
    return Case(X, like.y, like.d, **more)


def scaled(factor: float) -> Case:
    case = ordinary()
    return of(case.X * factor, plain=case, factor=factor)


def typed(
    convert: Callable[[Any], Any], back: Callable[[Any], Any] = lambda X: np.asarray(X, dtype=np.float64)
) -> Case:
    X = convert(ordinary().X)
    return of(X, plain=of(back(X)))


def constant_features() -> Case:
    case = ordinary()
    return of(np.column_stack([np.full(15, 0.1), case.X, np.zeros(15), np.full(15, 1e6)]))


def mixed_columns() -> Case:
    case = ordinary(n_features=5)
    return of(case.X * 10.0 ** np.array([-300, -150, 0, 150, 300]))


def sparse_wide() -> Case:
    y, d = labels(COUNTS)
    rng = np.random.default_rng(0)
    X = sparse.random(15, 50_000, density=1e-3, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    # Words that classes and domains have, so that there is something to find.
    marks = sparse.coo_array((np.full(30, 2.0), (np.tile(np.arange(15), 2), np.r_[100 * y, 100 * d + 1])), X.shape)
    X = sparse.csr_array(X + marks)
    return of(X, plain=of(X.toarray()))


def identical_in_classes() -> Case:
    case = ordinary()
    return of(np.array([[0.0, 1, 0], [2, 0, 1], [0, 0, 3]])[case.y])


def identical_across_classes() -> Case:
    y, d = labels(np.full((3, 3), 2))
    X = np.random.default_rng(0).normal(size=(2, 3))
    return Case(np.tile(X, (9, 1)), y, d)


def many(n_domains: int, n_classes: int, n: int) -> Case:
    """Cells drawn at random, after one of each class and of each domain."""
    rng = np.random.default_rng(0)
    first = np.arange(max(n_domains, n_classes))
    y, d = (np.r_[first % size, rng.integers(0, size, n - len(first))] for size in (n_classes, n_domains))
    X = rng.normal(size=(n, 10)) + 2 * rng.normal(size=(n_classes, 10))[y] + rng.normal(size=(n_domains, 10))[d]
    return Case(X, y, d)


CASES: dict[str, Callable[[], Case]] = {
    "ordinary": ordinary,
    "constant features": constant_features,
    "copied features": lambda: of(np.hstack([ordinary().X] * 4)),
    "copied samples": lambda: Case(
        *(np.concatenate([part] * 2) for part in (ordinary().X, ordinary().y, ordinary().d))
    ),
    "one sample per class": lambda: ordinary([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]),
    "one sample per cell": lambda: ordinary(np.ones((3, 3), dtype=int)),
    "disjoint classes": lambda: ordinary([[3, 3, 0, 0, 0, 0], [0, 0, 3, 3, 0, 0], [0, 0, 0, 0, 3, 3]]),
    "times 1e-300": lambda: scaled(2.0**-996),
    "times 1e-150": lambda: scaled(2.0**-498),
    "times 1e-80": lambda: scaled(2.0**-266),
    "times 1e-30": lambda: scaled(2.0**-100),
    "times 1e30": lambda: scaled(2.0**100),
    "times 1e80": lambda: scaled(2.0**266),
    "times 1e150": lambda: scaled(2.0**498),
    "times 1e300": lambda: scaled(2.0**996),
    "columns from 1e-300 to 1e300": mixed_columns,
    "integers": lambda: typed(lambda X: np.round(4 * X).astype(np.int64)),
    "bytes": lambda: typed(lambda X: np.round(4 * X + 40).astype(np.uint8)),
    "booleans": lambda: typed(lambda X: X > 0),
    "float16": lambda: typed(lambda X: X.astype(np.float16)),
    "float16, large": lambda: typed(lambda X: (6000 * X).astype(np.float16)),
    "float32": lambda: typed(lambda X: X.astype(np.float32)),
    "one feature": lambda: ordinary(n_features=1),
    "50,000 sparse features": sparse_wide,
    "identical samples": lambda: of(np.full((15, 3), 0.1)),
    "classes identical inside": identical_in_classes,
    "classes identical to each other": identical_across_classes,
    **{
        f"weights of {w:g}": lambda w=w: of(
            ordinary().X,
            settings=dict.fromkeys(
                ("conditional_weight", "prior_weight", "domain_weight", "within_weight", "shared_cost", "domain_cost"),
                w,
            ),
        )
        for w in (1e8, 1e30, 1e300)
    },
    "norm_weight of 1e300": lambda: of(ordinary().X, settings={"norm_weight": 1e300}),
    "sample weights of 1e300": lambda: of(ordinary().X, weight=np.full(15, 1e300)),
    "sample weights of 1e-300": lambda: of(ordinary().X, weight=np.full(15, 1e-300)),
    "sample weights from 1e-300 to 1e300": lambda: of(ordinary().X, weight=np.logspace(-300, 300, 15)),
    "ridge 0": lambda: of(ordinary().X, settings={"ridge": 0}),
    "ridge 1e-300": lambda: of(ordinary().X, settings={"ridge": 1e-300}),
    "ridge 1e300": lambda: of(ordinary().X, settings={"ridge": 1e300}),
    "500 classes": lambda: many(3, 500, 700),
    "200 domains": lambda: many(200, 3, 400),
}
