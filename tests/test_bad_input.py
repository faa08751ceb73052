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
    *[(CIDG, "n_components", value) for value in (0, 1.5)],
    *[(CIDG, "conditional_weight", value) for value in (-1.0, np.nan, None, "-1*scale", "nan*scale", "ten*scale")],
    (CIDG, "prior_weight", -1e-9),
    (CIDG, "norm_weight", "scale"),
    *[(CIDG, "ridge", value) for value in (np.inf, "auto", "-0.1*scale", "0.1*median")],
    *[(CIDG, "kernel", value) for value in ("gaussian", None)],
    *[(CIDG, "gamma", value) for value in (0.0, "auto", "0*median")],
    (CIDG, "degree", -1),
    (CIDG, "coef0", np.nan),
    (CIDG, "scaling", "unit"),
    (CIDG, "centering", True),
    *[(CIDG, "feature_map", value) for value in ("nystroem", len)],
    (KFDA, "ridge", -1),
    (SCA, "between_weight", 1.5),
    (SCA, "domain_weight", "auto"),
    (DICA, "output_ridge", 0),
    (DICA, "supervised", "no"),
    (MDA, "discrepancy_weight", 1.1),
    (MDA, "conditional_weight", -1),
    (MDA, "within_weight", -1),
    (UndoBias, "shared_cost", np.nan),
    (UndoBias, "domain_cost", -1),
    (UndoBias, "offset_penalty", 0),
    (UndoBias, "tol", 0),
    (UndoBias, "max_iter", 0),
    (UndoBias, "random_state", "seed"),
    *[(search, "cv", value) for value in (1, "lodo")],
    (search, "classifier", "knn"),
    (search, "param_grid", "all"),
    (search, "refit", "yes"),
    (search, "scoring", "accurate"),
    (UnseenClassifier, "methods", "logistic"),
    (plain, "transductive", "no"),
    (plain, "cv", 0),
    (plain, "n_jobs", 0.5),
    (plain, "verbose", -1),
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
    Mistake("domains in 2-d", CIDG(), rf"sample_domain .* one dimension; got .* \({N}, 1\)", domain=D[:, None]),
    Mistake("one name for all", CIDG(), r"sample_domain .* shape \(\)", domain="Paris"),
    Mistake("domain is None", CIDG(), r"no label for 1 of \d+ .* position 3", domain=replace_entry(D, 3, None)),
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
        "no name in transform",
        CIDG(centering="target"),
        "sample_domain has no label for 1",
        call=lambda model: model.transform(X, sample_domain=replace_entry(D, 0, None)),
    ),
    # labels of classes
    Mistake("one class", CIDG(), r"at least 2 classes.* 1 class: \[4\]", y=np.full(N, 4)),
    # samples
    Mistake("constant X", CIDG(), "All samples look the same to CIDG", X=np.ones_like(X)),
    Mistake(
        "constant features", CIDG(feature_map="linear"), "All samples look the same to CIDG", X=np.full_like(X, 0.1)
    ),
    # kernels
    Mistake("oblong Gram matrix", CIDG(kernel="precomputed"), r"square .* got shape \(18, 17\)", X=GRAM[:, :-1]),
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
        "other width, recentered",
        MDA(),
        "X has 3 features, but MDA is expecting 4",
        call=lambda model: model.recenter(X[:, :3]),
    ),
    Mistake(
        "kernel of infinity in transform",
        CIDG(kernel="poly", degree=30),
        "kernel='poly' gave NaN or infinite",
        call=lambda model: model.transform(1e30 * X),
    ),
    # searches
    Mistake("search for PCA", search(estimator=PCA()), r"estimator must be .* got PCA\(\)\. .*GridSearchCV", TypeError),
    Mistake("unknown parameter", search({"alpha": [1]}), r"Invalid parameter 'alpha' for estimator CIDG"),
    Mistake("unknown parameter of the classifier", search({"classifier__alpha": [1]}), "'alpha' for estimator KNeigh"),
    Mistake(
        "a value in the place of a list", search({"ridge": 1.0}), "'ridge' needs to be a list .* got 1.0", TypeError
    ),
    Mistake("no values", search({"ridge": []}), "'ridge' need to be a non-empty sequence"),
    Mistake("no grid in a list", search([]), r"param_grid=\[\] contains no setting"),
    Mistake("bad value in a grid", search({"ridge": ["scale", -1.0]}), "'ridge' parameter of CIDG must be .* Got -1.0"),
    Mistake("bad multiple in a grid", search({"ridge": ["ten*scale"]}), r"1 settings failed.*got 'ten\*scale'"),
    Mistake("classifier is a class", search(classifier=LogisticRegression), "instance", TypeError),
    Mistake("splitter is a class", search(cv=LeaveOneDomainOut), r"such as LeaveOneDomainOut\(\)", TypeError),
    Mistake("no splits", search(cv=[]), r"cv=\[\] gave ProjectionSearchCV no split"),
    Mistake("too many folds", search(cv=100), "n_splits=100 greater than the number of samples: n_samples=18"),
    Mistake("one domain", search(), r"LeaveOneDomainOut needs more than 1 domain.* got \['a'\]", domain=["a"] * N),
    Mistake("one class left", search(), r"split 0 .* have a single class, \[1\]", y=np.where(D == 0, 0, 1)),
    Mistake("search, constant X", search(), "1 settings failed.*look the same to CIDG", X=np.ones_like(X)),
    # comparisons
    Mistake("unknown method", UnseenClassifier(["logistic", "svm"]), "no method 'svm'; there are 1-NN, .*, logistic,"),
    Mistake("no methods", UnseenClassifier([]), r"methods must be \"auto\" or a list .* got \[\]"),
    Mistake("comparison, one domain", plain(), r"needs more than 1 domain.* got \[7\]", domain=[7] * N),
    Mistake(
        "comparison, one class left", plain(), "UnseenClassifier cannot train on split 0", y=np.where(D == 0, 0, 1)
    ),
    Mistake("comparison, constant X", UnseenClassifier(["cidg"]), "No model has a score", X=np.ones_like(X)),
    Mistake(
        "sparse X to be centered",
        UnseenClassifier(["centered logistic"], transductive=True),
        r"\['centered logistic'\] .* sparse X cannot be centered",
        X=sparse.csr_array(X),
    ),
    # centering
    Mistake("centering sparse X", DomainCenterer(), "dense data is required", TypeError, X=sparse.csr_array(X)),
    Mistake(
        "centering one sample", DomainCenterer(), "X has a single sample", call=lambda model: model.transform(X[:1])
    ),
    Mistake(
        "centering one sample of a new domain",
        DomainCenterer(),
        "domain 7 has a single sample",
        call=lambda model: model.transform(X[:3], sample_domain=[0, 0, 7]),
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_a_mistake_is_explained(mistake):
    mistake.check()
