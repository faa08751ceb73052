"""The column audit: columns that are not comparable between domains, found by simple rules, and shift by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc
from scipy.stats import chi2_contingency, rankdata
from scipy.stats.contingency import crosstab
from sklearn.metrics import balanced_accuracy_score

from ..linalg import Array, Ints
from ..report import draw_column_shift
from ..tables import Table
from ._permutation_tests import adjust_by_holm

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
# A numeric column of at most this many different whole numbers is read as codes of categories: scales and grades in
# questionnaires and registries rarely have more than ten points.
MAX_CODES = 10
NEW_LEVEL = "a new category"  # the name of categories that a schema does not have
MIN_CELL = 2  # values of a class in a domain, fewer of which have no spread
LARGE = 1e100  # numbers beyond are divided by the largest, so that sums of squares are finite
COLUMNS_IN_HEAT_MAP = 40  # those that shift most


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """One column of a table.

    Parameters
    ----------
    name : str
        The name of the column.
    kind : {"numeric", "categorical"}
        What it holds.
    values : ndarray of shape (n_samples,)
        Numbers, NaN where missing; for categories their positions among `levels`, NaN where missing.
    levels : tuple of str
        The categories; empty for numbers.
    """

    name: str
    kind: Literal["numeric", "categorical"]
    values: Array
    levels: tuple[str, ...] = ()

    @cached_property
    def is_present(self) -> NDArray[np.bool_]:
        """Which rows have a value."""
        return np.isfinite(self.values)

    @cached_property
    def distinct(self) -> tuple[Array, Ints]:
        """The different values, sorted, and the number of rows of each."""
        return np.unique(self.values[self.is_present], return_counts=True)

    @property
    def is_coded(self) -> bool:
        """Whether the values are categories or codes of categories: few different whole numbers."""
        values = self.distinct[0]
        return self.kind == "categorical" or (len(values) <= MAX_CODES and bool((values == np.round(values)).all()))

    def text(self, value: float) -> str:
        """A value as users write it."""
        return repr(self.levels[int(value)]) if self.kind == "categorical" else format_number(value)


def columns_from_matrix(X: Any, schema: Any) -> list[ColumnValues]:
    """The columns of a matrix that a schema encoded, with categories as text, not as their positions.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The result of :meth:`unseen.tables.Schema.encode`. Dates are numbers: days since 1970.
    schema : Schema
        The description of the columns.

    Returns
    -------
    columns : list of ColumnValues
        One for each feature. Infinite numbers are missing.
    """
    columns = []
    for position, column in enumerate(schema.columns):
        values = np.array(X[:, position], dtype=np.float64)
        if column.kind == "categorical":
            levels = tuple(column.levels)
            if (values < 0).any():
                values[values < 0] = len(levels)
                levels = (*levels, NEW_LEVEL)
            columns.append(ColumnValues(column.name, "categorical", values, levels))
        else:
            values[~np.isfinite(values)] = np.nan
            columns.append(ColumnValues(column.name, "numeric", values))
    return columns


@dataclass(frozen=True, eq=False)
class DomainRows:
    """The rows of each domain.

    Parameters
    ----------
    names : tuple of str
        The domains, sorted.
    codes : ndarray of shape (n_samples,)
        The position of each row's domain among `names`.
    """

    names: tuple[str, ...]
    codes: Ints

    @classmethod
    def from_labels(cls, domains: Any) -> DomainRows:
        """Encode the domain labels of the rows."""
        names, codes = np.unique(np.asarray(domains).astype(str), return_inverse=True)
        return cls(tuple(names.tolist()), codes)

    @cached_property
    def sizes(self) -> Ints:
        """The number of rows of each domain."""
        return np.bincount(self.codes, minlength=len(self.names))

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.codes, kind="stable")

    def get_names(self, positions: Iterable[int]) -> tuple[str, ...]:
        """The names of some domains."""
        return tuple(self.names[position] for position in positions)

    def share(self, position: int) -> float:
        """The share of all rows that a domain has."""
        return float(self.sizes[position] / self.sizes.sum())

    def split(self, values: Array) -> list[Array]:
        """The values of each domain, missing ones left out."""
        parts = np.split(values[self._order], np.cumsum(self.sizes)[:-1])
        return [part[np.isfinite(part)] for part in parts]


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


@dataclass(frozen=True)
class ColumnShift:
    """The shift of one column between domains, within classes.

    Attributes
    ----------
    column : str
        The column.
    explained : float
        Share of the variance of its ranks (for categories, of their indicators) within classes that domains explain,
        from 0 to 1, adjusted for chance.
    p_value : float
        Of "the same distribution in all domains, given the class", by an analysis of variance of ranks (for
        categories, of indicators), adjusted by Holm's method over columns; 1 if no class is in two domains.
    differences : tuple of (float or None)
        Standardized mean difference of each domain from the other domains, averaged over classes; for categories the
        standardized distance of their shares, without a sign. None if no class of the domain is in another one.
    """

    column: str
    explained: float
    p_value: float
    differences: tuple[float | None, ...]


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
        sentences = describe_findings(self.findings)
        shifted = [shift for shift in self.shifts if shift.p_value <= ALPHA and shift.explained >= MIN_EXPLAINED]
        names = [f"{shift.column!r} ({_percent(shift.explained)})" for shift in shifted]
        if names:
            sentences.append(
                "Columns that differ most between domains within classes, with the share of their variance that "
                f"domains explain: {enumerate_names(names)}."
            )
        return sentences

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
    used = table.take(table.samples.subsample_rows(max_per_domain=MAX_SHIFT_ROWS))
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
    return table.schema.label is not None and 0 < len(table.schema.columns) <= limit


def audit_table(table: Table) -> tuple[Finding, ...]:
    """Find columns of a table that are not comparable between its domains, the most important first."""
    domain = DomainRows.from_labels(table.domain)
    if len(domain.names) < 2:
        return ()
    columns = columns_from_matrix(table.X, table.schema)
    level = ALPHA / (len(columns) * len(domain.names))
    findings = _find_prevalence(table.y, domain, str(table.schema.label))
    for column in columns:
        findings += _find_missing(column, domain, level)
        parts = domain.split(column.values)
        if len(column.distinct[0]) < 2 or sum(len(part) > 0 for part in parts) < 2:
            continue
        codes = _find_missing_codes(column, parts, domain) if column.kind == "numeric" else []
        parts = [part[~np.isin(part, np.array([finding.value for finding in codes], dtype=float))] for part in parts]
        units = [] if column.is_coded else _find_units(column, parts, domain)
        # Domains in different units tell the domain as well: units explain it.
        identity = [] if codes or units else _find_identity(column, domain)
        constant = [] if identity else _find_constant(column, parts, domain, level)
        findings += [*codes, *units, *identity, *constant]
    severities: tuple[str, ...] = get_args(Severity)
    kinds: tuple[str, ...] = get_args(Kind)
    return tuple(sorted(findings, key=lambda f: (severities.index(f.severity), kinds.index(f.kind), -f.affected)))


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


def _find_missing_codes(column: ColumnValues, parts: Sequence[Array], domain: DomainRows) -> list[Finding]:
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
        if n_rows < MIN_CODE_ROWS or n_nearby > MAX_NEARBY * n_rows:
            continue
        where = where[np.argsort(-counts[where] / domain.sizes[where], kind="stable")]
        text = format_number(value)
        message = (
            f"{column.name!r} is {text} in {_describe_shares(counts / domain.sizes, where, domain)}; its ordinary "
            f"values are {format_number(others.min())} to {format_number(others.max())}."
        )
        action = f"If {text} stands for a missing value, declare it with the parameter missing."
        affected = float(n_rows / domain.sizes.sum())
        names = domain.get_names(where)
        findings.append(Finding(column.name, names, "missing_code", "high", message, action, affected, value))
    return findings


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


def _find_units(column: ColumnValues, parts: Sequence[Array], domain: DomainRows) -> list[Finding]:
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
            factor = conversions[0].factor
            findings.append(Finding(column.name, (name,), "units", "high", message, action, domain.share(d), factor))
    return findings


def name_conversions(conversions: Sequence[Conversion]) -> str:
    return " or ".join(conversion.name for conversion in conversions[:SHOWN])


def _find_identity(column: ColumnValues, domain: DomainRows) -> list[Finding]:
    """A column whose value predicts the domain of every other row, learned from the rows between."""
    n_domains = len(domain.names)
    known = np.flatnonzero(column.is_present)
    own = domain.codes[known]
    values = column.values[known]
    cuts = column.distinct[0] if column.is_coded else np.quantile(values, np.linspace(0, 1, 4 * n_domains + 1)[1:-1])
    codes = np.searchsorted(cuts, values, side="right")
    is_training = np.zeros(len(known), dtype=bool)
    is_training[np.argsort(own, kind="stable")[::2]] = True
    counts = np.zeros((n_domains, len(cuts) + 1))
    np.add.at(counts, (own[is_training], codes[is_training]), 1)
    # Equal priors: the share of the rows of a domain, not its size, decides.
    likeliest = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)).argmax(axis=0)
    accuracy = balanced_accuracy_score(own[~is_training], likeliest[codes[~is_training]])
    if accuracy < IDENTIFIES:
        return []
    message = (
        f"{column.name!r} identifies the domain: its value alone predicts the domain of a row with a balanced accuracy "
        f"of {accuracy:.0%}."
    )
    action = "A model cannot use it in a new domain. Leave it out."
    return [Finding(column.name, domain.names, "identifies_domain", "high", message, action, 1.0)]


def _find_missing(column: ColumnValues, domain: DomainRows, level: float) -> list[Finding]:
    """Shares of missing values that differ by 20 points or more between domains."""
    present = np.bincount(domain.codes[column.is_present], minlength=len(domain.names))
    shares = 1 - present / domain.sizes
    spread = shares.max() - shares.min()
    if spread < MIN_MISSING or chi2_contingency(np.array([present, domain.sizes - present]))[1] > level:
        return []
    where = np.flatnonzero(shares >= (shares.max() + shares.min()) / 2)
    message = f"{column.name!r} is missing in {_describe_shares(shares, where, domain)}."
    severity: Severity = "high" if spread >= MOSTLY_MISSING else "medium"
    action = "Leave it out." if severity == "high" else "Check why, or leave it out."
    affected = float(shares[where] @ domain.sizes[where] / domain.sizes.sum())
    return [Finding(column.name, domain.get_names(where), "missing", severity, message, action, affected)]


def _find_constant(column: ColumnValues, parts: Sequence[Array], domain: DomainRows, level: float) -> list[Finding]:
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
        findings.append(Finding(column.name, (name,), "constant", "high", message, action, domain.share(d)))
    return findings


def _find_prevalence(labels: Any, domain: DomainRows, label_name: str) -> list[Finding]:
    """Class proportions that differ by 15 points or more between domains of 20 rows or more."""
    rows = (domain.sizes >= MIN_PREVALENCE_ROWS)[domain.codes]
    (large, classes), counts = crosstab(domain.codes[rows], np.asarray(labels).astype(str)[rows])
    if min(counts.shape) < 2 or chi2_contingency(counts)[1] > ALPHA:
        return []
    proportions = counts / counts.sum(axis=1, keepdims=True)
    j = int(np.ptp(proportions, axis=0).argmax())
    extremes = np.array([proportions[:, j].argmin(), proportions[:, j].argmax()])
    low, high = proportions[extremes, j]
    if high - low < MIN_PREVALENCE:
        return []
    names = domain.get_names(large[extremes])
    message = (
        f"Class {str(classes[j])!r} of {label_name!r} makes up {_percent(low)} of {names[0]} and {_percent(high)} of "
        f"{names[1]}."
    )
    action = "Check the calibration on held-out domains, and do not center a new batch on its own mean without a test."
    severity: Severity = "high" if high - low >= LARGE_PREVALENCE else "medium"
    return [Finding(label_name, names, "prevalence", severity, message, action, 1.0)]


# What several columns with findings of one kind have in common.
GROUP_TEXTS: dict[Kind, str] = {
    "missing_code": "have a number that may stand for missing values",
    "units": "look as if they were in different units in some domain",
    "identifies_domain": "identify the domain",
    "missing": "are missing more often in some domains than in others",
    "constant": "have a single value in one domain, and others elsewhere",
}


def describe_findings(findings: Sequence[Finding]) -> list[str]:
    """Return findings as sentences with what to do, in order; more than three of one kind are taken together."""
    groups: dict[tuple[Severity, Kind], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, finding.kind), []).append(finding)
    sentences = []
    for (_, kind), group in groups.items():
        if len(group) <= SHOWN:
            sentences += [f"{finding.message} {finding.action}" for finding in group]
            continue
        names = list(dict.fromkeys(repr(finding.column) for finding in group))
        text = f"{len(names)} columns {GROUP_TEXTS[kind]}: {enumerate_names(names)}."
        sentences.append(f"{text} Check them, or leave them out.")
    return sentences


def format_number(value: float) -> str:
    """A number with at most four significant digits; a whole number has no decimal point."""
    if value == round(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"


def _percent(share: float) -> str:
    if 0 < share < 0.01:
        return "less than 1%"
    if 0.99 < share < 1:
        return "more than 99%"
    return f"{share:.0%}"


def format_range(text: Callable[[float], str], values: Sequence[float]) -> str:
    low = text(min(values))
    high = text(max(values))
    return low if low == high else f"{low} to {high}"


def _describe_shares(shares: Array, where: Ints, domain: DomainRows) -> str:
    """The shares of the rows of some domains, and of the others."""
    others = np.setdiff1d(np.arange(len(shares)), where)
    text = f"{format_range(_percent, shares[where].tolist())} of the rows of {enumerate_names(domain.get_names(where))}"
    if not len(others):
        return text
    elsewhere = format_range(_percent, shares[others].tolist())
    return f"{text}, and in {elsewhere} of {enumerate_names(domain.get_names(others))}"


def enumerate_names(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    if len(names) > SHOWN + 1:
        names = [*names[:SHOWN], f"{len(names) - SHOWN} more"]
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def measure_column_shift(columns: Sequence[ColumnValues], labels: Any, domain: DomainRows) -> tuple[ColumnShift, ...]:
    """Measure for each column how domains differ within classes; the largest shift first."""
    classes = np.unique(np.asarray(labels).astype(str), return_inverse=True)[1]
    shifts = [_measure_shift(column, classes, domain) for column in columns]
    p_values = adjust_by_holm(np.array([shift.p_value for shift in shifts]))
    adjusted = [replace(shift, p_value=p_value) for shift, p_value in zip(shifts, p_values, strict=True)]
    return tuple(sorted(adjusted, key=lambda shift: -shift.explained))


def _measure_shift(column: ColumnValues, classes: Ints, domain: DomainRows) -> ColumnShift:
    largest = float(np.abs(column.distinct[0]).max(initial=0.0))
    values = column.values / largest if largest >= LARGE else column.values  # nothing that is measured depends on units
    cells = []  # of each class that is in two domains, the values of each domain
    for label in range(int(classes.max()) + 1):
        parts = domain.split(np.where(classes == label, values, np.nan))
        parts = [part if len(part) >= MIN_CELL else part[:0] for part in parts]
        if sum(len(part) > 0 for part in parts) >= 2:
            cells.append(parts)
    if not cells:
        return ColumnShift(column.name, 0.0, 1.0, (None,) * len(domain.names))
    between, within, n_means, n_within = np.sum([_sum_squares(column.kind, parts) for parts in cells], axis=0)
    mean_square = within / n_within
    explained = max((between - n_means * mean_square) / max(between + within + mean_square, np.finfo(float).tiny), 0.0)
    p_value = fdtrc(n_means, n_within, between / n_means / mean_square) if mean_square > 0 else float(between == 0)
    return ColumnShift(column.name, float(explained), float(p_value), _find_differences(column.kind, cells))


def _sum_squares(kind: str, parts: Sequence[Array]) -> tuple[float, float, int, int]:
    """Squares between and within domains of ranks, or of indicators of categories, with their degrees of freedom."""
    parts = [part for part in parts if len(part)]
    values = np.concatenate(parts)
    scores = (values[:, None] == np.unique(values)) * 1.0 if kind == "categorical" else rankdata(values)[:, None]
    deviations = scores - scores.mean(axis=0)
    by_domain = np.split(deviations, np.cumsum([len(part) for part in parts])[:-1])
    between = sum(len(part) * float((part.mean(axis=0) ** 2).sum()) for part in by_domain)
    return between, float((deviations**2).sum()) - between, len(parts) - 1, len(values) - len(parts)


def _find_differences(kind: str, cells: Sequence[Sequence[Array]]) -> tuple[float | None, ...]:
    """Standardized difference of each domain from the mean of the others.

    Each class counts by its harmonic number of rows, here and elsewhere: what decides how well a difference is known.
    """
    parts = [part for domains in cells for part in domains if len(part)]
    scale = float(np.sqrt(sum(len(part) * part.var() for part in parts) / max(sum(len(p) - 1 for p in parts), 1)))
    differences: list[float | None] = []
    for d in range(len(cells[0])):
        weighted = []
        weights = []
        for domains in cells:
            others = [part for e, part in enumerate(domains) if e != d and len(part)]
            if not len(domains[d]):
                continue
            if kind == "categorical":
                difference = _find_category_difference(domains[d], others)
            else:
                distance = float(domains[d].mean() - np.mean([part.mean() for part in others]))
                difference = distance / scale if scale > 0 else 0.0
            weights.append(1 / (1 / len(domains[d]) + 1 / sum(map(len, others))))
            weighted.append(weights[-1] * difference)
        differences.append(sum(weighted) / sum(weights) if weights else None)
    return tuple(differences)


def _find_category_difference(values: Array, others: Sequence[Array]) -> float:
    """Chi-square distance of category shares: for two categories, the standardized difference of their shares."""
    levels = np.unique(np.concatenate([values, *others]))
    shares = (values[:, None] == levels).mean(axis=0)
    elsewhere = np.mean([(part[:, None] == levels).mean(axis=0) for part in others], axis=0)
    return float(np.sqrt(((shares - elsewhere) ** 2 / ((shares + elsewhere) / 2)).sum()))
