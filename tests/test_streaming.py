"""Statistics add up: chunks of any size, in any order, give the answer of one pass, to the last digits that matter."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from fractions import Fraction
from functools import reduce
from operator import add

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem, RBFSampler

from helpers import METHODS, make, three_domains
from unseen import CIDG, DICA, SCA
from unseen.estimators import Projection
from unseen.estimators._statistics import BLOCK_ROWS, Statistics
from unseen.linalg._cell_statistics import CellStatistics, Membership
from unseen.utils.validation import EncodedLabels

every_method = pytest.mark.parametrize("name", METHODS)

X, Y, D = three_domains(n_per_cell=12, seed=3)
NAMES = np.array(["north", "south", "west"])[D]
NEW = X[:9] + 0.3


def frozen_map(n_components):
    return FrozenEstimator(Nystroem(gamma=0.1, n_components=n_components, random_state=0).fit(X))


def stream(model, order, cuts):
    for rows in np.split(order, cuts):
        if len(rows):
            model.partial_fit(X[rows], Y[rows], sample_domain=NAMES[rows])
    return model


def assert_same_fit(model, expected, tolerance=1e-9):
    assert model.domains_.tolist() == expected.domains_.tolist()
    assert vars(model).get("classes_") is None or model.classes_.tolist() == expected.classes_.tolist()
    np.testing.assert_array_equal(model.cell_counts_, expected.cell_counts_)
    model.finalize()
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=tolerance)
    Z, reference = model.transform(NEW), expected.transform(NEW)
    np.testing.assert_allclose(Z, reference, atol=tolerance * np.abs(reference).max())


# One answer, however it is reached


@every_method
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(0, len(X)), max_size=8))
def test_chunks_of_any_size_in_any_order_give_the_one_pass_answer(name, seed, cuts):
    order = np.random.default_rng(seed).permutation(len(X))
    model = make(name, feature_map=frozen_map(20))
    assert_same_fit(stream(clone(model), order, sorted(cuts)), model.fit(X, Y, sample_domain=NAMES))


@pytest.mark.parametrize("centering", ["source", "target"])
def test_centering_works_on_a_stream_as_it_does_on_a_fit(centering):
    model = CIDG(feature_map="linear", centering=centering)
    one_pass = clone(model).fit(X, Y, sample_domain=NAMES)
    stream(model, np.arange(len(X)), [30])
    labels = ["north"] * 4 + ["elsewhere"] * 5
    np.testing.assert_allclose(
        model.transform(NEW, sample_domain=labels), one_pass.transform(NEW, sample_domain=labels), atol=1e-9
    )
    on_site = model.recenter(NEW)
    np.testing.assert_allclose(on_site.transform(NEW[:1]), one_pass.recenter(NEW).transform(NEW[:1]), atol=1e-9)
    assert on_site.recentered_
    assert not on_site.partial_fit(X[:5], Y[:5], sample_domain=NAMES[:5]).finalize().recentered_


def test_a_stream_goes_on_where_a_fit_ended():
    model = SCA(feature_map="linear").fit(X[::2], Y[::2], sample_domain=NAMES[::2])
    model.partial_fit(X[1::2], Y[1::2], sample_domain=NAMES[1::2])
    assert_same_fit(model, SCA(feature_map="linear").fit(X, Y, sample_domain=NAMES))


def test_without_labels_udica_streams_too():
    model = DICA(supervised=False, feature_map="linear")
    for rows in np.split(np.arange(len(X)), [10, 50]):
        model.partial_fit(X[rows], sample_domain=NAMES[rows])
    assert_same_fit(model, DICA(supervised=False, feature_map="linear").fit(X, sample_domain=NAMES))
    assert not hasattr(model, "classes_")


def test_a_map_that_learns_learns_from_the_first_chunk():
    first, rest = np.arange(0, len(X), 2), np.arange(1, len(X), 2)
    model = CIDG(feature_map=Nystroem(gamma=0.1, n_components=10, random_state=0))
    for rows in (first, rest):
        model.partial_fit(X[rows], Y[rows], sample_domain=NAMES[rows])
    on_first = FrozenEstimator(clone(model.feature_map).fit(X[first]))
    assert_same_fit(model, CIDG(feature_map=on_first).fit(X, Y, sample_domain=NAMES))


def test_single_precision_is_accumulated_in_double():
    single, rows = X.astype(np.float32), np.array_split(np.arange(len(X)), 7)
    streamed, double = (
        CIDG(feature_map="linear"),
        CIDG(feature_map="linear").fit(single.astype(float), Y, sample_domain=D),
    )
    for part in rows:
        streamed.partial_fit(single[part], Y[part], sample_domain=D[part])
    np.testing.assert_allclose(streamed.finalize().eigenvalues_, double.eigenvalues_, rtol=1e-12)
    assert streamed.transform(single).dtype == np.float32


# Solving waits until somebody asks


def count_solutions(monkeypatch):
    solved = []
    solve = Projection._solve_statistics

    def count(model, statistics):
        solved.append(1)
        solve(model, statistics)

    monkeypatch.setattr(Projection, "_solve_statistics", count)
    return solved


@pytest.mark.parametrize("use", ["transform", "finalize", "get_feature_names_out", "recenter"])
def test_many_chunks_are_solved_once_and_only_when_used(use, monkeypatch):
    solved = count_solutions(monkeypatch)
    model = stream(CIDG(feature_map="linear"), np.arange(len(X)), np.arange(1, len(X), 5))
    assert not solved
    for _ in range(2):
        found = getattr(model, use)(*([NEW] if use in ("transform", "recenter") else []))
        assert {"eigenvalues_", "coef_", "offset_"} <= set(vars(model))
        if use == "get_feature_names_out":
            assert found.tolist() == ["cidg0", "cidg1"]
    assert len(solved) == 1
    model.partial_fit(X[:5], Y[:5], sample_domain=NAMES[:5])
    assert model.transform(NEW).shape == (9, 2)
    assert len(solved) == 2


def test_one_class_is_an_error_only_when_the_projection_is_used():
    model = CIDG(feature_map="linear")
    for domain in np.unique(NAMES):
        rows = (domain == NAMES) & (Y == 1)
        model.partial_fit(X[rows], Y[rows], sample_domain=NAMES[rows])
    with pytest.raises(ValueError, match=r"at least 2 classes.* 1 class: \[1\]"):
        model.transform(NEW)
    rows = Y != 1
    model.partial_fit(X[rows], Y[rows], sample_domain=NAMES[rows])
    assert_same_fit(model, CIDG(feature_map="linear").fit(X, Y, sample_domain=NAMES))


# What partial_fit refuses


def test_an_exact_kernel_offers_no_partial_fit_and_says_why():
    assert not hasattr(CIDG(), "partial_fit")
    assert hasattr(CIDG(feature_map="linear"), "partial_fit")
    with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as caught:
        CIDG().partial_fit(X, Y)
    assert "Set feature_map" in str(caught.value.__cause__)


REFUSED = {
    "other features": ((X[:, :2], Y, D), "3 features|2 features"),
    "NaN": ((np.where(X > 0, X, np.nan), Y, D), "NaN"),
    "words after numbers": ((X, Y.astype(str), D), "one type; got 0 in one chunk and '0'"),
    "numbers that are no classes": ((X, Y + 0.5, D), "Unknown label type: continuous"),
    "no domains after some": ((X, Y, None), "sample_domain was given for some chunks"),
    "too few domains": ((X, Y, D[:5]), "5 labels for"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_chunk_that_is_refused_leaves_no_trace(what):
    (bad_X, bad_y, bad_domain), message = REFUSED[what]
    model = CIDG(feature_map="linear").partial_fit(X, Y, sample_domain=D)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(bad_X, bad_y, sample_domain=bad_domain)
    assert pickle.dumps(model) == before


# Statistics


def test_a_number_and_its_name_are_different_domains():
    def part(name):
        return Statistics.from_features(
            lambda rows: X[:2][rows], EncodedLabels.from_classes(Y[:2]), EncodedLabels.from_domains([name] * 2, 2)
        )

    assert (part(1) + part("1")).domains.tolist() == [1, "1"]
    assert (part("long name") + part("b")).domains.tolist() == ["b", "long name"]
    assert (part(1) + part(1)).cells.counts.tolist() == [[4]]


def through_npz(model, path):
    np.savez(path / "statistics.npz", **model.statistics_)
    twin = copy.copy(model)
    with np.load(path / "statistics.npz") as arrays:  # no pickles inside: allow_pickle stays False
        twin.statistics_ = dict(arrays)
    return twin


def through_joblib(model, path):
    joblib.dump(model, path / "model.joblib")
    return joblib.load(path / "model.joblib", mmap_mode="r")


def through_skops(model, path):
    io = pytest.importorskip("skops.io")
    io.dump(model, path / "model.skops")
    trusted = ["unseen.estimators._discriminants.CIDG"]
    assert io.get_untrusted_types(file=path / "model.skops") == trusted
    return io.load(path / "model.skops", trusted=trusted)


SAVED = {
    "pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
    "joblib": through_joblib,
    "skops": through_skops,
    "npz": through_npz,
}


@pytest.mark.parametrize("how", SAVED)
@pytest.mark.parametrize("used", [False, True], ids=["not yet used", "used"])
def test_a_stream_can_be_saved_and_continued(how, used, tmp_path):
    model = CIDG(feature_map="linear").partial_fit(X[:50], Y[:50], sample_domain=NAMES[:50])
    if used:
        model.transform(NEW)
    saved = SAVED[how](model, tmp_path)
    for part in (model, saved):
        part.partial_fit(X[50:], Y[50:], sample_domain=NAMES[50:])
    np.testing.assert_array_equal(saved.transform(NEW), model.transform(NEW))


# Digits

COARSE, FINE = Fraction(1, 2**13), Fraction(1, 2**26)  # steps of grids on which floats up to 1e7 are exact
OFFSETS = [10**6, -(10**6), 7, 3 * 10**5]


def on_a_grid(offsets, step=COARSE, n=4000, n_features=3, n_classes=2, seed=0):
    """Features on a grid, as integers and as floats: sd of 80 steps, 1e-2 or 1e-6, about the offset of each sample."""
    rng = np.random.default_rng(seed)
    cell = Membership.from_codes(rng.integers(0, n_classes, n), np.arange(n) % len(OFFSETS))
    ticks = np.rint(rng.normal(scale=80, size=(n, n_features))).astype(int) + rng.integers(0, 50, 8)[cell.cell][:, None]
    ticks = ticks.astype(object) + np.asarray(offsets, dtype=object)[:, None] * step.denominator
    return ticks, np.asarray(ticks * step, dtype=float), cell


def exactly(ticks, membership, step=COARSE):
    """Cell means and the scatter inside cells, in rational numbers."""
    means, inside = [], 0
    for c in range(membership.counts.size):
        rows = ticks[membership.cell == c]
        total = rows.sum(axis=0)
        means.append([Fraction(t, len(rows)) * step for t in total])
        inside = inside + (rows.T @ rows - np.outer(total, total) * Fraction(1, len(rows))) * step**2
    return np.array(means), inside.astype(float)


def chunked(features, membership, sizes):
    parts = np.split(np.arange(len(features)), np.cumsum(sizes)[:-1])
    chunks = []
    for rows in parts:
        counts = np.bincount(membership.cell[rows], minlength=membership.counts.size)
        chunks.append(
            CellStatistics.from_features(
                features[rows], Membership(counts.reshape(membership.counts.shape), membership.cell[rows])
            )
        )
    return reduce(add, chunks)


SIZES = {"one chunk": [4000], "fives": [5] * 800, "few after many": [3990, 10], "many after one": [1, 1999, 2000]}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("where", ["one offset", "one offset, tiny spread", "domains apart", "chunks apart"])
def test_large_offsets_and_many_chunks_cost_no_digits(where, sizes):
    n = 4000
    offsets = {
        "one offset": np.full(n, 10**6),
        "one offset, tiny spread": np.full(n, 10**6),
        "domains apart": np.array(OFFSETS)[np.arange(n) % 4],
        "chunks apart": np.where(np.arange(n) < 30, 0, 10**6),  # the first samples lie far from all that follow
    }[where]
    step = FINE if "tiny" in where else COARSE
    ticks, features, membership = on_a_grid(offsets.tolist(), step)
    exact_means, inside = exactly(ticks, membership, step)
    cells = chunked(features, membership, SIZES[sizes])
    np.testing.assert_allclose(cells.inside, inside, rtol=1e-11, atol=1e-11 * np.abs(inside).max())
    # Means are known beyond the digits of one number: compare the rest with what is left of them exactly.
    rest = (exact_means - np.vectorize(Fraction)(cells.means)).astype(float)
    spread = np.sqrt(np.diag(inside) / n)  # of samples within cells: 80 steps, unless chunks lie apart
    np.testing.assert_allclose((cells.tails - rest) / spread, 0, atol=1e-11)
    np.testing.assert_allclose(cells.mean, features.mean(axis=0), rtol=1e-12)


def test_a_hundred_million_samples_keep_their_digits():
    _, features, membership = on_a_grid([10**6] * 4000)
    cells = CellStatistics.from_features(features, membership)
    total = reduce(lambda sum_, _: sum_ + sum_, range(15), cells)  # doubled fifteen times: 1.3e8
    total = reduce(add, [cells] * 100, total)  # and a hundred small chunks on top
    times = 2**15 + 100
    assert total.counts.sum() == 4000 * times > 10**8
    np.testing.assert_allclose(total.inside, cells.inside * times, rtol=1e-12, atol=1e-12 * total.inside.max())
    np.testing.assert_allclose((total.means - cells.means) + (total.tails - cells.tails), 0, atol=1e-16)


# Memory


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_memory_does_not_grow_with_samples_times_features(method):
    n, r = 10 * BLOCK_ROWS, 200
    rng = np.random.default_rng(0)
    samples, y, d = rng.normal(size=(n, 3)), np.arange(n) % 2, np.arange(n) % 3
    model = CIDG(feature_map=RBFSampler(n_components=r, random_state=0))
    tracemalloc.start()
    try:
        getattr(model, method)(samples, y, sample_domain=d)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    block, everything = 8 * BLOCK_ROWS * r, 8 * n * r
    assert peak < 3 * block + 20 * 8 * r * r + 4 * samples.nbytes < everything
