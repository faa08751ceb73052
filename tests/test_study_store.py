"""What a study stores: rows that come back, are not made twice, and do not mix."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from study_sample import FEW, ONCE, PAIR, QUICK, D, X, Y, facts, study
from unseen import KFDA
from unseen.evaluation import Row, Store, make_tasks
from unseen.evaluation._run import Execution, SideTask, TestJob, ValidationJob, all_results
from unseen.model_selection import METHODS as TABLE
from unseen.utils.samples import Samples

pytestmark = pytest.mark.usefixtures("few_trees")


class BrokenProjection(KFDA):
    def _scatter_problem(self, counts, ridge):
        if counts.sum() > 4:  # of samples, not of what a search asks about methods
            raise ValueError("no components today")
        return super()._scatter_problem(counts, ridge)


def test_a_choice_is_not_made_again_after_a_run_that_ended_before_its_trial(tmp_path, monkeypatch):
    def no_trial(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TestJob, "run", no_trial)
        with pytest.raises(KeyboardInterrupt):
            study(tmp_path, todo=make_tasks("abcd"))
    monkeypatch.setattr(ValidationJob, "run", None)
    protocol = ONCE  # whose choices were the first
    rows = study(tmp_path, protocol, todo=make_tasks("abcd"))
    monkeypatch.undo()
    assert facts(rows) == facts(study(tmp_path, protocol, todo=make_tasks("abcd"), name="fresh.sqlite"))


def interrupt_after(writes, method, monkeypatch):
    """Interrupt a study once a method of the store has written so many times."""
    write, left = getattr(Store, method), iter(range(writes))

    def write_some(store, *args):
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(store, *args)

    monkeypatch.setattr(Store, method, write_some)


@pytest.mark.parametrize(
    ("method", "writes", "n_tasks"),
    [
        ("add", 1, 1),
        pytest.param("add", 3, 2, marks=pytest.mark.slow),
        pytest.param("add_scores", 5, 2, marks=pytest.mark.slow),
    ],
)
def test_a_resumed_comparison_gives_the_bits_of_an_uninterrupted_one(tmp_path, monkeypatch, method, writes, n_tasks):
    """The weights of an ensemble amplify rounding: they differ by 1e-9 if its votes differ in the last bit."""
    methods, todo = ["logistic", "auto"], make_tasks("abcd")[:n_tasks]
    whole = facts(study(tmp_path, ONCE, methods, todo, name="whole.sqlite"))
    with monkeypatch.context() as patch:
        interrupt_after(writes, method, patch)
        with pytest.raises(KeyboardInterrupt):
            study(tmp_path, ONCE, methods, todo)
    assert facts(study(tmp_path, ONCE, methods, todo)) == whole


class Broken(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        raise ValueError("no solver today")


def test_a_failure_is_a_row_and_is_tried_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        # The grids stay as they are: another one would be another configuration.
        patch.setitem(TABLE, "logistic", replace(TABLE["logistic"], classifier=Broken()))
        patch.setitem(TABLE, "KFDA", replace(TABLE["KFDA"], transformer=BrokenProjection()))
        rows = study(tmp_path)
    assert len(rows) == 6
    by_method = {method: [row for row in rows if row.method == method] for method in FEW}
    assert {row.status for row in by_method["1-NN"]} == {"ok"}
    for row in (*by_method["logistic"], *by_method["KFDA"]):
        assert (row.status, row.accuracy, row.accuracies, row.settings) == ("failed", None, {}, {})
    assert by_method["logistic"][0].reason == "ValueError: no solver today"
    assert by_method["KFDA"][0].reason == "ValueError: no components today"
    again = study(tmp_path)
    assert {row.status for row in again} == {"ok"}
    assert [row for row in again if row.method == "1-NN"] == by_method["1-NN"]  # not run again: the time is the same


def test_what_is_done_is_not_run_again(tmp_path, monkeypatch):
    rows = study(tmp_path)
    monkeypatch.setattr("unseen.evaluation._run.run_job", None)
    assert study(tmp_path) == rows
    assert study(tmp_path, methods=["KFDA"]) == [row for row in rows if row.method == "KFDA"]


def test_more_repeats_continue_the_same_configuration(tmp_path):
    two = study(tmp_path)
    three = study(tmp_path, replace(QUICK, repeats=3))
    assert [row for row in three if row.repeat < 2] == two
    assert len(three) == len(FEW) * 3
    with sqlite3.connect(tmp_path / "results.sqlite") as connection:
        # One for all methods, and one for each.
        assert connection.execute("SELECT count(*) FROM configurations").fetchone() == (1 + len(FEW),)
    connection.close()


@pytest.mark.parametrize(
    "change",
    [{"seed": 5}, {"preprocess": "none"}, {"centering": "source"}, {"selection": "within"}, {"train_size": 0.5}],
    ids=str,
)
def test_another_protocol_in_the_same_store_does_not_mix(tmp_path, change):
    first = study(tmp_path, ONCE)
    other = study(tmp_path, replace(ONCE, **change))
    assert facts(other) == facts(study(tmp_path, replace(ONCE, **change), name="fresh.sqlite"))
    assert study(tmp_path, ONCE) == first


def test_other_data_in_the_same_store_do_not_mix(tmp_path):
    first = study(tmp_path, ONCE)
    relabelled = np.where(Y == 0, 1, np.where(Y == 1, 0, Y))
    relabelled[:5] = 2
    for data in ((X + 1e-3, Y, D), (X, relabelled, D), (X, Y, np.where(D == "a", "b", np.where(D == "b", "a", D)))):
        assert facts(study(tmp_path, ONCE, data=data)) == facts(study(tmp_path, ONCE, data=data, name="fresh.sqlite"))
        (tmp_path / "fresh.sqlite").unlink()
    assert study(tmp_path, ONCE) == first
    with sqlite3.connect(tmp_path / "results.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM configurations").fetchone() == (4 * (1 + len(FEW)),)
    connection.close()


def test_another_grid_in_the_same_store_does_not_mix(tmp_path, monkeypatch):
    study(tmp_path, methods=["logistic"])
    monkeypatch.setitem(TABLE, "logistic", replace(TABLE["logistic"], grid={"C": [1e-9, 1e-8]}))
    assert {row.settings["C"] for row in study(tmp_path, methods=["logistic"])} <= {1e-9, 1e-8}


def test_predictions_give_the_accuracy(tmp_path):
    task = PAIR
    for row in study(tmp_path):
        with Store(tmp_path / "results.sqlite") as store:
            query = "SELECT DISTINCT configuration FROM results WHERE method = ?"
            (configuration,) = store._connection.execute(query, (row.method,)).fetchone()
            predicted = store.predictions(configuration, row.method, row.task, row.repeat)
        truth = np.unique(Y, return_inverse=True)[1][np.isin(D, task.targets)]
        assert row.accuracy == np.mean(predicted == truth)


def test_two_processes_find_what_one_finds(tmp_path):
    one = study(tmp_path)
    two = study(tmp_path, name="two.sqlite", n_jobs=2)
    assert facts(one) == facts(two)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_side_task_runs_in_a_process_of_the_jobs_if_there_are_several(n_jobs):
    task = SideTask(os.getpid)
    execution = Execution(n_jobs=n_jobs, side_task=task)
    samples = Samples(X, Y, D)
    results = list(all_results(samples, [PAIR], ONCE, methods=["1-NN", "nearest mean"], execution=execution))
    assert [result.row.method for result in results] == ["1-NN", "nearest mean"]
    assert task.is_done == (n_jobs == 2)
    assert (task.get_result() == os.getpid()) == (n_jobs == 1)


def test_each_row_tells_its_seed_time_and_machine(tmp_path):
    for row in study(tmp_path, replace(QUICK, seed=11)):
        assert row.seed == 11 + row.repeat
        assert row.seconds > 0
        assert {"unseen", "numpy", "scikit-learn", "cores", "blas"} <= set(row.machine)
        assert row.accuracy == pytest.approx(np.mean(list(row.accuracies.values())))  # targets of equal size
        assert row.transductive == (row.method == "KFDA")


def test_rows_come_back_as_they_were_written(tmp_path):
    fine = Row(
        "K|PCA",
        "a_b -> ü",
        3,
        4,
        1 / 3,
        {"ü": 1 / 3},
        0.75,
        {"gamma": "0.1*median", "n": [1, None]},
        2,
        True,
        0.1,
        "ok",
        "",
        {},
    )
    failed = replace(fine, method="1-NN", accuracy=None, accuracies={}, status="failed", reason='it\'s "odd"\n')
    with Store(tmp_path / "new" / "results.sqlite") as store:
        store.add_configuration("k", {"data": "x"})
        store.add("k", fine, np.array([2, 0, 70_000]))
        store.add("k", failed)
        store.add("other", replace(fine, repeat=9))
    with Store(tmp_path / "new" / "results.sqlite") as store:
        assert store.rows("k") == [failed, fine]
        better = replace(failed, accuracy=0.5, status="ok", reason="")
        store.add("k", better)
        assert store.rows("k") == [better, fine]
        assert store.rows("unknown") == []
        assert store.predictions("k", "K|PCA", "a_b -> ü", 3).tolist() == [2, 0, 70_000]
        assert store.predictions("k", "1-NN", "a_b -> ü", 3) is None
        assert store.predictions("k", "CIDG", "a_b -> ü", 3) is None


def test_a_store_can_be_read_while_a_study_writes(tmp_path):
    row = Row("1-NN", "a -> b", 0, 0, 0.5, {}, None, {}, 0, False, 0.1, "ok", "", {})
    with Store(tmp_path / "r.sqlite") as writer, Store(tmp_path / "r.sqlite") as reader:
        for repeat in range(3):
            writer.add("k", replace(row, repeat=repeat))
            assert len(reader.rows("k")) == repeat + 1


def test_a_folder_is_no_results_file(tmp_path):
    with pytest.raises(ValueError, match="is not a file"):
        Store(tmp_path)
