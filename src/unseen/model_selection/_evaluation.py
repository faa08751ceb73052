"""Leave-one-domain-out evaluation: candidates, samples and splits in, out-of-domain predictions out.

Candidates that share computations, and splits that share training rows, are evaluated together. Model selection,
tables, verdicts and leaderboards are functions of the predictions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import delayed  # type: ignore[import-untyped, unused-ignore]
from scipy import linalg
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import column_or_1d
from threadpoolctl import ThreadpoolController

from ..estimators import (
    DomainCenters,
    Projection,
    ProjectionProblem,
    feature_spectrum,
    make_problem,
)
from ..exceptions import SharedContext
from ..kernels import Kernel, check_square_memory, is_fitted_map, map_features, squared_distances
from ..linalg import Array, CellStatistics, Ints, Membership, Solution, Spectrum, gram_spectrum, product
from ..utils.jobs import parallel, track
from ..utils.samples import Balance, Samples
from ..utils.validation import EncodedLabels, Labels, format_list
from ._candidate import (
    Candidate,
    accepts_domains,
    bind_domains,
    fit_clone,
    ignore_expected_warnings,
    median_width,
    prepare_samples,
    tree_samples,
)
from ._ensemble_math import SMALLEST_PROBABILITY
from ._scoring import Scorer, Scoring, check_metric, score_model, tabulate_scores, uses_labels_only
from ._splitters import Split

T = TypeVar("T")
EXPECTED_ERRORS = (
    ValueError,
    AttributeError,
    ArithmeticError,
    np.linalg.LinAlgError,
)  # raised by unsuitable data or settings
BLAS, OPENMP = (ThreadpoolController().select(user_api=kind) for kind in ("blas", "openmp"))
FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
PREDICTS_HIGHEST_SCORE = (*FORESTS, HistGradientBoostingClassifier, LogisticRegression, LinearSVC, RidgeClassifier)
MAX_ROWS_WITHOUT_THREADS = 32
NEAREST_BLOCK_ROWS = 64  # rows of a product that stay in the cache until their maximum is computed
MAX_REDUCTIONS = 8  # reductions to cell space that are kept with a decomposition
KERNEL_PARAMS = ("kernel", "gamma", "degree", "coef0", "feature_map")
SHAPE_PARAMS = ("scaling", "centering", "n_components")
DECISION_SCORES = ("decision_scores",)  # what ensembles need
RESPONSES = ("predict_proba", "decision_function")
# Methods of classifiers, or a scorer that takes the classifier.
RequestedResponses = tuple[str, ...] | Callable[..., float]
IndexedCandidate = tuple[int, Candidate]


@dataclass(frozen=True)
class EvaluationConfig:
    """How candidates are evaluated.

    Attributes
    ----------
    preparation : transformer, default=None
        Fitted on the training rows of each split, and on no others; None uses the features as they are.
    scoring : str or callable
        The metric: some need probabilities or decision values, and a callable gets the fitted classifier.
    balance : {"none", "classes", "domains"}, default="none"
        What has equal weight among the training rows of each split, for classifiers that take sample weights.
    n_jobs : int, default=None
        Number of processes.
    description : str, default=""
        What the progress bar shows.
    verbose : int, default=0
        1 shows progress.
    """

    preparation: Any = None
    scoring: Scoring = "accuracy"
    balance: Balance = "none"
    n_jobs: int | None = None
    description: str = ""
    verbose: int = 0


@dataclass(frozen=True)
class Prediction:
    """Predictions of a candidate for the held-out rows of a split, or the `error` that prevented them.

    Attributes
    ----------
    candidate, split : int
        Which candidate, and which split.
    codes : ndarray of shape (n_held_out,) or None
        Predicted classes: positions among the sorted classes of all samples.
    responses : dict
        Results of other methods of the classifier, as far as they were requested, and its `classes_`; or its `score`.
    fit_seconds, predict_seconds : float
        Costs; those of shared computations are divided among the candidates that share them.
    n_components, ridge, weight : int, float, float
        Of a projection: its number of components, its ridge as a number, and the sum of its invariance weights.
    error : str
        Why there are no predictions.
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


def group_by(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Lists of items with equal keys, in order of first occurrence."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def evaluate_candidates(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    config: EvaluationConfig,
    *,
    with_decision_scores: bool = False,
    resampled: frozenset[int] = frozenset(),
) -> Iterator[Prediction]:
    """Predict the held-out rows of splits with candidates trained on the other rows: leave-one-domain-out evaluation.

    Parameters
    ----------
    candidates : sequence of Candidate
        The candidates.
    samples : Samples
        All rows.
    splits : sequence of (train, test)
        Positions of rows.
    config : EvaluationConfig
        Preparation, metric, balance, processes and progress.
    with_decision_scores : bool, default=False
        Whether decision scores are returned instead of what the metric needs.
    resampled : frozenset of int
        Splits that hold out rows which another split holds out, resampled: only transductive candidates are evaluated
        there, since others predict the same.

    Yields
    ------
    prediction : Prediction
        One for each candidate and split that it is evaluated on, in no particular order.
    """
    requested = DECISION_SCORES if with_decision_scores else required_responses(config.scoring)
    splits_by_training = group_by(range(len(splits)), lambda k: np.asarray(splits[k][0]).tobytes())
    groups_by_training = [
        group_by(enumerate(candidates), partial(_group_key, n_train=len(splits[same[0]][0])))
        for same in splits_by_training
    ]

    def make_jobs() -> Iterator[Any]:
        for same, groups in zip(splits_by_training, groups_by_training, strict=True):
            prepared = PreparedSplits.from_splits(samples, {k: splits[k] for k in same}, config.preparation)
            for group in groups:
                yield delayed(evaluate_group)(group, prepared, requested, config.balance, resampled)

    total = sum(map(len, groups_by_training))
    batches = parallel(config.n_jobs, pre_dispatch="n_jobs")(make_jobs())
    for batch in track(batches, total, config.description, config.verbose):
        yield from batch


def tabulate_candidates(
    candidates: Sequence[Candidate], samples: Samples, splits: Sequence[Split], config: EvaluationConfig
) -> dict[str, Any]:
    """Evaluate candidates and tabulate their scores, with a warning about splits on which the metric is not defined."""
    check_metric(config.scoring, samples.classes)
    scorer = Scorer(config.scoring, samples, splits)
    predictions = evaluate_candidates(candidates, samples, splits, config)
    results = tabulate_scores(predictions, scorer, len(candidates), len(splits))
    scorer.warn_undefined(results["defined"])
    return results


def required_responses(scoring: Scoring) -> RequestedResponses:
    """Methods of a classifier that a metric needs beside predicted labels, or the scorer of a user."""
    if callable(scoring):
        return scoring
    return () if uses_labels_only(scoring) else RESPONSES


def _group_key(indexed: IndexedCandidate, n_train: int) -> Hashable:
    """Equal for candidates that are evaluated together: one method or kernel, fitted to the same features and rows."""
    candidate = indexed[1]
    limits = (candidate.max_train_rows, candidate.max_evaluation_rows)
    n_rows = min([n_train, *(limit for limit in limits if limit is not None)])
    fitted_to = (candidate.features, n_rows, candidate.needs_landmarks(n_rows))
    shares_kernel = candidate.shares == "decomposition"
    return fitted_to, _kernel_key(candidate.transformer) if shares_kernel else candidate.method


def _kernel_key(transformer: Any) -> Hashable:
    """Parameters on which kernel methods must agree to share a decomposition."""
    return tuple(hashable_key(getattr(transformer, name, None)) for name in KERNEL_PARAMS)


def hashable_key(value: Any) -> Any:
    """The value if it is hashable, else its identity."""
    return value if value.__hash__ else id(value)


def _solution_key(projection: Any) -> Hashable:
    """Parameters that change the solution, given the decomposition; the largest number of components serves all."""
    kind = type(projection)
    names = sorted({*kind._get_param_names()} - {*KERNEL_PARAMS, *SHAPE_PARAMS})
    values = tuple(hashable_key(getattr(projection, name)) for name in names)
    return kind, projection.n_components is None, values


def evaluate_group(
    group: Sequence[IndexedCandidate],
    prepared: PreparedSplits,
    requested: RequestedResponses = (),
    balance: Balance = "none",
    resampled: frozenset[int] = frozenset(),
) -> list[Prediction]:
    """Evaluate candidates that share computations, on splits with the same training rows.

    Expected errors, and all errors of users' own estimators, become results of the candidates that raise them.
    """
    predictions: list[Prediction] = []
    shared_seconds = 0.0
    with ignore_expected_warnings(), single_thread():
        data = prepared.restrict(group[0][1])
        weight = data.train.weights(balance=balance)
        first = group[0][1].adapt(data.train)
        landmarks = getattr(first.transformer, "feature_map", None)
        adapted = [(i, candidate.adapt(data.train, landmarks)) for i, candidate in group]
        for same_classifier in _list_fits(adapted):
            model = None
            for index, candidate in same_classifier:
                done = set()
                try:
                    start = time.perf_counter()
                    features = data.features(candidate)
                    fit_start = time.perf_counter()
                    shared_seconds += fit_start - start
                    if model is None:
                        model = _fit_classifier(candidate, features.train, data.train, weight, requested)
                        fit_seconds = (time.perf_counter() - fit_start) / len(same_classifier)
                    for split, X in features.held_out.items():
                        if split in resampled and not candidate.transductive:
                            continue
                        predict_start = time.perf_counter()
                        codes, responses = _respond(model, X, data.held_out[split], requested)
                        seconds = time.perf_counter() - predict_start
                        predictions.append(
                            Prediction(index, split, codes, responses, fit_seconds, seconds, **features.facts)
                        )
                        done.add(split)
                except Exception as error:
                    if not isinstance(error, EXPECTED_ERRORS) and not candidate.own:
                        raise
                    reason = f"{type(error).__name__}: {error}"
                    predictions += [Prediction(index, k, error=reason) for k in data.parts if k not in done]
    n_natural = max(1, len(data.parts.keys() - resampled))
    shared = shared_seconds / len(group)
    return [replace(one, fit_seconds=(one.fit_seconds + shared) / n_natural) for one in predictions]


def _list_fits(group: Sequence[IndexedCandidate]) -> list[list[IndexedCandidate]]:
    """Candidates by the classifier that they share; those with the same solution or kernel width follow each other.

    Projections that differ only in how they center new domains share a classifier. The largest number of components
    comes first, since its solution serves the others.
    """
    if not all(one.shares == "decomposition" and isinstance(one.transformer, Projection) for _, one in group):
        by_width = group_by(group, lambda indexed: _kernel_width(indexed[1]))
        return [[indexed] for same_width in by_width for indexed in same_width]

    def classifier_key(indexed: IndexedCandidate) -> Hashable:
        projection = indexed[1].transformer
        return projection.n_components, projection.scaling, hashable_key(indexed[1].classifier)

    fits = []
    for same_solution in group_by(group, lambda indexed: _solution_key(indexed[1].transformer)):
        same_solution.sort(key=lambda indexed: -(indexed[1].transformer.n_components or 0))
        fits += group_by(same_solution, classifier_key)
    return fits


def _fit_classifier(
    candidate: Candidate, Z: Any, train: Samples, weight: Array | None, requested: RequestedResponses
) -> Any:
    """The classifier of a candidate, fitted to features of the training rows."""
    classifier = candidate.classifier
    if not requested and _is_one_nearest(classifier):
        return NearestSample(Z, train.y)
    if _kernel_width(candidate) is not None:
        classifier = clone(classifier).set_params(kernel="precomputed", gamma="scale")
    return fit_clone(classifier, Z, train.y, train.domain, weight)


def _respond(model: Any, X: Any, test: Samples, requested: RequestedResponses) -> tuple[Ints, dict[str, Any]]:
    """Predicted classes of held-out rows, and the requested responses; `X` are their features."""
    model, X = bind_domains(model, X, test.domain)
    last_step = model[-1] if isinstance(model, Pipeline) else model
    if requested == DECISION_SCORES:
        is_argmax = type(last_step) in PREDICTS_HIGHEST_SCORE or (type(last_step) is SVC and last_step.break_ties)
        codes = None if is_argmax else encode_predictions(model.predict(X), test.classes, len(test))
        scores = decision_scores(model, X, codes, test.classes)
        return scores.argmax(axis=1) if codes is None else codes, {"decision_scores": scores}
    codes = encode_predictions(model.predict(X), test.classes, len(test))
    if callable(requested):
        return codes, {"score": score_model(requested, model, X, test.y, test.weight)}
    responses = {name: getattr(model, name)(X) for name in requested if hasattr(model, name)}
    return codes, {**responses, "classes_": model.classes_} if responses else {}


class Features(NamedTuple):
    """Features of the training rows and, by split, of held-out rows; `facts` are those of a projection."""

    train: Any
    held_out: dict[int, Any]
    facts: dict[str, Any]


@dataclass(eq=False)
class PreparedSplits:
    """Rows that candidates are fitted to, rows that they predict, and what candidates share.

    Parameters
    ----------
    train, test : Samples
        Training rows, and all held-out rows of the splits that have these training rows.
    parts : dict
        By split, positions of its held-out rows in `test`.
    rows : ndarray
        Positions of the training rows among all samples, which are the columns of a precomputed kernel.
    """

    train: Samples
    test: Samples
    parts: Mapping[int, Any]
    rows: Ints
    _last: dict[str, tuple[Hashable, Any]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def from_splits(cls, samples: Samples, splits: Mapping[int, Split], preparation: Any = None) -> PreparedSplits:
        """The rows of splits with the same training rows, to which the preparation is fitted."""
        tests = {k: np.asarray(test) for k, (_, test) in splits.items()}
        rows = np.asarray(next(iter(splits.values()))[0])
        held_out, *others = tests.values()
        parts: dict[int, Any] = dict.fromkeys(tests, slice(None))
        if others:
            held_out = np.unique(np.concatenate([held_out, *others]))
            parts = {k: np.searchsorted(held_out, test) for k, test in tests.items()}
        train = samples.take(rows)
        test = samples.take(held_out)
        if preparation is not None:
            fitted = clone(preparation).fit(train.X)
            train = prepare_samples(fitted, train)
            test = prepare_samples(fitted, test)
        return cls(train, test, parts, rows)

    def restrict(self, candidate: Candidate) -> PreparedSplits:
        """The rows and the features that a candidate is fitted to."""
        kept = candidate.training_rows(self.train, is_evaluation=True)
        is_whole = len(kept) == len(self.train)
        if is_whole and candidate.features == "prepared":
            return self
        train = self.train if is_whole else self.train.take(kept)
        test = self.test
        if candidate.features == "raw":
            train = tree_samples(train)
            test = tree_samples(test)
        return PreparedSplits(train, test, self.parts, self.rows[kept])

    @cached_property
    def held_out(self) -> dict[int, Samples]:
        """By split, its held-out rows without their features."""
        labels = replace(self.test, X=np.empty((len(self.test), 0)), raw=None)
        return {k: labels.take(rows) for k, rows in self.parts.items()}

    def features(self, candidate: Candidate) -> Features:
        """Features that the classifier of a candidate is fitted to, and those of held-out rows."""
        transformer = candidate.transformer
        if candidate.shares == "decomposition":
            return self._project(transformer)
        data = self
        if transformer is not None:
            data = self._keep("transformer", hashable_key(transformer), lambda: self._transform(transformer))
        width = _kernel_width(candidate)
        train = data.train.X
        test = data.test.X
        if width is not None:
            gamma = median_width(width, train) if isinstance(width, str) else width
            train, test = data._keep("kernel", width, lambda: data._evaluate_rbf(gamma))
        elif type(candidate.classifier) in (LogisticRegression, LinearSVC) and not candidate.own:
            train, test = data._keep("rotation", None, lambda: rotate_to_span(train, test))
        return Features(train, data._split_rows(test), {})

    def _keep(self, kind: str, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of a computation, of which the last one of each kind is kept."""
        if kind not in self._last or self._last[kind][0] != key:
            self._last[kind] = (key, compute())
        return self._last[kind][1]

    def _transform(self, transformer: Any) -> PreparedSplits:
        """The rows after a transformer that is fitted to the training rows.

        The features of a row may depend on the other held-out rows of its split: rows of several splits are repeated.
        """
        fitted = fit_clone(transformer, self.train.X, self.train.y, self.train.domain)

        def transform(samples: Samples) -> Array:
            if accepts_domains(fitted.transform):
                return np.asarray(fitted.transform(samples.X, sample_domain=samples.domain))
            return map_features(fitted, samples.X)

        held_out = [self.test.take(rows) for rows in self.parts.values()]
        ends = np.cumsum([len(part) for part in held_out])
        parts = dict(zip(self.parts, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
        test = self.test.take(np.concatenate([np.arange(len(self.test))[rows] for rows in self.parts.values()]))
        test = replace(test, X=np.vstack([transform(part) for part in held_out]))
        return PreparedSplits(replace(self.train, X=transform(self.train)), test, parts, self.rows)

    @cached_property
    def distances(self) -> tuple[Array, Array]:
        """Squared distances of training rows and of held-out rows from the training rows, which all widths share."""
        n_train = len(self.train)
        for n_rows in (n_train, len(self.test)):
            check_square_memory(math.isqrt(n_train * n_rows), copies=2, caller="An rbf SVM")
        return squared_distances(self.train.X), squared_distances(self.test.X, self.train.X)

    def _project(self, transformer: Any) -> Features:
        """Features of a projection, or kernel principal components; all settings of a kernel share a decomposition."""
        key = _kernel_key(transformer)
        decomposition = self._keep("decomposition", key, lambda: self.decompose(transformer))
        if not isinstance(transformer, Projection):
            basis = decomposition.principal(transformer.n_components)
            return Features(basis.train, self._split_rows(basis.test - basis.offset), {})
        basis, problem = decomposition.project(transformer)
        facts = {
            "n_components": basis.train.shape[1],
            "ridge": problem.scatter_problem.ridge,
            "weight": problem.invariance,
        }
        if transformer.centering == "source":
            return Features(basis.train, self._split_rows(basis.test - basis.offset), facts)
        names = EncodedLabels.from_domains(self.train.domain, len(self.train)).names.tolist()
        stored = dict.fromkeys(names, basis.offset)
        centers = DomainCenters(stored, 'centering="target"', "Leave it out, or merge it with another.")
        held_out = {
            k: centers.center_batch(Z, self.held_out[k].domain) for k, Z in self._split_rows(basis.test).items()
        }
        return Features(basis.train, held_out, facts)

    @cached_property
    def membership(self) -> Membership:
        """Cells of the training rows, without absent classes and domains."""
        classes, domains = (
            np.unique(codes, return_inverse=True)[1].astype(np.intp)
            for codes in (self.train.codes, self.train.domain_codes)
        )
        return Membership.from_codes(classes, domains)

    def decompose(self, transformer: Any) -> Decomposition:
        """Decompose the rows under the kernel or the feature map of a projection or of kernel principal components."""
        feature_map = getattr(transformer, "feature_map", None)
        name = type(transformer).__name__
        if feature_map is not None:
            fitted = feature_map if is_fitted_map(feature_map) else clone(feature_map).fit(self.train.X, None)
            train, test = (map_features(fitted, samples.X) for samples in (self.train, self.test))
            cells = CellStatistics.from_features(train, self.membership)
            spectrum = feature_spectrum(cells, name)

            def combine(coefficients: Array) -> KernelBasis:
                weights = spectrum.to_coefficients(coefficients)
                offset = cells.mean @ weights
                return KernelBasis(product(train, weights) - offset, product(test, weights), offset)

            return Decomposition(self.membership.counts, spectrum, combine)
        check_square_memory(len(self.train) + len(self.test), copies=3, caller=f"A search over {name}")
        kernel = Kernel.from_estimator(transformer)
        if kernel.kernel != "precomputed":
            kernel = kernel.resolve(self.train.X)
        K, K_test = self._evaluate_kernel(kernel)
        means, _, precision = kernel.center(K, self.train.X, name)
        spectrum = gram_spectrum(K, self.membership, precision=precision)
        # Eigenvectors of a centered matrix are orthogonal to constants, except in the null space, which is not used.
        lift = spectrum.lift
        assert lift is not None  # gram_spectrum always returns it
        vectors = lift - lift.mean(axis=0)
        basis = KernelBasis(lift * spectrum.values, product(K_test, vectors), means @ vectors)
        return Decomposition(self.membership.counts, spectrum, basis.combine)

    def _evaluate_kernel(self, kernel: Kernel) -> tuple[Array, Array]:
        """New arrays of kernel values between training rows, and between held-out rows and training rows."""
        train = self.train.X
        test = self.test.X
        if kernel.kernel == "precomputed":
            return train[:, self.rows].astype(np.float64), test[:, self.rows].astype(np.float64)
        if kernel.kernel == "rbf":
            K, K_test = (kernel.evaluate_from_distances(part.copy(), train.shape[1]) for part in self.distances)
            return K, K_test
        return kernel.evaluate_for_centering(train), kernel.evaluate_for_centering(test, train)

    def _evaluate_rbf(self, gamma: float) -> list[Array]:
        """Values of an rbf kernel between training rows, and between held-out rows and training rows."""
        kernels = [part * -gamma for part in self.distances]
        for K in kernels:
            np.exp(K, out=K)  # a second array of this size would take as long as the exponentials
        return kernels

    def _split_rows(self, Z: Any) -> dict[int, Any]:
        return {k: Z[rows] for k, rows in self.parts.items()}


def _kernel_width(candidate: Candidate) -> Any:
    """Width of the kernel matrix that a candidate shares; None if it shares none."""
    gamma = candidate.classifier.gamma if candidate.shares == "kernel matrix" else None
    return None if gamma in ("scale", "auto") else gamma


@dataclass(frozen=True)
class KernelBasis:
    """Coordinates of training and held-out rows of which components are combinations.

    `train` is centered on the training data; `test` is centered when `offset`, the training mean, is subtracted.
    """

    train: Array
    test: Array
    offset: Array

    def combine(self, coefficients: Array) -> KernelBasis:
        """Combine the coordinates into new ones."""
        return KernelBasis(
            product(self.train, coefficients), product(self.test, coefficients), self.offset @ coefficients
        )


Combine = Callable[[Array], KernelBasis]


class Decomposition:
    """Training and held-out rows under one kernel, decomposed once; then a projection is a problem of O(cells^3).

    Parameters
    ----------
    counts : ndarray of shape (n_domains, n_classes)
        Number of training rows of each class in each domain.
    spectrum : Spectrum
        The eigenbasis of the training rows.
    combine : callable
        Combines the coordinates of all rows in this basis.
    """

    def __init__(self, counts: Ints, spectrum: Spectrum, combine: Combine) -> None:
        self.counts = counts
        self.spectrum = replace(spectrum, lift=None)
        self.combine = combine
        self.size = float(np.linalg.norm(spectrum.values))
        self._reductions: dict[tuple[float, float, float], tuple[Spectrum, Any, Combine]] = {}
        self._solved: tuple[Hashable, int, Solution] | None = None

    def solve(self, projection: Projection) -> tuple[ProjectionProblem, Solution]:
        """The eigenproblem of a setting, and at least as many of its components as the setting has."""
        key = _solution_key(projection)
        n_components = projection.n_components
        problem = make_problem(projection, self.counts, self.size)
        # A solution with more components serves as well; the key says whether the number of components is given.
        if self._solved is None or self._solved[0] != key or self._solved[1] < (n_components or 0):
            varying, whitened, _ = self._reduce(problem)
            self._solved = key, n_components or 0, problem.solve(varying, whitened)
        return problem, self._solved[2]

    def project(self, projection: Projection) -> tuple[KernelBasis, ProjectionProblem]:
        """Rows as the projection transforms them, and its eigenproblem."""
        problem, solution = self.solve(projection)
        combine = self._reduce(problem)[2] if problem.scatter_problem.is_low_rank else self.combine
        return combine(problem.select_components(solution).coefficients), problem

    def _reduce(self, problem: ProjectionProblem) -> tuple[Spectrum, Any, Combine]:
        """Reduce to cell space, once for each weight of the within scatter, norm weight and ridge."""
        scatter_problem = problem.scatter_problem
        key = (scatter_problem.within_weight, scatter_problem.norm_weight, scatter_problem.ridge)
        if key not in self._reductions:
            varying, whitened = problem.whiten(self.spectrum)
            (norms,) = linalg.qr(whitened.norm_factor, mode="r")
            reduced = replace(whitened, directions=np.eye(whitened.directions.shape[1]), norm_factor=norms)
            if len(self._reductions) >= MAX_REDUCTIONS:
                del self._reductions[next(iter(self._reductions))]
            self._reductions[key] = varying, reduced, self.combine(whitened.directions).combine
        return self._reductions[key]

    def principal(self, n_components: int | None) -> KernelBasis:
        """Kernel principal components: the eigenbasis itself, each direction with the spread of the data along it."""
        values = self.spectrum.values
        order = np.argsort(-values)[: np.count_nonzero(values > 0)][:n_components]
        coefficients = np.zeros((len(values), len(order)))
        coefficients[order, np.arange(len(order))] = values[order] ** -0.5
        return self.combine(coefficients)


def rotate_to_span(X: Any, X_test: Any) -> tuple[Any, Any]:
    """Samples in a basis of the span of the training samples, if these are far fewer than their features.

    Inner products, and with them the predictions of linear classifiers, stay the same. One column of zeros keeps more
    features than samples, by which scikit-learn chooses among solvers.
    """
    n, d = X.shape
    if 1.5 * n > d or not isinstance(X, np.ndarray):
        return X, X_test
    Q = np.hstack([linalg.qr(X.T, mode="economic")[0], np.zeros((d, 1))])
    return product(X, Q), product(X_test, Q)


@dataclass(frozen=True)
class NearestSample:
    """Predicts as Euclidean 1-NN does, in less time; among equally near training rows, the first one counts.

    The nearest row maximizes ``x't - |t|^2 / 2``, which one product of augmented matrices computes.
    """

    X: Array
    y: Labels

    def predict(self, X: Array) -> Labels:
        """Labels of the nearest training rows."""
        augmented_train = np.vstack([self.X.T, -0.5 * np.einsum("ij,ij->i", self.X, self.X)])
        augmented_test = np.hstack([X, np.ones((len(X), 1))])
        indices = np.empty(len(X), dtype=np.intp)
        for start in range(0, len(X), NEAREST_BLOCK_ROWS):
            block = slice(start, start + NEAREST_BLOCK_ROWS)
            indices[block] = (augmented_test[block] @ augmented_train).argmax(axis=1)
        return self.y[indices]


def _is_one_nearest(classifier: Any) -> bool:
    return (
        type(classifier) is KNeighborsClassifier
        and classifier.n_neighbors == 1
        and (classifier.metric == "euclidean" or (classifier.metric == "minkowski" and classifier.p == 2))
        and classifier.metric_params is None
    )


def decision_scores(model: Any, X: Any, codes: Ints | None, classes: Labels) -> Array:
    """Scores of all classes from a fitted classifier: decision values, log-probabilities, or indicators of its labels.

    The softmax of such scores, times an inverse temperature, gives probabilities. A class that the classifier does not
    know has -inf. Decision values of a pairwise machine are its one-vs-rest values. `codes` are its predicted classes,
    if these are known.
    """
    if type(model) is Pipeline and len(model.steps) == 1:
        model = model.steps[0][1]  # the checks of a pipeline take longer than the prediction of one row
    if hasattr(model, "decision_function"):
        S = np.asarray(model.decision_function(X), dtype=np.float64)
        # With two classes the decision value is the difference of their scores.
        S = np.column_stack([-S, S]) / 2 if S.ndim == 1 else S
    elif hasattr(model, "predict_proba"):
        S = np.log(np.maximum(_predict_proba(model, X), SMALLEST_PROBABILITY))
    else:
        predicted = encode_predictions(model.predict(X), classes, X.shape[0]) if codes is None else codes
        return np.eye(len(classes))[predicted]
    if not (np.inf > S).all():
        raise ValueError("The decision values of the classifier contain NaN or infinity.")
    scores = np.full((len(S), len(classes)), -np.inf)
    scores[:, np.searchsorted(classes, model.classes_)] = S
    return scores


def _predict_proba(model: Any, X: Any) -> Array:
    """Probabilities of a classifier; for few rows those of a forest without the threads that it would start.

    Threads and checks of each tree take fifteen times as long as one row in all trees.
    """
    if type(model) not in FORESTS or not isinstance(X, np.ndarray) or len(X) > MAX_ROWS_WITHOUT_THREADS:
        return model.predict_proba(X)
    rows = np.ascontiguousarray(X, dtype=np.float32)
    total = np.zeros((len(X), len(model.classes_)))
    for tree in model.estimators_:
        total += tree.tree_.predict(rows)
    return total / len(model.estimators_)


def encode_predictions(labels: Any, classes: Labels, n_samples: int) -> Ints:
    """Positions of predicted labels among the classes; ValueError for unknown labels or a wrong number of them."""
    labels = column_or_1d(labels)
    codes = np.searchsorted(classes, labels).astype(np.intp)
    unknown = labels[classes[np.minimum(codes, len(classes) - 1)] != labels]
    if len(labels) != n_samples or len(unknown):
        example = f", such as {unknown.tolist()[0]!r}" if len(unknown) else ""
        raise ValueError(
            f"predict must return one of the classes {format_list(classes.tolist())} for each of {n_samples} samples; "
            f"got {len(labels)} labels{example}."
        )
    return codes


@contextmanager
def _limit_blas_to_one_thread() -> Iterator[None]:
    _release_controlling_thread()
    limit = BLAS.limit(limits=1)
    try:
        yield
    finally:
        _release_controlling_thread()  # the thread that set the limit may be another one, and may have ended
        limit.restore_original_limits()
        _release_controlling_thread()


def _release_controlling_thread() -> None:
    """Allow any thread to set the number of BLAS threads; threadpoolctl 3.8 reserves that to the first one."""
    for library in BLAS.lib_controllers:
        getattr(library, "clear_controlling_thread", lambda *, force: None)(force=True)


SINGLE_BLAS_THREAD = SharedContext(_limit_blas_to_one_thread)


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread, so that bits do not depend on how many processes share the cores.

    That suits thousands of small products, solutions and fits, where more threads cost more than they save; `n_jobs`
    uses the cores. The limit of BLAS holds for the whole process, until all callers have left the context.
    """
    with OPENMP.limit(limits=1), SINGLE_BLAS_THREAD:
        yield
