"""Diagnosis: what the tests found, as attributes, words, a plain dictionary, a table, a figure and a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..algebra import Array, Ints
from ..citizen import optional_import
from ..labels import Labels
from ..report import draw_diagnosis, render_diagnosis
from . import _words

# What a summary tells of a test, of any kind and of one class.
TOLD = ("name", "key", "statistic", "p_value", "effect", "effect_label", "effect_text", "flagged", "question")
TOLD_OF_CLASSES = ("p_value", "p_adjusted", "effect", "flagged")


@dataclass(frozen=True)
class Shift:
    """One kind of shift: its test and its size.

    Attributes
    ----------
    key : str
        "label", "covariate", "conditional" or "prior_normalised".
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
    odd_one_out : object or None
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
    odd_one_out: Any
    assumed: tuple[str, ...] = ()

    @cached_property
    def notices(self) -> tuple[str, ...]:
        """What else a reader should know, such as cells without samples."""
        return (*self.assumed, *_words.limits(self))

    @cached_property
    def reading(self) -> list[str]:
        """What the tests say together, and which methods fit, in sentences."""
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
            "tests": [{name: getattr(test, name) for name in TOLD} for test in self.tests],
            "classes_tests": [
                {"class": str(test.label), **{name: getattr(test, name) for name in TOLD_OF_CLASSES}}
                for test in self.class_tests
            ],
            "distances": {
                kind: np.where(np.isfinite(found), found, np.array(None)).tolist()  # JSON knows no NaN
                for kind, found in (("marginal", self.marginal_distances), ("conditional", self.conditional_distances))
            },
            "odd_one_out": None if self.odd_one_out is None else str(self.odd_one_out),
            "odd_text": _words.odd_text(self),
            "reading": list(self.reading),
            "notices": list(self.notices),
        }

    def __str__(self) -> str:
        return _words.account(self.summary())

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
