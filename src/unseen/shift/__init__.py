"""How domains differ, before any modeling, and how far a new batch lies from those that are known.

`diagnose` tests P(Y), P(X) and P(X|Y) by permutation and gives a `Diagnosis`, in numbers, words and pictures; `Novelty`
measures new samples. Needs kernels, tables, and `report` to draw: nothing of methods.
"""

from ._diagnose import ClassShift, Diagnosis, Shift, diagnose
from ._novelty import Novelty, NoveltyResult

__all__ = ["ClassShift", "Diagnosis", "Novelty", "NoveltyResult", "Shift", "diagnose"]
