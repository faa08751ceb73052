"""A data set that is explored: decompositions are kept, so that each setting is a small eigenproblem."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..datasets import load_digits_table, make_synthetic
from ..linalg import CellStatistics, scatter_traces
from ..model_selection import Prediction, PreparedSplits, evaluate_group, ignore_expected_warnings, single_thread
from ..tables import Table, make_preprocessor, table_from_arrays
from ._setting import Setting, list_controls

MAX_ROWS = 2_000  # can be decomposed within one or two seconds
CACHE_BYTES = 500e6  # of decompositions
MAX_VALIDATION_DOMAINS = 8  # source domains that are held out in turn
N_SHOWN_COMPONENTS = 2


class Session:
    """A table, and splits in which its domains are held out, each with its last decomposition.

    Parameters
    ----------
    table : Table
        Samples with classes and domains.
    scale : str
        Scaling of the columns, fitted to the training rows of each split.
    max_rows : int
        Maximum number of rows; of a larger table, a random sample with every class of every domain is used.
    seed : int
        Seed of that sample.
    """

    def __init__(self, table: Table, scale: Any, *, max_rows: int = MAX_ROWS, seed: int = 0) -> None:
        self.n_rows = len(table.y)
        self.table = table.take(table.samples.subsample_rows(max_rows, seed))
        self.samples = self.table.samples
        self.domains = np.unique(self.table.domain).tolist()
        if len(self.domains) < 2:
            raise ValueError(f"The table has a single domain, {self.domains[0]!r}. At least two domains are needed.")
        self._preparation = make_preprocessor(table.schema, scale)
        # A kernel matrix is decomposed for each split and kernel width.
        self._split = lru_cache(max(1, int(CACHE_BYTES // (8 * len(self.samples) ** 2))))(self._make_split)

    def describe(self) -> dict[str, Any]:
        """The data set and the controls, as plain values for the page."""
        return {
            "name": self.table.name,
            "rows": self.n_rows,
            "features": self.table.X.shape[1],
            "domains": self.domains,
            "classes": [str(name) for name in self.samples.classes.tolist()],
            "class": self.samples.codes.tolist(),
            "domain": self.samples.domain_codes.tolist(),
            "row": (self.table.rows + 1).tolist(),
            **list_controls(),
        }

    def solve(self, setting: Setting) -> dict[str, Any]:
        """Fit a setting, and return its projection, scatters and accuracy on the held-out domain, as plain values."""
        candidate = setting.candidate()
        split = self._split(setting.held_out, setting.held_out, setting.params["gamma"])
        with ignore_expected_warnings(), single_thread():
            projected = split.features(candidate)
            scatters = scatter_traces(CellStatistics.from_features(projected.train, split.membership))
        prediction, accuracy = _evaluate(split, setting)
        if prediction.codes is None:
            raise ValueError(prediction.error)
        n_components = projected.train.shape[1]
        points = np.empty((len(self.samples), min(n_components, N_SHOWN_COMPONENTS)))
        is_held_out = self.samples.domain == setting.held_out
        points[~is_held_out] = projected.train[:, :N_SHOWN_COMPONENTS]
        points[is_held_out] = projected.held_out[0][:, :N_SHOWN_COMPONENTS]
        return {
            "accuracy": accuracy,
            "predicted": prediction.codes.tolist(),
            "components": n_components,
            "points": points.tolist(),
            "scatters": scatters,
            "validation_domains": self._validation_domains(setting.held_out),
            "code": repr(candidate.transformer),
        }

    def validate(self, setting: Setting, domain: str) -> float:
        """Return the accuracy on a source domain that is held out, too; NaN if the setting cannot be fitted."""
        allowed = self._validation_domains(setting.held_out)
        if domain not in allowed:
            raise ValueError(f"domain must be one of {', '.join(allowed)}; got {str(domain)[:80]!r}.")
        return _evaluate(self._split(setting.held_out, domain, setting.params["gamma"]), setting)[1]

    def _validation_domains(self, held_out: str) -> list[str]:
        sources = [name for name in self.domains if name != held_out]
        if len(sources) < 2:
            return []
        return sources[:: math.ceil(len(sources) / MAX_VALIDATION_DOMAINS)]

    def _make_split(self, held_out: str, test_domain: str, gamma: float | str) -> PreparedSplits:
        """Return the split that trains on the domains other than these two, and tests on the second."""
        domain = self.samples.domain
        train = np.flatnonzero((domain != held_out) & (domain != test_domain))
        test = np.flatnonzero(domain == test_domain)
        return PreparedSplits.from_splits(self.samples, {0: (train, test)}, self._preparation)


def _evaluate(split: PreparedSplits, setting: Setting) -> tuple[Prediction, float]:
    """Predictions for the held-out rows, and their accuracy; NaN if the setting cannot be fitted."""
    (prediction,) = evaluate_group([(0, setting.candidate())], split)
    is_fitted = prediction.codes is not None
    return prediction, float(np.mean(prediction.codes == split.test.codes)) if is_fitted else np.nan


def open_examples(seed: int = 0) -> dict[str, Callable[[], Session]]:
    """Return functions that open the synthetic data of the paper and the rotated digits."""

    def synthetic() -> Session:
        data = make_synthetic(validation_domain=True, random_state=seed)
        return Session(table_from_arrays(data.data, data.target, data.domain), "none", seed=seed)

    def digits() -> Session:
        return Session(load_digits_table(), "l2", seed=seed)

    return {"synthetic": synthetic, "digits": digits}
