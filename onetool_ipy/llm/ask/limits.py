"""How much one ask may do: requests, calls, tokens, seconds; and when the same calls again and again are enough.

`Meter` counts. The time a person takes to say yes or no is not counted. Where a provider does not count tokens, they
are estimated from the characters.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from onetool_ipy.config.value import Value
from onetool_ipy.core import values
from onetool_ipy.core.errors import ExecutionFailed
from onetool_ipy.llm.messages import Turn, Usage

__all__ = ["Limits", "Meter", "OverLimit", "Repeated", "signature"]

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


class Limits(Value):
    """What one ask may do, and how much of a session is sent along."""

    max_steps: int = 5
    max_calls: int = 50
    max_tokens: int = 200_000
    max_seconds: float = 300
    context_tokens: int = 100_000


class Meter:
    """Counts for one ask."""

    def __init__(self, limits: Limits, chars_per_token: float) -> None:
        self.limits = limits
        self.calls = 0
        self.usage = Usage()
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
        counted = turn.usage if turn.usage.total else Usage(self.tokens(sent_chars), self.tokens(said))
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
