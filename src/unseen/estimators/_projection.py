"""What every projection shares: validation, fitting, centring, transforming."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import kernels
from ..algebra import (
    Array,
    Ints,
    Membership,
    Recipe,
    SingularPencilError,
    Solution,
    Spectrum,
    cholesky_is_sound,
    gram_spectrum,
    norm,
    require_range,
    solve,
    solve_with_total,
    whiten,
    whiten_by_cholesky,
)
from ..citizen import DocLinkMixin, forget
from ..exceptions import FewerComponentsWarning, warn
from ..kernels import factor
from ..labels import (
    Labels,
    check_domains,
    domains_by_name,
    encode_classes,
    encode_domains,
    training_domains,
    warn_of_masks,
)
from ._dask_blocks import is_dask
from ._space import NON_NEGATIVE, Space, check_gram, parameters
from ._statistics import Coded, Statistics, UnsolvedError

EXACT_BELOW = 500  # samples up to which an eigendecomposition is cheap enough to be preferred for its accuracy
# What solving adds to the statistics of a stream.
SOLUTION = ("eigenvalues_", "coef_", "offset_", "recentered_", "_n_features_out")


def _has_feature_map(projection: Projection) -> bool:
    if projection.feature_map is None:
        raise AttributeError(
            "partial_fit needs explicit features, which a kernel's are not: set feature_map, for example to "
            "unseen.PivotedNystroem(1000)."
        )
    return True


@parameters
class Projection(DocLinkMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Space):
    """Base class: a subclass supplies its own parameters and its `_recipe`."""

    n_components: int | None = field(default=None, kw_only=False)
    ridge: float | str = "scale"
    scaling: Literal["paper", "unit_norm"] = "paper"
    centering: Literal["source", "target"] = "source"

    __metadata_request__fit: ClassVar = {"sample_domain": True}
    __metadata_request__partial_fit: ClassVar = {"sample_domain": True}
    __metadata_request__transform: ClassVar = {"sample_domain": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Space._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "ridge": [NON_NEGATIVE, str],
        "scaling": [StrOptions({"paper", "unit_norm"})],
        "centering": [StrOptions({"source", "target"})],
    }
    # The denominator's largest term grows like this power of the kernel matrix, and so must its ridge.
    _ridge_power: ClassVar[int] = 2
    # Which parameters weigh invariance across domains; of two equal settings the more invariant one is preferred.
    _invariance_weights: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def _recipe(self, counts: Ints, ridge: float) -> Recipe:
        """State the method for a table of counts."""

    def _default_components(self, counts: Ints) -> int | None:
        """How many components None stands for; None for all that the numerator supports."""
        return None

    @domains_by_name
    def fit(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Self:
        """Learn the projection.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of all source domains; the Gram matrix for ``kernel="precomputed"``. With `feature_map` also a Dask
            array or dataframe, which is not collected.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain each sample comes from: strings, integers or other hashable scalars. None means one
            domain, with a `SingleDomainWarning`.

        Returns
        -------
        self : object
            The fitted projection.
        """
        self._validate_params()
        forget(self)
        if self.feature_map is None:
            self._refuse_dask(X)
            X, classes, domains = self._check_training_data(X, y, sample_domain)
            membership = Membership.of(classes.codes, domains.codes)
            warn_of_masks(classes.names, domains.names, membership.counts, type(self).__name__)
            self._solve_kernel(X, membership)
        else:
            self._keep(self._gather(X, y, sample_domain, whole=True))
            self._solve_statistics()
        return self

    @available_if(_has_feature_map)
    @domains_by_name
    def partial_fit(self, X: Any, y: Any = None, *, sample_domain: Any = None, classes: Any = None) -> Self:
        """Learn from one more chunk of samples; needs `feature_map`.

        Chunks of any size, in any order, give the answer of one `fit` on all samples. Each costs its features and one
        matrix product; the eigenproblem is solved when the projection is first used. A map that learns from data learns
        from the first chunk alone: give it a chunk that stands for all, or freeze a fitted map with
        :class:`sklearn.frozen.FrozenEstimator`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; of any domains and any classes, also of new ones.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain each sample comes from. None, in every chunk, means one domain.
        classes : array-like, default=None
            All classes that may appear, in the first call, to have others refused. None lets new ones appear.

        Returns
        -------
        self : object
            The projection.
        """
        self._validate_params()
        seen = vars(self).get("statistics_")
        if seen is None:
            forget(self)
        else:
            self._require_same_map()
        declared = self._declared(classes)
        statistics = self._gather(X, y, sample_domain, declared=declared, reset=seen is None)
        self._keep(statistics if seen is None else Statistics.from_arrays(seen).plus(statistics, self._gram()))
        self.declared_classes_ = declared
        return self

    def transform(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Project samples onto the learned components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; for ``kernel="precomputed"`` their kernel values with the training samples. A Dask array or
            dataframe is transformed lazily.
        sample_domain : array-like of shape (n_samples,), default=None
            Matters for ``centering="target"`` only: domains seen in training keep the source mean, each other one
            is centred on its own mean. None means one new domain.

        Returns
        -------
        Z : ndarray or dask array of shape (n_samples, n_components)
            Learned features.
        """
        self._require_solution()
        if is_dask(X):
            from . import _distributed as distributed

            self._require_lazy_output()
            return distributed.transform(self, X, sample_domain)
        X = self._check_samples(X, reset=False)
        labels = None if sample_domain is None else check_domains(sample_domain, X.shape[0])
        Z = self._project(X)
        Z -= self._offsets(Z, labels)
        return Z.astype(X.dtype, copy=False)

    @domains_by_name
    def fit_transform(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Any:
        """Fit, then transform the same samples.

        Parameters
        ----------
        X, y, sample_domain
            As for `fit`.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Learned features of the training samples.
        """
        return self.fit(X, y, sample_domain=sample_domain).transform(X, sample_domain=sample_domain)

    def recentered(self, X: Any) -> Self:
        """Return a fitted copy that is centred on an unlabelled batch of a new domain.

        The copy transforms single samples of that domain as ``centering="target"`` would have transformed the whole
        batch. Results obtained with it are transductive: they used unlabelled target data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            At least two unlabelled samples of the new domain.

        Returns
        -------
        projection : object
            A copy; this one is left as it is.
        """
        self._require_solution()
        if is_dask(X):
            from . import _distributed as distributed

            n, mean = distributed.projected_mean(self, X)
        else:
            Z = self._project(self._check_samples(X, reset=False))
            n, mean = len(Z), Z.mean(axis=0)
        if n < 2:
            raise ValueError(
                f"recentered needs a batch of at least 2 samples to estimate a mean; got X with {n}. Centred on "
                "itself, a single sample would always land on the origin."
            )
        twin = copy.copy(self)
        twin.offset_ = mean
        twin.recentered_ = True
        return twin

    def _check_training_data(self, X: Any, y: Any, sample_domain: Any) -> tuple[Any, Coded, Coded]:
        name = type(self).__name__
        if self._needs_labels():
            X, y = self._check_samples(X, y=y, ensure_min_samples=2)
            classes = Coded(*encode_classes(y, name))
            self.classes_ = classes.names
        else:
            X = self._check_samples(X, ensure_min_samples=2)
            classes = Coded.nameless(X.shape[0])
        if self.kernel == "precomputed":
            check_gram(X)
        domains = Coded(*training_domains(sample_domain, X.shape[0], name))
        self.domains_ = domains.names
        return X, classes, domains

    def _gather(
        self,
        X: Any,
        y: Any,
        sample_domain: Any,
        *,
        declared: Labels | None = None,
        reset: bool = True,
        whole: bool = False,
    ) -> Statistics:
        """Statistics of the features of samples; with `reset` the feature map learns from these first.

        What cannot be the `whole` of the training data is refused at once.
        """
        if is_dask(X):
            from . import _distributed as distributed

            return distributed.gather(self, X, y, sample_domain, declared=declared, reset=reset)
        if self._needs_labels():
            X, y = self._check_samples(X, y=y, reset=reset, ensure_min_samples=1 + whole)
            classes = Coded(*encode_classes(y, type(self).__name__)) if whole else Coded.classes(y, declared)
        else:
            X = self._check_samples(X, reset=reset, ensure_min_samples=1 + whole)
            classes = Coded.nameless(X.shape[0])
        domains = Coded.domains(sample_domain, X.shape[0])
        features = self._fit_feature_map(X) if reset else None

        def block(rows: slice) -> Array:
            return self._features(X[rows]) if features is None else np.ascontiguousarray(features[rows])

        return Statistics.of(block, classes, domains, self._gram())

    def _declared(self, classes: Any) -> Labels | None:
        """All classes that a stream may hold, if somebody has said so."""
        earlier: Labels | None = vars(self).get("declared_classes_")
        if classes is None or not self._needs_labels():
            return earlier
        declared = np.unique(classes)
        if earlier is not None and not np.array_equal(earlier, declared):
            raise ValueError(
                f"classes={declared.tolist()} is not what the first call of partial_fit named, {earlier.tolist()}. "
                "Leave `classes` out of later calls, or start anew with a clone."
            )
        if "classes_" in vars(self):
            Coded.classes(self.classes_, declared)
        return declared

    def _adopt(self, statistics: Statistics, n_features: int) -> None:
        """Go on from statistics that were collected elsewhere, of a map that had nothing to learn."""
        self.n_features_in_ = n_features
        self._fit_feature_map(None)
        self._keep(statistics)

    def _keep(self, statistics: Statistics) -> None:
        """Remember what has been seen, as plain arrays that any file format takes, and forget what was made of it."""
        self.statistics_ = statistics.arrays()
        self.domains_ = statistics.domains
        if self._needs_labels():
            self.classes_ = statistics.classes
        self.cell_counts_ = statistics.cells.counts
        for name in SOLUTION:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        # A stream is solved when somebody asks for the solution: O(r^3) once, rather than for each of many chunks, most
        # of which nobody looks at, and before two classes have been seen there is nothing to solve.
        if name in SOLUTION and "statistics_" in vars(self):
            try:
                self._solve_statistics()
            except ValueError as error:
                raise UnsolvedError(str(error)) from error
        return super().__getattribute__(name)  # or the usual error

    def _require_solution(self) -> None:
        """Raise unless there are components; a stream that has none yet says why."""
        if "statistics_" in vars(self) and "offset_" not in vars(self):
            self._solve_statistics()
        check_is_fitted(self, "offset_")

    def _solve_statistics(self) -> None:
        """Solve the pencil for the features that have been seen."""
        statistics = Statistics.from_arrays(self.statistics_)
        counts, name = statistics.cells.counts, type(self).__name__
        if self._needs_labels():
            encode_classes(statistics.classes, name)  # refuses a single one
        nameless = statistics.domains[0] is None
        training_domains(None if nameless else statistics.domains, len(counts), name)  # warns of a single one
        warn_of_masks(statistics.classes, statistics.domains, counts, name)
        spectrum, mean = statistics.cells.spectrum(), statistics.cells.mean
        self._require_spread(np.sqrt(spectrum.values.sum()), np.sqrt(counts.sum()) * np.linalg.norm(mean))
        with self._singularity_explained():
            recipe = self._recipe(counts, self._ridge(float(np.linalg.norm(spectrum.values))))
            solution = self._solve_spectrum(spectrum, recipe, counts)
        solution = self._finished(solution, counts)
        self.coef_ = solution.coefficients
        self.offset_ = mean @ self.coef_

    def _solve_kernel(self, X: Any, membership: Membership) -> None:
        """Solve the pencil in the kernel's space."""
        kernels.require_square(X.shape[0], copies=3, caller=type(self).__name__)
        self.gamma_ = kernels.resolve_gamma(self.gamma, self.kernel, X)
        # A copy: what happens to X after the fit is its owner's business.
        self.X_fit_ = None if self.kernel == "precomputed" else X.copy()
        K = self._kernel_values(X, training=True)
        means = kernels.centre(K)
        self._require_finite(means)
        size = norm(K)
        require_range(size)
        self._require_spread(size, len(K) * np.abs(means).max())
        with self._singularity_explained():
            recipe = self._recipe(membership.counts, self._ridge(size))
            if len(K) > EXACT_BELOW and cholesky_is_sound(recipe, size):
                solution = solve(whiten_by_cholesky(K, membership, recipe), recipe, membership.counts)
            else:
                solution = self._solve_spectrum(gram_spectrum(K, membership), recipe, membership.counts)
        solution = self._finished(solution, membership.counts, None if self.kernel == "precomputed" else X)
        # Centred coefficients make constants in the kernel vanish: one offset is all the centring there is.
        self.dual_coef_ = solution.coefficients - solution.coefficients.mean(axis=0)
        self.offset_ = means @ self.dual_coef_
        self.cell_counts_ = membership.counts

    @contextmanager
    def _singularity_explained(self) -> Iterator[None]:
        try:
            yield
        except SingularPencilError as error:
            raise ValueError(
                f"The generalised eigenproblem of {type(self).__name__} is singular with ridge={self.ridge!r}: {error} "
                "Set ridge to a larger positive number; it is on the scale of the squared eigenvalues of the kernel "
                "matrix. With norm penalties, the kernel must be positive semi-definite."
            ) from error

    def _finished(self, solution: Solution, counts: Ints, landmarks: Any = None) -> Solution:
        """Keep the components asked for, with their scale and their sign; `landmarks` are what they weigh, if known."""
        solution = self._trimmed(solution, counts).scaled(self.scaling).oriented(counts, landmarks)
        self.eigenvalues_ = solution.eigenvalues
        self.recentered_ = False
        self._n_features_out = len(self.eigenvalues_)
        return solution

    def _solve_spectrum(self, spectrum: Spectrum, recipe: Recipe, counts: Ints) -> Solution:
        if recipe.ridge == 0:
            spectrum = spectrum.without_null()
        pencil = whiten(spectrum, recipe)
        if recipe.total:
            wanted = self._wanted(counts) or len(spectrum.values)
            return solve_with_total(spectrum, pencil, recipe, counts, wanted)
        return solve(pencil, recipe, counts)

    def _is_low_rank(self, recipe: Recipe) -> bool:
        """Whether a solution is a matter of the cells alone, however many samples there are."""
        return recipe.total == 0

    def _ridge(self, size: float) -> float:
        """Return the ridge as a number; `size` is the Frobenius norm of the centred kernel matrix."""
        if isinstance(self.ridge, str):
            return factor(self.ridge, "scale", "ridge") * (0.01 * size) ** self._ridge_power
        return float(self.ridge)

    def _weight(self, parameter: str, counts: Ints) -> float:
        """A weight as a number: scatters of means need the number of samples to stand up to sums over samples."""
        weight = getattr(self, parameter)
        return factor(weight, "scale", parameter) * counts.sum() if isinstance(weight, str) else float(weight)

    def _invariance(self, counts: Ints) -> float:
        """Sum of the weights that ask for invariance across domains."""
        return sum(self._weight(parameter, counts) for parameter in self._invariance_weights)

    def _wanted(self, counts: Ints) -> int | None:
        return self._default_components(counts) if self.n_components is None else self.n_components

    def _trimmed(self, solution: Solution, counts: Ints) -> Solution:
        """Keep the components asked for; say so if there are fewer."""
        available = len(solution.eigenvalues)
        if self.n_components is not None and self.n_components > available:
            warn(
                f"n_components={self.n_components}, but only {available} carry information and are kept: what "
                f"{type(self).__name__} makes large has numerical rank {available} on these data, and further "
                "components would be amplified noise.",
                FewerComponentsWarning,
            )
        return solution.first(self._wanted(counts))

    def _needs_labels(self) -> bool:
        return True

    def _offsets(self, Z: Array, sample_domain: Labels | None) -> Array:
        """What centring subtracts from each row (or from all) of the projected samples."""
        if self.centering == "source" or self.recentered_:
            return self.offset_
        names, codes = encode_domains(np.zeros(len(Z)) if sample_domain is None else sample_domain)
        known = set() if sample_domain is None else set(self.domains_.tolist())
        offsets = np.empty((len(names), Z.shape[1]))
        for i, name in enumerate(names.tolist()):
            rows = Z[codes == i]
            if name not in known:
                self._require_batch(len(rows), "X" if sample_domain is None else f"domain {name!r}")
            offsets[i] = self.offset_ if name in known else rows.mean(axis=0)
        return offsets[codes]

    def _require_batch(self, n: int, which: str) -> None:
        """Raise for a new domain that cannot be centred on itself."""
        if n == 1:
            raise ValueError(
                f'centering="target" subtracts the mean of each new domain, but {which} has a single sample, which '
                "would become all zeros whatever it is. Transform a batch of that domain, use "
                'recentered(batch) once and then transform single samples, or set centering="source".'
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels()
        tags.input_tags.sparse = bool(self._accepts_sparse())
        tags.input_tags.positive_only = self._needs_non_negative()
        tags.input_tags.pairwise = self.kernel == "precomputed" and self.feature_map is None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def collect_statistics(projection: Projection, X: Any, y: Any, sample_domain: Any) -> Statistics:
    """Statistics of samples under the feature map of a projection, which must be frozen; those of chunks add up."""
    return projection._gather(X, y, sample_domain)


def adopt_statistics(projection: Projection, statistics: Statistics, n_features: int) -> None:
    """Let a projection go on from statistics that were collected elsewhere, of a map that had nothing to learn."""
    projection._adopt(statistics, n_features)


def invariance_weights(projection: Projection) -> tuple[str, ...]:
    """Names of the parameters that weigh invariance across domains."""
    return projection._invariance_weights
