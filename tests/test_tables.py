"""Tables of results: means, ranks, wins, and published scores."""

from __future__ import annotations

import json

import pytest

from unseen.evaluation import Row, load_published, make_accuracy_table, make_tasks


def row(method="1-NN", task="A -> B", repeat=0, accuracy=0.5, transductive=False, reason=""):
    status = "failed" if accuracy is None else "ok"
    return Row(method, task, (), repeat, status, reason, accuracy, transductive=transductive)


def get_cell(table, method, task="A -> B"):
    return next(cell for cell in table["cells"] if (cell["task"], cell["method"]) == (task, method))


@pytest.fixture(scope="module")
def table():
    rows = [row("1-NN", accuracy=0.8), row("KFDA", accuracy=0.9), row("CIDG", accuracy=0.9)]
    rows += [row("1-NN", "odd", accuracy=0.7), row("KFDA", "odd", accuracy=0.6)]
    return make_accuracy_table([*rows, row("CIDG", "odd", accuracy=None, reason="ValueError: no luck")])


def test_ranks_share_among_equals_failures_come_last_and_wins_count_every_best(table):
    expected = {"1-NN": (3 + 1) / 2, "KFDA": (1.5 + 2) / 2, "CIDG": (1.5 + 3) / 2}
    assert table["summary"]["mean_rank"] == expected
    assert table["summary"]["wins"] == {"1-NN": 1, "KFDA": 1, "CIDG": 1}


def test_the_mean_of_a_method_that_failed_is_unknown(table):
    means = table["summary"]["mean"]
    assert (means["1-NN"], means["KFDA"], means["CIDG"]) == (pytest.approx(75), pytest.approx(75), None)
    assert get_cell(table, "CIDG", "odd")["mean"] is None
    assert get_cell(table, "CIDG", "odd")["failed"].startswith("ValueError")
    assert json.loads(json.dumps(table, allow_nan=False)) == table


def test_rows_become_means_and_spreads_in_percent():
    rows = [row(repeat=k, accuracy=value) for k, value in enumerate([0.5, 0.6, 0.7])]
    rows += [row("CIDG", repeat=k, accuracy=value, transductive=True) for k, value in enumerate([0.7, 0.5, 0.6])]
    table = make_accuracy_table(rows, {("A -> B", "CIDG"): 61.0, ("other", "1-NN"): 1.0})
    one, two = get_cell(table, "1-NN"), get_cell(table, "CIDG")
    assert (one["mean"], one["sd"], one["repeats"]) == (pytest.approx(60), pytest.approx(10), 3)
    assert one["best"]  # in any order, the same accuracies are equally good
    assert two["best"]
    assert (one["transductive"], two["transductive"]) == (False, True)
    assert (one["published"], two["published"]) == (None, 61.0)
    assert table["methods"] == ["1-NN", "CIDG"]


def test_a_failed_repeat_is_told_and_left_out_of_the_mean():
    table = make_accuracy_table(
        [row(accuracy=0.5), row(repeat=1, accuracy=None, reason="odd"), row("KFDA", accuracy=0.4)]
    )
    cell = get_cell(table, "1-NN")
    assert (cell["mean"], cell["repeats"], cell["failed"], cell["best"]) == (50.0, 1, "odd", True)


def test_when_everything_failed_nothing_is_best():
    table = make_accuracy_table([row(accuracy=None, reason="odd"), row("KFDA", accuracy=None, reason="odd")])
    assert table["summary"]["wins"] == {"1-NN": 0, "KFDA": 0}


def test_no_rows_are_no_table():
    with pytest.raises(ValueError, match="no rows"):
        make_accuracy_table([])


@pytest.mark.parametrize(
    ("data", "domains"),
    [("office-caltech", ["amazon", "webcam", "dslr", "caltech10"]), ("vlcs", ["V", "L", "C", "S"])],
)
def test_every_published_figure_is_found_for_the_papers_tasks(data, domains):
    ten = make_tasks(domains) + make_tasks(domains, 2)
    found = load_published(data, ten)
    assert len(found) == 60
    assert {name for name, _ in found} == {task.name for task in ten}
    assert {method for _, method in found} == {"1-NN", "KPCA", "DICA", "Undo-Bias", "SCA", "CIDG"}
    assert all(20 < accuracy < 100 for accuracy in found.values())


def test_published_figures_do_not_depend_on_the_order_of_domains():
    one, two = (
        load_published("office-caltech", make_tasks(names)) for names in (["A", "W", "D", "C"], ["C", "D", "W", "A"])
    )
    assert one["W,D,C -> A", "1-NN"] == two["C,D,W -> A", "1-NN"] == 87.65
