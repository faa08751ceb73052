"""The column audit finds planted faults and is quiet on clean tables; its statistics equal independent ones."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from sklearn.linear_model import LogisticRegression

from unseen.metrics import random_effects
from unseen.shift._column_audit import audit_columns
from unseen.shift._column_shift import _pool, measure_column_shift, univariable_slopes
from unseen.shift._column_tests import (
    CONVERSIONS,
    LogStatistics,
    estimate_spread_prior,
    exceeds_share,
    is_excess,
    log_statistics,
    predict_next_domain,
)
from unseen.shift._column_values import columns_from_matrix, read_columns
from unseen.shift._new_columns import compare_columns, summarize_columns

TABLES = Path(__file__).parents[2] / "shared" / "data" / "tables"
FAULTS = {"units", "point_mass", "swapped_codes", "constant", "domain_copy", "identifies_domain", "new_category"}
needs_tables = pytest.mark.skipif(not TABLES.is_dir(), reason="needs the tables in ../shared/data/tables")


def make_table(rng, n_domains=6, size=80, spread=0.3):
    """Mixed columns that differ between domains as sites do, related to the label and to each other."""
    domain = np.repeat([f"site {d}" for d in range(n_domains)], size)
    codes = np.repeat(np.arange(n_domains), size)
    n = n_domains * size

    def shift():
        return (spread * rng.standard_normal(n_domains))[codes]

    label = (rng.random(n) < 1 / (1 + np.exp(-shift()))).astype(int)
    severity = rng.standard_normal(n) + label
    smoker = rng.random(n) < 1 / (1 + np.exp(-(1.5 * severity - 0.5 + shift())))
    grade = np.digitize(severity + 0.7 * rng.standard_normal(n), [0.0, 1.0])
    columns = {
        "age": np.round(50 + 10 * (severity + shift()) + 5 * rng.standard_normal(n)),
        "chol": np.exp(5.3 + 0.2 * (rng.standard_normal(n) + shift())),
        "score": rng.standard_normal(n) + shift(),
        "visits": rng.poisson(np.exp(0.3 + shift())).astype(float),
        "smoker": np.where(smoker, "yes", "no").astype(object),
        "grade": np.array(["low", "middle", "high"], dtype=object)[grade],
    }
    for name in ("age", "chol", "grade"):
        gaps = rng.random(n) < 0.05
        columns[name][gaps] = None if name == "grade" else np.nan
    return columns, label, domain


def named(audit, column, kind):
    return [finding for finding in audit.findings if finding.column == column and finding.kind == kind]


# What the audit finds


@pytest.mark.parametrize("conversion", CONVERSIONS, ids=lambda conversion: conversion.name)
def test_a_conversion_of_units_is_found_and_undone(conversion):
    rng = np.random.default_rng(0)
    columns, label, domain = make_table(rng)
    here = domain == "site 2"
    # A body temperature in degrees has a spread of 1 to 2 percent, which tells conversions apart.
    heat = 37 + 0.7 * rng.standard_normal(len(domain))
    columns["heat"] = np.where(here, conversion.factor * heat + conversion.offset, heat)
    [finding] = named(audit_columns(columns, label, domains=domain), "heat", "units")
    assert finding.domains == ("site 2",)
    assert finding.value == pytest.approx(conversion.factor)
    assert "site 2" in finding.message
    assert 'drop=["heat"]' in finding.action


def test_zeros_for_missing_values_are_found_in_every_domain_that_has_them():
    columns, label, domain = make_table(np.random.default_rng(1))
    columns["chol"][domain == "site 0"] = 0.0
    columns["chol"][np.flatnonzero(domain == "site 3")[:25]] = 0.0
    audit = audit_columns(columns, label, domains=domain)
    [finding] = named(audit, "chol", "point_mass")
    assert finding.domains == ("site 0", "site 3")
    assert finding.value == 0
    assert 'missing={"chol": 0}' in finding.action
    assert audit.findings[0] is finding


@pytest.mark.parametrize("sentinel", [-999.0, -9.0, 9999.0, 999.0])
def test_other_numbers_that_stand_for_missing_values_are_found(sentinel):
    columns, label, domain = make_table(np.random.default_rng(2))
    columns["age"][np.flatnonzero(domain == "site 1")[:20]] = sentinel
    [finding] = named(audit_columns(columns, label, domains=domain), "age", "point_mass")
    assert finding.domains == ("site 1",)
    assert finding.value == sentinel


def test_zeros_inside_the_range_of_a_measured_column_are_found():
    columns, label, domain = make_table(np.random.default_rng(3))
    columns["score"][np.flatnonzero(domain == "site 5")[:30]] = 0.0
    [finding] = named(audit_columns(columns, label, domains=domain), "score", "point_mass")
    assert finding.domains == ("site 5",)


@pytest.mark.parametrize("column", ["smoker", "grade"])
def test_exchanged_codes_are_found_by_their_relation_with_other_columns(column):
    columns, label, domain = make_table(np.random.default_rng(4))
    here = np.flatnonzero(domain == "site 4")
    exchange = {"yes": "no", "no": "yes", "low": "high", "high": "low", "middle": "middle", None: None}
    columns[column][here] = [exchange[value] for value in columns[column][here]]
    audit = audit_columns(columns, label, domains=domain)
    [finding] = [finding for finding in audit.findings if finding.kind == "swapped_codes"]
    assert (finding.column, finding.domains, finding.severity) == (column, ("site 4",), "high")


def test_a_column_that_is_constant_in_one_domain_is_found():
    columns, label, domain = make_table(np.random.default_rng(5))
    columns["grade"][domain == "site 1"] = "middle"
    columns["score"][domain == "site 2"] = 0.7
    audit = audit_columns(columns, label, domains=domain)
    assert named(audit, "grade", "constant")[0].domains == ("site 1",)
    assert any(f.column == "score" and f.domains == ("site 2",) for f in audit.findings)


@pytest.mark.parametrize("copy", [lambda name: name, lambda name: f"Center {name.upper()}", lambda name: hash(name)])
def test_a_copy_of_the_domain_is_found(copy):
    columns, label, domain = make_table(np.random.default_rng(6))
    columns["center"] = [copy(name) for name in domain.tolist()]
    [finding] = named(audit_columns(columns, label, domains=domain), "center", "domain_copy")
    assert finding.severity == "high"
    assert 'drop=["center"]' in finding.action


def test_a_column_that_identifies_the_domain_is_found():
    rng = np.random.default_rng(7)
    columns, label, domain = make_table(rng)
    columns["serial"] = 1000.0 * np.unique(domain, return_inverse=True)[1] + rng.permutation(len(domain)) % 900
    audit = audit_columns(columns, label, domains=domain)
    assert named(audit, "serial", "identifies_domain")


def test_missing_values_by_domain_are_taken_together_in_a_sentence():
    columns, label, domain = make_table(np.random.default_rng(8))
    for name in ("age", "score"):
        columns[name][domain != "site 0"] = np.nan
    audit = audit_columns(columns, label, domains=domain)
    first = audit.sentences()[0]
    assert "'age' and 'score' are missing by domain" in first
    assert 'drop=["age", "score"]' in first or 'drop=["score", "age"]' in first


def test_a_category_of_one_domain_and_a_spelling_are_found():
    columns, label, domain = make_table(np.random.default_rng(9))
    here = np.flatnonzero(domain == "site 3")
    columns["grade"][here[:30]] = "unknown"
    columns["smoker"][here] = [value.upper() for value in columns["smoker"][here]]
    audit = audit_columns(columns, label, domains=domain)
    assert named(audit, "grade", "new_category")[0].domains == ("site 3",)
    assert {finding.value for finding in named(audit, "smoker", "spelling")} == {"'YES'", "'NO'"}


def test_rows_that_lack_a_value_move_columns_and_the_domain_is_named_first():
    rng = np.random.default_rng(10)
    domain = np.repeat(["a", "b", "c", "d", "e"], 100)
    columns = {f"x{j}": np.exp(j + 0.1 * rng.standard_normal(500)) for j in range(12)}
    here = domain == "d"
    moved = {f"x{j}": columns[f"x{j + 1}"][here] for j in range(11)}
    for name, values in moved.items():
        columns[name][here] = values
    columns["x11"][here] = np.nan
    audit = audit_columns(columns, domains=domain)
    assert (audit.findings[0].kind, audit.findings[0].domains) == ("many_columns", ("d",))


def test_class_proportions_are_reported_by_size():
    rng = np.random.default_rng(11)
    domain = np.repeat(["a", "b", "c"], 200)
    rates = np.repeat([0.2, 0.5, 0.8], 200)
    label = np.where(rng.random(600) < rates, "ill", "well")
    audit = audit_columns({"x": rng.standard_normal(600)}, label, domains=domain, label_name="outcome")
    [finding] = audit.findings
    assert (finding.kind, finding.severity, finding.column) == ("prevalence", "high", "outcome")
    assert audit.prevalence["ill"]["a"] == pytest.approx((label[:200] == "ill").mean())


def test_with_two_domains_both_are_named():
    rng = np.random.default_rng(12)
    domain = np.repeat(["a", "b"], 200)
    chol = np.exp(5.3 + 0.2 * rng.standard_normal(400))
    chol[domain == "b"] /= 38.67
    [finding] = audit_columns({"chol": chol}, domains=domain).findings
    assert finding.kind == "units"
    assert set(finding.domains) == {"a", "b"}


def test_two_domains_in_other_units_do_not_hide_each_other():
    columns, label, domain = make_table(np.random.default_rng(32), n_domains=10)
    columns["chol"][domain == "site 1"] /= 38.67
    columns["chol"][domain == "site 7"] *= 1000
    findings = named(audit_columns(columns, label, domains=domain), "chol", "units")
    assert {finding.domains[0]: finding.value for finding in findings} == pytest.approx(
        {"site 1": 1 / 38.67, "site 7": 1000}
    )


def test_zeros_of_a_rounded_column_are_not_taken_for_a_conversion():
    """0 is 32 degrees Fahrenheit in degrees Celsius, and 32 may be a frequent value."""
    rng = np.random.default_rng(33)
    domain = np.repeat(["a", "b", "c", "d", "e"], 300)
    age = np.round(rng.normal(32, 3, size=1500))
    age[:200] = 0
    [finding] = audit_columns({"age": age}, domains=domain).findings
    assert (finding.kind, finding.value) == ("point_mass", 0)


# What it does not find


def test_clean_tables_have_few_false_alarms():
    """Each kind has a false alarm in at most 5% of tables; there are four kinds of tests, so 20% bound them all."""
    alarms = 0
    for seed in range(100):
        columns, label, domain = make_table(np.random.default_rng(100 + seed), n_domains=3 + seed % 6)
        audit = audit_columns(columns, label, domains=domain)
        alarms += any(finding.kind in FAULTS for finding in audit.findings)
    assert alarms <= 5


def test_a_column_that_differs_everywhere_seldom_has_a_domain_in_other_units():
    """Domains that differ by factors of 4 and more: predictive tests keep their level, whatever the spread."""
    rng = np.random.default_rng(13)
    alarms = 0
    for repeat in range(200):
        n_domains = 4 + repeat % 8
        domain = np.repeat([f"d{i}" for i in range(n_domains)], 30)
        scale = np.exp(1.5 * rng.standard_normal(n_domains)).repeat(30)
        audit = audit_columns({"x": scale * np.exp(0.3 * rng.standard_normal(len(domain)))}, domains=domain)
        alarms += any(finding.kind == "units" for finding in audit.findings)
    # 5% of 200 tables, and two standard errors of such a count.
    assert alarms <= 16


# How it behaves


def test_findings_do_not_depend_on_the_order_of_rows_and_columns():
    rng = np.random.default_rng(14)
    columns, label, domain = make_table(rng)
    columns["age"][domain == "site 1"] *= 12
    columns["smoker"][np.flatnonzero(domain == "site 2")] = "no"
    order = rng.permutation(len(domain))
    mixed = {name: columns[name][order] for name in reversed(columns)}
    first = audit_columns(columns, label, domains=domain)
    second = audit_columns(mixed, label[order], domains=domain[order])
    assert {f.message for f in first.findings} == {f.message for f in second.findings}
    assert len(first.findings) >= 2


def test_everything_is_plain_and_in_frames():
    pandas = pytest.importorskip("pandas")
    columns, label, domain = make_table(np.random.default_rng(15))
    columns["chol"][domain == "site 0"] = 0.0
    audit = audit_columns(columns, label, domains=domain)
    plain = json.loads(json.dumps(audit.to_dict(), allow_nan=False))
    assert plain["sentences"] == audit.sentences()
    assert len(plain["facts"]) == len(columns) * 6
    frame = audit.to_frame()
    own = frame[(frame["column"] == "chol") & (frame["domain"] == "site 0")].iloc[0]
    assert own["zeros"] == 1
    assert own["constant"]
    # A frame of pandas, with its own kinds of missing values, gives the same findings.
    again = audit_columns(pandas.DataFrame(columns).convert_dtypes(), pandas.Series(label), domains=domain)
    assert again.findings == audit.findings
    polars = pytest.importorskip("polars")
    once_more = audit_columns(polars.DataFrame(columns, nan_to_null=True), label, domains=domain)
    assert once_more.findings == audit.findings


def test_a_table_gives_what_its_columns_give(tmp_path):
    pl = pytest.importorskip("polars")
    from unseen.tables import load_table

    columns, label, domain = make_table(np.random.default_rng(16))
    columns["chol"][domain == "site 0"] = 0.0
    path = tmp_path / "table.csv"
    pl.DataFrame({**columns, "label": label, "domain": domain}, nan_to_null=True).write_csv(path)
    table = load_table(path)
    audit = audit_columns(columns_from_matrix(table.X, table.schema), table.y, domains=table.domain)
    assert audit.findings == audit_columns(columns, label, domains=domain).findings


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 12))
def test_any_columns_are_described(seed, n_domains, size):
    rng = np.random.default_rng(seed)
    n = n_domains * size
    domain = np.repeat(np.arange(n_domains), size)
    columns = {
        "all missing": np.full(n, np.nan),
        "constant": np.ones(n),
        "large": 1e200 * rng.standard_normal(n),
        "one value": np.where(np.arange(n) == 0, 3.0, np.nan),
        "truth": rng.random(n) < 0.5,
        "text": rng.choice(["a", "b", None], size=n),
        "codes": rng.integers(3, size=n),
    }
    label = rng.integers(2, size=n)
    audit = audit_columns(columns, label, domains=domain)
    json.dumps(audit.to_dict(), allow_nan=False)
    shifts = measure_column_shift(columns, label, domains=domain)
    json.dumps(shifts.to_dict(), allow_nan=False)
    summary = json.loads(json.dumps(summarize_columns(columns, domains=domain), allow_nan=False))
    json.dumps(compare_columns(summary, columns).to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("columns", "domains", "message"),
    [
        ({"a": [1, 2]}, ["x", "x"], "at least 2 domains"),
        ({"a": [1, 2]}, ["x"], "one label for each of 2 rows"),
        ({"a": [1, 2], "b": [1]}, ["x", "y"], "one length"),
        ({"a": [[1, 2], [3, 4]]}, ["x", "y"], "one-dimensional"),
        ({}, ["x", "y"], "at least one column"),
    ],
)
def test_wrong_input_is_named(columns, domains, message):
    with pytest.raises(ValueError, match=message):
        audit_columns(columns, domains=domains)


def test_a_matrix_is_not_taken_for_columns():
    with pytest.raises(TypeError, match="mapping"):
        read_columns(np.zeros((3, 2)))


# Statistics against independent ones


def test_the_predictive_distribution_has_its_limits():
    rng = np.random.default_rng(17)
    many = predict_next_domain(rng.normal(2, 3, size=5000), np.full(5000, 1e-6), prior_spread=0.1)
    assert many.mean == pytest.approx(2, abs=0.2)
    assert many.scale == pytest.approx(3, rel=0.05)
    # One domain says nothing about the variance between domains: the prior stays, and sampling error is added.
    one = predict_next_domain(np.array([1.0]), np.array([0.04]), prior_spread=0.5)
    assert one.mean == 1
    assert one.scale == pytest.approx(np.sqrt(0.25 + 0.25 + 0.04))
    assert one.log_density(0.3, 0.1) == pytest.approx(stats.t.logpdf(0.3, 4, 1, np.sqrt(one.scale**2 + 0.1)))
    assert one.quantile(0.999) == pytest.approx(stats.t.ppf(0.999, 4, 1, one.scale))
    assert one.tail(3.0, 0.1) == pytest.approx(stats.t.sf(2 / np.sqrt(one.scale**2 + 0.1), 4))


def test_a_binomial_tail_is_that_of_scipy():
    for count, size, share in ((0, 10, 0.1), (3, 10, 0.1), (10, 10, 0.9)):
        p_value = stats.binom.sf(count - 1, size, share)
        assert exceeds_share(count, size, share, p_value * 1.001)
        assert not exceeds_share(count, size, share, p_value * 0.999)


def test_shares_of_further_domains_are_rarely_in_excess():
    """Domains with log odds from a normal distribution with the prior's spread: the level holds."""
    rng = np.random.default_rng(18)
    alarms = 0
    for _ in range(2000):
        share = 1 / (1 + np.exp(-(rng.normal(-1, 1) + 0.5 * rng.standard_normal(6))))
        counts = rng.binomial(100, share)
        alarms += is_excess(int(counts[0]), 100, counts[1:], np.full(5, 100), level=0.05)
    assert alarms / 2000 <= 0.05


def test_logarithms_move_with_a_factor():
    values = np.random.default_rng(19).normal(10, 2, size=200)
    statistics = log_statistics(values)
    assert statistics is not None
    scaled = log_statistics(7.5 * values)
    undone = scaled.divide_by(7.5)
    assert (undone.mean, undone.sd, undone.top) == pytest.approx((statistics.mean, statistics.sd, statistics.top))
    assert log_statistics(np.array([0.0, 0.0, 1.0])) is None


def test_the_spread_between_domains_is_learned_from_many_columns():
    rng = np.random.default_rng(20)
    columns = []
    for _ in range(400):
        dof = 12
        spread = 0.3 * np.sqrt(dof / rng.chisquare(dof))
        columns.append([LogStatistics(10_000, m, 1.0, m + 1.3, 0.0) for m in spread * rng.standard_normal(6)])
    prior = estimate_spread_prior(columns)
    assert prior.spread == pytest.approx(0.3, rel=0.1)
    assert 6 <= prior.dof <= 24
    assert estimate_spread_prior(columns[:5]).dof == 4  # few columns: the fixed prior


def test_random_effects_maximize_the_restricted_likelihood():
    rng = np.random.default_rng(21)
    y = rng.normal(0.4, 0.5, size=9)
    errors = rng.uniform(0.1, 0.4, size=9)

    def criterion(log_tau):
        # The restricted likelihood is the density of y integrated over the mean: a normal density of contrasts.
        contrasts = np.linalg.svd(np.ones((1, 9)))[2][1:]
        covariance = contrasts @ np.diag(errors**2 + np.exp(2 * log_tau)) @ contrasts.T
        return -stats.multivariate_normal.logpdf(contrasts @ y, np.zeros(8), covariance)

    best = optimize.minimize_scalar(criterion, bounds=(-5, 2), method="bounded", options={"xatol": 1e-9})
    result = random_effects(y, errors)
    assert result.tau == pytest.approx(np.exp(best.x), rel=1e-5)
    weights = 1 / (errors**2 + result.tau**2)
    assert result.estimate == pytest.approx(np.average(y, weights=weights))
    same = random_effects(np.full(5, 0.3), np.full(5, 0.2))
    assert (same.tau, same.estimate, same.q_p_value) == pytest.approx((0, 0.3, 1))


def test_slopes_equal_logistic_regression_of_a_large_sample():
    rng = np.random.default_rng(22)
    X = rng.standard_normal((20_000, 2))
    X[rng.random(20_000) < 0.2, 1] = np.nan
    y = (rng.random(20_000) < 1 / (1 + np.exp(-(0.3 + 0.8 * X[:, 0])))).astype(float)
    slopes, errors = univariable_slopes(X, y)
    for column in range(2):
        rows = np.isfinite(X[:, column])
        reference = LogisticRegression(C=1e10, tol=1e-10).fit(X[rows, column : column + 1], y[rows])
        assert slopes[column] == pytest.approx(reference.coef_[0, 0], abs=1e-3)
        p = reference.predict_proba(X[rows, column : column + 1])[:, 1]
        design = np.column_stack([np.ones(rows.sum()), X[rows, column]])
        covariance = np.linalg.inv(design.T @ (design * (p * (1 - p))[:, None]))
        assert errors[column] == pytest.approx(np.sqrt(covariance[1, 1]), rel=1e-3)


def test_slopes_maximize_the_likelihood_with_firths_penalty():
    rng = np.random.default_rng(23)
    x = np.sort(rng.standard_normal(30))
    y = (np.arange(30) >= 14).astype(float)  # separated: without a penalty the slope is infinite
    design = np.column_stack([np.ones(30), x])

    def criterion(beta):
        eta = design @ beta
        p = 1 / (1 + np.exp(-eta))
        information = design.T @ (design * (p * (1 - p))[:, None])
        return -(y @ eta - np.logaddexp(0, eta).sum() + 0.5 * np.linalg.slogdet(information)[1])

    best = optimize.minimize(criterion, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    slopes, errors = univariable_slopes(x[:, None], y)
    assert slopes[0] == pytest.approx(best.x[1], rel=1e-4)
    assert np.isfinite(errors[0])


# Shift by column


def test_tests_of_one_class_equal_those_of_scipy():
    rng = np.random.default_rng(24)
    domain = rng.integers(4, size=300)
    number = np.round(rng.normal(size=300) + 0.15 * domain, 1)
    text = rng.choice(["a", "b", "c"], size=300)
    shifts = measure_column_shift({"number": number, "text": text}, np.zeros(300), domains=domain)
    p_values = {shift.column: shift.p_value for shift in shifts.shifts}
    kruskal = stats.kruskal(*(number[domain == d] for d in range(4))).pvalue
    table = np.array([[((domain == d) & (text == t)).sum() for t in "abc"] for d in range(4)])
    statistic, _, freedom, _ = stats.chi2_contingency(table)
    chi_square = stats.chi2.sf(statistic * 299 / 300, freedom)
    low, high = sorted((kruskal, chi_square))
    expected = {kruskal: min(2 * low, 1), chi_square: min(2 * low, 1)}
    expected[high] = max(expected[low], high)
    assert p_values["number"] == pytest.approx(expected[kruskal])
    assert p_values["text"] == pytest.approx(expected[chi_square])
    distances = [own.distance for own in next(s for s in shifts.shifts if s.column == "number").domains]
    for d in range(4):
        reference = stats.ks_2samp(number[domain == d], number[domain != d]).statistic
        assert distances[d] == pytest.approx(reference)


def test_p_values_are_uniform_without_a_shift_within_classes():
    """Class proportions differ between domains and classes differ in the column: that alone is not a shift."""
    rng = np.random.default_rng(25)
    p_values = []
    for _ in range(300):
        domain = np.repeat(np.arange(4), 60)
        label = (rng.random(240) < np.repeat([0.2, 0.4, 0.6, 0.8], 60)).astype(int)
        shifts = measure_column_shift({"x": 2 * label + rng.standard_normal(240)}, label, domains=domain)
        p_values.append(shifts.shifts[0].p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


def test_shares_add_up_and_follow_the_shift():
    columns, label, domain = make_table(np.random.default_rng(26), spread=0.0)
    columns["score"] = columns["score"] + 2.0 * (np.unique(domain, return_inverse=True)[1] % 3)
    shifts = measure_column_shift(columns, label, domains=domain)
    assert shifts.shifts[0].column == "score"
    assert sum(shift.share for shift in shifts.shifts) == pytest.approx(1)
    assert shifts.shifts[0].share > 0.9
    # Explained variance of ranks is that of an analysis of variance: between 0 and 1.
    assert all(0 <= shift.explained <= 1 for shift in shifts.shifts)


def test_the_odd_domain_is_named_and_a_column_that_differs_everywhere_has_none():
    columns, label, domain = make_table(np.random.default_rng(27), n_domains=8)
    codes = np.unique(domain, return_inverse=True)[1]
    columns["score"] = columns["score"] + 6.0 * (codes == 3)
    columns["visits"] = columns["visits"] + 5.0 * codes
    shifts = {s.column: s for s in measure_column_shift(columns, label, domains=domain).shifts}
    assert shifts["score"].odd_domains == ("site 3",)
    assert shifts["visits"].odd_domains == ()
    assert shifts["score"].domains[3].difference == pytest.approx(6, abs=1)


def test_effects_that_change_sign_are_named():
    rng = np.random.default_rng(28)
    domain = np.repeat([f"d{i}" for i in range(6)], 300)
    x = rng.standard_normal(1800)
    slope = np.where(domain == "d2", -1.0, 1.0)
    label = rng.random(1800) < 1 / (1 + np.exp(-slope * x))
    result = measure_column_shift({"x": x, "noise": rng.standard_normal(1800)}, label, domains=domain)
    effects = {effect.column: effect for effect in result.effects}
    assert effects["x"].opposite == ("d2",)
    assert result.effects[0].column == "x"
    # Five slopes of 1 and one of -1: mean 2/3 and standard deviation 0.82.
    assert effects["x"].mean == pytest.approx(2 / 3, abs=0.15)
    assert effects["x"].tau == pytest.approx(0.82, abs=0.2)
    assert effects["noise"].opposite == ()
    assert effects["noise"].tau < 0.2


@pytest.mark.parametrize(("slope", "opposite"), [(0.2, ()), (0.8, ("d0",))])
def test_an_effect_changes_sign_only_if_both_signs_are_significant(slope, opposite):
    """A slope of 0.2 with a standard error of 0.15 may be zero: one negative slope is no change of sign."""
    slopes = np.array([-0.7, *[slope] * 5])
    domain = SimpleNamespace(names=[f"d{i}" for i in range(6)])
    mean, *_, found = _pool(slopes, np.full(6, 0.15), np.arange(6), domain)
    assert mean > 0
    assert found == opposite


def test_the_heat_map_frames_odd_domains():
    plt = pytest.importorskip("matplotlib.pyplot")
    from matplotlib.patches import Rectangle

    from unseen.report._column_figures import draw_column_shift

    columns, label, domain = make_table(np.random.default_rng(29), n_domains=8)
    columns["score"] = columns["score"] + 6.0 * (domain == "site 3")
    data = measure_column_shift(columns, label, domains=domain).heat_map(max_columns=4)
    assert data == json.loads(json.dumps(data))
    assert np.shape(data["differences"]) == (4, 8)
    figure = draw_column_shift(data)
    axes = figure.axes[0]
    frames = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert len(frames) == np.sum(data["odd"]) >= 1
    assert [text.get_text() for text in axes.get_yticklabels()] == data["columns"]
    figure.canvas.draw()
    plt.close(figure)


# New tables


@pytest.fixture(scope="module")
def summary():
    columns, _, domain = make_table(np.random.default_rng(30))
    return summarize_columns(columns, domains=domain)


def new_table(seed=31, spread=0.3):
    columns, _, domain = make_table(np.random.default_rng(seed), n_domains=6, spread=spread)
    here = domain == "site 0"
    return {name: values[here] for name, values in columns.items()}


def test_a_table_of_the_same_population_is_not_far(summary):
    alarms = 0
    for seed in range(40):
        new = compare_columns(summary, new_table(200 + seed))
        alarms += bool(new.findings)
    assert alarms <= 2


def test_other_units_are_named_with_their_factor(summary):
    columns = new_table()
    columns["chol"] = columns["chol"] / 38.67
    new = compare_columns(json.loads(json.dumps(summary)), columns)
    [finding] = new.findings
    assert (finding.column, finding.kind) == ("chol", "units")
    assert finding.value == pytest.approx(1 / 38.67)
    assert "38.67" in finding.action
    assert new.columns[0].column == "chol"
    assert new.columns[0].is_far
    assert new.columns[0].share > 0.9


def test_new_missingness_categories_and_zeros_are_named(summary):
    columns = new_table()
    del columns["age"]
    columns["grade"][:40] = "unknown"
    columns["score"][:30] = 0.0
    kinds = {(finding.column, finding.kind) for finding in compare_columns(summary, columns).findings}
    assert kinds == {("age", "missing"), ("grade", "new_category"), ("score", "point_mass")}


def test_a_column_that_moves_is_named_as_far(summary):
    columns = new_table()
    columns["score"] = columns["score"] + 8
    new = compare_columns(summary, columns)
    assert new.columns[0].column == "score"
    assert "score" in new.far_columns
    assert any("'score'" in sentence for sentence in new.sentences())


def test_a_summary_is_small_and_checked(summary):
    columns, _, domain = make_table(np.random.default_rng(30), size=800)
    larger = summarize_columns(columns, domains=domain)
    assert len(json.dumps(larger)) < 1.1 * len(json.dumps(summary))
    with pytest.raises(ValueError, match="version"):
        compare_columns({**summary, "version": 0}, columns)
    with pytest.raises(ValueError, match="held numbers in training"):
        compare_columns(summary, {"age": ["old", "young"] * 10})


# Real tables


@needs_tables
def test_the_first_sentences_on_heart_are_what_a_reader_sees():
    from studies.planted_faults import audit, read_table

    first, second, third = audit(read_table("heart")).sentences()[:3]
    assert "'chol' is 0 in 100% of switzerland" in first
    assert 'missing={"chol": 0}' in first
    assert all(f"'{name}'" in second for name in ("ca", "thal", "slope"))
    assert "missing by domain" in second
    assert "Class" in third
    assert "7% of switzerland" in third


@needs_tables
@pytest.mark.slow
def test_planted_faults_are_named_and_other_columns_are_not():
    from studies.planted_faults import audit, false_alarms, is_named, plantings, read_table, table_names

    tables = {name: read_table(name) for name in table_names()}
    clean = {name: audit(table) for name, table in tables.items()}
    found, alarms = [], []
    for planting in plantings(tables, 100, seed=1):
        findings = audit(planting.table).findings
        if planting.detectable:
            found.append(is_named(planting, findings))
        alarms.append(bool(false_alarms(planting, findings, clean[planting.table.name])))
    assert np.mean(found) >= 0.95
    assert np.mean(alarms) <= 0.05
