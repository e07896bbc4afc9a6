"""Tools in the words of each provider: `declare("openai", offers)`. Pure.

An `Offer` is a tool as one model sees it: under its wire name, which depends on all registered tools. Nothing here
checks arguments: a schema that is cut down for a provider may let more through than the tool, and the executor says no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onetool_ipy.config.value import Value
from onetool_ipy.core import names
from onetool_ipy.core.errors import UnknownProvider
from onetool_ipy.core.model import ToolSpec
from onetool_ipy.llm.formats import gemini, plain

__all__ = ["PROVIDERS", "Offer", "declare", "offers"]


class Offer(Value):
    """One tool as a model is told of it. `name` is its wire name, `tool` its canonical one."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    tool: str


def offers(specs: Iterable[ToolSpec], *, among: Iterable[str] | None = None) -> list[Offer]:
    """The tools as a model is told of them, in their order. `among` are the names of all registered tools."""
    known = list(specs)
    wire = names.wire_names([*(among or ()), *(spec.name for spec in known)])
    return [Offer(wire[spec.name], spec.description, spec.parameters, spec.name) for spec in known]


def declare(provider: str, tools: Sequence[Offer]) -> list[dict[str, Any]]:
    """The tools in a provider's format. Raises UnknownProvider."""
    write = _FORMATS.get(provider) if isinstance(provider, str) else None
    if write is None:
        raise UnknownProvider(
            f"The provider {provider!r} is not supported.", hint=f"Supported: {', '.join(sorted(_FORMATS))}."
        )
    return [write(tool) for tool in tools]


def _openai(tool: Offer) -> dict[str, Any]:
    return {"type": "function", "function": plain.function(tool.name, tool.description, tool.parameters)}


def _anthropic(tool: Offer) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": plain.object_schema(tool.parameters),
    }


def _gemini(tool: Offer) -> dict[str, Any]:
    return {
        "functionDeclarations": [
            {"name": tool.name, "description": tool.description, "parameters": gemini.subset(tool.parameters)}
        ]
    }


_FORMATS: Mapping[str, Callable[[Offer], dict[str, Any]]] = {
    "openai": _openai,
    "ollama": _openai,
    "gemini": _gemini,
    "anthropic": _anthropic,
}

PROVIDERS = tuple(_FORMATS)
