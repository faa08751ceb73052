"""Write docs/_static/report.png, the picture in the README: the top of the report that ``unseen demo`` wrote.

Usage: ``python docs/screenshot.py report.html``. Needs Chromium, and what ``make test`` installs.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

OUTPUT = Path(__file__).parent / "_static" / "report.png"

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1080, "height": 828}, color_scheme="light")
    page.goto(Path(sys.argv[1]).resolve().as_uri())
    page.screenshot(path=OUTPUT)
    browser.close()
Image.open(OUTPUT).convert("RGB").quantize(64).save(OUTPUT, optimize=True)
print(f"Wrote {OUTPUT} ({OUTPUT.stat().st_size / 1000:.0f} kB).")
