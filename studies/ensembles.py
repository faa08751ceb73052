"""Measure on real data what a pool of models gives over the one that is picked, and over the best plain classifier.

For each data set, each domain is the target in turn, with at most 120 rows of every other domain to learn from. One
pass of the engine asks all candidates about the held-out sources and about the target, each as it is and resampled to a
class skew of 80 to 20; everything else is a reading of these votes by the code that `UnseenClassifier` reads them by.
Rows go to a JSON-lines file task by task, so a run that was stopped continues where it was.

    python -m studies.ensembles --data ../shared/data --names rotated_digits gvhd --output ensembles.jsonl
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from scipy.io import loadmat
from sklearn.preprocessing import StandardScaler, normalize

from unseen import __version__
from unseen.datasets import load_rotated_digits
from unseen.model_selection import (
    METHODS,
    Candidate,
    EvaluationConfig,
    FittedEnsemble,
    OutOfDomainPredictions,
    TrialSplits,
    evaluate_candidates,
    select_result,
)
from unseen.utils.samples import Samples

PLAIN = ("logistic", "linear SVM", "RBF SVM")
NAMES = ("rotated_digits", "office_caltech_surf", "office_caltech_efflite0", "rotated_mnist", "gvhd")
TABULAR = {"gvhd": 0}  # measurements in units of their own, and the label of rows that have none
ALIGNED = ("rotated_mnist",)  # row by row the same images in every domain
STEPS = ("pick", "transductive=False", "pool", "without smoothing", "without CIDG", "without centering")
BATCHES = ("natural", "skewed")
COVERAGE = 0.8  # of prediction sets, or what so many domains can promise


def load(root: Path, name: str, per_domain: int | None, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features with rows of unit length, classes and domains; "rotated_digits" is the embedded data set."""
    if name == "rotated_digits":
        digits = load_rotated_digits()
        return normalize(digits.data), digits.target, digits.domain
    parts = []
    for path in sorted(p for p in (root / name).iterdir() if p.suffix in {".mat", ".npz"}):
        content = loadmat(path) if path.suffix == ".mat" else np.load(path, allow_pickle=False)
        X, y = (content["fts"], content["labels"].ravel()) if path.suffix == ".mat" else (content["X"], content["y"])
        if per_domain is not None:
            rows = np.random.default_rng(seed).permutation(len(y))[:per_domain]
            X, y = X[rows], y[rows]
        parts.append((normalize(X.astype(float)), y.astype(int), np.full(len(y), path.stem)))
    X, y, d = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return X, y, d


def load_set(root: Path, name: str) -> Samples:
    """All rows: of unit length, or in their own units where a row is no direction."""
    if name not in TABULAR:
        return Samples(*load(root, name, None, 0))
    paths = sorted((root / name).glob("*.npz"))
    parts = [(content["X"], content["y"]) for content in map(np.load, paths)]
    X, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    domain = np.repeat([path.stem for path in paths], [len(part[1]) for part in parts])
    known = np.flatnonzero(y != TABULAR[name])
    return Samples(X[known].astype(float), y[known], domain[known])


def drawn(samples: Samples, target: str, sizes: tuple[int, int], seed: int, aligned: bool) -> Samples:
    """At most so many rows of each source and of the target, which comes last; aligned domains share no image."""
    rng, names = np.random.default_rng(seed), np.unique(samples.domain).tolist()
    order, rows, first = None, [], 0
    for name in [*(name for name in names if name != target), target]:
        own = np.flatnonzero(samples.domain == name)
        order = order if aligned and order is not None else rng.permutation(len(own))
        rows.append(own[order[first : first + sizes[name == target]]])
        first += len(rows[-1]) if aligned else 0
    return samples.take(np.concatenate(rows))


def candidates_of(n_classes: int) -> tuple[list[Candidate], list[Candidate]]:
    """Who is in the pool, and beside them all settings of plain classifiers, which are tuned on their own."""
    pool = list(METHODS["auto"].candidates(n_classes, centerings=["target"]))
    known = {candidate.key for candidate in pool}
    plain = [candidate for name in PLAIN for candidate in METHODS[name].candidates(n_classes)]
    return pool, [candidate for candidate in plain if candidate.key not in known]


@dataclass(frozen=True)
class Task:
    """Sources, and the target, whose labels nothing sees but the scores."""

    samples: Samples
    target: str

    @cached_property
    def sources(self) -> Samples:
        """What is learned from."""
        return self.samples.take(np.flatnonzero(self.samples.domain != self.target))

    @cached_property
    def unseen(self) -> Samples:
        """The target."""
        return self.samples.take(np.flatnonzero(self.samples.domain == self.target))

    @cached_property
    def held_out(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each source is left out in turn."""
        domain = self.sources.domain
        return [
            (np.flatnonzero(domain != name), np.flatnonzero(domain == name)) for name in dict.fromkeys(domain.tolist())
        ]


class Answers:
    """What candidates voted on held-out sources, and, trained on all of them, on the target."""

    def __init__(self, task: Task) -> None:
        self.task, pool_and_others = task, candidates_of(len(task.samples.classes))
        self.pool, others = pool_and_others
        self.candidates = [*self.pool, *others]
        trials = TrialSplits.from_splits(task.sources, task.held_out)
        start = time.process_time()
        said = evaluate_candidates(
            self.candidates,
            task.sources,
            trials.splits,
            EvaluationConfig(),
            with_decision_scores=True,
            resampled=trials.skewed_positions,
        )
        self.ballot = OutOfDomainPredictions(self.candidates, task.sources, trials, said)
        n, both = len(task.sources), task.samples  # of which the target comes last
        self.target = TrialSplits.from_splits(both, [(np.arange(n), n + np.arange(len(task.unseen)))])
        asked = evaluate_candidates(
            self.candidates,
            both,
            self.target.splits,
            EvaluationConfig(),
            with_decision_scores=True,
            resampled=self.target.again,
        )
        self.votes = {(p.candidate, p.split): p.responses["decision_scores"] for p in asked if p.codes is not None}
        self.seconds = time.process_time() - start

    def on_target(self, pooling: FittedEnsemble) -> list[np.ndarray]:
        """Probabilities of the natural batch and of skewed ones."""
        batches = self.target.rows[0]
        at = {id(candidate): j for j, candidate in enumerate(self.candidates)}
        said = []
        for b, rows in enumerate(batches):
            cast = []
            for member in pooling.members:
                j = at[id(member)]
                cast.append(self.votes[j, b] if (j, b) in self.votes else self.votes[j, 0][rows])
            said.append(pooling.to_estimator().combine_scores(cast, self.task.unseen.X[rows]))
        return said

    def scores(self, pooling: FittedEnsemble) -> list[float]:
        """Accuracy in percent on the natural batch, and its mean over skewed ones."""
        truth, rows = self.task.unseen.codes, self.target.rows[0]
        asked = zip(self.on_target(pooling), rows, strict=True)
        natural, *others = (100 * np.mean(P.argmax(axis=1) == truth[at]) for P, at in asked)
        return [float(natural), float(np.mean(others))]

    def evaluate(self) -> dict[str, Any]:
        """Everything that is measured on one task."""
        ballot, parts = self.ballot, [self.task.sources.X[test] for _, test in self.task.held_out]
        field = ballot.candidate_results
        pool_ids = set(map(id, self.pool))
        at = {id(candidate): j for j, candidate in enumerate(self.candidates)}
        found: dict[str, Any] = {
            one.candidate.variant: self.scores(ballot.fit_single(at[id(one.candidate)]))
            for one in field
            if one.candidate.variant in PLAIN
        }
        is_member = np.array([id(c) in pool_ids for c in self.candidates])
        is_inductive = is_member & np.array([not c.transductive for c in self.candidates])
        has_cidg = np.array([c.method == "CIDG" for c in self.candidates])
        picked = select_result([one for one in field if id(one.candidate) in pool_ids])
        whole = ballot.fit_ensemble(parts, is_member)
        variants = {
            "pick": ballot.fit_single(at[id(picked.candidate)]),
            "transductive=False": ballot.fit_ensemble(None, is_inductive),
            "pool": whole,
            "without smoothing": replace(whole, smoothing=0.0),
            "without CIDG": ballot.fit_ensemble(parts, is_member & ~has_cidg),
            "without centering": ballot.fit_ensemble(parts, is_inductive),
        }
        found |= {name: self.scores(pooling) for name, pooling in variants.items()}
        singles = [
            self.scores(ballot.fit_single(j))
            for j in np.flatnonzero(is_member).tolist()
            if np.isfinite(ballot.inverse_temperatures[-1, j])
        ]
        found["best candidate"] = np.max(singles, axis=0).tolist()
        expected = [100 * value for value in (whole.forecast.mean, whole.forecast.lower, whole.forecast.upper)]
        found["forecast"] = [*expected, bool(expected[1] <= found["pool"][0] <= expected[2])]
        found["sets"] = self.sets(whole)
        found["decisions"] = [guard.reason for guard in whole.acceptance_tests]
        found["used"] = [whole.trial_name, whole.smoothing, len(whole.members), picked.name]
        found["calibration"] = {when: [own["ece"], own["log_loss"]] for when, own in whole.calibration.items()}
        return found

    def sets(self, pooling: FittedEnsemble) -> list[float]:
        """What was asked of prediction sets, how often they hold the truth on the target, and how large they are."""
        m, truth = len(self.task.held_out), self.task.unseen.codes
        coverage = min(COVERAGE, m / (m + 1))
        sets = pooling.conformal_sets.sets(self.on_target(pooling)[0], coverage)
        return [coverage, float(sets[np.arange(len(truth)), truth].mean()), float(sets.sum(axis=1).mean())]


def prepared(samples: Samples, target: str, tabular: bool) -> Samples:
    """The same, measurements in units of their own scaled by what the sources show."""
    if not tabular:
        return samples
    scaler = StandardScaler().fit(samples.X[samples.domain != target])
    return replace(samples, X=scaler.transform(samples.X))


def gains(rows: list[dict[str, Any]], step: str, batch: int, *, each: bool = False) -> np.ndarray:
    """Differences to the plain classifier that is best in hindsight: over the data set, or on each task."""
    plain = np.array([[row[name][batch] for row in rows] for name in PLAIN])
    best = plain.max(axis=0) if each else plain[plain.mean(axis=1).argmax()]
    return np.array([row[step][batch] for row in rows]) - best


def by_set(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows of each data set."""
    return {name: [row for row in rows if row["data"] == name] for name in dict.fromkeys(row["data"] for row in rows)}


def table(rows: list[dict[str, Any]]) -> None:
    """Mean difference to the best plain classifier in hindsight, by data set, and the mean of these."""
    steps, sets = (*STEPS, "best candidate"), by_set(rows)
    for batch, kind in enumerate(BATCHES):
        print(f"\n{kind} batches, against the plain classifier that is best in hindsight on each set")
        print(f"{'':<28}{'plain':>7}" + "".join(f"{step:>20}" for step in steps))
        means = []
        for name, here in sets.items():
            found = [gains(here, step, batch) for step in steps]
            errors = [g.std(ddof=1) / np.sqrt(len(g)) if len(g) > 1 else np.nan for g in found]
            best = np.mean([row["pick"][batch] for row in here]) - found[0].mean()
            means.append([g.mean() for g in found])
            cells = [f"{f'{mean:+.2f} ({e:.2f})':>20}" for mean, e in zip(means[-1], errors, strict=True)]
            print(f"{f'{name} ({len(here)})':<28}{best:7.2f}" + "".join(cells))
        print(f"{'mean of sets':<35}" + "".join(f"{f'{mean:+.2f}':>20}" for mean in np.mean(means, axis=0)))
    print("\nforecasts and sets on the target; calibration on held-out sources")
    for name, here in sets.items():
        inside = np.mean([row["forecast"][3] for row in here])
        asked, held, size = np.mean([row["sets"] for row in here], axis=0)
        before, after = (np.mean([row["calibration"][when] for row in here], axis=0) for when in ("before", "after"))
        seconds = np.mean([row["seconds"] for row in here])
        used = [row["used"][0] for row in here]
        counts = {model: used.count(model) for model in sorted(set(used))}
        print(
            f"{name}: forecasts held {inside:.0%}; sets of {asked:.0%} held {held:.1%} with {size:.2f} classes; "
            f"ECE {before[0]:.3f} -> {after[0]:.3f}, log loss {before[1]:.2f} -> {after[1]:.2f}; "
            f"{seconds:.1f} CPU seconds a task; {counts}"
        )
    print(f"all forecasts held {np.mean([row['forecast'][3] for row in rows]):.1%} of {len(rows)}")


def written(rows: list[dict[str, Any]], path: Path) -> None:
    """Write accuracies as a table that people can open."""
    columns = [(step, kind) for step in (*PLAIN, *STEPS, "best candidate") for kind in BATCHES]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["data", "target", "draw", *(f"{step} ({kind})" for step, kind in columns), "used"])
        for row in rows:
            values = [f"{row[step][BATCHES.index(kind)]:.2f}" for step, kind in columns]
            writer.writerow([row["data"], row["target"], row["draw"], *values, row["used"][0]])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per data set")
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--source-rows", type=int, default=120, help="at most so many of each source domain")
    parser.add_argument("--target-rows", type=int, default=500, help="at most so many of the target")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--csv", type=Path, help="accuracies as a table")
    options = parser.parse_args(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    done = {(row["data"], row["target"], row["draw"]) for row in rows}
    versions = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    versions |= {"sklearn": sklearn.__version__, "unseen": __version__}
    sizes = (options.source_rows, options.target_rows)
    warnings.simplefilter("ignore")
    for draw in range(options.draws):
        for name in options.names:
            samples = load_set(options.data, name)
            for target in np.unique(samples.domain).tolist():
                if (name, target, draw) in done:
                    continue
                here = drawn(samples, target, sizes, draw, name in ALIGNED)
                answers = Answers(Task(prepared(here, target, name in TABULAR), target))
                about = {"data": name, "target": target, "draw": draw, "seconds": answers.seconds}
                found = {**about, **answers.evaluate(), **versions}
                with options.output.open("a") as file:
                    file.write(json.dumps(found) + "\n")
                rows.append(found)
                told = ", ".join(f"{step} {found[step][0]:.1f}" for step in (*PLAIN, *STEPS[:3]))
                print(f"{name} without {target}, draw {draw}: {told}", flush=True)
    rows = [row for row in rows if row["data"] in options.names]
    table(rows)
    if options.csv is not None:
        written(rows, options.csv)


if __name__ == "__main__":
    main()
