"""Passes over a new table: what is done to some rows is a function of them alone, so that it can be done anywhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, field
from functools import reduce
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..algebra import Array, Ints, Moments, pooled
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

    missing: Ints  # values of each feature
    novelty: dict[str | None, Moments] = field(default_factory=dict)  # of each domain
    labels: Counter[Any] = field(default_factory=Counter)  # predicted ones
    new: dict[str, NewValues] = field(default_factory=dict)  # levels of each feature that training did not have
    agreement: Agreement | None = None  # with the labels of the table, if it has any

    def __add__(self, other: Findings) -> Findings:
        novelty, new = pooled(self.novelty, other.novelty), pooled(self.new, other.new)
        known = [found.agreement for found in (self, other) if found.agreement is not None]
        agreement = reduce(add, known) if known else None
        return Findings(self.missing + other.missing, novelty, self.labels + other.labels, new, agreement)


class Done(NamedTuple):
    """A piece that was dealt with."""

    rows: int
    findings: Findings
    frame: pl.DataFrame | None = None  # the predictions
    centres: dict[Any, Moments] | None = None


@dataclass(frozen=True)
class Pass:
    """Reads rows, and does to each piece of them what this pass is for."""

    encoding: Encoding
    model: TableModel
    centres: Centres | None
    centring: bool = False  # or classifying

    def __call__(self, rows: RowRange) -> Iterator[Done]:
        """One piece after another."""
        return map(self._centre if self.centring else self._classify, self.encoding.pieces(rows))

    def all(self, rows: RowRange) -> list[Done]:
        """All at once, to be sent back."""
        return list(self(rows))

    def _centre(self, piece: NewRows) -> Done:
        """What a piece tells about the centres of its domains, and about their novelty."""
        prepared = self.model.prepare(piece.X)
        assert self.centres is not None
        return Done(len(prepared), self._seen(piece, prepared), centres=self.centres.moments(prepared, piece.domain))

    def _classify(self, piece: NewRows) -> Done:
        """The predictions of a piece; and its novelty, if this is the only pass."""
        model, prepared = self.model, self.model.prepare(piece.X)
        if self.centres is not None:
            Z = self.centres.transform(prepared, piece.domain)
            found = Findings(np.zeros(piece.X.shape[1], dtype=np.intp))
        else:
            Z = prepared if model.transformer is None else model.transformer.transform(prepared)
            found = self._seen(piece, prepared)
        labels, probabilities = model.classify(Z)
        agreement = None
        if piece.labels is not None:
            agreement = Agreement.of(piece.labels, labels, model.classes_, piece.domain)
        found += Findings(np.zeros_like(found.missing), {}, Counter(labels.tolist()), piece.new, agreement)
        columns: dict[str, Any] = {} if piece.domain is None else {"domain": piece.domain}
        columns["label"] = labels
        if probabilities is not None:
            columns |= {f"p({name})": probabilities[:, i] for i, name in enumerate(model.classes_.tolist())}
        return Done(len(labels), found, _beside(piece.kept, columns))

    def _seen(self, piece: NewRows, prepared: Array) -> Findings:
        return Findings(np.isnan(piece.X).sum(axis=0), domain_moments(self.model, prepared, piece.domain))


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


class Run:
    """One pass over the table; two if new domains are centred, the first of which finds their centres."""

    def __init__(self, model: TableModel, table: NewTable, target: bool, verbose: int) -> None:
        self.model = model
        self.table = table
        self.verbose = verbose
        self.centres = Centres(model) if target or model.transductive else None
        self.found = Findings(np.zeros(len(table.encoding.schema.columns), dtype=np.intp))

    def frames(self, client: Any = None) -> Generator[pl.DataFrame]:
        """Predictions, piece by piece, made here or by the workers of a cluster."""
        if self.centres is not None:
            for done in self._each("Centring", client):
                self.centres.pool(done.centres or {})
            self.centres.check()
        for done in self._each("Predicting", client):
            if done.frame is not None:
                yield done.frame

    def _each(self, description: str, client: Any) -> Iterator[Done]:
        """All pieces in order, with progress on standard error."""
        work = Pass(self.table.encoding, self.model, self.centres, description == "Centring")
        parts = self.table.parts()
        pieces = map(work, parts) if client is None else mapped(work.all, parts, client)
        with progress(description, self.table.rows, self.verbose) as advance:
            for done in chain.from_iterable(pieces):
                self.found += done.findings
                if len(self.found.novelty) > MAX_DOMAINS:
                    raise ValueError(
                        f"The column {self.table.encoding.domain!r} names more than {MAX_DOMAINS:,} domains; does it "
                        "number the rows? Pass a column that says where rows come from."
                    )
                yield done
                advance(done.rows)

    def summary(self, output: str | None, before: dict[str, float]) -> dict[str, Any]:
        """What was done, in plain values, given what was missing in training."""
        labels, of, agreement = self.found.labels, self.model.novelty.of, self.found.agreement
        return {
            "output": output,
            "rows": labels.total(),
            "labels": [{"label": label, "rows": labels[label]} for label in self.model.classes_.tolist()],
            "probabilities": self.model.has_probabilities,
            "transductive": self.centres is not None,
            "mostly_missing": self._mostly_missing(before),
            "new_levels": [
                {"column": name, "rows": new.rows, "levels": list(new.examples)} for name, new in self.found.new.items()
            ],
            "agreement": agreement.summary() if agreement is not None and agreement.rows else None,
            "novelty": [{"domain": name, **_plain_values(of(batch))} for name, batch in self.found.novelty.items()],
        }

    def _mostly_missing(self, before: dict[str, float]) -> list[dict[str, Any]]:
        """Features of which more than half is missing, and was not in training."""
        named = zip(self.table.encoding.schema.feature_names, self.found.missing.tolist(), strict=True)
        return [
            {"column": name, "missing": missing}
            for name, missing in named
            if 2 * missing > self.table.rows and before.get(name, 0.0) <= 0.5
        ]


def _plain_values(result: NoveltyResult) -> dict[str, Any]:
    """A result as JSON can have it."""
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in asdict(result).items()}
