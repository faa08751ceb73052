"""``unseen predict``: the answers of the whole table, in pieces, in its order, whatever its columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl

from cli_models import FEATURES, SITES, encoded, predictions, printed_json, probabilities, unseen
from unseen.models._file import load_model, read_card
from unseen.models._model import Centres


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("size", [7, 20_000])
@pytest.mark.parametrize("model", ["plain", "source", "svm"])
def test_predictions_are_those_of_the_whole_table_in_its_order(home, tmp_path, model, size, ending):
    output = tmp_path / f"out{ending}"
    command = ["predict", home / f"{model}.unseen", home / f"new{ending}", "-o", output, "--batch-size", size]
    facts = printed_json(*command)
    fitted, _ = load_model(home / f"{model}.unseen")
    X, _ = encoded(home)
    found = predictions(output)
    np.testing.assert_array_equal(found["label"].to_numpy(), fitted.predict(X))
    if model == "svm":
        assert found.columns == ["label"]
        assert not facts["probabilities"]
    else:
        assert found.columns == ["label", "p(ill)", "p(well)"]
        np.testing.assert_allclose(probabilities(found), fitted.predict_proba(X), rtol=1e-12)
    assert facts["rows"] == len(found) == 50
    assert {entry["label"]: entry["rows"] for entry in facts["labels"]} == dict(
        found["label"].value_counts().iter_rows()
    )
    assert list(tmp_path.iterdir()) == [output]


def test_models_without_probabilities_say_so(home, tmp_path):
    assert (
        "gives labels without probabilities"
        in unseen("predict", home / "svm.unseen", home / "new.csv", "-o", tmp_path / "o.csv")[1]
    )


@pytest.mark.parametrize("model", ["target", "centred"])
@pytest.mark.parametrize("size", [3, 20_000])
@pytest.mark.parametrize("by_domain", [False, True])
def test_transductive_predictions_in_pieces_are_those_of_whole_batches(home, tmp_path, model, size, by_domain):
    output = tmp_path / "out.parquet"
    options = ["--domain", "site"] if by_domain else []
    command = ["predict", home / f"{model}.unseen", home / "new.parquet", "-o", output, "--batch-size", size, *options]
    assert printed_json(*command)["transductive"]
    fitted, _ = load_model(home / f"{model}.unseen")
    X, domain = encoded(home)
    found = predictions(output)
    expected = fitted.predict_proba(X, sample_domain=domain if by_domain else None)
    np.testing.assert_allclose(probabilities(found), expected, atol=1e-10)
    assert ("domain" in found.columns) == by_domain


def test_a_model_centred_on_the_sources_may_be_centred_on_the_target(home, tmp_path):
    output = tmp_path / "out.parquet"
    command = ["predict", home / "source.unseen", home / "new.parquet", "-o", output, "--domain", "site"]
    assert not printed_json(*command)["transductive"]
    before = probabilities(predictions(output))
    assert printed_json(*command, "--center", "target", "--batch-size", 4)["transductive"]
    fitted, _ = load_model(home / "source.unseen")
    fitted.transformer.set_params(centering="target")
    X, domain = encoded(home)
    after = probabilities(predictions(output))
    np.testing.assert_allclose(after, fitted.predict_proba(X, sample_domain=domain), atol=1e-10)
    assert np.abs(after - before).max() > 0.01


def test_a_folder_is_one_domain_per_file(home, tmp_path):
    output = tmp_path / "out.csv"
    facts = printed_json("predict", home / "target.unseen", home / "sites", "-o", output, "--batch-size", 11)
    fitted, _ = load_model(home / "target.unseen")
    X, domain = encoded(home)  # lima before oslo, as in the folder
    found = predictions(output)
    assert found["domain"].to_list() == domain.tolist()
    np.testing.assert_allclose(probabilities(found), fitted.predict_proba(X, sample_domain=domain), atol=1e-10)
    assert [entry["domain"] for entry in facts["novelty"]] == ["lima", "oslo"]


@given(
    cuts=st.lists(st.integers(0, 50), max_size=5),
    names=st.lists(st.sampled_from([*SITES, "a", "b"]), min_size=50, max_size=50),
)
@settings(max_examples=15)
@pytest.mark.parametrize("model", ["target", "centred"])
def test_centres_found_in_pieces_are_those_of_the_whole(home, model, cuts, names):
    """New domains anywhere among known ones, and pieces of any size, empty ones too."""
    fitted, _ = load_model(home / f"{model}.unseen")
    prepared = fitted.prepare(encoded(home)[0])
    domain = np.array(names)
    domain[:2] = domain[2:4] = ["a", "b"]  # no new domain of a single sample
    centres, cuts = Centres(fitted), sorted(cuts)
    pieces = list(zip(np.split(prepared, cuts), np.split(domain, cuts), strict=True))
    for piece, its_domain in pieces:
        if len(piece):
            centres.add(piece, its_domain)
    centres.check()
    found = np.vstack([centres.transform(*piece) for piece in pieces if len(piece[0])])
    np.testing.assert_allclose(found, fitted.transformer.transform(prepared, sample_domain=domain), atol=1e-10)


def test_columns_are_found_by_name_whatever_their_order_and_company(home, tmp_path):
    new = pl.read_csv(home / "new.csv", infer_schema=False)
    shuffled = new.select(pl.lit("?").alias("mood"), *reversed(FEATURES), "site")
    shuffled.write_csv(tmp_path / "shuffled.csv")
    code, text = unseen("predict", home / "plain.unseen", tmp_path / "shuffled.csv", "-o", tmp_path / "a.csv")
    assert code == 0
    assert "1 column of shuffled.csv not used: mood." in text
    assert "Pass --domain site to tell domains apart" in text
    unseen("predict", home / "plain.unseen", home / "new.csv", "-o", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_rows_from_far_away_are_warned_of(home, tmp_path):
    new = pl.read_parquet(home / "new.parquet")
    new.with_columns(pl.col("x0", "x1", "x2") + 500).write_csv(tmp_path / "far.csv")
    code, text = unseen("predict", home / "plain.unseen", tmp_path / "far.csv", "-o", tmp_path / "o.csv")
    assert code == 0
    assert "Far outside" in text
    assert "Warning: The new rows lie outside of what the model has seen" in text
    assert "Warning" not in unseen("predict", home / "plain.unseen", home / "train.csv", "-o", tmp_path / "o.csv")[1]
    facts = printed_json(
        "predict", home / "plain.unseen", tmp_path / "far.csv", "-o", tmp_path / "o.csv", "--domain", "site"
    )
    assert [entry["far"] for entry in facts["novelty"]] == [True, True]


def test_columns_that_are_missing_here_but_not_in_training_are_named(home, tmp_path):
    new = pl.read_parquet(home / "new.parquet")
    changed = new.with_columns(x1=None, sex=pl.when(pl.int_range(50) < 20).then("sex"), x2=pl.lit(1e200))
    changed.write_parquet(tmp_path / "gaps.parquet")
    for model in ("plain", "centred"):  # one pass over the table, and two
        command = ["predict", home / f"{model}.unseen", tmp_path / "gaps.parquet", "-o", tmp_path / "o.csv"]
        text = unseen(*command, "--batch-size", 7)[1]
        assert (
            "Note: Mostly missing here, so the predictions rest on the other columns: 'x1 (50 of 50 values)', "
            "'x2 (50 of 50 values)', 'sex (30 of 50 values)'." in text
        )
        assert [entry["column"] for entry in printed_json(*command)["mostly_missing"]] == ["x1", "x2", "sex"]
    assert (
        "Mostly missing" not in unseen("predict", home / "plain.unseen", home / "new.csv", "-o", tmp_path / "o.csv")[1]
    )


def test_what_was_missing_in_training_as_well_is_no_news(home, tmp_path):
    train = pl.read_csv(home / "train.csv").with_columns(x1=pl.when(pl.int_range(72) % 3 == 0).then("x1"))
    train.write_csv(tmp_path / "train.csv")
    assert unseen("fit", tmp_path / "train.csv", "--method", "1nn", "-o", tmp_path / "m.unseen")[0] == 0
    missing = read_card(tmp_path / "m.unseen")["data"]["missing"]
    assert missing["x1"] == pytest.approx(2 / 3, abs=0.05)
    assert "sex" not in missing
    new = pl.read_csv(home / "new.csv").with_columns(x1=None, x2=None)
    new.write_csv(tmp_path / "new.csv")
    text = unseen("predict", tmp_path / "m.unseen", tmp_path / "new.csv", "-o", tmp_path / "o.csv")[1]
    assert "other columns: 'x2 (50 of 50 values)'." in text
