"""Passes over a new table: what is done to some rows is a function of them alone, so that it can be done anywhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ..algebra import Array, Moments, pooled
from ..estimators import mapped
from ..labels import Labels
from ..progress import progress
from ..shift import NoveltyResult
from ..tables import Agreement, NewValues
from ._model import Centres, TableModel
from ._new_table import Encoding, NewRows, NewTable, RowRange

if TYPE_CHECKING:
    import polars as pl

MAX_DOMAINS = 1_000  # a column with more values than this numbers rows rather than naming places


@dataclass(frozen=True)
class Findings:
    """What rows tell about the table; those of pieces add up."""

    rows: int = 0
    missing: Any = 0  # values of each feature
    novelty: dict[str | None, Moments] = field(default_factory=dict)  # of each domain
    centres: dict[Any, Moments] = field(default_factory=dict)  # likewise
    labels: Counter[Any] = field(default_factory=Counter)  # predicted ones
    new: dict[str, NewValues] = field(default_factory=dict)  # levels of each feature that training did not have
    agreement: dict[str, Agreement] = field(default_factory=dict)  # with the column of labels, if there is one

    def __add__(self, other: Findings) -> Findings:
        pools = {name: pooled(getattr(self, name), getattr(other, name)) for name in POOLED}
        labels, missing = self.labels + other.labels, self.missing + other.missing
        return Findings(self.rows + other.rows, missing, labels=labels, **pools)


POOLED = ("novelty", "centres", "new", "agreement")
Done = tuple[Findings, "pl.DataFrame | None"]  # what a piece tells, and its predictions


@dataclass(frozen=True)
class Pass:
    """Reads rows, and does to each piece of them what this pass is for."""

    encoding: Encoding
    model: TableModel
    centres: Centres | None
    centring: bool = False  # or classifying

    def __call__(self, rows: RowRange) -> Iterator[Done]:
        """One piece after another."""
        return map(self._act, self.encoding.pieces(rows))

    def all(self, rows: RowRange) -> list[Done]:
        """All at once, to be sent back."""
        return list(self(rows))

    def _act(self, piece: NewRows) -> Done:
        """What a piece tells about its domains, in the only pass or in the first; its predictions in the last."""
        model, centres, agreement = self.model, self.centres, {}
        prepared, found = model.prepare(piece.X), Findings(len(piece.X))
        if self.centring or centres is None:
            missing = np.isnan(piece.X).sum(axis=0)
            found = Findings(len(piece.X), missing, domain_moments(model, prepared, piece.domain))
        if centres is None:
            Z = model.transform(prepared)
        elif self.centring:
            return replace(found, centres=centres.moments(prepared, piece.domain)), None
        else:
            Z = centres.transform(prepared, piece.domain)
        labels, probabilities = model.classify(Z)
        if piece.labels is not None:
            agreement = {"label": Agreement.of(piece.labels, labels, model.classes_, piece.domain)}
        columns = ({} if piece.domain is None else {"domain": piece.domain}) | {"label": labels}
        if probabilities is not None:
            columns |= {f"p({name})": probabilities[:, i] for i, name in enumerate(model.classes_.tolist())}
        told = replace(found, labels=Counter(labels.tolist()), new=piece.new, agreement=agreement)
        return told, _beside(piece.kept, columns)


def domain_moments(model: TableModel, prepared: Array, domain: Labels | None) -> dict[str | None, Moments]:
    """What the novelty of each domain follows from; without names there is one, called None."""
    if domain is None:
        return {None: model.novelty.moments(prepared)}
    names, codes = np.unique(domain, return_inverse=True)
    return {name: model.novelty.moments(prepared[codes == i]) for i, name in enumerate(names.tolist())}


def _beside(kept: pl.DataFrame, columns: dict[str, Any]) -> pl.DataFrame:
    """Columns of the table before ours; those that are called like one of ours are marked."""
    import polars as pl

    taken = {*columns, *kept.columns}
    names = {name: name for name in kept.columns}
    for name in set(kept.columns).intersection(columns):
        while names[name] in taken:
            names[name] += " (input)"
    return pl.concat([kept.rename(names), pl.DataFrame(columns)], how="horizontal")


@dataclass
class Run:
    """One pass over the table; two if new domains are centred, the first of which finds their centres."""

    model: TableModel
    table: NewTable
    centres: Centres | None
    verbose: int
    found: Findings = field(default_factory=Findings)

    def frames(self, client: Any = None) -> Generator[pl.DataFrame]:
        """Predictions, piece by piece, made here or by the workers of a cluster."""
        if self.centres is not None:
            for _ in self._each("Centring", client):
                pass
            self.centres.settle(self.found.centres)
        yield from self._each("Predicting", client)

    def _each(self, description: str, client: Any) -> Iterator[Any]:
        """All pieces in order, with progress on standard error."""
        work = Pass(self.table.encoding, self.model, self.centres, description == "Centring")
        parts = self.table.parts()
        pieces = map(work, parts) if client is None else mapped(work.all, parts, client)
        with progress(description, self.table.rows, self.verbose) as advance:
            for found, frame in chain.from_iterable(pieces):
                self.found += found
                if len(self.found.novelty) > MAX_DOMAINS:
                    raise ValueError(
                        f"The column {self.table.encoding.domain!r} names more than {MAX_DOMAINS:,} domains; does it "
                        "number the rows? Pass a column that says where rows come from."
                    )
                yield frame
                advance(found.rows)

    def summary(self, output: str | None, before: dict[str, float]) -> dict[str, Any]:
        """What was done, in plain values; features mostly miss that do so here, but did not `before`, in training."""
        names = self.table.encoding.schema.feature_names
        labels, of, agreement = self.found.labels, self.model.novelty.of, self.found.agreement.get("label")
        return {
            "output": output,
            "rows": labels.total(),
            "labels": [{"label": label, "rows": labels[label]} for label in self.model.classes_.tolist()],
            "probabilities": self.model.has_probabilities,
            "transductive": self.centres is not None,
            "mostly_missing": [
                {"column": name, "missing": missing}
                for name, missing in zip(names, self.found.missing.tolist(), strict=True)
                if 2 * missing > self.table.rows and before.get(name, 0.0) <= 0.5
            ],
            "new_levels": [
                {"column": name, "rows": new.rows, "levels": list(new.examples)} for name, new in self.found.new.items()
            ],
            "agreement": agreement.summary() if agreement is not None and agreement.rows else None,
            "novelty": [{"domain": name, **_plain_values(of(batch))} for name, batch in self.found.novelty.items()],
        }


def _plain_values(result: NoveltyResult) -> dict[str, Any]:
    """A result as JSON can have it."""
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in asdict(result).items()}
