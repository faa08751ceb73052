"""A folder with one file per domain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from ..tables import (
    DomainFile,
    brief,
    class_names,
    disagreements,
    feature_names,
    read_array_file,
    read_table_file,
    same_columns,
)
from ._bunch import Domain, bunch_of

READERS = {
    ".mat": read_array_file,
    ".npz": read_array_file,
    ".csv": read_table_file,
    ".parquet": read_table_file,
}


def load_folder(
    path: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
    as_frame: bool = False,
) -> Bunch:
    """Load a folder that holds one file per domain.

    Files may be MATLAB's (.mat, of any version), NumPy's (.npz) or tables (.csv, .parquet). The name of the file,
    without its ending, is the name of the domain. Other files are passed over. Everything that is wrong, in any of the
    files, is reported at once.

    Parameters
    ----------
    path : str or path
        The folder.
    features : str or list of str, default=None
        In .mat and .npz files, the name of the matrix of features; by default the one called fts, feas, X, features or
        data. In tables, the columns to use; by default all columns of numbers but the label.
    label : str, default=None
        The name of the labels; by default the array or column called labels, label, y or gt.
    as_frame : bool, default=False
        Whether `data`, `target` and `domain` are pandas objects; adds `frame`.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With `data`, `target`, `domain`, `target_names`, `domain_names`, `feature_names` and `DESCR`. `target` holds the
        labels as they are in the files, integers or strings, and `target_names` a name for each distinct label, in
        sorted order: from an array `classes` of the files if there is one, else the labels themselves.

    Notes
    -----
    A matrix may have its samples in rows or in columns: the number of labels decides, and rows win if both fit.
    Missing values in tables become NaN. Columns of text are left out and listed in `DESCR`. Pickled objects in .npz
    files are never loaded. Version 7.3 of .mat needs h5py and tables need polars: ``pip install 'unseen[cli]'``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from unseen.datasets import load_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "hospital_a.npz"), X=np.eye(4), y=["ill", "well", "ill", "well"])
    ...     np.savez(Path(folder, "hospital_b.npz"), X=np.ones((2, 4)), y=["ill", "well"])
    ...     data = load_folder(folder)
    >>> data.domain_names, data.target_names
    (['hospital_a', 'hospital_b'], ['ill', 'well'])
    >>> data.data.shape
    (6, 4)
    """
    files = read_folder(path, features, label)
    return bunch_of(
        [Domain(file.name, file.data, file.target) for file in files],
        target_names=class_names(files),
        feature_names=feature_names(files),
        description=_description(Path(path).expanduser().resolve().name, files),
        as_frame=as_frame,
    )


def read_folder(
    path: str | os.PathLike[str], features: str | Sequence[str] | None, label: str | None
) -> list[DomainFile]:
    """Every domain of a folder, sorted by name, once all of them are sound and agree with each other."""
    names = [features] if isinstance(features, str) else features or []
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in (*names, label or "")):
        raise TypeError(
            f"features must be a name or a list of names, and label a name; got features={features!r}, label={label!r}."
        )
    files, problems = [], []
    for file in _files_of(Path(path).expanduser()):
        try:
            files.append(READERS[file.suffix.lower()](file, features, label))
        except (ImportError, MemoryError):
            raise
        except Exception as error:  # a broken file makes its reader fail in any way at all
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            problems.append(f"{file.name}: {reason.rstrip('.')}.")
    problems += disagreements(files)
    if problems:
        raise ValueError(f"The folder {os.fspath(path)!r} cannot be loaded:\n" + "\n".join(f"- {p}" for p in problems))
    return same_columns(files)


def _files_of(folder: Path) -> list[Path]:
    if not folder.is_dir():
        kind, found = (NotADirectoryError, "a file") if folder.exists() else (FileNotFoundError, "nothing")
        raise kind(f"path must be a folder with one file per domain; at {str(folder)!r} there is {found}.")
    inside = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    files = [entry for entry in inside if entry.is_file() and entry.suffix.lower() in READERS]
    if not files:
        raise FileNotFoundError(
            f"The folder {str(folder)!r} must hold one file per domain, ending in {', '.join(READERS)}; "
            f"it holds {brief(repr(entry.name) for entry in inside)}."
        )
    return files


def _description(title: str, files: Sequence[DomainFile]) -> str:
    lines = [f"Data of the folder {title}", "", f"{files[0].data.shape[1]} features; one domain per file:"]
    for file in files:
        lines.append(f"- {file.name}: {len(file.data)} samples, {len(np.unique(file.target))} classes")
    left_out = sorted({name for file in files for name in file.left_out})
    if left_out:
        lines += ["", f"Columns left out because they are not numbers: {', '.join(left_out)}"]
    return "\n".join(lines) + "\n"
