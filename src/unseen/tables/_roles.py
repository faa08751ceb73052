"""Which column is the label, which the domain, and which are features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..labels import listed
from ._errors import unknown_column
from ._files import TableFile
from ._find import look_like_parts
from ._values import is_readable

# Names that tell what a column is for, in lower case, without an ending such as _id.
LABEL_NAME = re.compile(
    "labels?|targets?|class(es)?|y|gt|diagnosis|disease|outcome|species|phenotype|category|cell_type"
)
DOMAIN_NAME = re.compile(
    "(sample_)?domains?|groups?|d|site|hospital|clinic|cent(er|re)|institution|lab(oratory)?|batch|plate|cohort|study|"
    "patient|subject|participant|donor|camera|scanner|device|instrument|station|location"
)


@dataclass(frozen=True)
class Request:
    """What is asked of a table: what its columns are for, and which of its rows to use.

    Parameters
    ----------
    label, domain, features, drop, unlabelled, max_per_domain, seed
        As for :func:`unseen.tables.load_table`.
    entire : bool, default=False
        Whether to take all that there is, learnable or not: every file is a domain, however small, and all columns of
        numbers are features, also such as hold a single value. Columns of anything else are left out.

    Examples
    --------
    >>> from unseen.tables import Request
    >>> Request("ill", drop="age").drop
    ('age',)
    """

    label: str | None = None
    domain: str | None = None
    features: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    unlabelled: str | int | None = None
    max_per_domain: int | None = None
    seed: int = 0
    entire: bool = False

    def __post_init__(self) -> None:
        for role in ("label", "domain"):
            if not isinstance(getattr(self, role), str | None):
                raise TypeError(f"{role} must be the name of a column; got {getattr(self, role)!r}.")
        object.__setattr__(self, "features", _column_names(self.features, "features"))
        object.__setattr__(self, "drop", _column_names(self.drop, "drop") or ())
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
class Roles:
    """What each column is for; label and domain are None where that is not known, or files are domains."""

    by_file: bool = False  # each file is a domain
    label: str | None = None
    domain: str | None = None
    features: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def choose_roles(tables: Sequence[TableFile], request: Request, *, several: bool) -> Roles:
    """The role of each column that all files have; of `several` files each may be a domain, or all be one table."""
    columns = [name for name in tables[0].types if all(name in table.types for table in tables)]
    roles = Roles()
    if request.features and all(table.names and (table.names.features,) == request.features for table in tables):
        request = replace(request, features=None)  # it was the name of an array, not of a column
    drop = request.drop or ()
    for name in _asked(request):
        roles.problems += _absent(name, tables)
    for name in dict.fromkeys(drop):  # to drop what only some files have is fine
        roles.problems += _absent(name, tables) if not any(name in table.types for table in tables) else []
    taken = {*drop, *(request.features or ())}
    candidates = [name for name in columns if name not in taken]
    roles.label = _chosen("label", request.label, LABEL_NAME, columns, _without(candidates, request.domain), roles)
    others = _without(candidates, roles.label)
    parts = several and request.domain is None and look_like_parts(table.name for table in tables)
    parts = parts and not request.entire
    named = _usual(DOMAIN_NAME, others)
    roles.by_file = several and request.domain is None and not (parts and roles.label is not None and len(named) == 1)
    if parts and not roles.by_file:
        roles.domain = named[0]
        roles.notices.append(
            f"The {len(tables):,} files are called like parts of one table, so {named[0]!r} is the domain column: pass "
            f"--drop {named[0]} to make each file a domain."
        )
    elif not roles.by_file:
        roles.domain = _chosen("domain", request.domain, DOMAIN_NAME, columns, others, roles)
    else:
        roles.notices.append("Each file is a domain, named as the file.")
    for role, asked in (("label", request.label), ("domain", request.domain)):
        if asked is not None and asked in drop:
            roles.problems.append(f"{asked!r} is the {role} column and cannot be dropped as well.")
        if asked is not None and asked in (request.features or ()):
            roles.problems.append(f"{asked!r} is the {role} column and cannot be a feature as well.")
    if roles.label is not None and roles.label == roles.domain:
        roles.problems.append(f"{roles.label!r} is both the label and the domain column: choose two columns.")
    if request.features is not None:
        known = set(columns)
        roles.features = [name for name in dict.fromkeys(request.features) if name in known]
    else:
        free = [name for name in others if name != roles.domain]
        roles.features = _default_features(tables, free, taken, roles, entire=request.entire)
    other_roles = {roles.label, roles.domain, *drop}
    roles.features = [name for name in roles.features if name not in other_roles]
    _leave_out_unreadable(tables, roles)
    return roles


def _asked(request: Request) -> Iterable[str]:
    named = (request.label, request.domain, *(request.features or ()))
    return dict.fromkeys(name for name in named if name is not None)


def _absent(name: str, tables: Sequence[TableFile]) -> list[str]:
    lacking = [table for table in tables if name not in table.types]
    if not lacking or len(tables) == 1:
        return [unknown_column(name, table.types) for table in lacking]
    if len(lacking) == len(tables):
        return [unknown_column(name, tables[0].types, "no file has a")]
    return [f"{listed(table.path.name for table in lacking)}: no column {name!r}, which other files have."]


def _without(names: Iterable[str], name: str | None) -> list[str]:
    return [other for other in names if other != name]


def _chosen(
    role: str,
    asked: str | None,
    usual: re.Pattern[str],
    columns: Sequence[str],
    candidates: Sequence[str],
    roles: Roles,
) -> str | None:
    """The column that was asked for, or else the only one with a usual name."""
    if asked is not None:
        return asked if asked in columns else None
    fitting = _usual(usual, candidates)
    if len(fitting) == 1:
        roles.notices.append(f"Using {fitting[0]!r} as the {role} column: pass --{role} to choose another.")
        return fitting[0]
    if fitting:
        roles.problems.append(f"{listed(fitting)} could each be the {role} column: pass --{role} to choose one.")
    else:
        roles.problems.append(
            f"which column holds the {role}s cannot be told: pass --{role}. The columns are {listed(columns)}."
        )
    return None


def _usual(usual: re.Pattern[str], names: Iterable[str]) -> list[str]:
    return [name for name in names if usual.fullmatch(_stem_of_name(name))]


def _stem_of_name(name: str) -> str:
    """A name without its case, its spaces, and an ending such as _id."""
    plain = re.sub(r"[\s.\-]+", "_", name.strip()).lower()
    return re.sub(r"_?(id|name|code)$", "", plain) or plain


def _default_features(
    tables: Sequence[TableFile], free: Sequence[str], dropped: set[str], roles: Roles, *, entire: bool
) -> list[str]:
    """All columns that are left, but for those that would tell the domain or are not in every file."""
    somewhere = dict.fromkeys(name for table in tables for name in table.types)
    partial = [name for name in somewhere if not all(name in table.types for table in tables) and name not in dropped]
    beside = {name for table in tables for name in table.beside}
    if not beside.issuperset(partial) and (entire or any(table.names for table in tables)):  # arrays only number them
        lacking = {table.name: [name for name in partial if name not in {*table.types, *beside}] for table in tables}
        each = "; ".join(f"{name} lacks {listed(names)}" for name, names in lacking.items() if names)
        roles.problems.append(f"the files differ in their columns: {each}. Pass --features to choose some.")
    elif partial:
        roles.notices.append(f"Left out, since not every file has them: {listed(partial)}.")
    if beside & set(free):
        roles.notices.append(
            f"Left out, since they are not in the matrix of features: {listed(sorted(beside & set(free)))}."
        )
    telling = [name for name in _usual(DOMAIN_NAME, free) if roles.by_file]
    if telling:
        roles.notices.append(f"Left out, since the files are the domains: {listed(telling)}. Pass --domain to use one.")
    return [name for name in free if name not in beside and name not in telling]


def _leave_out_unreadable(tables: Sequence[TableFile], roles: Roles) -> None:
    def readable(name: str, types: Iterable[Mapping[str, Any]]) -> bool:
        return all(is_readable(kinds[name]) for kinds in types)

    types = [table.types for table in tables]
    unreadable = [name for name in roles.features if not readable(name, types)]
    if unreadable:
        roles.notices.append(f"Left out, since they hold lists, records or bytes: {listed(unreadable)}.")
        roles.features = [name for name in roles.features if name not in unreadable]
    for role in ("label", "domain"):
        name = getattr(roles, role)
        if name is not None and not readable(name, types):
            roles.problems.append(f"the {role} column {name!r} must hold a word or number per row, not lists or bytes.")
            setattr(roles, role, None)
