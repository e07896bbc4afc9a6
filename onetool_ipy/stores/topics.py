"""Topics: messages appended to the files that the configuration names, one YAML document for each.

The file is written whole, under a lock: whatever is killed or full, it has the old messages, or the new one too. A
topic's file lies inside `.onetool/`, after links are resolved. It is not a link, and not a file that has a meaning
there: a message may come from a model, and must never become code or settings.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from onetool_ipy.base.files import StoreError, locked, write_whole
from onetool_ipy.config.settings import Topic

NO_TOPIC = "SKIP: no matching topic"

_OURS = frozenset(("onetool.yaml", "prompts.yaml", "secrets.yaml", "snippets.yaml", ".gitignore"))
_OUR_FOLDERS = frozenset(("tools", "bundles"))
_START, _END = b"--- # onetool_ipy\n", b"\n...\n"


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

        Returns once the message is on disk. Raises StoreError, with the path, if it cannot be written.
        """
        target = next((one for one in self._topics if matches(one.pattern, topic)), None)
        if target is None or self._folder is None:
            return NO_TOPIC
        path = _topic_file(self._folder, target.file)
        data = document(self._clock(), self._mask(topic), self._mask(message))
        try:
            with locked(self._folder / ".notify", self._lock_wait_s):
                # A FIFO would be waited for. What is no plain file is refused when it is written.
                before = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                line_end = b"" if not before or before.endswith(b"\n") else b"\n"
                write_whole(path, before + line_end + data, nofollow=True)
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

    # PyYAML folds lines at characters such as NEL, which are not newlines; where there are any, all are escaped.
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
    if os.path.commonpath((home, parent)) != home or path.name in ("", "..") or "\0" in file:
        raise StoreError(path, "a topic's file must lie inside the .onetool folder", hint=hint)
    words = [word.lower() for word in Path(parent, path.name).relative_to(home).parts]
    if words[-1].endswith(".py") or words[0] in _OUR_FOLDERS or (len(words) == 1 and words[0] in _OURS):
        raise StoreError(path, "this file has another meaning", hint=hint)
    return Path(parent, path.name)
