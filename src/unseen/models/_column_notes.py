"""Columns of new data against those of training: which columns are far, in other units, or newly missing."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..linalg import Array
from ..shift import columns_from_matrix, compare_columns, summarize_columns
from ..tables import Schema, Table
from ..utils.validation import EncodedLabels, Labels

# A summary has some 300 bytes for each column and domain, so that it adds 1.5 MB to a model file at most. Tables beyond
# that are wide, such as features of images, and are not read column by column.
MAX_CELLS = 5_000
MAX_ROWS = 2_000  # of each new domain that are compared, at random: their deciles have errors of a few percent
MIN_SHARE = 0.1  # of the distance of a table: columns that contribute less are not named
MAX_NAMED = 3
MAX_DOMAINS = 20  # new domains that are compared


@dataclass(frozen=True, eq=False)
class RowSample:
    """A random sample of the encoded rows of a domain; samples of several batches can be added."""

    X: Array
    keys: Array  # random numbers, of which the smallest are kept

    @classmethod
    def from_rows(cls, X: Array) -> RowSample:
        """Sample the rows of a batch; the same rows give the same sample in every process."""
        keys = np.random.default_rng(zlib.crc32(np.ascontiguousarray(X).tobytes())).random(len(X))
        return cls(X, keys)._limit()

    def __add__(self, other: RowSample) -> RowSample:
        """Sample the rows of both."""
        return RowSample(np.concatenate([self.X, other.X]), np.concatenate([self.keys, other.keys]))._limit()

    def _limit(self) -> RowSample:
        if len(self.X) <= MAX_ROWS:
            return self
        kept = np.sort(np.argpartition(self.keys, MAX_ROWS)[:MAX_ROWS])
        return RowSample(self.X[kept], self.keys[kept])


def sample_domains(X: Array, domain: Labels | None) -> dict[str | None, RowSample]:
    """Sample the rows of each domain; without names there is one domain, None."""
    encoded = EncodedLabels.from_domains(domain, len(X))
    return {name: RowSample.from_rows(X[rows]) for name, rows in encoded.iter_rows()}


def summarize_table(table: Table) -> dict[str, Any] | None:
    """Summarize the columns of training data for the model card; None for arrays, photographs and very wide tables."""
    n_cells = len(table.schema.columns) * len(np.unique(table.domain))
    if table.schema.label is None or table.pictures is not None or n_cells > MAX_CELLS:
        return None
    return summarize_columns(columns_from_matrix(table.X, table.schema), domains=table.domain)


def column_entries(
    summary: Mapping[str, Any] | None, schema: Schema, samples: Mapping[Any, RowSample]
) -> list[dict[str, Any]]:
    """Compare each new domain with the training columns, in values that JSON can represent.

    Parameters
    ----------
    summary : dict or None
        The result of `summarize_table`; None compares nothing.
    schema : Schema
        The columns of the model.
    samples : mapping of str or None to RowSample
        Rows of each new domain.
    """
    if summary is None:
        return []
    entries = []
    for domain, sample in list(samples.items())[:MAX_DOMAINS]:
        name = "the new table" if domain is None else str(domain)
        try:
            new = compare_columns(summary, columns_from_matrix(sample.X, schema), name=name)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"The model card describes the training columns in a form that cannot be read ({error}). Fit the model "
                "again."
            ) from error
        # New categories and columns that are absent have notes of their own.
        findings = [asdict(finding) for finding in new.findings if finding.kind != "new_category"]
        contributions = [
            {"column": column.column, "share": column.share, "nearest_domain": column.nearest_domain}
            for column in new.columns
            if column.share >= MIN_SHARE
        ]
        entries.append({"domain": domain, "findings": findings, "contributions": contributions[:MAX_NAMED]})
    return entries
