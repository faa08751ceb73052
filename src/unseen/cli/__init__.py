"""The ``unseen`` command."""

from __future__ import annotations

import io
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command; without the `cli` extra, say how to install it."""
    received = _clean_up_when_terminated()
    _replace_unencodable_characters()
    try:
        from ._app import app
    except ImportError as error:
        sys.exit(f"The unseen command needs its extra ({error}): pip install 'unseen[cli]'")
    try:
        app()
    finally:
        if received:  # extension modules turn an exit while they are imported into an ImportError
            sys.exit(128 + received[0])


def _clean_up_when_terminated() -> list[int]:
    """Exit through Python when terminated or when the terminal is closed; return the list of such signals.

    By default these signals end a process at once: temporary files, worker processes and shared memory would remain.
    A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    """
    received: list[int] = []

    def exit_now(number: int, _: FrameType | None) -> None:
        received.append(number)
        sys.exit(128 + number)  # as a shell reports it

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, exit_now)
    return received


def _replace_unencodable_characters() -> None:
    """Print a question mark for a character that standard output cannot encode, such as Greek letters in ASCII.

    Standard error never fails: Python escapes such characters there.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
