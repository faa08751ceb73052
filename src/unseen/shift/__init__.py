"""How the domains differ, before any modelling: permutation tests of P(Y), P(X) and P(X|Y)."""

from ._diagnose import diagnose
from ._diagnosis import ClassShift, Diagnosis, Shift

__all__ = ["ClassShift", "Diagnosis", "Shift", "diagnose"]
