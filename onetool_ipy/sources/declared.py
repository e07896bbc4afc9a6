"""Tools declared under `tools:` in the configuration (spec 003): mock, builtin, internal.

An http definition is refused with the exact text of the spec. A bad definition is logged, becomes a
Problem, and never stops the others. A schema is compiled at the first call: compiling 1,000 of them
would double the start.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.config.settings import Definition
from onetool_ipy.core import names
from onetool_ipy.core.tool import GuardFacts, Origin, Problem, ToolSpec
from onetool_ipy.schema.check import require_schema

HTTP_REFUSED = "HTTP tools not yet supported (coming in v2)"
_KINDS = ("mock", "builtin", "internal")
_KEYS = frozenset(
    ("name", "description", "type", "handler", "parameters", "implementation", "tags", "read_only")
)
_INNER_KEYS = frozenset(("type", "handler", "mock_response"))
_log = logging.getLogger("onetool_ipy.sources")

Handlers = Callable[[], Mapping[str, Mapping[str, ToolSpec]]]
"""Returns the tools that a definition may name: {"builtin": {name: spec}, "internal": {name:
spec}}."""


class Declared:
    """The source of the tools under `tools:`."""

    def __init__(self, definitions: Iterable[Definition], handlers: Handlers) -> None:
        self._specs: list[ToolSpec] = []
        self._problems: list[Problem] = []
        for definition in definitions:
            data, where = definition.data, definition.where
            try:
                self._specs.append(
                    read_definition(data, handlers, where=where, fits=definition.fits)
                )
            except InvalidTool as exc:
                self._problems.append(Problem(where, exc.message, exc.hint))
            self._problems += (
                Problem(where, text, "It is ignored.") for text in _unknown_keys(data)
            )
        for problem in self._problems:
            _log.error("%s", problem)

    def tools(self) -> Iterable[ToolSpec]:
        return self._specs

    def problems(self) -> Iterable[Problem]:
        return self._problems

    refresh = None


def read_definition(
    data: Mapping[str, Any],
    handlers: Handlers,
    *,
    where: str = "",
    origin: Origin = "config",
    fits: bool = False,
) -> ToolSpec:
    """Return the ToolSpec of a definition, or raise InvalidTool. `fits`: its parameters are known
    to be a schema."""
    name = names.canonical(data.get("name"))
    description = _text(data, "description", name)
    if data.get("type") != "function":
        raise InvalidTool(
            f"'{name}': type must be \"function\", not {values.safe_repr(data.get('type'), 40)}."
        )
    inner = data.get("implementation")
    if not isinstance(inner, Mapping) or "type" not in inner:
        raise InvalidTool(
            f"'{name}': implementation must be an object with a type: {', '.join(_KINDS)}."
        )
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
        loaded = handler if handler.load is None else handler.load()
        return loaded.run(loaded.checker.check(args, loaded.name))

    try:
        if not fits:
            require_schema(parameters)
    except InvalidTool as exc:
        raise InvalidTool(f"'{name}': parameters: {exc.message}") from exc
    return ToolSpec(
        name=name,
        description=description,
        parameters=dict(parameters),
        run=forward if handler is not None else lambda args: copy.deepcopy(inner["mock_response"]),  # noqa: ARG005
        is_async=handler is not None and handler.is_async,
        tags=tuple(tags),
        origin=origin,
        where=where,
        read_only=bool(data.get("read_only", True)) and only_reads,
        timeout_s=None if handler is None else handler.timeout_s,
        guard=GuardFacts(behind=lambda: handler),
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
        raise InvalidTool(
            f"'{name}': no {kind} handler '{handler}'. {near}".strip(), hint=f"Valid: {valid}."
        )
    return tools[handler]


def _unknown_keys(data: Mapping[str, Any]) -> list[str]:
    inner = data.get("implementation")
    keys = [(key, _KEYS) for key in data if key not in _KEYS]
    if isinstance(inner, Mapping) and inner.get("type") in _KINDS:
        keys += [(f"implementation.{key}", _INNER_KEYS) for key in inner if key not in _INNER_KEYS]
    return [
        f"'{data.get('name')}': unknown key '{key}' (known: {', '.join(sorted(valid))})."
        for key, valid in keys
    ]
