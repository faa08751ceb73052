"""`fit`: from a frame or the path of a table to a model that predicts frames and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..kernels import SizePlan
from ..model_selection import parse_methods
from ..tables import Dates, TableOptions, survey_table
from ._model import Model
from ._model_card import model_card
from ._row_stream import open_row_stream
from ._table_fit import AUTO, fit_notices, fit_table


def fit(
    data: Any,
    method: Any = AUTO,
    *,
    label: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    unlabeled: str | int | None = None,
    dates: Dates = "drop",
    categories: Sequence[str] | None = None,
    scale: str = "standardize",
    inductive: bool = False,
    max_per_domain: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Model:
    """Fit a model for places that are not in a table, and score it on each place held out: what ``unseen fit`` does.

    Parameters
    ----------
    data : DataFrame, dict, list of dict, structured array, str or path
        Columns or rows by name, or a table or folder to read: see :func:`unseen.tables.load_table`.
    method : str, tuple, Method or list of these, default="auto"
        "auto" pools the models of :class:`unseen.UnseenClassifier`; or a name in `unseen.model_selection.METHODS`, or a
        classifier of your own such as ``("mine", SVC(), {"C": [1, 10]})``: see :ref:`own_models`. Several are pooled;
        of a single one the best settings are picked.
    label, domain, group, unlabeled, dates, categories, max_per_domain
        What the columns are for, and which rows to use, as for :func:`unseen.tables.load_table`.
    scale : {"standardize", "l2", "none"}, default="standardize"
        See :func:`unseen.tables.make_preprocessor`.
    inductive : bool, default=False
        Leave out models, and smoothing, that need batches of the new domain.
    random_state : int, default=0
        Seed of all draws.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    model : unseen.models.Model
        Predicts frames, files and arrays, and is written to a file by `save`. Its `card` says what was chosen, how it
        scored on held-out domains, how every column was used, and what was assumed.

    Examples
    --------
    >>> import pytest; pl = pytest.importorskip("polars")
    >>> import numpy as np, unseen
    >>> ages = np.random.default_rng(0).normal(50, 10, 60)
    >>> ill, hospital = np.where(ages > 50, "yes", "no"), np.repeat(["bonn", "leeds", "oslo"], 20)
    >>> patients = pl.DataFrame({"age": ages, "ill": ill, "hospital": hospital})
    >>> model = unseen.fit(patients, "logistic", label="ill", domain="hospital")
    >>> model.predict(pl.DataFrame({"age": [20, 80]})).tolist()
    ['no', 'yes']
    """
    wanted = parse_methods(method if isinstance(method, list) else [method])
    request = TableOptions(
        label,
        domain,
        None,
        None,
        unlabeled,
        max_per_domain,
        random_state,
        group=group,
        dates=dates,
        categories=categories,
    )
    source = survey_table(data, request)
    plan = SizePlan.from_rows(source.rows)
    table = open_row_stream(source, plan, random_state)
    how: dict[str, Any] = {"scale": scale, "seed": random_state}
    work: dict[str, Any] = {"inductive": inductive, "n_jobs": n_jobs, "verbose": verbose}
    found = fit_table(table, wanted, plan=plan, stream=source, **work, **how)
    told = replace(table, notices=[*fit_notices(table, wanted, plan), *found.remarks])
    how["method"] = ", ".join(one.name for one in wanted)
    return Model(found.model, model_card(told, found, source=source, command="unseen.fit(...)", **how))
