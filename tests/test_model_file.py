"""Model files: what comes back is what went in, and damage is noticed."""

from __future__ import annotations

import json
import pickle
import sys
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

pytest.importorskip("polars", reason="tables need the extra")
pytest.importorskip("skops", reason="model files need the extra")

from helpers import fit_model
from model_files import TABLE, assert_same_answers, by_hand, pack, saved, unpack
from unseen import CIDG, DICA, MDA, SCA, DomainCenterer
from unseen.model_selection import HEADS, METHODS, method_names
from unseen.models import _model_file as model_file
from unseen.models._model_file import CARD, PAYLOAD, ModelFileError, load_model, read_card, save_model

CHOICES = {
    **{
        f"{type(p).__name__}, {c}, {head}": (p.set_params(centering=c), classifier)
        for p, c in ((CIDG(), "target"), (MDA(), "source"), (SCA(), "target"), (DICA(), "source"))
        for head, classifier in HEADS.items()
    },
    "centered logistic": (DomainCenterer(), LogisticRegression()),
    "centered linear SVM": (DomainCenterer(), LinearSVC()),
    "centered rbf SVM": (DomainCenterer(), SVC()),
}


@pytest.fixture(scope="module")
def model():
    return by_hand(CIDG(), LogisticRegression())


@pytest.fixture
def file(tmp_path, model):
    return saved(tmp_path, model)


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("method", method_names(needs_feature_map=False))
def test_every_method_of_fit_comes_back_bit_for_bit(method, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, method, replace(METHODS[method], grid={}, component_multiples=()))
    model = fit_model(TABLE, method, transductive=True).estimator
    save_model(model, tmp_path / "m.unseen", {})
    assert_same_answers(load_model(tmp_path / "m.unseen").estimator, model)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_of_auto_comes_back_bit_for_bit(choice, tmp_path):
    model = by_hand(*CHOICES[choice])
    save_model(model, tmp_path / "m.unseen", {})
    assert_same_answers(load_model(tmp_path / "m.unseen").estimator, model)


def test_the_card_says_what_it_was_given_and_who_wrote_it(file):
    card = read_card(file)
    assert card["method"] == "cidg"
    assert card["name"] == "Zürich \u05d0"
    assert card["scikit-learn"] == sklearn.__version__
    assert card == load_model(file).card


def test_a_card_is_read_without_skops_and_a_model_is_not(file, monkeypatch):
    for name in ("skops", "skops.io"):
        monkeypatch.setitem(sys.modules, name, None)
    assert read_card(file)["method"] == "cidg"
    with pytest.raises(ImportError, match=r"pip install 'unseen\[cli\]'"):
        load_model(file)


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
                copy = load_model(path).estimator
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
    return {"schema": TABLE.schema.to_dict(), "notes": {"north": 0.5}, "counts": {1: 2, 10: 3}}


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


def test_how_a_card_is_laid_out_does_not_matter(described, model):
    card, payload = unpack(described)
    pack(described, json.dumps(dict(reversed(card.items())), separators=(",", ":")), payload)
    assert load_model(described).card == card
    assert card["counts"] == {"1": 2, "10": 3}  # JSON has no other keys


WRONG_COLUMNS = {
    "an unknown kind": (
        lambda s: s["columns"][0].update(kind="weird"),
        "schema/columns/0/kind = 'weird'; a kind of column is expected",
    ),
    "a kind that is none": (
        lambda s: s["columns"][0].update(kind=[]),
        r"schema/columns/0/kind = \[\]; a kind of column is expected",
    ),
    "a name that is none": (lambda s: s["columns"][0].update(name=7), "schema/columns/0/name = 7; text is expected"),
    "levels that are numbers": (
        lambda s: s["columns"][4].update(levels=[1, 2, 3]),
        "schema/columns/4/levels/0 = 1; text is expected",
    ),
    "levels that are none": (
        lambda s: s["columns"][4].update(levels=5),
        "schema/columns/4/levels = 5; a list is expected",
    ),
    "equal levels": (lambda s: s["columns"][4].update(levels=["f", "f", "m"]), "'sex' has equal levels"),
    "equal names": (lambda s: s["columns"][1].update(name="x0"), "2 columns are called 'x0'"),
    "a label that is none": (lambda s: s.update(label=3), "schema/label = 3; text is expected"),
    "one column fewer": (lambda s: s["columns"].pop(), "its card names 4 columns, but the model takes 5"),
    "no columns": (lambda s: s.pop("columns"), "its card lacks schema/columns"),
}


@pytest.mark.parametrize("change", WRONG_COLUMNS)
def test_columns_that_make_no_sense_are_refused_whatever_the_checksums(described, change):
    card, payload = unpack(described)
    alter, message = WRONG_COLUMNS[change]
    alter(card["schema"])
    pack(described, card, payload)
    with pytest.raises(ModelFileError, match=message):
        load_model(described)


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


def test_a_newer_format_says_which_version_to_install(file):
    card, payload = unpack(file)
    pack(file, {**card, "format": 100, "unseen": "3.1.4"}, payload)
    for read in (load_model, read_card):
        with pytest.raises(ModelFileError, match=r"written by unseen 3\.1\.4 in format 100; this is unseen"):
            read(file)


@pytest.mark.parametrize("older", [1, 2])
def test_an_older_format_says_to_fit_again(file, older):
    card, payload = unpack(file)
    pack(file, {**card, "format": older, "unseen": "0.1.0"}, payload)
    for read in (load_model, read_card):
        with pytest.raises(
            ModelFileError, match=rf"in format {older}; .* which reads format 7\. Fit the model again\."
        ):
            read(file)


@pytest.mark.parametrize(
    "card", ["[]", "{}", '{"format": "one"}', '{"format": 7}', '{"format": 7, "payload": 3}', "null"]
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
        copy = load_model(file).estimator
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


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1e999"])
def test_a_card_with_numbers_that_json_does_not_have_is_refused_as_it_could_not_be_saved_again(file, number):
    card, payload = unpack(file)
    pack(file, {**card, "score": float(number.replace("1e999", "inf"))}, payload)
    with pytest.raises(ModelFileError, match="Out of range float values are not JSON compliant"):
        load_model(file)


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
