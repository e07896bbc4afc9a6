"""Markdown in descriptions and instructions -> HTML for a page.

The text comes from tools and servers: raw HTML is shown as text, an image becomes a link (its
address could carry data away), and a link leads to a web page or an e-mail address only. Headings
are bold lines, which the notebook's table of contents leaves alone.
"""

from __future__ import annotations

import re

from mistune import HTMLRenderer, Markdown

from onetool_ipy.base.printable import printable
from onetool_ipy.render import html

_SCHEMES = ("http://", "https://", "mailto:")
_MONO = "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px)"


_ONE = re.compile(r"<p style=[^>]*>([^\n]*)</p>")


class ProseRenderer(HTMLRenderer):
    """Renders what a description may hold."""

    def __init__(self) -> None:
        super().__init__(escape=True)

    def paragraph(self, text: str) -> str:
        return f'<p style="margin:0 0 4px">{text}</p>'

    def heading(self, text: str, level: int, **attrs: object) -> str:  # noqa: ARG002 - mistune's signature
        return f'<p style="margin:6px 0 2px;font-weight:600">{text}</p>'

    def link(self, text: str, url: str, title: str | None = None) -> str:  # noqa: ARG002 - mistune's signature
        if not url.lower().startswith(_SCHEMES):
            return text
        return f'<a href="{html.escape(url)}" target="_blank" rel="noopener noreferrer">{text}</a>'

    def image(self, text: str, url: str, title: str | None = None) -> str:  # noqa: ARG002 - mistune's signature
        return self.link(text or html.escape(url), url)

    def codespan(self, text: str) -> str:
        return f'<code style="{_MONO}">{html.escape(text)}</code>'

    def block_code(self, code: str, info: str | None = None) -> str:  # noqa: ARG002 - mistune's signature
        return f'<pre style="{_MONO};{html.CODE_BOX}">{html.escape(code.rstrip())}</pre>'


def to_html(text: str) -> str:
    """The text as HTML; a single line without the element of a paragraph."""
    markup = str(Markdown(renderer=ProseRenderer())(printable(text)))
    is_one = markup.count("<p") == 1 and _ONE.fullmatch(markup)
    return is_one[1] if is_one else markup
