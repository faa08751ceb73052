"""The model card: a description of a fitted model as a dictionary for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..model_selection import Forecast, describe_expected_performance
from ..tables import SurveyedTable, Table
from ..utils.environment import environment_info
from ._column_notes import summarize_table
from ._table_fit import TableFit

LEADERBOARD_KEYS = ("model", "kind", "mean", "standard_error", "weight", "reason", "params", "is_selected")


def model_card(
    table: Table,
    fit: TableFit,
    *,
    method: str = "auto",
    scale: str = "standardize",
    random_state: int = 0,
    source: Any = None,
    command: str = "",
) -> dict[str, Any]:
    """Describe a model: its training data, the model selection, the scores and the columns that it needs.

    Parameters
    ----------
    table : Table
        The training data, or a sample of them.
    fit : TableFit
        Result of `unseen.models.fit_table`.
    method, scale, random_state
        Arguments of the fit.
    source : SurveyedTable, default=None
        All rows, if the table is a sample.
    command : str, default=""
        Command that repeats the fit.

    Returns
    -------
    card : dict
        Argument of `unseen.models.save_model`.

    Examples
    --------
    >>> from unseen.datasets import load_digits_table
    >>> from unseen.models import fit_table, model_card
    >>> card = model_card(load_digits_table(), fit_table(load_digits_table(), "1-nn"), method="1-nn")
    >>> card["data"]["rows"], card["kind"]
    (1797, 'plain')
    """
    if isinstance(source, SurveyedTable):
        n_rows = source.rows
        domain_rows = source.count_domain_rows()
        class_rows = source.count_class_rows()
    else:
        n_rows = len(table.X)
        domain_rows = Counter(np.sort(table.domain).tolist())
        class_rows = Counter(np.sort(table.y).tolist())
    novelty = fit.model.novelty
    missing_shares = np.isnan(table.X).mean(axis=0).round(4).tolist()
    missing = {name: share for name, share in zip(table.schema.feature_names, missing_shares, strict=True) if share}
    metric = "accuracy" if fit.forecast is None else fit.forecast.metric
    measure = f"{metric} on a domain by a model fitted on the other domains"
    if fit.stream:
        measure += f"; that model was fitted to {fit.stream['choice_rows']:,} rows"
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "data": {
            "name": table.name,
            "rows": n_rows,
            "features": table.X.shape[1],
            "domains": domain_rows,
            "missing": missing,
            "classes": [{"class": value, "rows": count} for value, count in class_rows.items()],
            "notices": list(table.notices),
            "columns": table.describe_columns(),
        },
        "schema": table.schema.to_dict(),
        "column_summary": summarize_table(table),
        "method": method,
        "model": fit.name,
        "kind": fit.kind,
        "settings": fit.settings,
        "scale": scale,
        "seed": random_state,
        "balance": fit.balance,
        "ensemble": fit.ensemble,
        "threshold": fit.threshold,
        "expected_performance": {} if fit.forecast is None else forecast_to_dict(fit.forecast),
        "scores": {
            "measure": measure,
            "metric": metric,
            "mean": fit.mean,
            "by_domain": fit.scores,
            "rows": fit.scored_rows,
            "baseline": fit.baseline,
        },
        "leaderboard": [
            {key: getattr(row, key) for key in LEADERBOARD_KEYS} for row in fit.leaderboard if np.isfinite(row.mean)
        ],
        "stream": fit.stream,
        "novelty": {
            "reference": dict(zip(novelty.domains_.tolist(), novelty.reference_.tolist(), strict=True)),
            "resolution": novelty.resolution_,
        },
        "machine": environment_info(),
    }


def forecast_to_dict(forecast: Forecast) -> dict[str, Any]:
    """Convert a forecast to values that JSON can represent, with None for infinite numbers, and add a text."""
    values = {name: _without_infinity(value) for name, value in asdict(forecast).items()}
    return {**values, "text": describe_expected_performance(forecast)}


def forecast_from_dict(data: Mapping[str, Any]) -> Forecast:
    """Make a forecast from the result of `forecast_to_dict`."""
    low, high = data["bounds"]
    return Forecast(
        mean=float(data["mean"]),
        lower=-np.inf if data["lower"] is None else float(data["lower"]),
        upper=np.inf if data["upper"] is None else float(data["upper"]),
        level=float(data["level"]),
        metric=str(data["metric"]),
        scores=tuple(map(float, data["scores"])),
        bounds=(-np.inf if low is None else float(low), np.inf if high is None else float(high)),
        is_percent=bool(data["is_percent"]),
    )


def _without_infinity(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_without_infinity(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
