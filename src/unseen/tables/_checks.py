"""Checks of a surveyed table: whether its labels and domains allow learning, and which columns become features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..utils.validation import format_list
from ._column_roles import ColumnRoles, TableOptions, is_group_name, make_left_out_notices, may_name_groups
from ._schema import Column
from ._survey import MAX_LEVELS, Survey, marks_missing_labels
from ._values import DATE_FORMATS, MAX_SHOWN, format_count

MAX_MEASURED_CLASSES = 20  # a label with more distinct values that are not integers is a measurement
MAX_LABEL_SHARE = 0.5  # of distinct labels among rows; more are identifiers
MAX_WRONG_SHARE = 0.1  # a column with a smaller share of values that are not numbers was probably meant to be numeric
# Number of domains with two or more classes from which domains of one class are allowed. With fewer, domain and class
# could hardly be told apart.
MIN_MIXED_DOMAINS = 3
MAX_CELLS = 20_000_000  # domains times classes; columns that hold neither may have a million values each
MAX_IDENTIFIER_SHARE = 0.9  # text columns with more levels than this share of their values identify samples
MIN_SENTENCE_WORDS = 4  # of text that is not a name or an identifier
MIN_GROUPS_PER_DOMAIN = 5  # with fewer, rows of a domain cannot be assumed to come from several groups
# A column that is named like an identifier, but not like a patient, contains groups if most of its values occur in a
# single domain, or if it has more values than a list of codes, with few rows each.
MAX_DOMAINS_PER_GROUP = 1.1  # on average
MAX_CODES = 50
MAX_ROWS_PER_GROUP = 20  # on average


def find_value_problems(labels: NDArray[Any], roles: ColumnRoles, survey: Survey, options: TableOptions) -> list[str]:
    """Find problems of the labels and domains, if their columns are known."""
    if not (roles.features or roles.label or roles.domain):
        return []  # No column was read.
    n_rows = survey.rows.height
    heights = np.diff([*survey.starts, n_rows])
    empty = [file.name for file, height in zip(survey.files, heights, strict=True) if not height]
    if not n_rows and len(empty) == 1:
        return [f"it has a header but no rows{f' ({empty[0]})' if roles.files_are_domains else ''}."]
    problems = [f"these files have a header but no rows: {format_list(empty)}."] if empty else []
    if roles.label is not None and roles.label == roles.domain:
        return problems  # The roles report this problem; all others would follow from it.
    unlabeled_problems = _find_unlabeled_problems(survey, roles, options)
    if unlabeled_problems:
        return problems + unlabeled_problems
    classes = np.unique(labels)
    domains = survey.get_names("domain")
    if roles.label is not None:
        used_codes = survey.rows.filter("is_used")["label"].drop_nulls().unique().to_physical().sort()
        problems += _find_label_problems(labels[used_codes.to_numpy()], survey, roles.label)
    if len(classes) * len(domains) > MAX_CELLS:
        return problems or [f"{len(classes):,} classes in {len(domains):,} domains are too many to count."]
    problems += _find_missing_names(survey, "group", roles.group)
    if roles.domain is None and not roles.files_are_domains:
        return problems
    problems += _find_missing_names(survey, "domain", roles.domain)
    problems += _find_shared_groups(survey)
    present = survey.present_domains
    if len(present) < 2 and n_rows:
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
            f"the domain {domains[s]!r} has samples of one class only, {str(classes[is_present[s].argmax()])!r}. "
            "Leave out its rows, or choose another domain column."
            for s in np.flatnonzero(n_classes == 1)
        ]
    return problems


def _find_label_problems(labels: NDArray[Any], survey: Survey, name: str) -> list[str]:
    """Find missing labels, and labels that are not classes."""
    distinct = list(dict.fromkeys(labels.tolist()))
    missing = survey.find_missing("label")
    problems = _find_missing_names(
        survey, "label", name, " Or set the parameter unlabeled to NA to leave these rows out."
    )
    rows = survey.rows.height - survey.n_unlabeled - len(missing)
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


def _find_unlabeled_problems(survey: Survey, roles: ColumnRoles, options: TableOptions) -> list[str]:
    """Check that the value of unlabeled rows occurs, but not in all rows."""
    value = f"the label {options.unlabeled!r} of unlabeled rows (the parameter unlabeled)"
    if options.unlabeled is None or roles.label is None:
        return []
    if not survey.n_unlabeled and not marks_missing_labels(options):
        return [f"no row has {value}; the labels are {format_list(sorted(survey.get_names('label')))}."]
    if survey.n_unlabeled == survey.rows.height:
        return [f"all {format_count(survey.rows.height, 'row')} have {value}."]
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
    if survey.n_unlabeled:
        present = {*survey.present_domains, *survey.small_domains}
        empty = [name for name in survey.get_names("domain") if name not in present]
        label = "without a label" if marks_missing_labels(options) else f"with the label {options.unlabeled!r}"
        consequence = f", so that no rows remain of {format_list(empty)}" if empty else ""
        n_left_out = format_count(survey.n_unlabeled, "row")
        notices.append(f"Left out {n_left_out} of {survey.rows.height:,} {label}{consequence}.")
    return notices


def make_name_notices(labels: NDArray[Any], survey: Survey) -> list[str]:
    """Make notices about similar names, domains of one class, and domains without a class that others have."""
    domains = np.array(survey.get_names("domain"), dtype=str)
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


def _find_shared_groups(survey: Survey) -> list[str]:
    """Find groups with rows in several domains: they would be in training data and in test data."""
    pairs = survey.rows.filter("is_used").select("group", "domain").drop_nulls().unique(maintain_order=True)
    shared = pairs.filter(pl.col("group").is_duplicated())
    if shared.is_empty():
        return []
    first = shared["group"][0]
    domains = shared.filter(pl.col("group") == first)["domain"].to_list()
    return [
        f"{shared['group'].n_unique():,} of {pairs['group'].n_unique():,} groups have rows in several domains, such as "
        f"{first!r} in {format_list(domains)}, and would be in training data and in test data. Remove these rows or, "
        "if the name denotes another group in each domain, use different names."
    ]


def _find_missing_names(survey: Survey, role: str, column: str | None, advice: str = "") -> list[str]:
    missing = [] if column is None else survey.find_missing(role)
    if not missing:
        return []
    return [
        f"the {role} column {column!r} is missing in {format_count(len(missing), 'row')}: "
        f"{survey.format_rows(missing)}. Fill in the values, or leave out the rows.{advice}"
    ]


def select_columns(
    survey: Survey, roles: ColumnRoles, options: TableOptions
) -> tuple[tuple[Column, ...], list[str], list[str]]:
    """Return the features, with notices and problems; a column named in `options.features` is left out if constant.

    Columns that do not become features are added to those that the roles leave out.
    """
    group_columns = [name for name in roles.named_like_ids if may_name_groups(name) and _has_groups(survey, name)]
    features = []
    infinite = []
    problems = []
    value_notices = []
    for facts in survey.columns.iter_rows(named=True):
        column, formats = _make_column(facts, survey, options)
        name = column.name
        reason = _find_reason(facts, column, survey, group_columns, options)
        n_wrong = facts["n_not_numbers"]
        if facts["n_infinite"] and not facts["is_declared"]:
            infinite.append(f"{name} ({format_count(facts['n_infinite'], 'value')})")
        if 0 < n_wrong < MAX_WRONG_SHARE * (facts["n_rows"] - facts["n_missing"]) and not facts["is_declared"]:
            value_notices.append(
                f"{name!r} is not read as numbers because of {format_count(n_wrong, 'value')}, such as "
                f"{facts['example']!r} in {survey.format_rows([facts['example_row']])}."
            )
        if reason is not None:
            roles.left_out |= {name: reason} if facts["n_rows"] else {}
            continue
        features.append(column)
        if column.kind == "categorical" and survey.levels[name] is None:
            problems.append(
                f"the column {name!r} has more than {MAX_LEVELS:,} distinct values that are not numbers, too many for "
                "a feature."
            )
        if column.kind == "date" and len(formats) > 1:
            value_notices.append(
                f"Dates in {name!r} are read as {formats[0]}, but all of them are valid as {formats[1]} too. Write "
                "dates as yyyy-mm-dd to avoid ambiguity."
            )
    notices = make_left_out_notices(roles.left_out)
    if options.group is None:
        notices += [
            f"{name!r} repeats within domains. Set the parameter group to {name} to keep its rows together."
            for name in group_columns
        ]
    if infinite:
        notices.append(f"Numbers that are infinite or beyond 1e150 count as missing: {format_list(infinite)}.")
    if not features and survey.rows.height:
        texts = [name for name, reason in roles.left_out.items() if reason == "free text"]
        advice = (
            f" Free text is not used: {format_list(texts)}. Convert it to columns of numbers first, for example with "
            "HashingVectorizer of scikit-learn."
        )
        problems.append(f"no columns are left to be features.{advice if texts else ''}")
    return tuple(features), notices + value_notices, problems


def _make_column(facts: dict[str, Any], survey: Survey, options: TableOptions) -> tuple[Column, list[str]]:
    """Make a column of its statistics; and return the formats in which all of its text is a date."""
    name = facts["column"]
    has_missing = bool(facts["n_missing"] or facts["n_infinite"])
    marks = tuple((options.missing or {}).get(name, ()))
    n_present = facts["n_rows"] - facts["n_missing"]
    formats = [date_format for date_format in DATE_FORMATS if facts[date_format]]
    if not (facts["n_not_numbers"] or facts["is_declared"]):
        return Column(name, "numeric", missing=has_missing, missing_values=marks), []
    if formats and facts["n_not_numbers"] == n_present and not facts["is_declared"]:
        return Column(name, "date", (), formats[0], has_missing, marks), formats
    levels = tuple(sorted(survey.levels[name] or ()))
    return Column(name, "categorical", levels, missing=has_missing, missing_values=marks), []


def _find_reason(
    facts: dict[str, Any], column: Column, survey: Survey, group_columns: Sequence[str], options: TableOptions
) -> str | None:
    """Find the reason to leave a column out; None if it becomes a feature."""
    name = column.name
    n_present = facts["n_rows"] - facts["n_missing"]
    levels = survey.levels.get(name, set())  # None if they are too many
    if column.kind == "numeric":
        is_constant = facts["low"] >= facts["high"]
        is_unique = name in survey.named_values and facts["is_integer"] and survey.named_values[name].is_unique().all()
        is_identifier = facts["counts_from_0"] or facts["counts_from_1"] or is_unique
    else:
        # A missing level is a level, a missing date is not a date.
        is_constant = levels is not None and len(levels) == 1 and (column.kind == "date" or not facts["n_missing"])
        is_identifier = levels is None or len(levels) > MAX_IDENTIFIER_SHARE * n_present
    if is_constant:
        return "constant" if n_present else "all missing"
    if options.features is not None:
        return None
    if column.kind == "date":
        return "date" if options.dates == "drop" else None
    if name in group_columns:
        return "names a group"
    if not is_identifier or name in (options.categories or ()):
        return None
    if len((facts["example"] or "").split()) >= MIN_SENTENCE_WORDS:
        return "free text"
    return "too many levels" if levels is None else "identifier"


def _has_groups(survey: Survey, name: str) -> bool:
    """Whether the values of a column repeat within domains, as those of patients do if they have several rows."""
    pairs = survey.named_values.select(name, "domains").drop_nulls(name)
    n_values = pairs[name].n_unique()
    n_groups = pairs.n_unique()
    if not MIN_GROUPS_PER_DOMAIN * len(survey.present_domains) <= n_groups < pairs.height:
        return False
    is_nested = n_groups <= MAX_DOMAINS_PER_GROUP * n_values
    has_many_values = n_values > MAX_CODES and pairs.height <= MAX_ROWS_PER_GROUP * n_groups
    return is_group_name(name) or is_nested or has_many_values
