"""The explorer in a real browser: every control, by mouse and keyboard, on screens of any width."""

from __future__ import annotations

import shutil
import time
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the explorer needs its extra")
pytest.importorskip("uvicorn", reason="the explorer needs its extra")
playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium on the path"),
]

from explore_server import serving, session_of, small_table  # noqa: E402
from unseen.explore import Explorer, embedded_sources  # noqa: E402
from unseen.explore._server import _write_redirect  # noqa: E402

ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
ARGS += ["--disable-component-update", "--disable-sync"]
PICTURE = "() => document.getElementById('plot').toDataURL()"
NASTY = "<b>&\"rome'"


@pytest.fixture(scope="module")
def server():
    two = small_table(90, n_domains=2, n_classes=2)
    sources = {"small": session_of, "synthetic": embedded_sources()["synthetic"], "two": lambda: session_of(two)}
    with serving(Explorer(sources)) as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield found
        found.close()


@pytest.fixture
def visit(browser, server):
    """Open the page; afterwards nothing may have gone wrong, and nobody else may have been asked for anything."""
    contexts, trouble, hosts = [], [], set()

    def open_page(at="", width=1280, address=None, **options):
        context = browser.new_context(viewport={"width": width, "height": 640}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.goto((address or server.address) + (f"#{at}" if at else ""))
        if address is None:
            page.wait_for_selector("html[data-drawn]", timeout=20_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []
    assert {host.partition(":")[0] for host in hosts} <= {"127.0.0.1", ""}


def drawn(page, act):
    """Do something, and wait until what follows from it is on the screen."""
    act()
    page.wait_for_selector('#weights[aria-busy="false"]', timeout=10_000)


def changed(page, act, script=PICTURE):
    """Whether the picture becomes another one within two seconds."""
    last, end = page.evaluate(script), time.monotonic() + 2
    act()
    while time.monotonic() < end:
        if page.evaluate(script) != last:
            return True
        time.sleep(0.02)
    return False


def move(page, name, step):
    """Move a slider by keys."""
    page.locator(f"#s-{name}").focus()
    for _ in range(abs(step)):
        page.keyboard.press("ArrowRight" if step > 0 else "ArrowLeft")


def figures(page):
    page.wait_for_selector('#figures[aria-busy="false"]', timeout=10_000)
    return [float(page.locator(f"#{name}").get_attribute("data-value")) for name in ("accuracy", "validation")]


def test_every_control_changes_the_picture(visit):
    page = visit("data=small&head=logistic")
    for name in ("gamma", "ridge", "conditional_weight", "prior_weight"):
        assert changed(page, lambda name=name: move(page, name, 4)), name
        drawn(page, lambda name=name: move(page, name, -1))
    for control, value in (
        ("held_out", "bonn"),
        ("method", "SCA"),
        ("components", "1"),
        ("centering", "target"),
        ("head", "1-NN"),
    ):
        assert changed(page, lambda c=control, v=value: page.locator(f"#{c}").select_option(v)), control
    page.locator("#components").select_option("3")
    for label in ("domain", "before", "3", "after"):
        assert changed(page, lambda label=label: page.get_by_label(label, exact=True).check()), label
    page.get_by_label("3", exact=True).check()
    box = page.locator("#plot").bounding_box()

    def drag():
        page.mouse.move(box["x"] + 100, box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + 160, box["y"] + 130, steps=3)
        page.mouse.up()

    assert changed(page, drag)
    page.locator("#plot").focus()
    assert changed(page, lambda: page.keyboard.press("Shift+ArrowLeft"))
    for name in ("KFDA", "DICA", "MDA", "CIDG"):
        drawn(page, lambda name=name: page.locator("#method").select_option(name))
        sliders = page.locator("#sliders input")
        assert sliders.count() >= 2
        drawn(page, lambda sliders=sliders: sliders.last.press("ArrowRight"))
        assert page.locator("#status.alarm").count() == 0


def test_figures_are_those_of_the_library(visit):
    session = session_of()
    page = visit("data=small&held_out=oslo&conditional_weight=scale")
    drawn(page, lambda: page.locator("#centering").select_option("target"))
    for _ in range(3):
        drawn(page, lambda: move(page, "conditional_weight", 4))
        at = dict(part.split("=") for part in page.evaluate("location.hash.slice(1)").split("&"))
        found = session.solve(session.setting(page.evaluate("location.hash")))
        assert figures(page) == [found["accuracy"], found["validation"]]
        for name, value in found["scatters"].items():
            assert float(page.locator(f"[data-term={name}]").get_attribute("data-value")) == pytest.approx(value)
        assert page.locator("#v-conditional_weight").inner_text() == at["conditional_weight"].replace("%2A", "*")
    assert "uses the labels of oslo" in page.locator("#figures").inner_text()
    assert "Transductive" in page.locator("#figures").inner_text()


def test_a_sweep_plays_and_stops(visit):
    page = visit("data=small&ridge=1e-06*scale")
    button = page.locator("#p-ridge")
    texts, pictures = set(), set()
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    end = time.monotonic() + 10
    while len(pictures) < 4 and time.monotonic() < end:
        texts.add(page.locator("#v-ridge").inner_text())
        pictures.add(page.evaluate(PICTURE))
    assert len(texts) >= 3
    assert len(pictures) == 4
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    time.sleep(0.3)
    still = page.locator("#v-ridge").inner_text()
    time.sleep(0.3)
    assert page.locator("#v-ridge").inner_text() == still


def test_reloading_restores_the_view_and_copied_code_its_accuracy(visit):
    page = visit("data=synthetic&held_out=domain+2&method=CIDG&color=domain&dims=2&centering=target&ridge=0.1*scale")
    drawn(page, lambda: move(page, "prior_weight", 5))
    before = page.url, figures(page), page.evaluate(PICTURE)
    page.reload()
    page.wait_for_selector("html[data-drawn]")
    assert (page.url, figures(page)) == before[:2]
    assert page.evaluate(PICTURE) == before[2]
    assert page.locator("#held_out").input_value() == "domain 2"
    page.evaluate("location.hash = 'data=synthetic&held_out=domain+1'")
    page.wait_for_selector('#figures:has-text("domain 1")')
    drawn(page, lambda: page.locator("#centering").select_option("target"))
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    page.get_by_role("button", name="Copy as Python").click()
    page.get_by_role("button", name="Copied").wait_for()
    there = {}
    exec(page.evaluate("window.copied"), there)
    assert there["accuracy"] == figures(page)[0]
    page.get_by_role("button", name="Copy as command").click()
    page.wait_for_selector("#copied:has-text('--setting')")
    assert page.evaluate("window.copied").startswith("unseen explore --example synthetic")


def test_an_address_of_nonsense_is_mended(visit):
    page = visit("data=nothing&held_out=nowhere&method=evil&gamma=-1&components=99&tab=%3Cscript%3E&dims=7")
    assert page.locator("#method").input_value() == "CIDG"
    assert page.locator("#status.alarm").count() == 0


def test_other_settings_are_one_press_away(visit):
    page = visit("data=small")
    page.wait_for_selector(".grid")
    cell = page.locator('.grid button[data-i="7"][data-j="3"]')
    drawn(page, cell.click)
    assert cell.get_attribute("aria-current") == "true"
    assert page.locator("#v-conditional_weight").inner_text() == "1000*scale"
    assert page.locator("#v-prior_weight").inner_text() == "0.1*scale"
    assert figures(page)[1] == pytest.approx(float(cell.inner_text()) / 100, abs=6e-4)
    cell.focus()
    page.keyboard.press("ArrowUp")
    drawn(page, lambda: page.keyboard.press("Enter"))
    assert page.locator("#v-conditional_weight").inner_text() == "100*scale"


def test_samples_are_told_by_pointer_keys_and_lasso(visit):
    page = visit("data=small")
    assert NASTY in page.locator("#legend").inner_text(), "names are text, whatever they are"
    assert "<script>" in page.locator("#legend").inner_text()
    assert page.locator("main script, main b b, #legend b").count() == 0
    plot, tip = page.locator("#plot"), page.locator("#tip")
    plot.focus()
    page.keyboard.press("Home")
    assert tip.inner_text().startswith("row 1\n")
    page.keyboard.press("ArrowRight")
    assert plot.get_attribute("aria-valuetext").startswith("row 2, class")
    page.keyboard.press("Enter")
    assert page.locator("#chosen-rows tbody tr").count() == 1
    page.get_by_role("button", name="Clear the selection").click()
    assert page.locator("#chosen").is_hidden()
    box = plot.bounding_box()
    corners = [(2, 2), (box["width"] - 3, 2), (box["width"] - 3, box["height"] - 3), (2, box["height"] - 3)]
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    for x, y in corners[1:]:
        page.mouse.move(box["x"] + x, box["y"] + y, steps=4)
    page.mouse.up()
    assert page.locator("#chosen-text").inner_text().startswith("180 rows.")
    assert page.locator("#chosen-rows tbody tr").count() == 180
    rows = page.locator("#chosen-rows tbody td:first-child").all_inner_texts()
    assert rows == [str(k) for k in range(1, 181)]


def test_two_domains_and_two_classes_are_enough(visit):
    page = visit("data=two")
    page.wait_for_selector("#figures:has-text('there is a single source domain')")
    assert "each domain has a lane" in page.locator("#axes").inner_text()
    page.wait_for_selector("#surface-text:has-text('at least two source domains')")
    assert "need at least 3 source domains" in page.locator("#certainty-text").inner_text()
    assert page.locator("#certainty .dot").count() == 1
    assert page.locator("#certainty .whisker").count() == 0


@pytest.mark.slow
def test_tabs_of_a_browser_do_not_disturb_each_other(visit):
    first, second = visit("data=small&held_out=bonn"), visit("data=small&held_out=oslo")
    for _ in range(4):
        for page in (first, second):
            drawn(page, lambda page=page: move(page, "conditional_weight", 1))
    session = session_of()
    for page in (first, second):
        assert figures(page)[0] == session.solve(session.setting(page.evaluate("location.hash")))["accuracy"]


def test_the_pool_and_what_skew_does_to_it(visit):
    page = visit("data=synthetic&held_out=domain+3")
    page.get_by_role("tab", name="Ensemble").click()
    page.get_by_role("button", name="Fit the ensemble").click()
    page.wait_for_selector("#skew-figures td", timeout=60_000)
    weights = page.locator("#members tbody td:last-child").all_inner_texts()
    assert sum(float(text.rstrip("%")) for text in weights) == pytest.approx(100, abs=1)
    assert "points on natural batches" in page.locator("#acceptance-tests").inner_text()
    value = "() => document.querySelector('[data-model=\"ensemble of all models\"]').dataset.value"
    page.locator("#skew").focus()
    assert changed(page, lambda: page.keyboard.press("End"), value)
    assert page.locator("#skew-value").inner_text() == "99%"
    assert "skew=7" in page.url
    last = page.evaluate(value)
    page.reload()
    page.wait_for_selector("#skew-figures td", timeout=60_000)
    assert page.evaluate(value) == last, "which is in the address, too"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_every_screen_and_can_be_read(visit, scheme):
    from test_report_browser import FAINT

    page = visit("data=small", width=360, color_scheme=scheme)
    page.wait_for_selector(".grid")
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = page.evaluate(FAINT)
    assert len(found) > 100
    assert [entry for entry in found if entry[0] < 4.5] == []
    background = "() => getComputedStyle(document.body).backgroundColor"
    assert changed(page, page.locator("#theme").click, background)
    assert page.locator("#theme").inner_text() == f"Switch to {scheme}"
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, canvas")].filter((e) => e.checkVisibility()
          && !(e.labels?.length || e.getAttribute("aria-label") || e.textContent.trim())).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    page.evaluate("window.seen = new Set(); addEventListener('focusin', (e) => seen.add(e.target))")
    for _ in range(40):
        page.keyboard.press("Tab")
    missed = page.evaluate(
        """() => [...document.querySelectorAll(`#controls button, select, #controls input, input:checked, canvas,
          .grid [tabindex='0']`)]
          .filter((e) => e.checkVisibility() && !seen.has(e)).map((e) => e.outerHTML)"""
    )
    assert missed == []


def test_the_file_that_opens_a_browser_leads_to_the_page(browser, server):
    with _write_redirect(f"{server.address}#method=KFDA") as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("html[data-drawn]", timeout=20_000)
        assert page.url.startswith(f"{server.address}#")
        assert "method=KFDA" in page.url
        page.close()


@pytest.mark.slow
def test_an_ended_server_is_told(browser):
    with serving() as server:
        page = browser.new_page()
        page.goto(server.address)
        page.wait_for_selector("html[data-drawn]")
    page.locator("#s-ridge").press("ArrowRight")
    page.wait_for_selector("#status.alarm")
    assert "Is the command still running?" in page.locator("#status").inner_text()
    page.close()


def test_a_model_on_new_rows(visit, tmp_path):
    pytest.importorskip("polars", reason="reading tables needs it")
    from test_explore_models import write_table
    from unseen.explore import NewDataView, save

    session = session_of()
    save(session, session.setting({"head": "logistic"}), tmp_path / "m.unseen")
    new = write_table(tmp_path / "new.csv", small_table(150, seed=3))
    with serving(Explorer({}, NewDataView(tmp_path / "m.unseen", new))) as server:
        page = visit(address=server.address)
        page.wait_for_selector("#rows td")
        certain = page.locator("#rows tbody td:nth-child(3)").all_inner_texts()
        assert len(certain) == 100
        numbers = np.array([float(text.rstrip("%")) for text in certain])
        assert (np.diff(numbers) >= 0).all()
        page.get_by_role("button", name="Show more").click()
        assert page.locator("#rows tbody tr").count() == 150
        assert "source" in page.locator("#novelty").inner_text()
        page.locator("#positions").focus()
        page.keyboard.press("Home")
        assert page.locator("#positions-tip").inner_text().startswith("row ")
        assert page.locator("#weights").is_hidden()
