"""A file of results written piece by piece, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import check_target, temporary, written

if TYPE_CHECKING:
    import polars as pl

RESULT_ENDINGS = (".csv", ".parquet")


@contextmanager
def results_file(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Give a function that appends a frame; the file has its name only at the end, if nothing was raised.

    Text follows RFC 4180: cells with commas, quotes or line breaks are quoted, and nothing else is changed. Parquet
    cannot be appended to, so its pieces are files of their own until the end.
    """
    import polars as pl

    check_target(path, *RESULT_ENDINGS)
    with written(path) as file:
        if path.suffix.lower() == ".csv":
            with file.open("wb") as text:
                yield lambda frame: frame.write_csv(text, include_header=not text.tell())
            return
        with temporary(path.with_name(f"{path.name}.parts")) as folder:
            folder.mkdir()
            parts: list[Path] = []

            def write(frame: pl.DataFrame) -> None:
                parts.append(folder / f"{len(parts):09d}.parquet")
                frame.write_parquet(parts[-1])

            yield write
            pl.scan_parquet(parts, glob=False).sink_parquet(file)
