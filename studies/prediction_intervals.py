"""Simulate how often 95% prediction intervals for a new domain hold, and on which side they miss.

Domains have a true accuracy that varies around a center, and it is measured on their rows. From the known domains,
intervals are computed for one more domain by four methods:

- truth: `unseen.metrics.expected_performance`, for the true performance of the new domain;
- measured: the same for the value measured on its rows (`n_rows_new`);
- textbook: `unseen.metrics.random_effects` on the logit scale, which equals metafor (REML, Hartung-Knapp, t with k - 1
  degrees of freedom), for the true performance;
- earlier: Student's interval on the arcsine scale, which this package used before, for the measured value.

    python -m studies.prediction_intervals --replicates 1000 --csv docs/results/prediction_intervals.csv
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import expit, logit, stdtrit

from unseen.metrics import expected_performance, random_effects

METHODS = ("truth", "measured", "textbook", "earlier")
ROWS = (100, 400)  # fewest and most rows of a domain, whose logarithm is uniform
ROUNDING = 1e-12


@dataclass(frozen=True)
class World:
    """A population of domains.

    Attributes
    ----------
    skill : str
        Scale on which the performance of domains is normal: "logit", or "raw", where it is clipped to [0, 1].
    center : float
        Performance of a typical domain.
    spread : float
        Standard deviation between domains, on that scale.
    n_domains : int
        Known domains.
    """

    skill: str
    center: float
    spread: float
    n_domains: int

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """True and measured accuracy, and rows; the last domain is the new one."""
        n = self.n_domains + 1
        noise = self.spread * rng.normal(size=n)
        center = logit(self.center) + noise if self.skill == "logit" else self.center + noise
        truth = expit(center) if self.skill == "logit" else np.clip(center, 0, 1)
        rows = np.exp(rng.uniform(*np.log(ROWS), size=n)).astype(int)
        return truth, rng.binomial(rows, truth) / rows, rows


def textbook_interval(values: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    """Student's prediction interval of logits with half a row more, with one estimate of tau, as in metafor."""
    successes, failures = values * rows + 0.5, (1 - values) * rows + 0.5
    result = random_effects(np.log(successes / failures), np.sqrt(1 / successes + 1 / failures))
    reach = stdtrit(result.degrees_of_freedom, 0.975) * np.sqrt(result.se**2 + result.tau2)
    return float(expit(result.estimate - reach)), float(expit(result.estimate + reach))


def earlier_interval(values: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    """Student's prediction interval on the arcsine scale, with at least the binomial variance."""
    k = len(values)
    error = float(np.mean(np.maximum(values * (1 - values) / rows, rows**-2.0)))
    mean = float(values.mean())
    size = max(mean * (1 - mean) / error, 1 / np.sqrt(error))
    angles = np.arcsin(np.sqrt(values))
    variance = max(float(angles.var(ddof=1)), 1 / (4 * size))
    reach = stdtrit(k - 1, 0.975) * np.sqrt(variance * (1 + 1 / k))
    low, high = np.clip([angles.mean() - reach, angles.mean() + reach], 0, np.pi / 2)
    return float(np.sin(low) ** 2), float(np.sin(high) ** 2)


def simulate(world: World, n_replicates: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """For each method: shares of new domains below and above the interval, and the median width."""
    rng = np.random.default_rng(seed)
    outcomes: dict[str, list[tuple[bool, bool, float]]] = {method: [] for method in METHODS}
    known = slice(0, world.n_domains)
    for _ in range(n_replicates):
        truth, values, rows = world.draw(rng)
        expected = expected_performance(values[known], n_rows=rows[known])
        measured = expected_performance(values[known], n_rows=rows[known], n_rows_new=float(rows[-1]))
        intervals = {
            "truth": (expected.prediction_interval, truth[-1]),
            "measured": (measured.prediction_interval, values[-1]),
            "textbook": (textbook_interval(values[known], rows[known]), truth[-1]),
            "earlier": (earlier_interval(values[known], rows[known]), values[-1]),
        }
        for method, ((low, high), target) in intervals.items():
            outcomes[method].append((target < low - ROUNDING, target > high + ROUNDING, high - low))
    result = {}
    for method, found in outcomes.items():
        below, above, width = np.array(found, dtype=float).T
        result[method] = {"below": below.mean(), "above": above.mean(), "width": float(np.median(width))}
    return result


def worlds() -> Iterator[World]:
    """All populations of the study."""
    for n_domains in (5, 8, 15):
        for center in (0.75, 0.93):
            for spread in (0.15, 0.3, 0.6):
                yield World("logit", center, spread, n_domains)
        yield World("raw", 0.75, 0.05, n_domains)
        yield World("raw", 0.9, 0.03, n_domains)


def main() -> None:
    """Print one line per world and method, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    columns = ("domains", "skill", "center", "spread", "method", "held", "below", "above", "median_width")
    lines = []
    print(*columns)
    for seed, world in enumerate(worlds()):
        description = (world.n_domains, world.skill, world.center, world.spread)
        for method, found in simulate(world, options.replicates, seed).items():
            held = 1 - found["below"] - found["above"]
            numbers = (f"{held:.4f}", f"{found['below']:.4f}", f"{found['above']:.4f}", f"{found['width']:.3f}")
            lines.append((*description, method, *numbers))
            print(*lines[-1], flush=True)
    if options.csv:
        with open(options.csv, "w", newline="") as output:
            writer = csv.writer(output, lineterminator="\n")
            writer.writerow((*columns, "replicates"))
            writer.writerows((*line, options.replicates) for line in lines)


if __name__ == "__main__":
    main()
