"""Metrics by their names, on parts that lack a class, and where they are not defined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    get_scorer,
    make_scorer,
    roc_auc_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from helpers import three_domains
from unseen import KFDA, ProjectionSearchCV, UnseenClassifier
from unseen.model_selection import (
    METHODS,
    Candidate,
    EvaluationConfig,
    LeaveOneDomainOut,
    Scorer,
    evaluate_candidates,
    get_metric,
    method_names,
    metric_range,
    score_model,
    tabulate_scores,
)
from unseen.model_selection._scoring import SCORING_NAMES
from unseen.utils.samples import Samples

NAMES = ["accuracy", "balanced_accuracy", "macro F1", "AUC", "average_precision", "log_loss"]


def places(n_classes=3, lacking=2):
    """Four domains; the last lacks the classes from `lacking` on."""
    X, y, d = three_domains(n_per_cell=7, n_classes=n_classes, n_domains=4)
    kept = (d != 3) | (y < lacking)
    return 0.4 * X[kept], y[kept], d[kept]


def of(y, d, X):
    return Samples(X, y, d), list(LeaveOneDomainOut().split(X, y, d))


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_method_has_every_score_on_a_part_that_lacks_a_class(n_classes):
    X, y, d = places(n_classes)
    samples, splits = of(y, d, X)
    methods = [name for name in method_names(needs_feature_map=False, members=()) if not name.startswith("centered")]
    candidates = [next(METHODS[method].candidates(n_classes)) for method in methods]
    said = list(
        evaluate_candidates(candidates, samples, splits, EvaluationConfig(scoring="neg_log_loss"))
    )  # with all that metrics may need
    uncertain = [method in {"linear SVM", "RBF SVM", "Undo-Bias"} for method in methods]  # no probabilities
    for name in NAMES:
        scorer = Scorer(get_metric(name).scoring, samples, splits)
        table = tabulate_scores(said, scorer, len(candidates), len(splits))
        without = uncertain if name == "log_loss" else [False] * len(methods)
        assert np.isnan(table["mean_test_score"]).tolist() == without
        assert ["predict_proba" in error for error in table["errors"]] == without


@pytest.mark.parametrize("classifier", [LogisticRegression(), GaussianNB()], ids=["both", "probabilities"])
@pytest.mark.parametrize(
    ("scoring", "n_classes"),
    [
        ("roc_auc", 2),
        *((name, n) for name in ("roc_auc_ovr", "average_precision", "neg_log_loss") for n in (2, 3)),
        ("neg_brier_score", 2),
    ],
)
def test_with_all_classes_scores_are_those_of_scikit_learn(scoring, classifier, n_classes):
    X, y, d = places(n_classes, lacking=n_classes)
    samples, splits = of(y, d, X)
    candidate, score = Candidate("own", {}, None, classifier), Scorer(scoring, samples, splits)
    for prediction in evaluate_candidates([candidate], samples, splits, EvaluationConfig(scoring=scoring)):
        train, test = splits[prediction.split]
        model = clone(classifier).fit(X[train], y[train])
        assert score(prediction) == pytest.approx(get_scorer(scoring)(model, X[test], y[test]))


def test_decision_values_rank_where_there_are_no_probabilities():
    X, y, d = places(3, lacking=3)
    search = ProjectionSearchCV(KFDA(), {"ridge": ["scale"]}, classifier=SVC(), scoring="roc_auc_ovr")
    search.fit(X, y, sample_domain=d)
    decisions = search.decision_function(X)
    expected = np.mean([roc_auc_score(y == c, decisions[:, c]) for c in range(3)])
    assert search.score(X, y) == pytest.approx(expected)


def named_classes(y):
    return np.array(["healthy", "ill", "worse"])[y]


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted(SCORING_NAMES))
def test_every_metric_gives_text_labels_the_score_of_numbers_or_is_refused_with_the_reason(
    name, n_classes, monkeypatch
):
    monkeypatch.setitem(METHODS, "logistic", replace(METHODS["logistic"], ensemble_grid={"C": [0.01, 1.0]}))
    X, y, d = places(n_classes, lacking=n_classes)
    scores = []
    for labels in (y, named_classes(y)):
        model = UnseenClassifier(["logistic"], ensemble=False, scoring=name, cv=3)
        if n_classes == 3 and name in {"f1", "jaccard", "precision", "recall"}:
            with pytest.raises(ValueError, match=f"The metric '{name}' needs two classes; there are 3"):
                model.fit(X, labels, sample_domain=d)
            return
        model.fit(X, labels, sample_domain=d)
        scores.append((model.best_score_, model.score(X, labels)))
    assert np.isfinite(scores).all()
    assert scores[0] == pytest.approx(scores[1])


# One scorer for each way to score: labels, decision values, probabilities, and agreement of partitions.


@pytest.mark.parametrize(
    "scoring", ["roc_auc", "average_precision", make_scorer(roc_auc_score, response_method="decision_function")]
)
def test_a_part_without_a_score_is_left_out_for_all_models_alike(scoring):
    X, y, d = places(2, lacking=1)
    with pytest.warns(UndefinedMetricWarning) as caught:
        model = UnseenClassifier(["logistic", "linear SVM"], scoring=scoring).fit(X, y, sample_domain=d)
    told = [str(one.message) for one in caught]
    assert len(told) == 1
    assert "not defined on 1 of 4 held-out parts, with the domains '3'" in told[0]
    for row in model.leaderboard_:
        scores = [row.scores[name] for name in "012"]
        assert row.mean == pytest.approx(np.mean(scores))
        assert row.standard_error == pytest.approx(np.std(scores, ddof=1) / np.sqrt(3))
        assert np.isnan(row.scores["3"])


@pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score"])
def test_losses_of_probabilities_need_classes_that_were_trained_on(scoring):
    X, y, d = places(3, lacking=3)
    y[(d < 3) & (y == 2)] = 1  # which leaves the third class to the last domain
    with pytest.warns(
        UndefinedMetricWarning, match=rf"{scoring} is not defined on 1 of 4 .*'3'.* occur in the training data"
    ):
        model = UnseenClassifier(["logistic"], scoring=scoring).fit(X, y, sample_domain=d)
    assert np.isfinite(model.best_score_)


def test_a_metric_that_is_defined_nowhere_is_an_error():
    X, y, d = places(2, lacking=2)
    d = 2 * d + y  # each domain has one class
    with pytest.raises(ValueError, match=r"roc_auc is not defined on 8 of 8 held-out parts.* two classes.* Hold out"):
        UnseenClassifier(["logistic"], scoring="roc_auc").fit(X, y, sample_domain=d)


class Unfit(DummyClassifier):
    def fit(self, X, y):
        raise ValueError("unfit")


@pytest.mark.parametrize(
    ("scoring", "limits"),
    [
        ("accuracy", (0, 1)),
        ("AUC", (0, 1)),
        ("macro F1", (0, 1)),
        ("recall_weighted", (0, 1)),
        ("matthews_corrcoef", (-1, 1)),
        ("log_loss", (-np.inf, 0)),
        ("neg_brier_score", (-2, 0)),
        (lambda model, X, y: 7.0, (-np.inf, np.inf)),
    ],
)
def test_a_metric_has_a_range_by_name_and_as_a_callable(scoring, limits):
    assert metric_range(scoring) == limits


@pytest.mark.parametrize("name", sorted(SCORING_NAMES))
def test_every_metric_keeps_its_range(name):
    low, high = metric_range(name)
    y = np.arange(60) % 2
    X = np.column_stack([y + np.sin(np.arange(60)), np.cos(np.arange(60))])
    model = LogisticRegression().fit(X, y)
    for labels in (y, 1 - y):  # a good model and a bad one
        assert low <= score_model(name, model, X, labels) <= high
