"""Count on real data how often a forecast of the next domain holds.

For each data set, each domain is held out entirely and the automatic method pools models on the others, three times,
with at most 150 rows of each domain. From the nested scores on these it forecasts, with a 95% interval, the accuracy on
the one held out; the forecast holds if the accuracy lies inside. Results are kept in one file for each data set: a run
that was stopped continues where it was.

    python -m studies.forecast --data ../shared/data --stores forecasts
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from unseen.datasets import load_rotated_digits
from unseen.evaluation import Protocol, Row, run
from unseen.tables import table_from_arrays
from unseen.utils.samples import Samples

from .ensembles import load

NAMES = ("rotated_digits", "office_caltech_surf", "office_caltech_efflite0", "rotated_mnist", "gvhd", "toy")
TABULAR = ("gvhd", "toy")  # measurements in units of their own
ALIGNED = ("rotated_mnist",)  # row by row the same images in every domain
ROWS = 150


def load_set(root: Path, name: str) -> Samples:
    """All rows that have a label; domains that show the same images are drawn apart, each with images of its own."""
    if name == "rotated_digits":
        digits = load_rotated_digits()
        return Samples(digits.data, digits.target, digits.domain)
    if name == "toy":
        table = np.genfromtxt(root / "cidg_authors_toy" / "toy.csv", delimiter=",", dtype=str, skip_header=1)
        return Samples(table[:, :2].astype(float), table[:, 2], table[:, 3])
    if name not in TABULAR:
        found = Samples(*load(root, name, None, 0))
        if name not in ALIGNED:
            return found
        names = np.unique(found.domain)
        images = np.array_split(np.random.default_rng(0).permutation(np.sum(found.domain == names[0])), len(names))
        rows = [np.flatnonzero(found.domain == name)[own] for name, own in zip(names, images, strict=True)]
        return found.take(np.concatenate(rows))
    parts = [(path.stem, np.load(path)) for path in sorted((root / name).glob("*.npz"))]
    X, y = (np.concatenate([content[key] for _, content in parts]) for key in "Xy")
    domain = np.repeat([stem for stem, _ in parts], [len(content["y"]) for _, content in parts])
    return Samples(X[y != 0].astype(float), y[y != 0], domain[y != 0])


def forecasts(root: Path, name: str, store: Path) -> list[Row]:
    """Rows of the automatic method, one for each domain held out and repeat."""
    samples = load_set(root, name)
    samples = samples.take(samples.subsample_rows(most=ROWS))
    protocol = Protocol.paper(repeats=3, scale="standardize" if name in TABULAR else "l2")
    table = table_from_arrays(samples.X, samples.y, samples.domain)
    rows = run(table, ["auto"], protocol, store=store).rows
    return [row for row in rows if row.status == "ok"]


def main() -> None:
    """Print how many forecasts hold, and how wide they are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--stores", type=Path, required=True)
    parser.add_argument("--names", nargs="*", default=NAMES)
    options = parser.parse_args()
    held = asked = 0
    for name in options.names:
        rows = forecasts(options.data, name, options.stores / f"{name}.sqlite")
        means, lows, highs = np.array([row.settings["forecast"] for row in rows]).T
        scores = np.array([row.accuracy for row in rows])
        inside = int(((lows <= scores) & (scores <= highs)).sum())
        held, asked = held + inside, asked + len(rows)
        widths = f"mean forecast {means.mean():.3f}, score {scores.mean():.3f}, width {(highs - lows).mean():.3f}"
        print(f"{name}: {inside} of {len(rows)} hold; {widths}", flush=True)
    print(f"all: {held} of {asked} hold, {held / asked:.1%}; 95% are promised")


if __name__ == "__main__":
    main()
