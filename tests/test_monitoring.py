"""Control charts: the run length that is stated, detection of changes, and the log of batches."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from unseen.adaptation import (
    append_batch,
    average_run_length,
    draw_control_chart,
    limit_multiplier,
    read_batches,
    select_rows_to_label,
    summarize_history,
)


def test_the_run_length_agrees_with_published_values():
    """Lucas and Saccucci (1990), Table 3: r = 0.20 and L = 2.962 give an average run length of 500."""
    assert average_run_length(2.962) == pytest.approx(500, rel=0.01)
    assert limit_multiplier(500.0) == pytest.approx(2.962, abs=0.005)


def test_false_alarms_are_as_rare_as_stated_for_all_charts_together():
    """With a run length of N batches, the share of histories of T batches with an alarm is at most 1 - exp(-T / N)."""
    rng = np.random.default_rng(0)
    charts = [draw_control_chart(rng.normal(size=(60, 3)), 120.0) for _ in range(200)]
    alarmed = np.mean([chart.alarms.any() for chart in charts])
    expected = 1 - np.exp(-60 / 120)
    assert expected / 3 < alarmed <= expected + 2.5 * np.sqrt(expected * (1 - expected) / 200)


def test_charts_do_not_depend_on_location_and_scale():
    x = np.random.default_rng(1).normal(size=(40, 2))
    chart = draw_control_chart(x)
    moved = draw_control_chart(5 + 100 * x)
    np.testing.assert_allclose(chart.ewma, moved.ewma, atol=1e-8)


def test_a_change_of_two_standard_deviations_is_detected_soon():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(45, 40))
    values[30:] += 2.0
    charts = [draw_control_chart(values[:, j : j + 1], 500.0) for j in range(40)]
    assert np.mean([chart.alarms[:30].any() for chart in charts]) < 0.2
    assert np.mean([chart.alarms[30:].any() for chart in charts]) > 0.9


def test_missing_values_are_skipped():
    x = np.random.default_rng(3).normal(size=30)
    x[20:] += 4
    gaps = np.full(60, np.nan)
    gaps[::2] = x
    chart = draw_control_chart(gaps[:, None])
    np.testing.assert_allclose(chart.ewma[::2, 0], draw_control_chart(x[:, None]).ewma[:, 0])
    assert np.isnan(chart.ewma[1::2]).all()


def test_a_constant_series_raises_no_alarm_until_it_changes():
    x = np.ones((30, 1))
    x[20:] = 2.0
    chart = draw_control_chart(x)
    assert not chart.alarms[:20].any()
    assert chart.alarms[20:].any()


def test_a_run_length_below_one_batch_is_an_error():
    with pytest.raises(ValueError, match="run_length=1"):
        draw_control_chart(np.zeros((3, 1)), 1.0)


def make_summary(ill, n=100, right=None, ratio=1.0):
    agreement = None if right is None else {"rows": n, "right": right}
    labels = [{"label": "ill", "rows": ill}, {"label": "well", "rows": n - ill}]
    return {"rows": n, "labels": labels, "novelty": [{"ratio": ratio}], "confidence": 0.8, "agreement": agreement}


def test_batches_are_read_as_they_were_appended(tmp_path):
    log = tmp_path / "site.sqlite"
    append_batch(log, make_summary(30, right=80), model="abc", source="a.csv")
    append_batch(log, make_summary(40, ratio=None))
    first, second = read_batches(log)
    assert first["labels"] == {"ill": 30, "well": 70}
    assert (first["rows"], first["labeled"], first["correct"], first["model"]) == (100, 100, 80, "abc")
    assert (second["labeled"], second["novelty"]) == (0, None)


def test_a_history_names_what_changed_and_how(tmp_path):
    rng = np.random.default_rng(0)
    log = tmp_path / "site.sqlite"
    for t in range(40):
        share = 0.3 if t < 25 else 0.7
        append_batch(log, make_summary(int(rng.binomial(100, share)), right=int(rng.binomial(100, 0.8))))
    history = summarize_history(read_batches(log))
    assert [one["name"] for one in history["series"]] == ["novelty", "mean confidence", "share of ill", "accuracy"]
    assert {(alarm["series"], alarm["direction"]) for alarm in history["alarms"]} == {("share of ill", "higher")}
    assert 26 <= history["alarms"][0]["batch"] <= 30


def test_shares_of_unchanged_batches_keep_the_run_length():
    """Binomial shares of small batches, on their own scale, are normal enough for the stated limit."""
    rng = np.random.default_rng(1)
    alarmed = []
    for _ in range(60):
        batches = [
            {"time": "", "model": "", "source": "", "rows": 50, "labels": {"ill": k, "well": 50 - k}, "novelty": None}
            | {"confidence": None, "labeled": 0, "correct": 0}
            for k in rng.binomial(50, 0.1, size=40).tolist()
        ]
        alarmed.append(bool(summarize_history(batches, run_length=200.0)["alarms"]))
    assert np.mean(alarmed) < 0.35  # 1 - exp(-40 / 200) = 0.18, plus three standard errors


def test_histories_state_what_makes_limits_approximate(tmp_path):
    log = tmp_path / "site.sqlite"
    append_batch(log, make_summary(30), model="a")
    append_batch(log, make_summary(30, n=900), model="b")
    notices = " ".join(summarize_history(read_batches(log))["notices"])
    assert "100 to 900 rows" in notices
    assert "2 models" in notices
    assert "third batch" in notices


def test_files_of_other_programs_are_left_alone(tmp_path):
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    before = other.read_bytes()
    for action in (lambda: append_batch(other, make_summary(1)), lambda: read_batches(other)):
        with pytest.raises(ValueError, match="another program"):
            action()
    assert other.read_bytes() == before


def test_selected_rows_have_the_shares_of_the_table():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([2, 1, 0.5], size=300)
    rows = select_rows_to_label(P, 60)
    assert len(set(rows.tolist())) == 60
    shares = np.bincount(P.argmax(axis=1), minlength=3) / 300
    np.testing.assert_allclose(np.bincount(P[rows].argmax(axis=1), minlength=3) / 60, shares, atol=1.5 / 60)
    assert np.mean(P[rows].max(axis=1)) == pytest.approx(np.mean(P.max(axis=1)), abs=0.01)


def test_every_row_is_selected_equally_often():
    P = np.random.default_rng(0).dirichlet([1, 1], size=20)
    counts = np.zeros(20)
    for seed in range(1_000):
        counts[select_rows_to_label(P, 5, seed=seed)] += 1
    np.testing.assert_allclose(counts / 1_000, 0.25, atol=0.06)


def test_selection_of_all_rows_or_none():
    P = np.array([[0.5, 0.5], [0.2, 0.8]])
    assert select_rows_to_label(P, 10).tolist() == [0, 1]
    with pytest.raises(ValueError, match="n=0"):
        select_rows_to_label(P, 0)
