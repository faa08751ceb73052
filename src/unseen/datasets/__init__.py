"""Data sets with domains."""

from ._synthetic import make_synthetic

__all__ = ["make_synthetic"]
