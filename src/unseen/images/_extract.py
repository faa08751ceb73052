"""Extract features from image files: threads decode images while the network runs, and batches are cached.

The cache is an SQLite file in WAL mode with the features of each image, by the digest of its content and the settings
with which they were computed. Every batch is committed separately, so that a killed process loses at most one batch.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..exceptions import ParameterError
from ..tables import TableError, format_count, is_path
from ..utils.io import (
    atomic_write,
    create_sqlite_tables,
    is_special_file,
    raise_if_disk_full,
)
from ..utils.jobs import progress
from ._network import Network
from ._photos import Photos, as_unicode, find_photos
from ._pixels import Preprocessing, decode_image, quiet_decoding

DEFAULT_BATCH_SIZE = 16  # networks are hardly faster with larger batches, and a killed run loses at most one batch
MAX_FILE_BYTES = 2**30  # of an image file
METADATA_KEY = "unseen.images"  # key of the metadata in a Parquet file that describe the extraction
SCHEMA = """
CREATE TABLE IF NOT EXISTS features (
    content BLOB NOT NULL, way TEXT NOT NULL, numbers BLOB NOT NULL, checksum INTEGER, PRIMARY KEY (content, way)
);
"""
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # a damaged schema in an error message may not be valid UTF-8
Features = NDArray[np.float32]


class Skipped(NamedTuple):
    """A file that could not be read as an image."""

    path: str
    reason: str


class _ReadFile(NamedTuple):
    """A file that a thread has read: the digest of its content, and its features if cached, otherwise its pixels."""

    digest: bytes
    features: Features | None
    pixels: Features | None = None


class Cache(AbstractContextManager["Cache"]):
    """A file of features that were computed with the settings of `settings_key`; with `path` None, it is in memory."""

    def __init__(self, path: str | os.PathLike[str] | None, settings_key: str) -> None:
        self.path = path
        self.settings_key = settings_key
        self._lock = threading.Lock()  # the threads that read images use the cache
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with self._translate_errors():
            database = ":memory:" if path is None else path
            self._connection = sqlite3.connect(database, check_same_thread=False, timeout=30)
            try:
                create_sqlite_tables(self._connection, SCHEMA)
            except SQLITE_ERRORS:
                self._connection.close()
                raise

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except SQLITE_ERRORS as error:
            raise_if_disk_full(Path(self.path or ""), error)
            raise OSError(
                f"{self.path} cannot be used as a cache of features ({error}). Pass another path or, if it is damaged, "
                "delete it; all features are then computed again."
            ) from error

    def find_features(self, digest: bytes) -> Features | None:
        """Return the features of the image with this digest, if they are stored."""
        query = "SELECT numbers, checksum FROM features WHERE content = ? AND way = ?"
        with self._lock, self._translate_errors():
            row = self._connection.execute(query, (digest, self.settings_key)).fetchone()
        # SQLite stores values of any type in any column. Damaged features are computed again.
        if row is None or not isinstance(row[0], bytes) or len(row[0]) % 4 or zlib.crc32(row[0]) != row[1]:
            return None
        return np.frombuffer(row[0], dtype="<f4") if row[0] else None

    def add(self, features: Mapping[bytes, Features]) -> None:
        """Store features by digest."""
        rows = []
        for digest, values in features.items():
            numbers = values.astype("<f4").tobytes()
            rows.append((digest, self.settings_key, numbers, zlib.crc32(numbers)))
        with self._lock, self._translate_errors(), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?, ?)", rows)


@dataclass(frozen=True)
class Extraction:
    """The features that :func:`unseen.images.extract` returns.

    Attributes
    ----------
    X : ndarray of shape (n_images, n_features)
        The features of all images that could be read, in single precision.
    paths : list of str
        The paths of these images.
    label, domain : list of str or None
        The classes and domains of these images, if they are known.
    skipped : list of (path, reason)
        Files that could not be read.
    facts : dict
        The network and its hash, its output, the preprocessing, and the folder of the images.
    """

    X: Features
    paths: list[str]
    label: list[str] | None
    domain: list[str] | None
    skipped: list[Skipped]
    facts: dict[str, Any]

    def to_frame(self) -> pl.DataFrame:
        """Return a table with the columns path, label and domain, if they are known, and the features."""
        columns = {"path": list(map(as_unicode, self.paths)), "label": self.label, "domain": self.domain}
        names = [f"feature_{j}" for j in range(self.X.shape[1])]
        known = pl.DataFrame({name: values for name, values in columns.items() if values is not None})
        return known.hstack(pl.from_numpy(self.X, schema=names, orient="row"))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a Parquet file, with `facts` in its metadata."""
        with atomic_write(Path(path)) as file:
            self.to_frame().write_parquet(file, metadata={METADATA_KEY: json.dumps(self.facts)})


def extract(
    paths: Any,
    model: str | os.PathLike[str] | Network,
    *,
    output_name: str | None = None,
    preprocessing: Preprocessing | Mapping[str, Any] | str = "torchvision",
    cache: str | os.PathLike[str] | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    n_jobs: int | None = None,
    strict: bool = False,
    verbose: int = 0,
) -> Extraction:
    """Extract features of images with a network.

    Parameters
    ----------
    paths : str, path, Photos or sequence of paths
        A folder DOMAIN/CLASS/, or a table with the columns path, label and domain, as
        :func:`~unseen.images.find_photos` reads them; the return value of that function; or paths of image files.
    model : str, path or Network
        ONNX file of a network with one input of images, whose size and layout are read from the file; or the network in
        it, for which `output_name` and `n_jobs` are not used.
    output_name : str, default=None
        Tensor of the network to use as features; None for its first output.
    preprocessing : Preprocessing, str or dict, default="torchvision"
        Preprocessing of the images: a :class:`~unseen.images.Preprocessing`, the name of a preset ("caffe",
        "torchvision", "tf-lite"), or a dict of settings.
    cache : str or path, default=None
        File that caches features, so that an image is read once; None for no file.
    batch_size : int, default=16
        Number of images per batch.
    n_jobs : int, default=None
        Number of threads; None for one per core.
    strict : bool, default=False
        If True, a file that cannot be read is an error; otherwise it is listed in `skipped`.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    extraction : Extraction
        With `X`, `paths`, `label`, `domain`, `skipped` and `facts`.

    Examples
    --------
    >>> from unseen.images import extract
    >>> extraction = extract("photos", "resnet50.onnx", output_name="flatten")  # doctest: +SKIP
    >>> extraction.X.shape  # doctest: +SKIP
    (80, 2048)
    """
    if batch_size < 1:
        raise ParameterError("batch_size", f"batch_size must be 1 or more; got {batch_size}.")
    network = model if isinstance(model, Network) else Network(model, output_name, n_jobs)
    preprocessing = Preprocessing.from_spec(preprocessing)
    size = preprocessing.output_size(*network.size)
    photos = find_photos(paths) if is_path(paths) else paths
    files = photos.files if isinstance(photos, Photos) else [Path(path) for path in photos]
    # Everything that determines the features of an image; its hash is the key of the cache.
    settings = {
        "sha256": network.digest,
        "output": network.output_name,
        "size": list(size),
        "preprocessing": json.loads(json.dumps(vars(preprocessing))),
    }
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    with (
        Cache(cache, key) as opened_cache,
        quiet_decoding(),
        ThreadPoolExecutor(network.n_threads) as pool,
        progress("Reading images", len(files), verbose) as advance,
    ):
        read = partial(_read_file, opened_cache, preprocessing, size)
        batch_size = network.batch_size or batch_size
        results = _read_ahead(pool, read, files, 2 * batch_size + network.n_threads)
        rows, skipped = _run_network(network, opened_cache, results, batch_size, strict, advance)
    facts: dict[str, Any] = {"network": network.path.name, **settings}
    kept = sorted(rows)
    if not kept and isinstance(photos, Photos):
        problem = f"none of its {format_count(len(files), 'image')} can be read"
        raise TableError([f"{problem}: {skipped[0].path}: {skipped[0].reason}."], source=photos.name)
    X = np.stack([rows[i] for i in kept]) if kept else np.empty((0, 0), np.float32)
    if not isinstance(photos, Photos):
        return Extraction(X, [str(files[i]) for i in kept], None, None, skipped, facts)
    facts["root"] = as_unicode(str(photos.root.resolve()))
    names, label, domain = ([values[i] for i in kept] for values in (photos.paths, photos.label, photos.domain))
    return Extraction(X, names, label, domain, skipped, facts)


def _run_network(
    network: Network,
    cache: Cache,
    results: Iterator[_ReadFile | Skipped],
    batch_size: int,
    strict: bool,
    advance: Callable[[int], None],
) -> tuple[dict[int, Features], list[Skipped]]:
    """Compute the features of files that are not in the cache, batch by batch; return features by position."""
    rows: dict[int, Features] = {}
    skipped: list[Skipped] = []
    pixels: dict[bytes, Features] = {}  # by digest
    waiting: list[tuple[int, bytes]] = []  # positions of files whose pixels are in the batch

    def run_batch() -> None:
        if pixels:
            features = dict(zip(pixels, network.features(np.stack(list(pixels.values()))), strict=True))
            cache.add(features)
            rows.update({position: features[digest] for position, digest in waiting})
            pixels.clear()
            waiting.clear()

    for position, result in enumerate(results):
        advance(1)
        if isinstance(result, Skipped):
            if strict:
                raise ValueError(f"{result.path} cannot be read: {result.reason}.")
            skipped.append(result)
        elif result.features is not None:
            rows[position] = result.features
        else:
            assert result.pixels is not None
            pixels[result.digest] = result.pixels
            waiting.append((position, result.digest))
            if len(pixels) == batch_size:
                run_batch()
    run_batch()
    return rows, skipped


def _read_ahead(
    pool: ThreadPoolExecutor, read: Callable[[str], _ReadFile | Skipped], files: Sequence[Path], n_ahead: int
) -> Iterator[_ReadFile | Skipped]:
    """Yield the files in order; threads read at most `n_ahead` of them ahead, which bounds the memory."""
    pending: deque[Future[_ReadFile | Skipped]] = deque()
    try:
        for file in files:
            pending.append(pool.submit(read, os.path.abspath(file)))
            if len(pending) >= n_ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def _read_file(cache: Cache, preprocessing: Preprocessing, size: tuple[int, int], path: str) -> _ReadFile | Skipped:
    """Read and decode a file in a thread, unless its features are cached."""
    try:
        n_bytes = os.stat(path).st_size
        if is_special_file(Path(path)):
            return Skipped(path, "it is not a regular file")
        if n_bytes > MAX_FILE_BYTES:
            return Skipped(path, f"it has {n_bytes:,} bytes; the maximum is {MAX_FILE_BYTES:,}")
        content = Path(path).read_bytes()
    except OSError as error:
        return Skipped(path, error.strerror or str(error))
    digest = hashlib.sha256(content).digest()
    features = cache.find_features(digest)
    if features is not None:
        return _ReadFile(digest, features)
    try:
        return _ReadFile(digest, None, preprocessing.pixels(decode_image(content), *size))
    except ValueError as error:
        return Skipped(path, str(error))
