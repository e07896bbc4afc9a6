"""Cassettes: a readable file of what calls gave, to answer them from later, without network.

A cassette is YAML, one document per answer, in the order in which they were recorded; the same call again takes the
next one. Each is appended whole by one write. Secrets are masked in arguments and results, so what is played back has
`***` in their place; the caller who recorded got the true value. What could not come back as it was is not recorded
but noted with the reason. Knows nothing of toolboxes; `replays` says which cassette is on, `cassette_step` asks it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy.core import values
from onetool_ipy.core.errors import ExecutionFailed, UsageProblem
from onetool_ipy.stores import cassette_text as text
from onetool_ipy.stores.cassette_text import Entry
from onetool_ipy.stores.faithful import Unfaithful, decode, encode
from onetool_ipy.stores.files import StoreError, append, write_whole
from onetool_ipy.stores.replays import Mode, Replays

__all__ = ["Cassette", "Found", "NotRecorded", "Replaying", "Stale", "key_of"]

_MAX_ARGS = 10_000
_AGAIN = "Record it again: ot.replay(FILE, mode='refresh') or %tool replay FILE --refresh, or delete its entry."


class NotRecorded(ExecutionFailed):
    """A call that the cassette has no answer for, where only the cassette may answer."""


class Stale(ExecutionFailed):
    """An answer that was recorded of a tool as it is no more."""


class Found(NamedTuple):
    """What a cassette has for a call: the value, or the failure that was recorded."""

    value: Any
    failure: Mapping[str, Any] | None
    ms: float


class Cassette:
    """One file of answers. Threads may share it; other processes may add to the same file."""

    def __init__(
        self,
        path: Path,
        *,
        mode: Mode = "auto",
        mask: Callable[[str], str] = str,
        clock: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self.path = path
        self.mode = mode
        self.played = 0
        self.recorded = 0
        self.refused = 0
        self._mask = mask
        self._clock = clock or (lambda: datetime.datetime.now(datetime.UTC))
        self._entries = text.read(path) if path.exists() else []
        if not self._entries and mode == "replay" and not path.exists():
            raise UsageProblem(
                f"There is no cassette '{path}', and only a cassette may answer here.",
                hint="Record it where there is a network, without $CI and $ONETOOL_REPLAY, and keep the file.",
            )
        self._left: dict[str, deque[Entry]] = {}
        for entry in self._entries if mode != "refresh" else ():
            self._left.setdefault(entry.key, deque()).append(entry)
        self._counts = {key: len(found) for key, found in self._left.items()}
        self._anew: set[str] = set()

    def answer(self, kind: str, key: Any, produce: Callable[[], Any], *, version: str = "") -> Any:
        """What was recorded for (kind, key); else what `produce` gives, recorded. For answers that are no tool's.

        `key` is any value that can be kept. Raises NotRecorded, Stale; what `produce` raises passes, unrecorded.
        """
        mark, shown = key_of(kind, key, self._mask)
        found = self.find(kind, mark, lambda recorded: recorded == version)
        if found is not None:
            return found.value
        began = self._clock()
        value = produce()
        self.keep(kind, mark, shown, version, value=value, ms=(self._clock() - began).total_seconds() * 1000)
        return value

    def find(self, what: str, key: str, is_current: Callable[[str], bool]) -> Found | None:
        """The next answer recorded under a key; None where it is to be asked for live.

        Raises NotRecorded where only the cassette may answer, Stale where `what` has changed since.
        """
        waiting = self._left.get(key)
        try:
            entry = waiting.popleft() if waiting is not None else None
        except IndexError:
            entry = None
        if entry is None:
            if self.mode == "replay":
                raise self._missing(what, key)
            return None
        assert waiting is not None
        if not is_current(entry.version):
            waiting.appendleft(entry)
            raise Stale(
                f"'{what}' has changed since its answer was recorded in '{self.path}' (line {entry.line}).",
                hint=_AGAIN,
            )
        if entry.note:
            if self.mode == "replay":
                raise NotRecorded(f"'{what}': the answer could not be recorded: {entry.note}.", hint="Keep it out.")
            return None
        self.played += 1
        return Found(self._value(entry), entry.failure, entry.ms)

    def keep(
        self,
        what: str,
        key: str,
        shown: Any,
        version: str,
        *,
        value: Any = None,
        failure: Mapping[str, Any] | None = None,
        ms: float = 0.0,
    ) -> str:
        """Record an answer. Gives "" or why it could not be recorded; raises StoreError for a disk."""
        entry = Entry(what, key, shown, version, self._clock().isoformat(timespec="seconds"), round(ms, 1))
        if self.mode == "refresh" and key not in self._anew:
            self._anew.add(key)
            entry = entry._replace(replaces=True)
        try:
            entry = entry._replace(failure=failure and values.to_json(failure), result=self._form(value))
            written = text.write(entry)
            if self._mask(written) != written:
                raise Unfaithful("it holds a secret in a form that cannot be masked")
        except Unfaithful as exc:
            entry = entry._replace(note=self._mask(exc.message), result=None, args=None, failure=None)
            written = text.write(entry)
        head = "" if self.path.exists() else text.HEAD
        append(self.path, (head + written).encode())
        self._entries.append(entry)
        self.recorded += not entry.note
        self.refused += bool(entry.note)
        return entry.note

    def close(self) -> None:
        """After a refresh, leave out the answers that were replaced; may be called twice."""
        if self.mode != "refresh" or not self._anew:
            return
        self._anew.clear()
        kept = text.in_force(text.read(self.path))
        write_whole(self.path, (text.HEAD + "".join(map(text.write, kept))).encode(), mode=0o644)

    def __repr__(self) -> str:
        refused = f", {self.refused} not recordable" if self.refused else ""
        said = f"{len(self._entries)} answers; {self.played} played, {self.recorded} recorded{refused} so far"
        return f"<Cassette '{self.path}' ({self.mode}): {said}>"

    def _form(self, value: Any) -> Any:
        form = values.map_text(encode(value), self._mask)
        if form is not None:
            decode(form)  # a masked part of binary data is no data any more
        return form

    def _value(self, entry: Entry) -> Any:
        try:
            return decode(entry.result)
        except Unfaithful as exc:
            raise StoreError(self.path, f"line {entry.line}: {exc.message}", doing="read", hint=_AGAIN) from exc

    def _missing(self, what: str, key: str) -> NotRecorded:
        count = self._counts.get(key, 0)
        if count:
            times = "once" if count == 1 else f"{count} times"
            said = f"'{what}' was recorded {times} with these arguments, and is asked for again."
        elif any(entry.what == what for entry in self._entries):
            said = f"'{what}' was not recorded with these arguments."
        else:
            said = f"'{what}' was not recorded."
        how = "Run it once where there is a network, without $CI and $ONETOOL_REPLAY, to record it."
        return NotRecorded(f"{said} Only '{self.path}' may answer here.", hint=how)


class Replaying:
    """A cassette from its beginning to its end: `with` it, or `begin()` and `end()`."""

    def __init__(
        self,
        replays: Replays,
        file: str | os.PathLike[str],
        *,
        mode: str | None,
        mask: Callable[[str], str],
        clock: Callable[[], datetime.datetime],
    ) -> None:
        self._replays = replays
        self._file = Path(file)
        self._open = partial(Cassette, Path(file).absolute(), mode=replays.mode(mode), mask=mask, clock=clock)
        self._cassette: Cassette | None = None

    def __repr__(self) -> str:
        """Say how to use it to whoever left out the `with`."""
        if self._cassette is not None:
            return f"<replay of '{self._file}', on>"
        return f"<replay of '{self._file}', off; switch it on by `with ot.replay(...):` or %tool replay FILE>"

    def begin(self) -> Cassette:
        """Switch it on, from its first answer."""
        self.end()
        self._cassette = self._open()
        self._replays.begin(self._cassette)
        return self._cassette

    def begin_alone(self) -> Cassette:
        """Switch it on in place of those that are on."""
        cassette = self.begin()
        self._replays.end_others(cassette)
        return cassette

    def end(self) -> None:
        """Switch it off; may be called twice."""
        if self._cassette is not None:
            self._replays.end(self._cassette)
            self._cassette = None

    def __enter__(self) -> Cassette:
        return self.begin()

    def __exit__(self, *exc: object) -> None:
        self.end()


def key_of(kind: str, asked: Any, mask: Callable[[str], str]) -> tuple[str, Any]:
    """The key of what is asked, and how it is shown in the file, both without secrets. Raises Unfaithful."""
    form = values.map_text(encode(asked), mask)
    written = json.dumps([kind, form], sort_keys=True)
    shown = form if len(written) <= _MAX_ARGS else values.cut(written, 1000)
    return hashlib.sha256(written.encode()).hexdigest()[:24], shown
