"""The study engine: what it trains on, what it holds out, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from study_sample import PAIR, QUICK, SAMPLES, D, X, Y, facts, problem, study
from unseen.evaluation import Protocol, Task, make_tasks
from unseen.evaluation._protocol import subsample_domains
from unseen.evaluation._run import make_problem
from unseen.utils.samples import Samples


def test_one_and_two_left_out_of_four_are_the_papers_ten_tasks():
    names = [task.name for task in make_tasks("ACDW") + make_tasks("ACDW", 2)]
    assert names == [
        "C,D,W -> A",
        "A,D,W -> C",
        "A,C,W -> D",
        "A,C,D -> W",
        "D,W -> A,C",
        "C,W -> A,D",
        "C,D -> A,W",
        "A,W -> C,D",
        "A,D -> C,W",
        "A,C -> D,W",
    ]


@pytest.mark.parametrize(
    ("domains", "n_targets", "message"),
    [
        ("AA", 1, "domains must have different names"),
        ("ABC", 3, "got 3"),
        ("ABC", 0, "got 0"),
        ("A", 1, "of the 1 domains"),
    ],
)
def test_impossible_tasks_are_refused(domains, n_targets, message):
    with pytest.raises(ValueError, match=message):
        make_tasks(domains, n_targets)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selection": "test"}, "selection must be one of within, domain, oracle; got 'test'"),
        ({"preprocess": "pca"}, "preprocess must be one of l2, standardize, none; got 'pca'"),
        ({"centering": "both"}, "centering must be one of source, target; got 'both'"),
        ({"repeats": 0}, "repeats must be an integer of at least 1; got 0"),
        ({"repeats": 2.5}, "repeats .* got 2.5"),
        ({"seed": -1}, "seed must be an integer of at least 0; got -1"),
        ({"train_size": 1.5}, "train_size must lie between 0 and 1; got 1.5"),
        ({"train_size": 0}, "train_size must lie between 0 and 1; got 0"),
    ],
)
def test_a_protocol_refuses_what_it_does_not_know(options, message):
    with pytest.raises(ValueError, match=message):
        Protocol(**options)


def test_a_draw_takes_its_share_of_each_source_and_the_whole_target():
    train, test = Protocol().draw_split(SAMPLES, PAIR, 0)
    for name in PAIR.sources:
        assert abs(np.sum(D[train] == name) - 0.7 * D.tolist().count(name)) < 1
    assert set(D[train]) == set(PAIR.sources)
    assert len(np.unique(train)) == len(train)
    np.testing.assert_array_equal(test, np.flatnonzero(np.isin(D, PAIR.targets)))


def test_what_is_drawn_of_a_domain_does_not_depend_on_the_task():
    drawn = [Protocol().draw_split(SAMPLES, task, 0)[0] for task in (PAIR, *make_tasks("abcd"))]
    for name in "abcd":
        of_it = {tuple(rows[D[rows] == name]) for rows in drawn}
        assert len(of_it - {()}) == 1


def test_draws_repeat_themselves_and_differ_between_repeats_and_seeds():
    def drawn(repeat, seed=0):
        return Protocol(seed=seed).draw_split(SAMPLES, PAIR, repeat)[0].tolist()

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)
    assert drawn(0) != drawn(0, seed=7)
    assert drawn(1) == drawn(0, seed=1)


def splits_of(selection, task=PAIR):
    protocol = Protocol(selection=selection)
    train, test = protocol.draw_split(SAMPLES, task, 0)
    return train, test, protocol.validation_splits(SAMPLES, train, test, 0)


def test_within_holds_out_thirty_percent_of_the_training_data():
    train, _, [(fit, held_out)] = splits_of("within")
    assert sorted([*fit, *held_out]) == sorted(train)
    assert len(fit) / len(train) == pytest.approx(0.7, abs=0.1)  # whole samples of each class
    assert set(D[held_out]) == set(PAIR.sources)


def test_domain_holds_out_one_source_after_the_other():
    train, _, splits = splits_of("domain")
    assert [set(D[held_out]) for _, held_out in splits] == [{"a"}, {"b"}]
    for fit, held_out in splits:
        assert sorted([*fit, *held_out]) == sorted(train)
        assert not set(D[fit]) & set(D[held_out])


def test_oracle_is_the_target_itself():
    train, test, [(fit, held_out)] = splits_of("oracle")
    np.testing.assert_array_equal(held_out, test)
    np.testing.assert_array_equal(fit, train)


def test_with_a_single_source_domain_selection_falls_back_to_within():
    single = Task(("a",), ("b",))
    found, expected = splits_of("domain", single)[2], splits_of("within", single)[2]
    for pair, other in zip(found, expected, strict=True):
        for one, two in zip(pair, other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_the_preprocessing_is_fitted_on_the_training_data():
    found = problem(Protocol(preprocess="standardize"))
    prepared, n = found.prepared.X, len(found.train)
    np.testing.assert_allclose(prepared[:n].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(prepared[:n].std(axis=0), 1)
    assert np.abs(prepared[n:].mean(axis=0)).max() > 0.1


def test_a_preprocessor_is_fitted_on_the_training_data_and_may_fill_in_missing_values(tmp_path):
    holes = X.copy()
    holes[::7, 0] = np.nan
    fill = make_pipeline(SimpleImputer(), StandardScaler())
    rows = study(tmp_path, data=(holes, Y, D), preprocessor=fill)
    assert {row.status for row in rows} == {"ok"}
    train, _ = QUICK.draw_split(SAMPLES, PAIR, 0)
    expected = clone(fill).fit(holes[train]).transform(holes[train])
    found = make_problem(Samples(holes, Y, D), PAIR, 0, QUICK, fill)
    assert_array_equal(found.prepared.X[: len(train)], expected)
    other = study(tmp_path, data=(holes, Y, D), preprocessor=SimpleImputer())
    assert facts(other) == facts(study(tmp_path, data=(holes, Y, D), preprocessor=SimpleImputer(), name="fresh.sqlite"))


def test_at_most_so_many_samples_of_each_domain_are_kept_in_order():
    kept = subsample_domains(D, 5, seed=3)
    assert (np.diff(kept) > 0).all()
    assert {(D[kept] == name).sum() for name in np.unique(D)} == {5}
    assert_array_equal(subsample_domains(D, None), np.arange(len(D)))
    assert_array_equal(subsample_domains(D, 10**6), np.arange(len(D)))
    assert subsample_domains(D, 5, seed=4).tolist() != kept.tolist()


def test_a_draw_keeps_every_class_of_every_domain():
    rare = np.where(np.arange(len(Y)) < 2, "rare", Y.astype(str))
    kept = subsample_domains(D, 8, y=rare)
    assert (rare[kept] == "rare").sum() == 2
    assert {(d, label) for d, label in zip(D[kept], rare[kept], strict=True)} == set(zip(D, rare, strict=True))
    assert {(D[kept] == name).sum() for name in np.unique(D)} == {8}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["CIDG", "magic"]}, "There is no method 'magic'; there are 1-NN, KPCA"),
        ({"methods": []}, "at least one method and one task; got 0 and 1"),
        ({"todo": ()}, "at least one method and one task; got 3 and 0"),
        ({"todo": (Task(("a",), ("z",)),)}, "domains that the data do not have: z"),
        ({"data": (np.where(X > 2, np.nan, X), Y, D)}, "X contains NaN"),
        ({"data": (X, Y[1:], D)}, "inconsistent numbers of samples"),
    ],
)
def test_a_study_refuses_what_it_cannot_run(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        study(tmp_path, **options)
    assert not list(tmp_path.iterdir())
