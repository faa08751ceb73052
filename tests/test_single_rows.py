"""One row at a time, as a dict or a Series: the predictions of a batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import unseen

pl = pytest.importorskip("polars")

WARDS = ["a", "b", "c", "d"]
pytestmark = pytest.mark.filterwarnings("ignore::unseen.exceptions.NewDataWarning")


def make_frame(n, seed=0):
    """Numbers, a long tail, integers that may be codes, and levels; missing values everywhere."""
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 9, n)
    ward = rng.choice(WARDS, n)
    score = 0.1 * (age - 50) + (ward == "b") + rng.normal(size=n)
    columns = {"age": age, "dose": rng.lognormal(0, 2, n), "grade": rng.integers(1, 5, n).astype(float)}
    for values in columns.values():
        values[rng.random(n) < 0.1] = np.nan
    texts = [None if is_missing else str(value) for value, is_missing in zip(ward, rng.random(n) < 0.1, strict=True)]
    label = np.array(["low", "middle", "high"])[np.digitize(score, [-0.3, 1.0])]
    site = [f"site {i % 4}" for i in range(n)]
    return pl.DataFrame({**columns, "ward": texts, "label": label, "site": site}).fill_nan(None)


@pytest.fixture(scope="module")
def model(few_trees_in_module):
    return unseen.fit(make_frame(160), label="label", domain="site", methods=["logistic", "gradient boosting", "CIDG"])


@pytest.fixture(scope="module")
def frame():
    """Rows of a new site; some have missing values, and some a ward that is not in training."""
    frame = make_frame(12, seed=9).drop("label", "site")
    return frame.with_columns(ward=pl.Series(["new" if i % 6 == 0 else text for i, text in enumerate(frame["ward"])]))


def test_each_row_is_predicted_as_in_its_batch(model, frame):
    pd = pytest.importorskip("pandas")
    expected = model.predict_proba(frame)
    rows = frame.to_dicts()
    assert any(None in row.values() for row in rows)
    for row, p in zip(rows, expected, strict=True):
        np.testing.assert_allclose(model.predict_proba(row), p[None], rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.predict_proba(pd.Series(row)), p[None], rtol=0, atol=1e-12)
    assert [model.predict(row).item() for row in rows] == model.predict(frame).tolist()
    for row, labels in zip(rows, model.predict_set(frame, 0.5), strict=True):
        assert model.predict_set(row, 0.5)[0].tolist() == labels.tolist()


def test_threads_share_a_model(model, frame):
    rows = frame.to_dicts()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(model.predict_proba, rows))
    np.testing.assert_array_equal(np.vstack(together), np.vstack([model.predict_proba(row) for row in rows]))


def test_numbers_that_stand_for_missing_values_are_missing_in_a_row():
    table = make_frame(160).with_columns(pl.col("age").fill_null(-9.0))
    fitted = unseen.fit(table, label="label", domain="site", methods="logistic", missing={"age": -9})
    row = make_frame(1).drop("label", "site").row(0, named=True)
    expected = fitted.predict_proba({**row, "age": float("nan")})
    for value in (-9, -9.0, np.float64(-9), np.int64(-9), None):
        np.testing.assert_array_equal(fitted.predict_proba({**row, "age": value}), expected)
