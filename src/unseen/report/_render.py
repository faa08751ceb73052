"""HTML from a summary: templates that escape whatever they are given, and assets that travel inside the page."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from ..utils.optional_imports import optional_import
from ._format import FILTERS
from ._sections import prepare_sections


def render_comparison(summary: Mapping[str, Any]) -> str:
    """The report of a comparison as one HTML page that needs nothing else.

    Sections whose key is missing, empty or None are left out. Names are escaped, whatever they hold.

    Parameters
    ----------
    summary : dict
        Plain values: title, data, verdict, domains, methods, pool, embedding, diagnosis, confusion, hardest, surface,
        settings, provenance, and pictures, addresses of small ones by row. Percentages are given as 0 to 100; any
        number may be None.

    Returns
    -------
    page : str
        The page, to be written as UTF-8.

    See Also
    --------
    render_diagnosis : The page of a shift diagnosis alone.

    Examples
    --------
    >>> from unseen.report import render_comparison
    >>> methods = [{"name": "CIDG", "kind": "invariant", "transductive": False, "mean": 81.5, "sd": None,
    ...             "seconds": 0.4, "failed": "", "accuracies": {"Paris": {"mean": 81.5, "sd": None}}}]
    >>> page = render_comparison({"title": "Cats & dogs", "domains": ["Paris"], "methods": methods})
    >>> "<h1><bdi>Cats &amp; dogs</bdi></h1>" in page
    True
    """
    return _render("page.html.jinja", str(summary.get("title") or "Comparison"), summary)


def render_diagnosis(summary: Mapping[str, Any], *, fragment: bool = False) -> str:
    """The account of a shift diagnosis as HTML.

    Parameters
    ----------
    summary : dict
        What `Diagnosis.summary()` gives.
    fragment : bool, default=False
        Return a piece to embed in another page, such as a notebook, with styles that reach nothing outside it and no
        script; by default a whole page.

    Returns
    -------
    html : str
        The page or the piece of one.

    See Also
    --------
    render_comparison : The report of a whole comparison.

    Examples
    --------
    >>> from unseen.report import render_diagnosis
    >>> summary = {"n_samples": 9, "n_used": 9, "classes": ["a"], "domains": ["s", "t"], "counts": [[4], [5]],
    ...            "alpha": 0.05, "n_permutations": 99, "gamma": 1.0, "tests": [], "classes_tests": [],
    ...            "distances": {"marginal": [[0, 0.1], [0.1, 0]], "conditional": [[0, 0.2], [0.2, 0]]},
    ...            "outlier_domain": None, "outlier_text": "", "reading": ["No shift detected."], "notices": []}
    >>> piece = render_diagnosis(summary, fragment=True)
    >>> "No shift detected." in piece, "<html" in piece
    (True, False)
    """
    name = "fragment.html.jinja" if fragment else "page.html.jinja"
    return _render(name, "Shift diagnosis", {"diagnosis": summary})


def _render(template: str, title: str, summary: Mapping[str, Any]) -> str:
    jinja2 = optional_import("jinja2", "An HTML report")
    scripts = (f"(() => {{\n{_read_asset(name)}}})();\n" for name in ("report.js", "scatter.js"))
    fixed = {
        "title": title,
        "data": summary.get("data") and {"columns": [], **summary["data"]},
        "style": _read_asset("report.css"),
        "script": "".join(scripts),
    }
    try:
        html: str = _make_environment().get_template(template).render(sections=prepare_sections(summary), **fixed)
    except (KeyError, jinja2.UndefinedError) as error:
        raise ValueError(f"The summary is incomplete: {error}. Pass it as it was produced.") from error
    # Names taken from file names can hold bytes that are no text, which Python keeps as lone surrogates.
    return html.encode("utf-8", "replace").decode("utf-8")


@functools.cache
def _make_environment() -> Any:
    jinja2 = optional_import("jinja2", "An HTML report")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read_asset("templates", name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS, csp_hash=_csp_hash)
    return environment


@functools.cache
def _read_asset(*path: str) -> str:
    return files(__package__).joinpath(*path).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    """What a Content-Security-Policy calls an inline style or script that may be used."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
