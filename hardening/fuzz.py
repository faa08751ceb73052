"""Damaged files through every reader: each is read, or rejected with an error of the package.

Files are made from their numbers, so that each can be made again; one that fails is written to ``tests/corpus``, which
the tests read again. ``python -m hardening.fuzz READER FIRST STOP`` reads some files with one reader.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import lzma
import os
import random
import resource
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from benchmarks.measure import Row
from PIL import Image
from scipy.io import savemat

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "corpus"
sys.path.insert(0, str(ROOT / "tests"))

from readers import PATIENTS, READERS, ForeignError, Home, X, Y, open_home, run_reader  # noqa: E402
from unseen.images import extract  # noqa: E402

FILES = {"model": 5_000, "csv": 2_000, "npz": 2_000, "image": 2_000, "network": 1_000}  # 500 of all others
TRUNCATED = ("parquet", "arrow", "mat")  # forged sizes in these formats may end the process in another library
STEP = 500  # files for one process
START_SECONDS = 120  # for the start of a process, on a machine that does other things as well
MEMORY = 2**30  # bytes for one file
NUMBERS = (0, 1, 255, 2**15, 2**31 - 1, 2**32 - 1, 2**63 - 1, -1)
VALUES = (None, True, "", "x" * 5000, [], {}, [[]], 1.5, 1e308, float("nan"), 10**400, *NUMBERS)


@cache
def seeds(home: Home, reader: str) -> list[tuple[str, bytes]]:
    """Valid files of a reader, with their names."""
    folder = home.folder / "seeds"
    folder.mkdir(exist_ok=True)
    if reader == "model":
        paths = [home.model_path(name) for name in ("patients.csv", "arrays.npz")]
    elif reader == "csv":
        paths = [home.folder / "patients.csv"]
    elif reader == "npz":
        paths = [home.folder / "arrays.npz"]
    elif reader == "parquet":
        paths = [folder / "seed.parquet"]
        PATIENTS.write_parquet(paths[0])
    elif reader == "arrow":
        paths = [folder / "seed.arrow"]
        PATIENTS.write_ipc(paths[0])
    elif reader == "mat":
        paths = [folder / "seed.mat"]
        savemat(paths[0], {"X": X, "y": Y})
    elif reader == "mat73":
        paths = [folder / "seed73.mat"]
        with h5py.File(paths[0], "w") as file:
            file["X"] = X.T
            file["y"] = Y[None]
    elif reader == "image":
        picture = Image.fromarray(np.arange(300, dtype=np.uint8).reshape(10, 10, 3))
        paths = [folder / f"seed.{suffix}" for suffix in ("png", "jpg", "tif", "webp", "gif")]
        for path in paths:
            picture.save(path)
    elif reader == "network":
        paths = [home.folder / "network.onnx"]
    elif reader == "results":
        paths = [folder / "results.sqlite"]
        home.run(paths[0])
    else:
        paths = [folder / "features.sqlite"]
        extract([home.picture], home.network, cache=paths[0], n_jobs=1)
    return [(path.name, path.read_bytes()) for path in paths]


def make_file(home: Home, reader: str, number: int) -> tuple[str, bytes]:
    """A damaged file by its number."""
    rng = random.Random(f"{reader} {number}")
    name, content = rng.choice(seeds(home, reader))
    if reader in TRUNCATED:
        return name, content[: rng.randrange(len(content))]
    if reader == "model" and rng.random() < 0.9:
        return name, forge_model(content, rng)
    if reader == "npz" and rng.random() < 0.5:
        members = unpack(content)
        member = rng.choice(sorted(members))
        members[member] = change_bytes(members[member], rng)
        return name, pack(members)
    return name, change_bytes(content, rng)


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    """Flip, overwrite, remove, repeat or insert some bytes."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(changed) + 1)
        length = rng.choice((1, 2, 4, 16, 256))
        part = changed[start : start + length]
        kind = rng.randrange(6)
        if kind == 0:
            replacement = bytes(byte ^ 1 << rng.randrange(8) for byte in part)
        elif kind == 1:
            replacement = rng.randbytes(len(part))
        elif kind == 2:
            replacement = b""
        elif kind == 3:
            replacement = bytes(part) * rng.choice((2, 20))
        elif kind == 4:
            replacement = (rng.choice(NUMBERS) % 2**32).to_bytes(4, rng.choice(("little", "big")))
        else:
            replacement = bytes(part) + rng.randbytes(length)
        changed[start : start + length] = replacement
    return bytes(changed)


def forge_model(content: bytes, rng: random.Random) -> bytes:
    """A model file with a changed card, description or array, and correct checksums."""
    outer = unpack(content)
    inner = unpack(outer["model.skops"])
    card = json.loads(outer["card.json"])
    kind = rng.random()
    if kind < 0.25:
        card = change_value(card, rng)
    elif kind < 0.75:
        inner["schema.json"] = json.dumps(change_value(json.loads(inner["schema.json"]), rng)).encode()
    else:
        name = rng.choice(sorted(name for name in inner if name != "schema.json"))
        inner[name] = change_bytes(inner[name], rng)
    payload = pack(inner)
    if isinstance(card, dict):
        card["payload"] = {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        card.pop("sha256", None)
        text = json.dumps(card, sort_keys=True, separators=(",", ":"))
        card["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return pack({"card.json": json.dumps(card).encode(), "model.skops": payload})


def change_value(value: Any, rng: random.Random) -> Any:
    """A JSON value in which one part is replaced or removed."""
    value = copy.deepcopy(value)
    parts = [(container, key) for container in _containers(value) for key in _keys(container)]
    container, key = rng.choice(parts)
    kind = rng.randrange(4)
    if kind == 0:
        del container[key]
    elif kind == 1:
        other, other_key = rng.choice(parts)
        container[key] = copy.deepcopy(other[other_key])
    else:
        container[key] = rng.choice(VALUES)
    return value


def _keys(container: Any) -> list[Any]:
    return list(container) if isinstance(container, dict) else list(range(len(container)))


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        yield value
        for key in _keys(value):
            yield from _containers(value[key])


def unpack(content: bytes) -> dict[str, bytes]:
    """The members of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(members: Mapping[str, bytes]) -> bytes:
    """A zip archive with correct checksums."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def read_files(reader: str, first: int, stop: int) -> None:
    """Read some files in this process; print the number of each before it is read, then the outcome."""
    with open_home() as home:
        make_file(home, reader, first)  # loads libraries before memory is limited
        with open("/proc/self/status") as status:
            used = 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmData:"))
        resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, -1))
        for number in range(first, stop):
            name, content = make_file(home, reader, number)
            print(json.dumps({"number": number}), flush=True)
            ways = READERS[reader]
            try:
                outcome = run_reader(ways[number % len(ways)], home, name, content)
            except ForeignError as error:
                outcome = f"error: {error}"
            print(json.dumps({"outcome": outcome}), flush=True)


def run_reader_process(reader: str, first: int, stop: int) -> Iterator[tuple[int, str]]:
    """Read files in other processes; yield their numbers and outcomes, also that a file ended or stopped a process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    while first < stop:
        command = [sys.executable, "-m", "hardening.fuzz", reader, str(first), str(stop)]
        try:
            limit = START_SECONDS + (stop - first)
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=limit)
            output, ending = done.stdout, f"crash: exit code {done.returncode}: {done.stderr[-500:]}"
        except subprocess.TimeoutExpired as error:
            output, ending = (error.stdout or b"").decode(), "hang"
        lines = [json.loads(line) for line in output.splitlines()]
        numbers = [line["number"] for line in lines if "number" in line]
        outcomes = [line["outcome"] for line in lines if "outcome" in line]
        if not numbers:
            raise RuntimeError(f"{reader}: no file was read: {ending}")
        if len(outcomes) < len(numbers):
            outcomes.append(ending)
        yield from zip(numbers, outcomes, strict=True)
        first = numbers[-1] + 1


def rows() -> Iterator[Row]:
    """Read all files with all readers, and keep those that fail."""
    counts: Counter[str] = Counter()
    with open_home() as home:
        for reader in READERS:
            if reader == "folder":
                continue  # links, pipes and odd names are in the tests
            stop = FILES.get(reader, 500)
            for first in range(0, stop, STEP):
                for number, outcome in run_reader_process(reader, first, min(first + STEP, stop)):
                    kind = outcome.partition(":")[0]
                    counts[kind] += 1
                    if kind not in ("read", "refused"):
                        print(f"fuzz: {reader} {number}: {outcome}", file=sys.stderr, flush=True)
                        _keep(home, reader, number, kind)
            print(f"fuzz: {reader}: {dict(counts)}", file=sys.stderr, flush=True)
    detail = f"{counts['read']:,} could be read, {counts['refused']:,} were rejected with an error of the package"
    yield Row("damaged files", counts.total(), 10_000, False, detail)
    yield Row("crashes", counts["crash"], 0, True, "")
    yield Row("hangs", counts["hang"], 0, True, "")
    yield Row("other errors, and warnings of libraries", counts["error"], 0, True, f"or {MEMORY // 2**20} MB exceeded")


def _keep(home: Home, reader: str, number: int, kind: str) -> None:
    """Write a file to the corpus, compressed."""
    name, content = make_file(home, reader, number)
    path = CORPUS / reader / f"{kind}-{number}.{name.partition('.')[2]}.xz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(content, preset=9))


if __name__ == "__main__":
    read_files(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
