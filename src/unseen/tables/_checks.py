"""Labels and domains: what they are, and whether there is anything to learn from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._errors import counted, listed
from ._survey import Survey
from ._values import as_text, is_text, polars

if TYPE_CHECKING:
    import polars as pl

MANY_VALUES = 20  # a label with more different values that are not integers is a measurement
FEWEST_ROWS = 4  # of a domain


def as_labels(series: pl.Series) -> pl.Series:
    """Labels as integers if all are whole numbers, else as text; missing ones are null."""
    pl = polars()
    text = as_text(series)
    if series.dtype == pl.Boolean or text.str.contains(r"^\s*[+-]?0\d").any():  # 007 is a code, not the number 7
        return text
    numbers = text.str.strip_chars() if is_text(series.dtype) else series
    for kind in (pl.Int64, pl.Float64):
        read = numbers.cast(kind, strict=False)
        if kind == pl.Float64:
            read = read.fill_nan(None)
        if read.null_count() > text.null_count():
            continue
        if kind == pl.Int64 and not series.dtype.is_float():
            return read
        if kind == pl.Float64 and (read.is_finite() & (read == read.round()) & (read.abs() < 2**53)).all():
            return read.cast(pl.Int64)
    return text


def label_problems(labels: pl.Series, name: str, survey: Survey) -> list[str]:
    """Missing labels, and labels that are no classes."""
    pl = polars()
    problems = _missing(labels, "label", name, survey)
    present = labels.drop_nulls()
    distinct = present.n_unique()
    measured = labels.dtype == pl.String and present.cast(pl.Float64, strict=False).null_count() == 0
    if (measured and distinct > MANY_VALUES) or distinct > max(MANY_VALUES, len(present) / 2):
        problems.append(
            f"the label column {name!r} has {distinct:,} different values in {counted(len(present), 'row')}, such as "
            f"{listed(present.unique(maintain_order=True).head(3).to_list())}: it looks like a measurement or an "
            "identifier, not like classes."
        )
    elif distinct < 2 and len(present):
        problems.append(
            f"the label column {name!r} must hold two classes or more; it holds {listed(present.unique())}."
        )
    return problems


def domain_problems(domains: pl.Series, name: str | None, survey: Survey) -> list[str]:
    """Missing domains, and fewer than two of them."""
    problems = _missing(domains, "domain", name, survey)
    present = domains.drop_nulls().unique(maintain_order=True)
    if len(present) < 2 and survey.rows:
        held = f"the domain column {name!r} holds" if name is not None else "the folder holds"
        problems.append(
            f"{held} {counted(len(present), 'domain')}, {listed(present)}: two or more are needed to tell what "
            "stays the same from place to place."
        )
    return problems


def cell_problems(labels: pl.Series, domains: pl.Series, *, advice: str = "") -> list[str]:
    """Domains with too few rows, or with rows of one class only."""
    pl = polars()
    rows = pl.DataFrame({"label": labels, "domain": domains}).drop_nulls()
    cells = rows.group_by("domain", maintain_order=True).agg(
        rows=pl.len(), classes=pl.col("label").n_unique(), only=pl.col("label").first().cast(pl.String)
    )
    problems = []
    small = cells.filter(pl.col("rows") < FEWEST_ROWS)
    if small.height:
        problems.append(
            f"{counted(small.height, 'domain')} of {cells.height:,} with fewer than {FEWEST_ROWS} rows: "
            f"{listed(small['domain'])}. Leave out these rows, or choose another domain column.{advice}"
        )
    for domain, _, _, only in cells.filter(pl.col("rows") >= FEWEST_ROWS, pl.col("classes") == 1).rows():
        problems.append(
            f"the domain {domain!r} has samples of one class only, {only!r}, so its classes cannot be told apart. "
            f"Leave out its rows, or choose another domain column.{advice}"
        )
    return problems


def lonely_domains(labels: pl.Series, domains: pl.Series) -> list[str]:
    """Notices about domains that have no class in common with any other."""
    pl = polars()
    cells = pl.DataFrame({"label": labels, "domain": domains}).unique(maintain_order=True)
    shared = cells.filter(pl.len().over("label") > 1)["domain"].unique()
    lonely = cells["domain"].unique(maintain_order=True)
    lonely = lonely.filter(~lonely.is_in(shared.implode()))
    return [f"No class of these domains occurs in any other: {listed(lonely)}."] if len(lonely) else []


def as_array(values: pl.Series) -> NDArray[Any]:
    """Integers or text as NumPy has them; text is turned into strings once per value, not once per row."""
    pl = polars()
    if values.dtype != pl.String:
        return values.to_numpy()
    names = np.array(values.unique().sort().to_list(), dtype=str)
    return names[values.rank("dense").to_numpy() - 1] if len(values) else np.array([], dtype=str)


def _missing(values: pl.Series, role: str, name: str | None, survey: Survey) -> list[str]:
    rows = np.flatnonzero(values.is_null().to_numpy())
    if not len(rows):
        return []
    return [
        f"the {role} column {name!r} is missing in {counted(len(rows), 'row')}: {survey.where(rows)}. "
        "Fill in or leave out."
    ]
