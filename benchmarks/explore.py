"""The explorer: from a move of a slider to the picture, and what a session adds to solving a setting."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from itertools import cycle

import numpy as np

from unseen import CIDG
from unseen.explore import Server, Session, Setting
from unseen.linalg import CellStatistics, scatter_traces
from unseen.model_selection import HEADS, Candidate, PreparedSplits
from unseen.tables import Column, Schema, Table

from .measure import Row, best_of, samples

N, DOMAINS, CLASSES = 2000, 3, 5
MOVES = 50
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
MOVE = """async (moves) => {
  const input = document.getElementById("conditional_weight"), times = [];
  for (let k = 0; k < moves; k++) {
    const drawn = new Promise((done) =>
      document.addEventListener("drawn", () => requestAnimationFrame(() => done(performance.now())), { once: true }));
    const start = performance.now();
    input.value = k % 36;
    input.dispatchEvent(new Event("input"));
    times.push(await drawn - start);
    await new Promise((rest) => setTimeout(rest, 30));
  }
  return times;
}"""


def rows() -> Iterator[Row]:
    X, y, d = samples(N, n_domains=DOMAINS, n_classes=CLASSES)
    schema = Schema(tuple(Column(f"f{j}", "numeric") for j in range(X.shape[1])))
    table = Table(X, y, np.array([f"domain {k}" for k in d]), schema, [], "benchmark")
    yield solve_row(table)
    if CHROMIUM is not None:
        yield picture_row(Session(table, "standardize"))


def solve_row(table: Table) -> Row:
    """A projection with its scatters; then the components alone."""
    is_test = table.domain == "domain 2"
    split = PreparedSplits.from_splits(table.samples, {0: (np.flatnonzero(~is_test), np.flatnonzero(is_test))})
    weights = cycle(np.geomspace(1, 1e6, 10))
    decomposition = split.decompose(CIDG())

    def solve_components() -> None:
        for _ in range(20):
            decomposition.project(CIDG(conditional_weight=next(weights)))

    def solve_with_scatters() -> None:
        for _ in range(20):
            projection = CIDG(conditional_weight=next(weights))
            features = split.features(Candidate("CIDG", {}, projection, HEADS["1-NN"], shares="decomposition"))
            scatter_traces(CellStatistics.from_features(features.train, split.membership))

    ours, path = (1e3 * seconds / 20 for seconds in best_of(10, solve_with_scatters, solve_components))
    return Row(
        f"a setting with its scatters, n={N}: ours / a bare path solve",
        ours / path,
        3,
        True,
        f"{ours:.2f} / {path:.2f} ms",
    )


def picture_row(session: Session) -> Row:
    """Median over moves in a browser without a window, once the kernel has been decomposed."""
    from playwright.sync_api import sync_playwright

    server = Server({"benchmark": lambda: session})
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    setting = Setting.from_values({}, session.domains)
    for domain in session.solve(setting)["validation_domains"]:
        session.validate(setting, domain)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(server.address)
        page.wait_for_selector('main[aria-busy="false"]', timeout=60_000)
        times = page.evaluate(MOVE, MOVES)
        browser.close()
    server.shutdown()
    thread.join()
    detail = f"{MOVES} moves, {DOMAINS} domains, {CLASSES} classes; the slowest {max(times):.0f} ms"
    return Row(f"slider to picture, n={N}, ms", float(np.median(times)), 100, True, detail)
