"""Origin: where a value came from, as a tree of calls. It prints as text, and a notebook shows it
as a picture (SVG).

A node is one call. Below it are the calls whose results its arguments were made of, and the calls
that it made itself. Every call is shown once: where it comes again, its line says so.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from onetool_ipy.base import values
from onetool_ipy.base.printable import printable_line
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.render.html import escape
from onetool_ipy.render.views import local_time, milliseconds

_MAX_LINE = 110
_ROW, _INDENT, _CHARACTER, _PAD = 44, 28, 7.3, 10


@without_secrets
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Origin:
    """One call of a tree. `role` says why it is there: the argument that came from it, or "called".

    `call` is the line that makes the call again, as far as the log has its arguments. `changed`
    says whether the tool is another one by now; `is_repeated` that the call is shown with its parts
    in another place.
    """

    call_id: str
    tool: str
    call: str
    role: str = ""
    ok: bool = True
    when: datetime.datetime | None = None
    ms: float = 0.0
    notebook: str = ""
    cell: str = ""
    fingerprint: str = ""
    handle: str = ""
    parent: str = ""
    changed: str = ""
    more: str = ""
    is_repeated: bool = False
    parts: tuple[Origin, ...] = ()

    @property
    def facts(self) -> str:
        """When and where the call was made, and how it went."""
        # Where the page gives cells ids, nobody knows a cell by it.
        place = f"cell [{self.cell}]" if self.cell.isdecimal() else ""
        place += (
            (" of " if place else "") + self.notebook.rpartition("/")[2] if self.notebook else ""
        )
        moment = "" if self.when is None else f"{local_time(self.when)}, {milliseconds(self.ms)}"
        facts = [
            moment,
            "" if self.ok else "failed",
            place,
            f"handle {self.handle}" if self.handle else "",
        ]
        return " · ".join(fact for fact in (*facts, self.changed, self.more) if fact)

    @property
    def title(self) -> str:
        """The call with its role, on one line."""
        role = f"{self.role}: " if self.role else ""
        return printable_line(
            values.cut(role + self.call, _MAX_LINE) + (" (above)" if self.is_repeated else "")
        )

    def calls(self) -> Iterator[Origin]:
        """All calls of the tree, this one first."""
        yield self
        for part in self.parts:
            yield from part.calls()

    def __repr__(self) -> str:
        return "\n".join(self._lines("", ""))

    def _lines(self, lead: str, below: str) -> Iterator[str]:
        yield (
            lead
            + self.title
            + (f"  [{printable_line(self.facts)}]" if self.facts and not self.is_repeated else "")
        )
        for part in self.parts:
            is_last = part is self.parts[-1]
            yield from part._lines(
                below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  ")
            )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002 - IPython's
        return {"text/plain": repr(self), "image/svg+xml": self.svg()}

    def svg(self) -> str:
        """The tree as a picture: a box for each call, the newest at the top."""
        boxes: list[str] = []
        width = 0.0

        def draw(node: Origin, depth: int) -> int:
            nonlocal width
            row, x = len(boxes), depth * _INDENT
            y, facts = (
                row * _ROW,
                printable_line(values.cut("" if node.is_repeated else node.facts, _MAX_LINE)),
            )
            length = max(len(node.title), len(facts)) * _CHARACTER + 2 * _PAD
            width = max(width, x + length)
            boxes.append("")
            lines = []
            for part in node.parts:
                middle = draw(part, depth + 1) * _ROW + _ROW / 2 - 3
                lines.append(
                    f'<path d="M{x + 12} {y + _ROW - 6}V{middle}H{x + _INDENT}" class="l"/>'
                )
            boxes[row] = (
                f'{"".join(lines)}<rect x="{x}" y="{y}" width="{length:.0f}" height="{_ROW - 6}"'
                f' rx="4" class="{"b" if node.ok else "b f"}"/><text x="{x + _PAD}"'
                f' y="{y + 16}">{escape(node.title)}</text><text x="{x + _PAD}" y="{y + 31}"'
                f' class="s">{escape(facts)}</text>'
            )
            return row

        draw(self, 0)
        style = (
            "text{font:12px ui-monospace,monospace;fill:var(--jp-ui-font-color1,#333)}"
            ".s{font-size:11px;fill:var(--jp-ui-font-color2,#777)}"
            ".b{fill:none;stroke:var(--jp-border-color1,#999)}.f{stroke:#c62828}"
            ".l{fill:none;stroke:var(--jp-border-color1,#999)}"
        )
        # A rule of one picture must not reach the others of a page.
        scoped = style.replace("text{", ".ot-origin text{").replace("}.", "}.ot-origin .")
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" class="ot-origin" role="img"'
            f' aria-label="{escape(self.title)}" width="{width + 2:.0f}"'
            f' height="{len(boxes) * _ROW}" viewBox="-1 -1 {width + 2:.0f}'
            f' {len(boxes) * _ROW}"><style>{scoped}</style>{"".join(boxes)}</svg>'
        )
