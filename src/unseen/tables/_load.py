"""A table, read whole: samples, labels and domains, ready to learn from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._checks import as_array, as_labels, cell_problems, domain_problems, label_problems, lonely_domains
from ._errors import TableError, listed
from ._features import choose_columns
from ._files import TableFile, file_batches, files, header_problems, open_table
from ._roles import Request, Roles, choose_roles
from ._schema import Column, Schema
from ._survey import Survey, batch_size, joined, survey
from ._values import as_text, polars

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Table:
    """Samples with labels and domains, and how they were read.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The features, encoded as `schema` says; missing values are NaN.
    y : ndarray of shape (n_samples,)
        The labels: integers or strings.
    domain : ndarray of shape (n_samples,)
        The domain of each sample, a string.
    schema : Schema
        How columns became features.
    notices : list of str
        What was decided without being asked for, in sentences.
    name : str
        What the data are called.

    Examples
    --------
    >>> from unseen.tables import embedded
    >>> table = embedded()
    >>> table.name, table.X.shape
    ('rotated digits', (1797, 64))
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    domain: NDArray[np.str_]
    schema: Schema
    notices: list[str]
    name: str


def load_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    domain: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    max_per_domain: int | None = None,
    seed: int = 0,
) -> Table:
    r"""Read a table with a column of labels and a column of domains, or a folder with one table per domain.

    The file is read twice, a few rows at a time: once to learn what its columns hold, once to fill the matrix. Nothing
    else of it is held in memory.

    Parameters
    ----------
    path : str or path
        A file (.csv, .tsv, .csv.gz, .tsv.gz, .parquet, .feather, .arrow, .ipc, .npz or .mat), or a folder with such a
        file for each domain, named after it. In .npz and .mat files the features are the matrix called X, data,
        features, feas or fts, or the only one; labels and domains are vectors.
    label, domain : str, default=None
        The columns of labels and of domains. By default the only one with a telling name, such as diagnosis or species,
        hospital or batch; `notices` says which.
    features : sequence of str, default=None
        The columns to use, in this order. By default all but those that hold a single value, or identify samples rather
        than describe them: row numbers, unique text, integers called id.
    drop : sequence of str, default=None
        Columns not to use.
    max_per_domain : int, default=None
        Use at most so many rows of each domain, drawn at random.
    seed : int, default=0
        Seed of that draw.

    Returns
    -------
    table : Table
        The data. Numbers are numbers, also where NA, ? or the like stand for missing ones; all else is categorical.

    Raises
    ------
    TableError
        With all that is wrong with the file, not the first thing alone.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.tables import load_table
    >>> rows = [f"{place},{age},{'yes' if age > 50 else 'no'}" for place in ("bonn", "leeds") for age in range(40, 60)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "patients.csv")
    ...     _ = file.write_text("\n".join(["hospital,age,diagnosis", *rows]))
    ...     table = load_table(file)
    >>> table.X.shape, table.schema.feature_names
    ((40, 1), ['age'])
    >>> table.notices[1]
    "Using 'hospital' as the domain column: pass --domain to choose another."
    """
    request = Request(label, domain, _names(features, "features"), _names(drop, "drop") or ())
    limit = _checked_limit(max_per_domain)
    name = Path(path).expanduser().resolve().name
    folder = Path(path).expanduser().is_dir()
    tables, problems = _open(files(path), prefixed=folder)
    if not tables:
        raise TableError(problems, source=name)
    roles = choose_roles(tables, request, files_are_domains=folder)
    try:
        first_pass = survey(tables, roles.features, roles.label, roles.domain)
    except TableError as error:
        raise TableError([*problems, *roles.problems, *error.problems], source=name) from error
    columns, notices, wrong = choose_columns(first_pass, asked=features is not None)
    problems += roles.problems + wrong
    labels = as_labels(joined(first_pass.label))
    domains = _domains(roles, tables, first_pass, folder and domain is None)
    problems += _value_problems(labels, domains, roles, first_pass, folder)
    if problems:
        raise TableError(problems, source=name)
    notices = roles.notices + notices + lonely_domains(labels, domains)
    chosen = np.arange(first_pass.rows)
    if limit is not None:
        chosen = _draw(domains, limit, seed)
        labels, domains = labels.gather(chosen), domains.gather(chosen)
        lost = cell_problems(labels, domains, advice=f" Or draw more rows than {limit} from each.")
        if lost:
            raise TableError(lost, source=name)
        notices.append(f"Drew at most {limit:,} rows of each domain: {len(chosen):,} of {first_pass.rows:,}.")
    schema = Schema(columns, label=roles.label, domain=roles.domain)
    X = _matrix(tables, schema, chosen, first_pass.rows)
    return Table(X, as_array(labels), as_array(domains), schema, notices, name)


def embedded() -> Table:
    """The data of :func:`~unseen.datasets.load_rotated_digits`, which come with scikit-learn, as a table.

    Examples
    --------
    >>> from unseen.tables import embedded
    >>> table = embedded()
    >>> sorted(set(table.domain.tolist()))
    ['rot00', 'rot15', 'rot30', 'rot45', 'rot60', 'rot75']
    """
    from ..datasets import load_rotated_digits

    data = load_rotated_digits()
    schema = Schema(tuple(Column(name, "numeric") for name in data.feature_names), label="digit", domain="rotation")
    return Table(data.data, data.target, data.domain, schema, [], "rotated digits")


def _open(found: Sequence[tuple[str, Path]], *, prefixed: bool) -> tuple[list[TableFile], list[str]]:
    """The files that can be opened, and all that is wrong with their names and headers."""
    names = [name for name, _ in found]
    repeated = sorted({name for name in names if names.count(name) > 1})
    tables = []
    problems = [f"two or more files are called {name!r}, so they would be one domain: rename one." for name in repeated]
    for name, file in found:
        before = f"{file.name}: " if prefixed else ""
        try:
            problems += [before + problem for problem in header_problems(file)]
            tables.append(open_table(name, file))
        except TableError as error:
            problems += [before + problem for problem in error.problems]
    return tables, problems


def _domains(roles: Roles, tables: Sequence[TableFile], first_pass: Survey, by_file: bool) -> pl.Series:
    if not by_file:
        return as_text(joined(first_pass.domain))
    pl = polars()
    heights = np.diff([*first_pass.starts, first_pass.rows])
    return pl.concat(
        pl.Series([table.name], dtype=pl.String).new_from_index(0, int(height))
        for table, height in zip(tables, heights, strict=True)
    )


def _value_problems(labels: pl.Series, domains: pl.Series, roles: Roles, first_pass: Survey, folder: bool) -> list[str]:
    """What is wrong with the labels and domains, as far as it is known which columns they are."""
    if not first_pass.rows:
        return ["it has a header but no rows."]
    empty = [name for name, height in _heights(first_pass) if not height]
    problems = [f"these files have a header but no rows: {listed(empty)}."] if empty else []
    if roles.label is not None:
        problems += label_problems(labels, roles.label, first_pass)
    if roles.domain is not None or folder:
        problems += domain_problems(domains, roles.domain, first_pass)
    several = labels.drop_nulls().n_unique() > 1  # otherwise each domain would be told what the label has been
    if several and len(labels) == len(domains) == first_pass.rows:
        problems += cell_problems(labels, domains)
    return problems


def _heights(first_pass: Survey) -> Iterator[tuple[str, int]]:
    return zip(first_pass.files, np.diff([*first_pass.starts, first_pass.rows]).tolist(), strict=True)


def _draw(domains: pl.Series, limit: int, seed: int) -> NDArray[np.intp]:
    """Rows drawn at random in each domain, in the order of the file."""
    random = np.random.default_rng(seed)
    codes = domains.rank("dense").to_numpy()
    order = np.argsort(codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    drawn = [random.choice(rows, limit, replace=False) if len(rows) > limit else rows for rows in groups]
    return np.sort(np.concatenate(drawn))


def _matrix(tables: Sequence[TableFile], schema: Schema, chosen: NDArray[np.intp], rows: int) -> NDArray[np.float64]:
    """The second pass: the chosen rows, encoded into one matrix."""
    matrix = np.empty((len(chosen), len(schema.columns)))
    wanted = np.zeros(rows, dtype=bool)
    wanted[chosen] = True
    row = filled = 0
    for table in tables:
        for frame in file_batches(table.path, schema.feature_names, batch_size(len(schema.columns))):
            part = frame.filter(wanted[row : row + frame.height])
            matrix[filled : filled + part.height] = schema.encode(part)
            row, filled = row + frame.height, filled + part.height
    return matrix


def _names(names: Sequence[str] | None, parameter: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    listing = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in listing):
        raise TypeError(f"{parameter} must be names of columns; got {names!r}.")
    return listing


def _checked_limit(limit: int | None) -> int | None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, np.integer))):
        raise TypeError(f"max_per_domain must be an integer; got {limit!r}.")
    if limit is not None and limit < 2:
        raise ValueError(f"max_per_domain must be 2 or more, since a domain needs two classes; got {limit}.")
    return limit
