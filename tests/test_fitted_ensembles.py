"""``fit`` of many methods gives a pool: what is in it, what its card promises, and what a file of it holds."""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("polars", reason="tables need the extra")
pytest.importorskip("skops", reason="model files need the extra")
pytest.importorskip("typer", reason="the command needs its extra")

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers import fit_model, three_domains
from unseen import CIDG, DomainCenterer, UnseenClassifier
from unseen.cli._show import print_card
from unseen.exceptions import CoverageWarning, SmallBatchError
from unseen.model_selection import (
    METHODS,
    EnsembleClassifier,
    Forecast,
    describe_expected_performance,
    forecast,
    method_names,
)
from unseen.models import load_model, save_model
from unseen.tables import Column, Schema, Table

pytestmark = pytest.mark.usefixtures("few_trees")

SEVERAL = ["logistic", "CIDG", "centered logistic"]


@pytest.fixture(scope="module")
def table():
    """Three sites, three classes, every column in the same units."""
    X, y, codes = three_domains(n_per_cell=8)
    columns = tuple(Column(f"x{i}", "numeric") for i in range(X.shape[1]))
    return Table(X, y, np.array(["north", "south", "west"])[codes], Schema(columns), [], "three sites")


@pytest.fixture(scope="module")
def found(table):
    return fit_model(table, SEVERAL, scale="none", transductive=True)


def test_several_methods_are_the_pool_of_unseen_classifier(table, found):
    expected = UnseenClassifier(SEVERAL, transductive=True).fit(table.X, table.y, sample_domain=table.domain)
    assert [one["params"] for one in found.card["ensemble"]["members"]] == [one["params"] for one in expected.members_]
    weights, same = (
        [one["weight"] for one in members] for members in (found.card["ensemble"]["members"], expected.members_)
    )
    np.testing.assert_allclose(weights, same, atol=1e-5)
    assert (found.card["model"], found.card["kind"]) == (expected.best_model_, expected.best_kind_)
    assert found.card["ensemble"]["decisions"] == expected.decisions_
    assert found.expected_performance == expected.forecast_
    X = table.X + 0.3
    np.testing.assert_allclose(found.estimator.predict_proba(X), expected.predict_proba(X), atol=1e-5)


def test_scores_of_a_pool_are_those_of_the_row_that_was_chosen(table, found):
    (chosen,) = [row for row in found.card["leaderboard"] if row["is_selected"]]
    assert found.card["scores"]["mean"] == chosen["mean"]
    assert list(found.card["scores"]["by_domain"]) == ["north", "south", "west"]
    mean, low, high = forecast(np.array([*found.card["scores"]["by_domain"].values()]))
    assert found.card["ensemble"]["forecast"][0] == mean
    assert (
        found.card["ensemble"]["forecast"][1] <= low <= high <= found.card["ensemble"]["forecast"][2]
    )  # samples are noise as well
    assert {row["model"] for row in found.card["leaderboard"]} >= {"logistic", "CIDG + logistic", "centered logistic"}


@pytest.mark.parametrize("methods", [["logistic", "CIDG"], ["auto"]])
def test_by_default_a_prediction_does_not_depend_on_the_other_rows(table, methods, monkeypatch):
    for name in method_names(in_ensemble=True):
        few = name in ("logistic", "CIDG", "centered logistic")
        monkeypatch.setitem(METHODS, name, replace(METHODS[name], in_ensemble=few))
    found = fit_model(table, methods)
    assert {row["kind"] for row in found.card["leaderboard"]} <= {"plain", "inductive"}
    assert not found.estimator.transductive
    assert found.card["ensemble"]["decisions"] == []
    one_by_one = np.vstack([found.estimator.predict_proba(row[None]) for row in table.X[::5]])
    np.testing.assert_allclose(one_by_one, found.estimator.predict_proba(table.X)[::5], atol=1e-12)


@pytest.mark.parametrize("methods", ["centered logistic", ["logistic", "centered logistic"]])
def test_a_transductive_method_must_be_allowed(table, methods):
    with pytest.raises(
        ValueError, match=r"'centered logistic', which is transductive\. Allow transductive models, or leave"
    ):
        fit_model(table, methods)


def test_a_plain_classifier_beside_a_pool_takes_no_part_in_it(table):
    found = fit_model(table, ["CIDG", "centered logistic"], transductive=True)
    assert "logistic" not in {one["model"] for one in found.card["ensemble"]["members"]}
    assert set(found.card["scores"]["baseline"]) == set(found.card["scores"]["by_domain"])


def test_samples_that_members_share_are_stored_once_and_shared_again(table, tmp_path):
    found = fit_model(table, ["CIDG", "KFDA"], scale="none")
    model, path = found.estimator, tmp_path / "m.unseen"
    holding = [member for member in model.ensemble.members_ if hasattr(member[0], "X_fit_")]
    assert len(holding) > 2
    found.save(path)
    with zipfile.ZipFile(path) as outer, zipfile.ZipFile(io.BytesIO(outer.read("model.skops"))) as inner:
        arrays = [np.load(io.BytesIO(inner.read(name))) for name in inner.namelist() if name.endswith(".npy")]
    assert sum(array.shape == table.X.shape for array in arrays) == 1
    copies = [load_model(path).estimator, pickle.loads(pickle.dumps(model))]
    for other in copies:
        assert len({id(member[0].X_fit_) for member in other.ensemble.members_}) == 1
        np.testing.assert_array_equal(other.predict_proba(table.X), model.predict_proba(table.X))


def test_a_pool_sees_all_rows_through_landmarks_that_its_projections_share(table, tmp_path, monkeypatch):
    monkeypatch.setitem(
        METHODS, "CIDG", replace(METHODS["CIDG"], ensemble_grid={"gamma": ["median"], "ridge": [0.1, 1.0]})
    )
    found = fit_model(table, ["CIDG", "logistic"], feature_map="nystroem", n_landmarks=20)
    assert {one["model"] for one in found.card["ensemble"]["members"]} >= {"CIDG + logistic"}
    assert (found.card["stream"]["projection_rows"], found.card["stream"]["landmarks"]) == (len(table.X), 20)
    assert f"Projections were fitted to {len(table.X)} rows through 20 landmarks" in found.card["data"]["notices"][-1]
    assert f"The model was fitted to all {len(table.X)} rows." in found.card["data"]["notices"][-1]
    maps = [vars(member[0]).get("feature_map_") for member in found.estimator.ensemble.members_]
    assert len({id(own.estimator) for own in maps if own is not None}) == 1
    save_model(found.estimator, tmp_path / "m.unseen", {})
    again = load_model(tmp_path / "m.unseen").estimator
    np.testing.assert_array_equal(again.predict_proba(table.X), found.estimator.predict_proba(table.X))


@pytest.fixture
def few_choice_rows(monkeypatch):
    monkeypatch.setattr("unseen.kernels._nystroem.CLASSIFIER_CHOICE_ROWS", 36)


@pytest.mark.usefixtures("few_choice_rows")
def test_a_large_table_says_how_many_rows_were_used_for_what(table):
    found = fit_model(table, ["logistic", "nearest mean"], feature_map="nystroem")
    assert (
        found.card["data"]["notices"][-1]
        == "Models that predict held-out domains were fitted to 36 rows. The model was fitted to all 72 rows."
    )


def test_the_card_says_who_is_in_the_pool_why_and_what_to_expect(table, found, capsys):
    card = json.loads(json.dumps(found.card, allow_nan=False))
    assert sum(one["weight"] for one in card["ensemble"]["members"]) == pytest.approx(1)
    assert set(card["ensemble"]["calibration"]) == {"before", "after"}
    assert sum(row["is_selected"] for row in card["leaderboard"]) == 1
    print_card(card)
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        *found.card["ensemble"]["decisions"],
        card["expected_performance"]["text"],
        "Members of the ensemble",
        "█",
        "without temperature scaling",
    ):
        assert part in text
    for one in card["ensemble"]["members"]:
        assert one["model"] in text


@pytest.mark.usefixtures("few_choice_rows")
def test_all_rows_are_scored_also_where_models_are_selected_on_few(table):
    card = fit_model(table, "extra trees", feature_map="nystroem").card
    assert "fitted to 36 rows" in card["scores"]["measure"]
    assert card["scores"]["rows"] == card["data"]["domains"] == dict.fromkeys(["north", "south", "west"], 24)


def test_settings_are_named_where_one_method_was_asked_for(table, capsys):
    found = fit_model(table, "logistic")
    assert found.card["settings"] == found.card["ensemble"]["members"][0]["params"] != {}
    print_card(found.card)
    text = capsys.readouterr().out
    assert "Members of the ensemble" not in text
    assert all(name in text for name in found.card["settings"])


@pytest.mark.parametrize("n_domains", [2, 3, 6, 20])
def test_what_is_said_to_be_possible_can_be_asked_for(n_domains):
    """And a point more cannot."""
    text = describe((0.8, 0.7, 0.9), [0.8] * n_domains)
    most = int(text.split("in up to ")[1].split("%")[0]) / 100
    pool = EnsembleClassifier([], np.empty(0), np.empty(0), conformal_scores=[np.linspace(0, 1, 7)] * n_domains)
    assert pool.resolve_coverage(most) == most
    with pytest.raises(ValueError, match="is not attainable"):
        pool.resolve_coverage(most + 0.011)


def describe(values, scores):
    return describe_expected_performance(Forecast(*values, metric="accuracy", scores=tuple(scores), is_percent=True))


def test_few_domains_that_disagree_promise_nothing_about_the_next():
    by_domain = [0.5, 0.9], [0.7, 0.8, 0.75, 0.77]
    found = [forecast(np.array(scores)) for scores in by_domain]
    told = [describe(expected, scores) for expected, scores in zip(found, by_domain, strict=True)]
    assert "2 held-out domains are too few for a prediction interval; at least 3 are needed" in told[0]
    assert "interval 0%" not in told[0]
    assert f"95% prediction interval {found[1][1]:.0%} to {found[1][2]:.0%}" in told[1]
    assert "the interval does not hold for a domain that differs more" in told[1]


def test_a_wide_forecast_of_few_rows_does_not_promise_that_fewer_domains_are_enough():
    """All domains agree by luck, and the forecast takes the spread that so few rows leave."""
    scores = [0.5, 0.5, 0.5, 0.5]
    text = describe(forecast(np.array(scores), n_rows=np.full(4, 6.25)), scores)
    spread = int(re.search(r"a standard deviation of (\d+) points", text)[1])
    assert spread >= 9  # 10 on the scale of the scores, a little less on that of the forecast


def with_doubtful_rows(model, share):
    """The same model, as if it had given the true class no probability in a share of rows of each held-out domain."""
    for scores in model.table_model.ensemble.conformal_scores:
        scores[:] = np.where(np.arange(len(scores)) < share * len(scores), 1.0, 0.2)
    return model


def test_sets_of_all_classes_are_stated(table, tmp_path):
    fit_model(table, "logistic").save(tmp_path / "m.unseen")
    model = with_doubtful_rows(load_model(tmp_path / "m.unseen"), 0.5)
    says = "all 3 classes, so the sets are uninformative: 3 held-out domains are too few for coverage 0.75"
    with pytest.warns(UserWarning, match=says):
        sets = model.predict_set(table.X, 0.75)
    assert all(len(own) == 3 for own in sets)
    assert says in model.predict_table(table.X, coverage=0.75).summary["sets"]["note"]
    assert model.predict_table(table.X, coverage=0.3).summary["sets"]["note"] == ""


def test_sets_by_default_are_those_of_the_coverage_that_is_stated(table, found):
    classifier = UnseenClassifier(["logistic"]).fit(table.X, table.y, sample_domain=table.domain)
    for predict_set in (classifier.predict_set, found.predict_set):
        with pytest.warns(CoverageWarning, match=r"coverage of these prediction sets is 0\.75,"):
            sets = predict_set(table.X)
        assert [own.tolist() for own in sets] == [own.tolist() for own in predict_set(table.X, 0.75)]


# Rows of new domains for transductive models


def pool_of(table, *transformers, smoothing=0.0):
    """Logistic regression behind each of these, fitted to a table."""
    members = [make_pipeline(*([] if one is None else [one]), LogisticRegression()) for one in transformers]
    share = np.full(len(members), 1 / len(members))
    pool = EnsembleClassifier(members, share, np.ones(len(members)), smoothing=smoothing)
    return pool.fit(table.X, table.y, sample_domain=table.domain)


TRANSDUCTIVE = {
    "projection": ([CIDG(centering="target")], 0.0),
    "centerer": ([None, DomainCenterer()], 0.0),
    "nested": ([make_pipeline(DomainCenterer(), StandardScaler())], 0.0),
    "smoothing": ([None], 1.0),
}


@pytest.mark.parametrize("kind", TRANSDUCTIVE)
def test_a_transductive_pool_refuses_fewer_than_ten_rows_of_a_new_domain(table, kind):
    transformers, smoothing = TRANSDUCTIVE[kind]
    pool = pool_of(table, *transformers, smoothing=smoothing)
    for predict in (pool.predict, pool.predict_proba, pool.decision_proba):
        for n in (1, 9):
            with pytest.raises(SmallBatchError, match=rf"The new domain has {n} rows?, .* fit with transductive=False"):
                predict(table.X[:n])
        assert len(predict(table.X[:10])) == 10
        with pytest.raises(SmallBatchError) as caught:
            predict(table.X[:20], sample_domain=np.array(["north"] * 11 + ["new"] * 9))
        assert (caught.value.domain, caught.value.rows) == ("new", 9)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("kind", ["projection", "centerer"])
def test_single_rows_of_source_domains_are_predicted_as_in_their_batch(table, kind):
    pool = pool_of(table, *TRANSDUCTIVE[kind][0])
    whole = pool.predict_proba(table.X, sample_domain=table.domain)
    for i in (0, 30, 60):
        alone = pool.predict_proba(table.X[i : i + 1], sample_domain=table.domain[i : i + 1])
        np.testing.assert_allclose(alone, whole[i : i + 1], atol=1e-12)
    smooth = pool_of(table, None, smoothing=1.0)
    with pytest.raises(SmallBatchError) as caught:  # neighbors are looked for in source domains, too
        smooth.predict(table.X[:1], sample_domain=table.domain[:1])
    assert "source domain" not in str(caught.value)


def test_a_pool_of_models_alone_promises_no_sets():
    with pytest.raises(ValueError, match="has no conformal_scores of held-out domains"):
        EnsembleClassifier([], np.empty(0), np.empty(0)).resolve_coverage(0.5)
