"""Images, sound, resources and links that a tool gave: plain values, which a notebook shows as what they are.

Bytes from outside reach the page only as `data:` addresses of a few known types, words only escaped, and only http(s)
addresses can be clicked. A picture that could hold script (SVG) goes into `<img>`, where none runs.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.printable import printable
from onetool_ipy.render import html

__all__ = ["Audio", "Blocks", "Image", "Link", "Resource"]

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/bmp")
_OWN_TYPE = ("image/png", "image/jpeg", "image/gif")
_SOUND = ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/webm", "audio/flac", "audio/mp4")
_MAX_EMBEDDED = 20_000_000
_MAX_TEXT = 20_000
_LOOK = "max-width:100%;max-height:32em"


class Image(NamedTuple):
    """A picture: its MIME type and its bytes."""

    mime: str
    data: bytes

    def __repr__(self) -> str:
        return printable(f"<{self.mime or 'image'}, {len(self.data):,} bytes>")

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, str]:
        if self.mime in _OWN_TYPE and len(self.data) <= _MAX_EMBEDDED:
            return {"text/plain": repr(self), self.mime: base64.b64encode(self.data).decode("ascii")}
        return {"text/plain": repr(self), "text/html": _html(self)}


class Audio(NamedTuple):
    """Sound: its MIME type and its bytes."""

    mime: str
    data: bytes

    def __repr__(self) -> str:
        return printable(f"<{self.mime or 'audio'}, {len(self.data):,} bytes>")

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": _html(self)}


class Resource(NamedTuple):
    """A resource that came along: its address, its MIME type, its text or bytes."""

    uri: str
    mime: str
    content: str | bytes

    def __repr__(self) -> str:
        said = values.cut(self.content, _MAX_TEXT) if isinstance(self.content, str) else f"{len(self.content):,} bytes"
        return printable(f"<{self.uri} {self.mime}>\n{said}")

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": _html(self)}


class Link(NamedTuple):
    """A resource that can be asked for: its address and what it is."""

    uri: str
    name: str = ""
    description: str = ""
    mime: str = ""

    def __repr__(self) -> str:
        said = ": ".join(part for part in (self.name, self.description) if part)
        return printable(f"<{self.uri}> {said}".rstrip())

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": _html(self)}


class Blocks(list[Any]):
    """Several pieces of one result: text, data, images, sound, resources, links."""

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, str]:
        plain = "\n".join(piece if isinstance(piece, str) else repr(piece) for piece in self)
        return {"text/plain": printable(plain), "text/html": "".join(_html(piece) for piece in self)}


def _html(piece: Any) -> str:
    if isinstance(piece, (Image, Audio)):
        return _medium(piece.mime, piece.data, repr(piece))
    if isinstance(piece, Resource) and isinstance(piece.content, bytes):
        return _medium(piece.mime, piece.content, repr(piece)) + html.note(piece.uri)
    if isinstance(piece, Resource):
        return html.pre(values.cut(str(piece.content), _MAX_TEXT)) + html.note(f"{piece.uri} {piece.mime}".rstrip())
    if isinstance(piece, Link):
        return _link(piece)
    return html.pre(piece if isinstance(piece, str) else values.cut(values.to_text(piece), _MAX_TEXT))


def _medium(mime: str, data: bytes, label: str) -> str:
    if mime not in _IMAGES + _SOUND or len(data) > _MAX_EMBEDDED:
        return html.pre(label)
    address = f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"
    if mime in _SOUND:
        return f'<audio controls src="{address}"></audio>'
    return f'<img alt="{html.escape(label)}" style="{_LOOK}" src="{address}">'


def _link(link: Link) -> str:
    label = html.escape(link.name or link.uri)
    said = f" {html.escape(link.description)}" if link.description else ""
    if not link.uri.lower().startswith(("http://", "https://")):
        return f"<div>{label} <code>{html.escape(link.uri)}</code>{said}</div>"
    return f'<div><a href="{html.escape(link.uri)}" target="_blank" rel="noopener noreferrer">{label}</a>{said}</div>'
