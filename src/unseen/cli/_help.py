"""The classes of the commands, which change how the help lists flags and breaks lines, and what an interrupt prints."""

from __future__ import annotations

import inspect
from typing import Any

from typer.core import TyperCommand, TyperGroup

from ._report import exit_on_interrupt


class Command(TyperCommand):
    """A command whose help shows no type for flags, and breaks lines at the width of the terminal only."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        paragraphs = inspect.cleandoc(settings["help"]).split("\n\n")
        settings["help"] = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
        super().__init__(name, **settings)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with --help."""
        return _hide_flag_types(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands. An interrupt, also during the imports of a command, exits with a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command of the group."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            exit_on_interrupt()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with --help."""
        return _hide_flag_types(super().get_params(ctx))


def _hide_flag_types(params: list[Any]) -> list[Any]:
    """Set an empty metavar for flags: without one, the help would show the type ``<bool>``."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
