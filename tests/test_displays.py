"""The pictures show the numbers of the search and of the leaderboard, and mark what was chosen."""

from __future__ import annotations

import sys
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from helpers import three_domains
from unseen import CIDG, KFDA, MDA, ProjectionSearchCV, UnseenClassifier
from unseen.model_selection import LeaderboardDisplay, LeaderboardRow, ValidationSurfaceDisplay
from unseen.model_selection._displays import _value_text

mpl.use("Agg")
from matplotlib import pyplot as plt

GRID = {
    "gamma": ["0.1*median", "median"],
    "conditional_weight": [0, 10.0, "1e3*scale"],
    "prior_weight": [0, "scale"],
    "ridge": ["1e-2*scale", "scale"],
}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def noisy():
    X, y, d = three_domains(n_per_cell=7, n_features=3)
    return X + 1.5 * np.random.default_rng(0).normal(size=X.shape), y, d


@pytest.fixture(scope="module")
def search():
    X, y, d = noisy()
    return ProjectionSearchCV(CIDG(), GRID, refit=False).fit(X, y, sample_domain=d)


@pytest.fixture(scope="module")
def model():
    X, y, d = noisy()
    model = UnseenClassifier(["logistic", "centered logistic", "dica"], transductive=True)
    return model.fit(X, y, sample_domain=np.array(list("abc"))[d])


def row(name, kind="plain", chosen=False, **scores):
    values = list(scores.values())
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return LeaderboardRow(name, kind, np.mean(values), error, scores, is_selected=chosen)


def texts(ax):
    return [text.get_text() for text in ax.texts]


def frames(ax):
    return [patch for patch in ax.patches if not patch.get_fill()]


# The surface


def test_a_cell_is_the_best_of_all_other_settings(search):
    display = ValidationSurfaceDisplay.from_search(search)
    means = search.cv_results_["mean_test_score"]
    for i, gamma in enumerate(GRID["gamma"]):
        for j, conditional in enumerate(GRID["conditional_weight"]):
            for k, prior in enumerate(GRID["prior_weight"]):
                alike = [
                    mean
                    for mean, params in zip(means, search.cv_results_["params"], strict=True)
                    if (params["gamma"], params["conditional_weight"], params["prior_weight"])
                    == (gamma, conditional, prior)
                ]
                assert len(alike) == 2
                assert display.scores[i, j, k] == max(alike)
    np.testing.assert_array_equal([np.ma.getdata(ax.images[0].get_array()) for ax in display.axes_], display.scores)


def test_the_chosen_cell_and_no_other_is_framed(search):
    display = ValidationSurfaceDisplay.from_search(search)
    panel, i, j = display.chosen
    best = search.best_params_
    assert [display.values[k][n] for k, n in enumerate(display.chosen)] == [
        best["gamma"],
        best["conditional_weight"],
        best["prior_weight"],
    ]
    assert display.params[display.chosen] == best
    for k, ax in enumerate(display.axes_):
        centers = {
            (patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2) for patch in frames(ax)
        }
        assert {tuple(np.round(center, 9)) for center in centers} == ({(j, i)} if k == panel else set())


def test_panels_axes_and_cells_are_labeled_from_the_grid(search):
    display = ValidationSurfaceDisplay.from_search(search)
    assert [ax.get_title() for ax in display.axes_] == ["gamma = 0.1*median", "gamma = median"]
    first = display.axes_[0]
    assert [label.get_text() for label in first.get_xticklabels()] == ["0", "scale"]
    assert [label.get_text() for label in first.get_yticklabels()] == ["0", "10", "1e3*scale"]
    assert (first.get_xlabel(), first.get_ylabel()) == ("prior_weight", "conditional_weight")
    assert texts(first) == [f"{score:.3f}" for score in display.scores[0].ravel()]
    (bar,) = (ax for ax in display.figure_.axes if ax not in display.axes_)
    assert "mean accuracy, best over other parameters" in bar.get_ylabel()


def test_panels_share_one_scale_of_colors(search):
    display = ValidationSurfaceDisplay.from_search(search)
    limits = {ax.images[0].get_clim() for ax in display.axes_}
    assert limits == {(display.scores.min(), display.scores.max())}


def test_a_large_grid_has_colors_without_numbers():
    X, y, d = noisy()
    grid = {"conditional_weight": list(range(10)), "prior_weight": list(range(6))}
    search = ProjectionSearchCV(CIDG(), grid, refit=False).fit(X, y, sample_domain=d)
    display = ValidationSurfaceDisplay.from_search(search)
    assert display.scores.shape == (1, 10, 6)
    assert [ax.get_title() for ax in display.axes_] == ["gamma = median"]  # the projection's own
    assert texts(display.axes_[0]) == []


def test_cells_that_the_grid_leaves_out_are_marked_as_such():
    X, y, d = noisy()
    grid = [
        {"conditional_weight": [0, 1.0], "prior_weight": [0]},
        {"conditional_weight": [1.0], "prior_weight": [5.0]},
        {"conditional_weight": [1.0], "gamma": [0.3]},  # prior_weight stays as the projection has it
    ]
    search = ProjectionSearchCV(CIDG(prior_weight=5.0), grid, refit=False).fit(X, y, sample_domain=d)
    display = ValidationSurfaceDisplay.from_search(search)
    assert display.values == (["median", 0.3], [0, 1.0], [0, 5.0])
    np.testing.assert_array_equal(
        np.isnan(display.scores), [[[False, True], [False, False]], [[True, True], [True, False]]]
    )
    assert texts(display.axes_[1])[:3] == ["none"] * 3


def test_other_methods_and_parameters_can_be_shown():
    X, y, d = noisy()
    grid = {"conditional_weight": [0, 1.0], "within_weight": [1.0, 2.0], "classifier__C": [0.1, 1.0]}
    search = ProjectionSearchCV(MDA(), grid, classifier=LogisticRegression(), scoring="f1_macro", refit=False)
    search.fit(X, y, sample_domain=d)
    display = ValidationSurfaceDisplay.from_search(search, x="within_weight", panel="classifier__C")
    assert [ax.get_title() for ax in display.axes_] == ["classifier__C = 0.1", "classifier__C = 1"]
    assert display.score_name == "f1 macro"


def test_surfaces_are_drawn_where_they_are_told(search):
    figure, axes = plt.subplots(1, 2)
    display = ValidationSurfaceDisplay.from_search(search, axes=axes)
    assert display.figure_ is figure
    assert list(display.axes_) == list(axes)
    with pytest.raises(ValueError, match="2 values of 'gamma', so 2 axes are needed; got 1"):
        display.plot(plt.subplots()[1])
    assert display.plot() is display
    assert display.figure_ is not figure


def test_many_panels_are_wrapped():
    X, y, d = noisy()
    grid = {"gamma": [0.1, 0.2, 0.3, 0.4, 0.5], "conditional_weight": [0], "prior_weight": [0, 1.0], "ridge": [1.0]}
    search = ProjectionSearchCV(CIDG(), grid, refit=False).fit(X, y, sample_domain=d)
    display = ValidationSurfaceDisplay.from_search(search)
    assert len(display.axes_) == 5
    assert len({round(ax.get_position().y0, 3) for ax in display.axes_}) == 2
    assert sum(not ax.axison for ax in display.figure_.axes) == 3


def test_the_surface_as_a_frame(search):
    pytest.importorskip("pandas")
    display = ValidationSurfaceDisplay.from_search(search)
    frame = display.to_frame()
    assert frame.shape == (12, 6)
    chosen = frame[frame["is_selected"]].iloc[0]
    assert chosen["mean_test_score"] == search.best_score_ == frame["mean_test_score"].max()
    assert chosen["params"] == search.best_params_
    assert frame["gamma"].tolist() == ["0.1*median"] * 6 + ["median"] * 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": "ridge", "y": "prior_weight"}, r"does not vary y='prior_weight', but ridge\..*param_grid"),
        ({"y": "ridge"}, r"does not vary x='prior_weight', but ridge\. Use one of these as x"),
        ({"x": "ridge", "y": "ridge"}, "x, y and panel must be three parameters; got x='ridge', y='ridge'"),
        ({"x": "ridge", "y": "ridge", "panel": "ridge"}, "must be three parameters"),
    ],
)
def test_a_search_without_the_weights_is_told_what_it_has(options, message):
    X, y, d = noisy()
    search = ProjectionSearchCV(KFDA(), {"ridge": ["scale", 1.0]}, refit=False).fit(X, y, sample_domain=d)
    with pytest.raises(ValueError, match=message):
        ValidationSurfaceDisplay.from_search(search, **options)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1e4, "10000"),
        (0.1, "0.1"),
        ("1e2*scale", "1e2*scale"),
        (None, "None"),
        (True, "True"),
        (CIDG(conditional_weight=123456.0, prior_weight=2.0), "CIDG(conditional_weig..."),
    ],
)
def test_values_of_a_grid_are_written_shortly(value, text):
    assert _value_text(value) == text


# The leaderboard


def test_every_contender_has_a_row_with_its_name_kind_and_numbers(model):
    display = LeaderboardDisplay.from_classifier(model)
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == [row.model for row in model.leaderboard_]
    (right,) = display.ax_.child_axes
    for label, row in zip(right.get_yticklabels(), model.leaderboard_, strict=True):
        text = label.get_text()
        assert f"{row.mean:.3f} ± {row.standard_error:.3f}" in text
        assert row.kind in text
        assert ("selected" in text) == row.is_selected
        assert (label.get_fontweight() == "bold") == row.is_selected
    assert display.ax_.get_ylim() == (len(names) - 0.5, -0.5)  # the best is on top
    assert display.ax_.get_xlabel() == "accuracy on held-out domains"


def test_points_are_the_scores_on_each_held_out_domain(model):
    display = LeaderboardDisplay.from_classifier(model)
    drawn = {line.get_label(): line for line in display.ax_.lines}
    for domain in "abc":
        np.testing.assert_array_equal(drawn[domain].get_xdata(), [row.scores[domain] for row in model.leaderboard_])
    assert len({drawn[domain].get_marker() for domain in "abc"}) == 3  # told apart without colors, too
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
    assert texts(display.ax_) == ["failed"]
    assert display.ax_.child_axes[0].get_yticklabels()[1].get_text() == "inductive"
    display.figure_.canvas.draw()


def test_twenty_long_names_and_many_domains_fit_in_the_figure():
    rows = [
        row(
            f"a rather long name of model {i}, target-centered",
            "transductive",
            i == 0,
            **{f"d{k}": 0.5 for k in range(9)},
        )
        for i in range(20)
    ]
    display = LeaderboardDisplay(rows).plot()
    display.figure_.canvas.draw()
    renderer, whole = display.figure_.canvas.get_renderer(), display.figure_.bbox
    labels = [*display.ax_.get_yticklabels(), *display.ax_.child_axes[0].get_yticklabels()]
    boxes = [label.get_window_extent(renderer) for label in labels]
    assert all(box.x0 >= whole.x0 and box.x1 <= whole.x1 for box in boxes)
    assert all(below.y1 <= above.y0 for above, below in pairwise(boxes[:20]))
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["one of 9 held-out domains", "mean, 1 standard error"]


def test_the_leaderboard_as_a_frame(model):
    pytest.importorskip("pandas")
    frame = LeaderboardDisplay.from_classifier(model).to_frame()
    assert frame["model"].tolist() == [row.model for row in model.leaderboard_]
    np.testing.assert_allclose(frame[["score_a", "score_b", "score_c"]].mean(axis=1), frame["mean"])
    assert frame["is_selected"].sum() == 1
    assert "scores" not in frame


def test_the_leaderboard_is_drawn_where_it_is_told(model):
    figure, ax = plt.subplots()
    display = LeaderboardDisplay.from_classifier(model, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure


# What both need


@pytest.mark.parametrize(
    ("draw", "unfitted"),
    [
        (ValidationSurfaceDisplay.from_search, ProjectionSearchCV(CIDG())),
        (LeaderboardDisplay.from_classifier, UnseenClassifier()),
    ],
    ids=["surface", "leaderboard"],
)
def test_what_is_not_fitted_is_refused(draw, unfitted):
    with pytest.raises(NotFittedError, match=f"{type(unfitted).__name__} instance is not fitted"):
        draw(unfitted)


@pytest.mark.parametrize(
    ("missing", "call", "message"),
    [("matplotlib", "plot", r"pip install 'unseen\[cli\]'"), ("pandas", "to_frame", "pip install pandas")],
)
def test_a_missing_dependency_is_named_with_what_installs_it(monkeypatch, missing, call, message):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setitem(sys.modules, f"{missing}.pyplot", None)
    surface = ValidationSurfaceDisplay(
        ("a", "b", "c"), ([1], [1], [1]), np.ones((1, 1, 1)), params={}, chosen=(0, 0, 0)
    )
    for display in (surface, LeaderboardDisplay([row("x", a=1.0, b=0.5)])):
        with pytest.raises(ImportError, match=message):
            getattr(display, call)()
