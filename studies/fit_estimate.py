"""Compare the accuracy that `unseen.fit` expects with that of nested evaluation, on real tables.

``fit`` cross-fits the weights of its ensemble, but the models behind the predictions for one held-out domain were
trained on the others, so that its estimate may be optimistic. The nested estimate, which `unseen.compare` and
`unseen.validate` report, repeats the whole fit without each domain, and leaves its models one domain fewer.

The design was fixed before the first run: seven tables, at most 60 random rows of each domain (seed 0), default
parameters; the differences of accuracy and log loss are means over domains, and their standard error is over tables.

    python -m studies.fit_estimate --data ../shared/data --output docs/results/fit_estimate.csv
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np

import unseen
from unseen.evaluation import run
from unseen.tables import load_table

from .tables import TABLES, standard_error

ROWS = 60  # of each domain


def compare_estimates(path: Path, n_jobs: int) -> dict[str, float]:
    """Mean accuracy and log loss over domains, as `fit` expects them and by nested evaluation."""
    table = load_table(path, label="label", domain="domain", max_per_domain=ROWS)
    model = unseen.fit(path, label="label", domain="domain", max_per_domain=ROWS, n_jobs=n_jobs)
    predictions = run(table, ["auto"], n_jobs=n_jobs)
    losses = []
    for row in predictions.rows:
        truth = predictions.truth(row)
        assert row.probabilities is not None
        probabilities = row.probabilities[np.arange(len(truth)), truth]
        losses.append(-np.log(np.maximum(probabilities, 1e-12)).mean())
    return {
        "domains": len(predictions.rows),
        "fit accuracy": 100 * model.card["scores"]["mean"],
        "nested accuracy": 100 * float(np.mean([row.accuracy for row in predictions.rows])),
        "fit log loss": model.card["ensemble"]["calibration"]["after"]["log_loss"],
        "nested log loss": float(np.mean(losses)),
    }


def main() -> None:
    """Print and write the estimates of all tables, and their mean differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the folder tables")
    parser.add_argument("--output", type=Path, required=True, help="file of estimates (CSV)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in TABLES:
        rows.append({"table": name, **compare_estimates(options.data / "tables" / f"{name}.csv.gz", options.jobs)})
        print(", ".join(f"{key} {value:.4g}" if key != "table" else str(value) for key, value in rows[-1].items()))
        with options.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: f"{v:.4f}" if isinstance(v, float) else v for key, v in row.items()} for row in rows)
    for metric in ("accuracy", "log loss"):
        differences = [row[f"fit {metric}"] - row[f"nested {metric}"] for row in rows]
        print(
            f"{metric}: fit minus nested {np.mean(differences):+.4f}, standard error {standard_error(differences):.4f}"
        )


if __name__ == "__main__":
    main()
