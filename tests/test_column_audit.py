"""The column audit finds planted faults and is quiet on clean tables; p-values of columns are those of scipy."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import unseen
from unseen.shift import audit_table
from unseen.shift._column_audit import CONVERSIONS, describe_findings
from unseen.tables import load_table

TABLES = Path(__file__).parents[2] / "shared" / "data" / "tables"
needs_tables = pytest.mark.skipif(not TABLES.is_dir(), reason="needs the tables in ../shared/data/tables")
ROLES = {"label": "label", "domain": "domain"}


def make_table(seed, n_domains=6, size=80, spread=0.3):
    """Mixed columns that differ between domains as sites do, related to the label and to each other."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_domains), size)
    n = len(codes)

    def shift():
        return (spread * rng.standard_normal(n_domains))[codes]

    label = (rng.random(n) < 1 / (1 + np.exp(-shift()))).astype(int)
    severity = rng.standard_normal(n) + label
    table = {
        "age": np.round(50 + 10 * (severity + shift()) + 5 * rng.standard_normal(n)),
        "chol": np.exp(5.3 + 0.2 * (rng.standard_normal(n) + shift())),
        "score": rng.standard_normal(n) + shift(),
        "visits": rng.poisson(np.exp(0.3 + shift())).astype(float),
        "smoker": np.where(severity + shift() > 0.3, "yes", "no").astype(object),
        "grade": np.digitize(severity + shift(), [0.0, 1.0]).astype(float),
        "label": label,
        "domain": np.array([f"site {d}" for d in range(n_domains)])[codes],
    }
    for name in ("age", "chol"):
        table[name][rng.random(n) < 0.05] = np.nan
    return table


def audit(table):
    return audit_table(load_table(table, **ROLES))


def named(table, column, kind):
    return [finding for finding in audit(table) if (finding.column, finding.kind) == (column, kind)]


# What the audit finds


@pytest.mark.parametrize("conversion", CONVERSIONS, ids=lambda conversion: conversion.name)
def test_a_conversion_of_units_is_found_and_undone(conversion):
    table = make_table(0)
    # A body temperature in degrees has a spread of 1 to 2 percent, which tells conversions apart.
    heat = 37 + 0.7 * np.random.default_rng(0).standard_normal(480)
    table["heat"] = np.where(table["domain"] == "site 2", conversion.factor * heat + conversion.offset, heat)
    [finding] = named(table, "heat", "units")
    assert (finding.domains, finding.severity) == (("site 2",), "high")
    assert finding.value == pytest.approx(conversion.factor)
    assert "in site 2 look as if they were in different units" in finding.message
    assert finding.action.endswith("leave it out.")


def test_zeros_for_missing_values_are_found_in_every_domain_that_has_them():
    table = make_table(1)
    table["chol"][table["domain"] == "site 0"] = 0.0
    table["chol"][np.flatnonzero(table["domain"] == "site 3")[:25]] = 0.0
    findings = audit(table)
    assert (findings[0].column, findings[0].kind, findings[0].value) == ("chol", "missing_code", 0)
    assert findings[0].domains == ("site 0", "site 3")
    assert findings[0].action.startswith("If 0 stands for a missing value")
    assert {finding.kind for finding in findings if finding.column == "chol"} == {"missing_code"}  # not constant


@pytest.mark.parametrize("column", ["age", "visits", "grade"])
@pytest.mark.parametrize("code", [-99.0, -9.0, 999.0])
@pytest.mark.parametrize("where", ["site 1", "site"])
def test_numbers_that_stand_for_missing_values_are_found_at_one_site_and_at_all_sites(column, code, where):
    table = make_table(2)
    table[column][np.char.startswith(table["domain"], where) & (np.arange(480) % 10 == 0)] = code
    [finding] = named(table, column, "missing_code")
    assert finding.value == code
    assert len(finding.domains) == (1 if where == "site 1" else 6)


def test_ordinary_zeros_and_nines_are_not_called_missing():
    table = make_table(3)
    rng = np.random.default_rng(3)
    here = table["domain"] == "site 5"
    # Zeros of abundances and of counts are ordinary, also where one domain has more of them.
    table["abundance"] = np.where(rng.random(480) < np.where(here, 0.6, 0.02), 0, rng.lognormal(-2, 1.5, size=480))
    table["count"] = rng.poisson(np.where(here, 1, 12)).astype(float)
    table["change"] = rng.integers(-1, 20, size=480).astype(float)
    table["old"] = np.clip(np.round(rng.normal(88, 8, size=480)), 40, 99)
    table["long tail"] = np.round(np.exp(rng.normal(4, 1.5, size=480)))
    table["long tail"][:3] = 999
    table["long tail"][3:6] = [930, 1010, 1050]
    assert [finding for finding in audit(table) if finding.kind == "missing_code"] == []


def test_a_column_that_is_constant_in_one_domain_is_found_on_all_rows():
    table = make_table(5)
    table["grade"][table["domain"] == "site 1"] = 1
    [finding] = named(table, "grade", "constant")
    assert finding.domains == ("site 1",)
    assert "is 1 in every row of site 1" in finding.message
    large = make_table(5, n_domains=3, size=6000)
    rows = np.flatnonzero(large["domain"] == "site 1")
    large["grade"][rows] = 1
    large["grade"][rows[:2]] = 0  # a sample of rows would miss them
    assert named(large, "grade", "constant") == []


def test_columns_that_identify_the_domain_are_found():
    table = make_table(6)
    rng = np.random.default_rng(6)
    codes = np.unique(table["domain"], return_inverse=True)[1]
    table["center"] = np.array([f"Center {name.upper()}" for name in table["domain"]], dtype=object)
    table["serial"] = 1000.0 * codes + rng.permutation(480) % 900
    table["beds"] = np.where(codes < 3, 100.0, 200.0)
    assert {f.column for f in audit(table) if f.kind == "identifies_domain"} == {"center", "serial"}


def test_a_column_with_one_known_value_in_a_domain_is_audited():
    table = make_table(6)
    codes = np.unique(table["domain"], return_inverse=True)[1]
    table["serial"] = 1000.0 * codes + np.random.default_rng(6).permutation(480) % 900
    table["serial"][np.flatnonzero(codes == 2)[1:]] = np.nan
    assert [finding.kind for finding in audit(table) if finding.column == "serial"] == ["missing"]


def test_missing_values_are_reported_by_size_and_taken_together():
    table = make_table(8)
    rng = np.random.default_rng(8)
    for i in range(8):
        share = 0.9 if i < 4 else 0.35
        values = rng.standard_normal(480)
        values[(table["domain"] != "site 0") & (rng.random(480) < share)] = np.nan
        table[f"x{i}"] = values
    findings = [finding for finding in audit(table) if finding.kind == "missing"]
    assert [finding.severity for finding in findings] == ["high"] * 4 + ["medium"] * 4
    often, seldom = describe_findings(findings)
    for sentence, first in ((often, "x0"), (seldom, "x4")):
        assert f"4 columns are missing more often in some domains than in others: '{first}'" in sentence
        assert sentence.endswith("Check them, or leave them out.")


# What it does not find


def test_clean_tables_have_no_findings():
    alarms = [
        finding.message for seed in range(40) for finding in audit(make_table(100 + seed, n_domains=3 + seed % 6))
    ]
    assert alarms == []


def test_a_column_that_differs_everywhere_seldom_has_a_domain_in_different_units():
    """Domains that differ by factors of 4 and more."""
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        domain = np.repeat([f"d{i}" for i in range(4 + seed % 8)], 30)
        scale = np.exp(1.5 * rng.standard_normal(4 + seed % 8)).repeat(30)
        x = scale * np.exp(0.3 * rng.standard_normal(len(domain)))
        table = {"x": x, "label": np.arange(len(domain)) % 2, "domain": domain}
        alarms += any(finding.kind == "units" for finding in audit(table))
    assert alarms <= 6


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(4, 12))
def test_any_columns_are_described(seed, n_domains, size):
    rng = np.random.default_rng(seed)
    n = n_domains * size
    table = {
        "large": 1e200 * rng.standard_normal(n),
        "few": np.where(np.arange(n) < 2, [3.0, 4.0, *[np.nan] * (n - 2)], np.nan),
        "truth": rng.random(n) < 0.5,
        "codes": rng.choice([-9.0, 0.0, 1.0, 999.0], size=n),
        "text": rng.choice(["a", "b"], size=n),
        "label": np.arange(n) % 2,
        "domain": np.repeat([f"d{i}" for i in range(n_domains)], size),
    }
    diagnosis = unseen.diagnose(load_table(table, **ROLES), n_permutations=3)
    assert json.loads(json.dumps(diagnosis.summary(), allow_nan=False)) == diagnosis.summary()
    assert repr(diagnosis.columns)


# Shift by column


def diagnose_columns(table):
    return unseen.diagnose(load_table(table, **ROLES), n_permutations=3).columns


def test_p_values_of_a_column_equal_those_of_scipy():
    """Of one class: an analysis of variance of ranks, of which Holm's correction doubles the smaller of two."""
    rng = np.random.default_rng(24)
    domain = rng.integers(4, size=300)
    numbers = [np.round(rng.normal(size=300) + 0.15 * domain, 1), rng.normal(size=300)]
    label = np.arange(300) < 3  # a class that is too small to have a spread in any domain
    domain[:3] = [0, 1, 2]
    table = {"dose": numbers[0], "age": numbers[1], "label": label, "domain": [f"d{d}" for d in domain]}
    p_values = {shift.column: shift.p_value for shift in diagnose_columns(table).shifts}
    ranks = [stats.rankdata(values[3:]) for values in numbers]
    low, high = sorted(stats.f_oneway(*(own[domain[3:] == d] for d in range(4))).pvalue for own in ranks)
    assert sorted(p_values.values()) == pytest.approx([2 * low, max(high, 2 * low)])


def test_the_column_that_shifts_most_is_first():
    table = make_table(26, spread=0.0)
    codes = np.unique(table["domain"], return_inverse=True)[1]
    table["score"] = table["score"] + 2.0 * (codes == 3)
    columns = diagnose_columns(table)
    assert columns.shifts[0].column == "score"
    assert columns.shifts[0].differences[3] == pytest.approx(2, abs=0.5)
    assert all(0 <= shift.explained <= 1 for shift in columns.shifts)
    assert "explain: 'score' (" in columns.sentences()[-1]
    assert columns.heat_map()["columns"][0] == "score"


# Real tables


@needs_tables
def test_the_first_sentences_on_heart_are_what_a_reader_sees():
    from studies.planted_faults import audit, read_table

    first, second, *_ = describe_findings(audit(read_table("heart")))
    assert "'chol' is 0 in 24% to 100% of the rows of switzerland and va, and in 0% of cleveland" in first
    assert "If 0 stands for a missing value" in first
    assert all(f"'{name}'" in second for name in ("ca", "thal", "slope"))


@needs_tables
@pytest.mark.slow
def test_planted_faults_are_named_and_other_columns_are_not():
    from studies.planted_faults import audit, false_alarms, is_named, plantings, read_table, table_names

    tables = {name: read_table(name) for name in table_names()}
    clean = {name: audit(table) for name, table in tables.items()}
    found, alarms = [], []
    for planting in plantings(tables, 60, seed=1):
        findings = audit(planting.table)
        found.append(is_named(planting, findings))
        alarms += false_alarms(planting, findings, clean[planting.table.name])
    assert np.mean(found) >= 0.85
    assert alarms == []
