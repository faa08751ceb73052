"""Projections and predictions on Dask collections, computed where their blocks are."""

from .estimators import predict_lazily as predict

__all__ = ["predict"]
