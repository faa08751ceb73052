"""One API: functions on tables share parameters and meaning, results have names, and a card can be read by people."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

import unseen  # noqa: E402
from helpers import three_domains  # noqa: E402
from unseen import UnseenClassifier  # noqa: E402
from unseen.datasets import load_rotated_digits, make_synthetic  # noqa: E402
from unseen.exceptions import DataWarning  # noqa: E402
from unseen.model_selection import Forecast, Leaderboard, LeaderboardRow, get_metric  # noqa: E402
from unseen.models import Model, ModelFileError, load_model  # noqa: E402

COLUMNS = {"label": "diagnosis", "domain": "hospital"}


def make_hospitals(names=("bonn", "graz", "kiel", "leeds", "metz", "oslo"), rows=20, seed=0):
    rng = np.random.default_rng(seed)
    parts = []
    for k, name in enumerate(names):
        ill = rng.random(rows) < 0.5
        part = pd.DataFrame({"age": rng.normal(50 + k / 4, 8, rows) + 10 * ill, "crp": rng.normal(3, 1, rows) + ill})
        part["sex"] = rng.choice(["f", "m"], rows)
        parts.append(part.assign(diagnosis=np.where(ill, "ill", "well"), hospital=name))
    return pd.concat(parts, ignore_index=True)


TABLE = make_hospitals()
SMALL = make_hospitals(["bonn", "leeds", "oslo"], rows=30)
NEW_SITE = make_hospitals(["new"], seed=1).drop(columns=["diagnosis", "hospital"])


@pytest.fixture(scope="module")
def model():
    return unseen.fit(TABLE, **COLUMNS, methods="logistic")


# Data in every form


def test_a_table_and_its_arrays_give_the_same_model(model, tmp_path):
    expected = model.predict_proba(NEW_SITE)
    TABLE.to_csv(tmp_path / "table.csv", index=False)
    X = TABLE.drop(columns=["diagnosis", "hospital"])
    y = TABLE["diagnosis"]
    domain = TABLE["hospital"]
    for found in (
        unseen.fit(tmp_path / "table.csv", **COLUMNS, methods="logistic"),
        unseen.fit(X, y, sample_domain=domain, methods="logistic"),
        unseen.fit(TABLE.drop(columns="diagnosis"), y, domain="hospital", methods="logistic"),
    ):
        np.testing.assert_allclose(found.predict_proba(NEW_SITE), expected, atol=1e-12)
        assert found.expected_performance == model.expected_performance
    assert found.schema.label == "diagnosis"


def test_arrays_are_fitted_as_the_same_columns():
    X = SMALL[["age", "crp"]]
    table = unseen.fit(SMALL, **COLUMNS, features=["age", "crp"], methods="logistic")
    arrays = unseen.fit(X.to_numpy(), SMALL["diagnosis"], sample_domain=SMALL["hospital"], methods="logistic")
    new = NEW_SITE[["age", "crp"]]
    np.testing.assert_allclose(arrays.predict_proba(new.to_numpy()), table.predict_proba(new), rtol=1e-9)
    assert arrays.card["scores"]["by_domain"] == table.card["scores"]["by_domain"]


def test_a_name_of_y_that_is_taken_does_not_replace_a_feature():
    y = SMALL["diagnosis"].rename("age")
    X = SMALL[["age", "crp"]]
    found = unseen.fit(X, y, sample_domain=SMALL["hospital"], methods="logistic")
    assert found.schema.feature_names == ["age", "crp"]
    assert found.schema.label == "age_"


WRONG = {
    "y and label": ({"data": TABLE, "y": TABLE["diagnosis"], "label": "diagnosis"}, "Pass y or label, not both"),
    "labels missing": ({"data": TABLE[["age"]].to_numpy()}, "Samples need labels and domains"),
    "too few labels": (
        {"data": TABLE, "y": TABLE["diagnosis"][1:], "domain": "hospital"},
        "120 rows, but y has 119 labels",
    ),
    "options for arrays": (
        {"data": np.eye(4), "y": [0, 1, 0, 1], "sample_domain": [0, 0, 1, 1], "drop": ["x"], "dates": "ordinal"},
        "'drop', 'dates' can be set for a table in a file or DataFrame only",
    ),
    "path and y": ({"data": "table.csv", "y": [1, 2]}, "cannot be combined with the path of a table"),
    "feature map": (dict(data=TABLE, **COLUMNS, feature_map="fourier"), "feature_map must be one of auto, none"),
    "metric": (dict(data=TABLE, **COLUMNS, metric="acuracy"), "There is no metric 'acuracy'"),
    "regression": (dict(data=TABLE, **COLUMNS, metric="r2"), "There is no metric .r2."),
    "transductive": (dict(data=TABLE, **COLUMNS, methods="centered logistic"), "transductive"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_call_of_fit_names_the_parameter(mistake):
    arguments, message = WRONG[mistake]
    with pytest.raises(ValueError, match=message):
        unseen.fit(**arguments)


# Parameters


def parameters(function):
    return inspect.signature(function).parameters


def test_functions_on_tables_share_names_and_defaults():
    functions = [unseen.fit, unseen.compare, unseen.diagnose]
    assert all(list(parameters(function))[:3] == ["data", "y", "sample_domain"] for function in functions)
    for name in ("label", "domain", "group", "unlabeled", "dates", "categories", "scale", "random_state"):
        assert len({repr(parameters(function)[name].default) for function in functions}) == 1, name
    for name in ("metric", "balance", "n_jobs", "client", "max_per_domain", "verbose"):
        assert len({repr(parameters(function)[name].default) for function in functions[:2]}) == 1, name


def test_options_of_a_command_that_describe_the_data_or_the_model_are_parameters_of_the_function():
    pytest.importorskip("typer")
    from unseen.cli._diagnose import diagnose
    from unseen.cli._fit import fit

    shared = {"label", "domain", "group", "features", "drop", "unlabeled", "dates", "categories", "scale", "methods"}
    shared |= {"metric", "balance", "transductive", "feature_map", "max_per_domain"}
    for command, function in ((fit, unseen.fit), (diagnose, unseen.diagnose)):
        options = shared & set(parameters(command))
        assert len(options) >= 9
        assert options <= set(parameters(function))


def test_the_metric_decides_scores_and_expected_performance():
    found = unseen.fit(SMALL, **COLUMNS, methods="logistic", metric="roc_auc")
    assert found.expected_performance.metric == "AUC"
    assert not found.expected_performance.is_percent
    assert found.card["scores"]["measure"].startswith("AUC on a domain")


@pytest.mark.parametrize("name", ["f1", "log_loss"])
def test_a_metric_has_one_meaning_as_metric_and_as_scoring(name):
    X, y, d = three_domains()
    scores = [
        UnseenClassifier(["logistic"], scoring=scoring).fit(X, y == 1, sample_domain=d).best_score_
        for scoring in (name, get_metric(name).scoring)
    ]
    assert scores[0] == scores[1]


def test_options_without_effect_are_reported():
    with pytest.warns(DataWarning, match="n_landmarks not used with exact kernels.*feature_map to nystroem"):
        unseen.fit(SMALL, **COLUMNS, methods="logistic", n_landmarks=10)


def test_landmarks_and_balance_reach_the_fit():
    with pytest.warns(DataWarning, match="landmarks"):
        found = unseen.fit(
            SMALL, **COLUMNS, methods="KFDA", feature_map="nystroem", n_landmarks=12, balance="classes", drop=["sex"]
        )
    assert found.card["stream"]["landmarks"] <= 12
    assert found.card["balance"] == "classes"
    assert found.schema.feature_names == ["age", "crp"]


# Results with names


def test_a_forecast_explains_itself():
    scores = (0.75, 0.8, 0.85, 0.8)
    forecast = Forecast(0.8, 0.7, 0.9, metric="accuracy", scores=scores, is_percent=True)
    assert str(forecast) == (
        "Expected accuracy on a new domain: 80%, 95% prediction interval 70% to 90% (4 held-out domains)."
    )
    wide = replace(forecast, lower=0.2, upper=1.0)
    assert not wide.is_informative
    assert "20%" not in str(wide)
    few = replace(forecast, scores=scores[:2])
    assert "2 held-out domains are too few for a prediction interval" in str(few)
    assert "&lt;b&gt;" in replace(forecast, metric="<b>")._repr_html_()


def test_a_leaderboard_is_a_sequence_and_a_table():
    rows = (
        LeaderboardRow("<b>", "plain", 0.9, 0.01, {"a": 0.85, "b": 0.95}, weight=1.0, is_selected=True),
        LeaderboardRow("failed", "inductive", np.nan, np.nan, {"a": np.nan, "b": np.nan}),
    )
    board = Leaderboard(rows)
    assert (len(board), board[0], board[-1], board.selected) == (2, rows[0], rows[1], rows[0])
    assert list(board[1:]) == [rows[1]]
    frame = board.to_frame()
    assert frame["model"].tolist() == ["<b>", "failed"]
    assert frame["score_b"].tolist()[0] == 0.95
    header, first, second = repr(board).splitlines()
    assert header.split() == ["model", "kind", "mean", "standard_error", "weight"]
    assert first.split() == ["<b>", "plain", "0.900", "0.010", "1.000", "selected"]
    assert second.split() == ["failed", "inductive", "-", "-", "0.000"]
    assert "&lt;b&gt;" in board._repr_html_()
    assert "<b>" not in board._repr_html_()


def test_expected_performance_is_that_of_the_classifier_and_survives_a_file(model, tmp_path):
    pytest.importorskip("skops")
    model.save(tmp_path / "model.unseen")
    copy = load_model(tmp_path / "model.unseen")
    expected = model.expected_performance
    assert copy.expected_performance == expected
    assert expected.scores == tuple(model.card["scores"]["by_domain"].values())
    assert expected.lower < expected.mean < expected.upper
    broken = Model(model.estimator, {**model.card, "expected_performance": {}})
    with pytest.raises(ModelFileError, match="does not contain the expected performance"):
        broken.expected_performance  # noqa: B018


# The card in a notebook


def test_the_card_says_what_people_ask(model):
    page = model._repr_html_()
    text = " ".join(re.sub("<[^>]*>", " ", page).split())
    expected = model.expected_performance
    for part in (
        "predicts diagnosis in new domains",
        "Classes 2: ill, well",
        "120 rows, 3 features",
        "Domains 6: bonn",
        model.card["expected_performance"]["text"],
        f"95% prediction interval {100 * expected.lower:.0f}% to {100 * expected.upper:.0f}%",
        "plain: classifies row by row",
        "Columns age, crp, sex",
        f"unseen {unseen.__version__}",
    ):
        assert part in text
    assert repr(model) == "<Model: logistic regression predicts 'diagnosis' (ill, well); 120 rows of 6 domains>"


def test_the_card_of_an_ensemble_lists_members_by_weight():
    found = unseen.fit(SMALL, **COLUMNS, methods=["logistic", "linear SVM"], transductive=False)
    shares = re.findall(r"<td>(\d+)%</td>", found._repr_html_())
    assert sorted(map(int, shares), reverse=True) == list(map(int, shares))
    assert "ensemble of" in repr(found)


@pytest.mark.parametrize("card", [{}, {"data": {"classes": 3}}, {"model": "<b>", "schema": []}], ids=str)
def test_a_card_of_another_kind_gets_a_short_text(card):
    page = Model(None, card)._repr_html_()
    assert page.startswith("<p>")
    assert "<b>" not in page


# Data sets


@pytest.mark.parametrize("load", [make_synthetic, load_rotated_digits])
def test_loaders_return_features_labels_and_domains(load):
    options = {"random_state": 0} if load is make_synthetic else {}
    bunch = load(**options)
    X, y, sample_domain = load(return_X_y=True, **options)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)
    np.testing.assert_array_equal(sample_domain, bunch.domain)
    X, y, sample_domain = load(return_X_y=True, as_frame=True, **options)
    assert isinstance(X, pd.DataFrame)
    assert (y.name, sample_domain.name) == ("target", "domain")
