"""Topics: messages appended to the files that the configuration names, one YAML document for each.

A document begins with our mark and ends with `...`, and is written at once, under a lock. What
begins with the mark and has no end was cut off by a kill; the next message takes its place. A
topic's file lies inside `.onetool/`, after links are resolved. It is not a link, and not a file
that has a meaning there: a message may come from a model, and must never become code or settings.
"""

from __future__ import annotations

import datetime
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from onetool_ipy.base.files import StoreError, append_to, is_inside, locked, make_folder, to_disk
from onetool_ipy.config.settings import Topic

NO_TOPIC = "SKIP: no matching topic"

_OURS = frozenset(("onetool.yaml", "prompts.yaml", "secrets.yaml", "snippets.yaml", ".gitignore"))
_OUR_FOLDERS = frozenset(("tools", "bundles"))
_START, _END = b"--- # onetool_ipy\n", b"\n...\n"
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT
_FLAGS |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


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
        self._topics, self._folder, self._lock_wait_s = tuple(topics), folder, lock_wait_s
        self._clock, self._mask = clock, mask

    def notify(self, topic: str, message: str) -> str:
        """Append a message to the file of the first topic that matches, and return where it went.

        Returns once the message is on disk. Raises StoreError, with the path, if it cannot be
        written.
        """
        target = next((one for one in self._topics if matches(one.pattern, topic)), None)
        if target is None or self._folder is None:
            return NO_TOPIC
        path = _topic_file(self._folder, target.file)
        data = document(self._clock(), self._mask(topic), self._mask(message))
        try:
            with locked(self._folder / ".notify", self._lock_wait_s):
                _add(path, data)
        except OSError as exc:
            raise StoreError.of(path, exc) from exc
        except StoreError as exc:
            raise StoreError(path, exc.reason, hint=exc.hint) from exc
        return f"OK: {topic} -> {target.file}"


def matches(pattern: str, topic: str) -> bool:
    """Whether a topic matches a pattern: `*` stands for any text without `:`."""
    from fnmatch import fnmatchcase
    from glob import escape

    patterns, texts = pattern.split(":"), topic.split(":")
    globs = ["*".join(map(escape, part.split("*"))) for part in patterns]
    return len(patterns) == len(texts) and all(map(fnmatchcase, texts, globs))


def document(ts: datetime.datetime, topic: str, message: str) -> bytes:
    """Return one message as a YAML document."""
    import yaml

    # PyYAML folds lines at characters such as NEL, which are not newlines; where there are any, all
    # are escaped.
    is_readable = all(map(str.isprintable, f"{topic}\n{message}".split("\n")))
    content = {"ts": ts, "topic": topic, "message": message}
    text = yaml.safe_dump(content, allow_unicode=is_readable, sort_keys=False)
    return _START + text.encode("utf-8").rstrip(b"\n") + _END


def _topic_file(folder: Path, file: str) -> Path:
    """Return the file of a topic. Raises StoreError if it lies elsewhere or has another meaning."""
    path = folder / file
    try:
        home, parent = os.path.realpath(folder), os.path.realpath(path.parent)
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc) from exc
    hint = "Give the topic a file of its own inside `.onetool/`, such as `file: notes.yaml`."
    if not is_inside(parent, home) or path.name in ("", "..") or "\0" in file:
        raise StoreError(path, "a topic's file must lie inside the .onetool folder", hint=hint)
    words = [word.lower() for word in Path(parent, path.name).relative_to(home).parts]
    if (
        words[-1].endswith(".py")
        or words[0] in _OUR_FOLDERS
        or (len(words) == 1 and words[0] in _OURS)
    ):
        raise StoreError(path, "this file has another meaning", hint=hint)
    return Path(parent, path.name)


def _add(path: Path, data: bytes) -> None:
    """Append a document in place of one that was cut off. The caller holds the lock. Raises
    OSError, StoreError."""
    from mmap import ACCESS_READ, mmap

    make_folder(path.parent)
    # A FIFO opens only when somebody reads it, so it is opened without waiting, and refused.
    fd = os.open(path, _FLAGS, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise StoreError(path, "it is not a plain file")
        if size := os.fstat(fd).st_size:
            with mmap(fd, 0, access=ACCESS_READ) as text:
                last = text.rfind(_END)
                end = 0 if last < 0 else last + len(_END)
                rest = text[end : end + len(_START)]
                data = data if text[size - 1 :] == b"\n" else b"\n" + data
            if rest and _START.startswith(rest):
                size, data = end, data.lstrip(b"\n")
                os.ftruncate(fd, size)
        try:
            append_to(fd, data)
            to_disk(fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, size)
            raise
    finally:
        os.close(fd)
