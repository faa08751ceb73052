"""Ask before allocating: a clear refusal is kinder than a frozen machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


def available_bytes() -> int | None:
    """Memory that can be allocated without swapping, or None where the platform does not tell."""
    limits = list[int]()
    try:
        limits += [1024 * number for number in _numbers(Path("/proc/meminfo"), "MemAvailable:")]
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            used = int((group / "memory.current").read_text())
            # Cached files count as used, but are given back when somebody asks.
            limits.append(int(limit) - used + sum(_numbers(group / "memory.stat", "inactive_file ")))
    except (OSError, ValueError):
        # Not Linux, or no control group: what has been collected so far, or the total below, must do.
        if not limits and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(min(limits), 0) if limits else None


def _numbers(file: Path, key: str) -> list[int]:
    return [int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(key)]


EXACT_ROWS = 8_000  # samples up to which an exact kernel is worth its time; beyond, landmarks approximate it
CHOICE_ROWS, SAMPLE_ROWS = 2_000, 20_000  # of a larger table: for the settings; for scales, novelty and classifiers
LANDMARK_ROWS, LANDMARKS = 10_000, 1_000  # among which landmarks are sought, and how many there are at most
CELLS_WITHOUT_CHECK = 100  # whose contrasts, less than a megabyte, fit wherever there is memory for Python itself
TOLERANCE = 1e-6  # what landmarks may miss of the kernel: a smooth one needs few


def check_square_memory(n: int, copies: int, caller: str) -> None:
    """Raise MemoryError if `copies` float64 matrices of n x n do not fit."""
    _require(
        f"{caller} with an exact kernel on {n:,} samples",
        n,
        copies,
        "Fit on a subsample, or set feature_map, for example to unseen.PivotedNystroem(1000), whose memory does not "
        "grow with the square of the number of samples.",
    )


def check_scatter_memory(width: int) -> None:
    """Raise MemoryError if what a projection of so many explicit features needs does not fit."""
    _require(
        f"A projection of {width:,} explicit features",
        width,
        4,
        'Set feature_map to a map with fewer features, or to None: kernel="linear" gives the same components as '
        'feature_map="linear", from a matrix of samples by samples.',
    )


def check_cell_memory(cells: int, caller: str) -> None:
    """Raise MemoryError if contrasts of so many cells do not fit."""
    if (
        cells > CELLS_WITHOUT_CHECK
    ):  # a search asks for every setting, and an answer takes as long as a tenth of a solution
        advice = "Leave out classes or domains, or merge those that are alike."
        _require(f"{caller} on {cells:,} combinations of a domain and a class", cells, 8, advice)


def _require(what: str, n: int, copies: int, advice: str) -> None:
    needed, available = copies * 8 * n * n, available_bytes()
    if available is not None and needed > available:
        raise MemoryError(
            f"{what} needs {copies} matrices of {n:,} x {n:,}, {needed / 2**30:,.1f} GiB in all; "
            f"{available / 2**30:,.1f} GiB is available. {advice}"
        )


@dataclass(frozen=True)
class SizePlan:
    """How many rows are used for what: one plan for all that compares, chooses or fits.

    Up to `EXACT_ROWS` rows kernels are exact and everything sees all rows. Beyond, some rows choose the settings, which
    are multiples of the data's own scales and do not depend on the number of rows; more of them give the scales and the
    landmarks, and train the classifiers; projections see all rows, block by block, through the landmarks.

    Parameters
    ----------
    rows : int
        How many there are to learn from.
    exact : bool
        Whether kernels are exact.
    landmarks : int
        How many there are at most.
    tolerance : float or None
        What landmarks may miss of the kernel; None takes as many as there may be.
    choice_rows, landmark_rows, sample_rows : int
        Rows that choose the settings, among which landmarks are sought, and that train classifiers.
    """

    rows: int
    exact: bool
    landmarks: int
    tolerance: float | None
    choice_rows: int
    landmark_rows: int
    sample_rows: int

    @classmethod
    def from_rows(cls, rows: int, *, exact: bool | None = None, landmarks: int | None = None) -> SizePlan:
        """The plan for so many rows; `exact` and `landmarks` are what somebody has asked for."""
        exact = rows <= EXACT_ROWS if exact is None else exact
        tolerance = TOLERANCE if landmarks is None else None
        most = LANDMARKS if landmarks is None else landmarks
        return cls(rows, exact, most, tolerance, CHOICE_ROWS, LANDMARK_ROWS, SAMPLE_ROWS)

    def __str__(self) -> str:
        if self.exact:
            return f"{self.rows:,} rows: kernels are exact."
        return (
            f"{self.rows:,} rows: {min(self.choice_rows, self.rows):,} choose the settings, "
            f"{min(self.sample_rows, self.rows):,} give the scales, the landmarks and the classifier, and a projection "
            f"is fitted on all through at most {self.landmarks:,} landmarks."
        )
