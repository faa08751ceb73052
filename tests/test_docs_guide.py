"""Methods are all described, equations name the functions that compute them, decisions their evidence."""

import importlib
import re
from pathlib import Path

import pytest

from test_docs import DOCS, ROOT, resolve
from unseen.model_selection import METHODS, method_names

if not DOCS.exists():
    pytest.skip("this distribution comes without the documentation", allow_module_level=True)
GUIDE = DOCS / "user_guide"
SECTIONS = {  # methods with a grid, and the section of the page of methods that describes their search
    "CIDG": "cidg",
    "KFDA": "kfda",
    "SCA": "sca",
    "DICA": "dica",
    "MDA": "mda",
    "Undo-Bias": "undo_bias",
    "marginal transfer": "marginal_transfer",
    "KPCA": "plain",
}
MATHEMATICS = ["mathematics.rst", "mathematics_ensemble.rst"]
REFERENCE = re.compile(r":(?:func|class|meth|attr|mod):`~?(unseen\.[\w.]+)`")


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def section_of_methods(label: str) -> str:
    """The section of the page of methods with a label, in one line."""
    page = read(GUIDE / "methods.rst")
    section = page[page.index(f".. _{label}:") :]
    return " ".join(re.split(r"^\.\. _", section, flags=re.MULTILINE)[1].split())


@pytest.mark.parametrize("name", SECTIONS)
def test_the_settings_of_a_search_are_those_of_its_grid(name):
    section = section_of_methods(SECTIONS[name])
    assert re.search(rf"\b{len(METHODS[name].settings(3))} settings", section)


def test_the_number_of_candidates_of_the_ensemble_is_right():
    n_inductive = len(list(METHODS["auto"].candidates(3)))
    n_all = len(list(METHODS["auto"].candidates(3, centerings=("source", "target"))))
    page = read(GUIDE / "unseen_classifier.rst")
    assert f"{n_inductive} candidates, and {n_all} with ``transductive=True``" in page


def test_every_method_is_in_the_table_which_method():
    page = read(GUIDE / "methods.rst")
    table = page[page.index("Which method?\n---") : page.index(".. _cidg:")]
    first_cells = " ".join(row.split("\n     - ")[0] for row in re.split(r"^   \* - ", table, flags=re.MULTILINE))
    missing = [
        name
        for name in method_names(in_comparison=True)
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", first_cells)
    ]
    assert missing == []


def test_plain_methods_are_all_described():
    section = section_of_methods("plain")
    assert [name for name in method_names(kind="plain", in_comparison=True) if f"``{name}``" not in section] == []


def equations(page: str) -> list[tuple[str, str, str]]:
    """Labels of displayed equations, the paragraph before each, and the text up to the next one or the next heading."""
    parts = re.split(r"^(\.\. math::(?:.*\n|\n(?=   ))+?)(?=\n\S)", page, flags=re.MULTILINE)
    result = []
    for before, equation, after in zip(parts[0:-2:2], parts[1::2], parts[2::2], strict=True):
        label = re.search(r"^   :label: ([\w-]+)$", equation, flags=re.MULTILINE)
        heading = re.search(r"^.+\n[-~]{3,}$", after, flags=re.MULTILINE)
        text = after[: heading.start()] if heading else after
        result.append((label[1] if label else "", before.strip().split("\n\n")[-1], text))
    return result


@pytest.mark.parametrize("name", MATHEMATICS)
def test_every_equation_has_a_label_and_the_function_that_computes_it(name):
    page = read(DOCS / name)
    found = equations(page)
    assert len(found) == page.count(".. math::")
    assert len({label for label, _, _ in found}) == len(found)
    for label, before, after in found:
        names = REFERENCE.findall(before) + REFERENCE.findall(after)
        assert label
        assert names, label
        for one in names:
            resolve(one)


def test_every_function_of_the_ensemble_is_on_its_page():
    page = read(DOCS / "mathematics_ensemble.rst")
    named = set(re.findall(r"unseen\.model_selection\.(_\w+\.\w+)", page))
    modules = ["_ensemble_math"]
    # Of make_trial_batches and AcceptanceTest.
    steps = {"_ensemble_math.sample_skewed_batch"}
    for name in modules:
        module = importlib.import_module(f"unseen.model_selection.{name}")
        own = {key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        assert {f"{name}.{key}" for key in own if not key.startswith("_")} - steps <= named


def test_the_evidence_of_every_decision_exists():
    text = read(ROOT / "development" / "decisions.rst")
    sections = re.split(r"^.+\n-+$", text, flags=re.MULTILINE)[1:]
    for section in sections:
        tests = re.findall(r"``(test_\w+\.py)::(test_\w+)``", section[section.index("Evidence:") :])
        assert tests
        for file, name in tests:
            assert f"def {name}(" in read(ROOT / "tests" / file), name


def test_files_that_decisions_name_exist():
    for file in re.findall(r"``((?:\w+/)+\w+\.\w+)``", read(ROOT / "development" / "decisions.rst")):
        assert (ROOT / file).exists() or (ROOT / "src" / "unseen" / file).exists(), file
