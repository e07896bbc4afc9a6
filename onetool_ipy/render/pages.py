"""Pages for people: a few parts, shown as HTML in a notebook and as aligned text in a terminal.

A part holds plain text, which is escaped here. A name in a list is a link only where our JupyterLab
extension draws one: the button behind it is empty and hidden, so that saved files and other front
ends show the bare name, once.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from onetool_ipy.base.printable import printable
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.render import html
from onetool_ipy.render.views import Text

Status = Literal["", "good", "warning", "bad"]
Link = Literal["", "tool", "line"]
"""What a click on a name does: open the tool or pack in the panel, or put the line into a cell."""

_COLOURS: dict[Status, str] = {
    "good": "var(--jp-success-color1,#388e3c)",
    "warning": "var(--jp-warn-color1,#f57c00)",
    "bad": "var(--jp-error-color1,#d32f2f)",
}
_MAX_NAME = 32
"""A longer name, or line of code, has its text below it."""
_MAX_PROSE = 20_000
_PLACEHOLDER = re.compile(r"(?<= )(?:\[|\S*\||\.\.\.|[A-Z]{2}|key=)")
"""What a person fills in: the line that goes into a cell ends before it."""
_SOFT = "color:var(--jp-ui-font-color2,#757575)"
_LINE = "border-bottom:1px solid var(--jp-border-color2,rgba(128,128,128,.35))"
_MONO = "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px)"
_SANS = "font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px;line-height:1.45"
_PAGE = f"{html.EDGE};{_SANS};max-width:68em"
_TABLE = f"{_SANS};border-collapse:collapse;border:0;margin:2px 0 8px;width:100%;table-layout:auto"
_CELL = f"{_LINE};text-align:left;vertical-align:top;padding:4px 14px 4px 0;background:none"
_HEADS = ("", "font-size:17px;margin:2px 0 6px", "font-size:13px;margin:10px 0 2px")


class Heading(NamedTuple):
    """The title of a page (level 1) or of a part of it (level 2), and a few words about it."""

    text: str
    about: str = ""
    level: int = 1
    link: Link = ""


class Prose(NamedTuple):
    """Markdown; a terminal shows it as written."""

    text: str


class Note(NamedTuple):
    """A small line of plain text."""

    text: str


class Code(NamedTuple):
    """Lines to copy."""

    text: str


class Row(NamedTuple):
    """A name, a short label such as a type or a state, and what there is to say about it."""

    name: str
    text: str = ""
    label: str = ""
    status: Status = ""
    link: Link = ""


class Rows(NamedTuple):
    """A list of names; `is_prose` if the texts are Markdown."""

    rows: tuple[Row, ...]
    is_prose: bool = False


class Folded(NamedTuple):
    """Parts behind a line that unfolds; a terminal shows them all."""

    title: str
    parts: tuple[Any, ...]


Part = Heading | Prose | Note | Code | Rows | Folded


@without_secrets
class PageText(Text):
    """The text of a page, and its parts; without parts it is shown as preformatted text."""

    parts: tuple[Part, ...]

    def __new__(cls, text: str, parts: Iterable[Part] = ()) -> PageText:
        page = super().__new__(cls, text)
        page.parts = tuple(parts)
        return page

    def _repr_html_(self) -> str:
        return to_html(self.parts) if self.parts else super()._repr_html_()

    def masked(self, mask: Callable[[str], str]) -> PageText:
        return type(self)(mask(str(self)), masked(self.parts, mask))


def tool_rows(specs: Iterable[ToolSpec], is_recommended: Callable[[ToolSpec], bool]) -> Rows:
    """Tools with their summaries."""
    labelled = ((spec, "recommended" if is_recommended(spec) else "") for spec in specs)
    return Rows(
        tuple(Row(spec.name, spec.summary, label, link="tool") for spec, label in labelled),
        is_prose=True,
    )


def masked(part: object, mask: Callable[[str], str]) -> Any:
    """A part, or a tuple of parts, without secrets."""
    if isinstance(part, str):
        return mask(part)
    if not isinstance(part, tuple):
        return part
    inner = [masked(each, mask) for each in part]
    return type(part)(*inner) if hasattr(part, "_fields") else tuple(inner)


def to_html(parts: Iterable[Part]) -> str:
    """The page for a notebook: no script, nothing from elsewhere, all text escaped."""
    return (
        f'<div class="{html.AS_TEXT} otx-page" style="{_PAGE}">{"".join(map(_html, parts))}</div>'
    )


def _html(part: Part) -> str:
    match part:
        case Heading(text, about, level, link):
            style = (
                f"{_MONO};font-weight:400"
                if about.startswith("(")
                else f"{_SOFT};font-weight:400;font-size:13px"
            )
            suffix = (
                f'{_gap(about)}<span style="{style}">{html.escape(about)}</span>' if about else ""
            )
            name = _linked(
                text,
                link,
                f'<span style="{_MONO}">{html.escape(text)}</span>' if link else html.escape(text),
            )
            return (
                "<div"
                f' style="font-weight:600;overflow-wrap:anywhere;{_HEADS[level]}">{name}{suffix}'
                "</div>"
            )
        case Prose(text):
            return f'<div style="margin:2px 0 6px">{_prose(text)}</div>'
        case Note(text):
            return (
                f'<div style="{_SOFT};margin:2px 0'
                f' 4px;overflow-wrap:anywhere">{html.escape(text)}</div>'
            )
        case Code(text):
            return f'<pre style="{_MONO};{html.CODE_BOX}">{html.escape(text)}</pre>'
        case Rows(rows, is_prose):
            has_labels = any(row.label or row.status for row in rows)
            cells = (
                "".join(_cells(row, has_labels, _prose if is_prose else html.escape))
                for row in rows
            )
            body = "".join(f'<tr style="background:none">{line}</tr>' for line in cells)
            return f'<table style="{_TABLE}"><tbody>{body}</tbody></table>'
        case Folded(title, parts):
            summary = f'<summary style="cursor:pointer">{html.escape(title)}</summary>'
            return f'<details style="margin:4px 0">{summary}{"".join(map(_html, parts))}</details>'


def _gap(about: str) -> str:
    """The blank between a title and the words about it; none before the arguments of a
    signature."""
    return " " if about and not about.startswith("(") else ""


def _prose(text: str) -> str:
    if len(text) > _MAX_PROSE:
        return html.pre(text)
    from onetool_ipy.render.prose import to_html as markdown_html

    return markdown_html(text)


def _cells(row: Row, has_labels: bool, written: Callable[[str], str]) -> Iterable[str]:
    is_long = len(row.name) > _MAX_NAME
    name = _linked(row.name, row.link, f'<span style="{_MONO}">{html.escape(row.name)}</span>')
    label = (
        f'<span style="{"" if row.status else _SOFT}">{html.escape(row.label)}</span>'
        if has_labels
        else ""
    )
    if row.status:
        label = (
            f'<span aria-hidden="true" style="color:{_COLOURS.get(row.status, "inherit")}">●</span>'
            f" {label}"
        )
    if is_long:
        below = f'<div style="{_SANS};margin-top:1px">{written(row.text)}</div>' if row.text else ""
        labelled = f"&ensp;{label}" if label else ""
        yield f'<td colspan="3" style="{_CELL};overflow-wrap:anywhere">{name}{labelled}{below}</td>'
        return
    yield f'<td style="{_CELL};white-space:nowrap;width:1%">{name}</td>'
    if has_labels:
        yield f'<td style="{_CELL};white-space:nowrap;width:1%">{label}</td>'
    yield f'<td style="{_CELL};white-space:normal;overflow-wrap:anywhere">{written(row.text)}</td>'


def _linked(name: str, link: Link, text: str) -> str:
    """A name, and in JupyterLab an empty button over it."""
    if not link:
        return text
    command = "onetool:show" if link == "tool" else "onetool:insert"
    line = _PLACEHOLDER.split(name)[0]
    args, does = (
        ({"name": name}, "Open") if link == "tool" else ({"line": line}, "Put into a cell:")
    )
    label = html.escape(f"{does} {name}")
    return (
        f'<span class="otx-link">{text}<button type="button" class="otx-go" style="display:none"'
        f' title="{label}" aria-label="{label}" data-commandlinker-command="{command}"'
        f' data-commandlinker-args="{html.escape(json.dumps(args))}"></button></span>'
    )


def to_text(parts: Sequence[Part], width: int = 100) -> str:
    """The page for a terminal of this width."""
    out = ""
    before: Part | None = None
    for part in parts:
        text = "\n".join(_text(part, width))
        is_below = isinstance(before, Heading) and before.level > 1
        out += (
            f"\n{textwrap.indent(text, '  ') if isinstance(part, Prose) else text}"
            if is_below
            else f"\n\n{text}"
        )
        before = part
    return textwrap.dedent(out).strip("\n") if len(parts) == 1 else out.strip("\n")


def _text(part: Part, width: int) -> list[str]:
    match part:
        case Heading(text, about, level, _):
            suffix = f" ({about})" if _gap(about) else about
            return [printable(text + suffix + (":" if level > 1 else ""))]
        case Prose(text) | Note(text):
            return [printable(text)]
        case Code(text):
            return [f"  {printable(line)}" for line in text.split("\n")]
        case Rows(rows, _):
            # Names, labels and texts in columns; a text that is too wide goes on below itself.
            names = max((len(row.name) for row in rows if len(row.name) <= _MAX_NAME), default=0)
            labels = max((len(row.label) for row in rows), default=0)
            lines: list[str] = []
            for row in rows:
                head = f"  {printable(row.name):<{names}}" + (
                    f"  {printable(row.label):<{labels}}" if labels else ""
                )
                indent = 2 + names + (2 + labels if labels else 0) + 2
                texts = textwrap.wrap(
                    printable(row.text),
                    max(width - indent, 30),
                    break_long_words=False,
                    break_on_hyphens=False,
                )
                if len(row.name) > _MAX_NAME and texts:
                    lines += [head.rstrip(), *(" " * indent + line for line in texts)]
                else:
                    first, *more = texts or [""]
                    lines += [f"{head}  {first}".rstrip(), *(" " * indent + line for line in more)]
            return lines
        case Folded(title, parts):
            return [f"{printable(title)}:", textwrap.indent(to_text(parts, width - 2), "  ")]
