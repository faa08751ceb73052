"""Does the learning curve over domains predict one more domain? ``python -m studies.site_curve``.

Reads tables in ``../shared/data/tables``. A domain is held back. The learning curve of the others predicts the score on
a new domain of a model of all of them, one more than any model of the curve was trained on, with a 95% prediction
interval. Then the model is fitted to all of them and scored on the domain that was held back. Counts how often the
score lies in the interval.

The design is fixed: three tables, domains with two classes or more, at most 16 domains of a table and 12 of them held
back, drawn once with seed 0, at most 150 rows of a domain, logistic regression, AUC for two classes and accuracy for
more.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import polars

from unseen import site_learning_curve
from unseen.evaluation import make_average_candidates, predict_averages
from unseen.model_selection import (
    EvaluationConfig,
    Scorer,
    get_metric,
)
from unseen.tables import Table, load_table, make_preprocessor

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "tables"
TABLES = {"impact_tbi": "roc_auc", "wisdm": "accuracy", "defects_ck": "roc_auc"}
MAX_DOMAINS = 16
MAX_HELD_BACK = 12
MAX_ROWS = 150
METHODS = ("logistic",)


def score_held_back(table: Table, domain: str, metric: str) -> float:
    """Score of a model of all other domains on the domain that is held back."""
    samples = table.samples
    candidates = make_average_candidates(METHODS, len(samples.classes))
    is_test = table.domain == domain
    splits = [(np.flatnonzero(~is_test), np.flatnonzero(is_test))]
    config = EvaluationConfig(preparation=make_preprocessor(table.schema))
    [(probabilities, _)] = predict_averages(candidates, samples, splits, config)
    return Scorer(get_metric(metric).scoring, samples, splits).score_probabilities(0, probabilities)


def run_table(name: str, metric: str, folder: Path = FOLDER) -> list[bool]:
    """Hold back domains of a table; whether each lies in its interval."""
    rng = np.random.default_rng(0)
    frame = polars.read_csv(folder / f"{name}.csv.gz", infer_schema_length=None)
    # A domain with a single class, of which wisdm has one, cannot be used for training.
    frame = frame.filter(polars.col("label").n_unique().over("domain") > 1)
    table = load_table(frame, label="label", domain="domain", max_per_domain=MAX_ROWS)
    domains = rng.permutation(np.unique(table.domain))[:MAX_DOMAINS]
    table = table.take(np.flatnonzero(np.isin(table.domain, domains)))
    results = []
    for domain in domains[:MAX_HELD_BACK].tolist():
        score = score_held_back(table, domain, metric)
        if not np.isfinite(score):
            print(f"{name}, {domain}: {metric} is not defined, since it has a single class", flush=True)
            continue
        others = table.take(np.flatnonzero(table.domain != domain))
        curve = site_learning_curve(others, methods=METHODS, metric=metric)
        point = curve.predict(len(curve.domains))
        results.append(point.lower <= score <= point.upper)
        print(
            f"{name}, {domain}: predicted {point.mean:.3f} ({point.lower:.3f} to {point.upper:.3f}), measured "
            f"{score:.3f}{'' if results[-1] else ' OUTSIDE'}",
            flush=True,
        )
    return results


def main() -> None:
    """Print every prediction, then the shares."""
    start = time.process_time()
    total = []
    for name, metric in TABLES.items():
        results = run_table(name, metric)
        total += results
        print(f"{name}: {sum(results)} of {len(results)} in the interval", flush=True)
    print(f"all: {sum(total)} of {len(total)} ({np.mean(total):.0%}); {time.process_time() - start:.0f} CPU seconds")


if __name__ == "__main__":
    main()
