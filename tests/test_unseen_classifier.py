"""UnseenClassifier compares honestly, pools or picks, and finds what the unseen domain needs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from inspect import signature

import numpy as np
import pytest
import sklearn
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from helpers import three_domains
from unseen import DomainCenterer, UnseenClassifier
from unseen.exceptions import SingleDomainWarning
from unseen.kernels import SizePlan
from unseen.model_selection import METHODS as TABLE
from unseen.model_selection import (
    EvaluationConfig,
    LeaveOneDomainOut,
    LeavePDomainsOut,
    method_names,
)
from unseen.model_selection._candidate import median_width
from unseen.model_selection._methods import MAPPED_RIDGE
from unseen.utils.samples import Samples

pytestmark = pytest.mark.usefixtures("few_trees_in_module")

PLAIN = ["logistic", "linear SVM", "RBF SVM"]
TREES = ["extra trees", "random forest", "gradient boosting"]
NAMES = np.array(["Athens", "Bern", "Cork"])
METHODS = method_names(in_ensemble=True)
CENTERED = [name for name in METHODS if name.startswith("centered")]


def contenders(methods, X, y, d, splits, feature_map=None):
    """What UnseenClassifier compares."""
    model = UnseenClassifier(methods, feature_map=feature_map, transductive=True)
    model.classes_ = np.unique(y)
    config = EvaluationConfig(scoring=model.scoring, balance=model.balance)
    return model._select(
        model._methods(X), Samples(X, y, d), splits, SizePlan.from_rows(len(y)), config
    ).predictions.candidate_results


def pipeline_of(candidate, gamma=None):
    """A candidate as scikit-learn would have it; an rbf SVM has a number for the width of its kernel."""
    steps = [("transformer", candidate.transformer), ("classifier", candidate.classifier)]
    pipeline = clone(Pipeline([step for step in steps if step[1] is not None]))
    return pipeline if gamma is None else pipeline.set_params(classifier__gamma=gamma)


@pytest.fixture(autouse=True, scope="module")
def single_thread():
    """Many tiny problems: threads would only wait for each other."""
    with threadpool_limits(1):
        yield


def noisy(n_domains=3, n_per_cell=7):
    X, y, d = three_domains(n_per_cell=n_per_cell, n_features=3, n_domains=n_domains)
    return X + 1.5 * np.random.default_rng(0).normal(size=X.shape), y, d


@pytest.fixture(scope="module")
def everything(few_trees_in_module):
    """All methods, compared on a small problem."""
    X, y, d = noisy()
    return UnseenClassifier(transductive=True).fit(X, y, sample_domain=NAMES[d])


# What is compared


def test_every_contender_is_on_the_leaderboard_best_first(everything):
    rows = everything.leaderboard_
    found = {row.model.split(" + ")[0] for row in rows if "ensemble" not in row.model}
    assert found == set(METHODS)
    pools = [row for row in rows if "ensemble" in row.model]
    assert [row.is_selected for row in rows] == [row in pools and row.model == everything.best_model_ for row in rows]
    assert sorted(row.reason for row in pools if row.reason) == sorted(everything.decisions_)
    assert sum(row.weight for row in rows if row not in pools) == pytest.approx(1)
    assert len({row.model for row in rows}) == len(rows)
    means = [row.mean for row in rows]
    assert means == sorted(means, reverse=True)
    for row in rows:
        scores = list(row.scores.values())
        assert list(row.scores) == NAMES.tolist()
        assert row.mean == pytest.approx(np.mean(scores))
        assert row.standard_error == pytest.approx(np.std(scores, ddof=1) / np.sqrt(3))
        assert (0 <= row.skewed <= 1) == (row in pools)
        if row in pools:
            continue
        assert row.seconds > 0
        transductive = row.model in CENTERED or "target" in row.model
        is_plain = row.model in (*PLAIN, *TREES)
        assert row.kind == ("transductive" if transductive else "plain" if is_plain else "inductive")


def by_scikit_learn(pipeline, X, y, d, splits):
    """Scores of a contender's pipeline by cross_validate, with the domains where there is a step that wants them."""
    if "sample_domain" not in signature(pipeline[0].fit).parameters:
        return cross_validate(pipeline, X, y, cv=splits)["test_score"]
    with sklearn.config_context(enable_metadata_routing=True):
        return cross_validate(pipeline, X, y, cv=splits, params={"sample_domain": d})["test_score"]


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_those_of_cross_validating_the_contenders_pipeline(everything, method):
    X, y, d = noisy()
    splits = list(LeaveOneDomainOut().split(X, y, d))
    on_board = {row.model: row for row in everything.leaderboard_}
    for contender in contenders([method], X, y, d, splits):
        row = on_board[contender.candidate.variant]
        assert row.params == contender.candidate.params
        assert list(row.scores.values()) == contender.scores.tolist()
        expected = []
        for (train, test), candidate in zip(splits, contender.scored, strict=True):
            gamma = None
            if method.endswith("RBF SVM"):  # its width follows the training data of each fold, as a median does
                centerer = DomainCenterer(renormalize="auto")
                data = centerer.fit_transform(X, sample_domain=d) if method in CENTERED else X
                gamma = median_width(candidate.params["gamma"], data[train])
            expected += by_scikit_learn(pipeline_of(candidate, gamma), X, y, d, [(train, test)]).tolist()
        np.testing.assert_allclose(contender.scores, expected, atol=1e-12)


@pytest.mark.parametrize("n_domains", [3, 4])
def test_settings_that_are_scored_on_a_domain_are_chosen_without_it(n_domains):
    """With four domains or more also by models that were trained without it."""
    X, y, d = noisy(n_domains, n_per_cell=6)
    X += np.random.default_rng(1).normal(size=X.shape)  # so hard that one setting is not the best everywhere
    splits = list(LeaveOneDomainOut().split(X, y, d))
    found = contenders(PLAIN[:2], X, y, d, splits)
    for contender in found:
        candidates = TABLE[contender.candidate.variant].candidates(3, grid="ensemble")
        settings = [one for one in candidates if one.variant == contender.candidate.variant]
        fitted = {}  # by setting and domains without which it is fitted: two held-out domains share a model
        for k, chosen in enumerate(contender.scored):
            means = []
            for one in settings:
                scores = []
                for other in set(range(n_domains)) - {k}:
                    without = frozenset([k, other] if n_domains > 3 else [other])
                    if (one.key, without) not in fitted:
                        train = ~np.isin(d, list(without))
                        fitted[one.key, without] = pipeline_of(one).fit(X[train], y[train])
                    scores.append(fitted[one.key, without].score(X[d == other], y[d == other]))
                means.append(np.mean(scores))
            assert chosen.key == settings[int(np.argmax(means))].key
    assert any(len({candidate.key for candidate in contender.scored}) > 1 for contender in found)


def landmarks(X, frozen=True):
    fitted = Nystroem(gamma=0.05, n_components=20, random_state=0)
    return FrozenEstimator(fitted.fit(X)) if frozen else fitted


@pytest.mark.filterwarnings("ignore:n_components=4, but only 3")  # three features have no fourth
@pytest.mark.parametrize("kind", ["frozen", "fitted in each fold", "linear", "of sparse samples"])
def test_behind_a_feature_map_scores_are_those_of_cross_validating_too(kind):
    X, y, d = noisy()
    samples = sparse.csr_array(X) if "sparse" in kind else X
    feature_map = "linear" if kind == "linear" else landmarks(X, frozen=kind == "frozen")
    methods = [method.name for method in UnseenClassifier(feature_map=feature_map, transductive=True)._methods(samples)]
    assert not any("RBF" in method for method in methods)
    assert (MAPPED_RIDGE in methods) == (kind != "linear")
    if kind != "frozen":  # nothing else depends on it
        methods = [method for method in methods if method in (MAPPED_RIDGE, "CIDG")]
    splits = list(LeaveOneDomainOut().split(X, y, d))
    for contender in contenders(methods, samples, y, d, splits, feature_map):
        parts = zip(splits, contender.scored, strict=True)
        expected = [by_scikit_learn(pipeline_of(one), samples, y, d, [split])[0] for split, one in parts]
        np.testing.assert_allclose(contender.scores, expected, atol=1e-12, err_msg=contender.candidate.variant)


def test_a_frozen_map_is_evaluated_once_in_each_fold_for_all_methods_and_settings():
    X, y, d = noisy()
    rows = []

    def features(samples):
        rows.append(len(samples))
        return np.hstack([samples, samples**2])

    feature_map = FrozenEstimator(FunctionTransformer(features).fit(X))
    splits = list(LeaveOneDomainOut().split(X, y, d))
    found = contenders(["CIDG", "MDA", "SCA", "DICA"], X, y, d, splits, feature_map)
    assert len(found) == 8
    assert sum(rows) == len(splits) * (len(X) + 2)  # one row tells how many features there are, of either part


def test_of_a_choice_of_its_own_it_does_not_warn(monkeypatch):
    """Warnings are errors here, and three features have no fourth component."""
    X, y, d = noisy()
    monkeypatch.setitem(TABLE, "SCA", replace(TABLE["SCA"], component_multiples=(2,)))
    model = UnseenClassifier(["sca"], feature_map="linear").fit(X, y, sample_domain=d)
    assert {member[0].n_components for member in model.best_estimator_.members_} == {4}
    assert {len(member[0].eigenvalues_) for member in model.best_estimator_.members_} == {3}


@pytest.mark.parametrize("heads", [["2-NN"], []])
def test_heads_are_those_that_there_are(heads):
    X, y, d = noisy()
    with pytest.raises(ValueError, match="heads must be among 1-NN, logistic; got"):
        UnseenClassifier(["dica"], heads=heads).fit(X, y, sample_domain=d)


@pytest.mark.parametrize(
    ("method", "pool", "alike"),
    [
        ("CIDG", True, 0.99),
        pytest.param("CIDG", False, 0.99, marks=pytest.mark.slow),
        ("RBF SVM", False, 0.9),
        ("centered RBF SVM", False, 0.9),
    ],
)
def test_above_a_size_it_goes_by_the_plan_and_says_so(method, pool, alike, monkeypatch, capsys):
    """With every sample a landmark a projection is the exact one; an SVM has another loss behind landmarks."""
    X, y, d = noisy(n_per_cell=15)
    exact = UnseenClassifier([method], transductive=True, ensemble=pool).fit(X, y, sample_domain=NAMES[d])
    for name, rows in {"EXACT_ROWS": len(X) - 1, "CHOICE_ROWS": len(X), "TRACE_TOLERANCE": None}.items():
        monkeypatch.setattr(f"unseen.kernels._nystroem.{name}", rows)
    large = UnseenClassifier([method], transductive=True, ensemble=pool, verbose=1).fit(X, y, sample_domain=NAMES[d])
    assert (
        "135 rows: models that predict held-out domains are fitted to 135 rows with kernels" in capsys.readouterr().err
    )
    assert large.best_model_ == exact.best_model_
    assert np.mean(large.predict(X, sample_domain=NAMES[d]) == exact.predict(X, sample_domain=NAMES[d])) > alike
    monkeypatch.setattr("unseen.kernels._nystroem.CHOICE_ROWS", 60)
    assert (
        UnseenClassifier([method], transductive=True, ensemble=pool).fit(X, y, sample_domain=NAMES[d]).best_score_
        != exact.best_score_
    )
    chosen_on_all = UnseenClassifier([method], transductive=True, ensemble=pool, cv=LeaveOneDomainOut()).fit(
        X, y, sample_domain=NAMES[d]
    )
    assert chosen_on_all.best_score_ == exact.best_score_


def test_a_mapped_classifier_can_be_chosen_and_predicts_as_it_was_scored():
    X, y, d = noisy()
    model = UnseenClassifier([MAPPED_RIDGE], ensemble=False, feature_map=landmarks(X, frozen=False)).fit(
        X, y, sample_domain=d
    )
    by_hand = make_pipeline(landmarks(X, frozen=False), RidgeClassifier(**model.leaderboard_[0].params)).fit(X, y)
    assert model.best_kind_ == "plain"
    # Calibration may change labels, but not the decision scores.
    np.testing.assert_allclose(model.best_estimator_.member_scores(X)[0], by_hand.decision_function(X))


@pytest.mark.parametrize("feature_map", [None, "linear"])
def test_a_mapped_classifier_needs_a_map(feature_map):
    X, y, d = noisy()
    with pytest.raises(ValueError, match=r"'mapped ridge', which needs a transformer as feature_map; got"):
        UnseenClassifier([MAPPED_RIDGE], feature_map=feature_map).fit(X, y, sample_domain=d)


@pytest.mark.parametrize("method", [*PLAIN, "centered RBF SVM", "cidg"])
def test_the_refit_is_the_pipeline_built_by_hand(method):
    X, y, d = noisy()
    splits = list(LeaveOneDomainOut().split(X, y, d))
    model = UnseenClassifier(methods=[method], transductive=True, ensemble=False).fit(X, y, sample_domain=d)
    (chosen,) = (c for c in contenders([method], X, y, d, splits) if c.candidate.variant == model.best_model_)
    Z, steps = X, pipeline_of(chosen.candidate)
    for step in steps[:-1]:
        Z = step.fit(X, y, sample_domain=d).transform(X, sample_domain=d)
    if method.endswith("RBF SVM"):
        steps.set_params(classifier__gamma=median_width(chosen.candidate.settings["gamma"], Z))
    by_hand = steps[-1].fit(Z, y)
    (member,) = model.best_estimator_.members_
    assert isinstance(member, Pipeline)
    assert model.best_estimator_.weights.tolist() == [1]
    np.testing.assert_array_equal(model.predict(X, sample_domain=d), by_hand.predict(Z))
    assert model.score(X, y, sample_domain=d) == by_hand.score(Z, y)


# How it predicts


def test_a_pool_is_the_weighted_mean_of_what_its_members_say():
    X, y, d = noisy(n_domains=4)
    model = UnseenClassifier(["logistic", "linear SVM", "cidg"]).fit(X, y, sample_domain=d)
    pool, expected = model.best_estimator_, 0.0
    assert len(pool.members_) == len(model.members_) > 1
    for member, weight, beta in zip(pool.members_, pool.weights, pool.inverse_temperatures, strict=True):
        Z = member[0].transform(X) if len(member) > 1 else X
        expected = expected + weight * softmax(beta * member[-1].decision_function(Z), axis=1)
    expected = expected**pool.inverse_temperature
    if pool.calibration_offsets is not None:
        expected *= np.exp(pool.calibration_offsets)
    np.testing.assert_allclose(model.predict_proba(X), expected / expected.sum(axis=1, keepdims=True), atol=1e-9)
    again = clone(pool).fit(X, y, sample_domain=d)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-9)


def test_sets_hold_the_likeliest_class_and_grow_with_what_is_asked():
    X, y, d = noisy(n_domains=4)
    model = UnseenClassifier(["logistic", "cidg"]).fit(X, y, sample_domain=d)
    few, many = (model.predict_set(X, coverage, sample_domain=d) for coverage in (0.3, 0.8))
    labels = model.predict(X, sample_domain=d)
    assert [one[0] for one in few] == labels.tolist()
    assert all(set(one) <= set(more) for one, more in zip(few, many, strict=True))
    assert sum(map(len, many)) > sum(map(len, few))
    with pytest.raises(ValueError, match="4 held-out domains: at most"):
        model.predict_set(X, 0.81, sample_domain=d)


def test_sparse_samples_are_compared_without_the_centered_methods():
    X, y, d = noisy()
    model = UnseenClassifier(["logistic", "linear SVM", "RBF SVM", "dica"]).fit(X, y, sample_domain=d)
    thin = UnseenClassifier(model.methods).fit(sparse.csr_array(X), y, sample_domain=d)
    for row, other in zip(model.leaderboard_, thin.leaderboard_, strict=True):
        assert row.model == other.model
        assert row.scores == pytest.approx(other.scores)
    np.testing.assert_array_equal(model.predict(X), thin.predict(sparse.csr_array(X)))
    auto = {method.name for method in UnseenClassifier(transductive=True)._methods(sparse.csr_array(X))}
    assert set(METHODS) - auto == {*CENTERED, "gradient boosting"}  # which takes no sparse samples


# How it fits in


def test_held_out_parts_of_several_domains_are_numbered():
    X, y, d = noisy(n_domains=4)
    model = UnseenClassifier(["logistic"], cv=LeavePDomainsOut(2)).fit(X, y, sample_domain=d)
    assert list(model.leaderboard_[0].scores) == [f"split {k}" for k in range(6)]


def test_two_domains_are_warned_about_once():
    X, y, d = noisy(n_domains=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        UnseenClassifier(["logistic", "cidg", "centered logistic"], transductive=True).fit(X, y, sample_domain=d)
    caught = [warning for warning in caught if issubclass(warning.category, SingleDomainWarning)]
    assert [(warning.category, warning.filename) for warning in caught] == [(SingleDomainWarning, __file__)]
    assert "UnseenClassifier has folds whose training data come from a single domain" in str(caught[0].message)


def test_progress_is_shown_only_when_asked_for(capsys, monkeypatch):
    monkeypatch.setattr("unseen.utils.jobs.LOG_INTERVAL_SECONDS", 0)  # short jobs print nothing
    X, y, d = noisy()
    UnseenClassifier(["logistic", "linear SVM"]).fit(X, y, sample_domain=d)
    assert capsys.readouterr().err == ""
    UnseenClassifier(["logistic", "linear SVM"], verbose=1).fit(X, y, sample_domain=d)
    assert "UnseenClassifier: 6/6 done" in capsys.readouterr().err
