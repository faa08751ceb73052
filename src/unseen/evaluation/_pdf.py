"""Print a page to a PDF file by an installed Chromium or Chrome."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
TIMEOUT_SECONDS = 120


def find_browser() -> str:
    """Path of an installed browser that prints pages; raises ImportError if there is none."""
    for name in BROWSERS:
        path = shutil.which(name)
        if path is not None:
            return path
    raise ImportError(
        f"A PDF file needs a browser that prints it: one of {', '.join(BROWSERS)} must be on the PATH. Install "
        "Chromium, or write an .html file and print it from any browser."
    )


def print_page(page: str, path: Path) -> None:
    """Print an HTML page to a PDF file."""
    browser = find_browser()
    # A confined browser does not read hidden folders, such as the one of the output.
    with tempfile.TemporaryDirectory(prefix="unseen-") as folder:
        source = Path(folder, "report.html")
        source.write_text(page, encoding="utf-8")
        output = Path(folder, "report.pdf")
        command = [
            browser,
            "--headless",
            "--no-sandbox",  # the page is this program's own, and containers do not allow a sandbox
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder}/profile",
            f"--print-to-pdf={output}",
            source.as_uri(),
        ]
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        if result.returncode != 0 or not output.exists():
            reason = result.stderr.strip().splitlines()
            raise OSError(f"{browser} did not print the page: {reason[-1] if reason else 'no message'}")
        shutil.copyfile(output, path)
