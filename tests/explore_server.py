"""A server of the explorer in a thread of the tests, and plain HTTP to talk to it."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import contextmanager

import numpy as np

from unseen.explore import Server, Session, Setting
from unseen.tables import Column, Schema, Table


def small_table(n=180, n_domains=4, n_classes=3, n_features=4, seed=0):
    """Classes that lie apart, in domains that lie elsewhere."""
    rng = np.random.default_rng(seed)
    y, d = rng.integers(0, n_classes, n), rng.integers(0, n_domains, n)
    X = rng.normal(size=(n, n_features)) + 1.2 * rng.normal(size=(n_classes, n_features))[y]
    X += rng.normal(size=(n_domains, n_features))[d]
    schema = Schema(tuple(Column(f"f{j}", "numeric") for j in range(n_features)))
    names = np.array(["bonn", "leeds", "oslo", "<b>&\"rome'", "e", "f"])
    return Table(X, np.array(["ill", "well", "<script>"])[y] if n_classes == 3 else y, names[d], schema, [], "small")


def make_session(table=None, **options):
    return Session(small_table() if table is None else table, "standardize", **options)


def make_setting(session, **values):
    return Setting.from_values(values, session.domains)


@contextmanager
def serving(**sources):
    """A running server."""
    server = Server(sources or {"small": make_session})
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        assert not thread.is_alive()


def call(server, name, body=None, *, method="POST", path=None, headers=None, raw=None):
    """Status, headers and response; the response is an object if it can be."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        data = json.dumps(body or {}).encode() if raw is None else raw
        address = f"/{server.token}/api/{name}" if path is None else path
        sent = {"content-type": "application/json", **(headers or {})}
        connection.request(method, address, data if method == "POST" else None, sent)
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    try:
        return response.status, response.headers, json.loads(text)
    except ValueError:
        return response.status, response.headers, text.decode("utf-8", "replace")
