"""Session: a conversation that continues from ask to ask: its messages, the wire names of tools, results to reuse.

It changes only in whole steps: a turn with calls is never in it without the outcomes of all its calls, and trimming
drops whole exchanges from its beginning. A session with a name has a file, too, and goes on after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.files import StoreError
from onetool_ipy.core import names
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.ask.session_file import SessionFile
from onetool_ipy.llm.messages import Message, OfferedTool, Outcomes, System, Turn, User

IMAGE_CHARS = 4_000
"""What an image counts for; providers charge about a thousand tokens."""

_CacheKey = tuple[str, str, str]


class Session:
    """One conversation. Pass it to `box.ask(session=...)` again and again; or a name, and the toolbox keeps it.

    `offered` are the tools of its last request, in their order, which the next request keeps.
    """

    def __init__(self, name: str = "", file: SessionFile | None = None) -> None:
        self.name = name
        self._file = file
        self.messages: tuple[Message, ...] = ()
        self.handles: dict[str, None] = {}
        self.used: dict[str, None] = {}
        self.offered: list[str] = []
        self._wire: dict[str, str] = {}
        self._cache: dict[_CacheKey, tuple[ToolSpec, ToolResult]] = {}

    def clear(self) -> None:
        """Forget all messages, names and results, also those on disk."""
        if self._file is not None:
            self._file.remove()
        self.__init__(self.name, self._file)  # type: ignore[misc]  # a session has no subclasses

    def commit(self, messages: Iterable[Message]) -> None:
        """Add whole exchanges. Raises StoreError if they are in memory only."""
        new = tuple(messages)
        if self._file is None:
            self.messages = (*self.messages, *new)
            return
        try:
            with self._file.locked():
                self.refresh()
                self.messages = (*self.messages, *new)
                self._write()
        except StoreError:
            if self.messages[-len(new) :] != new:
                self.messages = (*self.messages, *new)
            raise

    def shorten(self, messages: Iterable[Message]) -> None:
        """Put shorter messages in place of all. Raises StoreError if they are in memory only."""
        self.messages = tuple(messages)
        if self._file is not None:
            with self._file.locked():
                self._write()

    def refresh(self) -> None:
        """Read what another kernel added to the file."""
        record = None if self._file is None else self._file.changed()
        if record is None:
            return
        self.messages = tuple(record["messages"])
        self.handles |= dict.fromkeys(record["handles"])
        self.used |= dict.fromkeys(record["used"])
        self.offered = self.offered or list(record["offered"])
        self._wire = {**record["wire"], **self._wire}

    def _write(self) -> None:
        if self._file is not None:
            facts = {
                "handles": list(self.handles),
                "used": list(self.used),
                "offered": self.offered,
                "wire": self._wire,
            }
            self._file.write(self.messages, facts)

    def offers(self, specs: Sequence[ToolSpec], registered: Iterable[str]) -> list[OfferedTool]:
        """Return the tools under their wire names. A name that was used once in this session stays."""
        wire = names.wire_names([*registered, *(spec.name for spec in specs)])
        taken = {wire_name: name for name, wire_name in self._wire.items()}
        for spec in specs:
            if spec.name in self._wire:
                continue
            wire_name = wire[spec.name]
            # Of two tools with one wire name, the one that came first keeps it.
            if wire_name in taken:
                wire_name = names.wire_names([spec.name, taken[wire_name]])[spec.name]
            self._wire[spec.name] = wire_name
            taken[wire_name] = spec.name
        return [OfferedTool(self._wire[spec.name], spec.description, spec.parameters, spec.name) for spec in specs]

    def canonical(self, wire_name: str) -> str | None:
        """Return the tool that was offered under this wire name, if there is one."""
        return next((name for name, offered in self._wire.items() if offered == wire_name), None)

    def reuse(self, spec: ToolSpec, args: dict[str, Any]) -> ToolResult | None:
        """Return an earlier result of the same call, if the tool says that it still holds."""
        key = cache_key(spec, args)
        entry = None if key is None else self._cache.get(key)
        if entry is None or entry[0] is not spec:
            return None
        result = entry[1]
        return ToolResult(result.ok, result.data, result.error, {**result.meta, "cached": True, "duration_ms": 0.0})

    def keep(self, spec: ToolSpec, args: dict[str, Any], key: _CacheKey | None, result: ToolResult) -> None:
        """Keep a good result for `reuse`, unless its key has changed since before the call."""
        if key is not None and result.ok and key == cache_key(spec, args):
            self._cache[key] = (spec, result)

    def __len__(self) -> int:
        return len(self.messages)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        prompts = sum(isinstance(message, User) for message in self.messages)
        return f"<Session {self.name!r}: {prompts} prompts, {len(self.messages)} messages>"


def trimmed(messages: Sequence[Message], chars: float) -> list[Message]:
    """Return the newest part of a conversation that fits: drop whole exchanges, then whole steps of the last one.

    The person's last message always stays, and a call never loses its outcome.
    """
    groups = list(exchanges(messages))
    total = sum(size(message) for message in messages)
    while len(groups) > 1 and total > chars:
        total -= sum(size(message) for message in groups.pop(0))
    last = list(_steps(groups.pop())) if groups else []
    while len(last) > 2 and total > chars:
        total -= sum(size(message) for message in last.pop(1))
    return [message for group in [*groups, *last] for message in group]


def size(message: Message) -> int:
    """Return about how many characters a message has."""
    match message:
        case System(text=text):
            return len(text)
        case User(text=text, images=images):
            return len(text) + IMAGE_CHARS * len(images)
        case Turn(text=text, calls=calls, parts=parts):
            length = len(text) + sum(len(json_text(call.arguments)) + len(str(call.wire_name)) for call in calls)
            return max(length, sum(len(json_text(dict(part))) for part in parts))
        case Outcomes(items=items):
            return sum(len(json_text(item.content)) + IMAGE_CHARS * len(item.images) for item in items)


def exchanges(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Split a conversation into exchanges. Each begins with a message of the person."""
    group: list[Message] = []
    for message in messages:
        if isinstance(message, User) and group:
            yield group
            group = []
        group.append(message)
    if group:
        yield group


def _steps(exchange: Sequence[Message]) -> Iterator[list[Message]]:
    """Split an exchange into the person's message, then each turn with its outcomes."""
    step: list[Message] = []
    for message in exchange:
        if step and not isinstance(message, Outcomes):
            yield step
            step = []
        step.append(message)
    if step:
        yield step


def cache_key(spec: ToolSpec, args: Mapping[str, Any]) -> _CacheKey | None:
    """Return what a result depends on, or None if it must not be reused."""
    if not spec.read_only or spec.function.cache_key is None:
        return None
    try:
        depends_on = spec.function.cache_key(**args)
    except Exception:  # noqa: BLE001 - foreign code; without a key nothing is reused
        return None
    return None if depends_on is None else (spec.name, json_text(dict(args)), values.safe_repr(depends_on, 2000))


def json_text(value: object) -> str:
    """Return a value as JSON with sorted keys; text stays as it is."""
    return value if isinstance(value, str) else json.dumps(values.to_json(value), sort_keys=True)
