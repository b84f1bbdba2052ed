"""Takes the screenshots of the documentation: `python docs/images/take.py [merged.json] [rows.json]`.

The pages of rewrites are made of `model.py` beside this file, on the emulation; the others of what `cgverify campaign
merge` and `cgverify bench --json` wrote, told apart by their format, and left alone where they are not given. Needs
playwright, pillow and a Chromium on the path.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
COLOURS = 96
"""Of a palette, which keeps a picture well below 200 kB."""

FOCUS = "document.querySelectorAll('.after .trace li')[{}].focus({{preventScroll: true}}); scrollTo(0, 0)"


def draw(*arguments: str) -> None:
    """Run `cgverify` beside the model; 1 is a finding, and drawn as well."""
    result = subprocess.run([sys.executable, "-m", "cgverify", *arguments], cwd=HERE, check=False)
    if result.returncode not in (0, 1):
        raise SystemExit(result.returncode)


def main(files: list[str]) -> None:
    """Make the pages, and a picture of the first screen of each."""
    folder = Path(tempfile.mkdtemp())
    wanted = {"partition": ("light", FOCUS.format(14)), "findings": ("dark", FOCUS.format(10))}
    shown = {"partition": ("model.py:step", "cgverify"), "findings": ("model.py:serve", "thunder")}
    for name, (location, target) in shown.items():
        draw("show", location, "--target", target, "--device", "emulated", "--html", str(folder / f"{name}.html"))
    for file in map(Path, files):
        name = json.loads(file.read_text())["format"].removeprefix("cgverify-")
        draw("report", str(file.resolve()), "--html", str(folder / f"{name}.html"))
        wanted[name] = ("light", "scrollTo(0, 0)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (scheme, script) in wanted.items():
            page = browser.new_page(viewport={"width": 1440, "height": 1000}, color_scheme=scheme)
            page.goto((folder / f"{name}.html").as_uri())
            page.evaluate(script)
            picture = HERE / f"{name}.png"
            page.screenshot(path=picture)
            with Image.open(picture) as image:
                image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(picture, optimize=True)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
