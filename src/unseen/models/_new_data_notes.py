"""Notes on new data: sentences about differences from the training data, for warnings and for ``unseen predict``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from scipy.special import bdtrc

from ..linalg import Moments
from ..shift import Novelty
from ..tables import NewValues, format_count
from ..utils.validation import format_list

MAX_NAMED_DOMAINS = 20  # in one note
MIN_MISSING_SHARE = 0.5  # a column with a larger share of missing values is mostly missing
SIGNIFICANCE_LEVEL = 0.01  # of the test that more values are missing than in training


def new_data_facts(
    rows: int,
    absent: Sequence[dict[str, Any]],
    missing: Mapping[str, int],
    missing_in_training: Mapping[str, float],
    new_levels: Mapping[str, NewValues],
    novelty: Sequence[dict[str, Any]],
    columns: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return the differences of new data from the training data, in values that JSON can represent.

    Parameters
    ----------
    rows : int
        Number of rows.
    absent : sequence of dict
        Columns that some files lack: `column`, `files`, their names if there are several, and `similar`, the name of a
        similar column, or None.
    missing : mapping
        Number of missing values of each feature.
    missing_in_training : mapping
        Share of missing values of each feature in training; 0 for features that are not in it.
    new_levels : mapping
        Levels of each categorical column that training did not have.
    novelty : sequence of dict
        Result of `novelty_entries`.
    columns : sequence of dict
        Result of `column_entries`.
    """
    absent_columns = {entry["column"] for entry in absent}
    facts: dict[str, Any] = {
        "absent": list(absent),
        "mostly_missing": [
            {"column": name, "missing": n}
            for name, n in missing.items()
            if name not in absent_columns and _is_mostly_missing(n, rows, missing_in_training.get(name, 0.0))
        ],
        "new_levels": [
            {"column": name, "rows": values.rows, "levels": list(values.examples)}
            for name, values in new_levels.items()
        ],
        "novelty": list(novelty),
    }
    return {**facts, "columns": drop_repeated_findings(columns, facts)}


def drop_repeated_findings(columns: Sequence[dict[str, Any]], facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Leave out that a column is missing where another note says so."""
    named = {entry["column"] for key in ("absent", "mostly_missing") for entry in facts[key]}
    kept = []
    for entry in columns:
        findings = [f for f in entry["findings"] if f["kind"] != "missing" or f["column"] not in named]
        kept.append({**entry, "findings": findings})
    return kept


def _is_mostly_missing(n_missing: int, n_rows: int, share_in_training: float) -> bool:
    """Whether most values of a column are missing, and significantly more than in training."""
    if n_missing <= MIN_MISSING_SHARE * n_rows or share_in_training > MIN_MISSING_SHARE:
        return False
    p_value = bdtrc(n_missing - 1, n_rows, share_in_training)  # of n_missing or more values
    return bool(p_value < SIGNIFICANCE_LEVEL)


def novelty_entries(novelty: Novelty, moments: Mapping[Any, Moments]) -> list[dict[str, Any]]:
    """Return the novelty of each domain, given the moments of its rows, in values that JSON can represent.

    The domain None stands for rows without a domain name, the value None for numbers that are not finite.
    """
    entries = []
    for domain, domain_moments in moments.items():
        result = asdict(novelty.score_moments(domain_moments))
        values = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in result.items()}
        entries.append({"domain": domain, **values})
    return entries


def new_data_notes(facts: Mapping[str, Any], rows: int) -> Iterator[str]:
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
        missing = [finding for finding in entry["findings"] if finding["kind"] == "missing"]
        if len(missing) > 1:
            names = [f"{finding['column']} ({finding['affected']:.0%})" for finding in missing]
            where = "" if entry["domain"] is None else f" of {entry['domain']}"
            yield (
                f"Missing in more rows{where} than in any training domain: {format_list(names, quote=False)}. "
                f"{missing[0]['action']}"
            )
        for finding in entry["findings"]:
            if finding["kind"] != "missing" or len(missing) == 1:
                yield f"{finding['message']} {finding['action']}"
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
