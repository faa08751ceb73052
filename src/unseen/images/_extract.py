"""Extract features from image files: threads decode images while the network runs, and batches are cached."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..exceptions import ParameterError
from ..tables import TableError, format_count, is_path
from ..utils.io import atomic_write, is_special_file, temporary_folder
from ..utils.progress import progress
from ._cache import Cache
from ._network import Network
from ._photos import Photos, as_unicode, find_photos
from ._pixels import Preprocessing, decode_image, quiet_decoding

DEFAULT_BATCH_SIZE = 16  # networks are hardly faster with larger batches, and a killed run loses at most one batch
MAX_FILE_BYTES = 2**30  # of an image file
VALUES_PER_BLOCK = 4_000_000  # features in memory while a table is written
METADATA_KEY = "unseen.images"  # key of the metadata in a Parquet file that describe the extraction
Features = NDArray[np.float32]


class Skipped(NamedTuple):
    """A file that could not be read as an image."""

    path: str
    reason: str


class _ReadFile(NamedTuple):
    """A file that a thread has read: the digest of its content, and its pixels unless its features are cached."""

    path: str
    size: int
    changed: int
    digest: bytes
    pixels: Features | None


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
        if self.network.takes_integers and not self.resolved_preprocessing.keeps_integers:
            raise ValueError(
                f"{self.network.path.name} takes integer pixels from 0 to 255 and scales them itself. Set scale to "
                "255, mean to 0 and std to 1 in preprocessing."
            )
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

    def open_cache(self) -> Cache:
        """Open the cache; its key covers everything that determines the features of an image."""
        settings = {name: value for name, value in self.facts.items() if name != "network"}
        return Cache(self.cache, hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest())

    def extract(self, photos: Photos | Sequence[str | os.PathLike[str]]) -> Extraction:
        """Return the features of images, in memory."""
        files = photos.files if isinstance(photos, Photos) else [Path(path) for path in photos]
        with self.open_cache() as cache:
            kept, digests, skipped = self._fill_cache(cache, files)
            blocks = list(_iterate_blocks(cache, digests))
            X = np.concatenate(blocks) if blocks else np.empty((0, self.count_features()), np.float32)
        label = None
        domain = None
        if isinstance(photos, Photos):
            label = [photos.label[i] for i in kept]
            domain = [photos.domain[i] for i in kept]
        return Extraction(X, [str(files[i]) for i in kept], label, domain, skipped, self.facts)

    def write(self, photos: Photos, output: Path) -> tuple[list[Path], list[Skipped]]:
        """Write a Parquet file with path, label, domain and features in blocks; return its files and those skipped."""
        files = photos.files
        with self.open_cache() as cache:
            kept, digests, skipped = self._fill_cache(cache, files)
            if not kept:
                problem = f"none of its {format_count(len(skipped), 'image')} can be read"
                raise TableError([f"{problem}: {skipped[0].path}: {skipped[0].reason}."], source=photos.name)
            columns = {
                "path": [as_unicode(photos.paths[i]) for i in kept],
                "label": [photos.label[i] for i in kept],
                "domain": [photos.domain[i] for i in kept],
            }
            names = [f"feature_{j}" for j in range(len(cache.get_features(digests[0])))]
            parts: list[Path] = []
            with atomic_write(output) as file, temporary_folder(output.parent) as folder:
                start = 0
                for block in _iterate_blocks(cache, digests):
                    stop = start + len(block)
                    labels = pl.DataFrame({name: values[start:stop] for name, values in columns.items()})
                    part = folder / f"{len(parts):06}.parquet"
                    labels.hstack(pl.DataFrame(block, schema=names, orient="row")).write_parquet(part)
                    parts.append(part)
                    start = stop
                facts = {METADATA_KEY: json.dumps({**self.facts, "root": as_unicode(str(photos.root.resolve()))})}
                pl.scan_parquet(parts, glob=False).sink_parquet(file, metadata=facts)
        return [files[i] for i in kept], skipped

    def count_features(self) -> int:
        """Return the number of features, from the output of the network for one image."""
        n_channels = 1 if self.network.is_gray else 3
        return self.network.features(np.zeros((1, *self.size, n_channels), np.float32)).shape[1]

    def _fill_cache(self, cache: Cache, files: Sequence[Path]) -> tuple[list[int], list[bytes], list[Skipped]]:
        """Cache the features of all files; return positions and digests of those that can be read, and the others."""
        kept: list[int] = []
        digests: list[bytes] = []
        skipped: list[Skipped] = []
        batch: list[_ReadFile] = []
        batch_size = self.network.batch_size or self.batch_size
        with (
            quiet_decoding(),
            ThreadPoolExecutor(self.n_threads) as pool,
            progress("Reading images", len(files), self.verbose, print_last=True) as advance,
        ):
            for position, result in enumerate(self._read_ahead(pool, cache, files, batch_size)):
                if isinstance(result, Skipped):
                    if self.strict:
                        raise ValueError(f"{result.path} cannot be read: {result.reason}.")
                    skipped.append(result)
                    advance(1)
                    continue
                kept.append(position)
                digests.append(result.digest)
                batch.append(result)
                n_new = sum(file.pixels is not None for file in batch)
                if n_new == batch_size or len(batch) == 100 * batch_size:
                    self._process_batch(cache, batch)
                    advance(len(batch))
                    batch = []
            if batch:
                self._process_batch(cache, batch)
                advance(len(batch))
        return kept, digests, skipped

    def _process_batch(self, cache: Cache, batch: Sequence[_ReadFile]) -> None:
        """Run the network on the files that have pixels, and cache the features."""
        pixels = {file.digest: file.pixels for file in batch if file.pixels is not None}
        rows = self.network.features(np.stack(list(pixels.values()))) if pixels else ()
        files = [(file.path, file.size, file.changed, file.digest) for file in batch]
        cache.add(files, zip(pixels, rows, strict=True))

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
            status = os.stat(path)
        except OSError as error:
            return Skipped(path, error.strerror or str(error))
        size = status.st_size
        changed = status.st_mtime_ns
        digest = cache.find_digest(path, size, changed)
        if digest is not None and cache.find_features(digest) is not None:
            return _ReadFile(path, size, changed, digest, pixels=None)
        if is_special_file(Path(path)):
            return Skipped(path, "it is not a regular file")
        if size > MAX_FILE_BYTES:
            return Skipped(path, f"it has {size:,} bytes; the maximum is {MAX_FILE_BYTES:,}")
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            return Skipped(path, error.strerror or str(error))
        digest = hashlib.sha256(content).digest()
        if cache.find_features(digest) is not None:
            return _ReadFile(path, size, changed, digest, pixels=None)
        try:
            image = decode_image(content)
            pixels = self.resolved_preprocessing.pixels(image, *self.size, self.network.is_gray)
        except ValueError as error:
            return Skipped(path, str(error))
        return _ReadFile(path, size, changed, digest, pixels)


def _iterate_blocks(cache: Cache, digests: Sequence[bytes]) -> Iterator[Features]:
    """Yield the rows of features in order, in blocks of limited size."""
    if not digests:
        return
    step = max(1, VALUES_PER_BLOCK // len(cache.get_features(digests[0])))
    for start in range(0, len(digests), step):
        yield np.stack([cache.get_features(digest) for digest in digests[start : start + step]])


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
