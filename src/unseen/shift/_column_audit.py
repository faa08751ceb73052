"""The column audit: columns that are not comparable between domains, found by simple rules, and shift by column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import fdtrc
from scipy.stats import chi2_contingency, rankdata

from ..linalg import Array, Ints
from ..tables import Table
from ..utils.samples import Samples
from ._permutation_tests import adjust_by_holm

Kind = Literal["missing_code", "units", "identifies_domain", "missing", "constant"]
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
MIN_CELL = 2  # values of a class in a domain, fewer of which have no spread
COLUMNS_IN_HEAT_MAP = 40  # those that shift most


class Finding(NamedTuple):
    """One thing that a reader of the table should know.

    Attributes
    ----------
    column : str
        The column.
    domains : tuple of str
        The domains in which it is so.
    kind : str
        "missing_code", "units", "identifies_domain", "missing" or "constant".
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


@dataclass(frozen=True, eq=False)
class DomainColumn:
    """A column of a table, split by domain.

    Attributes
    ----------
    name : str
        The name of the column.
    levels : tuple of str
        The categories; empty for numbers.
    domains : ndarray of shape (n_domains,)
        The names of the domains, sorted.
    sizes : ndarray of shape (n_domains,)
        The number of rows of each domain.
    parts : list of ndarray
        The values of each domain, missing ones left out; for categories their positions among `levels`.
    """

    name: str
    levels: tuple[str, ...]
    domains: Any
    sizes: Ints
    parts: list[Array]

    @cached_property
    def distinct(self) -> Array:
        """The different values, sorted."""
        return np.unique(np.concatenate(self.parts))

    @property
    def is_coded(self) -> bool:
        """Whether the values are categories or codes of categories: few different whole numbers."""
        values = self.distinct
        return bool(self.levels) or (len(values) <= MAX_CODES and bool((values == np.round(values)).all()))

    @property
    def n_present(self) -> Ints:
        """The number of values of each domain."""
        return np.array([len(part) for part in self.parts])

    def make_finding(
        self, kind: Kind, where: Any, message: str, action: str, affected: float, value: float | None = None
    ) -> Finding:
        """Make a finding of high severity on some domains, given by their positions."""
        names = tuple(self.domains[where].tolist())
        return Finding(self.name, names, kind, "high", message, action, float(affected), value)

    def describe_shares(self, shares: Array, where: Ints) -> str:
        """Describe the shares of the rows of some domains, and of the others."""
        others = np.setdiff1d(np.arange(len(shares)), where)
        texts = [
            f"{format_range(_percent, shares[positions])}{rows} of {enumerate_names(self.domains[positions].tolist())}"
            for positions, rows in ((where, " of the rows"), (others, ""))
            if len(positions)
        ]
        return ", and in ".join(texts)


class Conversion(NamedTuple):
    """A change of units: new = factor * old + offset."""

    name: str
    factor: float
    offset: float = 0.0


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


class ColumnShift(NamedTuple):
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
            "findings": [{**finding._asdict(), "domains": list(finding.domains)} for finding in self.findings],
            "heat_map": self.heat_map(),
            "n_columns": len(self.shifts),
        }

    def __repr__(self) -> str:
        return "\n".join(self.sentences() or ["No column stands out in any domain."])


def diagnose_columns(table: Table) -> ColumnDiagnosis | None:
    """Audit the columns of a table on all rows, and measure the shift of each on at most 2,000 rows of a domain.

    None for arrays and photographs, whose columns have no meaning of their own, and for more than 1,000 columns.
    """
    if not _has_named_columns(table, MAX_COLUMNS):
        return None
    used = table.take(table.samples.subsample_rows(max_per_domain=MAX_SHIFT_ROWS))
    return ColumnDiagnosis(tuple(np.unique(table.domain).tolist()), audit_table(table), measure_column_shift(used))


def find_column_notices(table: Table) -> list[str]:
    """Return sentences on likely errors in columns, for notices before a fit: few, and only grave ones.

    Tables of more than 100 columns are not audited here, since that would take seconds.
    """
    if not _has_named_columns(table, MAX_NOTICE_COLUMNS):
        return []
    findings = audit_table(table)
    sentences = describe_findings([finding for finding in findings if finding.severity == "high"])
    if len(sentences) > MAX_NOTICES:
        rest = len(sentences) - MAX_NOTICES
        return [*sentences[:MAX_NOTICES], f"{rest} more findings on columns: diagnose lists them."]
    return sentences


def _has_named_columns(table: Table, limit: int) -> bool:
    return table.schema.label is not None and 0 < len(table.schema.columns) <= limit


def audit_table(table: Table) -> tuple[Finding, ...]:
    """Find columns of a table that are not comparable between its domains, the most important first."""
    domains, codes, sizes = np.unique(table.domain, return_inverse=True, return_counts=True)
    if len(domains) < 2:
        return ()
    rows_by_domain = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    level = ALPHA / (len(table.schema.columns) * len(domains))
    findings: list[Finding] = []
    for position, description in enumerate(table.schema.columns):
        values = table.X[:, position]
        parts = [values[rows][np.isfinite(values[rows])] for rows in rows_by_domain]
        column = DomainColumn(description.name, description.levels, domains, sizes, parts)
        findings += _find_missing(column, level)
        if len(column.distinct) < 2 or (column.n_present > 0).sum() < 2:
            continue
        codes_found = [] if column.levels else list(_find_missing_codes(column))
        code_values = np.array([finding.value for finding in codes_found], dtype=np.float64)
        column = replace(column, parts=[part[~np.isin(part, code_values)] for part in parts])
        units = [] if column.is_coded else list(_find_units(column))
        # Domains in different units tell the domain as well: units explain it.
        identity = [] if codes_found or units else list(_find_identity(column))
        constant = [] if identity else list(_find_constant(column, level))
        findings += [*codes_found, *units, *identity, *constant]
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


def _find_missing_codes(column: DomainColumn) -> Iterator[Finding]:
    """Numbers that stand for missing values.

    A number such as -9 or 999 is one if it is apart from all other values. Zero is one if it is apart and frequent in
    some domains, and if at least half of the others have next to none.
    """
    values = np.concatenate(column.parts)
    ordinary = values[~np.isin(values, MISSING_CODES)]
    for value in np.intersect1d(column.distinct, (0.0, *MISSING_CODES)).tolist():
        others = ordinary[ordinary != value]
        if len(others) < MIN_VALUES or not is_missing_code(value, others, column.is_coded):
            continue
        counts = np.array([(part == value).sum() for part in column.parts])
        is_concerned = counts > 0
        if value == 0:
            shares = counts / np.maximum(column.n_present, 1)
            is_compared = column.n_present >= MIN_VALUES
            if 2 * (is_compared & (shares <= RARE_ZEROS)).sum() < max(is_compared.sum() - 1, 1):
                continue
            is_concerned = (shares >= MIN_ZEROS) & (counts >= MIN_CODE_ROWS)
        n_rows = counts[is_concerned].sum()
        n_nearby = (np.abs(others - value) <= NEARBY * abs(value)).sum()
        if n_rows < MIN_CODE_ROWS or n_nearby > MAX_NEARBY * n_rows:
            continue
        shares = counts / column.sizes
        order = np.argsort(-shares, kind="stable")
        where = order[is_concerned[order]]
        text = format_number(value)
        message = (
            f"{column.name!r} is {text} in {column.describe_shares(shares, where)}; its ordinary values are "
            f"{format_number(others.min())} to {format_number(others.max())}."
        )
        action = f"If {text} stands for a missing value, declare it with the parameter missing."
        yield column.make_finding("missing_code", where, message, action, n_rows / column.sizes.sum(), value)


def measure_magnitudes(values: Array) -> Array | None:
    """Logarithms of the quantiles of |x| over values other than zero; None for fewer than ten of them."""
    values = np.abs(values[values != 0])
    return np.log(np.quantile(values, MAGNITUDES)) if len(values) >= MIN_VALUES else None


def _find_units(column: DomainColumn) -> Iterator[Finding]:
    """Domains whose values differ from those of the others, as a known conversion of units explains.

    Values differ if their median lies outside of the central 80% of a typical domain, and if its distance from the
    typical median is four times that of a typical domain. If more than a quarter of the domains differ, they differ by
    nature. A conversion explains a difference if undoing it takes away three quarters of the distance, from all
    quantiles. All comparisons are of logarithms.
    """
    measured = {d: own for d, part in enumerate(column.parts) if (own := measure_magnitudes(part)) is not None}
    if len(measured) < 3 or np.median([np.mean(column.parts[d] == 0) for d in measured]) > ORDINARY_ZEROS:
        return
    magnitudes = np.array(list(measured.values()))
    typical = np.median(magnitudes, axis=0)
    distances = np.abs(magnitudes[:, MEDIAN] - typical[MEDIAN])
    is_apart = (magnitudes[:, MEDIAN] < typical[0]) | (magnitudes[:, MEDIAN] > typical[-1])
    if is_apart.sum() > max(len(measured) // 4, 1):
        return
    medians = {d: float(np.median(column.parts[d])) for d in measured}
    is_far = is_apart & (distances > MIN_RATIO * np.median(distances))
    for d, distance in zip(np.array(list(measured))[is_far].tolist(), distances[is_far], strict=True):
        fitting = []
        for conversion in CONVERSIONS:
            undone = measure_magnitudes((column.parts[d] - conversion.offset) / conversion.factor)
            rest = np.inf if undone is None else np.abs(undone - typical).max()
            if rest <= distance / MIN_RATIO:
                fitting.append((rest, conversion))
        if not fitting:
            continue
        fitting.sort(key=lambda pair: pair[0])
        # Others that leave twice the distance are not worth naming.
        conversions = [conversion for rest, conversion in fitting if rest <= 2 * fitting[0][0]]
        _, factor, offset = conversions[0]
        remedy = f"divide by {factor:.4g}" if factor > 1 else f"multiply by {1 / factor:.4g}"
        if offset:
            remedy = f"apply (x - {offset:.4g}) / {factor:.4g}"
        name = column.domains[d]
        elsewhere = format_range(format_number, [median for e, median in medians.items() if e != d])
        message = (
            f"The values of {column.name!r} in {name} look as if they were in different units: the median is "
            f"{format_number(medians[d])} there and {elsewhere} elsewhere, which fits "
            f"{' or '.join(conversion.name for conversion in conversions[:SHOWN])}."
        )
        action = f"Convert the column ({remedy}) in {name}, or leave it out."
        yield column.make_finding("units", [d], message, action, column.sizes[d] / column.sizes.sum(), factor)


def _find_identity(column: DomainColumn) -> Iterator[Finding]:
    """A column whose value predicts the domain of every other row, learned from the rows between."""
    n_domains = len(column.domains)
    values = np.concatenate(column.parts)
    domain = np.repeat(np.arange(n_domains), column.n_present)
    cuts = column.distinct if column.is_coded else np.quantile(values, np.linspace(0, 1, 4 * n_domains + 1)[1:-1])
    codes = np.searchsorted(cuts, values, side="right")
    counts = np.zeros((n_domains, len(cuts) + 1))
    np.add.at(counts, (domain[::2], codes[::2]), 1)
    # Equal priors: the share of the rows of a domain, not its size, decides.
    likeliest = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)).argmax(axis=0)
    is_right = likeliest[codes[1::2]] == domain[1::2]
    n_scored = np.bincount(domain[1::2], minlength=n_domains)
    # The mean over domains of their shares of right rows; a domain with a single value has no row to score.
    is_scored = n_scored > 0
    n_right = np.bincount(domain[1::2], is_right, minlength=n_domains)
    accuracy = float(np.mean(n_right[is_scored] / n_scored[is_scored]))
    if accuracy >= IDENTIFIES:
        message = (
            f"{column.name!r} identifies the domain: its value alone predicts the domain of a row with a balanced "
            f"accuracy of {accuracy:.0%}."
        )
        action = "A model cannot use it in a new domain. Leave it out."
        yield column.make_finding("identifies_domain", slice(None), message, action, 1.0)


def _find_missing(column: DomainColumn, level: float) -> Iterator[Finding]:
    """Shares of missing values that differ by 20 points or more between domains."""
    shares = 1 - column.n_present / column.sizes
    spread = np.ptp(shares)
    counts = np.array([column.n_present, column.sizes - column.n_present])
    if spread < MIN_MISSING or chi2_contingency(counts)[1] > level:
        return
    where = np.flatnonzero(shares >= (shares.max() + shares.min()) / 2)
    message = f"{column.name!r} is missing in {column.describe_shares(shares, where)}."
    affected = shares[where] @ column.sizes[where] / column.sizes.sum()
    finding = column.make_finding("missing", where, message, "Leave it out.", affected)
    is_medium = spread < MOSTLY_MISSING
    yield finding._replace(severity="medium", action="Check why, or leave it out.") if is_medium else finding


def _find_constant(column: DomainColumn, level: float) -> Iterator[Finding]:
    """Domains with a single value, in which even the most uniform other domain would have others."""
    for d, part in enumerate(column.parts):
        if len(part) < MIN_VALUES or (part != part[0]).any():
            continue
        others = [other for e, other in enumerate(column.parts) if e != d and len(other) >= MIN_VALUES]
        # One row more is counted, so that few rows prove little.
        share = max((((other == part[0]).sum() + 1) / (len(other) + 1) for other in others), default=1.0)
        if share ** len(part) > level:
            continue
        name = column.domains[d]
        value = repr(column.levels[int(part[0])]) if column.levels else format_number(part[0])
        message = (
            f"{column.name!r} is {value} in every row of {name} that has a value; elsewhere it has "
            f"{len(np.unique(np.concatenate(others)))} different values, and {value} in at most {_percent(share)} of a "
            "domain."
        )
        action = f"If it was not recorded in {name}, set it to missing there, or leave it out."
        yield column.make_finding("constant", [d], message, action, column.sizes[d] / column.sizes.sum())


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


def format_range(text: Callable[[float], str], values: Any) -> str:
    low = text(min(values))
    high = text(max(values))
    return low if low == high else f"{low} to {high}"


def enumerate_names(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    if len(names) > SHOWN + 1:
        names = [*names[:SHOWN], f"{len(names) - SHOWN} more"]
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def measure_column_shift(table: Table) -> tuple[ColumnShift, ...]:
    """Measure for each column how domains differ within classes; the largest shift first."""
    samples = table.samples
    shifts = [
        _measure_shift(column.name, table.X[:, position], samples, is_categorical=column.kind == "categorical")
        for position, column in enumerate(table.schema.columns)
    ]
    p_values = adjust_by_holm(np.array([shift.p_value for shift in shifts]))
    adjusted = [shift._replace(p_value=p_value) for shift, p_value in zip(shifts, p_values, strict=True)]
    return tuple(sorted(adjusted, key=lambda shift: -shift.explained))


def _measure_shift(name: str, values: Array, samples: Samples, *, is_categorical: bool) -> ColumnShift:
    """Measure the shift of one column, over the classes that are in two domains, with two rows or more in each.

    Squares are those of ranks, or of indicators of categories. The difference of a domain from the mean of the others
    is that of means, or the chi-square distance of category shares: for two categories, the standardized difference of
    their shares. Each class counts by its harmonic number of rows, here and elsewhere: what decides how well a
    difference is known.
    """
    is_finite = np.isfinite(values)
    n_domains = samples.domain_codes.max() + 1
    differences = np.zeros(n_domains)
    weights = np.zeros(n_domains)
    total = between = variation = 0.0
    n_means = n_within = 0
    for j in range(len(samples.classes)):
        rows = np.flatnonzero(is_finite & (samples.codes == j))
        sizes = np.bincount(samples.domain_codes[rows], minlength=n_domains)
        rows = rows[sizes[samples.domain_codes[rows]] >= MIN_CELL]
        present, codes, n = np.unique(samples.domain_codes[rows], return_inverse=True, return_counts=True)
        if len(present) < 2:
            continue
        x = values[rows, None]
        scores = (x == np.unique(x)).astype(np.float64) if is_categorical else rankdata(x, axis=0)
        members = np.eye(len(n))[codes] / n
        score_means = members.T @ scores
        center = scores.mean(axis=0)
        total += float(np.square(scores - center).sum())
        between += float(n @ np.square(score_means - center).sum(axis=1))
        means = score_means if is_categorical else members.T @ x
        gaps = means - (means.sum(axis=0) - means) / (len(n) - 1)
        if is_categorical:
            distances = np.sqrt((gaps**2 / (means - gaps / 2)).sum(axis=1))
        else:
            variation += float(np.square(x - means[codes]).sum())
            distances = gaps[:, 0]
        weight = 1 / (1 / n + 1 / (n.sum() - n))
        differences[present] += weight * distances
        weights[present] += weight
        n_means += len(n) - 1
        n_within += len(rows) - len(n)
    if not n_means:
        return ColumnShift(name, 0.0, 1.0, (None,) * n_domains)
    mean_square = (total - between) / n_within
    explained = (between - n_means * mean_square) / max(total + mean_square, np.finfo(float).tiny)
    p_value = fdtrc(n_means, n_within, between / n_means / mean_square) if mean_square > 0 else float(between == 0)
    scale = 1.0 if is_categorical else np.sqrt(variation / n_within)
    with np.errstate(divide="ignore", invalid="ignore"):  # A column without variation has no standardized differences.
        standardized = np.where(differences == 0, 0.0, differences / (weights * scale))
    share = round(float(np.clip(explained, 0.0, 1.0)), 12)
    known = [value if weight else None for value, weight in zip(standardized.tolist(), weights, strict=True)]
    return ColumnShift(name, share, float(p_value), tuple(known))
