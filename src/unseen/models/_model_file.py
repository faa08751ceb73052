"""Model files: one `.unseen` file contains a card in JSON and a model that skops stores without pickles.

The file is a zip archive, stored without compression, of ``card.json`` and ``model.skops``. skops rebuilds objects of
trusted types, and any other type raises an error. The card contains checksums of both parts. Loading a file runs no
code from it, reads and writes no other file, and starts no process.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

from .. import __version__
from ..model_selection import MIN_BATCH_ROWS
from ..utils.io import atomic_write, is_special_file
from ..utils.optional_imports import optional_import
from ..utils.warnings import ignore_warnings
from ._model import Model, ModelFileError
from ._table_model import TableModel
from ._tree_state import TREE_ESTIMATORS, replace_tree_estimators, restore_tree_estimators
from ._trusted_types import (
    OWN_TYPES,
    check_estimators,
    check_structure,
    estimator_names,
    estimator_types,
    parse_json,
    reset_runtime_settings,
    type_name,
    untrusted_types,
)

FORMAT = 5  # files of earlier formats contain types of other names, or ensembles without trees
CARD = "card.json"
PAYLOAD = "model.skops"
CHECKSUM = "sha256"  # key of the card: checksum of its other entries
MAX_CARD_BYTES = 32 * 2**20  # enough for a thousand columns of a thousand levels

# Types that skops does not load by default. By default it loads all estimators of scikit-learn, which is more than
# models of this package contain; `untrusted_types` rejects the rest.
TRUSTED = ("numpy.dtype", *map(type_name, OWN_TYPES))


def save_model(model: Any, path: str | os.PathLike[str], card: Mapping[str, Any]) -> None:
    """Write a model and its card to a file. An error leaves no partial file.

    Parameters
    ----------
    model : estimator
        A fitted model such as that of :func:`unseen.models.fit_table`, or an estimator of this package.
    path : str or path-like
        The file, by convention with the ending ``.unseen``. An existing file is replaced.
    card : dict
        Description of the model, in values that JSON can represent. The format, versions and checksums are added.

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
    >>> bool((copy.estimator.transform(data.data) == model.transform(data.data)).all())
    True
    >>> copy.card["method"]
    'kfda'
    """
    skops = optional_import("skops.io", "Saving a model")
    path = Path(path)
    try:
        model = replace_tree_estimators(model, estimator_types())
    except ValueError as error:
        raise ModelFileError(f"This model cannot be stored: {error}.") from error
    check_storable(model)
    try:  # a model that `load_model` would reject is not written
        check_estimators(model)
        payload = skops.dumps(model)
        _reject_untrusted(path, check_structure(payload))
    except ValueError as error:
        raise ModelFileError(f"This model cannot be stored: {error}.") from error
    header = {
        "format": FORMAT,
        "unseen": __version__,
        "scikit-learn": sklearn.__version__,
        "payload": {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()},
    }
    content = json.loads(json.dumps({**card, **header}, allow_nan=False))  # the values that a reader will get
    content[CHECKSUM] = _card_checksum(content)
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode()
    if len(text) > MAX_CARD_BYTES:
        raise ModelFileError(
            f"The card has {len(text):,} bytes; at most {MAX_CARD_BYTES:,} can be read back. Shorten it."
        )
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", compression=zipfile.ZIP_STORED) as archive:
        archive.writestr(CARD, text)
        archive.writestr(PAYLOAD, payload)


def check_storable(model: Any) -> None:
    """Raise ModelFileError if a model, fitted or not, contains types that model files do not store."""
    untrusted = untrusted_types(replace_tree_estimators(model, estimator_types()))
    if untrusted:
        storable_types = [kind for kind in (*estimator_types(), *TREE_ESTIMATORS) if kind not in OWN_TYPES]
        storable = ", ".join(sorted(kind.__name__ for kind in storable_types))
        raise ModelFileError(
            f"This model cannot be stored: it holds objects of type {', '.join(untrusted)}, which readers of model "
            f"files do not trust. Use the estimators of unseen and {storable}; nearest neighbors need "
            "algorithm='brute'. Or use a file that only you read: "
            "joblib.dump(unseen.models.fit_table(...).model, path)."
        )


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


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file. Nothing in it is executed; untrusted types raise an error that names them.

    Parameters that control the computation (`n_jobs`, `memory`, `cache`, `verbose`, `batch_size`) and output
    configurations (`set_output`) are not restored: they have their default values.

    Parameters
    ----------
    path : str or path-like
        A file that ``unseen fit`` or :func:`unseen.models.save_model` wrote.

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
    >>> from unseen.datasets import load_digits_table
    >>> from unseen.models import fit_table, save_model
    >>> table = load_digits_table()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(fit_table(table, "1-nn").model, Path(folder) / "digits.unseen", {"about": "digits"})
    ...     model = unseen.load_model(Path(folder) / "digits.unseen")
    >>> model.card["about"], model.predict(table.X[:2]).shape
    ('digits', (2,))
    """
    path = Path(path)
    card, payload = _read(path, with_payload=True)
    skops = optional_import("skops.io", "Loading a model")
    exceptions = optional_import("skops.io.exceptions", "Loading a model")
    written_version = card.get("scikit-learn")
    installed_version = sklearn.__version__
    remedy = f"pip install 'scikit-learn=={written_version}', or fit the model again."
    try:
        _reject_untrusted(path, check_structure(payload))
        with ignore_warnings(InconsistentVersionWarning):  # one warning below replaces one for each estimator
            estimator = skops.loads(payload, trusted=[*TRUSTED, *estimator_names()])
        _reject_untrusted(path, untrusted_types(estimator))
        check_estimators(estimator)
        estimator = restore_tree_estimators(estimator, estimator_types())
        reset_runtime_settings(estimator)
        model = Model(estimator, card, str(path))
        _check_predicts(model)
    except ModelFileError:
        raise
    except exceptions.UntrustedTypesFoundException as error:
        raise ModelFileError(f"{path}: refused: {error}") from error
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


def _reject_untrusted(path: Path, untrusted: list[str]) -> None:
    if untrusted:
        raise ModelFileError(
            f"{path}: refused, because it holds objects of types that models of unseen do not have: "
            f"{', '.join(untrusted)}."
        )


def _check_predicts(model: Model) -> None:
    """Predict rows of zeros, so that an incomplete model raises an error when it is loaded.

    This is limited to a `TableModel`, for which `check_estimators` ensures that it computes with its arrays only.
    """
    table_model = model.estimator
    if not isinstance(table_model, TableModel) or "schema" not in model.card:
        return
    n_described = len(model.schema.columns)
    n_expected = table_model.preprocessor.n_features_in_
    if n_described != n_expected:
        raise ModelFileError(f"{model.name}: its card names {n_described} columns, but the model takes {n_expected}.")
    rows = np.zeros((MIN_BATCH_ROWS, n_expected))
    with ignore_warnings(Warning):  # such as that rows of zeros differ from the training data
        model.novelty(rows)
        model.predict_proba(rows, sample_domain=np.zeros(len(rows)))


def _card_checksum(card: Mapping[str, Any]) -> str:
    """Compute the checksum of the entries of a card, which does not depend on their order or on white space."""
    content = {key: value for key, value in card.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read(path: Path, with_payload: bool) -> tuple[dict[str, Any], bytes]:
    """Read the card and, if `with_payload`, the payload, and verify their checksums."""
    if is_special_file(path):
        raise ModelFileError(f"{path}: not a file. Pass a file that `unseen fit` wrote.")
    with path.open("rb") as file:  # outside of the try block: a missing file raises FileNotFoundError
        looks_like_archive = False
        try:
            looks_like_archive = file.read(4) == b"PK\x03\x04"
            with zipfile.ZipFile(file) as archive:
                card = _read_card(path, archive)
                payload = archive.read(PAYLOAD) if with_payload else b""
        except ModelFileError:
            raise
        # Damaged archives fail in many ways: a wrong offset, an encryption flag, an unknown version, a broken name.
        except Exception as error:
            if isinstance(error, zipfile.BadZipFile) and not looks_like_archive:
                raise ModelFileError(f"{path}: not a model file. Pass a file that `unseen fit` wrote.") from error
            raise ModelFileError(f"{path}: damaged or cut off ({error}). Copy it again, or fit again.") from error
    if with_payload and hashlib.sha256(payload).hexdigest() != card["payload"]["sha256"]:
        raise ModelFileError(f"{path}: the model in it is not the one that its card describes. It was altered.")
    return card, payload


def _read_card(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """Read the card of an archive, and check the members of the archive and the format and checksum of the card."""
    members = archive.infolist()
    if sorted(member.filename for member in members) != sorted([CARD, PAYLOAD]):
        raise ModelFileError(f"{path}: a zip archive, but not a model file. Pass a file that `unseen fit` wrote.")
    # Without compression, reading a member never needs more memory than the file has bytes.
    if any(m.compress_type != zipfile.ZIP_STORED or m.file_size != m.compress_size for m in members):
        raise ModelFileError(f"{path}: refused, because it is compressed. Model files are stored uncompressed.")
    size = archive.getinfo(CARD).file_size
    if size > MAX_CARD_BYTES:
        raise ModelFileError(
            f"{path}: refused, because its card has {size:,} bytes; at most {MAX_CARD_BYTES:,} are read."
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
    payload = card.get("payload") if isinstance(card, dict) else None
    if version != FORMAT or not isinstance(payload, dict) or not isinstance(payload.get("sha256"), str):
        raise ModelFileError(f"{path}: its card is not that of a model. Pass a file that `unseen fit` wrote.")
    if card.get(CHECKSUM) != _card_checksum(card):
        raise ModelFileError(f"{path}: its card is not as it was written. It was damaged or altered. Fit again.")
    return dict(card)
