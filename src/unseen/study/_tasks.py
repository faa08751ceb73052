"""What a comparison is about: samples, how to prepare them, and which domains are trained on and which are unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from ..algebra import Array, Ints
from ..labels import Labels, Samples, check_domains, encode_classes
from ..tables import Column, Schema, Table, preprocessor

Scale = Literal["standardize", "l2", "none"]


@dataclass(frozen=True)
class Task:
    """Train on `sources`, test on `targets`.

    Attributes
    ----------
    sources : tuple of str
        Domains with labels.
    targets : tuple of str
        Domains that nobody has seen.

    Examples
    --------
    >>> from unseen.study import Task
    >>> Task(sources=("A", "C"), targets=("D", "W")).name
    'A,C -> D,W'
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def name(self) -> str:
        """Such as ``"A,C -> D,W"``."""
        return f"{','.join(self.sources)} -> {','.join(self.targets)}"


def tasks(domains: Sequence[str], n_targets: int = 1) -> list[Task]:
    """Every way to leave out `n_targets` domains.

    Parameters
    ----------
    domains : sequence of str
        All domains.
    n_targets : int, default=1
        How many are left out at a time.

    Returns
    -------
    tasks : list of Task
        In the order of the domains left out.

    Examples
    --------
    >>> from unseen.study import tasks
    >>> [task.name for task in tasks("ACD")]
    ['C,D -> A', 'A,D -> C', 'A,C -> D']
    >>> len(tasks("ACDW", 1) + tasks("ACDW", 2))
    10
    """
    names = [str(name) for name in domains]
    if len(set(names)) != len(names):
        raise ValueError(f"domains must differ; got {names}.")
    if not 1 <= n_targets < len(names):
        raise ValueError(
            f"n_targets must leave at least one of the {len(names)} domains to train on; got {n_targets!r}."
        )
    return [
        Task(tuple(name for name in names if name not in targets), targets)
        for targets in combinations(names, n_targets)
    ]


@dataclass(frozen=True)
class Subject:
    """Samples with their numbers in the user's table, from 1 on, and an unfitted transformer that prepares them."""

    samples: Samples
    numbers: Ints
    preprocessor: Any
    name: str
    notices: list[str] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        """Names of the classes, in order."""
        return [str(label) for label in self.samples.classes]

    @property
    def domains(self) -> list[str]:
        """Names of the domains, in the order of the samples."""
        return list(dict.fromkeys(self.samples.domain.tolist()))

    def prepared(self) -> Array:
        """Samples as the methods see them, prepared on all domains: for looking at, not for scoring."""
        return clone(self.preprocessor).fit_transform(self.samples.X)


def subject_of_table(table: Table, scale: Scale) -> Subject:
    """A table's rows, prepared as its columns ask."""
    samples, prepare = Samples(table.X, table.y, table.domain), preprocessor(table.schema, scale)
    return Subject(samples, table.rows + 1, prepare, table.name, list(table.notices))


def subject_of_arrays(X: Any, y: Any, sample_domain: Any, scale: Scale, most: int | None, seed: int) -> Subject:
    """Arrays, thinned to at most so many samples of each domain."""
    if y is None or sample_domain is None:
        raise ValueError(
            f"Samples need labels and domains; got y={'None' if y is None else '...'} and "
            f"sample_domain={'None' if sample_domain is None else '...'}. Pass both, or the path of a table."
        )
    X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    encode_classes(y, "compare")
    domain = check_domains(sample_domain, len(y)).astype(str)
    if len(np.unique(domain)) < 2:
        raise ValueError(
            f"compare needs samples of at least 2 domains; sample_domain holds only {domain.tolist()[0]!r}."
        )
    kept = thin(domain, most, seed)
    schema = Schema(tuple(Column(f"feature {j}", "numeric") for j in range(X.shape[1])))
    return Subject(Samples(X, y, domain).take(kept), kept + 1, preprocessor(schema, scale), "arrays")


def thin(domain: Labels, most: int | None, seed: int = 0) -> Ints:
    """At most so many samples of each domain, drawn at random, in their order; None keeps all."""
    if most is None:
        return np.arange(len(domain))
    rng = np.random.default_rng(seed)
    rows = [np.flatnonzero(domain == name) for name in np.unique(domain)]
    return np.sort(np.concatenate([rng.permutation(of_domain)[:most] for of_domain in rows]))
