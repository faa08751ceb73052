"""How a table's columns become numbers, and those features: fixed by the training data, applied to any table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..linalg import check_squares
from ..utils.validation import format_list
from ._errors import MAX_SHOWN, format_count, format_unknown_column, raise_table_error
from ._values import DATE_FORMATS, ISO_FORMAT, as_levels, as_text, import_polars, parse_days, parse_numbers

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["numeric", "categorical", "date"]
ROLES = ("label", "domain", "group")
NEW_LEVEL_CODE = -1.0  # what a level is encoded as that training did not have


@dataclass(frozen=True)
class Column:
    """A feature: its name, and whether its values are numbers, levels or dates.

    Parameters
    ----------
    name : str
        The name of the column.
    kind : {"numeric", "categorical", "date"}
        What it holds; a date becomes the number of days since 1970.
    levels : tuple of str, default=()
        The levels of a categorical column, sorted.
    date_format : {"yyyy-mm-dd", "dd.mm.yyyy", "mm/dd/yyyy", "dd/mm/yyyy"}, default="yyyy-mm-dd"
        How dates are written as text.
    missing : bool, default=False
        Whether values were missing in training; if so, a new table may lack the column.

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


@dataclass(frozen=True)
class NewValues:
    """Values that training did not have: in how many rows, and the first few of them. Those of pieces add up."""

    rows: int
    examples: tuple[str, ...]

    @classmethod
    def from_series(cls, text: pl.Series) -> NewValues:
        """The values of rows that all hold new ones."""
        return cls(len(text), tuple(text.unique(maintain_order=True).head(MAX_SHOWN).to_list()))

    def __add__(self, other: NewValues) -> NewValues:
        """The same for the rows of both."""
        both = tuple(dict.fromkeys(self.examples + other.examples))
        return NewValues(self.rows + other.rows, both[:MAX_SHOWN])


@dataclass(frozen=True)
class Schema:
    """The features of a table, in order, and how each becomes a number.

    Parameters
    ----------
    columns : tuple of Column
        The features.
    label, domain, group : str, default=None
        The columns that held the labels, the domains, and what rows belong together by; None where there were none, as
        for a folder of files.

    Examples
    --------
    >>> import pytest; pl = pytest.importorskip("polars")
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

    @property
    def feature_names(self) -> list[str]:
        """The names of the features, in the order of the encoded columns."""
        return [column.name for column in self.columns]

    def encode(self, frame: pl.DataFrame) -> NDArray[np.float64]:
        """Turn a frame that has these columns, in any order and among others, into a matrix.

        Columns that had missing values in training may be absent, and are missing then. Numbers stay as they are;
        missing and infinite ones become NaN. A date becomes its days since 1970. A level becomes its position among
        `levels`, -1 if it is not there, and NaN if it is missing. Text that reads as a number counts as one, so a table
        may be typed in one place and plain text in another.
        """
        self.match(frame.columns, "The table")
        frame = frame.with_columns(import_polars().lit(None).alias(name) for name in self.absent(frame.columns))
        numeric = [position for position, column in enumerate(self.columns) if column.kind == "numeric"]
        numbers = frame.select(import_polars().col([self.columns[position].name for position in numeric]))
        values, not_numbers = parse_numbers(numbers)
        encoded = np.full((frame.height, len(self.columns)), np.nan)
        if numeric:
            encoded[:, numeric] = np.where(np.isinf(values), np.nan, values)
        wrong = {numbers.columns[position]: ("number", rows) for position, rows in not_numbers.items()}
        for position, column in enumerate(self.columns):
            if column.kind == "categorical":
                encoded[:, position] = encode_levels(frame[column.name], column.levels)
            elif column.kind == "date":
                found = parse_days(frame[column.name], column.date_format)
                if column.date_format != ISO_FORMAT:  # which is never ambiguous, and how typed dates are written
                    found = found.fill_null(parse_days(frame[column.name]))
                encoded[:, position] = found.to_numpy()
                no_dates = (found.is_null() & as_text(frame[column.name]).is_not_null()).to_numpy()
                wrong |= {column.name: ("date", no_dates)} if no_dates.any() else {}
        problems = []
        for name, (kind, rows) in wrong.items():
            example = frame[name].gather([int(rows.argmax())]).cast(import_polars().String).item()
            problems.append(
                f"column {name!r} must hold {kind}s, but {format_count(int(rows.sum()), 'value')} cannot be "
                f"read as one, such as {example!r}."
            )
        raise_table_error(problems)
        return encoded

    def new_levels(self, frame: pl.DataFrame, encoded: NDArray[np.float64]) -> dict[str, NewValues]:
        """The levels in a frame, and in what it is encoded as, that training did not have, by column."""
        new = {
            column.name: encoded[:, position] == NEW_LEVEL_CODE
            for position, column in enumerate(self.columns)
            if column.kind == "categorical"
        }
        return {
            name: NewValues.from_series(as_text(frame[name].filter(rows))) for name, rows in new.items() if rows.any()
        }

    def absent(self, names: Iterable[str]) -> list[str]:
        """The features that are not among the columns of a table."""
        held = set(names)
        return [name for name in self.feature_names if name not in held]

    def match(self, names: Iterable[str], source: str) -> list[str]:
        """Check the columns of `source`, and return those that are not used.

        A feature may be absent if it had missing values in training, but not all of them.
        """
        names = list(names)
        features, absent = set(self.feature_names), self.absent(names)
        others = [name for name in names if name not in features]
        complete = [column.name for column in self.columns if not column.missing and column.name in absent]
        problems = []
        if complete or len(absent) == len(self.columns):
            problems += [format_unknown_column(name, names, candidates=others) for name in absent]
        if complete:
            problems.append(
                f"no value of {format_list(complete)} was missing in training, so the column is required; an empty "
                "column "
                "of that name is accepted, and its values are treated as missing."
            )
        raise_table_error(problems, source)
        return [name for name in others if name not in (self.label, self.domain, self.group)]

    def to_dict(self) -> dict[str, Any]:
        """The schema in lists, dicts and strings, for JSON."""
        columns = [{**asdict(column), "levels": list(column.levels)} for column in self.columns]
        return {"columns": columns, **{role: getattr(self, role) for role in ROLES}}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Schema:
        """The schema that `to_dict` wrote; a TableError if it says what no schema can."""
        columns = [
            Column(
                column["name"],
                column["kind"],
                tuple(column["levels"]),
                column.get("date_format", ISO_FORMAT),
                column.get("missing", False),
            )
            for column in d["columns"]
        ]
        problems = [problem for column in columns if (problem := _find_column_problem(column))]
        unknown = set(d) - {field.name for field in fields(cls)}
        unknown.update(
            key for column in d["columns"] for key in column.keys() - {field.name for field in fields(Column)}
        )
        problems += [f"it has unknown keys: {', '.join(sorted(unknown))}."] if unknown else []
        roles = {"label": d["label"], "domain": d["domain"], "group": d.get("group")}  # older ones know of no groups
        wrong = {key: value for key, value in roles.items() if not isinstance(value, str | None)}
        problems += [f"{key} must be a name or null, but it is {value!r}." for key, value in wrong.items()]
        twice = [name for name, count in Counter(column.name for column in columns).items() if count > 1]
        problems += [f"column {name!r} is there more than once." for name in twice]
        raise_table_error(problems, "The description of the columns")
        return cls(tuple(columns), **roles)


USES = {"numeric": "number", "categorical": "category", "date": "date, as days since 1970"}


def describe_columns(schema: Schema, left_out: Mapping[str, str]) -> list[dict[str, Any]]:
    """How every column was used, in plain values: for labels, domains or groups, as a feature, or not, and why."""
    used: list[tuple[Any, ...]] = [
        (name, role, None, None) for role in ROLES if (name := getattr(schema, role)) is not None
    ]
    used += [(column.name, USES[column.kind], len(column.levels) or None, None) for column in schema.columns]
    used += [(name, "left out", None, why) for name, why in left_out.items()]
    return [dict(zip(("column", "use", "levels", "why"), each, strict=True)) for each in used]


def _find_column_problem(column: Column) -> str | None:
    """What is wrong with a column that was read from a file."""
    if not isinstance(column.name, str):
        return f"the name of a column must be text, but it is {column.name!r}."
    if column.kind not in get_args(Kind):
        return f"column {column.name!r} must be {' or '.join(get_args(Kind))}, but it is {column.kind!r}."
    if column.date_format not in DATE_FORMATS:
        return f"the dates of column {column.name!r} must be {' or '.join(DATE_FORMATS)}, not {column.date_format!r}."
    if not isinstance(column.missing, bool):
        return f"column {column.name!r} must be said to have had missing values or not; got {column.missing!r}."
    if not all(isinstance(level, str) for level in column.levels):
        return f"the levels of column {column.name!r} must be text."
    if len(set(column.levels)) < len(column.levels):
        return f"column {column.name!r} has levels that are there more than once."
    return None


def encode_levels(series: pl.Series, levels: tuple[str, ...]) -> NDArray[np.float64]:
    """Where among the levels each value is: -1 if it is not there, NaN if it is missing."""
    pl, text = import_polars(), as_text(series)
    found = text.cast(pl.Enum(levels), strict=False).to_physical().cast(pl.Float64)
    if found.null_count() > text.null_count():  # a code may be written with a decimal point here, and without one there
        found = found.fill_null(as_levels(text).cast(pl.Enum(levels), strict=False).to_physical().cast(pl.Float64))
    return np.where(text.is_null().to_numpy(), np.nan, found.fill_null(NEW_LEVEL_CODE).to_numpy())


def check_feature_magnitudes(X: NDArray[np.float64], schema: Schema) -> None:
    """Raise for a column of numbers too large to be squared, or so small that their squares are lost."""
    # Missing values are NaN, which these two pass over.
    largest = np.maximum(np.fmax.reduce(X, axis=0, initial=0.0), -np.fmin.reduce(X, axis=0, initial=0.0))
    for column, size in zip(schema.columns, largest.tolist(), strict=True):
        if column.kind != "categorical":
            check_squares(size, f"Column {column.name!r}")


Scale = Literal["standardize", "l2", "none"]
MIN_LEVEL_FREQUENCY = 0.01  # levels rarer than this, among the training samples, share one column


def make_preprocessor(schema: Schema, scale: Scale = "standardize") -> Any:
    """An unfitted transformer for what :meth:`unseen.tables.Schema.encode` gives.

    Missing numbers become the median of the training data; levels become columns of 0 and 1, in which rare and new
    ones are taken together and a missing value is a level of its own. All it knows it learns in `fit`: fit it on the
    source domains alone, best as the first step of a pipeline.

    Parameters
    ----------
    schema : Schema
        The columns.
    scale : {"standardize", "l2", "none"}, default="standardize"
        Numbers get mean 0 and standard deviation 1; or each row gets length 1, for tables of numbers only, such as
        counts or network features; or nothing.

    Returns
    -------
    transformer : scikit-learn estimator
        With `fit` and `transform`. Numbers come first, then levels, in the order of the schema.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.tables import Column, Schema, preprocessor
    >>> schema = Schema((Column("age", "numeric"), Column("sex", "categorical", ("f", "m"))))
    >>> preprocessor(schema).fit_transform(np.array([[20, 0], [40, 1], [np.nan, 1]]))
    array([[-1.22..., 1. , 0. ],
           [ 1.22..., 0. , 1. ],
           [ 0. ..., 0. , 1. ]])
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler

    if scale not in get_args(Scale):
        raise ValueError(f"scale must be one of {', '.join(get_args(Scale))}; got {scale!r}.")
    numeric = [i for i, column in enumerate(schema.columns) if column.kind != "categorical"]
    categorical = [i for i, column in enumerate(schema.columns) if column.kind == "categorical"]
    if scale == "l2" and categorical:
        names = ", ".join(repr(schema.columns[i].name) for i in categorical)
        raise ValueError(
            f"scale='l2' gives rows of numbers length 1, but {names} hold levels. Drop them, or use 'standardize'."
        )
    numbers = [SimpleImputer(strategy="median", keep_empty_features=True)]
    if scale != "none":
        numbers.append(StandardScaler() if scale == "standardize" else Normalizer())
    if not categorical:
        return make_pipeline(*numbers)
    levels = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=MIN_LEVEL_FREQUENCY, sparse_output=False)
    parts = [("numbers", make_pipeline(*numbers), numeric)] if numeric else []
    return ColumnTransformer([*parts, ("levels", levels, categorical)], sparse_threshold=0)
