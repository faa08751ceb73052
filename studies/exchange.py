"""Compare models that sites fit by exchanging files with models of all rows in one place, on real tables.

The design was fixed before the first run on all tables. Trials on heart preceded it: the draft of a plan had the ridges
"scale" and "0.01*scale", and after them "100*scale" replaced the second.

- Tables, held-out domains, rows and metrics are those of `studies.tables`: seven tables; the first, the middle and the
  last domain; at most 120 random rows of each source domain and 2,000 of the held-out domain.
- Every source domain is a site. The plan is drafted from the rows of the largest site (the first of equal ones):
  columns, levels, centers and scales. It has the default settings of a draft (2 of KFDA, 6 of CIDG), all classes of the
  source domains, and a smallest cell of 1 row, since the tables are public and sites have at most 120 rows. Two plans:
  linear features, and 300 random features with the default kernel coefficient and seed 0.
- Both exchanges take place: statistics of each site, models without each site, results of each site. The setting with
  the lowest mean log loss over sites is selected, and its model of all sites predicts the held-out domain.
- Beside it: logistic regression, tuned on all rows in one place (`studies.baselines`), fitted again here; and the means
  of `unseen.fit` in docs/results/tables.csv, from the same rows and metrics.

    python -m studies.exchange --data ../shared/data --csv docs/results/exchange.csv
"""

from __future__ import annotations

import argparse
import csv
import time
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unseen.exceptions import DataWarning
from unseen.exchange import aggregate, combine, draft_plan, fit_statistics, load_plan, score_site

from .baselines import align_probabilities
from .tables import DECIMALS, FULL, IS_LOSS, OURS, TABLES, Task, evaluate, measure, table_tasks

METRICS = ("AUC", "log loss")
LOGISTIC = "logistic regression"
PLANS: dict[str, dict[str, Any]] = {
    "exchanged, linear": {"map": "linear"},
    "exchanged, random features": {"map": "random", "n_features": 300},
}
METHODS = (*PLANS, LOGISTIC, OURS)


def fit_exchanged(task: Task, features: dict[str, Any]) -> Any:
    """Play all roles: statistics, models without each site, results, and the selected model."""
    table = pl.from_pandas(task.X.reset_index(drop=True)).with_columns(label=pl.Series(task.y.astype(str)))
    names = sorted(set(task.domain.tolist()), key=lambda name: (-int((task.domain == name).sum()), name))
    rows = {name: table.filter(pl.Series(task.domain == name)) for name in names}
    drafted = tomllib.loads(draft_plan(rows[names[0]], label="label", name=task.data))
    if len(np.unique(task.y)) > len(drafted["classes"]) or "positive" in drafted:
        drafted.pop("positive", None)
        drafted.pop("threshold", None)
    drafted |= {"classes": sorted(set(task.y.astype(str).tolist())), "smallest_cell": 1, "features": features}
    plan = load_plan(drafted)
    model = fit_statistics([aggregate(rows[name], plan, site=name) for name in names])
    return combine([score_site(model, rows[name], site=name) for name in names], model=model).model


def evaluate_exchanged(task: Task, features: dict[str, Any]) -> dict[str, float]:
    """Metrics of the exchanged model on the held-out domain."""
    start = time.process_time()
    model = fit_exchanged(task, features)
    known = [str(label) for label in model.classes_]
    classes = sorted({*known, *task.y_target})
    P = align_probabilities(model.predict_proba(pl.from_pandas(task.X_target.reset_index(drop=True))), known, classes)
    predicted = np.array(classes, dtype=object)[P.argmax(axis=1)]
    return {**measure(task.y_target, predicted, P, classes), "seconds": time.process_time() - start}


def read_published(path: Path) -> dict[tuple[str, str, str], float]:
    """Means over tasks by table, method and metric."""
    with path.open(newline="") as file:
        return {(row["data"], row["method"], row["metric"]): float(row["mean"]) for row in csv.DictReader(file)}


def main() -> None:
    """Run the study, print its table and write it as CSV."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--published", type=Path, default=Path("docs/results/tables.csv"))
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    warnings.simplefilter("ignore", DataWarning)
    published = read_published(arguments.published)
    means: dict[tuple[str, str, str], float] = {}
    for name in arguments.tables:
        scores: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS[:-1]}
        for task in table_tasks(arguments.data, name, FULL):
            for method, features in PLANS.items():
                scores[method].append(evaluate_exchanged(task, features))
            scores[LOGISTIC].append(evaluate(task, LOGISTIC, FULL, n_jobs=1))
        for metric in METRICS:
            for method, rows in scores.items():
                means[name, method, metric] = float(np.nanmean([row[metric] for row in rows]))
            means[name, OURS, metric] = published[name, OURS, metric]
        seconds = sum(row["seconds"] for rows in scores.values() for row in rows)
        print(f"{name}: {seconds:.0f} s; logistic regression before {published[name, LOGISTIC, 'AUC']:.2f}", flush=True)
    lines = []
    for metric in METRICS:
        print(f"\n{metric}: {'smaller' if IS_LOSS[metric] else 'larger'} is better")
        print(f"{'':<16}" + "".join(f"{method:>28}" for method in METHODS))
        for name in (*arguments.tables, "mean"):
            chosen = arguments.tables if name == "mean" else [name]
            values = [float(np.mean([means[one, method, metric] for one in chosen])) for method in METHODS]
            texts = [f"{value:.{DECIMALS[metric]}f}" for value in values]
            print(f"{name:<16}" + "".join(f"{text:>28}" for text in texts))
            lines.append([metric, name, *texts])
    if arguments.csv is not None:
        with arguments.csv.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["metric", "table", *METHODS], *lines])


if __name__ == "__main__":
    main()
