"""The parts of the engine: what is asked, and what is made of answers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from evaluation_sample import NAMES, SAMPLES, SPLITS, D, X, own
from unseen import DomainCenterer
from unseen.kernels import _nystroem as _plan
from unseen.model_selection import EvaluationConfig, evaluate_candidates
from unseen.model_selection import _evaluation as _asking
from unseen.model_selection._evaluation import (
    SMALLEST_PROBABILITY,
    Prediction,
    PreparedSplits,
    decision_scores,
    encode_predictions,
    tabulate_candidates,
)
from unseen.model_selection._scoring import Scorer, best_index

# What is asked

# A metric, and whether decision scores are requested instead of what it needs.
REQUESTS = [("accuracy", True), ("accuracy", False), ("roc_auc", False)]


def test_votes_are_decisions_or_logarithms_of_probabilities_or_labels():
    classes = np.unique(SAMPLES.y)
    linear = LogisticRegression().fit(X, SAMPLES.y)
    np.testing.assert_allclose(decision_scores(linear, X, None, classes), linear.decision_function(X))
    bayes = GaussianNB().fit(X, SAMPLES.y)
    np.testing.assert_allclose(
        decision_scores(bayes, X, None, classes), np.log(np.maximum(bayes.predict_proba(X), SMALLEST_PROBABILITY))
    )
    assert decision_scores(bayes, 1e3 * X, None, classes).min() == np.log(SMALLEST_PROBABILITY)

    class Labels(ClassifierMixin, BaseEstimator):
        classes_ = classes

        def predict(self, X):
            return np.array(["well", "ill", "so so"])[np.arange(len(X)) % 3]

    np.testing.assert_array_equal(decision_scores(Labels(), X[:3], None, classes), np.eye(3)[[2, 0, 1]])
    np.testing.assert_array_equal(decision_scores(Labels(), X[:3], np.array([1, 1, 0]), classes), np.eye(3)[[1, 1, 0]])


def test_votes_of_two_classes_differ_by_the_decision_and_unknown_classes_have_none():
    known = SAMPLES.y != "so so"
    model = LogisticRegression().fit(X[known], SAMPLES.y[known])
    found = decision_scores(model, X, None, SAMPLES.classes)
    np.testing.assert_allclose(found[:, 2] - found[:, 0], model.decision_function(X))
    np.testing.assert_allclose(found[:, 2] + found[:, 0], 0, atol=1e-12)
    assert (found[:, 1] == -np.inf).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_decisions_that_are_no_numbers_are_no_votes(value):
    class Lost(ClassifierMixin, BaseEstimator):
        classes_ = SAMPLES.classes

        def decision_function(self, X):
            return np.full((len(X), 3), value)

    with pytest.raises(ValueError, match="decision values of the classifier contain NaN"):
        decision_scores(Lost(), X, None, SAMPLES.classes)


def test_labels_become_codes_and_anything_else_is_refused():
    assert encode_predictions(["well", "ill", "so so"], NAMES, 3).tolist() == [2, 0, 1]
    for labels, n, reason in ((["ill"], 2, "got 1 labels."), (["zzz", "ill"], 2, "such as 'zzz'"), (["a"], 1, "'a'")):
        with pytest.raises(ValueError, match=reason):
            encode_predictions(labels, NAMES, n)


# What is made of answers


def prediction(codes, split=0, **more):
    return Prediction(0, split, None if codes is None else np.asarray(codes), **more)


def test_a_part_whose_samples_have_no_weight_has_no_score():
    scorer = Scorer("accuracy", replace(SAMPLES, weight=(D != 1).astype(float)), SPLITS)
    assert scorer.undefined_reason(0) == ""
    assert scorer.undefined_reason(1) == "its samples have no weight"
    assert np.isnan(scorer(prediction(SAMPLES.codes[SPLITS[1][1]], split=1)))
    assert scorer.undefined_reason(1) is scorer.undefined_reason(1)


def results(means, components=None, ridge=None, weight=None):
    even = np.zeros(len(means))
    return {
        "mean_test_score": np.array(means),
        "mean_n_components": even if components is None else np.array(components),
        "mean_ridge": even if ridge is None else np.array(ridge),
        "mean_invariance_weight": even if weight is None else np.array(weight),
    }


def test_of_equals_the_simplest_is_preferred():
    assert best_index(results([0.5, 0.9, 0.7])) == 1
    assert best_index(results([0.9, 0.9 + 1e-13, 0.7])) == 0  # rounding is no difference
    assert best_index(results([0.9, 0.9 + 1e-11, 0.7])) == 1
    assert best_index(results([0.9, 0.9], components=[3, 2], ridge=[5, 1])) == 1
    assert best_index(results([0.9, 0.9], components=[2, 2], ridge=[1, 5], weight=[9, 0])) == 1
    assert best_index(results([0.9, 0.9], ridge=[5, 5], weight=[1, 2])) == 1
    assert best_index(results([0.9, 0.5, 0.7]), among=[1, 2]) == 2
    assert best_index(results([np.nan, 0.5])) == 1
    assert best_index(results([0.9, np.nan, np.nan]), among=[2, 1]) == 2  # all failed: the first


def test_parts_without_a_score_are_told_once_and_none_but_such_are_an_error():
    one_class = [(np.arange(len(X)), np.flatnonzero(SAMPLES.y == "ill")), SPLITS[0]]
    with pytest.warns(
        UndefinedMetricWarning,
        match=r"roc_auc is not defined on 1 of 2 held-out parts, .* 'a', 'b', 'c'; reason",
    ):
        found = tabulate_candidates([own(GaussianNB())], SAMPLES, one_class, EvaluationConfig(scoring="roc_auc"))
    assert found["defined"].tolist() == [False, True]
    assert found["mean_test_score"][0] == found["scores"][0, 1]
    with pytest.raises(ValueError, match="roc_auc is not defined on 1 of 1 held-out parts"):
        tabulate_candidates([own(GaussianNB())], SAMPLES, one_class[:1], EvaluationConfig(scoring="roc_auc"))
    with pytest.raises(ValueError, match=r"The score is not defined on 1 of 1 .*it is NaN for all models"):
        tabulate_candidates(
            [own(GaussianNB())], SAMPLES, SPLITS[:1], EvaluationConfig(scoring=lambda model, X, y: np.nan)
        )
    Scorer("roc_auc", SAMPLES, SPLITS).warn_undefined(np.ones(len(SPLITS), dtype=bool))


# Splits that train on the same rows are one piece of work

ALIKE = [(SPLITS[0][0], SPLITS[0][1][part]) for part in (slice(None), slice(0, 9), slice(9, None, 2))]


@pytest.mark.parametrize("transformer", [None, DomainCenterer()])
@pytest.mark.parametrize(("scoring", "requested"), REQUESTS)
def test_splits_that_train_alike_get_answers_of_their_own_rows(scoring, requested, transformer):
    candidate = own(GaussianNB(), transformer)
    together = list(
        evaluate_candidates(
            [candidate], SAMPLES, ALIKE, EvaluationConfig(scoring=scoring), with_decision_scores=requested
        )
    )
    assert len(together) == len(ALIKE)
    for one in together:
        (alone,) = evaluate_candidates(
            [candidate], SAMPLES, [ALIKE[one.split]], EvaluationConfig(scoring=scoring), with_decision_scores=requested
        )
        np.testing.assert_array_equal(one.codes, alone.codes)
        assert one.responses.keys() == alone.responses.keys()
        for name, value in one.responses.items():
            assert np.shape(value) == np.shape(alone.responses[name])
            assert name == "classes_" or np.allclose(value, alone.responses[name])


class Asked(GaussianNB):
    """Counts the rows that it is asked about."""

    seen: list[int] = []  # noqa: RUF012

    def predict(self, X):
        self.seen.append(len(X))
        return super().predict(X)


def test_a_classifier_predicts_each_part_by_itself():
    Asked.seen.clear()
    list(evaluate_candidates([own(Asked())], SAMPLES, ALIKE, EvaluationConfig()))
    assert Asked.seen == [24, 9, 8]
    Asked.seen.clear()
    list(
        evaluate_candidates([own(Asked())], SAMPLES, ALIKE, EvaluationConfig(scoring=lambda model, X, y: float(len(X))))
    )
    assert Asked.seen == [24, 9, 8]  # a scorer gets the classifier and what it sees


def costs(candidates, samples, splits, **how):
    """Seconds to fit and to predict, of each prediction; none has failed."""
    found = list(evaluate_candidates(candidates, samples, splits, EvaluationConfig(), **how))
    assert {one.error for one in found} == {""}
    return {(one.candidate, one.split): (one.fit_seconds, one.predict_seconds) for one in found}


def ticking(monkeypatch):
    """A clock that is one second later whenever somebody looks."""
    ticks = itertools.count()
    monkeypatch.setattr(_asking, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))


def test_what_is_shared_is_shared_in_costs(monkeypatch):
    ticking(monkeypatch)
    two = [own(GaussianNB()), own(GaussianNB(var_smoothing=1e-3))]
    # A second for the features of each, one to fit each, for all splits; one to predict each split.
    pairs = list(itertools.product(range(2), range(3)))
    assert costs(two, SAMPLES, ALIKE) == dict.fromkeys(pairs, pytest.approx(((1 + 1) / 3, 1)))
    once = costs(two, SAMPLES, ALIKE, resampled=frozenset({1, 2}))
    assert once == {(0, 0): pytest.approx((2, 1)), (1, 0): pytest.approx((2, 1))}
    moving = costs(
        [own(GaussianNB(), DomainCenterer())], SAMPLES, ALIKE, with_decision_scores=True, resampled=frozenset({0, 1, 2})
    )
    assert moving == dict.fromkeys(pairs[:3], pytest.approx((2, 1)))


class Contrary(GaussianNB):
    """Predicts what it thinks least likely."""

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmin(axis=1)]


def test_codes_are_predictions_even_if_the_votes_say_otherwise():
    train, test = SPLITS[0]
    (one,) = evaluate_candidates([own(Contrary())], SAMPLES, SPLITS[:1], EvaluationConfig(), with_decision_scores=True)
    np.testing.assert_array_equal(NAMES[one.codes], Contrary().fit(X[train], SAMPLES.y[train]).predict(X[test]))
    assert (one.responses["decision_scores"].argmax(axis=1) != one.codes).all()


def test_distances_are_refused_where_two_matrices_of_training_samples_do_not_fit(monkeypatch):
    train, _ = SPLITS[0]
    need = 2 * 8 * len(train) ** 2
    monkeypatch.setattr(_plan, "available_bytes", lambda: need)
    assert len(PreparedSplits.from_splits(SAMPLES, {0: SPLITS[0]}).distances) == 2
    monkeypatch.setattr(_plan, "available_bytes", lambda: need - 1)
    with pytest.raises(MemoryError, match=r"An rbf SVM .* needs 2 matrices"):
        PreparedSplits.from_splits(SAMPLES, {0: SPLITS[0]}).distances  # noqa: B018


@pytest.mark.parametrize("forest", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("n_rows", [1, 40])
def test_scores_of_a_forest_do_not_depend_on_the_number_of_rows(forest, n_rows):
    """Few rows are passed through the trees directly, without their threads."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.array(["a", "b", "c"])[rng.integers(3, size=60)]
    model = forest(10, random_state=0).fit(X, y)
    scores = decision_scores(model, X[:n_rows], None, np.array(["a", "b", "c", "d"]))
    np.testing.assert_allclose(np.exp(scores[:, :3]), np.maximum(model.predict_proba(X[:n_rows]), 1e-30), rtol=1e-12)
    assert (scores[:, 3] == -np.inf).all()
