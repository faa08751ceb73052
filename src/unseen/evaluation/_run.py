"""Running a comparison: every task, repeat and method once, in one run or in several resumed ones."""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress, product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import delayed, effective_n_jobs  # type: ignore[import-untyped, unused-ignore]
from scipy import linalg
from sklearn.utils import check_array, check_consistent_length

from ..estimators import map_on_cluster, parallel
from ..kernels import EXACT_ROWS
from ..linalg import Array, Ints
from ..model_selection import (
    METHODS,
    Candidate,
    EvaluationConfig,
    Method,
    TableSize,
    get_metric,
    group_by,
    method_names,
    parse_methods,
    single_thread,
)
from ..utils.optional_imports import environment_info
from ..utils.progress import format_duration, progress
from ..utils.samples import Samples
from ._method_evaluation import DecisionScores, Problem, evaluate_methods, evaluate_validation, split_id
from ._protocol import PREPROCESSORS, Protocol, Task, add_method, configuration_key, make_configuration
from ._store import Row, Scores, Store


class Result(NamedTuple):
    """A row with its predictions for the target samples: classes as positions among all classes, and probabilities."""

    row: Row
    codes: Ints | None = None
    probabilities: Array | None = None


T = TypeVar("T")


class SideTask:
    """A computation that a comparison does not need, run beside its jobs in one of the local processes.

    Attributes
    ----------
    function : callable
        Takes no arguments, and can be pickled.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self._results: list[Any] = []

    @property
    def is_done(self) -> bool:
        """Whether there is a result."""
        return bool(self._results)

    def set_result(self, result: Any) -> None:
        """Keep the result of another process."""
        self._results = [result]

    def get_result(self) -> Any:
        """Return the result, which is computed now if no process has done so."""
        if not self.is_done:
            self.set_result(run_function(self.function))
        return self._results[0]


@dataclass(frozen=True)
class Execution:
    """Where results are stored, and where they are computed: in local processes or on a Dask cluster."""

    store: str | Path | None = None  # None stores nothing
    n_jobs: int | None = None
    verbose: int = 0
    client: Any = None
    side_task: SideTask | None = None


LOCAL_EXECUTION = Execution()
# Seconds on one core of a decomposition, a solution and a fit. They order the jobs and estimate the duration.
SECONDS_PER_CUBED_ROW = 1.2e-10
SECONDS_PER_SQUARED_ROW = 5e-9
SECONDS_PER_FITTED_VALUE = 5e-8
# Rows of a decomposition that measures the speed of a machine, and its duration on the core of these figures.
PROBE_ROWS = 300
PROBE_SECONDS = 8e-3
# Bytes of decision scores that are kept for ensembles; beyond that each ensemble evaluates its candidates again.
MAX_SCORE_BYTES = 2**31
# Estimated seconds beyond which a message suggests how to shorten a study.
LONG_RUN_SECONDS = 300


def run(
    X: Any,
    y: Any,
    domain: Any,
    tasks: Sequence[Task],
    *,
    store: str | Path,
    protocol: Protocol | None = None,
    preprocessor: Any = None,
    methods: Sequence[str] | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    client: Any = None,
) -> list[Row]:
    """Compare methods on tasks, repeat by repeat; what a store already holds is not run again.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples of all domains.
    y : array-like of shape (n_samples,)
        Class labels.
    domain : array-like of shape (n_samples,)
        Domain names.
    tasks : sequence of Task
        What to train and test on, such as ``unseen.evaluation.make_tasks(names)``.
    store : str or path
        File of results, made if it does not exist. Stop the run in any way and call it again to continue.
    protocol : Protocol, default=None
        The rules; None means ``Protocol()``.
    preprocessor : transformer, default=None
        Fitted on the training data of each task; it may deal with missing values. None means what the protocol says.
    methods : sequence of str, default=None
        Which methods; None takes all that are meant for comparisons.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.
    client : dask.distributed.Client, default=None
        Whose workers run the comparison; None means `n_jobs` processes here.

    Returns
    -------
    rows : list of Row
        One for each method, task and repeat, failures among them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.evaluation import Protocol, make_tasks, run
    >>> data = make_synthetic(random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = run(
    ...         data.data,
    ...         data.target,
    ...         data.domain,
    ...         make_tasks(data.domain_names),
    ...         store=Path(folder, "results.sqlite"),
    ...         protocol=Protocol(repeats=2, quick=True),
    ...         methods=["1-NN", "logistic"],
    ...     )
    >>> len(rows), {row.status for row in rows}
    (12, {'ok'})
    """
    finite = preprocessor is None or "allow-nan"  # a preprocessor may fill in what is missing
    X = check_array(X, dtype=np.float64, input_name="X", ensure_all_finite=finite)
    samples = Samples(X, np.asarray(y), np.asarray(domain).astype(str))
    check_consistent_length(X, samples.y, samples.domain)
    execution = Execution(store, n_jobs, verbose, client)
    results = all_results(samples, tasks, protocol or Protocol(), preprocessor, methods, execution)
    return [result.row for result in results]


def all_results(
    samples: Samples,
    tasks: Sequence[Task],
    protocol: Protocol,
    preprocessor: Any = None,
    methods: str | Sequence[str] | None = None,
    execution: Execution = LOCAL_EXECUTION,
    scores: Scores | None = None,
    keep_probabilities: bool = False,
) -> Iterator[Result]:
    """The rows of `run` and the predictions of each; samples of a target are in the order of the data.

    Validation scores are added to `scores`. With `keep_probabilities`, those of the first repeat are stored.
    """
    table = select_methods(methods)
    if not table or not tasks:
        raise ValueError(f"There must be at least one method and one task; got {len(table)} and {len(tasks)}.")
    missing = {name for task in tasks for name in (*task.sources, *task.targets)} - set(samples.domain.tolist())
    if missing:
        raise ValueError(f"Tasks name domains that the data do not have: {', '.join(sorted(missing))}.")
    preparation = PREPROCESSORS[protocol.preprocess] if preprocessor is None else preprocessor
    study = Study(samples, protocol, preparation, table, keep_probabilities)
    config = make_configuration(samples, protocol, preparation)
    config_key = configuration_key(config)
    size = TableSize(*samples.X.shape, len(samples.classes))
    method_configs = {name: add_method(config, method, size) for name, method in table.items()}
    method_keys = {method: configuration_key(method_config) for method, method_config in method_configs.items()}
    with Store(":memory:" if execution.store is None else execution.store) as store:
        for each in (config, *method_configs.values()):
            store.add_configuration(configuration_key(each), each)
        stored = (row for method_key in method_keys.values() for row in store.rows(method_key))
        done = {(row.task, row.repeat, row.method) for row in stored if row.status != "failed"}
        scores = {} if scores is None else scores
        scores.update(store.scores(config_key))
        queue = JobQueue(study, tasks, done, scores, execution.client)
        if execution.verbose:
            print(queue.describe(execution, len(done)), file=sys.stderr)
        bar = progress("study", len(queue), execution.verbose, print_last=True, cost=queue.cost)
        with closing(queue.run(execution)) as completed, bar as advance:
            for cost, result in completed:
                advance(1, cost)
                if isinstance(result, dict):
                    store.add_scores(config_key, result)
                else:
                    for row, codes, probabilities in result:
                        if (row.task, row.repeat, row.method) not in done:
                            store.add(method_keys[row.method], row, codes, probabilities)
        rows = {
            (row.task, row.method, row.repeat): row
            for method_key in method_keys.values()
            for row in store.rows(method_key)
        }
        requested = list(product(tasks, table, range(protocol.repeats)))
        if not all((task.name, method, repeat) in rows for task, method, repeat in requested):
            raise ValueError(f"{execution.store} lacks results that were written to it: another program changed it.")
        for task, method, repeat in requested:
            place = (method_keys[method], method, task.name, repeat)
            yield Result(rows[task.name, method, repeat], store.predictions(*place), store.probabilities(*place))


def select_methods(names: str | Sequence[str] | None) -> dict[str, Method]:
    """Methods by name, in the order of the registry; None for all that are compared by default."""
    if names is None:
        names = method_names(in_comparison=True)
    elif isinstance(names, str):
        names = [names]
    methods = {method.name: method for method in parse_methods(names)}
    return {name: methods[name] for name in METHODS if name in methods} | methods


@dataclass(frozen=True)
class Study:
    """Data, protocol, preparation and methods: what every job needs."""

    samples: Samples
    protocol: Protocol
    preparation: Any
    table: dict[str, Method]
    keeps_probabilities: bool = False

    @property
    def config(self) -> EvaluationConfig:
        """How candidates are evaluated."""
        scoring = get_metric(self.protocol.metric).scoring
        return EvaluationConfig(self.preparation, scoring, self.protocol.balance)

    def cost(self, job: Job) -> float:
        """Estimated seconds of a job on one core of 2020, for decompositions, solutions and fits."""
        values_per_row = self.samples.X.shape[1] * len(self.samples.classes)
        registry = {**METHODS, **self.table}
        if isinstance(job, TestJob):
            n = self.protocol.train_size * float(np.isin(self.samples.domain, job.task.sources).sum())
            methods = [registry[name] for name in job.methods]
            n_kernels = sum(method.shares == "decomposition" for method in methods)
            n_solutions = n_kernels
            efforts = [method.relative_cost for method in methods if method.shares != "decomposition"]
        else:
            n = float(len(job.train))
            sharing = [one.settings.get("gamma") for one in job.candidates if one.shares == "decomposition"]
            n_kernels = len(set(map(str, sharing)))
            n_solutions = len(sharing)
            efforts = [registry[one.method].relative_cost for one in job.candidates if one.shares != "decomposition"]
        n_exact = min(n, EXACT_ROWS)
        decompositions = n_kernels * SECONDS_PER_CUBED_ROW * n_exact**3
        solutions = n_solutions * (1e-3 + SECONDS_PER_SQUARED_ROW * n_exact**2)
        fits = sum(efforts) * (1e-3 + SECONDS_PER_FITTED_VALUE * n * values_per_row)
        return decompositions + solutions + fits

    def decision_score_bytes(self, tasks: Sequence[Task]) -> int:
        """Estimated bytes of the decision scores of all candidates of ensembles in one repeat."""
        ensembles = [name for name, method in self.table.items() if method.members]
        n_rows = 0
        for task in tasks if ensembles else ():
            problem = self.problem(task, 0).selection_problem
            trials = problem.trials
            rows = sum(len(test) for _, test in problem.splits)
            nested_rows = sum(len(test) for _, test in trials.nested.values())
            for candidate in problem.ensemble_candidates(ensembles).values():
                n_batches = len(trials.batch_rows[0]) if candidate.transductive else 1
                n_rows += nested_rows + rows * n_batches
        return 8 * (len(self.samples.classes) + 1) * n_rows

    def problem(self, task: Task, repeat: int) -> Problem:
        """A task with the training rows of a repeat."""
        problem = make_problem(self.samples, task, repeat, self.protocol, self.preparation)
        # Further repeats draw other training rows; their probabilities would only take space.
        return replace(problem, methods=self.table, keeps_probabilities=self.keeps_probabilities and repeat == 0)


@dataclass(frozen=True)
class ValidationJob:
    """Evaluates candidates that share computations on validation splits with the same training rows.

    `ensemble_keys` are the keys of candidates of ensembles, whose decision scores are returned as well, also for the
    `resampled` test rows.
    """

    train: Ints
    tests: tuple[Ints, ...]
    candidates: tuple[Candidate, ...]
    ensemble_keys: frozenset[str] = frozenset()
    resampled: tuple[Ints, ...] = ()

    def run(self, study: Study) -> tuple[Scores, DecisionScores]:
        """Evaluate the candidates."""
        return evaluate_validation(
            self.candidates,
            study.samples,
            [(self.train, test) for test in self.tests],
            study.config,
            ensemble_keys=self.ensemble_keys,
            resampled=[(self.train, test) for test in self.resampled],
        )


@dataclass(frozen=True)
class TestJob:
    """Evaluates methods on the targets of a task, with settings selected by validation scores."""

    __test__ = False  # not a test class

    task: Task
    repeat: int
    methods: tuple[str, ...]
    scores: Scores = field(default_factory=dict, repr=False)
    decision_scores: DecisionScores | None = field(default=None, repr=False)  # None if ensembles must compute them

    def run(self, study: Study) -> list[Result]:
        """Select, fit and test: one row for each method, and its predictions where it worked."""
        problem = study.problem(self.task, self.repeat)
        seed = study.protocol.seed + self.repeat
        return result_rows(self.methods, problem, self.task.name, self.repeat, seed, self.scores, self.decision_scores)


Job = ValidationJob | TestJob


def run_job(study: Study, job: Job) -> tuple[float, tuple[Scores, DecisionScores] | list[Result]]:
    """Run a job, in this process or another; returns its estimated cost and its result."""
    with single_thread():
        return study.cost(job), job.run(study)


def run_function(function: Callable[[], T]) -> T:
    """Run a function with one thread, so that its bits do not depend on the process that runs it."""
    with single_thread():
        return function()


class JobQueue:
    """Jobs of a study, repeat by repeat: validation jobs that two tasks share are run once for both.

    A job has the same candidates, training rows and test rows in every run of a study, whatever an earlier run has
    completed: it is run as a whole or not at all. A matrix product over fewer rows, or a solution for fewer components,
    is rounded differently, so that a resumed run would give other bits than an uninterrupted one.
    """

    def __init__(
        self,
        study: Study,
        tasks: Sequence[Task],
        done: set[tuple[str, int, str]],
        scores: Scores,
        client: Any = None,
    ) -> None:
        self.study = study
        self.scores = scores
        self.decision_scores: DecisionScores = {}
        self.keeps_decision_scores = client is None and study.decision_score_bytes(tasks) <= MAX_SCORE_BYTES
        self.stages: list[list[Job]] = [[] for _ in range(study.protocol.repeats + 1)]
        for repeat in range(study.protocol.repeats):
            jobs = [
                TestJob(task, repeat, tuple(batch)) for task, batch in product(tasks, _sharing_methods(study.table))
            ]
            pending = [any((job.task.name, repeat, name) not in done for name in job.methods) for job in jobs]
            self.stages[repeat] += self._validation_jobs(jobs, pending)
            self.stages[repeat + 1] += compress(jobs, pending)  # beside the validation of the next repeat

    def __len__(self) -> int:
        return sum(map(len, self.stages))

    @property
    def cost(self) -> float:
        """Estimated cost of all jobs."""
        return sum(self.study.cost(job) for stage in self.stages for job in stage)

    def describe(self, execution: Execution, n_stored: int) -> str:
        """The number of jobs, and about how long they take."""
        stored = f"{n_stored:,} results kept from before. " if n_stored else ""
        text = f"study: {stored}{len(self):,} jobs"
        if execution.client is not None:
            return f"{text} on the cluster."
        n_jobs = effective_n_jobs(execution.n_jobs)
        seconds = _machine_slowness() * self.cost / n_jobs
        text += f" in {n_jobs} process{'es' * (n_jobs > 1)}"
        if len(self):
            text += f", about {format_duration(seconds)}"
        if seconds <= LONG_RUN_SECONDS:
            return f"{text}."
        return f"{text}. Fewer samples of each domain, fewer methods or quick grids shorten it."

    def _validation_jobs(self, jobs: Sequence[TestJob], pending: Sequence[bool]) -> Iterator[ValidationJob]:
        """The validation that pending test jobs need, as far as its results are not stored."""
        if not any(pending):
            return
        groups: dict[tuple[str, Hashable], _ValidationGroup] = {}
        for job, is_pending in zip(jobs, pending, strict=True):
            problem = self.study.problem(job.task, job.repeat)
            names = problem.runnable(job.methods)
            problem = problem.selection_problem
            in_ensembles: Mapping[str, Candidate] = {}
            if self.keeps_decision_scores:
                in_ensembles = problem.ensemble_candidates(names)
            else:  # ensembles evaluate their candidates themselves
                names = [name for name in names if not self.study.table[name].members]
            candidates = {one.key: one for name in names for one in problem.candidates(name)}
            nested = [*problem.trials.nested.values()] if in_ensembles else []
            for k, split in enumerate([*problem.splits, *nested] if candidates else ()):
                is_nested = k >= len(problem.splits)  # nested splits serve ensembles only
                train_id, test_id = split_id(split)
                stored = self.scores.get((train_id, test_id), {})
                for batch in group_by((in_ensembles if is_nested else candidates).values(), _sharing_key):
                    group = groups.setdefault((train_id, _sharing_key(batch[0])), _ValidationGroup(split[0]))
                    group.tests[test_id] = split[1]
                    group.candidates.update((one.key, one) for one in batch)
                    group.ensemble_keys.update(one.key for one in batch if one.key in in_ensembles)
                    if not is_nested and any(one.transductive for one in batch if one.key in in_ensembles):
                        group.resampled[test_id] = [split[1][rows] for rows in problem.trials.batch_rows[k][1:]]
                    if is_pending and any(one.key not in stored or one.key in in_ensembles for one in batch):
                        group.is_pending = True
        yield from (group.to_job() for group in groups.values() if group.is_pending)

    def run(self, execution: Execution) -> Generator[tuple[float, Scores | list[Result]], None, None]:
        """Estimated costs and results of jobs, in order of completion."""
        for stage in self.stages:
            jobs = [self._with_scores(job) if isinstance(job, TestJob) else job for job in stage]
            jobs.sort(key=self.study.cost, reverse=True)  # a long job at the end would run alone
            self.decision_scores = {}  # test jobs of this stage hold those of the stage before
            with closing(_run_jobs(self.study, jobs, execution)) as completed:
                for cost, result in completed:
                    if isinstance(result, SideResult) and execution.side_task is not None:
                        execution.side_task.set_result(result.value)
                    elif isinstance(result, tuple):
                        scores, decision_scores = result
                        for split, by_key in scores.items():
                            self.scores.setdefault(split, {}).update(by_key)
                        for split, predictions in decision_scores.items():
                            self.decision_scores.setdefault(split, {}).update(predictions)
                        yield cost, scores
                    else:
                        yield cost, result

    def _with_scores(self, job: TestJob) -> TestJob:
        """A test job with the validation scores that it needs."""
        problem = self.study.problem(job.task, job.repeat).selection_problem
        split_ids = map(split_id, problem.splits)
        decision_scores = None
        has_ensemble = any(self.study.table[name].members for name in job.methods)
        if self.keeps_decision_scores and has_ensemble:
            trial_ids = map(split_id, problem.trials.splits)
            decision_scores = {trial: self.decision_scores.get(trial, {}) for trial in trial_ids}
        scores = {split: self.scores[split] for split in split_ids if split in self.scores}
        return replace(job, scores=scores, decision_scores=decision_scores)


@dataclass
class _ValidationGroup:
    """Candidates and splits of a validation job, while these are collected."""

    train: Ints
    tests: dict[str, Ints] = field(default_factory=dict)
    resampled: dict[str, list[Ints]] = field(default_factory=dict)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    ensemble_keys: set[str] = field(default_factory=set)
    is_pending: bool = False

    def to_job(self) -> ValidationJob:
        resampled = tuple(rows for batches in self.resampled.values() for rows in batches)
        candidates = tuple(self.candidates.values())
        return ValidationJob(
            self.train, tuple(self.tests.values()), candidates, frozenset(self.ensemble_keys), resampled
        )


def _sharing_methods(table: dict[str, Method]) -> list[list[str]]:
    """Names of methods, grouped by shared computations; ensembles share models with their members."""
    members = {member.name for method in table.values() for member in method.members}
    return group_by(table, lambda name: table[name].shares == "decomposition" or name in members or name)


def _sharing_key(candidate: Candidate) -> Hashable:
    return candidate.shares == "decomposition" or candidate.method


@dataclass(frozen=True)
class SideResult:
    """The result of a side task, which a process returns among those of jobs."""

    value: Any


def _run_side_task(function: Callable[[], Any]) -> tuple[float, SideResult]:
    return 0.0, SideResult(run_function(function))


def _run_jobs(study: Study, jobs: Sequence[Job], execution: Execution) -> Any:
    """A generator of the results of jobs in order of completion, from local processes or from a cluster."""
    if execution.client is not None and jobs:
        return map_on_cluster(partial(run_job, study), jobs, execution.client, max_pending=len(jobs), ordered=False)
    calls = [delayed(run_job)(study, job) for job in jobs]
    side_task = execution.side_task
    # Without other jobs, a process would take longer to start than the side task.
    if side_task is not None and not side_task.is_done and jobs and effective_n_jobs(execution.n_jobs) > 1:
        calls.insert(0, delayed(_run_side_task)(side_task.function))
    return parallel(execution.n_jobs, ordered=False)(calls)


def _machine_slowness() -> float:
    """How many times longer than the core of the cost figures this machine takes, by a short measurement."""
    K = np.random.default_rng(0).normal(size=(PROBE_ROWS, PROBE_ROWS))
    return min(timeit.repeat(lambda: linalg.eigh(K), number=1, repeat=3)) / PROBE_SECONDS


def make_problem(samples: Samples, task: Task, repeat: int, protocol: Protocol, preparation: Any = None) -> Problem:
    """The training rows of a repeat, the target rows, and the validation splits."""
    train, test = protocol.draw_split(samples, task, repeat)
    return Problem(
        samples,
        train,
        test,
        splits=protocol.validation_splits(samples, train, test, repeat),
        preparation=PREPROCESSORS[protocol.preprocess] if preparation is None else preparation,
        centering=protocol.centering,
        heads=protocol.heads,
        quick=protocol.quick,
        grid=protocol.grid,
        scoring=get_metric(protocol.metric).scoring,
        balance=protocol.balance,
    )


def result_rows(
    methods: Sequence[str],
    problem: Problem,
    task: str,
    repeat: int,
    seed: int,
    scores: Scores | None = None,
    decision_scores: DecisionScores | None = None,
) -> list[Result]:
    """Evaluate methods on a problem; a failure keeps its reason."""
    truth = problem.samples.codes[problem.test]
    machine = environment_info()
    results = []
    for outcome in evaluate_methods(methods, problem, scores, decision_scores):
        score = None
        if outcome.codes is not None:
            if problem.scoring == "accuracy":
                score = float(np.mean(outcome.codes == truth))
            else:
                score = float(np.mean([*outcome.scores.values()]))
        row = Row(
            method=outcome.method,
            kind=problem.methods[outcome.method].kind,
            task=task,
            repeat=repeat,
            seed=seed,
            accuracy=score if score is not None and np.isfinite(score) else None,
            accuracies=outcome.scores,
            validation=outcome.validation,
            settings=outcome.settings,
            ties=outcome.ties,
            transductive=outcome.transductive,
            seconds=outcome.seconds,
            status=outcome.status,
            reason=outcome.reason,
            machine=machine,
        )
        results.append(Result(row, outcome.codes, outcome.probabilities))
    return results
