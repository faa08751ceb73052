"""Plant faults into real tables and count those that the column audit names: ``python -m studies.planted_faults``.

Reads the tables in ``../shared/data/tables``. Every planting takes a table, a column and a domain at random among those
in which the fault can be told from clean data in principle; the rules are in `eligible_cells`. Prints the share of
faults that were found, by kind and by table, every fault that was missed, and the findings on clean tables.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from unseen.shift._column_audit import ColumnAudit, Finding, audit_columns
from unseen.shift._column_values import ColumnValues, DomainRows, read_columns

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "tables"
KINDS = ("units", "zeros", "swapped", "constant", "copy")
# How the audit may name a fault: a column that is set to zero, or to any one value, in all rows is both a point mass
# and a constant; the sentence says the same.
ACCEPTED = {
    "units": {"units"},
    "zeros": {"point_mass", "constant"},
    "swapped": {"swapped_codes"},
    "constant": {"constant", "point_mass"},
    "copy": {"domain_copy"},
}
PLANTED_KINDS = {"units", "point_mass", "swapped_codes", "constant", "domain_copy", "identifies_domain"}
FACTORS = (10.0, 18.016, 38.67, 88.4, 1000.0)
LEAST_ROWS = 10


@dataclass(frozen=True, eq=False)
class RealTable:
    """A table of the shared folder."""

    name: str
    columns: dict[str, np.ndarray]
    labels: np.ndarray
    domains: np.ndarray


@dataclass(frozen=True, eq=False)
class Planting:
    """A fault, and the table that has it."""

    kind: str
    table: RealTable
    column: str
    domain: str
    detail: str


def read_table(name: str, folder: Path = FOLDER) -> RealTable:
    """Read a table; columns of numbers are floats, the others text."""
    with gzip.open(folder / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    # The rows of one domain of one table are a value short; what lacks at their end is missing, as polars reads it.
    values = dict(zip(rows[0], zip_longest(*rows[1:], fillvalue=""), strict=True))
    columns = {}
    for column, texts in values.items():
        if column in ("domain", "label"):
            continue
        try:
            columns[column] = np.array([float(text) if text else np.nan for text in texts])
        except ValueError:
            columns[column] = np.array([text if text else None for text in texts], dtype=object)
    return RealTable(name, columns, np.array(values["label"]), np.array(values["domain"]))


def table_names(folder: Path = FOLDER) -> list[str]:
    """The tables of the folder, sorted."""
    return sorted(path.name.removesuffix(".csv.gz") for path in folder.glob("*.csv.gz"))


def audit(table: RealTable) -> ColumnAudit:
    """Audit a table."""
    return audit_columns(table.columns, table.labels, domains=table.domains)


def eligible_cells(table: RealTable, kind: str) -> list[tuple[str, str]]:
    """Columns and domains of a table in which a fault of this kind is a fault at all.

    - units: measured (not coded) columns, with ten values other than zero in the domain and in two others at least.
    - zeros: measured columns in which zero is not an ordinary value: at most 1% of all values.
    - swapped: coded columns, and codes that make up a tenth of the domain and ten rows each, there and in two others.
    - constant: the most frequent value makes up at most 80% of the domain.
    - copy: any domain; the column is new.
    """
    domain = DomainRows.from_labels(table.domains, len(table.domains))
    if kind == "copy":
        return [("copied", name) for name in domain.names]
    cells = []
    for column in read_columns(table.columns):
        parts = domain.split(column.values)
        for name, part in zip(domain.names, parts, strict=True):
            if len(part) >= LEAST_ROWS and _is_eligible(kind, column, part, parts, domain, name):
                cells.append((column.name, name))
    return cells


def _is_eligible(
    kind: str, column: ColumnValues, part: np.ndarray, parts: list[np.ndarray], domain: DomainRows, name: str
) -> bool:
    if kind == "units":
        enough = [(other != 0).sum() >= LEAST_ROWS for other in parts]
        return not column.is_coded and (part != 0).sum() >= LEAST_ROWS and sum(enough) >= 3
    if kind == "zeros":
        return not column.is_coded and (column.values[column.is_present] == 0).mean() <= 0.01
    if kind == "swapped":
        return column.is_coded and bool(swappable_pairs(column, domain, name))
    counts = np.unique(part, return_counts=True)[1]
    return counts.max() <= 0.8 * len(part)


def swappable_pairs(column: ColumnValues, domain: DomainRows, name: str) -> list[tuple[float, float]]:
    """Pairs of codes that can be exchanged in a domain: both are common there and in two other domains."""
    counts = domain.count(column.codes, len(column.distinct[0]))
    sizes = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    is_common = (counts >= LEAST_ROWS) & (counts >= 0.1 * sizes)
    d = domain.names.index(name)
    pairs = []
    for a in range(counts.shape[1]):
        for b in range(a + 1, counts.shape[1]):
            both = is_common[:, a] & is_common[:, b]
            if both[d] and both.sum() >= 3:
                pairs.append((column.distinct[0][a], column.distinct[0][b]))
    return pairs


def plant(table: RealTable, kind: str, rng: np.random.Generator) -> Planting:
    """Plant a fault of some kind at random."""
    cells = eligible_cells(table, kind)
    name, domain = cells[int(rng.integers(len(cells)))]
    here = table.domains == domain
    if kind == "copy":
        style = int(rng.integers(3))
        values = np.array([_copy_of(text, style) for text in table.domains.tolist()], dtype=object)
        return _planting(table, kind, name, domain, values, f"style {style}")
    values = table.columns[name].copy()
    column = next(column for column in read_columns({name: values}))
    if kind == "units":
        choice = int(rng.integers(2 * len(FACTORS) + 1))
        if choice == 2 * len(FACTORS):
            values[here] = 1.8 * values[here] + 32
            return _planting(table, kind, name, domain, values, "Fahrenheit")
        factor = FACTORS[choice % len(FACTORS)] ** (1 if choice < len(FACTORS) else -1)
        values[here] *= factor
        return _planting(table, kind, name, domain, values, f"factor {factor:.4g}")
    present = np.flatnonzero(here & column.is_present)
    if kind == "zeros":
        share = rng.uniform(0.2, 1.0)
        values[rng.choice(present, max(int(share * len(present)), 1), replace=False)] = 0.0
        return _planting(table, kind, name, domain, values, f"share {share:.2f}")
    if kind == "constant":
        distinct, counts = np.unique(column.values[present], return_counts=True)
        value = distinct[counts.argmax()]
        values[present] = column.levels[int(value)] if column.kind == "categorical" else value
        return _planting(table, kind, name, domain, values, f"value {value:g}")
    pairs = swappable_pairs(column, DomainRows.from_labels(table.domains, len(here)), domain)
    first, second = pairs[int(rng.integers(len(pairs)))]
    is_first = here & (column.values == first)
    is_second = here & (column.values == second)
    one, other = (column.levels[int(v)] if column.kind == "categorical" else v for v in (first, second))
    values[is_first] = other
    values[is_second] = one
    return _planting(table, kind, name, domain, values, f"codes {one} and {other}")


def _copy_of(text: str, style: int) -> object:
    return (text, f"center {text.upper()}", float(sum(ord(c) * 31**i for i, c in enumerate(text)) % 1_000_003))[style]


def _planting(table: RealTable, kind: str, column: str, domain: str, values: np.ndarray, detail: str) -> Planting:
    columns = {**table.columns, column: values}
    return Planting(kind, RealTable(table.name, columns, table.labels, table.domains), column, domain, detail)


def is_named(planting: Planting, findings: tuple[Finding, ...]) -> bool:
    """Whether a finding names the column, the domain and the kind of the fault."""
    return any(
        finding.column == planting.column
        and planting.domain in finding.domains
        and finding.kind in ACCEPTED[planting.kind]
        for finding in findings
    )


def false_alarms(planting: Planting, findings: tuple[Finding, ...], clean: ColumnAudit) -> list[Finding]:
    """Findings of the planted kinds on other columns that the clean table does not have."""
    known = {(finding.column, finding.kind) for finding in clean.findings}
    return [
        finding
        for finding in findings
        if finding.kind in PLANTED_KINDS
        and finding.column != planting.column
        and (finding.column, finding.kind) not in known
    ]


def plantings(tables: dict[str, RealTable], n: int, seed: int) -> Iterator[Planting]:
    """Plant faults: kinds in turn, and for each kind the tables that have room for it in turn."""
    rng = np.random.default_rng(seed)
    room = {kind: [name for name in tables if eligible_cells(tables[name], kind)] for kind in KINDS}
    for i in range(n):
        kind = KINDS[i % len(KINDS)]
        names = room[kind]
        yield plant(tables[names[(i // len(KINDS)) % len(names)]], kind, rng)


def main() -> None:
    """Print the findings on clean tables, then the figures of the plantings."""
    parser = argparse.ArgumentParser(description="Plant faults and count how many the column audit names.")
    parser.add_argument("--plantings", type=int, default=200, help="Number of planted faults (default: 200).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the random choices (default: 0).")
    options = parser.parse_args()
    tables = {name: read_table(name) for name in table_names()}
    clean = {name: audit(table) for name, table in tables.items()}
    for name, own in clean.items():
        print(f"{name}: {len(own.columns)} columns, {len(own.domains)} domains")
        for finding in own.findings:
            print(f"  {finding.severity} {finding.kind}: {finding.message}")
    begin = time.perf_counter()
    by_kind: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    by_table: dict[str, list[bool]] = {name: [] for name in tables}
    alarms: Counter[str] = Counter()
    columns = 0
    for planting in plantings(tables, options.plantings, options.seed):
        result = audit(planting.table)
        named = is_named(planting, result.findings)
        by_kind[planting.kind].append(named)
        by_table[planting.table.name].append(named)
        columns += len(result.columns) - 1
        wrong = false_alarms(planting, result.findings, clean[planting.table.name])
        alarms[planting.table.name] += bool(wrong)
        where = f"{planting.table.name}, {planting.column} in {planting.domain}, {planting.detail}"
        if not named:
            print(f"missed: {planting.kind}: {where}")
        for finding in wrong:
            print(f"false alarm after {planting.kind} in {where}: {finding.message}")
    print(f"{time.perf_counter() - begin:.0f} s")
    for title, results in (("kind", by_kind), ("table", by_table)):
        for name, named_list in results.items():
            if named_list:
                print(f"{title} {name}: {sum(named_list)} of {len(named_list)} named")
    total = [named for own in by_kind.values() for named in own]
    print(f"named: {sum(total)} of {len(total)} ({np.mean(total):.1%})")
    print(f"tables with a false alarm on another column: {sum(alarms.values())} of {len(total)}; {dict(alarms)}")


if __name__ == "__main__":
    main()
