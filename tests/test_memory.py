"""Before an n x n matrix is allocated, somebody asks whether it fits."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from unseen import CIDG, DICA, SCA
from unseen.kernels import _nystroem as memory

GIB = 2**30


@pytest.fixture
def small_machine(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 3 * GIB // 2)


@pytest.mark.usefixtures("small_machine")
@pytest.mark.parametrize("model", [CIDG(), SCA(), DICA(supervised=False)], ids=repr)
def test_what_does_not_fit_is_refused_before_it_is_allocated(model):
    n = 20_000
    X, y, d = np.arange(n, dtype=float)[:, None] % 7, np.arange(n) % 2, np.arange(n) % 3
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError) as caught:
            model.fit(X, y, sample_domain=d)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * X.nbytes < 8 * n * n  # a few vectors, nothing square
    message = str(caught.value)
    assert message.startswith(type(model).__name__)
    assert "20,000 x 20,000" in message
    assert f"{3 * 8 * n**2 / GIB:.1f} GiB in all" in message
    assert "1.5 GiB is available" in message
    assert "feature_map" in message
    assert "Nystroem" in message
    assert "subsample" in message


@pytest.mark.usefixtures("small_machine")
def test_a_feature_map_needs_no_square_matrix():
    n = 20_000
    X, y, d = np.random.default_rng(0).normal(size=(n, 2)), np.arange(n) % 2, np.arange(n) % 3
    assert CIDG(feature_map="linear").fit(X, y, sample_domain=d).transform(X[:3]).shape == (3, 1)


def test_the_limit_is_exact(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 2 * 8 * 100**2)
    memory.check_square_memory(100, copies=2, caller="CIDG")
    with pytest.raises(MemoryError):
        memory.check_square_memory(101, copies=2, caller="CIDG")


def test_a_platform_that_does_not_tell_is_trusted(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    memory.check_square_memory(10**9, copies=3, caller="CIDG")


def test_this_machine_has_memory_and_not_too_much():
    available = memory.available_bytes()
    assert available is None or 2**20 < available < 2**50


class Files:
    """Stands in for Path: the files of a machine, by name; a missing one raises as the real one does."""

    def __init__(self, contents):
        self.contents = contents

    def __call__(self, name):
        return File(self.contents, name)


class File:
    def __init__(self, contents, name):
        self.contents, self.name = contents, name

    def __truediv__(self, name):
        return File(self.contents, f"{self.name}/{name}")

    def read_text(self):
        if self.name not in self.contents:
            raise FileNotFoundError(self.name)
        return self.contents[self.name]


MEMINFO = {"/proc/meminfo": "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 5000 kB\n"}


def group(limit, used, cached=0):
    return {
        "/sys/fs/cgroup/memory.max": f"{limit}\n",
        "/sys/fs/cgroup/memory.current": f"{used}\n",
        "/sys/fs/cgroup/memory.stat": f"anon 7\nactive_file 11\ninactive_file {cached}\n",
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (MEMINFO, 5000 * 1024),
        (MEMINFO | group("max", 100), 5000 * 1024),
        (MEMINFO | group(3000, 1000), 2000),
        (MEMINFO | group(3000, 1000, cached=500), 2500),
        (MEMINFO | group(3000, 4000), 0),
        (MEMINFO | group(10**9, 0), 5000 * 1024),
    ],
    ids=["no group", "no limit", "limit", "limit with cached files", "over the limit", "limit above the machine"],
)
def test_the_tightest_limit_counts(files, expected, monkeypatch):
    monkeypatch.setattr(memory, "Path", Files(files))
    assert memory.available_bytes() == expected


def test_without_proc_nothing_is_known(monkeypatch):
    monkeypatch.setattr(memory, "Path", Files({}))
    assert memory.available_bytes() is None
