"""The leaderboard: ensembles and candidates with their cross-fitted scores, best first."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, overload

import numpy as np

from ..utils.optional_imports import optional_import

SHOWN_COLUMNS = ("model", "kind", "mean", "standard_error", "weight")


@dataclass(frozen=True)
class LeaderboardRow:
    """A model on the leaderboard.

    Attributes
    ----------
    model : str
        Name of the candidate or of the ensemble.
    kind : {"plain", "inductive", "transductive"}
        Its kind.
    mean : float
        Mean score over held-out domains; NaN if the model failed.
    standard_error : float
        Standard error of the mean.
    scores : dict
        Score on each held-out domain; NaN where there is none.
    skewed : float
        Mean score on batches in which half of the classes have 80% of the samples; NaN if it was not computed.
    params : dict
        Settings that are best on all held-out domains; empty for ensembles.
    seconds : float
        Time of the evaluation.
    weight : float
        Weight in the selected ensemble; 1 for the selected ensemble itself.
    reason : str
        Why the step that an ensemble adds is or is not used.
    is_selected : bool
        Whether this is the selected model.
    """

    model: str
    kind: str
    mean: float
    standard_error: float
    scores: Mapping[str, float]
    skewed: float = np.nan
    params: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    weight: float = 0.0
    reason: str = ""
    is_selected: bool = False


@dataclass(frozen=True, repr=False)
class Leaderboard(Sequence[LeaderboardRow]):
    """Models with their cross-fitted scores, best first: a sequence of rows with attributes.

    ``print`` and notebooks show a table.

    Attributes
    ----------
    rows : tuple of LeaderboardRow
        The models.

    Examples
    --------
    >>> from unseen.model_selection import Leaderboard, LeaderboardRow
    >>> row = LeaderboardRow("logistic", "plain", 0.75, 0.05, {"bonn": 0.7, "leeds": 0.8}, weight=1.0, is_selected=True)
    >>> leaderboard = Leaderboard((row,))
    >>> leaderboard[0].scores["leeds"], leaderboard.selected.model
    (0.8, 'logistic')
    >>> print(leaderboard)
    model     kind    mean  standard_error  weight
    logistic  plain  0.750           0.050   1.000  selected
    """

    rows: tuple[LeaderboardRow, ...] = ()

    @property
    def selected(self) -> LeaderboardRow:
        """The selected model."""
        return next(row for row in self.rows if row.is_selected)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> LeaderboardRow: ...
    @overload
    def __getitem__(self, index: slice) -> Leaderboard: ...
    def __getitem__(self, index: int | slice) -> LeaderboardRow | Leaderboard:
        return Leaderboard(self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def __iter__(self) -> Iterator[LeaderboardRow]:
        return iter(self.rows)

    def to_frame(self) -> Any:
        """Return the leaderboard as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            A row for each model, best first: the attributes of the rows, with a column ``score_<domain>`` for each
            held-out domain.
        """
        pandas = optional_import("pandas", "to_frame()")
        names = [entry.name for entry in fields(LeaderboardRow) if entry.name != "scores"]
        rows = []
        for row in self.rows:
            scores = {f"score_{domain}": score for domain, score in row.scores.items()}
            rows.append({**{name: getattr(row, name) for name in names}, **scores})
        return pandas.DataFrame(rows)

    def _cells(self) -> list[list[str]]:
        """The shown columns of all rows as text."""
        numbers = SHOWN_COLUMNS[2:]
        return [[row.model, row.kind, *(_format_number(getattr(row, name)) for name in numbers)] for row in self.rows]

    def __repr__(self) -> str:
        lines = [list(SHOWN_COLUMNS), *self._cells()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(SHOWN_COLUMNS))]
        marks = ["", *("  selected" if row.is_selected else "" for row in self.rows)]
        texts = []
        for line, mark in zip(lines, marks, strict=True):
            names = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
            numbers = [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
            texts.append("  ".join([*names, *numbers]) + mark)
        return "\n".join(texts)

    def _repr_html_(self) -> str:
        header = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in SHOWN_COLUMNS)
        body = []
        for row, cells in zip(self.rows, self._cells(), strict=True):
            style = ' style="font-weight:bold"' if row.is_selected else ""
            body.append(f"<tr{style}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>")
        return f"<table><thead><tr>{header}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _format_number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "-"
