"""Comparisons on data of one's own: a table, a verdict in words, and a report."""

from ._compare import Comparison, compare

__all__ = ["Comparison", "compare"]
