"""The commands that fit, use and show models, run in this process; a table, and a model of every kind."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl
from typer.testing import CliRunner

from command import run_command
from helpers import fit_model
from unseen import CIDG, KFDA, DomainCenterer
from unseen.cli._app import app
from unseen.model_selection import Candidate, EnsembleClassifier
from unseen.models._model_file import load_model, save_model
from unseen.models._table_model import TableModel
from unseen.tables import Schema, load_table

FEATURES = ["x0", "x1", "x2", "sex"]
SITES = ["north", "south", "west"]


def unseen(*args):
    return run_command(app, *args)


def printed_json(*args):
    result = CliRunner().invoke(app, [*map(str, args), "--format", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def frame(n, site, seed, labels=("ill", "well"), names=SITES):
    """Patients of one site: three numbers with gaps, a column of levels, a label."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % len(labels)
    center = np.random.default_rng(99).normal(size=(len(labels), 3)) * 2
    X = center[codes] + 0.7 * names.index(site) + rng.normal(size=(n, 3))
    columns = {f"x{i}": [None if rng.random() < 0.05 else float(v) for v in X[:, i]] for i in range(3)}
    sex = rng.choice(["f", "m"], n).tolist()
    return pl.DataFrame({**columns, "sex": sex, "site": [site] * n, "label": [labels[c] for c in codes]})


def write_home(folder):
    """A training table, new tables, and a fitted model of every kind."""
    train = pl.concat([frame(24, site, i) for i, site in enumerate(SITES)])
    train.write_csv(folder / "train.csv")
    new = pl.concat([frame(30, "lima", 7, names=["lima"]), frame(20, "oslo", 8, names=["oslo"])])
    new.write_parquet(folder / "new.parquet")
    new.write_csv(folder / "new.csv")
    (folder / "sites").mkdir()
    for name in ("lima", "oslo"):
        new.filter(pl.col("site") == name).drop("site").write_csv(folder / "sites" / f"{name}.csv")
    table = load_table(folder / "train.csv", label="label", domain="site")
    assert unseen("fit", folder / "train.csv", "--methods", "logistic", "-o", folder / "plain.unseen")[0] == 0
    assert unseen("fit", folder / "train.csv", "--methods", "RBF SVM", "-o", folder / "svm.unseen")[0] == 0
    source, target, centered = KFDA(ridge=1.0), CIDG(ridge=1.0, centering="target"), DomainCenterer()
    write(table, folder / "source.unseen", source)
    write(table, folder / "target.unseen", target)
    write(table, folder / "centered.unseen", centered)
    write(table, folder / "rowwise.unseen", source, None, CIDG(ridge=1.0))
    write(table, folder / "pool.unseen", target, None, source, centered, clone(target).set_params(ridge=0.1))
    write(table, folder / "smooth.unseen", None, target, smoothing=2.0)
    return folder


def write(table, path, *transformers, smoothing=0.0):
    """What `fit` writes, with a pool made by hand: logistic regression behind each of these, of falling weight."""
    plain = fit_model(table, "1-nn")
    candidates = [Candidate("", {}, transformer, LogisticRegression()) for transformer in transformers]
    weights = np.arange(len(candidates), 0, -1.0)
    how = {
        "smoothing": smoothing,
        "inverse_temperature": 1.2,
        "conformal_scores": plain.estimator.ensemble.conformal_scores,
    }
    pool = EnsembleClassifier([one.pipeline for one in candidates], weights / weights.sum(), 1 / weights, **how)
    pool.fit(plain.estimator.prepare(table.X), table.y, sample_domain=table.domain)
    model = TableModel(plain.estimator.preprocessor, pool, plain.estimator.novelty)
    save_model(model, path, plain.card)


def encoded(home, name="new.parquet"):
    """The new table, whole, as a model sees it."""
    facts = load_model(home / "plain.unseen").card
    table = pl.read_parquet(home / name)
    return Schema.from_dict(facts["schema"]).encode(table), table["site"].to_numpy()


def predictions(path):
    return pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)


def probabilities(table):
    return table.select(pl.col("^p\\(.*$")).to_numpy()
