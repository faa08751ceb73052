"""Which of several models is picked: the best, unless a simpler kind is as good within a standard error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen import CIDG
from unseen.model_selection import Candidate, CandidateResult, select_result
from unseen.model_selection._scoring import standard_error


def contender(kind, *scores):
    """A contender by its kind or, for the rbf SVM, by its name."""
    name, kind = (kind, "plain") if kind == "RBF SVM" else (f"{kind} {scores}", kind)
    transformer = CIDG(centering="target") if kind == "transductive" else None
    return CandidateResult(Candidate(name, {}, transformer, None, plain=kind == "plain"), np.array(scores))


CHOICES = {
    "the best of one kind": ([("plain", 0.7, 0.7), ("plain", 0.8, 0.8)], 1),
    "a clear advantage wins": ([("plain", 0.6, 0.7, 0.8), ("inductive", 0.8, 0.9, 1.0)], 1),
    "differences are paired: a small but steady advantage wins": (
        [("plain", 0.1, 0.5, 0.9), ("transductive", 0.12, 0.52, 0.92)],
        1,
    ),
    "an advantage on one domain alone is within one standard error": (
        [("plain", 0.8, 0.8, 0.8, 0.4), ("inductive", 0.8, 0.8, 0.8, 0.9)],
        0,
    ),
    "within one standard error the simpler wins": ([("plain", 0.9, 0.5), ("inductive", 0.7, 0.8)], 0),
    "the simplest kind that is good enough": (
        [("plain", 0.1, 0.2, 0.1), ("inductive", 0.9, 0.5, 0.7), ("transductive", 0.7, 0.8, 0.7)],
        1,
    ),
    "plain before inductive": (
        [("inductive", 0.9, 0.5), ("plain", 0.5, 0.9), ("transductive", 0.75, 0.75)],
        1,
    ),
    "the best of the simpler kind stands for it": (
        [("plain", 0.1, 0.1), ("plain", 0.8, 0.6), ("inductive", 0.6, 0.9)],
        1,
    ),
    "of equals the simpler": ([("transductive", 0.8, 0.8), ("plain", 0.8, 0.8), ("inductive", 0.8, 0.8)], 1),
    "of equals of one kind the first": ([("plain", 0.8, 0.8), ("plain", 0.8, 0.8)], 0),
    "one split has no standard error: the best wins": ([("plain", 0.8), ("transductive", 0.81)], 1),
    "one split and a tie": ([("transductive", 0.8), ("inductive", 0.8)], 1),
    "the rbf SVM stands for linear models that are hardly better": (
        [("plain", 0.9, 0.5, 0.7), ("RBF SVM", 0.6, 0.7, 0.7)],
        1,
    ),
    "but not for those that are clearly better": ([("plain", 0.8, 0.8, 0.9), ("RBF SVM", 0.7, 0.7, 0.7)], 0),
    "the rbf SVM wins for all plain models, too": (
        [("plain", 0.9, 0.5, 0.7), ("RBF SVM", 0.6, 0.7, 0.7), ("transductive", 0.7, 0.8, 0.7)],
        1,
    ),
    "what could not be scored is left out": (
        [("plain", np.nan, 1.0), ("transductive", 0.2, 0.3), ("inductive", np.nan, np.nan)],
        1,
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_rule_of_choice(case):
    field, expected = CHOICES[case]
    field = [contender(*entry) for entry in field]
    assert select_result(field) is field[expected]


def test_nothing_to_choose_from_is_an_error():
    with pytest.raises(ValueError, match="No model has a score on every held-out part"):
        select_result([contender("plain", np.nan, 1.0)])


@given(st.integers(1, 5).flatmap(lambda k: st.lists(st.lists(st.integers(0, 20), min_size=k, max_size=k), min_size=1)))
def test_what_is_chosen_is_never_worse_than_the_best_by_more_than_a_standard_error(table):
    kinds = ["plain", "inductive", "transductive"]
    field = [contender(kinds[i % 3], *(np.array(scores) / 20)) for i, scores in enumerate(table)]
    chosen, best = select_result(field), max(field, key=lambda c: c.mean)
    assert kinds.index(chosen.candidate.kind) <= max(
        kinds.index(c.candidate.kind) for c in field if c.mean == best.mean
    )
    assert chosen.mean == max(c.mean for c in field if c.candidate.kind == chosen.candidate.kind)
    if chosen.mean < best.mean:
        loss = best.mean - chosen.mean
        equals = [c for c in field if c.mean == best.mean]
        assert any(loss <= standard_error(c.scores - chosen.scores) + 1e-12 for c in equals)
