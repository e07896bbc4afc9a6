"""Named sessions on disk: a JSON file for each, in the state of the project, readable by its owner alone.

A conversation goes on in any kernel of the same user and project. Secrets are masked in the file. Kernels that use one
session at the same time lose nothing: an exchange is added, under a lock, to what the file holds by then. A file that
cannot be read is put aside, and a new session starts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from onetool_ipy.base import files, values
from onetool_ipy.llm.messages import Call, Message, Outcome, Outcomes, Turn, User

_FORMAT = 1
_MAX_BYTES = 64 * 1024 * 1024
_MAX_NAME = 100
_SUFFIX = ".json"


class SessionFile:
    """The file of one session."""

    def __init__(self, folder: Path, name: str, mask: Callable[[str], str]) -> None:
        stem = quote(name, safe=" ")
        if len(stem) > _MAX_NAME:
            stem = hashlib.sha256(name.encode()).hexdigest()
        self._path = folder / f"{stem}{_SUFFIX}"
        self._mask = mask
        self._stamp: files.Stamp | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file for this process. Raises StoreError if that is not possible."""
        with files.locked(self._path):
            yield

    def changed(self) -> dict[str, Any] | None:
        """Return what the file holds if it is another than what was read or written last; otherwise None."""
        stamp = files.stamp_of(self._path)
        if stamp is None or stamp == self._stamp:
            return None
        try:
            data = json.loads(files.read_own(self._path, _MAX_BYTES) or b"")
            if data["format"] != _FORMAT:
                raise ValueError("a format of another version")
            record = {**data, "messages": [_message(row) for row in data["messages"]]}
        except (ValueError, TypeError, KeyError, RecursionError):
            with suppress(OSError):
                self._path.replace(self._path.with_suffix(".damaged"))
            return None
        self._stamp = stamp
        return record

    def write(self, messages: Iterable[Message], facts: dict[str, Any]) -> None:
        """Write the session whole, without secrets."""
        record = {"format": _FORMAT, **facts, "messages": [_row(message) for message in messages]}
        plain = values.map_text(values.to_json(record), self._mask)
        files.write_whole(self._path, json.dumps(plain, ensure_ascii=False).encode("utf-8", "backslashreplace"))
        self._stamp = files.stamp_of(self._path)

    def remove(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)
        self._stamp = None


def saved_names(folder: Path) -> list[str]:
    """Return the names of the sessions in a folder."""
    return [unquote(name.removesuffix(_SUFFIX)) for name in files.names_in(folder) if name.endswith(_SUFFIX)]


def _row(message: Message) -> dict[str, Any]:
    match message:
        case Turn():
            return {"kind": "turn", **message.to_dict()}
        case Outcomes(items=items):
            return {"kind": "outcomes", "items": [asdict(item) for item in items]}
        case User():
            return {"kind": "user", "text": message.text, "images": message.images}
    return {"kind": "user", "text": message.text, "images": ()}


def _message(row: dict[str, Any]) -> Message:
    if row["kind"] == "turn":
        return Turn.from_dict(row)
    if row["kind"] == "user":
        return User(str(row["text"]), _images(row))
    return Outcomes(
        tuple(
            Outcome(Call(**item["call"]), item["content"], bool(item["is_error"]), _images(item))
            for item in row["items"]
        )
    )


def _images(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(mime), str(data)) for mime, data in row["images"])
