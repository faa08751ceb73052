"""Running a comparison: every task, repeat and method once, in any number of sittings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.parallel import delayed

from ..algebra import Array, Ints
from ..estimators import mapped, processes
from ..labels import Labels
from ..models import machine_facts
from ..progress import track
from ._methods import BATCHES, METHODS, Outcome, Problem, Skipped, all_grids
from ._outcomes import outcomes
from ._protocol import PREPROCESSORS, Protocol, configuration, key
from ._store import Row, Store
from ._tasks import Task

Unit = tuple[Task, int, tuple[str, ...]]


def run(
    X: Any,
    y: Any,
    domain: Any,
    tasks: Sequence[Task],
    *,
    store: str | Path,
    protocol: Protocol | None = None,
    preprocessor: Any = None,
    methods: Sequence[str] = METHODS,
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
    methods : sequence of str, default=METHODS
        Which methods.
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
    protocol = protocol or Protocol()
    finite = preprocessor is None or "allow-nan"  # a preprocessor may fill in what is missing
    X = check_array(X, dtype=np.float64, input_name="X", ensure_all_finite=finite)
    y, domain = np.asarray(y), np.asarray(domain).astype(str)
    check_consistent_length(X, y, domain)
    methods = named(methods)
    _check(methods, tasks, domain)
    codes = np.unique(y, return_inverse=True)[1]
    config = _configuration(X, y, domain, protocol, preprocessor)
    name = key(config)
    with Store(store) as results:
        results.open_configuration(name, config)
        done = {(row.task, row.repeat, row.method) for row in results.rows(name) if row.status == "ok"}
        todo = list(_units(tasks, protocol.repeats, methods, done))
        with closing(_done(todo, (X, codes, domain, protocol, preprocessor), n_jobs, client)) as found:
            for rows in track(found, len(todo), "study", verbose):
                for row, predicted in rows:
                    results.add(name, row, predicted)
        rows = {(row.task, row.method, row.repeat): row for row in results.rows(name)}
        chosen = [m for m in METHODS if m in methods]
        return [rows[t.name, m, r] for t in tasks for m in chosen for r in range(protocol.repeats)]


def named(methods: str | Sequence[str]) -> list[str]:
    """Names of methods as the tables have them, however they were capitalised."""
    wanted = [methods] if isinstance(methods, str) else list(methods)
    proper = {method.lower(): method for method in METHODS}
    return [proper.get(method.lower(), method) for method in wanted]


def predictions(
    rows: Sequence[Row],
    X: Any,
    y: Any,
    domain: Any,
    *,
    store: str | Path,
    protocol: Protocol | None = None,
    preprocessor: Any = None,
) -> dict[tuple[str, str, int], Ints]:
    """What each row of a run predicted, by (method, task, repeat): positions among the sorted classes of `y`.

    The other arguments are those of the `run` that gave the rows; samples of a target are in the order of the data.
    """
    arrays = np.asarray(X, dtype=np.float64), np.asarray(y), np.asarray(domain).astype(str)
    name = key(_configuration(*arrays, protocol or Protocol(), preprocessor))
    with Store(store) as results:
        found = {(r.method, r.task, r.repeat): results.predicted(name, r.method, r.task, r.repeat) for r in rows}
    return {at: codes for at, codes in found.items() if codes is not None}


def _configuration(X: Array, y: Labels, domain: Labels, protocol: Protocol, preprocessor: Any) -> dict[str, Any]:
    how = PREPROCESSORS[protocol.preprocess] if preprocessor is None else preprocessor
    return configuration(protocol, how, all_grids(len(np.unique(y))), X, y, domain)


def _check(methods: Sequence[str], tasks: Sequence[Task], domain: Labels) -> None:
    if not methods or not tasks:
        raise ValueError(f"There must be at least one method and one task; got {len(methods)} and {len(tasks)}.")
    unknown = [method for method in methods if method not in METHODS]
    if unknown:
        raise ValueError(f"There is no method {unknown[0]!r}; there are {', '.join(METHODS)}.")
    missing = {name for task in tasks for name in (*task.sources, *task.targets)} - set(domain.tolist())
    if missing:
        raise ValueError(f"Tasks name domains that the data do not have: {', '.join(sorted(missing))}.")


def _units(tasks: Sequence[Task], repeats: int, methods: Sequence[str], done: set[tuple[str, int, str]]) -> list[Unit]:
    """Pieces of work: one task, one repeat, and methods that share their computations."""
    units = []
    for repeat in range(repeats):
        for task in tasks:
            for batch in BATCHES:
                missing = tuple(m for m in batch if m in methods and (task.name, repeat, m) not in done)
                if missing:
                    units.append((task, repeat, missing))
    return units


def _done(todo: Sequence[Unit], about: tuple[Any, ...], n_jobs: int | None, client: Any) -> Any:
    """A generator of the results of units, in their order: by processes here, or by the workers of a cluster."""
    if client is not None and todo:
        return mapped(partial(run_unit, *about), todo, client, ahead=len(todo))
    return processes(n_jobs)(delayed(run_unit)(*about, unit) for unit in todo)


def run_unit(
    X: Any, y: Labels, domain: Labels, protocol: Protocol, preprocessor: Any, unit: Unit
) -> list[tuple[Row, Ints | None]]:
    """Draw, preprocess, choose, fit, test: one row for each method, and its predictions where it worked."""
    task, repeat, methods = unit
    problem = problem_of(X, y, domain, task, repeat, protocol, preprocessor)
    facts = machine_facts()
    return [
        (
            as_row(outcome, problem, task.name, repeat, protocol.seed + repeat, facts),
            outcome.predictions if isinstance(outcome, Outcome) else None,
        )
        for outcome in outcomes(methods, problem)
    ]


def problem_of(
    X: Any, y: Labels, domain: Labels, task: Task, repeat: int, protocol: Protocol, preprocessor: Any = None
) -> Problem:
    """Draw the training data of a repeat, preprocess, and lay down the splits that choose the settings."""
    train, test = protocol.draw(y, domain, task, repeat)
    prepare = clone(PREPROCESSORS[protocol.preprocess] if preprocessor is None else preprocessor).fit(X[train])
    order = np.concatenate([train, test])
    return Problem(
        prepare.transform(X[order]),
        y[order],
        domain[order],
        slice(0, len(train)),
        slice(len(train), None),
        protocol.validation(y, domain, train, test, repeat),
        protocol.centering,
        protocol.quick,
    )


def as_row(
    outcome: Outcome | Skipped | tuple[str, str],
    problem: Problem,
    task: str,
    repeat: int,
    seed: int,
    facts: dict[str, Any],
) -> Row:
    """Score the predictions of an outcome; a failure keeps its reason."""
    if not isinstance(outcome, Outcome):
        skipped = isinstance(outcome, Skipped)
        method, reason = (outcome.method, outcome.reason) if isinstance(outcome, Skipped) else outcome
        status = "skipped" if skipped else "failed"
        return Row(method, task, repeat, seed, None, {}, None, {}, 0, False, 0.0, status, reason, facts)
    correct = outcome.predictions == problem.y[problem.test]
    domains = problem.domain[problem.test]
    return Row(
        outcome.method,
        task,
        repeat,
        seed,
        float(correct.mean()),
        {str(name): float(correct[domains == name].mean()) for name in np.unique(domains)},
        outcome.validation,
        outcome.settings,
        outcome.ties,
        outcome.transductive,
        outcome.seconds,
        "ok",
        "",
        facts,
    )
