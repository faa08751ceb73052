"""What a comparison is about: samples, labels, domains, and how to prepare them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import clone

from ..cells import Array, Ints
from ..labels import Labels
from ..study._protocol import PREPROCESSORS, thin

if TYPE_CHECKING:
    from ..tables import Table

Scale = Literal["standardize", "l2", "none"]


@dataclass(frozen=True)
class Subject:
    """Samples with their numbers in the user's table, and an unfitted transformer that prepares them."""

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
    from ..tables import preprocessor

    numbers = np.arange(len(table.y))
    prepare = preprocessor(table.schema, scale)
    return Subject(table.X, table.y, table.domain, numbers, prepare, table.name, list(table.notices))


def subject_of_arrays(X: Any, y: Any, sample_domain: Any, scale: Scale, most: int | None, seed: int) -> Subject:
    """Arrays, thinned to at most so many samples of each domain."""
    if y is None or sample_domain is None:
        raise ValueError(
            f"Samples need labels and domains; got y={'None' if y is None else '...'} and "
            f"sample_domain={'None' if sample_domain is None else '...'}. Pass both, or the path of a table."
        )
    X, y, domain = np.asarray(X, dtype=np.float64), np.asarray(y), np.asarray(sample_domain).astype(str)
    if not len(X) == len(y) == len(domain):
        raise ValueError(
            f"X, y and sample_domain must have one entry for each sample; got {len(X)}, {len(y)} and {len(domain)}."
        )
    kept = thin(domain, most, seed)
    return Subject(X[kept], y[kept], domain[kept], kept, PREPROCESSORS[scale], "arrays")
