"""Loading of a table in two passes: a survey of its columns, then its rows, completely or in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from ..kernels import available_bytes
from ..linalg import Ints
from ..utils.samples import Samples, allocate_rows, domain_row_limit
from ..utils.validation import check_domains, check_label_length, encode_classes, format_list
from ._checks import find_value_problems, make_name_notices, make_row_notices, select_columns
from ._column_roles import MIN_DOMAIN_ROWS, Dates, TableOptions, assign_roles
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
    open_file,
)
from ._schema import Schema, check_feature_magnitudes, describe_columns
from ._survey import Part, Survey, choose_batch_size, survey_batches
from ._values import (
    TableError,
    as_frame,
    convert_column,
    has_columns,
    parse_labels,
    raise_table_error,
    translate_read_errors,
)

# Options that do not name columns, and so apply to arrays as well.
ARRAY_OPTIONS = ("max_per_domain", "seed")
MAX_MATRIX_SHARE = 0.25  # of the available memory, for the matrix of all rows, because methods make copies


@dataclass(frozen=True)
class SurveyedTable:
    """The result of the first pass over a table, and which of its rows are selected.

    It holds some bytes for each row. Workers that read the `pieces` of a part receive it without the other parts.
    """

    name: str
    schema: Schema
    notices: list[str]
    survey: Survey
    labels: NDArray[Any]  # the label of each distinct text
    left_out: dict[str, str]  # columns that are not used, with the reason
    is_subsample: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "survey": None}

    @property
    def parts(self) -> list[Part]:
        """Arguments for `pieces`."""
        return self.survey.parts

    @property
    def counts(self) -> Ints:
        """The number of selected rows of each domain with each label, in the order of their codes."""
        return self.survey.counts(np.arange(len(self.labels)))

    @property
    def rows(self) -> int:
        """The number of selected rows."""
        return int(self.counts.sum())

    def count_domain_rows(self) -> dict[str, int]:
        """Count the selected rows of each domain."""
        return _sum_by_name(self.survey.get_names("domain"), self.counts.sum(axis=1))

    def count_class_rows(self) -> dict[Any, int]:
        """Count the selected rows of each class."""
        return _sum_by_name(self.labels, self.counts.sum(axis=0))

    def subsample_domains(self, max_per_domain: int, seed: int) -> SurveyedTable:
        """Select at most `max_per_domain` rows of each domain, at random, from all its classes."""
        subsample = self._select_rows(allocate_rows(self.counts, max_per_domain=max_per_domain), seed)
        text = f"Selected at most {max_per_domain:,} rows of each domain: {subsample.rows:,} of {self.rows:,}."
        return replace(subsample, notices=[*self.notices, text])

    def subsample(self, total: int, seed: int) -> SurveyedTable:
        """Select `total` rows at random, as equally from the domains as possible, and from all their classes."""
        return self if self.rows <= total else self._select_rows(allocate_rows(self.counts, total=total), seed)

    def _select_rows(self, n_selected: Ints, seed: int) -> SurveyedTable:
        """Select a number of rows of each domain and label."""
        rng = np.random.default_rng(seed)
        rows = self.survey.rows
        is_used = rows["is_used"].to_numpy().copy()
        domain, label = (rows[role].to_physical().cast(pl.Int64) for role in ("domain", "label"))
        cells = (domain * len(self.labels) + label).fill_null(-1).to_numpy()
        for cell in np.flatnonzero(n_selected < self.counts):
            members = np.flatnonzero(is_used & (cells == cell))
            is_used[members] = False
            is_used[rng.choice(members, n_selected.flat[cell], replace=False)] = True
        return replace(self, survey=self.survey.select(is_used), is_subsample=True)

    def pieces(self, part: Part) -> Iterator[Samples]:
        """Read the selected rows of a part, in order, in batches."""
        names = self.schema.feature_names
        n_rows = part.rows.height
        n_read = 0
        for frame in iter_file_batches(part.path, names, choose_batch_size(len(names)), part.first, n_rows):
            rows = part.rows.slice(n_read, frame.height)
            n_read += frame.height
            if n_read > n_rows:
                break
            with translate_read_errors(part.path):
                X = self.schema.encode(frame.filter(rows["is_used"]))
            if len(X):
                yield self.make_samples(X, rows.filter("is_used"))
        if n_read != n_rows:
            raise TableError(
                [f"it has changed: it had {n_rows:,} rows, and now has {n_read:,}. Read it again."],
                source=part.path.name,
            )

    def make_samples(self, X: NDArray[np.float64], rows: pl.DataFrame) -> Samples:
        """Make samples of encoded features and the rows of a survey."""
        y = self.labels[rows["label"].to_physical().to_numpy()]
        group = None if self.schema.group is None else _as_array(rows["group"])
        return Samples(X, y, _as_array(rows["domain"]), np.unique(self.labels), group=group)


def _as_array(names: pl.Series) -> NDArray[np.str_]:
    return names.cast(pl.String).to_numpy().astype(str)


def _sum_by_name(names: Any, rows: Ints) -> dict[Any, int]:
    """Sum the rows of each distinct name, in sorted order, without names that have no rows."""
    distinct, codes = np.unique(names, return_inverse=True)
    totals = np.bincount(codes, weights=rows).astype(int).tolist()
    return {name: total for name, total in zip(distinct.tolist(), totals, strict=True) if total}


@dataclass(frozen=True)
class Table:
    """Samples with labels and domains, and a description of how they were read.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features, encoded by `schema`; missing values are NaN.
    y : ndarray of shape (n_samples,)
        Labels: booleans, integers or strings.
    domain : ndarray of shape (n_samples,)
        Domain of each sample, a string.
    schema : Schema
        Columns and their encoding as features.
    notices : list of str
        Decisions that were made automatically, in sentences.
    name : str
        Name of the data.
    rows : ndarray of shape (n_samples,), default=None
        Index of each sample in the table, counted from 0 through all files in order; None for all rows.
    group : ndarray of shape (n_samples,), default=None
        Group of each sample, such as the patient, a string; None without a group column.
    left_out : dict, default={}
        Columns that are not used, with the reason.

    Examples
    --------
    >>> from unseen.datasets import load_digits_table
    >>> table = load_digits_table()
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

    def __post_init__(self) -> None:
        if self.rows is None:
            object.__setattr__(self, "rows", np.arange(len(self.X)))

    def take(self, positions: NDArray[Any]) -> Table:
        """Select samples by their positions."""
        return replace(
            self,
            X=self.X[positions],
            y=self.y[positions],
            domain=self.domain[positions],
            rows=self.rows[positions],
            group=None if self.group is None else self.group[positions],
        )

    def describe_columns(self) -> list[dict[str, Any]]:
        """Describe the use of every column: its name, its use, its number of levels, and why it is left out."""
        return describe_columns(self.schema, self.left_out)

    @cached_property
    def samples(self) -> Samples:
        """The samples without the description, to be counted, subsampled or split."""
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
    missing: Mapping[str, Any] | None = None,
    max_per_domain: int | None = None,
    min_domain_rows: int = MIN_DOMAIN_ROWS,
    random_state: int = 0,
) -> Table:
    r"""Read a table with a column of labels and a column of domains, or a folder with one table per domain.

    The file is read twice, in batches of rows: once to determine what its columns hold, once to fill the matrix.
    Nothing else of it is kept in memory, so with `max_per_domain` a table may have any size. Without it, a table whose
    matrix would take more than a quarter of the available memory is subsampled, which `notices` reports.

    Parameters
    ----------
    path : str, path, DataFrame, dict or list of dict
        A frame of pandas or polars, or columns or rows by name, which are read like the same table in a file. Or a file
        (.csv or .tsv, also compressed as .csv.gz; .xlsx, .parquet, .feather, .arrow, .ipc, .npz or .mat); or several
        files, given by their folder or a pattern such as ``data/part-*.parquet``. Each of several files is a domain,
        named as the file. They are parts of one table if `domain` is a column; or if all are named like parts, such as
        part-0001, chunk_3 or 00012, and have the same label column and domain column with usual names. In .npz and
        .mat files the features are the matrix called X, data, features, feas or fts, or the only matrix; labels and
        domains are vectors.
    label, domain : str, default=None
        Columns of labels and of domains. By default the only column with a usual name, such as diagnosis or species,
        hospital or batch; `notices` reports it.
    group : str, default=None
        Column of groups of rows that belong together, such as the patient if patients have several rows.
    features : sequence of str, default=None
        Columns to use, in this order. By default all columns except those that hold a single value, or identify samples
        rather than describe them: row numbers, unique text, integers named like identifiers, and patients or the like.
    drop : sequence of str, default=None
        Columns not to use.
    unlabeled : str or int, default=None
        Label of rows without a label, such as 0 or unknown, or NA for missing labels. These rows are left out;
        `notices` reports their number.
    dates : {"drop", "ordinal"}, default="drop"
        Leave out columns of dates, typed or in text such as 2024-03-31, 2024-03-31T12:30, 31.03.2024, 31/03/2024 or
        03/31/2024; or use them as days since 1970. Date columns in `features` are always used. If day and month are
        ambiguous in all values of a column, the month comes first; `notices` reports it.
    categories : sequence of str, default=None
        Columns that hold categories although their values are numbers, such as codes. Columns of a categorical type of
        pandas or polars always hold categories.
    missing : mapping of str to value or list of values, default=None
        Values that stand for missing values in a column, such as ``{"cholesterol": 0, "age": [-9, 999]}``, in addition
        to empty cells and marks such as NA. The same holds for new tables that a model predicts.
    max_per_domain : int, default=None
        Maximum number of rows of each domain, selected at random, from all its classes.
    min_domain_rows : int, default=4
        Domains with fewer rows are left out; `notices` reports them.
    random_state : int, default=0
        Seed of the selection of rows.

    Returns
    -------
    table : Table
        The data. Columns of numbers are numeric, also if NA, ? or the like stand for missing values, unless the type of
        the column or `categories` declares categories; all other columns are categorical.

    Raises
    ------
    TableError
        If the table cannot be used. The error lists all problems.

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
    "Using 'hospital' as the domain column. Set the parameter domain to choose another."
    """
    options = TableOptions(
        label=label,
        domain=domain,
        features=features,
        drop=drop,
        unlabeled=unlabeled,
        max_per_domain=max_per_domain,
        seed=random_state,
        group=group,
        dates=dates,
        categories=categories,
        missing=missing,
        min_domain_rows=min_domain_rows,
    )
    return read_survey(survey_table(path, options), random_state)


def survey_table(path: Any, options: TableOptions | None = None) -> SurveyedTable:
    """Survey a table, as `load_table` does first, without reading it into memory."""
    options = options or TableOptions()
    several = is_path(path) and is_folder_or_pattern(path)
    if is_path(path):
        files: Sequence[tuple[str, Source]] = list_files(path)
        name = get_data_name(path)
    else:
        name = FrameFile.name
        files = [(name, FrameFile(as_frame(path, name)))]
    tables: list[TableFile] = []
    problems: list[str] = []
    for file_name, file in files:
        prefix = f"{file.name}: " if several else ""
        try:
            problems += [prefix + problem for problem in find_header_problems(file)]
            tables.append(TableFile(file_name, file, dict(open_file(file).collect_schema())))
        except TableError as error:
            problems += [prefix + problem for problem in error.problems]
    if not tables:
        raise TableError(problems, source=name)
    roles = assign_roles(tables, options, several=several)
    if roles.files_are_domains:
        name_counts = Counter(table.name for table in tables)
        repeated = sorted(name for name, count in name_counts.items() if count > 1)
        same_names = [
            f"two or more files are called {name!r}, so they would be one domain. Rename one." for name in repeated
        ]
        problems = same_names + problems
    try:
        survey = survey_batches(tables, roles, options)
    except TableError as error:
        prefix = f"{error.source}: " if several and error.source in {file.name for _, file in files} else ""
        read_problems = [prefix + problem for problem in error.problems]
        raise TableError([*problems, *roles.problems, *read_problems], source=name) from error
    survey = survey.leave_out_small_domains(options.min_domain_rows)
    columns, column_notices, column_problems = select_columns(survey, roles, options)
    labels = parse_labels(survey.get_names("label"))
    problems += roles.problems + column_problems + find_value_problems(labels, roles, survey, options)
    raise_table_error(problems, name)
    schema = Schema(columns, roles.label, roles.domain, roles.group)
    row_notices = make_row_notices(survey, options)
    notices = [*roles.notices, *row_notices, *column_notices, *make_name_notices(labels, survey)]
    table = SurveyedTable(name, schema, notices, survey, labels, roles.left_out)
    if options.max_per_domain is None:
        return table
    return table.subsample_domains(options.max_per_domain, options.seed)


def read_survey(table: SurveyedTable, seed: int = 0) -> Table:
    """Read a surveyed table; unless rows are selected already, read at most as many as fit into memory."""
    available = available_bytes()
    row_bytes = 8 * len(table.schema.columns)
    if not table.is_subsample and available is not None and table.rows * row_bytes > MAX_MATRIX_SHARE * available:
        limit = domain_row_limit(
            list(table.count_domain_rows().values()), int(MAX_MATRIX_SHARE * available / row_bytes)
        )
        text = (
            f"All {table.rows:,} rows would take {_format_gib(table.rows * row_bytes)}, and {_format_gib(available)} "
            "is available. Set the parameter max_per_domain to choose how many rows to use."
        )
        table = replace(table, notices=[*table.notices, text]).subsample_domains(max(limit, 2), seed)
    X = np.empty((table.rows, len(table.schema.columns)))  # filled batch by batch, so that it is in memory once
    n_filled = 0
    for part in table.parts:
        for piece in table.pieces(part):
            X[n_filled : n_filled + len(piece)] = piece.X
            n_filled += len(piece)
    check_feature_magnitudes(X, table.schema)
    rows = table.survey.rows.with_row_index("row").filter("is_used")
    samples = table.make_samples(X, rows)
    return Table(
        samples.X,
        samples.y,
        samples.domain,
        table.schema,
        table.notices,
        table.name,
        rows=rows["row"].to_numpy().astype(np.intp),
        group=samples.group,
        left_out=table.left_out,
    )


def _format_gib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:,.1f} GiB"


def open_data(data: Any, y: Any, sample_domain: Any, options: TableOptions, caller: str) -> SurveyedTable | Table:
    """Open data in any form, without reading files into memory.

    Parameters
    ----------
    data : DataFrame, dict, list of dict, str, path, SurveyedTable, Table or array-like
        A table, or the samples.
    y, sample_domain : array-like or None
        Labels and domains of the samples, unless they are columns of the table.
    options : TableOptions
        Roles of columns, and which rows to use.
    caller : str
        Name of the function in messages.

    Returns
    -------
    table : SurveyedTable or Table
        A Table if the data are arrays or a Table already.
    """
    if isinstance(data, SurveyedTable):
        return data
    if isinstance(data, Table) or not (is_path(data) or has_columns(data)):
        if y is None and not isinstance(data, Table) and (options.label or options.domain):
            as_frame(data, FrameFile.name)  # raises TypeError, since the data have no columns
        check_array_options(options)
        table = data if isinstance(data, Table) else table_from_arrays(data, y, sample_domain, caller)
        rows = table.samples.subsample_rows(max_per_domain=options.max_per_domain, seed=options.seed)
        return table if len(rows) == len(table.X) else table.take(rows)
    if y is None and sample_domain is None:
        return survey_table(data, options)
    if is_path(data):
        raise ValueError(
            "y and sample_domain cannot be combined with the path of a table. Set label and domain to its columns."
        )
    return _survey_with_arrays(data, y, sample_domain, options)


def check_array_options(options: TableOptions) -> None:
    """Raise ValueError for options that describe the columns of a table, if data are arrays."""
    names = [field.name for field in fields(options) if field.name not in ARRAY_OPTIONS]
    given = [name for name in names if getattr(options, name) != getattr(TableOptions(), name)]
    if given:
        raise ValueError(
            f"{format_list(given)} can be set for a table in a file or DataFrame only, but data are arrays. Pass a "
            "DataFrame, or omit them."
        )


def _survey_with_arrays(data: Any, y: Any, sample_domain: Any, options: TableOptions) -> SurveyedTable:
    """Survey a frame whose labels or domains are separate arrays, which become columns of it."""
    frame = as_frame(data, FrameFile.name)
    for parameter, role, values in (("y", "label", y), ("sample_domain", "domain", sample_domain)):
        if values is None:
            continue
        if getattr(options, role) is not None:
            raise ValueError(f"Pass {parameter} or {role}, not both; got {role}={getattr(options, role)!r}.")
        column = column_or_1d(values) if role == "label" else check_domains(values, frame.height)
        if len(column) != frame.height:
            raise ValueError(f"data has {frame.height:,} rows, but {parameter} has {len(column):,} {role}s.")
        name = str(getattr(values, "name", None) or role)
        while name in frame.columns:
            name += "_"
        frame = frame.with_columns(convert_column(name, column))
        changed: dict[str, Any] = {role: name}
        options = replace(options, **changed)
    return survey_table(frame, options)


def table_from_arrays(X: Any, y: Any, sample_domain: Any, caller: str = "The function") -> Table:
    """Make a table of arrays, in which all columns are numeric."""
    if y is None or sample_domain is None:
        raise ValueError(
            f"Samples need labels and domains; got y={'None' if y is None else '...'} and "
            f"sample_domain={'None' if sample_domain is None else '...'}. Pass both, or a table with these columns."
        )
    X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
    check_label_length(y, "y")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    encode_classes(y, caller)
    domain = check_domains(sample_domain, len(y)).astype(str)
    if len(np.unique(domain)) < 2:
        raise ValueError(
            f"{caller} needs samples of at least 2 domains; sample_domain has only {domain.tolist()[0]!r}."
        )
    schema = Schema.from_names(f"feature {j}" for j in range(X.shape[1]))
    check_feature_magnitudes(X, schema)
    return Table(X, y, domain, schema, [], "arrays")
