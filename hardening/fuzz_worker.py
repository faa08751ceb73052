"""One process of the fuzzing: gives readers many broken files, and says what is not as it should be.

``python -m hardening.fuzz_worker REPORT PLAN``, where the plan lists readers, each with a range of numbers, as JSON.
The number of the input in hand is in the report before it is read, so that whoever started this process knows which one
has ended it.
"""

from __future__ import annotations

import faulthandler
import json
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from readers import READERS, ForeignError, Home, open_home, run_reader

from .broken_files import Maker, makers
from .mutators import Random

SEED = 0
MEMORY = 2**30  # bytes that one input may take


def memory(field: str) -> int:
    """Bytes of this process, as Linux counts them."""
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith(field))


def forget_peak() -> None:
    """Begin to count the peak of memory anew."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def made(make: Maker, reader: str, number: int) -> tuple[str, bytes]:
    """An input by its number."""
    return make(Random(f"{SEED} {reader} {number}"))


def warm_up(home: Home, reader: str, make: Maker) -> None:
    """Make seeds and load libraries before anything is measured, and set the limit that nothing may exceed."""
    resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))
    for number in range(1, 1 + len(READERS[reader])):
        try:
            run_reader(READERS[reader][number % len(READERS[reader])], home, *made(make, f"warm {reader}", number))
        except ForeignError:
            continue  # of what is found here the inputs themselves will tell
    resource.setrlimit(resource.RLIMIT_DATA, (memory("VmData:") + MEMORY, -1))


def finding(home: Home, reader: str, number: int, name: str, content: bytes) -> dict[str, Any]:
    """Give one input to one way of reading it: what came of it, or what is wrong, and the peak of memory."""
    forget_peak()
    before, found, readers = memory("VmRSS:"), dict[str, Any](), READERS[reader]
    try:
        found = {run_reader(readers[number % len(readers)], home, name, content): 1}
    except ForeignError as error:
        cause = error.__cause__ or error
        kind = "memory" if isinstance(cause, MemoryError) else "error"
        found = {"kind": kind, "text": str(error), "trace": "".join(traceback.format_exception(cause))[-3000:]}
    peak = memory("VmHWM:") - before
    if peak > MEMORY:
        found = {"kind": "memory", "text": f"{peak / 2**20:.0f} MB", "trace": ""}
    return {"peak": peak, **found}


def main(report: TextIO, plan: list[tuple[str, int, int, int]]) -> None:
    """Write a line before each input, one for what came of it, and one for the end of each reader."""
    faulthandler.enable()
    with open_home() as home:
        ways = makers(home)
        for reader, first, stop, step in plan:
            warm_up(home, reader, ways[reader])
            start = time.process_time()
            for number in range(first, stop, step):
                limit = resource.getrlimit(resource.RLIMIT_DATA)
                resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))  # which is for reading: to make one takes some, too
                name, content = made(ways[reader], reader, number)
                resource.setrlimit(resource.RLIMIT_DATA, limit)
                print(json.dumps({"reader": reader, "at": number}), file=report, flush=True)
                found = finding(home, reader, number, name, content)
                told = {"found": number} if "kind" in found else {}
                print(json.dumps({"reader": reader, **told, **found}), file=report, flush=True)
            used = time.process_time() - start
            print(json.dumps({"reader": reader, "done": True, "seconds": used}), file=report, flush=True)


if __name__ == "__main__":
    with open(sys.argv[1], "a", encoding="utf-8") as lines:
        main(lines, json.loads(sys.argv[2]))
