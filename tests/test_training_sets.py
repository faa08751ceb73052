"""With many held-out domains, several of them share a training set."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from unseen.model_selection import METHODS, EvaluationConfig, LeaveOneDomainOut, TrialSplits, select_model
from unseen.utils.samples import Samples


def many_domains(n_domains, rows=8, seed=0):
    rng = np.random.default_rng(seed)
    domain = np.repeat(np.arange(n_domains), rows)
    y = np.tile([0, 1], len(domain) // 2)
    X = rng.normal(size=(len(y), 3)) + y[:, None] + rng.normal(size=(n_domains, 3))[domain]
    return Samples(X, y, domain)


def natural_splits(samples):
    splits = list(LeaveOneDomainOut().split(samples.X, samples.y, samples.domain))
    return splits, TrialSplits.from_splits(samples, splits, skewed=False).natural


@pytest.mark.parametrize(("n_domains", "n_sets"), [(3, 3), (12, 12), (13, 7), (24, 12), (36, 12)])
def test_more_than_twelve_domains_share_training_sets(n_domains, n_sets):
    splits, shared = natural_splits(many_domains(n_domains))
    assert len({train.tobytes() for train, _ in shared}) == n_sets
    for (train, test), (common, held_out) in zip(splits, shared, strict=True):
        np.testing.assert_array_equal(test, held_out)
        assert set(common) <= set(train)  # never the held-out domain
        assert len(common) >= len(train) - 8 * (-(-n_domains // n_sets) - 1)


def test_training_rows_keep_their_classes_and_rows_that_are_held_out_twice_share_nothing():
    samples = many_domains(24)
    splits, _ = natural_splits(samples)
    y = samples.y.copy()
    y[np.isin(samples.domain, [3, 15])] += 2  # two classes that only two domains have, which would share a set
    rare, shared = natural_splits(Samples(samples.X, y, samples.domain))
    alone = [k for k in range(24) if len(shared[k][0]) == len(rare[k][0])]
    assert alone == [3, 15]
    twice = [*splits, *splits]
    assert TrialSplits.from_splits(samples, twice, skewed=False).natural == twice


def test_shared_training_sets_hardly_change_scores():
    samples = many_domains(26, rows=20)
    splits = list(LeaveOneDomainOut().split(samples.X, samples.y, samples.domain))
    candidates = list(METHODS["logistic"].candidates(2))
    shared = select_model(candidates, samples, splits, EvaluationConfig(), ensemble=False)
    assert len(shared.scores) == 26
    alone = []
    for train, test in splits:
        model = clone(METHODS["logistic"].classifier).fit(samples.X[train], samples.y[train])
        alone.append(model.score(samples.X[test], samples.y[test]))
    assert shared.mean == pytest.approx(np.mean(alone), abs=0.03)
