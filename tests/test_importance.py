"""Importance of columns by domain, and the columns that drive single predictions."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

import unseen
from unseen.models import held_out_importance
from unseen.models._importance import permute_columns
from unseen.utils.samples import Samples

pd = pytest.importorskip("pandas")
ROLES = {"label": "ill", "domain": "site"}


def make_table(seed=0, n_domains=4, size=150):
    rng = np.random.default_rng(seed)
    n = n_domains * size
    ill = rng.integers(2, size=n)
    sex = np.where(rng.random(n) < 0.3 + 0.4 * ill, "f", "m")
    site = np.repeat([f"s{i}" for i in range(n_domains)], size)
    code = np.where(site == "s0", 1 - ill, ill) + 0.4 * rng.normal(size=n)  # reversed in one site
    columns = {"age": rng.normal(size=n) + 2 * ill, "sex": sex, "noise": rng.normal(size=n), "code": code}
    return pd.DataFrame({**columns, "ill": ill, "site": site})


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def model(table):
    return unseen.fit(table[table["site"] != "s0"], **ROLES, methods="logistic")


@pytest.mark.filterwarnings("ignore::unseen.exceptions.NewDataWarning")
def test_importance_is_the_loss_of_the_score(model, table):
    """Against a direct computation on one domain, over many permutations."""
    here = table[table["site"] == "s0"].reset_index(drop=True)
    importance = model.importance(here, metric="accuracy", n_repeats=40, max_per_domain=None)
    [(name, score)] = importance.scores.items()
    assert name == "all rows"
    assert score == accuracy_score(here["ill"], model.predict(here.drop(columns=["ill", "site"])))
    rng = np.random.default_rng(9)
    for column in ("age", "sex"):
        losses = []
        for _ in range(40):
            permuted = here.drop(columns=["ill", "site"])
            permuted[column] = rng.permutation(permuted[column])
            losses.append(score - accuracy_score(here["ill"], model.predict(permuted)))
        error = np.std(losses) / np.sqrt(20)
        assert importance[column].mean == pytest.approx(np.mean(losses), abs=4 * error + 1e-9)


def test_a_column_that_is_reversed_in_a_new_domain_has_negative_importance_there(model, table):
    importance = model.importance(table, sample_domain="site")
    assert list(importance.scores) == ["s0", "s1", "s2", "s3"]
    assert importance["code"].by_domain["s0"] < -0.1
    assert importance["code"].by_domain["s1"] > 0.05
    assert abs(importance["noise"].mean) < 0.02
    means = [entry.mean for entry in importance.columns]
    assert means == sorted(means, reverse=True)
    entry = importance["age"]
    assert entry.lower < entry.mean < entry.upper
    assert entry.mean == pytest.approx(np.mean(list(entry.by_domain.values())))
    summary = importance.summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert len(importance.to_frame()) == 4


def test_labels_may_be_an_array_and_rows_without_a_known_label_are_left_out(model, table):
    features = table.drop(columns=["ill", "site"])
    by_array = model.importance(features, table["ill"], sample_domain=table["site"].to_numpy())
    by_column = model.importance(table, sample_domain="site")
    assert by_array.scores == by_column.scores
    unknown = table.assign(ill=table["ill"].astype(object))
    unknown.loc[::3, "ill"] = None
    assert model.importance(unknown, sample_domain="site").scores.keys() == by_column.scores.keys()
    with pytest.raises(ValueError, match="Labels are needed"):
        model.importance(features)
    with pytest.raises(ValueError, match="No label"):
        model.importance(features, np.full(len(features), 7))


def test_held_out_importance_uses_models_of_the_other_domains(table):
    result = held_out_importance(table, **ROLES, methods="logistic", n_repeats=3)
    assert result.is_held_out
    assert result["code"].by_domain["s0"] < 0
    # The score of a domain is that of a model fitted to the others.
    others = table[table["site"] != "s2"]
    here = table[table["site"] == "s2"]
    alone = unseen.fit(others, **ROLES, methods="logistic").predict(here.drop(columns=["ill", "site"]))
    assert result.scores["s2"] == pytest.approx(accuracy_score(here["ill"], alone))
    with pytest.raises(ValueError, match="at least 3 domains"):
        held_out_importance(table[table["site"] < "s2"], **ROLES, methods="logistic")


def test_explanations_name_the_columns_that_move_the_probability(model, table):
    rows = table.drop(columns=["ill", "site"]).head(5)
    usual = {"age": np.median([table[table["site"] == s]["age"].median() for s in ("s1", "s2", "s3")])}
    for i, explanation in enumerate(model.explain(rows)):
        effects = {entry["column"]: entry["effect"] for entry in explanation["columns"]}
        replaced = rows.iloc[[i]].assign(age=usual["age"])
        position = list(model.classes_).index(explanation["label"])
        expected = explanation["probability"] - model.predict_proba(replaced)[0, position]
        assert effects.get("age", 0.0) == pytest.approx(expected, abs=1e-4)
        sizes = [abs(effect) for effect in effects.values()]
        assert sizes == sorted(sizes, reverse=True)


def test_a_linear_model_is_driven_by_its_largest_contribution():
    """Where columns are independent and the model is linear, the order of effects is that of contributions."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    y = (X @ [2.0, 1.0, 0.0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(ill=y, site=np.repeat(["x", "y", "z"], 100))
    model = unseen.fit(frame, **ROLES, methods=("lr", LogisticRegression(), {"C": [1.0]}), scale="none")
    row = pd.DataFrame({"a": [0.1], "b": [2.0], "c": [0.5]})
    assert model.explain(row)[0]["columns"][0]["column"] == "b"


def test_the_page_and_the_figure_show_all_columns(model, table):
    pytest.importorskip("jinja2")
    plt = pytest.importorskip("matplotlib.pyplot")
    importance = model.importance(table, sample_domain="site", n_repeats=1)
    page = importance.to_html()
    assert all(f">{name}</bdi>" in page for name in ("age", "sex", "noise", "code", "s0"))
    figure = importance.plot()
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == [entry.column for entry in importance.columns]
    plt.close(figure)


def test_permutations_that_are_predicted_at_once_give_the_same_losses(model, table):
    here = table[table["site"].isin(["s1", "s2"])]
    X, domain, codes = model.read_labeled(here, None, "site")
    samples = Samples(X, model.classes_[codes], np.asarray(domain).astype(str), model.classes_)

    def predict(rows, domains):
        return model.table_model.predict_proba(rows, sample_domain=domains)

    single = permute_columns(predict, samples, model.schema, "accuracy", 3, 0)
    for max_batch_rows in (500, 100_000):
        batched = permute_columns(predict, samples, model.schema, "accuracy", 3, 0, max_batch_rows)
        np.testing.assert_allclose(batched[1], single[1], atol=1e-12)


def test_a_constant_column_has_no_importance(table):
    partly = table.assign(part=np.where(table["site"] == "s1", 1.0, table["age"]))
    importance = held_out_importance(partly, **ROLES, methods="logistic", n_repeats=2)
    assert importance["part"].by_domain["s1"] == 0.0
    assert importance["part"].by_domain["s2"] != 0.0
    with pytest.raises(KeyError, match="column='part '"):
        importance["part "]
