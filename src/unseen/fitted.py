"""What an earlier fit has left behind."""

from __future__ import annotations

from sklearn.base import BaseEstimator


def forget(estimator: BaseEstimator) -> None:
    """Delete what an earlier fit learned, so that nothing of it survives under other parameters."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)
