"""The study of real tables and the benchmark of growth: their pure parts, and the baselines on small tables."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import sem
from sklearn import metrics
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score

pd = pytest.importorskip("pandas", reason="the study reads tables with pandas")
study = pytest.importorskip("studies.tables", reason="this distribution comes without the studies")
growth = pytest.importorskip("benchmarks.growth", reason="this distribution comes without the benchmarks")
from studies import baselines  # noqa: E402  (after the check that it is there)


@pytest.fixture
def small_table():
    """Two numbers with missing values, a column that one domain lacks, and a category that one domain alone has."""
    rng = np.random.default_rng(0)
    domain = np.repeat(["a", "b", "c", "d"], 30).astype(object)
    y = np.where(rng.random(120) < 0.5, "ill", "well").astype(object)
    X = pd.DataFrame(
        {
            "x": rng.normal(size=120) + (y == "ill"),
            "partly": np.where(domain == "c", np.nan, rng.normal(size=120)),
            "kind": np.where((domain == "d") & (np.arange(120) % 2 == 0), "rare", "common").astype(object),
        }
    )
    X.loc[::7, "x"] = np.nan
    X.loc[::11, "kind"] = None
    return X, y, domain


def write_table(folder, name, n_domains=5, rows=20):
    rng = np.random.default_rng(1)
    n = n_domains * rows
    table = pd.DataFrame(
        {
            "domain": [f"site {i % n_domains}" for i in range(n)],
            "label": rng.integers(2, size=n),
            "row": np.arange(n),
            "kind": np.where(np.arange(n) % 3 == 0, "", "NA"),
        }
    )
    (folder / "tables").mkdir()
    table.to_csv(folder / "tables" / f"{name}.csv.gz", index=False)


# Design


@given(st.sets(st.text(min_size=1), min_size=1), st.randoms())
def test_held_out_domains_are_the_first_the_middle_and_the_last_name_in_any_order(names, random):
    shuffled = list(names)
    random.shuffle(shuffled)
    chosen = study.held_out_domains(shuffled, 3)
    ordered = sorted(names)
    assert len(chosen) == min(3, len(names))
    assert chosen[0] == ordered[0]
    assert chosen[-1] == ordered[-1]
    if len(names) % 2:
        assert ordered[(len(names) - 1) // 2] in chosen


def test_tasks_have_capped_rows_and_sources_that_do_not_depend_on_the_held_out_domain(tmp_path):
    write_table(tmp_path, "heart")
    design = replace(study.FULL, source_rows=6, target_rows=15)
    tasks = list(study.table_tasks(tmp_path, "heart", design))
    assert [task.target for task in tasks] == ["site 0", "site 2", "site 4"]
    chosen = {}
    for task in tasks:
        assert len(task.y_target) == 15
        assert task.target not in set(task.domain)
        assert pd.Series(task.domain).value_counts().tolist() == [6] * 4
        assert not set(task.X["row"]) & set(task.X_target["row"])
        assert (task.X_target["row"] % 5 == int(task.target[-1])).all()
        for name in np.unique(task.domain.astype(str)):
            rows = set(task.X["row"][task.domain == name])
            assert chosen.setdefault(name, rows) == rows


def test_only_empty_cells_are_missing(tmp_path):
    write_table(tmp_path, "heart")
    table = study.read_table(tmp_path / "tables" / "heart.csv.gz")
    assert set(table["kind"].dropna()) == {"NA"}
    assert table["kind"].isna().tolist() == [i % 3 == 0 for i in range(100)]
    assert set(table["label"]) == {"0", "1"}


def test_a_run_continues_and_a_trial_does_not_count(tmp_path, monkeypatch):
    write_table(tmp_path, "heart")
    calls = []

    def evaluate(task, method, design, n_jobs):
        calls.append((task.target, method))
        if len(calls) == 8:
            raise KeyboardInterrupt
        return {"accuracy": 50.0, "AUC": 50.0, "log loss": 0.7, "seconds": 0.0}

    monkeypatch.setattr(study, "evaluate", evaluate)
    output = tmp_path / "rows.jsonl"
    study.run(tmp_path, ["heart"], study.TABLE_METHODS, study.QUICK, output, 1)
    assert len(calls) == 4
    with pytest.raises(KeyboardInterrupt):
        study.run(tmp_path, ["heart"], study.TABLE_METHODS, study.FULL, output, 1)
    study.run(tmp_path, ["heart"], study.TABLE_METHODS, study.FULL, output, 1)
    rows = study.read_rows(output, study.FULL)
    pairs = [(row["target"], row["method"]) for row in rows]
    assert len(pairs) == len(set(pairs)) == 12
    assert len(calls) == 4 + 12 + 1
    assert all(
        {"python", "sklearn", "cores", "source_rows"} <= set(json.loads(line))
        for line in output.read_text().splitlines()
    )


# Metrics


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_metrics_agree_with_scikit_learn(n_classes, seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(n_classes, 3.0), size=60)
    P = np.maximum(P, 0.002) / np.maximum(P, 0.002).sum(axis=1, keepdims=True)
    codes = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=60 - n_classes)])
    classes = [f"class {j}" for j in range(n_classes)]
    y = np.array(classes, dtype=object)[codes]
    found = study.measure(y, np.array(classes, dtype=object)[P.argmax(axis=1)], P, classes)
    area = (
        metrics.roc_auc_score(codes, P[:, 1]) if n_classes == 2 else metrics.roc_auc_score(codes, P, multi_class="ovr")
    )
    assert found["accuracy"] == pytest.approx(100 * metrics.accuracy_score(codes, P.argmax(axis=1)))
    assert found["AUC"] == pytest.approx(100 * area)
    assert found["log loss"] == pytest.approx(metrics.log_loss(codes, P))


def test_a_class_that_the_model_does_not_know_costs_the_floor_and_no_more():
    P = baselines.align_probabilities(np.array([[0.25, 0.75]]), ["c", "a"], ["a", "b", "c"])
    assert P.tolist() == [[0.75, 0.0, 0.25]]
    assert baselines.log_loss(np.array([1]), P) == pytest.approx(-np.log(baselines.PROBABILITY_FLOOR))
    assert baselines.log_loss(np.array([0]), P) == pytest.approx(-np.log(0.75))


def test_auc_of_more_classes_ignores_those_that_the_domain_lacks():
    P = np.array([[0.6, 0.3, 0.1], [0.3, 0.5, 0.2], [0.5, 0.4, 0.1]])
    found = study.measure(np.array(["a", "b", "a"]), np.array(["a", "b", "a"]), P, ["a", "b", "c"])
    assert found["AUC"] == 100
    one_class = study.measure(np.array(["a", "a", "a"]), np.array(["a", "b", "a"]), P, ["a", "b", "c"])
    assert np.isnan(one_class["AUC"])


# Summary

SCORES = st.floats(0, 100)


@given(st.lists(st.tuples(SCORES, SCORES, SCORES, SCORES), min_size=1, max_size=6), st.booleans())
def test_the_best_baseline_of_each_set_is_at_least_as_good_as_the_best_on_average(scores, is_loss):
    methods = study.TABLE_METHODS
    means = {f"set {i}": dict(zip(methods, values, strict=True)) for i, values in enumerate(scores)}
    summary = study.summarize(means, is_loss)
    sign = -1 if is_loss else 1
    assert sign * summary.mean_hindsight <= sign * summary.difference + 1e-9
    others = [sign * summary.means[name] for name in baselines.BASELINES]
    assert sign * summary.means[summary.best_baseline] == max(others)
    assert summary.difference == pytest.approx(summary.means[study.OURS] - sign * max(others))


def test_a_set_without_all_methods_does_not_enter_the_means():
    whole = dict.fromkeys(study.TABLE_METHODS, 1.0)
    summary = study.summarize({"heart": whole, "vowel": {"random forest": 9.0}}, is_loss=False)
    assert summary.means["random forest"] == 1.0
    assert list(summary.hindsight) == ["heart"]
    with pytest.raises(ValueError, match="No set has results of all methods"):
        study.summarize({"heart": {"random forest": 1.0}}, is_loss=False)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=8))
def test_standard_errors_agree_with_scipy_and_ignore_missing_values(values):
    assert study.standard_error([*values, np.nan]) == pytest.approx(sem(values), abs=1e-9)


def test_written_tables_have_means_by_set_and_over_sets(tmp_path):
    rng = np.random.default_rng(3)
    rows = [
        {"data": data, "method": method, "target": str(k), "subsample": 0, "seconds": 1.0}
        | {metric: float(rng.random()) for metric in study.METRICS}
        for data in ("heart", "vowel")
        for method in study.TABLE_METHODS
        for k in range(3)
    ]
    path = tmp_path / "tables.csv"
    study.write_tables(rows, path)
    with path.open(newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == 2 * len(study.TABLE_METHODS) * len(study.METRICS)
    for line in written:
        here = [r[line["metric"]] for r in rows if (r["data"], r["method"]) == (line["data"], line["method"])]
        assert float(line["mean"]) == pytest.approx(np.mean(here), abs=1e-4)
        assert float(line["standard error"]) == pytest.approx(sem(here), abs=1e-4)
    with (tmp_path / "tables_by_set.csv").open(newline="") as file:
        by_set = list(csv.DictReader(file))
    last = next(line for line in by_set if line["Data"] == "mean of sets" and line["Metric"] == "log loss")
    everything = [row["log loss"] for row in rows if row["method"] == study.OURS]
    assert float(last[study.OURS]) == pytest.approx(np.mean(everything), abs=1e-3)
    assert not (tmp_path / "arrays_by_set.csv").exists()


def test_differences_from_earlier_accuracies_are_paired_by_task(tmp_path):
    path = tmp_path / "earlier.csv"
    path.write_text(
        "data,target,draw,transductive=False (natural),pool (natural)\ngvhd,p1,0,70.0,80.0\ngvhd,p1,1,60.0,90.0\n"
    )
    row = {"data": "gvhd", "target": "p1", "subsample": 1, "accuracy": 91.5, "method": study.OURS_TRANSDUCTIVE}
    other = {**row, "target": "p2"}
    assert study.earlier_differences([row, other], path) == {("gvhd", study.OURS_TRANSDUCTIVE): [1.5]}


# Baselines


@pytest.mark.parametrize("name", baselines.BASELINES)
def test_a_baseline_takes_missing_values_and_categories_that_are_new(name, small_table, monkeypatch):
    monkeypatch.setitem(baselines.GRIDS, "gradient boosting", {"classifier__max_leaf_nodes": [5]})
    X, y, domain = small_table
    is_source = domain != "d"
    model = baselines.fit_baseline(name, X[is_source], y[is_source], domain[is_source], n_trees=20)
    P = model.predict_proba(X[~is_source])
    assert np.allclose(P.sum(axis=1), 1)
    assert np.isfinite(P).all()


def test_the_search_holds_out_each_domain_and_selects_by_log_loss(small_table, monkeypatch):
    X, y, domain = small_table
    monkeypatch.setitem(baselines.GRIDS, "logistic regression", {"classifier__C": [0.01, 1.0]})
    search = baselines.fit_baseline("logistic regression", X, y, domain)
    for setting, mean in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        pipeline = baselines.make_pipeline_for("logistic regression", X, 1, None).set_params(**setting)
        scores = cross_val_score(
            pipeline, X, y, groups=domain, cv=LeaveOneGroupOut(), scoring=baselines.score_negative_log_loss
        )
        assert mean == pytest.approx(scores.mean(), rel=1e-6)
    assert baselines.fit_baseline("logistic regression", X, y, domain, max_folds=2).n_splits_ == 2


def test_an_unknown_baseline_is_an_error(small_table):
    with pytest.raises(ValueError, match="not a baseline"):
        baselines.make_pipeline_for("oracle", small_table[0], 1, None)


# The benchmark of growth


def test_the_table_of_the_benchmark_has_six_domains_and_47_mixed_columns():
    table = growth.make_table(1200)
    X = table.drop(columns=["label", "domain"])
    assert X.shape == (1200, 47)
    assert table["domain"].value_counts().tolist() == [200] * 6
    assert 0 < X.isna().mean().mean() < 0.1
    assert X.select_dtypes("integer").nunique().between(2, 7).all()
    assert X.filter(like="tail").skew().min() > 2
    assert len(X.select_dtypes(exclude="number").columns) == 9
    rates = table.groupby("domain")["label"].agg(lambda labels: np.mean(labels == "yes"))
    assert rates.max() - rates.min() > 0.1
    pd.testing.assert_frame_equal(table, growth.make_table(1200))


def test_claims_on_growth_fail_where_the_bound_is_exceeded():
    def cost(seconds, memory=0.5):
        return growth.Cost(seconds, seconds, memory, 2 * memory)

    costs = {500: {growth.OURS: cost(3), growth.REFERENCE: cost(2)}}
    assert [row.holds for row in growth.growth_rows(costs)] == [True, True]
    costs[1000] = {growth.OURS: cost(2.3, memory=1.1), growth.REFERENCE: cost(1)}
    assert [row.holds for row in growth.growth_rows(costs)] == [False, False, False]
    costs[50_000] = {growth.OURS: cost(20, memory=3), growth.REFERENCE: cost(15)}
    assert [row.holds for row in growth.growth_rows(costs)] == [True, True]


def test_costs_are_written_for_the_documentation(tmp_path):
    cost = growth.Cost(1.5, 2.5, 0.25, 0.75)
    growth.write_costs({500: {growth.OURS: cost, growth.REFERENCE: cost}}, tmp_path / "growth.csv")
    with (tmp_path / "growth.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert list(line.values()) == ["500", "1.5", "1.5", "0.25", "0.75"]
