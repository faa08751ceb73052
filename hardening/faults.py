"""Full disks, read-only folders, files that vanish, clocks set back, runs that share a file, lost workers.

What was seen of a group of faults is kept in a file of the system's temporary folder when it is done: stop this and run
it again to continue. ``python -m hardening.faults disks`` runs one group alone, and leaves what it saw there.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.measure import Row

from ._bench import BLOCK, Bench, Seen
from ._cluster_faults import SECONDS, lose
from ._command import Zygote, mounted, read_only, say
from ._jobs import FEATURES, JOBS, NETWORK, Job, columns, copy_home

DIAGNOSE = ("--permutations", "19", "--report", "d.html", "--figure", "d.png")
DIAGNOSIS = Job("diagnose", "diagnose", ("diagnose", "train.csv", *columns(*DIAGNOSE)), ("d.html", "d.png"))
PHOTOGRAPHS = next(job for job in JOBS if job.name == "compare photographs")
WRITERS = (*(job for job in JOBS if job.every == 1), PHOTOGRAPHS, DIAGNOSIS)
SMALL = ("compare", "train.csv", *columns("--methods", "1-NN,logistic", "--quick", "--jobs", "1"))
ALONE = (*SMALL, "--store", "r.sqlite", "--format", "json")
PAIR = Job("compare without a report", "compare", ALONE, (), ("r.sqlite",))
ELSEWHERE = ("-o", "../tmp/f.parquet", "--store", "c.sqlite")
KEEPERS = (PAIR, Job("extract to elsewhere", "extract", ("extract", "photos", *NETWORK, *ELSEWHERE), (), FEATURES))
DISK = 40.0  # megabytes, of which all but some is filled
TWICE, EXTRACTIONS = 50, 10  # pairs of runs that share a file


def full_disk(bench: Bench, job: Job, share: float, fault: str) -> None:
    """A disk with room for a share of what a job writes."""
    bench.reference(job)
    place = bench.place()
    with mounted(place.folder, DISK):
        copy_home(bench.root / "home", place)
        free = shutil.disk_usage(place.folder).free - int(share * bench.sizes[job.name])
        filler = place.folder / "filler"
        with filler.open("wb") as file:
            for _ in range(free // BLOCK):
                file.write(bytes(BLOCK))
        run = bench.zygote.start(place, job.args)
        bench.ended(fault, job, run, place, says="disk is full")
        filler.unlink()
        bench.again(fault, job, place)


def read_only_folder(bench: Bench, job: Job) -> None:
    """A folder into which nobody may write."""
    fault = "read-only folder"
    bench.reference(job)
    place = bench.place()
    with mounted(place.folder, DISK):
        copy_home(bench.root / "home", place)
        with read_only(place.folder):
            bench.ended(fault, job, bench.zygote.start(place, job.args), place, says="writ|read-?only|opened")
        bench.again(fault, job, place)


def removed(bench: Bench, job: Job, name: str, at: float) -> None:
    """A file that vanishes at a moment when a run reads or writes, some way through all such moments."""
    bench.reference(job)
    place = bench.filled()
    counted = bench.zygote.start(place, job.args, moments=str(place.told / "all"), pause_at=None, reads=True)
    assert counted.wait() == 0, counted.err
    moments = len((place.told / "all").read_text().splitlines())
    place = bench.filled()
    told = place.told / "moments"
    run = bench.zygote.start(place, job.args, moments=str(told), pause_at=int(at * moments), reads=True)
    while not Path(f"{told}.paused").exists():
        assert not run.ended(0.02), run.err
    path, aside = place.folder / name, place.root / "aside"
    path.rename(aside)
    Path(f"{told}.go").touch()
    case = replace(job, name=f"{job.name} without {name}")
    well = bench.ended(REMOVED, case, run, place, says=re.escape(Path(name).name))
    if well and path.suffix == ".png":  # it is left out, and said to be
        listed = (place.folder / "f.skipped.csv").read_text()
        bench.seen[REMOVED].bad("unclear", name not in listed, case, listed)
    elif well:
        bench.seen[REMOVED].bad("unclear", path.suffix == ".sqlite", case, "nobody was told that results are lost")
        bench.compare(REMOVED, job, run, place)
    if not path.exists():
        aside.rename(path)
    bench.again(REMOVED, job, place)


REMOVED = "file removed in mid-run"
VANISHING = (
    ("compare", "train.csv", 0.5),
    ("compare", "r.sqlite", 0.5),
    ("fit a folder", "parts/part-1.csv", 0.2),
    ("fit a folder", "parts/part-1.csv", 0.5),
    ("fit a folder", "parts/part-2.csv", 0.6),
    ("predict text", "new.csv", 0.2),
    ("predict Parquet", "new.csv", 0.5),
    ("predict Parquet", "given.unseen", 0.5),
    ("extract", "photos/riga/leaf/23.png", 0.1),
    ("extract", "c.sqlite", 0.4),
    ("extract", "net.onnx", 0.4),
)


def set_back(bench: Bench, job: Job) -> None:
    """A clock that jumps back by an hour, twenty times a second."""
    fault = "clock set back"
    bench.reference(job)
    place = bench.filled()
    run = bench.zygote.start(place, job.args, set_back=3600.0)
    if bench.ended(fault, job, run, place):
        bench.compare(fault, job, run, place)
    negative = re.findall(r"-\d[\d.]* (?:s|min|h)\b|\"seconds\": -", run.err + run.out)
    bench.seen[fault].bad("unclear", negative, f"{fault}, {job}", negative)


def two_at_once(bench: Bench, other: Zygote, job: Job, times: int) -> None:
    """Two runs of a job in one folder, a fraction of a second apart."""
    fault, rng = f"two runs on one file, {times} times {job.command}", np.random.default_rng(0)
    bench.reference(job)
    for number in range(times):
        place = bench.filled()
        runs = [bench.zygote.start(place, job.args)]
        runs[0].ended(float(rng.uniform(0, 0.3)))
        runs.append(other.start(place, job.args))
        for run in runs:
            well = bench.ended(fault, job, run, place)
            bench.seen[fault].bad("unclear", not well or "locked" in run.err, fault, run.err)
        for run in runs:
            bench.compare(fault, job, run, place)
        if number % 10 == 9:
            say(f"faults: {fault}: {number + 1}")


def disks(bench: Bench) -> None:
    """Disks without room, and folders into which nobody may write."""
    for job in WRITERS:
        full_disk(bench, job, 0.0, "disk full at the start")
        full_disk(bench, job, 0.4, "disk full in mid-run")
        say(f"faults: disks of {job}")
    for job in (*WRITERS, *KEEPERS):
        read_only_folder(bench, job)


def files(bench: Bench) -> None:
    """Files that vanish."""
    jobs = {job.name: job for job in WRITERS}
    for name, path, at in VANISHING:
        removed(bench, jobs[name], path, at)


def clocks(bench: Bench) -> None:
    """Clocks that go back."""
    for job in WRITERS:
        set_back(bench, job)


def pairs(bench: Bench) -> None:
    """Runs that share a file."""
    with Zygote() as other:
        two_at_once(bench, other, PAIR, TWICE)
        two_at_once(bench, other, next(job for job in WRITERS if job.command == "extract"), EXTRACTIONS)


GROUPS: dict[str, Callable[[Bench], None]] = {
    "disks": disks, "files": files, "clocks": clocks, "pairs": pairs, "clusters": lose,
}  # fmt: skip


def state_of(group: str) -> Path:
    """Where what was seen of a group is kept."""
    return Path(tempfile.gettempdir(), f"unseen-faults-{group}.json")


def seen_of(group: str) -> dict[str, Seen]:
    """What comes of a group of faults, now or in an earlier run that was stopped; less where none can be mounted."""
    if not state_of(group).exists():
        with tempfile.TemporaryDirectory() as folder, Zygote() as zygote:
            bench = Bench(Path(folder), zygote)
            try:
                GROUPS[group](bench)
            except PermissionError as error:
                say(f"faults: {group}: skipped, since {error}")
        state_of(group).write_text(json.dumps({fault: vars(seen) for fault, seen in bench.seen.items()}))
    kept = json.loads(state_of(group).read_text())
    return {fault: Seen(**{**seen, "counts": Counter(seen["counts"])}) for fault, seen in kept.items()}


def rows() -> Iterator[Row]:
    total, cases = Counter[str](), 0
    for group in GROUPS:
        for fault, seen in seen_of(group).items():
            yield _row(fault, seen)
            if seen.seconds:
                yield Row(f"{fault}: seconds until that is told", seen.seconds, SECONDS, True, "the slowest command")
            total, cases = total + seen.counts, cases + len(seen.cases)
    for kind, claim in CLAIMS:
        yield Row(claim, total[kind], 0, True, f"{cases} cases of the faults above")
    for group in GROUPS:
        state_of(group).unlink()


def _row(fault: str, seen: Seen) -> Row:
    names = ", ".join(dict.fromkeys(seen.cases))
    told = f"{len(seen.cases)} cases, {seen.in_spite} of which ended well in spite of it: {names}"
    return Row(f"{fault}: ended otherwise than well or with a clear error", seen.counts["unclear"], 0, True, told)


CLAIMS = (
    ("half-written", "files half-written under their final name"),
    ("wrong", "wrong, or different, once the fault was mended"),
    ("left", "files left behind once the fault was mended"),
)

if __name__ == "__main__":
    for asked in sys.argv[1:]:
        seen_of(asked)
