"""One BLAS thread; how Hypothesis explores; the models that the tests of several commands share."""

import os

# Before NumPy is imported: on these small matrices a second thread costs up to three times the time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# Afresh on a developer's machine, the same each time in continuous integration.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "explore")


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A folder with a training table, new tables, and a fitted model of every kind."""
    from cli_models import write_home

    return write_home(tmp_path_factory.mktemp("home"))


@pytest.fixture
def few_trees(monkeypatch):
    """Five trees in place of fifty, for tests that are about all methods and not about trees."""
    use_few_trees(monkeypatch)


@pytest.fixture(scope="module")
def few_trees_in_module():
    """The same for all tests of a module, and for the models that they share."""
    with pytest.MonkeyPatch.context() as patch:
        use_few_trees(patch)
        yield


def use_few_trees(patch):
    """Fit five trees in place of fifty, and as few iterations of boosting."""
    from dataclasses import replace

    from sklearn.base import clone

    from unseen.model_selection import METHODS

    for name in ("extra trees", "random forest"):
        forest = METHODS[name]
        few = replace(
            forest,
            classifier=clone(forest.classifier).set_params(n_estimators=5),
            ensemble_grid={**forest.ensemble_grid, "n_estimators": (5,)},
        )
        patch.setitem(METHODS, name, few)
    boosting = METHODS["gradient boosting"]
    few = replace(boosting, classifier=clone(boosting.classifier).set_params(max_iter=5))
    patch.setitem(METHODS, "gradient boosting", few)
