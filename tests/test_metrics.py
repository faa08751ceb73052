"""Metrics by their names, on parts that lack a class, and where they are not defined."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    f1_score,
    get_scorer,
    get_scorer_names,
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
    score_predictions,
    tabulate_scores,
)
from unseen.utils.samples import Samples

NAMES = ["accuracy", "balanced_accuracy", "macro F1", "AUC", "average_precision", "log_loss"]
# Those that this version of scikit-learn has; before 1.7 its Brier score is for two classes only.
PROBABILITY_LOSSES = {"d2_log_loss_score", "d2_brier_score"} & {*get_scorer_names()}
PROBABILITY_LOSSES |= {"neg_brier_score"} if "d2_brier_score" in PROBABILITY_LOSSES else set()


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
        found = score_predictions(said, Scorer(get_metric(name).scoring, samples, splits))
        table = tabulate_scores(found, len(candidates), len(splits))
        without = uncertain if name == "log_loss" else [False] * len(methods)
        assert np.isnan(table["mean_test_score"]).tolist() == without
        assert ["predict_proba" in error for error in table["errors"]] == without


@pytest.mark.parametrize("classifier", [LogisticRegression(), GaussianNB()], ids=["both", "probabilities"])
@pytest.mark.parametrize(
    ("scoring", "n_classes"),
    [
        ("roc_auc", 2),
        *((name, n) for name in ("roc_auc_ovr", "average_precision", "neg_log_loss") for n in (2, 3)),
        *((name, n) for name in sorted(PROBABILITY_LOSSES) for n in (2, 3)),
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


REFUSED_FOR_TEXT = r"measures differences between numbers, but the classes are text: 'healthy', 'ill'"
REFUSED_FOR_ALL = r"needs samples with several labels each|needs two classes; there are 3|needs more than two classes"


def named_classes(y):
    return np.array(["healthy", "ill", "worse"])[y]


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", get_scorer_names())
def test_every_scorer_gives_text_labels_the_score_of_numbers_or_is_refused_with_the_reason(
    name, n_classes, monkeypatch
):
    monkeypatch.setitem(METHODS, "logistic", replace(METHODS["logistic"], ensemble_grid={"C": [0.01, 1.0]}))
    X, y, d = places(n_classes, lacking=n_classes)
    scores = []
    for labels in (y, named_classes(y)):
        model = UnseenClassifier(["logistic"], ensemble=False, scoring=name, cv=3)
        try:
            model.fit(X, labels, sample_domain=d)
        except ValueError as refused:
            scores.append(str(refused))
        else:
            scores.append((model.best_score_, model.score(X, labels)))
    of_numbers, of_text = scores
    if isinstance(of_text, str):
        assert f"The metric '{name}' " in of_text
        assert re.search(f"{REFUSED_FOR_TEXT}|{REFUSED_FOR_ALL}", of_text)
        assert of_numbers == of_text or re.search(REFUSED_FOR_TEXT, of_text)
    else:
        assert np.isfinite(of_text).all()
        assert of_text == pytest.approx(of_numbers)


NOT_FOR_TWO_NAMED_CLASSES = [
    name
    for name in get_scorer_names()
    if name.endswith(("_error", "_deviance", "_samples")) or name in {"r2", "explained_variance", "top_k_accuracy"}
] + ["d2_absolute_error_score"]


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
        ("r2", (-np.inf, 1)),
        ("d2_brier_score", (-np.inf, 1)),
        ("log_loss", (-np.inf, 0)),
        ("neg_mean_squared_error", (-np.inf, 0)),
        ("neg_brier_score", (-2, 0)),
        (make_scorer(roc_auc_score, response_method="decision_function"), (0, 1)),
        (make_scorer(f1_score, average="macro"), (0, 1)),
        (make_scorer(brier_score_loss, greater_is_better=False, response_method="predict_proba"), (-2, 0)),
        (make_scorer(accuracy_score, normalize=False), (-np.inf, np.inf)),  # a count
        (make_scorer(f1_score, greater_is_better=False), (-np.inf, np.inf)),
        (lambda model, X, y: 7.0, (-np.inf, np.inf)),
    ],
)
def test_a_metric_has_a_range_by_name_and_as_a_callable(scoring, limits):
    assert metric_range(scoring) == limits


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("name", get_scorer_names())
def test_every_scorer_of_scikit_learn_has_a_range_and_keeps_it(name):
    low, high = metric_range(name)
    assert low < high < np.inf or (name, low) in {("mutual_info_score", 0), ("positive_likelihood_ratio", 0)}
    y = np.arange(60) % 2
    X = np.column_stack([y + np.sin(np.arange(60)), np.cos(np.arange(60))])
    model = LogisticRegression().fit(X, y)
    for labels in (y, 1 - y):  # a good model and a bad one
        if name.endswith(("_samples", "_deviance")):  # need several labels per sample, or labels above zero
            continue
        with np.errstate(all="ignore"):
            score = get_scorer(name)(model, X, labels)
        assert low <= score <= high
