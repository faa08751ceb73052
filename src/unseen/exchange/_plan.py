"""The plan of a study: everything that sites must agree on before the first of them looks at its rows."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler

from ..estimators import CIDG, DICA, KFDA, MDA, SCA
from ..kernels import parse_multiple
from ..linalg import Array, Ints
from ..tables import (
    Column,
    FrameFile,
    Schema,
    as_frame,
    choose_batch_size,
    encode_class_labels,
    format_count,
    format_unknown_column,
    is_path,
    iter_file_batches,
    list_files,
    load_table,
    make_preprocessor,
    open_file,
    translate_read_errors,
)
from ..utils.validation import Labels, format_list
from ._files import ExchangeError, Record, read_text

PROJECTIONS = {"CIDG": CIDG, "DICA": DICA, "KFDA": KFDA, "MDA": MDA, "SCA": SCA}
PARAMETERS = {  # that a setting may have; kernels and centers of new sites would need rows
    "CIDG": ("conditional_weight", "prior_weight", "norm_weight", "ridge", "n_components"),
    "DICA": ("output_ridge", "ridge", "n_components"),
    "KFDA": ("ridge", "n_components"),
    "MDA": ("discrepancy_weight", "conditional_weight", "within_weight", "ridge", "n_components"),
    "SCA": ("between_weight", "domain_weight", "ridge", "n_components"),
}
MULTIPLES = ("conditional_weight", "prior_weight", "domain_weight", "ridge")  # which may be multiples of "scale"
SMALLEST_CELL = 10
MAX_CELL = 10**6
MAX_CLASSES = 30
MAX_FEATURES = 500  # of the map: a file holds the square of their number
MAX_LEVELS = 100
MAX_SETTINGS = 100
MAX_WEIGHT = 1e15
DRAFT_SETTINGS = """\
[[settings]]
method = "KFDA"
ridge = ["scale", "100*scale"]

[[settings]]
method = "CIDG"
conditional_weight = ["0.1*scale", "scale", "10*scale"]
prior_weight = "scale"
ridge = ["scale", "100*scale"]
"""


@dataclass(frozen=True)
class Setting:
    """A method with its parameters."""

    method: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The method and its parameters as text."""
        return ", ".join([self.method, *(f"{name}={value}" for name, value in self.parameters)])


@dataclass(frozen=True)
class StudyPlan:
    """What all sites of a study agree on: see :func:`~unseen.exchange.load_plan`.

    Attributes
    ----------
    name : str
        Name of the study.
    label : str
        Column of the classes.
    classes : ndarray of shape (n_classes,)
        Classes in sorted order.
    positive : object
        Class that is the event; None for more than two classes.
    threshold : float
        Risk from which a row counts as an event.
    smallest_cell : int
        Smallest number of rows that a count in a file may stand for, other than none.
    centers, scales : dict
        Fixed center and scale of each column of numbers.
    units : dict
        Units of these columns.
    schema : Schema
        The columns.
    settings : tuple of Setting
        Methods and parameters to fit.
    feature_map : {"linear", "random"}
        Features of the projections: the prepared columns, or random features of the rbf kernel.
    n_features, gamma, seed
        Number of features, coefficient of the kernel, and seed.
    content : dict
        The plan as it was written.

    Examples
    --------
    >>> from unseen.exchange import load_plan
    >>> plan = load_plan(
    ...     {
    ...         "name": "fever",
    ...         "label": "ill",
    ...         "classes": [0, 1],
    ...         "columns": {"crp": {"center": 70, "scale": 40, "unit": "mg/l"}},
    ...         "settings": [{"method": "CIDG", "conditional_weight": ["scale", "10*scale"]}],
    ...     }
    ... )
    >>> [setting.name for setting in plan.settings]
    ['CIDG, conditional_weight=scale', 'CIDG, conditional_weight=10*scale']
    """

    name: str
    label: str
    classes: Labels
    positive: Any
    threshold: float
    smallest_cell: int
    centers: Mapping[str, float]
    scales: Mapping[str, float]
    units: Mapping[str, str]
    schema: Schema
    settings: tuple[Setting, ...]
    feature_map: str
    n_features: int
    gamma: float
    seed: int
    content: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @classmethod
    def from_record(cls, record: Record) -> StudyPlan:
        """Check a plan that was read from a file."""
        content = record.content
        defaults: dict[str, Any] = {"positive": None, "threshold": 0.5, "smallest_cell": SMALLEST_CELL, "features": {}}
        record.check_keys({"name", "label", "classes", "columns", "settings", *defaults})
        record = Record({**defaults, **content}, record.source, record.path)
        classes = read_classes(record)
        positive = None
        if len(classes) == 2:
            positive = record.content["positive"]
            positive = classes.tolist()[1] if positive is None else positive
            if positive not in classes.tolist():
                record.fail("positive", f"is not a class. Use one of {format_list(classes.tolist())}", positive)
        columns, centers, scales, units = _read_columns(record.record("columns"))
        label = record.text("label")
        if label in [column.name for column in columns]:
            record.fail("columns", f"has the label {label!r}, which cannot be a feature as well")
        schema = Schema(tuple(columns), label=label)
        width = sum(len(column.levels) + 1 if column.kind == "categorical" else 1 for column in columns)
        if width > MAX_FEATURES:
            record.fail("columns", f"give {width} features; at most {MAX_FEATURES} are allowed")
        map_defaults = {"map": "linear", "n_features": 300, "gamma": 1 / width, "seed": 0}
        record.record("features").check_keys(map_defaults)
        features = Record({**map_defaults, **record.content["features"]}, record.source, "features")
        feature_map = features.text("map")
        if feature_map not in ("linear", "random"):
            features.fail("map", "use linear or random; landmarks are rows, which stay at their site", feature_map)
        n_features = features.count("n_features", 1, MAX_FEATURES)
        return cls(
            name=record.text("name"),
            label=label,
            classes=classes,
            positive=positive,
            threshold=record.number("threshold", 1e-6, 1 - 1e-6),
            smallest_cell=record.count("smallest_cell", 1, MAX_CELL),
            centers=centers,
            scales=scales,
            units=units,
            schema=schema,
            settings=tuple(_read_settings(record)),
            feature_map=feature_map,
            n_features=width if feature_map == "linear" else n_features,
            gamma=features.number("gamma", 1e-9, 1e9),
            seed=features.count("seed", 0, 2**32 - 1),
            content=content,
        )

    @cached_property
    def preprocessor(self) -> Any:
        """The preprocessor of encoded rows, with the centers, scales and levels of the plan instead of learned ones.

        Missing numbers become the center; missing levels have a column of zeros and ones, as any level.
        """
        columns = self.schema.columns
        n_rows = 1 + max((len(column.levels) for column in columns), default=0)
        anchors = np.zeros((max(n_rows, 2), len(columns)))
        for j, column in enumerate(columns):
            if column.kind == "categorical":
                codes = np.append(np.arange(len(column.levels)), np.nan)
                anchors[:, j] = np.resize(codes, len(anchors))
        preprocessor = make_preprocessor(self.schema)
        has_levels = any(column.kind == "categorical" for column in columns)
        if has_levels:
            preprocessor.set_params(levels__min_frequency=1)  # no level of a plan is rare
        preprocessor.fit(anchors)
        if not self.centers:
            return preprocessor
        imputer, scaler = [
            step for _, step in (preprocessor.named_transformers_["numbers"] if has_levels else preprocessor).steps
        ]
        centers, scales = np.array(list(self.centers.values())), np.array(list(self.scales.values()))
        imputer.statistics_ = centers
        scaler.mean_, scaler.scale_, scaler.var_ = centers, scales, scales**2
        return preprocessor

    @cached_property
    def random_features(self) -> RBFSampler | None:
        """The fitted map of random features; None for the linear map."""
        if self.feature_map == "linear":
            return None
        width = self.preprocessor.transform(np.zeros((1, len(self.schema.columns)))).shape[1]
        sampler = RBFSampler(gamma=self.gamma, n_components=self.n_features, random_state=self.seed)
        return sampler.fit(np.zeros((1, width)))

    def make_projection(self, setting: Setting) -> Any:
        """Make the unfitted projection of a setting."""
        sampler = self.random_features
        feature_map: Any = "linear" if sampler is None else FrozenEstimator(sampler)
        return PROJECTIONS[setting.method](feature_map=feature_map, **dict(setting.parameters))

    def features(self, prepared: Array) -> Array:
        """Return the features of prepared rows."""
        sampler = self.random_features
        return prepared if sampler is None else np.asarray(sampler.transform(prepared), dtype=np.float64)

    def read(self, data: Any) -> Iterator[tuple[Array, Ints]]:
        """Read the rows of a site in batches: prepared columns and codes of classes, -1 for missing labels.

        Parameters
        ----------
        data : DataFrame, dict, list of dict, str or path
            A table with the columns of the plan and the labels.
        """
        sources: list[Any]
        if is_path(data):
            sources = [path for _, path in list_files(data)]
        else:
            sources = [FrameFile(as_frame(data, "The table"), "The table")]
        wanted = [*self.schema.feature_names, self.label]
        for source in sources:
            name = str(source) if isinstance(source, Path) else source.name
            header = open_file(source).collect_schema().names()
            self.schema.check_columns(header, source.name)
            if self.label not in header:
                raise ExchangeError(f"{name}: {format_unknown_column(self.label, header)}")
            columns = [column for column in wanted if column in header]
            for frame in iter_file_batches(source, columns, choose_batch_size(len(columns))):
                with translate_read_errors(Path(name)):
                    encoded = self.schema.encode(frame)
                codes = encode_class_labels(frame[self.label], self.classes)
                unknown = frame[self.label].filter(pl.Series(codes == -1))
                if len(unknown):
                    raise ExchangeError(
                        f"{name}: the column {self.label!r} has {format_count(len(unknown), 'label')} that the plan "
                        f"does not have, such as {unknown[0]!r}. Use {format_list(self.classes.tolist())}."
                    )
                if frame.height:
                    prepared = np.asarray(self.preprocessor.transform(encoded), dtype=np.float64)
                    yield prepared, np.where(np.isnan(codes), -1, codes).astype(np.intp)

    def summary(self) -> dict[str, Any]:
        """Describe the plan in values that JSON can represent."""
        columns = []
        for column in self.schema.columns:
            is_number = column.kind == "numeric"
            unit = f" {self.units[column.name]}".rstrip() if is_number else ""
            fixed = (
                f"center {self.centers[column.name]:g}, scale {self.scales[column.name]:g}{unit}" if is_number else ""
            )
            columns.append({"column": column.name, "use": fixed or f"levels {format_list(column.levels, quote=False)}"})
        features = "the columns themselves"
        if self.feature_map == "random":
            features = f"{self.n_features} random features of the rbf kernel (gamma {self.gamma:g}, seed {self.seed})"
        return {
            "name": self.name,
            "label": self.label,
            "classes": self.classes.tolist(),
            "positive": self.positive,
            "threshold": self.threshold,
            "smallest_cell": self.smallest_cell,
            "features": features,
            "columns": columns,
            "settings": [setting.name for setting in self.settings],
            "n_numbers": len(self.classes) * self.n_features + self.n_features * (self.n_features + 1) // 2,
        }


def read_classes(record: Record) -> Labels:
    """Return the classes of a file in sorted order: texts, whole numbers or booleans."""
    values = record.entries("classes")
    kinds = {type(value) for value in values}
    is_valid = 2 <= len(values) <= MAX_CLASSES and len(set(values) if kinds <= {str, int, bool} else ()) == len(values)
    if not is_valid or len(kinds) != 1 or (kinds == {int} and max(map(abs, values)) > 2**53):
        record.fail("classes", f"2 to {MAX_CLASSES} different texts, whole numbers or booleans are expected", values)
    if kinds == {str}:
        record.texts("classes")
    return np.array(sorted(values))


def _read_columns(record: Record) -> tuple[list[Column], dict[str, float], dict[str, float], dict[str, str]]:
    columns: list[Column] = []
    centers: dict[str, float] = {}
    scales: dict[str, float] = {}
    units: dict[str, str] = {}
    for name in record.content:
        column = record.record(name)
        if "levels" in column.content:
            column.check_keys({"levels"})
            levels = tuple(column.texts("levels"))
            if not 1 <= len(levels) <= MAX_LEVELS:
                column.fail("levels", f"1 to {MAX_LEVELS} levels are expected")
            columns.append(Column(name, "categorical", levels))
            continue
        column.check_keys({"center", "scale", "unit"})
        centers[name] = column.number("center", -1e15, 1e15)
        scales[name] = column.number("scale", 1e-12, 1e15)
        units[name] = column.text("unit") if "unit" in column.content else ""
        columns.append(Column(name, "numeric"))
    if not columns:
        record.fail("", "names no column; give center and scale of numbers, or levels")
    return columns, centers, scales, units


def _read_settings(record: Record) -> Iterator[Setting]:
    """Yield the settings of all combinations of listed values."""
    seen: set[Setting] = set()
    for entry in record.records("settings"):
        method = entry.text("method")
        if method not in PROJECTIONS:
            entry.fail("method", f"use one of {', '.join(PROJECTIONS)}", method)
        entry.check_keys({"method", *PARAMETERS[method]})
        names = [name for name in PARAMETERS[method] if name in entry.content]
        grid = []
        for name in names:
            values = entry.content[name] if type(entry.content[name]) is list else [entry.content[name]]
            grid.append([_check_parameter(entry, method, name, value) for value in values])
        for values in product(*grid):
            seen.add(setting := Setting(method, tuple(zip(names, values, strict=True))))
            if len(seen) > MAX_SETTINGS:
                record.fail("settings", f"has more than {MAX_SETTINGS} combinations")
            yield setting
    if not seen:
        record.fail("settings", "names no method")


def _check_parameter(entry: Record, method: str, name: str, value: Any) -> Any:
    try:
        if type(value) is str and name in MULTIPLES:
            parse_multiple(value, "scale", name)
        elif type(value) not in (int, float) or not 0 <= value <= MAX_WEIGHT:
            raise ValueError(f"a number from 0 to {MAX_WEIGHT:g} is expected")
        PROJECTIONS[method](**{name: value})._validate_params()
    except ValueError as error:
        entry.fail(name, str(error).rstrip("."), value)
    return value


def load_plan(path: str | os.PathLike[str] | Mapping[str, Any]) -> StudyPlan:
    """Read and check the plan of a study.

    Parameters
    ----------
    path : str, path or dict
        A TOML file; or its content. ``name``, ``label``, ``classes``, ``columns`` and ``settings`` are required;
        ``positive``, ``threshold``, ``smallest_cell`` and ``features`` are optional: see :ref:`exchange`.

    Returns
    -------
    plan : StudyPlan
        The plan.

    Examples
    --------
    >>> from unseen.exchange import load_plan
    >>> plan = load_plan(
    ...     {
    ...         "name": "fever",
    ...         "label": "ill",
    ...         "classes": ["no", "yes"],
    ...         "columns": {"age": {"center": 50, "scale": 15, "unit": "years"}, "sex": {"levels": ["f", "m"]}},
    ...         "settings": [{"method": "KFDA", "ridge": ["scale", "0.1*scale"]}],
    ...     }
    ... )
    >>> len(plan.settings), plan.smallest_cell
    (2, 10)
    """
    if isinstance(path, Mapping):
        return StudyPlan.from_record(Record(dict(path), "The plan"))
    try:
        content = tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ExchangeError(f"{path}: not TOML ({error}).") from error
    return StudyPlan.from_record(Record(content, str(path)))


def draft_plan(data: Any, *, label: str | None = None, name: str = "study") -> str:
    """Draft the plan of a study from the table of one site, or from a public table.

    Parameters
    ----------
    data : DataFrame, dict, str or path
        A table with the columns of the study.
    label : str, default=None
        Column of the classes; None guesses it from common names.
    name : str, default="study"
        Name of the study.

    Returns
    -------
    plan : str
        A TOML file to edit: units are question marks, and centers and scales are rounded means and standard deviations.

    Examples
    --------
    >>> from unseen.datasets import load_hospitals
    >>> from unseen.exchange import draft_plan
    >>> hospitals, _ = load_hospitals()
    >>> print(draft_plan(hospitals.drop("hospital"), label="diagnosis").splitlines()[2])
    label = "diagnosis"
    """
    frame = as_frame(data, "The table") if not is_path(data) else None
    if frame is None:
        paths = [path for _, path in list_files(data)]
        if len(paths) != 1:
            raise ExchangeError(f"{data}: a plan is drafted from one table, but there are {len(paths)}.")
        frame = open_file(paths[0]).collect()
    half = "half of the rows"  # a table for learning needs two domains, but columns are read in the same way
    frame = frame.with_columns(pl.Series(half, np.where(np.arange(frame.height) % 2, "odd", "even")))
    table = load_table(frame, label=label, domain=half, min_domain_rows=1)
    quote = json.dumps
    lines = []
    for column, values in zip(table.schema.columns, table.X.T, strict=True):
        if column.kind == "categorical":
            rows = np.bincount(values[values >= 0].astype(np.intp), minlength=len(column.levels))
            levels = [level for level, n in zip(column.levels, rows.tolist(), strict=True) if n >= SMALLEST_CELL]
            if levels:  # rare levels may identify people
                lines.append(f"{quote(column.name)} = {{levels = {quote(levels)}}}")
        elif column.kind == "numeric" and np.nanstd(values) > 0:
            center, scale = (float(f"{value:.2g}") for value in (np.nanmean(values), np.nanstd(values)))
            lines.append(f'{quote(column.name)} = {{center = {center!r}, scale = {scale!r}, unit = "?"}}')
    classes = table.samples.classes.tolist()
    head = [
        "# Every site uses the same copy of this file. Edit it before the first site does.",
        f"name = {quote(name)}",
        f"label = {quote(table.schema.label)}",
        f"classes = {quote(classes)}",
        *([f"positive = {quote(classes[1])}", "threshold = 0.5"] if len(classes) == 2 else []),
        f"smallest_cell = {SMALLEST_CELL}  # rows; smaller counts do not leave a site",
        "",
        "[features]",
        'map = "linear"  # or "random", with n_features, gamma and seed',
        "",
        "[columns]",
    ]
    return "\n".join([*head, *lines, "", DRAFT_SETTINGS])
