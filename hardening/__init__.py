"""Campaigns that try to break the package; each prints its figures and keeps them for the documentation."""
