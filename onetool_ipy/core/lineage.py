"""Lineage: which results the arguments of a call came from, by the identity of the objects.

An argument comes from a result if it is that result, its data, its frame, a list or dict inside it,
or its handle. Text and numbers come from nowhere: equal ones are the same object by chance. Results
are remembered when their call ends. They are looked through only when a later call is given a list
or dict that is not a whole result, so a call with plain arguments, and one that is given a whole
result, pay nothing that grows with their size.

A list or dict cannot be held weakly, and the `id` of a freed one is used again. So small results
are held, the newest ones, up to a limit; a large result is known only as long as somebody else
holds it, and only by itself, not by the rows inside it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onetool_ipy.base import forks
from onetool_ipy.base.tables import is_foreign, is_frame
from onetool_ipy.core.resolve import HANDLE_LENGTH, ResolvedCall
from onetool_ipy.core.result import ToolResult

ATTRS = "onetool"
"""The key in `frame.attrs` under which a frame says where it came from."""

_NUMBERS = frozenset((int, float, bool, type(None)))
_PLAIN = _NUMBERS | {str, bytes}
_CONTAINERS = frozenset((list, dict, tuple))
_MAX_SIZE = 1 << 20
_MAX_TOTAL = 8 << 20
"""In characters of JSON; as Python objects that is about ten times as many bytes."""
_PART_SIZE = 40
_MAX_HELD = 300
_MAX_PARTS = 20_000
_MAX_INPUTS = 50

_Owner = tuple[str, object]
"""The id of a call, and the object that it gave or a weak reference to it."""


@dataclass(slots=True, eq=False)
class _Held:
    """A result that is held, with what was found inside it once somebody looked; or copies that a
    tool was lent.

    `copies` has a copy for the `id` of each original.
    """

    call_id: str
    data: object
    size: int
    parts: list[_Owner]
    copies: Mapping[int, object] | None = None
    is_gone: bool = False


class Lineage:
    """The results of one toolbox that may still be arguments. Threads share it.

    `find_handle` returns the id of the call whose result has this handle, or "". What is held, what
    is unread, the owners and the total change together, under one lock. A weak reference that dies
    takes its owner out without it: that happens in whatever thread, at any time.
    """

    def __init__(self, find_handle: Callable[[str], str]) -> None:
        self._find_handle = find_handle
        self._lock = threading.RLock()
        self._held: deque[_Held] = deque()
        self._unread: deque[_Held] = deque()
        self._total = 0
        self._owners: dict[int, _Owner] = {}
        forks.register(self)

    def begin(self, resolved: ResolvedCall) -> None:
        """Find out where the arguments came from, before the tool may change them.

        Without a list or dict, and with less text than a handle has, nothing can have come from a
        result.
        """
        if resolved.failure is not None:
            return
        copier, args = resolved.copier, resolved.given
        # A program has named those of its own calls: it hands on copies, which are not known here.
        inputs = [
            *resolved.inputs,
            *(
                (name, call_id)
                for name, value in args.items()
                if type(value) is str
                and len(value) == HANDLE_LENGTH
                and (call_id := self._find_handle(value))
            ),
        ]
        if copier is not None:
            if not all(self._owner(value) for value in args.values() if type(value) in _CONTAINERS):
                self._read_all()
            is_known = not self._owners.keys().isdisjoint(copier.copies)
            if is_known or copier.others:
                inputs += self._inputs(args)
            if is_known:
                # The tool gets copies. While it runs they have the same origin, for the calls that
                # it makes with them.
                resolved.lent = _Held(resolved.id, None, 0, [], copier.copies)
                with self._lock:
                    self._unread.append(resolved.lent)
        if inputs:
            resolved.inputs = tuple(dict.fromkeys(inputs))[:_MAX_INPUTS]

    def end(self, resolved: ResolvedCall, result: ToolResult, size: int) -> None:
        """Remember what a call gave. `size` is that of its data, in characters."""
        if isinstance(resolved.lent, _Held):
            with self._lock:
                self._forget(resolved.lent)
        data = result.data
        if type(data) not in _NUMBERS and result.error is None:
            self.remember(resolved.id, data, size, holder=result)

    def remember(self, call_id: str, data: object, size: int, *, holder: object = None) -> None:
        """Remember a value that a call gave. A large list is known for as long as its `holder`
        lives."""
        kind = type(data)
        if kind in _CONTAINERS:
            if size <= _MAX_SIZE:
                owner = (call_id, data)
                held = _Held(call_id, data, size, [owner])
                with self._lock:
                    self._owners[id(data)] = owner
                    self._unread.append(held)
                    self._hold(held)
            elif holder is not None:
                self._watch(call_id, data, holder)
        elif kind is str and size <= _MAX_SIZE:
            # Text has no origin, but two texts can be compared.
            with self._lock:
                self._hold(_Held(call_id, data, size, []))
        elif kind not in _PLAIN:
            self._watch(call_id, data, data)

    def call_of(self, value: object) -> str:
        """Return the id of the call whose result a value is, or is a part of; "" if that is not
        known."""
        if isinstance(value, str):
            return self._find_handle(value) if len(value) == HANDLE_LENGTH else ""
        self._read_all()
        return self._owner(value)

    def data_of(self, call_id: str) -> object:
        """Return what a call gave, if it is held here; else None."""
        with self._lock:
            # A copy, since a weak reference may die while a dict is read.
            held, owners = tuple(self._held), self._owners.copy().values()
        data = next((each.data for each in reversed(held) if each.call_id == call_id), None)
        if data is None:
            references = (
                each for owner, each in owners if owner == call_id and isinstance(each, weakref.ref)
            )
            data = next(
                (live for reference in references if (live := reference()) is not None), None
            )
        return data.data if isinstance(data, ToolResult) else data

    def calls(self) -> set[str]:
        """Return the ids of the calls whose results are known here."""
        with self._lock:
            return {held.call_id for held in self._held} | {
                owner[0] for owner in self._owners.copy().values()
            }

    def clear(self) -> None:
        """Let go of all results."""
        with self._lock:
            self._held.clear()
            self._unread.clear()
            self._owners.clear()
            self._total = 0

    def after_fork(self) -> None:
        """Take a lock of our own. Another thread of the parent may have been about to change the
        total."""
        self._lock = threading.RLock()
        self._total = sum(held.size for held in self._held)

    def _owner(self, value: object) -> str:
        if isinstance(value, ToolResult):
            return str(value.meta.get("call_id", ""))
        call_id, owned = self._owners.get(id(value), ("", None))
        if isinstance(owned, weakref.ref):
            owned = owned()
            owned = owned.data if isinstance(owned, ToolResult) else owned
        if call_id and owned is value:
            return call_id
        if is_frame(value):
            about = getattr(value, "attrs", {}).get(ATTRS)
            return str(about.get("call_id", "")) if isinstance(about, Mapping) else ""
        # An answer of a model is in the call log, too.
        is_ours = type(value).__module__.startswith("onetool_ipy.")
        return str(getattr(value, "call_id", "")) if is_ours else ""

    def _inputs(self, args: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """Yield each argument with the calls that it, or what is inside it, came from."""
        for name, value in args.items():
            seen: set[int] = set()
            waiting = deque([value])
            while waiting and len(seen) < _MAX_PARTS:
                part = waiting.popleft()
                if type(part) in _PLAIN or id(part) in seen:
                    continue
                seen.add(id(part))
                if call_id := self._owner(part):
                    yield name, call_id
                else:
                    waiting.extend(_inside(part))

    def _hold(self, held: _Held) -> None:
        """Hold a result. The caller has the lock."""
        self._held.append(held)
        self._total += held.size
        self._make_room()
        # What is gone need not wait for a reader: results that nobody hands on would pile up.
        unread = self._unread
        while unread and unread[0].is_gone:
            unread.popleft()

    def _make_room(self) -> None:
        """Let go of the oldest results where there are too many. The caller has the lock."""
        while len(self._held) > _MAX_HELD or self._total > _MAX_TOTAL:
            oldest = self._held.popleft()
            self._total -= oldest.size
            self._forget(oldest)

    def _forget(self, held: _Held) -> None:
        held.is_gone = True
        for owner in held.parts:
            # A later call may have given the same object.
            if self._owners.get(id(owner[1])) is owner:
                self._owners.pop(id(owner[1]), None)

    def _read_all(self) -> None:
        """Look into the results that nobody has looked into, the outer ones first."""
        # Without the lock a result that another thread is reading would look like one without
        # parts.
        with self._lock:
            while self._unread:
                held = self._unread.popleft()
                if not held.is_gone:
                    self._read(held)
            # What was found inside counts, too.
            self._make_room()

    def _read(self, held: _Held) -> None:
        """Look for the lists, dicts and frames inside a result."""
        if held.copies is not None:
            owners = [(self._owners.get(key), copy) for key, copy in held.copies.items()]
            held.parts = [(owner[0], copy) for owner, copy in owners if owner is not None]
            self._owners.update((id(owner[1]), owner) for owner in held.parts)
            return
        waiting, parts = deque([held.data]), dict[int, object]()
        while waiting and len(parts) < _MAX_PARTS:
            part = waiting.popleft()
            if id(part) in parts:
                continue
            kind = type(part)
            if kind in _PLAIN:
                continue
            # Python has one empty tuple, and one of each constant tuple. So a tuple is a part only
            # if it is the result.
            if kind is list or kind is dict or part is held.data:
                parts[id(part)] = part
            elif kind is not tuple and (is_frame(part) or is_foreign(part)):
                self._watch(held.call_id, part, part)
            inside = _inside(part)
            if not _PLAIN.issuperset(map(type, inside)):
                waiting.extend(inside)
        held.parts = [(held.call_id, part) for part in parts.values()]
        self._owners.update(zip(parts, held.parts, strict=True))
        # Many small parts cost more than their text.
        more = max(0, _PART_SIZE * len(parts) - held.size)
        held.size += more
        self._total += more

    def _watch(self, call_id: str, data: object, holder: object) -> None:
        """Know an object for as long as its holder lives: itself, or the result that it is the data
        of."""
        key = id(data)
        try:
            reference = weakref.ref(holder, lambda _: self._owners.pop(key, None))
        except TypeError:  # its class has no place for weak references
            return
        self._owners[key] = (call_id, reference)


def _inside(value: Any) -> Collection[object]:
    """Return what stands inside a list, a dict or a tuple."""
    kind = type(value)
    inside: Collection[object] = (
        value.values() if kind is dict else value if kind in _CONTAINERS else ()
    )
    return inside
