"""The schema of a table, which encodes columns as numbers, and the preprocessor of the encoded columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..exceptions import ParameterError
from ..linalg import check_squares
from ..utils.validation import format_list
from ._column_roles import ROLES, parse_missing_values
from ._values import (
    ISO_FORMAT,
    MAX_SHOWN,
    as_levels,
    as_text,
    find_repeated_names,
    format_count,
    format_unknown_column,
    list_distinct,
    mark_missing,
    parse_booleans,
    parse_days,
    parse_numbers,
    raise_table_error,
)

Kind = Literal["numeric", "categorical", "date"]
NEW_LEVEL_CODE = -1.0  # of a level that the training data do not have


@dataclass(frozen=True)
class Column:
    """A feature: its name, and whether its values are numbers, levels or dates.

    Parameters
    ----------
    name : str
        Name of the column.
    kind : {"numeric", "categorical", "date"}
        Type of the values; a date is encoded as the number of days since 1970.
    levels : tuple of str, default=()
        Levels of a categorical column, sorted.
    date_format : {"yyyy-mm-dd", "dd.mm.yyyy", "mm/dd/yyyy", "dd/mm/yyyy"}, default="yyyy-mm-dd"
        Format of dates in text.
    missing : bool, default=False
        Whether values were missing in the training data; if so, the column may be absent from a new table.
    missing_values : tuple of str, default=()
        Values that stand for missing values, such as "0" or "-9", in addition to empty cells and marks such as NA.

    Examples
    --------
    >>> from unseen.tables import Column
    >>> Column("sex", "categorical", levels=("f", "m")).levels
    ('f', 'm')
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    date_format: str = ISO_FORMAT
    missing: bool = False
    missing_values: tuple[str, ...] = ()


@dataclass(frozen=True)
class NewValues:
    """Values that the training data do not have: the number of rows, and the first examples. Batches can be added."""

    rows: int
    examples: tuple[str, ...]

    @classmethod
    def from_series(cls, text: pl.Series) -> NewValues:
        """Summarize a column in which all values are new."""
        return cls(len(text), tuple(list_distinct(text)[:MAX_SHOWN]))

    def __add__(self, other: NewValues) -> NewValues:
        """Summarize the rows of both."""
        examples = tuple(dict.fromkeys(self.examples + other.examples))
        return NewValues(self.rows + other.rows, examples[:MAX_SHOWN])


@dataclass(frozen=True)
class Schema:
    """The features of a table, in order, and how each is encoded as a number.

    Parameters
    ----------
    columns : tuple of Column
        The features.
    label, domain, group : str, default=None
        Columns of the labels, the domains, and the groups of rows that belong together; None without such a column,
        for example if each file of a folder is a domain.

    Examples
    --------
    >>> import polars as pl
    >>> from unseen.tables import Column, Schema
    >>> schema = Schema((Column("age", "numeric"), Column("sex", "categorical", ("f", "m"))), label="ill")
    >>> schema.encode(pl.DataFrame({"sex": ["m", "x", None], "age": ["40", "NA", "50.5"]}))
    array([[40. ,  1. ],
           [ nan, -1. ],
           [50.5,  nan]])
    """

    columns: tuple[Column, ...]
    label: str | None = None
    domain: str | None = None
    group: str | None = None

    @classmethod
    def from_names(cls, names: Iterable[object]) -> Schema:
        """Make the schema of an array, in which all columns are numeric."""
        return cls(tuple(Column(str(name), "numeric") for name in names))

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, in the order of the encoded columns."""
        return [column.name for column in self.columns]

    def encode(self, frame: pl.DataFrame) -> NDArray[np.float64]:
        """Encode a frame, which has these columns in any order and may have others, as a matrix.

        Columns that had missing values in training may be absent; their values are missing. Numbers are not changed;
        missing and infinite numbers become NaN. A date becomes its days since 1970. A level becomes its index among
        `levels`, -1 if it is not among them, and NaN if it is missing. Text that can be read as a number counts as a
        number, so that a table may be typed in one file and plain text in another.
        """
        self.check_columns(frame.columns, "The table")
        frame = frame.with_columns(pl.lit(None).alias(name) for name in self.find_absent(frame.columns))
        marks = {column.name: column.missing_values for column in self.columns if column.missing_values}
        frame = mark_missing(frame, marks)
        numeric = [position for position, column in enumerate(self.columns) if column.kind == "numeric"]
        numbers = frame[[self.columns[position].name for position in numeric]]
        values, not_numbers = parse_numbers(numbers)
        encoded = np.full((frame.height, len(self.columns)), np.nan)
        if numeric:
            encoded[:, numeric] = np.where(np.isinf(values), np.nan, values)
        invalid = {numbers.columns[position]: ("number", rows) for position, rows in not_numbers.items()}
        for position, column in enumerate(self.columns):
            if column.kind == "categorical":
                encoded[:, position] = encode_levels(frame[column.name], column.levels)
            elif column.kind == "date":
                # ISO dates are never ambiguous, and typed dates become ISO text.
                iso_days = parse_days(frame[column.name])
                days = parse_days(frame[column.name], column.date_format).fill_null(iso_days).to_numpy()
                encoded[:, position] = days
                is_invalid = np.isnan(days) & as_text(frame[column.name]).is_not_null().to_numpy()
                if is_invalid.any():
                    invalid[column.name] = ("date", is_invalid)
        problems = []
        for name, (kind, rows) in invalid.items():
            first = int(rows.argmax())
            example = as_text(frame[name][first : first + 1]).item()
            problems.append(
                f"column {name!r} must hold {kind}s, but {format_count(int(rows.sum()), 'value')} cannot be "
                f"read as one, such as {example!r}."
            )
        raise_table_error(problems)
        return encoded

    def find_new_levels(self, frame: pl.DataFrame, encoded: NDArray[np.float64]) -> dict[str, NewValues]:
        """Find the levels of a frame and its encoded matrix that the training data do not have, by column."""
        new_levels = {}
        for position, column in enumerate(self.columns):
            if column.kind != "categorical":
                continue
            is_new = encoded[:, position] == NEW_LEVEL_CODE
            if is_new.any():
                new_levels[column.name] = NewValues.from_series(as_text(frame.filter(is_new)[column.name]))
        return new_levels

    def with_missing_values(self, missing: Any) -> Schema:
        """Return a schema with further values that stand for missing values, such as ``{"age": -9}``."""
        marks = parse_missing_values(missing)
        known = self.feature_names
        raise_table_error([format_unknown_column(name, known) for name in marks if name not in known])
        columns = [
            replace(column, missing_values=tuple(dict.fromkeys([*column.missing_values, *marks.get(column.name, ())])))
            for column in self.columns
        ]
        return replace(self, columns=tuple(columns))

    def find_absent(self, names: Iterable[str]) -> list[str]:
        """Find the features that are not among the columns of a table."""
        present = set(names)
        return [name for name in self.feature_names if name not in present]

    def check_columns(self, names: Iterable[str], source: str) -> list[str]:
        """Check the columns of `source`, and return those that are not used.

        Features that had missing values in training may be absent, but not all features.
        """
        names = list(names)
        features = set(self.feature_names)
        absent = self.find_absent(names)
        others = [name for name in names if name not in features]
        complete = [column.name for column in self.columns if not column.missing and column.name in absent]
        problems = []
        if complete or len(absent) == len(self.columns):
            problems += [format_unknown_column(name, names, candidates=others) for name in absent]
        if complete:
            problems.append(
                f"no value of {format_list(complete)} was missing in training, so the column is required; an empty "
                "column of that name is accepted, and its values are treated as missing."
            )
        raise_table_error(problems, source)
        return [name for name in others if name not in (self.label, self.domain, self.group)]

    def to_dict(self) -> dict[str, Any]:
        """Convert the schema to lists, dicts and strings, for JSON."""
        columns = [
            {**asdict(column), "levels": list(column.levels), "missing_values": list(column.missing_values)}
            for column in self.columns
        ]
        return {"columns": columns, **{role: getattr(self, role) for role in ROLES}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Make a schema from the result of `to_dict`; raise TableError if names or levels are repeated."""
        columns = tuple(
            Column(**{**entry, "levels": tuple(entry["levels"]), "missing_values": tuple(entry["missing_values"])})
            for entry in data["columns"]
        )
        problems = find_repeated_names(column.name for column in columns)
        problems += [
            f"column {column.name!r} has equal levels."
            for column in columns
            if len(set(column.levels)) < len(column.levels)
        ]
        raise_table_error(problems, "The description of the columns")
        return cls(**{**data, "columns": columns})


USES = {"numeric": "number", "categorical": "category", "date": "date, as days since 1970"}


def describe_columns(schema: Schema, left_out: Mapping[str, str]) -> list[dict[str, Any]]:
    """Describe the use of every column for JSON: as label, domain, group or feature, or why it is left out."""
    names = {role: getattr(schema, role) for role in ROLES}
    uses: list[tuple[Any, ...]] = [(name, role, None, None) for role, name in names.items() if name is not None]
    uses += [(column.name, USES[column.kind], len(column.levels) or None, None) for column in schema.columns]
    uses += [(name, "left out", None, reason) for name, reason in left_out.items()]
    return [dict(zip(("column", "use", "levels", "why"), use, strict=True)) for use in uses]


def encode_levels(series: pl.Series, levels: tuple[str, ...]) -> NDArray[np.float64]:
    """Return the index of each value among the levels: -1 if it is not among them, NaN if it is missing."""
    text = as_text(series)
    codes = text.cast(pl.Enum(levels), strict=False).to_physical().cast(pl.Float64)
    if codes.null_count() > text.null_count():  # A code may be written with a decimal point in one file only.
        codes = codes.fill_null(as_levels(text).cast(pl.Enum(levels), strict=False).to_physical().cast(pl.Float64))
    return np.where(text.is_null().to_numpy(), np.nan, codes.fill_null(NEW_LEVEL_CODE).to_numpy())


def encode_class_labels(labels: pl.Series, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Index of each label among the classes, -1 if it is not a class, and NaN if it is missing.

    A table may hold ' 7' or 7.0 for the class 7, and true for True.
    """
    text = as_text(labels)
    if classes.dtype.kind == "b":
        text = parse_booleans(text).cast(pl.String).str.to_titlecase().fill_null(text)
    elif classes.dtype.kind in "iu":
        text = as_levels(text)
    return encode_levels(text, tuple(map(str, classes.tolist())))


def check_feature_magnitudes(X: NDArray[np.float64], schema: Schema) -> None:
    """Raise for a column whose numbers are too large to be squared, or so small that their squares underflow."""
    # fmax and fmin ignore NaN, which stands for missing values.
    largest = np.maximum(np.fmax.reduce(X, axis=0, initial=0.0), -np.fmin.reduce(X, axis=0, initial=0.0))
    for column, size in zip(schema.columns, largest.tolist(), strict=True):
        if column.kind != "categorical":
            check_squares(size, f"Column {column.name!r}")


Scale = Literal["standardize", "l2", "none"]
MIN_LEVEL_FREQUENCY = 0.01  # rarer levels of the training samples share one column


def make_preprocessor(schema: Schema, scale: Scale = "standardize") -> Any:
    """Make an unfitted transformer for matrices encoded by :meth:`unseen.tables.Schema.encode`.

    Missing numbers are imputed by the median of the training data. Levels are one-hot encoded: rare and new levels
    share one column, and missing values are a separate level. To avoid data leakage, fit it on the source domains only,
    for example as the first step of a pipeline.

    Parameters
    ----------
    schema : Schema
        The schema of the encoded columns.
    scale : {"standardize", "l2", "none"}, default="standardize"
        Scale numbers to mean 0 and standard deviation 1; or rows to unit length, for tables of numbers only, such as
        counts or features of a network; or not at all.

    Returns
    -------
    transformer : scikit-learn estimator
        The transformer. Its output holds numbers first, then levels, in the order of the schema.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.tables import Column, Schema, make_preprocessor
    >>> schema = Schema((Column("age", "numeric"), Column("sex", "categorical", ("f", "m"))))
    >>> make_preprocessor(schema).fit_transform(np.array([[20, 0], [40, 1], [np.nan, 1]]))
    array([[-1.22..., 1. , 0. ],
           [ 1.22..., 0. , 1. ],
           [ 0. ..., 0. , 1. ]])
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler

    if scale not in get_args(Scale):
        raise ParameterError("scale", f"scale must be one of {', '.join(get_args(Scale))}; got {scale!r}.")
    numeric = [i for i, column in enumerate(schema.columns) if column.kind != "categorical"]
    categorical = [i for i, column in enumerate(schema.columns) if column.kind == "categorical"]
    if scale == "l2" and categorical:
        names = ", ".join(repr(schema.columns[i].name) for i in categorical)
        raise ParameterError(
            "scale",
            f"scale='l2' requires a table of numbers, but {names} hold levels. Leave out these columns, or set the "
            "parameter scale to standardize.",
        )
    numeric_steps = [SimpleImputer(strategy="median", keep_empty_features=True)]
    if scale != "none":
        numeric_steps.append(StandardScaler() if scale == "standardize" else Normalizer())
    numeric_pipeline = make_pipeline(*numeric_steps)
    if not categorical:
        return numeric_pipeline
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=MIN_LEVEL_FREQUENCY, sparse_output=False
    )
    transformers = [("numbers", numeric_pipeline, numeric)] if numeric else []
    return ColumnTransformer([*transformers, ("levels", encoder, categorical)], sparse_threshold=0)
