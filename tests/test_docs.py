"""The documentation names what exists, all of it, and its code runs."""

import doctest
import importlib
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr

import unseen
import unseen.datasets
import unseen.exceptions
import unseen.selection
import unseen.study
from unseen._doc_links import SITE

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="this distribution comes without the documentation")
PUBLIC = [
    *(f"unseen.{name}" for name in unseen.__all__),
    *(f"unseen.datasets.{name}" for name in unseen.datasets.__all__),
    *(f"unseen.report.{name}" for name in unseen.report.__all__),
    *(f"unseen.selection.{name}" for name in unseen.selection.__all__),
    *(f"unseen.tables.{name}" for name in unseen.tables.__all__),
    *(f"unseen.study.{name}" for name in unseen.study.__all__ if name != "METHODS"),  # a tuple has no docstring
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


def test_api_page_lists_exactly_the_data_sets():
    listed = [name for name in api_entries() if name.startswith("unseen.datasets.")]
    assert sorted(listed) == sorted(f"unseen.datasets.{name}" for name in unseen.datasets.__all__)


def test_api_page_lists_exactly_the_splitters():
    listed = [name for name in api_entries() if name.startswith("unseen.selection.")]
    own = set(unseen.selection.__all__) - set(unseen.__all__)
    assert sorted(listed) == sorted(f"unseen.selection.{name}" for name in own)


def test_api_page_lists_exactly_the_names_of_the_study():
    listed = [name for name in api_entries() if name.startswith("unseen.study.")]
    assert sorted(listed) == sorted(f"unseen.study.{name}" for name in unseen.study.__all__)


def test_the_page_on_reproducing_names_every_method_and_command():
    page = (DOCS / "user_guide" / "reproduce.rst").read_text(encoding="utf-8")
    assert [name for name in unseen.study.METHODS if name not in page] == []
    for command in ("synthetic", "office-caltech", "vlcs", "folder"):
        assert f"unseen reproduce {command}" in page


def test_api_page_lists_exactly_the_warnings():
    listed = [name for name in api_entries() if name.startswith("unseen.exceptions.")]
    defined = [name for name, value in vars(unseen.exceptions).items() if isinstance(value, type)]
    assert sorted(listed) == sorted(f"unseen.exceptions.{name}" for name in defined)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_a_docstring_with_an_example(name):
    doc = resolve(name).__doc__ or ""
    assert re.search(r"^\s*Examples\n\s*-{8}\n\s*>>> ", doc, flags=re.MULTILINE), f"{name} has no Examples section"


def test_names_on_the_mathematics_page_exist():
    page = (DOCS / "mathematics.rst").read_text(encoding="utf-8")
    names = sorted(set(re.findall(r":(?:func|class|meth|mod):`~?(unseen\.[\w.]+)`", page)))
    assert {"unseen.scatters", "unseen.pencil", "unseen.cells", "unseen.kernels"} <= {
        ".".join(name.split(".")[:2]) for name in names
    }
    for name in names:
        resolve(name)


def test_every_scatter_is_on_the_mathematics_page():
    page = (DOCS / "mathematics.rst").read_text(encoding="utf-8")
    scatters = importlib.import_module("unseen.scatters")
    own = [name for name, value in vars(scatters).items() if getattr(value, "__module__", "") == scatters.__name__]
    missing = [name for name in own if not name.startswith("_") and f"unseen.scatters.{name}`" not in page]
    assert not missing


ESTIMATORS = [name for name in PUBLIC if isinstance(resolve(name), type) and issubclass(resolve(name), BaseEstimator)]


@pytest.mark.parametrize("name", sorted({name.rpartition(".")[-1] for name in ESTIMATORS}))
def test_the_html_view_of_an_estimator_links_to_a_page_that_is_built(name):
    cls = getattr(unseen, name)
    estimator = cls(unseen.CIDG()) if name == "ProjectionSearchCV" else cls()
    link = estimator._get_doc_link()
    assert link == f"{SITE}/generated/unseen.{name}.html"
    assert f"unseen.{name}" in api_entries()  # from which autosummary makes generated/unseen.<name>.html
    html = estimator_html_repr(estimator)
    assert f'href="{link}' in html
    # Where scikit-learn also links parameters, the link looks for a line of the docstring; nothing else is linked here.
    lines = {line.strip() for line in (cls.__doc__ or "").splitlines()}
    for parameter, kind in re.findall(rf'{re.escape(link)}#:~:text=([^,"]+),-([^"]+)"', html):
        assert any(line.replace("`", "").endswith(f"{unquote(parameter)} : {unquote(kind)}") for line in lines)


def test_text_on_pages_keeps_the_quotes_that_links_look_for():
    assert re.search(r"^smartquotes = False\b", (DOCS / "conf.py").read_text(encoding="utf-8"), flags=re.MULTILINE)


PAGES = [DOCS / "index.rst", *sorted((DOCS / "user_guide").glob("*.rst"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_code_on_a_page_runs(page):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
    assert failed == 0


def test_code_in_the_readme_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 11
    exec(compile(code, "README.md", "exec"), {})
    assert re.match(r"8\d% on the unseen domain", capsys.readouterr().out)


def test_the_picture_is_small_enough_for_the_repository():
    assert (DOCS / "_static" / "before_after.png").stat().st_size < 150_000
