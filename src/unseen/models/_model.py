"""A model with its card, which says what it needs of a table: predictions of frames, files and arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..exceptions import NewDataWarning, warn
from ..linalg import Array
from ..shift import NoveltyResult
from ..tables import Schema, format_count, has_columns, is_path
from ..utils.io import atomic_write, check_target, temporary_folder
from ..utils.validation import Labels, check_domains
from ._batch_prediction import BatchPrediction, domain_moments
from ._new_data import NewTable, as_array
from ._new_data_notes import new_data_facts, new_data_notes, novelty_entries
from ._table_model import TableModel

if TYPE_CHECKING:
    import polars as pl

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes spreadsheets take a cell for a formula
BATCH = 20_000  # rows in memory at a time
RESULT_ENDINGS = (".csv", ".parquet")


class ModelFileError(ValueError):
    """A file is no model, is damaged, or cannot be read by this version."""


@dataclass(frozen=True)
class TablePredictions:
    """What :meth:`unseen.models.Model.predict_table` found.

    Attributes
    ----------
    summary : dict
        Numbers of rows and labels, agreement with the labels of the table, novelty of each domain: JSON-able.
    notices : list of str
        What is worth a look, in sentences: how the table differs from that of training, and what of it is not used.
        What :meth:`~unseen.models.Model.open_table` said is not repeated for a table that it opened.
    frame : polars.DataFrame or None
        A row for each row of the table; None if they were written to a file.
    path : Path or None
        That file.
    """

    summary: dict[str, Any]
    notices: list[str]
    frame: pl.DataFrame | None = None
    path: Path | None = None


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model and its card, as :func:`unseen.fit` and :func:`unseen.load_model` give it.

    Data are a frame of pandas or polars, a dict of columns, a list of dicts, a structured array, or the path of a
    table, folder or pattern: their columns are found by name and encoded as those of the training table were. A dict of
    values or a Series of pandas is one row. An array is taken as encoded already.

    Predictions of data that differ from the training data, by new categories, missing columns or their distance from
    the source domains, come with a :class:`~unseen.exceptions.NewDataWarning` for each difference, in the words that
    ``unseen predict`` prints.

    Parameters
    ----------
    estimator : TableModel or estimator
        What was saved. Predictions are those of a :class:`unseen.models.TableModel`.
    card : dict
        What is known about it.
    name : str, default="The model"
        What to call it in errors: the file.
    """

    estimator: Any
    card: dict[str, Any] = field(repr=False)
    name: str = "The model"

    @property
    def classes_(self) -> Labels:
        """The classes, in the order of the columns of `predict_proba`."""
        return self.table_model.classes_

    @property
    def table_model(self) -> TableModel:
        """The estimator, if it is one for tables."""
        if not isinstance(self.estimator, TableModel):
            kind = type(self.estimator).__name__
            raise ModelFileError(f"{self.name}: holds a {kind}, not a model that `unseen fit` wrote.")
        return self.estimator

    @cached_property
    def schema(self) -> Schema:
        """The columns that the model needs."""
        try:
            return Schema.from_dict(self.card["schema"])
        except (KeyError, TypeError, ValueError) as error:
            reason = " ".join(getattr(error, "problems", []))
            text = f"{self.name}: its card does not say which columns the model needs. {reason}"
            raise ModelFileError(text.strip()) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its card to a file, whole or not at all; :func:`unseen.load_model` reads it.

        Parameters
        ----------
        path : str or path
            The file, by custom with the ending ``.unseen``; an existing one is replaced.
        """
        from ._model_file import save_model  # which makes models of files, so it comes after this

        save_model(self.estimator, path, self.card)

    def predict(self, data: Any, *, sample_domain: Any = None) -> Labels:
        """Classify all rows at once; a transductive model needs at least 10 rows of each new domain.

        Parameters
        ----------
        data : DataFrame, dict, Series, list of dict, structured array, str, path or array-like
            The samples; a dict of values or a Series is one.
        sample_domain : str or array-like, default=None
            The column that names domains, or the domain of each sample. None means that all are of one, or those of
            each file of a folder.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The classes.
        """
        prepared, domain = self._prepared(data, sample_domain)
        return self.table_model.pool.predict(prepared, sample_domain=domain)

    def predict_proba(self, data: Any, *, sample_domain: Any = None) -> Array:
        """Class probabilities of all rows, calibrated on held-out domains, under the natural class frequencies.

        Parameters
        ----------
        data, sample_domain
            As for `predict`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        prepared, domain = self._prepared(data, sample_domain)
        return self.table_model.pool.predict_proba(prepared, sample_domain=domain)

    def predict_set(self, data: Any, coverage: float | None = None, *, sample_domain: Any = None) -> list[Labels]:
        """Tell which classes rows may have: sets that hold the true one as often as asked, on new domains.

        Parameters
        ----------
        data, sample_domain
            As for `predict`.
        coverage : float, default=None
            How often the true class is to be in the set, on average over new domains like those of the training table.
            With m of these at most 1 - 1/(m + 1) is attainable, as the next may be the strangest: more is refused. None
            means 0.9 or, with fewer than 9 domains, the largest attainable coverage, which a
            :class:`~unseen.exceptions.CoverageWarning` states.

        Returns
        -------
        sets : list of ndarray
            The classes of each row, the likeliest first; never none.
        """
        pool = self.table_model.pool
        coverage = pool.resolve_coverage(coverage)  # before anything is read
        prepared, domain = self._prepared(data, sample_domain)
        sets = pool.named_sets(pool.decision_proba(prepared, sample_domain=domain), coverage)
        pool.warn_of_full_sets(all(len(classes) == len(self.classes_) for classes in sets), coverage)
        return sets

    def explain(self, data: Any, rows: Any = None, *, sample_domain: Any = None) -> list[dict[str, Any]]:
        """Tell what single predictions rest on.

        Parameters
        ----------
        data, sample_domain
            As for `predict`.
        rows : array-like of int or bool, default=None
            Which rows to tell of; None means all.

        Returns
        -------
        told : list of dict
            Of each row its `label` and that label's `probability`; `agreement`, the share of the pool's weight whose
            members would have said the same; `dissent`, the names of the others; and `farther`, the share of training
            rows that lie farther out than this one: 0 is stranger than all of them.
        """
        model, pool = self.table_model, self.table_model.pool
        prepared, domain = self._prepared(data, sample_domain)
        labels = None if domain is None else check_domains(domain, len(prepared))
        decisions = pool.decision_proba(prepared, sample_domain=labels)
        chosen, P = decisions.argmax(axis=1), pool.with_natural_priors(decisions)
        said = pool.members_say(prepared, labels).argmax(axis=2)
        farther = model.novelty.score_samples(prepared)
        names = np.array(self._member_names())
        return [
            {
                "label": model.classes_[chosen[i]].item(),
                "probability": float(P[i, chosen[i]]),
                "agreement": float(pool.weights[said[:, i] == chosen[i]].sum()),
                "dissent": list(dict.fromkeys(names[said[:, i] != chosen[i]].tolist())),
                "farther": float(farther[i]),
            }
            for i in np.arange(len(prepared))[slice(None) if rows is None else np.asarray(rows)]
        ]

    def _member_names(self) -> list[str]:
        """What the card calls the members of the pool, or what they are made of."""
        members = self.table_model.pool.members_
        told = [str(one["model"]) for one in self.card.get("pool", {}).get("members", [])]
        made = [" + ".join(type(step).__name__ for _, step in member.steps) for member in members]
        return told if len(told) == len(members) else made

    def novelty(self, data: Any, *, sample_domain: Any = None) -> NoveltyResult | dict[str, NoveltyResult]:
        """Tell how far samples lie from those that the model was fitted on.

        Parameters
        ----------
        data, sample_domain
            As for `predict`.

        Returns
        -------
        novelty : NoveltyResult or dict
            How far all of them lie; or those of each domain, by its name, if domains have names.
        """
        X, domain, _ = self._encoded(data, sample_domain)
        model = self.table_model
        found = domain_moments(model, model.prepare(X), _as_text(domain))
        results = {str(name): model.novelty.score_moments(moments) for name, moments in found.items()}
        return results if domain is not None else results["None"]

    def _prepared(self, data: Any, sample_domain: Any) -> tuple[Array, Any]:
        """Samples as the pool sees them and their domains; warns of differences from the training data."""
        model = self.table_model
        X, domain, facts = self._encoded(data, sample_domain)
        prepared = model.prepare(X)
        moments = domain_moments(model, prepared, _as_text(domain))
        facts["novelty"] = novelty_entries(model.novelty, moments)
        for note in new_data_notes(facts, len(X)):
            warn(note, NewDataWarning)
        return prepared, domain

    def _encoded(self, data: Any, sample_domain: Any) -> tuple[Array, Any, dict[str, Any]]:
        """Encoded samples, the domain of each if there are several, and how they differ from the training data."""
        if not is_path(data) and not has_columns(data):
            X = as_array(data)
            if X.ndim != 2:
                raise ValueError(f"An array must have a row for each sample; got the shape {X.shape}.")
            return X, sample_domain, new_data_facts(len(X), [], {}, {}, {}, [])
        column = sample_domain if isinstance(sample_domain, str) else None
        table = self.open_table(data, domain=column)
        X, domain, new_levels = table.whole()
        missing = dict(zip(self.schema.feature_names, np.isnan(X).sum(axis=0).tolist(), strict=True))
        facts = new_data_facts(len(X), table.absent, missing, self._missing_in_training(), new_levels, [])
        return X, domain if column is not None or sample_domain is None else sample_domain, facts

    def open_table(
        self, data: Any, *, domain: str | None = None, keep: Sequence[str] | None = None, batch_size: int = BATCH
    ) -> NewTable:
        """Open a new table for `predict_table`; its `notices` say what of it plays no part, before any work is done.

        Parameters
        ----------
        data
            As for `predict_table`.
        domain : str, default=None
            The column that tells domains apart.
        keep : sequence of str or "all", default=None
            Columns to copy into the output, such as identifiers.
        batch_size : int, default=20000
            Rows in memory at a time; fewer if they are wide.

        Returns
        -------
        table : NewTable
            Whose rows are read in pieces.
        """
        pool, table = self.table_model.pool, NewTable(data, self.schema, domain, batch_size, keep)
        if pool.smoothing and table.is_parted:
            table.notices.append(
                "Rows are smoothed by their nearest neighbors among those that are read at a time, so predictions "
                "differ a little from those of all rows at once. A larger --batch-size brings them closer."
            )
        return table

    def predict_table(
        self,
        data: Any,
        output: str | os.PathLike[str] | None = None,
        *,
        center: Literal["model", "target"] = "model",
        sets: float | None = None,
        client: Any = None,
        verbose: int = 0,
        **columns: Any,
    ) -> TablePredictions:
        """Predict the rows of a table, in their order and a few at a time, and say how far they lie from the sources.

        A model that centers new domains reads the table twice, and says of each row what it would say of it among all.
        One that smooths looks for the neighbors of a row among those that are read with it.

        Parameters
        ----------
        data : DataFrame, dict, list of dict, structured array, str, path, array-like or NewTable
            The table, of any size; with what `open_table` gave, `domain` and `keep` are known already.
        output : str or path, default=None
            A .csv or .parquet file to write; None gives a frame.
        center : {"model", "target"}, default="model"
            Center projections as the model was fitted, or on the new rows of each domain (transductive).
        sets : float, default=None
            Add a column of sets of labels that hold the true one so often: see `predict_set`.
        client : dask.distributed.Client, default=None
            Whose workers do it; None means here.
        verbose : int, default=0
            1 shows progress.
        **columns : dict
            `domain`, the column that tells domains apart, and `keep`, a sequence of columns to copy into the output,
            such as identifiers, or "all".

        Returns
        -------
        predictions : TablePredictions
            Summary, notices, and the frame or the path of the file.
        """
        if center not in ("model", "target"):
            raise ValueError(f"center must be 'model' or 'target'; got {center!r}.")
        model, before = self.table_model, self._missing_in_training()
        if sets is not None:  # what cannot be promised is refused before anything is read
            model.pool.threshold(sets)
        if center == "target":
            model.require_center()
        table = data if isinstance(data, NewTable) else self.open_table(data, **columns)
        run = BatchPrediction(model, table, verbose, center == "target", sets)
        path = None if output is None else Path(output)
        with closing(run.frames(client)) as frames:
            frame = _together(frames, path)
        summary = run.summary(None if path is None else str(path), before)
        opened = [] if isinstance(data, NewTable) else table.notices  # who opened the table has these already
        return TablePredictions(summary, [*opened, *_notices(summary)], frame, path)

    def _missing_in_training(self) -> dict[str, float]:
        """The share of missing values in columns of the training table; older models do not tell."""
        try:
            return {str(name): float(share) for name, share in self.card.get("data", {}).get("missing", {}).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise ModelFileError(f"{self.name}: its card does not say what was missing in training.") from error


def _as_text(domain: Any) -> Labels | None:
    """Names of domains, as novelty is told by them."""
    return None if domain is None else np.asarray(domain).astype(str)


def _notices(summary: dict[str, Any]) -> Iterator[str]:
    """How the table differs from that of training, and names that look like formulas or are new to the model."""
    yield from new_data_notes(summary, summary["rows"])
    names = [entry["label"] for entry in summary["labels"]] + [entry["domain"] for entry in summary["novelty"]]
    risky = [name for name in names if isinstance(name, str) and name.startswith(FORMULA)]
    if risky and (summary["output"] or "").lower().endswith(".csv"):
        yield (
            f"Names such as {risky[0]!r} look like formulas to a spreadsheet. They are written as they are; import "
            "their column as text."
        )
    others = (summary["agreement"] or {}).get("others", {"rows": 0})
    if others["rows"]:
        yield (
            f"{format_count(others['rows'], 'row')} with labels that the model was not trained on, such as "
            f"{others['labels'][0]!r}: no prediction can be right there."
        )


def _together(frames: Iterable[pl.DataFrame], path: Path | None) -> pl.DataFrame | None:
    """All frames in one, or in a file, which has its name only at the end, if nothing was raised.

    Text follows RFC 4180: cells with commas, quotes or line breaks are quoted, and nothing else is changed. Parquet
    cannot be appended to, so its pieces are files of their own until the end.
    """
    import polars as pl

    if path is None:
        return pl.concat(frames)
    check_target(path, *RESULT_ENDINGS)
    with atomic_write(path) as file:
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
