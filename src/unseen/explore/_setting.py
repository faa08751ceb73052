"""The settings of the page and their allowed values; other values raise an error before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode

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
MAX_COMPONENTS = 10
# Parts of the address that only the script of the page uses.
VIEW_KEYS = ("tab", "data", "color", "stage", "dims", "ensemble", "skew")


@dataclass(frozen=True)
class Slider:
    """A parameter, its values in ascending order, and the index of its default."""

    name: str
    values: tuple[float | str, ...]
    default: int

    @property
    def facts(self) -> dict[str, Any]:
        """The slider as plain values for the page, with the values as text."""
        texts = [str(value) for value in self.values]
        return {"name": self.name, "label": LABELS[self.name], "values": texts, "default": self.default}

    @classmethod
    def for_parameter(cls, name: str, default: float | str) -> Slider:
        """Make a slider from the default of a parameter: a number, or a multiple of a scale of the data."""
        if name in SHARE_PARAMETERS:
            values: list[float | str] = [round(0.05 * k, 2) for k in range(21)]
            return cls(name, tuple(values), values.index(default))
        low, high = EXPONENT_RANGES.get(name, WEIGHT_EXPONENTS)
        numbers = [float(f"{10 ** (k / 4):.3g}") for k in range(4 * low, 4 * high + 1)]
        steps: list[float | str] = [0.0] if name.endswith("weight") else []
        if isinstance(default, str):
            unit = "median" if name == "gamma" else "scale"
            steps += [unit if number == 1 else f"{number:g}*{unit}" for number in numbers]
        else:
            steps += numbers
        return cls(name, tuple(steps), steps.index(default))


def make_sliders(method: Method) -> list[Slider]:
    """Make the sliders of a projection: the kernel width, the weights, the ridge."""
    params = method.transformer.get_params(deep=False)
    return [Slider.for_parameter(name, params[name]) for name in LABELS if name in params]


def component_choices(method: Method, n_classes: int) -> list[str]:
    """Return the possible numbers of components; "all" uses the default of the method."""
    # These methods have at most as many components as there are contrasts of classes.
    is_discriminant = method.name in ("CIDG", "KFDA", "MDA")
    max_components = n_classes - 1 if is_discriminant else MAX_COMPONENTS
    return ["all", *map(str, range(1, max_components + 1))]


def surface_axes(method: Method) -> list[Slider]:
    """Return the two parameters of the surface, with coarse values; the first has no name if there is only one."""
    by_name = {slider.name: slider for slider in make_sliders(method)}
    names = [name for name in by_name if name.endswith("weight")]
    names += [name for name in ("output_ridge", "ridge") if name in by_name]
    axes = [replace(by_name[name], values=_coarse_values(by_name[name])) for name in names[:2]]
    return axes if len(axes) == 2 else [Slider("", ("",), 0), *axes]


def _coarse_values(slider: Slider) -> tuple[float | str, ...]:
    if slider.name in SHARE_PARAMETERS:
        return slider.values[::2]
    start = 1 if slider.values[0] == 0.0 else 0
    return (*slider.values[:start], *slider.values[start::4])


@dataclass(frozen=True)
class Setting:
    """The held-out domain, and the method and parameters that are fitted to the other domains."""

    held_out: str
    method: str = DEFAULT_METHOD
    head: str = "1-NN"
    centering: str = "source"
    n_components: int | None = None
    params: Mapping[str, float | str] = field(default_factory=dict)

    @classmethod
    def from_request(cls, values: Mapping[str, Any], domains: Sequence[str], n_classes: int) -> Self:
        """Make a setting from strings by name; an unknown name or value raises ValueError with the allowed ones."""
        remaining = {name: text for name, text in values.items() if name not in VIEW_KEYS}

        def take(name: str, allowed: Sequence[str], default: str) -> str:
            text = remaining.pop(name, default)
            if not isinstance(text, str) or text not in allowed:
                raise ValueError(f"{name} must be one of {format_list(list(allowed))}; got {str(text)[:80]!r}.")
            return text

        held_out = take("held_out", domains, domains[-1])
        method = METHODS[take("method", projection_names(), DEFAULT_METHOD)]
        head = take("head", list(HEADS), "1-NN")
        centering = take("centering", ("source", "target"), "source")
        components = take("components", component_choices(method, n_classes), "all")
        n_components = None if components == "all" else int(components)
        params = {}
        for slider in make_sliders(method):
            value_by_text = {str(value): value for value in slider.values}
            default = str(slider.values[slider.default])
            params[slider.name] = value_by_text[take(slider.name, list(value_by_text), default)]
        # The page's address keeps parameters of other methods, in case they are selected again.
        unknown = [name for name in remaining if name not in LABELS]
        if unknown:
            raise ValueError(f"Unknown setting {str(unknown[0])[:80]!r}.")
        return cls(held_out, method.name, head, centering, n_components, params)

    @classmethod
    def parse(cls, text: str, domains: Sequence[str], n_classes: int) -> Self:
        """Make a setting from the part of the page's address after the #."""
        return cls.from_request(dict(parse_qsl(text.removeprefix("#"), keep_blank_values=True)), domains, n_classes)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        values = {
            "held_out": self.held_out,
            "method": self.method,
            "head": self.head,
            "centering": self.centering,
            "components": "all" if self.n_components is None else self.n_components,
        }
        return urlencode({**values, **self.params})

    @property
    def arguments(self) -> dict[str, Any]:
        """The parameters of the projection that differ from its defaults."""
        arguments: dict[str, Any] = dict(self.params)
        if self.n_components is not None:
            arguments["n_components"] = self.n_components
        if self.centering != "source":
            arguments["centering"] = self.centering
        return arguments

    def candidate(self, params: Mapping[str, Any] | None = None) -> Candidate:
        """Return the unfitted projection and classifier; `params` override parameters of the setting."""
        arguments = {**self.arguments, **(params or {})}
        projection = type(METHODS[self.method].transformer)(**arguments)
        return Candidate(self.method, arguments, projection, HEADS[self.head], self.head, "decomposition", plain=False)


def projection_names() -> list[str]:
    """Return the names of the methods that can be explored: the projections."""
    return method_names(is_projection=True)


def method_facts(n_classes: int) -> list[dict[str, Any]]:
    """Return all methods with their sliders, as plain values."""
    return [
        {
            "name": name,
            "about": METHODS[name].description,
            "sliders": [slider.facts for slider in make_sliders(METHODS[name])],
            "components": component_choices(METHODS[name], n_classes),
            "surface": [axis.name for axis in surface_axes(METHODS[name])],
        }
        for name in projection_names()
    ]
