"""The settings of the page and their allowed values; other values raise an error before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl

from ..model_selection import HEADS, METHODS, Candidate, Method, method_names
from ..utils.validation import format_list

# Exponents of ten at the ends of the sliders, which move in steps of a quarter.
EXPONENT_RANGES = {"gamma": (-3, 2), "ridge": (-6, 4), "output_ridge": (-6, 2)}
WEIGHT_EXPONENTS = (-3, 6)
LABELS = {
    "gamma": "kernel width",
    "ridge": "ridge",
    "conditional_weight": "conditional weight",
    "prior_weight": "prior weight",
    "domain_weight": "domain weight",
    "within_weight": "within weight",
    "between_weight": "between weight",
    "discrepancy_weight": "discrepancy weight",
    "output_ridge": "output ridge",
}
SHARE_PARAMETERS = ("between_weight", "discrepancy_weight")  # their values are between 0 and 1
DEFAULT_METHOD = "CIDG"
CENTERINGS = ("source", "target")
VIEW_KEYS = ("data", "color")  # parts of the address that only the script of the page uses


def slider_values(name: str, default: float | str) -> list[float | str]:
    """Return the values of a parameter in ascending order: numbers, or multiples of a scale of the data."""
    if name in SHARE_PARAMETERS:
        return [round(0.05 * k, 2) for k in range(21)]
    low, high = EXPONENT_RANGES.get(name, WEIGHT_EXPONENTS)
    numbers = [float(f"{10 ** (k / 4):.3g}") for k in range(4 * low, 4 * high + 1)]
    zero: list[float | str] = [0.0] if name.endswith("weight") else []
    if not isinstance(default, str):
        return [*zero, *numbers]
    unit = "median" if name == "gamma" else "scale"
    return [*zero, *(unit if number == 1 else f"{number:g}*{unit}" for number in numbers)]


def make_sliders(method: Method) -> list[dict[str, Any]]:
    """Make the sliders of a projection, the kernel width, the ridge and the weights, as plain values for the page."""
    params = method.transformer.get_params(deep=False)
    sliders = []
    for name, label in LABELS.items():
        if name in params:
            values = slider_values(name, params[name])
            texts = [str(value) for value in values]
            sliders.append({"name": name, "label": label, "values": texts, "default": values.index(params[name])})
    return sliders


@dataclass(frozen=True)
class Setting:
    """The held-out domain, and the projection and classifier that are fitted to the other domains."""

    held_out: str
    method: str = DEFAULT_METHOD
    head: str = "1-NN"
    centering: str = "source"
    params: Mapping[str, float | str] = field(default_factory=dict)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], domains: Sequence[str]) -> Self:
        """Make a setting from strings by name; an unknown name or value raises ValueError with the allowed ones."""

        def select(name: str, allowed: Sequence[str], default: str) -> str:
            text = values.get(name, default)
            if not isinstance(text, str) or text not in allowed:
                raise ValueError(f"{name} must be one of {format_list(list(allowed))}; got {str(text)[:80]!r}.")
            return text

        known = {"held_out", "method", "head", "centering", *LABELS, *VIEW_KEYS}
        unknown = [name for name in values if name not in known]
        if unknown:
            raise ValueError(f"Unknown setting {str(unknown[0])[:80]!r}. Settings are {format_list(sorted(known))}.")
        method = METHODS[select("method", method_names(is_projection=True), DEFAULT_METHOD)]
        defaults = method.transformer.get_params(deep=False)
        params = {}
        for name in LABELS:
            if name in defaults:
                value_by_text = {str(value): value for value in slider_values(name, defaults[name])}
                params[name] = value_by_text[select(name, list(value_by_text), str(defaults[name]))]
        return cls(
            held_out=select("held_out", domains, domains[-1]),
            method=method.name,
            head=select("head", list(HEADS), "1-NN"),
            centering=select("centering", CENTERINGS, "source"),
            params=params,
        )

    @classmethod
    def parse(cls, text: str, domains: Sequence[str]) -> Self:
        """Make a setting from the part of the page's address after the #."""
        return cls.from_values(dict(parse_qsl(text.removeprefix("#"), keep_blank_values=True)), domains)

    def candidate(self) -> Candidate:
        """Return the unfitted projection and classifier."""
        arguments = {**self.params, "centering": self.centering}
        projection = type(METHODS[self.method].transformer)(**arguments)
        return Candidate(self.method, arguments, projection, HEADS[self.head], self.head, "decomposition", plain=False)


def list_controls() -> dict[str, Any]:
    """Return the choices and sliders of the page as plain values."""
    methods = [
        {"name": name, "about": METHODS[name].description, "sliders": make_sliders(METHODS[name])}
        for name in method_names(is_projection=True)
    ]
    return {"methods": methods, "default_method": DEFAULT_METHOD, "heads": list(HEADS), "centerings": list(CENTERINGS)}
