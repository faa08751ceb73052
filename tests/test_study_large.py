"""Problems too large for exact kernels: what is fitted, on what, and that it agrees with the exact methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unseen.evaluation import Protocol, Task, make_tasks, run
from unseen.evaluation._method_evaluation import evaluate_methods
from unseen.evaluation._run import make_problem
from unseen.kernels import _size_plan as _plan
from unseen.model_selection import METHODS as TABLE
from unseen.model_selection import method_names
from unseen.utils.samples import Samples

N = 120  # samples of each domain


def world(n=N, seed=0):
    """Four domains that moved, three classes, four features."""
    rng = np.random.default_rng(seed)
    domain = np.repeat(["a", "b", "c", "d"], n)
    y = rng.integers(3, size=4 * n)
    shift = np.repeat(rng.standard_normal((4, 4)), n, axis=0)
    X = 2.5 * np.eye(4)[y] + shift + 0.7 * rng.standard_normal((4 * n, 4))
    return X, y, domain


X, Y, D = world()
TASK = make_tasks(["a", "b", "c", "d"])[0]
PROBLEM = make_problem(Samples(X, Y, D), TASK, 0, Protocol(quick=True, preprocess="standardize"))
METHODS = method_names(in_comparison=True)
PROJECTIONS = method_names(is_projection=True)
ONLY_EXACT = {name for name in METHODS if TABLE[name].max_rows is not None}


def accuracies(problem):
    found = list(evaluate_methods(METHODS, problem))
    truth = problem.samples.codes[problem.test]
    return {o.method: np.mean(o.codes == truth) for o in found if o.status == "ok"}, found


@pytest.fixture
def small_limits(monkeypatch, few_trees):
    monkeypatch.setattr(_plan, "EXACT_ROWS", 120)
    monkeypatch.setattr(_plan, "CHOICE_ROWS", 180)
    for name in ONLY_EXACT:
        monkeypatch.setitem(TABLE, name, replace(TABLE[name], max_rows=120))


@pytest.mark.slow
def test_large_problems_are_answered_about_as_well_as_exact_ones(small_limits, monkeypatch):
    large, found = accuracies(PROBLEM)
    assert {o.method for o in found if o.status == "skipped"} == ONLY_EXACT
    monkeypatch.setattr(_plan, "EXACT_ROWS", 10**6)
    exact, _ = accuracies(PROBLEM)
    assert set(large) == set(METHODS) - ONLY_EXACT
    for method, accuracy in large.items():
        assert accuracy == pytest.approx(exact[method], abs=0.08), method


def test_with_all_samples_as_landmarks_and_neighbors_projections_are_exact(small_limits, monkeypatch):
    """Chosen on everything, fitted through every sample: nothing is approximated any more."""
    monkeypatch.setattr(_plan, "CHOICE_ROWS", 10**6)
    monkeypatch.setattr(_plan, "TRACE_TOLERANCE", None)
    through_features = {o.method: o for o in evaluate_methods(PROJECTIONS, PROBLEM)}
    monkeypatch.setattr(_plan, "EXACT_ROWS", 10**6)
    for exact in evaluate_methods(PROJECTIONS, PROBLEM):
        mapped = through_features[exact.method]
        assert mapped.validation == exact.validation
        assert exact.settings.items() <= mapped.settings.items()
        assert np.mean(mapped.codes == exact.codes) > 0.99, exact.method


def test_the_settings_tell_how_a_method_was_made_to_fit(small_limits, monkeypatch):
    monkeypatch.setattr(_plan, "MAX_LANDMARKS", 20)
    found = {o.method: o for o in evaluate_methods(["CIDG", "RBF SVM", "1-NN", "logistic"], PROBLEM)}
    assert found["CIDG"].settings["landmarks"] == found["RBF SVM"].settings["landmarks"] == 20
    assert found["CIDG"].settings["projection_rows"] == len(PROBLEM.train)
    assert found["1-NN"].settings == {"classifier_rows": len(PROBLEM.train)}
    assert found["logistic"].settings["classifier_rows"] == len(PROBLEM.train)


def test_a_thinned_problem_keeps_its_splits_apart():
    thin = PROBLEM.subsample(120)
    assert 100 <= len(thin.train) <= 130
    assert 100 <= len(thin.test) <= 130
    assert set(thin.train) <= set(PROBLEM.train)
    assert set(thin.test) <= set(PROBLEM.test)
    for (a, b), (whole_a, whole_b) in zip(thin.splits, PROBLEM.splits, strict=True):
        assert not set(a) & set(b)
        assert set(a) <= set(whole_a)
        assert set(b) <= set(whole_b)
        assert {*a, *b} == set(thin.train)
    same = PROBLEM.subsample(10**6)
    assert (same.train == PROBLEM.train).all()
    assert (same.test == PROBLEM.test).all()
    assert [len(a) for a, _ in same.splits] == [len(a) for a, _ in PROBLEM.splits]


def test_small_domains_survive_thinning():
    few = np.flatnonzero((D != "b") | (np.arange(len(D)) % 7 == 0))
    thin = make_problem(Samples(X[few], Y[few], D[few]), TASK, 0, Protocol(preprocess="none")).subsample(50)
    y, domain = (labels[few][thin.train] for labels in (Y, D))
    assert (domain == "b").sum() >= 10
    assert {len(np.unique(y[domain == name])) for name in "bcd"} == {3}


def test_skipped_methods_are_rows_with_a_reason(small_limits, tmp_path):
    rows = run(
        X,
        Y,
        D,
        [Task(("a", "b", "c"), ("d",))],
        store=tmp_path / "r.sqlite",
        protocol=Protocol(repeats=1, quick=True),
        methods=["KPCA", "logistic"],
    )
    assert {row.method: row.status for row in rows} == {"KPCA": "skipped", "logistic": "ok"}
    assert "max_per_domain" in rows[0].reason


def test_no_target_sample_is_a_landmark_or_moves_a_plain_classifier(small_limits):
    """With source centering, other targets leave the predictions for the first half of them as they are."""
    protocol = Protocol(quick=True, preprocess="standardize", centering="source")
    half = np.flatnonzero(D == "a")[N // 2 :]
    moved = X.copy()
    moved[half] += 50

    def first_half(data):
        found = evaluate_methods(METHODS, make_problem(Samples(data, Y, D), TASK, 0, protocol))
        return {o.method: o.codes[: N // 2] for o in found if o.status == "ok"}

    one, two = first_half(X), first_half(moved)
    for method in one:
        assert (one[method] == two[method]).all(), method
