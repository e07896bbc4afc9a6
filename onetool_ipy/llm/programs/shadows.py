"""Shadows: runs of a program on made-up data, which show what of its calls private data decides.

For each place that a program wants to send to, two shadows get every private result of other places
as made-up values of the same shape, one all low and one all high, and every other result as it is.
A call out is free if both make the very same call: then it says nothing of private data but its
shape. Slicing, encodings, conditions, which call is made and how many are covered without any rule
about text, since a shadow computes them, too. A shadow that ends, or calls another function, makes
no later call.

Nothing leaves a shadow: it is a sandbox, and gets its answers from here. It is started when the
first call out has to be judged, and then goes through all that the program did so far.
"""

from __future__ import annotations

import json
import math
import random
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import ProgramError, ProgramLimit, UsageProblem
from onetool_ipy.core.labels import UNKNOWN, Labels
from onetool_ipy.llm.ask.guard import BITS, Guard, Outgoing, PrivateSource, Verdict
from onetool_ipy.llm.programs.sandbox import Finished, HostCall, Raised, Sandbox, StandIn, World

MAX_PLACES = 4
"""For how many places a program may have shadows, two each. Calls to any other are asked about."""

_STEP_S = 2.0
_LOW, _HIGH = ("abcdefghijklm", "1234"), ("NOPQRSTUVWXYZ", "56789")
_SUPPLY = 4_096
_MAX_TEXT = 500_000
_FREE = "free: it is the same call without your private data"
_PIECES = re.compile(
    r"(?P<date>\b\d{4}-\d\d-\d\d(?!\d))|(?P<time>(?<!\d)\d\d:\d\d(?!\d))|(?P<digits>\d+)"
    r"|(?P<letters>[^\W\d_]+)|(?P<other>[^\x00-\x7f])"
)
_SEPARATOR = re.compile(r"[,;\t|]")


class ShadowStep(NamedTuple):
    """A call of the program with its answer, the labels of its tool, and the source that it is."""

    call: HostCall
    answer: object
    labels: Labels
    source: PrivateSource


class ProgramVariable(NamedTuple):
    """A variable of a program: its value, and where that came from."""

    value: Any
    labels: Labels
    source: PrivateSource


class Shadows:
    """The shadows of one program. Use it as a context manager, which ends their processes.

    `sandbox` makes one that has these variables. `names` are the texts that stand in the program: a
    key or a column that it names keeps its name. `allow` are pairs of a source and a place that
    its data may go to.
    """

    def __init__(
        self,
        sandbox: Callable[[World, float], Sandbox],
        world: World,
        variables: Mapping[str, ProgramVariable],
        names: frozenset[str],
        allow: Sequence[tuple[str, str]],
    ) -> None:
        self._sandbox = sandbox
        self._world = world
        self._variables = variables
        self._names = names
        self._allow = allow
        self._stack = ExitStack()
        self._pairs: dict[str, tuple[_Shadow, _Shadow]] = {}
        # A tool may call another one in a thread of its own.
        self._lock = threading.Lock()
        self.begin()

    def __enter__(self) -> Shadows:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def begin(self) -> None:
        """The program starts from its beginning."""
        self._steps: list[ShadowStep] = []
        self._seen = Guard("the program made")
        for variable in self._variables.values():
            if variable.labels.reads == "private":
                self._seen.show(variable.source, variable.value)
        for pair in self._pairs.values():
            for shadow in pair:
                shadow.rewind()

    def follow(self, step: ShadowStep) -> None:
        """Take a call of the program, with the answer that it gets."""
        if step.labels.reads == "private" and not isinstance(step.answer, StandIn):
            answer = step.answer
            self._seen.show(step.source, answer.message if isinstance(answer, Raised) else answer)
        self._steps.append(step)

    def judge(self, call: HostCall | None, out: Outgoing) -> Verdict:
        """Say whether the call that the program makes now may go to a place. Without a `call` it
        may not where the program has read private data of another one."""
        with self._lock:
            foreign = self._seen.foreign(out.place, self._allow)
            if not foreign:
                return Verdict("")
            pair = None if out.place == UNKNOWN or call is None else self._pair(out.place)
            if pair is None or call is None:
                return Verdict("", self._seen.flow(out, foreign, [*out.args]))
            hidden = frozenset(foreign)
            calls = [shadow.call_after(self._steps, hidden) for shadow in pair]
            if all(other is not None and _is_same(other, call) for other in calls):
                return Verdict(_FREE)
            return Verdict("", self._seen.flow(out, foreign, _differing(out, call, calls)))

    def _pair(self, place: str) -> tuple[_Shadow, _Shadow] | None:
        """Return the shadows of a place, low and high. Their processes start with their first
        step."""
        if place not in self._pairs and len(self._pairs) < MAX_PLACES:
            low, high = (self._shadow(place, is_high) for is_high in (False, True))
            self._pairs[place] = low, high
        return self._pairs.get(place)

    def _shadow(self, place: str, is_high: bool) -> _Shadow:
        made_up = MadeUp(f"{self._world.seed} {place}", self._names, is_high=is_high)
        foreign = frozenset(self._seen.foreign(place, self._allow))
        variables = {
            name: made_up.of(each.value, name) if each.source in foreign else each.value
            for name, each in self._variables.items()
        }
        world = World(variables=variables, clock=self._world.clock, seed=self._world.seed)
        sandbox = self._stack.enter_context(self._sandbox(world, _STEP_S))
        return _Shadow(place, sandbox, made_up)


class _Shadow:
    """One run on made-up data."""

    def __init__(self, place: str, sandbox: Sandbox, made_up: MadeUp) -> None:
        self._place = place
        self._sandbox = sandbox
        self._made_up = made_up
        self._position = -1
        self._event: HostCall | Finished | None = None
        self._is_dead = False

    def rewind(self) -> None:
        """Go back to the beginning."""
        self._position = -1
        self._made_up.begin()

    def call_after(
        self, steps: Sequence[ShadowStep], hidden: frozenset[PrivateSource]
    ) -> HostCall | None:
        """Return the call that it makes after these steps; None once it has ended otherwise."""
        try:
            if self._position < 0 and not self._is_dead:
                self._position, self._event = 0, self._sandbox.start()
            while not self._is_dead and self._position < len(steps):
                step = steps[self._position]
                self._position += 1
                self._event = self._go_on(step, hidden)
        except (ProgramError, RecursionError, OSError) as exc:
            self._event = None
            # One that ran into a limit would do so again.
            self._is_dead = isinstance(exc, ProgramLimit)
        return self._event if isinstance(self._event, HostCall) else None

    def _go_on(
        self, step: ShadowStep, hidden: frozenset[PrivateSource]
    ) -> HostCall | Finished | None:
        """Answer its call as that of the program was answered, with made-up values for private
        ones."""
        if not isinstance(self._event, HostCall) or self._event.function != step.call.function:
            return None
        if isinstance(step.answer, StandIn):
            return self._sandbox.resume(StandIn(is_final=step.answer.is_final))
        # What a place gave is its own, whatever it was given for. What any other tool gave for
        # other arguments depends on the data that made them other.
        is_own = step.labels.sends == self._place and step.source not in hidden
        is_private = step.labels.reads == "private" and step.source in hidden
        if is_own or not (is_private or not _is_same(self._event, step.call)):
            return self._sandbox.resume(step.answer)
        # Whether a private read fails is private, too.
        if isinstance(step.answer, Raised):
            return None
        return self._sandbox.resume(self._made_up.of(step.answer, step.call.function))


class MadeUp:
    """Makes up values of the same shape as others: nothing of the values themselves is in them.

    Shape is: how long a text and a list is, which of its characters are digits or letters, where
    ASCII marks stand, what is a date, and the keys that the program names. Which of its names are
    keys can be private, too: that costs bits. After `BITS` of them no key keeps its name.
    """

    def __init__(self, seed: str, names: frozenset[str], *, is_high: bool) -> None:
        self._seed = f"{seed} {is_high}"
        self._rng = random.Random(self._seed)
        self._is_high = is_high
        self._names = names
        self._letters, self._digits = kinds = _HIGH if is_high else _LOW
        self._supply = {chars: "".join(self._rng.choices(chars, k=_SUPPLY)) for chars in kinds}
        self.begin()

    def begin(self) -> None:
        """Make up the same values again."""
        self._rng.seed(self._seed)
        self._left = BITS
        self._last: dict[str, tuple[list[str], int]] = {}

    def of(self, value: Any, where: str = "") -> Any:
        """Return another value of the same shape. What stands in the same place, such as the rows
        of a tool, is expected to have the same keys."""
        if isinstance(value, Mapping):
            items = {str(key): item for key, item in value.items()}
            named = sorted(self._names & items.keys())
            named = self._kept(where, named, math.comb(len(self._names), len(named)))
            fields = {key: self.of(items[key], f"{where}.{key}") for key in named}
            for key, item in items.items():
                if key not in named:
                    name = self._text(key, ())
                    # Two keys that are made up may be equal.
                    while name in fields:
                        name += self._run(self._letters, 1)
                    fields[name] = self.of(item, f"{where}.")
            return fields
        if isinstance(value, (list, tuple)):
            return [self.of(item, where) for item in value]
        if isinstance(value, bool):
            return self._is_high
        if isinstance(value, (int, float)):
            number = self._rng.randrange(1, 1_000)
            whole = 10**9 + number if self._is_high else -number
            return whole if isinstance(value, int) else whole + self._rng.random()
        if isinstance(value, str):
            more = self._run(self._letters, max(len(value) - _MAX_TEXT, 0))
            return self._text_of(value[:_MAX_TEXT], where) + more
        return None

    def _kept(self, where: str, named: list[str], ways: int) -> list[str]:
        """Return the keys that keep their names, of which there could be so many, and spend the
        bits that this costs."""
        last, count = self._last.get(where, (None, 0))
        if named != last:
            # In which of the rows the keys change is a choice, too.
            self._left -= math.log2(ways * (count + 1) ** 2)
            count = 0
        self._last[where] = named, count + 1
        return named if self._left >= 0 else []

    def _text_of(self, text: str, where: str) -> str:
        if text[:1] in ("{", "["):
            try:
                return json.dumps(self.of(json.loads(text), where))
            except (ValueError, RecursionError):
                pass
        head, line_end, rest = text.partition("\n")
        if line_end and _SEPARATOR.search(head):
            words = [match[0] for match in _PIECES.finditer(head)]
            named = [word for word in words if word in self._names]
            ways = len(self._names) ** len(named) * math.comb(len(words), len(named))
            named = self._kept(where, named, ways)
            return self._text(head, named) + line_end + self._text(rest, ())
        return self._text(text, ())

    def _text(self, text: str, names: Collection[str]) -> str:
        def piece(match: re.Match[str]) -> str:
            kind, word = match.lastgroup, match[0]
            if word in names:
                return word
            if kind == "letters":
                return self._run(self._letters, len(word))
            if kind == "digits":
                return self._run(self._digits, len(word))
            if kind == "date":
                year, month, day = (
                    (self._between(2050, 2089), self._between(7, 12), self._between(15, 28))
                    if self._is_high
                    else (self._between(1911, 1949), self._between(1, 6), self._between(1, 14))
                )
                return f"{year}-{month:02}-{day:02}"
            if kind == "time":
                hour = self._between(12, 23) if self._is_high else self._between(0, 11)
                return f"{hour:02}:{self._between(0, 59):02}"
            return "\u00a4"

        return _PIECES.sub(piece, text)

    def _between(self, first: int, last: int) -> int:
        return self._rng.randint(first, last)

    def _run(self, chars: str, length: int) -> str:
        if length > _MAX_TEXT:
            return chars[0] * length
        if length > _SUPPLY // 2:
            return "".join(self._rng.choices(chars, k=length))
        start = int(self._rng.random() * (_SUPPLY - length))
        return self._supply[chars][start : start + length]


def _is_same(one: HostCall, other: HostCall) -> bool:
    """Whether two calls are the very same: also the order of arguments and keys, and their
    types."""
    return one.function == other.function and _text_of(one) == _text_of(other)


def _text_of(call: HostCall) -> str:
    return json.dumps(values.to_json([call.args, call.kwargs]))


def _differing(out: Outgoing, call: HostCall, others: Iterable[HostCall | None]) -> list[str]:
    """Return the arguments that a shadow gives otherwise; all of them where the call itself is what
    private data decides."""
    differing: dict[str, None] = {}
    for other in others:
        if other is None or other.function != call.function or len(other.args) != len(call.args):
            return [*out.args]
        try:
            by_name = out.spec.named(other.args, other.kwargs)
        except UsageProblem:
            return [*out.args]
        differing |= {name: None for name in out.args if by_name.get(name) != out.args[name]}
    return [*differing] or [*out.args]
