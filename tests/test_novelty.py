"""Novelty: batches from a source look near whatever their size, batches from elsewhere look far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from unseen.novelty import FAR, Novelty

NAMES = ["north", "south", "west"]
SEEDS = st.integers(0, 2**32 - 1)


class World:
    """Domains that differ by a shift; anyone can draw samples of them."""

    def __init__(self, seed=0, shift=1.0, n_features=4):
        self.rng = np.random.default_rng(seed)
        self.classes = 2 * self.rng.normal(size=(3, n_features))
        self.shifts = shift * self.rng.normal(size=(len(NAMES), n_features))

    def draw(self, n, domain=0):
        y = self.rng.integers(0, len(self.classes), n)
        return self.classes[y] + self.shifts[domain] + self.rng.normal(size=(n, self.classes.shape[1]))

    def sources(self, n=150):
        X = np.vstack([self.draw(n, s) for s in range(len(NAMES))])
        return X, np.repeat(NAMES, n)


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture(scope="module")
def novelty(world):
    X, domain = world.sources()
    return Novelty(n_components=100).fit(X, sample_domain=domain)


def result(novelty, X):
    return novelty.start().add(X).result()


@pytest.mark.parametrize("shift", [0.0, 0.2, 1.0, 5.0])
def test_batches_from_a_source_do_not_look_novel_whatever_their_size(shift):
    world = World(seed=3, shift=shift)
    X, domain = world.sources()
    novelty = Novelty(n_components=100).fit(X, sample_domain=domain)
    for n in (1, 2, 3, 5, 20, 100, 500):
        found = [result(novelty, world.draw(n, k % len(NAMES))) for k in range(30)]
        assert not any(entry.far for entry in found)
        assert np.median([entry.ratio for entry in found]) < 1
        assert max(entry.ratio for entry in found) < 2.5


def test_two_samples_that_happen_to_be_close_are_not_far():
    """Their own spread is no measure of how far two samples of a source may lie from its mean."""
    X, domain = World(seed=3, shift=0.0).sources()
    novelty = Novelty(n_components=100).fit(X, sample_domain=domain)
    draws = World(seed=3, shift=0.0).draw(800).reshape(400, 2, -1)
    assert sum(result(novelty, pair).far for pair in draws) <= 1


@pytest.mark.parametrize("shift", [0.0, 1.0, 5.0])
def test_batches_beyond_all_sources_are_far_whatever_their_size(shift):
    world = World(seed=4, shift=shift)
    X, domain = world.sources()
    novelty = Novelty(n_components=100).fit(X, sample_domain=domain)
    for n in (1, 2, 5, 500):
        found = result(novelty, world.draw(n) + 200)
        assert found.far
        assert found.ratio > FAR
        assert "Far outside" in found.text


def test_the_further_out_the_larger_the_ratio(world, novelty):
    X = np.vstack([world.draw(200, s) for s in range(len(NAMES))])  # no nearer in any direction
    ratios = [result(novelty, X + step).ratio for step in (0, 1, 2, 4, 8)]
    assert ratios == sorted(ratios)
    assert ratios[-1] > 2 > 0.5 > ratios[0]


@pytest.mark.parametrize("domain", range(len(NAMES)))
def test_the_nearest_source_is_the_one_a_batch_was_drawn_from(world, novelty, domain):
    assert result(novelty, world.draw(300, domain)).nearest_domain == NAMES[domain]


@given(cuts=st.lists(st.integers(0, 120), max_size=6), seed=SEEDS)
@settings(max_examples=10)
def test_pieces_and_one_batch_agree(novelty, cuts, seed):
    X = 1e3 * np.random.default_rng(seed).uniform() + World(seed).draw(120)
    pieces = novelty.start()
    for part in np.split(X, sorted(cuts)):
        if len(part):
            pieces.add(part)
    whole = novelty.start().add(X)
    assert pieces.count == whole.count == 120
    np.testing.assert_allclose(pieces.mean, whole.mean, atol=1e-12)
    np.testing.assert_allclose(pieces.trace, whole.trace, atol=1e-12)


def test_distances_are_free_of_sampling_noise_on_average(world, novelty):
    """The squared distance of small batches averages to that of a large one; uncorrected it would be far above."""
    truth = result(novelty, world.draw(20_000, 1)).distance ** 2
    small = [novelty.start().add(world.draw(4, 1)) for _ in range(200)]
    noise = np.array([batch.trace / batch.count for batch in small])
    squares = np.array([novelty._squared_distance(b.mean, b.trace / b.count, slice(None))[0] for b in small])
    error = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - truth) < 4 * error
    assert noise.mean() > 8 * error  # the correction is what makes the difference


def test_a_reference_is_a_source_seen_as_a_new_batch_by_the_others(world):
    X, domain = world.sources()
    novelty = Novelty(n_components=100).fit(X, sample_domain=domain)
    kept = domain != "south"
    batch = novelty.start().add(X[~kept])
    others = clone(novelty).fit(X, sample_domain=domain)  # the same landmarks, then one source fewer
    others.domains_ = others.domains_[[0, 2]]
    others.means_, others.counts_, others.traces_ = (
        others.means_[[0, 2]],
        others.counts_[[0, 2]],
        others.traces_[[0, 2]],
    )
    found = others.of(batch.mean, batch.count, batch.trace)
    assert found.distance == pytest.approx(novelty.reference_[1], rel=1e-9)


def test_domains_count_equally_however_large(world):
    X, domain = world.sources(100)
    novelty = Novelty(n_components=50).fit(X, sample_domain=domain)
    more = np.vstack([X, *[X[domain == "west"]] * 5])
    again = Novelty(n_components=50).fit(more, sample_domain=np.append(domain, ["west"] * 500))
    batch = world.draw(3000)
    assert result(again, batch).distance == pytest.approx(result(novelty, batch).distance, rel=0.15)


def test_an_embedded_sample_has_unit_length(world, novelty):
    for X in (world.draw(50), world.draw(50) + 3, world.draw(50) + 1e6):
        np.testing.assert_allclose(np.linalg.norm(novelty._embed(X), axis=1), 1, atol=1e-6)


def test_the_same_seed_gives_the_same_answer(world):
    X, domain = world.sources(40)
    first, second = (Novelty(n_components=30, random_state=7).fit(X, sample_domain=domain) for _ in range(2))
    np.testing.assert_array_equal(first.reference_, second.reference_)


def test_samples_that_are_all_the_same_are_no_crash():
    X, domain = np.ones((6, 2)), ["a", "a", "a", "b", "b", "b"]
    novelty = Novelty().fit(X, sample_domain=domain)
    assert not result(novelty, X).far
    assert result(novelty, X + 50).far
    assert np.isfinite(result(novelty, X + 50).distance)


def test_a_domain_of_one_sample_is_no_crash(world):
    X, domain = world.sources(20)
    lonely = Novelty().fit(np.vstack([X, X[:1]]), sample_domain=np.append(domain, "alone"))
    assert np.isfinite(lonely.reference_).all()
    assert np.isfinite(lonely.traces_).all()


def test_what_cannot_be_compared_is_refused(world, novelty):
    X, domain = world.sources(10)
    with pytest.raises(ValueError, match="at least 2 domains; sample_domain holds 1"):
        Novelty().fit(X, sample_domain=["a"] * len(X))
    with pytest.raises(ValueError, match="nothing was added"):
        novelty.start().result()
    with pytest.raises(ValueError, match="3 features, but Novelty is expecting 4"):
        novelty.start().add(X[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        novelty.start().add(np.full((2, 4), np.nan))
    with pytest.raises(NotFittedError):
        Novelty().start()
    with pytest.raises(ValueError, match="'n_components' parameter"):
        Novelty(n_components=0).fit(X, sample_domain=domain)
