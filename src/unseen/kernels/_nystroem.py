"""Explicit features: of landmarks selected by a randomly pivoted Cholesky factorization, or of any feature map.

Also here: how much memory an exact kernel needs, and from how many rows on landmarks replace it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy import linalg, sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from ..exceptions import ignore_warnings
from ..linalg import Array, Ints, gram, product
from ..utils.validation import format_list, keyword_parameters, reset_fitted_attributes
from ._kernel import EPS, Kernel, KernelTransformer, shift_to_mean


@keyword_parameters
class PivotedNystroem(KernelTransformer):
    r"""Nystroem features whose landmarks are drawn where the approximation is poor.

    The probability of a landmark is proportional to the error of the approximation for the sample so far: the diagonal
    of the residual kernel matrix. This is randomly pivoted Cholesky (Chen et al., 2023). It finds small distant
    clusters, never selects copies of a sample twice, and computes the error of the result exactly. A fit evaluates the
    kernel between samples and landmarks and stores `n_components` numbers per sample, never the full matrix.

    Landmarks are drawn in blocks, with rejections that preserve the distribution of landmarks drawn one at a time
    (Epperly et al., 2024). `block_size` changes the speed and the random landmarks, not their distribution.

    Parameters
    ----------
    n_components : int, default=100
        Maximum number of landmarks; fewer if the kernel matrix has a lower rank or `tolerance` is reached.
    kernel : str or callable, default="rbf"
        "cosine", "laplacian", "linear", "poly", "rbf", or a positive semi-definite function of two samples.
    {kernel_parameters}
    tolerance : float, default=None
        Stop when `trace_error_` is at most this number between 0 and 1; a ConvergenceWarning is raised if
        `n_components` landmarks are not enough. None selects `n_components` landmarks.
    block_size : int, default=64
        Number of landmarks proposed at a time; the kernel is evaluated between all of them. A callable kernel is
        expensive, so for it landmarks are proposed one by one.
    random_state : int, RandomState instance or None, default=None
        Seed of the random landmarks.

    Attributes
    ----------
    components_ : {ndarray, sparse matrix} of shape (`n_components_`, n_features)
        The landmarks, in order of selection.
    component_indices_ : ndarray of shape (`n_components_`,)
        Positions of the landmarks in the training samples.
    n_components_ : int
        Number of landmarks.
    cholesky_ : ndarray of shape (`n_components_`, `n_components_`)
        Lower Cholesky factor of the kernel matrix of the landmarks.
    trace_error_ : float
        Relative error on the training samples: the trace of the kernel matrix minus that of its approximation, divided
        by the former. 0 means exact up to rounding.
    gamma_ : float or None
        The value of gamma.
    {features_in}

    See Also
    --------
    sklearn.kernel_approximation.Nystroem : Landmarks drawn uniformly.

    References
    ----------
    Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber. "Randomly pivoted Cholesky: Practical approximation of a kernel
    matrix with few entry evaluations". Communications on Pure and Applied Mathematics, 2025 (arXiv 2023).

    E. N. Epperly, J. A. Tropp, R. J. Webber. "Embrace rejection: Kernel matrix approximation by accelerated randomly
    pivoted Cholesky". arXiv 2024.

    Examples
    --------
    >>> from unseen import CIDG, PivotedNystroem
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> features = PivotedNystroem(300, tolerance=1e-6, random_state=0).fit(data.data)
    >>> print(f"{features.trace_error_:.6f}")
    0.000001
    >>> cidg = CIDG(feature_map=PivotedNystroem(50, random_state=0))
    >>> cidg.fit_transform(data.data, data.target, sample_domain=data.domain).shape
    (320, 2)
    """

    n_components: int = field(default=100, kw_only=False)
    tolerance: float | None = None
    block_size: int = 64
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelTransformer._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "tolerance": [Interval(Real, 0, 1, closed="neither"), None],
        "block_size": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def fit(self, X: Any, y: Any = None) -> Self:
        """Select the landmarks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples. `n_components` numbers are stored for each of them.
        y : None
            Not used.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        self._validate_params()
        reset_fitted_attributes(self)
        kernel = Kernel.from_estimator(self)
        if kernel.kernel == "precomputed":
            raise ValueError(
                'PivotedNystroem does not support kernel="precomputed", because it avoids the full kernel matrix. If '
                'you have the matrix, fit a projection on it, for example CIDG(kernel="precomputed").'
            )
        X = self._check_samples(X)
        # About the mean once: values of the same pair must not differ between blocks.
        samples = shift_to_mean(X)[0] if self.kernel == "rbf" else X.astype(np.float64, copy=False)
        kernel = kernel.resolve(X)
        self.gamma_ = kernel.gamma
        diagonal = kernel.check_finite(kernel.evaluate_diagonal(samples))
        if diagonal.min() < 0 or not diagonal.any():
            raise ValueError(
                f"kernel={self.kernel!r} must give samples a positive value with themselves; on X these values lie "
                f"between {diagonal.min():.3g} and {diagonal.max():.3g}. Check X, or use a positive semi-definite "
                "kernel."
            )
        try:
            factor, pivots, residual = pivoted_cholesky(
                lambda rows, columns: kernel.check_finite(kernel.evaluate(samples[rows], samples[columns])),
                diagonal,
                n_pivots=min(self.n_components, len(diagonal)),
                tolerance=self.tolerance or 0.0,
                block_size=1 if callable(self.kernel) else self.block_size,
                rounding=self._rounding(kernel, samples) * diagonal,
                random=check_random_state(self.random_state),
            )
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"kernel={self.kernel!r} is not positive semi-definite on X: {error} Use another kernel or other "
                "parameters. If the kernel is positive but computed inexactly, set a larger tolerance or fewer "
                "n_components."
            ) from error
        self.components_ = X[pivots]
        self.component_indices_ = pivots
        self.n_components_ = self._n_features_out = len(pivots)
        self.cholesky_ = factor[:, pivots].T.copy()
        self.trace_error_ = float(residual.sum() / diagonal.sum())
        if self.tolerance is not None and self.trace_error_ > self.tolerance and len(pivots) == self.n_components:
            warnings.warn(
                f"PivotedNystroem stopped at n_components={self.n_components} with a trace error of "
                f"{self.trace_error_:.2g}, above tolerance={self.tolerance:g}. Increase n_components or tolerance.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def transform(self, X: Any) -> Any:
        """Return features of samples; their inner products approximate the kernel.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; rows are transformed independently.

        Returns
        -------
        features : ndarray of shape (n_samples, `n_components_`)
            One feature per landmark.
        """
        X, kernel, values = self._evaluate_on_landmarks(X)
        features = linalg.solve_triangular(self.cholesky_, values.T, lower=True, overwrite_b=True, check_finite=False).T
        return kernel.check_finite(features).astype(X.dtype, copy=False)

    def combine(self, X: Any, weights: Any) -> Array:
        """Return weighted sums of features without computing the features, which is faster for a few sums.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        weights : array-like of shape (`n_components_`, n_combinations)
            Weight of each feature in each combination.

        Returns
        -------
        combined : ndarray of shape (n_samples, n_combinations)
            ``transform(X) @ weights``, up to rounding, in double precision.
        """
        _, kernel, values = self._evaluate_on_landmarks(X)
        landmark_weights = linalg.solve_triangular(self.cholesky_, weights, lower=True, trans=1)
        return kernel.check_finite(product(values, landmark_weights))

    def _evaluate_on_landmarks(self, X: Any) -> tuple[Any, Kernel, Array]:
        """Return validated samples, the kernel, and its values between samples and landmarks."""
        check_is_fitted(self)
        kernel = Kernel.from_estimator(self, gamma=self.gamma_)
        X = self._check_samples(X, reset=False)
        return X, kernel, kernel.evaluate(X, self.components_)

    def _rounding(self, kernel: Kernel, X: Any) -> Array | float:
        """Return a bound on the rounding errors of kernel values, relative to the diagonal."""
        steps = 100 * max(10, X.shape[1], min(self.n_components, X.shape[0]))
        if kernel.kernel != "rbf":
            return steps * EPS
        # The bound of cancellation in squared distances. It is clipped, because the values of a narrow kernel at large
        # distances are negligible.
        return np.clip(steps * EPS * kernel.gamma_value(X.shape[1]) * row_norms(X, squared=True), steps * EPS, 1e-3)


NEGATIVE_TOLERANCE = float(np.sqrt(np.finfo(float).eps))  # of negative residuals, relative to the diagonal


def pivoted_cholesky(
    values: Callable[[Any, Any], Array],
    diagonal: Array,
    *,
    n_pivots: int,
    tolerance: float,
    block_size: int,
    rounding: Array,
    random: np.random.RandomState,
) -> tuple[Array, Ints, Array]:
    """Factorize a positive semi-definite matrix K from a small number of its rows, ``K ~ F'F`` (Chen et al. 2023).

    ``values(rows, columns)`` evaluates a part of K; `columns` may be a full slice. Pivots are proposed in blocks of
    `block_size`, up to `n_pivots` or until the trace of ``K - F'F`` is at most `tolerance` times the trace of K.
    Residuals up to `rounding` are rounding errors and are ignored. Returns F, whose columns at the pivots are upper
    triangular, the pivots in order of selection, and the diagonal of ``K - F'F``, which is never negative. Raises
    LinAlgError if K is not positive semi-definite.
    """
    n = len(diagonal)
    factor = np.empty((n_pivots, n))  # With a tolerance, the operating system never provides the rows left over.
    pivots = np.empty(0, dtype=np.intp)
    target = tolerance * diagonal.sum()
    residual = diagonal.copy()
    slack = np.maximum(NEGATIVE_TOLERANCE * diagonal, rounding)
    while len(pivots) < n_pivots:
        remaining = residual.sum()
        if not remaining > target:
            break
        weights = np.where(residual > rounding, residual, 0.0)
        if not weights.any():
            break
        computed = factor[: len(pivots)]
        proposals = random.choice(n, size=block_size, p=weights / weights.sum())
        # A repeated proposal would be rejected, so only the first one is kept.
        proposals = proposals[np.sort(np.unique(proposals, return_index=True)[1])]
        block = np.zeros((1, 1)) if len(proposals) == 1 else values(proposals, proposals) - gram(computed[:, proposals])
        np.fill_diagonal(block, residual[proposals])
        # Proposals are drawn from the residual before the block. The rejection probability corrects for the pivots of
        # the same block, so that accepted pivots have the distribution of pivots drawn one at a time.
        thresholds = np.maximum(random.uniform(size=len(proposals)) * residual[proposals], rounding[proposals])
        accepted, triangle = _eliminate(block, thresholds, n_pivots - len(pivots))
        chosen = proposals[accepted]
        rows = values(chosen, slice(None))
        rows -= product(computed[:, chosen].T, computed)
        rows = linalg.blas.dtrsm(1.0, triangle, rows.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
        rows[:, pivots] = 0.0  # Exactly zero, without rounding errors.
        rows[:, chosen] = triangle.T
        # Each row explains a known part of the trace: keep as many rows as the tolerance needs.
        traces = remaining - np.cumsum(np.einsum("ij,ij->i", rows, rows))
        count = min(len(rows), 1 + int(np.count_nonzero(traces > target)))
        rows = rows[:count]
        chosen = chosen[:count]
        factor[len(pivots) : len(pivots) + count] = rows
        pivots = np.concatenate([pivots, chosen])
        residual -= np.einsum("ij,ij->j", rows, rows)
        if not (residual >= -slack).all():
            raise np.linalg.LinAlgError(
                f"after {len(pivots)} pivots the smallest entry of the residual diagonal is {residual.min():.2g}."
            )
        residual = np.maximum(residual, 0.0)
    return factor[: len(pivots)], pivots, residual


def _eliminate(block: Array, thresholds: Array, max_rows: int) -> tuple[list[int], Array]:
    """Factorize the rows whose pivot exceeds its threshold, in order; `block` is overwritten."""
    accepted: list[int] = []
    lower = np.zeros_like(block)
    for i, threshold in enumerate(thresholds):
        if len(accepted) < max_rows and block[i, i] > threshold:
            column = block[i:, i] / np.sqrt(block[i, i])
            block[i:, i:] -= np.outer(column, column)
            lower[i:, len(accepted)] = column
            accepted.append(i)
    return accepted, lower[accepted, : len(accepted)]


# Projections compare column names once and then pass plain arrays to the feature map.
MISSING_NAMES_WARNING = (UserWarning, "X does not have valid feature names")
BLOCK_ENTRIES = 2**22  # kernel values or features per block: 32 MiB


def compute_features(feature_map: Any, X: Any) -> Array:
    """Return the features of samples for a fitted map; None is the identity."""
    with ignore_warnings(MISSING_NAMES_WARNING):
        features = X if feature_map is None else feature_map.transform(X)
    if sparse.issparse(features):
        features = features.toarray()
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2 or len(features) != X.shape[0] or not np.isfinite(features).all():
        raise ValueError(
            f"feature_map={feature_map!r} must turn X into finite features, one row per sample; for X of shape "
            f"{X.shape} it gave an array of shape {features.shape} with {np.count_nonzero(~np.isfinite(features))} NaN "
            "or infinite values."
        )
    return features


def combine_features(feature_map: Any, X: Any, weights: Array) -> Array:
    """Return weighted sums of the features of samples; a map with a method `combine` need not compute features."""
    if hasattr(feature_map, "combine"):
        with ignore_warnings(MISSING_NAMES_WARNING):
            return feature_map.combine(X, weights)
    return product(compute_features(feature_map, X), weights)


def map_in_blocks(function: Callable[[Any], Array], X: Any, width: int, inner_width: int = 1) -> Array:
    """Apply a row-wise function that returns `width` columns, block by block, to bound its temporary memory.

    `inner_width` is the number of columns of its largest temporary array.
    """
    values = np.empty((X.shape[0], width))
    step = max(1, BLOCK_ENTRIES // max(width, inner_width))
    for rows in gen_batches(X.shape[0], step):
        values[rows] = function(X[rows])
    return values


def map_features(fitted: Any, X: Any) -> Array:
    """Return the features of samples for a fitted map or "linear", computed in blocks."""
    features = partial(compute_features, None if isinstance(fitted, str) else fitted)
    width = features(X[:1]).shape[1]
    check_scatter_memory(width)
    return map_in_blocks(features, X, width)


def is_fitted_map(feature_map: Any) -> bool:
    """Whether fitting does not change a feature map: "linear" or a FrozenEstimator."""
    return isinstance(feature_map, (str, FrozenEstimator))


def fit_feature_map(feature_map: Any, X: Any, feature_names: Any = None) -> Any:
    """Fit a feature map to samples whose columns have these names, if any; None for "linear"."""
    if isinstance(feature_map, str):
        return None
    fitted = clone(feature_map).fit(X, None)
    map_names = getattr(fitted, "feature_names_in_", None)
    if map_names is not None and feature_names is not None and list(map_names) != list(feature_names):
        raise ValueError(
            f"feature_map was fitted to columns {format_list(map_names, quote=False)}, but X has "
            f"{format_list(feature_names, quote=False)}. Fit both to the same columns in the same order."
        )
    return fitted


def available_bytes() -> int | None:
    """Return the memory that can be allocated without swapping, or None if the platform does not report it."""
    limits = list[int]()
    try:
        limits += [1024 * number for number in _read_numbers(Path("/proc/meminfo"), "MemAvailable:")]
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            used = int((group / "memory.current").read_text())
            # Cached files count as used, but their memory is released on demand.
            limits.append(int(limit) - used + sum(_read_numbers(group / "memory.stat", "inactive_file ")))
    except (OSError, ValueError):
        pass  # Not Linux, or no control group: use the values collected so far.
    return max(min(limits), 0) if limits else None


def _read_numbers(file: Path, key: str) -> list[int]:
    return [int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(key)]


EXACT_ROWS = 8_000  # Up to this number of samples kernels are exact; beyond it landmarks approximate them.
# Rows of a larger table to which models are fitted that predict held-out domains: of kernel methods alone, and of other
# classifiers and ensembles.
CHOICE_ROWS = 2_000
CLASSIFIER_CHOICE_ROWS = 3_000
FIT_ROWS = 200_000  # rows of a larger table in memory, to which classifiers without kernels are fitted
SAMPLE_ROWS = 20_000  # rows of a larger table for the classifiers of kernel methods
LANDMARK_ROWS = 10_000  # rows of a larger table from which landmarks are drawn
MAX_LANDMARKS = 1_000
TRACE_TOLERANCE = 1e-6  # share of the trace of the kernel that landmarks may miss


def check_square_memory(n: int, copies: int, caller: str) -> None:
    """Raise MemoryError if `copies` float64 matrices of n x n do not fit."""
    check_memory(
        f"{caller} with an exact kernel on {n:,} samples",
        n,
        copies,
        "Fit on a subsample, or set feature_map, for example to unseen.PivotedNystroem(1000), whose memory does not "
        "grow with the square of the number of samples.",
    )


def check_scatter_memory(width: int) -> None:
    """Raise MemoryError if the matrices of a projection of `width` explicit features do not fit."""
    check_memory(
        f"A projection of {width:,} explicit features",
        width,
        4,
        'Set feature_map to a map with fewer features, or to None: kernel="linear" gives the same components as '
        'feature_map="linear", from a matrix of samples by samples.',
    )


def check_memory(task: str, n: int, copies: int, advice: str) -> None:
    """Raise MemoryError, with advice, if `copies` float64 matrices of n x n, which a task needs, do not fit."""
    needed = copies * 8 * n * n
    available = available_bytes()
    if available is not None and needed > available:
        raise MemoryError(
            f"{task} needs {copies} matrices of {n:,} x {n:,}, {needed / 2**30:,.1f} GiB in all; "
            f"{available / 2**30:,.1f} GiB is available. {advice}"
        )


@dataclass(frozen=True)
class SizePlan:
    """Numbers of rows for each step of model selection and fitting.

    Up to `EXACT_ROWS` rows kernels are exact and every step uses all rows. For larger data, models that predict
    held-out domains are fitted to a subsample; hyperparameters are multiples of scales of the data and do not depend on
    the number of rows. They predict all held-out rows, and linear classifiers alone are fitted to all others. The model
    itself is fitted to all rows: classifiers at once, projections block by block through landmarks. Only kernel
    machines and the classifiers after projections are fitted to a subsample.

    Parameters
    ----------
    rows : int
        Number of training rows.
    exact : bool
        Whether kernels are exact.
    landmarks : int
        Maximum number of landmarks.
    tolerance : float or None
        Share of the trace of the kernel that landmarks may miss; None uses the maximum number of landmarks.
    choice_rows, classifier_choice_rows : int
        Rows to which models that predict held-out domains are fitted: kernel methods, and other classifiers.
    landmark_rows, sample_rows, fit_rows : int
        Rows from which landmarks are drawn, that train classifiers of kernel methods, and that train other classifiers.
    """

    rows: int
    exact: bool
    landmarks: int
    tolerance: float | None
    choice_rows: int
    classifier_choice_rows: int
    landmark_rows: int
    sample_rows: int
    fit_rows: int

    @classmethod
    def from_rows(
        cls, rows: int, *, exact: bool | None = None, landmarks: int | None = None, ensemble: bool = False
    ) -> SizePlan:
        """Return the plan of one method, or of an `ensemble`; None means the default of `exact` and `landmarks`."""
        return cls(
            rows=rows,
            exact=rows <= EXACT_ROWS if exact is None else exact,
            landmarks=MAX_LANDMARKS if landmarks is None else landmarks,
            tolerance=TRACE_TOLERANCE if landmarks is None else None,
            choice_rows=CLASSIFIER_CHOICE_ROWS if ensemble else CHOICE_ROWS,
            classifier_choice_rows=CLASSIFIER_CHOICE_ROWS,
            landmark_rows=LANDMARK_ROWS,
            sample_rows=SAMPLE_ROWS,
            fit_rows=FIT_ROWS,
        )

    def with_all_rows(self) -> SizePlan:
        """The same plan, with landmarks drawn from all rows and all classifiers fitted to all rows."""
        return replace(self, landmark_rows=self.rows, sample_rows=self.rows, fit_rows=self.rows)

    @property
    def methods_text(self) -> str:
        """A sentence for the Methods section of a paper; empty if all rows are used for everything."""
        if self.exact:
            return ""
        fitted = "all" if self.rows <= self.fit_rows else f"{self.fit_rows:,}"
        return (
            f"Training sets had up to {self.rows:,} rows. Settings and weights were selected by models fitted to "
            f"{self.classifier_choice_rows:,} of them (kernel methods alone {CHOICE_ROWS:,}, linear classifiers alone "
            f"all); calibration and thresholds used predictions for all rows, and the models were fitted to {fitted} "
            "rows."
        )

    def __str__(self) -> str:
        if self.exact:
            return f"{self.rows:,} rows: kernels are exact."
        return (
            f"{self.rows:,} rows: models that predict held-out domains are fitted to "
            f"{min(self.choice_rows, self.rows):,} rows with kernels, else to "
            f"{min(self.classifier_choice_rows, self.rows):,} rows; the model is fitted to "
            f"{min(self.fit_rows, self.rows):,} rows, with kernels through at most {self.landmarks:,} landmarks."
        )
