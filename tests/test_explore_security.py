"""The explorer's gate: strangers, other sites, broken and oversized requests are refused, and many are answered."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("starlette", reason="the explorer needs its extra")
pytest.importorskip("uvicorn", reason="the explorer needs its extra")

from explore_server import call, serving, session_of, small_table
from unseen.explore import Explorer
from unseen.explore._security import HEADERS


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def test_the_page_and_its_parts_are_served_with_a_strict_policy(server):
    status, headers, page = call(server, "", method="GET", path=f"/{server.token}/")
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "<!DOCTYPE html>" in page
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


REFUSED = {
    "no token": {"path": "/api/start"},
    "no path": {"path": "/"},
    "wrong token": {"path": "/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/api/start"},
    "token behind": {"path": "/api/start?token={token}"},
    "other host": {"headers": {"host": "evil.example"}},
    "rebound host": {"headers": {"host": "evil.example:{port}"}},
    "host without port": {"headers": {"host": "127.0.0.1"}},
    "other origin": {"headers": {"origin": "http://evil.example"}},
    "null origin": {"headers": {"origin": "null"}},
    "origin of another port": {"headers": {"origin": "http://127.0.0.1:1"}},
    "secure origin": {"headers": {"origin": "https://127.0.0.1:{port}"}},
    "cross-site": {"headers": {"sec-fetch-site": "cross-site"}},
    "same site, other origin": {"headers": {"sec-fetch-site": "same-site"}},
}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("how", REFUSED.values(), ids=REFUSED)
def test_strangers_are_refused(server, how, method):
    filled = json.loads(json.dumps(how).replace("{token}", server.token).replace("{port}", str(server.port)))
    status, _, told = call(server, "start", method=method, **filled)
    assert status == 403
    assert server.token not in json.dumps(told)
    assert call(server, "start")[0] == 200, "the server is alive"


def test_the_right_origin_is_let_in(server):
    for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}"):
        assert call(server, "start", headers={"host": host, "origin": f"http://{host}"})[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/{token}/../../../../etc/passwd",
        "/{token}/%2e%2e/%2e%2e/etc/passwd",
        "/{token}/..%2f..%2fetc%2fpasswd",
        "/{token}//etc/passwd",
        "/{token}/_server.py",
        "/{token}/static/app.js",
        "/{token}/app.js/",
        "/{token}/index.html%00.js",
        "/{token}/api/__class__",
        "/{token}/api/_get_ensemble",
    ],
)
def test_no_path_leads_out(server, path):
    for method in ("GET", "POST"):
        status, _, told = call(server, "", method=method, path=path.replace("{token}", server.token))
        assert status in (403, 404, 405)
        assert "root:" not in str(told)


BODIES = {
    "not json": (b"{", 400),
    "nothing": (b"", 400),
    "a list": (b"[]", 400),
    "bytes": (b"\xff\xfe\x00", 400),
    "deep": (b"[" * 60_000, 400),
    "deep objects": (b'{"a":' * 50 + b"1" + b"}" * 50, 400),
    "a list inside": (b'{"setting": [1]}', 400),
    "too large": (b'{"tab": "' + b"a" * 70_000 + b'"}', 413),
    "far too large": (b" " * 5_000_000, 413),
    "long tab": (json.dumps({"tab": "a" * 100}).encode(), 400),
    "tab of a number": (b'{"tab": 1}', 400),
    "other data": (b'{"data": "../../etc/passwd"}', 404),
    "setting of text": (b'{"setting": "held_out=oslo"}', 400),
    "unknown setting": (b'{"setting": {"evil": "1"}}', 422),
    "huge number": (b'{"setting": {"gamma": 1e999}}', 422),
    "not a number": (b'{"setting": {"ridge": NaN}}', 422),
}


@pytest.mark.parametrize(("body", "status"), BODIES.values(), ids=BODIES)
def test_broken_bodies_are_refused(server, body, status):
    try:
        found = call(server, "solve", raw=body)[0]
    except (BrokenPipeError, ConnectionResetError):  # it stopped listening before all was sent
        found = 413
    assert found == status
    assert call(server, "start")[0] == 200, "the server is alive"


def test_forms_and_other_kinds_are_refused(server):
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert call(server, "solve", headers={"content-type": kind})[0] == 415
    assert call(server, "solve", method="GET")[0] == 405
    assert call(server, "save", {"kind": "../x"})[0] == 400
    assert call(server, "skew", {"share": 0.123})[0] == 400


WRONG_TYPES = {
    "save": [{"kind": {}}, {"kind": {"a": 1}}, {"kind": 1}, {}],
    "skew": [{"share": {}}, {"share": "0.9"}, {"share": {"a": 1}}],
    "solve": [{"setting": 1}, {"tab": {}}],
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_values_of_a_wrong_type_are_refused(server, name):
    for body in WRONG_TYPES[name]:
        assert call(server, name, body)[0] == 400, body


ANSWERS = {
    200: b"POST /{token}/api/start HTTP/1.1\r\n{host}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
    400: b"POST /{token}/api/start HTTP/1.1\r\n{host}content-type: application/json\r\ncontent-length: 1\r\n\r\n{",
    403: b"GET / HTTP/1.1\r\n{host}\r\n",
    404: b"GET /{token}/nothing HTTP/1.1\r\n{host}\r\n",
    405: b"GET /{token}/api/start HTTP/1.1\r\n{host}\r\n",
    415: b"POST /{token}/api/start HTTP/1.1\r\n{host}content-length: 0\r\n\r\n",
    500: b"POST /{token}/api/surface HTTP/1.1\r\n{host}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
    "not HTTP": b"what is this?\r\n\r\n",
}


def answer_to(server, request):
    """Status and headers of the answer to some bytes."""
    request = request.replace(b"{token}", server.token.encode())
    request = request.replace(b"{host}", f"host: 127.0.0.1:{server.port}\r\nconnection: close\r\n".encode())
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    first, *lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    return int(first.split()[1]), [line.partition(": ")[::2] for line in lines]


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_every_answer_carries_the_security_headers_once(server, monkeypatch, kind):
    async def fail(explorer, told):
        raise RuntimeError("an error of the program")

    monkeypatch.setattr(Explorer, "surface", fail)
    status, headers = answer_to(server, ANSWERS[kind])
    assert status == (400 if kind == "not HTTP" else kind)
    for name, value in HEADERS.items():
        assert [found for own, found in headers if own.lower() == name] == [value], name


def test_an_answer_when_there_are_too_many_connections_carries_the_security_headers(server, monkeypatch):
    monkeypatch.setattr(server.server.config, "limit_concurrency", 0)
    status, headers = answer_to(server, ANSWERS[200])
    assert status == 503
    assert dict(headers).items() >= HEADERS.items()


UNFINISHED = {
    "nothing": b"",
    "a line": b"GET / HT",
    "headers": b"GET / HTTP/1.1\r\nhost: a\r\n",
    "a body": b"POST /{token}/api/start HTTP/1.1\r\n{host}content-type: application/json\r\ncontent-length: 9\r\n\r\n{",
}


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
def test_a_connection_without_a_complete_request_is_closed(server, monkeypatch, sent, capfd):
    monkeypatch.setattr("unseen.explore._http.MAX_REQUEST_SECONDS", 0.5)
    host = f"host: 127.0.0.1:{server.port}\r\n".encode()
    request = sent.replace(b"{token}", server.token.encode()).replace(b"{host}", host)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(request)
        while connection.recv(65_536):  # nothing, once it is closed
            pass
    assert "Traceback" not in capfd.readouterr().err
    assert call(server, "start")[0] == 200


def test_a_slow_request_on_an_open_connection_is_closed_and_a_slow_answer_is_not(server, monkeypatch):
    monkeypatch.setattr("unseen.explore._http.MAX_REQUEST_SECONDS", 0.5)

    async def slow(explorer, told):
        await asyncio.sleep(1.2)
        return {}

    monkeypatch.setattr(Explorer, "code", slow)
    kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    assert call(server, "code", kept=kept)[0] == 200
    kept.sock.sendall(b"GET / HT")
    assert kept.sock.recv(65_536) == b""
    kept.close()


def test_a_navigation_from_elsewhere_leads_to_the_page_and_no_further(server):
    """The command opens a browser by a file, which is another site."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert call(server, "", method="GET", path=f"/{server.token}/", headers=headers)[0] == 200
    assert call(server, "", method="GET", path=f"/{server.token}/app.js", headers=headers)[0] == 403
    assert call(server, "start", headers=headers)[0] == 403
    framed = headers | {"sec-fetch-dest": "iframe"}
    assert call(server, "", method="GET", path=f"/{server.token}/", headers=framed)[0] == 403


def test_a_thousand_requests_of_twenty_clients():
    with serving(Explorer({"tiny": lambda: session_of(small_table(60, n_domains=3))})) as server:
        a_thousand_requests(server)


def a_thousand_requests(server):
    texts = session_of().facts["methods"][2]["sliders"][2]["values"]
    assert call(server, "solve", {"tab": "warm"})[0] == 200
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def client(k):
        found, kept = [], http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        for i in range(50):
            kind, setting = ("code", {}) if i % 5 else ("solve", {"conditional_weight": texts[i % len(texts)]})
            found.append(call(server, kind, {"tab": f"t{k}", "setting": {"method": "CIDG", **setting}}, kept=kept)[0])
        kept.close()
        return found

    with ThreadPoolExecutor(20) as pool:
        statuses = [status for found in pool.map(client, range(20)) for status in found]
    assert len(statuses) == 1000
    assert set(statuses) == {200}
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100_000, "kilobytes"
