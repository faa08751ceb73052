"""The commands and tutorials of the documentation run: tutorials completely, other commands by their options."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl
import typer

import unseen
from pages import Reader, blocks, commands, mentioned, run
from test_docs import PAGES
from tiny_network import tiny_network
from unseen.cli._app import app
from unseen.datasets import make_synthetic
from unseen.shift import _diagnose

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
if not DOCS.exists():
    pytest.skip("this distribution comes without the documentation", allow_module_level=True)

# Pages that are followed from beginning to end, each in an empty folder.
TUTORIALS = [DOCS / "problem.rst", DOCS / "alternatives.rst", *sorted((DOCS / "tutorials").glob("*.rst"))]
GUIDE = [*ROOT.glob("README.md"), *PAGES]
ALL = [*ROOT.glob("README.md"), *sorted(DOCS.rglob("*.rst"))]
NEEDED = {
    "alternatives": ["pandas"],
    "photographs": ["PIL", "onnx", "onnxruntime"],
    "pipeline": ["pandas"],
}


# Tutorials


@pytest.mark.docs
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_shows(page, tmp_path, monkeypatch):
    for package in NEEDED.get(page.stem, []):
        pytest.importorskip(package, reason="the tutorial needs an extra")
    monkeypatch.chdir(tmp_path)
    if page.stem == "photographs":  # which needs a network
        tiny_network(tmp_path / "network.onnx")
    with config_context():
        Reader(page).follow()
    if page.stem == "photographs":
        drawn, shown = (
            pytest.importorskip("PIL.Image").open(place / "cameras.png") for place in (tmp_path, DOCS / "_static")
        )
        assert np.array_equal(drawn, shown), "docs/_static/cameras.png is not what the page draws"


def test_each_tutorial_is_in_the_list():
    listed = (DOCS / "tutorials" / "index.rst").read_text(encoding="utf-8")
    names = [page.stem for page in (DOCS / "tutorials").glob("*.rst") if page.stem != "index"]
    for name in names:
        assert f":doc:`{name}`" in listed


def test_quotations_on_the_page_of_questions_are_texts_of_diagnose():
    tree = ast.parse(Path(_diagnose.__file__).read_text(encoding="utf-8"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    page = (DOCS / "problem.rst").read_text(encoding="utf-8")
    table = page[page.index("Text of the diagnosis") :]
    quotes = re.findall(r"\*([^*]+)\*", " ".join(re.findall(r"^   \* - (.+)$", table, flags=re.MULTILINE)))
    assert len(quotes) >= 10
    missing = [
        part for quote in quotes for part in quote.split("...") if not any(part.strip() in text for text in texts)
    ]
    assert missing == []


# Commands


def words_of(command):
    return shlex.split(re.sub(r"\$\w+", "1-NN", command.text), comments=True)  # variables stand for names of methods


def collect(pages, find=commands):
    """Every command of some pages once, with the first page that contains it."""
    all_commands = reversed([(page, command) for page in pages for command in find(page)])
    unique = {shlex.join(words_of(command)): (page, command) for page, command in all_commands}
    return [
        pytest.param(command, id=f"{page.stem}: {command.text[:60]}") for page, command in reversed(unique.values())
    ]


OURS = [one for one in collect(ALL) if one.values[0].text.startswith("unseen")]


def parsed(words):
    """The parameters that a command would be run with."""
    # These options act while they are parsed, and would change the start-up file of the shell of the current user.
    assert not {"--install-completion", "--show-completion"} & set(words), "mention this option in the text instead"
    group = typer.main.get_command(app)
    with group.make_context("unseen", words) as context:
        while hasattr(group, "resolve_command"):
            _, group, words = group.resolve_command(context, words)
        return group.make_context("unseen", words, parent=context).params


@pytest.mark.parametrize("command", [*OURS, *collect(ALL, mentioned)])
def test_a_command_has_options_that_exist(command):
    assert parsed(words_of(command)[1:])


@pytest.mark.parametrize("command", [one for one in collect(ALL) if one not in OURS])
def test_a_command_of_another_program_names_what_exists(command):
    words = words_of(command)
    if words[0] == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        named = re.search(r"\[(.+)\]", " ".join(words))
        assert set(named[1].split(",") if named else []) <= set(project["optional-dependencies"])
    elif words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert {word for word in words[1:] if "=" not in word} <= set(targets)
    elif words[:2] == ["python", "-m"] and (ROOT / words[2].partition(".")[0]).is_dir():
        place = ROOT.joinpath(*words[2].split("."))
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with small versions of all files that pages use: tables, parts, photographs, a network, models."""
    folder = tmp_path_factory.mktemp("place")
    rng = np.random.default_rng(0)
    ill, hospital = np.tile(["ill", "well"], 24), np.repeat(["bonn", "leeds", "oslo"], 16)
    numbers = rng.normal(size=(48, 3)) + (ill == "ill")[:, None] + (hospital == "oslo")[:, None]
    table = pl.DataFrame({f"x{i}": numbers[:, i] for i in range(3)} | {"diagnosis": ill, "hospital": hospital})
    for name in ("hospitals.csv", "patients.csv"):
        table.write_csv(folder / name)
    table.drop("diagnosis", "hospital").write_csv(folder / "new_hospital.csv")
    labeled = table.filter(hospital == "oslo").with_columns(hospital=pl.lit("paris"))
    labeled.write_csv(folder / "labeled.csv")
    for name in ("measurements", "parts", "hospitals", "gvhd", "eleven_patients", "new"):
        (folder / name).mkdir()
    for number in range(2):
        for name in ("measurements", "parts"):
            table[number::2].write_parquet(folder / name / f"part-{number}.parquet")
    for name in np.unique(hospital):
        rows = hospital == name
        table.filter(rows).drop("hospital").write_csv(folder / "hospitals" / f"{name}.csv")
        for other in ("gvhd", "eleven_patients"):
            np.savez(folder / other / f"{name}.npz", X=numbers[rows], y=ill[rows])
    np.savez(folder / "patient12.npz", X=numbers[:9], y=ill[:9])
    toy = make_synthetic(validation_domain=True, random_state=0)
    pl.DataFrame(toy.data, schema=["x0", "x1"]).with_columns(
        label=pl.Series(toy.target), domain=pl.Series(toy.domain.tolist())
    ).write_csv(folder / "toy.csv")
    unseen.fit(table, methods="logistic", label="diagnosis", domain="hospital").save(folder / "model.unseen")
    (folder / "models.py").write_text(
        "from sklearn.ensemble import RandomForestClassifier\nfrom sklearn.svm import SVC\n"
        "forest = ('forest', RandomForestClassifier(5, random_state=0))\n"
        "scaled = ('scaled SVM', SVC(), {'C': [1, 10]})\n"
    )
    return folder


def draw_photos(folder):
    Image = pytest.importorskip("PIL.Image", reason="pictures need the extra images")
    pytest.importorskip("onnxruntime", reason="networks need the extra images")
    if (folder / "photos").exists():
        return
    rng = np.random.default_rng(0)
    for collection in ("photos", "office_caltech_photos"):
        for domain in ("bonn", "leeds", "oslo"):
            for label, color in {"cat": (200, 60, 60), "dog": (60, 200, 60)}.items():
                (folder / collection / domain / label).mkdir(parents=True, exist_ok=True)
                for i in range(4):
                    shade = np.clip(np.array(color) + rng.normal(0, 25, 3), 0, 255).astype(int)
                    Image.new("RGB", (20, 16), tuple(shade.tolist())).save(
                        folder / collection / domain / label / f"{i}.png"
                    )
    Image.new("RGB", (20, 16)).save(folder / "new" / "0001.jpg")
    for name in ("resnet50.onnx", "efficientnet-lite0.onnx"):
        tiny_network(folder / name)


FASTER = {  # options that make a command faster; its results are not checked here
    "diagnose": {"--permutations": "19"},
    "compare": {"--methods": "1-NN,KFDA", "--quick": None},
    "fit": {"--methods": "logistic", "--overwrite": None},
}


def skip_reason(command):
    """Why a command is not run in the folder of small tables; its options are still checked."""
    for reason, pattern in {
        "it serves a page until it is interrupted": r"^unseen explore",
        "it needs a cluster that runs already": r"--scheduler",
        "it needs four domains; test_cli_columns.py runs it": r"unseen sites",
        "it needs collections that one has to download": r"reproduce (office-caltech|vlcs)",
        "it takes seconds for each grid; test_cli_reproduce.py runs it": r"reproduce synthetic",
    }.items():
        if re.search(pattern, command.text):
            return reason
    return ""


RUNNABLE = [one for one in collect(GUIDE) if one.values[0].text.startswith("unseen") and not skip_reason(one.values[0])]


@pytest.mark.docs
@pytest.mark.parametrize("command", RUNNABLE)
def test_a_command_of_the_guide_runs(command, place, monkeypatch):
    monkeypatch.chdir(place)
    words = words_of(command)
    if ".onnx" in command.text:
        draw_photos(place)
    if words[1] == "predict" and not Path(words[2]).exists():
        unseen.fit("eleven_patients", methods="logistic").save(words[2])
    less = {name: value for kind in FASTER if kind in words[1:3] for name, value in FASTER[kind].items()}
    more = [word for name, value in less.items() if name not in words for word in (name, value) if word]
    code, output = run([*words, *more])
    assert code == 0, output


PYTHON = [
    pytest.param(block, id=f"{page.stem}: {block.line}")
    for page in (*(page for page in GUIDE if page.suffix == ".rst"), *TUTORIALS)  # test_docs.py has that of the README
    for block in blocks(page)
    if block.language == "python"
]


@pytest.mark.parametrize("block", PYTHON)
def test_a_block_of_python_runs_or_at_least_could(block, place, monkeypatch):
    monkeypatch.chdir(place)
    code = compile(block.content, "a page", "exec")
    if not re.search(r"\b(torch|shap)\b", block.content):  # which are too large to be requirements of the tests
        draw_photos(place)
        exec(code, {})
