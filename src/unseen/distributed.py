"""Lazy predictions for Dask collections."""

from .estimators import predict_lazily as predict

__all__ = ["predict"]
