"""What is reported about a held-out domain is fitted without its labels, and is at chance where there is no signal."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from helpers import three_domains
from unseen import DomainCenterer
from unseen.model_selection import (
    Candidate,
    LeavePDomainsOut,
    OutOfDomainPredictions,
    Prediction,
    TrialSplits,
)
from unseen.model_selection._ensemble import ConformalSets
from unseen.model_selection._ensemble_selection import FULL_ENSEMBLE
from unseen.utils.samples import Samples

pytestmark = pytest.mark.usefixtures("few_trees")

N_CLASSES = 3


def candidates_of(n_members):
    """Half of them are transductive."""
    still = [Candidate(f"still {j}", {}, None, None) for j in range(n_members // 2)]
    moving = [Candidate(f"moving {j}", {}, DomainCenterer(), None, plain=False) for j in range(n_members // 2)]
    return [*still, *moving]


def trials_of(samples, natural, *, nested):
    with pytest.MonkeyPatch.context() as patch:
        if not nested:
            patch.setattr("unseen.model_selection._splitters.MAX_NESTED_ROWS", 0)
        trials = TrialSplits.from_splits(samples, natural)
    assert bool(trials.nested_positions) == nested
    return trials


def leave_one_out(domain):
    return [(np.flatnonzero(domain != k), np.flatnonzero(domain == k)) for k in np.unique(domain)]


def random_votes(rng, candidates, trials, codes, skill):
    """Votes with some skill, of each candidate on each split; inductive ones do not vote on what is drawn again."""
    said = []
    for (j, candidate), (at, (_, test)) in product(enumerate(candidates), enumerate(trials.splits)):
        if candidate.transductive or at not in trials.skewed_positions:
            own = skill * (1 + candidate.transductive) * np.eye(N_CLASSES)[codes[test]]
            cast = (1 + j) * (own + rng.normal(size=(len(test), N_CLASSES)))  # on scales of their own
            said.append(Prediction(j, at, cast.argmax(axis=1), {"decision_scores": cast}))
    return said


@pytest.fixture
def votes(request):
    """Samples, trials and votes: transductive candidates are better, and so are neighbors of a kind."""
    rng, m, n = np.random.default_rng(0), 6, 50
    codes, domain = rng.integers(N_CLASSES, size=m * n), np.repeat(np.arange(m), n)
    X = 3 * np.eye(N_CLASSES)[codes] + rng.normal(size=(m * n, N_CLASSES))
    samples, candidates = Samples(X, codes, domain), candidates_of(6)
    trials = trials_of(samples, leave_one_out(domain), nested=request.param == "nested")  # or cached
    return candidates, samples, trials, random_votes(rng, candidates, trials, codes, skill=0.7)


def relabelled(samples, k):
    """The same with other labels of one domain."""
    y, own = samples.y.copy(), samples.domain == k
    y[own] = np.random.default_rng(1).permutation(y[own])
    assert np.mean(y[own] != samples.y[own]) > 0.4
    return replace(samples, y=y)


@pytest.mark.parametrize(
    ("votes", "k", "scoring"),
    [
        ("nested", 0, "accuracy"),
        ("nested", 3, "neg_log_loss"),
        ("cached", 3, "accuracy"),
        ("cached", 0, "neg_log_loss"),
    ],
    indirect=["votes"],
)
def test_labels_of_a_domain_change_no_bit_of_the_probabilities_that_are_reported_for_it(votes, k, scoring):
    candidates, samples, trials, said = votes
    features = [samples.X[test] for _, test in trials.natural]
    before, after = (
        OutOfDomainPredictions(candidates, one, trials, said, scoring).fit_ensemble(features)
        for one in (samples, relabelled(samples, k))
    )
    if scoring == "accuracy":
        assert before.name == after.name == f"{FULL_ENSEMBLE}, smoothed"
        assert before.scores[k] != after.scores[k]
    names = {one.trial_name: one for one in before.trials}
    compared = [(names[two.trial_name], two) for two in after.trials if two.trial_name in names]
    assert len(compared) == (3 if scoring == "accuracy" else 2)  # of all, inductive or not, and the better one smoothed
    for one, two in compared:
        np.testing.assert_array_equal(one.held_out[k], two.held_out[k])
        for other in set(range(6)) - {k}:
            assert np.abs(one.held_out[other] - two.held_out[other]).max() > 1e-6


@pytest.mark.parametrize(("votes", "k"), [("nested", 0), ("cached", 3)], indirect=["votes"])
def test_labels_of_a_domain_have_no_say_in_the_model_that_is_picked_for_it(votes, k):
    candidates, samples, trials, said = votes
    before, after = (
        OutOfDomainPredictions(candidates, one, trials, said).select(ensemble=False)
        for one in (samples, relabelled(samples, k))
    )
    np.testing.assert_array_equal(before.held_out[k], after.held_out[k])
    assert before.scores[k] != after.scores[k]


def test_labels_of_held_out_parts_that_share_samples_have_no_say_either():
    X, y, d = three_domains(n_domains=4)
    domain = np.array(list("abcd"))[d]
    samples = Samples(X, y, domain)
    natural = list(LeavePDomainsOut(2).split(X, y, domain))
    candidates, trials = candidates_of(4)[:2], TrialSplits.from_splits(samples, natural, skewed=False)
    said = random_votes(np.random.default_rng(0), candidates, trials, samples.codes, skill=1.0)
    before, after = (
        OutOfDomainPredictions(candidates, one, trials, said).fit_ensemble(None)
        for one in (samples, relabelled(samples, "a"))
    )
    touched = [bool(np.isin("a", domain[test])) for _, test in natural]
    assert sum(touched) == 3
    for k in np.flatnonzero(touched):
        np.testing.assert_array_equal(before.held_out[k], after.held_out[k])


def test_models_are_trained_without_pairs_of_domains_where_data_are_few():
    X, y, d = three_domains(n_domains=5)
    assert TrialSplits.from_splits(Samples(X, y, d), leave_one_out(d), skewed=False).nested_positions
    assert not TrialSplits.from_splits(Samples(X, y, d), leave_one_out(d)[:3]).nested_positions
    many = np.repeat(np.arange(len(y)), 30)
    assert not TrialSplits.from_splits(Samples(X[many], y[many], d[many]), leave_one_out(d[many])).nested_positions


# Noise


def noise_pool(rng, n_domains=5, n=25, n_members=6):
    """A pool of random votes, and how often its sets hold the truth on a new domain."""
    codes, domain = rng.integers(N_CLASSES, size=n_domains * n), np.repeat(np.arange(n_domains), n)
    samples, candidates = Samples(rng.normal(size=(len(codes), 2)), codes, domain), candidates_of(n_members)
    trials = trials_of(samples, leave_one_out(domain), nested=False)
    said = random_votes(rng, candidates, trials, codes, skill=0.0)
    found = OutOfDomainPredictions(candidates, samples, trials, said).fit_ensemble(
        [samples.X[test] for _, test in trials.natural]
    )
    cast = [rng.normal(size=(n, N_CLASSES)) for _ in found.members]
    P = found.to_estimator().combine_scores(cast, rng.normal(size=(n, 2)))
    covered = ConformalSets.from_predictions(found.held_out, found.codes).sets(P, 0.8)[
        np.arange(n), rng.integers(N_CLASSES, size=n)
    ]
    return found, float(covered.mean())


@pytest.mark.slow
def test_random_votes_score_chance_steps_are_not_accepted_and_sets_cover():
    rng = np.random.default_rng(0)
    pools, covered = zip(*(noise_pool(rng) for _ in range(120)), strict=True)
    for tried in zip(*(pool.trials for pool in pools), strict=True):  # the pool of inductive ones, of all, and smoothed
        for scores in np.mean(
            [[one.scores, one.skewed] for one in tried], axis=2
        ).T:  # natural batches, and skewed ones
            assert abs(scores.mean() - 1 / 3) < 2 * scores.std(ddof=1) / np.sqrt(len(scores))
    assert np.mean([pool.kind == "transductive" for pool in pools]) <= 0.1
    assert np.mean([pool.mean for pool in pools]) < 1 / 3 + 0.015  # a choice among pools that differ by ten points
    assert np.mean(covered) >= 0.78


# Ranges
