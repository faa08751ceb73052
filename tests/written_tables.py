"""A table of patients, and files of every format to write it to."""

from __future__ import annotations

import gzip

import numpy as np
import polars as pl

FRAME = pl.DataFrame(
    {
        "hospital": ["bonn", "leeds", "york"] * 8,
        "age": [30.5 + 3 * i for i in range(24)],
        "sex": [["f", "m", None][i % 5 % 3] for i in range(24)],
        "smokes": [i % 7 < 3 for i in range(24)],
        "visits": [i % 4 if i % 6 else None for i in range(24)],
        "diagnosis": [["ill", "well", "unclear"][i // 2 % 3] for i in range(24)],
    }
)
WRITERS = {
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "csv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode())),
    "tsv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv(separator="\t").encode())),
    "parquet": lambda frame, path: frame.write_parquet(path),
    "feather": lambda frame, path: frame.write_ipc(path, compression="zstd"),
    "arrow": lambda frame, path: frame.write_ipc(path),
    "ipc": lambda frame, path: frame.write_ipc(path),
    "CSV": lambda frame, path: frame.write_csv(path),
}


def written(folder, frame, ending="csv", name="patients"):
    path = folder / f"{name}.{ending}"
    WRITERS[ending](pl.DataFrame(frame), path)
    return path


def assert_same(one, two):
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.y, two.y)
    np.testing.assert_array_equal(one.domain, two.domain)
    assert one.schema == two.schema


def changed(**columns):
    return FRAME.with_columns(**{name: pl.Series(values) for name, values in columns.items()})
