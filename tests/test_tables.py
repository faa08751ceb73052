"""Tables of results: means, ranks, wins, and published scores."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unseen.evaluation import AccuracyTable, Cell, Row, load_published, make_accuracy_table, make_tasks

ODD = "a|b_c & 5%"
TABLE = AccuracyTable(
    ["A -> B", ODD],
    ["1-NN", "KFDA", "CIDG"],
    {
        ("A -> B", "1-NN"): Cell(80.0, 1.5, 3, False, False, 79.5),
        ("A -> B", "KFDA"): Cell(90.0, 0.25, 3, True, True),
        ("A -> B", "CIDG"): Cell(90.0, 0.5, 3, True, True, 91.25),
        (ODD, "1-NN"): Cell(70.0, 0.0, 1, False, True),
        (ODD, "KFDA"): Cell(60.0, 0.0, 1, True),
        (ODD, "CIDG"): Cell(np.nan, 0.0, 0, False, failed="ValueError: no | luck\n& 5%"),
    },
)


def row(method="1-NN", task="A -> B", repeat=0, accuracy=0.5, transductive=False, reason=""):
    status = "failed" if accuracy is None else "ok"
    return Row(method, task, (), repeat, status, reason, accuracy, transductive=transductive)


def test_ranks_share_among_equals_and_failures_come_last():
    assert TABLE.ranks() == {"1-NN": (3 + 1) / 2, "KFDA": (1.5 + 2) / 2, "CIDG": (1.5 + 3) / 2}


def test_wins_count_every_best():
    assert TABLE.wins() == {"1-NN": 1, "KFDA": 1, "CIDG": 1}


def test_the_mean_of_a_method_that_failed_is_unknown():
    means = TABLE.means()
    assert (means["1-NN"], means["KFDA"]) == (75.0, 75.0)
    assert np.isnan(means["CIDG"])


def test_records_have_no_nan():
    found = json.loads(json.dumps(TABLE.to_dict(), allow_nan=False))
    assert found["cells"][2]["published"] == 91.25
    assert found["cells"][5]["mean"] is None
    assert found["cells"][5]["failed"].startswith("ValueError")
    assert found["summary"]["mean"] == {"1-NN": 75.0, "KFDA": 75.0, "CIDG": None}
    assert found["summary"]["wins"] == {"1-NN": 1, "KFDA": 1, "CIDG": 1}
    assert found["summary"]["mean_rank"]["KFDA"] == 1.75


def test_rows_become_means_and_spreads_in_percent():
    rows = [row(repeat=k, accuracy=value) for k, value in enumerate([0.5, 0.6, 0.7])]
    rows += [row("CIDG", repeat=k, accuracy=value, transductive=True) for k, value in enumerate([0.7, 0.5, 0.6])]
    table = make_accuracy_table(rows, {("A -> B", "CIDG"): 61.0, ("other", "1-NN"): 1.0})
    one, two = table.cells["A -> B", "1-NN"], table.cells["A -> B", "CIDG"]
    assert (one.mean, one.sd, one.repeats) == (pytest.approx(60), pytest.approx(10), 3)
    assert one.best  # in any order, the same accuracies are equally good
    assert two.best
    assert (one.transductive, two.transductive) == (False, True)
    assert (one.published, two.published) == (None, 61.0)
    assert table.methods == ["1-NN", "CIDG"]


def test_a_failed_repeat_is_told_and_left_out_of_the_mean():
    table = make_accuracy_table(
        [row(accuracy=0.5), row(repeat=1, accuracy=None, reason="odd"), row("KFDA", accuracy=0.4)]
    )
    cell = table.cells["A -> B", "1-NN"]
    assert (cell.mean, cell.repeats, cell.failed, cell.best) == (50.0, 1, "odd", True)


def test_when_everything_failed_nothing_is_best():
    table = make_accuracy_table([row(accuracy=None, reason="odd"), row("KFDA", accuracy=None, reason="odd")])
    assert table.wins() == {"1-NN": 0, "KFDA": 0}
    assert {cell.status_text for cell in table.cells.values()} == {"failed"}


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
