"""`diagnose`: from samples to a Diagnosis, which is what the tests found, as attributes, words, a table and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state, check_scalar, check_X_y

from ..kernels import Kernel, available_bytes
from ..linalg import Array, Ints, Membership
from ..report import draw_diagnosis, render_diagnosis
from ..tables import Dates, is_table, load_table, preprocessor
from ..utils.optional_imports import optional_import
from ..utils.samples import Samples
from ..utils.validation import Labels, check_domains, check_labels, encode_classes, encode_domains
from . import _interpretation as _words
from ._permutation_tests import (
    Evidence,
    chi_square,
    distance_matrices,
    kernel_evidence,
    outlier_statistics,
    permuted_tables,
)

# What a summary tells of a test, of any kind and of one class.
MOST_WORK = 1e13  # products of two numbers in the tests of features: ten minutes of one core
SHOWN_DOMAINS = ("name", "key", "statistic", "p_value", "effect", "effect_label", "effect_text", "flagged", "question")
SHOWN_CLASSES = ("p_value", "p_adjusted", "effect", "flagged")


@dataclass(frozen=True)
class Shift:
    """One kind of shift: its test and its size.

    Attributes
    ----------
    key : str
        "label", "covariate", "conditional" or "prior_normalized".
    n : int
        Samples the test is based on.
    statistic : float or None
        The statistic that was permuted; None, like the p-value and the effect, if the data do not allow the test.
    p_value : float or None
        Share of permutations that reach it, the data counted among them.
    effect : float or None
        Percentage points for "label"; otherwise the share of the kernel variance that domains explain, from 0 to 1,
        adjusted for chance.
    effect_label : str
        "negligible", "small", "moderate" or "large"; "not testable" if there is none.
    effect_text : str
        The effect, the p-value and the number of samples in words.
    flagged : bool
        Whether the p-value is at most alpha.
    """

    key: str
    n: int
    statistic: float | None
    p_value: float | None
    effect: float | None
    effect_label: str
    effect_text: str
    flagged: bool

    @property
    def name(self) -> str:
        """The distribution in question, such as "P(X|Y)"."""
        return _words.NAMES[self.key]

    @property
    def question(self) -> str:
        """What the test asks, in words."""
        return _words.QUESTIONS[self.key]


@dataclass(frozen=True)
class ClassShift:
    """The conditional shift of one class.

    Attributes
    ----------
    label : object
        The class.
    n : int
        Its samples in the test.
    p_value, p_adjusted : float or None
        Of its test, alone and after Holm's correction for testing every class; None if the class was found in fewer
        than two domains.
    effect : float or None
        Share of the class's kernel variance that domains explain, from 0 to 1, adjusted for chance.
    flagged : bool
        Whether the adjusted p-value is at most alpha.
    """

    label: Any
    n: int
    p_value: float | None
    p_adjusted: float | None
    effect: float | None
    flagged: bool


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """How the domains of a data set differ; made by :func:`unseen.diagnose`.

    ``print`` it for a plain-words account; notebooks show it as a page.

    Attributes
    ----------
    n_samples, n_used : int
        Samples given, and samples that the kernel tests used.
    classes, domains : ndarray
        Labels, in sorted order.
    counts : ndarray of shape (n_domains, n_classes)
        Samples given in each cell.
    alpha : float
        Level of the tests.
    n_permutations : int
        Permutations behind every p-value.
    gamma : float
        Coefficient of the rbf kernel.
    tests : tuple of Shift
        The shifts of P(Y), P(X), P(X|Y) and of P(X) with class proportions made equal.
    class_tests : tuple of ClassShift
        The conditional shift, class by class.
    marginal_distances, conditional_distances : ndarray of shape (n_domains, n_domains)
        Distances between domains in the space of the kernel, of P(X), and of P(X|Y) over the classes that both have;
        NaN where there is nothing to compare.
    outlier_domain : object or None
        The domain that stands apart from the others, if one does.
    assumed : tuple of str
        What was assumed or left out when a table was read, in sentences.
    """

    n_samples: int
    n_used: int
    classes: Labels
    domains: Labels
    counts: Ints
    alpha: float
    n_permutations: int
    gamma: float
    tests: tuple[Shift, ...]
    class_tests: tuple[ClassShift, ...]
    marginal_distances: Array
    conditional_distances: Array
    outlier_domain: Any
    assumed: tuple[str, ...] = ()

    @cached_property
    def notices(self) -> tuple[str, ...]:
        """What else a reader should know, such as cells without samples."""
        return (*self.assumed, *_words.limitation_texts(self))

    @cached_property
    def reading(self) -> list[str]:
        """What the tests observe together, in sentences; a comparison decides which method to use."""
        return _words.interpretation(self)

    def summary(self) -> dict[str, Any]:
        """Return everything as plain values.

        Returns
        -------
        summary : dict
            Strings, numbers, lists and dictionaries that the json module writes as they are. Texts, tables, figures and
            pages are made from this.
        """
        return {
            "n_samples": self.n_samples,
            "n_used": self.n_used,
            "classes": [str(label) for label in self.classes],
            "domains": [str(label) for label in self.domains],
            "counts": self.counts.tolist(),
            "alpha": self.alpha,
            "n_permutations": self.n_permutations,
            "gamma": self.gamma,
            "tests": [{name: getattr(test, name) for name in SHOWN_DOMAINS} for test in self.tests],
            "classes_tests": [
                {"class": str(test.label), **{name: getattr(test, name) for name in SHOWN_CLASSES}}
                for test in self.class_tests
            ],
            "distances": {
                kind: np.where(np.isfinite(found), found, np.array(None)).tolist()  # JSON knows no NaN
                for kind, found in (("marginal", self.marginal_distances), ("conditional", self.conditional_distances))
            },
            "outlier_domain": None if self.outlier_domain is None else str(self.outlier_domain),
            "outlier_text": _words.outlier_text(self),
            "reading": list(self.reading),
            "notices": list(self.notices),
        }

    def __str__(self) -> str:
        return _words.summary_text(self.summary())

    def __repr__(self) -> str:
        moved = "; ".join(test.name for test in self.tests if test.flagged)
        sizes = f"{len(self.domains)} domains, {len(self.classes)} classes"
        return f"<Diagnosis: {sizes}; {f'shift detected in {moved}' if moved else 'no shift detected'}>"

    def frame(self) -> Any:
        """Return the tests as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            A row for each kind of shift, then one for each class: `test`, `n`, `statistic`, `p_value`, `p_adjusted`
            (classes only), `effect` and `flagged`.
        """
        pandas = optional_import("pandas", "frame()")
        numbers = ["statistic", "p_value", "p_adjusted", "effect"]
        names = [*(test.name for test in self.tests), *(f"P(X|Y={test.label})" for test in self.class_tests)]
        frame = pandas.DataFrame([vars(test) for test in (*self.tests, *self.class_tests)]).assign(test=names)
        return frame[["test", "n", *numbers, "flagged"]].astype(dict.fromkeys(numbers, float))

    def plot(self, figure: Any = None) -> Any:
        """Draw the distances between domains and the size of every shift.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        figure : matplotlib Figure or SubFigure
            With three axes: the distances of P(X), those of P(X|Y), and the effects with their p-values.
        """
        return draw_diagnosis(self.summary(), figure)

    def to_html(self) -> str:
        """Return a self-contained page; needs the extra ``cli``.

        Returns
        -------
        page : str
            One HTML document that loads nothing from elsewhere.
        """
        return render_diagnosis(self.summary())

    def _repr_html_(self) -> str | None:
        try:
            return render_diagnosis(self.summary(), fragment=True)
        except ImportError:  # without the extra that makes pages, a notebook falls back on the text
            return None


def diagnose(
    X: Any,
    y: Any = None,
    *,
    sample_domain: Any = None,
    label: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    unlabeled: str | int | None = None,
    dates: Dates = "drop",
    categories: Sequence[str] | None = None,
    n_permutations: int = 499,
    max_per_domain: int = 500,
    alpha: float = 0.05,
    random_state: Any = 0,
    verbose: int = 0,
) -> Diagnosis:
    """Ask how the domains differ, before any modeling.

    Tests four kinds of shift between domains by permutation: of the class proportions P(Y), of the features P(X), of
    the features within classes P(X|Y), and of P(X) after class proportions were made equal. The first two permute
    domain labels over all samples. The others permute them within classes, so that changed class proportions alone
    do not raise an alarm. Features are compared by the distances of their mean embeddings in the space of an rbf
    kernel, whose `gamma` is one over the median squared distance. Features are used as they come: standardize those
    that do not share a scale. Those of a table are prepared as for a comparison, and standardized.

    The tests take the samples of a domain as independent. Frames of one film or slices of one patient are not, and
    make every p-value too small.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), DataFrame, str or path
        Features; or a table with labels and domains, as :func:`unseen.tables.load_table` takes it.
    y : array-like of shape (n_samples,), default=None
        Class labels, unless they are a column of a table.
    sample_domain : array-like of shape (n_samples,), default=None
        Domain of each sample, at least two, unless a column of a table tells.
    label, domain : str, default=None
        Columns of the table; None guesses them from obvious names.
    group, unlabeled, dates, categories
        What else may be said of a table, as for :func:`unseen.tables.load_table`.
    n_permutations : int, default=499
        Permutations behind every p-value; none can be smaller than ``1 / (n_permutations + 1)``.
    max_per_domain : int, default=500
        Domains with more samples enter the kernel tests with a random subsample of this size; memory grows with the
        square of their total. P(Y) is tested on all samples.
    alpha : float, default=0.05
        A p-value up to this level counts as a detection, for each of the four tests on its own. P-values of single
        classes are corrected first, by Holm's method.
    random_state : int, RandomState instance or None, default=0
        Seed of permutations and subsamples.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    diagnosis : :class:`~unseen.shift.Diagnosis`
        Tests, effect sizes, distances between domains, and what they mean together. Which method to use is for
        :func:`unseen.compare` to decide.

    Examples
    --------
    >>> from unseen import diagnose
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> diagnosis = diagnose(data.data, data.target, sample_domain=data.domain)
    >>> diagnosis
    <Diagnosis: 3 domains, 3 classes; shift detected in P(Y); P(X); P(X|Y); P(X), priors equal>
    >>> [test.p_value for test in diagnosis.tests]
    [0.002, 0.002, 0.002, 0.002]
    """
    check_scalar(n_permutations, "n_permutations", Integral, min_val=1)
    check_scalar(max_per_domain, "max_per_domain", Integral, min_val=2)
    check_scalar(alpha, "alpha", Real, min_val=0, max_val=1, include_boundaries="neither")
    assumed: list[str] = []
    if is_table(X, y, sample_domain):
        table = load_table(
            X,
            label=label,
            domain=domain,
            group=group,
            unlabeled=unlabeled,
            dates=dates,
            categories=categories,
        )
        X, y, sample_domain = preprocessor(table.schema).fit_transform(table.X), table.y, table.domain
        assumed = table.notices
    if y is None or sample_domain is None:
        raise ValueError("diagnose needs labels and domains: pass y and sample_domain, or a table that has both.")
    check_labels(y)
    X, y = check_X_y(X, y, accept_sparse="csr", dtype=np.float64)
    classes, _ = encode_classes(y, "diagnose")
    samples = Samples(X, y, check_domains(sample_domain, len(y)), classes)
    domains, counts = encode_domains(samples.domain)[0], samples.counts()
    if len(domains) < 2:
        raise ValueError(
            f"diagnose needs samples of at least 2 domains, but sample_domain holds 1: {domains.tolist()}. "
            "Name the place, device or period that each sample comes from."
        )
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))

    drawn = _subsample(samples.domain_codes, max_per_domain, rng)
    drawn = drawn[np.argsort(samples.codes[drawn], kind="stable")]  # each class a block of the Gram matrix, not a copy
    used = samples.take(drawn)
    _require_work(len(used), len(domains), n_permutations)
    membership = Membership(used.counts(), used.domain_codes * len(classes) + used.codes)
    gram, gamma = _gram(used.X)
    marginal, conditional = distance_matrices(gram, membership)

    kinds, of_classes = kernel_evidence(gram, used.domain_codes, used.codes, n_permutations, rng, verbose)
    tests = (
        _label_shift(counts, classes, domains, n_permutations, alpha, rng),
        *(_shift(key, evidence, alpha, len(used)) for key, evidence in kinds.items()),
    )
    by_class = bool(np.isfinite(conditional).all())
    detected = tests[2 if by_class else 1].flagged
    odd = outlier_statistics(gram, membership, by_class=by_class, rng=rng) if detected else None
    return Diagnosis(
        n_samples=len(y),
        n_used=len(used),
        classes=classes,
        domains=domains,
        counts=counts,
        alpha=float(alpha),
        n_permutations=int(n_permutations),
        gamma=gamma,
        tests=tests,
        class_tests=_class_shifts(of_classes, classes, membership.counts.sum(axis=0), alpha),
        marginal_distances=marginal,
        conditional_distances=conditional,
        outlier_domain=None if odd is None else domains.tolist()[odd],
        assumed=tuple(assumed),
    )


def _require_work(n: int, n_domains: int, n_permutations: int) -> None:
    """Raise if permuting the domains would take hours: a test compares the mean of every domain with every sample."""
    if n * n * n_domains * (n_permutations + 1) > MOST_WORK:
        raise ValueError(
            f"diagnose on {n:,} samples of {n_domains:,} domains with {n_permutations:,} permutations would take hours."
            " Name larger places as domains, such as the regions of hospitals, lower max_per_domain "
            "(--max-per-domain) so that fewer samples are used, or ask for fewer permutations."
        )


def _subsample(domain: Ints, size: int, rng: np.random.Generator) -> Ints:
    """Positions of at most `size` samples of each domain, drawn at random."""
    members = [np.flatnonzero(domain == s) for s in range(domain.max() + 1)]
    return np.concatenate([rng.choice(own, size, replace=False) if len(own) > size else own for own in members])


def _gram(X: Any) -> tuple[Array, float]:
    """Return the rbf kernel matrix and its coefficient."""
    needed, available = 3 * 8 * X.shape[0] ** 2, available_bytes()
    if available is not None and needed > available:
        raise MemoryError(
            f"diagnose on {X.shape[0]:,} samples needs {needed / 2**30:,.1f} GiB for kernel matrices; "
            f"{available / 2**30:,.1f} GiB is available. Lower max_per_domain."
        )
    kernel = Kernel().resolve(X)
    return kernel.check_finite(kernel.evaluate(*kernel.shift_origin(X))), kernel.gamma_value(X.shape[1])


def _label_shift(
    counts: Ints, classes: Labels, domains: Labels, n_permutations: int, alpha: float, rng: np.random.Generator
) -> Shift:
    tables = permuted_tables(counts, n_permutations, rng)
    evidence = chi_square(tables)
    proportions = tables / counts.sum(axis=1, keepdims=True)
    points = 100 * np.ptp(proportions, axis=1).max(axis=1)
    chance = float(points[1:].mean())
    j = int(np.ptp(proportions[0], axis=0).argmax())
    low, high = ((str(domains[s]), float(proportions[0, s, j])) for s in np.argsort(proportions[0, :, j])[[0, -1]])
    n, p_value = int(counts.sum()), evidence.p_value
    size = _words.grade(max(points[0] - chance, 0.0), _words.POINTS)
    text = _words.label_text(str(classes[j]), low, high, chance, p_value, n)
    return Shift("label", n, evidence.statistic, p_value, float(points[0]), size, text, flagged=p_value <= alpha)


def _shift(key: str, evidence: Evidence | None, alpha: float, n: int) -> Shift:
    if evidence is None:
        return Shift(key, n, None, None, None, "not testable", "no class was found in two domains", flagged=False)
    p_value, share = evidence.p_value, evidence.share
    size, text = _words.grade(share, _words.SHARES), _words.share_text(key, share, p_value, n)
    return Shift(key, n, evidence.statistic, p_value, share, size, text, flagged=p_value <= alpha)


def _class_shifts(by_class: dict[int, Evidence], classes: Labels, sizes: Ints, alpha: float) -> tuple[ClassShift, ...]:
    adjusted = dict(zip(by_class, holm(np.array([found.p_value for found in by_class.values()])), strict=True))
    found = {j: (own.p_value, adjusted[j], own.share, adjusted[j] <= alpha) for j, own in by_class.items()}
    untested = (None, None, None, False)
    return tuple(ClassShift(label, int(sizes[j]), *found.get(j, untested)) for j, label in enumerate(classes.tolist()))


def holm(p_values: Array) -> list[float]:
    """Adjust p-values for testing all of them, by Holm's step-down method."""
    order = np.argsort(p_values)
    stepped = np.maximum.accumulate(np.arange(len(p_values), 0, -1) * p_values[order])
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted.tolist()
