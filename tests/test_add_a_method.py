"""The page "Add a method in 40 lines" shows a change that works: applied to a copy, the method is everywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHANGE = ROOT / "development" / "add_a_method.diff"
pytestmark = [
    pytest.mark.skipif(not CHANGE.exists(), reason="this distribution comes without the documentation"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git applies the change"),
]

# Run where the change was made: the recipe equals its textbook, and all that reads the table of methods knows it.
CHECK = """
import numpy as np
from scipy.linalg import eigh
import textbook
import unseen
from helpers import fit_model, three_domains
from unseen.estimators import DFDA
from unseen.models import load_model, save_model
from unseen.tables import Column, Schema, Table

X, y, codes = three_domains(n_per_cell=6, n_features=3)
d = np.array(["a", "b", "c"])[codes]
K = textbook.centered(X @ X.T)
model = DFDA(kernel="linear", domain_weight=5.0, ridge=0.1).fit(X, y, sample_domain=d)
values = eigh(*textbook.dfda(K, y, codes, domain_weight=5.0, ridge=0.1), eigvals_only=True)[::-1]
np.testing.assert_allclose(model.eigenvalues_, values[: len(model.eigenvalues_)], rtol=1e-8)

found = unseen.compare(X, y, sample_domain=d, methods=["DFDA", "KFDA", "logistic"], quick=True)
kinds = {method["name"]: method["kind"] for method in found.to_dict()["methods"]}
assert kinds["DFDA"] == "invariant", kinds
assert "DFDA" in found.to_html()

fit = fit_model(Table(X, y, d, Schema(tuple(Column(f"x{i}", "numeric") for i in range(3))), [], "three"), "DFDA")
save_model(fit.estimator, "dfda.unseen", {})
np.testing.assert_array_equal(load_model("dfda.unseen").predict(X), fit.estimator.predict(X))
"""


def added_lines() -> list[str]:
    return [
        line for line in CHANGE.read_text(encoding="utf-8").splitlines() if line.startswith("+") and line[1:2] != "+"
    ]


@pytest.mark.docs
def test_the_change_on_the_page_adds_a_method_that_works(tmp_path):
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "corpus"))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)  # or the repository around would take it
    applied = subprocess.run(["git", "apply", str(CHANGE)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert applied.returncode == 0, applied.stderr
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(tmp_path / name) for name in ("src", "tests"))}
    done = subprocess.run(
        [sys.executable, "-c", CHECK], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_change_is_as_short_as_the_page_says():
    code = [line[1:].strip() for line in added_lines()]
    assert len([line for line in code if line]) <= 50
    assert "add_a_method.diff" in (ROOT / "development" / "add_a_method.rst").read_text(encoding="utf-8")
