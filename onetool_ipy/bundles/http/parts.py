"""Files in a request: the fields of a multipart form, and a body of bytes. Pure.

A file is `{base64, filename?, mime?}`, which is also what Python's bytes are as JSON; text stands for itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from onetool_ipy.core.errors import InvalidArgs

__all__ = ["File", "as_file", "multipart"]

_MIME = re.compile(r"[\w.+-]+/[\w.+-]+(?:; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)


class File(NamedTuple):
    """Bytes, with what they are called and what they are."""

    content: bytes
    filename: str
    mime: str


def as_file(name: str, value: Any) -> File | None:
    """The file that a value is; None for one that is none. `name` is what the value belongs to, in errors."""
    if not isinstance(value, dict) or not isinstance(value.get("base64"), str):
        return None
    try:
        content = base64.b64decode(value["base64"], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgs(f"What '{name}' has in base64 is no base64.") from None
    mime = value.get("mime") or "application/octet-stream"
    if not isinstance(mime, str) or not _MIME.fullmatch(mime):
        raise InvalidArgs(f"What '{name}' has as mime is no media type.")
    return File(content, str(value.get("filename") or name), mime)


def multipart(fields: Iterable[tuple[str, Any]]) -> tuple[bytes, str]:
    """A form with files as it is sent, and its Content-Type."""
    parts: list[bytes] = []
    for name, value in fields:
        file = as_file(name, value)
        head = f'Content-Disposition: form-data; name="{_quoted(name)}"'
        if file is None:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            content = text.encode("utf-8", "surrogatepass")
        else:
            head += f'; filename="{_quoted(file.filename)}"\r\nContent-Type: {file.mime}'
            content = file.content
        parts.append(f"{head}\r\n\r\n".encode("utf-8", "surrogatepass") + content + b"\r\n")
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    boundary = whole.hexdigest()[:40]  # no content can hold the hash of itself
    begin = f"--{boundary}\r\n".encode("ascii")
    body = b"".join(begin + part for part in parts) + f"--{boundary}--\r\n".encode("ascii")
    return body, f"multipart/form-data; boundary={boundary}"


def _quoted(text: str) -> str:
    """A name inside quotes, as browsers write it."""
    for sign, written in (('"', "%22"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(sign, written)
    return text
