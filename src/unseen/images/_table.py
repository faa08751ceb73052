"""Photographs as a table like any other, with small pictures of its samples for the report."""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ..datasets import load_office_caltech_folder, load_vlcs_folder
from ..tables import Request, Table, format_count, read_survey, survey_table
from ..utils.io import is_special, temporary_folder
from ..utils.samples import Samples
from ._cache import Cache
from ._extract import Extractor, Skipped
from ._photos import Photos, find_photos
from ._pixels import decode_image, quiet_decoding

THUMBNAIL_SIDE = 56  # pixels of a thumbnail, which then takes about a kilobyte
JPEG_QUALITY = 60


def photo_table(
    source: str | os.PathLike[str], model: str | os.PathLike[str], domain_from: str | None = None, **settings: Any
) -> Table:
    """Photographs as :func:`unseen.compare` takes them: features, labels and domains, and thumbnails for the report.

    Parameters
    ----------
    source : str or path
        A folder DOMAIN/CLASS/, or a table that lists pictures: see :func:`~unseen.images.find_photos`.
    model : str or path
        A network in an ONNX file.
    domain_from : str, default=None
        A regular expression that finds domains in paths, likewise.
    **settings
        As for :func:`~unseen.images.extract`.

    Returns
    -------
    table : unseen.tables.Table
        The data; `notices` tells of pictures that could not be read.

    Examples
    --------
    >>> import unseen
    >>> from unseen.images import photo_table
    >>> table = photo_table("photos", "resnet50.onnx")  # doctest: +SKIP
    >>> unseen.compare(table).to_html()  # doctest: +SKIP
    """
    return make_photo_table(find_photos(source, domain_from), Extractor(model=model, **settings))[0]


def photo_collection(name: str, photos: Photos, extractor: Extractor) -> Bunch:
    """The photographs of "vlcs" or "office-caltech" as the data set of that name, with features of a network."""
    found = extractor.extract(photos)
    label, domain = np.array(found.label, dtype=str), np.array(found.domain, dtype=str)
    if name == "vlcs" and np.char.isdecimal(label).all():  # one of its layouts counts the classes
        label = label.astype(int)
    names = [f"feature_{j}" for j in range(found.X.shape[1])]
    held = {"vlcs": load_vlcs_folder, "office-caltech": load_office_caltech_folder}[name](
        Samples(found.X, label, domain), photos.root, names
    )
    held.skipped = found.skipped
    return held


def make_photo_table(photos: Photos, extractor: Extractor, asked: Request | None = None) -> tuple[Table, list[Skipped]]:
    """A table of photographs, through a file that is gone at the end, and those that could not be read."""
    request = replace(asked or Request(), label="label", domain="domain", drop=("path",))
    with temporary_folder(Path.cwd() if extractor.cache is None else Path(extractor.cache).parent) as folder:
        files, skipped = extractor.write(photos, folder / "features.parquet")
        table = read_survey(survey_table(folder / "features.parquet", request), request.seed)
    told = [f"{format_count(len(skipped), 'picture')} could not be read and left out."] if skipped else []
    facts = extractor.facts
    told.append(f"Features are {facts['output']!r} of {facts['network']}, sha256 {facts['sha256'][:12]}.")
    notices = [*photos.notices, *told, *table.notices]
    pictures = Thumbnails(files, extractor.cache)
    return replace(table, name=photos.name, notices=notices, pictures=pictures), skipped


@dataclass(frozen=True)
class Thumbnails:
    """Small pictures of the rows of a table, as addresses that a page may show without any file beside it."""

    files: Sequence[Path]
    cache: str | os.PathLike[str] | None = None

    def __call__(self, rows: Sequence[int]) -> list[str]:
        """Those of some rows, counted from 0; nothing for a file that is gone."""
        opened = nullcontext() if self.cache is None else Cache(self.cache, "")
        with opened as cache, quiet_decoding(), ThreadPoolExecutor(os.cpu_count()) as pool:
            made = list(pool.map(lambda row: _thumbnail(os.path.abspath(self.files[row]), cache), rows))
            if cache is not None:
                cache.add_thumbnails(pair for pair in made if pair[1])
        return [
            f"data:image/jpeg;base64,{base64.b64encode(picture).decode()}" if picture else "" for _, picture in made
        ]


def _thumbnail(path: str, cache: Cache | None) -> tuple[bytes, bytes]:
    """The digest of a picture and its thumbnail; one that was made before is not made again."""
    try:
        return _make_thumbnail(path, cache)
    except (OSError, ValueError):  # a report is worth more than one of its pictures
        return b"", b""


def _make_thumbnail(path: str, cache: Cache | None) -> tuple[bytes, bytes]:
    if cache is not None:
        status = os.stat(path)
        content = cache.content_of(path, status.st_size, status.st_mtime_ns)
        known = None if content is None else cache.thumbnail(content)
        if content is not None and known is not None:
            return content, known
    if is_special(Path(path)):
        raise ValueError("it is not a file")
    held = Path(path).read_bytes()
    picture, buffer = decode_image(held), io.BytesIO()
    picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    picture.save(buffer, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return hashlib.sha256(held).digest(), buffer.getvalue()
