"""Tables of results: right in every format, and safe for any name."""

from __future__ import annotations

import csv
import io
import json
import re

import numpy as np
import pytest

from unseen.study import Row, make_tasks
from unseen.study._result_tables import AccuracyTable, Cell, load_published, make_accuracy_table

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
    return Row(method, task, repeat, repeat, accuracy, {}, None, {}, 0, transductive, 0.1, status, reason, {})


def test_ranks_share_among_equals_and_failures_come_last():
    assert TABLE.ranks() == {"1-NN": (3 + 1) / 2, "KFDA": (1.5 + 2) / 2, "CIDG": (1.5 + 3) / 2}


def test_wins_count_every_best():
    assert TABLE.wins() == {"1-NN": 1, "KFDA": 1, "CIDG": 1}


def test_the_mean_of_a_method_that_failed_is_unknown():
    means = TABLE.means()
    assert (means["1-NN"], means["KFDA"]) == (75.0, 75.0)
    assert np.isnan(means["CIDG"])


def test_markdown():
    assert TABLE.text("markdown") == (
        "| Task | 1-NN | KFDA | CIDG |\n"
        "|---|---|---|---|\n"
        "| A -> B | 80.00 ± 1.50 (79.50) | **90.00 ± 0.25\\*** | **90.00 ± 0.50\\*** (91.25) |\n"
        "| a\\|b\\_c & 5% | **70.00 ± 0.00** | 60.00 ± 0.00\\* | failed |\n"
        "| mean | 75.00 | 75.00 | failed |\n"
        "| mean rank | 2.0 | 1.8 | 2.2 |\n"
        "| wins | 1 | 1 | 1 |\n"
        "\n"
        "- \\* transductive: centered on unlabeled target data.\n"
        "- In parentheses: the paper's figure.\n"
        "- CIDG failed in 1 of 2 tasks: ValueError: no | luck & 5%\n"
    )


def test_latex():
    assert TABLE.text("latex") == (
        "\\begin{tabular}{lccc}\n"
        "\\hline\n"
        "Task & 1-NN & KFDA & CIDG \\\\\n"
        "\\hline\n"
        "A $\\to$ B & $80.00 \\pm 1.50$ (79.50) & $\\mathbf{90.00 \\pm 0.25}^*$ & "
        "$\\mathbf{90.00 \\pm 0.50}^*$ (91.25) \\\\\n"
        "a|b\\_c \\& 5\\% & $\\mathbf{70.00 \\pm 0.00}$ & $60.00 \\pm 0.00^*$ & failed \\\\\n"
        "\\hline\n"
        "mean & 75.00 & 75.00 & failed \\\\\n"
        "mean rank & 2.0 & 1.8 & 2.2 \\\\\n"
        "wins & 1 & 1 & 1 \\\\\n"
        "\\hline\n"
        "\\end{tabular}\n"
        "% * transductive: centered on unlabeled target data.\n"
        "% In parentheses: the paper's figure.\n"
        "% CIDG failed in 1 of 2 tasks: ValueError: no | luck & 5%\n"
    )


@pytest.mark.parametrize("name", ["a|b", "a_b_c", "R&D", "50%", "*x*", "`x`", "<b>", "a\\b", "$x$", "{x}", "#1", "~^"])
def test_names_cannot_break_a_table(name):
    table = make_accuracy_table([row(task=name), row("KFDA", name)])
    for line in table.text("markdown").splitlines():
        assert len(re.findall(r"(?<!\\)\|", line)) == 4
    line = table.text("latex").splitlines()[4]
    assert len(re.findall(r"(?<!\\)&", line)) == 2
    assert not re.search(r"(?<!\\)[%#_]", line.partition(" & $")[0])
    if name == "$x$":
        assert line.startswith("\\$x\\$ &")
    (cell, _) = json.loads(table.text("json"))["cells"]
    assert cell["task"] == name


def test_csv_parses_back():
    found = list(csv.DictReader(io.StringIO(TABLE.text("csv"))))
    assert len(found) == 6
    assert found[2] == {
        "task": "A -> B",
        "method": "CIDG",
        "mean": "90.0",
        "sd": "0.5",
        "repeats": "3",
        "transductive": "True",
        "best": "True",
        "published": "91.25",
        "failed": "",
        "skipped": "False",
    }
    assert (found[5]["task"], found[5]["failed"]) == (ODD, "ValueError: no | luck\n& 5%")


def test_json_parses_back_without_nan():
    def refuse(constant):
        raise AssertionError(constant)

    found = json.loads(TABLE.text("json"), parse_constant=refuse)
    assert found["cells"][2]["published"] == 91.25
    assert found["cells"][5]["mean"] is None
    assert found["cells"][5]["failed"].startswith("ValueError")
    assert found["summary"]["mean"] == {"1-NN": 75.0, "KFDA": 75.0, "CIDG": None}
    assert found["summary"]["wins"] == {"1-NN": 1, "KFDA": 1, "CIDG": 1}
    assert found["summary"]["mean_rank"]["KFDA"] == 1.75


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="format must be one of markdown, latex, csv, json; got 'html'"):
        TABLE.text("html")


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
    assert "1-NN failed in 1 of 1 tasks: odd" in table.text("markdown")


def test_when_everything_failed_nothing_is_best():
    table = make_accuracy_table([row(accuracy=None, reason="odd"), row("KFDA", accuracy=None, reason="odd")])
    assert table.wins() == {"1-NN": 0, "KFDA": 0}
    assert table.text("markdown").splitlines()[2] == "| A -> B | failed | failed |"


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
