"""Checks of a surveyed table: whether its labels and domains allow learning, and which columns become features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..utils.validation import format_list
from ._column_roles import ColumnRoles, TableOptions, make_left_out_notices
from ._schema import Column
from ._survey import (
    MAX_LEVELS,
    MIN_UNIQUE_INTEGERS,
    ColumnStatistics,
    GroupCandidate,
    Survey,
    ValueEncoder,
    is_missing_mark,
)
from ._values import MAX_SHOWN, NO_LINE_ENDS, format_count

MAX_MEASURED_CLASSES = 20  # a label with more distinct values that are not integers is a measurement
MAX_LABEL_SHARE = 0.5  # of distinct labels among rows; more are identifiers
MAX_WRONG_SHARE = 0.1  # a column with a smaller share of values that are not numbers was probably meant to be numeric
# Number of domains with two or more classes from which domains of one class are allowed. With fewer, domain and class
# could hardly be told apart.
MIN_MIXED_DOMAINS = 3
MAX_CELLS = 20_000_000  # domains times classes; columns that hold neither may have a million values each


def find_value_problems(labels: NDArray[Any], roles: ColumnRoles, survey: Survey, options: TableOptions) -> list[str]:
    """Find problems of the labels and domains, if their columns are known."""
    if not (roles.features or roles.label or roles.domain):
        return []  # No column was read.
    heights = np.diff([*survey.starts, survey.rows])
    empty = [name for name, height in zip(survey.files, heights, strict=True) if not height]
    if not survey.rows and len(empty) == 1:
        if any("\r" in name for name in (*roles.features, *roles.left_out)):  # with some versions of polars
            return [f"{NO_LINE_ENDS}."]
        return [f"it has a header but no rows{f' ({empty[0]})' if roles.files_are_domains else ''}."]
    problems = [f"these files have a header but no rows: {format_list(empty)}."] if empty else []
    if roles.label is not None and roles.label == roles.domain:
        return problems  # The roles report this problem; all others would follow from it.
    unlabeled_problems = _find_unlabeled_problems(survey, options)
    if unlabeled_problems:
        return problems + unlabeled_problems
    classes = np.unique(labels)
    domains = np.array(survey.domain.names, dtype=str)
    if roles.label is not None:
        used_codes = np.unique(survey.collect("labels")[survey.collect("is_used")])
        problems += _find_label_problems(labels[used_codes[used_codes > 0] - 1], survey)
    if len(classes) * len(domains) > MAX_CELLS:
        return problems or [f"{len(classes):,} classes in {len(domains):,} domains are too many to count."]
    problems += _find_missing_names(survey, "group")
    if roles.domain is None and not roles.files_are_domains:
        return problems
    problems += _find_missing_names(survey, "domain")
    present = survey.present_domains
    if len(present) < 2 and survey.rows:
        source = "the folder" if roles.domain is None else f"the domain column {roles.domain!r}"
        names = f", {format_list(present)}" if present else ""
        left_out = (
            f" {_format_small_domains(survey, options)} left out (the parameter min_domain_rows)."
            if survey.small_domains
            else ""
        )
        problems.append(
            f"{source} holds {format_count(len(present), 'domain')}{names}: two or more are needed to learn what "
            f"domains have in common.{left_out}"
        )
    is_present = survey.counts(labels) > 0
    n_classes = is_present.sum(axis=1)
    # With a single class, the problem of the label would be repeated for every domain.
    if len(classes) > 1 and (n_classes > 1).sum() < MIN_MIXED_DOMAINS and (n_classes == 1).any():
        problems += _find_similar_names(present, "domains")
        problems += [
            f"the domain {str(domains[s])!r} has samples of one class only, {str(classes[is_present[s].argmax()])!r}. "
            "Leave out its rows, or choose another domain column."
            for s in np.flatnonzero(n_classes == 1)
        ]
    return problems


def _find_label_problems(labels: NDArray[Any], survey: Survey) -> list[str]:
    """Find missing labels, and labels that are not classes."""
    name = survey.label.column
    distinct = list(dict.fromkeys(labels.tolist()))
    advice = " Or set the parameter unlabeled to NA to leave these rows out."
    problems = _find_missing_names(survey, "label", advice)
    rows = survey.rows - survey.unlabeled - len(survey.find_missing("label"))
    is_measured = labels.dtype.kind == "U" and not pl.Series(distinct).cast(pl.Float64, strict=False).null_count()
    max_classes = MAX_MEASURED_CLASSES if is_measured else max(MAX_MEASURED_CLASSES, MAX_LABEL_SHARE * rows)
    if len(distinct) > max_classes:
        problems.append(
            f"the label column {name!r} has {len(distinct):,} distinct values in {format_count(rows, 'row')}, such as "
            f"{format_list(distinct[:3])}: they look like measurements or identifiers, not like classes. Choose "
            "another column."
        )
    elif len(distinct) < 2 and rows:
        problems.append(f"the label column {name!r} must hold at least two classes; it holds {format_list(distinct)}.")
    return problems


def _find_unlabeled_problems(survey: Survey, options: TableOptions) -> list[str]:
    """Check that the value of unlabeled rows occurs, but not in all rows."""
    value = options.unlabeled
    if value is None or survey.label.column is None:
        return []
    if not survey.unlabeled and not is_missing_mark(value):
        labels = format_list(sorted(survey.label.names))
        return [f"no row has the label {value!r} of unlabeled rows (the parameter unlabeled); the labels are {labels}."]
    if survey.unlabeled == survey.rows:
        return [
            f"all {format_count(survey.rows, 'row')} have the label {value!r} of unlabeled rows (the parameter "
            "unlabeled)."
        ]
    return []


def _format_small_domains(survey: Survey, options: TableOptions) -> str:
    names = survey.small_domains
    total = len(names) + len(survey.present_domains)
    return f"{format_count(len(names), 'domain')} of {total:,} with fewer than {options.min_domain_rows} rows"


def make_row_notices(survey: Survey, options: TableOptions) -> list[str]:
    """Make notices about rows that were left out because they have no label, or because their domain has few rows."""
    notices = []
    if survey.small_domains:
        notices.append(
            f"Left out {_format_small_domains(survey, options)}: {format_list(survey.small_domains)}. Set the "
            "parameter min_domain_rows to change this."
        )
    if not survey.unlabeled:
        return notices
    present = {*survey.present_domains, *survey.small_domains}
    empty = [name for name in survey.domain.names if name not in present]
    description = "without a label" if is_missing_mark(options.unlabeled) else f"with the label {options.unlabeled!r}"
    consequence = f", so that no rows remain of {format_list(empty)}" if empty else ""
    notices.append(f"Left out {format_count(survey.unlabeled, 'row')} of {survey.rows:,} {description}{consequence}.")
    return notices


def make_name_notices(labels: NDArray[Any], survey: Survey) -> list[str]:
    """Make notices about similar names, domains of one class, and domains without a class that others have."""
    domains = np.array(survey.domain.names, dtype=str)
    is_present = survey.counts(labels) > 0
    shares_class = is_present[:, is_present.sum(axis=0) > 1].any(axis=1)
    isolated = domains[is_present.any(axis=1) & ~shares_class].tolist()
    notices = _find_similar_names(survey.present_domains, "domains") + _find_similar_names(labels.tolist(), "classes")
    single = domains[is_present.sum(axis=1) == 1].tolist()
    if single and len(labels) > 1:
        n_domains = is_present.any(axis=1).sum()
        notices.append(
            f"{format_count(len(single), 'domain')} of {n_domains:,} with samples of one class only: "
            f"{format_list(single, 5)}. They are used for training; metrics that need two classes leave them out."
        )
    if isolated:
        notices.append(f"No class of these domains occurs in any other domain: {format_list(isolated)}.")
    return notices


def _find_similar_names(names: Sequence[Any], role: str) -> list[str]:
    """Make notices about names that differ only in spaces or case."""
    names_by_key: dict[str, list[str]] = {}
    for name in names:
        if isinstance(name, str):
            names_by_key.setdefault(" ".join(name.split()).casefold(), []).append(name)
    similar = [group for group in names_by_key.values() if len(group) > 1]
    return [
        f"{format_list(group)} are different {role}. If they are the same, use one spelling."
        for group in similar[:MAX_SHOWN]
    ]


def _find_missing_names(survey: Survey, role: str, advice: str = "") -> list[str]:
    encoder: ValueEncoder = getattr(survey, role)
    missing = survey.find_missing(role)
    if encoder.column is None or not len(missing):
        return []
    return [
        f"the {role} column {encoder.column!r} is missing in {format_count(len(missing), 'row')}: "
        f"{survey.format_rows(missing.tolist(), len(missing))}. Fill in the values, or leave out the rows.{advice}"
    ]


def select_columns(
    survey: Survey,
    columns: ColumnStatistics,
    candidates: Sequence[GroupCandidate],
    roles: ColumnRoles,
    options: TableOptions,
) -> tuple[tuple[Column, ...], list[str], list[str]]:
    """Return the features, with notices and problems; a column named in `options.features` is left out if constant.

    Columns that do not become features are added to those that the roles leave out.
    """
    n_domains = len(survey.present_domains)
    group_columns = [candidate.name for candidate in candidates if candidate.has_groups(n_domains)]
    kept = []
    for position, name in enumerate(columns.names):
        reason = _find_reason(columns, position, group_columns, options)
        if reason is None:
            kept.append(position)
        elif survey.rows:
            roles.left_out[name] = reason
    notices = make_left_out_notices(roles.left_out)
    if options.group is None:
        notices += [
            f"{name!r} repeats within domains. Set the parameter group to {name} to keep its rows together."
            for name in group_columns
        ]
    features = tuple(_make_column(columns, position, options) for position in kept)
    problems = [
        f"the column {feature.name!r} has more than {MAX_LEVELS:,} distinct values that are not numbers, too many for "
        "a feature."
        for position, feature in zip(kept, features, strict=True)
        if feature.kind == "categorical" and columns.too_many_levels[position]
    ]
    if not kept and survey.rows:
        texts = [name for name, reason in roles.left_out.items() if reason == "free text"]
        advice = (
            f" Free text is not used: {format_list(texts)}. Convert it to columns of numbers first, for example with "
            "HashingVectorizer of scikit-learn."
            if texts
            else ""
        )
        problems.append(f"no columns are left to be features.{advice}")
    unique = [columns.names[i] for i in kept if columns.is_numeric(i) and columns.has_unique_integers(i)]
    if unique and options.features is None and columns.n_rows >= MIN_UNIQUE_INTEGERS:
        notices.append(
            f"These columns hold a different integer in every row, as identifiers do: {format_list(unique)}. They are "
            "used as numbers. Drop them if they are identifiers."
        )
    for position, feature in zip(kept, features, strict=True):
        if feature.kind == "date" and len(columns.date_formats[position]) > 1:
            notices.append(
                f"Dates in {feature.name!r} are read as {feature.date_format}, but all of them are valid as "
                f"{columns.date_formats[position][1]} too. Write dates as yyyy-mm-dd to avoid ambiguity."
            )
    return features, notices + _make_reading_notices(survey, columns), problems


def _find_reason(columns: ColumnStatistics, i: int, group_columns: Sequence[str], options: TableOptions) -> str | None:
    """Find the reason to leave a column out; None if it becomes a feature."""
    name = columns.names[i]
    if columns.is_constant(i):
        return "constant" if columns.n_present(i) else "all missing"
    if options.features is not None:
        return None
    if columns.is_date(i):
        return "date" if options.dates == "drop" else None
    if name in group_columns:
        return "names a group"
    if not columns.is_identifier(i) or name in (options.categories or ()):
        return None
    if columns.is_numeric(i):
        return "identifier"
    if columns.is_free_text(i):
        return "free text"
    return "too many levels" if columns.too_many_levels[i] else "identifier"


def _make_column(columns: ColumnStatistics, i: int, options: TableOptions) -> Column:
    name = columns.names[i]
    has_missing = bool(columns.n_missing[i] or columns.n_infinite[i])
    marks = tuple((options.missing or {}).get(name, ()))
    if columns.is_numeric(i):
        return Column(name, "numeric", missing=has_missing, missing_values=marks)
    if columns.is_date(i):
        date_format = columns.date_formats[i][0]
        return Column(name, "date", date_format=date_format, missing=has_missing, missing_values=marks)
    levels = tuple(sorted(columns.levels[i]))
    return Column(name, "categorical", levels, missing=has_missing, missing_values=marks)


def _make_reading_notices(survey: Survey, columns: ColumnStatistics) -> list[str]:
    """Make notices about columns whose values are read in a way that may be unexpected."""
    names = columns.names
    notices = []
    with_infinite = np.flatnonzero((columns.n_infinite > 0) & ~columns.declared)
    infinite = [f"{names[i]} ({format_count(columns.n_infinite[i], 'value')})" for i in with_infinite]
    if infinite:
        notices.append(f"Numbers that are infinite or beyond 1e150 count as missing: {format_list(infinite)}.")
    for i in np.flatnonzero((columns.n_not_numbers > 0) & ~columns.declared).tolist():
        if columns.is_constant(i) or columns.n_not_numbers[i] >= MAX_WRONG_SHARE * columns.n_present(i):
            continue
        value, row = columns.first_not_number[i]
        n_wrong = format_count(columns.n_not_numbers[i], "value")
        notices.append(
            f"{names[i]!r} is not read as numbers because of {n_wrong}, such as {value!r} in "
            f"{survey.format_rows([row], 1)}."
        )
    return notices
