"""What a comparison is about: samples, labels, domains, and how to prepare them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from ..algebra import Array, Ints
from ..labels import Labels, check_domains, encode_classes
from ..tables import Column, Schema, Table, preprocessor
from ._protocol import thin

Scale = Literal["standardize", "l2", "none"]


@dataclass(frozen=True)
class Subject:
    """Samples with their numbers in the user's table, from 1 on, and an unfitted transformer that prepares them."""

    X: Array
    y: Labels
    domain: Labels
    numbers: Ints
    preprocessor: Any
    name: str
    notices: list[str] = field(default_factory=list)

    def prepared(self) -> Array:
        """Samples as the methods see them, prepared on all domains: for looking at, not for scoring."""
        return clone(self.preprocessor).fit_transform(self.X)


def subject_of_table(table: Table, scale: Scale) -> Subject:
    """A table's rows, prepared as its columns ask."""
    prepare = preprocessor(table.schema, scale)
    return Subject(table.X, table.y, table.domain, table.rows + 1, prepare, table.name, list(table.notices))


def subject_of_arrays(X: Any, y: Any, sample_domain: Any, scale: Scale, most: int | None, seed: int) -> Subject:
    """Arrays, thinned to at most so many samples of each domain."""
    if y is None or sample_domain is None:
        raise ValueError(
            f"Samples need labels and domains; got y={'None' if y is None else '...'} and "
            f"sample_domain={'None' if sample_domain is None else '...'}. Pass both, or the path of a table."
        )
    X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    encode_classes(y, "compare")
    domain = check_domains(sample_domain, len(y)).astype(str)
    if len(np.unique(domain)) < 2:
        raise ValueError(
            f"compare needs samples of at least 2 domains; sample_domain holds only {domain.tolist()[0]!r}."
        )
    kept = thin(domain, most, seed, y)
    schema = Schema(tuple(Column(f"feature {j}", "numeric") for j in range(X.shape[1])))
    return Subject(X[kept], y[kept], domain[kept], kept + 1, preprocessor(schema, scale), "arrays")
