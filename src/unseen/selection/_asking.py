"""Asking candidates that share something: what they share is computed once, in whatever form they share it."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import _safe_indexing, column_or_1d
from threadpoolctl import ThreadpoolController

from ..algebra import Array, Ints
from ..estimators import Projection, learns_nothing
from ..kernels import require_square, squared_distances
from ..labels import Labels, Samples, listed
from ._candidate import (
    Candidate,
    expected_warnings,
    fitted_copy,
    is_one_nearest,
    nearest,
    placed,
    takes_domains,
    width,
    with_width,
)
from ._folds import KERNEL_PARAMS, Fold, Grams, Source, features_of, solution_params

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
            if getattr(projection, "feature_map", None) is None:
                family = "rbf" if projection.kernel == "rbf" else key
                if family not in self._grams:
                    self._grams = {family: Grams(projection, self.samples.X, self.distances)}
                grams = self._grams[family]
            self._sources = {key: Source(projection, self.samples, grams)}
        return self._sources[key]

    def behind(self, transformer: Any, rows: Rows) -> tuple[Stage, Rows]:
        """The stage behind a transformer, which learns from the training samples; a frozen one serves all splits."""
        if transformer is None:
            return self, rows
        samples = self.samples
        if learns_nothing(transformer):
            if id(transformer) not in self._frozen:
                self._frozen[id(transformer)] = Stage(replace(samples, X=features_of(transformer, samples.X)))
            return self._frozen[id(transformer)], rows
        train, parts = rows.train, [_safe_indexing(samples.X, of) for of in rows]
        fitted = with_width(transformer, parts[0])
        if takes_domains(fitted.fit):
            fitted.set_output(transform="default").fit(parts[0], samples.y[train], sample_domain=samples.domain[train])
            seen = [fitted.transform(X, sample_domain=samples.domain[of]) for X, of in zip(parts, rows, strict=True)]
        else:
            fitted.fit(parts[0], samples.y[train])
            seen = [features_of(fitted, X) for X in parts]
        return Stage(replace(samples.take(rows.all), X=np.vstack(seen))), rows.in_order


@dataclass(frozen=True)
class Rows:
    """Positions of rows to train on, and of those that each of the splits that train on them holds out."""

    train: Ints
    tests: tuple[Ints, ...]

    def __iter__(self) -> Iterator[Ints]:
        return iter((self.train, *self.tests))

    @cached_property
    def test(self) -> Ints:
        """Everything that is held out, split after split."""
        return np.concatenate(self.tests)

    @cached_property
    def all(self) -> Ints:
        """The rows to train on, then those that are held out."""
        return np.concatenate(tuple(self))

    @cached_property
    def in_order(self) -> Rows:
        """Where these rows are if they are taken in their order."""
        ends = np.cumsum([len(part) for part in self])
        train, *tests = np.split(np.arange(ends[-1]), ends[:-1])
        return Rows(train, tuple(tests))

    def parts(self, Z: Any) -> list[Any]:
        """What each split holds out, of something that has a row for everything that is held out."""
        if len(self.tests) == 1:
            return [Z]
        starts = np.cumsum([0, *map(len, self.tests)])
        return [Z[a:b] for a, b in pairwise(starts.tolist())]


def kernel_key(projection: Any) -> Hashable:
    """What projections, or other methods with a kernel, must agree on to share a decomposition."""
    return tuple(as_key(getattr(projection, name, None)) for name in KERNEL_PARAMS)


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
    if candidate.shares == "decomposition":
        return kernel_key(candidate.transformer), candidate.own  # so that what a user's raises is not that of all
    return candidate.method


def ask(
    group: list[Numbered],
    stage: Stage,
    splits: Sequence[int],
    rows: Rows,
    asks: Asks = (),
    weight: Array | None = None,
) -> list[Prediction]:
    """Ask candidates that share something on splits that train on the same rows, which have that `weight`."""
    held = _Held(stage, splits, rows, asks, weight)
    how = _by_decomposition if group[0][1].shares == "decomposition" else _by_classifier
    with expected_warnings(), held.trying(group):
        how(group, held)
    return held.said


@dataclass
class _Held:
    """Splits of a stage that train on the same rows, what is asked of classifiers there, and what they said."""

    stage: Stage
    splits: Sequence[int]
    rows: Rows
    asks: Asks
    weight: Array | None
    said: list[Prediction] = field(default_factory=list)

    @contextmanager
    def trying(self, group: Sequence[Numbered]) -> Iterator[None]:
        """Let what unfit data or settings raise, and all that a user's own does, be the answer of all of a group."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, EXPECTED) and not all(candidate.own for _, candidate in group):
                raise
            reason = f"{type(error).__name__}: {error}"
            said = {(prediction.candidate, prediction.split) for prediction in self.said}
            failed = [(index, k) for index, _ in group for k in self.splits if (index, k) not in said]
            self.said += [Prediction(*at, error=reason) for at in failed]

    def answer(
        self, asked: list[tuple[Numbered, list[Any]]], Z: Any, classifier: Any, shared: float, **facts: Any
    ) -> None:
        """Fit the classifier that candidates have in common to `Z`, and ask it about what each sees in each split."""
        samples, start, train = self.stage.samples, time.perf_counter(), self.rows.train
        nearest_is_enough = not self.asks and is_one_nearest(classifier)
        with self.trying([one for one, _ in asked]):
            model = None
            if not nearest_is_enough:
                model = fitted_copy(classifier, Z, samples.y[train], samples.domain[train], self.weight)
            seconds = shared + (time.perf_counter() - start) / len(asked)
            for (index, _), parts in asked:
                for split, test, Z_test in zip(self.splits, self.rows.tests, parts, strict=True):
                    begin, more = time.perf_counter(), dict[str, Any]()
                    if model is None:
                        codes = samples.codes[train][nearest(Z, Z_test)]
                    else:
                        told, seen = placed(model, Z_test, samples.domain[test])
                        codes = codes_of(told.predict(seen), samples.classes, len(test))
                        if callable(self.asks):
                            weight = None if samples.weight is None else samples.weight[test]
                            more = {"score": scored(self.asks, told, seen, samples.y[test], weight)}
                        else:
                            more = responses(told, seen, self.asks)
                    costs = seconds / len(self.splits), time.perf_counter() - begin
                    self.said.append(Prediction(index, split, codes, more, *costs, **facts))


def responses(model: Any, X: Any, names: Iterable[str]) -> dict[str, Any]:
    """What methods of a classifier give, as far as it has them; and the classes of which they speak."""
    found = {name: getattr(model, name)(X) for name in names if hasattr(model, name)}
    return {**found, "classes_": model.classes_} if found else {}


def codes_of(labels: Any, classes: Labels, n_samples: int) -> Ints:
    """Positions of predicted labels among the classes; ValueError if they are not what a classifier may say."""
    labels = column_or_1d(labels)
    codes = np.searchsorted(classes, labels).astype(np.intp)
    strange = labels[classes[np.minimum(codes, len(classes) - 1)] != labels]
    if len(labels) != n_samples or len(strange):
        raise ValueError(
            f"predict must give one of the classes {listed(classes.tolist())} for each of {n_samples} samples; got "
            f"{len(labels)} labels" + (f", such as {strange.tolist()[0]!r}." if len(strange) else ".")
        )
    return codes


def scored(scorer: Any, model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """What a scorer says of a model; it is told of weights if it, or the metric behind it, asks for them."""
    asks = "sample_weight" in inspect.signature(getattr(scorer, "_score_func", scorer)).parameters
    told = {"sample_weight": sample_weight} if asks and sample_weight is not None else {}
    with warnings.catch_warnings():
        # What is not defined is left out, and told once for all models.
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        warnings.filterwarnings("ignore", "y_pred contains classes not in y_true", UserWarning)
        return float(scorer(model, X, y, **told))


def one_thread() -> Any:
    """For thousands of small products, solutions and fits, where more threads spin and cost more than they save."""
    return BLAS_THREADS.limit(limits=1)


def _by_classifier(group: list[Numbered], held: _Held) -> None:
    """Candidates that are fitted one by one, behind a transformer that they share; a kernel matrix serves all costs."""
    for alike in grouped(group, lambda one: as_key(one[1].transformer)):
        with held.trying(alike), one_thread():
            start = time.perf_counter()
            stage, rows = held.stage.behind(alike[0][1].transformer, held.rows)
            here = replace(held, stage=stage, rows=rows)  # which says it to the same list
            X, *tests = (_safe_indexing(stage.samples.X, of) for of in rows)
            shared = (time.perf_counter() - start) / len(alike)
            for same_kernel in grouped(alike, lambda one: _width_of(one[1])):
                gamma = _width_of(same_kernel[0][1])
                if gamma is None:
                    for one in same_kernel:
                        here.answer([(one, tests)], X, one[1].classifier, shared)
                    continue
                number = width(gamma, X) if isinstance(gamma, str) else gamma
                K, *seen = (np.exp(-number * stage.distances()[np.ix_(of, rows.train)]) for of in rows)
                for one in same_kernel:
                    svm = clone(one[1].classifier).set_params(kernel="precomputed", gamma="scale")
                    here.answer([(one, seen)], K, svm, shared)


def _width_of(candidate: Candidate) -> Any:
    """The width of the kernel whose matrix a candidate shares; None if it shares none."""
    gamma = candidate.classifier.gamma if candidate.shares == "kernel matrix" else None
    return None if gamma in ("scale", "auto") else gamma


def _by_decomposition(group: list[Numbered], held: _Held) -> None:
    """Methods of one kernel: a decomposition, then solutions, then what differs in scale, centre and number."""
    start = time.perf_counter()
    fold = held.stage.source(group[0][1].transformer).fold(held.rows.train, held.rows.test)
    shared = (time.perf_counter() - start) / len(group)
    for alike in grouped(group, lambda one: _solution_key(one[1].transformer)):
        with held.trying(alike), one_thread():
            solve = _by_solution if isinstance(alike[0][1].transformer, Projection) else _by_components
            solve(alike, held, fold, shared)


def _solution_key(transformer: Any) -> Any:
    """What changes the solution, given the decomposition; one for the most components serves those with fewer."""
    if not isinstance(transformer, Projection):
        return type(transformer)
    kind: Any = type(transformer)
    return transformer.n_components is None, _values(transformer, solution_params(kind))


def _by_components(group: list[Numbered], held: _Held, fold: Fold, shared: float) -> None:
    """Kernel principal components: the eigenbasis itself, each direction with the spread of the data along it."""
    values = fold.spectrum.values
    most = max(candidate.transformer.n_components or len(values) for _, candidate in group)
    order = np.argsort(-values)[: min(most, np.count_nonzero(values > 0))]
    coefficients = np.zeros((len(values), len(order)))
    coefficients[order, np.arange(len(order))] = values[order] ** -0.5
    projected = fold.combine(coefficients)
    for one in group:
        columns = slice(one[1].transformer.n_components)
        Z = np.ascontiguousarray(projected.train[:, columns])
        Z_test = projected.test[:, columns] - projected.offset[columns]
        held.answer([(one, held.rows.parts(Z_test))], Z, one[1].classifier, shared)


def _by_solution(group: list[Numbered], held: _Held, fold: Fold, shared: float) -> None:
    """Settings that have their components in common; heads are fitted once for both centrings."""
    start = time.perf_counter()
    first = max((candidate.transformer for _, candidate in group), key=lambda one: one.n_components or 0)
    solution, combine = fold.solve(first)
    shared += (time.perf_counter() - start) / len(group)
    ridge, weight = fold.ridge_and_weight(first)
    for alike in grouped(group, lambda one: _values(one[1].transformer, ("scaling", "n_components"))):
        views: dict[str, tuple[Array, list[Array]]] = {}
        for same in grouped(alike, lambda one: one[1].transformer.centering):
            projection = same[0][1].transformer
            with held.trying(same):
                views[projection.centering] = fold.project(projection, solution, combine, held.rows.parts)
        seen = [one for one in alike if one[1].transformer.centering in views]
        for head in grouped(seen, lambda one: as_key(one[1].classifier)):
            Z = next(iter(views.values()))[0]  # the same whatever new domains are centred on
            asked = [(one, views[one[1].transformer.centering][1]) for one in head]
            facts = {"n_components": Z.shape[1], "ridge": ridge, "weight": weight}
            held.answer(asked, Z, head[0][1].classifier, shared, **facts)


def _values(projection: Projection, names: Iterable[str]) -> Hashable:
    return tuple(as_key(getattr(projection, name)) for name in names)
