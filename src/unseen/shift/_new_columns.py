"""Columns of a new table, compared with small summaries of the training columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np

from ._column_audit import LEAST_MASS, MISSING_STEPS, SENTINELS, Finding, Severity, quote_name
from ._column_tests import (
    LogStatistics,
    SpreadPrior,
    estimate_spread_prior,
    exceeds_share,
    highest_share,
    is_excess,
    log_statistics,
    unit_evidence,
)
from ._column_values import ColumnValues, DomainRows, Floats, format_number, read_columns, standard_deviation

VERSION = 1  # of the summary, for files
QUANTILES = np.linspace(0, 1, 11)  # minimum, deciles and maximum of each training domain
DIGITS = 6  # significant ones, of stored numbers: more than any comparison needs
MAX_LEVELS = 1000  # categories that are stored for a column, the most frequent
MIN_ROWS = 5  # values of a new table, fewer of which are not tested
ALPHA = 0.05  # chance of any false alarm of one kind over the columns of a new table
FAR = 1.5  # times the distance of the training domain that lies furthest from its nearest neighbor, as for novelty
NOISE = 2.0  # standard errors of a distance that sampling explains


@dataclass(frozen=True)
class ColumnDistance:
    """How far a column of a new table lies from the training domains.

    Attributes
    ----------
    column : str
        The column.
    distance : float
        From the nearest training domain: mean difference of deciles in standard deviations inside domains (for
        categories, total variation).
    reference : float
        The largest distance of a training domain from the nearest other one.
    nearest_domain : str
        The nearest training domain.
    share : float
        Its part of what makes the table far: of the sum of squared distances beyond the references.
    is_far : bool
        Whether the distance exceeds 1.5 times the reference, and what sampling explains.
    """

    column: str
    distance: float
    reference: float
    nearest_domain: str
    share: float
    is_far: bool


@dataclass(frozen=True, eq=False)
class NewColumns:
    """What :func:`compare_columns` found.

    Attributes
    ----------
    columns : tuple of ColumnDistance
        The columns, those that make the table far first.
    findings : tuple of Finding
        Suspected changes of units, new missingness, new categories and new point masses.
    """

    columns: tuple[ColumnDistance, ...]
    findings: tuple[Finding, ...]

    @property
    def far_columns(self) -> tuple[str, ...]:
        """The columns that lie outside of what the training domains span."""
        return tuple(column.column for column in self.columns if column.is_far)

    def sentences(self) -> list[str]:
        """The findings and the columns that make the table far, as sentences."""
        sentences = [f"{finding.message} {finding.action}" for finding in self.findings]
        named = {finding.column for finding in self.findings}
        for column in self.columns:
            if column.is_far and column.column not in named:
                sentences.append(
                    f"{column.column!r} is far from all training domains: its distance from the nearest one "
                    f"({column.nearest_domain}) is {column.distance:.2g}, where training domains lie at most "
                    f"{column.reference:.2g} apart from their nearest. Its share of the distance of the table is "
                    f"{column.share:.0%}."
                )
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "columns": [asdict(column) for column in self.columns],
            "findings": [{**asdict(finding), "domains": list(finding.domains)} for finding in self.findings],
            "sentences": self.sentences(),
        }


def summarize_columns(columns: Any, *, domains: Any) -> dict[str, Any]:
    """Summarize training columns by domain, in plain values that JSON holds.

    Parameters
    ----------
    columns : mapping of str to array-like, DataFrame, or sequence of ColumnValues
        The features.
    domains : array-like of shape (n_samples,)
        The domain of each row.

    Returns
    -------
    summary : dict
        `domains`, and for each column and domain rows, missing values, deciles and statistics of logarithms, or counts
        of categories. Its size does not depend on the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.shift._new_columns import compare_columns, summarize_columns
    >>> rng = np.random.default_rng(0)
    >>> domain = np.repeat(["a", "b", "c"], 100)
    >>> summary = summarize_columns({"chol": rng.normal(220, 40, size=300)}, domains=domain)
    >>> new = compare_columns(summary, {"chol": rng.normal(220, 40, size=50) / 38.67})
    >>> print(new.sentences()[0])
    The values of 'chol' look as if they were in other units than in training: the median is 5.708 here and 206.2 to
    222.9 in training, which fits a factor of 1/38.67. Convert the column (multiply by 38.67) before prediction.
    """
    read = read_columns(columns)
    domain = DomainRows.from_labels(domains, len(read[0].values))
    stored: dict[str, Any] = {}
    for column in read:
        parts = domain.split(column.values)
        entry: dict[str, Any] = {
            "kind": column.kind,
            "rows": domain.sizes.tolist(),
            "missing": [int(size - len(part)) for size, part in zip(domain.sizes, parts, strict=True)],
        }
        if column.kind == "categorical":
            counts = domain.count(column.codes, len(column.distinct[0]))
            order = np.argsort(-counts.sum(axis=0), kind="stable")[:MAX_LEVELS]
            names = [column.levels[int(column.distinct[0][code])] for code in order]
            entry["levels"] = {name: counts[:, code].tolist() for name, code in zip(names, order, strict=True)}
        else:
            entry["coded"] = column.is_coded
            entry["quantiles"] = [_round_digits(np.quantile(part, QUANTILES)) if len(part) else None for part in parts]
            entry["deviation"] = [_round_digits([standard_deviation(part)])[0] if len(part) else None for part in parts]
            entry["logs"] = [_log_summary(part) for part in parts]
            counts_by_value = {value: [int((part == value).sum()) for part in parts] for value in SENTINELS}
            entry["masses"] = {format_number(value): n for value, n in counts_by_value.items() if any(n)}
        stored[column.name] = entry
    return {"version": VERSION, "domains": list(domain.names), "columns": stored}


def _round_digits(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def _log_summary(values: Floats) -> list[float] | None:
    statistics = log_statistics(values)
    return None if statistics is None else _round_digits(astuple(statistics))


def compare_columns(
    summary: Mapping[str, Any], columns: Any, *, name: str = "the new table", alpha: float = ALPHA
) -> NewColumns:
    """Name the columns that make a new table far, and warn of other units and new missingness.

    Parameters
    ----------
    summary : dict
        What :func:`summarize_columns` returned for the training table.
    columns : mapping of str to array-like, DataFrame, or sequence of ColumnValues
        The features of the new table, from one domain. A column of the training table that is absent here counts as
        missing in all rows.
    name : str, default="the new table"
        What messages call the new table.
    alpha : float, default=0.05
        Chance of any false alarm of one kind over all columns.

    Returns
    -------
    comparison : NewColumns
        Distances and findings.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.shift import compare_columns, summarize_columns
    >>> rng = np.random.default_rng(0)
    >>> domain = np.repeat(["a", "b", "c"], 100)
    >>> summary = summarize_columns({"age": rng.normal(60, 10, size=300)}, domains=domain)
    >>> [finding.kind for finding in compare_columns(summary, {"age": np.full(50, np.nan)}).findings]
    ['missing']
    """
    if summary.get("version") != VERSION:
        raise ValueError(
            f"summary has version {summary.get('version')!r}; this version reads {VERSION}. Make it again with "
            "summarize_columns."
        )
    read = {column.name: column for column in read_columns(columns)}
    training: Mapping[str, Mapping[str, Any]] = summary["columns"]
    level = alpha / max(len(training), 1)
    n_rows = max((len(column.values) for column in read.values()), default=0)
    prior = SpreadPrior()
    if n_rows >= MIN_ROWS:  # of fewer rows only missing values are compared
        logs = [_read_logs(entry) for entry in training.values() if entry["kind"] == "numeric" and not entry["coded"]]
        prior = estimate_spread_prior(logs)
    findings: list[Finding] = []
    measured = []
    for column_name, entry in training.items():
        column = read.get(column_name)
        if column is None:
            column = ColumnValues(column_name, "numeric", np.full(n_rows, np.nan))
        values = _convert_to_training_kind(column, entry)
        findings += _new_missingness(column_name, entry, values, len(column.values), name, level)
        present = values[values != np.array(None)] if entry["kind"] == "categorical" else values[np.isfinite(values)]
        if len(present) < MIN_ROWS or entry["missing"] == entry["rows"]:
            continue  # too few values to compare, or none to compare with
        if entry["kind"] == "categorical":
            findings += _new_levels(column_name, entry, present, name, level)
            measured.append((column_name, *_level_distance(entry, present)))
        else:
            if not entry["coded"]:
                findings += _other_units(column_name, entry, present, name, level, prior)
            findings += _new_masses(column_name, entry, present, name, level)
            measured.append((column_name, *_quantile_distance(entry, present)))
    return NewColumns(_rank_distances(measured, summary["domains"]), tuple(findings))


def _convert_to_training_kind(column: ColumnValues, entry: Mapping[str, Any]) -> Any:
    """The values as training had them: text for categories, numbers otherwise."""
    if entry["kind"] == "categorical":
        if column.kind == "categorical":
            texts = [None if np.isnan(value) else column.levels[int(value)] for value in column.values]
        else:
            texts = [None if np.isnan(value) else format_number(value) for value in column.values]
        return np.array(texts, dtype=object)
    if column.kind == "categorical" and column.is_present.any():
        raise ValueError(
            f"Column {column.name!r} held numbers in training, but holds text here, such as {column.levels[0]!r}."
        )
    return column.values


def _new_missingness(
    column: str, entry: Mapping[str, Any], values: Any, n_rows: int, name: str, level: float
) -> list[Finding]:
    """More missing values than a further domain like those of training would have, by a share that matters."""
    is_text = entry["kind"] == "categorical"
    missing = sum(value is None for value in values) if is_text else int(np.isnan(values).sum())
    if missing == 0:
        return []
    rows = np.array(entry["rows"])
    counts = np.array(entry["missing"])
    highest = float((counts / rows).max())
    share = missing / n_rows
    severity: Severity | None = next((grade for least, grade in MISSING_STEPS if share - highest >= least), None)
    if severity is None or not exceeds_share(missing, n_rows, highest_share(counts, rows), level):
        return []
    message = (
        f"{column!r} is missing in {share:.0%} of the rows of {name}; in training at most {highest:.0%} of the rows of "
        "a domain lacked it."
    )
    action = "Predictions rest on the training median, or the category of missing values, there; check the column."
    return [Finding(column, (name,), "missing", severity, message, action, share)]


def _read_logs(entry: Mapping[str, Any]) -> list[LogStatistics | None]:
    """Stored statistics of logarithms, one for each training domain."""
    return [LogStatistics(int(stored[0]), *stored[1:]) if stored else None for stored in entry["logs"]]


def _other_units(
    column: str, entry: Mapping[str, Any], values: Floats, name: str, level: float, prior: SpreadPrior
) -> list[Finding]:
    statistics = log_statistics(values)
    others = [stored for stored in _read_logs(entry) if stored]
    if statistics is None or not others:
        return []
    evidence = unit_evidence(values, statistics, others, level, prior)
    if evidence is None:
        return []
    medians = [quantiles[len(QUANTILES) // 2] for quantiles in entry["quantiles"] if quantiles]
    low, high = format_number(min(medians)), format_number(max(medians))
    message = (
        f"The values of {column!r} look as if they were in other units than in training: the median is "
        f"{format_number(float(np.median(values)))} here and {low if low == high else f'{low} to {high}'} in training, "
    )
    if evidence.conversions:
        best = evidence.conversions[0]
        message += f"which fits {' or '.join(conversion.name for conversion in evidence.conversions[:3])}."
        action = f"Convert the column ({best.remedy}) before prediction."
        factor = best.factor
    else:
        factor = evidence.factor
        message += f"a factor of about {factor:.2g}, which fits no common conversion."
        action = "Check its unit and source before prediction."
    return [Finding(column, (name,), "units", "high", message, action, 1.0, factor)]


def _new_masses(column: str, entry: Mapping[str, Any], values: Floats, name: str, level: float) -> list[Finding]:
    """Values such as 0 or -9 that are far more frequent than in training."""
    findings = []
    sizes = np.array(entry["rows"]) - np.array(entry["missing"])
    for value in SENTINELS:
        text = format_number(value)
        count = int((values == value).sum())
        known = np.array(entry["masses"].get(text, [0] * len(sizes)))
        elsewhere = known.sum() / max(sizes.sum(), 1)
        share = count / len(values)
        if share - elsewhere < LEAST_MASS or not is_excess(count, len(values), known, sizes, level):
            continue
        message = f"{column!r} is {text} in {share:.0%} of {name}, and in {elsewhere:.0%} of the training rows."
        action = f"If it stands for a missing value, treat it as one: missing={{{quote_name(column)}: {text}}}."
        findings.append(Finding(column, (name,), "point_mass", "high", message, action, share, value))
    return findings


def _new_levels(column: str, entry: Mapping[str, Any], values: Any, name: str, level: float) -> list[Finding]:
    known = entry["levels"]
    if len(known) >= MAX_LEVELS:
        return []
    new = [value for value in values if value not in known]
    sizes = np.array(entry["rows"]) - np.array(entry["missing"])
    if not new or not is_excess(len(new), len(values), np.zeros_like(sizes), sizes, level):
        return []
    share = len(new) / len(values)
    examples = ", ".join(repr(value) for value in list(dict.fromkeys(new))[:3])
    message = f"{column!r} has categories in {share:.0%} of {name} that training did not have, such as {examples}."
    action = "Check the coding; predictions treat them as rare categories."
    severity: Severity = "medium" if share >= LEAST_MASS else "low"
    return [Finding(column, (name,), "new_category", severity, message, action, share, examples)]


def _quantile_distance(entry: Mapping[str, Any], values: Floats) -> tuple[Floats, Floats, float]:
    """Distances of the new values from each domain, of domains from their nearest, and what sampling explains."""
    stored = [np.full(len(QUANTILES), np.nan) if own is None else np.array(own) for own in entry["quantiles"]]
    known = np.array(stored)
    deviations = np.array([np.nan if own is None else own for own in entry["deviation"]])
    largest = float(np.nanmax(deviations))
    scale = largest * float(np.sqrt(np.nanmean((deviations / largest) ** 2))) if largest > 0 else 1.0
    inner = slice(1, -1)  # deciles; minimum and maximum depend on the number of rows
    own = np.quantile(values, QUANTILES)
    distances = np.abs(known[:, inner] - own[inner]).mean(axis=1) / scale
    between = np.abs(known[:, None, inner] - known[None, :, inner]).mean(axis=2) / scale
    return distances, between, NOISE / np.sqrt(len(values))


def _level_distance(entry: Mapping[str, Any], values: Any) -> tuple[Floats, Floats, float]:
    levels = list(entry["levels"])
    counts = np.array([entry["levels"][level] for level in levels], dtype=float).T
    sizes = counts.sum(axis=1, keepdims=True)
    shares = np.where(sizes > 0, counts / np.maximum(sizes, 1), np.nan)
    own = np.array([np.mean(values == level) for level in levels])
    rest = 1 - own.sum()
    distances = (np.abs(shares - own).sum(axis=1) + rest) / 2
    between = np.abs(shares[:, None] - shares[None, :]).sum(axis=2) / 2
    return distances, between, NOISE * np.sqrt(len(levels)) / (2 * np.sqrt(len(values)))


def _rank_distances(
    measured: Sequence[tuple[str, Floats, Floats, float]], domains: Sequence[str]
) -> tuple[ColumnDistance, ...]:
    rows = []
    for name, distances, between, noise in measured:
        known = np.isfinite(distances)
        nearest = int(np.flatnonzero(known)[distances[known].argmin()])
        inner = between[np.ix_(known, known)]
        np.fill_diagonal(inner, np.inf)
        reference = float(inner.min(axis=1).max()) if known.sum() > 1 else 0.0
        distance = float(distances[nearest])
        rows.append((name, distance, reference, domains[nearest], max(distance - max(reference, noise), 0.0), noise))
    # Relative to the largest, so that squares of extreme values stay finite.
    largest = max((excess for *_, excess, _ in rows), default=0.0) or 1.0
    total = sum((excess / largest) ** 2 for *_, excess, _ in rows)
    columns = [
        ColumnDistance(
            name,
            distance,
            reference,
            nearest,
            (excess / largest) ** 2 / total if total > 0 else 0.0,
            bool(distance > FAR * reference and distance > noise + reference),
        )
        for name, distance, reference, nearest, excess, noise in rows
    ]
    return tuple(sorted(columns, key=lambda column: (-column.share, column.reference - column.distance)))
