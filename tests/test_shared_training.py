"""Validation splits of different held-out domains that train on the same rows are trained once."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from unseen.evaluation import Protocol, run
from unseen.tables import table_from_arrays


class CountedNB(GaussianNB):
    """Naive Bayes that counts its fits, and is interrupted at one of them."""

    n_fits = 0
    interrupt_at = None

    def fit(self, X, y, sample_weight=None):
        type(self).n_fits += 1
        if type(self).n_fits == type(self).interrupt_at:
            raise KeyboardInterrupt
        return super().fit(X, y, sample_weight)


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(CountedNB, "n_fits", 0)
    monkeypatch.setattr(CountedNB, "interrupt_at", None)
    return CountedNB


def make_table(n_domains=6, n_rows=200, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    domain = np.repeat([f"site {d}" for d in range(n_domains)], n_rows)
    y = rng.integers(n_classes, size=len(domain))
    X = rng.normal(size=(len(domain), 4)) + np.eye(4)[y] + np.repeat(rng.normal(size=(n_domains, 4)), n_rows, axis=0)
    return table_from_arrays(X, y, domain)


def stored_predictions(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM predictions").fetchone()[0]


def test_every_pair_of_domains_is_left_out_once(counted):
    m = 6
    run(make_table(m), [counted()])
    assert counted.n_fits == m * (m - 1) // 2 + m


def test_predictions_equal_those_of_each_held_out_domain_alone():
    # Tasks that hold out one domain share nothing if they are run one by one.
    table = make_table(4, 60)
    methods = ["auto", "CIDG", "logistic"]
    together = run(table, methods, Protocol(quick=True))
    for task in together.tasks:
        alone = run(table, methods, Protocol(quick=True), tasks=[task])
        rows = [row for row in together.rows if row.task == task.name]
        for row, expected in zip(rows, alone.rows, strict=True):
            assert row.method == expected.method
            assert row.method == "auto" or row.settings == expected.settings
            np.testing.assert_allclose(row.probabilities, expected.probabilities, atol=1e-6)
            assert row.validation == pytest.approx(expected.validation, abs=1e-9)


def test_a_class_of_one_domain_alone_is_unknown_where_that_domain_is_held_out():
    table = make_table(5, 80)
    y = table.y.copy()
    y[(table.domain == "site 2") & (np.arange(len(y)) % 2 == 0)] = 7
    table = table_from_arrays(table.X, y, table.domain)
    predictions = run(table, ["logistic"])
    alone = run(table, ["logistic"], tasks=[task for task in predictions.tasks if task.targets == ("site 2",)])
    row = next(row for row in predictions.rows if row.targets == ("site 2",))
    np.testing.assert_allclose(row.probabilities, alone.rows[0].probabilities, atol=1e-9)
    assert (row.probabilities[:, -1] == 0).all()
    others = [row for row in predictions.rows if row.targets != ("site 2",)]
    assert all((row.probabilities[:, -1] > 0).all() for row in others)


def test_an_interrupted_run_keeps_what_it_has_trained(counted, tmp_path):
    m = 6
    table = make_table(m)
    store = tmp_path / "results.sqlite"
    counted.interrupt_at = 12
    with pytest.raises(KeyboardInterrupt):
        run(table, [counted()], store=store)
    assert stored_predictions(store) == 2 * 11
    counted.interrupt_at = None
    resumed = run(table, [counted()], store=store)
    assert counted.n_fits == m * (m - 1) // 2 + m + 1
    uninterrupted = run(table, [counted()])
    for row, expected in zip(resumed.rows, uninterrupted.rows, strict=True):
        np.testing.assert_array_equal(row.probabilities, expected.probabilities)


def test_a_completed_run_leaves_results_alone(counted, tmp_path):
    store = tmp_path / "results.sqlite"
    run(make_table(), [counted()], store=store)
    assert stored_predictions(store) == 0
    n_fits = counted.n_fits
    run(make_table(), [counted()], store=store)
    assert counted.n_fits == n_fits
