"""Model files: one `.unseen` file holds a card that anybody can read and a model that runs no code of its own.

The file is a zip archive, stored without compression, of ``card.json`` and ``model.skops``. Nothing in it is a pickle:
skops rebuilds objects from a list of types that are named below, and refuses all others.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sklearn
from sklearn.exceptions import InconsistentVersionWarning

from . import __version__
from .datasets._optional import optional_import

FORMAT = 1
CARD, PAYLOAD = "card.json", "model.skops"
MAX_CARD = 32 * 2**20  # bytes; a thousand columns of a thousand levels have room in it

# Types besides scikit-learn's public estimators, NumPy's and Python's own, which skops knows to be harmless.
TRUSTED = (
    "numpy.dtype",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "unseen.feature_maps.DomainCenterer",
    "unseen.novelty.Novelty",
    "unseen.pivoted_nystroem.PivotedNystroem",
    "unseen.projections._cidg.CIDG",
    "unseen.projections._dica.DICA",
    "unseen.projections._kfda.KFDA",
    "unseen.projections._mda.MDA",
    "unseen.projections._sca.SCA",
    "unseen.table_model.TableModel",
    "unseen.undo_bias.UndoBias",
)


class ModelFileError(ValueError):
    """A file is no model, is damaged, or cannot be read by this version."""


def save_model(model: Any, path: str | os.PathLike[str], card: Mapping[str, Any]) -> None:
    """Write a model and its card, whole or not at all.

    Parameters
    ----------
    model : estimator
        A fitted model of this package's and scikit-learn's estimators.
    path : str or path-like
        The file, by custom with the ending ``.unseen``; an existing one is replaced.
    card : dict
        What is known about the model, as JSON has it. The format, versions and a checksum are added.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen import KFDA
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.model_file import load_model, read_card, save_model
    >>> data = make_synthetic(random_state=0)
    >>> model = KFDA().fit(data.data, data.target, sample_domain=data.domain)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder) / "kfda.unseen", {"method": "kfda"})
    ...     copy, card = load_model(Path(folder) / "kfda.unseen")
    >>> bool((copy.transform(data.data) == model.transform(data.data)).all())
    True
    >>> card["method"], card["format"]
    ('kfda', 1)
    """
    skops = optional_import("skops.io", "Saving a model")
    path = Path(path)
    payload = skops.dumps(model)
    unknown = sorted(set(skops.get_untrusted_types(data=payload)) - set(TRUSTED))
    if unknown:
        raise ModelFileError(
            f"This model cannot be stored: it holds objects of type {', '.join(unknown)}, which no reader would trust. "
            "Build it from the estimators of unseen and scikit-learn."
        )
    header = {
        "format": FORMAT,
        "unseen": __version__,
        "scikit-learn": sklearn.__version__,
        "payload": {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()},
    }
    text = json.dumps({**card, **header}, ensure_ascii=False, indent=1, allow_nan=False).encode()
    if len(text) > MAX_CARD:
        raise ModelFileError(f"The card has {len(text):,} bytes; at most {MAX_CARD:,} can be read back. Shorten it.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(temporary, "w", compression=zipfile.ZIP_STORED) as archive:
            archive.writestr(CARD, text)
            archive.writestr(PAYLOAD, payload)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_card(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the card of a model file, without the model.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    card : dict
        What `save_model` was given, with format, versions and checksum.

    Examples
    --------
    >>> from unseen.model_file import ModelFileError, read_card
    >>> try:
    ...     read_card(__file__)
    ... except ModelFileError as error:
    ...     print(str(error).partition(": ")[2])
    not a model file. Pass a file that `unseen fit` wrote.
    """
    return _read(Path(path), wants_payload=False)[0]


def load_model(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Read a model file. Nothing in it is executed; types that are not expected are refused by name.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    model : estimator
        The fitted model.
    card : dict
        What `save_model` was given, with format, versions and checksum.

    Examples
    --------
    See :func:`save_model`.

    >>> from unseen.model_file import load_model
    >>> load_model("nowhere.unseen")
    Traceback (most recent call last):
        ...
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.unseen'
    """
    path = Path(path)
    card, payload = _read(path, wants_payload=True)
    skops = optional_import("skops.io", "Loading a model")
    exceptions = optional_import("skops.io.exceptions", "Loading a model")
    written, here = card.get("scikit-learn"), sklearn.__version__
    remedy = f"pip install 'scikit-learn=={written}', or fit the model again."
    try:
        _refuse_inflation(payload)
        unknown = sorted(set(skops.get_untrusted_types(data=payload)) - set(TRUSTED))
        if unknown:
            raise ModelFileError(
                f"{path}: refused, because it holds objects of types that no model of unseen has: {', '.join(unknown)}."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # said once, below, instead of once per part
            model = skops.loads(payload, trusted=list(TRUSTED))
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
    return model, card


def _read(path: Path, wants_payload: bool) -> tuple[dict[str, Any], bytes]:
    """Card and, if wanted, checked payload."""
    with path.open("rb") as file:  # what is missing or forbidden is no matter of the format
        try:
            with zipfile.ZipFile(file) as archive:
                sizes = _members(path, archive)
                card = _card(path, archive, sizes[CARD])
                payload = archive.read(PAYLOAD) if wants_payload else b""
        except ModelFileError:
            raise
        # Damaged archives fail in many ways: a wrong offset, an encryption flag, an unknown version, a broken name.
        except Exception as error:
            if isinstance(error, zipfile.BadZipFile) and not _looks_like_archive(file):
                raise ModelFileError(f"{path}: not a model file. Pass a file that `unseen fit` wrote.") from error
            raise ModelFileError(f"{path}: damaged or cut off ({error}). Copy it again, or fit again.") from error
    if wants_payload and hashlib.sha256(payload).hexdigest() != card["payload"]["sha256"]:
        raise ModelFileError(f"{path}: the model in it is not the one that its card describes. It was altered.")
    return card, payload


def _looks_like_archive(file: Any) -> bool:
    file.seek(0)
    return bool(file.read(4) == b"PK\x03\x04")


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, int]:
    """Sizes of the two members; anything else about the archive is refused."""
    members = archive.infolist()
    if sorted(member.filename for member in members) != sorted([CARD, PAYLOAD]):
        raise ModelFileError(f"{path}: a zip archive, but not a model file. Pass a file that `unseen fit` wrote.")
    # Members that are stored cannot be larger than the file: nothing inflates while it is read.
    if any(m.compress_type != zipfile.ZIP_STORED or m.file_size != m.compress_size for m in members):
        raise ModelFileError(f"{path}: refused, because it is compressed, and model files never are.")
    return {member.filename: member.file_size for member in members}


def _card(path: Path, archive: zipfile.ZipFile, size: int) -> dict[str, Any]:
    if size > MAX_CARD:
        raise ModelFileError(f"{path}: refused, because its card has {size:,} bytes; at most {MAX_CARD:,} are read.")
    card = json.loads(archive.read(CARD))
    version = card.get("format") if isinstance(card, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise ModelFileError(
            f"{path}: written by unseen {card.get('unseen')} in format {version}; this is unseen {__version__}, which "
            f"reads format {FORMAT}. Install that version of unseen, or a later one."
        )
    payload = card.get("payload") if isinstance(card, dict) else None
    if version != FORMAT or not isinstance(payload, dict) or not isinstance(payload.get("sha256"), str):
        raise ModelFileError(f"{path}: its card is not that of a model. Pass a file that `unseen fit` wrote.")
    return dict(card)


def _refuse_inflation(payload: bytes) -> None:
    """The model is an archive within the archive: it must not inflate either."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        members = archive.infolist()
    if any(m.compress_type != zipfile.ZIP_STORED for m in members) or sum(m.file_size for m in members) > len(payload):
        raise ModelFileError("The model in the file is compressed, and those that `unseen fit` writes never are.")
