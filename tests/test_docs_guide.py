"""Method pages have the same sections, equations name the functions that compute them, decisions their evidence."""

import importlib
import re
from pathlib import Path

import pytest

from test_docs import DOCS, ROOT, resolve
from unseen.model_selection import METHODS, method_names

if not DOCS.exists():
    pytest.skip("this distribution comes without the documentation", allow_module_level=True)
GUIDE = DOCS / "user_guide"
PARTS = ["Objective", "Assumptions", "Limitations", "Cost"]
PAGES = {
    "CIDG": "cidg",
    "KFDA": "kfda",
    "SCA": "sca",
    "DICA": "dica",
    "MDA": "mda",
    "Undo-Bias": "undo_bias",
    "KPCA": "kpca",
    "1-NN": "one_nn",
    "auto": "unseen_classifier",
    "DomainCenterer": "domain_centerer",
    "DomainHarmonizer": "harmonizer",
    "marginal transfer": "marginal_transfer",
    "plain": "plain",
}
MATHEMATICS = ["mathematics.rst", "mathematics_ensemble.rst"]
REFERENCE = re.compile(r":(?:func|class|meth|attr|mod):`~?(unseen\.[\w.]+)`")


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def first_table(page: str) -> dict[str, str]:
    """Rows of the table that a page begins with: its two columns."""
    title, body = re.match(
        r"(?:\.\. _[\w-]+:\n\n)?.+\n=+\n\n(\.\. list-table::\n(?:   :.+\n)+\n)((?:   .+\n)+)", page
    ).groups()
    assert ":stub-columns: 1" in title
    rows = re.split(r"^   \* - ", body, flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, text in (re.split(r"\n     - ", row) for row in rows)}


@pytest.mark.parametrize("page", PAGES.values())
def test_a_method_page_begins_with_the_same_four_parts(page):
    table = first_table(read(GUIDE / f"{page}.rst"))
    assert list(table) == PARTS
    assert all(len(text) > 20 for text in table.values())
    assert ":math:`" in table["Cost"]


@pytest.mark.parametrize("name", [name for name in PAGES if name in METHODS and METHODS[name].grid])
def test_the_costs_of_a_search_are_those_of_its_grid(name):
    costs = first_table(read(GUIDE / f"{PAGES[name]}.rst"))["Cost"]
    assert re.search(rf"\b{len(METHODS[name].settings(3))} settings", costs)
    lean = re.search(r"\(lean: (\d+)\)", costs)
    assert lean is None or int(lean[1]) == len(METHODS[name].settings(3, grid="lean"))


def test_the_costs_of_an_ensemble_are_those_of_its_candidates():
    costs = first_table(read(GUIDE / "unseen_classifier.rst"))["Cost"]
    n_inductive = len(list(METHODS["auto"].candidates(3)))
    n_all = len(list(METHODS["auto"].candidates(3, centerings=("source", "target"))))
    assert costs.startswith(f"{n_inductive} candidates, {n_all} with ``transductive=True``")
    assert f"8 \\cdot {n_all}\\, n C" in costs


def test_every_method_is_in_the_table_which_method():
    page = read(GUIDE / "methods.rst")
    table = page[page.index("Which method?\n---") : page.index("Selecting hyperparameters\n---")]
    first, *others = re.split(r"^   \* - ", table, flags=re.MULTILINE)[2:]  # after the title and the header
    assert first.startswith("**Start with** :doc:`UnseenClassifier <unseen_classifier>`, called *auto*")
    (plain,) = [row for row in others if row.startswith(":doc:`plain classifiers <plain>`")]
    for name in method_names(in_comparison=True):
        rows = [
            row for row in [first, *others] if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", row.split("\n     - ")[0])
        ]
        assert len(rows) == 1, name
        assert (rows == [plain]) <= (METHODS[name].kind == "plain")
    for page_name in PAGES.values():
        assert f"<{page_name}>`" in table


def test_plain_methods_are_all_named_on_their_page():
    page = read(GUIDE / "plain.rst")
    assert [name for name in method_names(kind="plain", in_comparison=True) if f"``{name}``" not in page] == []


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
    modules = ["_calibration", "_conformal", "_ensemble_weights"]
    # Of make_trial_batches and AcceptanceTest.
    steps = {"_ensemble_weights.sample_skewed_batch", "_ensemble_weights.score_trials"}
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
