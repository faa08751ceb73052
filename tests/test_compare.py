"""Comparisons on one's own data: what they hold, and that every way of showing them says the same."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import unseen
from helpers import three_domains
from unseen.evaluation import Protocol
from unseen.model_selection import METHODS

pytestmark = pytest.mark.usefixtures("few_trees")

X, Y, CODES = three_domains(n_per_cell=6, n_classes=3, n_domains=3, seed=2)
D = np.array(["north", "süd", "<west>"])[CODES]
LABELS = np.array(["a", "b & c", "=d()"])[Y]
FEW = ["KFDA", "CIDG", "logistic", "1-NN"]


@pytest.fixture(scope="module")
def found():
    protocol = Protocol(train_size=0.7, repeats=2, quick=True)
    return unseen.compare(X, LABELS, sample_domain=D, methods=FEW, protocol=protocol)


def test_there_is_a_row_for_each_method_domain_and_repeat(found):
    assert found.to_dict()["ensemble"] is None
    assert len(found.rows) == len(FEW) * 3 * 2
    assert {row.status for row in found.rows} == {"ok"}


def test_the_pool_of_the_automatic_method_is_told_and_comes_first():
    methods = ["1-NN", "auto"]
    found = unseen.compare(X, LABELS, sample_domain=D, methods=methods, quick=True)
    summary, rows = found.to_dict(), [row for row in found.rows if row.method == "auto"]
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert str(found).startswith("auto")
    assert "first row, <i>auto</i>" in found.to_html()
    pool = summary["ensemble"]
    assert pool["n"] == len(rows) == 3
    assert sum(pool["weights"].values()) == pytest.approx(1, abs=0.01)
    for name, weight in pool["weights"].items():
        assert weight == pytest.approx(np.mean([row.settings["members"].get(name, 0) for row in rows]), abs=1e-3)


def test_what_to_do_is_said_wherever_the_comparison_is_shown(found):
    advice = found.to_dict()["verdict"]["recommendation"]
    (method,) = [method for method in found.to_dict()["methods"] if method["name"] == advice["method"]]
    assert advice["expected"] == pytest.approx(method["mean"])
    assert advice["scores"] == pytest.approx({name: cell["mean"] for name, cell in method["accuracies"].items()})
    assert advice["sentence"] in str(found).splitlines()
    assert len(str(found).partition("\n\n")[2].splitlines()) <= 6
    assert found.to_html().index(f"Use {advice['method']}") < found.to_html().index(found.verdict.headline)


def test_accuracies_are_those_of_the_rows(found):
    for method in found.to_dict()["methods"]:
        for name, cell in method["accuracies"].items():
            mine = [r.accuracy for r in found.rows if r.method == method["name"] and name in r.accuracies]
            assert cell["mean"] == pytest.approx(np.mean(mine), abs=1e-5)
        assert method["mean"] == pytest.approx(np.mean([c["mean"] for c in method["accuracies"].values()]), abs=1e-5)
        assert method["kind"] == {"KFDA": "reference", "CIDG": "invariant"}.get(method["name"], "plain")
        assert not method["transductive"]  # unless transductive=True


def test_one_repeat_has_no_spread_over_repeats(found):
    once = unseen.compare(X, LABELS, sample_domain=D, methods=["1-NN"], quick=True)

    def spreads(comparison):
        return [cell["sd"] for method in comparison.to_dict()["methods"] for cell in method["accuracies"].values()]

    assert spreads(once) == [None] * 3
    assert None not in spreads(found)


def test_confusions_are_those_of_the_recommended_method_and_means_over_repeats(found):
    matrices = found.to_dict()["confusion"]
    assert [matrix["domain"] for matrix in matrices] == found.to_dict()["domains"]
    for matrix in matrices:
        assert matrix["method"] == found.verdict.recommendation.method
        assert matrix["repeats"] == 2
        counts = np.array(matrix["counts"])
        rows = [r for r in found.rows if r.method == matrix["method"] and matrix["domain"] in r.accuracies]
        assert counts.sum() == pytest.approx((matrix["domain"] == D).sum())  # each sample once, whatever the repeats
        np.testing.assert_allclose(counts.sum(axis=1), matrix["totals"])
        assert np.trace(counts) / counts.sum() == pytest.approx(np.mean([r.accuracy for r in rows]))
        assert matrix["classes"] == sorted(set(LABELS))
    assert f"Predictions of <b><bdi>{matrices[0]['method']}</bdi></b>" in found.to_html()
    assert "Counts are means over 2 repeats." in found.to_html()


def test_settings_that_labels_of_the_target_selected_give_no_recommendation():
    protocol = Protocol(selection="oracle", quick=True)
    oracle = unseen.compare(X, LABELS, sample_domain=D, methods=["1-NN", "majority"], protocol=protocol)
    assert oracle.verdict.recommendation is None
    assert oracle.validation is None
    assert oracle.to_dict()["confusion"] == []
    assert "the recommended method" not in oracle.to_html()


@pytest.mark.parametrize(("protocol", "repeats"), [("default", 1), ("paper", 5)])
def test_protocols_have_names(protocol, repeats):
    found = unseen.compare(X, LABELS, sample_domain=D, methods=["1-NN"], protocol=protocol)
    assert len(found.rows) == 3 * repeats
    with pytest.raises(ValueError, match="protocol='mine' is not allowed"):
        unseen.compare(X, LABELS, sample_domain=D, methods=["1-NN"], protocol="mine")


@pytest.mark.parametrize(
    ("options", "message"), [({"positive": "mars"}, "two classes"), ({"threshold": 0.3}, "needs two classes")]
)
def test_a_wrong_event_or_threshold_is_named_before_anything_is_computed(options, message, monkeypatch):
    monkeypatch.setattr("unseen.evaluation._run.Study.predict", None)
    with pytest.raises(ValueError, match=message):
        unseen.compare(X, LABELS, sample_domain=D, methods=["1-NN"], **options)


def test_of_many_classes_confusions_show_those_that_are_confused_most_often(monkeypatch):
    def compared():
        return unseen.compare(X, LABELS, sample_domain=D, methods=["1-NN"], quick=True)

    whole = compared().to_dict()["confusion"]
    monkeypatch.setattr("unseen.evaluation._comparison.MAX_CONFUSION_CLASSES", 2)
    shortened = compared()
    for few, all_of_them in zip(shortened.to_dict()["confusion"], whole, strict=True):
        counts = np.array(all_of_them["counts"])
        mistakes = counts.sum(axis=0) + counts.sum(axis=1) - 2 * np.diag(counts)
        codes = [all_of_them["classes"].index(name) for name in few["classes"]]
        assert len(codes) == 2
        assert sorted(mistakes)[-2:] == sorted(mistakes[codes])
        assert few["counts"] == counts[np.ix_(codes, codes)].tolist()
        assert few["totals"] == counts.sum(axis=1)[codes].tolist()
        assert (few["left_out"], all_of_them["left_out"]) == (len(counts) - 2, 0)
    assert "Each table omits the 1 classes" in shortened.to_html()


def test_frame_text_picture_and_page_agree(found):
    pytest.importorskip("jinja2", reason="the report needs the extra")
    frame = found.to_frame()
    best = frame.index[0]
    assert frame["mean"].is_monotonic_decreasing
    assert str(found).startswith(best)
    assert found.verdict.headline in str(found)
    page = found.to_html()
    assert f"{100 * frame['mean'].iloc[0]:.1f}" in page
    assert "<west>" not in page
    assert page not in found._repr_html_()  # escaped
    assert found._repr_html_().startswith("<iframe srcdoc=")


def test_a_domain_may_be_called_like_a_column_of_the_frame():
    pytest.importorskip("pandas", reason="frames need it")
    found = unseen.compare(X, Y, sample_domain=np.array(["mean", "seconds", "method"])[CODES], methods=["1-NN"])
    columns = ["mean (domain)", "method (domain)", "seconds (domain)"]
    frame = found.to_frame()
    assert sorted(set(frame.columns) - {"kind", "transductive", "mean", "seconds"}) == columns
    np.testing.assert_allclose(frame[columns].mean(axis=1), frame["mean"])


def test_the_picture_is_drawn(found):
    pytest.importorskip("matplotlib", reason="pictures need the extra")
    figure = found.plot()
    labels = [text.get_text() for ax in figure.axes for text in ax.get_yticklabels()]
    assert {"CIDG", "logistic"} <= set(labels)
    figure.canvas.draw()


def test_a_method_that_fails_is_told_and_the_rest_goes_on(monkeypatch):
    class Unlucky(KNeighborsClassifier):
        def fit(self, X, y):
            raise ValueError("no luck")

    monkeypatch.setitem(METHODS, "1-NN", replace(METHODS["1-NN"], classifier=Unlucky()))
    found = unseen.compare(X, Y, sample_domain=D, methods=["CIDG", "1-NN", "logistic"], quick=True)
    failed = next(m for m in found.to_dict()["methods"] if m["name"] == "1-NN")
    assert failed["mean"] is None
    assert "ValueError: no luck" in failed["failed"]
    assert "failed" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": None, "sample_domain": D}, "Samples need labels and domains"),
        ({"y": Y, "sample_domain": None}, "Samples need labels and domains"),
        ({"y": Y[1:], "sample_domain": D}, "inconsistent numbers of samples"),
        ({"y": Y, "sample_domain": D[1:]}, "sample_domain"),
        ({"y": Y, "sample_domain": np.zeros(len(Y))}, "at least 2 domains"),
        ({"y": Y, "sample_domain": [None] * len(Y)}, "sample_domain"),
        ({"y": np.zeros(len(Y)), "sample_domain": D}, "class"),
        ({"y": Y + 0.5, "sample_domain": D}, "continuous"),
        ({"y": Y, "sample_domain": D, "methods": ["magic"]}, "no method 'magic'"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        unseen.compare(X, **arguments)


def test_missing_values_are_filled_in_and_methods_may_be_spelled_freely():
    holes = X.copy()
    holes[::5, 1] = np.nan
    found = unseen.compare(holes, Y, sample_domain=D, methods=["cidg", "LOGISTIC"], quick=True)
    assert [m["name"] for m in found.to_dict()["methods"]] == ["CIDG", "logistic"]
    assert all(m["mean"] is not None for m in found.to_dict()["methods"])


def test_many_domains_do_not_cost_the_diagnosis_more_memory(monkeypatch):
    def watch(*args, max_per_domain, **options):
        raise RuntimeError(f"{max_per_domain} rows per domain")

    monkeypatch.setattr("unseen.evaluation._comparison.diagnose", watch)
    protocol = Protocol(selection="within", quick=True)
    found = unseen.compare(X, Y, sample_domain=np.arange(len(Y)) % 15, methods=["majority"], protocol=protocol)
    with pytest.raises(RuntimeError, match="400 rows per domain"):
        found.to_dict()
