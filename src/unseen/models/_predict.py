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

from ..algebra import Array
from ..files import check_target, temporary_folder, written
from ..labels import Labels, check_domains, listed
from ..shift import NoveltyResult
from ..tables import Schema, counted, has_columns, is_path
from ._model import TableModel
from ._new_table import NewTable
from ._passes import Run, domain_moments

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
        What is worth a look, in sentences.
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

    Data are a frame of pandas or polars, the path of a table, folder or pattern, whose columns are found by name and
    encoded as those of the training table were, or an array that is encoded already.

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
        from ._file import save_model  # which makes models of files, so it comes after this

        save_model(self.estimator, path, self.card)

    def predict(self, data: Any, *, sample_domain: Any = None) -> Labels:
        """Classify all rows at once; a transductive model needs whole batches of each new domain.

        Parameters
        ----------
        data : DataFrame, str, path or array-like
            The samples.
        sample_domain : str or array-like, default=None
            The column that names domains, or the domain of each sample. None means that all are of one, or those of
            each file of a folder.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The classes.
        """
        X, domain = self._samples(data, sample_domain)
        return self.table_model.predict(X, sample_domain=domain)

    def predict_proba(self, data: Any, *, sample_domain: Any = None) -> Array:
        """Class probabilities of all rows, calibrated on held-out domains.

        Parameters
        ----------
        data, sample_domain
            As for `predict`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        X, domain = self._samples(data, sample_domain)
        return self.table_model.predict_proba(X, sample_domain=domain)

    def predict_set(self, data: Any, coverage: float = 0.9, *, sample_domain: Any = None) -> list[Labels]:
        """Tell which classes rows may have: sets that hold the true one as often as asked, on new domains.

        Parameters
        ----------
        data, sample_domain
            As for `predict`.
        coverage : float, default=0.9
            How often the true class is to be in the set, on average over new domains like those of the training table.
            With m of these at most 1 - 1/(m + 1) can be promised, as the next may be the strangest: more is refused.

        Returns
        -------
        sets : list of ndarray
            The classes of each row, the likeliest first; never none.
        """
        pool = self.table_model.pool
        pool.threshold(coverage)  # what cannot be promised is refused before anything is read
        sets = pool.named_sets(self.predict_proba(data, sample_domain=sample_domain), coverage)
        pool.warn_of_full_sets(all(len(own) == len(self.classes_) for own in sets), coverage)
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
        X, domain = self._samples(data, sample_domain)
        model, pool = self.table_model, self.table_model.pool
        prepared = model.prepare(X)
        labels = None if domain is None else check_domains(domain, len(prepared))
        P, said = pool.answer(prepared, labels), pool.members_say(prepared, labels).argmax(axis=2)
        chosen, farther = P.argmax(axis=1), model.novelty.farther(prepared)
        names = np.array(self._member_names())
        return [
            {
                "label": model.classes_[chosen[i]].item(),
                "probability": float(P[i, chosen[i]]),
                "agreement": float(pool.weights[said[:, i] == chosen[i]].sum()),
                "dissent": list(dict.fromkeys(names[said[:, i] != chosen[i]].tolist())),
                "farther": float(farther[i]),
            }
            for i in np.arange(len(X))[slice(None) if rows is None else np.asarray(rows)]
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
        X, domain = self._samples(data, sample_domain)
        model = self.table_model
        labels = None if domain is None else check_domains(domain, len(X)).astype(str)
        found = domain_moments(model, model.prepare(X), labels)
        results = {str(name): model.novelty.of(moments) for name, moments in found.items()}
        return results if labels is not None else results["None"]

    def _samples(self, data: Any, sample_domain: Any) -> tuple[Array, Any]:
        """Encoded samples, and the domain of each if there are several."""
        if not is_path(data) and not has_columns(data):
            return np.asarray(data, dtype=np.float64), sample_domain
        column = sample_domain if isinstance(sample_domain, str) else None
        X, domain = self.open_table(data, domain=column).whole()
        return X, domain if column is not None or sample_domain is None else sample_domain

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
                "Rows are smoothed by their nearest neighbours among those that are read at a time, so predictions "
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

        A model that centres new domains reads the table twice, and says of each row what it would say of it among all.
        One that smooths looks for the neighbours of a row among those that are read with it.

        Parameters
        ----------
        data : DataFrame, str, path, array-like or NewTable
            The table, of any size; with what `open_table` gave, `domain` and `keep` are known already.
        output : str or path, default=None
            A .csv or .parquet file to write; None gives a frame.
        center : {"model", "target"}, default="model"
            Centre projections as the model was fitted, or on the new rows of each domain (transductive).
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
            model.require_centre()
        table = data if isinstance(data, NewTable) else self.open_table(data, **columns)
        run = Run(model, table, verbose, center == "target", sets)
        path = None if output is None else Path(output)
        with closing(run.frames(client)) as frames:
            frame = _together(frames, path)
        summary = run.summary(None if path is None else str(path), before)
        return TablePredictions(summary, list(_notices(summary)), frame, path)

    def _missing_in_training(self) -> dict[str, float]:
        """The share of missing values in columns of the training table; older models do not tell."""
        try:
            return {str(name): float(share) for name, share in self.card.get("data", {}).get("missing", {}).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise ModelFileError(f"{self.name}: its card does not say what was missing in training.") from error


def _notices(summary: dict[str, Any]) -> Iterator[str]:
    """What is mostly missing, looks like a formula, or is a value that the model knows nothing of."""
    if summary["mostly_missing"]:
        columns = [f"{e['column']} ({e['missing']:,} of {summary['rows']:,} values)" for e in summary["mostly_missing"]]
        yield f"Mostly missing here, so the predictions rest on the other columns: {listed(columns)}."
    names = [entry["label"] for entry in summary["labels"]] + [entry["domain"] for entry in summary["novelty"]]
    risky = [name for name in names if isinstance(name, str) and name.startswith(FORMULA)]
    if risky and (summary["output"] or "").lower().endswith(".csv"):
        yield (
            f"Names such as {risky[0]!r} look like formulas to a spreadsheet. They are written as they are; import "
            "their column as text."
        )
    for entry in summary["new_levels"]:
        yield (
            f"The column {entry['column']!r} holds what training did not, in {entry['rows']:,} of "
            f"{counted(summary['rows'], 'row')}: {listed(entry['levels'])}. Such values count as rare ones."
        )
    others = (summary["agreement"] or {}).get("others", {"rows": 0})
    if others["rows"]:
        yield (
            f"{counted(others['rows'], 'row')} with labels that the model was not trained on, such as "
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
    with written(path) as file:
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
