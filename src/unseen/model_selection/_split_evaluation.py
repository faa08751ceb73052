"""Asking candidates that share something: what they share is computed once, in whatever form they share it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from scipy import linalg
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import _safe_indexing, column_or_1d
from threadpoolctl import ThreadpoolController

from ..estimators import Projection, is_fitted_map
from ..kernels import check_square_memory, squared_distances
from ..linalg import Array, Ints, product
from ..utils.samples import Samples
from ..utils.validation import Labels, format_list
from ..utils.warnings import SharedContext, ignore_warnings
from ._candidate import (
    Candidate,
    accepts_domains,
    bind_domains,
    fit_clone,
    ignore_expected_warnings,
    is_one_nearest,
    is_transductive,
    median_width,
    nearest_index,
    resolve_width,
)
from ._decompositions import (
    KERNEL_PARAMS,
    Decomposition,
    DecompositionSource,
    SplitGrams,
    map_features,
    solution_params,
)

T = TypeVar("T")
EXPECTED_ERRORS = (
    ValueError,
    AttributeError,
    ArithmeticError,
    np.linalg.LinAlgError,
)  # what unfit data or settings may raise
BLAS, OPENMP = (ThreadpoolController().select(user_api=kind) for kind in ("blas", "openmp"))
DECISION_SCORES = ("votes",)  # what a pool asks for
PER_SAMPLE_RESPONSES = (*DECISION_SCORES, "predict_proba", "decision_function")  # of which each sample has its own
PREDICTS_HIGHEST_SCORE = (
    LogisticRegression,
    LinearSVC,
    RidgeClassifier,
)  # who predict the class of the highest decision value
MIN_PROBABILITY = 1e-30  # a probability of 0 is rounded, and not that of a class that training did not show
IndexedCandidate = tuple[int, Candidate]
RequestedResponses = (
    tuple[str, ...] | Callable[..., float]
)  # methods of classifiers, or a scorer that wants the classifier itself
ResponsesByCandidate = Mapping[int, RequestedResponses]  # of each candidate


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


class FeatureStage:
    """Samples as candidates see them, and what those share on all splits; made when first asked for."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self._train = b""
        self._distances: dict[bytes, Array] = {}
        self._grams: dict[Hashable, SplitGrams] = {}
        self._sources: dict[Hashable, DecompositionSource] = {}
        self._frozen: dict[int, FeatureStage] = {}

    def distances_to(self, train: Ints, rows: Ints) -> Array:
        """Squared distances of some samples from those that are trained on; not to be changed.

        They are computed about the mean of the training samples: a row far away, in another split, must not change how
        they are rounded. All kernel widths of a split share them, so those of the last training set are kept.
        """
        if train.tobytes() != self._train:
            self._train, self._distances = train.tobytes(), {}
        key = rows.tobytes()
        if key not in self._distances:
            check_square_memory(len(self.samples), copies=2, caller="An rbf SVM")
            X_train = _safe_indexing(self.samples.X, train)
            if key == self._train:
                self._distances[key] = squared_distances(X_train)
            else:
                self._distances[key] = squared_distances(_safe_indexing(self.samples.X, rows), X_train)
        return self._distances[key]

    def source(self, projection: Projection) -> DecompositionSource:
        """Where the folds of a kernel or of a feature map come from; all widths of the rbf kernel share distances."""
        key = kernel_key(projection)
        if key not in self._sources:
            grams = None
            if getattr(projection, "feature_map", None) is None:
                family = "rbf" if projection.kernel == "rbf" else key
                if family not in self._grams:
                    self._grams = {family: SplitGrams(projection, self.samples.X, self.distances_to)}
                grams = self._grams[family]
            self._sources = {key: DecompositionSource(projection, self.samples, grams)}
        return self._sources[key]

    def behind(self, transformer: Any, rows: SplitRows) -> tuple[FeatureStage, SplitRows]:
        """The stage behind a transformer, which learns from the training samples; a frozen one serves all splits."""
        if transformer is None:
            return self, rows
        samples = self.samples
        if is_fitted_map(transformer):
            if id(transformer) not in self._frozen:
                self._frozen[id(transformer)] = FeatureStage(replace(samples, X=map_features(transformer, samples.X)))
            return self._frozen[id(transformer)], rows
        train, X = rows.train, _safe_indexing(samples.X, rows.train)
        fitted = resolve_width(transformer, X)
        if not accepts_domains(fitted.fit):
            fitted.fit(X, samples.y[train])
            features = map_features(fitted, _safe_indexing(samples.X, rows.all))
            return FeatureStage(replace(samples.take(rows.all), X=features)), rows.in_order
        fitted.set_output(transform="default").fit(X, samples.y[train], sample_domain=samples.domain[train])
        # A sample may look different in each split that holds it out, beside other samples.
        seen = [fitted.transform(_safe_indexing(samples.X, of), sample_domain=samples.domain[of]) for of in rows]
        ends = np.cumsum([len(of) for of in rows])
        place, *places = np.split(np.arange(ends[-1]), ends[:-1])
        apart = replace(samples.take(np.concatenate(tuple(rows))), X=np.vstack(seen))
        return FeatureStage(apart), SplitRows(place, tuple(places))


@dataclass(frozen=True)
class SplitRows:
    """Positions of rows to train on, and of those that each of the splits that train on them holds out."""

    train: Ints
    tests: tuple[Ints, ...]

    def __iter__(self) -> Iterator[Ints]:
        return iter((self.train, *self.tests))

    @cached_property
    def test(self) -> Ints:
        """Everything that is held out, each row once, however many splits hold it out."""
        return self.tests[0] if len(self.tests) == 1 else np.unique(np.concatenate(self.tests))

    @cached_property
    def places(self) -> tuple[Ints, ...]:
        """Where what each split holds out is among everything that is held out."""
        if len(self.tests) == 1:
            return (np.arange(len(self.test)),)
        return tuple(np.searchsorted(self.test, of) for of in self.tests)

    @cached_property
    def all(self) -> Ints:
        """The rows to train on, then those that are held out."""
        return np.concatenate([self.train, self.test])

    @cached_property
    def in_order(self) -> SplitRows:
        """Where these rows are if they are taken in their order."""
        n = len(self.train)
        return SplitRows(np.arange(n), tuple(n + place for place in self.places))

    def parts(self, Z: Any) -> list[Any]:
        """What each split holds out, of something that has a row for everything that is held out."""
        return [Z] if len(self.tests) == 1 else [Z[place] for place in self.places]


def kernel_key(projection: Any) -> Hashable:
    """What projections, or other methods with a kernel, must agree on to share a decomposition."""
    return tuple(hashable_key(getattr(projection, name, None)) for name in KERNEL_PARAMS)


def hashable_key(value: Any) -> Any:
    """A value by which to tell parameters apart; what cannot be hashed is told by its identity."""
    return value if value.__hash__ else id(value)


def group_by(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items that agree on a key, in the order in which they come."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def sharing_key(numbered: IndexedCandidate) -> Hashable:
    """What candidates that are asked together agree on."""
    candidate = numbered[1]
    if candidate.shares == "decomposition":
        return kernel_key(candidate.transformer), candidate.own  # so that what a user's raises is not that of all
    return candidate.method


def evaluate_group(
    group: list[IndexedCandidate],
    stage: FeatureStage,
    splits: Sequence[int],
    rows: SplitRows,
    asks: ResponsesByCandidate,
    weight: Array | None = None,
    again: frozenset[int] = frozenset(),
) -> list[Prediction]:
    """Ask candidates that share something on splits that train on the same rows, which have that `weight`."""
    held = _SplitEvaluation(stage, splits, rows, asks, weight, again)
    how = _evaluate_decomposition if group[0][1].shares == "decomposition" else _evaluate_classifiers
    with ignore_expected_warnings(), single_thread(), held.trying(group):
        how(group, held)
    return held.said


@dataclass
class _SplitEvaluation:
    """Splits of a stage that train on the same rows, what is asked of classifiers there, and what they said."""

    stage: FeatureStage
    splits: Sequence[int]
    rows: SplitRows
    asks: ResponsesByCandidate
    weight: Array | None
    again: frozenset[int]  # what is held out again, of which only those say something new who look at other samples
    said: list[Prediction] = field(default_factory=list)

    @contextmanager
    def trying(self, group: Sequence[IndexedCandidate]) -> Iterator[None]:
        """Let what unfit data or settings raise, and all that a user's own does, be the answer of all of a group."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, EXPECTED_ERRORS) and not all(candidate.own for _, candidate in group):
                raise
            reason = f"{type(error).__name__}: {error}"
            said = {(prediction.candidate, prediction.split) for prediction in self.said}
            failed = [(index, k) for index, _ in group for k in self.splits if (index, k) not in said]
            self.said += [Prediction(*at, error=reason) for at in failed]

    def answer(
        self, asked: list[tuple[IndexedCandidate, Any]], Z: Any, classifier: Any, shared: float, **facts: Any
    ) -> None:
        """Fit the classifier that candidates have in common to `Z`, and ask it about what each sees.

        That is an array of everything that is held out, or a list of what is in each split.
        """
        samples, start, train = self.stage.samples, time.perf_counter(), self.rows.train
        nearest_is_enough = not any(self.asks[index] for (index, _), _ in asked) and is_one_nearest(classifier)
        once = max(1, len([k for k in self.splits if k not in self.again]))
        with self.trying([one for one, _ in asked]):
            model = None
            if not nearest_is_enough:
                model = fit_clone(classifier, Z, samples.y[train], samples.domain[train], self.weight)
            seconds = shared + (time.perf_counter() - start) / len(asked)
            for (index, candidate), seen in asked:
                for Z_test, rows, parts in self._batches(candidate, seen, self.asks[index]):
                    begin, more = time.perf_counter(), dict[str, Any]()
                    if model is None:
                        codes = samples.codes[train][nearest_index(Z, Z_test)]
                    else:
                        codes, more = self._told(
                            *bind_domains(model, Z_test, samples.domain[rows]), rows, self.asks[index]
                        )
                    costs = seconds / once, (time.perf_counter() - begin) / len(parts)
                    for split, at in parts.items():
                        own = {
                            name: value[at] if name in PER_SAMPLE_RESPONSES else value for name, value in more.items()
                        }
                        self.said.append(Prediction(index, split, codes[at], own, *costs, **facts))

    def _batches(
        self, candidate: Candidate, seen: Any, asks: RequestedResponses
    ) -> Iterator[tuple[Any, Ints, dict[int, Any]]]:
        """What is asked at once, the rows that it is of, and where in it is what each split holds out."""
        moves = candidate.transductive and not callable(asks) and DECISION_SCORES[0] in asks
        splits = [k for k in self.splits if k not in self.again or moves]
        places = [self.splits.index(k) for k in splits]
        if len(splits) == 1 or candidate.own or callable(asks):
            parts = seen if isinstance(seen, list) else self.rows.parts(seen)
            yield from ((parts[i], self.rows.tests[i], {self.splits[i]: slice(None)}) for i in places)
        elif isinstance(seen, list):
            tests = [self.rows.tests[i] for i in places]
            ends = np.cumsum([0, *map(len, tests)]).tolist()
            at = {k: slice(*ends) for k, ends in zip(splits, pairwise(ends), strict=True)}
            yield np.concatenate([seen[i] for i in places]), np.concatenate(tests), at
        else:
            yield seen, self.rows.test, {self.splits[i]: self.rows.places[i] for i in places}

    def _told(self, model: Any, X: Any, rows: Ints, asks: RequestedResponses) -> tuple[Ints, dict[str, Any]]:
        """Predicted classes, and what else is asked for."""
        samples = self.stage.samples
        last = model[-1] if isinstance(model, Pipeline) else model
        if asks == DECISION_SCORES and (
            type(last) in PREDICTS_HIGHEST_SCORE or (type(last) is SVC and last.break_ties)
        ):
            cast = decision_scores(model, X, None, samples.classes)
            return cast.argmax(axis=1), {"votes": cast}  # which is what they predict
        codes = encode_predictions(model.predict(X), samples.classes, len(rows))
        if callable(asks):
            weight = None if samples.weight is None else samples.weight[rows]
            return codes, {"score": apply_scorer(asks, model, X, samples.y[rows], weight)}
        told = collect_responses(model, X, (name for name in asks if name not in DECISION_SCORES))
        return codes, told | (
            {"votes": decision_scores(model, X, codes, samples.classes)} if DECISION_SCORES[0] in asks else {}
        )


def decision_scores(model: Any, X: Any, codes: Ints | None, classes: Labels) -> Array:
    """How a fitted classifier votes on classes: decision values of each, logarithms of probabilities, or its labels.

    Softmax of such votes, times a number, are probabilities. A class that the classifier does not know has -inf. Pairs
    of classes are left out of it: decision values of a pairwise machine are those of each class against the rest.
    `codes` are what it predicts, if that is known.
    """
    if hasattr(model, "decision_function"):
        S = np.asarray(model.decision_function(X), dtype=np.float64)
        S = np.column_stack([-S, S]) / 2 if S.ndim == 1 else S  # of two, logistic regression says their difference
    elif hasattr(model, "predict_proba"):
        S = np.log(np.maximum(model.predict_proba(X), MIN_PROBABILITY))
    else:
        own = encode_predictions(model.predict(X), classes, X.shape[0]) if codes is None else codes
        return np.eye(len(classes))[own]
    if not (np.inf > S).all():
        raise ValueError("Its decision values are not all numbers.")
    found = np.full((len(S), len(classes)), -np.inf)
    found[:, np.searchsorted(classes, model.classes_)] = S
    return found


def collect_responses(model: Any, X: Any, names: Iterable[str]) -> dict[str, Any]:
    """What methods of a classifier give, as far as it has them; and the classes of which they speak."""
    found = {name: getattr(model, name)(X) for name in names if hasattr(model, name)}
    return {**found, "classes_": model.classes_} if found else {}


def encode_predictions(labels: Any, classes: Labels, n_samples: int) -> Ints:
    """Positions of predicted labels among the classes; ValueError if they are not what a classifier may say."""
    labels = column_or_1d(labels)
    codes = np.searchsorted(classes, labels).astype(np.intp)
    strange = labels[classes[np.minimum(codes, len(classes) - 1)] != labels]
    if len(labels) != n_samples or len(strange):
        raise ValueError(
            f"predict must give one of the classes {format_list(classes.tolist())} for each of {n_samples} samples; "
            "got "
            f"{len(labels)} labels" + (f", such as {strange.tolist()[0]!r}." if len(strange) else ".")
        )
    return codes


def apply_scorer(scorer: Any, model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """What a scorer says of a model; it is told of weights if it, or the metric behind it, asks for them."""
    asks = "sample_weight" in inspect.signature(getattr(scorer, "_score_func", scorer)).parameters
    told = {"sample_weight": sample_weight} if asks and sample_weight is not None else {}
    # What is not defined is left out, and told once for all models.
    with ignore_warnings(UndefinedMetricWarning, (UserWarning, "y_pred contains classes not in y_true")):
        return float(scorer(model, X, y, **told))


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    _release_controlling_thread()
    limit = BLAS.limit(limits=1)
    try:
        yield
    finally:
        _release_controlling_thread()  # the thread that said one may be another, and may be gone
        limit.restore_original_limits()
        _release_controlling_thread()


def _release_controlling_thread() -> None:
    """Take from a thread the right to say how many threads BLAS has; threadpoolctl 3.8 gives it to the first."""
    for library in BLAS.lib_controllers:
        getattr(library, "clear_controlling_thread", lambda *, force: None)(force=True)


SINGLE_BLAS_THREAD = SharedContext(_one_blas_thread)


@contextmanager
def single_thread() -> Iterator[None]:
    """Keep BLAS and OpenMP to one thread, so that bits do not depend on how many processes share the cores.

    That suits thousands of small products, solutions and fits, where more threads spin and cost more than they save;
    `n_jobs` is for cores. BLAS counts its threads for the whole process: until all who are in here have left.
    """
    with OPENMP.limit(limits=1), SINGLE_BLAS_THREAD:
        yield


def _evaluate_classifiers(group: list[IndexedCandidate], held: _SplitEvaluation) -> None:
    """Candidates that are fitted one by one, behind a transformer that they share; a kernel matrix serves all costs."""
    for alike in group_by(group, lambda one: hashable_key(one[1].transformer)):
        with held.trying(alike):
            start = time.perf_counter()
            stage, rows = held.stage.behind(alike[0][1].transformer, held.rows)
            here = replace(held, stage=stage, rows=rows)  # which says it to the same list
            X, X_test = (_safe_indexing(stage.samples.X, of) for of in (rows.train, rows.test))
            apart, distances = is_transductive(alike[0][1].transformer), list[Array]()
            shared = (time.perf_counter() - start) / len(alike)
            for same_kernel in group_by(alike, lambda one: _kernel_width(one[1])):
                gamma = _kernel_width(same_kernel[0][1])
                if gamma is None:
                    if all(_is_rotation_invariant(one[1]) for one in same_kernel):
                        X, X_test = rotate_to_span(X, X_test)
                    for one in same_kernel:
                        here.answer([(one, rows.parts(X_test) if apart else X_test)], X, one[1].classifier, shared)
                    continue
                number = median_width(gamma, X) if isinstance(gamma, str) else gamma
                distances = distances or [stage.distances_to(rows.train, of) for of in (rows.train, rows.test)]
                K, K_test = (np.exp(-number * D) for D in distances)
                for one in same_kernel:
                    svm = clone(one[1].classifier).set_params(kernel="precomputed", gamma="scale")
                    here.answer([(one, rows.parts(K_test) if apart else K_test)], K, svm, shared)


def _is_rotation_invariant(candidate: Candidate) -> bool:
    """Whether a classifier of ours is the same in any orthonormal basis: linear, its penalty the Euclidean norm."""
    return type(candidate.classifier) in (LogisticRegression, LinearSVC) and not candidate.own


def rotate_to_span(X: Any, X_test: Any) -> tuple[Any, Any]:
    """Samples in a basis of the span of the training samples, if these are far fewer than their features.

    Inner products, and with them all that a linear classifier says, stay as they are. One column of zeros keeps more
    features than samples, by which scikit-learn chooses among solvers.
    """
    n, d = X.shape
    if 1.5 * n > d or not isinstance(X, np.ndarray):
        return X, X_test
    Q = np.hstack([linalg.qr(X.T, mode="economic")[0], np.zeros((d, 1))])
    return product(X, Q), product(X_test, Q)


def _kernel_width(candidate: Candidate) -> Any:
    """The width of the kernel whose matrix a candidate shares; None if it shares none."""
    gamma = candidate.classifier.gamma if candidate.shares == "kernel matrix" else None
    return None if gamma in ("scale", "auto") else gamma


def _evaluate_decomposition(group: list[IndexedCandidate], held: _SplitEvaluation) -> None:
    """Methods of one kernel: a decomposition, then solutions, then what differs in scale, center and number."""
    start = time.perf_counter()
    fold = held.stage.source(group[0][1].transformer).fold(held.rows.train, held.rows.test)
    shared = (time.perf_counter() - start) / len(group)
    for alike in group_by(group, lambda one: _solution_key(one[1].transformer)):
        with held.trying(alike):
            solve = _evaluate_solution if isinstance(alike[0][1].transformer, Projection) else _evaluate_components
            solve(alike, held, fold, shared)


def _solution_key(transformer: Any) -> Any:
    """What changes the solution, given the decomposition; one for the most components serves those with fewer."""
    if not isinstance(transformer, Projection):
        return type(transformer)
    kind: Any = type(transformer)
    return transformer.n_components is None, _parameter_values(transformer, solution_params(kind))


def _evaluate_components(
    group: list[IndexedCandidate], held: _SplitEvaluation, fold: Decomposition, shared: float
) -> None:
    """Kernel principal components; those with fewer have the first of those with more."""
    all_of_them = len(fold.spectrum.values)
    projected = fold.principal(max(candidate.transformer.n_components or all_of_them for _, candidate in group))
    for one in group:
        columns = slice(one[1].transformer.n_components)
        Z = np.ascontiguousarray(projected.train[:, columns])
        Z_test = projected.test[:, columns] - projected.offset[columns]
        held.answer([(one, Z_test)], Z, one[1].classifier, shared)


def _evaluate_solution(
    group: list[IndexedCandidate], held: _SplitEvaluation, fold: Decomposition, shared: float
) -> None:
    """Settings that have their components in common; heads are fitted once for both centrings."""
    start = time.perf_counter()
    first = max((candidate.transformer for _, candidate in group), key=lambda one: one.n_components or 0)
    solved = fold.solve(first)
    shared += (time.perf_counter() - start) / len(group)
    ridge, weight = solved.problem.ridge, solved.problem.invariance
    for alike in group_by(group, lambda one: _parameter_values(one[1].transformer, ("scaling", "n_components"))):
        views: dict[str, tuple[Array, Any]] = {}
        for same in group_by(alike, lambda one: one[1].transformer.centering):
            projection = same[0][1].transformer
            with held.trying(same):
                views[projection.centering] = fold.project(projection, solved, held.rows.parts)
        seen = [one for one in alike if one[1].transformer.centering in views]
        for head in group_by(seen, lambda one: hashable_key(one[1].classifier)):
            Z = next(iter(views.values()))[0]  # the same whatever new domains are centered on
            asked = [(one, views[one[1].transformer.centering][1]) for one in head]
            facts = {"n_components": Z.shape[1], "ridge": ridge, "weight": weight}
            held.answer(asked, Z, head[0][1].classifier, shared, **facts)


def _parameter_values(projection: Projection, names: Iterable[str]) -> Hashable:
    return tuple(hashable_key(getattr(projection, name)) for name in names)
