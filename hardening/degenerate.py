"""Degenerate data through every estimator and search: right, by an independent oracle, or clearly refused.

The cases and the oracles are those of the tests, which run the cheap part of the matrix. The matrix itself is written
beside the figures, as docs/testing/degenerate_table.csv.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.measure import Row

HOME = Path(__file__).parents[1]
TABLE = HOME / "docs" / "testing" / "degenerate_table.csv"
sys.path.insert(0, str(HOME / "tests"))

from degenerate_cases import CASES  # noqa: E402
from degenerate_oracles import BOUND, BOUNDS, SUBJECTS, Outcome, judged, refusal  # noqa: E402

# What stands in one column of the table.
COLUMNS = {
    "CIDG": ["CIDG", "CIDG with norm"],
    **{name: [name] for name in ("KFDA", "SCA", "DICA", "UDICA")},
    "DICA as published": ["as published"],
    "MDA": ["MDA"],
}
COLUMNS = {
    **{
        title: [f"{name}{variant}" for variant in ("", ", linear", ", feature map") for name in names]
        for title, names in COLUMNS.items()
    },
    **{name: [name] for name in SUBJECTS if name.startswith("CIDG, ") and "linear" not in name and "map" not in name},
    **{name: [name] for name in list(SUBJECTS)[list(SUBJECTS).index("PivotedNystroem") :]},
}


def outcomes(name: str) -> dict[str, Outcome]:
    """What each subject makes of a kind of data; a refusal that was not expected is wrong, and so is an answer."""
    case, found = CASES[name](), {}
    for subject in SUBJECTS:
        outcome = judged(subject, case)
        if outcome.kind == "refused" and not refusal(name, subject, outcome.message):
            outcome = outcome._replace(kind="wrong")
        elif outcome.kind in ("right", "sound") and refusal(name, subject):
            outcome = Outcome("wrong", outcome.error, "answered, though there is no answer")
        found[subject] = outcome
    return found


def rows() -> Iterator[Row]:
    """Judge every cell, write the matrix, and sum it up."""
    found: dict[tuple[str, str], Outcome] = {}
    with ProcessPoolExecutor() as pool:
        for k, (name, own) in enumerate(zip(CASES, pool.map(outcomes, CASES), strict=True), start=1):
            print(f"{k} of {len(CASES)}: {name}", file=sys.stderr, flush=True)
            for subject, outcome in own.items():
                found[name, subject] = outcome
                if outcome.kind == "wrong":
                    print(f"  {subject}: {outcome}", file=sys.stderr, flush=True)
    _write(found)
    yield from summed(found)


def summed(found: dict[tuple[str, str], Outcome]) -> Iterator[Row]:
    """What the matrix comes to."""
    kinds = [outcome.kind for outcome in found.values()]
    detail = f"{len(CASES)} kinds of data, {len(SUBJECTS)} estimators, settings and functions"
    yield Row("cells that are wrong, crash, hang or leak a warning", kinds.count("wrong"), 0, True, detail)
    yield Row("cells that are right by an oracle", kinds.count("right"), 900, False, "50 digits, dense or plain data")
    yield Row("cells that are finite, and have no oracle", kinds.count("sound"), 0, False, "searches and pools")
    yield Row("cells refused with a message that says why", kinds.count("refused"), 0, False, "expected one by one")
    for name, bound in {"all others": BOUND, **BOUNDS}.items():
        errors = [
            outcome.error
            for (case, subject), outcome in found.items()
            if outcome.kind == "right"
            and (subject == name or (name == "all others" and subject not in BOUNDS and case != "float32"))
        ]
        yield Row(f"largest relative error, {name}", max(errors), bound, True, "against the oracle")


def _write(found: dict[tuple[str, str], Outcome]) -> None:
    """The matrix, a row for each kind of data and a column for each estimator."""
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    partial = TABLE.with_suffix(".part")
    with partial.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["Data", *COLUMNS])
        for case in CASES:
            cells = [entry([(name, found[case, name]) for name in names]) for names in COLUMNS.values()]
            table.writerow([case, *cells])
    partial.replace(TABLE)


def entry(outcomes: list[tuple[str, Outcome]]) -> str:
    """What a cell of the table says, of one variant or of several."""
    parts = []
    right = [outcome.error for _, outcome in outcomes if outcome.kind == "right"]
    if right:
        parts.append(f"right, {max(right):.0e}" if max(right) else "right")
    kinds = {name: outcome for name, outcome in outcomes if outcome.kind != "right"}
    for kind in ("sound", "inapplicable", "refused", "wrong"):
        own = {name: outcome for name, outcome in kinds.items() if outcome.kind == kind}
        if not own:
            continue
        which = sorted({name.partition(", ")[2] or "rbf" for name in own})
        where = f" ({', '.join(which)})" if len(own) < len(outcomes) else ""
        said = short(next(iter(own.values())).message)
        words = {"sound": "finite", "inapplicable": "takes tables alone"}
        parts.append(words.get(kind, f"{kind}{where}: {said}"))
    return "; ".join(parts)


def short(message: str) -> str:
    """The gist of a message: its first sentence, as far as a colon or a comma."""
    text = " ".join(message.split()).removeprefix("The frame cannot be used: - ")
    text = text.partition("; the first says: ")[2].partition(": ")[2] or text
    return text.partition(". ")[0].partition(": ")[0].partition(", whose")[0][:80]
