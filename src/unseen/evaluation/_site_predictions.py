"""Nested leave-one-domain-out predictions: for each site, those of the model that `fit` returns for all other sites."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import delayed  # type: ignore[import-untyped, unused-ignore]

from .. import __version__
from ..estimators import parallel
from ..exceptions import ParameterError
from ..linalg import Array
from ..model_selection import EXPECTED_ERRORS, Method, describe_method
from ..models import choose_fit_threshold, fit_table
from ..tables import Table
from ..utils.io import check_output_path, raise_if_disk_full
from ..utils.progress import progress
from ..utils.samples import Balance
from ._importance import measure_importance

DEFAULT_THRESHOLD = 0.5  # at which a model without a threshold decides between two classes
CACHE_VERSION = 1
FIRST_BYTES = b'{"key": "'  # of every line of a store
STORED_FIELDS = {"key", "probabilities", "threshold", "model", "seconds", "score", "losses"}


@dataclass(frozen=True)
class FitOptions:
    """How the model of each set of training sites is fitted: parameters of :func:`unseen.fit`."""

    scale: str = "standardize"
    transductive: bool = False
    balance: Balance = "none"
    metric: str = "accuracy"
    random_state: int = 0


@dataclass(frozen=True)
class SitePrediction:
    """Predictions of one method for one held-out site.

    Attributes
    ----------
    method, site : str
        The method and the held-out site.
    probabilities : ndarray of shape (n_rows, n_classes) or None
        Predicted probabilities of the rows of the site, for all classes of the table; None if the fit failed.
    threshold : float
        Threshold that was chosen on the out-of-domain predictions of the other sites; NaN for several classes.
    model : str
        Name of the model that was selected.
    seconds : float
        Duration of the fit and the predictions.
    failure : str
        Why predictions are missing.
    score : float
        AUC on the rows whose columns are permuted; NaN if it is not defined or not computed.
    losses : ndarray of shape (n_columns,) or None
        How much the AUC falls where each column is permuted; None if it was not computed.
    """

    method: str
    site: str
    probabilities: Array | None
    threshold: float = np.nan
    model: str = ""
    seconds: float = 0.0
    failure: str = ""
    score: float = np.nan
    losses: Array | None = None


def predict_held_out(
    table: Table,
    methods: Sequence[tuple[str, list[Method]]],
    options: FitOptions,
    *,
    positive: Any,
    aim: str | float | None,
    importance_of: str | None = None,
    store: Path | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> list[SitePrediction]:
    """Predict every site by models that are fitted to all other sites, for each method.

    Parameters
    ----------
    table : Table
        All rows.
    methods : sequence of (str, list of Method)
        Name and methods of each model, as for :func:`unseen.fit`.
    options : FitOptions
        Parameters of the fits.
    positive : object
        The class that is the event, if there are two classes.
    aim : str, float or None
        How the threshold is chosen; None for 0.5.
    importance_of : str, default=None
        Name of the model for which the importance of columns is measured on each held-out site; None for none.
    store : Path, default=None
        File that receives each prediction as it is complete, and from which an interrupted run continues.
    n_jobs : int, default=None
        Number of processes, each of which fits models.
    verbose : int, default=0
        1 shows progress.
    """
    sites = np.unique(table.domain).tolist()
    tasks = [(name, members, site) for site in sites for name, members in methods]
    cache = _Cache(store, table, options, positive, aim)
    results = {(name, site): cache.get(name, members, site, name == importance_of) for name, members, site in tasks}
    missing = [task for task in tasks if results[task[0], task[2]] is None]
    with progress("Validating", len(tasks), verbose, print_last=True) as advance:
        advance(len(tasks) - len(missing))
        calls = (
            delayed(_predict_site)(table, *task, options, positive, aim, task[0] == importance_of) for task in missing
        )
        for prediction in parallel(n_jobs)(calls):
            results[prediction.method, prediction.site] = prediction
            cache.add(prediction, dict(methods)[prediction.method])
            advance(1)
    return [prediction for prediction in results.values() if prediction is not None]


def _predict_site(
    table: Table,
    name: str,
    members: list[Method],
    site: str,
    options: FitOptions,
    positive: Any,
    aim: str | float | None,
    with_importance: bool,
) -> SitePrediction:
    """Fit a model to all other sites, choose its threshold on their out-of-domain predictions, predict the site."""
    start = time.perf_counter()
    is_site = table.domain == site
    expected: Any = Exception if any(method.own for method in members) else EXPECTED_ERRORS
    classes = table.samples.classes
    try:
        fit = fit_table(
            table.take(~is_site),
            members,
            scale=options.scale,
            transductive=options.transductive,
            balance=options.balance,
            metric=options.metric,
            random_state=options.random_state,
        )
        predicted = fit.model.predict_proba(table.X[is_site], sample_domain=table.domain[is_site])
        threshold = np.nan
        if len(classes) == 2:
            threshold = DEFAULT_THRESHOLD if aim is None else choose_fit_threshold(fit, positive, aim).threshold
        score = np.nan
        losses = None
        if with_importance:
            held_out = table.samples.take(is_site)
            score, losses = measure_importance(fit.model, held_out, classes, options.random_state)
    except expected as error:
        seconds = time.perf_counter() - start
        return SitePrediction(name, site, None, seconds=seconds, failure=f"{type(error).__name__}: {error}")
    # A class that only the held-out site has cannot be predicted.
    probabilities = np.zeros((int(is_site.sum()), len(classes)))
    probabilities[:, np.searchsorted(classes, fit.model.classes_)] = predicted
    seconds = time.perf_counter() - start
    return SitePrediction(name, site, probabilities, threshold, fit.name, seconds, score=score, losses=losses)


class _Cache:
    """Completed predictions in a file of JSON lines, each with a key of everything that it depends on."""

    def __init__(
        self, path: Path | None, table: Table, options: FitOptions, positive: Any, aim: str | float | None
    ) -> None:
        self.path = path
        self.lines: dict[str, dict[str, Any]] = {}
        if path is None:
            return
        check_output_path(path)
        digest = hashlib.sha256(repr((__version__, CACHE_VERSION, asdict(options), positive, aim)).encode())
        for array in (table.X, table.y, table.domain, table.group):
            digest.update(repr(None if array is None else (array.shape, array.dtype.str)).encode())
            digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        self.run_key = digest.hexdigest()
        if path.exists():
            self.lines = dict(_read_lines(path))

    def key(self, members: Sequence[Method], site: str) -> str:
        """Key of a prediction."""
        described = [describe_method(method) for method in members]
        return hashlib.sha256(repr((self.run_key, described, site)).encode()).hexdigest()

    def get(self, name: str, members: Sequence[Method], site: str, with_importance: bool) -> SitePrediction | None:
        """A completed prediction, with importance if that is needed, or None."""
        line = self.lines.get(self.key(members, site)) if self.path is not None else None
        if line is None or (with_importance and line.get("losses") is None):
            return None
        prediction = SitePrediction(
            name, site, np.array(line["probabilities"]), line["threshold"], line["model"], line["seconds"]
        )
        if with_importance:
            return replace(prediction, score=line["score"], losses=np.array(line["losses"]))
        return prediction

    def add(self, prediction: SitePrediction, members: Sequence[Method]) -> None:
        """Append a prediction to the file; failures are not stored, so that they are tried again."""
        if self.path is None or prediction.probabilities is None:
            return
        line = {
            "key": self.key(members, prediction.site),
            "probabilities": prediction.probabilities.tolist(),
            "threshold": prediction.threshold,
            "model": prediction.model,
            "seconds": prediction.seconds,
            "score": prediction.score,
            "losses": None if prediction.losses is None else prediction.losses.tolist(),
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise_if_disk_full(self.path, error)
            raise


def _read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read complete lines, and remove a last line that is incomplete because the run was killed."""
    content = path.read_bytes()
    if content and not content.startswith(FIRST_BYTES):
        raise ParameterError(
            "store",
            f"store={str(path)!r} is not a file of validation results: its first bytes are not {FIRST_BYTES!r}. It was "
            "not changed. Use another file name.",
        )
    end = content.rfind(b"\n") + 1
    for number, text in enumerate(content[:end].splitlines(), start=1):
        try:
            line = json.loads(text)
            missing = STORED_FIELDS - line.keys()
            if missing:
                raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        except (ValueError, AttributeError) as error:
            raise ParameterError(
                "store",
                f"store={str(path)!r} is damaged: line {number} cannot be read ({error}). It was not changed. Remove "
                "the line, or use another file name.",
            ) from None
        yield line["key"], line
    if end < len(content):
        with path.open("r+b") as file:
            file.truncate(end)
