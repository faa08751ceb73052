"""The labels that a table holds beside those that were predicted for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._checks import parse_booleans, parse_whole_numbers
from ._schema import NEW_LEVEL_CODE, NewValues, encode_levels
from ._values import as_text, import_polars

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Agreement:
    """How often which label met which prediction, in which domain; those of pieces add up.

    Parameters
    ----------
    classes : tuple
        The classes of the model, integers or strings.
    counts : Counter
        Rows by domain, position of their label among the classes (-1: not there), and position of the prediction.
    others : NewValues
        The labels that are not there.
    unlabeled : int
        Rows without a label.

    Examples
    --------
    >>> import pytest; pl = pytest.importorskip("polars")
    >>> from unseen.tables import Agreement
    >>> labels = pl.Series(["ill", "well", None, "dead"])
    >>> found = Agreement.from_predictions(labels, ["ill", "ill", "ill", "ill"], ["ill", "well"])
    >>> found.rows, found.right, found.unlabeled, found.others.examples
    (3, 1, 1, ('dead',))
    >>> found.summary()["counts"]
    [[1, 0], [1, 0]]
    """

    classes: tuple[Any, ...]
    counts: Counter[tuple[str | None, int, int]]
    others: NewValues
    unlabeled: int

    @classmethod
    def from_predictions(cls, labels: pl.Series, predicted: Any, classes: Any, domain: Any = None) -> Agreement:
        """Compare some rows; `domain` names that of each, None where they are all of one."""
        classes = np.asarray(classes)
        names = tuple(map(str, classes.tolist()))
        found = encode_levels(_format_labels(labels, classes), names)
        known, new = ~np.isnan(found), found == NEW_LEVEL_CODE
        said = np.asarray(predicted)[known]
        order = np.argsort(classes)
        answers = order[np.searchsorted(classes, said, sorter=order)]
        where = [None] * len(said) if domain is None else np.asarray(domain)[known].tolist()
        counts = Counter(zip(where, found[known].astype(int).tolist(), answers.tolist(), strict=True))
        return cls(
            tuple(classes.tolist()), counts, NewValues.from_series(as_text(labels.filter(new))), int((~known).sum())
        )

    def __add__(self, other: Agreement) -> Agreement:
        """The same for the rows of both."""
        others, unlabeled = self.others + other.others, self.unlabeled + other.unlabeled
        return Agreement(self.classes, self.counts + other.counts, others, unlabeled)

    @property
    def rows(self) -> int:
        """How many rows have a label."""
        return self.counts.total()

    @property
    def right(self) -> int:
        """How many of them were predicted as labeled."""
        return sum(rows for (_, label, answer), rows in self.counts.items() if label == answer)

    def summary(self) -> dict[str, Any]:
        """All of it in plain values: `counts` has a row for each class of the table, a column for each prediction."""
        table: NDArray[np.intp] = np.zeros((len(self.classes) + 1, len(self.classes)), dtype=np.intp)
        domains: dict[str | None, list[int]] = {}
        for (domain, label, answer), rows in self.counts.items():
            table[label, answer] += rows  # the last row is that of all labels that are no classes: they may be many
            ours = domains.setdefault(domain, [0, 0])
            ours[0] += rows
            ours[1] += rows * (label == answer)
        return {
            "rows": self.rows,
            "right": self.right,
            "accuracy": self.right / self.rows if self.rows else None,
            "unlabeled": self.unlabeled,
            "classes": list(self.classes),
            "counts": table[:-1].tolist(),
            "others": {"rows": self.others.rows, "labels": list(self.others.examples), "counts": table[-1].tolist()},
            "domains": [
                {"domain": name, "rows": rows, "right": right, "accuracy": right / rows}
                for name, (rows, right) in domains.items()
            ],
        }


def _format_labels(labels: pl.Series, classes: NDArray[Any]) -> pl.Series:
    """Labels as the classes are written: 7 may be 7, ' 7' or 7.0 in a table, and True may be true."""
    text = as_text(labels)
    if classes.dtype.kind == "b":
        return parse_booleans(text).cast(import_polars().String).str.to_titlecase().fill_null(text)
    if classes.dtype.kind not in "iu":
        return text
    return parse_whole_numbers(text).cast(import_polars().String).fill_null(text)
