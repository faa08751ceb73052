"""A comparison as plain values: the one source of the printed table, ``--json`` and the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from ..estimators import invariance_weights
from ..kernels import SizePlan
from ..linalg import Array, Ints
from ..model_selection import N_CALIBRATION_BINS, Metric, get_metric, group_by, method_names, tabulate_scores
from ..tables import Table, make_preprocessor
from ..utils.environment import environment_info
from ..utils.validation import encode_domains
from ._method_evaluation import Problem, split_id
from ._protocol import Protocol, Task
from ._result_tables import Cell, accuracy_table, defined
from ._run import make_problem
from ._statistics import LEVEL, Interval, best_by_kind
from ._store import Row, Scores
from ._verdict import Verdict

VALIDATED_ON = {
    "domain": "held-out source domains",
    "within": "held-out samples of the sources",
    "oracle": "the held-out domain itself, for reference only",
}
HARDEST = 8  # samples of a class
PICTURES = 800  # samples of the plot that have one, which makes a page larger by about a megabyte
MOST_COUNTS = 100_000  # in all confusion tables together, a few megabytes of a page
LEAST_CLASSES = 8  # in each of them
POINTS = 2000  # more would neither be seen nor stay light


def embedding_method(rows: Sequence[Row]) -> Row | None:
    """The row to picture: the invariant projection best in validation, on the domain hardest for plain classifiers.

    Where there is none, pools that hold a projection are pictured by the weightiest.
    """
    fit = [row for row in rows if row.status == "ok" and row.validation is not None]
    fit = [row for row in fit if row.kind != "auto" or row.settings["projection"]]
    names = method_names(kind="invariant", is_projection=True)
    projections = [name for name in names if any(row.method == name for row in fit)]
    projections = projections or list(dict.fromkeys(row.method for row in fit if row.kind == "auto"))
    if not projections:
        return None
    best = max(projections, key=lambda name: np.mean([row.validation for row in fit if row.method == name]))
    own = [row for row in fit if row.method == best]
    repeat, rivals = min(row.repeat for row in own), best_by_kind(rows)

    def plainly(row: Row) -> float:
        rival = rivals[row.task, row.repeat][1]
        return rival.accuracy if rival is not None and rival.accuracy is not None and defined(rival) else np.inf

    return min((row for row in own if row.repeat == repeat), key=plainly)


def embedding_facts(problem: Problem, row: Row, numbers: Ints, classes: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """Samples before and after a projection, in two dimensions.

    `numbers` are the rows of the problem's samples in the user's table, counted from 1.
    """
    samples, n_train = problem.prepared, len(problem.train)
    settings = _pictured(row)
    X, after, shown_as = samples.X, problem.features(row.method, settings), settings.get("model", row.method)
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
        "method": shown_as,
        "held_out": ", ".join(row.accuracies),
        "settings": {name: value for name, value in settings.items() if name != "model"},
        "classes": list(classes),
        "domains": domains,
        "before": _in_unit_square(before[shown, :2]),
        "after": _in_unit_square(after[shown, :2]),
        "class": samples.codes[shown].tolist(),
        "domain": [domains.index(name) for name in samples.domain[shown].tolist()],
        "row": numbers[shown].tolist(),
        "before_label": "the first two principal components",
        "after_label": f"{shown_as}: " + ("its component and a principal one" if single else "two components"),
        "note": (
            f"The held-out domain is the one hardest for plain classifiers, not the one where {shown_as} shines. "
            f"Components past the second are not shown. {len(shown):,} of {len(samples):,} samples."
        ),
    }


def _pictured(row: Row) -> dict[str, Any]:
    """The settings of what is pictured: of a pool, those of its weightiest projection."""
    settings: dict[str, Any] = row.settings["projection"] if row.kind == "auto" else row.settings
    return settings


def _sample(n_train: int, n: int, seed: int) -> Ints:
    """Positions to show, in order; at most half of the samples there is room for are targets, unless there is more."""
    rng = np.random.default_rng(seed)
    source, target = np.arange(n_train), np.arange(n_train, n)
    target = rng.permutation(target)[: max(POINTS // 2, POINTS - len(source))]
    return np.sort(np.concatenate([target, rng.permutation(source)[: POINTS - len(target)]]))


def _in_unit_square(points: Array) -> list[list[float]]:
    return (points / (np.abs(points).max() or 1.0)).round(4).tolist()


def surface_facts(
    problem: Problem, row: Row, selection: str, metric: Metric, known: Scores | None = None
) -> dict[str, Any] | None:
    """Validation scores over two settings of a projection, the others as chosen; those not `known` are found anew."""
    chosen, every = problem.chosen(row.method, row.settings), problem.candidates(row.method)
    grid = {name: list(dict.fromkeys(c.settings[name] for c in every)) for name in chosen.settings}
    names = [*invariance_weights(chosen.transformer), "ridge", "gamma"]
    names = [name for name in names if len(grid.get(name, [])) > 1][:2]
    if len(names) < 2:
        return None
    x_name, y_name = names
    wanted = [{**chosen.settings, x_name: x, y_name: y} for y in grid[y_name] for x in grid[x_name]]
    candidates = [next(c for c in every if c.settings == setting) for setting in wanted]
    told = [(known or {}).get(split_id(split), {}) for split in problem.splits]
    if all(candidate.key in scores for candidate in candidates for scores in told):
        found = ((i, k, told[k][c.key]) for k in range(len(told)) for i, c in enumerate(candidates))
        results = tabulate_scores(found, len(candidates), len(told))
    else:
        results = problem.scores(candidates, problem.splits)
    factor = 100 if metric.percent else 1
    means = results["mean_test_score"].reshape(len(grid[y_name]), len(grid[x_name]))
    return {
        "method": row.method,
        "held_out": ", ".join(row.accuracies),
        "x_name": x_name,
        "y_name": y_name,
        "x": [str(value) for value in grid[x_name]],
        "y": [str(value) for value in grid[y_name]],
        "scores": [[round(factor * v, 4) if np.isfinite(v) else None for v in line] for line in means.tolist()],
        "chosen": [grid[y_name].index(row.settings[y_name]), grid[x_name].index(row.settings[x_name])],
        "note": f"Mean {metric.label}{' in percent' * metric.percent} on {VALIDATED_ON[selection]}; the other settings "
        + "are as chosen."
        + (" All settings tie: validation cannot tell these weights apart." if np.ptp(means) == 0 else ""),
    }


def confusions(
    method: str | None,
    rows: Sequence[Row],
    predicted: dict[tuple[str, str, int], Ints],
    truth: dict[str, Ints],
    classes: Sequence[str],
) -> list[dict[str, Any]]:
    """Counts of true by predicted classes of a method on each held-out domain, means over repeats.

    `truth` maps task names to the true classes of their targets. Where classes are too many for all tables, each has
    those that are confused most often; the totals, how often a class was true, are those of all samples.
    """
    answers: dict[tuple[str, str], list[Ints]] = {}
    for row in rows:
        if row.method == method and row.status == "ok":
            at = ", ".join(row.accuracies), row.task
            answers.setdefault(at, []).append(predicted[row.method, row.task, row.repeat])
    most = max(LEAST_CLASSES, math.isqrt(MOST_COUNTS // max(len(answers), 1)))
    return [
        {"domain": domain, "method": method, **_confusion(truth[task], repeats, classes, most)}
        for (domain, task), repeats in answers.items()
    ]


def method_for_confusion(rows: Sequence[Row], verdict: Verdict) -> str | None:
    """The method whose confusions are shown: the recommended one; if there is none, that with the best mean score."""
    if verdict.recommendation is not None:
        return verdict.recommendation.method
    scores: dict[str, list[float]] = {}
    for row in rows:
        if row.status == "ok" and row.kind != "reference":
            value = row.accuracy if row.accuracy is not None and defined(row) else -np.inf
            scores.setdefault(row.method, []).append(value)
    return max(scores, key=lambda name: np.mean(scores[name]), default=None)


def _confusion(truth: Ints, repeats: Sequence[Ints], classes: Sequence[str], most: int) -> dict[str, Any]:
    answers = np.stack([np.tile(truth, len(repeats)), np.concatenate(repeats)])
    shown = np.arange(len(classes))
    if len(classes) > most:
        mistakes = np.bincount(answers[:, answers[0] != answers[1]].ravel(), minlength=len(classes))
        shown = np.sort(np.argsort(-mistakes, kind="stable")[:most])
    place = np.full(len(classes), -1)
    place[shown] = np.arange(len(shown))
    counts = np.zeros((len(shown),) * 2, dtype=np.intp)
    inside = place[answers]
    np.add.at(counts, tuple(inside[:, inside.min(axis=0) >= 0]), 1)
    totals = np.bincount(truth, minlength=len(classes))[shown]
    names = [classes[int(code)] for code in shown]
    return {
        "classes": names,
        "counts": counts.tolist() if len(repeats) == 1 else (counts / len(repeats)).round(3).tolist(),
        "totals": totals.tolist(),
        "repeats": len(repeats),
        "left_out": len(classes) - len(names),
    }


def hardest(
    predicted: Mapping[tuple[str, str, int], Ints], table: Table, tasks: Sequence[Task]
) -> list[dict[str, Any]]:
    """For each class the samples that most methods get wrong, worst first, and what they are taken for."""
    samples, names = table.samples, [str(label) for label in table.samples.classes]
    votes = np.zeros((len(samples), len(names)), dtype=np.intp)
    for task in tasks:
        here = np.flatnonzero(np.isin(samples.domain, task.targets))
        for codes in (codes for (_, name, _), codes in predicted.items() if name == task.name):
            votes[here, codes] += 1
    right = np.take_along_axis(votes, samples.codes[:, None], axis=1)[:, 0]
    wrong = 1 - right / np.maximum(votes.sum(axis=1), 1)
    np.put_along_axis(votes, samples.codes[:, None], -1, axis=1)
    answers, found = votes.argmax(axis=1), []
    for code, name in enumerate(names):
        own = np.flatnonzero(samples.codes == code)
        missed = own[(wrong[own] > 0.5) & (votes[own].max(axis=1) > 0)]
        worst = missed[np.argsort(-wrong[missed], kind="stable")][:HARDEST].tolist()
        shown = [
            {
                "row": int(table.rows[i]) + 1,
                "domain": str(samples.domain[i]),
                "answer": names[answers[i]],
                "wrong": round(100 * float(wrong[i]), 1),
            }
            for i in worst
        ]
        found.append({"class": name, "n": len(own), "missed": len(missed), "samples": shown})
    return [part for part in found if part["missed"]]


def thumbnail_data(summary: Mapping[str, Any], make: Callable[[Sequence[int]], list[str]]) -> dict[str, str]:
    """Small pictures by row, counted from 1, of the samples that the report shows; not of all, if they are many."""
    first = [sample["row"] for part in summary["hardest"] for sample in part["samples"]]
    plotted = (summary["embedding"] or {"row": []})["row"]
    plotted = plotted[:: 1 + (len(plotted) - 1) // PICTURES] if plotted else []
    wanted = list(dict.fromkeys([*first, *plotted]))
    return dict(zip(map(str, wanted), make([row - 1 for row in wanted]), strict=True))


RELIABLE = ("confidence", "accuracy")
VERSIONS = ("unseen", "python", "numpy", "scipy", "scikit-learn")


def data_facts(table: Table) -> dict[str, Any]:
    """Sizes, classes, and who has how many of which."""
    samples = table.samples
    counts = dict(zip(encode_domains(samples.domain)[0].tolist(), samples.counts().tolist(), strict=True))
    names = dict.fromkeys(samples.domain.tolist())  # in the order of the table
    return {
        "name": table.name,
        "n_samples": len(samples),
        "n_features": samples.X.shape[1],
        "classes": [str(label) for label in samples.classes],
        "domains": [{"name": name, "n": sum(counts[name]), "counts": counts[name]} for name in names],
        "notices": list(table.notices),
        "columns": table.describe_columns(),
    }


def verdict_facts(verdict: Verdict) -> dict[str, Any]:
    """The verdict in numbers, percentage points unless scores are no shares, and in words."""
    advice = verdict.recommendation
    return {
        "decision": verdict.decision,
        "headline": verdict.headline,
        "sentences": verdict.sentences,
        **_points(verdict.interval),
        "level": LEVEL,
        "metric": verdict.scale.metric,
        "share": verdict.scale.share,
        "per_domain": [
            {"domain": d.domain, "invariant": d.invariant, "plain": d.plain, **_points(d.interval)}
            for d in verdict.per_domain
        ],
        "auto": _points(verdict.auto) if verdict.auto else None,
        "recommendation": advice and {name: _finite(value) for name, value in asdict(advice).items()},
    }


def _points(interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return dict.fromkeys(("difference", "low", "high"))
    low, high = (interval.low, interval.high) if interval.informative else (None, None)
    return {"difference": _finite(interval.difference), "low": _finite(low), "high": _finite(high)}


def _finite(value: Any) -> Any:
    """Numbers as JSON can hold them, and as many digits as anyone reads."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return (round(value, 3) if np.isfinite(value) else None) if isinstance(value, float) else value


def method_facts(rows: Sequence[Row], tasks: Sequence[Task], share: bool = True) -> list[dict[str, Any]]:
    """Each method's scores, in percent if they are shares: mean and sd over repeats on each domain, then over domains.

    Domains on which the metric is undefined are left out of the mean.
    """
    table, records = accuracy_table(rows, share=share), []
    for method in table.methods:
        cells = {task.targets[0]: table.cells[task.name, method] for task in tasks}
        means = [cell.mean for cell in cells.values() if cell.repeats]
        complete = means and all(cell.repeats or not cell.failed for cell in cells.values())
        records.append(
            {
                "name": method,
                "kind": next(row.kind for row in rows if row.method == method),
                "transductive": any(cell.transductive for cell in cells.values()),
                "mean": round(float(np.mean(means)), 3) if complete else None,
                "sd": round(float(np.std(means, ddof=1)), 3) if complete and len(means) > 1 else None,
                "seconds": round(sum(row.seconds for row in rows if row.method == method), 3),
                "failed": next((cell.failed for cell in cells.values() if cell.failed), ""),
                "skipped": any(cell.skipped for cell in cells.values()),
                "accuracies": {name: _accuracy(cell) for name, cell in cells.items()},
            }
        )
    return records


def _accuracy(cell: Cell) -> dict[str, float | None] | None:
    if not cell.repeats:
        return None
    return {"mean": round(cell.mean, 3), "sd": round(cell.sd, 3) if cell.repeats > 1 else None}


def views(
    rows: Sequence[Row], table: Table, tasks: Sequence[Task], how: Protocol, known: Scores | None = None
) -> dict[str, Any]:
    """The embedding and the validation surface of the row worth looking at, if there is one."""
    row = embedding_method(rows)
    if row is None:
        return {"embedding": None, "surface": None}
    task = next(task for task in tasks if task.name == row.task)
    samples, prepare = table.samples, make_preprocessor(table.schema, how.preprocess)
    problem = make_problem(samples, task, row.repeat, how, prepare)
    plan = SizePlan.from_rows(len(problem.train) + len(problem.test))
    if not plan.exact:  # a picture needs no more, and draws exact kernels
        problem = problem.thinned(plan.choice_rows)
    numbers = table.rows[np.concatenate([problem.train, problem.test])] + 1
    return {
        "embedding": embedding_facts(problem, row, numbers, list(map(str, samples.classes)), how.seed),
        "surface": None
        if row.kind == "auto"  # whose candidates are no grid
        else surface_facts(problem, row, how.chooses(len(task.sources)), get_metric(how.metric), known),
    }


def settings_facts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What each method chose on each held-out domain."""
    told = ("repeat", "method", "ties")
    return [
        {
            "domain": ", ".join(row.accuracies),
            "settings": _settings_texts(row),
            **{name: getattr(row, name) for name in told},
        }
        for row in rows
        if row.status == "ok"
    ]


def _settings_texts(row: Row) -> dict[str, Any]:
    """Settings as a reader wants them: of a pool, what each member weighs; `ensemble_facts` has the rest."""
    if row.kind != "auto":
        return row.settings
    return {"model": row.settings["model"], **_finite(row.settings["members"]), "smoothing": row.settings["smoothing"]}


def ensemble_facts(rows: Sequence[Row], verdict: Verdict) -> dict[str, Any] | None:
    """What the pools of the automatic method are made of, what they do with batches, and how far to believe them."""
    own = [row for row in rows if row.kind == "auto" and row.status == "ok"]
    if not own:
        return None
    told = [row.settings for row in own]
    names = dict.fromkeys(name for settings in told for name in settings["members"])
    weights = {name: float(np.mean([settings["members"].get(name, 0.0) for settings in told])) for name in names}
    decisions = group_by((one for settings in told for one in settings["decisions"]), lambda one: one["step"])
    calibrations = [settings["calibration"] for settings in told]
    both = {
        when: {name: float(np.mean([one[when][name] for one in calibrations])) for name in ("ece", "log_loss")}
        for when in ("before", "after")
    }
    return {
        "method": own[0].method,
        "n": len(own),
        "weights": _finite(dict(sorted(weights.items(), key=lambda one: -one[1]))),
        "decisions": [_decision(step, len(own)) for step in decisions],
        "calibration": {**_finite(both), "bins": _bins([one["after"]["bins"] for one in calibrations])},
        "forecast": _expected_performance(own, verdict),
    }


def _decision(step: Sequence[dict[str, Any]], n: int) -> dict[str, Any]:
    """How often a step that looks at batches was taken, and why."""
    name, used = step[0]["step"], sum(one["used"] for one in step)
    gains = [float(np.mean([one[kind] for one in step])) for kind in ("natural", "skewed")]
    sentence = (
        f"{name} was used in {used} of {n} cases: on held-out domains of the validation it gained {gains[0]:.1f} "
        f"points, and {gains[1]:.1f} on the same domains drawn again with a skew of classes."
    )
    told = {"step": name, "used": used, "n": n, "natural": gains[0], "skewed": gains[1], "sentence": sentence}
    return {key: _finite(value) for key, value in told.items()}


def _bins(tables: Sequence[Sequence[dict[str, float]]]) -> list[dict[str, float]]:
    """Bins of several reliability tables as those of one."""
    every = [one for bins in tables for one in bins]
    found = []
    for own in group_by(every, lambda one: min(int(N_CALIBRATION_BINS * one["confidence"]), N_CALIBRATION_BINS - 1)):
        share = [one["share"] for one in own]
        values = {name: float(np.average([one[name] for one in own], weights=share)) for name in RELIABLE}
        found.append(_finite({**values, "share": sum(share) / len(tables)}))
    return sorted(found, key=lambda one: one["confidence"])


def _expected_performance(own: Sequence[Row], verdict: Verdict) -> dict[str, Any]:
    """What so many held-out domains can say of the next one, what they cannot, and how well it went here."""
    m, scale, expectation = len({row.task for row in own}), verdict.scale, verdict.auto_expectation
    ends = [(row.accuracy, *row.settings["forecast"][1:]) for row in own if row.accuracy is not None]
    inside = sum(_within(*one) for one in ends)
    if expectation is None:
        can = f"{m} held-out domain{'s' * (m > 1)} can say nothing about the score on the next one."
    elif expectation.low is None or expectation.high is None:
        can = f"{expectation.too_few}."
    else:
        can = (
            f"{LEVEL:.0%} prediction interval, for a new domain that differs from these {expectation.domains} as they "
            f"differ from each other: {scale.text(expectation.low)} to {scale.text(expectation.high)}."
        )
    can += f" Sets of classes (predict_set) can be promised to hold the true one in at most {m / (m + 1):.1%} of cases."
    cannot = (
        "They cannot speak of a domain of another kind, nor tell before its labels are known where in the interval the "
        "next one lies; an interval that rests on few domains is wide, and no more samples make it narrow."
    )
    held = f"Each pool forecast its held-out domain from the others alone: {inside} of {len(ends)} forecasts held."
    return {"domains": m, "inside": inside, "n": len(ends), "sentences": [can, cannot, held]}


def _within(score: float, low: float | None, high: float | None) -> bool:
    return (low is None or score >= low) and (high is None or score <= high)


def provenance(protocol: Protocol, command: str, seconds: float) -> dict[str, Any]:
    """How it was made."""
    facts = environment_info()
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(seconds, 1),
        "seed": protocol.seed,
        "protocol": {name: value for name, value in asdict(protocol).items() if name != "seed"},
        "versions": {name: facts[name] for name in VERSIONS},
        "machine": {name: value for name, value in facts.items() if name not in VERSIONS},
    }
