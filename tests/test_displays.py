"""The picture shows the numbers of the leaderboard, and marks what was chosen."""

from __future__ import annotations

import sys
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from helpers import three_domains
from unseen import UnseenClassifier
from unseen.model_selection import Leaderboard, LeaderboardDisplay, LeaderboardRow

mpl.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def noisy():
    X, y, d = three_domains(n_per_cell=7, n_features=3)
    return X + 1.5 * np.random.default_rng(0).normal(size=X.shape), y, d


@pytest.fixture(scope="module")
def model():
    X, y, d = noisy()
    model = UnseenClassifier(["logistic", "centered logistic", "dica"], transductive=True)
    return model.fit(X, y, sample_domain=np.array(list("abc"))[d])


def row(name, kind="plain", chosen=False, **scores):
    values = list(scores.values())
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return LeaderboardRow(name, kind, np.mean(values), error, scores, is_selected=chosen)


def test_every_contender_has_a_row_with_its_name_kind_and_numbers(model):
    display = LeaderboardDisplay.from_classifier(model)
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    expected = [f"{r.model} ({r.kind}): {r.mean:.3f} ± {r.standard_error:.3f}" for r in model.leaderboard_]
    assert names == expected
    assert display.ax_.get_ylim() == (len(names) - 0.5, -0.5)  # the best is on top
    assert display.ax_.get_xlabel() == "accuracy on held-out domains"


def test_points_are_the_scores_on_each_held_out_domain(model):
    display = LeaderboardDisplay.from_classifier(model)
    drawn = {line.get_label(): line for line in display.ax_.lines}
    for domain in "abc":
        np.testing.assert_array_equal(drawn[domain].get_xdata(), [row.scores[domain] for row in model.leaderboard_])
    assert len({drawn[domain].get_color() for domain in "abc"}) == 3


def test_means_have_one_standard_error_to_either_side_and_transductive_ones_are_hollow():
    rows = [
        row("x", "transductive", chosen=True, a=0.9, b=0.7),
        row("y", "plain", a=0.5, b=0.6),
    ]
    display = LeaderboardDisplay(rows).plot()
    bars = display.ax_.containers
    for bar, level, contender in zip(bars, (0, 1), rows, strict=True):
        (segment,) = bar.lines[2][0].get_segments()
        low, high = contender.mean - contender.standard_error, contender.mean + contender.standard_error
        np.testing.assert_allclose(segment, [[low, level], [high, level]])
    assert [bar.lines[0].get_markerfacecolor() for bar in bars] == ["white", "black"]
    assert len(display.ax_.patches) == 1  # the band behind the chosen one
    assert display.ax_.get_xlabel() == "score on held-out domains"


def test_a_contender_that_failed_says_so():
    rows = [row("x", chosen=True, a=0.9, b=0.7), row("y", "inductive", a=np.nan, b=np.nan)]
    display = LeaderboardDisplay(rows).plot()
    assert display.ax_.get_yticklabels()[1].get_text() == "y (inductive): failed"
    display.figure_.canvas.draw()


def test_twenty_long_names_and_many_domains_fit_in_the_figure():
    rows = [
        row(
            f"a rather long name of model {i}, target-centered",
            "transductive",
            i == 0,
            **{f"d{k}": 0.5 for k in range(11)},
        )
        for i in range(20)
    ]
    display = LeaderboardDisplay(rows).plot()
    display.figure_.canvas.draw()
    renderer, whole = display.figure_.canvas.get_renderer(), display.figure_.bbox
    labels = display.ax_.get_yticklabels()
    boxes = [label.get_window_extent(renderer) for label in labels]
    assert all(box.x0 >= whole.x0 and box.x1 <= whole.x1 for box in boxes)
    assert all(below.y1 <= above.y0 for above, below in pairwise(boxes))
    assert display.ax_.get_legend() is None


def test_the_leaderboard_as_a_frame(model):
    pytest.importorskip("pandas")
    frame = model.leaderboard_.to_frame()
    assert frame["model"].tolist() == [row.model for row in model.leaderboard_]
    np.testing.assert_allclose(frame[["score_a", "score_b", "score_c"]].mean(axis=1), frame["mean"])
    assert frame["is_selected"].sum() == 1
    assert "scores" not in frame


def test_the_leaderboard_is_drawn_where_it_is_told(model):
    figure, ax = plt.subplots()
    display = LeaderboardDisplay.from_classifier(model, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure


def test_what_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError, match="UnseenClassifier instance is not fitted"):
        LeaderboardDisplay.from_classifier(UnseenClassifier())


@pytest.mark.parametrize(
    ("missing", "call", "message"),
    [
        ("matplotlib", LeaderboardDisplay.plot, r"pip install 'unseen\[cli\]'"),
        ("pandas", lambda display: Leaderboard(display.rows).to_frame(), "pip install pandas"),
    ],
)
def test_a_missing_dependency_is_named_with_what_installs_it(monkeypatch, missing, call, message):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setitem(sys.modules, f"{missing}.pyplot", None)
    with pytest.raises(ImportError, match=message):
        call(LeaderboardDisplay([row("x", a=1.0, b=0.5)]))
