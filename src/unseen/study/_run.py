"""Running a comparison: every task, repeat and method once, in any number of sittings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.parallel import delayed

from ..algebra import Ints
from ..estimators import mapped, processes
from ..labels import Samples
from ..models import machine_facts
from ..progress import track
from ..selection import METHODS, Method, method_named, method_names
from ._outcomes import Outcome, Problem, outcomes
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
    protocol = protocol or Protocol()
    finite = preprocessor is None or "allow-nan"  # a preprocessor may fill in what is missing
    X = check_array(X, dtype=np.float64, input_name="X", ensure_all_finite=finite)
    samples = Samples(X, np.asarray(y), np.asarray(domain).astype(str))
    check_consistent_length(X, samples.y, samples.domain)
    table = methods_of(methods)
    _check(table, tasks, samples)
    config = _configuration(samples, protocol, preprocessor)
    name = key(config)
    with Store(store) as results:
        results.open_configuration(name, config)
        done = {(row.task, row.repeat, row.method) for row in results.rows(name) if row.status == "ok"}
        todo = list(_units(tasks, protocol.repeats, table, done))
        with closing(_done(todo, (samples, protocol, preprocessor, table), n_jobs, client)) as found:
            for rows in track(found, len(todo), "study", verbose):
                for row, predicted in rows:
                    results.add(name, row, predicted)
        rows = {(row.task, row.method, row.repeat): row for row in results.rows(name)}
        return [rows[t.name, m, r] for t in tasks for m in table for r in range(protocol.repeats)]


def methods_of(names: str | Sequence[str] | None) -> dict[str, Method]:
    """Methods by their names, in the order of the table; None for all that are meant for comparisons."""
    wanted = method_names(compared=True) if names is None else [names] if isinstance(names, str) else names
    known = {method_named(name).name for name in wanted}
    return {name: method for name, method in METHODS.items() if name in known}


def stored_predictions(
    rows: Sequence[Row], samples: Samples, *, store: str | Path, protocol: Protocol, preprocessor: Any = None
) -> dict[tuple[str, str, int], Ints]:
    """What each row of a run predicted, by (method, task, repeat): positions among the classes of the samples.

    The other arguments are those of the `run` that gave the rows; samples of a target are in the order of the data.
    """
    name = key(_configuration(samples, protocol, preprocessor))
    with Store(store) as results:
        found = {(r.method, r.task, r.repeat): results.predicted(name, r.method, r.task, r.repeat) for r in rows}
    return {at: codes for at, codes in found.items() if codes is not None}


def _configuration(samples: Samples, protocol: Protocol, preprocessor: Any) -> dict[str, Any]:
    how = PREPROCESSORS[protocol.preprocess] if preprocessor is None else preprocessor
    grids = {name: method.settings(len(samples.classes)) for name, method in METHODS.items() if method.compared}
    return configuration(protocol, how, grids, samples)


def _check(table: dict[str, Method], tasks: Sequence[Task], samples: Samples) -> None:
    if not table or not tasks:
        raise ValueError(f"There must be at least one method and one task; got {len(table)} and {len(tasks)}.")
    missing = {name for task in tasks for name in (*task.sources, *task.targets)} - set(samples.domain.tolist())
    if missing:
        raise ValueError(f"Tasks name domains that the data do not have: {', '.join(sorted(missing))}.")


def _units(
    tasks: Sequence[Task], repeats: int, table: dict[str, Method], done: set[tuple[str, int, str]]
) -> list[Unit]:
    """Pieces of work: one task, one repeat, and methods that share their computations."""
    batches: dict[str, list[str]] = {}
    for name, method in table.items():
        batches.setdefault(method.shares if method.shares == "decomposition" else name, []).append(name)
    units = []
    for repeat in range(repeats):
        for task in tasks:
            for batch in batches.values():
                missing = tuple(name for name in batch if (task.name, repeat, name) not in done)
                if missing:
                    units.append((task, repeat, missing))
    return units


def _done(todo: Sequence[Unit], about: tuple[Any, ...], n_jobs: int | None, client: Any) -> Any:
    """A generator of the results of units, in their order: by processes here, or by the workers of a cluster."""
    if client is not None and todo:
        return mapped(partial(run_unit, *about), todo, client, ahead=len(todo))
    return processes(n_jobs)(delayed(run_unit)(*about, unit) for unit in todo)


def run_unit(
    samples: Samples, protocol: Protocol, preparation: Any, table: dict[str, Method], unit: Unit
) -> list[tuple[Row, Ints | None]]:
    """Draw, choose, fit, test: one row for each method, and its predictions where it worked."""
    task, repeat, methods = unit
    problem = replace(problem_of(samples, task, repeat, protocol, preparation), methods=table)
    facts = machine_facts()
    seed = protocol.seed + repeat
    return [
        (as_row(found, problem, task.name, repeat, seed, facts), found.codes) for found in outcomes(methods, problem)
    ]


def problem_of(samples: Samples, task: Task, repeat: int, protocol: Protocol, preparation: Any = None) -> Problem:
    """Draw the training data of a repeat, and lay down the splits that choose the settings."""
    train, test = protocol.draw(samples.y, samples.domain, task, repeat)
    return Problem(
        samples,
        train,
        test,
        protocol.validation(samples.y, samples.domain, train, test, repeat),
        PREPROCESSORS[protocol.preprocess] if preparation is None else preparation,
        protocol.centering,
        protocol.quick,
    )


def as_row(found: Outcome, problem: Problem, task: str, repeat: int, seed: int, facts: dict[str, Any]) -> Row:
    """Score the predictions of an outcome; a failure keeps its reason."""
    test, accuracies, accuracy = problem.test, {}, None
    if found.codes is not None:
        correct, domains = found.codes == problem.samples.codes[test], problem.samples.domain[test]
        accuracy = float(correct.mean())
        accuracies = {str(name): float(correct[domains == name].mean()) for name in np.unique(domains)}
    return Row(
        found.method,
        task,
        repeat,
        seed,
        accuracy,
        accuracies,
        found.validation,
        dict(found.settings or {}),
        found.ties,
        found.transductive,
        found.seconds,
        found.status,
        found.reason,
        facts,
    )
