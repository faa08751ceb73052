"""Downloads from a server on this machine: complete, interrupted, altered, missing, unreachable."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.io import savemat

from unseen.datasets import _office_caltech, fetch_office_caltech
from unseen.datasets._office_caltech import download_file as download
from unseen.datasets._office_caltech import git_blob_id

pooch = pytest.importorskip("pooch", reason="downloads need pooch")
CONTENT = np.random.default_rng(0).bytes(300_000)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("UNSEEN_DATA", raising=False)


@pytest.fixture
def site():
    """A server of `files`, whose misbehavior is set by attributes; `requests` lists the paths that were requested."""
    site = SimpleNamespace(files={}, requests=[], cut=[], statuses=[])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            site.requests.append(self.path)
            body = site.files.get(self.path.lstrip("/"))
            if site.statuses:
                return self.send_error(site.statuses.pop(0))
            if body is None:
                return self.send_error(404)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: site.cut.pop(0) if site.cut else None])

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}/"
    yield site
    server.shutdown()
    server.server_close()
    thread.join(timeout=5)


def blob_id(content, folder):
    path = folder / "to_be_hashed"
    path.write_bytes(content)
    found = git_blob_id(path)
    path.unlink()
    return found


@pytest.fixture
def get(site, tmp_path):
    """Download the one file of the site, and check that it alone is in the folder afterwards."""
    site.files["file.bin"] = CONTENT
    known = blob_id(CONTENT, tmp_path)

    def run():
        download(site.url + "file.bin", tmp_path / "file.bin", known)
        assert (tmp_path / "file.bin").read_bytes() == CONTENT
        assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]

    return run


def test_ids_are_those_of_git(tmp_path):
    assert blob_id(b"", tmp_path) == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert blob_id(b"hello\n", tmp_path) == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_a_whole_file_arrives_in_one_request(get, site):
    get()
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    "trouble", [{"cut": [100_000]}, {"statuses": [503, 429]}], ids=["a body that breaks off", "a busy server"]
)
def test_a_failed_download_is_repeated(get, site, trouble):
    vars(site).update(trouble)
    attempts = 1 + len(next(iter(trouble.values())))
    get()
    assert len(site.requests) == attempts


def test_a_download_that_keeps_failing_ends_with_one_error(get, site, tmp_path):
    site.statuses = [503] * 10
    with pytest.raises(OSError, match=r"file\.bin could not be downloaded: 503"):
        get()
    assert len(site.requests) == 1 + _office_caltech.RETRIES
    assert list(tmp_path.iterdir()) == []


def test_content_with_another_id_is_refused_and_never_put_into_place(get, site, tmp_path):
    site.files["file.bin"] = CONTENT[:-1] + b"!"
    with pytest.raises(OSError, match="its content differs from the published file"):
        get()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def office(site, tmp_path, monkeypatch):
    """A small stand-in for Office-Caltech on the site, 10 samples per domain."""
    sources = {}
    for i, domain in enumerate(["amazon", "webcam", "dslr", "caltech10"]):
        name = f"{domain}_SURF_L10.mat"
        savemat(tmp_path / name, {"fts": np.full((10, 3), i, dtype=np.uint8), "labels": np.arange(1, 11)[:, None]})
        site.files[name] = (tmp_path / name).read_bytes()
        sources[domain] = name, git_blob_id(tmp_path / name)
        (tmp_path / name).unlink()
    monkeypatch.setattr(_office_caltech, "PUBLISHED_FILES", {"surf": sources})
    monkeypatch.setattr(_office_caltech, "N_SAMPLES", dict.fromkeys(sources, 10))
    monkeypatch.setattr(_office_caltech, "BASE_URL", site.url)
    return tmp_path


def test_office_caltech_is_downloaded_once(office, site):
    data = fetch_office_caltech("surf", data_home=office)
    assert data.data[::10, 0].tolist() == [0, 1, 2, 3]
    assert data.domain_names == ["amazon", "webcam", "dslr", "caltech10"]
    assert data.target.tolist() == list(range(10)) * 4
    assert len(site.requests) == 4
    again = fetch_office_caltech("surf", data_home=office)
    assert len(site.requests) == 4
    np.testing.assert_array_equal(again.data, data.data)


def test_the_folder_comes_from_the_environment_or_the_cache(office, site, monkeypatch):
    monkeypatch.setenv("UNSEEN_DATA", str(office / "from_environment"))
    fetch_office_caltech("surf")
    assert len(list((office / "from_environment" / "office_caltech").iterdir())) == 4
    monkeypatch.delenv("UNSEEN_DATA")
    monkeypatch.setattr(pooch, "os_cache", lambda name: office / "cache" / name)
    fetch_office_caltech("surf")
    assert len(list((office / "cache" / "unseen" / "office_caltech").iterdir())) == 4


@pytest.mark.parametrize("names", [("amazon.mat", "caltech.mat"), ("AMAZON.mat", "Caltech10.mat")])
def test_only_what_is_not_at_hand_is_downloaded(names, office, site):
    for name, domain in zip(names, ["amazon", "caltech10"], strict=True):
        (office / name).write_bytes(site.files[f"{domain}_SURF_L10.mat"])
    fetch_office_caltech("surf", data_home=office)
    assert len(site.requests) == 2


def test_a_file_with_other_content_is_set_aside_and_fetched_anew(office, site):
    fetch_office_caltech("surf", data_home=office)
    path = office / "office_caltech" / "dslr_SURF_L10.mat"
    path.write_bytes(b"spoilt")
    with pytest.raises(FileNotFoundError, match=r"differs from the published files: .*dslr_SURF_L10\.mat"):
        fetch_office_caltech("surf", data_home=office, download=False)
    fetch_office_caltech("surf", data_home=office)
    assert path.read_bytes() == site.files["dslr_SURF_L10.mat"]
    assert path.with_name("dslr_SURF_L10.mat.refused").read_bytes() == b"spoilt"


def check_that_it_says_what_to_do(text, office, url, missing, present=()):
    assert all(f"- {name}_SURF_L10.mat" in text for name in missing)
    assert not any(f"- {name}_SURF_L10.mat" in text for name in present)
    assert str(office / "office_caltech") in text
    assert url in text


def test_files_that_are_gone_from_the_site_give_one_error_that_says_what_to_do(office, site):
    del site.files["dslr_SURF_L10.mat"]
    with pytest.raises(OSError, match="404") as caught:
        fetch_office_caltech("surf", data_home=office)
    check_that_it_says_what_to_do(
        str(caught.value), office, site.url, ["dslr", "caltech10"], present=["amazon", "webcam"]
    )


def test_without_a_connection_the_error_says_what_to_do(office, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{port}/"
        monkeypatch.setattr(_office_caltech, "BASE_URL", url)
        start = time.monotonic()
        with pytest.raises(OSError, match="could not be downloaded") as caught:
            fetch_office_caltech("surf", data_home=office)
        assert time.monotonic() - start < 5
    check_that_it_says_what_to_do(str(caught.value), office, url, ["amazon", "webcam", "dslr", "caltech10"])


def test_download_false_asks_for_nothing(office, site):
    with pytest.raises(FileNotFoundError, match="download=False") as caught:
        fetch_office_caltech("surf", data_home=office, download=False)
    check_that_it_says_what_to_do(str(caught.value), office, site.url, ["amazon", "webcam", "dslr", "caltech10"])
    assert site.requests == []


def test_a_folder_that_cannot_be_written_gives_the_same_advice(office, site):
    (office / "office_caltech").write_text("a file in the way", encoding="utf-8")
    with pytest.raises(OSError, match="put them into"):
        fetch_office_caltech("surf", data_home=office)


def test_wrong_counts_are_refused(office, monkeypatch):
    monkeypatch.setitem(_office_caltech.N_SAMPLES, "webcam", 11)
    with pytest.raises(ValueError, match="11 samples of webcam, of 10 classes; it holds 10 samples"):
        fetch_office_caltech("surf", data_home=office)


def test_unknown_features_are_refused():
    with pytest.raises(ValueError, match=r"one of \['decaf6', 'surf'\]; got 'resnet'"):
        fetch_office_caltech("resnet")


def test_without_pooch_the_error_says_what_to_install(office, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(ImportError, match=r"needs pooch.*pip install 'unseen\[cli\]'"):
        fetch_office_caltech("surf", data_home=office)
