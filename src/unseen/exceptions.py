"""Warnings that a user may want to filter by name, and errors that a caller may want to catch by name."""

from __future__ import annotations

import sys
import warnings


class SingleDomainWarning(UserWarning):
    """All samples come from one domain, so there is no shift between domains to learn from."""


class FewerComponentsWarning(UserWarning):
    """The data support fewer components than were asked for."""


class MaskedLabelsWarning(UserWarning):
    """A domain has no label but -1, by which other libraries mean that its labels are masked."""


class CoverageWarning(UserWarning):
    """Prediction sets have a lower coverage than 0.9, because fewer than 9 domains were held out."""


class NewDataWarning(UserWarning):
    """New data differ from the training data in a way that predictions suffer from."""


# How a caller can avoid a SmallBatchError, in terms of Python parameters.
REMEDIES = {
    "batch": "predict at least {fewest} rows of each new domain at once",
    "inductive": "fit with transductive=False",
    "source": "name a source domain in sample_domain",
    "center": 'predict with center="model"',
}


class SmallBatchError(ValueError):
    """A transductive model was given too few rows of a new domain to compare each of them with the others.

    Parameters
    ----------
    domain : object
        The name of the domain; None if the rows came without names.
    rows : int
        How many rows of it were given.
    fewest : int
        How many rows are needed.
    remedies : sequence of str
        Which of "batch", "inductive", "source" and "center" avoid the error.
    """

    def __init__(self, domain: object, rows: int, fewest: int, remedies: tuple[str, ...]) -> None:
        super().__init__(domain, rows, fewest, remedies)
        self.domain = domain
        self.rows = rows
        self.fewest = fewest
        self.remedies = remedies

    @property
    def problem(self) -> str:
        """What is wrong, without advice."""
        which = "The new domain" if self.domain is None else f"Domain {self.domain!r}"
        return (
            f"{which} has {self.rows} row{'s' * (self.rows != 1)}, but a transductive prediction depends on the other "
            f"rows of the domain and needs at least {self.fewest} of them."
        )

    def advice(self, remedies: dict[str, str]) -> str:
        """What to do, in the given words."""
        ways = [remedies[name].format(fewest=self.fewest) for name in self.remedies]
        text = ", ".join(ways[:-1]) + (" or " if len(ways) > 1 else "") + ways[-1]
        return f"{text[0].upper()}{text[1:]}."

    def __str__(self) -> str:
        return f"{self.problem} {self.advice(REMEDIES)}"


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that called this package, however deep the reason lies and whoever passed the call on."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("unseen", "sklearn", "joblib"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
