"""Downloads against a real server on this machine: whole, cut, tampered, missing, unreachable."""

from __future__ import annotations

import http.server
import io
import logging
import socket
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.io import savemat

from unseen.datasets import _download, _office_caltech, fetch_office_caltech
from unseen.datasets._download import download, git_blob_id

pooch = pytest.importorskip("pooch", reason="downloads need pooch")
CONTENT = np.random.default_rng(0).bytes(300_000)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(_download, "PAUSES", (0.01, 0.02, 0.03))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("UNSEEN_DATA", raising=False)


@pytest.fixture
def site():
    """A server of `files`, whose misbehaviour is set by attributes; `seen` lists the Range of each request."""
    site = SimpleNamespace(files={}, seen=[], cut=[], ranges=True, statuses=[], shift=0, declare=True)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked = self.headers.get("Range")
            site.seen.append(asked)
            body = site.files.get(self.path.lstrip("/"))
            if site.statuses:
                return self.send_error(site.statuses.pop(0))
            if body is None:
                return self.send_error(404)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and site.ranges else 0
            if start >= len(body):
                return self.send_error(416)
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start + site.shift}-{len(body) - 1}/{len(body)}")
            if site.declare:
                self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            self.wfile.write(body[start : site.cut.pop(0) if site.cut else None])

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
    """Download the one file of the site; return what is in the folder afterwards."""
    site.files["file.bin"] = CONTENT
    known = blob_id(CONTENT, tmp_path)

    def run():
        download(site.url + "file.bin", tmp_path / "file.bin", known)
        assert (tmp_path / "file.bin").read_bytes() == CONTENT
        assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]  # no parts, no temporary files

    return run


def test_ids_are_those_of_git(tmp_path):
    assert blob_id(b"", tmp_path) == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert blob_id(b"hello\n", tmp_path) == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_a_whole_file_arrives_in_one_request(get, site):
    get()
    assert site.seen == [None]


def test_a_body_that_breaks_off_is_resumed_where_it_stopped(get, site):
    site.cut = [100_000, 250_000]
    get()
    assert site.seen[0] is None
    first, second = (int(asked.strip("bytes=-")) for asked in site.seen[1:])
    # What arrived is kept, but for a last incomplete piece.
    assert 100_000 - _download.PIECE < first <= 100_000 < second <= 250_000


def test_a_part_of_an_earlier_call_is_resumed(get, site, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:12_345])
    get()
    assert site.seen == ["bytes=12345-"]


def test_a_server_without_ranges_makes_it_start_over(get, site):
    site.cut, site.ranges = [100_000], False
    get()
    assert len(site.seen) == 2
    assert site.seen[1].startswith("bytes=")


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"more"], ids=["complete", "too long"])
def test_a_part_with_nothing_to_add_is_dropped(part, get, site, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(part)
    get()
    assert site.seen == [f"bytes={len(part)}-", None]


def test_a_part_of_another_file_is_dropped_once_the_sum_does_not_fit(get, site, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    get()
    assert site.seen == ["bytes=1000-", None]


def test_an_answer_with_another_range_is_not_appended(get, site, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    site.shift = 7
    get()
    assert site.seen == ["bytes=1000-", None]


def test_passing_troubles_of_the_server_are_waited_out(get, site):
    site.statuses = [503, 429, 500]
    get()
    assert len(site.seen) == 4


def test_troubles_that_do_not_pass_end_after_four_attempts(get, site):
    site.statuses = [503] * 10
    with pytest.raises(OSError, match=r"503.*\(tried 4 times\)"):
        get()
    assert len(site.seen) == 4


def test_a_body_of_unknown_length_is_judged_by_its_id(get, site):
    site.declare = False
    get()
    assert site.seen == [None]


def test_tampered_content_is_refused_and_removed(get, site, tmp_path):
    site.files["file.bin"] = CONTENT[:-1] + b"!"
    with pytest.raises(OSError, match="other content than expected"):
        get()
    assert list(tmp_path.iterdir()) == []


def test_progress_is_shown_on_a_terminal_only(get, site, tmp_path, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    get()
    assert "file.bin: 0.3 of 0.3 MB\n" in terminal.getvalue()
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    (tmp_path / "file.bin").unlink()
    get()
    assert log.getvalue() == ""


def test_the_logger_of_pooch_is_left_as_it_was(get):
    logger = pooch.get_logger()
    before = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        get()
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(before)


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
    monkeypatch.setattr(_office_caltech, "SOURCES", {"surf": sources})
    monkeypatch.setattr(_office_caltech, "SAMPLES", dict.fromkeys(sources, 10))
    monkeypatch.setattr(_office_caltech, "BASE_URL", site.url)
    return tmp_path


def test_office_caltech_is_downloaded_once(office, site):
    data = fetch_office_caltech("surf", data_home=office)
    assert data.data[::10, 0].tolist() == [0, 1, 2, 3]
    assert data.domain_names == ["amazon", "webcam", "dslr", "caltech10"]
    assert data.target.tolist() == list(range(10)) * 4
    assert len(site.seen) == 4
    again = fetch_office_caltech("surf", data_home=office)
    assert len(site.seen) == 4
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
    assert len(site.seen) == 2


def test_a_file_with_other_content_is_set_aside_and_fetched_anew(office, site):
    fetch_office_caltech("surf", data_home=office)
    path = office / "office_caltech" / "dslr_SURF_L10.mat"
    path.write_bytes(b"spoilt")
    with pytest.raises(FileNotFoundError, match=r"not the published one: .*dslr_SURF_L10\.mat"):
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
    with pytest.raises(OSError, match="answered 404") as caught:
        fetch_office_caltech("surf", data_home=office)
    check_that_it_says_what_to_do(
        str(caught.value), office, site.url, ["dslr", "caltech10"], present=["amazon", "webcam"]
    )
    assert len(site.seen) == 3  # a missing file is not asked for twice


def test_without_a_connection_the_error_says_what_to_do(office, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{port}/"
        monkeypatch.setattr(_office_caltech, "BASE_URL", url)
        start = time.monotonic()
        with pytest.raises(OSError, match="could not be reached") as caught:
            fetch_office_caltech("surf", data_home=office)
        assert time.monotonic() - start < 5
    check_that_it_says_what_to_do(str(caught.value), office, url, ["amazon", "webcam", "dslr", "caltech10"])


def test_download_false_asks_for_nothing(office, site):
    with pytest.raises(FileNotFoundError, match="download=False") as caught:
        fetch_office_caltech("surf", data_home=office, download=False)
    check_that_it_says_what_to_do(str(caught.value), office, site.url, ["amazon", "webcam", "dslr", "caltech10"])
    assert site.seen == []


def test_a_folder_that_cannot_be_written_gives_the_same_advice(office, site):
    (office / "office_caltech").write_text("a file in the way", encoding="utf-8")
    with pytest.raises(OSError, match="put them into"):
        fetch_office_caltech("surf", data_home=office)


def test_wrong_counts_are_refused(office, monkeypatch):
    monkeypatch.setitem(_office_caltech.SAMPLES, "webcam", 11)
    with pytest.raises(ValueError, match="11 samples of webcam, of 10 classes; it holds 10 samples"):
        fetch_office_caltech("surf", data_home=office)


def test_unknown_features_are_refused():
    with pytest.raises(ValueError, match=r"one of \['decaf6', 'surf'\]; got 'resnet'"):
        fetch_office_caltech("resnet")


def test_without_pooch_the_error_says_what_to_install(office, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(ImportError, match=r"needs pooch.*pip install 'unseen\[cli\]'"):
        fetch_office_caltech("surf", data_home=office)
