"""The explorer without a browser: numbers are those of the library, and settings are checked."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from explore_server import call, make_session, make_setting, serving, small_table
from unseen.explore import Server
from unseen.model_selection import HEADS, METHODS, LeaveOneDomainOut
from unseen.tables import make_preprocessor

SETTINGS = [
    {},
    {"method": "CIDG", "conditional_weight": "100*scale", "prior_weight": "0.0", "centering": "target"},
    {"method": "CIDG", "gamma": "0.1*median", "ridge": "0.01*scale", "head": "logistic"},
    {"method": "KFDA", "held_out": "leeds"},
    {"method": "MDA", "conditional_weight": "10.0", "within_weight": "10.0"},
    {"method": "SCA", "domain_weight": "scale", "head": "logistic", "centering": "target"},
    {"method": "DICA", "held_out": "bonn"},
]


@pytest.fixture(scope="module")
def session():
    return make_session()


def fit_by_hand(session, setting, train, test):
    """Accuracy on the test rows, and the embeddings of both sets of rows."""
    table = session.table
    preparation = make_preprocessor(table.schema, "standardize").fit(table.X[train])
    X, X_test = preparation.transform(table.X[train]), preparation.transform(table.X[test])
    projection = clone(setting.candidate().transformer).fit(X, table.y[train], sample_domain=table.domain[train])
    Z = projection.transform(X, sample_domain=table.domain[train])
    Z_test = projection.transform(X_test, sample_domain=table.domain[test])
    head = clone(HEADS[setting.head]).fit(Z, table.y[train])
    return head.score(Z_test, table.y[test]), Z, Z_test


@pytest.mark.parametrize("values", SETTINGS, ids=str)
def test_numbers_are_those_of_the_library(session, values):
    setting = make_setting(session, **values)
    solution = session.solve(setting)
    is_test = session.table.domain == setting.held_out
    accuracy, Z, Z_test = fit_by_hand(session, setting, np.flatnonzero(~is_test), np.flatnonzero(is_test))
    assert solution["accuracy"] == accuracy
    points = np.array(solution["points"])
    assert points.shape[1] == 2
    np.testing.assert_allclose(points[~is_test], Z[:, :2], atol=1e-6 * np.abs(Z).max())
    np.testing.assert_allclose(points[is_test], Z_test[:, :2], atol=1e-6 * np.abs(Z).max())
    sources = np.flatnonzero(~is_test)
    expected = {}
    for train, test in LeaveOneDomainOut().split(sources, groups=session.table.domain[sources]):
        name = session.table.domain[sources[test[0]]]
        expected[name] = fit_by_hand(session, setting, sources[train], sources[test])[0]
    assert {name: session.validate(setting, name) for name in solution["validation_domains"]} == expected


def test_scatters_are_those_of_the_projected_sources(session):
    """By loops over samples, classes and domains, as the paper writes them."""
    setting = make_setting(session, conditional_weight="10*scale")
    solution = session.solve(setting)
    is_source = session.table.domain != setting.held_out
    Z, y, d = np.array(solution["points"])[is_source], session.table.y[is_source], session.table.domain[is_source]
    assert solution["components"] == Z.shape[1]
    classes, domains = np.unique(y), np.unique(d)
    mean = Z.mean(axis=0)
    between = sum((y == c).sum() * np.sum((Z[y == c].mean(axis=0) - mean) ** 2) for c in classes)
    within = sum(np.sum((Z[y == c] - Z[y == c].mean(axis=0)) ** 2) for c in classes)
    cells = np.array([[Z[(y == c) & (d == s)].mean(axis=0) for c in classes] for s in domains])
    conditional = np.sum((cells - cells.mean(axis=0)) ** 2) / len(domains)
    marginal = cells.mean(axis=1)
    prior = np.sum((marginal - marginal.mean(axis=0)) ** 2) / len(domains)
    expected = {"between": between, "within": within, "conditional": conditional, "prior": prior}
    assert solution["scatters"] == pytest.approx(expected, rel=1e-6)


def test_validation_does_not_use_the_held_out_domain(session):
    table = session.table
    y = table.y.copy()
    is_test = table.domain == "oslo"
    y[is_test] = np.roll(y[is_test], 1)
    other = make_session(replace(table, y=y))
    setting = make_setting(session, held_out="oslo")
    assert session.validate(setting, "bonn") == other.validate(setting, "bonn")
    assert session.solve(setting)["accuracy"] != other.solve(setting)["accuracy"]


@pytest.mark.parametrize(
    "values",
    [
        {"held_out": "nowhere"},
        {"method": "logistic"},
        {"gamma": "1e-300*median"},
        {"ridge": "nan"},
        {"conditional_weight": "inf"},
        {"head": ["1-NN"]},
        {"centering": "both"},
        {"unheard": "of"},
    ],
    ids=str,
)
def test_values_that_no_slider_has_are_rejected(session, values):
    with pytest.raises(ValueError, match=r"must be one of|Unknown setting"):
        make_setting(session, **values)


def test_every_value_of_every_slider_is_valid(session):
    for method in session.describe()["methods"]:
        for slider in method["sliders"]:
            for text in (slider["values"][0], slider["values"][-1]):
                setting = make_setting(session, method=method["name"], **{slider["name"]: text})
                setting.candidate().transformer._validate_params()
            default = make_setting(session, method=method["name"]).params[slider["name"]]
            assert default == METHODS[method["name"]].transformer.get_params()[slider["name"]]


def test_a_large_table_is_subsampled():
    facts = make_session(small_table(900), max_rows=300).describe()
    assert facts["rows"] == 900
    assert len(facts["row"]) == len(facts["class"]) <= 310
    assert max(facts["row"]) > 300, "rows are those of the whole table"


def test_two_domains_suffice_and_one_does_not():
    session = make_session(small_table(n_domains=2, n_classes=2))
    setting = make_setting(session)
    solution = session.solve(setting)
    assert solution["validation_domains"] == []
    assert np.array(solution["points"]).shape == (180, 1)
    with pytest.raises(ValueError, match="domain must be one of"):
        session.validate(setting, "bonn")
    with pytest.raises(ValueError, match=r"The table has a single domain, 'bonn'\. At least two domains are needed"):
        make_session(small_table(n_domains=1))


def test_the_server_sends_the_numbers_of_the_session(session):
    with serving() as server:
        status, _, facts = call(server, "data")
        assert status == 200
        assert facts == {"sources": ["small"], **json.loads(json.dumps(session.describe()))}
        setting = {"method": "KFDA", "held_out": "oslo"}
        solution = json.loads(json.dumps(session.solve(make_setting(session, **setting))))
        assert call(server, "solve", {"setting": setting})[2] == solution
        accuracy = session.validate(make_setting(session, **setting), "bonn")
        assert call(server, "validate", {"setting": setting, "domain": "bonn"})[2] == {"accuracy": accuracy}
        status, _, response = call(server, "validate", {"setting": setting, "domain": "oslo"})
        assert (status, response["error"].startswith("domain must be one of")) == (422, True)


def test_a_stopping_server_waits_for_no_computation():
    started = threading.Event()

    def never_opens():
        started.set()
        threading.Event().wait(60)

    server = Server({"small": never_opens})
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        head = f"POST /{server.token}/api/data HTTP/1.1\r\nhost: 127.0.0.1:{server.server_port}\r\n"
        connection.sendall(f"{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        assert started.wait(10)
        server.shutdown()
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.parametrize("port", [None, 70_000], ids=["used", "invalid"])
def test_a_port_that_cannot_be_used_is_an_error(port):
    with Server({}) as other:
        port = port or other.server_port
        with pytest.raises(OSError, match=rf"Port {port} cannot be used .*Pass another port with the parameter port"):
            Server({}, port)


def run_command(*arguments, **options):
    pytest.importorskip("typer", reason="the command needs its extra")
    code = "from unseen.cli import main; main()"
    command = [sys.executable, "-c", code, "explore", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.system
@pytest.mark.skipif(os.name != "posix", reason="a browser is a script of the shell here")
def test_the_token_is_on_no_command_line(tmp_path):
    """All users of a machine can read the command lines of its processes."""
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$@" > "{opened}.part"\nmv "{opened}.part" "{opened}"\n')
    browser.chmod(0o755)
    process = run_command("--browser", cwd=tmp_path, env={**os.environ, "BROWSER": f"{browser} %s"})
    try:
        address = process.stderr.readline().strip()
        token = address.rsplit("/", 2)[1]
        deadline = time.monotonic() + 60
        while not opened.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        page = Path(urllib.parse.urlparse(opened.read_text().strip()).path)
        assert token not in opened.read_text()
        assert f"url={address}" in page.read_text()
        assert page.parent.stat().st_mode & 0o077 == 0, "others could read the token"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    finally:
        process.kill()
    assert not page.parent.exists()
