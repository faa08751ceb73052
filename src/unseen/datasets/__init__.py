"""Data sets with domains."""

from ._folder import load_folder
from ._office_caltech import fetch_office_caltech, load_office_caltech_folder
from ._rotated_digits import load_digits_table, load_rotated_digits
from ._synthetic import make_synthetic
from ._vlcs import load_vlcs, load_vlcs_folder

__all__ = [
    "fetch_office_caltech",
    "load_digits_table",
    "load_folder",
    "load_rotated_digits",
    "load_vlcs",
    "make_synthetic",
]
# For other rooms, and for nobody else.
__all__ += ["load_office_caltech_folder", "load_vlcs_folder"]
