"""`fit(columns="stable")`: leave out or repair columns where that helps on held-out domains, never silently."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from ..shift import RepairTrial, evaluate_table_repairs
from ..tables import Table, TableOptions

ColumnChoice = Literal["all", "stable"]


@dataclass(frozen=True, eq=False)
class StableColumns:
    """The decision on a repair of columns: options to read the table with, and sentences that state it.

    Attributes
    ----------
    options : TableOptions
        The options of the table, with further columns to drop and values that stand for missing ones if the repair is
        accepted.
    trial : RepairTrial
        The evaluation.
    """

    options: TableOptions
    trial: RepairTrial

    @property
    def is_changed(self) -> bool:
        """Whether the table has to be read again."""
        return self.trial.test.is_accepted and bool(self.trial.repair)

    @property
    def notices(self) -> list[str]:
        """What was decided and why."""
        trial = self.trial
        if not trial.repair:
            return ["Stable columns: no column stands out, so all columns are used."]
        if self.is_changed:
            return [
                f"Stable columns ({trial.repair}). {trial.test.reason} The columns were decided on "
                "all training domains, so that the scores of the fit, unlike these gains, are slightly optimistic."
            ]
        return [f"All columns are used. {trial.test.reason} The repair would be: {trial.repair}."]

    def describe(self) -> dict[str, Any]:
        """The decision in plain values, for the model card."""
        return {"used": self.is_changed, "repair": self.trial.repair.to_dict(), "reason": self.trial.test.reason}


def select_stable_columns(
    table: Table, options: TableOptions, metric: str, n_jobs: int | None = None, verbose: int = 0
) -> StableColumns:
    """Evaluate the repair "stable" on held-out domains, and add it to the options if the acceptance test passes.

    One repair, fixed in advance, is tested, so that the test keeps its level.
    """
    if table.schema.label is None or table.pictures is not None:
        raise ValueError("columns='stable' needs a table with named columns; data are arrays. Use columns='all'.")
    result = evaluate_table_repairs(
        table, metric=metric, repairs=["stable"], random_state=options.seed, n_jobs=n_jobs, verbose=verbose
    )
    stable = StableColumns(options, result["stable"])
    if not stable.is_changed:
        return stable
    repair = stable.trial.repair
    missing: dict[str, Any] = {name: list(values) for name, values in (options.missing or {}).items()}
    for name, value in repair.missing.items():
        missing[name] = [*missing.get(name, []), value]
    return replace(stable, options=replace(options, drop=[*(options.drop or ()), *repair.drop], missing=missing))
