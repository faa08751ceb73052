"""Encoded tables made ready for a classifier."""

from __future__ import annotations

from typing import Any, Literal, get_args

from ._schema import Schema

Scale = Literal["standardize", "l2", "none"]
RARE = 0.01  # levels rarer than this, among the training samples, share one column


def preprocessor(schema: Schema, scale: Scale = "standardize") -> Any:
    """An unfitted transformer for what :meth:`unseen.tables.Schema.encode` gives.

    Missing numbers become the median of the training data; levels become columns of 0 and 1, in which rare and new
    ones are taken together and a missing value is a level of its own. All it knows it learns in `fit`: fit it on the
    source domains alone, best as the first step of a pipeline.

    Parameters
    ----------
    schema : Schema
        The columns.
    scale : {"standardize", "l2", "none"}, default="standardize"
        Numbers get mean 0 and standard deviation 1; or each row gets length 1, for tables of numbers only, such as
        counts or network features; or nothing.

    Returns
    -------
    transformer : scikit-learn estimator
        With `fit` and `transform`. Numbers come first, then levels, in the order of the schema.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.tables import Column, Schema, preprocessor
    >>> schema = Schema((Column("age", "numeric"), Column("sex", "categorical", ("f", "m"))))
    >>> preprocessor(schema).fit_transform(np.array([[20, 0], [40, 1], [np.nan, 1]]))
    array([[-1.22..., 1. , 0. ],
           [ 1.22..., 0. , 1. ],
           [ 0. ..., 0. , 1. ]])
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler

    if scale not in get_args(Scale):
        raise ValueError(f"scale must be one of {', '.join(get_args(Scale))}; got {scale!r}.")
    numeric = [i for i, column in enumerate(schema.columns) if column.kind == "numeric"]
    categorical = [i for i, column in enumerate(schema.columns) if column.kind == "categorical"]
    if scale == "l2" and categorical:
        names = ", ".join(repr(schema.columns[i].name) for i in categorical)
        raise ValueError(
            f"scale='l2' gives rows of numbers length 1, but {names} hold levels. Drop them, or use 'standardize'."
        )
    numbers = [SimpleImputer(strategy="median", keep_empty_features=True)]
    if scale != "none":
        numbers.append(StandardScaler() if scale == "standardize" else Normalizer())
    if not categorical:
        return make_pipeline(*numbers)
    levels = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=RARE, sparse_output=False)
    parts = [("numbers", make_pipeline(*numbers), numeric)] if numeric else []
    return ColumnTransformer([*parts, ("levels", levels, categorical)], sparse_threshold=0)
