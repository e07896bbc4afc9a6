"""Tools declared under `tools:` in the configuration (spec 003): mock, builtin, internal.

An http definition is refused with the exact text of the spec. A bad definition is logged, becomes a Problem, and
never stops the others. Checking 1,000 definitions takes about 100 ms, most of it to compile their schemas, so
`DefinitionChecks` records which ones had problems: at the next start with the same files, a good definition is read
when its tool is first used, and its schema is compiled at the first call.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.files import StoreError, read_own, write_whole
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.config.settings import Definition
from onetool_ipy.core import names
from onetool_ipy.core.tool import Origin, Problem, ToolSpec

FILE = "tools.1.json"
"""The name of the record of checks; it holds the format's number."""
HTTP_REFUSED = "HTTP tools not yet supported (coming in v2)"
_MAX_BYTES = 1 << 20
_KINDS = ("mock", "builtin", "internal")
_KEYS = ("name", "description", "type", "handler", "parameters", "implementation", "tags", "read_only")
_INNER_KEYS = ("type", "handler", "mock_response")
_log = logging.getLogger("onetool_ipy.sources")

Handlers = Callable[[], Mapping[str, Mapping[str, ToolSpec]]]
"""Returns the tools that a definition may name: {"builtin": {name: spec}, "internal": {name: spec}}."""


class DefinitionChecks:
    """The file that records which definitions of one configuration had problems, by their index."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint

    def read(self, count: int) -> frozenset[int] | None:
        """Return the indexes that had problems, or None if these `count` definitions were not checked yet."""
        try:
            record = json.loads(read_own(self._path, _MAX_BYTES) or b"")
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, list) or len(record) != 3 or record[:2] != [self._fingerprint, count]:
            return None
        indexes = record[2]
        is_valid = isinstance(indexes, list) and all(type(index) is int for index in indexes)
        return frozenset(indexes) if is_valid else None

    def write(self, indexes: Sequence[int], count: int) -> None:
        """Record the indexes that had problems. If that fails, the next start checks all definitions again."""
        with suppress(StoreError):
            record = [self._fingerprint, count, list(indexes)]
            write_whole(self._path, json.dumps(record).encode(), nofollow=True)


class Declared:
    """The source of the tools under `tools:`."""

    def __init__(
        self, definitions: Sequence[Definition], handlers: Handlers, checks: DefinitionChecks | None = None
    ) -> None:
        self._specs: list[ToolSpec] = []
        self._problems: list[Problem] = []
        record = None if checks is None else checks.read(len(definitions))
        bad: list[int] = []
        for index, definition in enumerate(definitions):
            if record is not None and index not in record and definition.name:
                self._specs.append(_read_checked(definition, handlers))
            elif not self._check(definition, handlers):
                bad.append(index)
        for problem in self._problems:
            _log.error("%s", problem)
        if checks is not None and record is None and definitions:
            checks.write(bad, len(definitions))

    def tools(self) -> Iterable[ToolSpec]:
        return self._specs

    def problems(self) -> Iterable[Problem]:
        return self._problems

    def refresh(self) -> bool:
        return False

    def _check(self, definition: Definition, handlers: Handlers) -> bool:
        """Add the definition's tool, its problems, or both; return whether it has no problem."""
        data, where, count = definition.data, definition.where, len(self._problems)
        try:
            self._specs.append(read_definition(data, handlers, where=where))
        except InvalidTool as exc:
            self._problems.append(Problem(where, exc.message, exc.hint))
        self._problems += (Problem(where, text, "It is ignored.") for text in _unknown_keys(data))
        return len(self._problems) == count


def read_definition(
    data: Mapping[str, Any], handlers: Handlers, *, where: str = "", origin: Origin = "config"
) -> ToolSpec:
    """Return the ToolSpec of a definition, or raise InvalidTool."""
    spec = _read(data, handlers, where, origin)
    try:
        spec.checker  # noqa: B018 - compiles the schema, or raises
    except InvalidTool as exc:
        raise InvalidTool(f"'{spec.name}': parameters: {exc.message}") from exc
    return spec


def _read_checked(definition: Definition, handlers: Handlers) -> ToolSpec:
    """Return the tool of a definition that was checked before."""
    try:
        return _read(definition.data, handlers, definition.where, "config")
    except InvalidTool as exc:  # the record of checks was wrong: only this tool is off
        words, empty = exc.message, {"type": "object"}
        name = names.canonical(definition.name)
        return ToolSpec(name=name, description=words, parameters=empty, run=_mock(None), disabled=words)


def _read(data: Mapping[str, Any], handlers: Handlers, where: str, origin: Origin) -> ToolSpec:
    """The tool; its schema is not checked."""
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
    parameters, tags = data.get("parameters"), data.get("tags") or ()
    if not isinstance(parameters, Mapping):
        raise InvalidTool(f"'{name}': parameters must be a JSON Schema object.")
    if parameters.get("type") != "object":
        label = values.safe_repr(parameters.get("type"), 40)
        raise InvalidTool(f"'{name}': parameters.type must be \"object\", not {label}.")
    handler = _handler(inner, name, handlers)
    if not isinstance(tags, (list, tuple)) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidTool(f"'{name}': tags must be a list of texts.")
    # A definition cannot mark a writing handler as read-only.
    only_reads = handler is None or (handler.read_only and handler.name not in names.WRITING)

    def forward(args: Json) -> object:
        assert handler is not None
        return handler.run(handler.checker.check(args, handler.name))

    return ToolSpec(
        name=name,
        description=description,
        parameters=dict(parameters),
        run=_mock(inner["mock_response"]) if handler is None else forward,
        is_async=handler is not None and handler.is_async,
        tags=tuple(tags),
        origin=origin,
        where=where,
        read_only=bool(data.get("read_only", True)) and only_reads,
        timeout_s=None if handler is None else handler.timeout_s,
        identity=lambda: [dict(data), "" if handler is None else handler.fingerprint],
    )


def _text(data: Mapping[str, Any], key: str, name: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InvalidTool(f"'{name}': '{key}' is missing or not text.")
    return value


def _handler(inner: Mapping[str, Any], name: str, handlers: Handlers) -> ToolSpec | None:
    """The tool that implements the definition; None for a mock."""
    kind = inner["type"]
    if kind == "mock":
        if "mock_response" not in inner:
            raise InvalidTool(f"'{name}': a mock needs implementation.mock_response.")
        return None
    if kind not in _KINDS:
        label = values.safe_repr(kind, 40)
        raise InvalidTool(f"'{name}': no implementation type {label}. Valid: {', '.join(_KINDS)}.")
    handler = inner.get("handler")
    if not isinstance(handler, str) or not handler:
        raise InvalidTool(f"'{name}': {kind} needs implementation.handler.")
    tools = handlers()[kind]
    if handler not in tools:
        near = did_you_mean(handler, tools)
        valid = ", ".join(tools) or "none"
        raise InvalidTool(f"'{name}': no {kind} handler '{handler}'. {near}".strip(), hint=f"Valid: {valid}.")
    return tools[handler]


def _mock(answer: object) -> Callable[[Json], object]:
    return lambda args: copy.deepcopy(answer)  # noqa: ARG005 - a mock takes any arguments


def _unknown_keys(data: Mapping[str, Any]) -> list[str]:
    inner = data.get("implementation")
    keys: list[tuple[str, tuple[str, ...]]] = [(str(key), _KEYS) for key in data if key not in _KEYS]
    if isinstance(inner, Mapping) and inner.get("type") in _KINDS:
        keys += [(f"implementation.{key}", _INNER_KEYS) for key in inner if key not in _INNER_KEYS]
    return [f"'{data.get('name')}': unknown key '{key}' (known: {', '.join(valid)})." for key, valid in keys]
