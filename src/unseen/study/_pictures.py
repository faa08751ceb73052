"""What a report shows of a comparison besides its table: embeddings, validation surfaces, confusions. Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from ..algebra import Array, Ints
from ..estimators import invariance_weights
from ..selection import method_names
from ._outcomes import Problem
from ._store import Row
from ._verdict import champions

VALIDATED_ON = {
    "domain": "held-out source domains",
    "within": "held-out samples of the sources",
    "oracle": "the held-out domain itself, for reference only",
}
POINTS = 2000  # more would neither be seen nor stay light


def showpiece(rows: Sequence[Row]) -> Row | None:
    """The row to picture: the invariant projection best in validation, on the domain hardest for plain classifiers."""
    fit = [row for row in rows if row.status == "ok" and row.validation is not None]
    names = method_names(kind="invariant", is_projection=True)
    projections = [name for name in names if any(row.method == name for row in fit)]
    if not projections:
        return None
    best = max(projections, key=lambda name: np.mean([row.validation for row in fit if row.method == name]))
    own = [row for row in fit if row.method == best]
    repeat, rivals = min(row.repeat for row in own), champions(rows)

    def plainly(row: Row) -> float:
        rival = rivals[row.task, row.repeat][1]
        return 1.0 if rival is None or rival.accuracy is None else rival.accuracy

    return min((row for row in own if row.repeat == repeat), key=plainly)


def embedding_facts(problem: Problem, row: Row, numbers: Ints, classes: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """Samples before and after a projection, in two dimensions.

    `numbers` are the rows of the problem's samples in the user's table, counted from 1.
    """
    samples, n_train = problem.prepared, len(problem.train)
    X, after = samples.X, problem.features(row.method, row.settings)
    pca = PCA(2 if X.shape[1] > 1 else 1, random_state=0).fit(X[:n_train])
    before = pca.transform(X)
    single = after.shape[1] == 1
    if single:  # two classes have one component: spread it out along the data's own first one
        after = np.column_stack([after[:, 0], before[:, 0]])
    if before.shape[1] == 1:
        before = np.column_stack([before[:, 0], np.zeros(len(before))])
    shown = _sample(n_train, len(samples), seed)
    domains = list(dict.fromkeys(samples.domain.tolist()))
    return {
        "method": row.method,
        "held_out": ", ".join(row.accuracies),
        "settings": row.settings,
        "classes": list(classes),
        "domains": domains,
        "before": _in_unit_square(before[shown, :2]),
        "after": _in_unit_square(after[shown, :2]),
        "class": samples.codes[shown].tolist(),
        "domain": [domains.index(name) for name in samples.domain[shown].tolist()],
        "row": numbers[shown].tolist(),
        "before_label": "the first two principal components",
        "after_label": f"{row.method}: " + ("its component and a principal one" if single else "two components"),
        "note": (
            f"The held-out domain is the one hardest for plain classifiers, not the one where {row.method} shines. "
            f"Components past the second are not shown. {len(shown):,} of {len(samples):,} samples."
        ),
    }


def _sample(n_train: int, n: int, seed: int) -> Ints:
    """Positions to show, in order; at most half of the samples there is room for are targets, unless there is more."""
    rng = np.random.default_rng(seed)
    source, target = np.arange(n_train), np.arange(n_train, n)
    target = rng.permutation(target)[: max(POINTS // 2, POINTS - len(source))]
    return np.sort(np.concatenate([target, rng.permutation(source)[: POINTS - len(target)]]))


def _in_unit_square(points: Array) -> list[list[float]]:
    return (points / (np.abs(points).max() or 1.0)).round(4).tolist()


def surface_facts(problem: Problem, row: Row, selection: str) -> dict[str, Any] | None:
    """Validation scores over two settings of a projection, the others as chosen."""
    chosen, every = problem.chosen(row.method, row.settings), problem.candidates(row.method)
    grid = {name: list(dict.fromkeys(c.settings[name] for c in every)) for name in chosen.settings}
    names = [*invariance_weights(chosen.transformer), "ridge", "gamma"]
    names = [name for name in names if len(grid.get(name, [])) > 1][:2]
    if len(names) < 2:
        return None
    x_name, y_name = names
    wanted = [{**chosen.settings, x_name: x, y_name: y} for y in grid[y_name] for x in grid[x_name]]
    candidates = [next(c for c in every if c.settings == setting) for setting in wanted]
    results = problem.scores(candidates, problem.splits)
    means = results["mean_test_score"].reshape(len(grid[y_name]), len(grid[x_name]))
    return {
        "method": row.method,
        "held_out": ", ".join(row.accuracies),
        "x_name": x_name,
        "y_name": y_name,
        "x": [str(value) for value in grid[x_name]],
        "y": [str(value) for value in grid[y_name]],
        "scores": [[round(100 * v, 2) if np.isfinite(v) else None for v in line] for line in means.tolist()],
        "chosen": [grid[y_name].index(row.settings[y_name]), grid[x_name].index(row.settings[x_name])],
        "note": f"Mean accuracy in percent on {VALIDATED_ON[selection]}; the other settings are as chosen."
        + (" All settings tie: validation cannot tell these weights apart." if np.ptp(means) == 0 else ""),
    }


def confusions(
    rows: Sequence[Row], predicted: dict[tuple[str, str, int], Ints], truth: dict[str, Ints], classes: Sequence[str]
) -> list[dict[str, Any]]:
    """Counts of true by predicted classes on each held-out domain, for both champions; repeats are added up.

    `truth` maps task names to the true classes of their targets.
    """
    found: dict[tuple[str, str], Ints] = {}
    empty = np.zeros((len(classes),) * 2, dtype=np.intp)
    for (task, repeat), pair in champions(rows).items():
        for row in filter(None, pair):
            counts = found.setdefault((", ".join(row.accuracies), row.method), empty.copy())
            np.add.at(counts, (truth[task], predicted[row.method, task, repeat]), 1)
    return [
        {"domain": domain, "method": method, "classes": list(classes), "counts": counts.tolist()}
        for (domain, method), counts in found.items()
    ]
