"""The ``unseen`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; without the `cli` extra, say how to get it."""
    try:
        from ._app import app
    except ImportError as error:
        sys.exit(f"The unseen command needs its extra ({error}): pip install 'unseen[cli]'")
    app()
