"""Which column is the label, which the domain, and which are features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from ..utils.validation import format_list
from ._errors import format_unknown_column
from ._files import TableFile, are_part_names
from ._values import is_category, is_readable

# Names that tell what a column is for, in lower case, without an ending such as _id.
USUAL_NAMES = {
    "label": "labels?|targets?|class(es)?|y|gt|diagnosis|disease|outcome|species|phenotype|category|cell_type",
    "domain": "(sample_)?domains?|groups?|d|site|hospital|clinic|cent(er|re)|institution|lab(oratory)?|batch|plate|"
    "cohort|study|patient|subject|participant|donor|camera|scanner|device|instrument|station|location",
}
# Whom or what several rows may come from, beside whatever is called an id.
GROUP_NAMES = "patient|subject|participant|donor|person|individual|animal|specimen|mrn|medical_record"
ID_ENDING = re.compile(r"(^|[\s_.\-])(?i:id|uuid|guid|nbr|number|no|nr|mrn)$|[a-z](ID|Id|Nbr|Number)$")
STEM_ENDING = re.compile(r"_?(id|name|code|nbr|number)$|_(no|nr|num)$")
Dates = Literal["drop", "ordinal"]
# Why columns are no features: each on its own, and in a notice about all of them, if they are worth one.
LEFT_OUT_REASONS = {
    "dropped": "",
    "not asked for": "",
    "not in every file": "not every file has them",
    "not in the matrix": "they are not in the matrix of features",
    "tells the domain": "the files are the domains",
    "lists, records or bytes": "they hold lists, records or bytes",
    "not numbers": "they are not numbers",
    "all missing": "they hold a single value or none",
    "constant": "they hold a single value or none",
    "date": "they are dates",
    "too many levels": "they identify samples rather than describe them",
    "identifier": "they identify samples rather than describe them",
    "names a group": "they name what several samples come from",
}
LEFT_OUT_ADVICE = {
    "tells the domain": " Pass --domain to use one.",
    "date": " Pass --dates ordinal to use their days since 1970.",
}


def make_left_out_notices(left_out: Mapping[str, str]) -> list[str]:
    """A notice for each reason to leave columns out, given the reason of each column."""
    told: dict[str, list[str]] = {}
    for name, why in left_out.items():
        told.setdefault(f"Left out, since {LEFT_OUT_REASONS[why]}: {{}}.{LEFT_OUT_ADVICE.get(why, '')}", []).append(
            name
        )
    return [text.format(format_list(names)) for text, names in told.items() if "since :" not in text]


@dataclass(frozen=True)
class TableOptions:
    """What is asked of a table, as for `load_table`: what its columns are for, and which of its rows to use.

    What is `entire` is taken whole, learnable or not: every file is a domain, however small, and all columns of numbers
    are features, also such as hold a single value. Columns of anything else are left out.
    """

    label: str | None = None
    domain: str | None = None
    features: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    unlabeled: str | int | None = None
    max_per_domain: int | None = None
    seed: int = 0
    entire: bool = False
    group: str | None = None
    dates: Dates = "drop"
    categories: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.dates not in get_args(Dates):
            raise ValueError(f"dates must be one of {', '.join(get_args(Dates))}; got {self.dates!r}.")
        for role in ("label", "domain", "group"):
            if not isinstance(getattr(self, role), str | None):
                raise TypeError(f"{role} must be the name of a column; got {getattr(self, role)!r}.")
        object.__setattr__(self, "features", _column_names(self.features, "features"))
        object.__setattr__(self, "drop", _column_names(self.drop, "drop") or ())
        object.__setattr__(self, "categories", _column_names(self.categories, "categories") or ())
        limit = self.max_per_domain
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, np.integer))):
            raise TypeError(f"max_per_domain must be an integer; got {limit!r}.")
        if limit is not None and limit < 2:
            raise ValueError(f"max_per_domain must be 2 or more, since a domain needs two classes; got {limit}.")


def _column_names(names: Any, parameter: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    listing = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not all(isinstance(name, str) for name in listing):
        raise TypeError(f"{parameter} must be names of columns; got {names!r}.")
    return listing


@dataclass
class ColumnRoles:
    """What each column is for; label and domain are None where that is not known, or files are domains.

    Columns in `left_out` are no features, for the reasons in `LEFT_OUT`; those in `maybe_groups` are called like what
    several rows come from. `categories` are columns that hold levels whatever their values, by their types or because
    the request says so.
    """

    by_file: bool = False  # each file is a domain
    label: str | None = None
    domain: str | None = None
    group: str | None = None
    features: list[str] = field(default_factory=list)
    maybe_groups: list[str] = field(default_factory=list)
    categories: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def assign_roles(tables: Sequence[TableFile], request: TableOptions, *, several: bool) -> ColumnRoles:
    """The role of each column that all files have; of `several` files each may be a domain, or all be one table."""
    columns = [name for name in tables[0].types if all(name in table.types for table in tables)]
    if request.features and all(table.names and (table.names.features,) == request.features for table in tables):
        request = replace(request, features=None)  # it was the name of an array, not of a column
    roles = ColumnRoles(group=request.group if request.group in columns else None)
    drop, asked_features, categories = request.drop or (), request.features or (), request.categories or ()
    asked_columns = (request.label, request.domain, request.group, *asked_features, *categories)
    named = [name for name in asked_columns if name is not None]
    nowhere = [name for name in drop if not any(name in table.types for table in tables)]  # some will do
    for name in [*dict.fromkeys(named), *dict.fromkeys(nowhere)]:
        roles.problems += _absent(name, tables)
    if not request.entire:
        typed = {name for table in tables for name, kind in table.types.items() if is_category(kind)}
        roles.categories = {*typed, *categories}
    taken = {*drop, *asked_features, *categories, *([] if request.group is None else [request.group])}
    free = [name for name in columns if name not in taken]
    roles.label = _chosen("label", request, columns, [name for name in free if name != request.domain], roles)
    free = [name for name in free if name != roles.label]
    by_file, telling = several and request.domain is None, _obvious(_usual("domain", free))
    parts = by_file and not request.entire and are_part_names(table.name for table in tables)
    if parts and roles.label is not None and len(telling) == 1:
        roles.domain = telling[0]
        roles.notices.append(
            f"The {len(tables):,} files are called like parts of one table, so {telling[0]!r} is the domain column: "
            f"pass --drop {telling[0]} to make each file a domain."
        )
    elif by_file:
        roles.by_file = True
        roles.notices.append("Each file is a domain, named as the file.")
    else:
        roles.domain = _chosen("domain", request, columns, free, roles)
    roles.problems += _conflicts(roles, request)
    others = [name for name in columns if name in {*free, *categories} and name != roles.domain]
    if request.features is not None:
        chosen = [name for name in dict.fromkeys(request.features) if name in set(columns)]
        roles.left_out = dict.fromkeys(others, "not asked for")
    else:
        chosen = _default_features(tables, others, taken, roles, entire=request.entire)
        named_groups = [name for name in others if may_name_groups(name) and name not in categories]
        roles.maybe_groups = [] if request.entire else named_groups
    roles.left_out |= dict.fromkeys((name for name in drop if name not in nowhere), "dropped")
    other_roles = {roles.label, roles.domain, roles.group, *drop}
    roles.features = [name for name in chosen if name not in other_roles]
    _leave_out_unreadable(tables, roles)
    return roles


def _conflicts(roles: ColumnRoles, request: TableOptions) -> list[str]:
    """Columns that were asked to be two things at once."""
    problems = []
    for role in ("label", "domain", "group"):
        uses = (request.drop, "dropped"), (request.features, "a feature"), (request.categories, "a category")
        for others, use in ((names or (), use) for names, use in uses):
            if (asked := getattr(request, role)) in others:
                problems.append(f"{asked!r} is the {role} column and cannot be {use} as well.")
    for one, other in combinations(("label", "domain", "group"), 2):
        if (name := getattr(roles, one)) is not None and name == getattr(roles, other):
            problems.append(f"{name!r} is both the {one} and the {other} column: choose two columns.")
    return problems


def _absent(name: str, tables: Sequence[TableFile]) -> list[str]:
    lacking = [table for table in tables if name not in table.types]
    if not lacking or len(tables) == 1:
        return [format_unknown_column(name, table.types) for table in lacking]
    if len(lacking) == len(tables):
        return [format_unknown_column(name, tables[0].types, "no file has a")]
    return [f"{format_list(table.path.name for table in lacking)}: no column {name!r}, which other files have."]


def _chosen(
    role: str, request: TableOptions, columns: Iterable[str], candidates: Iterable[str], roles: ColumnRoles
) -> str | None:
    """The column that was asked for, or else the only one with a usual name."""
    asked = getattr(request, role)
    if asked is not None:
        return asked if asked in columns else None
    fitting = _usual(role, candidates)
    fitting = _obvious(fitting) if role == "domain" else fitting
    if len(fitting) == 1:
        roles.notices.append(f"Using {fitting[0]!r} as the {role} column: pass --{role} to choose another.")
        return fitting[0]
    if fitting:
        roles.problems.append(f"{format_list(fitting)} could each be the {role} column: pass --{role} to choose one.")
    else:
        roles.problems.append(
            f"which column holds the {role}s cannot be told: pass --{role}. The columns are {format_list(columns)}."
        )
    return None


def _stem(name: str) -> str:
    """A name in lower case, whatever its spaces, and without an ending such as _id."""
    plain = re.sub(r"[\s.\-]+", "_", name.strip()).lower()
    return STEM_ENDING.sub("", plain) or plain


def _usual(role: str, names: Iterable[str]) -> list[str]:
    """The names that tell a role."""
    return [name for name in names if re.fullmatch(USUAL_NAMES[role], _stem(name))]


def _obvious(names: list[str]) -> list[str]:
    """Of several names that tell domains, the only one that is of places and not of patients, if there is one."""
    places = [name for name in names if not re.fullmatch(GROUP_NAMES, _stem(name))]
    plain = [name for name in places if not may_name_groups(name)]
    return plain if len(plain) == 1 else places or names


def may_name_groups(name: str) -> bool:
    """Whether a column is called like what several rows may come from."""
    return is_group_name(name) or bool(ID_ENDING.search(name.strip()))


def is_group_name(name: str) -> bool:
    """Whether a column is called like a patient or the like, not just like an identifier of anything."""
    return bool(re.fullmatch(GROUP_NAMES, _stem(name)))


def _default_features(
    tables: Sequence[TableFile], free: Sequence[str], dropped: set[str], roles: ColumnRoles, *, entire: bool
) -> list[str]:
    """All columns that are left, but for those that would tell the domain or are not in every file."""
    somewhere = dict.fromkeys(name for table in tables for name in table.types)
    partial = [name for name in somewhere if not all(name in table.types for table in tables) and name not in dropped]
    beside = {name for table in tables for name in table.beside}
    if not beside.issuperset(partial) and (entire or any(table.names for table in tables)):  # arrays only number them
        lacking = {table.name: [name for name in partial if name not in {*table.types, *beside}] for table in tables}
        each = "; ".join(f"{name} lacks {format_list(names)}" for name, names in lacking.items() if names)
        roles.problems.append(f"the files differ in their columns: {each}. Pass --features to choose some.")
    else:
        roles.left_out |= dict.fromkeys(partial, "not in every file")
    roles.left_out |= dict.fromkeys(sorted(beside & set(free)), "not in the matrix")
    telling = _usual("domain", free) if roles.by_file else []
    roles.left_out |= dict.fromkeys(telling, "tells the domain")
    return [name for name in free if name not in roles.left_out]


def _leave_out_unreadable(tables: Sequence[TableFile], roles: ColumnRoles) -> None:
    unreadable = {name for table in tables for name, kind in table.types.items() if not is_readable(kind)}
    roles.left_out |= dict.fromkeys((name for name in roles.features if name in unreadable), "lists, records or bytes")
    roles.features = [name for name in roles.features if name not in unreadable]
    roles.maybe_groups = [name for name in roles.maybe_groups if name not in unreadable]
    for role in ("label", "domain", "group"):
        name = getattr(roles, role)
        if name in unreadable:
            roles.problems.append(f"the {role} column {name!r} must hold a word or number per row, not lists or bytes.")
            setattr(roles, role, None)
