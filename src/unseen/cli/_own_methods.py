"""``--with``: classifiers of a user's own, from a file or a module. Their code runs, because the user said so."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model_selection import Method


def load_user_methods(places: Sequence[str]) -> list[Method]:
    """Methods from places such as ``file.py:NAME`` and ``package.module:NAME``; they tell where they come from.

    A name stands for a classifier, a class that makes one without arguments, a `Method`, or a tuple of a name, a
    classifier and perhaps a grid of its parameters.
    """
    from ..model_selection import parse_methods

    found = []
    for place in places:
        (method,) = parse_methods([_load_object(place)])
        found.append(replace(method, about=f"{method.about} ({place})".strip()))
    return parse_methods(found)  # of different names


def find_method(name: str, own: Sequence[Method]) -> Method:
    """The method of a name, a user's own if there is one."""
    from ..model_selection import get_method

    return next((method for method in own if method.name == name), None) or get_method(name)


def combine_methods(names: Sequence[str], own: Sequence[Method]) -> list[Method]:
    """Methods by their names, some of which may be a user's, and then what else is the user's."""
    return list(dict.fromkeys([*(find_method(name, own) for name in names), *own]))


def _load_object(place: str) -> Any:
    """What a place holds, as `parse_methods` takes it."""
    from ..model_selection import Method
    from ..utils.validation import format_list

    where, _, name = place.rpartition(":")
    if not where or not name.isidentifier():
        raise ValueError(f"--with takes file.py:NAME or package.module:NAME; got {place!r}.")
    try:
        names = _run_file(Path(where)) if where.endswith(".py") else _import_names(where)
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever the user's own code stumbles over
        raise ValueError(f"--with {place}: {where} cannot be run: {type(error).__name__}: {error}") from error
    if name not in names:
        known = [other for other in names if not other.startswith("_")]
        raise ValueError(f"--with {place}: there is no {name} in {where}; there are {format_list(known, quote=False)}.")
    value = names[name]
    if isinstance(value, type):
        try:
            value = value()
        except TypeError as error:
            raise ValueError(f"--with {place}: {name} wants arguments ({error}); name an object instead.") from error
    return value if isinstance(value, (Method, tuple)) else (name, value)


def _import_names(where: str) -> dict[str, Any]:
    _append_to_path(Path.cwd())
    return vars(import_module(where))


def _run_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"--with: there is no file {path}.")
    _append_to_path(path.resolve().parent)
    name = f"with {path.stem}"  # which no module has
    spec = spec_from_file_location(name, path)
    assert spec is not None  # the ending is .py
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for their module while it runs
    try:
        spec.loader.exec_module(module)
    finally:
        # Afterwards it is unknown, so that other processes are sent its classes rather than a name to import.
        del sys.modules[name]
    return vars(module)


def _append_to_path(folder: Path) -> None:
    """Let code find what lies beside it, after all that is installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
