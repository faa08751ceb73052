"""What a visitor may set, and which values there are: everything else is refused before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode

from ..model_selection import HEADS, METHODS, Candidate, Method, method_names
from ..utils.validation import format_list

# Powers of ten between which sliders move, in quarters.
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
SHARE_PARAMETERS = ("between_weight", "discrepancy_weight")  # between 0 and 1
DEFAULT_METHOD = "CIDG"
MAX_COMPONENTS = 10
VIEW_KEYS = ("tab", "data", "color", "stage", "dims", "pool", "skew")  # of the page alone, which its address holds too


@dataclass(frozen=True)
class Slider:
    """A parameter, its values from small to large, and where it stands at first."""

    name: str
    values: tuple[float | str, ...]
    first: int

    @property
    def facts(self) -> dict[str, Any]:
        """In plain values, as the page wants it; values are told by their texts."""
        texts = [str(value) for value in self.values]
        return {"name": self.name, "label": LABELS[self.name], "values": texts, "first": self.first}

    @classmethod
    def for_parameter(cls, name: str, default: float | str) -> Slider:
        """From where a parameter stands at first: a number, or a multiple of a scale of the data."""
        if name in SHARE_PARAMETERS:
            values: list[float | str] = [round(0.05 * k, 2) for k in range(21)]
            return cls(name, tuple(values), values.index(default))
        low, high = EXPONENT_RANGES.get(name, WEIGHT_EXPONENTS)
        numbers = [float(f"{10 ** (k / 4):.3g}") for k in range(4 * low, 4 * high + 1)]
        unit = "" if not isinstance(default, str) else "median" if name == "gamma" else "scale"
        steps: list[float | str] = [0.0] if name.endswith("weight") else []
        steps += [f"{v:g}*{unit}" if unit and v != 1 else unit or v for v in numbers]
        return cls(name, tuple(steps), steps.index(default))


def make_sliders(method: Method) -> list[Slider]:
    """What there is to set of a projection: the kernel's width, its weights, its ridge."""
    params = method.transformer.get_params(deep=False)
    return [Slider.for_parameter(name, params[name]) for name in LABELS if name in params]


def component_choices(method: Method, n_classes: int) -> list[str]:
    """How many components there may be; "all" leaves it to the method."""
    few = method.name in ("CIDG", "KFDA", "MDA")  # which have as many as there are contrasts of classes
    return ["all", *map(str, range(1, (n_classes - 1 if few else MAX_COMPONENTS) + 1))]


def surface_axes(method: Method) -> list[Slider]:
    """The two parameters over which settings are compared, in whole powers of ten or so; the first may have no name."""
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
    """A point at which data are looked at: whom to hold out, what to fit to the others, and how."""

    held: str
    method: str = DEFAULT_METHOD
    head: str = "1-NN"
    centering: str = "source"
    n_components: int | None = None
    params: Mapping[str, float | str] = field(default_factory=dict)

    @classmethod
    def from_request(cls, asked: Mapping[str, Any], domains: Sequence[str], n_classes: int) -> Self:
        """From texts by name; ValueError for what is unknown, with what there is."""
        rest = {name: text for name, text in asked.items() if name not in VIEW_KEYS}

        def take(name: str, among: Sequence[str], first: str) -> str:
            text = rest.pop(name, first)
            if not isinstance(text, str) or text not in among:
                raise ValueError(f"{name} must be one of {format_list(list(among))}; got {str(text)[:80]!r}.")
            return text

        held = take("held", domains, domains[-1])
        method = METHODS[take("method", projection_names(), DEFAULT_METHOD)]
        head, centering = take("head", list(HEADS), "1-NN"), take("centering", ("source", "target"), "source")
        wanted = take("components", component_choices(method, n_classes), "all")
        params = {}
        for slider in make_sliders(method):
            texts = {str(value): value for value in slider.values}
            params[slider.name] = texts[take(slider.name, list(texts), str(slider.values[slider.first]))]
        unknown = [name for name in rest if name not in LABELS]  # those of other methods wait in the address
        if unknown:
            raise ValueError(f"There is no setting {str(unknown[0])[:80]!r}.")
        return cls(held, method.name, head, centering, None if wanted == "all" else int(wanted), params)

    @classmethod
    def parse(cls, text: str, domains: Sequence[str], n_classes: int) -> Self:
        """From the part of the page's address behind the #."""
        return cls.from_request(dict(parse_qsl(text.removeprefix("#"), keep_blank_values=True)), domains, n_classes)

    def __str__(self) -> str:
        """What `parse` reads."""
        wanted = "all" if self.n_components is None else str(self.n_components)
        shape = {"head": self.head, "centering": self.centering, "components": wanted}
        return urlencode({"held": self.held, "method": self.method, **shape, **self.params})

    @property
    def arguments(self) -> dict[str, Any]:
        """Parameters of the projection."""
        shape = {"n_components": self.n_components, "centering": self.centering}
        return {**self.params, **{name: value for name, value in shape.items() if value not in (None, "source")}}

    def candidate(self, **other: Any) -> Candidate:
        """The projection and the classifier behind it, neither of them fitted; `other` parameters come first."""
        given = {**self.arguments, **other}
        projection = type(METHODS[self.method].transformer)(**given)
        return Candidate(self.method, given, projection, HEADS[self.head], self.head, "decomposition", plain=False)


def projection_names() -> list[str]:
    """Methods that can be looked at: those that learn components."""
    return method_names(is_projection=True)


def method_facts(n_classes: int) -> list[dict[str, Any]]:
    """All methods, and what there is to set of each, in plain values."""
    return [
        {
            "name": name,
            "about": METHODS[name].about,
            "sliders": [slider.facts for slider in make_sliders(METHODS[name])],
            "components": component_choices(METHODS[name], n_classes),
            "surface": [axis.name for axis in surface_axes(METHODS[name])],
        }
        for name in projection_names()
    ]
