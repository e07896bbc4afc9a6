"""How values are written where they stand: in a path, a query, a header, a JSON body, a form. Pure.

A value never leaves its place: what would end a path segment, a query value or a header is encoded, or refused.
A missing value, and null in a URL or header, drops its key; where there is no key to drop, it is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, unquote

from onetool_ipy.bundles.http.scope import MISSING, Scope
from onetool_ipy.bundles.http.template import FORMS, Ref
from onetool_ipy.core.errors import ExecutionFailed, InvalidArgs

__all__ = ["Piece", "encoded", "header", "json_value", "pairs", "path", "text"]

Piece = str | Ref

_IN_HEADER = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DOTS = (".", "..")


def text(parts: Sequence[Piece], scope: Scope, place: str) -> str:
    """The text of a template; raises InvalidArgs where a value is missing."""
    found = _joined(parts, scope)
    if found is None:
        missing = next(part for part in parts if isinstance(part, Ref) and scope.value(part) in (MISSING, None))
        raise InvalidArgs(f"'{missing}' is needed in the {place}.", hint=f"Give '{missing.name}' a value.")
    return found


def path(parts: Sequence[Piece], scope: Scope) -> str:
    """A path with its values percent-encoded; no value can add, remove or climb a level."""
    out: list[str] = []
    for segment in _segments(parts):
        if not any(isinstance(part, Ref) for part in segment):
            out.append("".join(map(str, segment)))
            continue
        written = "".join(_in_path(part, scope) if isinstance(part, Ref) else part for part in segment)
        if unquote(written) in ("", *_DOTS):
            ref = next(part for part in segment if isinstance(part, Ref))
            raise InvalidArgs(
                f"'{ref}' is '{unquote(written)}', which is no part of a path.", hint="Give it another value."
            )
        out.append(written)
    return "/".join(out)


def pairs(name: str, value: Any, scope: Scope) -> Iterator[tuple[str, str]]:
    """The pairs that one entry of a query or form makes: none, one, or one for each item of a list.

    `value` is a list of pieces, or a list of such lists.
    """
    if not value:
        return
    if isinstance(value[0], list):
        for item in value:
            yield from pairs(name, item, scope)
        return
    if len(value) == 1 and isinstance(value[0], Ref):
        ref = value[0]
        yield from _spread(name, scope.value(ref), ref.form)
        return
    found = _joined(value, scope)
    if found is not None:
        yield name, found


def encoded(found: Iterable[tuple[str, str]]) -> str:
    """Pairs as a query or form writes them."""
    return "&".join(f"{_quote(name)}={_quote(value)}" for name, value in found)


def header(name: str, parts: Sequence[Piece], scope: Scope) -> str | None:
    """The value of a header; None where a value is missing. Raises for what no header can hold."""
    found = _joined(parts, scope)
    if found is None:
        return None
    bad = _IN_HEADER.search(found) is not None
    if not bad:
        try:
            found.encode("latin-1")
        except UnicodeEncodeError:
            bad = True
    if not bad:
        return found.strip(" ")
    words = f"The header '{name}' would hold a control character or one that is not Latin-1"
    given = [part for part in parts if isinstance(part, Ref) and part.kind == "argument"]
    if given:
        raise InvalidArgs(f"{words}; it is made from '{given[0]}'.", hint="Give it plain text in one line.")
    raise ExecutionFailed(f"{words}.", hint="Look at the secret or step that it is made from.")


def json_value(template: Any, scope: Scope) -> Any:
    """A JSON value with its holes filled: a lone one keeps its type, one inside a text becomes text.

    `template` holds lists of pieces, marked as tuples, in the place of texts. MISSING where all of it is missing.
    """
    if isinstance(template, tuple):
        if len(template) == 1 and isinstance(template[0], Ref):
            return scope.value(template[0])
        found = _joined(template, scope)
        return MISSING if found is None else found
    if isinstance(template, dict):
        filled = {name: json_value(inner, scope) for name, inner in template.items()}
        return {name: inner for name, inner in filled.items() if inner is not MISSING}
    if isinstance(template, list):
        items = (json_value(inner, scope) for inner in template)
        return [item for item in items if item is not MISSING]
    return template


def _joined(parts: Iterable[Piece], scope: Scope) -> str | None:
    out: list[str] = []
    for part in parts:
        if isinstance(part, Ref):
            found = scope.value(part)
            if found is MISSING or found is None:
                return None
            out.append(_plain(found, part.form))
        else:
            out.append(part)
    return "".join(out)


def _in_path(ref: Ref, scope: Scope) -> str:
    found = scope.value(ref)
    if found is MISSING or found is None:
        raise InvalidArgs(f"'{ref}' is needed in the path.", hint=f"Give '{ref.name}' a value.")
    if isinstance(found, (list, dict)) and ref.form in ("", "csv"):
        return ",".join(_quote(_plain(item)) for item in _flat(found))
    return _quote(_plain(found, ref.form))


def _spread(name: str, value: Any, form: str) -> Iterator[tuple[str, str]]:
    if value is MISSING or value is None:
        return
    if isinstance(value, list) and form in ("", "deep", "spread"):
        for item in value:
            if item is not None:
                yield name, _plain(item)
    elif isinstance(value, dict) and form == "deep":
        for key, inner in value.items():
            yield from _spread(f"{name}[{key}]", inner, "deep")
    elif isinstance(value, dict) and form == "spread":
        for key, inner in value.items():
            yield from _spread(str(key), inner, "")
    else:
        yield name, _plain(value, form)


def _plain(value: Any, form: str = "") -> str:
    """A value as text: lists and objects joined where a form says how, else as JSON."""
    if isinstance(value, str) and form != "json":
        return value
    if FORMS.get(form) and isinstance(value, (list, dict)):
        return FORMS[form].join(_plain(item) for item in _flat(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    return list(value)


def _quote(value: str) -> str:
    return quote(value.encode("utf-8", "surrogatepass"), safe="")


def _segments(parts: Iterable[Piece]) -> Iterator[list[Piece]]:
    current: list[Piece] = []
    for part in parts:
        if isinstance(part, Ref):
            current.append(part)
            continue
        first, *rest = part.split("/")
        current.append(first)
        for literal in rest:
            yield current
            current = [literal]
    yield current
