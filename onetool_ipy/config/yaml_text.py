"""YAML text -> a Document: plain values, the line of each key, and the faults. Imports PyYAML at the first parse.

PyYAML's C parser composes nodes; this module limits their depth and number while it works (without limits it would
overflow the C stack) and turns them into dicts with text keys, lists, text, numbers, booleans and None. Scalars follow
the core rules of YAML 1.2, so `on`, `yes`, `no`, dates and `12:30` are text, and a key is always the text as written.
A fault costs only the value around it. Text that cannot be parsed, or that is too deep or too large, costs the whole
document.
"""

from __future__ import annotations

import re
from typing import Any

from onetool_ipy.base.records import Value

__all__ = ["MAX_DEPTH", "MAX_VALUES", "Document", "NotYaml", "Packed", "YamlFault", "parse", "quoted"]


class YamlFault(Value):
    """A fault at a line. `key` is the dotted path, empty for the whole document."""

    line: int
    key: str
    message: str
    hint: str = ""


class Document(Value):
    """A mapping, the line of each key by dotted path, and the faults: values that were left out."""

    data: dict[str, Any]
    lines: dict[str, int]
    faults: list[YamlFault]


class Packed:
    """A mapping that is still JSON, a slice of a larger text. `name` is its value under that key, if it is text."""

    __slots__ = ("_end", "_start", "_text", "name")

    def __init__(self, text: bytes, name: str, start: int, end: int) -> None:
        self.name, self._text, self._start, self._end = name, text, start, end

    def unpack(self) -> dict[str, Any]:
        """Parse the mapping."""
        import orjson

        found: dict[str, Any] = orjson.loads(self._text[self._start : self._end])
        return found


class NotYaml(Exception):
    """The whole text cannot be used."""

    def __init__(self, line: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.fault = YamlFault(line, "", message, hint)


def quoted(value: object) -> str:
    """Return a value as messages show it: quoted, on one line, cut at 60 characters."""
    text = value if isinstance(value, str) else str(value)
    text = "".join(c if c.isprintable() else "?" for c in text[:200])
    return f"'{text[:57]}...'" if len(text) > 60 else f"'{text}'"


MAX_DEPTH = 100
MAX_VALUES = 500_000
"""Values after aliases are expanded. 1,000 tools are about 75,000. A value whose line is recorded counts as four."""

_MAX_CHARS = 16_000_000
"""Characters after aliases are expanded; twice what the largest file can hold."""

_LONGEST_KEY = 1000
_LONGEST_PATH = 300
"""Deeper values share the path and line of the value around them."""

_ENTRIES = "tools"
"""The section with many large entries: a line is recorded for each entry, but not for the values inside."""

_TAG = "tag:yaml.org,2002:"
_STR = _TAG + "str"
_COLLECTION_TAGS = {_TAG + "map", _TAG + "seq"}
_SCALAR_TAGS = {_TAG + name for name in ("str", "int", "float", "bool", "null")}
_IMPLICIT = ""

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


def parse(data: bytes, *, numbers: bool = True, most: int = MAX_VALUES) -> Document:
    """Parse one document whose top is a mapping; empty text is an empty mapping. Raises NotYaml.

    Without `numbers`, numbers stay text, so that a code such as 007 keeps its zeros. `most` values are taken.
    """
    text = _decode(data)
    root = _compose(text, most)
    if root is None:
        return Document({}, {}, [])
    return _Builder(numbers=numbers, values=most, chars=max(_MAX_CHARS, most)).document(root)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise NotYaml(line, "is not UTF-8 text.", "Save the file as UTF-8.") from exc


def _compose(text: str, most: int) -> Any:
    import yaml

    try:
        return _loader(text, most).get_single_node()
    except yaml.YAMLError as exc:
        raise _reworded(exc, text) from exc
    except RecursionError as exc:
        raise NotYaml(1, "is nested too deeply.") from exc


def _loader(text: str, most: int) -> Any:
    """A composer that counts depth and nodes. `_Builder` interprets the scalars."""
    import yaml

    composer: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # PyYAML may be built without its C part

    class Loader(composer):  # type: ignore[misc]  # either of the two
        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.depth = 0
            self.left = most

        def descend_resolver(self, parent: Any, _index: Any) -> None:
            self.depth += 1
            self.left -= 1
            if self.depth > MAX_DEPTH:
                raise NotYaml(_line(parent), _TOO_DEEP)
            if self.left < 0:
                raise NotYaml(_line(parent), _TOO_MANY)

        def ascend_resolver(self) -> None:
            self.depth -= 1

        def resolve(self, kind: Any, _value: Any, implicit: Any) -> str:
            return _IMPLICIT if kind is not yaml.ScalarNode or implicit[0] else _STR

    return Loader(text)


_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep."
_TOO_MANY = "holds too many values."


def _line(node: Any) -> int:
    return 1 if node is None else node.start_mark.line + 1


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
    if "expected a single document" in str(exc):
        return NotYaml(line, "holds more than one document.", "Remove the second '---'.")
    context = getattr(exc, "context", None)
    return NotYaml(line, f"is not valid YAML: {problem}{f' ({context})' if context else ''}.")


class _BadValue(Exception):
    """A value that is not plain."""

    def __init__(self, node: Any, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.node, self.message, self.hint = node, message, hint


class _Builder:
    """Builds the values of one document from its nodes."""

    def __init__(self, *, numbers: bool, values: int, chars: int) -> None:
        from yaml.nodes import MappingNode, ScalarNode, SequenceNode

        self.scalar_node, self.sequence_node = ScalarNode, SequenceNode
        self.mapping_node = MappingNode
        self.left = values
        self.chars_left = chars
        self.known = dict(_WORDS)
        self.number_starts = _NUMBER_STARTS if numbers else frozenset[str]()
        self.lines: dict[str, int] = {}
        self.faults: list[YamlFault] = []

    def document(self, root: Any) -> Document:
        if root.__class__ is self.scalar_node and root.tag == _IMPLICIT and _WORDS.get(root.value, root) is None:
            return Document({}, {}, [])
        if root.__class__ is not self.mapping_node:
            kind = "a list" if root.__class__ is self.sequence_node else "a single value"
            raise NotYaml(_line(root), f"holds {kind} at its top, not 'key: value' lines.")
        try:
            data = self.walk(root, "", 1)
        except _BadValue as exc:
            raise NotYaml(_line(exc.node), exc.message, exc.hint) from exc
        self.check_size(root)
        return Document(data, self.lines, self.faults)

    def walk(self, node: Any, key: str, depth: int) -> Any:
        """Build a value and record the line of every key in it. Faulty parts are left out and listed."""
        if node.__class__ is self.mapping_node:
            return self.walk_mapping(node, key, depth)
        if node.__class__ is self.sequence_node:
            return self.walk_sequence(node, key, depth)
        return self.plain(node, depth)

    def walk_mapping(self, node: Any, key: str, depth: int) -> dict[str, Any]:
        self.spend(node, depth, cost=4)
        out: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value in node.value:
            line = key_node.start_mark.line + 1
            try:
                name = self.key(key_node)
                if self.is_merge(key_node):
                    self.merge(merged, value, depth)
                    continue
                path = _longer(key, f".{name}")
                if name in out:
                    first = self.lines.get(path, line)
                    message = f"is written twice; line {first} counts, this one is ignored."
                    self.faults.append(YamlFault(line, path, message))
                    continue
                self.lines.setdefault(path, line)
                out[name] = self.walk(value, path, depth + 1)
            except _BadValue as exc:
                shown = key_node.value if isinstance(key_node.value, str) else "?"
                path = _longer(key, f".{shown}")
                self.faults.append(YamlFault(_line(exc.node), path, exc.message, exc.hint))
        return {**merged, **out} if merged else out

    def walk_sequence(self, node: Any, key: str, depth: int) -> list[Any]:
        """A faulty item becomes None, so that the others keep their index."""
        self.spend(node, depth, cost=1 if key == _ENTRIES else 4)
        make = self.plain if key == _ENTRIES else None
        out: list[Any] = []
        for index, item in enumerate(node.value):
            path = _longer(key, f"[{index}]")
            self.lines.setdefault(path, item.start_mark.line + 1)
            try:
                out.append(make(item, depth + 1) if make else self.walk(item, path, depth + 1))
            except _BadValue as exc:
                self.faults.append(YamlFault(_line(exc.node), path, exc.message, exc.hint))
                out.append(None)
        return out

    def plain(self, node: Any, depth: int) -> Any:
        """Build a value without recording lines; raise _BadValue for its first fault. Most nodes come through here."""
        kind = node.__class__
        if kind is self.scalar_node:
            self.chars_left -= len(node.value)
            return node.value if node.tag == _STR else self.scalar(node)
        self.spend(node, depth)
        if kind is self.sequence_node:
            return [self.plain(item, depth + 1) for item in node.value]
        out: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value in node.value:
            if self.is_merge(key_node):
                self.merge(merged, value, depth)
                continue
            name = self.key(key_node)
            if name in out:
                raise _BadValue(key_node, f"the key {quoted(name)} is written twice.")
            out[name] = self.plain(value, depth + 1)
        return {**merged, **out} if merged else out

    def scalar(self, node: Any) -> Any:
        text: str = node.value
        if node.tag != _IMPLICIT and node.tag not in _SCALAR_TAGS:
            raise _unknown_tag(node)
        if text in self.known:
            value = self.known[text]
        elif text[:1] in self.number_starts:
            value = self.known[text] = _number(node)
        else:
            value = text
        if node.tag != _IMPLICIT and not _fits(value, node.tag):
            raise _BadValue(node, f"{quoted(text)} is not what its tag {_short(node.tag)} says.")
        return value

    def key(self, node: Any) -> str:
        if node.__class__ is not self.scalar_node:
            raise _BadValue(node, "a key must be text, not a list or a mapping.")
        if node.tag and node.tag not in _SCALAR_TAGS:
            raise _unknown_tag(node)
        if not node.value and not node.style:
            raise _BadValue(node, "an empty key.")
        if len(node.value) > _LONGEST_KEY:
            raise _BadValue(node, f"the key {quoted(node.value)} is too long.")
        self.chars_left -= len(node.value)
        return str(node.value)

    def is_merge(self, node: Any) -> bool:
        return node.value == "<<" and not node.style

    def merge(self, into: dict[str, Any], node: Any, depth: int) -> None:
        """Handle `<<: *base`: add the keys of a mapping, or of each mapping in a list; the first one wins."""
        value = self.plain(node, depth + 1)
        for part in value if isinstance(value, list) else [value]:
            if not isinstance(part, dict):
                raise _BadValue(node, "'<<' must be followed by a mapping.")
            for name, inner in part.items():
                into.setdefault(name, inner)

    def spend(self, node: Any, depth: int, cost: int = 1) -> None:
        """Count the values that aliases expand to: a few lines can stand for billions of values, or never end."""
        if node.tag and node.tag not in _COLLECTION_TAGS:
            raise _unknown_tag(node)
        self.left -= cost * (len(node.value) or 1)
        self.check_size(node)
        if depth > MAX_DEPTH:
            raise NotYaml(_line(node), _TOO_DEEP, "One of its aliases (*name) holds itself.")

    def check_size(self, node: Any) -> None:
        if self.left < 0 or self.chars_left < 0:
            raise NotYaml(_line(node), _TOO_MANY, "Its aliases (*name) expand to too much.")


def _longer(path: str, step: str) -> str:
    """Return the path with one more step, or unchanged if it gets too long."""
    if not path:
        return step[1:]
    return path if len(path) + len(step) > _LONGEST_PATH else path + step


def _number(node: Any) -> Any:
    text = node.value
    match = re.fullmatch(_NUMBER, text)
    if match is None:
        return text
    if match.lastgroup == "odd":
        raise _BadValue(node, f"{quoted(text)} is not a number that JSON can hold.", "Put it in quotes.")
    if match.lastgroup == "float":
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise _BadValue(node, f"the number {quoted(text)} is too large.", "Put it in quotes.")
        return value
    if len(text) > 1000:
        raise _BadValue(node, f"the number {quoted(text)} is too long.", "Put it in quotes.")
    return int(text, {"int": 10, "oct": 8, "hex": 16}[match.lastgroup or "int"])


def _fits(value: Any, tag: str) -> bool:
    kinds = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}
    wanted: Any = kinds[_short(tag)[2:]]
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def _short(tag: str) -> str:
    return "!!" + tag[len(_TAG) :] if tag.startswith(_TAG) else tag


def _unknown_tag(node: Any) -> _BadValue:
    message = f"the tag {quoted(_short(node.tag))} is not allowed; only plain values are."
    return _BadValue(node, message, "Remove the tag, or put the value in quotes.")
