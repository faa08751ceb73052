"""Notes on new data: how they differ from the training data, in sentences. The command prints them, Python warns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from scipy.special import bdtrc

from ..linalg import Moments
from ..shift import Novelty, NoveltyResult
from ..tables import NewValues, format_count
from ..utils.validation import format_list

SHOWN = 20  # domains that are named in a note
MOSTLY = 0.5  # share of the values of a column that are missing if most of them are
CHANCE = 0.01  # so many missing values are no news if the share of training gives them with this probability


def new_data_facts(
    rows: int,
    absent: Sequence[dict[str, Any]],
    missing: Mapping[str, int],
    missing_in_training: Mapping[str, float],
    new_levels: Mapping[str, NewValues],
    novelty: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Return how new data differ from the training data, in plain values.

    Parameters
    ----------
    rows : int
        Number of rows.
    absent : sequence of dict
        Columns that some files lack: `column`, `files`, their names if there are several, and `similar`, a column that
        may be meant, or None.
    missing : mapping
        Number of missing values of each feature.
    missing_in_training : mapping
        Share of missing values of each feature in training; features that are not there had none.
    new_levels : mapping
        Levels of each categorical column that training did not have.
    novelty : sequence of dict
        What `novelty_entry` returned for each domain.
    """
    lacking = {entry["column"] for entry in absent}
    return {
        "absent": list(absent),
        "mostly_missing": [
            {"column": name, "missing": n}
            for name, n in missing.items()
            if name not in lacking and _mostly_missing(n, rows, missing_in_training.get(name, 0.0))
        ],
        "new_levels": [
            {"column": name, "rows": new.rows, "levels": list(new.examples)} for name, new in new_levels.items()
        ],
        "novelty": list(novelty),
    }


def _mostly_missing(n: int, rows: int, share_in_training: float) -> bool:
    """Whether most values of a column are missing, though they were not in training; a few rows say little."""
    if n <= MOSTLY * rows or share_in_training > MOSTLY:
        return False
    return bool(bdtrc(n - 1, rows, share_in_training) < CHANCE)  # at least n of so many rows


def novelty_entry(domain: str | None, result: NoveltyResult) -> dict[str, Any]:
    """Return the novelty of a domain in values that JSON has; None stands for rows without a name."""
    values = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in asdict(result).items()}
    return {"domain": domain, **values}


def novelty_entries(novelty: Novelty, moments: Mapping[Any, Moments]) -> list[dict[str, Any]]:
    """Return the novelty of each domain, given the moments of its rows."""
    return [novelty_entry(name, novelty.score_moments(batch)) for name, batch in moments.items()]


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
        yield f"Mostly missing here, so the predictions rest on the other columns: {format_list(columns)}."
    for entry in facts["new_levels"]:
        yield (
            f"The column {entry['column']!r} holds values that training did not, in {entry['rows']:,} of "
            f"{format_count(rows, 'row')}: {format_list(entry['levels'])}. They are treated as rare values."
        )
    far = [entry for entry in facts["novelty"] if entry["far"]]
    if far:
        names = [str(entry["domain"]) for entry in far if entry["domain"] is not None]
        where = f" ({format_list(names, SHOWN, quote=False)})" if names else ""
        farthest = max(far, key=lambda entry: entry["ratio"] or 0.0)
        yield (
            f"The new rows{where} lie outside of what the model has seen: {farthest['ratio'] or 0.0:.1f} times as far "
            "from the source domains as one of these may lie from the others. Check some predictions by hand."
        )
