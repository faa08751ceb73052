"""The HTML report: sound, safe and complete, whatever the summary holds."""

from __future__ import annotations

import base64
import copy
import functools
import hashlib
import itertools
import math
import re
import sys
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("jinja2", reason="the report needs jinja2")

from report_sample import NASTY, Page, comparison, diagnosis
from unseen.report import render_comparison, render_diagnosis
from unseen.report._format import MISSING_TEXT, format_number, format_p_value, format_signed, format_value
from unseen.utils.jobs import format_duration

SECTIONS = [
    *("verdict", "methods", "confusion", "ensemble", "diagnosis"),
    *("settings", "provenance"),
]


def spaced(text):
    return " ".join(text.split())


def large(**changes):
    return comparison(n_domains=12, n_classes=20, nasty=True, **changes)


HTML = {
    "plain": lambda: render_comparison(comparison()),
    "nasty": lambda: render_comparison(large()),
    "diagnosis": lambda: render_diagnosis(diagnosis()),
    "nasty diagnosis": lambda: render_diagnosis(diagnosis(nasty=True)),
    "piece": lambda: render_diagnosis(diagnosis(nasty=True), fragment=True),
}
PAGES = [name for name in HTML if name != "piece"]


@functools.cache
def made(name):
    return HTML[name]()


@functools.cache
def parsed(name):
    return Page(made(name))


@pytest.fixture(params=HTML)
def name(request):
    return request.param


@pytest.fixture(params=PAGES)
def page(request):
    return parsed(request.param)


def test_tags_nest_and_ids_are_unique(name):
    page = parsed(name)
    ids = [e["attrs"]["id"] for e in page.elements if "id" in e["attrs"]]
    assert len(ids) == len(set(ids))
    references = [e["attrs"][key] for e in page.elements for key in ("aria-labelledby", "for") if key in e["attrs"]]
    links = [e["attrs"]["href"].removeprefix("#") for e in page.find("a")]
    assert set(references + links) <= set(ids)


def test_no_name_becomes_markup(name):
    page = parsed(name)
    assert not page.find("img")
    assert len(page.find("script")) <= 1
    for element in page.elements:
        assert not [name for name in element["attrs"] if name.startswith("on") or name == "style"]
    assert "49" not in "".join(e["text"] for e in page.find("title"))


def test_every_name_is_shown_as_it_is():
    page = parsed("nasty")
    shown = {spaced(e["text"]) for e in page.find("bdi")}
    for i, nasty in enumerate(NASTY):
        assert {spaced(f"{nasty} domain {i}"), spaced(f"{nasty} class {i}")} <= shown


@settings(max_examples=20)
@given(st.text(max_size=30), st.text(st.characters(codec="utf-8"), min_size=1, max_size=30))
def test_any_text_survives(title, name):
    summary = {key: comparison(n_domains=1)[key] for key in ("methods",)}
    summary["title"] = title
    summary["domains"] = [name]
    summary["methods"] = [{**m, "accuracies": {name: {"mean": 50.0, "sd": None}}} for m in summary["methods"]]
    html = render_comparison(summary)
    html.encode("utf-8")
    page = Page(html)
    expected = title.encode("utf-8", "replace").decode() or "Comparison"
    assert spaced(page.find("h1")[0]["text"]) == spaced(expected)
    headers = [spaced(e["text"]) for e in page.find("th", scope="col")]
    assert spaced(name) in headers


def test_sections_follow_the_story():
    page = parsed("plain")
    assert [e["attrs"]["id"] for e in page.find("section")] == SECTIONS
    assert [e["text"] for e in page.find("a") if "nav" in e["inside"]] == [e["text"] for e in page.find("h2")]


@pytest.mark.parametrize("nothing", ["missing", None, []])
@pytest.mark.parametrize("key", SECTIONS)
def test_a_section_without_content_is_left_out(key, nothing):
    summary = comparison()
    if nothing == "missing":
        del summary[key]
    else:
        summary[key] = nothing
    page = Page(render_comparison(summary))
    assert [e["attrs"]["id"] for e in page.find("section")] == [name for name in SECTIONS if name != key]


def without(value, kind):
    """The same with None for every value of a kind, in depth."""
    if isinstance(value, dict):
        return {key: without(each, kind) for key, each in value.items()}
    if isinstance(value, list):
        return [without(each, kind) for each in value]
    return None if isinstance(value, kind) and not isinstance(value, bool) else value


def test_any_number_may_be_missing():
    page = Page(render_comparison(without(comparison(), float)))
    assert [e["attrs"]["id"] for e in page.find("section")] == SECTIONS
    text = " ".join(e["text"] for e in page.find("main"))
    assert "None" not in text.replace("=None", "")  # None may be the value of a setting
    assert "nan" not in text.split()
    assert "not tested" in text


def test_numbers_that_are_not_finite_count_as_missing():
    summary = comparison()
    summary["verdict"].update(difference=float("nan"), low=float("-inf"), high=float("inf"))
    summary["methods"][0].update(mean=float("nan"), sd=float("nan"), seconds=float("inf"))
    main = Page(render_comparison(summary)).find("main")[0]["text"]
    assert not {"nan", "inf", "-inf", "±nan"} & set(main.split())


def test_rendering_changes_nothing_and_repeats_itself():
    summary = comparison(nasty=True)
    before = copy.deepcopy(summary)
    assert render_comparison(summary) == render_comparison(summary)
    assert repr(summary) == repr(before)  # the sample holds a NaN, which equals nothing


def test_the_largest_page_is_small_enough_to_send():
    assert len(made("nasty").encode()) < 1_000_000


def test_nothing_is_loaded_from_anywhere(name):
    page = parsed(name)
    for element in page.elements:
        assert "src" not in element["attrs"]
        assert re.match(r"#|data:,$", element["attrs"].get("href", "#"))
    style = page.find("style")[0]["text"]
    assert not re.search(r"url\(|@import", style)
    outside = made(name).replace("http://www.w3.org/2000/svg", "")  # a name, which no browser fetches
    assert not re.search(r"https?://", outside)


def test_the_policy_allows_this_style_and_this_script_alone(page):
    policy = next(e["attrs"]["content"] for e in page.find("meta") if e["attrs"].get("http-equiv"))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    scripts = [e for e in page.find("script") if "type" not in e["attrs"]]
    for rule, (element,) in {"style-src": page.find("style"), "script-src": scripts}.items():
        digest = base64.b64encode(hashlib.sha256(element["text"].encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_a_reader_without_sight_finds_the_way(page):
    assert page.find("html", lang="en")
    assert [e["attrs"]["href"] for e in page.find("a", **{"class": "skip"})] == ["#main"]
    assert all(len(page.find(landmark)) == 1 for landmark in ("header", "main", "footer", "h1"))
    levels = [int(e["tag"][1]) for e in page.elements if re.fullmatch("h[1-6]", e["tag"])]
    assert levels[0] == 1
    assert all(below <= above + 1 for above, below in itertools.pairwise(levels))
    assert len(page.find("caption")) == len(page.find("table")) > 0
    assert all(e["attrs"].get("scope") in ("row", "col") for e in page.find("th"))
    for element in page.find("input"):
        assert element["inside"][-1] == "label"
    assert len(page.find("legend")) == len(page.find("fieldset"))


def columns(page):
    """Entries of the accuracy table: for each column, the kind of the row, its number, and whether it is marked."""
    table = re.search(r'<table class="heat accuracy".*?</table>', page, re.S).group()
    rows = []
    for kind, row in re.findall(r'<tr class="(\w+)">(.*?)</tr>', table, re.S):
        cells = re.findall(r'<td class="num[^"]*" data-sort="([^"]*)"[^>]*>(.*?)</td>', row, re.S)
        rows.append([(kind, float(value) if value else None, "(best)" in inside) for value, inside in cells])
    return list(zip(*rows, strict=True))[:-1]  # the last column is the time


def test_the_best_competitor_of_each_column_is_marked():
    found = columns(made("plain"))
    assert len(found) == 5
    for column in found:
        competing = [value for kind, value, _ in column if kind != "reference" and value is not None]
        assert [value for _, value, marked in column if marked] == [max(competing)]
    assert any(kind == "reference" and value > 0.8 for column in found for kind, value, _ in column)


def test_methods_that_look_the_same_are_both_best():
    summary = comparison(n_domains=1)
    for method, mean in zip(summary["methods"], [0.7124, 0.7121, 0.7, 0.7, 0.7, 0.7, 0.7, 0.99], strict=True):
        method["accuracies"] = {"domain 1": {"mean": mean, "sd": None}}
    assert sorted(value for _, value, marked in columns(render_comparison(summary))[1] if marked) == [0.7121, 0.7124]


def test_a_failure_is_told_with_its_reason():
    page = parsed("plain")
    failed = [e for e in page.find("td") if "failed" in e["attrs"].get("class", "")]
    assert [e["text"] for e in failed] == ["failed"]
    assert "raise the ridge" in failed[0]["attrs"]["title"]
    assert any("DICA" in e["text"] and "classes coincide" in e["text"] for e in page.find("li"))


def test_transductive_methods_are_marked_and_explained_only_if_there_are_any():
    summary = comparison()
    html = render_comparison(summary)
    assert html.count("<abbr") == 1
    assert "Transductive: the method uses" in html
    for method in summary["methods"]:
        method["transductive"] = False
    del summary["verdict"]["intervals"][-1]  # that of transductive steps
    assert "ransductive" not in Page(render_comparison(summary)).find("main")[0]["text"]


def test_confusion_counts_and_found_shares_are_those_given():
    table = {"domain": "d", "method": "m", "classes": ["a", "b", "c"], "counts": [[3, 1, 0], [0, 5, 0], [0, 0, 0]]}
    page = Page(render_comparison({"confusion": [table]}))
    cells = [e["text"] for e in page.find("td")][1:]
    assert cells == ["3", "1", "0", "75%", "0", "5", "0", "100%", "0", "0", "0", MISSING_TEXT]


def test_provenance_is_printed_as_it_is():
    facts = {"protocol": {"repeats": 10000, "weights": [1, 2]}, "versions": None, "machine": {}}
    summary = {"provenance": {"command": "a\nb", "date": "today", "seconds": 1, "seed": 12345, **facts}}
    page = Page(render_comparison(summary))
    assert [e["text"] for e in page.find("dd")] == ["10000", "1, 2"]
    assert page.find("code", id="command")[0]["text"] == "a\nb"
    assert "seed 12345." in page.find("main")[0]["text"]


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'unseen\[cli\]'"):
        render_comparison({})


def test_the_diagnosis_says_the_same_alone_and_in_a_comparison():
    alone = re.search(r"<section.*</section>", made("diagnosis"), re.S).group()
    assert alone in made("plain")


def test_a_piece_brings_no_page_no_script_and_no_ids():
    page = Page(render_diagnosis(diagnosis(), fragment=True))
    assert not [
        e for e in page.elements if e["tag"] in ("html", "head", "body", "script", "meta") or "id" in e["attrs"]
    ]
    assert page.elements[0]["attrs"]["class"].startswith("unseen-report")


def test_styles_reach_nothing_outside():
    style = re.sub(r"/\*.*?\*/", "", files("unseen.report").joinpath("report.css").read_text("utf-8"), flags=re.S)
    depth, selectors, current = 0, [], ""
    for character in style:
        if character == "{":
            if depth == 0 or current.strip().startswith(":root"):
                selectors.append(current.strip())
            depth, current = depth + 1, ""
        elif character in "};":
            depth, current = depth - (character == "}"), ""
        else:
            current += character
    assert depth == 0
    assert len(selectors) > 3
    for selector in selectors:
        for part in selector.split(","):
            assert "unseen-report" in part or part == "@media print"


@pytest.mark.parametrize(
    ("format", "texts"),
    [
        (format_number, {1234.56: "1,234.6", -0.04: "0.0", None: MISSING_TEXT, math.nan: MISSING_TEXT}),
        (format_signed, {3.44: "+3.4", -1: "\u22121.0", 0.04: "0.0", None: MISSING_TEXT}),
        (format_value, {12345: "12,345", 0.012345: "0.01235", None: MISSING_TEXT, "seven": "seven"}),
        (format_p_value, {0.0: "< 0.001", 0.002: "0.002", 1: "1.000", None: MISSING_TEXT}),
        (format_duration, {0.031: "0.031 s", 42.4: "42 s", 193: "3 min", 7325: "2.0 h"}),
    ],
)
def test_numbers_read_well(format, texts):
    assert {value: format(value) for value in texts} == texts


def test_settings_read_as_they_could_be_typed():
    row = {"domain": "d", "repeat": 0, "method": "m", "settings": {"ridge": 1e-6, "kernel": "rbf", "k": 3}, "ties": 1}
    page = Page(render_comparison({"settings": [row, {**row, "settings": {}}]}))
    assert [e["text"] for e in page.find("code")] == ["ridge=1e-06", "kernel=rbf", "k=3"]
    assert "none" in page.find("tbody")[0]["text"]
