"""The study engine: what it trains on, who chooses, what it stores, and that nothing of the targets leaks."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from helpers import three_domains
from unseen import KFDA, ProjectionSearchCV, UnseenClassifier
from unseen.kernels import median_squared_distance
from unseen.labels import Samples
from unseen.selection import METHODS as TABLE
from unseen.selection import method_names
from unseen.study import Protocol, Row, Store, Task, run, tasks
from unseen.study._outcomes import outcomes
from unseen.study._protocol import thin
from unseen.study._run import Agenda, Choice, Study, Trial, methods_of, problem_of

METHODS = method_names(compared=True)
PROJECTIONS = method_names(is_projection=True)
X, Y, CODES = three_domains(n_per_cell=7, n_domains=4, seed=3)
D = np.array(["a", "b", "c", "d"])[CODES]
SAMPLES = Samples(X, Y, D)
PAIR = Task(("a", "b"), ("c", "d"))
QUICK = Protocol(repeats=2, quick=True)
FEW = ["1NN", "KFDA", "logistic"]


def facts(rows):
    """What must not depend on how often, in how many processes or when a study ran."""
    return {(r.task, r.repeat, r.method): (r.accuracy, r.accuracies, r.settings, r.ties, r.status) for r in rows}


def problem(protocol, task=PAIR, y=Y):
    return problem_of(Samples(X, y, D), task, 0, protocol)


class BrokenProjection(KFDA):
    def _recipe(self, counts, ridge):
        if counts.sum() > 4:  # of samples, not of what a search asks about methods
            raise ValueError("no components today")
        return super()._recipe(counts, ridge)


def study(tmp_path, protocol=QUICK, methods=FEW, todo=(PAIR,), data=(X, Y, D), name="results.sqlite", **options):
    return run(*data, todo, store=tmp_path / name, protocol=protocol, methods=methods, **options)


def test_one_and_two_left_out_of_four_are_the_papers_ten_tasks():
    names = [task.name for task in tasks("ACDW") + tasks("ACDW", 2)]
    assert names == [
        "C,D,W -> A",
        "A,D,W -> C",
        "A,C,W -> D",
        "A,C,D -> W",
        "D,W -> A,C",
        "C,W -> A,D",
        "C,D -> A,W",
        "A,W -> C,D",
        "A,D -> C,W",
        "A,C -> D,W",
    ]


@pytest.mark.parametrize(
    ("domains", "n_targets", "message"),
    [("AA", 1, "domains must differ"), ("ABC", 3, "got 3"), ("ABC", 0, "got 0"), ("A", 1, "of the 1 domains")],
)
def test_impossible_tasks_are_refused(domains, n_targets, message):
    with pytest.raises(ValueError, match=message):
        tasks(domains, n_targets)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selection": "test"}, "selection must be one of within, domain, oracle; got 'test'"),
        ({"preprocess": "pca"}, "preprocess must be one of l2, standardize, none; got 'pca'"),
        ({"centering": "both"}, "centering must be one of source, target; got 'both'"),
        ({"repeats": 0}, "repeats must be a whole number of at least 1; got 0"),
        ({"repeats": 2.5}, "repeats .* got 2.5"),
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"train_size": 1.5}, "train_size must lie between 0 and 1; got 1.5"),
        ({"train_size": 0}, "train_size must lie between 0 and 1; got 0"),
    ],
)
def test_a_protocol_refuses_what_it_does_not_know(options, message):
    with pytest.raises(ValueError, match=message):
        Protocol(**options)


def test_a_draw_takes_its_share_of_each_source_and_the_whole_target():
    train, test = Protocol().draw(SAMPLES, PAIR, 0)
    for name in PAIR.sources:
        assert abs(np.sum(D[train] == name) - 0.7 * D.tolist().count(name)) < 1
    assert set(D[train]) == set(PAIR.sources)
    assert len(np.unique(train)) == len(train)
    np.testing.assert_array_equal(test, np.flatnonzero(np.isin(D, PAIR.targets)))


def test_what_is_drawn_of_a_domain_does_not_depend_on_the_task():
    drawn = [Protocol().draw(SAMPLES, task, 0)[0] for task in (PAIR, *tasks("abcd"))]
    for name in "abcd":
        of_it = {tuple(rows[D[rows] == name]) for rows in drawn}
        assert len(of_it - {()}) == 1


def test_two_tasks_that_train_on_the_same_rows_choose_together():
    todo, table = tasks("abcd"), methods_of(FEW)
    agenda = Agenda(Study(Samples(X, Y, D), QUICK, StandardScaler(), table), todo, set(), {})
    choices = [unit for stage in agenda.stages for unit in stage if isinstance(unit, Choice)]
    # Each pair of domains is held out once, each of the two chooses by the other.
    assert len(choices) == QUICK.repeats * len(FEW) * 6
    for unit in choices:
        (one, two), trained = (set(D[rows]) for rows in unit.tests), set(D[unit.train])
        assert len(one) == len(two) == 1
        assert one | two | trained == set("abcd")
        assert len(trained) == 2


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("auto", "extra trees")])
def test_tasks_that_choose_together_choose_as_each_does_alone(method, tmp_path):
    together = facts(study(tmp_path, replace(QUICK, repeats=1), [method], tasks("abcd")))
    for task in tasks("abcd"):
        alone = study(tmp_path, replace(QUICK, repeats=1), [method], [task], name=f"{task.name}.sqlite")
        assert facts(alone).items() <= together.items()


def test_a_choice_is_not_made_again_after_a_run_that_ended_before_its_trial(tmp_path, monkeypatch):
    def no_trial(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trial, "result", no_trial)
        with pytest.raises(KeyboardInterrupt):
            study(tmp_path, todo=tasks("abcd"))
    monkeypatch.setattr(Choice, "result", None)
    protocol = replace(QUICK, repeats=1)  # whose choices were the first
    rows = study(tmp_path, protocol, todo=tasks("abcd"))
    monkeypatch.undo()
    assert facts(rows) == facts(study(tmp_path, protocol, todo=tasks("abcd"), name="fresh.sqlite"))


def moved(seed):
    """Five domains, moved apart, and hard enough for pools to be wrong."""
    rng, y = np.random.default_rng(seed), np.tile(np.repeat(np.arange(2), 15), 5)
    X = 1.6 * rng.normal(size=(2, 3))[y] + rng.normal(size=(len(y), 3))
    return X + np.repeat(2 * rng.normal(size=(5, 3)), 30, axis=0), y, np.repeat(list("abcde"), 30)


@pytest.mark.parametrize(
    ("pool", "seed", "scoring"),
    [("pool of all models, smoothed", 10, "accuracy"), ("pool of all models", 8, "neg_log_loss")],
)
def test_auto_is_what_the_classifier_would_choose_without_the_target(pool, seed, scoring):
    X, y, d = moved(seed)
    y[:2] = 9  # a class that no source has
    protocol = Protocol(preprocess="none", metric=scoring)
    found = problem_of(Samples(X, y, d), tasks("abcde")[0], 0, protocol)
    (outcome,) = outcomes(["auto"], found)
    told = outcome.settings
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    model = UnseenClassifier(scoring=scoring).fit(X[found.train], y[found.train], sample_domain=d[found.train])
    assert (told["model"], told["smoothing"]) == (model.best_model_, model.best_estimator_.smoothing)
    assert told["model"] == pool
    assert outcome.validation == pytest.approx(model.best_score_, rel=1e-6)
    assert_array_equal(model.classes_[outcome.codes], model.predict(X[found.test], sample_domain=d[found.test]))
    assert outcome.transductive == (model.best_kind_ == "transductive")
    assert [one["reason"] for one in told["decisions"]] == model.decisions_
    shares = {row["model"]: 0.0 for row in model.members_}
    for row in model.members_:
        shares[row["model"]] += row["weight"]
    assert told["members"] == pytest.approx(shares, rel=1e-6)
    assert told["calibration"]["after"]["log_loss"] == pytest.approx(model.calibration_["after"]["log_loss"], rel=1e-6)
    if scoring == "accuracy":
        assert told["forecast"] == pytest.approx(model.forecast_)


def pooled_facts(rows):
    """What pools came to, as far as sums in another order leave it alone."""
    pools = [row for row in rows if row.method == "auto"]
    shares = [{name: round(weight, 5) for name, weight in row.settings["members"].items()} for row in pools]
    return [(row.task, row.accuracy, row.transductive, own) for row, own in zip(pools, shares, strict=True)]


def test_pools_are_the_same_whether_their_votes_were_kept_or_are_asked_for_anew(tmp_path, monkeypatch):
    data, protocol, methods = moved(10), replace(QUICK, repeats=1), ["auto", "logistic"]
    todo = tasks("abcde")[:1]

    def no_trial(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trial, "result", no_trial)
        with pytest.raises(KeyboardInterrupt):  # scores are kept in the file, votes are not
            study(tmp_path, protocol, methods, todo, data, name="stopped.sqlite")
    together = study(tmp_path, protocol, methods, todo, data)
    resumed = study(tmp_path, protocol, methods, todo, data, name="stopped.sqlite")
    monkeypatch.setattr("unseen.study._run.ROOM", 0)
    apart = study(tmp_path, protocol, methods, todo, data, name="apart.sqlite")
    assert pooled_facts(together) == pooled_facts(resumed) == pooled_facts(apart)
    alone = study(tmp_path, protocol, ["logistic"], todo, data, name="alone.sqlite")
    assert facts(alone).items() <= facts(together).items()


def test_a_pool_and_the_methods_in_it_fit_each_candidate_once():
    table, todo = methods_of(["auto", "logistic", "CIDG"]), tasks("abcd")
    agenda = Agenda(Study(SAMPLES, replace(QUICK, repeats=1), StandardScaler(), table), todo, set(), {})
    choices = [unit for unit in agenda.stages[0] if isinstance(unit, Choice)]
    asked = [(unit.train.tobytes(), one.key) for unit in choices for one in unit.candidates]
    assert len(asked) == len(set(asked))
    voting = problem(QUICK).voting(table)
    assert {one.key for unit in choices for one in unit.candidates if one.key in unit.voting} == set(voting)
    lone = Agenda(Study(SAMPLES, QUICK, StandardScaler(), methods_of(FEW)), todo, set(), {})
    assert not any(unit.voting or unit.drawn for unit in lone.stages[0])


def test_draws_repeat_themselves_and_differ_between_repeats_and_seeds():
    def drawn(repeat, seed=0):
        return Protocol(seed=seed).draw(SAMPLES, PAIR, repeat)[0].tolist()

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)
    assert drawn(0) != drawn(0, seed=7)
    assert drawn(1) == drawn(0, seed=1)


def splits_of(selection, task=PAIR):
    protocol = Protocol(selection=selection)
    train, test = protocol.draw(SAMPLES, task, 0)
    return train, test, protocol.validation(SAMPLES, train, test, 0)


def test_within_holds_out_thirty_percent_of_the_training_data():
    train, _, [(fit, held_out)] = splits_of("within")
    assert sorted([*fit, *held_out]) == sorted(train)
    assert len(fit) / len(train) == pytest.approx(0.7, abs=0.1)  # whole samples of each class
    assert set(D[held_out]) == set(PAIR.sources)


def test_domain_holds_out_one_source_after_the_other():
    train, _, splits = splits_of("domain")
    assert [set(D[held_out]) for _, held_out in splits] == [{"a"}, {"b"}]
    for fit, held_out in splits:
        assert sorted([*fit, *held_out]) == sorted(train)
        assert not set(D[fit]) & set(D[held_out])


def test_oracle_is_the_target_itself():
    train, test, [(fit, held_out)] = splits_of("oracle")
    np.testing.assert_array_equal(held_out, test)
    np.testing.assert_array_equal(fit, train)


def test_with_a_single_source_domain_selection_falls_back_to_within():
    single = Task(("a",), ("b",))
    found, expected = splits_of("domain", single)[2], splits_of("within", single)[2]
    for pair, other in zip(found, expected, strict=True):
        for one, two in zip(pair, other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("selection", ["within", "domain"])
def test_no_target_label_reaches_the_choice_or_the_predictions(selection):
    protocol = Protocol(selection=selection, quick=True)
    others = Y.copy()
    target = np.flatnonzero(np.isin(D, PAIR.targets))
    others[target] = np.random.default_rng(0).permutation(Y[target])
    others[target[:3]] = 99  # even a class that no source has
    for one, two in zip(*(outcomes(METHODS, problem(protocol, y=y)) for y in (Y, others)), strict=True):
        assert (one.method, one.settings, one.ties) == (two.method, two.settings, two.ties)
        np.testing.assert_array_equal(one.codes, two.codes)


def test_the_oracle_does_look_at_the_target():
    others = Y.copy()
    target = np.flatnonzero(np.isin(D, PAIR.targets))
    others[target] = np.random.default_rng(0).permutation(Y[target])
    protocol = Protocol(selection="oracle", quick=True)
    one, two = (list(outcomes(METHODS, problem(protocol, y=y))) for y in (Y, others))
    assert [o.settings for o in one] != [o.settings for o in two]


@pytest.mark.parametrize("preprocess", ["l2", "standardize", "none"])
def test_with_source_centring_nothing_is_learned_from_target_samples(tmp_path, preprocess):
    protocol = Protocol(repeats=1, quick=True, centering="source", preprocess=preprocess)
    others = X.copy()
    others[D == "d"] = 5 + 3 * X[D == "d"] ** 2
    one, two = (study(tmp_path, protocol, METHODS, data=(x, Y, D)) for x in (X, others))
    for row, other in zip(one, two, strict=True):
        assert (row.settings, row.ties, row.accuracies["c"]) == (other.settings, other.ties, other.accuracies["c"])
        assert not row.transductive


def test_the_preprocessing_is_fitted_on_the_training_data():
    found = problem(Protocol(preprocess="standardize"))
    prepared, n = found.prepared.X, len(found.train)
    np.testing.assert_allclose(prepared[:n].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(prepared[:n].std(axis=0), 1)
    assert np.abs(prepared[n:].mean(axis=0)).max() > 0.1


@pytest.mark.parametrize("method", PROJECTIONS)
@pytest.mark.parametrize("selection", ["within", "domain"])
def test_a_projections_outcome_is_that_of_a_search_by_hand(method, selection):
    found = problem(Protocol(selection=selection, quick=True), Task(("a", "b", "c"), ("d",)))
    (outcome,) = outcomes((method,), found)
    own = TABLE[method]
    grid = [{name: [value] for name, value in setting.items()} for setting in own.settings(3, quick=True)]
    # Rows of unit length need nothing but themselves, so that all can be prepared at once.
    rows, n = found.prepared, len(found.train)
    place = np.full(len(X), -1)
    place[found.train] = np.arange(n)
    splits = [(place[a], place[b]) for a, b in found.splits]
    search = ProjectionSearchCV(clone(own.transformer).set_params(centering="target"), grid, cv=splits)
    search.fit(rows.X[:n], rows.y[:n], sample_domain=rows.domain[:n])
    assert outcome.settings == search.best_params_
    assert outcome.ties == search.cv_results_["n_ties"][search.best_index_]
    assert outcome.transductive
    np.testing.assert_array_equal(outcome.codes, search.predict(rows.X[n:], sample_domain=rows.domain[n:]))


def test_projections_in_one_pass_equal_projections_one_by_one():
    for together in outcomes(PROJECTIONS, problem(QUICK)):
        (alone,) = outcomes((together.method,), problem(QUICK))
        assert (alone.settings, alone.ties) == (together.settings, together.ties)
        np.testing.assert_array_equal(alone.codes, together.codes)


def scores_of(method, found):
    """Each setting of a method and its scores on all splits, by the engine."""
    candidates = found.candidates(method)
    table = found.scores(candidates, found.splits)
    return [(c.settings, scores) for c, scores in zip(candidates, table["scores"], strict=True)]


def prepared_splits(found):
    """Training and held-out samples of each split, prepared on the former alone."""
    for train, test in found.splits:
        prepare = clone(found.preparation).fit(X[train])
        yield prepare.transform(X[train]), Y[train], prepare.transform(X[test]), Y[test]


@pytest.mark.parametrize("preprocess", ["l2", "standardize"])
def test_kpca_scores_are_those_of_a_fit_for_each_number_of_components(preprocess):
    found = problem(Protocol(preprocess=preprocess))
    for setting, scores in scores_of("KPCA", found):
        for (Z, y, Z_test, y_test), score in zip(prepared_splits(found), scores, strict=True):
            gamma = float(setting["gamma"].removesuffix("median").strip("*") or 1) / median_squared_distance(Z)
            n_components = min(setting["n_components"], len(Z) - 1)
            kpca = KernelPCA(n_components, kernel="rbf", gamma=gamma, eigen_solver="dense").fit(Z)
            one_nn = KNeighborsClassifier(1).fit(kpca.transform(Z), y)
            assert score == one_nn.score(kpca.transform(Z_test), y_test)


@pytest.mark.parametrize("preprocess", ["l2", "standardize"])
def test_rbf_svm_scores_are_those_of_a_fit_for_each_setting(preprocess):
    found = problem(Protocol(preprocess=preprocess))
    for setting, scores in scores_of("RBF SVM", found):
        for (Z, y, Z_test, y_test), score in zip(prepared_splits(found), scores, strict=True):
            gamma = float(setting["gamma"].removesuffix("median").strip("*") or 1) / median_squared_distance(Z)
            assert score == SVC(C=setting["C"], kernel="rbf", gamma=gamma).fit(Z, y).score(Z_test, y_test)


class Broken(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        raise ValueError("no solver today")


def test_a_failure_is_a_row_and_is_tried_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        # The grids stay as they are: another one would be another configuration.
        patch.setitem(TABLE, "logistic", replace(TABLE["logistic"], classifier=Broken()))
        patch.setitem(TABLE, "KFDA", replace(TABLE["KFDA"], transformer=BrokenProjection()))
        rows = study(tmp_path)
    assert len(rows) == 6
    by_method = {method: [row for row in rows if row.method == method] for method in FEW}
    assert {row.status for row in by_method["1NN"]} == {"ok"}
    for row in (*by_method["logistic"], *by_method["KFDA"]):
        assert (row.status, row.accuracy, row.accuracies, row.settings) == ("failed", None, {}, {})
    assert by_method["logistic"][0].reason == "ValueError: no solver today"
    assert by_method["KFDA"][0].reason == "ValueError: no components today"
    again = study(tmp_path)
    assert {row.status for row in again} == {"ok"}
    assert [row for row in again if row.method == "1NN"] == by_method["1NN"]  # not run again: even the time is the same


def test_what_is_done_is_not_run_again(tmp_path, monkeypatch):
    rows = study(tmp_path)
    monkeypatch.setattr("unseen.study._run.run_unit", None)
    assert study(tmp_path) == rows
    assert study(tmp_path, methods=["KFDA"]) == [row for row in rows if row.method == "KFDA"]


def test_more_repeats_continue_the_same_configuration(tmp_path):
    two = study(tmp_path)
    three = study(tmp_path, replace(QUICK, repeats=3))
    assert [row for row in three if row.repeat < 2] == two
    assert len(three) == len(FEW) * 3
    with sqlite3.connect(tmp_path / "results.sqlite") as connection:
        # One for all methods, and one for each.
        assert connection.execute("SELECT count(*) FROM configurations").fetchone() == (1 + len(FEW),)
    connection.close()


@pytest.mark.parametrize(
    "change",
    [{"seed": 5}, {"preprocess": "none"}, {"centering": "source"}, {"selection": "within"}, {"train_size": 0.5}],
    ids=str,
)
def test_another_protocol_in_the_same_store_does_not_mix(tmp_path, change):
    first = study(tmp_path)
    other = study(tmp_path, replace(QUICK, **change))
    assert facts(other) == facts(study(tmp_path, replace(QUICK, **change), name="fresh.sqlite"))
    assert study(tmp_path) == first


def test_other_data_in_the_same_store_do_not_mix(tmp_path):
    first = study(tmp_path)
    relabelled = np.where(Y == 0, 1, np.where(Y == 1, 0, Y))
    relabelled[:5] = 2
    for data in ((X + 1e-3, Y, D), (X, relabelled, D), (X, Y, np.where(D == "a", "b", np.where(D == "b", "a", D)))):
        assert facts(study(tmp_path, data=data)) == facts(study(tmp_path, data=data, name="fresh.sqlite"))
        (tmp_path / "fresh.sqlite").unlink()
    assert study(tmp_path) == first
    with sqlite3.connect(tmp_path / "results.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM configurations").fetchone() == (4 * (1 + len(FEW)),)
    connection.close()


def test_another_grid_in_the_same_store_does_not_mix(tmp_path, monkeypatch):
    study(tmp_path, methods=["logistic"])
    monkeypatch.setitem(TABLE, "logistic", replace(TABLE["logistic"], grid={"C": [1e-9, 1e-8]}))
    assert {row.settings["C"] for row in study(tmp_path, methods=["logistic"])} <= {1e-9, 1e-8}


def test_predictions_give_the_accuracy(tmp_path):
    task = PAIR
    for row in study(tmp_path):
        with Store(tmp_path / "results.sqlite") as store:
            query = "SELECT DISTINCT configuration FROM results WHERE method = ?"
            (configuration,) = store._connection.execute(query, (row.method,)).fetchone()
            predicted = store.predicted(configuration, row.method, row.task, row.repeat)
        truth = np.unique(Y, return_inverse=True)[1][np.isin(D, task.targets)]
        assert row.accuracy == np.mean(predicted == truth)


def test_the_validation_score_is_the_mean_over_the_splits_of_the_best_setting():
    found = problem(Protocol(quick=True, preprocess="standardize"))
    (outcome,) = outcomes(("logistic",), found)
    by_hand = {"logistic": LogisticRegression(max_iter=2000, **outcome.settings), "1NN": KNeighborsClassifier(1)}
    for method, model in by_hand.items():
        (outcome,) = outcomes((method,), found)
        right = [model.fit(Z, y).score(Z_test, y_test) for Z, y, Z_test, y_test in prepared_splits(found)]
        assert outcome.validation == pytest.approx(np.mean(right))


def test_a_preprocessor_is_fitted_on_the_training_data_and_may_fill_in_missing_values(tmp_path):
    holes = X.copy()
    holes[::7, 0] = np.nan
    fill = make_pipeline(SimpleImputer(), StandardScaler())
    rows = study(tmp_path, data=(holes, Y, D), preprocessor=fill)
    assert {row.status for row in rows} == {"ok"}
    train, _ = QUICK.draw(SAMPLES, PAIR, 0)
    expected = clone(fill).fit(holes[train]).transform(holes[train])
    found = problem_of(Samples(holes, Y, D), PAIR, 0, QUICK, fill)
    assert_array_equal(found.prepared.X[: len(train)], expected)
    other = study(tmp_path, data=(holes, Y, D), preprocessor=SimpleImputer())
    assert facts(other) == facts(study(tmp_path, data=(holes, Y, D), preprocessor=SimpleImputer(), name="fresh.sqlite"))


def test_at_most_so_many_samples_of_each_domain_are_kept_in_order():
    kept = thin(D, 5, seed=3)
    assert (np.diff(kept) > 0).all()
    assert {(D[kept] == name).sum() for name in np.unique(D)} == {5}
    assert_array_equal(thin(D, None), np.arange(len(D)))
    assert_array_equal(thin(D, 10**6), np.arange(len(D)))
    assert thin(D, 5, seed=4).tolist() != kept.tolist()


def test_a_draw_keeps_every_class_of_every_domain():
    rare = np.where(np.arange(len(Y)) < 2, "rare", Y.astype(str))
    kept = thin(D, 8, y=rare)
    assert (rare[kept] == "rare").sum() == 2
    assert {(d, label) for d, label in zip(D[kept], rare[kept], strict=True)} == set(zip(D, rare, strict=True))
    assert {(D[kept] == name).sum() for name in np.unique(D)} == {8}


def test_two_processes_find_what_one_finds(tmp_path):
    one = study(tmp_path)
    two = study(tmp_path, name="two.sqlite", n_jobs=2)
    assert facts(one) == facts(two)


def test_each_row_tells_its_seed_time_and_machine(tmp_path):
    for row in study(tmp_path, replace(QUICK, seed=11)):
        assert row.seed == 11 + row.repeat
        assert row.seconds > 0
        assert {"unseen", "numpy", "scikit-learn", "cores", "blas"} <= set(row.machine)
        assert row.accuracy == pytest.approx(np.mean(list(row.accuracies.values())))  # targets of equal size
        assert row.transductive == (row.method == "KFDA")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["CIDG", "magic"]}, "There is no method 'magic'; there are 1NN, KPCA"),
        ({"methods": []}, "at least one method and one task; got 0 and 1"),
        ({"todo": ()}, "at least one method and one task; got 3 and 0"),
        ({"todo": (Task(("a",), ("z",)),)}, "domains that the data do not have: z"),
        ({"data": (np.where(X > 2, np.nan, X), Y, D)}, "X contains NaN"),
        ({"data": (X, Y[1:], D)}, "inconsistent numbers of samples"),
    ],
)
def test_a_study_refuses_what_it_cannot_run(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        study(tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_rows_come_back_as_they_were_written(tmp_path):
    fine = Row(
        "K|PCA",
        "a_b -> ü",
        3,
        4,
        1 / 3,
        {"ü": 1 / 3},
        0.75,
        {"gamma": "0.1*median", "n": [1, None]},
        2,
        True,
        0.1,
        "ok",
        "",
        {},
    )
    failed = replace(fine, method="1NN", accuracy=None, accuracies={}, status="failed", reason='it\'s "odd"\n')
    with Store(tmp_path / "new" / "results.sqlite") as store:
        store.open_configuration("k", {"data": "x"})
        store.add("k", fine, np.array([2, 0, 70_000]))
        store.add("k", failed)
        store.add("other", replace(fine, repeat=9))
    with Store(tmp_path / "new" / "results.sqlite") as store:
        assert store.rows("k") == [failed, fine]
        better = replace(failed, accuracy=0.5, status="ok", reason="")
        store.add("k", better)
        assert store.rows("k") == [better, fine]
        assert store.rows("unknown") == []
        assert store.predicted("k", "K|PCA", "a_b -> ü", 3).tolist() == [2, 0, 70_000]
        assert store.predicted("k", "1NN", "a_b -> ü", 3) is None
        assert store.predicted("k", "CIDG", "a_b -> ü", 3) is None


def test_a_store_can_be_read_while_a_study_writes(tmp_path):
    row = Row("1NN", "a -> b", 0, 0, 0.5, {}, None, {}, 0, False, 0.1, "ok", "", {})
    with Store(tmp_path / "r.sqlite") as writer, Store(tmp_path / "r.sqlite") as reader:
        for repeat in range(3):
            writer.add("k", replace(row, repeat=repeat))
            assert len(reader.rows("k")) == repeat + 1


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes, and not a database at all\n" * 50)
    before = notes.read_bytes()
    with pytest.raises(ValueError, match=r"notes\.txt is not a file of results .*Name another file"):
        Store(notes)
    assert notes.read_bytes() == before
    with pytest.raises(ValueError, match="cannot be opened as a file of results"):
        Store(tmp_path)
    connection = sqlite3.connect(tmp_path / "foreign.sqlite")
    connection.execute("CREATE TABLE results (something TEXT)")
    connection.close()
    with pytest.raises(ValueError, match=r"foreign\.sqlite is not a file of results"):
        Store(tmp_path / "foreign.sqlite")
