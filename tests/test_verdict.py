"""The verdict of a comparison: whom it compares, and when it claims something."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from unseen.evaluation import Row
from unseen.evaluation._statistics import mean_interval, sample_interval, squared_error
from unseen.evaluation._verdict import describe_imbalance, make_verdict
from unseen.model_selection import METHODS, forecast

DOMAINS = [f"hospital {k}" for k in range(6)]


def row(method, domain=DOMAINS[0], repeat=0, validation=0.5, transductive=False, status="ok", score=0.5):
    accuracy = score if status == "ok" else None
    accuracies = {domain: score} if status == "ok" else {}
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
        METHODS[method].kind if method in METHODS else "reference",
    )


def comparison(advantage, *, methods=("CIDG", "logistic"), repeats=1, n=200, seed=0, domains=DOMAINS):
    """Rows and correctness in which the first method is right more often by `advantage`, the others half the time."""
    rng = np.random.default_rng(seed)
    rows, correct = [], {}
    for domain in domains:
        for repeat in range(repeats):
            for method in methods:
                right = rng.random(n) < 0.5 + (advantage if method == methods[0] else 0.0)
                rows.append(row(method, domain, repeat, score=right.mean()))
                correct[method, rows[-1].task, repeat] = right
    return rows, correct


def test_results_on_the_held_out_domain_do_not_move_the_choice():
    rows, correct = comparison(0.0, methods=("CIDG", "SCA", "logistic"))
    better = {at: np.ones_like(right) if at[0] == "SCA" else right for at, right in correct.items()}
    assert {d.invariant for d in make_verdict(rows, better).per_domain} == {"SCA"}  # first among equals in validation
    rows = [row(r.method, *r.accuracies, validation=0.9 if r.method == "CIDG" else 0.5) for r in rows]
    assert {d.invariant for d in make_verdict(rows, better).per_domain} == {"CIDG"}


def test_a_clear_advantage_is_claimed_and_its_mirror_image_too():
    rows, correct = comparison(0.3)
    for_invariance = make_verdict(rows, correct)
    assert for_invariance.decision == "invariant"
    assert for_invariance.headline.startswith("Invariance helped: +")
    assert for_invariance.interval.low > 0
    swapped = {({"CIDG": "logistic", "logistic": "CIDG"}[m], t, r): right for (m, t, r), right in correct.items()}
    against = make_verdict(rows, swapped)
    assert against.decision == "plain"
    assert against.interval.difference == pytest.approx(-for_invariance.interval.difference)


def test_equal_methods_are_not_told_apart():
    rows, correct = comparison(0.0)
    found = make_verdict(rows, {at: correct["CIDG", at[1], at[2]] for at in correct})
    assert found.decision == "none"
    assert found.headline.startswith("No detectable difference")
    assert found.interval.difference == 0
    assert (
        -0.03 < found.interval.low < 0 < found.interval.high < 0.03
    )  # agreement on 1200 samples is no proof of equality


def test_the_difference_is_the_mean_over_domains_of_paired_differences():
    rows, correct = comparison(0.1, repeats=3)
    found = make_verdict(rows, correct)
    each = {
        d: np.mean(
            [
                correct["CIDG", f"others -> {d}", r].mean() - correct["logistic", f"others -> {d}", r].mean()
                for r in range(3)
            ]
        )
        for d in DOMAINS
    }
    assert found.interval.difference == pytest.approx(np.mean(list(each.values())))
    for line in found.per_domain:
        assert line.interval.difference == pytest.approx(each[line.domain])
        assert line.interval.low < line.interval.difference < line.interval.high


def test_one_domain_and_two_domains_claim_nothing():
    assert mean_interval([np.ones(50)]).decision == "none"
    rng = np.random.default_rng(0)
    two = mean_interval([np.where(rng.random(100) < p, 1.0, 0.0) for p in (0.1, 0.3)])
    assert two.decision == "none"


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
    assert margin == pytest.approx(student.ppf(0.975, 3) * draws.std() * np.sqrt(4 / 3), rel=0.02)
    alike = [rng.permutation(np.r_[np.ones(30), np.zeros(20)]) for _ in range(4)]
    draws = np.mean([rng.choice(values, size=(20_000, 50)).mean(axis=1) for values in alike], axis=0)
    margin = (lambda i: (i.high - i.low) / 2)(mean_interval(alike))
    assert margin == pytest.approx(student.ppf(0.975, 3) * draws.std(), rel=0.03)


def test_a_domains_interval_covers_its_mean_at_the_stated_rate():
    rng = np.random.default_rng(0)
    draws = [sample_interval(rng.choice([-1.0, 0.0, 1.0], size=80, p=[0.1, 0.6, 0.3]), seed=k) for k in range(300)]
    covered = np.mean([i.low <= 0.2 <= i.high for i in draws])
    assert 0.90 < covered < 0.99


def test_intervals_stay_among_the_differences_there_can_be():
    wide = mean_interval([np.ones(3), -np.ones(3)])
    assert (wide.low, wide.high) == (-1, 1)
    one = sample_interval(np.zeros(2))
    assert (one.low, one.difference, one.high) == (-1, 0, 1)
    assert sample_interval(np.zeros(300)).high == pytest.approx(0.01)  # the rule of three


def test_an_oracle_gets_no_verdict():
    found = make_verdict(*comparison(0.3), selection="oracle")
    assert found.decision == "none"
    assert found.interval is None
    assert "oracle" in found.headline


def test_domains_on_which_a_kind_failed_are_counted():
    rows, correct = comparison(0.3)
    lost = [r for r in rows if r.method == "CIDG" and {DOMAINS[0], DOMAINS[1]} & set(r.accuracies)]
    rows = [row("CIDG", *r.accuracies, status="failed", validation=None) if r in lost else r for r in rows]
    assert "rests on 4 of 6 held-out domains" in " ".join(make_verdict(rows, correct).sentences)
    assert "rests on" not in " ".join(make_verdict(*comparison(0.3)).sentences)


def test_the_words_name_who_chose():
    assert "validation on the other domains stand" in make_verdict(*comparison(0.3)).sentences[0]
    assert "held-out samples of the other domains" in make_verdict(*comparison(0.3), selection="within").sentences[0]


def test_kfda_tells_what_the_invariance_adds_by_itself():
    rows, correct = comparison(0.3, methods=("CIDG", "logistic", "KFDA"))
    assert "the invariance itself adds something" in " ".join(make_verdict(rows, correct).sentences)
    as_good = {at: correct["CIDG", at[1], at[2]] if at[0] == "KFDA" else right for at, right in correct.items()}
    assert "cannot be told from zero" in " ".join(make_verdict(rows, as_good).sentences)


def test_transductive_champions_and_few_domains_are_pointed_out():
    rows, correct = comparison(0.3, domains=DOMAINS[:4])
    assert not any("transductive" in s for s in make_verdict(rows, correct).sentences)
    rows = [row(r.method, *r.accuracies, transductive=r.method == "CIDG") for r in rows]
    said = " ".join(make_verdict(rows, correct).sentences)
    assert "transductive" in said
    assert "With 4 held-out domains the interval is wide" in said


@pytest.mark.parametrize(("methods", "lacks"), [(("CIDG", "SCA"), "no plain"), (("1-NN", "logistic"), "no invariant")])
def test_without_both_kinds_there_is_no_verdict(methods, lacks):
    found = make_verdict(*comparison(0.1, methods=methods))
    assert found.decision == "none"
    assert found.interval is None
    assert lacks in found.sentences[0]


def test_a_failed_method_cannot_be_champion():
    rows, correct = comparison(0.3, methods=("CIDG", "SCA", "logistic"))
    rows = [row(r.method, *r.accuracies, status="failed", validation=None) if r.method == "SCA" else r for r in rows]
    assert {d.invariant for d in make_verdict(rows, correct).per_domain} == {"CIDG"}


def scored(scores, **details):
    """Rows of methods with scores on some domains, which are all that is known of them."""
    return scored_on(scores, DOMAINS, **details)


def scored_on(scores, domains, **details):
    return [
        row(method, domain, score=score, **details.get(method, {}))
        for method, own in scores.items()
        for domain, score in zip(domains, own, strict=False)
    ]


def test_other_metrics_are_paired_by_domain():
    scores = {"CIDG": [0.8, 0.7, 0.9, 0.75], "logistic": [0.7, 0.65, 0.7, 0.75]}
    found = make_verdict(scored(scores), {}, metric="balanced_accuracy")
    apart = np.array(scores["CIDG"]) - scores["logistic"]
    margin = student.ppf(0.975, 3) * apart.std(ddof=1) / 2
    assert found.interval.difference == pytest.approx(apart.mean())
    assert (found.interval.low, found.interval.high) == pytest.approx((apart.mean() - margin, apart.mean() + margin))
    assert [line.interval.difference for line in found.per_domain] == pytest.approx(apart)
    assert np.isnan([line.interval.low for line in found.per_domain]).all()  # samples have no balanced accuracy
    assert "% balanced accuracy on a new domain" in found.recommendation.sentence


def test_repeats_of_other_metrics_are_averaged():
    rows = [
        replace(r, repeat=k, accuracy=r.accuracy + k / 10) for r in scored({"CIDG": [0.6, 0.7, 0.5]}) for k in (0, 1)
    ]
    rows += [replace(r, repeat=k) for r in scored({"logistic": [0.5, 0.5, 0.5]}) for k in (0, 1)]
    found = make_verdict(rows, {}, metric="balanced_accuracy")
    assert [line.interval.difference for line in found.per_domain] == pytest.approx([0.15, 0.25, 0.05])


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_domains_where_the_metric_is_undefined_are_left_out_and_counted(nothing):
    scores = {"CIDG": [0.8, 0.7, 0.9, nothing], "logistic": [0.7, 0.65, 0.7, nothing]}
    found = make_verdict(scored(scores), {}, metric="roc_auc")
    whole = make_verdict(scored({name: own[:3] for name, own in scores.items()}), {}, metric="roc_auc")
    assert found.interval == whole.interval
    assert set(found.recommendation.scores) == set(DOMAINS[:3])
    assert "It rests on 3 of 4 held-out domains: on 1 of the others roc auc is undefined." in found.sentences
    none = make_verdict(scored({name: [nothing] for name in scores}), {}, metric="roc_auc")
    assert (none.interval, none.recommendation) == (None, None)
    assert "is roc auc defined" in " ".join(none.sentences)


def test_scores_that_are_no_shares_are_plain_numbers():
    found = make_verdict(
        scored({"CIDG": [-0.4, -0.5, -0.3], "logistic": [-0.5, -0.7, -0.6]}), {}, metric="log_loss", share=False
    )
    assert found.interval.difference == pytest.approx(0.2)
    assert ": +0.200, 95% interval " in found.headline
    assert "points" not in " ".join([found.headline, *found.sentences])
    assert "on a new domain (95% prediction interval -0.897 to " in found.recommendation.sentence
    assert "points" not in found.recommendation.sentence
    assert found.recommendation.low < -0.5 < -0.3 < found.recommendation.high
    alone = make_verdict(scored({"CIDG": [-0.4], "logistic": [-0.5]}), {}, metric="log_loss", share=False)
    assert "no interval" in alone.headline


def test_samples_of_a_group_count_as_one():
    """Each sample ten times is no more evidence than once, if one says that the copies belong together."""
    rows, correct = comparison(0.1, n=60)
    once = make_verdict(rows, correct)
    copies = {at: np.repeat(right, 10) for at, right in correct.items()}
    groups = {at[1]: np.repeat(np.arange(60), 10) for at in correct}
    grouped, naive = make_verdict(rows, copies, groups=groups), make_verdict(rows, copies)
    assert grouped.interval.low == pytest.approx(once.interval.low)
    for one, same, less in zip(once.per_domain, grouped.per_domain, naive.per_domain, strict=True):
        assert (same.interval.low, same.interval.high) == pytest.approx((one.interval.low, one.interval.high))
        assert less.interval.high - less.interval.low < 0.5 * (same.interval.high - same.interval.low)
    alike = [np.repeat([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], 10)] * 4  # domains agree: samples tell how sure one can be
    errors = [squared_error(values, np.arange(60) // 10) for values in alike]
    wide, narrow = mean_interval(alike, errors), mean_interval(alike)
    assert wide.high - wide.low == pytest.approx(np.sqrt(10) * (narrow.high - narrow.low))


def test_what_to_expect_is_the_mean_and_what_the_next_domain_may_do():
    rows, correct = comparison(0.2, n=500)
    found = make_verdict(rows, correct).recommendation
    scores = np.array([r.accuracy for r in rows if r.method == found.method])
    assert found.expected == pytest.approx(scores.mean())
    # Student's interval for the measured scores, which is wider than the model of sampling errors needs.
    student_margin = student.ppf(0.975, 5) * np.sqrt((1 + 1 / 6) * max(scores.var(ddof=1), 0.2 / 500))
    assert 0.6 * student_margin < found.high - found.expected < 1.1 * student_margin
    assert found.worst == pytest.approx(scores.min())
    assert f"worst domain here: {found.worst_domain}, {found.worst:.1%}" in found.sentence
    assert found.sentence.startswith(
        f"Use {found.method}. Expect about {found.expected:.1%} accuracy on a new domain ("
    )


def test_domains_that_agree_by_luck_do_not_promise_the_same_of_the_next():
    rows, correct = comparison(0.5, n=20, domains=DOMAINS[:3])
    right = {at: np.ones_like(values) for at, values in correct.items()}
    found = make_verdict([replace(r, accuracy=1.0) for r in rows], right).recommendation
    assert found.expected == found.high == 1
    assert found.low < 0.9


@pytest.mark.parametrize("m", [1, 2])
def test_one_or_two_domains_cannot_tell_what_to_expect(m):
    found = make_verdict(scored({"logistic": [0.7, 0.72][:m]}), {}, metric="balanced_accuracy").recommendation
    assert found.low is None
    assert found.high is None
    assert "too few for a prediction interval; at least 3 are needed" in found.sentence
    assert "interval 0.0%" not in found.sentence


def spread_scores(mean, deviation):
    """Four scores of a plain method with this mean and standard deviation."""
    return {"logistic": (mean + deviation * np.sqrt(3 / 4) * np.array([-1, 1, -1, 1])).tolist()}


def test_differences_stay_within_the_range_of_the_metric():
    scores = {"CIDG": [0.9, 0.1, 0.9], "logistic": [0.1, 0.9, 0.9]}
    found = make_verdict(scored(scores), {}, metric="AUC", share=False, limits=(0, 1))
    assert (found.interval.low, found.interval.high) == (-1, 1)


def test_an_interval_that_says_nothing_is_replaced_by_the_number_of_domains_that_it_takes():
    """Four hospitals that differ too much for an interval narrower than half of the range."""
    scores = scored(spread_scores(0.7, 0.11))
    found = make_verdict(scores, {}, metric="AUC", share=False, limits=(0, 1)).recommendation
    assert (found.low, found.high) == (None, None)
    assert "a standard deviation of 0.110" in found.sentence
    assert "More domains are needed" in found.sentence
    assert "a 95% prediction interval of ±0.250 needs 13 domains." in found.sentence
    too_different = make_verdict(scored(spread_scores(0.6, 0.2)), {}, metric="AUC", share=False, limits=(0, 1))
    assert "it is wider than ±0.250 for any number of domains" in too_different.recommendation.sentence
    narrow = make_verdict(scored(spread_scores(0.785, 0.05)), {}, metric="AUC", share=False, limits=(0, 1))
    _, low, high = forecast(np.array(spread_scores(0.785, 0.05)["logistic"]), bounds=(0, 1))
    assert f"prediction interval {low:.3f} to {high:.3f})" in narrow.recommendation.sentence


def test_a_difference_between_two_domains_has_no_interval_but_the_number_that_it_takes():
    scores = {"CIDG": [0.8, 0.6], "logistic": [0.6, 0.65]}
    found = make_verdict(scored(scores), {}, metric="balanced_accuracy")
    assert "interval -100" not in found.headline
    assert "+7.5 points (2 held-out domains are too few for a 95% interval; about " in found.headline
    more = {name: own * 4 for name, own in scores.items()}
    enough = make_verdict(scored_on(more, [f"hospital {k}" for k in range(8)]), {}, metric="balanced_accuracy")
    assert "95% interval " in enough.headline


@pytest.mark.parametrize("plain_wins_by", [0.03, 0.004])
def test_a_plain_method_that_wins_in_all_four_hospitals_is_recommended(plain_wins_by):
    """By AUC "Use auto" stood beside a plain method that had won in all of them."""
    logistic = np.array([0.88, 0.81, 0.74, 0.90])
    noise = plain_wins_by * np.array([0.5, 1.5, 0.2, 1.8])
    scores = {"auto": logistic - noise, "logistic": logistic, "1-NN": logistic - 0.1, "CIDG": logistic - 0.2}
    rows = scored(scores, CIDG={"validation": 0.9}, **{"1-NN": {"validation": 0.8}})
    found = make_verdict(rows, {}, metric="AUC", share=False, limits=(0, 1))
    advice = found.recommendation
    assert advice.method == "logistic"
    assert advice.sentence.startswith("Use logistic: it is better than UnseenClassifier (auto), and simpler. ")
    assert found.headline.startswith("UnseenClassifier (auto) did better")  # than 1-NN, which the validation chose
    assert found.sentences[0].startswith("The table seems to say otherwise: logistic has 0.832, auto ")


@pytest.mark.parametrize(
    ("gains", "recommended"),
    [
        ([0.02, -0.01, 0.03, -0.02], "logistic"),  # within one standard error
        ([0.02, 0.01, 0.03, 0.02], "auto"),  # beyond it
        ([0.0, 0.0, 0.0, 0.0], "logistic"),
    ],
)
def test_what_is_not_better_than_a_plain_method_by_its_standard_error_is_not_recommended(gains, recommended):
    logistic = np.array([0.88, 0.81, 0.74, 0.90])
    found = make_verdict(
        scored({"auto": logistic + gains, "logistic": logistic}), {}, metric="AUC", share=False, limits=(0, 1)
    ).recommendation
    assert found.method == recommended
    error = np.std(gains, ddof=1) / 2
    sign = -1 if recommended == "logistic" else 1
    assert found.advantage == pytest.approx(sign * np.mean(gains))
    assert found.standard_error == pytest.approx(error)
    if recommended == "logistic":
        assert found.sentence.startswith("Use logistic: it is as good as UnseenClassifier (auto), and simpler. Expect")
    else:
        assert "Difference from logistic, the best plain classifier, on 4 held-out domains: +0.020" in found.sentence


def test_an_invariant_method_is_recommended_by_what_it_does_on_held_out_domains():
    scores = {"CIDG": [0.5, 0.6, 0.5], "SCA": [0.9, 0.9, 0.9], "logistic": [0.8, 0.8, 0.8]}
    validation = {"CIDG": {"validation": 0.9}, "SCA": {"validation": 0.8}, "logistic": {"validation": 0.7}}
    found = make_verdict(scored(scores, **validation), {}, metric="balanced_accuracy")
    assert found.recommendation.method == "logistic"  # which beats the invariant method that is best in the validation
    partly = [r for r in scored(scores, **validation) if r.method != "CIDG" or DOMAINS[0] not in r.accuracies]
    assert make_verdict(partly, {}, metric="balanced_accuracy").recommendation.method == "SCA"
    only = make_verdict(scored({"KFDA": [0.9, 0.9, 0.9]}), {}, metric="balanced_accuracy")
    assert only.recommendation is None  # a reference is there to compare with


def test_of_plain_methods_that_are_as_good_the_validation_chooses():
    scores = {"1-NN": [0.8, 0.7, 0.9], "logistic": [0.81, 0.68, 0.9], "linear SVM": [0.6, 0.5, 0.7]}
    validation = {"linear SVM": {"validation": 0.9}, "logistic": {"validation": 0.8}, "1-NN": {"validation": 0.7}}
    found = make_verdict(scored(scores, **validation), {}, metric="balanced_accuracy").recommendation
    assert found.method == "logistic"
    assert "It did best in the validation on the other domains" in found.sentence


def test_a_recommendation_that_needs_a_batch_says_so():
    scores = {"CIDG": [0.8, 0.7, 0.9], "logistic": [0.7, 0.65, 0.7]}
    needs = scored(scores, CIDG={"validation": 0.9, "transductive": True})
    assert "needs a batch" in make_verdict(needs, {}, metric="balanced_accuracy").recommendation.sentence
    assert "needs a batch" not in make_verdict(scored(scores), {}, metric="balanced_accuracy").recommendation.sentence


def test_the_automatic_choice_is_told_first_and_recommended():
    rows, correct = comparison(0.4, methods=("auto", "CIDG", "logistic"))
    found = make_verdict([replace(r, validation=None) if r.method == "auto" else r for r in rows], correct)
    assert found.auto.sign == 1
    assert found.headline.startswith("UnseenClassifier (auto) did better: +")
    assert found.sentences[0].startswith("No detectable difference between invariant methods and plain classifiers")
    assert found.decision == "none"
    assert found.recommendation.method == "auto"
    assert found.recommendation.sentence.startswith("Use UnseenClassifier (auto). Expect about")
    without = make_verdict(*comparison(0.4, methods=("auto", "logistic")))
    assert without.headline.startswith("UnseenClassifier (auto) did better")
    assert without.interval is None


@pytest.mark.parametrize(
    ("gain", "conclusion"), [(0.3, "it pays"), (0.0, "a gain cannot be told from zero"), (-0.3, "it costs")]
)
def test_the_verdict_states_what_transductive_steps_are_worth_and_what_they_need(gain, conclusion):
    rows, correct = comparison(gain, methods=("auto, transductive", "auto", "logistic"))
    tasks = list(dict.fromkeys(r.task for r in rows))
    rows = [replace(r, transductive=r.method == "auto, transductive" and r.task != tasks[0]) for r in rows]
    found = make_verdict(rows, correct)
    paired = [correct["auto, transductive", task, 0] - correct["auto", task, 0].astype(float) for task in tasks]
    assert found.opt_in.difference == pytest.approx(np.mean([values.mean() for values in paired]))
    assert found.opt_in == mean_interval(paired)
    (sentence,) = [one for one in found.sentences if "transductive steps" in one]
    assert conclusion in sentence
    assert str(found.opt_in) in sentence
    assert "in 5 of 6 cases" in sentence
    assert "at least 10 rows of the new domain" in sentence
    assert "class proportions" in sentence
    # The default is compared with plain classifiers and recommended, not the variant that the user must opt in to.
    default = make_verdict([r for r in rows if r.method != "auto, transductive"], correct)
    assert found.auto == default.auto
    assert found.recommendation == default.recommendation


def test_where_no_transductive_step_is_accepted_opting_in_changes_nothing():
    rows, correct = comparison(0.0, methods=("auto, transductive", "auto", "logistic"))
    found = make_verdict(rows, {at: correct["auto", at[1], at[2]] for at in correct})
    assert any("In a fit, transductive steps would change nothing here" in sentence for sentence in found.sentences)
    only = make_verdict(*comparison(0.0, methods=("auto, transductive", "logistic")))
    assert only.opt_in is None


def test_if_the_table_says_otherwise_a_sentence_says_why():
    """Of two plain classifiers validation takes the worse one on every domain."""
    scores = {"CIDG": [0.7, 0.72, 0.71], "logistic": [0.6, 0.61, 0.62], "1-NN": [0.8, 0.81, 0.82]}
    rows = scored(scores, logistic={"validation": 0.9})
    found = make_verdict(rows, {}, metric="balanced_accuracy")
    assert found.interval.difference > 0
    (said,) = [sentence for sentence in found.sentences if "hindsight" in sentence]
    assert "1-NN has 81.0%, CIDG 71.0%" in said
    assert "invariant methods that have 71.0% and plain classifiers that have 61.0%" in said
    agree = make_verdict(scored(scores, **{"1-NN": {"validation": 0.9}}), {}, metric="balanced_accuracy")
    assert not any("hindsight" in sentence for sentence in agree.sentences)


def test_a_model_that_hardly_beats_the_majority_is_no_success():
    rows, correct = comparison(0.0, methods=("CIDG", "logistic", "majority"))
    equal = {at: correct["majority", at[1], at[2]] for at in correct}
    found = make_verdict([replace(r, accuracy=equal[r.method, r.task, r.repeat].mean()) for r in rows], equal)
    assert found.recommendation.method == "logistic"  # of equals, one that looks at the samples
    rows = [replace(r, validation=0.9) if r.method == "logistic" else r for r in rows]
    right = {at: correct["majority", at[1], at[2]] for at in correct}
    same = {at: values.mean() for at, values in right.items()}
    rows = [replace(r, accuracy=same[r.method, r.task, r.repeat]) for r in rows]
    hardly = make_verdict(rows, right)
    assert any("Always predicting the most frequent class" in s and "balanced_accuracy" in s for s in hardly.sentences)
    better, clear = comparison(0.3, methods=("logistic", "CIDG", "majority"))
    assert not any("most frequent" in s for s in make_verdict(better, clear).sentences)
    best = make_verdict([replace(r, validation=0.95) if r.method == "majority" else r for r in rows], right)
    assert best.recommendation.method == "majority"
    assert any("nothing did better" in s for s in best.sentences)


def test_a_rare_class_is_pointed_out_before_anything_is_run():
    said = describe_imbalance({"ill": 5, "well": 95})
    assert "Class ill has 5.0%" in said
    assert "balanced_accuracy" in said
    assert describe_imbalance({"ill": 5, "well": 95}, metric="balanced_accuracy") is None
    assert describe_imbalance({"ill": 20, "well": 80}) is None
    assert describe_imbalance(dict.fromkeys(range(20), 10)) is None  # each has a twentieth, and none is rare
    found = make_verdict(*comparison(0.3))
    assert found.add_caution(None) is found
    assert found.add_caution(said).sentences == [*found.sentences, said]
    assert found.add_caution(said).add_caution(said).sentences.count(said) == 1
