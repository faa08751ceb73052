"""How the domains differ, before any modelling: permutation tests of P(Y), P(X) and P(X|Y)."""

from ._diagnose import diagnose
from ._diagnosis import ClassShift, Diagnosis, Shift
from ._novelty import Novelty, NoveltyResult

__all__ = ["ClassShift", "Diagnosis", "Novelty", "NoveltyResult", "Shift", "diagnose"]
# For other rooms, and for nobody else.
__all__ += []
