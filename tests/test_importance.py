"""Importance of columns on held-out sites."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import unseen
from unseen.evaluation._measures import summarize_importance

pd = pytest.importorskip("pandas")
ROLES = {"label": "ill", "domain": "site"}
LOGISTIC = ("logistic model", LogisticRegression())


def by_name(importance):
    return {entry["column"]: entry for entry in importance["columns"]}


def make_table(seed=0, n_sites=4, size=120):
    rng = np.random.default_rng(seed)
    n = n_sites * size
    ill = rng.integers(2, size=n)
    site = np.repeat([f"s{i}" for i in range(n_sites)], size)
    code = np.where(site == "s0", 1 - ill, ill) + 0.8 * rng.normal(size=n)  # reversed at one site
    constant = np.where(site == "s1", 1.0, rng.normal(size=n))  # at one site
    columns = {"age": rng.normal(size=n) + 2 * ill, "noise": rng.normal(size=n), "code": code, "constant": constant}
    return pd.DataFrame({**columns, "ill": ill, "site": site})


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def importance(table):
    return unseen.validate(table, **ROLES, methods=LOGISTIC, compare_with=(), importance=True).importance


@pytest.mark.filterwarnings("ignore::unseen.exceptions.NewDataWarning", "ignore::unseen.exceptions.DataWarning")
def test_importance_is_the_loss_of_auc_of_a_model_of_the_other_sites(importance, table):
    """Against a direct computation on one site, over many permutations."""
    here = table[table["site"] == "s2"].reset_index(drop=True)
    model = unseen.fit(table[table["site"] != "s2"], **ROLES, methods=LOGISTIC)
    features = here.drop(columns=["ill", "site"])
    score = roc_auc_score(here["ill"], model.predict_proba(features)[:, 1])
    assert importance["scores"]["s2"] == pytest.approx(score)
    rng = np.random.default_rng(9)
    for column in ("age", "code"):
        losses = []
        for _ in range(20):
            permuted = features.assign(**{column: rng.permutation(features[column])})
            losses.append(score - roc_auc_score(here["ill"], model.predict_proba(permuted)[:, 1]))
        error = np.std(losses) / np.sqrt(5)
        assert by_name(importance)[column]["by_domain"]["s2"] == pytest.approx(np.mean(losses), abs=4 * error)


def test_a_column_that_is_reversed_at_a_site_has_negative_importance_there(importance):
    assert list(importance["scores"]) == ["s0", "s1", "s2", "s3"]
    columns = by_name(importance)
    assert columns["code"]["by_domain"]["s0"] < -0.02
    assert columns["code"]["by_domain"]["s1"] > 0
    assert abs(columns["noise"]["mean"]) < 0.02
    assert columns["constant"]["by_domain"]["s1"] == 0
    means = [entry["mean"] for entry in importance["columns"]]
    assert means == sorted(means, reverse=True)
    entry = columns["age"]
    assert entry["lower"] < entry["mean"] < entry["upper"]
    assert entry["mean"] == pytest.approx(np.mean(list(entry["by_domain"].values())))
    assert json.loads(json.dumps(importance, allow_nan=False)) == importance


def test_one_site_has_an_importance_without_an_interval():
    result = summarize_importance(["oslo"], ["age", "sex"], np.array([0.8]), np.array([[0.02], [0.05]]))
    assert [entry["column"] for entry in result["columns"]] == ["sex", "age"]
    assert all(math.isnan(entry["lower"]) for entry in result["columns"])


def test_sites_without_an_auc_are_left_out_of_the_mean():
    losses = np.array([[0.1, np.nan, 0.3], [0.0, np.nan, 0.0]])
    result = summarize_importance(list("abc"), ["age", "sex"], np.array([0.5, np.nan, 0.4]), losses)
    assert by_name(result)["age"]["mean"] == pytest.approx(0.2)
    assert summarize_importance(["a"], ["age"], np.array([np.nan]), np.array([[np.nan]])) is None


def test_a_site_of_one_class_has_no_auc_to_lose(table):
    alone = table.assign(ill=np.where(table["site"] == "s3", 1, table["ill"]))
    result = unseen.validate(alone, **ROLES, methods=LOGISTIC, compare_with=(), importance=True, positive=1)
    assert math.isnan(result.importance["scores"]["s3"])
    assert math.isnan(by_name(result.importance)["age"]["by_domain"]["s3"])
    assert math.isfinite(by_name(result.importance)["age"]["mean"])
