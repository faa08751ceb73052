"""Degenerate data through every estimator and search: right, by an independent oracle, or rejected with a clear error.

The cases and the oracles are those of the tests, which run the cheap part of all combinations.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.measure import Row

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from degenerate_cases import CASES
from degenerate_oracles import BOUND, BOUNDS, SUBJECTS, Outcome, judged, refusal


def outcomes(name: str) -> dict[str, Outcome]:
    """The outcome of each subject on a kind of data; an unexpected error is wrong, and so is an unexpected result."""
    case = CASES[name]()
    results = {}
    for subject in SUBJECTS:
        outcome = judged(subject, case)
        if outcome.kind == "refused" and not refusal(name, subject, outcome.message):
            outcome = outcome._replace(kind="wrong")
        elif outcome.kind in ("right", "sound") and refusal(name, subject):
            outcome = Outcome("wrong", outcome.error, "a result, although there is none")
        results[subject] = outcome
    return results


def rows() -> Iterator[Row]:
    """Evaluate every combination, and summarize the outcomes."""
    results: dict[tuple[str, str], Outcome] = {}
    with ProcessPoolExecutor() as pool:
        for name, by_subject in zip(CASES, pool.map(outcomes, CASES), strict=True):
            for subject, outcome in by_subject.items():
                results[name, subject] = outcome
                if outcome.kind == "wrong":
                    print(f"degenerate: {name}, {subject}: {outcome}", file=sys.stderr, flush=True)
    kinds = [outcome.kind for outcome in results.values()]
    detail = f"{len(CASES)} kinds of data, {len(SUBJECTS)} estimators, settings and functions"
    yield Row("combinations that are wrong, crash, hang or warn", kinds.count("wrong"), 0, True, detail)
    yield Row(
        "combinations that agree with an oracle", kinds.count("right"), 900, False, "50 digits, dense, or plain data"
    )
    for name, bound in {"all others": BOUND, **BOUNDS}.items():
        errors = [
            outcome.error
            for (case, subject), outcome in results.items()
            if outcome.kind == "right"
            and (subject == name or (name == "all others" and subject not in BOUNDS and case != "float32"))
        ]
        yield Row(f"largest relative error, {name}", max(errors), bound, True, "against the oracle")
