"""Prediction of a new table in batches.

The result of a batch depends on its rows only, so that batches can be predicted in any process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from ..estimators import map_on_cluster
from ..linalg import Moments
from ..tables import Agreement, NewValues, select_formulas
from ..utils.progress import progress
from ._new_data import NewRows, NewTable, RowRange
from ._new_data_notes import BatchFacts, add_facts, describe_differences, measure_batch
from ._table_model import TableModel

MAX_DOMAINS = 1_000  # a column with more values probably numbers the rows
SET_SEPARATOR = " | "  # between the labels of a prediction set

BatchResult = tuple[int, BatchFacts, "pl.DataFrame | None"]  # number of rows, their statistics and their predictions


@dataclass
class BatchPrediction:
    """Predicts a table in one pass, or in two if new domains are centered: the first pass computes their centers.

    The centers are those of all rows. The neighbors that smooth a prediction, however, are rows of the same batch.
    """

    model: TableModel
    table: NewTable
    verbose: int
    center_all: bool = False  # also center projections that were fitted with centering="source"
    coverage: float | None = None  # of prediction sets; None for no sets
    card: Mapping[str, Any] = field(default_factory=dict)  # of the model, with which the new data are compared
    centers: Mapping[tuple[int, Any], Moments] | None = None  # of new domains, after the first pass
    facts: BatchFacts = field(default_factory=dict)

    def frames(self, client: Any = None) -> Generator[pl.DataFrame]:
        """Predict batch by batch, in this process or on the workers of a cluster."""
        self.model.ensemble.check_partial_batches()
        if self._needs_centers:
            for _ in self._process("Centering", client):
                pass
            self.centers = self.facts["centers"]
            self._check_batch_sizes()
        yield from self._process("Predicting", client)
        self._check_batch_sizes()  # for models that smooth, the number of rows is known only now

    def _check_batch_sizes(self) -> None:
        rows = {name: moments.count for name, moments in self.facts["novelty"].items()}
        self.model.ensemble.check_batches(rows, all_members=self.center_all)

    @property
    def _needs_centers(self) -> bool:
        return self.center_all or self.model.centers_new_domains

    def _process(self, description: str, client: Any) -> Iterator[Any]:
        """Process all batches in order, show progress, and add up their statistics."""
        row_ranges = self.table.row_ranges()
        results: Iterator[Iterable[BatchResult]]
        if client is None:
            results = map(self._iterate_range, row_ranges)
        else:
            results = map_on_cluster(self._process_range, row_ranges, client)
        with progress(description, self.table.rows, self.verbose) as advance:
            for n_rows, facts, frame in chain.from_iterable(results):
                self.facts = add_facts(self.facts, facts)
                if len(self.facts["novelty"]) > MAX_DOMAINS:
                    raise ValueError(
                        f"The column {self.table.domain!r} names more than {MAX_DOMAINS:,} domains; does it "
                        "number the rows? Set domain to a column that names the domain of each row."
                    )
                yield frame
                advance(n_rows)

    def _iterate_range(self, row_range: RowRange) -> Iterator[BatchResult]:
        return map(self._process_batch, self.table.batches(row_range))

    def _process_range(self, row_range: RowRange) -> list[BatchResult]:
        return list(self._iterate_range(row_range))  # a worker returns all results of a range together

    def _process_batch(self, batch: NewRows) -> BatchResult:
        """Compute the statistics of the domains of a batch in the first pass, and its predictions in the last."""
        model = self.model
        ensemble = model.ensemble
        facts: BatchFacts = {}
        prepared = model.prepare(batch.X)
        if self.centers is None:
            facts = measure_batch(model, prepared, batch.domain, self.table, batch.X)
            if self._needs_centers:
                facts["centers"] = ensemble.moments(prepared, batch.domain, all_members=self.center_all)
                return len(batch.X), facts, None
        P = ensemble.combine_members(prepared, batch.domain, self.centers)
        labels = model.classes_[model.decide(P)]
        facts["labels"] = Counter(labels.tolist())
        facts["new_levels"] = batch.new_levels
        texts = [column for column in batch.kept if column.dtype == pl.String]
        facts["formulas"] = {text.name: NewValues.from_series(select_formulas(text)) for text in texts}
        if batch.labels is not None:
            agreement = Agreement.from_predictions(batch.labels, labels, model.classes_, batch.domain)
            facts["agreement"] = {"label": agreement}
        columns: dict[str, Any] = {}
        if batch.domain is not None:
            columns["domain"] = batch.domain
        columns["label"] = labels
        if self.coverage is not None:
            sets = ensemble.named_sets(P, self.coverage)
            facts["sets"] = {"classes": sum(map(len, sets)), "rows": len(sets)}
            columns["set"] = np.array([SET_SEPARATOR.join(map(str, classes)) for classes in sets])
        natural = ensemble.with_natural_priors(P)
        facts["confidence"] = {"sum": float(natural.max(axis=1).sum())}
        for i, name in enumerate(model.classes_.tolist()):
            columns[f"p({name})"] = natural[:, i]
        return len(batch.X), facts, _join_columns(batch.kept, columns)

    def summary(self, output: str | None) -> dict[str, Any]:
        """Summarize the predictions in values that JSON can represent, after all batches were processed."""
        facts = self.facts
        n_rows = sum(facts["labels"].values())
        agreement = facts.get("agreement", {}).get("label")
        return {
            "output": output,
            "rows": n_rows,
            "labels": [
                {"label": label, "rows": facts["labels"].get(label, 0)} for label in self.model.classes_.tolist()
            ],
            "confidence": facts["confidence"]["sum"] / n_rows,
            "transductive": self.center_all or self.model.transductive,
            "sets": self._summarize_sets(),
            "agreement": agreement.summary() if agreement is not None and agreement.rows else None,
            **describe_differences(facts, n_rows, self.model, self.table, self.card),
        }

    def _summarize_sets(self) -> dict[str, Any] | None:
        """Return coverage and mean size of the prediction sets, with a note if all sets contain all classes."""
        if self.coverage is None:
            return None
        mean_size = self.facts["sets"]["classes"] / self.facts["sets"]["rows"]
        is_full = mean_size == len(self.model.classes_)
        note = self.model.ensemble.explain_full_sets(self.coverage) if is_full else ""
        return {"coverage": self.coverage, "classes": mean_size, "note": note}


def _join_columns(kept: Any, predictions: dict[str, Any]) -> pl.DataFrame:
    """Join kept columns and predictions; append " (input)" to names of kept columns that occur in both."""
    taken = {*predictions, *kept.columns}
    names = {name: name for name in kept.columns}
    for name in set(kept.columns).intersection(predictions):
        while names[name] in taken:
            names[name] += " (input)"
    return pl.concat([kept.rename(names), pl.DataFrame(predictions)], how="horizontal")
