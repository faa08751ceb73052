"""MarginalTransferClassifier is a kernel machine on pairs of a distribution and a sample."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import textbook_marginal_transfer as textbook
from helpers import three_domains
from unseen import MarginalTransferClassifier
from unseen.exceptions import SingleDomainWarning, SmallBatchError

X, Y, D = three_domains(n_per_cell=5)
WIDTHS = {"gamma": 0.05, "embedding_gamma": 0.2}
EXACT = {**WIDTHS, "domain_gamma": 2.0, "tol": 1e-12, "max_iter": 10_000}
S = 0.5  # domain_gamma is 1 / (2 s^2)


def textbook_gram(X, d, Z, e):
    return textbook.kernel_of_pairs(X, d, Z, e, **WIDTHS, s=S)


@pytest.mark.parametrize("balance", ["domains", "none"])
def test_decisions_on_two_classes_are_those_of_the_textbook(balance):
    C = 3.0
    rows = np.flatnonzero(Y < 2)[:-4]  # domains of different sizes
    train, new = rows[D[rows] != 1], rows[D[rows] == 1]
    model = MarginalTransferClassifier(C=C, balance=balance, **EXACT)
    model.fit(X[train], Y[train], sample_domain=D[train])
    weights = textbook.domain_loss_weights(D[train]) if balance == "domains" else np.full(len(train), 1 / len(train))
    K = textbook_gram(X[train], D[train], X[train], D[train])
    a, b = textbook.binary_logistic(K, 2 * Y[train] - 1, weights, penalty=1 / (2 * C * len(train)))
    known = model.decision_function(X[train], sample_domain=D[train])
    np.testing.assert_allclose(known, K @ a + b, rtol=1e-8, atol=1e-8)
    K_new = textbook_gram(X[new], D[new], X[train], D[train])
    np.testing.assert_allclose(model.decision_function(X[new]), K_new @ a + b, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(X[new])[:, 1], 1 / (1 + np.exp(-K_new @ a - b)), rtol=1e-8)


def test_with_three_classes_the_gradient_of_the_objective_vanishes():
    model = MarginalTransferClassifier(C=2.0, **EXACT).fit(X, Y, sample_domain=D)
    K = textbook_gram(X, D, X, D)
    penalty = 1 / (2 * 2.0 * len(X))
    weights = textbook.domain_loss_weights(D)
    gradients = textbook.softmax_gradient(K, Y, weights, penalty, model.dual_coef_, model.intercept_)
    start = textbook.softmax_gradient(K, Y, weights, penalty, 0 * model.dual_coef_, 0 * model.intercept_)
    assert max(np.abs(part).max() for part in gradients) < 1e-8 * np.abs(start[0]).max()
    scores = K @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.decision_function(X, sample_domain=D), scores, rtol=1e-8, atol=1e-8)


def test_distances_between_domains_are_those_of_the_textbook_and_give_the_median_rule():
    model = MarginalTransferClassifier(embedding_gamma=0.2).fit(X, Y, sample_domain=D)
    expected = [[textbook.embedding_distance(X[p == D], X[q == D], 0.2) for q in range(3)] for p in range(3)]
    np.testing.assert_allclose(model.domain_distances_, expected, rtol=1e-8, atol=1e-14)
    assert model.domain_gamma_ == pytest.approx(1 / np.median(np.array(expected)[[0, 0, 1], [1, 2, 2]]))
    wide = MarginalTransferClassifier(embedding_gamma=0.2, domain_gamma="0.5*median").fit(X, Y, sample_domain=D)
    assert wide.domain_gamma_ == pytest.approx(0.5 * model.domain_gamma_)


def test_a_wide_embedding_kernel_compares_means():
    """|m(P) - m(Q)|^2 / (2 gamma) tends to the squared distance of the means; the digits of the difference remain."""
    model = MarginalTransferClassifier(embedding_gamma=1e-9, domain_gamma=0.0).fit(X, Y, sample_domain=D)
    means = np.stack([X[p == D].mean(axis=0) for p in range(3)])
    expected = np.square(means[:, None] - means).sum(axis=2)
    np.testing.assert_allclose(model.domain_distances_ / 2e-9, expected, rtol=1e-5)


def plain_machine(X, y, weight, Z, C=1.0):
    """Kernel logistic regression: a linear one on a square root of the Gram matrix."""
    K = rbf_kernel(X, gamma=WIDTHS["gamma"])
    values, vectors = np.linalg.eigh(K)
    head = LogisticRegression(C=C, solver="newton-cg", tol=1e-12, max_iter=10_000)
    head.fit(vectors * np.sqrt(values), y, sample_weight=weight)
    return head.predict_proba(rbf_kernel(Z, X, gamma=WIDTHS["gamma"]) @ (vectors / np.sqrt(values)))


def test_very_wide_domain_kernels_give_the_plain_kernel_machine():
    plain = plain_machine(X, Y, None, X + 1)  # the domains have equal sizes
    for domain_gamma in (0.0, 1e-12):
        model = MarginalTransferClassifier(**{**EXACT, "domain_gamma": domain_gamma}).fit(X, Y, sample_domain=D)
        np.testing.assert_allclose(model.predict_proba(X + 1), plain, rtol=1e-7, atol=1e-9)


def test_one_domain_gives_the_plain_kernel_machine():
    with pytest.warns(SingleDomainWarning):
        model = MarginalTransferClassifier(**{**EXACT, "domain_gamma": "median"}).fit(X, Y)
    assert model.domain_gamma_ == 0
    np.testing.assert_allclose(model.predict_proba(X + 1), plain_machine(X, Y, None, X + 1), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X[:1]), plain_machine(X, Y, None, X[:1]), rtol=1e-7, atol=1e-9)


def test_weights_are_numbers_of_copies():
    weight = np.random.default_rng(0).integers(0, 3, size=len(X))
    weighted = MarginalTransferClassifier(**EXACT).fit(X, Y, sample_domain=D, sample_weight=weight)
    rows = np.repeat(np.arange(len(X)), weight)
    copied = MarginalTransferClassifier(**EXACT).fit(X[rows], Y[rows], sample_domain=D[rows])
    np.testing.assert_allclose(weighted.domain_distances_, copied.domain_distances_, atol=1e-12)
    np.testing.assert_allclose(weighted.predict_proba(X + 1), copied.predict_proba(X + 1), atol=1e-8)


def test_domains_of_a_batch_are_told_apart_by_name():
    train = D < 2
    model = MarginalTransferClassifier().fit(X[train], Y[train], sample_domain=D[train])
    batch = np.r_[X[:4], X[D == 2][:5], X[D == 2][5:9] + 1]
    names = np.repeat([0, 7, 8], [4, 5, 4])
    P = model.predict_proba(batch, sample_domain=names)
    np.testing.assert_allclose(P[:4], model.predict_proba(X[train], sample_domain=D[train])[:4], atol=1e-12)
    np.testing.assert_allclose(P[4:9], model.predict_proba(batch[4:9]), atol=1e-12)
    np.testing.assert_allclose(P[9:], model.predict_proba(batch[9:]), atol=1e-12)
    assert not np.allclose(P[4:], model.predict_proba(batch[4:]), atol=1e-6)


def test_one_row_of_a_new_domain_has_no_distribution():
    model = MarginalTransferClassifier().fit(X, Y, sample_domain=D)
    with pytest.raises(SmallBatchError, match="The new domain has 1 row") as caught:
        model.predict(X[:1])
    assert "source domain" in str(caught.value)
    with pytest.raises(SmallBatchError, match="Domain 9 has 1 row"):
        model.predict_proba(X[:2], sample_domain=[0, 9])
    assert model.predict(X[:1], sample_domain=[0]).shape == (1,)
    with pytest.warns(SingleDomainWarning):
        nameless = MarginalTransferClassifier(domain_gamma=1.0).fit(X, Y)
    with pytest.raises(SmallBatchError) as caught:
        nameless.predict(X[:1])
    assert "source domain" not in str(caught.value)


def flipped_domains(seed, n_domains=12, n=30):
    """Domains whose labels depend on the side of the domain's own center: no classifier of x alone can tell them."""
    rng = np.random.default_rng(seed)
    d = np.repeat(np.arange(n_domains), n)
    centers = np.linspace(-4, 4, n_domains)[d]
    x = centers + rng.normal(size=len(d))
    return np.column_stack([x, rng.normal(size=len(d))]), (x > centers).astype(int), d


def test_where_the_rule_depends_on_the_distribution_it_beats_the_plain_machine():
    X, y, d = flipped_domains(0)
    correct, plain = [], []
    for held_out in (2, 5, 8):
        seen = d != held_out
        for scores, options in [(correct, {"domain_gamma": "median"}), (plain, {"domain_gamma": 0.0})]:
            model = MarginalTransferClassifier(C=10.0, gamma="median", **options)
            model.fit(X[seen], y[seen], sample_domain=d[seen])
            scores.append(model.score(X[~seen], y[~seen]))
    assert np.mean(correct) > 0.85
    assert np.mean(plain) < 0.75


def by_hand(X, y, d, model, method):
    values = []
    for train, test in LeaveOneGroupOut().split(X, y, d):
        scaler = StandardScaler().fit(X[train])
        model.fit(scaler.transform(X[train]), y[train], sample_domain=d[train])
        values.append(getattr(model, method)(scaler.transform(X[test]), sample_domain=d[test]))
    return np.concatenate(values)


def test_a_pipeline_gets_domains_by_metadata_routing():
    model = MarginalTransferClassifier()
    pipeline = make_pipeline(StandardScaler(), model)
    with sklearn.config_context(enable_metadata_routing=True):
        params = {"sample_domain": D, "groups": D}
        scores = cross_validate(pipeline, X, Y, cv=LeaveOneGroupOut(), params=params, error_score="raise")
        P = cross_val_predict(pipeline, X, Y, cv=LeaveOneGroupOut(), params=params, method="predict_proba")
        fitted = pipeline.fit(X, Y, sample_domain=D)
        routed = fitted.predict_proba(X, sample_domain=D)
    expected = by_hand(X, Y, D, MarginalTransferClassifier(), "predict_proba")
    np.testing.assert_array_equal(P, expected)
    correct = expected.argmax(axis=1) == Y
    np.testing.assert_allclose(scores["test_score"], [correct[s == D].mean() for s in range(3)])
    Z = StandardScaler().fit_transform(X)
    np.testing.assert_array_equal(routed, fitted[-1].predict_proba(Z, sample_domain=D))


@pytest.mark.parametrize("parameter", ["gamma", "embedding_gamma", "domain_gamma"])
def test_a_wrong_rule_is_named(parameter):
    with pytest.raises(ValueError, match=rf'^{parameter} must be a number, "median" or a positive multiple'):
        MarginalTransferClassifier(**{parameter: "scale"}).fit(X, Y, sample_domain=D)


def test_equal_samples_and_domains_of_one_row_are_no_obstacle():
    rows, labels, domain = np.r_[X, X[:1]], np.r_[Y, 0], np.r_[D, 9]
    model = MarginalTransferClassifier().fit(rows, labels, sample_domain=domain)
    assert np.isfinite(model.predict_proba(X)).all()
    same = MarginalTransferClassifier().fit(np.ones_like(X), Y, sample_domain=D)
    assert same.domain_gamma_ == 0
    np.testing.assert_allclose(same.predict_proba(X), 1 / 3, atol=1e-3)


def test_samples_far_from_the_origin_lose_few_digits():
    options = {**EXACT, "tol": 1e-8}
    near = MarginalTransferClassifier(**options).fit(X, Y, sample_domain=D)
    far = MarginalTransferClassifier(**options).fit(X + 1e6, Y, sample_domain=D)
    np.testing.assert_allclose(far.predict_proba(X + 1 + 1e6), near.predict_proba(X + 1), atol=1e-5)


BATCH = "The distribution of a new domain is that of the batch, and a batch of one is refused."
CHECKED = [
    MarginalTransferClassifier(),
    MarginalTransferClassifier(gamma=0.1, embedding_gamma=0.1, domain_gamma=1.0, tol=1e-10),
]


def expected_failures(estimator):
    if estimator.domain_gamma != "median":
        return {"check_methods_subset_invariance": BATCH}
    return {"check_sample_weight_equivalence_on_dense_data": 'The "median" rules depend on rows, not on their weights.'}


@pytest.mark.filterwarnings("ignore::unseen.exceptions.SingleDomainWarning")
# The checks set max_iter to 5 where there is such a parameter.
@pytest.mark.filterwarnings("ignore:newton-cg failed to converge:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
