"""Pages and figures from plain dicts, readable by anyone they are sent to, without a network.

Whoever has a summary can show it: `render_comparison` and `render_diagnosis` give one self-contained HTML file,
the drawing functions a matplotlib figure. Imports no other room, so that every room may use it.
"""

from ._figures import draw_comparison, draw_diagnosis, heat_map, pyplot, write_cells
from ._format import column_lines, format_ranked, percent
from ._render import render_comparison, render_diagnosis

__all__ = ["render_comparison", "render_diagnosis"]
# For other rooms, and for nobody else.
__all__ += [
    "column_lines",
    "draw_comparison",
    "draw_diagnosis",
    "format_ranked",
    "heat_map",
    "percent",
    "pyplot",
    "write_cells",
]
