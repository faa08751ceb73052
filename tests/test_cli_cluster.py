"""Work on a Dask cluster gives what it gives here, in the same order, whatever happens to the workers."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

pytest.importorskip("polars", reason="reading tables needs the extra")
pytest.importorskip("skops", reason="model files need the extra")
pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("distributed", reason="needs the extra dask")
import dask
import dask.array as da
import distributed
import polars as pl
from polars.testing import assert_frame_equal
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from typer.testing import CliRunner

from cluster_work import after, refuse, slowly, squared, waiting
from helpers import fit_model, three_domains
from unseen import CIDG
from unseen.cli._app import app
from unseen.cli._options import open_cluster
from unseen.tables._load import survey_table
from unseen.utils.jobs import ClusterLostError, map_on_cluster
from unseen.utils.jobs import cluster_errors as fails

pytestmark = pytest.mark.system

SITES = ["north", "south", "west"]
PARTS = 4
# Workers ask a dead one for its results for as long as this; half a minute unless they are told.
IMPATIENT = {"distributed.comm.timeouts.connect": "2s"}


LOCAL = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
LOCAL |= {"silence_logs": logging.CRITICAL}


@pytest.fixture(scope="module")
def client():
    """A client of a cluster that commands can use by its address: one without certificates."""
    settings, workers = dask.config.set(IMPATIENT), distributed.LocalCluster(n_workers=2, **LOCAL)
    with settings, workers as local, distributed.Client(local) as client:
        yield client


# The map


def drawn(items, into):
    for item in items:
        into.append(item)
        yield item


def forgotten(client):
    """Whether nothing of ours is left on the cluster, soon."""
    deadline = time.monotonic() + 10
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return not client.futures


def test_without_a_client_a_map_is_a_map():
    seen = []
    results = map_on_cluster(partial(squared, 0), drawn(range(5), seen))
    assert (next(results), seen) == (0, [0])
    assert list(results) == [1, 4, 9, 16]


def test_results_come_in_the_order_of_the_items(client):
    waits = [0.3, 0.0, 0.2, 0.0, 0.1, 0.0]
    assert list(map_on_cluster(partial(squared, 0), range(20), client)) == [x * x for x in range(20)]
    assert list(map_on_cluster(waiting, waits, client)) == waits
    assert list(map_on_cluster(waiting, [], client)) == []
    assert forgotten(client)


def test_results_may_come_as_they_are_finished(client, tmp_path):
    found = []
    for name, threads in map_on_cluster(partial(after, tmp_path), ["cba", "a", "b"], client, ordered=False):
        (tmp_path / name).touch()  # what the first item waits for
        found.append(name)
        assert threads == 1  # as Dask sees to it
    assert found[-1] == "c"
    assert forgotten(client)


def test_no_more_than_two_items_for_each_thread_are_out(client):
    """Items are drawn only when there is room."""
    seen = []
    for taken, _ in enumerate(map_on_cluster(partial(squared, 0), drawn(range(12), seen), client)):
        assert len(seen) - taken <= 4
    assert len(seen) == 12


def test_what_the_function_raises_is_raised_here_and_the_rest_is_forgotten(client):
    results = map_on_cluster(partial(refuse, 2), range(100), client)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="3 is too large"):
        next(results)
    assert forgotten(client)


def test_a_map_that_is_left_early_leaves_nothing_behind(client):
    results = map_on_cluster(partial(squared, 0.05), range(100), client)
    assert next(results) == 0
    assert client.futures
    results.close()
    assert forgotten(client)


def test_large_functions_are_sent_without_a_word(client, recwarn):
    large = partial(np.searchsorted, np.arange(4_000_000.0))  # Dask warns of 10 MB
    assert list(map_on_cluster(large, [3.5, 7.0], client)) == [4, 7]
    assert not recwarn.list


def test_a_scheduler_that_is_lost_is_an_error_of_the_package_and_not_logged(client):
    class Lost(CancelledError):
        def __str__(self):
            return "squared-1 canceled for reason: scheduler-connection-lost."

    with (
        pytest.raises(ClusterLostError, match=r"connection to the Dask scheduler was lost.* Check whether"),
        fails(client),
    ):
        raise Lost
    log = logging.getLogger("distributed.client")
    with open_cluster(client.scheduler.address):
        assert not log.isEnabledFor(logging.CRITICAL)
    assert log.isEnabledFor(logging.CRITICAL)


@pytest.fixture
def lone():
    """A client of a cluster of its own: Dask may keep tasks of a client that is closed while it submits them."""
    workers = distributed.LocalCluster(n_workers=1, processes=False, protocol="tcp://", **LOCAL)
    with workers as local, distributed.Client(local) as client:
        yield client


def test_a_client_that_is_closed_in_the_middle_of_a_fit_is_an_error_of_the_package(lone, home, monkeypatch):
    monkeypatch.setattr("unseen.tables._survey.PART_ROWS", 50)
    source = survey_table(home / "parts").subsample_domains(90, 0)
    fit = partial(fit_model, source, "kfda", feature_map="nystroem", n_landmarks=20)

    @contextmanager
    def progress_that_closes(*_):
        lone.close()
        yield lambda rows: None

    monkeypatch.setattr("unseen.models._fit.progress", progress_that_closes)
    with pytest.raises(ClusterLostError, match="client was closed"):
        fit(client=lone)


# A fit

X, Y, D = three_domains(n_per_cell=12, seed=3)


def map_in_blocks(array):
    """The same rows in blocks of unknown lengths."""
    blocks = da.from_array(array, chunks=(17, *array.shape[1:]))
    return blocks[(blocks if array.ndim == 1 else blocks[:, 0]) > -np.inf]


def assert_same(model, expected):
    np.testing.assert_array_equal(model.cell_counts_, expected.cell_counts_)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-9 * np.abs(expected.coef_).max())


def test_a_cluster_gives_the_answer_of_memory_even_if_a_worker_is_killed(client):
    model = CIDG(feature_map=FrozenEstimator(RBFSampler(gamma=0.05, n_components=30, random_state=0).fit(X)))
    expected = CIDG(feature_map=model.feature_map).fit(X, Y, sample_domain=D)
    samples, y, domain = map(map_in_blocks, (X, Y, D))
    assert_same(model.fit(samples, y, sample_domain=domain), expected)
    np.testing.assert_allclose(model.transform(samples).compute(), expected.transform(X), atol=1e-9)
    victim = next(iter(client.run(os.getpid).values()))
    killed = []

    def kill():
        os.kill(victim, signal.SIGKILL)
        killed.append(time.monotonic())

    samples = da.from_array(X, chunks=(9, -1)).map_blocks(slowly, meta=np.empty((0, 4)))
    threading.Timer(0.6, kill).start()
    model.fit(samples, y, sample_domain=domain)
    assert killed
    assert time.monotonic() - killed[0] > 0.25  # there was work left to do
    assert_same(model, expected)


def test_a_cluster_that_has_lost_all_workers_is_an_error_and_not_a_wait():
    """For a map and for a fit, both under way, where Dask's configuration sets a limit, as for local workers."""
    limit = dask.config.set({"distributed.scheduler.no-workers-timeout": "1s"})
    with limit, distributed.LocalCluster(n_workers=0, **LOCAL) as local, local.get_client() as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address, "--no-nanny"]
        command += ["--no-dashboard", "--nthreads", "1"]
        paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=paths)
        try:
            client.wait_for_workers(1, timeout=60)
            results = map_on_cluster(partial(squared, 0.05), range(100), client)
            assert next(results) == 0
            threading.Timer(0.6, worker.kill).start()
            start = time.monotonic()
            samples = da.from_array(X, chunks=(9, -1)).map_blocks(slowly, meta=np.empty((0, 4)))
            with pytest.raises(RuntimeError, match=r"no workers left.* Start workers"):
                CIDG(feature_map="linear").fit(samples, Y, sample_domain=D)
            with pytest.raises(ClusterLostError, match="no workers left"):
                list(results)
            assert time.monotonic() - start < 20
        finally:
            worker.kill()
            worker.wait()


def test_a_cluster_without_workers_is_a_notice_when_the_work_starts(capsys):
    with distributed.LocalCluster(n_workers=0, **LOCAL) as local, open_cluster(local.scheduler_address):
        assert "has no workers yet" in " ".join(capsys.readouterr().err.split())


# The commands


def unseen(*args):
    result = CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, " ".join(re.sub(r"\x1b\[[0-9;]*m", "", result.stderr).split())


def printed(*args):
    code, out, err = unseen(*args, "--format", "json")
    assert code == 0, err
    return json.loads(out)


def frame(n, seed, shift=0.0):
    """Patients of three sites, in turn, with a gap here and there."""
    rng = np.random.default_rng(seed)
    codes, site = rng.integers(0, 2, n), np.arange(n) // 2 % 3
    X = np.array([[0.0, 0, 0], [2, 1, 3]])[codes] + 0.4 * site[:, None] + shift + rng.normal(size=(n, 3))
    X[::17, 1] = np.nan
    columns = {f"x{i}": pl.Series(X[:, i]).fill_nan(None) for i in range(3)}
    return pl.DataFrame({**columns, "site": [SITES[s] for s in site], "label": [("ill", "well")[c] for c in codes]})


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two models, and one new table as text, as Parquet, in parts, and with a file for each site."""
    home = tmp_path_factory.mktemp("home")
    frame(240, 0).write_csv(home / "train.csv")
    for method in ("logistic", "centered logistic"):
        command = ["fit", home / "train.csv", "--methods", method, "--transductive"]
        assert unseen(*command, "-o", home / f"{method}.unseen")[0] == 0
    new = frame(400, 1, shift=0.7).with_columns(site=pl.col("site").replace("west", "lima"))
    new.write_csv(home / "new.csv")
    new.write_parquet(home / "new.parquet", row_group_size=70)
    for folder in ("parts", "sites"):
        (home / folder).mkdir()
    for i in range(PARTS):
        new.slice(100 * i, 100).write_parquet(home / "parts" / f"part-{i}.parquet")
    for site in ("lima", "north"):
        new.filter(pl.col("site") == site).write_parquet(home / "sites" / f"{site}.parquet")
    new.filter(pl.col("site") == "south").write_csv(home / "sites" / "south.csv")
    return home


@pytest.mark.parametrize(
    ("table", "passes"),
    [
        (["new.csv"], 1),
        (["parts"], 1),
        (["new.csv"], 2),
        (["new.parquet", "--domain", "site"], 2),
        (["parts", "--domain", "site"], 2),
        (["sites"], 2),
        pytest.param(["parts"], 2, marks=pytest.mark.slow),
        pytest.param(["new.parquet", "--domain", "site"], 1, marks=pytest.mark.slow),
        pytest.param(["parts", "--domain", "site"], 1, marks=pytest.mark.slow),
        pytest.param(["sites"], 1, marks=pytest.mark.slow),
    ],
)
def test_predictions_from_a_cluster_are_those_from_here(client, home, tmp_path, monkeypatch, table, passes):
    model = home / ("logistic.unseen" if passes == 1 else "centered logistic.unseen")
    found = {}
    for where, options in {"here": [], "there": ["--scheduler", client.scheduler.address]}.items():
        output = tmp_path / f"{where}.parquet"
        command = ["predict", model, home / table[0], *table[1:], "-o", output, "--batch-size", 40]
        found[where] = printed(*command, *options), pl.read_parquet(output)
    (here, expected), (there, predicted) = found["here"], found["there"]
    assert_frame_equal(predicted, expected, rel_tol=1e-9)
    assert expected.height == here["rows"] == 400
    assert here["transductive"] == (passes == 2)
    assert_frame_equal(pl.DataFrame(there.pop("novelty")), pl.DataFrame(here.pop("novelty")), rel_tol=1e-9)
    assert {**there, "output": ""} == {**here, "output": ""}
    assert forgotten(client)


def test_rows_are_numbered_through_all_files_wherever_they_are_read(client, home, tmp_path, monkeypatch):
    (tmp_path / "parts").mkdir()
    for i in range(2):
        part = pl.read_parquet(home / "parts" / f"part-{i}.parquet")
        part = part.with_columns(site=pl.when(pl.int_range(100) != 65).then("site")) if i else part
        part.write_parquet(tmp_path / "parts" / f"part-{i}.parquet")
    command = ["predict", home / "logistic.unseen", tmp_path / "parts", "-o", tmp_path / "o.csv", "--domain", "site"]
    for options in ([], ["--scheduler", client.scheduler.address]):
        code, _, err = unseen(*command, "--batch-size", 20, *options)
        assert code == 2
        assert "first for row 166." in err
        assert [path.name for path in tmp_path.iterdir()] == ["parts"]


def test_a_comparison_on_a_cluster_is_that_from_here(client, home, tmp_path):
    command = ["compare", home / "train.csv", "--quick", "--methods", "CIDG,KFDA,logistic", "--store"]
    here = printed(*command, tmp_path / "here.sqlite", "--jobs", 1)
    there = printed(*command, tmp_path / "there.sqlite", "--scheduler", client.scheduler.address)
    for summary in (here, there):
        for method in summary["methods"]:
            assert method.pop("seconds") > 0
    for key in ("methods", "confusion", "verdict", "settings"):
        assert there[key] == here[key]
    assert forgotten(client)


COMMANDS = {
    "compare": "compare train.csv --quick --methods 1-NN --store s.sqlite",
    "predict": "predict logistic.unseen new.csv -o o.csv",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (["--scheduler", "tcp://127.0.0.1:1"], 1, "127.0.0.1:1"),
        (["--scheduler", "tcp://127.0.0.1:1"], 2, "pip install 'unseen[dask]'"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused(home, monkeypatch, command, options, code, reason):
    monkeypatch.chdir(home)
    monkeypatch.setattr("unseen.cli._options.CONNECT_SECONDS", 0.3)
    if "unseen[dask]" in reason:
        monkeypatch.setitem(sys.modules, "distributed", None)
    before = sorted(path.name for path in home.iterdir())
    found, _, err = unseen(*COMMANDS[command].split(), *options)
    assert found == code
    assert reason in err
    assert sorted(path.name for path in home.iterdir()) == before
