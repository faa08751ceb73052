"""Which columns are worth keeping as features, and as what."""

from __future__ import annotations

from itertools import compress

import numpy as np
from numpy.typing import NDArray

from ..labels import listed
from ._errors import counted
from ._roles import Request
from ._schema import Column
from ._survey import MOST_LEVELS, Survey


def choose_columns(survey: Survey, request: Request) -> tuple[tuple[Column, ...], list[str], list[str]]:
    """The features, what to tell about them, and what is wrong; columns that were asked for go only if constant."""
    asked, tallies = request.features is not None, survey.tallies
    names, numeric, constant = tallies.names, tallies.numeric, tallies.constant
    left_out = {
        "they hold a single value or none": constant,
        "they identify samples rather than describe them": tallies.identifies & ~constant & (not asked),
    }
    if request.entire:
        left_out = {"they are not numbers": ~numeric}
    kept = ~np.logical_or.reduce(list(left_out.values()))
    notices = [
        f"Left out, since {reason}: {listed(compress(names, group))}."
        for reason, group in left_out.items()
        if group.any() and survey.rows
    ]
    problems = [
        f"the column {name!r} has more than {MOST_LEVELS:,} different values that are not numbers, "
        "too many for a feature."
        for name in compress(names, kept & tallies.too_many_levels & ~numeric)
    ]
    if request.entire and asked and not kept.all():
        problems.append(f"features must be columns of numbers, not such as {listed(compress(names, ~kept))}.")
    elif not kept.any() and survey.rows:
        problems.append("no columns are left to be features.")
    columns = [
        Column(names[i], "numeric") if numeric[i] else Column(names[i], "categorical", tuple(sorted(tallies.levels[i])))
        for i in np.flatnonzero(kept)
    ]
    return tuple(columns), notices + _readings(survey, ~constant | request.entire), problems


def _readings(survey: Survey, told: NDArray[np.bool_]) -> list[str]:
    """How columns were read where it could surprise, of those that are told about."""
    tallies, names, notices = survey.tallies, survey.tallies.names, []
    infinite = [f"{names[i]} ({counted(tallies.infinite[i], 'value')})" for i in np.flatnonzero(tallies.infinite)]
    if infinite:
        notices.append(f"Numbers that are infinite or beyond 1e150 count as missing: {listed(infinite)}.")
    marked = [i for i in np.flatnonzero(told & tallies.numeric).tolist() if tallies.marks.get(i)]
    if marked:
        marks = sorted(set().union(*(tallies.marks[i] for i in marked)))
        columns = listed(names[i] for i in marked)
        notices.append(f"Read as numbers, with {listed(marks)} for missing values: {columns}.")
    for i in np.flatnonzero(told & ~tallies.numeric & (tallies.not_numbers < 0.1 * tallies.present)).tolist():
        value, row = tallies.first_not_number[i]
        notices.append(
            f"{names[i]!r} is not read as numbers because of {counted(tallies.not_numbers[i], 'value')}, such as "
            f"{value!r} in {survey.where([row])}."
        )
    return notices
