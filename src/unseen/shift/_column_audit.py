"""The column audit: what a careful reader of a table from several domains would notice, in ranked sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy.stats import chi2_contingency

from ..utils.optional_imports import optional_import
from ._column_tests import (
    CONVERSIONS,
    Conversion,
    LogStatistics,
    SpreadPrior,
    SwapEvidence,
    estimate_spread_prior,
    exceeds_share,
    find_scale_outliers,
    highest_share,
    is_excess,
    log_statistics,
    relation_features,
    swap_evidence,
    unit_evidence,
)
from ._column_values import ColumnValues, DomainRows, Floats, Indices, format_number, read_columns

Kind = Literal[
    "many_columns",
    "point_mass",
    "units",
    "swapped_codes",
    "domain_copy",
    "identifies_domain",
    "missing",
    "constant",
    "prevalence",
    "new_category",
    "spelling",
    "constant_everywhere",
]
Severity = Literal["high", "medium", "low"]

# Chance of any false alarm of one kind in a table, over all its columns and domains.
ALPHA = 0.05
# A value that 5% of the rows of a domain have beyond its share elsewhere moves a mean by 5% of its distance from it;
# less than that is smaller than what sites differ by anyway.
LEAST_MASS = 0.05
# A value outside the bulk of a column (its central 99%) by half an interquartile range or more is isolated: less than 1
# in 2,000 values of a normal sample lie there, and then not at one point.
ISOLATED = 0.5
BULK = (0.005, 0.995)
ISOLATED_ROWS = 3  # this many equal values at an isolated point are not typing errors
RARE_ELSEWHERE = 0.01  # a share below which a repeated value of a measured quantity is unusual
# A value that is unusual in all other domains (5% at most), and whose odds are ten times those of the domain that has
# it most often, is reported whatever the number of domains: that is 4.6 times the usual difference in log odds, 0.5.
LEAST_ODDS_RATIO = 10.0
SAME_VALUE = 1e-3  # relative difference of a converted value from the original, which files round
SENTINELS = (
    -9999.0,
    -999.0,
    -99.0,
    -9.0,
    -1.0,
    0.0,
    99.0,
    999.0,
    9999.0,
)  # numbers that often stand for missing values
# Differences of missing shares between domains: half of the rows makes a column unusable in a domain; a fifth is what
# imputation is usually trusted with; below a twentieth they hardly matter.
MISSING_STEPS: tuple[tuple[float, Severity], ...] = ((0.5, "high"), (0.2, "medium"), (0.05, "low"))
# Percentage points of a class beyond what chance gives, as graded by the diagnosis.
PREVALENCE_STEPS: tuple[tuple[float, Severity], ...] = ((0.30, "high"), (0.15, "medium"), (0.05, "low"))
# Fewer other domains than this do not show how much domains differ by nature: tests of scales keep their level for any
# difference between domains from five others on, and with fewer up to one standard deviation inside domains.
FEW_DOMAINS = 5
# This many columns of one domain, and such a share of all, do not go wrong one by one.
MANY_COLUMNS = 5
MANY_SHARE = 0.25
IDENTIFIES = 0.95  # balanced accuracy of the domain given one column, on rows that were left out
MIN_ROWS = 5  # values of a domain, fewer of which are not tested
SHOWN = 3  # columns or domains that a sentence names before it counts the rest
SIMULATIONS = 200  # of class counts without any shift: their mean range is known to 5% of its standard deviation


@dataclass(frozen=True)
class Finding:
    """One thing that a reader of the table should know.

    Attributes
    ----------
    column : str
        The column; for prevalence the name of the label; empty for a finding about many columns of a domain.
    domains : tuple of str
        The domains in which it is so.
    kind : str
        What was found, such as "units" or "missing".
    severity : {"high", "medium", "low"}
        How much it matters.
    message : str
        A sentence.
    action : str
        What to do, in Python parameters.
    affected : float
        Share of the rows of the table that it concerns.
    value : float, str or None
        The value in question, if there is one: the number that stands for missing values, the factor of units.
    """

    column: str
    domains: tuple[str, ...]
    kind: Kind
    severity: Severity
    message: str
    action: str
    affected: float
    value: float | str | None = None


@dataclass(frozen=True)
class ColumnFacts:
    """One column in one domain.

    Attributes
    ----------
    column, domain : str
        Which.
    rows : int
        The rows of the domain.
    missing : float
        Share of rows without a value.
    zeros : float or None
        Share of zeros among the values; None for categories.
    mode : str or None
        The most frequent value.
    mode_share : float or None
        Its share of the values.
    distinct : int
        The number of different values.
    minimum, median, maximum : float or None
        Of the values; None for categories.
    """

    column: str
    domain: str
    rows: int
    missing: float
    zeros: float | None
    mode: str | None
    mode_share: float | None
    distinct: int
    minimum: float | None
    median: float | None
    maximum: float | None

    @property
    def is_constant(self) -> bool:
        """Whether all values are equal."""
        return self.distinct == 1


@dataclass(frozen=True, eq=False)
class ColumnAudit:
    """What :func:`audit_columns` found.

    Attributes
    ----------
    domains : tuple of str
        The domains, sorted.
    columns : tuple of str
        The columns, in their order.
    facts : tuple of ColumnFacts
        For each column and domain.
    findings : tuple of Finding
        The most important first.
    prevalence : dict
        Share of each class in each domain; empty without labels.
    """

    domains: tuple[str, ...]
    columns: tuple[str, ...]
    facts: tuple[ColumnFacts, ...]
    findings: tuple[Finding, ...]
    prevalence: dict[str, dict[str, float]]

    def sentences(self) -> list[str]:
        """The findings as sentences with what to do, in order; many of one kind are taken together."""
        groups: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault((finding.severity, finding.kind), []).append(finding)
        sentences = []
        for (_, kind), findings in groups.items():
            if kind != "many_columns" and len(findings) > (1 if kind == "missing" else SHOWN):
                sentences.append(_group_sentence(findings))
            else:
                sentences += [f"{finding.message} {finding.action}" for finding in findings]
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "domains": list(self.domains),
            "columns": list(self.columns),
            "facts": [{**asdict(facts), "constant": facts.is_constant} for facts in self.facts],
            "findings": [{**asdict(finding), "domains": list(finding.domains)} for finding in self.findings],
            "prevalence": self.prevalence,
            "sentences": self.sentences(),
        }

    def to_frame(self) -> Any:
        """The facts as a pandas DataFrame, a row for each column and domain."""
        pandas = optional_import("pandas", "to_frame()")
        return pandas.DataFrame([{**asdict(facts), "constant": facts.is_constant} for facts in self.facts])

    def __str__(self) -> str:
        sentences = self.sentences()
        return "\n".join(sentences) if sentences else "No column stands out in any domain."


@dataclass(frozen=True, eq=False)
class _Context:
    """What all checks of a table share."""

    columns: list[ColumnValues]
    domain: DomainRows
    alpha: float
    spread_prior: SpreadPrior

    @property
    def level(self) -> float:
        """Of one test, so that all columns and domains together have a false alarm with probability alpha."""
        return self.alpha / max(len(self.columns) * len(self.domain), 1)

    def names(self, positions: Iterable[int]) -> tuple[str, ...]:
        """The names of some domains."""
        return tuple(self.domain.names[position] for position in positions)

    def affected_share(self, positions: Iterable[int], shares: Floats | None = None) -> float:
        """Share of all rows that lie in some domains, or in a share of each of them."""
        chosen = list(positions)
        rows = self.domain.sizes[chosen] * (1.0 if shares is None else shares[chosen])
        return float(rows.sum() / self.domain.sizes.sum())


def audit_columns(
    columns: Any, labels: Any = None, *, domains: Any, label_name: str = "label", alpha: float = ALPHA
) -> ColumnAudit:
    """Describe every column in every domain, and name what stands out, the most important first.

    Parameters
    ----------
    columns : mapping of str to array-like, DataFrame, or sequence of ColumnValues
        The features: numbers with NaN for missing values, or text with None for missing values.
    labels : array-like of shape (n_samples,), default=None
        The class of each row; None if unknown.
    domains : array-like of shape (n_samples,)
        The domain of each row.
    label_name : str, default="label"
        The name of the label, for messages.
    alpha : float, default=0.05
        Chance of any false alarm of one kind, over all columns and domains.

    Returns
    -------
    audit : ColumnAudit
        Facts, findings and sentences.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.shift._column_audit import audit_columns
    >>> rng = np.random.default_rng(0)
    >>> domain = np.repeat(["north", "south", "west"], 100)
    >>> glucose = rng.normal(100, 15, size=300)
    >>> glucose[domain == "west"] /= 18.016
    >>> audit = audit_columns({"glucose": glucose}, domains=domain)
    >>> print(audit)
    The values of 'glucose' in west look as if they were in other units: the median is 5.263 there and 99.81 to 101.1
    elsewhere, which fits a factor of 1/18.02. With 3 domains a natural difference of this size cannot be excluded.
    Convert the column (multiply by 18.02) in west, or leave it out: drop=["glucose"].
    """
    read = read_columns(columns)
    if not read:
        raise ValueError("columns must hold at least one column; got none.")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1; got {alpha}.")
    domain = DomainRows.from_labels(domains, len(read[0].values))
    classes, codes = _encode_labels(labels, len(domain.codes))
    statistics = [
        [log_statistics(part) for part in domain.split(column.values)] for column in read if not column.is_coded
    ]
    context = _Context(read, domain, alpha, estimate_spread_prior(statistics))
    facts: list[ColumnFacts] = []
    findings: list[Finding] = []
    for column in read:
        facts += _describe(column, domain)
        findings += _audit_column(column, context)
    findings += _swapped_codes(context, codes)
    findings += _many_columns(findings, context)
    shares: dict[str, dict[str, float]] = {}
    if codes is not None:
        counts = domain.count(codes, len(classes))
        proportions = counts / counts.sum(axis=1, keepdims=True)
        shares = {
            label: dict(zip(domain.names, proportions[:, j].tolist(), strict=True)) for j, label in enumerate(classes)
        }
        findings += _prevalence(counts, classes, domain, label_name, alpha)
    names = tuple(column.name for column in read)
    return ColumnAudit(domain.names, names, tuple(facts), _rank_findings(findings), shares)


def _rank_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    severities: tuple[str, ...] = get_args(Severity)
    kinds: tuple[str, ...] = get_args(Kind)

    def rank(finding: Finding) -> tuple[int, int, float]:
        return severities.index(finding.severity), kinds.index(finding.kind), -finding.affected

    return tuple(sorted(findings, key=rank))


def _encode_labels(labels: Any, n_samples: int) -> tuple[list[str], Indices | None]:
    if labels is None:
        return [], None
    values = np.asarray(labels.to_numpy() if hasattr(labels, "to_numpy") else labels)
    if values.shape != (n_samples,):
        raise ValueError(f"labels must hold one label for each of {n_samples} rows; got shape {values.shape}.")
    classes, codes = np.unique(values.astype(str), return_inverse=True)
    return classes.tolist(), codes.astype(np.intp)


def _describe(column: ColumnValues, domain: DomainRows) -> list[ColumnFacts]:
    is_number = column.kind == "numeric"
    facts = []
    for name, size, values in zip(domain.names, domain.sizes.tolist(), domain.split(column.values), strict=True):
        distinct, counts = np.unique(values, return_counts=True)
        has_numbers = is_number and len(values) > 0
        facts.append(
            ColumnFacts(
                column=column.name,
                domain=name,
                rows=size,
                missing=1 - len(values) / size,
                zeros=float((values == 0).mean()) if has_numbers else None,
                mode=column.text(distinct[counts.argmax()]).strip("'") if len(values) else None,
                mode_share=float(counts.max() / len(values)) if len(values) else None,
                distinct=len(distinct),
                minimum=float(distinct[0]) if has_numbers else None,
                median=float(np.median(values)) if has_numbers else None,
                maximum=float(distinct[-1]) if has_numbers else None,
            )
        )
    return facts


def _audit_column(column: ColumnValues, context: _Context) -> list[Finding]:
    """All findings about one column, but for exchanged codes, which depend on the other columns."""
    findings = list(_missing(column, context))
    parts = context.domain.split(column.values)
    sizes = np.array([len(part) for part in parts])
    if len(column.distinct[0]) == 1:
        return [*findings, _constant_everywhere(column)]
    if (sizes > 0).sum() < 2:
        return findings
    copy = _domain_copy(column, parts, context)
    # Two domains in different units tell the domain as well: units explain it.
    units = [] if copy or column.is_coded else list(_units(column, parts, context))
    if not units:
        copy = copy or _identifies_domain(column, context)
    if copy:
        return [*findings, copy]
    if column.is_coded:
        return [*findings, *_constant(column, parts, context), *_new_categories(column, context)]
    masses = list(_point_masses(column, parts, context))
    in_other_units = {name for finding in units for name in finding.domains}
    masses = [finding for finding in masses if not in_other_units.issuperset(finding.domains)]
    explained = {name for finding in masses for name in finding.domains}
    constant = [finding for finding in _constant(column, parts, context) if not explained.issuperset(finding.domains)]
    return [*findings, *units, *masses, *constant]


def _missing(column: ColumnValues, context: _Context) -> Iterable[Finding]:
    sizes = context.domain.sizes
    present = np.bincount(context.domain.codes[column.is_present], minlength=len(sizes))
    shares = 1 - present / sizes
    if shares.max() == shares.min():
        return
    p_value = chi2_contingency(np.array([present, sizes - present]))[1]
    spread = shares.max() - shares.min()
    severity = _step(spread, MISSING_STEPS)
    if severity is None or p_value > context.level:
        return
    middle = (shares.max() + shares.min()) / 2
    where = np.flatnonzero(shares >= middle)
    rest = np.flatnonzero(shares < middle)
    message = (
        f"{column.name!r} is missing by domain: in {_share_range(shares[where])} of the rows of "
        f"{enumerate_some(context.names(where))}, and in {_share_range(shares[rest])} of "
        f"{enumerate_some(context.names(rest))}."
    )
    action = f"Leave it out: drop=[{quote_name(column.name)}]."
    if severity != "high":
        action = f"Check why; leaving it out is drop=[{quote_name(column.name)}]."
    yield Finding(
        column.name, context.names(where), "missing", severity, message, action, context.affected_share(where, shares)
    )


def _constant_everywhere(column: ColumnValues) -> Finding:
    value = column.text(column.distinct[0][0])
    message = f"{column.name!r} has the same value, {value}, in all rows."
    action = f"It carries no information: drop=[{quote_name(column.name)}]."
    return Finding(column.name, (), "constant_everywhere", "low", message, action, 1.0)


def _domain_copy(column: ColumnValues, parts: Sequence[Floats], context: _Context) -> Finding | None:
    """A column with one value in each domain: a copy of the domain's name, or a property of domains."""
    constant = [len(part) > 0 and bool((part == part[0]).all()) for part in parts]
    if not all(constant):
        return None
    values = [float(part[0]) for part in parts]
    names = context.domain.names
    if len(set(values)) == len(values):
        example = f"{column.text(values[0])} in {names[0]}, {column.text(values[1])} in {names[1]}"
        message = f"{column.name!r} is a copy of the domain: each domain has one value, all different ({example})."
        action = f"A model cannot learn from it for a new domain: drop=[{quote_name(column.name)}]."
        return Finding(column.name, names, "domain_copy", "high", message, action, 1.0)
    message = f"{column.name!r} describes the domain, not its rows: it has one value in each domain."
    action = (
        f"Its effect is estimated from {len(names)} domains only; leave it out if in doubt: "
        f"drop=[{quote_name(column.name)}]."
    )
    return Finding(column.name, names, "identifies_domain", "medium", message, action, 1.0)


def _identifies_domain(column: ColumnValues, context: _Context) -> Finding | None:
    """A column that gives the domain away: its values in half of the rows name the domain of the other half."""
    domain = context.domain
    n_domains = len(domain)
    known = np.flatnonzero(column.is_present)
    codes = column.codes[known]
    if not column.is_coded:
        edges = np.quantile(column.values[known], np.linspace(0, 1, 4 * n_domains + 1)[1:-1])
        codes = np.searchsorted(edges, column.values[known], side="right")
    # Every other row of each domain, so that both halves hold all domains.
    order = np.argsort(domain.codes[known], kind="stable")
    half = np.zeros(len(known), dtype=bool)
    half[order[::2]] = True
    own = domain.codes[known]
    n_codes = int(codes.max()) + 1
    recalls = []
    for train in (half, ~half):
        table = np.bincount(own[train] * n_codes + codes[train], minlength=n_domains * n_codes)
        table = table.reshape(n_domains, n_codes)
        # Equal priors: the share of the rows of a domain, not its size, decides.
        guess = (table / np.maximum(table.sum(axis=1, keepdims=True), 1)).argmax(axis=0)
        right = guess[codes[~train]] == own[~train]
        totals = np.bincount(own[~train], minlength=n_domains)
        hits = np.bincount(own[~train], weights=right, minlength=n_domains)
        recalls.append((hits[totals > 0] / totals[totals > 0]).mean())
    accuracy = float(np.mean(recalls))
    if accuracy < IDENTIFIES:
        return None
    message = f"{column.name!r} identifies the domain: its values alone name the domain of {accuracy:.0%} of the rows."
    action = f"A model cannot use it in a new domain: drop=[{quote_name(column.name)}]."
    return Finding(column.name, domain.names, "identifies_domain", "high", message, action, 1.0)


def _point_masses(column: ColumnValues, parts: Sequence[Floats], context: _Context) -> Iterable[Finding]:
    """Single values that stand for something else: isolated ones, and those far more frequent in one domain."""
    sizes = np.array([len(part) for part in parts])
    isolated = _isolated_values(column)
    modes = [_mode(part) for part in parts if len(part) >= MIN_ROWS]
    candidates = dict.fromkeys([*isolated, *modes, *(v for v in SENTINELS if v in column.distinct[0])])
    for value in candidates:
        counts = np.array([int((part == value).sum()) for part in parts])
        shares = counts / np.maximum(sizes, 1)
        severity: Severity = "high" if shares.max() >= LEAST_MASS else "medium"
        if value in isolated:
            where = _isolated_domains(counts, sizes, context.level)
        else:
            where = _excessive_domains(counts, sizes, value, context.level)
        if len(where) == 0:
            continue
        is_moved = len(where) == 1 and value not in isolated
        conversion = _moved_mass(parts, int(where[0]), value) if is_moved else None
        if conversion is not None:
            others = [d for d in np.flatnonzero(sizes > 0).tolist() if d != where[0]]
            yield _unit_finding(column, parts, int(where[0]), others, [conversion], conversion.factor, context)
            continue
        yield _mass_finding(column, value, shares, where, severity, value in isolated, context)


def _mode(values: Floats) -> float:
    distinct, counts = np.unique(values, return_counts=True)
    return float(distinct[counts.argmax()])


def _isolated_values(column: ColumnValues) -> list[float]:
    """The lowest or the highest values, if many rows have them and all other values are far away."""
    values, counts = column.distinct
    isolated: list[float] = []
    low, high = 0, len(values)
    searching = True
    while searching and high - low > 2:
        searching = False
        for end in (low, high - 1):
            rest = slice(low + 1, high) if end == low else slice(low, high - 1)
            if counts[end] < ISOLATED_ROWS:
                continue
            bulk = _weighted_quantiles(values[rest], counts[rest], (*BULK, 0.25, 0.75))
            width = bulk[3] - bulk[2]
            gap = bulk[0] - values[end] if end == low else values[end] - bulk[1]
            if width > 0 and gap >= ISOLATED * width and _is_round(values[end]):
                isolated.append(float(values[end]))
                low, high = (low + 1, high) if end == low else (low, high - 1)
                searching = True
                break
    return isolated


def _is_round(value: float) -> bool:
    """Whether a number may stand for a missing value: people write 0, -1, 99 or 9999 there, not 3.7."""
    return value == 0 or value in SENTINELS or (value == round(value) and set(str(abs(int(value)))) == {"9"})


def _weighted_quantiles(values: Floats, counts: Indices, shares: Sequence[float]) -> Floats:
    cumulative = np.cumsum(counts)
    positions = np.searchsorted(cumulative, np.array(shares) * cumulative[-1], side="left")
    return values[np.minimum(positions, len(values) - 1)]


def _isolated_domains(counts: Indices, sizes: Indices, level: float) -> Indices:
    """Domains that have an isolated value, where another domain has next to none: elsewhere it is not a measurement.

    A value that all domains have, such as the zeros of a count, is a property of the quantity, not of a domain.
    """
    tested = sizes >= MIN_ROWS
    shares = counts / np.maximum(sizes, 1)
    if tested.sum() < 2 or shares[tested].min() > RARE_ELSEWHERE or counts.sum() == 0:
        return np.empty(0, dtype=np.intp)
    p_value = chi2_contingency(np.array([counts[tested], (sizes - counts)[tested]]))[1]
    where = np.flatnonzero(tested & (counts >= ISOLATED_ROWS) & (shares > RARE_ELSEWHERE))
    return where if p_value <= level else where[:0]


def _excessive_domains(counts: Indices, sizes: Indices, value: float, level: float) -> Indices:
    """Domains in which a value is more frequent than in a further domain like the others."""
    where = []
    total, rows = counts.sum(), sizes.sum()
    for d in np.flatnonzero(sizes >= MIN_ROWS):
        elsewhere = (total - counts[d]) / max(rows - sizes[d], 1)
        others = np.arange(len(sizes)) != d
        is_sentinel = value in SENTINELS
        is_unusual = is_sentinel or elsewhere <= RARE_ELSEWHERE
        if counts[d] / sizes[d] - elsewhere < LEAST_MASS or counts[d] < ISOLATED_ROWS or not is_unusual:
            continue
        count, size = int(counts[d]), int(sizes[d])
        found = is_excess(count, size, counts[others], sizes[others], level)
        if is_sentinel and not found:  # an ordinary value may be frequent for a harmless reason, such as rounding
            found = _is_new_mass(count, size, counts[others], sizes[others], level)
        if found:
            where.append(d)
    return np.array(where, dtype=np.intp)


def _is_new_mass(count: int, size: int, other_counts: Indices, other_sizes: Indices, level: float) -> bool:
    """Whether a value that is unusual in all other domains is common here, beyond sampling error."""
    tested = other_sizes >= MIN_ROWS
    if not tested.any():
        return False
    shares = other_counts[tested] / other_sizes[tested]
    odds = (count + 0.5) / (size - count + 0.5)
    other_odds = (other_counts[tested] + 0.5) / (other_sizes[tested] - other_counts[tested] + 0.5)
    if shares.max() > LEAST_MASS or odds < LEAST_ODDS_RATIO * other_odds.max():
        return False
    return exceeds_share(count, size, highest_share(other_counts[tested], other_sizes[tested]), level)


def _mass_finding(
    column: ColumnValues,
    value: float,
    shares: Floats,
    where: Indices,
    severity: Severity,
    is_isolated: bool,
    context: _Context,
) -> Finding:
    where = where[np.argsort(-shares[where], kind="stable")]
    rest = np.setdiff1d(np.arange(len(shares)), where)
    places = " and ".join(f"{_percent(shares[d])} of {context.domain.names[d]}" for d in where[:SHOWN])
    if len(where) > SHOWN:
        places = f"{_share_range(shares[where])} of {enumerate_some(context.names(where))}"
    other = f", and in {_share_range(shares[rest])} of {enumerate_some(context.names(rest))}" if len(rest) else ""
    message = f"{column.name!r} is {format_number(value)} in {places}{other}"
    if is_isolated:
        present = column.distinct[0][column.distinct[0] != value]
        message += f", far from all other values ({format_number(present[0])} to {format_number(present[-1])})"
    message += "."
    missing = f"missing={{{quote_name(column.name)}: {format_number(value)}}}"
    action = f"If it stands for a missing value, treat it as one: {missing}."
    if not is_isolated and value not in SENTINELS:
        action = f"If it was filled in for missing values, treat it as missing: {missing}."
    affected = context.affected_share(where, shares)
    return Finding(column.name, context.names(where), "point_mass", severity, message, action, affected, value)


def _constant(column: ColumnValues, parts: Sequence[Floats], context: _Context) -> Iterable[Finding]:
    sizes = np.array([len(part) for part in parts])
    for d, part in enumerate(parts):
        if len(part) < MIN_ROWS or (part != part[0]).any():
            continue
        counts = np.array([int((other == part[0]).sum()) for other in parts])
        others = np.arange(len(parts)) != d
        tested = others & (sizes >= MIN_ROWS)
        # Even the most uniform other domain would show different values in this number of rows.
        if not tested.any() or not exceeds_share(
            len(part), len(part), highest_share(counts[tested], sizes[tested]), context.level
        ):
            continue
        name = context.domain.names[d]
        elsewhere = np.concatenate([parts[int(e)] for e in np.flatnonzero(others)])
        message = (
            f"{column.name!r} is {column.text(part[0])} in every row of {name} that has a value; elsewhere it has "
            f"{len(np.unique(elsewhere))} different values."
        )
        drop = f"drop=[{quote_name(column.name)}]"
        action = f"It was probably not recorded there: set it to missing in {name}, or leave it out: {drop}."
        yield Finding(column.name, (name,), "constant", "high", message, action, context.affected_share([d]))


def _new_categories(column: ColumnValues, context: _Context) -> Iterable[Finding]:
    """Categories that only one domain has, and that a further domain like the others would not have."""
    values = column.distinct[0]
    counts = context.domain.count(column.codes, len(values))
    sizes = counts.sum(axis=1)
    spellings: dict[str, list[int]] = {}
    if column.kind == "categorical":
        for position, value in enumerate(values):
            spellings.setdefault(_plain_spelling(column.levels[int(value)]), []).append(position)
    for position, value in enumerate(values):
        where = np.flatnonzero(counts[:, position])
        text = column.text(value)
        alike = spellings.get(_plain_spelling(column.levels[int(value)]), []) if spellings else []
        if len(alike) > 1 and position != max(alike, key=lambda p: int(counts[:, p].sum())):
            usual = column.text(values[max(alike, key=lambda p: int(counts[:, p].sum()))])
            message = (
                f"{column.name!r} has the category {text} in {enumerate_some(context.names(where))}, elsewhere {usual}."
            )
            action = f"They differ in spelling only: write {usual} everywhere."
            affected = float(counts[where, position].sum() / context.domain.sizes.sum())
            yield Finding(column.name, context.names(where), "spelling", "high", message, action, affected, text)
        elif len(where) == 1:
            d = int(where[0])
            others = np.arange(len(sizes)) != d
            count = int(counts[d, position])
            if not is_excess(count, int(sizes[d]), counts[others, position], sizes[others], context.level):
                continue
            share = count / sizes[d]
            name = context.domain.names[d]
            message = f"{column.name!r} has the category {text} in {_percent(share)} of {name} and nowhere else."
            action = (
                "Check the coding there; a model cannot learn it from other domains. Recode it or treat it as missing."
            )
            severity: Severity = "medium" if share >= LEAST_MASS else "low"
            affected = float(count / context.domain.sizes.sum())
            yield Finding(column.name, (name,), "new_category", severity, message, action, affected, text)


def _plain_spelling(level: str) -> str:
    return " ".join(level.casefold().replace("_", " ").replace("-", " ").split())


def _units(column: ColumnValues, parts: Sequence[Floats], context: _Context) -> Iterable[Finding]:
    """Domains in other units, the most evident first, each compared with those that are not."""
    statistics = [log_statistics(part) for part in parts]
    known: dict[int, LogStatistics] = {d: own for d, own in enumerate(statistics) if own is not None}
    outliers = find_scale_outliers(known, context.level, context.spread_prior)
    usual = [d for d in known if d not in outliers]
    for d in outliers:
        others = [known[e] for e in usual]
        evidence = unit_evidence(parts[d], known[d], others, context.level, context.spread_prior)
        if evidence is not None:
            yield _unit_finding(column, parts, d, usual, evidence.conversions, evidence.factor, context)


def _moved_mass(parts: Sequence[Floats], d: int, value: float) -> Conversion | None:
    """The conversion that turns a frequent value of the other domains, which this domain lacks, into the given one.

    It must bring the other values of the domain back as well, into the range of those elsewhere.
    """
    elsewhere = np.concatenate([part for e, part in enumerate(parts) if e != d])
    rest = parts[d][parts[d] != value]
    if len(rest) < MIN_ROWS:
        return None
    distinct, counts = np.unique(elsewhere, return_counts=True)
    common = distinct[counts >= LEAST_MASS * len(elsewhere)]
    low, high = np.quantile(elsewhere, BULK)
    for conversion in CONVERSIONS:
        undone = conversion.undo(rest)
        if ((undone < low) | (undone > high)).mean() > LEAST_MASS:
            continue
        original = float(conversion.undo(np.array([value]))[0])
        for usual in common:
            is_same = abs(original - usual) <= SAME_VALUE * max(abs(usual), abs(value / conversion.factor))
            if is_same and (parts[d] == usual).mean() <= RARE_ELSEWHERE:
                return conversion
    return None


def _unit_finding(
    column: ColumnValues,
    parts: Sequence[Floats],
    d: int,
    usual: Sequence[int],
    fitting: Sequence[Conversion],
    factor: float,
    context: _Context,
) -> Finding:
    name = context.domain.names[d]
    medians = [float(np.median(parts[e])) for e in usual]
    drop = f"drop=[{quote_name(column.name)}]"
    ratio = f"about {factor:.2g} times" if factor > 1 else f"about 1/{1 / factor:.2g} of"
    message = (
        f"The values of {column.name!r} in {name} look as if they were in other units: the median is "
        f"{format_number(float(np.median(parts[d])))} there and {_number_range(medians)} elsewhere, "
    )
    if fitting:
        message += f"which fits {' or '.join(conversion.name for conversion in fitting[:SHOWN])}."
        action = f"Convert the column ({fitting[0].remedy}) in {name}, or leave it out: {drop}."
    else:
        message += f"and all values are {ratio} those elsewhere, which fits no common conversion."
        action = f"Check the unit and the source in {name}, or leave it out: {drop}."
    domains: tuple[str, ...] = (name,)
    if len(usual) == 1:  # two domains: either may be the one in other units
        domains = (name, context.domain.names[usual[0]])
        action = f"Check the units of both domains; leaving the column out is {drop}."
    if len(usual) < FEW_DOMAINS:
        message += f" With {len(usual) + 1} domains a natural difference of this size cannot be excluded."
    value = fitting[0].factor if fitting else factor
    return Finding(column.name, domains, "units", "high", message, action, context.affected_share([d]), value)


def _swapped_codes(context: _Context, labels: Indices | None) -> list[Finding]:
    coded = [p for p, column in enumerate(context.columns) if column.is_coded and len(column.distinct[0]) > 1]
    if not coded:
        return []
    features, owners = relation_features(context.columns, labels)
    level = context.alpha / (len(coded) * len(context.domain))
    counts = {p: context.domain.count(context.columns[p].codes, len(context.columns[p].distinct[0])) for p in coded}

    def evidence(position: int, excluded: Iterable[int]) -> list[SwapEvidence | None]:
        other = features[:, ~np.isin(owners, [position, *excluded])]
        codes = context.columns[position].codes
        return swap_evidence(codes, counts[position], context.domain, other if other.shape[1] else None)

    candidates = []
    for position in coded:
        for d, own in enumerate(evidence(position, ())):
            if own is not None and own.p_value <= level:
                candidates.append((own.p_value, position, d, own))
    findings = []
    accepted: dict[int, list[int]] = {}  # columns with exchanged codes, by domain
    for _, position, d, own in sorted(candidates, key=lambda candidate: candidate[:3]):
        # Exchanged codes of one column change its relation with all others: what is left without it counts.
        known = accepted.setdefault(d, [])
        again = evidence(position, known)[d] if known else None
        if known and (again is None or again.p_value > level):
            continue
        known.append(position)
        if len(context.domain) == 2 and position in accepted.get(1 - d, []):
            continue  # either domain may be the one with exchanged codes: one sentence
        findings.append(_swap_finding(context.columns[position], counts[position], d, own, context))
    return findings


def _swap_finding(column: ColumnValues, counts: Indices, d: int, evidence: SwapEvidence, context: _Context) -> Finding:
    first, second = (column.text(column.distinct[0][code]) for code in evidence.codes)
    pair = counts[:, list(evidence.codes)]
    shares = pair[:, 0] / np.maximum(pair.sum(axis=1), 1)
    others = (np.arange(len(shares)) != d) & (pair.sum(axis=1) > 0)
    name = context.domain.names[d]
    message = (
        f"The codes {first} and {second} of {column.name!r} look exchanged in {name}: of the rows with either, {first} "
        f"makes up {_percent(shares[d])} there and {_share_range(shares[others])} elsewhere"
    )
    # Shares alone may differ for a harmless reason, such as other criteria of diagnosis.
    severity: Severity = "high" if evidence.by_relation else "medium"
    if evidence.by_relation:
        message += ", and the exchanged codes fit the relation with the other columns better"
    drop = f"drop=[{quote_name(column.name)}]"
    action = f"Check the coding in {name} and exchange the codes there, or leave it out: {drop}."
    domains = (name, *(n for n in context.domain.names if n != name)) if len(context.domain) == 2 else (name,)
    affected = float(pair[d].sum() / context.domain.sizes.sum())
    value = f"{first}, {second}"
    return Finding(column.name, domains, "swapped_codes", severity, f"{message}.", action, affected, value)


def _many_columns(findings: Sequence[Finding], context: _Context) -> Iterable[Finding]:
    """Domains in which too many columns stand out that the fault is not in the columns."""
    columns: dict[str, set[str]] = {}
    for finding in findings:
        if finding.severity == "high" and len(finding.domains) == 1:
            columns.setdefault(finding.domains[0], set()).add(finding.column)
    for name, found in columns.items():
        if len(found) < max(MANY_COLUMNS, MANY_SHARE * len(context.columns)):
            continue
        message = f"In {name}, {len(found)} of {len(context.columns)} columns stand out."
        action = (
            f"Check that the columns of {name} are complete and in the same order: where each row lacks a value, the "
            "values after it are in the wrong columns. Otherwise leave the domain out."
        )
        d = context.domain.names.index(name)
        yield Finding("", (name,), "many_columns", "high", message, action, context.affected_share([d]))


def _prevalence(
    counts: Indices, classes: Sequence[str], domain: DomainRows, label_name: str, alpha: float
) -> list[Finding]:
    if len(classes) < 2 or chi2_contingency(counts)[1] > alpha:
        return []
    sizes = counts.sum(axis=1)
    proportions = counts / sizes[:, None]
    ranges = np.ptp(proportions, axis=0)
    j = int(ranges.argmax())
    rng = np.random.default_rng(0)
    overall = counts.sum(axis=0) / counts.sum()
    drawn = np.stack([rng.multinomial(size, overall, size=SIMULATIONS) / size for size in sizes])
    chance = float(np.ptp(drawn, axis=0).max(axis=1).mean())
    severity = _step(ranges[j] - chance, PREVALENCE_STEPS)
    if severity is None:
        return []
    low = int(proportions[:, j].argmin())
    high = int(proportions[:, j].argmax())
    message = (
        f"Class {classes[j]!r} of {label_name!r} makes up {_percent(proportions[low, j])} of {domain.names[low]} and "
        f"{_percent(proportions[high, j])} of {domain.names[high]}."
    )
    action = (
        "Class proportions differ by domain: judge probabilities by calibration on held-out domains, and do not center "
        "a new batch on its own mean without a test."
    )
    return [Finding(label_name, (domain.names[low], domain.names[high]), "prevalence", severity, message, action, 1.0)]


def _step(value: float, steps: Sequence[tuple[float, Severity]]) -> Severity | None:
    """The severity of the first step that the value reaches."""
    return next((severity for least, severity in steps if value >= least), None)


GROUP_SENTENCES: dict[str, str] = {
    "point_mass": "{n} columns hold one value far too often in some domain: {names}.",
    "units": "{n} columns look as if they were in other units in some domain: {names}.",
    "swapped_codes": "{n} columns seem to have exchanged codes in some domain: {names}.",
    "domain_copy": "{n} columns are copies of the domain: {names}.",
    "identifies_domain": "{n} columns identify the domain: {names}.",
    "constant": "{n} columns have a single value in some domain only: {names}.",
    "new_category": "{n} columns have categories that only one domain has: {names}.",
    "spelling": "{n} columns have categories that differ in spelling only: {names}.",
    "constant_everywhere": "{n} columns have the same value in all rows: {names}.",
}


def _group_sentence(findings: Sequence[Finding]) -> str:
    """Many findings of one kind in one sentence, and one action for all."""
    columns = list(dict.fromkeys(finding.column for finding in findings))
    kind = findings[0].kind
    drop = f"drop=[{', '.join(quote_name(name) for name in columns)}]"
    if len(columns) > 2 * SHOWN:
        drop = f"drop=[{', '.join(quote_name(name) for name in columns[:SHOWN])}, ...]"
    if kind == "missing":
        names = enumerate_some([repr(name) for name in columns])
        example = findings[0].message.replace(" is missing by domain: ", ", for example, ")
        verb = "Leave them out:" if findings[0].severity == "high" else "Check why; leaving them out is"
        return f"{names} are missing by domain; {example} {verb} {drop}."
    described = []
    for finding in findings[:SHOWN]:
        where = "" if len(finding.domains) > SHOWN or not finding.domains else f" ({enumerate_some(finding.domains)})"
        described.append(f"{finding.column!r}{where}")
    if len(findings) > SHOWN:
        described.append(f"{len(findings) - SHOWN} more")
    sentence = GROUP_SENTENCES[kind].format(n=len(columns), names=_enumerate(described))
    return f"{sentence} Check them; leaving them out is {drop}."


def quote_name(name: str) -> str:
    """A name in double quotes, as Python code has it."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _percent(share: float) -> str:
    if 0 < share < 0.01:
        return "less than 1%"
    if 0.99 < share < 1:
        return "more than 99%"
    return f"{share:.0%}"


def _share_range(shares: Floats) -> str:
    return _range(_percent, shares)


def _number_range(values: Sequence[float]) -> str:
    return _range(format_number, np.array(values))


def _range(text: Callable[[float], str], values: Floats) -> str:
    low, high = text(float(np.min(values))), text(float(np.max(values)))
    return low if low == high else f"{low} to {high}"


def enumerate_some(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    if len(names) <= SHOWN + 1:
        return _enumerate(names)
    return _enumerate([*names[:SHOWN], f"{len(names) - SHOWN} more"])


def _enumerate(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
