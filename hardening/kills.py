"""Commands that are killed at random moments, half of them while they write, and taken up again.

What was seen is kept in a file of the system's temporary folder after each job: stop this and run it again to continue.
``python -m hardening.kills compare`` kills one command alone, and leaves what it saw there.
"""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
from benchmarks.measure import Row

from ._command import GRACE, Place, Run, Zygote, names_in, outlived, say
from ._contents import Rows, content_of, differences, final, kept_rows
from ._jobs import JOBS, OLD, Job, copy_home, make_home

EACH = 50  # kills of each command
IN_A_ROW = (1, 2, 1, 3)  # of one job before it is let go on to its end
SIGNALS = (signal.SIGKILL, signal.SIGTERM)


@dataclass
class Reference:
    """A run that nobody disturbed."""

    rows: dict[str, Rows]
    contents: dict[str, object]
    names: set[str]
    temporary: set[str]
    moments: list[str]
    seconds: float


@dataclass
class Tally:
    """What was seen."""

    kills: Counter[str] = field(default_factory=Counter)  # by the signal
    moments: Counter[str] = field(default_factory=Counter)  # of those while something was written
    counts: Counter[str] = field(default_factory=Counter)
    jobs: int = 0  # that were killed and went on to their end
    kept: int = 0

    def bad(self, kind: str, count: int, where: object, what: object) -> None:
        """Something that should not be."""
        if count:
            self.counts[kind] += count
            say(f"  {where}: {kind}: {what}")

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @classmethod
    def read(cls, path: Path) -> Tally:
        """What was kept of an earlier run."""
        if not path.exists():
            return cls()
        kills, moments, counts, *numbers = json.loads(path.read_text())
        return cls(Counter(kills), Counter(moments), Counter(counts), *numbers)

    def keep(self, path: Path) -> None:
        """Keep it, whole or not at all."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps([getattr(self, one.name) for one in fields(self)]))
        part.replace(path)


def state_of(command: str) -> Path:
    """Where what was seen of a command is kept."""
    return Path(tempfile.gettempdir(), f"unseen-kills-{command}.json")


class Campaign:
    """All of it, in one folder; every job works at the same place, as paths are part of what is written."""

    def __init__(self, root: Path, zygote: Zygote) -> None:
        self.root, self.zygote = root, zygote
        self.home = root / "home"
        self.home.mkdir()
        make_home(self.home, zygote)
        self.rng, self.tally = np.random.default_rng(0), Tally()  # of the command at hand

    def place(self) -> Place:
        """A fresh one."""
        shutil.rmtree(self.root / "place", ignore_errors=True)
        place = Place(self.root / "place")
        copy_home(self.home, place)
        return place

    def reference(self, job: Job) -> Reference:
        """Run a job undisturbed, and note when it writes."""
        place = self.place()
        before, told, start = names_in(place.folder), place.told / "moments", time.monotonic()
        run = self.zygote.start(place, job.args, moments=str(told), pause_at=None)
        assert run.wait() == 0, run.err
        seconds = time.monotonic() - start
        contents = {name: content_of(place.folder / name) for name in job.makes}
        made = names_in(place.folder) - before
        assert made >= {*job.makes, *job.keeps}, f"{job} makes {made}"
        rows = final(job, place.folder, run.out)
        moments = told.read_text().splitlines()
        return Reference(rows, contents, names_in(place.folder), names_in(place.temporary), moments, seconds)

    def kill(self, job: Job, reference: Reference, place: Place, number: int, first: bool) -> bool:
        """Kill a run of a job; False if it ended before that."""
        how, told = SIGNALS[number // 2 % 2], place.told / f"moments-{place.runs}"
        writing = number % 2 == 0 or number % 10 == 9
        if writing:
            names = sorted(set(reference.moments))
            name = names[self.rng.integers(len(names))]
            at = int(self.rng.choice([i for i, moment in enumerate(reference.moments) if moment == name]))
            at = at if first else int(self.rng.integers(at + 1))  # what was done is not written again
            run = self.zygote.start(place, job.args, moments=str(told), pause_at=at, torn=True)
            paused = Path(f"{told}.paused")
            while not paused.exists():
                if run.ended(0.01):
                    return False
        else:
            run = self.zygote.start(place, job.args)
            if run.ended(float(self.rng.uniform(0, reference.seconds))):
                return False
        run.signal(how)
        self.check_end(job, run, how, place)
        if run.wait() == 0:
            return False  # it was faster
        self.tally.kills[how.name] += 1
        if writing:
            self.tally.moments[paused.read_text().strip()] += 1
        return True

    def check_end(self, job: Job, run: Run, how: int, place: Place) -> None:
        """A run ends at once, says nothing strange, and takes its workers and temporary files with it."""
        if not run.ended(GRACE):
            self.tally.bad("late", 1, job, run.err)
            run.signal(signal.SIGKILL)
        code = run.wait()
        self.tally.bad("codes", code not in (-how, 128 + how, 0), job, f"exit code {code}")
        self.tally.bad("tracebacks", "Traceback" in run.err, job, run.err)
        left = outlived(run)
        self.tally.bad("orphans", len(left), job, left)
        left = [str(path.name) for path in place.folder.glob(".unseen-*")]
        if how == signal.SIGTERM:
            self.tally.bad("terminated", len(left), job, left)
        for name in left:  # of a run that SIGKILL has ended, which nothing removes
            shutil.rmtree(place.folder / name)

    def check_state(self, job: Job, reference: Reference, place: Place, old: bool) -> dict[str, Rows]:
        """What has a final name is whole; the rows that are kept are right. These are returned."""
        for name in job.makes:
            path = place.folder / name
            if not path.exists() or (old and path.read_bytes() == OLD):
                continue
            try:
                whole = content_of(path) == reference.contents[name]
            except Exception as error:  # whatever a reader of a broken file stumbles over
                whole = False
                say(f"  {job}: {name}: {error!r}")
            self.tally.bad("half-written", not whole, job, name)
        kept = {name: kept_rows(place.folder / name) for name in job.keeps if (place.folder / name).exists()}
        for name, rows in kept.items():
            wrong = [key for key, (value, _) in rows.items() if reference.rows[name].get(key) != value]
            self.tally.bad("different", len(wrong), job, wrong)
            self.tally.kept += len(rows)
        return kept

    def resume(self, job: Job, reference: Reference, place: Place, kept: dict[str, Rows]) -> None:
        """Run a job to its end, and compare all that there is then."""
        run = self.zygote.start(place, job.args)
        code = run.wait()
        self.tally.bad("codes", code != 0, job, f"taken up again: exit code {code}: {run.err}")
        if code != 0:
            return
        for kind, count in differences(reference.rows, final(job, place.folder, run.out)).items():
            self.tally.bad(kind, count, job, "rows")
        for name, rows in kept.items():
            again = kept_rows(place.folder / name)
            redone = [key for key, (_, seconds) in rows.items() if key not in again or again[key][1] != seconds]
            self.tally.bad("done again", len(redone), job, redone)
        left = names_in(place.folder) - reference.names
        left |= names_in(place.temporary) - reference.temporary
        self.tally.bad("orphans", len(left), job, left)
        left_running = outlived(run)
        self.tally.bad("orphans", len(left_running), job, left_running)

    def run(self, command: str) -> Tally:
        """All kills of a command, or those that are missing."""
        self.tally = Tally.read(state_of(command))
        if self.tally.kills.total() >= EACH:
            return self.tally
        jobs = [job for job in JOBS if job.command == command]
        references = {job: self.reference(job) for job in jobs}
        turns = (job for turn in itertools.count() for job in jobs if turn % job.every == 0)
        for number, job in enumerate(itertools.islice(turns, self.tally.jobs, None), self.tally.jobs):
            if self.tally.kills.total() >= EACH:
                break
            self.rng = np.random.default_rng([len(command), number])
            self.one_job(job, references[job], number)
            self.tally.jobs += 1
            self.tally.keep(state_of(command))
            say(f"kills: {self.tally.kills.total()}/{EACH} of {job}")
        return self.tally

    def one_job(self, job: Job, reference: Reference, number: int) -> None:
        """Kill a job once or a few times, and let it go on to its end."""
        place, old, kept = self.place(), number % 2 == 1, dict[str, Rows]()
        for name in job.makes if old else ():
            (place.folder / name).write_bytes(OLD)
        for k in range(IN_A_ROW[number % len(IN_A_ROW)]):
            done = self.tally.kills.total()
            if done < EACH and self.kill(job, reference, place, done, first=k == 0):
                kept = self.check_state(job, reference, place, old)
        self.resume(job, reference, place, kept)


def tallies(commands: Sequence[str]) -> dict[str, Tally]:
    """What was seen of some commands."""
    with tempfile.TemporaryDirectory() as root, Zygote() as zygote:
        campaign = Campaign(Path(root), zygote)
        return {command: campaign.run(command) for command in commands}


def rows() -> Iterator[Row]:
    seen = tallies(COMMANDS)
    total = sum(seen.values(), Tally())
    each = ", ".join(f"{command} {tally.kills.total()}" for command, tally in seen.items())
    how = ", ".join(f"{name} {count}" for name, count in sorted(total.kills.items()))
    yield Row("kills", total.kills.total(), 4 * EACH, False, f"{each}; {how}; {total.jobs} jobs, 1 to 3 kills of each")
    where = ", ".join(f"{name} {count}" for name, count in total.moments.most_common())
    yield Row("kills while something was being written", total.moments.total(), 2 * EACH, False, where)
    for kind, claim, detail in CLAIMS:
        yield Row(claim, total.counts[kind], 0, True, detail.format(kept=total.kept))
    for command in COMMANDS:
        state_of(command).unlink()


COMMANDS = tuple(dict.fromkeys(job.command for job in JOBS))
CLAIMS = (
    ("lost", "rows lost", "results, features, predictions and models, against a run that nobody disturbed"),
    ("doubled", "rows doubled", "the same"),
    ("different", "rows different", "the same, but for seconds and dates; in models, every number"),
    ("done again", "rows that were kept and done again", "{kept} rows had been kept at the moments of the kills"),
    ("half-written", "files half-written under their final name", "looked at after each kill"),
    (
        "orphans",
        "orphans",
        "processes and shared memory after each kill; files and folders after each resumed run, "
        "but for the temporary folder of a run that SIGKILL ended",
    ),
    ("terminated", "temporary files after SIGTERM", "looked at after each of them"),
    ("late", f"runs that took more than {GRACE} s to end", "after either signal"),
    ("codes", "exit codes other than the signal's, or 0 of resumed runs", ""),
    ("tracebacks", "tracebacks", "on standard error"),
)

if __name__ == "__main__":
    tallies(sys.argv[1:])
