"""Pages and figures from plain dicts, readable by anyone they are sent to, without a network.

Whoever has a summary can show it: `render_comparison` and `render_diagnosis` give one self-contained HTML file,
the drawing functions a matplotlib figure. Imports no other room, so that every room may use it.
"""

from ._figures import draw_comparison, draw_diagnosis, draw_heat_map, import_pyplot, write_cells
from ._format import describe_columns, format_percent, rank_methods
from ._render import render_comparison, render_diagnosis

__all__ = ["render_comparison", "render_diagnosis"]
# For other rooms, and for nobody else.
__all__ += [
    "describe_columns",
    "draw_comparison",
    "draw_diagnosis",
    "draw_heat_map",
    "format_percent",
    "import_pyplot",
    "rank_methods",
    "write_cells",
]
