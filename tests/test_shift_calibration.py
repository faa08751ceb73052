"""Under no shift of a kind, its p-values are uniform: also for P(X|Y) when the class proportions move."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import stats

from unseen.shift import diagnose

N_PERMUTATIONS = 99
N_SETS = 30
ALIKE = np.full((3, 3), 1 / 3)
SKEWED = np.array([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.3, 0.1, 0.6]])
SIZES = (60, 40, 25)

# Each world: samples of one domain after the other, drawn independently, and the kinds of shift it does not have.
WORLDS = {
    "nothing moves": {"label", "covariate", "conditional", "prior_normalized"},
    "class proportions move": {"conditional", "prior_normalized"},
    "class proportions move, cells are missing": {"conditional", "prior_normalized"},
    "every class moves": {"label"},
    "other labels for the same features": {"label", "covariate"},
}


def draw(world, rng):
    d = np.repeat(np.arange(3), SIZES)
    proportions = SKEWED if world.startswith("class proportions") else ALIKE
    if world.endswith("missing"):
        proportions = np.array([[0.7, 0.3, 0.0], [0.0, 0.7, 0.3], [0.3, 0.0, 0.7]])
    y = np.array([rng.choice(3, p=proportions[s]) for s in d])
    X = rng.normal(size=(len(d), 2))
    if world == "other labels for the same features":
        direction = np.exp(2j * np.pi * d / 3)
        y = (X @ [1, 1j] * direction).real > 0
    else:
        # Classes differ in place and in spread, so that pooling them would show.
        X = X * (0.5 + 0.5 * y[:, None]) + 2 * y[:, None]
    if world == "every class moves":
        X[:, 0] += d
    return X, y, d


@functools.cache
def p_values(world, n_sets):
    """P-values of every kind, spread evenly within their steps: uniform under the null, not just on a grid."""
    found: dict[str, list[float]] = {}
    for seed in range(n_sets):
        X, y, d = draw(world, np.random.default_rng(seed))
        diagnosis = diagnose(X, y, sample_domain=d, n_permutations=N_PERMUTATIONS, random_state=seed)
        for test in diagnosis.tests:
            found.setdefault(test.key, []).append(test.p_value)
        for k, test in enumerate(diagnosis.class_tests):
            found.setdefault(f"class {k}", []).append(test.p_value)
    jitter = np.random.default_rng(0).random(n_sets) / (N_PERMUTATIONS + 1)
    return {key: np.array(values) - jitter for key, values in found.items()}


def null_kinds(world):
    classes = {f"class {k}" for k in range(3)} if "conditional" in WORLDS[world] else set()
    return sorted(WORLDS[world] | classes)


CASES = [(world, kind) for world in WORLDS for kind in null_kinds(world)]


@pytest.mark.parametrize(("world", "kind"), CASES)
def test_p_values_look_uniform_without_a_shift(world, kind):
    assert stats.kstest(p_values(world, N_SETS)[kind], "uniform").pvalue > 0.002


@pytest.mark.parametrize(
    ("world", "kind"),
    [
        ("class proportions move", "label"),
        ("class proportions move", "covariate"),
        ("every class moves", "covariate"),
        ("every class moves", "conditional"),
        ("every class moves", "prior_normalized"),
        ("other labels for the same features", "conditional"),
    ],
)
def test_p_values_are_small_with_a_shift(world, kind):
    """The other side: what looks uniform above is not a test that never fires."""
    assert np.mean(p_values(world, N_SETS)[kind] <= 0.05) > 0.9
