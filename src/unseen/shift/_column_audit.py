"""The column audit: columns that are not comparable between domains, found by simple rules, in ranked sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy.stats import chi2_contingency

from ..linalg import Array, Ints
from ..report import draw_column_shift
from ..tables import Table
from ._columns import (
    ColumnShift,
    ColumnValues,
    DomainRows,
    columns_from_matrix,
    format_number,
    measure_column_shift,
    subsample_table,
)

Kind = Literal["missing_code", "units", "identifies_domain", "missing", "constant", "prevalence"]
Severity = Literal["high", "medium"]

ALPHA = 0.05  # chance of any false alarm of one kind in a table, over all its columns and domains
MIN_VALUES = 10  # of a domain, fewer of which are not compared
# Numbers that often stand for missing values; zero has a rule of its own.
MISSING_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)
MIN_CODE_ROWS = 3  # this many equal values are not typing errors
BULK = (0.005, 0.4, 0.6, 0.995)  # quantiles: a value apart lies beyond the outer ones by the distance of the inner ones
NEARBY = 0.1  # relative difference from a code, of ordinary values that make it one of a long tail
MAX_NEARBY = 0.1  # of the rows with a code: such values
MIN_POSITIVE = 1 / 3  # of the median: smaller positive values lead on to zero, as in counts and abundances
MIN_ZEROS = 0.05  # share of a domain, of zeros that stand for missing values
RARE_ZEROS = 0.01  # share of a domain in which zero is not an ordinary value
ORDINARY_ZEROS = 0.1  # share of the typical domain; counts and abundances have such zeros, and no units
MAGNITUDES = (0.1, 0.25, 0.5, 0.75, 0.9)  # quantiles of |x| other than zero, which a factor multiplies
MEDIAN = MAGNITUDES.index(0.5)
MIN_RATIO = 4.0  # of a deviation to the usual one of domains, and to what is left of it after a conversion
MIN_MISSING = 0.2  # difference between domains: a fifth of missing values is what imputation is usually trusted with
MOSTLY_MISSING = 0.5
MIN_PREVALENCE = 0.15  # difference between domains
LARGE_PREVALENCE = 0.3
MIN_PREVALENCE_ROWS = 20  # of a domain: smaller ones have extreme proportions by chance
IDENTIFIES = 0.95  # balanced accuracy of the domain given one column, on rows that were left out
MIN_EXPLAINED = 0.01  # share of the variance that domains explain, small by Cohen's convention
SHOWN = 3  # columns or domains that a sentence names before it counts the rest
# Wider tables hold features of images, spectra or genes, which are not read column by column.
MAX_COLUMNS = 1000
MAX_NOTICE_COLUMNS = 100  # before a fit or a comparison, which should start at once
MAX_NOTICES = 3
MAX_SHIFT_ROWS = 2000  # of a domain, in the measurement of shift
COLUMNS_IN_HEAT_MAP = 40  # those that shift most


@dataclass(frozen=True)
class Finding:
    """One thing that a reader of the table should know.

    Attributes
    ----------
    column : str
        The column; for prevalence the name of the label.
    domains : tuple of str
        The domains in which it is so.
    kind : str
        "missing_code", "units", "identifies_domain", "missing", "constant" or "prevalence".
    severity : {"high", "medium"}
        How much it matters.
    message : str
        A sentence.
    action : str
        What to do, in Python parameters.
    affected : float
        Share of the rows of the table that it concerns.
    value : float or None
        The number that stands for missing values, or the factor of units.
    """

    column: str
    domains: tuple[str, ...]
    kind: Kind
    severity: Severity
    message: str
    action: str
    affected: float
    value: float | None = None


@dataclass(frozen=True)
class Conversion:
    """A change of units: new = factor * old + offset."""

    name: str
    factor: float
    offset: float = 0.0

    def undo(self, values: Array) -> Array:
        """The values in the old units."""
        return (values - self.offset) / self.factor

    @property
    def remedy(self) -> str:
        """What to compute to undo it."""
        if self.offset:
            return f"apply (x - {self.offset:.4g}) / {self.factor:.4g}"
        return f"divide by {self.factor:.4g}" if self.factor > 1 else f"multiply by {1 / self.factor:.4g}"


# Factors between units in use: powers of ten; glucose, cholesterol, creatinine (mmol/L or umol/L and mg/dL); pounds and
# kilograms; inches and centimeters; kilopascal and mmHg; minutes and hours.
FACTORS = (10.0, 100.0, 1000.0, 18.016, 38.67, 88.4, 2.2046, 2.54, 7.5006, 60.0)
CONVERSIONS = (
    *(Conversion(f"a factor of {factor:.4g}", factor) for factor in FACTORS),
    *(Conversion(f"a factor of 1/{factor:.4g}", 1 / factor) for factor in FACTORS),
    Conversion("Fahrenheit instead of Celsius", 1.8, 32.0),
    Conversion("Celsius instead of Fahrenheit", 1 / 1.8, -32 / 1.8),
    Conversion("Kelvin instead of Celsius", 1.0, 273.15),
    Conversion("Celsius instead of Kelvin", 1.0, -273.15),
    Conversion("HbA1c in mmol/mol instead of %", 10.929, -23.5),
    Conversion("HbA1c in % instead of mmol/mol", 0.0915, 2.15),
)


@dataclass(frozen=True, eq=False, repr=False)
class ColumnDiagnosis:
    """Which columns differ between domains, how, and what to do; `unseen.diagnose(...).columns`.

    Attributes
    ----------
    domains : tuple of str
        The domains, sorted.
    findings : tuple of Finding
        Columns that are not comparable between domains, the most important first.
    shifts : tuple of ColumnShift
        The shift of every column within classes, the largest first.
    """

    domains: tuple[str, ...]
    findings: tuple[Finding, ...]
    shifts: tuple[ColumnShift, ...]

    def sentences(self) -> list[str]:
        """Return the findings as sentences with what to do, then the columns that shift most."""
        return [*describe_findings(self.findings), *_shift_sentences(self.shifts)]

    def heat_map(self) -> dict[str, Any]:
        """Return the differences of columns by domains, for a figure: those that shift most first."""
        shown = self.shifts[:COLUMNS_IN_HEAT_MAP]
        return {
            "columns": [shift.column for shift in shown],
            "domains": list(self.domains),
            "differences": [list(shift.differences) for shift in shown],
            "explained": [shift.explained for shift in shown],
        }

    def summary(self) -> dict[str, Any]:
        """Return sentences, findings and the heat map as plain values, for JSON and the report."""
        return {
            "sentences": self.sentences(),
            "findings": [{**asdict(finding), "domains": list(finding.domains)} for finding in self.findings],
            "heat_map": self.heat_map(),
            "n_columns": len(self.shifts),
        }

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
        return draw_column_shift(self.heat_map(), figure)

    def __str__(self) -> str:
        return "\n".join(self.sentences() or ["No column stands out in any domain."])

    def __repr__(self) -> str:
        n = len(self.findings)
        return f"<ColumnDiagnosis: {len(self.shifts)} columns, {n} finding{'' if n == 1 else 's'}>"


def diagnose_columns(table: Table) -> ColumnDiagnosis | None:
    """Audit the columns of a table on all rows, and measure the shift of each on at most 2,000 rows of a domain.

    None for arrays and photographs, whose columns have no meaning of their own, and for more than 1,000 columns.
    """
    if not _has_named_columns(table, MAX_COLUMNS):
        return None
    used = subsample_table(table, MAX_SHIFT_ROWS)
    domain = DomainRows.from_labels(used.domain)
    shifts = measure_column_shift(columns_from_matrix(used.X, used.schema), used.y, domain)
    return ColumnDiagnosis(domain.names, audit_table(table), shifts)


def find_column_notices(table: Table) -> list[str]:
    """Return sentences on likely errors in columns, for notices before a fit: few, and only grave ones.

    Tables of more than 100 columns are not audited here, since that would take seconds.
    """
    if not _has_named_columns(table, MAX_NOTICE_COLUMNS):
        return []
    findings = audit_table(table)
    sentences = describe_findings([f for f in findings if f.severity == "high" and f.kind != "prevalence"])
    if len(sentences) > MAX_NOTICES:
        rest = len(sentences) - MAX_NOTICES
        return [*sentences[:MAX_NOTICES], f"{rest} more findings on columns: diagnose lists them."]
    return sentences


def _has_named_columns(table: Table, limit: int) -> bool:
    return table.schema.label is not None and table.pictures is None and 0 < len(table.schema.columns) <= limit


def audit_table(table: Table) -> tuple[Finding, ...]:
    """Find columns of a table that are not comparable between its domains, the most important first."""
    domain = DomainRows.from_labels(table.domain)
    if len(domain.names) < 2:
        return ()
    columns = columns_from_matrix(table.X, table.schema)
    level = ALPHA / (len(columns) * len(domain.names))
    findings = _prevalence(table.y, domain, str(table.schema.label))
    for column in columns:
        findings += _audit_column(column, domain, level)
    severities: tuple[str, ...] = get_args(Severity)
    kinds: tuple[str, ...] = get_args(Kind)
    return tuple(sorted(findings, key=lambda f: (severities.index(f.severity), kinds.index(f.kind), -f.affected)))


def _audit_column(column: ColumnValues, domain: DomainRows, level: float) -> list[Finding]:
    """All findings about one column."""
    findings = _missing(column, domain, level)
    parts = domain.split(column.values)
    if len(column.distinct[0]) < 2 or sum(len(part) > 0 for part in parts) < 2:
        return findings
    codes = _missing_codes(column, parts, domain) if column.kind == "numeric" else []
    values = [finding.value for finding in codes if finding.value is not None]
    parts = [part[~np.isin(part, values)] for part in parts] if codes else parts
    units = [] if column.is_coded else _units(column, parts, domain)
    # Domains in different units tell the domain as well: units explain it.
    identity = [] if codes or units else _identifies_domain(column, parts, domain)
    constant = [] if identity else _constant(column, parts, domain, level)
    return [*findings, *codes, *units, *identity, *constant]


def is_missing_code(value: float, ordinary: Array, is_coded: bool) -> bool:
    """Whether a number may stand for missing values: it is apart from the ordinary values of its column."""
    low, inner_low, inner_high, high = np.quantile(ordinary, BULK)
    if value == 0:
        return not is_coded and ordinary.min() > 0 and low >= MIN_POSITIVE * np.median(ordinary)
    if value == -1 and (is_coded or (ordinary == 0).any()):
        return False  # of a scale or a difference
    if value < 0 <= ordinary.min():
        return True
    width = (inner_high - inner_low) or (high - low) or 1.0
    return not low - width < value < high + width


def _missing_codes(column: ColumnValues, parts: Sequence[Array], domain: DomainRows) -> list[Finding]:
    """Numbers that stand for missing values.

    A number such as -9 or 999 is one if it is apart from all other values. Zero is one if it is apart and frequent in
    some domains, and if at least half of the others have next to none.
    """
    values = column.values[column.is_present]
    ordinary = values[~np.isin(values, MISSING_CODES)]
    sizes = np.array([len(part) for part in parts])
    findings = []
    for value in np.intersect1d(column.distinct[0], (0.0, *MISSING_CODES)).tolist():
        others = ordinary[ordinary != value]
        if len(others) < MIN_VALUES or not is_missing_code(value, others, column.is_coded):
            continue
        counts = np.array([int((part == value).sum()) for part in parts])
        shares = counts / np.maximum(sizes, 1)
        where = np.flatnonzero(counts)
        if value == 0:
            is_compared = sizes >= MIN_VALUES
            n_without = int((is_compared & (shares <= RARE_ZEROS)).sum())
            if 2 * n_without < max(is_compared.sum() - 1, 1):
                continue
            where = np.flatnonzero((shares >= MIN_ZEROS) & (counts >= MIN_CODE_ROWS))
        n_rows = counts[where].sum()
        n_nearby = (np.abs(others - value) <= NEARBY * abs(value)).sum()
        if n_rows >= MIN_CODE_ROWS and n_nearby <= MAX_NEARBY * n_rows:
            findings.append(_code_finding(column.name, value, counts, where, others, domain))
    return findings


def _code_finding(column: str, value: float, counts: Ints, where: Ints, rest: Array, domain: DomainRows) -> Finding:
    shares = counts / domain.sizes
    where = where[np.argsort(-shares[where], kind="stable")]
    others = np.setdiff1d(np.arange(len(shares)), where)
    text = format_number(value)
    places = _enumerate([f"{_percent(shares[d])} of {domain.names[d]}" for d in where])
    if len(where) > SHOWN:
        names = _enumerate_some(_names(domain, where)) if len(others) else "every domain"
        places = f"{_share_range(shares[where])} of the rows of {names}"
    if len(others):
        places = f"{places}, and in {_share_range(shares[others])} of {_enumerate_some(_names(domain, others))}"
    message = (
        f"{column!r} is {text} in {places}; its ordinary values are {format_number(rest.min())} to "
        f"{format_number(rest.max())}."
    )
    action = f"If {text} stands for a missing value, declare it with the parameter missing."
    affected = float(counts[where].sum() / domain.sizes.sum())
    return Finding(column, _names(domain, where), "missing_code", "high", message, action, affected, value)


def measure_magnitudes(values: Array) -> Array | None:
    """Logarithms of the quantiles of |x| over values other than zero; None for fewer than ten of them."""
    values = np.abs(values[values != 0])
    return np.log(np.quantile(values, MAGNITUDES)) if len(values) >= MIN_VALUES else None


def find_conversions(values: Array, domains: Array) -> list[Conversion]:
    """Conversions that explain why values differ from those of domains, the best first; none if they do not differ.

    Values differ if their median lies outside of the central 80% of a typical domain, and if its distance from the
    typical median is four times that of a typical domain. If more than a quarter of the domains differ, they differ by
    nature. A conversion explains a difference if undoing it takes away three quarters of the distance, from all
    quantiles. All comparisons are of logarithms.
    """
    own = measure_magnitudes(values)
    if own is None:
        return []
    typical = np.median(domains, axis=0)
    distance = abs(own[MEDIAN] - typical[MEDIAN])
    medians = domains[:, MEDIAN]
    n_apart = int(((medians < typical[0]) | (medians > typical[-1])).sum())
    usual = float(np.median(np.abs(medians - typical[MEDIAN])))
    is_inside = typical[0] <= own[MEDIAN] <= typical[-1]
    if is_inside or distance <= MIN_RATIO * usual or n_apart > max(len(domains) // 4, 1):
        return []
    fitting = []
    for conversion in CONVERSIONS:
        undone = measure_magnitudes(conversion.undo(values))
        rest = np.inf if undone is None else float(np.abs(undone - typical).max())
        if rest <= distance / MIN_RATIO:
            fitting.append((rest, conversion))
    best = min((rest for rest, _ in fitting), default=0.0)
    # Others that leave twice the distance are not worth naming.
    fitting = [(rest, conversion) for rest, conversion in fitting if rest <= 2 * best]
    return [conversion for _, conversion in sorted(fitting, key=lambda pair: pair[0])]


def _units(column: ColumnValues, parts: Sequence[Array], domain: DomainRows) -> list[Finding]:
    measured = {d: own for d, part in enumerate(parts) if (own := measure_magnitudes(part)) is not None}
    if len(measured) < 3 or np.median([np.mean(parts[d] == 0) for d in measured]) > ORDINARY_ZEROS:
        return []
    findings = []
    for d in measured:
        conversions = find_conversions(parts[d], np.array(list(measured.values())))
        if conversions:
            name = domain.names[d]
            elsewhere = format_range(format_number, [float(np.median(parts[e])) for e in measured if e != d])
            message = (
                f"The values of {column.name!r} in {name} look as if they were in different units: the median is "
                f"{format_number(float(np.median(parts[d])))} there and {elsewhere} elsewhere, which fits "
                f"{name_conversions(conversions)}."
            )
            action = f"Convert the column ({conversions[0].remedy}) in {name}, or leave it out."
            affected = float(domain.sizes[d] / domain.sizes.sum())
            factor = conversions[0].factor
            findings.append(Finding(column.name, (name,), "units", "high", message, action, affected, factor))
    return findings


def name_conversions(conversions: Sequence[Conversion]) -> str:
    return " or ".join(conversion.name for conversion in conversions[:SHOWN])


def _identifies_domain(column: ColumnValues, parts: Sequence[Array], domain: DomainRows) -> list[Finding]:
    """A column with one value in each domain, or whose values predict the domain."""
    values = [float(part[0]) for part in parts if len(part)]
    is_constant = len(values) == len(parts) and all(bool((part == part[0]).all()) for part in parts)
    severity: Severity = "high"
    if is_constant and len(set(values)) < len(values):
        severity = "medium"
        message = f"{column.name!r} describes the domain, not its rows: it has one value in each domain."
        action = f"Its effect is estimated from {len(values)} domains only; leave it out if in doubt."
    elif is_constant:
        example = _enumerate([f"{column.text(values[d])} in {domain.names[d]}" for d in (0, 1)])
        message = f"{column.name!r} identifies the domain: each domain has one value, all different ({example})."
        action = "A model cannot learn from it for a new domain. Leave it out."
    else:
        accuracy = _domain_accuracy(column, domain)
        if accuracy < IDENTIFIES:
            return []
        message = (
            f"{column.name!r} identifies the domain: its value alone predicts the domain of a row with a balanced "
            f"accuracy of {accuracy:.0%}."
        )
        action = "A model cannot use it in a new domain. Leave it out."
    return [Finding(column.name, domain.names, "identifies_domain", severity, message, action, 1.0)]


def _domain_accuracy(column: ColumnValues, domain: DomainRows) -> float:
    """Balanced accuracy of the most likely domain given the value, learned from every other row of each domain."""
    n_domains = len(domain.names)
    known = np.flatnonzero(column.is_present)
    own = domain.codes[known]
    values = column.values[known]
    cuts = column.distinct[0] if column.is_coded else np.quantile(values, np.linspace(0, 1, 4 * n_domains + 1)[1:-1])
    codes = np.searchsorted(cuts, values, side="right")
    half = np.zeros(len(known), dtype=bool)
    half[np.argsort(own, kind="stable")[::2]] = True
    recalls = []
    for train in (half, ~half):
        counts = np.zeros((n_domains, len(cuts) + 1))
        np.add.at(counts, (own[train], codes[train]), 1)
        # Equal priors: the share of the rows of a domain, not its size, decides.
        guess = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)).argmax(axis=0)
        is_right = guess[codes[~train]] == own[~train]
        totals = np.bincount(own[~train], minlength=n_domains)
        hits = np.bincount(own[~train], weights=is_right, minlength=n_domains)
        recalls.append((hits[totals > 0] / totals[totals > 0]).mean())
    return float(np.mean(recalls))


def _missing(column: ColumnValues, domain: DomainRows, level: float) -> list[Finding]:
    """Shares of missing values that differ by 20 points or more between domains."""
    present = np.bincount(domain.codes[column.is_present], minlength=len(domain.names))
    shares = 1 - present / domain.sizes
    spread = shares.max() - shares.min()
    if spread < MIN_MISSING or chi2_contingency(np.array([present, domain.sizes - present]))[1] > level:
        return []
    middle = (shares.max() + shares.min()) / 2
    where = np.flatnonzero(shares >= middle)
    rest = np.flatnonzero(shares < middle)
    message = (
        f"{column.name!r} is missing in {_share_range(shares[where])} of the rows of "
        f"{_enumerate_some(_names(domain, where))}, and in {_share_range(shares[rest])} of "
        f"{_enumerate_some(_names(domain, rest))}."
    )
    is_high = spread >= MOSTLY_MISSING
    action = "Leave it out." if is_high else "Check why, or leave it out."
    affected = float(shares[where] @ domain.sizes[where] / domain.sizes.sum())
    severity: Severity = "high" if is_high else "medium"
    return [Finding(column.name, _names(domain, where), "missing", severity, message, action, affected)]


def _constant(column: ColumnValues, parts: Sequence[Array], domain: DomainRows, level: float) -> list[Finding]:
    """Domains with a single value, in which even the most uniform other domain would have others."""
    findings = []
    for d, part in enumerate(parts):
        if len(part) < MIN_VALUES or (part != part[0]).any():
            continue
        others = [other for e, other in enumerate(parts) if e != d and len(other) >= MIN_VALUES]
        # One row more is counted, so that few rows prove little.
        share = max((((other == part[0]).sum() + 1) / (len(other) + 1) for other in others), default=1.0)
        if share ** len(part) > level:
            continue
        name = domain.names[d]
        n_values = len(np.unique(np.concatenate(others)))
        message = (
            f"{column.name!r} is {column.text(part[0])} in every row of {name} that has a value; elsewhere it has "
            f"{n_values} different values, and {column.text(part[0])} in at most {_percent(share)} of a domain."
        )
        action = f"If it was not recorded in {name}, set it to missing there, or leave it out."
        affected = float(domain.sizes[d] / domain.sizes.sum())
        findings.append(Finding(column.name, (name,), "constant", "high", message, action, affected))
    return findings


def _prevalence(labels: Any, domain: DomainRows, label_name: str) -> list[Finding]:
    """Class proportions that differ by 15 points or more between domains of 20 rows or more."""
    classes, codes = np.unique(np.asarray(labels).astype(str), return_inverse=True)
    counts = np.zeros((len(domain.names), len(classes)), dtype=int)
    np.add.at(counts, (domain.codes, codes), 1)
    large = np.flatnonzero(domain.sizes >= MIN_PREVALENCE_ROWS)
    counts = counts[large]
    counts = counts[:, counts.any(axis=0)]
    if min(counts.shape) < 2 or chi2_contingency(counts)[1] > ALPHA:
        return []
    proportions = counts / counts.sum(axis=1, keepdims=True)
    ranges = np.ptp(proportions, axis=0)
    j = int(ranges.argmax())
    if ranges[j] < MIN_PREVALENCE:
        return []
    low = int(proportions[:, j].argmin())
    high = int(proportions[:, j].argmax())
    names = _names(domain, large[[low, high]])
    message = (
        f"Class {str(classes[j])!r} of {label_name!r} makes up {_percent(proportions[low, j])} of {names[0]} and "
        f"{_percent(proportions[high, j])} of {names[1]}."
    )
    action = "Check the calibration on held-out domains, and do not center a new batch on its own mean without a test."
    severity: Severity = "high" if ranges[j] >= LARGE_PREVALENCE else "medium"
    return [Finding(label_name, names, "prevalence", severity, message, action, 1.0)]


GROUP_SENTENCES: dict[Kind, str] = {
    "missing_code": "{n} columns have a number that may stand for missing values: {names}.",
    "units": "{n} columns look as if they were in different units in some domain: {names}.",
    "identifies_domain": "{n} columns identify the domain: {names}.",
    "missing": "{n} columns are missing {more} in some domains than in others: {names}.",
    "constant": "{n} columns have a single value in one domain, and others elsewhere: {names}.",
}


def describe_findings(findings: Sequence[Finding]) -> list[str]:
    """Return findings as sentences with what to do, in order; more than three of one kind are taken together."""
    groups: dict[tuple[Severity, Kind], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, finding.kind), []).append(finding)
    sentences = []
    for (severity, kind), group in groups.items():
        if len(group) <= SHOWN:
            sentences += [f"{finding.message} {finding.action}" for finding in group]
            continue
        columns = list(dict.fromkeys(finding.column for finding in group))
        names = [_describe_briefly(finding) for finding in group]
        more = f"at least {MOSTLY_MISSING if severity == 'high' else MIN_MISSING:.0%} more often"
        sentence = GROUP_SENTENCES[kind].format(n=len(columns), names=_enumerate_some(names), more=more)
        sentences.append(f"{sentence} Check them, or leave them out.")
    return sentences


def _describe_briefly(finding: Finding) -> str:
    name = repr(finding.column)
    if finding.kind == "missing_code" and finding.value is not None:
        return f"{name} ({format_number(finding.value)})"
    return name if finding.kind == "identifies_domain" else f"{name} ({_enumerate_some(finding.domains)})"


def _shift_sentences(shifts: Sequence[ColumnShift]) -> list[str]:
    shifted = [
        shift
        for shift in shifts
        if shift.p_value is not None and shift.p_value <= ALPHA and shift.explained >= MIN_EXPLAINED
    ]
    if not shifted:
        return []
    names = [f"{shift.column!r} ({_percent(shift.explained)})" for shift in shifted]
    return [
        "Columns that differ most between domains within classes, with the share of their variance that domains "
        f"explain: {_enumerate_some(names)}."
    ]


def _names(domain: DomainRows, positions: Iterable[int]) -> tuple[str, ...]:
    return tuple(domain.names[position] for position in positions)


def _percent(share: float) -> str:
    if 0 < share < 0.01:
        return "less than 1%"
    if 0.99 < share < 1:
        return "more than 99%"
    return f"{share:.0%}"


def _share_range(shares: Array) -> str:
    return format_range(_percent, shares.tolist())


def format_range(text: Callable[[float], str], values: Sequence[float]) -> str:
    low = text(min(values))
    high = text(max(values))
    return low if low == high else f"{low} to {high}"


def _enumerate_some(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    if len(names) <= SHOWN + 1:
        return _enumerate(names)
    return _enumerate([*names[:SHOWN], f"{len(names) - SHOWN} more"])


def _enumerate(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
