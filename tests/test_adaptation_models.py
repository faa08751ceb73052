"""`adapt`, `with_prior` and their commands: what a model becomes, what its file says, and bad input."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax

pytest.importorskip("skops", reason="model files need the extra")
pytest.importorskip("typer", reason="the command needs its extra")
import polars as pl

import unseen
from command import run_command
from unseen import UnseenClassifier
from unseen.cli._app import app
from unseen.exceptions import SmallBatchError
from unseen.model_selection import Adjustment
from unseen.models import load_model

CLASSES = np.array(["ill", "well"])


def command(*args):
    return run_command(app, *args)


def make_rows(seed, n, offset):
    """Features, and classes whose log odds are shifted by an offset of the domain."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    P = softmax(np.column_stack([X @ [1.5, -1.0, 0.0] + offset, np.zeros(n)]), axis=1)
    return X, CLASSES[(rng.random(n) > P[:, 0]).astype(int)]


def make_frame(seed, n, offset, site):
    X, y = make_rows(seed, n, offset)
    return pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": y, "site": [site] * n})


SITES = {"north": -1.5, "south": 1.5, "west": 0.0, "east": -2.0, "center": 2.0}


@pytest.fixture(scope="module")
def train():
    return pl.concat([make_frame(i, 90, offset, site) for i, (site, offset) in enumerate(SITES.items())])


@pytest.fixture(scope="module")
def model(train):
    return unseen.fit(train, methods=["logistic", "linear SVM"], label="label", domain="site")


@pytest.fixture(scope="module")
def site():
    return make_frame(50, 60, 2.5, "lima")


@pytest.fixture(scope="module")
def rest():
    return make_frame(51, 400, 2.5, "lima")


@pytest.fixture
def files(tmp_path, model, train, site, rest):
    model.save(tmp_path / "model.unseen")
    train.write_csv(tmp_path / "train.csv")
    site.write_csv(tmp_path / "site.csv")
    rest.write_csv(tmp_path / "rest.csv")
    return tmp_path


def log_loss(model, frame):
    P = model.predict_proba(frame)
    return -np.log(P[np.arange(len(P)), np.searchsorted(CLASSES, frame["label"].to_numpy())]).mean()


def test_labels_of_a_shifted_site_improve_the_model(model, site, rest):
    adapted = model.adapt(site)
    assert adapted.card["adaptation"]["level"] != "none"
    assert log_loss(adapted, rest) < log_loss(model, rest) - 0.02
    assert np.mean(adapted.predict(rest) == rest["label"].to_numpy()) > np.mean(
        model.predict(rest) == rest["label"].to_numpy()
    )


def test_the_model_itself_is_not_changed(model, site, rest):
    before = model.predict_proba(rest)
    adapted = model.adapt(site, level="offsets")
    assert not np.allclose(adapted.predict_proba(rest), before)
    assert "adaptation" not in model.card
    np.testing.assert_array_equal(model.predict_proba(rest), before)


def test_the_level_none_predicts_as_the_model(model, site, rest):
    adapted = model.adapt(site, level="none")
    np.testing.assert_array_equal(adapted.predict_proba(rest), model.predict_proba(rest))
    assert adapted.card["adaptation"]["labels"] == 60


def test_offsets_are_added_to_the_logits_of_the_model(model, site, rest):
    adapted = model.adapt(site, level="offsets")
    facts = adapted.card["adaptation"]
    expected = Adjustment(np.array([*facts["offsets"].values()]), facts["scale"]).apply(model.predict_proba(rest))
    np.testing.assert_allclose(adapted.predict_proba(rest), expected, rtol=1e-10)
    assert facts["offsets"]["ill"] > facts["offsets"]["well"]  # the site has more ill patients


def test_a_file_of_an_adapted_model_is_a_model_file_that_knows_its_origin(files, site, rest):
    original = load_model(files / "model.unseen")
    adapted = original.adapt(site, level="offsets")
    adapted.save(files / "adapted.unseen")
    again = load_model(files / "adapted.unseen")
    np.testing.assert_allclose(again.predict_proba(rest), adapted.predict_proba(rest), rtol=1e-12)
    facts = again.card["adaptation"]
    assert facts["level"] == "offsets"
    assert facts["labels"] == len(site)
    assert facts["parent"]["sha256"] == original.card["payload"]["sha256"]
    assert facts["domain"] == "lima"


def test_a_refit_needs_the_source_and_then_uses_it(model, train, site, rest):
    with pytest.raises(ValueError, match=r"needs the source data\. Pass the training table as source"):
        model.adapt(site, level="refit")
    adapted = model.adapt(site, level="refit", source=train)
    assert log_loss(adapted, rest) < log_loss(model, rest)
    assert len(adapted.table_model.ensemble.members_) == len(model.table_model.ensemble.members_)


def test_the_source_serves_a_refit_only(model, train, site):
    with pytest.raises(ValueError, match="level='auto' does not use source"):
        model.adapt(site, source=train)


@pytest.fixture(scope="module")
def reversed_site():
    """A site at which one feature has the opposite effect."""
    return make_frame(52, 460, 0.0, "quito").with_columns(pl.col("a") * -1)


def test_features_with_other_effects_improve_the_model_beyond_offsets(model, reversed_site):
    labeled = reversed_site[:60]
    rest = reversed_site[60:]
    adapted = model.adapt(labeled)
    facts = adapted.card["adaptation"]
    assert facts["level"] == "features"
    assert "cross-validation" in facts["reason"]
    assert log_loss(adapted, rest) < log_loss(model.adapt(labeled, level="offsets"), rest) - 0.1
    assert model.adapt(labeled[:24]).card["adaptation"]["level"] != "features"  # fewer than 25 labels
    few = model.adapt(labeled[:10], level="features")
    assert few.card["adaptation"]["level"] == "features"


def test_a_file_of_a_model_with_effects_of_features_has_no_rows_and_predicts_the_same(model, reversed_site, tmp_path):
    adapted = model.adapt(reversed_site[:60], level="features")
    assert adapted.table_model.ensemble.feature_effects.shape == (3, 2)
    model.save(tmp_path / "model.unseen")
    adapted.save(tmp_path / "adapted.unseen")
    sizes = [(tmp_path / name).stat().st_size for name in ("model.unseen", "adapted.unseen")]
    assert sizes[1] < sizes[0] + 3_000
    again = load_model(tmp_path / "adapted.unseen")
    np.testing.assert_allclose(again.predict_proba(reversed_site), adapted.predict_proba(reversed_site), rtol=1e-12)
    one = reversed_site[:1]
    np.testing.assert_allclose(again.predict_proba(one), adapted.predict_proba(reversed_site)[:1], rtol=1e-12)


def test_effects_of_sparse_features_are_those_of_dense_ones():
    dense, _ = fit_classifier()
    X, y = make_rows(50, 60, 0.0)
    X[:, 0] *= -1
    expected = dense.adapt(X, y, level="features").predict_proba(X)
    ensemble = dense.adapt(sparse.csr_array(X), y, level="features")
    np.testing.assert_allclose(ensemble.predict_proba(sparse.csr_array(X)), expected, rtol=1e-6)


def test_the_choice_between_offsets_and_the_model_does_not_depend_on_the_labels(model, site):
    levels = set()
    few = site[:20]
    for seed in range(3):
        shuffled = few.with_columns(pl.Series("label", np.random.default_rng(seed).permutation(few["label"])))
        levels.add(model.adapt(shuffled).card["adaptation"]["level"])
    assert len(levels) == 1


def test_rows_without_labels_are_not_used(model, site):
    partly = site.with_columns(
        pl.when(pl.int_range(pl.len()) < 30).then(pl.col("label")).otherwise(None).alias("label")
    )
    adapted = model.adapt(partly, level="offsets")
    assert (
        adapted.card["adaptation"]["offsets"] == model.adapt(site[:30], level="offsets").card["adaptation"]["offsets"]
    )
    assert "30 of 60 rows have no label" in adapted.card["adaptation"]["notices"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda site: site.with_columns(label=pl.lit("dead")), "classes that the model was not trained on: 'dead'"),
        (lambda site: site.with_columns(label=pl.lit(None, dtype=pl.String)), "no label"),
        (lambda site: site.with_columns(site=pl.lit("north")), "'north' was in the training data"),
        (lambda site: site.with_columns(site=pl.Series(["lima", "oslo"] * 30)), "of 2 domains"),
        (lambda site: site.drop("label"), "label"),
    ],
)
def test_bad_labels_are_errors_that_say_what_is_wrong(model, site, change, message):
    with pytest.raises(ValueError, match=message):
        model.adapt(change(site))


def test_one_label_keeps_the_model_and_says_so(model, site, rest):
    adapted = model.adapt(site[:1])
    assert adapted.card["adaptation"]["level"] == "none"
    assert "fewer than 5" in adapted.card["adaptation"]["reason"]
    np.testing.assert_array_equal(adapted.predict_proba(rest), model.predict_proba(rest))
    with pytest.raises(ValueError, match="at least 2 labels"):
        model.adapt(site[:1], level="offsets")


def test_labels_of_one_class_move_the_probabilities_by_a_bounded_amount(model, site, rest):
    ill = site.filter(pl.col("label") == "ill")
    adapted = model.adapt(ill, level="offsets")
    P = adapted.predict_proba(rest)
    assert P[:, 0].mean() > model.predict_proba(rest)[:, 0].mean()
    assert (P[:, 1] > 1e-4).any()


def test_a_model_is_adapted_once(model, site):
    with pytest.raises(ValueError, match="adapted already"):
        model.adapt(site, level="offsets").adapt(site)


def test_an_unknown_level_is_an_error(model, site):
    with pytest.raises(ValueError, match="level='all' is not 'auto' or one of"):
        model.adapt(site, level="all")


def test_a_known_prior_follows_from_bayes_rule(model, train, rest):
    shares = np.array([np.mean(train["label"].to_numpy() == name) for name in CLASSES])
    P = model.predict_proba(rest)
    expected = P * np.array([0.03, 0.97]) / shares
    expected /= expected.sum(axis=1, keepdims=True)
    for prior in ({"ill": 0.03}, {"ill": 0.03, "well": 0.97}):
        np.testing.assert_allclose(model.predict_proba(rest, prior=prior), expected, rtol=1e-9)
    same = dict(zip(CLASSES.tolist(), shares.tolist(), strict=True))
    np.testing.assert_allclose(model.predict_proba(rest, prior=same), P, rtol=1e-9)
    labels = model.with_prior({"ill": 0.03}).predict(rest)
    np.testing.assert_array_equal(labels, CLASSES[expected.argmax(axis=1)])


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({"ill": 0.5, "well": 0.4}, "must sum to 1"),
        ({"dead": 0.5}, "classes that the model does not have: 'dead'"),
        ({"ill": 1.5}, "between 0 and 1"),
        ({"ill": 0.0, "well": 1.0}, "between 0 and 1"),
        ({"ill": "much"}, "between 0 and 1"),
    ],
)
def test_a_bad_prior_is_an_error(model, rest, prior, message):
    with pytest.raises(ValueError, match=message):
        model.predict_proba(rest, prior=prior)


def fit_classifier(**options):
    parts = [make_rows(i, 60, offset) for i, offset in enumerate(SITES.values())]
    X = np.concatenate([part[0] for part in parts])
    y = np.concatenate([part[1] for part in parts])
    domain = np.repeat([*SITES], 60)
    return UnseenClassifier(["logistic"], **options).fit(X, y, sample_domain=domain), (X, y, domain)


def test_a_classifier_adapts_with_arrays():
    classifier, source = fit_classifier()
    X, y = make_rows(50, 60, 2.5)
    X_rest, y_rest = make_rows(51, 400, 2.5)
    adapted = classifier.adapt(X, y)
    assert adapted.adaptation_["level"] != "none"
    assert classifier.plan_adaptation().choose(60).level == "offsets"
    assert adapted.score(X_rest, y_rest) > classifier.score(X_rest, y_rest)
    assert not hasattr(classifier, "adaptation_")
    refitted = classifier.adapt(X, y, level="refit", source=source)
    assert refitted.adaptation_["level"] == "refit"
    with pytest.raises(ValueError, match="adapted already"):
        adapted.adapt(X, y)
    with pytest.raises(ValueError, match="one entry for each"):
        classifier.adapt(X, y[:5])
    with pytest.raises(ValueError, match="'north' was in the training data"):
        classifier.adapt(X, y, sample_domain=np.full(60, "north"))


def test_balanced_classes_stay_balanced_in_decisions():
    classifier, _ = fit_classifier(balance="classes")
    X, y = make_rows(50, 60, 2.5)
    adapted = classifier.adapt(X, y, level="offsets")
    ensemble = adapted.best_estimator_
    natural = adapted.predict_proba(X)
    balanced = natural / ensemble.prior_ratio
    np.testing.assert_array_equal(adapted.predict(X), CLASSES[balanced.argmax(axis=1)])
    offsets = np.array([*adapted.adaptation_["offsets"].values()])
    expected = Adjustment(offsets, adapted.adaptation_["scale"]).apply(classifier.predict_proba(X))
    np.testing.assert_allclose(natural, expected, rtol=1e-10)


def test_the_plan_is_printed_before_any_label_is_collected(files):
    pytest.importorskip("matplotlib")
    code, text = command("adapt", files / "model.unseen", "--plan", "--figure", files / "plan.svg")
    assert code == 0
    assert re.search(r"25.* labels: class offsets and temperature", text)
    assert re.search(r"\b25\W+[\d.]+\W+[\d.]+ to [+-][\d.]+", text)
    assert (files / "plan.svg").read_text().count("<svg") == 1


def test_the_command_adapts_and_the_file_predicts(files, rest):
    code, text = command("adapt", files / "model.unseen", files / "site.csv", "-o", files / "lima.unseen")
    assert code == 0, text
    assert "With 60 labels" in text
    code, text = command("show", files / "lima.unseen")
    assert "to 60 labels of lima, level" in text
    adapted = load_model(files / "lima.unseen")
    assert log_loss(adapted, rest) < log_loss(load_model(files / "model.unseen"), rest)
    code, text = command("adapt", files / "model.unseen", files / "site.csv", "-o", files / "lima.unseen")
    assert code == 2
    assert "--overwrite" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model.unseen"], "Pass a table of the new domain and --output"),
        (["model.unseen", "site.csv", "--plan"], "--plan needs the model only"),
        (["model.unseen", "train.csv", "-o", "x.unseen"], "of 5 domains"),
        (["model.unseen", "site.csv", "-o", "x.unseen", "--level", "refit"], "needs the source data"),
    ],
)
def test_the_command_explains_bad_calls(files, arguments, message):
    paths = [files / argument if "." in argument else argument for argument in arguments]
    code, text = command("adapt", *paths)
    assert code == 2
    assert message in text


def test_a_transductive_model_needs_a_batch_of_the_site():
    classifier, _ = fit_classifier()
    ensemble = classifier.best_estimator_
    ensemble.smoothing = 1.0
    X, y = make_rows(50, 8, 2.5)
    with pytest.raises(SmallBatchError):
        classifier.adapt(X, y, level="offsets")


@pytest.mark.slow
def test_models_with_trees_are_refitted(train, site, rest):
    """Trees take other features than the members beside them."""
    frame = train.with_columns(d=pl.Series([None if i % 7 == 0 else "u" for i in range(len(train))]))
    frame = frame.group_by("site", maintain_order=True).head(30)
    model = unseen.fit(frame, methods=["logistic", "gradient boosting"], label="label", domain="site")
    new = site.with_columns(d=pl.lit("u"))
    test = rest.with_columns(d=pl.lit("u"))
    assert model.table_model.ensemble.raw_members
    adapted = model.adapt(new, level="refit", source=frame)
    assert not np.allclose(adapted.predict_proba(test), model.predict_proba(test))


def test_the_prior_of_an_adapted_model_follows_from_bayes_rule(model, site, rest):
    """Offsets of the site multiply the frequencies of training, to which the new ones are relative."""
    adapted = model.adapt(site, level="offsets")
    P = adapted.predict_proba(rest)
    offsets = np.array([*adapted.card["adaptation"]["offsets"].values()])
    rows = {entry["class"]: entry["rows"] for entry in adapted.card["data"]["classes"]}
    source = np.array([rows[name] for name in CLASSES]) * np.exp(offsets)
    expected = P * np.array([0.2, 0.8]) / source
    np.testing.assert_allclose(
        adapted.predict_proba(rest, prior={"ill": 0.2}), expected / expected.sum(axis=1, keepdims=True), rtol=1e-9
    )


def test_the_prior_of_a_balanced_model_is_relative_to_its_natural_frequencies(train, rest):
    balanced = unseen.fit(train, methods=["logistic"], label="label", domain="site", balance="classes")
    shares = np.array([np.mean(train["label"].to_numpy() == name) for name in CLASSES])
    expected = balanced.predict_proba(rest) * np.array([0.1, 0.9]) / shares
    found = balanced.predict_proba(rest, prior={"ill": 0.1})
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)


def test_a_prior_needs_the_frequencies_of_training(model, rest):
    card = {**model.card, "data": {**model.card["data"], "classes": []}}
    with pytest.raises(ValueError, match="its card does not list the class frequencies of training"):
        replace(model, card=card).predict_proba(rest, prior={"ill": 0.1})


def test_a_prior_of_some_classes_leaves_something_for_the_others():
    frame = pl.concat([make_frame(i, 60, offset, site) for i, (site, offset) in enumerate(SITES.items())])
    three = frame.with_columns(label=pl.when(pl.col("c") > 1).then(pl.lit("dead")).otherwise(pl.col("label")))
    model = unseen.fit(three, methods=["logistic"], label="label", domain="site")
    P = model.predict_proba(three, prior={"dead": 0.5})
    assert np.allclose(P.sum(axis=1), 1)
    with pytest.raises(ValueError, match="to less than 1 if it leaves some out"):
        model.predict_proba(three, prior={"dead": 0.4, "ill": 0.6})


def test_what_a_refit_cannot_use_is_an_error(model, train, site):
    with pytest.raises(ValueError, match="fitted to a larger table through landmarks"):
        replace(model, card={**model.card, "stream": {"rows": 10}}).adapt(site, source=train)
    with pytest.raises(ValueError, match="data have no column 'label'"):
        model.adapt(site, source=train.drop("label"))


def test_labels_are_needed_to_adapt(model, site):
    with pytest.raises(ValueError, match="Labels are needed to adapt a model"):
        model.adapt(site.drop("label"))
    unnamed = site.drop("site")
    assert model.adapt(unnamed).card["adaptation"]["domain"] is None
