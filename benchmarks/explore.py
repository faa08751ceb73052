"""The explorer: from a move of a slider to the picture, and what the server adds to solving a setting."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from itertools import cycle

import numpy as np

from unseen import CIDG
from unseen.explore import Explorer, Origin, Server, Session
from unseen.tables import Column, Schema, Table

from .measure import Row, best_of, samples

N, DOMAINS, CLASSES = 2000, 3, 5
MOVES = 50
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
MOVE = """async (moves) => {
  const input = document.getElementById("s-conditional_weight"), found = [];
  for (let k = 0; k < moves; k++) {
    const drawn = new Promise((done) =>
      document.addEventListener("drawn", () => done(performance.now()), { once: true }));
    const start = performance.now();
    input.value = k % 36;
    input.dispatchEvent(new Event("input"));
    found.push(await drawn - start);
    await new Promise((rest) => setTimeout(rest, 30));
  }
  return found;
}"""


def rows() -> Iterator[Row]:
    X, y, d = samples(N, n_domains=DOMAINS, n_classes=CLASSES)
    schema = Schema(tuple(Column(f"f{j}", "numeric") for j in range(X.shape[1])))
    table = Table(X, y, np.array([f"domain {k}" for k in d]), schema, [], "benchmark")
    session = Session(table, "standardize", Origin(""))
    yield solve_row(session)
    if CHROMIUM is not None:
        yield picture_row(session)


def solve_row(session: Session) -> Row:
    """What is timed is what the server itself times: a view, with its scatters; then the components alone."""
    split = session.split("domain 2")
    weights = cycle(np.geomspace(1, 1e6, 10))
    fold, parts = split.decompose(CIDG()), split.rows.parts

    def bare() -> None:
        for _ in range(20):
            projection = CIDG(conditional_weight=next(weights))
            fold.project(projection, fold.solve(projection), parts)

    def served() -> None:
        for _ in range(20):
            split.project(CIDG(conditional_weight=next(weights)))

    ours, path = (1e3 * seconds / 20 for seconds in best_of(10, served, bare))
    return Row(
        f"the server's solve, n={N}: ours / a bare path solve", ours / path, 3, True, f"{ours:.2f} / {path:.2f} ms"
    )


def picture_row(session: Session) -> Row:
    """Median over moves in a browser without a window, once the kernel has been decomposed."""
    from playwright.sync_api import sync_playwright

    serving = Server(Explorer({"benchmark": lambda: session}))
    thread = threading.Thread(target=serving.run, daemon=True)
    thread.start()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(serving.address)
        page.wait_for_selector(".grid", timeout=60_000)
        times = page.evaluate(MOVE, MOVES)
        browser.close()
    serving.server.should_exit = True
    thread.join()
    detail = f"{MOVES} moves, {DOMAINS} domains, {CLASSES} classes; the slowest {max(times):.0f} ms"
    return Row(f"slider to picture, n={N}, ms", float(np.median(times)), 100, True, detail)
