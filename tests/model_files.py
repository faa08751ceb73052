"""Models such as `fit` writes, and files of any content in the right frame."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

pytest.importorskip("polars", reason="tables need the extra")
pytest.importorskip("skops", reason="model files need the extra")

from helpers import three_domains
from unseen.model_selection import EnsembleClassifier
from unseen.models import _model_file as model_file
from unseen.models._model_file import CARD, PAYLOAD, save_model
from unseen.models._table_model import TableModel
from unseen.shift._novelty import Novelty
from unseen.tables import Column, Schema, Table, make_preprocessor


def small_table():
    """Numbers with gaps, a column of levels, labels of text."""
    X, y, codes = three_domains(n_per_cell=5, n_classes=2)
    X[::7, 0] = np.nan
    levels = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    columns = (*(Column(f"x{i}", "numeric") for i in range(4)), Column("sex", "categorical", ("f", "m", "x")))
    domain = np.array(["north", "south", "west"])[codes]
    return Table(np.column_stack([X, levels]), np.array(["ill", "well"])[y], domain, Schema(columns), [], "small")


TABLE = small_table()
PREPARED = make_preprocessor(TABLE.schema).fit(TABLE.X)


def by_hand(transformer, classifier):
    """A model such as `fit` makes of the choice of "auto", without the search."""
    Z = PREPARED.transform(TABLE.X)
    novelty = Novelty().fit(Z, sample_domain=TABLE.domain)
    steps = [] if transformer is None else [("transformer", transformer)]
    member = Pipeline([*steps, ("classifier", classifier)])
    pool = EnsembleClassifier([member], np.ones(1), np.ones(1), conformal_scores=[np.linspace(0, 1, 5)] * 3)
    return TableModel(PREPARED, pool.fit(Z, TABLE.y, sample_domain=TABLE.domain), novelty)


def answers(model, X, domain):
    """Everything a model says about some samples."""
    prepared = model.prepare(X)
    said = [votes.tobytes() for votes in model.ensemble.member_scores(prepared, domain)]
    likely = model.predict_proba(X, sample_domain=domain).tobytes()
    novelty = model.novelty.compare(model.novelty_features(prepared))
    return [model.predict(X, sample_domain=domain), novelty, likely, *said]


def assert_same_answers(model, other):
    for a, b in zip(answers(model, TABLE.X, TABLE.domain), answers(other, TABLE.X, TABLE.domain), strict=True):
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def saved(folder, model):
    save_model(model, folder / "model.unseen", {"method": "cidg", "name": "Zürich \u05d0"})
    return folder / "model.unseen"


def pack(path, card, payload, compression=zipfile.ZIP_DEFLATED):
    """Write a file of any content in the right frame; checksums are what anybody can compute."""
    if isinstance(card, dict):
        card = {**card, "sha256": model_file._card_checksum(card)}
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(CARD, card if isinstance(card, (str, bytes)) else json.dumps(card))
        archive.writestr(PAYLOAD, payload)


def unpack(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(CARD)), archive.read(PAYLOAD)


def inner_members(payload):
    """The files that a payload consists of, by name."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def inner_archive(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def with_payload(path, source, payload):
    """A file whose card agrees with a payload of somebody else's making."""
    card, _ = unpack(source)
    card["payload"]["sha256"] = model_file.hashlib.sha256(payload).hexdigest()
    pack(path, card, payload)
    return path
