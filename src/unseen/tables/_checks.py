"""Checks of a surveyed table: whether its labels and domains allow learning, and which columns become features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..linalg import Ints
from ..utils.validation import format_list
from ._column_roles import ColumnRoles, TableOptions, make_left_out_notices
from ._errors import MAX_SHOWN, NO_LINE_ENDS, format_count
from ._schema import Column
from ._survey import MAX_LEVELS, ColumnStatistics, Survey, ValueEncoder
from ._values import parse_whole_numbers

CODE_NAME = re.compile(r"(^|[\s_.\-])(?i:id)$|[a-z](ID|Id)$")  # of integer columns that may hold codes
MAX_MEASURED_CLASSES = 20  # a label with more distinct values that are not integers is a measurement
MAX_LABEL_SHARE = 0.5  # of distinct labels among rows; more are identifiers
MAX_WRONG_SHARE = 0.1  # a column with a smaller share of values that are not numbers was probably meant to be numeric
# Number of domains with two or more classes from which domains of one class are allowed. With fewer, domain and class
# could hardly be told apart.
MIN_MIXED_DOMAINS = 3
MAX_CELLS = 20_000_000  # domains times classes; columns that hold neither may have a million values each


def find_value_problems(labels: NDArray[Any], roles: ColumnRoles, survey: Survey, *, keep_all: bool) -> list[str]:
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
    unlabeled_problems = _find_unlabeled_problems(survey)
    if unlabeled_problems:
        return problems + unlabeled_problems
    classes = np.unique(labels)
    domains = np.array(survey.domain.names, dtype=str)
    if roles.label is not None:
        used_codes = sorted({label for _, label in survey.cells if label})
        problems += _find_label_problems(labels[np.array(used_codes, dtype=int) - 1], survey, keep_all=keep_all)
    if len(classes) * len(domains) > MAX_CELLS:
        return problems or [f"{len(classes):,} classes in {len(domains):,} domains are too many to count."]
    counts = survey.counts(labels)
    problems += _find_missing_names(survey.group, "group", survey)
    if roles.files_are_domains:
        problems += _find_mixed_labels(domains, classes, counts)
    if keep_all or (roles.domain is None and not roles.files_are_domains):
        return problems
    problems += _find_domain_problems(survey)
    if len(classes) > 1:  # With a single class, the problem of the label is repeated for every domain.
        cell_problems = _find_cell_problems(domains, classes, counts)
        if cell_problems:
            problems += _find_similar_names(survey.present_domains, "domains")
        problems += cell_problems
    return problems


def _find_label_problems(labels: NDArray[Any], survey: Survey, *, keep_all: bool) -> list[str]:
    """Find missing labels, and labels that are not classes; with `keep_all`, a single class is allowed."""
    name = survey.label.column
    distinct = list(dict.fromkeys(labels.tolist()))
    advice = "" if keep_all else " Or set the parameter unlabeled to NA to leave these rows out."
    problems = _find_missing_names(survey.label, "label", survey, advice)
    rows = survey.rows - survey.unlabeled - survey.label.n_missing
    is_measured = labels.dtype.kind == "U" and _are_numbers(distinct)
    if keep_all:
        max_classes: float = 0 if is_measured else len(distinct)
    else:
        max_classes = MAX_MEASURED_CLASSES if is_measured else max(MAX_MEASURED_CLASSES, MAX_LABEL_SHARE * rows)
    if len(distinct) > max_classes:
        problems.append(
            f"the label column {name!r} has {len(distinct):,} distinct values in {format_count(rows, 'row')}, such as "
            f"{format_list(distinct[:3])}: they look like measurements or identifiers, not like classes. Choose "
            "another column."
        )
    elif len(distinct) < 2 and rows and not keep_all:
        problems.append(f"the label column {name!r} must hold at least two classes; it holds {format_list(distinct)}.")
    return problems


def _are_numbers(names: Sequence[str]) -> bool:
    return bool(pl.Series(names).cast(pl.Float64, strict=False).null_count() == 0)


def _find_domain_problems(survey: Survey) -> list[str]:
    """Find missing domains, and fewer than two domains."""
    name = survey.domain.column
    present = survey.present_domains
    problems = _find_missing_names(survey.domain, "domain", survey)
    if len(present) < 2 and survey.rows:
        source = "the folder" if name is None else f"the domain column {name!r}"
        names = f", {format_list(present)}" if present else ""
        left_out = (
            f" {_format_small_domains(survey)} left out (the parameter min_domain_rows)."
            if survey.small_domains
            else ""
        )
        problems.append(
            f"{source} holds {format_count(len(present), 'domain')}{names}: two or more are needed to learn what "
            f"domains have in common.{left_out}"
        )
    return problems


def _find_cell_problems(domains: NDArray[Any], classes: NDArray[Any], counts: Ints) -> list[str]:
    """Find domains with rows of a single class, if few domains have more classes."""
    is_present = counts > 0
    if (is_present.sum(axis=1) > 1).sum() >= MIN_MIXED_DOMAINS:
        return []
    return [
        f"the domain {str(domains[s])!r} has samples of one class only, {str(classes[is_present[s].argmax()])!r}. "
        "Leave out its rows, or choose another domain column."
        for s in np.flatnonzero(is_present.sum(axis=1) == 1)
    ]


def _find_mixed_labels(domains: NDArray[Any], classes: NDArray[Any], counts: Ints) -> list[str]:
    """Find files with numbers as labels next to files with words as labels."""
    if classes.dtype.kind != "U":
        return []
    is_number = parse_whole_numbers(pl.Series(classes.tolist())).is_not_null().to_numpy()
    is_present = counts > 0
    has_rows = is_present.any(axis=1)
    only_words = domains[has_rows & ~is_present[:, is_number].any(axis=1)].tolist()
    only_numbers = domains[has_rows & ~is_present[:, ~is_number].any(axis=1)].tolist()
    if not (only_words and only_numbers):
        return []
    return [
        f"labels must all be numbers or all be words: {format_list(only_words)} has words, "
        f"{format_list(only_numbers)} has numbers."
    ]


def _find_unlabeled_problems(survey: Survey) -> list[str]:
    """Check that the value of unlabeled rows occurs, but not in all rows."""
    value = survey.label.ignored
    if value is None or survey.label.column is None:
        return []
    if not survey.unlabeled and not survey.label.ignores_missing:
        labels = format_list(sorted(survey.label.names))
        return [f"no row has the label {value!r} of unlabeled rows (the parameter unlabeled); the labels are {labels}."]
    if survey.unlabeled == survey.rows:
        return [
            f"all {format_count(survey.rows, 'row')} have the label {value!r} of unlabeled rows (the parameter "
            "unlabeled)."
        ]
    return []


def _format_small_domains(survey: Survey) -> str:
    names = survey.small_domains
    total = len(names) + len(survey.present_domains)
    return f"{format_count(len(names), 'domain')} of {total:,} with fewer than {survey.min_domain_rows} rows"


def make_row_notices(survey: Survey) -> list[str]:
    """Make notices about rows that were left out because they have no label, or because their domain has few rows."""
    notices = []
    if survey.small_domains:
        notices.append(
            f"Left out {_format_small_domains(survey)}: {format_list(survey.small_domains)}. Set the parameter "
            "min_domain_rows to change this."
        )
    if not survey.unlabeled:
        return notices
    present = {*survey.present_domains, *survey.small_domains}
    empty = [name for name in survey.domain.names if name not in present]
    description = "without a label" if survey.label.ignores_missing else f"with the label {survey.label.ignored!r}"
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
    notices = [
        f"{', '.join(map(repr, group[:-1]))} and {group[-1]!r} are different {role}. If they are the same, use one "
        "spelling."
        for group in similar[:MAX_SHOWN]
    ]
    if len(similar) > MAX_SHOWN:
        notices.append(f"{len(similar) - MAX_SHOWN:,} more groups of {role} have similar names.")
    return notices


def _find_missing_names(encoder: ValueEncoder, role: str, survey: Survey, advice: str = "") -> list[str]:
    if not encoder.n_missing:
        return []
    return [
        f"the {role} column {encoder.column!r} is missing in {format_count(encoder.n_missing, 'row')}: "
        f"{survey.format_rows(encoder.first_missing, encoder.n_missing)}. Fill in the values, or leave out the "
        f"rows.{advice}"
    ]


def select_columns(
    survey: Survey, roles: ColumnRoles, options: TableOptions
) -> tuple[tuple[Column, ...], list[str], list[str]]:
    """Return the features, with notices and problems; a column named in `options.features` is left out if constant.

    Columns that do not become features are added to those that the roles leave out.
    """
    columns = survey.columns
    names = columns.names
    numeric = columns.numeric
    constant = columns.constant
    dates = columns.dates
    is_requested = options.features is not None
    is_category = np.isin(names, options.categories or ())
    group_columns = survey.find_group_columns()
    is_text_column = columns.too_many_levels | columns.identifies
    is_left_out = is_text_column & ~numeric & ~dates & ~is_category & (not is_requested)
    left_out = {
        "all missing": constant & (columns.n_present == 0),
        "constant": constant,
        "date": dates & (options.dates == "drop") & (not is_requested),
        "names a group": np.isin(names, group_columns),  # group columns are never requested features
        "free text": is_left_out & columns.has_sentences,
        "too many levels": columns.too_many_levels & ~numeric & ~dates & ~is_category & (not is_requested),
        "identifier": columns.identifies & ~dates & ~is_category & (not is_requested),
    }
    if options.keep_all:
        left_out = {"not numbers": ~numeric}
    # In reverse order, so that the first reason that applies to a column is kept.
    reasons = {names[i]: reason for reason, which in reversed(left_out.items()) for i in np.flatnonzero(which)}
    is_kept = np.array([name not in reasons for name in names], dtype=bool)
    roles.left_out |= {name: reasons[name] for name in names if name in reasons and survey.rows}
    notices = make_left_out_notices(roles.left_out)
    if options.group is None:
        notices += [
            f"{name!r} repeats within domains. Set the parameter group to {name} to keep its rows together."
            for name in group_columns
        ]
    problems = [
        f"the column {name!r} has more than {MAX_LEVELS:,} distinct values that are not numbers, too many for a "
        "feature."
        for name in compress(names, is_kept & columns.too_many_levels & ~numeric & ~dates)
    ]
    if options.keep_all and is_requested and not is_kept.all():
        problems.append(f"features must be columns of numbers; {format_list(compress(names, ~is_kept))} are not.")
    elif not is_kept.any() and survey.rows:
        texts = [name for name, reason in roles.left_out.items() if reason == "free text"]
        advice = ""
        if texts:
            advice = (
                f" Free text is not used: {format_list(texts)}. Convert it to columns of numbers first, for example "
                "with HashingVectorizer of scikit-learn."
            )
        problems.append(f"no columns are left to be features.{advice}")
    features = tuple(_make_column(columns, i, roles) for i in np.flatnonzero(is_kept).tolist())
    if not (options.keep_all or is_requested):
        notices += _make_identifier_notices(survey, is_kept)
    notices += _make_date_notices(columns, is_kept)
    notices += _make_reading_notices(survey, ~constant | options.keep_all)
    return features, notices, problems


def _make_identifier_notices(survey: Survey, is_kept: NDArray[np.bool_]) -> list[str]:
    """Make notices about numeric features that may be identifiers or codes."""
    columns = survey.columns
    notices = []
    unique = list(compress(columns.names, columns.all_different & is_kept))
    if unique:
        notices.append(
            f"These columns hold a different integer in every row, as identifiers do: {format_list(unique)}. They are "
            "used as numbers. Drop them if they are identifiers."
        )
    for i in np.flatnonzero(is_kept & columns.numeric & ~columns.all_different).tolist():
        name = columns.names[i]
        if not CODE_NAME.search(name.strip()) or name not in survey.group_hashes:
            continue
        n_codes = survey.count_values(name)
        if n_codes <= MAX_LEVELS:
            notices.append(
                f"{name!r} is named like a code, and its {n_codes:,} distinct values are used as numbers. Declare "
                "it with the parameter categories if they are codes."
            )
    return notices


def _make_date_notices(columns: ColumnStatistics, is_kept: NDArray[np.bool_]) -> list[str]:
    """Make notices about features with ambiguous dates."""
    notices = []
    for i in np.flatnonzero(is_kept & columns.dates).tolist():
        date_format, *other_formats = columns.date_formats(i)
        if other_formats:
            notices.append(
                f"Dates in {columns.names[i]!r} are read as {date_format}, but all of them are valid as "
                f"{other_formats[0]} too. Write dates as yyyy-mm-dd to avoid ambiguity."
            )
    return notices


def _make_column(columns: ColumnStatistics, i: int, roles: ColumnRoles) -> Column:
    name = columns.names[i]
    has_missing = bool(columns.n_missing[i] or columns.n_infinite[i])
    marks = roles.missing.get(name, ())
    if columns.numeric[i]:
        return Column(name, "numeric", missing=has_missing, missing_values=marks)
    if columns.dates[i]:
        date_format = columns.date_formats(i)[0]
        return Column(name, "date", date_format=date_format, missing=has_missing, missing_values=marks)
    levels = tuple(sorted(columns.levels[i]))
    return Column(name, "categorical", levels, missing=has_missing, missing_values=marks)


def _make_reading_notices(survey: Survey, is_reported: NDArray[np.bool_]) -> list[str]:
    """Make notices about columns whose values are read in a way that may be unexpected."""
    columns = survey.columns
    names = columns.names
    notices = []
    is_reported = is_reported & ~columns.declared
    with_infinite = np.flatnonzero((columns.n_infinite > 0) & ~columns.declared)
    infinite = [f"{names[i]} ({format_count(columns.n_infinite[i], 'value')})" for i in with_infinite]
    if infinite:
        notices.append(f"Numbers that are infinite or beyond 1e150 count as missing: {format_list(infinite)}.")
    with_marks = [i for i in np.flatnonzero(is_reported & columns.numeric).tolist() if columns.missing_marks.get(i)]
    if with_marks:
        marks = sorted(set().union(*(columns.missing_marks[i] for i in with_marks)))
        marked_names = format_list(names[i] for i in with_marks)
        notices.append(f"Read as numbers, with {format_list(marks)} for missing values: {marked_names}.")
    is_almost_numeric = columns.n_not_numbers < MAX_WRONG_SHARE * columns.n_present
    for i in np.flatnonzero(is_reported & ~columns.numeric & is_almost_numeric).tolist():
        value, row = columns.first_not_number[i]
        n_wrong = format_count(columns.n_not_numbers[i], "value")
        notices.append(
            f"{names[i]!r} is not read as numbers because of {n_wrong}, such as {value!r} in "
            f"{survey.format_rows([row])}."
        )
    return notices
