"""The protocol of a comparison: tasks, random splits, preprocessing and the validation that selects settings."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from .. import __version__
from ..exceptions import ParameterError
from ..kernels import SizePlan
from ..linalg import Ints
from ..model_selection import (
    HEADS,
    Candidate,
    GridName,
    LeaveOneDomainOut,
    Method,
    TableSize,
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
        Source domains, with labels.
    targets : tuple of str
        Held-out target domains.

    Examples
    --------
    >>> from unseen.evaluation import Task
    >>> Task(sources=("A", "C"), targets=("D", "W")).name
    'A,C -> D,W'
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]

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
PREPROCESSORS: dict[str, Any] = {"l2": Normalizer(), "standardize": StandardScaler(), "none": FunctionTransformer()}
ALLOWED_VALUES = {
    "selection": ("within", "domain", "oracle"),
    "preprocess": PREPROCESSORS,
    "centering": ("source", "target"),
    "balance": get_args(Balance),
    "grid": ("full", "lean", "ensemble"),
}


@dataclass(frozen=True)
class Protocol:
    """The protocol of a comparison; by default that of the paper.

    Parameters
    ----------
    selection : {"domain", "within", "oracle"}, default="domain"
        Validation that selects the settings: leave-one-domain-out cross-validation on the source domains ("domain"),
        30% of the training data ("within", as in the paper), or the target's labels ("oracle", for reference only).
    train_size : float, default=0.7
        Share of each source domain that is used for training.
    repeats : int, default=5
        Number of random draws of the training data.
    preprocess : {"l2", "standardize", "none"}, default="l2"
        Scale rows to unit length, scale columns to zero mean and unit variance, or nothing; fitted on the training data
        only.
    centering : {"target", "source"}, default="target"
        Centering of the projections: "target" is that of the paper, and transductive.
    heads : sequence of {"1-NN", "logistic"}, default=("1-NN",)
        Classifiers of the components of projections. Of several, each projection uses the one with the best validation
        score; 1-NN is that of the paper.
    quick : bool, default=False
        Use two values of each parameter, for a smoke test.
    grid : {"full", "lean", "ensemble"}, default="full"
        All settings of a method; all without the widest kernel and the smallest ridge, for half the time; or, for
        methods that have them, the few settings that they have in ensembles.
    seed : int, default=0
        Seed of the first draw.
    metric : str, default="accuracy"
        Metric that selects settings and compares methods: see `unseen.model_selection.get_metric`.
    balance : {"none", "classes", "domains"}, default="none"
        Give all classes, or all domains, the same total weight in training, for classifiers that support weights.

    Examples
    --------
    >>> from unseen.evaluation import Protocol
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
    grid: GridName = "full"
    heads: tuple[str, ...] = ("1-NN",)

    def __post_init__(self) -> None:
        get_metric(self.metric)
        for name, allowed in ALLOWED_VALUES.items():
            if getattr(self, name) not in allowed:
                raise ParameterError(name, f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        if not self.heads or not set(self.heads) <= set(HEADS):
            raise ValueError(f"heads must be a sequence of {', '.join(HEADS)}; got {self.heads!r}.")
        for name, minimum, value in (("repeats", 1, self.repeats), ("seed", 0, self.seed)):
            if not isinstance(value, Integral) or value < minimum:
                raise ParameterError(name, f"{name} must be an integer of at least {minimum}; got {value!r}.")
        if not isinstance(self.train_size, Real) or not 0 < self.train_size < 1:
            raise ValueError(f"train_size must lie between 0 and 1; got {self.train_size!r}.")

    def draw_split(self, samples: Samples, task: Task, repeat: int) -> tuple[Ints, Ints]:
        """Draw the training samples of one repeat; return their positions and those of all samples of the targets.

        The samples that are drawn from a domain do not depend on the task: tasks that hold out the same two domains in
        either order, one to test and one to validate, train on the same rows.
        """
        domain = samples.domain
        splitter = WithinDomainSplit(self.train_size, n_splits=1, random_state=self.seed + repeat, stratify=False)
        drawn, _ = next(splitter.split(domain, samples.y, samples.group, sample_domain=domain))
        sources = np.flatnonzero(np.isin(domain, task.sources))
        targets = np.flatnonzero(np.isin(domain, task.targets))
        if samples.group is not None:
            check_groups_not_split(samples.group, domain, (sources, targets), f"The task {task.name}")
        return np.intersect1d(drawn, sources), targets

    def plan(self, domain: Labels) -> SizePlan:
        """Return the size plan of the largest task that holds out one domain."""
        sizes = np.unique(domain, return_counts=True)[1]
        return SizePlan.from_rows(math.ceil(self.train_size * (sizes.sum() - sizes.min())))

    def resolve_selection(self, n_sources: int) -> Selection:
        """Return the validation for a number of source domains: with a single one, "domain" becomes "within"."""
        return "within" if self.selection == "domain" and n_sources < 2 else self.selection

    def validation_splits(self, samples: Samples, train: Ints, test: Ints, repeat: int) -> list[tuple[Ints, Ints]]:
        """Make the splits that select the settings, as positions of rows."""
        train_samples = samples.take(train)
        selection = self.resolve_selection(len(np.unique(train_samples.domain)))
        if selection == "oracle":
            return [(train, test)]
        splitter: LeaveOneDomainOut | WithinDomainSplit
        if selection == "domain":
            splitter = LeaveOneDomainOut()
        else:
            splitter = WithinDomainSplit(0.7, n_splits=1, random_state=self.seed + repeat)
        splits = splitter.split(train, train_samples.y, train_samples.group, sample_domain=train_samples.domain)
        return [(train[a], train[b]) for a, b in splits]


# The protocol of `compare`: inductive, and with both heads of projections, since 1-NN is a poor classifier of many
# tables. The settings are those of the automatic ensemble, which evaluates most of them anyway.
COMPARISON_PROTOCOL = Protocol(
    repeats=3, preprocess="standardize", centering="source", grid="ensemble", heads=("logistic", "1-NN")
)


def choose_repeats(repeats: int | None, quick: bool) -> int:
    """Number of repeats of a comparison, by default that of its protocol, or one if it is quick."""
    if repeats is not None:
        return repeats
    return 1 if quick else COMPARISON_PROTOCOL.repeats


def subsample_domains(domain: Labels, max_per_domain: int | None, seed: int = 0, y: Labels | None = None) -> Ints:
    """Draw at most `max_per_domain` samples of each domain, of all its classes, and return their sorted positions.

    None keeps all samples.
    """
    labels = np.zeros(len(domain)) if y is None else y
    return Samples(domain, labels, domain).subsample_rows(max_per_domain=max_per_domain, seed=seed)


def make_configuration(samples: Samples, protocol: Protocol, preprocessor: Any) -> dict[str, Any]:
    """Return everything that results depend on besides method, task and repeat; a store keeps configurations apart."""
    settings = asdict(protocol)
    del settings["repeats"]  # more repeats are more rows of the same configuration
    if not isinstance(protocol.metric, str):
        settings["metric"] = full_repr(protocol.metric)
    return {"data": hash_data(samples), **settings, "preprocess": full_repr(preprocessor), "unseen": __version__}


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


def add_method(config: dict[str, Any], method: Method, size: TableSize) -> dict[str, Any]:
    """Return the configuration of the rows of a method, which changes with the candidates of the method."""
    candidates = make_candidates(
        method, size, config["grid"], config["quick"], config["centering"], tuple(config["heads"])
    )
    descriptions = [(candidate.variant, candidate.settings, candidate.key) for candidate in candidates]
    return {**config, "method": [method.name, *descriptions]}


@lru_cache(maxsize=100)
def make_candidates(
    method: Method,
    size: TableSize,
    grid: GridName,
    quick: bool,
    centering: str,
    heads: tuple[str, ...],
) -> tuple[Candidate, ...]:
    """Make the candidates of a method under a protocol, cached since computing their keys takes time."""
    is_member = method.ensemble_grid is not None and method.is_fast_enough(size)
    if grid == "ensemble" and not is_member:
        grid = "lean"
    candidates = method.candidates(
        size.n_classes, grid=grid, quick=quick, heads=heads, centerings=(centering,), size=size
    )
    return tuple(candidates)


def configuration_key(config: dict[str, Any]) -> str:
    """Compute the key of a configuration in a store."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=full_repr).encode()).hexdigest()[:16]
