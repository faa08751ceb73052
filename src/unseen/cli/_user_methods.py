"""The option ``--with``: load a user's classifiers from a file or a module. This runs the user's code."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model_selection import Method


def load_user_method(location: str) -> Method:
    """Load a method from a location, ``file.py:NAME`` or ``package.module:NAME``, and describe it by that.

    The name refers to a classifier, a class that makes one without arguments, a `Method`, or a tuple of a name, a
    classifier and optionally a grid of hyperparameters.
    """
    from ..model_selection import Method, hash_files, parse_methods
    from ..utils.validation import format_list

    source, _, name = location.rpartition(":")
    if not source or not name.isidentifier():
        raise ValueError(f"--with must be file.py:NAME or package.module:NAME; got {location!r}.")
    is_file = source.endswith(".py")
    if is_file and not Path(source).is_file():
        raise FileNotFoundError(f"--with: the file {source} does not exist.")
    append_to_path(Path(source).resolve().parent if is_file else Path.cwd())
    try:
        # Classes of a module that is not in sys.modules are sent to other processes by value, not by name.
        run_name = f"with {Path(source).stem}"
        namespace = runpy.run_path(source, run_name=run_name) if is_file else vars(import_module(source))
    except Exception as error:  # the user's code can raise anything
        raise ValueError(f"--with {location}: {source} cannot be run: {type(error).__name__}: {error}") from error
    if name not in namespace:
        public_names = format_list([other for other in namespace if not other.startswith("_")], quote=False)
        raise ValueError(f"--with {location}: {source} does not define {name}. It defines {public_names}.")
    value = namespace[name]() if isinstance(namespace[name], type) else namespace[name]
    (method,) = parse_methods([value if isinstance(value, (Method, tuple)) else (name, value)])
    # Stored results depend on the code of the file, which may change between two runs.
    file = namespace.get("__file__")
    code = method.source if file is None else hash_files([Path(file)])
    return replace(method, description=f"{method.description} ({location})".strip(), source=code)


def append_to_path(folder: Path) -> None:
    """Let the user's code import modules next to it; installed packages take precedence."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
