"""Templates, style and script put together into one HTML file that needs no network.

The templates come with the package and are rendered by Jinja, which the extra `report` installs. All text is escaped
by the template engine; there is no other way into a page.
"""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = "templates"


class PageError(Exception):
    """A page cannot be made; the message says why and what to do."""


def render_page(template: str, **facts: Any) -> str:
    """Render one page.

    Args:
        template: name of the template without its ending: `partition`, `campaign`, `benchmark`.
        facts: what the template draws.

    Raises:
        PageError: jinja2 is not installed.
    """
    if find_spec("jinja2") is None:
        raise PageError("cannot make a page: jinja2 is not installed; pip install 'cgverify[report]'")
    return _environment().get_template(f"{template}.html.j2").render(name=template, **facts)


def _environment() -> Environment:
    from jinja2 import DictLoader, Environment, StrictUndefined

    folder = resources.files(__package__) / TEMPLATES
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.is_file()}
    return Environment(
        loader=DictLoader(texts),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
