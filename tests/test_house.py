"""The house stays in order: rooms of a size to know by heart, one name for each thing, short ways through it."""

from __future__ import annotations

import ast
import inspect
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import unseen

SOURCE = Path(unseen.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
LINES = {path: path.read_text(encoding="utf-8").count("\n") for path in TREES if path.name != "__init__.py"}

# Run in a fresh interpreter: prints the files in which functions run. Loading them first leaves imports out.
WAY = f"""
import importlib, json, pkgutil, sys, threading, warnings
from pathlib import Path
import numpy as np
import unseen

source = Path(unseen.__file__).parent
for module in pkgutil.walk_packages(unseen.__path__, "unseen."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
rng = np.random.default_rng(0)
domain = np.repeat(["north", "east", "south", "west"], 30)
y = np.tile(["ill", "well"], 60)
X = rng.normal(size=(120, 3)) + (y == "ill")[:, None] + (domain == "west")[:, None]
passed = set()

def note(frame, event, argument):
    if frame.f_code.co_flags & {inspect.CO_OPTIMIZED}:  # a function, not the body of a module or of a class
        passed.add(frame.f_code.co_filename)

warnings.simplefilter("ignore")
threading.settrace(note)
sys.settrace(note)
{{call}}
sys.settrace(None)
inside = sorted(Path(name).relative_to(source).as_posix() for name in passed if Path(name).is_relative_to(source))
print(json.dumps([name for name in inside if "/" in name and not name.endswith("__init__.py")]))
"""
FIT = "unseen.CIDG().fit(X, y, sample_domain=domain)"
COMPARE = """
rows = ["a,b,c,diagnosis,hospital", *(",".join(map(str, [*x, c, d])) for x, c, d in zip(X.tolist(), y, domain))]
Path("hospitals.csv").write_text("\\n".join(rows) + "\\n")
unseen.compare("hospitals.csv", label="diagnosis", domain="hospital", methods=["CIDG", "KFDA", "logistic"],
               repeats=1, quick=True)
"""


def files_passed(call, folder):
    """The files of rooms in which functions run; doors and the hall, which everyone passes, are not counted."""
    code = WAY.replace("{call}", call)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def functions():
    """Every function and method, with its module's path."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield path, node


def n_parameters(function):
    """How many parameters a caller may think about."""
    arguments = function.args
    named = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(named) - (named[:1] in (["self"], ["cls"]))


def test_the_hall_has_at_most_six_modules():
    assert len([path for path in SOURCE.glob("*.py") if path.name != "__init__.py"]) <= 6


def test_every_room_says_what_it_is_for():
    assert [path.parent.name for path in SOURCE.glob("*/__init__.py") if not ast.get_docstring(TREES[path])] == []


def test_few_functions_have_more_than_seven_parameters():
    # Those of commands are their options, and those of constructors are settings: one need not know them all.
    many = [
        f"{path.relative_to(SOURCE)}: {function.name}"
        for path, function in functions()
        if n_parameters(function) > 7 and function.name != "__init__" and path.parent.name != "cli"
    ]
    assert len(many) <= 8, many


def test_few_names_are_defined_in_two_modules():
    homes = defaultdict(set)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                homes[node.name].add(path.relative_to(SOURCE).as_posix())
    twice = {name: sorted(paths) for name, paths in homes.items() if len(paths) > 1}
    assert len(twice) <= 25, twice


def test_files_are_of_a_size_to_read_at_one_sitting():
    assert {path.name: n for path, n in LINES.items() if n > 500} == {}
    assert 100 <= statistics.median(LINES.values()) <= 200


def test_the_mathematics_is_short():
    assert sum(n for path, n in LINES.items() if path.parent.name == "algebra") < 900


def test_an_array_reaches_its_solution_through_ten_files(tmp_path):
    passed = files_passed(FIT, tmp_path)
    assert "algebra/_pencil.py" in passed
    assert len(passed) <= 10, passed


def test_a_row_of_a_table_reaches_its_verdict_through_forty_files(tmp_path):
    pytest.importorskip("polars", reason="reading tables needs it")
    passed = files_passed(COMPARE, tmp_path)
    assert "study/_verdict.py" in passed
    assert len(passed) <= 40, passed
