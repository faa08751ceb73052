"""``unseen compare`` and ``unseen diagnose``: from a file to an answer, and from a mistake to a message."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

pytest.importorskip("typer", reason="the command needs its extra")
from typer.testing import CliRunner

from helpers import three_domains
from unseen.cli._app import app
from unseen.cli._compare import show_comparison
from unseen.cli._report import write_text
from unseen.model_selection import METHODS

X, Y, CODES = three_domains(n_per_cell=6, n_classes=3, n_domains=3, seed=2)
SITES = ["north", "süd, <b>", 'the "west"\nwing 🏥']
LABELS = ["<script>alert(1)</script>", "=cmd()", "أهلا"]
FEW = ("--methods", "CIDG,KFDA,logistic", "--quick", "--jobs", 1)


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    """A CSV with odd names, gaps and text, in a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    with open("hospitals.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["hospital", "age", "pressure", "smoker", "record", "diagnosis"])
        for i, (row, label, code) in enumerate(zip(X, Y, CODES, strict=True)):
            gap = "" if i % 11 == 0 else f"{row[0]:.6f}"
            writer.writerow([SITES[code], gap, f"{row[1]:.6f}", ["no", "yes"][i % 2], f"p{i:04d}", LABELS[label]])
    return tmp_path / "hospitals.csv"


def unseen(*args):
    result = CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, " ".join(re.sub(r"\x1b\[[0-9;]*m", "", result.stderr).split())


def test_a_table_gives_accuracies_a_verdict_and_a_report(hospitals):
    code, out, err = unseen("compare", hospitals, "--transductive", *FEW, "--report", "report.html")
    assert code == 0, err
    for word in ("CIDG*", "logistic", "north", "mean ± sd", "transductive", "held-out domains", "Use "):
        assert word in out
    assert "Using 'hospital' as the domain column" in err
    assert "Using 'diagnosis' as the label column" in err
    assert "record" in err  # left out, and said
    page = (hospitals.parent / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)</script>" not in page
    assert "أهلا" in page


def test_json_is_what_the_report_shows(hospitals):
    code, out, _ = unseen("compare", hospitals, *FEW, "--format", "json", "--report", "report.html")
    summary = json.loads(out)
    assert code == 0
    assert summary["data"]["classes"] == sorted(LABELS)
    assert [d["name"] for d in summary["data"]["domains"]] == SITES
    page = (hospitals.parent / "report.html").read_text(encoding="utf-8")
    for method in summary["methods"]:
        assert f"{100 * method['mean']:.1f}" in page
    assert summary["provenance"]["protocol"]["quick"] is True
    assert summary["validation"]["method"] == summary["verdict"]["recommendation"]["method"]
    reported = summary["validation"]["method"]
    records = [one for one in summary["validation"]["summary"] if one["method"] == reported]
    log_losses = [one["estimate"] for one in records if one["measure"] == "log_loss"]
    assert f"<strong>{log_losses[0]:.3f}</strong>" in page


def test_a_failed_method_tells_in_the_exit_code(hospitals, monkeypatch):
    class Unlucky(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            raise ValueError("no luck")

    monkeypatch.setitem(METHODS, "logistic", replace(METHODS["logistic"], classifier=Unlucky()))
    code, out, err = unseen("compare", hospitals, *FEW)
    assert code == 1
    assert "ValueError: no luck" in out
    assert "Run the same command again to retry them" in err


def test_interrupted_it_says_how_to_continue(hospitals, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("unseen.evaluation._comparison.run", stop)
    code, _, err = unseen("compare", hospitals, *FEW)
    assert code == 130
    assert "hospitals.unseen-results.sqlite. Run the same command again to continue" in err


def test_diagnose_speaks_in_words_and_in_json(hospitals):
    code, out, err = unseen("diagnose", hospitals, "--permutations", 99)
    assert code == 0, err
    assert "P(X|Y)" in out
    code, out, _ = unseen("diagnose", hospitals, "--permutations", 99, "--format", "json", "--report", "shift.html")
    summary = json.loads(out)
    assert {test["key"] for test in summary["tests"]} == {"label", "covariate", "conditional", "prior_normalized"}
    assert summary["domains"] == sorted(SITES) or summary["domains"] == SITES
    assert "<script>alert(1)</script>" not in (hospitals.parent / "shift.html").read_text(encoding="utf-8")


def test_the_tests_of_features_use_as_many_samples_as_asked(hospitals):
    summary = json.loads(
        unseen("diagnose", hospitals, "--permutations", 19, "--max-per-domain", 5, "--format", "json")[1]
    )
    assert summary["n_used"] == 15
    assert summary["n_samples"] == len(Y)  # P(Y) is a matter of counting


def test_what_a_terminal_would_obey_is_shown_escaped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"\x1b[3m\u202e{c}\u2067,{x[0]},{x[1]},{'ab'[y % 2]}" for x, y, c in zip(X, Y, CODES, strict=True)]
    (tmp_path / "e\u202ecil.csv").write_text("\n".join(["site,u,v,label", *rows]), encoding="utf-8")
    _, out, err = unseen("compare", "e\u202ecil.csv", *FEW)
    assert "\ufffd[3m\\u202e1\\u2067" in out
    assert r"e\u202ecil.unseen-results.sqlite" in err
    _, as_json, _ = unseen("compare", "e\u202ecil.csv", *FEW, "--format", "json")
    assert json.loads(as_json)["domains"] == [f"\x1b[3m\u202e{c}\u2067" for c in range(3)]  # escaped, not altered
    told = unseen("diagnose", "e\u202ecil.csv", "--permutations", 19)[1]
    assert not {"\x1b", "\u202e", "\u2067"} & set(out + err + as_json + told)


def test_a_table_printed_on_a_terminal_has_no_direction_marks_and_in_a_pipe_is_exact(monkeypatch, capsys):
    write_text("site\u202e")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    write_text("site\u202e")
    assert capsys.readouterr().out == "site\u202esite\\u202e"


def test_diagnose_draws(hospitals):
    code, _, err = unseen("diagnose", hospitals, "--permutations", 99, "--figure", "shift.png")
    assert code == 0
    assert "Wrote shift.png" in err
    assert (hospitals.parent / "shift.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.system
def test_the_demo_has_three_acts_of_at_most_eight_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = unseen("demo", "--jobs", 1)
    assert code == 0, err
    acts = out.split("\n\n")
    assert len(acts) == 4  # the recommendation, the paper, penguins, hospitals
    assert all(len(act.splitlines()) <= 8 for act in acts)
    assert max(map(len, out.splitlines())) <= 80
    assert "86.7%" in acts[1]
    assert "unseen show" in acts[3]
    assert (tmp_path / "hospitals.unseen").exists()
    assert (tmp_path / "synthetic.png").exists()


@pytest.mark.parametrize("command", ["compare", "diagnose", "fit"])
def test_without_a_table_nothing_is_computed(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = unseen(command)
    assert code in (0, 2)  # 0 with click before 8.2
    assert f"Example: unseen {command}" in " ".join((out + err).split())
    code, out, err = unseen(command, "--seed", 3, *(["-o", "m.unseen"] if command == "fit" else []))
    assert code == 2
    reason = "Pass one table, folder or quoted pattern as DATA" if command == "fit" else "Missing argument 'DATA'"
    assert reason in " ".join((out + err).split())
    assert list(tmp_path.iterdir()) == []


BAD = {
    "no such file": (["compare", "nowhere.csv"], "nowhere.csv"),
    "unknown column": (["compare", "hospitals.csv", "--label", "diagnosys"], "diagnosis"),
    "unknown method": (["compare", "hospitals.csv", "--methods", "magic"], "There is no method 'magic'"),
    "protocol": (["compare", "hospitals.csv", "--protocol", "hope"], "--protocol"),
    "seed": (["compare", "hospitals.csv", "--seed", "-1"], "--seed"),
    "store that is none": (["compare", "hospitals.csv", "--store", "hospitals.csv"], "not a results file"),
    "report of another kind": (["compare", "hospitals.csv", "--report", "report.pdf"], "should end in .html"),
    "report that cannot be written": (["compare", "hospitals.csv", "--report", "notes.docx/x.html"], "notes.docx"),
    "figure of another kind": (["diagnose", "hospitals.csv", "--figure", "shift.xyz"], "should end in .png"),
    "few permutations": (["diagnose", "hospitals.csv", "--permutations", "3"], "--permutations"),
    "unknown option": (["compare", "hospitals.csv", "--color", "red"], "--color"),
    "unknown command": (["campare"], "campare"),
    "two tables": (["compare", "hospitals.csv", "other.csv"], "other.csv"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_mistake_is_refused_with_exit_code_2_and_a_hint(what, hospitals):
    (hospitals.parent / "notes.docx").write_bytes(b"PK\x03\x04 not a table")
    before = {path.name for path in hospitals.parent.iterdir()}
    args, hint = BAD[what]
    code, out, err = unseen(*args)
    assert code == 2, err
    assert hint in err
    assert "Traceback" not in out + err
    assert {path.name for path in hospitals.parent.iterdir()} == before  # nothing half-written


def test_all_problems_of_a_table_are_reported_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["site,x,diagnosis"] + [f"{'ab'[i % 2]},{i * i},{'' if i == 4 else 'pq'[i % 2]}" for i in range(12)]
    (tmp_path / "bad.csv").write_text("\n".join(lines))
    code, _, err = unseen("compare", "bad.csv")
    assert code == 2
    assert "label" in err  # a row without one
    assert "'a'" in err  # has a single class
    assert "'b'" in err


def test_the_order_of_columns_changes_nothing(hospitals):
    with open(hospitals, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    order = np.random.default_rng(0).permutation(len(rows[0]))
    with open("shuffled.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[row[i] for i in order] for row in rows])
    options = ("--permutations", 19, "--format", "json")
    one, two = (json.loads(unseen("diagnose", name, *options)[1]) for name in (hospitals, "shuffled.csv"))
    assert one["counts"] == two["counts"]
    assert one["tests"][0]["p_value"] == two["tests"][0]["p_value"]


def test_a_process_that_dies_is_explained(hospitals, monkeypatch):
    from concurrent.futures.process import BrokenProcessPool

    def die(*_, **__):
        raise BrokenProcessPool("SIGKILL(-9)")

    monkeypatch.setattr("unseen.evaluation._comparison.run", die)
    code, _, err = unseen("compare", hospitals, *FEW)
    assert code == 1
    assert "A process died" in err
    assert "Run the same command again to continue" in err


def test_how_columns_were_used_is_listed_on_request(hospitals):
    code, out, err = unseen("diagnose", hospitals, "--permutations", 19, "--columns")
    assert code == 0, err
    said = {"age": "number", "smoker": "category with 2 levels", "record": "left out: identifier", "hospital": "domain"}
    for name, use in said.items():
        assert re.search(rf"{name} +│ {use}", out)
    assert "left out: identifier" not in unseen("diagnose", hospitals, "--permutations", 19)[1]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("n", [3, 4, 8, 29])
def test_the_printed_table_fits_its_terminal(monkeypatch, capsys, width, n):
    rng = np.random.default_rng(n)
    domains = [f"University Hospital of the Town of Number {i}" for i in range(n)]
    methods = [
        {"name": name, "kind": "invariant", "transductive": True, "mean": 0.715, "sd": 0.123, "seconds": 1234.5}
        | {"failed": "", "skipped": False}
        | {"accuracies": {d: {"mean": float(rng.uniform(0.2, 1)), "sd": 0.105} for d in domains}}
        for name in ("CIDG, M = 1", "linear SVM", "best")
    ]
    monkeypatch.setenv("COLUMNS", str(width))
    verdict = {"headline": "", "sentences": [], "metric": "accuracy", "share": True, "recommendation": None}
    show_comparison({"domains": domains, "methods": methods, "verdict": verdict})
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    header = [name.strip() for name in next(line for line in lines if "┃" in line).strip("┃").split("┃")]
    assert header[:2] == ["method", "mean ± sd"]
    assert len([line for line in lines if line.startswith("│")]) == len(methods)  # no row is broken in two
    shown = [name for name in header if name.startswith("Uni")]
    assert len(shown) == len(set(shown))
    assert len(shown) == n or f"{n - len(shown)} of {n} domains do not fit" in "".join(lines)
    if (n == 3 and width >= 80) or (n == 4 and width >= 100):
        assert len(shown) == n
