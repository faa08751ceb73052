"""A data set that is being explored: what has been decomposed stays so, and every setting is a small problem."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..model_selection import METHODS, CachedSplit, DecompositionCache, group_by
from ..tables import Table, preprocessor
from ..utils.samples import Samples
from ._setting import Setting, method_facts, surface_axes

MAX_ROWS = 2_000  # decomposed within a second or two
CACHE_BYTES = 500e6  # bytes of decompositions
MAX_CACHED_SPLITS = 3  # domains whose splits are kept
MAX_VALIDATION_SPLITS = 8  # sources that are left out in turn, of many
MAX_CACHED_SURFACES = 32  # that are kept
N_SHOWN_COMPONENTS = 3  # components that a picture has room for
CheckCurrent = Callable[[], None]  # called between parts of the work; raises if nobody waits for it any more


@dataclass(frozen=True)
class Origin:
    """How to get the same table again: lines of Python that define `table`, and arguments of the command."""

    code: str
    command: tuple[str, ...] = ()


class Session:
    """A table, and benches on which its domains are held out.

    Parameters
    ----------
    table : Table
        Samples with classes and domains.
    scale : str
        How columns are prepared, on the training rows of each split.
    origin : Origin
        How to get the same table again.
    most : int
        Rows to look at; of more, a draw that keeps every class of every domain.
    seed : int
        Seed of that draw.
    """

    def __init__(self, table: Table, scale: Any, origin: Origin, *, most: int = MAX_ROWS, seed: int = 0) -> None:
        self.whole, self.scale, self.origin, self.seed = table, scale, origin, seed
        self.thinned = len(table.y) > most
        self.most = most
        self.table = table.take(table.samples.thinned(most, seed)) if self.thinned else table
        self.domains = np.unique(self.table.domain).tolist()
        self.preparation = preprocessor(table.schema, scale)
        self._shelf, self._benches = DecompositionCache(CACHE_BYTES), OrderedDict[str, dict[str | None, CachedSplit]]()
        self._surfaces: OrderedDict[str, dict[str, Any]] = OrderedDict()
        if len(self.domains) < 2:
            raise ValueError(f"There is a single domain, {self.domains[0]!r}, and none to hold out: bring two.")

    @cached_property
    def samples(self) -> Samples:
        """What is looked at."""
        return self.table.samples

    def setting(self, asked: Any) -> Setting:
        """A setting from texts by name, or from the text of an address."""
        how = self.domains, len(self.samples.classes)
        return Setting.parse(asked, *how) if isinstance(asked, str) else Setting.from_request(asked, *how)

    @property
    def facts(self) -> dict[str, Any]:
        """What the page has to know first."""
        samples = self.samples
        return {
            "name": self.table.name,
            "rows": len(self.whole.y),
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

    def bench(self, held: str, validation: str | None = None) -> CachedSplit:
        """Where a domain is held out; with another one, where the sources alone are and that one is held out."""
        own = self._benches.setdefault(held, {})
        self._benches.move_to_end(held)
        while len(self._benches) > MAX_CACHED_SPLITS:
            self._benches.popitem(last=False)
        if validation not in own:
            domain, out = self.samples.domain, held if validation is None else validation
            split = np.flatnonzero((domain != held) & (domain != out)), np.flatnonzero(domain == out)
            own[validation] = CachedSplit(self.samples, split, self.preparation, self._shelf)
        return own[validation]

    def validation(self, held: str) -> list[CachedSplit]:
        """Leave one domain out among the sources: what an honest choice may look at; none if there is one source."""
        sources = [name for name in self.domains if name != held]
        some = sources[:: -(-len(sources) // MAX_VALIDATION_SPLITS)]
        return [self.bench(held, name) for name in some] if len(sources) > 1 else []

    def solve(self, setting: Setting, going: CheckCurrent = lambda: None, *, patient: bool = True) -> dict[str, Any]:
        """Everything that is shown of a setting, in plain values and one array.

        Who is not patient does not wait for decompositions of the sources: what follows from them is then pending.
        """
        candidate, bench = setting.candidate(), self.bench(setting.held)
        bench.fold(candidate.transformer)
        going()
        start = time.perf_counter()
        view = bench.view(candidate.transformer)
        solved = time.perf_counter()
        (said,) = bench.said([candidate])
        if said.codes is None:
            raise ValueError(said.error)
        ready = all(other.is_ready(candidate.transformer) for other in self.validation(setting.held))
        inner: dict[str, Any] = {"pending": True}
        for part in self.validate(setting) if ready or patient else ():
            going()
            inner = part or inner
        return {
            "held": setting.held,
            "accuracy": bench.score(said),
            **inner,
            "eigenvalues": view.eigenvalues.tolist(),
            "components": view.train.shape[1],
            "ridge": view.ridge,
            "scatters": view.scatters,
            "n_train": len(view.train),
            "predicted": said.codes.tolist(),
            "after": self._in_order(setting.held, view.train, view.test),
            "milliseconds": {"solve": 1e3 * (solved - start), "all": 1e3 * (time.perf_counter() - start)},
        }

    def validate(self, setting: Setting) -> Iterator[dict[str, Any] | None]:
        """Accuracy by leaving one source out in turn; None after each part of the work but the last."""
        candidate, scores, unscored = setting.candidate(), list[float](), ""
        for bench in self.validation(setting.held):
            (said,) = bench.said([candidate])
            scores.append(bench.score(said))  # NaN where it failed
            unscored = unscored or said.error
            yield None
        mean = float(np.mean(scores)) if scores and not unscored else None
        yield {"validation": mean, "validated": len(scores), "unscored": unscored, "pending": False}

    def before(self, setting: Setting) -> Any:
        """Samples before a projection: the leading principal components of the same kernel."""
        found = self.bench(setting.held).principal(setting.candidate().transformer, N_SHOWN_COMPONENTS)
        return self._in_order(setting.held, *found)

    def _in_order(self, held: str, train: Any, test: Any) -> Any:
        """Coordinates of all rows as they come, of single precision: they are for the eye."""
        Z = np.empty((len(self.samples), min(train.shape[1], N_SHOWN_COMPONENTS)), dtype=np.float32)
        out = self.samples.domain == held
        Z[~out], Z[out] = train[:, :N_SHOWN_COMPONENTS], test[:, :N_SHOWN_COMPONENTS]
        return Z

    def surface(self, setting: Setting) -> Iterator[dict[str, Any] | None]:
        """Mean accuracy by leaving one source out, over two parameters; None after each part of the work but the last.

        The held-out domain plays no part in it, nor do the two parameters of the setting itself.
        """
        rows, columns = surface_axes(METHODS[setting.method])
        rest = {name: value for name, value in setting.params.items() if name not in (rows.name, columns.name)}
        key = str(Setting(setting.held, setting.method, setting.head, setting.centering, setting.n_components, rest))
        if key not in self._surfaces:
            places = [(i, j) for i in range(len(rows.values)) for j in range(len(columns.values))]
            benches = self.validation(setting.held)
            scores = np.full((len(benches), len(places)), np.nan)
            for k, bench in enumerate(benches):
                for some in group_by(range(len(places)), lambda at: at // 4):
                    values = [{rows.name: rows.values[i], columns.name: columns.values[j]} for i, j in places]
                    named = [{name: value for name, value in values[at].items() if name} for at in some]
                    candidates = [setting.candidate(**own) for own in named]
                    for prediction in bench.said(candidates):
                        scores[k, some[prediction.candidate]] = bench.score(prediction)
                    yield None
            means = scores.mean(axis=0) if benches else np.full(len(places), np.nan)
            shown = [None if np.isnan(mean) else float(mean) for mean in means]
            n = len(columns.values)
            self._surfaces[key] = {
                "names": [rows.name, columns.name],
                "rows": [str(value) for value in rows.values],
                "columns": [str(value) for value in columns.values],
                "scores": [shown[i * n : (i + 1) * n] for i in range(len(rows.values))],
                "sources": len(benches),
            }
            while len(self._surfaces) > MAX_CACHED_SURFACES:
                self._surfaces.popitem(last=False)
        yield self._surfaces[key]
