"""Broken files through every reader: each is read, or refused with an error of the package, in little time and memory.

``make fuzz`` gives 100,000 files: about ten minutes on two free cores. Stop it and run it again to continue, as long as
no source has changed. ``python -m hardening.fuzz READER [FIRST STOP]`` gives some to one reader, and shows what is
wrong. Inputs are made from their numbers, so that each can be made again; one that fails is also written to
``tests/corpus``, which the tests replay.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, machine

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "corpus"
# How many each reader gets: more where a file has more structure, fewer where reading one takes longer.
INPUTS = {
    "model": 20_000,
    "csv": 20_000,
    "parquet": 2_000,
    "arrow": 2_000,
    "npz": 16_000,
    "mat": 2_000,
    "mat73": 8_000,
    "image": 16_000,
    "network": 6_000,
    "results": 4_000,
    "features": 2_000,
    "folder": 2_000,
}
ALL = {reader: (0, n) for reader, n in INPUTS.items()}
PROCESSES = 2
PIECE = 5_000  # inputs that one process is given: what it has done is kept when it ends
CPU_SECONDS = 10.0  # for one input
IDLE_SECONDS, AT_WORK = 60.0, 0.2  # a process that has hardly used its CPU for so long waits for something
TICKS = os.sysconf("SC_CLK_TCK")


Plan = list[tuple[str, int, int, int]]  # readers, each with the first number, the end, and the step


@dataclass
class Tally:
    """What came of the inputs of one reader."""

    given: int = 0
    read: int = 0
    refused: int = 0
    peak: int = 0
    seconds: float = 0.0
    findings: list[dict[str, Any]] = field(default_factory=list)

    def add(self, lines: list[dict[str, Any]]) -> None:
        """Take in what a process has reported."""
        self.given += sum("at" in line for line in lines)
        for name in ("read", "refused", "seconds"):
            setattr(self, name, getattr(self, name) + sum(line[name] for line in lines if name in line))
        self.peak = max([self.peak, *(line["peak"] for line in lines if "peak" in line)])
        self.findings += [line for line in lines if "found" in line]


def share(plan: Plan) -> Iterator[list[dict[str, Any]]]:
    """The reports of a plan; a process that dies, or does not go on, is replaced by another for the rest of it."""
    while plan:
        with tempfile.TemporaryDirectory() as folder:
            report, said = Path(folder, "report"), Path(folder, "said")
            report.touch()
            ended = _watched([str(report), json.dumps(plan)], report, said)
            lines = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
            text = said.read_text(errors="replace")
        for _ in {line["reader"] for line in lines if "done" in line}:
            plan = plan[1:]
        if plan:
            last = lines[-1] if lines else {}
            if "at" not in last or last["reader"] != plan[0][0] or ended.startswith("exit"):
                raise RuntimeError(f"the fuzzing itself failed, not what it tries, at {plan[0]}:\n{text[-3000:]}")
            trace = re.sub(r"Extension modules:.*", "", text)[-3000:]
            kind = "hang" if ended == "hang" else "crash"
            told = {"reader": last["reader"], "found": last["at"], "kind": kind, "text": ended, "trace": trace}
            lines.append({**told, "peak": 0})
            reader, _, stop, step = plan[0]
            rest = [(reader, last["at"] + step, stop, step)] if last["at"] + step < stop else []
            plan = [*rest, *plan[1:]]
        yield lines


def _watched(arguments: list[str], report: Path, said: Path) -> str:
    """Run a worker until it ends, or until one input has taken too long; how it ended."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "POLARS_MAX_THREADS": "2", "RUST_BACKTRACE": "0"}
    command = [sys.executable, "-m", "hardening.fuzz_worker", *arguments]
    with said.open("wb") as output:
        worker = subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT, env=environment)
        size, since, before = -1, time.monotonic(), 0.0
        while worker.poll() is None:
            time.sleep(0.2)
            if report.stat().st_size != size:
                size, since, before = report.stat().st_size, time.monotonic(), _cpu_seconds(worker.pid)
            used, idle = _cpu_seconds(worker.pid) - before, time.monotonic() - since > IDLE_SECONDS
            if size and (used > CPU_SECONDS or (idle and used < AT_WORK)):
                os.kill(worker.pid, signal.SIGABRT)  # which makes it say where it was
                worker.wait()
                return "hang"
    return f"signal {-worker.returncode}" if worker.returncode < 0 else f"exit {worker.returncode}"


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def pieces(ranges: dict[str, tuple[int, int]]) -> list[Plan]:
    """The work in pieces of a few thousand inputs, of one reader or of several."""
    found: list[Plan] = [[]]
    room = PIECE
    for reader, (first, stop) in ranges.items():
        while first < stop:
            end = min(stop, first + room)
            found[-1].append((reader, first, end, 1))
            room, first = room - (end - first), end
            if not room:
                found.append([])
                room = PIECE
    return [plan for plan in found if plan]


def state_of(ranges: dict[str, tuple[int, int]]) -> Path:
    """Where the reports of pieces are kept: by all that they depend on, so that a run that was stopped goes on."""
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "hardening").glob("*.py"), ROOT / "tests" / "readers.py"]
    told = hashlib.sha256(json.dumps([sorted(machine()), ranges]).encode())  # libraries come in any order
    for source in sorted(sources):
        told.update(source.read_bytes())
    return Path(tempfile.gettempdir(), f"unseen-fuzz-{told.hexdigest()[:16]}")


def campaign(ranges: dict[str, tuple[int, int]], most: int | None = None) -> dict[str, Tally]:
    """All pieces, two at a time, or at most so many that were not done before."""
    state, plans, start = state_of(ranges), pieces(ranges), time.monotonic()
    state.mkdir(exist_ok=True)
    todo = [i for i in range(len(plans)) if not (state / f"{i}.json").exists()][:most]

    def work(i: int) -> None:
        lines = [line for part in share(plans[i]) for line in part]
        partial = state / f"{i}.part"
        partial.write_text(json.dumps(lines), encoding="utf-8")
        partial.replace(state / f"{i}.json")
        wrong, done = sum("found" in line for line in lines), len(list(state.glob("*.json")))
        told = f"fuzz: {done} of {len(plans)} pieces, {time.monotonic() - start:,.0f} s; in this one {wrong} findings"
        print(told, file=sys.stderr, flush=True)

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(work, todo))
    tallies = {reader: Tally() for reader in ranges}
    for report in state.glob("*.json"):
        lines = json.loads(report.read_text(encoding="utf-8"))
        for reader, tally in tallies.items():
            tally.add([line for line in lines if line["reader"] == reader])
    return tallies


def kept(finding: dict[str, Any]) -> Path:
    """Write the input of a finding to the corpus, compressed."""
    reader, number = finding["reader"], finding["found"]
    path = CORPUS / reader
    path.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(ROOT / "tests"))
    from readers import open_home

    from .broken_files import makers
    from .fuzz_worker import made

    with open_home() as home:
        name, content = made(makers(home)[reader], reader, number)
    path /= f"{finding['kind']}-{number}.{name.partition('.')[2]}.xz"
    path.write_bytes(lzma.compress(content, preset=9))
    return path


def _signature(finding: dict[str, Any]) -> tuple[str, ...]:
    """Findings that have this in common have one reason."""
    places = re.findall(r'File "[^"]*unseen/([^"]*)", line (\d+)', finding["trace"])
    return finding["reader"], finding["kind"], re.sub(r"[\d'\"].*", "", finding["text"]), str(places[-1:])


def show(tallies: dict[str, Tally]) -> None:
    """Print each kind of finding once, and keep its first input."""
    seen = Counter(_signature(finding) for tally in tallies.values() for finding in tally.findings)
    for tally in tallies.values():
        for finding in tally.findings:
            times = seen.pop(_signature(finding), 0)
            if times:
                told = "\n".join(finding["trace"].strip().splitlines()[-14:])
                print(
                    f"{times} x {finding['kind']} of {finding['reader']} {finding['found']}: {finding['text']}\n{told}"
                )
                print(f"kept as {kept(finding)}\n", flush=True)


def rows() -> Iterator[Row]:
    tallies = campaign(ALL)
    show(tallies)
    every = list(tallies.values())
    kinds = Counter(finding["kind"] for tally in every for finding in tally.findings)
    split = ", ".join(f"{reader} {tally.given:,}" for reader, tally in tallies.items())
    yield Row("Broken files given to readers", sum(tally.given for tally in every), 100_000, False, split)
    read, refused = sum(tally.read for tally in every), sum(tally.refused for tally in every)
    told = f"{read:,} files could be read, {refused:,} were refused with an error of the package"
    yield Row("Crashes", kinds["crash"], 0, True, told)
    yield Row("Hangs", kinds["hang"], 0, True, f"a file that takes {CPU_SECONDS:g} CPU seconds, or is waited for")
    yield Row("Other errors, and warnings of libraries", kinds["error"], 0, True, "all that nobody has put into words")
    peaks = ", ".join(f"{reader} {tally.peak / 2**20:.0f}" for reader, tally in tallies.items())
    most = max(tally.peak for tally in every) / 2**20
    yield Row("Most memory for one file, in MB", max(most, 1025 * (kinds["memory"] > 0)), 1024, True, peaks)


if __name__ == "__main__":
    asked, *limits = sys.argv[1:]
    if asked == "some":  # of the whole, so many pieces
        found = campaign(ALL, int(limits[0]))
    else:
        low, high = map(int, limits or ("0", "300"))
        found = campaign(dict.fromkeys(asked.split(","), (low, high)))
    show(found)
    for each, tally in found.items():
        told = (
            f"{tally.given:,} given, {tally.read:,} read, {tally.refused:,} refused, {len(tally.findings):,} findings"
        )
        print(f"{each}: {told}, {tally.peak / 2**20:.0f} MB, {tally.seconds:.0f} s")
