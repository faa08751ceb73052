"""What is right on degenerate data: the textbook in 50 digits, from samples to features, and other independent ways.

Each function takes a case, fits, and returns the largest relative error; what is refused raises.
"""

from __future__ import annotations

import re
import warnings
from typing import NamedTuple
from unittest import mock

import mpmath
import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

import textbook
import unseen
from helpers import METHODS, make, match, pencil
from undo_bias_oracle import khosla, optimum
from unseen import CIDG, DomainCenterer, PivotedNystroem, ProjectionSearchCV, UndoBias, UnseenClassifier
from unseen.estimators import make_problem
from unseen.exceptions import FewerComponentsWarning, MaskedLabelsWarning, SingleDomainWarning
from unseen.model_selection import LeaveOneDomainOut
from unseen.shift import Novelty

DIGITS = 50
BOUND = 1e-8  # on the largest relative error
MEMORY = 16 * 2**30  # that there is supposed to be, on any machine
# The stopping rule of a solver; what landmarks leave out as rounding.
BOUNDS = {"UndoBias": 1e-4, "UnseenClassifier": 1e-6, "CIDG, landmarks": 1e-5}
NOISE = 1e-12  # of the largest eigenvalue: what is less may be kept or not
SCALE = 0.01  # a ridge of "scale" is this times the norm of the kernel matrix, to the power of the method


def exact(X):
    """An array of mpmath numbers; of sparse samples without the columns of zeros, which no kernel sees."""
    X = X[:, np.unique(X.indices)].toarray() if sparse.issparse(X) else np.asarray(X)
    return np.array([[mpmath.mpf(float(v)) for v in row] for row in X], dtype=object)


def kernel_matrix(X, Y, kernel, gamma):
    """Exact kernel values."""
    if kernel == "linear":
        return X @ Y.T
    return np.array([[mpmath.exp(-mpmath.mpf(gamma) * sum((a - b) ** 2)) for b in Y] for a in X], dtype=object)


def frobenius(K):
    return mpmath.sqrt((K * K).sum())


def on_range(K, *matrices, least=1e-25):
    """Matrices on the space in which the samples vary, and what leads back: without a ridge there is no other."""
    values, vectors = mpmath.eigsy(mpmath.matrix(K.tolist()))
    values = np.array(list(values), dtype=object)
    keep = [i for i in range(len(values)) if abs(values[i]) > least * max(abs(values))]
    V = np.array(vectors.tolist(), dtype=object)[:, keep]
    return V, *(V.T @ M @ V for M in matrices)


def settings_of(case, model):
    """The settings of a case that an estimator has."""
    return {name: value for name, value in case.settings.items() if name in model.get_params(deep=False)}


def chunks(case):
    """Rows in pieces, none of them with all classes."""
    return [slice(start, start + 4) for start in range(0, len(case.y), 4)]


def projection(name, in_chunks=False, **options):
    """A projection against its paper's equations."""

    def error(case):
        model = make(name, ridge="scale", **options)
        model.set_params(**settings_of(case, model))
        for rows in chunks(case) if in_chunks else ():
            model.partial_fit(case.X[rows], case.y[rows], sample_domain=case.d[rows])
        if not in_chunks:
            model.fit(case.X, case.y, sample_domain=case.d)
        Z = model.transform(case.X).astype(float)
        if not np.isfinite(Z).all():
            return np.inf
        return against_textbook(name, model, case, Z)

    return error


def width_of(model):
    """Kernel and coefficient that a fitted projection uses, its own or its map's."""
    if model.feature_map is None:
        return model.kernel, model.gamma_
    return ("linear", None) if model.feature_map_ is None else (model.feature_map_.kernel, model.feature_map_.gamma_)


def against_textbook(name, model, case, Z):
    """The largest error of the eigenvalues and of the features of the training samples."""
    if case.is_large:
        return against_double_precision(name, model, case)
    known = METHODS[name][2]
    with mpmath.workdps(DIGITS + case.magnitude):
        X = exact(case.X)
        K = textbook.centered(kernel_matrix(X, X, *width_of(model)))
        power = METHODS[name][3]
        ridge = (mpmath.mpf(SCALE) * frobenius(K)) ** power if model.ridge == "scale" else mpmath.mpf(model.ridge)
        known = {*known, "norm_weight"} if name == "CIDG" else known
        weights = {k: mpmath.mpf(v) for k, v in case.settings.items() if k in known}
        values, B = solved(K, *pencil(name, K, case.y, case.d, ridge, **weights), with_ridge=ridge > 0)
        q, features = len(model.eigenvalues_), K @ B
        missed = left_out(values[q : wanted(model)] / values[0])
        features = (features[:, :q] / np.array([mpmath.sqrt(v) for v in values[:q]], dtype=object)).astype(float)
        values = values[:q].astype(float)
    return compared(model.eigenvalues_, Z, values, features, missed)


def against_double_precision(name, model, case):
    """The largest error of the three largest eigenvalues, against the textbook in double precision."""
    if name == "MDA":  # the textbook's sums over pairs of domains take minutes
        return np.nan
    kernel, gamma = width_of(model)
    K = textbook.centered(pairwise_kernels(case.X, metric=kernel, filter_params=True, gamma=gamma))
    ridge = (SCALE * np.linalg.norm(K)) ** METHODS[name][3]
    q = min(3, len(model.eigenvalues_))
    values, _ = textbook.solve(*pencil(name, K, case.y, case.d, ridge), q)
    return float(np.abs(model.eigenvalues_[:q] / values - 1).max())


def left_out(parts, noise=NOISE):
    """The largest eigenvalue that was left out, beside the largest of all, if it is more than rounding."""
    return max((float(part) for part in parts if part > noise), default=0.0)


def compared(eigenvalues, Z, values, features, missed):
    """Relative errors, the largest of them and of what was left out."""
    errors = [
        missed,
        np.abs(eigenvalues / values - 1).max(),
        np.abs(match(Z, features, values) - features).max() / np.abs(features).max(),
    ]
    return float(max(errors))


def wanted(model):
    """How many components there should be, if the data have them."""
    return make_problem(model, model.cell_counts_, 1.0).max_components or len(model.classes_) - 1


def solved(K, N, A, with_ridge):
    """Eigenpairs in decreasing order, all digits of the values kept."""
    back = None
    if not with_ridge:
        back, N, A = on_range(K, N, A)
    size = np.abs(A).max()  # mpmath takes a matrix whose entries are tiny for none
    whiten = mpmath.cholesky(mpmath.matrix((A / size).tolist())) ** -1
    values, vectors = mpmath.eigsy(whiten * mpmath.matrix((N / size).tolist()) * whiten.T)
    B = np.array((whiten.T * vectors).tolist(), dtype=object) / mpmath.sqrt(size)
    order = sorted(range(len(B)), key=lambda i: -values[i])
    values = np.array([values[i] for i in order], dtype=object)
    return values, (B if back is None else back @ B)[:, order]


def nystroem(kernel):
    """Inner products of all features are the kernel, from samples that were fitted and from samples as new ones."""

    def error(case):
        model = PivotedNystroem(len(case.y), kernel=kernel, random_state=0)
        fitted = model.fit_transform(case.X).astype(float)
        new = model.transform(case.X).astype(float)
        if case.is_large:
            K = pairwise_kernels(case.X, metric=kernel, filter_params=True, gamma=model.gamma_)
            return max(np.abs(F @ F.T - K).max() for F in (fitted, new)) / np.abs(K).max()
        with mpmath.workdps(DIGITS):
            X = exact(case.X)
            K = kernel_matrix(X, X, kernel, model.gamma_).astype(float)
        return max(np.abs(F @ F.T - K).max() for F in (fitted, new)) / np.abs(K).max()

    return error


def centerer(case):
    """Rows less the mean of their domain, as they are and of length one, against exact ones."""
    ours = DomainCenterer(renormalize=False).fit_transform(case.X, sample_domain=case.d)
    ours_unit = DomainCenterer(renormalize=True).fit_transform(case.X, sample_domain=case.d)
    with mpmath.workdps(DIGITS):
        X = exact(case.X)
        size = np.abs(X).max() or mpmath.mpf(1)
        means = {s: X[case.d == s].sum(axis=0) / int((case.d == s).sum()) for s in np.unique(case.d)}
        Z = np.array([x - means[s] for x, s in zip(X, case.d, strict=True)], dtype=object)
        lengths = np.array([mpmath.sqrt(sum(z * z)) for z in Z], dtype=object)
        far = np.array([length > 1e-12 * size for length in lengths])  # what rounding leaves has any direction
        unit, plain = Z[far] / lengths[far][:, None], Z / size
        error = np.abs(exact(ours) / size - plain).max()
    return float(max(error, np.abs(ours_unit[far] - unit.astype(float)).max(initial=0.0)))


def undo_bias(case):
    """How far the objective lies above the optimum that another solver found, relative to it."""
    model = UndoBias(tol=1e-2 if case.is_large else 1e-8)  # 1e-2 as in comparisons
    model.set_params(**settings_of(case, model))
    model.fit(case.X, case.y, sample_domain=case.d, sample_weight=case.weight)
    if not all(np.isfinite(part).all() for part in (model.coef_, model.domain_coef_, model.decision_function(case.X))):
        return np.inf
    if "shared_cost" in case.settings or case.is_large:
        return np.nan  # the other solver does not get there
    plain, shrink = case.plain or case, case.factor
    model.coef_, model.domain_coef_ = model.coef_ * shrink, model.domain_coef_ * shrink
    gaps = []
    for row in range(min(len(model.coef_), 3)):
        best = optimum(model, plain.X, plain.y, plain.d, row)
        gaps.append(abs(khosla(model, plain.X, plain.y, plain.d, row) / best - 1))
    return max(gaps)


def search(case):
    """Scores against those of scikit-learn's search over the same pipeline."""
    projection, splits = CIDG(), list(LeaveOneDomainOut().split(case.X, case.y, case.d))[:10]
    projection.set_params(**settings_of(case, projection))
    grid = {"n_components": [1, 2], "scaling": ["paper", "unit_norm"]}
    head = LogisticRegression()  # nearest neighbors of equal rows are a matter of rounding
    ours = ProjectionSearchCV(projection, grid, classifier=head, cv=splits)
    ours.fit(case.X, case.y, sample_domain=case.d, sample_weight=case.weight)
    pipeline = Pipeline([("projection", projection), ("classifier", head)])
    theirs = GridSearchCV(pipeline, {f"projection__{k}": v for k, v in grid.items()}, cv=splits, error_score="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of ours are the matter
        theirs.fit(case.X, case.y, projection__sample_domain=case.d)
    names = [f"split{k}_test_score" for k in range(len(splits))]
    if case.weight is not None:  # which scikit-learn's search keeps from its scores
        return 0.0 if np.isfinite(ours.cv_results_["mean_test_score"]).all() else np.inf
    return float(max(np.abs(ours.cv_results_[name] - theirs.cv_results_[name]).max() for name in names))


def classifier(case):
    """Probabilities against those for the same numbers in double precision; elsewhere they must be probabilities."""

    def probabilities(part):
        model = UnseenClassifier().fit(part.X, part.y, sample_domain=part.d, sample_weight=case.weight)
        return model.predict_proba(part.X)

    P = probabilities(case)
    if not (np.isfinite(P).all() and (P >= 0).all() and np.allclose(P.sum(axis=1), 1)):
        return np.inf
    return np.abs(P - probabilities(case.plain)).max() if case.plain and case.factor == 1 else np.nan


def diagnosis(case):
    """Distances between domains against unbiased estimates from exact kernel values; p-values must be some."""
    found = unseen.diagnose(case.X, case.y, sample_domain=case.d, n_permutations=19)
    if not all(test.p_value is None or 0 < test.p_value <= 1 for test in found.tests) or "nan" in str(found):
        return np.inf
    if case.is_large:
        return np.nan
    with mpmath.workdps(DIGITS):
        X = exact(case.X)
        K = kernel_matrix(X, X, "rbf", found.gamma)
        domains = [np.flatnonzero(case.d == s) for s in np.unique(case.d)]

        def inside(rows):
            return (K[np.ix_(rows, rows)].sum() - len(rows)) / (len(rows) * (len(rows) - 1))

        expected = np.zeros((len(domains), len(domains)))
        for (s, a), (t, b) in ((one, two) for one in enumerate(domains) for two in enumerate(domains)):
            if s != t and min(len(a), len(b)) > 1:
                square = inside(a) + inside(b) - 2 * K[np.ix_(a, b)].sum() / (len(a) * len(b))
                expected[s, t] = float(max(square, 0))
            elif s != t:
                expected[s, t] = np.nan
    return float(np.abs(np.nan_to_num(found.marginal_distances**2) - np.nan_to_num(expected)).max())


def novelty(case):
    """Distances from knots along directions, those that were drawn, against exact ones."""
    model = Novelty(n_components=20).fit(case.X, sample_domain=case.d)
    result = model.compare(case.X[: len(case.y) // 2])
    told = [result.distance, result.ratio, result.usual_distance]
    if not np.isfinite(told).all():
        return np.inf
    with mpmath.workdps(DIGITS):
        along = exact(case.X) @ exact(model.directions_)
        expected = np.abs(along - exact(model.knots_[:, None])[:, 0])
        size = np.abs(along).max() or 1
        return float((np.abs(exact(model._embed(np.asarray(case.X, dtype=float))) ** 2 - expected) / size).max())


SUBJECTS = {
    **{name: projection(name) for name in METHODS},
    **{f"{name}, linear": projection(name, kernel="linear") for name in METHODS},
    **{f"{name}, feature map": projection(name, feature_map="linear") for name in METHODS},
    "CIDG, landmarks": projection("CIDG", feature_map=PivotedNystroem(1000, random_state=0)),
    "CIDG, in chunks": projection("CIDG", in_chunks=True, feature_map="linear"),
    "PivotedNystroem": nystroem("rbf"),
    "DomainCenterer": centerer,
    "UndoBias": undo_bias,
    "ProjectionSearchCV": search,
    "UnseenClassifier": classifier,
    "diagnose": diagnosis,
    "Novelty": novelty,
}

# What is said of such data, and meant.
TOLD = [SingleDomainWarning, FewerComponentsWarning, MaskedLabelsWarning]
RBF = [name for name in SUBJECTS if name in METHODS] + ["CIDG, landmarks"]
LINEAR = [name for name in SUBJECTS if name.endswith((", linear", ", feature map", ", in chunks"))]
EXPLICIT = [name for name in SUBJECTS if name.endswith((", feature map", ", in chunks"))]
SEARCHES = ["ProjectionSearchCV", "UnseenClassifier"]
TAKES_ALL = ["DomainCenterer"]
SMALL = "is too small: |look the same to .* scale X"
LARGE = r"is too large: |kernel='\w+' gave NaN or infinite values on X"
WEIGHTS = "sample_weight must hold zeros and numbers between 1e-30 and 1e\\+30"
SINGULAR = "singular with ridge|directions have no scatter within cells"
ALL = [name for name in SUBJECTS if name not in TAKES_ALL]
# Where there is no answer: the kind of data, who says so, and how.
REFUSED = [
    ("times 1e-300", [name for name in ALL if name != "Novelty"], SMALL),
    ("times 1e-150", LINEAR, SMALL),
    ("times 1e-80", LINEAR, SMALL),
    ("times 1e80", [*LINEAR, *SEARCHES], LARGE),
    ("times 1e150", ALL, LARGE),
    ("times 1e300", ALL, LARGE),
    ("columns from 1e-300 to 1e300", ALL, f"{SMALL}|{LARGE}"),
    ("identical samples", [*RBF, *LINEAR, "ProjectionSearchCV"], "All samples look the same"),
    (
        "classes identical to each other",
        [name for name in (*RBF, *LINEAR, "ProjectionSearchCV") if not name.startswith(("SCA", "UDICA"))],
        "class means coincide",
    ),
    ("50,000 sparse features", EXPLICIT, "50,000 explicit features needs 4 matrices"),
    ("50,000 sparse features", ["DomainCenterer", "UndoBias", "Novelty"], "dense data is required"),
    ("sample weights of 1e300", ["UndoBias", *SEARCHES], WEIGHTS),
    ("sample weights of 1e-300", ["UndoBias", *SEARCHES], WEIGHTS),
    ("sample weights from 1e-300 to 1e300", ["UndoBias", *SEARCHES], WEIGHTS),
    ("ridge 0", ["CIDG", "KFDA", "CIDG, landmarks", "ProjectionSearchCV"], SINGULAR),
    ("ridge 1e-300", ["CIDG", "KFDA", "CIDG, landmarks", "ProjectionSearchCV"], SINGULAR),
]


def refusal(case, subject, message=None):
    """Whether there is no answer; with a message, whether it is what should be said of that."""
    texts = [text for name, subjects, text in REFUSED if name == case and subject in subjects]
    return any(message is None or re.search(text, message) for text in texts)


class Outcome(NamedTuple):
    """What came of a case: right, sound, inapplicable, refused or wrong; the error, and what was said."""

    kind: str
    error: float = np.nan
    message: str = ""


def judged(subject, case):
    """The outcome: "right" with the error, "sound" where nothing tells what is right, "refused" or "wrong".

    A refusal is an error of Python's own kinds, with a message; whatever else is raised or warned of is wrong.
    """
    with warnings.catch_warnings(), mock.patch("unseen.kernels._nystroem.available_bytes", return_value=MEMORY):
        warnings.simplefilter("error")
        for category in TOLD:
            warnings.simplefilter("ignore", category)
        warnings.filterwarnings("ignore", ".* has no score and is left out", RuntimeWarning)
        try:
            error = SUBJECTS[subject](case)
        except Exception as problem:  # of any kind: it is the outcome
            clear = isinstance(problem, (ValueError, TypeError, MemoryError))
            kind = "refused" if clear and not isinstance(problem, np.linalg.LinAlgError) else "wrong"
            return Outcome(kind, np.inf, f"{problem}" if clear else f"{type(problem).__name__}: {problem}")
    if error is None:
        return Outcome("inapplicable")
    if np.isnan(error):
        return Outcome("sound")
    bound = max(BOUNDS.get(subject, BOUND), case.precision)
    return Outcome("right" if error <= bound else "wrong", float(error))
