"""Topics: messages appended to the files that the configuration names, one YAML document for each.

A document begins with `---`, ends with `...`, and its texts are always quoted: every message loads back equal, and a
document that a kill cut off has no closing quote and is removed before the next is written. A topic's file lies inside
`.onetool/`, after links are resolved. It is not a link, and not a file that has a meaning there: a message may come
from a model, and must never become code or settings.
"""

from __future__ import annotations

import datetime
import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from onetool_ipy.base.files import StoreError, append, locked, make_folder
from onetool_ipy.config.settings import Topic

__all__ = ["NO_TOPIC", "Topics", "document", "matches"]

NO_TOPIC = "SKIP: no matching topic"

_OURS = frozenset(("onetool.yaml", "prompts.yaml", "secrets.yaml", "snippets.yaml", ".gitignore"))
_OUR_FOLDERS = frozenset(("tools", "bundles"))
_LOCK = ".notify"
_START, _END = b"---\n", b"\n...\n"
_FORMAT = 1
_NUMBERED = re.compile(rb"# onetool_ipy topics, format ([0-9]{1,9})\b")
"""The first line of later formats; files of the first format have none."""
_BLOCK = 1 << 20

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT
_FLAGS |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_NOT_PLAIN = re.compile('[\0-\x1f"\\\\\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
"""Characters to escape inside quotes: quotes, backslashes, and all that YAML or an editor might change.

Named one by one: `re` walks through each range as it compiles it, and all others are 60,000.
"""
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


class Topics:
    """The topics of a project. `folder` is its `.onetool/`."""

    def __init__(
        self,
        topics: Sequence[Topic],
        folder: Path | None,
        *,
        clock: Callable[[], datetime.datetime],
        mask: Callable[[str], str] = str,
        lock_wait_s: float = 5.0,
    ) -> None:
        self._topics = tuple(topics)
        self._folder = folder
        self._clock = clock
        self._mask = mask
        self._lock_wait_s = lock_wait_s

    def notify(self, topic: str, message: str) -> str:
        """Append a message to the file of the first topic that matches, and return where it went.

        Returns once the message is on disk. Raises StoreError, with the path, if it cannot be written.
        """
        found = next((one for one in self._topics if matches(one.pattern, topic)), None)
        if found is None or self._folder is None:
            return NO_TOPIC
        path = _topic_file(self._folder, found.file)
        data = document(self._clock(), self._mask(topic), self._mask(message))
        try:
            with locked(self._folder / _LOCK, self._lock_wait_s):
                _add(path, data)
        except StoreError as exc:
            if exc.path == path:
                raise
            raise StoreError(path, exc.reason, hint=exc.hint) from exc
        return f"OK: {topic} -> {found.file}"


def matches(pattern: str, topic: str) -> bool:
    """Whether a topic matches a pattern: `*` stands for any text without `:`."""
    wanted, given = pattern.split(":"), topic.split(":")
    return len(wanted) == len(given) and all(map(_part_matches, wanted, given))


def document(ts: datetime.datetime, topic: str, message: str) -> bytes:
    """Return one message as a YAML document."""
    text = f"---\nts: {ts.isoformat()}\ntopic: {_quoted(topic)}\nmessage: {_quoted(message)}\n...\n"
    return text.encode("utf-8")


def _part_matches(pattern: str, text: str) -> bool:
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    place, end = len(first), len(text) - len(last)
    for piece in middle:
        place = text.find(piece, place, end)
        if place < 0:
            return False
        place += len(piece)
    return True


def _quoted(text: str) -> str:
    """Return a double-quoted YAML scalar; a message of several lines stays several lines."""
    lines = [_NOT_PLAIN.sub(_escape, line) for line in text.split("\n")]
    shown = [lines[0], *(f"\\ {line[1:]}" if line.startswith(" ") else line for line in lines[1:])]
    return '"' + "\\n\\\n  ".join(shown) + '"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _topic_file(folder: Path, file: str) -> Path:
    """Return the file of a topic. Raises StoreError if it lies elsewhere or has another meaning."""
    path = folder / file
    try:
        home = os.path.realpath(folder)
        parent = os.path.realpath(path.parent)
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc) from exc
    hint = "Give the topic a file of its own inside `.onetool/`, such as `file: notes.yaml`."
    if os.path.commonpath((home, parent)) != home or path.name in ("", "..") or "\0" in file:
        raise StoreError(path, "a topic's file must lie inside the .onetool folder", hint=hint)
    inner = Path(parent, path.name).relative_to(home)
    words = [word.lower() for word in inner.parts]
    if words[-1].endswith(".py") or words[0] in _OUR_FOLDERS or (len(words) == 1 and words[0] in _OURS):
        raise StoreError(path, "this file has another meaning", hint=hint)
    return Path(parent, path.name)


def _add(path: Path, data: bytes) -> None:
    """Append a document, after removing an incomplete one. The caller holds the lock."""
    make_folder(path.parent)
    try:
        fd = os.open(path, _FLAGS, 0o600)
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc) from exc
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise StoreError(path, "it is not a plain file")
        _require_known(fd, path)
        size = _cut_torn(fd)
        data = _separator(fd, size) + data
        try:
            append(path, data, fd=fd, sync=True)
        except BaseException:  # also an interrupt: a message not confirmed must not stay
            with suppress(OSError):
                os.ftruncate(fd, size)
            raise
    except OSError as exc:
        raise StoreError.of(path, exc) from exc
    finally:
        os.close(fd)


def _require_known(fd: int, path: Path) -> None:
    found = _NUMBERED.match(_read(fd, 0, 80))
    if found is not None and int(found[1]) > _FORMAT:
        why = f"it has format {int(found[1])}, which is newer than this version knows"
        raise StoreError(path, why, hint="Update onetool-ipy, or give the topic another file.")


def _separator(fd: int, size: int) -> bytes:
    return b"" if size == 0 or _read(fd, size - 1, 1) == b"\n" else b"\n"


def _cut_torn(fd: int) -> int:
    """Remove a document of ours that a kill cut off, and return the size of the file.

    Text that a person wrote or changed is never removed, only text that begins like ours and is incomplete.
    """
    size = os.fstat(fd).st_size
    start = _last_end(fd, size)
    if start == size or not _is_torn(_read(fd, start, size - start)):
        return size
    os.ftruncate(fd, start)
    return start


def _last_end(fd: int, size: int) -> int:
    """Return where the last complete document ends, or 0."""
    place = size
    while place > 0:
        begin = max(0, place - _BLOCK)
        found = _read(fd, begin, place - begin + len(_END) - 1 if place < size else place - begin).rfind(_END)
        if found >= 0:
            return begin + found + len(_END)
        place = begin
    return 0


def _read(fd: int, offset: int, count: int) -> bytes:
    os.lseek(fd, offset, os.SEEK_SET)
    pieces = []
    while count > 0 and (piece := os.read(fd, count)):
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _is_torn(data: bytes) -> bool:
    if _START.startswith(data):
        return True
    if not data.startswith(b"---\nts: "[: len(data)]):
        return False
    import yaml

    try:
        loaded = list(yaml.safe_load_all(data.decode("utf-8", "replace")))
    except (yaml.YAMLError, ValueError):
        return True
    return len(loaded) == 1 and (not isinstance(loaded[0], dict) or loaded[0].get("message") is None)
