"""The whole suite on every supported Python, with the newest packages and with the lowest; and against the built wheel.

Environments and results stay in .venvs, which git ignores: a run that is stopped goes on where it was, and what was
tested is tested again when a file of src or tests, pyproject.toml or an installed package has changed. A Python is what
the variable PYTHON312 names, python3.12 on the path, or the newest 3.12 that pyenv has. CELLS="3.12 wheel" runs some of
it, and PROCESSES=4 in so many processes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from benchmarks.measure import Row
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".venvs"
PROCESSES = os.environ.get("PROCESSES", "2")
SELECTION = ("-m", "not slow and not docs")  # the tests of make test and make system
SUITE = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--dist", "worksteal", "-n", PROCESSES, *SELECTION)
SHOWN = ("numpy", "scipy", "scikit-learn", "pandas", "polars", "dask", "pytest")
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Cell:
    """A Python and a choice of packages."""

    python: str
    lowest: bool = False

    @property
    def name(self) -> str:
        """Such as 3.11-lowest."""
        return f"{self.python}-lowest" if self.lowest else self.python

    @property
    def claim(self) -> str:
        """What is counted."""
        return f"tests that fail on Python {self.python}, {'lowest' if self.lowest else 'newest'} packages"


CELLS = (Cell("3.11", lowest=True), Cell("3.11"), Cell("3.12"), Cell("3.13"))


def say(text: str) -> None:
    print(f"matrix: {text}", file=sys.stderr, flush=True)


def call(*command: Any, **options: Any) -> str:
    """Run a command that must succeed; what it prints."""
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, check=True, **options)
    return done.stdout


def interpreter(version: str) -> str | None:
    """A Python of a version that runs here, or None."""
    wanted = os.environ.get(f"PYTHON{version.replace('.', '')}")
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    own = sorted(versions.glob(f"{version}.*/bin/python"), key=lambda path: _numbers(path.parts[-3]), reverse=True)
    for python in [wanted] if wanted else [shutil.which(f"python{version}"), *map(str, own)]:
        if python is not None and _version_of(python) == version:
            return python
    return None


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _version_of(python: str) -> str:
    """What a Python says it is: a name on the path may be a shim of pyenv without a Python behind it."""
    code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60).stdout.strip()
    except OSError:
        return ""


def lowest_pins(project: dict[str, Any], python: str) -> dict[str, str]:
    """The lowest version that pyproject.toml allows of each package on a Python, of tools of the tests as well."""
    about = project["project"]
    asked = [*about["dependencies"], *(text for extra in about["optional-dependencies"].values() for text in extra)]
    pins: dict[str, str] = {}
    for one in map(Requirement, [*asked, *project["dependency-groups"]["test"]]):
        if one.name == about["name"] or (one.marker and not one.marker.evaluate({"python_version": python})):
            continue
        bounds = [bound.version for bound in one.specifier if bound.operator in (">=", "==")]
        if not bounds:
            raise ValueError(f"{one} in pyproject.toml has no lower bound.")
        pins[one.name] = max([*bounds, pins.get(one.name, "0")], key=_numbers)
    return pins


def environment(name: str, python: str, *wanted: Any, where: Path = HOME, pins: dict[str, str] | None = None) -> Path:
    """The Python of an environment with some packages, the newest or those of `pins`."""
    folder = where / name
    binary = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not binary.exists():
        say(f"{name}: a new environment of {python}")
        call(python, "-m", "venv", folder)
        call(binary, "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1")
    how = ["--upgrade", "--upgrade-strategy", "eager"]
    if pins is not None:
        constraints = folder / "pins.txt"
        constraints.write_text("".join(f"{package}=={version}\n" for package, version in pins.items()))
        how = ["--constraint", str(constraints)]
    say(f"{name}: installing")
    call(binary, "-m", "pip", "install", "--quiet", *how, *wanted, cwd=ROOT)
    call(binary, "-m", "pip", "check", cwd=ROOT)
    return binary


def packages(python: Path) -> dict[str, str]:
    """Versions of what is installed, but for the package itself."""
    listed = json.loads(call(python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"))
    return {one["name"].lower(): one["version"] for one in listed if one["name"] != "unseen"}


def suite(name: str, python: Path, folder: Path, *tests: str) -> dict[str, Any]:
    """Run tests in a folder, unless the same were run with the same packages; counts of what came of them."""
    installed = packages(python)
    key = hashlib.sha256(json.dumps([_contents(), installed, tests]).encode()).hexdigest()
    kept = HOME / "results" / f"{name}.json"
    if kept.exists() and (found := json.loads(kept.read_text()))["key"] == key:
        say(f"{name}: known from before")
        return found
    report = kept.with_suffix(".xml")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    say(f"{name}: running")
    with kept.with_suffix(".log").open("w") as log:
        command = [str(python), *SUITE, f"--junitxml={report}", *tests]
        subprocess.run(command, cwd=folder, env=_clean() | ONE_THREAD, stdout=log, stderr=subprocess.STDOUT)
    if not report.exists():
        raise RuntimeError(f"The tests of {name} could not be run; see {log.name}.")
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for part in ElementTree.parse(report).getroot().iter("testsuite"):
        counts = {what: number + int(part.attrib[what]) for what, number in counts.items()}
    found = {"key": key, "packages": installed, **counts}
    kept.write_text(json.dumps(found))
    return found


def _clean() -> dict[str, str]:
    """The environment without anybody's paths to modules."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def _contents() -> str:
    """A name for all files that decide about tests."""
    sha = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    for path in sorted(path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*") if path.is_file()):
        if "__pycache__" not in path.parts:
            sha.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return sha.hexdigest()


def outcome(claim: str, found: dict[str, Any]) -> Row:
    """A row about a run of the suite."""
    failed = found["failures"] + found["errors"]
    versions = ", ".join(f"{package} {found['packages'][package]}" for package in SHOWN)
    passed = found["tests"] - failed - found["skipped"]
    return Row(claim, failed, 0, True, f"{passed} passed, {found['skipped']} skipped; {versions}")


def cell_row(cell: Cell) -> Row:
    """The suite in the source tree, on one Python."""
    python = interpreter(cell.python)
    if python is None:
        return Row(cell.claim, float("nan"), 0, True, f"no Python {cell.python} here")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = lowest_pins(project, cell.python) if cell.lowest else None
    binary = environment(cell.name, python, "-e", ".[all]", "--group", "test", pins=pins)
    return outcome(cell.claim, suite(cell.name, binary, ROOT))


def tracked() -> list[str]:
    """Files that git knows, or that it would take."""
    listed = call("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    return [name for name in listed if name and (ROOT / name).is_file()]


def built(python: Path, source: Path, output: Path, *targets: str) -> dict[str, Path]:
    """Wheel or sdist, or both, from a folder; by their endings."""
    epoch = call("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    asked = [part for target in targets for part in ("-t", target)]
    call(
        python,
        "-m",
        "hatchling",
        "build",
        "-d",
        output,
        *asked,
        cwd=source,
        env=_clean() | {"SOURCE_DATE_EPOCH": epoch},
    )
    return {"".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix: path for path in output.iterdir()}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wheel_rows() -> Iterator[Row]:
    """Wheel and sdist: the same bytes each time, and tests that pass where there is nothing but the wheel."""
    python = interpreter("3.11") or sys.executable
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory(prefix="unseen-wheel-") as temporary:
        home = Path(temporary)
        builder = environment("builder", python, *project["build-system"]["requires"])
        twice = []
        for k, name in enumerate(("here", "somewhere/else entirely")):
            for file in tracked():
                copy = home / name / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, copy)  # with another time and perhaps another mode
                os.utime(copy, (10**9 + k, 10**9 + k))
            twice.append(built(builder, home / name, home / f"dist{k}", "wheel", "sdist"))
        differ = [end for end in twice[0] if sha256(twice[0][end]) != sha256(twice[1][end])]
        yield Row("builds that differ in another folder", len(differ), 0, True, _built_told(twice[0], differ))
        wheel, sdist = twice[0][".whl"], twice[0][".tar.gz"]
        with tarfile.open(sdist) as archive:
            archive.extractall(home / "unpacked", filter="data")
        (unpacked,) = (home / "unpacked").iterdir()
        again = built(builder, unpacked, home / "again", "wheel")[".whl"]
        same = sha256(again) == sha256(wheel)
        yield Row(
            "wheels from the sdist that differ", int(not same), 0, True, "the bytes of the wheel of the source tree"
        )
        yield from _installed(home, python, wheel, unpacked)


def _built_told(found: dict[str, Path], differ: Sequence[str]) -> str:
    return ", ".join(differ) or ", ".join(f"{path.name} {sha256(path)[:12]}" for path in found.values())


def _installed(home: Path, python: str, wheel: Path, unpacked: Path) -> Iterator[Row]:
    """The tests of the sdist, against the wheel in an environment that has never seen the source."""
    (home / "environment").mkdir()
    group = f"{unpacked / 'pyproject.toml'}:test"
    binary = environment(
        "wheel", python, f"unseen[all] @ {wheel.as_uri()}", "--group", group, where=home / "environment"
    )
    folder = home / "tests only"
    folder.mkdir()
    shutil.copytree(unpacked / "tests", folder / "tests")
    shutil.copyfile(unpacked / "pyproject.toml", folder / "pyproject.toml")  # what pytest is told
    where = call(binary, "-c", "import unseen; print(unseen.__file__)", cwd=folder, env=_clean()).strip()
    if not Path(where).is_relative_to(home / "environment"):
        raise RuntimeError(f"The tests would be of {where}, and not of the wheel.")
    yield outcome("tests that fail against the installed wheel", suite("wheel", binary, folder, "tests"))


def rows() -> Iterator[Row]:
    asked = os.environ.get("CELLS", "").split()
    for cell in CELLS:
        if not asked or cell.name in asked:
            yield cell_row(cell)
    if not asked or "wheel" in asked:
        yield from wheel_rows()
