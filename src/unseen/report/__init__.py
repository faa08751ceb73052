"""Self-contained HTML pages from plain dicts: one file, no network, readable by anyone it is sent to."""

from ._render import render_comparison, render_diagnosis

__all__ = ["render_comparison", "render_diagnosis"]
