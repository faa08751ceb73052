"""Office-Caltech: ten kinds of objects in four collections of photographs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..tables import scan
from ..utils.optional_imports import optional_import
from ..utils.samples import Samples
from ._bunch import make_bunch

TIMEOUT = (10, 30)  # seconds to connect, and between two chunks of the body
RETRIES = 3
CHUNK_BYTES = 1 << 16
BASE_URL = (
    "https://raw.githubusercontent.com/LeiTian-qj/CMMS/1c7c45b858bd400b25c132d178c8e2f603074afc/data/Office-Caltech10/"
)
CLASSES = ["backpack", "bike", "calculator", "headphones", "keyboard", "laptop", "monitor", "mouse", "mug", "projector"]
N_SAMPLES = {"amazon": 958, "webcam": 295, "dslr": 157, "caltech10": 1123}
# The published files: the name of each, and the git blob id of its content.
PUBLISHED_FILES = {
    "decaf6": {
        "amazon": ("amazon_decaf.mat", "79a03a3befed86b5c02b8796a9054e7f9fd07af8"),
        "webcam": ("webcam_decaf.mat", "8a97157cd79b2dc35d998ad332cdd34f4f856d14"),
        "dslr": ("dslr_decaf.mat", "17056093870aa4613eb9be2e2304deedaca721b2"),
        "caltech10": ("caltech_decaf.mat", "0cbd7bfef812fc7d8275f1874eac53d6e703e27e"),
    },
    "surf": {
        "amazon": ("amazon_SURF_L10.mat", "f7b9f80031fca5169388f05346ba7ac279280968"),
        "webcam": ("webcam_SURF_L10.mat", "81bb7794911595f6c452b9ae7749fb5c4fba57b4"),
        "dslr": ("dslr_SURF_L10.mat", "944902f10891e355beed167f54d14c345453e38b"),
        "caltech10": ("Caltech10_SURF_L10.mat", "c722e73ad53f8480bdf8bfe8447c4c91b82752fb"),
    },
}

DESCR = """\
Office-Caltech (Gong, Shi, Sha and Grauman, CVPR 2012)

Photographs of ten kinds of objects from four collections: the shop Amazon (958), a webcam (295), a digital SLR camera
(157) and Caltech-256 (1123). Each collection is a domain. Features, as published, not scaled:

- decaf6: the 4096 activations of layer 6 of the DeCAF network (Donahue et al., ICML 2014)
- surf: counts of 800 visual words of SURF descriptors
"""


def fetch_office_caltech(
    features: str = "decaf6",
    *,
    data_home: str | os.PathLike[str] | None = None,
    download: bool = True,
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load Office-Caltech, downloading it the first time.

    The content of each file is verified by its git blob id when it is downloaded and whenever it is read.

    Parameters
    ----------
    features : {"decaf6", "surf"}, default="decaf6"
        4096 activations of a network, or counts of 800 visual words.
    data_home : str or path, default=None
        Folder of the data. By default the one named by the environment variable `UNSEEN_DATA`, else the user's cache
        folder.
    download : bool, default=True
        Whether missing files are downloaded.
    as_frame, return_X_y : bool, default=False
        Whether to return pandas objects, with `frame` in addition; and whether to return ``(X, y, sample_domain)``
        instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or tuple of (X, y, sample_domain)
        With `data` (2533 rows, 4096 or 800 columns), `target` (0 to 9), `domain`, `target_names`, `domain_names`,
        `feature_names` and `DESCR`.

    Notes
    -----
    Existing files in `data_home` are used: directly in it, in office_caltech, or in a folder such as
    office_caltech_surf; under their published name or that of the domain, such as amazon.mat. Downloading needs pooch:
    ``pip install 'unseen[cli]'``.

    Examples
    --------
    >>> from unseen.datasets import fetch_office_caltech
    >>> data = fetch_office_caltech("surf")  # doctest: +SKIP
    >>> data.data.shape  # doctest: +SKIP
    (2533, 800)

    Without a connection, the error lists the missing files and their folder:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:
    ...         fetch_office_caltech("surf", data_home=folder, download=False)
    ...     except FileNotFoundError as error:
    ...         print(error)
    Office-Caltech (surf) is incomplete: download=False, and these files are missing.
    - amazon_SURF_L10.mat
    ...
    """
    if features not in PUBLISHED_FILES:
        raise ValueError(f"features must be one of {sorted(PUBLISHED_FILES)}; got {features!r}.")
    home = _data_home(data_home)
    paths = {domain: _find_local_file(home, features, domain) for domain in N_SAMPLES}
    missing = [domain for domain, path in paths.items() if path is None]
    if missing and not download:
        reason = "download=False, and these files are missing"
        raise FileNotFoundError(_explain_manual_download(home, features, missing, reason))
    for i, domain in enumerate(missing):
        file, blob_id = PUBLISHED_FILES[features][domain]
        path = home / "office_caltech" / file
        paths[domain] = path
        try:
            if path.exists():  # with other content, since _find_local_file did not return it
                path.replace(path.with_name(f"{file}.refused"))
            download_file(BASE_URL + file, path, blob_id)
        except OSError as error:
            raise OSError(_explain_manual_download(home, features, missing[i:], str(error))) from error
    X: list[Any] = []
    y: list[Any] = []
    for domain in N_SAMPLES:
        path = paths[domain] or home
        frame = scan(path).collect()
        labels = frame["labels"].to_numpy()
        n_classes = len(np.unique(labels))
        if len(labels) != N_SAMPLES[domain] or n_classes != len(CLASSES):
            raise ValueError(
                f"{path} must hold the {N_SAMPLES[domain]} samples of {domain}, of {len(CLASSES)} classes; "
                f"it holds {len(labels)} samples of {n_classes} classes."
            )
        values = frame.drop("labels").to_numpy()
        X.append(values if values.dtype.kind == "f" else values.astype(np.float64))
        y.append(labels.astype(int) - 1)
    samples = Samples(np.vstack(X), np.concatenate(y), np.repeat(list(N_SAMPLES), list(N_SAMPLES.values())))
    names = [f"{features}_{i}" for i in range(samples.X.shape[1])]
    return make_bunch(samples, CLASSES, names, DESCR, as_frame=as_frame, return_X_y=return_X_y)


def _data_home(data_home: str | os.PathLike[str] | None) -> Path:
    folder = data_home or os.environ.get("UNSEEN_DATA")
    if not folder:
        folder = optional_import("pooch", "Finding the cache folder, as data_home is not given,").os_cache("unseen")
    return Path(folder).expanduser()


def _find_local_file(home: Path, features: str, domain: str) -> Path | None:
    """Find an existing file of a domain with the published content."""
    _, blob_id = PUBLISHED_FILES[features][domain]
    return next((path for path in _find_candidates(home, features, domain) if git_blob_id(path) == blob_id), None)


def _find_candidates(home: Path, features: str, domain: str) -> list[Path]:
    """Find the files that may hold a domain, by their names."""
    names = {PUBLISHED_FILES[features][domain][0].lower(), f"{domain}.mat", f"{domain.removesuffix('10')}.mat"}
    folders = (home / "office_caltech", home / f"office_caltech_{features}", home)
    return [path for folder in folders for path in sorted(folder.glob("*.mat")) if path.name.lower() in names]


def _explain_manual_download(home: Path, features: str, domains: list[str], reason: str) -> str:
    files = "\n".join(f"- {PUBLISHED_FILES[features][domain][0]}" for domain in domains)
    rejected = [str(path) for domain in domains for path in _find_candidates(home, features, domain)]
    if rejected:
        files += f"\nThe content of these files differs from the published files: {', '.join(rejected)}."
    return (
        f"Office-Caltech ({features}) is incomplete: {reason}.\n{files}\n"
        f"Download these files from {BASE_URL} and put them into {home / 'office_caltech'}. "
        "Files with other content can be loaded with load_table."
    )


def git_blob_id(path: Path) -> str:
    """Compute the id under which git stores the content of a file."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def download_file(url: str, destination: Path, blob_id: str) -> None:
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
