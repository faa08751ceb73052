"""The directive ``command-reference``: sections with the arguments and options of all commands, as ``--help`` has them.

The text is made from the command objects when the documentation is built, so that the page cannot be out of date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from unseen.cli._app import app


def list_commands() -> Iterator[tuple[str, Any]]:
    """Yield the names and the objects of all commands, in the order of the help."""
    yield from _list_below("unseen", typer.main.get_command(app))


def _list_below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child in getattr(command, "commands", {}).values():
        yield from _list_below(f"{name} {child.name}", child)


def render_command(name: str, command: Any) -> list[str]:
    """Return the lines of the section of a command, in reStructuredText."""
    lines = [f".. program:: {name}", "", name, "~" * len(name), ""]
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        text = paragraph.replace("\n", " ")
        if text.startswith("Example: "):
            lines += [".. code-block:: console", "", f"   $ {text.removeprefix('Example: ')}", ""]
        else:
            lines += [_escape(text), ""]
    choices = _list_choices(command)
    panels: dict[str, list[Any]] = {}
    for param in command.params:
        is_argument = param.param_type_name == "argument"
        panel = getattr(param, "rich_help_panel", None) or ("Arguments" if is_argument else "Options")
        panels.setdefault(panel, []).append(param)
    panels = {name: panels[name] for name in sorted(panels, key=lambda name: name != "Arguments")}  # a stable sort
    for panel, params in panels.items():
        lines += [f".. rubric:: {panel}", ""]
        for param in params:
            lines += _render_param(param, choices.get(param.name, ()))
    return lines


def _render_param(param: Any, choices: tuple[str, ...]) -> list[str]:
    value = param.metavar if param.metavar is not None else "|".join(choices)
    if param.param_type_name == "argument":
        title = value
    else:
        names = ", ".join([*param.opts, *param.secondary_opts])
        title = f"{names} {value}".strip()
    return [f".. option:: {title}", "", f"   {_escape(param.help or '')} {_describe_default(param)}".rstrip(), ""]


def _describe_default(param: Any) -> str:
    if param.required:
        return "Required."
    if isinstance(param.show_default, str):
        return f"Default: {_escape(param.show_default)}."
    if getattr(param, "is_flag", False):
        return f"Default: ``{param.opts[0]}``." if param.default else ""
    return "" if param.default is None or callable(param.default) else f"Default: ``{param.default}``."


def _list_choices(command: Any) -> dict[str, tuple[str, ...]]:
    """Return the allowed values of the parameters that have few, by the name of the parameter."""
    choices = {}
    hints = get_type_hints(command.callback) if command.callback else {}
    for name, hint in hints.items():
        literals = [part for part in (hint, *get_args(hint)) if get_origin(part) is Literal]
        if literals:
            choices[name] = get_args(literals[0])
    return choices


def _escape(text: str) -> str:
    """Escape the characters that reStructuredText interprets, and mark the names of options as literals."""
    text = re.sub(r"([\\*`|]|_\b)", r"\\\1", text)
    return re.sub(r"(?<![\w-])(--[a-z]+(?:-[a-z]+)*)", r"``\1``", text)


class CommandReference(SphinxDirective):
    """Insert one section for each command."""

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the sections."""
        lines = [line for name, command in list_commands() for line in render_command(name, command)]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def setup(sphinx: Any) -> dict[str, bool]:
    """Register the directive."""
    sphinx.add_directive("command-reference", CommandReference)
    return {"parallel_read_safe": True}
