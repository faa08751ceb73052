"""The help of the commands: every option has a text, a panel and a place on the reference page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command needs its extra")
import typer
from typer.testing import CliRunner

from command import run_command
from unseen import __version__
from unseen.cli._app import app

DOCS = Path(__file__).parents[1] / "docs"
PANELS = ["Data", "Photographs", "Methods", "Evaluation", "Output", "Computation"]


def list_commands(name="unseen", command=None):
    command = typer.main.get_command(app) if command is None else command
    yield name, command
    for child in getattr(command, "commands", {}).values():
        yield from list_commands(f"{name} {child.name}", child)


COMMANDS = dict(list_commands())
LEAVES = {name: command for name, command in COMMANDS.items() if not hasattr(command, "commands")}


def print_help(name, columns):
    result = CliRunner().invoke(app, [*name.split()[1:], "--help"], env={"COLUMNS": str(columns)})
    assert result.exit_code == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_has_a_sentence(name):
    for param in COMMANDS[name].params:
        assert param.help, param.name
        assert param.help.endswith((".", "'")), param.help


@pytest.mark.parametrize("name", LEAVES)
def test_the_help_shows_texts_and_defaults_completely(name):
    """Text in square brackets would be swallowed as markup. One line is wide enough for each option here."""
    text = print_help(name, 500)
    assert f"Example: {name}" in text
    for param in LEAVES[name].params:
        assert param.help in text
        if isinstance(param.show_default, str):
            assert f"[default: ({param.show_default})]" in text
        elif param.default is None and not param.required and param.param_type_name == "option":
            pytest.fail(f"the default of {param.opts[0]} is None, which show_default must describe")


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_fits_into_the_terminal(name, columns):
    text = print_help(name, columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "<bool>" not in text


def test_short_options_and_suggestions():
    assert run_command(app, "-V") == run_command(app, "--version") == (0, f"unseen {__version__}")
    assert run_command(app, "fit", "-h") == run_command(app, "fit", "--help")
    assert run_command(app)[1] == run_command(app, "--help")[1]
    code, text = run_command(app, "comapre", "table.csv")
    assert (code, "Did you mean 'compare'?" in text) == (2, True)
    code, text = run_command(app, "fit", "table.csv", "--lable", "x", "-o", "m.unseen")
    assert (code, "--label" in text) == (2, True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("root comp", ["compare"]),
        ("root fit --land", ["--landmarks"]),
        ("root fit --scale ", ["standardize", "l2", "none"]),
    ],
)
def test_the_shell_completes_commands_options_and_values(words, expected):
    position = str(len(words.split(" ")) - 1)
    env = {"_ROOT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": position}
    assert CliRunner().invoke(app, [], env=env).stdout.split() == expected


# The reference page


@pytest.fixture(scope="module")
def cli_reference():
    pytest.importorskip("sphinx", reason="the page is a directive of Sphinx")
    if not DOCS.exists():
        pytest.skip("this distribution comes without the documentation")
    sys.path.insert(0, str(DOCS))
    try:
        import cli_reference
    finally:
        sys.path.remove(str(DOCS))
    return cli_reference


@pytest.fixture(scope="module")
def page(cli_reference, tmp_path_factory):
    """The page as Sphinx renders it to text, without the rest of the documentation."""
    from sphinx.application import Sphinx

    folder = tmp_path_factory.mktemp("page")
    (folder / "index.rst").write_bytes((DOCS / "cli.rst").read_bytes())
    settings = {"extensions": ["cli_reference"], "smartquotes": False, "default_role": "literal"}
    sys.modules["cli_reference"] = cli_reference
    build = Sphinx(
        folder, None, folder / "out", folder / "trees", "text", settings, status=None, warning=None, warningiserror=True
    )
    build.build()
    assert build.statuscode == 0
    return (folder / "out" / "index.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_every_option_with_its_text(page, name):
    start = page.index(f"\n{name}\n")
    following = [page.index(f"\n{other}\n") for other in COMMANDS if page.index(f"\n{other}\n") > start]
    section = page[start : min(following, default=len(page))]
    for param in COMMANDS[name].params:
        for option in (*param.opts, *param.secondary_opts) if param.param_type_name == "option" else [param.metavar]:
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", section), option
        assert squeeze(param.help) in squeeze(section)
        if isinstance(param.show_default, str):
            assert squeeze(f"Default: {param.show_default}.") in squeeze(section)


def squeeze(text):
    """The text without spaces and quotation marks: Sphinx breaks lines, also after hyphens, and quotes literals."""
    return re.sub(r'[\s"]', "", text)
