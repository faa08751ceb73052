"""``fit`` of many methods gives a pool: what is in it, what its card promises, and what a file of it holds."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("polars", reason="tables need the extra")
pytest.importorskip("skops", reason="model files need the extra")
pytest.importorskip("typer", reason="the command needs its extra")

from helpers import three_domains
from unseen import UnseenClassifier
from unseen.cli._show import describe
from unseen.kernels import Plan
from unseen.models import Model, fit_table, load_model, model_card, save_model
from unseen.models._card import promise
from unseen.selection import METHODS, Pool, forecast
from unseen.tables import Column, Schema, Table

SEVERAL = ["logistic", "CIDG", "centred logistic"]


@pytest.fixture(scope="module")
def table():
    """Three sites, three classes, every column in the same units."""
    X, y, codes = three_domains(n_per_cell=8)
    columns = tuple(Column(f"x{i}", "numeric") for i in range(X.shape[1]))
    return Table(X, y, np.array(["north", "south", "west"])[codes], Schema(columns), [], "three sites")


@pytest.fixture(scope="module")
def found(table):
    return fit_table(table, SEVERAL, scale="none")


def test_several_methods_are_the_pool_of_unseen_classifier(table, found):
    expected = UnseenClassifier(SEVERAL).fit(table.X, table.y, sample_domain=table.domain)
    assert [one["params"] for one in found.pool["members"]] == [one["params"] for one in expected.members_]
    weights, same = ([one["weight"] for one in members] for members in (found.pool["members"], expected.members_))
    np.testing.assert_allclose(weights, same, atol=1e-5)
    assert (found.name, found.kind) == (expected.best_model_, expected.best_kind_)
    assert found.pool["decisions"] == expected.decisions_
    assert found.pool["forecast"] == expected.forecast_
    X = table.X + 0.3
    np.testing.assert_allclose(found.model.predict_proba(X), expected.predict_proba(X), atol=1e-5)


def test_scores_of_a_pool_are_those_of_the_row_that_was_chosen(table, found):
    (chosen,) = [row for row in found.leaderboard if row["chosen"]]
    assert found.scores == chosen["scores"]
    assert list(found.scores) == ["north", "south", "west"]
    mean, low, high = forecast(np.array([*found.scores.values()]))
    assert found.pool["forecast"][0] == mean
    assert found.pool["forecast"][1] <= low <= high <= found.pool["forecast"][2]  # samples are noise as well
    assert {row["model"] for row in found.leaderboard} >= {"logistic", "CIDG + logistic", "centred logistic"}


def test_an_inductive_pool_needs_no_batches(table):
    found = fit_table(table, SEVERAL, inductive=True)
    assert {row["kind"] for row in found.leaderboard} <= {"plain", "inductive"}
    assert not found.model.transductive
    assert found.pool["decisions"] == []
    one_by_one = np.vstack([found.model.predict_proba(row[None]) for row in table.X[::5]])
    np.testing.assert_allclose(one_by_one, found.model.predict_proba(table.X)[::5], atol=1e-12)


def test_a_plain_classifier_beside_a_pool_takes_no_part_in_it(table):
    found = fit_table(table, ["CIDG", "centred logistic"])
    assert "logistic" not in {one["model"] for one in found.pool["members"]}
    assert set(found.baseline) == set(found.scores)


def test_samples_that_members_share_are_stored_once_and_shared_again(table, tmp_path):
    found = fit_table(table, ["CIDG", "KFDA"], inductive=True, scale="none")
    model, path = found.model, tmp_path / "m.unseen"
    holding = [member for member in model.pool.members_ if hasattr(member[0], "X_fit_")]
    assert len(holding) > 2
    save_model(model, path, model_card(table, found))
    with zipfile.ZipFile(path) as outer, zipfile.ZipFile(io.BytesIO(outer.read("model.skops"))) as inner:
        arrays = [np.load(io.BytesIO(inner.read(name))) for name in inner.namelist() if name.endswith(".npy")]
    assert sum(array.shape == table.X.shape for array in arrays) == 1
    copies = [load_model(path).estimator, pickle.loads(pickle.dumps(model))]
    for other in copies:
        assert len({id(member[0].X_fit_) for member in other.pool.members_}) == 1
        np.testing.assert_array_equal(other.predict_proba(table.X), model.predict_proba(table.X))


def test_a_pool_sees_all_rows_through_landmarks_that_its_projections_share(table, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "CIDG", replace(METHODS["CIDG"], coarse={"gamma": ["median"], "ridge": [0.1, 1.0]}))
    found = fit_table(table, ["CIDG", "logistic"], plan=Plan.of(len(table.X), exact=False, landmarks=20))
    assert {one["model"] for one in found.pool["members"]} >= {"CIDG + logistic"}
    assert (found.stream["projection_rows"], found.stream["landmarks"]) == (len(table.X), 20)
    assert f"Projections saw {len(table.X)} rows through 20 landmarks" in found.remarks[0]
    assert "; classifiers saw" in found.remarks[0]
    maps = [vars(member[0]).get("feature_map_") for member in found.model.pool.members_]
    assert len({id(own.estimator) for own in maps if own is not None}) == 1
    save_model(found.model, tmp_path / "m.unseen", {})
    again = load_model(tmp_path / "m.unseen").estimator
    np.testing.assert_array_equal(again.predict_proba(table.X), found.model.predict_proba(table.X))


def test_a_pool_without_a_projection_saw_a_sample(table):
    found = fit_table(table, ["logistic", "nearest mean"], plan=Plan.of(len(table.X), exact=False))
    assert f"holds no projection, so it saw a sample: {len(table.X)} rows" in found.remarks[0]


def test_the_card_says_who_is_in_the_pool_why_and_what_to_expect(table, found, capsys):
    card = json.loads(json.dumps(model_card(table, found), allow_nan=False))
    assert sum(one["weight"] for one in card["pool"]["members"]) == pytest.approx(1)
    assert set(card["pool"]["calibration"]) == {"before", "after"}
    assert sum(row["chosen"] for row in card["leaderboard"]) == 1
    describe(card)
    text = " ".join(capsys.readouterr().out.split())
    for part in (*found.pool["decisions"], card["promise"], "What is in the pool", "█", "before they were tempered"):
        assert part in text
    for one in card["pool"]["members"]:
        assert one["model"] in text


def test_settings_are_named_where_one_method_was_asked_for(table, capsys):
    found = fit_table(table, "logistic")
    assert found.settings == found.pool["members"][0]["params"] != {}
    describe(model_card(table, found))
    text = capsys.readouterr().out
    assert "What is in the pool" not in text
    assert "before they were tempered" in text


@pytest.mark.parametrize("n_domains", [2, 3, 6, 20])
def test_what_is_said_to_be_possible_can_be_asked_for(n_domains):
    """And a point more cannot."""
    text = promise((0.8, 0.7, 0.9), n_domains)
    most = int(text.split("in up to ")[1].split("%")[0]) / 100
    pool = Pool([], np.empty(0), np.empty(0), held_out=[np.linspace(0, 1, 7)] * n_domains)
    assert 0 <= pool.threshold(most) <= 1
    with pytest.raises(ValueError, match="cannot be promised"):
        pool.threshold(most + 0.011)


def test_few_domains_that_disagree_promise_nothing_about_the_next():
    found = [forecast(np.array(scores)) for scores in ([0.5, 0.9], [0.7, 0.8, 0.75, 0.77])]
    told = [promise(expected, n) for expected, n in zip(found, (2, 4), strict=True)]
    assert "2 domains cannot say how far off that may be" in told[0]
    assert "between" not in told[0]
    assert f"with 95% confidence between {found[1][1]:.0%} and {found[1][2]:.0%}" in told[1]
    assert "nothing is promised for a stranger one" in told[1]


def test_predictions_of_a_model_in_memory_are_those_of_its_file(table, found, tmp_path):
    model = Model(found.model, model_card(table, found))
    model.save(tmp_path / "m.unseen")
    again = load_model(tmp_path / "m.unseen")
    names = np.where(table.domain == "west", "new", table.domain)
    for domain in (None, names):
        np.testing.assert_array_equal(
            again.predict_proba(table.X, sample_domain=domain), model.predict_proba(table.X, sample_domain=domain)
        )
        sets = [one.predict_set(table.X, 0.75, sample_domain=domain) for one in (model, again)]
        assert [own.tolist() for own in sets[0]] == [own.tolist() for own in sets[1]]
        assert again.explain(table.X, sample_domain=domain) == model.explain(table.X, sample_domain=domain)


def test_a_pool_of_models_alone_promises_no_sets():
    with pytest.raises(ValueError, match="knows no held-out domains, from which prediction sets follow"):
        Pool([], np.empty(0), np.empty(0)).sets(np.eye(2), 0.5)
