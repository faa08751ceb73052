"""Docstrings of the parameters and attributes that all projections share."""

from __future__ import annotations

COMMON = """\
ridge : float, "scale" or a multiple such as "0.1*scale", default="scale"
    Weight of ``tr(B'B)`` in the denominator, on the scale of the {power} of the centered kernel matrix Kc.
    "scale" is {scale}.
kernel : str or callable, default="rbf"
    Any kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function of two samples.
{kernel_parameters}
scaling : {"paper", "unit_norm"}, default="paper"
    Length of the columns of B before they are divided by the square roots of their eigenvalues: "paper" makes
    ``B'AB = I`` for the denominator A, "unit_norm" makes them unit vectors, as released code does.
centering : {"source", "target"}, default="source"
    Which mean is subtracted from new samples: "source" subtracts the mean of the training data, "target" the mean of
    the batch of each new domain, as Algorithm 1 of the paper does. Results with "target" are transductive, and they
    assume that class proportions in the batch resemble those of the source domains.
feature_map : transformer, "linear" or None, default=None
    Explicit features instead of `kernel`, such as :class:`~unseen.PivotedNystroem`: memory no longer grows with the
    square of the number of samples. "linear" uses X itself. A map must work row by row; for `partial_fit`, freeze a
    fitted one with :class:`sklearn.frozen.FrozenEstimator`."""

ATTRIBUTES = """\
eigenvalues_ : ndarray of shape (n_components,)
    Ratio of numerator to denominator for each component, in decreasing order. After `partial_fit`, this and the other
    attributes of the solution exist once `finalize` or `transform` was called.
residual_ : ndarray of shape (n_components,)
    Bounds on the relative errors of the eigenvalues, from the residuals of the solution; infinite without a ridge.
classes_ : ndarray of shape (n_classes,)
    Class labels.
domains_ : ndarray of shape (n_domains,)
    Domains seen in training; a single None if they were not named.
cell_counts_ : ndarray of shape (n_domains, n_classes)
    Number of training samples of each class in each domain.
gamma_ : float or None
    The kernel coefficient that was used; only without `feature_map`.
X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
    Training samples, needed to evaluate the kernel; only without `feature_map`, None for a precomputed kernel.
dual_coef_ : ndarray of shape (n_samples, n_components)
    Weight of each training sample in each component; only without `feature_map`.
feature_map_ : transformer or None
    The fitted feature map; None for "linear". Only with `feature_map`.
coef_ : ndarray of shape (n_map_features, n_components)
    Weight of each feature in each component; only with `feature_map`.
statistics_ : dict of ndarrays
    Statistics of the training samples as plain arrays: names, counts, cell means and the scatter within cells; only
    with `feature_map`.
offset_ : ndarray of shape (n_components,)
    The mean that is subtracted from projected samples.
recentered_ : bool
    Whether `recenter` estimated `offset_` on unlabeled target data.
{features_in}"""

RIDGE_SCALES = {1: ("eigenvalues", "``1e-2 * norm(Kc)``"), 2: ("squared eigenvalues", "``1e-4 * norm(Kc) ** 2``")}


def shared_docs(ridge_power: int) -> dict[str, str]:
    """Return the texts that replace ``{common}`` and ``{attributes}`` in the docstring of a projection."""
    power, scale = RIDGE_SCALES[ridge_power]
    return {
        "common": COMMON.replace("{power}", power).replace("{scale}", scale),
        "attributes": ATTRIBUTES,
    }
