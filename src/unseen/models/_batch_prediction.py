"""Prediction of a new table in batches, and how its data differ from the training data.

The result of a batch depends on its rows only, so that batches can be predicted in any process. The facts of a batch
are dictionaries of values that can be added.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import polars as pl
from scipy.special import bdtrc

from ..estimators import map_on_cluster
from ..linalg import Array, Moments, merge_moments
from ..model_selection import TablePreparation
from ..tables import NewValues, count_agreement, format_count, select_formulas, summarize_agreement
from ..utils.progress import progress
from ..utils.validation import EncodedLabels, Labels, format_list
from ._new_data import NewRows, NewTable, RowRange
from ._table_model import TableModel

BatchFacts = dict[str, dict[Any, Any]]  # statistics of rows, by kind and name; those of several batches are added

MAX_NAMED_DOMAINS = 20  # in one note
MIN_MISSING_SHARE = 0.5  # a column with a larger share of missing values is mostly missing
SIGNIFICANCE_LEVEL = 0.01  # of the test that more values are missing than in training
MIN_SHIFT = 3.0  # standard deviations of a column in training, between its mean there and in new data
MIN_SHIFT_ROWS = 5  # of a new domain, fewer of which have no mean to compare
MAX_SHIFTED = 5  # columns that are named


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
    missing_in_training = card.get("data", {}).get("missing", {})
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


MAX_DOMAINS = 1_000  # a column with more values probably numbers the rows
SET_SEPARATOR = " | "  # between the labels of a prediction set

BatchResult = tuple[int, BatchFacts, "pl.DataFrame | None"]  # number of rows, their statistics and their predictions


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
        row_ranges = self.table.row_ranges()
        results: Iterator[Iterable[BatchResult]]
        if client is None:
            results = map(self._iterate_range, row_ranges)
        else:
            results = map_on_cluster(self._process_range, row_ranges, client)
        with progress(description, self.table.rows, self.verbose) as advance:
            for n_rows, facts, frame in chain.from_iterable(results):
                self.facts = add_facts(self.facts, facts)
                if len(self.facts["novelty"]) > MAX_DOMAINS:
                    raise ValueError(
                        f"The column {self.table.domain!r} names more than {MAX_DOMAINS:,} domains; does it "
                        "number the rows? Set domain to a column that names the domain of each row."
                    )
                yield frame
                advance(n_rows)

    def _iterate_range(self, row_range: RowRange) -> Iterator[BatchResult]:
        return map(self._process_batch, self.table.batches(row_range))

    def _process_range(self, row_range: RowRange) -> list[BatchResult]:
        return list(self._iterate_range(row_range))  # a worker returns all results of a range together

    def _process_batch(self, batch: NewRows) -> BatchResult:
        """Compute the statistics of the domains of a batch in the first pass, and its predictions in the last."""
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
