"""What the numbers of a diagnosis mean, in words that a statistician would sign."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..algebra import Ints
from ..labels import Labels
from ._distances import GAP

if TYPE_CHECKING:
    from ._diagnosis import ClassShift, Diagnosis

NAMES = {
    "label": "P(Y)",
    "covariate": "P(X)",
    "conditional": "P(X|Y)",
    "prior_normalised": "P(X), priors equal",
}
QUESTIONS = {
    "label": "Do class proportions differ between domains?",
    "covariate": "Do the features differ between domains, whatever the class?",
    "conditional": "Do samples of one class differ between domains?",
    "prior_normalised": "Do the features still differ after class proportions were made equal?",
}
GRADES = ("negligible", "small", "moderate", "large")
SHARES = (0.01, 0.06, 0.14)  # of variance explained: Cohen's conventions
POINTS = (5.0, 15.0, 30.0)  # of a class proportion, beyond what chance gives


def grade(value: float, thresholds: Sequence[float]) -> str:
    """Name a size: each threshold is the least value of the next grade."""
    return GRADES[int(np.searchsorted(thresholds, value, side="right"))]


def label_text(
    label: str, low: tuple[str, float], high: tuple[str, float], chance: float, p_value: float, n: int
) -> str:
    """Size of a label shift: the class whose proportion varies most, and the domains where it is least and most."""
    evidence = f"where chance alone gives about {chance:.0f} (p = {p_value:.2g}, n = {n})"
    if low[1] == high[1]:
        return f"class proportions are the same in every domain, 0 points apart, {evidence}"
    return (
        f"class {label} makes up {100 * low[1]:.0f}% of {low[0]} and {100 * high[1]:.0f}% of {high[0]}, "
        f"{100 * (high[1] - low[1]):.0f} points apart, {evidence}"
    )


def share_text(key: str, share: float, p_value: float, n: int) -> str:
    """Size of a shift of features."""
    where = {
        "covariate": "",
        "conditional": "within classes, ",
        "prior_normalised": "with class proportions made equal, ",
    }[key]
    return f"{where}domains explain {percent(share)} of the kernel variance (p = {p_value:.2g}, n = {n})"


def reading(diagnosis: Diagnosis) -> list[str]:
    """Say what the tests mean together, and which methods fit."""
    label, covariate, conditional, common = diagnosis.tests
    if conditional.p_value is None:
        return [
            "No class was found in two domains, so the effects of class and of domain cannot be told apart: whether "
            "P(X|Y) moves cannot be tested. Making the domains alike would make the classes alike. Collect each class "
            "in several domains."
        ]
    moving = conditional.flagged or common.flagged or any(test.flagged for test in diagnosis.class_tests)
    if not moving:
        return [_nothing_within(label.flagged, covariate.flagged, diagnosis.n_used)]
    sentences = [_shift_within(label.flagged, covariate.flagged)]
    if common.flagged:
        sentences.append(
            "A shift that the classes have in common is detected: CIDG's prior_weight acts on it, on top of its "
            "conditional_weight."
        )
    else:
        sentences.append(
            "No shift that the classes have in common is detected; they move in different ways. In CIDG, the "
            "conditional_weight is the one that acts on that."
        )
    sentences += _classes(diagnosis.class_tests)
    if label.flagged and GRADES.index(label.effect_label) < GRADES.index(conditional.effect_label):
        sentences.append(
            f"The change of P(Y) is {label.effect_label}, that of P(X|Y) {conditional.effect_label}: target centring "
            "may pay all the same, where batches of the new domain are at hand."
        )
    if {conditional.effect_label, common.effect_label} == {"negligible"}:
        sentences.append(
            "The shift within classes is detected, but negligible in size: enough samples reveal any difference. "
            "Expect little from invariance."
        )
    sentences.append("Score a plain classifier on held-out domains beside any invariant method.")
    return sentences


def _nothing_within(label: bool, covariate: bool, n: int) -> str:
    if label:
        start = "P(Y) moves, and P(X) with it" if covariate else "Only P(Y) is seen to move"
        return (
            f"{start}; no shift is detected within classes, so there is nothing to make invariant. Methods that match "
            "P(X) across domains (DICA, SCA) and target centring are misled by changed class proportions. Prefer a "
            "plain classifier, or CIDG with source centring, which compares each class with itself."
        )
    if covariate:
        return (
            "P(X) moves, but no shift of P(Y) or of P(X|Y) is detected. P(X) cannot move unless one of them does, so "
            f"this is a false alarm or {n} samples are too few to say which. Compare a plain classifier with an "
            "invariant one on held-out domains."
        )
    return (
        "No shift detected in P(Y), P(X) or P(X|Y): a plain classifier is the one to beat. That does not prove that "
        f"there is none; {n} samples may be too few to reveal a small one."
    )


def _shift_within(label: bool, covariate: bool) -> str:
    if label:
        return (
            f"{'Everything moves: P(Y), P(X) and P(X|Y)' if covariate else 'P(Y) and P(X|Y) move'}. Methods that match "
            "P(X) alone (DICA, SCA), and target centring, can mistake changed class proportions for a shift of the "
            "features; CIDG and MDA compare each class with itself and are made for this."
        )
    hidden = (
        "" if covariate else " No shift of P(X) is detected: methods that look at P(X) alone may see nothing to remove."
    )
    return (
        "P(X|Y) moves while no shift of P(Y) is detected. Methods that match P(X) alone (DICA, SCA) may align the "
        f"wrong things; CIDG and MDA compare each class with itself and are made for this.{hidden} As class "
        "proportions look alike, target centring is worth a try where batches of the new domain are at hand."
    )


def _classes(tests: Sequence[ClassShift]) -> Iterator[str]:
    moved = [test.label for test in tests if test.flagged]
    still = [test.label for test in tests if test.p_adjusted is not None and not test.flagged]
    if moved and still:
        yield f"The shift is detected in {_listed('class', moved)}, not in {_listed('class', still)}."
    elif moved:
        yield f"The shift is detected in every class{' that can be tested' if len(moved) < len(tests) else ''}."
    else:
        yield "It is detected in the classes together, not in any one of them after correction for testing them all."


def odd_text(diagnosis: Diagnosis) -> str:
    """Say which domain stands apart, and by which rule."""
    by_class = np.isfinite(diagnosis.conditional_distances).all()
    kind = NAMES["conditional" if by_class else "covariate"]
    if len(diagnosis.domains) < 3:
        return "With two domains, neither can be called the odd one out."
    rule = (
        f"every distance of {kind} from it exceeds {GAP:g} times the largest distance between the others, "
        "in both halves of the samples too"
    )
    if diagnosis.odd_one_out is None:
        return f"No domain stands apart from the others (rule: a shift of {kind} is detected, and {rule})."
    return f"Odd one out: {diagnosis.odd_one_out}. A shift of {kind} is detected, and {rule}."


def notices(
    counts: Ints,
    classes: Labels,
    domains: Labels,
    n_used: int,
    class_tests: Sequence[ClassShift],
    n_permutations: int,
    alpha: float,
) -> Iterator[str]:
    """What limits the tests."""
    n = int(counts.sum())
    if n_used < n:
        yield f"The tests of features use a random subsample of {n_used} of {n} samples; raise max_per_domain for more."
    absent = [f"{classes[j]} in {domains[s]}" for s, j in np.argwhere(counts == 0)]
    if absent:
        yield f"No samples of {_listed('class', absent)}: an absent cell counts as no shift."
    untested = [test.label for test in class_tests if test.p_value is None]
    if untested:
        yield f"Not testable, as found in fewer than two domains: {_listed('class', untested)}."
    tested = len(class_tests) - len(untested)
    if max(tested, 1) / (n_permutations + 1) > alpha:
        what = "no test can" if 1 / (n_permutations + 1) > alpha else f"no single one of {tested} classes can"
        yield (
            f"With {n_permutations} permutations {what} reach a p-value of {alpha:g}; raise n_permutations to at least "
            f"{int(np.ceil(max(tested, 1) / alpha)) - 1}."
        )


def account(summary: dict[str, Any]) -> str:
    """Tell the whole diagnosis in a few lines."""
    head = (
        f"{len(summary['domains'])} domains, {len(summary['classes'])} classes, {summary['n_samples']} samples; "
        f"{summary['n_permutations']} permutations, level {summary['alpha']:g}"
    )
    width = max(len(test["name"]) for test in summary["tests"])
    tests = [f"{test['name']:<{width}}  {_verdict(test)}: {test['effect_text']}" for test in summary["tests"]]
    remarks = [*summary["reading"], summary["odd_text"], *(f"Note: {notice}" for notice in summary["notices"])]
    lines = [_filled(test, " " * (width + 2)) for test in tests]
    return "\n".join([head, *lines, "", *(_filled(remark, "  ") for remark in remarks)])


def _verdict(test: dict[str, Any]) -> str:
    if test["p_value"] is None:
        return str(test["effect_label"])
    return f"{'' if test['flagged'] else 'no '}shift detected, {test['effect_label']}"


def _filled(text: str, indent: str) -> str:
    joined = text.replace(" = ", "\xa0=\xa0")  # "p = 0.002" stays on one line
    return textwrap.fill(joined, width=110, subsequent_indent=indent, break_long_words=False).replace("\xa0", " ")


def _listed(noun: str, labels: Iterable[Any]) -> str:
    """Name a few labels, count the rest."""
    names = [str(label) for label in labels]
    if len(names) == 1:
        return f"{noun} {names[0]}"
    if len(names) > 6:
        names = [*names[:5], f"{len(names) - 5} more"]
    return f"{noun}es {', '.join(names[:-1])} and {names[-1]}"


def percent(share: float) -> str:
    """A share from 0 to 1, in per cent."""
    if 0 < share < 0.0005:
        return "less than 0.1%"
    return f"{100 * share:.0f}%" if share >= 0.0995 or share == 0 else f"{100 * share:.1f}%"
