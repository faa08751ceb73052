"""Marginal transfer learning: a kernel machine on pairs of a sample and the distribution that it comes from."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy import linalg
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..exceptions import SmallBatchError
from ..kernels import Kernel, check_memory, map_in_blocks, median_squared_distance, parse_multiple, squared_distances
from ..linalg import Array, Ints, Membership, check_squares, largest_entry
from ..utils.validation import (
    DocLinkMixin,
    EncodedLabels,
    check_weights,
    encode_classes,
    keyword_parameters,
    require_named_domains,
    reset_fitted_attributes,
)
from ._domain_centering import warn_about_labels

MIN_ROWS = 2  # the distribution of one row is the row itself
EPS = float(np.finfo(float).eps)
# Squared distances between embeddings are sums of n rounded kernel values of the size of one.
ROUNDING = 100 * EPS


@keyword_parameters
class MarginalTransferClassifier(DocLinkMixin, ClassifierMixin, BaseEstimator):
    r"""Kernel classifier of a sample together with the distribution of its domain (Blanchard et al. 2021).

    The kernel of two samples x, x' from domains with the empirical distributions P, P' is

    .. math:: k((P, x), (P', x')) = \exp(-\gamma_P \|m(P) - m(P')\|^2) \exp(-\gamma \|x - x'\|^2)

    with the mean embeddings :math:`m(P)` of a further Gaussian kernel. Domains that look alike share what they learn;
    a new domain is classified as the source domains that its unlabeled samples resemble. The classifier is a logistic
    regression in the space of this kernel:

    .. math:: \min_f\; C \sum_i w_i \log(1 + e^{-y_i f(P_i, x_i)}) + \tfrac12 \|f\|^2 ,

    multinomial for more than two classes. Predictions are *transductive*: they use the other rows of a new domain.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the regularization strength, as in :class:`sklearn.linear_model.LogisticRegression`.
    gamma : float, "median" or a multiple such as "0.1*median", default="median"
        Coefficient of the kernel of samples. "median" is one over the median of the squared distances between samples.
    embedding_gamma : float, "median" or a multiple, default="median"
        Coefficient of the kernel that embeds distributions.
    domain_gamma : float, "median" or a multiple, default="median"
        Coefficient :math:`\gamma_P = 1 / (2 s^2)` of the kernel of distributions. "median" is one over the median of
        the squared distances between the embeddings of the source domains, and 0 if there are no two that differ. With
        0 distributions are ignored: this is a plain kernel logistic regression.
    balance : {"domains", "none"}, default="domains"
        Whether all domains have the same weight, as in the paper, or all samples.
    tol : float, default=1e-6
        Tolerance of the optimizer.
    max_iter : int, default=1000
        Maximum number of iterations of the optimizer.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    domains_ : ndarray of shape (n_domains,)
        Domains seen in training; a single None if they were not named.
    domain_distances_ : ndarray of shape (n_domains, n_domains)
        Squared distances :math:`\|m(P) - m(P')\|^2` between the embeddings of the source domains.
    gamma_, embedding_gamma_, domain_gamma_ : float
        The coefficients as numbers.
    X_fit_ : ndarray of shape (n_training_samples, n_features)
        The training samples whose weight is not zero.
    dual_coef_ : ndarray of shape (n_training_samples, 1 or n_classes)
        Coefficients of the training samples.
    intercept_ : ndarray of shape (1 or n_classes,)
        Intercepts.
    n_iter_ : int
        Iterations of the optimizer.
    {features_in}

    References
    ----------
    G. Blanchard, A. A. Deshmukh, U. Dogan, G. Lee, C. Scott. "Domain Generalization by Marginal Transfer Learning".
    JMLR 22(2), 2021.

    Examples
    --------
    >>> from unseen import MarginalTransferClassifier
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> seen = data.domain != "domain 3"
    >>> model = MarginalTransferClassifier()
    >>> model.fit(data.data[seen], data.target[seen], sample_domain=data.domain[seen])
    MarginalTransferClassifier()
    >>> model.predict_proba(data.data[~seen]).shape  # one batch of one new domain
    (120, 3)
    """

    C: float = 1.0
    gamma: float | str = "median"
    embedding_gamma: float | str = "median"
    domain_gamma: float | str = "median"
    balance: Literal["domains", "none"] = "domains"
    tol: float = 1e-6
    max_iter: int = 1_000

    transductive: ClassVar[bool] = True  # predictions depend on the other rows of a new domain
    __metadata_request__fit: ClassVar = {"sample_domain": True, "sample_weight": True}
    __metadata_request__predict: ClassVar = {"sample_domain": True}
    __metadata_request__predict_proba: ClassVar = {"sample_domain": True}
    __metadata_request__decision_function: ClassVar = {"sample_domain": True}
    __metadata_request__score: ClassVar = {"sample_domain": True, "sample_weight": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "gamma": [Interval(Real, 0, None, closed="neither"), str],
        "embedding_gamma": [Interval(Real, 0, None, closed="neither"), str],
        "domain_gamma": [Interval(Real, 0, None, closed="left"), str],
        "balance": [StrOptions({"domains", "none"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    @require_named_domains
    def fit(self, X: Any, y: Any, *, sample_domain: Any = None, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples of all source domains.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain each sample comes from; None means one domain, with a `SingleDomainWarning`.
        sample_weight : array-like of shape (n_samples,), default=None
            What the loss of a sample and its share in the distribution of its domain are multiplied by; None means
            one. The "median" rules do not use it.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._validate_params()
        reset_fitted_attributes(self)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_squares(largest_entry(X))
        weight = check_weights(sample_weight, len(X))
        coded = EncodedLabels.from_domains(sample_domain, len(X))
        if weight is not None and not weight.all():
            present = weight > 0
            X = X[present]
            y = y[present]
            weight = weight[present]
            coded = EncodedLabels.from_domains(
                None if sample_domain is None else coded.names[coded.codes[present]], len(X)
            )
        weight = np.ones(len(X)) if weight is None else weight
        classes, codes = encode_classes(y, type(self).__name__)
        warn_about_labels(classes, coded.names, Membership.from_codes(codes, coded.codes).counts, self)

        self.classes_ = classes
        self.domains_ = coded.names
        self.gamma_ = _resolve(self.gamma, "gamma", X)
        self.embedding_gamma_ = _resolve(self.embedding_gamma, "embedding_gamma", X)
        # The kernel matrix, its eigenvectors, and two of the features.
        advice = "Fit on a subsample."
        check_memory(f"{type(self).__name__} on {len(X):,} samples", len(X), copies=4, advice=advice)
        self.X_fit_ = X
        self._domain = coded.codes
        self._shares = _shares(coded.codes, weight)
        self._similarities = _similarities(X, self._shares, X, self._shares, self.embedding_gamma_)
        own = self._similarities.diagonal()
        self._set_domain_gamma(own[:, None] + own - 2 * self._similarities)
        K = squared_distances(X)
        K *= -self.gamma_
        K -= (self.domain_gamma_ * self.domain_distances_)[np.ix_(coded.codes, coded.codes)]
        np.exp(K, out=K)
        # Features whose inner products are the kernel.
        values, vectors = linalg.eigh(K, overwrite_a=True, check_finite=False)
        kept = values > len(X) * EPS * values[-1]
        roots = np.sqrt(values[kept])
        vectors = vectors[:, kept]

        totals = np.bincount(coded.codes, weight)
        if self.balance == "domains":
            weight = weight * (weight.sum() / (len(totals) * totals))[coded.codes]
        # Newton steps reach any tolerance; L-BFGS stops at half of the digits.
        head = LogisticRegression(C=self.C, solver="newton-cg", tol=self.tol, max_iter=self.max_iter)
        head.fit(vectors * roots, codes, sample_weight=weight)
        self.intercept_ = head.intercept_
        self.n_iter_ = int(np.max(head.n_iter_))
        self.dual_coef_ = (vectors / roots) @ head.coef_.T
        return self

    def decision_function(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Log-odds of the classes, up to a constant that all classes of a sample share.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples; of a new domain at least two, all that there are.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample: those seen in training keep their distribution from there. None means one new
            domain.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class; with two classes, one score, positive for the second.
        """
        check_is_fitted(self, "intercept_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        check_squares(largest_entry(X))
        domains = EncodedLabels.from_domains(sample_domain, len(X))
        known = {} if sample_domain is None else {name: i for i, name in enumerate(self.domains_.tolist())}
        scores = np.empty((len(X), len(self.intercept_)))
        for name, rows in domains.iter_rows():
            batch = X[rows]
            # Distributions that are ignored need not be estimated.
            if name not in known and self.domain_gamma_ and len(batch) < MIN_ROWS:
                remedies = ("batch", "source") if self.domains_.tolist() != [None] else ("batch",)
                raise SmallBatchError(name, len(batch), MIN_ROWS, remedies)
            scores[rows] = self._score(batch, known.get(name)) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Class probabilities.

        Parameters
        ----------
        X, sample_domain
            As for `decision_function`.

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        scores = self.decision_function(X, sample_domain=sample_domain)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return np.exp(log_softmax(scores, axis=1))

    def predict(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Class labels.

        Parameters
        ----------
        X, sample_domain
            As for `decision_function`.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            The most probable class of each sample.
        """
        scores = self.decision_function(X, sample_domain=sample_domain)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sample_domain: Any = None) -> float:
        """Accuracy.

        Parameters
        ----------
        X, sample_domain
            As for `decision_function`.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        accuracy : float
            The share of samples that are classified correctly.
        """
        return float(accuracy_score(y, self.predict(X, sample_domain=sample_domain), sample_weight=sample_weight))

    def _score(self, batch: Array, known: int | None) -> Array:
        """Decision values without intercepts of a batch from one domain, which may be known."""
        if known is not None:
            distances = self.domain_distances_[known]
        else:
            share = np.full((len(batch), 1), 1 / len(batch))
            own = _similarities(batch, share, batch, share, self.embedding_gamma_)
            others = _similarities(batch, share, self.X_fit_, self._shares, self.embedding_gamma_)
            distances = np.maximum(own + self._similarities.diagonal() - 2 * others, 0.0)[0]
        weights = np.exp(-self.domain_gamma_ * distances)[self._domain]
        coef = weights[:, None] * self.dual_coef_
        kernel = Kernel(gamma=self.gamma_)
        return map_in_blocks(
            lambda rows: kernel.evaluate(rows, self.X_fit_) @ coef, batch, coef.shape[1], len(self.X_fit_)
        )

    def _set_domain_gamma(self, distances: Array) -> None:
        """Store squared distances between embeddings, and the coefficient of their kernel."""
        distances = np.where(distances > ROUNDING, distances, 0.0)
        np.fill_diagonal(distances, 0.0)
        self.domain_distances_ = distances
        if not isinstance(self.domain_gamma, str):
            self.domain_gamma_ = float(self.domain_gamma)
            return
        multiple = parse_multiple(self.domain_gamma, "median", "domain_gamma")
        between = distances[np.tri(len(distances), k=-1, dtype=bool)]
        between = between[between > 0]
        self.domain_gamma_ = multiple / float(np.median(between)) if len(between) else 0.0


def _resolve(value: float | str, parameter: str, X: Array) -> float:
    """A kernel coefficient as a number."""
    if not isinstance(value, str):
        return float(value)
    return parse_multiple(value, "median", parameter) / median_squared_distance(X)


def _shares(codes: Ints, weight: Array) -> Array:
    """The share of each sample in the distribution of its domain, (n_samples, n_domains)."""
    shares = np.zeros((len(codes), int(codes.max()) + 1))
    shares[np.arange(len(codes)), codes] = weight / np.bincount(codes, weight)[codes]
    return shares


def _similarities(X: Array, shares: Array, Y: Array, other_shares: Array, gamma: float) -> Array:
    """Inner products of mean embeddings, less one: the difference keeps the digits of wide kernels.

    Distances between embeddings do not change if a constant is added to the kernel.
    """
    kernel = Kernel(gamma=gamma)
    sums = map_in_blocks(
        lambda rows: kernel.evaluate_for_centering(rows, Y) @ other_shares, X, other_shares.shape[1], len(Y)
    )
    return shares.T @ sums
