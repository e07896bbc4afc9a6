"""What MCP clients read: stored results in pages, the documentation of packs, and tools marked `resource`.

    onetool://result/HANDLE{?offset,limit,search}    lines of a stored result
    onetool://docs/PACK                              the tools of a pack, in Markdown
    any other                                        what the tool with that address, or a template of it, gives

An answer is bounded. Values for a template are refused where they lead out of a folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import mcp_types as types
from mcp.shared.path_security import contains_path_traversal, is_absolute_path
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from onetool_ipy.base.errors import TooLarge
from onetool_ipy.base.printable import printable
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.mcp.content import content_blocks, medium_of, result_uri
from onetool_ipy.packs.ot.catalog import pack_text
from onetool_ipy.render.media import Audio, Image, Resource
from onetool_ipy.toolbox import Toolbox

__all__ = ["DOCS", "MAX_LINES", "RESULT_TEMPLATE", "ResultPage", "docs_text", "match_tool", "resource_contents"]

DOCS = "onetool://docs/"
MAX_LINES = 1_000
"""How many lines of a stored result are read at a time."""
RESULT_TEMPLATE = "onetool://result/{handle}{?offset,limit,search}"

_MAX_PAGE = 1_000_000
_RESULT = UriTemplate.parse(RESULT_TEMPLATE)
_PAGE_KEY = "onetool_ipy/page"


class ResultPage(NamedTuple):
    """Which lines of which stored result are asked for."""

    uri: str
    handle: str
    offset: int
    limit: int
    search: str

    @classmethod
    def of(cls, uri: str) -> ResultPage | None:
        """Return the page that an address names; None for another address. Raises ValueError for wrong numbers."""
        found = _RESULT.match(uri)
        if found is None:
            return None
        text = {name: value for name, value in found.items() if isinstance(value, str)}
        offset, limit = (_whole(name, text.get(name, str(usual))) for name, usual in (("offset", 1), ("limit", 100)))
        return cls(uri, text.get("handle", ""), offset, min(limit, MAX_LINES), text.get("search", ""))

    def contents(self, answer: Mapping[str, Any]) -> types.TextResourceContents:
        """Return the lines of an answer of `ot.result`, and where to read on."""
        lines: list[str] = []
        size = 0
        for line in answer["lines"]:
            size += len(line) + 1
            if lines and size > _MAX_PAGE:
                break
            lines.append(line[:_MAX_PAGE])
        page = {key: answer[key] for key in ("total_lines", "matched", "searched", "offset") if key in answer}
        has_more = answer["has_more"] or len(lines) < len(answer["lines"])
        page |= {"returned": len(lines), "has_more": has_more}
        if has_more:
            more = _RESULT.expand(
                {
                    "handle": self.handle,
                    "offset": str(self.offset + len(lines)),
                    "limit": str(self.limit),
                    **({"search": self.search} if self.search else {}),
                }
            )
            page["next"] = more
        return types.TextResourceContents(
            uri=self.uri, mime_type="text/plain", text="\n".join(lines), _meta={_PAGE_KEY: page}
        )


def match_tool(uri: str, specs: Iterable[ToolSpec]) -> tuple[ToolSpec, dict[str, str]] | None:
    """Return the tool that an address belongs to, and the values that its template takes from the address."""
    for spec in specs:
        if spec.resource == uri:
            return spec, {}
        if not UriTemplate.is_template(spec.resource):
            continue
        try:
            found = UriTemplate.parse(spec.resource).match(uri)
        except InvalidUriTemplate:
            continue
        if found is not None and all(isinstance(value, str) and _is_safe(value) for value in found.values()):
            return spec, {name: str(value) for name, value in found.items()}
    return None


def resource_contents(box: Toolbox, uri: str, value: Any, outgoing: Any) -> list[Any]:
    """Return what a tool gave as contents of its resource; `outgoing` is its JSON, or its handle. Raises TooLarge."""
    found = medium_of(value)
    if isinstance(found, (Image, Audio)):
        found = Resource(uri, found.mime, found.data)
    if isinstance(found, Resource):
        address = uri if found.uri == "onetool://bytes" else found.uri
        (block,) = content_blocks(found._replace(uri=address), box.mask)
        return [block.resource] if isinstance(block, types.EmbeddedResource) else []
    if isinstance(outgoing, dict) and outgoing.keys() == {"handle", "total_lines", "preview"}:
        raise TooLarge(
            f"'{printable(uri)}' is large. Read its {outgoing['total_lines']:,} lines in pages: "
            f"{result_uri(outgoing['handle'])}?offset=1&limit=100"
        )
    if isinstance(outgoing, str):
        return [types.TextResourceContents(uri=uri, mime_type="text/plain", text=box.mask(outgoing))]
    text = json.dumps(outgoing, ensure_ascii=False)
    return [types.TextResourceContents(uri=uri, mime_type="application/json", text=box.mask(text))]


def docs_text(box: Toolbox, pack: str, specs: list[ToolSpec]) -> str:
    """Return the documentation of the tools of a pack that are offered, in Markdown."""
    parts = [pack_text(box, pack, specs)]
    for spec in specs:
        lines = [f"### {spec.name}", "", f"    {spec.signature}", "", spec.description]
        lines += ["", *(f"- {arg}" for arg in spec.args)] if spec.args else []
        lines += ["", f"Returns: {spec.returns}"] if spec.returns else []
        lines += ["", *(f"    {line}" for line in spec.example.splitlines())] if spec.example else []
        parts.append("\n".join(lines))
    return box.mask(printable("\n\n".join(parts)))


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and int(text) > 0):
        raise ValueError(f"{name} must be a whole number from 1 on, not '{printable(text[:40])}'.")
    return int(text)


def _is_safe(value: str) -> bool:
    return "\0" not in value and not contains_path_traversal(value) and not is_absolute_path(value)
