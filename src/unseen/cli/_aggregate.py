"""``unseen aggregate``: write the statistics of a site, from which models are fitted without its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from . import _options as o
from ._report import message_console


def aggregate(
    data: o.Data,
    *,
    plan: Annotated[
        Path, o.make_option(o.DATA, metavar="STUDY", help="Plan of the study: the .toml file that all sites use.")
    ],
    site: o.Site = None,
    output: o.SiteOutput,
    quiet: o.Quiet = False,
) -> None:
    """Write the counts, means and scatter of a site's rows, the only thing that leaves it, to a .json file.

    Example: unseen aggregate rows.csv --plan study.toml -o bonn.stats.json
    """
    from ..exchange import aggregate as aggregate_rows

    aggregate_rows(data, plan, site=o.name_site(site, output)).save(output)
    message_console.print(f"Wrote {output}. Read it before you send it.")
