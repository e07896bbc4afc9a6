"""Images, sound, resources and links in a tool's result: plain values that a notebook shows as what
they are.

Bytes from outside reach the page only as `data:` addresses of a few known types, text only escaped,
and only http(s) addresses can be clicked. An image that could contain script (SVG) goes into
`<img>`, where none runs.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.printable import printable
from onetool_ipy.core import current
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.render import html

OWN_TYPES = ("image/png", "image/jpeg", "image/gif")
"""The images that a cell shows by their own MIME type."""

_BEGINNINGS: tuple[tuple[bytes, bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", b"", "image/png"),
    (b"\xff\xd8\xff", b"", "image/jpeg"),
    (b"GIF8", b"", "image/gif"),
    (b"RIFF", b"WEBP", "image/webp"),
    (b"RIFF", b"WAVE", "audio/wav"),
    (b"ID3", b"", "audio/mpeg"),
    (b"OggS", b"", "audio/ogg"),
    (b"fLaC", b"", "audio/flac"),
)
"""The first bytes of a file, what stands at its 9th, and what it is."""
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/bmp")
_SOUND = (
    "audio/wav",
    "audio/x-wav",
    "audio/mpeg",
    "audio/mp3",
    "audio/ogg",
    "audio/webm",
    "audio/flac",
    "audio/mp4",
)
_MAX_EMBEDDED = 20_000_000
_MAX_TEXT = 20_000
_PLAIN = re.compile(r"[\w.~:/?#@!&*+,;=%-]+", re.ASCII)
_STYLE = "max-width:100%;max-height:32em"


def type_of(data: bytes) -> str:
    """Return the MIME type of bytes that are an image or sound, by how they begin; empty for any
    others."""
    matches = (
        kind
        for head, mid, kind in _BEGINNINGS
        if data.startswith(head) and data[8:12].startswith(mid)
    )
    return next(matches, "")


@without_secrets
class Image(NamedTuple):
    """An image: its MIME type and its bytes."""

    mime: str
    data: bytes

    def __repr__(self) -> str:
        return printable(f"<{self.mime or 'image'}, {len(self.data):,} bytes>")

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, str]:
        if self.mime in OWN_TYPES and len(self.data) <= _MAX_EMBEDDED:
            return {
                "text/plain": repr(self),
                self.mime: base64.b64encode(self.data).decode("ascii"),
            }
        return {"text/plain": repr(self), "text/html": _html(self)}


@without_secrets
class Audio(NamedTuple):
    """Sound: its MIME type and its bytes."""

    mime: str
    data: bytes

    def __repr__(self) -> str:
        return printable(f"<{self.mime or 'audio'}, {len(self.data):,} bytes>")

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": _html(self)}


@without_secrets
class Resource(NamedTuple):
    """An embedded resource: its address, its MIME type, its text or bytes."""

    uri: str
    mime: str
    content: str | bytes

    def __repr__(self) -> str:
        text = (
            values.cut(self.content, _MAX_TEXT)
            if isinstance(self.content, str)
            else f"{len(self.content):,} bytes"
        )
        return printable(f"<{self.uri} {self.mime}>\n{text}")

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": _html(self)}


@without_secrets
class ResourceLink(NamedTuple):
    """A link to a resource: its address and description, and the server that it can be read
    from."""

    uri: str
    name: str = ""
    description: str = ""
    mime: str = ""
    server: str = ""

    @property
    def line(self) -> str:
        """The line that reads the resource; empty where no server is known."""
        uri = self.uri if _PLAIN.fullmatch(self.uri) else json.dumps(self.uri)
        return f"%tool server read {self.server} {uri}" if self.server else ""

    def read(self) -> Any:
        """Read the resource from the server that gave the link."""
        return current.require().read_resource(self.server, self.uri).unwrap()

    def __repr__(self) -> str:
        summary = ": ".join(part for part in (self.name, self.description) if part)
        text = f"<{self.uri}> {summary}".rstrip()
        return printable(f"{text}\n{self.line}" if self.line else text)

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": _html(self)}


@without_secrets
class Blocks(list[Any]):
    """The parts of one result: text, data, images, sound, resources, links."""

    def __repr__(self) -> str:
        return list.__repr__(self)

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, str]:
        plain = "\n".join(part if isinstance(part, str) else repr(part) for part in self)
        return {"text/plain": printable(plain), "text/html": "".join(_html(part) for part in self)}


class PromptMessage(NamedTuple):
    """One message of a prompt: `user` or `assistant`, and text, an image, sound, a resource or a
    link."""

    role: str
    content: Any

    @property
    def text(self) -> str:
        """The message as text."""
        inner = self.content.content if isinstance(self.content, Resource) else self.content
        return inner if isinstance(inner, str) else repr(self.content)


@without_secrets
class PromptMessages(list[PromptMessage]):
    """The messages that a server's prompt gives. `text` is all of it as text, `images` are the
    images in it."""

    @property
    def text(self) -> str:
        """The text of all messages; with the roles if there is another one than the user's."""
        is_plain = all(message.role == "user" for message in self)
        return "\n\n".join(one.text if is_plain else f"{one.role}: {one.text}" for one in self)

    @property
    def images(self) -> list[Image]:
        return [one.content for one in self if isinstance(one.content, Image)]

    def __repr__(self) -> str:
        return printable(self.text)

    __str__ = __repr__

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, str]:
        is_plain = all(message.role == "user" for message in self)
        messages = "".join(
            ("" if is_plain else html.note(one.role)) + _html(one.content) for one in self
        )
        return {"text/plain": repr(self), "text/html": messages}


def _html(part: object) -> str:
    if isinstance(part, (Image, Audio)):
        return _medium(part.mime, part.data, repr(part))
    if isinstance(part, Resource) and isinstance(part.content, bytes):
        return _medium(part.mime, part.content, repr(part)) + html.note(part.uri)
    if isinstance(part, Resource):
        return html.pre(values.cut(str(part.content), _MAX_TEXT)) + html.note(
            f"{part.uri} {part.mime}".rstrip()
        )
    if isinstance(part, ResourceLink):
        label = html.escape(part.name or part.uri)
        details = f" {html.escape(part.description)}" if part.description else ""
        details += f"<br><code>{html.escape(part.line)}</code>" if part.line else ""
        if not part.uri.lower().startswith(("http://", "https://")):
            return (
                f'<div class="{html.AS_TEXT}">{label}'
                f" <code>{html.escape(part.uri)}</code>{details}</div>"
            )
        anchor = (
            f'<a href="{html.escape(part.uri)}" target="_blank" rel="noopener'
            f' noreferrer">{label}</a>'
        )
        return html.as_text(anchor + details)
    return html.pre(part if isinstance(part, str) else values.cut(values.to_text(part), _MAX_TEXT))


def _medium(mime: str, data: bytes, label: str) -> str:
    if mime not in _IMAGES + _SOUND or len(data) > _MAX_EMBEDDED:
        return html.pre(label)
    address = f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"
    if mime in _SOUND:
        return f'<audio controls src="{address}"></audio>'
    return f'<img alt="{html.escape(label)}" style="{_STYLE}" src="{address}">'
