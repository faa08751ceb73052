"""Importance of columns on held-out sites: how much the AUC falls if the values of a column are permuted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..linalg import Array, Ints
from ..model_selection import Scorer, get_metric
from ..models import TableModel
from ..utils.io import plain_values
from ..utils.optional_imports import optional_import
from ..utils.samples import Samples
from ..utils.validation import Labels

METRIC = get_metric("roc_auc")  # it needs neither a threshold nor calibrated risks
LEVEL = 0.95  # of intervals
MAX_ROWS = 500  # of a site
MAX_BATCH_ROWS = 20_000  # that are predicted at once
N_REPEATS = 5  # permutations of each column


@dataclass(frozen=True)
class ColumnImportance:
    """How much the AUC falls if the values of one column are permuted within sites.

    Attributes
    ----------
    column : str
        The column.
    mean : float
        Mean loss over sites.
    lower, upper : float
        95% confidence interval of the mean over sites (t); NaN with a single site.
    by_domain : dict of str to float
        The loss on each site.
    """

    column: str
    mean: float
    lower: float
    upper: float
    by_domain: dict[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class Importance:
    """Permutation importance of columns on held-out sites; the largest first.

    Attributes
    ----------
    scores : dict of str to float
        The AUC on each site without permutation.
    columns : tuple of ColumnImportance
        The columns, the most important first.
    """

    scores: dict[str, float]
    columns: tuple[ColumnImportance, ...]

    @classmethod
    def from_losses(cls, sites: Sequence[str], columns: Sequence[str], scores: Array, losses: Array) -> Importance:
        """Average losses (a row for each column) over sites, with t intervals, and sort the columns by them."""
        is_defined = np.isfinite(scores)
        m = int(is_defined.sum())
        entries = []
        for column, by_site in zip(columns, losses, strict=True):
            known = by_site[is_defined]
            mean = float(known.mean())
            half = np.nan
            if m > 1:
                half = float(stdtrit(m - 1, (1 + LEVEL) / 2) * known.std(ddof=1) / np.sqrt(m))
            by_domain = dict(zip(sites, by_site.tolist(), strict=True))
            entries.append(ColumnImportance(column, mean, mean - half, mean + half, by_domain))
        entries.sort(key=lambda entry: -entry.mean)
        return cls(dict(zip(sites, scores.tolist(), strict=True)), tuple(entries))

    def __getitem__(self, column: str) -> ColumnImportance:
        """The importance of a column by its name."""
        by_name = {entry.column: entry for entry in self.columns}
        if column not in by_name:
            raise KeyError(f"column={column!r} is not a feature. Use one of {', '.join(sorted(by_name))}.")
        return by_name[column]

    def summary(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON and the report."""
        return {
            "metric": METRIC.label,
            "scores": plain_values(self.scores),
            "columns": [plain_values(asdict(entry)) for entry in self.columns],
        }

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each column: mean, interval, and the loss on each site."""
        return [
            {"column": entry.column, "mean": entry.mean, "lower": entry.lower, "upper": entry.upper, **entry.by_domain}
            for entry in self.columns
        ]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each column: mean, interval, and the loss on each site."""
        return optional_import("pandas", "to_frame()").DataFrame(self.records())

    def __repr__(self) -> str:
        names = ", ".join(entry.column for entry in self.columns[:3])
        return f"<Importance: {METRIC.label}, {len(self.scores)} sites; most important: {names}>"


def measure_importance(model: TableModel, held_out: Samples, classes: Labels, seed: int) -> tuple[float, Array]:
    """AUC of a model on one site that was held out, and its loss (n_columns,) where each column is permuted.

    At most `MAX_ROWS` rows of the site are used. `classes` are those of all sites; a class that was not in training
    has probability 0. If the AUC is not defined on the site, everything is NaN.
    """
    samples = held_out.take(held_out.subsample_rows(max_per_domain=MAX_ROWS, seed=seed))
    samples = replace(samples, classes=classes)
    X = samples.X
    all_rows = np.arange(len(samples))
    scorer = Scorer(METRIC.scoring, samples, [(all_rows, all_rows)])
    positions = np.searchsorted(classes, model.classes_)

    def score_copies(copies: list[Array]) -> list[float]:
        P = np.zeros((len(copies) * len(X), len(classes)))
        domain = np.tile(samples.domain, len(copies))
        P[:, positions] = model.predict_proba(np.concatenate(copies), sample_domain=domain)
        parts = np.split(P, len(copies))
        return [scorer.score_probabilities(0, part) for part in parts]

    [score] = score_copies([X])
    losses = np.full(X.shape[1], np.nan)
    if not np.isfinite(score):
        return score, losses
    is_constant = np.array([bool((column == column[0]).all() or np.isnan(column).all()) for column in X.T])
    varying = np.flatnonzero(~is_constant)
    losses[is_constant] = 0.0
    copies = _permute(X, np.repeat(varying, N_REPEATS), np.random.default_rng(seed))
    # Trees take about as long for one copy as for ten. Transductive models predict one batch of a site at a time.
    n_copies = 1 if model.transductive else max(MAX_BATCH_ROWS // len(X), 1)
    values: list[float] = []
    while batch := list(islice(copies, n_copies)):
        values += score_copies(batch)
    losses[varying] = score - np.reshape(values, (len(varying), N_REPEATS)).mean(axis=1)
    return score, losses


def _permute(X: Array, columns: Ints, rng: np.random.Generator) -> Iterator[Array]:
    """Copies of rows with one permuted column each."""
    for j in columns.tolist():
        permuted = X.copy()
        permuted[:, j] = X[rng.permutation(len(X)), j]
        yield permuted
