"""Tools that somebody wrote for another framework, plain objects and modules, as tools of this
session.

A framework is recognised by its classes, as far as it is imported; nothing here imports one by
itself. `_kinds` lists what is known, with one small reader for each. A reader returns `ForeignTool`
values: their own schema, by which we check the arguments before their code runs, and a function
that runs them and raises what really went wrong. Properties of a plain object never run: its tools
are the public functions of its class.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from operator import attrgetter
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from onetool_ipy.base import forks, values
from onetool_ipy.base.errors import DuplicateTool, InvalidTool, UsageProblem
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.core import current, describe, names
from onetool_ipy.core.decorate import Marks
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.sdk.requirements import module_version
from onetool_ipy.sources.functions import spec_of

_NOT_IN_NAMES = re.compile(r"[^\w-]+")
_OTHER_PACK = 'Put the tools into another pack: ot.adopt(..., pack="name")'
_FRAMEWORKS = re.compile(
    r"(agents|agno|autogen(_\w+)?|camel|crewai(_\w+)?|dspy|fastmcp|google\.adk|griptape|haystack(_\w+)?|lang(chain|graph)(_\w+)?"
    r"|llama_index|llm|mcp(_types)?|phi|pydantic_ai|semantic_kernel|smolagents|strands(_\w+)?)(\.|$)"
)
"""Modules of agent frameworks. A class of one is a kind that `_kinds` has, or is not adopted."""
_TOOL_WORDS = ("name", "description")
_TOOL_SCHEMAS = (
    "args_schema",
    "input_schema",
    "inputSchema",
    "params_json_schema",
    "parameters",
    "json_schema",
)
_JSON_TYPES = {"string", "boolean", "integer", "number", "array", "object", "null"}

Wait = Callable[[Callable[[], Awaitable[Any]]], Any]
"""Runs async work of a framework from sync code, and returns what it gave."""


class ForeignTool(NamedTuple):
    """One tool of a framework: what it is called, what it takes, and how to run it."""

    name: str
    description: str | None
    parameters: object
    run: Callable[[dict[str, Any]], Any]
    is_async: bool = False


Reader = Callable[[Any, object, Wait], Iterable[Any]]
"""Reads an object of a framework, with the user's `deps`: gives tools, methods by name, or other
such objects."""


class Kind(NamedTuple):
    """A class of a framework by its module and name; the distribution and the major version that
    are supported.

    `pack` is empty where the object itself names the pack, as a server or a toolkit does.
    """

    module: str
    name: str
    pack: str
    distribution: str
    major: int
    read: Reader


class Adoptions:
    """The adopted tools of one toolbox, by name: the object each is of, and the cell that adopted
    it."""

    def __init__(self, wait: Wait) -> None:
        self._wait = wait
        self._by_name: dict[str, tuple[object, str]] = {}
        self.after_fork()
        forks.register(self)

    def after_fork(self) -> None:
        """Take a lock of this process's own."""
        self._adopting = threading.RLock()

    def adopt(
        self,
        registry: Registry,
        thing: object,
        *,
        pack: str,
        deps: object,
        read_only: Iterable[str],
    ) -> list[ToolSpec]:
        """Register the tools of an object and return them; all of them or none. Raises InvalidTool,
        DuplicateTool."""
        if not isinstance(pack, str) or _NOT_IN_NAMES.search(pack):
            raise InvalidTool(
                f"{values.safe_repr(pack, 60)} is not a name for a pack: letters, digits, _ and -."
            )
        try:
            tools = _read(thing, pack, deps, self._wait)
        except RecursionError:
            raise InvalidTool("The list of tools holds itself, or is nested too deep.") from None
        if not tools:
            raise InvalidTool(f"There are no tools in this {type(thing).__name__}.")
        specs = _marked([spec for spec, _ in tools], read_only)
        owners = {
            spec.name: (owner, current.cell_id()) for spec, owner in tools if owner is not None
        }
        with self._adopting:
            # A function of a cell may replace another one, as with `@tool`.
            for name, (owner, _) in owners.items():
                self._require_free(registry, name, owner)
            # Where a tool of an object is replaced, all tools of that object go: the new one may
            # have fewer.
            replaced = {id(self._by_name[name][0]) for name in owners if name in self._by_name}
            gone = [name for name, (owner, _) in self._by_name.items() if id(owner) in replaced]
            registered = registry.register_all(specs.values(), replacing=gone)
            kept = {
                name: entry for name, entry in self._by_name.items() if name not in (*gone, *specs)
            }
            self._by_name = {**kept, **owners}
        return registered

    def _require_free(self, registry: Registry, name: str, owner: object) -> None:
        """Raise DuplicateTool unless the name is free, or of the same object, or of this cell,
        which runs again."""
        other, (before, cell) = registry.get(name), self._by_name.get(name, (None, ""))
        is_same = before is owner or bool(cell and cell == current.cell_id())
        if other is not None and not (other.origin == "cell" and is_same):
            place = f" ({other.where})" if other.where else ""
            raise DuplicateTool(
                f"The name '{name}' is taken by a {other.origin} tool{place}.", hint=_OTHER_PACK
            )


def _marked(tools: Iterable[ToolSpec], read_only: Iterable[str]) -> dict[str, ToolSpec]:
    """Return the tools by name, marked by `read_only`. Raises for a name twice, or of no tool."""
    specs: dict[str, ToolSpec] = {}
    names_given = {read_only} if isinstance(read_only, str) else set(read_only)
    for spec in tools:
        if spec.name in specs:
            raise DuplicateTool(f"Two of these tools are called '{spec.name}'.", hint=_OTHER_PACK)
        is_marked = not names_given.isdisjoint((spec.name, spec.short_name))
        specs[spec.name] = spec.replace(read_only=True) if is_marked else spec
    for unknown in names_given - set(specs) - {spec.short_name for spec in specs.values()}:
        near = did_you_mean(unknown, [spec.short_name for spec in specs.values()])
        raise UsageProblem(
            f"read_only names '{unknown}', which is not one of these tools. {near}".rstrip()
        )
    return specs


def _read(thing: Any, pack: str, deps: object, wait: Wait) -> list[tuple[ToolSpec, object | None]]:
    """Return the tools of anything that can be adopted, each with the object it came from; None for
    a function."""
    if isinstance(thing, str):
        thing = _imported(thing)
    if isinstance(thing, (list, tuple)):
        return [pair for each in thing for pair in _read(each, pack, deps, wait)]
    if (
        isinstance(inspect.getattr_static(thing, "__onetool__", None), Marks)
        or isinstance(thing, partial)
        or inspect.isroutine(thing)
    ):
        return [(spec_of(thing, pack=pack or "nb", origin="cell"), None)]
    if isinstance(thing, ModuleType):
        return [
            (spec, thing)
            for spec in _functions(
                _module_members(thing), pack or thing.__name__.rpartition(".")[2], thing
            )
        ]
    if (match := _kind_of(thing)) is not None:
        return [(spec, thing) for spec in _framework_tools(thing, *match, pack, deps, wait)]
    if isinstance(thing, type):
        raise InvalidTool(
            f"'{thing.__name__}' is a class.", hint=f"Adopt an object of it: {thing.__name__}(...)"
        )
    if type(thing).__module__ == "builtins":
        # Any other value may hold a secret.
        is_plain = thing is None or isinstance(thing, int | float)
        what = str(thing) if is_plain else f"This {type(thing).__name__}"
        raise InvalidTool(
            f"{what} is not a tool, nor an object with tools.",
            hint="Adopt a function, an object with methods, a module, or another framework's tool.",
        )
    _require_plain(thing)
    members = _methods(thing)
    if not members:
        raise InvalidTool(
            f"The object of class '{type(thing).__name__}' has no public methods.",
            hint=_known_words(),
        )
    return [
        (spec, thing)
        for spec in _functions(members, pack or type(thing).__name__.lower(), type(thing))
    ]


def _require_plain(thing: object) -> None:
    """Raise InvalidTool for an object of an agent framework, or one that looks like a tool.

    Its methods are how the framework runs it, and no tools: none is adopted by accident. Nothing of
    it runs here.
    """
    cls = type(thing)
    homes = (str(each.__module__) for each in cls.__mro__)
    # A module of the user's own may be called `agents`: it is of no distribution.
    home = next((home for home in homes if _FRAMEWORKS.match(home) and module_version(home)), "")
    named = [
        name
        for name in (*_TOOL_WORDS, *_TOOL_SCHEMAS)
        if inspect.getattr_static(thing, name, None) is not None
    ]
    looks_like_one = {*_TOOL_WORDS} <= {*named} and len(named) > len(_TOOL_WORDS)
    if not home and not looks_like_one:
        return
    reason = f"comes from '{home}'" if home else f"looks like a tool ({', '.join(named)})"
    raise InvalidTool(
        f"The object of class '{cls.__name__}' {reason}, and is of no kind that can be adopted.",
        hint=f"{_known_words()} Adopt a function or method of it instead: ot.adopt(thing.method)",
    )


def _known_words() -> str:
    return f"Known are: {', '.join(dict.fromkeys(kind.distribution for kind in _kinds()))}."


def _imported(place: str) -> object:
    """Return what `module:name` names."""
    if not names.PLACE.fullmatch(place):  # the text may be anything, a secret too
        raise UsageProblem(
            "This text is not of the form 'module:name'.",
            hint='For example: ot.adopt("math:sqrt")',
        )
    module, _, path = place.partition(":")
    try:
        return attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError) as exc:
        raise UsageProblem(f"'{place}' cannot be imported: {exc}.") from exc


def _module_members(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the public functions that a module defines, or those that its `__all__` lists."""
    listed = getattr(module, "__all__", None)
    return {
        name: member
        for name, member in vars(module).items()
        if isinstance(member, FunctionType)
        and (
            name in listed
            if listed is not None
            else member.__globals__ is vars(module) and name[0] != "_"
        )
    }


def _methods(thing: object, *, hidden: Sequence[str] = ()) -> dict[str, Callable[..., Any]]:
    """Return the public methods of an object's class, bound. No property runs, nor any other code
    of the object."""
    members: dict[str, Callable[..., Any]] = {}
    for cls in reversed(type(thing).__mro__[:-1]):
        for name, member in vars(cls).items():
            members.pop(name, None)
            is_method = isinstance(member, (FunctionType, staticmethod, classmethod))
            if is_method and not name.startswith("_") and name not in hidden:
                members[name] = member.__get__(thing, type(thing))
    return members


def _functions(
    members: Mapping[str, Callable[..., Any]], pack: str, home: type | ModuleType
) -> list[ToolSpec]:
    return [
        describe.from_function(
            member, name=names.canonical(name, pack=_plain(pack)), where=home.__name__
        )
        for name, member in members.items()
    ]


def _framework_tools(
    thing: Any, kind: Kind, version: str, pack: str, deps: object, wait: Wait
) -> list[ToolSpec]:
    """Return the tools of an object of a framework. Raises InvalidTool for a version that is not
    supported."""
    supported = f"Supported: {kind.distribution} {kind.major}.x."
    if version.partition(".")[0] != str(kind.major):
        raise InvalidTool(f"{kind.distribution} {version} is not supported.", hint=supported)
    try:
        tools = list(kind.read(thing, deps, wait))
        own_name = "" if pack or kind.pack else getattr(thing, "name", None) or type(thing).__name__
    except Exception as exc:
        message = (
            f"This {kind.name} of {kind.distribution} {version} cannot be read:"
            f" {type(exc).__name__}: {exc}"
        )
        raise InvalidTool(message, hint=supported) from exc
    pack = pack or kind.pack or _plain(own_name).lower()
    specs: list[ToolSpec] = []
    for tool in tools:
        if isinstance(tool, ForeignTool):
            specs.append(_spec(tool, pack, f"{kind.distribution} {type(thing).__name__}"))
        elif isinstance(tool, tuple):
            specs += _functions(dict([tool]), pack, type(thing))
        else:
            specs += [spec for spec, _ in _read(tool, pack, deps, wait)]
    return specs


def _spec(tool: ForeignTool, pack: str, where: str) -> ToolSpec:
    name = names.canonical(_plain(tool.name), pack=pack)
    if not isinstance(tool.parameters, Mapping):
        raise InvalidTool(
            f"'{name}': its schema is {values.safe_repr(tool.parameters, 60)}, not a JSON Schema."
        )
    spec = ToolSpec(
        name=name,
        description=tool.description or tool.name,
        # A tool without arguments may leave the type out.
        parameters={"type": "object", **tool.parameters},
        run=tool.run,
        is_async=tool.is_async,
        where=where,
    )
    try:
        spec.checker  # noqa: B018 - compiles the schema, or raises
    except InvalidTool as exc:
        raise InvalidTool(f"'{name}': parameters: {exc.message}") from exc
    return spec


def _plain(name: object) -> str:
    """Return a name without what a tool's name cannot have. Raises InvalidTool if nothing is
    left."""
    text = _NOT_IN_NAMES.sub("_", name).strip("_") if isinstance(name, str) else ""
    if not text:
        raise InvalidTool(f"{values.safe_repr(name, 60)} is not a name for a tool.")
    return text


def _kinds() -> tuple[Kind, ...]:
    """Return what is recognised."""
    llama = "llama_index.core.tools"
    return (
        Kind("langchain_core.tools", "BaseTool", "langchain", "langchain-core", 1, _langchain_tool),
        Kind(
            "langchain_core.tools",
            "BaseToolkit",
            "",
            "langchain-core",
            1,
            lambda kit, *_: kit.get_tools(),
        ),
        Kind("pydantic_ai.tools", "Tool", "pydantic_ai", "pydantic-ai-slim", 2, _pydantic_ai),
        Kind(
            "pydantic_ai.toolsets",
            "AbstractToolset",
            "pydantic_ai",
            "pydantic-ai-slim",
            2,
            _pydantic_ai,
        ),
        Kind("agents.tool", "FunctionTool", "agents", "openai-agents", 0, _agents_tool),
        Kind(f"{llama}.types", "BaseTool", "llama_index", "llama-index-core", 0, _llama_tool),
        Kind(
            "llama_index.core.tools.tool_spec.base",
            "BaseToolSpec",
            "",
            "llama-index-core",
            0,
            lambda kit, *_: kit.to_tool_list(),
        ),
        Kind("smolagents.tools", "Tool", "smolagents", "smolagents", 1, _smol_tool),
        Kind(
            "smolagents.tools",
            "ToolCollection",
            "smolagents",
            "smolagents",
            1,
            lambda group, *_: group.tools,
        ),
        Kind("llm.models", "Tool", "llm", "llm", 0, _llm_tool),
        Kind("llm.models", "Toolbox", "", "llm", 0, _llm_toolbox),
        Kind("fastmcp.server.server", "FastMCP", "", "fastmcp", 4, _fastmcp_server),
        Kind("mcp.server.mcpserver.server", "MCPServer", "", "mcp", 2, _mcp_server),
    )


def _kind_of(thing: object) -> tuple[Kind, str] | None:
    """Return the kind of an object and the installed version of its framework; None if it is of no
    framework."""
    for kind in _kinds():
        # What nobody has imported cannot be the class of an object. A module of the user's own may
        # have the same name.
        if getattr(sys.modules.get(kind.module), kind.name, None) in type(thing).__mro__:
            with suppress(metadata.PackageNotFoundError):
                return kind, metadata.version(kind.distribution)
    return None


def _call_id() -> str:
    scope = current.scope()
    return scope.call.id if scope is not None and scope.call is not None else "onetool"


async def _with_real_cause(work: Awaitable[Any], exceptions: str) -> Any:
    """Await a call of a server. Its ToolError, of that module, gives way to what it wraps."""
    wrapper: type[Exception] = importlib.import_module(exceptions).ToolError
    try:
        return await work
    except wrapper as exc:
        raise exc.__cause__ or exc from None


# --- one reader for each kind


def _langchain_tool(tool: Any, _deps: object, _wait: Wait) -> Iterable[ForeignTool]:
    own = tool.model_copy(update={"handle_tool_error": False, "handle_validation_error": False})
    schema = own.tool_call_schema
    parameters = schema if isinstance(schema, dict) else schema.model_json_schema()
    fields = () if isinstance(schema, dict) else own.get_input_schema().model_fields
    is_injected = any(name not in parameters.get("properties", ()) for name in fields)
    # Without the id of a call LangChain drops the artifact; with one it makes text of any other
    # value.
    has_id = tool.response_format == "content_and_artifact" or is_injected
    maker = next(cls for cls in type(tool).__mro__ if "_arun" in vars(cls))
    is_coroutine = (
        getattr(tool, "coroutine", None) is not None and getattr(tool, "func", None) is None
    )
    is_async = is_coroutine or not maker.__module__.startswith("langchain_core.")

    def arguments(args: dict[str, Any]) -> dict[str, Any]:
        return (
            {"type": "tool_call", "name": tool.name, "args": args, "id": _call_id()}
            if has_id
            else args
        )

    def value(message: Any) -> Any:
        if not has_id or not hasattr(message, "content"):
            return message
        has_artifact = message.artifact is not None
        return (
            {"content": message.content, "artifact": message.artifact}
            if has_artifact
            else message.content
        )

    def run(args: dict[str, Any]) -> Any:
        return value(own.invoke(arguments(args)))

    async def arun(args: dict[str, Any]) -> Any:
        return value(await own.ainvoke(arguments(args)))

    yield ForeignTool(tool.name, tool.description, parameters, arun if is_async else run, is_async)


def _pydantic_ai(thing: Any, deps: object, wait: Wait) -> Iterable[ForeignTool]:
    module = importlib.import_module("pydantic_ai")
    toolset = thing if hasattr(thing, "get_tools") else module.FunctionToolset([thing])

    def context(name: str = "") -> Any:
        call = {"tool_name": name, "tool_call_id": _call_id()}
        return module.RunContext(deps=deps, model=None, usage=module.RunUsage(), **call)

    async def tools() -> Any:
        async with toolset:
            return await toolset.get_tools(context())

    async def run(name: str, tool: Any, args: dict[str, Any]) -> Any:
        here = context(name)
        ready = tool.args_validator.validate_python(args)
        if tool.args_validator_func is not None:
            check = tool.args_validator_func(here, **ready)
            if inspect.isawaitable(check):
                await check
        async with toolset:
            value = await toolset.call_tool(name, ready, here, tool)
        return value.return_value if isinstance(value, module.ToolReturn) else value

    for name, tool in wait(tools).items():
        schema = tool.tool_def.parameters_json_schema
        yield ForeignTool(name, tool.tool_def.description, schema, partial(run, name, tool), True)


def _agents_tool(tool: Any, deps: object, _wait: Wait) -> Iterable[ForeignTool]:
    context = importlib.import_module("agents.tool_context")
    # The tool's failure function makes text of an exception, which looks like a success.
    own = copy.copy(tool)
    own._failure_error_function, own._use_default_failure_error_function = None, False

    async def run(args: dict[str, Any]) -> Any:
        text = json.dumps(values.to_json(args))
        call = {"tool_name": tool.name, "tool_call_id": _call_id(), "tool_arguments": text}
        return await own.on_invoke_tool(context.ToolContext(context=deps, **call), text)

    yield ForeignTool(tool.name, tool.description, tool.params_json_schema, run, True)


def _llama_tool(tool: Any, deps: object, _wait: Wait) -> Iterable[ForeignTool]:
    about = tool.metadata
    is_async = inspect.iscoroutinefunction(getattr(tool, "real_fn", None))
    extra = {tool.ctx_param_name: deps} if getattr(tool, "requires_context", False) else {}

    def value(output: Any) -> Any:
        if output.is_error:
            raise output.exception or RuntimeError(output.content)
        return output.raw_output

    def run(args: dict[str, Any]) -> Any:
        return value(tool(**args, **extra))

    async def arun(args: dict[str, Any]) -> Any:
        return value(await tool.acall(**args, **extra))

    parameters = about.get_parameters_dict()
    yield ForeignTool(
        about.get_name(), about.description, parameters, arun if is_async else run, is_async
    )


def _smol_tool(tool: Any, _deps: object, _wait: Wait) -> Iterable[ForeignTool]:
    properties: Json = {}
    for name, about in tool.inputs.items():
        types = [about["type"]] if isinstance(about["type"], str) else list(about["type"])
        types += ["null"] if about.get("nullable") else []
        schema = {key: part for key, part in about.items() if key not in ("type", "nullable")}
        # Images, sound and "any" are Python objects, which no JSON type describes.
        if set(types) <= _JSON_TYPES:
            schema["type"] = types[0] if len(types) == 1 else types
        properties[name] = schema
    required = [name for name, about in tool.inputs.items() if not about.get("nullable")]
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    is_async = inspect.iscoroutinefunction(tool.forward)
    yield ForeignTool(tool.name, tool.description, parameters, lambda args: tool(**args), is_async)


def _llm_tool(tool: Any, _deps: object, _wait: Wait) -> Iterable[ForeignTool]:
    function = tool.implementation
    extra = (
        {"llm_tool_call": None} if "llm_tool_call" in inspect.signature(function).parameters else {}
    )
    is_async = inspect.iscoroutinefunction(function)
    yield ForeignTool(
        tool.name,
        tool.description,
        tool.input_schema,
        lambda args: function(**args, **extra),
        is_async,
    )


def _llm_toolbox(toolbox: Any, _deps: object, wait: Wait) -> Iterable[Any]:
    wait(toolbox.prepare_async)
    toolbox.prepare()
    yield from _methods(toolbox, hidden=toolbox._blocked).items()
    yield from toolbox._extra_tools


def _fastmcp_server(server: Any, _deps: object, wait: Wait) -> Iterable[ForeignTool]:
    async def run(name: str, is_wrapped: bool, args: dict[str, Any]) -> Any:
        result = await _with_real_cause(server.call_tool(name, args), "fastmcp.exceptions")
        if result.structured_content is not None:
            return result.structured_content["result"] if is_wrapped else result.structured_content
        parts = [
            block.text if block.type == "text" else block.model_dump(mode="json")
            for block in result.content
        ]
        return parts[0] if len(parts) == 1 else parts or None

    for tool in wait(server.list_tools):
        is_wrapped = bool((tool.output_schema or {}).get("x-fastmcp-wrap-result"))
        yield ForeignTool(
            tool.name, tool.description, tool.parameters, partial(run, tool.name, is_wrapped), True
        )


def _mcp_server(server: Any, _deps: object, _wait: Wait) -> Iterable[ForeignTool]:
    module = importlib.import_module("mcp.server.mcpserver")

    async def run(tool: Any, args: dict[str, Any]) -> Any:
        call = tool.run(args, module.Context(mcp_server=server))
        return await _with_real_cause(call, "mcp.server.mcpserver.exceptions")

    for tool in server._tool_manager.list_tools():
        yield ForeignTool(tool.name, tool.description, tool.parameters, partial(run, tool), True)
