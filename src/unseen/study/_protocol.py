"""How a comparison is run: whom to leave out, draws of training data, preprocessing, and who chooses the settings."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from .. import __version__
from ..kernels import SizePlan
from ..linalg import Ints
from ..model_selection import (
    LeaveOneDomainOut,
    Method,
    WithinDomainSplit,
    check_groups_not_split,
    full_repr,
    get_metric,
)
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels


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


Selection = Literal["within", "domain", "oracle"]
PREPROCESSORS: dict[str, Any] = {"l2": Normalizer(), "standardize": StandardScaler(), "none": FunctionTransformer()}
CHOICES = {
    "selection": ("within", "domain", "oracle"),
    "preprocess": PREPROCESSORS,
    "centering": ("source", "target"),
    "balance": get_args(Balance),
    "grid": ("full", "lean"),
}


@dataclass(frozen=True)
class Protocol:
    """The rules of a comparison.

    Parameters
    ----------
    selection : {"domain", "within", "oracle"}, default="domain"
        Who chooses the settings: one source domain after the other is held out ("domain"), 30% of the training data is
        ("within", as the paper says), or the target's own labels do ("oracle", for reference only).
    train_size : float, default=0.7
        Share of each source domain that is trained on.
    repeats : int, default=5
        Number of random draws of the training data.
    preprocess : {"l2", "standardize", "none"}, default="l2"
        Rows to unit length, columns to zero mean and unit variance, or nothing; fitted on the training data alone.
    centering : {"target", "source"}, default="target"
        Centering of the projections: "target" is the paper's, and transductive.
    quick : bool, default=False
        Two settings of each parameter, for a smoke test.
    grid : {"full", "lean"}, default="full"
        All settings of a method, or without the widest kernel and the smallest ridge, for half the time.
    seed : int, default=0
        Seed of the first draw.
    metric : str, default="accuracy"
        What settings are chosen by and methods compared on: see `unseen.model_selection.get_metric`.
    balance : {"none", "classes", "domains"}, default="none"
        Whether classes, or domains, weigh alike in training, for classifiers that take weights.

    Examples
    --------
    >>> from unseen.study import Protocol
    >>> Protocol(selection="within", repeats=3).train_size
    0.7
    """

    selection: Selection = "domain"
    train_size: float = 0.7
    repeats: int = 5
    preprocess: Literal["l2", "standardize", "none"] = "l2"
    centering: Literal["source", "target"] = "target"
    quick: bool = False
    seed: int = 0
    metric: str = "accuracy"
    balance: Balance = "none"
    grid: Literal["full", "lean"] = "full"

    def __post_init__(self) -> None:
        get_metric(self.metric)
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; got {getattr(self, name)!r}.")
        for name, least, value in (("repeats", 1, self.repeats), ("seed", 0, self.seed)):
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")
        if not isinstance(self.train_size, Real) or not 0 < self.train_size < 1:
            raise ValueError(f"train_size must lie between 0 and 1; got {self.train_size!r}.")

    def draw(self, samples: Samples, task: Task, repeat: int) -> tuple[Ints, Ints]:
        """Training samples of one repeat and all samples of the targets.

        What is drawn of a domain does not depend on the task: tasks that leave out two domains in either order, one to
        test on and one to choose by, train on the same rows.
        """
        split, domain = self._within(self.train_size, repeat, stratify=False), samples.domain
        drawn, _ = next(split.split(domain, samples.y, samples.group, sample_domain=domain))
        sources, targets = (np.flatnonzero(np.isin(domain, names)) for names in (task.sources, task.targets))
        if samples.group is not None:
            check_groups_not_split(samples.group, domain, (sources, targets), f"The task {task.name}")
        return np.intersect1d(drawn, sources), targets

    def plan(self, domain: Labels) -> SizePlan:
        """How many rows are used for what in the largest task that leaves out one domain."""
        sizes = np.unique(domain, return_counts=True)[1]
        return SizePlan.from_rows(math.ceil(self.train_size * (sizes.sum() - sizes.min())))

    def chooses(self, n_sources: int) -> Selection:
        """Who chooses with so many sources: a single domain cannot be held out of itself."""
        return "within" if self.selection == "domain" and n_sources < 2 else self.selection

    def validation(self, samples: Samples, train: Ints, test: Ints, repeat: int) -> list[tuple[Ints, Ints]]:
        """Splits that choose the settings, as positions of rows."""
        known = samples.take(train)
        selection = self.chooses(len(np.unique(known.domain)))
        if selection == "oracle":
            return [(train, test)]
        splitter = LeaveOneDomainOut() if selection == "domain" else self._within(0.7, repeat)
        splits = splitter.split(train, known.y, known.group, sample_domain=known.domain)
        return [(train[a], train[b]) for a, b in splits]

    def _within(self, share: float, repeat: int, **how: Any) -> WithinDomainSplit:
        """Part of each domain, drawn at random; rows that belong together stay together."""
        return WithinDomainSplit(share, n_splits=1, random_state=self.seed + repeat, **how)


def subsample_task(domain: Labels, most: int | None, seed: int = 0, y: Labels | None = None) -> Ints:
    """At most so many samples of each domain, of all its classes, drawn at random, in their order; None keeps all."""
    return Samples(domain, np.zeros(len(domain)) if y is None else y, domain).subsample_rows(
        max_per_domain=most, seed=seed
    )


def configuration(samples: Samples, protocol: Protocol, preprocessor: Any) -> dict[str, Any]:
    """What results depend on besides method, task and repeat; rows of another configuration are never mixed in."""
    digest = hashlib.sha256()
    X = np.ascontiguousarray(samples.X, dtype=np.float64)
    known = (samples.y, samples.domain, *(() if samples.group is None else (samples.group,)))
    for array in (X, *(labels.astype(str) for labels in known)):
        digest.update(str(array.shape).encode())
        digest.update(array.tobytes())
    settings = asdict(protocol)
    del settings["repeats"]  # more repeats are more rows of the same configuration
    return {"data": digest.hexdigest(), **settings, "preprocess": full_repr(preprocessor), "unseen": __version__}


def with_method(config: dict[str, Any], method: Method, n_classes: int) -> dict[str, Any]:
    """The configuration of a method's rows: they are as good as new while the method is what it was."""
    how = {"lean": config["grid"] == "lean", "quick": config["quick"], "centerings": (config["centering"],)}
    candidates = method.candidates(n_classes, **how)
    return {**config, "method": [method.name, *((one.variant, one.settings, one.key) for one in candidates)]}


def key(config: dict[str, Any]) -> str:
    """Short name of a configuration."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=full_repr).encode()).hexdigest()[:16]
