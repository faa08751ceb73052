"""Columns of names, labels and domains, as small integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..algebra import Ints
from ._errors import SHOWN, TableError
from ._values import MISSING_MARKS, as_text

if TYPE_CHECKING:
    import polars as pl

MOST_VALUES = 1_000_000  # different labels or domains; more are not kept in memory


class Coding:
    """Numbers the different values of a column from 1 on, as they appear; 0 stands for a missing one.

    Rows with the value `ignored` are not there for it; a mark of missing values such as NA stands for all of them.
    """

    def __init__(self, column: str | None, ignored: str | None = None) -> None:
        self.column = column
        self.ignored = None if ignored is None else ignored.strip()
        self.numbers: dict[str, int] = {}
        self.missing = 0
        self.first_missing: list[int] = []  # rows, the first few

    @property
    def names(self) -> list[str]:
        """The different values as text, in the order of their numbers."""
        return list(self.numbers)

    def number(self, name: str) -> int:
        """The number of a value, a new one if it has none yet."""
        return self.numbers.setdefault(name, len(self.numbers) + 1)

    @property
    def ignores_missing(self) -> bool:
        """Whether the value to be ignored is a missing one."""
        return self.ignored is not None and self.ignored.lower() in MISSING_MARKS

    def counting(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
        """The rows of a frame that are not to be ignored, and which ones they are."""
        if self.ignored is None or self.column is None:
            return frame, np.arange(frame.height)
        text = as_text(frame[self.column])
        ignored = text.is_null() if self.ignores_missing else text.str.strip_chars().eq_missing(self.ignored)
        return frame.filter(~ignored), np.flatnonzero(~ignored.to_numpy())

    def meet(self, text: pl.Series) -> None:
        """Number the values of some text, without a row for them."""
        for name in text.drop_nulls().unique(maintain_order=True).to_list():
            self.number(name)

    def add(self, frame: pl.DataFrame, rows: Ints, otherwise: int = 0) -> Ints:
        """Number the values of some more rows, which have the given places; all have one number without a column."""
        if self.column is not None:
            text = as_text(frame[self.column])
            self.meet(text)
            if len(self.numbers) > MOST_VALUES:
                many = f"more than {MOST_VALUES:,} different values"
                raise TableError([f"the column {self.column!r} has {many}: they are no names."])
            missing = rows[text.is_null().to_numpy()]
            self.first_missing += missing[: SHOWN - len(self.first_missing)].tolist()
            self.missing += len(missing)
        return self.codes(frame, otherwise)

    def codes(self, frame: pl.DataFrame, otherwise: int = 0) -> Ints:
        """The numbers of values that all have been added before."""
        if self.column is None:
            return np.full(frame.height, otherwise)
        text = as_text(frame[self.column])
        names = text.drop_nulls().unique().sort().to_list()
        new = [name for name in names if name not in self.numbers]
        if new:
            raise TableError([f"the column {self.column!r} holds {new[0]!r}, which it did not before. Begin again."])
        numbers = np.array([0, *(self.numbers[name] for name in names)], dtype=np.intp)
        return numbers[text.rank("dense").fill_null(0).to_numpy()]
