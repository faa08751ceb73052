"""Follow pages of the documentation, each in a new environment after exactly its install line.

Commands and Python code run in the order of the page. Their output is not compared: ``make docs`` does that.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pages import Command, blocks, copy_files, steps

ROOT = Path(__file__).parents[1]
INSTALL = re.compile(r"(?:^\$ |``)(pip install [^#`\n]+)", flags=re.MULTILINE)
# Run by the new environment: commands as processes of their own, Python code with the names of the code before it.
FOLLOW = """
import json, shlex, subprocess, sys
names = {}
for kind, text in json.load(open(sys.argv[1])):
    print("$" if kind == "command" else ">>>", text.strip(), flush=True)
    if kind == "command":
        subprocess.run(shlex.split(text, comments=True), check=True)
    else:
        exec(compile(text, "<page>", "single" if kind == "example" else "exec"), names)
"""


def main() -> int:
    """Follow the pages that the command line names."""
    for name in sys.argv[1:]:
        print(f"# {name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            follow(ROOT / name, Path(folder))
    return 0


def follow(page: Path, folder: Path) -> None:
    """Make an environment in a folder, install as the page says, and do what it shows."""
    venv.create(folder / "environment", with_pip=True)
    programs = folder / "environment" / "bin"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    work = folder / "work"
    work.mkdir()

    def run(command: list[str | Path], place: Path = work) -> None:
        print("$", shlex.join(map(str, command)), flush=True)
        subprocess.run(command, cwd=place, env=environment, check=True)

    text = page.read_text(encoding="utf-8")
    install = INSTALL.search(text) or INSTALL.search((ROOT / "docs" / "tutorials" / "index.rst").read_text("utf-8"))
    assert install is not None, f"{page} has no install line"
    run([programs / "python", "-m", *shlex.split(install[1])], ROOT)
    copy_files(page, work)
    for script in set(re.findall(r"`python (examples/\w+\.py)`", text)):
        run([programs / "python", ROOT / script])
    (folder / "steps.json").write_text(json.dumps(list_steps(page)), encoding="utf-8")
    (folder / "follow.py").write_text(FOLLOW, encoding="utf-8")
    run([programs / "python", folder / "follow.py", folder / "steps.json"])


def list_steps(page: Path) -> list[tuple[str, str]]:
    """Commands and Python code of a page in its order, without what installs or needs the repository."""
    found = [(step.lineno, step) for step in steps(page)]
    listed = [
        (line, ("command", step.text) if isinstance(step, Command) else ("example", step.source))
        for line, step in found
        if not (isinstance(step, Command) and step.words[0] in ("pip", "make"))
    ]
    if page.suffix == ".md":  # whose code has no prompts
        listed += [(block.line, ("code", block.content)) for block in blocks(page) if block.language == "python"]
    return [step for _, step in sorted(listed)]


if __name__ == "__main__":
    sys.exit(main())
