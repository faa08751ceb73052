"""Splitters that know about domains; each takes them as `groups` or as `sample_domain`.

With both, `sample_domain` names the domains, and `groups` tells which rows belong together: these are never parted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.model_selection import BaseCrossValidator, LeaveOneGroupOut, LeavePGroupsOut, check_cv
from sklearn.utils import check_random_state, indexable
from sklearn.utils.metadata_routing import get_routing_for_object, process_routing
from sklearn.utils.validation import _num_samples

from ..exceptions import SingleDomainWarning, warn
from ..linalg import Ints
from ..utils.samples import Samples
from ..utils.validation import Labels, check_domains, check_groups, encode_domains, format_list, warn_masked_labels
from ..utils.warnings import ignore_warnings

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
            The domain of each sample, by scikit-learn's name; beside `sample_domain`, which samples belong together,
            such as those of a patient. A split that parts them is an error.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample, by this package's name.

        Yields
        ------
        train, test : ndarray
            Indices of the split.
        """
        labels = self._domains(X, groups, sample_domain)
        together = None if sample_domain is None else check_groups(groups, labels)
        for k, (train, test) in enumerate(self._cut(X, y, self._codes(labels), together)):
            if together is not None:
                check_groups_not_split(together, labels, (train, test), f"Split {k} of {type(self).__name__}")
            yield train, test

    def _cut(self, X: Any, y: Any, codes: Any, together: Labels | None) -> Iterator[Split]:
        """Split by codes of domains, as the splitter of scikit-learn does."""
        yield from super().split(X, y, codes)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, *, sample_domain: Any = None) -> int:
        """Return the number of splits.

        Parameters
        ----------
        X, y : object
            Not used.
        groups, sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample, as for `split`; not used where the number is fixed beforehand.

        Returns
        -------
        n_splits : int
            The number of splits.
        """
        if hasattr(self, "n_splits"):
            return int(self.n_splits)
        return super().get_n_splits(X, y, self._codes(self._domains(X, groups, sample_domain)))

    def _domains(self, X: Any, groups: Any, sample_domain: Any) -> Labels:
        labels = groups if sample_domain is None else sample_domain
        if labels is None:
            hint = (
                " While metadata routing is off, functions of scikit-learn such as cross_validate hand only `groups` "
                "to a splitter: pass groups=domain to them, or call sklearn.set_config(enable_metadata_routing=True)."
            )
            raise ValueError(
                f"{type(self).__name__} needs the domain of each sample: pass groups or sample_domain, one label per "
                f"sample.{'' if get_config()['enable_metadata_routing'] else hint}"
            )
        return check_domains(labels, len(labels) if X is None else _num_samples(X))

    def _codes(self, labels: Labels) -> Any:
        return encode_domains(labels)[1]


class _LeaveOut(_DomainSplitter):
    """Hold out `n_groups` domains at a time, if one is left to train on."""

    n_groups: Any = 1

    def _codes(self, labels: Labels) -> Any:
        if not isinstance(self.n_groups, Integral) or self.n_groups < 1:
            raise ValueError(f"n_groups must be a positive integer; got {self.n_groups!r}.")
        held_out, (domains, codes) = int(self.n_groups), encode_domains(labels)
        if len(domains) <= held_out:
            raise ValueError(
                f"{type(self).__name__} needs more than {held_out} domain{'s' * (held_out > 1)}, as one has to be left "
                f"to train on; got {domains.tolist()}."
            )
        return codes


class LeaveOneDomainOut(_LeaveOut, LeaveOneGroupOut):
    """Hold out one domain after the other, to see how well the others predict it.

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
    """Hold out every set of `n_groups` domains.

    Parameters
    ----------
    n_groups : int
        How many domains each test set has.

    Examples
    --------
    >>> from unseen.model_selection import LeavePDomainsOut
    >>> splitter = LeavePDomainsOut(2)
    >>> splitter.get_n_splits(groups=["a", "a", "b", "c"])
    3
    """


class HeldOutDomains(_DomainSplitter):
    """Train on all domains but some fixed ones and test on those: a single split.

    Parameters
    ----------
    domains : sequence
        The validation domains.

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

    def _codes(self, labels: Labels) -> Any:
        if isinstance(self.domains, str) or not isinstance(self.domains, Iterable):
            raise TypeError(f"domains must be a list of domains to hold out; got {self.domains!r}.")
        held_out = set(self.domains)
        if not held_out:
            raise ValueError("HeldOutDomains needs at least one domain to hold out; got none.")
        present = set(labels.tolist())
        absent = [name for name in self.domains if name not in present]
        if absent or held_out >= present:
            problem = f"{absent} are not among them" if absent else "no domain is left to train on"
            raise ValueError(
                f"HeldOutDomains({list(self.domains)!r}) cannot split the domains {sorted(map(str, present))}: "
                f"{problem}."
            )
        return np.array([label in held_out for label in labels.tolist()])

    def _iter_test_masks(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Any]:
        yield groups


class WithinDomainSplit(_DomainSplitter):
    """Split every domain at random, as the paper does: training and test data come from the same domains.

    With `groups` beside `sample_domain`, whole groups go to one side or the other.

    Good for measuring, useless for choosing invariance weights: dozens of settings classify held-out data of the *same*
    domains perfectly and still differ widely on a new one.

    Parameters
    ----------
    train_size : float, default=0.7
        Share of each domain (with `stratify`, of each class in it) that is trained on. Where there are two samples or
        more, at least one goes to each side. Whole groups meet it as nearly as they can.
    n_splits : int, default=5
        Number of random splits.
    stratify : bool, default=True
        Whether to split each class of each domain by itself. A group is of the class that most of its samples have;
        those that are alone with theirs in a domain are split together.
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

    def _cut(self, X: Any, y: Any, codes: Any, together: Labels | None) -> Iterator[Split]:
        if not isinstance(self.train_size, Real) or not 0 < self.train_size < 1:
            raise ValueError(f"train_size must lie between 0 and 1; got {self.train_size!r}.")
        if not isinstance(self.n_splits, Integral) or self.n_splits < 1:
            raise ValueError(f"n_splits must be a positive integer; got {self.n_splits!r}.")
        if self.stratify and y is None:
            raise ValueError("WithinDomainSplit(stratify=True) needs y. Pass it, or set stratify=False.")
        indexable(X, y, codes)
        random = check_random_state(self.random_state)
        classes = np.unique(np.asarray(y), return_inverse=True)[1] if self.stratify else np.zeros_like(codes)
        n_classes = classes.max() + 1
        unit, strata = np.arange(len(codes)), codes * n_classes + classes
        if together is not None:
            unit, strata = _grouped_strata(together, strata, n_classes)
        sizes = np.bincount(unit)
        for _ in range(self.n_splits):
            held = np.zeros(len(sizes), dtype=bool)
            for stratum in np.unique(strata):
                members = random.permutation(np.flatnonzero(strata == stratum))
                filled = np.cumsum(sizes[members])
                wanted = round(self.train_size * filled[-1])
                n_train = min(int(np.argmin(np.abs(filled - wanted))) + 1, max(len(members) - 1, 1))
                held[members[n_train:]] = True
            if not held.any():
                raise ValueError(
                    "WithinDomainSplit has nothing to test on: no domain (with stratify, no class in a domain) has two "
                    f"{'samples' if together is None else 'groups'}."
                )
            yield np.flatnonzero(~held[unit]), np.flatnonzero(held[unit])


def _grouped_strata(together: Labels, strata: Ints, n_classes: int) -> tuple[Ints, Ints]:
    """Each row's position among the groups, and the stratum of each group: the one that most of its rows lie in."""
    unit = encode_domains(together)[1]
    pairs, counts = np.unique(np.column_stack([unit, strata]), axis=0, return_counts=True)
    pairs = pairs[np.lexsort((-counts, pairs[:, 0]))]
    most = pairs[np.unique(pairs[:, 0], return_index=True)[1], 1]
    alone = np.bincount(most)[most] == 1
    return unit, np.where(alone, strata.max() + 1 + most // n_classes, most)


def check_groups_not_split(groups: Labels, domains: Labels, rows: Split, caller: str) -> None:
    """Raise if a group has rows on both sides of a split."""
    (train, test), codes = rows, encode_domains(groups)[1]
    parted = test[np.isin(codes[test], codes[train])]
    if not len(parted):
        return
    name = groups[parted].tolist()[0]
    homes = encode_domains(domains[codes == codes[parted[0]]])[0].tolist()
    advice = "Use WithinDomainSplit or GroupKFold as cv, which keep groups whole."
    if len(homes) > 1:
        advice = "Leave them out, or, if the name means one group in each domain, pass names that differ."
    raise ValueError(
        f"{caller} trains and tests on samples that belong together: group {name!r} has samples on both "
        f"sides, of {'the domains' if len(homes) > 1 else 'domain'} {format_list(homes)}. {advice}"
    )


def resolve_splitter(cv: Any, y: Any = None) -> Any:
    """Turn a `cv` parameter into a splitter; None holds out one domain after the other."""
    if isinstance(cv, type):
        raise TypeError(f"cv must be an instance, such as {cv.__name__}(); got the class {cv.__name__}.")
    return LeaveOneDomainOut() if cv is None else check_cv(cv, y, classifier=True)


def domain_splits(search: Any, samples: Samples, sample_domain: Any, params: dict[str, Any]) -> list[Split]:
    """Splits of a search's `cv`, which is told about domains and groups in whichever way metadata routing asks for."""
    name, X, y, domain = type(search).__name__, samples.X, samples.y, samples.domain_codes
    if sample_domain is not None:
        warn_masked_labels(samples.classes, encode_domains(samples.domain)[0], samples.counts(), name)
    cut = search._splitter(y)
    ours = isinstance(cut, _DomainSplitter)
    groups = samples.group if ours or samples.group is not None else sample_domain  # by scikit-learn's name
    known = {} if groups is None else {"groups": groups}
    if get_config()["enable_metadata_routing"]:
        told = known if get_routing_for_object(cut).consumes("split", known) else {}
        split_params = process_routing(search, "fit", sample_domain=sample_domain, **told, **params).splitter.split
    elif params:
        raise TypeError(f"{name}.fit got an unexpected argument {min(params)!r}.")
    else:
        split_params = known | ({"sample_domain": sample_domain} if ours else {})
    # Nobody asked for groups here; a splitter that has no use for the domains need not say so.
    with ignore_warnings((UserWarning, "The groups parameter is ignored by")):
        splits = list(cut.split(X, y, **split_params))
    if not splits:
        raise ValueError(f"cv={search.cv!r} gave {name} no split to score on.")
    for k, (train, test) in enumerate(splits):
        if samples.group is not None:
            check_groups_not_split(samples.group, samples.domain, (train, test), f"Split {k} of the cv of {name}")
        classes = np.unique(y[train])
        if len(classes) < 2:
            raise ValueError(
                f"{name} cannot train on split {k} of its cv, which leaves a single class, {classes.tolist()}: the "
                "other classes occur in the held-out part alone. Hold out other parts, or leave those classes out."
            )
    if min(len(np.unique(domain[train])) for train, _ in splits) < 2:
        warn(
            f"{name} has folds whose training data come from a single domain: there, invariance weights have no "
            "effect, so the scores say little about them. Use three or more source domains, or pass sample_domain if "
            "it was left out.",
            SingleDomainWarning,
        )
    return splits
