"""The run behind comparisons and validations: what is fitted, predicted, stored and resumed."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB

import unseen
import unseen.kernels._nystroem as size_plan
from helpers import fit_model, three_domains
from unseen.evaluation import Protocol, Row, Store, Task, make_tasks, run
from unseen.model_selection import METHODS
from unseen.tables import table_from_arrays

X, Y, CODES = three_domains(n_per_cell=12, n_classes=2, n_domains=4, seed=2)
D = np.array(["a", "b", "c", "d"])[CODES]
TABLE = table_from_arrays(X, np.where(Y == 1, "ill", "well"), D)
THREE = TABLE.take(D != "d")  # domains, where there are many fits
QUICK = Protocol(quick=True)
FEW = ["nearest mean", "KFDA", "logistic"]

pytestmark = pytest.mark.usefixtures("few_trees_in_module")


NESTED = ["auto", "CIDG", "linear SVM"]  # methods that share candidates


@pytest.fixture(scope="module")
def quick_run(few_trees_in_module):
    return run(TABLE, FEW, QUICK)


@pytest.fixture(scope="module")
def nested_run(few_trees_in_module):
    return run(THREE, NESTED, QUICK, n_jobs=1)


def facts(predictions):
    """What must not depend on how often, in how many processes or when a run took place."""
    return {
        (row.task, row.repeat, row.method): (row.accuracy, row.settings, row.status, row.threshold, as_bytes(row))
        for row in predictions.rows
    }


def as_bytes(row):
    return None if row.probabilities is None else row.probabilities.tobytes()


# Tasks and protocols


def test_one_and_two_left_out_of_four_are_the_papers_ten_tasks():
    tasks = make_tasks("ACDW", 1) + make_tasks("ACDW", 2)
    assert len({task.name for task in tasks}) == 10
    assert all(set(task.sources) | set(task.targets) == set("ACDW") for task in tasks)


@pytest.mark.parametrize(
    ("domains", "n_targets", "message"), [("AAB", 1, "different names"), ("AB", 2, "leave at least one")]
)
def test_impossible_tasks_are_refused(domains, n_targets, message):
    with pytest.raises(ValueError, match=message):
        make_tasks(domains, n_targets)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selection": "luck"}, "selection must be one of"),
        ({"heads": ("2-NN",)}, "heads must be"),
        ({"repeats": 0}, "repeats must be an integer"),
        ({"train_size": 1.5}, "train_size must be"),
        ({"metric": "beauty"}, "beauty"),
    ],
)
def test_a_protocol_refuses_what_it_does_not_know(options, message):
    with pytest.raises(ValueError, match=message):
        Protocol(**options)


def test_by_default_every_domain_is_held_out_once_and_all_other_rows_are_used():
    protocol = Protocol()
    assert protocol.repeats == 1
    for task in make_tasks("abcd"):
        train, test = protocol.draw_rows(TABLE.samples, task, 0)
        assert set(D[test]) == set(task.targets)
        assert len(train) + len(test) == len(D)


def test_the_protocol_of_the_paper_draws_seventy_percent_five_times():
    paper = Protocol.paper()
    draws = [paper.draw_rows(TABLE.samples, make_tasks("abcd")[0], repeat)[0] for repeat in range(paper.repeats)]
    assert len(draws) == 5
    assert {len(draw) for draw in draws} == {51}  # 70% of 24 rows of each of three domains
    assert len({draw.tobytes() for draw in draws}) == 5
    # What is drawn of a domain does not depend on the task.
    other = paper.draw_rows(TABLE.samples, make_tasks("abcd")[1], 0)[0]
    assert set(draws[0][D[draws[0]] == "c"]) == set(other[D[other] == "c"])


@pytest.mark.parametrize(
    ("selection", "task", "held_out"),
    [
        ("domain", Task(("a", "b"), ("c",)), ["a", "b"]),
        ("domain", Task(("a", "b"), ("c",), ("d",)), ["d"]),
        ("oracle", Task(("a", "b"), ("c",)), ["c"]),
        ("domain", Task(("a",), ("c",)), ["a"]),  # a single source domain is split
    ],
)
def test_settings_are_selected_on_the_rows_that_the_protocol_names(selection, task, held_out):
    protocol = Protocol(selection=selection)
    train, test = protocol.draw_rows(TABLE.samples, task, 0)
    splits = protocol.validation_splits(TABLE.samples, task, train, test, 0)
    assert [",".join(np.unique(D[rows])) for _, rows in splits] == held_out
    assert all(not set(a) & set(b) for a, b in splits)


# What is fitted


def test_a_held_out_domain_is_predicted_by_the_model_that_fit_returns_for_the_others():
    names = ["auto", "logistic", "CIDG", "extra trees", "RBF SVM"]
    for row in run(THREE, names, n_jobs=1).rows:
        is_target = THREE.domain == row.domain
        fit = fit_model(THREE.take(~is_target), row.method)
        expected = fit.estimator.predict_proba(THREE.X[is_target], sample_domain=THREE.domain[is_target])
        np.testing.assert_allclose(row.probabilities, expected, atol=1e-9)
        assert row.accuracy == np.mean(fit.estimator.predict(THREE.X[is_target]) == THREE.y[is_target])


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("auto", {}),
        ("KFDA", {"threshold": "sensitivity=0.9"}),
        ("CIDG", {"metric": "roc_auc", "balance": "classes"}),
    ],
)
def test_compare_and_validate_report_the_same_numbers(method, options):
    names = [method, "logistic"]
    comparison = unseen.compare(THREE, methods=names, **options)
    reported = comparison.validation.settings.method  # which comes first and sets the costs of net benefit
    names.remove(reported)
    validated = unseen.validate(THREE, methods=reported, compare_with=names, **options)
    assert comparison.validation.measure_records == validated.measure_records
    assert comparison.to_dict()["validation"]["summary"] == validated.to_dict()["summary"]
    if not options:
        assert comparison.verdict.recommendation.sentence in str(validated)
    for row in comparison.rows:
        same = next(one for one in validated.rows if (one.method, one.task) == (row.method, row.task))
        np.testing.assert_array_equal(row.probabilities, same.probabilities)
        assert (row.accuracy, row.threshold) == (same.accuracy, same.threshold)


def test_no_label_of_the_held_out_domain_reaches_its_predictions():
    swapped = replace(THREE, y=np.where(THREE.domain == "a", THREE.y[::-1], THREE.y))
    predicted = [
        [row.probabilities for row in run(table, NESTED, QUICK, tasks=make_tasks("abc")[:1]).rows]
        for table in (THREE, swapped)
    ]
    for one, two in zip(*predicted, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("transductive", [False, True])
def test_other_rows_of_the_held_out_domain_matter_to_transductive_methods_only(transductive):
    """The second half of the held-out rows is moved; predictions of the first half are compared."""
    moved = X.copy()
    moved[np.flatnonzero(D == "a")[12:]] += 5
    protocol = replace(QUICK, transductive=transductive)
    first, second = (
        run(table_from_arrays(data, Y, D), ["CIDG", "logistic"], protocol, tasks=make_tasks("abcd")[:1]).rows
        for data in (X, moved)
    )
    same = {}
    for one, two in zip(first, second, strict=True):
        same[one.method] = np.array_equal(one.probabilities[:12], two.probabilities[:12])
    assert same == {"CIDG": not transductive, "logistic": True}
    assert [row.transductive for row in first if row.method == "CIDG"] == [transductive]


def test_methods_that_share_candidates_evaluate_each_once(monkeypatch):
    evaluated = []
    evaluate = unseen.evaluation._run.evaluate_candidates

    def watch(candidates, samples, splits, *args, **options):
        evaluated.append(([candidate.key for candidate in candidates], splits[0][0].tobytes()))
        return evaluate(candidates, samples, splits, *args, **options)

    monkeypatch.setattr("unseen.evaluation._run.evaluate_candidates", watch)
    run(THREE, ["auto", "auto, transductive", "logistic", "CIDG", "KFDA"], QUICK, tasks=make_tasks("abc")[:1])
    assert len(evaluated) == len({rows for _, rows in evaluated})
    assert all(len(keys) == len(set(keys)) for keys, _ in evaluated)


def test_large_tables_skip_methods_with_a_limit_and_use_landmarks_elsewhere(monkeypatch):
    X, y, codes = three_domains(n_per_cell=30, seed=1)
    table = table_from_arrays(X, y, np.array(list("abc"))[codes])
    exact = run(table, ["CIDG", "logistic"], QUICK)
    monkeypatch.setattr(size_plan, "EXACT_ROWS", 90)
    monkeypatch.setitem(METHODS, "KPCA", replace(METHODS["KPCA"], max_rows=90))
    large = run(table, ["CIDG", "logistic", "KPCA"], QUICK)
    assert {row.status for row in large.rows if row.method == "KPCA"} == {"skipped"}
    assert all("max_per_domain" in row.reason for row in large.rows if row.method == "KPCA")
    scores = {(row.method, row.task): row.accuracy for row in large.rows}
    for row in exact.rows:
        assert scores[row.method, row.task] == pytest.approx(row.accuracy, abs=0.08)


def test_groups_stay_on_one_side():
    table = replace(TABLE, group=np.array([f"patient {i % 30}" for i in range(len(D))]))
    with pytest.raises(ValueError, match="The task"):
        run(table, FEW, QUICK)


@pytest.mark.parametrize(
    ("methods", "tasks", "message"),
    [([], None, "at least one method"), (FEW, [], "one task"), (FEW, [Task(("a",), ("mars",))], "mars")],
)
def test_what_cannot_be_run_is_refused(methods, tasks, message):
    with pytest.raises(ValueError, match=message):
        run(TABLE, methods, tasks=tasks)


# Predictions


def test_predictions_as_a_frame_have_a_line_for_each_held_out_row(quick_run):
    pytest.importorskip("pandas", reason="frames need it")
    frame = quick_run.to_frame()
    assert len(frame) == len(FEW) * len(D)
    own = frame[frame["method"] == "logistic"]
    assert sorted(own["row"]) == list(range(len(D)))
    assert np.allclose(own["probability_ill"] + own["probability_well"], 1)
    for row in (row for row in quick_run.rows if row.method == "logistic"):
        part = own[own["domain"] == row.domain]
        assert row.accuracy == (part["label"] == part["predicted"]).mean()
    assert set(own["threshold"]) == {0.5}


def test_measures_of_a_comparison_are_those_of_scikit_learn():
    comparison = unseen.compare(THREE, methods=["logistic", "KFDA"], quick=True, positive="ill")
    measures = comparison.to_dict()["validation"]["measures"]
    for row in comparison.rows:
        truth = THREE.y[THREE.domain == row.domain] == "ill"
        expected = roc_auc_score(truth, row.probabilities[:, 0])
        (value,) = (
            one["value"]
            for one in measures
            if (one["method"], one["site"], one["measure"]) == (row.method, row.domain, "auc")
        )
        assert value == pytest.approx(expected)


def test_an_aim_for_the_threshold_is_reached_on_the_training_domains():
    rows = run(THREE, ["logistic"], Protocol(threshold="sensitivity=0.9", positive="ill")).rows
    assert len({row.threshold for row in rows}) > 1
    fixed = run(THREE, ["logistic"], Protocol(threshold=0.3, positive="ill")).rows
    assert {row.threshold for row in fixed} == {0.3}


# Failures


class Moody(ClassifierMixin, BaseEstimator):
    """Fails unless domain d, whose rows have large values, is in training."""

    def fit(self, X, y):
        if X[:, 0].max() < 50:
            raise RuntimeError("no large values")
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def test_a_method_that_fails_on_a_domain_keeps_the_reason_and_is_tried_again(tmp_path):
    rows = np.where(D == "d", 100.0, 0.0)[:, None] + X
    table = table_from_arrays(rows, Y, D)
    store = tmp_path / "results.sqlite"
    protocol = Protocol(scale="none", selection="within")
    predictions = run(table, [("moody", Moody()), "logistic"], protocol, store=store)
    status = {(row.method, row.domain): row.status for row in predictions.rows}
    assert {domain for (method, domain), word in status.items() if word == "failed"} == {"d"}
    failed = next(row for row in predictions.rows if row.status == "failed")
    assert "no large values" in failed.reason
    assert failed.probabilities is None
    assert failed.accuracy is None
    again = run(table, [("moody", Moody()), "logistic"], protocol, store=store)
    assert {(row.method, row.domain): row.status for row in again.rows} == status


# The store


def test_what_is_done_is_not_run_again(tmp_path, monkeypatch):
    store = tmp_path / "results.sqlite"
    first = run(THREE, FEW, QUICK, store=store)
    monkeypatch.setattr("unseen.evaluation._run.Study.predict", None)
    assert facts(run(THREE, FEW, QUICK, store=store)) == facts(first)
    with pytest.raises(TypeError):
        run(THREE, [*FEW, "1-NN"], QUICK, store=store)


def test_a_resumed_run_gives_the_bits_of_an_uninterrupted_one(tmp_path, nested_run):
    store = tmp_path / "results.sqlite"
    run(THREE, NESTED, QUICK, store=store)
    with sqlite3.connect(store) as connection:  # one of the methods of a domain, and all of another
        connection.execute("DELETE FROM results WHERE rowid IN (SELECT rowid FROM results LIMIT 4)")
    connection.close()
    assert facts(run(THREE, NESTED, QUICK, store=store)) == facts(nested_run)


def test_another_protocol_or_other_data_in_the_same_store_do_not_mix(tmp_path):
    moved = replace(THREE, X=THREE.X + (THREE.domain == "a")[:, None])
    runs = [
        (THREE, QUICK),
        (THREE, replace(QUICK, seed=1, train_size=0.7)),
        (THREE, replace(QUICK, scale="l2")),
        (THREE, replace(QUICK, threshold="youden", positive="ill")),
        (moved, QUICK),
    ]
    names = ["nearest mean", "logistic"]
    expected = [facts(run(table, names, protocol)) for table, protocol in runs]
    assert all(one != other for one, other in combinations(expected, 2))
    for _ in range(2):  # the second time from the file
        stored = [facts(run(table, names, protocol, store=tmp_path / "results.sqlite")) for table, protocol in runs]
        assert stored == expected


def test_another_field_of_a_method_or_other_code_makes_another_key(tmp_path, monkeypatch):
    store = tmp_path / "results.sqlite"
    run(THREE, ["logistic"], store=store)
    monkeypatch.setitem(METHODS, "logistic", replace(METHODS["logistic"], grid={"C": (0.001,)}))
    (settings,) = {str(row.settings) for row in run(THREE, ["logistic"], store=store).rows}
    assert settings == "{'C': 0.001}"


def test_more_repeats_continue_the_same_configuration(tmp_path):
    store = tmp_path / "results.sqlite"
    paper = Protocol.paper(quick=True, repeats=1)
    one = facts(run(THREE, FEW, paper, store=store))
    two = facts(run(THREE, FEW, replace(paper, repeats=2), store=store))
    assert len(two) == 2 * len(one)
    assert one.items() <= two.items()


def test_two_processes_find_what_one_finds(nested_run):
    assert facts(run(THREE, NESTED, QUICK, n_jobs=2)) == facts(nested_run)


def test_rows_come_back_as_they_were_written(tmp_path):
    P = np.random.default_rng(0).dirichlet([1, 1, 1], size=7)
    row = Row("m", "a -> b", ("b",), accuracy=0.5, settings={"C": 1}, codes=P.argmax(axis=1), probabilities=P)
    with Store(tmp_path / "results.sqlite") as store:
        store.add_configuration("key", {})
        store.add("key", row)
        store.add("key", replace(row, repeat=1, status="failed", codes=None, probabilities=None, accuracy=None))
        first, second = store.rows("key")
        assert store.rows("other") == []
    assert first == row
    np.testing.assert_array_equal(first.probabilities, P)
    np.testing.assert_array_equal(first.codes, row.codes)
    assert (second.probabilities, second.codes) == (None, None)
