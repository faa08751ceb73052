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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..exceptions import ParameterError
from ..tables import TableError, format_count, is_path
from ..utils.io import (
    atomic_write,
    check_unchanged,
    create_sqlite_tables,
    get_file_identity,
    is_special_file,
    raise_if_disk_full,
)
from ..utils.progress import progress
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
        self._identity = None if path is None else get_file_identity(Path(path))

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except SQLITE_ERRORS as error:
            raise_if_disk_full(Path(self.path or ""), error)
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise ValueError(
                    f"{self.path} cannot be opened as a cache of features ({error}). Pass another path."
                ) from error
            raise OSError(
                f"{self.path} cannot be used as a cache of features ({error}). If it is damaged, delete it; all "
                "features are then computed again."
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
        if self.path is not None:
            check_unchanged(Path(self.path), self._identity)


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
        The network and its hash, its output, and the preprocessing.
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


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """A network with its settings, which :func:`unseen.images.extract` documents."""

    model: str | os.PathLike[str]
    output_name: str | None = None
    preprocessing: Preprocessing | Mapping[str, Any] | str = "torchvision"
    cache: str | os.PathLike[str] | None = None
    batch_size: int = DEFAULT_BATCH_SIZE
    n_jobs: int | None = None
    strict: bool = False
    verbose: int = 0

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ParameterError("batch_size", f"batch_size must be 1 or more; got {self.batch_size}.")

    @cached_property
    def network(self) -> Network:
        """The network, opened once."""
        return Network(self.model, self.output_name, self.n_threads)

    @property
    def n_threads(self) -> int:
        """Number of threads that read images, and of threads that run the network."""
        if self.n_jobs is None or self.n_jobs < 1:
            return os.cpu_count() or 1
        return self.n_jobs

    @cached_property
    def resolved_preprocessing(self) -> Preprocessing:
        """The preprocessing of the images."""
        return Preprocessing.from_spec(self.preprocessing)

    @cached_property
    def size(self) -> tuple[int, int]:
        """Height and width of the images that the network receives."""
        return self.resolved_preprocessing.output_size(*self.network.size)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The network, its output and the preprocessing, as plain values."""
        return {
            "network": self.network.path.name,
            "sha256": self.network.digest,
            "output": self.network.output_name,
            "size": list(self.size),
            "preprocessing": json.loads(json.dumps(vars(self.resolved_preprocessing))),
        }

    def extract(self, photos: Photos | Sequence[str | os.PathLike[str]]) -> Extraction:
        """Return the features of images; with paths relative to the root of photographs."""
        files = photos.files if isinstance(photos, Photos) else [Path(path) for path in photos]
        names = photos.paths if isinstance(photos, Photos) else [str(path) for path in files]
        # The key of the cache covers everything that determines the features of an image.
        settings = {name: value for name, value in self.facts.items() if name != "network"}
        key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        with Cache(self.cache, key) as cache:
            rows, skipped = self._compute(cache, files)
        kept = [i for i, row in enumerate(rows) if row is not None]
        X = np.stack([row for row in rows if row is not None]) if kept else np.empty((0, self.count_features()), "f4")
        label = [photos.label[i] for i in kept] if isinstance(photos, Photos) else None
        domain = [photos.domain[i] for i in kept] if isinstance(photos, Photos) else None
        return Extraction(X, [names[i] for i in kept], label, domain, skipped, self.facts)

    def extract_collection(self, photos: Photos) -> Extraction:
        """Return the features of photographs, at least one of which must be readable."""
        extraction = self.extract(photos)
        if not extraction.paths:
            first = extraction.skipped[0]
            problem = f"none of its {format_count(len(extraction.skipped), 'image')} can be read"
            raise TableError([f"{problem}: {first.path}: {first.reason}."], source=photos.name)
        return extraction

    def write(self, photos: Photos, output: Path) -> Extraction:
        """Write a Parquet file with path, label, domain and features; return what it holds."""
        extraction = self.extract_collection(photos)
        facts = {METADATA_KEY: json.dumps({**self.facts, "root": as_unicode(str(photos.root.resolve()))})}
        with atomic_write(output) as file:
            extraction.to_frame().write_parquet(file, metadata=facts)
        return extraction

    def count_features(self) -> int:
        """Return the number of features, from the output of the network for one image."""
        return self.network.features(np.zeros((1, *self.size, 3), np.float32)).shape[1]

    def _compute(self, cache: Cache, files: Sequence[Path]) -> tuple[list[Features | None], list[Skipped]]:
        """Compute the features of all files, or read them from the cache; None for files that cannot be read."""
        rows: list[Features | None] = [None] * len(files)
        skipped: list[Skipped] = []
        new: dict[bytes, Features] = {}  # pixels, by digest
        waiting: list[tuple[int, bytes]] = []  # positions of files whose pixels are in the batch
        batch_size = self.network.batch_size or self.batch_size

        def run_network() -> None:
            if new:
                features = dict(zip(new, self.network.features(np.stack(list(new.values()))), strict=True))
                cache.add(features)
                for position, digest in waiting:
                    rows[position] = features[digest]
                new.clear()
                waiting.clear()

        with (
            quiet_decoding(),
            ThreadPoolExecutor(self.n_threads) as pool,
            progress("Reading images", len(files), self.verbose, print_last=True) as advance,
        ):
            for position, result in enumerate(self._read_ahead(pool, cache, files, batch_size)):
                advance(1)
                if isinstance(result, Skipped):
                    if self.strict:
                        raise ValueError(f"{result.path} cannot be read: {result.reason}.")
                    skipped.append(result)
                elif result.pixels is None:
                    rows[position] = result.features
                else:
                    new[result.digest] = result.pixels
                    waiting.append((position, result.digest))
                    if len(new) == batch_size:
                        run_network()
            run_network()
        return rows, skipped

    def _read_ahead(
        self, pool: ThreadPoolExecutor, cache: Cache, files: Sequence[Path], batch_size: int
    ) -> Iterator[_ReadFile | Skipped]:
        """Yield the files in order; threads read at most two batches ahead, which bounds the memory."""
        pending: deque[Future[_ReadFile | Skipped]] = deque()
        try:
            for file in files:
                pending.append(pool.submit(self._read_file, cache, os.path.abspath(file)))
                if len(pending) >= 2 * batch_size + self.n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _read_file(self, cache: Cache, path: str) -> _ReadFile | Skipped:
        """Read and decode a file in a thread, unless its features are cached."""
        try:
            size = os.stat(path).st_size
            if is_special_file(Path(path)):
                return Skipped(path, "it is not a regular file")
            if size > MAX_FILE_BYTES:
                return Skipped(path, f"it has {size:,} bytes; the maximum is {MAX_FILE_BYTES:,}")
            content = Path(path).read_bytes()
        except OSError as error:
            return Skipped(path, error.strerror or str(error))
        digest = hashlib.sha256(content).digest()
        features = cache.find_features(digest)
        if features is not None:
            return _ReadFile(digest, features)
        try:
            return _ReadFile(digest, None, self.resolved_preprocessing.pixels(decode_image(content), *self.size))
        except ValueError as error:
            return Skipped(path, str(error))


def extract(
    paths: Any,
    model: str | os.PathLike[str],
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
    model : str or path
        ONNX file of a network with one input of images. Their size and layout are read from the file.
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
    return extractor.extract(find_photos(paths) if is_path(paths) else paths)
