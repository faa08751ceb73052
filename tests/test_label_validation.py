"""Labels of domains and classes: any hashable scalars, none lost, none merged."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers import measure_memory, three_domains
from unseen import CIDG, ProjectionSearchCV, UndoBias, UnseenClassifier, diagnose
from unseen.exceptions import MaskedLabelsWarning, SingleDomainWarning
from unseen.utils.samples import Samples, allocate_rows, domain_row_limit
from unseen.utils.validation import (
    MAX_LABEL_LENGTH,
    EncodedLabels,
    check_domains,
    encode_domains,
    warn_single_domain,
)

NAMES = st.one_of(
    st.integers(-5, 5),
    st.text(alphabet="ab1", max_size=2),
    st.booleans(),
    st.floats(allow_nan=False, width=16),
    st.dates(),
)


# 1, 1.0 and True are equal, and any of them may name their domain: without booleans and floats the name is unique.
@given(
    labels=st.lists(st.integers(-5, 5) | st.text("ab1", max_size=2) | st.dates(), min_size=1, max_size=20),
    seed=st.integers(0, 1000),
)
def test_the_order_of_samples_does_not_change_the_order_of_domains(labels, seed):
    order = np.random.default_rng(seed).permutation(len(labels))
    domains, codes = encode_domains(check_domains(labels, len(labels)))
    shuffled, shuffled_codes = encode_domains(check_domains([labels[i] for i in order], len(order)))
    assert domains.tolist() == shuffled.tolist()
    np.testing.assert_array_equal(codes[order], shuffled_codes)


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "b"],
        ("b", "a", "b"),
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], dtype=object),
        np.array([2, 1, 2], dtype=np.int8),
        np.array([True, False, True]),
        np.array([2.5, 1.5, 2.5]),
        np.array(["2002", "2001", "2002"], dtype="M8[Y]"),
        [datetime.date(2002, 1, 1), datetime.date(2001, 1, 1), datetime.date(2002, 1, 1)],
        [b"b", b"a", b"b"],
    ],
    ids=repr,
)
def test_labels_may_be_of_any_common_type(labels):
    domains, codes = encode_domains(check_domains(labels, 3))
    assert codes.tolist() == [1, 0, 1]
    assert len(domains) == 2


@pytest.mark.parametrize("dtype", ["category", "string", "object", "str"])
def test_pandas_columns_are_labels(dtype):
    pd = pytest.importorskip("pandas")
    column = pd.Series(["b", "a", "b"], dtype=dtype, index=[7, 8, 9])
    domains, codes = encode_domains(check_domains(column, 3))
    assert domains.tolist() == ["a", "b"]
    assert codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize("dtype", ["category", "string", "object", "Int64", "Float64", "datetime64[ns]"])
def test_missing_pandas_labels_are_found(dtype):
    pd = pytest.importorskip("pandas")
    values = ["b", None, "b"] if dtype in ("category", "string", "object") else [1, None, 1]
    column = pd.Series(values, dtype=dtype)
    with pytest.raises(ValueError, match=r"no label for 1 of 3 samples \(first at position 1\)"):
        check_domains(column, 3)


@pytest.mark.parametrize("names", [["a", "b", "c"], [0, 1, 2]], ids=["words", "numbers"])
@pytest.mark.parametrize(
    "fit",
    [
        CIDG().fit,
        CIDG(feature_map="linear").fit,
        CIDG(feature_map="linear").partial_fit,
        UndoBias().fit,
        ProjectionSearchCV(CIDG(), {"ridge": ["scale"]}).fit,
        UnseenClassifier(["logistic"]).fit,
        diagnose,
    ],
)
def test_a_class_that_is_none_is_told_by_its_row(fit, names):
    X, y, d = three_domains()
    labels = [names[i] for i in y]
    labels[5] = labels[9] = None
    with pytest.raises(ValueError, match=r"^y has no label for 2 of 72 samples \(first at position 5\)"):
        fit(X, labels, sample_domain=d)


def test_nameless_samples_are_one_domain_with_a_warning():
    coded = EncodedLabels.from_domains(None, 3)
    with pytest.warns(SingleDomainWarning, match="SCA was fitted without sample_domain"):
        warn_single_domain(coded.names, "SCA")
    assert coded.names.tolist() == [None]
    assert coded.codes.tolist() == [0, 0, 0]


@pytest.mark.parametrize("as_array", [np.asarray, list, lambda names: np.array(names, dtype=object)])
def test_domains_of_training_are_recognized_in_any_container(as_array):
    X, y, d = three_domains()
    names = [["x", "y", "z"][i] for i in d]
    model = CIDG(centering="target").fit(X, y, sample_domain=names)
    source = CIDG(centering="source").fit(X, y, sample_domain=names)
    # A single sample of a domain that was seen keeps the source mean, so it can be transformed alone.
    Z = model.transform(X[:1], sample_domain=as_array(names[:1]))
    np.testing.assert_allclose(Z, source.transform(X[:1]), rtol=1e-12)


SEARCH = ProjectionSearchCV(CIDG(), {"ridge": ["scale"]}, cv=2)


@pytest.mark.parametrize(
    "model",
    [CIDG(), CIDG(feature_map="linear"), UndoBias(), SEARCH, UnseenClassifier(["logistic"], cv=2)],
    ids=["kernel", "features", "SVM", "search", "comparison"],
)
def test_a_domain_of_masked_labels_is_warned_about_once(model):
    X, y, d = three_domains()
    with pytest.warns(MaskedLabelsWarning, match=r"-1 as a class, and the domains \[2\] .* SelectSource") as caught:
        model.fit(X, np.where(d == 2, -1, y), sample_domain=d)
    assert [(warning.category, warning.filename) for warning in caught] == [(MaskedLabelsWarning, __file__)]


@given(
    arrays(np.intp, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=st.integers(0, 60)),
    st.integers(0, 150),
    st.sampled_from(["max_per_domain", "total"]),
)
def test_a_subsample_loses_no_class_and_exceeds_its_limit_only_where_two_rows_of_each_cell_do(counts, limit, kind):
    allocated = allocate_rows(counts, **{kind: limit})
    minimum = np.minimum(counts, 2)
    assert (allocated >= minimum).all()
    assert (allocated <= counts).all()
    share = limit if kind == "max_per_domain" else domain_row_limit(counts.sum(axis=1).tolist(), limit)
    expected = np.maximum(np.minimum(counts.sum(axis=1), share), minimum.sum(axis=1))
    np.testing.assert_array_equal(allocated.sum(axis=1), expected)


def test_counts_are_those_of_the_cells_and_a_subsample_has_the_allocated_rows():
    rng = np.random.default_rng(0)
    samples = Samples(np.arange(300), rng.choice(["a", "b", "c"], 300, p=[0.8, 0.19, 0.01]), rng.integers(0, 4, 300))
    assert samples.counts().sum() == 300
    subsample = samples.take(samples.subsample_rows(60, seed=1))
    np.testing.assert_array_equal(subsample.counts(), allocate_rows(samples.counts(), total=60))
    assert (np.diff(subsample.X) > 0).all()


CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "array of text": np.array,
    "array of objects": lambda labels: np.array(labels, dtype=object),
}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_labels_and_domains_that_are_too_long_are_refused_with_their_length(container):
    X, y, d = three_domains(n_per_cell=2, n_classes=2)
    longest = "x" * MAX_LABEL_LENGTH
    allowed = container([longest if code else "other" for code in y])
    CIDG().fit(X, allowed, sample_domain=d)
    for name, codes in (("y", y), ("sample_domain", d)):
        long = container([f"{longest}!" if code == 1 else "other" for code in codes])
        given = {"y": y, "sample_domain": d} | {name: long}
        first = np.flatnonzero(codes == 1)[0]
        message = rf"{name} holds a label of 1,001 characters \(at position {first}\); at most 1,000 are allowed"
        for fit in (CIDG().fit, UndoBias().fit, diagnose):
            with pytest.raises(ValueError, match=message):
                fit(X, **given)


@pytest.mark.system
def test_long_labels_are_refused_before_an_array_of_their_width_is_allocated():
    """20,000 rows of one label of 50,000 characters would take 3.7 GiB."""
    setup = (
        "import unseen, numpy as np; X = np.random.default_rng(0).normal(size=(20_000, 2)); unseen.CIDG, unseen.compare"
    )
    for code in (
        'unseen.CIDG().fit(X, ["x" * 50_000, "y"] * 10_000)',
        'unseen.compare(X, ["x" * 50_000, "y"] * 10_000, sample_domain=[0, 1] * 10_000)',
    ):
        grown, said = measure_memory(setup, code)
        assert "y holds a label of 50,000 characters (at position 0); at most 1,000 are allowed" in said
        assert grown < 200
