"""What a page of the documentation tells its readers to do, in the order of the page, and how that is done here."""

from __future__ import annotations

import doctest
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from unseen.exceptions import DataWarning, NewDataWarning

WIDTH = 92  # of the terminal that a page shows
ABOUT = doctest.register_optionflag("ABOUT")  # after an example whose numbers may differ a little
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
DIRECTIVE = re.compile(r"^(?P<indent> *)\.\. code-block:: (?P<language>\S+)$")
DOWNLOAD = re.compile(r":download:`[^`<]*<([^>`]+)>`")
TERMINAL = {"COLUMNS": str(WIDTH), "TERM": "dumb", "NO_COLOR": "1"}
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
PROGRESS = re.compile(r"^.*(?:\d+/\d+ done, | pieces of work in ).*\n?", flags=re.MULTILINE)
DRAWN = re.compile(r"[\u2500-\u259f\s]+")  # frames, bars, and where lines break


@dataclass(frozen=True)
class Command:
    """A line for the shell, and what the page shows below it; nothing, if it shows nothing."""

    lineno: int
    text: str
    shown: str = ""

    @property
    def words(self) -> list[str]:
        """What the shell makes of the line."""
        return shlex.split(self.text, comments=True)


@dataclass(frozen=True)
class Block:
    """A block of code as it stands on the page; one with a caption is a file that the reader has from then on."""

    line: int
    language: str
    caption: str
    content: str


def blocks(page: Path) -> Iterator[Block]:
    """All blocks of code of a page, of Markdown or reStructuredText."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
            yield Block(text.count("\n", 0, found.start()) + 1, found[1], "", found[2])
        return
    lines = text.splitlines()
    for number, line in enumerate(lines):
        directive = DIRECTIVE.match(line)
        if directive is None:
            continue
        indent, inside = len(directive["indent"]), []
        for below in lines[number + 1 :]:
            if below.strip() and len(below) - len(below.lstrip()) <= indent:
                break
            inside.append(below)
        options, content = re.fullmatch(r"((?: *:[^\n]*\n)*)(.*)", "\n".join(inside), flags=re.DOTALL).groups()
        caption = re.search(r":caption: (.+)$", options, flags=re.MULTILINE)
        content = textwrap.dedent(content).strip("\n") + "\n"
        yield Block(number + 1, directive["language"], caption[1] if caption else "", content)


def commands(page: Path) -> Iterator[Command]:
    """What a page gives to the shell; a backslash continues a line."""
    for block in blocks(page):
        if block.language == "console":
            parts = re.split(r"^\$ ", joined(block.content), flags=re.MULTILINE)
            for part in parts[1:]:
                text, _, shown = part.partition("\n")
                yield Command(block.line, text, shown.strip("\n"))


def mentioned(page: Path) -> Iterator[Command]:
    """Commands that a page shows without a prompt: for later, or for another machine."""
    for block in blocks(page):
        if block.language == "text" and block.content.startswith("unseen "):
            yield Command(block.line, joined(block.content).strip())


def joined(text: str) -> str:
    """Lines that end with a backslash go on in the next."""
    return re.sub(r"\\\n\s*", "", text)


def steps(page: Path) -> list[Command | doctest.Example]:
    """What a page runs, in its order."""
    examples = doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8"), str(page))
    return sorted([*commands(page), *examples], key=lambda step: step.lineno)


def copy_files(page: Path, folder: Path) -> None:
    """Download what a page offers, and write what it shows with the name of a file above it."""
    for offered in DOWNLOAD.findall(page.read_text(encoding="utf-8")):
        shutil.copy(page.parent / offered, folder)
    for block in blocks(page):
        if block.caption:
            (folder / block.caption).write_text(block.content, encoding="utf-8")


class Checker(doctest.OutputChecker):
    """Compares to the letter, except where a page says that numbers are about so."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether an example gave what the page shows."""
        if optionflags & ABOUT:
            return not difference(want, got)
        return super().check_output(want, got, optionflags)


class Reader:
    """Somebody who does what a page says, in the current folder."""

    def __init__(self, page: Path) -> None:
        self.page, self.names, self.said = page, dict[str, Any](), list[str]()
        self.runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=FLAGS)

    def follow(self) -> None:
        """Do it all, and fail where something fails or shows something else than the page."""
        copy_files(self.page, Path.cwd())
        for step in steps(self.page):
            if isinstance(step, Command):
                self.command(step)
            else:
                test = doctest.DocTest([step], self.names, self.page.name, str(self.page), 0, None)
                with warnings.catch_warnings():
                    for category in (DataWarning, NewDataWarning):  # pages show what is printed, not what is on stderr
                        warnings.simplefilter("ignore", category)
                    self.runner.run(test, out=self.said.append, clear_globs=False)
                self.names |= test.globs
                assert not self.said, "".join(self.said)

    def command(self, step: Command) -> None:
        """Run a command, and compare what it says with what the page shows."""
        place = f"{self.page.name}, line {step.lineno}: {step.text}"
        code, said = run(step.words)
        assert code == 0, f"{place}\n{said}"
        differs = difference(step.shown, said) if step.shown else ""
        assert not differs, f"{place}\n{differs}\n\nIt says:\n{said}"


def difference(shown: str, said: str) -> str:
    """How the output of a command differs from what a page shows of it; empty if it does not.

    An ellipsis stands for anything. Numbers may differ by a tenth, and by two in their last digit: another linear
    algebra moves a sample over a boundary now and then, and the page is right all the same.
    """
    wanted, got = (DRAWN.sub(" ", text).strip() for text in (shown, said))
    pieces = [NUMBER.split(piece) for piece in wanted.split("...")]
    pattern = "(?:.*?)".join(f"({NUMBER.pattern})".join(map(re.escape, piece)) for piece in pieces)
    found = re.fullmatch(pattern, got, flags=re.DOTALL)
    if found is None:
        return f"The page shows other words:\n{shown}"
    pairs = zip(NUMBER.findall(wanted.replace("...", " ")), found.groups(), strict=True)
    far = [f"{new} where the page has {old}" for old, new in pairs if abs(float(new) - float(old)) > room(old)]
    return "\n".join(far)


def room(number: str) -> float:
    """By how much a number may differ from the one on the page."""
    return abs(float(number)) / 10 + 2.001 * 10.0 ** -len(number.partition(".")[2])


def run(words: list[str]) -> tuple[int, str]:
    """The exit code, and what is said, of `unseen` or of a script, in this process."""
    if words[0] == "python":
        with patch("sys.argv", words[1:]):
            runpy.run_path(words[1], run_name="__main__")
        return 0, ""
    if words[0] == "sh":
        return run_script(words)
    if words[0] != "unseen":
        raise ValueError(f"Pages that are run tell their readers to run unseen, python or sh; got {shlex.join(words)}.")
    from unseen.cli._app import app

    with patch("unseen.cli._report.PIPE_WIDTH", WIDTH), patch("sys.argv", words):  # which a model's card tells of
        result = CliRunner().invoke(app, words[1:] + cheap(words), env=TERMINAL)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, "\n".join(line.rstrip() for line in PROGRESS.sub("", result.output).splitlines())


def run_script(words: list[str]) -> tuple[int, str]:
    """The exit code and the errors of a script for the shell, which finds `unseen` of this interpreter."""
    with TemporaryDirectory() as folder:
        command = Path(folder) / "unseen"
        code = "import sys; from unseen.cli import main; sys.argv[0] = 'unseen'; main()"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{code}" "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        environment = {**os.environ, **TERMINAL, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
    return done.returncode, done.stderr if done.returncode else ""


def cheap(words: list[str]) -> list[str]:
    """One process: a second one takes longer to start than these tables take, and results are the same."""
    alone = {"compare", "fit", "reproduce"} & {words[1]} and not {"-j", "--jobs"} & {*words}
    return ["--jobs", "1"] if alone else []
