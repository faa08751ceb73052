"""The columns of a table by domain: the audit and the shift of each column in one object, for `Diagnosis.columns`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ..report import draw_column_shift
from ..tables import Table
from ._column_audit import ColumnAudit, Finding, audit_columns, enumerate_some
from ._column_shift import ColumnEffect, ColumnShifts, measure_column_shift
from ._column_values import columns_from_matrix

# Wider tables hold features of images, spectra or genes, which are not read column by column; the time grows linearly.
MAX_COLUMNS = 1000
MAX_NOTICE_COLUMNS = 100
MAX_NOTICES = 3
MAX_PER_DOMAIN = 2000  # shares of a domain then have standard errors of 1.1 points at most
COLUMNS_IN_HEAT_MAP = 40  # those that move most, in summaries and reports
SHOWN = 3  # columns that one sentence names


@dataclass(frozen=True, eq=False, repr=False)
class ColumnDiagnosis:
    """Which columns differ between domains, how, and what to do; `unseen.diagnose(...).columns`.

    Attributes
    ----------
    audit : ColumnAudit
        Findings such as other units, zeros for missing values, and columns that are missing in some domains.
    shifts : ColumnShifts
        The shift of every column within classes, and the heterogeneity of its effect on the label.
    """

    audit: ColumnAudit
    shifts: ColumnShifts

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the audit, the most important first."""
        return self.audit.findings

    def sentences(self) -> list[str]:
        """Return the findings as sentences with what to do, then effects that change sign, then what moves most."""
        return [*self.audit.sentences(), *_effect_sentences(self.shifts), *_shift_sentences(self.shifts)]

    def summary(self) -> dict[str, Any]:
        """Return sentences, findings, the heat map and the effects as plain values, for JSON and the report."""
        return {
            "sentences": self.sentences(),
            "findings": [{**asdict(finding), "domains": list(finding.domains)} for finding in self.findings],
            "heat_map": self.shifts.heat_map(COLUMNS_IN_HEAT_MAP),
            "n_columns": len(self.audit.columns),
            "effects": [{**asdict(effect), "opposite": list(effect.opposite)} for effect in self.shifts.effects],
        }

    def to_frame(self) -> Any:
        """Return the facts of every column in every domain, with its shift, as a pandas DataFrame."""
        shifts = self.shifts.to_frame().drop(columns="share")
        return self.audit.to_frame().merge(shifts, on=["column", "domain"], how="left")

    def plot(self, figure: Any = None) -> Any:
        """Draw the heat map of columns by domains.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Figure to draw on; None creates one.

        Returns
        -------
        figure : matplotlib Figure or SubFigure
            Standardized differences of each domain from the others, within classes.
        """
        return draw_column_shift(self.shifts.heat_map(), figure)

    def __str__(self) -> str:
        return "\n".join(self.sentences() or ["No column stands out in any domain."])

    def __repr__(self) -> str:
        n = len(self.findings)
        return f"<ColumnDiagnosis: {len(self.audit.columns)} columns, {n} finding{'' if n == 1 else 's'}>"


def diagnose_columns(table: Table, alpha: float = 0.05, seed: int = 0) -> ColumnDiagnosis | None:
    """Audit the columns of a table and measure the shift of each, on at most 2,000 rows of a domain.

    None for arrays and photographs, whose columns have no meaning of their own, and for more than 1,000 columns.
    """
    if not _has_named_columns(table, MAX_COLUMNS):
        return None
    used = _subsample(table, seed)
    columns = columns_from_matrix(used.X, used.schema)
    audit = audit_columns(columns, used.y, domains=used.domain, label_name=str(used.schema.label), alpha=alpha)
    shifts = measure_column_shift(columns, used.y, domains=used.domain, alpha=alpha)
    return ColumnDiagnosis(audit, shifts)


def find_column_notices(table: Table, seed: int = 0) -> list[str]:
    """Return sentences on likely errors in columns, for notices before a fit or a comparison; few, and only grave ones.

    Tables of more than 100 columns are not audited here, since that would take seconds.
    """
    if not _has_named_columns(table, MAX_NOTICE_COLUMNS):
        return []
    used = _subsample(table, seed)
    audit = audit_columns(
        columns_from_matrix(used.X, used.schema), used.y, domains=used.domain, label_name=str(used.schema.label)
    )
    grave = tuple(f for f in audit.findings if f.severity == "high" and f.kind != "prevalence")
    sentences = replace(audit, findings=grave).sentences()
    if len(sentences) > MAX_NOTICES:
        rest = len(sentences) - MAX_NOTICES
        return [*sentences[:MAX_NOTICES], f"{rest} more findings on columns: diagnose lists them."]
    return sentences


def _has_named_columns(table: Table, limit: int) -> bool:
    return table.schema.label is not None and table.pictures is None and 0 < len(table.schema.columns) <= limit


def _subsample(table: Table, seed: int) -> Table:
    rows = table.samples.subsample_rows(max_per_domain=MAX_PER_DOMAIN, seed=seed)
    return table if len(rows) == len(table.X) else table.take(rows)


def find_sign_changes(shifts: ColumnShifts) -> list[ColumnEffect]:
    """Effects on the label whose slope differs between domains beyond chance, and is opposite in some domain.

    The level of the test of heterogeneity is shared among all effects (Bonferroni).
    """
    level = shifts.alpha / max(len(shifts.effects), 1)
    return [effect for effect in shifts.effects if effect.opposite and effect.p_heterogeneity <= level]


def _effect_sentences(shifts: ColumnShifts) -> list[str]:
    sentences = []
    for effect in find_sign_changes(shifts)[:SHOWN]:
        name = repr(effect.column) if effect.level is None else f"{effect.column!r} = {effect.level!r}"
        sentences.append(
            f"The effect of {name} on class {effect.label!r} changes sign: its slope is {effect.mean:.2g} on average "
            f"(standard deviation {effect.tau:.2g} between domains), and opposite in "
            f"{enumerate_some(effect.opposite)}. Check its definition there; a model may rely on it in the wrong "
            "direction."
        )
    return sentences


def _shift_sentences(shifts: ColumnShifts) -> list[str]:
    moved = [shift for shift in shifts.shifts if shift.p_value is not None and shift.p_value <= shifts.alpha]
    if not moved:
        return []
    described = []
    for shift in moved[:SHOWN]:
        odd = f", odd in {enumerate_some(shift.odd_domains)}" if shift.odd_domains else ""
        described.append(f"{shift.column!r} ({shift.share:.0%} of the shift{odd})")
    more = f"; {len(moved) - SHOWN} more move less" if len(moved) > SHOWN else ""
    return [f"Within classes, these columns move most between domains: {', '.join(described)}{more}."]
