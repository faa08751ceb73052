"""DomainHarmonizer is ComBat on the sources, and on new samples a map that uses nothing but what the sources gave."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import neurocombat_reference
from textbook_combat import combat
from unseen import DomainHarmonizer
from unseen.exceptions import SingleDomainWarning, SmallBatchError

OPTIONS = [
    {},
    {"eb": False},
    {"mean_only": True},
    {"eb": False, "mean_only": True},
    {"reference": "b"},
    {"reference": "b", "mean_only": True},
    {"tol": 1e-10},
]


def sites(seed=0, sizes=(7, 9, 12), n_features=5, n_covariates=2):
    """Samples, sites and covariates; sites differ in location and scale."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    C = rng.normal(size=(len(codes), n_covariates))
    X = rng.normal(size=(len(codes), n_features)) * rng.uniform(0.5, 2, n_features)
    X = X * rng.uniform(0.5, 2, size=(len(sizes), n_features))[codes]
    X += rng.normal(size=(len(sizes), n_features))[codes] + C @ rng.normal(size=(n_covariates, n_features))
    return X, np.array(list("abcdefgh"))[codes], C


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(4, 9), min_size=2, max_size=4),
    n_features=st.integers(2, 6),
    n_covariates=st.integers(0, 2),
    options=st.sampled_from(OPTIONS),
)
def test_training_samples_become_what_the_papers_print(seed, sizes, n_features, n_covariates, options):
    X, d, C = sites(seed, sizes, n_features, n_covariates)
    Z = DomainHarmonizer(**options).fit_transform(X, sample_domain=d, covariates=C if n_covariates else None)
    np.testing.assert_allclose(Z, combat(X, d, C, **options), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", neurocombat_reference.OPTIONS)
def test_training_samples_become_what_neurocombat_made_of_them(name):
    stored = json.loads(neurocombat_reference.FILE.read_text(encoding="utf-8"))
    options = neurocombat_reference.OPTIONS[name]
    Z = DomainHarmonizer(**options).fit_transform(
        np.array(stored["X"]), sample_domain=stored["domain"], covariates=stored["covariates"]
    )
    np.testing.assert_allclose(Z, stored["outputs"][name], rtol=1e-8, atol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_the_stored_outputs_are_those_of_the_installed_neurocombat():
    pytest.importorskip("neuroCombat", reason="not a dependency")
    stored = json.loads(neurocombat_reference.FILE.read_text(encoding="utf-8"))
    samples = neurocombat_reference.samples()
    np.testing.assert_array_equal(stored["X"], samples[0])
    for name, options in neurocombat_reference.OPTIONS.items():
        output = neurocombat_reference.run_package(*samples, **options)
        np.testing.assert_allclose(output, stored["outputs"][name], rtol=1e-12, atol=1e-12)


def test_rows_of_source_domains_are_transformed_one_by_one():
    X, d, C = sites()
    harmonizer = DomainHarmonizer().fit(X, sample_domain=d, covariates=C)
    together = harmonizer.transform(X, sample_domain=d, covariates=C)
    for i in (0, 8, 20):
        alone = harmonizer.transform(X[i : i + 1], sample_domain=d[i : i + 1], covariates=C[i : i + 1])
        np.testing.assert_allclose(alone[0], together[i], rtol=1e-13)
    np.testing.assert_array_equal(harmonizer.fit_transform(X, sample_domain=d, covariates=C), together)


def test_a_new_domain_stays_as_it_is():
    X, d, C = sites()
    harmonizer = DomainHarmonizer().fit(X, sample_domain=d, covariates=C)
    np.testing.assert_array_equal(harmonizer.transform(X, sample_domain=["new"] * len(X)), X)
    np.testing.assert_array_equal(harmonizer.transform(X[:1]), X[:1])


@pytest.mark.parametrize("options", [{}, {"eb": False}, {"mean_only": True}])
def test_a_source_domain_under_a_new_name_is_harmonized_as_before_if_transductive(options):
    X, d, C = sites()
    harmonizer = DomainHarmonizer(transductive=True, **options).fit(X, sample_domain=d, covariates=C)
    Z = harmonizer.transform(X, sample_domain=d, covariates=C)
    renamed = np.where(d == "b", "new", d)
    np.testing.assert_allclose(harmonizer.transform(X, sample_domain=renamed, covariates=C), Z, rtol=1e-10)
    rows = d == "b"
    np.testing.assert_allclose(harmonizer.transform(X[rows], covariates=C[rows]), Z[rows], rtol=1e-10)


def test_a_new_domain_of_one_row_has_no_effects_to_estimate():
    X, d, _ = sites()
    harmonizer = DomainHarmonizer(transductive=True).fit(X, sample_domain=d)
    with pytest.raises(SmallBatchError, match="Domain 'new' has 1 row") as caught:
        harmonizer.transform(X[:3], sample_domain=["a", "a", "new"])
    assert (caught.value.domain, caught.value.rows, caught.value.min_rows) == ("new", 1, 2)
    assert harmonizer.transform(X[:1], sample_domain=["a"]).shape == (1, 5)


@pytest.mark.parametrize("options", OPTIONS[:-1])
def test_units_of_features_and_covariates_and_the_order_of_rows_do_not_matter(options):
    X, d, C = sites()
    units = np.array([1.0, 1e3, 1e-3, 2.0, 5.0])
    Z = DomainHarmonizer(**options).fit_transform(X, sample_domain=d, covariates=C)
    scaled = DomainHarmonizer(**options).fit_transform(X * units + 10, sample_domain=d, covariates=100 * C - 7)
    np.testing.assert_allclose((scaled - 10) / units, Z, rtol=1e-8, atol=1e-8)
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = DomainHarmonizer(**options).fit_transform(X[order], sample_domain=d[order], covariates=C[order])
    np.testing.assert_allclose(shuffled, Z[order], rtol=1e-9, atol=1e-12)


def test_an_iteration_that_does_not_reach_its_tolerance_warns(monkeypatch):
    X, d, _ = sites()
    monkeypatch.setattr("unseen.estimators._harmonizer.MAX_ITER", 2)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations with a relative change of .*tol=1e-12"):
        DomainHarmonizer(tol=1e-12).fit(X, sample_domain=d)


def two_classes(seed=0):
    """Noise around class means, mixed differently in each site, and site effects."""
    rng = np.random.default_rng(seed)
    d = np.repeat(["a", "b", "c"], 40)
    y = np.concatenate([rng.permutation(np.arange(40) < n) for n in (32, 8, 20)]).astype(int)
    effects = {"a": 2.0, "b": -1.0, "c": 0.0}
    X = rng.normal(size=(120, 6)) + 3 * y[:, None] * np.array([1, 0, 1, 0, 1, 0])
    return X + np.array([effects[s] for s in d])[:, None], y, d


def test_labels_change_the_estimates_but_never_the_map():
    X, y, d = two_classes()
    harmonizer = DomainHarmonizer(preserve_classes=True).fit(X, y, sample_domain=d)
    Z = harmonizer.transform(X, sample_domain=d)
    np.testing.assert_array_equal(DomainHarmonizer(preserve_classes=True).fit_transform(X, y, sample_domain=d), Z)
    # One row written twice with two labels comes out once: what is done to it does not depend on its label.
    twice, labels, domains = np.vstack([X, X[:1]]), np.append(y, 1 - y[0]), np.append(d, d[0])
    both = DomainHarmonizer(preserve_classes=True).fit_transform(twice, labels, sample_domain=domains)
    np.testing.assert_array_equal(both[0], both[-1])
    other = DomainHarmonizer().fit_transform(X, sample_domain=d)
    assert not np.allclose(Z, other)


def test_means_net_of_classes_equal_combat_with_the_label_as_covariate():
    X, y, d = two_classes()
    Z = DomainHarmonizer(preserve_classes=True, mean_only=True).fit_transform(X, y, sample_domain=d)
    np.testing.assert_allclose(Z, combat(X, d, y[:, None], mean_only=True), rtol=1e-9, atol=1e-9)
    names = np.array(["ill", "well"])[y]
    named = DomainHarmonizer(preserve_classes=True, mean_only=True).fit_transform(X, names, sample_domain=d)
    np.testing.assert_allclose(named, Z, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("labels", ["two classes", "three classes"])
def test_a_label_among_the_covariates_is_an_error(labels):
    X, d, C = sites()
    y = np.arange(len(X)) % (2 if labels == "two classes" else 3)
    leaks = [y, 5.0 - y, np.column_stack([C, y]), np.column_stack([C, y == 1])]
    for leak in leaks:
        with pytest.raises(ValueError, match=r"tells the class labels in y.*preserve_classes=True"):
            DomainHarmonizer().fit(X, y, sample_domain=d, covariates=leak)
    names = np.array(["healthy", "ill", "very ill"])[y]
    with pytest.raises(ValueError, match="Column 0 of covariates"):
        DomainHarmonizer().fit(X, names, sample_domain=d, covariates=y)
    sex = np.arange(len(X)) // 2 % 2
    DomainHarmonizer().fit(X, y, sample_domain=d, covariates=sex)
    DomainHarmonizer().fit(X, X[:, 0], sample_domain=d, covariates=C)  # a continuous target has no classes


def test_a_new_domain_has_no_labels_to_be_net_of():
    X, y, d = two_classes()
    with pytest.raises(ValueError, match=r"preserve_classes=True is not available with transductive=True"):
        DomainHarmonizer(preserve_classes=True, transductive=True).fit(X, y, sample_domain=d)


def test_covariates_that_domains_determine_are_an_error():
    X, d, C = sites()
    by_site = (d == "a").astype(float)
    with pytest.raises(ValueError, match=r"column\(s\) 2 are constant within every domain"):
        DomainHarmonizer().fit(X, sample_domain=d, covariates=np.column_stack([C, by_site]))
    with pytest.raises(ValueError, match="only 2 of 3 columns are linearly independent"):
        DomainHarmonizer().fit(X, sample_domain=d, covariates=np.column_stack([C, C[:, 0] - C[:, 1] + by_site]))
    with pytest.raises(ValueError, match="preserve_classes=False"):
        DomainHarmonizer(preserve_classes=True).fit(X, d == "a", sample_domain=d)


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        (np.ones(3), "3 rows for 28 samples"),
        (["f"] * 28, "Encode categories as indicators"),
        (np.full(28, np.nan), "finite numbers"),
    ],
)
def test_bad_covariates_are_named(covariates, message):
    X, d, _ = sites()
    with pytest.raises(ValueError, match=message):
        DomainHarmonizer().fit(X, sample_domain=d, covariates=covariates)


def test_covariates_are_the_same_in_fit_and_transform():
    X, d, C = sites()
    with_covariates = DomainHarmonizer().fit(X, sample_domain=d, covariates=C)
    with pytest.raises(ValueError, match=r"transform needs them too: covariates= with 2 column"):
        with_covariates.transform(X, sample_domain=d)
    with pytest.raises(ValueError, match="covariates has 1 columns"):
        with_covariates.transform(X, sample_domain=d, covariates=C[:, 0])
    without = DomainHarmonizer().fit(X, sample_domain=d)
    with pytest.raises(ValueError, match="was fitted with 0"):
        without.transform(X, sample_domain=d, covariates=C)


def test_an_unknown_reference_is_named():
    X, d, _ = sites()
    with pytest.raises(ValueError, match=r"reference='z' is not among the domains in sample_domain: 'a', 'b', 'c'"):
        DomainHarmonizer(reference="z").fit(X, sample_domain=d)


@pytest.mark.parametrize("options", OPTIONS)
def test_columns_without_variance_do_not_change_the_others(options):
    X, d, _ = sites()
    Z = DomainHarmonizer(**options).fit_transform(X, sample_domain=d)
    constant = np.full(len(X), 0.1)
    by_site = np.select([d == "a", d == "b"], [0.3, 0.7], 2.1)
    wider = DomainHarmonizer(**options).fit_transform(np.column_stack([X, constant, by_site]), sample_domain=d)
    np.testing.assert_allclose(wider[:, :-2], Z, rtol=1e-12)
    np.testing.assert_allclose(wider[:, -2], constant, rtol=1e-12)
    common = 0.7 if "reference" in options else by_site.mean()
    np.testing.assert_allclose(wider[:, -1], common, rtol=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_feature_that_is_constant_in_one_domain_stays_finite(options):
    X, d, _ = sites()
    X[d == "a", 0] = 0.1
    Z = DomainHarmonizer(**options).fit_transform(X, sample_domain=d)
    assert np.isfinite(Z).all()
    assert np.ptp(Z[d == "a", 0]) < 1e-12


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("rows", [1, 4])
def test_a_domain_of_one_row_or_of_equal_rows_is_aligned_in_location_alone(options, rows):
    X, d, _ = sites()
    X = np.vstack([X, np.full((rows, 5), 9.0)])
    d = np.append(d, ["one"] * rows)
    harmonizer = DomainHarmonizer(**options).fit(X, sample_domain=d)
    np.testing.assert_array_equal(harmonizer.domain_scale_[-1], 1)
    shift = harmonizer.scale_ * harmonizer.domain_location_[-1]
    Z = harmonizer.transform(X, sample_domain=d)
    np.testing.assert_allclose(Z[-1], X[-1] - shift, rtol=1e-12)
    assert (np.abs(Z[-1] - harmonizer.center_) <= np.abs(X[-1] - harmonizer.center_)).all()


@pytest.mark.parametrize("options", OPTIONS)
def test_one_domain_is_left_as_it_is_with_a_warning(options):
    X, _, _ = sites()
    with pytest.warns(SingleDomainWarning):
        Z = DomainHarmonizer(**options).fit_transform(X, sample_domain=["b"] * len(X))
    np.testing.assert_array_equal(Z, X)


def test_one_feature_is_not_shrunk():
    X, d, _ = sites(n_features=1)
    shrunk, plain = (DomainHarmonizer(eb=eb).fit_transform(X, sample_domain=d) for eb in (True, False))
    np.testing.assert_array_equal(shrunk, plain)


def test_copies_of_a_feature_have_a_prior_without_spread():
    X, d, _ = sites(n_features=1)
    Z = DomainHarmonizer().fit_transform(np.hstack([X, X, X]), sample_domain=d)
    plain = DomainHarmonizer(eb=False).fit_transform(X, sample_domain=d)
    np.testing.assert_allclose(Z, np.hstack([plain] * 3), rtol=1e-3)
    assert np.ptp(Z, axis=1).max() < 1e-12


@pytest.mark.parametrize("options", [{}, {"transductive": True}, {"preserve_classes": True}])
def test_a_pipeline_gets_domains_and_covariates_by_metadata_routing(options):
    X, y, d = two_classes()
    C = np.random.default_rng(1).normal(size=(len(X), 1))
    pipeline = make_pipeline(DomainHarmonizer(**options), LogisticRegression())
    with sklearn.config_context(enable_metadata_routing=True):
        params = {"sample_domain": d, "covariates": C, "groups": d}
        routed = cross_validate(pipeline, X, y, cv=LeaveOneGroupOut(), params=params, error_score="raise")
    by_hand = []
    for train, test in LeaveOneGroupOut().split(X, y, d):
        harmonizer = DomainHarmonizer(**options)
        Z = harmonizer.fit_transform(X[train], y[train], sample_domain=d[train], covariates=C[train])
        head = LogisticRegression().fit(Z, y[train])
        by_hand.append(head.score(harmonizer.transform(X[test], sample_domain=d[test], covariates=C[test]), y[test]))
    np.testing.assert_array_equal(routed["test_score"], by_hand)


BATCH = "Effects are estimated from the batch: the result for a sample depends on it, and a batch of one is refused."


def expected_failures(estimator):
    return {"check_methods_subset_invariance": BATCH} if estimator.transductive else {}


CHECKED = [
    DomainHarmonizer(),
    DomainHarmonizer(eb=False),
    DomainHarmonizer(mean_only=True),
    DomainHarmonizer(preserve_classes=True),
    DomainHarmonizer(transductive=True),
]


@pytest.mark.filterwarnings("ignore::unseen.exceptions.SingleDomainWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
