"""Which definitions of the configuration something was wrong with, so that a start need not judge all of them again.

One small file, keyed by the fingerprint of the configuration (its files, our version); whatever is not exactly what
`keep` wrote counts for nothing, and all are judged anew.

Tools declared in configuration (spec 003): mock, builtin, internal; http is refused with its exact text.

A bad definition is logged, becomes a Problem, and never stops the others. One that is known to be good, since these
very files were judged before, is read when its tool is first looked at, and its schema compiled at the first call.
"""

from __future__ import annotations

import copy
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.files import make_private
from onetool_ipy.config.settings import Definition
from onetool_ipy.core import names
from onetool_ipy.core.tool import LateSpec, Origin, Problem, ToolSpec

__all__ = ["FILE", "HTTP_REFUSED", "Declared", "Handlers", "Verdict", "read_definition"]

FILE = "tools.1.json"
"""Named by the format, so that versions of this package with other formats do not meet in it."""
_MAX_BYTES = 1 << 20


class Verdict:
    """The judgement of one configuration, by the places of its definitions in their order."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint

    def doubtful(self, count: int) -> frozenset[int] | None:
        """The places that had a problem, of so many; None where these definitions were not judged yet."""
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_size > _MAX_BYTES or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
                    return None
                kept = json.loads(file.read())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(kept, list) or len(kept) != 3 or kept[:2] != [self._fingerprint, count]:
            return None
        places = kept[2]
        is_ours = isinstance(places, list) and all(type(place) is int for place in places)
        return frozenset(places) if is_ours else None

    def keep(self, places: Sequence[int], count: int) -> None:
        """Note the places that had a problem; where that cannot be, all are judged at the next start again."""
        temp = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        try:
            make_private(self._path.parent)
            with open(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                json.dump([self._fingerprint, count, list(places)], file)
            temp.replace(self._path)
        except OSError:
            with suppress(OSError):
                temp.unlink(missing_ok=True)


HTTP_REFUSED = "HTTP tools not yet supported (coming in v2)"
_KINDS = ("mock", "builtin", "internal")
_KEYS = ("name", "description", "type", "handler", "parameters", "implementation", "tags", "read_only")
_INNER_KEYS = ("type", "handler", "mock_response")
_log = logging.getLogger("onetool_ipy.sources")

Handlers = Callable[[], Mapping[str, Mapping[str, ToolSpec]]]
"""Gives the functions a definition may name: {"builtin": {name: spec}, "internal": {name: spec}}."""


class Declared:
    """The `tools:` of the configuration, each with the place where it stands."""

    def __init__(self, definitions: Sequence[Definition], handlers: Handlers, verdict: Verdict | None = None) -> None:
        self._specs: list[ToolSpec] = []
        self._problems: list[Problem] = []
        doubtful = None if verdict is None else verdict.doubtful(len(definitions))
        found: list[int] = []
        for place, definition in enumerate(definitions):
            if doubtful is not None and place not in doubtful and definition.name:
                self._specs.append(_late(definition, handlers))
            elif not self._judge(definition, handlers):
                found.append(place)
        for problem in self._problems:
            _log.error("%s", problem)
        if verdict is not None and doubtful is None and definitions:
            verdict.keep(found, len(definitions))

    def tools(self) -> Iterable[ToolSpec]:
        return self._specs

    def problems(self) -> Iterable[Problem]:
        return self._problems

    def refresh(self) -> bool:
        return False

    def close(self) -> None:
        return None

    def _judge(self, definition: Definition, handlers: Handlers) -> bool:
        """Take a definition as a tool, as problems, or as both; True where there is nothing to say about it."""
        data, where, known = definition.data, definition.where, len(self._problems)
        try:
            self._specs.append(read_definition(data, handlers, where=where))
        except InvalidTool as exc:
            self._problems.append(Problem(where, exc.message, exc.hint))
        self._problems += (Problem(where, text, "It is ignored.") for text in _unknown_keys(data))
        return len(self._problems) == known


def read_definition(
    data: Mapping[str, Any], handlers: Handlers, *, where: str = "", origin: Origin = "config"
) -> ToolSpec:
    """Make a ToolSpec of a definition of spec 003, or raise InvalidTool saying what is wrong with it."""
    spec = _read(data, handlers, where, origin)
    try:
        spec.checker  # noqa: B018 - compiles the schema, or raises
    except InvalidTool as exc:
        raise InvalidTool(f"'{spec.name}': parameters: {exc.message}") from exc
    return spec


def _late(definition: Definition, handlers: Handlers) -> ToolSpec:
    """The tool of a definition that was found good, to be read at the first look at it."""
    name = names.canonical(definition.name)
    known = {"name": name, "version": "", "origin": "config", "where": definition.where}
    return LateSpec(partial(_trusted, definition, name, handlers), known)


def _trusted(definition: Definition, name: str, handlers: Handlers) -> ToolSpec:
    try:
        return _read(definition.data, handlers, definition.where, "config")
    except InvalidTool as exc:  # what was kept of the judgement is not ours: one tool is off, and not the whole list
        words, empty = exc.message, {"type": "object"}
        return ToolSpec(name=name, description=words, parameters=empty, run=_mock(None), disabled=words)


def _read(data: Mapping[str, Any], handlers: Handlers, where: str, origin: Origin) -> ToolSpec:
    """The tool, but for its schema, which may be none."""
    name = names.canonical(data.get("name"))
    description = _text(data, "description", name)
    if data.get("type") != "function":
        raise InvalidTool(f"'{name}': type must be \"function\", not {values.safe_repr(data.get('type'), 40)}.")
    inner = data.get("implementation")
    if not isinstance(inner, Mapping) or "type" not in inner:
        raise InvalidTool(f"'{name}': implementation must be an object with a type: {', '.join(_KINDS)}.")
    if inner["type"] == "http":
        raise InvalidTool(HTTP_REFUSED, hint=f"'{name}': make an HTTP tool in a bundle instead.")
    _text(data, "handler", name)
    parameters = _parameters(data, name)
    handler = _handler(inner, name, handlers)
    return ToolSpec(
        name=name,
        description=description,
        parameters=parameters,
        run=_mock(inner["mock_response"]) if handler is None else _forward(handler),
        is_async=handler is not None and handler.is_async,
        tags=_tags(data, name),
        origin=origin,
        where=where,
        read_only=bool(data.get("read_only", True)) and _only_reads(handler),
        timeout_s=None if handler is None else handler.timeout_s,
        identity=lambda: [dict(data), "" if handler is None else handler.fingerprint],
    )


def _text(data: Mapping[str, Any], key: str, name: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InvalidTool(f"'{name}': '{key}' is missing or not text.")
    return value


def _tags(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = data.get("tags") or ()
    if not isinstance(found, (list, tuple)) or not all(isinstance(tag, str) for tag in found):
        raise InvalidTool(f"'{name}': tags must be a list of texts.")
    return tuple(found)


def _parameters(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    parameters = data.get("parameters")
    if not isinstance(parameters, Mapping):
        raise InvalidTool(f"'{name}': parameters must be a JSON Schema object.")
    if parameters.get("type") != "object":
        shown = values.safe_repr(parameters.get("type"), 40)
        raise InvalidTool(f"'{name}': parameters.type must be \"object\", not {shown}.")
    return dict(parameters)


def _handler(inner: Mapping[str, Any], name: str, handlers: Handlers) -> ToolSpec | None:
    """The tool that does the work; None for a mock."""
    kind = inner["type"]
    if kind == "mock":
        if "mock_response" not in inner:
            raise InvalidTool(f"'{name}': a mock needs implementation.mock_response.")
        return None
    if kind not in _KINDS:
        shown = values.safe_repr(kind, 40)
        raise InvalidTool(f"'{name}': no implementation type {shown}. Valid: {', '.join(_KINDS)}.")
    wanted = inner.get("handler")
    if not isinstance(wanted, str) or not wanted:
        raise InvalidTool(f"'{name}': {kind} needs implementation.handler.")
    known = handlers()[kind]
    if wanted not in known:
        from onetool_ipy.base.search import did_you_mean

        near = did_you_mean(wanted, known)
        valid = ", ".join(known) or "none"
        raise InvalidTool(f"'{name}': no {kind} handler '{wanted}'. {near}".strip(), hint=f"Valid: {valid}.")
    return known[wanted]


def _mock(answer: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda args: copy.deepcopy(answer)  # noqa: ARG005 - a mock takes any arguments


def _forward(handler: ToolSpec) -> Callable[[dict[str, Any]], Any]:
    return lambda args: handler.run(handler.checker.check(args, handler.name))


def _only_reads(handler: ToolSpec | None) -> bool:
    """Whether what does the work changes nothing: a definition cannot make it more harmless than it is."""
    return handler is None or (handler.read_only and handler.name not in names.WRITING)


def _unknown_keys(data: Mapping[str, Any]) -> list[str]:
    inner = data.get("implementation")
    found: list[tuple[str, tuple[str, ...]]] = [(str(key), _KEYS) for key in data if key not in _KEYS]
    if isinstance(inner, Mapping) and inner.get("type") in _KINDS:
        found += [(f"implementation.{key}", _INNER_KEYS) for key in inner if key not in _INNER_KEYS]
    return [f"'{data.get('name')}': unknown key '{key}' (known: {', '.join(known)})." for key, known in found]
