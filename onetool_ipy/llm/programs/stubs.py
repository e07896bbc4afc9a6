"""Tools as the modules of a program: `crm.remind` is the function `remind` of the module `crm`.
Pure.

The stub of a module has the types of arguments, and of results where a schema says them: an output
schema, or the return annotation of a Python function. Objects become TypedDicts, so that a wrong
column is found before the program runs. A pack with the name of a module of Python's library is
called `time_tools`: the library's own name wins in the sandbox. A model reads the same stubs.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.programs.sandbox import HostModule
from onetool_ipy.schema.read import identifier, python_names, resolve, type_text
from onetool_ipy.sdk.stubs import complete_types

_MAX_CLASSES = 60
_MAX_FIELDS = 300
_MAX_DEPTH = 6
_MAX_SUMMARY = 160
_HEAD = "from typing import Any, Literal, TypedDict\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolModules:
    """The modules that a program may import, and the tool behind each function (`crm.remind`)."""

    modules: Mapping[str, HostModule]
    tools: Mapping[str, ToolSpec]

    def text(self) -> str:
        """The stubs as a model reads them."""
        return "\n".join(
            f"# import {name}\n{module.stub.removeprefix(_HEAD)}"
            for name, module in self.modules.items()
        )


def tool_modules(specs: Iterable[ToolSpec], is_write: Callable[[ToolSpec], bool]) -> ToolModules:
    """Return tools as modules. A function whose call needs a person's yes says so in its stub."""
    packs: dict[str, list[ToolSpec]] = {}
    for spec in specs:
        packs.setdefault(spec.pack, []).append(spec)
    modules: dict[str, HostModule] = {}
    tools: dict[str, ToolSpec] = {}
    for pack, members in packs.items():
        label = identifier(pack)
        label = identifier(
            f"{label}_tools" if label in sys.stdlib_module_names else label, set(modules)
        )
        stub = _Stub()
        for spec in members:
            # The sandbox does not export names that begin with an underscore.
            name = identifier(spec.short_name).lstrip("_")
            if not name.isidentifier():  # `_2nd`, or nothing but underscores
                name = f"tool_{name}".rstrip("_")
            stub.add(identifier(name, set(stub.functions)), spec, needs_yes=is_write(spec))
        modules[label] = HostModule(functions=tuple(stub.functions), stub=stub.text())
        tools.update({f"{label}.{name}": spec for name, spec in stub.functions.items()})
    return ToolModules(modules=modules, tools=tools)


class _Stub:
    """The text of one module's stub while it is written."""

    def __init__(self) -> None:
        self.functions: dict[str, ToolSpec] = {}
        self._classes: dict[str, str] = {}
        self._lines: list[str] = []

    def add(self, name: str, spec: ToolSpec, *, needs_yes: bool) -> None:
        """Write a function and the classes of its result."""
        self.functions[name] = spec
        returned = spec.output_schema or (
            None if spec.function.returned is None else spec.function.returned()
        )
        # MCP servers wrap plain values as {"result": value}. Whether one is wrapped is decided when
        # it arrives, so nothing is claimed about it here.
        is_wrapped = (
            spec.server
            and isinstance(returned, Mapping)
            and list(returned.get("properties") or ()) == ["result"]
        )
        schema = None if is_wrapped else returned
        kind = "Any"
        if isinstance(schema, Mapping):
            title = _title(name, "Result")
            kind = self._type(schema, schema, f"{title}Row", 0)
        summary = re.sub(r"[\"\\]|[^\x20-\x7e]", " ", spec.summary)[:_MAX_SUMMARY].strip()
        note = " (asks the person)" if needs_yes else ""
        self._lines.append(
            f'def {name}({_parameters(spec)}) -> {kind}:\n    """{summary}{note}"""\n'
        )

    def text(self) -> str:
        """The whole stub."""
        return "\n".join([_HEAD, *self._classes.values(), *self._lines])

    def _type(self, schema: Any, root: Json, name: str, depth: int) -> str:
        """Return the type of a part of a result; objects with properties become classes."""
        node = resolve(schema, root)
        fields = node.get("properties")
        if depth > _MAX_DEPTH:
            return "Any"
        if node.get("type") == "array" and isinstance(node.get("items"), Mapping):
            return f"list[{self._type(node['items'], root, name, depth + 1)}]"
        choices = node.get("anyOf") or node.get("oneOf")
        if isinstance(choices, list) and not fields:
            kinds = list(
                dict.fromkeys(self._type(choice, root, name, depth + 1) for choice in choices)
            )
            # A value that may be missing is used as if it were there: the check is about names, not
            # about None.
            kinds = [kind for kind in kinds if kind != "None"]
            return kinds[0] if len(kinds) == 1 else "Any"
        if (
            isinstance(fields, Mapping)
            and fields
            and len(fields) <= _MAX_FIELDS
            and len(self._classes) < _MAX_CLASSES
        ):
            label = identifier(name, set(self._classes))
            self._classes[label] = ""
            kinds_of = {
                str(key): self._type(sub, root, f"{label}{_title(str(key), 'Field')}", depth + 1)
                for key, sub in fields.items()
            }
            if all(key.isidentifier() and not keyword.iskeyword(key) for key in kinds_of):
                lines = [f"    {key}: {kind}" for key, kind in kinds_of.items()]
                self._classes[label] = "\n".join(
                    [f"class {label}(TypedDict, total=False):", *lines, ""]
                )
            else:
                listed = ", ".join(f"{key!r}: {kind}" for key, kind in kinds_of.items())
                self._classes[label] = (
                    f'{label} = TypedDict("{label}", {{{listed}}}, total=False)\n'
                )
            return f'"{label}"'
        # A text of a few known values is text: a program may compare it with others.
        return {
            "string": "str",
            "integer": "int",
            "number": "float",
            "boolean": "bool",
            "null": "None",
        }.get(str(node.get("type")), "Any")


def _parameters(spec: ToolSpec) -> str:
    """Return the parameters of a function as text, with `...` for defaults."""
    by_position, rest = spec.positions
    params = {param.name: param for param in spec.params}
    labels = python_names(spec.params)

    def typed(name: str) -> str:
        kind = type_text(params[name].schema, spec.parameters)
        kind = "Any" if "..." in kind else complete_types(kind)
        return f"{labels[name]}: {kind}" + ("" if params[name].required else " = ...")

    first = [name for name in by_position if name in params]
    # Python wants arguments without a default first.
    first.sort(key=lambda name: not params[name].required)
    listed = [typed(name) for name in first]
    if rest and rest in params:
        listed.append(f"*{labels[rest]}: Any")
    others = [typed(name) for name in params if name not in first and name != rest]
    if others and not (rest and rest in params):
        listed.append("*")
    listed += others
    if spec.parameters.get("additionalProperties") or "properties" not in spec.parameters:
        listed.append(f"**{identifier('more', set(labels.values()))}: Any")
    return ", ".join(listed)


def _title(text: str, default: str) -> str:
    return re.sub(r"\W", "", text.title().replace("_", "")) or default
