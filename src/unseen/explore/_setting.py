"""The settings of the page and their allowed values; other values raise an error before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ..model_selection import HEADS, METHODS, Candidate, method_names
from ..utils.validation import format_list

# Labels of the sliders, with the exponents of ten at their ends; None stands for shares between 0 and 1.
SLIDERS = {
    "gamma": ("kernel width", (-3, 2)),
    "ridge": ("ridge", (-6, 4)),
    "conditional_weight": ("conditional weight", (-3, 6)),
    "prior_weight": ("prior weight", (-3, 6)),
    "domain_weight": ("domain weight", (-3, 6)),
    "within_weight": ("within weight", (-3, 6)),
    "between_weight": ("between weight", None),
    "discrepancy_weight": ("discrepancy weight", None),
    "output_ridge": ("output ridge", (-6, 2)),
}
DEFAULT_METHOD = "CIDG"
CENTERINGS = ("source", "target")


def slider_values(name: str, default: float | str) -> list[float | str]:
    """Return the values of a parameter in ascending order: numbers, or multiples of a scale of the data."""
    _, exponents = SLIDERS[name]
    if exponents is None:
        return [round(0.05 * k, 2) for k in range(21)]
    low, high = exponents
    numbers = [float(f"{10 ** (k / 4):.3g}") for k in range(4 * low, 4 * high + 1)]
    zero: list[float | str] = [0.0] if name.endswith("weight") else []
    if not isinstance(default, str):
        return [*zero, *numbers]
    unit = "median" if name == "gamma" else "scale"
    return [*zero, *(unit if number == 1 else f"{number:g}*{unit}" for number in numbers)]


def list_sliders(method: str) -> dict[str, tuple[float | str, list[float | str]]]:
    """Return the default and the values of each slider of a projection."""
    params = METHODS[method].transformer.get_params(deep=False)
    return {name: (params[name], slider_values(name, params[name])) for name in SLIDERS if name in params}


@dataclass(frozen=True)
class Setting:
    """The held-out domain, and the projection and classifier that are fitted to the other domains."""

    held_out: str
    method: str
    head: str
    centering: str
    params: Mapping[str, float | str]

    @classmethod
    def from_values(cls, values: Mapping[str, Any], domains: Sequence[str]) -> Self:
        """Make a setting from strings by name; an unknown name or value raises ValueError with the allowed ones."""

        def select(name: str, allowed: Sequence[str], default: str) -> str:
            text = values.get(name, default)
            if not isinstance(text, str) or text not in allowed:
                raise ValueError(f"{name} must be one of {format_list(allowed)}; got {str(text)[:80]!r}.")
            return text

        method = select("method", method_names(is_projection=True), DEFAULT_METHOD)
        sliders = list_sliders(method)
        known = ["held_out", "method", "head", "centering", *sliders]
        unknown = [name for name in values if name not in known]
        if unknown:
            raise ValueError(f"Unknown setting {str(unknown[0])[:80]!r}. Settings are {format_list(known)}.")
        params = {}
        for name, (default, slider) in sliders.items():
            value_by_text = {str(value): value for value in slider}
            params[name] = value_by_text[select(name, list(value_by_text), str(default))]
        return cls(
            held_out=select("held_out", domains, domains[-1]),
            method=method,
            head=select("head", list(HEADS), "1-NN"),
            centering=select("centering", CENTERINGS, "source"),
            params=params,
        )

    def candidate(self) -> Candidate:
        """Return the unfitted projection and classifier."""
        arguments = {**self.params, "centering": self.centering}
        projection = type(METHODS[self.method].transformer)(**arguments)
        return Candidate(self.method, arguments, projection, HEADS[self.head], self.head, "decomposition", plain=False)


def list_controls() -> dict[str, Any]:
    """Return the choices and sliders of the page as plain values."""
    methods = []
    for name in method_names(is_projection=True):
        sliders = [
            {
                "name": slider,
                "label": SLIDERS[slider][0],
                "values": [str(value) for value in values],
                "default": values.index(default),
            }
            for slider, (default, values) in list_sliders(name).items()
        ]
        methods.append({"name": name, "about": METHODS[name].description, "sliders": sliders})
    return {"methods": methods, "default_method": DEFAULT_METHOD, "heads": list(HEADS), "centerings": list(CENTERINGS)}
