"""Performance of a plain logistic model on each study of the IMPACT data, trained on the other studies.

python tests/impact_studies.py ../shared/data/tables/impact_tbi.csv.gz tests/references/impact_tbi.csv
"""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from unseen.metrics import auc, calibration_in_the_large, calibration_slope

TABLE = Path(__file__).parents[2] / "shared" / "data" / "tables" / "impact_tbi.csv.gz"
MEASURES = ("auc", "calibration_in_the_large", "calibration_slope")


def study_estimates(table: Path) -> list[dict[str, float | str]]:
    """One row per study: estimates on the scales for meta-analysis and their standard errors."""
    with gzip.open(table, "rt") as lines:
        rows = list(csv.DictReader(lines))
    study = np.array([row["domain"] for row in rows])
    y = np.array([row["label"] == "1" for row in rows])
    texts = np.array([[row["motor_score"], row["pupil"], row["ct"]] for row in rows])
    columns = ("age", "hypox", "hypots", "tsah", "edh")
    numbers = np.array([[float(row[name] or "nan") for name in columns] for row in rows])
    numbers = np.where(np.isfinite(numbers), numbers, np.nanmedian(numbers, axis=0))
    X = np.hstack([StandardScaler().fit_transform(numbers), OneHotEncoder(sparse_output=False).fit_transform(texts)])
    result: list[dict[str, float | str]] = []
    for name in np.unique(study):
        own = study == name
        model = LogisticRegression(C=1.0, max_iter=10_000, tol=1e-8).fit(X[~own], y[~own])
        p = model.predict_proba(X[own])[:, 1]
        estimates = (
            auc(y[own], p),
            calibration_in_the_large(y[own], p),
            calibration_slope(y[own], p),
        )
        row: dict[str, float | str] = {"study": str(name)}
        for measure, estimate in zip(MEASURES, estimates, strict=True):
            row[measure] = estimate.scaled_value
            row[f"{measure}_se"] = estimate.scaled_se
        result.append(row)
    return result


if __name__ == "__main__":
    estimates = study_estimates(Path(sys.argv[1]))
    with open(sys.argv[2], "w", newline="") as output:
        writer = csv.DictWriter(output, fieldnames=list(estimates[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(estimates)
