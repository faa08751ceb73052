"""Predictions for Dask collections, computed lazily and block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from ..utils.optional_imports import is_dask
from ._dask import copy_for_workers, describe_columns, map_blocks, row_blocks
from ._projection import Projection


class DaskPredictor(ABC):
    """A model with its own way to predict Dask collections, because its predictions are not row-wise."""

    @abstractmethod
    def predict_dask(self, X: Any, *, sample_domain: Any, method: str) -> Any:
        """Return the lazy result of a prediction method."""


def predict(model: Any, X: Any, *, sample_domain: Any = None, method: str = "predict") -> Any:
    """Predict lazily for a Dask collection, block by block.

    Parameters
    ----------
    model : estimator
        A fitted pipeline of projections, row-wise transformers and a classifier, a fitted
        :class:`~unseen.ProjectionSearchCV` or :class:`~unseen.UnseenClassifier`, or a classifier alone. An ensemble
        that centers new domains reads X once when this function is called. An ensemble that smooths searches the
        neighbors of a sample within its block, so that its predictions depend on the blocks of X.
    X : dask array or dataframe of shape (n_samples, n_features)
        Samples.
    sample_domain : array-like or Dask collection of shape (n_samples,), default=None
        Domain of each sample; matters for ``centering="target"``, which reads X once when this function is called.
    method : str, default="predict"
        Any row-wise method of the classifier, such as "predict_proba".

    Returns
    -------
    y : dask array
        Lazy predictions.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from unseen import KFDA
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.distributed import predict
    >>> data = make_synthetic(random_state=0)
    >>> kfda = KFDA(feature_map="linear")
    >>> Z = kfda.fit_transform(data.data, data.target, sample_domain=data.domain)
    >>> model = make_pipeline(kfda, LogisticRegression().fit(Z, data.target))
    >>> y = predict(model, da.from_array(data.data, chunks=100))
    >>> y.compute().shape
    (320,)
    """
    if not is_dask(X):
        raise TypeError(
            f"X must be a Dask array or dataframe; got {type(X).__name__}. Call model.{method}(X) for data in memory."
        )
    validate_data(model, describe_columns(X), reset=False, skip_check_array=True)  # compares column names, if any
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, DaskPredictor):
        return model.predict_dask(X, sample_domain=sample_domain, method=method)
    *transformers, classifier = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    for step in transformers:
        if isinstance(step, Projection):
            X = step._transform_dask(X, sample_domain)
        elif _needs_domains(step):
            raise ValueError(
                f"{type(step).__name__} needs whole domains at a time, but Dask collections come in blocks. Use a "
                'projection with centering="target", or predict domain by domain in memory.'
            )
        elif step not in (None, "passthrough"):
            X = map_blocks(copy_for_workers(step).transform, row_blocks(X))
    check_is_fitted(classifier)
    return map_blocks(getattr(copy_for_workers(classifier), method), row_blocks(X))


def _needs_domains(step: Any) -> bool:
    """Whether `transform` of a step takes the domains of samples."""
    return hasattr(step, "set_transform_request") and "sample_domain" in step.get_metadata_routing().transform.requests
