"""Markdown from a model -> Markdown that is safe to show: no HTML, no script, no image that would
be loaded.

The address of an image can carry away what the model has read, so an image becomes a link. A link
may lead to a web page, an e-mail address or into the page itself; any other (`javascript:`) is
shown as written. A `$` is a dollar sign unless it encloses what can only be a formula: `$x^2$`, but
not the prices in "was $5, now $4". Code stays as written, but in an unambiguous form: a block gets
its fence at the margin, and inline code with doubtful characters becomes an element of ours.
"""

from __future__ import annotations

import re

from onetool_ipy.base.printable import printable
from onetool_ipy.render.html import AS_TEXT

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<mark>`{3,}+|~{3,}+)(?P<info>[^`\n]*)")
_INLINE = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)")
_DOUBTFUL = re.compile(r"[<|]|!\[|\][(:]|`{3}|~{3}")
_RUN = re.compile(r"`{3,}|~{3,}")
_LINK = re.compile(r"\](?P<sign>[(:])(?!\s*(?:https?://|mailto:|#))", re.IGNORECASE)
_DOLLARS = re.compile(
    r"^\s*\$\$\s*$|\$\$(?=\S)[^$]+(?<=\S)\$\$|(?<![\w$])\$(?=[^\s\d$])[^$]*(?<=\S)\$(?![\w$])|\$"
)
"""A formula, or a single dollar sign. A formula has no blank inside its signs, and does not begin
with a digit."""
_DOLLAR = f'<span class="{AS_TEXT}">&#36;</span>'
_INFO = re.compile(r"[^\w+#.-]")


def safe(text: str) -> str:
    """The text with HTML shown as text, images as links, and code unchanged."""
    out: list[str] = []
    fence, indent = "", 0
    for line in printable(text.replace("\r\n", "\n").replace("\r", "\n")).split("\n"):
        match = _FENCE.fullmatch(line)
        if fence:
            is_end = (
                match is not None and match["mark"].startswith(fence) and not match["info"].strip()
            )
            out.append(fence if is_end else line[min(indent, len(line) - len(line.lstrip())) :])
            fence = "" if is_end else fence
        elif match is not None:
            fence, indent = match["mark"], len(match["indent"])
            out += ["", fence + _INFO.sub("", match["info"].strip().split(" ")[0])]
        else:
            parts, end = list[str](), 0
            for hit in _INLINE.finditer(line):
                # Inline code with doubtful characters is written with a character reference for
                # each of them.
                is_doubtful = _DOUBTFUL.search(hit[0]) is not None
                code = f"<code>{_references(hit['code'].strip())}</code>" if is_doubtful else hit[0]
                parts += [_plain(line[end : hit.start()]), code]
                end = hit.end()
            out.append("".join([*parts, _plain(line[end:])]))
    return "\n".join([*out, fence] if fence else out)


def _plain(text: str) -> str:
    text = _LINK.sub(
        lambda hit: f"]{_references(hit['sign'])}", text.replace("<", "&lt;").replace("![", "[")
    )
    text = _RUN.sub(lambda run: _references(run[0]), text)
    return _DOLLARS.sub(lambda hit: hit[0] if len(hit[0]) > 1 else _DOLLAR, text)


def _references(text: str) -> str:
    return "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in text)
