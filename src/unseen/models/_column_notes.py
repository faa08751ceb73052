"""Columns of new data against those of training: which are far, in different units, or newly missing."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import bdtrc

from ..linalg import Array
from ..shift import (
    MIN_MISSING,
    MISSING_CODES,
    MOSTLY_MISSING,
    ORDINARY_ZEROS,
    ColumnValues,
    DomainRows,
    Finding,
    Severity,
    columns_from_matrix,
    find_conversions,
    format_number,
    format_range,
    is_missing_code,
    measure_magnitudes,
    name_conversions,
)
from ..tables import Schema, Table
from ..utils.validation import EncodedLabels, Labels

# A summary has some 300 bytes for each column and domain, so that it adds 1.5 MB to a model file at most. Tables beyond
# that are wide, such as features of images, and are not read column by column.
MAX_CELLS = 5_000
MAX_ROWS = 2_000  # of each new domain that are compared, at random: their deciles have errors of a few percent
MIN_SHARE = 0.1  # of the distance of a table: columns that contribute less are not named
MAX_NAMED = 3
MAX_DOMAINS = 20  # new domains that are compared
VERSION = 2  # of the summary of training columns
QUANTILES = np.linspace(0, 1, 11)  # minimum, deciles and maximum of each training domain
DIGITS = 6  # significant ones, of stored numbers: more than any comparison needs
MAX_LEVELS = 1000  # categories that are stored for a column, the most frequent
ALPHA = 0.05  # chance of any false alarm of more missing values than in training, over all columns
MIN_VALUES = 5  # of a new domain, fewer of which are not compared
MIN_CODE_ROWS = 3  # this many equal values are not typing errors
MIN_CODE_SHARE = 0.05  # of a new domain, of a number that stands for missing values
NOISE = 2.0  # standard errors of a distance that sampling explains


@dataclass(frozen=True, eq=False)
class RowSample:
    """A random sample of the encoded rows of a domain; samples of several batches can be added."""

    X: Array
    keys: Array  # random numbers, of which the smallest are kept

    @classmethod
    def from_rows(cls, X: Array) -> RowSample:
        """Sample the rows of a batch; the same rows give the same sample in every process."""
        keys = np.random.default_rng(zlib.crc32(np.ascontiguousarray(X).tobytes())).random(len(X))
        return cls(X, keys)._limit()

    def __add__(self, other: RowSample) -> RowSample:
        """Sample the rows of both."""
        return RowSample(np.concatenate([self.X, other.X]), np.concatenate([self.keys, other.keys]))._limit()

    def _limit(self) -> RowSample:
        if len(self.X) <= MAX_ROWS:
            return self
        kept = np.sort(np.argpartition(self.keys, MAX_ROWS)[:MAX_ROWS])
        return RowSample(self.X[kept], self.keys[kept])


def sample_domains(X: Array, domain: Labels | None) -> dict[str | None, RowSample]:
    """Sample the rows of each domain; without names there is one domain, None."""
    encoded = EncodedLabels.from_domains(domain, len(X))
    return {name: RowSample.from_rows(X[rows]) for name, rows in encoded.iter_rows()}


def summarize_table(table: Table) -> dict[str, Any] | None:
    """Summarize the columns of training data for the model card; None for arrays, photographs and very wide tables.

    The summary holds rows, missing values, deciles and magnitudes, or counts of categories, for each column and domain.
    Its size does not depend on the number of rows.
    """
    domain = DomainRows.from_labels(table.domain)
    n_cells = len(table.schema.columns) * len(domain.names)
    if table.schema.label is None or table.pictures is not None or n_cells > MAX_CELLS:
        return None
    columns = columns_from_matrix(table.X, table.schema)
    stored = {column.name: _summarize_column(column, domain) for column in columns}
    return {"version": VERSION, "domains": list(domain.names), "columns": stored}


def _summarize_column(column: ColumnValues, domain: DomainRows) -> dict[str, Any]:
    parts = domain.split(column.values)
    entry: dict[str, Any] = {
        "kind": column.kind,
        "rows": domain.sizes.tolist(),
        "missing": [int(size - len(part)) for size, part in zip(domain.sizes, parts, strict=True)],
    }
    if column.kind == "categorical":
        values, counts = column.distinct
        frequent = values[np.argsort(-counts, kind="stable")[:MAX_LEVELS]]
        entry["levels"] = {
            column.levels[int(value)]: [int((part == value).sum()) for part in parts] for value in frequent
        }
        return entry
    entry["coded"] = column.is_coded
    entry["zeros"] = [int((part == 0).sum()) for part in parts]
    entry["quantiles"] = [_round_digits(np.quantile(part, QUANTILES)) if len(part) else None for part in parts]
    entry["deviation"] = [_round_digits([_standard_deviation(part)])[0] if len(part) else None for part in parts]
    magnitudes = [measure_magnitudes(part) for part in parts]
    entry["magnitudes"] = [None if own is None else _round_digits(own) for own in magnitudes]
    return entry


def _standard_deviation(values: Array) -> float:
    """Of some numbers, whose squares may be too large for a float."""
    largest = float(np.abs(values).max())
    return largest * float(np.std(values / largest)) if largest > 0 else 0.0


def _round_digits(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def column_entries(
    summary: Mapping[str, Any] | None, schema: Schema, samples: Mapping[Any, RowSample]
) -> list[dict[str, Any]]:
    """Compare each new domain with the training columns, in values that JSON can represent.

    Parameters
    ----------
    summary : dict or None
        The result of `summarize_table`; None compares nothing.
    schema : Schema
        The columns of the model.
    samples : mapping of str or None to RowSample
        Rows of each new domain.
    """
    if summary is None:
        return []
    entries = []
    for domain, sample in list(samples.items())[:MAX_DOMAINS]:
        name = "the new table" if domain is None else str(domain)
        try:
            entry = _compare_columns(summary, columns_from_matrix(sample.X, schema), name)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"The model card describes the training columns in a form that cannot be read ({error}). Fit the model "
                "again."
            ) from error
        entries.append({"domain": domain, **entry})
    return entries


def _compare_columns(summary: Mapping[str, Any], columns: Sequence[ColumnValues], name: str) -> dict[str, Any]:
    """Findings on the columns of one new domain, and the columns that contribute most to its distance."""
    if summary["version"] != VERSION:
        raise ValueError(f"version {summary['version']!r}, where this version reads {VERSION}")
    findings: list[Finding] = []
    distances = []
    for column in columns:
        entry = summary["columns"][column.name]
        findings += _new_missingness(column, entry, name, ALPHA / len(columns))
        values = column.values[column.is_present]
        # Too few values to compare, none to compare with, or categories of an array, which are numbers there.
        if len(values) < MIN_VALUES or entry["missing"] == entry["rows"] or column.kind != entry["kind"]:
            continue
        if column.kind == "categorical":
            distance = _level_distance(column, entry)
        else:
            findings += _new_codes(column.name, entry, values, name)
            findings += [] if entry["coded"] else _different_units(column.name, entry, values, name)
            distance = _quantile_distance(entry, values)
        distances.append((column.name, *distance))
    contributions = _contributions(distances, summary["domains"])
    return {"findings": [asdict(finding) for finding in findings], "contributions": contributions[:MAX_NAMED]}


def _new_missingness(column: ColumnValues, entry: Mapping[str, Any], name: str, level: float) -> list[Finding]:
    """More missing values than in any training domain, by a share that matters."""
    n_rows = len(column.values)
    n_missing = n_rows - int(column.is_present.sum())
    missing = np.array(entry["missing"])
    rows = np.array(entry["rows"])
    highest = float((missing / rows).max())
    share = n_missing / n_rows
    # One row more is counted, so that few training rows prove little.
    p_value = float(bdtrc(n_missing - 1, n_rows, ((missing + 1) / (rows + 1)).max())) if n_missing else 1.0
    if share - highest < MIN_MISSING or p_value > level:
        return []
    message = (
        f"{column.name!r} is missing in {share:.0%} of the rows of {name}; in training at most {highest:.0%} of the "
        "rows of a domain lacked it."
    )
    action = "Predictions rest on the training median, or the category of missing values, there; check the column."
    severity: Severity = "high" if share - highest >= MOSTLY_MISSING else "medium"
    return [Finding(column.name, (name,), "missing", severity, message, action, share)]


def _new_codes(column: str, entry: Mapping[str, Any], values: Array, name: str) -> list[Finding]:
    """Numbers such as 0 or -9 that may stand for missing values, and that training did not have."""
    known = np.array([quantiles for quantiles in entry["quantiles"] if quantiles]).ravel()
    findings = []
    for value in (0.0, *MISSING_CODES):
        count = int((values == value).sum())
        share = count / len(values)
        is_frequent = count >= MIN_CODE_ROWS and share >= MIN_CODE_SHARE
        if not is_frequent or not is_missing_code(value, known, entry["coded"]):
            continue
        text = format_number(value)
        message = (
            f"{column!r} is {text} in {share:.0%} of {name}; in training its values were {format_number(known.min())} "
            f"to {format_number(known.max())}."
        )
        action = f"If {text} stands for a missing value, declare it with the parameter missing."
        findings.append(Finding(column, (name,), "missing_code", "high", message, action, share, value))
    return findings


def _different_units(column: str, entry: Mapping[str, Any], values: Array, name: str) -> list[Finding]:
    magnitudes = np.array([own for own in entry["magnitudes"] if own])
    n_values = np.array(entry["rows"]) - np.array(entry["missing"])
    zeros = np.array(entry["zeros"])[n_values > 0] / n_values[n_values > 0]
    if len(magnitudes) < 2 or np.median(zeros) > ORDINARY_ZEROS:
        return []
    conversions = find_conversions(values, magnitudes)
    if not conversions:
        return []
    medians = [quantiles[len(QUANTILES) // 2] for quantiles in entry["quantiles"] if quantiles]
    message = (
        f"The values of {column!r} look as if they were in different units than in training: the median is "
        f"{format_number(float(np.median(values)))} here and {format_range(format_number, medians)} in training, which "
        f"fits {name_conversions(conversions)}."
    )
    action = f"Convert the column ({conversions[0].remedy}) before prediction."
    return [Finding(column, (name,), "units", "high", message, action, 1.0, conversions[0].factor)]


def _quantile_distance(entry: Mapping[str, Any], values: Array) -> tuple[Array, Array, float]:
    """Distances of the new values from each domain, between domains, and what sampling explains."""
    known = np.array([[np.nan] * len(QUANTILES) if own is None else own for own in entry["quantiles"]])
    deviations = np.array([np.nan if own is None else own for own in entry["deviation"]])
    largest = float(np.nanmax(deviations))
    scale = largest * float(np.sqrt(np.nanmean((deviations / largest) ** 2))) if largest > 0 else 1.0
    known = known[:, 1:-1]  # deciles; minimum and maximum depend on the number of rows
    distances = np.abs(known - np.quantile(values, QUANTILES[1:-1])).mean(axis=1) / scale
    between = np.abs(known[:, None] - known[None, :]).mean(axis=2) / scale
    return distances, between, NOISE / np.sqrt(len(values))


def _level_distance(column: ColumnValues, entry: Mapping[str, Any]) -> tuple[Array, Array, float]:
    """The same for categories: total variation distances."""
    counts = np.array(list(entry["levels"].values()), dtype=float).T
    sizes = counts.sum(axis=1, keepdims=True)
    shares = np.where(sizes > 0, counts / np.maximum(sizes, 1), np.nan)
    values = column.values[column.is_present]
    positions = {level: position for position, level in enumerate(column.levels)}
    own = np.array([np.mean(values == positions.get(level, -1)) for level in entry["levels"]])
    distances = (np.abs(shares - own).sum(axis=1) + 1 - own.sum()) / 2
    between = np.abs(shares[:, None] - shares[None, :]).sum(axis=2) / 2
    return distances, between, NOISE * np.sqrt(len(own)) / (2 * np.sqrt(len(values)))


def _contributions(
    distances: Sequence[tuple[str, Array, Array, float]], domains: Sequence[str]
) -> list[dict[str, Any]]:
    """Columns with their shares of the distance from the nearest training domain, the largest first.

    A share is that of the sum of squared distances beyond what training domains differ by, and what sampling explains.
    """
    names = []
    excesses = []
    for name, from_domains, between, noise in distances:
        known = np.isfinite(from_domains)
        nearest = int(np.flatnonzero(known)[from_domains[known].argmin()])
        inner = between[np.ix_(known, known)]
        np.fill_diagonal(inner, np.inf)
        reference = float(inner.min(axis=1).max()) if known.sum() > 1 else 0.0
        names.append((name, domains[nearest]))
        excesses.append(max(float(from_domains[nearest]) - max(reference, noise), 0.0))
    # Relative to the largest, so that squares of extreme values stay finite.
    squares = (np.array(excesses) / (max(excesses, default=0.0) or 1.0)) ** 2
    shares = squares / (squares.sum() or 1.0)
    return [
        {"column": names[i][0], "share": float(shares[i]), "nearest_domain": names[i][1]}
        for i in np.argsort(-shares, kind="stable")
        if shares[i] >= MIN_SHARE
    ]
