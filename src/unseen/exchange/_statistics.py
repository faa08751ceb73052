"""Statistics of one site, from which models are fitted without its rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import __version__
from ..estimators import Statistics, sum_statistics
from ..exceptions import DataWarning, warn
from ..linalg import Array, CellStatistics, Ints, Membership
from ..shift import embed
from ..utils.validation import EncodedLabels
from ._files import ExchangeError, Record, lower_triangle, read_record, write_record
from ._plan import StudyPlan, load_plan

KIND = "site statistics"
NOVELTY_COMPONENTS = 40  # directions of the novelty score
MAX_DISTANCE = 5.0  # scales between the mean of a column and its center, beyond which its unit may be another one


@dataclass(frozen=True)
class SiteStatistics:
    """Statistics of the rows of one site: see :func:`~unseen.exchange.aggregate`.

    Attributes
    ----------
    site : str
        Name of the site.
    plan : StudyPlan
        The plan of the study.
    statistics : Statistics
        Counts, means of classes, and the scatter about them, of the features of the plan.
    embedding : CellStatistics
        The same of the embedded rows for the novelty score, which ignores classes.
    left_out : tuple of str
        Rows that were left out, with the reason.
    source : str
        The file, in messages.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.exchange import SiteStatistics, aggregate, load_plan
    >>> plan = load_plan(
    ...     {
    ...         "name": "fever",
    ...         "label": "ill",
    ...         "classes": ["no", "yes"],
    ...         "columns": {"age": {"center": 50, "scale": 15}},
    ...         "settings": [{"method": "KFDA"}],
    ...     }
    ... )
    >>> rows = {"age": list(range(40, 60)), "ill": ["no", "yes"] * 10}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     aggregate(rows, plan, site="bonn").save(Path(folder) / "bonn.stats.json")
    ...     site = SiteStatistics.load(Path(folder) / "bonn.stats.json")
    >>> site.site, site.class_counts.tolist()
    ('bonn', [10, 10])
    """

    site: str
    plan: StudyPlan
    statistics: Statistics
    embedding: CellStatistics
    left_out: tuple[str, ...] = ()
    source: str = "statistics in memory"

    @property
    def class_counts(self) -> Ints:
        """Number of rows of each class of the plan."""
        counts = np.zeros(len(self.plan.classes), dtype=np.intp)
        counts[np.searchsorted(self.plan.classes, self.statistics.classes)] = self.statistics.cells.counts[0]
        return counts

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to a JSON file; an existing file is replaced."""
        cells = self.statistics.cells
        write_record(
            path,
            KIND,
            {
                "unseen": __version__,
                "site": self.site,
                "plan": self.plan.content,
                "left_out": list(self.left_out),
                "counts": self.class_counts.tolist(),
                "means": cells.means.tolist(),
                "scatter": lower_triangle(cells.inside),
                "novelty": {"mean": self.embedding.means[0].tolist(), "scatter": lower_triangle(self.embedding.inside)},
            },
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SiteStatistics:
        """Read and check the file of any site."""
        record = read_record(path, KIND)
        plan = StudyPlan.from_record(record.record("plan"))
        counts = record.counts("counts", len(plan.classes))
        if not counts.any():
            record.fail("counts", "there are no rows", counts.tolist())
        check_cells(record, counts, plan.smallest_cell)
        present = np.flatnonzero(counts)
        means = record.array("means", len(present), plan.n_features)
        cells = CellStatistics(
            counts[None, present], means, np.zeros_like(means), record.symmetric("scatter", plan.n_features)
        )
        novelty = record.record("novelty")
        mean = novelty.array("mean", NOVELTY_COMPONENTS)[None]
        scatter = novelty.symmetric("scatter", NOVELTY_COMPONENTS)
        embedding = CellStatistics(np.array([[counts.sum()]]), mean, np.zeros_like(mean), scatter)
        site = record.text("site")
        statistics = Statistics(np.array([site]), plan.classes[present], cells)
        return cls(site, plan, statistics, embedding, tuple(record.texts("left_out")), record.source)


def check_cells(record: Record, counts: Ints, smallest_cell: int) -> None:
    """Raise for a count that the file should not contain."""
    small = counts[(counts > 0) & (counts < smallest_cell)]
    if len(small):
        record.fail("counts", f"the smallest allowed count is {smallest_cell}", small.tolist())


def aggregate(data: Any, plan: StudyPlan | str | os.PathLike[str], *, site: str) -> SiteStatistics:
    """Compute the statistics of the rows of a site, the only thing that leaves it.

    Parameters
    ----------
    data : DataFrame, dict, list of dict, str or path
        The table of the site, with the columns of the plan and the labels. Rows without a label are left out, and so
        are the rows of a class that has fewer of them than the smallest cell of the plan; a
        :class:`~unseen.exceptions.DataWarning` states it.
    plan : StudyPlan, str or path
        The plan of the study.
    site : str
        Name of the site.

    Returns
    -------
    statistics : SiteStatistics
        To save to a file.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.exchange import aggregate, load_plan
    >>> plan = load_plan(
    ...     {
    ...         "name": "fever",
    ...         "label": "ill",
    ...         "classes": ["no", "yes"],
    ...         "columns": {"age": {"center": 50, "scale": 15}},
    ...         "settings": [{"method": "KFDA"}],
    ...     }
    ... )
    >>> rows = {"age": np.arange(20, 80), "ill": np.repeat(["no", "yes"], 30)}
    >>> aggregate(rows, plan, site="bonn").class_counts.tolist()
    [30, 30]
    """
    if not isinstance(plan, StudyPlan):
        plan = load_plan(plan)
    site = Record({"site": str(site)}, "The parameters").text("site")
    n_classes = len(plan.classes)
    counts = np.zeros(n_classes, dtype=np.intp)
    unlabeled = 0
    for _, codes in plan.read(data):
        counts += np.bincount(codes[codes >= 0], minlength=n_classes)
        unlabeled += int((codes < 0).sum())
    is_small = (counts > 0) & (counts < plan.smallest_cell)
    left_out = [
        f"rows of the class {name}: fewer than {plan.smallest_cell}" for name in plan.classes[is_small].tolist()
    ]
    if not (counts * ~is_small).any():
        raise ExchangeError(
            f"{site}: no class has at least {plan.smallest_cell} rows, the smallest cell of the plan. This site cannot "
            "contribute statistics."
        )
    if unlabeled:
        left_out.append("rows without a label")
    directions, knots = novelty_points(plan)
    n_numbers = len(plan.centers)
    sums = np.zeros(n_numbers)
    statistics: Statistics | None = None
    embedding: CellStatistics | None = None
    for prepared, codes in plan.read(data):
        kept = (codes >= 0) & ~is_small[codes]
        if not kept.any():
            continue
        prepared = prepared[kept]
        sums += prepared[:, :n_numbers].sum(axis=0)
        names, own_codes = np.unique(codes[kept], return_inverse=True)
        own = Statistics.from_features(
            partial(_features_of_rows, plan, prepared),
            EncodedLabels(plan.classes[names], own_codes),
            EncodedLabels(np.array([site]), np.zeros(len(prepared), dtype=np.intp)),
        )
        statistics = sum_statistics([statistics, own])
        one_cell = Membership.from_codes(np.zeros(len(prepared), dtype=np.intp), np.zeros(len(prepared), dtype=np.intp))
        part = CellStatistics.from_features(embed(prepared, directions, knots), one_cell)
        embedding = part if embedding is None else embedding + part
    assert statistics is not None  # there are rows of a class that is large enough
    assert embedding is not None
    for text in left_out:
        warn(f"{site}: left out {text}.", DataWarning)
    distances = dict(zip(plan.centers, sums / statistics.cells.counts.sum(), strict=True))
    for column, distance in distances.items():
        if abs(distance) > MAX_DISTANCE:
            unit = plan.units[column] or "not stated"
            warn(
                f"{site}: the mean of {column!r} is {abs(distance):.0f} scales from the center of the plan. Check its "
                f"unit, which is {unit} in the plan.",
                DataWarning,
            )
    return SiteStatistics(site, plan, statistics, embedding, tuple(left_out))


def _features_of_rows(plan: StudyPlan, prepared: Array, rows: slice) -> Array:
    return plan.features(prepared[rows])


def novelty_points(plan: StudyPlan) -> tuple[Array, Array]:
    """Return the directions and the fixed points of the novelty score, which are random numbers and not rows."""
    width = plan.preprocessor.transform(np.zeros((1, len(plan.schema.columns)))).shape[1]
    random = np.random.default_rng(plan.seed)
    directions = random.normal(size=(width, NOVELTY_COMPONENTS)) / np.sqrt(NOVELTY_COMPONENTS)
    knots = np.einsum("ij,ji->i", random.normal(size=(NOVELTY_COMPONENTS, width)), directions)
    return directions, knots
