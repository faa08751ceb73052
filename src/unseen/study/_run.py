"""Running a comparison: every task, repeat and method once, in any number of sittings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.parallel import delayed

from ..algebra import Ints
from ..citizen import machine_facts
from ..estimators import mapped, processes
from ..labels import Samples
from ..progress import track
from ..selection import METHODS, Method, method_names, methods_from
from ._outcomes import Problem, outcomes
from ._protocol import PREPROCESSORS, Protocol, Task, configuration, key
from ._store import Row, Store

Unit = tuple[Task, int, tuple[str, ...]]
Result = tuple[Row, Ints | None]  # and the predicted classes of the targets' samples, as positions among all classes


@dataclass(frozen=True)
class Work:
    """Where results are kept and who computes them: a file, processes here or the workers of a Dask client."""

    store: str | Path | None = None  # None keeps nothing
    n_jobs: int | None = None
    verbose: int = 0
    client: Any = None


HERE = Work()


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
    work = Work(store, n_jobs, verbose, client)
    return [row for row, _ in all_results(samples, tasks, protocol or Protocol(), preprocessor, methods, work)]


def all_results(
    samples: Samples,
    tasks: Sequence[Task],
    protocol: Protocol,
    preprocessor: Any = None,
    methods: str | Sequence[str] | None = None,
    work: Work = HERE,
) -> Iterator[Result]:
    """The rows of `run` and what each predicted; samples of a target are in the order of the data."""
    table = methods_of(methods)
    if not table or not tasks:
        raise ValueError(f"There must be at least one method and one task; got {len(table)} and {len(tasks)}.")
    missing = {name for task in tasks for name in (*task.sources, *task.targets)} - set(samples.domain.tolist())
    if missing:
        raise ValueError(f"Tasks name domains that the data do not have: {', '.join(sorted(missing))}.")
    preparation = PREPROCESSORS[protocol.preprocess] if preprocessor is None else preprocessor
    config = configuration(samples, protocol, preparation)
    name = key(config)
    with Store(":memory:" if work.store is None else work.store) as results:
        results.open_configuration(name, config)
        done = {(row.task, row.repeat, row.method) for row in results.rows(name) if row.status == "ok"}
        todo = _units(tasks, protocol.repeats, table, done)
        with closing(_done(todo, (samples, protocol, preparation, table), work)) as found:
            for rows in track(found, len(todo), "study", work.verbose):
                for row, predicted in rows:
                    results.add(name, row, predicted)
        rows = {(row.task, row.method, row.repeat): row for row in results.rows(name)}
        for task, method, repeat in product(tasks, table, range(protocol.repeats)):
            yield rows[task.name, method, repeat], results.predicted(name, method, task.name, repeat)


def methods_of(names: str | Sequence[str] | None) -> dict[str, Method]:
    """Methods by their names, in the order of the table; None for all that are meant for comparisons."""
    wanted = method_names(compared=True) if names is None else [names] if isinstance(names, str) else names
    found = {method.name: method for method in methods_from(wanted)}
    return {name: found[name] for name in METHODS if name in found} | found


def _units(
    tasks: Sequence[Task], repeats: int, table: dict[str, Method], done: set[tuple[str, int, str]]
) -> list[Unit]:
    """Pieces of work: one task, one repeat, and methods that share their computations."""
    batches: dict[str, list[str]] = {}
    for name, method in table.items():
        batches.setdefault(method.shares if method.shares == "decomposition" else name, []).append(name)
    return [
        (task, repeat, missing)
        for repeat, task, batch in product(range(repeats), tasks, batches.values())
        if (missing := tuple(name for name in batch if (task.name, repeat, name) not in done))
    ]


def _done(todo: Sequence[Unit], about: tuple[Any, ...], work: Work) -> Any:
    """A generator of the results of units, in their order: by processes here, or by the workers of a cluster."""
    if work.client is not None and todo:
        return mapped(partial(run_unit, *about), todo, work.client, ahead=len(todo))
    return processes(work.n_jobs)(delayed(run_unit)(*about, unit) for unit in todo)


def run_unit(
    samples: Samples, protocol: Protocol, preparation: Any, table: dict[str, Method], unit: Unit
) -> list[Result]:
    """Draw, choose, fit, test: one row for each method, and its predictions where it worked."""
    task, repeat, methods = unit
    problem = replace(problem_of(samples, task, repeat, protocol, preparation), methods=table)
    return rows_of(methods, problem, task.name, repeat, protocol.seed + repeat)


def problem_of(samples: Samples, task: Task, repeat: int, protocol: Protocol, preparation: Any = None) -> Problem:
    """Draw the training data of a repeat, and lay down the splits that choose the settings."""
    train, test = protocol.draw(samples.y, samples.domain, task, repeat)
    splits = protocol.validation(samples.y, samples.domain, train, test, repeat)
    prepare = PREPROCESSORS[protocol.preprocess] if preparation is None else preparation
    return Problem(samples, train, test, splits, prepare, protocol.centering, protocol.quick)


def rows_of(methods: Sequence[str], problem: Problem, task: str, repeat: int, seed: int) -> list[Result]:
    """Run some methods on a problem and score what they predict; a failure keeps its reason."""
    truth, domains = problem.samples.codes[problem.test], problem.samples.domain[problem.test]
    about: dict[str, Any] = {"task": task, "repeat": repeat, "seed": seed, "machine": machine_facts()}
    rows = []
    for found in map(vars, outcomes(methods, problem)):
        codes, accuracy, accuracies = found["codes"], None, {}
        if codes is not None:
            correct = codes == truth
            accuracy = float(correct.mean())
            accuracies = {str(name): float(correct[domains == name].mean()) for name in np.unique(domains)}
        told = {name: value for name, value in found.items() if name != "codes"}
        rows.append((Row(accuracy=accuracy, accuracies=accuracies, **told, **about), codes))
    return rows
