"""Location-scale harmonization of domains: ComBat, fitted on source domains and applied to others."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..exceptions import SmallBatchError, warn
from ..linalg import Array, check_squares, largest_entry
from ..utils.validation import (
    DocLinkMixin,
    EncodedLabels,
    Labels,
    encode_classes,
    format_list,
    keyword_parameters,
    require_named_domains,
    reset_fitted_attributes,
    warn_single_domain,
)

EPS = float(np.finfo(float).eps)
# A computed mean of n equal numbers differs from them by a few units in the last place: smaller spreads are rounding.
ROUNDING = 10 * EPS
MIN_ROWS = 2  # a variance needs two rows
MAX_ITER = 1_000  # the iteration gains digits at a fixed rate and reaches the default tolerance within a few steps


def _posterior_location(n: int, location: Array, variance: Array) -> Array:
    """Posterior mean of locations under the normal prior that the locations themselves suggest."""
    spread = location.var(ddof=1)
    return (n * spread * location + variance * location.mean()) / (n * spread + variance)


def _change(new: Array, old: Array) -> float:
    """The largest relative change, as the released programs count it: divided by the old value with its sign.

    Locations are functions of the variances, which are positive, so the fixed point is the same as without the sign.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.fmax.reduce(np.abs(new - old) / old))


@keyword_parameters
class DomainHarmonizer(DocLinkMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Align the mean and the variance of each feature across domains (ComBat; Johnson et al. 2007).

    The model of feature v of sample j in domain i with covariates :math:`c_{ij}` is

    .. math:: x_{ijv} = \alpha_v + c_{ij}^\top \beta_v + \sigma_v (\gamma_{iv} + \delta_{iv} \varepsilon_{ijv}) .

    `fit` estimates all parameters on the source domains, the effects :math:`\gamma` and :math:`\delta` of a domain by
    empirical Bayes over its features. `transform` applies them:

    .. math:: x \mapsto \alpha_v + c^\top \beta_v
              + (x - \alpha_v - c^\top \beta_v - \sigma_v \gamma_{iv}) / \delta_{iv} .

    On the training samples this equals the package neuroCombat. Samples of a domain that was not seen in `fit` are left
    as they are, unless ``transductive=True``.

    Parameters
    ----------
    eb : bool, default=True
        Whether to shrink the effects of a domain by empirical Bayes; False uses the estimates of each feature.
    mean_only : bool, default=False
        Whether to align means and leave variances as they are.
    reference : str, int or other scalar, default=None
        A source domain that is left as it is and that the others are aligned with. None aligns all domains with the
        pooled sources.
    preserve_classes : bool, default=False
        Whether to estimate the effects of the domains net of the differences between classes, from `y` in `fit`.
        `transform` never uses labels: it scales about the mean of the sources, whatever the class of a sample. Not
        available with ``transductive=True``, as a new domain has no labels.
    transductive : bool, default=False
        What happens to a domain that was not seen in `fit`. False leaves its samples as they are: the result for a
        sample does not depend on others. True estimates the effects from the batch that is transformed, of which each
        new domain needs at least two rows.
    tol : float, default=1e-4
        Relative change at which the empirical Bayes iteration stops. The default is that of the released programs.

    Attributes
    ----------
    domains_ : ndarray of shape (n_domains,)
        Domains seen in `fit`; a single None if they were not named.
    center_ : ndarray of shape (n_features,)
        Mean of the samples that domains are aligned with: :math:`\alpha_v + \bar c^\top \beta_v`.
    scale_ : ndarray of shape (n_features,)
        Pooled standard deviation :math:`\sigma_v` within domains; 1 for features that do not vary within domains.
    covariate_center_ : ndarray of shape (n_covariates,)
        Mean of the covariates of the samples that domains are aligned with.
    covariate_coef_ : ndarray of shape (n_covariates, n_features)
        Coefficients :math:`\beta_v`.
    class_coef_ : ndarray of shape (n_classes - 1, n_features)
        Differences of the classes from the first one; only with ``preserve_classes=True``.
    domain_location_ : ndarray of shape (n_domains, n_features)
        Effects :math:`\gamma_{iv}`, in units of `scale_`.
    domain_scale_ : ndarray of shape (n_domains, n_features)
        Effects :math:`\delta_{iv}`.
    {features_in}

    See Also
    --------
    DomainCenterer : Subtracts the mean of each domain.

    Notes
    -----
    A domain with a single row is aligned in location only. A feature that is constant within every domain is set to the
    common value. With ``mean_only=True`` the posterior counts the samples of a domain, as the paper does; neuroCombat
    counts every domain as one sample there and shrinks more. Missing values raise an error: impute them first.

    References
    ----------
    W. E. Johnson, C. Li, A. Rabinovic. "Adjusting batch effects in microarray expression data using empirical Bayes
    methods". Biostatistics 8(1), 2007.

    J.-P. Fortin et al. "Harmonization of cortical thickness measurements across scanners and sites". NeuroImage 167,
    2018.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen import DomainHarmonizer
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 2.0], [9.0, 5.0], [13.0, 9.0], [17.0, 7.0]])
    >>> domain = ["a", "a", "a", "b", "b", "b"]
    >>> harmonizer = DomainHarmonizer(eb=False).fit(X, sample_domain=domain)
    >>> Z = harmonizer.transform(X, sample_domain=domain)
    >>> Z[:3].mean(axis=0).round(6), Z[3:].mean(axis=0).round(6)
    (array([7.5, 4.5]), array([7.5, 4.5]))
    >>> harmonizer.transform([[5.0, 5.0]], sample_domain=["new"])
    array([[5., 5.]])
    """

    eb: bool = True
    mean_only: bool = False
    reference: Any = None
    preserve_classes: bool = False
    transductive: bool = False
    tol: float = 1e-4

    __metadata_request__fit: ClassVar = {"sample_domain": True, "covariates": True}
    __metadata_request__transform: ClassVar = {"sample_domain": True, "covariates": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "eb": ["boolean"],
        "mean_only": ["boolean"],
        "reference": "no_validation",  # type: ignore[dict-item]
        "preserve_classes": ["boolean"],
        "transductive": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    @require_named_domains
    def fit(self, X: Any, y: Any = None, *, sample_domain: Any = None, covariates: Any = None) -> Self:
        """Estimate the effects of the source domains.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples of all source domains.
        y : array-like of shape (n_samples,), default=None
            Class labels, used with ``preserve_classes=True`` alone.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample; None means one domain, with a `SingleDomainWarning`.
        covariates : array-like of shape (n_samples,) or (n_samples, n_covariates), default=None
            Numbers whose linear effect on the features is preserved, such as age. Encode categories as indicators
            without the first one. They must be known for new samples too; class labels are not, and raise an error.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        self._validate_params()
        reset_fitted_attributes(self)
        if self.preserve_classes and self.transductive:
            raise ValueError(
                "preserve_classes=True is not available with transductive=True: the effects of a new domain would have "
                "to be estimated net of its class labels, which are not known. Set one of them to False."
            )
        if self.preserve_classes:
            X, y = validate_data(self, X, y, dtype=(np.float64, np.float32))
        else:
            X = validate_data(self, X, dtype=(np.float64, np.float32))
        X = X.astype(np.float64, copy=False)
        check_squares(largest_entry(X))
        domains = EncodedLabels.from_domains(sample_domain, len(X))
        C = _check_covariates(covariates, len(X))
        _refuse_labels(C, y)
        target = self._target_rows(domains)
        warn_single_domain(domains.names, type(self).__name__)

        classes = _class_indicators(y, type(self).__name__) if self.preserve_classes else np.empty((len(X), 0))
        regressors = np.hstack([C, classes])
        coef = _within_coef(X, regressors, domains)
        # The domains have their own means, so the residuals of the target rows have the mean zero.
        self.domains_ = domains.names
        self.center_ = X[target].mean(axis=0)
        self.covariate_center_ = C[target].mean(axis=0)
        self.covariate_coef_ = coef[: C.shape[1]]
        residuals = _within(X - regressors @ coef, domains)[target]
        scale = np.sqrt(np.square(residuals).mean(axis=0))
        magnitude = np.abs(X).max(axis=0)
        varies = scale > ROUNDING * magnitude
        self.scale_ = np.where(varies, scale, 1.0)
        self._varies = varies
        self._rounding = ROUNDING * magnitude / self.scale_

        fitted = self.center_ + (regressors - regressors[target].mean(axis=0)) @ coef
        Z = (X - fitted) / self.scale_
        location = np.zeros((len(domains.names), X.shape[1]))
        variance = np.ones_like(location)
        for i, (name, rows) in enumerate(domains.iter_rows()):
            # One domain is aligned with itself; so is the reference.
            if len(domains.names) > 1 and not self._is_reference(name):
                location[i], variance[i] = self._effects(Z[rows])
        self.domain_location_ = location
        self.domain_scale_ = np.sqrt(variance)
        if self.preserve_classes:
            self.class_coef_ = coef[C.shape[1] :]
        return self

    def transform(self, X: Any, *, sample_domain: Any = None, covariates: Any = None) -> Any:
        """Remove the effects of the domains.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample; None means one domain that was not seen in `fit`.
        covariates : array-like of shape (n_samples,) or (n_samples, n_covariates), default=None
            As in `fit`. Required if they were given there and a row is adjusted; rows of a new domain are not, unless
            ``transductive=True``.

        Returns
        -------
        X_harmonized : ndarray of shape (n_samples, n_features)
            Samples of source domains, aligned. Samples of new domains as they are or, if transductive, aligned by the
            effects of their batch.
        """
        check_is_fitted(self, "domain_scale_")
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32), copy=True)
        domains = EncodedLabels.from_domains(sample_domain, len(X))
        known = {} if sample_domain is None else {name: i for i, name in enumerate(self.domains_.tolist())}
        adjusted = [(name, rows) for name, rows in domains.iter_rows() if name in known or self.transductive]
        if not adjusted:
            return X
        fitted = self._fitted_values(covariates, len(X))
        for name, rows in adjusted:
            center = fitted[rows] if len(fitted) > 1 else fitted
            residuals = X[rows].astype(np.float64, copy=False) - center
            if name in known:
                location = self.domain_location_[known[name]]
                scale = self.domain_scale_[known[name]]
            else:
                if len(residuals) < MIN_ROWS:
                    raise SmallBatchError(name, len(residuals), MIN_ROWS, ("batch", "inductive", "source"))
                location, variance = self._effects(residuals / self.scale_)
                scale = np.sqrt(variance)
            if not location.any() and (scale == 1).all():
                continue  # the reference domain, and a single domain, keep their last digits
            X[rows] = center + (residuals - self.scale_ * location) / scale
        return X

    @require_named_domains
    def fit_transform(self, X: Any, y: Any = None, *, sample_domain: Any = None, covariates: Any = None) -> Any:
        """Fit, then transform the same samples.

        Parameters
        ----------
        X, y, sample_domain, covariates
            As for `fit`.

        Returns
        -------
        X_harmonized : ndarray of shape (n_samples, n_features)
            The training samples as `transform` gives them.
        """
        self.fit(X, y, sample_domain=sample_domain, covariates=covariates)
        return self.transform(X, sample_domain=sample_domain, covariates=covariates)

    def _effects(self, Z: Array) -> tuple[Array, Array]:
        """Location and squared scale of a domain from its standardized samples, each of shape (n_features,).

        Features that do not vary within domains are aligned in location without shrinkage, and have no part in the
        priors. Spreads as small as rounding errors count as zero.
        """
        varies = self._varies
        location = Z.mean(axis=0)
        variance = np.ones(Z.shape[1])
        mean_only = self.mean_only or len(Z) < MIN_ROWS
        if not mean_only:
            variance = Z.var(axis=0, ddof=1)
            variance[variance <= self._rounding**2] = 0.0
            mean_only = not variance[varies].any()
        shrinks = self.eb and np.count_nonzero(varies) >= 2  # one feature has nothing to be shrunk towards
        if mean_only:
            variance = np.ones(Z.shape[1])
            if shrinks:
                location[varies] = _posterior_location(len(Z), location[varies], variance[varies])
        elif shrinks:
            location[varies], variance[varies] = self._posterior(Z[:, varies], location[varies], variance[varies])
        # A feature that is constant in this domain does not determine the scale of the domain.
        variance[~varies | (variance == 0)] = 1.0
        return location, variance

    def _posterior(self, Z: Array, location: Array, variance: Array) -> tuple[Array, Array]:
        """Posterior mean of the locations and of the squared scales (Johnson et al. 2007, appendix A.1)."""
        n = len(Z)
        mean = variance.mean()
        spread = variance.var(ddof=1)
        inside = (n - 1) * variance  # sums of squares about the mean of the domain
        old_location = location
        old_variance = variance
        for _ in range(MAX_ITER):
            new_location = _posterior_location(n, location, old_variance)
            squares = inside + n * (location - new_location) ** 2
            # (theta + squares / 2) / (lambda + n / 2 - 1) for the inverse gamma prior with this mean and this spread,
            # multiplied by the spread above and below: equal variances, whose prior is a point, then need no limit.
            new_variance = (mean**3 + spread * (mean + squares / 2)) / (mean**2 + spread * (1 + n / 2))
            change = max(_change(new_location, old_location), _change(new_variance, old_variance))
            old_location = new_location
            old_variance = new_variance
            if change <= self.tol:
                return new_location, new_variance
        warn(
            f"DomainHarmonizer stopped after {MAX_ITER:,} iterations with a relative change of {change:.3g}, above "
            f"tol={self.tol:g}. Use a larger tol.",
            ConvergenceWarning,
        )
        return new_location, new_variance

    def _is_reference(self, name: Any) -> bool:
        return self.reference is not None and bool(name == self.reference)

    def _target_rows(self, domains: EncodedLabels) -> Any:
        """The rows whose mean and variance the domains are given: all of them, or those of the reference."""
        if self.reference is None:
            return slice(None)
        for name, rows in domains.iter_rows():
            if self._is_reference(name):
                return rows
        raise ValueError(
            f"reference={self.reference!r} is not among the domains in sample_domain: "
            f"{format_list(domains.names.tolist())}. Name one of them, or None for the pooled domains."
        )

    def _fitted_values(self, covariates: Any, n_samples: int) -> Array:
        """Samples that the covariates alone predict, (n_samples, n_features); a single row without covariates."""
        n_covariates = len(self.covariate_center_)
        if covariates is None and n_covariates:
            raise ValueError(
                f"{type(self).__name__} was fitted with covariates, so transform needs them too: covariates= with "
                f"{n_covariates} column(s), one row per sample."
            )
        C = _check_covariates(covariates, n_samples)
        if C.shape[1] != n_covariates:
            raise ValueError(
                f"covariates has {C.shape[1]} columns, but {type(self).__name__} was fitted with {n_covariates}. Pass "
                "the same covariates in fit and transform."
            )
        if not n_covariates:
            return self.center_[None]
        return self.center_ + (C - self.covariate_center_) @ self.covariate_coef_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.preserve_classes
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _check_covariates(covariates: Any, n_samples: int) -> Array:
    """Covariates as numbers in two dimensions, one row per sample; without columns for None."""
    if covariates is None:
        return np.empty((n_samples, 0))
    try:
        C = check_array(covariates, dtype=np.float64, ensure_2d=False, input_name="covariates")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"covariates must hold finite numbers in one or two dimensions; got: {error} Encode categories as "
            "indicators, for example with sklearn.preprocessing.OneHotEncoder(drop='first')."
        ) from error
    C = C[:, None] if C.ndim == 1 else C
    if len(C) != n_samples:
        raise ValueError(f"covariates must hold one row per sample; got {len(C)} rows for {n_samples} samples of X.")
    return C


def _refuse_labels(C: Array, y: Any) -> None:
    """Raise if a covariate is the class label, or the indicator of a class, by another name."""
    labels = np.asarray(y)
    if labels.shape != (len(C),):
        return
    names, codes = np.unique(labels, return_inverse=True)
    if not 1 < len(names) < len(labels):
        return
    partitions = [codes, *(codes == i for i in range(len(names)))]
    for column in range(C.shape[1]):
        if any(adjusted_rand_score(C[:, column].astype(str), partition) == 1 for partition in partitions):
            raise ValueError(
                f"Column {column} of covariates tells the class labels in y. New samples come without labels, and "
                "harmonizing samples by their own labels leaks them into the features. Remove the column; to estimate "
                "the effects of the domains net of the classes, use preserve_classes=True."
            )


def _class_indicators(y: Labels, caller: str) -> Array:
    """Indicators of all classes but the first."""
    classes, codes = encode_classes(y, caller)
    return (codes[:, None] == np.arange(1, len(classes))).astype(np.float64)


def _within(values: Array, domains: EncodedLabels) -> Array:
    """Differences of samples from the mean of their domain."""
    differences = np.empty_like(values)
    for _, rows in domains.iter_rows():
        differences[rows] = values[rows] - values[rows].mean(axis=0)
    return differences


def _within_coef(X: Array, regressors: Array, domains: EncodedLabels) -> Array:
    """Least-squares coefficients beside an indicator of each domain: a regression of what is within domains."""
    n_columns = regressors.shape[1]
    if not n_columns:
        return np.empty((0, X.shape[1]))
    within = _within(regressors, domains)
    spreads = np.sqrt(np.square(within).mean(axis=0))
    is_constant = spreads <= ROUNDING * np.abs(regressors).max(axis=0)
    standard = np.where(is_constant, 0.0, within / np.where(is_constant, 1.0, spreads))
    rank = np.linalg.matrix_rank(standard, tol=np.sqrt(EPS * len(X)))
    if rank < n_columns:
        raise ValueError(
            "The effects of covariates or classes cannot be separated from those of the domains, or from one another: "
            f"of the covariates (columns first) and class indicators, only {rank} of {n_columns} columns are linearly "
            f"independent within domains, and column(s) {format_list(np.flatnonzero(is_constant).tolist())} are "
            "constant within every domain. Remove covariates, set preserve_classes=False, or add domains in which they "
            "vary."
        )
    coef, *_ = np.linalg.lstsq(standard, _within(X, domains), rcond=None)
    return coef / spreads[:, None]
