"""Plant faults into real tables and count those that the column audit names: ``python -m studies.planted_faults``.

Reads the tables in ``../shared/data/tables``. Every planting takes a table, a column and a domain at random among those
in which the fault is a fault at all; the rules are in `eligible_cells`. Prints the share of faults that were found, by
kind and by table, every fault that was missed, and the findings on clean tables.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from unseen.shift import Finding, audit_table
from unseen.tables import load_table

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "tables"
KINDS = ("units", "zeros", "code", "missing", "constant", "copy")
# How the audit may name a fault: a column that is zero in all rows of a domain is constant there as well.
ACCEPTED = {
    "units": {"units"},
    "zeros": {"missing_code", "constant"},
    "code": {"missing_code"},
    "missing": {"missing"},
    "constant": {"constant"},
    "copy": {"identifies_domain"},
}
FACTORS = (10.0, 18.016, 38.67, 88.4, 1000.0, 2.54)
CODES = (-9.0, -99.0, 999.0, 9999.0)
LEAST_ROWS = 20
MAX_CODES = 10


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


def audit(table: RealTable) -> tuple[Finding, ...]:
    """Audit a table as users read it."""
    data = {**table.columns, "label": table.labels, "domain": table.domains}
    return audit_table(load_table(data, label="label", domain="domain"))


def eligible_cells(table: RealTable, kind: str) -> list[tuple[str, str]]:
    """Columns and domains of a table in which a fault of this kind is a fault at all.

    The domain has 20 values of the column at least.

    - units: measured columns (more than ten values) in which at most a tenth of the values are zero: counts and
      abundances have no units. Columns that differ between domains by nature, in which a factor can be hidden, count.
    - zeros: measured columns of positive values.
    - code: columns of numbers, with -9 or 999 beyond their range.
    - missing: at most 20% of the values of the table are missing.
    - constant: the most frequent value makes up at most 80% of every domain.
    - copy: any domain; the column is new.
    """
    names = np.unique(table.domains).tolist()
    if kind == "copy":
        return [("copied", name) for name in names]
    cells = []
    for column, values in table.columns.items():
        is_number = values.dtype.kind == "f"
        present = np.isfinite(values) if is_number else values != np.array(None)
        parts = {name: values[present & (table.domains == name)] for name in names}
        if _is_eligible(kind, is_number, present, parts):
            cells += [(column, name) for name, part in parts.items() if len(part) >= LEAST_ROWS]
    return cells


def _is_eligible(kind: str, is_number: bool, present: np.ndarray, parts: dict[str, np.ndarray]) -> bool:
    large = [part for part in parts.values() if len(part) >= LEAST_ROWS]
    if len(large) < 3:
        return False
    if kind == "missing":
        return present.mean() >= 0.8
    if kind == "constant":
        return max(max(np.unique(part.astype(str), return_counts=True)[1]) / len(part) for part in large) <= 0.8
    if not is_number:
        return False
    values = np.concatenate(list(parts.values()))
    if kind == "code":
        return _codes_beyond(values) != []
    if len(np.unique(values)) <= MAX_CODES:
        return False
    if kind == "zeros":
        return values.min() > 0
    return (values == 0).mean() <= 0.1


def _codes_beyond(values: np.ndarray) -> list[float]:
    return [code for code in CODES if not np.nanmin(values) <= code <= np.nanmax(values)]


def plant(table: RealTable, kind: str, rng: np.random.Generator) -> Planting:
    """Plant a fault of some kind at random."""
    cells = eligible_cells(table, kind)
    name, domain = cells[int(rng.integers(len(cells)))]
    here = table.domains == domain
    if kind == "copy":
        style = int(rng.integers(2))
        values = np.array([text if style else f"center {text.upper()}" for text in table.domains], dtype=object)
        detail = f"style {style}"
    else:
        values = table.columns[name].copy()
        is_number = values.dtype.kind == "f"
        present = np.flatnonzero(here & (np.isfinite(values) if is_number else values != np.array(None)))
        share = float(rng.uniform(0.2, 1.0))
        chosen = rng.choice(present, int(share * len(present)), replace=False)
        detail = f"share {share:.2f}"
        if kind == "units":
            choice = int(rng.integers(2 * len(FACTORS) + 1))
            factor = FACTORS[choice % len(FACTORS)] ** (1 if choice < len(FACTORS) else -1)
            is_fahrenheit = choice == 2 * len(FACTORS)
            values[here] = 1.8 * values[here] + 32 if is_fahrenheit else factor * values[here]
            detail = "Fahrenheit" if is_fahrenheit else f"factor {factor:.4g}"
        elif kind == "zeros":
            values[chosen] = 0.0
        elif kind == "code":
            code = float(rng.choice(_codes_beyond(values)))
            is_everywhere = bool(rng.integers(2))
            values[rng.random(len(values)) < 0.05 if is_everywhere else chosen] = code
            detail = f"{code:g} {'in 5% of all rows' if is_everywhere else detail}"
        elif kind == "missing":
            share = float(rng.uniform(0.3, 1.0))
            chosen = rng.choice(present, int(share * len(present)), replace=False)
            values[chosen] = np.nan if is_number else None
            detail = f"share {share:.2f}"
        else:
            distinct, counts = np.unique(values[present].astype(str), return_counts=True)
            mode = distinct[counts.argmax()]
            values[present] = float(mode) if is_number else mode
            detail = f"value {mode}"
    columns = {**table.columns, name: values}
    return Planting(kind, RealTable(table.name, columns, table.labels, table.domains), name, domain, detail)


def is_named(planting: Planting, findings: tuple[Finding, ...]) -> bool:
    """Whether a finding names the column, the domain and the kind of the fault."""
    return any(
        finding.column == planting.column
        and planting.domain in finding.domains
        and finding.kind in ACCEPTED[planting.kind]
        for finding in findings
    )


def false_alarms(planting: Planting, findings: tuple[Finding, ...], clean: tuple[Finding, ...]) -> list[Finding]:
    """Findings that the clean table does not have: on other columns, or of a kind that does not fit the fault."""
    known = {(finding.column, finding.kind) for finding in clean}
    own = {(planting.column, kind) for kind in ACCEPTED[planting.kind]}
    return [finding for finding in findings if (finding.column, finding.kind) not in known | own]


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
    parser.add_argument("--plantings", type=int, default=240, help="Number of faults (default: 240).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the random choices (default: 0).")
    options = parser.parse_args()
    tables = {name: read_table(name) for name in table_names()}
    clean = {name: audit(table) for name, table in tables.items()}
    for name, findings in clean.items():
        print(f"{name}: {len(tables[name].columns)} columns, {len(np.unique(tables[name].domains))} domains")
        for finding in findings:
            print(f"  {finding.severity} {finding.kind}: {finding.message}")
    begin = time.process_time()
    results: dict[str, list[bool]] = {}
    alarms: list[bool] = []
    for planting in plantings(tables, options.plantings, options.seed):
        findings = audit(planting.table)
        named = is_named(planting, findings)
        for key in ("all", planting.kind, planting.table.name):
            results.setdefault(key, []).append(named)
        wrong = false_alarms(planting, findings, clean[planting.table.name])
        alarms.append(bool(wrong))
        where = f"{planting.kind} in {planting.table.name}, {planting.column} in {planting.domain}, {planting.detail}"
        if not named:
            print(f"missed: {where}", flush=True)
        for finding in wrong:
            print(f"false alarm after {where}: {finding.message}", flush=True)
    print(f"{time.process_time() - begin:.0f} CPU seconds")
    for key, named_list in results.items():
        print(f"{key}: {sum(named_list)} of {len(named_list)} named ({np.mean(named_list):.1%})")
    print(f"tables with a false alarm: {sum(alarms)} of {len(alarms)}")


if __name__ == "__main__":
    main()
