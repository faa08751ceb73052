"""The card of a model: all that is known about it, in plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..model_selection import (
    MAX_USABLE_SHARE,
    MIN_DOMAINS_FOR_INTERVAL,
    domains_for_coverage,
    explain_missing_interval,
    is_informative,
)
from ..tables import SurveyedTable, Table
from ..utils.environment import environment_info
from ._table_fit import TableFit

BOARD = ("model", "kind", "mean", "standard_error", "weight", "guard", "params", "chosen")


def model_card(
    table: Table,
    found: TableFit,
    *,
    method: str = "auto",
    scale: str = "standardize",
    seed: int = 0,
    source: Any = None,
    command: str = "",
) -> dict[str, Any]:
    """Say what a model was fitted on, what was chosen, how it scored, and which columns it needs.

    Parameters
    ----------
    table : Table
        What the model was fitted on, or a sample of it.
    found : TableFit
        What the fit gave.
    method, scale, seed
        What was asked for.
    source : SurveyedTable, default=None
        Has all rows if the table is a sample.
    command : str, default=""
        What repeats the fit.

    Returns
    -------
    card : dict
        As `unseen.models.save_model` takes it.

    Examples
    --------
    >>> from unseen.datasets import embedded
    >>> from unseen.models import fit_table, model_card
    >>> card = model_card(embedded(), fit_table(embedded(), "1nn"), method="1nn")
    >>> card["data"]["rows"], card["kind"]
    (1797, 'plain')
    """
    if isinstance(source, SurveyedTable):
        rows, domain_rows, class_rows = source.rows, source.count_domain_rows(), source.count_class_rows()
    else:
        rows = len(table.X)
        domain_rows, class_rows = (Counter(np.sort(labels).tolist()) for labels in (table.domain, table.y))
    novelty = found.model.novelty
    missing = np.isnan(table.X).mean(axis=0).round(4).tolist()  # the share of each column
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "data": {
            "name": table.name,
            "rows": rows,
            "features": table.X.shape[1],
            "domains": domain_rows,
            "missing": {name: share for name, share in zip(table.schema.feature_names, missing, strict=True) if share},
            "classes": [{"class": value, "rows": count} for value, count in class_rows.items()],
            "notices": list(table.notices),
            "columns": table.describe_columns(),
        },
        "schema": table.schema.to_dict(),
        "method": method,
        "model": found.name,
        "kind": found.kind,
        "settings": found.settings,
        "scale": scale,
        "seed": seed,
        "balance": found.balance,
        "pool": found.pool,
        "promise": expected_performance_facts(found.pool["forecast"], [*found.scores.values()]) if found.pool else "",
        "scores": {
            "measure": "accuracy on a domain by a model fitted on the other domains"
            + (f", among {found.stream['choice_rows']:,} rows" if found.stream else ""),
            "mean": found.mean,
            "by_domain": found.scores,
            "rows": found.scored_rows,
            "baseline": found.baseline,
        },
        "leaderboard": [
            {
                key: row[key]
                for key in ("model", "kind", "mean", "standard_error", "weight", "guard", "params", "chosen")
            }
            for row in found.leaderboard
            if np.isfinite(row["mean"])
        ],
        "stream": found.stream,
        "novelty": {
            "reference": dict(zip(novelty.domains_.tolist(), novelty.reference_.tolist(), strict=True)),
            "resolution": novelty.resolution_,
        },
        "machine": environment_info(),
    }


def expected_performance_facts(forecast: tuple[float, float, float], scores: Sequence[float]) -> str:
    """What the scores of held-out domains say about the next one, and what they do not, in words."""
    mean, low, high = forecast
    m = len(scores)
    expected, least, most = (f"{100 * share:.0f}%" for share in (mean, low, high))
    held = 100 * m // (m + 1)  # rounded down: more is refused
    sets = f"Sets of labels can be asked to hold the true one in up to {held}% of rows, on average over new domains"
    if held < 90:
        sets += f"; 90% takes {domains_for_coverage(0.9)} domains"
    if m >= MIN_DOMAINS_FOR_INTERVAL and is_informative(low, high, (0.0, 1.0)):
        return (
            f"On a new domain expect an accuracy of {expected}, 95% prediction interval {least} to {most}, if it "
            f"differs from these {m} as they differ from each other; nothing is promised for a stranger one. {sets}."
        )
    # The forecast takes at least the spread that so few rows leave, which the scores themselves need not show.
    of_forecast = max(mean - low, high - mean) / (stdtrit(max(m - 1, 1), 0.975) * np.sqrt(1 + 1 / m))
    spread = max(float(np.std(scores, ddof=1)) if m > 1 else 0.0, of_forecast)
    why = explain_missing_interval(m, spread, MAX_USABLE_SHARE, lambda size: f"{100 * size:.0f} points")
    return f"On a new domain expect an accuracy of about {expected}. {why}. {sets}."
