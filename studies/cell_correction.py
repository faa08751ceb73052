"""Compare corrections of the scatter between domains on simulated data, whose population scatter is known.

The design was fixed before the first run. Samples have 10 features, normal within cells, with variances from 0.5 to 2.
Class means are normal with a standard deviation of 0.7. In the world "shift", every cell mean (a class in a domain)
deviates from the mean of its class, in the first three features, by a shift of its domain and by a shift of the cell,
both normal with a standard deviation of 0.7; in the world "no shift" all domains are equal. Three classes; 4 or 8
source domains; 5, 10, 20 or 50 rows in each cell; weights of the invariance terms of 1 and 100 times "scale"; 40
replicates. The ridge is small, so that the population problem has none.

Each row of the result is the mean over replicates of

- trace: the trace of the estimated conditional scatter, divided by the trace of the covariance within cells; the row
  "population" is the truth;
- error: the Frobenius norm of its deviation from the population scatter, divided by the same trace;
- angle: the largest angle in degrees between the subspace of the components and that of the population problem;
- accuracy: of logistic regression on the components, in percent, on 10 new domains of the same world.

    python -m studies.cell_correction --csv docs/results/cell_correction.csv
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unseen import CIDG
from unseen.estimators import feature_spectrum, make_problem
from unseen.linalg import CellStatistics, Membership

N_FEATURES = 10
N_CLASSES = 3
N_SHIFTED = 3
VARIANCES = np.linspace(0.5, 2.0, N_FEATURES)
CLASS_SPREAD = 0.7
SHIFTS = {"shift": 0.7, "no shift": 0.0}
N_DOMAINS = (4, 8)
CELL_SIZES = (5, 10, 20, 50)
WEIGHTS = (1, 100)
CORRECTIONS = ("none", "unbiased", "shrink")
RIDGE = "1e-6*scale"
NEW_DOMAINS = 10
NEW_ROWS = 50
REPLICATES = 40
COLUMNS = ("world", "domains", "rows", "weight", "correction", "trace", "error", "angle", "accuracy", "standard error")


@dataclass(frozen=True)
class World:
    """Means of classes, and the standard deviation of the shifts of domains and of cells."""

    class_means: np.ndarray
    shift: float

    def draw_cell_means(self, n_domains: int, rng: np.random.Generator) -> np.ndarray:
        """Return means of shape (n_domains, n_classes, n_features)."""
        means = np.tile(self.class_means, (n_domains, 1, 1))
        means[:, :, :N_SHIFTED] += self.shift * rng.normal(size=(n_domains, 1, N_SHIFTED))
        means[:, :, :N_SHIFTED] += self.shift * rng.normal(size=(n_domains, N_CLASSES, N_SHIFTED))
        return means


def draw_rows(means: np.ndarray, n_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return samples of all cells, their classes and their domains."""
    d, y = (np.repeat(index.ravel(), n_rows) for index in np.indices(means.shape[:2]))
    return means[d, y] + np.sqrt(VARIANCES) * rng.normal(size=(len(y), N_FEATURES)), y, d


def scatter(deviations: np.ndarray) -> np.ndarray:
    """Return the sum of outer products of the last axis."""
    rows = deviations.reshape(-1, N_FEATURES)
    return rows.T @ rows


def conditional_scatter(means: np.ndarray) -> np.ndarray:
    """Return the scatter of cell means about the mean of their class, averaged over domains."""
    return scatter(means - means.mean(axis=0)) / len(means)


def population_subspace(means: np.ndarray, weight: float) -> np.ndarray:
    """Return the components of CIDG for cells of infinitely many rows: the equations of the paper divided by n."""
    class_means = means.mean(axis=0)
    between = scatter(class_means - class_means.mean(axis=0)) / N_CLASSES
    within = np.diag(VARIANCES) + scatter(means - class_means) / (len(means) * N_CLASSES)
    prior = scatter((means - class_means).mean(axis=1)) / len(means)
    denominator = weight * (conditional_scatter(means) + prior) + within
    _, vectors = linalg.eigh(between, denominator)
    return vectors[:, -(N_CLASSES - 1) :]


def estimate_conditional_scatter(cidg: CIDG, X: np.ndarray, y: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return the conditional scatter that a projection with the linear feature map penalizes."""
    cells = CellStatistics.from_features(X, Membership.from_codes(y, d))
    spectrum = feature_spectrum(cells, "CIDG")
    problem = make_problem(cidg, cells.counts, float(np.linalg.norm(spectrum.values)))
    corrected = problem.correct_cells(*problem.whiten(spectrum))
    _, contrast = corrected.penalties[0]
    means = np.array([X[(d == s) & (y == j)].mean(axis=0) for s, j in zip(*np.nonzero(cells.counts), strict=True)])
    root = means.T @ contrast
    return root @ root.T


def replicate(world: str, n_domains: int, n_rows: int, weight: int, seed: int) -> dict[str, tuple[float, ...]]:
    """Return trace, error, angle and accuracy of each correction in one draw; the population has a trace only."""
    rng = np.random.default_rng([seed, n_domains, n_rows])
    here = World(CLASS_SPREAD * rng.normal(size=(N_CLASSES, N_FEATURES)), SHIFTS[world])
    means = here.draw_cell_means(n_domains, rng)
    X, y, d = draw_rows(means, n_rows, rng)
    X_new, y_new, _ = draw_rows(here.draw_cell_means(NEW_DOMAINS, rng), NEW_ROWS, rng)
    truth = conditional_scatter(means)
    exact = population_subspace(means, weight)
    size = VARIANCES.sum()
    results: dict[str, tuple[float, ...]] = {"population": (np.trace(truth) / size, 0.0, 0.0, np.nan)}
    for correction in CORRECTIONS:
        cidg = CIDG(
            conditional_weight=f"{weight}*scale",
            prior_weight=f"{weight}*scale",
            ridge=RIDGE,
            feature_map="linear",
            cell_correction=correction,
        ).fit(X, y, sample_domain=d)
        estimated = estimate_conditional_scatter(cidg, X, y, d)
        angle = np.degrees(linalg.subspace_angles(cidg.coef_, exact).max())
        head = make_pipeline(StandardScaler(), LogisticRegression()).fit(cidg.transform(X), y)
        accuracy = 100 * head.score(cidg.transform(X_new), y_new)
        error = float(np.linalg.norm(estimated - truth)) / size
        results[correction] = (np.trace(estimated) / size, error, float(angle), accuracy)
    return results


def run(n_replicates: int) -> list[list[Any]]:
    """Return one row for each setting and correction, with the standard error of the gain in accuracy over "none"."""
    table: list[list[Any]] = []
    for world in SHIFTS:
        for n_domains in N_DOMAINS:
            for n_rows in CELL_SIZES:
                for weight in WEIGHTS:
                    draws = [replicate(world, n_domains, n_rows, weight, seed) for seed in range(n_replicates)]
                    plain = np.array([draw["none"][3] for draw in draws])
                    for name in ("population", *CORRECTIONS):
                        values = np.array([draw[name] for draw in draws])
                        gains = values[:, 3] - plain
                        error = float(gains.std(ddof=1) / np.sqrt(n_replicates))
                        numbers = [*values.mean(axis=0), error]
                        texts = ["" if np.isnan(number) else f"{number:.3f}" for number in numbers]
                        table.append([world, n_domains, n_rows, weight, name, *texts])
                        print(*table[-1], sep="\t", flush=True)
    return table


def main() -> None:
    """Run the simulation and write the means to a CSV file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    options = parser.parse_args()
    table = run(options.replicates)
    if options.csv is not None:
        with options.csv.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *table])


if __name__ == "__main__":
    main()
