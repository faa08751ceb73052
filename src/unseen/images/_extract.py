"""From files of pictures to rows of features: decoded ahead of the network, in batches, each kept as it is done."""

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
from numpy.typing import NDArray

from ..tables import TableError, format_count, is_path
from ..utils.io import atomic_write, is_special, temporary_folder
from ..utils.optional_imports import optional_import
from ..utils.progress import progress
from ._cache import Cache
from ._network import Network
from ._photos import Photos, as_unicode, find_photos
from ._pixels import Preprocessing, decode_image, quiet_decoding

DEFAULT_BATCH_SIZE = 16  # pictures: networks are hardly faster on more, and no more is lost when a run is killed
MAX_FILE_BYTES = 2**30  # of a file that is read as a picture
VALUES_PER_BLOCK = 4_000_000  # in memory while a table is written
METADATA_KEY = "unseen.images"  # the key under which a Parquet file says how its features were made
Features = NDArray[np.float32]


class Skipped(NamedTuple):
    """A file that could not be read as a picture."""

    path: str
    reason: str


class _ReadFile(NamedTuple):
    """What a thread found in a file: the digest of its content, and its pixels unless its features are known."""

    path: str
    size: int
    changed: int
    content: bytes
    pixels: Features | None


@dataclass(frozen=True)
class Extraction:
    """What :func:`unseen.images.extract` found.

    Attributes
    ----------
    X : ndarray of shape (n_pictures, n_features)
        The features, in single precision, of all pictures that could be read.
    paths : list of str
        Of these pictures.
    label, domain : list of str or None
        What they show and where they come from, if that was told.
    skipped : list of (path, reason)
        Files that could not be read.
    facts : dict
        How the features were made: the network and its hash, its output, the preprocessing.
    """

    X: Features
    paths: list[str]
    label: list[str] | None
    domain: list[str] | None
    skipped: list[Skipped]
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """A network and what is decided about its use; :func:`unseen.images.extract` says what the settings mean."""

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
            raise ValueError(f"batch_size must be 1 or more; got {self.batch_size}.")

    @cached_property
    def network(self) -> Network:
        """The network, opened once."""
        return Network(self.model, self.output_name, self.threads)

    @property
    def threads(self) -> int:
        """How many read pictures, and how many run the network."""
        return (os.cpu_count() or 1) if self.n_jobs is None or self.n_jobs < 1 else self.n_jobs

    @cached_property
    def how(self) -> Preprocessing:
        """What is done to pictures."""
        return Preprocessing.from_spec(self.preprocessing)

    @cached_property
    def size(self) -> tuple[int, int]:
        """Height and width of the pictures that the network is given."""
        if self.network.whole and not self.how.is_plain:
            raise ValueError(
                f"{self.network.path.name} takes whole pixels, from 0 to 255, and scales them itself: set scale to "
                "255, mean to 0 and std to 1."
            )
        return self.how.size(*self.network.size)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """How the features are made, in plain values."""
        return {
            "network": self.network.path.name,
            "sha256": self.network.digest,
            "output": self.network.output_name,
            "size": list(self.size),
            "preprocessing": json.loads(json.dumps(vars(self.how))),
        }

    def open_cache(self) -> Cache:
        """What is kept of earlier runs; all that features depend on, but for the picture, is part of its key."""
        told = {name: value for name, value in self.facts.items() if name != "network"}
        return Cache(self.cache, hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest())

    def extract(self, photos: Photos | Sequence[str | os.PathLike[str]]) -> Extraction:
        """The features of some pictures, in memory."""
        files = photos.files if isinstance(photos, Photos) else [Path(path) for path in photos]
        with self.open_cache() as cache:
            kept, contents, skipped = self._fill(cache, files)
            X = np.concatenate([*_iterate_blocks(cache, contents)] or [np.empty((0, self.width()), np.float32)])
        label = [photos.label[i] for i in kept] if isinstance(photos, Photos) else None
        domain = [photos.domain[i] for i in kept] if isinstance(photos, Photos) else None
        return Extraction(X, [str(files[i]) for i in kept], label, domain, skipped, self.facts)

    def write(self, photos: Photos, output: Path) -> tuple[list[Path], list[Skipped]]:
        """A Parquet file with path, label, domain and features, written a few rows at a time; which files are in it."""
        pl = optional_import("polars", "Writing a table")
        files = photos.files
        with self.open_cache() as cache:
            kept, contents, skipped = self._fill(cache, files)
            if not kept:
                told = f"none of its {format_count(len(skipped), 'picture')} can be read"
                raise TableError([f"{told}: {skipped[0].path}: {skipped[0].reason}."], source=photos.name)
            columns = {name: [values[i] for i in kept] for name, values in _label_columns(photos).items()}
            names, start = [f"feature_{j}" for j in range(len(cache.known(contents[0])))], 0
            parts: list[Path] = []
            with atomic_write(output) as file, temporary_folder(output.parent) as folder:
                for block in _iterate_blocks(cache, contents):
                    rows = slice(start, start := start + len(block))
                    told = pl.DataFrame({name: values[rows] for name, values in columns.items()})
                    frame = told.hstack(pl.DataFrame(block, schema=names, orient="row"))
                    parts.append(folder / f"{len(parts):06}.parquet")
                    frame.write_parquet(parts[-1])
                facts = {METADATA_KEY: json.dumps({**self.facts, "root": as_unicode(str(photos.root.resolve()))})}
                pl.scan_parquet(parts, glob=False).sink_parquet(file, metadata=facts)
        return [files[i] for i in kept], skipped

    def width(self) -> int:
        """The number of features, which a network tells for certain only by what it gives."""
        return self.network.features(np.zeros((1, *self.size, 1 if self.network.gray else 3), np.float32)).shape[1]

    def _fill(self, cache: Cache, files: Sequence[Path]) -> tuple[list[int], list[bytes], list[Skipped]]:
        """Which files could be read, the digests of their contents, whose features are then known, and the others."""
        kept: list[int] = []
        contents: list[bytes] = []
        skipped: list[Skipped] = []
        waiting: list[_ReadFile] = []
        batch = self.network.batch or self.batch_size
        with (
            quiet_decoding(),
            ThreadPoolExecutor(self.threads) as pool,
            progress("Reading pictures", len(files), self.verbose, last=True) as advance,
        ):
            for position, seen in enumerate(self._ahead(pool, cache, files, batch)):
                if isinstance(seen, Skipped):
                    if self.strict:
                        raise ValueError(f"{seen.path} cannot be read: {seen.reason}.")
                    skipped.append(seen)
                    advance(1)
                    continue
                kept.append(position)
                contents.append(seen.content)
                waiting.append(seen)
                if sum(one.pixels is not None for one in waiting) == batch or len(waiting) == 100 * batch:
                    self._flush(cache, waiting)
                    advance(len(waiting))
                    waiting = []
            if waiting:
                self._flush(cache, waiting)
                advance(len(waiting))
        return kept, contents, skipped

    def _flush(self, cache: Cache, waiting: Sequence[_ReadFile]) -> None:
        """Run the network on what has pixels, and keep what it says."""
        fresh = {seen.content: seen.pixels for seen in waiting if seen.pixels is not None}
        rows = self.network.features(np.stack(list(fresh.values()))) if fresh else ()
        cache.add([seen[:4] for seen in waiting], zip(fresh, rows, strict=True))

    def _ahead(
        self, pool: ThreadPoolExecutor, cache: Cache, files: Sequence[Path], batch: int
    ) -> Iterator[_ReadFile | Skipped]:
        """What is in the files, in order; threads are ahead by two batches at most, whatever the number of files."""
        pending: deque[Future[_ReadFile | Skipped]] = deque()
        try:
            for file in files:
                pending.append(pool.submit(self._look, cache, os.path.abspath(file)))
                if len(pending) >= 2 * batch + self.threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _look(self, cache: Cache, path: str) -> _ReadFile | Skipped:
        """In a thread: read and decode a file, unless it was read before."""
        try:
            status = os.stat(path)
        except OSError as error:
            return Skipped(path, error.strerror or str(error))
        about = path, status.st_size, status.st_mtime_ns
        content = cache.content_of(*about)
        if content is not None and cache.features(content) is not None:
            return _ReadFile(*about, content, None)
        if is_special(Path(path)):
            return Skipped(path, "it is not a file")
        if status.st_size > MAX_FILE_BYTES:
            return Skipped(path, f"it has {status.st_size:,} bytes; at most {MAX_FILE_BYTES:,} are read")
        try:
            held = Path(path).read_bytes()
        except OSError as error:
            return Skipped(path, error.strerror or str(error))
        content = hashlib.sha256(held).digest()
        if cache.features(content) is not None:
            return _ReadFile(*about, content, None)
        try:
            return _ReadFile(*about, content, self.how.pixels(decode_image(held), *self.size, self.network.gray))
        except ValueError as error:
            return Skipped(path, str(error))


def _label_columns(photos: Photos) -> dict[str, list[str]]:
    return {"path": list(map(as_unicode, photos.paths)), "label": photos.label, "domain": photos.domain}


def _iterate_blocks(cache: Cache, contents: Sequence[bytes]) -> Iterator[Features]:
    """Rows of features in order, many at a time."""
    step = max(1, VALUES_PER_BLOCK // len(cache.known(contents[0]))) if contents else 1
    for start in range(0, len(contents), step):
        yield np.stack([cache.known(content) for content in contents[start : start + step]])


def extract(paths: Any, model: str | os.PathLike[str], **settings: Any) -> Extraction:
    """Features of pictures: what a network makes of them.

    Parameters
    ----------
    paths : str, path, Photos or sequence of paths
        A folder DOMAIN/CLASS/, or a table with the columns path, label and domain, as
        :func:`~unseen.images.find_photos` reads them, or what that gives; or files of pictures.
    model : str or path
        A network in an ONNX file, with one input of pictures. Its size and layout are read from the file.
    **settings
        output_name : the tensor that is wanted, any of the network's; by default its first output.
        preprocessing : a :class:`~unseen.images.Preprocessing`, or what makes one: the name of a preset ("caffe",
        "torchvision", "tf-lite"), or a dict of settings. By default "torchvision".
        cache : a file that keeps features, so that a picture is read once; by default nothing is kept.
        batch_size : pictures that the network is given at a time; 16.
        n_jobs : threads; by default one on each core.
        strict : whether a file that cannot be read is an error; by default it is listed in `skipped`.
        verbose : 1 shows progress.

    Returns
    -------
    extraction : Extraction
        With `X`, `paths`, `label`, `domain`, `skipped` and `facts`.

    Examples
    --------
    >>> from unseen.images import extract
    >>> found = extract("photos", "resnet50.onnx", output_name="flatten")  # doctest: +SKIP
    >>> found.X.shape  # doctest: +SKIP
    (80, 2048)
    """
    extractor = Extractor(model=model, **settings)
    return extractor.extract(find_photos(paths) if is_path(paths) else paths)
