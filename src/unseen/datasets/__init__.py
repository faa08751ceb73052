"""Data sets with domains."""

from ._folder import load_folder
from ._office_caltech import fetch_office_caltech, office_caltech_of
from ._rotated_digits import embedded, load_rotated_digits
from ._synthetic import make_synthetic
from ._vlcs import load_vlcs, vlcs_of

__all__ = ["embedded", "fetch_office_caltech", "load_folder", "load_rotated_digits", "load_vlcs", "make_synthetic"]
# For other rooms, and for nobody else.
__all__ += ["office_caltech_of", "vlcs_of"]
