"""Validation on held-out sites: cross-fitted predictions, statistics of each site, summaries, output."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import unseen
from unseen.evaluation import validate_predictions
from unseen.exceptions import DataWarning
from unseen.metrics import (
    auc,
    calibration_slope,
    choose_threshold,
    count_random_effects,
    development_size,
    log_loss,
    random_effects,
)

SITES = ("aachen", "bonn", "kiel", "trier")


def make_data(seed=0, n_rows=80, sites=SITES, effect=1.2):
    """Two informative columns; sites differ in the frequency of the event."""
    rng = np.random.default_rng(seed)
    site = np.repeat(sites, n_rows)
    X = rng.normal(size=(len(site), 3))
    offset = np.repeat(rng.normal(0, 0.4, len(sites)), n_rows)
    is_event = rng.random(len(site)) < 1 / (1 + np.exp(-(effect * X[:, 0] + 0.5 * X[:, 1] + offset)))
    return X, np.where(is_event, "ill", "well"), site


def validate(X, y, site, **options):
    options = {"methods": ("logistic model", LogisticRegression()), "compare_with": (), **options}
    if len(np.unique(y)) == 2:
        options.setdefault("positive", np.unique(y)[0])
    return unseen.validate(X, y, sample_domain=site, **options)


@pytest.fixture(scope="module")
def result():
    return validate(*make_data(), threshold="sensitivity=0.8", compare_with=("nearest mean", "majority"))


@pytest.fixture(scope="module")
def three_classes():
    X, _, site = make_data()
    y = np.digitize(X[:, 0] + 0.5 * np.random.default_rng(1).normal(size=len(X)), [-0.5, 0.5])
    return validate(X, y, site)


def test_labels_of_a_site_affect_neither_its_predictions_nor_its_threshold():
    X, y, site = make_data(n_rows=40)
    changed = y.copy()
    changed[site == "kiel"] = np.where(np.arange(40) % 2, "ill", "well")
    before, after = (
        next(one for one in validate(X, labels, site, threshold="youden").rows if one.domain == "kiel")
        for labels in (y, changed)
    )
    np.testing.assert_array_equal(before.probabilities, after.probabilities)
    assert before.threshold == after.threshold


def test_measures_of_a_site_are_those_of_its_held_out_predictions(result):
    frame = result.to_frame()
    for one in result.rows:
        if one.method == "logistic model":
            events = result.table.y[result.table.domain == one.domain] == "ill"
            p = one.probabilities[:, 0]  # "ill" is the first class
            assert frame.loc[one.domain, "auc"] == auc(events, p).value
            assert frame.loc[one.domain, "calibration_slope"] == calibration_slope(events, p).value
            flagged = p >= one.threshold
            assert frame.loc[one.domain, "sensitivity"] == flagged[events].mean()
            assert frame.loc[one.domain, "npv"] == (~events[~flagged]).mean()


def test_the_summary_is_the_random_effects_meta_analysis_of_the_sites(result):
    defined = {key: summary for key, summary in result.summaries.items() if summary.is_defined}
    assert len(defined) > 30
    for key, summary in defined.items():
        own = [*result.estimates[key].values()]
        if own[0].counts is None:
            expected = random_effects([one.scaled_value for one in own], [one.scaled_se for one in own])
        else:
            counts = np.array([one.counts for one in own])
            family = "poisson" if key[1] == "observed_expected" else "binomial"
            expected = count_random_effects(counts[:, 0], counts[:, 1], family)
        assert summary.effects == expected or not np.isfinite(expected.estimate)


def test_the_other_outcome_as_the_event_mirrors_all_measures(result):
    X, y, site = make_data()
    other = validate(X, y, site, positive="well", threshold=0.5).to_frame()
    own = validate(X, y, site, positive="ill", threshold=0.5).to_frame()
    np.testing.assert_allclose(own["auc"], other["auc"])
    np.testing.assert_allclose(own["brier"], other["brier"])
    np.testing.assert_allclose(own["calibration_slope"], other["calibration_slope"])
    np.testing.assert_allclose(own["calibration_in_the_large"], -other["calibration_in_the_large"], atol=1e-9)
    np.testing.assert_allclose(own["sensitivity"], other["specificity"])


def test_labels_without_information_give_an_auc_of_one_half():
    """The interval of the mean contains 0.5 for 4 of 5 sets of labels or more; its nominal coverage is 95%."""
    n_covered = 0
    for seed in range(5):
        X, _, site = make_data(seed, n_rows=60)
        y = np.random.default_rng(100 + seed).choice(["ill", "well"], len(X))
        summary = validate(X, y, site).get_summary("auc")
        assert 0.35 < summary.value < 0.65
        n_covered += summary.interval[0] < 0.5 < summary.interval[1]
    assert n_covered >= 4


def test_predictions_that_exist_already_have_the_same_statistics(result):
    own = {
        method: np.concatenate([one.probabilities for one in result.rows if one.method == method])
        for method in result.methods
    }
    again = validate_predictions(result.table.y, own, sample_domain=result.table.domain, positive="ill", threshold=0.5)
    fixed = validate(*make_data(), threshold=0.5, compare_with=("nearest mean", "majority"))
    assert str(again.summary_records) == str(fixed.summary_records)  # as texts, so that NaN equals NaN
    assert again.to_dict()["curves"] == fixed.to_dict()["curves"]


def test_a_threshold_for_predictions_is_chosen_on_the_other_sites():
    rng = np.random.default_rng(3)
    site = np.repeat(list("abc"), (50, 100, 150))
    p = rng.uniform(size=300)
    y = rng.uniform(size=300) < p
    held_out = validate_predictions(y, p, sample_domain=site, threshold="youden").rows
    is_other = site != "b"
    weight = np.where(site == "a", 1 / 50, 1 / 150)
    expected = choose_threshold(y[is_other], p[is_other], "youden", sample_weight=weight[is_other])
    assert held_out[1].threshold == expected.threshold


def test_a_site_without_predictions_is_left_out_of_the_summary():
    rng = np.random.default_rng(3)
    site = np.repeat(list("abcd"), 60)
    p = rng.uniform(size=240)
    y = rng.uniform(size=240) < p
    is_known = site != "b"
    found = validate_predictions(y, np.where(is_known, p, np.nan), sample_domain=site, threshold="youden")
    expected = validate_predictions(y[is_known], p[is_known], sample_domain=site[is_known], threshold="youden")
    assert found.get_summary("auc").effects.estimate == expected.get_summary("auc").effects.estimate
    assert [one.threshold for one in found.rows if one.domain != "b"] == [one.threshold for one in expected.rows]
    assert [one["failure"] for one in found.site_records] == ["", "there are no predictions", "", ""]


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan])
def test_values_that_are_not_probabilities_are_refused(value):
    p = np.full(6, 0.4)
    p[0] = value
    with pytest.raises(ValueError, match="probabilities has values that are NaN or not between 0 and 1"):
        validate_predictions([0, 1] * 3, p, sample_domain=list("aabbcc"))
    with pytest.raises(ValueError, match="only NaN"):
        validate_predictions([0, 1] * 3, np.full(6, np.nan), sample_domain=list("aabbcc"))


def test_risks_of_0_and_1_can_be_thresholds():
    found = validate_predictions([0, 1] * 6, [0, 1] * 6, sample_domain=list("aaaabbbbcccc"), threshold="sensitivity=1")
    assert all(0 < one.threshold < 1 for one in found.rows)
    assert found.to_frame().loc["a", "sensitivity"] == 1


def test_case_mix_is_standardized_over_all_rows(result):
    sites = result.sites
    weights = sites["rows"] / sites["rows"].sum()
    assert (weights * sites["case_mix_mean"]).sum() == pytest.approx(0, abs=1e-12)
    second = sites["case_mix_sd"] ** 2 + sites["case_mix_mean"] ** 2
    assert (weights * second).sum() == pytest.approx(1)


def test_the_area_below_the_roc_curve_is_the_auc(result):
    for site, estimate in result.estimates["logistic model", "auc", "ill"].items():
        curve = result.curves["sites"][site]["roc"]
        # The curve has at most 80 points, of up to 81.
        assert np.trapezoid(curve["tpr"], curve["fpr"]) == pytest.approx(estimate.value, abs=2e-3)


def test_differences_between_methods_have_students_interval(result):
    from scipy.stats import ttest_1samp

    frame = result.measures.query("measure == 'auc'").pivot_table(index="site", columns="method", values="value")
    expected = ttest_1samp(frame["logistic model"] - frame["nearest mean"], 0)
    record = next(one for one in result.comparison_records if one["method"] == "nearest mean")
    assert record["difference"] == pytest.approx(expected.statistic * expected._standard_error)
    assert (record["low"], record["high"]) == pytest.approx(expected.confidence_interval())


def test_sites_without_both_outcomes_have_missing_values_and_remain_in_the_report():
    rng = np.random.default_rng(0)
    site = np.repeat(["all", "none", "one row", "small", "large"], (20, 20, 1, 6, 200))
    p = rng.uniform(0.05, 0.95, len(site))
    y = rng.uniform(size=len(site)) < p
    y[site == "all"] = True
    y[site == "none"] = False
    result = validate_predictions(y, p, sample_domain=site, threshold=0.5)
    frame = result.to_frame()
    assert np.isnan(frame.loc[["all", "none", "one row"], "auc"]).all()
    assert np.isnan(frame.loc["none", "sensitivity"])
    assert np.isfinite(frame.loc[["small", "large", "summary"], "auc"]).all()
    assert result.get_summary("auc").effects.n_dropped == 3
    page = result.to_html()
    assert page.count("not defined") >= 3
    json.dumps(result.to_dict(), allow_nan=False)


@settings(max_examples=8, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    seed=st.integers(0, 2**16),
    levels=st.sampled_from([2, 5, 1000]),
    prior=st.sampled_from(["none", "empirical"]),
)
def test_any_predictions_give_a_report(sizes, seed, levels, prior):
    rng = np.random.default_rng(seed)
    site = np.repeat([f"site {i}" for i in range(len(sizes))], sizes)
    p = rng.integers(0, levels, len(site)) / (levels - 1)
    y = rng.integers(0, 2, len(site))
    result = validate_predictions(y, p, sample_domain=site, classes=[0, 1], tau_prior=prior)
    json.dumps(result.to_dict(), allow_nan=False)
    assert "For your colleagues" in result.to_html()
    for record in result.measure_records:
        if np.isfinite(record["value"]) and np.isfinite([record["low"], record["high"]]).all():
            assert record["low"] <= record["value"] <= record["high"]


def test_a_prior_makes_the_interval_of_three_sites_useful():
    """With three sites that differ, Student's quantile is 4.3, and the interval excludes almost nothing."""
    rng = np.random.default_rng(1)
    site = np.repeat(list("abc"), 300)
    z = rng.normal(size=900)
    y = rng.uniform(size=900) < 1 / (1 + np.exp(-np.repeat([0.6, 1.0, 1.6], 300) * z))
    p = 1 / (1 + np.exp(-z))
    without, with_prior = (
        validate_predictions(y, p, sample_domain=site, tau_prior=prior) for prior in ("none", "empirical")
    )
    widths = [np.ptp(one.get_summary("auc").prediction_interval) for one in (without, with_prior)]
    assert widths[1] < 0.7 * widths[0]
    assert "All intervals have 2 degrees of freedom" in without.methods_text()
    assert "half-normal prior" in with_prior.methods_text()


def test_an_uninformative_interval_names_the_number_of_sites_that_it_needs():
    rng = np.random.default_rng(0)
    site = np.repeat(list("abc"), 300)
    z = rng.normal(size=900)
    strength = np.repeat([0.2, 1.0, 2.2], 300)
    y = rng.uniform(size=900) < 1 / (1 + np.exp(-strength * z))
    result = validate_predictions(y, 1 / (1 + np.exp(-z)), sample_domain=site)
    explanation = result.get_summary("auc").explanation
    assert re.search(r"so that a 95% prediction interval of ±0.25 needs \d+ domains|for any number", explanation)
    assert explanation in result.to_html()


def test_classes_are_validated_against_all_others(three_classes):
    record = next(one for one in three_classes.measure_records if one["measure"] == "log_loss")
    own = next(one for one in three_classes.rows if one.domain == record["site"])
    y = three_classes.table.y[three_classes.table.domain == record["site"]]
    assert record["value"] == log_loss(y, own.probabilities, [0, 1, 2]).value
    names = {(one["measure"], one["class"]) for one in three_classes.summary_records}
    assert {("auc", 0), ("calibration_slope", 1), ("observed_expected", 2), ("log_loss", None)} <= names
    assert "one of another class, the model gives the first" in three_classes.to_html()
    json.dumps(three_classes.to_dict(), allow_nan=False)


def test_log_loss_is_that_of_scikit_learn():
    from sklearn.metrics import log_loss as reference

    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 50)
    y = rng.integers(0, 3, 50)
    estimate = log_loss(y, P, [0, 1, 2])
    assert estimate.value == pytest.approx(reference(y, P))
    losses = -np.log(P[np.arange(50), y])
    assert estimate.se == pytest.approx(losses.std(ddof=1) / np.sqrt(50))


def test_an_estimator_without_a_name_has_that_of_its_type():
    X, y, site = make_data(n_rows=30)
    result = validate(X, y, site, methods=LogisticRegression(C=0.1), compare_with=[("mine", LogisticRegression())])
    assert result.methods == ["LogisticRegression", "mine"]


class NeedsManyRows(LogisticRegression):
    """A classifier that cannot be fitted to fewer than 100 rows."""

    def fit(self, X, y):
        if len(X) < 100:
            raise RuntimeError("too few rows")
        return super().fit(X, y)


def test_a_site_without_which_no_model_can_be_fitted_has_missing_values():
    X, y, _ = make_data(n_rows=65)
    site = np.repeat(SITES, (100, 100, 30, 30))  # too few rows remain if both large ones are held out
    with pytest.warns(DataWarning, match="mine could not be fitted without (aachen|bonn)"):
        result = validate(X, y, site, methods=("mine", NeedsManyRows()))
    assert ["too few rows" in one["failure"] for one in result.site_records] == [True, True, False, False]
    assert len(result.settings.failures) == 2
    frame = result.to_frame()
    assert np.isnan(frame.loc[["aachen", "bonn"], "brier"]).all()
    assert np.isfinite(frame.loc[["kiel", "trier", "summary"], "brier"]).all()
    assert "No model could be built without aachen and bonn" in result.to_html()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positive": "sick"}, "positive='sick' is not a class. Use 'ill' or 'well'"),
        ({"threshold": "best"}, "threshold='best' is not allowed"),
        ({"threshold": 1.5}, "threshold=1.5 is not allowed"),
        ({"tau_prior": 0.5}, "tau_prior=0.5 is not allowed"),
        ({"methods": "centered logistic"}, "transductive"),
    ],
)
def test_a_wrong_argument_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        validate(*make_data(n_rows=10), **options)


def test_two_sites_are_too_few():
    with pytest.raises(ValueError, match="at least 3 domains"):
        validate(*make_data(sites=SITES[:2], n_rows=10))


@pytest.mark.parametrize("options", [{"positive": 1}, {"threshold": 0.5}])
def test_several_classes_have_no_event_and_no_threshold(options):
    X, _, site = make_data(n_rows=10)
    with pytest.raises(ValueError, match="needs two classes"):
        validate(X, np.arange(len(X)) % 3, site, **options)


def test_the_event_is_the_last_class_unless_it_is_named():
    X, y, site = make_data(n_rows=30)
    result = validate(X, y, site, positive=None)
    assert result.settings.positive == "well"
    assert any("'well', the last of both classes" in notice for notice in result.settings.notices)
    numbers = validate(X, np.where(y == "ill", 7, 3), site, positive="7")
    assert numbers.settings.positive == 7


def test_importance_is_in_the_report_and_in_json():
    X, y, site = make_data(n_rows=40)
    result = validate(X, y, site, importance=True, compare_with=("nearest mean",))
    assert result.importance["columns"][0]["column"] == "feature 0"
    assert result.to_dict()["importance"] == result.importance
    assert "Importance of columns" in result.to_html()
    assert validate(X, y, site).importance is None


def test_importance_is_stored_with_the_predictions(tmp_path, monkeypatch):
    X, y, site = make_data(n_rows=30)
    store = tmp_path / "store.sqlite"
    validate(X, y, site, store=store)
    first = validate(X, y, site, store=store, importance=True)  # fits again, since the file has no importance
    monkeypatch.setattr("unseen.evaluation._run.Study.predict", None)
    second = validate(X, y, site, store=store, importance=True)
    assert second.importance == first.importance
    assert validate(X, y, site, store=store).importance is None


@pytest.mark.parametrize("none", ["none", ()])
def test_no_method_beside_the_model_is_the_word_none_or_an_empty_sequence(none):
    X, y, site = make_data(n_rows=20)
    assert validate(X, y, site, compare_with=none).methods == ["logistic model"]
    assert validate(X, y, site, compare_with="nearest mean").methods == ["logistic model", "nearest mean"]


def test_every_table_is_written(result, tmp_path):
    paths = result.write_tables(tmp_path)
    assert {path.stem for path in paths} >= {"sites", "measures", "summary", "comparison", "predictions", "checklist"}
    with (tmp_path / "measures.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(result.measure_records)
    for row, record in zip(rows, result.measure_records, strict=True):
        assert (row["value"] == "") == np.isnan(record["value"])
        assert row["value"] == "" or float(row["value"]) == record["value"]


def test_the_page_is_for_readers_without_the_words_of_the_library(result):
    page = result.to_html()
    text = re.sub(r"<style>.*?</style>|<script>.*?</script>|<[^>]+>", " ", page, flags=re.DOTALL)
    assert "kernel" not in text.lower()
    assert text.index("For your colleagues") < text.index("Appendix: methods")
    assert page.count("<svg") > 3 * len(SITES)


def test_names_of_sites_are_escaped():
    X, y, site = make_data(n_rows=20, sites=("<script>alert(1)</script>", "b&c", "d"))
    page = validate(X, y, site).to_html()
    assert "<script>alert" not in page
    assert "b&amp;c" in page


def test_texts_for_a_paper_have_the_numbers_of_the_summary(result):
    summary = result.get_summary("auc")
    assert f"AUC (c-statistic): {summary.value:.2f} (95% CI {summary.interval[0]:.2f}" in result.results_text()
    text = result.methods_text()
    cited = set(re.findall(r"\((\w+) (\d{4})\)", text))
    references = text[text.index("References:") :]
    assert cited
    assert all(f"{name}" in references and year in references for name, year in cited)


def test_the_checklist_separates_answers_from_what_authors_add(result):
    items = result.checklist()
    assert len(items) > 25
    blanks = [item for item in items if item["answer"].startswith("AUTHOR: ")]
    assert 5 < len(blanks) < len(items) - 10


def test_the_figure_has_the_values_of_every_site(result):
    plt = pytest.importorskip("matplotlib.pyplot")
    figure = result.plot()
    assert [ax.get_title() for ax in figure.axes][:2] == ["AUC (c-statistic)", "Calibration slope"]
    points = [line.get_xdata()[0] for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert points == [*result.to_frame()["auc"]]
    plt.close(figure)


def test_a_report_needs_a_known_ending(result, tmp_path):
    with pytest.raises(ValueError, match=r"should end in .html"):
        result.write_report(tmp_path / "report.docx")
    result.write_report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def make_rare_events(seed=0, n_sites=6, n_rows=300, shift=0.0):
    """Risks of about 7%; `shift` makes predictions too low at the last site, on the logit scale."""
    rng = np.random.default_rng(seed)
    site = np.repeat([f"site {i}" for i in range(n_sites)], n_rows)
    z = rng.normal(-3, 1, len(site))
    truth = z + shift * (site == f"site {n_sites - 1}")
    return rng.uniform(size=len(site)) < 1 / (1 + np.exp(-truth)), 1 / (1 + np.exp(-z)), site


def test_a_site_is_called_clearly_miscalibrated_only_if_its_interval_excludes_1():
    y, p, site = make_rare_events(shift=1.5)
    result = validate_predictions(y, p, sample_domain=site, threshold=0.1)
    records = [one for one in result.measure_records if one["measure"] in ("observed_expected", "calibration_slope")]
    excluded = {one["site"] for one in records if not one["low"] <= 1 <= one["high"]}
    beyond = {one["site"] for one in records if not 0.8 < one["value"] < 1.25}
    sentences = [text for part in result.colleagues() for text in part["sentences"] if "clearly too" in text]
    named = {name for name in result.site_names for text in sentences if name in text}
    assert "site 5" in named
    assert named == excluded
    assert beyond - named  # sites whose estimates are far from 1 by chance are not named


def test_the_first_lines_have_the_slope_and_the_ratio_over_sites():
    y, p, site = make_rare_events()
    result = validate_predictions(y, p, sample_domain=site)
    first = result.colleagues()[0]["sentences"][0]
    assert str(result).startswith(first)
    for measure in ("auc", "calibration_slope", "observed_expected"):
        summary = result.get_summary(measure)
        assert f"{summary.value:.2f} ({summary.interval[0]:.2f} to {summary.interval[1]:.2f})" in first


def test_every_interval_is_inside_the_range_of_its_measure():
    """Four small sites of different quality: intervals on the plain scale reached from -3.95 to 3.37."""
    rng = np.random.default_rng(3)
    site = np.repeat(list("abcd"), 40)
    z = rng.normal(size=160)
    y = rng.uniform(size=160) < 1 / (1 + np.exp(-np.repeat([3.0, 2.0, 0.1, -2.0], 40) * z))
    result = validate_predictions(y, 1 / (1 + np.exp(-2 * z)), sample_domain=site, threshold=0.2)
    ranges = {"scaled_brier": (-np.inf, 1), "net_benefit": (-0.25, 1), "net_benefit_over_all": (-1, 0.25)}
    ranges |= dict.fromkeys(("auc", "brier", "sensitivity", "specificity", "ppv", "npv"), (0, 1))
    for (_, measure, _), summary in result.summaries.items():
        low, high = ranges.get(measure, (-np.inf, np.inf))
        ends = (*summary.interval, *summary.prediction_interval)
        assert low <= min(ends)
        assert max(ends) <= high
        assert summary.prediction_interval[0] <= summary.interval[0]
        assert summary.interval[1] <= summary.prediction_interval[1]


def test_the_page_and_the_results_text_have_one_interval(result):
    page = result.to_html()
    for (method, _, _), summary in result.summaries.items():
        if method == result.settings.method:
            low, high = (f"{end:.2f}".replace("-", "\u2212") for end in summary.prediction_interval)
            assert f"prediction interval {low} to {high}" in result.results_text()
            assert f">{low} to {high}<" in page


def test_net_benefit_has_the_stated_costs():
    y, p, site = make_rare_events()
    stated = validate_predictions(y, p, sample_domain=site, threshold="sensitivity=0.8", cost="4:1")
    assert stated.odds == 0.25
    record = next(one for one in stated.measure_records if one["measure"] == "net_benefit")
    rows = site == record["site"]
    flagged = p[rows] >= stated.rows[0].threshold
    expected = (np.sum(flagged & y[rows]) - 0.25 * np.sum(flagged & ~y[rows])) / rows.sum()
    assert record["value"] == pytest.approx(expected)
    assert "a missed event counts 4.0 times as much as a false alarm" in str(stated)
    assert "flagging nobody" in str(stated)
    assert "flagging everybody" in str(stated)
    with pytest.raises(ValueError, match="cost='cheap' is not allowed"):
        validate_predictions(y, p, sample_domain=site, cost="cheap")


def test_subgroups_have_the_measures_of_their_rows():
    y, p, site = make_rare_events(n_rows=500)
    sex = np.where(np.arange(len(y)) % 2, "f", "m")
    result = validate_predictions(y, p, sample_domain=site, threshold=0.1, subgroups={"sex": sex})
    own = validate_predictions(y[sex == "f"], p[sex == "f"], sample_domain=site[sex == "f"], threshold=0.1)
    found = [one for one in result.subgroup_records if one["subgroup"] == "f"]
    assert {one["measure"] for one in found} == {measure for _, measure, _ in own.summaries}
    for one in found:
        assert one["estimate"] == own.get_summary(one["measure"]).value
        assert one["events"] == y[sex == "f"].sum()
    assert "By <bdi>sex</bdi>" in result.to_html()
    assert any("Performance by sex" in item["answer"] for item in result.checklist())


def test_names_of_the_event_and_of_rows_are_used():
    y, p, site = make_rare_events()
    result = validate_predictions(y, p, sample_domain=site, event="death", unit="patients")
    assert f"{len(y):,} patients from 6 sites" in str(result)
    assert "how likely death is" in str(result)
    assert ">Patients</th>" in result.to_html()


def test_rare_events_have_calibration_axes_that_fit_and_risks_by_outcome():
    y, p, site = make_rare_events()
    result = validate_predictions(y, p, sample_domain=site)
    pooled = result.curves["pooled"]["risks"]
    assert sum(pooled["events"]) == pytest.approx(1)
    mean = np.average(np.array(pooled["edges"][1:]), weights=pooled["events"])
    assert mean > np.average(np.array(pooled["edges"][1:]), weights=pooled["others"])
    panels = re.findall(r'aria-label="([^"]*) of all sites">(.*?)</figure>', result.to_html(), flags=re.DOTALL)
    assert [name for name, _ in panels] == ["Calibration", "Decision curve", "ROC curve", "Predicted risks"]
    ticks = re.findall(r'y="161">(\d+)<', panels[0][1])
    assert max(map(int, ticks)) < 60
    assert 'class="area"' in panels[1][1]


@pytest.fixture(scope="module")
def frozen_model():
    X, y, site = make_data()
    frame = {f"feature {j}": X[:, j] for j in range(3)} | {"y": y, "site": site}
    return unseen.fit(frame, label="y", domain="site", methods="logistic")


@pytest.fixture(scope="module")
def new_sites():
    X, y, site = make_data(9, sites=("ulm", "wien"), n_rows=60)
    return {f"feature {j}": X[:, j] for j in range(3)} | {"y": y, "site": site}


def test_new_sites_have_the_whole_page(frozen_model, new_sites, tmp_path):
    frozen_model.save(tmp_path / "model.unseen")
    result = unseen.validate(new_sites, model=tmp_path / "model.unseen", positive="ill", event="illness")
    P = frozen_model.predict_proba(new_sites, sample_domain="site")
    is_ulm = new_sites["site"] == "ulm"
    expected = auc(new_sites["y"][is_ulm] == "ill", P[is_ulm, 0])
    assert result.to_frame().loc["ulm", "auc"] == pytest.approx(expected.value)
    assert "applied without change" in str(result)
    assert "validated the frozen model" in result.methods_text()
    page = result.to_html()
    assert all(title in page for title in ("For your colleagues", "Curves", "Summary over sites"))


def test_one_site_has_its_own_intervals_and_no_summary_over_sites(frozen_model, new_sites):
    one = {name: values[:60] for name, values in new_sites.items()}
    result = unseen.validate(one, model=frozen_model, positive="ill", threshold=0.4)
    summary = result.get_summary("auc")
    own = result.estimates["model", "auc", "ill"]["ulm"]
    assert (summary.value, summary.interval) == (own.value, own.interval)
    assert np.isnan(summary.prediction_interval).all()
    assert "tau" not in result.results_text()
    assert "prediction interval" not in result.to_html()
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_threshold_is_not_chosen_on_the_new_sites(frozen_model, new_sites):
    with pytest.raises(ValueError, match="threshold='youden' cannot be chosen for a fitted model"):
        unseen.validate(new_sites, model=frozen_model, threshold="youden")


def test_subgroups_of_a_table_are_levels_and_terciles():
    X, y, site = make_data(n_rows=40)
    sex = np.where(np.arange(len(y)) % 3, "f", "m")
    frame = {"age": X[:, 0], "sex": sex, "y": y, "site": site}
    result = unseen.validate(frame, label="y", domain="site", methods="logistic", compare_with=(), by=["sex", "age"])
    names = {(one["column"], one["subgroup"]) for one in result.subgroup_records}
    assert {("sex", "f"), ("sex", "m")} < names
    assert len(names) == 5
    with pytest.raises(ValueError, match="by='weight' is not a column"):
        unseen.validate(frame, label="y", domain="site", methods="logistic", compare_with=(), by=["weight"])


def test_rows_of_the_same_group_are_noted_and_groups_in_two_sites_are_refused():
    X, y, site = make_data(n_rows=40)
    patient = np.char.add(site, (np.arange(len(y)) // 2).astype(str))
    frame = {"age": X[:, 0], "score": X[:, 1], "patient": patient, "y": y, "site": site}
    options = {"label": "y", "domain": "site", "methods": "logistic", "compare_with": ()}
    result = unseen.validate(frame, group="patient", **options)
    assert "treat them as independent" in str(result)
    frame["patient"] = (np.arange(len(y)) % 40).astype(str)
    del options["compare_with"]
    for verb in (unseen.validate, unseen.fit, unseen.compare):
        with pytest.raises(ValueError, match="40 of 40 groups have rows in several domains"):
            verb(frame, group="patient", **options)


def test_the_size_that_a_model_needs_is_that_of_riley():
    def rows_for(shrinkage, r2, n_parameters):
        return n_parameters / ((shrinkage - 1) * np.log(1 - r2 / shrinkage))

    # The first example of Riley et al. (2020): 30 parameters at R2 0.05 need 5,249 rows for a shrinkage of 0.9.
    assert rows_for(0.9, 0.05, 30) == pytest.approx(5249, abs=1)
    y, p, _ = make_rare_events(n_rows=4000)
    size = development_size(y, p, 10)
    null = y.mean() * np.log(y.mean()) + (1 - y.mean()) * np.log(1 - y.mean())
    loss = -log_loss(y, np.column_stack([1 - p, p]), [False, True]).value
    assert size.r2 == pytest.approx(1 - np.exp(-2 * (loss - null)))
    for n_parameters in (1, 10):
        needed = [(1.959964 / 0.05) ** 2 * y.mean() * (1 - y.mean())]
        needed += [
            rows_for(s, size.r2, n_parameters) for s in (0.9, size.r2 / (size.r2 + 0.05 * (1 - np.exp(2 * null))))
        ]
        assert development_size(y, p, n_parameters).n_rows == pytest.approx(max(needed), rel=1e-6)
    assert development_size(y, np.full(len(y), 0.5), 10) is None
