"""Data sets with domains: loaders, and a generator of synthetic data."""

from ._embedded import load_digits_table, load_hospitals, load_penguins, load_rotated_digits, make_synthetic
from ._office_caltech import fetch_office_caltech
from ._vlcs import load_vlcs

__all__ = [
    "fetch_office_caltech",
    "load_digits_table",
    "load_hospitals",
    "load_penguins",
    "load_rotated_digits",
    "load_vlcs",
    "make_synthetic",
]
