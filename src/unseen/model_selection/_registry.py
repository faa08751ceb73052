"""The table of methods: one line each, and the only list of them.

Comparisons, searches, fits and the command read this table and nothing else. A method is what stands before a
classifier, the classifier, and the settings to choose from; :func:`register` adds one. Those that a user hands over
beside them become methods here, too, and nowhere else.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.decomposition import KernelPCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import ParameterGrid
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KernelCenterer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from ..estimators import CIDG, DICA, KFDA, MDA, SCA, DomainCenterer, Projection, UndoBias
from ..utils.validation import format_list
from ._candidate import Candidate, Sharing, consumes_domains, is_transductive

Kind = Literal["plain", "reference", "invariant", "auto"]
Grid = Mapping[str, Sequence[Any]]

# Multiples of the data's own scales. Costs go from most to least regularized: of equals the first is chosen.
WIDTHS = ("0.01*median", "0.1*median", "median")
RIDGES = ("1e-4*scale", "1e-2*scale", "scale", "1e2*scale")
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
EXTREMES = (WIDTHS[0], RIDGES[0])  # what lean grids leave out: the widest kernel and the smallest ridge
ENSEMBLE_GRID: Grid = {"gamma": WIDTHS[1:], "ridge": RIDGES[1:]}
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
    coarse : dict or list of dict, default=None
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
    effort : float, default=1.0
        What a fit costs beside one of logistic regression, roughly: for estimates of time.
    about : str
        What it is, in a few words.
    own : bool, default=False
        Whether it is a user's: whatever its estimators raise is then why it has no score, and no fault of this package.

    Examples
    --------
    >>> from unseen.model_selection import METHODS
    >>> METHODS["CIDG"].kind, METHODS["logistic"].kind
    ('invariant', 'plain')
    """

    name: str
    kind: Kind
    classifier: Any = None
    transformer: Any = None
    grid: Grid | Sequence[Grid] = field(default_factory=dict)
    coarse: Grid | Sequence[Grid] | None = None
    components: Sequence[int] = ()
    shares: Sharing = "nothing"
    most_rows: int | None = None
    too_large: str = ""
    compared: bool = True
    automatic: bool = False
    types: tuple[type, ...] = ()
    needs_map: bool = False
    effort: float = 1.0
    about: str = ""
    own: bool = False

    @property
    def transductive(self) -> bool:
        """Whether its predictions always depend on the other samples of their domain."""
        return is_transductive(self.transformer) or is_transductive(self.classifier)

    @property
    def members(self) -> list[str]:
        """Methods it chooses among: coarse settings, every head and, unless targets are taboo, both centrings."""
        return method_names(automatic=True) if self.kind == "auto" else []

    @property
    def is_projection(self) -> bool:
        """Whether components are learned, and a head stands behind them."""
        return isinstance(self.transformer, Projection)

    def settings(
        self, n_classes: int, *, coarse: bool = False, lean: bool = False, quick: bool = False
    ) -> list[dict[str, Any]]:
        """All settings to choose from; `quick` leaves two: of each parameter of a projection, and of all others."""
        projects = self.is_projection
        grids = self.coarse if coarse and self.coarse is not None else self.grid
        found = []
        for grid in [grids] if isinstance(grids, Mapping) else grids:
            full = {name: list(values) for name, values in grid.items()}
            if lean:
                few = {name: [v for v in values if v not in EXTREMES] for name, values in full.items()}
                full = {name: few[name] if len(few[name]) > 1 else values for name, values in full.items()}
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
        lean: bool = False,
        quick: bool = False,
        heads: Iterable[str] = ("1-NN",),
        centerings: Iterable[str] = ("source",),
    ) -> Iterator[Candidate]:
        """One candidate for each setting; of a projection, for each head and centering too."""
        if self.needs_map and self.transformer is None:
            raise ValueError(f"{self.name!r} needs a feature map: UnseenClassifier([{self.name!r}], feature_map=...).")
        if self.members:  # a target may be looked at, but need not be
            both: Any = ("source", "target") if "target" in centerings else ("source",)
            how: dict[str, Any] = {"coarse": True, "quick": quick, "heads": ["logistic"], "centerings": both}
            yield from (
                candidate
                for name in self.members
                for candidate in METHODS[name].candidates(n_classes, **how)
                if "target" in both or not candidate.transductive
            )
        for setting in [] if self.members else self.settings(n_classes, coarse=coarse, lean=lean, quick=quick):
            if not self.is_projection:
                transformer, classifier = (
                    _set_known_params(self.transformer, setting),
                    _set_known_params(self.classifier, setting),
                )
                told = {name: _plain_value(value) for name, value in setting.items()} if self.own else setting
                parts = (transformer, classifier, "", self.shares)
                yield Candidate(self.name, told, *parts, plain=self.kind == "plain", own=self.own)
                continue
            for centering in centerings:
                projection = clone(self.transformer).set_params(centering=centering, **setting)
                for head in heads:
                    parts = (projection, HEADS[head], head, self.shares)
                    yield Candidate(self.name, setting, *parts, plain=False, own=self.own)


def _set_known_params(estimator: Any, setting: Mapping[str, Any]) -> Any:
    """A copy with those settings that are its own."""
    if estimator is None:
        return None
    known = estimator.get_params()
    own = {name: value for name, value in setting.items() if name in known}
    return clone(estimator).set_params(**own) if own else estimator


def _plain_value(value: Any) -> Any:
    """A setting as files of results have it; an estimator, say, is told by its words."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (bool, float, int, str, type(None))) else repr(value)


def _projection(projection: Projection, grid: Grid, coarse: Grid | list[Grid], about: str, **more: Any) -> Method:
    return Method(
        type(projection).__name__,
        more.pop("kind", "invariant"),
        transformer=projection,
        grid={"gamma": WIDTHS, **grid},
        coarse=[{**ENSEMBLE_GRID, **few} for few in (coarse if isinstance(coarse, list) else [coarse])],
        shares="decomposition",
        about=about,
        **more,
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
    >>> from unseen.model_selection import METHODS, Method, register
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
    Method("1NN", "plain", _ONE_NN, about="the class of the nearest sample"),
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
        about="kernel principal components, then 1NN",
    ),
    # KFDA is CIDG without the domain labels: it tells what centering alone does.
    _projection(
        KFDA(),
        {"ridge": RIDGES},
        {},
        "kernel discriminants: CIDG without its invariance terms",
        kind="reference",
    ),
    _projection(DICA(), {"ridge": RIDGES}, {}, "components whose mean differs little between domains"),
    Method(
        "Undo-Bias",
        "invariant",
        UndoBias(tol=1e-2),
        grid=[{"shared_cost": [c], "domain_cost": [c], "offset_penalty": (1.0, 10.0)} for c in (1e-4, 1e-3)],
        most_rows=8_000,
        too_large="copies every sample for every domain; --max-per-domain makes it possible",
        about="a linear SVM with shared weights and an offset for each domain",
    ),
    _projection(
        SCA(),
        {"ridge": RIDGES[::2], "between_weight": (0.5, 0.9), "domain_weight": ("scale", "1e2*scale")},
        {"domain_weight": ("scale", "1e2*scale")},
        "scatter component analysis: classes apart, domains together",
        components=(1, 2),
    ),
    _projection(
        CIDG(),
        {
            "ridge": RIDGES,
            "conditional_weight": (0.0, "scale", "1e2*scale", "1e4*scale"),
            "prior_weight": (0.0, "scale", "1e2*scale"),
        },
        [{"ridge": RIDGES[1:3], "conditional_weight": [w], "prior_weight": [w]} for w in (0.0, "scale", "1e2*scale")],
        "conditional invariance: each class alike in all domains",
        automatic=True,  # the other projections would take as long as all that is automatic now
    ),
    _projection(
        MDA(),
        {"ridge": RIDGES, "conditional_weight": (0.0, 1.0, 1e2, 1e4), "within_weight": (1.0, 1e2)},
        {"conditional_weight": (1.0, 1e2)},
        "multidomain discriminants: conditional invariance and narrow classes",
    ),
    Method("logistic", "plain", _LOGISTIC, grid=_COSTS, automatic=True, about="logistic regression"),
    Method(
        "linear SVM",
        "plain",
        _LINEAR_SVM,
        grid=_COSTS,
        coarse={"C": COSTS[:3]},  # larger ones take longer than all else, and rbf SVMs have them
        automatic=True,
        about="a linear support vector machine",
        effort=3.0,
    ),
    Method(
        "RBF SVM",
        "plain",
        SVC(break_ties=True, random_state=0),  # ties as in a pool; without a state it draws a seed from NumPy's own
        grid=_SVM_GRID,
        shares="kernel matrix",
        automatic=True,
        about="a support vector machine with curved boundaries",
    ),
    # Model files hold neither kind of trees: compiled code follows their branches without asking where these lead.
    Method(
        "extra trees",
        "plain",
        ExtraTreesClassifier(random_state=0),
        grid={"min_samples_leaf": (5, 1)},
        about="the mean of 100 trees with random splits",
        effort=5.0,
    ),
    # Few small trees and no choice: each class has trees of its own, and twice as many settings would cost more than
    # all other methods together.
    Method(
        "gradient boosting",
        "plain",
        HistGradientBoostingClassifier(
            learning_rate=0.2, max_iter=50, max_leaf_nodes=8, max_bins=64, early_stopping=False, random_state=0
        ),
        about="trees that correct each other one by one",
        effort=15.0,
    ),
    Method(
        "majority",
        "plain",
        DummyClassifier(strategy="most_frequent"),
        types=(DummyClassifier,),
        about="the most frequent class, whatever the sample: what any method must beat",
    ),
    Method("nearest mean", "plain", NearestCentroid(), types=(NearestCentroid,), about="the class of the nearest mean"),
):
    register(_method)
# The same behind a DomainCenterer: the simplest look at the new domain.
for _name in ("logistic", "linear SVM", "RBF SVM"):
    _about = f"{METHODS[_name].about}, each domain centered on its own mean"
    _behind = DomainCenterer(renormalize="auto")
    _centered: dict[str, Any] = {"kind": "reference", "transformer": _behind, "compared": False}
    register(replace(METHODS[_name], name=f"centered {_name}", about=_about, **_centered))
# Behind a feature map a plain classifier with curved boundaries stands beside the projections, as the RBF SVM does
# beside kernels: otherwise invariance would be praised for what the map alone does.
MAPPED_RIDGE = "mapped ridge"
register(
    Method(
        MAPPED_RIDGE,
        "plain",
        RidgeClassifier(),
        grid={"alpha": (1e4, 1e2, 1.0, 1e-2)},
        compared=False,
        needs_map=True,
        about="ridge classification behind the feature map of UnseenClassifier",
    )
)

# What `fit` delivers, as one more contestant.
register(
    Method(
        "auto",
        "auto",
        shares="decomposition",
        about="what UnseenClassifier, and with it fit, would choose",
    )
)


def get_method(name: str) -> Method:
    """The method of a name, however it is spelled; a spelling of earlier versions is understood, with a hint."""
    if name in METHODS:
        return METHODS[name]
    alike = {_normalize_name(known): known for known in METHODS}
    known = alike.get(_normalize_name(name))
    if known is None:
        raise ValueError(f"There is no method {name!r}; there are {', '.join(METHODS)}.")
    if known.lower() != name.lower():
        warnings.warn(f"{name!r} is called {known!r} now.", FutureWarning, stacklevel=3)
    return METHODS[known]


def _normalize_name(name: str) -> str:
    """What earlier spellings have in common: ``linear_svm``, ``linear-svm``, ``centered_logistic``."""
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("centered", "centered"))


RESERVED = ("auto", "help")  # what else may be asked for in the place of a name


def parse_methods(items: Iterable[Any]) -> list[Method]:
    """Methods by their names, or of a user's own, in the order in which they come.

    Parameters
    ----------
    items : iterable
        Each a name in `METHODS`; a pair of a name and a classifier; the same with a grid of its parameters, as
        GridSearchCV takes it, to choose from on held-out domains; or a `Method`.

    Returns
    -------
    methods : list of Method
        Of different names.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from unseen.model_selection import parse_methods
    >>> found = parse_methods(["logistic", ("Bayes", GaussianNB(), {"var_smoothing": [1e-9, 1e-3]})])
    >>> [(method.name, method.kind, len(method.settings(2))) for method in found]
    [('logistic', 'plain', 5), ('Bayes', 'plain', 2)]
    """
    found: dict[str, Method] = {}
    items = list(items)
    for item in items:
        method = _mark_as_own(item) if isinstance(item, Method) else get_method(item) if isinstance(item, str) else None
        if method is None:
            if not isinstance(item, (tuple, list)) or len(item) not in (2, 3) or not isinstance(item[0], str):
                raise ValueError(
                    f"methods must be names among {', '.join(METHODS)}; pairs such as ('mine', SVC()); triples such as "
                    f"('mine', SVC(), {{'C': [1, 10]}}); or objects of unseen.model_selection.Method; got {items!r}."
                )
            method = _make_own_method(*item)
        if found.setdefault(method.name, method) is not method:
            raise ValueError(f"Two methods are called {method.name!r}: give one of them another name.")
    return list(found.values())


def expand_methods(methods: Iterable[Method]) -> list[Method]:
    """The same with those that choose among others replaced by these; each once."""
    parts = ([METHODS[name] for name in method.members] or [method] for method in methods)
    return list(dict.fromkeys(chain.from_iterable(parts)))


def _mark_as_own(method: Method) -> Method:
    """The same, known to be a user's unless it is in the table."""
    if METHODS.get(method.name) is method:
        return method
    if not method.is_projection:
        _check_classifier(method.name, method.classifier)
    return replace(method, own=True)


def _make_own_method(name: str, classifier: Any, grid: Any = None) -> Method:
    """A method from a user's classifier; it is invariant if it wants to know the domains."""
    taken = next(
        (known for known in (*METHODS, *RESERVED) if _normalize_name(known) == _normalize_name(name) or known == name),
        None,
    )
    if taken is not None or not name.strip():
        raise ValueError(f"{name!r} cannot be the name of a method of your own: {taken or 'it'} means something else.")
    _check_classifier(name, classifier)
    grid = {} if grid is None else grid
    _check_grid(name, classifier, grid)
    kind: Kind = "invariant" if consumes_domains(classifier) else "plain"
    return Method(name, kind, classifier, grid=grid, about=f"your own: {type(classifier).__name__}", own=True)


def _check_classifier(name: str, classifier: Any) -> None:
    """Raise unless scikit-learn would take it for a classifier that it can copy."""
    able = all(hasattr(classifier, part) for part in ("fit", "predict", "get_params", "__sklearn_tags__"))
    if isinstance(classifier, type):
        raise TypeError(
            f"{name!r} stands for the class {classifier.__name__}; pass {classifier.__name__}(...) instead."
        )
    if not able or not is_classifier(classifier):
        raise TypeError(
            f"{name!r} is no classifier: got {classifier!r}. Pass a classifier of scikit-learn, a Pipeline that ends "
            "in one, or an object of your own class(ClassifierMixin, BaseEstimator) with fit and predict."
        )


def _check_grid(name: str, classifier: Any, grid: Any) -> None:
    """Raise unless a grid names parameters of the classifier, with values for each."""
    try:
        asked = {parameter for setting in ParameterGrid(grid) for parameter in setting}
    except (TypeError, ValueError) as error:
        raise ValueError(f"The settings of {name!r} are no grid as GridSearchCV takes it: {error}") from error
    known = classifier.get_params()
    unknown = sorted(asked - known.keys())
    if unknown:
        raise ValueError(
            f"{name!r} has no parameter {format_list(unknown)}; it has {format_list(known, max_items=40, quote=False)}."
        )
