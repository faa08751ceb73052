"""Prediction of a new table in batches: its columns are matched by name, and its data are compared with training.

The result of a batch depends on its rows only, so that batches can be predicted in any process. The facts of a batch
are dictionaries of values that can be added.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.special import bdtrc

from ..estimators import map_on_cluster
from ..linalg import Array, Moments, merge_moments
from ..model_selection import TablePreparation
from ..tables import (
    Column,
    FrameFile,
    NewValues,
    Schema,
    Source,
    TableError,
    are_part_names,
    as_frame,
    as_text,
    check_name_lengths,
    choose_batch_size,
    count_agreement,
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
    select_formulas,
    summarize_agreement,
    translate_read_errors,
)
from ..utils.progress import progress
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


class NewTable:
    """A table to predict: one file, several files, or a DataFrame or an array in memory.

    Several files are domains, or parts of one table. The columns of the schema are found by name; an array must have
    one column for each, encoded as in training. `keep` names columns to copy to the output, or is "all" for the columns
    that all files have. `notices` lists the columns that are not used.
    """

    def __init__(
        self, data: Any, schema: Schema, domain: str | None, size: int, keep: Sequence[str] | None = None
    ) -> None:
        files: Sequence[tuple[str, Source]]
        if is_path(data):
            files = list_files(data)
            are_parts = are_part_names(name for name, _ in files)
            self._is_domain_per_file = domain is None and is_folder_or_pattern(data) and not are_parts
        else:
            files = [(IN_MEMORY_NAME, FrameFile(_to_frame(data, schema), IN_MEMORY_NAME))]
            are_parts = False
            self._is_domain_per_file = False
            if not has_columns(data):  # an array is encoded already, so that its levels are numbers
                schema = replace(schema, columns=tuple(Column(name, "numeric") for name in schema.feature_names))
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
        self.absent = self._absent_features()  # features that some files lack, in plain values
        self._size = min(size, choose_batch_size(len(self._columns)))
        self.notices = list(dict.fromkeys(self._make_notices(are_parts)))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_files": []}  # workers receive the rows of each batch

    def _inspect(self, name: str, source: Source, required: Sequence[str]) -> NewFile:
        """Read the types of the columns and the number of rows of a file; raise if it lacks required columns."""
        lazy = open_file(source)
        types: dict[str, Any] = dict(lazy.collect_schema())
        self.schema.check_columns(types, source.name)
        problems = [format_unknown_column(name, types) for name in required if name not in types]
        if problems:
            raise TableError(problems, source=source.name)
        with translate_read_errors(source, all_exceptions=True):
            return NewFile(name, source, types, int(lazy.select(pl.len()).collect().item()))

    def _common_type(self, name: str) -> Any:
        """Return the type of a column in all files; text if they differ: the output has one type for each column."""
        kinds = {file.types[name] for file in self._files}
        if not all(map(is_readable, kinds)):
            raise TableError([f"column {name!r} cannot be kept: it holds lists, records or raw bytes, not values."])
        return kinds.pop() if len(kinds) == 1 else pl.String

    def _absent_features(self) -> list[dict[str, Any]]:
        """List features that some files lack: the names of these files if there are several, and a similar column."""
        absent: dict[str, dict[str, Any]] = {}
        for file in self._files:
            unused = [name for name in file.types if name not in self._columns]
            for name in self.schema.find_absent(file.types):
                entry: dict[str, Any] = {"column": name, "files": [], "similar": find_similar_column(name, unused)}
                entry = absent.setdefault(name, entry)
                if len(self._files) > 1:
                    entry["files"].append(file.source.name)
        return list(absent.values())

    def _make_notices(self, are_parts: bool) -> Iterator[str]:
        """Yield a sentence for each assumption, and for the columns of each file that are not used."""
        if are_parts and self.domain is None:
            yield (
                f"The {len(self._files):,} files are named like parts of one table, and read as one domain. Set domain "
                "to the name of a column to distinguish domains."
            )
        used = set(self._columns)
        for file in self._files:
            unused = [name for name in self.schema.check_columns(file.types, file.source.name) if name not in used]
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
        is_missing = labels.is_null().to_numpy()
        if is_missing.any():
            first = batch.rows_before + int(is_missing.argmax()) + 1
            problem = f"column {column!r} names no domain for some rows, first for row {first:,}."
            raise TableError([problem], source=batch.file)
        check_name_lengths(labels, column)
        return np.asarray(labels).astype(str)

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


def _to_frame(data: Any, schema: Schema) -> Any:
    """Convert data with named columns, or an array with a column for each feature, to a frame."""
    if has_columns(data):
        return as_frame(data, IN_MEMORY_NAME)
    X = as_array(data)
    if X.ndim != 2 or X.shape[1] != len(schema.columns):
        raise ValueError(
            f"An array must have a row for each sample and {format_count(len(schema.columns), 'column')}, encoded as "
            f"in training; got the shape {X.shape}. Pass a DataFrame to match columns by name."
        )
    return as_frame(dict(zip(schema.feature_names, X.T, strict=True)), IN_MEMORY_NAME)


def as_array(data: Any) -> Array:
    """Convert samples that are encoded already to an array of floats."""
    try:
        return np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "data must be a path, a DataFrame of pandas or polars, a dict, a list of dicts, or an "
            f"array of encoded numbers; got {type(data).__name__}."
        ) from error


def measure_batch(
    model: TableModel, prepared: Array, domain: Labels | None, table: NewTable | None, X: Array
) -> BatchFacts:
    """Measure the rows of a batch: moments for the novelty of each domain and, for tables, missing values and means.

    Without names there is one domain, None.
    """
    domains = list(EncodedLabels.from_domains(domain, len(X)).iter_rows())
    features = model.novelty_features(prepared)
    facts: BatchFacts = {"novelty": {name: model.novelty.moments(features[rows]) for name, rows in domains}}
    if table is not None:
        missing = np.isnan(X).sum(axis=0).tolist()
        facts["missing"] = dict(zip(table.schema.feature_names, missing, strict=True))
        if isinstance(model.preprocessor, TablePreparation):
            numbers = prepared[:, : len(model.preprocessor.means_)]  # standardized, and before the levels
            facts["means"] = {name: Moments.from_values(numbers[rows]) for name, rows in domains}
    return facts


def add_facts(first: BatchFacts, second: BatchFacts) -> BatchFacts:
    """Add the facts of two batches."""
    return {kind: merge_moments(first.get(kind, {}), second.get(kind, {})) for kind in first | second}


def describe_differences(
    facts: BatchFacts, rows: int, model: TableModel, table: NewTable | None, card: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe the differences of new data from the training data, in values that JSON can represent.

    Parameters
    ----------
    facts : dict
        The sum of `measure_batch` over all batches, and `new_levels` of the table.
    rows : int
        Number of rows.
    model : TableModel
        Its novelty score compares domains.
    table : NewTable or None
        The new table; None for an array, which has no columns to compare.
    card : dict
        The model card, with the missing values in training.
    """
    absent = [] if table is None else table.absent
    absent_columns = {entry["column"] for entry in absent}
    missing_in_training = (card.get("data") or {}).get("missing") or {}
    novelty = []
    for domain, moments in facts["novelty"].items():
        result = asdict(model.novelty.score_moments(moments))
        values = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in result.items()}
        novelty.append({"domain": domain, **values})
    return {
        "absent": absent,
        "mostly_missing": [
            {"column": name, "missing": n}
            for name, n in facts.get("missing", {}).items()
            if name not in absent_columns and _is_mostly_missing(n, rows, missing_in_training.get(name, 0.0))
        ],
        "new_levels": [
            {"column": name, "rows": values.rows, "levels": list(values.examples)}
            for name, values in facts.get("new_levels", {}).items()
        ],
        "novelty": novelty,
        "shifted": list(_find_shifted(facts["means"], model, table)) if table and "means" in facts else [],
    }


def _find_shifted(means: Mapping[Any, Moments], model: TableModel, table: NewTable) -> Iterator[dict[str, Any]]:
    """Yield columns of numbers whose mean in a new domain is far from that of training, the farthest first."""
    names = table.schema.feature_names
    numeric = [name for i, name in enumerate(names) if i not in model.preprocessor.categorical]
    for domain, moments in means.items():
        farthest = np.argsort(-np.abs(moments.mean), kind="stable")[:MAX_SHIFTED]
        for i in farthest.tolist():
            shift = float(moments.mean[i])
            if moments.count >= MIN_SHIFT_ROWS and abs(shift) >= MIN_SHIFT:
                yield {"domain": domain, "column": numeric[i], "shift": shift}


def _is_mostly_missing(n_missing: int, n_rows: int, share_in_training: float) -> bool:
    """Whether most values of a column are missing, and significantly more than in training."""
    if n_missing <= MIN_MISSING_SHARE * n_rows or share_in_training > MIN_MISSING_SHARE:
        return False
    p_value = bdtrc(n_missing - 1, n_rows, share_in_training)  # of n_missing or more values
    return bool(p_value < SIGNIFICANCE_LEVEL)


def difference_notes(facts: Mapping[str, Any], rows: int) -> Iterator[str]:
    """Yield a sentence for each way in which new data differ from the training data."""
    for entry in facts["absent"]:
        where = f" from {format_list(entry['files'], quote=False)}" if entry["files"] else ""
        hint = f" Did you mean {entry['similar']!r}?" if entry["similar"] else ""
        yield (
            f"The column {entry['column']!r} is absent{where}. Some of its values were missing in training, so all of "
            f"them are treated as missing.{hint}"
        )
    if facts["mostly_missing"]:
        columns = [f"{entry['column']} ({entry['missing']:,} of {rows:,} values)" for entry in facts["mostly_missing"]]
        yield f"Mostly missing here, so that predictions depend on the other columns: {format_list(columns)}."
    for entry in facts["new_levels"]:
        yield (
            f"The column {entry['column']!r} has values that training did not have, in {entry['rows']:,} of "
            f"{format_count(rows, 'row')}: {format_list(entry['levels'])}. They are treated as rare values."
        )
    if facts["shifted"]:
        texts = []
        for entry in facts["shifted"]:
            where = "" if entry["domain"] is None else f" of {entry['domain']}"
            texts.append(f"{entry['column']!r}{where} ({entry['shift']:+,.1f})")
        yield (
            "Columns whose mean is far from that of training, in standard deviations: "
            f"{format_list(texts, MAX_SHIFTED, quote=False)}. Check their units, and numbers that stand for missing "
            "values."
        )
    far = [entry for entry in facts["novelty"] if entry["far"]]
    if far:
        names = [str(entry["domain"]) for entry in far if entry["domain"] is not None]
        where = f" ({format_list(names, MAX_NAMED_DOMAINS, quote=False)})" if names else ""
        farthest = max(far, key=lambda entry: entry["ratio"] or 0.0)
        yield (
            f"The new rows{where} lie outside of the source domains: their distance is {farthest['ratio'] or 0.0:.1f} "
            "times the distance that is usual for a source domain from the others. Check some predictions by hand."
        )


@dataclass
class BatchPrediction:
    """Predicts a table in one pass, or in two if new domains are centered: the first pass computes their centers.

    The centers are those of all rows. The neighbors that smooth a prediction, however, are rows of the same batch.
    """

    model: TableModel
    table: NewTable
    verbose: int
    coverage: float | None = None  # of prediction sets; None for no sets
    card: Mapping[str, Any] = field(default_factory=dict)  # of the model, with which the new data are compared
    centers: Mapping[tuple[int, Any], Moments] | None = None  # of new domains, after the first pass
    facts: BatchFacts = field(default_factory=dict)

    def frames(self, client: Any = None) -> Generator[pl.DataFrame]:
        """Predict batch by batch, in this process or on the workers of a cluster."""
        self.model.ensemble.check_partial_batches()
        if self.model.centers_new_domains:
            for _ in self._process("Centering", client):
                pass
            self.centers = self.facts["centers"]
            self._check_batch_sizes()
        yield from self._process("Predicting", client)
        self._check_batch_sizes()  # for models that smooth, the number of rows is known only now

    def _check_batch_sizes(self) -> None:
        rows = {name: moments.count for name, moments in self.facts["novelty"].items()}
        self.model.ensemble.check_batches(rows)

    def _process(self, description: str, client: Any) -> Iterator[Any]:
        """Process all batches in order, show progress, and add up their statistics."""
        with progress(description, self.table.rows, self.verbose) as advance:
            for n_rows, facts, frame in map_on_cluster(self._process_batch, self.table.batches(), client):
                self.facts = add_facts(self.facts, facts)
                if len(self.facts["novelty"]) > MAX_DOMAINS:
                    raise ValueError(
                        f"The column {self.table.domain!r} names more than {MAX_DOMAINS:,} domains; does it "
                        "number the rows? Set domain to a column that names the domain of each row."
                    )
                yield frame
                advance(n_rows)

    def _process_batch(self, rows: RowBatch) -> BatchResult:
        """Compute the statistics of the domains of a batch in the first pass, and its predictions in the last."""
        batch = self.table.encode(rows)
        model = self.model
        ensemble = model.ensemble
        facts: BatchFacts = {}
        prepared = model.prepare(batch.X)
        if self.centers is None:
            facts = measure_batch(model, prepared, batch.domain, self.table, batch.X)
            if model.centers_new_domains:
                facts["centers"] = ensemble.moments(prepared, batch.domain)
                return len(batch.X), facts, None
        P = ensemble.combine_members(prepared, batch.domain, self.centers)
        labels = model.classes_[model.decide(P)]
        facts["labels"] = Counter(labels.tolist())
        facts["new_levels"] = batch.new_levels
        texts = [column for column in batch.kept if column.dtype == pl.String]
        facts["formulas"] = {text.name: NewValues.from_series(select_formulas(text)) for text in texts}
        if batch.labels is not None:
            facts["agreement"], others = count_agreement(batch.labels, labels, model.classes_, batch.domain)
            facts["other_labels"] = {"label": others}
        columns: dict[str, Any] = {}
        if batch.domain is not None:
            columns["domain"] = batch.domain
        columns["label"] = labels
        if self.coverage is not None:
            sets = ensemble.named_sets(P, self.coverage)
            facts["sets"] = {"classes": sum(map(len, sets)), "rows": len(sets)}
            columns["set"] = np.array([SET_SEPARATOR.join(map(str, classes)) for classes in sets])
        natural = ensemble.with_natural_priors(P)
        facts["confidence"] = {"sum": float(natural.max(axis=1).sum())}
        for i, name in enumerate(model.classes_.tolist()):
            columns[f"p({name})"] = natural[:, i]
        return len(batch.X), facts, _join_columns(batch.kept, columns)

    def summary(self, output: str | None) -> dict[str, Any]:
        """Summarize the predictions in values that JSON can represent, after all batches were processed."""
        facts = self.facts
        n_rows = sum(facts["labels"].values())
        agreement = None
        if "agreement" in facts:
            others = facts["other_labels"]["label"]
            agreement = summarize_agreement(facts["agreement"], others, self.model.classes_)
        return {
            "output": output,
            "rows": n_rows,
            "labels": [
                {"label": label, "rows": facts["labels"].get(label, 0)} for label in self.model.classes_.tolist()
            ],
            "confidence": facts["confidence"]["sum"] / n_rows,
            "transductive": self.model.transductive,
            "sets": self._summarize_sets(),
            "agreement": agreement,
            **describe_differences(facts, n_rows, self.model, self.table, self.card),
        }

    def _summarize_sets(self) -> dict[str, Any] | None:
        """Return coverage and mean size of the prediction sets, with a note if all sets contain all classes."""
        if self.coverage is None:
            return None
        mean_size = self.facts["sets"]["classes"] / self.facts["sets"]["rows"]
        is_full = mean_size == len(self.model.classes_)
        note = self.model.ensemble.explain_full_sets(self.coverage) if is_full else ""
        return {"coverage": self.coverage, "classes": mean_size, "note": note}


def _join_columns(kept: Any, predictions: dict[str, Any]) -> pl.DataFrame:
    """Join kept columns and predictions; append " (input)" to names of kept columns that occur in both."""
    taken = {*predictions, *kept.columns}
    names = {name: name for name in kept.columns}
    for name in set(kept.columns).intersection(predictions):
        while names[name] in taken:
            names[name] += " (input)"
    return pl.concat([kept.rename(names), pl.DataFrame(predictions)], how="horizontal")
