"""Curves, validations and plans where a domain, an interval or a comparison is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import unseen
from unseen import site_learning_curve
from unseen.evaluation import validate_predictions
from unseen.evaluation._site_curve import EXPONENTS, PowerLaw, make_curve
from unseen.exceptions import DataWarning
from unseen.model_selection import AdaptationPlan, get_metric
from unseen.tables import Column, Schema

SCHEMA = Schema((Column("age", "numeric"), Column("sex", "categorical", ("f", "m")), Column("new", "categorical", ())))

# Learning curves


def test_two_sizes_do_not_determine_an_exponent():
    law = PowerLaw(np.array([1.0, 2.0]), np.array([[0.6, 0.7], [0.5, 0.65]]))
    assert law.plausible_exponents[1:] == EXPONENTS.tolist()
    gain = law.gain(2, 4)
    for exponent in (EXPONENTS[0], EXPONENTS[-1]):
        mean = (law.fit(exponent)[0] * (2**-exponent - 4**-exponent)).mean()
        assert gain.lower < mean < gain.upper


def test_one_domain_has_a_gain_without_an_interval_and_none_has_no_gain():
    sizes = np.array([1.0, 2.0, 4.0])
    gain = PowerLaw(sizes, np.array([[0.5, 0.6, 0.65], [0.5, np.nan, np.nan]])).gain(4, 8)
    assert gain.gain > 0
    assert math.isnan(gain.lower)
    assert math.isnan(gain.upper)
    assert math.isnan(PowerLaw(sizes, np.full((2, 3), np.nan)).gain(4, 8).gain)


def make_small_curve(by_set=None):
    """Four domains: one, two and three of them train, and the rows of three are halved."""
    sizes = np.concatenate([np.repeat([1.0, 2, 3], 4), np.full(4, 0.5)])
    scores = np.full((16, 4), np.nan)
    for i, size in enumerate(sizes):
        scores[i, i % 4] = 0.8 - 0.2 / max(size, 1) + 0.01 * (i % 4)
    return make_curve(
        tuple("abcd"), get_metric("accuracy"), ("logistic",), sizes, scores if by_set is None else by_set, 12
    )


def test_a_curve_is_extrapolated_forward_only():
    curve = make_small_curve()
    with pytest.raises(ValueError, match="n_domains must be at least 3; got 2"):
        curve.predict(2)
    assert curve.predict(3).mean == pytest.approx(curve.points[-1].mean)
    assert repr(curve) == "<SiteLearningCurve: 4 domains, accuracy>"


def test_the_frame_of_a_curve_has_the_points_and_the_extrapolation():
    pytest.importorskip("pandas")
    curve = make_small_curve()
    frame = curve.to_frame()
    assert frame["n_domains"][~frame["extrapolated"]].tolist() == [1, 2, 3]
    assert frame["mean"][frame["extrapolated"]].tolist() == [point["mean"] for point in curve.to_dict()["extrapolated"]]


def test_a_size_at_which_one_domain_has_a_score_is_not_a_point():
    whole = make_small_curve()
    scores = np.full((16, 4), np.nan)
    for i in range(16):
        scores[i, i % 4] = 0.7
    scores[1:4] = np.nan  # a single score for one training domain
    assert [point.n_domains for point in make_small_curve(scores).points] == [2, 3]
    assert [point.n_domains for point in whole.points] == [1, 2, 3]
    scores[8:12] = np.nan
    with pytest.raises(ValueError, match=r"accuracy is not defined on enough domains .* Use another metric"):
        make_small_curve(scores)


def test_a_metric_that_is_undefined_on_all_domains_gives_no_curve():
    X = np.random.default_rng(0).normal(size=(80, 2))
    site = np.repeat(np.arange(4), 20)
    with pytest.raises(ValueError, match="not defined on enough domains"):
        site_learning_curve(X, site % 2, sample_domain=site, methods=["logistic"], metric="roc_auc")


# Validation

SITES = np.repeat(["bonn", "kiel", "oslo", "trier"], 60)


def predictions(seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    truth = rng.random(len(SITES))
    y = (rng.random(len(SITES)) < truth).astype(int)
    weak = np.clip(0.5 + (truth - 0.5) / 4 + noise * rng.normal(0, 0.3, len(SITES)), 0.01, 0.99)
    return y, truth, weak


def test_a_better_method_is_named_in_the_advice():
    y, strong, weak = predictions()
    found = validate_predictions(y, {"mine": weak, "other": strong}, sample_domain=SITES, threshold="cost=5:1")
    text = str(found)
    assert "Use other. It is clearly better than mine: log loss" in text
    assert "a missed event costs 5 and a false alarm 1" in text
    reverse = str(validate_predictions(y, {"other": strong, "mine": weak}, sample_domain=SITES, threshold="youden"))
    assert "Use other. No alternative has a lower log loss: " in reverse
    assert "the threshold with the largest sum of sensitivity and specificity" in reverse


def test_probabilities_of_the_event_are_those_of_its_column():
    y, strong, _ = predictions()
    columns = np.column_stack([1 - strong, strong])
    for positive in (0, 1):
        one = validate_predictions(y, columns[:, positive], sample_domain=SITES, positive=positive)
        two = validate_predictions(y, columns, sample_domain=SITES, positive=positive)
        assert one.get_summary("auc").value == two.get_summary("auc").value > 0.7
    with pytest.raises(ValueError, match=r"probabilities has shape \(240, 3\), but there are 240 rows and 2 classes"):
        validate_predictions(y, np.full((240, 3), 1 / 3), sample_domain=SITES)
    with pytest.raises(ValueError, match="y has the class 1 only"):
        validate_predictions(np.ones(240, dtype=int), strong, sample_domain=SITES)
    with pytest.raises(KeyError, match="There is no measure 'luck'"):
        one.get_summary("luck")


class Failing(ClassifierMixin, BaseEstimator):
    """A classifier whose solver always fails."""

    def fit(self, X, y):
        raise ValueError("no solver today")

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.filterwarnings("ignore::unseen.exceptions.DataWarning")
def test_a_model_that_cannot_be_fitted_is_an_error_and_one_beside_it_a_warning():
    y, strong, _ = predictions()
    X = np.column_stack([strong, np.random.default_rng(1).normal(size=len(y))])
    with pytest.raises(ValueError, match=r"'mine' could not be fitted without any of the 4 domains.*no solver today"):
        unseen.validate(X, y, sample_domain=SITES, methods=("mine", Failing()), compare_with=(), positive=1)
    with pytest.warns(DataWarning, match="Failing could not be fitted without bonn: .*no solver today"):
        found = unseen.validate(
            X,
            y,
            sample_domain=SITES,
            methods=("model", LogisticRegression()),
            compare_with=(Failing(),),
            positive=1,
        )
    assert found.methods == ["model", "Failing"]
    [record] = found.comparison_records
    assert record["n_sites"] == 0
    assert math.isnan(record["difference"])
    assert "Use model." in str(found)


# Adaptation


def make_plan(log_loss):
    """A plan of four domains with these gains in log loss by number of labels, without a loss of accuracy."""
    gains = {}
    for n, values in log_loss.items():
        by_domain = np.array(values)[:, None]
        gains[n] = {"log_loss": by_domain, "accuracy": np.where(np.isnan(by_domain), np.nan, 0.01)}
    return AdaptationPlan(tuple("abcd"), gains)


def test_the_gain_between_numbers_of_labels_is_that_of_the_smaller():
    nan = np.nan
    plan = make_plan({10: [0.1, 0.2, nan, nan], 40: [nan, nan, 0.4, 0.5]})
    assert plan.gain(20) == plan.gain(10)
    assert plan.gain(40).mean == pytest.approx(0.45)


def test_a_plan_states_where_adaptation_was_not_simulated_does_not_help_or_helps_no_longer():
    nan = np.nan
    unknown, features = make_plan({10: [0.1, nan, nan, nan]}).sentences()
    assert "too few, to simulate adaptation" in unknown
    useful, no_longer, last = make_plan({10: [0.1] * 4, 40: [-0.1] * 4}).sentences()
    assert useful == "10 labels: class offsets and temperature."
    assert no_longer == "40 labels: the model as it is."
    assert last == features
