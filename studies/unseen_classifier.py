"""Check on real data that UnseenClassifier is never much worse than the best plain classifier.

For each data set, each domain is left out in turn; 70% of every other domain is trained on, five times. Every contender
is tuned by leave-one-domain-out among the sources and scored on the domain left out. Rows go to a JSON-lines file task
by task, so a run that was stopped continues where it was. The choice is made anew from the stored validation scores.

    python -m studies.unseen_classifier --data ../shared/data --output unseen_classifier.jsonl
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from scipy.io import loadmat
from sklearn.preprocessing import normalize

from unseen import DomainCenterer, __version__
from unseen.datasets import load_rotated_digits
from unseen.labels import Samples
from unseen.selection import (
    HEADS,
    METHODS,
    Candidate,
    Contender,
    LeaveOneDomainOut,
    WithinDomainSplit,
    choose,
    contest,
    method_names,
    seen_by_classifier,
)

PLAIN = ("logistic", "linear SVM", "RBF SVM")


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


def evaluate(X: Any, y: Any, d: Any, target: str, repeat: int) -> Iterator[dict[str, Any]]:
    """Tune on 70% of each source domain, score every contender and the choice on the target."""
    source = np.flatnonzero(d != target)
    split = WithinDomainSplit(0.7, n_splits=1, random_state=repeat).split(X[source], y[source], d[source])
    train = source[next(split)[0]]
    test = d == target
    how = {"coarse": True, "heads": tuple(HEADS), "centerings": ("source", "target")}
    methods = [METHODS[name] for name in method_names(automatic=True)]
    candidates = [c for method in methods for c in method.candidates(len(np.unique(y)), **how)]
    splits = list(LeaveOneDomainOut().split(X[train], y[train], d[train]))
    start = time.perf_counter()
    field = contest(candidates, Samples(X[train], y[train], d[train]), splits)
    chosen = choose(field)
    seconds = time.perf_counter() - start
    for contender in field:
        yield {
            "model": contender.name,
            "kind": contender.kind,
            "validation": contender.scores.tolist(),
            "params": {key: str(value) for key, value in contender.candidate.params.items()},
            "chosen": contender is chosen,
            "accuracy": target_accuracy(contender, X[train], y[train], d[train], X[test], y[test]),
            "seconds": seconds,
        }


def target_accuracy(contender: Contender, X: Any, y: Any, d: Any, X_test: Any, y_test: Any) -> float:
    """Refit on all sources and score on the domain left out."""
    model = contender.candidate.fitted(X, y, d)
    return float(np.mean(model[-1].predict(seen_by_classifier(model, X_test)) == y_test))


def choice(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Apply the rule of UnseenClassifier to stored validation scores."""
    seen = {"transductive": DomainCenterer()}
    field = [
        Contender(
            Candidate(row["model"], row, seen.get(row["kind"]), None, plain=row["kind"] == "plain"),
            np.array(row["validation"]),
        )
        for row in rows
    ]
    return choose(field).candidate.settings


def table(rows: list[dict[str, Any]]) -> None:
    """Mean accuracy on the target of each plain classifier, of the choice, and of the best in hindsight."""
    for name in sorted({row["data"] for row in rows}):
        here = [row for row in rows if row["data"] == name]
        tasks = sorted({(row["target"], row["repeat"]) for row in here})
        plain = {m: 100 * np.mean([row["accuracy"] for row in here if row["model"] == m]) for m in PLAIN}
        chosen = [choice([row for row in here if (row["target"], row["repeat"]) == task]) for task in tasks]
        best = max(plain, key=plain.get)
        picked = {kind: sum(row["kind"] == kind for row in chosen) for kind in ("plain", "inductive", "transductive")}
        print(f"{name}: {len(tasks)} tasks; " + ", ".join(f"{m} {v:.2f}" for m, v in plain.items()), end="; ")
        ours = 100 * np.mean([row["accuracy"] for row in chosen])
        print(f"UnseenClassifier {ours:.2f} ({ours - plain[best]:+.2f} against {best}); chose {picked}")
        means: dict[str, list[float]] = {}
        for row in here:
            means.setdefault(row["model"], []).append(100 * row["accuracy"])
        for model, values in sorted(means.items(), key=lambda item: -np.mean(item[1])):
            print(f"    {model:<34} {np.mean(values):6.2f}")


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per data set")
    parser.add_argument(
        "--names", nargs="+", default=["office_caltech_surf", "office_caltech_efflite0", "rotated_mnist"]
    )
    parser.add_argument("--per-domain", type=int, default=None, help="at most so many samples of each domain")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    done = {(row["data"], row["target"], row["repeat"]) for row in rows}
    facts = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sklearn": sklearn.__version__,
        "unseen": __version__,
        "per_domain": options.per_domain,
    }
    warnings.simplefilter("ignore")
    for repeat in range(options.repeats):
        for name in options.names:
            X, y, d = load(options.data, name, options.per_domain, repeat)
            for target in np.unique(d):
                if (name, target, repeat) in done:
                    continue
                found = [
                    {"data": name, "target": str(target), "repeat": repeat, **row, **facts}
                    for row in evaluate(X, y, d, target, repeat)
                ]
                with options.output.open("a") as file:
                    file.write("".join(json.dumps(row) + "\n" for row in found))
                rows += found
                print(f"{name} without {target}, repeat {repeat}: {found[0]['seconds']:.0f} s", flush=True)
    table(rows)


if __name__ == "__main__":
    main()
