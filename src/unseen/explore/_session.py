"""A data set that is explored: decompositions are cached, so that each setting is a small eigenproblem."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ..model_selection import METHODS, CachedSplit, DecompositionCache
from ..tables import Table, make_preprocessor
from ..utils.samples import Samples
from ._setting import Setting, method_facts, surface_axes

MAX_ROWS = 2_000  # can be decomposed within one or two seconds
CACHE_BYTES = 500e6  # of decompositions
MAX_CACHED_SPLITS = 3  # held-out domains whose splits are cached
MAX_VALIDATION_SPLITS = 8  # source domains that are held out in turn
MAX_CACHED_SURFACES = 32
N_SHOWN_COMPONENTS = 3
SETTINGS_PER_PART = 4  # of a surface; other requests have their turn between parts
CheckCurrent = Callable[[], None]  # called between parts of a computation; raises if its result is obsolete


@dataclass(frozen=True)
class Origin:
    """How to load the same table: lines of Python that define `table`, and arguments of the command."""

    code: str
    command: tuple[str, ...] = ()


class Session:
    """A table, and the cached splits in which its domains are held out.

    Parameters
    ----------
    table : Table
        Samples with classes and domains.
    scale : str
        Scaling of the columns, fitted to the training rows of each split.
    origin : Origin
        How to load the same table.
    max_rows : int
        Maximum number of rows; of a larger table, a random sample with every class of every domain is used.
    seed : int
        Seed of that sample.
    """

    def __init__(self, table: Table, scale: Any, origin: Origin, *, max_rows: int = MAX_ROWS, seed: int = 0) -> None:
        self.full_table = table
        self.scale = scale
        self.origin = origin
        self.seed = seed
        self.max_rows = max_rows
        self.is_subsampled = len(table.y) > max_rows
        self.table = table.take(table.samples.subsample_rows(max_rows, seed)) if self.is_subsampled else table
        self.domains = np.unique(self.table.domain).tolist()
        self.preparation = make_preprocessor(table.schema, scale)
        self._decompositions = DecompositionCache(CACHE_BYTES)
        self._splits: OrderedDict[str, dict[str | None, CachedSplit]] = OrderedDict()
        self._surfaces: OrderedDict[str, dict[str, Any]] = OrderedDict()
        if len(self.domains) < 2:
            raise ValueError(f"The table has a single domain, {self.domains[0]!r}. At least two domains are needed.")

    @cached_property
    def samples(self) -> Samples:
        """The samples in use."""
        return self.table.samples

    def setting(self, values: Any) -> Setting:
        """Make a setting from strings by name, or from the text of an address."""
        n_classes = len(self.samples.classes)
        if isinstance(values, str):
            return Setting.parse(values, self.domains, n_classes)
        return Setting.from_request(values, self.domains, n_classes)

    @property
    def facts(self) -> dict[str, Any]:
        """The data set, as plain values for the page."""
        samples = self.samples
        return {
            "name": self.table.name,
            "rows": len(self.full_table.y),
            "used": len(samples),
            "features": self.table.X.shape[1],
            "domains": self.domains,
            "classes": [str(name) for name in samples.classes.tolist()],
            "class": samples.codes.tolist(),
            "domain": samples.domain_codes.tolist(),
            "row": (self.table.rows + 1).tolist(),
            "scale": self.scale,
            "notices": list(self.table.notices),
            "methods": method_facts(len(samples.classes)),
        }

    def split(self, held_out: str, validation: str | None = None) -> CachedSplit:
        """Return the split with one held-out domain; with `validation`, the sources with that domain held out."""
        splits = self._splits.setdefault(held_out, {})
        self._splits.move_to_end(held_out)
        while len(self._splits) > MAX_CACHED_SPLITS:
            self._splits.popitem(last=False)
        if validation not in splits:
            domain = self.samples.domain
            test_domain = held_out if validation is None else validation
            train = np.flatnonzero((domain != held_out) & (domain != test_domain))
            test = np.flatnonzero(domain == test_domain)
            splits[validation] = CachedSplit(self.samples, (train, test), self.preparation, self._decompositions)
        return splits[validation]

    def validation_splits(self, held_out: str) -> list[CachedSplit]:
        """Return splits that hold out one source domain each; none if there is a single source domain."""
        sources = [name for name in self.domains if name != held_out]
        if len(sources) < 2:
            return []
        step = math.ceil(len(sources) / MAX_VALIDATION_SPLITS)
        return [self.split(held_out, name) for name in sources[::step]]

    def solve(
        self,
        setting: Setting,
        check_current: CheckCurrent = lambda: None,
        *,
        wait_for_validation: bool = True,
    ) -> dict[str, Any]:
        """Fit a setting, and return everything that the page shows of it, as plain values and one array.

        Without `wait_for_validation`, the validation score is pending if it needs new decompositions of the sources.
        """
        candidate = setting.candidate()
        split = self.split(setting.held_out)
        split.decompose(candidate.transformer)
        check_current()
        start = time.perf_counter()
        projected = split.project(candidate.transformer)
        solved = time.perf_counter()
        (prediction,) = split.evaluate([candidate])
        if prediction.codes is None:
            raise ValueError(prediction.error)
        is_ready = all(other.is_cached(candidate.transformer) for other in self.validation_splits(setting.held_out))
        validation: dict[str, Any] = {"pending": True}
        if is_ready or wait_for_validation:
            for part in self.validate(setting):
                check_current()
                validation = part or validation
        return {
            "held_out": setting.held_out,
            "accuracy": split.score(prediction),
            **validation,
            "eigenvalues": projected.eigenvalues.tolist(),
            "components": projected.train.shape[1],
            "ridge": projected.ridge,
            "scatters": projected.scatters,
            "n_train": len(projected.train),
            "predicted": prediction.codes.tolist(),
            "after": self._in_table_order(setting.held_out, projected.train, projected.test),
            "milliseconds": {"solve": 1e3 * (solved - start), "all": 1e3 * (time.perf_counter() - start)},
        }

    def validate(self, setting: Setting) -> Iterator[dict[str, Any] | None]:
        """Yield None after each split, and at the end the mean accuracy on the held-out source domains."""
        candidate = setting.candidate()
        scores: list[float] = []
        error = ""
        for split in self.validation_splits(setting.held_out):
            (prediction,) = split.evaluate([candidate])
            scores.append(split.score(prediction))  # NaN if the candidate failed
            error = error or prediction.error
            yield None
        mean = float(np.mean(scores)) if scores and not error else None
        yield {"validation": mean, "validated": len(scores), "unscored": error, "pending": False}

    def before(self, setting: Setting) -> Any:
        """Return the leading kernel principal components of all samples, with the kernel of the setting."""
        split = self.split(setting.held_out)
        train, test = split.principal(setting.candidate().transformer, N_SHOWN_COMPONENTS)
        return self._in_table_order(setting.held_out, train, test)

    def _in_table_order(self, held_out: str, train: Any, test: Any) -> Any:
        """Return the first coordinates of all rows in the order of the table, in single precision."""
        n_components = min(train.shape[1], N_SHOWN_COMPONENTS)
        Z = np.empty((len(self.samples), n_components), dtype=np.float32)
        is_held_out = self.samples.domain == held_out
        Z[~is_held_out] = train[:, :N_SHOWN_COMPONENTS]
        Z[is_held_out] = test[:, :N_SHOWN_COMPONENTS]
        return Z

    def surface(self, setting: Setting) -> Iterator[dict[str, Any] | None]:
        """Yield None after each part, and at the end the mean validation accuracy over a grid of two parameters.

        It depends neither on the held-out domain nor on the values of the two parameters in the setting.
        """
        row_axis, column_axis = surface_axes(METHODS[setting.method])
        axis_names = (row_axis.name, column_axis.name)
        fixed = {name: value for name, value in setting.params.items() if name not in axis_names}
        key = str(replace(setting, params=fixed))
        if key not in self._surfaces:
            grid = [
                {name: value for name, value in zip(axis_names, values, strict=True) if name}
                for values in product(row_axis.values, column_axis.values)
            ]
            splits = self.validation_splits(setting.held_out)
            scores = np.full((len(splits), len(grid)), np.nan)
            for k, split in enumerate(splits):
                for start in range(0, len(grid), SETTINGS_PER_PART):
                    candidates = [setting.candidate(params) for params in grid[start : start + SETTINGS_PER_PART]]
                    for prediction in split.evaluate(candidates):
                        scores[k, start + prediction.candidate] = split.score(prediction)
                    yield None
            means = scores.mean(axis=0) if splits else np.full(len(grid), np.nan)
            shape = (len(row_axis.values), len(column_axis.values))
            self._surfaces[key] = {
                "names": list(axis_names),
                "rows": [str(value) for value in row_axis.values],
                "columns": [str(value) for value in column_axis.values],
                "scores": [[None if np.isnan(mean) else float(mean) for mean in row] for row in means.reshape(shape)],
                "sources": len(splits),
            }
            while len(self._surfaces) > MAX_CACHED_SURFACES:
                self._surfaces.popitem(last=False)
        yield self._surfaces[key]
