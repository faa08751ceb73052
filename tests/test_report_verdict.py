"""The section of the report that says what to do, and why."""

from __future__ import annotations

import pytest

pytest.importorskip("jinja2", reason="the report needs jinja2")

from report_sample import Page, comparison
from unseen.report import render_comparison


def test_without_a_comparison_there_is_a_headline_and_no_table():
    verdict = comparison()["verdict"]
    assert Page(render_comparison({"verdict": verdict})).find("table")
    verdict.update(headline="There is nothing to compare.", intervals=[])
    page = Page(render_comparison({"verdict": verdict}))
    assert "There is nothing to compare." in page.find("main")[0]["text"]
    assert not page.find("table")


def test_what_to_do_stands_first_with_a_ring_for_each_domain():
    summary = comparison()
    advice = summary["verdict"]["recommendation"]
    page = Page(render_comparison(summary))
    section = page.find("section", id="verdict")[0]["text"]
    assert section.index("Use CIDG") < section.index(summary["verdict"]["headline"])
    at = [float(e["attrs"]["cx"].rstrip("%")) for e in page.find("circle", **{"class": "ring"})]
    assert len(at) == len(advice["scores"])
    assert at == sorted(at)
    (mean,) = (float(e["attrs"]["cx"].rstrip("%")) for e in page.find("circle", **{"class": "mean"}))
    assert min(at) < mean < max(at)
    assert "the 95% prediction interval of a new domain" in section
    advice.update(low=None, high=None)  # as where domains are too few for an interval
    assert "the 95% prediction interval of a new domain" not in render_comparison(summary)
    summary["verdict"]["recommendation"] = None
    assert not Page(render_comparison(summary)).find("circle", **{"class": "ring"})


def test_the_ensemble_is_shown_by_bars():
    summary = comparison()
    page = Page(render_comparison(summary))
    widths = [float(e["attrs"]["width"].rstrip("%")) for e in page.find("rect", **{"class": "bar"})]
    weights = [*summary["ensemble"]["weights"].values()]
    assert widths == pytest.approx([100 * weight / max(weights) for weight in weights], abs=0.01)


def test_scores_that_are_no_shares_have_no_percent_and_more_digits():
    summary = comparison()
    summary["verdict"].update(metric="log_loss", share=False, headline="", sentences=[])
    summary["verdict"]["intervals"][0].update(difference=0.0234, low=0.0012, high=0.0456)
    summary["verdict"]["recommendation"]["sentence"] = "Use CIDG."
    page = Page(render_comparison({key: summary[key] for key in ("verdict", "domains", "methods")}))
    assert "Log loss on each held-out domain" in [e["text"] for e in page.find("h2")]
    main = page.find("main")[0]["text"]
    assert "+0.023" in main
    assert "points" not in main
    assert "%" not in main.replace("95% interval", "").replace("95% prediction interval", "")
