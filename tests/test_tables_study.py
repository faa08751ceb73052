"""The study of real tables and the benchmark of growth, on a small table and on invented costs."""

from __future__ import annotations

import csv
from importlib.util import find_spec

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="the study reads tables with pandas")
study = pytest.importorskip("studies.tables", reason="this distribution comes without the studies")
growth = pytest.importorskip("benchmarks.growth", reason="this distribution comes without the benchmarks")
from studies import baselines  # noqa: E402  (after the check that it is there)


def write_table(folder, n_domains=5, rows=20):
    """Categories that are missing, and a category that the first domain alone has."""
    rng = np.random.default_rng(1)
    domain = np.arange(n_domains * rows) % n_domains
    table = pd.DataFrame(
        {
            "domain": [f"site {d}" for d in domain],
            "label": rng.integers(2, size=len(domain)),
            "x": rng.normal(size=len(domain)),
            "kind": np.where(domain == 0, "rare", np.where(rng.random(len(domain)) < 0.3, "", "NA")),
        }
    )
    (folder / "tables").mkdir()
    table.to_csv(folder / "tables" / "heart.csv.gz", index=False)


def test_the_study_evaluates_each_baseline_once_and_writes_the_means(tmp_path, monkeypatch):
    monkeypatch.setitem(baselines.GRIDS, "gradient boosting", {"classifier__max_leaf_nodes": [5]})
    write_table(tmp_path)
    output = tmp_path / "rows.jsonl"
    not_installed = {name for name in ("LightGBM", "CatBoost") if find_spec(name.lower()) is None}
    names = [name for name in baselines.BASELINES if name not in not_installed]
    for _ in range(2):
        study.run(tmp_path, ["heart"], names, study.QUICK, output, 1)
    rows = study.read_rows(output, study.QUICK)
    assert [(row["target"], row["method"]) for row in rows] == [("site 0", name) for name in names]
    assert study.read_rows(output, study.FULL) == []
    study.write_results(rows, tmp_path)
    with (tmp_path / "tables.csv").open(newline="") as file:
        written = {(line["method"], line["metric"]): float(line["mean"]) for line in csv.DictReader(file)}
    for row in rows:
        for metric in study.METRICS:
            assert written[row["method"], metric] == pytest.approx(row[metric], abs=1e-4)


def test_claims_on_growth_fail_where_the_bound_is_exceeded():
    def cost(seconds, memory=0.5):
        return growth.Cost(seconds, seconds, memory, 2 * memory)

    costs = {500: {growth.OURS: cost(3), growth.REFERENCE: cost(2)}}
    assert [row.holds for row in growth.growth_rows(costs)] == [True, True]
    costs[1000] = {growth.OURS: cost(2.3, memory=1.1), growth.REFERENCE: cost(1)}
    assert [row.holds for row in growth.growth_rows(costs)] == [False, False, False]
    costs[50_000] = {growth.OURS: cost(20, memory=3), growth.REFERENCE: cost(15)}
    assert [row.holds for row in growth.growth_rows(costs)] == [True, True]
