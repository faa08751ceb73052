"""The diagnosis says what it found in words, numbers, pictures and pages, and refuses what it cannot judge."""

from __future__ import annotations

import itertools
import json
import re
import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

from planted_shifts import TRUTH, planted
from unseen.shift import diagnose
from unseen.shift._diagnose import COMPARE_ADVICE, GRADES

mpl.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "No shift detected in P(Y), P(X) or P(X|Y). There may still be a small one"),
        ("label shift", "Class proportions differ between domains, samples of one class do not"),
        (
            "every class moves",
            "Detected: a small shift of P(X) and a moderate shift of P(X|Y). Not detected: a shift of P(Y).",
        ),
        ("classes change places", "methods that match P(X) alone (DICA, SCA) do not see it"),
        ("classes change places", "The classes move in different ways: no shift that they have in common is detected"),
        (
            "everything",
            "Detected: a large shift of P(Y), a moderate shift of P(X) and a moderate shift of P(X|Y). Samples of",
        ),
        ("everything", "The classes have a"),
    ],
)
def test_the_reading_fits_the_shift(name, words):
    assert words in " ".join(planted(name, alpha=0.01).reading)


ANSWERS = [*GRADES, None]  # None: not detected


@pytest.mark.parametrize("conditional", ANSWERS)
def test_the_reading_says_what_the_table_says(conditional):
    diagnosis = planted("everything", n_permutations=19)
    for label, covariate, common, in_a_class in itertools.product(ANSWERS, ANSWERS, ANSWERS, [False, True]):
        answers = (label, covariate, conditional, common)
        tests = [
            replace(test, flagged=size is not None, effect_label=size or "small")
            for test, size in zip(diagnosis.tests, answers, strict=True)
        ]
        classes = [replace(test, flagged=in_a_class and k == 0) for k, test in enumerate(diagnosis.class_tests)]
        reading = replace(diagnosis, tests=tuple(tests), class_tests=tuple(classes)).reading
        found = {name: size for size, name in re.findall(r"a (\w+) shift of (P\([XY|]+\))", reading[0].split(".")[0])}
        assert [found.get(name) for name in ("P(Y)", "P(X)", "P(X|Y)")] == list(answers[:3])
        text = " ".join(reading)
        assert ("in common" in text) == (conditional is not None or common is not None)
        assert ("Samples of one class differ" in text) == (conditional not in (None, "negligible"))
        assert reading[-1] == COMPARE_ADVICE
        assert "_" not in text  # no parameter: whoever reads this may hold none


KEYS = {
    "n_samples": int,
    "n_used": int,
    "classes": list,
    "domains": list,
    "counts": list,
    "alpha": float,
    "n_permutations": int,
    "gamma": float,
    "tests": list,
    "classes_tests": list,
    "distances": dict,
    "reading": list,
    "notices": list,
    "columns": (dict, type(None)),
}
TEST_KEYS = ["name", "key", "statistic", "p_value", "effect", "effect_label", "effect_text", "flagged", "question"]


@pytest.mark.parametrize("name", TRUTH)
def test_the_summary_is_plain_and_complete(name):
    summary = planted(name).summary()
    assert list(summary) == list(KEYS)
    assert all(isinstance(summary[key], kind) for key, kind in KEYS.items())
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert [test["name"] for test in summary["tests"]] == ["P(Y)", "P(X)", "P(X|Y)", "P(X), priors equal"]
    assert all(list(test) == TEST_KEYS and type(test["flagged"]) is bool for test in summary["tests"])
    assert {test["effect_label"] for test in summary["tests"]} <= set(GRADES)
    columns = ["class", "p_value", "p_adjusted", "effect", "flagged"]
    assert all(list(test) == columns and type(test["flagged"]) is bool for test in summary["classes_tests"])
    assert np.shape(summary["distances"]["marginal"]) == np.shape(summary["distances"]["conditional"]) == (3, 3)


def test_the_account_states_p_value_effect_and_number_of_samples():
    diagnosis = planted("label shift")
    text = str(diagnosis)
    assert text.startswith("3 domains, 3 classes, 450 samples; 399 permutations, level 0.05\n")
    assert "shift detected, large: class a makes up 20% of q and 60% of p, 40 points apart" in text
    assert "(p = 0.0025, n = 450)" in text
    assert max(map(len, text.splitlines())) <= 110
    assert repr(diagnosis) == "<Diagnosis: 3 domains, 3 classes; shift detected in P(Y); P(X)>"


def test_the_frame_holds_every_test():
    pytest.importorskip("pandas")
    diagnosis = planted("one class moves")
    frame = diagnosis.to_frame()
    assert frame["test"].tolist()[:4] == [test.name for test in diagnosis.tests]
    assert frame["test"].tolist()[4:] == ["P(X|Y=a)", "P(X|Y=b)", "P(X|Y=c)"]
    assert frame["p_adjusted"].isna().tolist() == [True] * 4 + [False] * 3
    assert frame["effect"].tolist() == [
        *(t.effect for t in diagnosis.tests),
        *(t.effect for t in diagnosis.class_tests),
    ]


def test_the_figure_shows_distances_effects_and_p_values():
    diagnosis = planted("one class moves", alpha=0.01)
    figure = diagnosis.plot()
    marginal, conditional, effects = figure.axes[:3]
    shown = np.ma.filled(marginal.images[0].get_array(), np.nan)
    np.testing.assert_allclose(shown[0, 1:], diagnosis.marginal_distances[0, 1:])
    assert f"{diagnosis.conditional_distances[0, 1]:.2f}" in {text.get_text() for text in conditional.texts}
    filled = [bar.get_facecolor()[:3] != (1, 1, 1) for bar in effects.patches]
    assert filled == [test.flagged for test in (*diagnosis.tests, *diagnosis.class_tests)]
    assert any("p = 0.0025" in text.get_text() for text in effects.texts)
    figure.canvas.draw()


def test_the_figure_bears_many_classes_and_odd_names_in_a_place_of_ones_own():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 12)
    d = np.tile(["$5", "$10_x", "a name that goes on and on, and then some"], 80)
    diagnosis = diagnose(rng.normal(size=(240, 2)), y, sample_domain=d, n_permutations=9)
    figure = plt.figure(figsize=(14, 6))
    part = figure.subfigures(1, 2)[1]
    assert diagnosis.plot(part) is part
    labels = [label.get_text() for label in part.axes[2].get_yticklabels()]
    assert labels[-1] == "... 8 classes with smaller shifts"
    figure.canvas.draw()


def test_pages_are_made_from_the_summary(monkeypatch):
    def render(summary, fragment=False):
        return f"{fragment}: {json.dumps(summary)}"

    monkeypatch.setattr("unseen.shift._diagnose.render_diagnosis", render)
    diagnosis = planted("nothing")
    assert diagnosis.to_html() == f"False: {json.dumps(diagnosis.summary())}"
    assert diagnosis._repr_html_() == f"True: {json.dumps(diagnosis.summary())}"


def test_without_the_extra_a_notebook_shows_the_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    diagnosis = planted("nothing")
    assert diagnosis._repr_html_() is None
    with pytest.raises(ImportError, match="pip install"):
        diagnosis.to_html()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_domain": np.zeros(12)}, "at least 2 domains, but sample_domain holds 1"),
        ({"sample_domain": np.arange(11)}, "11 labels for 12 samples"),
        ({"sample_domain": [None] * 12}, "no label for 12 of 12"),
        ({"y": np.zeros(12)}, "at least 2 classes"),
        ({"data": np.full((12, 2), np.nan)}, "NaN"),
        ({"n_permutations": 0}, "n_permutations"),
        ({"max_per_domain": 1}, "max_per_domain"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
    ],
)
def test_bad_input_is_refused(options, message):
    rng = np.random.default_rng(0)
    good = {"data": rng.normal(size=(12, 2)), "y": np.tile([0, 1], 6), "sample_domain": np.repeat([0, 1], 6)}
    diagnose(**good, n_permutations=3)
    with pytest.raises(ValueError, match=message):
        diagnose(**{**good, **options})
