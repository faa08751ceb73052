"""What a table holds, judged: whether labels and domains can be learned from, and which columns are features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..linalg import Ints
from ..utils.validation import format_list
from ._column_roles import ColumnRoles, TableOptions, make_left_out_notices
from ._errors import MAX_SHOWN, NO_LINE_ENDS, format_count
from ._schema import Column
from ._survey import MAX_LEVELS, ColumnStatistics, Survey, ValueEncoder
from ._values import import_polars

if TYPE_CHECKING:
    import polars as pl

CODE_NAME = re.compile(r"(^|[\s_.\-])(?i:id)$|[a-z](ID|Id)$")  # of integers that may be codes
MAX_MEASURED_CLASSES = 20  # a label with more different values that are not integers is a measurement
MIN_DOMAIN_ROWS = 4  # of a domain
MAX_CELLS = 20_000_000  # domains times classes; there may be a million of each in a column that is neither


def parse_labels(names: Sequence[str]) -> NDArray[Any]:
    """Different labels, given as text: booleans or integers if all of them are, else as they are."""
    text = import_polars().Series(names, dtype=import_polars().String)
    booleans = parse_booleans(text)
    if len(names) and not booleans.null_count():
        return booleans.to_numpy()
    whole, codes = parse_whole_numbers(text), text.str.contains(r"^\s*[+-]?0\d")  # 007 is a code, not the number 7
    return np.array(names, dtype=str) if whole.null_count() or codes.any() else whole.to_numpy()


def parse_booleans(text: pl.Series) -> pl.Series:
    """Text as booleans, such as True or false; null where it is none."""
    written = {"true": True, "false": False}
    return (
        text.str.strip_chars()
        .str.to_lowercase()
        .replace_strict(written, default=None, return_dtype=import_polars().Boolean)
    )


def parse_whole_numbers(text: pl.Series) -> pl.Series:
    """Text as whole numbers, such as 7 or 7.0; null where it is none."""
    pl = import_polars()
    stripped = text.str.strip_chars()
    numbers = stripped.cast(pl.Float64, strict=False)
    exact = numbers.is_finite() & (numbers == numbers.round()) & (numbers.abs() < 2**53)
    return stripped.cast(pl.Int64, strict=False).fill_null(numbers.set(~exact, None).cast(pl.Int64))


def find_value_problems(labels: NDArray[Any], roles: ColumnRoles, survey: Survey, *, entire: bool) -> list[str]:
    """What is wrong with the labels and domains, as far as it is known which columns they are."""
    if not (roles.features or roles.label or roles.domain):
        return []  # nothing was read
    heights = np.diff([*survey.starts, survey.rows])
    empty = [name for name, height in zip(survey.files, heights, strict=True) if not height]
    if not survey.rows and len(empty) == 1:
        if any("\r" in name for name in (*roles.features, *roles.left_out)):  # some versions of polars read on
            return [f"{NO_LINE_ENDS}."]
        return [f"it has a header but no rows{f' ({empty[0]})' if roles.by_file else ''}."]
    problems = [f"these files have a header but no rows: {format_list(empty)}."] if empty else []
    if roles.label is not None and roles.label == roles.domain:
        return problems  # and that is a problem already, from which others would follow
    wrong = _unlabeled_problems(survey)
    if wrong:
        return problems + wrong
    classes, domains = np.unique(labels), np.array(survey.domain.names, dtype=str)
    if roles.label is not None:
        problems += _label_problems(labels, survey, entire=entire)
    if len(classes) * len(domains) > MAX_CELLS:
        return problems or [f"{len(classes):,} classes in {len(domains):,} domains are too many to be counted."]
    counts = survey.counts(labels)
    problems += _missing_names(survey.group, "group", survey)
    if roles.by_file:
        problems += _mixed_labels(domains, classes, counts)
    if entire or (roles.domain is None and not roles.by_file):
        return problems
    problems += _domain_problems(survey)
    if len(classes) > 1:  # otherwise each domain would be told what the label has been
        found = _cell_problems(domains, classes, counts)
        problems += (_near_names(survey.present, "domains") if found else []) + found
    return problems


def _label_problems(labels: NDArray[Any], survey: Survey, *, entire: bool) -> list[str]:
    """Missing labels, and labels that are no classes; one class will do if nothing has to be learned from `entire`."""
    pl, name, different = import_polars(), survey.label.column, list(dict.fromkeys(labels.tolist()))
    advice = "" if entire else " Or pass --unlabeled NA to do without these rows."
    problems = _missing_names(survey.label, "label", survey, advice)
    rows = survey.rows - survey.unlabeled - survey.label.missing
    measured = labels.dtype.kind == "U" and pl.Series(different).cast(pl.Float64, strict=False).null_count() == 0
    most = (
        (0 if entire else MAX_MEASURED_CLASSES)
        if measured
        else len(different)
        if entire
        else max(MAX_MEASURED_CLASSES, rows / 2)
    )
    if len(different) > most:
        problems.append(
            f"the label column {name!r} has {len(different):,} different values in {format_count(rows, 'row')}, such "
            "as "
            f"{format_list(different[:3])}: it looks like a measurement or an identifier, not like classes."
        )
    elif len(different) < 2 and rows and not entire:
        problems.append(f"the label column {name!r} must hold two classes or more; it holds {format_list(different)}.")
    return problems


def _domain_problems(survey: Survey) -> list[str]:
    """Missing domains, and fewer than two of them."""
    name, present = survey.domain.column, survey.present
    problems = _missing_names(survey.domain, "domain", survey)
    if len(present) < 2 and survey.rows:
        held = f"the domain column {name!r} holds" if name is not None else "the folder holds"
        problems.append(
            f"{held} {format_count(len(present), 'domain')}, {format_list(present)}: two or more are needed to tell "
            "what "
            "stays the same from place to place."
        )
    return problems


def _cell_problems(domains: NDArray[Any], classes: NDArray[Any], counts: Ints) -> list[str]:
    """Domains with too few rows, or with rows of one class only."""
    sizes, present = counts.sum(axis=1), counts > 0
    problems = []
    small = domains[(sizes > 0) & (sizes < MIN_DOMAIN_ROWS)]
    if len(small):
        problems.append(
            f"{format_count(len(small), 'domain')} of {(sizes > 0).sum():,} with fewer than {MIN_DOMAIN_ROWS} rows: "
            f"{format_list(small.tolist())}. Leave out these rows, or choose another domain column."
        )
    for s in np.flatnonzero((sizes >= MIN_DOMAIN_ROWS) & (present.sum(axis=1) == 1)):
        problems.append(
            f"the domain {str(domains[s])!r} has samples of one class only, {str(classes[present[s].argmax()])!r}, so "
            "its classes cannot be told apart. Leave out its rows, or choose another domain column."
        )
    return problems


def _mixed_labels(domains: NDArray[Any], classes: NDArray[Any], counts: Ints) -> list[str]:
    """Files of which some have numbers for labels and others have words."""
    if classes.dtype.kind != "U":
        return []
    numbers, present = (
        parse_whole_numbers(import_polars().Series(classes.tolist())).is_not_null().to_numpy(),
        counts > 0,
    )
    only = [domains[present.any(axis=1) & ~present[:, kind].any(axis=1)].tolist() for kind in (numbers, ~numbers)]
    told = "labels must all be numbers or all be words: {} has words, {} has numbers."
    return [told.format(*map(format_list, only))] if all(only) else []


def _unlabeled_problems(survey: Survey) -> list[str]:
    """A value for unlabeled rows that none has, or all have."""
    value = survey.label.ignored
    if value is None or survey.label.column is None:
        return []
    if not survey.unlabeled and not survey.label.ignores_missing:
        present = format_list(sorted(survey.label.names))
        return [f"no row has the label {value!r}, which was to stand for none: there are {present}."]
    if survey.unlabeled == survey.rows:
        return [f"all {format_count(survey.rows, 'row')} have the label {value!r}, which stands for none."]
    return []


def make_unlabeled_notices(survey: Survey) -> list[str]:
    """A notice about rows that were left out since they have no label."""
    if not survey.unlabeled:
        return []
    present = set(survey.present)
    gone = [name for name in survey.domain.names if name not in present]
    marked = f"with the label {survey.label.ignored!r}, which stands for none"
    which = "without a label" if survey.label.ignores_missing else marked
    rest = f": nothing is left of {format_list(gone)}" if gone else ""
    return [f"Left out {format_count(survey.unlabeled, 'row')} of {survey.rows:,} {which}{rest}."]


def make_name_notices(labels: NDArray[Any], survey: Survey) -> list[str]:
    """Notices about names that are nearly alike, and about domains that have no class in common with any other."""
    domains, present = np.array(survey.domain.names, dtype=str), survey.counts(labels) > 0
    shared = present[:, present.sum(axis=0) > 1].any(axis=1)
    lonely = domains[present.any(axis=1) & ~shared].tolist()
    near = _near_names(survey.present, "domains") + _near_names(labels.tolist(), "classes")
    return [*near, f"No class of these domains occurs in any other: {format_list(lonely)}."] if lonely else near


def _near_names(names: Sequence[Any], role: str) -> list[str]:
    """Notices about names that differ by spaces or by case alone."""
    alike: dict[str, list[str]] = {}
    for name in [name for name in names if isinstance(name, str)]:
        alike.setdefault(" ".join(name.split()).casefold(), []).append(name)
    several = [group for group in alike.values() if len(group) > 1]
    more = [f"So are {len(several) - MAX_SHOWN:,} groups of {role} more."] if len(several) > MAX_SHOWN else []
    return [
        f"{', '.join(map(repr, group[:-1]))} and {group[-1]!r} are taken as different {role}: if they are the same, "
        "write them alike."
        for group in several[:MAX_SHOWN]
    ] + more


def _missing_names(coding: ValueEncoder, role: str, survey: Survey, advice: str = "") -> list[str]:
    if not coding.missing:
        return []
    return [
        f"the {role} column {coding.column!r} is missing in {format_count(coding.missing, 'row')}: "
        f"{survey.where(coding.first_missing, coding.missing)}. Fill in or leave out.{advice}"
    ]


def select_columns(
    survey: Survey, roles: ColumnRoles, request: TableOptions
) -> tuple[tuple[Column, ...], list[str], list[str]]:
    """The features, what to tell about them, and what is wrong; columns that were asked for go only if constant.

    What does not become a feature goes to those that the roles leave out already.
    """
    asked, tallies = request.features is not None, survey.tallies
    categories = np.isin(tallies.names, request.categories or ())
    names, numeric, constant, dates = tallies.names, tallies.numeric, tallies.constant, tallies.dates
    groups = survey.groups()
    left_out = {
        "all missing": constant & (tallies.present == 0),
        "constant": constant,
        "date": dates & (request.dates == "drop") & (not asked),
        "names a group": np.isin(names, groups),  # such columns were not asked for
        "too many levels": tallies.too_many_levels & ~numeric & ~dates & ~categories & (not asked),
        "identifier": tallies.identifies & ~dates & ~categories & (not asked),
    }
    if request.entire:
        left_out = {"not numbers": ~numeric}
    reasons = {names[i]: why for why, group in reversed(left_out.items()) for i in np.flatnonzero(group)}  # the first
    kept = np.array([name not in reasons for name in names], dtype=bool)
    roles.left_out |= {name: reasons[name] for name in names if name in reasons and survey.rows}
    notices = make_left_out_notices(roles.left_out)
    if request.group is None:
        notices += [f"{name} repeats within domains: --group {name} keeps its rows together." for name in groups]
    problems = [
        f"the column {name!r} has more than {MAX_LEVELS:,} different values that are not numbers, "
        "too many for a feature."
        for name in compress(names, kept & tallies.too_many_levels & ~numeric & ~dates)
    ]
    if request.entire and asked and not kept.all():
        problems.append(f"features must be columns of numbers, not such as {format_list(compress(names, ~kept))}.")
    elif not kept.any() and survey.rows:
        problems.append("no columns are left to be features.")
    columns = tuple(_column(tallies, i) for i in np.flatnonzero(kept).tolist())
    if not (request.entire or asked):
        notices += _identifier_notices(tallies, kept, roles)
    notices += _date_notices(tallies, kept)
    return columns, notices + _readings(survey, ~constant | request.entire), problems


def _identifier_notices(tallies: ColumnStatistics, kept: NDArray[np.bool_], roles: ColumnRoles) -> list[str]:
    """Notices about numbers that are used, but may be identifiers or codes."""
    notices = []
    unique = list(compress(tallies.names, tallies.all_different & kept))
    if unique:
        notices.append(
            f"A different integer in every row, as identifiers have: {format_list(unique)}. They are used as "
            "numbers; drop "
            "them if they are identifiers."
        )
    for i in np.flatnonzero(kept & tallies.numeric & ~tallies.all_different).tolist():
        name = tallies.names[i]
        n_codes = tallies.n_codes(i) if CODE_NAME.search(name.strip()) and name in roles.maybe_groups else None
        if n_codes is not None and n_codes <= MAX_LEVELS:
            notices.append(
                f"{name!r} is called like a code, and its {n_codes:,} different integers are used as numbers: declare "
                "it with the parameter categories if they are codes."
            )
    return notices


def _date_notices(tallies: ColumnStatistics, kept: NDArray[np.bool_]) -> list[str]:
    """Notices about dates that are used and may be read in two ways."""
    notices = []
    for i in np.flatnonzero(kept & tallies.dates).tolist():
        first, *others = tallies.date_formats(i)
        if others:
            notices.append(
                f"Dates in {tallies.names[i]!r} are read as {first}, but {others[0]} fits all of them as well: write "
                "them as yyyy-mm-dd to be sure."
            )
    return notices


def _column(tallies: ColumnStatistics, i: int) -> Column:
    name, missing = tallies.names[i], bool(tallies.absent[i] or tallies.infinite[i])
    if tallies.numeric[i]:
        return Column(name, "numeric", missing=missing)
    if tallies.dates[i]:
        return Column(name, "date", date_format=tallies.date_formats(i)[0], missing=missing)
    return Column(name, "categorical", tuple(sorted(tallies.levels[i])), missing=missing)


def _readings(survey: Survey, told: NDArray[np.bool_]) -> list[str]:
    """How columns were read where it could surprise, of those that are told about."""
    tallies, names, notices = survey.tallies, survey.tallies.names, []
    told = told & ~tallies.declared
    several = np.flatnonzero((tallies.infinite > 0) & ~tallies.declared)
    infinite = [f"{names[i]} ({format_count(tallies.infinite[i], 'value')})" for i in several]
    if infinite:
        notices.append(f"Numbers that are infinite or beyond 1e150 count as missing: {format_list(infinite)}.")
    marked = [i for i in np.flatnonzero(told & tallies.numeric).tolist() if tallies.marks.get(i)]
    if marked:
        marks = sorted(set().union(*(tallies.marks[i] for i in marked)))
        columns = format_list(names[i] for i in marked)
        notices.append(f"Read as numbers, with {format_list(marks)} for missing values: {columns}.")
    for i in np.flatnonzero(told & ~tallies.numeric & (tallies.not_numbers < 0.1 * tallies.present)).tolist():
        value, row = tallies.first_not_number[i]
        notices.append(
            f"{names[i]!r} is not read as numbers because of {format_count(tallies.not_numbers[i], 'value')}, such as "
            f"{value!r} in {survey.where([row])}."
        )
    return notices
