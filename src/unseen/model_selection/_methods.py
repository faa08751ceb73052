"""The registry of methods.

Comparisons, searches, fits and the command line read the methods from this registry. A method is an optional
transformer, a classifier, and the settings to select from; :func:`register` adds one. Classifiers of users become
methods in :func:`parse_methods`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.decomposition import KernelPCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import ParameterGrid
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KernelCenterer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from ..estimators import (
    CIDG,
    DICA,
    KFDA,
    MDA,
    SCA,
    DomainCenterer,
    DomainHarmonizer,
    MarginalTransferClassifier,
    Projection,
    UndoBias,
)
from ._candidate import (
    Candidate,
    Features,
    Sharing,
    consumes_domains,
    full_repr,
    hash_source,
    is_transductive,
)

Kind = Literal["plain", "reference", "invariant", "auto"]
Grid = Mapping[str, Sequence[Any]]
GridName = Literal["full", "ensemble"]

# Multiples of scales of the data. Costs start with the strongest regularization, since the first of equal settings is
# selected.
WIDTHS = ("0.01*median", "0.1*median", "median")
RIDGES = ("1e-4*scale", "1e-2*scale", "scale", "1e2*scale")
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
# Limits of the members of ensembles, with which their cost grows in proportion to the number of samples. Beyond the
# first, kernel machines are fitted to a subsample; beyond the second, projections use landmarks.
ENSEMBLE_TRAIN_ROWS = 2_000
ENSEMBLE_EXACT_ROWS = 1_000
# Boosting is left out where its estimated work would take longer than all other members together, as for images.
N_BOOSTED_TREES = 50
MAX_BOOSTING_WORK = 1.5e8  # half a second on one core
HISTOGRAM_ROWS = 3_500  # the histograms of a feature take as long as so many rows
MAX_COUNTED_ROWS = 2_500  # with more rows, the other members take longer as well
ENSEMBLE_GRID: Grid = {"gamma": WIDTHS[1:], "ridge": RIDGES[1:3]}
HEADS: dict[str, Any] = {
    "1-NN": KNeighborsClassifier(n_neighbors=1, algorithm="brute"),  # model files do not store trees
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, solver="newton-cg")),
}


@dataclass(frozen=True)
class TableSize:
    """Shape of the features and number of classes, by which slow members of the automatic ensemble are left out."""

    shape: tuple[int, ...]
    n_classes: int


@dataclass(frozen=True, eq=False)
class Method:
    """A method of classification, with the settings to select from.

    Parameters
    ----------
    name : str
        Name of the method.
    kind : {"plain", "reference", "invariant", "auto"}
        Whether it uses the domain labels. A reference shows the effect of one part of the invariant methods; "auto"
        selects among the other methods.
    classifier : estimator, default=None
        The classifier; None for a projection, which is combined with the classifiers in `HEADS`.
    transformer : estimator, default=None
        The transformer before the classifier.
    grid : dict or list of dict
        Settings of the transformer or of the classifier to select from.
    ensemble_grid : dict or list of dict, default=None
        A smaller grid, used when the method is one of several in an ensemble; None means `grid`.
    component_multiples : sequence of int
        Numbers of components to select from, in multiples of the number of classes less one.
    shares : {"nothing", "decomposition", "kernel matrix"}
        Computations that settings of this method have in common.
    features : {"prepared", "raw"}
        Whether it is fitted to prepared features or to the columns of a table: see `TablePreparation`.
    max_rows : int, default=None
        Largest number of training samples; None means no limit.
    max_rows_reason : str
        Why there is a limit, and what to do about it.
    in_comparison : bool, default=True
        Whether `unseen.compare` includes it by default.
    in_ensemble : bool, default=False
        Whether it is a member of the automatic ensemble of `UnseenClassifier`.
    allows_transductive : bool, default=False
        Whether an automatic ensemble may have transductive members, which an acceptance test decides.
    trusted_types : tuple of type
        Types of its estimators that model files may contain in addition to those of all methods.
    needs_feature_map : bool, default=False
        Whether it can be used only after a feature map.
    description : str
        A short description.
    own : bool, default=False
        Whether the user provided it: any exception that its estimators raise is then reported as its result.
    source : str
        Digest of the user's code that its estimators run, which is part of the keys of stored results.
    stored_members : tuple of Method
        Members that another process may not have registered; empty before the method is sent to one.

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
    ensemble_grid: Grid | Sequence[Grid] | None = None
    component_multiples: Sequence[int] = ()
    shares: Sharing = "nothing"
    features: Features = "prepared"
    max_rows: int | None = None
    max_rows_reason: str = ""
    in_comparison: bool = True
    in_ensemble: bool = False
    allows_transductive: bool = False
    trusted_types: tuple[type, ...] = ()
    needs_feature_map: bool = False
    description: str = ""
    own: bool = False
    source: str = ""
    stored_members: tuple[Method, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Attributes, with the members: a process that loads them may have registered other methods."""
        return {**vars(self), "stored_members": self.members}

    @property
    def transductive(self) -> bool:
        """Whether its predictions always depend on the other samples of their domain."""
        return is_transductive(self.transformer) or is_transductive(self.classifier)

    @property
    def members(self) -> tuple[Method, ...]:
        """The methods that it selects among; empty unless its kind is "auto"."""
        if self.kind != "auto":
            return ()
        return self.stored_members or tuple(method for method in METHODS.values() if method.in_ensemble)

    @property
    def is_projection(self) -> bool:
        """Whether it learns components, which a classifier in `HEADS` then classifies."""
        return isinstance(self.transformer, Projection)

    def is_fast_enough(self, size: TableSize | None) -> bool:
        """Whether it may be a member of the automatic ensemble for a table of this size; None is any size.

        The work of boosting is estimated: it fits trees to each of several classes, and each tree takes all features
        and rows.
        """
        if size is None or not isinstance(self.classifier, HistGradientBoostingClassifier):
            return True
        n_rows, n_features = size.shape
        n_trees = N_BOOSTED_TREES * (1 if size.n_classes == 2 else size.n_classes)
        return n_trees * n_features * (min(n_rows, MAX_COUNTED_ROWS) + HISTOGRAM_ROWS) <= MAX_BOOSTING_WORK

    def settings(self, n_classes: int, *, grid: GridName = "full", quick: bool = False) -> list[dict[str, Any]]:
        """List all settings to select from.

        Parameters
        ----------
        n_classes : int
            Number of classes.
        grid : {"full", "ensemble"}, default="full"
            The whole grid, or `ensemble_grid`, which has one number of components only.
        quick : bool, default=False
            Whether to keep only two values of each parameter of a projection, or two settings of another method.

        Returns
        -------
        settings : list of dict
            Parameters and their values.
        """
        grids = self.ensemble_grid if grid == "ensemble" and self.ensemble_grid is not None else self.grid
        settings: list[dict[str, Any]] = []
        for param_grid in [grids] if isinstance(grids, Mapping) else grids:
            values_by_name = {name: list(values) for name, values in param_grid.items()}
            if self.is_projection and (self.transformer.feature_map is not None or self.transformer.kernel != "rbf"):
                values_by_name.pop("gamma", None)  # it has no effect
            if self.component_multiples:
                # Components after the first n_classes - 1 have small eigenvalues, whose inverse square roots make them
                # dominate distances: whether they improve predictions depends on the data.
                multiples = self.component_multiples[:1] if grid == "ensemble" else self.component_multiples
                values_by_name["n_components"] = [multiple * (n_classes - 1) for multiple in multiples]
            if quick and self.is_projection:
                values_by_name = {name: values[-2:] for name, values in values_by_name.items()}
            settings += ParameterGrid(values_by_name)
        if quick and not self.is_projection:
            return settings[:: max(1, len(settings) - 1)]  # the first and the last one
        return settings

    def candidates(
        self,
        n_classes: int,
        *,
        grid: GridName = "full",
        quick: bool = False,
        heads: Iterable[str] = ("1-NN",),
        centerings: Iterable[str] = ("source",),
        size: TableSize | None = None,
    ) -> Iterator[Candidate]:
        """Yield one candidate for each setting and, for a projection, for each head and centering.

        The method "auto" yields the candidates of its members, from their ensemble grids and with logistic heads: with
        both centerings if it allows transductive members or "target" is among `centerings`, otherwise only inductive
        ones.

        Parameters
        ----------
        n_classes : int
            Number of classes.
        grid, quick
            As for `settings`.
        heads : iterable of str
            Names of classifiers in `HEADS`.
        centerings : iterable of {"source", "target"}
            Values of the parameter `centering` of projections.
        size : TableSize, default=None
            Size of the table, for which "auto" omits members that would be slow; None omits none.

        Yields
        ------
        candidate : Candidate
            An unfitted candidate.
        """
        if self.needs_feature_map and self.transformer is None:
            raise ValueError(
                f"The method {self.name!r} needs a feature map. Use UnseenClassifier([{self.name!r}], feature_map=...)."
            )
        if self.members:
            allows_target = self.allows_transductive or "target" in centerings
            member_centerings = ("source", "target") if allows_target else ("source",)
            for member in expand_methods([self], transductive=allows_target, size=size):
                yield from member.candidates(
                    n_classes, grid="ensemble", quick=quick, heads=["logistic"], centerings=member_centerings
                )
            return
        is_limited = grid == "ensemble" and not self.own
        for setting in self.settings(n_classes, grid=grid, quick=quick):
            parts = [(_set_known_params(self.transformer, setting), _set_known_params(self.classifier, setting), "")]
            if self.is_projection:
                parts = [
                    (clone(self.transformer).set_params(centering=centering, **setting), HEADS[head], head)
                    for centering in centerings
                    for head in heads
                ]
            for transformer, classifier, head in parts:
                yield Candidate(
                    self.name,
                    {name: _plain_value(value) for name, value in setting.items()} if self.own else setting,
                    transformer,
                    classifier,
                    head=head,
                    shares=self.shares,
                    plain=self.kind == "plain",
                    own=self.own,
                    source=self.source,
                    features=self.features,
                    max_train_rows=ENSEMBLE_TRAIN_ROWS if is_limited and self.shares == "kernel matrix" else None,
                    max_exact_rows=ENSEMBLE_EXACT_ROWS if is_limited and self.is_projection else None,
                )


def _set_known_params(estimator: Any, setting: Mapping[str, Any]) -> Any:
    """Return a copy with those parameters of a setting that the estimator has, or the estimator if it has none."""
    if estimator is None:
        return None
    known_params = estimator.get_params()
    params = {name: value for name, value in setting.items() if name in known_params}
    return clone(estimator).set_params(**params) if params else estimator


def _plain_value(value: Any) -> Any:
    """Convert the value of a setting for result files: a Python scalar, or the repr of any other object."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (bool, float, int, str, type(None))) else repr(value)


def _projection(
    projection: Projection,
    grid: Grid,
    ensemble_grid: Grid | list[Grid],
    description: str,
    *,
    kind: Kind = "invariant",
    component_multiples: Sequence[int] = (),
    in_ensemble: bool = False,
) -> Method:
    ensemble_grids = ensemble_grid if isinstance(ensemble_grid, list) else [ensemble_grid]
    return Method(
        type(projection).__name__,
        kind,
        transformer=projection,
        grid={"gamma": WIDTHS, **grid},
        ensemble_grid=[{**ENSEMBLE_GRID, **param_grid} for param_grid in ensemble_grids],
        component_multiples=component_multiples,
        shares="decomposition",
        in_ensemble=in_ensemble,
        description=description,
    )


def _forest(forest: Any, name: str, description: str, *, in_comparison: bool = True) -> Method:
    return Method(
        name,
        "plain",
        forest,
        grid={"min_samples_leaf": (5, 1)},
        ensemble_grid={"min_samples_leaf": (5, 1), "n_estimators": (50,)},  # members are averaged again
        features="raw",
        in_comparison=in_comparison,
        in_ensemble=True,
        description=description,
    )


METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Add a method to the registry, or replace the method with the same name.

    Parameters
    ----------
    method : Method
        The method to add.

    Returns
    -------
    method : Method
        The registered method.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from unseen.model_selection import METHODS, Method, register
    >>> register(Method("naive Bayes", "plain", GaussianNB())).name
    'naive Bayes'
    >>> del METHODS["naive Bayes"]
    """
    METHODS[method.name] = _with_source(method)
    return METHODS[method.name]


def _with_source(method: Method) -> Method:
    """Return the method with the digest of its code, unless it has one."""
    if method.source:
        return method
    grids = [*ParameterGrid(method.grid), *ParameterGrid(method.ensemble_grid or {})]
    values = [value for setting in grids for value in setting.values()]
    return replace(method, source=hash_source(method.transformer, method.classifier, *values))


def describe_method(method: Method) -> str:
    """Describe all attributes of a method and of its members, for the keys of stored results."""
    attributes = [(name, full_repr(value)) for name, value in vars(method).items() if name != "stored_members"]
    return repr((attributes, [describe_method(member) for member in method.members]))


def method_names(**attributes: Any) -> list[str]:
    """Names of the methods with the given attributes, such as ``kind="plain"``, in the order of the registry."""
    return [
        name
        for name, method in METHODS.items()
        if all(getattr(method, attribute) == value for attribute, value in attributes.items())
    ]


_ONE_NN = HEADS["1-NN"]
_LOGISTIC = LogisticRegression(max_iter=2000, solver="newton-cg")
_LINEAR_SVM = LinearSVC(
    random_state=0
)  # it may stop before convergence at large costs, which are scored like all others
_SVM_GRID: Grid = {"C": (1.0, 10.0, 100.0), "gamma": WIDTHS[1:]}
_COST_GRID: Grid = {"C": COSTS}

for _method in (
    Method("1-NN", "plain", _ONE_NN, description="the class of the nearest sample"),
    Method(
        "KPCA",
        "plain",
        _ONE_NN,
        KernelPCA(kernel="rbf", eigen_solver="dense"),
        grid={"gamma": WIDTHS, "n_components": (10, 30, 100)},
        shares="decomposition",
        max_rows=8_000,
        max_rows_reason="decomposes the whole kernel matrix, which exceeds the memory; use a smaller max_per_domain",
        trusted_types=(KernelPCA, KernelCenterer),
        description="kernel principal components, then 1-NN",
    ),
    # KFDA is CIDG without the domain labels: it shows the effect of centering alone.
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
        max_rows=8_000,
        max_rows_reason="copies every sample for every domain; use a smaller max_per_domain",
        description="a linear SVM with shared weights and an offset for each domain",
    ),
    _projection(
        SCA(),
        {"ridge": RIDGES[::2], "between_weight": (0.5, 0.9), "domain_weight": ("scale", "1e2*scale")},
        {"domain_weight": ("scale", "1e2*scale")},
        "scatter component analysis: classes apart, domains together",
        component_multiples=(1, 2),
    ),
    _projection(
        CIDG(),
        {
            "ridge": RIDGES,
            "conditional_weight": (0.0, "scale", "1e2*scale", "1e4*scale"),
            "prior_weight": (0.0, "scale", "1e2*scale"),
        },
        [{"conditional_weight": [w], "prior_weight": [w]} for w in (0.0, "scale", "1e2*scale")],
        "conditional invariance: the same distribution of each class in all domains",
        in_ensemble=True,  # each further projection would double the time of the automatic ensemble
    ),
    _projection(
        MDA(),
        {"ridge": RIDGES, "conditional_weight": (0.0, 1.0, 1e2, 1e4), "within_weight": (1.0, 1e2)},
        {"conditional_weight": (1.0, 1e2)},
        "multidomain discriminants: conditional invariance and narrow classes",
    ),
    Method("logistic", "plain", _LOGISTIC, grid=_COST_GRID, in_ensemble=True, description="logistic regression"),
    Method(
        "linear SVM",
        "plain",
        _LINEAR_SVM,
        grid=_COST_GRID,
        ensemble_grid={"C": COSTS[:-1]},  # the largest cost takes more than a quarter of the time of the search
        description="a linear support vector machine",
    ),
    Method(
        "RBF SVM",
        "plain",
        # Ties are broken as in an ensemble. Without random_state, SVC draws a seed from the global state of NumPy.
        SVC(break_ties=True, random_state=0),
        grid=_SVM_GRID,
        ensemble_grid={**_SVM_GRID, "C": _SVM_GRID["C"][:2]},
        shares="kernel matrix",
        in_ensemble=True,
        description="a support vector machine with an RBF kernel",
    ),
    _forest(ExtraTreesClassifier(random_state=0), "extra trees", "the mean of trees with random splits"),
    _forest(
        RandomForestClassifier(random_state=0),
        "random forest",
        "the mean of trees, each fitted to a random sample",
        in_comparison=False,  # it differs little from extra trees
    ),
    # Few, small trees: each class has separate trees, and large ones would take longer than all other methods together.
    Method(
        "gradient boosting",
        "plain",
        HistGradientBoostingClassifier(
            learning_rate=0.2,
            max_iter=N_BOOSTED_TREES,
            max_leaf_nodes=8,
            max_bins=64,
            early_stopping=False,
            random_state=0,
        ),
        ensemble_grid=[
            {"learning_rate": [0.2], "max_leaf_nodes": [4]},
            {"learning_rate": [0.1], "max_leaf_nodes": [16]},
        ],
        features="raw",
        in_ensemble=True,
        description="a sequence of trees, each fitted to the errors of the previous ones",
    ),
    Method(
        "majority",
        "plain",
        DummyClassifier(strategy="most_frequent"),
        trusted_types=(DummyClassifier,),
        description="the most frequent class for every sample, as a baseline",
    ),
    Method(
        "nearest mean",
        "plain",
        NearestCentroid(),
        trusted_types=(NearestCentroid,),
        description="the class of the nearest mean",
    ),
):
    register(_method)
# The same classifiers after a DomainCenterer: the simplest transductive methods.
for _name in ("logistic", "linear SVM", "RBF SVM"):
    register(
        replace(
            METHODS[_name],
            name=f"centered {_name}",
            kind="reference",
            transformer=DomainCenterer(renormalize="auto"),
            in_comparison=False,
            description=f"{METHODS[_name].description}, each domain centered on its mean",
        )
    )
register(
    replace(
        METHODS["logistic"],
        name="harmonized logistic",
        kind="reference",
        transformer=DomainHarmonizer(),
        in_ensemble=False,
        in_comparison=False,
        description="logistic regression after location-scale harmonization (ComBat)",
    )
)
register(
    Method(
        "marginal transfer",
        "invariant",
        MarginalTransferClassifier(),
        grid={"gamma": ("0.1*median", "median"), "C": (1.0, 10.0, 100.0)},
        in_comparison=False,
        max_rows=8_000,
        max_rows_reason="needs the whole kernel matrix of pairs; use a smaller max_per_domain",
        description="a kernel classifier of samples together with the distribution of their domain",
    )
)
# After a feature map, a plain classifier with nonlinear boundaries is compared with the projections, as the RBF SVM is
# with a kernel. Otherwise the effect of the map would be attributed to invariance.
MAPPED_RIDGE = "mapped ridge"
register(
    Method(
        MAPPED_RIDGE,
        "plain",
        RidgeClassifier(),
        grid={"alpha": (1e4, 1e2, 1.0, 1e-2)},
        in_comparison=False,
        needs_feature_map=True,
        description="ridge classification after the feature map of UnseenClassifier",
    )
)

# The automatic ensemble, as one more method in comparisons.
register(
    Method(
        "auto",
        "auto",
        shares="decomposition",
        description="the automatic ensemble of UnseenClassifier and unseen.fit",
    )
)
# The same with transductive=True. `unseen.compare` adds it to its default methods.
AUTO_TRANSDUCTIVE = "auto, transductive"
register(
    replace(
        METHODS["auto"],
        name=AUTO_TRANSDUCTIVE,
        allows_transductive=True,
        in_comparison=False,
        description="the automatic ensemble, which may use batches of the new domain",
    )
)


def get_method(name: str) -> Method:
    """Return the method with a name; capitals do not matter."""
    for registered, method in METHODS.items():
        if registered.lower() == name.strip().lower():
            return method
    raise ValueError(f"There is no method {name!r}; there are {', '.join(METHODS)}.")


RESERVED_NAMES = ("auto", "help")  # these have another meaning in the parameter `methods` or in the command line


def parse_methods(items: Iterable[Any]) -> list[Method]:
    """Convert names and classifiers to methods, in the given order.

    Parameters
    ----------
    items : iterable
        Each item is a name in `METHODS`; a pair of a name and a classifier; a triple with a parameter grid, as for
        GridSearchCV, to select from on held-out domains; or a `Method`.

    Returns
    -------
    methods : list of Method
        Methods with different names.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from unseen.model_selection import parse_methods
    >>> methods = parse_methods(["logistic", ("Bayes", GaussianNB(), {"var_smoothing": [1e-9, 1e-3]})])
    >>> [(method.name, method.kind, len(method.settings(2))) for method in methods]
    [('logistic', 'plain', 5), ('Bayes', 'plain', 2)]
    """
    methods: dict[str, Method] = {}
    items = list(items)
    for item in items:
        if isinstance(item, Method):
            method = _mark_as_own(item)
        elif isinstance(item, str):
            method = get_method(item)
        elif isinstance(item, (tuple, list)) and len(item) in (2, 3) and isinstance(item[0], str):
            method = _make_own_method(*item)
        else:
            raise ValueError(
                f"methods must be names among {', '.join(METHODS)}; pairs such as ('mine', SVC()); triples such as "
                f"('mine', SVC(), {{'C': [1, 10]}}); or objects of unseen.model_selection.Method; got {items!r}."
            )
        if methods.setdefault(method.name, method) is not method:
            raise ValueError(f"Two methods are called {method.name!r}. Use different names.")
    return list(methods.values())


def expand_methods(
    methods: Iterable[Method], *, transductive: bool = True, size: TableSize | None = None
) -> list[Method]:
    """Replace methods that select among others by their members; each method occurs once.

    With ``transductive=False``, transductive members are omitted. A transductive method that is not a member raises
    ValueError, since it was requested by name. Members that are slow for a table of this size are omitted as well; None
    omits none.
    """
    expanded: dict[str, Method] = {}
    for method in methods:
        if method.transductive and not transductive:
            raise ValueError(
                f"The methods contain {method.name!r}, which is transductive. Allow transductive models, or leave it "
                "out."
            )
        members = [
            member
            for member in method.members
            if member.is_fast_enough(size) and (transductive or not member.transductive)
        ]
        expanded.update({member.name: member for member in members or [method]})
    return list(expanded.values())


def _mark_as_own(method: Method) -> Method:
    """Return the registered method that it equals, or the method marked as the user's own."""
    if method.members:
        return method
    registered = METHODS.get(method.name)
    if registered is not None:
        is_equal = describe_method(replace(method, source=registered.source)) == describe_method(registered)
        if is_equal:
            return registered
    if not method.is_projection:
        _check_classifier(method.name, method.classifier)
    return replace(_with_source(method), own=True)


def _make_own_method(name: str, classifier: Any, grid: Any = None) -> Method:
    """Make a method from a user's classifier; its kind is "invariant" if it accepts domains."""
    if not name.strip():
        raise ValueError(f"{name!r} cannot be the name of a method: it is empty. Use another name.")
    for existing in (*METHODS, *RESERVED_NAMES):
        if existing.lower() == name.strip().lower():
            raise ValueError(
                f"{name!r} cannot be the name of a method: {existing!r} is a registered or reserved name. Use another "
                "name."
            )
    _check_classifier(name, classifier)
    grid = {} if grid is None else grid
    try:
        for setting in ParameterGrid(grid):
            clone(classifier).set_params(**setting)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The grid of {name!r} must be a parameter grid as for GridSearchCV: {error}") from error
    kind: Kind = "invariant" if consumes_domains(classifier) else "plain"
    description = f"your own: {type(classifier).__name__}"
    return _with_source(Method(name, kind, classifier, grid=grid, description=description, own=True))


def _check_classifier(name: str, classifier: Any) -> None:
    """Raise TypeError unless it is a scikit-learn classifier that can be cloned."""
    if isinstance(classifier, type):
        raise TypeError(
            f"The classifier of {name!r} must be an instance; got the class {classifier.__name__}. Pass "
            f"{classifier.__name__}(...) instead."
        )
    has_api = all(hasattr(classifier, attribute) for attribute in ("fit", "predict", "get_params", "__sklearn_tags__"))
    if not has_api or not is_classifier(classifier):
        raise TypeError(
            f"The estimator of {name!r} must be a classifier; got {classifier!r}. Pass a scikit-learn classifier, a "
            "Pipeline that ends with one, or an instance of a class(ClassifierMixin, BaseEstimator) with fit and "
            "predict."
        )
