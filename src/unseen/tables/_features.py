"""Which columns are worth keeping as features, and as what."""

from __future__ import annotations

from ..labels import listed
from ._errors import counted
from ._roles import Request
from ._schema import Column
from ._survey import MOST_LEVELS, Survey, Tally


def choose_columns(survey: Survey, request: Request) -> tuple[tuple[Column, ...], list[str], list[str]]:
    """The features, what to tell about them, and what is wrong; columns that were asked for go only if constant."""
    asked, tallies = request.features is not None, survey.tallies
    rest = [tally for tally in tallies if request.entire or not tally.constant]
    left_out = {
        "they hold a single value or none": [tally for tally in tallies if tally.constant],
        "they identify samples rather than describe them": [tally for tally in rest if not asked and tally.identifies],
    }
    if request.entire:
        left_out = {"they are not numbers": [tally for tally in tallies if not tally.numeric]}
    names = dict.fromkeys(tally.name for group in left_out.values() for tally in group)
    kept = [tally for tally in tallies if tally.name not in names]
    notices = [
        f"Left out, since {reason}: {listed(tally.name for tally in group)}."
        for reason, group in left_out.items()
        if group and survey.rows
    ]
    problems = [
        f"the column {tally.name!r} has more than {MOST_LEVELS:,} different values that are not numbers, "
        "too many for a feature."
        for tally in kept
        if tally.too_many_levels and not tally.numeric
    ]
    if request.entire and asked and names:
        problems.append(f"features must be columns of numbers, not such as {listed(names)}.")
    elif not kept and survey.rows:
        problems.append("no columns are left to be features.")
    return tuple(map(_as_column, kept)), notices + _too_large(tallies) + _readings(rest, survey), problems


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
