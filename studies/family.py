"""Compare CIDG, marginal transfer learning and harmonization on real tables and arrays.

The design was fixed before the first run. Tasks are those of `studies.tables`: three held-out domains of each table and
the first three domains of each array set, at most 60 rows of each source domain and 500 of the held-out domain, one
random subsample. Columns are prepared as for its logistic regression. Hyperparameters are selected on held-out source
domains by log loss; the held-out domain is used for the metrics alone.

- logistic: C in 0.01, 0.1, 1, 10.
- CIDG: a grid of width, two weights and ridge, logistic head, source centering.
- harmonized logistic: `DomainHarmonizer` (ComBat), then logistic regression, C as above; new rows are harmonized to the
  pooled reference.
- marginal transfer: `MarginalTransferClassifier`, C in 1, 10; transductive.

Results go to a JSON-lines file, so that an interrupted run continues:

    python -m studies.family --data ../shared/data --output family.jsonl --csv docs/results/family.csv

With ``--names`` and nothing after it, only the tables are written.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unseen import CIDG, DomainHarmonizer, MarginalTransferClassifier, ProjectionSearchCV

from .baselines import align_probabilities, log_loss, make_pipeline_for
from .tables import ARRAYS, DECIMALS, IS_LOSS, METRICS, TABLES, Design, Task, array_tasks, machine, measure, table_tasks

DESIGN = Design(source_rows=60, target_rows=500, array_target_rows=500, array_subsamples=1)
N_HELD_OUT = 3  # of each set
WIDTHS = ("0.1*median", "median")
WEIGHTS = (0.0, "scale", "1e2*scale")
RIDGES = ("1e-2*scale", "scale", "1e2*scale")
COSTS = (0.01, 0.1, 1.0, 10.0)
HEAD = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
BASELINE = "logistic"
METHODS = (BASELINE, "CIDG", "harmonized logistic", "marginal transfer")
EQUAL = 1e-9  # differences up to rounding errors are ties


def tasks(root: Path, name: str) -> Iterator[Task]:
    """Yield the tasks of a set."""
    if name in TABLES:
        yield from table_tasks(root, name, DESIGN)
    else:
        yield from islice(array_tasks(root, name, DESIGN), N_HELD_OUT)


def fit_cidg(X: np.ndarray, y: np.ndarray, d: np.ndarray) -> Any:
    """Fit CIDG with a logistic head, with settings selected by a grid."""
    grid = {"gamma": WIDTHS, "conditional_weight": WEIGHTS, "prior_weight": WEIGHTS, "ridge": RIDGES}
    return ProjectionSearchCV(CIDG(), grid, classifier=HEAD, scoring="neg_log_loss").fit(X, y, sample_domain=d)


class Harmonized:
    """Logistic regression on harmonized columns."""

    def __init__(self, C: float) -> None:
        self.harmonizer = DomainHarmonizer()
        self.classifier = LogisticRegression(C=C, max_iter=2000)

    def fit(self, X: np.ndarray, y: np.ndarray, sample_domain: np.ndarray) -> Harmonized:
        """Harmonize the sources, then fit the classifier."""
        self.classifier.fit(self.harmonizer.fit_transform(X, sample_domain=sample_domain), y)
        self.classes_ = self.classifier.classes_
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities for rows of a new domain."""
        return self.classifier.predict_proba(self.harmonizer.transform(X))


class Plain(LogisticRegression):
    """Logistic regression that ignores domains."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_domain: np.ndarray) -> Plain:
        """Fit to all rows."""
        return super().fit(X, y)


def select_by_held_out_loss(models: list[Any], X: np.ndarray, y: np.ndarray, d: np.ndarray) -> Any:
    """Return the model with the smallest log loss on held-out source domains, fitted to all of them."""
    classes = np.unique(y).tolist()
    losses = []
    for make_model in models:
        here = []
        for domain in np.unique(d):
            train = d != domain
            model = make_model().fit(X[train], y[train], sample_domain=d[train])
            P = align_probabilities(model.predict_proba(X[~train]), model.classes_.tolist(), classes)
            here.append(log_loss(np.searchsorted(classes, y[~train]), P))
        losses.append(np.mean(here))
    return models[int(np.argmin(losses))]().fit(X, y, sample_domain=d)


def fit(method: str, X: np.ndarray, y: np.ndarray, d: np.ndarray) -> Any:
    """Fit a method."""
    if method == "CIDG":
        return fit_cidg(X, y, d)
    if method == BASELINE:
        return select_by_held_out_loss([lambda C=C: Plain(C=C, max_iter=2000) for C in COSTS], X, y, d)
    if method == "harmonized logistic":
        return select_by_held_out_loss([lambda C=C: Harmonized(C) for C in COSTS], X, y, d)
    return select_by_held_out_loss([lambda C=C: MarginalTransferClassifier(C=C) for C in (1.0, 10.0)], X, y, d)


def evaluate(task: Task, method: str) -> dict[str, Any]:
    """Fit a method to the sources and return its metrics on the held-out domain, with seconds of CPU."""
    columns = make_pipeline_for("logistic regression", task.X, 1, None)[0].set_output(transform="default")
    X = np.asarray(columns.set_params(sparse_threshold=0).fit_transform(task.X), dtype=float)
    X_target = np.asarray(columns.transform(task.X_target), dtype=float)
    varying = np.ptp(X, axis=0) > 0
    y = task.y.astype(str)
    domain = task.domain.astype(str)
    start = time.process_time()
    model = fit(method, X[:, varying], y, domain)
    seconds = time.process_time() - start
    known = [str(label) for label in model.classes_]
    classes = sorted({*known, *task.y_target})
    P = align_probabilities(model.predict_proba(X_target[:, varying]), known, classes)
    predicted = np.array(classes, dtype=object)[P.argmax(axis=1)]
    return {**measure(task.y_target, predicted, P, classes), "seconds": seconds}


def complete_sets(rows: list[dict[str, Any]]) -> list[str]:
    """Return the sets for which all methods have results on the same held-out domains; print the others."""
    complete = []
    for name in (*TABLES, *ARRAYS):
        targets = {
            method: {row["target"] for row in rows if (row["data"], row["method"]) == (name, method)}
            for method in METHODS
        }
        if all(len(found) == N_HELD_OUT and found == targets[METHODS[0]] for found in targets.values()):
            complete.append(name)
        else:
            print("Left out, since results are missing:", name)
    return complete


def mean_results(rows: list[dict[str, Any]], names: list[str]) -> dict[str, np.ndarray]:
    """Return the means over held-out domains by metric: one row for each set, one column for each method."""
    means = {}
    for metric in (*METRICS, "seconds"):
        values = [
            [
                np.nanmean([row[metric] for row in rows if (row["data"], row["method"]) == (name, method)])
                for method in METHODS
            ]
            for name in names
        ]
        means[metric] = np.array(values)
    return means


def compare_methods(means: dict[str, np.ndarray]) -> list[list[Any]]:
    """Return wins, losses and the mean difference over sets between methods and the baseline, for each metric."""
    table = []
    for column, method in enumerate(METHODS[1:], 1):
        for metric in METRICS:
            values = means[metric]
            differences = values[:, column] - values[:, 0]
            gains = -differences if IS_LOSS[metric] else differences
            error = differences.std(ddof=1) / np.sqrt(len(differences))
            digits = DECIMALS[metric] + 1
            counts = [int(np.sum(gains > EQUAL)), int(np.sum(gains < -EQUAL)), int(np.sum(np.abs(gains) <= EQUAL))]
            summary = [f"{differences.mean():+.{digits}f}", f"{error:.{digits}f}"]
            table.append([f"{method} against {BASELINE}", metric, *counts, *summary])
    return table


def write_tables(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the means of each set, and the comparisons of methods to a second file beside it."""
    names = complete_sets(rows)
    means = mean_results(rows, names)
    table = [
        [metric, name, *(f"{value:.{DECIMALS.get(metric, 2)}f}" for value in values)]
        for metric in means
        for name, values in zip(names, means[metric], strict=True)
    ]
    comparisons = compare_methods(means)
    header = ["Comparison", "Metric", "Wins", "Losses", "Ties", "Mean difference", "Standard error"]
    tables = {
        path: [["Metric", "Data", *METHODS], *table],
        path.with_stem(f"{path.stem}_comparisons"): [header, *comparisons],
    }
    for file_path, lines in tables.items():
        with file_path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
        for line in lines:
            print(*line, sep="\t")


def main() -> None:
    """Run the study, or the part of it that is not in the output file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--names", nargs="*", default=[*TABLES, *ARRAYS], help="sets to run; none: tables only")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    done = {(row["data"], row["target"], row["method"]) for row in rows}
    for name in options.names:
        for task in tasks(options.data, name):
            for method in METHODS:
                if (name, task.target, method) in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = evaluate(task, method)
                row = {"data": name, "target": task.target, "method": method, **result, **machine()}
                rows.append(row)
                with options.output.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(name, task.target, method, {k: round(v, 3) for k, v in result.items()}, flush=True)
    if options.csv is not None:
        write_tables(rows, options.csv)


if __name__ == "__main__":
    main()
