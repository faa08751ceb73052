"""DataFrames of pandas need no polars: the same tables are read, and the same models fitted, without it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("polars")

from pandas_tables import results
from test_frames import ASKED, ODD, PATIENTS
from unseen.exceptions import DataWarning

# Runs in a process in which polars cannot be imported. The module must not be in sys.modules, where scikit-learn looks.
PROGRAM = """
import pickle, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "polars":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())
from pandas_tables import results
from unseen.exceptions import DataWarning
with open(sys.argv[1], "rb") as file:
    frames = pickle.load(file)
with open(sys.argv[2], "wb") as file:
    pickle.dump(results(*frames), file)
assert "polars" not in sys.modules
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frames")
    with (folder / "frames").open("wb") as file:
        pickle.dump((PATIENTS, ODD, ASKED), file)
    command = [sys.executable, "-c", PROGRAM, folder / "frames", folder / "results"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    with (folder / "results").open("rb") as file:
        without_polars = pickle.load(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # one of the columns identifies the domain
        return results(PATIENTS, ODD, ASKED), without_polars


@pytest.mark.system
def test_tables_are_the_same(pair):
    expected, found = pair
    assert len(found[0]) == len(expected[0])
    for one, other in zip(expected[0], found[0], strict=True):
        np.testing.assert_equal(other, one)
        if not isinstance(one, str):  # which is the text of an error
            assert [array.dtype.kind for array in other[:3]] == [array.dtype.kind for array in one[:3]]


def test_models_are_the_same(pair):
    (_, labels, novelty, row), (_, other_labels, other_novelty, other_row) = pair
    np.testing.assert_array_equal(other_labels, labels)
    assert other_novelty == novelty
    np.testing.assert_array_equal(other_row, row)
