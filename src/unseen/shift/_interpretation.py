"""Texts that interpret the tests of a diagnosis."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report import format_percent
from ._permutation_tests import OUTLIER_GAP

if TYPE_CHECKING:
    from ._diagnose import ClassShift, Diagnosis, Shift

NAMES = {"label": "P(Y)", "covariate": "P(X)", "conditional": "P(X|Y)", "prior_normalized": "P(X), priors equal"}
QUESTIONS = {
    "label": "Do class proportions differ between domains?",
    "covariate": "Do the features differ between domains, whatever the class?",
    "conditional": "Do samples of one class differ between domains?",
    "prior_normalized": "Do the features still differ after class proportions were made equal?",
}
GRADES = ("negligible", "small", "moderate", "large")
SHARE_THRESHOLDS = (0.01, 0.06, 0.14)  # of variance explained: Cohen's conventions
POINT_THRESHOLDS = (5.0, 15.0, 30.0)  # of a class proportion, beyond what chance gives


def grade_effect(value: float, thresholds: Sequence[float]) -> str:
    """Return the grade of an effect; each threshold is the smallest value of the next grade."""
    return GRADES[int(np.searchsorted(thresholds, value, side="right"))]


def label_text(
    label: str, low: tuple[str, float], high: tuple[str, float], chance: float, p_value: float, n: int
) -> str:
    """Describe a label shift by the class whose proportion varies most, and its lowest and highest proportion."""
    evidence = f"where chance alone gives about {chance:.0f} (p = {p_value:.2g}, n = {n})"
    if low[1] == high[1]:
        return f"class proportions are the same in every domain, 0 points apart, {evidence}"
    return (
        f"class {label} makes up {100 * low[1]:.0f}% of {low[0]} and {100 * high[1]:.0f}% of {high[0]}, "
        f"{100 * (high[1] - low[1]):.0f} points apart, {evidence}"
    )


def share_text(key: str, share: float, p_value: float, n: int) -> str:
    """Describe the size of a shift of features."""
    where = {"conditional": "within classes, ", "prior_normalized": "with class proportions made equal, "}.get(key, "")
    return f"{where}domains explain {format_percent(share)} of the kernel variance (p = {p_value:.2g}, n = {n})"


COMPARE_ADVICE = (
    "Whether an invariant method helps is for compare to decide: it scores plain and invariant methods on held-out "
    "domains."
)


def interpret_tests(diagnosis: Diagnosis) -> list[str]:
    """Return sentences that interpret the tests together and name the next step."""
    label, covariate, conditional, common = diagnosis.tests
    if conditional.p_value is None:
        return [
            "No class was found in two domains, so the effects of class and of domain cannot be told apart: whether "
            "P(X|Y) moves cannot be tested. Making the domains alike would make the classes alike. Collect each class "
            "in several domains."
        ]
    is_detected_in_class = any(test.flagged for test in diagnosis.class_tests)
    if not is_detected_in_class and not any(test.flagged for test in diagnosis.tests):
        return [
            f"No shift detected in P(Y), P(X) or P(X|Y). That does not prove that there is none: {diagnosis.n_used} "
            "samples may be too few to reveal a small one.",
            COMPARE_ADVICE,
        ]
    detected = _detection_text(diagnosis.tests[:3])
    if conditional.flagged:
        return [
            f"{detected} {_within_class_text(label, covariate, conditional)}",
            *_class_texts(diagnosis),
            COMPARE_ADVICE,
        ]
    if common.flagged or is_detected_in_class:
        return [f"{detected} There are weak signs of a shift within classes.", *_class_texts(diagnosis), COMPARE_ADVICE]
    return [f"{detected} {_no_within_class_text(label, diagnosis.n_used)}", COMPARE_ADVICE]


def _detection_text(tests: Sequence[Shift]) -> str:
    """Return a sentence on the detected shifts, the largest first, and on those that are not detected."""
    sentences = []
    sizes = []
    for size in reversed(GRADES):
        names = [test.name for test in tests if test.flagged and test.effect_label == size]
        if names:
            sizes.append(f"a {size} shift of {_join_names(names, 'and')}")
    if sizes:
        sentences.append(f"Detected: {', '.join(sizes)}.")
    not_detected = [test.name for test in tests if not test.flagged]
    if not_detected:
        sentences.append(f"Not detected: a shift of {_join_names(not_detected, 'or')}.")
    return " ".join(sentences)


def _grade_number(test: Shift) -> int:
    """Return the number of the grade of a shift, or -1 if it is not detected."""
    return GRADES.index(test.effect_label) if test.flagged else -1


def _within_class_text(label: Shift, covariate: Shift, conditional: Shift) -> str:
    """Interpret a shift within classes, given its size and that of P(Y)."""
    if not _grade_number(conditional):
        return "The shift within classes is negligible in size: enough samples reveal any difference."
    observed = "Samples of one class differ between domains."
    if _grade_number(label) > 0:
        return f"{observed} So do class proportions: {_prior_change_text(label)}."
    if not covariate.flagged:
        return f"{observed} The features as a whole do not: methods that match P(X) alone (DICA, SCA) do not see it."
    return f"{observed} Class proportions look alike, as centering each new batch on its mean assumes."


def _prior_change_text(label: Shift) -> str:
    """Describe the effect of changed class proportions on methods that do not use classes."""
    return (
        f"methods that match P(X) alone (DICA, SCA), and centering each new batch on its mean, can mistake this "
        f"{label.effect_label} change for a shift of features"
    )


def _class_texts(diagnosis: Diagnosis) -> Iterator[str]:
    """Describe the shift that classes have in common, and the classes that shift."""
    conditional, common = diagnosis.tests[2:]
    if common.flagged:
        yield f"A shift that the classes have in common is detected, {common.effect_label} in size."
    elif conditional.flagged:
        yield "No shift that the classes have in common is detected; they move in different ways."
    if conditional.flagged or any(test.flagged for test in diagnosis.class_tests):
        yield from _class_sentences(diagnosis.class_tests)


def _no_within_class_text(label: Shift, n: int) -> str:
    if _grade_number(label) > 0:
        return f"Class proportions differ between domains, samples of one class do not: {_prior_change_text(label)}."
    if label.flagged:
        return "The change of class proportions is negligible in size."
    return (
        f"P(X) cannot move unless P(Y) or P(X|Y) does, so this is a false alarm or {n} samples are too few to say "
        "which of them does."
    )


def _class_sentences(tests: Sequence[ClassShift]) -> Iterator[str]:
    shifted = [test.label for test in tests if test.flagged]
    stable = [test.label for test in tests if test.p_adjusted is not None and not test.flagged]
    if shifted and stable:
        yield f"The shift is detected in {_format_names('class', shifted)}, not in {_format_names('class', stable)}."
    elif shifted:
        yield f"The shift is detected in every class{' that can be tested' if len(shifted) < len(tests) else ''}."
    else:
        yield "It is detected in the classes together, not in any one of them after correction for testing them all."


def outlier_text(diagnosis: Diagnosis) -> str:
    """Return a sentence on the outlier domain and on the rule that defines it."""
    by_class = np.isfinite(diagnosis.conditional_distances).all()
    kind = NAMES["conditional" if by_class else "covariate"]
    if len(diagnosis.domains) < 3:
        return "With two domains, neither can be called the odd one out."
    rule = (
        f"every distance of {kind} from it exceeds {OUTLIER_GAP:g} times the largest distance between the others, "
        "in both halves of the samples too"
    )
    if diagnosis.outlier_domain is None:
        return f"No domain stands apart from the others (rule: a shift of {kind} is detected, and {rule})."
    return f"Odd one out: {diagnosis.outlier_domain}. A shift of {kind} is detected, and {rule}."


def limitation_texts(diagnosis: Diagnosis) -> Iterator[str]:
    """Return sentences on the limitations of the tests."""
    if diagnosis.n_used < diagnosis.n_samples:
        yield f"The tests of features use a random subsample of {diagnosis.n_used} of {diagnosis.n_samples} samples."
    absent = []
    for label, counts in zip(diagnosis.classes, diagnosis.counts.T, strict=True):
        domains = [str(diagnosis.domains[s]) for s in np.flatnonzero(counts == 0)]
        if domains:
            absent.append(f"class {label} in {_join_names(_shorten(domains), 'and')}")
    if absent:
        yield f"No samples of {_join_names(_shorten(absent), 'and of')}: an absent cell counts as no shift."
    untested = [test.label for test in diagnosis.class_tests if test.p_value is None]
    if untested:
        yield f"Not testable, as found in fewer than two domains: {_format_names('class', untested)}."
    n_tested = len(diagnosis.class_tests) - len(untested)
    n_permutations = diagnosis.n_permutations
    alpha = diagnosis.alpha
    if max(n_tested, 1) / (n_permutations + 1) > alpha:
        subject = "no test can" if 1 / (n_permutations + 1) > alpha else f"no single one of {n_tested} classes can"
        n_needed = int(np.ceil(max(n_tested, 1) / alpha)) - 1
        yield (
            f"With {n_permutations} permutations {subject} reach a p-value of {alpha:g}; it takes at least {n_needed} "
            "permutations."
        )


def summary_text(summary: dict[str, Any]) -> str:
    """Return the diagnosis as a text of several lines."""
    head = (
        f"{len(summary['domains'])} domains, {len(summary['classes'])} classes, {summary['n_samples']} samples; "
        f"{summary['n_permutations']} permutations, level {summary['alpha']:g}"
    )
    width = max(len(test["name"]) for test in summary["tests"])
    tests = [f"{test['name']:<{width}}  {_detection_word(test)}: {test['effect_text']}" for test in summary["tests"]]
    remarks = [*summary["reading"], summary["outlier_text"], *(f"Note: {notice}" for notice in summary["notices"])]
    lines = [_wrap(test, " " * (width + 2)) for test in tests]
    sentences = (summary.get("columns") or {}).get("sentences", [])
    numbered = [_wrap(f"{i}. {sentence}", "   ") for i, sentence in enumerate(sentences, 1)]
    columns = ["", "Columns, the most important first:", *numbered, ""] if numbered else []
    return "\n".join([head, *columns, *lines, "", *(_wrap(remark, "  ") for remark in remarks)])


def _detection_word(test: dict[str, Any]) -> str:
    if test["p_value"] is None:
        return str(test["effect_label"])
    return f"{'' if test['flagged'] else 'no '}shift detected, {test['effect_label']}"


def _wrap(text: str, indent: str) -> str:
    joined = text.replace(" = ", "\xa0=\xa0")  # "p = 0.002" stays on one line
    return textwrap.fill(joined, width=110, subsequent_indent=indent, break_long_words=False).replace("\xa0", " ")


def _format_names(noun: str, labels: Iterable[Any]) -> str:
    """Return the labels, or the first five and the number of the rest."""
    names = [str(label) for label in labels]
    if len(names) == 1:
        return f"{noun} {names[0]}"
    return f"{noun}es {_join_names(_shorten(names), 'and')}"


def _shorten(names: list[str]) -> list[str]:
    return [*names[:5], f"{len(names) - 5} more"] if len(names) > 6 else names


def _join_names(names: Sequence[str], word: str) -> str:
    """Return the names with commas between them, and a word before the last one."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} {word} {names[-1]}"
