"""Running a comparison: every task, repeat and method once, in any number of sittings."""

from __future__ import annotations

import sys
import timeit
from collections.abc import Generator, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress, product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import delayed, effective_n_jobs  # type: ignore[import-untyped, unused-ignore]
from scipy import linalg
from sklearn.utils import check_array, check_consistent_length

from ..estimators import map_on_cluster, parallel
from ..kernels import EXACT_ROWS
from ..linalg import Ints
from ..model_selection import (
    METHODS,
    Candidate,
    Method,
    get_metric,
    group_by,
    method_names,
    parse_methods,
    single_thread,
)
from ..utils.environment import environment_info
from ..utils.progress import format_duration, progress
from ..utils.samples import Samples
from ._method_evaluation import Problem, ScoresByCandidate, evaluate_methods, evaluate_validation, split_id
from ._protocol import PREPROCESSORS, Protocol, Task, configuration, key, with_method
from ._store import Row, Scores, Store

Result = tuple[Row, Ints | None]  # and the predicted classes of the targets' samples, as positions among all classes


@dataclass(frozen=True)
class Execution:
    """Where results are kept and who computes them: a file, processes here or the workers of a Dask client."""

    store: str | Path | None = None  # None keeps nothing
    n_jobs: int | None = None
    verbose: int = 0
    client: Any = None


LOCAL_EXECUTION = Execution()
# Seconds on one core: of a decomposition for the cube of the rows, of a solution for their square, of a fit for the
# product of rows, columns and classes. They order the work and tell about how long it takes.
SECONDS_PER_CUBED_ROW, SECONDS_PER_SQUARED_ROW, SECONDS_PER_FITTED_VALUE = 1.2e-10, 5e-9, 5e-8
PROBE_ROWS, PROBE_SECONDS = (
    300,
    8e-3,
)  # rows of a decomposition that tells how fast a machine is, and what it takes on that core
MAX_SCORE_BYTES = (
    2**31
)  # bytes of votes that are kept for pools; if there are more, each pool asks for itself, and fits anew
LONG_RUN_SECONDS = 300  # seconds beyond which it is told what makes a study short


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
        What to train and test on, such as ``unseen.study.tasks(names)``.
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
    >>> from unseen.study import Protocol, run, tasks
    >>> data = make_synthetic(random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = run(
    ...         data.data,
    ...         data.target,
    ...         data.domain,
    ...         tasks(data.domain_names),
    ...         store=Path(folder, "results.sqlite"),
    ...         protocol=Protocol(repeats=2, quick=True),
    ...         methods=["1NN", "logistic"],
    ...     )
    >>> len(rows), {row.status for row in rows}
    (12, {'ok'})
    """
    finite = preprocessor is None or "allow-nan"  # a preprocessor may fill in what is missing
    X = check_array(X, dtype=np.float64, input_name="X", ensure_all_finite=finite)
    samples = Samples(X, np.asarray(y), np.asarray(domain).astype(str))
    check_consistent_length(X, samples.y, samples.domain)
    work = Execution(store, n_jobs, verbose, client)
    return [row for row, _ in all_results(samples, tasks, protocol or Protocol(), preprocessor, methods, work)]


def all_results(
    samples: Samples,
    tasks: Sequence[Task],
    protocol: Protocol,
    preprocessor: Any = None,
    methods: str | Sequence[str] | None = None,
    work: Execution = LOCAL_EXECUTION,
    known: Scores | None = None,
) -> Iterator[Result]:
    """The rows of `run` and what each predicted; samples of a target are in the order of the data.

    What the validation finds is put into `known`.
    """
    table = select_methods(methods)
    if not table or not tasks:
        raise ValueError(f"There must be at least one method and one task; got {len(table)} and {len(tasks)}.")
    missing = {name for task in tasks for name in (*task.sources, *task.targets)} - set(samples.domain.tolist())
    if missing:
        raise ValueError(f"Tasks name domains that the data do not have: {', '.join(sorted(missing))}.")
    preparation = PREPROCESSORS[protocol.preprocess] if preprocessor is None else preprocessor
    study = Study(samples, protocol, preparation, table)
    config = configuration(samples, protocol, preparation)
    configs = {method: with_method(config, table[method], len(samples.classes)) for method in table}
    name, names = key(config), {method: key(each) for method, each in configs.items()}
    with Store(":memory:" if work.store is None else work.store) as results:
        for each in (config, *configs.values()):
            results.open_configuration(key(each), each)
        kept = (row for own in names.values() for row in results.rows(own))
        done = {(row.task, row.repeat, row.method) for row in kept if row.status != "failed"}
        known = {} if known is None else known
        known.update(results.scores(name))
        todo = JobQueue(study, tasks, done, known, work.client)
        if work.verbose:
            print(todo.told(work, len(done)), file=sys.stderr)
        shown = progress("study", len(todo), work.verbose, print_last=True, cost=todo.cost)
        with closing(todo.worked(work)) as found, shown as advance:
            for cost, part in found:
                advance(1, cost)
                if isinstance(part, dict):
                    results.add_scores(name, part)
                else:
                    for row, predicted in part:
                        if (row.task, row.repeat, row.method) not in done:
                            results.add(names[row.method], row, predicted)
        rows = {(row.task, row.method, row.repeat): row for own in names.values() for row in results.rows(own)}
        wanted = list(product(tasks, table, range(protocol.repeats)))
        if not all((task.name, method, repeat) in rows for task, method, repeat in wanted):
            raise ValueError(f"{work.store} does not keep what is written to it: something else has changed it.")
        for task, method, repeat in wanted:
            yield rows[task.name, method, repeat], results.predicted(names[method], method, task.name, repeat)


def select_methods(names: str | Sequence[str] | None) -> dict[str, Method]:
    """Methods by their names, in the order of the table; None for all that are meant for comparisons."""
    wanted = method_names(compared=True) if names is None else [names] if isinstance(names, str) else names
    found = {method.name: method for method in parse_methods(wanted)}
    return {name: found[name] for name in METHODS if name in found} | found


@dataclass(frozen=True)
class Study:
    """What every piece of the work needs to know."""

    samples: Samples
    protocol: Protocol
    preparation: Any
    table: dict[str, Method]

    @property
    def how(self) -> dict[str, Any]:
        """How predictions are made, and for whom."""
        scoring = get_metric(self.protocol.metric).scoring
        return {"preparation": self.preparation, "scoring": scoring, "balance": self.protocol.balance}

    def cost(self, unit: Job) -> float:
        """About how many seconds a piece of work takes on a core of 2020: decompositions, solutions, fits."""
        shape, known = self.samples.X.shape[1] * len(self.samples.classes), {**METHODS, **self.table}
        if isinstance(unit, TestJob):
            n = self.protocol.train_size * float(np.isin(self.samples.domain, unit.task.sources).sum())
            asked: Sequence[Any] = [known[name] for name in unit.methods]
            kernels = solutions = sum(method.shares == "decomposition" for method in asked)
            efforts = [method.effort for method in asked if method.shares != "decomposition"]
        else:
            n, asked = float(len(unit.train)), unit.candidates
            sharing = [one.settings.get("gamma") for one in asked if one.shares == "decomposition"]
            kernels, solutions = len(set(map(str, sharing))), len(sharing)
            efforts = [known[one.method].effort for one in asked if one.shares != "decomposition"]
        most = min(n, EXACT_ROWS)
        shared = kernels * SECONDS_PER_CUBED_ROW * most**3 + solutions * (1e-3 + SECONDS_PER_SQUARED_ROW * most**2)
        return shared + sum(efforts) * (1e-3 + SECONDS_PER_FITTED_VALUE * n * shape)

    def votes(self, tasks: Sequence[Task]) -> int:
        """About how many bytes the votes of all candidates of pools take in one repeat."""
        total, pools = 0, [name for name, method in self.table.items() if method.members]
        for task in tasks if pools else ():
            choosing = self.problem(task, 0).choosing
            trials, asked = choosing.trials, choosing.voting(pools).values()
            rows = sum(len(test) for _, test in choosing.splits)
            nested = sum(len(test) for _, test in trials.nested.values())
            total += sum(nested + rows * (len(trials.rows[0]) if one.transductive else 1) for one in asked)
        return 8 * (len(self.samples.classes) + 1) * total

    def problem(self, task: Task, repeat: int) -> Problem:
        """A task, with the draw of a repeat."""
        found = make_problem(self.samples, task, repeat, self.protocol, self.preparation)
        return replace(found, methods=self.table)


@dataclass(frozen=True)
class ValidationJob:
    """A piece of work: how candidates that share their computations do on splits that train on the same rows."""

    train: Ints
    tests: tuple[Ints, ...]
    candidates: tuple[Candidate, ...]
    voting: frozenset[str] = frozenset()  # of whom a pool wants to know how they vote, also on what is drawn again
    drawn: tuple[Ints, ...] = ()

    def result(self, study: Study) -> tuple[Scores, ScoresByCandidate]:
        """Score them, and let them vote."""
        splits, drawn = ([(self.train, test) for test in tests] for tests in (self.tests, self.drawn))
        return evaluate_validation(self.candidates, study.samples, splits, self.voting, drawn, **study.how)


@dataclass(frozen=True)
class TestJob:
    """A piece of work: some methods on the targets of a task, with settings chosen by what the validation has found."""

    task: Task
    repeat: int
    methods: tuple[str, ...]
    known: Scores = field(default_factory=dict, repr=False)
    votes: ScoresByCandidate | None = field(default=None, repr=False)  # None if a pool has to ask for them itself

    def result(self, study: Study) -> list[Result]:
        """Choose, fit, test: one row for each method, and its predictions where it worked."""
        problem, seed = study.problem(self.task, self.repeat), study.protocol.seed + self.repeat
        about = self.task.name, self.repeat, seed
        return result_rows(self.methods, problem, *about, self.known, self.votes)


Job = ValidationJob | TestJob


def run_job(study: Study, unit: Job) -> tuple[float, tuple[Scores, ScoresByCandidate] | list[Result]]:
    """Do a piece of work, here or elsewhere; what it was thought to cost, and what came of it."""
    with single_thread():
        return study.cost(unit), unit.result(study)


class JobQueue:
    """Pieces of work, repeat by repeat: the choices that two tasks have in common are made once for both.

    A piece of work has the same candidates, training rows and test rows in every run of a study, whatever an earlier
    run has done: it is run as a whole or not at all. A matrix product over fewer rows, or a solution for fewer
    components, is rounded differently, so that a resumed run would give other bits than an uninterrupted one.
    """

    def __init__(
        self,
        study: Study,
        tasks: Sequence[Task],
        done: set[tuple[str, int, str]],
        known: Scores,
        client: Any = None,
    ) -> None:
        self.study = study
        self.known = known
        self.votes: ScoresByCandidate = {}
        self.remembers = client is None and study.votes(tasks) <= MAX_SCORE_BYTES
        self.stages: list[list[Job]] = [[] for _ in range(study.protocol.repeats + 1)]
        for repeat in range(study.protocol.repeats):
            trials = [TestJob(task, repeat, tuple(batch)) for task, batch in product(tasks, _batches(study.table))]
            pending = [any((t.task.name, repeat, name) not in done for name in t.methods) for t in trials]
            self.stages[repeat] += self._choices(trials, pending)
            self.stages[repeat + 1] += compress(trials, pending)  # while the next repeat is being chosen for

    def __len__(self) -> int:
        return sum(map(len, self.stages))

    @property
    def cost(self) -> float:
        """What all pieces cost together."""
        return sum(self.study.cost(unit) for stage in self.stages for unit in stage)

    def told(self, work: Execution, kept: int) -> str:
        """What will be done, and about how long it takes."""
        told = f"study: {kept:,} results kept from before. " if kept else "study: "
        told += f"{len(self):,} pieces of work"
        if work.client is not None:
            return f"{told} on the cluster."
        jobs = effective_n_jobs(work.n_jobs)
        told, seconds = f"{told} in {jobs} process{'es' * (jobs > 1)}", _machine_slowness() * self.cost / jobs
        told += f", about {format_duration(seconds)}" if len(self) else ""
        short = "Fewer samples of each domain (max_per_domain), fewer methods or quick grids make it short."
        return f"{told}. {short}" if seconds > LONG_RUN_SECONDS else f"{told}."

    def _choices(self, trials: Sequence[TestJob], pending: Sequence[bool]) -> Iterator[ValidationJob]:
        """The validation that pending trials need, as far as its results are not known."""
        if not any(pending):
            return
        units: dict[tuple[str, Hashable], _Validation] = {}
        for trial, is_pending in zip(trials, pending, strict=True):
            problem = self.study.problem(trial.task, trial.repeat)
            choosing, able = problem.choosing, problem.able(trial.methods)
            voting = choosing.voting(able) if self.remembers else {}
            pools = [] if self.remembers else [name for name in able if self.study.table[name].members]
            candidates = {one.key: one for name in able if name not in pools for one in choosing.candidates(name)}
            nested = [*choosing.trials.nested.values()] if voting else []
            for k, split in enumerate([*choosing.splits, *nested] if candidates else ()):
                train, test = split_id(split)
                known = self.known.get((train, test), {})
                requested = candidates if k < len(choosing.splits) else voting  # nested splits serve ensembles only
                for batch in group_by(requested.values(), _sharing):
                    unit = units.setdefault((train, _sharing(batch[0])), _Validation(split[0]))
                    unit.tests[test] = split[1]
                    unit.candidates.update((one.key, one) for one in batch)
                    if k < len(choosing.splits) and any(one.transductive for one in batch if one.key in voting):
                        unit.drawn[test] = [split[1][rows] for rows in choosing.trials.rows[k][1:]]
                    unit.voting.update(one.key for one in batch if one.key in voting)
                    if is_pending and any(one.key not in known or one.key in voting for one in batch):
                        unit.is_pending = True
        yield from (unit.choice for unit in units.values() if unit.is_pending)

    def worked(self, work: Execution) -> Generator[tuple[float, Scores | list[Result]], None, None]:
        """What comes of the pieces of work, as they are done, and what they cost."""
        for stage in self.stages:
            units = [self._told(unit) if isinstance(unit, TestJob) else unit for unit in stage]
            units.sort(key=self.study.cost, reverse=True)  # a large one at the end would be waited for by all others
            self.votes = {}  # whoever needs those of the stage before has them
            with closing(_completed(self.study, units, work)) as found:
                for cost, part in found:
                    if isinstance(part, tuple):
                        part, votes = part
                        for known, more in ((self.known, part), (self.votes, votes)):
                            for split, own in more.items():
                                known.setdefault(split, {}).update(own)
                    yield cost, part

    def _told(self, trial: TestJob) -> TestJob:
        """A trial with what it must know."""
        choosing = self.study.problem(trial.task, trial.repeat).choosing
        splits, votes = map(split_id, choosing.splits), None
        pools = any(self.study.table[name].members for name in trial.methods)
        if self.remembers and pools:
            votes = {at: self.votes.get(at, {}) for at in map(split_id, choosing.trials.splits)}
        return replace(trial, known={at: self.known[at] for at in splits if at in self.known}, votes=votes)


@dataclass
class _Validation:
    """What trials need that train on the same rows, as it is gathered."""

    train: Ints
    tests: dict[str, Ints] = field(default_factory=dict)
    drawn: dict[str, list[Ints]] = field(default_factory=dict)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    voting: set[str] = field(default_factory=set)
    is_pending: bool = False

    @property
    def choice(self) -> ValidationJob:
        drawn = tuple(rows for parts in self.drawn.values() for rows in parts)
        candidates = tuple(self.candidates.values())
        return ValidationJob(self.train, tuple(self.tests.values()), candidates, frozenset(self.voting), drawn)


def _batches(table: dict[str, Method]) -> list[list[str]]:
    """Methods that share their computations."""
    return group_by(table, lambda name: table[name].shares == "decomposition" or name)


def _sharing(candidate: Candidate) -> Hashable:
    return candidate.shares == "decomposition" or candidate.method


def _completed(study: Study, units: Sequence[Job], work: Execution) -> Any:
    """A generator of the results of units, as they are done: by processes here, or by the workers of a cluster."""
    if work.client is not None and units:
        return map_on_cluster(partial(run_job, study), units, work.client, ahead=len(units), ordered=False)
    return parallel(work.n_jobs, ordered=False)(delayed(run_job)(study, unit) for unit in units)


def _machine_slowness() -> float:
    """How many times longer than the machine of the costs this one takes, by a short probe."""
    K = np.random.default_rng(0).normal(size=(PROBE_ROWS, PROBE_ROWS))
    return min(timeit.repeat(lambda: linalg.eigh(K), number=1, repeat=3)) / PROBE_SECONDS


def make_problem(samples: Samples, task: Task, repeat: int, protocol: Protocol, preparation: Any = None) -> Problem:
    """Draw the training data of a repeat, and lay down the splits that choose the settings."""
    train, test = protocol.draw(samples, task, repeat)
    splits = protocol.validation(samples, train, test, repeat)
    prepare = PREPROCESSORS[protocol.preprocess] if preparation is None else preparation
    grids = protocol.centering, protocol.quick, protocol.grid == "lean"
    return Problem(samples, train, test, splits, prepare, *grids, get_metric(protocol.metric).scoring, protocol.balance)


def result_rows(
    methods: Sequence[str],
    problem: Problem,
    task: str,
    repeat: int,
    seed: int,
    known: Scores | None = None,
    votes: ScoresByCandidate | None = None,
) -> list[Result]:
    """Run some methods on a problem and score what they predict; a failure keeps its reason."""
    truth, sampled = problem.samples.codes[problem.test], problem.scoring == "accuracy"
    about: dict[str, Any] = {"task": task, "repeat": repeat, "seed": seed, "machine": environment_info()}
    kinds = {name: problem.methods[name].kind for name in methods}
    rows = []
    for found in map(vars, evaluate_methods(methods, problem, known, votes)):
        told = {name: value for name, value in found.items() if name not in ("codes", "scores")}
        codes, scores, score = found["codes"], found["scores"], None
        if codes is not None:
            score = float(np.mean(codes == truth) if sampled else np.mean([*scores.values()]))
            score = score if np.isfinite(score) else None
        row = Row(accuracy=score, accuracies=scores, kind=kinds[found["method"]], **told, **about)
        rows.append((row, codes))
    return rows
