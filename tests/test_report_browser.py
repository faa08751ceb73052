"""The HTML report in a real browser: by mouse, keyboard and printer, at every width, asking for nothing."""

from __future__ import annotations

import itertools
import shutil

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="the report needs jinja2")
playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium on the path"),
]

from report_sample import comparison, diagnosis  # noqa: E402
from unseen.evaluation import validate_predictions  # noqa: E402
from unseen.report import render_comparison, render_diagnosis  # noqa: E402

ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
ARGS += ["--disable-component-update", "--disable-sync"]

# Text that cannot be read: the contrast of every visible text with the first opaque background behind it.
FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !parent.checkVisibility() || parent.closest(".aside, script, style, noscript, option")) continue;
    let behind = parent;
    while (behind && rgba(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
    const style = getComputedStyle(parent);
    const ink = light(rgba(parent instanceof SVGElement ? style.fill : style.color));
    const paper = light(rgba(getComputedStyle(behind).backgroundColor));
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    found.push([contrast, text]);
  }
  return found;
}"""


def differing_by_tens():
    """Differences that need labels of three digits and a sign, on both sides of zero."""
    summary = comparison()
    for row in summary["verdict"]["intervals"]:
        row.update({key: row[key] and 10 * row[key] for key in ("difference", "low", "high")})
    return summary


def validation_of_sites():
    """The page of a validation, with long names of sites, and a site without events."""
    rng = np.random.default_rng(0)
    site = np.repeat(["a", "University Hospital of the Northern Lights <b>", "c", "none"], (150, 150, 150, 20))
    p = rng.uniform(0.05, 0.95, len(site))
    y = (rng.uniform(size=len(site)) < p) & (site != "none")
    return validate_predictions(y, {"model": p, "other": p**2}, sample_domain=site, threshold="youden").to_html()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    pages = {
        "plain": render_comparison(comparison()),
        "nasty": render_comparison(comparison(n_domains=12, n_classes=20, nasty=True)),
        "diagnosis": render_diagnosis(diagnosis()),
        "classes": render_comparison(comparison(n_classes=9)),
        "wide": render_comparison(differing_by_tens()),
        "validation": validation_of_sites(),
        "notebook": f"<!DOCTYPE html><p>Above</p>{2 * render_diagnosis(diagnosis(), fragment=True)}",
    }
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return folder


@pytest.fixture
def visit(browser, files):
    """Open a page; afterwards nothing may have gone wrong and nothing may have been asked for."""
    contexts, trouble, requests = [], [], []

    def open_page(name, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto((files / f"{name}.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []
    outside = [url for url in requests if not url.startswith("data:")]
    assert {url.split("/")[-1].split("#")[0] for url in outside} <= {
        f"{name}.html" for name in ("plain", "nasty", "diagnosis", "notebook", "wide", "classes", "validation")
    }


def column(page, table, index):
    """What the cells of a column are sorted by, from top to bottom, as numbers; None for those without."""
    keys = page.locator(f"{table} tbody tr").evaluate_all(
        "(rows, i) => rows.map((row) => row.cells[i].dataset.sort ?? row.cells[i].textContent)", index
    )
    return [float(key) if key else None for key in keys]


@pytest.mark.parametrize("name", ["plain", "nasty", "diagnosis", "notebook", "validation"])
def test_pages_open_without_errors_or_requests_and_no_wider_than_the_screen(visit, name):
    page = visit(name, width=360)
    page.wait_for_load_state()
    assert page.locator("table").count() >= 3
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate(
            """() => [...document.querySelectorAll("main *, header *")].filter((e) => e.checkVisibility()
              && !e.closest(".scroll, svg, .aside") && e.getBoundingClientRect().right > innerWidth + 1)
              .map((e) => e.outerHTML)"""
        )
        assert outside == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_the_paper(visit, scheme):
    page = visit("plain", color_scheme=scheme)
    found = page.evaluate(FAINT)
    assert len(found) > 200
    assert [entry for entry in found if entry[0] < 4.5] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_of_a_validation_stands_out_from_the_paper(visit, scheme):
    found = visit("validation", color_scheme=scheme).evaluate(FAINT)
    assert len(found) > 200
    assert [entry for entry in found if entry[0] < 4.5] == []


def test_the_theme_button_names_what_it_does(visit):
    page = visit("plain", color_scheme="dark")
    names = []
    for _ in range(3):
        names.append(page.locator("#theme").inner_text())
        page.get_by_role("button", name=names[-1].removeprefix("◐ "), exact=True).click()
    assert names == ["◐ Switch to light", "◐ Switch to dark", "◐ Switch to light"]
    page = visit("plain", color_scheme="light")
    page.emulate_media(color_scheme="dark")
    assert page.get_by_role("button", name="Switch to light").is_visible()


def test_labels_of_the_axis_stand_apart_and_whole_on_any_screen(visit):
    page = visit("wide")
    for width in (320, 360, 640, 641, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        labels = page.locator(".intervals tfoot text").evaluate_all(
            """(all) => all.filter((e) => e.checkVisibility()).map((e) => {
              const box = e.getBoundingClientRect(), cell = e.closest("td");
              const cut = getComputedStyle(cell).clipPath !== "none" && box.left < cell.getBoundingClientRect().left;
              return [e.textContent, box.left, box.right, cut]; })"""
        )
        names = [name for name, *_ in labels]
        assert "0" in names
        assert len(names) >= (4 if width > 640 else 2)
        assert all(left > right + 4 for (_, _, right, _), (_, left, *_) in itertools.pairwise(labels)), (width, labels)
        assert not any(cut for *_, cut in labels), (width, labels)


@pytest.mark.parametrize("how", ["click", "Enter", "Space"])
def test_tables_sort_by_any_column(visit, how):
    page = visit("plain")
    headers = page.locator(".accuracy thead th")
    for index in range(2, headers.count() if how == "click" else 4):
        header, button = headers.nth(index), headers.nth(index).get_by_role("button")
        for order in ("descending", "ascending"):
            button.click() if how == "click" else button.press(how)
            assert header.get_attribute("aria-sort") == order
            values = column(page, ".accuracy", index)
            known = [value for value in values if value is not None]
            assert values[: len(known)] == known, "cells without a number come last"
            assert known == sorted(known, reverse=order == "descending")
            assert len(set(known)) > 1
        assert page.locator('.accuracy th[aria-sort="none"]').count() == headers.count() - 1
    assert "ascending" in page.locator("#announcer").text_content()


def test_distances_switch_without_a_script(visit):
    page = visit("diagnosis", java_script_enabled=False)
    assert page.locator(".marginal").is_visible()
    assert page.locator(".conditional").is_hidden()
    page.get_by_label("each class, P(X|Y)").check()
    assert page.locator(".marginal").is_hidden()
    assert page.locator(".conditional").is_visible()
    page.keyboard.press("Enter")
    assert "?" not in page.url


def test_without_a_script_the_page_offers_only_what_works(visit):
    page = visit("plain", java_script_enabled=False)
    assert page.locator("button:visible").count() == 0
    assert page.locator(".multiple:visible").count() == 4


def test_confusion_tables_of_many_classes_are_folded_until_opened_or_printed(visit):
    assert visit("plain").locator(".multiple table:visible").count() == 4
    page = visit("nasty")
    assert page.locator(".multiple table:visible").count() == 1
    page.locator(".multiple summary").nth(3).click()
    assert page.locator(".multiple table:visible").count() == 2
    page.pdf()
    assert page.locator(".multiple table:visible").count() == 12


def test_the_tab_key_reaches_every_control_in_the_order_of_the_page(visit):
    page = visit("plain")
    page.evaluate("window.seen = []; addEventListener('focusin', (e) => seen.push(e.target))")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0, "the skip link shows itself"
    for _ in range(80):
        page.keyboard.press("Tab")
    assert (
        page.evaluate(
            """() => [...document.querySelectorAll("button, select, input:checked, .panel, nav a")]
          .filter((e) => e.checkVisibility() && !seen.includes(e)).map((e) => e.outerHTML)"""
        )
        == []
    )
    assert page.evaluate(
        """() => { const first = seen.filter((e, i) => seen.indexOf(e) === i); return first.every((e, i) => i === 0
          || first[i - 1].compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING); }"""
    )
    page.locator("#theme").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert page.locator("#theme").evaluate("(e) => getComputedStyle(e).outlineStyle") == "solid"


# How far a frame has been scrolled, as soon as it has; wait_for_function would need eval, which the page forbids.
SCROLLED = """(selector) => new Promise((done) => {
  const frame = document.querySelector(selector), end = performance.now() + 10_000;
  const look = () => frame.scrollLeft > 0 || performance.now() > end ? done(frame.scrollLeft) : setTimeout(look, 20);
  look();
})"""


def test_paper_gets_everything_and_no_controls(visit):
    page = visit("nasty", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator(".control:visible, nav:visible, .skip:visible").count() == 0
    assert page.locator(".conditional").is_visible()
    assert page.locator(".marginal").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tall = page.locator(".scroll.tall").evaluate("(e) => [e.scrollHeight, e.clientHeight]")
    assert tall[0] <= tall[1] + 1
