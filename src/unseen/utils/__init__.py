"""Utilities shared by all packages: validation, samples, optional imports, files, long jobs."""
