"""Validate methods on a simulated table of 40,000 rows, and compare them with scikit-learn.

Each of 16 sites is held out. The events over those expected (O:E) and the thresholds for a sensitivity of 0.9 are
compared with those of logistic regression in scikit-learn, fitted and scored by leave-one-domain-out cross-validation:

    python -m studies.large_table --methods logistic auto
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import unseen
from unseen.metrics import choose_threshold
from unseen.tables import table_from_arrays

EFFECTS = np.array([0.9, 0.5, -0.4, 0.3, 0.2, 0.0, 0.8, 0.4, -0.3, 0.6])  # of six numbers and four indicators
INDICATOR_RATES = np.array([0.1, 0.3, 0.5, 0.15])
INTERCEPT = -3.45  # 7% of rows are events
AIM = "sensitivity=0.9"


def simulate_table(
    n_rows: int = 40_000, n_sites: int = 16, site_deviation: float = 0.2, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulate features, outcomes and sites of different sizes, by a logistic model with an intercept for each site."""
    rng = np.random.default_rng(seed)
    sizes = rng.lognormal(0, 0.6, n_sites)
    site = rng.choice(n_sites, n_rows, p=sizes / sizes.sum())
    numbers = rng.normal(size=(n_rows, 6))
    X = np.column_stack([numbers, rng.random((n_rows, 4)) < INDICATOR_RATES])
    risk = expit(INTERCEPT + X @ EFFECTS + rng.normal(0, site_deviation, n_sites)[site])
    y = np.where(rng.random(n_rows) < risk, "dead", "alive")
    return X, y, np.array([f"site {k:02d}" for k in site])


def fit_logistic(X: np.ndarray, y: np.ndarray) -> LogisticRegression:
    """Fit logistic regression of scikit-learn to standardized features."""
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)


def choose_reference_threshold(X: np.ndarray, y: np.ndarray, site: np.ndarray) -> float:
    """Choose the threshold on leave-one-domain-out predictions of scikit-learn; sites have equal weights."""
    risks = np.empty(len(y))
    weights = np.empty(len(y))
    for name in np.unique(site):
        rows = site == name
        risks[rows] = fit_logistic(X[~rows], y[~rows]).predict_proba(X[rows])[:, 1]
        weights[rows] = 1 / rows.sum()
    return choose_threshold(y == "dead", risks, AIM, sample_weight=weights).threshold


def main() -> None:
    """Print O:E and thresholds of each method and site."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["logistic", "auto"])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--sites", nargs="+", help="held-out sites (default: all)")
    options = parser.parse_args()
    X, y, site = simulate_table(options.rows)
    table = table_from_arrays(X, y, site)
    events = y == "dead"
    for method in options.methods:
        expected = np.zeros(2)
        observed = 0
        for name in options.sites or np.unique(site).tolist():
            kept = site != name
            start = time.process_time()
            model = unseen.fit(table.take(kept), methods=method, threshold=AIM, positive="dead")
            risks = model.predict_proba(X[~kept])[:, 1]
            threshold = model.card["threshold"]["value"]
            seconds = time.process_time() - start
            reference = fit_logistic(X[kept], y[kept]).predict_proba(X[~kept])[:, 1]
            reference_threshold = choose_reference_threshold(X[kept], y[kept], site[kept])
            observed += events[~kept].sum()
            expected += risks.sum(), reference.sum()
            print(
                f"{method}, {name}: threshold {threshold:.4f} (scikit-learn {reference_threshold:.4f}), "
                f"{seconds:.0f} CPU seconds",
                flush=True,
            )
        ours, theirs = observed / expected
        print(f"{method}: O:E {ours:.3f} (scikit-learn {theirs:.3f})", flush=True)


if __name__ == "__main__":
    main()
