"""Our tools as the objects of other frameworks: LangChain, pydantic-ai, OpenAI Agents, smolagents.

A call from there is a model's call like any other: checked, limited, recorded, its secrets masked.
What is large goes as a handle with a preview. What stays in a framework's messages is plain JSON
data without secrets, so that they can be saved and loaded. Tools that only read are exported by
themselves; the others have to be named, and carry the framework's mark for calls that need a yes,
where it has one. Nothing is imported before its framework is asked for.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import ToolCallError, Unavailable, UsageProblem
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.config.load import Config, needs_approval
from onetool_ipy.core import names
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import Problem, ToolSpec
from onetool_ipy.llm.ask.session import json_text

_SMOL_TYPES = ("string", "boolean", "integer", "number", "array", "object", "null")


class ModelCalls(NamedTuple):
    """How a model's calls are made, and what leaves of their results."""

    call: Callable[..., ToolResult]
    acall: Callable[..., Awaitable[ToolResult]]
    outgoing: Callable[[ToolResult], Any]
    mask: Callable[[str], str]


class ExportedTool:
    """One tool for a framework: its name there, its schema, and a model's calls of it, sync and
    async."""

    def __init__(
        self, calls: ModelCalls, spec: ToolSpec, name: str, *, needs_approval: bool
    ) -> None:
        self.name = name
        self.description = calls.mask(spec.description)
        self.parameters = dict(spec.parameters)
        self.needs_approval = needs_approval
        self.call = partial(calls.call, spec.name, source="model")
        self.acall = partial(calls.acall, spec.name, source="model")
        self.mask = calls.mask
        self._outgoing = calls.outgoing

    def value(self, result: ToolResult) -> Any:
        """Return what leaves the toolbox, without secrets: JSON data, or a handle and a preview."""
        return values.map_text(self._outgoing(result), self.mask)

    def content(self, result: ToolResult) -> str:
        """Return what the model gets: the same as text."""
        return self.mask(json_text(self._outgoing(result)))

    def kept(self, result: ToolResult) -> tuple[str, Json]:
        """Return the content, and the result for messages, with the keys of
        `ToolResult.to_dict`."""
        data = self.value(result)
        # What was sent is known before `meta`, which then has the handle of a large result.
        error = None if result.error is None else result.error.to_dict()
        whole = {"ok": result.ok, "data": data, "error": error, "meta": values.to_json(result.meta)}
        record: Json = values.map_text(_small_numbers(whole), self.mask)
        return self.mask(json_text(data)), record

    def message(self, result: ToolResult) -> str:
        """Return what the model gets of a failure."""
        assert result.error is not None
        return self.mask(Problem("", result.error.message, result.error.hint or "").text)


def _small_numbers(data: Any) -> Any:
    """Return JSON data with numbers over 64 bits as text: MessagePack of checkpoints has none."""
    if isinstance(data, dict):
        return {key: _small_numbers(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_small_numbers(item) for item in data]
    return str(data) if type(data) is int and not -(1 << 63) <= data < 1 << 64 else data


def export(
    framework: str,
    allow: Sequence[str] | None,
    *,
    registry: Registry,
    config: Config,
    calls: ModelCalls,
) -> list[Any]:
    """Return the tools as objects of a framework. Raises UsageProblem, ToolNotFound, or Unavailable
    without it."""
    makers: dict[str, tuple[str, str, Callable[[ModuleType, ExportedTool], Any]]] = {
        "langchain": ("langchain_core.tools", "langchain-core", _to_langchain),
        "pydantic-ai": ("pydantic_ai", "pydantic-ai-slim", _to_pydantic_ai),
        "openai-agents": ("agents", "openai-agents", _to_agents),
        "smolagents": ("smolagents", "smolagents", _to_smolagents),
    }
    if framework not in makers:
        near = did_you_mean(str(framework), makers)
        raise UsageProblem(
            f"No framework '{framework}'. {near}".rstrip(), hint=f"Known are: {', '.join(makers)}."
        )
    module_name, distribution, make = makers[framework]
    try:
        module = importlib.import_module(module_name)
    except ImportError as exc:
        raise Unavailable(
            f"{distribution} is not installed.", hint=f"Install it: %pip install {distribution}"
        ) from exc
    allow = [allow] if isinstance(allow, str) else allow
    for name in allow or ():
        if "*" not in name:
            registry.require(name)

    def may_write(spec: ToolSpec) -> bool:
        return needs_approval(spec, {}, config) or spec.name in names.WRITING

    specs = [
        spec
        for spec in registry.known(allow)
        if spec.is_offered and not (spec.prompt or spec.resource)
    ]
    if allow is None:
        specs = [spec for spec in specs if spec.is_for_models and not may_write(spec)]
    wire = names.wire_names(spec.name for spec in registry.known())
    return [
        make(module, ExportedTool(calls, spec, wire[spec.name], needs_approval=may_write(spec)))
        for spec in registry.loaded(specs)
    ]


def _to_langchain(module: ModuleType, tool: ExportedTool) -> Any:
    def parts(result: ToolResult) -> tuple[str, Json]:
        if result.error is not None:
            raise module.ToolException(tool.message(result)) from result.error.exception
        return tool.kept(result)

    def run(**args: Any) -> tuple[str, Json]:
        return parts(tool.call(args))

    async def arun(**args: Any) -> tuple[str, Json]:
        return parts(await tool.acall(args))

    # LangChain evaluates the annotations of both functions again at each call.
    run.__annotations__, arun.__annotations__ = {}, {}
    return module.StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.parameters,
        func=run,
        coroutine=arun,
        response_format="content_and_artifact",
        handle_tool_error=True,
        metadata={"requires_approval": tool.needs_approval},
    )


def _to_pydantic_ai(module: ModuleType, tool: ExportedTool) -> Any:
    async def run(context: Any, /, **args: Any) -> Any:
        result = await tool.acall(args)
        content, record = tool.kept(result)
        if result.error is None:
            return module.ToolReturn(content, metadata=record)
        # A retry too many ends the whole run, so the model is told of the last failure as text.
        if context.retry < context.max_retries:
            raise module.ModelRetry(tool.message(result)) from result.error.exception
        return module.ToolReturn(f"Error: {tool.message(result)}", metadata=record)

    exported = module.Tool.from_schema(
        run, tool.name, tool.description, tool.parameters, takes_ctx=True
    )
    exported.requires_approval = tool.needs_approval
    return exported


def _to_agents(module: ModuleType, tool: ExportedTool) -> Any:
    async def invoke(_context: Any, text: str) -> str:
        # A model's arguments are text here, and may be anything.
        try:
            args = json.loads(text or "{}")
        except ValueError as exc:
            return f"Error: The arguments are not JSON: {exc}."
        result = await tool.acall(args)
        return tool.content(result) if result.error is None else f"Error: {tool.message(result)}"

    return module.FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
        needs_approval=tool.needs_approval,
    )


def _to_smolagents(module: ModuleType, tool: ExportedTool) -> Any:
    """Return an object of a class of its own, as smolagents reads a tool from its class. It has no
    mark for a yes."""

    def forward(_self: object, **args: Any) -> Any:
        result = tool.call(
            {name: value for name, value in args.items() if value is not None or name in required}
        )
        if result.error is not None:
            raise ToolCallError(result) from result.error.exception
        return tool.value(result)

    required = tool.parameters.get("required", [])
    name = tool.name.replace("-", "_")
    inputs: dict[str, Json] = {}
    for key, schema in tool.parameters.get("properties", {}).items():
        kind = schema.get("type")
        inputs[key] = {
            "description": f"The {key}.",
            **schema,
            "type": kind if kind in _SMOL_TYPES else "any",
        }
        inputs[key] |= {} if key in required else {"nullable": True}
    fields = {
        "name": name,
        "description": tool.description,
        "inputs": inputs,
        "output_type": "any",
        "forward": forward,
        "skip_forward_signature_validation": True,
    }
    return type(name, (module.Tool,), fields)()
