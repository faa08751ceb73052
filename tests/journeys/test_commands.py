"""Every command at its defaults, in two processes, on tables of realistic size, and one number of each again."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2_contingency
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")

import unseen
from journey_tables import REAL_TABLES, ROLES, SCRIPT, Data, first_screen, make_table, read_rows, run
from unseen.datasets import make_synthetic

pytestmark = pytest.mark.journeys
JOBS = ("--jobs", 2)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("journeys")


@pytest.fixture(scope="module")
def six_sites(home):
    return make_table(home / "six_sites.csv")


@pytest.fixture(scope="module")
def rare_events(home):
    return make_table(home / "rare_events.csv", n_rows=1000, n_sites=4, event_rate=0.05, seed=1)


@pytest.fixture(scope="module")
def eleven_classes(home):
    return make_table(home / "eleven_classes.csv", n_rows=1320, n_classes=11, seed=2)


@pytest.fixture(scope="module")
def new_site(home):
    """Labeled rows of a site that is not in the training table."""
    data = make_table(home / "new_site.csv", n_rows=300, n_sites=1, seed=8)
    data.path.write_text(data.path.read_text().replace("site 00", "site 99"))
    return data


@pytest.fixture(scope="module")
def model(home, six_sites):
    """A model file, and what `unseen fit` printed."""
    done = run("fit", six_sites.path, *ROLES, "-o", "model.unseen", *JOBS, cwd=home)
    return home / "model.unseen", done.stdout


def held_out_probabilities(classifier, data):
    """Leave-one-site-out probabilities, by scikit-learn alone."""
    return cross_val_predict(
        make_pipeline(StandardScaler(), classifier),
        data.X,
        data.y,
        groups=data.site,
        cv=LeaveOneGroupOut(),
        method="predict_proba",
    )


def test_fit_states_what_to_expect(model, six_sites):
    path, printed = model
    assert "On a new domain expect an accuracy of" in first_screen(printed)
    expected = float(re.search(r"expect an accuracy of (?:about )?(\d+)%", printed)[1]) / 100
    predicted = np.unique(six_sites.y)[held_out_probabilities(LogisticRegression(), six_sites).argmax(axis=1)]
    assert expected > accuracy_score(six_sites.y, predicted) - 0.03
    again = run("fit", six_sites.path, *ROLES, "-o", path, *JOBS, cwd=path.parent, check=False)
    assert (again.returncode, "exists" in again.stderr) == (2, True)


def test_show_prints_the_mean_of_the_held_out_sites(model):
    path, printed = model
    done = run("show", path, cwd=path.parent)
    assert "On a new domain expect" in first_screen(done.stdout)
    scores = unseen.load_model(path).card["scores"]
    assert scores["mean"] == pytest.approx(np.mean(list(scores["by_domain"].values())))
    assert f"{100 * scores['mean']:.1f}" in printed


@pytest.fixture(scope="module")
def predictions(model, new_site):
    """Predicted rows of a new site, and what `unseen predict` printed."""
    path, _ = model
    done = run("predict", path, new_site.path, "-o", "predictions.csv", cwd=path.parent)
    return read_rows(path.parent / "predictions.csv"), done.stdout


def test_predict_states_the_accuracy_of_its_file(predictions, new_site):
    rows, printed = predictions
    labels = [row["label"] for row in rows]
    assert f"Accuracy: {accuracy_score(new_site.y, labels):.1%}" in first_screen(printed)
    risks = [float(row["p(class 01)"]) for row in rows]
    assert roc_auc_score(new_site.y, risks) > 0.8
    assert labels == [f"class {int(risk >= 0.5):02d}" for risk in risks]


def test_an_adapted_model_predicts_the_other_half_of_its_site(model, predictions, new_site):
    path, _ = model
    lines = new_site.path.read_text().splitlines(keepends=True)
    half, rest = path.parent / "half.csv", path.parent / "rest.csv"
    half.write_text("".join(lines[:151]))
    rest.write_text("".join([lines[0], *lines[151:]]))
    done = run("adapt", path, half, "-o", "adapted.unseen", cwd=path.parent)
    assert "150" in first_screen(done.stdout + done.stderr)
    before = accuracy_score(new_site.y[150:], [row["label"] for row in predictions[0][150:]])
    adapted = unseen.load_model(path.parent / "adapted.unseen").predict(rest)
    assert accuracy_score(new_site.y[150:], adapted) > before - 0.05


def test_diagnose_tests_class_proportions_as_a_contingency_table_does(home, six_sites):
    done = run("diagnose", six_sites.path, *ROLES, "--format", "json", cwd=home)
    summary = json.loads(done.stdout)
    counts = [[int(((six_sites.site == s) & (six_sites.y == c)).sum()) for c in np.unique(six_sites.y)]
              for s in six_sites.sites]  # fmt: skip
    assert summary["counts"] == counts
    (test,) = [test for test in summary["tests"] if test["key"] == "label"]
    assert test["statistic"] == pytest.approx(chi2_contingency(counts, correction=False).statistic)
    assert abs(test["p_value"] - chi2_contingency(counts, correction=False).pvalue) < 0.1
    assert {test["key"]: test["flagged"] for test in summary["tests"]}["covariate"]


def test_compare_gives_the_majority_its_share(home, rare_events):
    done = run("compare", rare_events.path, *ROLES, *JOBS, "--report", "report.html", cwd=home)
    assert "Use " in first_screen(done.stdout)
    assert "do not fit" not in done.stdout
    assert (home / "report.html").stat().st_size > 10_000
    stored = run("compare", rare_events.path, *ROLES, "--format", "json", cwd=home)  # from the store, at once
    methods = {method["name"]: method for method in json.loads(stored.stdout)["methods"]}
    shares = [np.mean(rare_events.y[rare_events.site == name] == "class 00") for name in rare_events.sites]
    assert methods["majority"]["mean"] == pytest.approx(np.mean(shares))
    assert methods["auto"]["mean"] > np.mean(shares) - 0.01


def read_features(path):
    """Numeric features without missing values, labels and sites of a table of the real ones."""
    table = pl.read_csv(path)
    columns = table.drop("label", "domain").select(pl.selectors.numeric())
    X = columns.fill_null(strategy="mean").to_numpy()
    return Data(path, X, table["label"].cast(str).to_numpy(), table["domain"].cast(str).to_numpy())


@pytest.fixture(scope="module")
def validated(home):
    """A table, the real one where it is present, and the names of its columns of labels and sites."""
    path = REAL_TABLES / "heart.csv.gz"
    if path.exists():
        return read_features(path), ("--label", "label", "--domain", "domain")
    return make_table(home / "mixed.csv", n_rows=1000, n_sites=4, mixed=True, seed=3), ROLES


def test_validate_reports_the_auc_of_its_predictions(home, validated):
    data, roles = validated
    done = run("validate", data.path, *roles, *JOBS, "--tables", "tables", cwd=home)
    assert "What to expect at a new site" in first_screen(done.stdout)
    predictions = [row for row in read_rows(home / "tables" / "predictions.csv") if row["method"] == "auto"]
    measures = read_rows(home / "tables" / "measures.csv")
    event = f"probability_{max(data.y)}"
    for site in data.sites:
        rows = [row for row in predictions if row["domain"] == site]
        assert len(rows) == (data.site == site).sum()
        expected = roc_auc_score([row["label"] for row in rows], [float(row[event]) for row in rows])
        (value,) = [
            float(row["value"])
            for row in measures
            if (row["method"], row["site"], row["measure"]) == ("auto", site, "auc")
        ]
        assert value == pytest.approx(expected, abs=1e-6)
    risks = [float(row[event]) for row in predictions]
    plain = held_out_probabilities(LogisticRegression(), data)[:, 1]
    assert roc_auc_score([row["label"] for row in predictions], risks) > roc_auc_score(data.y, plain) - 0.05


def test_sites_ends_with_the_accuracy_of_leaving_one_site_out(home, eleven_classes):
    done = run("sites", eleven_classes.path, *ROLES, *JOBS, cwd=home)
    assert "training domains" in first_screen(done.stdout)
    mean = float(re.search(r"│ 5 +│ +([\d.]+)", done.stdout)[1]) / 100
    models = (LogisticRegression(max_iter=1000), HistGradientBoostingClassifier(max_iter=50))
    average = sum(held_out_probabilities(model, eleven_classes) for model in models)
    expected = accuracy_score(eleven_classes.y, np.unique(eleven_classes.y)[average.argmax(axis=1)])
    assert mean == pytest.approx(expected, abs=0.04)


def test_fit_of_many_sites_leaves_out_one_of_three_rows(home):
    many = make_table(home / "many_sites.csv", n_rows=6000, n_sites=36, seed=4)
    lines = many.path.read_text().splitlines(keepends=True)
    many.path.write_text("".join([*lines, *(line.replace("site 00", "site 98") for line in lines[1:109:36])]))
    done = run("fit", many.path, *ROLES, "-o", "many.unseen", *JOBS, "--format", "json", cwd=home)
    assert "site 98" in done.stderr
    card = json.loads(done.stdout)
    assert sorted(card["scores"]["by_domain"]) == many.sites
    assert card["data"]["rows"] == len(many.y)
    plain = np.unique(many.y)[held_out_probabilities(LogisticRegression(), many).argmax(axis=1)]
    assert card["expected_performance"]["mean"] == pytest.approx(accuracy_score(many.y, plain), abs=0.05)
    assert card["expected_performance"]["lower"] < card["expected_performance"]["mean"]


def test_demo_shows_the_paper_the_penguins_and_the_hospitals(home):
    lines = run("demo", *JOBS, cwd=home).stdout.splitlines()
    percent = {line[:24].strip(): [float(n) for n in re.findall(r"([\d.]+)%", line)] for line in lines}
    assert percent["CIDG, then 1-NN"][0] == pytest.approx(86.7, abs=0.05)
    pairs = zip(percent["CIDG, then the same"], percent["logistic regression"], strict=True)
    assert all(invariant > plain for invariant, plain in pairs)
    (_, level, lower, upper) = next(numbers for line, numbers in percent.items() if line.startswith("Expected"))
    (measured,) = next(numbers for line, numbers in percent.items() if line.startswith("Measured"))
    assert level == 95
    assert lower < measured < upper
    log_losses = [float(line.rpartition(" ")[2]) for line in lines if "log loss" in line]
    assert log_losses[1] < log_losses[0]


def test_reproduce_synthetic_has_the_nearest_neighbor_of_scikit_learn(home):
    done = run("reproduce", "synthetic", "--repeats", 3, "--format", "csv", *JOBS, cwd=home)
    lines = done.stdout.splitlines()
    column = {name: i for i, name in enumerate(lines[0].split(","))}
    cells = [line.split(",") for line in lines[1:]]
    (mean,) = [
        float(c[column["mean"]]) for c in cells if c[0] == "within the sources" and c[column["method"]] == "1-NN"
    ]
    scores = []
    for seed in range(3):
        data = make_synthetic(validation_domain=True, random_state=seed)
        is_source = np.isin(data.domain, ["domain 1", "domain 2"])
        is_target = data.domain == "domain 3"
        nearest = KNeighborsClassifier(1).fit(data.data[is_source], data.target[is_source])
        scores.append(nearest.score(data.data[is_target], data.target[is_target]))
    assert mean / 100 == pytest.approx(np.mean(scores), abs=0.05)
    assert (home / "synthetic.png").exists()


def test_extract_computes_the_features_of_a_network(home):
    pytest.importorskip("onnx", reason="networks need the extra images")
    image = pytest.importorskip("PIL.Image")
    import onnx

    from tiny_network import WEIGHTS, tiny_model

    onnx.save(tiny_model(), home / "tiny.onnx")
    colors = {"cat": (200, 40, 60), "dog": (30, 150, 90)}
    for camera in ("east", "west", "north"):
        for animal, color in colors.items():
            folder = home / "photos" / camera / animal
            folder.mkdir(parents=True)
            for number in range(5):
                image.new("RGB", (30, 20), color).save(folder / f"{number}.png")
    options = ("--network", "tiny.onnx", "--output-name", "fc6", "-o", "features.parquet")
    done = run("extract", "photos", *options, cwd=home)
    assert "30 images of 3 domains and 2 classes" in done.stderr
    table = pl.read_parquet(home / "features.parquet")
    features = table.select(pl.selectors.float()).to_numpy()
    means, deviations = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    for animal, color in colors.items():
        expected = ((np.array(color) / 255 - means) / deviations) @ WEIGHTS
        shown = features[(table["label"] == animal).to_numpy()]
        np.testing.assert_allclose(shown, np.tile(expected, (15, 1)), atol=0.02)


def fetch(address):
    """Return a page of a server that has just started."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return answer.read().decode()
        except urllib.error.URLError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_explore_starts_answers_and_stops(home, six_sites):
    command = [sys.executable, "-c", SCRIPT, "explore", str(six_sites.path), *ROLES, "--no-browser"]
    process = subprocess.Popen(command, cwd=home, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = ""
        while not address.startswith("http://"):
            line = process.stderr.readline()
            assert line, "the server has ended"
            address = line.strip()
        assert "<html" in fetch(address)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, said.strip()) == (0, "The server has stopped.")


def test_a_real_table_of_thousands_of_rows_is_validated(home):
    path = REAL_TABLES / "impact_tbi.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    options = ("--methods", "logistic", "--compare-with", "none")
    done = run("validate", path, "--label", "label", "--domain", "domain", *options, *JOBS, cwd=home)
    assert "What to expect at a new site" in first_screen(done.stdout)


def test_an_own_classifier_is_stored_and_loaded_if_its_type_is_trusted(home, rare_events, new_site):
    (home / "own_models.py").write_text("from sklearn.naive_bayes import GaussianNB\n\nBAYES = GaussianNB()\n")
    trusted = ("--trusted", "sklearn.naive_bayes.GaussianNB")
    models = ("--methods", "logistic", "--with", "own_models.py:BAYES")
    fit = ("fit", rare_events.path, *ROLES, *models, "-o", "own.unseen")
    refused = run(*fit, *JOBS, cwd=home, check=False)
    assert (refused.returncode, "Choosing an ensemble" in refused.stderr) == (2, False)
    assert trusted[1] in refused.stderr
    assert "name these types as trusted" in " ".join(refused.stderr.split())
    run(*fit, *trusted, *JOBS, cwd=home)
    predict = ("predict", "own.unseen", new_site.path, "-o", "own.csv")
    refused = run(*predict, cwd=home, check=False)
    assert (refused.returncode, trusted[1] in refused.stderr) == (2, True)
    assert "name them as trusted" in " ".join(refused.stderr.split())
    done = run(*predict, *trusted, cwd=home)
    labels = [row["label"] for row in read_rows(home / "own.csv")]
    assert f"Accuracy: {accuracy_score(new_site.y, labels):.1%}" in first_screen(done.stdout)


def test_a_table_of_free_text_says_what_to_do(home, six_sites):
    path = home / "notes.csv"
    with path.open("w") as file:
        file.write("outcome,site,note\n")
        for i, (label, site) in enumerate(zip(six_sites.y, six_sites.site, strict=True)):
            file.write(
                f"{label},{site},the patient number {i} came in with a complaint that was written down at length\n"
            )
    for command in ("fit", "compare"):
        options = ("-o", "notes.unseen") if command == "fit" else ()
        done = run(command, path, *ROLES, *options, *JOBS, cwd=home, check=False)
        assert (done.returncode, "Free text is not used: 'note'" in done.stderr) == (2, True), done.stderr


@pytest.mark.filterwarnings("ignore::unseen.exceptions.DataWarning")
def test_the_command_and_the_verb_store_the_same_card(home, rare_events):
    options = ("--methods", "logistic", "--threshold", "sensitivity=0.9")
    run("fit", rare_events.path, *ROLES, *options, "-o", "command.unseen", *JOBS, cwd=home)
    by_command = json.loads(run("show", "command.unseen", "--format", "json", cwd=home).stdout)
    roles = {"label": "outcome", "domain": "site"}
    model = unseen.fit(rare_events.path, **roles, methods="logistic", threshold="sensitivity=0.9", n_jobs=2)
    by_verb = json.loads(json.dumps(model.card))
    assert any("class 01" in notice for notice in by_verb["data"]["notices"])
    for part in ("data", "scores", "expected_performance", "ensemble", "threshold"):
        assert by_command[part] == by_verb[part], part


# Studies without moving rows


@pytest.fixture(scope="module")
def study(home):
    """A folder with the rows of seven sites, and the plan that one of them drafted."""
    folder = home / "study"
    folder.mkdir()
    data = make_table(folder / "all.csv", n_rows=4200, n_sites=7, mixed=True, seed=11)
    rows = pl.read_csv(data.path)
    for site in data.sites:
        rows.filter(pl.col("site") == site).drop("site").write_csv(folder / f"{site.replace(' ', '_')}.csv")
    run("plan", "study.toml", "--from", "site_00.csv", "--label", "outcome", cwd=folder)
    return folder, sorted(path.stem for path in folder.glob("site_*.csv"))


@pytest.fixture(scope="module")
def study_models(study):
    folder, sites = study
    for site in sites:
        run("aggregate", f"{site}.csv", "--plan", "study.toml", "-o", f"{site}.stats.json", cwd=folder)
    run("fit", "--from", *[f"{site}.stats.json" for site in sites], "-o", "models.unseen", cwd=folder)
    return folder / "models.unseen"


def test_plan_lists_what_sites_agree_on(study):
    done = run("plan", "study.toml", "--format", "json", cwd=study[0])
    plan = json.loads(done.stdout)
    assert [column["column"] for column in plan["columns"]] == ["x0", "x1", "x2", "x3", "x4", "x5", "arrival"]
    assert plan["smallest_cell"] == 10


def test_aggregate_writes_the_means_of_a_site(study, study_models):
    folder, sites = study
    content = json.loads((folder / f"{sites[2]}.stats.json").read_text())
    rows = pl.read_csv(folder / f"{sites[2]}.csv")
    x0 = content["plan"]["columns"]["x0"]
    for code, name in enumerate(content["plan"]["classes"]):
        own = rows.filter(pl.col("outcome") == name)
        assert content["counts"][code] == own.height
        assert content["means"][code][0] == pytest.approx((own["x0"].mean() - x0["center"]) / x0["scale"])


def test_fit_from_statistics_predicts_a_new_site(study, study_models, new_site):
    pl.read_csv(new_site.path).with_columns(arrival=pl.lit("walk-in")).write_csv(study[0] / "new.csv")
    run("predict", study_models, "new.csv", "-o", "predictions.csv", cwd=study[0])
    risk = pl.read_csv(study[0] / "predictions.csv")["p(class 01)"].to_numpy()
    assert roc_auc_score(new_site.y == "class 01", risk) > 0.85


def test_combine_reports_the_auc_of_rows_that_never_moved(study, study_models):
    folder, sites = study
    for site in sites:
        arguments = ("--model", study_models, "--aggregate", f"{site}.site.json")
        run("validate", f"{site}.csv", *arguments, "--quiet", cwd=folder)
    files = [f"{site}.site.json" for site in sites]
    arguments = ("--model", study_models, "-o", "final.unseen", "--report", "report.html", "--format", "json")
    result = json.loads(run("combine", *files, *arguments, cwd=folder).stdout)
    auc = {record["site"]: record["value"] for record in result["measures"] if record["measure"] == "auc"}
    assert sorted(auc) == sites
    assert (folder / "report.html").stat().st_size > 50_000
    rows = pl.read_csv(folder / "all.csv").drop_nulls()
    X = rows[["x0", "x1", "x2", "x3", "x4", "x5"]].to_numpy()
    y, site = (rows["outcome"] == "class 01").to_numpy(), rows["site"].to_numpy()
    risk = cross_val_predict(
        make_pipeline(StandardScaler(), LogisticRegression()),
        X,
        y,
        groups=site,
        cv=LeaveOneGroupOut(),
        method="predict_proba",
    )[:, 1]
    reference = [roc_auc_score(y[site == name], risk[site == name]) for name in np.unique(site)]
    assert np.mean(list(auc.values())) == pytest.approx(np.mean(reference), abs=0.02)
    run("validate", "all.csv", "--domain", "site", "--model", "final.unseen", cwd=folder)
