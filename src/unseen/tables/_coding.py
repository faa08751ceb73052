"""Columns of names, labels and domains, as small integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..cells import Ints
from ._errors import SHOWN, TableError
from ._values import as_text, polars

if TYPE_CHECKING:
    import polars as pl

MOST_VALUES = 1_000_000  # different labels or domains; more are not kept in memory


class Coding:
    """Numbers the different values of a column from 1 on, as they appear; 0 stands for a missing one."""

    def __init__(self, column: str | None) -> None:
        self.column = column
        self.numbers: dict[str, int] = {}
        self.missing = 0
        self.first_missing: list[int] = []  # rows, the first few

    @property
    def names(self) -> pl.Series:
        """The different values as text, in the order of their numbers."""
        pl = polars()
        return pl.Series(list(self.numbers), dtype=pl.String)

    def number(self, name: str) -> int:
        """The number of a value, a new one if it has none yet."""
        return self.numbers.setdefault(name, len(self.numbers) + 1)

    def add(self, series: pl.Series, row: int) -> Ints:
        """Number some more values, of which the first stands in the given row of the table."""
        text = as_text(series)
        for name in text.drop_nulls().unique(maintain_order=True).to_list():
            self.number(name)
        if len(self.numbers) > MOST_VALUES:
            raise TableError(
                [f"the column {self.column!r} has more than {MOST_VALUES:,} different values: they are no names."]
            )
        if text.null_count():
            rows = np.flatnonzero(text.is_null().to_numpy())
            self.first_missing += (row + rows[: SHOWN - len(self.first_missing)]).tolist()
            self.missing += len(rows)
        return self._looked_up(text)

    def codes(self, series: pl.Series) -> Ints:
        """The numbers of values that all have been added before."""
        text = as_text(series)
        new = [name for name in text.unique().to_list() if name is not None and name not in self.numbers]
        if new:
            raise TableError([f"the column {self.column!r} holds {new[0]!r}, which it did not before. Begin again."])
        return self._looked_up(text)

    def _looked_up(self, text: pl.Series) -> Ints:
        names = text.drop_nulls().unique().sort().to_list()
        numbers = np.array([0, *(self.numbers[name] for name in names)], dtype=np.intp)
        return numbers[text.rank("dense").fill_null(0).to_numpy()]
