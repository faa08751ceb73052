"""What UnseenClassifier is for: simulated places, with and without a shift of each class."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from unseen import UnseenClassifier
from unseen.model_selection import METHODS, EvaluationConfig, LeaveOneDomainOut, best_by_variant, tabulate_candidates
from unseen.utils.samples import Samples

PLAIN = ["logistic", "linear SVM", "RBF SVM"]


@pytest.fixture(autouse=True, scope="module")
def single_thread():
    """Many tiny problems: threads would only wait for each other."""
    with threadpool_limits(1):
        yield


def five_places(seed, radius, signal, n_source=25, n_target=200):
    """Two classes that one feature tells apart everywhere; in a plane, their means move with the domain.

    In domain k the classes lie at +v_k and -v_k of that plane, v_k the corners of a pentagon: within a domain this is
    a strong signal, but the corners sum to zero, so whatever the other four suggest is wrong for the fifth.
    """
    rng = np.random.default_rng(seed)
    sizes = np.array([n_source] * 4 + [n_target])
    side = np.concatenate([np.repeat([-1, 1], size) for size in sizes])
    d = np.repeat(np.arange(5), 2 * sizes)
    angle = 2 * np.pi * d / 5
    X = rng.normal(size=(len(d), 10))
    X[:, :3] += side[:, None] * np.column_stack(
        [np.full(len(d), signal), radius * np.cos(angle), radius * np.sin(angle)]
    )
    X = X @ np.linalg.qr(rng.normal(size=(10, 10)))[0]  # no coordinate is special
    source = d < 4
    return X[source], side[source], d[source], X[~source], side[~source]


def accuracies(seed, **options):
    """Accuracy on the unseen domain: of the choice among all, and of each plain classifier tuned the same way."""
    X, y, d, X_new, y_new = five_places(seed, **options)
    splits = list(LeaveOneDomainOut().split(X, y, d))
    candidates = [c for name in PLAIN for c in METHODS[name].candidates(2)]
    field = best_by_variant(candidates, tabulate_candidates(candidates, Samples(X, y, d), splits, EvaluationConfig()))
    plain = {c.candidate.variant: c.candidate.fit(X, y, d).score(X_new, y_new) for c in field}
    chosen = UnseenClassifier([*PLAIN, "cidg"]).fit(X, y, sample_domain=d).score(X_new, y_new)
    return {"chosen": chosen, **plain}


def mean_accuracies(**options):
    rows = [accuracies(seed, **options) for seed in range(2)]
    means = {name: np.mean([row[name] for row in rows]) for name in rows[0]}
    return means.pop("chosen"), max(means.values())


def test_under_conditional_shift_it_beats_every_plain_classifier_by_ten_points():
    chosen, best_plain = mean_accuracies(radius=3.0, signal=1.2)
    assert chosen >= best_plain + 0.10


def test_without_shift_it_loses_at_most_a_point():
    chosen, best_plain = mean_accuracies(radius=0.0, signal=1.6)
    assert chosen >= best_plain - 0.01
