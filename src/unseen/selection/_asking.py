"""Asking candidates that share something: what they share is computed once, in whatever form they share it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.utils import _safe_indexing
from threadpoolctl import ThreadpoolController

from ..algebra import Array, Ints
from ..estimators import Projection, learns_nothing
from ..kernels import require_square, squared_distances
from ..labels import Samples
from ._candidate import Candidate, domains_for, expected_warnings, takes_domains, width, with_width
from ._folds import KERNEL_PARAMS, SHAPE_PARAMS, Fold, Grams, Source, features_of, solution_params
from ._nearest import is_one_nearest, nearest

T = TypeVar("T")
EXPECTED = (ValueError, AttributeError, ArithmeticError, np.linalg.LinAlgError)  # what unfit data or settings may raise
BLAS_THREADS = ThreadpoolController()
Numbered = tuple[int, Candidate]
Asks = tuple[str, ...] | Callable[..., float]  # methods of classifiers, or a scorer that wants the classifier itself


@dataclass(frozen=True)
class Prediction:
    """What a candidate says of the held-out part of a split; `error` says why where it says nothing.

    Attributes
    ----------
    candidate, split : int
        Which candidate, and which split.
    codes : ndarray of shape (n_held_out,) or None
        Predicted classes: positions among the sorted classes of all samples.
    responses : dict
        What other methods of the classifier gave, as far as they were asked for, and its `classes_`; or its `score`.
    fit_seconds, predict_seconds : float
        What it cost; shared costs are divided among those who share.
    n_components, ridge, weight : int, float, float
        Of a projection: its components, its ridge as a number, and the sum of its invariance weights.
    error : str
        Why there are no codes.
    """

    candidate: int
    split: int
    codes: Ints | None = None
    responses: dict[str, Any] = field(default_factory=dict)
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    n_components: int = 0
    ridge: float = 0.0
    weight: float = 0.0
    error: str = ""


class Stage:
    """Samples as candidates see them, and what those share on all splits; made when first asked for."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self._distances: Array | None = None
        self._grams: dict[Hashable, Grams] = {}
        self._sources: dict[Hashable, Source] = {}
        self._frozen: dict[int, Stage] = {}

    def distances(self) -> Array:
        """Squared distances between all samples."""
        if self._distances is None:
            require_square(len(self.samples), copies=2, caller="An rbf SVM")
            self._distances = squared_distances(self.samples.X)
        return self._distances

    def source(self, projection: Projection) -> Source:
        """Where the folds of a kernel or of a feature map come from; all widths of one family share their distances."""
        key = kernel_key(projection)
        if key not in self._sources:
            grams = None
            if projection.feature_map is None:
                family = "rbf" if projection.kernel == "rbf" else key
                if family not in self._grams:
                    self._grams = {family: Grams(projection, self.samples.X, self.distances)}
                grams = self._grams[family]
            self._sources = {key: Source(projection, self.samples, grams)}
        return self._sources[key]

    def behind(self, transformer: Any, train: Ints, test: Ints) -> tuple[Stage, Ints, Ints]:
        """The stage behind a transformer, which learns from the training samples; a frozen one serves all splits."""
        if transformer is None:
            return self, train, test
        samples, rows = self.samples, np.concatenate([train, test])
        if learns_nothing(transformer):
            if id(transformer) not in self._frozen:
                self._frozen[id(transformer)] = Stage(replace(samples, X=features_of(transformer, samples.X)))
            return self._frozen[id(transformer)], train, test
        first, second = (_safe_indexing(samples.X, part) for part in (train, test))
        fitted = with_width(transformer, first)
        if takes_domains(fitted.fit):
            fitted.set_output(transform="default").fit(first, samples.y[train], sample_domain=samples.domain[train])
            parts = [
                fitted.transform(X, sample_domain=samples.domain[of]) for X, of in ((first, train), (second, test))
            ]
        else:
            fitted.fit(first)
            parts = [features_of(fitted, X) for X in (first, second)]
        return Stage(replace(samples.take(rows), X=np.vstack(parts))), *split_rows(len(train), len(test))


def split_rows(n_train: int, n_test: int) -> tuple[Ints, Ints]:
    """Where to train and to test, if the rows to train on come first."""
    return np.arange(n_train), n_train + np.arange(n_test)


def kernel_key(projection: Projection) -> Hashable:
    """What projections must agree on to share a decomposition."""
    return tuple(as_key(getattr(projection, name)) for name in KERNEL_PARAMS)


def as_key(value: Any) -> Any:
    """A value by which to tell parameters apart; what cannot be hashed is told by its identity."""
    return value if value.__hash__ else id(value)


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items that agree on a key, in the order in which they come."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def sharing_key(numbered: Numbered) -> Hashable:
    """What candidates that are asked together agree on."""
    candidate = numbered[1]
    return kernel_key(candidate.transformer) if candidate.shares == "decomposition" else candidate.method


def ask(group: list[Numbered], stage: Stage, split: int, rows: tuple[Ints, Ints], asks: Asks = ()) -> list[Prediction]:
    """Ask candidates that share something on one split."""
    fold = _Held(stage, split, *rows, asks)
    how = {"decomposition": _by_decomposition, "components": _by_components}.get(group[0][1].shares, _by_classifier)
    with expected_warnings():
        return list(how(group, fold))


@dataclass(frozen=True)
class _Held:
    """One split of a stage, and what is asked of classifiers there."""

    stage: Stage
    split: int
    train: Ints
    test: Ints
    asks: Asks

    def failed(self, group: Iterable[Numbered], error: Exception) -> Iterator[Prediction]:
        """All of a group, for one reason."""
        for index, _ in group:
            yield Prediction(index, self.split, error=f"{type(error).__name__}: {error}")

    def answer(
        self, numbered: Numbered, Z: Any, Z_test: Any, shared: float = 0.0, classifier: Any = None
    ) -> Prediction:
        """Fit the classifier of a candidate to what it sees, and ask it."""
        (index, candidate), samples, start = numbered, self.stage.samples, time.perf_counter()
        classifier = with_width(candidate.classifier, Z) if classifier is None else classifier
        y, responses = samples.y[self.train], dict[str, Any]()
        if not self.asks and is_one_nearest(classifier):
            middle = start
            codes = samples.codes[self.train][nearest(Z, Z_test)]
        else:
            with BLAS_THREADS.limit(limits=1):  # a few columns: more threads cost more than they save
                model = classifier.fit(Z, y, **domains_for(classifier.fit, samples.domain[self.train]))
                middle = time.perf_counter()
                codes = np.searchsorted(samples.classes, model.predict(Z_test)).astype(np.intp)
                if callable(self.asks):
                    responses = {"score": self.asks(model, Z_test, samples.y[self.test])}
                elif self.asks:
                    responses = {name: getattr(model, name)(Z_test) for name in self.asks if hasattr(model, name)}
                    responses["classes_"] = model.classes_
        end = time.perf_counter()
        return Prediction(index, self.split, codes, responses, shared + middle - start, end - middle)


def _by_classifier(group: list[Numbered], held: _Held) -> Iterator[Prediction]:
    """Candidates that are fitted one by one, behind a transformer that they share; kernels serve all costs."""
    for alike in grouped(group, lambda one: as_key(one[1].transformer)):
        start = time.perf_counter()
        try:
            stage, train, test = held.stage.behind(alike[0][1].transformer, held.train, held.test)
            here = replace(held, stage=stage, train=train, test=test)
            X, X_test = (_safe_indexing(stage.samples.X, rows) for rows in (train, test))
            kernels = _Kernels(here)
        except EXPECTED as error:
            yield from held.failed(alike, error)
            continue
        shared = (time.perf_counter() - start) / len(alike)
        for one in alike:
            try:
                if one[1].shares == "kernel matrix" and one[1].classifier.gamma not in ("scale", "auto"):
                    yield here.answer(one, *kernels.of(one[1].classifier), shared, _precomputed(one[1].classifier))
                else:
                    yield here.answer(one, X, X_test, shared)
            except EXPECTED as error:
                yield from held.failed([one], error)


class _Kernels:
    """Kernel values for an SVM, of the last width that was asked for."""

    def __init__(self, held: _Held) -> None:
        self.held = held
        self.made: dict[Any, tuple[Array, Array]] = {}

    def of(self, classifier: Any) -> tuple[Array, Array]:
        """Among the training samples, and of the held-out ones with these."""
        gamma, held = classifier.gamma, self.held
        if gamma not in self.made:
            number = width(gamma, held.stage.samples.X[held.train]) if isinstance(gamma, str) else gamma
            distances = held.stage.distances()
            blocks = (distances[np.ix_(rows, held.train)] for rows in (held.train, held.test))
            self.made = {gamma: tuple(np.exp(-number * block) for block in blocks)}  # type: ignore[dict-item]
        return self.made[gamma]


def _precomputed(classifier: SVC) -> SVC:
    return clone(classifier).set_params(kernel="precomputed", gamma="scale")


def _by_components(group: list[Numbered], held: _Held) -> Iterator[Prediction]:
    """One decomposition for each width; fewer components are a prefix of more."""
    samples = held.stage.samples
    X, X_test = (_safe_indexing(samples.X, rows) for rows in (held.train, held.test))
    for alike in grouped(group, lambda one: one[1].transformer.gamma):
        start = time.perf_counter()
        try:
            most = min(max(candidate.transformer.n_components for _, candidate in alike), len(X) - 1)
            fitted = with_width(alike[0][1].transformer, X).set_params(n_components=most)
            Z, Z_test = fitted.fit_transform(X), fitted.transform(X_test)
        except EXPECTED as error:
            yield from held.failed(alike, error)
            continue
        shared = (time.perf_counter() - start) / len(alike)
        for one in alike:
            first = one[1].transformer.n_components
            yield held.answer(one, np.ascontiguousarray(Z[:, :first]), np.ascontiguousarray(Z_test[:, :first]), shared)


def _by_decomposition(group: list[Numbered], held: _Held) -> Iterator[Prediction]:
    """Projections of one kernel: a decomposition, then solutions, then what differs in scale, centre and number."""
    start = time.perf_counter()
    try:
        fold = held.stage.source(group[0][1].transformer).fold(held.train, held.test)
    except EXPECTED as error:
        yield from held.failed(group, error)
        return
    shared = (time.perf_counter() - start) / len(group)
    for alike in grouped(group, lambda one: _values(one[1].transformer, solution_params(one[1].transformer))):
        yield from _by_solution(alike, held, fold, shared)


def _by_solution(group: list[Numbered], held: _Held, fold: Fold, shared: float) -> Iterator[Prediction]:
    start = time.perf_counter()
    first = group[0][1].transformer
    try:
        solution, basis = fold.solve(first)
    except EXPECTED as error:
        yield from held.failed(group, error)
        return
    shared += (time.perf_counter() - start) / len(group)
    ridge, weight = fold.ridge_and_weight(first)
    for alike in grouped(group, lambda one: _values(one[1].transformer, SHAPE_PARAMS)):
        try:
            Z, Z_test = fold.project(alike[0][1].transformer, solution, basis)
        except EXPECTED as error:
            yield from held.failed(alike, error)
            continue
        for one in alike:
            try:
                answer = held.answer(one, Z, Z_test, shared)
            except EXPECTED as error:  # a classifier that cannot take these data
                yield from held.failed([one], error)
                continue
            yield replace(answer, n_components=Z.shape[1], ridge=ridge, weight=weight)


def _values(projection: Projection, names: Iterable[str]) -> Hashable:
    return tuple(as_key(getattr(projection, name)) for name in names)
