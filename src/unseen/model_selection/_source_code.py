"""Digests of the code of users' estimators, so that a store does not return the results of earlier code."""

from __future__ import annotations

import hashlib
import inspect
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

# Parameters describe the estimators of these packages completely.
KNOWN_PACKAGES = {*sys.stdlib_module_names, "numpy", "scipy", "sklearn", "unseen"}
INSTALLED_FOLDERS = ("site-packages", "dist-packages")


def hash_source(*values: Any) -> str:
    """Hash the files that define the classes and functions in estimators and their parameters.

    The digest is empty if all of them belong to known packages. It is random if the code of one of them is not in a
    file, as in a notebook: results are then computed again instead of taken from a store.
    """
    files = set()
    for item in _list_code(values):
        path = _find_file(item)
        if path is None:
            return uuid.uuid4().hex
        files.add(path)
    return hash_files(files) if files else ""


def hash_files(files: Iterable[Path]) -> str:
    """Hash files of code, and the loaded modules next to those that are not installed, which they may import."""
    paths = {path.resolve() for path in files}
    folders = {path.parent for path in paths if not set(INSTALLED_FOLDERS) & set(path.parts)}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).suffix == ".py" and Path(file).resolve().parent in folders:
            paths.add(Path(file).resolve())
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _list_code(value: Any) -> Iterator[Any]:
    """Yield the classes and functions of users in a value, its parameters and its items."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _list_code(item)
        return
    definitions = [value] if hasattr(value, "__code__") else inspect.getmro(_get_class(value))
    for definition in definitions:
        if str(definition.__module__).partition(".")[0] not in KNOWN_PACKAGES:
            yield definition
    if hasattr(value, "get_params") and not isinstance(value, type):
        yield from _list_code(value.get_params(deep=False))


def _get_class(value: Any) -> type:
    return value if isinstance(value, type) else type(value)


def _find_file(definition: Any) -> Path | None:
    """Return the file that defines a class or a function, or None."""
    try:
        file = inspect.getsourcefile(definition)
    except TypeError:  # the module of the class is not loaded under its name
        codes = [member.__code__ for member in vars(definition).values() if hasattr(member, "__code__")]
        file = codes[0].co_filename if codes else None
    path = None if file is None else Path(file)
    return path if path is not None and path.is_file() else None
