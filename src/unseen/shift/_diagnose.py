"""`diagnose` tests for shift between domains; `Diagnosis` holds the results as attributes, text, table and page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state, check_scalar, check_X_y

from ..exceptions import DataWarning, warn
from ..kernels import Kernel
from ..linalg import Array, Ints, Membership
from ..report import draw_diagnosis, format_percent, render_diagnosis
from ..tables import (
    MIN_DOMAIN_ROWS,
    Dates,
    Scale,
    Table,
    TableOptions,
    check_array_options,
    is_table,
    make_preprocessor,
    read_survey,
    survey_table,
)
from ..utils.io import plain_values
from ..utils.optional_imports import optional_import
from ..utils.samples import Samples
from ..utils.validation import Labels, check_domains, check_labels, encode_classes, encode_domains
from ._column_audit import ColumnDiagnosis, diagnose_columns, enumerate_names
from ._permutation_tests import (
    PermutationResult,
    adjust_by_holm,
    distance_matrices,
    run_kernel_tests,
    run_label_test,
)

# The tests of features take at most this number of samples, and fewer for many domains: the square of their number
# times the number of domains is bounded, which 499 permutations take about three seconds for.
MAX_SAMPLES = 3000
MAX_SQUARES = 4e7
MAX_PRODUCTS = 1e13  # multiplications in the tests of features: ten minutes on one core
NAMES = {"label": "P(Y)", "covariate": "P(X)", "conditional": "P(X|Y)", "prior_normalized": "P(X), priors equal"}
QUESTIONS = {
    "label": "Do class proportions differ between domains?",
    "covariate": "Do the features differ between domains, whatever the class?",
    "conditional": "Do samples of one class differ between domains?",
    "prior_normalized": "Do the features still differ after class proportions were made equal?",
}
TEST_KEYS = ("name", "key", "statistic", "p_value", "effect", "effect_label", "effect_text", "flagged", "question")
CLASS_KEYS = ("p_value", "p_adjusted", "effect", "flagged")
NUMBERS = ("statistic", "p_value", "p_adjusted", "effect")
GRADES = ("negligible", "small", "moderate", "large")
SHARE_THRESHOLDS = (0.01, 0.06, 0.14)  # of variance explained: Cohen's conventions
POINT_THRESHOLDS = (5.0, 15.0, 30.0)  # of a class proportion, beyond what chance gives
COMPARE_ADVICE = "Use compare to measure on held-out domains whether an invariant method helps."


@dataclass(frozen=True)
class Shift:
    """One kind of shift, or the conditional shift of one class: its test and its size.

    Attributes
    ----------
    key : str
        "label", "covariate", "conditional" or "prior_normalized"; "class" for that of one class.
    n : int
        Number of samples in the test.
    statistic : float or None
        The permuted statistic; None, like the p-value and the effect, if the data do not allow the test.
    p_value : float or None
        Share of permutations that reach the statistic, including the data themselves.
    effect : float or None
        For "label", the largest difference of the share of a class between two domains; otherwise the share of the
        kernel variance that domains explain, adjusted for chance. Both lie between 0 and 1.
    effect_label : str
        "negligible", "small", "moderate" or "large"; "not testable" without a test.
    effect_text : str
        The effect, the p-value and the number of samples as text.
    flagged : bool
        Whether the p-value, of a class after Holm's correction for testing every class, is at most alpha.
    label : object
        The class, for "class".
    p_adjusted : float or None
        The p-value after Holm's correction, for "class".
    """

    key: str
    n: int
    statistic: float | None = None
    p_value: float | None = None
    effect: float | None = None
    effect_label: str = "not testable"
    effect_text: str = "no class was found in two domains"
    flagged: bool = False
    label: Any = None
    p_adjusted: float | None = None

    @property
    def name(self) -> str:
        """The distribution in question, such as "P(X|Y)"."""
        return NAMES.get(self.key, f"P(X|Y={self.label})")

    @property
    def question(self) -> str:
        """What is tested."""
        return QUESTIONS[self.key]


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """How the domains of a data set differ; made by :func:`unseen.diagnose`.

    ``print`` shows a text; notebooks show a page.

    Attributes
    ----------
    n_samples, n_used : int
        Number of samples, and number of samples in the kernel tests.
    classes, domains : ndarray
        Labels, in sorted order.
    counts : ndarray of shape (n_domains, n_classes)
        Number of samples in each cell.
    alpha : float
        Level of the tests.
    n_permutations : int
        Number of permutations for every p-value.
    gamma : float
        Coefficient of the rbf kernel.
    tests : tuple of Shift
        The shifts of P(Y), P(X), P(X|Y), and of P(X) with equal class proportions.
    class_tests : tuple of Shift
        The conditional shift of each class.
    marginal_distances, conditional_distances : ndarray of shape (n_domains, n_domains)
        Distances between domains in the space of the kernel, of P(X), and of P(X|Y) over the common classes; NaN
        without a common class.
    columns : ColumnDiagnosis or None
        Which columns differ, how, and what to do; None for arrays and photographs, and for tables
        of more than 1,000 columns.

    Examples
    --------
    >>> import unseen
    >>> from unseen.datasets import load_penguins
    >>> X, sex, species = load_penguins(return_X_y=True)
    >>> diagnosis = unseen.diagnose(X, sex, sample_domain=species, n_permutations=99)
    >>> for test in diagnosis.tests:
    ...     print(test.name, test.p_value)
    P(Y) 0.97
    P(X) 0.01
    P(X|Y) 0.01
    P(X), priors equal 0.01
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
    class_tests: tuple[Shift, ...]
    marginal_distances: Array
    conditional_distances: Array
    columns: ColumnDiagnosis | None = None

    @cached_property
    def notices(self) -> tuple[str, ...]:
        """Sentences about limitations, such as cells without samples."""
        return tuple(limitation_texts(self))

    @cached_property
    def reading(self) -> list[str]:
        """Sentences that interpret the tests together; a comparison decides which method to use."""
        return interpret_tests(self)

    def summary(self) -> dict[str, Any]:
        """Return all results as plain values.

        Returns
        -------
        summary : dict
            Strings, numbers, lists and dictionaries that the json module can write. Texts, tables, figures and pages
            are made from it.
        """
        return plain_values(
            {
                "n_samples": self.n_samples,
                "n_used": self.n_used,
                "classes": [str(label) for label in self.classes],
                "domains": [str(label) for label in self.domains],
                "counts": self.counts,
                "alpha": self.alpha,
                "n_permutations": self.n_permutations,
                "gamma": self.gamma,
                "tests": [{key: getattr(test, key) for key in TEST_KEYS} for test in self.tests],
                "classes_tests": [
                    {"class": str(test.label), **{key: getattr(test, key) for key in CLASS_KEYS}}
                    for test in self.class_tests
                ],
                "distances": {"marginal": self.marginal_distances, "conditional": self.conditional_distances},
                "reading": self.reading,
                "notices": self.notices,
                "columns": None if self.columns is None else self.columns.summary(),
            }
        )

    def __str__(self) -> str:
        return summary_text(self.summary())

    def __repr__(self) -> str:
        names = "; ".join(test.name for test in self.tests if test.flagged)
        result = f"shift detected in {names}" if names else "no shift detected"
        return f"<Diagnosis: {len(self.domains)} domains, {len(self.classes)} classes; {result}>"

    def records(self) -> list[dict[str, Any]]:
        """Return the tests as rows of a table: one for each kind of shift, then one for each class."""
        return [
            {"test": test.name, **{name: getattr(test, name) for name in ("n", *NUMBERS, "flagged")}}
            for test in (*self.tests, *self.class_tests)
        ]

    def to_frame(self) -> Any:
        """Return the tests as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            A row for each kind of shift, then one for each class: `test`, `n`, `statistic`, `p_value`, `p_adjusted`
            (classes only), `effect` and `flagged`.
        """
        frame = optional_import("pandas", "to_frame()").DataFrame(self.records())
        return frame.astype(dict.fromkeys(NUMBERS, float))

    def plot(self, figure: Any = None) -> Any:
        """Draw the distances between domains and the size of every shift.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Figure to draw on; None creates one.

        Returns
        -------
        figure : matplotlib Figure or SubFigure
            Figure with three axes: distances of P(X), distances of P(X|Y), and effects with their p-values.
        """
        return draw_diagnosis(self.summary(), figure)

    def to_html(self) -> str:
        """Return a self-contained page; needs the extra ``cli``.

        Returns
        -------
        page : str
            One HTML document without external resources.
        """
        return render_diagnosis(self.summary())

    def _repr_html_(self) -> str | None:
        try:
            return render_diagnosis(self.summary(), fragment=True)
        except ImportError:  # Without the extra for pages, a notebook shows the text.
            return None


def diagnose(
    data: Any,
    y: Any = None,
    *,
    sample_domain: Any = None,
    label: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    unlabeled: str | int | None = None,
    dates: Dates = "drop",
    categories: Sequence[str] | None = None,
    missing: Mapping[str, Any] | None = None,
    scale: Scale = "standardize",
    n_permutations: int = 499,
    max_per_domain: int = 500,
    min_domain_rows: int = MIN_DOMAIN_ROWS,
    alpha: float = 0.05,
    random_state: Any = 0,
) -> Diagnosis:
    """Test how domains differ, before any modeling.

    The parameters are those of the command ``unseen diagnose``. A :class:`~unseen.exceptions.DataWarning` is issued for
    each assumption that is made in reading a table; the command prints the same texts.

    Tests four kinds of shift between domains by permutation: of the class proportions P(Y), of the features P(X), of
    the features within classes P(X|Y), and of P(X) with equal class proportions. The first two permute domain labels
    over all samples. The others permute them within classes, so that a change of class proportions alone is not
    detected. Features are compared by the distances of their mean embeddings in the space of an rbf kernel, whose
    `gamma` is one over the median squared distance. Arrays are not scaled: standardize features of different scales
    first. Features of a table are preprocessed as for a comparison, and scaled by `scale`.

    The tests assume that the samples of a domain are independent. Frames of one film or slices of one patient are not
    independent, and make every p-value too small.

    Parameters
    ----------
    data : DataFrame, dict, list of dict, str, path, Table, array-like or sparse matrix
        A table with columns of labels and domains: see :func:`unseen.tables.load_table`. Or the features of the
        samples, of shape (n_samples, n_features), with `y` and `sample_domain`.
    y : array-like of shape (n_samples,), default=None
        Class labels, unless they are a column of a table.
    sample_domain : array-like of shape (n_samples,), default=None
        Domain of each sample, at least two different ones, unless they are a column of a table.
    label, domain : str, default=None
        Columns of the table; None guesses them from common names.
    group, features, drop, unlabeled, dates, categories, missing, min_domain_rows
        Further parameters of :func:`unseen.tables.load_table`.
    scale : {"standardize", "l2", "none"}, default="standardize"
        Scaling of the features of a table: see :func:`unseen.tables.make_preprocessor`.
    n_permutations : int, default=499
        Number of permutations for every p-value; the smallest possible p-value is ``1 / (n_permutations + 1)``.
    max_per_domain : int, default=500
        Domains with more samples enter the kernel tests with a random subsample of this size, or smaller if these
        have more than 3,000 samples in total (1,500 for 16 domains). P(Y) is tested on all samples.
    alpha : float, default=0.05
        A p-value up to this level counts as a detection, for each of the four tests on its own. P-values of single
        classes are corrected first, by Holm's method.
    random_state : int, RandomState instance or None, default=0
        Seed of permutations and subsamples.

    Returns
    -------
    diagnosis : :class:`~unseen.shift.Diagnosis`
        Tests, effect sizes, distances between domains, and their interpretation. Use :func:`unseen.compare` to decide
        which method to use.

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
    options = TableOptions(
        label=label,
        domain=domain,
        group=group,
        features=features,
        drop=drop,
        unlabeled=unlabeled,
        dates=dates,
        categories=categories,
        missing=missing,
        min_domain_rows=min_domain_rows,
    )
    columns = None
    is_read = isinstance(data, Table)  # by the caller, who has shown its notices
    if is_read or is_table(data, y, sample_domain):
        table = data if is_read else read_survey(survey_table(data, options))
        columns = diagnose_columns(table)
        data = make_preprocessor(table.schema, scale).fit_transform(table.X)
        y = table.y
        sample_domain = table.domain
        for notice in [] if is_read else table.notices:
            warn(notice, DataWarning)
    else:
        check_array_options(options)
    if y is None or sample_domain is None:
        raise ValueError("diagnose needs labels and domains: pass y and sample_domain, or a table that has both.")
    check_labels(y)
    X, y = check_X_y(data, y, accept_sparse="csr", dtype=np.float64)
    classes, _ = encode_classes(y, "diagnose")
    samples = Samples(X, y, check_domains(sample_domain, len(y)), classes)
    domains, _ = encode_domains(samples.domain)
    counts = samples.counts()
    if len(domains) < 2:
        raise ValueError(
            f"diagnose needs samples of at least 2 domains, but sample_domain holds 1: {domains.tolist()}. "
            "Pass the place, device or period of each sample as its domain."
        )
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    rows = _subsample(samples.domain_codes, max_per_domain, rng)
    # Sorted by class, so that each class is a block of the Gram matrix, without a copy.
    used = samples.take(rows[np.argsort(samples.codes[rows], kind="stable")])
    if len(used) ** 2 * len(domains) * (n_permutations + 1) > MAX_PRODUCTS:
        raise ValueError(
            f"diagnose on {len(used):,} samples of {len(domains):,} domains with n_permutations={n_permutations:,} "
            "would take hours. Use larger units as domains, such as the regions of hospitals, or lower max_per_domain "
            "or n_permutations."
        )
    membership = Membership(used.counts(), used.domain_codes * len(classes) + used.codes)
    kernel = Kernel().resolve(used.X)
    gram = kernel.check_finite(kernel.evaluate(used.X))
    marginal, conditional = distance_matrices(gram, membership)
    results, class_results = run_kernel_tests(gram, used.domain_codes, used.codes, n_permutations, rng)
    tests = (
        _test_label_shift(counts, classes, domains, n_permutations, alpha, rng),
        *(_make_shift(key, result, alpha, len(used)) for key, result in results.items()),
    )
    # Classes that occur in one domain only have no result.
    p_values = adjust_by_holm(np.array([result.p_value for result in class_results.values()]))
    adjusted = dict(zip(class_results, p_values, strict=True))
    sizes = membership.counts.sum(axis=0).tolist()
    class_tests = [
        _make_shift("class", class_results.get(j), alpha, sizes[j], label=label, p_adjusted=adjusted.get(j))
        for j, label in enumerate(classes.tolist())
    ]
    return Diagnosis(
        n_samples=len(y),
        n_used=len(used),
        classes=classes,
        domains=domains,
        counts=counts,
        alpha=float(alpha),
        n_permutations=int(n_permutations),
        gamma=kernel.gamma_value(X.shape[1]),
        tests=tests,
        class_tests=tuple(class_tests),
        marginal_distances=marginal,
        conditional_distances=conditional,
        columns=columns,
    )


def _subsample(domain: Ints, size: int, rng: np.random.Generator) -> Ints:
    """Return the positions of at most `size` random samples of each domain, fewer if the tests would take long."""
    sizes = np.bincount(domain)
    limit = min(MAX_SAMPLES, int(np.sqrt(MAX_SQUARES / len(sizes))))
    if np.minimum(sizes, size).sum() > limit:
        size = max(limit // len(sizes), 2)
    members = np.split(np.argsort(domain, kind="stable"), np.cumsum(sizes)[:-1])
    return np.concatenate([rng.choice(rows, size, replace=False) if len(rows) > size else rows for rows in members])


def _test_label_shift(
    counts: Ints, classes: Labels, domains: Labels, n_permutations: int, alpha: float, rng: np.random.Generator
) -> Shift:
    tables, result = run_label_test(counts, n_permutations, rng)
    proportions = tables / counts.sum(axis=1, keepdims=True)
    points = 100 * np.ptp(proportions, axis=1).max(axis=1)
    chance = float(points[1:].mean())
    j = np.ptp(proportions[0], axis=0).argmax()
    percent = 100 * proportions[0, :, j]
    low, high = np.argsort(percent)[[0, -1]]
    n = int(counts.sum())
    text = (
        f"class {classes[j]} makes up {percent[low]:.0f}% of {domains[low]} and {percent[high]:.0f}% of "
        f"{domains[high]}, {points[0]:.0f} points apart; by chance about {chance:.0f} "
        f"(p = {result.p_value:.2g}, n = {n})"
    )
    grade = grade_effect(points[0] - chance, POINT_THRESHOLDS)
    flagged = result.p_value <= alpha
    return Shift("label", n, result.statistic, result.p_value, float(points[0]) / 100, grade, text, flagged)


def _make_shift(key: str, result: PermutationResult | None, alpha: float, n: int, **more: Any) -> Shift:
    if result is None:
        return Shift(key, n, **more)
    where = {"conditional": "within classes, ", "prior_normalized": "with class proportions made equal, "}.get(key, "")
    evidence = f"(p = {result.p_value:.2g}, n = {n})"
    text = f"{where}domains explain {format_percent(result.share)} of the kernel variance {evidence}"
    grade = grade_effect(result.share, SHARE_THRESHOLDS)
    p_value = more.get("p_adjusted", result.p_value)
    statistic = None if key == "class" else result.statistic
    return Shift(key, n, statistic, result.p_value, result.share, grade, text, p_value <= alpha, **more)


def grade_effect(value: float, thresholds: Sequence[float]) -> str:
    """Return the grade of an effect; each threshold is the smallest value of the next grade."""
    return GRADES[int(np.searchsorted(thresholds, value, side="right"))]


def interpret_tests(diagnosis: Diagnosis) -> list[str]:
    """Return sentences that interpret the tests together and name the next step."""
    label, covariate, conditional, common = diagnosis.tests
    if conditional.p_value is None:
        return [
            "No class was found in two domains, so the effects of class and domain cannot be distinguished, and a "
            "shift of P(X|Y) cannot be tested. Removing the difference between domains would remove that between "
            "classes. Collect each class in several domains."
        ]
    shifted = [str(test.label) for test in diagnosis.class_tests if test.flagged]
    if not shifted and not any(test.flagged for test in diagnosis.tests):
        return [
            f"No shift detected in P(Y), P(X) or P(X|Y). There may still be a small one: {diagnosis.n_used} samples "
            "may be too few to detect it.",
            COMPARE_ADVICE,
        ]
    detected = [f"a {test.effect_label} shift of {test.name}" for test in diagnosis.tests[:3] if test.flagged]
    others = [test.name for test in diagnosis.tests[:3] if not test.flagged]
    sentences = [f"Detected: {enumerate_names(detected)}."] if detected else []
    sentences += [f"Not detected: a shift of {' or '.join(others)}."] if others else []
    has_label_shift = label.flagged and label.effect_label != GRADES[0]
    prior_change = (
        f"methods that match P(X) alone (DICA, SCA), and centering each new batch on its mean, can mistake this "
        f"{label.effect_label} change for a shift of features."
    )
    if conditional.flagged and conditional.effect_label != GRADES[0]:
        sentences.append("Samples of one class differ between domains.")
        if has_label_shift:
            sentences.append(f"So do class proportions: {prior_change}")
        elif not covariate.flagged:
            sentences.append("The features as a whole do not: methods that match P(X) alone (DICA, SCA) do not see it.")
        else:
            sentences.append("No shift of class proportions is detected, as centering of new batches assumes.")
    elif has_label_shift and not conditional.flagged:
        sentences.append(f"Class proportions differ between domains, samples of one class do not: {prior_change}")
    reading = [" ".join(sentences)]
    if common.flagged:
        reading.append(f"The classes have a {common.effect_label} shift in common.")
    elif conditional.flagged:
        reading.append("The classes move in different ways: no shift that they have in common is detected.")
    if shifted:
        n_classes = len(diagnosis.class_tests)
        reading.append(f"The shift is detected in {len(shifted)} of {n_classes} classes: {enumerate_names(shifted)}.")
    return [*reading, COMPARE_ADVICE]


def limitation_texts(diagnosis: Diagnosis) -> Iterator[str]:
    """Return sentences on the limitations of the tests."""
    if diagnosis.n_used < diagnosis.n_samples:
        yield f"The tests of features use a random subsample of {diagnosis.n_used} of {diagnosis.n_samples} samples."
    absent = [f"class {diagnosis.classes[j]} in {diagnosis.domains[s]}" for s, j in np.argwhere(diagnosis.counts == 0)]
    if absent:
        yield f"No samples of {enumerate_names(absent)}: an absent cell counts as no shift."
    untested = [str(test.label) for test in diagnosis.class_tests if test.p_value is None]
    if untested:
        yield f"Classes that are not testable, as found in fewer than two domains: {enumerate_names(untested)}."
    n_tests = max(len(diagnosis.class_tests) - len(untested), 1)
    if n_tests / (diagnosis.n_permutations + 1) > diagnosis.alpha:
        yield (
            f"{diagnosis.n_permutations} permutations are too few to detect a shift of a single class at the level "
            f"{diagnosis.alpha:g}; it takes at least {int(np.ceil(n_tests / diagnosis.alpha)) - 1}."
        )


def summary_text(summary: dict[str, Any]) -> str:
    """Return the diagnosis as a text of several lines."""
    head = (
        f"{len(summary['domains'])} domains, {len(summary['classes'])} classes, {summary['n_samples']} samples; "
        f"{summary['n_permutations']} permutations, level {summary['alpha']:g}"
    )
    width = max(len(test["name"]) for test in summary["tests"])
    lines = []
    for test in summary["tests"]:
        detected = "shift detected, " if test["flagged"] else "no shift detected, "
        result = test["effect_label"] if test["p_value"] is None else detected + test["effect_label"]
        lines.append(_wrap(f"{test['name']:<{width}}  {result}: {test['effect_text']}", " " * (width + 2)))
    remarks = [*summary["reading"], *(f"Note: {notice}" for notice in summary["notices"])]
    sentences = (summary.get("columns") or {}).get("sentences", [])
    numbered = [_wrap(f"{i}. {sentence}", "   ") for i, sentence in enumerate(sentences, 1)]
    columns = ["", "Columns, the most important first:", *numbered, ""] if numbered else []
    return "\n".join([head, *columns, *lines, "", *(_wrap(remark, "  ") for remark in remarks)])


def _wrap(text: str, indent: str) -> str:
    joined = text.replace(" = ", "\xa0=\xa0")  # "p = 0.002" stays on one line
    return textwrap.fill(joined, width=110, subsequent_indent=indent, break_long_words=False).replace("\xa0", " ")
