"""The verdict of a comparison: whom it compares, and when it claims something."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from unseen.study import Row
from unseen.study._evidence import best_validated, mean_interval, sample_interval
from unseen.study._verdict import verdict

DOMAINS = [f"hospital {k}" for k in range(6)]


def row(method, domain=DOMAINS[0], repeat=0, validation=0.5, transductive=False, status="ok"):
    accuracy = 0.5 if status == "ok" else None
    accuracies = {domain: 0.5} if status == "ok" else {}
    return Row(
        method,
        f"others -> {domain}",
        repeat,
        0,
        accuracy,
        accuracies,
        validation,
        {},
        0,
        transductive,
        0.1,
        status,
        "",
        {},
    )


def comparison(advantage, *, methods=("CIDG", "logistic"), repeats=1, n=200, seed=0, domains=DOMAINS):
    """Rows and correctness in which the first method is right more often by `advantage`, the others half the time."""
    rng = np.random.default_rng(seed)
    rows, correct = [], {}
    for domain in domains:
        for repeat in range(repeats):
            for method in methods:
                rows.append(row(method, domain, repeat))
                chance = 0.5 + (advantage if method == methods[0] else 0.0)
                correct[method, rows[-1].task, repeat] = rng.random(n) < chance
    return rows, correct


def test_the_champion_is_chosen_by_validation_alone():
    poor = row("CIDG", validation=0.9)
    assert best_validated([row("SCA", validation=0.6), poor, row("logistic", validation=1.0)], ("SCA", "CIDG")) is poor
    assert best_validated([row("SCA", validation=0.9), poor], ("CIDG", "SCA")).method == "SCA"  # the first in the table
    assert best_validated([row("CIDG", status="failed", validation=None)], ("CIDG",)) is None


def test_results_on_the_held_out_domain_do_not_move_the_choice():
    rows, correct = comparison(0.0, methods=("CIDG", "SCA", "logistic"))
    better = {at: np.ones_like(right) if at[0] == "SCA" else right for at, right in correct.items()}
    assert {d.invariant for d in verdict(rows, better).per_domain} == {"SCA"}  # first among equals in validation
    rows = [row(r.method, *r.accuracies, validation=0.9 if r.method == "CIDG" else 0.5) for r in rows]
    assert {d.invariant for d in verdict(rows, better).per_domain} == {"CIDG"}


def test_a_clear_advantage_is_claimed_and_its_mirror_image_too():
    rows, correct = comparison(0.3)
    for_invariance = verdict(rows, correct)
    assert for_invariance.decision == "invariant"
    assert for_invariance.headline.startswith("Invariance helped: +")
    assert for_invariance.interval.low > 0
    swapped = {({"CIDG": "logistic", "logistic": "CIDG"}[m], t, r): right for (m, t, r), right in correct.items()}
    against = verdict(rows, swapped)
    assert against.decision == "plain"
    assert against.interval.difference == pytest.approx(-for_invariance.interval.difference)


def test_equal_methods_are_not_told_apart():
    rows, correct = comparison(0.0)
    found = verdict(rows, {at: correct["CIDG", at[1], at[2]] for at in correct})
    assert found.decision == "none"
    assert found.headline.startswith("No detectable difference")
    assert found.interval.difference == 0
    assert -3 < found.interval.low < 0 < found.interval.high < 3  # agreement on 1200 samples is no proof of equality


def test_the_difference_is_the_mean_over_domains_of_paired_differences():
    rows, correct = comparison(0.1, repeats=3)
    found = verdict(rows, correct)
    each = {
        d: np.mean(
            [
                correct["CIDG", f"others -> {d}", r].mean() - correct["logistic", f"others -> {d}", r].mean()
                for r in range(3)
            ]
        )
        for d in DOMAINS
    }
    assert found.interval.difference == pytest.approx(100 * np.mean(list(each.values())))
    for line in found.per_domain:
        assert line.interval.difference == pytest.approx(100 * each[line.domain])
        assert line.interval.low < line.interval.difference < line.interval.high


def test_one_domain_and_two_domains_claim_nothing():
    assert mean_interval([np.ones(50)]).decision == "none"
    rng = np.random.default_rng(0)
    two = mean_interval([np.where(rng.random(100) < p, 1.0, 0.0) for p in (0.1, 0.3)])
    assert two.decision == "none"


def test_domains_that_disagree_widen_the_interval_more_than_few_samples_do():
    alike = [np.r_[np.ones(60), np.zeros(40)]] * 6
    apart = [np.r_[np.ones(k), np.zeros(100 - k)] for k in (20, 100, 40, 80, 20, 100)]
    narrow, wide = mean_interval(alike), mean_interval(apart)
    assert narrow.difference == pytest.approx(wide.difference)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    many, few = (mean_interval([np.tile([1.0, 0.0], n)] * 6) for n in (500, 5))
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize("m", [3, 6])
@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_where_there_is_no_difference_the_interval_misses_it_in_five_percent_of_draws(m, spread):
    """Domains with true differences of mean zero; samples that are right and wrong at random."""
    rng = np.random.default_rng(m)
    misses = 0
    for _ in range(400):
        true = (spread * rng.standard_normal(m)).clip(-0.7, 0.7)
        samples = [rng.choice([-1.0, 0.0, 1.0], size=60, p=[0.2 - d / 4, 0.6, 0.2 + d / 4]) for d in true]
        misses += mean_interval(samples).decision != "none"
    assert misses / 400 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_the_standard_errors_are_those_of_a_bootstrap_over_domains_and_over_samples():
    rng = np.random.default_rng(0)
    apart = [rng.choice([-1.0, 0.0, 1.0], size=50, p=[0.3 - d, 0.4, 0.3 + d]) for d in (0.0, 0.1, 0.2, 0.29)]
    means = np.array([values.mean() for values in apart])
    draws = means[rng.integers(4, size=(100_000, 4))].mean(axis=1)
    margin = (lambda i: (i.high - i.low) / 2)(mean_interval(apart))
    assert margin == pytest.approx(100 * student.ppf(0.975, 3) * draws.std() * np.sqrt(4 / 3), rel=0.02)
    alike = [rng.permutation(np.r_[np.ones(30), np.zeros(20)]) for _ in range(4)]
    draws = np.mean([rng.choice(values, size=(20_000, 50)).mean(axis=1) for values in alike], axis=0)
    margin = (lambda i: (i.high - i.low) / 2)(mean_interval(alike))
    assert margin == pytest.approx(100 * student.ppf(0.975, 3) * draws.std(), rel=0.03)


def test_a_domains_interval_covers_its_mean_at_the_stated_rate():
    rng = np.random.default_rng(0)
    draws = [sample_interval(rng.choice([-1.0, 0.0, 1.0], size=80, p=[0.1, 0.6, 0.3]), seed=k) for k in range(300)]
    covered = np.mean([i.low <= 20 <= i.high for i in draws])
    assert 0.90 < covered < 0.99


def test_intervals_stay_among_the_differences_there_can_be():
    wide = mean_interval([np.ones(3), -np.ones(3)])
    assert (wide.low, wide.high) == (-100, 100)
    one = sample_interval(np.zeros(2))
    assert (one.low, one.difference, one.high) == (-100, 0, 100)
    assert sample_interval(np.zeros(300)).high == pytest.approx(1.0)  # the rule of three


def test_an_oracle_gets_no_verdict():
    found = verdict(*comparison(0.3), selection="oracle")
    assert found.decision == "none"
    assert found.interval is None
    assert "oracle" in found.headline


def test_domains_on_which_a_kind_failed_are_counted():
    rows, correct = comparison(0.3)
    lost = [r for r in rows if r.method == "CIDG" and {DOMAINS[0], DOMAINS[1]} & set(r.accuracies)]
    rows = [row("CIDG", *r.accuracies, status="failed", validation=None) if r in lost else r for r in rows]
    assert "rests on 4 of 6 held-out domains" in " ".join(verdict(rows, correct).sentences)
    assert "rests on" not in " ".join(verdict(*comparison(0.3)).sentences)


def test_the_words_name_who_chose():
    assert "validation on the other domains stand" in verdict(*comparison(0.3)).sentences[0]
    assert "held-out samples of the other domains" in verdict(*comparison(0.3), selection="within").sentences[0]


def test_kfda_tells_what_the_invariance_adds_by_itself():
    rows, correct = comparison(0.3, methods=("CIDG", "logistic", "KFDA"))
    assert "the invariance itself adds something" in " ".join(verdict(rows, correct).sentences)
    as_good = {at: correct["CIDG", at[1], at[2]] if at[0] == "KFDA" else right for at, right in correct.items()}
    assert "cannot be told from zero" in " ".join(verdict(rows, as_good).sentences)


def test_transductive_champions_and_few_domains_are_pointed_out():
    rows, correct = comparison(0.3, domains=DOMAINS[:4])
    assert not any("transductive" in s for s in verdict(rows, correct).sentences)
    rows = [row(r.method, *r.accuracies, transductive=r.method == "CIDG") for r in rows]
    said = " ".join(verdict(rows, correct).sentences)
    assert "transductive" in said
    assert "With 4 held-out domains the interval is wide" in said


@pytest.mark.parametrize(("methods", "lacks"), [(("CIDG", "SCA"), "no plain"), (("1NN", "logistic"), "no invariant")])
def test_without_both_kinds_there_is_no_verdict(methods, lacks):
    found = verdict(*comparison(0.1, methods=methods))
    assert found.decision == "none"
    assert found.interval is None
    assert lacks in found.sentences[0]


def test_a_failed_method_cannot_be_champion():
    rows, correct = comparison(0.3, methods=("CIDG", "SCA", "logistic"))
    rows = [row(r.method, *r.accuracies, status="failed", validation=None) if r.method == "SCA" else r for r in rows]
    assert {d.invariant for d in verdict(rows, correct).per_domain} == {"CIDG"}
