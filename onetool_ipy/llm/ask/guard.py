"""Guard: what of the private data that a model has seen a call would carry elsewhere.

A call out is free if the model has seen no private data of another place, or if each leaf of its
arguments is explained without that data: the person typed it, the schema offers it, that very
place or public data gave it. Whatever explains a value is also a choice, and choices can spell a
secret, so each costs the bits that it can carry, and an ask has 64 of them. So do the tool, the
arguments that are left out, their order, and each call. The prices are those of a prefix code: over
all calls that could be made instead, 2 to the power of minus the price adds up to at most 1. A call
that is not free is put to the person with what would leave (`Flow`).

A `Guard` is what one conversation remembers: the text that the person typed, the private sources,
what each place gave and got. It knows no tool and asks nobody.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import NotApproved
from onetool_ipy.base.values import Json
from onetool_ipy.config.load import ToolLabels
from onetool_ipy.core import names
from onetool_ipy.core.current import NestedGuard
from onetool_ipy.core.labels import UNKNOWN, Labels, place_of
from onetool_ipy.core.question import Reply
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.resolve import ResolvedCall
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec

BITS = 64.0
"""What the choices of one ask may carry out without a question."""

ASKED, ALLOWED, NAMED = "asked: you let it go", "free: you allowed", "free: you named the tool"
"""How the words begin that say why a call went out by a yes, and not since it was explained."""

_PUBLIC = "public"
_TYPED, _OFFERED, _NEXT = "typed by you", "offered by its schema", "the next of its list"
_WAYS = {"stays": "sent there before", "next": _NEXT, "changes": ""}
_MAX_VALUES = 20_000
_MAX_CHARS = 200_000
_MAX_SHOWN = 300
_MAX_DEPTH = 100
_MAX_NOTED = 1_000
_MAX_SOURCES = 5
_LEAST_MATCH = 3
_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"[^\W_]+|[\W_]")
_PARTS = re.compile(r"[\n\r,;\t|]+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_GAP = re.compile(r"[ \n\t.,:/'\"?!()&-]{1,3}")
_CODED = re.compile(r"[A-Za-z0-9+/_=%-]{16,}")

_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a about all an and are as at average best between by compare current data date day "
        "download error example find for forecast from get guide help history how in info install "
        "is it last latest list map meaning month most new news number of official on or per "
        "population price rate release show stock the time to today tomorrow top tutorial use "
        "version vs was weather week what when where which who why with year yesterday",
    )
)
"""Words of every search."""

_EXPECTED, _UNEXPECTED = math.log2(4 / 3), 3.0
"""What is as expected costs (three of four are), and each of two ways of being otherwise."""

_RARE = 2.0
"""What the one other way costs, where there is one."""

_LIKELY, _UNLIKELY = _EXPECTED + math.log2(4), _RARE + math.log2(4)
"""What naming an explanation costs. Likely are: a passage that was typed, words, given by the
place, by public data. Unlikely: a literal, an option, a number up to 100, a date."""

_MAX_PRICED = 200
"""So many leaves cost more than an ask has, whatever they are."""

Today = Callable[[], datetime.date]

_Price = tuple[str, float | None, str]
"""A part of a call: its argument, the bits that it costs (None if only private data explains it),
and what explains it."""


class PrivateSource(NamedTuple):
    """Private data that the model was shown: in words where it is from, the tool, its place."""

    words: str
    tool: str
    place: str


class Flow(NamedTuple):
    """A call that would carry private data to a place, in words, and the sources that it may be
    from."""

    place: str
    text: str
    sources: tuple[PrivateSource, ...]


class Verdict(NamedTuple):
    """Why a call is free (empty where no private data was seen), or the flow that the person is
    asked about."""

    why: str
    flow: Flow | None = None


class Outgoing(NamedTuple):
    """A call that leaves: its tool and arguments, where it goes, how many tools go there, and to
    how many places others go."""

    spec: ToolSpec
    args: Mapping[str, Any]
    place: str
    tool_count: int = 1
    place_count: int = 1

    def among(self, counts: Mapping[str, int]) -> Outgoing:
        """Return the call with the numbers of tools by place that it was chosen of."""
        places = sum(1 for place in counts if place)
        return self._replace(
            tool_count=max(counts.get(self.place, 1), 1), place_count=max(places, 1)
        )


class _Text:
    """Text out of which passages can be chosen."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = frozenset(_WORD.findall(text))
        self.pieces = frozenset(piece.strip(".,;:!?()'\"") for piece in text.split())
        self.length = _length(text)

    def bits(self, text: str) -> float | None:
        """Return the bits of choosing a piece of it, such as an address; or a passage: where it
        begins, how long it is."""
        if text and text in self.pieces:
            return 1 + math.log2(len(self.pieces))
        if not _stands_in(text, self.text):
            return None
        return 1 + math.log2(self.length + 1) + _number_bits(_length(text))


class _Given:
    """The values that a place gave, by the key that they stood under, in their order. It reads them
    when they are first asked for."""

    def __init__(self) -> None:
        self._lists: dict[str, list[str]] = {}
        self._where: dict[str, tuple[str, int]] = {}
        self._waiting: list[object] = []
        self._chunks: list[str] = []
        self._size = 0
        self._text: _Text | None = None

    def add(self, data: object) -> None:
        """Take what a place gave. Nobody may change it afterwards."""
        self._waiting.append(data)

    def bits(self, text: str) -> float | None:
        """Return the bits of choosing a value, or a passage of the text; None for anything else."""
        self._read()
        if text in self._where:
            return math.log2(len(self._where)) + 1
        if len(text) < _LEAST_MATCH:
            return None
        if self._text is None:
            self._text = _Text("\n".join(self._chunks))
        bits = self._text.bits(text)
        return None if bits is None else bits + 1

    def after(self, text: str) -> str | None:
        """Return the value behind this one in its list."""
        key, number = self._where.get(text, ("", -1))
        column = self._lists.get(key, [])
        return column[number + 1] if 0 <= number < len(column) - 1 else None

    def values(self) -> Iterable[str]:
        """Return the values, each once."""
        self._read()
        return self._where

    def words(self) -> frozenset[str]:
        """Return the words of all the text."""
        self._read()
        return frozenset(word for chunk in self._chunks for word in _WORD.findall(chunk))

    def to_json(self) -> list[Any]:
        """Return the values by key, and the text."""
        self._read()
        return [self._lists, "\n".join(self._chunks)]

    def restore(self, lists: Mapping[str, Sequence[str]], text: str) -> None:
        """Take over what `to_json` gave."""
        self._read()
        chunks = [*self._chunks, text]
        self.add(lists)
        self._read()
        self._chunks, self._size, self._text = chunks, sum(map(len, chunks)), None

    def _read(self) -> None:
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            for key, leaf in _leaves(data):
                text = str(leaf)[:_MAX_CHARS]
                parts = [text]
                if isinstance(leaf, str) and _PARTS.search(text):
                    parts += (each.strip() for each in _PARTS.split(text))
                for part in parts:
                    is_new = bool(part) and part not in self._where and len(part) <= _MAX_SHOWN
                    if is_new and len(self._where) < _MAX_VALUES:
                        column = self._lists.setdefault(key, [])
                        self._where[part] = key, len(column)
                        column.append(part)
                if self._size < _MAX_CHARS:
                    self._chunks.append(text[: _MAX_CHARS - self._size])
                    self._size += len(self._chunks[-1])
                    self._text = None


class Guard:
    """What one conversation has seen, and what may leave it. `author` says who made its text."""

    def __init__(self, author: str = "the model wrote") -> None:
        self._author = author
        self.sources: dict[PrivateSource, None] = {}
        self.read: dict[PrivateSource, None] = {}
        self.handles: dict[str, tuple[Labels, PrivateSource]] = {}
        self.allowed: set[str] = set()
        self.spent = 0.0
        self._typed: list[str] = []
        self._typed_text = _Text("")
        self._given: dict[str, _Given] = {}
        self._private: dict[PrivateSource, _Given] = {}
        self._confided: set[str] = set()
        self._last: dict[str, tuple[ToolSpec, Json]] = {}
        self._ways: dict[tuple[str, str], str] = {}
        self._next: dict[str, str] = {}
        self._last_place = ""

    # --- what was seen ----------------------------------------------------------------------------

    def begin(self, prompt: str) -> None:
        """The person typed this. The bits, and a yes to a place, are for one ask."""
        self._typed.append(prompt)
        self._typed_text = _Text("\n".join(self._typed))
        self.allowed.clear()
        self.spent = 0.0

    def see(
        self, source: PrivateSource, labels: Labels, data: object, shown: object = None
    ) -> None:
        """Remember what a tool gave, and what of it the model was `shown`, if not all: which part
        the model looks at is a choice."""
        self.give(labels, data)
        if labels.reads == "private":
            self.show(source, data if shown is None else shown)

    def show(self, source: PrivateSource, data: object) -> None:
        """Remember private data that the model was shown."""
        self.sources[source] = None
        self._private.setdefault(source, _Given()).add(data)

    def show_read(self, data: object) -> None:
        """Remember what a program gave the model: it may hold all that the program read."""
        for source in self.read:
            self.show(source, data)
        self.read.clear()

    def labels_after(self, args: object, labels: Labels) -> Labels:
        """Return the labels of what a call gave. A public tool may give back private data that it
        was given, or that its place has: then all that it gives counts as data of its place."""
        place = labels.sends
        if labels.reads != "public" or not self.sources:
            return labels
        if not place:
            # Nobody judged what it was given, and that may be all it gives.
            return Labels("nothing") if args else labels
        has_private = place in self._confided or any(each.place == place for each in self.sources)
        return Labels("private", place, place) if has_private else labels

    def give(self, labels: Labels, data: object) -> None:
        """Remember what a place, or a source of public data, gave: it explains later arguments."""
        place = _PUBLIC if labels.reads == "public" else labels.of
        if place and labels.reads != "nothing":
            self._given.setdefault(place, _Given()).add(data)

    def foreign(
        self, place: str, allow: Iterable[tuple[str, str]] = ()
    ) -> tuple[PrivateSource, ...]:
        """Return the private sources whose data must not go to a place unseen."""
        if place == UNKNOWN:
            return tuple(self.sources)
        open_to = [pattern for pattern, to in allow if place_of(to) == place]
        return tuple(
            source
            for source in self.sources
            if source.place != place and not _is_open(source, open_to)
        )

    # --- what would leave -------------------------------------------------------------------------

    def check(self, call: Outgoing, today: Today, allow: Iterable[tuple[str, str]] = ()) -> Verdict:
        """Say whether a call is free, and spend its bits if it is."""
        place = call.place
        if not place:
            return Verdict("")
        foreign = self.foreign(place, allow)
        if not foreign:
            # What is let out by `allow` may come back as public data.
            (self.sent if self.foreign(place) else self._note)(call)
            return Verdict("")
        if place == UNKNOWN:
            return Verdict("", self.flow(call, foreign, [*call.args]))
        if place in self.allowed:
            self.sent(call)
            return Verdict(f"{ALLOWED} {place} for this ask")
        prices = [*islice(self._prices(call, today), _MAX_PRICED)]
        if unexplained := [*dict.fromkeys(name for name, bits, _ in prices if bits is None)]:
            return Verdict("", self.flow(call, foreign, unexplained))
        bits = max(self._call_bits(call) + sum(price[1] or 0 for price in prices), 1.0)
        if self.spent + bits > BITS:
            return Verdict("", self.flow(call, foreign, [*call.args], is_spent=True))
        self.spent += bits
        self._note(call)
        reasons = ", ".join(dict.fromkeys(why for _, _, why in prices if why))
        return Verdict(f"explained: {reasons or 'it has no arguments'}")

    def sent(self, call: Outgoing) -> None:
        """Remember a call that the person let out: what it carried is there now."""
        self._note(call)
        self._confided.add(call.place)

    def _note(self, call: Outgoing) -> None:
        """Remember a call: its place has what was sent there, as if it had given it."""
        for name in call.args:
            self._ways[call.place, name] = self._way(call, name)
        data = self._given.setdefault(call.place, _Given())
        data.add(dict(call.args))
        for _, leaf in islice(_leaves(call.args), _MAX_NOTED):
            for each in (data, self._given.get(_PUBLIC, data)):
                if (after := each.after(str(leaf))) is not None:
                    self._next[call.place] = after
                    break
        self._last[call.place] = call.spec, dict(call.args)
        self._last_place = call.place

    def _way(self, call: Outgoing, name: str) -> str:
        """Return how an argument goes on from the last call to its place: it stays, it is
        the next of its list, it changes; "" for one that has nothing to go on from."""
        _, last = self._last.get(call.place, (None, {}))
        if name not in last:
            return ""
        # The same in types and the order of keys, too.
        one, other = call.args[name], last[name]
        if one == other and json.dumps(one, default=repr) == json.dumps(other, default=repr):
            return "stays"
        return "next" if _text_of(one) == self._next.get(call.place) else "changes"

    def _call_bits(self, call: Outgoing) -> float:
        """Return the bits of making the call at all: to which place, of which tool, which optional
        arguments, their order. The shape of the last call to the last place is expected, then that
        of the last call to this one; the fourth way is to make no call."""
        schema = call.spec.parameters
        properties = [*schema.get("properties", {})]
        required = [name for name in properties if name in schema.get("required", ())]
        spec, args = self._last.get(call.place, (None, {}))
        is_usual = spec is not None and (spec.name, [*args]) == (call.spec.name, [*call.args])
        if is_usual and call.place == self._last_place:
            return _EXPECTED
        bits = (_RARE + 2 if self._last_place else 1.0) + math.log2(call.place_count)
        if is_usual:
            return bits
        optional = [name for name in call.args if name not in required]
        free = max(len(properties) - len(required), len(optional))
        bits += math.log2(call.tool_count) + math.log2(free + 1)
        bits += math.log2(math.comb(free, len(optional)))
        if len(call.args) < 2:
            return bits
        in_order = [name for name in properties if name in call.args]
        is_plain = [*call.args] in (in_order, [*required, *optional])
        orders = 1 if is_plain else math.factorial(min(len(call.args), _MAX_PRICED - 50))
        return bits + math.log2(3 * orders)

    def _prices(self, call: Outgoing, today: Today) -> Iterator[_Price]:
        """Yield what each part of each argument costs. A name that the schema does not have is a
        part, too."""
        properties = call.spec.parameters.get("properties", {})
        for name, value in call.args.items():
            node = _part(properties, name)
            if name not in properties:
                yield name, *self._leaf(name, {}, call, today)
            if way := self._way(call, name):
                # What an argument did last is what it is expected to do.
                usual = self._ways.get((call.place, name)) or "stays"
                bits = _EXPECTED if way == usual else _UNEXPECTED
                # Without a type a text could be the number that it reads as.
                bits += way == "next" and not isinstance(node.get("type"), str)
                yield name, bits, _WAYS[way]
            if way in ("", "changes"):
                yield from self._parts(name, value, node, call, today)

    def _parts(
        self, name: str, value: object, node: Mapping[str, Any], call: Outgoing, today: Today
    ) -> Iterator[_Price]:
        """Yield what a value costs: where its schema does not say so, that it is a list or an
        object; how long it is; its keys; its leaves."""
        is_typed = isinstance(node.get("type"), str)
        if isinstance(value, Mapping):
            yield name, _number_bits(len(value) + 1) + (0 if is_typed else _UNEXPECTED), ""
            fields = node.get("properties") or {}
            for key, inner in value.items():
                if key in fields:
                    yield name, _EXPECTED + math.log2(len(fields)), _OFFERED
                else:
                    bits, why = self._leaf(key, {}, call, today)
                    yield name, None if bits is None else bits + _RARE, why
                yield from self._parts(name, inner, _part(fields, key), call, today)
        elif isinstance(value, (list, tuple)):
            yield name, _number_bits(len(value) + 1) + (0 if is_typed else _UNEXPECTED), ""
            for inner in value:
                yield from self._parts(name, inner, _part(node, "items"), call, today)
        else:
            bits, why = self._leaf(value, node, call, today)
            yield name, bits if is_typed or bits is None else bits + _EXPECTED + 1, why

    def _leaf(
        self, leaf: object, node: Mapping[str, Any], call: Outgoing, today: Today
    ) -> tuple[float | None, str]:
        """Return the bits of a value, and what explains it; None if only private data does.

        The next value of a list that was begun is expected; anything else first says which
        explanation it has.
        """
        options = [True, False] if node.get("type") == "boolean" else _options(node)
        is_option = any(leaf == option and type(leaf) is type(option) for option in options)
        if is_option and ("enum" in node or node.get("type") == "boolean"):
            return math.log2(len(options)), _OFFERED
        is_list = call.place in self._next
        if leaf is None or isinstance(leaf, bool) or leaf == "":
            return is_list + _UNLIKELY + 2, _OFFERED
        text = _text_of(leaf)
        if text == self._next.get(call.place):
            return 1.0, _NEXT
        prices: list[tuple[float, str]] = []
        if is_option:
            prices.append((_UNLIKELY + math.log2(len(options)), _OFFERED))
        if isinstance(leaf, int) and 0 <= leaf <= 100:
            prices.append((_UNLIKELY + math.log2(101), _OFFERED))
        at_place = f"given by {call.place}, or sent there before"
        for place, words in ((call.place, at_place), (_PUBLIC, "public data")):
            if (data := self._given.get(place)) and (bits := data.bits(text)) is not None:
                prices.append((_LIKELY + bits, words))
        if _DATE.fullmatch(text) and (days := _days(text, today())) is not None:
            prices.append((_UNLIKELY + _number_bits(days + 1) + 1, "a date"))
        typed = self._typed_text.bits(text), self._word_bits(text, call.spec, node)
        prices += [(_LIKELY + bits, _TYPED) for bits in typed if bits is not None]
        price, why = min(prices, default=(None, ""))
        return (None if price is None else price + is_list), why

    def _word_bits(self, text: str, spec: ToolSpec, node: Mapping[str, Any]) -> float | None:
        """Return the bits of choosing words of what the person typed, of the tool's own description
        and of every search, with a blank between them; or in another case or number, and with other
        marks."""
        words, gaps = _WORD.findall(text[: _MAX_SHOWN + 1]), _WORD.split(text[: _MAX_SHOWN + 1])
        if not words or len(text) > _MAX_SHOWN:
            return None
        description = f"{spec.name} {spec.description[:2000]} {node.get('description', '')}"
        vocabulary = {*self._typed_text.words, *_WORD.findall(description), *_COMMON}
        bits = _number_bits(len(words)) + len(words) * math.log2(len(vocabulary))
        plain_gaps = ["", *[" "] * (len(words) - 1), ""]
        lower = {word.lower() for word in vocabulary}
        for word in words:
            plain = word.lower()
            is_usual = word in (plain, word.upper(), word.capitalize())
            forms = {plain, plain.removesuffix("s"), f"{plain}s"}
            if word not in vocabulary and not (is_usual and forms & lower):
                return None
            bits += _EXPECTED if word in vocabulary else _RARE + math.log2(9)
        for gap, plain_gap in zip(gaps, plain_gaps, strict=True):
            if gap not in ("", plain_gap) and not _GAP.fullmatch(gap):
                return None
            bits += _EXPECTED if gap == plain_gap else _RARE + math.log2(3) + 4 * len(gap)
        return bits

    def flow(
        self,
        call: Outgoing,
        foreign: tuple[PrivateSource, ...],
        arguments: Sequence[str],
        *,
        is_spent: bool = False,
    ) -> Flow:
        """Say what would go where, in which arguments, out of which call."""
        quoted_args = {name: call.args[name] for name in arguments[:2]}
        text = " ".join(_text_of(value)[:_MAX_CHARS] for value in quoted_args.values())
        where = " and ".join(f"`{values.cut(str(name), 60)}`" for name in quoted_args)
        where = where or "no argument"
        more = len(arguments) - len(quoted_args)
        where += f" and {more} more" if more else ""
        what = self._what(text, foreign)
        if is_spent:
            what = f"one choice too many for one ask, {what}"
        quoted = f': "{values.cut(" ".join(text.split()), _MAX_SHOWN)}"' if text.strip() else ""
        return Flow(call.place, f"would send to {call.place}: {what}, in {where}{quoted}", foreign)

    def _what(self, text: str, foreign: Sequence[PrivateSource]) -> str:
        """Say what a text is: values of a source, or something that the model wrote or coded."""
        counts = {
            source: sum(
                len(value) >= _LEAST_MATCH and _stands_in(value, text)
                for value in self._private[source].values()
            )
            for source in foreign
            if source in self._private
        }
        best = max(counts, key=lambda source: counts[source], default=None)
        if best is not None and counts[best]:
            return f"{counts[best]} value{'s'[: counts[best] > 1]} out of {best.words}"
        words = {word for word in _WORD.findall(text) if len(word) > _LEAST_MATCH}
        words -= self._typed_text.words
        for source in reversed(foreign):
            own = self._private[source].words() if source in self._private else frozenset()
            if count := len(words & own):
                return f"{count} word{'s'[: count > 1]} out of {source.words}"
        # The newest come first: what was read last is what is most likely carried.
        read = [*dict.fromkeys(source.words for source in reversed(foreign))]
        listed = ", ".join(read[:_MAX_SOURCES])
        listed += f" and {len(read) - _MAX_SOURCES} more" if len(read) > _MAX_SOURCES else ""
        kind = "unreadable text (encoded?)" if _CODED.search(text) else "text"
        return f"{kind} that {self._author} after it read {listed}"

    # --- on disk ----------------------------------------------------------------------------------

    def to_json(self) -> Json:
        """Return what a saved session keeps. The values of private sources are not in it."""
        return {
            "typed": self._typed,
            "sources": [list(source) for source in self.sources],
            "handles": {key: [list(part) for part in pair] for key, pair in self.handles.items()},
            "given": {place: each.to_json() for place, each in self._given.items()},
            "confided": sorted(self._confided),
        }

    def merge(self, data: object, *, has_messages: bool) -> None:
        """Take over what a file holds. One that says nothing of the guard may have shown anything
        to the model."""
        if not isinstance(data, dict):
            if has_messages:
                self.sources[PrivateSource("the earlier conversation", "", "")] = None
            return
        typed = [*map(str, data["typed"])]
        self._typed = [*typed, *(each for each in self._typed if each not in typed)]
        self._typed_text = _Text("\n".join(self._typed))
        self.sources |= dict.fromkeys(PrivateSource(*map(str, each)) for each in data["sources"])
        self.handles |= {
            handle: (Labels(*labels), PrivateSource(*map(str, source)))
            for handle, (labels, source) in data["handles"].items()
        }
        for place, (lists, text) in data["given"].items():
            self._given.setdefault(place, _Given()).restore(lists, str(text))
        # Files of earlier versions say what was sent where.
        self._confided |= {*map(str, data["confided" if "confided" in data else "sent"])}


def source_of(spec: ToolSpec, args: object, labels: Labels) -> PrivateSource:
    """Return the source that a call of a tool is: its name with its first argument."""
    first = next((str(leaf) for _, leaf in _leaves(args)), "") if args else ""
    words = f"{spec.name}({values.cut(first, 40)!r})" if first else spec.name
    return PrivateSource(words, spec.name, labels.of)


def allow_line(flow: Flow) -> str:
    """Return the settings of the user's own file that would have allowed a flow."""
    pairs = dict.fromkeys(source.tool or "attached" for source in flow.sources)
    entries = ", ".join(f'{{from: "{pair}", to: "{flow.place}"}}' for pair in pairs)
    return f"guard: {{allow: [{entries}]}} in ~/.onetool/onetool.yaml"


def not_sent(tool: str, flow: Flow, reply: Reply | None) -> NotApproved:
    """Return the refusal of a call that the person did not let out, or could not be asked about."""
    details = {"reason": "guard", "place": flow.place}
    if reply is not None:
        why = reply.note or f"the person did not let it go to {flow.place}"
        return NotApproved(f"'{tool}' was not run: {why}.", details=details)
    # A line for an unknown place would allow any.
    for_good = "" if flow.place == UNKNOWN else f", or for good with {allow_line(flow)}"
    return NotApproved(
        f"'{tool}' {flow.text}. Nobody could be asked, so it was not run. Allow it with"
        f" approve=[{tool!r}]{for_good}",
        details=details,
    )


def not_nested(outer: ToolSpec, inner: ToolSpec, flow: Flow) -> NotApproved:
    """Return the refusal of a call inside a tool that would carry data to a place of its own."""
    return NotApproved(
        f"'{inner.name}' was not run: '{outer.name}' called it, and {flow.text}.",
        hint=f"If it may go there: @tool(sends={flow.place!r}) on '{outer.name}', and it is asked.",
        details={"reason": "guard", "place": flow.place},
    )


def guard_inside(
    outer: ResolvedCall,
    labels: ToolLabels,
    judge: Callable[[Outgoing], Verdict],
    is_named: Callable[[ToolSpec], bool],
) -> NestedGuard:
    """Let a tool call another one that sends elsewhere only if what it was given itself is free for
    that place. How often it does so is up to the tool."""
    free = {""}

    def require(inner: ToolSpec, args: Mapping[str, Any]) -> None:
        place, spec = labels.of_call(inner, args).sends, outer.require()
        free.add(labels.of_call(spec, outer.given).sends)
        if place in free or is_named(spec):
            return
        if (flow := judge(Outgoing(spec, outer.given, place)).flow) is not None:
            raise not_nested(spec, inner, flow)
        free.add(place)

    return require


def attached_source(
    name: str, value: object, registry: Registry, labels: ToolLabels
) -> tuple[Labels, PrivateSource]:
    """Return the labels of a variable, and the source that it is: that of the tool which gave
    it."""
    tool = value.meta.get("tool") if isinstance(value, ToolResult) else None
    spec = registry.get(tool) if isinstance(tool, str) else None
    own = Labels() if spec is None else labels.of(spec)
    return own, PrivateSource(name, "" if spec is None else spec.name, own.of)


def _is_open(source: PrivateSource, patterns: Sequence[str]) -> bool:
    tool = source.tool or "attached"
    return any(
        names.allowed(tool, [pattern])
        or pattern in (tool.partition(".")[0], source.place or "this machine")
        for pattern in patterns
    )


def _leaves(value: object, key: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield each text and number in a value with the key that it stands under."""
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for name, inner in value.items():
            yield from _leaves(inner, str(name), depth + 1)
    elif isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
        for inner in value:
            yield from _leaves(inner, key, depth + 1)
    elif value is not None and not isinstance(value, bool):
        yield key, value if isinstance(value, (int, float)) else str(value)


def _part(node: object, name: object) -> Mapping[str, Any]:
    part = node.get(name) if isinstance(node, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _options(node: Mapping[str, Any]) -> list[Any]:
    """Return the values that a schema offers."""
    options: list[Any] = []
    for each in (node, *(node.get("anyOf") or ()), *(node.get("oneOf") or ())):
        if isinstance(each, Mapping):
            enum = each.get("enum")
            options += enum if isinstance(enum, list) else []
            options += [each[key] for key in ("const", "default") if key in each]
    return options


def _text_of(leaf: object) -> str:
    return leaf if isinstance(leaf, str) else values.safe_repr(leaf, _MAX_CHARS)


def _number_bits(number: int) -> float:
    """Return what a number from 1 costs, of which the small ones are likely."""
    return 2 * math.log2(number) + 1


def _length(text: str) -> int:
    """Return in how many places of a text a passage of it can begin or end: at a word, at a sign
    and at a blank."""
    return sum(1 for _ in _TOKEN.finditer(text))


def _stands_in(part: str, text: str) -> bool:
    """Whether a text stands in another as whole words."""
    if not part.strip():
        return False
    at = text.find(part)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(part) : at + len(part) + 1]
        is_cut = (before.isalnum() and part[0].isalnum()) or (
            after.isalnum() and part[-1].isalnum()
        )
        if not is_cut:
            return True
        at = text.find(part, at + 1)
    return False


def _days(text: str, today: datetime.date) -> int | None:
    """Return how far a date is from today; None if it is not a date."""
    try:
        return abs((datetime.date.fromisoformat(text) - today).days)
    except ValueError:
        return None
