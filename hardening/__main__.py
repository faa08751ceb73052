"""Run campaigns and print their figures: ``python -m hardening [name ...]``."""

from __future__ import annotations

import sys

from benchmarks.measure import run

SUITES = ("kills", "faults", "fuzz", "degenerate")

if __name__ == "__main__":  # processes that a campaign spawns import this file
    sys.exit(run("hardening", SUITES, sys.argv[1:]))
