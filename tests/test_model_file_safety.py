"""Model files run nothing: pickles, strangers and parts that would crash compiled code are refused."""

from __future__ import annotations

import copy
import os
import pickle
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

pytest.importorskip("polars", reason="tables need the extra")
pytest.importorskip("skops", reason="model files need the extra")
import skops.io as skops

from model_files import assert_same_answers, by_hand, pack, saved, unpack, with_payload
from unseen import CIDG
from unseen.models import _file as model_file
from unseen.models._file import TRUSTED, ModelFileError, load_model, read_card, save_model
from unseen.selection._families import HEADS


@pytest.fixture(scope="module")
def model():
    return by_hand(CIDG(), LogisticRegression())


@pytest.fixture
def file(tmp_path, model):
    return saved(tmp_path, model)


class Trap:
    """What an attacker would write: unpickling it leaves a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_a_pickle_is_never_read_wherever_it_hides(file, tmp_path):
    mark = tmp_path / "mark"
    trap = pickle.dumps(Trap(mark))
    alone = tmp_path / "alone.unseen"
    alone.write_bytes(trap)
    hidden = with_payload(tmp_path / "hidden.unseen", file, trap)
    array = tmp_path / "array.unseen"
    _, payload = unpack(file)
    with zipfile.ZipFile(model_file.io.BytesIO(payload)) as inner:
        members = {name: inner.read(name) for name in inner.namelist()}
    buffer = model_file.io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as inner:
        for name, content in members.items():  # every array becomes one of objects, which NumPy stores as a pickle
            if name.endswith(".npy"):
                objects = model_file.io.BytesIO()
                np.save(objects, np.array([Trap(mark)], dtype=object), allow_pickle=True)
                content = objects.getvalue()
            inner.writestr(name, content)
    with_payload(array, file, buffer.getvalue())
    for path in (alone, hidden, array):
        with pytest.raises(ModelFileError):
            load_model(path)
    assert not mark.exists()


def loads_altered(file, tmp_path, model, alter):
    """Load a copy of a model in which something was changed, with checksums to match."""
    other = copy.deepcopy(model)
    alter(other.pipeline[-1], other.preprocessor)
    return load_model(with_payload(tmp_path / "altered.unseen", file, skops.dumps(other)))


def setting(name, value):
    return lambda classifier, _: setattr(classifier, name, value(getattr(classifier, name)))


ALTERED_NEIGHBOURS = {
    "labels": setting("_y", lambda y: y + 10**9),
    "negative labels": setting("_y", lambda y: y - 10**6),
    "fewer labels": setting("_y", lambda y: y[:3]),
    "narrower rows": setting("_fit_X", lambda X: X[:, :1].copy()),
    "no rows": setting("_fit_X", lambda X: X[:0]),
    "n_neighbors": setting("n_neighbors", lambda _: 10**9),
    "metric": setting("metric", lambda _: "haversine"),
    "effective metric": setting("effective_metric_", lambda _: "haversine"),
    "algorithm": setting("_fit_method", lambda _: "kd_tree"),
}
ALTERED_SVC = {
    "counts": setting("_n_support", lambda n: n + np.int32(10**8)),
    "counts that cancel": setting("_n_support", lambda n: n + np.array([10**8, -(10**8)], dtype=np.int32)),
    "more classes": setting("_n_support", lambda n: np.append(n, np.zeros(500, dtype=np.int32))),
    "fewer support vectors": setting("support_vectors_", lambda v: v[:1].copy()),
    "narrower support vectors": setting("support_vectors_", lambda v: v[:, :1].copy()),
    "fewer coefficients": setting("_dual_coef_", lambda c: c[:, :1].copy()),
    "no intercept": setting("_intercept_", lambda i: i[:0]),
    "another problem": setting("_impl", lambda _: "epsilon_svr"),
    "another kernel": setting("kernel", lambda _: "precomputed"),
    "sparse": setting("_sparse", lambda _: True),
    "some probabilities": setting("_probA", lambda _: np.zeros(1)),
}


def alter_encoder(name, value):
    def alter(_, preprocessor):
        encoder = preprocessor.named_transformers_["levels"]
        setattr(encoder, name, value(getattr(encoder, name)))

    return alter


ALTERED_ENCODER = {
    "fewer columns": alter_encoder("_n_features_outs", lambda _: [1]),
    "negative columns": alter_encoder("_n_features_outs", lambda _: [-5]),
    "unsorted levels": alter_encoder("categories_", lambda levels: [own[::-1].copy() for own in levels]),
    "a level for nothing": alter_encoder("_infrequent_indices", lambda rare: [np.array([10**9]) for _ in rare]),
    "another place": alter_encoder("_default_to_infrequent_mappings", lambda m: [np.full(3, 10**12) for _ in m]),
}


@pytest.mark.parametrize("change", ALTERED_NEIGHBOURS)
def test_neighbours_that_would_crash_compiled_code_are_refused(file, tmp_path, change):
    model = by_hand(None, HEADS["1-NN"])
    assert_same_answers(loads_altered(file, tmp_path, model, lambda *_: None)[0], model)
    with pytest.raises(ModelFileError, match="KNeighborsClassifier does not fit together"):
        loads_altered(file, tmp_path, model, ALTERED_NEIGHBOURS[change])


@pytest.mark.parametrize("change", ALTERED_SVC)
def test_support_vectors_that_would_crash_compiled_code_are_refused(file, tmp_path, change):
    model = by_hand(None, SVC())
    assert_same_answers(loads_altered(file, tmp_path, model, lambda *_: None)[0], model)
    with pytest.raises(ModelFileError, match="SVC does not fit together"):
        loads_altered(file, tmp_path, model, ALTERED_SVC[change])


@pytest.mark.parametrize("change", ALTERED_ENCODER)
def test_levels_that_would_crash_compiled_code_are_refused(file, tmp_path, model, change):
    with pytest.raises(ModelFileError, match="OneHotEncoder does not fit together"):
        loads_altered(file, tmp_path, model, ALTERED_ENCODER[change])


def test_a_model_that_would_not_be_read_back_is_not_written(tmp_path):
    neighbours = by_hand(None, KNeighborsClassifier(3, weights="distance", algorithm="brute"))
    with pytest.raises(ModelFileError, match="cannot be stored: KNeighborsClassifier does not fit together: weights"):
        save_model(neighbours, tmp_path / "m.unseen", {})


COMPILED = {
    "a tree of neighbours": (KNeighborsClassifier(1, algorithm="kd_tree"), "KDTree"),
    "a decision tree": (DecisionTreeClassifier(), "DecisionTreeClassifier"),
    "clusters": (KMeans(2, n_init=1), "KMeans"),
}


@pytest.mark.parametrize("content", COMPILED)
def test_types_whose_state_nobody_checks_are_refused_on_both_sides(file, tmp_path, content):
    estimator, name = COMPILED[content]
    model = by_hand(None, estimator)
    with pytest.raises(ModelFileError, match=f"cannot be stored.*{name}"):
        save_model(model, tmp_path / "m.unseen", {})
    with pytest.raises(ModelFileError, match="refused"):
        load_model(with_payload(tmp_path / "m.unseen", file, skops.dumps(model)))


@pytest.mark.parametrize("part", [sparse.csr_matrix(np.eye(2)), np.ma.masked_array([1.0, 2.0], [True, False])])
def test_arrays_of_other_kinds_are_refused(file, tmp_path, part):
    with pytest.raises(ModelFileError, match="refused"):
        loads_altered(file, tmp_path, by_hand(None, LogisticRegression()), setting("coef_", lambda _: part))


class Stranger(LogisticRegression):
    """A type that no model of ours has."""


def test_unknown_types_are_refused_by_name_on_both_sides(file, tmp_path):
    stranger = by_hand(None, LogisticRegression())
    stranger.pipeline.steps[-1] = ("classifier", Stranger())
    with pytest.raises(ModelFileError, match=r"cannot be stored: it holds objects of type .*Stranger"):
        save_model(stranger, tmp_path / "m.unseen", {})
    path = with_payload(tmp_path / "m.unseen", file, skops.dumps(stranger))
    with pytest.raises(ModelFileError, match=r"refused, because it holds objects of types .*Stranger"):
        load_model(path)


def test_functions_are_not_loaded_even_from_trusted_packages(file, tmp_path):
    payload = skops.dumps(FunctionTransformer(func=os.system))
    with pytest.raises(ModelFileError, match=r"refused.*system"):
        load_model(with_payload(tmp_path / "m.unseen", file, payload))


def test_every_trusted_type_exists_and_none_is_skops_own_business():
    assert len(set(TRUSTED)) == len(TRUSTED)
    for name in TRUSTED:
        module, _, kind = name.rpartition(".")
        assert isinstance(getattr(__import__(module, fromlist=[kind]), kind), type)


def test_nothing_inflates(file, model, tmp_path):
    card, payload = unpack(file)
    pack(file, card, payload, zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="it is compressed"):
        load_model(file)
    pack(file, card, payload)
    inner = skops.dumps(model, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="model in the file is compressed"):
        load_model(with_payload(tmp_path / "inner.unseen", file, inner))


def test_a_card_that_is_too_long_is_neither_written_nor_read(file, model, tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "MAX_CARD", 200)
    with pytest.raises(ModelFileError, match="at most 200 are read"):
        read_card(file)
    with pytest.raises(ModelFileError, match="at most 200 can be read back"):
        save_model(model, tmp_path / "other.unseen", {"notes": "x" * 200})
    assert [path.name for path in tmp_path.iterdir()] == ["model.unseen"]
