"""How new data differ from the training data: facts for JSON, and sentences for warnings and ``unseen predict``.

The facts of a batch are dictionaries of values that can be added, so that batches are processed in any process.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import bdtrc

from ..linalg import Array, merge_moments
from ..shift import (
    MISSING_CODES,
    ORDINARY_ZEROS,
    ColumnValues,
    DomainRows,
    columns_from_matrix,
    find_conversions,
    format_number,
    format_range,
    is_missing_code,
    measure_magnitudes,
    name_conversions,
)
from ..tables import Table, format_count
from ..utils.validation import EncodedLabels, Labels, format_list
from ._new_data import NewTable
from ._table_model import TableModel

BatchFacts = dict[str, dict[Any, Any]]  # statistics of rows, by kind and name; those of several batches are added

MAX_NAMED_DOMAINS = 20  # in one note
MIN_MISSING_SHARE = 0.5  # a column with a larger share of missing values is mostly missing
SIGNIFICANCE_LEVEL = 0.01  # of the test that more values are missing than in training
# A summary has some 300 bytes for each column and domain, so that it adds 1.5 MB to a model file at most. Tables beyond
# that are wide, such as features of images, and are not read column by column.
MAX_CELLS = 5_000
MAX_ROWS = 2_000  # of each new domain that are compared, at random: their deciles have errors of a few percent
MIN_SHARE = 0.1  # of the distance of a table: columns that contribute less are not named
MAX_NAMED = 3
MAX_DOMAINS = 20  # new domains that are compared
QUANTILES = np.linspace(0, 1, 11)  # minimum, deciles and maximum of each training domain
NORMAL_WIDTH = 2.563  # from the first to the last decile of a normal distribution, in standard deviations
DIGITS = 6  # significant ones, of stored numbers: more than any comparison needs
MAX_LEVELS = 1000  # categories that are stored for a column, the most frequent
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
        return cls(X[:0], keys[:0]) + cls(X, keys)

    def __add__(self, other: RowSample) -> RowSample:
        """Sample the rows of both."""
        keys = np.concatenate([self.keys, other.keys])
        kept = np.sort(np.argsort(keys, kind="stable")[:MAX_ROWS])
        return RowSample(np.concatenate([self.X, other.X])[kept], keys[kept])


def measure_batch(
    model: TableModel, prepared: Array, domain: Labels | None, table: NewTable | None, X: Array
) -> BatchFacts:
    """Measure the rows of a batch: moments for the novelty of each domain and, for tables, missing values and samples.

    Without names there is one domain, None.
    """
    domains = list(EncodedLabels.from_domains(domain, len(X)).iter_rows())
    features = model.novelty_features(prepared)
    facts: BatchFacts = {"novelty": {name: model.novelty.moments(features[rows]) for name, rows in domains}}
    if table is not None:
        missing = np.isnan(X).sum(axis=0).tolist()
        facts["missing"] = dict(zip(table.schema.feature_names, missing, strict=True))
        facts["columns"] = {name: RowSample.from_rows(X[rows]) for name, rows in domains}
    return facts


def add_facts(first: BatchFacts, second: BatchFacts) -> BatchFacts:
    """Add the facts of two batches."""
    return {kind: merge_moments(first.get(kind, {}), second.get(kind, {})) for kind in first | second}


def describe_differences(
    facts: BatchFacts, rows: int, model: TableModel, table: NewTable | None, card: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe the differences of new data from the training data, in values that JSON can represent.

    Parameters
    ----------
    facts : dict
        The sum of `measure_batch` over all batches, and `new_levels` of the table.
    rows : int
        Number of rows.
    model : TableModel
        Its novelty score compares domains.
    table : NewTable or None
        The new table; None for an array, which has no columns to compare.
    card : dict
        The model card, with missing values and a summary of the columns in training.
    """
    absent = [] if table is None else table.absent
    absent_columns = {entry["column"] for entry in absent}
    missing_in_training = card.get("data", {}).get("missing", {})
    novelty = []
    for domain, moments in facts["novelty"].items():
        result = asdict(model.novelty.score_moments(moments))
        values = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in result.items()}
        novelty.append({"domain": domain, **values})
    columns = []
    if table is not None and card.get("column_summary"):
        for domain, sample in list(facts["columns"].items())[:MAX_DOMAINS]:
            values = columns_from_matrix(sample.X, table.schema)
            columns.append({"domain": domain, **_compare_columns(card["column_summary"], values, domain)})
    return {
        "absent": absent,
        "mostly_missing": [
            {"column": name, "missing": n}
            for name, n in facts.get("missing", {}).items()
            if name not in absent_columns and _is_mostly_missing(n, rows, missing_in_training.get(name, 0.0))
        ],
        "new_levels": [
            {"column": name, "rows": values.rows, "levels": list(values.examples)}
            for name, values in facts.get("new_levels", {}).items()
        ],
        "novelty": novelty,
        "columns": columns,
    }


def _is_mostly_missing(n_missing: int, n_rows: int, share_in_training: float) -> bool:
    """Whether most values of a column are missing, and significantly more than in training."""
    if n_missing <= MIN_MISSING_SHARE * n_rows or share_in_training > MIN_MISSING_SHARE:
        return False
    p_value = bdtrc(n_missing - 1, n_rows, share_in_training)  # of n_missing or more values
    return bool(p_value < SIGNIFICANCE_LEVEL)


def difference_notes(facts: Mapping[str, Any], rows: int) -> Iterator[str]:
    """Yield a sentence for each way in which new data differ from the training data."""
    for entry in facts["absent"]:
        where = f" from {format_list(entry['files'], quote=False)}" if entry["files"] else ""
        hint = f" Did you mean {entry['similar']!r}?" if entry["similar"] else ""
        yield (
            f"The column {entry['column']!r} is absent{where}. Some of its values were missing in training, so all of "
            f"them are treated as missing.{hint}"
        )
    if facts["mostly_missing"]:
        columns = [f"{entry['column']} ({entry['missing']:,} of {rows:,} values)" for entry in facts["mostly_missing"]]
        yield f"Mostly missing here, so that predictions depend on the other columns: {format_list(columns)}."
    for entry in facts["new_levels"]:
        yield (
            f"The column {entry['column']!r} has values that training did not have, in {entry['rows']:,} of "
            f"{format_count(rows, 'row')}: {format_list(entry['levels'])}. They are treated as rare values."
        )
    for entry in facts["columns"]:
        yield from entry["notes"]
    far = [entry for entry in facts["novelty"] if entry["far"]]
    if far:
        names = [str(entry["domain"]) for entry in far if entry["domain"] is not None]
        where = f" ({format_list(names, MAX_NAMED_DOMAINS, quote=False)})" if names else ""
        farthest = max(far, key=lambda entry: entry["ratio"] or 0.0)
        yield (
            f"The new rows{where} lie outside of the source domains: their distance is {farthest['ratio'] or 0.0:.1f} "
            "times the distance that is usual for a source domain from the others. Check some predictions by hand."
            f"{name_contributions(facts['columns'], farthest['domain'])}"
        )


def name_contributions(columns: Sequence[dict[str, Any]], domain: Any) -> str:
    """Name the columns that make a domain far, with their shares of the distance of columns."""
    for entry in columns:
        if entry["domain"] == domain and entry["contributions"]:
            names = [f"{column['column']!r} ({column['share']:.0%})" for column in entry["contributions"]]
            return f" Columns that contribute most: {', '.join(names)}."
    return ""


def summarize_columns(table: Table) -> dict[str, Any] | None:
    """Summarize the columns of training data for the model card; None for arrays, photographs and very wide tables.

    A summary holds deciles and magnitudes, or shares of categories, of each column in each domain that has values of
    it. Its size does not depend on the number of rows.
    """
    domain = DomainRows.from_labels(table.domain)
    n_cells = len(table.schema.columns) * len(domain.names)
    if table.schema.label is None or table.pictures is not None or n_cells > MAX_CELLS:
        return None
    summary = {}
    for column in columns_from_matrix(table.X, table.schema):
        values, counts = column.distinct
        frequent = values[np.argsort(-counts, kind="stable")[:MAX_LEVELS]]
        levels = [column.levels[int(value)] for value in frequent] if column.kind == "categorical" else []
        domains = {}
        for name, part in zip(domain.names, domain.split(column.values), strict=True):
            if len(part):
                zeros = np.mean(part == 0)
                magnitudes = measure_magnitudes(part) if zeros <= ORDINARY_ZEROS and not column.is_coded else None
                domains[name] = {
                    "profile": _round_digits(_measure_profile(column, part, levels)),
                    "magnitudes": None if magnitudes is None else _round_digits(magnitudes),
                }
        summary[column.name] = {"kind": column.kind, "coded": column.is_coded, "levels": levels, "domains": domains}
    return summary


def _measure_profile(column: ColumnValues, values: Array, levels: Sequence[str]) -> Array:
    """Deciles of numbers, or the share of each of these categories."""
    if column.kind != "categorical":
        return np.quantile(values, QUANTILES)
    positions = {level: position for position, level in enumerate(column.levels)}
    return np.array([np.mean(values == positions.get(level, -1)) for level in levels])


def _round_digits(values: Array) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def _compare_columns(summary: Mapping[str, Any], columns: Sequence[ColumnValues], domain: str | None) -> dict[str, Any]:
    """Sentences on the columns of one new domain, and the columns that contribute most to its distance."""
    notes: list[str] = []
    contributions = []
    where = "the new table" if domain is None else domain
    for column in columns:
        entry = summary.get(column.name, {})
        values = column.values[column.is_present]
        # Too few values to compare, none to compare with, or categories of an array, which are numbers there.
        if len(values) < MIN_VALUES or not entry.get("domains") or column.kind != entry["kind"]:
            continue
        if column.kind != "categorical":
            notes += _find_codes(column.name, entry, values, where)
            notes += _find_units(column.name, entry, values)
        nearest, excess = _measure_excess(entry, _measure_profile(column, values, entry["levels"]), len(values))
        contributions.append({"column": column.name, "share": excess, "nearest_domain": nearest})
    # Relative to the largest, so that squares of extreme values stay finite.
    excesses = np.array([each["share"] for each in contributions])
    squares = (excesses / (excesses.max(initial=0.0) or 1.0)) ** 2
    for each, share in zip(contributions, squares / (squares.sum() or 1.0), strict=True):
        each["share"] = float(share)
    contributions = [each for each in contributions if each["share"] >= MIN_SHARE]
    contributions.sort(key=lambda each: -each["share"])
    return {"notes": notes, "contributions": contributions[:MAX_NAMED]}


def _find_codes(column: str, entry: Mapping[str, Any], values: Array, where: str) -> Iterator[str]:
    """Numbers such as 0 or -9 that may stand for missing values, and that training did not have."""
    known = np.array([domain["profile"] for domain in entry["domains"].values()]).ravel()
    for value in (0.0, *MISSING_CODES):
        count = int((values == value).sum())
        is_frequent = count >= max(MIN_CODE_ROWS, MIN_CODE_SHARE * len(values))
        if is_frequent and is_missing_code(value, known, entry["coded"]):
            text = format_number(value)
            yield (
                f"{column!r} is {text} in {count / len(values):.0%} of {where}; in training its values were "
                f"{format_number(known.min())} to {format_number(known.max())}. If {text} stands for a missing value, "
                "declare it with the parameter missing."
            )


def _find_units(column: str, entry: Mapping[str, Any], values: Array) -> Iterator[str]:
    """Values that look as if they were in different units than in training."""
    magnitudes = [domain["magnitudes"] for domain in entry["domains"].values() if domain["magnitudes"]]
    conversions = find_conversions(values, np.array(magnitudes)) if len(magnitudes) > 1 else []
    if conversions:
        medians = [domain["profile"][len(QUANTILES) // 2] for domain in entry["domains"].values()]
        yield (
            f"The values of {column!r} look as if they were in different units than in training: the median is "
            f"{format_number(float(np.median(values)))} here and {format_range(format_number, medians)} in training, "
            f"which fits {name_conversions(conversions)}. Convert the column ({conversions[0].remedy}) before "
            "prediction."
        )


def _measure_excess(entry: Mapping[str, Any], profile: Array, n_values: int) -> tuple[str, float]:
    """The nearest training domain, and the distance from it beyond those between training domains and noise.

    The distance is the total variation of categories, and the mean difference of deciles in standard deviations.
    """
    names = list(entry["domains"])
    known = np.array([domain["profile"] for domain in entry["domains"].values()])
    unit = 2.0
    if entry["kind"] != "categorical":
        widths = (known[:, -2] - known[:, 1]) / NORMAL_WIDTH
        width = float(np.mean(widths)) or float(np.ptp(known)) or 1.0
        known, profile = known[:, 1:-1], profile[1:-1]  # minimum and maximum depend on the number of rows
        unit = width * len(profile)
    distances = cdist(profile[None], known, "cityblock")[0] / unit
    between = cdist(known, known, "cityblock") / unit
    np.fill_diagonal(between, np.inf)
    usual = float(between.min(axis=1).max()) if len(known) > 1 else 0.0
    noise = NOISE / np.sqrt(n_values)
    nearest = int(distances.argmin())
    return names[nearest], max(float(distances[nearest]) - max(usual, noise), 0.0)
