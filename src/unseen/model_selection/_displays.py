"""Pictures of a comparison: scores over a grid of weights, and the leaderboard of UnseenClassifier."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array
from ..report import draw_heat_map, import_pyplot, write_cells
from ..utils.optional_imports import optional_import

# The colors of Okabe and Ito, which color-blind readers tell apart; shapes tell the same for prints in gray.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MARKERS = ("o", "s", "^", "D", "v", "P")
ACCENT = "#D55E00"
CELLS_WITH_NUMBERS = 48  # in one panel; more would not be legible
PANELS_IN_A_ROW = 4


@dataclass(eq=False, repr=False)
class ValidationSurfaceDisplay:
    """Mean validation score over two parameters of a search, one panel for each value of a third.

    A cell shows the *best* mean score among the settings of all other parameters of the grid. The cell that holds the
    setting chosen by the search is framed. A broad plateau says that the weights hardly matter; a best cell at the
    border of the grid says that the grid should be extended.

    Parameters
    ----------
    names : tuple of str
        The parameters of the panels, rows and columns, in this order.
    values : tuple of lists
        Their values, in the order of the grid.
    scores : ndarray of shape (n_panels, n_rows, n_columns)
        Mean scores; NaN where the grid has no such setting or it failed.
    params : dict
        The setting behind each cell, by its (panel, row, column).
    chosen : tuple of int
        Panel, row and column of the chosen setting.
    score_name : str, default="score"
        What the scores are called on the color bar.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure, after `plot`.
    axes_ : ndarray of matplotlib Axes
        One for each panel, after `plot`.

    See Also
    --------
    LeaderboardDisplay : How the models of an UnseenClassifier compare.

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
        """Draw the scores of a fitted search.

        Parameters
        ----------
        search : ProjectionSearchCV
            A fitted search whose grid has several settings of `x` and `y`.
        x, y : str
            Parameters along the axes, by default the two weights of CIDG.
        panel : str, default="gamma"
            Parameter that has a panel for each of its values; a single panel if the grid does not vary it.
        axes : matplotlib Axes or sequence of them, default=None
            Where to draw, one for each panel; None makes a new figure.

        Returns
        -------
        display : ValidationSurfaceDisplay
            The display, plotted.
        """
        check_is_fitted(search, "cv_results_")
        settings: list[dict[str, Any]] = search.cv_results_["params"]
        varied = sorted({name for setting in settings for name in setting})
        for role, name in (("x", x), ("y", y)):
            if name not in varied:
                raise ValueError(
                    f"The grid of this search does not vary {role}={name!r}, but {', '.join(varied) or 'nothing'}. "
                    f"Choose {role} among these, or search again with values of {name!r} in param_grid."
                )
        names = (panel, y, x)
        if len(set(names)) < 3:
            raise ValueError(f"x, y and panel must be three parameters; got x={x!r}, y={y!r}, panel={panel!r}.")
        fixed = search.estimator.get_params()  # parts of a list of grids may leave a parameter as it is
        placed = [_positions([setting.get(name, fixed.get(name)) for setting in settings]) for name in names]
        panels, rows, columns = (values for values, _ in placed)
        means = search.cv_results_["mean_test_score"]
        scores = np.full((len(panels), len(rows), len(columns)), np.nan)
        params: dict[tuple[int, int, int], dict[str, Any]] = {}
        cells = list(zip(*(positions for _, positions in placed), strict=True))
        # The chosen setting first: it stands for its cell even where others reach the same score.
        for i in sorted(range(len(settings)), key=lambda i: i != search.best_index_):
            if means[i] > np.nan_to_num(scores[cells[i]], nan=-np.inf):
                scores[cells[i]], params[cells[i]] = means[i], settings[i]
        chosen, score_name = cells[search.best_index_], _score_name(search.scoring)
        values = panels, rows, columns
        return cls(names, values, scores, params=params, chosen=chosen, score_name=score_name).plot(axes)

    def plot(self, axes: Any = None) -> Self:
        """Draw the panels.

        Parameters
        ----------
        axes : matplotlib Axes or sequence of them, default=None
            Where to draw, one for each panel; None makes a new figure.

        Returns
        -------
        self : ValidationSurfaceDisplay
            The display, with `figure_` and `axes_`.
        """
        n_panels, n_rows, n_columns = self.scores.shape
        across = 1
        if axes is None:
            across = min(n_panels, PANELS_IN_A_ROW)
            down = -(-n_panels // across)
            size = (2.6 + across * max(0.3 + 0.75 * n_columns, 2.0), 0.9 + down * max(0.8 + 0.5 * n_rows, 2.0))
            grid = import_pyplot().subplots(down, across, figsize=size, squeeze=False, layout="constrained")[1].ravel()
            for spare in grid[n_panels:]:
                spare.set_axis_off()
            axes = grid[:n_panels]
        self.axes_ = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(self.axes_) != n_panels:
            raise ValueError(
                f"There are {n_panels} values of {self.names[0]!r}, so {n_panels} axes are needed; got "
                f"{len(self.axes_)}."
            )
        self.figure_ = self.axes_[0].figure
        finite = self.scores[np.isfinite(self.scores)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
        panels, rows, columns = ([_value_text(value) for value in values] for values in self.values)
        for i, ax in enumerate(self.axes_):
            image = draw_heat_map(ax, self.scores[i], rows, columns, vmin=low, vmax=high)
            ax.invert_yaxis()
            ax.set_title(f"{self.names[0]} = {panels[i]}", fontsize="medium")
            ax.set_xlabel(self.names[2])
            if i % across:  # the first panel of the row has the labels
                ax.tick_params(labelleft=False)
            else:
                ax.set_ylabel(self.names[1])
            if n_rows * n_columns <= CELLS_WITH_NUMBERS:
                write_cells(image, [[f"{v:.3f}" if np.isfinite(v) else "none" for v in row] for row in self.scores[i]])
            if i == self.chosen[0]:
                _frame(ax, self.chosen[1], self.chosen[2])
        label = f"mean {self.score_name}, best of other settings\n(framed: the chosen setting)"
        self.figure_.colorbar(image, ax=list(self.axes_), label=label).outline.set_visible(False)
        return self

    def frame(self) -> Any:
        """Return the numbers as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            One row for each cell: the three parameters, `mean_test_score`, the whole setting as `params`, and whether
            it was `chosen`.
        """
        rows = [
            {
                **{name: kind[k] for name, kind, k in zip(self.names, self.values, cell, strict=True)},
                "mean_test_score": score,
                "params": self.params.get(cell),
                "chosen": cell == self.chosen,
            }
            for cell, score in np.ndenumerate(self.scores)
        ]
        return optional_import("pandas", "frame()").DataFrame(rows)


class LeaderboardDisplay:
    """How the models of an UnseenClassifier did on each held-out domain.

    A row for each contender, best first: a point for each held-out domain, the mean as a black diamond with one
    standard error to either side, and both as numbers. The chosen model's row is shaded and says so. The kind of each
    model is written out, as *transductive* ones need batches of the new domain; their diamonds are hollow.

    Parameters
    ----------
    rows : list of dict
        The leaderboard: dictionaries with `model`, `kind`, `mean`, `standard_error`, `scores` and `chosen`.
    score_name : str, default="score"
        What the scores are called on the axis.

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

    def __init__(self, rows: Sequence[dict[str, Any]], *, score_name: str = "score") -> None:
        self.rows = list(rows)
        self.score_name = score_name

    @classmethod
    def from_classifier(cls, model: Any, *, ax: Any = None) -> Self:
        """Draw the leaderboard of a fitted classifier.

        Parameters
        ----------
        model : UnseenClassifier
            A fitted classifier.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure, as high as there are contenders.

        Returns
        -------
        display : LeaderboardDisplay
            The display, plotted.
        """
        check_is_fitted(model, "leaderboard_")
        return cls(model.leaderboard_, score_name=_score_name(model.scoring)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the leaderboard.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure, as high as there are contenders.

        Returns
        -------
        self : LeaderboardDisplay
            The display, with `figure_` and `ax_`.
        """
        if ax is None:
            ax = import_pyplot().subplots(figsize=(10, 1.5 + 0.34 * len(self.rows)), layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        for level, row in enumerate(self.rows):
            if row["chosen"]:
                ax.axhspan(level - 0.5, level + 0.5, color=ACCENT, alpha=0.15, linewidth=0, zorder=0)
            if not np.isfinite(row["mean"]):
                middle = {"transform": ax.get_yaxis_transform(), "ha": "center", "va": "center"}
                ax.text(0.5, level, "failed", style="italic", **middle)
                continue
            fill = "white" if row["kind"] == "transductive" else "black"
            style = {"markersize": 7, "markerfacecolor": fill, "capsize": 3, "elinewidth": 1.5, "zorder": 4}
            ax.errorbar(row["mean"], level, xerr=row["standard_error"], fmt="D", color="black", **style)
        self._draw_domains()
        ax.plot([], [], "D", color="black", label="mean, 1 standard error")
        ax.set_ylim(len(self.rows) - 0.5, -0.5)
        self._label()
        return self

    def _draw_domains(self) -> None:
        """Draw a point for each held-out domain; beyond six of them, nobody could tell which is which."""
        domains = list(self.rows[0]["scores"])
        told_apart = len(domains) <= len(COLORS)
        levels = np.arange(len(self.rows))
        for k, domain in enumerate(domains):
            style = {"color": COLORS[k], "marker": MARKERS[k]} if told_apart else {"color": "0.5", "marker": "o"}
            label = str(domain) if told_apart else f"one of {len(domains)} held-out domains" if k == 0 else None
            scores = [row["scores"][domain] for row in self.rows]
            self.ax_.plot(scores, levels, linestyle="", markersize=6, alpha=0.8, zorder=3, label=label, **style)

    def _label(self) -> None:
        ax, levels = self.ax_, range(len(self.rows))
        ax.set_yticks(levels, [row["model"] for row in self.rows])
        right = ax.secondary_yaxis("right")
        right.set_yticks(levels, [_summary(row) for row in self.rows])
        for axis in (ax, right):
            axis.tick_params(axis="y", length=0)
            for label, row in zip(axis.get_yticklabels(), self.rows, strict=True):
                label.set_fontweight("bold" if row["chosen"] else "normal")
            axis.spines[:].set_visible(False)
        ax.spines["bottom"].set_visible(True)
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        ax.set_xlabel(f"{self.score_name} on held-out domains")
        # Above all that is drawn, from the left end of the names on; long names of domains take several lines.
        widest = max(len(str(domain)) for domain in self.rows[0]["scores"])
        place = {"loc": "lower left", "bbox_to_anchor": (-0.1, 1), "ncols": min(7, max(1, 110 // (widest + 6)))}
        spaces = {"borderaxespad": 0.3, "handletextpad": 0.1, "columnspacing": 1.2}
        ax.legend(frameon=False, fontsize="small", **place, **spaces)

    def frame(self) -> Any:
        """Return the numbers as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            One row for each contender, best first: the columns of the leaderboard, with a column ``score_<domain>``
            for each held-out domain.
        """
        rows = [row | {f"score_{domain}": score for domain, score in row["scores"].items()} for row in self.rows]
        for row in rows:
            del row["scores"]
        return optional_import("pandas", "frame()").DataFrame(rows)


def _summary(row: dict[str, Any]) -> str:
    numbers = f"{row['mean']:.3f} ± {row['standard_error']:.3f}  " if np.isfinite(row["mean"]) else ""
    return f"{numbers}{row['kind']}{', chosen' if row['chosen'] else ''}"


def _positions(values: Iterable[Any]) -> tuple[list[Any], list[int]]:
    """Distinct values, in their order, and the position of each value among them."""
    distinct: list[Any] = []
    positions = []
    for value in values:
        positions.append(next((i for i, other in enumerate(distinct) if _same(value, other)), len(distinct)))
        distinct += [value] if positions[-1] == len(distinct) else []
    return distinct, positions


def _same(value: Any, other: Any) -> bool:
    """Whether two grid values are one: 0 and 0.0 are, arrays and estimators only if they are the same object."""
    return value is other or (isinstance(value, Hashable) and isinstance(other, Hashable) and bool(value == other))


def _value_text(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
    return text if len(text) <= 24 else f"{text[:21]}..."


def _score_name(scoring: Any) -> str:
    return scoring.replace("_", " ") if isinstance(scoring, str) else "score"


def _frame(ax: Any, row: int, column: int) -> None:
    """Frame the chosen cell, in white under the accent so that it stands out on any color."""
    cell = (column - 0.46, row - 0.46), 0.92, 0.92
    for color, width in (("white", 6), (ACCENT, 3)):
        ax.add_patch(import_pyplot().Rectangle(*cell, fill=False, edgecolor=color, linewidth=width, zorder=3))
