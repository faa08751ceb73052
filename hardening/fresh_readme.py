"""Run the blocks of the README in a new environment, after exactly the install line above them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Install, run the Python blocks and the commands; print each of them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (install,) = re.findall(r"^\$ pip (install .*?)(?: +#.*)?$", readme, flags=re.MULTILINE)
    blocks = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    commands = re.findall(r"^\$ (unseen .*?)(?: +#.*)?$", readme, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "environment", with_pip=True)
        programs = folder / "environment" / "bin"
        _run([programs / "pip", *shlex.split(install)], ROOT)
        for code in blocks:
            _run([programs / "python", "-c", code], folder)
        for command in commands:
            program, *arguments = shlex.split(command)
            _run([programs / program, *arguments], folder)
    return 0


def _run(command: list[str | Path], folder: Path) -> None:
    print("$", shlex.join(map(str, command)), flush=True)
    subprocess.run(command, cwd=folder, check=True)


if __name__ == "__main__":
    sys.exit(main())
