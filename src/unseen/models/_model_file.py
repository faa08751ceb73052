"""Model files: one `.unseen` file holds a card in JSON and a model that skops stores without pickles.

The file is a zip archive, stored without compression, of ``card.json`` and ``model.skops``. skops rebuilds objects of
known types, and all others are refused. Checksums of both parts are in the card. Loading a file runs no code from it,
reads and writes no other file, and starts no process.
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

FORMAT = 3  # files of format 2 hold a pipeline in place of a pool, those of format 1 types of other names
CARD, PAYLOAD = "card.json", "model.skops"
CHECKSUM = "sha256"  # of the rest of the card
MAX_CARD = 32 * 2**20  # bytes; a thousand columns of a thousand levels have room in it

# What skops would not load by itself. What it does load, such as all of scikit-learn's estimators, is more than models
# of this package have: `untrusted_types` draws the line.
TRUSTED = ("numpy.dtype", *map(type_name, OWN_TYPES))


def save_model(model: Any, path: str | os.PathLike[str], card: Mapping[str, Any]) -> None:
    """Write a model and its card, whole or not at all.

    Parameters
    ----------
    model : estimator
        A fitted model such as :func:`unseen.models.fit_table` makes, or an estimator of this package.
    path : str or path-like
        The file, by custom with the ending ``.unseen``; an existing one is replaced.
    card : dict
        What is known about the model, as JSON has it. The format, versions and checksums are added.

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
    >>> copy.card["method"], copy.card["format"]
    ('kfda', 3)
    """
    skops = optional_import("skops.io", "Saving a model")
    path = Path(path)
    check_storable(model)
    try:  # what would not be read back is not written
        check_estimators(model)
        payload = skops.dumps(model)
        _refuse(path, check_structure(payload))
    except ValueError as error:
        raise ModelFileError(f"This model cannot be stored: {error}.") from error
    header = {
        "format": FORMAT,
        "unseen": __version__,
        "scikit-learn": sklearn.__version__,
        "payload": {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()},
    }
    content = json.loads(json.dumps({**card, **header}, allow_nan=False))  # as it will be read
    content[CHECKSUM] = _digest(content)
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode()
    if len(text) > MAX_CARD:
        raise ModelFileError(f"The card has {len(text):,} bytes; at most {MAX_CARD:,} can be read back. Shorten it.")
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", compression=zipfile.ZIP_STORED) as archive:
        archive.writestr(CARD, text)
        archive.writestr(PAYLOAD, payload)


def check_storable(model: Any) -> None:
    """Refuse what consists of parts that no model file holds; of estimators, before the work of fitting them."""
    unknown = untrusted_types(model)
    if unknown:
        parts = ", ".join(sorted(kind.__name__ for kind in estimator_types() if kind not in OWN_TYPES))
        raise ModelFileError(
            f"This model cannot be stored: it holds objects of type {', '.join(unknown)}, which no reader would trust. "
            f"Build it from the estimators of unseen and {parts}; nearest neighbors need algorithm='brute'. Or keep "
            "it in a file that you alone read: in Python, joblib.dump(unseen.models.fit_table(...).model, path)."
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
        What `save_model` was given, with format, versions and checksums.

    Examples
    --------
    >>> from unseen.models import ModelFileError, read_card
    >>> try:
    ...     read_card(__file__)
    ... except ModelFileError as error:
    ...     print(str(error).partition(": ")[2])
    not a model file. Pass a file that `unseen fit` wrote.
    """
    return _read(Path(path), wants_payload=False)[0]


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file. Nothing in it is executed; types that are not expected are refused by name.

    Parameters that say how and where to compute (`n_jobs`, `memory`, `cache`, `verbose`, `batch_size`) and output
    configurations (`set_output`) are not restored: they have their defaults.

    Parameters
    ----------
    path : str or path-like
        A file that ``unseen fit`` or :func:`unseen.models.save_model` wrote.

    Returns
    -------
    model : Model
        Predicts frames, files and arrays. `card` is what `save_model` was given, with format, versions and checksums,
        and `estimator` the fitted model itself.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import unseen
    >>> from unseen.datasets import embedded
    >>> from unseen.models import fit_table, save_model
    >>> table = embedded()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(fit_table(table, "1nn").model, Path(folder) / "digits.unseen", {"about": "digits"})
    ...     model = unseen.load_model(Path(folder) / "digits.unseen")
    >>> model.card["about"], model.predict(table.X[:2]).shape
    ('digits', (2,))
    """
    path = Path(path)
    card, payload = _read(path, wants_payload=True)
    skops = optional_import("skops.io", "Loading a model")
    exceptions = optional_import("skops.io.exceptions", "Loading a model")
    written, here = card.get("scikit-learn"), sklearn.__version__
    remedy = f"pip install 'scikit-learn=={written}', or fit the model again."
    try:
        _refuse(path, check_structure(payload))
        with ignore_warnings(InconsistentVersionWarning):  # said once, below, instead of once per part
            model = skops.loads(payload, trusted=[*TRUSTED, *estimator_names()])
        _refuse(path, untrusted_types(model))
        check_estimators(model)
        reset_runtime_settings(model)
        found = Model(model, card, str(path))
        _try_out(found)
    except ModelFileError:
        raise
    except exceptions.UntrustedTypesFoundException as error:
        raise ModelFileError(f"{path}: refused: {error}") from error
    except Exception as error:  # whatever skops and scikit-learn stumble over in a file that is not theirs
        reason = f"{path}: the model in it cannot be rebuilt ({type(error).__name__}: {error})."
        if written != here:
            reason += f" It was written with scikit-learn {written}; this is {here}: {remedy}"
        raise ModelFileError(reason) from error
    if written != here:
        warnings.warn(
            f"{path} was written with scikit-learn {written}; this is {here}, and predictions may differ. To be sure: "
            f"{remedy}",
            stacklevel=2,
        )
    return found


def _refuse(path: Path, unknown: list[str]) -> None:
    if unknown:
        raise ModelFileError(
            f"{path}: refused, because it holds objects of types that no model of unseen has: {', '.join(unknown)}."
        )


def _try_out(model: Model) -> None:
    """Classify a few rows of zeros, so that a model that lacks something is found before it is given any data.

    Only a `TableModel` is tried: `check_estimators` has made sure that it computes with its own arrays and nothing
    else. Its card names the columns, as many as the model takes.
    """
    table_model = model.estimator
    if not isinstance(table_model, TableModel) or "schema" not in model.card:
        return
    described, expected = len(model.schema.columns), table_model.preprocessor.n_features_in_
    if described != expected:
        raise ModelFileError(f"{model.name}: its card names {described} columns, but the model takes {expected}.")
    rows = np.zeros((MIN_BATCH_ROWS, expected))
    with ignore_warnings(Warning):  # what it says of such rows is of no interest
        model.novelty(rows)
        model.explain(rows, sample_domain=np.zeros(len(rows)))  # which asks for everything else


def _digest(card: Mapping[str, Any]) -> str:
    """Checksum of what a card says, however it is laid out."""
    said = {key: value for key, value in card.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read(path: Path, wants_payload: bool) -> tuple[dict[str, Any], bytes]:
    """Card and, if wanted, checked payload."""
    if is_special_file(path):
        raise ModelFileError(f"{path}: not a file. Pass a file that `unseen fit` wrote.")
    with path.open("rb") as file:  # what is missing or forbidden is no matter of the format
        looks_like_archive = False
        try:
            looks_like_archive = file.read(4) == b"PK\x03\x04"
            with zipfile.ZipFile(file) as archive:
                card = _card(path, archive)
                payload = archive.read(PAYLOAD) if wants_payload else b""
        except ModelFileError:
            raise
        # Damaged archives fail in many ways: a wrong offset, an encryption flag, an unknown version, a broken name.
        except Exception as error:
            if isinstance(error, zipfile.BadZipFile) and not looks_like_archive:
                raise ModelFileError(f"{path}: not a model file. Pass a file that `unseen fit` wrote.") from error
            raise ModelFileError(f"{path}: damaged or cut off ({error}). Copy it again, or fit again.") from error
    if wants_payload and hashlib.sha256(payload).hexdigest() != card["payload"]["sha256"]:
        raise ModelFileError(f"{path}: the model in it is not the one that its card describes. It was altered.")
    return card, payload


def _card(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """What the card says, if the archive holds it and a model, and nothing is odd about either."""
    members = archive.infolist()
    if sorted(member.filename for member in members) != sorted([CARD, PAYLOAD]):
        raise ModelFileError(f"{path}: a zip archive, but not a model file. Pass a file that `unseen fit` wrote.")
    # Members that are stored cannot be larger than the file: nothing inflates while it is read.
    if any(m.compress_type != zipfile.ZIP_STORED or m.file_size != m.compress_size for m in members):
        raise ModelFileError(f"{path}: refused, because it is compressed, and model files never are.")
    size = archive.getinfo(CARD).file_size
    if size > MAX_CARD:
        raise ModelFileError(f"{path}: refused, because its card has {size:,} bytes; at most {MAX_CARD:,} are read.")
    card = parse_json(archive.read(CARD))
    json.dumps(card, allow_nan=False)  # numbers that JSON does not have could not be saved again
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
    if card.get(CHECKSUM) != _digest(card):
        raise ModelFileError(f"{path}: its card is not as it was written. It was damaged or altered; fit again.")
    return dict(card)
