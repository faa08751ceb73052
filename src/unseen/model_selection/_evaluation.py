"""Leave-one-domain-out evaluation: candidates, samples and splits in, out-of-domain predictions out.

What candidates and splits share is computed once. Model selection, tables, verdicts and leaderboards are functions of
the predictions.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np
from joblib import delayed  # type: ignore[import-untyped, unused-ignore]
from scipy import linalg
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import _safe_indexing, column_or_1d
from threadpoolctl import ThreadpoolController

from ..estimators import Projection, parallel
from ..exceptions import SharedContext
from ..linalg import Array, CellStatistics, Ints, product, scatter_traces
from ..utils.progress import track
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels, format_list
from ._calibration import SMALLEST_PROBABILITY
from ._candidate import (
    Candidate,
    bind_domains,
    fit_clone,
    ignore_expected_warnings,
    is_one_nearest,
    median_width,
    nearest_index,
)
from ._decompositions import (
    Decomposition,
    FeatureStage,
    SplitRows,
    get_membership,
    hashable_key,
    kernel_key,
    solution_params,
)
from ._preparation import prepare_samples, with_categories
from ._scoring import Scorer, Scoring, apply_scorer, score_predictions, tabulate_scores, uses_labels_only
from ._splitters import Split

T = TypeVar("T")
EXPECTED_ERRORS = (
    ValueError,
    AttributeError,
    ArithmeticError,
    np.linalg.LinAlgError,
)  # raised by unsuitable data or settings
BLAS, OPENMP = (ThreadpoolController().select(user_api=kind) for kind in ("blas", "openmp"))
DECISION_SCORES = ("decision_scores",)  # what ensembles need

PREDICTS_HIGHEST_SCORE = (
    LogisticRegression,
    LinearSVC,
    RidgeClassifier,
)  # predict the class with the highest score
FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
MAX_ROWS_WITHOUT_THREADS = 32
MAX_CACHED_RIDGES = 8  # reductions to cell space that are cached with a decomposition
IndexedCandidate = tuple[int, Candidate]
RequestedResponses = (
    tuple[str, ...] | Callable[..., float]
)  # methods of classifiers, or a scorer that takes the classifier
ResponsesByCandidate = Mapping[int, RequestedResponses]


RESPONSES = ("predict_proba", "decision_function")


@dataclass(frozen=True)
class ProgressOptions:
    """How progress is shown: a description, verbosity, and the estimator whose callbacks are called."""

    description: str = ""
    verbose: int = 0
    owner: Any = None


SILENT = ProgressOptions()


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
    progress : ProgressOptions
        How progress is shown.
    """

    preparation: Any = None
    scoring: Scoring = "accuracy"
    balance: Balance = "none"
    n_jobs: int | None = None
    progress: ProgressOptions = SILENT


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


def sharing_key(indexed: IndexedCandidate) -> Hashable:
    """Key of candidates that are evaluated together."""
    candidate = indexed[1]
    if candidate.shares == "decomposition":
        # Apart from users' own estimators, so that an exception of one of these does not fail the others.
        return kernel_key(candidate.transformer), candidate.own
    return candidate.method


def evaluate_candidates(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    config: EvaluationConfig,
    *,
    with_decision_scores: Collection[int] | Literal["all"] = (),
    resampled: frozenset[int] = frozenset(),
) -> Iterator[Prediction]:
    """Predict the held-out rows of splits with candidates trained on the other rows: leave-one-domain-out evaluation.

    Candidates that share computations are evaluated together, as are splits with the same training rows.

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
    with_decision_scores : collection of int or "all"
        Positions of candidates whose decision scores are returned as well; with "all" these are returned for every
        candidate, and nothing that the metric needs.
    resampled : frozenset of int
        Splits that hold out rows which another split holds out, resampled: only transductive candidates whose decision
        scores are returned are evaluated there, since others predict the same.

    Yields
    ------
    prediction : Prediction
        One for each candidate and split that it is evaluated on, in no particular order.
    """
    groups = group_by(enumerate(candidates), sharing_key)
    splits_by_training = group_by(range(len(splits)), lambda k: np.asarray(splits[k][0]).tobytes())
    requests = {index: _request(index, config.scoring, with_decision_scores) for index in range(len(candidates))}
    stages = prepare_stages(samples, splits, splits_by_training, config.preparation)
    jobs = (
        delayed(evaluate_group)(group, stage, same, rows, requests, config.balance, resampled)
        for same, (stage, rows) in zip(splits_by_training, stages, strict=True)
        for group in groups
    )
    batches = parallel(config.n_jobs, pre_dispatch="n_jobs")(jobs)
    progress = config.progress
    total = len(groups) * len(splits_by_training)
    for batch in track(batches, total, progress.description, progress.verbose, progress.owner):
        yield from batch


def tabulate_candidates(
    candidates: Sequence[Candidate], samples: Samples, splits: Sequence[Split], config: EvaluationConfig
) -> dict[str, Any]:
    """Evaluate candidates and tabulate their scores, with a warning about splits on which the metric is not defined."""
    scorer = Scorer(config.scoring, samples, splits)
    predictions = evaluate_candidates(candidates, samples, splits, config)
    results = tabulate_scores(score_predictions(predictions, scorer), len(candidates), len(splits))
    scorer.warn_undefined(results["defined"])
    return results


def _request(
    index: int, scoring: Scoring, with_decision_scores: Collection[int] | Literal["all"]
) -> RequestedResponses:
    """The responses to compute for a candidate."""
    if with_decision_scores == "all":
        return DECISION_SCORES
    if index not in with_decision_scores:
        return scoring if callable(scoring) else required_responses(scoring)
    return DECISION_SCORES if callable(scoring) else (*DECISION_SCORES, *required_responses(scoring))


def required_responses(scoring: Scoring) -> tuple[str, ...]:
    """Methods of a classifier that a metric needs beside predicted labels."""
    return () if scoring == "accuracy" or uses_labels_only(scoring) else RESPONSES


def prepare_stages(
    samples: Samples, splits: Sequence[Split], splits_by_training: Sequence[Sequence[int]], preparation: Any
) -> Iterator[tuple[FeatureStage, SplitRows]]:
    """For splits with the same training rows: the prepared features, and which rows to train and to test on."""
    unprepared = FeatureStage(samples)
    for same in splits_by_training:
        rows = SplitRows(np.asarray(splits[same[0]][0]), tuple(np.asarray(splits[k][1]) for k in same))
        if preparation is None:
            yield unprepared, rows
            continue
        fitted = clone(preparation).fit(_safe_indexing(samples.X, rows.train))
        yield FeatureStage(prepare_samples(fitted, samples.take(rows.all))), rows.in_order


def evaluate_group(
    group: list[IndexedCandidate],
    stage: FeatureStage,
    splits: Sequence[int],
    rows: SplitRows,
    requests: ResponsesByCandidate,
    balance: Balance = "none",
    resampled: frozenset[int] = frozenset(),
) -> list[Prediction]:
    """Evaluate candidates that share computations, on splits with the same training rows."""
    predictions: list[Prediction] = []
    for same in group_by(group, lambda indexed: _fitted_to(indexed[1], len(rows.train))):
        candidate = same[0][1]
        same_stage = stage.for_trees if candidate.features == "raw" else stage
        same_rows = rows
        labels = replace(same_stage.samples, X=np.empty((len(same_stage.samples), 0)), raw=None)
        kept = candidate.subsample_evaluation_rows(labels.take(rows.train))
        if kept is not None:  # kernels are computed between these rows only
            same_rows = replace(rows, train=rows.train[kept])
            same_stage = FeatureStage(same_stage.samples.take(same_rows.all))
            same_rows = same_rows.in_order
        samples = same_stage.samples
        weight = samples.weights(same_rows.train, balance)
        evaluation = _SplitEvaluation(same_stage, splits, same_rows, requests, weight, resampled)
        evaluate = _evaluate_decomposition if candidate.shares == "decomposition" else _evaluate_classifiers
        with ignore_expected_warnings(), single_thread(), evaluation.recording_errors(same):
            evaluate(_adapt(same, samples, len(same_rows.train)), evaluation)
        predictions += evaluation.predictions
    return predictions


def _fitted_to(candidate: Candidate, n_train: int) -> Hashable:
    """What candidates of a group are fitted to: which features, how many rows, and a kernel or landmarks."""
    limits = (candidate.max_train_rows, candidate.max_evaluation_rows)
    n_rows = min(n_train, *(limit for limit in limits if limit is not None)) if any(limits) else n_train
    return candidate.features, n_rows, candidate.needs_landmarks(n_rows)


def _adapt(group: list[IndexedCandidate], samples: Samples, n_train: int) -> list[IndexedCandidate]:
    """Candidates for a number of training rows and for the features: with landmarks, or with columns of levels."""
    first = group[0][1]
    if first.features == "raw":
        return [(i, replace(one, classifier=with_categories(one.classifier, samples))) for i, one in group]
    if not first.needs_landmarks(n_train):
        return group
    shared = first.with_landmarks().transformer.feature_map
    return [(i, one.with_landmarks(shared)) for i, one in group]


@dataclass
class _SplitEvaluation:
    """Splits with the same training rows, the responses requested there, and the predictions made so far.

    Attributes
    ----------
    resampled : frozenset of int
        Splits that hold out resampled rows of another split. Only transductive candidates predict them differently.
    """

    stage: FeatureStage
    splits: Sequence[int]
    rows: SplitRows
    requests: ResponsesByCandidate
    weight: Array | None
    resampled: frozenset[int]
    predictions: list[Prediction] = field(default_factory=list)

    @contextmanager
    def recording_errors(self, group: Sequence[IndexedCandidate]) -> Iterator[None]:
        """Record expected errors, and all errors of users' own estimators, as results of all candidates of a group."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, EXPECTED_ERRORS) and not all(candidate.own for _, candidate in group):
                raise
            reason = f"{type(error).__name__}: {error}"
            done = {(prediction.candidate, prediction.split) for prediction in self.predictions}
            for index, _ in group:
                missing = [k for k in self.splits if (index, k) not in done]
                self.predictions += [Prediction(index, k, error=reason) for k in missing]

    def fit_and_predict(
        self,
        candidates: list[tuple[IndexedCandidate, list[Any]]],
        Z: Any,
        classifier: Any,
        shared_seconds: float,
        **projection_facts: Any,
    ) -> None:
        """Fit the classifier that candidates share to features `Z`, and predict their held-out features of each split.

        Facts about a projection, which break ties among equal scores, are attributes of `Prediction`.
        """
        samples = self.stage.samples
        train = self.rows.train
        start = time.perf_counter()
        needs_labels_only = not any(self.requests[index] for (index, _), _ in candidates)
        n_natural_splits = max(1, len([k for k in self.splits if k not in self.resampled]))
        with self.recording_errors([indexed for indexed, _ in candidates]):
            model = None
            if not (needs_labels_only and is_one_nearest(classifier)):
                model = fit_clone(classifier, Z, samples.y[train], samples.domain[train], self.weight)
            fit_seconds = shared_seconds + (time.perf_counter() - start) / len(candidates)
            for (index, candidate), held_out in candidates:
                request = self.requests[index]
                predicts_resampled = candidate.transductive and not callable(request) and DECISION_SCORES[0] in request
                for split, rows, Z_test in zip(self.splits, self.rows.tests, held_out, strict=True):
                    if split in self.resampled and not predicts_resampled:
                        continue
                    predict_start = time.perf_counter()
                    responses: dict[str, Any] = {}
                    if model is None:
                        codes = samples.codes[train][nearest_index(Z, Z_test)]
                    else:
                        bound_model, X_test = bind_domains(model, Z_test, samples.domain[rows])
                        codes, responses = self._respond(bound_model, X_test, rows, request)
                    prediction = Prediction(
                        index,
                        split,
                        codes,
                        responses,
                        fit_seconds=fit_seconds / n_natural_splits,
                        predict_seconds=time.perf_counter() - predict_start,
                        **projection_facts,
                    )
                    self.predictions.append(prediction)

    def _respond(self, model: Any, X: Any, rows: Ints, request: RequestedResponses) -> tuple[Ints, dict[str, Any]]:
        """Predicted classes, and the requested responses."""
        samples = self.stage.samples
        last_step = model[-1] if isinstance(model, Pipeline) else model
        is_argmax = type(last_step) in PREDICTS_HIGHEST_SCORE or (type(last_step) is SVC and last_step.break_ties)
        if request == DECISION_SCORES and is_argmax:
            scores = decision_scores(model, X, None, samples.classes)
            return scores.argmax(axis=1), {"decision_scores": scores}
        codes = encode_predictions(model.predict(X), samples.classes, len(rows))
        if callable(request):
            weight = None if samples.weight is None else samples.weight[rows]
            return codes, {"score": apply_scorer(request, model, X, samples.y[rows], weight)}
        responses = collect_responses(model, X, (name for name in request if name not in DECISION_SCORES))
        if DECISION_SCORES[0] in request:
            responses["decision_scores"] = decision_scores(model, X, codes, samples.classes)
        return codes, responses


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


def collect_responses(model: Any, X: Any, names: Iterable[str]) -> dict[str, Any]:
    """Results of methods of a classifier, as far as it has them, and its classes."""
    responses = {name: getattr(model, name)(X) for name in names if hasattr(model, name)}
    return {**responses, "classes_": model.classes_} if responses else {}


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


def _evaluate_classifiers(group: list[IndexedCandidate], evaluation: _SplitEvaluation) -> None:
    """Evaluate candidates that are fitted one by one; they share transformers, and kernel matrices of equal width."""
    for same_transformer in group_by(group, lambda indexed: hashable_key(indexed[1].transformer)):
        with evaluation.recording_errors(same_transformer):
            start = time.perf_counter()
            stage, rows = evaluation.stage.after(same_transformer[0][1].transformer, evaluation.rows)
            transformed = replace(evaluation, stage=stage, rows=rows)  # adds to the same list of predictions
            X = _safe_indexing(stage.samples.X, rows.train)
            X_test = _safe_indexing(stage.samples.X, rows.test)
            shared_seconds = (time.perf_counter() - start) / len(same_transformer)
            for same_kernel in group_by(same_transformer, lambda indexed: _kernel_width(indexed[1])):
                gamma = _kernel_width(same_kernel[0][1])
                if gamma is not None:
                    width = median_width(gamma, X) if isinstance(gamma, str) else gamma
                    Z, Z_test = (
                        np.exp(-width * stage.distances_to(rows.train, part)) for part in (rows.train, rows.test)
                    )
                elif all(_is_rotation_invariant(candidate) for _, candidate in same_kernel):
                    Z, Z_test = rotate_to_span(X, X_test)
                else:
                    Z, Z_test = X, X_test
                held_out = rows.parts(Z_test)
                for indexed in same_kernel:
                    classifier = indexed[1].classifier
                    if gamma is not None:
                        classifier = clone(classifier).set_params(kernel="precomputed", gamma="scale")
                    transformed.fit_and_predict([(indexed, held_out)], Z, classifier, shared_seconds)


def _is_rotation_invariant(candidate: Candidate) -> bool:
    """Whether a classifier gives the same predictions in any orthonormal basis: linear, with a Euclidean penalty."""
    return type(candidate.classifier) in (LogisticRegression, LinearSVC) and not candidate.own


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


def _kernel_width(candidate: Candidate) -> Any:
    """Width of the kernel matrix that a candidate shares; None if it shares none."""
    gamma = candidate.classifier.gamma if candidate.shares == "kernel matrix" else None
    return None if gamma in ("scale", "auto") else gamma


def _evaluate_decomposition(group: list[IndexedCandidate], evaluation: _SplitEvaluation) -> None:
    """Evaluate methods with one kernel: one decomposition, then one solution for all settings that share it."""
    start = time.perf_counter()
    decomposition = evaluation.stage.decompose(group[0][1].transformer, evaluation.rows)
    shared_seconds = (time.perf_counter() - start) / len(group)
    for same_solution in group_by(group, lambda indexed: _solution_key(indexed[1].transformer)):
        with evaluation.recording_errors(same_solution):
            if isinstance(same_solution[0][1].transformer, Projection):
                _evaluate_solution(same_solution, evaluation, decomposition, shared_seconds)
            else:
                _evaluate_components(same_solution, evaluation, decomposition, shared_seconds)


def _solution_key(transformer: Any) -> Any:
    """Parameters that change the solution, given the decomposition; the largest number of components serves all."""
    if not isinstance(transformer, Projection):
        return type(transformer)
    kind: Any = type(transformer)
    return transformer.n_components is None, _parameter_values(transformer, solution_params(kind))


def _evaluate_components(
    group: list[IndexedCandidate], evaluation: _SplitEvaluation, decomposition: Decomposition, shared_seconds: float
) -> None:
    """Evaluate kernel principal components; candidates with fewer use the first of those with more."""
    n_components = len(decomposition.spectrum.values)
    largest = max(candidate.transformer.n_components or n_components for _, candidate in group)
    projected = decomposition.principal(largest)
    for indexed in group:
        columns = slice(indexed[1].transformer.n_components)
        Z = np.ascontiguousarray(projected.train[:, columns])
        held_out = evaluation.rows.parts(projected.test[:, columns] - projected.offset[columns])
        evaluation.fit_and_predict([(indexed, held_out)], Z, indexed[1].classifier, shared_seconds)


def _evaluate_solution(
    group: list[IndexedCandidate], evaluation: _SplitEvaluation, decomposition: Decomposition, shared_seconds: float
) -> None:
    """Evaluate settings that share their components; heads are fitted once for both centerings."""
    start = time.perf_counter()
    largest = max((candidate.transformer for _, candidate in group), key=lambda one: one.n_components or 0)
    solved = decomposition.solve(largest)
    shared_seconds += (time.perf_counter() - start) / len(group)
    for same_features in group_by(
        group, lambda one: _parameter_values(one[1].transformer, ("scaling", "n_components"))
    ):
        projected: list[tuple[IndexedCandidate, list[Any]]] = []
        for same_centering in group_by(same_features, lambda indexed: indexed[1].transformer.centering):
            with evaluation.recording_errors(same_centering):
                # The training features do not depend on how new domains are centered.
                Z, held_out = decomposition.project(same_centering[0][1].transformer, solved, evaluation.rows.parts)
                projected += [(indexed, held_out) for indexed in same_centering]
        for same_head in group_by(projected, lambda pair: hashable_key(pair[0][1].classifier)):
            evaluation.fit_and_predict(
                same_head,
                Z,
                same_head[0][0][1].classifier,
                shared_seconds,
                n_components=Z.shape[1],
                ridge=solved.problem.ridge,
                weight=solved.problem.invariance,
            )


def _parameter_values(projection: Projection, names: Iterable[str]) -> Hashable:
    return tuple(hashable_key(getattr(projection, name)) for name in names)


class DecompositionCache:
    """A least-recently-used cache of decompositions, of at most `max_bytes`; it keeps at least one."""

    def __init__(self, max_bytes: float) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, tuple[Decomposition, int]] = OrderedDict()

    def get(self, key: Hashable, size: int, make: Callable[[], Decomposition]) -> Decomposition:
        """The decomposition of a key, of `size` bytes; `make` is called if it is not cached."""
        if key not in self._entries:
            while self._entries and sum(used for _, used in self._entries.values()) + size > self.max_bytes:
                self._entries.popitem(last=False)
            self._entries[key] = make(), size
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def __len__(self) -> int:
        return len(self._entries)


class _CachedStage(FeatureStage):
    """Features whose decompositions are kept in a cache."""

    def __init__(self, samples: Samples, cache: DecompositionCache) -> None:
        super().__init__(samples)
        self._cache = cache

    def decompose(self, projection: Any, rows: SplitRows) -> Decomposition:
        size = 8 * len(rows.train) * len(rows.all)

        def make() -> Decomposition:
            decomposition = super(_CachedStage, self).decompose(projection, rows)
            decomposition.max_reductions = MAX_CACHED_RIDGES
            return decomposition

        return self._cache.get((self, kernel_key(projection)), size, make)


@dataclass(frozen=True)
class ProjectedSplit:
    """A split transformed by a projection: training and held-out samples, and traces of scatters.

    `scatters` are traces over the training samples: see `unseen.linalg.traces`.
    """

    train: Array
    test: Array
    scatters: dict[str, float]


class CachedSplit:
    """One split under any setting of any projection: the first setting of a kernel costs a decomposition.

    Parameters
    ----------
    samples : Samples
        All rows.
    split : (train, test)
        Positions of rows.
    preparation : transformer
        Fitted on the training rows, as in `evaluate_candidates`.
    cache : DecompositionCache
        Where decompositions are kept, together with those of other splits.
    """

    def __init__(self, samples: Samples, split: Split, preparation: Any, cache: DecompositionCache) -> None:
        ((stage, self.rows),) = prepare_stages(samples, [split], [[0]], preparation)
        self.samples = stage.samples
        self.stage = _CachedStage(stage.samples, cache)

    def project(self, projection: Projection) -> ProjectedSplit:
        """Samples as the projection, fitted to the training rows, transforms them."""
        with ignore_expected_warnings(), single_thread():
            decomposition = self.stage.decompose(projection, self.rows)
            train, held_out = decomposition.project(projection, decomposition.solve(projection), self.rows.parts)
            membership = get_membership(self.samples, self.rows.train)
            scatters = scatter_traces(CellStatistics.from_features(train, membership))
        return ProjectedSplit(train, held_out[0], scatters)

    def evaluate(self, candidate: Candidate) -> Prediction:
        """Predictions of a candidate, trained on the training rows, for the held-out rows."""
        (prediction,) = evaluate_group([(0, candidate)], self.stage, [0], self.rows, {0: ()})
        return prediction

    def score(self, prediction: Prediction) -> float:
        """Accuracy of a prediction; NaN if the candidate could not be fitted."""
        if prediction.codes is None:
            return np.nan
        return float(np.mean(prediction.codes == self.samples.codes[self.rows.test]))
