"""Long test runs that try to break the package: ``python -m hardening [kills|faults|fuzz|degenerate]``."""
