"""Warnings that a user may want to filter by name."""

import sys
import warnings


class SingleDomainWarning(UserWarning):
    """All samples come from one domain, so there is no shift between domains to learn from."""


class FewerComponentsWarning(UserWarning):
    """The data support fewer components than were asked for."""


class MaskedLabelsWarning(UserWarning):
    """A domain has no label but -1, by which other libraries mean that its labels are masked."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that called this package, however deep the reason lies and whoever passed the call on."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("unseen", "sklearn", "joblib"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
