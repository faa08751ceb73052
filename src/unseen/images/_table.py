"""Tables of features of photographs, with thumbnails for the report."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..tables import Table, TableOptions, format_count, read_survey, survey_table
from ..utils.io import is_special_file, temporary_folder
from ._extract import DEFAULT_BATCH_SIZE, Extractor, Skipped
from ._photos import Photos, find_photos
from ._pixels import Preprocessing, decode_image, quiet_decoding

THUMBNAIL_SIDE = 56  # pixels; a thumbnail then has about one kilobyte
JPEG_QUALITY = 60


def photo_table(
    source: str | os.PathLike[str],
    model: str | os.PathLike[str],
    domain_from: str | None = None,
    *,
    output_name: str | None = None,
    preprocessing: Preprocessing | Mapping[str, Any] | str = "torchvision",
    cache: str | os.PathLike[str] | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    n_jobs: int | None = None,
    strict: bool = False,
    verbose: int = 0,
) -> Table:
    """Make a table for :func:`unseen.compare` from photographs: features, classes, domains and thumbnails.

    Parameters
    ----------
    source : str or path
        A folder DOMAIN/CLASS/, or a table that lists images: see :func:`~unseen.images.find_photos`.
    model : str or path
        ONNX file of a network.
    domain_from : str, default=None
        Regular expression that matches the domain in a path: see :func:`~unseen.images.find_photos`.
    output_name, preprocessing, cache, batch_size, n_jobs, strict, verbose
        See :func:`~unseen.images.extract`.

    Returns
    -------
    table : unseen.tables.Table
        The table; its `notices` report the number of images that could not be read.

    Examples
    --------
    >>> import unseen
    >>> from unseen.images import photo_table
    >>> table = photo_table("photos", "resnet50.onnx")  # doctest: +SKIP
    >>> unseen.compare(table).to_html()  # doctest: +SKIP
    """
    extractor = Extractor(
        model=model,
        output_name=output_name,
        preprocessing=preprocessing,
        cache=cache,
        batch_size=batch_size,
        n_jobs=n_jobs,
        strict=strict,
        verbose=verbose,
    )
    table, _ = make_photo_table(find_photos(source, domain_from), extractor)
    return table


def make_photo_table(
    photos: Photos, extractor: Extractor, request: TableOptions | None = None
) -> tuple[Table, list[Skipped]]:
    """Make a table of photographs through a temporary file; also return the images that could not be read."""
    request = replace(request or TableOptions(), label="label", domain="domain", drop=("path",))
    parent = Path.cwd() if extractor.cache is None else Path(extractor.cache).parent
    with temporary_folder(parent) as folder:
        files, skipped = extractor.write(photos, folder / "features.parquet")
        table = read_survey(survey_table(folder / "features.parquet", request), request.seed)
    notices = list(photos.notices)
    if skipped:
        notices.append(f"{format_count(len(skipped), 'image')} could not be read and left out.")
    facts = extractor.facts
    notices.append(f"The features are {facts['output']!r} of {facts['network']}, sha256 {facts['sha256'][:12]}.")
    notices += table.notices
    thumbnails = Thumbnails(files)
    return replace(table, name=photos.name, notices=notices, pictures=thumbnails), skipped


@dataclass(frozen=True)
class Thumbnails:
    """Thumbnails of the rows of a table, as data URLs that a page can contain."""

    files: Sequence[Path]

    def __call__(self, rows: Sequence[int]) -> list[str]:
        """Return the thumbnails of rows, counted from 0; an empty string for a file that cannot be read."""
        with quiet_decoding(), ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda row: _make_thumbnail(self.files[row]), rows))


def _make_thumbnail(path: Path) -> str:
    try:
        if is_special_file(path):
            return ""
        image = decode_image(path.read_bytes())
    except (OSError, ValueError):  # a report without one thumbnail is better than no report
        return ""
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
