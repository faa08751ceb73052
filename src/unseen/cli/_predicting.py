"""What is done to some rows of a new table: a function of them alone, so that it can be done anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..algebra import Ints, Moments, pooled
from ..labels import Labels
from ..models import Centres, TableModel
from ..tables import Agreement, NewValues
from ._new_table import Encoding, Piece, Rows


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
class OnPieces:
    """Reads rows, and does something to each piece of them."""

    encoding: Encoding
    act: Callable[[Piece], Done]

    def __call__(self, rows: Rows) -> Iterator[Done]:
        """One piece after another."""
        return map(self.act, self.encoding.pieces(rows))

    def all(self, rows: Rows) -> list[Done]:
        """All at once, to be sent back."""
        return list(self(rows))


def centre(model: TableModel, centres: Centres, piece: Piece) -> Done:
    """The first of two passes: what a piece tells about the centres of its domains, and about their novelty."""
    prepared = model.prepare(piece.X)
    found = Findings(_missing(piece), _novelty(model, prepared, piece.domain))
    return Done(len(prepared), found, centres=centres.moments(prepared, piece.domain))


def classify(model: TableModel, centres: Centres | None, piece: Piece) -> Done:
    """The predictions of a piece; and its novelty, if this is the only pass."""
    prepared = model.prepare(piece.X)
    if centres is not None:
        Z = centres.transform(prepared, piece.domain)
        found = Findings(np.zeros_like(_missing(piece)))
    else:
        Z = prepared if model.transformer is None else model.transformer.transform(prepared)
        found = Findings(_missing(piece), _novelty(model, prepared, piece.domain))
    labels, probabilities = model.classify(Z)
    agreement = None
    if piece.labels is not None:
        agreement = Agreement.of(piece.labels, labels, model.classes_, piece.domain)
    found += Findings(np.zeros_like(found.missing), {}, Counter(labels.tolist()), piece.new, agreement)
    columns: dict[str, Any] = {} if piece.domain is None else {"domain": piece.domain}
    columns["label"] = labels
    if probabilities is not None:
        columns |= {f"p({name})": probabilities[:, i] for i, name in enumerate(model.classes_.tolist())}
    return Done(len(labels), found, _beside(piece.kept, pl.DataFrame(columns)))


def _beside(kept: pl.DataFrame, ours: pl.DataFrame) -> pl.DataFrame:
    """Columns of the table before ours; those that are called like one of ours are marked."""
    taken = {*ours.columns, *kept.columns}
    names = {name: name for name in kept.columns}
    for name in set(kept.columns).intersection(ours.columns):
        while names[name] in taken:
            names[name] += " (input)"
    return pl.concat([kept.rename(names), ours], how="horizontal")


def _missing(piece: Piece) -> Ints:
    return np.isnan(piece.X).sum(axis=0)


def _novelty(model: TableModel, prepared: Any, domain: Labels | None) -> dict[str | None, Moments]:
    if domain is None:
        return {None: model.novelty.moments(prepared)}
    names, codes = np.unique(domain, return_inverse=True)
    return {name: model.novelty.moments(prepared[codes == i]) for i, name in enumerate(names.tolist())}
