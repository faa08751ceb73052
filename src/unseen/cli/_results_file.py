"""A file of results written piece by piece, whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO, Self

import polars as pl

ENDINGS = (".csv", ".parquet")


class ResultsFile:
    """Frames go in one after the other; the file has its name only once all are there and `commit` was called.

    Text follows RFC 4180: cells with commas, quotes or line breaks are quoted, and nothing else is changed. Parquet
    cannot be appended to, so its pieces are files of their own until the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}")
        self._parts = path.with_name(f".{path.name}.{os.getpid()}.parts")
        self._text: IO[bytes] | None = None
        self._count = 0

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.suffix.lower() == ".csv":
            self._text = self._temporary.open("wb")
        else:
            self._parts.mkdir()
        return self

    def write(self, frame: pl.DataFrame) -> None:
        """Append a frame."""
        if self._text is not None:
            frame.write_csv(self._text, include_header=self._count == 0)
        else:
            frame.write_parquet(self._part(self._count))
        self._count += 1

    def commit(self) -> None:
        """Give the file its name."""
        if self._text is not None:
            self._text.close()
        else:
            parts = [self._part(i) for i in range(self._count)]
            pl.scan_parquet(parts, glob=False).sink_parquet(self._temporary)
        os.replace(self._temporary, self.path)

    def __exit__(self, *_: object) -> None:
        if self._text is not None:
            self._text.close()
        self._temporary.unlink(missing_ok=True)
        shutil.rmtree(self._parts, ignore_errors=True)

    def _part(self, number: int) -> Path:
        return self._parts / f"{number:09d}.parquet"
