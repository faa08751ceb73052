"""A place where faults happen, what jobs give where nothing does, and what is seen."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ._command import LONG, Place, Run, Zygote, names_in, say
from ._contents import Rows, content_of, differences, final
from ._jobs import Job, copy_home, make_home

BLOCK = 4096  # bytes, of which the files of a small disk have whole ones
CLEAR = re.compile(r"^(Error|Failed): .+", re.MULTILINE)


@dataclass
class Seen:
    """What came of a fault, in all the cases of it."""

    cases: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    in_spite: int = 0
    seconds: float = 0.0  # until it was told that a cluster is lost, at most

    def bad(self, kind: str, wrong: object, case: object, what: object) -> None:
        """Something that should not be."""
        if wrong:
            self.counts[kind] += 1
            say(f"  {case}: {kind}: {what}")


class Bench:
    """A place where faults happen, and what jobs give where nothing does."""

    def __init__(self, root: Path, zygote: Zygote) -> None:
        self.root, self.zygote = root, zygote
        (root / "home").mkdir()
        make_home(root / "home", zygote)
        self.expected: dict[str, dict[str, Rows]] = {}
        self.names: dict[str, set[str]] = {}
        self.sizes: dict[str, int] = {}
        self.seen: dict[str, Seen] = {}

    def place(self) -> Place:
        """A fresh one, without data; always at the same path, as paths are part of what is written."""
        shutil.rmtree(self.root / "place", ignore_errors=True)
        return Place(self.root / "place")

    def filled(self) -> Place:
        """A fresh one, with what jobs read."""
        place = self.place()
        copy_home(self.root / "home", place)
        return place

    def reference(self, job: Job) -> dict[str, Rows]:
        """What a job gives."""
        if job.name not in self.expected:
            place = self.filled()
            before = names_in(place.folder)
            run = self.zygote.start(place, job.args)
            assert run.wait() == 0, run.err
            self.names[job.name] = names_in(place.folder)
            made = [place.folder / name for name in self.names[job.name] - before]
            self.sizes[job.name] = sum(-(-path.stat().st_size // BLOCK) * BLOCK for path in made)
            self.expected[job.name] = final(job, place.folder, run.out)
        return self.expected[job.name]

    def ended(self, fault: str, job: Job, run: Run, place: Place, says: str = "") -> bool:
        """Check that a run ended well, or with a clear error; whether it ended well."""
        seen = self.seen.setdefault(fault, Seen())
        seen.cases.append(job.name)
        try:
            code = run.wait(LONG)
        except TimeoutError as error:
            seen.bad("unclear", True, f"{fault}, {job}", error)
            return False
        if code == 0:
            seen.in_spite += 1
        else:
            told = CLEAR.findall(run.err)
            clear = code in (1, 2) and told and "Traceback" not in run.err and re.search(says, run.err, re.IGNORECASE)
            seen.bad("unclear", not clear, f"{fault}, {job}", f"exit code {code}: {run.err}")
            say(f"  {fault}, {job}: {run.err.strip().splitlines()[-1] if run.err.strip() else code}")
        for name in job.makes:
            path = place.folder / name
            try:
                seen.bad("half-written", path.exists() and not content_of(path), f"{fault}, {job}", name)
            except Exception as error:  # whatever a reader of a broken file stumbles over
                seen.bad("half-written", True, f"{fault}, {job}", f"{name}: {error!r}")
        return code == 0

    def compare(self, fault: str, job: Job, run: Run, place: Place) -> None:
        """Check that a run gave what it should, and left nothing else."""
        seen, expected = self.seen[fault], self.expected[job.name]
        code = run.wait()
        seen.bad("wrong", code != 0, f"{fault}, {job}, mended", f"exit code {code}: {run.err}")
        if code == 0:
            wrong = differences(expected, final(job, place.folder, run.out))
            seen.bad("wrong", wrong.total(), f"{fault}, {job}", dict(wrong))
            left = names_in(place.folder) - self.names[job.name]
            seen.bad("left", left, f"{fault}, {job}", left)

    def again(self, fault: str, job: Job, place: Place) -> None:
        """After the fault was mended, the same command gives what it should."""
        self.compare(fault, job, self.zygote.start(place, job.args), place)
