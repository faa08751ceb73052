"""Tables larger than memory: many files, a sample that chooses, a stream that fits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

pytest.importorskip("polars", reason="reading tables needs the extra")
pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl

from cli_models import SITES, unseen
from helpers import fit_model
from unseen.models._model_file import load_model, read_card
from unseen.tables import TableError, iter_batches, list_files, load_table
from unseen.tables._load import read_survey, survey_table
from unseen.utils.samples import Samples


def frame(n, seed, width=3):
    """Patients of three sites, in turn, with two classes of unequal size."""
    rng = np.random.default_rng(seed)
    codes = (np.arange(n) % 5 == 0).astype(int)
    site = np.arange(n) // 2 % 3
    X = np.random.default_rng(9).normal(size=(2, width))[codes] + 0.4 * site[:, None] + rng.normal(size=(n, width))
    columns = {f"x{i}": X[:, i] for i in range(width)}
    return pl.DataFrame({**columns, "site": [SITES[s] for s in site], "label": [("ill", "well")[c] for c in codes]})


@pytest.fixture
def parts(tmp_path):
    """One table in a file, and in five parts."""
    table = frame(600, 0)
    table.write_parquet(tmp_path / "whole.parquet")
    (tmp_path / "parts").mkdir()
    for i in range(5):
        table.slice(120 * i, 120).write_parquet(tmp_path / "parts" / f"part-{i:04d}.parquet", row_group_size=50)
    return tmp_path


def same(one, two):
    for name in ("X", "y", "domain"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert one.schema == two.schema


@pytest.mark.parametrize("path", ["parts", "parts/part-*.parquet", "par*/*.parquet"])
@pytest.mark.parametrize("limit", [None, 50])
def test_parts_are_the_table_that_they_are_parts_of(parts, path, limit):
    found = load_table(parts / path, max_per_domain=limit)
    same(found, load_table(parts / "whole.parquet", max_per_domain=limit))
    assert "The 5 files are named like parts of one table, so 'site' is the domain column" in found.notices[1]


def test_parts_are_domains_if_told_so_or_called_so(parts):
    by_file = load_table(parts / "parts", drop=["site"])
    assert set(by_file.domain.tolist()) == {f"part-{i:04d}" for i in range(5)}
    for i in range(5):
        (parts / "parts" / f"part-{i:04d}.parquet").rename(parts / "parts" / f"hospital{i}.parquet")
    assert set(load_table(parts / "parts").domain.tolist()) == {f"hospital{i}" for i in range(5)}
    same(load_table(parts / "parts", domain="site"), load_table(parts / "whole.parquet"))


@pytest.mark.parametrize(
    ("name", "is_part"),
    [
        ("part-00003-4f2a.snappy", True),
        ("chunk_3", True),
        ("00012", True),
        ("part.7", True),
        ("rot15", False),
        ("batch_1", False),
        ("2019-leeds", False),
        ("party1", False),
    ],
)
def test_names_of_parts_are_numbers_with_or_without_a_word_for_a_part(parts, name, is_part):
    from unseen.tables._files import are_part_names

    assert are_part_names([name, name]) == is_part


def test_a_pattern_that_matches_nothing_is_refused(parts):
    with pytest.raises(TableError, match="a pattern must match files"):
        list_files(parts / "parts" / "*.csv")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    frame(60, 0).write_parquet(tmp_path / "a[1].parquet")
    assert [name for name, _ in list_files(tmp_path / "a[1].parquet")] == ["a[1]"]


def test_a_giant_row_group_is_read_in_slices(parts, monkeypatch):
    monkeypatch.setattr("unseen.tables._files.MAX_SLICE_VALUES", 100)
    frames = list(iter_batches(parts / "whole.parquet", ["x0", "x1"], size=20))
    assert max(part.height for part in frames) == 20
    assert pl.concat(frames).equals(pl.read_parquet(parts / "whole.parquet", columns=["x0", "x1"]))


@pytest.mark.parametrize("rows", [20, 119, 10_000])
def test_however_a_table_is_cut_into_parts_the_same_rows_are_drawn(parts, monkeypatch, rows):
    expected = read_survey(survey_table(parts / "parts").subsample(100, 3))
    monkeypatch.setattr("unseen.tables._survey.PART_ROWS", rows)
    monkeypatch.setattr("unseen.tables._survey.choose_batch_size", lambda width: 17)
    monkeypatch.setattr("unseen.tables._load.choose_batch_size", lambda width: 13)
    found = survey_table(parts / "parts")
    assert (len(found.parts) > 5) == (rows < 120)
    same(read_survey(found.subsample(100, 3)), expected)


def some_of(table, rows):
    """A part of a table, drawn as for the choice of settings."""
    return table.take(Samples(table.X, table.y, table.domain).subsample_rows(rows))


def projection_of(model):
    return model.ensemble.members_[0][0]


def test_a_sample_has_all_classes_of_all_domains_and_equal_domains(parts):
    for found in (
        read_survey(survey_table(parts / "whole.parquet").subsample(30, 0)),
        some_of(load_table(parts / "parts"), 30),
    ):
        cells = {(d, y) for d, y in zip(found.domain.tolist(), found.y.tolist(), strict=True)}
        assert len(cells) == 6
        assert np.unique(found.domain, return_counts=True)[1].tolist() == [10, 10, 10]


def test_a_table_that_does_not_fit_is_drawn_from_and_said(parts, monkeypatch):
    monkeypatch.setattr("unseen.tables._load.available_bytes", lambda: 4 * 8 * 3 * 300)
    found = load_table(parts / "parts")
    assert np.unique(found.domain, return_counts=True)[1].tolist() == [100, 100, 100]
    assert any("max_per_domain" in notice for notice in found.notices)


def test_a_stream_through_all_landmarks_is_the_exact_projection(parts):
    """With every sample a landmark nothing is approximated, so the model is that of one exact fit."""
    table = some_of(load_table(parts / "parts"), 90)
    exact = fit_model(table, "cidg").estimator
    found = fit_model(table, "cidg", feature_map="nystroem", n_landmarks=len(table.X))
    assert found.card["stream"]["trace_error"] < 1e-8
    Z, expected = (projection_of(m).transform(m.prepare(table.X)) for m in (found.estimator, exact))
    np.testing.assert_allclose(Z, expected, atol=1e-5 * np.abs(expected).max())


def test_a_stream_of_parts_is_one_fit_on_all_rows(parts, monkeypatch):
    monkeypatch.setattr("unseen.kernels._nystroem.FIT_ROWS", 120)
    source, table = survey_table(parts / "parts"), load_table(parts / "whole.parquet")
    told = []

    def progress(description, total, verbose):
        told.append(total)
        return nullcontext(told.append)

    monkeypatch.setattr("unseen.models._fit.progress", progress)
    sample = read_survey(source.subsample(120, 0))
    found = fit_model(source, "kfda", feature_map="nystroem", n_landmarks=40)
    assert (told[0], sum(told[1:])) == (600, 600)
    assert found.card["stream"]["projection_rows"] == 600
    assert found.card["stream"]["kernel_rows"] == len(sample.X)
    projection, prepared = projection_of(found.estimator), found.estimator.prepare(table.X)
    again = type(projection)(**projection.get_params(deep=False))
    again.fit(prepared, table.y, sample_domain=table.domain)
    np.testing.assert_allclose(projection.transform(prepared), again.transform(prepared), atol=1e-9)


def test_plain_models_see_the_sample(parts, monkeypatch):
    monkeypatch.setattr("unseen.kernels._nystroem.FIT_ROWS", 150)
    table = load_table(parts / "parts")
    sample = some_of(table, 150)
    found = fit_model(table, "logistic", feature_map="nystroem")
    assert "landmarks" not in found.card["stream"]
    assert found.card["stream"]["classifier_rows"] == len(sample.X)
    assert found.card["scores"]["by_domain"] == fit_model(sample, "logistic").card["scores"]["by_domain"]


@pytest.fixture
def large(monkeypatch):
    """What counts as a large table, scaled down."""
    for name, rows in {"EXACT_ROWS": 500, "FIT_ROWS": 150, "CHOICE_ROWS": 90}.items():
        monkeypatch.setattr(f"unseen.kernels._nystroem.{name}", rows)


@pytest.mark.usefixtures("large")
def test_above_a_size_landmarks_are_chosen_and_said_and_kept_in_the_card(parts):
    model = parts / "m.unseen"
    code, text = unseen("fit", parts / "parts", "--methods", "kfda", "-o", model)
    assert code == 0
    assert "600 rows: models that predict held-out domains are fitted to 90 rows with kernels" in text
    assert "held-out domains were fitted to 90 rows. Projections were fitted to 600 rows through" in text
    card = read_card(model)
    assert card["data"]["rows"] == 600
    assert card["data"]["domains"] == dict.fromkeys(SITES, 200)
    assert {entry["class"]: entry["rows"] for entry in card["data"]["classes"]} == {"ill": 480, "well": 120}
    assert card["stream"].keys() >= {"projection_rows", "kernel_rows", "landmarks", "trace_error"}
    fitted = load_model(model).estimator
    output = parts / "out.parquet"
    assert unseen("predict", model, parts / "parts" / "*.parquet", "-o", output)[0] == 0
    table = load_table(parts / "whole.parquet")
    assert pl.read_parquet(output)["label"].to_list() == fitted.predict(table.X).tolist()


@pytest.mark.usefixtures("large")
def test_an_interrupt_leaves_no_model(parts, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("unseen.models._fit.collect_statistics", interrupted)
    (parts / "m.unseen").write_text("old")
    code, text = unseen("fit", parts / "parts", "--methods", "kfda", "-o", parts / "m.unseen", "--overwrite")
    assert code == 130
    assert "Interrupted. Nothing was written." in text
    assert (parts / "m.unseen").read_text() == "old"
    assert {path.name for path in parts.iterdir()} == {"m.unseen", "parts", "whole.parquet"}


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (["--scheduler", "tcp://127.0.0.1:1"], 1, "127.0.0.1:1"),
        (["--landmarks", "0"], 2, "Invalid value for '--landmarks'"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused_before_the_work(parts, monkeypatch, options, code, reason):
    pytest.importorskip("distributed", reason="needs the extra dask")
    monkeypatch.setattr("unseen.cli._options.CONNECT_SECONDS", 0.3)
    found, text = unseen("fit", parts / "parts", "--methods", "kfda", "-o", parts / "m.unseen", *options)
    assert found == code
    assert reason in text
    assert not (parts / "m.unseen").exists()


@pytest.mark.usefixtures("large")
def test_a_missing_extra_is_named(parts, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, text = unseen(
        "fit", parts / "parts", "--methods", "kfda", "-o", parts / "m.unseen", "--scheduler", "tcp://127.0.0.1:1"
    )
    assert code == 2
    assert "pip install 'unseen[dask]'" in text


def test_parts_of_a_new_table_are_one_domain_and_other_files_a_domain_each(parts):
    model = parts / "m.unseen"
    assert unseen("fit", parts / "whole.parquet", "--methods", "1-nn", "-o", model)[0] == 0
    code, text = unseen("predict", model, parts / "parts", "-o", parts / "a.csv")
    assert code == 0
    assert "The 5 files are named like parts of one table, and read as one domain" in text
    assert "domain" not in pl.read_csv(parts / "a.csv").columns
    (parts / "parts" / "part-0000.parquet").rename(parts / "parts" / "oslo.parquet")
    assert unseen("predict", model, parts / "parts", "-o", parts / "b.csv")[0] == 0
    assert pl.read_csv(parts / "b.csv")["domain"].n_unique() == 5


RUN = """
import json, resource, sys
limit, choice, sample, commands = map(json.loads, sys.argv[1:])
import polars, skops.io, sklearn.svm
from unseen.cli import main
from unseen.kernels import _nystroem
_nystroem.CHOICE_ROWS, _nystroem.SAMPLE_ROWS, _nystroem.FIT_ROWS = choice, sample, sample
resource.setrlimit(resource.RLIMIT_DATA, (limit << 20, limit << 20))
for command in commands:
    sys.argv = ["unseen", *command]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}


def run(limit, *commands, choice, sample):
    """Run commands one after the other in one process of limited memory, which saves its imports."""
    commands = [[*map(str, command)] for command in commands]
    arguments = [sys.executable, "-c", RUN, *map(json.dumps, (limit, choice, sample, commands))]
    done = subprocess.run(arguments, capture_output=True, text=True, env=os.environ | ONE_THREAD, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def write_parts(folder, rows, width):
    """Forty files; values of few digits, which take little room on the disk and all of it in memory."""
    folder.mkdir()
    first = frame(rows, 0, width).with_columns((pl.col(r"^x\d+$") * 2).round() / 2)
    for i in range(40):
        features = pl.col(r"^x\d+$") + (i % 7) / 2
        first.with_columns(features).write_parquet(folder / f"part-{i:04d}.parquet", compression="lz4")
    return 40 * rows * width * 8


def check_fit_and_predict(tmp_path, rows, width, limit, method, choice, sample):
    size = write_parts(tmp_path / "parts", rows, width)
    assert size > 1.05 * (limit << 20)
    model, output = tmp_path / "m.unseen", tmp_path / "out.parquet"
    fit = ["fit", tmp_path / "parts", "--methods", method, "--landmarks", 50, "-o", model]
    predict = ["predict", model, tmp_path / "parts" / "part-*.parquet", "--domain", "site", "-o", output]
    said = run(limit, fit, [*predict, "--batch-size", 1000], choice=choice, sample=sample)
    assert f"Projections were fitted to {40 * rows:,} rows through 50 landmarks" in " ".join(said.split())
    facts = read_card(model)
    assert facts["stream"]["projection_rows"] == facts["data"]["rows"] == 40 * rows
    assert sum(facts["data"]["domains"].values()) == 40 * rows
    assert pl.scan_parquet(output).select(pl.len()).collect().item() == 40 * rows


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_forty_files_are_fitted_selected_and_predicted_in_less_memory_than_they_take(tmp_path):
    check_fit_and_predict(tmp_path, rows=7_000, width=280, limit=560, method="kfda", choice=150, sample=300)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_gigabyte_and_a_half_is_fitted_in_half_of_it(tmp_path):
    check_fit_and_predict(tmp_path, rows=20_000, width=250, limit=760, method="cidg", choice=300, sample=3000)
