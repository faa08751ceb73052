"""A candidate: one setting of a method, with functions that fit it and pass domains and weights to its steps."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import uuid
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial, update_wrapper
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from ..estimators import LIBLINEAR, DomainCenterer, Projection
from ..exceptions import FewerComponentsWarning, MaskedLabelsWarning, SingleDomainWarning, ignore_warnings
from ..kernels import PivotedNystroem, median_squared_distance, parse_multiple
from ..linalg import Array, Ints
from ..utils.samples import Balance, Samples
from ..utils.validation import MANY_CLASSES_WARNING

# Parameters describe the estimators of these packages completely.
KNOWN_PACKAGES = {*sys.stdlib_module_names, "numpy", "scipy", "sklearn", "unseen"}
INSTALLED_FOLDERS = ("site-packages", "dist-packages")
# EnsembleClassifier has decision_proba.
PREDICTION_METHODS = ("predict", "predict_proba", "decision_function", "decision_proba")
Sharing = Literal["nothing", "decomposition", "kernel matrix"]
Features = Literal["prepared", "raw"]
# Forests convert features to single precision, where larger numbers are infinite.
MAX_TREE_VALUE = 1e30
# Landmarks of a projection beyond `Candidate.max_exact_rows`: scores are those of the exact kernel on tables of some
# thousand rows, and a split takes a third of a second.
CANDIDATE_LANDMARKS = 500


@dataclass(frozen=True, eq=False)
class Candidate:
    """An unfitted classifier, with an unfitted transformer before it or without one.

    Attributes
    ----------
    method : str
        Name of the method.
    settings : dict
        Hyperparameters in which it differs from other candidates of the method.
    transformer, classifier : estimators
        The transformer may be None. A `gamma` such as "0.1*median" is computed from the samples in `fit`.
    head : str
        Name of the classifier after a projection; empty for methods that include their classifier.
    shares : str
        Computations that it shares with other candidates of its method: see `unseen.model_selection.Method`.
    plain : bool
        Whether it ignores domains.
    own : bool
        Whether the user provided it: any exception that it raises is then reported as its result.
    source : str
        Digest of the user's code that it runs.
    features : {"prepared", "raw"}
        Whether it is fitted to prepared features or, as trees are, to the columns of a table as they are: see
        `TablePreparation`. Without a table both are the same.
    max_train_rows : int or None
        It is fitted to a subsample of at most so many rows, stratified by domain and class; None for no limit.
    max_evaluation_rows : int or None
        Models that predict held-out rows are fitted to a subsample of at most so many rows, with the proportions of
        domains and classes of all rows; the model itself is not. None for no limit.
    max_exact_rows : int or None
        With more rows, a projection with an rbf kernel is fitted to `CANDIDATE_LANDMARKS` landmarks; None for no limit.
    """

    method: str
    settings: dict[str, Any]
    transformer: Any
    classifier: Any
    head: str = ""
    shares: Sharing = "nothing"
    plain: bool = True
    own: bool = False
    source: str = ""
    features: Features = "prepared"
    max_train_rows: int | None = None
    max_evaluation_rows: int | None = None
    max_exact_rows: int | None = None

    @property
    def transductive(self) -> bool:
        """Whether predictions depend on the other samples of their domain."""
        return is_transductive(self.transformer) or is_transductive(self.classifier)

    @property
    def kind(self) -> Literal["plain", "inductive", "transductive"]:
        """What predictions use: no domains, domains of the training samples, or batches of the new domain as well."""
        if self.plain:
            return "plain"
        return "transductive" if self.transductive else "inductive"

    @property
    def variant(self) -> str:
        """Name of the group of candidates among which settings are selected: method, head and centering."""
        if not self.head:
            return self.method
        centering = ", target-centered" if self.transductive else ""
        return f"{self.method} + {self.head}{centering}"

    @property
    def params(self) -> dict[str, Any]:
        """The settings and, for a projection, the centering."""
        return {**self.settings, "centering": self.transformer.centering} if self.head else self.settings

    @cached_property
    def key(self) -> str:
        """A digest of all parameters, which is the same in every process."""
        parts = [full_repr(part) for part in (self.transformer, self.classifier)]
        limits = (self.max_train_rows, self.max_evaluation_rows, self.max_exact_rows)
        if self.features == "raw" or any(limits):
            parts.append(f"{self.features} {limits}")
        if self.source:
            parts.append(self.source)
        return hashlib.sha256("\n".join((self.variant, *parts)).encode()).hexdigest()[:16]

    @property
    def pipeline(self) -> Pipeline:
        """An unfitted pipeline with the transformer, if any, and the classifier."""
        classifier = self.classifier
        if self.transformer is None:
            is_pair = type(classifier) is Pipeline and len(classifier) == 2
            if is_pair and isinstance(classifier[0], (DomainCenterer, Projection)):
                # The user's pipeline has the steps that pipelines of this package have, so it is not nested in another.
                return classifier
            return Pipeline([("classifier", classifier)])
        name = "projection" if isinstance(self.transformer, Projection) else "transformer"
        return Pipeline([(name, self.transformer), ("classifier", classifier)])

    def fit(self, X: Any, y: Any, sample_domain: Any, sample_weight: Array | None = None) -> Pipeline:
        """Return a fitted pipeline."""
        domain = np.zeros(len(y), dtype=np.intp) if sample_domain is None else np.asarray(sample_domain)
        return self.fit_samples(Samples(X, np.asarray(y), domain, weight=sample_weight))

    def fit_samples(self, samples: Samples, balance: Balance = "none") -> Pipeline:
        """Return a pipeline that is fitted to the features and to the number of rows that the candidate takes."""
        rows = self.training_rows(samples)
        used = samples.take(rows) if len(rows) < len(samples) else samples
        if self.features == "raw":
            used = tree_samples(used)
        return fit_clone(self.adapt(used).pipeline, used.X, used.y, used.domain, used.weights(balance=balance))

    def adapt(self, used: Samples, landmarks: Any = None) -> Candidate:
        """The candidate for these training samples: with landmarks, or with classifiers that know columns of levels.

        Landmarks are those of a map that several candidates share, or new ones.
        """
        if self.features == "raw":
            if not used.n_categorical or "categorical_features" not in self.classifier.get_params(deep=False):
                return self
            n_columns = used.X.shape[1]
            positions = list(range(n_columns - used.n_categorical, n_columns))
            return replace(self, classifier=clone(self.classifier).set_params(categorical_features=positions))
        if not self.needs_landmarks(len(used)):
            return self
        if landmarks is None:
            landmarks = PivotedNystroem(CANDIDATE_LANDMARKS, gamma=self.transformer.gamma, random_state=0)
        return replace(self, transformer=clone(self.transformer).set_params(feature_map=landmarks))

    @property
    def without_limits(self) -> Candidate:
        """The same candidate, fitted to all rows and with an exact kernel."""
        return replace(self, max_train_rows=None, max_exact_rows=None)

    def training_rows(self, samples: Samples, *, is_evaluation: bool = False) -> Ints:
        """Positions of the training samples that it is fitted to, for itself or to predict held-out rows."""
        rows = np.arange(len(samples))
        if is_evaluation and self.max_evaluation_rows is not None and len(rows) > self.max_evaluation_rows:
            rows = samples.subsample_rows(self.max_evaluation_rows, proportional=True)
        if self.max_train_rows is not None and len(rows) > self.max_train_rows:
            rows = rows[samples.take(rows).subsample_rows(self.max_train_rows)]
        return rows

    def needs_landmarks(self, n_rows: int) -> bool:
        """Whether it uses landmarks if it is fitted to a number of rows."""
        if self.max_exact_rows is None or n_rows <= self.max_exact_rows:
            return False
        projection = self.transformer
        return isinstance(projection, Projection) and projection.feature_map is None and projection.kernel == "rbf"


def prepare_samples(preparation: Any, samples: Samples) -> Samples:
    """Samples with the features of a fitted preparation.

    One with `tree_columns`, such as :class:`unseen.tables.TablePreparation`, gives columns for trees after the first
    `n_prepared_features_`, with those of levels last.
    """
    X = np.asarray(preparation.transform(samples.X), dtype=np.float64)
    if not getattr(preparation, "tree_columns", False):
        return replace(samples, X=X)
    prepared, raw = np.hsplit(X, [preparation.n_prepared_features_])
    return replace(samples, X=prepared, raw=raw, n_categorical=len(preparation.categorical))


def tree_features(X: Any) -> Any:
    """Features for trees: numbers that single precision cannot represent are clipped."""
    if sparse.issparse(X):
        return X
    return np.clip(X, -MAX_TREE_VALUE, MAX_TREE_VALUE)


def tree_samples(samples: Samples) -> Samples:
    """Samples with the features for trees as `X`."""
    X = samples.X if samples.raw is None else samples.raw
    return replace(samples, X=tree_features(X), raw=None)


def full_repr(value: Any) -> str:
    """Represent an estimator with all parameters, which its repr may shorten, and functions by their code."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        params = sorted(value.get_params(deep=False).items())
        return f"{type(value).__name__}({', '.join(f'{name}={full_repr(part)}' for name, part in params)})"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(full_repr, value))})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {full_repr(part)}' for name, part in value.items())}}}"
    if hasattr(value, "_score_func"):  # a scorer, whose repr has the name of its function only
        return f"{full_repr(value._score_func)} {value!r}"
    text = repr(value)
    if hasattr(value, "__code__"):
        code = value.__code__
        digest = hashlib.sha256(code.co_code).hexdigest()[:16]
        text = f"{value.__qualname__}:{digest}{code.co_consts!r}"
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def hash_source(*values: Any) -> str:
    """Hash the files that define the classes and functions in estimators and their parameters.

    The digest is empty if all of them belong to known packages. It is random if the code of one of them is not in a
    file, as in a notebook: results are then computed again instead of taken from a store.
    """
    modules = set()
    for value in values:
        is_estimator = hasattr(value, "get_params") and not isinstance(value, type)
        for part in [value, *value.get_params().values()] if is_estimator else [value]:
            kind = part if isinstance(part, type) else type(part)
            definitions = [part] if hasattr(part, "__code__") else inspect.getmro(kind)
            modules |= {str(definition.__module__) for definition in definitions}
    unknown = [name for name in modules if name.partition(".")[0] not in KNOWN_PACKAGES]
    files = [getattr(sys.modules.get(name), "__file__", None) for name in unknown]
    known_files = [Path(file) for file in files if file is not None]
    if len(known_files) < len(files):
        return uuid.uuid4().hex
    return hash_files(known_files) if known_files else ""


def hash_files(files: Iterable[Path]) -> str:
    """Hash files of code, and the loaded modules next to those that are not installed, which they may import."""
    paths = {path.resolve() for path in files}
    folders = {path.parent for path in paths if not set(INSTALLED_FOLDERS) & set(path.parts)}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).suffix == ".py" and Path(file).resolve().parent in folders:
            paths.add(Path(file).resolve())
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_transductive(estimator: Any) -> bool:
    """Whether predictions of an estimator, or of a step of a pipeline, depend on the other samples of the batch.

    That is a `DomainCenterer`, an estimator with ``centering="target"``, and any estimator with a true attribute
    `transductive`, which may be a constructor parameter or a class attribute.
    """
    if isinstance(estimator, Pipeline):
        return any(is_transductive(step) for _, step in estimator.steps)
    if isinstance(estimator, DomainCenterer) or getattr(estimator, "centering", "source") == "target":
        return True
    return bool(getattr(estimator, "transductive", False))


def flatten_steps(estimator: Any) -> list[Any]:
    """List the steps of a pipeline, with those of nested pipelines; any other estimator is a list of one."""
    if isinstance(estimator, Pipeline):
        return [inner for _, step in estimator.steps for inner in flatten_steps(step)]
    return [estimator]


def fit_clone(estimator: Any, X: Any, y: Any, sample_domain: Any, sample_weight: Array | None = None) -> Any:
    """Return a fitted copy of an estimator.

    Domains and weights are passed to the estimator, or to the steps of a pipeline, if `fit` accepts them. Steps are
    fitted one by one, since the metadata that Pipeline.fit accepts depends on whether routing is enabled.
    """
    return _fit(clone(estimator), X, y, sample_domain, sample_weight)


def _fit(model: Any, X: Any, y: Any, sample_domain: Any, sample_weight: Array | None) -> Any:
    """Fit an estimator that is already a copy."""
    if type(model) is Pipeline:
        for _, step in model.steps[:-1]:
            if step in (None, "passthrough"):
                continue
            if type(step) is not Pipeline and hasattr(step, "fit_transform") and not consumes_domains(step):
                X = _call_fit(step.fit_transform, step, X, y, sample_domain, sample_weight)
            else:
                X = _transform_step(_fit(step, X, y, sample_domain, sample_weight), X, sample_domain)
        _fit(model.steps[-1][1], X, y, sample_domain, sample_weight)
        return model
    return _call_fit(model.fit, model, X, y, sample_domain, sample_weight)


def _call_fit(method: Any, model: Any, X: Any, y: Any, sample_domain: Any, sample_weight: Array | None) -> Any:
    """Call `fit` or `fit_transform` with the domains and weights that `fit` accepts."""
    gamma = getattr(model, "gamma", None)
    # Projections resolve a multiple of the median rule in `fit`.
    if isinstance(gamma, str) and gamma.strip().endswith("median") and not isinstance(model, Projection):
        model.set_params(gamma=median_width(gamma, X))
    fit_params = {"sample_domain": sample_domain} if accepts_domains(model.fit) else {}
    routing: AbstractContextManager[None] = nullcontext()
    if sample_weight is not None and has_fit_parameter(model, "sample_weight"):
        fit_params["sample_weight"] = sample_weight
        routing = config_context(enable_metadata_routing=False)  # which rejects weights that were not requested
    # The random numbers of liblinear and libsvm have one state for the whole process.
    uses_global_state = isinstance(model, LinearSVC) or getattr(model, "solver", None) == "liblinear"
    uses_global_state |= isinstance(model, SVC) and model.probability is True
    with routing, LIBLINEAR if uses_global_state else nullcontext():
        return method(X, y, **fit_params)


def _transform_step(step: Any, X: Any, sample_domain: Any) -> Any:
    """Transform samples by a fitted step, which may be a pipeline."""
    if type(step) is Pipeline:
        for _, inner in step.steps:
            X = _transform_step(inner, X, sample_domain)
        return X
    if step in (None, "passthrough"):
        return X
    if accepts_domains(step.transform):
        return step.transform(X, sample_domain=sample_domain)
    return step.transform(X)


def bind_domains(model: Any, X: Any, sample_domain: Any) -> tuple[Any, Any]:
    """Return a fitted classifier and its input, for callers that do not pass domains, such as scorers.

    Samples are transformed by the steps of a pipeline that accepts domains. If the prediction methods of the classifier
    accept domains, these become fixed arguments of the returned classifier.
    """
    if type(model) is Pipeline and consumes_domains(model):
        Z = transform_for_classifier(model, X, sample_domain)
        return bind_domains(model.steps[-1][1], Z, sample_domain)
    method_names = [name for name in PREDICTION_METHODS if accepts_domains(getattr(model, name, None))]
    if not method_names:
        return model, X
    bound_model = copy(model)
    for name in method_names:
        method = getattr(model, name)
        # Scorers need the name of a method, which a partial function alone does not have.
        bound_method = update_wrapper(partial(method, sample_domain=sample_domain), method)
        setattr(bound_model, name, bound_method)
    return bound_model, X


def transform_for_classifier(pipeline: Pipeline, X: Any, sample_domain: Any = None) -> Any:
    """Transform samples by all steps of a fitted pipeline but the last one."""
    for _, step in pipeline.steps[:-1]:
        X = _transform_step(step, X, sample_domain)
    return X


def consumes_domains(estimator: Any) -> bool:
    """Whether a method of an estimator, or of a step of a pipeline, accepts the domains of samples."""
    if type(estimator) is Pipeline:
        return any(consumes_domains(step) for _, step in estimator.steps)
    return any(accepts_domains(getattr(estimator, name, None)) for name in ("fit", "transform", *PREDICTION_METHODS))


def accepts_domains(method: Any) -> bool:
    """Whether a method accepts the domains of samples: as a parameter or, with routing, by a metadata request."""
    if method is None:
        return False
    if _has_domain_parameter(getattr(method, "__func__", method)):
        return True
    owner = getattr(method, "__self__", None)
    if not get_config()["enable_metadata_routing"] or type(owner) is Pipeline or not isinstance(owner, BaseEstimator):
        return False
    return bool(get_routing_for_object(owner).consumes(method.__name__, ["sample_domain"]))


@lru_cache(maxsize=1000)
def _has_domain_parameter(function: Any) -> bool:
    return "sample_domain" in inspect.signature(function).parameters


def median_width(gamma: str, X: Any) -> float:
    """Kernel coefficient that a multiple of the median rule gives for samples."""
    return parse_multiple(gamma, "median", "gamma") / median_squared_distance(X)


def ignore_expected_warnings() -> AbstractContextManager[None]:
    """Ignore warnings that are expected in small folds, where scores show whether a model is useful."""
    return ignore_warnings(
        SingleDomainWarning,
        MaskedLabelsWarning,
        FewerComponentsWarning,
        ConvergenceWarning,
        (UserWarning, "self.within_class_std_dev_"),  # NearestCentroid with a constant feature
        # Features of very different scales may cause overflow in classifiers, and line searches without a result.
        (RuntimeWarning, ".* encountered in "),
        (Warning, "(?i).*line search"),
        MANY_CLASSES_WARNING,
    )
