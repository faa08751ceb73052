"""A fitted model with its card: predicts DataFrames, files and arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from sklearn.utils import check_consistent_length, column_or_1d, gen_batches

from ..exceptions import NewDataWarning, warn
from ..linalg import Array, Ints
from ..model_selection import MIN_BATCH_ROWS, Forecast, plan_adaptation
from ..shift import NoveltyResult
from ..tables import Schema, convert_column, encode_class_labels, format_count, has_columns, is_path, write_excel
from ..utils.io import atomic_write, check_output_path, escape_controls, temporary_folder
from ..utils.validation import Labels, check_domains
from ._model_card import describe_card, forecast_from_dict, render_card
from ._new_data import (
    BatchFacts,
    BatchPrediction,
    NewRows,
    NewTable,
    add_facts,
    describe_differences,
    measure_batch,
    score_novelty,
)
from ._table_model import TableModel, list_coefficients
from ._trusted_types import find_width

if TYPE_CHECKING:
    from ..model_selection import AdaptationPlan

DEFAULT_BATCH_SIZE = 20_000  # rows in memory at a time
MAX_BATCH_VALUES = 2**24  # of an intermediate result, which take 128 MB: wide models predict in smaller batches
MAX_TRANSDUCTIVE_BATCHES = 20
RESULT_ENDINGS = (".csv", ".parquet", ".xlsx")


class ModelFileError(ValueError):
    """A file is not a model file, is damaged, or cannot be read by this version."""

    def __init__(self, message: str) -> None:
        super().__init__(escape_controls(message))  # it may contain texts of the file


@dataclass(frozen=True)
class TablePredictions:
    """Result of :meth:`unseen.models.Model.predict_table`.

    Attributes
    ----------
    summary : dict
        Numbers of rows and labels, agreement with the labels of the table, and novelty of each domain, in values that
        JSON can represent.
    notices : list of str
        Sentences on differences from the training data, and on columns that are not used. For a table from
        :meth:`~unseen.models.Model.open_table`, the notices of that table are not repeated.
    frame : polars.DataFrame or None
        The predictions, in the order of the rows of the table; None if they were written to a file.
    path : Path or None
        The file with the predictions, if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> import unseen
    >>> age, hospital = np.tile(np.arange(20, 80), 3), np.repeat(["bonn", "leeds", "oslo"], 60)
    >>> patients = pl.DataFrame({"age": age, "ill": age > 50, "hospital": hospital})
    >>> model = unseen.fit(patients, label="ill", domain="hospital", methods="logistic")
    >>> predictions = model.predict_table(pl.DataFrame({"patient": ["a", "b"], "age": [25, 75]}), keep=["patient"])
    >>> predictions.frame.select("patient", "label").rows()
    [('a', False), ('b', True)]
    """

    summary: dict[str, Any]
    notices: list[str]
    frame: pl.DataFrame | None = None
    path: Path | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A fitted model and its card; :func:`unseen.fit` and :func:`unseen.load_model` return it.

    Data are a DataFrame of pandas or polars, a dict of columns, a list of dicts, or the path of a
    table, folder or pattern. Their columns are matched by name and encoded like those of the training table. A dict of
    values or a Series of pandas is one row. An array must be encoded already. A notebook shows the card of the model.

    Prediction issues a :class:`~unseen.exceptions.NewDataWarning` for each difference from the training data: new
    categories, missing columns, or a large distance from the source domains. ``unseen predict`` prints the same texts.

    Parameters
    ----------
    estimator : TableModel or estimator
        The fitted model. Prediction requires a :class:`unseen.models.TableModel`.
    card : dict
        Description of the model.
    name : str, default="The model"
        Name of the model in error messages, such as its file.

    Examples
    --------
    >>> import polars as pl
    >>> import unseen
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(validation_domain=True, random_state=0)
    >>> table = pl.DataFrame({"x": data.data[:, 0], "y": data.data[:, 1], "target": data.target, "domain": data.domain})
    >>> new_site = table.sample(40, seed=0).drop("target", "domain")
    >>> model = unseen.fit(table, label="target", domain="domain", methods="logistic")
    >>> model
    <Model: logistic regression predicts 'target' (1, 2, 3); 440 rows of 4 domains>
    >>> model.expected_performance.n_domains
    4
    >>> model.predict(new_site).shape
    (40,)
    >>> model.novelty(new_site).far
    False
    """

    estimator: Any
    card: dict[str, Any]
    name: str = "The model"

    @property
    def classes_(self) -> Labels:
        """Classes in the order of the columns of `predict_proba`."""
        return self.table_model.classes_

    @property
    def table_model(self) -> TableModel:
        """The estimator, if it is a TableModel; otherwise raises ModelFileError."""
        if not isinstance(self.estimator, TableModel):
            kind = type(self.estimator).__name__
            raise ModelFileError(f"{self.name}: holds a {kind}, not a model that `unseen fit` wrote.")
        return self.estimator

    @cached_property
    def schema(self) -> Schema:
        """The columns that the model needs."""
        if not self.card.get("schema"):
            raise ModelFileError(f"{self.name}: its card does not describe the columns that the model needs.")
        return Schema.from_dict(self.card["schema"])

    @property
    def expected_performance(self) -> Forecast:
        """The score to expect on a new domain: `mean`, and a prediction interval from `lower` to `upper`.

        It is the :class:`unseen.model_selection.Forecast` of the cross-fitted scores on held-out domains, and assumes
        that a new domain differs from the training domains as they differ from each other. ``print`` shows a sentence.
        """
        if not self.card.get("expected_performance"):
            raise ModelFileError(f"{self.name}: its card does not contain the expected performance.")
        return forecast_from_dict(self.card["expected_performance"])

    def __repr__(self) -> str:
        return f"<Model: {describe_card(self.card)}>"

    def _repr_html_(self) -> str:
        return render_card(self.card)

    def save(self, path: str | os.PathLike[str], *, trusted: Iterable[str | type] = ()) -> None:
        """Write the model and its card to a file, for :func:`unseen.load_model`. An error leaves no partial file.

        Parameters
        ----------
        path : str or path
            The file, by convention with the ending ``.unseen``. An existing file is replaced.
        trusted : iterable of str or type, default=()
            Types of your own that the model contains, such as ``["sklearn.naive_bayes.GaussianNB"]``. The card lists
            them, and :func:`unseen.load_model` needs the same argument.
        """
        from ._model_file import save_model  # imports this module

        save_model(self.estimator, path, self.card, trusted=trusted)

    def predict(self, data: Any, *, sample_domain: Any = None) -> Labels:
        """Predict the classes of all rows at once; a transductive model needs at least 10 rows of each new domain.

        A model that was fitted with a threshold, which its card describes, decides by it.

        Parameters
        ----------
        data : DataFrame, dict, Series, list of dict, str, path or array-like
            The samples; a dict of values or a Series is one sample.
        sample_domain : str or array-like, default=None
            The column that names domains, or the domain of each sample. None means that all samples are of one domain,
            or that each file of a folder is one.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The predicted classes.
        """
        return self.classes_[self.table_model.decide(self._decision_proba(data, sample_domain))]

    def predict_proba(self, data: Any, *, sample_domain: Any = None, prior: Mapping[Any, float] | None = None) -> Array:
        """Predict class probabilities, calibrated on held-out domains, for the class frequencies of the training data.

        Parameters
        ----------
        data, sample_domain
            As for `predict`.
        prior : mapping of class to float, default=None
            Known class frequencies of the new domain, for which the probabilities are then: see `with_prior`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        if prior is not None:
            return self.with_prior(prior).predict_proba(data, sample_domain=sample_domain)
        return self.table_model.ensemble.with_natural_priors(self._decision_proba(data, sample_domain))

    def predict_set(self, data: Any, coverage: float | None = None, *, sample_domain: Any = None) -> list[Labels]:
        """Predict sets of classes that contain the true class of a given share of rows of new domains.

        Parameters
        ----------
        data, sample_domain
            As for `predict`.
        coverage : float, default=None
            Share of rows whose set contains the true class, on average over new domains like those of the training
            table. With m training domains at most 1 - 1/(m + 1) is attainable; a larger value raises an error. None
            means 0.9 or, with fewer than 9 domains, the largest attainable coverage, which a
            :class:`~unseen.exceptions.CoverageWarning` states.

        Returns
        -------
        sets : list of ndarray
            The classes of each row, from the most to the least probable; at least one.
        """
        ensemble = self.table_model.ensemble
        coverage = ensemble.resolve_coverage(coverage)  # raises an error before the data are read
        sets = ensemble.named_sets(self._decision_proba(data, sample_domain), coverage)
        are_full = all(len(classes) == len(self.classes_) for classes in sets)
        ensemble.warn_full_sets(are_full, coverage)
        return sets

    def with_prior(self, prior: Mapping[Any, float]) -> Model:
        """Return the model for a domain whose class frequencies are known.

        Its probabilities are p'(c | x), proportional to p(c | x) prior(c) / source(c), where source(c) is the frequency
        of the class in the training rows. This is Bayes' rule if the distribution of the features within each class is
        that of training.

        Parameters
        ----------
        prior : mapping of class to float
            Frequencies of the classes at the new domain. Classes that are not named share the rest as in training.

        Returns
        -------
        model : Model
            A model with the same members; this one is not changed.
        """
        from ._adapt import adjust_model_prior

        return adjust_model_prior(self, prior)

    def adapt(
        self, data: Any, label: str | None = None, *, level: str = "auto", domain: str | None = None, source: Any = None
    ) -> Model:
        """Adapt the model to one new domain, of which some rows have labels.

        Parameters
        ----------
        data : DataFrame, dict, list of dict, str or path
            Rows of the new domain. Rows without a label serve transductive models only.
        label : str, default=None
            The column of the classes; None means the label column of the training table.
        level : {"auto", "none", "offsets", "features", "refit"}, default="auto"
            "none" keeps the model, "offsets" fits class offsets and a temperature, "features" adds linear effects of
            the features, and "refit" fits the members again with the new domain among the source domains. "auto"
            selects "offsets" if they gain in a simulation on held-out domains and are unlikely to harm, and "features"
            if these are better in cross-validation on at least 25 labels; see :ref:`adapt`.
        domain : str, default=None
            The column of the domain of `data`, to verify that it is new; None means the domain column of the training
            table if `data` has it.
        source : DataFrame, str or path, default=None
            The training table, which "refit" needs.

        Returns
        -------
        model : Model
            The adapted model, to predict with and to save as any other. ``card["adaptation"]`` describes the level, the
            reason, the number of labels and the original model.
        """
        from ._adapt import adapt_model

        return adapt_model(self, data, label, level=level, domain=domain, source=source)

    def plan_adaptation(self) -> AdaptationPlan:
        """Simulate `adapt` on held-out domains, to plan how many labels of a new domain to collect.

        Returns
        -------
        plan : AdaptationPlan
            Expected gain against the number of labels.
        """
        return plan_adaptation(self.table_model.ensemble)

    def coefficients(self) -> pl.DataFrame:
        """Return the coefficients of a logistic model in the units of the table, to apply it in other programs.

        The log odds of a class against the first class are the intercept plus the sum of all coefficients times their
        terms. Calibration is included: with two classes ``1 / (1 + exp(-log_odds))`` is what `predict_proba` returns.

        Returns
        -------
        coefficients : polars.DataFrame
            With the columns ``class``; ``column`` of the table, empty for the intercept; ``term``, which is the column,
            its logarithm, or an indicator such as ``sex = m`` that is 1 or 0; ``coefficient``; and ``if_missing``, the
            value that replaces missing values of the column.
        """
        return pl.DataFrame(list_coefficients(self.table_model, self.schema), infer_schema_length=None)

    def read_labeled(self, data: Any, y: Any, sample_domain: Any) -> tuple[Array, Any, Ints]:
        """Return encoded rows whose label is a class of the model, the domain of each or None, and codes of labels."""
        _, rows = self._read(data, sample_domain)
        labels = rows.labels if y is None else convert_column("y", column_or_1d(y))
        if labels is None:
            raise ValueError(
                f"Labels are needed, and data have no column {self.schema.label!r}. Pass y, or data with that column."
            )
        check_consistent_length(rows.X, labels)
        codes = encode_class_labels(labels, self.classes_)
        is_known = codes >= 0  # False for NaN, a missing label
        if not is_known.any():
            raise ValueError("No label of the data is a class of the model.")
        domain = None if rows.domain is None else rows.domain[is_known]
        return rows.X[is_known], domain, codes[is_known].astype(np.intp)

    def novelty(self, data: Any, *, sample_domain: Any = None) -> NoveltyResult | dict[str, NoveltyResult]:
        """Compute the distance of samples from the source domains.

        Parameters
        ----------
        data, sample_domain
            As for `predict`.

        Returns
        -------
        novelty : NoveltyResult or dict
            The novelty of all samples or, if domains have names, of each domain by its name.
        """
        table, rows = self._read(data, sample_domain)
        facts: BatchFacts = {}
        for batch in gen_batches(len(rows.X), self._max_rows):
            part = rows.take(batch)
            facts = add_facts(facts, measure_batch(self.table_model, self.table_model.prepare(part.X), part, table))
        results = score_novelty(facts, self.table_model)
        return results[None] if rows.domain is None else results

    def _decision_proba(self, data: Any, sample_domain: Any) -> Array:
        """Return the probabilities that decide the class; warn about differences from the training data."""
        model = self.table_model
        table, rows = self._read(data, sample_domain)
        n_rows = len(rows.X)
        batches = list(gen_batches(n_rows, self._max_rows))
        if model.transductive:  # rows depend on each other
            if len(batches) > MAX_TRANSDUCTIVE_BATCHES:
                raise ValueError(
                    f"{n_rows:,} rows at once would take too much memory with this model. Use predict_table, which "
                    "reads them in batches."
                )
            batches = [slice(0, n_rows)]
        facts: BatchFacts = {}
        probabilities = []
        for batch in batches:
            part = rows.take(batch)
            prepared = model.prepare(part.X)
            facts = add_facts(facts, measure_batch(model, prepared, part, table))
            probabilities.append(model.ensemble.decision_proba(prepared, sample_domain=part.domain))
        facts["new_levels"] = rows.new_levels
        for note in describe_differences(facts, n_rows, model, table, self.card):
            warn(escape_controls(note), NewDataWarning)
        return np.concatenate(probabilities)

    @cached_property
    def _max_rows(self) -> int:
        """Number of rows whose widest intermediate result takes a bounded amount of memory."""
        return max(MIN_BATCH_ROWS, MAX_BATCH_VALUES // find_width(self.table_model))

    def _read(self, data: Any, sample_domain: Any) -> tuple[NewTable, NewRows]:
        """Read and encode all rows of a table."""
        is_column = sample_domain is None or isinstance(sample_domain, str)
        table = self.open_table(data, domain=sample_domain if is_column else None)
        rows = table.read()
        if not is_column:
            rows = rows._replace(domain=check_domains(sample_domain, len(rows.X)).astype(str))
        return table, rows

    def open_table(
        self,
        data: Any,
        *,
        domain: str | None = None,
        keep: Sequence[str] | None = None,
        missing: Mapping[str, Any] | None = None,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> NewTable:
        """Open a new table for `predict_table`. Its `notices` list the columns that are not used.

        Parameters
        ----------
        data
            As for `predict_table`.
        domain : str, default=None
            The column that names domains.
        keep : sequence of str or "all", default=None
            Columns to copy to the output, such as identifiers.
        missing : mapping of str to value or list of values, default=None
            Values that stand for missing values in the new table, such as ``{"age": -9}``, in addition to those of
            training.
        batch_size : int, default=20000
            Number of rows in memory at a time; smaller for tables with many columns.

        Returns
        -------
        table : NewTable
            The table, whose rows are read in batches.
        """
        ensemble = self.table_model.ensemble  # raises an error for other estimators before the data are read
        batch_size = min(batch_size, self._max_rows)
        if is_path(data) or has_columns(data):
            schema = self.schema.with_missing_values(missing)
        else:  # an array is encoded already
            n_features = self.table_model.preprocessor.n_features_in_
            schema = Schema.from_names(self.schema.feature_names if self.card.get("schema") else range(n_features))
        table = NewTable(data, schema, domain, batch_size, keep)
        if ensemble.smoothing and table.splits_domains:
            table.notices.append(
                "Predictions are smoothed over the nearest neighbors within a batch, so that they differ slightly from "
                "those of all rows at once. A larger batch_size makes the difference smaller."
            )
        return table

    def predict_table(
        self,
        data: Any,
        output: str | os.PathLike[str] | None = None,
        *,
        coverage: float | None = None,
        client: Any = None,
        verbose: int = 0,
        domain: str | None = None,
        keep: Sequence[str] | None = None,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> TablePredictions:
        """Predict the rows of a table in order and in batches, and compute their distance from the source domains.

        A model that centers new domains reads the table twice, and its predictions do not depend on the batches. With
        smoothing, the neighbors of a row are those within its batch.

        Parameters
        ----------
        data : DataFrame, dict, list of dict, str, path, array-like or NewTable
            The table, of any size; or the result of `open_table`, for which `domain`, `keep` and `batch_size` are not
            used.
        output : str or path, default=None
            A .csv, .parquet or .xlsx file to write; None returns a DataFrame.
        coverage : float, default=None
            Add a column of prediction sets with this coverage: see `predict_set`.
        client : dask.distributed.Client, default=None
            Client of a Dask cluster that computes the predictions; None means this process.
        verbose : int, default=0
            1 shows progress.
        domain, keep, batch_size
            As for `open_table`.

        Returns
        -------
        predictions : TablePredictions
            Summary, notices, and the DataFrame or the path of the file.
        """
        model = self.table_model
        if coverage is not None:  # an unattainable coverage raises an error before the data are read
            model.ensemble.resolve_coverage(coverage)
        if isinstance(data, NewTable):
            table = data
            notices = []  # the caller of `open_table` has them already
        else:
            table = self.open_table(data, domain=domain, keep=keep, batch_size=batch_size)
            notices = table.notices
        prediction = BatchPrediction(model, table, self.card, verbose, coverage)
        path = None if output is None else Path(output)
        with closing(prediction.frames(client)) as frames:
            frame = _concatenate(frames, path)
        summary = prediction.summary(None if path is None else str(path))
        summary["threshold"] = self.card.get("threshold") if model.threshold is not None else None
        notices = [*notices, *filter(None, [(summary["threshold"] or {}).get("text")]), *summary["differences"]]
        unknown = (summary["agreement"] or {}).get("others", {"rows": 0})
        if unknown["rows"]:
            notices.append(
                f"{format_count(unknown['rows'], 'row')} with labels that the model was not trained on, such as "
                f"{unknown['labels'][0]!r}: their predictions are always wrong."
            )
        return TablePredictions(summary, notices, frame, path)


def _concatenate(frames: Iterable[pl.DataFrame], path: Path | None) -> pl.DataFrame | None:
    """Concatenate frames, or write them to a file, which gets its name when it is complete.

    CSV follows RFC 4180: cells with commas, quotes or line breaks are quoted, and other cells are written unchanged.
    Parquet files cannot be appended to, so each frame is written to a temporary file first.
    """
    if path is None:
        return pl.concat(frames)
    check_output_path(path, *RESULT_ENDINGS)
    with atomic_write(path) as file:
        if path.suffix.lower() == ".xlsx":
            write_excel(frames, file)
            return None
        if path.suffix.lower() == ".csv":
            with file.open("wb") as text:
                for frame in frames:
                    frame.write_csv(text, include_header=not text.tell())
            return None
        with temporary_folder(path.parent) as folder:
            parts: list[Path] = []
            for frame in frames:
                parts.append(folder / f"{len(parts):09d}.parquet")
                frame.write_parquet(parts[-1])
            pl.scan_parquet(parts, glob=False).sink_parquet(file)
    return None
