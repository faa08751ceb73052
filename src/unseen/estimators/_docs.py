"""Parameters and attributes that all projections document alike, written once."""

from __future__ import annotations

import inspect
from typing import TypeVar

from ..citizen import parameters

COMMON = """\
ridge : float, "scale" or a multiple such as "0.1*scale", default="scale"
    Weight of ``tr(B'B)`` in the denominator, on the scale of the {power} of the centred kernel matrix Kc.
    "scale" is {scale}.
kernel : str or callable, default="rbf"
    Any kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function of two samples.
gamma : float, "median", "scale", a multiple such as "0.1*median", or None, default="median"
    Kernel coefficient, with scikit-learn's meaning. "median" is, for "rbf", one over the median of the squared
    distances between samples; for other kernels it is None, scikit-learn's default for the kernel. "scale" is
    ``1 / (n_features * X.var())``.
degree : float, default=3
    Degree of the polynomial kernel.
coef0 : float, default=1
    Constant of the polynomial and sigmoid kernels.
kernel_params : dict, default=None
    Keyword arguments for a callable kernel.
scaling : {{"paper", "unit_norm"}}, default="paper"
    Length of the columns of B before they are divided by the square roots of their eigenvalues: "paper" makes
    ``B'AB = I`` for the denominator A, "unit_norm" makes them unit vectors, as released code does.
centering : {{"source", "target"}}, default="source"
    Which mean is subtracted from new samples. "source" uses that of the training data. "target" uses that of each
    new domain's batch, as the paper's Algorithm 1 does; its results are transductive, and they assume that class
    proportions in the batch resemble those of the sources.
feature_map : transformer, "linear" or None, default=None
    Explicit features instead of `kernel`, such as :class:`~unseen.PivotedNystroem`: memory no longer grows with the
    square of the number of samples. "linear" uses X itself. A map must work row by row; for `partial_fit`, freeze a
    fitted one with :class:`sklearn.frozen.FrozenEstimator`."""

ATTRIBUTES = """\
eigenvalues_ : ndarray of shape (n_components,)
    Ratio of numerator to denominator for each component, in decreasing order.
classes_ : ndarray of shape (n_classes,)
    Class labels.
domains_ : ndarray of shape (n_domains,)
    Domains seen in training; a single None if they were not named.
cell_counts_ : ndarray of shape (n_domains, n_classes)
    Number of training samples of each class in each domain.
gamma_ : float or None
    The kernel coefficient that was used; only without `feature_map`.
X_fit_ : {{ndarray, sparse matrix}} of shape (n_samples, n_features)
    Training samples, needed to evaluate the kernel; only without `feature_map`, None for a precomputed kernel.
dual_coef_ : ndarray of shape (n_samples, n_components)
    Weight of each training sample in each component; only without `feature_map`.
feature_map_ : transformer or None
    The fitted feature map; None for "linear". Only with `feature_map`.
coef_ : ndarray of shape (n_map_features, n_components)
    Weight of each feature in each component; only with `feature_map`.
statistics_ : dict of ndarrays
    What has been seen, as plain arrays: names, counts, cell means and the scatter inside the cells. Only with
    `feature_map`.
offset_ : ndarray of shape (n_components,)
    The mean that is subtracted from projected samples.
recentered_ : bool
    Whether `offset_` was estimated on unlabelled target data by `recentered`.
n_features_in_ : int
    Number of features seen during `fit`.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of features seen during `fit`, if `X` had string column names."""

T = TypeVar("T", bound=type)


def document(cls: T) -> T:
    """Give a projection its constructor, and fill in ``{common}`` and ``{attributes}`` of its docstring."""
    squared = getattr(cls, "_ridge_power", 2) == 2
    common = COMMON.format(
        power="squared eigenvalues" if squared else "eigenvalues",
        scale="``1e-4 * norm(Kc) ** 2``" if squared else "``1e-2 * norm(Kc)``",
    )
    doc = inspect.cleandoc(cls.__doc__ or "")
    cls.__doc__ = doc.replace("{common}", common).replace(
        "{attributes}", ATTRIBUTES.replace("{{", "{").replace("}}", "}")
    )
    parameters(cls)
    return cls
