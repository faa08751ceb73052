"""The learning curve over domains."""

import html
import json

import numpy as np
import pytest
from scipy import stats

from unseen import site_learning_curve
from unseen.evaluation import Store, _site_curve
from unseen.evaluation._site_curve import MAX_SUBSETS, PowerLaw, make_curve, make_subsets
from unseen.model_selection import get_metric


def make_sites(n_sites, size, spread, seed=0):
    """Each site has its own effect of six features; more sites estimate the mean effect better."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(n_sites), size)
    y = rng.integers(2, size=n_sites * size)
    effects = 0.4 + spread * rng.normal(size=(n_sites, 6))
    X = rng.normal(size=(n_sites * size, 6)) + effects[site] * (2 * y[:, None] - 1)
    return X, y, site


@pytest.mark.parametrize("m", [4, 7, 15, 40])
def test_subsets_are_balanced_and_end_with_all_but_one(m):
    subsets = make_subsets(m, np.random.default_rng(0))
    sizes = np.array([len(subset) for subset in subsets])
    assert sizes.max() == m - 1
    assert (sizes == m - 1).sum() == m
    assert len({tuple(subset) for subset in subsets}) == len(subsets)
    for size in np.unique(sizes):
        chosen = [subset for subset in subsets if len(subset) == size]
        assert len(chosen) <= max(MAX_SUBSETS, m if size == m - 1 else 0)
        counts = np.bincount(np.concatenate(chosen), minlength=m)
        if len(chosen) == m:  # every domain is in as many subsets as any other
            assert (counts == size).all()


def test_slopes_and_errors_are_those_of_least_squares():
    rng = np.random.default_rng(1)
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    scores = rng.normal(size=(5, 4))
    scores[2, 1] = np.nan
    law = PowerLaw(sizes, scores)
    total = 0.0
    for t in range(5):
        known = np.isfinite(scores[t])
        fit = stats.linregress(-(sizes[known] ** -0.7), scores[t, known])
        assert law.fit(0.7)[0][t] == pytest.approx(fit.slope)
        total += ((scores[t, known] - fit.intercept + fit.slope * sizes[known] ** -0.7) ** 2).sum()
    assert law.fit(0.7)[1] == pytest.approx(total)


def test_an_exact_power_law_is_extrapolated_exactly():
    sizes = np.array([1.0, 2.0, 3.0, 5.0, 9.0])
    limits = np.array([0.8, 0.9, 0.7])[:, None]
    law = PowerLaw(sizes, limits - np.array([0.2, 0.3, 0.1])[:, None] * sizes**-0.75)
    best, *plausible = law.plausible_exponents
    assert best == pytest.approx(0.75)
    assert plausible == pytest.approx([0.75])
    gain = law.gain(10, 12)
    assert gain.gain == pytest.approx(0.2 * (10**-0.75 - 12**-0.75))
    slopes = np.array([0.2, 0.3, 0.1])
    half = stats.t.ppf(0.975, 2) * slopes.std(ddof=1) / np.sqrt(3)
    assert gain.upper == pytest.approx((0.2 + half) * (10**-0.75 - 12**-0.75))


def test_more_sites_help_where_sites_differ_and_rows_do_not():
    X, y, site = make_sites(8, 80, spread=0.6)
    curve = site_learning_curve(X, y, sample_domain=site, methods=["logistic"], metric="roc_auc")
    means = [point.mean for point in curve.points]
    assert means[-1] > means[0] + 0.02
    assert curve.gain(2).gain > 0
    assert curve.gain(5).gain > curve.gain(2).gain
    assert abs(curve.row_gain.gain) < curve.gain(10).gain
    now = curve.predict(8)
    assert now.lower < curve.points[-1].mean < now.upper
    assert curve.predict(7).mean == pytest.approx(curve.points[-1].mean)
    summary = curve.to_dict()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert "Expected gain from two more domains: +" in str(curve)


def test_the_last_point_is_leave_one_domain_out():
    from unseen.evaluation import make_average_candidates, predict_averages
    from unseen.model_selection import (
        EvaluationConfig,
        LeaveOneDomainOut,
        Scorer,
    )
    from unseen.tables import make_preprocessor, table_from_arrays

    X, y, site = make_sites(5, 40, spread=0.3)
    curve = site_learning_curve(X, y, sample_domain=site, methods=["logistic"])
    table = table_from_arrays(X, y, site)
    splits = list(LeaveOneDomainOut().split(X, y, table.domain))
    config = EvaluationConfig(preparation=make_preprocessor(table.schema))
    averages = predict_averages(make_average_candidates(["logistic"], 2), table.samples, splits, config)
    probabilities = [P for P, _ in averages]
    scorer = Scorer("accuracy", table.samples, splits)
    scores = [scorer.score_probabilities(k, P) for k, P in enumerate(probabilities)]
    np.testing.assert_allclose(curve.by_sites.scores[:, -1], scores)
    np.testing.assert_allclose(
        scores, [np.mean(P.argmax(1) == y[test]) for P, (_, test) in zip(probabilities, splits, strict=True)]
    )


def test_prediction_intervals_cover_new_sites():
    """Scores of sites are normal around a power law: the extrapolated interval holds the next site in 95%."""
    rng = np.random.default_rng(5)
    metric = get_metric(lambda estimator, X, y: 0.0)  # without bounds
    hits = 0
    m = 8
    sizes = np.concatenate([np.repeat([1.0, 2, 4], m), np.full(m, m - 1.0), np.repeat([0.25, 0.5], m)])
    for _ in range(120):
        level = 0.5 + 0.05 * rng.normal(size=m + 1)
        by_set = np.full((len(sizes), m), np.nan)
        for i, size in enumerate(sizes):
            by_set[i, i % m] = level[i % m] - 0.1 / max(size, 1) + 0.02 * rng.normal()
        curve = make_curve(tuple("abcdefgh"), metric, ("x",), sizes, by_set, 4 * m)
        new = level[m] - 0.1 / m + 0.02 * rng.normal()
        point = curve.predict(m)
        hits += point.lower <= new <= point.upper
    assert hits / 120 >= 0.9


@pytest.mark.parametrize(
    ("n_sites", "options", "message"),
    [(3, {}, "at least 4 domains"), (5, {"methods": ["centered logistic"]}, "transductive")],
)
def test_wrong_arguments_are_named(n_sites, options, message):
    X, y, site = make_sites(n_sites, 20, spread=0.3)
    with pytest.raises(ValueError, match=message):
        site_learning_curve(X, y, sample_domain=site, **options)


def test_the_figure_shows_both_curves():
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y, site = make_sites(5, 30, spread=0.3)
    figure = site_learning_curve(X, y, sample_domain=site, methods=["logistic"]).plot()
    evaluated, extrapolated = figure.axes[0].get_lines()
    assert evaluated.get_xdata().tolist() == [1, 2, 3, 4]
    assert extrapolated.get_xdata()[0] == 4
    plt.close(figure)


def test_the_page_shows_the_sentences_and_every_point():
    pytest.importorskip("jinja2")
    X, y, site = make_sites(5, 30, spread=0.3)
    curve = site_learning_curve(X, y, sample_domain=site, methods=["logistic"])
    page = curve.to_html()
    assert all(html.escape(sentence) in page for sentence in curve.sentences())
    assert page.count('<th scope="row"') == len(curve.to_frame())


def curve(store, X, y, site, **options):
    return site_learning_curve(X, y, sample_domain=site, methods=["logistic"], store=store, **options).to_dict()


def test_an_interrupted_curve_continues_and_is_that_of_an_undisturbed_run(tmp_path, monkeypatch):
    X, y, site = make_sites(5, 30, 0.3)
    expected = curve(None, X, y, site)
    store = tmp_path / "results.sqlite"
    add, stored, evaluated = Store.add, [], []

    def add_some(self, key, row):
        if len(stored) == 4:
            raise KeyboardInterrupt
        stored.append(row)
        add(self, key, row)

    score = _site_curve.SubsetRunner.predict

    def count(self, job):
        evaluated.append(job)
        return score(self, job)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "add", add_some)
        with pytest.raises(KeyboardInterrupt):
            curve(store, X, y, site)
    monkeypatch.setattr(_site_curve.SubsetRunner, "predict", count)
    n_sets = len(make_subsets(5, np.random.default_rng(0))) + 10
    assert curve(store, X, y, site) == expected
    assert len(evaluated) == n_sets - 4
    assert curve(store, X, y, site) == expected
    assert len(evaluated) == n_sets - 4


@pytest.mark.parametrize("changed", ["features", "labels", "metric", "methods"])
def test_other_data_and_settings_start_again(tmp_path, changed):
    X, y, site = make_sites(4, 20, 0.3)
    store = tmp_path / "results.sqlite"
    options = {"methods": ["nearest mean"]}
    site_learning_curve(X, y, sample_domain=site, store=store, **options)
    if changed == "features":
        X = X + 0.1 * np.random.default_rng(1).normal(size=X.shape)
    elif changed == "labels":
        y = np.where(np.arange(len(y)) < 8, 1 - y, y)
    elif changed == "metric":
        options["metric"] = "roc_auc"
    else:
        options["methods"] = ["1-NN"]
    found = site_learning_curve(X, y, sample_domain=site, store=store, **options)
    expected = site_learning_curve(X, y, sample_domain=site, **options)
    assert found.to_dict() == expected.to_dict()


def test_training_sets_without_a_model_are_not_stored(tmp_path):
    X, y, site = make_sites(5, 20, 0.3)
    y = np.where(site == 0, 0, y)  # no model of this domain alone
    store = tmp_path / "results.sqlite"
    expected = curve(None, X, y, site)
    assert curve(store, X, y, site) == expected
    assert curve(store, X, y, site) == expected
