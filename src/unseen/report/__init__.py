"""HTML reports and matplotlib figures, made from plain dictionaries.

`render_comparison`, `render_diagnosis` and `render_validation` return one self-contained HTML page; the drawing
functions return a matplotlib figure. This package imports no other package of unseen except ``utils``, so that all of
them may use it.
"""

from ._figures import (
    draw_adaptation_plan,
    draw_comparison,
    draw_diagnosis,
    draw_heat_map,
    draw_site_curve,
    draw_validation,
    import_pyplot,
    write_cells,
)
from ._format import arrange_scores, describe_columns, format_interval, format_number, format_percent, format_score
from ._render import render_comparison, render_diagnosis, render_site_curve, render_validation

__all__ = ["render_comparison", "render_diagnosis", "render_validation"]
