"""Aliases and snippets, both written `$name`: their definitions, their parameters, and what a name
stands for.

A snippet is code with parameters. Owns the types of parameters, the check of arguments, and their
error messages; `expansion` fills the body. Reading a definition does not look at its body, because
that needs jinja2; `faults_of` does. A faulty alias or snippet (a cycle, an unknown target, a bad
body) is a Problem and stops no other. If a name is both, the snippet wins. Knows nothing of cells
or calls.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidConfig, OneToolError, UsageProblem
from onetool_ipy.base.search import did_you_mean, suggest
from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import Problem
from onetool_ipy.snippets.expansion import Name, TemplateProblem, Typed, render, undeclared

ParamType = Literal["text", "int", "float", "bool", "list", "dict", "name", "any"]
"""`name` is a dotted Python name, written bare in code; `any` is a literal where it reads as one,
else text."""

MISSING: Any = object()
"""Means that there is no default; None is a default."""

_EMPTY: Mapping[str, Any] = MappingProxyType({})
_TYPES: dict[str, ParamType] = {
    **dict.fromkeys(("text", "str", "string"), "text"),
    **dict.fromkeys(("int", "integer"), "int"),
    **dict.fromkeys(("float", "number"), "float"),
    **dict.fromkeys(("bool", "boolean"), "bool"),
    **dict.fromkeys(("list", "array"), "list"),
    **dict.fromkeys(("dict", "object", "mapping"), "dict"),
    **dict.fromkeys(("name", "identifier"), "name"),
    "any": "any",
}
_JSON_TYPES = {
    "text": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "name": "string",
}
_DEFAULT_TYPES = (
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (str, "text"),
    (list, "list"),
    (dict, "dict"),
)
"""The type of a parameter by that of its default; a bool is an int, too, so it comes first."""
_SAMPLES: dict[ParamType, str] = {
    "int": "1",
    "float": "1.5",
    "bool": "true",
    "list": "[]",
    "dict": "{}",
}
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_YES_NO = {**_WORDS, "yes": True, "no": False, "on": True, "off": False, "1": True, "0": False}
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_SURE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII)
"""Text that counts as a number even if no type is declared: `007` and `+49123` are text."""
_PLAIN_WORD = re.compile(r"[^\s\"'\[({]\S*")
_AS_TYPED: dict[type, Any] = {
    kind: type(kind.__name__, (kind,), {}) for kind in (int, float, list, dict)
}
"""The same types with attributes: `typed` is the value as it was typed."""


class Bare(str):
    """A value typed without quotes; its parameter's type decides what it means. Plain `str` is
    always text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SnippetParam:
    """One parameter; it is required if it has no default."""

    name: str
    type: ParamType = "any"
    declared: str = ""
    description: str = ""
    default: Any = MISSING
    example: Any = MISSING

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


@dataclass(frozen=True, slots=True)
class Snippet:
    """Code with parameters, and the `file:line` of its definition."""

    name: str
    body: str
    description: str = ""
    params: tuple[SnippetParam, ...] = ()
    where: str = ""

    @property
    def parameters(self) -> Json:
        """The parameters as a JSON Schema, for completion and forms."""
        properties: dict[str, Any] = {}
        for param in self.params:
            schema: dict[str, Any] = (
                {"type": _JSON_TYPES[param.type]} if param.type in _JSON_TYPES else {}
            )
            if param.description:
                schema["description"] = param.description
            if not param.is_required:
                schema["default"] = values.to_json(param.default)
            properties[param.name] = schema
        required = [param.name for param in self.params if param.is_required]
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    @property
    def usage(self) -> str:
        """`$name topic=... [count=5]`."""
        parts = [
            f"{p.name}=..." if p.is_required else f"[{p.name}={_typed(p.default)}]"
            for p in self.params
        ]
        return " ".join([f"${self.name}", *parts])


def read_snippet(name: str, data: Mapping[str, object], where: str = "") -> Snippet:
    """Return the Snippet of a definition, or raise InvalidConfig."""
    body = data.get("body")
    if not name.isidentifier():
        raise InvalidConfig(
            f"'{name}' is not a name for a snippet.", hint="Use letters, digits and '_'."
        )
    if not isinstance(body, str) or not body.strip():
        raise InvalidConfig(f"The snippet '{name}' has no body.")
    params = data.get("params") or {}
    if not isinstance(params, Mapping):
        raise InvalidConfig(f"The snippet '{name}': params must be 'name: {{...}}' lines.")
    params = tuple(_read_param(name, str(key), value) for key, value in params.items())
    return Snippet(name, body, str(data.get("description") or "").strip(), params, where)


def expand(snippet: Snippet, args: Mapping[str, object]) -> str:
    """Return the code of a snippet with these arguments. Raises UsageProblem with the usage as its
    hint."""
    params = {param.name: param for param in snippet.params}
    faults: list[str] = []
    for name in args:
        if name not in params:
            near = suggest(str(name), params, limit=1)
            faults.append(f"unknown '{name}'" + (f", did you mean '{near[0]}'?" if near else ""))
    ready: Json = {}
    for name, param in params.items():
        argument = args.get(name, param.default)
        if argument is MISSING:
            faults.append(f"missing '{name}'")
            continue
        value = (
            argument
            if argument is None and argument is param.default
            else _convert(param, argument)
        )
        if value is MISSING:
            faults.append(
                f"'{name}' must be of type '{param.type}', not {values.safe_repr(argument, 60)}"
            )
        ready[name] = value
    if faults:
        reasons = "; ".join(faults)
        end = "" if reasons.endswith("?") else "."
        raise UsageProblem(f"The snippet '{snippet.name}': {reasons}{end}", hint=_usage(snippet))
    try:
        return render(snippet.body, ready)
    except TemplateProblem as exc:
        raise UsageProblem(
            f"The snippet '{snippet.name}' cannot be expanded. {exc.message}",
            hint=exc.hint or _usage(snippet),
        ) from exc


def faults_of(snippet: Snippet) -> list[str]:
    """Return what is wrong with a body, as far as it shows without expanding it."""
    try:
        used = undeclared(snippet.body)
    except TemplateProblem as exc:
        return [f"Its body cannot be read. {exc.message}"]
    names = {param.name for param in snippet.params}
    return [
        f"Its body uses '{name}', which is not among its params." for name in sorted(used - names)
    ]


def unused_params(snippet: Snippet) -> list[str]:
    """Return the parameters that a valid body never uses, most often because it writes them without
    `{{ }}`."""
    used = undeclared(snippet.body)
    return [param.name for param in snippet.params if param.name not in used]


def example_of(snippet: Snippet) -> tuple[str, str]:
    """Return a call that works (`$name topic=Python`), without defaults, and what it expands to."""
    args: dict[str, Any] = {}
    for param in snippet.params:
        if param.example is not MISSING:
            args[param.name] = param.example
        elif param.is_required:
            args[param.name] = Bare(_SAMPLES.get(param.type, param.name))
    line = " ".join(
        [f"${snippet.name}", *(f"{name}={_typed(value)}" for name, value in args.items())]
    )
    return line, expand(snippet, args)


def _read_param(snippet: str, name: str, data: object) -> SnippetParam:
    subject = f"The snippet '{snippet}', parameter '{name}'"
    if not name.isidentifier() or keyword.iskeyword(name):
        raise InvalidConfig(f"{subject}: not a name.", hint="Use letters, digits and '_'.")
    fields = data if isinstance(data, Mapping) else {} if data is None else {"default": data}
    declared = str(fields.get("type") or "")
    if declared and declared not in _TYPES:
        near = did_you_mean(declared, _TYPES)
        valid = ", ".join((*_JSON_TYPES, "any"))
        raise InvalidConfig(
            f"{subject}: no type '{declared}'. {near}".strip(), hint=f"Valid: {valid}."
        )
    default = fields.get("default", MISSING)
    own = next(
        (name for python_type, name in _DEFAULT_TYPES if isinstance(default, python_type)), "any"
    )
    kind = _TYPES[declared or own]
    param = SnippetParam(
        name,
        kind,
        declared,
        str(fields.get("description") or "").strip(),
        default,
        fields.get("example", MISSING),
    )
    for label, value in (("default", param.default), ("example", param.example)):
        if value is not MISSING and value is not None and _convert(param, value) is MISSING:
            text = values.safe_repr(value, 60)
            raise InvalidConfig(f"{subject}: its {label} {text} is not of type '{kind}'.")
    return param


def _usage(snippet: Snippet) -> str:
    """How to call the snippet. Describes up to three parameters, to keep the error short."""
    lines = [f"Usage: {snippet.usage}"]
    for param in snippet.params if len(snippet.params) <= 3 else ():
        kind = f" ({param.type})" if param.type != "any" else ""
        lines.append(
            f"{param.name}{kind}: {param.description}"
            if param.description
            else f"{param.name}{kind}"
        )
    return "\n".join(lines)


def _convert(param: SnippetParam, argument: object) -> Any:
    """Convert an argument to the parameter's type; MISSING if that is not possible."""
    kind = param.type
    if kind == "any":
        return _literal(argument) if isinstance(argument, Bare) else argument
    if kind == "name":
        parts = argument.split(".") if isinstance(argument, str) else [""]
        is_name = all(part.isidentifier() and not keyword.iskeyword(part) for part in parts)
        return Name(argument) if is_name else MISSING
    if kind == "text":
        return (
            str(argument)
            if isinstance(argument, str | int | float) and not isinstance(argument, bool)
            else MISSING
        )
    if kind == "bool":
        return (
            argument
            if isinstance(argument, bool)
            else _YES_NO.get(str(argument).strip().lower(), MISSING)
        )
    if kind in ("int", "float"):
        number = argument
        if isinstance(number, str):
            text = number.strip()
            number = _read_number(text) if _NUMBER.fullmatch(text) else MISSING
        if isinstance(number, bool):
            return MISSING
        if isinstance(number, float) and kind == "int":
            return int(number) if number.is_integer() else MISSING
        return number if isinstance(number, int | float) else MISSING
    container = list if kind == "list" else dict
    value = _read_literal(argument) if isinstance(argument, str) else argument
    value = list(value) if isinstance(value, tuple) else value
    return value if isinstance(value, container) else MISSING


def _literal(word: str) -> Any:
    """The value of a bare word without a declared type: inside quotes its text as typed, in code
    its value."""
    if word in _WORDS:
        typed = Typed(word)
        typed.value = _WORDS[word]
        return typed
    number = _read_number(word) if _SURE_NUMBER.fullmatch(word) else MISSING
    value = (
        number
        if number is not MISSING
        else _read_literal(word)
        if word[:1] in ("[", "{", "(")
        else MISSING
    )
    like = _AS_TYPED.get(type(value))
    if like is None:
        return str(word)
    same = like(value)
    same.typed = str(word)
    return same


def _read_number(text: str) -> Any:
    for make in (int, float):
        try:
            number = make(text)
        except ValueError:
            continue
        return number if -1e308 < number < 1e308 else MISSING
    return MISSING


def _read_literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return MISSING


def _typed(value: object) -> str:
    """Return a value as a user would type it after `=`."""
    if isinstance(value, str):
        needs_quotes = not _PLAIN_WORD.fullmatch(value) or (
            not isinstance(value, Bare) and _literal(value) != value
        )
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"' if needs_quotes else str(value)
    return json.dumps(values.to_json(value), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """All aliases (name -> target as written) and snippets. `faults` are the definitions that could
    not be read."""

    aliases: Mapping[str, str] = field(default_factory=dict)
    snippets: Mapping[str, Snippet] = field(default_factory=dict)
    faults: tuple[Problem, ...] = ()

    def find(self, name: str) -> Snippet | str | None:
        """Return what `$name` stands for: a snippet, a tool's name, or None. Raises UsageProblem
        for a cycle."""
        if name in self.snippets:
            return self.snippets[name]
        return resolve(name, self.aliases) if name in self.aliases else None

    def with_snippet(self, snippet: Snippet) -> Shortcuts:
        """Return a copy with this snippet added or replaced."""
        return replace(self, snippets={**self.snippets, snippet.name: snippet})

    def problems(
        self, is_tool: Callable[[str], bool], tools: Collection[str] = ()
    ) -> list[Problem]:
        """Return what is wrong with aliases and bodies. `tools` are the names to suggest for an
        unknown target."""
        problems = list(self.faults)
        for name in self.aliases:
            if name in self.snippets:
                problems.append(
                    Problem(
                        f"alias '{name}'", "A snippet has this name too, and wins.", "Rename one."
                    )
                )
            try:
                target = resolve(name, self.aliases)
            except UsageProblem as exc:
                problems.append(Problem(f"alias '{name}'", exc.message, exc.hint))
                continue
            if not is_tool(target):
                near = did_you_mean(target, tools) or "See all with: ot.tools()"
                problems.append(Problem(f"alias '{name}'", f"There is no tool '{target}'.", near))
        for snippet in self.snippets.values():
            where = snippet.where or f"snippet '{snippet.name}'"
            problems += [
                Problem(where, f"Snippet '{snippet.name}': {fault}") for fault in faults_of(snippet)
            ]
        return problems


def read_shortcuts(aliases: Mapping[str, str], snippets: Mapping[str, Any]) -> Shortcuts:
    """Read aliases and snippet definitions; a bad definition becomes a fault."""
    good: dict[str, Snippet] = {}
    faults: list[Problem] = []
    for name, definition in snippets.items():
        try:
            good[name] = read_snippet(name, definition.data, definition.where)
        except OneToolError as exc:
            faults.append(Problem(definition.where, exc.message, exc.hint))
    return Shortcuts(dict(aliases), good, tuple(faults))


def resolve(name: str, aliases: Mapping[str, str]) -> str:
    """Follow an alias to the name of a tool. Raises UsageProblem for a cycle."""
    seen = [name]
    while True:
        target = aliases[seen[-1]].removeprefix("$")
        if target in seen:
            chain = " -> ".join([*seen, target])
            raise UsageProblem(
                f"The alias '{name}' leads back to itself: {chain}.", hint="Point it at a tool."
            )
        if target not in aliases:
            return target
        seen.append(target)
