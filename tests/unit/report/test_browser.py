"""The pages in headless Chromium: nothing on the console, no sideways scrolling, everything by keyboard.

Needs the package playwright and a Chromium on the path: `pip install playwright axe-playwright-python` and, on Debian,
`apt-get install chromium`. Skipped with a reason where one is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cgverify.report.benchmark import render_benchmark
from cgverify.report.campaign import render_campaign
from cgverify.report.drawing import render_partition
from cgverify.report.partition import show_function
from cgverify.report.score import read_score
from tests.unit.report.test_results import benchmark, campaign, mutants

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
FUNCTION = f"{Path(__file__).parents[1] / 'cli_files' / 'pictured.py'}:divided"
TRAINED = f"{Path(__file__).parents[1] / 'cli_files' / 'model.py'}:step"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Each page in a file, by name."""
    folder = tmp_path_factory.mktemp("pages")
    written = {
        "partition": render_partition(show_function(FUNCTION, device="emulated")),
        "trained": render_partition(show_function(TRAINED, device="emulated")),
        "judged": render_partition(show_function(FUNCTION, target="thunder", device="emulated")),
        "benchmark": render_benchmark(benchmark()),
        "campaign": render_campaign(campaign(), read_score(mutants())),
    }
    for name, html in written.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in written}


def open_page(browser: Any, url: str, **options: Any) -> tuple[Any, list[str]]:
    """Open a page, and return it with what it says on the console."""
    said: list[str] = []
    page = browser.new_page(**options)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
    page.goto(url)
    return page, said


@pytest.mark.parametrize("name", ["partition", "trained", "judged", "benchmark", "campaign"])
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_page_is_quiet_and_fits(browser: Any, pages: dict[str, str], name: str, width: int, scheme: str) -> None:
    """A page says nothing on the console, asks no network, and is no wider than the window."""
    page, said = open_page(browser, pages[name], viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.mark.parametrize("name", ["trained", "judged", "benchmark", "campaign"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_keeps_the_rules_of_access(browser: Any, pages: dict[str, str], name: str, scheme: str) -> None:
    """axe, which checks what WCAG asks and a program can see, finds nothing, a line in focus or not."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    page, _ = open_page(browser, pages[name], viewport={"width": 1440, "height": 900}, color_scheme=scheme)
    if name in ("trained", "judged"):
        page.focus("#s0-a2")
    assert [violation["id"] for violation in axe.run(page).response["violations"]] == []
    page.close()


def focused(page: Any) -> str:
    found: str = page.evaluate("document.activeElement.id")
    return found


def test_traces_are_read_by_keyboard(browser: Any, pages: dict[str, str]) -> None:
    """Arrows go along a trace and to the partner in the other, PgDn to what stands after the region."""
    page, said = open_page(browser, pages["partition"], viewport={"width": 1440, "height": 900})
    page.focus("#s0-a0")
    walked = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight", "PageDown", "PageDown", "PageUp"):
        page.keyboard.press(key)
        walked.append(focused(page))
    assert walked == ["s0-a1", "s0-a2", "s0-a2.0", "s0-b2", "s0-a2.0", "s0-a3", "s0-a7", "s0-a3"]
    assert page.get_attribute("#s0-a3", "aria-selected") == "true"
    assert "waits for the device" in page.inner_text(".inspector")
    assert said == []
    page.close()


def test_a_line_shows_its_neighbours(browser: Any, pages: dict[str, str]) -> None:
    """The line in focus marks its partner, what makes its inputs, and what uses its results; nothing else."""
    page, _ = open_page(browser, pages["partition"], viewport={"width": 1440, "height": 900})
    page.focus("[id='s0-a2.2']")
    marked = {
        name: page.evaluate(f"[...document.querySelectorAll('.trace .{name}')].map((line) => line.id)")
        for name in ("partner", "maker", "user")
    }
    assert marked == {"partner": ["s0-b3"], "maker": ["s0-a2.0"], "user": ["s0-a2.4", "s0-a5"]}
    page.close()


def test_tabs_and_theme_answer_keys(browser: Any, pages: dict[str, str]) -> None:
    """The first Tab reaches the skip link, arrows change the sheet, and the theme button goes round."""
    page, _ = open_page(browser, pages["trained"], viewport={"width": 1440, "height": 900}, color_scheme="light")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#tab-0")
    page.keyboard.press("ArrowRight")
    assert (page.is_visible("#s0"), page.is_visible("#s1")) == (False, True)
    grounds = []
    for _ in range(3):
        page.focus("#theme")
        page.keyboard.press("Enter")
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(250, 249, 246)", "rgb(20, 22, 26)", "rgb(250, 249, 246)"]
    page.close()


def test_page_without_script_shows_everything(browser: Any, pages: dict[str, str]) -> None:
    """Without JavaScript both sheets are there, and nothing is offered that would not work."""
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(pages["trained"])
    assert page.locator(".sheet").count() == 2
    assert all(page.locator(".sheet").nth(k).is_visible() for k in range(2))
    assert not page.is_visible("#theme") and not page.locator(".inspector").first.is_visible()
    page.close()


def test_heat_map_is_read_by_keyboard(browser: Any, pages: dict[str, str]) -> None:
    """Arrows move the cell, and the text beneath says what it counts."""
    page, said = open_page(browser, pages["campaign"])
    page.focus("#heat")
    assert page.inner_text("#heat-words") == "mul feeds mul: once"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#heat-words") == "mul feeds add: 7 times"
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#heat-words") == "add feeds add: never"
    assert said == []
    page.close()
