"""Mutation testing: small changes of linalg/, kernels/ and the engine; a test that covers the change must fail.

The figures are lower bounds: a mutant meets tests that cover its line, `MOST` seconds of them at most, those first that
are quick and run few other lines; none of more than `LONG` seconds, none of commands, browsers, clusters, tables and
pages, and with twenty examples of each property. Tests are collected once; for each mutant a child is forked, in which
the code of the changed function is exchanged. What runs at import is changed in a child that then imports it. The
folder .mutation keeps what each test covers and what kills each mutant: the next run tries survivors alone.
UNSEEN_MUTANTS=n takes about n of all mutants.
"""

from __future__ import annotations

import ast
import csv
import gc
import hashlib
import json
import os
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FunctionType
from typing import Any

from benchmarks.measure import Row

from hardening.children import LIMIT, Session, forked, hush
from hardening.mutants import Mutant, codes, mutants

ROOT = Path(__file__).parents[1]
SOURCE, STORE, TABLE = ROOT / "src" / "unseen", ROOT / ".mutation", ROOT / "docs" / "testing" / "survivors.csv"
ENGINE = [
    SOURCE / "model_selection" / name for name in ("_validation.py", "_split_evaluation.py", "_decompositions.py")
]
ROOMS = {room: sorted((SOURCE / room).glob("_[a-z]*.py")) for room in ("linalg", "kernels")} | {"the engine": ENGINE}
TARGETS = {str(path.relative_to(SOURCE)): path for paths in ROOMS.values() for path in paths}
ELSEWHERE = """cli explore browser dask docs house package interrupt kill download report images table site add_a
    damaged datasets display file models_predict novelty persistence shift study synthetic simulated calibration"""
OWN = [file for file in sorted(ROOT.glob("tests/test_*.py")) if not any(map(file.stem.count, ELSEWHERE.split()))]
TESTS = [f"tests/{file.name}" for file in OWN]
LONG, MOST, AT_ONCE, LATER = 2.0, 4.0, os.cpu_count() or 1, "at import"


def cover(file: str) -> str:
    """Keep seconds and covered lines of each test of a file that passes."""
    hush()
    session = Session(watched=TARGETS.values())
    with session.coverage.collect():
        session.collect([file])
    data, passed = session.coverage.get_data(), session.seconds.keys() - set(session.failed)
    tests = {name: (session.seconds[name], defaultdict(list)) for name in sorted(passed)}
    for target, path in TARGETS.items():
        for line, names in data.contexts_by_lineno(str(path)).items():
            for name in passed.intersection(names):
                tests[name][1][target].append(line)
    kept(file).write_text(json.dumps(tests))
    return ""


def kept(file: str) -> Path:
    """Where that is kept: under another name as soon as the file, or what it tests, has changed."""
    content = b"".join(path.read_bytes() for path in (*TARGETS.values(), ROOT / file))
    return STORE / f"{Path(file).stem}-{hashlib.sha256(content).hexdigest()[:16]}.json"


class Campaign:
    """Mutants, the tests that each of them meets, and what became of it."""

    def __init__(self) -> None:
        self.store = STORE / "killers.jsonl"
        self.store.touch()
        self.killers = dict[str, str](map(json.loads, self.store.read_text().splitlines()))
        self.kills = Counter(self.killers.values())
        self.tests = {name: one for file in TESTS for name, one in json.loads(kept(file).read_text()).items()}
        self.costs = {name: (one[0] * sum(map(len, one[1].values())), name) for name, one in self.tests.items()}
        self.covering = defaultdict[tuple[Path, int], set[str]](set)
        for name, (seconds, ran) in self.tests.items():
            for target, line in ((target, line) for target, lines in ran.items() for line in lines if seconds < LONG):
                self.covering[TARGETS[target], line].add(name)
        every = [one for path in TARGETS.values() for one in mutants(path, ast.parse(path.read_text()))]
        step = max(1, len(every) // int(os.environ.get("UNSEEN_MUTANTS", len(every))))
        self.plan = {one: self.select(one, *one.lines) for one in every if one.number % step == 0}

    def chosen(self, mutant: Mutant, *places: Iterable[int]) -> list[str]:
        """Tests that cover the first of these lines that any covers, or the module."""
        for lines in (*places, range(10**4)):
            found = set().union(*(self.covering.get((mutant.path, line), ()) for line in lines))
            if found:
                break
        names, seen, total = [], Counter[str](), 0.0
        ranks = dict[str, tuple[int, float, str]]()
        for name in sorted(found, key=self.costs.__getitem__):
            function = name.split("[")[0]  # eight sets of its parameters, then those of other tests
            ranks[name] = seen[function] // 8, *self.costs[name]
            seen[function] += 1
        for name in sorted(found, key=ranks.__getitem__):
            total += self.tests[name][0]
            names += [name] if total < MOST else []
        return names

    def run(self, todo: list[Mutant], attempt: Callable[[Mutant], str], what: str, more: float = 0.0) -> None:
        """Try mutants, and keep what kills them; `more` seconds than their tests take may pass."""
        seconds = {one: more + sum(self.tests[name][0] for name in self.plan[one]) for one in todo}
        for done, (mutant, killer) in enumerate(forked(todo, attempt, seconds.__getitem__, AT_ONCE), 1):
            self.kills[killer] += 1
            with self.store.open("a") as file:
                print(json.dumps([mutant.key, killer]), file=file)
            if done % 20 == 0 or done == len(todo):
                print(f"{what}: {done} of {len(todo)}", file=sys.stderr, flush=True)

    def exchange(self, todo: list[Mutant]) -> str:
        """Try mutants of what runs when it is called."""
        Session(lambda session, items: self._exchange(session, items, todo)).collect(TESTS)
        return ""

    def _exchange(self, session: Session, items: dict[str, Any], todo: list[Mutant]) -> None:
        live = defaultdict(list)
        for function in gc.get_objects():
            if type(function) is FunctionType:
                code = function.__code__
                live[code.co_filename, code.co_qualname, code.co_firstlineno].append(function)

        def attempt(mutant: Mutant) -> str:
            hush()
            before, after = codes(compile(mutant.path.read_text(), mutant.path, "exec")), codes(mutant.code())
            pairs = [(f, code) for key, code in after.items() if code != before.get(key) for f in live[key]]
            if not pairs or any(f.__code__.co_freevars != code.co_freevars for f, code in pairs):
                return LATER
            for function, code in pairs:
                function.__code__ = code
            session.run([items[name] for name in sorted(self.plan[mutant], key=self.promise, reverse=True)])
            return "".join(session.failed[:1])

        gc.freeze()
        self.run(todo, attempt, "called")

    def promise(self, name: str) -> float:
        """What a test has killed so far, for its seconds."""
        return (1 + self.kills[name]) / (0.01 + self.tests[name][0])

    def at_import(self, mutant: Mutant) -> str:
        """Try a mutant of what runs at import."""
        hush()
        code, plain = mutant.code(), SourceFileLoader.get_code
        SourceFileLoader.get_code = lambda self, name: code if self.path == str(mutant.path) else plain(self, name)
        names = self.plan[mutant]  # which may name a constant that is another now
        session = Session(lambda session, items: session.run([items[name] for name in names if name in items]))
        return "".join(session.collect(sorted({name.split("::")[0] for name in names})).failed[:1])


def control(names: list[str]) -> str:
    """What fails of tests, in this order, though nothing is changed."""
    hush()
    session = Session(lambda session, items: session.run([items[name] for name in names]))
    return json.dumps(session.collect(sorted({name.split("::")[0] for name in names})).failed)


def reason(mutant: Mutant, rules: list[dict[str, str]]) -> list[str]:
    """The row of a survivor: where it is, what was changed, and why no test fails."""
    file = str(mutant.path.relative_to(SOURCE))
    line = mutant.path.read_text().splitlines()[mutant.lines[0].start - 1].strip()
    found = (rule["text"] for rule in rules if re.search(rule["where"], f"{file}: {line} | {mutant.change}"))
    change = f"``{' '.join(mutant.change.split())}``"  # as pages show code
    return [f"{file}:{mutant.lines[0].start}", change, next(found, "No test yet.")]


def tried() -> Campaign:
    """A campaign in which all mutants have been tried."""
    STORE.mkdir(exist_ok=True)
    for file, _ in forked([file for file in TESTS if not kept(file).exists()], cover, lambda file: 300.0, AT_ONCE):
        print(f"covered: {file}", file=sys.stderr, flush=True)
    campaign = Campaign()
    settled = {LIMIT, "import", *campaign.tests}
    todo = [one for one in campaign.plan if campaign.killers.get(one.key) not in settled]
    list(forked([todo], campaign.exchange, lambda todo: 1e6, 1))
    campaign = Campaign()  # with what that child has found
    later = [one for one in campaign.plan if campaign.killers[one.key] == LATER]
    campaign.plan |= {one: campaign.select(one, one.uses) for one in later}
    campaign.run(later, campaign.at_import, "imported", more=10.0)
    return Campaign()


def rows() -> Iterator[Row]:
    campaign = tried()
    killers = {one: campaign.killers[one.key] for one in campaign.plan}
    rules = tomllib.loads((ROOT / "hardening" / "survivors.toml").read_text())["reason"]
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["Where", "Change", "Why no test fails"])
        table.writerows(reason(one, rules) for one, killer in killers.items() if not killer)
    for room, paths in {"": list(TARGETS.values()), **{f" of {room}": paths for room, paths in ROOMS.items()}}.items():
        own = [killer for one, killer in killers.items() if one.path in paths]
        killed = sum(map(bool, own))
        detail = f"{killed} of {len(own)}, {own.count(LIMIT)} of them by {LIMIT}"
        yield Row(f"mutants{room} killed, %", 100 * killed / len(own), 85, False, detail)
    used = sorted({*killers.values()} & campaign.tests.keys())
    ((_, failed),) = forked([used], control, lambda names: sum(campaign.tests[name][0] for name in names), 1)
    yield Row("killing tests that fail if nothing is changed", len(json.loads(failed)), 0, True, f"of {len(used)}")
