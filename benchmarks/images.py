"""Photographs through a network: the wall against the network alone, and against all work spread over the cores."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from unseen.images import Network, Preprocessing, extract, find_photos
from unseen.images._pixels import decode_image

from .measure import Row, peak_bytes

DATA = Path(__file__).parents[2] / "shared" / "data"
PHOTOS, NETWORK = DATA / "office_caltech_photos", DATA / "models" / "efficientnet-lite0.onnx"
COPIES = 6
PRESET = "tf-lite"
BATCH_SIZE = 16


def rows() -> Iterator[Row]:
    if not PHOTOS.is_dir():
        print(f"images: skipped, since there is no {PHOTOS}", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy(Path(folder), COPIES)
        yield sorted((time_row(folder) for _ in range(3)), key=lambda row: row.value)[1]  # the median
        yield memory_row(Path(folder))


def copy(folder: Path, times: int) -> None:
    """The photographs, several times: a byte after the end of a picture makes another file of it."""
    for path in PHOTOS.rglob("*.jpg"):
        for i in range(times):
            target = folder / path.relative_to(PHOTOS).with_stem(f"{path.stem}_{i}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes() + b"\0" * i)


def open_network() -> Network:
    network = Network(NETWORK)
    size = Preprocessing.from_spec(PRESET).output_size(*network.size)
    for _ in range(3):  # a session is slow at first
        network.features(np.zeros((BATCH_SIZE, *size, 3), np.float32))
    return network


def time_row(folder: str) -> Row:
    """All in one run, since machines have slow spells."""
    network, files = open_network(), find_photos(folder).files
    preprocessing = Preprocessing.from_spec(PRESET)
    size = preprocessing.output_size(*network.size)
    cpu = time.process_time()
    pixels = [preprocessing.pixels(decode_image(path.read_bytes()), *size) for path in files]
    decode_cpu = time.process_time() - cpu
    batches = [np.stack(pixels[i : i + BATCH_SIZE]) for i in range(0, len(pixels), BATCH_SIZE)]
    start, cpu = time.perf_counter(), time.process_time()
    for batch in batches:
        network.features(batch)
    alone, network_cpu = time.perf_counter() - start, time.process_time() - cpu
    start = time.perf_counter()
    extract(find_photos(folder), network, preprocessing=PRESET, batch_size=BATCH_SIZE)
    wall = time.perf_counter() - start
    spread = (decode_cpu + network_cpu) / (os.cpu_count() or 1)
    detail = (
        f"{wall:.2f} s / max({alone:.2f} s alone, {spread:.2f} s of CPU on each core); {len(files) / wall:.0f} a second"
    )
    return Row(
        f"{len(files)} photographs: wall / the least there can be", wall / max(alone, spread), 1.15, True, detail
    )


def memory_row(folder: Path) -> Row:
    """What six times the photographs take beside what one of each takes, features left out."""
    prepare = "from benchmarks.images import open_network, write_all\nnetwork = open_network()"
    few, many = (peak_bytes(prepare, f"write_all(network, {str(folder)!r}, {only})") for only in (True, False))
    return Row(f"memory for {COPIES} times the photographs / for one", many / few, 1.25, True, f"{many / 1e6:.0f} MB")


def write_all(network: Network, folder: str, few: bool) -> None:
    pattern = r"^([^/]+)/"
    photos = find_photos(folder, pattern)
    if few:
        kept = [i for i, path in enumerate(photos.paths) if path.endswith("_0.jpg")]
        for values in (photos.paths, photos.label, photos.domain):
            values[:] = [values[i] for i in kept]
    with tempfile.TemporaryDirectory() as target:
        extraction = extract(photos, network, preprocessing=PRESET, cache=Path(target, "cache.sqlite"))
        extraction.write(Path(target, "features.parquet"))
