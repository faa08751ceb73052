"""Measure on real data what a pool of models gives over the one that is picked, and over the best plain classifier.

For each data set, each domain is the target in turn, with at most 120 rows of every other domain to learn from. One
pass of the engine asks all candidates about the held-out sources and about the target, each as it is and resampled to a
class skew of 80 to 20; everything else is a reading of these predictions. Rows go to a JSON-lines file task by task, so
a run that was stopped continues where it was.

    python -m studies.pooling --data ../shared/data --names rotated_digits gvhd --output pooling.jsonl
"""

from __future__ import annotations

import argparse
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
from sklearn.preprocessing import StandardScaler

from unseen import DomainCenterer, __version__
from unseen.labels import Samples
from unseen.selection import (
    METHODS,
    Candidate,
    Prediction,
    Scorer,
    accuracies,
    choose,
    contenders,
    graded,
    guarded,
    neighbour_graph,
    nested_weights,
    pool_weights,
    pooled,
    predictions,
    smoothed,
    softmax,
    tally,
    temperature,
    trial_batches,
)

from .unseen_classifier import PLAIN, load

NAMES = ("rotated_digits", "office_caltech_surf", "office_caltech_efflite0", "rotated_mnist", "gvhd")
TABULAR = {"gvhd": 0}  # measurements in units of their own, and the label of rows that have none
ALIGNED = ("rotated_mnist",)  # row by row the same images in every domain
TINY = 1e-300  # a probability that was rounded to 0 is not that of a class that training did not show
STEPS = ("pick", "pool I", "pool A, guarded", "and smoothed", "without CIDG", "without centring")
BATCHES = ("natural", "skewed")


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


def members(n_classes: int, tabular: bool) -> list[Candidate]:
    """Raw and centred plain classifiers, and CIDG with a logistic head, source- and target-centred."""
    centred = {"transformer": DomainCenterer(renormalize=not tabular)}
    grid = {"gamma": ("0.1*median", "median"), "ridge": ("1e-2*scale", "scale")}
    weights = (0.0, "scale", "1e2*scale")
    cidg = replace(METHODS["CIDG"], grid=[{**grid, "conditional_weight": [w], "prior_weight": [w]} for w in weights])
    table = [*(METHODS[n] for n in PLAIN), *(replace(METHODS[f"centred {n}"], **centred) for n in PLAIN), cidg]
    how: dict[str, Any] = {"heads": ["logistic"], "centerings": ["source", "target"]}
    return [candidate for method in table for candidate in method.candidates(n_classes, **how)]


def votes(prediction: Prediction, classes: np.ndarray) -> np.ndarray:
    """Log-probabilities, or votes of each class against the rest; a class that training did not show has -inf."""
    told = prediction.responses
    S = np.log(np.maximum(told["predict_proba"], TINY)) if "predict_proba" in told else told["decision_function"]
    found = np.full((len(S), len(classes)), -np.inf)
    found[:, np.searchsorted(classes, told["classes_"])] = np.column_stack([-S, S]) if S.ndim == 1 else S
    return found


@dataclass(frozen=True)
class Task:
    """Sources, and last the target; every part is asked about in batches, of which the first is the natural one."""

    samples: Samples
    tabular: bool
    seed: int

    @cached_property
    def parts(self) -> list[np.ndarray]:
        """Rows of each domain, in the order in which they come."""
        return [np.flatnonzero(self.samples.domain == name) for name in dict.fromkeys(self.samples.domain.tolist())]

    @cached_property
    def codes(self) -> list[np.ndarray]:
        """Classes of the rows of each part."""
        return [self.samples.codes[rows] for rows in self.parts]

    @cached_property
    def batches(self) -> list[list[np.ndarray]]:
        """Positions among the rows of each part, as `accuracies` draws them."""
        return [trial_batches(codes, [self.seed, k]) for k, codes in enumerate(self.codes)]

    @cached_property
    def features(self) -> list[np.ndarray]:
        """Rows of each part as neighbours are looked for."""
        X = self.samples.X
        if self.tabular:
            X = StandardScaler().fit(X[np.concatenate(self.parts[:-1])]).transform(X)
        return [X[rows] for rows in self.parts]

    def splits(self, n_batches: int | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each source is left out in turn, and last nothing but the target; of each part so many batches are asked."""
        last = len(self.parts) - 1
        trained = [[part for i, part in enumerate(self.parts) if i not in (k, last)] for k in range(len(self.parts))]
        parts = zip(trained, self.parts, self.batches, strict=True)
        return [(np.concatenate(train), part[rows]) for train, part, all_rows in parts for rows in all_rows[:n_batches]]


class Answers:
    """What the candidates of a task said, all of it out of domain, as probabilities of one temperature each."""

    def __init__(self, task: Task) -> None:
        self.task, codes = task, task.codes[:-1]
        candidates, splits = members(len(task.samples.classes), task.tabular), task.splits()
        preparation = StandardScaler() if task.tabular else None
        told = [*predictions(candidates, task.samples, splits, preparation=preparation, scoring="neg_log_loss")]
        self.failed = sorted({f"{candidates[p.candidate].variant}: {p.error}" for p in told if p.error})
        lost = {p.candidate for p in told if p.error}
        kept = [i for i in range(len(candidates)) if i not in lost]
        self.candidates, self.n_batches = [candidates[i] for i in kept], len(task.batches[0])
        self.told = {
            (kept.index(p.candidate), *divmod(p.split, self.n_batches)): p for p in told if p.candidate not in lost
        }
        self.costs = {c.method: 0.0 for c in self.candidates}  # seconds by method, of fits and predictions
        for (j, _, _), p in self.told.items():
            self.costs[self.candidates[j].method] += p.fit_seconds + p.predict_seconds
        S = {at: votes(p, task.samples.classes) for at, p in self.told.items()}
        m, J = len(codes), len(kept)
        self.betas = [temperature([S[j, k, 0] for k in range(m)], codes) for j in range(J)]
        # By part and batch: (J, n, C).
        self.P = [
            [np.array([softmax(S[j, k, b], self.betas[j]) for j in range(J)]) for b in range(self.n_batches)]
            for k in range(m + 1)
        ]

    def on_target(self, say: Any) -> list[float]:
        """Accuracy in percent on the natural batch, and its mean over skewed ones; `say` turns (P, X) into (n, C)."""
        truth, X = self.task.codes[-1], self.task.features[-1]
        asked = zip(self.P[-1], self.task.batches[-1], strict=True)
        natural, *others = (100 * np.mean(say(P, X[rows]).argmax(axis=1) == truth[rows]) for P, rows in asked)
        return [float(natural), float(np.mean(others))]

    def singles(self) -> dict[str, Any]:
        """The plain classifiers and the pick, tuned on held-out sources; the best candidate in hindsight."""
        m, samples = len(self.task.parts) - 1, self.task.samples
        natural = [replace(p, candidate=j, split=k) for (j, k, b), p in self.told.items() if k < m and b == 0]
        score = Scorer("accuracy", samples, self.task.splits(1))
        field = contenders(self.candidates, tally(graded(natural, score), len(self.candidates), m))
        chosen = choose(field)
        single = [self.on_target(lambda P, _, j=j: P[j]) for j in range(len(self.candidates))]
        of = {c.name: single[self.candidates.index(c.candidate)] for c in field}
        plain = {name: of[name] for name in PLAIN if name in of}
        best = {"best candidate": np.max(single, axis=0).tolist()}
        return {**plain, "pick": of[chosen.name], **best, "chose": chosen.name}

    def pool(self, taking: Sequence[bool]) -> dict[str, Any]:
        """Pool I of inductive candidates among those that take part, A of all; then what the guards make of them."""
        m, codes, seed = len(self.task.parts) - 1, self.task.codes[:-1], self.task.seed
        natural = [self.P[k][0] for k in range(m)]
        inductive = np.array([not candidate.transductive for candidate in self.candidates])
        masks = {"I": inductive & taking, "A": np.asarray(taking)}
        nested = {name: nested_weights(natural, codes, members=mask) for name, mask in masks.items()}
        asked = {(k, rows.tobytes()): b for k in range(m) for b, rows in enumerate(self.task.batches[k])}
        found = accuracies(
            codes, lambda k, rows: self.P[k][asked[k, rows.tobytes()]], nested, self.task.features[:-1], seed
        )
        name, strength, guards = guarded(found, "I", "A")
        weights = {name: pool_weights(natural, codes, members=mask) for name, mask in masks.items()}
        return {
            **{f"pool {pool}": self.on_target(lambda P, _, w=w: pooled(w, P)) for pool, w in weights.items()},
            "pool A, guarded": self.on_target(lambda P, _: pooled(weights[name], P)),
            "and smoothed": self.on_target(
                lambda P, X: smoothed(pooled(weights[name], P), neighbour_graph(X), strength)
            ),
            "guards": [guard.reason for guard in guards],
            "used": [name, strength],
            "gains": [[guard.natural.tolist(), guard.skewed.tolist()] for guard in guards],
        }


def evaluate(task: Task) -> dict[str, Any]:
    """Everything that is measured on one task: pairs of accuracies on natural and skewed batches of the target."""
    start = time.process_time()
    answers = Answers(task)
    asked = time.process_time()
    whole = answers.pool([True] * len(answers.candidates))
    seconds = {"ask": asked - start, "pool": time.process_time() - asked}
    less = {
        "without CIDG": answers.pool([c.method != "CIDG" for c in answers.candidates])["and smoothed"],
        "without centring": answers.pool([not c.transductive for c in answers.candidates])["and smoothed"],
    }
    sizes = {"sources": len(task.parts) - 1, "rows": [len(part) for part in task.parts]}
    betas = {"betas": [float(f"{beta:.4g}") for beta in answers.betas], "failed": answers.failed}
    return {**answers.singles(), **whole, **less, **sizes, **betas, "costs": answers.costs, "seconds": seconds}


def gains(rows: list[dict[str, Any]], step: str, batch: int, *, each: bool = False) -> np.ndarray:
    """Differences to the plain classifier that is best in hindsight: over the data set, or on each task."""
    plain = np.array([[row[name][batch] for row in rows] for name in PLAIN])
    best = plain.max(axis=0) if each else plain[plain.mean(axis=1).argmax()]
    return np.array([row[step][batch] for row in rows]) - best


def table(rows: list[dict[str, Any]]) -> None:
    """Mean difference to the best plain classifier in hindsight, by data set, and the mean of these."""
    steps = (*STEPS, "best candidate")
    sets = {name: [row for row in rows if row["data"] == name] for name in dict.fromkeys(row["data"] for row in rows)}
    for batch, kind in enumerate(BATCHES):
        for each in (False, True):
            print(
                f"\n{kind} batches, against the plain classifier best in hindsight on each {'task' if each else 'set'}"
            )
            print(f"{'':<26}{'plain':>7}" + "".join(f"{step:>19}" for step in steps))
            means = []
            for name, here in sets.items():
                found = [gains(here, step, batch, each=each) for step in steps]
                errors = [g.std(ddof=1) / np.sqrt(len(g)) if len(g) > 1 else np.nan for g in found]
                best = np.mean([row["pick"][batch] for row in here]) - found[0].mean()
                means.append([g.mean() for g in found])
                cells = [f"{f'{mean:+.2f} ({e:.2f})':>19}" for mean, e in zip(means[-1], errors, strict=True)]
                print(f"{f'{name} ({len(here)})':<26}{best:7.2f}" + "".join(cells))
            print(f"{'mean of sets':<33}" + "".join(f"{f'{mean:+.2f}':>19}" for mean in np.mean(means, axis=0)))
    for name, here in sets.items():
        used = [tuple(row["used"]) for row in here]
        counts = {f"{pool} {strength:g}": used.count((pool, strength)) for pool, strength in sorted(set(used))}
        seconds = [np.mean([row["seconds"][part] for row in here]) for part in ("ask", "pool")]
        print(f"{name}: pool and strength used {counts}; CPU seconds to ask {seconds[0]:.1f}, to pool {seconds[1]:.1f}")


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per data set")
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--source-rows", type=int, default=120, help="at most so many of each source domain")
    parser.add_argument("--target-rows", type=int, default=500, help="at most so many of the target")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
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
                task = Task(drawn(samples, target, sizes, draw, name in ALIGNED), name in TABULAR, draw)
                found = {"data": name, "target": target, "draw": draw, **evaluate(task), **versions}
                with options.output.open("a") as file:
                    file.write(json.dumps(found) + "\n")
                rows.append(found)
                told = ", ".join(f"{step} {found[step][0]:.1f}" for step in (*PLAIN, *STEPS[:4]))
                print(
                    f"{name} without {target}, draw {draw}: {told}; {sum(found['seconds'].values()):.0f} s", flush=True
                )
    table([row for row in rows if row["data"] in options.names])


if __name__ == "__main__":
    main()
