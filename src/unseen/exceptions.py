"""Warnings that users can filter, errors that callers can catch, and filters of warnings in several threads."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


class SingleDomainWarning(UserWarning):
    """All samples come from one domain, so that no shift between domains can be learned."""


class FewerComponentsWarning(UserWarning):
    """The data support fewer components than requested."""


class MaskedLabelsWarning(UserWarning):
    """All labels of a domain are -1, which other libraries use for masked labels."""


class CoverageWarning(UserWarning):
    """The coverage of prediction sets is below 0.9, because fewer than 9 domains were held out."""


class DataWarning(UserWarning):
    """An assumption that was made in reading a table, or a limitation of the training data."""


class NewDataWarning(UserWarning):
    """New data differ from the training data in a way that affects predictions."""


class ParameterError(ValueError):
    """A parameter has a value that is not allowed.

    Parameters
    ----------
    parameter : str
        Name of the parameter.
    message : str
        Sentences that begin with the name.
    """

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(parameter, message)
        self.parameter = parameter
        self.message = message

    def __str__(self) -> str:
        return self.message


# Ways to avoid a SmallBatchError, in terms of Python parameters.
REMEDIES = {
    "batch": "predict at least {min_rows} rows of each new domain at once",
    "inductive": "fit with transductive=False",
    "source": "name a source domain in sample_domain",
}


class SmallBatchError(ValueError):
    """A transductive model received too few rows of a new domain.

    Parameters
    ----------
    domain : object
        Name of the domain; None if the rows have no names.
    rows : int
        Number of its rows.
    min_rows : int
        Number of rows that are needed.
    remedies : sequence of str
        Which of "batch", "inductive" and "source" avoid the error.
    """

    def __init__(self, domain: object, rows: int, min_rows: int, remedies: tuple[str, ...]) -> None:
        super().__init__(domain, rows, min_rows, remedies)
        self.domain = domain
        self.rows = rows
        self.min_rows = min_rows
        self.remedies = remedies

    @property
    def problem(self) -> str:
        """The problem, without advice."""
        subject = "The new domain" if self.domain is None else f"Domain {self.domain!r}"
        return (
            f"{subject} has {self.rows} row{'s' * (self.rows != 1)}, but a transductive prediction depends on the "
            f"other rows of the domain and needs at least {self.min_rows} of them."
        )

    def advice(self, remedies: dict[str, str]) -> str:
        """Return the advice, with the given texts of remedies."""
        texts = [remedies[name].format(min_rows=self.min_rows) for name in self.remedies]
        text = ", ".join(texts[:-1]) + (" or " if len(texts) > 1 else "") + texts[-1]
        return f"{text[0].upper()}{text[1:]}."

    def __str__(self) -> str:
        return f"{self.problem} {self.advice(REMEDIES)}"


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called this package, also through scikit-learn or joblib."""
    level = 1
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("unseen", "sklearn", "joblib"):
        level += 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)


class SharedContext:
    """A process-wide setting shared by threads: the first to enter applies it, the last to leave restores it.

    If each thread saved and restored the setting, one could undo what another still relies on.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._n_inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._setting = self._make()
                self._setting.__enter__()
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._setting.__exit__(None, None, None)


_FILTERS = SharedContext(warnings.catch_warnings)


@contextmanager
def ignore_warnings(*kinds: type[Warning] | tuple[type[Warning], str]) -> Iterator[None]:
    """Ignore warnings of categories, or of (category, message) pairs, whose message must match at the start.

    If several threads or nested calls ignore warnings, filters remain active until the last of them ends.
    """
    with _FILTERS:
        for kind in kinds:
            category, message = kind if isinstance(kind, tuple) else (kind, "")
            warnings.filterwarnings("ignore", message, category)
        yield
