"""What the tests execute, line by line and branch by branch: the last measured run, of all its processes."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Row
from coverage import Coverage

BOUND = 95.0
COUNTS = {"lines": ("covered_lines", "num_statements"), "branches": ("covered_branches", "num_branches")}


def rows() -> Iterator[Row]:
    report = measured()
    for kind in COUNTS:
        below = {name: percent(file["summary"], kind) for name, file in report["files"].items()}
        below = {name: found for name, found in sorted(below.items(), key=lambda item: item[1]) if found < BOUND}
        for name, found in below.items():
            print(f"{found:5.1f}% of the {kind} of {name}; not {missing(report['files'][name], kind)}", file=sys.stderr)
        done, all_of_them = (report["totals"][name] for name in COUNTS[kind])
        detail = f"{done:,} of {all_of_them:,}; {len(below)} of {len(report['files'])} files below {BOUND:g}%"
        detail += "".join(f", {Path(name).parent.name}/{Path(name).name} the least" for name in list(below)[:1])
        yield Row(f"{kind} of src that the tests execute, %", percent(report["totals"], kind), BOUND, False, detail)


def measured() -> dict[str, Any]:
    """What ``coverage json`` says of the combined data."""
    coverage = Coverage()
    coverage.load()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "coverage.json")
        coverage.json_report(outfile=str(path))
        return json.loads(path.read_text(encoding="utf-8"))


def percent(counts: dict[str, int], kind: str) -> float:
    """How much of a file was executed; one without a branch has nothing to miss."""
    done, all_of_them = (counts[name] for name in COUNTS[kind])
    return 100 * done / all_of_them if all_of_them else 100.0


def missing(file: dict[str, Any], kind: str) -> str:
    """Lines, or jumps from line to line; one that leaves a function goes to its end."""
    if kind == "lines":
        return ", ".join(map(str, file["missing_lines"]))
    return ", ".join(f"{start}->{end if end > 0 else 'end'}" for start, end in file["missing_branches"])
