"""The warm cache: parsed documents as JSON, so that a load needs no YAML.

A head line with key and checksum, a line with the documents, then the tools one after the other: a load reads their
names and places, and a tool is unpacked when it is looked at.

Keyed by the content of the files, our version and a format number; whatever is not exactly what `store` wrote is
ignored and written anew. It holds text as it stands in the files: no `${NAME}` is filled, and secrets.yaml is not in
it. It lives in the user's own state directory, or where `state_dir:` points, but never inside the project: that could
ship its own there, with settings that nobody sees in its files.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onetool_ipy._version import __version__
from onetool_ipy.config.document import Document, Fault, Packed
from onetool_ipy.core.folders import make_private

__all__ = ["FORMAT", "cache_key", "fetch", "store"]

FORMAT = 2
"""In the name of each file, so that versions of this package with other formats do not meet in it."""
_MAX_BYTES = 64 * 1024 * 1024


def cache_key(files: Mapping[str, bytes]) -> str:
    """One key for these files by name and content."""
    digest = hashlib.sha256(f"{FORMAT} {__version__}".encode())
    for name in sorted(files):
        digest.update(f"\n{name} {len(files[name])}\n".encode())
        digest.update(files[name])
    return digest.hexdigest()


def fetch(path: Path, key: str) -> dict[str, Document] | None:
    """The documents stored under this key, or None."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size > _MAX_BYTES or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
                return None
            head, body = file.readline(200), file.read()
    except OSError:
        return None
    if head != _head(key, body):
        return None
    index, _, tools = body.partition(b"\n")
    try:
        return {name: _document(raw, tools) for name, raw in json.loads(index).items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def store(path: Path, key: str, documents: Mapping[str, Document]) -> None:
    """Write the documents whole (temp, rename); where that cannot be, there is no cache.

    No fsync: a file that a crash leaves torn fails its checksum and is made again.
    """
    import orjson

    temp = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        tools: list[bytes] = []
        index = {name: _packed(document, tools, orjson.dumps) for name, document in documents.items()}
        body = b"\n".join((orjson.dumps(index), b"".join(tools)))
        make_private(path.parent)
        descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except (OSError, TypeError, ValueError):
        return  # read-only, or an integer or text that this JSON cannot hold exactly
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(key, body) + body)
        temp.replace(path)
    except OSError:
        temp.unlink(missing_ok=True)


def _head(key: str, body: bytes) -> bytes:
    return f"onetool_ipy {key} {zlib.crc32(body):08x}\n".encode()


def _packed(document: Document, tools: list[bytes], dumps: Callable[[Any], bytes]) -> list[Any]:
    """The document for the index; its tools go into the list, and their places into the index."""
    data, faults = dict(document.data), [[f.line, f.key, f.message, f.hint] for f in document.faults]
    if isinstance(data.get("tools"), list):
        places: list[Any] = []
        end = sum(map(len, tools))
        for item in data["tools"]:
            if not isinstance(item, dict):
                places.append({"item": item})
                continue
            tools.append(dumps(item))
            start, end = end, end + len(tools[-1])
            name = item.get("name")
            places.append([name if isinstance(name, str) else "", start, end])
        data["tools"] = places
    return [data, document.lines, faults]


def _document(raw: Any, tools: bytes) -> Document:
    """The document back; raise ValueError, TypeError or KeyError for anything else."""
    data, lines, faults = raw
    if not isinstance(data, dict) or not isinstance(lines, dict):
        raise TypeError("not a document")
    if isinstance(data.get("tools"), list):
        data["tools"] = [Packed(tools, *p) if isinstance(p, list) else p["item"] for p in data["tools"]]
    return Document(data, lines, [Fault(*fault) for fault in faults])
