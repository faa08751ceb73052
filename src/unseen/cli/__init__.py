"""The ``unseen`` command."""

from __future__ import annotations

import io
import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command, or exit with a message that names the `cli` extra if it is not installed."""
    received = _clean_up_when_stopped()
    _replace_unencodable_characters()
    try:
        try:
            from ._app import app
        except ImportError as error:
            if received:  # an exception during the import of an extension module becomes an ImportError
                raise KeyboardInterrupt from error
            sys.exit(f"The unseen command needs the extra 'cli' ({error}). Install it: pip install 'unseen[cli]'")
        app()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    finally:
        if received and received[0] != signal.SIGINT:
            sys.exit(128 + received[0])


def _clean_up_when_stopped() -> list[int]:
    """Exit through Python on SIGINT, SIGTERM and SIGHUP; return a list to which a received signal is appended.

    By default the last two end a process immediately, and temporary files, worker processes and shared memory remain.
    A second signal ends the process without waiting for the clean-up. An ignored signal, such as SIGHUP under nohup,
    remains ignored.
    """
    received: list[int] = []

    def exit_now(number: int, _: FrameType | None) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)  # the exit code that a shell reports

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, exit_now)
    return received


def _replace_unencodable_characters() -> None:
    """Print a question mark for each character that standard output cannot encode, such as a Greek letter in ASCII.

    Standard error needs no such setting: Python escapes these characters there.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
