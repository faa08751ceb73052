"""Sites exchange files: models and reports equal those of all rows in one place, and bad files raise one error."""

from __future__ import annotations

import json
import warnings

import numpy as np
import polars as pl
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline

import unseen
from unseen.estimators import Statistics
from unseen.evaluation import validate
from unseen.exceptions import DataWarning
from unseen.exchange import (
    ExchangeError,
    SiteResults,
    SiteStatistics,
    aggregate,
    combine,
    draft_plan,
    fit_statistics,
    load_plan,
    score_site,
)
from unseen.models import load_model

pytestmark = pytest.mark.filterwarnings(
    "ignore::unseen.exceptions.NewDataWarning",  # rows have a level that the plan does not have
    "ignore:.*left out rows without a label:unseen.exceptions.DataWarning",
)
SITES = ["bonn", "essen", "kiel", "leeds", "oslo", "turin"]
SETTINGS = [
    {"method": "CIDG", "conditional_weight": ["scale", "10*scale"], "prior_weight": 2.5, "ridge": "0.1*scale"},
    {"method": "KFDA", "ridge": ["scale", 1e-3]},
    {"method": "MDA", "discrepancy_weight": 0.3, "within_weight": 0.5},
    {"method": "SCA", "between_weight": 0.7, "n_components": 2},
    {"method": "DICA", "output_ridge": 0.01, "ridge": 0.1},
]
COLUMNS = {
    "age": {"center": 60, "scale": 15, "unit": "years"},
    "sex": {"levels": ["f", "m"]},
    "crp": {"center": 80.0, "scale": 40.0, "unit": "mg/l"},
}


def make_rows(n_rows=900, classes=("no", "yes"), seed=0):
    """Rows of six sites that shift all features, with missing values and levels that the plan does not have."""
    rng = np.random.default_rng(seed)
    site = np.array(SITES)[np.arange(n_rows) % 6]
    code = rng.integers(len(classes), size=n_rows)
    shift = 6 * rng.normal(size=(6, 2))[np.arange(n_rows) % 6]
    age = 55 + 10 * code + shift[:, 0] + 12 * rng.normal(size=n_rows)
    crp = 60 + 25 * (code == 1) + 40 * (code == 2) + shift[:, 1] + 30 * rng.normal(size=n_rows)
    sex = np.array(["f", "m", "x", None], dtype=object)[rng.choice(4, n_rows, p=[0.47, 0.47, 0.03, 0.03])]
    return pl.DataFrame(
        {
            "age": [None if missing else value for missing, value in zip(rng.random(n_rows) < 0.1, age, strict=True)],
            "sex": sex.tolist(),
            "crp": crp,
            "ill": np.array(classes)[code],
            "site": site,
        }
    )


def make_plan(**changes):
    plan = {"name": "fever", "label": "ill", "classes": ["no", "yes"], "columns": COLUMNS, "settings": SETTINGS}
    return load_plan({**plan, **changes})


def rows_of(rows, site):
    return rows.filter(pl.col("site") == site).drop("site")


def collect(rows, plan, sites=SITES):
    return [aggregate(rows_of(rows, site), plan, site=site) for site in sites]


def send(objects, folder, kind):
    paths = []
    for one in objects:
        paths.append(folder / f"{one.site}.{kind}.json")
        one.save(paths[-1])
    return paths


@pytest.fixture(scope="module")
def rows():
    return make_rows()


@pytest.fixture(scope="module")
def plan():
    return make_plan()


@pytest.fixture(scope="module")
def statistics(rows, plan):
    return collect(rows, plan)


@pytest.fixture(scope="module")
def model(statistics):
    return fit_statistics(statistics)


@pytest.fixture(scope="module")
def results(model, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return [score_site(model, rows_of(rows, site), site=site) for site in SITES]


@pytest.fixture(scope="module")
def frozen(rows):
    """A model of other rows, which sites validate as it is."""
    return unseen.fit(
        make_rows(600, seed=5), label="ill", domain="site", features=["age", "sex", "crp"], methods="logistic"
    )


# Fitting


def fit_on_rows(plan, setting, rows):
    """Projection and discriminant of scikit-learn, fitted to rows that a plan has prepared."""
    prepared, codes = (np.concatenate(parts) for parts in zip(*plan.read(rows.drop("site")), strict=True))
    projection = plan.make_projection(setting).fit(prepared, plan.classes[codes], sample_domain=rows["site"].to_numpy())
    head = LinearDiscriminantAnalysis(solver="lsqr").fit(projection.transform(prepared), plan.classes[codes])
    return make_pipeline(projection, head)


@pytest.mark.parametrize("features", [{}, {"map": "random", "n_features": 40, "gamma": 0.2, "seed": 3}])
def test_models_from_files_equal_models_of_all_rows(rows, features, tmp_path):
    plan = make_plan(features=features)
    files = send(collect(rows, plan), tmp_path, "stats")
    model = fit_statistics(files)
    new = make_rows(200, seed=1).drop("site", "ill")
    prepared = model.table_model.prepare(model.schema.encode(new))
    expected = fit_on_rows(plan, plan.settings[0], rows).predict_proba(prepared)
    np.testing.assert_allclose(model.predict_proba(new), expected, rtol=0, atol=1e-9)
    for site in SITES[:2]:
        own = rows_of(rows, site)
        results = score_site(model, own, site=site, smallest_cell=1)
        X, codes = next(plan.read(own))
        for setting, result in zip(plan.settings, results.results, strict=True):
            pipeline = fit_on_rows(plan, setting, rows.filter(pl.col("site") != site))
            P = pipeline.predict_proba(X)
            loss = -np.log(P[np.arange(len(P)), codes]).mean()
            assert result.measures["log_loss", None].value == pytest.approx(loss, abs=1e-9)


def test_sites_may_lack_classes(tmp_path):
    classes = ("a", "b", "c")
    rows = make_rows(1200, classes)
    lacks = ((pl.col("site") == "bonn") & (pl.col("ill") == "c")) | (
        (pl.col("site") == "kiel") & (pl.col("ill") == "a")
    )
    rows = rows.filter(~lacks)
    plan = make_plan(classes=list(classes))
    model = fit_statistics(send(collect(rows, plan), tmp_path, "stats"))
    new = make_rows(200, classes, seed=1).drop("site", "ill")
    prepared = model.table_model.prepare(model.schema.encode(new))
    expected = fit_on_rows(plan, plan.settings[0], rows).predict_proba(prepared)
    np.testing.assert_allclose(model.predict_proba(new), expected, rtol=0, atol=1e-9)
    results = [score_site(model, rows_of(rows, site), site=site) for site in SITES]
    combined = combine(send(results, tmp_path, "site"))
    assert len(combined.site_records) == 6
    assert np.isnan(combined.estimates[combined.settings.method, "auc", "c"]["bonn"].value)
    assert 0.6 < combined.get_summary("auc", of_class="c").value < 1


def test_a_class_of_one_site_is_unknown_without_that_site():
    classes = ("a", "b", "c")
    rows = make_rows(1200, classes).filter((pl.col("ill") != "c") | (pl.col("site") == "oslo"))
    plan = make_plan(classes=list(classes), settings=[{"method": "CIDG"}])
    model = fit_statistics(collect(rows, plan))
    results = score_site(model, rows_of(rows, "oslo"), site="oslo")
    assert results.results[0].measures["auc", "c"].value == 0.5
    assert results.results[0].measures["observed_expected", "a"].value < 1


def test_a_late_site_is_an_addition_and_a_dropped_site_a_subtraction(statistics, model, rows):
    total = statistics[0].statistics
    for site in statistics[1:]:
        total = total + site.statistics
    early = statistics[0].statistics
    for site in statistics[1:-1]:
        early = early + site.statistics
    remaining = total - statistics[-1].statistics
    assert remaining.domains.tolist() == SITES[:-1]
    np.testing.assert_array_equal(remaining.cells.counts, early.cells.counts)
    np.testing.assert_allclose(remaining.cells.means, early.cells.means, atol=1e-12)
    np.testing.assert_allclose(remaining.cells.inside, early.cells.inside, atol=1e-9)
    late = fit_statistics([*statistics[:-1][::-1], statistics[-1]])
    new = rows.drop("site", "ill")
    np.testing.assert_array_equal(late.predict_proba(new), model.predict_proba(new))


def test_only_whole_domains_are_subtracted(statistics, rows, plan):
    half = aggregate(rows_of(rows, "bonn")[:60], plan, site="bonn").statistics
    with pytest.raises(ValueError, match="whole domains only"):
        statistics[0].statistics - half
    assert isinstance(statistics[0].statistics + half, Statistics)


def test_the_novelty_score_knows_the_sites(model, rows):
    near = model.novelty(rows_of(rows, "kiel").drop("ill"))
    far = model.novelty(rows_of(rows, "kiel").drop("ill").with_columns(pl.col("crp") + 3000))
    assert near.nearest_domain == "kiel"
    assert not near.far
    assert far.far


# Validation


def test_combined_results_equal_a_validation_of_all_rows(frozen, rows, tmp_path):
    results = [score_site(frozen, rows_of(rows, site), site=site, smallest_cell=2) for site in SITES]
    combined = combine(send(results, tmp_path, "site"), cost="2:1")
    reference = validate(rows, domain="site", model=frozen, cost="2:1")
    by_measure = {key[1:]: values for key, values in reference.estimates.items()}
    own = {key[1:]: values for key, values in combined.estimates.items()}
    assert own.keys() == by_measure.keys()
    for key, by_site in by_measure.items():
        for site, one in by_site.items():
            for name in ("value", "se", "interval", "scaled_value", "scaled_se"):
                expected = getattr(one, name)
                np.testing.assert_allclose(getattr(own[key][site], name), expected, rtol=1e-9, atol=1e-9)
    for record, expected in zip(combined.summary_records, reference.summary_records, strict=True):
        for name in ("estimate", "low", "high", "prediction_low", "prediction_high", "tau"):
            np.testing.assert_allclose(record[name], expected[name], rtol=1e-9, atol=1e-9)
    for record, expected in zip(combined.site_records, reference.site_records, strict=True):
        for name, value in expected.items():
            if isinstance(value, float):
                np.testing.assert_allclose(record[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
            elif name != "model":
                assert record[name] == value


@pytest.mark.parametrize(("smallest_cell", "calibration", "others"), [(10, 0.07, 0.04), (1, 0.01, 0.015)])
def test_curves_are_those_of_all_rows_up_to_the_bins(frozen, rows, smallest_cell, calibration, others):
    results = [score_site(frozen, rows_of(rows, site), site=site, smallest_cell=smallest_cell) for site in SITES]
    binned = combine(results).curves["pooled"]
    exact = validate(rows, domain="site", model=frozen).curves["pooled"]
    points = np.linspace(0.05, 0.8, 20)
    for name, x, y in (("decision", "threshold", "model"), ("roc", "fpr", "tpr")):
        values = [np.interp(points, curves[name][x], curves[name][y]) for curves in (binned, exact)]
        assert np.abs(values[0] - values[1]).max() < others, name
    points = np.linspace(0.15, 0.85, 20)
    curves = [
        np.interp(points, one["calibration"]["predicted"], one["calibration"]["observed"]) for one in (binned, exact)
    ]
    assert np.abs(curves[0] - curves[1]).max() < calibration


def test_the_report_is_the_page_of_a_validation(results, model, tmp_path):
    combined = combine(results, model=model, event="fever", unit="patients")
    page = combined.to_html()
    assert "For your colleagues" in page
    assert "internal-external" in combined.methods_text()
    assert "no row left a site" in combined.methods_text()
    combined.write_tables(tmp_path)
    assert not (tmp_path / "predictions.csv").exists()
    assert (tmp_path / "summary.csv").exists()


def test_the_selected_setting_has_the_lowest_loss_and_makes_the_model(results, model, plan, rows, tmp_path):
    combined = combine(results, model=model)
    losses = {
        setting.name: np.mean([result.results[i].measures["log_loss", None].value for result in results])
        for i, setting in enumerate(plan.settings)
    }
    assert combined.setting == min(losses, key=losses.get)
    setting = next(setting for setting in plan.settings if setting.name == combined.setting)
    combined.model.save(tmp_path / "final.unseen")
    final = load_model(tmp_path / "final.unseen")
    new = rows.drop("site", "ill")
    prepared = final.table_model.prepare(final.schema.encode(new))
    expected = fit_on_rows(plan, setting, rows).predict_proba(prepared)
    np.testing.assert_allclose(final.predict_proba(new), expected, rtol=0, atol=1e-9)
    assert final.expected_performance.mean == pytest.approx(losses[combined.setting])
    again = score_site(final, rows_of(rows, "bonn"), site="bonn")
    assert [result.setting for result in again.results] == [""]


def test_each_site_reports_the_setting_that_is_best_elsewhere(results):
    records = combine(results).site_records
    names = [result.setting for result in results[0].results]
    losses = np.array([[one.measures["log_loss", None].value for one in result.results] for result in results])
    for i, record in enumerate(records):
        assert record["model"] == names[np.delete(losses, i, axis=0).mean(axis=0).argmin()]


def test_a_site_that_took_no_part_evaluates_models_of_all_sites(model, rows, plan):
    new = rows_of(make_rows(600, seed=9), "oslo")
    results = score_site(model, new, site="paris")
    prepared, codes = next(plan.read(new))
    P = fit_on_rows(plan, plan.settings[1], rows).predict_proba(prepared)
    loss = -np.log(P[np.arange(len(P)), codes]).mean()
    assert results.results[1].measures["log_loss", None].value == pytest.approx(loss, abs=1e-9)


# Privacy


def test_files_hold_no_small_count_no_extreme_and_no_row(rows, plan, model, tmp_path):
    own = rows_of(rows, "bonn").with_columns(age=pl.lit(61.25), crp=pl.Series(np.arange(150) * 1.0 + 0.123456))
    aggregate(own, plan, site="bonn").save(tmp_path / "bonn.stats.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        score_site(model, own, site="bonn").save(tmp_path / "bonn.site.json")
    for name in ("bonn.stats.json", "bonn.site.json"):
        text = (tmp_path / name).read_text()
        assert ".123456" not in text
        assert not {"min", "max", "rows"} & set(json.loads(text))
    content = json.loads((tmp_path / "bonn.site.json").read_text())
    n_events = content["counts"][1]
    for result in content["results"]:
        for half, n in zip(result["bins"], (n_events, 150 - n_events), strict=True):
            assert min(count for count, *_ in half) >= 10
            assert sum(count for count, *_ in half) == n
        for flagged, n in zip(result["flagged"], (n_events, 150 - n_events), strict=True):
            assert flagged in (0, n) or min(flagged, n - flagged) >= 10


def test_rows_of_small_classes_are_left_out_of_statistics_with_the_reason(rows, plan):
    own = rows_of(rows, "bonn")
    few = pl.concat([own.filter(pl.col("ill") == "no"), own.filter(pl.col("ill") == "yes")[:9]])
    with pytest.warns(DataWarning, match="left out rows of the class yes: fewer than 10"):
        site = aggregate(few, plan, site="bonn")
    assert site.class_counts.tolist() == [few.filter(pl.col("ill") == "no").height, 0]
    with pytest.raises(ExchangeError, match="no class has at least 10 rows"):
        aggregate(few[-9:], plan, site="bonn")


def test_results_of_small_classes_are_refused(model, rows):
    own = rows_of(rows, "bonn")
    few = pl.concat([own.filter(pl.col("ill") == "no"), own.filter(pl.col("ill") == "yes")[:9]])
    with pytest.raises(ExchangeError, match="9 rows of the class 'yes'; fewer than 10"):
        score_site(model, few, site="bonn")


def test_small_counts_at_the_threshold_are_rounded_with_a_note(frozen, rows):
    with pytest.warns(DataWarning, match="rounded to 0 or 60 rows"):
        results = score_site(frozen, rows_of(rows, "bonn"), site="bonn", smallest_cell=60)
    assert "rounded" in combine([results]).settings.notices[0]


def test_a_wrong_unit_is_noticed(rows, plan):
    months = rows_of(rows, "bonn").with_columns(pl.col("age") * 12)
    with pytest.warns(DataWarning, match="mean of 'age' is 4. scales from the center.*years"):
        aggregate(months, plan, site="bonn")


# Plans


def test_a_draft_is_a_plan_and_leaves_out_rare_levels(tmp_path):
    rows = make_rows(600).with_columns(doctor=pl.Series(["Dr. A"] * 590 + ["Dr. Rare"] * 10)[:600])
    rows = rows.with_columns(
        doctor=pl.when(pl.int_range(pl.len()) < 5).then(pl.lit("Dr. One")).otherwise(pl.col("doctor"))
    )
    (tmp_path / "study.toml").write_text(draft_plan(rows.drop("site"), label="ill", name="fever"))
    plan = load_plan(tmp_path / "study.toml")
    assert plan.classes.tolist() == ["no", "yes"]
    assert "Dr. One" not in (tmp_path / "study.toml").read_text()
    assert "Dr. Rare" in (tmp_path / "study.toml").read_text()
    assert len(plan.settings) == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ["no"]}, "classes"),
        ({"classes": ["no", 1]}, "classes"),
        ({"positive": "maybe"}, "positive"),
        ({"columns": {}}, "names no column"),
        ({"columns": {"age": {"center": 60}}}, "columns/age/scale.*missing"),
        ({"columns": {"age": {"center": 60, "scale": 0}}}, "columns/age/scale"),
        ({"columns": {"age": {"center": 60, "scale": 1, "min": 0}}}, "min.*not known"),
        ({"columns": {"ill": {"levels": ["a"]}}}, "label 'ill'"),
        ({"features": {"map": "nystroem"}}, "landmarks are rows"),
        ({"settings": []}, "names no method"),
        ({"settings": [{"method": "forest"}]}, "use one of CIDG"),
        ({"settings": [{"method": "CIDG", "kernel": "rbf"}]}, "kernel.*not known"),
        ({"settings": [{"method": "CIDG", "ridge": "big"}]}, "settings/0/ridge"),
        ({"settings": [{"method": "CIDG", "ridge": -1}]}, "settings/0/ridge"),
        ({"settings": [{"method": "KFDA", "ridge": list(range(1, 200))}]}, "more than 100"),
        ({"smallest_cell": 0}, "smallest_cell"),
        ({"treshold": 0.5}, "treshold.*not known"),
    ],
)
def test_errors_of_plans_name_the_field(changes, message):
    with pytest.raises(ExchangeError, match=message):
        make_plan(**changes)


def test_labels_that_the_plan_does_not_have_are_named(rows, plan):
    own = rows_of(rows, "bonn").with_columns(ill=pl.lit("maybe"))
    with pytest.raises(ExchangeError, match="'maybe'"):
        aggregate(own, plan, site="bonn")


# Combinations that do not fit together


def test_files_must_belong_together(statistics, results, model, frozen, rows, plan):
    with pytest.raises(ExchangeError, match="at least 3 sites; there are 2"):
        fit_statistics(statistics[:2])
    with pytest.raises(ExchangeError, match="is of the site 'bonn'"):
        fit_statistics([*statistics, statistics[0]])
    other = aggregate(rows_of(rows, "bonn"), make_plan(name="other"), site="paris")
    with pytest.raises(ExchangeError, match="follows another plan than statistics in memory"):
        fit_statistics([*statistics, other])
    with pytest.raises(ExchangeError, match="is of the site 'bonn'"):
        combine([*results, results[0]])
    with pytest.raises(ExchangeError, match="no files"):
        combine([])
    external = score_site(frozen, rows_of(rows, "bonn"), site="paris")
    with pytest.raises(ExchangeError, match="cannot be combined with results in memory, because the model differs"):
        combine([*results, external])
    with pytest.raises(ExchangeError, match="not the model that the sites evaluated"):
        combine(results, model=frozen)
    one_class = [aggregate(rows_of(rows, s).filter(pl.col("ill") == "no"), plan, site=s) for s in SITES]
    with pytest.raises(ExchangeError, match="class 'no' only"):
        fit_statistics(one_class)


def test_settings_that_cannot_be_fitted_are_left_out_with_a_warning(rows):
    plan = make_plan(settings=[{"method": "KFDA", "ridge": 0}, {"method": "KFDA"}])
    constant = rows.with_columns(sex=pl.lit("f"))
    model = fit_statistics(collect(constant, plan))
    assert np.isfinite(model.predict_proba(constant.drop("site", "ill"))).all()


# Files of strangers


def mutate(content, rng):
    """A copy of a file with one value, one key or one list changed."""
    content = json.loads(json.dumps(content))
    place = content
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[rng.integers(len(keys))]
        if not isinstance(place[key], (dict, list)) or not len(place[key]) or rng.random() < 0.15:
            break
        place = place[key]
    replacements = [None, True, -1, 10**30, 1e308, 0, "", "x" * 300, "\x1b[31m", [], {}, [[1]], 0.5, "bonn", 3, -0.2]
    action = rng.integers(4)
    if action == 0:
        del place[key]
    elif action == 1 and isinstance(place, list):
        place.append(place[key])
    elif action == 2 and type(place[key]) in (int, float):
        place[key] = place[key] * float(rng.choice([-1, 0.5, 2, 1e200]))
    else:
        place[key] = replacements[rng.integers(len(replacements))]
    return content


@pytest.mark.filterwarnings("ignore::unseen.exceptions.DataWarning")
def test_mutated_and_cut_files_raise_one_error_or_give_results(statistics, results, tmp_path):
    rng = np.random.default_rng(0)
    stats_files = send(statistics, tmp_path, "stats")
    site_files = send(results, tmp_path, "site")
    outcomes = {"error": 0, "result": 0}
    for i in range(500):
        is_statistics = bool(i % 2)
        files = stats_files if is_statistics else site_files
        text = files[0].read_text()
        changed = tmp_path / "changed.json"
        if i % 5 == 0:
            start, end = sorted(rng.integers(len(text), size=2).tolist())
            changed.write_text(text[:start] if i % 10 else text[:start] + text[end:])
        else:
            content = json.loads(text)
            for _ in range(rng.integers(1, 3)):
                content = mutate(content, rng)
            changed.write_text(json.dumps(content))
        message = ""
        try:
            if is_statistics:
                model = fit_statistics([changed, *files[1:]])
                assert np.isfinite(model.predict_proba(np.zeros((2, 3)))).all()
            else:
                assert combine([changed, *files[1:]]).summary_records
        except ExchangeError as error:
            message = str(error)
        outcomes["error" if message else "result"] += 1
        assert not message or "changed.json" in message
    assert outcomes["error"] > 350


@pytest.mark.parametrize(
    "content", ["", "[]", "[" * 100_000, '{"format": "unseen site results"}', "NaN", "\x00", "1e999"]
)
def test_other_files_raise_an_error_that_names_them(content, tmp_path):
    path = tmp_path / "strange.json"
    path.write_text(content)
    for load in (SiteResults.load, SiteStatistics.load):
        with pytest.raises(ExchangeError, match=r"strange\.json"):
            load(path)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ExchangeError, match="not a text file"):
        SiteResults.load(tmp_path / "bytes.json")
    with pytest.raises(ExchangeError, match="not a file"):
        SiteResults.load(tmp_path)


def test_scatter_that_no_rows_have_is_refused(statistics, tmp_path):
    statistics[0].save(tmp_path / "bonn.stats.json")
    content = json.loads((tmp_path / "bonn.stats.json").read_text())
    content["scatter"][1] = 1e6
    (tmp_path / "bonn.stats.json").write_text(json.dumps(content))
    with pytest.raises(ExchangeError, match=r"bonn\.stats\.json: scatter: is not the scatter of any rows"):
        SiteStatistics.load(tmp_path / "bonn.stats.json")


def test_a_model_of_a_stranger_is_checked(model, rows, tmp_path):
    from unseen.models import Model

    card = json.loads(json.dumps(model.card))
    card["exchange"]["models"][0]["fits"][0]["weights"] = [[1, 2]]
    with pytest.raises(ExchangeError, match="exchange/models/0/fits/0/weights"):
        score_site(Model(model.estimator, card, "bad.unseen"), rows_of(rows, "bonn"), site="bonn")
