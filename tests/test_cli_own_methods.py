"""``--with``: a user's own classifiers, from a file or a module, through compare, fit, predict and show."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")
from typer.testing import CliRunner

from unseen.cli._app import app
from unseen.model_selection import METHODS

CODE = """
from __future__ import annotations
from dataclasses import dataclass
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from unseen.model_selection import Method
from beside import LARGEST

@dataclass
class Notes:
    text: str = ""

class Bayes(GaussianNB):
    def __init__(self, priors=None, var_smoothing=LARGEST):
        super().__init__(priors=priors, var_smoothing=var_smoothing)

class Greedy(GaussianNB):
    def __init__(self, needed):
        self.needed = needed

shy = LogisticRegression(C=0.01)
tuned = ("tuned one", make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.1, 10.0]})
method = Method("by hand", "plain", GaussianNB())
line = LinearRegression()
if __name__ == "__main__":
    raise SystemExit("a script")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # restored afterwards, with what the command adds
    (tmp_path / "models.py").write_text(CODE)
    (tmp_path / "beside.py").write_text("LARGEST = 1e-3\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    rng = np.random.default_rng(0)
    y, site = np.tile(["ill", "well"], 45), np.repeat(["north", "south", "west"], 30)
    X = rng.normal(size=(90, 2)) + (y == "ill")[:, None]
    lines = ["a,b,diagnosis,site", *(f"{a},{b},{c},{d}" for (a, b), c, d in zip(X, y, site, strict=True))]
    (tmp_path / "sites.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


TABLE = ("sites.csv", "--label", "diagnosis", "--domain", "site")
TRUST = ("--trusted", "sklearn.naive_bayes.GaussianNB")


def run(*args):
    """Exit code, standard output, and what else was said."""
    result = CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_classifiers_from_a_file_are_compared_beside_the_others(folder):
    """In two processes, which know nothing of the file."""
    places = [part for name in ("Bayes", "shy", "tuned", "method") for part in ("--with", f"models.py:{name}")]
    code, out, err = run(
        "compare", *TABLE, "--methods", "shy,logistic", "--quick", "-j", 2, "--format", "json", *places
    )
    assert code == 0, err
    found = {method["name"]: method for method in json.loads(out)["methods"]}
    assert set(found) == {"Bayes", "shy", "logistic", "tuned one", "by hand"}
    assert [name for name, method in found.items() if method["mean"] is None] == []


CHANGING = """
import numpy as np
from sklearn.linear_model import LogisticRegression
from helper import IS_FLIPPED

class Changing(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        classes, codes = np.unique(y, return_inverse=True)
        return super().fit(X, classes[1 - codes] if IS_FLIPPED else y, sample_weight)
"""


@pytest.mark.parametrize("changed", ["changing.py", "helper.py"])
def test_results_of_earlier_code_are_not_reported(folder, changed, monkeypatch):
    """A stored score is that of the code in the file and in the modules next to it."""
    results = []
    for is_flipped in (False, False, True):
        code = CHANGING if changed == "helper.py" else CHANGING.replace("if IS_FLIPPED", f"if {is_flipped}")
        (folder / "changing.py").write_text(code)
        (folder / "helper.py").write_text(f"IS_FLIPPED = {is_flipped if changed == 'helper.py' else None}\n")
        monkeypatch.delitem(sys.modules, "helper", raising=False)
        arguments = ("--methods", "Changing", "--with", "changing.py:Changing", "-j", 1, "--format", "json")
        exit_code, out, err = run("compare", *TABLE, *arguments)
        assert exit_code == 0, err
        (method,) = json.loads(out)["methods"]
        results.append((method["mean"] > 0.5, method["seconds"]))
    assert [is_right for is_right, _ in results] == [True, True, False]
    assert results[0] == results[1]  # the stored result, with the time of its computation


def test_one_of_ones_own_is_fitted_kept_and_asked(folder):
    code, out, err = run(
        "fit", *TABLE, "--methods", "tuned one", "--with", "models:tuned", "-o", "m.unseen", "--format", "json"
    )
    assert code == 0, err
    card = json.loads(out)
    assert (card["model"], card["method"]) == ("tuned one", "tuned one")
    assert card["settings"]["logisticregression__C"] in (0.1, 10.0)
    code, _, err = run("predict", "m.unseen", "sites.csv", "-o", "labels.csv")
    assert code == 0, err
    assert len((folder / "labels.csv").read_text().splitlines()) == 91


def test_what_a_model_file_cannot_hold_is_refused_before_the_work(folder, monkeypatch):
    monkeypatch.setattr("unseen.models.fit", None)
    for asked in (["by hand", "--with", "models.py:method"], ["auto", "--with", "models.py:method"]):
        code, _, err = run("fit", *TABLE, "-o", "m.unseen", "--methods", *asked)
        assert code == 2
        assert "This model cannot be stored" in err
        assert "sklearn.naive_bayes.GaussianNB" in err


def test_a_classifier_of_another_type_is_stored_if_its_type_is_named(folder):
    code, out, err = run("fit", *TABLE, "--with", "models.py:method", "--methods", "by hand", *TRUST, "-o", "m.unseen")
    assert code == 0, err
    code, out, _ = run("show", "m.unseen")
    assert "sklearn.naive_bayes.GaussianNB" in out
    code, _, err = run("predict", "m.unseen", "sites.csv", "-o", "labels.csv")
    assert code == 2
    assert "sklearn.naive_bayes.GaussianNB. If you know these types" in err
    code, _, err = run("predict", "m.unseen", "sites.csv", *TRUST, "-o", "labels.csv")
    assert code == 0, err
    assert len((folder / "labels.csv").read_text().splitlines()) == 91


def test_a_class_in_a_script_cannot_be_imported_by_readers(folder, monkeypatch):
    (folder / "script.py").write_text("from sklearn.naive_bayes import GaussianNB\nclass Mine(GaussianNB):\n    pass\n")
    monkeypatch.setattr("unseen.models.fit", None)
    options = ("--methods", "Mine", "-o", "m.unseen")
    code, _, err = run("fit", *TABLE, "--with", "script.py:Mine", *options, "--trusted", "with script.Mine")
    assert code == 2
    assert "'with script.Mine', which is not a name that readers can import" in err
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    code, _, err = run("fit", *TABLE, "--with", "script:Mine", *options, "--trusted", "script.Mine")
    assert code == 0, err
    code, _, err = run("predict", "m.unseen", "sites.csv", "--trusted", "script.Mine", "-o", "labels.csv")
    assert code == 0, err


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere.py:NAME", "the file nowhere.py does not exist"),
        ("nowhere:NAME", "nowhere cannot be run: ModuleNotFoundError"),
        ("models.py", "--with must be file.py:NAME or package.module:NAME; got 'models.py'"),
        ("models.py:nobody", "models.py does not define nobody. It defines"),
        ("models.py:line", "The estimator of 'line' must be a classifier; got LinearRegression()"),
        ("models.py:Greedy", "Greedy.__init__() missing 1 required positional argument"),
        ("broken.py:NAME", "broken.py cannot be run: ZeroDivisionError: division by zero"),
    ],
)
def test_what_cannot_be_had_is_told(folder, place, message):
    code, _, err = run("compare", *TABLE, "--with", place)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    "command", [("compare", "--methods"), ("fit", "--methods"), ("reproduce", "vlcs", "--methods")]
)
def test_help_lists_every_method_with_what_it_is(command):
    code, out, err = run(*command, "help")
    assert code == 0, err
    for method in METHODS.values():
        facts = (method.name, method.kind, method.description)
        assert any(all(fact in line for fact in facts) for line in out.splitlines())
