"""Tests in child processes, which share what their parent has collected; each child has a limit of time."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from coverage import Coverage

LIMIT = "the limit of time"
QUIET = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
PHASES = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # what fails need not be made small
SETTINGS = {"derandomize": True, "database": None, "deadline": None, "max_examples": 20, "phases": PHASES}
hypothesis.settings.register_profile("mutation", **SETTINGS)


class Session:
    """A plugin of pytest: measures tests, or, with `work`, has that done with the tests that were collected."""

    def __init__(
        self, work: Callable[[Session, dict[str, Any]], Any] | None = None, watched: Iterable[Path] = ()
    ) -> None:
        self.work, self.seconds, self.failed = work, dict[str, float](), ["import"]
        self.coverage = Coverage(data_file=None, config_file=False, include=[str(path) for path in watched])

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run tests, or do the work."""
        self.failed = []
        return None if self.work is None else not self.work(self, {item.nodeid: item for item in session.items})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Run one test, and measure it."""
        if self.work is None:
            self.coverage.switch_context(item.nodeid)
        start, done = time.process_time(), (yield)
        self.seconds[item.nodeid] = time.process_time() - start
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what fails; and, while measuring, what is skipped."""
        self.failed += [report.nodeid] * (report.failed if self.work else not report.passed)

    def run(self, items: list[Any]) -> None:
        """Run tests, up to the first that fails."""
        for item, following in zip(items, [*items[1:], None], strict=False):
            if not self.failed:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def collect(self, files: Iterable[str]) -> Session:
        """Have pytest collect the tests of files."""
        with tempfile.TemporaryDirectory() as folder:
            how = [*QUIET, "--hypothesis-profile=mutation", f"--basetemp={folder}/tests"]
            if pytest.main([*how, *files], plugins=[self]) == pytest.ExitCode.INTERNAL_ERROR:
                raise RuntimeError("pytest itself failed; what it printed says why.")
        return self


def forked(
    jobs: list[Any], work: Callable[[Any], str], seconds: Callable[[Any], float], jobs_at_once: int
) -> Iterator[tuple[Any, str]]:
    """What the work on each job says, in a child of its own that may take three times its usual seconds, and five."""
    waiting, running = jobs[::-1], dict[int, tuple[Any, int]]()
    while waiting or running:
        while waiting and len(running) < jobs_at_once:
            job, (reader, writer) = waiting.pop(), os.pipe()
            if not (child := os.fork()):
                _answer(writer, work, job, int(5 + 3 * seconds(job)))
            os.close(writer)
            running[child] = job, reader
        child, status = os.wait()
        job, reader = running.pop(child)
        with open(reader) as said, suppress(ProcessLookupError):
            answer = said.read()
            os.killpg(child, signal.SIGKILL)  # what its tests have left behind
        if os.WIFEXITED(status) and status:
            raise RuntimeError(f"no answer about {job}")
        yield job, answer if not status else LIMIT


def _answer(writer: int, work: Callable[[Any], str], job: Any, limit: int) -> None:
    """Do the work in this child, and end it."""
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        signal.alarm(20 * limit)  # in case it waits for something
        os.write(writer, work(job).encode())
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def hush() -> None:
    """Nobody reads what the tests of a child print."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    [os.dup2(nowhere, stream) for stream in (1, 2)]
