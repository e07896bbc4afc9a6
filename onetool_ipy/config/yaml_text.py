"""YAML text -> a Document: plain values, the line of each key, and the faults. Imports PyYAML at the first parse.

The parser's events are put together here, in one loop: no text is too deep for it, and nothing is expanded while it is
counted. Scalars follow the core rules of YAML 1.2, so `on`, `yes`, `no`, dates and `12:30` are text, and a key is
always the text as written. A fault costs only the value around it. Text that cannot be parsed, or that is too deep or
too large, costs the whole document. Aliases (`*name`) and merge keys (`<<`) are for imported documents; configuration
is to be read by people, who would have to follow them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
"""Where a value is in its document: keys, and indexes of lists."""

MAX_DEPTH = 100
MAX_VALUES = 500_000
"""Values of one document, after aliases are expanded. 1,000 tools are about 75,000."""

_CHARS_PER_VALUE = 32
"""So much text counts as one more value: a long text behind many aliases is large, too."""

_ENTRIES = "tools"
"""The section with many large entries: a line is recorded for each entry, but not for the values inside."""

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = ("", "!", "!!str", "!!map", "!!seq")
_NO_TAG = "Remove the tag, or put the value in quotes."
_LEFT_OUT: Any = object()

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = (
    r"(?P<int>[-+]?[0-9]+)|(?P<oct>0o[0-7]+)|(?P<hex>0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<odd>[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
)
_NUMBER_STARTS = frozenset("-+.0123456789")
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"


@dataclass(frozen=True, slots=True)
class YamlFault:
    """A fault at a line. `path` is empty for the whole document."""

    line: int
    path: Path
    message: str
    hint: str = ""

    @property
    def key(self) -> str:
        """The path as messages show it."""
        return dotted(self.path)


@dataclass(frozen=True, slots=True)
class Document:
    """A mapping, the line of each key by its path, and the faults: values that were left out."""

    data: dict[str, Any]
    lines: dict[Path, int]
    faults: list[YamlFault]


class NotYaml(Exception):
    """The whole text cannot be used."""

    def __init__(self, line: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.fault = YamlFault(line, (), message, hint)


def quoted(value: object) -> str:
    """Return a value as messages show it: quoted, on one line, cut at 60 characters."""
    text = value if isinstance(value, str) else str(value)
    text = "".join(c if c.isprintable() else "?" for c in text[:200])
    return f"'{text[:57]}...'" if len(text) > 60 else f"'{text}'"


def dotted(path: Path) -> str:
    """Return a path as people write it: `servers.github.args[0]`."""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).removeprefix(".")


def parse(data: bytes, *, numbers: bool = True, imported: bool = False, most: int = MAX_VALUES) -> Document:
    """Parse one document whose top is a mapping; empty text is an empty mapping. Raises NotYaml.

    Without `numbers`, numbers stay text, so that a code such as 007 keeps its zeros. `most` values are taken. An
    `imported` document may have aliases, merge keys and empty keys.
    """
    import yaml

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise NotYaml(line, "is not UTF-8 text.", "Save the file as UTF-8.") from exc
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # PyYAML may be built without its C part
    builder = _Builder(numbers=numbers, imported=imported, most=most)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except yaml.YAMLError as exc:
        raise _reworded(exc, text) from exc
    return Document(builder.data, builder.lines, builder.faults)


def _reworded(exc: Any, text: str) -> NotYaml:
    """Reword the scanner's error for common mistakes."""
    control = re.search(_CONTROL, text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        message = f"holds the control character U+{ord(control[0]):04X}."
        return NotYaml(line, message, "Remove it, or write it as an escape in double quotes.")
    mark = getattr(exc, "problem_mark", None)
    problem = getattr(exc, "problem", None) or "cannot be read as text"
    line = 1 if mark is None else mark.line + 1
    rows = text.splitlines()
    row = rows[line - 1] if line <= len(rows) else ""
    if "\t" in row[: len(row) - len(row.lstrip())] or "'\\t'" in problem or "tab" in problem:
        return NotYaml(line, "a tab indents this line.", "Use spaces.")
    context = getattr(exc, "context", None)
    return NotYaml(line, f"is not valid YAML: {problem}{f' ({context})' if context else ''}.")


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is being built. `key` is the key of a mapping that waits for its value."""

    value: Any
    path: Path
    anchor: str | None = None
    is_recorded: bool = True
    """Whether the lines of its values are recorded."""
    is_dropped: bool = False
    """Whether it is left out, since something is wrong with the whole of it."""
    size_before: int = 0
    key: Any = None
    merged: dict[str, Any] | None = None


class _Builder:
    """Puts the events of one document together."""

    def __init__(self, *, numbers: bool, imported: bool, most: int) -> None:
        from yaml import events

        self.data: dict[str, Any] = {}
        self.lines: dict[Path, int] = {}
        self.faults: list[YamlFault] = []
        self._number_starts = _NUMBER_STARTS if numbers else frozenset[str]()
        self._is_imported, self._most = imported, most
        self._scalars = dict(_WORDS)
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._size = 0
        self._is_begun = False
        self._acts = {
            events.DocumentStartEvent: self._start_document,
            events.ScalarEvent: self._take_scalar,
            events.AliasEvent: self._take_alias,
            events.MappingStartEvent: self._start_collection,
            events.SequenceStartEvent: self._start_collection,
            events.MappingEndEvent: self._end_collection,
            events.SequenceEndEvent: self._end_collection,
        }
        self._mapping = events.MappingStartEvent

    def take(self, event: Any) -> None:
        """Take the next event of the parser."""
        act = self._acts.get(event.__class__)
        if act is not None:
            act(event)

    def _start_document(self, event: Any) -> None:
        if self._is_begun:
            raise NotYaml(_line(event), "holds more than one document.", "Remove the second '---'.")
        self._is_begun = True

    def _take_scalar(self, event: Any) -> None:
        text: str = event.value
        size = 1 + len(text) // _CHARS_PER_VALUE
        self._spend(size, event)
        if not self._frames:
            if not event.implicit[0] or _WORDS.get(text, text) is not None:
                raise NotYaml(_line(event), "holds a single value at its top, not 'key: value' lines.")
            return
        frame = self._frames[-1]
        if frame.key is None and frame.value.__class__ is dict:
            self._take_key(frame, event)
            return
        value, fault, hint = text, _tag_fault(event), _NO_TAG
        if not fault and event.implicit[0]:
            value, fault = self._scalar(text)
            hint = "Put it in quotes."
        if fault:
            self._fault(frame, event, fault, hint)
            value = _LEFT_OUT
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, size)
        self._place(frame, value, event)

    def _take_key(self, frame: _Frame, event: Any) -> None:
        name, fault = event.value, _tag_fault(event)
        if not fault and not name and not (event.style and self._is_imported):
            fault = "an empty key."
        elif name == "<<" and not event.style and not self._is_imported:
            fault = "a merge key, which configuration must not have. Write the values out."
        elif name in frame.value:
            first = self.lines.get((*frame.path, name))
            counts = "" if first is None else f"; line {first} counts, this one is ignored"
            fault = f"is written twice{counts}."
        if fault:
            self._fault(frame, event, fault, name=name)
        elif frame.is_recorded:
            self.lines[(*frame.path, name)] = event.start_mark.line + 1
        frame.key = _LEFT_OUT if fault else name

    def _start_collection(self, event: Any) -> None:
        self._spend(1, event)
        value: Any = {} if event.__class__ is self._mapping else []
        unknown = _tag_fault(event)
        if not self._frames:
            if unknown:
                raise NotYaml(_line(event), unknown, _NO_TAG)
            if value.__class__ is list:
                raise NotYaml(_line(event), "holds a list at its top, not 'key: value' lines.")
            self.data = value
            self._frames.append(_Frame(value, (), event.anchor))
            return
        if len(self._frames) >= MAX_DEPTH:
            raise NotYaml(_line(event), f"is nested more than {MAX_DEPTH} levels deep.")
        frame = self._frames[-1]
        is_list = frame.value.__class__ is list
        is_dropped = frame.is_dropped or frame.key is _LEFT_OUT
        if not is_list and frame.key is None:
            self._fault(frame, event, "a key must be text, not a list or a mapping.", name="?")
            is_dropped = True
        elif unknown:
            self._fault(frame, event, unknown, _NO_TAG)
            is_dropped = True
        path = (*frame.path, len(frame.value) if is_list else frame.key)
        if is_list:
            self._record(frame, event)
        is_recorded = frame.is_recorded and frame.path != (_ENTRIES,)
        self._frames.append(_Frame(value, path, event.anchor, is_recorded, is_dropped, self._size))

    def _end_collection(self, event: Any) -> None:
        frame = self._frames.pop()
        if frame.merged:
            # What is written wins over what is merged.
            written = dict(frame.value)
            frame.value.clear()
            frame.value.update({**frame.merged, **written})
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (frame.value, self._size - frame.size_before)
        if self._frames:
            self._place(self._frames[-1], _LEFT_OUT if frame.is_dropped else frame.value, event)

    def _take_alias(self, event: Any) -> None:
        name = f"*{event.anchor}"
        if not self._frames:
            raise NotYaml(_line(event), "holds a single value at its top, not 'key: value' lines.")
        frame = self._frames[-1]
        is_key = frame.key is None and frame.value.__class__ is dict
        value: Any = _LEFT_OUT
        if not self._is_imported:
            message = f"{quoted(name)} is an alias, which configuration must not have."
            self._fault(frame, event, message, "Write the value out.", name if is_key else None)
        elif any(outer.anchor == event.anchor for outer in self._frames):
            raise NotYaml(_line(event), f"the alias {quoted(name)} holds itself.")
        elif event.anchor not in self._anchors:
            raise NotYaml(_line(event), f"is not valid YAML: found undefined alias {quoted(name)}.")
        elif is_key:
            self._fault(frame, event, "a key must be text, not an alias.", name=name)
        else:
            value, size = self._anchors[event.anchor]
            self._spend(size, event)
            value = _copy(value)
        self._place(frame, value, event)

    def _place(self, frame: _Frame, value: Any, event: Any) -> None:
        """Put a value into the list or mapping around it. In a list, None takes the place of what is left out."""
        if frame.value.__class__ is list:
            self._record(frame, event)
            frame.value.append(None if value is _LEFT_OUT else value)
        elif frame.key is None:
            frame.key = _LEFT_OUT
        else:
            name, frame.key = frame.key, None
            if name is _LEFT_OUT or value is _LEFT_OUT:
                return
            if name == "<<" and self._is_imported:
                self._merge(frame, value, event)
            else:
                frame.value[name] = value

    def _merge(self, frame: _Frame, value: Any, event: Any) -> None:
        """Handle `<<: *base`: add the keys of a mapping, or of each mapping in a list; the first one wins."""
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            self._fault(frame, event, "'<<' must be followed by a mapping.", name="<<")
            return
        for part in parts:
            frame.merged = {**part, **(frame.merged or {})}

    def _record(self, frame: _Frame, event: Any) -> None:
        """Record the line of the next item of a list."""
        if frame.is_recorded:
            self.lines.setdefault((*frame.path, len(frame.value)), event.start_mark.line + 1)

    def _fault(self, frame: _Frame, event: Any, message: str, hint: str = "", name: str | None = None) -> None:
        """Note a fault of the value that comes next in a frame, or of the key `name`."""
        if frame.is_dropped or frame.key is _LEFT_OUT:
            return
        last: str | int = len(frame.value) if frame.value.__class__ is list else frame.key
        self.faults.append(YamlFault(_line(event), (*frame.path, last if name is None else name), message, hint))

    def _spend(self, size: int, event: Any) -> None:
        self._size += size
        if self._size > self._most:
            raise NotYaml(_line(event), "holds too many values.")

    def _scalar(self, text: str) -> tuple[Any, str]:
        """Read a plain scalar by the core rules of YAML 1.2; also what is wrong with it."""
        if text in self._scalars:
            return self._scalars[text], ""
        match = re.fullmatch(_NUMBER, text) if text[:1] in self._number_starts else None
        if match is None:
            return text, ""
        if match.lastgroup == "odd":
            return None, f"{quoted(text)} is not a number that JSON can hold."
        if len(text) > 1000:
            return None, f"the number {quoted(text)} is too long."
        if match.lastgroup == "float":
            value: Any = float(text)
            if value in (float("inf"), float("-inf")):
                return None, f"the number {quoted(text)} is too large."
        else:
            value = int(text, {"int": 10, "oct": 8, "hex": 16}[match.lastgroup or "int"])
        self._scalars[text] = value
        return value, ""


def _copy(value: Any) -> Any:
    """Copy lists and mappings; `copy.deepcopy` takes ten times as long."""
    if value.__class__ is dict:
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if value.__class__ is list else value


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _tag_fault(event: Any) -> str:
    """What is wrong with the tag of a value; empty if it has none, or says what the value is anyway."""
    if event.tag is None:
        return ""
    tag = "!!" + event.tag[len(_TAG) :] if event.tag.startswith(_TAG) else event.tag
    return "" if tag in _PLAIN_TAGS else f"the tag {quoted(tag)} is not allowed; only plain values are."
