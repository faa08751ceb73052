"""Mistakes are refused with a message that says what was wrong and what was received."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from mistakes import GRAM, D, N, X, Y, plain, replace_entry, search
from unseen import CIDG, DICA, KFDA, MDA, SCA, DomainCenterer, UndoBias, UnseenClassifier
from unseen.model_selection import LeaveOneDomainOut


def nan_kernel(a, b):
    return np.nan


def infinite_kernel(a, b):
    return np.inf


def undefined(X):
    return np.full_like(X, np.nan)


@dataclass
class Mistake:
    """A call that must fail: `fit` with the given data, then `call` if it is not fit itself."""

    what: str
    model: Any
    message: str
    error: type[Exception] = ValueError
    X: Any = None
    y: Any = None
    domain: Any = None
    call: Any = None

    def check(self):
        X_, y, d = (
            default if given is None else given for given, default in ((self.X, X), (self.y, Y), (self.domain, D))
        )
        if self.call is None:
            with pytest.raises(self.error, match=self.message):
                self.model.fit(X_, y, sample_domain=d)
            return
        self.model.fit(X_, y, sample_domain=d)
        with pytest.raises(self.error, match=self.message):
            self.call(self.model)


PARAMETERS = [
    # estimator, parameter, value: the message names both
    *[(CIDG, "n_components", value) for value in (0, -1, 1.5, "all")],
    *[(CIDG, "conditional_weight", value) for value in (-1.0, np.nan, np.inf, "auto", None)],
    *[(CIDG, "conditional_weight", f"{value}*scale") for value in ("-1", "0", "nan", "inf", "ten")],
    *[(CIDG, "prior_weight", value) for value in (-1e-9, np.nan, "large")],
    *[(CIDG, "norm_weight", value) for value in (-1, np.nan, "scale")],
    *[(CIDG, "ridge", value) for value in (-1e-3, np.nan, np.inf, "auto", None, "-0.1*scale", "0.1*median")],
    *[(CIDG, "kernel", value) for value in ("gaussian", None, 3)],
    *[(CIDG, "gamma", value) for value in (0.0, -1.0, np.nan, "auto", "0*median", "-2*scale")],
    *[(CIDG, "degree", value) for value in (-1, "three")],
    *[(CIDG, "coef0", value) for value in (np.nan, "one", None)],
    *[(CIDG, "kernel_params", value) for value in ([1], "gamma")],
    *[(CIDG, "scaling", value) for value in ("unit", None)],
    *[(CIDG, "centering", value) for value in ("targets", None, True)],
    *[(CIDG, "feature_map", value) for value in ("nystroem", 3, len)],
    (KFDA, "ridge", -1),
    (SCA, "between_weight", 1.5),
    (SCA, "between_weight", -0.1),
    (SCA, "domain_weight", -1),
    (SCA, "domain_weight", "auto"),
    (DICA, "output_ridge", 0),
    (DICA, "output_ridge", -1e-3),
    (DICA, "supervised", "no"),
    (DICA, "as_published", 2),
    (MDA, "discrepancy_weight", -0.1),
    (MDA, "discrepancy_weight", 1.1),
    (MDA, "conditional_weight", -1),
    (MDA, "within_weight", -1),
    (UndoBias, "shared_cost", 0),
    (UndoBias, "shared_cost", np.nan),
    (UndoBias, "domain_cost", -1),
    (UndoBias, "offset_penalty", 0),
    (UndoBias, "tol", 0),
    (UndoBias, "max_iter", 0),
    (UndoBias, "random_state", "seed"),
    *[
        (search, name, value)
        for name, value in (("cv", 1), ("cv", "lodo"), ("classifier", "knn"), ("param_grid", "all"))
    ],
    *[(search, name, value) for name, value in (("refit", "yes"), ("n_jobs", "two"), ("verbose", -1))],
    *[(search, "scoring", value) for value in ("accurate", None)],
    *[(UnseenClassifier, "methods", value) for value in (None, "logistic", {"logistic"})],
    (plain, "transductive", "no"),
    *[(plain, name, value) for name, value in (("cv", 0), ("scoring", "accurate"), ("n_jobs", 0.5), ("verbose", -1))],
    (DomainCenterer, "renormalize", "yes"),
]


@pytest.mark.parametrize(("estimator", "name", "value"), PARAMETERS)
def test_a_bad_parameter_is_named_with_its_value(estimator, name, value):
    with pytest.raises(ValueError, match=rf"\b{name}\b.* must be .*[Gg]ot ") as caught:
        estimator(**{name: value}).fit(X, Y, sample_domain=D)
    assert repr(value) in str(caught.value)


MISTAKES = [
    # labels of domains
    Mistake("too few domains", CIDG(), rf"sample_domain .* {N - 1} labels for {N} samples", domain=D[:-1]),
    Mistake("too many domains", UndoBias(), rf"sample_domain .* {N + 1} labels for {N} samples", domain=[*D, 0]),
    Mistake("no domains", CIDG(), rf"sample_domain .* 0 labels for {N} samples", domain=[]),
    Mistake("domains in 2-d", CIDG(), rf"sample_domain .* one dimension; got .* \({N}, 1\)", domain=D[:, None]),
    Mistake("pairs as domains", CIDG(), rf"sample_domain .* shape \({N}, 2\)", domain=[(0, 1)] * N),
    Mistake("one name for all", CIDG(), r"sample_domain .* shape \(\)", domain="Paris"),
    Mistake("domain is None", CIDG(), r"no label for 1 of \d+ .* position 3", domain=replace_entry(D, 3, None)),
    Mistake("domain is NaN", CIDG(), r"no label for 1 of \d+ .* position 2", domain=replace_entry(D * 1.0, 2, np.nan)),
    Mistake("NaN among names", CIDG(), r"no label for 1 of", domain=[*map(str, D[:-1]), np.nan]),
    Mistake(
        "domain is NaT",
        CIDG(),
        r"no label for 1 of",
        domain=replace_entry(D.astype("M8[D]"), 0, np.datetime64("NaT", "D")),
    ),
    Mistake("UndoBias, too", UndoBias(), r"sample_domain has no label for 1", domain=replace_entry(D, 3, None)),
    Mistake(
        "lists as domains",
        CIDG(),
        r"sample_domain .* hashable .* \['int', 'list'\]",
        TypeError,
        domain=replace_entry(D, 3, [1]),
    ),
    Mistake(
        "domains without order",
        CIDG(),
        r"sample_domain .* sorted; got .* \['complex'\]",
        TypeError,
        domain=np.array([complex(d) for d in D], dtype=object),
    ),
    Mistake(
        "domains of transform",
        CIDG(),
        rf"sample_domain .* 1 labels for {N} samples",
        call=lambda model: model.transform(X, sample_domain=[0]),
    ),
    Mistake(
        "domains of transform, target",
        CIDG(centering="target"),
        rf"sample_domain .* 1 labels for {N} samples",
        call=lambda model: model.transform(X, sample_domain=[0]),
    ),
    Mistake(
        "no name in transform",
        CIDG(centering="target"),
        "sample_domain has no label for 1",
        call=lambda model: model.transform(X, sample_domain=replace_entry(D, 0, None)),
    ),
    # labels of classes
    Mistake("too few classes", CIDG(), r"inconsistent numbers of samples: \[18, 17\]", y=Y[:-1]),
    Mistake("one class", CIDG(), r"at least 2 classes.* 1 class: \[4\]", y=np.full(N, 4)),
    Mistake("one class, SVM", UndoBias(), r"UndoBias needs .* at least 2 classes.* \['a'\]", y=np.full(N, "a")),
    Mistake("continuous y", CIDG(), "Unknown label type: continuous", y=X[:, 0]),
    Mistake("y in 2-d", CIDG(), r"y should be a 1d array, got an array of shape \(18, 2\)", y=np.c_[Y, Y]),
    Mistake("NaN in y", CIDG(), "y has no label for 1 of 18 samples", y=replace_entry(Y * 1.0, 0, np.nan)),
    # samples
    Mistake("X in 1-d", CIDG(), "Expected 2D array, got 1D array", X=X[:, 0]),
    Mistake("X in 3-d", CIDG(), "dim 3", X=X[:, :, None]),
    Mistake("NaN in X", CIDG(), "Input X contains NaN", X=replace_entry(X, (0, 0), np.nan)),
    Mistake("infinity in X", SCA(), "Input X contains infinity", X=replace_entry(X, (0, 0), np.inf)),
    Mistake("no features", CIDG(), r"0 feature\(s\) \(shape=\(18, 0\)\)", X=X[:, :0]),
    Mistake("no samples", CIDG(), r"0 sample\(s\)", X=X[:0], y=Y[:0], domain=D[:0]),
    Mistake("one sample", CIDG(), r"1 sample\(s\) .* minimum of 2", X=X[:1], y=Y[:1], domain=D[:1]),
    Mistake("words in X", CIDG(), "could not convert string to float", X=np.full(X.shape, "a")),
    Mistake("complex X", CIDG(), "Complex data not supported", X=X + 1j),
    Mistake("constant X", CIDG(), "All samples look the same to CIDG", X=np.ones_like(X)),
    Mistake(
        "constant features", CIDG(feature_map="linear"), "All samples look the same to CIDG", X=np.full_like(X, 0.1)
    ),
    Mistake("constant X without ridge", SCA(ridge=0), "All samples look the same to SCA", X=np.ones_like(X)),
    Mistake(
        "constant X, published DICA", DICA(as_published=True), "All samples look the same to DICA", X=np.ones_like(X)
    ),
    Mistake("constant X, UDICA", DICA(supervised=False), "All samples look the same to DICA", X=np.ones_like(X)),
    Mistake("sparse X with chi2", CIDG(kernel="chi2"), "Sparse data was passed", TypeError, X=sparse.csr_array(X**2)),
    Mistake("sparse X for UndoBias", UndoBias(), "Sparse data was passed", TypeError, X=sparse.csr_array(X)),
    Mistake("negative X with chi2", CIDG(kernel="chi2"), "Negative values in data passed to CIDG with kernel='chi2'"),
    Mistake("negative X with additive chi2", CIDG(kernel="additive_chi2"), "Negative values .* kernel='additive_chi2'"),
    Mistake(
        "negative X in transform",
        CIDG(kernel="chi2"),
        "Negative values .* kernel='chi2'",
        X=X**2,
        call=lambda model: model.transform(X),
    ),
    # kernels
    Mistake("oblong Gram matrix", CIDG(kernel="precomputed"), r"square .* got shape \(18, 17\)", X=GRAM[:, :-1]),
    Mistake("features for a Gram matrix", CIDG(kernel="precomputed"), r"square .* got shape \(18, 4\)"),
    Mistake(
        "asymmetric Gram matrix",
        CIDG(kernel="precomputed"),
        "symmetric .* differ .* up to 1[.\\s]",
        X=GRAM + np.eye(N, k=1),
    ),
    Mistake(
        "columns for other samples",
        CIDG(kernel="precomputed"),
        "X has 5 features, but CIDG is expecting 18",
        X=GRAM,
        call=lambda model: model.transform(GRAM[:3, :5]),
    ),
    Mistake("kernel of NaN", CIDG(kernel=nan_kernel), "kernel=<function nan_kernel .* NaN or infinite"),
    Mistake("kernel of infinity", KFDA(kernel=infinite_kernel), "kernel=<function infinite_kernel .* NaN or infinite"),
    Mistake("kernel that overflows", CIDG(kernel="poly", degree=300), "kernel='poly' gave NaN or infinite", X=1e3 * X),
    Mistake(
        "indefinite kernel",
        DICA(kernel="precomputed", ridge=1e-6),
        "kernel='precomputed' is not positive semi-definite .* norm penalty of DICA .* ridge=1e-06",
        X=-GRAM,
    ),
    # feature maps
    Mistake("map without transform", CIDG(feature_map=KMeans), "clone|instance", TypeError),
    Mistake(
        "map to NaN", CIDG(feature_map=FunctionTransformer(undefined)), "feature_map=.* finite .* 72 NaN or infinite"
    ),
    Mistake("map that loses samples", CIDG(feature_map=FunctionTransformer(np.unique)), r"feature_map=.* one row per"),
    # singular problems
    Mistake("no ridge", CIDG(ridge=0), r"eigenproblem of CIDG is singular with ridge=0: .* Set ridge to a larger"),
    Mistake("no ridge, no penalty", KFDA(ridge=0, kernel="precomputed"), "KFDA is singular with ridge=0", X=np.eye(N)),
    # unseen domains
    Mistake(
        "one sample of a new domain",
        CIDG(centering="target"),
        'centering="target" .* X has a single sample',
        call=lambda model: model.transform(X[:1]),
    ),
    Mistake(
        "one sample of a named domain",
        CIDG(centering="target"),
        "domain 'new' has a single sample",
        call=lambda model: model.transform(X, sample_domain=replace_entry(D.astype("U3"), 5, "new")),
    ),
    Mistake(
        "recentered on one sample",
        CIDG(),
        "recenter needs .* at least 2 samples .* got X with 1",
        call=lambda model: model.recenter(X[:1]),
    ),
    # data of another shape
    Mistake(
        "other width", CIDG(), "X has 3 features, but CIDG is expecting 4", call=lambda model: model.transform(X[:, :3])
    ),
    Mistake(
        "other width, recentered",
        MDA(),
        "X has 3 features, but MDA is expecting 4",
        call=lambda model: model.recenter(X[:, :3]),
    ),
    Mistake(
        "other width, SVM",
        UndoBias(),
        "X has 3 features, but UndoBias is expecting 4",
        call=lambda model: model.predict(X[:, :3]),
    ),
    Mistake(
        "NaN in transform",
        CIDG(),
        "Input X contains NaN",
        call=lambda model: model.transform(replace_entry(X, (0, 0), np.nan)),
    ),
    Mistake(
        "kernel of infinity in transform",
        CIDG(kernel="poly", degree=30),
        "kernel='poly' gave NaN or infinite",
        call=lambda model: model.transform(1e30 * X),
    ),
    Mistake("no samples in transform", CIDG(), r"0 sample\(s\)", call=lambda model: model.transform(X[:0])),
    # searches
    Mistake("search for PCA", search(estimator=PCA()), r"estimator must be .* got PCA\(\)\. .*GridSearchCV", TypeError),
    Mistake("search for a class", search(estimator=CIDG), "estimator must be .* got <class", TypeError),
    Mistake("unknown parameter", search({"alpha": [1]}), r"Invalid parameter 'alpha' for estimator CIDG"),
    Mistake("unknown parameter of the classifier", search({"classifier__alpha": [1]}), "'alpha' for estimator KNeigh"),
    Mistake(
        "a value in the place of a list", search({"ridge": 1.0}), "'ridge' needs to be a list .* got 1.0", TypeError
    ),
    Mistake("a word in the place of a list", search({"ridge": "scale"}), "'ridge' needs to be a list", TypeError),
    Mistake("no values", search({"ridge": []}), "'ridge' need to be a non-empty sequence"),
    Mistake("no grid in a list", search([]), r"param_grid=\[\] contains no setting"),
    Mistake("bad value in a grid", search({"ridge": ["scale", -1.0]}), "'ridge' parameter of CIDG must be .* Got -1.0"),
    Mistake("bad multiple in a grid", search({"ridge": ["ten*scale"]}), r"1 settings failed.*got 'ten\*scale'"),
    Mistake("classifier is a class", search(classifier=LogisticRegression), "instance", TypeError),
    Mistake("splitter is a class", search(cv=LeaveOneDomainOut), r"such as LeaveOneDomainOut\(\)", TypeError),
    Mistake("no splits", search(cv=[]), r"cv=\[\] gave ProjectionSearchCV no split"),
    Mistake("too many folds", search(cv=100), "n_splits=100 greater than the number of samples: n_samples=18"),
    Mistake(
        "index beyond the grid",
        search(refit=lambda results: 9),
        "must return an index between 0 and 0; got 9",
        IndexError,
    ),
    Mistake("one domain", search(), r"LeaveOneDomainOut needs more than 1 domain.* got \['a'\]", domain=["a"] * N),
    Mistake("one class left", search(), r"split 0 .* have a single class, \[1\]", y=np.where(D == 0, 0, 1)),
    Mistake("search, one class", search(), r"ProjectionSearchCV needs .* at least 2 classes", y=np.full(N, 4)),
    Mistake("search, NaN", search(), "Input X contains NaN", X=replace_entry(X, (0, 0), np.nan)),
    Mistake("search, constant X", search(), "1 settings failed.*look the same to CIDG", X=np.ones_like(X)),
    Mistake("search, few domains", search(), rf"sample_domain .* {N - 1} labels for {N} samples", domain=D[:-1]),
    Mistake("search, other width", search(), "X has 3 features, but Proj", call=lambda model: model.predict(X[:, :3])),
    # comparisons
    Mistake("unknown method", UnseenClassifier(["logistic", "svm"]), "no method 'svm'; there are 1-NN, .*, logistic,"),
    Mistake("no methods", UnseenClassifier([]), r"methods must be \"auto\" or a list .* got \[\]"),
    Mistake("methods in lists", UnseenClassifier([["logistic"]]), r"methods must be .* got \[\['logistic'\]\]"),
    Mistake("comparison, one domain", plain(), r"needs more than 1 domain.* got \[7\]", domain=[7] * N),
    Mistake(
        "comparison, one class left", plain(), "UnseenClassifier cannot train on split 0", y=np.where(D == 0, 0, 1)
    ),
    Mistake("comparison, continuous y", plain(), "Unknown label type: continuous", y=X[:, 0]),
    Mistake("comparison, constant X", UnseenClassifier(["cidg"]), "No model has a score", X=np.ones_like(X)),
    Mistake(
        "sparse X to be centered",
        UnseenClassifier(["centered logistic"], transductive=True),
        r"\['centered logistic'\] .* sparse X cannot be centered",
        X=sparse.csr_array(X),
    ),
    Mistake(
        "comparison, other width", plain(), "X has 3 features, but Uns", call=lambda model: model.predict(X[:, :3])
    ),
    # centering
    Mistake("centering NaN", DomainCenterer(), "Input X contains NaN", X=replace_entry(X, (0, 0), np.nan)),
    Mistake("centering sparse X", DomainCenterer(), "dense data is required", TypeError, X=sparse.csr_array(X)),
    Mistake("centering, few domains", DomainCenterer(), rf"{N - 1} labels for {N} samples", domain=D[:-1]),
    Mistake(
        "centering one sample", DomainCenterer(), "X has a single sample", call=lambda model: model.transform(X[:1])
    ),
    Mistake(
        "centering one sample of a new domain",
        DomainCenterer(),
        "domain 7 has a single sample",
        call=lambda model: model.transform(X[:3], sample_domain=[0, 0, 7]),
    ),
    Mistake(
        "centering, other width", DomainCenterer(), "X has 3 features", call=lambda model: model.transform(X[:, :3])
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_a_mistake_is_explained(mistake):
    mistake.check()
