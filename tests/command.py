"""Running a command in this process."""

from __future__ import annotations

import re

from typer.testing import CliRunner


def run_command(app, *args):
    """The exit code, and what was printed, without colors, frames and line breaks."""
    result = CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
    return result.exit_code, " ".join(re.sub(r"[\u2500-\u257f]", " ", text).split())
