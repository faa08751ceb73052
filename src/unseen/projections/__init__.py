"""Projections onto components that tell classes apart and domains not: one file per method."""

from ._cidg import CIDG
from ._dica import DICA
from ._kfda import KFDA
from ._mda import MDA
from ._sca import SCA

__all__ = ["CIDG", "DICA", "KFDA", "MDA", "SCA"]
