"""What to use and why: whom the verdict compares, when it claims something, and what is recommended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from unseen.evaluation import HeldOutPredictions, Row, Task, ValidationResult, describe_imbalance
from unseen.evaluation import _recommendation as module
from unseen.evaluation._recommendation import ComparisonResults, make_verdict, recommend, squared_error
from unseen.evaluation._result import ValidationSettings
from unseen.model_selection import METHODS, get_metric, metric_range
from unseen.tables import table_from_arrays

DOMAINS = [f"hospital {k}" for k in range(6)]
TRUTH = np.arange(200) % 2


def make_row(method, domain, accuracy, *, confidence=0.7, validation=0.5, seed=0, **changes):
    """Predictions that are right in a share of the rows, each with the same confidence."""
    is_right = np.random.default_rng(seed).permutation(len(TRUTH)) < accuracy * len(TRUTH)
    codes = np.where(is_right, TRUTH, 1 - TRUTH)
    P = np.full((len(TRUTH), 2), 1 - confidence)
    P[np.arange(len(TRUTH)), codes] = confidence
    row = Row(method, f"others -> {domain}", (domain,), validation=validation, codes=codes, probabilities=P)
    score = float(is_right.mean())
    kind = METHODS[method].kind if method in METHODS else "reference"
    return replace(row, accuracy=score, accuracies={domain: score}, kind=kind, **changes)


def mean_interval(samples):
    """The interval of mean differences of sample-wise accuracies, an array for each domain."""
    means = [values.mean() for values in samples]
    return module.mean_interval(means, [squared_error(values) for values in samples], get_metric("accuracy"))


def make_results(scores, metric="accuracy", **options):
    """Results of methods with a score on each of some domains; `options` are those of rows, by method."""
    rows = [
        make_row(method, domain, score, **{"seed": 10 * i + len(method), **options.get(method.replace(" ", "_"), {})})
        for method, by_domain in scores.items()
        for i, (domain, score) in enumerate(zip(DOMAINS, by_domain, strict=False))
    ]
    chosen = get_metric(metric)
    return ComparisonResults(rows, dict.fromkeys(DOMAINS, TRUTH), chosen, metric_range(chosen.scoring, 2))


def near(center, n=6):
    return [center + 0.01 * (k % 3) for k in range(n)]


def test_one_domain_and_two_domains_claim_nothing():
    assert mean_interval([np.ones(50)]).sign == 0
    rng = np.random.default_rng(0)
    two = mean_interval([np.where(rng.random(100) < p, 1.0, 0.0) for p in (0.1, 0.3)])
    assert two.sign == 0


@pytest.mark.parametrize("m", [3, 6])
@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_where_there_is_no_difference_the_interval_misses_it_in_five_percent_of_draws(m, spread):
    """Domains with true differences of mean zero; samples that are right and wrong at random."""
    rng = np.random.default_rng(m)
    misses = 0
    for _ in range(400):
        true = (spread * rng.standard_normal(m)).clip(-0.7, 0.7)
        samples = [rng.choice([-1.0, 0.0, 1.0], size=60, p=[0.2 - d / 4, 0.6, 0.2 + d / 4]) for d in true]
        misses += mean_interval(samples).sign != 0
    assert misses / 400 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_the_standard_errors_are_those_of_a_bootstrap_over_domains_and_over_samples():
    rng = np.random.default_rng(0)
    apart = [rng.choice([-1.0, 0.0, 1.0], size=50, p=[0.3 - d, 0.4, 0.3 + d]) for d in (0.0, 0.1, 0.2, 0.29)]
    means = np.array([values.mean() for values in apart])
    draws = means[rng.integers(4, size=(100_000, 4))].mean(axis=1)
    margin = (lambda i: (i.high - i.low) / 2)(mean_interval(apart))
    assert margin == pytest.approx(student.ppf(0.975, 3) * draws.std() * np.sqrt(4 / 3), rel=0.02)
    alike = [rng.permutation(np.r_[np.ones(30), np.zeros(20)]) for _ in range(4)]
    draws = np.mean([rng.choice(values, size=(20_000, 50)).mean(axis=1) for values in alike], axis=0)
    margin = (lambda i: (i.high - i.low) / 2)(mean_interval(alike))
    assert margin == pytest.approx(student.ppf(0.975, 3) * draws.std(), rel=0.03)


def test_intervals_stay_among_the_differences_there_can_be():
    wide = mean_interval([np.ones(3), -np.ones(3)])
    assert (wide.low, wide.high) == (-1, 1)
    assert wide.to_dict() == {"difference": 0.0, "low": None, "high": None}


def test_a_difference_between_two_domains_has_no_interval():
    scores = {"CIDG": [0.8, 0.6], "logistic": [0.6, 0.65]}
    found = make_verdict(make_results(scores, "balanced_accuracy"))
    assert "+7.5 points (too few held-out domains for a 95% interval)" in found.headline


def invariance(verdict):
    return verdict.intervals["Invariant against plain"]


def test_a_clear_advantage_is_claimed_and_its_mirror_image_too():
    found = make_verdict(make_results({"CIDG": near(0.8), "logistic": near(0.6)}))
    assert found.decision == "invariant"
    assert found.headline.startswith("Invariance helped: +20.0 points")
    against = make_verdict(make_results({"CIDG": near(0.6), "logistic": near(0.8)}))
    assert against.decision == "plain"
    assert invariance(against).difference == pytest.approx(-invariance(found).difference)


def test_equal_methods_are_not_told_apart():
    results = make_results({"CIDG": near(0.7), "logistic": near(0.7)}, CIDG={"seed": 1}, logistic={"seed": 1})
    found = make_verdict(results)
    assert found.headline.startswith("No detectable difference")
    assert invariance(found).difference == 0
    assert -0.03 < invariance(found).low < 0 < invariance(found).high < 0.03  # agreement is no proof of equality


def test_results_on_the_held_out_domain_do_not_move_the_choice():
    scores = {"SCA": near(0.9), "CIDG": near(0.6), "logistic": near(0.6)}
    found = make_verdict(make_results(scores, CIDG={"validation": 0.9}))
    assert invariance(found).difference == pytest.approx(0)  # that of CIDG, not that of SCA


def test_a_failed_method_cannot_stand_for_its_kind():
    results = make_results({"SCA": near(0.7), "CIDG": near(0.9), "logistic": near(0.6)}, CIDG={"validation": 0.9})
    rows = [replace(row, status="failed") if row.method == "CIDG" else row for row in results.rows]
    assert invariance(make_verdict(replace(results, rows=rows))).difference == pytest.approx(0.1)  # that of SCA


def test_an_oracle_and_a_single_kind_get_no_verdict():
    results = make_results({"CIDG": near(0.8), "logistic": near(0.6)})
    assert make_verdict(results, "oracle").headline.startswith("No verdict")
    alone = make_verdict(make_results({"logistic": near(0.6)}))
    assert alone.intervals == {}
    assert alone.headline.startswith("Invariant and plain methods are not compared")
    assert alone.recommendation.method == "logistic"


def test_scores_of_other_metrics_are_paired_by_domain_and_not_shown_in_percent():
    results = make_results({"CIDG": near(0.8), "logistic": near(0.6)}, "log_loss")
    rows = [
        replace(row, accuracy=-0.3 if row.method == "CIDG" else -0.5 - 0.01 * i) for i, row in enumerate(results.rows)
    ]
    found = make_verdict(replace(results, rows=rows))
    assert invariance(found).difference == pytest.approx(0.285)
    assert "points" not in found.headline
    assert "negative log loss -0.300" in found.recommendation.sentence
    undefined = [replace(row, accuracy=None) if row.domain == DOMAINS[0] else row for row in rows]
    assert "On 5 of 6 held-out domains." in make_verdict(replace(results, rows=undefined)).headline


def test_kfda_shows_what_the_invariance_terms_add():
    found = make_verdict(make_results({"CIDG": near(0.8), "KFDA": near(0.7), "logistic": near(0.6)}))
    assert found.sentences[0].startswith("Invariant projections against KFDA: +10.0")


def test_the_verdict_states_what_transductive_steps_are_worth():
    found = make_verdict(make_results({"auto": near(0.7), "auto, transductive": near(0.8)}))
    assert found.sentences[0].startswith("Auto, transductive against auto: +10.0 points, 95% interval ")
    assert found.recommendation.method == "auto"


def test_samples_of_a_group_count_as_one():
    values = np.repeat([1.0, -1.0, 0.0, 1.0], 25)
    groups = np.repeat(np.arange(4), 25)
    assert squared_error(values, groups) == pytest.approx(squared_error(values[::25]), rel=1e-9)
    assert squared_error(values, groups) > 10 * squared_error(values)


# The recommendation


def test_auto_is_recommended_unless_a_method_is_clearly_better():
    even = recommend(make_results({"auto": near(0.7), "logistic": near(0.7), "CIDG": near(0.69)}))
    assert even.method == "auto"
    assert even.sentence.startswith("Use auto. No alternative ")
    better = recommend(make_results({"auto": near(0.6), "logistic": near(0.8), "CIDG": near(0.7)}))
    assert better.method == "logistic"
    assert better.log_loss < better.other_log_loss
    reference = recommend(make_results({"auto": near(0.6), "KFDA": near(0.9), "logistic": near(0.6)}))
    assert reference.method == "auto"  # a reference is never recommended


def test_probabilities_count_as_well_as_labels():
    """The labels of both are the same; the probabilities of one are far too confident."""
    rows = {"auto": {"confidence": 0.99, "seed": 1}, "logistic": {"confidence": 0.7, "seed": 1}}
    assert recommend(make_results({"auto": near(0.7), "logistic": near(0.7)}, **rows)).method == "logistic"
    worse = {"auto": {"confidence": 0.99, "seed": 1}, "logistic": {"confidence": 0.55, "seed": 2}}
    assert recommend(make_results({"auto": near(0.75), "logistic": near(0.6)}, **worse)).method == "auto"


@pytest.mark.parametrize("seed", range(40))
def test_the_reason_of_a_recommendation_never_contradicts_its_numbers(seed):
    """Simulated comparisons of methods with random scores and confidences."""
    rng = np.random.default_rng(seed)
    names = ["auto", "auto, transductive", "logistic", "RBF SVM", "CIDG", "KFDA", "majority"][: rng.integers(1, 8)]
    n_domains = rng.integers(2, 7)
    scores = {name: rng.uniform(0.55, 0.65) + rng.uniform(0, 0.2, n_domains) for name in names}
    options = {name.replace(" ", "_"): {"confidence": rng.uniform(0.55, 0.95)} for name in names}
    results = make_results(scores, **options)
    advice = recommend(results)
    losses = {name: np.mean([*results.log_losses(name).values()]) for name in results.candidates}
    assert advice.log_loss == losses[advice.method]
    if advice.compared_to is None:
        assert "It is the only candidate" in advice.sentence
    elif advice.method != "auto":
        assert advice.sentence.startswith(f"Use {advice.method}. It is clearly better than auto: log loss ")
        assert advice.log_loss < advice.other_log_loss == losses["auto"]
    else:
        assert advice.other_log_loss == min(loss for name, loss in losses.items() if name != "auto")
        is_lowest = advice.log_loss <= advice.other_log_loss
        reason = "has a lower log loss" if is_lowest else "is clearly better"
        assert advice.sentence.startswith(f"Use auto. No alternative {reason}: log loss ")
    table = table_from_arrays(
        np.zeros((len(TRUTH) * n_domains, 1)), np.tile(TRUTH, n_domains), np.repeat(DOMAINS[:n_domains], len(TRUTH))
    )
    tasks = [Task(("others",), (domain,)) for domain in DOMAINS[:n_domains]]
    predictions = HeldOutPredictions(table, tasks, results.rows)
    validated = ValidationResult(ValidationSettings(method=names[0]), predictions)
    assert validated.recommendation == advice
    assert f" of {advice.compared_to}" in advice.sentence or advice.method != "auto" or not advice.compared_to


def test_without_auto_the_validation_decides():
    scores = {"logistic": near(0.7), "RBF SVM": near(0.7)}
    assert recommend(make_results(scores, RBF_SVM={"validation": 0.9})).method == "RBF SVM"
    assert recommend(make_results(scores, logistic={"validation": 0.9})).method == "logistic"


def test_what_to_expect_is_the_mean_and_what_the_next_domain_may_do():
    advice = recommend(make_results({"logistic": [0.7, 0.75, 0.8, 0.7, 0.75, 0.8]}))
    assert advice.expected == pytest.approx(0.75, abs=0.005)
    assert advice.low < 0.7 < 0.8 < advice.high
    assert "95% prediction interval" in advice.sentence
    assert advice.sentence.endswith(f"Worst domain here: {DOMAINS[0]}, 70.0%.")


def test_two_domains_cannot_tell_what_to_expect():
    advice = recommend(make_results({"logistic": [0.7, 0.8]}))
    assert advice.low is advice.high is None
    assert "2 held-out domains are too few for a prediction interval" in advice.sentence


def test_a_recommendation_that_needs_a_batch_says_so():
    advice = recommend(make_results({"CIDG": near(0.7)}, CIDG={"transductive": True}))
    assert advice.sentence.endswith("It needs a batch of unlabeled rows of the new domain.")


def test_a_model_that_hardly_beats_the_majority_is_pointed_out():
    found = make_verdict(make_results({"auto": near(0.7), "majority": near(0.69)}))
    assert "Always predicting the most frequent class has an accuracy of 70.0%" in found.sentences[-1]
    assert "balanced_accuracy" in found.sentences[-1]
    assert not make_verdict(make_results({"auto": near(0.8), "majority": near(0.6)})).sentences


def test_a_rare_class_is_pointed_out_before_anything_is_run():
    assert "balanced_accuracy" in describe_imbalance({"a": 990, "b": 10})
    assert describe_imbalance({"a": 500, "b": 500}) is None
    assert describe_imbalance({"a": 990, "b": 10}, "roc_auc") is None
