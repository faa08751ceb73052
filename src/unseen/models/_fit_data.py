"""`fit`: fit a model to a DataFrame or to the path of a table."""

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
from ._table_fit import AUTO, fit_notices, fit_table, resolve_methods


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
    transductive: bool = False,
    max_per_domain: int | None = None,
    metric: str = "accuracy",
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Model:
    """Fit a model for domains that are not in a table, and evaluate it on each held-out domain, as ``unseen fit`` does.

    Parameters
    ----------
    data : DataFrame, dict, list of dict, structured array, str or path
        Columns or rows by name, or a table or folder to read: see :func:`unseen.tables.load_table`.
    method : str, tuple, Method or list of these, default="auto"
        "auto" is an ensemble of the models of :class:`unseen.UnseenClassifier`. Otherwise a name in
        `unseen.model_selection.METHODS`, or a custom classifier such as ``("mine", SVC(), {"C": [1, 10]})``: see
        :ref:`own_models`. Several methods make an ensemble; for a single method the best settings are selected.
    label, domain, group, unlabeled, dates, categories, max_per_domain
        The roles of the columns and the rows to use, as for :func:`unseen.tables.load_table`.
    scale : {"standardize", "l2", "none"}, default="standardize"
        See :func:`unseen.tables.make_preprocessor`.
    transductive : bool, default=False
        Whether models, and smoothing, that need batches of each new domain may be used. With False the prediction of a
        row does not depend on the other rows.
    metric : str, default="accuracy"
        Metric of the scores, the forecast, the acceptance tests and the selection of settings, such as "roc_auc",
        "log_loss" or "balanced_accuracy"; or the name of a scikit-learn scorer. Ensemble weights minimize the log loss.
    random_state : int, default=0
        Seed of the random number generators.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    model : unseen.models.Model
        Predicts DataFrames, files and arrays; `save` writes it to a file. Its `card` describes the selected model, the
        scores on held-out domains, how every column was used, and the assumptions that were made.

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
    methods = parse_methods(method if isinstance(method, list) else [method])
    request = TableOptions(
        label=label,
        domain=domain,
        unlabeled=unlabeled,
        max_per_domain=max_per_domain,
        seed=random_state,
        group=group,
        dates=dates,
        categories=categories,
    )
    source = survey_table(data, request)
    plan = SizePlan.from_rows(source.rows, ensemble=len(resolve_methods(methods)) > 1)
    table = open_row_stream(source, plan, random_state)
    result = fit_table(
        table,
        methods,
        scale=scale,
        transductive=transductive,
        metric=metric,
        seed=random_state,
        n_jobs=n_jobs,
        verbose=verbose,
        plan=plan,
        stream=source,
    )
    notices = [*fit_notices(table, methods, plan, metric), *result.remarks]
    card = model_card(
        replace(table, notices=notices),
        result,
        method=", ".join(method.name for method in methods),
        scale=scale,
        seed=random_state,
        source=source,
        command="unseen.fit(...)",
    )
    return Model(result.model, card)
