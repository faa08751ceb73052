"""Passes over a new table: what is done to some rows is a function of them alone, so that it can be done anywhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ..estimators import map_on_cluster
from ..linalg import Array, Moments, merge_moments
from ..tables import Agreement
from ..utils.progress import progress
from ..utils.validation import EncodedLabels, Labels
from ._new_data import NewRows, NewTable, RowRange
from ._new_data_notes import new_data_facts, novelty_entries
from ._table_model import TableModel

if TYPE_CHECKING:
    import polars as pl

MAX_DOMAINS = 1_000  # a column with more values than this numbers rows rather than naming places
BATCH_SEPARATOR = " | "  # the labels of a set

Notify = dict[str, dict[Any, Any]]  # what rows tell about the table, by kind and name; that of pieces adds up
Completed = tuple[int, Notify, "pl.DataFrame | None"]  # rows of a piece, what they tell, and their predictions


@dataclass
class BatchPrediction:
    """One pass over the table; two if new domains are centered, the first of which finds their centers.

    These are the centers of all pieces. Smoothing, however, looks for neighbors of a row within its piece.
    """

    model: TableModel
    table: NewTable
    verbose: int
    every: bool = False  # projection is centered on new domains, however it was fitted
    coverage: float | None = None  # of sets of classes, if these are wanted
    centers: Mapping[tuple[int, Any], Moments] | None = None  # of new domains, once they are known
    found: Notify = field(default_factory=lambda: defaultdict(dict))

    def frames(self, client: Any = None) -> Generator[pl.DataFrame]:
        """Predictions, piece by piece, made here or by the workers of a cluster."""
        self.model.pool.require_pieces()
        if self._centers:
            for _ in self._each("Centering", client):
                pass
            self.centers = self.found["centers"]
            self._require_batches()
        yield from self._each("Predicting", client)
        self._require_batches()  # of models that smooth, where all rows are known only now

    def _require_batches(self) -> None:
        rows = {name: batch.count for name, batch in self.found["novelty"].items()}
        self.model.pool.require_batches(rows, every=self.every)

    @property
    def _centers(self) -> bool:
        return self.every or self.model.centers

    def _each(self, description: str, client: Any) -> Iterator[Any]:
        """All pieces in order, with progress on standard error."""
        parts = self.table.parts()
        pieces = map(self._pieces, parts) if client is None else map_on_cluster(self._all, parts, client)
        with progress(description, self.table.rows, self.verbose) as advance:
            for rows, told, frame in chain.from_iterable(pieces):
                for kind, more in told.items():
                    self.found[kind] = merge_moments(self.found[kind], more)
                if len(self.found["novelty"]) > MAX_DOMAINS:
                    raise ValueError(
                        f"The column {self.table.domain!r} names more than {MAX_DOMAINS:,} domains; does it "
                        "number the rows? Pass a column that says where rows come from."
                    )
                yield frame
                advance(rows)

    def _pieces(self, rows: RowRange) -> Iterator[Completed]:
        return map(self._done, self.table.pieces(rows))

    def _all(self, rows: RowRange) -> list[Completed]:
        return list(self._pieces(rows))  # at once, to be sent back

    def _done(self, piece: NewRows) -> Completed:
        """What a piece tells about its domains, in the only pass or in the first; its predictions in the last."""
        model, told = self.model, Notify()
        prepared = model.prepare(piece.X)
        if self.centers is None:
            missing = np.isnan(piece.X).sum(axis=0).tolist()
            told["missing"] = dict(zip(self.table.schema.feature_names, missing, strict=True))
            told["novelty"] = domain_moments(model, prepared, piece.domain)
            if self._centers:
                told["centers"] = model.pool.moments(prepared, piece.domain, every=self.every)
                return len(piece.X), told, None
        P = model.pool.answer(prepared, piece.domain, self.centers)
        labels = model.classes_[P.argmax(axis=1)]
        told |= {"labels": Counter(labels.tolist()), "new": piece.new}  # levels that training did not have
        if piece.labels is not None:
            told["agreement"] = {
                "label": Agreement.from_predictions(piece.labels, labels, model.classes_, piece.domain)
            }
        columns = ({} if piece.domain is None else {"domain": piece.domain}) | {"label": labels}
        if self.coverage is not None:
            sets = model.pool.named_sets(P, self.coverage)
            told["sets"] = {"classes": sum(map(len, sets)), "rows": len(sets)}
            columns["set"] = np.array([BATCH_SEPARATOR.join(map(str, own)) for own in sets])
        natural = model.pool.with_natural_priors(P)
        columns |= {f"p({name})": natural[:, i] for i, name in enumerate(model.classes_.tolist())}
        return len(piece.X), told, _beside(piece.kept, columns)

    def summary(self, output: str | None, before: dict[str, float]) -> dict[str, Any]:
        """What was done, in plain values; features mostly miss that do so here, but did not `before`, in training."""
        found, classes = self.found, self.model.classes_.tolist()
        agreement, rows = found["agreement"].get("label"), sum(found["labels"].values())
        novelty = novelty_entries(self.model.novelty, found["novelty"])
        return {
            "output": output,
            "rows": rows,
            "labels": [{"label": label, "rows": found["labels"].get(label, 0)} for label in classes],
            "transductive": self.every or self.model.transductive,
            "sets": self._sets(),
            "agreement": agreement.summary() if agreement is not None and agreement.rows else None,
            **new_data_facts(rows, self.table.absent, found["missing"], before, found["new"], novelty),
        }

    def _sets(self) -> dict[str, Any] | None:
        """How often sets are to hold the true class, how many classes they have, and a note if that is all of them."""
        if self.coverage is None:
            return None
        size = self.found["sets"]["classes"] / self.found["sets"]["rows"]
        is_full = size == len(self.model.classes_)
        note = self.model.pool.full_sets(self.coverage) if is_full else ""
        return {"coverage": self.coverage, "classes": size, "note": note}


def domain_moments(model: TableModel, prepared: Array, domain: Labels | None) -> dict[str | None, Moments]:
    """What the novelty of each domain follows from; without names there is one, called None."""
    coded = EncodedLabels.from_domains(domain, len(prepared))
    return {name: model.novelty.moments(prepared[rows]) for name, rows in coded.iter_rows()}


def _beside(kept: pl.DataFrame, columns: dict[str, Any]) -> pl.DataFrame:
    """Columns of the table before ours; those that are called like one of ours are marked."""
    import polars as pl

    taken = {*columns, *kept.columns}
    names = {name: name for name in kept.columns}
    for name in set(kept.columns).intersection(columns):
        while names[name] in taken:
            names[name] += " (input)"
    return pl.concat([kept.rename(names), pl.DataFrame(columns)], how="horizontal")
