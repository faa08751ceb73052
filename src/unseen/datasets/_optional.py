"""Packages that only some data sets need, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any


def optional_import(module: str, purpose: str) -> Any:
    """The module, or an error that says what wanted it and how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{purpose} needs {module}. Install it with: pip install 'unseen[cli]'") from error
