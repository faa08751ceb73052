"""The table of methods: one line each, and the only list of them.

Comparisons, searches, fits and the command read this table and nothing else. A method is what stands before a
classifier, the classifier, and the settings to choose from; :func:`register` adds one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import ParameterGrid
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KernelCenterer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from ..estimators import CIDG, DICA, KFDA, MDA, SCA, DomainCenterer, Projection, UndoBias
from ._candidate import Candidate, Sharing

Kind = Literal["plain", "reference", "invariant", "auto"]
Grid = Mapping[str, Sequence[Any]]

# Grids are multiples of the data's own scales, so that they fit any sample size, fold and kernel. Costs go from
# most to least regularised: of equals the first is chosen.
WIDTHS = ("0.01*median", "0.1*median", "median")
RIDGES = ("1e-4*scale", "1e-2*scale", "scale", "1e2*scale")
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
AMONG_MANY: Grid = {"gamma": WIDTHS[1:], "ridge": RIDGES[1:]}
HEADS: dict[str, Any] = {
    "1-NN": KNeighborsClassifier(n_neighbors=1, algorithm="brute"),  # trees are not trusted in model files
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, solver="newton-cg")),
}


@dataclass(frozen=True, eq=False)
class Method:
    """A method, and all that comparisons need to know about it.

    Parameters
    ----------
    name : str
        What it is called everywhere.
    kind : {"plain", "reference", "invariant", "auto"}
        Whether it uses the domain labels; a reference tells what a part of the invariant methods does alone, and "auto"
        chooses among the others.
    classifier : estimator, default=None
        What classifies; None for a projection, which takes the heads that are asked for.
    transformer : estimator, default=None
        What stands before the classifier.
    grid : dict or list of dict
        Settings to choose from, of the transformer or of the classifier.
    coarse : dict, default=None
        Fewer settings, for a choice among many methods; None means the grid.
    components : sequence of int
        Numbers of components to choose from, in multiples of the number of classes less one.
    shares : {"nothing", "decomposition", "kernel matrix"}
        What settings of this method have in common.
    most_rows : int, default=None
        Samples of training data up to which it runs; `too_large` says why.
    compared, automatic : bool
        Whether `unseen.compare` and `UnseenClassifier` take it unless they are told which to take.
    types : tuple of type
        Types of its parts that model files would not hold otherwise.
    needs_map : bool, default=False
        Whether it is nothing without a feature map before it.
    members : tuple of str
        Methods it chooses among, as `UnseenClassifier` does: by their coarse settings, under every head and, unless new
        domains are not to be looked at, under both centrings.

    Examples
    --------
    >>> from unseen.selection import METHODS
    >>> METHODS["CIDG"].kind, METHODS["logistic"].kind
    ('invariant', 'plain')
    """

    name: str
    kind: Kind
    classifier: Any = None
    transformer: Any = None
    grid: Grid | Sequence[Grid] = field(default_factory=dict)
    coarse: Grid | None = None
    components: Sequence[int] = ()
    shares: Sharing = "nothing"
    most_rows: int | None = None
    too_large: str = ""
    compared: bool = True
    automatic: bool = False
    types: tuple[type, ...] = ()
    needs_map: bool = False
    members: tuple[str, ...] = ()

    @property
    def is_projection(self) -> bool:
        """Whether components are learned, and a head stands behind them."""
        return isinstance(self.transformer, Projection)

    def settings(self, n_classes: int, *, coarse: bool = False, quick: bool = False) -> list[dict[str, Any]]:
        """All settings to choose from; `quick` leaves two: of each parameter of a projection, and of all others."""
        projects = self.is_projection
        grids = self.coarse if coarse and self.coarse is not None else self.grid
        found = []
        for grid in [grids] if isinstance(grids, Mapping) else grids:
            full = {name: list(values) for name, values in grid.items()}
            if projects and (self.transformer.feature_map is not None or self.transformer.kernel != "rbf"):
                full.pop("gamma", None)  # nothing to choose
            if self.components:
                # Components past the first n_classes - 1 have small eigenvalues, whose inverse square roots make them
                # dominate distances: whether they help is a question for the data.
                full["n_components"] = [multiple * (n_classes - 1) for multiple in self.components]
            found += ParameterGrid({name: values[-2:] for name, values in full.items()} if quick and projects else full)
        return found[:: max(1, len(found) - 1)] if quick and not projects else found

    def candidates(
        self,
        n_classes: int,
        *,
        coarse: bool = False,
        quick: bool = False,
        heads: Iterable[str] = ("1-NN",),
        centerings: Iterable[str] = ("source",),
    ) -> Iterator[Candidate]:
        """One candidate for each setting; of a projection, for each head and centring too."""
        if self.needs_map and self.transformer is None:
            raise ValueError(f"{self.name!r} needs a feature map: UnseenClassifier([{self.name!r}], feature_map=...).")
        if self.members:  # a target may be looked at, but need not be
            both: Any = ("source", "target") if "target" in centerings else ("source",)
            how: dict[str, Any] = {"coarse": True, "quick": quick, "heads": HEADS, "centerings": both}
            yield from (
                candidate
                for name in self.members
                for candidate in METHODS[name].candidates(n_classes, **how)
                if "target" in both or not candidate.transductive
            )
        for setting in [] if self.members else self.settings(n_classes, coarse=coarse, quick=quick):
            if not self.is_projection:
                parts = (_with(self.transformer, setting), _with(self.classifier, setting))
                yield Candidate(self.name, setting, *parts, shares=self.shares, plain=self.kind == "plain")
                continue
            for centering in centerings:
                projection = clone(self.transformer).set_params(centering=centering, **setting)
                for head in heads:
                    yield Candidate(
                        self.name, setting, projection, HEADS[head], head=head, shares=self.shares, plain=False
                    )


def _with(estimator: Any, setting: Mapping[str, Any]) -> Any:
    """A copy with those settings that are its own."""
    if estimator is None:
        return None
    known = estimator.get_params()
    own = {name: value for name, value in setting.items() if name in known}
    return clone(estimator).set_params(**own) if own else estimator


def _projection(projection: Projection, grid: Grid, coarse: Grid | None, **about: Any) -> Method:
    return Method(
        type(projection).__name__,
        about.pop("kind", "invariant"),
        transformer=projection,
        grid={"gamma": WIDTHS, **grid},
        coarse=None if coarse is None else {**AMONG_MANY, **coarse},
        shares="decomposition",
        automatic=coarse is not None,
        **about,
    )


METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Add a method to the table, or replace the one of its name.

    Parameters
    ----------
    method : Method
        What to add.

    Returns
    -------
    method : Method
        The same.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from unseen.selection import METHODS, Method, register
    >>> register(Method("naive Bayes", "plain", GaussianNB())).name
    'naive Bayes'
    >>> del METHODS["naive Bayes"]
    """
    METHODS[method.name] = method
    return method


def method_names(**like: Any) -> list[str]:
    """Names of the methods that are like this, such as ``kind="plain"``, in the order of the table."""
    return [name for name, method in METHODS.items() if all(getattr(method, k) == v for k, v in like.items())]


_ONE_NN = HEADS["1-NN"]
_LOGISTIC = LogisticRegression(max_iter=2000, solver="newton-cg")
_LINEAR_SVM = LinearSVC(random_state=0)  # costs at which it ends early are judged by their scores like all others
_SVM_GRID: Grid = {"C": (1.0, 10.0, 100.0), "gamma": WIDTHS[1:]}
_COSTS: Grid = {"C": COSTS}

for _method in (
    Method("1NN", "plain", _ONE_NN),
    Method(
        "KPCA",
        "plain",
        _ONE_NN,
        KernelPCA(kernel="rbf", eigen_solver="dense"),
        grid={"gamma": WIDTHS, "n_components": (10, 30, 100)},
        shares="decomposition",
        most_rows=8_000,
        too_large="decomposes the whole kernel matrix, which does not fit; --max-per-domain makes it possible",
        types=(KernelPCA, KernelCenterer),
    ),
    # KFDA is CIDG without the domain labels: it tells what centring alone does.
    _projection(KFDA(), {"ridge": RIDGES}, None, kind="reference"),
    _projection(DICA(), {"ridge": RIDGES}, {}),
    Method(
        "Undo-Bias",
        "invariant",
        UndoBias(tol=1e-2),
        grid=[{"shared_cost": [c], "domain_cost": [c], "offset_penalty": (1.0, 10.0)} for c in (1e-4, 1e-3)],
        most_rows=8_000,
        too_large="copies every sample for every domain; --max-per-domain makes it possible",
    ),
    _projection(
        SCA(),
        {"ridge": RIDGES[::2], "between_weight": (0.5, 0.9), "domain_weight": ("scale", "1e2*scale")},
        {"domain_weight": ("scale", "1e2*scale")},
        components=(1, 2),
    ),
    _projection(
        CIDG(),
        {
            "ridge": RIDGES,
            "conditional_weight": (0.0, "scale", "1e2*scale", "1e4*scale"),
            "prior_weight": (0.0, "scale", "1e2*scale"),
        },
        {"conditional_weight": ("scale", "1e2*scale"), "prior_weight": (0.0, "scale")},
    ),
    _projection(
        MDA(),
        {"ridge": RIDGES, "conditional_weight": (0.0, 1.0, 1e2, 1e4), "within_weight": (1.0, 1e2)},
        {"conditional_weight": (1.0, 1e2)},
    ),
    Method("logistic", "plain", _LOGISTIC, grid=_COSTS, automatic=True),
    Method("linear SVM", "plain", _LINEAR_SVM, grid=_COSTS, automatic=True),
    Method("RBF SVM", "plain", SVC(), grid=_SVM_GRID, shares="kernel matrix", automatic=True),
):
    register(_method)
# The same behind a DomainCenterer: the simplest look at the new domain.
for _name in ("logistic", "linear SVM", "RBF SVM"):
    register(
        replace(METHODS[_name], name=f"centred {_name}", kind="reference", transformer=DomainCenterer(), compared=False)
    )
# Behind a feature map a plain classifier with curved boundaries stands beside the projections, as the RBF SVM does
# beside kernels: otherwise invariance would be praised for what the map alone does.
MAPPED = "mapped ridge"
register(
    Method(MAPPED, "plain", RidgeClassifier(), grid={"alpha": (1e4, 1e2, 1.0, 1e-2)}, compared=False, needs_map=True)
)

# What `fit` delivers, as one more contestant.
register(Method("auto", "auto", members=tuple(method_names(automatic=True)), shares="decomposition"))


def method_named(name: str) -> Method:
    """The method of a name, however it is spelled; a spelling of earlier versions is understood, with a hint."""
    if name in METHODS:
        return METHODS[name]
    alike = {_bare(known): known for known in METHODS}
    known = alike.get(_bare(name))
    if known is None:
        raise ValueError(f"There is no method {name!r}; there are {', '.join(METHODS)}.")
    if known.lower() != name.lower():
        warnings.warn(f"{name!r} is called {known!r} now.", FutureWarning, stacklevel=3)
    return METHODS[known]


def _bare(name: str) -> str:
    """What earlier spellings have in common: ``linear_svm``, ``linear-svm``, ``centered_logistic``."""
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("centered", "centred"))
