"""ProjectionSearchCV gives GridSearchCV's answers; only the price differs."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from helpers import three_domains
from unseen import CIDG, DICA, KFDA, MDA, SCA, ProjectionSearchCV, UnseenClassifier
from unseen.exceptions import SingleDomainWarning
from unseen.model_selection import HeldOutDomains, LeaveOneDomainOut, LeavePDomainsOut, WithinDomainSplit

GRIDS = {
    "CIDG": (CIDG(), {"conditional_weight": [0, "1e3*scale"], "prior_weight": [0, "scale"]}),
    "CIDG with norm": (CIDG(norm_weight=1), {"conditional_weight": [0, 1e3], "scaling": ["paper", "unit_norm"]}),
    "KFDA": (KFDA(), {"n_components": [None, 1]}),
    "SCA": (SCA(), {"between_weight": [0.3, 0.9], "domain_weight": ["scale"], "n_components": [2, 3]}),
    "DICA": (DICA(), {"output_ridge": [1e-3, 1.0]}),
    "MDA": (MDA(), {"conditional_weight": [0.0, 1e2], "within_weight": [1.0, 10.0]}),
}
SHARED = {"ridge": ["1e-3*scale", 0.5], "gamma": ["0.1*median", 0.2]}


def brute_force(estimator, grid, X, y, d, splits, classifier):
    """Refit everything for every setting, as scikit-learn does."""
    pipeline = Pipeline([("projection", estimator), ("classifier", classifier)])
    grids = [
        {(k if k.startswith("classifier__") else f"projection__{k}"): v for k, v in part.items()}
        for part in (grid if isinstance(grid, list) else [grid])
    ]
    with sklearn.config_context(enable_metadata_routing=True):
        return GridSearchCV(pipeline, grids, cv=splits, error_score="raise").fit(X, y, sample_domain=d).cv_results_


def assert_same_scores(search, reference):
    for k in range(search.n_splits_):
        name = f"split{k}_test_score"
        np.testing.assert_allclose(search.cv_results_[name], reference[name], atol=1e-9)
    np.testing.assert_array_equal(search.cv_results_["rank_test_score"], reference["rank_test_score"])
    assert len(search.cv_results_["params"]) == len(reference["params"])
    strip = [{k.removeprefix("projection__"): v for k, v in params.items()} for params in reference["params"]]
    assert search.cv_results_["params"] == strip


def noisy(seed=0, **options):
    """Overlapping classes, so that settings differ."""
    X, y, d = three_domains(n_per_cell=7, seed=seed, n_features=3, **options)
    return X + 1.5 * np.random.default_rng(seed).normal(size=X.shape), y, d


@pytest.mark.parametrize("centering", ["source", "target"])
@pytest.mark.parametrize("name", GRIDS)
def test_scores_equal_a_brute_force_grid_search(name, centering):
    estimator, grid = GRIDS[name]
    estimator = sklearn.clone(estimator).set_params(centering=centering)
    X, y, d = noisy()
    splits = list(LeaveOneDomainOut().split(X, y, d))
    grid = {**grid, "ridge": SHARED["ridge"], **(SHARED if centering == "source" else {})}
    search = ProjectionSearchCV(estimator, grid).fit(X, y, sample_domain=d)
    assert_same_scores(search, brute_force(estimator, grid, X, y, d, splits, KNeighborsClassifier(1)))
    assert search.cv_results_["transductive"].all() == (centering == "target")


@given(seed=st.integers(0, 10**6), dropped=st.sets(st.integers(0, 11), max_size=5))
@settings(max_examples=8, deadline=None)
def test_missing_cells_make_no_difference(seed, dropped):
    X, y, d = noisy(seed, n_domains=4)
    keep = ~np.isin(3 * d + y, list(dropped))
    X, y, d = X[keep], y[keep], d[keep]
    splits = list(LeaveOneDomainOut().split(X, y, d))
    if any(len(np.unique(y[train])) < 2 for train, _ in splits):
        return
    grid = {"conditional_weight": [0, "scale"], "ridge": ["1e-2*scale", "scale"]}
    search = ProjectionSearchCV(CIDG(), grid).fit(X, y, sample_domain=d)
    assert_same_scores(search, brute_force(CIDG(), grid, X, y, d, splits, KNeighborsClassifier(1)))


@pytest.mark.parametrize(
    "estimator",
    [
        CIDG(kernel="linear"),
        CIDG(kernel="poly", degree=2),
        CIDG(kernel="poly", gamma=0.5),
        CIDG(gamma=None),
        CIDG(kernel="laplacian", gamma=0.1),
        CIDG(feature_map="linear"),
        CIDG(feature_map=Nystroem(gamma=0.1, n_components=20, random_state=0)),
        SCA(feature_map="linear"),
        CIDG(feature_map=FrozenEstimator(Nystroem(gamma=0.1, n_components=20, random_state=0).fit(noisy()[0]))),
    ],
    ids=repr,
)
def test_other_kernels_and_feature_maps_are_searched_exactly_too(estimator):
    X, y, d = noisy()
    splits = list(LeaveOneDomainOut().split(X, y, d))
    grid = {"ridge": ["1e-3*scale", "scale"]}
    search = ProjectionSearchCV(estimator, grid).fit(X, y, sample_domain=d)
    assert_same_scores(search, brute_force(estimator, grid, X, y, d, splits, KNeighborsClassifier(1)))


def test_a_precomputed_kernel_gives_the_scores_of_the_kernel():
    X, y, d = noisy()
    grid = {"conditional_weight": [0, 1e3], "ridge": [1e-2, 1.0]}
    native = ProjectionSearchCV(CIDG(gamma=0.2), grid).fit(X, y, sample_domain=d)
    K = rbf_kernel(X, gamma=0.2)
    given_matrix = ProjectionSearchCV(CIDG(kernel="precomputed"), grid).fit(K, y, sample_domain=d)
    np.testing.assert_array_equal(native.cv_results_["mean_test_score"], given_matrix.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(native.predict(X), given_matrix.predict(K))


@pytest.mark.parametrize(
    ("classifier", "extra"),
    [
        (LogisticRegression(), {"classifier__C": [0.1, 10]}),
        (KNeighborsClassifier(3), {"classifier__n_neighbors": [1, 3]}),
        (KNeighborsClassifier(1, p=1), {}),
        (RandomForestClassifier(5, random_state=0), {}),
    ],
    ids=["logistic", "knn", "manhattan", "forest"],
)
def test_any_classifier_and_its_parameters_can_be_searched(classifier, extra):
    X, y, d = noisy()
    splits = list(WithinDomainSplit(n_splits=2, random_state=0).split(X, y, d))
    grid = [{"ridge": ["1e-3*scale", "scale"], **extra}, {"n_components": [1]}]
    search = ProjectionSearchCV(CIDG(), grid, classifier=classifier, cv=splits).fit(X, y, sample_domain=d)
    assert_same_scores(search, brute_force(CIDG(), grid, X, y, d, splits, classifier))


@pytest.mark.parametrize("scoring", ["f1_macro", "neg_log_loss", lambda model, X, y: model.score(X, y)])
def test_any_scorer_can_be_used(scoring):
    X, y, d = noisy()
    search = ProjectionSearchCV(CIDG(), {"n_components": [1, 2]}, classifier=LogisticRegression(), scoring=scoring)
    search.fit(X, y, sample_domain=d)
    model = search.best_estimator_[-1]
    scorer = sklearn.metrics.check_scoring(model, scoring=scoring)
    assert search.score(X, y) == pytest.approx(scorer(model, search.transform(X), y))


def test_of_equal_settings_the_simplest_and_most_regularized_is_chosen():
    X, y, d = three_domains(n_per_cell=10)
    X = X + 100 * np.eye(3, 4)[y]  # nothing left to get wrong
    grid = {
        "n_components": [2, 1],
        "ridge": ["scale", "2*scale"],
        "conditional_weight": [1.0, "scale", 0.0],
        "prior_weight": [0],
        "gamma": [1e-5],
    }
    search = ProjectionSearchCV(CIDG(), grid).fit(X, y, sample_domain=d)
    results = search.cv_results_
    perfect = results["mean_test_score"] == 1
    assert perfect[[p["n_components"] == 2 for p in results["params"]]].all()
    assert (results["n_ties"][perfect] == perfect.sum() - 1).all()
    order = {"scale": 1, "2*scale": 2}
    weights = {0.0: 0, 1.0: 1, "scale": 60}
    winners = [
        (p["n_components"], -order[p["ridge"]], -weights[p["conditional_weight"]], i)
        for i, (p, ok) in enumerate(zip(results["params"], perfect, strict=True))
        if ok
    ]
    assert search.best_index_ == min(winners)[-1]
    assert search.best_index_ != np.flatnonzero(perfect)[0]  # the rule, not the order of the grid, has decided


def test_the_default_search_needs_nothing_but_a_method():
    X, y, d = noisy()
    for estimator in (CIDG(), KFDA(), SCA(), DICA(), MDA()):
        search = ProjectionSearchCV(estimator).fit(X, y, sample_domain=d)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_score_ == pytest.approx(search.cv_results_["mean_test_score"].max(), abs=1e-12)


def test_refit_can_be_left_out():
    X, y, d = noisy()
    grid = {"ridge": ["scale", "10*scale"]}
    unfitted = ProjectionSearchCV(CIDG(), grid, refit=False).fit(X, y, sample_domain=d)
    with pytest.raises(AttributeError, match="refit=False"):
        unfitted.predict(X)


def test_a_setting_that_fails_scores_nan_and_is_reported_once():
    X, y, d = noisy()
    narrow = {"gamma": [100.0], "ridge": [0, 1.0]}  # no ridge and a kernel matrix of full rank: singular
    with pytest.warns(RuntimeWarning, match=r"1 of 2 settings failed.*the ridge is zero"):
        search = ProjectionSearchCV(KFDA(), narrow).fit(X, y, sample_domain=d)
    assert np.isnan(search.cv_results_["mean_test_score"][0])
    assert search.best_index_ == 1
    with pytest.raises(ValueError, match="All 1 settings failed"):
        ProjectionSearchCV(KFDA(gamma=100.0), {"ridge": [0]}).fit(X, y, sample_domain=d)


@pytest.mark.parametrize(
    ("model", "routing"),
    [
        (ProjectionSearchCV(CIDG(), {"conditional_weight": [0, "1e2*scale"]}), True),
        (ProjectionSearchCV(CIDG(), {"conditional_weight": [0, "1e2*scale"]}), False),
        (UnseenClassifier(["logistic", "centered logistic"], transductive=True), True),
    ],
)
def test_a_search_can_be_nested_in_cross_validation(model, routing):
    X, y, d = noisy(n_domains=4)
    domains = (
        {"params": {"sample_domain": d, "groups": d}} if routing else {"params": {"sample_domain": d}, "groups": d}
    )
    with sklearn.config_context(enable_metadata_routing=routing):
        found = cross_validate(model, X, y, cv=LeaveOneDomainOut(), **domains)["test_score"]
    by_hand = []
    for train, test in LeaveOneDomainOut().split(X, y, d):
        fitted = sklearn.clone(model).fit(X[train], y[train], sample_domain=d[train])
        by_hand.append(fitted.score(X[test], y[test], sample_domain=d[test]))
    np.testing.assert_array_equal(found, by_hand)


def test_a_splitter_that_needs_no_domains_works_without_them():
    X, y, _ = noisy()
    with pytest.warns(SingleDomainWarning):
        search = ProjectionSearchCV(KFDA(), {"ridge": ["scale"]}, cv=KFold(3, shuffle=True, random_state=0)).fit(X, y)
    assert search.n_splits_ == 3


def test_methods_follow_the_classifier():
    X, y, d = noisy()
    logistic = ProjectionSearchCV(CIDG(), {"ridge": ["scale"]}, classifier=LogisticRegression())
    logistic.fit(X, y, sample_domain=d)
    np.testing.assert_allclose(logistic.predict_proba(X).sum(axis=1), 1)
    assert logistic.decision_function(X).shape == (len(X), 3)
    assert not hasattr(ProjectionSearchCV(CIDG()), "decision_function")
    frame = logistic.transform(X)
    assert frame.shape == (len(X), 2)


@pytest.mark.parametrize(
    ("splitter", "n_splits"),
    [
        (LeaveOneDomainOut(), 3),
        (LeavePDomainsOut(2), 3),
        (HeldOutDomains(["b"]), 1),
        (WithinDomainSplit(n_splits=4, random_state=0), 4),
    ],
    ids=repr,
)
@pytest.mark.parametrize("keyword", ["groups", "sample_domain"])
def test_splitters_take_domains_under_either_name(splitter, n_splits, keyword):
    X, y, d = noisy()
    names = np.array(list("abc"))[d]
    splits = list(splitter.split(X, y, **{keyword: names}))
    assert len(splits) == splitter.get_n_splits(X, y, **{keyword: names}) == n_splits
    for train, test in splits:
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(X)
        if not isinstance(splitter, WithinDomainSplit):
            assert not set(names[train]) & set(names[test])
    scores = cross_validate(KNeighborsClassifier(), X, y, cv=splitter, groups=names)["test_score"]
    assert len(scores) == n_splits


def test_within_domain_split_keeps_the_share_of_every_cell():
    X, y, d = noisy()
    for train, _ in WithinDomainSplit(0.7, n_splits=3, random_state=1).split(X, y, d):
        counts = np.bincount(3 * d[train] + y[train], minlength=9)
        np.testing.assert_array_equal(counts, 5)  # 70% of 7, rounded


@pytest.mark.parametrize(
    "grid",
    [
        {"ridge": [1.0, 2.0], "conditional_weight": [0.0, -1.0]},
        {"scaling": ["paper"], "n_components": [1, 1.0]},  # equal, and yet the second is no number of components
        [{"ridge": [1.0]}, {"ridge": [1.0], "centering": ["none"]}],
    ],
    ids=["negative", "of another type", "in another grid"],
)
def test_a_bad_value_is_refused_wherever_it_stands_in_a_grid(grid):
    X, y, d = noisy()
    with pytest.raises(ValueError, match="parameter of CIDG must be"):
        ProjectionSearchCV(CIDG(), grid).fit(X, y, sample_domain=d)


def test_the_estimator_of_a_search_is_validated_where_the_grid_is_empty():
    X, y, d = noisy()
    with pytest.raises(ValueError, match="'scaling' parameter of KFDA must be"):
        ProjectionSearchCV(KFDA(scaling="none"), {}).fit(X, y, sample_domain=d)
