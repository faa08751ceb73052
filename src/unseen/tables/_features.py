"""Which columns are worth keeping as features, and as what."""

from __future__ import annotations

from ..labels import listed
from ._errors import counted
from ._roles import Request
from ._schema import Column
from ._survey import MOST_LEVELS, Survey, Tally


def choose_columns(survey: Survey, request: Request) -> tuple[tuple[Column, ...], list[str], list[str]]:
    """The features, what to tell about them, and what is wrong; columns that were asked for go only if constant."""
    asked = request.features is not None
    if request.entire:
        return _all_numbers(survey, asked=asked)
    constant = [tally for tally in survey.tallies if tally.constant]
    rest = [tally for tally in survey.tallies if not tally.constant]
    identifying = [tally for tally in rest if not asked and tally.identifies]
    kept = [tally for tally in rest if asked or not tally.identifies]
    notices = [
        f"Left out, since {reason}: {listed(tally.name for tally in tallies)}."
        for reason, tallies in (
            ("they hold a single value or none", constant),
            ("they identify samples rather than describe them", identifying),
        )
        if tallies and survey.rows
    ]
    problems = [
        f"the column {tally.name!r} has more than {MOST_LEVELS:,} different values that are not numbers, "
        "too many for a feature."
        for tally in kept
        if tally.too_many_levels and not tally.numeric
    ]
    if not kept and survey.rows:
        problems.append("no columns are left to be features.")
    return tuple(map(_as_column, kept)), notices + _too_large(survey.tallies) + _readings(rest, survey), problems


def _all_numbers(survey: Survey, *, asked: bool) -> tuple[tuple[Column, ...], list[str], list[str]]:
    """The same, where every column of numbers is a feature and no other is."""
    text = listed(tally.name for tally in survey.tallies if not tally.numeric)
    kept = tuple(_as_column(tally) for tally in survey.tallies if tally.numeric)
    problems = [] if kept or asked or not survey.rows else ["no columns are left to be features."]
    if len(kept) == len(survey.tallies):
        return kept, [], problems
    if asked:
        return kept, [], [f"features must be columns of numbers, not such as {text}."]
    return kept, [f"Left out, since they are not numbers: {text}."], problems


def _as_column(tally: Tally) -> Column:
    if tally.numeric:
        return Column(tally.name, "numeric")
    return Column(tally.name, "categorical", tuple(sorted(tally.levels)))


def _too_large(tallies: list[Tally]) -> list[str]:
    infinite = [f"{tally.name} ({counted(tally.infinite, 'value')})" for tally in tallies if tally.infinite]
    return [f"Numbers that are infinite or beyond 1e150 count as missing: {listed(infinite)}."] if infinite else []


def _readings(tallies: list[Tally], survey: Survey) -> list[str]:
    """How columns were read where it could surprise."""
    marked = [tally for tally in tallies if tally.numeric and tally.marks]
    marks = sorted({mark for tally in marked for mark in tally.marks})
    notices = []
    if marked:
        names = listed(tally.name for tally in marked)
        notices.append(f"Read as numbers, with {listed(marks)} for missing values: {names}.")
    notices += [
        f"{tally.name!r} is not read as numbers because of {counted(tally.not_numbers, 'value')}, such as "
        f"{tally.first_not_number[0]!r} in {survey.where([tally.first_not_number[1]])}."
        for tally in tallies
        if 0 < tally.not_numbers < 0.1 * tally.present
    ]
    return notices
