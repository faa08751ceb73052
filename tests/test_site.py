"""The built documentation: every internal link leads somewhere, and no page needs the network."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="the site is not built; make docs builds it and runs these tests"
)


class Page(HTMLParser):
    """Links, what a page loads by itself, and the places in it that links may name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        if "src" in values:
            self.loads.add(values["src"])
        if "href" in values:
            loaded = tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "shortcut icon")
            (self.loads if loaded else self.links).add(values["href"])


@cache
def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def pages() -> list[Path]:
    return sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)  # a theme's templates lie there


def is_internal(link: str) -> bool:
    return not urlsplit(link).scheme and not link.startswith("//")


def problem(source: Path, link: str) -> str | None:
    """What is wrong with an internal link of a page."""
    parts = urlsplit(link)
    target = (source.parent / unquote(parts.path)).resolve() if parts.path else source.resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return f"{source.relative_to(SITE)} -> {link}: no such file"
    # A text fragment, "#:~:text=", is looked up by the browser; scripts make the search page's own places.
    if parts.fragment and not parts.fragment.startswith(":~:") and target.suffix == ".html":
        places = page(target).places
        if unquote(parts.fragment) not in places:
            return f"{source.relative_to(SITE)} -> {link}: no such place on that page"
    return None


def test_every_internal_link_leads_somewhere():
    followed = [(source, link) for source in pages() for link in page(source).links | page(source).loads]
    internal = [(source, link) for source, link in followed if is_internal(link)]
    assert len(internal) > 1000, "the site has far more links than that: is this all of it?"
    assert [found for source, link in internal if (found := problem(source.resolve(), link))] == []


def test_pages_load_nothing_from_the_network():
    assert [(path.name, link) for path in pages() for link in page(path).loads if not is_internal(link)] == []


def test_formulas_are_in_the_pages_themselves():
    text = (SITE / "mathematics.html").read_text(encoding="utf-8")
    assert text.count("<math") > 20
    assert "mathjax" not in text.lower()


def test_every_example_has_a_picture():
    examples = sorted(path.stem for path in (SITE.parents[2] / "examples").glob("plot_*.py"))
    assert len(examples) >= 12
    assert [name for name in examples if not (SITE / "_images" / f"sphx_glr_{name}_001.png").exists()] == []
