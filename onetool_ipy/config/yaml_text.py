"""YAML text -> a Document: plain values, the line of each key, and the faults. Imports PyYAML at
the first parse.

The parser's events are put together here, so that nothing is expanded before it is counted. Scalars
follow the core rules of YAML 1.2, so `on`, `yes`, `no`, dates and `12:30` are text, and a key is
always the text as written. A fault costs only the value around it. Text that cannot be parsed, or
that is too deep or too large, costs the whole document. Aliases (`*name`) and merge keys (`<<`) are
for imported documents; configuration is to be read by people, who would have to follow them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Path = tuple[str | int, ...]
"""Where a value is in its document: keys, and indexes of lists."""

MAX_DEPTH = 100
MAX_VALUES = 500_000
"""Values of one document, after aliases are expanded. 1,000 tools are about 75,000."""

_CHARS_PER_VALUE = 32
"""So much text counts as one more value: a long text behind many aliases is large, too."""

_ENTRIES = "tools"
"""The section with many large entries: a line is recorded for each entry, but not for the values
inside."""

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
_MAX_PLAIN = 64 * 1024
_PLAIN_LINE = (
    rb"\x20*(?:#[\x20-\x7e]*)?"
    rb"|(?P<key>[A-Za-z_][A-Za-z0-9_]*):\x20+"
    rb"(?:\"(?P<double>[\x20-\x21\x23-\x5b\x5d-\x7e]*)\"|'(?P<single>[\x20-\x26\x28-\x7e]*)'"
    rb"|(?P<plain>[A-Za-z0-9][A-Za-z0-9_./+=-]*))(?:\x20+#[\x20-\x7e]*|\x20*)"
)
"""A line of `parse_plain`: empty, a comment, or a name and a text of printable ASCII."""
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"


class YamlFault(NamedTuple):
    """A fault at a line. `path` is empty for the whole document."""

    line: int
    path: Path
    message: str
    hint: str = ""

    @property
    def key(self) -> str:
        """The path as messages show it."""
        return dotted(self.path)


class Document(NamedTuple):
    """A mapping, the line of each key by its path, and the faults: values that were left out.

    `fits` says that a configuration file is known to fit its schema as it is written.
    """

    data: dict[str, Any]
    lines: dict[Path, int]
    faults: list[YamlFault]
    fits: bool = False


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


def parse(
    data: bytes, *, numbers: bool = True, imported: bool = False, most: int = MAX_VALUES
) -> Document:
    """Parse one document whose top is a mapping; empty text is an empty mapping. Raises NotYaml.

    Without `numbers`, numbers stay text, so that a code such as 007 keeps its zeros. `most` values
    are taken. An `imported` document may have aliases, merge keys and empty keys.
    """
    import yaml

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise NotYaml(line, "is not UTF-8 text.", "Save the file as UTF-8.") from exc
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # PyYAML may be built without its C part
    builder = _Builder(
        yaml.parse(text, Loader=loader), numbers=numbers, imported=imported, most=most
    )
    try:
        return Document(builder.document(), builder.lines, builder.faults)
    except yaml.YAMLError as exc:
        raise _reworded(exc, text) from exc


def parse_plain(data: bytes) -> Document | None:
    """Parse `NAME: value` lines of texts without the YAML parser; None if there is anything else.

    What it returns is what `parse` without `numbers` returns. Most files of secrets are such lines.
    """
    if len(data) > _MAX_PLAIN:
        return None
    entries: dict[str, Any] = {}
    lines: dict[Path, int] = {}
    for number, row in enumerate(data.split(b"\n"), 1):
        match = re.fullmatch(_PLAIN_LINE, row)
        if match is None:
            return None
        if match["key"] is None:
            continue
        key = match["key"].decode("ascii")
        value = (match["double"] or match["single"] or match["plain"] or b"").decode("ascii")
        if key in entries or key in _WORDS or (match["plain"] is not None and value in _WORDS):
            return None
        entries[key] = value
        lines[(key,)] = number
    return Document(entries, lines, [])


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


class _Builder:
    """Builds the values of one document from the events of the parser, each list and mapping by a
    call of its own."""

    def __init__(self, parsed: Iterator[Any], *, numbers: bool, imported: bool, most: int) -> None:
        from yaml import events

        self.lines: dict[Path, int] = {}
        self.faults: list[YamlFault] = []
        self._events, self._kinds = parsed, events
        self._number_starts = _NUMBER_STARTS if numbers else frozenset[str]()
        self._is_imported, self._most = imported, most
        self._scalars = dict(_WORDS)
        self._anchors: dict[str, tuple[Any, int]] = {}
        """The value and size behind each anchor; _LEFT_OUT while the value is being built."""
        self._size = 0

    def document(self) -> dict[str, Any]:
        """Build the mapping at the top."""
        data: dict[str, Any] = {}
        is_begun = False
        for event in self._events:
            if isinstance(event, self._kinds.DocumentStartEvent):
                if is_begun:
                    raise NotYaml(
                        _line(event), "holds more than one document.", "Remove the second '---'."
                    )
                is_begun = True
            elif isinstance(event, self._kinds.CollectionStartEvent):
                if fault := _tag_fault(event):
                    raise NotYaml(_line(event), fault, _NO_TAG)
                if isinstance(event, self._kinds.SequenceStartEvent):
                    raise NotYaml(_line(event), "holds a list at its top, not 'key: value' lines.")
                data = self._collection(event, (), True)
            elif isinstance(event, self._kinds.NodeEvent):
                text: Any = (
                    event.value
                    if isinstance(event, self._kinds.ScalarEvent) and event.implicit[0]
                    else event
                )
                if _WORDS.get(text, text) is not None:
                    raise NotYaml(
                        _line(event), "holds a single value at its top, not 'key: value' lines."
                    )
        return data

    def _value(self, event: Any, path: Path, is_recorded: bool) -> Any:
        """Build the value that begins with an event; _LEFT_OUT if it has a fault as a whole."""
        if event.__class__ is self._kinds.AliasEvent:
            return self._behind_alias(event, path, is_key=False)
        value, fault, hint = (
            event.value if event.__class__ is self._kinds.ScalarEvent else None,
            _tag_fault(event),
            "",
        )
        before, count = self._size, len(self.faults)
        if value is None:
            value = self._collection(event, path, is_recorded)
        else:
            self._spend(1 + len(value) // _CHARS_PER_VALUE, event)
            if not fault and event.implicit[0]:
                value, fault = self._scalar(value)
                hint = "Put it in quotes."
        if fault:
            # The faults inside a value that is left out do not matter.
            del self.faults[count:]
            self.faults.append(YamlFault(_line(event), path, fault, hint or _NO_TAG))
            value = _LEFT_OUT
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._size - before)
        return value

    def _collection(self, event: Any, path: Path, is_recorded: bool) -> Any:
        self._spend(1, event)
        if len(path) >= MAX_DEPTH:
            raise NotYaml(_line(event), f"is nested more than {MAX_DEPTH} levels deep.")
        if event.anchor is not None:
            self._anchors[event.anchor] = (_LEFT_OUT, 0)
        is_recorded = is_recorded and path[:-1] != (_ENTRIES,)
        if event.__class__ is self._kinds.MappingStartEvent:
            return self._mapping(path, is_recorded)
        items: list[Any] = []
        for start in self._events:
            if start.__class__ is self._kinds.SequenceEndEvent:
                break
            place = (*path, len(items))
            if is_recorded:
                self.lines[place] = _line(start)
            item = self._value(start, place, is_recorded)
            items.append(None if item is _LEFT_OUT else item)
        return items

    def _mapping(self, path: Path, is_recorded: bool) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for event in self._events:
            if event.__class__ is self._kinds.MappingEndEvent:
                break
            name = self._key(event, path, mapping, is_recorded)
            count = len(self.faults)
            value = self._value(
                next(self._events), (*path, name or ""), is_recorded and name is not None
            )
            if name is None:
                del self.faults[count:]
            elif value is _LEFT_OUT:
                continue
            elif name != "<<" or not self._is_imported:
                mapping[name] = value
            else:
                # `<<: *base` adds the keys of a mapping, or of each mapping in a list; the first
                # one wins.
                parts = value if isinstance(value, list) else [value]
                if all(isinstance(part, dict) for part in parts):
                    for part in parts:
                        merged = {**part, **merged}
                else:
                    fault = "'<<' must be followed by a mapping."
                    self.faults.append(YamlFault(_line(event), (*path, name), fault))
        # What is written wins over what is merged.
        return {**merged, **mapping} if merged else mapping

    def _key(
        self, event: Any, path: Path, mapping: dict[str, Any], is_recorded: bool
    ) -> str | None:
        """Return the key that an event is; None if it is faulty."""
        if event.__class__ is self._kinds.AliasEvent:
            self._behind_alias(event, (*path, f"*{event.anchor}"), is_key=True)
            return None
        count = len(self.faults)
        if event.__class__ is self._kinds.ScalarEvent:
            name, fault = event.value, _tag_fault(event)
            self._spend(1 + len(name) // _CHARS_PER_VALUE, event)
        else:
            name, fault = "?", "a key must be text, not a list or a mapping."
            self._collection(event, (*path, name), False)
            del self.faults[count:]
        if fault:
            pass
        elif not name and not (event.style and self._is_imported):
            fault = "an empty key."
        elif name == "<<" and not event.style and not self._is_imported:
            fault = "a merge key, which configuration must not have. Write the values out."
        elif name in mapping:
            first = self.lines.get((*path, name))
            counts = "" if first is None else f"; line {first} counts, this one is ignored"
            fault = f"is written twice{counts}."
        if fault:
            self.faults.append(YamlFault(_line(event), (*path, name), fault))
            return None
        if is_recorded:
            self.lines[(*path, name)] = _line(event)
        return str(name)

    def _behind_alias(self, event: Any, path: Path, *, is_key: bool) -> Any:
        """Return a copy of what an alias stands for; _LEFT_OUT if there may not be one here."""
        name = quoted(f"*{event.anchor}")
        value, size = self._anchors.get(event.anchor, (None, 0))
        fault, hint = "", ""
        if not self._is_imported:
            fault, hint = (
                f"{name} is an alias, which configuration must not have.",
                "Write the value out.",
            )
        elif event.anchor not in self._anchors:
            raise NotYaml(_line(event), f"is not valid YAML: found undefined alias {name}.")
        elif value is _LEFT_OUT and not size:
            raise NotYaml(_line(event), f"the alias {name} holds itself.")
        elif is_key:
            fault = "a key must be text, not an alias."
        if fault:
            self.faults.append(YamlFault(_line(event), path, fault, hint))
            return _LEFT_OUT
        self._spend(size, event)
        return _copy(value)

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
    """What is wrong with the tag of a value; empty if it has none, or says what the value is
    anyway."""
    if event.tag is None:
        return ""
    tag = "!!" + event.tag[len(_TAG) :] if event.tag.startswith(_TAG) else event.tag
    return (
        ""
        if tag in _PLAIN_TAGS
        else f"the tag {quoted(tag)} is not allowed; only plain values are."
    )
