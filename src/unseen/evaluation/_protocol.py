"""The protocol of an evaluation: tasks, training rows, preprocessing and the validation that selects settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np

from .. import __version__
from ..exceptions import ParameterError
from ..kernels import SizePlan
from ..linalg import Ints
from ..model_selection import (
    HEADS,
    GridName,
    LeaveOneDomainOut,
    Split,
    WithinDomainSplit,
    check_groups_not_split,
    full_repr,
    get_metric,
)
from ..tables import Scale, Table
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels


@dataclass(frozen=True)
class Task:
    """Train on `sources`, test on `targets`.

    Attributes
    ----------
    sources : tuple of str
        Source domains, with labels.
    targets : tuple of str
        Held-out target domains.
    validation : tuple of str
        Further domains, on which settings are selected; empty to select them on the source domains.

    Examples
    --------
    >>> from unseen.evaluation import Task
    >>> Task(sources=("A", "C"), targets=("D", "W")).name
    'A,C -> D,W'
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    validation: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the task, such as ``"A,C -> D,W"``."""
        return f"{','.join(self.sources)} -> {','.join(self.targets)}"


def make_tasks(domains: Sequence[str], n_targets: int = 1) -> list[Task]:
    """Make a task for every way to hold out `n_targets` domains.

    Parameters
    ----------
    domains : sequence of str
        All domains.
    n_targets : int, default=1
        Number of held-out domains of each task.

    Returns
    -------
    tasks : list of Task
        In the order of the held-out domains.

    Examples
    --------
    >>> from unseen.evaluation import make_tasks
    >>> [task.name for task in make_tasks("ACD")]
    ['C,D -> A', 'A,D -> C', 'A,C -> D']
    >>> len(make_tasks("ACDW", 1) + make_tasks("ACDW", 2))
    10
    """
    names = [str(name) for name in domains]
    if len(set(names)) != len(names):
        raise ValueError(f"domains must have different names; got {names}.")
    if not 1 <= n_targets < len(names):
        raise ValueError(
            f"n_targets must leave at least one of the {len(names)} domains to train on; got {n_targets!r}."
        )
    return [
        Task(tuple(name for name in names if name not in targets), targets)
        for targets in combinations(names, n_targets)
    ]


Selection = Literal["within", "domain", "oracle"]
ALLOWED_VALUES = {
    "selection": get_args(Selection),
    "scale": get_args(Scale),
    "balance": get_args(Balance),
    "grid": get_args(GridName),
}


@dataclass(frozen=True)
class Protocol:
    """How methods are evaluated; by default each domain is held out once, and all rows of the others are used.

    Parameters
    ----------
    selection : {"domain", "within", "oracle"}, default="domain"
        Validation that selects the settings: leave-one-domain-out cross-validation on the source domains ("domain"),
        30% of the training data ("within", as in the paper), or the target's labels ("oracle", for reference only).
    train_size : float, default=1.0
        Share of each source domain that is used for training.
    repeats : int, default=1
        Number of random draws of the training data, if these are not all rows.
    scale : {"standardize", "l2", "none"}, default="standardize"
        Scale columns to zero mean and unit variance, scale rows to unit length, or nothing; fitted on the training data
        only.
    transductive : bool, default=False
        Whether all methods may use the unlabeled rows of the targets. Projections are then centered on the targets.
    heads : sequence of {"1-NN", "logistic"}, default=("logistic", "1-NN")
        Classifiers of the components of projections. Of several, each projection uses the one with the best validation
        score; 1-NN is that of the paper.
    quick : bool, default=False
        Use two values of each parameter, for a smoke test.
    grid : {"ensemble", "full"}, default="ensemble"
        Settings of projections: the few that they have in ensembles, or all of them.
    seed : int, default=0
        Seed of the first draw.
    metric : str, default="accuracy"
        Metric that selects settings and compares methods: see `unseen.model_selection.get_metric`.
    balance : {"none", "classes", "domains"}, default="none"
        Give all classes, or all domains, the same total weight in training, for classifiers that support weights.
    threshold : str or float, default=None
        Risk of the event from which a row counts as an event, for two classes, as for :func:`unseen.validate`. An aim
        such as "sensitivity=0.9" is reached on out-of-domain predictions of the training rows. None means 0.5.
    positive : object, default=None
        Class that is the event; needed with an aim.

    Examples
    --------
    >>> from unseen.evaluation import Protocol
    >>> Protocol().repeats, Protocol.paper(selection="within").repeats
    (1, 5)
    """

    selection: Selection = "domain"
    train_size: float = 1.0
    repeats: int = 1
    scale: Scale = "standardize"
    transductive: bool = False
    quick: bool = False
    seed: int = 0
    metric: str = "accuracy"
    balance: Balance = "none"
    grid: GridName = "ensemble"
    heads: tuple[str, ...] = ("logistic", "1-NN")
    threshold: str | float | None = None
    positive: Any = None

    @classmethod
    def paper(cls, **changes: Any) -> Protocol:
        """Return the protocol of the CIDG paper: five draws of 70% of the rows, transductive, 1-NN, full grids.

        Parameters
        ----------
        **changes
            Parameters that differ from those of the paper.

        Returns
        -------
        protocol : Protocol
            The protocol.
        """
        paper = cls(train_size=0.7, repeats=5, scale="l2", transductive=True, grid="full", heads=("1-NN",))
        return replace(paper, **changes)

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", read_threshold(self.threshold))
        get_metric(self.metric)
        for name, allowed in ALLOWED_VALUES.items():
            if getattr(self, name) not in allowed:
                raise ParameterError(name, f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        if not self.heads or not set(self.heads) <= set(HEADS):
            raise ValueError(f"heads must be a sequence of {', '.join(HEADS)}; got {self.heads!r}.")
        for name, minimum, value in (("repeats", 1, self.repeats), ("seed", 0, self.seed)):
            if not isinstance(value, Integral) or value < minimum:
                raise ParameterError(name, f"{name} must be an integer of at least {minimum}; got {value!r}.")
        if not isinstance(self.train_size, Real) or not 0 < self.train_size <= 1:
            raise ValueError(f"train_size must be above 0 and at most 1; got {self.train_size!r}.")

    def draw_rows(self, samples: Samples, task: Task, repeat: int) -> Split:
        """Draw the training rows of one repeat; return their positions and those of all rows of the targets."""
        domain = samples.domain
        sources = np.flatnonzero(np.isin(domain, task.sources))
        targets = np.flatnonzero(np.isin(domain, task.targets))
        if samples.group is not None:
            check_groups_not_split(samples.group, domain, (sources, targets), f"The task {task.name}")
        if self.train_size == 1:
            return sources, targets
        splitter = WithinDomainSplit(self.train_size, n_splits=1, random_state=self.seed + repeat, stratify=False)
        drawn, _ = next(splitter.split(domain, samples.y, samples.group, sample_domain=domain))
        return np.intersect1d(drawn, sources), targets

    def plan(self, domain: Labels) -> SizePlan:
        """Return the size plan of the largest task that holds out one domain."""
        sizes = np.unique(domain, return_counts=True)[1]
        return SizePlan.from_rows(int(np.ceil(self.train_size * (sizes.sum() - sizes.min()))))

    def resolve_selection(self, n_sources: int) -> Selection:
        """Return the validation for a number of source domains: with a single one, "domain" becomes "within"."""
        return "within" if self.selection == "domain" and n_sources < 2 else self.selection

    def validation_splits(self, samples: Samples, task: Task, train: Ints, test: Ints, repeat: int) -> list[Split]:
        """Make the splits that select the settings, as positions of rows."""
        if self.selection == "oracle":
            return [(train, test)]
        if task.validation and self.selection == "domain":
            return [(train, np.flatnonzero(np.isin(samples.domain, task.validation)))]
        source = samples.take(train)
        splitter: LeaveOneDomainOut | WithinDomainSplit = LeaveOneDomainOut()
        if self.resolve_selection(len(np.unique(source.domain))) == "within":
            splitter = WithinDomainSplit(0.7, n_splits=1, random_state=self.seed + repeat)
        splits = splitter.split(train, source.y, source.group, sample_domain=source.domain)
        return [(train[a], train[b]) for a, b in splits]


def read_threshold(threshold: str | float | None) -> str | float | None:
    """Return the number that a text states, other aims as they are."""
    try:
        return threshold if threshold is None else float(threshold)
    except ValueError:
        return threshold


def describe_run(table: Table, protocol: Protocol, preparation: Any) -> dict[str, Any]:
    """Return everything that results depend on besides method, task and repeat; a store keeps configurations apart."""
    settings = asdict(protocol)
    del settings["repeats"]  # more repeats are more rows of the same configuration
    if not isinstance(protocol.threshold, str):  # a number does not change predictions
        del settings["threshold"], settings["positive"]
    if not isinstance(protocol.metric, str):
        settings["metric"] = full_repr(protocol.metric)
    return {"data": hash_data(table.samples), **settings, "scale": full_repr(preparation), "unseen": __version__}


def hash_data(samples: Samples) -> str:
    """Hash features, labels, domains and groups."""
    digest = hashlib.sha256()
    arrays = [
        np.ascontiguousarray(samples.X, dtype=np.float64),
        samples.y.astype(str),
        samples.domain.astype(str),
    ]
    if samples.group is not None:
        arrays.append(samples.group.astype(str))
    for array in arrays:
        digest.update(str(array.shape).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def configuration_key(config: dict[str, Any]) -> str:
    """Compute the key of a configuration in a store."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=full_repr).encode()).hexdigest()[:16]
