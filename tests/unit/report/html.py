"""Reads a page the way a browser would, and says what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "circle", "hr", "img", "input", "link", "meta", "path", "rect"}


@dataclass
class Page(HTMLParser):
    """A page, parsed.

    Attributes:
        ids: every id, in order.
        references: ids that attributes and links point to.
        urls: what would be loaded from elsewhere.
        tags: every opened element, in order.
        texts: every piece of text outside of style and script.
        unclosed: what was opened and closed in the wrong order.
    """

    html: str
    ids: list[str] = field(default_factory=list)
    references: set[str] = field(default_factory=set)
    urls: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self.feed(self.html)
        self.close()
        self.unclosed += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self._open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("aria-labelledby", "aria-describedby", "aria-controls"):
                self.references.update((value or "").split())
            elif name in ("href", "src", "action", "data", "xlink:href"):
                if (value or "").startswith("#"):
                    self.references.add((value or "")[1:])
                else:
                    self.urls.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open.pop() != tag:
            self.unclosed.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return " ".join(" ".join(self.texts).split())


def find_page_faults(page: Page) -> list[str]:
    """What makes a page less than one self-contained, well-formed file; empty if nothing does."""
    faults = [f"wrongly nested: {tag}" for tag in page.unclosed]
    faults += [f"id twice: {name}" for name in {name for name in page.ids if page.ids.count(name) > 1}]
    faults += [f"points nowhere: {name}" for name in sorted(page.references - set(page.ids))]
    faults += [f"loads {url}" for url in page.urls if not url.startswith("data:")]
    faults += [f"loads {url}" for url in re.findall(r"(?:@import|url\()[^;)]*", page.html)]
    faults += [f"names {url}" for url in re.findall(r"https?://[^\s\"'<]+", page.html)]
    return faults
