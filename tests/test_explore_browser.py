"""The explorer in a real browser: every control, by mouse and keyboard, on screens of any width."""

from __future__ import annotations

import shutil
from urllib.parse import urlsplit

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium on the path"),
]

from explore_server import make_session, serving, small_table  # noqa: E402
from unseen.explore import open_examples  # noqa: E402
from unseen.explore._server import _write_redirect  # noqa: E402

ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
ARGS += ["--disable-component-update", "--disable-sync"]
NASTY = "<b>&\"rome'"
DRAWN = 'main[aria-busy="false"]'


@pytest.fixture(scope="module")
def server():
    two = small_table(90, n_domains=2, n_classes=2)
    synthetic = open_examples()["synthetic"]
    with serving(small=make_session, synthetic=synthetic, two=lambda: make_session(two)) as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield found
        found.close()


@pytest.fixture
def visit(browser, server):
    """Open the page; afterwards there must be no error, and no request to another machine."""
    contexts, errors, hosts = [], [], set()

    def open_page(at="", width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 640}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: (errors.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.goto(f"{server.address}#{at}")
        page.wait_for_selector(DRAWN, timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
    assert {host.partition(":")[0] for host in hosts} <= {"127.0.0.1", ""}


def changes_picture(page, act):
    """Do something, and return whether the picture changes within 30 seconds."""
    before = page.locator("#plot").inner_html()
    act()
    for _ in range(300):
        if page.locator("#plot").inner_html() != before:
            page.wait_for_selector(DRAWN, timeout=30_000)  # so that the next change starts from a complete picture
            return True
        page.wait_for_timeout(100)
    return False


def test_every_control_changes_the_picture(visit):
    page = visit("data=small&head=logistic")
    for name in ("gamma", "ridge", "conditional_weight", "prior_weight"):
        assert changes_picture(page, lambda name=name: page.locator(f"#{name}").press("PageUp")), name
    for control, value in (
        ("held_out", "bonn"),
        ("method", "SCA"),
        ("centering", "target"),
        ("head", "1-NN"),
        ("color", "domain"),
        ("data", "two"),
    ):
        assert changes_picture(page, lambda c=control, v=value: page.locator(f"#{c}").select_option(v)), control


def test_the_address_restores_the_view(visit):
    page = visit("data=synthetic&held_out=domain+2&color=domain&centering=target&ridge=0.1*scale")
    page.locator("#prior_weight").press("PageUp")
    page.wait_for_selector(DRAWN)
    before = page.url, page.locator("main").inner_html()
    page.reload()
    page.wait_for_selector(DRAWN)
    assert (page.url, page.locator("main").inner_html()) == before
    page.evaluate("location.hash = 'data=small&held_out=bonn'")
    page.wait_for_selector("#facts:has-text('small')")
    page.wait_for_selector('#accuracy:has-text("bonn (test)")')


def test_an_address_with_invalid_values_shows_defaults(visit):
    page = visit("data=small&held_out=nowhere&method=evil&gamma=-1&color=%3Cscript%3E")
    assert page.locator("#method").input_value() == "CIDG"
    assert page.locator("#status.alarm").count() == 0


def test_names_are_text_and_samples_are_described(visit):
    page = visit("data=small&color=domain")
    assert NASTY in page.locator("#legend").inner_text()
    page.locator("#color").select_option("class")
    page.wait_for_selector(DRAWN)
    assert "<script>" in page.locator("#legend").inner_text()
    assert page.locator("main script, main b").count() == 0
    page.locator("#plot path").first.hover(force=True)
    assert page.locator("#sample").inner_text().startswith("Row ")


def test_two_domains_and_two_classes_are_enough(visit):
    page = visit("data=two")
    assert "each domain has a lane" in page.locator("#caption").inner_text()
    assert "two or more source domains" in page.locator("#accuracy-text").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_every_screen_and_can_be_read(visit, scheme):
    from test_report_browser import FAINT

    page = visit("data=small", width=360, color_scheme=scheme)
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    contrasts = page.evaluate(FAINT)
    assert len(contrasts) > 30
    assert [entry for entry in contrasts if entry[0] < 4.5] == []
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("select, input, meter, svg[role]")]
          .filter((e) => !(e.labels?.length || e.getAttribute("aria-label"))).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    page.evaluate("window.seen = new Set(); addEventListener('focusin', (e) => seen.add(e.target))")
    for _ in range(20):
        page.keyboard.press("Tab")
    missed = "() => [...document.querySelectorAll('select, input')].filter((e) => !seen.has(e)).map((e) => e.id)"
    assert page.evaluate(missed) == []


def test_the_file_that_opens_a_browser_leads_to_the_page(browser, server):
    with _write_redirect(f"{server.address}#method=KFDA") as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(DRAWN, timeout=20_000)
        assert page.url.startswith(f"{server.address}#")
        assert "method=KFDA" in page.url
        page.close()


def test_the_page_states_that_the_server_has_stopped(browser):
    with serving() as server:
        page = browser.new_page()
        page.goto(server.address)
        page.wait_for_selector(DRAWN, timeout=20_000)
    page.locator("#ridge").press("ArrowRight")
    page.wait_for_selector("#status.alarm")
    assert "Is the command still running?" in page.locator("#status").inner_text()
    page.close()
