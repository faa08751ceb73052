"""Model files: one `.unseen` file contains a card in JSON and a model that skops stores without pickles.

The file is a compressed zip archive of ``card.json`` and ``model.skops``. skops rebuilds objects of trusted types, and
any other type raises an error. The card contains checksums of both parts. Loading a file runs no code from it, reads
and writes no other file, and starts no process.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import warnings
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning

from .. import __version__
from ..exceptions import ignore_warnings
from ..model_selection import MIN_BATCH_ROWS
from ..utils.io import atomic_write, is_special_file
from ..utils.optional_imports import optional_import
from ._model import Model, ModelFileError
from ._model_card import check_card
from ._table_model import TableModel
from ._trusted_types import (
    OWN_TYPES,
    TREE_PARTS,
    check_estimators,
    check_structure,
    copy_for_file,
    estimator_types,
    parse_json,
    reset_runtime_settings,
    type_name,
)

FORMAT = 7  # files of earlier formats name other modules
CARD = "card.json"
PAYLOAD = "model.skops"
CHECKSUM = "sha256"  # key of the card: checksum of its other entries
MAX_CARD_BYTES = 32 * 2**20  # enough for a thousand columns of a thousand levels
MAX_MODEL_BYTES = 2**30  # of a model, once decompressed
# Models become 3 to 8 times smaller; small ones, which are mostly their description, up to 40 times.
MAX_COMPRESSION = 15
FREE_BYTES = 2**24  # that any file may decompress to

# Types that skops does not load by default. By default it loads all estimators of scikit-learn, which is more than
# models of this package contain; `untrusted_types` rejects the rest.
TRUSTED = (
    "numpy.dtype",
    "sklearn.tree._tree.Tree",
    *map(type_name, (*OWN_TYPES, *TREE_PARTS)),
)


def save_model(
    model: Any, path: str | os.PathLike[str], card: Mapping[str, Any], *, trusted: Iterable[str | type] = ()
) -> None:
    """Write a model and its card to a file. An error leaves no partial file.

    Parameters
    ----------
    model : estimator
        The estimator of a :class:`unseen.models.Model`, or an estimator of this package.
    path : str or path-like
        The file, by convention with the ending ``.unseen``. An existing file is replaced.
    card : dict
        Description of the model, in values that JSON can represent. The format, versions and checksums are added.
    trusted : iterable of str or type, default=()
        Types that the model contains beyond those of :func:`unseen.load_model`, such as a classifier of your own. The
        card lists them, and readers of the file must name them too.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen import KFDA
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.models import load_model, read_card, save_model
    >>> data = make_synthetic(random_state=0)
    >>> model = KFDA().fit(data.data, data.target, sample_domain=data.domain)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder) / "kfda.unseen", {"method": "kfda"})
    ...     copy = load_model(Path(folder) / "kfda.unseen")
    >>> copy.card["method"]
    'kfda'
    """
    path = Path(path)
    names = _type_names(trusted)
    stored = copy_for_file(model)
    payload, foreign = _dump(stored, names)
    try:  # a model that `load_model` would reject is not written
        check_estimators(stored, names)
        _check_payload_size(len(payload))
    except Exception as error:  # of forged or incomplete estimators
        raise ModelFileError(f"This model cannot be stored: {error}.") from error
    header = {
        "format": FORMAT,
        "unseen": __version__,
        "scikit-learn": sklearn.__version__,
        "payload": {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()},
        "trusted_types": foreign,
    }
    content = json.loads(json.dumps({**card, **header}, allow_nan=False))  # the values that a reader will get
    try:
        check_card(content)
    except ValueError as error:
        raise ModelFileError(f"This model cannot be stored: {error}.") from error
    content[CHECKSUM] = _card_checksum(content)
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode()
    if len(text) > MAX_CARD_BYTES:
        raise ModelFileError(
            f"The card has {len(text):,} bytes; at most {MAX_CARD_BYTES:,} can be read back. Shorten it."
        )
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(CARD, text)
        archive.writestr(PAYLOAD, payload)


def check_storable(classifiers: Iterable[Any], *, trusted: Iterable[str | type] = ()) -> None:
    """Raise ModelFileError if classifiers, before they are fitted, cannot be stored in a model file.

    A fitted classifier may contain further types, so each is fitted to a few random rows.

    Parameters
    ----------
    classifiers : iterable of estimator
        Not fitted.
    trusted : iterable of str or type, default=()
        Types that may be stored beyond those of :func:`unseen.load_model`.
    """
    X = np.random.default_rng(0).normal(size=(40, 4))
    for classifier in classifiers:
        tried = clone(classifier)
        try:
            with ignore_warnings(Warning):
                tried.fit(X, np.arange(40) % 2)
        except Exception:  # a classifier of the user may need other columns than these
            tried = classifier
        _dump(copy_for_file(tried), _type_names(trusted))


def _dump(stored: Any, trusted: Collection[str]) -> tuple[bytes, list[str]]:
    """Store a model as bytes; return them with the names of the trusted types that it needs."""
    skops = optional_import("skops.io", "Saving a model")
    try:
        payload = skops.dumps(stored)
        foreign = check_structure(payload, trusted)
    except Exception as error:  # skops raises many types of errors for what it cannot store
        raise ModelFileError(f"This model cannot be stored: {type(stored).__name__}: {error}.") from error
    _require_trusted(foreign, trusted)
    return payload, foreign


def _require_trusted(foreign: Iterable[str], trusted: Collection[str]) -> None:
    """Raise ModelFileError unless all foreign types were named by the user and can be imported by a reader."""
    missing = [name for name in foreign if name not in trusted]
    if missing:
        storable_types = [kind for kind in estimator_types() if kind not in (*OWN_TYPES, *TREE_PARTS)]
        storable = ", ".join(sorted(kind.__name__ for kind in storable_types))
        raise ModelFileError(
            f"This model cannot be stored: it holds objects of type {', '.join(missing)}. Model files hold the "
            f"estimators of unseen and {storable}; nearest neighbors need algorithm='brute'. To store it all the same, "
            "name these types as trusted. Readers of the file have to name them too."
        )
    for name in foreign:
        module, _, attribute = name.rpartition(".")
        try:
            getattr(importlib.import_module(module), attribute)
        except (AttributeError, ImportError, ValueError) as error:
            raise ModelFileError(
                f"This model cannot be stored: readers of the file could not import {name!r}. Define it in a module "
                "that can be imported by its name, not in a script."
            ) from error


def _type_names(trusted: Iterable[str | type]) -> list[str]:
    if isinstance(trusted, (str, type)):
        trusted = [trusted]
    return [type_name(entry) if isinstance(entry, type) else str(entry) for entry in trusted]


def read_card(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the card of a model file, without the model.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    card : dict
        The card that `save_model` wrote, with format, versions and checksums.

    Examples
    --------
    >>> from unseen.models import ModelFileError, read_card
    >>> try:
    ...     read_card(__file__)
    ... except ModelFileError as error:
    ...     print(str(error).partition(": ")[2])
    not a model file. Pass a file that `unseen fit` wrote.
    """
    card, _ = _read(Path(path), with_payload=False)
    return card


def load_model(path: str | os.PathLike[str], *, trusted: Iterable[str | type] = ()) -> Model:
    """Read a model file. Nothing in it is executed; untrusted types raise an error that names them.

    Parameters that control the computation (`n_jobs`, `memory`, `cache`, `verbose`, `batch_size`) and output
    configurations (`set_output`) are not restored: they have their default values.

    Parameters
    ----------
    path : str or path-like
        A file that ``unseen fit`` or :func:`unseen.models.save_model` wrote.
    trusted : iterable of str or type, default=()
        Types that the file may contain beyond the estimators of unseen and those of scikit-learn that unseen uses, such
        as ``["sklearn.naive_bayes.GaussianNB"]``. Their code runs, with values from the file that are not checked, so
        name only types that you know, in files from people whom you trust. ``unseen show`` lists the types of a file.

    Returns
    -------
    model : Model
        Predicts DataFrames, files and arrays. `card` is the card that `save_model` wrote, with format, versions and
        checksums, and `estimator` is the fitted model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import unseen
    >>> from unseen.datasets import load_hospitals
    >>> hospitals, new_hospital = load_hospitals()
    >>> features = ["age", "temperature", "heart_rate", "crp"]
    >>> fitted = unseen.fit(hospitals, label="diagnosis", domain="hospital", features=features, methods="1-nn")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fitted.save(Path(folder) / "fever.unseen")
    ...     model = unseen.load_model(Path(folder) / "fever.unseen")
    >>> model.card["model"], model.predict(new_hospital[:2]).shape
    ('1-NN', (2,))
    """
    path = Path(path)
    names = _type_names(trusted)
    card, payload = _read(path, with_payload=True)
    skops = optional_import("skops.io", "Loading a model")
    written_version = card.get("scikit-learn")
    installed_version = sklearn.__version__
    remedy = f"pip install 'scikit-learn=={written_version}', or fit the model again."
    try:
        _reject_untrusted(path, check_structure(payload, names), names)
        with ignore_warnings(InconsistentVersionWarning):  # one warning below replaces one for each estimator
            estimator = skops.loads(payload, trusted=[*TRUSTED, *map(type_name, estimator_types()), *names])
        check_estimators(estimator, names)
        reset_runtime_settings(estimator, names)
        model = Model(estimator, card, str(path))
        _check_predicts(model)
    except ModelFileError:
        raise
    except Exception as error:  # skops and scikit-learn raise many types of errors for altered files
        reason = f"{path}: the model in it cannot be rebuilt ({type(error).__name__}: {error})."
        if written_version != installed_version:
            reason += f" It was written with scikit-learn {written_version}; this is {installed_version}: {remedy}"
        raise ModelFileError(reason) from error
    if written_version != installed_version:
        warnings.warn(
            f"{path} was written with scikit-learn {written_version}; this is {installed_version}, and predictions may "
            f"differ. For equal predictions: {remedy}",
            stacklevel=2,
        )
    return model


def _reject_untrusted(path: Path, foreign: list[str], trusted: Collection[str]) -> None:
    untrusted = [name for name in foreign if name not in trusted]
    if untrusted:
        raise ModelFileError(
            f"{path}: refused, because it holds objects of types that models of unseen do not have: "
            f"{', '.join(untrusted)}. If you know these types and trust the source of the file, name them as "
            "trusted."
        )


def _check_predicts(model: Model) -> None:
    """Predict rows of zeros, so that an incomplete model raises an error when it is loaded.

    This is limited to a `TableModel`, for which `check_estimators` ensures that it computes with its arrays only.
    """
    table_model = model.estimator
    if not isinstance(table_model, TableModel) or not model.card.get("schema"):
        return
    n_described = len(model.schema.columns)
    n_expected = table_model.preprocessor.n_features_in_
    if n_described != n_expected:
        raise ModelFileError(f"{model.name}: its card names {n_described} columns, but the model takes {n_expected}.")
    rows = np.zeros((MIN_BATCH_ROWS, n_expected))
    with ignore_warnings(Warning):  # such as that rows of zeros differ from the training data
        model.novelty(rows)
        model.predict_proba(rows, sample_domain=np.zeros(len(rows)))


def _check_payload_size(size: int) -> None:
    if size > MAX_MODEL_BYTES:
        raise ValueError(f"the model has {size:,} bytes; at most {MAX_MODEL_BYTES:,} are allowed in a file")


def _card_checksum(card: Mapping[str, Any]) -> str:
    """Compute the checksum of the entries of a card, which does not depend on their order or on white space."""
    content = {key: value for key, value in card.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read(path: Path, with_payload: bool) -> tuple[dict[str, Any], bytes]:
    """Read the card and, if `with_payload`, the payload, and verify their checksums."""
    if is_special_file(path):
        raise ModelFileError(f"{path}: not a file. Pass a file that `unseen fit` wrote.")
    with path.open("rb") as file:  # outside of the try block: a missing file raises FileNotFoundError
        try:
            start = file.read(4)
        except OSError as error:
            raise ModelFileError(f"{path}: {error.strerror}. Pass a file that `unseen fit` wrote.") from error
        if start != b"PK\x03\x04":
            raise ModelFileError(f"{path}: not a model file. Pass a file that `unseen fit` wrote.")
        try:
            with zipfile.ZipFile(file) as archive:
                card = _read_card(path, archive)
                payload = archive.read(PAYLOAD) if with_payload else b""
        except ModelFileError:
            raise
        # Damaged archives fail in many ways: a wrong offset, an encryption flag, an unknown version, a broken name.
        except Exception as error:
            raise ModelFileError(f"{path}: damaged or cut off ({error}). Copy it again, or fit again.") from error
    if with_payload and hashlib.sha256(payload).hexdigest() != card["payload"]["sha256"]:
        raise ModelFileError(f"{path}: the model in it is not the one that its card describes. It was altered.")
    return card, payload


def _read_card(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """Read the card of an archive, and check the members of the archive and the format and checksum of the card."""
    sizes = {member.filename: member.file_size for member in archive.infolist()}
    if sorted(sizes) != sorted([CARD, PAYLOAD]) or len(archive.infolist()) != 2:
        raise ModelFileError(f"{path}: a zip archive, but not a model file. Pass a file that `unseen fit` wrote.")
    for member in archive.infolist():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ModelFileError(f"{path}: refused, because it is compressed by another method than deflate.")
        if member.file_size > FREE_BYTES + MAX_COMPRESSION * member.compress_size:
            raise ModelFileError(
                f"{path}: refused, because {member.compress_size:,} compressed bytes would become "
                f"{member.file_size:,}, more than any model."
            )
    _check_payload_size(sizes[PAYLOAD])
    if sizes[CARD] > MAX_CARD_BYTES:
        raise ModelFileError(
            f"{path}: refused, because its card has {sizes[CARD]:,} bytes; at most {MAX_CARD_BYTES:,} are read."
        )
    card = parse_json(archive.read(CARD))
    json.dumps(card, allow_nan=False)  # raises an error for infinite numbers and NaN, which are not JSON
    version = card.get("format") if isinstance(card, dict) else None
    if type(version) is int and version != FORMAT:
        remedy = "Install that version of unseen, or a later one." if version > FORMAT else "Fit the model again."
        raise ModelFileError(
            f"{path}: written by unseen {card.get('unseen')} in format {version}; this is unseen {__version__}, which "
            f"reads format {FORMAT}. {remedy}"
        )
    if version != FORMAT or not isinstance(card.get("payload"), dict):
        raise ModelFileError(f"{path}: its card is not that of a model. Pass a file that `unseen fit` wrote.")
    if card.get(CHECKSUM) != _card_checksum(card):
        raise ModelFileError(f"{path}: its card is not as it was written. It was damaged or altered. Fit again.")
    try:
        check_card(card)
    except ValueError as error:
        raise ModelFileError(f"{path}: {error}. It was not written by unseen.") from error
    return dict(card)
