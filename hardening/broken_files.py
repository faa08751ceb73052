"""Broken models, pictures, networks, files of results and of features, and folders of all sorts of things."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from readers import MEMBERS, Home, make_model
from tiny_network import store_externally, tiny_model, tiny_network
from unseen.models import save_model
from unseen.study import Row, Store
from unseen.tables import load_table

from .broken_tables import Broken, broken_arrow, broken_csv, broken_mat, broken_npz, broken_parquet
from .mutators import LARGE, VALUES, Random, altered, json_bytes, npy, other_varint, scrambled, unzipped, zipped


@cache
def _models(home: Home) -> list[tuple[dict[str, Any], dict[str, Any], dict[str, bytes]]]:
    """Cards, descriptions of the models, and their arrays; numbered from 1 on, so that they are the same each time."""
    found = []
    for name in ("patients.csv", "arrays.npz"):
        table = load_table(home.folder / name)
        for member in MEMBERS:
            model, card = make_model(table, member)
            save_model(model, home.folder / "seed.unseen", card)
            outer = unzipped((home.folder / "seed.unseen").read_bytes())
            inner = unzipped(outer["model.skops"])
            schema, numbers = json.loads(inner.pop("schema.json")), dict[int, int]()
            _renumber(schema, numbers)
            arrays = {f"{numbers[int(file.removesuffix('.npy'))]}.npy": content for file, content in inner.items()}
            found.append((json.loads(outer["card.json"]), schema, arrays))
    return found


def _renumber(node: Any, numbers: dict[int, int]) -> None:
    inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict) and "__id__" in node:
        number = numbers.setdefault(node["__id__"], len(numbers) + 1)
        node["__id__"] = number
        if "file" in node:
            node["file"] = f"{number}.npy"
    for part in inside:
        _renumber(part, numbers)


def _digest(card: Any) -> str:
    said = {key: value for key, value in card.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


MODULES = (
    "os",
    "builtins",
    "sklearn.svm._classes",
    "numpy",
    "unseen.models._table_model",
    "subprocess",
    "sklearn.tree._tree",
)


def broken_model(home: Home, rng: Random) -> Broken:
    """The card, the description or an array altered, with right checksums of all that has one; or blind changes."""
    card, schema, arrays = rng.choice(_models(home))
    arrays, kind = dict(arrays), rng.random()
    if 0.1 < kind < 0.3:
        for _ in range(rng.choice((1, 1, 2, 4))):
            card = altered(card, rng)
    elif kind < 0.7:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            schema = altered(schema, rng)
    elif kind < 0.9:
        for _ in range(rng.choice((1, 1, 2))):
            name = rng.choice([*arrays])
            arrays[name] = npy(rng, arrays[name])
    else:
        home_node: Any = rng.choice(_nodes(schema := json.loads(json.dumps(schema))))
        key = rng.choice(("__module__", "__class__", "__loader__", "type", "shape", "content", "__id__"))
        loaders = ("FunctionNode", "MethodNode", "ReduceNode", "OperatorFuncNode", "SparseMatrixNode", "CachedNode")
        home_node[key] = rng.choice((*MODULES, *loaders, "system", "eval", "Popen", "SVC", rng.choice(VALUES)))
    described = schema if rng.random() < 0.97 else [schema]
    payload = zipped({**arrays, "schema.json": json_bytes(described, rng)}, 0 if rng.random() < 0.99 else 8)
    if isinstance(card, dict):
        if isinstance(card.get("payload"), dict):
            card = card | {"payload": {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}}
        card = card | {"sha256": _digest(card)}
    content = zipped({"card.json": json_bytes(card, rng), "model.skops": payload}, 0 if rng.random() < 0.99 else 8)
    return "broken.unseen", scrambled(content, (), rng) if kind <= 0.1 else content


def _nodes(node: Any) -> list[dict[str, Any]]:
    inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    own = [node] if isinstance(node, dict) and "__id__" in node else []
    return [*own, *(found for part in inside for found in _nodes(part))]


@cache
def _pictures() -> tuple[tuple[str, bytes], ...]:
    values = np.arange(12 * 9 * 4, dtype=np.uint8).reshape(12, 9, 4)
    found = []
    plain = Image.fromarray(values[..., :3])
    deep = Image.fromarray(np.arange(108, dtype=np.uint16).reshape(12, 9) * 600)
    modes = {mode: plain.convert(mode) for mode in ("RGB", "L", "1", "P", "CMYK", "YCbCr", "LAB", "I", "F")}
    modes |= {"RGBA": Image.fromarray(values), "LA": plain.convert("LA"), "16": deep}
    for ending in ("jpg", "png", "tif", "webp", "bmp", "gif"):
        for picture in modes.values():
            for options in (
                {},
                {"save_all": True, "append_images": [picture] * 2},
                {"exif": _exif()},
                {"compression": "tiff_lzw"},
            ):
                if ("save_all" in options and ending not in ("png", "webp", "tif", "gif")) or (
                    "compression" in options and ending != "tif"
                ):
                    continue
                buffer = io.BytesIO()
                try:
                    picture.save(buffer, {"jpg": "jpeg", "tif": "tiff"}.get(ending, ending), **options)
                except (OSError, ValueError, KeyError):  # not every mode has a place in every format
                    continue
                found.append((ending, buffer.getvalue()))
    return tuple(found)


def _exif() -> Image.Exif:
    exif = Image.Exif()
    exif[274] = 6
    return exif


def _png(width: int, height: int, depth: int, color: int, data: bytes) -> bytes:
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width % 2**32, height % 2**32, depth, color, 0, 0, 0)),
        (b"IDAT", data),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in (*chunks, (b"IEND", b"")))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


@cache
def _wide(width: int, height: int, depth: int, color: int) -> bytes:
    """A whole picture of zeros, large but for its file."""
    row = bytes(1 + (width * depth * {0: 1, 2: 3, 4: 2, 6: 4}[color] + 7) // 8)
    packer = zlib.compressobj(1)
    return _png(width, height, depth, color, b"".join(packer.compress(row) for _ in range(height)) + packer.flush())


SIZES = ((1, 3000), (20_000, 1), (1, 10**6), (300_000, 2), (9000, 9000), (2**16, 1300), (4000, 4000))


def broken_image(rng: Random) -> Broken:
    """Chunks of PNG files altered, with right checksums; numbers of headers; pictures of odd sizes; blind changes."""
    ending, content = rng.choice(_pictures())
    kind = rng.random()
    if kind < 0.004:
        return "broken.png", _wide(*rng.choice(SIZES), *rng.choice(((8, 0), (8, 2), (8, 6), (16, 0), (1, 0), (16, 6))))
    if kind < 0.01:
        data = zlib.compress(bytes(100))
        return "broken.png", _png(
            rng.choice(LARGE), rng.choice(LARGE), rng.choice((1, 8, 16)), rng.choice((0, 2, 3, 6)), data
        )
    if ending == "png" and kind < 0.6:
        chunks, at = [], 8
        while at + 8 <= len(content):
            (size,) = struct.unpack_from(">I", content, at)
            chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
            at += 12 + size
        for _ in range(rng.choice((1, 1, 2))):
            i = rng.randrange(len(chunks))
            name, data = chunks[i]
            if name == b"IDAT" and rng.random() < 0.5:
                chunks[i] = name, zlib.compress(scrambled(zlib.decompress(data), (), rng))
            elif rng.random() < 0.7:
                chunks[i] = name, scrambled(data or b"\0", (), rng)
            elif rng.random() < 0.5:
                chunks.insert(
                    rng.randrange(len(chunks)),
                    (rng.choice((b"tRNS", b"PLTE", b"iCCP", b"eXIf", b"zTXt", b"acTL")), data),
                )
            else:
                del chunks[i]
        content = content[:8] + b"".join(_chunk(*chunk) for chunk in chunks)
    elif kind < 0.75:
        head = bytearray(content[:200])
        at, size = rng.randrange(len(head)), rng.choice((2, 4))
        head[at : at + size] = (rng.choice(LARGE) % (1 << 8 * size)).to_bytes(size, rng.choice(("little", "big")))  # type: ignore[arg-type]
        content = bytes(head) + content[200:]
    else:
        content = scrambled(content, [other for _, other in _pictures()], rng)
    return f"broken.{rng.choice((ending, ending, 'jpg', 'png'))}", content


@cache
def _networks() -> tuple[bytes, ...]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "n.onnx")
        how: tuple[dict[str, Any], ...] = (
            {},
            {"layout": "NHWC"},
            {"whole": True},
            {"channels": 1},
            {"size": "s"},
            {"batch": 2},
        )
        found = [tiny_network(path, **each).read_bytes() for each in how]
        return (*found, tiny_network(path, beside=Path(folder, "weights.bin")).read_bytes())


PLACES = (
    "/dev/zero",
    "/dev/stdin",
    "../../../../dev/zero",
    "",
    ".",
    "weights.bin",
    "\0",
    "x" * 300,
    "broken.onnx",
    "/proc/self/mem",
)


def broken_network(rng: Random) -> Broken:
    """Weights in odd places, tensors of odd shapes, numbers and lengths of messages changed; blind changes."""
    content = rng.choice(_networks())
    kind = rng.random()
    if kind < 0.1:
        model = tiny_model()
        tensor = model.graph.initializer.add(name=rng.choice(("w", "w2", "x")), data_type=1)
        if rng.random() < 0.5:
            store_externally(tensor, rng.choice(PLACES))
        else:
            tensor.dims.extend([2**32] * rng.choice((1, 9)))
        content = model.SerializeToString()
    elif kind < 0.6:
        content = other_varint(content, rng)
    else:
        content = scrambled(content, _networks(), rng)
    return "broken.onnx", content


ROW = Row("1-NN", "a -> b", 0, 0, 0.5, {"b": 0.5}, None, {"C": 1.0}, 0, False, 0.1, "ok", "", {"cores": 2})


@cache
def _results(home: Home) -> tuple[bytes, ...]:
    study, plain = home.folder / "study.sqlite", home.folder / "plain.sqlite"
    home.run(study)
    with Store(plain) as store:
        store.add_configuration("k", {"seed": 0})
        for i in range(20):
            store.add("k", Row(**vars(ROW) | {"repeat": i, "reason": "x" * 400}), np.arange(i))
        store.add_scores("k", {("a", "b"): {}})
    return tuple(_at_rest(path) for path in (study, study, plain))


@cache
def _features(home: Home) -> tuple[bytes, ...]:
    path = home.folder / "features.sqlite"
    from readers import READERS

    home.work.mkdir(exist_ok=True)
    READERS["features"][0](home, path)
    return (_at_rest(path),)


def _at_rest(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("VACUUM")
    return path.read_bytes()


CELLS = (
    *(
        "NULL",
        "''",
        "0",
        "-1",
        "1e999",
        "9223372036854775807",
        "x''",
        "x'ff'",
        "x'789c'",
        "zeroblob(100000)",
        "'{'",
        "'[]'",
    ),
    *(
        "'{}'",
        "'null'",
        "'\"x\"'",
        '\'{"b": "x"}\'',
        "'{\"b\": null}'",
        "'[[1]]'",
        "CAST(x'ff' AS TEXT)",
        "'ok'",
        "'failed'",
    ),
    *("'{\"\\ud800\": NaN}'", "'plain'", "'invariant'", "1.5", "'a -> b'", "'1-NN'"),
)
PACKED = (
    b"[]",
    b"{}",
    b"null",
    b"[[1, 2]]",
    b'[[["a", "b"], {"c": [1]}]]',
    b'[[["a"], {"c": [1, 2, 3]}]]',
    b"[" * 9999,
    b"\xff",
    b"",
)


def _changed(content: bytes, rng: Random, tables: dict[str, tuple[str, ...]], checksums: dict[str, str]) -> bytes:
    """A database with other tables or other values, whose checksums are computed again."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder, "x")
        path.write_bytes(content)
        with closing(sqlite3.connect(path)) as connection:
            connection.create_function(
                "crc32", 1, lambda value: zlib.crc32(value) if isinstance(value, bytes) else None
            )
            for _ in range(rng.choice((1, 1, 2, 3))):
                table = rng.choice([*tables])
                column, kind = rng.choice(tables[table]), rng.randrange(20)
                limit = f"WHERE rowid <= {rng.choice((1, 1, 3, 99))}"
                packed = f"x'{zlib.compress(rng.choice((*PACKED, bytes(7), bytes(2**20)))).hex()}'"
                statements = (
                    f"UPDATE {table} SET {column} = {rng.choice(CELLS)} {limit}",
                    f"UPDATE {table} SET {column} = {packed} {limit}",
                    f"INSERT INTO {table} SELECT * FROM {table}",
                    f"DROP TABLE {table}",
                    f"ALTER TABLE {table} DROP COLUMN {column}",
                    f"ALTER TABLE {table} RENAME TO other",
                    f"ALTER TABLE {table} RENAME COLUMN {column} TO other",
                    f"DELETE FROM {table}",
                    f"DROP TABLE {table}; CREATE TABLE {table} (x)",
                    f"DROP TABLE {table}; CREATE VIEW {table} AS SELECT 1",
                    f"CREATE TRIGGER t AFTER UPDATE ON {table} BEGIN DELETE FROM {table}; END",
                    f"PRAGMA user_version = {rng.choice(LARGE) % 2**31}",
                )
                try:
                    connection.executescript(statements[kind if kind < len(statements) else kind % 2])
                except sqlite3.Error:
                    continue  # the change before has taken the ground from this one
            for table, checksum in checksums.items() if rng.random() < 0.9 else ():
                try:
                    connection.execute(f"UPDATE {table} SET checksum = {checksum}")
                    connection.commit()
                except sqlite3.Error:
                    continue
        return path.read_bytes()


def broken_results(home: Home, rng: Random) -> Broken:
    """Bytes of a results file changed, cut off or spliced."""
    return "broken.sqlite", scrambled(rng.choice(_results(home)), (), rng, 8)


def broken_features(home: Home, rng: Random) -> Broken:
    """Other tables, other values with right checksums, and blind changes of stored features."""
    content = rng.choice(_features(home))
    if rng.random() < 0.4:
        return "broken.sqlite", scrambled(content, (), rng, 8)
    tables = {"pictures": ("content", "size", "path"), "features": ("numbers", "content")}
    return "broken.sqlite", _changed(content, rng, tables, {"features": "crc32(numbers)"})


ENDINGS = (
    "csv",
    "tsv",
    "parquet",
    "npz",
    "mat",
    "feather",
    "png",
    "jpg",
    "unseen",
    "onnx",
    "sqlite",
    "csv.gz",
    "txt",
    "xlsx",
)
STEMS = (
    "a",
    "part-1",
    "0001",
    "é\u202e",
    "\udcff",
    "a b",
    " ",
    "-x",
    "*",
    "[a]",
    "x" * 240,
    ".hidden",
    "..",
    "a\nb",
    "~",
    "CON",
    "%s{}",
)
TARGETS = (".", "..", "nowhere", "/dev/zero", "/dev/null", "/dev/stdin", "a.csv", "loop.csv", "/proc/self/mem", "/etc")


def broken_folder(home: Home, rng: Random) -> Broken:
    """Files of all kinds, sound and broken, under odd names, beside folders, pipes and links that lead anywhere."""
    makers = (broken_csv, broken_parquet, broken_npz, broken_mat, broken_arrow, broken_image, broken_network)
    recipe = []
    sound = [(name, (home.folder / name).read_bytes()) for name in ("patients.csv", "arrays.npz", "picture.png")]
    for _ in range(rng.randrange(6)):
        stem, ending = rng.choice(STEMS), rng.choice(ENDINGS)
        if len(f"{stem}.{ending}".encode("utf-8", "surrogateescape")) > 250:
            stem = stem[:40]
        entry = {"name": f"{stem}.{ending}", "kind": rng.choice(("file",) * 6 + ("folder", "pipe", "link", "link"))}
        content = b""
        if entry["kind"] == "link":
            entry["content"] = rng.choice((*TARGETS, entry["name"]))
        elif entry["kind"] == "file":
            if rng.random() < 0.8:
                name, content = rng.choice((*sound, rng.choice(makers)(rng)))
                entry["name"] = f"{stem[:99]}.{name.partition('.')[2]}"
            entry["content"] = base64.b64encode(content[:100_000]).decode()
        if rng.random() < 0.3:
            domain, label = rng.choice(("bonn", "leeds", "é", ".git")), rng.choice(("cat", "dog", "train/cat"))
            entry["name"] = f"{domain}/{label}/{entry['name']}"
        recipe.append(entry)
    return "broken.json", json.dumps(recipe).encode()


Maker = Callable[[Random], Broken]


def makers(home: Home) -> dict[str, Maker]:
    """What makes a broken file for each reader."""
    from .broken_tables import broken_mat73

    return {
        "csv": broken_csv,
        "parquet": broken_parquet,
        "arrow": broken_arrow,
        "npz": broken_npz,
        "mat": broken_mat,
        "mat73": broken_mat73,
        "image": broken_image,
        "network": broken_network,
        "model": partial(broken_model, home),
        "results": partial(broken_results, home),
        "features": partial(broken_features, home),
        "folder": partial(broken_folder, home),
    }
