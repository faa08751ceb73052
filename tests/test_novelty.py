"""Novelty: batches from a source look near whatever their size, batches from elsewhere look far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from unseen.linalg._cell_statistics import Moments
from unseen.shift._novelty import FAR_RATIO, Novelty, _nearest_mixture

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


@pytest.fixture
def world():
    """The same draws for each test, whichever ran before."""
    return World()


@pytest.fixture(scope="module")
def novelty():
    X, domain = World().sources()
    return Novelty(n_components=100).fit(X, sample_domain=domain)


def result(novelty, X):
    return novelty.compare(X)


@pytest.mark.parametrize("shift", [0.0, 0.2, 1.0, 5.0])
def test_batches_from_a_source_do_not_look_novel_whatever_their_size(shift):
    world = World(seed=3, shift=shift)
    X, domain = world.sources()
    novelty = Novelty(n_components=100).fit(X, sample_domain=domain)
    for n in (1, 2, 3, 5, 20, 100, 500):
        found = [result(novelty, world.draw(n, k % len(NAMES))) for k in range(30)]
        assert not any(entry.far for entry in found)
        assert np.median([entry.ratio for entry in found]) < 1
        assert max(entry.ratio for entry in found) < 3


def fresh_and_far(rows, n_sources, kind, draws):
    """Share of new domains, drawn from the population of the sources, that are called far."""
    far = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        classes = 2 * rng.normal(size=(3, 2))

        def domain(rng=rng, classes=classes):
            place = 3 * rng.normal(size=1 if kind == "along a line" else 2)
            scale = np.exp(0.5 * rng.normal(size=2)) if kind == "in spread too" else 1.0
            shares = rng.dirichlet([5] * 3) if kind == "in class proportions too" else None
            y = rng.choice(3, size=rows, p=shares)
            return classes[y] + place + scale * rng.normal(size=(rows, 2))

        X = np.vstack([domain() for _ in range(n_sources)])
        novelty = Novelty(n_components=60).fit(X / X.std(axis=0), sample_domain=np.repeat(np.arange(n_sources), rows))
        far += [result(novelty, domain() / X.std(axis=0)).far for _ in range(5)]
    return np.mean(far)


@pytest.mark.parametrize("kind", ["along a line", "in class proportions too"])
def test_fresh_domains_of_the_sources_population_are_seldom_far_though_sources_are_few(kind):
    assert fresh_and_far(60, n_sources=3, kind=kind, draws=40) <= 0.05


@pytest.mark.parametrize("shift", [0.0, 1.0, 5.0])
def test_a_single_row_is_too_few_to_tell_and_sixty_are_not(shift):
    world = World(seed=3, shift=shift)
    X, domain = world.sources(60)
    novelty = Novelty(n_components=100).fit(X, sample_domain=domain)
    one, many, outside = (result(novelty, rows) for rows in (world.draw(1), world.draw(60), world.draw(1) + 200))
    assert (one.too_few, many.too_few) == (True, False)
    assert one.text.startswith("Too few rows to tell how far they lie from the sources: 1 here, 60 in the smallest")
    assert (outside.far, outside.too_few) == (True, False)


def test_what_is_undecided_names_what_is_too_few():
    world = World(seed=4, shift=1.0)
    X, domain = world.sources(40)
    novelty = Novelty(n_components=100).fit(X, sample_domain=domain)
    texts = {result(novelty, world.draw(n) + step).text for n in (3, 8, 200) for step in np.linspace(1, 6, 20)}
    undecided = " ".join(text for text in texts if text.startswith("Undecided"))
    assert "3 sources are too few to rule out" in undecided
    assert "the rows are too few to rule out" in undecided


@pytest.mark.parametrize("shift", [0.0, 1.0, 5.0])
def test_batches_beyond_all_sources_are_far_whatever_their_size(shift):
    world = World(seed=4, shift=shift)
    X, domain = world.sources()
    novelty = Novelty(n_components=100).fit(X, sample_domain=domain)
    for n in (1, 2, 5, 500):
        found = result(novelty, world.draw(n) + 200)
        assert found.far
        assert found.ratio > FAR_RATIO
        assert "Far outside" in found.text


def test_the_further_out_the_larger_the_ratio(world, novelty):
    X = np.vstack([world.draw(200, s) for s in range(len(NAMES))])  # no nearer in any direction
    ratios = [result(novelty, X + step).ratio for step in (0, 1, 2, 4, 8)]
    assert ratios == sorted(ratios)
    assert ratios[-1] > 2 > 0.5 > ratios[0]


@pytest.mark.parametrize("domain", range(len(NAMES)))
def test_the_nearest_source_is_the_one_a_batch_was_drawn_from(world, novelty, domain):
    assert result(novelty, world.draw(300, domain)).nearest_domain == NAMES[domain]


@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6), seed=SEEDS)
@settings(max_examples=25)
def test_moments_of_pieces_add_up_in_any_order_and_grouping(sizes, seed):
    """Also of empty pieces, and far from the origin."""
    X = 1e6 + np.random.default_rng(seed).normal(size=(sum(sizes), 3))
    parts = [Moments.from_values(part) for part in np.split(X, np.cumsum(sizes)[:-1])]
    middle, whole = len(parts) // 2, Moments.from_values(X)
    nothing = Moments.from_values(X[:0])
    for total in (
        sum(parts, nothing),
        sum(parts[::-1], nothing),
        sum(parts[:middle], nothing) + sum(parts[middle:], nothing),
    ):
        assert total.count == len(X)
        np.testing.assert_allclose(total.mean, whole.mean, rtol=1e-14)
        np.testing.assert_allclose(total.trace, whole.trace, rtol=1e-6)  # the mean has lost ten digits of it


def test_distances_are_free_of_sampling_noise_on_average(world, novelty):
    """The squared distance of small batches averages to that of a large one; uncorrected it would be far above."""
    average = np.full(len(NAMES), 1 / len(NAMES))
    large = novelty.moments(world.draw(20_000, 1))
    truth, *_ = novelty._squared_distance(large.mean, large.trace / large.count, average)
    small = [novelty.moments(world.draw(4, 1)) for _ in range(200)]
    noise = np.array([batch.trace / batch.count for batch in small])
    squares = np.array([novelty._squared_distance(b.mean, b.trace / b.count, average)[0] for b in small])
    error = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - truth) < 4 * error
    assert noise.mean() > 8 * error  # the correction is what makes the difference


@pytest.fixture(scope="module", params=[5, 30, 1e4])
def odd(request):
    """One source lies far from the others, as a site with other units does: how to draw, and how to judge a batch."""
    rng = np.random.default_rng(1)
    places = 0.3 * rng.normal(size=(6, 5))
    places[5] += request.param

    def draw(n, source):
        return places[source] + rng.normal(size=(n, 5))

    X = np.vstack([draw(60, s) for s in range(6)])
    scale = X.std(axis=0)
    novelty = Novelty().fit(X / scale, sample_domain=np.repeat(list("abcdef"), 60))
    return draw, lambda batch: result(novelty, batch / scale)


@pytest.mark.parametrize("change", [lambda x: x - 20, lambda x: x - 1e6, lambda x: x + 1e6, lambda x: 1e5 * x])
@pytest.mark.parametrize("n", [60, 500])
def test_what_is_far_away_is_far_although_one_source_is_odd(odd, change, n):
    draw, novelty_of = odd
    found = novelty_of(change(draw(n, 0)))
    assert found.far
    assert found.ratio > FAR_RATIO


@pytest.mark.parametrize("source", [0, 4, 5])
def test_batches_of_each_source_are_not_far_and_be_it_the_odd_one(odd, source):
    draw, novelty_of = odd
    assert not any(novelty_of(draw(n, source)).far for n in (1, 2, 3, 10, 60, 500))


def test_mixtures_of_sources_are_not_far(odd):
    draw, novelty_of = odd
    assert not novelty_of(np.vstack([draw(200, s) for s in range(6)])).far
    assert not novelty_of(np.vstack([draw(300, 0), draw(100, 5)])).far


def test_what_lies_between_the_odd_source_and_the_others_is_far(odd):
    draw, novelty_of = odd
    assert novelty_of((draw(200, 0) + draw(200, 5)) / 2).far


@given(seed=SEEDS, n=st.integers(1, 8), n_features=st.integers(1, 5))
@settings(max_examples=25)
def test_the_nearest_mixture_is_the_nearest(seed, n, n_features):
    """No point pulls back from it by more than a thousandth: the condition of optimality."""
    points = np.random.default_rng(seed).normal(size=(n, n_features)) + 1
    weights = _nearest_mixture(points)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    average = weights @ points
    square = average @ average
    assert square <= 1e-8 or square - (points @ average).min() <= 1e-3 * square


@pytest.mark.parametrize("size", [1e15, 1e100, 1e300])
def test_no_value_is_too_large(world, novelty, size):
    found = result(novelty, world.draw(20) * size)
    assert found.far
    assert np.isfinite([found.distance, found.ratio]).all()


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
    with pytest.raises(ValueError, match="0 sample"):
        novelty.compare(X[:0])
    with pytest.raises(ValueError, match="3 features, but Novelty is expecting 4"):
        novelty.compare(X[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        novelty.compare(np.full((2, 4), np.nan))
    with pytest.raises(NotFittedError):
        Novelty().compare(X)
    with pytest.raises(ValueError, match="'n_components' parameter"):
        Novelty(n_components=0).fit(X, sample_domain=domain)
