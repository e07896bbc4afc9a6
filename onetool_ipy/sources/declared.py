"""Tools declared in configuration (spec 003): mock, builtin, internal; http is refused with its exact text.

A bad definition is logged, becomes a Problem, and never stops the others.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onetool_ipy.core import match, names
from onetool_ipy.core.checker import Checker
from onetool_ipy.core.errors import InvalidTool
from onetool_ipy.core.model import Origin, Problem, ToolSpec

__all__ = ["HTTP_REFUSED", "Declared", "Handlers", "read_definition"]

HTTP_REFUSED = "HTTP tools not yet supported (coming in v2)"
_KINDS = ("mock", "builtin", "internal", "http")
_log = logging.getLogger("onetool_ipy.sources")

Handlers = Callable[[], Mapping[str, Mapping[str, ToolSpec]]]
"""Gives the functions a definition may name: {"builtin": {name: spec}, "internal": {name: spec}}."""


class Declared:
    """The `tools:` of the configuration."""

    def __init__(self, definitions: Sequence[tuple[Mapping[str, Any], str]], handlers: Handlers) -> None:
        self._definitions = definitions
        self._handlers = handlers
        self._specs: list[ToolSpec] = []
        self._problems: list[Problem] = []
        self._read()

    def tools(self) -> Iterable[ToolSpec]:
        return self._specs

    def problems(self) -> Iterable[Problem]:
        return self._problems

    def refresh(self) -> bool:
        return False

    def close(self) -> None:
        return None

    def _read(self) -> None:
        for data, where in self._definitions:
            try:
                self._specs.append(read_definition(data, self._handlers, where=where))
            except InvalidTool as exc:
                _log.error("%s: %s", where, exc.message)
                self._problems.append(Problem(where, exc.message, exc.hint))


def read_definition(
    data: Mapping[str, Any], handlers: Handlers, *, where: str = "", origin: Origin = "config"
) -> ToolSpec:
    """Make a ToolSpec of a definition of spec 003, or raise InvalidTool saying what is wrong with it."""
    name = names.canonical(_text(data, "name"))
    description = _text(data, "description")
    if data.get("type", "function") != "function" or "type" not in data:
        raise InvalidTool(f"'{name}': type must be \"function\", not {data.get('type')!r}.")
    implementation = data.get("implementation")
    if not isinstance(implementation, Mapping) or "type" not in implementation:
        raise InvalidTool(f"'{name}': implementation must be an object with a type: {', '.join(_KINDS[:3])}.")
    if implementation["type"] == "http":
        raise InvalidTool(HTTP_REFUSED, hint="Make an HTTP tool in a bundle instead.")
    _text(data, "handler")
    parameters = _parameters(data, name)
    run, is_async = _implementation(implementation, name, handlers)
    return ToolSpec(
        name=name,
        description=description,
        parameters=parameters,
        run=run,
        is_async=is_async,
        tags=tuple(str(t) for t in data.get("tags") or ()),
        origin=origin,
        where=where,
        read_only=implementation["type"] == "mock" or bool(data.get("read_only")),
    )


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        label = data.get("name") if key != "name" and isinstance(data.get("name"), str) else "a tool"
        raise InvalidTool(f"'{label}': '{key}' is missing or not text." if key != "name" else "A tool needs a name.")
    return value


def _parameters(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    parameters = data.get("parameters")
    if not isinstance(parameters, Mapping):
        raise InvalidTool(f"'{name}': parameters must be a JSON Schema object.")
    if parameters.get("type") != "object":
        raise InvalidTool(f"'{name}': parameters.type must be \"object\", not {parameters.get('type')!r}.")
    try:
        Checker(parameters)
    except InvalidTool as exc:
        raise InvalidTool(f"'{name}': parameters: {exc.message}") from exc
    return dict(parameters)


def _implementation(
    implementation: Mapping[str, Any], name: str, handlers: Handlers
) -> tuple[Callable[[dict[str, Any]], Any], bool]:
    kind = implementation["type"]
    if kind == "mock":
        if "mock_response" not in implementation:
            raise InvalidTool(f"'{name}': a mock needs implementation.mock_response.")
        answer = implementation["mock_response"]
        return (lambda args: copy.deepcopy(answer)), False
    if kind not in ("builtin", "internal"):
        raise InvalidTool(f"'{name}': no implementation type {kind!r}. Valid: {', '.join(_KINDS[:3])}.")
    handler = implementation.get("handler")
    if not isinstance(handler, str) or not handler:
        raise InvalidTool(f"'{name}': {kind} needs implementation.handler.")
    known = handlers()[kind]
    spec = known.get(handler)
    if spec is None:
        near = match.did_you_mean(handler, known)
        raise InvalidTool(
            f"'{name}': no {kind} handler '{handler}'. {near}".strip(), hint=f"Valid: {', '.join(known)}."
        )
    return (lambda args: spec.run(spec.checker.check(args, spec.name))), spec.is_async
