"""The model card: a description of a fitted model as a dictionary for JSON."""

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
    Metric,
    domains_for_coverage,
    explain_missing_interval,
    get_metric,
    is_informative,
    metric_range,
)
from ..tables import SurveyedTable, Table
from ..utils.environment import environment_info
from ._table_fit import TableFit

ACCURACY = get_metric("accuracy")
LEADERBOARD_KEYS = ("model", "kind", "mean", "standard_error", "weight", "reason", "params", "is_selected")


def model_card(
    table: Table,
    fit: TableFit,
    *,
    method: str = "auto",
    scale: str = "standardize",
    seed: int = 0,
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
    method, scale, seed
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
    >>> card = model_card(load_digits_table(), fit_table(load_digits_table(), "1nn"), method="1nn")
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
    metric = get_metric(fit.metric)
    measure = f"{metric.label} on a domain by a model fitted on the other domains"
    if fit.stream:
        measure += f", among {fit.stream['choice_rows']:,} rows"
    expected_performance = ""
    if fit.ensemble:
        expected_performance = describe_expected_performance(fit.ensemble["forecast"], [*fit.scores.values()], metric)
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
        "method": method,
        "model": fit.name,
        "kind": fit.kind,
        "settings": fit.settings,
        "scale": scale,
        "seed": seed,
        "balance": fit.balance,
        "ensemble": fit.ensemble,
        "promise": expected_performance,
        "scores": {
            "measure": measure,
            "metric": metric.label,
            "mean": fit.mean,
            "by_domain": fit.scores,
            "rows": fit.scored_rows,
            "baseline": fit.baseline,
        },
        "leaderboard": [
            {key: row[key] for key in LEADERBOARD_KEYS} for row in fit.leaderboard if np.isfinite(row["mean"])
        ],
        "stream": fit.stream,
        "novelty": {
            "reference": dict(zip(novelty.domains_.tolist(), novelty.reference_.tolist(), strict=True)),
            "resolution": novelty.resolution_,
        },
        "machine": environment_info(),
    }


def describe_expected_performance(
    forecast: tuple[float, float, float], scores: Sequence[float], metric: Metric = ACCURACY
) -> str:
    """Describe the expected score on a new domain, given the forecast and the scores on held-out domains."""
    mean, low, high = forecast
    n_domains = len(scores)
    max_coverage = 100 * n_domains // (n_domains + 1)  # rounded down, since a larger coverage raises an error
    sets = f"Prediction sets contain the true class in up to {max_coverage}% of rows, on average over new domains"
    if max_coverage < 90:
        sets += f"; 90% takes {domains_for_coverage(0.9)} domains"
    article = "an" if metric.label[0] in "aeiouA" else "a"

    def show(value: float) -> str:
        return f"{100 * value:.0f}%" if metric.percent else f"{value:.2f}"

    limits = metric_range(metric.scoring)
    if n_domains >= MIN_DOMAINS_FOR_INTERVAL and is_informative(low, high, limits):
        return (
            f"On a new domain expect {article} {metric.label} of {show(mean)}, 95% prediction interval {show(low)} to "
            f"{show(high)}, if it differs from these {n_domains} domains as they differ from each other; the interval "
            f"does not hold for a domain that differs more. {sets}."
        )
    # The forecast contains at least the standard error of scores on few rows, even if the scores happen to be equal.
    t_quantile = stdtrit(max(n_domains - 1, 1), 0.975)
    forecast_spread = max(mean - low, high - mean) / (t_quantile * np.sqrt(1 + 1 / n_domains))
    score_spread = float(np.std(scores, ddof=1)) if n_domains > 1 else 0.0
    spread = max(score_spread, forecast_spread)

    def show_spread(size: float) -> str:
        return f"{100 * size:.0f} points" if metric.percent else f"{size:.2f}"

    half_width = MAX_USABLE_SHARE * (limits[1] - limits[0])
    reason = explain_missing_interval(n_domains, spread, half_width, show_spread)
    return f"On a new domain expect {article} {metric.label} of about {show(mean)}. {reason}. {sets}."
