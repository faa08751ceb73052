"""The validation of a comparison: statistics of the probabilities that its methods predicted, without further fits."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import unseen
from helpers import three_domains
from unseen.evaluation import COMPARISON_PROTOCOL, Store, make_tasks
from unseen.tables import table_from_arrays

pytestmark = pytest.mark.usefixtures("few_trees")

SITES = ("aachen", "bonn", "kiel", "trier")
MINE = ("mine", LogisticRegression())
SVM = ("machine", LinearSVC())


def make_data(n_rows=24, n_classes=2):
    """A class that depends on two of three columns, with some noise."""
    rng = np.random.default_rng(0)
    site = np.repeat(SITES, n_rows)
    X = rng.normal(size=(len(site), 3)) + rng.normal(0, 0.3, (len(SITES), 3)).repeat(n_rows, axis=0)
    score = X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=len(X))
    return X, np.digitize(score, np.linspace(-0.5, 0.5, n_classes - 1)), site


def compare(n_classes=2, methods=(MINE, SVM), repeats=2, **options):
    X, y, site = make_data(n_classes=n_classes)
    return unseen.compare(X, y, sample_domain=site, methods=list(methods), repeats=repeats, quick=True, **options)


@pytest.fixture(scope="module")
def comparison():
    return compare(methods=[MINE, SVM, "auto"], repeats=1)


def test_probabilities_are_those_of_models_of_the_first_draw(comparison):
    X, y, site = make_data()
    samples = table_from_arrays(X, y, site).samples
    result = comparison.validation()
    for task in make_tasks(SITES):
        train, test = COMPARISON_PROTOCOL.draw_split(samples, task, repeat=0)
        expected = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[train], y[train]).predict_proba(X[test])
        [held_out] = [one for one in result.held_out if (one.method, one.site) == ("mine", task.targets[0])]
        np.testing.assert_allclose(held_out.probabilities, expected, rtol=1e-6, atol=1e-6)


def test_the_model_of_fit_is_reported_and_methods_without_probabilities_are_left_out(comparison):
    assert comparison.validation().methods == ["auto", "mine"]
    assert comparison.summary()["validation"]["method"] == "auto"


def test_probabilities_of_the_ensemble_give_its_accuracies(comparison):
    rows = {row.task.rpartition(" -> ")[2]: row for row in comparison.rows if row.method == "auto" and row.repeat == 0}
    result = comparison.validation()
    for one in result.held_out:
        if one.method == "auto":
            is_right = one.probabilities.argmax(axis=1) == result.y[result.site == one.site]
            assert is_right.mean() == rows[one.site].accuracy


def test_measures_are_those_of_scikit_learn_and_the_same_in_json(comparison):
    result = comparison.validation()
    shown = comparison.summary()["validation"]
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    values = {(one["method"], one["site"]): one["value"] for one in shown["measures"] if one["measure"] == "auc"}
    for one in result.held_out:
        y = result.y[result.site == one.site]
        assert values[one.method, one.site] == pytest.approx(roc_auc_score(y, one.probabilities[:, 1]))
    assert set(shown["curves"]["sites"]) == set(SITES)


def test_several_classes_are_validated_against_all_others():
    comparison = compare(n_classes=3, methods=[MINE], repeats=1)
    result = comparison.validation()
    [first] = [one for one in result.held_out if one.site == "aachen"]
    expected = log_loss(result.y[result.site == "aachen"], first.probabilities, labels=[0, 1, 2])
    assert result.to_frame().loc["aachen", "log_loss"] == pytest.approx(expected)
    page = comparison.to_html()
    assert "Log loss" in page
    assert "AUC (c-statistic): 2" in page


def test_many_classes_have_no_section_but_can_be_validated():
    X, y, code = three_domains(n_per_cell=3, n_classes=13, n_domains=3, seed=1)
    comparison = unseen.compare(X, y, sample_domain=code, methods=[MINE], repeats=1, quick=True)
    assert comparison.summary()["validation"] is None
    assert len(comparison.validation().classes) == 13


def test_the_event_and_the_threshold_can_be_chosen_before_and_afterwards():
    before = compare(methods=[MINE], repeats=1, positive=0, threshold="sensitivity=0.9")
    after = compare(methods=[MINE], repeats=1).validation(positive=0, threshold="sensitivity=0.9")
    assert str(before.validation().summary_records) == str(after.summary_records)  # as texts: NaN equals NaN
    assert before.summary()["validation"]["positive"] == 0
    assert "the event is <b><bdi>0</bdi></b>" in before.to_html()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"positive": "absent"}, "positive='absent' is not a class"), ({"threshold": "best"}, "threshold='best'")],
)
def test_a_wrong_event_or_threshold_is_named_before_anything_is_computed(options, message, monkeypatch):
    monkeypatch.setattr("unseen.evaluation._run.run_job", None)
    with pytest.raises(ValueError, match=message):
        compare(**options)


@pytest.mark.parametrize("options", [{"methods": [SVM]}, {"selection": "oracle"}])
def test_without_held_out_probabilities_there_is_no_validation(options):
    comparison = compare(repeats=1, **options)
    assert comparison.summary()["validation"] is None
    assert "usefulness on each held-out domain" not in comparison.to_html()
    with pytest.raises(ValueError, match="no held-out probabilities"):
        comparison.validation()


def test_a_classifier_with_wrong_probabilities_is_compared_without_them():
    class Wrong(LogisticRegression):
        def predict_proba(self, X):
            return super().predict_proba(X)[:, :1]

    comparison = compare(methods=[("wrong", Wrong()), MINE], repeats=1)
    assert {row.status for row in comparison.rows} == {"ok"}
    assert comparison.validation().methods == ["mine"]


def test_a_method_that_fails_on_a_domain_is_validated_on_the_others():
    X, y, site = make_data()

    class Picky(LogisticRegression):
        def fit(self, X, y):
            if len(X) > 60:
                raise ValueError("too many rows")
            return super().fit(X, y)

    # Without kiel, whose rows occur twice, there are 50 training rows, otherwise 67.
    X, y, site = (np.concatenate([values, values[site == "kiel"]]) for values in (X, y, site))
    comparison = unseen.compare(X, y, sample_domain=site, methods=[("picky", Picky())], repeats=1, quick=True)
    records = {one["site"]: one for one in comparison.validation().site_records}
    assert {name for name, record in records.items() if record["failure"]} == set(SITES) - {"kiel"}
    assert comparison.to_html().count("there are no predictions") == 3


def test_a_resumed_comparison_has_the_same_validation(tmp_path, monkeypatch):
    store = tmp_path / "results.sqlite"
    undisturbed = compare(methods=[MINE, SVM, "logistic"], repeats=1)
    add = Store.add
    n_rows = []

    def add_some(self, *arguments):
        if len(n_rows) == 5:
            raise KeyboardInterrupt
        n_rows.append(1)
        add(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "add", add_some)
        with pytest.raises(KeyboardInterrupt):
            compare(methods=[MINE, SVM, "logistic"], repeats=1, store=store)
    resumed = compare(methods=[MINE, SVM, "logistic"], repeats=1, store=store)
    assert resumed.summary()["validation"] == undisturbed.summary()["validation"]


def test_a_results_file_without_probabilities_is_read(tmp_path):
    store = tmp_path / "results.sqlite"
    first = compare(store=store)
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DROP TABLE probabilities")
    again = compare(store=store)
    assert again.rows == first.rows
    assert again.summary()["validation"] is None


def test_only_probabilities_of_the_first_repeat_are_stored(tmp_path):
    store = tmp_path / "results.sqlite"
    first = compare(methods=[MINE], repeats=3, store=store)
    with closing(sqlite3.connect(store)) as connection:
        stored = connection.execute("SELECT task, repeat, n_classes FROM probabilities ORDER BY task").fetchall()
    assert sorted(stored) == sorted((task.name, 0, 2) for task in make_tasks(SITES))
    P = first.validation().held_out[0].probabilities
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-15)
