"""Default grids. Multiples of the data's own scales, so that they fit any sample size, fold and kernel."""

from __future__ import annotations

from typing import Any

from ..estimators import CIDG, DICA, KFDA, MDA, SCA, Projection

WIDTHS = ["0.01*median", "0.1*median", "median"]
RIDGES = ["1e-4*scale", "1e-2*scale", "scale", "1e2*scale"]

_GRIDS: dict[type[Projection], dict[str, list[Any]]] = {
    CIDG: {
        "ridge": RIDGES,
        "conditional_weight": [0.0, "scale", "1e2*scale", "1e4*scale"],
        "prior_weight": [0.0, "scale", "1e2*scale"],
    },
    KFDA: {"ridge": RIDGES},
    SCA: {"ridge": ["1e-4*scale", "scale"], "between_weight": [0.5, 0.9], "domain_weight": ["scale", "1e2*scale"]},
    DICA: {"ridge": RIDGES},
    MDA: {
        "ridge": RIDGES,
        "conditional_weight": [0.0, 1.0, 1e2, 1e4],
        "within_weight": [1.0, 1e2],
    },
}


def default_grid(estimator: Projection, n_classes: int) -> dict[str, list[Any]]:
    """Grid of a method; widths are left out where the kernel has none to choose."""
    grid = next((grid for kind, grid in _GRIDS.items() if isinstance(estimator, kind)), None)
    if grid is None:
        raise ValueError(f"There is no default grid for {type(estimator).__name__}; pass param_grid.")
    has_width = estimator.feature_map is None and estimator.kernel == "rbf"
    return {**({"gamma": WIDTHS} if has_width else {}), **grid, **component_grid(estimator, n_classes)}


def component_grid(estimator: Projection, n_classes: int) -> dict[str, list[Any]]:
    """Numbers of components, for methods that have more than the classes support.

    Components past the first ``n_classes - 1`` have small eigenvalues, whose inverse square roots make them dominate
    distances: whether they help is a question for the data.
    """
    return {"n_components": [n_classes - 1, 2 * (n_classes - 1)]} if isinstance(estimator, SCA) else {}
