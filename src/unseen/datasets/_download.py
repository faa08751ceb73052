"""Download a file with pooch, and verify it by its git blob id before it is moved into place."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ..utils.optional_imports import optional_import

TIMEOUT = (10, 30)  # seconds to connect, and between two chunks of the body
RETRIES = 3
CHUNK_BYTES = 1 << 16


def git_blob_id(path: Path) -> str:
    """Compute the id under which git stores the content of a file."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def download(url: str, destination: Path, blob_id: str) -> None:
    """Download a file that has the given git blob id, or raise OSError and leave the destination unchanged."""
    pooch = optional_import("pooch", "Downloading data")
    # Without streaming, connections are closed after errors too. The files have at most about 40 MB.
    transfer = pooch.HTTPDownloader(timeout=TIMEOUT, stream=False, headers={"Accept-Encoding": "identity"})

    def transfer_and_verify(source: str, temporary: str, manager: Any) -> None:
        # pooch has no git blob hash. It moves the temporary file into place only after this function returns.
        transfer(source, temporary, manager)
        if git_blob_id(Path(temporary)) != blob_id:
            raise ValueError(f"its content differs from the published file (git blob id {blob_id})")

    name = destination.name
    files = pooch.create(
        path=destination.parent, base_url="", registry={name: None}, urls={name: url}, retry_if_failed=RETRIES
    )
    try:
        files.fetch(name, downloader=transfer_and_verify)
    except (OSError, ValueError) as error:
        raise OSError(f"{url} could not be downloaded: {error}") from error
