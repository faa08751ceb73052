"""Prediction of a new table in batches: its columns are matched by name, and its data are compared with training.

The result of a batch depends on its rows only, so that batches can be predicted in any process. The facts of a batch
are dictionaries of values that can be added.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.special import bdtrc

from ..linalg import Array, Ints, Moments, merge_moments
from ..shift import NoveltyResult
from ..tables import (
    NEW_LEVEL_CODE,
    FrameFile,
    NewValues,
    Schema,
    Source,
    TableError,
    TablePreparation,
    are_part_names,
    as_frame,
    as_text,
    check_name_lengths,
    choose_batch_size,
    encode_class_labels,
    find_similar_column,
    format_count,
    format_unknown_column,
    has_columns,
    is_folder_or_pattern,
    is_path,
    is_readable,
    iter_file_batches,
    list_files,
    open_file,
    raise_table_error,
    translate_read_errors,
)
from ..utils.io import plain_values
from ..utils.jobs import map_on_cluster, progress
from ..utils.validation import EncodedLabels, Labels, format_list
from ._table_model import TableModel

IN_MEMORY_NAME = "The new table"  # name of a DataFrame or an array in messages, in place of a file name
MAX_NAMED_DOMAINS = 20  # in one note
MIN_MISSING_SHARE = 0.5  # a column with a larger share of missing values is mostly missing
SIGNIFICANCE_LEVEL = 0.01  # of the test that more values are missing than in training
MIN_SHIFT = 3.0  # standard deviations of a column in training, between its mean there and in new data
MIN_SHIFT_ROWS = 5  # of a new domain, fewer of which have no mean to compare
MAX_SHIFTED = 5  # columns that are named
MAX_DOMAINS = 1_000  # a column with more values probably numbers the rows
SET_SEPARATOR = " | "  # between the labels of a prediction set

BatchFacts = dict[str, dict[Any, Any]]  # statistics of rows, by kind and name; those of several batches are added
BatchResult = tuple[int, BatchFacts, "pl.DataFrame | None"]  # number of rows, their statistics and their predictions


class NewFile(NamedTuple):
    """A file of a new table, or a frame in memory."""

    name: str  # without its ending
    source: Source
    types: dict[str, Any]  # of its columns
    height: int


class RowBatch(NamedTuple):
    """Consecutive rows of a file, as they were read."""

    frame: pl.DataFrame
    rows_before: int  # number of rows before these, in all files
    file: str
    domain: str | None  # if each file is a domain


class NewRows(NamedTuple):
    """Encoded rows. The domain is None if all rows of the table are of one domain without a name."""

    X: Array
    domain: Labels | None
    new_levels: dict[str, NewValues]  # by column, levels that training did not have
    labels: pl.Series | None  # true labels, if the table has them
    kept: pl.DataFrame  # columns to copy to the output

    def take(self, batch: slice) -> NewRows:
        """Select rows, without what describes the whole table."""
        domain = None if self.domain is None else self.domain[batch]
        return NewRows(self.X[batch], domain, {}, None, self.kept[batch])


class NewTable:
    """A table to predict: one file, several files, or a DataFrame or an array in memory.

    Several files are domains, or parts of one table. The columns of the schema are found by name; an array must have
    one column for each, encoded as in training. `keep` names columns to copy to the output, or is "all" for the columns
    that all files have. `notices` lists the columns that are not used.
    """

    def __init__(
        self, data: Any, schema: Schema, domain: str | None, size: int, keep: Sequence[str] | None = None
    ) -> None:
        files: Sequence[tuple[str, Source]] = []
        are_parts = False
        if is_path(data):
            files = list_files(data)
            are_parts = are_part_names(name for name, _ in files)
        else:
            files = [(IN_MEMORY_NAME, FrameFile(_to_frame(data, schema), IN_MEMORY_NAME))]
        self._is_domain_per_file = domain is None and is_path(data) and is_folder_or_pattern(data) and not are_parts
        self.schema = schema
        self.domain = domain
        kept = [] if keep is None or keep == "all" else list(keep)
        required = kept if domain is None else [domain, *kept]
        self._files = [self._inspect(name, source.absolute(), required) for name, source in files]
        self.rows = sum(file.height for file in self._files)
        if not self.rows:
            raise TableError(["it holds no rows."], source=str(data) if is_path(data) else IN_MEMORY_NAME)
        if keep == "all":  # except columns of lists, records or raw bytes
            kept = [name for name in self._files[0].types if self.has_column(name, readable=True)]
        self._label = schema.label if schema.label and self.has_column(schema.label, readable=True) else None
        self._keep = {name: self._common_type(name) for name in kept}
        other_columns = [name for name in (domain, self._label, *self._keep) if name is not None]
        self._columns = list(dict.fromkeys([*schema.feature_names, *other_columns]))
        self._size = min(size, choose_batch_size(len(self._columns)))
        self.notices = list(dict.fromkeys(self._make_notices(are_parts)))
        self.absent_notices = list(self._describe_absent())  # differences from training, as those of values

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_files": []}  # workers receive the rows of each batch

    def _inspect(self, name: str, source: Source, required: Sequence[str]) -> NewFile:
        """Read the types of the columns and the number of rows of a file; raise if it lacks required columns."""
        lazy = open_file(source)
        types: dict[str, Any] = dict(lazy.collect_schema())
        self.schema.check_columns(types, source.name)
        raise_table_error([format_unknown_column(name, types) for name in required if name not in types], source.name)
        with translate_read_errors(source, all_exceptions=True):
            return NewFile(name, source, types, int(lazy.select(pl.len()).collect().item()))

    def _common_type(self, name: str) -> Any:
        """Return the type of a column in all files; text if they differ: the output has one type for each column."""
        kinds = {file.types[name] for file in self._files}
        if not all(map(is_readable, kinds)):
            raise TableError([f"column {name!r} cannot be kept: it holds lists, records or raw bytes, not values."])
        return kinds.pop() if len(kinds) == 1 else pl.String

    def _describe_absent(self) -> Iterator[str]:
        """Yield a sentence for each feature that some files lack."""
        for name in self.schema.feature_names:
            files = [file for file in self._files if name not in file.types]
            if not files:
                continue
            where = ""
            if len(self._files) > 1:
                where = f" from {format_list((file.source.name for file in files), quote=False)}"
            similar = find_similar_column(name, [other for other in files[0].types if other not in self._columns])
            hint = f" Did you mean {similar!r}?" if similar else ""
            yield (
                f"The column {name!r} is absent{where}. Some of its values were missing in training, so all of "
                f"them are treated as missing.{hint}"
            )

    def _make_notices(self, are_parts: bool) -> Iterator[str]:
        """Yield a sentence for each assumption, and for the columns of each file that are not used."""
        if are_parts and self.domain is None:
            yield (
                f"The {len(self._files):,} files are named like parts of one table, and read as one domain. Set domain "
                "to the name of a column to distinguish domains."
            )
        for file in self._files:
            others = self.schema.check_columns(file.types, file.source.name)
            unused = [name for name in others if name not in self._columns]
            if unused:
                names = format_list(unused, 5, quote=False)
                yield f"{format_count(len(unused), 'column')} of {file.source.name} not used: {names}."
            if self.domain is None and self.schema.domain in file.types:
                yield (
                    f"The column {self.schema.domain!r} named the domains in training; here it is ignored. Set "
                    f"the parameter domain to {self.schema.domain} to distinguish domains."
                )

    def has_column(self, name: str, *, readable: bool = False) -> bool:
        """Whether all files have a column and, if `readable`, whether it holds values rather than lists or bytes."""
        return all(name in file.types and (not readable or is_readable(file.types[name])) for file in self._files)

    @property
    def splits_domains(self) -> bool:
        """Whether rows of one domain may be in different batches."""
        is_split = len(self._files) > 1 and not self._is_domain_per_file
        return is_split or max(file.height for file in self._files) > self._size

    def batches(self) -> Iterator[RowBatch]:
        """Read all rows in order, in batches."""
        rows_before = 0
        for file in self._files:
            columns = [name for name in self._columns if name in file.types]
            for frame in iter_file_batches(file.source, columns, self._size):
                if frame.height:
                    domain = file.name if self._is_domain_per_file else None
                    yield RowBatch(frame, rows_before, file.source.name, domain)
                    rows_before += frame.height

    def encode(self, batch: RowBatch) -> NewRows:
        """Encode the rows of a batch as in training."""
        frame = batch.frame
        with translate_read_errors(Path(batch.file)):
            X = self.schema.encode(frame)
            domain = None if batch.domain is None else np.full(frame.height, batch.domain)
            if self.domain is not None:
                domain = self._read_domains(batch, self.domain)
            new_levels = self.schema.find_new_levels(frame, X)
            labels = None if self._label is None else frame[self._label]
            kept = frame.select([frame[name].cast(kind) for name, kind in self._keep.items()])
        return NewRows(X, domain, new_levels, labels, kept)

    def _read_domains(self, batch: RowBatch, column: str) -> Labels:
        labels = as_text(batch.frame[column])
        is_missing = labels.is_null()
        if is_missing.any():
            first = batch.rows_before + is_missing.arg_true()[0] + 1
            problem = f"column {column!r} names no domain for some rows, first for row {first:,}."
            raise TableError([problem], source=batch.file)
        check_name_lengths(labels, column)
        return labels.to_numpy().astype(str)

    def read(self) -> NewRows:
        """Read all rows."""
        X, domains, new_levels, labels, kept = zip(*map(self.encode, self.batches()), strict=True)
        return NewRows(
            np.concatenate(X),
            None if domains[0] is None else np.concatenate(domains),
            reduce(merge_moments, new_levels, {}),
            None if self._label is None else pl.concat([own.cast(self._common_type(self._label)) for own in labels]),
            pl.concat(kept),
        )


def _to_frame(data: Any, schema: Schema) -> pl.DataFrame:
    """Convert data with named columns, or an array with a column for each feature, to a frame."""
    if has_columns(data):
        return as_frame(data, IN_MEMORY_NAME)
    try:
        X = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "data must be a path, a DataFrame of pandas or polars, a dict, a list of dicts, or an "
            f"array of encoded numbers; got {type(data).__name__}."
        ) from error
    if X.ndim != 2 or X.shape[1] != len(schema.columns):
        raise ValueError(
            f"An array must have a row for each sample and {format_count(len(schema.columns), 'column')}, encoded as "
            f"in training; got the shape {X.shape}. Pass a DataFrame to match columns by name."
        )
    return pl.from_numpy(X, schema=schema.feature_names, orient="row")


def measure_batch(model: TableModel, prepared: Array, rows: NewRows, table: NewTable) -> BatchFacts:
    """Measure the rows of a batch: for each domain moments for its novelty, and means of columns; missing values.

    Without names there is one domain, None.
    """
    domains = list(EncodedLabels.from_domains(rows.domain, len(prepared)).iter_rows())
    features = model.novelty_features(prepared)
    missing = np.isnan(rows.X).sum(axis=0).tolist()
    facts: BatchFacts = {
        "new_levels": rows.new_levels,
        "novelty": {name: model.novelty.moments(features[chosen]) for name, chosen in domains},
        "missing": dict(zip(table.schema.feature_names, missing, strict=True)),
    }
    if isinstance(model.preprocessor, TablePreparation):
        numbers = prepared[:, : len(model.preprocessor.means_)]  # standardized, and before the levels
        facts["means"] = {name: Moments.from_values(numbers[chosen]) for name, chosen in domains}
    return facts


def add_facts(first: BatchFacts, second: BatchFacts) -> BatchFacts:
    """Add the facts of two batches."""
    return {kind: merge_moments(first.get(kind, {}), second.get(kind, {})) for kind in first | second}


def score_novelty(facts: BatchFacts, model: TableModel) -> dict[Any, NoveltyResult]:
    """The novelty of each domain by its name, None if there are no names."""
    return {name: model.novelty.score_moments(moments) for name, moments in facts["novelty"].items()}


def describe_differences(
    facts: BatchFacts, rows: int, model: TableModel, table: NewTable, card: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a sentence for each way in which new data differ from the training data.

    Parameters
    ----------
    facts : dict
        The sum of `measure_batch` over all batches.
    rows : int
        Number of rows.
    model : TableModel
        Its novelty score compares domains.
    table : NewTable
        The new table.
    card : dict
        The model card, with the missing values in training.
    """
    yield from table.absent_notices
    missing_in_training = (card.get("data") or {}).get("missing") or {}
    mostly_missing = [
        f"{name} ({n_missing:,} of {rows:,} values)"
        for name, n_missing in facts["missing"].items()
        if table.has_column(name) and _is_mostly_missing(n_missing, rows, missing_in_training.get(name, 0.0))
    ]
    if mostly_missing:
        yield f"Mostly missing here, so that predictions depend on the other columns: {format_list(mostly_missing)}."
    for name, values in facts["new_levels"].items():
        yield (
            f"The column {name!r} has values that training did not have, in {values.rows:,} of "
            f"{format_count(rows, 'row')}: {format_list(values.examples)}. They are treated as rare values."
        )
    shifted = list(_find_shifted(facts.get("means", {}), model, table))
    if shifted:
        yield (
            "Columns whose mean is far from that of training, in standard deviations: "
            f"{format_list(shifted, MAX_SHIFTED, quote=False)}. Check their units, and numbers that stand for missing "
            "values."
        )
    far = {name: result for name, result in score_novelty(facts, model).items() if result.far}
    if far:
        names = [name for name in far if name is not None]
        where = f" ({format_list(names, MAX_NAMED_DOMAINS, quote=False)})" if names else ""
        ratio = max(result.ratio for result in far.values())
        yield (
            f"The new rows{where} lie outside of the source domains: their distance is {ratio:.1f} "
            "times the distance that is usual for a source domain from the others. Check some predictions by hand."
        )


def _find_shifted(means: Mapping[Any, Moments], model: TableModel, table: NewTable) -> Iterator[str]:
    """Yield columns of numbers whose mean in a new domain is far from that of training, the farthest first."""
    for domain, moments in means.items():
        where = "" if domain is None else f" of {domain}"
        names = np.delete(table.schema.feature_names, model.preprocessor.categorical)
        farthest = np.argsort(-np.abs(moments.mean), kind="stable")[:MAX_SHIFTED]
        for i in farthest.tolist():
            shift = float(moments.mean[i])
            if moments.count >= MIN_SHIFT_ROWS and abs(shift) >= MIN_SHIFT:
                yield f"{str(names[i])!r}{where} ({shift:+,.1f})"


def _is_mostly_missing(n_missing: int, n_rows: int, share_in_training: float) -> bool:
    """Whether most values of a column are missing, and significantly more than in training."""
    if n_missing <= MIN_MISSING_SHARE * n_rows or share_in_training > MIN_MISSING_SHARE:
        return False
    p_value = bdtrc(n_missing - 1, n_rows, share_in_training)  # of n_missing or more values
    return bool(p_value < SIGNIFICANCE_LEVEL)


@dataclass
class BatchPrediction:
    """Predicts a table in one pass, or in two if new domains are centered: the first pass computes their centers.

    The centers are those of all rows. The neighbors that smooth a prediction, however, are rows of the same batch.
    """

    model: TableModel
    table: NewTable
    card: Mapping[str, Any]  # of the model, with which the new data are compared
    verbose: int
    coverage: float | None = None  # of prediction sets; None for no sets
    centers: Mapping[tuple[int, Any], Moments] | None = None  # of new domains, after the first pass
    facts: BatchFacts = field(default_factory=dict)

    def frames(self, client: Any = None) -> Generator[pl.DataFrame]:
        """Predict batch by batch, in this process or on the workers of a cluster."""
        self.model.ensemble.check_partial_batches()
        if self.model.centers_new_domains:
            for _ in self._process(self._measure_batch, "Centering", client):
                pass
            self.centers = self.facts["centers"]
            self._check_batch_sizes()
            self.facts = {}
        yield from self._process(self._predict_batch, "Predicting", client)
        self._check_batch_sizes()  # for models that smooth, the number of rows is known only now

    def _check_batch_sizes(self) -> None:
        rows = {name: moments.count for name, moments in self.facts["novelty"].items()}
        self.model.ensemble.check_batches(rows)

    def _process(self, process_batch: Callable[[RowBatch], BatchResult], title: str, client: Any) -> Iterator[Any]:
        """Process all batches in order, show progress, and add up their statistics."""
        with progress(title, self.table.rows, self.verbose) as advance:
            for n_rows, facts, frame in map_on_cluster(process_batch, self.table.batches(), client):
                self.facts = add_facts(self.facts, facts)
                if len(self.facts["novelty"]) > MAX_DOMAINS:
                    raise ValueError(
                        f"The column {self.table.domain!r} names more than {MAX_DOMAINS:,} domains; does it "
                        "number the rows? Set domain to a column that names the domain of each row."
                    )
                yield frame
                advance(n_rows)

    def _measure_batch(self, batch: RowBatch) -> BatchResult:
        """Compute the statistics of the domains of a batch, for their centers."""
        rows = self.table.encode(batch)
        prepared = self.model.prepare(rows.X)
        facts = measure_batch(self.model, prepared, rows, self.table)
        facts["centers"] = self.model.ensemble.moments(prepared, rows.domain)
        return len(prepared), facts, None

    def _predict_batch(self, batch: RowBatch) -> BatchResult:
        rows = self.table.encode(batch)
        model = self.model
        ensemble = model.ensemble
        prepared = model.prepare(rows.X)
        P = ensemble.combine_members(prepared, rows.domain, self.centers)
        natural = ensemble.with_natural_priors(P)
        codes = model.decide(P)
        facts = measure_batch(model, prepared, rows, self.table)
        facts["totals"] = {"rows": len(P), "confidence": natural.max(axis=1).sum()}
        facts["labels"] = {"predicted": np.bincount(codes, minlength=len(model.classes_))}
        if rows.labels is not None:
            true_codes = encode_class_labels(rows.labels, model.classes_)
            facts["confusion"] = count_confusion(true_codes, codes, rows.domain, len(model.classes_))
            others = as_text(rows.labels.filter(true_codes == NEW_LEVEL_CODE))
            facts["other_labels"] = {"examples": NewValues.from_series(others)}
        columns: dict[str, Any] = {} if rows.domain is None else {"domain": rows.domain}
        columns["label"] = model.classes_[codes]
        if self.coverage is not None:
            sets = ensemble.named_sets(P, self.coverage)
            facts["sets"] = {"classes": sum(map(len, sets))}
            columns["set"] = [SET_SEPARATOR.join(map(str, classes)) for classes in sets]
        columns |= {f"p({name})": natural[:, i] for i, name in enumerate(model.classes_.tolist())}
        return len(P), facts, _join_columns(rows.kept, pl.DataFrame(columns))

    def summary(self, output: str | None) -> dict[str, Any]:
        """Summarize the predictions in values that JSON can represent, after all batches were processed."""
        facts = self.facts
        n_rows = facts["totals"]["rows"]
        label_rows = zip(self.model.classes_.tolist(), facts["labels"]["predicted"].tolist(), strict=True)
        sets = None
        if self.coverage is not None:
            mean_size = facts["sets"]["classes"] / n_rows
            is_full = mean_size == len(self.model.classes_)
            note = self.model.ensemble.explain_full_sets(self.coverage) if is_full else ""
            sets = {"coverage": self.coverage, "classes": mean_size, "note": note}
        return {
            "output": output,
            "rows": n_rows,
            "labels": [{"label": label, "rows": rows} for label, rows in label_rows],
            "confidence": float(facts["totals"]["confidence"]) / n_rows,
            "transductive": self.model.transductive,
            "sets": sets,
            "agreement": self._summarize_agreement(),
            "differences": list(describe_differences(facts, n_rows, self.model, self.table, self.card)),
            "novelty": [
                plain_values({"domain": domain, **asdict(result)})
                for domain, result in score_novelty(facts, self.model).items()
            ],
        }

    def _summarize_agreement(self) -> dict[str, Any] | None:
        """Compare predictions with labels: `counts` is the confusion matrix, with a row for each label.

        `others` are labels that are not classes of the model. The result is None if no row has a label.
        """
        tables = self.facts.get("confusion", {})
        domains = []
        for name, table in tables.items():
            entry = {"domain": name, "rows": int(table[:-1].sum()), "right": int(np.trace(table))}
            if entry["rows"]:
                domains.append({**entry, "accuracy": entry["right"] / entry["rows"]})
        if not domains:
            return None
        total = np.sum(list(tables.values()), axis=0)
        others = self.facts["other_labels"]["examples"]
        rows, right = (sum(entry[key] for entry in domains) for key in ("rows", "right"))
        return {
            "rows": rows,
            "right": right,
            "accuracy": right / rows,
            "unlabeled": int(total[-1].sum()),
            "classes": self.model.classes_.tolist(),
            "counts": total[:-2].tolist(),
            "others": {"rows": others.rows, "labels": list(others.examples), "counts": total[-2].tolist()},
            "domains": domains,
        }


def count_confusion(labels: Array, predicted: Ints, domain: Labels | None, n_classes: int) -> dict[Any, Ints]:
    """Count rows of each domain by label (rows) and prediction (columns).

    The last two rows are those of labels that are not classes, with the code -1, and of missing labels, NaN.
    """
    rows = np.where(np.isnan(labels), n_classes + 1, np.where(labels == NEW_LEVEL_CODE, n_classes, labels)).astype(int)
    counts = {}
    for name, chosen in EncodedLabels.from_domains(domain, len(rows)).iter_rows():
        counts[name] = np.zeros((n_classes + 2, n_classes), dtype=np.intp)
        np.add.at(counts[name], (rows[chosen], predicted[chosen]), 1)
    return counts


def _join_columns(kept: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Join kept columns and predictions; append " (input)" to names of kept columns that occur in both."""
    taken = {*predictions.columns, *kept.columns}
    names = {name: name for name in kept.columns}
    for name in set(kept.columns).intersection(predictions.columns):
        while names[name] in taken:
            names[name] += " (input)"
    return pl.concat([kept.rename(names), predictions], how="horizontal")
