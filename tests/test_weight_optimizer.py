"""Weights by gradients: derivatives against differences, and the loss that they reach."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unseen import CIDG, DICA, KFDA, MDA, SCA, ProjectionSearchCV
from unseen.datasets import make_synthetic
from unseen.estimators import invariance_weights
from unseen.model_selection._split_evaluation import FeatureStage
from unseen.model_selection._weight_optimizer import SplitObjective, optimize_settings
from unseen.utils.samples import make_samples

HEAD = make_pipeline(StandardScaler(), LogisticRegression())


def three_domains(seed=0, n_classes=3):
    rng = np.random.default_rng(seed)
    d = np.repeat(["a", "b", "c"], 40)
    y = rng.integers(n_classes, size=120)
    X = 2 * rng.normal(size=(n_classes, 4))[y] + rng.normal(size=(3, 4))[np.repeat(range(3), 40)]
    return X + rng.normal(size=(120, 4)), y, d


def objective(projection, X, y, d):
    samples = make_samples(X, y, d, None, None)
    train, test = np.flatnonzero(d != "c"), np.flatnonzero(d == "c")
    decomposition = FeatureStage(samples).source(projection).decompose(train, test)
    return SplitObjective(decomposition, samples.codes[train], samples.codes[test])


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "projection",
    [CIDG(gamma=0.1), CIDG(1, gamma=0.1, norm_weight=1.0), CIDG(feature_map="linear"), MDA(gamma=0.1), DICA(gamma=0.1)],
    ids=str,
)
def test_derivatives_are_those_of_differences(projection, n_classes):
    X, y, d = three_domains(n_classes=n_classes)
    split = objective(projection, X, y, d)
    names = (*invariance_weights(projection), "ridge")
    values = {name: 0.3 if isinstance(getattr(projection, name), float) else 5.0 for name in names}
    loss, gradient = split.evaluate(type(projection)(**{**projection.get_params(), **values}), names)
    assert loss > 0
    for name, slope in zip(names, gradient, strict=True):
        losses = []
        for sign in (1, -1):
            changed = {**projection.get_params(), **values, name: values[name] * np.exp(sign * 1e-4)}
            losses.append(split.evaluate(type(projection)(**changed), ())[0])
        assert slope == pytest.approx((losses[0] - losses[1]) / 2e-4, rel=1e-4, abs=1e-7), name


def held_out_loss(projection, X, y, d):
    """Mean log loss of a logistic head over held-out domains, by scikit-learn alone."""
    losses = []
    for domain in np.unique(d):
        train = d != domain
        fitted = projection.fit(X[train], y[train], sample_domain=d[train])
        head = HEAD.fit(fitted.transform(X[train]), y[train])
        p = head.predict_proba(fitted.transform(X[~train]))
        losses.append(-np.log(p[np.arange(len(p)), np.searchsorted(head.classes_, y[~train])]).mean())
    return np.mean(losses)


def test_the_optimum_is_not_above_the_starts_nor_a_coarse_grid():
    X, y, d = three_domains(3)
    samples = make_samples(X, y, d, None, None)
    splits = [(np.flatnonzero(d != name), np.flatnonzero(d == name)) for name in "abc"]
    (setting,) = optimize_settings(CIDG(gamma=0.1), samples, splits, [{"gamma": 0.1}])
    best = held_out_loss(CIDG(**setting), X, y, d)
    for conditional in ("0.1*scale", "scale", "10*scale"):
        for ridge in ("1e-2*scale", "scale", "1e2*scale"):
            loss = held_out_loss(CIDG(gamma=0.1, conditional_weight=conditional, ridge=ridge), X, y, d)
            assert best <= loss + 1e-3


def test_a_search_by_gradient_scores_its_settings_as_a_grid_does():
    data = make_synthetic(random_state=0)
    few = np.random.default_rng(0).permutation(len(data.target))[:150]
    X, y, d = data.data[few], data.target[few], data.domain[few]
    grid = {"gamma": ["0.1*median", "median"]}
    search = ProjectionSearchCV(CIDG(), grid, classifier=HEAD, optimizer="gradient", scoring="neg_log_loss")
    search.fit(X, y, sample_domain=d)
    settings = search.cv_results_["params"]
    assert [setting["gamma"] for setting in settings] == grid["gamma"]
    again = ProjectionSearchCV(
        CIDG(),
        [{name: [value] for name, value in s.items()} for s in settings],
        classifier=HEAD,
        scoring="neg_log_loss",
    ).fit(X, y, sample_domain=d)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], again.cv_results_["mean_test_score"])
    assert search.predict(X).shape == y.shape


def test_kfda_has_only_its_ridge_to_optimize():
    X, y, d = three_domains()
    search = ProjectionSearchCV(KFDA(), {"gamma": [0.1]}, optimizer="gradient").fit(X, y, sample_domain=d)
    assert set(search.best_params_) == {"gamma", "ridge"}


def test_what_has_no_derivative_is_an_error():
    X, y, d = three_domains()
    for projection in (SCA(), CIDG(cell_correction="shrink")):
        with pytest.raises(ValueError, match=r'optimizer="gradient" needs a projection with a low-rank numerator'):
            ProjectionSearchCV(projection, {"gamma": [0.1]}, optimizer="gradient").fit(X, y, sample_domain=d)
    with pytest.raises(ValueError, match=r'param_grid contains .ridge.*optimizer="gradient"'):
        ProjectionSearchCV(CIDG(), {"ridge": [0.1]}, optimizer="gradient").fit(X, y, sample_domain=d)
