"""Roles of columns: label, domain, group, features, and columns that are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from ..exceptions import ParameterError
from ..utils.validation import format_list
from ._files import TableFile, are_part_names
from ._values import format_unknown_column, is_category, is_readable

# Usual names of label and domain columns, in lower case, without an ending such as _id.
USUAL_NAMES = {
    "label": "labels?|targets?|class(es)?|y|gt|diagnosis|disease|outcome|species|phenotype|category|cell_type",
    "domain": "(sample_)?domains?|groups?|d|site|hospital|clinic|cent(er|re)|institution|lab(oratory)?|batch|plate|"
    "cohort|study|patient|subject|participant|donor|camera|scanner|device|instrument|station|location",
}
# Usual names of group columns, in addition to columns named like identifiers.
GROUP_NAMES = "patient|subject|participant|donor|person|individual|animal|specimen|mrn|medical_record"
ID_ENDING = re.compile(r"(^|[\s_.\-])(?i:id|uuid|guid|nbr|number|no|nr|mrn)$|[a-z](ID|Id|Nbr|Number)$")
ROW_NAME = re.compile("(?i:index|idx|key|row|)")  # of columns that number the rows
STEM_ENDING = re.compile(r"_?(id|name|code|nbr|number)$|_(no|nr|num)$")
ROLES = ("label", "domain", "group")
MIN_DOMAIN_ROWS = 4  # domains with fewer rows are left out by default
Dates = Literal["drop", "ordinal"]
# Reasons to leave columns out: the short form, and the text of a notice; reasons without a text have no notice.
LEFT_OUT_REASONS = {
    "dropped": "",
    "not requested": "",
    "not in every file": "not every file has them",
    "names the domain": "the files are the domains",
    "lists, records or bytes": "they hold lists, records or bytes",
    "all missing": "they hold a single value or none",
    "constant": "they hold a single value or none",
    "date": "they are dates",
    "free text": "they hold free text",
    "too many levels": "they identify samples rather than describe them",
    "identifier": "they identify samples rather than describe them",
    "names a group": "they name what several samples come from",
}
LEFT_OUT_ADVICE = {
    "free text": " Convert text to columns of numbers to use it.",
    "names the domain": " Set the parameter domain to use one of them.",
    "date": " Set the parameter dates to ordinal to use them as days since 1970.",
}


def make_left_out_notices(left_out: Mapping[str, str]) -> list[str]:
    """Make a notice for each reason to leave columns out, given the reason of each column."""
    names_by_text: dict[tuple[str, str], list[str]] = {}
    for name, reason in left_out.items():
        text = LEFT_OUT_REASONS[reason]
        if text:
            names_by_text.setdefault((text, LEFT_OUT_ADVICE.get(reason, "")), []).append(name)
    return [f"Left out, since {text}: {format_list(names)}.{advice}" for (text, advice), names in names_by_text.items()]


@dataclass(frozen=True)
class TableOptions:
    """Options of `load_table`: the roles of the columns, and which rows to use."""

    label: str | None = None
    domain: str | None = None
    features: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    unlabeled: str | int | None = None
    max_per_domain: int | None = None
    seed: int = 0
    group: str | None = None
    dates: Dates = "drop"
    categories: Sequence[str] | None = None
    missing: Mapping[str, Any] | None = None
    min_domain_rows: int = MIN_DOMAIN_ROWS

    def __post_init__(self) -> None:
        if self.dates not in get_args(Dates):
            raise ParameterError("dates", f"dates must be one of {', '.join(get_args(Dates))}; got {self.dates!r}.")
        for role in ROLES:
            if not isinstance(getattr(self, role), str | None):
                raise TypeError(f"{role} must be the name of a column; got {getattr(self, role)!r}.")
        if self.unlabeled is not None:
            object.__setattr__(self, "unlabeled", str(self.unlabeled).strip())
        for parameter in ("features", "drop", "categories"):
            names = getattr(self, parameter)
            columns = None if names is None else _as_tuple(names)
            if not all(isinstance(name, str) for name in columns or ()):
                raise TypeError(f"{parameter} must be names of columns; got {names!r}.")
            object.__setattr__(self, parameter, columns if parameter == "features" else columns or ())
        object.__setattr__(self, "missing", parse_missing_values(self.missing))
        for parameter, minimum in (("max_per_domain", 2), ("min_domain_rows", 1)):
            value = getattr(self, parameter)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer))):
                raise TypeError(f"{parameter} must be an integer; got {value!r}.")
            if value is not None and value < minimum:
                raise ParameterError(parameter, f"{parameter} must be at least {minimum}; got {value}.")


def _as_tuple(values: Any) -> tuple[Any, ...]:
    """Return several values, or a single one, as a tuple."""
    return (values,) if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)


def parse_missing_values(missing: Any) -> dict[str, tuple[str, ...]]:
    """Check values that stand for missing values, such as ``{"cholesterol": 0}``, and return them as text by column."""
    if missing is None:
        return {}
    if not isinstance(missing, Mapping) or not all(isinstance(name, str) for name in missing):
        raise TypeError(
            f"missing must map names of columns to values that stand for missing values, such as {{'age': -9}}; got "
            f"{missing!r}."
        )
    parsed = {}
    for name, values in missing.items():
        texts = [str(value).strip() for value in _as_tuple(values)]
        if not texts or not all(texts):
            raise ValueError(
                f"missing={{{name!r}: {values!r}}} must hold a number or text. Pass a value such as 0, or a list of "
                "values."
            )
        parsed[name] = tuple(dict.fromkeys(texts))
    return parsed


@dataclass
class ColumnRoles:
    """The role of each column; label and domain are None if they are unknown, or if files are domains.

    Columns in `left_out` are not features, for the reasons in `LEFT_OUT_REASONS`; those in `named_like_ids` may
    identify rows or groups of rows. `categories` are columns that have levels whatever their values, because of their
    types or because the options declare them.
    """

    label: str | None
    domain: str | None
    group: str | None
    files_are_domains: bool
    features: list[str]
    named_like_ids: list[str]
    categories: set[str]
    left_out: dict[str, str]
    notices: list[str]
    problems: list[str]


def assign_roles(tables: Sequence[TableFile], options: TableOptions, *, several: bool) -> ColumnRoles:
    """Assign roles to the columns that all files have; `several` files may each be a domain, or parts of one table."""
    all_names = dict.fromkeys(name for table in tables for name in table.types)
    columns = [name for name in all_names if all(name in table.types for table in tables)]
    kinds = [(name, kind) for table in tables for name, kind in table.types.items()]
    unreadable = {name for name, kind in kinds if not is_readable(kind)}
    drop = options.drop or ()
    declared = options.categories or ()
    requested = options.features or ()
    # A column to drop needs to be in one file only, all others in every file.
    required = [options.label, options.domain, options.group, *requested, *declared, *(options.missing or ())]
    required += [name for name in drop if name not in all_names]
    notices: list[str] = []
    problems = [
        problem for name in dict.fromkeys(required) if name is not None for problem in _find_absent_column(name, tables)
    ]
    taken = {options.group, *drop, *requested, *declared}
    free = [name for name in columns if name not in taken]
    label_candidates = _find_usual_names("label", [name for name in free if name != options.domain])
    label = _choose_column("label", options.label, columns, label_candidates, notices, problems)
    usual_domains = _find_usual_names("domain", [name for name in free if name != label])
    domain_candidates = _prefer_places(usual_domains)
    files_are_domains = False
    domain = None
    if not several or options.domain is not None:
        domain = _choose_column("domain", options.domain, columns, domain_candidates, notices, problems)
    elif are_part_names(table.name for table in tables) and label is not None and len(domain_candidates) == 1:
        domain = domain_candidates[0]
        notices.append(
            f"The {len(tables):,} files are named like parts of one table, so {domain!r} is the domain column. "
            f"Add {domain} to the parameter drop to make each file a domain."
        )
    else:
        files_are_domains = True
        notices.append("Each file is a domain, named as the file.")
    roles = {"label": label, "domain": domain, "group": options.group if options.group in columns else None}
    problems += _find_conflicts(roles, options)
    for role, column in roles.items():
        if column in unreadable:
            problems.append(f"the {role} column {column!r} must hold a word or number per row, not lists or bytes.")
            roles[role] = None
    left_out = {}
    features = []
    for name in all_names:
        if name in drop:
            left_out[name] = "dropped"
        elif name in (label, domain, options.group):
            continue
        elif options.features is not None and name not in requested:
            left_out[name] = "not requested"
        elif name not in columns:
            left_out[name] = "not in every file"
        elif files_are_domains and name in usual_domains:
            left_out[name] = "names the domain"
        elif name in unreadable:
            left_out[name] = "lists, records or bytes"
        else:
            features.append(name)
    named_like_ids = [
        name
        for name in features
        if options.features is None
        and name not in declared
        and (may_name_groups(name) or ROW_NAME.fullmatch(name.strip()))
    ]
    if requested:
        features = [name for name in dict.fromkeys(requested) if name in features]
    categories = {*declared, *(name for name, kind in kinds if is_category(kind))}
    return ColumnRoles(
        **roles,
        files_are_domains=files_are_domains,
        features=features,
        named_like_ids=named_like_ids,
        categories=categories,
        left_out=left_out,
        notices=notices,
        problems=problems,
    )


def _find_conflicts(roles: Mapping[str, str | None], options: TableOptions) -> list[str]:
    """Find columns with two roles."""
    other_uses = {
        "dropped": options.drop,
        "a feature": options.features,
        "a category": options.categories,
        "a feature with missing values": options.missing,
    }
    problems = [
        f"{getattr(options, role)!r} is the {role} column and cannot be {use} as well."
        for role in ROLES
        for use, names in other_uses.items()
        if getattr(options, role) in (names or ())
    ]
    for first, second in combinations(ROLES, 2):
        if roles[first] is not None and roles[first] == roles[second]:
            problems.append(f"{roles[first]!r} is both the {first} and the {second} column. Choose two columns.")
    return problems


def _find_absent_column(name: str, tables: Sequence[TableFile]) -> list[str]:
    """Report the files that do not have a column."""
    without = [table for table in tables if name not in table.types]
    if not without or len(tables) == 1:
        return [format_unknown_column(name, table.types) for table in without]
    if len(without) == len(tables):
        return [format_unknown_column(name, tables[0].types, "no file has a")]
    return [f"{format_list(table.path.name for table in without)}: no column {name!r}, which other files have."]


def _choose_column(
    role: str,
    requested: str | None,
    columns: Sequence[str],
    candidates: Sequence[str],
    notices: list[str],
    problems: list[str],
) -> str | None:
    """Return the requested column of a role, or else the only candidate."""
    if requested is not None:
        return requested if requested in columns else None
    if len(candidates) == 1:
        notices.append(f"Using {candidates[0]!r} as the {role} column. Set the parameter {role} to choose another.")
        return candidates[0]
    if candidates:
        problems.append(
            f"{format_list(candidates)} could each be the {role} column. Set the parameter {role} to choose one."
        )
    else:
        problems.append(
            f"it is not clear which column holds the {role}s. Set the parameter {role}. The columns are "
            f"{format_list(columns)}."
        )
    return None


def _normalize_name(name: str) -> str:
    """Convert a name to lower case with underscores for spaces, without an ending such as _id."""
    normalized = re.sub(r"[\s.\-]+", "_", name.strip()).lower()
    return STEM_ENDING.sub("", normalized) or normalized


def _find_usual_names(role: str, names: Iterable[str]) -> list[str]:
    """Select the names that are usual for a role."""
    return [name for name in names if re.fullmatch(USUAL_NAMES[role], _normalize_name(name))]


def _prefer_places(names: list[str]) -> list[str]:
    """Of several names of domain columns, select those of places rather than patients, and not identifiers."""
    places = [name for name in names if not is_group_name(name)]
    without_ids = [name for name in places if not may_name_groups(name)]
    return without_ids if len(without_ids) == 1 else places or names


def may_name_groups(name: str) -> bool:
    """Whether a column is named like groups of rows: like patients, or like any identifier."""
    return is_group_name(name) or bool(ID_ENDING.search(name.strip()))


def is_group_name(name: str) -> bool:
    """Whether a column is named like patients or the like, not only like an identifier."""
    return bool(re.fullmatch(GROUP_NAMES, _normalize_name(name)))
