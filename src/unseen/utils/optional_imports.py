"""Optional dependencies, with errors that name the extra to install."""

from __future__ import annotations

import importlib
from typing import Any

NOT_IN_EXTRAS = ("pandas",)  # optional packages that no extra installs
EXTRAS = {  # the extra of each package; packages not listed belong to cli
    "cryptography": "dask",
    "dask": "dask",
    "distributed": "dask",
    "fastexcel": "excel",
    "onnx": "images",
    "onnxruntime": "images",
    "PIL": "images",
    "xlsxwriter": "excel",
}


def optional_import(module: str, purpose: str) -> Any:
    """Import a module, or raise an ImportError that names its purpose and how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        requirement = name if name in NOT_IN_EXTRAS else f"'unseen[{EXTRAS.get(name, 'cli')}]'"
        raise ImportError(f"{purpose} needs {name}. Install it with: pip install {requirement}") from error
