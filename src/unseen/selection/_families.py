"""The models that UnseenClassifier compares: plain classifiers, the same behind a DomainCenterer, and projections."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from ..algebra import Array, Ints
from ..estimators import CIDG, DICA, MDA, SCA, Projection
from ..exceptions import SingleDomainWarning
from ..kernels import EXACT_ROWS
from ..labels import Samples
from ._evaluate import Candidate, score_candidates
from ._grids import component_grid
from ._plain import CENTERED, MAPPED, PLAIN, RIDGE, Entry, Kind, Splits, mapped_entry, plain_entry
from ._results import preferred, tabulate

WIDTHS, RIDGES = ["0.1*median", "median"], ["1e-2*scale", "scale", "1e2*scale"]
PROJECTIONS: dict[str, tuple[Projection, dict[str, list[Any]]]] = {
    "cidg": (CIDG(), {"conditional_weight": ["scale", "1e2*scale"], "prior_weight": [0.0, "scale"]}),
    "mda": (MDA(), {"conditional_weight": [1.0, 1e2]}),
    "sca": (SCA(), {"domain_weight": ["scale", "1e2*scale"]}),
    "dica": (DICA(), {}),
}
HEADS = {
    "1-NN": KNeighborsClassifier(n_neighbors=1, algorithm="brute"),  # trees are not trusted in model files
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
}
METHODS = (*PLAIN, *CENTERED, *PROJECTIONS)


@dataclass(frozen=True)
class Contender:
    """A model with its best settings: how it did on each held-out part, and how to build it."""

    model: str
    kind: Kind
    scores: Array
    params: dict[str, Any]
    seconds: float
    pipeline: Pipeline = field(repr=False)

    @property
    def mean(self) -> float:
        """Mean score over held-out domains."""
        return float(np.mean(self.scores))


def contenders(
    methods: Sequence[str],
    X: Any,
    y: Any,
    domain: Ints,
    splits: Splits,
    scoring: str | Callable[..., float],
    transductive: bool = True,
    feature_map: Any = None,
) -> list[Contender]:
    """Tune methods on the splits; the best settings of each variant contend."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Said once by the caller; and a model that has not converged is judged by its score like any other.
        warnings.simplefilter("ignore", SingleDomainWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        projections = [method for method in methods if method in PROJECTIONS]
        plain = [method for method in methods if method not in (*PROJECTIONS, MAPPED)]
        found = [plain_entry(method, X, y, domain, splits, scoring) for method in plain]
        if MAPPED in methods:
            found.append(mapped_entry(feature_map, X, y, splits, scoring))
        if projections:
            centerings = ("source", "target") if transductive else ("source",)
            found += _projections(projections, X, y, domain, splits, scoring, centerings, feature_map)
    seconds = (time.perf_counter() - start) / len(found)
    return [Contender(*entry[:4], seconds, entry[4]) for entry in found]


def batches(methods: Sequence[str]) -> list[list[str]]:
    """Methods that are best tuned together: projections share the decompositions of their kernel matrices."""
    projections = [method for method in methods if method in PROJECTIONS]
    plain = [[method] for method in methods if method not in PROJECTIONS]
    return [*plain, projections] if projections else plain


def classifiers(methods: Sequence[str]) -> list[Any]:
    """All classifiers, unfitted, that a choice among methods may end in."""
    plain = [PLAIN[CENTERED.get(method, method)][0] for method in methods if method not in (*PROJECTIONS, MAPPED)]
    projected = HEADS.values() if set(PROJECTIONS) & set(methods) else ()
    return [*plain, *projected, *([RIDGE] if MAPPED in methods else [])]


def _projections(
    methods: list[str],
    X: Any,
    y: Any,
    domain: Ints,
    splits: Splits,
    scoring: Any,
    centerings: tuple[str, ...],
    feature_map: Any,
) -> Iterator[Entry]:
    """All projections with all heads, in one pass over the decompositions that they share."""
    widths: dict[str, list[Any]] = {"gamma": WIDTHS} if feature_map is None else {}
    # Among very many samples a nearest neighbour costs more than all else.
    few = feature_map is None or len(y) <= EXACT_ROWS
    heads = HEADS if few else {"logistic": HEADS["logistic"]}
    data = Samples(X, y, domain)
    candidates: list[Candidate] = []
    variants: list[tuple[str, str, dict[str, Any]]] = []
    for method in methods:
        projection, weights = PROJECTIONS[method]
        components = component_grid(projection, len(np.unique(y)))
        grid = {**widths, "ridge": RIDGES, **weights, **components, "centering": list(centerings)}
        for params in ParameterGrid(grid):
            tuned = clone(projection).set_params(feature_map=feature_map, **params)
            for head, classifier in heads.items():
                candidates.append(Candidate(len(candidates), tuned, classifier))
                variants.append((method, head, params))
    found = score_candidates(candidates, data, splits, scoring)
    errors = {score.error for split in found for score in split if score.error}
    results = tabulate(candidates, [params for *_, params in variants], found)
    if errors and np.isfinite(results["mean_test_score"]).any():
        reason = f"Some projections cannot be scored and are left out of the choice: {min(errors)}"
        warnings.warn(reason, RuntimeWarning, stacklevel=2)
    scores = np.column_stack([results[f"split{k}_test_score"] for k in range(len(splits))])
    for method, head, centering in product(methods, heads, centerings):
        among = np.array([v[:2] == (method, head) and v[2]["centering"] == centering for v in variants])
        best = preferred(results, among)
        pipeline = Pipeline([("projection", clone(candidates[best].projection)), ("classifier", clone(HEADS[head]))])
        name = f"{method} + {head}" + (", target-centred" if centering == "target" else "")
        kind: Kind = "transductive" if centering == "target" else "inductive"
        yield name, kind, scores[best], variants[best][2], pipeline


def offered(X: Any, transductive: bool, feature_map: Any = None) -> tuple[str, ...]:
    """Methods that can take these data: sparse ones cannot be centred, and those behind a map have no kernel matrix."""
    centred = transductive and not sparse.issparse(X)
    methods = [method for method in METHODS if centred or method not in CENTERED]
    if feature_map is None:
        return tuple(methods)
    kernels = ("rbf_svm", "centered_rbf_svm")
    mapped = () if isinstance(feature_map, str) else (MAPPED,)
    return *(method for method in methods if method not in kernels), *mapped
