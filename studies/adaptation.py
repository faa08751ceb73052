"""Measure on real data what a few labels from a new domain gain, and whether the plan predicts it.

For each data set some domains are the new site in turn. A default ensemble is fitted to at most 7 other domains with at
most 150 rows each, with the members, settings and preparation of `unseen.fit`, and predicts at most 600 rows of the
site. Then n = 10, 25, 50 or 100 labels of the site are revealed, five times at random, the level of adaptation is
chosen as `adapt` does, and the other rows are scored. Offsets and effects of features are scored as well where they are
not chosen; so are the true class frequencies of the site in place of labels.

Rows go to a JSON-lines file site by site, so a run that was stopped continues where it was.

    python -m studies.adaptation --data ../shared/data --output adaptation.jsonl --csv docs/results/adaptation.csv
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import clone

from studies.ensembles import NAMES, TABULAR, load_set
from unseen.kernels import SizePlan
from unseen.model_selection import (
    AS_IS,
    FEATURES,
    METHODS,
    OFFSETS,
    EvaluationConfig,
    HeldOutDomain,
    LeaveOneDomainOut,
    TableSize,
    adapt_ensemble,
    plan_adaptation,
    prepare_samples,
    refit_ensemble,
    score_gains,
    select_model,
    single_thread,
)
from unseen.models import make_preparation
from unseen.tables import load_table
from unseen.utils.samples import Samples

TABLES = ("heart", "impact_tbi", "defects_ck", "vowel", "wisdm", "crc_microbiome", "bank_month")
SETS = (*TABLES, *NAMES)
MAX_SITES = 5
MAX_SOURCES = 7
SOURCE_ROWS = 150
SITE_ROWS = 600
N_LABELS = (10, 25, 50, 100)
DRAWS = 5
MIN_TEST_ROWS = 20
LEVELS = (AS_IS, OFFSETS, FEATURES)


def load(root: Path, name: str) -> tuple[Samples, Any]:
    """All rows of a data set, and the preparation of its features."""
    if name in TABLES:
        frame = pl.read_csv(root / "tables" / f"{name}.csv.gz", infer_schema_length=None)
        n_classes = pl.col("label").n_unique().over("domain")  # a domain with one class is not accepted as a source
        table = load_table(frame.filter(n_classes > 1), label="label", domain="domain")
        return table.samples, make_preparation(table.schema)
    samples = load_set(root, name)
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    return samples, StandardScaler() if name in TABULAR else FunctionTransformer()


def draw_site(samples: Samples, site: str, seed: int) -> tuple[Samples, Samples]:
    """Rows of the source domains and of the site; the classes are those of the sources."""
    rng = np.random.default_rng(seed)
    domain = samples.domain.astype(str)
    others = [name for name in np.unique(domain).tolist() if name != site]
    chosen = sorted(rng.permutation(others)[:MAX_SOURCES].tolist())
    sources = samples.take(np.flatnonzero(np.isin(domain, chosen)))
    sources = sources.take(sources.subsample_rows(max_per_domain=SOURCE_ROWS, seed=seed))
    classes = np.unique(sources.y)
    rows = np.flatnonzero((domain == site) & np.isin(samples.y, classes))
    rows = np.sort(rng.permutation(rows)[:SITE_ROWS])
    return replace(sources, classes=classes), replace(samples.take(rows), classes=classes)


def evaluate_site(sources: Samples, site: Samples, preparation: Any) -> list[dict[str, Any]]:
    """Fit the ensemble to the sources, adapt it to draws of labels of the site, and score all levels."""
    config = EvaluationConfig(preparation=preparation)
    size = TableSize(sources.X.shape, len(sources.classes))
    candidates = list(METHODS["auto"].candidates(len(sources.classes), centerings=("source",), size=size))
    splits = list(LeaveOneDomainOut().split(sources.X, sources.y, sources.domain))
    with single_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = select_model(candidates, sources, splits, config)
        fitted = clone(preparation).fit(sources.X)
        prepared = prepare_samples(fitted, sources)
        ensemble, _ = refit_ensemble(model, prepared, SizePlan.from_rows(len(prepared), exact=True), config)
    X = fitted.transform(site.X)
    part = HeldOutDomain("site", ensemble.predict_proba(X), site.codes)
    plan = plan_adaptation(ensemble)
    P = part.probabilities
    accuracy = float(np.mean(P.argmax(axis=1) == part.codes))
    rng = np.random.default_rng(0)
    frequencies = np.bincount(part.codes, minlength=P.shape[1]) / len(part.codes)
    source_frequencies = np.bincount(sources.codes, minlength=P.shape[1]) / len(sources)
    with_prior = P * np.maximum(frequencies, 1e-3) / source_frequencies
    with_prior /= with_prior.sum(axis=1, keepdims=True)
    results = []
    for n in N_LABELS:
        if len(part.codes) - n < MIN_TEST_ROWS:
            continue
        draws = np.array([rng.permutation(len(part.codes))[:n] for _ in range(DRAWS)])
        gains: dict[str, dict[str, list[float]]] = {}
        chosen = []
        for labeled in draws:
            adapted = {AS_IS: P, "prior": with_prior}
            for level in (OFFSETS, FEATURES):
                adapted[level] = adapt_ensemble(ensemble, X[labeled], site.y[labeled], level=level)[0].predict_proba(X)
            chosen.append(adapt_ensemble(ensemble, X[labeled], site.y[labeled])[1]["level"])
            for level, probabilities in adapted.items():
                for metric, gain in score_gains(part, probabilities, labeled).items():
                    gains.setdefault(level, {}).setdefault(metric, []).append(round(gain, 6))
        expected = {}
        for metric in ("log_loss", "accuracy"):
            gain = plan.gain(n, metric)
            if gain is not None:
                expected[metric] = [gain.mean, gain.low, gain.high]
        results.append(
            {
                "n": n,
                "as_is": accuracy,
                "rows": len(part.codes),
                "sources": len(splits),
                "chosen": chosen,
                "gains": gains,
                "expected": expected,
            }
        )
    return results


def summarize(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each site and number of labels: means over draws."""
    rows = []
    for record in records:
        for result in record["results"]:
            gains = result["gains"]
            draws = range(len(result["chosen"]))

            def mean(metric: str, level: str | None = None, result: Any = result, draws: Any = draws) -> float:
                levels = [level or result["chosen"][draw] for draw in draws]
                return float(
                    np.mean([result["gains"][one][metric][draw] for draw, one in zip(draws, levels, strict=True)])
                )

            best = max(LEVELS, key=lambda level: float(np.mean(gains[level]["log_loss"])))
            inside = {"log_loss": [], "accuracy": []}
            for draw in draws:
                for metric, values in inside.items():
                    interval = result["expected"].get(metric)
                    if interval is not None:
                        values.append(interval[1] <= gains[OFFSETS][metric][draw] <= interval[2])
            rows.append(
                {
                    "data": record["data"],
                    "site": record["site"],
                    "rows": result["rows"],
                    "sources": result["sources"],
                    "labels": result["n"],
                    "as is": 100 * result["as_is"],
                    "chosen": max(set(result["chosen"]), key=result["chosen"].count),
                    "accuracy": 100 * mean("accuracy"),
                    "log loss": -mean("log_loss"),
                    "offsets accuracy": 100 * mean("accuracy", OFFSETS),
                    "offsets log loss": -mean("log_loss", OFFSETS),
                    "features accuracy": 100 * mean("accuracy", FEATURES),
                    "features log loss": -mean("log_loss", FEATURES),
                    "best in hindsight": best,
                    "best accuracy": 100 * mean("accuracy", best),
                    "best log loss": -mean("log_loss", best),
                    "true prior accuracy": 100 * mean("accuracy", "prior"),
                    "true prior log loss": -mean("log_loss", "prior"),
                    "interval accuracy": float(np.mean(inside["accuracy"])) if inside["accuracy"] else np.nan,
                    "interval log loss": float(np.mean(inside["log_loss"])) if inside["log_loss"] else np.nan,
                    "seconds": record["seconds"],
                }
            )
    return rows


def hindsight_gaps(sets: list[list[dict[str, Any]]]) -> dict[str, float]:
    """Return by how many points of accuracy the chosen level is below the best one in hindsight, on the mean of sets.

    The best level of each site follows the noise of single sites and draws the most, one level for everything the
    least. "By log loss" means that the level with the lowest mean log loss is compared.
    """

    def mean(part: list[dict[str, Any]], level: str, metric: str) -> float:
        return 0.0 if level == AS_IS else float(np.mean([row[f"{level} {metric}"] for row in part]))

    def by_log_loss(parts: list[list[dict[str, Any]]]) -> str:
        return min(LEVELS, key=lambda level: float(np.mean([mean(part, level, "log loss") for part in parts])))

    chosen = float(np.mean([np.mean([row["accuracy"] for row in part]) for part in sets]))
    single = by_log_loss(sets)
    best = {
        "each site, by log loss": [np.mean([row["best accuracy"] for row in part]) for part in sets],
        "each set, by log loss": [mean(part, by_log_loss([part]), "accuracy") for part in sets],
        "each set, by accuracy": [max(mean(part, level, "accuracy") for level in LEVELS) for part in sets],
        f"all sets, by log loss ({single})": [mean(part, single, "accuracy") for part in sets],
    }
    return {name: float(np.mean(values)) - chosen for name, values in best.items()}


def print_tables(rows: list[dict[str, Any]]) -> None:
    """Print means over data sets by number of labels, and by data set."""
    numbers = [key for key, value in rows[0].items() if isinstance(value, float) and key not in ("as is", "seconds")]
    for n in N_LABELS:
        sets = [[row for row in rows if row["labels"] == n and row["data"] == name] for name in SETS]
        sets = [part for part in sets if part]
        print(f"\n{n} labels: mean over {len(sets)} data sets (worst set)")
        for key in numbers:
            means = [float(np.nanmean([row[key] for row in part])) for part in sets]
            print(f"  {key:<24}{np.mean(means):+8.3f}   ({min(means):+.3f} to {max(means):+.3f})")
        for name, gap in hindsight_gaps(sets).items():
            print(f"  best level of {name}, minus chosen: accuracy {gap:+.2f}")
    print(f"\n{'':<26}" + "".join(f"{n:>24}" for n in N_LABELS))
    for name in SETS:
        cells = []
        for n in N_LABELS:
            part = [row for row in rows if row["labels"] == n and row["data"] == name]
            if part:
                means = [np.mean([row[key] for row in part]) for key in ("accuracy", "log loss", "best accuracy")]
                cells.append(f"{means[0]:+6.2f} {means[1]:+.3f} ({means[2]:+.2f})")
            else:
                cells.append("")
        print(f"{name:<26}" + "".join(f"{cell:>24}" for cell in cells))


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the rows as a table."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0])
        for row in rows:
            writer.writerow([f"{value:.4f}" if isinstance(value, float) else value for value in row.values()])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--names", nargs="+", default=SETS)
    parser.add_argument("--output", type=Path, required=True, help="JSON-lines file of results")
    parser.add_argument("--csv", type=Path, help="results as a table")
    options = parser.parse_args(arguments)
    records = []
    if options.output.exists():
        records = [json.loads(line) for line in options.output.read_text().splitlines()]
    done = {(record["data"], record["site"]) for record in records}
    for name in options.names:
        samples, preparation = load(options.data, name)
        sites = np.unique(samples.domain.astype(str))
        chosen = np.sort(np.random.default_rng(0).permutation(sites)[:MAX_SITES]).tolist()
        for seed, site in enumerate(chosen):
            if (name, site) in done:
                continue
            start = time.process_time()
            sources, target = draw_site(samples, site, seed)
            record = {"data": name, "site": site, "results": evaluate_site(sources, target, preparation)}
            record["seconds"] = time.process_time() - start
            records.append(record)
            with options.output.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(f"{name} {site}: {record['seconds']:.1f} s", flush=True)
    rows = summarize(records)
    print_tables(rows)
    if options.csv is not None:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
