"""How a table is fitted: exactly, or, if it has many rows, by a sample that chooses and a stream that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels import EXACT_ROWS
from ..progress import progress
from ..tables import SurveyedTable, Table, loaded
from ._fit import PROJECTIONS, TableFit, fit_table
from ._stream import SAMPLE_ROWS, TableRows, fit_stream

SLOW = 5_000  # samples beyond which the exact kernel methods take minutes
WITH_KERNEL = ("auto", "rbf-svm", *PROJECTIONS)


@dataclass(frozen=True)
class FitPlan:
    """What is about to be done with a table: `of` makes one, `fit` does it.

    Parameters
    ----------
    source : SurveyedTable or TableRows
        All rows.
    table : Table
        The same in memory; of a large table, a sample.
    large : bool
        Whether landmarks stand for the kernel, and a projection sees all rows piece by piece.
    """

    source: SurveyedTable | TableRows
    table: Table
    large: bool

    @classmethod
    def of(cls, source: SurveyedTable | TableRows, feature_map: str = "auto", seed: int = 0) -> FitPlan:
        """Decide by the number of rows, unless `feature_map` says "none" or "nystroem"; read what is needed."""
        large = feature_map == "nystroem" or (feature_map == "auto" and source.rows > EXACT_ROWS)
        if isinstance(source, TableRows):
            return cls(source, source.table, large)
        return cls(source, loaded(source.sampled(SAMPLE_ROWS, seed)) if large else loaded(source, seed), large)

    def notices(self, method: str) -> Iterator[str]:
        """What was assumed in reading, and what is about to be done."""
        yield from self.table.notices
        rows = len(self.table.X)
        if self.large:
            yield (
                f"{self.source.rows:,} rows: a few choose the settings, {rows:,} give the scales, the landmarks and "
                "the classifier, and a projection is fitted on all through landmarks, as with --feature-map nystroem."
            )
        if len(np.unique(self.table.domain)) == 2:
            yield "With two domains each is scored by a model that has seen only the other, which says little."
        if not self.large and rows > SLOW and method in WITH_KERNEL:
            yield f"{rows:,} rows will take a while with kernels; --max-per-domain 500 gives a quick first answer."

    def fit(self, method: str = "auto", *, components: int | None = None, client: Any = None, **how: Any) -> TableFit:
        """Fit; `how` is as for `fit_table`. Landmarks and a cluster's client serve large tables alone."""
        if not self.large:
            return fit_table(self.table, method, **how)
        shown = progress if how.get("verbose") else None
        return fit_stream(self.source, self.table, method, components=components, progress=shown, client=client, **how)


def stream_text(found: TableFit) -> str:
    """What saw how many rows, in a sentence."""
    facts = found.stream
    chosen = f"The settings were chosen, and scored, on {facts['choice_rows']:,} rows."
    if "landmarks" in facts:
        return (
            f"{chosen} The projection saw {facts['projection_rows']:,} rows through {facts['landmarks']:,} landmarks, "
            f"which miss {facts['trace_error']:.2g} of the kernel; the classifier behind it saw "
            f"{facts['classifier_rows']:,} rows."
        )
    return f"{chosen} {found.name} is no projection, so it saw a sample: {facts['classifier_rows']:,} rows."
