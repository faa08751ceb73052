"""The diagnosis measures what it says, tells planted shifts apart, and says so in words, numbers and pictures."""

from __future__ import annotations

import itertools
import json
import sys
import types
from collections import Counter

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.metrics.pairwise import rbf_kernel

from helpers import problems
from unseen import scatters
from unseen.cells import Membership
from unseen.datasets import make_synthetic
from unseen.shift import ClassShift, Diagnosis, Shift, diagnose
from unseen.shift._comparison import Comparison, Evidence, KernelEvidence, chi_square, labellings, permuted_tables
from unseen.shift._diagnose import holm
from unseen.shift._distances import distance_matrices, odd_one_out
from unseen.shift._words import GRADES, POINTS, SHARES, grade

mpl.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def sample(counts, means, rng, n_features=3):
    """Normal samples: `counts` (domains, classes), `means` (domains, classes) along the first feature."""
    d, y = (np.repeat(index, np.ravel(counts)) for index in map(np.ravel, np.indices(np.shape(counts))))
    X = rng.normal(size=(len(y), n_features))
    X[:, 0] += np.asarray(means, dtype=float)[d, y]
    order = rng.permutation(len(y))
    return X[order], np.array(["a", "b", "c"])[y[order]], np.array(["p", "q", "r"])[d[order]]


EVEN = [[50, 50, 50]] * 3
SKEWED = [[90, 30, 30], [30, 90, 30], [30, 30, 90]]
FIXED = [[0, 3, 6]] * 3
TRUTH = {  # counts, means, what is detected
    "nothing": (EVEN, FIXED, set()),
    "label shift": (SKEWED, FIXED, {"label", "covariate"}),
    "every class moves": (EVEN, [[0, 3, 6], [1, 4, 7], [2, 5, 8]], {"covariate", "conditional", "prior_normalised"}),
    "one class moves": (EVEN, [[0, 3, 6], [2, 3, 6], [4, 3, 6]], {"covariate", "conditional", "prior_normalised"}),
    "classes change places": (EVEN, [[0, 3, 6], [3, 6, 0], [6, 0, 3]], {"conditional"}),
    "everything": (
        SKEWED,
        [[0, 3, 6], [1, 4, 7], [2, 5, 8]],
        {"label", "covariate", "conditional", "prior_normalised"},
    ),
}


def planted(name, seed=1, **options):
    counts, means, _ = TRUTH[name]
    X, y, d = sample(counts, means, np.random.default_rng(seed))
    return diagnose(X, y, sample_domain=d, **{"n_permutations": 399, **options})


@pytest.mark.parametrize("name", TRUTH)
def test_planted_shifts_are_told_apart(name):
    # Where nothing is planted a test still fires once in twenty; the level makes that once in a hundred.
    diagnosis = planted(name, alpha=0.01)
    assert {test.key for test in diagnosis.tests if test.flagged} == TRUTH[name][2]


def test_features_alike_in_every_domain_but_labelled_otherwise_move_the_conditionals_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    d = np.repeat(["p", "q"], 200)
    y = np.where(d == "p", X[:, 0] > 0, X[:, 1] > 0)
    flagged = {test.key for test in diagnose(X, y, sample_domain=d, alpha=0.01).tests if test.flagged}
    assert flagged == {"conditional"}


def test_the_class_that_moves_is_named():
    diagnosis = planted("one class moves", alpha=0.01)
    assert [(test.label, test.flagged) for test in diagnosis.class_tests] == [("a", True), ("b", False), ("c", False)]
    assert any("in class a, not in classes b and c" in sentence for sentence in diagnosis.reading)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "No shift detected in P(Y), P(X) or P(X|Y): a plain classifier is the one to beat."),
        ("label shift", "nothing to make invariant"),
        ("every class moves", "P(X|Y) moves while no shift of P(Y) is detected"),
        ("classes change places", "methods that look at P(X) alone may see nothing to remove"),
        ("classes change places", "No shift that the classes have in common is detected"),
        ("everything", "Everything moves"),
        ("everything", "A shift that the classes have in common is detected"),
    ],
)
def test_the_reading_fits_the_shift(name, words):
    assert words in " ".join(planted(name, alpha=0.01).reading)


def test_a_shift_that_only_many_samples_reveal_is_called_negligible():
    rng = np.random.default_rng(0)
    X, y, d = sample([[1500, 1500]] * 2, [[0, 0], [0.2, 0.2]], rng, n_features=6)
    diagnosis = diagnose(X, y, sample_domain=d, n_permutations=99, max_per_domain=1000)
    assert diagnosis.tests[2].flagged
    assert "negligible in size" in " ".join(diagnosis.reading)


@settings(max_examples=25)
@given(problems(min_domains=2))
def test_statistics_are_the_scatters_of_the_paper(problem):
    X, y, d = problem
    order = np.argsort(y, kind="stable")
    X, y, d = X[order], y[order], d[order]
    K = rbf_kernel(X)
    evidence = KernelEvidence.of(K, d, y, 3, np.random.default_rng(0))
    membership = Membership.of(y, d)
    means = np.zeros((membership.counts.size, len(y)))
    means[membership.cell, np.arange(len(y))] = 1 / membership.counts.ravel()[membership.cell]

    def trace(contrast):
        weights = contrast.T @ means
        return np.sum((weights @ K) * weights)

    expected = {name: trace(getattr(scatters, name)(membership.counts)) for name in ("domain", "conditional")}
    assert evidence.covariate.statistic == pytest.approx(expected["domain"], abs=1e-12)
    if evidence.conditional is None:
        assert expected["conditional"] == pytest.approx(0, abs=1e-12)
    else:
        assert evidence.conditional.statistic == pytest.approx(expected["conditional"], abs=1e-12)
        prior_normalised = trace(scatters.prior_normalised(membership.counts))
        assert evidence.prior_normalised.statistic == pytest.approx(prior_normalised, abs=1e-12)


@settings(max_examples=25)
@given(problems(min_domains=2))
def test_domains_explain_no_more_than_there_is(problem):
    X, y, d = problem
    order = np.argsort(y, kind="stable")
    everything = Comparison(rbf_kernel(X[order]), d[order], y[order])
    evidence = everything.evidence(labellings(d[order], y[order], 5, np.random.default_rng(0)))
    assert (evidence.draws[0] <= evidence.total * (1 + 1e-9)).all()
    assert 0 <= evidence.share <= 1
    assert 1 / 6 <= evidence.p_value <= 1


def test_chance_is_the_mean_over_all_permutations():
    y = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    d = np.array([0, 0, 1, 2, 0, 1, 1, 2, 2])
    K = rbf_kernel(np.random.default_rng(0).normal(size=(9, 2)))
    blocks = [list(itertools.permutations(d[y == j])) for j in range(3)]
    every = np.array([sum(parts, ()) for parts in itertools.product(*blocks)]).T
    comparison = Comparison(K, d, y)
    assert comparison.chance == pytest.approx(comparison.scatter(every).mean(), rel=1e-10)


def test_the_share_is_the_adjusted_r_squared():
    rng = np.random.default_rng(0)
    d = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 4)) + d[:, None]
    residual = X - np.array([X[d == s].mean(axis=0) for s in range(3)])[d]
    total = X - X.mean(axis=0)
    adjusted = 1 - (residual**2).sum() / (60 - 3) / ((total**2).sum() / (60 - 1))
    comparison = Comparison(X @ X.T, d, np.zeros(60, dtype=np.intp))
    assert comparison.evidence(d[:, None]).share == pytest.approx(adjusted, rel=1e-10)


def test_ties_count_against_significance():
    evidence = Evidence(np.array([1.0, 1.0 - 1e-12, 1.0, 0.5, 2.0]), chance=0.5, total=3.0)
    assert evidence.p_value == 4 / 5
    assert (evidence * 2 + evidence).p_value == 4 / 5


@pytest.mark.parametrize("value", [0.0, 1e4])
def test_features_that_do_not_vary_cannot_shift(value):
    X, y, d = sample(EVEN, FIXED, np.random.default_rng(0))
    diagnosis = diagnose(np.full_like(X, value), y, sample_domain=d, n_permutations=19)
    assert [test.p_value for test in diagnosis.tests[1:]] == [1, 1, 1]
    assert [test.effect for test in diagnosis.tests[1:]] == [0, 0, 0]
    np.testing.assert_allclose(diagnosis.marginal_distances, 0, atol=1e-6)


def test_permutations_keep_every_cell_and_move_samples():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [12, 7])
    d = rng.integers(0, 3, size=19)
    labels = labellings(d, y, 20, rng)
    np.testing.assert_array_equal(labels[:, 0], d)
    assert len({tuple(column) for column in labels.T}) > 15
    for column in labels.T:
        assert Counter(zip(column, y, strict=True)) == Counter(zip(d, y, strict=True))


def test_the_label_statistic_is_pearsons_and_its_tables_are_those_of_permuted_labels():
    rng = np.random.default_rng(0)
    counts = np.array([[30, 10, 20], [18, 15, 27]])
    tables = permuted_tables(counts, 4000, rng)
    evidence = chi_square(tables)
    expected = stats.chi2_contingency(counts, correction=False)
    assert evidence.statistic == pytest.approx(expected.statistic)
    assert evidence.p_value == pytest.approx(expected.pvalue, abs=0.02)
    assert evidence.draws[1:].mean() == pytest.approx(evidence.chance, rel=0.05)
    np.testing.assert_array_equal(tables.sum(axis=1), np.tile(counts.sum(axis=0), (4001, 1)))
    np.testing.assert_array_equal(tables.sum(axis=2), np.tile(counts.sum(axis=1), (4001, 1)))


@given(st.lists(st.floats(0.001, 1), max_size=6))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values):
    adjusted = holm(np.array(p_values))
    for alpha in (0.05, 0.2, 0.5):
        rejected = set()
        for step, i in enumerate(np.argsort(p_values)):
            if p_values[i] > alpha / (len(p_values) - step) * (1 + 1e-12):
                break
            rejected.add(i)
        assert {i for i, p in enumerate(adjusted) if p <= alpha * (1 + 1e-12)} == rejected


@settings(max_examples=15)
@given(problems(min_domains=2))
def test_distances_are_the_unbiased_estimates_of_gretton(problem):
    X, y, d = problem
    K = rbf_kernel(X)

    def squared(a, b):
        if min(len(a), len(b)) < 2:
            return np.nan
        inside = [K[np.ix_(g, g)][~np.eye(len(g), dtype=bool)].mean() for g in (a, b)]
        return sum(inside) - 2 * K[np.ix_(a, b)].mean()

    marginal, conditional = distance_matrices(K, Membership.of(y, d))
    for s, t in itertools.combinations(range(d.max() + 1), 2):
        expected = squared(np.flatnonzero(d == s), np.flatnonzero(d == t))
        assert marginal[s, t] ** 2 == pytest.approx(max(expected, 0), abs=1e-7, nan_ok=True)
        shared = [squared(np.flatnonzero((d == s) & (y == j)), np.flatnonzero((d == t) & (y == j))) for j in set(y)]
        shared = [value for value in shared if np.isfinite(value)]
        expected = max(np.mean(shared), 0) if shared else np.nan
        assert conditional[s, t] ** 2 == pytest.approx(expected, abs=1e-7, nan_ok=True)
        assert marginal[s, t] == pytest.approx(marginal[t, s], nan_ok=True)


def test_the_domain_that_stands_apart_is_named():
    X, y, d = sample(EVEN, [[0, 3, 6], [2, 5, 8], [0.2, 3.2, 6.2]], np.random.default_rng(0))
    diagnosis = diagnose(X, y, sample_domain=d, n_permutations=99)
    assert diagnosis.odd_one_out == "q"
    assert diagnosis.summary()["odd_text"].startswith("Odd one out: q.")


@pytest.mark.parametrize("seed", range(5))
def test_no_domain_stands_apart_where_all_are_equally_far(seed):
    rng = np.random.default_rng(seed)
    d = np.repeat([0, 1, 2], 80)
    X = rng.normal(size=(240, 3)) + 1.5 * np.eye(3)[d]
    diagnosis = diagnose(X, np.tile([0, 1], 120), sample_domain=d, n_permutations=99)
    assert diagnosis.tests[2].flagged
    assert diagnosis.odd_one_out is None
    assert "No domain stands apart" in diagnosis.summary()["odd_text"]


def test_two_domains_have_no_odd_one():
    distances = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert odd_one_out(distances) is None
    assert odd_one_out(np.array([[0, 1, 1.0], [1, 0, 0.5], [1, 0.5, 0]])) == 0
    assert odd_one_out(np.array([[0, 1, 1.0], [1, 0, 0.9], [1, 0.9, 0]])) is None


def facts(diagnosis):
    """Everything that owes nothing to the seed."""
    rows = [(test.statistic, test.effect) for test in diagnosis.tests]
    return np.array(rows), np.array([test.effect for test in diagnosis.class_tests]), diagnosis.conditional_distances


def test_the_order_of_samples_does_not_matter():
    X, y, d = sample(SKEWED, TRUTH["everything"][1], np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(len(y))
    first, second = (diagnose(X[i], y[i], sample_domain=d[i], n_permutations=19) for i in (np.arange(len(y)), order))
    for a, b in zip(facts(first), facts(second), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_names_of_classes_and_domains_do_not_matter():
    X, y, d = sample(SKEWED, FIXED, np.random.default_rng(0))
    named = diagnose(X, y, sample_domain=d, n_permutations=49)
    numbered = diagnose(
        X, np.searchsorted(["a", "b", "c"], y), sample_domain=[ord(name) for name in d], n_permutations=49
    )
    for test, other in zip(named.tests, numbered.tests, strict=True):
        assert (test.statistic, test.p_value, test.effect) == (other.statistic, other.p_value, other.effect)
    assert numbered.domains.tolist() == [ord("p"), ord("q"), ord("r")]


def test_one_seed_gives_one_diagnosis():
    assert planted("everything").summary() == planted("everything").summary()
    p_values = {planted("nothing", random_state=seed).tests[1].p_value for seed in range(4)}
    assert len(p_values) > 1


def test_sparse_features_and_lists_are_as_good_as_arrays():
    X, y, d = sample(EVEN, FIXED, np.random.default_rng(0))
    X = np.where(X > 0, X, 0.0)
    before = X.copy()
    dense = diagnose(X, y, sample_domain=d, n_permutations=19)
    for given_X in (sparse.csr_array(X), X.tolist()):
        other = diagnose(given_X, list(y), sample_domain=list(d), n_permutations=19)
        for a, b in zip(facts(dense), facts(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(X, before)


def test_large_domains_are_subsampled_and_the_diagnosis_says_so():
    X, y, d = sample([[60, 60, 60], [10, 10, 10], [5, 5, 5]], FIXED, np.random.default_rng(0))
    diagnosis = diagnose(X, y, sample_domain=d, n_permutations=99, max_per_domain=40)
    assert (diagnosis.n_samples, diagnosis.n_used) == (225, 40 + 30 + 15)
    assert [test.n for test in diagnosis.tests] == [225, 85, 85, 85]
    assert diagnosis.counts.sum() == 225
    assert any("85 of 225 samples" in notice for notice in diagnosis.notices)
    assert not diagnose(X, y, sample_domain=d, n_permutations=99).notices


def test_absent_cells_are_no_shift_and_are_mentioned():
    rng = np.random.default_rng(0)
    X, y, d = sample([[40, 40, 0], [40, 0, 40], [40, 40, 0]], FIXED, rng)
    diagnosis = diagnose(X, y, sample_domain=d, n_permutations=199, alpha=0.01)
    assert {test.key for test in diagnosis.tests if test.flagged} == {"label", "covariate"}
    lonely = diagnosis.class_tests[2]
    assert (lonely.p_value, lonely.p_adjusted, lonely.effect, lonely.flagged) == (None, None, None, False)
    notices = " ".join(diagnosis.notices)
    assert "classes c in p, b in q and c in r" in notices
    assert "fewer than two domains: class c" in notices


def test_classes_that_are_domains_cannot_be_told_from_them():
    X, y, d = sample(np.diag([30, 30, 30]), FIXED, np.random.default_rng(0))
    diagnosis = diagnose(X, y, sample_domain=d, n_permutations=19)
    assert [test.p_value is None for test in diagnosis.tests] == [False, False, True, True]
    assert "cannot be told apart" in diagnosis.reading[0]
    assert np.isnan(diagnosis.conditional_distances[0, 1])
    assert json.loads(json.dumps(diagnosis.summary()))["distances"]["conditional"][0][1] is None
    assert "not testable: no class was found in two domains" in str(diagnosis)
    diagnosis.plot()


def test_too_few_permutations_for_the_level_are_noticed():
    X, y, d = sample(EVEN, FIXED, np.random.default_rng(0))
    for n_permutations, words in ((9, "no test can reach"), (39, "no single one of 3 classes can reach"), (59, None)):
        notices = diagnose(X, y, sample_domain=d, n_permutations=n_permutations).notices
        assert (words in notices[0] and "at least 59" in notices[0]) if words else not notices


KEYS = {
    "n_samples": int,
    "n_used": int,
    "classes": list,
    "domains": list,
    "counts": list,
    "alpha": float,
    "n_permutations": int,
    "gamma": float,
    "tests": list,
    "classes_tests": list,
    "distances": dict,
    "odd_one_out": (str, type(None)),
    "odd_text": str,
    "reading": list,
    "notices": list,
}
TEST_KEYS = ["name", "key", "statistic", "p_value", "effect", "effect_label", "effect_text", "flagged", "question"]


@pytest.mark.parametrize("name", TRUTH)
def test_the_summary_is_plain_and_complete(name):
    summary = planted(name).summary()
    assert list(summary) == list(KEYS)
    assert all(isinstance(summary[key], kind) for key, kind in KEYS.items())
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert [test["name"] for test in summary["tests"]] == ["P(Y)", "P(X)", "P(X|Y)", "P(X), priors equal"]
    assert all(list(test) == TEST_KEYS and type(test["flagged"]) is bool for test in summary["tests"])
    assert {test["effect_label"] for test in summary["tests"]} <= set(GRADES)
    columns = ["class", "p_value", "p_adjusted", "effect", "flagged"]
    assert all(list(test) == columns and type(test["flagged"]) is bool for test in summary["classes_tests"])
    assert np.shape(summary["distances"]["marginal"]) == np.shape(summary["distances"]["conditional"]) == (3, 3)


def test_the_account_states_p_value_effect_and_number_of_samples():
    diagnosis = planted("label shift")
    text = str(diagnosis)
    assert text.startswith("3 domains, 3 classes, 450 samples; 399 permutations, level 0.05\n")
    assert "shift detected, large: class a makes up 20% of q and 60% of p, 40 points apart" in text
    assert "(p = 0.0025, n = 450)" in text
    assert max(map(len, text.splitlines())) <= 110
    assert repr(diagnosis) == "<Diagnosis: 3 domains, 3 classes; shift detected in P(Y); P(X)>"


@pytest.mark.parametrize(
    ("value", "thresholds", "name"),
    [(0, SHARES, "negligible"), (0.01, SHARES, "small"), (0.14, SHARES, "large"), (29.9, POINTS, "moderate")],
)
def test_sizes_have_names(value, thresholds, name):
    assert grade(value, thresholds) == name


def test_the_frame_holds_every_test():
    pytest.importorskip("pandas")
    diagnosis = planted("one class moves")
    frame = diagnosis.frame()
    assert frame["test"].tolist()[:4] == [test.name for test in diagnosis.tests]
    assert frame["test"].tolist()[4:] == ["P(X|Y=a)", "P(X|Y=b)", "P(X|Y=c)"]
    assert frame["p_adjusted"].isna().tolist() == [True] * 4 + [False] * 3
    assert frame["effect"].tolist() == [
        *(t.effect for t in diagnosis.tests),
        *(t.effect for t in diagnosis.class_tests),
    ]


def test_the_figure_shows_distances_effects_and_p_values():
    diagnosis = planted("one class moves", alpha=0.01)
    figure = diagnosis.plot()
    marginal, conditional, effects = figure.axes[:3]
    shown = np.ma.filled(marginal.images[0].get_array(), np.nan)
    np.testing.assert_allclose(shown[0, 1:], diagnosis.marginal_distances[0, 1:])
    assert f"{diagnosis.conditional_distances[0, 1]:.2f}" in {text.get_text() for text in conditional.texts}
    filled = [bar.get_facecolor()[:3] != (1, 1, 1) for bar in effects.patches]
    assert filled == [test.flagged for test in (*diagnosis.tests, *diagnosis.class_tests)]
    assert any("p = 0.0025" in text.get_text() for text in effects.texts)
    figure.canvas.draw()


def test_the_figure_bears_many_classes_and_odd_names_in_a_place_of_ones_own():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 12)
    d = np.tile(["$5", "$10_x", "a name that goes on and on, and then some"], 80)
    diagnosis = diagnose(rng.normal(size=(240, 2)), y, sample_domain=d, n_permutations=9)
    figure = plt.figure(figsize=(14, 6))
    part = figure.subfigures(1, 2)[1]
    assert diagnosis.plot(part) is part
    labels = [label.get_text() for label in part.axes[2].get_yticklabels()]
    assert labels[-1] == "... 8 classes that move less"
    figure.canvas.draw()


def test_pages_are_made_from_the_summary(monkeypatch):
    report = types.ModuleType("unseen.report")
    report.render_diagnosis = lambda summary, fragment=False: f"{fragment}: {json.dumps(summary)}"
    monkeypatch.setitem(sys.modules, "unseen.report", report)
    diagnosis = planted("nothing")
    assert diagnosis.to_html() == f"False: {json.dumps(diagnosis.summary())}"
    assert diagnosis._repr_html_() == f"True: {json.dumps(diagnosis.summary())}"


def test_without_the_extra_a_notebook_shows_the_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "unseen.report", None)
    diagnosis = planted("nothing")
    assert diagnosis._repr_html_() is None
    with pytest.raises(ImportError):
        diagnosis.to_html()


def test_pages_show_the_diagnosis():
    pytest.importorskip("jinja2")
    report = pytest.importorskip("unseen.report")
    assert report.render_diagnosis
    diagnosis = planted("everything")
    assert "Everything moves" in diagnosis.to_html()
    assert "<html" not in diagnosis._repr_html_()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_domain": np.zeros(12)}, "at least 2 domains, but sample_domain holds 1"),
        ({"sample_domain": np.arange(11)}, "11 labels for 12 samples"),
        ({"sample_domain": [None] * 12}, "no label for 12 of 12"),
        ({"y": np.zeros(12)}, "at least 2 classes"),
        ({"X": np.full((12, 2), np.nan)}, "NaN"),
        ({"n_permutations": 0}, "n_permutations"),
        ({"max_per_domain": 1}, "max_per_domain"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
    ],
)
def test_bad_input_is_refused(options, message):
    rng = np.random.default_rng(0)
    good = {"X": rng.normal(size=(12, 2)), "y": np.tile([0, 1], 6), "sample_domain": np.repeat([0, 1], 6)}
    diagnose(**good, n_permutations=3)
    with pytest.raises(ValueError, match=message):
        diagnose(**{**good, **options})


def test_too_little_memory_is_said_before_it_is_missed(monkeypatch):
    monkeypatch.setattr("unseen.shift._diagnose.available_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match="Lower max_per_domain"):
        planted("nothing")


def test_progress_is_told_when_asked_for(capsys):
    planted("nothing", verbose=1)
    assert "Testing for shift: 5/5" in capsys.readouterr().err
    planted("nothing")
    assert capsys.readouterr().err == ""


def test_the_synthetic_data_of_the_paper_move_in_every_respect():
    data = make_synthetic(random_state=0)
    diagnosis = diagnose(data.data, data.target, sample_domain=data.domain)
    assert isinstance(diagnosis, Diagnosis)
    assert all(isinstance(test, Shift) and test.flagged for test in diagnosis.tests)
    assert all(isinstance(test, ClassShift) and test.flagged for test in diagnosis.class_tests)
    assert diagnosis.tests[2].effect > 0.8


def test_a_class_lost_in_the_subsample_and_a_domain_of_one_sample_do_no_harm():
    X, y, d = sample([[400, 400, 1], [400, 400, 1], [1, 0, 0]], FIXED, np.random.default_rng(0))
    diagnosis = diagnose(X, y, sample_domain=d, n_permutations=19, max_per_domain=20)
    assert (diagnosis.n_used, diagnosis.class_tests[2].n, diagnosis.class_tests[2].p_value) == (41, 0, None)
    assert np.isnan(diagnosis.marginal_distances[0, 2])
    assert diagnosis.tests[2].p_value is not None
    assert json.dumps(diagnosis.summary(), allow_nan=False)
    diagnosis.plot().canvas.draw()
