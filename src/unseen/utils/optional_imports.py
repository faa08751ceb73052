"""Optional dependencies, with errors that name the extra to install, and versions that results depend on."""

from __future__ import annotations

import importlib
import os
import platform
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


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, determined without importing Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def environment_info() -> dict[str, Any]:
    """Collect what results depend on: versions, BLAS libraries with their threads, and the machine."""
    import numpy as np
    import scipy
    import sklearn
    from threadpoolctl import threadpool_info

    from .. import __version__

    return {
        "unseen": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "blas": sorted(
            f"{pool['internal_api']} {pool['version']} x{pool['num_threads']}" for pool in threadpool_info()
        ),
    }
