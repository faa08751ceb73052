"""The summary of a comparison as a dictionary for JSON, from which the printed table and the report are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from ..kernels import SizePlan
from ..linalg import Array, Ints
from ..model_selection import (
    METHODS,
    N_CALIBRATION_BINS,
    group_by,
    method_names,
)
from ..models import make_preparation
from ..tables import Table
from ..utils.io import plain_values
from ..utils.optional_imports import environment_info
from ..utils.validation import encode_domains
from ._method_evaluation import Problem
from ._protocol import Protocol, Task
from ._result_tables import Cell, has_score, make_accuracy_table
from ._run import make_problem
from ._statistics import CONFIDENCE_LEVEL, Interval, Scale, select_best_by_kind
from ._store import Row
from ._verdict import Verdict

VALIDATION_DATA = {
    "domain": "held-out source domains",
    "within": "held-out samples of the source domains",
    "oracle": "the held-out domain itself, for reference only",
}
MAX_HARDEST_SAMPLES = 8  # of each class
MAX_PLOT_THUMBNAILS = 800  # they take about a megabyte of the page
MAX_CONFUSION_COUNTS = 100_000  # in all confusion tables together; they take a few megabytes of the page
MIN_CONFUSION_CLASSES = 8  # in each confusion table
MAX_PLOT_POINTS = 2000  # more points overlap and make the page slow
SCORE_DECIMALS = 8  # the rounding errors of percentages are smaller
_round_values = partial(plain_values, digits=SCORE_DECIMALS)
BIN_MEANS = ("confidence", "accuracy")
VERSION_KEYS = ("unseen", "python", "numpy", "scipy", "scikit-learn")


def select_embedding_row(rows: Sequence[Row]) -> Row | None:
    """Select the row to plot: the best validated invariant projection, on the domain hardest for plain classifiers.

    Without an invariant projection, ensembles that contain a projection are plotted by the one with the largest weight.
    """
    candidates = [row for row in rows if row.status == "ok" and row.validation is not None]
    candidates = [row for row in candidates if row.kind != "auto" or row.settings["projection"]]
    names = method_names(kind="invariant", is_projection=True)
    projections = [name for name in names if any(row.method == name for row in candidates)]
    if not projections:
        projections = list(dict.fromkeys(row.method for row in candidates if row.kind == "auto"))
    if not projections:
        return None
    best = max(projections, key=lambda name: np.mean([row.validation for row in candidates if row.method == name]))
    best_rows = [row for row in candidates if row.method == best]
    first_repeat = min(row.repeat for row in best_rows)
    best_by_task = select_best_by_kind(rows)

    def plain_score(row: Row) -> float:
        _, plain = best_by_task[row.task, row.repeat]
        if plain is None or plain.accuracy is None or not has_score(plain):
            return np.inf
        return plain.accuracy

    return min((row for row in best_rows if row.repeat == first_repeat), key=plain_score)


def embedding_facts(
    problem: Problem, row: Row, row_numbers: Ints, classes: Sequence[str], seed: int = 0
) -> dict[str, Any]:
    """Return samples before and after a projection, in two dimensions.

    `row_numbers` are the positions of the samples of the problem in the user's table, counted from 1.
    """
    samples = problem.prepared
    n_train = len(problem.train)
    settings = _projection_settings(row)
    name = settings.get("model", row.method)
    pca = PCA(2 if samples.X.shape[1] > 1 else 1, random_state=0).fit(samples.X[:n_train])
    before = pca.transform(samples.X)
    after = problem.features(row.method, settings)
    has_one_component = after.shape[1] == 1
    if has_one_component:  # as with two classes: the second axis is the first principal component
        after = np.column_stack([after[:, 0], before[:, 0]])
    if before.shape[1] == 1:
        before = np.column_stack([before[:, 0], np.zeros(len(before))])
    shown = _sample_positions(n_train, len(samples), seed)
    domains = list(dict.fromkeys(samples.domain.tolist()))
    components = "its component and a principal one" if has_one_component else "two components"
    return {
        "method": name,
        "held_out": ", ".join(row.accuracies),
        "settings": {key: value for key, value in settings.items() if key != "model"},
        "classes": list(classes),
        "domains": domains,
        "before": _scale_to_unit_square(before[shown, :2]),
        "after": _scale_to_unit_square(after[shown, :2]),
        "class": samples.codes[shown].tolist(),
        "domain": [domains.index(domain) for domain in samples.domain[shown].tolist()],
        "row": row_numbers[shown].tolist(),
        "before_label": "the first two principal components",
        "after_label": f"{name}: {components}",
        "note": (
            f"The held-out domain is the one hardest for plain classifiers, not the one with the best score of {name}. "
            f"Components after the second are not shown. {len(shown):,} of {len(samples):,} samples."
        ),
    }


def _projection_settings(row: Row) -> dict[str, Any]:
    """Return the settings of the plotted projection: for an ensemble, those of the one with the largest weight."""
    settings: dict[str, Any] = row.settings["projection"] if row.kind == "auto" else row.settings
    return settings


def _sample_positions(n_train: int, n_samples: int, seed: int) -> Ints:
    """Draw the positions to plot, in order. At most half are targets, unless there are few source samples."""
    rng = np.random.default_rng(seed)
    source = np.arange(n_train)
    target = np.arange(n_train, n_samples)
    target = rng.permutation(target)[: max(MAX_PLOT_POINTS // 2, MAX_PLOT_POINTS - len(source))]
    return np.sort(np.concatenate([target, rng.permutation(source)[: MAX_PLOT_POINTS - len(target)]]))


def _scale_to_unit_square(points: Array) -> list[list[float]]:
    return (points / (np.abs(points).max() or 1.0)).round(4).tolist()


def confusion_facts(
    method: str | None,
    rows: Sequence[Row],
    predicted: dict[tuple[str, str, int], Ints],
    truth: dict[str, Ints],
    classes: Sequence[str],
) -> list[dict[str, Any]]:
    """Count true by predicted classes of a method on each held-out domain, as means over repeats.

    `truth` maps task names to the true classes of their targets. With many classes, each table has the classes that are
    confused most often; the totals of a class are those of all samples.
    """
    predictions: dict[tuple[str, str], list[Ints]] = {}
    for row in rows:
        if row.method == method and row.status == "ok":
            domain = ", ".join(row.accuracies)
            predictions.setdefault((domain, row.task), []).append(predicted[row.method, row.task, row.repeat])
    max_classes = max(MIN_CONFUSION_CLASSES, math.isqrt(MAX_CONFUSION_COUNTS // max(len(predictions), 1)))
    return [
        {"domain": domain, "method": method, **_count_confusions(truth[task], repeats, classes, max_classes)}
        for (domain, task), repeats in predictions.items()
    ]


def select_confusion_method(rows: Sequence[Row], verdict: Verdict) -> str | None:
    """Select the method of the confusion tables: the recommended one, or else the one with the best mean score."""
    if verdict.recommendation is not None:
        return verdict.recommendation.method
    scores: dict[str, list[float]] = {}
    for row in rows:
        if row.status == "ok" and row.kind != "reference":
            score = row.accuracy if row.accuracy is not None and has_score(row) else -np.inf
            scores.setdefault(row.method, []).append(score)
    return max(scores, key=lambda name: np.mean(scores[name]), default=None)


def _count_confusions(truth: Ints, repeats: Sequence[Ints], classes: Sequence[str], max_classes: int) -> dict[str, Any]:
    pairs = np.stack([np.tile(truth, len(repeats)), np.concatenate(repeats)])  # of true and predicted classes
    shown = np.arange(len(classes))
    if len(classes) > max_classes:
        mistakes = np.bincount(pairs[:, pairs[0] != pairs[1]].ravel(), minlength=len(classes))
        shown = np.sort(np.argsort(-mistakes, kind="stable")[:max_classes])
    positions = np.full(len(classes), -1)
    positions[shown] = np.arange(len(shown))
    counts = np.zeros((len(shown),) * 2, dtype=np.intp)
    shown_pairs = positions[pairs]
    np.add.at(counts, tuple(shown_pairs[:, shown_pairs.min(axis=0) >= 0]), 1)
    totals = np.bincount(truth, minlength=len(classes))[shown]
    return {
        "classes": [classes[int(code)] for code in shown],
        "counts": counts.tolist() if len(repeats) == 1 else (counts / len(repeats)).round(3).tolist(),
        "totals": totals.tolist(),
        "repeats": len(repeats),
        "left_out": len(classes) - len(shown),
    }


def hardest_sample_facts(
    predicted: Mapping[tuple[str, str, int], Ints], table: Table, tasks: Sequence[Task]
) -> list[dict[str, Any]]:
    """Return, for each class, the samples that most methods misclassify, worst first, and their predicted classes."""
    samples = table.samples
    class_names = [str(label) for label in samples.classes]
    counts = np.zeros((len(samples), len(class_names)), dtype=np.intp)  # of the predictions of each sample
    for task in tasks:
        targets = np.flatnonzero(np.isin(samples.domain, task.targets))
        for (_, task_name, _), codes in predicted.items():
            if task_name == task.name:
                counts[targets, codes] += 1
    n_correct = np.take_along_axis(counts, samples.codes[:, None], axis=1)[:, 0]
    error_rates = 1 - n_correct / np.maximum(counts.sum(axis=1), 1)
    np.put_along_axis(counts, samples.codes[:, None], -1, axis=1)  # only wrong classes remain
    wrong_classes = counts.argmax(axis=1)
    facts = []
    for code, name in enumerate(class_names):
        members = np.flatnonzero(samples.codes == code)
        missed = members[(error_rates[members] > 0.5) & (counts[members].max(axis=1) > 0)]
        if not len(missed):
            continue
        worst = missed[np.argsort(-error_rates[missed], kind="stable")][:MAX_HARDEST_SAMPLES].tolist()
        shown = [
            {
                "row": int(table.rows[i]) + 1,
                "domain": str(samples.domain[i]),
                "answer": class_names[wrong_classes[i]],
                "wrong": round(float(error_rates[i]), 3),
            }
            for i in worst
        ]
        facts.append({"class": name, "n": len(members), "missed": len(missed), "samples": shown})
    return facts


def make_thumbnails(summary: Mapping[str, Any], make: Callable[[Sequence[int]], list[str]]) -> dict[str, str]:
    """Make thumbnails of the samples in the report, by row number from 1; of a subset, if there are many."""
    hardest = [sample["row"] for part in summary["hardest"] for sample in part["samples"]]
    plotted = summary["embedding"]["row"] if summary["embedding"] else []
    if plotted:
        step = 1 + (len(plotted) - 1) // MAX_PLOT_THUMBNAILS
        plotted = plotted[::step]
    row_numbers = list(dict.fromkeys([*hardest, *plotted]))
    thumbnails = make([number - 1 for number in row_numbers])
    return dict(zip(map(str, row_numbers), thumbnails, strict=True))


def data_facts(table: Table) -> dict[str, Any]:
    """Return sizes, classes, and the number of samples of each class in each domain."""
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
    """Return the verdict in words and in numbers."""
    recommendation = None
    if verdict.recommendation is not None:
        recommendation = _round_values(asdict(verdict.recommendation))
    return {
        "decision": verdict.decision,
        "headline": verdict.headline,
        "sentences": verdict.sentences,
        **_interval_facts(verdict.interval),
        "level": CONFIDENCE_LEVEL,
        "metric": verdict.scale.metric,
        "share": verdict.scale.share,
        "per_domain": [
            {"domain": d.domain, "invariant": d.invariant, "plain": d.plain, **_interval_facts(d.interval)}
            for d in verdict.per_domain
        ],
        "auto": _interval_facts(verdict.auto) if verdict.auto else None,
        "opt_in": _interval_facts(verdict.opt_in) if verdict.opt_in else None,
        "recommendation": recommendation,
    }


def _interval_facts(interval: Interval | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"difference": None, "low": None, "high": None}
    if interval is not None:
        facts["difference"] = interval.difference
        if interval.is_informative:
            facts["low"] = interval.low
            facts["high"] = interval.high
    return _round_values(facts)


def method_facts(rows: Sequence[Row], tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Return the scores of each method: mean and sd over repeats on each domain, and over domains.

    Domains on which the metric is undefined are left out of the mean.
    """
    table = make_accuracy_table(rows, share=False)
    facts = []
    for method in table.methods:
        cells = {task.targets[0]: table.cells[task.name, method] for task in tasks}
        means = [cell.mean for cell in cells.values() if cell.repeats]
        is_complete = means and all(cell.repeats or not cell.failed for cell in cells.values())
        facts.append(
            {
                "name": method,
                "kind": next(row.kind for row in rows if row.method == method),
                "transductive": any(cell.transductive for cell in cells.values()),
                "mean": round(float(np.mean(means)), SCORE_DECIMALS) if is_complete else None,
                "sd": round(float(np.std(means, ddof=1)), SCORE_DECIMALS) if is_complete and len(means) > 1 else None,
                "seconds": round(sum(row.seconds for row in rows if row.method == method), 3),
                "failed": next((cell.failed for cell in cells.values() if cell.failed), ""),
                "skipped": any(cell.skipped for cell in cells.values()),
                "accuracies": {name: _cell_facts(cell) for name, cell in cells.items()},
            }
        )
    return facts


def _cell_facts(cell: Cell) -> dict[str, float | None] | None:
    if not cell.repeats:
        return None
    sd = round(cell.sd, SCORE_DECIMALS) if cell.repeats > 1 else None
    return {"mean": round(cell.mean, SCORE_DECIMALS), "sd": sd}


def view_facts(
    rows: Sequence[Row],
    table: Table,
    tasks: Sequence[Task],
    protocol: Protocol,
) -> dict[str, Any]:
    """Return the embedding of a projection, if there is one."""
    row = select_embedding_row(rows)
    if row is None:
        return {"embedding": None}
    task = next(task for task in tasks if task.name == row.task)
    samples = table.samples
    problem = make_problem(samples, task, row.repeat, protocol, make_preparation(table.schema, protocol.preprocess))
    plan = SizePlan.from_rows(len(problem.train) + len(problem.test))
    if not plan.exact:  # the embedding uses exact kernels, and a plot does not need more rows
        problem = problem.subsample(plan.choice_rows)
    row_numbers = table.rows[np.concatenate([problem.train, problem.test])] + 1
    return {"embedding": embedding_facts(problem, row, row_numbers, list(map(str, samples.classes)), protocol.seed)}


def settings_facts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the selected settings of each method on each held-out domain."""
    return [
        {
            "domain": ", ".join(row.accuracies),
            "settings": _settings_texts(row),
            "repeat": row.repeat,
            "method": row.method,
            "ties": row.ties,
        }
        for row in rows
        if row.status == "ok"
    ]


def _settings_texts(row: Row) -> dict[str, Any]:
    """Return the settings to show: for an ensemble, the weights of its members; `ensemble_facts` has the rest."""
    settings = row.settings
    if row.kind != "auto":
        return settings
    return {"model": settings["model"], **_round_values(settings["members"]), "smoothing": settings["smoothing"]}


def ensemble_facts(rows: Sequence[Row], verdict: Verdict) -> dict[str, Any] | None:
    """Return the members of the ensembles of the automatic method and their calibration.

    They are those of "auto", if it was compared; decisions about transductive steps are those of "auto, transductive".
    """
    all_rows = [row for row in rows if row.kind == "auto" and row.status == "ok"]
    if not all_rows:
        return None
    method = min((row.method for row in all_rows), key=list(METHODS).index)
    auto_rows = [row for row in all_rows if row.method == method]
    all_settings = [row.settings for row in auto_rows]
    names = dict.fromkeys(name for settings in all_settings for name in settings["members"])
    weights = {
        name: float(np.mean([settings["members"].get(name, 0.0) for settings in all_settings])) for name in names
    }
    sorted_weights = dict(sorted(weights.items(), key=lambda item: -item[1]))
    decisions = [decision for row in all_rows for decision in row.settings["decisions"]]
    decided_rows = [row for row in all_rows if row.settings["decisions"]]
    decisions_by_step = group_by(decisions, lambda decision: decision["step"])
    calibrations = [settings["calibration"] for settings in all_settings]
    mean_errors = {
        stage: {
            name: float(np.mean([calibration[stage][name] for calibration in calibrations]))
            for name in ("ece", "log_loss")
        }
        for stage in ("before", "after")
    }
    bins = _merge_calibration_bins([calibration["after"]["bins"] for calibration in calibrations])
    return {
        "method": method,
        "n": len(auto_rows),
        "weights": _round_values(sorted_weights),
        "decisions": [_decision_facts(steps, len(decided_rows), verdict.scale) for steps in decisions_by_step],
        "decided_by": decided_rows[0].method if decided_rows else None,
        "calibration": {**_round_values(mean_errors), "bins": bins},
        "forecast": _expected_performance(auto_rows, verdict),
    }


def _decision_facts(decisions: Sequence[dict[str, Any]], n_ensembles: int, scale: Scale) -> dict[str, Any]:
    """Return how often a transductive step was used, and its mean gains."""
    step = decisions[0]["step"]
    n_used = sum(decision["used"] for decision in decisions)
    natural_gain = float(np.mean([decision["natural"] for decision in decisions]))
    skewed_gain = float(np.mean([decision["skewed"] for decision in decisions]))
    sentence = (
        f"{step} was used in {n_used} of {n_ensembles} cases: on held-out domains of the validation it gained "
        f"{scale.format_difference(natural_gain)}, and {scale.format_difference(skewed_gain)} on subsamples of these "
        "domains with skewed classes."
    )
    return _round_values(
        {
            "step": step,
            "used": n_used,
            "n": n_ensembles,
            "natural": natural_gain,
            "skewed": skewed_gain,
            "sentence": sentence,
        }
    )


def _merge_calibration_bins(tables: Sequence[Sequence[dict[str, float]]]) -> list[dict[str, float]]:
    """Merge the bins of several calibration tables."""

    def bin_number(entry: dict[str, float]) -> int:
        return min(int(N_CALIBRATION_BINS * entry["confidence"]), N_CALIBRATION_BINS - 1)

    merged = []
    for entries in group_by([entry for table in tables for entry in table], bin_number):
        shares = [entry["share"] for entry in entries]
        values = {name: float(np.average([entry[name] for entry in entries], weights=shares)) for name in BIN_MEANS}
        merged.append(_round_values({**values, "share": sum(shares) / len(tables)}))
    return sorted(merged, key=lambda entry: entry["confidence"])


def _expected_performance(auto_rows: Sequence[Row], verdict: Verdict) -> dict[str, Any]:
    """Describe the expected performance of the automatic method on a new domain, and check earlier forecasts."""
    n_domains = len({row.task for row in auto_rows})
    format_score = verdict.scale.format_score
    expected = verdict.auto_expected_score
    if expected is None:
        interval = f"{n_domains} held-out domain{'s' * (n_domains > 1)} give no score for a new domain."
    elif expected.low is None or expected.high is None:
        interval = f"{expected.missing_interval_reason}."
    else:
        interval = (
            f"{CONFIDENCE_LEVEL:.0%} prediction interval, for a new domain that differs from these "
            f"{expected.n_domains} domains as they differ from each other: {format_score(expected.low)} to "
            f"{format_score(expected.high)}."
        )
    max_coverage = n_domains / (n_domains + 1)
    interval += f" Prediction sets (predict_set) can have a coverage of at most {max_coverage:.1%}."
    limits = (
        "The interval does not hold for a domain of another kind, and the position of the next domain in the interval "
        "is not known before its labels are. An interval from few domains is wide, and more samples of the same "
        "domains do not make it narrow."
    )
    is_inside = [
        _is_within(row.accuracy, *row.settings["forecast"][1:]) for row in auto_rows if row.accuracy is not None
    ]
    check = (
        "Each ensemble made a forecast of its held-out domain from the other domains: "
        f"{sum(is_inside)} of {len(is_inside)} forecasts were right."
    )
    return {
        "domains": n_domains,
        "inside": sum(is_inside),
        "n": len(is_inside),
        "sentences": [interval, limits, check],
    }


def _is_within(score: float, low: float | None, high: float | None) -> bool:
    return (low is None or score >= low) and (high is None or score <= high)


def provenance_facts(protocol: Protocol, command: str, seconds: float) -> dict[str, Any]:
    """Return the command, the protocol, the versions and the machine."""
    facts = environment_info()
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(seconds, 1),
        "seed": protocol.seed,
        "protocol": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(protocol).items()
            if name != "seed"
        },
        "versions": {name: facts[name] for name in VERSION_KEYS},
        "machine": {name: value for name, value in facts.items() if name not in VERSION_KEYS},
    }
