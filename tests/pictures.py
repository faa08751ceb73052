"""Pictures as files, for tests of what reads them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="pictures need the extra images")
pytest.importorskip("onnxruntime", reason="networks need the extra images")

RED, TEAL = (200, 40, 20), (10, 120, 130)


def solid(color=RED, mode="RGB", size=(12, 10)):
    return Image.new("RGB", size, color).convert(mode)


def saved(picture, name="x.jpg", **options):
    buffer = io.BytesIO()
    picture.save(buffer, **{"format": Image.registered_extensions()[Path(name).suffix.lower()], **options})
    return buffer.getvalue()


def folder_of(tmp_path, contents):
    """Pictures as bytes by their paths below a folder."""
    for name, content in contents.items():
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "photos"


def some_photos(tmp_path, n=6):
    colors = np.random.default_rng(0).integers(0, 255, (4 * n, 3)).tolist()
    places = [(domain, label, i) for domain in ("bonn", "oslo") for label in ("cat", "dog") for i in range(n)]
    return folder_of(
        tmp_path,
        {
            f"{d}/{c}/{i}.png": saved(solid(tuple(color)), "x.png")
            for (d, c, i), color in zip(places, colors, strict=True)
        },
    )


def noise(size):
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8))
