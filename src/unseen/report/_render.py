"""Render summaries as HTML, with templates that escape all values and with style and script inside the page."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from ..utils.optional_imports import optional_import
from ._charts import shade
from ._format import FILTERS
from ._sections import comparison_sections, diagnosis_sections, make_sections, validation_sections


def render_comparison(summary: Mapping[str, Any]) -> str:
    """Render the report of a comparison as one self-contained HTML page.

    Sections whose key is missing, empty or None are left out. All names are escaped.

    Parameters
    ----------
    summary : dict
        Plain values under the keys title, data, verdict, domains, methods, ensemble, diagnosis,
        confusion, settings and provenance. Scores are fractions; any number may be None.

    Returns
    -------
    page : str
        The page, to be encoded as UTF-8.

    See Also
    --------
    render_diagnosis : Render a shift diagnosis alone.

    Examples
    --------
    >>> from unseen.report import render_comparison
    >>> methods = [{"name": "CIDG", "kind": "invariant", "transductive": False, "mean": 0.815, "sd": None,
    ...             "seconds": 0.4, "failed": "", "accuracies": {"Paris": {"mean": 0.815, "sd": None}}}]
    >>> page = render_comparison({"title": "Cats & dogs", "domains": ["Paris"], "methods": methods})
    >>> "Cats &amp; dogs" in page
    True
    """
    title = str(summary.get("title") or "Comparison")
    return _render("page.html.jinja", title, comparison_sections(summary), data=summary.get("data"))


def render_diagnosis(summary: Mapping[str, Any], *, fragment: bool = False) -> str:
    """Render a shift diagnosis as HTML.

    Parameters
    ----------
    summary : dict
        The return value of `Diagnosis.summary()`.
    fragment : bool, default=False
        If True, return a fragment to embed in another page, such as a notebook: its styles do not affect the rest of
        the page, and it has no script. If False, return a whole page.

    Returns
    -------
    html : str
        The page or the fragment.

    See Also
    --------
    render_comparison : Render the report of a comparison.

    Examples
    --------
    >>> from unseen.report import render_diagnosis
    >>> summary = {"n_samples": 9, "n_used": 9, "classes": ["a"], "domains": ["s", "t"], "counts": [[4], [5]],
    ...            "alpha": 0.05, "n_permutations": 99, "gamma": 1.0, "tests": [], "classes_tests": [],
    ...            "distances": {"marginal": [[0, 0.1], [0.1, 0]], "conditional": [[0, 0.2], [0.2, 0]]},
    ...            "reading": ["No shift detected."], "notices": []}
    >>> fragment = render_diagnosis(summary, fragment=True)
    >>> "No shift detected." in fragment, "<html" in fragment
    (True, False)
    """
    name = "fragment.html.jinja" if fragment else "page.html.jinja"
    return _render(name, "Shift diagnosis", diagnosis_sections(summary))


def render_validation(summary: Mapping[str, Any]) -> str:
    """Render the report of a validation as one self-contained HTML page.

    Parameters
    ----------
    summary : dict
        The return value of `ValidationResult.to_dict()`; predictions are not needed.

    Returns
    -------
    page : str
        The page, to be encoded as UTF-8.

    See Also
    --------
    render_comparison : Render the report of a comparison.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.report import render_validation
    >>> from unseen.evaluation import validate_predictions
    >>> rng = np.random.default_rng(0)
    >>> p, site = rng.uniform(size=600), np.repeat(["bonn", "leeds", "oslo"], 200)
    >>> result = validate_predictions(rng.uniform(size=600) < p, p, sample_domain=site)
    >>> "For your colleagues" in render_validation(result.to_dict())
    True
    """
    styles = ("report.css", "validation.css")
    return _render("page.html.jinja", summary["title"], validation_sections(summary), styles=styles)


def render_site_curve(summary: Mapping[str, Any]) -> str:
    """Render a learning curve over domains as one self-contained HTML page."""
    sections = make_sections(("curve", "Scores by number of training domains", summary))
    return _render("page.html.jinja", "Learning curve over domains", sections)


def _render(
    template: str,
    title: str,
    sections: list[dict[str, Any]],
    *,
    data: Mapping[str, Any] | None = None,
    styles: Sequence[str] = ("report.css",),
) -> str:
    jinja2 = optional_import("jinja2", "An HTML report")
    page: str = (
        _make_environment(jinja2)
        .get_template(template)
        .render(
            title=title,
            data=data,
            style="".join(map(_read_asset, styles)),
            script=_read_asset("report.js"),
            sections=sections,
        )
    )
    # File names can contain bytes that are not valid text, which Python represents as lone surrogates.
    return page.encode("utf-8", "replace").decode("utf-8")


@functools.cache
def _make_environment(jinja2: Any) -> Any:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read_asset("templates", name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS, shade=shade, csp_hash=_csp_hash)
    return environment


@functools.cache
def _read_asset(*path: str) -> str:
    return files(__package__).joinpath(*path).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    """Return the source expression by which a Content-Security-Policy allows an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
