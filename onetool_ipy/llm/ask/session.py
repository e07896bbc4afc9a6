"""How much one ask may do: requests, calls, tokens, seconds; and when the same calls again and again are enough.

`Meter` counts. The time a person takes to say yes or no is not counted. Where a provider does not count tokens, they
are estimated from the characters.

Session: a conversation that goes on from ask to ask: what was said, names given to tools, results to use again.

It is changed only in whole steps: a turn with calls never stands in it without the outcomes of all of them, and
trimming drops whole exchanges from its beginning. Lives in memory.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import ExecutionFailed
from onetool_ipy.base.records import Value
from onetool_ipy.core import names
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.formats import OfferedTool
from onetool_ipy.llm.messages import Message, Outcomes, System, TokenUsage, Turn, User

__all__ = ["AskLimits", "Meter", "OverLimit", "Repeated", "Session", "signature", "size", "trimmed"]

_MAX_REPEATS = 3
"""So often the same call may run in one ask; a turn that asks only for such calls once more is not run."""


class OverLimit(ExecutionFailed):
    """A call that was not run, since a limit of the ask was reached."""

    reason = "limit"
    status = 429


class Repeated(ExecutionFailed):
    """A call that was not run, since it was run several times already."""

    reason = "repeated"
    status = 429


class AskLimits(Value):
    """What one ask may do, and how much of a session is sent along."""

    max_steps: int = 5
    max_calls: int = 50
    max_tokens: int = 200_000
    max_seconds: float = 300
    context_tokens: int = 100_000


class Meter:
    """Counts for one ask."""

    def __init__(self, limits: AskLimits, chars_per_token: float) -> None:
        self.limits = limits
        self.calls = 0
        self.usage = TokenUsage()
        self._chars_per_token = chars_per_token
        self._began = time.monotonic()
        self._waited_s = 0.0
        self._made: Counter[str] = Counter()

    @property
    def seconds(self) -> float:
        """How long it has taken, without the time of the person."""
        return time.monotonic() - self._began - self._waited_s

    @property
    def left_s(self) -> float:
        return max(self.limits.max_seconds - self.seconds, 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While a person is asked."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._waited_s += time.monotonic() - began

    def tokens(self, chars: int) -> int:
        """About how many tokens so many characters are."""
        return -int(-chars // self._chars_per_token)

    def spend(self, turn: Turn, sent_chars: int) -> None:
        """Count a reply, by the provider's own numbers where it gives some."""
        said = len(turn.text) + sum(len(_written(call.arguments)) for call in turn.calls)
        counted = turn.usage if turn.usage.total else TokenUsage(self.tokens(sent_chars), self.tokens(said))
        self.usage = self.usage + counted

    def reached(self) -> str | None:
        """Which limit ends the ask now, in words."""
        if self.usage.total >= self.limits.max_tokens:
            return f"{self.usage.total:,} of {self.limits.max_tokens:,} tokens (ask.max_tokens) are spent"
        if self.left_s <= 0:
            return f"the {self.limits.max_seconds:g} s of ask.max_seconds are over"
        return None

    def take_call(self) -> bool:
        """Count a call; False where there have been as many as may be."""
        self.calls += 1
        return self.calls <= self.limits.max_calls

    def is_repeated(self, signatures: Iterable[str]) -> bool:
        """Whether a turn asks only for what was run often enough already; else it is counted."""
        asked = set(signatures)
        if asked and all(self._made[one] >= _MAX_REPEATS for one in asked):
            return True
        self._made.update(asked)
        return False


def signature(name: str, args: Any) -> str:
    """The same for the same call."""
    return f"{name} {_written(args)}"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(values.to_json(value), sort_keys=True)


class Session:
    """One conversation. Give it to `box.ask(session=...)`, again and again; or a name, and the toolbox keeps it."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.messages: tuple[Message, ...] = ()
        self.handles: dict[str, None] = {}
        self.used: dict[str, None] = {}
        self._wire: dict[str, str] = {}
        self._cache: dict[tuple[str, str, str], tuple[ToolSpec, ToolResult]] = {}

    def clear(self) -> None:
        """Forget all that was said and found."""
        self.__init__(self.name)  # type: ignore[misc]  # it begins anew

    def commit(self, said: Iterable[Message]) -> None:
        """Add whole exchanges."""
        self.messages = (*self.messages, *said)

    def offers(self, specs: Sequence[ToolSpec], known: Iterable[str]) -> list[OfferedTool]:
        """The tools under their wire names; a name that was given once in this session stays."""
        wire = names.wire_names([*known, *(spec.name for spec in specs)])
        taken = {given: name for name, given in self._wire.items()}
        for spec in specs:
            if spec.name in self._wire:
                continue
            given = wire[spec.name]
            if given in taken:  # the other one came first, and keeps it
                given = names.wire_names([spec.name, taken[given]])[spec.name]
            self._wire[spec.name] = given
            taken[given] = spec.name
        return [OfferedTool(self._wire[spec.name], spec.description, spec.parameters, spec.name) for spec in specs]

    def canonical(self, wire_name: str) -> str | None:
        """The tool that a model knows by this name, if it was told of one."""
        return next((name for name, given in self._wire.items() if given == wire_name), None)

    def reuse(self, spec: ToolSpec, args: dict[str, Any]) -> ToolResult | None:
        """An earlier result of the same call, where the tool says that it still holds."""
        key = _cache_key(spec, args)
        found = None if key is None else self._cache.get(key)
        if found is None or found[0] is not spec:
            return None
        kept = found[1]
        return ToolResult(kept.ok, kept.data, kept.error, {**kept.meta, "cached": True, "duration_ms": 0.0})

    def keep(self, spec: ToolSpec, args: dict[str, Any], key: tuple[str, str, str] | None, result: ToolResult) -> None:
        """Keep a good result for `reuse`. `key` was made before the call: it must not have changed meanwhile."""
        if key is not None and result.ok and key == _cache_key(spec, args):
            self._cache[key] = (spec, result)

    def key_of(self, spec: ToolSpec, args: dict[str, Any]) -> tuple[str, str, str] | None:
        """What a result depends on; None where it is not to be used again."""
        return _cache_key(spec, args)

    def __len__(self) -> int:
        return len(self.messages)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        asked = sum(isinstance(message, User) for message in self.messages)
        return f"<Session {self.name!r}: {asked} asked, {len(self.messages)} messages>"


def trimmed(messages: Sequence[Message], chars: float) -> list[Message]:
    """The newest part of a conversation that fits; whole exchanges go, then whole steps of the last one.

    The last thing the person said always stays, and a call never loses its outcome.
    """
    groups = list(_exchanges(messages))
    total = sum(size(message) for message in messages)
    while len(groups) > 1 and total > chars:
        total -= sum(size(message) for message in groups.pop(0))
    last = list(_steps(groups.pop())) if groups else []
    while len(last) > 2 and total > chars:
        total -= sum(size(message) for message in last.pop(1))
    return [message for group in [*groups, *last] for message in group]


def size(message: Message) -> int:
    """About how many characters a message is."""
    match message:
        case System(text=text) | User(text=text):
            return len(text)
        case Turn(text=text, calls=calls, parts=parts):
            said = len(text) + sum(len(_json(call.arguments)) + len(str(call.wire_name)) for call in calls)
            return max(said, sum(len(_json(dict(part))) for part in parts))
        case Outcomes(items=items):
            return sum(len(_json(item.content)) for item in items)


def _exchanges(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Each from one thing the person said to the next."""
    group: list[Message] = []
    for message in messages:
        if isinstance(message, User) and group:
            yield group
            group = []
        group.append(message)
    if group:
        yield group


def _steps(exchange: Sequence[Message]) -> Iterator[list[Message]]:
    """What the person said; then each turn with its outcomes."""
    step: list[Message] = []
    for message in exchange:
        if step and not isinstance(message, Outcomes):
            yield step
            step = []
        step.append(message)
    if step:
        yield step


def _cache_key(spec: ToolSpec, args: Mapping[str, Any]) -> tuple[str, str, str] | None:
    if not spec.read_only or spec.cache_key is None:
        return None
    try:
        depends_on = spec.cache_key(**args)
    except Exception:  # noqa: BLE001 - foreign code; without a key there is nothing to reuse
        return None
    return None if depends_on is None else (spec.name, _json(dict(args)), values.safe_repr(depends_on, 2000))


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(values.to_json(value), sort_keys=True)
