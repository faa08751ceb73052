"""Model files: what comes back is what went in, and nothing else is ever loaded."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

pytest.importorskip("polars", reason="tables need the extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl
import skops.io as skops

from helpers import three_domains
from unseen import CIDG, DICA, MDA, SCA, DomainCenterer, model_file
from unseen.model_file import CARD, PAYLOAD, TRUSTED, ModelFileError, load_model, read_card, save_model
from unseen.novelty import Novelty
from unseen.selection._families import HEADS
from unseen.table_fit import METHODS, fit_table
from unseen.table_model import TableModel
from unseen.tables import Column, Schema, Table, preprocessor


def small_table():
    """Numbers with gaps, a column of levels, labels of text."""
    X, y, codes = three_domains(n_per_cell=5, n_classes=2)
    X[::7, 0] = np.nan
    levels = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    columns = (*(Column(f"x{i}", "numeric") for i in range(4)), Column("sex", "categorical", ("f", "m", "x")))
    domain = np.array(["north", "south", "west"])[codes]
    return Table(np.column_stack([X, levels]), np.array(["ill", "well"])[y], domain, Schema(columns), [], "small")


TABLE = small_table()
PREPARED = preprocessor(TABLE.schema).fit(TABLE.X)


def by_hand(transformer, classifier):
    """A model such as `fit` makes of the choice of "auto", without the search."""
    Z = PREPARED.transform(TABLE.X)
    novelty = Novelty().fit(Z, sample_domain=TABLE.domain)
    steps = [] if transformer is None else [("transformer", transformer.fit(Z, TABLE.y, sample_domain=TABLE.domain))]
    for _, step in steps:
        Z = step.transform(Z, sample_domain=TABLE.domain)
    return TableModel(PREPARED, Pipeline([*steps, ("classifier", clone(classifier).fit(Z, TABLE.y))]), novelty)


CHOICES = {
    **{
        f"{type(p).__name__}, {c}, {head}": (p.set_params(centering=c), classifier)
        for p, c in ((CIDG(), "target"), (MDA(), "source"), (SCA(), "target"), (DICA(), "source"))
        for head, classifier in HEADS.items()
    },
    "centred logistic": (DomainCenterer(), LogisticRegression()),
    "centred linear SVM": (DomainCenterer(), LinearSVC()),
    "centred rbf SVM": (DomainCenterer(), SVC()),
}


def answers(model, X, domain):
    """Everything a model says about some samples."""
    found = [model.predict(X, sample_domain=domain), model.novelty.start().add(model.prepare(X)).result()]
    if model.has_probabilities:
        found.append(model.predict_proba(X, sample_domain=domain).tobytes())
    if hasattr(model.pipeline[-1], "decision_function"):
        found.append(model.pipeline[-1].decision_function(model._transformed(X, domain)).tobytes())
    return found


def assert_same_answers(model, other):
    for a, b in zip(answers(model, TABLE.X, TABLE.domain), answers(other, TABLE.X, TABLE.domain), strict=True):
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


@pytest.fixture(scope="module")
def model():
    return by_hand(CIDG(), LogisticRegression())


@pytest.fixture
def file(tmp_path, model):
    save_model(model, tmp_path / "model.unseen", {"method": "cidg", "name": "Zürich \u05d0"})
    return tmp_path / "model.unseen"


def pack(path, card, payload, compression=zipfile.ZIP_STORED):
    """Write a file of any content in the right frame; checksums are what anybody can compute."""
    if isinstance(card, dict):
        card = {**card, "sha256": model_file._digest(card)}
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(CARD, card if isinstance(card, (str, bytes)) else json.dumps(card))
        archive.writestr(PAYLOAD, payload)


def unpack(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(CARD)), archive.read(PAYLOAD)


def with_payload(path, source, payload):
    """A file whose card agrees with a payload of somebody else's making."""
    card, _ = unpack(source)
    card["payload"]["sha256"] = model_file.hashlib.sha256(payload).hexdigest()
    pack(path, card, payload)
    return path


@pytest.mark.parametrize("method", METHODS[1:])
def test_every_method_of_fit_comes_back_bit_for_bit(method, tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.selection._search.default_grid", lambda *_: {"ridge": ["scale"]})  # no long search
    model = fit_table(TABLE, method).model
    save_model(model, tmp_path / "m.unseen", {})
    assert_same_answers(load_model(tmp_path / "m.unseen")[0], model)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_of_auto_comes_back_bit_for_bit(choice, tmp_path):
    model = by_hand(*CHOICES[choice])
    save_model(model, tmp_path / "m.unseen", {})
    assert_same_answers(load_model(tmp_path / "m.unseen")[0], model)


def test_the_card_says_what_it_was_given_and_who_wrote_it(file):
    card = read_card(file)
    assert card["method"] == "cidg"
    assert card["name"] == "Zürich \u05d0"
    assert card["scikit-learn"] == sklearn.__version__
    assert card == load_model(file)[1]


def test_a_card_is_read_without_skops_and_a_model_is_not(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert read_card(file)["method"] == "cidg"
    with pytest.raises(ImportError, match=r"pip install 'unseen\[cli\]'"):
        load_model(file)


def test_reading_a_card_in_a_fresh_process_does_not_import_skops(file):
    code = (
        f"import sys; from unseen.model_file import read_card; read_card({str(file)!r}); print('skops' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_flipped_bytes_are_noticed_or_harmless(file, model, tmp_path):
    """200 places: most in the arrays, a third at either end, where the frame of the archive is."""
    content = file.read_bytes()
    rng = np.random.default_rng(0)
    ends = np.concatenate([rng.integers(0, 1500, 40), len(content) - 1 - rng.integers(0, 300, 40)])
    refused = 0
    for place in np.concatenate([ends, rng.integers(0, len(content), 120)]):
        damaged = bytearray(content)
        damaged[place] ^= int(rng.integers(1, 256))
        path = tmp_path / "damaged.unseen"
        path.write_bytes(damaged)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                copy, _ = load_model(path)
        except ModelFileError:
            refused += 1
        else:
            assert_same_answers(copy, model)
    assert refused > 150


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.01, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_refused(file, share):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError, match=r"not a model file|damaged or cut off"):
        load_model(file)
    with pytest.raises(ModelFileError):
        read_card(file)


def test_a_model_under_the_card_of_another_is_refused(file, tmp_path):
    save_model(by_hand(None, LogisticRegression()), tmp_path / "other.unseen", {})
    pack(file, unpack(file)[0], unpack(tmp_path / "other.unseen")[1])
    with pytest.raises(ModelFileError, match="It was altered"):
        load_model(file)


def description():
    return {"schema": TABLE.schema.to_dict(), "scores": {"north": 0.5}, "counts": {1: 2, 10: 3}}


@pytest.fixture
def described(tmp_path, model):
    save_model(model, tmp_path / "described.unseen", description())
    return tmp_path / "described.unseen"


CARD_DAMAGE = {
    "a kind": (b'"kind": "numeric"', b'"kind": "numeriC"'),
    "a name": (b'"name": "x0"', b'"name": "x4"'),
    "a level": (b'"f"', b'"g"'),
    "a score": (b"0.5", b"0.9"),
    "a version": (b'"scikit-learn": "1', b'"scikit-learn": "2'),
}


@pytest.mark.parametrize("damage", CARD_DAMAGE)
def test_a_card_that_was_changed_is_refused(described, damage):
    old, new = CARD_DAMAGE[damage]
    with zipfile.ZipFile(described) as archive:
        card, payload = archive.read(CARD), archive.read(PAYLOAD)
    assert old in card
    pack(described, card.replace(old, new, 1), payload)  # the archive's own checksums agree
    for read in (read_card, load_model):
        with pytest.raises(ModelFileError, match="its card is not as it was written"):
            read(described)


def test_columns_that_changed_places_are_noticed(described):
    card, payload = unpack(described)
    columns = card["schema"]["columns"]
    columns[0], columns[1] = columns[1], columns[0]
    pack(described, json.dumps(card), payload)
    with pytest.raises(ModelFileError, match="its card is not as it was written"):
        load_model(described)


def test_how_a_card_is_laid_out_does_not_matter(described, model):
    card, payload = unpack(described)
    pack(described, json.dumps(dict(reversed(card.items())), separators=(",", ":")), payload)
    assert load_model(described)[1] == card
    assert card["counts"] == {"1": 2, "10": 3}  # JSON has no other keys


WRONG_COLUMNS = {
    "an unknown kind": (lambda s: s["columns"][0].update(kind="weird"), "'x0' must be numeric or categorical.*'weird'"),
    "a kind that is none": (lambda s: s["columns"][0].update(kind=[]), "'x0' must be numeric or categorical"),
    "a name that is none": (lambda s: s["columns"][0].update(name=7), "the name of a column must be text.*7"),
    "levels that are numbers": (
        lambda s: s["columns"][4].update(levels=[1, 2, 3]),
        "levels of column 'sex' must be text",
    ),
    "levels that are none": (lambda s: s["columns"][4].update(levels=5), "which columns the model needs"),
    "equal levels": (lambda s: s["columns"][4].update(levels=["f", "f", "m"]), "'sex' has levels .* more than once"),
    "equal names": (lambda s: s["columns"][1].update(name="x0"), "'x0' is there more than once"),
    "a label that is none": (lambda s: s.update(label=3), "label must be a name or null"),
    "one column fewer": (lambda s: s["columns"].pop(), "its card names 4 columns, but the model takes 5"),
    "no columns": (lambda s: s.pop("columns"), "which columns the model needs"),
}


@pytest.mark.parametrize("change", WRONG_COLUMNS)
def test_columns_that_make_no_sense_are_refused_whatever_the_checksums(described, change):
    card, payload = unpack(described)
    alter, message = WRONG_COLUMNS[change]
    alter(card["schema"])
    pack(described, card, payload)
    with pytest.raises(ModelFileError, match=message):
        load_model(described)


def test_a_kind_that_nobody_knows_predicts_nothing():
    """Whatever becomes of it, no number may come from memory that nobody wrote."""
    d = TABLE.schema.to_dict()
    d["columns"][0]["kind"] = "weird"
    with pytest.raises(ValueError, match="'x0' must be numeric or categorical"):
        Schema.from_dict(d)
    odd = Schema((Column("x", "numeric"), Column("y", "weird")))
    encoded = odd.encode(pl.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]}))
    np.testing.assert_array_equal(encoded, [[1, np.nan], [2, np.nan]])


FOREIGN = {
    "a pickle": pickle.dumps({"a": 1}),
    "a text": b"label,x\n1,2\n",
    "nothing": b"",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
}


@pytest.mark.parametrize("content", FOREIGN)
def test_foreign_files_are_named_as_such(content, tmp_path):
    path = tmp_path / "model.unseen"
    path.write_bytes(FOREIGN[content])
    for read in (load_model, read_card):
        with pytest.raises(ModelFileError, match=r"model\.unseen: not a model file\. Pass a file"):
            read(path)


def test_an_ordinary_zip_is_named_as_such(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.unseen", "w") as archive:
        archive.writestr("holiday.txt", "sun")
    with pytest.raises(ModelFileError, match="a zip archive, but not a model file"):
        load_model(tmp_path / "model.unseen")


def test_a_missing_file_and_a_folder_are_errors_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "none.unseen")
    with pytest.raises(IsADirectoryError):
        load_model(tmp_path)


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


def test_a_newer_format_says_which_version_to_install(file):
    card, payload = unpack(file)
    pack(file, {**card, "format": 2, "unseen": "3.1.4"}, payload)
    for read in (load_model, read_card):
        with pytest.raises(ModelFileError, match=r"written by unseen 3\.1\.4 in format 2; this is unseen"):
            read(file)


@pytest.mark.parametrize(
    "card", ["[]", "{}", '{"format": "one"}', '{"format": 1}', '{"format": 1, "payload": 3}', "null"]
)
def test_a_card_that_is_none_is_refused(file, card):
    pack(file, card, b"")
    with pytest.raises(ModelFileError, match="its card is not that of a model"):
        read_card(file)


def test_json_that_is_broken_or_endless_is_refused(file):
    for card in ("{", "[" * 100_000, b"\xff\xfe"):
        pack(file, card, b"")
        with pytest.raises(ModelFileError, match="damaged"):
            read_card(file)


def test_another_scikit_learn_gives_one_warning_that_says_what_to_do(file, model):
    card, payload = unpack(file)
    pack(file, {**card, "scikit-learn": "0.1.2"}, payload)
    with pytest.warns(
        UserWarning, match=r"written with scikit-learn 0\.1\.2.*pip install 'scikit-learn==0\.1\.2'"
    ) as said:
        copy, _ = load_model(file)
    assert len(said) == 1
    assert_same_answers(copy, model)


def test_estimators_of_another_scikit_learn_do_not_each_warn(file, monkeypatch):
    monkeypatch.setattr("sklearn.base.__version__", "9.9.9")  # what each estimator compares its own version with
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(file)


def test_what_another_scikit_learn_cannot_rebuild_is_an_error_that_names_both(file):
    card, payload = unpack(file)
    broken = payload.replace(b"LogisticRegression", b"LogisticRegressio_")
    card["payload"]["sha256"] = model_file.hashlib.sha256(broken).hexdigest()
    pack(file, {**card, "scikit-learn": "0.1.2"}, broken)
    with pytest.raises(ModelFileError, match=r"LogisticRegressio_|scikit-learn 0\.1\.2"):
        load_model(file)


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


def test_a_save_that_fails_leaves_the_old_file_and_no_other(file, model, monkeypatch):
    before = file.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    with pytest.raises(TypeError):
        save_model(model, file, {"not JSON": object()})
    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_model(model, file, {})
    assert file.read_bytes() == before
    assert list(Path(file.parent).iterdir()) == [file]
