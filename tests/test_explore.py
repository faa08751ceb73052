"""The explorer without a browser: figures are those of the library, strangers are refused, nobody waits for ever."""

from __future__ import annotations

import base64
import gc
import http.client
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the explorer needs its extra")
pytest.importorskip("uvicorn", reason="the explorer needs its extra")

from sklearn.base import clone

from explore_server import call, serving, session_of, small_table
from unseen.datasets import make_synthetic
from unseen.explore import Explorer, Session, Setting, embedded_sources, python_code
from unseen.explore._ensemble_view import make_ensemble_view
from unseen.explore._server import bind_socket
from unseen.model_selection import (
    HEADS,
    METHODS,
    CachedSplit,
    DecompositionCache,
    LeaveOneDomainOut,
    ProjectionSearchCV,
    UnseenClassifier,
)
from unseen.tables import make_preprocessor

pytestmark = pytest.mark.usefixtures("few_trees")

ASKED = [
    {},
    {"method": "CIDG", "conditional_weight": "100*scale", "prior_weight": "0.0", "centering": "target"},
    {"method": "CIDG", "gamma": "0.1*median", "ridge": "0.01*scale", "components": "1", "head": "logistic"},
    {"method": "KFDA", "held_out": "leeds"},
    {"method": "MDA", "conditional_weight": "10.0", "within_weight": "10.0"},
    {"method": "SCA", "domain_weight": "scale", "components": "3", "head": "logistic", "centering": "target"},
    {"method": "DICA", "held_out": "bonn"},
]


@pytest.fixture(scope="module")
def session():
    return session_of()


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def by_hand(session, setting):
    """Accuracy on the held-out domain, the embedding, and accuracy by leaving one source out."""
    table, new = session.table, session.table.domain == setting.held_out
    X, y, d = table.X[~new], table.y[~new], table.domain[~new]

    def scored(train, test, y_train, d_train, y_test, d_test):
        prepare = make_preprocessor(table.schema, session.scale).fit(train)
        projection = clone(setting.candidate().transformer)
        projection.fit(prepare.transform(train), y_train, sample_domain=d_train)
        both = (train, d_train), (test, d_test)
        Z, Z_new = (projection.transform(prepare.transform(A), sample_domain=s) for A, s in both)
        return clone(HEADS[setting.head]).fit(Z, y_train).score(Z_new, y_test), Z, Z_new

    accuracy, Z, Z_new = scored(X, table.X[new], y, d, table.y[new], table.domain[new])
    splits = LeaveOneDomainOut().split(X, y, d)
    return accuracy, Z, Z_new, np.mean([scored(X[a], X[b], y[a], d[a], y[b], d[b])[0] for a, b in splits])


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_figures_are_those_of_the_library(session, asked):
    setting = session.setting(asked)
    found = session.solve(setting)
    accuracy, Z, Z_new, validation = by_hand(session, setting)
    assert found["accuracy"] == accuracy
    assert found["validation"] == pytest.approx(validation, abs=1e-12)
    new = session.table.domain == setting.held_out
    shown = found["after"].shape[1]
    np.testing.assert_allclose(found["after"][~new], Z[:, :shown], atol=1e-4 * np.abs(Z).max())
    np.testing.assert_allclose(found["after"][new], Z_new[:, :shown], atol=1e-4 * np.abs(Z).max())


def test_scatters_are_those_of_the_projected_sources(session):
    """By loops over samples, classes and domains, as the paper writes them."""
    setting = session.setting({"conditional_weight": "10*scale"})
    found = session.solve(setting)
    new = session.table.domain == setting.held_out
    Z, y, d = by_hand(session, setting)[1], session.table.y[~new], session.table.domain[~new]
    classes, domains = np.unique(y), np.unique(d)
    mean = Z.mean(axis=0)
    between = sum((y == c).sum() * np.sum((Z[y == c].mean(axis=0) - mean) ** 2) for c in classes)
    within = sum(np.sum((Z[y == c] - Z[y == c].mean(axis=0)) ** 2) for c in classes)
    cells = np.array([[Z[(y == c) & (d == s)].mean(axis=0) for c in classes] for s in domains])
    conditional = np.sum((cells - cells.mean(axis=0)) ** 2) / len(domains)
    marginal = cells.mean(axis=1)
    prior = np.sum((marginal - marginal.mean(axis=0)) ** 2) / len(domains)
    wanted = {"between": between, "within": within, "conditional": conditional, "prior": prior}
    assert found["scatters"] == pytest.approx(wanted, rel=1e-6)
    assert between + within == pytest.approx(np.sum((Z - mean) ** 2))


def test_the_surface_is_that_of_a_search(session):
    setting = session.setting({"held_out": "oslo", "ridge": "0.1*scale"})
    *waiting, found = session.surface(setting)
    assert waiting
    assert all(part is None for part in waiting)
    assert list(session.surface(setting)) == [found], "which is remembered"
    new = session.table.domain == "oslo"
    X, y, d = session.table.X[~new], session.table.y[~new], session.table.domain[~new]
    i, j = 3, 2
    values = dict(zip(found["names"], (found["rows"][i], found["columns"][j]), strict=True))
    assert list(values) == ["conditional_weight", "prior_weight"]
    grid = {name: [float(value) if value == "0.0" else value] for name, value in values.items()}
    scores = []
    for train, test in LeaveOneDomainOut().split(X, y, d):
        prepared = make_preprocessor(session.table.schema, session.scale).fit(X[train]).transform(X)
        search = ProjectionSearchCV(setting.candidate().transformer, grid, cv=[(train, test)], refit=False)
        scores.append(search.fit(prepared, y, sample_domain=d).best_score_)
    assert found["scores"][i][j] == pytest.approx(np.mean(scores), abs=1e-12)
    assert found["sources"] == 3


@pytest.mark.parametrize("method", ["KFDA", "DICA", "SCA", "MDA", "CIDG"])
def test_every_method_has_a_surface_on_which_its_setting_lies(method):
    session = session_of(small_table(90, n_domains=3))
    setting = session.setting({"method": method})
    found = list(session.surface(setting))[-1]
    at = [
        0 if not name else found[kind].index(str(setting.params[name]))
        for name, kind in zip(found["names"], ("rows", "columns"), strict=True)
    ]
    assert found["scores"][at[0]][at[1]] == pytest.approx(session.solve(setting)["validation"], abs=1e-12)


def test_the_surface_does_not_look_at_the_held_out_domain(session):
    table = session.table
    new = table.domain == "oslo"
    y = table.y.copy()
    y[new] = np.roll(y[new], 1)
    other = session_of(replace(table, y=y))
    asked = {"held_out": "oslo"}
    first, second = (list(one.surface(one.setting(asked)))[-1]["scores"] for one in (session, other))
    assert first == second
    assert session.solve(session.setting(asked))["validation"] == other.solve(other.setting(asked))["validation"]
    assert session.solve(session.setting(asked))["accuracy"] != other.solve(other.setting(asked))["accuracy"]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_setting_is_written_and_read(session, asked):
    setting = session.setting(asked)
    assert session.setting(f"#{setting}") == setting


@pytest.mark.parametrize(
    "asked",
    [
        {"held_out": "nowhere"},
        {"method": "logistic"},
        {"gamma": "1e-300*median"},
        {"ridge": "nan"},
        {"conditional_weight": "inf"},
        {"components": "0"},
        {"components": "99"},
        {"head": ["1-NN"]},
        {"centering": "both"},
        {"unheard": "of"},
    ],
    ids=str,
)
def test_what_no_slider_reaches_is_refused(session, asked):
    with pytest.raises(ValueError, match=r"must be one of|Unknown setting"):
        session.setting(asked)


def test_every_value_of_every_slider_is_one_that_its_method_takes(session):
    for method in session.facts["methods"]:
        for slider in method["sliders"]:
            for text in (slider["values"][0], slider["values"][-1]):
                candidate = session.setting({"method": method["name"], slider["name"]: text}).candidate()
                candidate.transformer._validate_params()
            first = session.setting({"method": method["name"]}).params[slider["name"]]
            assert first == METHODS[method["name"]].transformer.get_params()[slider["name"]]


def test_more_rows_than_can_be_shown_are_drawn_and_told():
    session = session_of(small_table(900), max_rows=300)
    facts = session.facts
    assert facts["rows"] == 900
    assert facts["used"] == len(facts["row"]) == len(facts["class"]) <= 310
    assert max(facts["row"]) > 300, "rows are those of the whole table"


def test_a_picture_does_not_wait_for_other_decompositions():
    session = session_of()
    setting = session.setting({"held_out": "oslo"})
    first = session.solve(setting, wait_for_validation=False)
    assert first["pending"]
    assert "validation" not in first
    *waiting, found = session.validate(setting)
    assert waiting == [None] * 3
    later = session.solve(setting, wait_for_validation=False)
    assert later["validation"] == found["validation"] == session.solve(setting)["validation"]
    assert not later["pending"]


def test_a_source_that_cannot_be_scored_leaves_the_rest():
    """Without its other source one that has a single class is all there is to learn from."""
    table = small_table(90, n_domains=3)
    y = np.where(table.domain == "bonn", "ill", table.y)
    session = session_of(replace(table, y=y))
    found = session.solve(session.setting({"held_out": "oslo"}))
    assert found["accuracy"] > 0
    assert found["validation"] is None
    assert found["unscored"]
    assert found["validated"] == 2
    assert list(session.surface(session.setting({"held_out": "oslo"})))[-1]["scores"][0][0] is None


def test_decompositions_are_kept_up_to_a_size():
    samples = small_table().samples
    split = np.arange(100), np.arange(100, 180)
    made, size = [], 8 * 100 * 180
    shelf = DecompositionCache(2.5 * size)
    bench = CachedSplit(samples, split, cache=shelf)
    widths = ("median", "10*median", "0.1*median")
    projections = [session_of().setting({"gamma": width}).candidate().transformer for width in widths]
    for projection in projections:
        made.append(bench.decompose(projection))
    assert len(shelf) == 2
    assert bench.decompose(projections[2]) is made[2]
    assert bench.is_cached(projections[1])
    assert not bench.is_cached(projections[0])


@pytest.mark.parametrize(("name", "most"), [("synthetic", 2000), ("digits", 600)])
def test_the_python_code_gives_the_same_accuracy(name, most, capsys):
    whole = embedded_sources()[name]()
    session = Session(whole.full_table, whole.scale, whole.origin, max_rows=most)
    setting = session.setting({"centering": "target", "conditional_weight": "10*scale", "head": "1-NN"})
    found, there = session.solve(setting), {}
    exec(python_code(session, setting), there)
    assert there["accuracy"] == found["accuracy"]
    assert f"{found['accuracy']:.4f}" in capsys.readouterr().out


def test_an_answer_is_that_of_the_session(server, session):
    asked = {"held_out": "oslo", "conditional_weight": "10*scale"}
    status, _, told = call(server, "solve", {"tab": "a", "setting": asked, "before": 1})
    found = session.solve(session.setting(asked))
    assert status == 200
    assert told["accuracy"] == found["accuracy"]
    assert told["scatters"] == pytest.approx(found["scatters"])
    places = np.frombuffer(base64.b64decode(told["after"]["float32"]), "<f4").reshape(told["after"]["shape"])
    np.testing.assert_allclose(places, found["after"], rtol=1e-5)
    assert told["before"]["shape"] == [180, 3]


def test_only_the_newest_request_of_a_tab_is_answered():
    solved, gate = [], threading.Event()

    class Slow(type(session_of())):
        def solve(self, setting, *how, **more):
            gate.wait(10)
            solved.append(str(setting))
            return super().solve(setting, *how, **more)

    def opened():
        session = session_of()
        session.__class__ = Slow
        return session

    with serving(Explorer({"small": opened})) as server, ThreadPoolExecutor(6) as pool:
        assert call(server, "data")[0] == 200
        texts = ["0.1*scale", "scale", "10*scale", "100*scale"]
        asked = []
        for text in texts:
            asked.append(pool.submit(call, server, "solve", {"tab": "a", "setting": {"conditional_weight": text}}))
            time.sleep(0.1)  # so that they arrive in this order
        other = pool.submit(call, server, "solve", {"tab": "b", "setting": {}})
        time.sleep(0.1)
        gate.set()
        statuses = [one.result()[0] for one in asked]
        assert other.result()[0] == 200, "another tab is not disturbed"
    assert statuses == [204, 204, 204, 200]
    assert len(solved) == 3, "the first had begun; the second and third were never solved"


def test_an_ending_server_waits_for_no_computation():
    class Endless(Session):
        def solve(self, *how, **more):
            threading.Event().wait(60)

    def opened():
        session = session_of()
        session.__class__ = Endless
        return session

    with ThreadPoolExecutor(1) as pool:
        with serving(Explorer({"small": opened})) as server:
            asked = pool.submit(call, server, "solve", {})
            time.sleep(0.3)
            start = time.monotonic()
        assert time.monotonic() - start < 5
        with suppress(OSError, http.client.HTTPException):  # there is no answer, or half of one
            assert asked.result(5)[0] != 200


def test_the_pool_is_that_of_the_automatic_choice():
    session = session_of(small_table(100), scale="none")
    held = "oslo"
    *_, view = make_ensemble_view(session, held)
    table, new = session.table, session.table.domain == held
    automatic = UnseenClassifier(transductive=True).fit(table.X[~new], table.y[~new], sample_domain=table.domain[~new])
    for found, wanted in zip(view.facts["members"], automatic.members_, strict=True):
        assert found == {**wanted, "weight": pytest.approx(wanted["weight"], rel=1e-4)}
    assert [guard["reason"] for guard in view.facts["acceptance_tests"]] == automatic.decisions_
    assert view.facts["name"] == automatic.best_model_
    natural = view.skew(None)
    chosen = next(one["name"] for one in view.facts["trials"] if one["is_selected"])
    accuracy = natural["accuracy"].get(chosen, natural["accuracy"].get("selected model"))
    assert accuracy == pytest.approx(automatic.score(table.X[new], table.y[new]))
    assert sum(natural["counts"]) == new.sum()
    skew = view.skew(0.95)
    assert max(skew["counts"]) / sum(skew["counts"]) > max(natural["counts"]) / sum(natural["counts"])
    assert skew["draws"].keys() == natural["accuracy"].keys()


def run_command(*arguments, **options):
    code = "from unseen.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "explore", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("port", [None, 70_000], ids=["taken", "none"])
def test_a_port_that_cannot_be_used_is_told_with_what_to_do(port):
    with bind_socket(0) as taken:
        taken.listen()
        port = port or taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"Port {port} cannot be used .*Pass another port with the parameter port"):
            bind_socket(port)


def test_too_few_domains_are_told_how_many_it_takes():
    with pytest.raises(ValueError, match=r"The table has a single domain, 'bonn'\. At least two domains are needed"):
        session_of(small_table(n_domains=1))
    two = session_of(small_table(n_domains=2))
    with pytest.raises(ValueError, match="it needs at least two of them"):
        next(make_ensemble_view(two, "bonn"))


def test_without_a_model_none_is_shown(server):
    status, _, told = call(server, "model")
    assert (status, "This server shows data, not a model." in str(told)) == (404, True)


@pytest.mark.system
def test_the_command_serves_until_it_is_interrupted(tmp_path):
    pytest.importorskip("typer", reason="the command needs its extra")
    process = run_command("--no-browser", cwd=tmp_path)
    try:
        address = process.stderr.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert len(address.rsplit("/", 2)[1]) >= 32
        process.stderr.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert said.strip() == "The server has stopped."
    assert os.listdir(tmp_path) == []


@pytest.mark.system
@pytest.mark.skipif(os.name != "posix", reason="a browser is a script of the shell here")
def test_the_token_is_on_no_command_line(tmp_path):
    """All users of a machine can read the command lines of its processes."""
    pytest.importorskip("typer", reason="the command needs its extra")
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$@" > "{opened}.part"\nmv "{opened}.part" "{opened}"\n')
    browser.chmod(0o755)
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    process = run_command("--browser", cwd=tmp_path, env=environment)
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


def test_what_belongs_to_a_domain_that_is_not_held_out_any_more_is_released():
    """By counting references, and not when the garbage collector comes by: decompositions are large."""
    session = session_of(small_table(n=240, n_domains=6))
    gc.collect()
    gc.disable()
    try:
        sizes, evicted = [], weakref.ref(session.split(session.domains[0]))
        for held in session.domains:
            session.solve(session.setting({"held_out": held}))
            sizes.append(len(session._decompositions))
    finally:
        gc.enable()
    assert evicted() is None
    assert sizes[2] == max(sizes)  # as many as are kept
    assert sizes[-1] == sizes[2]


def test_the_copied_command_tells_the_same_figures(tmp_path, session):
    pytest.importorskip("polars", reason="reading tables needs it")
    from typer.testing import CliRunner

    from unseen.cli._app import app
    from unseen.explore import command_line_code, table_source
    from unseen.tables import TableOptions, load_table

    table = small_table()
    names = [f"f{j}" for j in range(4)]
    lines = [",".join([*names, "diagnosis", '"a, place"'])]
    rows = zip(table.X.tolist(), table.y, table.domain, strict=True)
    lines += [",".join([*map(str, x), c, "p" + str(ord(s[0]))]) for x, c, s in rows]
    path = tmp_path / "it's a table.csv"
    path.write_text("\n".join(lines) + "\n")
    request = TableOptions("diagnosis", "a, place", None, ["f3"])
    read = load_table(path, label="diagnosis", domain="a, place", drop=["f3"])
    session = table_source(str(path), read, request, "standardize")()
    setting = session.setting({"conditional_weight": "10*scale", "centering": "target"})
    _, _, *arguments = shlex.split(command_line_code(session, setting))
    result = CliRunner().invoke(app, ["explore", *arguments])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    found = session.solve(setting)
    assert told["accuracy"] == found["accuracy"]
    assert told["setting"] == str(setting)
    there = {}
    exec(python_code(session, setting), there)
    assert there["accuracy"] == found["accuracy"]


def test_setting_of_synthetic_data_has_defaults():
    domains = np.unique(make_synthetic(random_state=0).domain).tolist()
    setting = Setting.parse("", domains, 3)
    assert setting.held_out == domains[-1]
    assert setting.method == "CIDG"
