"""Loading a model file acts on nothing: no network, no folder, no process, and little memory."""

from __future__ import annotations

import copy
import hashlib
import zipfile

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.compose import _column_transformer as column_transformer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler

pytest.importorskip("polars", reason="tables need the extra")
pytest.importorskip("skops", reason="model files need the extra")
import skops.io as skops

from helpers import measure_memory
from model_files import TABLE, by_hand, inner_archive, pack, saved, unpack, with_payload
from unseen import CIDG
from unseen.models import Model, ModelFileError, load_model
from unseen.models import _model as model_module
from unseen.models import _trusted_types as model_parts
from unseen.tables import Column, Schema
from unseen.utils.validation import MAX_LABEL_LENGTH


@pytest.fixture(scope="module")
def model():
    return by_hand(CIDG(), LogisticRegression())


@pytest.fixture
def file(tmp_path, model):
    """A model whose card names its columns, so that it is tried out when it is loaded."""
    path = saved(tmp_path, model)
    card, payload = unpack(path)
    pack(path, {**card, "schema": TABLE.schema.to_dict()}, payload)
    load_model(path)
    return path


def forge(path, file, model):
    """A file that holds another model under the card of a sound one, with checksums to match."""
    return with_payload(path, file, skops.dumps(model))


def megabytes_of_loading(sound, forged):
    """Memory that loading a forged file takes beyond that of a sound one, and the error that refuses it."""
    setup = "from unseen.models import load_model; load_model(arguments[0])"
    return measure_memory(setup, "load_model(arguments[1])", sound, forged)


# Side effects


def test_settings_of_how_to_compute_are_not_restored(file, tmp_path, monkeypatch):
    neighbors = copy.deepcopy(by_hand(None, KNeighborsClassifier(1, algorithm="brute", n_jobs=24)))
    neighbors.preprocessor.set_params(n_jobs=24, verbose=True)
    neighbors.preprocessor.set_output(transform="pandas")
    neighbors.ensemble.members_[0].set_params(memory=str(tmp_path / "memory"), verbose=True)
    started = []

    class Recorded(column_transformer.Parallel):
        def __init__(self, n_jobs=None, **more):
            started.append(n_jobs)
            super().__init__(n_jobs=n_jobs, **more)

    monkeypatch.setattr(column_transformer, "Parallel", Recorded)
    found = load_model(forge(tmp_path / "forged.unseen", file, neighbors)).estimator
    assert set(started) == {None}  # when the model is tried out
    assert found.preprocessor.n_jobs is None
    assert found.preprocessor.verbose is False
    assert not hasattr(found.preprocessor, "_sklearn_output_config")
    member = found.ensemble.members_[0]
    assert (member.memory, member.verbose, member[-1].n_jobs) == (None, False, None)
    assert not (tmp_path / "memory").exists()


# Memory


def doubling(n_features):
    """A transformer that gives every column of so many twice; forged, as to fit it would take its time."""
    everything = slice(0, model_parts.MAX_FEATURES)
    both = [("a", Normalizer(), everything), ("b", Normalizer(), everything)]
    transformer = ColumnTransformer(both, sparse_threshold=0).fit(np.zeros((2, 5)))
    for part in (transformer, *transformer.named_transformers_.values()):
        part.n_features_in_ = n_features
    return transformer


@pytest.mark.system
def test_transformers_that_widen_their_input_again_and_again_are_refused(file, model, tmp_path):
    """Eighteen in a row would give 5 * 2**18 columns, and each further one twice as many."""
    forged = copy.deepcopy(model)
    forged.preprocessor = Pipeline([(f"step{i}", doubling(5 * 2**i)) for i in range(18)])
    grown, said = megabytes_of_loading(file, forge(tmp_path / "forged.unseen", file, forged))
    assert "ColumnTransformer does not fit together: columns" in said
    assert grown < 50


def test_columns_may_be_named_by_position_slice_mask_or_name(file, model, tmp_path):
    pd = pytest.importorskip("pandas")
    X = TABLE.X[:, :4]
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"])
    for choice in ([0, -1], slice(1, 3), [True, False, True, False], ["x1", "x3"]):
        chosen = ColumnTransformer([("some", SimpleImputer(), choice), ("none", Normalizer(), [])])
        loaded = load_model(forge(tmp_path / "m.unseen", file, chosen.fit(frame))).estimator
        np.testing.assert_array_equal(loaded.transform(frame), chosen.transform(frame))


@pytest.mark.system
def test_a_long_description_of_nothing_is_refused_in_little_memory(file, tmp_path):
    """24 MB of empty dictionaries would become 600 MB of objects."""
    schema = b'{"protocol": 2, "content": [' + b"{}," * 8_000_000 + b"{}]}"
    payload = inner_archive({"schema.json": schema})
    card, _ = unpack(file)
    card["payload"]["sha256"] = hashlib.sha256(payload).hexdigest()
    forged = tmp_path / "forged.unseen"
    pack(forged, card, payload, zipfile.ZIP_STORED)  # so that it is not refused for its compression
    grown, said = megabytes_of_loading(file, forged)
    assert "brackets, commas and colons; at most 2,500,000 are read" in said
    assert grown < 5 * len(schema) / 2**20


def test_a_card_of_many_values_is_refused(file):
    card, payload = unpack(file)
    pack(file, {**card, "more": [{}] * 2_000_000}, payload)
    with pytest.raises(ModelFileError, match="brackets, commas and colons; at most 2,500,000 are read"):
        load_model(file)


def test_one_array_of_levels_is_not_used_for_many_columns(file, tmp_path):
    encoder = OneHotEncoder(sparse_output=False).fit(np.zeros((2, 30)))
    encoder.categories_ = [np.arange(10.0**5)] * 30
    encoder._n_features_outs = [10**5] * 30
    with pytest.raises(ModelFileError, match="OneHotEncoder does not fit together: levels"):
        load_model(forge(tmp_path / "forged.unseen", file, encoder))


def test_long_class_names_are_refused_as_every_prediction_would_take_as_much(file, tmp_path):
    forged = LogisticRegression().fit(TABLE.X[:, 1:4], TABLE.y)
    forged.classes_ = np.array(["ill", "w" * (MAX_LABEL_LENGTH + 1)])
    with pytest.raises(ModelFileError, match="holds text of 1,001 characters, more than 1,000"):
        load_model(forge(tmp_path / "forged.unseen", file, forged))


def test_a_declared_width_without_an_array_of_that_size_is_bounded(file, model, tmp_path):
    for width in (10**9, -1, 2.5):
        forged = copy.deepcopy(model)
        forged.novelty.n_features_in_ = width
        with pytest.raises(ModelFileError, match=f"Novelty has n_features_in_ = {width}; at most 4,194,304"):
            load_model(forge(tmp_path / "forged.unseen", file, forged))


@pytest.mark.system
def test_a_novelty_of_many_domains_takes_no_square_of_them(file, model, tmp_path):
    """One number of each of 9,000 domains; a matrix of all pairs would take 650 MB."""
    forged = copy.deepcopy(model)
    novelty = forged.novelty
    n = 9_000
    novelty.domains_ = np.arange(n).astype(str)
    novelty.means_ = np.zeros((n, len(novelty.knots_)), dtype=np.float32)
    novelty.counts_ = np.full(n, 5)
    novelty.traces_ = novelty.reference_ = np.ones(n)
    path = forge(tmp_path / "forged.unseen", file, forged)
    grown, _ = megabytes_of_loading(file, path)
    assert grown < 150
    novelty.domains_ = np.arange(20_000).astype(str)
    with pytest.raises(ModelFileError, match="Novelty does not fit together"):
        load_model(forge(tmp_path / "forged.unseen", file, forged))


def test_many_steps_in_a_row_are_refused(file, model, tmp_path):
    forged = copy.deepcopy(model)
    scaler = StandardScaler().fit(np.zeros((2, 5)))
    n_steps = model_parts.MAX_NODES // model_parts.ESTIMATOR_NODES
    forged.preprocessor = Pipeline([(f"step{i}", scaler) for i in range(n_steps)])
    with pytest.raises(ModelFileError, match="it has more than 200,000 parts, of which an estimator counts as 400"):
        load_model(forge(tmp_path / "forged.unseen", file, forged))


def wide_model(width):
    """A model whose first step makes many features of one row, from one row of random numbers."""
    features = RBFSampler(n_components=4, random_state=0)
    model = by_hand(features, LogisticRegression())
    sampler, classifier = model.ensemble.members_[0].steps[0][1], model.ensemble.members_[0].steps[1][1]
    rng = np.random.default_rng(0)
    sampler.random_weights_ = rng.normal(size=(len(sampler.random_weights_), width)).astype(np.float32)
    sampler.random_offset_ = np.zeros(width)
    sampler._n_features_out = classifier.n_features_in_ = width
    classifier.coef_ = np.zeros((1, width))
    return model


@pytest.mark.system
def test_a_wide_model_predicts_in_small_batches(file, tmp_path):
    """200,000 values of each row: 400 rows at once take 640 MB for each intermediate result."""
    forged = forge(tmp_path / "forged.unseen", file, wide_model(200_000))
    rows = np.zeros((400, 5))
    np.save(tmp_path / "rows.npy", rows)
    setup = "import numpy as np; from unseen.models import load_model; model = load_model(arguments[0])"
    predict = "import warnings; warnings.simplefilter('ignore'); model.predict_proba(np.load(arguments[1]))"
    grown, said = measure_memory(setup, predict, forged, tmp_path / "rows.npy")
    assert not said
    assert grown < 450


def test_a_model_that_is_too_wide_is_refused(file, tmp_path, monkeypatch):
    monkeypatch.setattr(model_parts, "MAX_WIDTH", 1000)
    with pytest.raises(ModelFileError, match=r" computes 2,000 values a row; at most 1,000 are allowed"):
        load_model(forge(tmp_path / "forged.unseen", file, wide_model(2000)))


def test_batches_give_the_same_predictions(model, monkeypatch):
    whole = Model(model, {"schema": TABLE.schema.to_dict()})
    split = Model(model, {"schema": TABLE.schema.to_dict()})
    monkeypatch.setattr(model_module, "MAX_BATCH_VALUES", 200)
    assert split._max_rows < len(TABLE.X) // 2
    monkeypatch.undo()
    for domain in (None, TABLE.domain):
        np.testing.assert_allclose(
            split.predict_proba(TABLE.X, sample_domain=domain), whole.predict_proba(TABLE.X, sample_domain=domain)
        )
    assert split.novelty(TABLE.X).ratio == pytest.approx(whole.novelty(TABLE.X).ratio)


def test_the_number_of_members_is_bounded_on_both_sides(file, tmp_path, model, monkeypatch):
    monkeypatch.setattr(model_parts, "MAX_MEMBERS", 0)
    with pytest.raises(ModelFileError, match="EnsembleClassifier does not fit together: members"):
        load_model(file)


# Structure


def test_attributes_that_replace_those_of_the_class_are_refused(file, model, tmp_path):
    for name in ("predict", "_doc_link_template", "_repr_html_"):
        forged = copy.deepcopy(model)
        vars(forged.ensemble)[name] = "<script>"
        with pytest.raises(ModelFileError, match=f"EnsembleClassifier has attributes that belong to its class: {name}"):
            load_model(forge(tmp_path / "forged.unseen", file, forged))


@pytest.mark.parametrize("key", ["also", "columns"])
def test_unknown_keys_in_the_columns_of_a_card_are_refused(file, key):
    card, payload = unpack(file)
    place = card["schema"] if key == "also" else card["schema"]["columns"][0]
    place["also"] = 1
    pack(file, card, payload)
    with pytest.raises(ModelFileError, match="does not describe the columns that the model needs"):
        load_model(file)


def test_a_schema_written_by_this_version_has_no_unknown_keys():
    schema = Schema((Column("age", "numeric"), Column("sex", "categorical", ("f", "m"))), "ill", "place", "patient")
    assert Schema.from_dict(schema.to_dict()) == schema
