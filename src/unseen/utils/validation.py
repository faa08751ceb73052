"""What estimators share: constructors, links to documentation, and validation and encoding of labels and weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, ParamSpec, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from ..exceptions import MaskedLabelsWarning, SingleDomainWarning, ignore_warnings, warn
from ..linalg import Array, Ints

Labels = np.ndarray[Any, np.dtype[Any]]
P = ParamSpec("P")
R = TypeVar("R")
# scikit-learn warns if classes have few samples each, which is valid here.
MANY_CLASSES_WARNING = UserWarning, "The number of unique classes is greater than 50%"
MAX_SAMPLE_WEIGHT = 1e30  # the smallest positive weight is one over it
MAX_LABEL_LENGTH = 1_000  # characters: NumPy allocates the width of the longest label for every sample
MASKED_LABEL = -1  # domain adaptation libraries replace the labels of target domains by it
# Generates the constructor that scikit-learn requires: explicit keyword arguments, which it only assigns.
keyword_parameters = dataclass(kw_only=True, eq=False, repr=False)
DOCUMENTATION_URL = "https://unseen.readthedocs.io/en/latest"
FEATURES_IN = """\
n_features_in_ : int
    Number of features seen during `fit`.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of features seen during `fit`, if `X` had string column names."""


class DocLinkMixin:
    """Link an estimator, public as ``unseen.<Name>``, to its documentation; inherit from it before `BaseEstimator`.

    A name in braces in its docstring is replaced by a text that several estimators share.
    """

    _shared_docs: ClassVar[dict[str, str]] = {"features_in": FEATURES_IN}
    _doc_link_module: ClassVar[str] = "unseen"
    _doc_link_template: ClassVar[str] = f"{DOCUMENTATION_URL}/generated/unseen.{{estimator_name}}.html"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        doc = inspect.cleandoc(cls.__doc__ or "")
        for name, text in cls._shared_docs.items():
            doc = doc.replace(f"{{{name}}}", text)
        cls.__doc__ = doc


def reset_fitted_attributes(estimator: BaseEstimator) -> None:
    """Delete the attributes of an earlier fit, so that none remains after a fit with other parameters."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, determined without importing Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def require_named_domains(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method so that domains passed by position, or as `groups`, raise an error naming `sample_domain`.

    Missing labels in `y` raise as well, before scikit-learn evaluates the truth value of pandas' NA.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(
                f"{type(args[0]).__name__}.{method.__name__}: {error}. The domain of each sample is a keyword: "
                f"{method.__name__}(X, y, sample_domain=domain)."
            ) from None
        check_labels(arguments.get("y"))
        return method(*args, **kwargs)

    return call


def check_labels(y: Any) -> None:
    """Raise if labels are missing or too long; Dask collections are not checked, since that would compute them."""
    check_label_length(y, "y")
    labels = np.asarray(None if is_dask(y) else y)
    if labels.ndim == 1 and labels.dtype.kind in "Of":
        check_no_missing_labels(labels, "y")


def check_label_length(labels: Any, parameter: str) -> None:
    """Raise for a text label that is too long, before NumPy allocates an array with that width for every sample."""
    if is_dask(labels):
        return
    if not isinstance(labels, (list, tuple)):
        labels = np.asarray(labels)
        # Texts of an array are as wide as the longest.
        may_be_long = labels.dtype == object or labels.dtype.itemsize > 4 * MAX_LABEL_LENGTH
        labels = labels.ravel().tolist() if may_be_long else []
    lengths = [len(label) if isinstance(label, str) else 0 for label in labels]
    longest = max(lengths, default=0)
    if longest > MAX_LABEL_LENGTH:
        raise ValueError(
            f"{parameter} holds a label of {longest:,} characters (at position {lengths.index(longest)}); at most "
            f"{MAX_LABEL_LENGTH:,} are allowed. Use shorter names."
        )


def encode_classes(y: Labels, caller: str) -> tuple[Labels, Ints]:
    """Return the sorted classes and the index of each sample's class among them."""
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
    """Return labels of domains, or of groups, as a 1-d array of scalars, one per sample, none missing."""
    check_label_length(sample_domain, parameter)
    # NumPy converts a list of mixed types to strings, so that 1 would equal "1": an object array keeps them distinct.
    is_mixed = isinstance(sample_domain, (list, tuple)) and len({type(label) for label in sample_domain}) > 1
    labels = np.asarray(sample_domain, dtype=object if is_mixed else None)
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
    """Return group labels, one per sample; None if there are none, or if the groups are the domains."""
    if groups is None:
        return None
    labels = check_domains(groups, len(domain), "groups")
    return None if np.array_equal(labels, domain) else labels


def check_weights(sample_weight: Any, n_samples: int) -> Array | None:
    """Return weights as a 1-d array of non-negative numbers, one per sample; None if there are none."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must hold one number per sample; got an array of shape {weight.shape} for {n_samples} "
            "samples of X."
        )
    # Optimizers fail on extreme weights.
    is_valid = (weight == 0) | ((weight >= 1 / MAX_SAMPLE_WEIGHT) & (weight <= MAX_SAMPLE_WEIGHT))
    if not is_valid.all() or not weight.any():
        first = int(np.argmin(is_valid))
        raise ValueError(
            f"sample_weight must hold zeros and numbers between {1 / MAX_SAMPLE_WEIGHT:g} and {MAX_SAMPLE_WEIGHT:g}, "
            f"at least one of them positive; got {weight[first]} at position {first}."
        )
    return weight


def check_no_missing_labels(labels: Labels, parameter: str) -> None:
    """Raise if a sample has no label."""
    is_object = labels.dtype == object
    missing = np.array([is_missing(label) for label in labels]) if is_object else labels != labels  # as NaN and NaT
    if missing.any():
        raise ValueError(
            f"{parameter} has no label for {missing.sum()} of {len(labels)} samples (first at position "
            f"{int(np.argmax(missing))}). Label them, or leave those samples out."
        )


def encode_domains(labels: Labels) -> tuple[Labels, Ints]:
    """Return the distinct domains in sorted order and the index of each sample's domain among them."""
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

    def iter_rows(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the names, each with an index of its samples."""
        for i, name in enumerate(self.names.tolist()):
            yield name, slice(None) if len(self.names) == 1 else self.codes == i

    @classmethod
    def unnamed(cls, n_samples: int) -> EncodedLabels:
        """Make labels of samples without names: all have the name None."""
        return cls(np.array([None], dtype=object), np.zeros(n_samples, dtype=np.intp))

    @classmethod
    def from_domains(cls, sample_domain: Any, n_samples: int) -> EncodedLabels:
        """Validate and encode the domains of samples; encoded domains are returned unchanged."""
        if sample_domain is None:
            return cls.unnamed(n_samples)
        if isinstance(sample_domain, EncodedLabels):
            return sample_domain
        names, codes = encode_domains(check_domains(sample_domain, n_samples))
        return cls(names, codes)

    @classmethod
    def from_classes(cls, y: Labels) -> EncodedLabels:
        """Encode the class labels of a chunk of samples."""
        check_no_missing_labels(y, "y")
        names, codes = np.unique(y, return_inverse=True)
        # The type of the names is checked, not that of y: a small chunk may hold many classes.
        with ignore_warnings(MANY_CLASSES_WARNING):
            check_classification_targets(names)
        return cls(names, codes.astype(np.intp))


def warn_single_domain(domains: Labels, caller: str) -> None:
    """Warn if there is a single training domain, which is named None if `sample_domain` was not passed."""
    if len(domains) != 1:
        return
    (name,) = domains.tolist()
    reason = "was fitted without sample_domain" if name is None else f"was fitted on a single domain, {name!r}"
    warn(
        f"{caller} {reason}: one domain has no shift to learn from, so the invariance terms are zero. Pass "
        "sample_domain, one label per sample, with at least two domains.",
        SingleDomainWarning,
    )


def warn_masked_labels(classes: Labels, domains: Labels, counts: Ints, caller: str) -> None:
    """Warn of domains whose only label is -1, given the counts of each domain and class, if classes are numbers."""
    if classes.dtype.kind not in "if":
        return
    masked = domains[counts[:, classes != MASKED_LABEL].sum(axis=1) == 0]
    if len(masked):
        warn(
            f"{caller} learns {MASKED_LABEL} as a class, and the domains {masked.tolist()} have no other label. If "
            f"{MASKED_LABEL} stands for masked labels, leave those samples out of fit (with skada: "
            f"SelectSource({caller}(...)) in make_da_pipeline). If {MASKED_LABEL} is a class, ignore this warning.",
            MaskedLabelsWarning,
        )


def is_missing(label: Any) -> bool:
    """Whether a label is None or differs from itself, as NaN and NaT do, or is pandas' NA, whose comparison raises."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):
        return type(label).__name__ == "NAType"


def format_list(items: Iterable[object], max_items: int = 8, *, quote: bool = True) -> str:
    """Format the first items, strings in quotes if `quote`, and the number of the others.

    Examples
    --------
    >>> from unseen.utils.validation import format_list
    >>> format_list(["bonn", 7]), format_list("abcd", max_items=2, quote=False), format_list([])
    ("'bonn', 7", 'a, b and 2 more', 'none')
    """
    texts = [repr(item) if quote and isinstance(item, str) else str(item) for item in items]
    if not texts:
        return "none"
    more = f" and {len(texts) - max_items:,} more" if len(texts) > max_items else ""
    return ", ".join(texts[:max_items]) + more
