"""A numerical audit: the solver against 50 digits, over twelve orders of magnitude of every weight and of the ridge.

The equations of the papers (tests/textbook.py) are formed and solved three times: in 50 digits, which is taken for the
truth; by the package; and in double precision by `scipy.linalg.eigh`, as a textbook would. Errors are those of
eigenvalues, relative, and of the space that components span on the samples, as an angle. Digits are minus their
logarithm.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from benchmarks.measure import Row
from scipy import linalg
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from unseen.estimators import make_problem
from unseen.kernels import median_squared_distance
from unseen.linalg import Membership, is_cholesky_accurate, solve, whiten_by_cholesky

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import textbook
from helpers import make, pencil

PICTURE = Path(__file__).parents[1] / "docs" / "_static" / "audit.png"
DIGITS, ORDERS, CLAIM = 50, 12, 8
RIDGES = (1e-4, 1e-12)  # at which weights are moved, as those below in units of the kernel matrix
COUNTS = np.array([[3, 2, 3], [2, 4, 1], [3, 2, 0]])  # samples of each class in each domain: 20, and a cell is missing
# Of each method: the power of the kernel matrix that its ridge lives on, and where each weight begins.
METHODS: dict[str, tuple[int, dict[str, float]]] = {
    "CIDG": (2, {"conditional_weight": 1e-4, "prior_weight": 1e-4, "norm_weight": 1e-6}),
    "KFDA": (2, {}),
    "SCA": (2, {"domain_weight": 1e-4, "between_weight": 1e-12}),
    "DICA": (1, {"output_ridge": 1e-9}),
    "UDICA": (1, {}),
    "MDA": (1, {"conditional_weight": 1e-4, "within_weight": 1e-4, "discrepancy_weight": 1e-12}),
}
# What one stands for: the paper's weights grow with the samples, those of norms with the kernel matrix.
DEFAULTS: dict[str, dict[str, float]] = {
    "CIDG": {"conditional_weight": 1.0, "prior_weight": 1.0, "norm_weight": 0.0},
    "SCA": {"domain_weight": 1.0, "between_weight": 0.5},
    "DICA": {"output_ridge": 1e-3},
    "MDA": {"conditional_weight": 1.0, "within_weight": 1.0, "discrepancy_weight": 0.5},
}


@dataclass(frozen=True)
class Problem:
    """Samples of three classes in three domains, by their kernel values, which are the truth: in double and exactly."""

    name: str
    K: Any
    X: Any  # where these values are inner products of it, exactly
    exact: Any
    y: Any
    d: Any

    @property
    def size(self) -> float:
        """Largest eigenvalue."""
        return float(np.linalg.norm(self.exact.astype(float), 2))

    def unit(self, method: str, parameter: str) -> float:
        """What a weight or a ridge is counted in."""
        if parameter == "ridge":
            return self.size ** METHODS[method][0]
        per_sample = method in ("CIDG", "SCA") and parameter in ("conditional_weight", "prior_weight", "domain_weight")
        return float(len(self.y)) if per_sample else self.size if parameter == "norm_weight" else 1.0


@dataclass(frozen=True)
class Setting:
    """A method, the parameter that is moved, and where the others stand, all in units of the problem."""

    method: str
    moved: str
    value: float
    ridge: float

    def params(self, problem: Problem) -> dict[str, float]:
        """As the estimator takes them."""
        own = {**DEFAULTS.get(self.method, {}), "ridge": self.ridge, self.moved: self.value}
        return {name: value * problem.unit(self.method, name) for name, value in own.items()}

    def __str__(self) -> str:
        at = "" if self.moved == "ridge" else f" at ridge {self.ridge:g}"
        return f"{self.moved} {self.value:.3g}{at}"


@dataclass(frozen=True)
class Error:
    """Relative error of eigenvalues and angle of the subspace; 1 is all that can be lost."""

    value: float
    angle: float

    @classmethod
    def from_truth(cls, truth: tuple[Any, Any], values: Any, features: Any) -> Error:
        """Of eigenvalues and features; components of other lengths span the same."""
        angle = linalg.subspace_angles(*(F / np.linalg.norm(F, axis=0) for F in (features, truth[1]))).max()
        value = np.abs(values / truth[0] - 1).max()
        return cls(float(min(value, 1.0)), float(min(angle, 1.0)))

    @property
    def largest(self) -> float:
        """Of the two."""
        return max(self.value, self.angle)


LOST = Error(1.0, 1.0)


@dataclass(frozen=True)
class Finding:
    """One setting on one problem, by everyone who solved it."""

    problem: Problem
    setting: Setting
    errors: dict[str, Error]

    def __str__(self) -> str:
        return f"{self.problem.name}, {self.setting}"


def samples(n_features: int) -> tuple[Any, Any, Any]:
    """Classes and domains apart by shifts; rounded so that products and sums of these numbers are exact."""
    d, y = (np.repeat(index, COUNTS.ravel()) for index in map(np.ravel, np.indices(COUNTS.shape)))
    rng = np.random.default_rng(3)
    X = rng.normal(size=(len(y), n_features)) + rng.normal(size=(3, n_features))[y]
    return np.round(1024 * (X + rng.normal(size=(3, n_features))[d])) / 1024, y, d


def rbf_problem(factor: float) -> Problem:
    """Four features; the kernel's coefficient is a multiple of one over the median of squared distances."""
    X, y, d = samples(4)
    K = rbf_kernel(X, gamma=factor / median_squared_distance(X))
    return Problem(f"rbf {factor:g}*median", K, None, textbook.centered(exactly(K)), y, d)


def problems() -> Iterator[Problem]:
    """The default width, the widest of all default grids, and more features than samples."""
    yield rbf_problem(1.0)
    yield rbf_problem(0.01)
    X, y, d = samples(40)
    K = linear_kernel(X)
    yield Problem("40 features", K, X, textbook.centered(exactly(K)), y, d)


def exactly(K: Any) -> Any:
    return np.array([[mpmath.mpf(float(v)) for v in row] for row in K], dtype=object)


def settings() -> Iterator[Setting]:
    for method, (_, starts) in METHODS.items():
        for value in np.geomspace(1e-12, 1, ORDERS + 1):
            yield Setting(method, "ridge", float(value), float(value))
        for ridge in RIDGES:
            for weight, start in starts.items():
                for value in np.geomspace(start, start * 10**ORDERS, ORDERS // 2 + 1):
                    yield Setting(method, weight, min(float(value), start * 10**ORDERS), ridge)


def truth_of(problem: Problem, setting: Setting, q: int, exact: Any = None) -> tuple[Any, Any]:
    """Eigenvalues and features in 50 digits."""
    exact = problem.exact if exact is None else exact
    N, A = pencil(setting.method, exact, problem.y, problem.d, **setting.params(problem))
    values, B = textbook.solve(N, A, q)
    return values, exact.astype(float) @ B


def audited(problem: Problem, setting: Setting) -> Finding:
    params = setting.params(problem)
    model = make(setting.method, kernel="precomputed", **params).fit(problem.K, problem.y, sample_domain=problem.d)
    q = len(model.eigenvalues_)
    truth, K = truth_of(problem, setting, q), problem.exact.astype(float)
    errors = {"ours": Error.from_truth(truth, model.eigenvalues_, K @ model.dual_coef_)}
    try:
        pair = pencil(setting.method, textbook.centered(problem.K), problem.y, problem.d, **params)
        values, B = textbook.solve(*pair, q)
        errors["textbook"] = Error.from_truth(truth, values, K @ B)
    except linalg.LinAlgError:  # its denominator is no longer positive definite
        errors["textbook"] = LOST
    membership = Membership.from_codes(problem.y, problem.d)
    recipe = make_problem(model, membership.counts, 1.0).scatter_problem
    if is_cholesky_accurate(recipe, float(np.linalg.norm(K))):
        whitened = whiten_by_cholesky(K.copy(), membership, recipe)
        if whitened is not None:
            found = solve(whitened, recipe, membership.counts)
            errors["by Cholesky"] = Error.from_truth(truth, found.eigenvalues, K @ found.coefficients)
    if problem.X is not None:
        features = make(setting.method, feature_map="linear", **params)
        features.fit(problem.X, problem.y, sample_domain=problem.d)
        Z = (problem.X - problem.X.mean(axis=0)) @ features.coef_
        errors["explicit features"] = Error.from_truth(truth, features.eigenvalues_, Z)
    return Finding(problem, setting, errors)


def rounding(problem: Problem, setting: Setting, truth: tuple[Any, Any]) -> Error:
    """What changes in the truth if every kernel value is off by half of its last digit, one way or the other."""
    signs = np.random.default_rng(0).choice([-1, 1], size=problem.K.shape)
    off = problem.K * (np.finfo(float).eps / 2) * np.triu(signs + 0.0)
    off += np.triu(off, 1).T
    moved = textbook.centered(exactly(problem.K) + exactly(off))
    return Error.from_truth(truth, *truth_of(problem, setting, len(truth[0]), moved))


def rows() -> Iterator[Row]:
    warnings.simplefilter("ignore", category=RuntimeWarning)  # of eigenvalues that the textbook's rounding made zero
    with mpmath.workdps(DIGITS):
        found, todo = [], [(problem, setting) for problem in problems() for setting in settings()]
        for i, (problem, setting) in enumerate(todo, start=1):
            found.append(audited(problem, setting))
            if i % 20 == 0 or i == len(todo):
                print(f"\r{i} of {len(todo)} settings", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        draw(found)
        for method in METHODS:
            own = [one for one in found if one.setting.method == method]
            yield digits_row(f"{method}: correct digits of eigenvalues", own, "value")
            yield digits_row(f"{method}: correct digits of the subspace", own, "angle")
        for way in ("by Cholesky", "explicit features"):
            yield digits_row(f"{way[0].upper()}{way[1:]}: correct digits, where it is used", found, "largest", way)
        yield from beyond()


def digits(error: float) -> float:
    return float(np.log10(1 / max(error, np.finfo(float).eps / 2)))


def digits_row(claim: str, found: list[Finding], part: str, way: str = "ours") -> Row:
    """The fewest digits of all settings, and what a textbook has left of them."""
    own = [one for one in found if way in one.errors]
    worst = max(own, key=lambda one: getattr(one.errors[way], part))
    textbooks = [digits(getattr(one.errors["textbook"], part)) for one in own]
    below = sum(kept < CLAIM for kept in textbooks)
    told = f"fewest of {len(own)} settings: {worst}; textbook eigh: {min(textbooks):.1f}, below {CLAIM} in {below}"
    return Row(claim, digits(getattr(worst.errors[way], part)), CLAIM, False, told)


def beyond() -> Iterator[Row]:
    """Kernels so wide and ridges so small that digits go: as many as rounding of the kernel values takes by itself."""
    worst, told = -np.inf, []
    for factor in (1e-2, 1e-4, 1e-6):
        problem = rbf_problem(factor)
        for ridge in (1e-12, 1e-16, 1e-20):
            setting = Setting("CIDG", "conditional_weight", 1e8, ridge)
            error = audited(problem, setting).errors["ours"]
            floor = rounding(problem, setting, truth_of(problem, setting, 2))
            worst = max(worst, digits(floor.largest) - digits(error.largest))
            told.append(f"{problem.name}, ridge {ridge:g}: {digits(error.largest):.1f} ({digits(floor.largest):.1f})")
    claim = "CIDG beyond that: digits lost that rounding K alone would keep"
    yield Row(claim, worst, 1, True, f"weight 1e8; digits left (and after one rounding of K): {'; '.join(told)}")


def draw(found: list[Finding]) -> None:
    """Largest error of each parameter's sweep, ours and the textbook's: one panel for each method."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    colors = dict(zip(["ridge", *range(3)], ["#1b6ca8", "#c8553d", "#3a7d44", "#8a4f9e"], strict=True))
    figure, axes = plt.subplots(2, 3, figsize=(10, 6), sharex=True, sharey=True, layout="constrained")
    for ax, (method, (power, starts)) in zip(axes.flat, METHODS.items(), strict=True):
        unit = "|K|²" if power == 2 else "|K|"
        for i, (parameter, start) in enumerate({"ridge": 1e-12, **starts}.items()):
            own = [one for one in found if (one.setting.method, one.setting.moved) == (method, parameter)]
            values = sorted({one.setting.value for one in own})
            x, color = np.log10(np.array(values) / start), colors["ridge" if i == 0 else i - 1]
            name = f"ridge, from 1e-12 {unit}" if i == 0 else f"{parameter}, from {start:g}"
            for way, style in {"ours": "-o", "textbook": ":"}.items():
                y = [max(one.errors[way].largest for one in own if one.setting.value == value) for value in values]
                label = name if way == "ours" else None
                ax.semilogy(x, np.maximum(y, 1e-16), style, color=color, ms=3, lw=1.5, label=label)
        ax.axhline(10.0**-CLAIM, color="#777777", lw=0.8)
        ax.set_title(method, loc="left", fontweight="bold")
        ax.legend(fontsize=7.5, loc="upper left", frameon=False)
        ax.set(xticks=range(0, ORDERS + 1, 3), ylim=(3e-17, 1e9), yticks=10.0 ** np.arange(-16, 1, 4))
    figure.supxlabel("orders of magnitude above the smallest value", fontsize=10)
    figure.supylabel("largest relative error against 50 digits", fontsize=10)
    figure.suptitle("Solid: this package.  Dotted: scipy.linalg.eigh in double precision.", fontsize=10)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110, facecolor="white", metadata={"Software": None})
    plt.close(figure)
