"""The one run behind comparisons and validations: fit each method without each held-out domain, and predict it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from joblib import delayed  # type: ignore[import-untyped, unused-ignore]
from sklearn.base import is_classifier
from sklearn.exceptions import UndefinedMetricWarning

from ..exceptions import ignore_warnings
from ..kernels import SizePlan
from ..linalg import Array, Ints
from ..model_selection import (
    EXPECTED_ERRORS,
    METHODS,
    Candidate,
    EnsembleClassifier,
    EvaluationConfig,
    FittedCandidates,
    FittedEnsemble,
    Method,
    OutOfDomainPredictions,
    Prediction,
    Scorer,
    Split,
    TableSize,
    TrialSplits,
    describe_method,
    evaluate_candidates,
    expand_methods,
    get_metric,
    group_by,
    method_names,
    parse_methods,
    single_thread,
)
from ..models import choose_ensemble_threshold, list_candidates, make_preparation, refit_selected
from ..tables import Table, TableOptions, open_data, read_survey
from ..utils.jobs import environment_info, map_on_cluster, parallel, progress
from ..utils.optional_imports import optional_import
from ..utils.samples import Samples
from ..utils.validation import Labels
from ._measures import measure_importance
from ._protocol import Protocol, Task, configuration_key, describe_run, make_tasks
from ._store import Row, Store, StoredPredictions

DEFAULT_THRESHOLD = 0.5  # at which a model without a threshold decides between two classes
T = TypeVar("T")
Models = Mapping[str, Sequence[Method]]  # several methods form an ensemble
PartsOfJob = dict["Job", list[str]]


@dataclass(frozen=True)
class Execution:
    """Where results are stored, and where they are computed: in local processes or on a Dask cluster."""

    store: str | Path | None = None  # None stores nothing
    n_jobs: int | None = None
    verbose: int = 0
    client: Any = None


DEFAULT_PROTOCOL = Protocol()


def read_data(data: Any, y: Any, sample_domain: Any, options: TableOptions, caller: str) -> Table:
    """Read samples or a table in any of the forms that the functions of this package accept."""
    opened = open_data(data, y, sample_domain, options, caller)
    return opened if isinstance(opened, Table) else read_survey(opened, options.seed)


@dataclass(frozen=True)
class HeldOutPredictions:
    """Predictions of methods for held-out domains; every table, recommendation and curve is a function of these.

    Attributes
    ----------
    table : Table
        The rows.
    tasks : list of Task
        What was held out.
    rows : list of Row
        One for each task, method and repeat, failures among them.
    classes : ndarray of shape (n_classes,)
        Classes of the columns of probabilities, in sorted order; None for those of the table.
    """

    table: Table = field(repr=False)
    tasks: list[Task] = field(repr=False)
    rows: list[Row] = field(repr=False)
    classes: Labels = field(default=None, repr=False)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.classes is None:
            object.__setattr__(self, "classes", self.table.samples.classes)

    @cached_property
    def positions(self) -> dict[str, Ints]:
        """Positions of the held-out rows of each task."""
        return {task.name: np.flatnonzero(np.isin(self.table.domain, task.targets)) for task in self.tasks}

    def truth(self, row: Row) -> Ints:
        """True classes of the held-out rows, as positions among the classes."""
        return np.searchsorted(self.classes, self.table.y[self.positions[row.task]])

    def to_polars(self) -> pl.DataFrame:
        """Return one line for each method, repeat and held-out row, as :meth:`to_frame` does."""
        parts = []
        for row in self.rows:
            if row.codes is None or row.probabilities is None:
                continue
            positions = self.positions[row.task]
            values = {
                "row": self.table.rows[positions],
                "domain": self.table.domain[positions],
                "method": row.method,
                "repeat": row.repeat,
                "label": self.table.y[positions],
                "predicted": self.classes[row.codes],
                "threshold": row.threshold,
            }
            columns = {f"probability_{name}": P for name, P in zip(self.classes, row.probabilities.T, strict=True)}
            parts.append(pl.DataFrame({**values, **columns}))
        return pl.concat(parts, how="vertical_relaxed")

    def to_frame(self) -> Any:
        """Return one line for each method, repeat and held-out row.

        Returns
        -------
        frame : pandas DataFrame
            With the columns row, domain, method, repeat, label, predicted, threshold, and the probability of each
            class.
        """
        return optional_import("pandas", "to_frame()").DataFrame(self.to_polars().to_dict(as_series=False))


def run(
    table: Table,
    methods: Sequence[Any] | None = None,
    protocol: Protocol = DEFAULT_PROTOCOL,
    *,
    tasks: Sequence[Task] | None = None,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    client: Any = None,
    importance_of: str | None = None,
) -> HeldOutPredictions:
    """Fit methods without each held-out domain, as :func:`unseen.fit` would, and predict it.

    What a store already holds is not run again.

    Parameters
    ----------
    table : Table
        Rows of all domains: see :func:`unseen.tables.load_table`.
    methods : sequence, default=None
        Names, classifiers and methods, as for :func:`unseen.compare`; a list of several forms an ensemble. None takes
        all that are meant for comparisons.
    protocol : Protocol, default=Protocol()
        The rules.
    tasks : sequence of Task, default=None
        What to train and test on; None holds out each domain in turn.
    store : str or path, default=None
        File of results, made if it does not exist. Stop the run in any way and call it again to continue. None stores
        no results.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.
    client : dask.distributed.Client, default=None
        Client of a Dask cluster that runs the jobs; None means `n_jobs` local processes.
    importance_of : str, default=None
        Name of the method for which the importance of columns is measured on each held-out domain; None for none.

    Returns
    -------
    predictions : HeldOutPredictions
        Predictions of each method for each held-out domain.

    Examples
    --------
    >>> from unseen.datasets import load_digits_table
    >>> from unseen.evaluation import Protocol, run
    >>> predictions = run(load_digits_table(), ["1-NN", "nearest mean"], Protocol(quick=True))
    >>> len(predictions.rows), {row.status for row in predictions.rows}
    (12, {'ok'})
    """
    models = parse_models(methods)
    tasks = make_tasks(list(dict.fromkeys(table.domain.tolist()))) if tasks is None else list(tasks)
    if not models or not tasks:
        raise ValueError(f"There must be at least one method and one task; got {len(models)} and {len(tasks)}.")
    missing = {name for task in tasks for name in (*task.sources, *task.targets)} - set(table.domain.tolist())
    if missing:
        raise ValueError(f"Tasks name domains that the data do not have: {', '.join(sorted(missing))}.")
    study = Study(table, protocol, models, importance_of)
    # Jobs with ensembles take longest; a long job at the end would run alone.
    groups = sorted(_group_models(models), key=lambda group: not any(models[name][0].members for name in group))
    jobs = [Job(task, repeat, tuple(group)) for repeat, group, task in product(range(protocol.repeats), groups, tasks)]
    completed = complete_jobs(study, jobs, Execution(store, n_jobs, verbose, client))
    places = product(tasks, models, range(protocol.repeats))
    return HeldOutPredictions(table, tasks, [completed[task.name, name, repeat] for task, name, repeat in places])


def parse_models(items: Sequence[Any] | str | None) -> dict[str, list[Method]]:
    """Models by name, in the order of the registry, then of the items; a classifier gets the name of its type."""
    if items is None:
        items = method_names(in_comparison=True)
    models: dict[str, list[Method]] = {}
    for item in [items] if isinstance(items, str) else items:
        parts = item if isinstance(item, list) else [item]
        methods = parse_methods([(type(part).__name__, part) if _is_classifier(part) else part for part in parts])
        name = ", ".join(method.name for method in methods)
        if models.setdefault(name, methods) != methods:
            raise ValueError(f"Two methods are called {name!r}. Use different names.")
    return {name: models[name] for name in METHODS if name in models} | models


def _is_classifier(item: Any) -> bool:
    """Whether an item is a classifier itself, without a name."""
    return not isinstance(item, (str, tuple, Method)) and hasattr(item, "fit") and is_classifier(item)


def _group_models(models: Models) -> list[list[str]]:
    """Names of models that share computations: projections, and ensembles with their members."""
    shared = {member.name for methods in models.values() for method in methods for member in method.members}

    def sharing_key(name: str) -> Any:
        methods = models[name]
        return len(methods) > 1 or methods[0].shares == "decomposition" or name in shared or name

    return group_by(models, sharing_key)


@dataclass(frozen=True)
class Job:
    """Methods that are evaluated on one task in one repeat, with shared computations.

    A job is run as a whole or not at all, whatever an earlier run has completed: a matrix product over fewer rows is
    rounded differently, so that a resumed run would give other bits than an uninterrupted one.

    Attributes
    ----------
    task : Task
        What to train and to test on.
    repeat : int
        Number of the random draw of the training data.
    methods : tuple of str
        Names of the methods.
    validation : sequence of mapping, default=None
        Predictions for the validation parts of the job, if they were made before it.
    """

    task: Task
    repeat: int
    methods: tuple[str, ...]
    validation: Sequence[StoredPredictions] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class TrainingSet:
    """Rows on which validation splits of several jobs train, with the parts that these hold out.

    With m domains, a job without domain A that validates on B trains on the same rows as the job without B that
    validates on A: there are m (m - 1) / 2 training sets instead of m (m - 1).

    Attributes
    ----------
    is_trained_on : bytes
        A bit for each row of the table.
    candidates : dict
        The candidates of all these jobs, by key.
    parts : dict
        By key in the store, positions of held-out rows, and whether they are a resampled batch of another part.
    """

    is_trained_on: bytes
    candidates: dict[str, Candidate] = field(default_factory=dict)
    parts: dict[str, tuple[Ints, bool]] = field(default_factory=dict)


class JobRunner:
    """What `complete_jobs` needs: how a job is run, and what its rows depend on besides task and repeat."""

    configurations: Mapping[str, dict[str, Any]]  # by method

    @cached_property
    def keys(self) -> dict[str, str]:
        """Keys of the configurations in a store."""
        return {name: configuration_key(config) for name, config in self.configurations.items()}

    def predict(self, job: Job) -> list[Row]:
        """Run a job: one row for each method."""
        raise NotImplementedError

    def share_training(self, jobs: Sequence[Job], pending: Sequence[Job]) -> tuple[list[TrainingSet], PartsOfJob]:
        """Training sets that pending jobs share; without any, each job trains for itself."""
        return [], {}

    def predict_parts(self, training: TrainingSet) -> dict[str, dict[str, Prediction]]:
        """Predictions of all candidates, fitted to a training set, for each part that it holds out."""
        raise NotImplementedError


def complete_jobs(study: JobRunner, jobs: Sequence[Job], execution: Execution) -> dict[tuple[str, str, int], Row]:
    """Run the jobs that the store lacks, and return the rows of all, by task, method and repeat.

    Training sets that several jobs share come first; their predictions are stored, and jobs select from them.
    """
    keys = study.keys
    with Store(execution.store) as store:
        for name, config in study.configurations.items():
            store.add_configuration(keys[name], config)

        def read_rows() -> dict[tuple[str, str, int], Row]:
            rows = (row for key in dict.fromkeys(keys.values()) for row in store.rows(key))
            return {(row.task, row.method, row.repeat): row for row in rows}

        done = {place for place, row in read_rows().items() if row.status != "failed"}
        pending = [job for job in jobs if any((job.task.name, name, job.repeat) not in done for name in job.methods)]
        training_sets, parts_of_job = study.share_training(jobs, pending)
        missing = [one for one in training_sets if not all(map(store.has_predictions, one.parts))]
        with progress("evaluation", len(jobs) + len(missing), execution.verbose) as advance:
            advance(len(jobs) - len(pending))
            for predictions in _run_calls(study.predict_parts, missing, execution):
                store.add_predictions(predictions)
                advance(1)
            prepared = (replace(job, validation=store.read_predictions(parts_of_job.get(job, []))) for job in pending)
            for rows in _run_calls(study.predict, prepared, execution):
                for row in rows:
                    if (row.task, row.method, row.repeat) not in done:
                        store.add(keys[row.method], row)
                advance(1)
        rows_by_place = read_rows()
        store.remove_predictions()
    if any((job.task.name, name, job.repeat) not in rows_by_place for job in jobs for name in job.methods):
        raise ValueError(f"{execution.store} lacks results that were written to it: another program changed it.")
    return rows_by_place


def _run_calls(function: Callable[[Any], T], items: Iterable[Any], execution: Execution) -> Iterator[T]:
    """Results for items in order of completion, from local processes or from a cluster."""
    if execution.client is not None:
        results = map_on_cluster(function, items, execution.client, ordered=False)
    else:
        results = parallel(execution.n_jobs, ordered=False)(delayed(function)(item) for item in items)
    with closing(results):  # type: ignore[type-var]
        yield from results


@dataclass(frozen=True)
class Selection:
    """What the models of a job are selected from: candidates, and validation splits of the training rows.

    Attributes
    ----------
    train, test : ndarray of int
        Positions of training rows and held-out rows in the table.
    entries : list of Entry
        What each model is selected from.
    candidates : list of Candidate
        The candidates of all models; several models may have the same one, which is evaluated once.
    used : ndarray of int
        Positions in the table of the rows that the splits refer to.
    samples : Samples
        These rows.
    trials : TrialSplits or None
        The splits; None without candidates.
    """

    train: Ints
    test: Ints
    entries: list[Entry]
    candidates: list[Candidate]
    used: Ints
    samples: Samples
    trials: TrialSplits | None

    @classmethod
    def make(cls, study: Study, job: Job) -> Selection:
        """Draw the rows of a job, and list its candidates and splits."""
        protocol, table = study.protocol, study.table
        train, test = protocol.draw_rows(table.samples, job.task, job.repeat)
        splits = protocol.validation_splits(table.samples, job.task, train, test, job.repeat)
        used = np.unique(np.concatenate([train, *(rows for _, rows in splits)]))
        samples = table.take(used).samples
        trained = table.take(train).samples
        entries = [Entry.make(study.models[name], protocol, trained) for name in job.methods]
        by_key = {one.key: one for entry in entries for one in entry.candidates}
        entries = [replace(entry, candidates=[by_key[one.key] for one in entry.candidates]) for entry in entries]
        trials = None
        if by_key:
            splits = [(np.searchsorted(used, a), np.searchsorted(used, b)) for a, b in splits]
            skewed = any(entry.transductive for entry in entries)
            trials = TrialSplits.from_splits(samples, splits, skewed=skewed, n_candidates=len(by_key))
        return cls(train, test, entries, list(by_key.values()), used, samples, trials)

    def arrange(self, stored: Sequence[StoredPredictions], classes: Labels) -> list[Prediction]:
        """Stored predictions for the parts of all splits as those of the candidates; `classes` are those of the table.

        Models that were trained on some of the training rows know no class that these lack.
        """
        is_class = np.isin(classes, self.samples.classes)
        positions = np.cumsum(is_class) - 1
        arranged = []
        for k, by_key in enumerate(stored):
            for j, candidate in enumerate(self.candidates):
                prediction = by_key.get(candidate.key)
                if prediction is None:  # a resampled batch, and a candidate that predicts rows one by one
                    continue
                prediction = replace(prediction, candidate=j, split=k)
                if prediction.codes is not None:
                    scores = prediction.responses["decision_scores"][:, is_class]
                    prediction = replace(
                        prediction, codes=positions[prediction.codes], responses={"decision_scores": scores}
                    )
                arranged.append(prediction)
        return arranged


@dataclass(frozen=True)
class Study(JobRunner):
    """Table, protocol and models: what every job needs."""

    table: Table
    protocol: Protocol
    models: Models
    importance_of: str | None = None

    @cached_property
    def config(self) -> EvaluationConfig:
        """How candidates are evaluated."""
        scoring = get_metric(self.protocol.metric).scoring
        preparation = make_preparation(self.table.schema, self.protocol.scale)
        return EvaluationConfig(preparation, scoring, self.protocol.balance)

    @cached_property
    def configurations(self) -> dict[str, dict[str, Any]]:  # type: ignore[override]
        """Everything that the rows of each method depend on, besides task and repeat."""
        config = describe_run(self.table, self.protocol, self.config.preparation)
        return {
            name: {**config, "method": list(map(describe_method, members)), "importance": name == self.importance_of}
            for name, members in self.models.items()
        }

    def share_training(self, jobs: Sequence[Job], pending: Sequence[Job]) -> tuple[list[TrainingSet], PartsOfJob]:
        """Training sets of pending jobs, and for each job the keys of the parts that its splits hold out.

        A training set has the candidates and parts of all jobs of the same methods: what it predicts does not depend on
        which jobs are pending.
        """
        methods_of_pending = {job.methods for job in pending}
        training_sets: dict[Hashable, TrainingSet] = {}
        parts_of_job: PartsOfJob = {}
        for job in jobs:
            if job.methods not in methods_of_pending:
                continue
            selection = Selection.make(self, job)
            parts_of_job[job] = []
            if selection.trials is None:
                continue
            for i, (train, test) in enumerate(selection.trials.splits):
                mask = np.zeros(len(self.table.samples), dtype=bool)
                mask[selection.used[train]] = True
                packed = np.packbits(mask).tobytes()
                rows = selection.used[test]
                digest = hashlib.sha256(packed + rows.tobytes())
                digest.update("".join(self.keys[name] for name in job.methods).encode())
                part = digest.hexdigest()
                training = training_sets.setdefault((job.methods, packed), TrainingSet(packed))
                training.candidates.update({one.key: one for one in selection.candidates})
                training.parts[part] = (rows, i in selection.trials.skewed_positions)
                parts_of_job[job].append(part)
        needed = {part for job in pending for part in parts_of_job[job]}
        return [one for one in training_sets.values() if not needed.isdisjoint(one.parts)], parts_of_job

    def predict_parts(self, training: TrainingSet) -> dict[str, dict[str, Prediction]]:
        """Predictions of all candidates, fitted to a training set, for each part that it holds out."""
        bits = np.unpackbits(np.frombuffer(training.is_trained_on, dtype=np.uint8), count=len(self.table.samples))
        train = np.flatnonzero(bits)
        splits = [(train, rows) for rows, _ in training.parts.values()]
        resampled = frozenset(k for k, (_, is_resampled) in enumerate(training.parts.values()) if is_resampled)
        parts, keys = list(training.parts), list(training.candidates)
        predictions: dict[str, dict[str, Prediction]] = {part: {} for part in parts}
        with single_thread():
            candidates = list(training.candidates.values())
            for one in self._evaluate(candidates, self.table.samples, splits, resampled):
                predictions[parts[one.split]][keys[one.candidate]] = one
        return predictions

    def _evaluate(
        self, candidates: Sequence[Candidate], samples: Samples, splits: Sequence[Split], resampled: frozenset[int]
    ) -> Iterator[Prediction]:
        return evaluate_candidates(
            candidates, samples, splits, self.config, with_decision_scores=True, resampled=resampled
        )

    def predict(self, job: Job) -> list[Row]:
        """Select, fit and predict: one row for each method; a failure keeps its reason."""
        selection = Selection.make(self, job)
        trials = selection.trials
        rows = [Row(name, job.task.name, job.task.targets, job.repeat, kind=self._kind(name)) for name in job.methods]
        placed = list(zip(rows, selection.entries, strict=True))
        if trials is None:
            return [replace(row, **entry.failure) for row, entry in placed]
        with single_thread(), ignore_warnings(UndefinedMetricWarning):  # the result shows where it is not defined
            predictions: Iterable[Prediction]
            if job.validation is not None:
                predictions = selection.arrange(job.validation, self.table.samples.classes)
            else:
                predictions = self._evaluate(
                    selection.candidates, selection.samples, trials.splits, trials.skewed_positions
                )
            out_of_domain = OutOfDomainPredictions(
                selection.candidates,
                selection.samples,
                trials,
                predictions,
                self.config.scoring,
                self.config.balance,
            )
            fitted: FittedCandidates = {}  # members that several models have are fitted once
            return [self._predict(row, entry, out_of_domain, selection, fitted) for row, entry in placed]

    def _kind(self, name: str) -> str:
        methods = self.models[name]
        return methods[0].kind if len(methods) == 1 else "auto"

    def _predict(
        self,
        row: Row,
        entry: Entry,
        out_of_domain: OutOfDomainPredictions,
        selection: Selection,
        already_fitted: FittedCandidates,
    ) -> Row:
        """Select among the predictions of a method, fit the model, and predict the targets."""
        train, test = selection.train, selection.test
        positions = [selection.candidates.index(candidate) for candidate in entry.candidates]
        row = replace(row, machine=environment_info())
        if entry.failure:
            return replace(row, **entry.failure)
        start = time.perf_counter()
        expected: Any = Exception if any(method.own for method in self.models[row.method]) else EXPECTED_ERRORS
        try:
            fitted = out_of_domain.select(
                self.config.preparation,
                ensemble=entry.is_ensemble,
                transductive=entry.transductive,
                among=entry.candidates,
            )
            preparation, _, ensemble, _ = refit_selected(
                fitted,
                self.table.take(train),
                entry.plan,
                self.config,
                seed=self.protocol.seed,
                already_fitted=already_fitted,
            )
            model = HeldOutModel(preparation, ensemble, self.table.samples.classes)
            codes, P = model.predict(self.table.samples.take(test))
            scores = self._score(test, codes, P, ensemble.classes_)
            importance = None
            if row.method == self.importance_of:
                held_out = self.table.samples.take(test)
                score, losses = measure_importance(
                    model.predict_proba, held_out, self.protocol.seed, in_batches=ensemble.transductive
                )
                importance = {"score": score, "losses": losses.tolist()}
        except expected as error:
            reasons = [out_of_domain.results["errors"][j] for j in positions]
            reason = next(filter(None, reasons), f"{type(error).__name__}: {error}")
            return replace(row, status="failed", reason=reason)
        score = float(np.mean(codes == self.table.samples.codes[test]))
        if self.config.scoring != "accuracy":
            score = float(np.mean([*scores.values()]))
        seconds = float(out_of_domain.results["seconds"][positions].sum()) + time.perf_counter() - start
        return replace(
            row,
            accuracy=score if np.isfinite(score) else None,
            accuracies=scores,
            validation=_validation_score(fitted, out_of_domain.results["mean_test_score"][positions]),
            settings=_describe_ensemble(fitted) if entry.is_ensemble else _describe_candidate(fitted, entry),
            threshold=self._threshold(fitted, ensemble),
            transductive=fitted.kind == "transductive",
            seconds=seconds,
            importance=importance,
            codes=codes,
            probabilities=P,
        )

    def _threshold(self, fitted: FittedEnsemble, ensemble: EnsembleClassifier) -> float | None:
        """Threshold of the event, chosen on the cross-fitted out-of-domain predictions of the training rows."""
        threshold = self.protocol.threshold
        if len(self.table.samples.classes) != 2:
            return None
        if isinstance(threshold, str):
            return choose_ensemble_threshold(fitted, ensemble, self.protocol.positive, threshold).threshold
        return DEFAULT_THRESHOLD if threshold is None else threshold

    def _score(self, test: Ints, codes: Ints, P: Array, known_classes: Labels) -> dict[str, float]:
        """Scores by target; NaN where the metric is not defined, as for classes that were not in training."""
        samples = self.table.samples
        domain = samples.domain[test]
        targets = np.unique(domain).tolist()
        trained = np.flatnonzero(np.isin(samples.y, known_classes) & ~np.isin(samples.domain, targets))
        splits = [(trained, test[domain == name]) for name in targets]
        scorer = Scorer(self.config.scoring, samples, splits)
        return {
            name: scorer.score_probabilities(k, P[domain == name], codes[domain == name])
            for k, name in enumerate(targets)
        }


@dataclass(frozen=True)
class Entry:
    """What a model is selected from, for some training rows; or why it cannot be run."""

    candidates: list[Candidate]
    is_ensemble: bool
    transductive: bool
    plan: SizePlan
    failure: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def make(cls, methods: Sequence[Method], protocol: Protocol, samples: Samples) -> Entry:
        """List the candidates of a model, as `fit` does."""
        n_classes = len(np.unique(samples.codes))
        transductive = protocol.transductive or any(method.allows_transductive for method in methods)
        members = list(methods)
        if len(methods) > 1 or methods[0].members:
            size = TableSize(samples.X.shape, n_classes)
            members = expand_methods(methods, transductive=transductive, size=size)
        is_ensemble = len(members) > 1
        plan = SizePlan.from_rows(len(samples), ensemble=is_ensemble)
        for method in methods:
            if method.max_rows is not None and plan.rows > method.max_rows:
                return cls([], False, False, plan, {"status": "skipped", "reason": method.max_rows_reason})
        candidates = list_candidates(
            members,
            n_classes,
            plan,
            transductive=transductive,
            quick=protocol.quick,
            grid=protocol.grid,
            heads=protocol.heads,
        )
        return cls(candidates, is_ensemble, is_ensemble and transductive, plan)


@dataclass(frozen=True)
class HeldOutModel:
    """A model fitted to training rows, which predicts rows of held-out domains."""

    preparation: Any
    ensemble: EnsembleClassifier
    classes: Any

    def predict(self, samples: Samples) -> tuple[Ints, Array]:
        """Classes of rows, as positions, and probabilities of all classes; 0 for classes without training rows."""
        known = np.flatnonzero(np.isin(self.classes, self.ensemble.classes_))
        codes = np.empty(len(samples), dtype=np.intp)
        P = np.zeros((len(samples), len(self.classes)))
        prepared = np.asarray(self.preparation.transform(samples.X), dtype=np.float64)
        for name in np.unique(samples.domain):
            rows = np.flatnonzero(samples.domain == name)
            decisions = self.ensemble.combine_members(prepared[rows], samples.domain[rows])
            codes[rows] = known[decisions.argmax(axis=1)]
            P[np.ix_(rows, known)] = self.ensemble.with_natural_priors(decisions)
        return codes, P

    def predict_proba(self, X: Array, domain: Any) -> Array:
        """Probabilities of all classes."""
        return self.predict(Samples(X, np.zeros(len(X)), domain))[1]


def _validation_score(fitted: FittedEnsemble, means: Array) -> float:
    """Mean cross-fitted score; with a single validation split, which is not cross-fitted, the best of the `means`."""
    return fitted.mean if np.isfinite(fitted.scores).any() else float(np.nanmax(means, initial=-np.inf))


def _describe_candidate(fitted: FittedEnsemble, entry: Entry) -> dict[str, Any]:
    """Settings of a selected candidate, with its variant if there are several."""
    (candidate,) = fitted.members
    if len({one.variant for one in entry.candidates}) > 1:
        return {"model": candidate.variant, **candidate.settings}
    return dict(candidate.settings)


def _describe_ensemble(ensemble: FittedEnsemble) -> dict[str, Any]:
    """The settings of an ensemble in plain values."""
    forecast = ensemble.forecast
    ends = (forecast.mean, forecast.lower, forecast.upper)
    return {
        "model": ensemble.name,
        "members": ensemble.weights_by_model,
        "smoothing": ensemble.smoothing,
        "forecast": [end if np.isfinite(end) else None for end in ends],
    }
