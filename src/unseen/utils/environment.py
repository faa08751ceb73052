"""Versions and hardware that results depend on."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

from .. import __version__


def environment_info() -> dict[str, Any]:
    """Collect what results depend on: versions, BLAS libraries with their threads, and the machine."""
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
