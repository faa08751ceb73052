"""Readings of predictions: a table of scores, GridSearchCV's form of it, and the rule that chooses among equals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..algebra import Array, Ints
from ._asking import Prediction
from ._candidate import Candidate

TIE = 1e-12  # means of the same fractions may differ by rounding
FACTS = ("fit_seconds", "predict_seconds", "n_components", "ridge", "weight")


def table_of(
    candidates: Sequence[Candidate], said: Iterable[Prediction], score: Callable[[Prediction], float], n_splits: int
) -> dict[str, Any]:
    """Scores and what they cost, candidates by splits; their means; and the first error of each candidate."""
    shape = len(candidates), n_splits
    scores, facts = np.full(shape, np.nan), {name: np.zeros(shape) for name in FACTS}
    errors = [""] * len(candidates)
    for prediction in said:
        at = prediction.candidate, prediction.split
        error = prediction.error
        try:
            scores[at] = score(prediction)
        except (ValueError, AttributeError) as unfit:  # a scorer that needs what the classifier does not have
            error = f"{type(unfit).__name__}: {unfit}"
        errors[at[0]] = errors[at[0]] or error
        for name, values in facts.items():
            values[at] = getattr(prediction, name)
    return {
        "scores": scores,
        "seconds": facts["fit_seconds"] + facts["predict_seconds"],
        "errors": errors,
        "facts": facts,
        "mean_test_score": scores.mean(axis=1),
        "mean_n_components": facts["n_components"].mean(axis=1),
        "mean_ridge": facts["ridge"].mean(axis=1),
        "mean_invariance_weight": facts["weight"].mean(axis=1),
    }


def tabulate(results: dict[str, Any], candidates: Sequence[Candidate]) -> dict[str, Any]:
    """The same as GridSearchCV's ``cv_results_``, with some columns of our own."""
    scores, means, facts = results["scores"], results["mean_test_score"], results["facts"]
    params = [candidate.settings for candidate in candidates]
    return {
        "mean_fit_time": facts["fit_seconds"].mean(axis=1),
        "std_fit_time": facts["fit_seconds"].std(axis=1),
        "mean_score_time": facts["predict_seconds"].mean(axis=1),
        "std_score_time": facts["predict_seconds"].std(axis=1),
        **_param_columns(params),
        "params": params,
        **{f"split{k}_test_score": column for k, column in enumerate(scores.T)},
        "mean_test_score": means,
        "std_test_score": scores.std(axis=1),
        "rank_test_score": rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32),
        "n_ties": np.array([np.sum(np.abs(means - mean) <= TIE) - 1 if np.isfinite(mean) else 0 for mean in means]),
        **{name: results[name] for name in ("mean_n_components", "mean_ridge", "mean_invariance_weight")},
        "transductive": np.array([candidate.transductive for candidate in candidates]),
    }


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


def preferred(results: dict[str, Any], among: Sequence[int] | Ints | None = None) -> int:
    """Index of the best mean; of equals, fewest components, then largest ridge, then largest invariance weights.

    The simplest and most regularised of settings that the data cannot tell apart; after that, the first in the grid.
    """
    indices = np.arange(len(results["mean_test_score"])) if among is None else np.asarray(among)
    means = results["mean_test_score"][indices]
    if not np.isfinite(means).any():  # all failed alike
        return int(indices[0])
    tied = indices[means >= np.nanmax(means) - TIE]
    facts = zip(
        results["mean_n_components"][tied],
        -results["mean_ridge"][tied],
        -results["mean_invariance_weight"][tied],
        tied.tolist(),
        strict=True,
    )
    return min(facts)[-1]


def ties(means: Array) -> int:
    """How many settings share the best mean, besides the chosen one."""
    return int(np.sum(means >= np.nanmax(means) - TIE)) - 1 if np.isfinite(means).any() else 0
