"""``unseen predict``: the answers of the whole table, in pieces, in its order, whatever its columns."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl

import unseen as unseen_library
from cli_models import FEATURES, encoded, predictions, printed_json, probabilities, unseen
from unseen.cli._predict import predict
from unseen.models import Model
from unseen.models._model_file import load_model


@pytest.mark.parametrize(
    ("model", "size", "ending"),
    [
        *(("plain", size, ending) for size in (7, 20_000) for ending in (".csv", ".parquet")),
        *((model, 7, ".csv") for model in ("source", "svm", "rowwise")),
        *(
            pytest.param(model, size, ending, marks=pytest.mark.slow)
            for model in ("source", "svm", "rowwise")
            for size, ending in ((7, ".parquet"), (20_000, ".csv"), (20_000, ".parquet"))
        ),
    ],
)
def test_predictions_are_those_of_the_whole_table_in_its_order(home, tmp_path, model, size, ending):
    output = tmp_path / f"out{ending}"
    command = ["predict", home / f"{model}.unseen", home / f"new{ending}", "-o", output, "--batch-size", size]
    facts = printed_json(*command)
    fitted = load_model(home / f"{model}.unseen").estimator
    X, _ = encoded(home)
    found = predictions(output)
    np.testing.assert_array_equal(found["label"].to_numpy(), fitted.predict(X))
    assert found.columns == ["label", "p(ill)", "p(well)"]
    np.testing.assert_allclose(probabilities(found), fitted.predict_proba(X), rtol=1e-12)
    assert facts["rows"] == len(found) == 50
    assert {entry["label"]: entry["rows"] for entry in facts["labels"]} == dict(
        found["label"].value_counts().iter_rows()
    )
    assert list(tmp_path.iterdir()) == [output]


def test_the_command_reads_as_many_rows_at_a_time_as_the_library():
    command, library = (inspect.signature(asked).parameters["batch_size"] for asked in (predict, Model.open_table))
    assert command.default == library.default


@pytest.mark.parametrize(
    ("model", "size"),
    [
        *((model, 3) for model in ("target", "centered", "pool")),
        ("pool", 20_000),
        *(pytest.param(model, 20_000, marks=pytest.mark.slow) for model in ("target", "centered")),
    ],
)
@pytest.mark.parametrize("by_domain", [False, True])
def test_transductive_predictions_in_pieces_are_those_of_whole_batches(home, tmp_path, model, size, by_domain):
    output = tmp_path / "out.parquet"
    options = ["--domain", "site"] if by_domain else []
    command = ["predict", home / f"{model}.unseen", home / "new.parquet", "-o", output, "--batch-size", size, *options]
    assert printed_json(*command)["transductive"]
    fitted = load_model(home / f"{model}.unseen").estimator
    X, domain = encoded(home)
    found = predictions(output)
    expected = fitted.predict_proba(X, sample_domain=domain if by_domain else None)
    np.testing.assert_allclose(probabilities(found), expected, atol=1e-10)
    assert ("domain" in found.columns) == by_domain


def test_neighbors_are_looked_for_among_rows_that_are_read_together(home, tmp_path):
    command = ["predict", home / "smooth.unseen", home / "new.parquet", "-o", tmp_path / "o.parquet"]
    said = "smoothed over the nearest neighbors within a batch"
    assert said not in unseen(*command)[1]
    fitted, (X, _) = load_model(home / "smooth.unseen").estimator, encoded(home)
    whole = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities(predictions(tmp_path / "o.parquet")), whole, atol=1e-10)
    assert said in unseen(*command, "--batch-size", 20)[1]
    prepared = fitted.prepare(X)
    centers = fitted.ensemble.moments(prepared)
    expected = [fitted.ensemble.combine_members(prepared[rows : rows + 20], None, centers) for rows in (0, 20, 40)]
    found = probabilities(predictions(tmp_path / "o.parquet"))
    np.testing.assert_allclose(found, np.vstack(expected), atol=1e-10)
    assert np.abs(found - whole).max() > 1e-3


@pytest.mark.parametrize("size", [7, 20_000])
@pytest.mark.parametrize("model", ["plain", "pool"])
def test_sets_are_a_column_of_labels_with_the_likeliest_first(home, tmp_path, model, size):
    output = tmp_path / "o.csv"
    command = ["predict", home / f"{model}.unseen", home / "new.csv", "-o", output, "--batch-size", size]
    facts, found = printed_json(*command, "--coverage", 0.7), predictions(output)
    assert found.columns == ["label", "set", "p(ill)", "p(well)"]
    sets = load_model(home / f"{model}.unseen").predict_set(home / "new.csv", 0.7)
    assert found["set"].to_list() == [" | ".join(own.tolist()) for own in sets]
    assert found["label"].to_list() == [own[0] for own in sets]
    assert facts["sets"] == {"coverage": 0.7, "classes": np.mean([len(own) for own in sets]), "note": ""}
    assert "for a coverage of 70%" in unseen(*command, "--coverage", 0.7)[1]
    assert printed_json(*command)["sets"] is None


@pytest.mark.parametrize(("coverage", "reason"), [(0.8, "3 held-out domains: at most"), (80, "is not between 0 and 1")])
def test_sets_that_cannot_be_promised_are_refused_before_anything_is_read(home, tmp_path, coverage, reason):
    model = load_model(home / "plain.unseen")
    for ask in (model.predict_set, lambda data, c: model.predict_table(data, coverage=c)):
        with pytest.raises(ValueError, match=reason):
            ask(tmp_path / "none.csv", coverage)
    command = [
        "predict",
        home / "plain.unseen",
        tmp_path / "none.csv",
        "-o",
        tmp_path / "o.csv",
        "--coverage",
        coverage,
    ]
    code, text = unseen(*command)
    assert code == 2
    assert reason in text
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_one_domain_per_file(home, tmp_path):
    output = tmp_path / "out.csv"
    facts = printed_json("predict", home / "target.unseen", home / "sites", "-o", output, "--batch-size", 11)
    fitted = load_model(home / "target.unseen").estimator
    X, domain = encoded(home)  # lima before oslo, as in the folder
    found = predictions(output)
    assert found["domain"].to_list() == domain.tolist()
    np.testing.assert_allclose(probabilities(found), fitted.predict_proba(X, sample_domain=domain), atol=1e-10)
    assert [entry["domain"] for entry in facts["novelty"]] == ["lima", "oslo"]


def test_columns_are_found_by_name_whatever_their_order_and_company(home, tmp_path):
    new = pl.read_csv(home / "new.csv", infer_schema=False)
    shuffled = new.select(pl.lit("?").alias("mood"), *reversed(FEATURES), "site")
    shuffled.write_csv(tmp_path / "shuffled.csv")
    code, text = unseen("predict", home / "plain.unseen", tmp_path / "shuffled.csv", "-o", tmp_path / "a.csv")
    assert code == 0
    assert "1 column of shuffled.csv not used: mood." in text
    assert "Set --domain to site to distinguish domains" in text
    unseen("predict", home / "plain.unseen", home / "new.csv", "-o", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_labels_in_the_table_are_compared_with_the_predictions(home, tmp_path):
    output, rows = tmp_path / "o.parquet", pl.int_range(50)
    label = pl.when(rows < 4).then(None).when(rows < 6).then(pl.lit("dead")).otherwise("label")
    new = pl.read_parquet(home / "new.parquet").with_columns(label=label)
    new.write_csv(tmp_path / "new.csv")
    command = ["predict", home / "target.unseen", tmp_path / "new.csv", "-o", output, "--domain", "site"]
    found = printed_json(*command, "--batch-size", 7)["agreement"]
    both = new.select("site", truth="label").hstack(predictions(output).select("label")).drop_nulls("truth")
    right = both.filter(pl.col("truth") == pl.col("label"))
    assert (found["rows"], found["right"], found["unlabeled"]) == (46, right.height, 4)
    assert found["accuracy"] == right.height / 46
    assert {entry["domain"]: entry["right"] for entry in found["domains"]} == dict(
        right["site"].value_counts().iter_rows()
    )
    table = {**dict(zip(found["classes"], found["counts"], strict=True)), "dead": found["others"]["counts"]}
    met = {(true, said): n for true in table for said, n in zip(found["classes"], table[true], strict=True) if n}
    assert met == {(true, said): n for true, said, n in both.group_by("truth", "label").len().iter_rows()}
    text = " ".join(unseen(*command)[1].split())
    assert (
        f"Accuracy: {100 * right.height / 46:.1f}%, {right.height} of 46 rows correct; 4 rows without a label" in text
    )
    assert "2 rows with labels that the model was not trained on, such as 'dead'" in text
    assert "any other" in text


def test_a_table_without_labels_has_no_accuracy(home, tmp_path):
    new = pl.read_parquet(home / "new.parquet")
    for changed in (new.drop("label"), new.with_columns(label=None), new.with_columns(label=pl.concat_list("label"))):
        changed.write_parquet(tmp_path / "new.parquet")
        command = ["predict", home / "plain.unseen", tmp_path / "new.parquet", "-o", tmp_path / "o.csv"]
        assert printed_json(*command)["agreement"] is None
    assert "Accuracy" not in unseen(*command)[1]
    folder = tmp_path / "sites"
    folder.mkdir()
    new.write_csv(folder / "a.csv")
    new.drop("label").write_csv(folder / "b.csv")
    assert "Accuracy" not in unseen("predict", home / "plain.unseen", folder, "-o", tmp_path / "o.csv")[1]


def test_whole_numbers_agree_however_they_are_written():
    sites = pl.DataFrame({"x": [0.0, 1.0] * 12, "site": ["a", "b", "c"] * 8, "label": [-1, 7] * 12})
    model = unseen_library.fit(sites, label="label", domain="site", methods="1-nn")
    labels = ["7", " 7", "7.0", "-1", "7.5", "seven", "NA"]
    found = model.predict_table({"x": [1.0] * 7, "label": labels}).summary["agreement"]
    assert found["counts"] == [[0, 1], [0, 3]]
    assert (found["others"]["labels"], found["unlabeled"]) == (["7.5", "seven"], 1)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_columns_may_be_kept(home, tmp_path, ending):
    output = tmp_path / f"o{ending}"
    numbered = pl.read_parquet(home / "new.parquet").with_row_index("id").with_columns(mood=pl.format("a, {}", "id"))
    numbered.write_parquet(tmp_path / "new.parquet")
    command = ["predict", home / "plain.unseen", tmp_path / "new.parquet", "-o", output, "--batch-size", 7, "--keep"]
    code, text = unseen(*command, "mood,id")
    assert code == 0
    assert "not used" not in text
    found = predictions(output)
    assert found.columns == ["mood", "id", "label", "p(ill)", "p(well)"]
    assert found["id"].to_list() == list(range(50))
    assert found["mood"].to_list() == numbered["mood"].to_list()
    assert unseen(*command, "all")[0] == 0
    found = predictions(output)
    assert found.columns == [*numbered.columns[:-2], "label (input)", "mood", "label", "p(ill)", "p(well)"]
    assert found["label (input)"].to_list() == numbered["label"].to_list()
    code, text = unseen(*command, "idd")
    assert code == 2
    assert "it has no column 'idd': did you mean 'id'?" in text


def test_one_row_is_one_row(home, tmp_path):
    pl.read_parquet(home / "new.parquet").head(1).write_csv(tmp_path / "one.csv")
    text = unseen("predict", home / "plain.unseen", tmp_path / "one.csv", "-o", tmp_path / "o.csv")[1]
    assert "1 row" in text
    assert "1 rows" not in text
