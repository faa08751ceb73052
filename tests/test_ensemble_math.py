"""The pool of members: temperatures, weights, smoothing, guards, sets and forecasts, on arrays alone."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import ttest_1samp

from helpers import three_domains
from unseen import DomainCenterer
from unseen.evaluation import make_average_candidates
from unseen.model_selection import (
    METHODS,
    Candidate,
    EvaluationConfig,
    LeaveOneDomainOut,
    OutOfDomainPredictions,
    Prediction,
    TrialSplits,
    _splitters,
    forecast,
    select_model,
)
from unseen.model_selection._ensemble import SMOOTHING_STRENGTHS, ConformalSets, neighbor_graph, smooth_probabilities
from unseen.model_selection._ensemble_math import (
    LABEL_SMOOTHING,
    AcceptanceTest,
    CrossFittingFolds,
    average_members,
    calibration_table,
    fit_ensemble_weights,
    fit_temperature,
    fit_temperatures,
    prune_weights,
    sample_skewed_batch,
    softmax,
)
from unseen.model_selection._ensemble_selection import FULL_ENSEMBLE, INDUCTIVE_ENSEMBLE
from unseen.utils.samples import Samples


def members(seed=0, n_members=4, n_domains=4, n_classes=3):
    """Out-of-domain probabilities of members of various skill, and the truth; domains differ in size."""
    rng = np.random.default_rng(seed)
    skill, P, codes = rng.uniform(0, 3, n_members), [], []
    for n in rng.integers(20, 80, n_domains):
        truth = rng.integers(n_classes, size=n)
        noise = rng.normal(size=(n_members, n, n_classes))
        P.append(np.exp(log_softmax(noise + skill[:, None, None] * np.eye(n_classes)[truth], axis=2)))
        codes.append(truth)
    return P, codes


def without_each(m):
    """The domains that are kept when each of m is left out in turn."""
    return ~np.eye(m, dtype=bool)


def loss(w, P, codes):
    return np.mean([-np.log(average_members(w, p)[np.arange(len(c)), c]).mean() for p, c in zip(P, codes, strict=True)])


def confident(truth, right, n_classes=2, sure=0.9):
    """Probabilities that are sure of the truth where `right`, and of the next class elsewhere."""
    said = np.where(right, truth, (truth + 1) % n_classes)
    return np.where(np.eye(n_classes)[said] > 0, sure, (1 - sure) / (n_classes - 1))


# Temperatures


def test_no_other_temperature_has_a_smaller_loss():
    P, codes = members(1)
    scores = [5 * np.log(p[0]) for p in P]
    beta = fit_temperature(scores, codes)

    def smoothed_loss(b):
        domain_losses = []
        for S, c in zip(scores, codes, strict=True):
            log_p = np.log(softmax(S, b))
            of_labels = log_p[np.arange(len(c)), c]
            domain_losses.append(-np.mean((1 - LABEL_SMOOTHING) * of_labels + LABEL_SMOOTHING * log_p.mean(axis=1)))
        return np.mean(domain_losses)

    assert smoothed_loss(beta) < min(smoothed_loss(0.999 * beta), smoothed_loss(1.001 * beta))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_domains_without_errors_do_not_make_predictions_certain(n_classes):
    codes = [np.arange(30) % n_classes, np.arange(40) % n_classes]
    scores = [np.eye(n_classes)[c] for c in codes]
    beta = fit_temperature(scores, codes)
    largest = 1 - LABEL_SMOOTHING * (n_classes - 1) / n_classes  # the smoothed share of the label itself
    np.testing.assert_allclose(softmax(scores[0], beta).max(axis=1), largest, rtol=1e-9)


@pytest.mark.parametrize("low", [-np.inf, np.finfo(float).min])
def test_rows_of_a_class_that_training_did_not_show_leave_the_temperature_alone(low):
    P, codes = members(3)
    scores = [np.column_stack([np.log(p[0]), np.full(p.shape[1], low)]) for p in P]
    more = [np.r_[scores[0], scores[0][:9]], *scores[1:]], [np.r_[codes[0], np.full(9, 3)], *codes[1:]]
    alone = fit_temperature([np.log(p[0]) for p in P], codes)
    assert fit_temperature(scores, codes) == alone
    assert fit_temperature(*more) == pytest.approx(alone, rel=1e-12)  # sums over more rows, which count for nothing
    assert (softmax(scores[0], 2.0)[:, 3] == 0).all()
    assert fit_temperature([scores[0]], [np.full(len(codes[0]), 3)]) == 1


# Weights


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # so says an older SciPy of its own steps
@pytest.mark.parametrize("pull", [0.0, 0.02])
@pytest.mark.parametrize("seed", range(4))
def test_weights_are_those_of_a_convex_solver(pull, seed):
    P, codes = members(seed, n_members=6)

    def objective(w):
        return loss(w, P, codes) + pull * w @ np.log(6 * w)

    sums_to_one = {"type": "eq", "fun": lambda w: w.sum() - 1}
    best = minimize(objective, np.full(6, 1 / 6), bounds=[(1e-9, 1)] * 6, constraints=sums_to_one, tol=1e-10)
    w = fit_ensemble_weights(P, codes, uniform_penalty=pull)
    assert w.sum() == pytest.approx(1)
    assert objective(np.maximum(w, 1e-300)) == pytest.approx(best.fun, abs=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_fits_without_some_domains_are_fits_on_the_others(weighted):
    P, codes = members(7)
    kept = np.array([[False, True, True, True], [True, False, True, False]])
    weights = [np.arange(1.0, len(c) + 1) for c in codes] if weighted else None
    scores = [3 * np.log(p[0]) for p in P]
    betas = fit_temperatures(scores, codes, kept, weights)
    for row, own in enumerate(map(np.flatnonzero, kept)):
        rows = None if weights is None else [weights[k] for k in own]
        beta = fit_temperature([scores[k] for k in own], [codes[k] for k in own], rows)
        assert betas[row] == pytest.approx(beta, rel=1e-9)


def test_folds_leave_out_each_part_or_groups_of_many_or_all_that_share_samples():
    few = CrossFittingFolds.from_rows([np.arange(5), np.arange(5, 9), np.arange(9, 12)])
    np.testing.assert_array_equal(few.kept, without_each(3))
    many = CrossFittingFolds.from_rows([np.array([k]) for k in range(30)])
    assert many.kept.shape == (12, 30)
    assert not many.kept[many.predicted_by, np.arange(30)].any()
    assert (many.kept.sum(axis=1) >= 27).all()
    pairs = CrossFittingFolds.from_rows([np.array(pair) for pair in ([0, 1], [1, 2], [2, 3], [0, 3])])
    np.testing.assert_array_equal(pairs.predicted_by, np.arange(4))
    np.testing.assert_array_equal(pairs.kept, np.eye(4, dtype=bool)[[2, 3, 0, 1]])


def test_a_truth_that_no_member_thinks_possible_is_borne():
    P, codes = members(8)
    P[0][:, 0] = np.eye(3)[(codes[0][0] + 1) % 3]
    assert np.isfinite(fit_ensemble_weights(P, codes)).all()


def test_pruning_drops_what_does_not_matter_and_keeps_what_does():
    rng = np.random.default_rng(0)
    codes = [rng.integers(2, size=200) for _ in range(3)]
    halves = np.arange(200) < 100  # either of two members knows one half, and is only moderately wrong elsewhere
    P = []
    for c in codes:
        knows = [confident(c, half, sure=0.95) * half[:, None] + 0.5 * ~half[:, None] for half in (halves, ~halves)]
        P.append(np.array([*knows, confident(c, rng.random(200) < 0.5)]))
    kept = prune_weights(np.array([0.49, 0.49, 0.02]), P, codes, min_members=1)
    assert kept == pytest.approx([0.5, 0.5, 0])
    np.testing.assert_array_equal(prune_weights(np.array([0.0, 1.0, 0.0]), P, codes, min_members=1), [0, 1, 0])
    np.testing.assert_array_equal(prune_weights(np.array([0.49, 0.49, 0.02]), P, codes), [0.49, 0.49, 0.02])
    assert prune_weights(np.ones(1), [p[:1] for p in P], codes) == [1]


# Batches


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_a_skewed_batch_is_skewed_and_as_large(n_classes):
    rng = np.random.default_rng(0)
    codes = rng.integers(n_classes, size=200)
    rows = sample_skewed_batch(codes, rng)
    shares = np.sort(np.bincount(codes[rows], minlength=n_classes) / 200)[::-1]
    assert len(rows) == 200
    assert shares[: n_classes // 2].sum() == pytest.approx(0.8)
    counts = np.bincount(rows, minlength=200)
    assert all(np.ptp(counts[codes == c]) <= 2 for c in range(n_classes))
    assert not np.array_equal(rows, sample_skewed_batch(codes, rng))


def test_a_batch_of_one_class_cannot_be_skewed():
    np.testing.assert_array_equal(sample_skewed_batch(np.full(5, 2), np.random.default_rng(0)), np.arange(5))


def test_small_batches_and_strength_zero_are_not_smoothed():
    P, _ = members(9)
    p = P[0][0]
    X = np.random.default_rng(0).normal(size=(len(p), 2))
    assert smooth_probabilities(p, neighbor_graph(X), 0.0) is p
    assert neighbor_graph(X[:6]).nnz == 0
    np.testing.assert_allclose(smooth_probabilities(p[:6], neighbor_graph(X[:6]), 2.0), p[:6])


# Guards


def ballot(n_domains, votes, X=None, n=200):
    """Votes of an inductive and a transductive candidate on two classes; `votes` is told who, where, and rows."""
    y, domain = np.tile(np.arange(n) % 2, n_domains), np.repeat(np.arange(n_domains), n)
    samples = Samples(np.zeros((len(y), 1)) if X is None else X, y, domain)
    trials = TrialSplits.from_splits(
        samples, [(np.flatnonzero(domain != k), np.flatnonzero(domain == k)) for k in range(n_domains)]
    )
    candidates = [Candidate("still", {}, None, None), Candidate("moving", {}, DomainCenterer(), None, plain=False)]
    said = [
        Prediction(j, at, p.argmax(axis=1), {"decision_scores": np.log(p)})
        for j, at in product(range(2), range(len(trials.splits)))
        if j or at not in trials.skewed_positions
        # Every other row is of the second class.
        for p in [votes(j, at not in trials.skewed_positions, trials.splits[at][1] % n)]
    ]
    return OutOfDomainPredictions(candidates, samples, trials, said)


def planted(gain, n_domains=5, skewed_gain=None):
    """A candidate of accuracy 0.6, and a transductive one better by a gain, that may vanish on skewed batches."""

    def votes(j, natural, rows):
        share = 0.6 + j * (gain if natural or skewed_gain is None else skewed_gain)
        place = np.random.default_rng(0).permutation(100) / 100  # of both classes alike
        return confident(rows % 2, place[rows // 2] < share, sure=0.7)

    return ballot(n_domains, votes)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"gain": 0.2}, "A"),
        ({"gain": 0.0}, "I"),
        ({"gain": 0.01}, "I"),  # no more than a point
        ({"gain": 0.1, "skewed_gain": -0.2}, "I"),  # lost again where classes are skewed
        ({"gain": 0.04, "n_domains": 3}, "I"),  # few domains, and not overwhelming
        ({"gain": 0.2, "n_domains": 3}, "A"),
        ({"gain": 0.2, "n_domains": 2}, "I"),
        ({"gain": 0.2, "n_domains": 1}, "I"),
    ],
)
def test_the_guard_takes_what_pays_and_says_so(options, name):
    n = options.get("n_domains", 5)
    found = planted(**options).fit_ensemble(
        [*np.random.default_rng(0).normal(size=(n, 200, 2))]
    )  # neighbors know nothing
    reason = next(one.acceptance_test.reason for one in found.trials if one.trial_name == FULL_ENSEMBLE)
    assert found.trial_name == (FULL_ENSEMBLE if name == "A" else INDUCTIVE_ENSEMBLE)
    assert any(member.transductive for member in found.members) == (name == "A")
    assert ("is not used" in reason) == (name == "I")
    assert "Smoothing" in found.acceptance_tests[1].reason
    assert not found.smoothing
    assert "inf" not in reason
    assert found.kind == ("transductive" if name == "A" else "plain")
    assert found.weights.sum() == pytest.approx(1)


def test_a_step_is_accepted_by_a_paired_t_test_and_two_margins():
    gains = np.array([0.12, -0.06, -0.02, 0.10])
    assert not AcceptanceTest("It", gains, gains).is_accepted
    accepted = AcceptanceTest("It", gains + 0.1, gains + 0.1)
    assert accepted.is_accepted
    assert accepted.p_value == pytest.approx(ttest_1samp(gains + 0.1, 0, alternative="greater").pvalue)
    assert (
        f"gains 13.5 points on natural batches (p = {accepted.p_value:.3f}, one-sided paired t test)" in accepted.reason
    )
    lost = AcceptanceTest("It", np.full(4, -0.005), np.full(4, 0.2))  # what pays on skewed batches alone
    assert not lost.is_accepted
    assert lost.p_value == 1
    assert "not used" in lost.reason
    skewed_loss = AcceptanceTest("It", np.array([0.19, 0.2, 0.21, 0.2]), np.full(4, -0.015))
    assert skewed_loss.p_value < 0.001
    assert not skewed_loss.is_accepted
    assert AcceptanceTest("It", np.zeros(4), np.zeros(4)).p_value == 1
    few = np.array([0.4, -0.001, 0.39])
    assert not AcceptanceTest("It", few, few).is_accepted
    two = AcceptanceTest("It", np.array([0.3, 0.31]), np.array([0.3, 0.31]))
    assert not two.is_accepted
    assert two.reason.endswith("needs at least 3 held-out domains, and there are 2.")


def test_an_ensemble_of_one_member_needs_no_further_temperature():
    """Also if the temperatures of some folds are extreme, since two of the three domains have no errors."""
    n = 100
    y = np.tile(np.arange(n) % 2, 3)
    domain = np.repeat(np.arange(3), n)
    samples = Samples(np.zeros((3 * n, 1)), y, domain)
    splits = [(np.flatnonzero(domain != k), np.flatnonzero(domain == k)) for k in range(3)]
    trials = TrialSplits.from_splits(samples, splits, skewed=False)
    is_right = (domain > 0) | (np.arange(3 * n) % 10 > 1)
    scores = np.log(confident(y, is_right, sure=0.8))
    predictions = [
        Prediction(0, k, scores[test].argmax(axis=1), {"decision_scores": scores[test]})
        for k, (_, test) in enumerate(splits)
    ]
    candidates = [Candidate("only", {}, None, None)]
    out_of_domain = OutOfDomainPredictions(candidates, samples, trials, predictions)
    assert out_of_domain.inverse_temperatures[0, 0] > 2 * out_of_domain.inverse_temperatures[-1, 0]
    fitted = out_of_domain.fit_ensemble(None)
    assert fitted.logit_calibration.slope == pytest.approx(1, abs=0.1)
    assert fitted.logit_calibration.offsets is None or np.abs(fitted.logit_calibration.offsets).max() < 0.05


def test_smoothing_is_taken_where_neighbors_know_and_stays_calibrated():
    rng = np.random.default_rng(0)

    def votes(j, natural, rows):
        return confident(rows % 2, rows % 5 > 0, sure=0.6)

    found = ballot(4, votes)
    X = [6 * np.eye(2)[codes] + rng.normal(size=(200, 2)) for codes in found.codes]
    pooling = found.fit_ensemble(X)
    assert pooling.smoothing in SMOOTHING_STRENGTHS
    assert pooling.acceptance_tests[-1].is_accepted
    assert "smoothed" in pooling.name
    assert np.mean([pooling.scores, pooling.skewed]) > 0.95
    assert pooling.calibration["after"]["log_loss"] < pooling.calibration["before"]["log_loss"]
    right = [P.argmax(axis=1) == codes for P, codes in zip(pooling.held_out, pooling.predictions.codes, strict=True)]
    np.testing.assert_allclose([own.mean() for own in right], pooling.scores)


# Promises


def exchangeable(rng, n_domains, n=20):
    """Probabilities and truth on domains that differ in how hard they are."""
    P, codes = [], []
    for signal in rng.gamma(2, 1, n_domains):
        truth = rng.integers(3, size=n)
        P.append(softmax(rng.normal(size=(n, 3)) + signal * np.eye(3)[truth]))
        codes.append(truth)
    return P, codes


@pytest.mark.parametrize(("coverage", "n_domains"), [(0.8, 4), (0.8, 12), (0.6, 6)])
def test_sets_cover_new_domains_as_often_as_promised(coverage, n_domains):
    rng = np.random.default_rng(0)
    held = []
    for _ in range(600):
        P, codes = exchangeable(rng, n_domains + 1)
        sets = ConformalSets.from_predictions(P[:-1], codes[:-1]).sets(P[-1], coverage)
        held.append(sets[np.arange(20), codes[-1]].mean())
    assert np.mean(held) >= coverage - 3 * np.std(held) / np.sqrt(600)


def test_sets_of_unbalanced_classes_cover_each_class():
    rng = np.random.default_rng(0)
    rare_covered = []
    common_covered = []
    rare_covered_by_one_threshold = []
    for _ in range(150):
        P = []
        codes = []
        for _ in range(13):
            logit = rng.normal(scale=1.2, size=300) - 3 + rng.normal(scale=0.2)
            risk = 1 / (1 + np.exp(-logit))
            codes.append((rng.random(300) < risk).astype(int))
            P.append(np.column_stack([1 - risk, risk]))
        sets = ConformalSets.from_predictions(P[:-1], codes[:-1])
        inside = sets.sets(P[-1], 0.9)[np.arange(300), codes[-1]]
        rare_covered.append(inside[codes[-1] == 1].mean())
        common_covered.append(inside[codes[-1] == 0].mean())
        marginal = ConformalSets(sets.scores).sets(P[-1], 0.9)
        rare_covered_by_one_threshold.append(marginal[codes[-1] == 1, 1].mean())
    level = 0.9 * 13 / 12  # of the quantile, with the weight of the new domain at infinity
    assert np.mean(rare_covered) == pytest.approx(level, abs=0.02)
    assert np.mean(common_covered) >= level - 0.02  # more, since sets contain the most probable class
    assert np.mean(rare_covered_by_one_threshold) < 0.75


def test_a_class_of_too_few_domains_belongs_to_every_set():
    P = [np.full((20, 3), [0.8, 0.19, 0.01])] * 6
    codes = [np.zeros(20, dtype=int)] * 5 + [np.repeat([1, 2], [18, 2])]
    sets = ConformalSets.from_predictions(P, codes).sets(P[0], 0.8)
    np.testing.assert_array_equal(sets[0], [True, True, True])
    assert ConformalSets.from_predictions(P, [np.arange(20) % 3] * 6).codes is None  # balanced classes


def test_forecasts_stay_within_the_scale_and_know_when_they_know_nothing():
    assert forecast(np.array([0.7])) == (0.7, 0, 1)
    mean, low, high = forecast(np.array([10.0, 90.0]), bounds=(0.0, 100.0))
    assert 0 <= low < 1e-6 < mean == 50 < 100 - 1e-6 < high <= 100
    agreeing = np.full(4, 0.5)
    assert forecast(agreeing) == pytest.approx((0.5, 0.5, 0.5))
    mean, low, high = forecast(agreeing, n_rows=np.full(4, 2500))
    assert low < mean < high


def test_calibration_tells_the_honest_from_the_sure():
    rng = np.random.default_rng(0)
    P = [rng.dirichlet(np.ones(3), size=3000) for _ in range(3)]
    codes = [(rng.random((3000, 1)) > np.cumsum(p, axis=1)).sum(axis=1) for p in P]
    honest, sure = calibration_table(P, codes), calibration_table([softmax(np.log(p), 4.0) for p in P], codes)
    assert honest["ece"] < 0.05 < sure["ece"]
    assert honest["log_loss"] < sure["log_loss"]
    assert sum(row["share"] for row in honest["bins"]) == pytest.approx(1)
    assert all(abs(row["confidence"] - row["accuracy"]) < 0.1 for row in honest["bins"] if row["share"] > 0.01)
    assert json.loads(json.dumps(honest)) == honest
    assert calibration_table([np.eye(3)[codes[0]]], codes[:1])["ece"] == 0


def test_votes_have_room_in_memory(monkeypatch):
    X, y, d = three_domains(n_per_cell=30)
    monkeypatch.setattr(_splitters, "MAX_DECISION_SCORES", 10 * 3 * 100)  # for a hundred samples of three classes
    candidates = [*METHODS["logistic"].candidates(3), *METHODS["logistic"].candidates(3)]
    splits = list(LeaveOneDomainOut().split(X, y, d))
    pooling = select_model(candidates, Samples(X, y, d), splits, EvaluationConfig(), transductive=True)
    sizes = [len(codes) for codes in pooling.predictions.codes]
    assert sum(sizes) <= 110 < len(X)
    assert all(set(codes) == {0, 1, 2} for codes in pooling.predictions.codes)


def test_an_average_takes_methods_that_predict_single_rows():
    with pytest.raises(ValueError, match="The methods contain 'centered logistic', which is transductive"):
        make_average_candidates(["logistic", "centered logistic"], 2)
