"""Compare `unseen.fit` with tuned baselines on real tables and arrays whose rows come from several domains.

The design was fixed before the first run. Trials with ``--quick`` on heart, impact_tbi and rotated_digits preceded it;
after them only the largest number of folds in the searches of the baselines was raised, from 10 to 15.

Tables, seven sets in ``DATA/tables``:

- Held-out domains: the first, the middle (position m // 2) and the last of the m sorted names of domains.
- Rows: at most 120 random rows of each source domain and 2,000 of the held-out domain; seed 0; the subsample of a
  source domain does not depend on the held-out domain.
- Baselines (`studies.baselines`): logistic regression, gradient boosting and LightGBM, tuned by leave-one-domain-out
  cross-validation on the source domains; random forest and CatBoost with their defaults. AutoGluon gets 60 seconds of
  one core for the first held-out domain of each table, if ``--autogluon`` names the interpreter of an environment that
  has it.
- Ours: ``unseen.fit(sources, label="label", domain="domain")`` with default parameters, which is inductive.
- Missing values are empty cells only; columns of numbers are numbers, also where they are codes.

Arrays, the five sets of `studies.ensembles` with its tasks: each domain held out, 120 rows of each source domain, 500
of the held-out domain, two random subsamples. Ours: ``UnseenClassifier()`` and ``UnseenClassifier(transductive=True)``,
which receives the held-out rows as one batch. Baselines: logistic regression and random forest. Tuned boosting is left
out for its cost: 1,000 trees for each setting and fold of ten classes, on up to 1,280 columns.

Metrics on the held-out domain: accuracy of `predict` in percent; AUC in percent (for more than two classes the mean of
one class versus the others, over classes that the domain has); log loss, where probabilities below 0.001 count as
0.001.

Results go to a JSON-lines file, one line per task and method, so that an interrupted run continues:

    python -m studies.tables --data ../shared/data --output tables.jsonl --csv docs/results
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy
import sklearn
from sklearn.metrics import roc_auc_score

import unseen

from . import ensembles
from .baselines import (
    AUTOGLUON,
    BASELINES,
    MAX_FOLDS,
    N_TREES,
    align_probabilities,
    fit_autogluon,
    fit_baseline,
    log_loss,
)

TABLES = ("heart", "impact_tbi", "defects_ck", "vowel", "wisdm", "crc_microbiome", "bank_month")
ARRAYS = ensembles.NAMES
OURS = "unseen"
OURS_TRANSDUCTIVE = "unseen, transductive"
TABLE_METHODS = (*BASELINES, OURS)
METHODS = (*BASELINES, AUTOGLUON, OURS, OURS_TRANSDUCTIVE)
ARRAY_METHODS = ("logistic regression", "random forest", OURS, OURS_TRANSDUCTIVE)
METRICS = ("accuracy", "AUC", "log loss")
IS_LOSS = {"accuracy": False, "AUC": False, "log loss": True}
SHORT_NAMES = {"logistic regression": "logistic", "gradient boosting": "boosting", "random forest": "forest"}
DECIMALS = {"accuracy": 1, "AUC": 1, "log loss": 3}
# Columns of docs/results/ensembles.csv with accuracies of the same tasks by an earlier version.
EARLIER = {OURS: "transductive=False (natural)", OURS_TRANSDUCTIVE: "pool (natural)"}


@dataclass(frozen=True)
class Design:
    """Sizes of the study.

    Attributes
    ----------
    source_rows : int
        Largest number of rows of a source domain.
    target_rows, array_target_rows : int
        Largest number of rows of a held-out domain, of tables and of arrays.
    n_held_out : int
        Number of held-out domains of a table: the first, the middle and the last name.
    array_subsamples : int
        Random subsamples of each array set.
    n_trees : int
        Trees of the random forest.
    max_folds : int
        Largest number of folds in the searches of the baselines; with more source domains, folds are groups of domains.
    """

    source_rows: int = 120
    target_rows: int = 2000
    array_target_rows: int = 500
    n_held_out: int = 3
    array_subsamples: int = 2
    n_trees: int = N_TREES
    max_folds: int = MAX_FOLDS


FULL = Design()
QUICK = Design(30, 200, 200, n_held_out=1, array_subsamples=1, n_trees=50)


@dataclass(frozen=True, eq=False)
class Task:
    """Rows of the source domains, and of one held-out domain, whose labels only the metrics use."""

    data: str
    target: str
    subsample: int
    X: pd.DataFrame
    y: np.ndarray
    domain: np.ndarray
    X_target: pd.DataFrame
    y_target: np.ndarray

    @property
    def is_table(self) -> bool:
        """Whether the columns have names and types of their own."""
        return self.data in TABLES


def read_table(path: Path) -> pd.DataFrame:
    """Read a table; an empty cell is missing, and other texts such as "unknown" are categories."""
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)
    table["domain"] = table["domain"].astype(str)
    table["label"] = table["label"].astype(str)
    return table


def held_out_domains(names: Iterable[str], count: int) -> list[str]:
    """Return the first, the middle and the last of the sorted names, or fewer of these."""
    ordered = sorted(set(names))
    positions = [0, len(ordered) // 2, len(ordered) - 1]
    return list(dict.fromkeys(ordered[position] for position in positions[:count]))


def permute_domains(domain: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return the rows of each domain in random order."""
    rng = np.random.default_rng(seed)
    return {name: rng.permutation(np.flatnonzero(domain == name)) for name in sorted(set(domain.tolist()))}


def table_tasks(root: Path, name: str, design: Design) -> Iterator[Task]:
    """Yield the tasks of a table."""
    table = read_table(root / "tables" / f"{name}.csv.gz")
    domain = table["domain"].to_numpy(dtype=object)
    label = table["label"].to_numpy(dtype=object)
    X = table.drop(columns=["domain", "label"])
    rows_by_domain = permute_domains(domain, seed=0)
    for target in held_out_domains(rows_by_domain, design.n_held_out):
        parts = [rows[: design.source_rows] for other, rows in rows_by_domain.items() if other != target]
        sources = np.concatenate(parts)
        held_out = rows_by_domain[target][: design.target_rows]
        yield Task(name, target, 0, X.iloc[sources], label[sources], domain[sources], X.iloc[held_out], label[held_out])


def array_tasks(root: Path, name: str, design: Design) -> Iterator[Task]:
    """Yield the tasks of an array set: those of `studies.ensembles`."""
    samples = ensembles.load_set(root, name)
    sizes = (design.source_rows, design.array_target_rows)
    for subsample in range(design.array_subsamples):
        for target in np.unique(samples.domain).tolist():
            here = ensembles.drawn(samples, target, sizes, subsample, name in ensembles.ALIGNED)
            here = ensembles.prepared(here, target, name in ensembles.TABULAR)
            X = pd.DataFrame(here.X, columns=[f"x{j}" for j in range(here.X.shape[1])])
            y = np.asarray(here.y).astype(str).astype(object)
            is_source = here.domain != target
            yield Task(
                name,
                target,
                subsample,
                X[is_source],
                y[is_source],
                here.domain[is_source],
                X[~is_source],
                y[~is_source],
            )


def fit_ours(task: Task, is_transductive: bool, n_jobs: int | None) -> Any:
    """Fit by the public API: a table with its names, an array as it is."""
    if task.is_table:
        sources = task.X.assign(label=task.y, domain=task.domain)
        return unseen.fit(sources, label="label", domain="domain", transductive=is_transductive, n_jobs=n_jobs)
    model = unseen.UnseenClassifier(transductive=is_transductive, n_jobs=n_jobs)
    return model.fit(task.X.to_numpy(), task.y, sample_domain=task.domain)


def measure(y: np.ndarray, predicted: np.ndarray, P: np.ndarray, classes: Sequence[str]) -> dict[str, float]:
    """Return the three metrics; the columns of P are the probabilities of `classes`."""
    position = {label: j for j, label in enumerate(classes)}
    codes = np.array([position[label] for label in y])
    areas = [roc_auc_score(codes == j, P[:, j]) for j in np.unique(codes)] if len(set(y)) > 1 else [np.nan]
    return {
        "accuracy": 100 * float(np.mean(predicted == y)),
        "AUC": 100 * float(np.mean(areas)),
        "log loss": log_loss(codes, P),
    }


def evaluate(
    task: Task, method: str, design: Design, n_jobs: int | None, autogluon: Path | None = None
) -> dict[str, Any]:
    """Fit a method to the source domains and return its metrics on the held-out domain, with the seconds of the fit."""
    start = time.perf_counter()
    if method in BASELINES:
        model = fit_baseline(
            method,
            task.X,
            task.y,
            task.domain,
            n_trees=design.n_trees,
            max_folds=design.max_folds,
            n_jobs=n_jobs,
        )
    elif method == AUTOGLUON:
        assert autogluon is not None
        model = fit_autogluon(autogluon, task.X, task.y, task.domain, task.X_target)
    else:
        model = fit_ours(task, method == OURS_TRANSDUCTIVE, n_jobs)
    seconds = time.perf_counter() - start
    X = task.X_target if method in BASELINES or task.is_table else task.X_target.to_numpy()
    known = [str(label) for label in model.classes_]
    classes = sorted({*known, *task.y_target})
    P = align_probabilities(model.predict_proba(X), known, classes)
    # CatBoost predicts a column of classes.
    predicted = np.array([str(label) for label in np.ravel(model.predict(X))], dtype=object)
    return {**measure(task.y_target, predicted, P, classes), "seconds": seconds}


def machine() -> dict[str, Any]:
    """Versions and the machine."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sklearn": sklearn.__version__,
        "pandas": pd.__version__,
        "unseen": unseen.__version__,
        "cores": os.cpu_count(),
    }


def set_means(rows: list[dict[str, Any]], metric: str) -> dict[str, dict[str, float]]:
    """Return the mean over tasks for each set and method."""
    means: dict[str, dict[str, float]] = {}
    for (data, method), here in group_rows(rows).items():
        means.setdefault(data, {})[method] = float(np.nanmean([row[metric] for row in here]))
    return means


def group_rows(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the rows of each set and method, in the order of the study."""
    groups = {}
    for data in (*TABLES, *ARRAYS):
        for method in METHODS:
            here = [row for row in rows if row["data"] == data and row["method"] == method]
            if here:
                groups[data, method] = here
    return groups


def standard_error(values: Sequence[float]) -> float:
    """Standard error of a mean; not a number for fewer than two values."""
    finite = np.array([value for value in values if np.isfinite(value)])
    if len(finite) < 2:
        return float("nan")
    return float(finite.std(ddof=1) / np.sqrt(len(finite)))


@dataclass(frozen=True)
class Summary:
    """One metric over sets: means, and differences of ours from the baselines.

    Attributes
    ----------
    means : dict
        Mean over sets for each method.
    best_baseline : str
        The baseline that is best on average over sets.
    difference : float
        Mean of ours minus that of `best_baseline`.
    hindsight : dict
        For each set, ours minus the baseline that is best on this set.
    """

    means: dict[str, float]
    best_baseline: str
    difference: float
    hindsight: dict[str, float]

    @property
    def mean_hindsight(self) -> float:
        """Mean of `hindsight` over sets."""
        return float(np.mean(list(self.hindsight.values())))


def summarize(means: dict[str, dict[str, float]], is_loss: bool, ours: str = OURS) -> Summary:
    """Summarize one metric over the sets that all methods have."""
    best = min if is_loss else max
    methods = list(dict.fromkeys(method for values in means.values() for method in values))
    complete = {data: values for data, values in means.items() if set(values) == set(methods)}
    if not complete or ours not in methods:
        raise ValueError(f"No set has results of all methods yet: {', '.join(methods)}, and {ours}.")
    baselines = [method for method in methods if method in BASELINES]
    over_sets = {method: float(np.mean([values[method] for values in complete.values()])) for method in methods}
    best_baseline = best(baselines, key=over_sets.__getitem__)
    hindsight = {data: values[ours] - best(values[method] for method in baselines) for data, values in complete.items()}
    return Summary(over_sets, best_baseline, over_sets[ours] - over_sets[best_baseline], hindsight)


def print_summary(rows: list[dict[str, Any]], names: Sequence[str], methods: Sequence[str]) -> None:
    """Print, for each metric, the means by set and over sets, and the differences of ours from the baselines."""
    here = [row for row in rows if row["data"] in names]
    if not {OURS, *methods} <= {row["method"] for row in here}:
        return
    for metric in METRICS:
        digits = DECIMALS[metric]
        means = set_means(here, metric)
        print(f"\n{metric}: {'smaller' if IS_LOSS[metric] else 'larger'} is better")
        print(f"{'':<26}" + "".join(f"{method:>22}" for method in methods) + f"{'ours - best':>14}")
        summary = summarize(means, IS_LOSS[metric])
        for data, values in means.items():
            cells = "".join(f"{values.get(method, np.nan):22.{digits}f}" for method in methods)
            print(f"{data:<26}{cells}{summary.hindsight.get(data, np.nan):+14.{digits + 1}f}")
        cells = "".join(f"{summary.means[method]:22.{digits}f}" for method in methods)
        print(f"{'mean of sets':<26}{cells}{summary.mean_hindsight:+14.{digits + 1}f}")
        difference = f"{summary.difference:+.{digits + 1}f}"
        print(f"best baseline on average: {summary.best_baseline}; ours minus this baseline: {difference}")
    seconds = {method: sum(row["seconds"] for row in here if row["method"] == method) for method in methods}
    print("\nseconds of all fits: " + ", ".join(f"{method} {total:.0f}" for method, total in seconds.items()))


def earlier_differences(rows: list[dict[str, Any]], path: Path) -> dict[tuple[str, str], list[float]]:
    """Return, for each array set and each of our methods, accuracy minus that of the earlier version on each task."""
    with path.open(newline="") as file:
        earlier = {(row["data"], row["target"], int(row["draw"])): row for row in csv.DictReader(file)}
    differences: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        key = (row["data"], row["target"], row["subsample"])
        if row["method"] in EARLIER and key in earlier:
            before = float(earlier[key][EARLIER[row["method"]]])
            differences.setdefault((row["data"], row["method"]), []).append(row["accuracy"] - before)
    return differences


def write_results(rows: list[dict[str, Any]], folder: Path) -> None:
    """Write the files of the page: for tables and for arrays, each result, means with standard errors, and means."""
    for kind, names, methods in (("tables", TABLES, TABLE_METHODS), ("arrays", ARRAYS, ARRAY_METHODS)):
        here = [row for row in rows if row["data"] in names]
        if here:
            write_by_domain(here, folder / f"{kind}_by_domain.csv")
            write_means(here, folder / f"{kind}.csv")
            write_by_set(here, methods, folder / f"{kind}_by_set.csv")


def write_by_domain(rows: list[dict[str, Any]], path: Path) -> None:
    """Write one row per held-out domain, subsample and method."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["data", "held out", "subsample", "method", *METRICS])
        for here in group_rows(rows).values():
            for row in here:
                values = [f"{row[metric]:.4f}" for metric in METRICS]
                writer.writerow([row["data"], row["target"], row["subsample"], row["method"], *values])


def write_means(rows: list[dict[str, Any]], path: Path) -> None:
    """Write one row per set, method and metric."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["data", "method", "metric", "mean", "standard error", "tasks"])
        for (data, method), here in group_rows(rows).items():
            for metric in METRICS:
                values = [row[metric] for row in here]
                numbers = (f"{np.nanmean(values):.4f}", f"{standard_error(values):.4f}")
                writer.writerow([data, method, metric, *numbers, len(values)])


def write_by_set(rows: list[dict[str, Any]], methods: Sequence[str], path: Path) -> None:
    """Write, for each metric, one row per set and one for the mean over sets, with methods as columns, ours first."""
    methods = sorted(methods, key=BASELINES.__contains__)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["Metric", "Data", *(SHORT_NAMES.get(method, method) for method in methods)])
        for metric in METRICS:
            means = set_means(rows, metric)
            for data, values in means.items():
                writer.writerow([metric, data, *(format_mean(values, method, metric) for method in methods)])
            everywhere = {
                method: float(np.mean([values[method] for values in means.values()]))
                for method in methods
                if all(method in values for values in means.values())
            }
            writer.writerow([metric, "mean of sets", *(format_mean(everywhere, method, metric) for method in methods)])


def format_mean(means: dict[str, float], method: str, metric: str) -> str:
    """Return a mean as text, empty where there is none."""
    return f"{means[method]:.{DECIMALS[metric]}f}" if method in means else ""


def read_rows(path: Path, design: Design) -> list[dict[str, Any]]:
    """Read the results of this design from a file that may not exist."""
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row for row in rows if row["design"] == asdict(design)]


def run(
    root: Path,
    names: Sequence[str],
    methods: Sequence[str],
    design: Design,
    output: Path,
    n_jobs: int,
    autogluon: Path | None = None,
) -> None:
    """Evaluate all methods on all tasks that the output lacks; AutoGluon on the first task of each table."""
    done = {(row["data"], row["target"], row["subsample"], row["method"]) for row in read_rows(output, design)}
    for name in names:
        tasks = table_tasks(root, name, design) if name in TABLES else array_tasks(root, name, design)
        for number, task in enumerate(tasks):
            about = {"data": task.data, "target": task.target, "subsample": task.subsample}
            applicable = (AUTOGLUON, *TABLE_METHODS) if task.is_table else ARRAY_METHODS
            for method in applicable:
                is_left_out = method == AUTOGLUON and (autogluon is None or number > 0)
                if method not in methods or is_left_out or (*about.values(), method) in done:
                    continue
                result = evaluate(task, method, design, n_jobs, autogluon)
                sizes = {"source_rows": len(task.y), "target_rows": len(task.y_target)}
                row = {**about, "method": method, **result, **sizes, "design": asdict(design), **machine()}
                with output.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                values = ", ".join(f"{metric} {result[metric]:.{DECIMALS[metric]}f}" for metric in METRICS)
                print(f"{name} without {task.target}, {method}: {values}; {result['seconds']:.1f} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the summary and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per data set")
    parser.add_argument("--names", nargs="+", default=TABLES, choices=(*TABLES, *ARRAYS), metavar="NAME")
    parser.add_argument(
        "--arrays", action="store_true", help="the five sets of studies.ensembles instead of the tables"
    )
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, metavar="METHOD")
    parser.add_argument("--output", type=Path, required=True, help="file of results (JSON lines)")
    parser.add_argument("--csv", type=Path, metavar="FOLDER", help="folder of the CSV files of the page")
    parser.add_argument("--earlier", type=Path, default=Path("docs/results/ensembles.csv"), help="earlier accuracies")
    parser.add_argument("--quick", action="store_true", help="few rows, one held-out domain, small forest: for a trial")
    parser.add_argument("--jobs", type=int, default=1, help="processes of searches and fits (default: 1)")
    parser.add_argument("--autogluon", type=Path, metavar="PYTHON", help="interpreter that can import AutoGluon")
    options = parser.parse_args(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    design = QUICK if options.quick else FULL
    names = ARRAYS if options.arrays else options.names
    warnings.simplefilter("ignore")
    run(options.data, names, options.methods, design, options.output, options.jobs, options.autogluon)
    rows = read_rows(options.output, design)
    print_summary(rows, TABLES, TABLE_METHODS)
    print_summary(rows, ARRAYS, ARRAY_METHODS)
    if options.earlier.exists() and design == FULL:  # a trial has other rows
        for (data, method), values in earlier_differences(rows, options.earlier).items():
            change = f"{np.mean(values):+.2f} ({standard_error(values):.2f})"
            print(f"{data}, {method}: accuracy minus that in {options.earlier.name}: {change}, {len(values)} tasks")
    if options.csv is not None:
        write_results(rows, options.csv)


if __name__ == "__main__":
    main()
