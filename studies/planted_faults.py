"""Plant faults into real tables and count those that the column audit names: ``python -m studies.planted_faults``.

Reads the tables in ``../shared/data/tables``. Every planting takes a table, a column and a domain at random among those
in which the fault can be told from clean data in principle; the rules are in `eligible_cells`. A second rule, made
before the run from the power of an ideal test, asks whether the fault is large enough to be detected by anyone: it uses
clean data only, and is in `is_detectable`. Faults that are not are planted and counted as well, on their own. Prints
the share of faults that were found, by kind and by table, every fault that was missed, and the findings on clean
tables.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, zip_longest
from pathlib import Path

import numpy as np
from scipy import stats

from unseen.shift._column_audit import ALPHA, LEAST_MASS, ColumnAudit, Finding, audit_columns
from unseen.shift._column_tests import (
    LOG_ODDS_SPREAD,
    SpreadPrior,
    estimate_spread_prior,
    log_odds,
    log_statistics,
    predict_location,
    predict_next_domain,
)
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
POWER = 0.95
MOST_TRIES = 20  # plantings of one kind in one table, of which none is detectable


@dataclass(frozen=True, eq=False)
class RealTable:
    """A table of the shared folder."""

    name: str
    columns: dict[str, np.ndarray]
    labels: np.ndarray
    domains: np.ndarray


@dataclass(frozen=True, eq=False)
class Planting:
    """A fault, the table that has it, and whether it is large enough to be detected."""

    kind: str
    table: RealTable
    column: str
    domain: str
    detail: str
    detectable: bool = True


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


def is_detectable(clean: RealTable, planting: Planting, pair: tuple[float, float] | None = None) -> bool:
    """Whether an ideal test with the audit's level would find a fault with 95% power.

    The level is 5% over all columns and domains. A quantity of one domain is judged by the predictive distribution of a
    further domain like the others, estimated on the clean table: the variance between domains counts, since a domain
    may differ by nature.

    - units: the mean logarithm moves by at least the quantile of the level plus that of the power.
    - swapped: exchanged codes a and b turn the sign of the log odds of a against b, and of the log odds ratio of the
      label between them. With predicted mean m, standard error s and clean value x of both, the log likelihood ratio of
      the codes as they are against exchanged ones, the sum of 2 m x / s^2, is at least half of the squared distance
      that the same level and power need. A domain that differs from the others so that it looks exchanged when it is
      not has a negative one: nobody can find an exchange there.
    - constant: if the most frequent value has the share p in some domain, n equal rows have the probability p^n; it
      must be below the level.
    - zeros: three equal values at least, and a twentieth of the domain; fewer may be typing errors.
    - copy: always.
    """
    domain = DomainRows.from_labels(clean.domains, len(clean.domains))
    level = ALPHA / (len(clean.columns) * len(domain))
    if planting.kind == "copy":
        return True
    d = domain.names.index(planting.domain)
    [column] = read_columns({planting.column: clean.columns[planting.column]})
    [faulty] = read_columns({planting.column: planting.table.columns[planting.column]})
    parts = domain.split(column.values)
    if planting.kind == "zeros":
        n_zeros = int((domain.split(faulty.values)[d] == 0).sum())
        return n_zeros >= 3 and n_zeros >= LEAST_MASS * len(parts[d])
    if planting.kind == "constant":
        shares = [np.unique(part, return_counts=True)[1].max() / len(part) for part in parts if len(part) >= LEAST_ROWS]
        return bool(len(parts[d]) * np.log(max(shares)) <= np.log(level))
    if planting.kind == "units":
        statistics = [log_statistics(part) for part in parts]
        own, moved = statistics[d], log_statistics(domain.split(faulty.values)[d])
        others = [other for e, other in enumerate(statistics) if e != d and other is not None]
        assert own is not None
        assert moved is not None
        predictive = predict_location(others, spread_prior(clean))
        error = np.sqrt(predictive.scale**2 + own.mean_variance)
        return bool(abs(moved.mean - own.mean) >= error * _distance(level / 2, predictive.dof))
    assert pair is not None
    labels = clean.labels == np.unique(clean.labels)[np.unique(clean.labels, return_counts=True)[1].argmax()]
    counts = np.array(
        [
            [domain.count(np.where((column.values == value) & (labels == truth), 0, -1), 1)[:, 0] for truth in (1, 0)]
            for value in pair
        ]
    )  # codes, label and its complement, domains
    (a, b), with_half = counts.sum(axis=1), counts + 0.5
    logs = np.log(with_half)
    ratios = logs[0, 0] - logs[0, 1] - logs[1, 0] + logs[1, 1]
    quantities = (log_odds(a, b), (ratios, (1 / with_half).sum(axis=(0, 1))))
    others = [e for e in range(len(domain)) if e != d and a[e] + b[e] >= LEAST_ROWS]
    evidence, dof = 0.0, np.inf
    for estimates, variances in quantities:
        predictive = predict_next_domain(estimates[others], variances[others], LOG_ODDS_SPREAD)
        evidence += 2 * predictive.mean * estimates[d] / (predictive.scale**2 + variances[d])
        dof = min(dof, predictive.dof)
    return bool(evidence >= _distance(level, dof) ** 2 / 2)


def spread_prior(table: RealTable) -> SpreadPrior:
    """How much the columns of a table differ between domains, which many columns tell."""
    if table.name not in _priors:
        domain = DomainRows.from_labels(table.domains, len(table.domains))
        measured = [column for column in read_columns(table.columns) if not column.is_coded]
        statistics = [[log_statistics(part) for part in domain.split(column.values)] for column in measured]
        _priors[table.name] = estimate_spread_prior(statistics)
    return _priors[table.name]


_priors: dict[str, SpreadPrior] = {}


def _distance(level: float, dof: float) -> float:
    """Standard errors between two hypotheses that a one-sided test of this level tells apart with the power."""
    return float(stats.t.isf(level, dof) + stats.norm.ppf(POWER))


def plant(table: RealTable, kind: str, rng: np.random.Generator) -> Planting:
    """Plant a fault of some kind at random, and decide whether it is detectable."""
    planting, pair = _plant(table, kind, rng)
    return replace(planting, detectable=is_detectable(table, planting, pair))


def _plant(table: RealTable, kind: str, rng: np.random.Generator) -> tuple[Planting, tuple[float, float] | None]:
    cells = eligible_cells(table, kind)
    name, domain = cells[int(rng.integers(len(cells)))]
    here = table.domains == domain
    if kind == "copy":
        style = int(rng.integers(3))
        values = np.array([_copy_of(text, style) for text in table.domains.tolist()], dtype=object)
        return _planting(table, kind, name, domain, values, f"style {style}"), None
    values = table.columns[name].copy()
    column = next(column for column in read_columns({name: values}))
    if kind == "units":
        choice = int(rng.integers(2 * len(FACTORS) + 1))
        if choice == 2 * len(FACTORS):
            values[here] = 1.8 * values[here] + 32
            return _planting(table, kind, name, domain, values, "Fahrenheit"), None
        factor = FACTORS[choice % len(FACTORS)] ** (1 if choice < len(FACTORS) else -1)
        values[here] *= factor
        return _planting(table, kind, name, domain, values, f"factor {factor:.4g}"), None
    present = np.flatnonzero(here & column.is_present)
    if kind == "zeros":
        share = rng.uniform(0.2, 1.0)
        values[rng.choice(present, max(int(share * len(present)), 1), replace=False)] = 0.0
        return _planting(table, kind, name, domain, values, f"share {share:.2f}"), None
    if kind == "constant":
        distinct, counts = np.unique(column.values[present], return_counts=True)
        value = distinct[counts.argmax()]
        values[present] = column.levels[int(value)] if column.kind == "categorical" else value
        return _planting(table, kind, name, domain, values, f"value {value:g}"), None
    pairs = swappable_pairs(column, DomainRows.from_labels(table.domains, len(here)), domain)
    first, second = pairs[int(rng.integers(len(pairs)))]
    is_first = here & (column.values == first)
    is_second = here & (column.values == second)
    one, other = (column.levels[int(v)] if column.kind == "categorical" else v for v in (first, second))
    values[is_first] = other
    values[is_second] = one
    return _planting(table, kind, name, domain, values, f"codes {one} and {other}"), (first, second)


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
    """Plant faults: kinds in turn, and for each kind the tables that have room for it in turn.

    `n` of them are detectable. Where the first planting in a table is not, it is counted on its own, and others are
    drawn until one is.
    """
    rng = np.random.default_rng(seed)
    room = {kind: [name for name in tables if eligible_cells(tables[name], kind)] for kind in KINDS}
    n_detectable = 0
    for i in count():
        kind = KINDS[i % len(KINDS)]
        names = room[kind]
        for attempt in range(MOST_TRIES):
            planting = plant(tables[names[(i // len(KINDS)) % len(names)]], kind, rng)
            if planting.detectable or attempt == 0:
                yield planting
            if planting.detectable:
                n_detectable += 1
                break
        if n_detectable == n:
            return


def main() -> None:
    """Print the findings on clean tables, then the figures of the plantings."""
    parser = argparse.ArgumentParser(description="Plant faults and count how many the column audit names.")
    parser.add_argument("--plantings", type=int, default=200, help="Number of detectable faults (default: 200).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the random choices (default: 0).")
    options = parser.parse_args()
    tables = {name: read_table(name) for name in table_names()}
    clean = {name: audit(table) for name, table in tables.items()}
    for name, own in clean.items():
        print(f"{name}: {len(own.columns)} columns, {len(own.domains)} domains")
        for finding in own.findings:
            print(f"  {finding.severity} {finding.kind}: {finding.message}")
    begin = time.process_time()
    results: dict[str, list[bool]] = {}
    alarms: list[bool] = []
    for planting in plantings(tables, options.plantings, options.seed):
        result = audit(planting.table)
        named = is_named(planting, result.findings)
        group = "detectable" if planting.detectable else "not detectable"
        for key in (group, f"{group}, {planting.kind}", f"{group}, {planting.table.name}"):
            results.setdefault(key, []).append(named)
        wrong = false_alarms(planting, result.findings, clean[planting.table.name])
        alarms.append(bool(wrong))
        where = f"{planting.table.name}, {planting.column} in {planting.domain}, {planting.detail}"
        if not named:
            print(f"missed ({group}): {planting.kind}: {where}", flush=True)
        for finding in wrong:
            print(f"false alarm after {planting.kind} in {where}: {finding.message}", flush=True)
    print(f"{time.process_time() - begin:.0f} CPU seconds")
    for key, named_list in sorted(results.items()):
        print(f"{key}: {sum(named_list)} of {len(named_list)} named ({np.mean(named_list):.1%})")
    print(f"tables with a false alarm on another column: {sum(alarms)} of {len(alarms)}")


if __name__ == "__main__":
    main()
