"""Run campaigns and keep their figures in docs/testing: ``python -m hardening [name ...]``."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.measure import run

SUITES = ("coverage", "mutation", "kills", "fuzz", "degenerate", "faults", "threads", "matrix", "load", "audit")
TABLES = Path(__file__).parents[1] / "docs" / "testing"

if __name__ == "__main__":  # processes that a campaign spawns import this file
    sys.exit(run("hardening", SUITES, sys.argv[1:], tables=TABLES))
