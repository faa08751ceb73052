"""Model files run nothing: pickles, strangers and parts that would crash compiled code are refused."""

from __future__ import annotations

import copy
import io
import itertools
import json
import os
import pickle
import re
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor

pytest.importorskip("polars", reason="tables need the extra")
pytest.importorskip("skops", reason="model files need the extra")
import skops.io as skops

from model_files import (
    TABLE,
    assert_same_answers,
    by_hand,
    inner_archive,
    inner_members,
    pack,
    saved,
    unpack,
    with_payload,
)
from unseen import CIDG
from unseen.model_selection import HEADS
from unseen.models import _model_file as model_file
from unseen.models import _trusted_types as model_parts
from unseen.models._model_file import TRUSTED, ModelFileError, load_model, read_card, save_model
from unseen.models._table_model import TableModel


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
    objects = io.BytesIO()
    np.save(objects, np.array([Trap(mark)], dtype=object), allow_pickle=True)
    members = inner_members(payload)  # every array becomes one of objects, which NumPy stores as a pickle
    members |= {name: objects.getvalue() for name in members if name.endswith(".npy")}
    with_payload(array, file, inner_archive(members))
    for path in (alone, hidden, array):
        with pytest.raises(ModelFileError):
            load_model(path)
    assert not mark.exists()


def loads_altered(file, tmp_path, model, alter):
    """Load a copy of a model in which something was changed, with checksums to match."""
    other = copy.deepcopy(model)
    alter(other.ensemble.members_[0][-1], other.preprocessor)
    return load_model(with_payload(tmp_path / "altered.unseen", file, skops.dumps(other)))


def setting(name, value):
    return lambda classifier, _: setattr(classifier, name, value(getattr(classifier, name)))


ALTERED_NEIGHBORS = {
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


@pytest.mark.parametrize("change", ALTERED_NEIGHBORS)
def test_neighbors_that_would_crash_compiled_code_are_refused(file, tmp_path, change):
    model = by_hand(None, HEADS["1-NN"])
    assert_same_answers(loads_altered(file, tmp_path, model, lambda *_: None).estimator, model)
    with pytest.raises(ModelFileError, match="KNeighborsClassifier does not fit together"):
        loads_altered(file, tmp_path, model, ALTERED_NEIGHBORS[change])


@pytest.mark.parametrize("change", ALTERED_SVC)
def test_support_vectors_that_would_crash_compiled_code_are_refused(file, tmp_path, change):
    model = by_hand(None, SVC())
    assert_same_answers(loads_altered(file, tmp_path, model, lambda *_: None).estimator, model)
    with pytest.raises(ModelFileError, match=r"SVC (does not fit together|has attributes that belong to its class)"):
        loads_altered(file, tmp_path, model, ALTERED_SVC[change])


@pytest.mark.parametrize("change", ALTERED_ENCODER)
def test_levels_that_would_crash_compiled_code_are_refused(file, tmp_path, model, change):
    with pytest.raises(ModelFileError, match="OneHotEncoder does not fit together"):
        loads_altered(file, tmp_path, model, ALTERED_ENCODER[change])


ALTERED_POOL = {
    "weights that are too many": lambda pool: setattr(pool, "weights", np.array([0.5, 0.5])),
    "weights that do not sum to one": lambda pool: setattr(pool, "weights", np.array([0.5])),
    "inverse_temperatures below zero": lambda pool: setattr(pool, "inverse_temperatures", -pool.inverse_temperatures),
    "smoothing without strength": lambda pool: setattr(pool, "smoothing", np.nan),
    "members that are missing": lambda pool: pool.members_.clear(),
    "classes of other members": lambda pool: setattr(pool, "classes_", np.array(["a", "b"])),
}


@pytest.mark.parametrize("alter", ALTERED_POOL)
def test_a_pool_that_does_not_fit_together_is_refused(file, tmp_path, model, alter):
    other = copy.deepcopy(model)
    ALTERED_POOL[alter](other.ensemble)
    with pytest.raises(ModelFileError, match=f"EnsembleClassifier does not fit together: .*{alter.split()[0]}"):
        load_model(with_payload(tmp_path / "altered.unseen", file, skops.dumps(other)))


def test_numbers_that_no_table_has_are_refused(file, tmp_path, model):
    other = copy.deepcopy(model)
    other.novelty.means_ = other.novelty.means_ + 1e200
    with pytest.raises(ModelFileError, match=r"an array of it holds numbers beyond 1e\+150"):
        load_model(with_payload(tmp_path / "altered.unseen", file, skops.dumps(other)))


def test_a_model_that_would_not_be_read_back_is_not_written(tmp_path):
    neighbors = by_hand(None, KNeighborsClassifier(3, weights="distance", algorithm="brute"))
    with pytest.raises(ModelFileError, match="cannot be stored: KNeighborsClassifier does not fit together: weights"):
        save_model(neighbors, tmp_path / "m.unseen", {})


COMPILED = {
    "a tree of neighbors": (KNeighborsClassifier(1, algorithm="kd_tree"), "KDTree"),
    "a regression tree": (DecisionTreeRegressor(), "DecisionTreeRegressor"),
    "clusters": (KMeans(2, n_init=1), "KMeans"),
}


@pytest.mark.parametrize("content", COMPILED)
def test_types_whose_state_nobody_checks_are_refused_on_both_sides(file, tmp_path, content):
    estimator, name = COMPILED[content]
    model = by_hand(None, LogisticRegression())
    fitted = clone(estimator).fit(model.prepare(TABLE.X), TABLE.y == "ill")
    model.ensemble.members_[0].steps[-1] = ("classifier", fitted)
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
    stranger.ensemble.members_[0].steps[-1] = ("classifier", Stranger())
    with pytest.raises(ModelFileError, match=r"cannot be stored: it holds objects of type .*Stranger"):
        save_model(stranger, tmp_path / "m.unseen", {})
    path = with_payload(tmp_path / "m.unseen", file, skops.dumps(stranger))
    with pytest.raises(ModelFileError, match=r"refused, because it holds objects of types .*Stranger"):
        load_model(path)


@pytest.mark.parametrize("classifier", [GaussianNB(), Stranger()], ids=["of scikit-learn", "of a user"])
def test_types_that_both_sides_name_are_stored_and_loaded(tmp_path, classifier):
    model = by_hand(None, classifier)
    name = f"{type(classifier).__module__}.{type(classifier).__name__}"
    with pytest.raises(ModelFileError, match=rf"cannot be stored.*{re.escape(name)}.*name these types as trusted"):
        save_model(model, tmp_path / "m.unseen", {})
    save_model(model, tmp_path / "m.unseen", {"schema": TABLE.schema.to_dict()}, trusted=[type(classifier)])
    assert read_card(tmp_path / "m.unseen")["trusted_types"] == [name]
    for trusted in ((), ["sklearn.naive_bayes.BernoulliNB"]):
        with pytest.raises(ModelFileError, match=rf"refused, .*{re.escape(name)}.*name them as trusted"):
            load_model(tmp_path / "m.unseen", trusted=trusted)
    for trusted in ([name], [type(classifier)], name):
        assert_same_answers(load_model(tmp_path / "m.unseen", trusted=trusted).estimator, model)


def test_the_list_of_types_in_a_card_is_not_trusted(tmp_path):
    save_model(by_hand(None, GaussianNB()), tmp_path / "m.unseen", {}, trusted=[GaussianNB])
    card, payload = unpack(tmp_path / "m.unseen")
    pack(tmp_path / "m.unseen", {**card, "trusted_types": []}, payload)
    with pytest.raises(ModelFileError, match=r"refused, .*GaussianNB"):
        load_model(tmp_path / "m.unseen")


def test_trees_inside_of_trusted_types_are_checked(tmp_path):
    model = by_hand(None, GaussianNB())
    forest = RandomForestClassifier(2, random_state=0).fit(TABLE.X[:, 1:4], TABLE.y)
    model.ensemble.members_[0][-1].inside = forest
    save_model(model, tmp_path / "m.unseen", {}, trusted=[GaussianNB])
    forest.n_features_in_ = 1
    payload = skops.dumps(model)
    with pytest.raises(ModelFileError, match="trees are not sound"):
        load_model(with_payload(tmp_path / "m.unseen", tmp_path / "m.unseen", payload), trusted=[GaussianNB])


def test_a_type_that_readers_cannot_import_is_refused(tmp_path):
    class Local(LogisticRegression):
        """Defined in a function."""

    model = by_hand(None, Local())
    with pytest.raises(ModelFileError, match=r"cannot be stored: .*Local"):
        save_model(model, tmp_path / "m.unseen", {}, trusted=[Local])


def test_a_name_that_is_not_one_is_not_repeated_in_a_command(file):
    node = {**list_node(), "__module__": "x; rm -rf", "__class__": "list"}
    members = {"schema.json": json.dumps({**node, "protocol": 2})}
    with pytest.raises(ModelFileError, match="which is not a name"):
        load_model(with_payload(file, file, inner_archive(members)))


def test_every_trusted_type_has_a_check_or_no_arrays():
    checked = {*model_parts.CHECKED_TYPES, *model_parts.TREE_CHECKS}
    without_arrays = {FrozenEstimator, Normalizer, Pipeline, TableModel}
    inside_of_trees = {_BinMapper, TreePredictor}  # checked with their boosting
    assert set(model_parts.ESTIMATORS) <= checked | without_arrays | inside_of_trees


@pytest.mark.parametrize(
    ("name", "value"),
    [("means_", np.zeros((3, 4))), ("shape_", np.zeros((2, 2))), ("counts_", np.zeros(5)), ("directions_", None)],
)
def test_arrays_of_other_sizes_are_refused(file, tmp_path, model, name, value):
    other = copy.deepcopy(model)
    setattr(other.novelty, name, [] if value is None else value)
    with pytest.raises(ModelFileError, match="Novelty does not fit together"):
        load_model(with_payload(tmp_path / "altered.unseen", file, skops.dumps(other)))


def test_functions_are_not_loaded_even_from_trusted_packages(file, tmp_path):
    payload = skops.dumps(FunctionTransformer(func=os.system))
    with pytest.raises(ModelFileError, match=r"refused.*system"):
        load_model(with_payload(tmp_path / "m.unseen", file, payload))


def test_every_trusted_type_exists_and_none_is_skops_own_business():
    assert len(set(TRUSTED)) == len(TRUSTED)
    for name in TRUSTED:
        module, _, kind = name.rpartition(".")
        assert callable(getattr(__import__(module, fromlist=[kind]), kind))


def test_a_small_file_does_not_become_large(file, model, tmp_path, monkeypatch):
    card, payload = unpack(file)
    pack(file, card, payload + bytes(2**26))
    with pytest.raises(ModelFileError, match=r"refused, because [\d,]+ compressed bytes would become 67,\d+,\d+, more"):
        load_model(file)
    pack(file, card, payload, zipfile.ZIP_LZMA)
    with pytest.raises(ModelFileError, match="compressed by another method than deflate"):
        load_model(file)
    pack(file, card, payload)
    inner = skops.dumps(model, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="the model in the file is compressed twice"):
        load_model(with_payload(tmp_path / "inner.unseen", file, inner))
    monkeypatch.setattr(model_file, "MAX_MODEL_BYTES", 1000)
    with pytest.raises(ModelFileError, match=r"the model has [\d,]+ bytes; at most 1,000 are allowed"):
        load_model(saved_copy(file, tmp_path))
    with pytest.raises(ModelFileError, match=r"cannot be stored: the model has [\d,]+ bytes; at most 1,000"):
        save_model(model, tmp_path / "other.unseen", {})


def saved_copy(file, tmp_path):
    (tmp_path / "copy.unseen").write_bytes(file.read_bytes())
    return tmp_path / "copy.unseen"


def test_a_card_that_is_too_long_is_neither_written_nor_read(file, model, tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "MAX_CARD_BYTES", 200)
    with pytest.raises(ModelFileError, match="at most 200 are read"):
        read_card(file)
    with pytest.raises(ModelFileError, match="at most 200 can be read back"):
        save_model(model, tmp_path / "other.unseen", {"notes": "x" * 200})
    assert [path.name for path in tmp_path.iterdir()] == ["model.unseen"]


# Structure


def load_bare(file, description, **arrays):
    """Load a payload that consists of a description and of arrays by their numbers."""
    members = {"schema.json": json.dumps({**description, "protocol": 2})}
    members |= {f"{name.strip('_')}.npy": content for name, content in arrays.items()}
    return load_model(with_payload(file, file, inner_archive(members)))


NUMBERS = itertools.count(10**6)


def node(loader, name, number=None, **content):
    module, _, kind = name.rpartition(".")
    return {
        "__loader__": loader,
        "__module__": module,
        "__class__": kind,
        "__id__": next(NUMBERS) if number is None else number,
        **content,
    }


def list_node(*parts, number=None):
    return node("ListNode", "builtins.list", number, content=list(parts))


def array_node(number, name="numpy.ndarray"):
    return node("NdArrayNode", name, number, type="numpy", file=f"{number}.npy")


def object_array(*parts):
    shape = node("TupleNode", "builtins.tuple", content=[node("JsonNode", "builtins.str", content=str(len(parts)))])
    return node("NdArrayNode", "numpy.ndarray", type="json", content=list(parts), shape=shape)


def npy(array, shape=None):
    """An array as NumPy stores it, with another shape in the header if wanted."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape if shape is None else shape}
    )
    return buffer.getvalue() + array.tobytes()


def test_what_is_written_by_hand_here_is_read_if_nothing_is_wrong_with_it(file):
    words = [node("JsonNode", "builtins.str", content=json.dumps(word)) for word in ("a", "b")]
    scalar, array = array_node(2, "numpy.float64"), array_node(3)
    arrays = {"_2": npy(np.array(2.5)), "_3": npy(np.eye(2))}
    model = load_bare(file, list_node(object_array(*words), scalar, array, array), **arrays).estimator
    assert model[0].tolist() == ["a", "b"]
    assert model[1] == 2.5
    assert model[2] is model[3]
    assert np.array_equal(model[2], np.eye(2))


def test_a_compressed_array_inside_is_refused_before_it_is_inflated(file):
    read_inflated = 40 * 2**20
    indices = np.zeros(read_inflated // 4, dtype=np.int32)
    zeros = sparse.csr_matrix((np.zeros(len(indices), dtype=bool), indices, [0, len(indices)]), shape=(1, 1))
    sparse.save_npz(matrix := io.BytesIO(), zeros)
    payload = {"type": "scipy", "file": "2.npy"}
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=r"refused.*spmatrix"):
            load_bare(file, node("SparseMatrixNode", "scipy.sparse._matrix.spmatrix", **payload), _2=matrix.getvalue())
        assert tracemalloc.get_traced_memory()[1] < read_inflated / 4
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("loader", ["ListNode", "CachedNode"])
def test_a_short_file_cannot_stand_for_a_huge_structure(file, loader):
    """What is repeated by reference doubles with each level; skops goes through all of it."""
    tree = list_node(number=1)
    for number in range(2, 18):
        tree = list_node(tree, node(loader, "builtins.list", number - 1, content=[]), number=number)
    with pytest.raises(ModelFileError, match=r"repeats builtins\.list with another content|refused"):
        load_bare(file, tree)


def test_a_structure_that_holds_itself_is_refused(file):
    with pytest.raises(ModelFileError, match=r"repeats builtins\.list"):
        load_bare(file, list_node(list_node(number=1), number=1))


def test_an_array_repeated_within_an_array_is_refused(file):
    with pytest.raises(ModelFileError, match="an array of it holds arrays"):
        load_bare(file, object_array(*[array_node(2)] * 1000), _2=npy(np.zeros(1000)))


def test_one_file_is_not_read_for_many_arrays(file):
    arrays = [{**array_node(number), "file": "2.npy"} for number in range(2, 100)]
    with pytest.raises(ModelFileError, match=r"an array of it is in '2\.npy'"):
        load_bare(file, list_node(*arrays), _2=npy(np.zeros(1000)))


SIZES = {
    "more than there is": npy(np.zeros(3), (10**12,)),
    "less than there is": npy(np.zeros(3), (2,)),
    "without a size": npy(np.empty(0, dtype="V0"), (10**15,)),
    "of records": npy(np.zeros(2, dtype="f8,i4")),
    "of another kind": b"PK" + npy(np.zeros(2)),
}


@pytest.mark.parametrize("content", SIZES)
def test_arrays_that_are_not_what_their_header_says_are_refused(file, content):
    with pytest.raises(ModelFileError, match=r"2\.npy says that it holds|magic"):
        load_bare(file, list_node(array_node(2)), _2=SIZES[content])
    with pytest.raises(ModelFileError, match="has the shape"):
        load_bare(file, list_node(array_node(2, "numpy.float64")), _2=npy(np.zeros(2)))


def test_depth_number_and_length_are_bounded_on_both_sides(file, model, tmp_path, monkeypatch):
    for name, words in (("MAX_DEPTH", "deeper than 5"), ("MAX_NODES", "more than 5 parts"), ("MAX_SCHEMA", "5 bytes")):
        with monkeypatch.context() as patch:
            patch.setattr(model_parts, name, 5)
            with pytest.raises(ModelFileError, match=words):
                load_model(file)
            with pytest.raises(ModelFileError, match=f"cannot be stored: .*{words}"):
                save_model(model, tmp_path / "other.unseen", {})


def test_an_older_protocol_which_older_code_would_read_is_refused(file):
    members = {"schema.json": json.dumps({**list_node(), "protocol": 0})}
    with pytest.raises(ModelFileError, match="its protocol is 0; at least 2 is expected"):
        load_model(with_payload(file, file, inner_archive(members)))


LACKING = {
    "a part of the model": lambda model: vars(model).pop("preprocessor"),
    "the steps": lambda model: vars(model.ensemble.members_[0]).pop("steps"),
    "a classifier": lambda model: model.ensemble.members_[0].steps.pop(),
    "a parameter": lambda model: vars(model.preprocessor).pop("n_jobs"),
    "a fitted attribute": lambda model: vars(model.novelty).pop("resolution_"),
    "all fitted attributes": lambda model: vars(model.novelty).clear(),
    "columns": lambda model: setattr(
        model.ensemble.members_[0][-1], "coef_", model.ensemble.members_[0][-1].coef_[:, :0]
    ),
    "classes": lambda model: setattr(
        model.ensemble.members_[0][-1], "classes_", model.ensemble.members_[0][-1].classes_[:0]
    ),
    "a finite number": lambda model: setattr(model.ensemble.members_[0][0], "gamma_", 10**400),
}


@pytest.mark.parametrize("lacking", LACKING)
def test_a_model_that_lacks_something_is_refused_when_it_is_loaded(file, model, lacking):
    other = copy.deepcopy(model)
    LACKING[lacking](other)
    card = {**unpack(file)[0], "schema": TABLE.schema.to_dict()}
    pack(file, card, b"")
    with pytest.raises(ModelFileError, match=r"model\.unseen: the model in it"):
        load_model(with_payload(file, file, skops.dumps(other)))
