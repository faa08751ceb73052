"""A server of the explorer in a thread of the tests, and plain HTTP to talk to it."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import contextmanager

import numpy as np

from unseen.explore import Explorer, Origin, Server, Session
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


def session_of(table=None, scale="standardize", **how):
    return Session(small_table() if table is None else table, scale, Origin("table = None"), **how)


@contextmanager
def serving(explorer=None, **how):
    """A running server."""
    explorer = explorer or Explorer({"small": session_of}, **how)
    server = Server(explorer)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.server.started:
            thread.join(0.01)
        yield server
    finally:
        server.server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


def call(server, name, body=None, *, method="POST", path=None, headers=None, raw=None, kept=None):
    """Status, headers and answer; the answer is an object if it can be."""
    connection = kept or http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        data = json.dumps(body or {}).encode() if raw is None else raw
        told = {"content-type": "application/json", **(headers or {})}
        address = f"/{server.token}/api/{name}" if path is None else path
        connection.request(method, address, data if method == "POST" else None, told)
        response = connection.getresponse()
        text = response.read()
    finally:
        if kept is None:
            connection.close()
    try:
        return response.status, response.headers, json.loads(text)
    except ValueError:
        return response.status, response.headers, text.decode("utf-8", "replace")
