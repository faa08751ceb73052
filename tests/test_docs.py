"""The documentation names what exists, all of it, and its code runs."""

import doctest
import importlib
import re
import runpy
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr

import unseen
import unseen.evaluation
import unseen.exceptions
from test_package import PACKAGES
from unseen.model_selection import method_names
from unseen.utils.validation import DOCUMENTATION_URL

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="this distribution comes without the documentation")


def public_names(package: str) -> list[str]:
    """Public names of a package; what it imports besides is for other packages."""
    return list(importlib.import_module(f"unseen.{package}").__all__)


WITH_PUBLIC_NAMES = ["datasets", "evaluation", "images", "metrics", "models", "report", "model_selection", "shift"]
WITH_PUBLIC_NAMES += ["tables", "exchange"]
# A dictionary has no docstring.
PUBLIC = [f"unseen.{name}" for name in unseen.__all__] + [
    f"unseen.{package}.{name}" for package in WITH_PUBLIC_NAMES for name in public_names(package) if not name.isupper()
]


def api_entries() -> list[str]:
    """Fully qualified names in the tables of the API page."""
    return re.findall(r"^   (unseen\.[\w.]+)$", (DOCS / "api.rst").read_text(encoding="utf-8"), flags=re.MULTILINE)


def resolve(name: str) -> object:
    """Import the longest module prefix of a dotted name and look the rest up in it."""
    parts = name.split(".")
    found: object = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], start=2):
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(".".join(parts[:i]))
    return found


def test_api_page_lists_exactly_the_public_names():
    top_level = [name for name in api_entries() if name.count(".") == 1]
    assert sorted(top_level) == sorted(f"unseen.{name}" for name in unseen.__all__)


@pytest.mark.parametrize("package", WITH_PUBLIC_NAMES)
def test_api_page_lists_exactly_the_public_names_of_a_package(package):
    listed = [name for name in api_entries() if name.startswith(f"unseen.{package}.")]
    public = set(public_names(package)) - set(unseen.__all__)
    assert sorted(listed) == sorted(f"unseen.{package}.{name}" for name in public)


def test_the_page_on_reproducing_names_every_method_and_command():
    page = (DOCS / "user_guide" / "reproduce.rst").read_text(encoding="utf-8")
    assert [name for name in method_names(in_comparison=True) if name not in page] == []
    for command in ("synthetic", "office-caltech", "vlcs"):
        assert f"unseen reproduce {command}" in page


def test_api_page_lists_exactly_the_warnings():
    listed = [name for name in api_entries() if name.startswith("unseen.exceptions.")]
    classes = {name: value for name, value in vars(unseen.exceptions).items() if isinstance(value, type)}
    defined = [name for name, value in classes.items() if issubclass(value, Exception)]
    assert sorted(listed) == sorted(f"unseen.exceptions.{name}" for name in defined)


# What functions give back: their examples show it.
RESULTS = {"HeldOutPredictions", "ModelFileError", "Shift"}
RESULTS |= {"ColumnDiagnosis", "Importance", "SiteLearningCurve"}
RESULTS |= {"Extraction", "LeaderboardRow"}
RESULTS |= {"CalibrationCurve", "DecisionCurve"}
RESULTS |= {"Estimate", "HeldOutPredictions", "RandomEffects", "ThresholdChoice"}


@pytest.mark.parametrize("name", [name for name in PUBLIC if name.rpartition(".")[-1] not in RESULTS])
def test_public_name_has_a_docstring_with_an_example(name):
    doc = resolve(name).__doc__ or ""
    assert re.search(r"^\s*Examples\n\s*-{8}\n\s*>>> ", doc, flags=re.MULTILINE), f"{name} has no Examples section"


def test_every_scatter_is_on_the_mathematics_page():
    page = (DOCS / "mathematics.rst").read_text(encoding="utf-8")
    scatters = importlib.import_module("unseen.linalg._scatters")
    own = [name for name, value in vars(scatters).items() if getattr(value, "__module__", "") == scatters.__name__]
    missing = [name for name in own if not name.startswith("_") and f"unseen.linalg.{name}`" not in page]
    assert not missing


ESTIMATORS = [f"unseen.{name}" for name in unseen.__all__]
ESTIMATORS = [
    name for name in ESTIMATORS if isinstance(resolve(name), type) and issubclass(resolve(name), BaseEstimator)
]


@pytest.mark.parametrize("name", sorted({name.rpartition(".")[-1] for name in ESTIMATORS}))
def test_the_html_view_of_an_estimator_links_to_a_page_that_is_built(name):
    cls = getattr(unseen, name)
    estimator = cls(unseen.CIDG()) if name == "ProjectionSearchCV" else cls()
    link = estimator._get_doc_link()
    assert link == f"{DOCUMENTATION_URL}/generated/unseen.{name}.html"
    assert f"unseen.{name}" in api_entries()  # from which autosummary makes generated/unseen.<name>.html
    assert f'href="{link}' in estimator_html_repr(estimator)


PAGES = [DOCS / "index.rst", DOCS / "limits.rst", *sorted((DOCS / "user_guide").glob("*.rst"))]


@pytest.mark.docs
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_code_on_a_page_runs(page):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    with config_context():  # importing skada turns metadata routing on
        if page.stem == "skada":
            pytest.importorskip("skada", reason="no dependency: its page is checked where it happens to be installed")
        failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
    assert failed == 0


def test_the_readme_is_short_and_has_its_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert re.findall(r"^\$ (make \w+)", text, flags=re.MULTILINE) == ["make run", "make test"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_relative_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (ROOT / link.partition("#")[0]).exists()]
    assert missing == []


def test_the_readme_of_a_package_index_has_absolute_links_to_pages_that_exist(monkeypatch):
    interface = types.SimpleNamespace(MetadataHookInterface=object)  # of hatchling, which only builds need
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    use_absolute_links = runpy.run_path(str(ROOT / "hatch_build.py"))["use_absolute_links"]
    text = use_absolute_links((ROOT / "README.md").read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    assert all(link.startswith(f"{DOCUMENTATION_URL}/") for link in links)
    paths = [link.removeprefix(f"{DOCUMENTATION_URL}/").replace(".html", ".rst") for link in links]
    assert [path for path in paths if not (DOCS / path).exists()] == []


def test_pictures_are_small_enough_for_the_repository():
    pictures = list((DOCS / "_static").glob("*.png"))
    assert pictures
    assert [picture.name for picture in pictures if picture.stat().st_size > 150_000] == []


def test_the_contributing_page_lists_every_target_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.+)$", makefile.replace("\\\n", ""), flags=re.MULTILINE)[1].split()
    listed = re.findall(
        r"^\| `make ([\w-]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert sorted(listed) == sorted(targets)


def test_continuous_integration_runs_make_and_nothing_else():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    run = re.findall(r"^ *(?:- run|entry): (.+)$", workflow + hooks, flags=re.MULTILINE)
    assert {"make test", "make lint", "make types", "make docs"} <= set(run)
    assert {command.removeprefix("make ") for command in run} <= set(targets)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "development/architecture.rst"])
def test_files_that_guides_name_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(rf"\b((?:{'|'.join(PACKAGES)})/\w+\.py)", text)
    assert named
    missing = [name for name in named if not (ROOT / "src" / "unseen" / name).exists() and "_name" not in name]
    assert sorted(set(missing)) == []


def test_the_architecture_page_lists_every_package_above_those_that_it_imports():
    page = (ROOT / "development" / "architecture.rst").read_text(encoding="utf-8")
    table = page[page.index("* - Package\n") : page.index("Four decisions")]
    assert re.findall(r"^   \* - ``(\w+)``$", table, flags=re.MULTILINE) == PACKAGES[::-1]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_clean_removes_what_make_run_wrote_and_no_results_of_ones_own(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    written = ["report.html", "synthetic.png", "hospitals.unseen"]
    for name in [*written, "hospitals.unseen-results.sqlite"]:
        (tmp_path / name).touch()
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True, capture_output=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Makefile", "hospitals.unseen-results.sqlite"]
