"""What a report shows of a comparison besides its table: embeddings, validation surfaces, confusions. Plain values."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from ..algebra import Array, Ints
from ..estimators import invariance_weights
from ..exceptions import FewerComponentsWarning, SingleDomainWarning
from ..labels import Samples
from ..selection import Candidate, score_candidates, tabulate
from ._methods import INVARIANT, PLAIN, PROJECTIONS, Problem
from ._store import Row
from ._verdict import champion

VALIDATED_ON = {
    "domain": "held-out source domains",
    "within": "held-out samples of the sources",
    "oracle": "the held-out domain itself, for reference only",
}
POINTS = 2000  # more would neither be seen nor stay light


def showpiece(rows: Sequence[Row]) -> Row | None:
    """The row to picture: the invariant projection best in validation, on the domain hardest for plain classifiers."""
    fit = [row for row in rows if row.status == "ok" and row.validation is not None]
    projections = [name for name in INVARIANT if name in PROJECTIONS and any(row.method == name for row in fit)]
    if not projections:
        return None
    best = max(projections, key=lambda name: np.mean([row.validation for row in fit if row.method == name]))
    own = [row for row in fit if row.method == best]
    repeat = min(row.repeat for row in own)

    def plainly(row: Row) -> float:
        rival = champion([other for other in fit if other.task == row.task and other.repeat == repeat], PLAIN)
        return 1.0 if rival is None or rival.accuracy is None else rival.accuracy

    return min((row for row in own if row.repeat == repeat), key=plainly)


def embedding(problem: Problem, row: Row, numbers: Ints, classes: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """Samples before and after a projection, in two dimensions.

    `numbers` are the rows of the problem's samples in the user's table, counted from 1.
    """
    train, test = problem.train, problem.test
    with warnings.catch_warnings():
        for category in (SingleDomainWarning, FewerComponentsWarning):
            warnings.simplefilter("ignore", category)
        model = _projection(problem, row.method, row.settings)
        model.fit(problem.X[train], problem.y[train], sample_domain=problem.domain[train])
        after = model.transform(problem.X, sample_domain=problem.domain)
    pca = PCA(2 if problem.X.shape[1] > 1 else 1, random_state=0).fit(problem.X[train])
    before = pca.transform(problem.X)
    single = after.shape[1] == 1
    if single:  # two classes have one component: spread it out along the data's own first one
        after = np.column_stack([after[:, 0], before[:, 0]])
    if before.shape[1] == 1:
        before = np.column_stack([before[:, 0], np.zeros(len(before))])
    shown = _sample(problem, test, seed)
    domains = list(dict.fromkeys(problem.domain.tolist()))
    return {
        "method": row.method,
        "held_out": ", ".join(row.accuracies),
        "settings": row.settings,
        "classes": list(classes),
        "domains": domains,
        "before": _rounded(before[shown, :2]),
        "after": _rounded(after[shown, :2]),
        "class": problem.y[shown].tolist(),
        "domain": [domains.index(name) for name in problem.domain[shown].tolist()],
        "row": numbers[shown].tolist(),
        "before_label": "the first two principal components",
        "after_label": f"{row.method}: " + ("its component and a principal one" if single else "two components"),
        "note": (
            f"The held-out domain is the one hardest for plain classifiers, not the one where {row.method} shines. "
            f"Components past the second are not shown. {len(shown):,} of {len(problem.y):,} samples."
        ),
    }


def _sample(problem: Problem, test: slice, seed: int) -> Ints:
    """Positions to show, in order; at most half of the samples there is room for are targets, unless there is more."""
    rng = np.random.default_rng(seed)
    target = np.arange(len(problem.y))[test]
    source = np.setdiff1d(np.arange(len(problem.y)), target)
    target = rng.permutation(target)[: max(POINTS // 2, POINTS - len(source))]
    return np.sort(np.concatenate([target, rng.permutation(source)[: POINTS - len(target)]]))


def _rounded(points: Array) -> list[list[float]]:
    scale = np.abs(points).max() or 1.0
    return (points / scale).round(4).tolist()


def _projection(problem: Problem, method: str, settings: dict[str, Any]) -> Any:
    estimator = problem.projection(method)[0]
    own = {name: value for name, value in settings.items() if name in estimator.get_params()}  # no remarks
    return clone(estimator).set_params(centering=problem.centering, **own)


def surface(problem: Problem, row: Row, selection: str) -> dict[str, Any] | None:
    """Validation scores over two settings of a projection, the others as chosen."""
    estimator, grid = problem.projection(row.method)
    weights = [name for name in invariance_weights(estimator) if len(grid.get(name, [])) > 1]
    names = [*weights, *(name for name in ("ridge", "gamma") if len(grid.get(name, [])) > 1)][:2]
    if len(names) < 2:
        return None
    x_name, y_name = names[0], names[1]
    settings = [{**row.settings, x_name: x, y_name: y} for y in grid[y_name] for x in grid[x_name]]
    one_nn = KNeighborsClassifier(n_neighbors=1)
    candidates = [Candidate(i, _projection(problem, row.method, s), one_nn) for i, s in enumerate(settings)]
    with warnings.catch_warnings():
        for category in (SingleDomainWarning, FewerComponentsWarning):
            warnings.simplefilter("ignore", category)
        scores = score_candidates(candidates, Samples(problem.X, problem.y, problem.domain), problem.splits, "accuracy")
    means = tabulate(candidates, settings, scores)["mean_test_score"].reshape(len(grid[y_name]), len(grid[x_name]))
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
    rows: Sequence[Row],
    predicted: Mapping[tuple[str, str, int], Ints],
    truth: Mapping[str, Ints],
    classes: Sequence[str],
) -> list[dict[str, Any]]:
    """Counts of true by predicted classes on each held-out domain, for both champions; repeats are added up.

    `truth` maps task names to the true classes of their targets.
    """
    found: dict[tuple[str, str], Array] = {}
    for task in dict.fromkeys(row.task for row in rows):
        for repeat in sorted({row.repeat for row in rows if row.task == task}):
            here = [row for row in rows if row.task == task and row.repeat == repeat]
            for row in filter(None, (champion(here, INVARIANT), champion(here, PLAIN))):
                counts = found.setdefault(
                    (", ".join(row.accuracies), row.method), np.zeros((len(classes),) * 2, dtype=np.intp)
                )
                np.add.at(counts, (truth[task], predicted[row.method, task, repeat]), 1)
    return [
        {"domain": domain, "method": method, "classes": list(classes), "counts": counts.tolist()}
        for (domain, method), counts in found.items()
    ]
