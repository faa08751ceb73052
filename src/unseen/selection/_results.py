"""Results of a search: GridSearchCV's table, and the rule that chooses among equals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from ..algebra import Array
from ._evaluate import Candidate, Score

TIE = 1e-12  # means of the same fractions may differ by rounding


def tabulate(candidates: list[Candidate], params: list[dict[str, Any]], scores: list[list[Score]]) -> dict[str, Any]:
    """Arrange the scores, one list per split, as GridSearchCV's ``cv_results_`` with some columns of our own."""
    by_split = [{score.index: score for score in split} for split in scores]
    order = range(len(candidates))

    def column(attribute: str) -> Array:
        return np.array([[getattr(split[i], attribute) for split in by_split] for i in order], dtype=float)

    values, fit_times, score_times = column("value"), column("fit_seconds"), column("score_seconds")
    means = values.mean(axis=1)
    results: dict[str, Any] = {
        "mean_fit_time": fit_times.mean(axis=1),
        "std_fit_time": fit_times.std(axis=1),
        "mean_score_time": score_times.mean(axis=1),
        "std_score_time": score_times.std(axis=1),
        **_param_columns(params),
        "params": params,
        **{f"split{k}_test_score": values[:, k] for k in range(len(scores))},
        "mean_test_score": means,
        "std_test_score": values.std(axis=1),
        "rank_test_score": rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32),
        "n_ties": np.array([np.sum(np.abs(means - mean) <= TIE) - 1 if np.isfinite(mean) else 0 for mean in means]),
        "mean_n_components": column("n_components").mean(axis=1),
        "mean_ridge": column("ridge").mean(axis=1),
        "mean_invariance_weight": column("weight").mean(axis=1),
        "transductive": np.array([c.projection.centering == "target" for c in candidates]),
    }
    return results


def _param_columns(params: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for setting in params for name in setting)
    columns = {}
    for name in names:
        column = np.ma.MaskedArray(np.empty(len(params), dtype=object), mask=True)
        for i, setting in enumerate(params):
            if name in setting:
                column[i] = setting[name]
        columns[f"param_{name}"] = column
    return columns


def preferred(results: dict[str, Any], among: npt.NDArray[np.bool_] | None = None) -> int:
    """Index of the best mean; of equals, fewest components, then largest ridge, then largest invariance weights.

    The simplest and most regularised of settings that the data cannot tell apart; after that, the first in the grid.
    """
    means = results["mean_test_score"] if among is None else np.where(among, results["mean_test_score"], np.nan)
    if not np.isfinite(means).any():  # all failed alike
        return 0 if among is None else int(np.argmax(among))
    tied = np.flatnonzero(means >= np.nanmax(means) - TIE)
    facts = zip(
        results["mean_n_components"][tied],
        -results["mean_ridge"][tied],
        -results["mean_invariance_weight"][tied],
        tied.tolist(),
        strict=True,
    )
    return min(facts)[-1]
