"""Splitters for domains, which accept these as `groups` or as `sample_domain`; splits on which ensembles are selected.

With both names, `sample_domain` contains the domains, and samples of the same group in `groups` are never split.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.model_selection import BaseCrossValidator, LeaveOneGroupOut, LeavePGroupsOut, check_cv
from sklearn.utils import check_random_state, indexable
from sklearn.utils.metadata_routing import get_routing_for_object, process_routing
from sklearn.utils.validation import _num_samples

from ..exceptions import SingleDomainWarning, ignore_warnings, warn
from ..linalg import Ints
from ..utils.samples import Samples
from ..utils.validation import Labels, check_domains, check_groups, encode_domains, format_list, warn_masked_labels
from ._ensemble_math import CrossFittingFolds, make_trial_batches

Split = tuple[Ints, Ints]


class _DomainSplitter(BaseCrossValidator):
    """Accept domain labels under either name, and any hashable labels."""

    __metadata_request__split: ClassVar = {"groups": True, "sample_domain": True}

    def split(self, X: Any, y: Any = None, groups: Any = None, *, sample_domain: Any = None) -> Iterator[Split]:
        """Yield the training and test indices of each split.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples; only their number matters.
        y : array-like of shape (n_samples,), default=None
            Class labels.
        groups : array-like of shape (n_samples,), default=None
            The domain of each sample, under the name of scikit-learn. If `sample_domain` is passed as well: groups of
            samples, such as those of a patient, which must be on one side of each split; otherwise an error is raised.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample, under the name of this package.

        Yields
        ------
        train, test : ndarray
            Indices of the split.
        """
        domains = self._check_domains(X, groups, sample_domain)
        sample_groups = None if sample_domain is None else check_groups(groups, domains)
        splits = self._split_codes(X, y, self._encode_domains(domains), sample_groups)
        for k, (train, test) in enumerate(splits):
            if sample_groups is not None:
                check_groups_not_split(sample_groups, domains, (train, test), f"Split {k} of {type(self).__name__}")
            yield train, test

    def _split_codes(self, X: Any, y: Any, codes: Any, sample_groups: Labels | None) -> Iterator[Split]:
        """Split by codes of domains, with the splitter of scikit-learn."""
        yield from super().split(X, y, codes)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, *, sample_domain: Any = None) -> int:
        """Return the number of splits.

        Parameters
        ----------
        X, y : object
            Not used.
        groups, sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample, as for `split`; not used if the splitter has a parameter `n_splits`.

        Returns
        -------
        n_splits : int
            The number of splits.
        """
        if hasattr(self, "n_splits"):
            return int(self.n_splits)
        domains = self._check_domains(X, groups, sample_domain)
        return super().get_n_splits(X, y, self._encode_domains(domains))

    def _check_domains(self, X: Any, groups: Any, sample_domain: Any) -> Labels:
        labels = groups if sample_domain is None else sample_domain
        if labels is None:
            message = (
                f"{type(self).__name__} needs the domain of each sample: pass groups or sample_domain, one label per "
                "sample."
            )
            if not get_config()["enable_metadata_routing"]:
                message += (
                    " While metadata routing is disabled, functions of scikit-learn such as cross_validate pass only "
                    "`groups` to a splitter: use groups=domain, or sklearn.set_config(enable_metadata_routing=True)."
                )
            raise ValueError(message)
        return check_domains(labels, len(labels) if X is None else _num_samples(X))

    def _encode_domains(self, labels: Labels) -> Any:
        return encode_domains(labels)[1]


class _LeaveOut(_DomainSplitter):
    """Hold out `n_groups` domains at a time; at least one more domain is needed for training."""

    n_groups: Any = 1

    def _encode_domains(self, labels: Labels) -> Any:
        if not isinstance(self.n_groups, Integral) or self.n_groups < 1:
            raise ValueError(f"n_groups must be a positive integer; got {self.n_groups!r}.")
        n_held_out = int(self.n_groups)
        domains, codes = encode_domains(labels)
        if len(domains) <= n_held_out:
            raise ValueError(
                f"{type(self).__name__} needs more than {n_held_out} domain{'s' * (n_held_out > 1)}, since at least "
                f"one is needed for training; got {domains.tolist()}."
            )
        return codes


class LeaveOneDomainOut(_LeaveOut, LeaveOneGroupOut):
    """Leave-one-domain-out cross-validation: each domain is the test set once.

    Examples
    --------
    >>> from unseen.model_selection import LeaveOneDomainOut
    >>> X, domain = [[0], [1], [2], [3]], ["a", "a", "b", "c"]
    >>> for train, test in LeaveOneDomainOut().split(X, groups=domain):
    ...     print(train, test)
    [2 3] [0 1]
    [0 1 3] [2]
    [0 1 2] [3]
    """


class LeavePDomainsOut(_LeaveOut, LeavePGroupsOut):
    """Leave-p-domains-out cross-validation: each set of `n_groups` domains is the test set once.

    Parameters
    ----------
    n_groups : int
        Number of domains in each test set.

    Examples
    --------
    >>> from unseen.model_selection import LeavePDomainsOut
    >>> splitter = LeavePDomainsOut(2)
    >>> splitter.get_n_splits(groups=["a", "a", "b", "c"])
    3
    """


class HeldOutDomains(_DomainSplitter):
    """A single split: given domains are the test set, all others the training set.

    Parameters
    ----------
    domains : sequence
        The held-out domains.

    Examples
    --------
    >>> from unseen.model_selection import HeldOutDomains
    >>> splitter = HeldOutDomains(["validation"])
    >>> next(splitter.split([[0], [1], [2]], groups=["a", "validation", "b"]))
    (array([0, 2]), array([1]))
    """

    n_splits: ClassVar[int] = 1

    def __init__(self, domains: Iterable[Any]) -> None:
        self.domains = domains

    def _encode_domains(self, labels: Labels) -> Any:
        if isinstance(self.domains, str) or not isinstance(self.domains, Iterable):
            raise TypeError(f"domains must be a list of held-out domains; got {self.domains!r}.")
        held_out = set(self.domains)
        present = set(labels.tolist())
        if not held_out < present or not held_out:
            raise ValueError(
                f"HeldOutDomains({list(self.domains)!r}) cannot split the domains {sorted(map(str, present))}. Hold "
                "out at least one of them, and leave one to train on."
            )
        return np.array([label in held_out for label in labels.tolist()])

    def _iter_test_masks(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Any]:
        yield groups


class WithinDomainSplit(_DomainSplitter):
    """Random splits of every domain: training and test data come from the same domains.

    With `groups` and `sample_domain`, all samples of a group are on the same side of a split.

    Such splits measure the performance on known domains. They are not suitable for selecting invariance weights: many
    settings classify held-out samples of the same domains perfectly, but differ widely on a new domain.

    Parameters
    ----------
    train_size : float, default=0.7
        Fraction of each domain (with `stratify`, of each class in it) in the training set. Of two or more samples, at
        least one is in each set. With groups, the fraction is approximate.
    n_splits : int, default=5
        Number of random splits.
    stratify : bool, default=True
        Whether to split each class of each domain separately. The class of a group is that of its first sample.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Examples
    --------
    >>> from unseen.model_selection import WithinDomainSplit
    >>> X, y, domain = [[0]] * 8, [0, 0, 1, 1] * 2, ["a"] * 4 + ["b"] * 4
    >>> train, test = next(WithinDomainSplit(0.5, random_state=0).split(X, y, groups=domain))
    >>> len(train), len(test)
    (4, 4)
    """

    def __init__(
        self, train_size: float = 0.7, *, n_splits: int = 5, stratify: bool = True, random_state: Any = None
    ) -> None:
        self.train_size = train_size
        self.n_splits = n_splits
        self.stratify = stratify
        self.random_state = random_state

    def _split_codes(self, X: Any, y: Any, codes: Any, sample_groups: Labels | None) -> Iterator[Split]:
        if not isinstance(self.train_size, Real) or not 0 < self.train_size < 1:
            raise ValueError(f"train_size must lie between 0 and 1; got {self.train_size!r}.")
        if not isinstance(self.n_splits, Integral) or self.n_splits < 1:
            raise ValueError(f"n_splits must be a positive integer; got {self.n_splits!r}.")
        if self.stratify and y is None:
            raise ValueError("WithinDomainSplit(stratify=True) needs y. Pass it, or set stratify=False.")
        indexable(X, y, codes)
        random = check_random_state(self.random_state)
        classes = np.unique(np.asarray(y), return_inverse=True)[1] if self.stratify else np.zeros_like(codes)
        # A unit is a sample or a group, which is on one side of a split.
        unit = np.arange(len(codes))
        strata = codes * (classes.max() + 1) + classes
        if sample_groups is not None:
            unit = encode_domains(sample_groups)[1]
            strata = strata[np.unique(unit, return_index=True)[1]]
        unit_sizes = np.bincount(unit)
        for _ in range(self.n_splits):
            in_test = np.zeros(len(unit_sizes), dtype=bool)
            for stratum in np.unique(strata):
                members = random.permutation(np.flatnonzero(strata == stratum))
                n_samples = np.cumsum(unit_sizes[members])
                n_train_samples = round(self.train_size * n_samples[-1])
                nearest = int(np.argmin(np.abs(n_samples - n_train_samples)))
                n_train_units = min(nearest + 1, max(len(members) - 1, 1))
                in_test[members[n_train_units:]] = True
            if not in_test.any():
                raise ValueError(
                    "WithinDomainSplit has no test samples: no domain (with stratify, no class in a domain) has two "
                    f"{'samples' if sample_groups is None else 'groups'}."
                )
            yield np.flatnonzero(~in_test[unit]), np.flatnonzero(in_test[unit])


def check_groups_not_split(groups: Labels, domains: Labels, rows: Split, caller: str) -> None:
    """Raise ValueError if a group has rows on both sides of a split."""
    train, test = rows
    codes = encode_domains(groups)[1]
    split_rows = test[np.isin(codes[test], codes[train])]
    if not len(split_rows):
        return
    name = groups[split_rows].tolist()[0]
    group_domains = encode_domains(domains[codes == codes[split_rows[0]]])[0].tolist()
    location = f"domain {format_list(group_domains)}"
    advice = "Use WithinDomainSplit or GroupKFold as cv, which do not split groups."
    if len(group_domains) > 1:
        location = f"the domains {format_list(group_domains)}"
        advice = "Remove these samples or, if the name denotes another group in each domain, use different names."
    raise ValueError(
        f"{caller} trains and tests on samples of the same group: group {name!r} has samples on both sides, of "
        f"{location}. {advice}"
    )


def resolve_splitter(cv: Any, y: Any = None) -> Any:
    """Return the splitter for a parameter `cv`; None means leave-one-domain-out."""
    if isinstance(cv, type):
        raise TypeError(f"cv must be an instance, such as {cv.__name__}(); got the class {cv.__name__}.")
    return LeaveOneDomainOut() if cv is None else check_cv(cv, y, classifier=True)


def domain_splits(search: Any, samples: Samples, sample_domain: Any, params: dict[str, Any]) -> list[Split]:
    """Splits of the `cv` of a search, which gets domains and groups as metadata routing requires.

    Parameters
    ----------
    search : BaseSelector
        The search.
    samples : Samples
        All rows.
    sample_domain : array-like of shape (n_samples,) or None
        The domains that were passed to `fit`.
    params : dict
        Further metadata that were passed to `fit`.

    Returns
    -------
    splits : list of (train, test)
        Positions of rows.
    """
    name = type(search).__name__
    if sample_domain is not None:
        warn_masked_labels(samples.classes, encode_domains(samples.domain)[0], samples.counts(), name)
    splitter = resolve_splitter(search.cv, samples.y)
    splits_domains = isinstance(splitter, _DomainSplitter)
    # Splitters of scikit-learn get the domains as `groups`, unless there are groups.
    groups = samples.group
    if groups is None and not splits_domains:
        groups = sample_domain
    metadata = {} if groups is None else {"groups": groups}
    if get_config()["enable_metadata_routing"]:
        if not get_routing_for_object(splitter).consumes("split", metadata):
            metadata = {}
        routed = process_routing(search, "fit", sample_domain=sample_domain, **(metadata | params))
        split_params = routed.splitter.split
    elif params:
        raise TypeError(f"{name}.fit got an unexpected argument {min(params)!r}.")
    else:
        split_params = metadata
        if splits_domains:
            split_params["sample_domain"] = sample_domain
    # The user did not pass groups to this splitter, so a warning that it ignores them would be confusing.
    with ignore_warnings((UserWarning, "The groups parameter is ignored by")):
        splits = list(splitter.split(samples.X, samples.y, **split_params))
    if not splits:
        raise ValueError(f"cv={search.cv!r} gave {name} no split to score on.")
    for k, (train, test) in enumerate(splits):
        if samples.group is not None:
            check_groups_not_split(samples.group, samples.domain, (train, test), f"Split {k} of the cv of {name}")
        classes = np.unique(samples.y[train])
        if len(classes) < 2:
            raise ValueError(
                f"{name} cannot train on split {k} of its cv: the training data have a single class, "
                f"{classes.tolist()}, and the other classes occur only in the held-out part. Hold out other parts, or "
                "remove those classes."
            )
    if min(len(np.unique(samples.domain_codes[train])) for train, _ in splits) < 2:
        warn(
            f"{name} has folds whose training data come from a single domain. Invariance weights have no effect there, "
            "so that the scores contain little information about them. Use three or more source domains, or pass "
            "sample_domain if it was not passed.",
            SingleDomainWarning,
        )
    return splits


# Decision scores of all candidates for all held-out rows: a gigabyte. Skewed batches take up to three times as much.
MAX_DECISION_SCORES = 2**27
# Sets of training rows for held-out domains: with more domains, models are trained without several of them at once.
MAX_TRAINING_SETS = 12
# Nested splits need at least this many held-out domains, so that two are left to train on.
MIN_NESTED_DOMAINS = 4
# Beyond this many rows nested splits take longer than everything else, and labels of a domain hardly affect its own
# score through models that predict other domains: see `make_nested_splits`.
MAX_NESTED_ROWS = 400
# The same for pairs of domains times rows times classes: some seconds for all candidates.
MAX_NESTED_WORK = 15_000


@dataclass(frozen=True)
class TrialSplits:
    """Held-out domains, each as it is and resampled with skewed classes, and nested splits for cross-fitting.

    Attributes
    ----------
    natural : list of (train, test)
        One split for each held-out domain, or part.
    batch_rows : list of list
        For each part, positions within it of the rows of each of its batches; the first batch is the natural one.
    folds : CrossFittingFolds
        Folds by which everything that is reported about a part is cross-fitted.
    splits : list of (train, test)
        All splits: natural ones, then nested ones, then skewed batches, part by part.
    positions : dict
        By part and batch, the position of its split among all splits.
    nested_positions : dict
        By fold and part, the position of a split that holds out the part and trains without the parts that the fold
        leaves out. Empty where that would take too long: see `make_nested_splits`.
    skewed_positions : frozenset of int
        Positions of the splits that hold out skewed batches.
    """

    natural: list[Split]
    batch_rows: list[list[Any]]
    folds: CrossFittingFolds
    splits: list[Split]
    positions: dict[tuple[int, int], int]
    nested_positions: dict[tuple[int, int], int]
    skewed_positions: frozenset[int]

    @classmethod
    def from_splits(
        cls, samples: Samples, natural: Sequence[Split], *, skewed: bool = True, n_candidates: int = 1
    ) -> TrialSplits:
        """Trials for these splits; skewed batches depend on the classes of a part alone, not on the training rows.

        Parts keep fewer rows if decision scores of all rows, for thousands of classes, exceed the memory.
        """
        n_scores = n_candidates * len(samples.classes) * sum(len(test) for _, test in natural)
        step = -(-n_scores // MAX_DECISION_SCORES)
        if step > 1:
            natural = [(train, test[::step]) for train, test in natural]
        batch_rows: list[list[Any]] = [[slice(None)] for _ in natural]
        if skewed:
            # Ranks of the classes within a part, so that classes elsewhere do not change the batches.
            ranks = [np.unique(samples.codes[test], return_inverse=True)[1] for _, test in natural]
            batch_rows = [make_trial_batches(codes, zlib.crc32(codes.astype("<i8").tobytes())) for codes in ranks]
        natural = share_training_rows(samples, natural)
        folds = CrossFittingFolds.from_rows([test for _, test in natural])
        nested = make_nested_splits(samples, natural, folds)
        splits = [*natural, *nested.values()]
        positions = {(part, 0): part for part in range(len(natural))}
        for part, (train, test) in enumerate(natural):
            for batch, rows in enumerate(batch_rows[part][1:], start=1):
                positions[part, batch] = len(splits)
                splits.append((train, test[rows]))
        nested_positions = {key: len(natural) + i for i, key in enumerate(nested)}
        skewed_positions = frozenset(position for (_, batch), position in positions.items() if batch)
        return cls(list(natural), batch_rows, folds, splits, positions, nested_positions, skewed_positions)


def share_training_rows(samples: Samples, splits: Sequence[Split]) -> Sequence[Split]:
    """Splits of which several train on the same rows, if there are more than `MAX_TRAINING_SETS` of them.

    A model that is trained without several parts predicts each of them, as out of domain as a model of its own would,
    with slightly fewer training rows. Splits remain as they are if a row is held out more than once, and where training
    rows would lose a class.
    """
    n_together = -(-len(splits) // MAX_TRAINING_SETS)
    n_sets = -(-len(splits) // n_together)
    if n_together == 1 or sum(len(test) for _, test in splits) > len(samples):
        return splits
    shared = []
    for k, (train, test) in enumerate(splits):
        common = reduce(np.intersect1d, [rows for rows, _ in splits[k % n_sets :: n_sets]])
        keeps_classes = len(np.unique(samples.codes[common])) == len(np.unique(samples.codes[train]))
        shared.append((common if keeps_classes else train, test))
    return shared


def make_nested_splits(
    samples: Samples, natural: Sequence[Split], folds: CrossFittingFolds
) -> dict[tuple[int, int], Split]:
    """Splits that hold out one part and train without another part as well, by the other part's fold and the part.

    Parameters that are applied to a part, but were fitted on predictions for other parts, have seen its labels if the
    models behind these predictions were trained on it: two parts that resemble each other by chance make the same
    models look good on both. That is worth two points of accuracy on pure noise with 25 samples in each of five
    domains, and less with more samples. So models are trained without each pair of parts where data are few. With many
    samples that takes too long, and there are no nested splits.
    """
    m = len(natural)
    rows = max(len(train) + len(test) for train, test in natural)
    n_classes = len(np.unique(np.concatenate([samples.codes[test] for _, test in natural])))
    work = m * (m - 1) // 2 * rows * n_classes
    if m < MIN_NESTED_DOMAINS or len(folds.kept) < m or rows > MAX_NESTED_ROWS or work > MAX_NESTED_WORK:
        return {}
    nested = {}
    for fold, part in np.argwhere(folds.kept).tolist():
        train = np.intersect1d(natural[fold][0], natural[part][0], assume_unique=True)
        nested[fold, part] = (train, natural[part][1])
    return nested
