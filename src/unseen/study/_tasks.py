"""Which domains are trained on and which are unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations


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
