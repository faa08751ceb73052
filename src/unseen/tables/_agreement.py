"""Agreement of the labels of a table with predictions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ._checks import parse_booleans, parse_whole_numbers
from ._schema import NEW_LEVEL_CODE, NewValues, encode_levels
from ._values import as_text


@dataclass(frozen=True)
class Agreement:
    """Counts of rows by domain, label and prediction. Agreements of batches can be added.

    Parameters
    ----------
    classes : tuple
        Classes of the model, integers or strings.
    counts : Counter
        Rows by domain, index of their label among the classes (-1 if it is not a class), and index of the prediction.
    others : NewValues
        Labels that are not classes of the model.
    unlabeled : int
        Number of rows without a label.

    Examples
    --------
    >>> import polars as pl
    >>> from unseen.tables import Agreement
    >>> labels = pl.Series(["ill", "well", None, "dead"])
    >>> agreement = Agreement.from_predictions(labels, ["ill", "ill", "ill", "ill"], ["ill", "well"])
    >>> agreement.rows, agreement.right, agreement.unlabeled, agreement.others.examples
    (3, 1, 1, ('dead',))
    >>> agreement.summary()["counts"]
    [[1, 0], [1, 0]]
    """

    classes: tuple[Any, ...]
    counts: Counter[tuple[str | None, int, int]]
    others: NewValues
    unlabeled: int

    @classmethod
    def from_predictions(cls, labels: pl.Series, predicted: Any, classes: Any, domain: Any = None) -> Agreement:
        """Compare labels with predictions; `domain` holds the domain of each row, None if all belong to one."""
        classes = np.asarray(classes)
        label_codes = encode_class_labels(labels, classes)
        is_labeled = ~np.isnan(label_codes)
        labeled_predictions = np.asarray(predicted)[is_labeled]
        order = np.argsort(classes)
        predicted_codes = order[np.searchsorted(classes, labeled_predictions, sorter=order)]
        domains = [None] * len(labeled_predictions) if domain is None else np.asarray(domain)[is_labeled].tolist()
        labeled_codes = label_codes[is_labeled].astype(int).tolist()
        return cls(
            tuple(classes.tolist()),
            counts=Counter(zip(domains, labeled_codes, predicted_codes.tolist(), strict=True)),
            others=NewValues.from_series(as_text(labels.filter(label_codes == NEW_LEVEL_CODE))),
            unlabeled=int((~is_labeled).sum()),
        )

    def __add__(self, other: Agreement) -> Agreement:
        """Add the rows of both."""
        return Agreement(
            self.classes,
            counts=self.counts + other.counts,
            others=self.others + other.others,
            unlabeled=self.unlabeled + other.unlabeled,
        )

    @property
    def rows(self) -> int:
        """Number of rows with a label."""
        return self.counts.total()

    @property
    def right(self) -> int:
        """Number of rows whose prediction equals the label."""
        return sum(rows for (_, label, predicted), rows in self.counts.items() if label == predicted)

    def summary(self) -> dict[str, Any]:
        """Summarize for JSON: `counts` is the confusion matrix, with a row for each label."""
        # Label -1 addresses the last row, which sums over all labels that are not classes of the model.
        table: NDArray[np.intp] = np.zeros((len(self.classes) + 1, len(self.classes)), dtype=np.intp)
        rows_by_domain: Counter[str | None] = Counter()
        right_by_domain: Counter[str | None] = Counter()
        for (domain, label, predicted), rows in self.counts.items():
            table[label, predicted] += rows
            rows_by_domain[domain] += rows
            right_by_domain[domain] += rows * (label == predicted)
        return {
            "rows": self.rows,
            "right": self.right,
            "accuracy": self.right / self.rows if self.rows else None,
            "unlabeled": self.unlabeled,
            "classes": list(self.classes),
            "counts": table[:-1].tolist(),
            "others": {"rows": self.others.rows, "labels": list(self.others.examples), "counts": table[-1].tolist()},
            "domains": [
                {"domain": name, "rows": rows, "right": right_by_domain[name], "accuracy": right_by_domain[name] / rows}
                for name, rows in rows_by_domain.items()
            ],
        }


def encode_class_labels(labels: pl.Series, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Index of each label among the classes, -1 if it is not a class, and NaN if it is missing."""
    return encode_levels(_format_labels(labels, classes), tuple(map(str, classes.tolist())))


def _format_labels(labels: pl.Series, classes: NDArray[Any]) -> pl.Series:
    """Format labels like the classes: a table may hold ' 7' or 7.0 for 7, and true for True."""
    text = as_text(labels)
    if classes.dtype.kind == "b":
        return parse_booleans(text).cast(pl.String).str.to_titlecase().fill_null(text)
    if classes.dtype.kind not in "iu":
        return text
    return parse_whole_numbers(text).cast(pl.String).fill_null(text)
