"""The section on the importance of columns in the report of a validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._charts import compute_shades
from ._format import is_number


def prepare_importance(summary: Mapping[str, Any], max_rows: int | None = None) -> dict[str, Any] | None:
    """Prepare the losses of permuted columns as a heat map of columns by domains; at most `max_rows` columns."""
    importance = summary.get("importance")
    if not importance:
        return None
    domains = list(importance["scores"])
    columns = importance["columns"][:max_rows]
    losses = [[entry["by_domain"].get(name) for name in domains] for entry in columns]
    largest = max((value for row in losses for value in row if is_number(value)), default=1.0)
    rows = []
    for entry, values, shades in zip(columns, losses, compute_shades(losses, low=0.0, high=largest), strict=True):
        cells = [
            {"value": value if is_number(value) else None, "shade": shade}
            for value, shade in zip(values, shades, strict=True)
        ]
        ends = {key: entry[key] if is_number(entry[key]) else None for key in ("mean", "lower", "upper")}
        rows.append({"column": entry["column"], "cells": cells, **ends})
    return {
        "metric": importance["metric"],
        "domains": domains,
        "rows": rows,
        "n_hidden": len(importance["columns"]) - len(rows),
    }
