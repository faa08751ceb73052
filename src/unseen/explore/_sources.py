"""Sources of sessions: a table of the user, or the data sets of the package."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..datasets import load_digits_table, make_synthetic
from ..tables import Column, Schema, Table, TableOptions
from ._session import Origin, Session

SYNTHETIC_CODE = """\
from unseen.datasets import make_synthetic
from unseen.tables import Column, Schema, Table

data = make_synthetic(validation_domain=True, random_state={seed})
schema = Schema((Column("x", "numeric"), Column("y", "numeric")))
table = Table(data.data, data.target, data.domain, schema, [], "synthetic")"""
DIGITS_CODE = """\
from unseen.datasets import load_digits_table

table = load_digits_table()"""
# Fields of a request that are options of the command and parameters of `load_table`.
REQUEST_OPTIONS = (
    "label",
    "domain",
    "group",
    "features",
    "drop",
    "unlabeled",
    "dates",
    "categories",
    "max_per_domain",
    "seed",
)


def embedded_sources(seed: int = 0, scale: str | None = None) -> dict[str, Callable[[], Session]]:
    """Return functions that open the synthetic data of the paper and the rotated digits."""

    def synthetic() -> Session:
        data = make_synthetic(validation_domain=True, random_state=seed)
        schema = Schema((Column("x", "numeric"), Column("y", "numeric")))
        table = Table(data.data, data.target, data.domain, schema, [], "synthetic")
        command = ("--example", "synthetic", "--seed", str(seed), "--scale", scale or "none")
        return Session(table, scale or "none", Origin(SYNTHETIC_CODE.format(seed=seed), command), seed=seed)

    def digits() -> Session:
        command = ("--example", "digits", "--seed", str(seed), "--scale", scale or "l2")
        return Session(load_digits_table(), scale or "l2", Origin(DIGITS_CODE, command), seed=seed)

    return {"synthetic": synthetic, "digits": digits}


def table_source(data: str, table: Table, request: TableOptions, scale: str) -> Callable[[], Session]:
    """Return a function that opens a session on a table."""
    default = TableOptions()
    given = {
        name: getattr(request, name) for name in REQUEST_OPTIONS if getattr(request, name) != getattr(default, name)
    }
    arguments = "".join(f", {name}={value!r}" for name, value in given.items())
    code = f"from unseen.tables import load_table\n\ntable = load_table({data!r}{arguments})"
    command = [data, "--scale", scale]
    for name, value in given.items():
        command += [f"--{name.replace('_', '-')}", _format_option(value)]
    return partial(Session, table, scale, Origin(code, tuple(command)), seed=request.seed)


def _format_option(value: Any) -> str:
    """Format a value for the command; names that contain commas or quotes are quoted."""
    if not isinstance(value, (list, tuple)):
        return str(value)
    quoted = ('"' + name.replace('"', '""') + '"' if set(name) & set(',"\n') else name for name in value)
    return ",".join(quoted)
