"""What each method predicts for the targets: chosen on the splits, fitted on all training data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..exceptions import FewerComponentsWarning, SingleDomainWarning
from ..kernels import EXACT_ROWS
from ..labels import Labels
from ..selection import nearest
from ._choose import EXPECTED, Choice, choose, explained
from ._large import Large, skipped
from ._methods import TUNED, Outcome, Problem, Skipped, fit_on

CHOOSING_ROWS = 1_000  # of a large problem, on which settings are chosen: they are multiples of the data's own scales


def outcomes(methods: Sequence[str], problem: Problem) -> Iterator[Outcome | Skipped | tuple[str, str]]:
    """Run some methods; one that fails gives its name and the reason."""
    large = Large(problem) if len(problem.y[problem.train]) > EXACT_ROWS else None
    choosing = problem if large is None else problem.thinned(CHOOSING_ROWS)[0]
    possible = [method for method in methods if large is None or method not in skipped]
    for method in methods:
        if method not in possible:
            yield Skipped(method, skipped[method])
    with warnings.catch_warnings():
        for category in (SingleDomainWarning, FewerComponentsWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)  # expected in small folds, and judged by the scores
        for method, choice in choose(possible, choosing):
            if isinstance(choice, str):
                yield method, choice
                continue
            start = time.perf_counter()
            try:
                labels = _predicted(method, choice, problem) if large is None else large.predicted(method, choice)
            except EXPECTED as error:
                yield method, explained(error)
                continue
            seconds = choice.seconds + time.perf_counter() - start
            transductive = problem.projects(method) and problem.centering == "target"
            settings = choice.settings if large is None else {**choice.settings, **large.remarks(method)}
            yield Outcome(method, labels, choice.validation, settings, choice.ties, transductive, seconds)


def _predicted(method: str, choice: Choice, problem: Problem) -> Labels:
    """Fit on all training data; projections are followed by the nearest neighbour."""
    train, test = problem.train, problem.test
    if not problem.projects(method):
        build = TUNED[method][2]
        return fit_on(build(choice.settings, problem.X[train]), problem, train).predict(problem.X[test])
    model = clone(problem.projection(method)[0]).set_params(centering=problem.centering, **choice.settings)
    Z = model.fit_transform(problem.X[train], problem.y[train], sample_domain=problem.domain[train])
    return problem.y[train][nearest(Z, model.transform(problem.X[test], sample_domain=problem.domain[test]))]
