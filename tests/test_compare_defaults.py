"""The defaults of `compare`: inductive methods, both heads of projections, shared evaluations, and the metric."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.preprocessing import StandardScaler

import unseen
from helpers import three_domains
from study_sample import SAMPLES, problem
from test_study_choice import moved
from unseen import UnseenClassifier
from unseen.evaluation import COMPARISON_PROTOCOL, comparison_methods, make_tasks
from unseen.evaluation._method_evaluation import evaluate_methods
from unseen.evaluation._run import JobQueue, Study, ValidationJob, make_problem, select_methods
from unseen.model_selection import METHODS, metric_range
from unseen.utils.samples import Samples

pytestmark = pytest.mark.usefixtures("few_trees")

X, Y, CODES = three_domains(n_per_cell=6, n_classes=2, n_domains=4, seed=2)
D = np.array(["north", "south", "east", "west"])[CODES]
QUICK = replace(COMPARISON_PROTOCOL, repeats=1, quick=True)


def test_standard_baselines_and_both_automatic_methods_are_compared():
    names = comparison_methods()
    assert {"logistic", "gradient boosting", "extra trees", "auto", "auto, transductive"} <= set(names)
    assert set(names) - set(comparison_methods(transductive=True)) == {"auto, transductive"}


@pytest.mark.slow
def test_only_methods_that_were_opted_in_use_the_held_out_domain():
    names = ["CIDG", "KFDA", "logistic", "auto"]
    inductive = unseen.compare(X, Y, sample_domain=D, methods=[*names, "auto, transductive"], repeats=1, quick=True)
    assert not any(row.transductive for row in inductive.rows if row.method != "auto, transductive")
    opted_in = unseen.compare(X, Y, sample_domain=D, methods=names, repeats=1, quick=True, transductive=True)
    is_transductive = {method["name"]: method["transductive"] for method in opted_in.summary()["methods"]}
    assert is_transductive["CIDG"]
    assert is_transductive["KFDA"]
    assert not is_transductive["logistic"]
    # The automatic method is the same under both names.
    by_task = {(row.method, row.task): row for row in inductive.rows}
    for row in opted_in.rows:
        if row.method == "auto":
            same = by_task["auto, transductive", row.task]
            assert (row.accuracy, row.transductive) == (same.accuracy, same.transductive)


@pytest.mark.parametrize("method", ["CIDG", "KFDA"])
def test_validation_selects_the_head_of_a_projection(method):
    found = problem(QUICK)
    candidates = found.candidates(method)
    assert {candidate.head for candidate in candidates} == {"logistic", "1-NN"}
    settings = [[c.settings for c in candidates if c.head == head] for head in ("logistic", "1-NN")]
    assert settings[0] == settings[1]
    means = found.scores(candidates, found.splits)["mean_test_score"]
    (outcome,) = evaluate_methods([method], found)
    assert outcome.validation == pytest.approx(max(means))
    selected = found.find_candidate(method, outcome.settings)
    assert outcome.settings == {"model": selected.variant, **selected.settings}
    assert means[candidates.index(selected)] == max(means)
    assert not outcome.transductive


def test_auto_is_the_default_classifier():
    X, y, domain = moved(2)
    protocol = replace(COMPARISON_PROTOCOL, preprocess="none", metric="balanced_accuracy")
    found = make_problem(Samples(X, y, domain), make_tasks("abcd")[0], 0, protocol)
    (outcome,) = evaluate_methods(["auto"], found)
    model = UnseenClassifier(scoring="balanced_accuracy")
    model.fit(X[found.train], y[found.train], sample_domain=domain[found.train])
    assert outcome.settings["model"] == model.best_model_
    assert not outcome.transductive  # although it pays on these data
    assert outcome.validation == pytest.approx(model.best_score_, rel=1e-6)
    assert_array_equal(model.classes_[outcome.codes], model.predict(X[found.test], sample_domain=domain[found.test]))


def test_both_automatic_methods_and_their_members_evaluate_each_candidate_once(monkeypatch):
    names = ["auto", "auto, transductive", "logistic", "RBF SVM", "CIDG", "KFDA"]
    table = select_methods(names)
    queue = JobQueue(Study(SAMPLES, QUICK, StandardScaler(), table), make_tasks("abcd"), set(), {})
    jobs = [job for stage in queue.stages for job in stage]
    evaluated = [
        (job.train.tobytes(), candidate.key)
        for job in jobs
        if isinstance(job, ValidationJob)
        for candidate in job.candidates
    ]
    assert len(evaluated) == len(set(evaluated))
    # The automatic methods add the candidates that no other method has: those centered on the target.
    own = {one.key for name in names[2:] for one in problem(QUICK).candidates(name)}
    added = {one.key: one for job in jobs if isinstance(job, ValidationJob) for one in job.candidates}
    members = {member.name for member in METHODS["auto"].members}
    assert all(one.transductive or one.method not in names for key, one in added.items() if key not in own)
    assert {one.method for one in added.values()} <= members | set(names)
    tests = [job for job in jobs if not isinstance(job, ValidationJob)]
    assert len(tests) == 4  # one for each held-out domain
    counts = []
    evaluate = unseen.evaluation._method_evaluation.evaluate_candidates

    def count(candidates, samples, splits, config, **options):
        counts.append([candidate.key for candidate in candidates])
        return evaluate(candidates, samples, splits, config, **options)

    monkeypatch.setattr("unseen.evaluation._method_evaluation.evaluate_candidates", count)
    outcomes = list(evaluate_methods(names, problem(QUICK, make_tasks("abcd")[0])))
    assert {outcome.status for outcome in outcomes} == {"ok"}
    assert [outcome.method for outcome in outcomes] == names
    assert all(len(keys) == len(set(keys)) for keys in counts)


def automatic(method, metric):
    """Outcome of an automatic method on one held-out domain."""
    found = make_problem(Samples(X, Y, D), make_tasks(list(dict.fromkeys(D)))[0], 0, replace(QUICK, metric=metric))
    (outcome,) = evaluate_methods([method], found)
    return outcome


@pytest.mark.parametrize(
    "metric",
    [
        "roc_auc",
        pytest.param("log_loss", marks=pytest.mark.slow),
        pytest.param("balanced_accuracy", marks=pytest.mark.slow),
    ],
)
def test_validation_and_forecast_follow_the_metric_and_weights_do_not(metric):
    outcome = automatic("auto", metric)
    low, high = metric_range(metric, 2)
    expected, *ends = outcome.settings["forecast"]
    assert outcome.validation == pytest.approx(expected)
    assert low <= expected <= high
    assert all(end is None or low <= end <= high for end in ends)
    assert all(low <= score <= high for score in outcome.scores.values())
    # Weights minimize the log loss, whatever the metric is.
    assert outcome.settings["members"] == pytest.approx(automatic("auto", "accuracy").settings["members"])


@pytest.mark.slow
def test_acceptance_tests_and_the_recommendation_follow_the_metric():
    names = ["auto", "auto, transductive", "logistic", "majority"]
    found = unseen.compare(X, Y, sample_domain=D, methods=names, repeats=1, quick=True, metric="log_loss")
    advice = found.verdict.recommendation
    means = {name: np.mean([row.accuracy for row in found.rows if row.method == name]) for name in names}
    assert advice.expected == pytest.approx(means[advice.method])
    pairs = [[row.accuracy for row in found.rows if row.method == name] for name in ("auto, transductive", "auto")]
    assert found.verdict.opt_in.difference == pytest.approx(np.mean(np.subtract(*pairs)))
    decisions = found.summary()["ensemble"]["decisions"]
    gains = [row.settings["decisions"][0]["natural"] for row in found.rows if row.method == "auto, transductive"]
    assert decisions[0]["natural"] == pytest.approx(np.mean(gains), abs=1e-5)
    assert decisions[0]["n"] == 4
    assert not any("points" in text for text in (*(one["sentence"] for one in decisions), *found.verdict.sentences))


def test_scores_are_fractions_in_python_and_percent_in_print():
    found = unseen.compare(X, Y, sample_domain=D, methods=["logistic", "1-NN"], repeats=1, quick=True)
    frame = found.to_frame()
    row = frame.loc["logistic"]
    scores = [one.accuracy for one in found.rows if one.method == "logistic"]
    assert row["mean"] == pytest.approx(np.mean(scores), abs=1e-5)
    assert [row[name] for name in found.summary()["domains"]] == pytest.approx(scores, abs=1e-5)
    assert f"{row['mean']:.1%}" in str(found)
    assert 0 <= found.verdict.recommendation.expected <= 1


def test_columns_of_a_table_are_selected_as_on_the_command_line():
    pandas = pytest.importorskip("pandas", reason="frames need it")
    names = [f"column {k}" for k in range(X.shape[1])]
    frame = pandas.DataFrame(X, columns=names).assign(site=D, species=np.where(Y == 1, "owl", "bat"))
    options = {"label": "species", "domain": "site", "methods": ["logistic", "1-NN"], "repeats": 1, "quick": True}
    kept = unseen.compare(frame, features=names[:2], **options)
    dropped = unseen.compare(frame, drop=names[2:], **options)
    arrays = unseen.compare(
        X[:, :2], frame["species"], sample_domain=D, methods=["logistic", "1-NN"], repeats=1, quick=True
    )
    accuracies = [[row.accuracy for row in found.rows] for found in (kept, dropped, arrays)]
    assert accuracies[0] == accuracies[1] == accuracies[2]
    assert kept.summary()["data"]["n_features"] == 2
