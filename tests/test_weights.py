"""Samples that weigh more than others, classes and domains that weigh alike, and samples that belong together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer, recall_score
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers import fit_model, three_domains
from unseen import KFDA, ProjectionSearchCV, UndoBias, UnseenClassifier
from unseen.evaluation import Protocol, make_tasks
from unseen.model_selection import (
    METHODS,
    EvaluationConfig,
    HeldOutDomains,
    LeaveOneDomainOut,
    WithinDomainSplit,
    evaluate_candidates,
    tabulate_candidates,
)
from unseen.tables import table_from_arrays
from unseen.utils.samples import Samples

pytestmark = pytest.mark.usefixtures("few_trees")


def uneven(seed=0):
    """Four domains of unequal sizes, in which one of three classes is rare; overlapping, so that weights matter."""
    X, y, d = three_domains(n_per_cell=12, n_domains=4, seed=seed)
    kept = np.random.default_rng(seed).uniform(size=len(y)) < np.where(y == 2, 0.35, 1.0) * np.where(d == 1, 0.5, 1.0)
    return 0.3 * X[kept], y[kept], d[kept]


def copies(seed=0):
    X, y, d = uneven(seed)
    return X, y, d, np.random.default_rng(1).integers(1, 4, len(y))


def said_of(method, samples, splits, **how):
    """What the first settings of a method say of the held-out parts, in the order of the splits."""
    candidates = [next(METHODS[method].candidates(len(samples.classes)))]
    return sorted(
        evaluate_candidates(candidates, samples, splits, EvaluationConfig(**how)),
        key=lambda prediction: prediction.split,
    )


# Weights of samples


def test_whole_weights_are_repeated_rows():
    X, y, d, n = copies()
    weighted = UnseenClassifier(["logistic"]).fit(X, y, sample_domain=d, sample_weight=n)
    repeated = UnseenClassifier(["logistic"]).fit(X.repeat(n, 0), y.repeat(n), sample_domain=d.repeat(n))
    assert weighted.leaderboard_[0].scores == pytest.approx(repeated.leaderboard_[0].scores)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-3)
    assert weighted.score(X, y, sample_weight=n) == pytest.approx(repeated.score(X.repeat(n, 0), y.repeat(n)))
    alike = UnseenClassifier(["logistic"]).fit(X, y, sample_domain=d)
    assert np.abs(weighted.predict_proba(X) - alike.predict_proba(X)).max() > 1e-2  # or it would say little


@pytest.mark.parametrize("routing", [False, True])
def test_the_head_is_weighted_and_the_projection_is_not(routing):
    X, y, d, n = copies()
    head = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10))
    with sklearn.config_context(enable_metadata_routing=routing):
        search = ProjectionSearchCV(KFDA(), {"ridge": ["scale"]}, classifier=head)
        search.fit(X, y, sample_domain=d, sample_weight=n)
    Z = KFDA(ridge="scale").fit_transform(X, y, sample_domain=d)
    np.testing.assert_allclose(search.transform(X), Z)
    head.fit(Z.repeat(n, 0), y.repeat(n))
    np.testing.assert_allclose(search.predict_proba(X), head.predict_proba(Z), atol=1e-7)


def test_undo_bias_takes_weights_for_repeated_rows():
    X, y, d, n = copies()
    exactly = {"tol": 1e-9, "shared_cost": 0.01, "domain_cost": 0.02}
    weighted = UndoBias(**exactly).fit(X, y, sample_domain=d, sample_weight=n)
    repeated = UndoBias(**exactly).fit(X.repeat(n, 0), y.repeat(n), sample_domain=d.repeat(n))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)
    absent = UndoBias(**exactly).fit(X, y, sample_domain=d, sample_weight=(d != 3).astype(float))
    left_out = UndoBias(**exactly).fit(X[d != 3], y[d != 3], sample_domain=d[d != 3])
    np.testing.assert_allclose(absent.decision_function(X), left_out.decision_function(X), atol=1e-5)


def right(y, predicted):
    return np.mean(y == predicted)


def right_by_weight(y, predicted, sample_weight=None):
    return np.average(y == predicted, weights=sample_weight)


@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro", "roc_auc", "neg_log_loss", make_scorer(right_by_weight)])
def test_validation_scores_are_weighted(scoring):
    X, y, d, n = copies()
    splits = list(LeaveOneDomainOut().split(X, y, d))
    samples = Samples(X, y, d, weight=n.astype(float))
    table = tabulate_candidates(
        [next(METHODS["logistic"].candidates(3))], samples, splits, EvaluationConfig(scoring=scoring)
    )
    for score, (train, test) in zip(table["scores"][0], splits, strict=True):
        model = UnseenClassifier(["logistic"], scoring=scoring)
        model.best_estimator_ = next(METHODS["logistic"].candidates(3)).fit(X[train], y[train], d[train], n[train])
        model.n_features_in_ = X.shape[1]
        rows = test.repeat(n[test])
        assert score == pytest.approx(model.score(X[rows], y[rows]))


def test_a_metric_without_weights_is_asked_without_them():
    X, y, d, n = copies()
    model = UnseenClassifier(["logistic"], scoring=make_scorer(right))
    assert np.isfinite(model.fit(X, y, sample_domain=d, sample_weight=n).best_score_)


# Classes, or domains, that weigh alike


@pytest.mark.parametrize("balance", ["classes", "domains"])
def test_each_training_set_is_balanced_by_itself(balance):
    X, y, d = uneven()
    samples, splits = Samples(X, y, d), list(LeaveOneDomainOut().split(X, y, d))
    said = said_of("logistic", samples, splits, balance=balance, scoring="neg_log_loss")
    classifier = next(METHODS["logistic"].candidates(3)).classifier
    for prediction, (train, test) in zip(said, splits, strict=True):
        labels = (y if balance == "classes" else d)[train]
        weight = np.array([len(train) / (len(set(labels)) * np.sum(labels == label)) for label in labels])
        model = sklearn.clone(classifier).fit(X[train], y[train], sample_weight=weight)
        np.testing.assert_allclose(prediction.responses["predict_proba"], model.predict_proba(X[test]))


@pytest.mark.parametrize("kind", ["arrays", "table"])
def test_balanced_classes_are_those_of_scikit_learn(kind):
    X, y, d = uneven()
    if kind == "arrays":
        fit = UnseenClassifier(["logistic"], ensemble=False, balance="classes").fit(X, y, sample_domain=d)
        pipeline = fit.best_estimator_.members_[0]
    else:
        table = table_from_arrays(X, y.astype(str), d.astype(str))
        pipeline = fit_model(table, "logistic", scale="none", balance="classes").estimator.ensemble.members_[0]
    expected = sklearn.clone(pipeline[-1]).set_params(class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(pipeline[-1].coef_, expected.coef_, atol=1e-3)
    assert np.abs(sklearn.clone(pipeline[-1]).fit(X, y).coef_ - expected.coef_).max() > 1e-2


# Probabilities of models that were trained with balanced classes

PREVALENCE = 0.08


def rare(n_domains=20, n_rows=200, seed=0):
    """Domains that differ a little, in which one class is rare; it has the code 1."""
    rng = np.random.default_rng(seed)
    y = np.tile((np.arange(n_rows) < PREVALENCE * n_rows).astype(int), n_domains)
    d = np.repeat(np.arange(n_domains), n_rows)
    X = rng.normal(size=(len(y), 3)) + 1.5 * np.outer(y, [1, 1, 0]) + 0.2 * rng.normal(size=(n_domains, 3))[d]
    return X, y, d


@pytest.mark.parametrize(
    "methods",
    [pytest.param(["logistic"], marks=pytest.mark.slow), ["linear SVM"], ["logistic", "RBF SVM"]],
    ids=", ".join,
)
def test_with_balanced_classes_probabilities_refer_to_the_natural_frequencies(methods):
    X, y, d = rare()
    known = d < 5
    how = {"methods": methods, "transductive": False}
    fitted = {
        balance: UnseenClassifier(**how, balance=balance).fit(X[known], y[known], sample_domain=d[known])
        for balance in ("none", "classes")
    }
    P = {balance: model.predict_proba(X[~known]) for balance, model in fitted.items()}
    assert abs(P["classes"][:, 1].mean() - PREVALENCE) < 0.02
    losses = {balance: log_loss(y[~known], P[balance]) for balance in P}
    assert losses["classes"] < losses["none"] + 0.01
    told = fitted["classes"].calibration_["after"]
    assert told["ece"] < 0.05
    assert abs(told["log_loss"] - losses["classes"]) < 0.05
    recall = {balance: recall_score(y[~known], model.predict(X[~known])) for balance, model in fitted.items()}
    assert recall["classes"] > 0.75 > 0.6 > recall["none"]  # labels keep the balance


def test_labels_and_sets_of_balanced_classes_are_those_of_equal_frequencies():
    X, y, d = rare()
    known = d < 5
    model = UnseenClassifier(["logistic"], balance="classes").fit(X[known], y[known], sample_domain=d[known])
    P, labels = model.predict_proba(X[~known]), model.predict(X[~known])
    np.testing.assert_array_equal(labels, (P / [1 - PREVALENCE, PREVALENCE]).argmax(axis=1))
    sets = model.predict_set(X[~known], 0.8)
    assert [own[0] for own in sets] == labels.tolist()
    assert np.mean([truth in own for truth, own in zip(y[~known], sets, strict=True)]) > 0.75


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.booleans())
def test_the_ratio_of_class_frequencies_turns_balanced_weights_into_those_given(labels, weighted):
    y = np.array(labels)
    weight = 1.0 + np.arange(len(y)) % 3 if weighted else None
    samples = Samples(np.zeros((len(y), 1)), y, np.zeros(len(y)), classes=np.arange(3), weight=weight)
    ratio = samples.prior_ratio(balance="classes")
    given_weights = np.ones(len(y)) if weight is None else weight
    np.testing.assert_allclose(samples.weights(balance="classes") * ratio[samples.codes], given_weights)
    assert (ratio > 0).all()
    assert samples.prior_ratio(balance="none") is samples.prior_ratio(balance="domains") is None


# Samples that belong together


def visits(seed=0):
    """Domains of ten patients with one to six visits; most visits of a patient have one class."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(30), rng.integers(1, 7, 30))
    d = patient // 10
    y = np.where(rng.uniform(size=len(patient)) < 0.2, rng.integers(0, 2, len(patient)), patient % 2)
    return rng.normal(size=(len(y), 2)) + y[:, None], y, d, np.array([f"p{i}" for i in patient])


@pytest.mark.parametrize("stratify", [True, False])
@pytest.mark.parametrize("train_size", [0.3, 0.7])
def test_groups_are_never_parted_and_shares_are_nearly_kept(train_size, stratify):
    X, y, d, patient = visits()
    splitter = WithinDomainSplit(train_size, n_splits=10, stratify=stratify, random_state=0)
    for train, test in splitter.split(X, y, groups=patient, sample_domain=d):
        assert not set(patient[train]) & set(patient[test])
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
        for domain in range(3):
            share = np.mean(np.isin(np.flatnonzero(d == domain), train))
            # Half of a patient's visits is missed in each stratum, at most.
            assert abs(share - train_size) <= 2 * 3 / np.sum(d == domain) + 0.02


@pytest.mark.parametrize("cut", [LeaveOneDomainOut(), HeldOutDomains([0])], ids=["each", "one"])
def test_a_group_in_two_domains_is_told_by_its_name_and_theirs(cut):
    X, y, d, patient = visits()
    patient[[0, -1]] = "all"
    with pytest.raises(ValueError, match=r"group 'all' has samples on both sides, of the domains 0, 2\. Remove"):
        list(cut.split(X, y, groups=patient, sample_domain=d))
    train, test = next(WithinDomainSplit(random_state=0).split(X, y, groups=patient, sample_domain=d))
    assert not set(patient[train]) & set(patient[test])


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("search", [UnseenClassifier(["logistic"]), ProjectionSearchCV(KFDA(), {"ridge": ["scale"]})])
def test_no_search_parts_a_group(search, routing):
    X, y, d, patient = visits()
    known = {"sample_domain": d, "groups": patient}
    with sklearn.config_context(enable_metadata_routing=routing):
        for cv in (None, WithinDomainSplit(n_splits=2, random_state=0), GroupKFold(3)):
            sklearn.clone(search).set_params(cv=cv).fit(X, y, **known)
            sklearn.clone(search).set_params(cv=cv).fit(X, y, sample_domain=d, groups=d)  # says nothing new
        with pytest.raises(
            ValueError,
            match=r"of the cv of .* samples of the same group: group 'p\d+' .* Use WithinDomainSplit",
        ):
            sklearn.clone(search).set_params(cv=3).fit(X, y, **known)
        with pytest.raises(ValueError, match="groups must hold one label per sample; got 2 labels"):
            sklearn.clone(search).fit(X, y, sample_domain=d, groups=[1, 2])


@pytest.mark.parametrize("repeat", [0, 1])
@pytest.mark.parametrize("selection", ["within", "domain"])
def test_a_study_draws_and_validates_by_whole_groups(selection, repeat):
    X, y, d, patient = visits()
    site = np.array(["north", "south", "west"])[d]
    samples, protocol = Samples(X, y, site, group=patient), Protocol.paper(selection=selection)
    for task in make_tasks(["north", "south", "west"]):
        train, test = protocol.draw_rows(samples, task, repeat)
        left = np.setdiff1d(np.arange(len(y)), np.concatenate([train, test]))
        assert 0 < len(left) < len(train)
        for one, other in [
            (train, left),
            (train, test),
            *protocol.validation_splits(samples, task, train, test, repeat),
        ]:
            assert not set(patient[one]) & set(patient[other])
    alone, _ = protocol.draw_rows(replace(samples, group=None), task, repeat)
    left = np.setdiff1d(np.flatnonzero(np.isin(site, task.sources)), alone)
    assert set(patient[alone]) & set(patient[left])  # without being told, it parts them
    patient[[0, -1]] = "all"
    with pytest.raises(ValueError, match=r"The task south,west -> north trains and tests .* group 'all' .* Remove"):
        protocol.draw_rows(samples, make_tasks(["north", "south", "west"])[0], repeat)
