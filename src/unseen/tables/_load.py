"""A table: looked through, drawn from, then read, in pieces or whole: samples, labels and domains to learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import available_bytes
from ..linalg import Ints
from ..utils.samples import Samples, allocate_rows, domain_row_limit
from ._arrays import ArrayNames
from ._checks import find_value_problems, make_name_notices, make_unlabeled_notices, parse_labels, select_columns
from ._column_roles import Dates, TableOptions, assign_roles
from ._errors import TableError, raise_table_error, translate_read_errors
from ._files import (
    FrameFile,
    Source,
    TableFile,
    find_header_problems,
    get_data_name,
    is_folder_or_pattern,
    is_path,
    iter_file_batches,
    list_files,
    open_table,
)
from ._frames import as_frame
from ._schema import Schema, check_feature_magnitudes, describe_columns
from ._survey import Cell, Part, ValueEncoder, choose_batch_size, count_cells, sum_cells, survey_batches

Draw = dict[Cell, Ints]  # which rows of each cell, counted from 0 through all files, in order


@dataclass(frozen=True)
class SurveyedTable:
    """What the first pass over a table found, and which of its rows are wanted.

    Nothing in it grows with the number of rows but the draw, if there is one. It is small enough to be sent to workers,
    who read `pieces` of a part each.
    """

    name: str
    schema: Schema
    notices: list[str]
    parts: list[Part]
    cells: dict[Cell, int]
    label_coding: ValueEncoder
    domain_coding: ValueEncoder
    group_coding: ValueEncoder
    labels: NDArray[Any]  # of each number, less one
    domains: NDArray[np.str_]
    class_names: dict[str, tuple[str, ...]]  # by file, where it gives them
    single: bool  # whether the files hold all features in single precision
    left_out: dict[str, str]  # columns that are not used, and why
    draw: Draw | None = None

    @property
    def counts(self) -> Ints:
        """The number of wanted rows of each domain with each label, in the order of their numbers."""
        cells = self.cells if self.draw is None else {cell: len(rows) for cell, rows in self.draw.items()}
        return sum_cells(cells, len(self.domains), np.arange(len(self.labels)))

    @property
    def rows(self) -> int:
        """The number of wanted rows."""
        return int(self.counts.sum())

    def domain_rows(self) -> dict[str, int]:
        """The number of wanted rows of each domain."""
        return _totals(self.domains, self.counts.sum(axis=1))

    def class_rows(self) -> dict[Any, int]:
        """The number of wanted rows of each class."""
        return _totals(self.labels, self.counts.sum(axis=0))

    def subsample(self, limit: int, seed: int) -> SurveyedTable:
        """At most so many rows of each domain, at random, of all its classes."""
        drawn = self._drawn(allocate_rows(self.counts, most=limit), seed)
        text = f"Drew at most {limit:,} rows of each domain: {drawn.rows:,} of {self.rows:,}."
        return replace(drawn, notices=[*self.notices, text])

    def sampled(self, total: int, seed: int) -> SurveyedTable:
        """So many rows in all, the same number of each domain as far as it has them, of all its classes."""
        return self if self.rows <= total else self._drawn(allocate_rows(self.counts, total=total), seed)

    def _drawn(self, wanted: Ints, seed: int) -> SurveyedTable:
        random, counts, draw = np.random.default_rng(seed), self.counts, {}
        for domain, label in self.cells:
            rows, size = counts[domain - 1, label - 1], wanted[domain - 1, label - 1]
            chosen = np.sort(random.choice(rows, size, replace=False)) if size < rows else np.arange(rows)
            draw[domain, label] = chosen if self.draw is None else self.draw[domain, label][chosen]
        return replace(self, draw=draw)

    def pieces(self, part: Part) -> Iterator[Samples]:
        """The wanted rows of a part, in their order, a few at a time."""
        return (piece for piece, *_ in self._placed_pieces(part))

    def _placed_pieces(self, part: Part) -> Iterator[tuple[Samples, Ints, Ints]]:
        """The same, with the places of the rows, counted from 0 through all files, and the numbers of their groups."""
        before, start, classes = dict(part.before), part.start, np.unique(self.labels)
        roles = [coding.column for coding in (self.label_coding, self.domain_coding, self.group_coding)]
        columns = [*self.schema.feature_names, *roles]
        names = list(dict.fromkeys(name for name in columns if name is not None))
        for frame in iter_file_batches(
            part.path, names, choose_batch_size(len(names)), part.first, part.rows, part.names
        ):
            with translate_read_errors(part.path):
                counting, kept = self.label_coding.counting(frame)
                rows = start + kept
                start += frame.height
                labels = self.label_coding.codes(counting)
                domains = self.domain_coding.codes(counting, part.domain)
                if self.draw is not None and counting.height:
                    wanted = self._wanted(domains, labels, before)
                    counting, rows = counting.filter(wanted), rows[wanted]
                    domains, labels = domains[wanted], labels[wanted]
                X = self.schema.encode(counting) if counting.height else None
            if X is not None:
                piece = Samples(X, self.labels[labels - 1], self.domains[domains - 1], classes)
                yield piece, rows, self.group_coding.codes(counting)

    def _wanted(self, domains: Ints, labels: Ints, before: dict[Cell, int]) -> NDArray[np.bool_]:
        """Which rows were drawn; `before` counts those of each cell that have gone by, and goes on counting."""
        wanted = np.zeros(len(domains), dtype=bool)
        for cell, count in count_cells(domains, labels):
            first = before.get(cell, 0)
            drawn = (self.draw or {}).get(cell, np.empty(0, dtype=np.intp))
            here = drawn[np.searchsorted(drawn, first) : np.searchsorted(drawn, first + count)] - first
            if len(here):
                wanted[np.flatnonzero((domains == cell[0]) & (labels == cell[1]))[here]] = True
            before[cell] = first + count
        return wanted

    def read(self) -> tuple[Samples, Ints, NDArray[np.str_] | None]:
        """All wanted rows, their places, counted from 0 through all files, and their groups if there are any."""
        X = np.empty((self.rows, len(self.schema.columns)))
        y, domain = np.empty(len(X), dtype=self.labels.dtype), np.empty(len(X), dtype=self.domains.dtype)
        (places, groups), filled = np.empty((2, len(X)), dtype=np.intp), 0
        for part in self.parts:
            for piece, rows, own in self._placed_pieces(part):
                here = slice(filled, filled + len(rows))
                X[here], y[here], domain[here], places[here], groups[here] = piece.X, piece.y, piece.domain, rows, own
                filled += len(rows)
        if filled != len(X):
            raise TableError([f"it had {len(X):,} rows and now has {filled:,}. Begin again."], source=self.name)
        names = np.array(self.group_coding.names, dtype=str)
        return Samples(X, y, domain), places, None if self.group_coding.column is None else names[groups - 1]


def _totals(names: NDArray[Any], rows: Ints) -> dict[Any, int]:
    """How many rows each different name has, sorted, of those that have any."""
    different, codes = np.unique(names, return_inverse=True)
    totals = np.bincount(codes, weights=rows).astype(int).tolist()
    return {name: total for name, total in zip(different.tolist(), totals, strict=True) if total}


MAX_MATRIX_SHARE = 0.25  # of the available memory, for all rows at once: methods make copies


@dataclass(frozen=True)
class Table:
    """Samples with labels and domains, and how they were read.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The features, encoded as `schema` says; missing values are NaN.
    y : ndarray of shape (n_samples,)
        The labels: booleans, integers or strings.
    domain : ndarray of shape (n_samples,)
        The domain of each sample, a string.
    schema : Schema
        How columns became features.
    notices : list of str
        What was decided without being asked for, in sentences.
    name : str
        What the data are called.
    rows : ndarray of shape (n_samples,), default=None
        The place of each sample in the user's table, counted from 0, through all files in order; None for all rows.
    group : ndarray of shape (n_samples,), default=None
        What the samples come from, such as their patients, if a column tells: strings.
    left_out : dict, default={}
        Columns that are not used, and why.
    pictures : callable, default=None
        Gives small pictures of some rows, counted from 0, as addresses for a page.

    Examples
    --------
    >>> from unseen.datasets import embedded
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
    rows: NDArray[np.intp] = None  # type: ignore[assignment]
    group: NDArray[np.str_] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    pictures: Callable[[Sequence[int]], list[str]] | None = None

    def __post_init__(self) -> None:
        if self.rows is None:
            object.__setattr__(self, "rows", np.arange(len(self.X)))

    def take(self, kept: NDArray[Any]) -> Table:
        """Some of the samples, by their positions among these."""
        group = None if self.group is None else self.group[kept]
        rest = {"domain": self.domain[kept], "rows": self.rows[kept], "group": group}
        return replace(self, X=self.X[kept], y=self.y[kept], **rest)

    def column_uses(self) -> list[dict[str, Any]]:
        """How every column was used: its name, its use, its number of levels, and why if it was left out."""
        return describe_columns(self.schema, self.left_out)

    @cached_property
    def samples(self) -> Samples:
        """The samples alone, to be counted, thinned or split."""
        return Samples(self.X, self.y, self.domain, group=self.group)


def load_table(
    path: Any,
    *,
    label: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    unlabeled: str | int | None = None,
    dates: Dates = "drop",
    categories: Sequence[str] | None = None,
    max_per_domain: int | None = None,
    seed: int = 0,
) -> Table:
    r"""Read a table with a column of labels and a column of domains, or a folder with one table per domain.

    The file is read twice, a few rows at a time: once to learn what its columns hold, once to fill the matrix. Nothing
    else of it is held in memory, so a table of any size will do for a draw with `max_per_domain`. Without that, a table
    whose matrix would take more than a quarter of the available memory is drawn from by itself; `notices` says so.

    Parameters
    ----------
    path : str, path, DataFrame, dict, list of dict or structured array
        A frame of pandas or polars, or columns or rows by name, read as the same table in a file would be. Or a file
        (.csv, .tsv, .csv.gz, .tsv.gz, .parquet, .feather, .arrow, .ipc, .npz or .mat); or several, by the folder that
        they are in or a pattern such as ``data/part-*.parquet``. Each of several files is a domain, named after it.
        They are parts of one table if `domain` names a column; or if all are called like parts, as part-0001, chunk_3
        or 00012, and have the same label column and domain column with telling names. In .npz and .mat files the
        features are the matrix called X, data, features, feas or fts, or the only one; labels and domains are vectors.
    label, domain : str, default=None
        The columns of labels and of domains. By default the only one with a telling name, such as diagnosis or species,
        hospital or batch; `notices` says which.
    group : str, default=None
        The column that tells what rows come from, such as the patient, where several rows come from the same.
    features : sequence of str, default=None
        The columns to use, in this order. By default all but those that hold a single value, or identify samples rather
        than describe them: row numbers, unique text, integers called id, and names of patients or the like.
    drop : sequence of str, default=None
        Columns not to use.
    unlabeled : str or int, default=None
        The label of rows that have none, such as 0 or unknown, or NA for all that are missing: they are left out.
        `notices` says how many.
    dates : {"drop", "ordinal"}, default="drop"
        Leave out columns of dates, typed or in text such as 2024-03-31, 2024-03-31T12:30, 31.03.2024, 31/03/2024 or
        03/31/2024; or use them as days since 1970. Those that `features` names are used so in any case. Where day and
        month cannot be told apart in the whole column, the month comes first; `notices` says so.
    categories : sequence of str, default=None
        Columns that hold categories although their values are numbers, such as codes. Columns of a categorical type of
        pandas or polars always do.
    max_per_domain : int, default=None
        Use at most so many rows of each domain, drawn at random, of all its classes.
    seed : int, default=0
        Seed of that draw.

    Returns
    -------
    table : Table
        The data. Numbers are numbers, also where NA, ? or the like stand for missing ones, unless the type of their
        column or `categories` says otherwise; all else is categorical.

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
    request = TableOptions(
        label,
        domain,
        features,
        drop,
        unlabeled,
        max_per_domain,
        seed,
        group=group,
        dates=dates,
        categories=categories,
    )
    return read_survey(survey_table(path, request), seed)


def survey_table(path: Any, request: TableOptions | None = None) -> SurveyedTable:
    """Look through a table, as `load_table` does first, without reading it into memory."""
    if not is_path(path):
        frame = FrameFile(as_frame(path, FrameFile.name))
        return survey_files([(frame.name, frame)], request or TableOptions(), frame.name, several=False)
    return survey_files(
        list_files(path), request or TableOptions(), get_data_name(path), several=is_folder_or_pattern(path)
    )


def survey_files(
    found: Sequence[tuple[str, Source]], request: TableOptions, name: str, *, several: bool
) -> SurveyedTable:
    """Look through some files with their names, which are `several` even if it turns out to be one."""
    tables, problems = _open(found, request, prefixed=several)
    if not tables:
        raise TableError(problems, source=name)
    roles = assign_roles(tables, request, several=several)
    files_called = Counter(table.name for table in tables)
    repeated = sorted(name for name, count in files_called.items() if count > 1 and roles.by_file)
    same = [f"two or more files are called {name!r}, so they would be one domain: rename one." for name in repeated]
    problems = same + problems
    try:
        first_pass = survey_batches(tables, roles, None if request.unlabeled is None else str(request.unlabeled))
    except TableError as error:
        before = f"{error.source}: " if several and error.source in {file.name for _, file in found} else ""
        broken = [before + problem for problem in error.problems]
        raise TableError([*problems, *roles.problems, *broken], source=name) from error
    columns, notices, wrong = select_columns(first_pass, roles, request)
    problems += roles.problems + wrong
    labels = parse_labels(first_pass.label.names)
    problems += find_value_problems(labels, roles, first_pass, entire=request.entire)
    raise_table_error(problems, name)
    single = all(str(table.types[column.name]) == "Float32" for table in tables for column in columns)
    table = SurveyedTable(
        name,
        Schema(columns, roles.label, roles.domain, roles.group),
        [*roles.notices, *make_unlabeled_notices(first_pass), *notices, *make_name_notices(labels, first_pass)],
        first_pass.parts,
        dict(first_pass.cells),
        first_pass.label,
        first_pass.domain,
        first_pass.group,
        labels,
        np.array(first_pass.domain.names, dtype=str),
        {table.name: table.classes for table in tables if table.classes},
        single,
        roles.left_out,
    )
    return table if request.max_per_domain is None else table.subsample(request.max_per_domain, request.seed)


def read_survey(found: SurveyedTable, seed: int = 0) -> Table:
    """Read a table that has been looked through; unless its rows were drawn, no more than there is memory for."""
    available, width = available_bytes(), 8 * len(found.schema.columns)
    if found.draw is None and available is not None and found.rows * width > MAX_MATRIX_SHARE * available:
        limit = domain_row_limit(list(found.domain_rows().values()), int(MAX_MATRIX_SHARE * available / width))
        needed, room = (f"{size / 2**30:,.1f} GiB" for size in (found.rows * width, available))
        text = (
            f"All {found.rows:,} rows would take {needed}, and {room} is available: pass --max-per-domain to choose "
            "how many to use."
        )
        found = replace(found, notices=[*found.notices, text]).subsample(max(limit, 2), seed)
    samples, rows, group = found.read()
    check_feature_magnitudes(samples.X, found.schema)
    told: dict[str, Any] = {"rows": rows, "group": group, "left_out": found.left_out}
    return Table(samples.X, samples.y, samples.domain, found.schema, found.notices, found.name, **told)


def _open(
    found: Sequence[tuple[str, Source]], request: TableOptions, *, prefixed: bool
) -> tuple[list[TableFile], list[str]]:
    """The files that can be opened, and all that is wrong with their names and headers."""
    tables: list[TableFile] = []
    problems: list[str] = []
    array = request.features[0] if request.entire and request.features and len(request.features) == 1 else None
    names = ArrayNames(array, request.label)  # who predicts a new file with a model knows no name of an array
    for name, file in found:
        before = f"{file.name}: " if prefixed else ""
        try:
            problems += [before + problem for problem in find_header_problems(file)]
            tables.append(open_table(name, file, names))
        except TableError as error:
            problems += [before + problem for problem in error.problems]
    labels = {table.names.label if table.names else None for table in tables}
    if request.label is None and len(labels) > 1 and None not in labels:  # each has its own name for the same thing
        same = names._replace(column="label")
        tables = [open_table(table.name, table.path, same) for table in tables]
    return tables, problems
