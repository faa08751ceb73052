"""Dask collections give the answer of arrays in memory, whatever their blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers import METHODS, make, three_domains
from unseen import CIDG, KFDA, DomainCenterer, ProjectionSearchCV, UnseenClassifier
from unseen.exceptions import SmallBatchError
from unseen.model_selection import EnsembleClassifier

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pd = pytest.importorskip("pandas")
dd = pytest.importorskip("dask.dataframe")

from unseen import distributed  # noqa: E402
from unseen.estimators import _dask  # noqa: E402

X, Y, D = three_domains(n_per_cell=12, seed=3)
NAMES = np.array(["north", "south", "west"])[D]
ELSEWHERE = np.where(D == 2, "elsewhere", NAMES)
ROWS = len(X)
TABLE = pd.DataFrame(X, columns=list("abcd"))
every_method = pytest.mark.parametrize("name", METHODS)


def unknown(array):
    """The same rows in blocks of unknown lengths."""
    mask = array[:, 0] > -np.inf if array.ndim == 2 else array == array
    return array[mask]


def frames(npartitions=5):
    return dd.from_pandas(TABLE.assign(y=Y, site=NAMES), npartitions=npartitions)


def from_frames(npartitions=5):
    table = frames(npartitions)
    return table[list("abcd")], table["y"], table["site"]


def arrays(rows, y_rows=None, domain_rows=None, columns=-1):
    return (
        da.from_array(X, chunks=(rows, columns)),
        da.from_array(Y, chunks=y_rows or rows),
        da.from_array(NAMES, chunks=domain_rows or rows),
    )


LAYOUTS = {
    "one block": lambda: arrays(ROWS),
    "equal blocks": lambda: arrays(17),
    "blocks with few classes and domains": lambda: arrays(5),
    "columns apart": lambda: arrays(30, columns=3),
    "unaligned": lambda: arrays(17, 40, 9),
    "unknown lengths": lambda: tuple(map(unknown, arrays(17))),
    "unknown lengths, unaligned": lambda: tuple(map(unknown, arrays(17, 40, 9))),
    "unknown lengths, as many blocks": lambda: tuple(map(unknown, arrays((50, ROWS - 50), (20, ROWS - 20)))),
    "known rows, unknown labels": lambda: (arrays(17)[0], *map(unknown, arrays(17, 30)[1:])),
    "an empty block": lambda: tuple(map(unknown, arrays((0, 40, 0, ROWS - 40)))),
    "labels in memory": lambda: (arrays(17)[0], Y, NAMES),
    "labels in memory, unknown lengths": lambda: (unknown(arrays(17)[0]), Y.tolist(), NAMES.tolist()),
    "dataframe": from_frames,
    "dataframe and array": lambda: (from_frames()[0], *arrays(17)[1:]),
    "array and dataframe": lambda: (arrays(17)[0], *from_frames()[1:]),
}


def assert_same(model, expected):
    assert model.domains_.tolist() == expected.domains_.tolist()
    np.testing.assert_array_equal(model.cell_counts_, expected.cell_counts_)
    model.finalize()
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-9 * np.abs(expected.coef_).max())
    np.testing.assert_allclose(model.offset_, expected.offset_, atol=1e-9)


@pytest.fixture
def nothing_is_collected(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a Dask array was collected")

    monkeypatch.setattr(da.Array, "__array__", refuse)
    monkeypatch.setattr(da.Array, "compute", refuse)


# Fitting


@pytest.mark.usefixtures("nothing_is_collected")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_of_any_layout_give_the_answer_of_memory(layout):
    samples, y, domain = LAYOUTS[layout]()
    model = CIDG(feature_map="linear").fit(samples, y, sample_domain=domain)
    assert_same(model, CIDG(feature_map="linear").fit(X, Y, sample_domain=NAMES))
    assert model.n_features_in_ == 4


@every_method
def test_every_method_gives_the_answer_of_memory(name):
    model = make(name, feature_map=RBFSampler(gamma=0.05, n_components=30, random_state=0))
    samples, y, domain = arrays(17, 40)
    labels = None if name == "UDICA" else y
    streamed = make(name, feature_map=model.feature_map).fit(samples, labels, sample_domain=domain)
    assert_same(streamed, model.fit(X, Y, sample_domain=NAMES))


def test_sparse_blocks_stay_sparse():
    samples, y, domain = arrays(17)
    seen = []
    feature_map = FrozenEstimator(RBFSampler(gamma=0.05, n_components=30, random_state=0).fit(X))
    model = CIDG(feature_map=feature_map)
    check = model._check_samples
    model._check_samples = lambda block, **options: (seen.append(sparse.issparse(block)), check(block, **options))[1]
    model.fit(samples.map_blocks(sparse.csr_array), y, sample_domain=domain)
    assert seen
    assert all(seen)
    assert_same(model, CIDG(feature_map=feature_map).fit(X, Y, sample_domain=NAMES))


def test_names_of_columns_are_kept_and_checked():
    samples, y, domain = from_frames()
    model = CIDG(feature_map="linear").fit(samples, y, sample_domain=domain)
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.transform(samples.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="X has 3 features"):
        KFDA(feature_map="linear").fit(X, Y, sample_domain=D).transform(da.from_array(X[:, :3]))


# Maps that learn


def test_a_map_learns_from_a_bounded_and_repeatable_sample_of_all_blocks(monkeypatch):
    monkeypatch.setattr(_dask, "MAX_SAMPLE_ROWS", 24)
    feature_map = Nystroem(gamma=0.1, n_components=24, random_state=0)
    samples, y, domain = arrays(12)
    first, second = (CIDG(feature_map=feature_map).fit(samples, y, sample_domain=domain) for _ in range(2))
    landmarks = first.feature_map_.components_
    assert landmarks.shape == (24, 4)
    np.testing.assert_array_equal(landmarks, second.feature_map_.components_)
    drawn = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in landmarks]
    assert len(set(drawn)) == 24
    assert len({row // 12 for row in drawn}) >= 6  # of nine blocks
    assert len({row % 12 for row in drawn}) >= 6  # of twelve places in a block


def test_a_frozen_map_saves_the_pass_that_draws_the_sample():
    passes = []
    samples = arrays(17)[0].map_blocks(lambda block: (passes.append(len(block)), block)[1], meta=np.empty((0, 4)))
    frozen = FrozenEstimator(Nystroem(gamma=0.1, n_components=15, random_state=0).fit(X))
    CIDG(feature_map=frozen).fit(samples, *arrays(17)[1:2], sample_domain=arrays(17)[2])
    assert sum(passes) == ROWS
    CIDG(feature_map=frozen.estimator).fit(samples, *arrays(17)[1:2], sample_domain=arrays(17)[2])
    assert sum(passes) == 3 * ROWS


# Transforming


class Tasks(dask.callbacks.Callback):
    def __init__(self):
        self.keys = []

    def _posttask(self, key, result, dsk, state, worker_id):
        self.keys.append(key)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("layout", ["one block", "columns apart", "unknown lengths", "an empty block"])
def test_transform_is_lazy_and_knows_what_it_will_give(layout, dtype):
    model = CIDG(feature_map="linear").fit(X, Y, sample_domain=NAMES)
    samples = LAYOUTS[layout]()[0].astype(dtype)
    with Tasks() as tasks:
        Z = model.transform(samples)
    assert tasks.keys == []
    expected = model.transform(X.astype(dtype))
    assert (Z.dtype, Z.ndim, Z.shape[1]) == (expected.dtype, 2, 2)
    assert isinstance(Z._meta, np.ndarray)
    np.testing.assert_allclose(Z.compute(), expected, rtol=1e-5 if dtype == np.float32 else 1e-9, atol=1e-6)
    assert Z.compute().dtype == expected.dtype


@pytest.mark.parametrize("layout", LAYOUTS)
def test_target_centering_needs_one_reduction_and_then_is_lazy(layout):
    samples, _, domain = LAYOUTS[layout]()
    here = TABLE if hasattr(samples, "columns") else X
    model = CIDG(feature_map="linear", centering="target").fit(here, Y, sample_domain=NAMES)
    Z = model.transform(samples)
    np.testing.assert_allclose(Z.compute(), model.transform(here), atol=1e-9)
    if isinstance(domain, dd.Series):
        domain = domain.replace({"west": "elsewhere"})
    elif isinstance(domain, da.Array):
        domain = da.where(domain == "west", "elsewhere", domain)
    else:
        domain = ELSEWHERE
    Z = model.transform(samples, sample_domain=domain)
    assert isinstance(Z, da.Array)
    np.testing.assert_allclose(Z.compute(), model.transform(here, sample_domain=ELSEWHERE), atol=1e-9)


def test_a_copy_can_be_recentered_on_a_collection():
    model = CIDG(feature_map="linear").fit(X, Y, sample_domain=NAMES)
    twin = model.recenter(unknown(arrays(17)[0]))
    np.testing.assert_allclose(twin.offset_, model.recenter(X).offset_, atol=1e-12)
    np.testing.assert_allclose(twin.transform(arrays(17)[0]).compute(), twin.transform(X), atol=1e-12)
    with pytest.raises(ValueError, match=r"at least 2 samples .* got X with 1"):
        model.recenter(da.from_array(X[:1]))


# Predicting


WORDS = np.array(["cat", "horse", "ox"])[Y]
SEARCH = ProjectionSearchCV(CIDG(feature_map="linear"), {"ridge": ["scale"]}, classifier=LogisticRegression())
PIPELINE = make_pipeline(StandardScaler(), KFDA(feature_map="linear"), LogisticRegression())
CLASSIFIERS = {
    "classifier": lambda: LogisticRegression().fit(X, Y),
    "pipeline": lambda: PIPELINE.fit(X, WORDS, kfda__sample_domain=NAMES),
    "pipeline that knows names": lambda: PIPELINE.fit(TABLE, Y, kfda__sample_domain=NAMES),
    "search": lambda: SEARCH.fit(X, Y, sample_domain=NAMES),
}


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_predictions_are_those_of_memory(name, method):
    model = CLASSIFIERS[name]()
    samples, here = (frames()[list("abcd")], TABLE) if "names" in name else (unknown(arrays(17)[0]), X)
    lazy = distributed.predict(model, samples, method=method)
    expected = getattr(model, method)(here)
    assert (lazy.dtype, lazy.ndim) == (expected.dtype, expected.ndim)
    if method == "predict":
        np.testing.assert_array_equal(lazy.compute(), expected)
    else:
        np.testing.assert_allclose(lazy.compute(), expected, atol=1e-9)


def test_a_pipeline_can_be_fitted_to_collections_and_collects_components_alone():
    samples, y, domain = arrays(17)
    model = make_pipeline(KFDA(feature_map="linear"), LogisticRegression())
    model.fit(samples, y, kfda__sample_domain=domain)
    expected = make_pipeline(KFDA(feature_map="linear"), LogisticRegression()).fit(X, Y, kfda__sample_domain=NAMES)
    np.testing.assert_array_equal(distributed.predict(model, samples).compute(), expected.predict(X))


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_a_chosen_model_predicts_collections_by_itself(method):
    model = UnseenClassifier(["dica"], feature_map="linear", transductive=False).fit(X, Y, sample_domain=NAMES)
    lazy = getattr(model, method)(arrays(17)[0])
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), getattr(model, method)(X), atol=1e-9)


def pool_of(*transformers, **how):
    members = [make_pipeline(*([] if one is None else [one]), LogisticRegression()) for one in transformers]
    share = np.full(len(members), 1 / len(members))
    return EnsembleClassifier(members, share, np.linspace(0.5, 2, len(members)), inverse_temperature=1.3, **how)


POOLS = {
    "inductive": pool_of(KFDA(), None, CIDG(gamma=0.1)),
    "transductive": pool_of(KFDA(centering="target"), None, DomainCenterer(), CIDG(ridge=1.0, centering="target")),
}


@pytest.mark.parametrize("domain", [None, ELSEWHERE, NAMES], ids=["one domain", "new domains", "known domains"])
@pytest.mark.parametrize("kind", POOLS)
def test_a_pool_says_of_blocks_what_it_says_of_all(kind, domain):
    pool = clone(POOLS[kind]).fit(X, WORDS, sample_domain=NAMES)
    assert pool.transductive == (kind == "transductive")
    for samples in (arrays(17)[0], unknown(arrays(17)[0]), arrays(200)[0]):
        likely = distributed.predict(pool, samples, sample_domain=domain, method="predict_proba")
        np.testing.assert_allclose(
            likely.compute(scheduler="threads"), pool.predict_proba(X, sample_domain=domain), atol=1e-9
        )
    lazy = distributed.predict(pool, arrays(17)[0], sample_domain=domain)
    assert lazy.dtype == WORDS.dtype
    np.testing.assert_array_equal(lazy.compute(), pool.predict(X, sample_domain=domain))


def test_a_pool_smooths_within_blocks():
    pool = pool_of(None, KFDA(centering="target"), smoothing=2.0).fit(X, Y, sample_domain=NAMES)
    at_once = distributed.predict(pool, arrays(len(X))[0], method="predict_proba").compute()
    np.testing.assert_allclose(at_once, pool.predict_proba(X), atol=1e-9)
    centers = pool.moments(X)
    expected = np.vstack([pool.combine_members(X[rows : rows + 40], None, centers) for rows in range(0, len(X), 40)])
    found = distributed.predict(pool, arrays(40)[0], method="predict_proba").compute()
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert np.abs(found - at_once).max() > 1e-3


def test_what_a_pool_cannot_say_of_blocks_is_refused():
    pool = clone(POOLS["transductive"]).fit(X, Y, sample_domain=NAMES)
    for few in (pool, pool_of(None, smoothing=2.0).fit(X, Y, sample_domain=NAMES)):
        with pytest.raises(SmallBatchError, match=r"Domain 'new' has 9 rows, but .* needs at least 10 of them"):
            distributed.predict(few, arrays(17)[0], sample_domain=["new"] * 9 + [*NAMES[9:]])
    nested = make_pipeline(DomainCenterer(), StandardScaler(), LogisticRegression())
    pool = EnsembleClassifier([nested], np.ones(1), np.ones(1)).fit(X, Y, sample_domain=NAMES)
    with pytest.raises(ValueError, match="needs all samples of a new domain at once"):
        distributed.predict(pool, arrays(17)[0])


@pytest.mark.parametrize("search", [ProjectionSearchCV(KFDA(feature_map="linear"), {}), UnseenClassifier(["logistic"])])
def test_what_would_have_to_be_collected_is_refused(search):
    with pytest.raises(
        TypeError, match=r"needs samples in memory, but X is a Dask collection\. Select a model on a part"
    ):
        search.fit(*arrays(17)[:2], sample_domain=NAMES)
    search.fit(X, Y, sample_domain=NAMES)
    with pytest.raises(TypeError, match=r"score needs samples in memory.* Compute the result of `predict`"):
        search.score(*arrays(17)[:2])


def test_what_needs_whole_domains_is_not_applied_to_blocks():
    Z = DomainCenterer().fit_transform(X, sample_domain=NAMES)
    model = make_pipeline(DomainCenterer().fit(X, sample_domain=NAMES), LogisticRegression().fit(Z, Y))
    with pytest.raises(ValueError, match="DomainCenterer needs whole domains"):
        distributed.predict(model, arrays(17)[0])
    with pytest.raises(TypeError, match="X must be a Dask array or dataframe; got ndarray"):
        distributed.predict(model, X)


# Mistakes

SAMPLES, LABELS, DOMAINS = arrays(17)
MISTAKES = {
    "exact kernel": (CIDG(), (SAMPLES, LABELS, DOMAINS), "kernel='rbf' needs all samples in memory.* Set feature_map"),
    "too few labels": (CIDG(feature_map="linear"), (SAMPLES, LABELS[:50], DOMAINS), "X has 108 samples, but y has 50"),
    "too few domains": (CIDG(feature_map="linear"), (SAMPLES, LABELS, NAMES[:5]), "5 labels for 108 samples"),
    "unknown and too few": (
        CIDG(feature_map="linear"),
        (unknown(SAMPLES), unknown(LABELS[:50]), DOMAINS),
        "X has 108 samples, but y has 50",
    ),
    "one dimension": (CIDG(feature_map="linear"), (SAMPLES[:, 0], LABELS, DOMAINS), "two dimensions"),
    "no labels": (CIDG(feature_map="linear"), (SAMPLES, None, DOMAINS), "CIDG requires y"),
    "no samples": (CIDG(feature_map="linear"), (SAMPLES[:0], LABELS[:0], DOMAINS[:0]), "X holds no samples"),
    "no samples left": (
        CIDG(feature_map="linear"),
        tuple(part[SAMPLES[:, 0] > 1e9] for part in (SAMPLES, LABELS, DOMAINS)),
        "X holds no samples",
    ),
    "one class": (CIDG(feature_map="linear"), (SAMPLES, LABELS * 0, DOMAINS), "at least 2 classes"),
    "NaN": (CIDG(feature_map="linear"), (da.where(SAMPLES > 2, np.nan, SAMPLES), LABELS, DOMAINS), "contains NaN"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_explained(what):
    model, (samples, y, domain), message = MISTAKES[what]
    with pytest.raises(ValueError, match=message):
        model.fit(samples, y, sample_domain=domain)
