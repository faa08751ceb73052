"""The model card: a description of a fitted model as a dictionary for JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..model_selection import Forecast, describe_expected_performance
from ..shift import MAGNITUDES
from ..tables import Schema, SurveyedTable, Table
from ..utils.optional_imports import environment_info
from ._new_data_notes import QUANTILES, summarize_columns
from ._table_fit import TableFit

LEADERBOARD_KEYS = ("model", "kind", "mean", "standard_error", "weight", "reason", "params", "is_selected")


def model_card(
    table: Table,
    fit: TableFit,
    *,
    method: str = "auto",
    scale: str = "standardize",
    random_state: int = 0,
    source: Any = None,
    command: str = "",
) -> dict[str, Any]:
    """Describe a model: its training data, the model selection, the scores and the columns that it needs.

    Parameters
    ----------
    table : Table
        The training data, or a sample of them.
    fit : TableFit
        Result of `unseen.models.fit_table`.
    method, scale, random_state
        Arguments of the fit.
    source : SurveyedTable, default=None
        All rows, if the table is a sample.
    command : str, default=""
        Command that repeats the fit.

    Returns
    -------
    card : dict
        Argument of `unseen.models.save_model`.

    Examples
    --------
    >>> from unseen.datasets import load_digits_table
    >>> from unseen.models import fit_table, model_card
    >>> card = model_card(load_digits_table(), fit_table(load_digits_table(), "1-nn"), method="1-nn")
    >>> card["data"]["rows"], card["kind"]
    (1797, 'plain')
    """
    if isinstance(source, SurveyedTable):
        n_rows = source.rows
        domain_rows = source.count_domain_rows()
        class_rows = source.count_class_rows()
    else:
        n_rows = len(table.X)
        domain_rows = Counter(np.sort(table.domain).tolist())
        class_rows = Counter(np.sort(table.y).tolist())
    novelty = fit.model.novelty
    missing_shares = np.isnan(table.X).mean(axis=0).round(4).tolist()
    missing = {name: share for name, share in zip(table.schema.feature_names, missing_shares, strict=True) if share}
    metric = "accuracy" if fit.forecast is None else fit.forecast.metric
    measure = f"{metric} on a domain by a model fitted on the other domains"
    if fit.stream:
        measure += f"; that model was fitted to {fit.stream['choice_rows']:,} rows"
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "data": {
            "name": table.name,
            "rows": n_rows,
            "features": table.X.shape[1],
            "domains": domain_rows,
            "missing": missing,
            "classes": [{"class": value, "rows": count} for value, count in class_rows.items()],
            "notices": list(table.notices),
            "columns": table.describe_columns(),
        },
        "schema": table.schema.to_dict(),
        "column_summary": summarize_columns(table),
        "method": method,
        "model": fit.name,
        "kind": fit.kind,
        "settings": fit.settings,
        "scale": scale,
        "seed": random_state,
        "balance": fit.balance,
        "ensemble": fit.ensemble,
        "threshold": fit.threshold,
        "expected_performance": {} if fit.forecast is None else forecast_to_dict(fit.forecast),
        "scores": {
            "measure": measure,
            "metric": metric,
            "mean": fit.mean,
            "by_domain": fit.scores,
            "rows": fit.scored_rows,
            "baseline": fit.baseline,
        },
        "leaderboard": [
            {key: getattr(row, key) for key in LEADERBOARD_KEYS} for row in fit.leaderboard if np.isfinite(row.mean)
        ],
        "stream": fit.stream,
        "novelty": {
            "reference": dict(zip(novelty.domains_.tolist(), novelty.reference_.tolist(), strict=True)),
            "resolution": novelty.resolution_,
        },
        "machine": environment_info(),
    }


def forecast_to_dict(forecast: Forecast) -> dict[str, Any]:
    """Convert a forecast to values that JSON can represent, with None for infinite numbers, and add a text."""
    values = {name: _without_infinity(value) for name, value in asdict(forecast).items()}
    return {**values, "text": describe_expected_performance(forecast)}


def forecast_from_dict(data: Mapping[str, Any]) -> Forecast:
    """Make a forecast from the result of `forecast_to_dict`."""
    low, high = data["bounds"]
    return Forecast(
        mean=float(data["mean"]),
        lower=-np.inf if data["lower"] is None else float(data["lower"]),
        upper=np.inf if data["upper"] is None else float(data["upper"]),
        level=float(data["level"]),
        metric=str(data["metric"]),
        scores=tuple(map(float, data["scores"])),
        bounds=(-np.inf if low is None else float(low), np.inf if high is None else float(high)),
        is_percent=bool(data["is_percent"]),
    )


def check_card(card: Any) -> None:
    """Raise ValueError, which names the field, unless a card of any origin has the structure that `model_card` writes.

    Fields may be absent, and others may be added: an estimator can be saved with a card of any content. Those that are
    present have their types, so that a card can be printed, rendered and used without further checks.
    """
    _check_value(card, CARD_FIELDS, "")
    scores = card.get("scores")
    if scores is not None:
        for name in ("rows", "baseline"):
            if scores.get(name) and scores[name].keys() != scores["by_domain"].keys():
                raise ValueError(f"its card has other domains in scores/{name} than in scores/by_domain")
    forecast = card.get("expected_performance")
    if forecast and len(forecast["bounds"]) != 2:
        raise ValueError("its card has expected_performance/bounds that are not two numbers")
    ensemble = card.get("ensemble")
    if ensemble and sum(member["weight"] for member in ensemble["members"]) > 1 + WEIGHT_TOLERANCE:
        raise ValueError("its card has ensemble/members whose weights sum to more than 1")
    for name, column in (card.get("column_summary") or {}).items():
        width = len(column["levels"]) if column["kind"] == "categorical" else len(QUANTILES)
        for domain in column["domains"].values():
            if len(domain["profile"]) != width or len(domain["magnitudes"] or MAGNITUDES) != len(MAGNITUDES):
                raise ValueError(f"its card has lists of other lengths than expected in column_summary/{name}")
    if "schema" in card:
        try:
            Schema.from_dict(card["schema"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = " ".join(getattr(error, "problems", []))
            text = f"its card does not describe the columns that the model needs. {reason}"
            raise ValueError(text.strip().removesuffix(".")) from error


@dataclass(frozen=True)
class _Kind:
    """Values of a field that is neither a list nor a dictionary."""

    name: str
    is_valid: Callable[[Any], bool]


@dataclass(frozen=True)
class _Or:
    """A field whose value is empty, or of a kind."""

    kind: Any


def _check_value(value: Any, kind: Any, path: str) -> None:
    """Compare a value with the kind that is expected, and the values inside of it."""
    if isinstance(kind, _Or):
        kind = kind.kind
        if value is None or (value == {} and isinstance(kind, dict)):
            return
    if isinstance(kind, _Kind):
        is_valid = kind.is_valid(value)
        name = kind.name
    else:
        is_valid = type(value) is type(kind)
        name = "a list" if isinstance(kind, list) else "a dictionary"
    if not is_valid:
        text = repr(value) if len(repr(value)) <= MAX_SHOWN_VALUE else type(value).__name__
        raise ValueError(f"its card has {path or 'the content'} = {text}; {name} is expected")
    if isinstance(kind, list):
        for i, entry in enumerate(value):
            _check_value(entry, kind[0], f"{path}/{i}")
    elif isinstance(kind, dict) and ANY_NAME in kind:
        for name, entry in value.items():
            _check_value(entry, kind[ANY_NAME], f"{path}/{name}")
    elif isinstance(kind, dict):
        for name, entry_kind in kind.items():
            field = name.removesuffix("?")
            field_path = f"{path}/{field}" if path else field
            if field in value:
                _check_value(value[field], entry_kind, field_path)
            elif field == name:
                raise ValueError(f"its card lacks {field_path}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < MAX_NUMBER


MAX_SHOWN_VALUE = 60  # characters in an error message
MAX_NUMBER = 1e18
MAX_VALUE = 1e150
WEIGHT_TOLERANCE = 1e-6  # of their sum, for rounding errors
VERSION = re.compile(r"[0-9][0-9A-Za-z.+]{0,40}")  # which enters a command that users are told to run
ANY_NAME = "*"  # key of a dictionary whose entries all have the same kind
# Of data, which may be larger than all that is counted or measured here, but not so large that squares are infinite.
VALUE = _Kind("a number", lambda value: type(value) in (int, float) and abs(value) <= MAX_VALUE)
TEXT = _Kind("text", lambda value: type(value) is str)
COUNT = _Kind("a number of things", lambda value: type(value) is int and 0 <= value < MAX_NUMBER)
NUMBER = _Kind("a number", _is_number)
SHARE = _Kind("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
FLAG = _Kind("true or false", lambda value: type(value) is bool)
LABEL = _Kind("text or a number", lambda value: type(value) in (bool, int, float, str))
VERSION_TEXT = _Kind("a version", lambda value: type(value) is str and VERSION.fullmatch(value) is not None)
SETTING = _Kind("any value", lambda value: True)
CALIBRATION = {"ece": NUMBER, "log_loss": NUMBER}
# What a card may contain: a question mark at the end of a name marks fields that may be absent.
CARD_FIELDS: dict[str, Any] = {
    "unseen?": VERSION_TEXT,
    "scikit-learn?": VERSION_TEXT,
    "payload?": {"sha256": TEXT},
    "trusted_types?": [TEXT],
    **dict.fromkeys(("created?", "command?", "method?", "model?", "kind?", "scale?", "balance?"), TEXT),
    "settings?": {ANY_NAME: SETTING},
    "machine?": {ANY_NAME: SETTING},
    "stream?": {ANY_NAME: SETTING},
    "leaderboard?": [{"model": TEXT}],
    "data?": {
        "name": TEXT,
        "rows": COUNT,
        "features": COUNT,
        "domains": {ANY_NAME: COUNT},
        "missing?": {ANY_NAME: SHARE},
        "classes": [{"class": LABEL, "rows": COUNT}],
        "notices": [TEXT],
        "columns?": [{"column": TEXT, "use": TEXT, "levels": _Or(COUNT), "why": _Or(TEXT)}],
    },
    "column_summary?": _Or(
        {
            ANY_NAME: {
                "kind": TEXT,
                "coded": FLAG,
                "levels": [TEXT],
                "domains": {ANY_NAME: {"profile": [VALUE], "magnitudes": _Or([VALUE])}},
            }
        }
    ),
    "ensemble?": _Or(
        {
            "members": [{"model": TEXT, "weight": SHARE, "kind": TEXT}],
            "decisions?": [TEXT],
            "calibration?": _Or({"before": CALIBRATION, "after": CALIBRATION}),
        }
    ),
    "threshold?": _Or({"value": NUMBER, "text": TEXT}),
    "expected_performance?": _Or(
        {
            **dict.fromkeys(("mean", "level"), NUMBER),
            **dict.fromkeys(("lower", "upper"), _Or(NUMBER)),
            "metric": TEXT,
            "scores": [NUMBER],
            "bounds": [_Or(NUMBER)],
            "is_percent": FLAG,
            "text": TEXT,
        }
    ),
    "scores?": {
        "metric?": TEXT,
        "mean": NUMBER,
        "by_domain": {ANY_NAME: NUMBER},
        "rows?": {ANY_NAME: COUNT},
        "baseline?": _Or({ANY_NAME: NUMBER}),
    },
    "novelty?": {"reference": {ANY_NAME: NUMBER}},
    "adaptation?": _Or(
        {
            "level": TEXT,
            "reason": TEXT,
            "labels": COUNT,
            "offsets": _Or({ANY_NAME: NUMBER}),
            "scale": NUMBER,
            "notices": [TEXT],
            "domain": _Or(TEXT),
            "created": TEXT,
            "parent": {"name": TEXT, "created": _Or(TEXT), "sha256": _Or(TEXT)},
        }
    ),
}


def _without_infinity(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_without_infinity(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
