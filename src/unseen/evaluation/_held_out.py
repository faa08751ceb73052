"""The validation of a comparison: statistics of `validate`, computed from the held-out probabilities of its methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ..linalg import Array
from ..models import AUTO
from ..tables import Table
from ..utils.io import plain_values
from ._protocol import Protocol, Task
from ._result import ValidationResult
from ._run import Result
from ._validate import validate_predictions

# Measures of many classes make neither a legible section nor a fast one; `Comparison.validation` has them all.
MAX_REPORTED_CLASSES = 12
SECTION_KEYS = (
    "unit",
    "method",
    "methods",
    "classes",
    "positive",
    "positive_rule",
    "threshold_aim",
    "level",
    "uses_prior",
    "few_events_limit",
    "measure_names",
    "sites",
    "measures",
    "summary",
    "comparison",
    "curves",
)


@dataclass(frozen=True)
class ValidationOptions:
    """The event and the threshold of the validation in a comparison: parameters of :func:`unseen.validate`."""

    positive: Any = None
    threshold: str | float | None = None


DEFAULT_VALIDATION = ValidationOptions()


@dataclass(frozen=True)
class HeldOutProbabilities:
    """Probabilities that methods predict for held-out domains, in the first repeat of a comparison.

    Attributes
    ----------
    table : Table
        The rows.
    by_method : dict of str to ndarray of shape (n_rows, n_classes)
        Probabilities of each method that predicts them, the reported one first; NaN for domains without predictions.
    options : ValidationOptions
        The event and the threshold of the comparison.
    design : str
        How the models were trained, in a sentence.
    facts : dict
        Further facts for texts.
    """

    table: Table = field(repr=False)
    by_method: dict[str, Array] = field(repr=False)
    options: ValidationOptions
    design: str
    facts: dict[str, Any] = field(repr=False)

    def validate(
        self,
        positive: Any = None,
        threshold: str | float | None = None,
        tau_prior: Literal["none", "empirical"] = "none",
        level: float = 0.95,
    ) -> ValidationResult:
        """Compute the statistics; None for the event and the threshold means those of the comparison."""
        if not self.by_method:
            raise ValueError(
                "The comparison has no held-out probabilities. None of its methods predicts any, the settings were "
                "selected by labels of the held-out domain (selection='oracle'), or the results file was written by "
                "an earlier version. Use methods=['auto'], another selection, or another store."
            )
        table = self.table
        result = validate_predictions(
            table.y,
            self.by_method,
            sample_domain=table.domain,
            classes=table.samples.classes.tolist(),
            positive=self.options.positive if positive is None else positive,
            threshold=self.options.threshold if threshold is None else threshold,
            tau_prior=tau_prior,
            level=level,
            name=table.name,
        )
        missing = {str(site): float(np.isnan(table.X[table.domain == site]).mean()) for site in result.site_names}
        rule = result.settings.positive_rule
        settings = replace(
            result.settings,
            notices=(*table.notices, *filter(None, [rule])),
            facts={**result.settings.facts, **self.facts, "design": self.design},
        )
        return replace(result, settings=settings, row=table.rows, missing_share=missing)

    def section(self) -> dict[str, Any] | None:
        """Return what the report and JSON show of the validation; None if there is nothing to show."""
        if not self.by_method or len(self.table.samples.classes) > MAX_REPORTED_CLASSES:
            return None
        data = self.validate().report_data()
        return {"design": self.design, **plain_values({key: data[key] for key in SECTION_KEYS})}


def collect_probabilities(
    table: Table,
    tasks: Sequence[Task],
    protocol: Protocol,
    results: Sequence[Result],
    recommended: str | None,
    options: ValidationOptions,
    command: str,
) -> HeldOutProbabilities:
    """Collect the probabilities of all methods; "auto" is reported or, without it, the recommended method."""
    classes = table.samples.classes
    rows_by_task = {task.name: np.flatnonzero(np.isin(table.domain, task.targets)) for task in tasks}
    by_method: dict[str, Array] = {}
    for row, _, probabilities in results:
        if row.repeat or probabilities is None or protocol.selection == "oracle":
            continue
        P = by_method.setdefault(row.method, np.full((len(table.y), len(classes)), np.nan))
        P[rows_by_task[row.task]] = probabilities
    reported = next((name for name in (AUTO, recommended) if name in by_method), None)
    order = sorted(by_method, key=lambda name: name != reported)
    first = f", the first of {protocol.repeats} random draws" if protocol.repeats > 1 else ", drawn at random"
    return HeldOutProbabilities(
        table,
        {name: by_method[name] for name in order},
        options,
        design=(
            f"Each domain was predicted by models that were selected and fitted on {protocol.train_size:.0%} of the "
            f"rows of the other domains{first}."
        ),
        facts={
            "command": command,
            "n_features": table.X.shape[1],
            "columns": list(table.schema.feature_names),
            "scale": protocol.preprocess,
            "balance": protocol.balance,
            "transductive": protocol.centering == "target",
            "random_state": protocol.seed,
        },
    )
