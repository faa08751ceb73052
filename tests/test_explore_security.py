"""Access to the explorer: other users, other sites, and broken and oversized requests are rejected."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from explore_server import call, make_session, serving, small_table
from unseen.explore._server import HEADERS, _Handler


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def test_the_page_is_served_with_a_strict_policy(server):
    status, headers, page = call(server, "", method="GET", path=f"/{server.token}/")
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert "<!DOCTYPE html>" in page
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    for name in ("app.js", "style.css"):
        assert call(server, "", method="GET", path=f"/{server.token}/{name}")[0] == 200


REJECTED = {
    "no token": {"path": "/api/data"},
    "no path": {"path": "/"},
    "wrong token": {"path": "/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/api/data"},
    "token in the query": {"path": "/api/data?token={token}"},
    "whole address": {"path": "http://127.0.0.1:{port}/{token}/api/data"},
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
@pytest.mark.parametrize("request_", REJECTED.values(), ids=REJECTED)
def test_unauthorized_requests_are_rejected(server, request_, method):
    text = json.dumps(request_).replace("{token}", server.token).replace("{port}", str(server.server_port))
    status, _, response = call(server, "data", method=method, **json.loads(text))
    assert status == 403
    assert server.token not in json.dumps(response)


def test_the_server_listens_on_loopback_only(server):
    assert server.server_address[0] == "127.0.0.1"


def test_the_own_origin_is_accepted(server):
    for host in (f"127.0.0.1:{server.server_port}", f"localhost:{server.server_port}"):
        assert call(server, "data", headers={"host": host, "origin": f"http://{host}"})[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/{token}/../../../../etc/passwd",
        "/{token}/%2e%2e/%2e%2e/etc/passwd",
        "/{token}//etc/passwd",
        "/{token}/_server.py",
        "/{token}/static/app.js",
        "/{token}/app.js/",
        "/{token}/index.html%00.js",
        "/{token}/api/__class__",
    ],
)
def test_no_path_leads_to_other_files(server, path):
    for method in ("GET", "POST"):
        assert call(server, "", method=method, path=path.replace("{token}", server.token))[0] == 404


BODIES = {
    "not json": (b"{", 400),
    "nothing": (b"", 400),
    "a list": (b"[]", 400),
    "bytes": (b"\xff\xfe\x00", 400),
    "deep": (b"[" * 60_000, 400),
    "too large": (b'{"data": "' + b"a" * 70_000 + b'"}', 413),
    "far too large": (b" " * 5_000_000, 413),
    "other data": (b'{"data": "../../etc/passwd"}', 404),
    "data of a list": (b'{"data": ["small"]}', 404),
    "setting of text": (b'{"setting": "held_out=oslo"}', 400),
    "unknown setting": (b'{"setting": {"evil": "1"}}', 422),
    "a list in a setting": (b'{"setting": {"gamma": [1]}}', 422),
    "huge number": (b'{"setting": {"gamma": 1e999}}', 422),
    "not a number": (b'{"setting": {"ridge": NaN}}', 422),
}


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES)
def test_broken_bodies_are_rejected(server, body, expected):
    try:
        status = call(server, "solve", raw=body)[0]
    except (BrokenPipeError, ConnectionResetError):  # the server responded before everything was sent
        status = 413
    assert status == expected
    assert call(server, "data")[0] == 200, "the server is alive"


def test_other_content_types_are_rejected(server):
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert call(server, "solve", headers={"content-type": kind})[0] == 415


def respond_to(server, request):
    """The bytes of the response to some bytes."""
    request = request.replace(b"{token}", server.token.encode())
    request = request.replace(b"{host}", f"host: 127.0.0.1:{server.server_port}\r\nconnection: close\r\n".encode())
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
        connection.sendall(request)
        response = b""
        while part := connection.recv(65_536):
            response += part
    return response


JSON = b"{host}content-type: application/json\r\n"
REQUESTS = {
    200: b"POST /{token}/api/data HTTP/1.1\r\n" + JSON + b"content-length: 2\r\n\r\n{}",
    400: b"POST /{token}/api/data HTTP/1.1\r\n" + JSON + b"content-length: 1\r\n\r\n{",
    403: b"GET / HTTP/1.1\r\n{host}\r\n",
    404: b"GET /{token}/nothing HTTP/1.1\r\n{host}\r\n",
    411: b"POST /{token}/api/data HTTP/1.1\r\n" + JSON + b"transfer-encoding: chunked\r\n\r\n",
    501: b"BREW /{token}/ HTTP/1.1\r\n{host}\r\n",
}


@pytest.mark.parametrize("expected", REQUESTS)
def test_every_response_has_the_security_headers(server, expected):
    first, *lines = respond_to(server, REQUESTS[expected]).partition(b"\r\n\r\n")[0].decode().split("\r\n")
    assert int(first.split()[1]) == expected
    headers = [line.partition(": ")[::2] for line in lines]
    for name, value in HEADERS.items():
        assert [found for own, found in headers if own.lower() == name] == [value], name


UNFINISHED = {
    "nothing": b"",
    "a line": b"GET / HT",
    "headers": b"GET / HTTP/1.1\r\nhost: a\r\n",
    "a body": b"POST /{token}/api/data HTTP/1.1\r\n" + JSON + b"content-length: 9\r\n\r\n{",
}


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
def test_a_connection_without_a_complete_request_is_closed(server, monkeypatch, sent, capfd):
    monkeypatch.setattr(_Handler, "timeout", 0.3)
    assert respond_to(server, sent) == b""
    assert capfd.readouterr().err == ""


def test_a_navigation_from_another_site_opens_the_page_only(server):
    """The command opens a browser by a file, which is another site."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert call(server, "", method="GET", path=f"/{server.token}/", headers=headers)[0] == 200
    assert call(server, "", method="GET", path=f"/{server.token}/app.js", headers=headers)[0] == 403
    assert call(server, "data", headers=headers)[0] == 403
    framed = headers | {"sec-fetch-dest": "iframe"}
    assert call(server, "", method="GET", path=f"/{server.token}/", headers=framed)[0] == 403


def test_clients_at_the_same_time_receive_their_own_results():
    with serving(tiny=lambda: make_session(small_table(60, n_domains=3))) as server, ThreadPoolExecutor(8) as pool:
        domains = call(server, "data")[2]["domains"]
        bodies = [{"setting": {"held_out": domains[k % 3]}} for k in range(60)]
        solutions = list(pool.map(lambda body: call(server, "solve", body), bodies))
    assert {status for status, _, _ in solutions} == {200}
    for k, (_, _, solution) in enumerate(solutions):
        assert set(solution["validation_domains"]) == set(domains) - {domains[k % 3]}
