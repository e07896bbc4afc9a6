"""How a tool differs from what it was, in words. Pure: a tool is given as the JSON that `facts`
makes of it.

The lock file, `verify` and the questions about changed tools all use these words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import ToolSpec

_MAX_VALUE = 80
_MAX_LINES = 6
"""How many lines of each side are shown: lines that are gone cannot push out one that is new."""
_MAX_COMPARED = 2_000
_WORDS = ("title", "description", "examples")
_MAPS = ("properties", "required")


def facts(spec: ToolSpec) -> Json:
    """Return what is remembered of a tool: words, schemas, whether it only reads, fingerprint."""
    plain: Json = values.to_json(
        {
            "fingerprint": spec.fingerprint,
            "description": spec.description,
            "parameters": spec.parameters,
            "returns": spec.output_schema,
            "read_only": spec.read_only,
        }
    )
    return plain


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Say how a tool changed, a line for each change; nothing if it is the same tool."""
    was_reading, is_reading = bool(before.get("read_only")), bool(after.get("read_only"))
    reading = (
        "it is read-only now" if is_reading else "it was read-only, and may change something now"
    )
    lines = [
        *_argument_changes(_object(before.get("parameters")), _object(after.get("parameters"))),
        *([reading] if is_reading != was_reading else []),
        *(
            []
            if _is_same(before.get("returns"), after.get("returns"))
            else ["what it returns changed"]
        ),
        *_text_changes("its description", before.get("description"), after.get("description")),
    ]
    if not lines and before.get("fingerprint") != after.get("fingerprint"):
        return ["its code or its definition changed"]
    return lines


def _argument_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = _object(before.get("properties")), _object(after.get("properties"))
    was_required, is_required = _names(before.get("required")), _names(after.get("required"))
    for name in old:
        if name not in new:
            yield f"the argument '{name}' is gone"
    for name, schema in new.items():
        if name not in old:
            kind = "required" if name in is_required else "optional"
            yield f"the argument '{name}' is new, and {kind}"
            continue
        if (name in was_required) != (name in is_required):
            yield f"the argument '{name}' " + (
                "became required" if name in is_required else "is no longer required"
            )
        yield from _schema_changes(name, _object(old[name]), _object(schema))
    rest = [
        {key: value for key, value in side.items() if key not in (*_MAPS, *_WORDS)}
        for side in (before, after)
    ]
    if not _is_same(*rest) or (was_required - old.keys()) != (is_required - new.keys()):
        yield "the rules for its arguments changed"


def _schema_changes(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[str]:
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if _is_same(old, new) and (key in before) == (key in after):
            continue
        if key == "type":
            yield f"the argument '{name}' was {_text(old)}, is {_text(new)}"
        elif key == "enum" and isinstance(old, list) and isinstance(new, list):
            gone, fresh = (
                [each for each in old if not any(_is_same(each, other) for other in new)],
                [each for each in new if not any(_is_same(each, other) for other in old)],
            )
            words = [
                f"{', '.join(map(_text, part))} {verb}"
                for part, verb in ((gone, "gone"), (fresh, "new"))
                if part
            ]
            yield (
                f"the choices of the argument '{name}' changed:"
                f" {'; '.join(words) or 'another order'}"
            )
        elif key in _WORDS:
            yield from _text_changes(f"the {key} of the argument '{name}'", old, new)
        else:
            yield f"'{key}' of the argument '{name}' was {_text(old)}, is {_text(new)}"


def _text_changes(what: str, before: object, after: object) -> Iterator[str]:
    """Say that a text changed, with the lines that did: `- was` and `+ is`. Compares whole
    lines."""
    if _is_same(before, after):
        return
    whole = [str(side or "").split("\n") for side in (before, after)]
    old, new = (side[:_MAX_COMPARED] for side in whole)
    gone, fresh = _without(old, new), _without(new, old)
    yield f"{what} changed:"
    for mark, lines in (("-", gone), ("+", fresh)):
        yield from (f"  {mark} {values.cut(line, 2 * _MAX_VALUE)}" for line in lines[:_MAX_LINES])
    if more := max(0, len(gone) - _MAX_LINES) + max(0, len(fresh) - _MAX_LINES):
        yield f"  ... and {more} more lines"
    if old != new and not gone and not fresh:
        yield "  its lines have another order"
    if max(map(len, whole)) > _MAX_COMPARED:
        yield f"  Only the first {_MAX_COMPARED:,} lines were compared."


def _without(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the lines that the others do not have, or have less often, in order."""
    left = Counter(others)
    rest = []
    for line in lines:
        if left[line] > 0:
            left[line] -= 1
        else:
            rest.append(line)
    return rest


def _is_same(one: object, other: object) -> bool:
    """Whether two values are the same JSON. Python's `==` takes `true` for 1."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: object) -> set[str]:
    return {str(name) for name in value} if isinstance(value, list) else set()


def _text(value: object) -> str:
    text = (
        value
        if isinstance(value, str)
        else "nothing"
        if value is None
        else json.dumps(value, ensure_ascii=False)
    )
    return values.cut(text, _MAX_VALUE)
