"""Decision thresholds of models: chosen on out-of-domain predictions, stored in the file, used by every prediction."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import unseen
from command import run_command
from helpers import fit_model
from unseen.metrics import choose_threshold
from unseen.tables import table_from_arrays

METHOD = ("mine", LogisticRegression(), {"C": [1.0]})


def make_data(seed=0, n_rows=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3 * n_rows, 2))
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(1.5 - 1.5 * X[:, 0])), "ill", "well")
    return X, y, np.repeat(["aachen", "bonn", "kiel"], n_rows)


@pytest.fixture(scope="module")
def model():
    X, y, site = make_data()
    return unseen.fit(X, y, sample_domain=site, methods="logistic", threshold="sensitivity=0.9", positive="ill")


def test_rows_above_the_threshold_are_labeled_positive(model):
    X, _, _ = make_data(1)
    value = model.card["threshold"]["value"]
    expected = np.where(model.predict_proba(X)[:, 0] >= value, "ill", "well")
    assert value < 0.5
    np.testing.assert_array_equal(model.predict(X), expected)
    np.testing.assert_array_equal(model.table_model.predict(X), expected)


@pytest.mark.parametrize("balance", ["none", "classes"])
def test_the_threshold_has_its_aim_on_out_of_domain_predictions(balance):
    table = table_from_arrays(*make_data())
    fit = fit_model(table, METHOD, balance=balance, threshold="sensitivity=0.9", positive="ill")
    _, held_out, codes = zip(*fit.estimator.ensemble.held_out, strict=True)
    probabilities = np.concatenate(held_out)[:, 0]
    events = np.concatenate(codes) == 0
    weight = np.repeat([1 / len(own) for own in codes], [len(own) for own in codes])
    expected = choose_threshold(events, probabilities, "sensitivity=0.9", sample_weight=weight)
    assert fit.estimator.threshold == pytest.approx(expected.threshold)  # held-out rows are in single precision
    flagged = probabilities >= expected.threshold
    assert weight[flagged & events].sum() / weight[events].sum() >= 0.9
    assert fit.card["threshold"]["sensitivity"] == pytest.approx(weight[flagged & events].sum() / weight[events].sum())


def test_the_card_describes_the_threshold(model):
    text = model.card["threshold"]["text"]
    assert "the threshold for sensitivity=0.9" in text
    assert "<dt>Threshold</dt>" in model._repr_html_()


def test_a_threshold_of_one_half_changes_nothing():
    table = table_from_arrays(*make_data())
    plain = fit_model(table, METHOD)
    fixed = fit_model(table, METHOD, threshold=0.5)
    np.testing.assert_array_equal(plain.estimator.predict(table.X), fixed.estimator.predict(table.X))


def test_a_file_keeps_the_threshold(model, tmp_path):
    pytest.importorskip("skops", reason="model files need the extra")
    model.save(tmp_path / "m.unseen")
    loaded = unseen.load_model(tmp_path / "m.unseen")
    X, _, _ = make_data(2)
    assert loaded.table_model.threshold == model.table_model.threshold
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": "best"}, "threshold='best' is not allowed"),
        ({"threshold": 0.5, "positive": "sick"}, "positive='sick' is not a class"),
        ({"positive": "ill"}, "has no effect without a threshold"),
    ],
)
def test_a_wrong_threshold_is_named(options, message):
    X, y, site = make_data(n_rows=20)
    with pytest.raises(ValueError, match=message):
        unseen.fit(X, y, sample_domain=site, methods=METHOD, **options)


def test_several_classes_have_no_threshold():
    X, _, site = make_data(n_rows=20)
    with pytest.raises(ValueError, match="needs two classes"):
        unseen.fit(X, np.arange(len(X)) % 3, sample_domain=site, methods=METHOD, threshold=0.3)


def test_the_commands_choose_show_and_use_the_threshold(tmp_path, monkeypatch):
    pytest.importorskip("typer", reason="the command needs its extra")
    pytest.importorskip("skops", reason="model files need the extra")
    pl = pytest.importorskip("polars", reason="reading tables needs the extra")
    from unseen.cli._app import app

    monkeypatch.chdir(tmp_path)
    X, y, site = make_data()
    pl.DataFrame({"site": site, "age": X[:, 0], "score": X[:, 1], "state": y}).write_csv("train.csv")
    fit = ("fit", "train.csv", "--label", "state", "--methods", "logistic", "--threshold", "cost=5:1")
    code, text = run_command(app, *fit, "--positive", "ill", "-o", "m.unseen")
    assert code == 0, text
    assert "the threshold for cost=5:1" in text
    code, text = run_command(app, "predict", "m.unseen", "train.csv", "-o", "p.csv")
    assert code == 0, text
    assert "Note: Rows with a probability of 'ill' of at least" in text
    predictions = pl.read_csv("p.csv")
    value = unseen.load_model("m.unseen").card["threshold"]["value"]
    assert ((predictions["p(ill)"] >= value) == (predictions["label"] == "ill")).all()


def test_the_threshold_moves_with_the_class_frequencies(model):
    """It keeps its sensitivity: the same rows are labeled, by other probabilities."""
    X, _, _ = make_data(1)
    other = model.with_prior({"ill": 0.7})
    assert other.table_model.threshold > model.table_model.threshold
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    value = other.card["threshold"]["value"]
    np.testing.assert_array_equal(other.predict(X) == "ill", other.predict_proba(X)[:, 0] >= value)
    assert f"a probability of {value:.3g}" in other.card["threshold"]["text"]


@pytest.mark.parametrize("threshold", [0.3, "cost=5:1"])
def test_probabilities_and_costs_keep_their_threshold_under_other_class_frequencies(threshold):
    X, y, site = make_data()
    model = unseen.fit(X, y, sample_domain=site, methods=METHOD, threshold=threshold, positive="ill")
    other = model.with_prior({"ill": 0.7})
    assert other.table_model.threshold == model.table_model.threshold
    assert np.sum(other.predict(X) == "ill") > np.sum(model.predict(X) == "ill")


def test_expected_performance_is_that_of_the_labels_that_the_threshold_gives():
    X, y, site = make_data(n_rows=400)
    with_labels = unseen.fit(X, y, sample_domain=site, methods=METHOD, threshold="sensitivity=0.95", positive="ill")
    plain = unseen.fit(X, y, sample_domain=site, methods=METHOD)
    X_new, y_new, _ = make_data(3, n_rows=2000)
    delivered = np.mean(with_labels.predict(X_new) == y_new)
    assert delivered < plain.expected_performance.mean - 0.1
    assert with_labels.expected_performance.mean == pytest.approx(delivered, abs=0.04)
    by_auc = unseen.fit(X, y, sample_domain=site, methods=METHOD, metric="roc_auc", threshold=0.3, positive="ill")
    assert by_auc.expected_performance.mean > 0.7


def test_the_card_has_prediction_intervals_of_sensitivity_and_specificity(model):
    facts = model.card["threshold"]
    for name in ("sensitivity", "specificity"):
        low, high = facts["intervals"][name]
        assert 0 <= low < facts[name] < high <= 1
        assert f"{100 * low:.0f}% to {100 * high:.0f}%" in facts["text"]
