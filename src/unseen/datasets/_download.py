"""Downloading a file that is known by its git blob id: resumed, retried, verified, and put in place whole."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

from ..citizen import optional_import

PAUSES = (0.5, 1.0, 2.0)  # seconds before each further attempt
TIMEOUT = (10, 30)  # seconds to connect, and between two pieces of the body
PIECE = 1 << 16
WORTH_RETRYING = (408, 425, 429, 500, 502, 503, 504)


class TryAgain(Exception):
    """An attempt that failed in a way that may pass."""


def git_blob_id(path: Path) -> str:
    """The id under which git knows the content of a file."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def download(url: str, destination: Path, blob_id: str) -> None:
    """Put the file with this blob id at the destination, or raise OSError and leave the destination alone.

    What has arrived is kept beside it as NAME.part, from which the next attempt, or the next call, goes on.
    """
    optional_import("pooch", "Downloading data")  # which brings requests along
    destination.parent.mkdir(parents=True, exist_ok=True)
    part = destination.with_name(destination.name + ".part")
    for pause in (*PAUSES, None):
        try:
            resumed = _receive(url, part)
            if git_blob_id(part) == blob_id:
                os.replace(part, destination)
                return
            part.unlink()
            if not resumed:  # with a part from before, that may have been at fault: begin anew
                raise OSError(f"{url} sent other content than expected (its git blob id is not {blob_id}); removed")
            raise TryAgain(f"{url} sent a rest that does not fit what had arrived before")
        except TryAgain as reason:
            if pause is None:
                raise OSError(f"{reason} (tried {len(PAUSES) + 1} times)") from reason
            time.sleep(pause)


def _receive(url: str, part: Path) -> bool:
    """Append what is missing to the part; return whether there was something to append to."""
    requests = optional_import("requests", "Downloading data")
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            if response.status_code == 416:
                part.unlink(missing_ok=True)
                raise TryAgain(f"{url} has nothing beyond the {have} bytes that had arrived")
            if response.status_code in WORTH_RETRYING:
                raise TryAgain(f"{url} answered {response.status_code} {response.reason}")
            if response.status_code not in (200, 206):
                raise OSError(f"{url} answered {response.status_code} {response.reason}")
            if response.status_code == 200:  # the whole file, asked for or not
                have = 0
            elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                part.unlink(missing_ok=True)
                raise TryAgain(f"{url} answered with another range than the one asked for")
            expected = have + int(response.headers["Content-Length"]) if "Content-Length" in response.headers else None
            resumed = have > 0
            with part.open("ab" if resumed else "wb") as file:
                for piece in response.iter_content(PIECE):
                    file.write(piece)
                    have += len(piece)
                    _show(f"\r{part.stem}: {have / 1e6:.1f}" + (f" of {expected / 1e6:.1f} MB" if expected else " MB"))
            _show("\n")
    except requests.RequestException as error:
        raise TryAgain(f"{url} could not be reached, or broke off: {error}") from error
    if expected is not None and have < expected:
        raise TryAgain(f"{url} broke off after {have} of {expected} bytes")
    return resumed


def _show(progress: str) -> None:
    """One line that is written over, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(progress)
        sys.stderr.flush()
