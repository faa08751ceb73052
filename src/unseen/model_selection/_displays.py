"""Plots of validation scores over a grid of settings, and of the leaderboard of UnseenClassifier."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array
from ..report import draw_heat_map, import_pyplot, write_cells
from ..utils.optional_imports import optional_import
from ._leaderboard import Leaderboard, LeaderboardRow

# The palette of Okabe and Ito, which color-blind readers can distinguish; markers differ as well, for prints in gray.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MARKERS = ("o", "s", "^", "D", "v", "P")
ACCENT = "#D55E00"
MAX_ANNOTATED_CELLS = 48  # of a panel; more numbers would not be legible
MAX_PANELS_PER_ROW = 4


@dataclass(eq=False, repr=False)
class ValidationSurfaceDisplay:
    """Mean validation score over two parameters of a search, one panel for each value of a third.

    A cell shows the *best* mean score over all other parameters of the grid. The cell of the setting that the search
    selected has a frame. A broad plateau means that the weights have little effect; if the best cell is at the border
    of the grid, extend the grid.

    Parameters
    ----------
    names : tuple of str
        The parameters of the panels, rows and columns, in this order.
    values : tuple of lists
        Their values, in the order of the grid.
    scores : ndarray of shape (n_panels, n_rows, n_columns)
        Mean scores; NaN where the grid has no such setting or it failed.
    params : dict
        The setting of each cell, by (panel, row, column).
    chosen : tuple of int
        Panel, row and column of the selected setting.
    score_name : str, default="score"
        Name of the scores at the color bar.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure, after `plot`.
    axes_ : ndarray of matplotlib Axes
        One for each panel, after `plot`.

    See Also
    --------
    LeaderboardDisplay : Scores of the models of an UnseenClassifier.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from unseen import CIDG, ProjectionSearchCV
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.model_selection import ValidationSurfaceDisplay
    >>> data = make_synthetic(random_state=0)
    >>> grid = {"gamma": ["0.1*median", "median"], "conditional_weight": [0, "scale"], "prior_weight": [0, "scale"]}
    >>> search = ProjectionSearchCV(CIDG(), grid, refit=False)
    >>> search = search.fit(data.data, data.target, sample_domain=data.domain)
    >>> display = ValidationSurfaceDisplay.from_search(search)
    >>> [axes.get_title() for axes in display.axes_]
    ['gamma = 0.1*median', 'gamma = median']
    >>> bool(display.scores.max() == search.best_score_)
    True
    """

    names: tuple[str, str, str]
    values: tuple[list[Any], list[Any], list[Any]]
    scores: Array
    _: KW_ONLY
    params: dict[tuple[int, int, int], dict[str, Any]]
    chosen: tuple[int, int, int]
    score_name: str = "score"

    @classmethod
    def from_search(
        cls,
        search: Any,
        *,
        x: str = "prior_weight",
        y: str = "conditional_weight",
        panel: str = "gamma",
        axes: Any = None,
    ) -> Self:
        """Plot the scores of a fitted search.

        Parameters
        ----------
        search : ProjectionSearchCV
            A fitted search whose grid has several settings of `x` and `y`.
        x, y : str
            Parameters of the axes, by default the two weights of CIDG.
        panel : str, default="gamma"
            Parameter with one panel for each of its values; a single panel if the grid does not vary it.
        axes : matplotlib Axes or sequence of them, default=None
            Axes to plot on, one for each panel; None creates a new figure.

        Returns
        -------
        display : ValidationSurfaceDisplay
            The display, after `plot`.
        """
        check_is_fitted(search, "cv_results_")
        settings: list[dict[str, Any]] = search.cv_results_["params"]
        varied = sorted({name for setting in settings for name in setting})
        for axis, name in (("x", x), ("y", y)):
            if name not in varied:
                raise ValueError(
                    f"The grid of this search does not vary {axis}={name!r}, but {', '.join(varied) or 'nothing'}. "
                    f"Use one of these as {axis}, or repeat the search with values of {name!r} in param_grid."
                )
        names = (panel, y, x)
        if len(set(names)) < 3:
            raise ValueError(f"x, y and panel must be three parameters; got x={x!r}, y={y!r}, panel={panel!r}.")
        default_params = search.estimator.get_params()  # some grids of a list may not contain a parameter
        panels, rows, columns = (
            _distinct_values([setting.get(name, default_params.get(name)) for setting in settings]) for name in names
        )
        cells = list(zip(panels.positions, rows.positions, columns.positions, strict=True))
        means = search.cv_results_["mean_test_score"]
        scores = np.full((len(panels.values), len(rows.values), len(columns.values)), np.nan)
        params: dict[tuple[int, int, int], dict[str, Any]] = {}
        # The selected setting is first, so that it represents its cell even if others have the same score.
        for i in sorted(range(len(settings)), key=lambda i: i != search.best_index_):
            cell = cells[i]
            if means[i] > np.nan_to_num(scores[cell], nan=-np.inf):
                scores[cell] = means[i]
                params[cell] = settings[i]
        display = cls(
            names,
            (panels.values, rows.values, columns.values),
            scores,
            params=params,
            chosen=cells[search.best_index_],
            score_name=_score_name(search.scoring),
        )
        return display.plot(axes)

    def plot(self, axes: Any = None) -> Self:
        """Plot the panels.

        Parameters
        ----------
        axes : matplotlib Axes or sequence of them, default=None
            Axes to plot on, one for each panel; None creates a new figure.

        Returns
        -------
        self : ValidationSurfaceDisplay
            The display, with `figure_` and `axes_`.
        """
        n_panels, n_rows, n_columns = self.scores.shape
        panels_per_row = 1
        if axes is None:
            panels_per_row = min(n_panels, MAX_PANELS_PER_ROW)
            n_panel_rows = -(-n_panels // panels_per_row)
            width = 2.6 + panels_per_row * max(0.3 + 0.75 * n_columns, 2.0)
            height = 0.9 + n_panel_rows * max(0.8 + 0.5 * n_rows, 2.0)
            _, grid = import_pyplot().subplots(
                n_panel_rows, panels_per_row, figsize=(width, height), squeeze=False, layout="constrained"
            )
            for unused in grid.ravel()[n_panels:]:
                unused.set_axis_off()
            axes = grid.ravel()[:n_panels]
        self.axes_ = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(self.axes_) != n_panels:
            raise ValueError(
                f"There are {n_panels} values of {self.names[0]!r}, so {n_panels} axes are needed; got "
                f"{len(self.axes_)}."
            )
        self.figure_ = self.axes_[0].figure
        finite = self.scores[np.isfinite(self.scores)]
        low = finite.min() if finite.size else 0.0
        high = finite.max() if finite.size else 1.0
        panels, rows, columns = ([_value_text(value) for value in values] for values in self.values)
        for i, ax in enumerate(self.axes_):
            image = draw_heat_map(ax, self.scores[i], rows, columns, vmin=low, vmax=high)
            ax.invert_yaxis()
            ax.set_title(f"{self.names[0]} = {panels[i]}", fontsize="medium")
            ax.set_xlabel(self.names[2])
            if i % panels_per_row:  # only the first panel of each row has labels
                ax.tick_params(labelleft=False)
            else:
                ax.set_ylabel(self.names[1])
            if n_rows * n_columns <= MAX_ANNOTATED_CELLS:
                texts = [[f"{score:.3f}" if np.isfinite(score) else "none" for score in row] for row in self.scores[i]]
                write_cells(image, texts)
            if i == self.chosen[0]:
                _frame_cell(ax, self.chosen[1], self.chosen[2])
        label = f"mean {self.score_name}, best over other parameters\n(framed: the selected setting)"
        self.figure_.colorbar(image, ax=list(self.axes_), label=label).outline.set_visible(False)
        return self

    def to_frame(self) -> Any:
        """Return the numbers as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            One row for each cell: the three parameters, `mean_test_score`, all parameters as `params`, and whether the
            setting was `chosen`.
        """
        rows = [
            {
                **{name: values[k] for name, values, k in zip(self.names, self.values, cell, strict=True)},
                "mean_test_score": score,
                "params": self.params.get(cell),
                "is_selected": cell == self.chosen,
            }
            for cell, score in np.ndenumerate(self.scores)
        ]
        return optional_import("pandas", "to_frame()").DataFrame(rows)


class LeaderboardDisplay:
    """Scores of the models of an UnseenClassifier on each held-out domain.

    The rows are the models, best first: a point for each held-out domain, a diamond at the mean with an error bar of
    one standard error, and both as numbers. The row of the selected model is shaded. The text at the right contains the
    kind of each model; the diamonds of *transductive* models, which need batches of the new domain, are hollow.

    Parameters
    ----------
    rows : sequence of LeaderboardRow
        The leaderboard.
    score_name : str, default="score"
        Name of the scores at the axis.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure, after `plot`.
    ax_ : matplotlib Axes
        The axes, after `plot`.

    See Also
    --------
    ValidationSurfaceDisplay : Scores over the weights of one projection.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from unseen import UnseenClassifier
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.model_selection import LeaderboardDisplay
    >>> data = make_synthetic(validation_domain=True, random_state=0)
    >>> model = UnseenClassifier(methods=["logistic", "linear SVM"])
    >>> model = model.fit(data.data, data.target, sample_domain=data.domain)
    >>> display = LeaderboardDisplay.from_classifier(model)
    >>> len(display.ax_.get_yticklabels()) == len(model.leaderboard_)
    True
    """

    def __init__(self, rows: Sequence[LeaderboardRow], *, score_name: str = "score") -> None:
        self.rows = tuple(rows)
        self.score_name = score_name

    @classmethod
    def from_classifier(cls, model: Any, *, ax: Any = None) -> Self:
        """Plot the leaderboard of a fitted classifier.

        Parameters
        ----------
        model : UnseenClassifier
            A fitted classifier.
        ax : matplotlib Axes, default=None
            Axes to plot on; None creates a new figure, with a height according to the number of models.

        Returns
        -------
        display : LeaderboardDisplay
            The display, after `plot`.
        """
        check_is_fitted(model, "leaderboard_")
        return cls(model.leaderboard_, score_name=_score_name(model.scoring)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Plot the leaderboard.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None creates a new figure, with a height according to the number of models.

        Returns
        -------
        self : LeaderboardDisplay
            The display, with `figure_` and `ax_`.
        """
        if ax is None:
            ax = import_pyplot().subplots(figsize=(10, 1.5 + 0.34 * len(self.rows)), layout="constrained")[1]
        self.ax_ = ax
        self.figure_ = ax.figure
        for level, row in enumerate(self.rows):
            if row.is_selected:
                ax.axhspan(level - 0.5, level + 0.5, color=ACCENT, alpha=0.15, linewidth=0, zorder=0)
            if np.isfinite(row.mean):
                ax.errorbar(
                    row.mean,
                    level,
                    xerr=row.standard_error,
                    fmt="D",
                    color="black",
                    markersize=7,
                    markerfacecolor="white" if row.kind == "transductive" else "black",
                    capsize=3,
                    elinewidth=1.5,
                    zorder=4,
                )
            else:
                ax.text(
                    0.5,
                    level,
                    "failed",
                    style="italic",
                    transform=ax.get_yaxis_transform(),
                    ha="center",
                    va="center",
                )
        self._plot_domains()
        ax.plot([], [], "D", color="black", label="mean, 1 standard error")
        ax.set_ylim(len(self.rows) - 0.5, -0.5)
        self._add_labels()
        return self

    def _plot_domains(self) -> None:
        """Plot a point for each held-out domain; more domains than colors have the same color and marker."""
        domains = list(self.rows[0].scores)
        has_colors = len(domains) <= len(COLORS)
        levels = np.arange(len(self.rows))
        for k, domain in enumerate(domains):
            label = None
            if has_colors:
                label = str(domain)
            elif k == 0:
                label = f"one of {len(domains)} held-out domains"
            self.ax_.plot(
                [row.scores[domain] for row in self.rows],
                levels,
                linestyle="",
                color=COLORS[k] if has_colors else "0.5",
                marker=MARKERS[k] if has_colors else "o",
                markersize=6,
                alpha=0.8,
                zorder=3,
                label=label,
            )

    def _add_labels(self) -> None:
        ax = self.ax_
        levels = range(len(self.rows))
        ax.set_yticks(levels, [row.model for row in self.rows])
        right = ax.secondary_yaxis("right")
        right.set_yticks(levels, [_summary(row) for row in self.rows])
        for axis in (ax, right):
            axis.tick_params(axis="y", length=0)
            for label, row in zip(axis.get_yticklabels(), self.rows, strict=True):
                label.set_fontweight("bold" if row.is_selected else "normal")
            axis.spines[:].set_visible(False)
        ax.spines["bottom"].set_visible(True)
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        ax.set_xlabel(f"{self.score_name} on held-out domains")
        # The legend is above the axes and starts below the names of models; long names of domains need several rows.
        max_length = max(len(str(domain)) for domain in self.rows[0].scores)
        ax.legend(
            frameon=False,
            fontsize="small",
            loc="lower left",
            bbox_to_anchor=(-0.1, 1),
            ncols=min(7, max(1, 110 // (max_length + 6))),
            borderaxespad=0.3,
            handletextpad=0.1,
            columnspacing=1.2,
        )

    def to_frame(self) -> Any:
        """Return the numbers as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            One row for each model, best first: the columns of the leaderboard, with a column ``score_<domain>``
            for each held-out domain.
        """
        return Leaderboard(self.rows).to_frame()


def _summary(row: LeaderboardRow) -> str:
    numbers = f"{row.mean:.3f} ± {row.standard_error:.3f}  " if np.isfinite(row.mean) else ""
    return f"{numbers}{row.kind}{', selected' if row.is_selected else ''}"


class _DistinctValues(NamedTuple):
    """Distinct values in their order, and the position of each original value among them."""

    values: list[Any]
    positions: list[int]


def _distinct_values(values: Iterable[Any]) -> _DistinctValues:
    distinct: list[Any] = []
    positions = []
    for value in values:
        position = next((i for i, other in enumerate(distinct) if _is_same(value, other)), len(distinct))
        if position == len(distinct):
            distinct.append(value)
        positions.append(position)
    return _DistinctValues(distinct, positions)


def _is_same(value: Any, other: Any) -> bool:
    """Whether two grid values are the same: 0 and 0.0 are, arrays and estimators only if they are the same object."""
    return value is other or (isinstance(value, Hashable) and isinstance(other, Hashable) and bool(value == other))


def _value_text(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
    return text if len(text) <= 24 else f"{text[:21]}..."


def _score_name(scoring: Any) -> str:
    return scoring.replace("_", " ") if isinstance(scoring, str) else "score"


def _frame_cell(ax: Any, row: int, column: int) -> None:
    """Frame a cell in the accent color, with a white margin that contrasts with any color of the cell."""
    for color, width in (("white", 6), (ACCENT, 3)):
        frame = import_pyplot().Rectangle(
            (column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor=color, linewidth=width, zorder=3
        )
        ax.add_patch(frame)
