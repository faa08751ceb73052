"""Memory checks before large allocations, and the numbers of rows that larger data sets use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


def available_bytes() -> int | None:
    """Return the memory that can be allocated without swapping, or None if the platform does not report it."""
    limits = list[int]()
    try:
        limits += [1024 * number for number in _read_numbers(Path("/proc/meminfo"), "MemAvailable:")]
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            used = int((group / "memory.current").read_text())
            # Cached files count as used, but their memory is released on demand.
            limits.append(int(limit) - used + sum(_read_numbers(group / "memory.stat", "inactive_file ")))
    except (OSError, ValueError):
        pass  # Not Linux, or no control group: use the values collected so far.
    return max(min(limits), 0) if limits else None


def _read_numbers(file: Path, key: str) -> list[int]:
    return [int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(key)]


EXACT_ROWS = 8_000  # Up to this number of samples kernels are exact; beyond it landmarks approximate them.
# Rows of a larger table to which models are fitted that predict held-out domains: of kernel methods alone, and of other
# classifiers and ensembles.
CHOICE_ROWS = 2_000
CLASSIFIER_CHOICE_ROWS = 3_000
FIT_ROWS = 200_000  # rows of a larger table in memory, to which classifiers without kernels are fitted
SAMPLE_ROWS = 20_000  # rows of a larger table for the classifiers of kernel methods
LANDMARK_ROWS = 10_000  # rows of a larger table from which landmarks are drawn
MAX_LANDMARKS = 1_000
TRACE_TOLERANCE = 1e-6  # share of the trace of the kernel that landmarks may miss


def check_square_memory(n: int, copies: int, caller: str) -> None:
    """Raise MemoryError if `copies` float64 matrices of n x n do not fit."""
    check_memory(
        f"{caller} with an exact kernel on {n:,} samples",
        n,
        copies,
        "Fit on a subsample, or set feature_map, for example to unseen.PivotedNystroem(1000), whose memory does not "
        "grow with the square of the number of samples.",
    )


def check_scatter_memory(width: int) -> None:
    """Raise MemoryError if the matrices of a projection of `width` explicit features do not fit."""
    check_memory(
        f"A projection of {width:,} explicit features",
        width,
        4,
        'Set feature_map to a map with fewer features, or to None: kernel="linear" gives the same components as '
        'feature_map="linear", from a matrix of samples by samples.',
    )


def check_memory(task: str, n: int, copies: int, advice: str) -> None:
    """Raise MemoryError, with advice, if `copies` float64 matrices of n x n, which a task needs, do not fit."""
    needed = copies * 8 * n * n
    available = available_bytes()
    if available is not None and needed > available:
        raise MemoryError(
            f"{task} needs {copies} matrices of {n:,} x {n:,}, {needed / 2**30:,.1f} GiB in all; "
            f"{available / 2**30:,.1f} GiB is available. {advice}"
        )


@dataclass(frozen=True)
class SizePlan:
    """Numbers of rows for each step of model selection and fitting.

    Up to `EXACT_ROWS` rows kernels are exact and every step uses all rows. For larger data, models that predict
    held-out domains are fitted to a subsample; hyperparameters are multiples of scales of the data and do not depend on
    the number of rows. They predict all held-out rows, and linear classifiers alone are fitted to all others. The model
    itself is fitted to all rows: classifiers at once, projections block by block through landmarks. Only kernel
    machines and the classifiers after projections are fitted to a subsample.

    Parameters
    ----------
    rows : int
        Number of training rows.
    exact : bool
        Whether kernels are exact.
    landmarks : int
        Maximum number of landmarks.
    tolerance : float or None
        Share of the trace of the kernel that landmarks may miss; None uses the maximum number of landmarks.
    choice_rows, classifier_choice_rows : int
        Rows to which models that predict held-out domains are fitted: kernel methods, and other classifiers.
    landmark_rows, sample_rows, fit_rows : int
        Rows from which landmarks are drawn, that train classifiers of kernel methods, and that train other classifiers.
    """

    rows: int
    exact: bool
    landmarks: int
    tolerance: float | None
    choice_rows: int
    classifier_choice_rows: int
    landmark_rows: int
    sample_rows: int
    fit_rows: int

    @classmethod
    def from_rows(
        cls, rows: int, *, exact: bool | None = None, landmarks: int | None = None, ensemble: bool = False
    ) -> SizePlan:
        """Return the plan of one method, or of an `ensemble`; None means the default of `exact` and `landmarks`."""
        return cls(
            rows=rows,
            exact=rows <= EXACT_ROWS if exact is None else exact,
            landmarks=MAX_LANDMARKS if landmarks is None else landmarks,
            tolerance=TRACE_TOLERANCE if landmarks is None else None,
            choice_rows=CLASSIFIER_CHOICE_ROWS if ensemble else CHOICE_ROWS,
            classifier_choice_rows=CLASSIFIER_CHOICE_ROWS,
            landmark_rows=LANDMARK_ROWS,
            sample_rows=SAMPLE_ROWS,
            fit_rows=FIT_ROWS,
        )

    @property
    def methods_text(self) -> str:
        """A sentence for the Methods section of a paper; empty if all rows are used for everything."""
        if self.exact:
            return ""
        fitted = "all" if self.rows <= self.fit_rows else f"{self.fit_rows:,}"
        return (
            f"Training sets had up to {self.rows:,} rows. Settings and weights were selected by models fitted to "
            f"{self.classifier_choice_rows:,} of them (kernel methods alone {CHOICE_ROWS:,}, linear classifiers alone "
            f"all); calibration and thresholds used predictions for all rows, and the models were fitted to {fitted} "
            "rows."
        )

    def __str__(self) -> str:
        if self.exact:
            return f"{self.rows:,} rows: kernels are exact."
        return (
            f"{self.rows:,} rows: models that predict held-out domains are fitted to "
            f"{min(self.choice_rows, self.rows):,} rows with kernels, else to "
            f"{min(self.classifier_choice_rows, self.rows):,} rows; the model is fitted to "
            f"{min(self.fit_rows, self.rows):,} rows, with kernels through at most {self.landmarks:,} landmarks."
        )
