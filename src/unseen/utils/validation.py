"""Validation and encoding of class labels, domain labels, groups and sample weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from ..exceptions import MaskedLabelsWarning, SingleDomainWarning, warn
from ..linalg import Array, Ints
from .optional_imports import is_dask
from .warnings import ignore_warnings

Labels = np.ndarray[Any, np.dtype[Any]]
P = ParamSpec("P")
R = TypeVar("R")
# What scikit-learn says of labels whose classes have few samples: they are classes all the same.
MANY_CLASSES_WARNING = UserWarning, "The number of unique classes is greater than 50%"
MAX_SAMPLE_WEIGHT = 1e30  # weight of a sample, and one over it the lightest
MAX_LABEL_LENGTH = 1_000  # characters of a class or domain name: arrays of text have the width of the longest
MASKED_LABEL = -1  # what adaptation libraries put in the place of the labels of a target domain


def require_named_domains(method: Callable[P, R]) -> Callable[P, R]:
    """Tell who passes domains by position, or as scikit-learn's `groups`, what they are called here.

    Whoever passes labels of which some are missing is told as well, before scikit-learn asks NA whether it is true.
    """
    names = list(inspect.signature(method).parameters)
    kinds = [parameter.kind for parameter in inspect.signature(method).parameters.values()]
    n_positional = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_groups = inspect.Parameter.VAR_KEYWORD in kinds

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        groups = "groups" in kwargs and not takes_groups
        if groups or len(args) > n_positional:
            received = "groups=" if groups else f"{len(args) - 1} arguments by position"
            raise TypeError(
                f"{type(args[0]).__name__}.{method.__name__} takes the domain of each sample by its own name; got "
                f"{received}. Use sample_domain=, as in {method.__name__}(X, y, sample_domain=domain)."
            )
        check_labels(kwargs.get("y", dict(zip(names, args, strict=False)).get("y")))
        return method(*args, **kwargs)

    return call


def check_labels(y: Any) -> None:
    """Raise if labels are missing or too long, unless they are elsewhere, as those of Dask are."""
    check_label_length(y, "y")
    labels = np.asarray(None if is_dask(y) else y)
    if labels.ndim == 1 and labels.dtype.kind in "Of":
        check_no_missing_labels(labels, "y")


def check_label_length(labels: Any, parameter: str) -> None:
    """Raise for a text label that is too long, before NumPy allocates an array with that width for every sample."""
    if is_dask(labels):
        return
    if not isinstance(labels, (list, tuple)):
        array = np.asarray(labels)
        is_wide = array.dtype.kind == "U" and array.dtype.itemsize > np.dtype(f"U{MAX_LABEL_LENGTH}").itemsize
        if array.dtype != object and not is_wide:
            return
        labels = array.ravel().tolist()
    lengths = [len(label) if isinstance(label, str) else 0 for label in labels]
    longest = max(lengths, default=0)
    if longest > MAX_LABEL_LENGTH:
        raise ValueError(
            f"{parameter} holds a label of {longest:,} characters (at position {lengths.index(longest)}); at most "
            f"{MAX_LABEL_LENGTH:,} are allowed. Use shorter names."
        )


def encode_classes(y: Labels, caller: str) -> tuple[Labels, Ints]:
    """Sorted classes and each sample's index among them."""
    check_no_missing_labels(y, "y")
    with ignore_warnings(MANY_CLASSES_WARNING):
        check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"{caller} needs samples of at least 2 classes, but y holds 1 class: {classes.tolist()}. "
            "Check how y was built or split."
        )
    return classes, codes.astype(np.intp)


def check_domains(sample_domain: Any, n_samples: int, parameter: str = "sample_domain") -> Labels:
    """Domain labels, or labels of groups, as a 1-d array of scalars, one per sample, none missing."""
    check_label_length(sample_domain, parameter)
    # Lists of mixed types would turn into strings, and 1 would equal "1": an object array keeps them apart.
    mixed = isinstance(sample_domain, (list, tuple)) and len({type(label) for label in sample_domain}) > 1
    labels = np.asarray(sample_domain, dtype=object if mixed else None)
    if labels.ndim != 1:
        raise ValueError(
            f"{parameter} must hold one label per sample in one dimension; got an array of shape {labels.shape}."
        )
    if len(labels) != n_samples:
        raise ValueError(
            f"{parameter} must hold one label per sample; got {len(labels)} labels for {n_samples} samples of X."
        )
    check_no_missing_labels(labels, parameter)
    return labels


def check_groups(groups: Any, domain: Labels) -> Labels | None:
    """Which samples belong together; None if nobody said so, or only that those of a domain do, by another name."""
    labels = None if groups is None else check_domains(groups, len(domain), "groups")
    return None if labels is None or np.array_equal(labels, domain) else labels


def check_weights(sample_weight: Any, n_samples: int) -> Array | None:
    """Weights as a 1-d array of numbers that are not negative, one per sample; None if there are none."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must hold one number per sample; got an array of shape {weight.shape} for {n_samples} "
            "samples of X."
        )
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any() or not weight.any():
        first = int(np.argmax(wrong))
        got = f"{weight[first]} at position {first}" if wrong.any() else "zeros only"
        raise ValueError(f"sample_weight must hold finite numbers that are not negative, one above zero; got {got}.")
    odd = (weight > 0) & ((weight > MAX_SAMPLE_WEIGHT) | (weight < 1 / MAX_SAMPLE_WEIGHT))
    if odd.any():
        first = int(np.argmax(odd))
        raise ValueError(
            f"sample_weight must hold zeros and numbers between {1 / MAX_SAMPLE_WEIGHT:g} and {MAX_SAMPLE_WEIGHT:g}, "
            "as optimizers fail "
            f"on others; got {weight[first]} at position {first}. Divide all of them by one number."
        )
    return weight


def check_no_missing_labels(labels: Labels, parameter: str) -> None:
    """Raise if a sample has no label."""
    missing = _missing(labels)
    if missing.any():
        raise ValueError(
            f"{parameter} has no label for {missing.sum()} of {len(labels)} samples (first at position "
            f"{int(np.argmax(missing))}). Label them, or leave those samples out."
        )


def encode_domains(labels: Labels) -> tuple[Labels, Ints]:
    """Distinct domains, in sorted order, and each sample's index among them."""
    if labels.dtype == object:
        try:
            distinct = sorted(set(labels), key=lambda label: (type(label).__name__, label))
        except TypeError as error:
            raise TypeError(
                "sample_domain must hold hashable scalars such as strings or integers, of types that can be sorted; "
                f"got labels of type {sorted({type(label).__name__ for label in labels})}."
            ) from error
        position = {label: i for i, label in enumerate(distinct)}
        domains = np.empty(len(distinct), dtype=object)
        domains[:] = distinct
        return domains, np.array([position[label] for label in labels], dtype=np.intp)
    domains, codes = np.unique(labels, return_inverse=True)
    return domains, codes.astype(np.intp)


@dataclass(frozen=True)
class EncodedLabels:
    """Labels of samples as distinct names and each sample's index among them."""

    names: Labels
    codes: Ints

    def rows(self) -> Iterator[tuple[Any, Any]]:
        """Each name with an index of its samples."""
        for i, name in enumerate(self.names.tolist()):
            yield name, slice(None) if len(self.names) == 1 else self.codes == i

    @classmethod
    def nameless(cls, n: int) -> EncodedLabels:
        """Samples that are not told apart."""
        return cls(np.array([None], dtype=object), np.zeros(n, dtype=np.intp))

    @classmethod
    def domains(cls, sample_domain: Any, n: int) -> EncodedLabels:
        """Encode the domains of n samples, unless they are already."""
        if sample_domain is None or isinstance(sample_domain, EncodedLabels):
            return sample_domain or cls.nameless(n)
        return cls(*encode_domains(check_domains(sample_domain, n)))

    @classmethod
    def classes(cls, y: Labels, declared: Labels | None) -> EncodedLabels:
        """Encode the classes of a chunk, however few; those not among the declared ones are refused."""
        check_no_missing_labels(y, "y")
        names, codes = np.unique(y, return_inverse=True)
        # Of the names rather than of y: that a few samples hold many classes says nothing about the stream.
        with ignore_warnings(MANY_CLASSES_WARNING):
            kind = type_of_target(names, input_name="y")
        if kind not in ("binary", "multiclass"):
            raise ValueError(
                f"y must hold class labels; got labels of the kind {kind!r}, such as {names.tolist()[0]!r}."
            )
        if declared is not None and not np.isin(names, declared).all():
            unknown = names[~np.isin(names, declared)].tolist()
            raise ValueError(
                f"y holds classes that are not among those declared: {unknown}. Declared were {declared.tolist()}; "
                "name all classes in the first call of partial_fit, or leave `classes` out to let new ones appear."
            )
        return cls(names, codes.astype(np.intp))


def warn_single_domain(domains: Labels, caller: str) -> None:
    """Warn if there is a single domain to train on, which has no name where samples came without labels."""
    if len(domains) == 1:
        (name,) = domains.tolist()
        reason = "was fitted without sample_domain" if name is None else f"saw a single domain, {name!r}"
        warn(
            f"{caller} {reason}: with one domain there is no shift to learn from, so the invariance terms are zero. "
            "Pass sample_domain, one label per sample, to tell at least two domains apart.",
            SingleDomainWarning,
        )


def warn_masked_labels(classes: Labels, domains: Labels, counts: Ints, caller: str) -> None:
    """Warn of domains without any label but -1 in a table of counts whose classes are numbers."""
    if classes.dtype.kind not in "if":
        return
    masked = domains[counts[:, classes != MASKED_LABEL].sum(axis=1) == 0]
    if len(masked):
        warn(
            f"{caller} learns {MASKED_LABEL} as a class, and the domains {masked.tolist()} have no other: labels "
            "that are "
            f"masked look like this. If they are, leave those samples out of fit (with skada: "
            f"SelectSource({caller}(...)) in make_da_pipeline). If {MASKED_LABEL} is a class, all is well.",
            MaskedLabelsWarning,
        )


def _missing(labels: Labels) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if labels.dtype == object:
        return np.array([is_missing(label) for label in labels], dtype=bool)
    return np.asarray(labels != labels)  # as are NaN and NaT


def is_missing(label: Any) -> bool:
    """None, or anything that is not equal to itself: NaN, NaT and pandas' NA, which refuses to say either way."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):
        return type(label).__name__ == "NAType"


def format_list(items: Iterable[object], most: int = 8, *, quote: bool = True) -> str:
    """The first few items, strings in quotes unless told otherwise, and how many more there are.

    Examples
    --------
    >>> from unseen.utils.samples import listed
    >>> listed(["bonn", 7]), listed("abcd", most=2, quote=False), listed([])
    ("'bonn', 7", 'a, b and 2 more', 'none')
    """
    shown = [repr(item) if quote and isinstance(item, str) else str(item) for item in items]
    more = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return (", ".join(shown[:most]) + more) or "none"
