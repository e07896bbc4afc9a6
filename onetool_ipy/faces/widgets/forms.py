"""A form's arguments as values, and a call as code: `%tool`, Python, curl.

In a form any text of the shape `=name` stands for a notebook variable (also `=df.column` or
`=rows[0]`); `==text` is the text `=text`. A value that a browser cannot hold exactly, such as a
large integer, arrives as text and is read by the schema. Nothing that a form contains is evaluated.
"""

from __future__ import annotations

import ast
import json
import keyword
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import ToolSpec, format_call
from onetool_ipy.proxies import PackProxy

_HIDDEN = "***"


class Variable:
    """A notebook variable in a form; its repr is its expression in code."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def with_variables(args: object, parameters: Mapping[str, Any] | None = None) -> Any:
    """The arguments with every `=name` as a Variable and every `==text` as text."""
    if isinstance(args, str):
        stripped = args.strip()
        if stripped.startswith("=="):
            return args.replace("==", "=", 1)
        if stripped.startswith("=") and _is_path(stripped[1:]):
            return Variable(stripped[1:].strip())
        if (parameters or {}).get("type") in ("integer", "number"):
            try:
                return json.loads(stripped)
            except ValueError:
                return args
        return args
    if isinstance(args, list):
        items = (parameters or {}).get("items")
        return [with_variables(value, items if isinstance(items, dict) else None) for value in args]
    if isinstance(args, dict):
        properties = (parameters or {}).get("properties")
        inner = properties if isinstance(properties, dict) else {}
        return {key: with_variables(value, inner.get(key)) for key, value in args.items()}
    return args


def resolved(args: object, namespace: Mapping[str, Any]) -> Any:
    """The arguments with every Variable replaced by its object. Raises UsageProblem for an unknown
    one."""
    if isinstance(args, Variable):
        value: Any = namespace
        for step in _parts(args.text):
            try:
                value = step(value)
            except Exception as exc:  # the user's object may raise anything
                raise UsageProblem(
                    f"The notebook has no '{args.text}'.", hint="Run the cell that makes it."
                ) from exc
        return value
    if isinstance(args, list):
        return [resolved(value, namespace) for value in args]
    if isinstance(args, dict):
        return {key: resolved(value, namespace) for key, value in args.items()}
    return args


def as_code(spec: ToolSpec, args: dict[str, Any], namespace: Mapping[str, Any]) -> Json:
    """The call as a `%tool` line, and as Python that runs in this notebook."""
    return {"tool": _tool_line(spec.name, args), "python": _python(spec, args, namespace)}


def as_curl(requests: Sequence[Mapping[str, Any]], args: object) -> str:
    """The requests of an HTTP tool as curl commands; each secret is a variable of the shell.

    `args` are the arguments, masked. Stars in them cannot be told from those of a secret, which
    would be sent in their place: then all stars stay stars.
    """
    is_clear = _HIDDEN not in json.dumps(args)
    return "\n".join(
        _curl(request, list(request.get("secrets") or ()), is_clear) for request in requests
    )


def _curl(request: Mapping[str, Any], secrets: list[str], is_clear: bool) -> str:
    """One command. A preview masks all secrets alike, so a secret has its name only if it is the
    only one."""
    name = "" if not secrets or not is_clear else secrets[0] if len(secrets) == 1 else "SECRET"
    method = [] if request["method"] == "GET" else ["-X", request["method"]]
    words = ["curl", *method, _quoted(str(request["url"]), name)]
    for header, value in request["headers"].items():
        words += ["-H", _quoted(f"{header}: {value}", name)]
    if request.get("body"):
        words += ["--data-raw", _quoted(str(request["body"]), name)]
    is_named = not secrets or name in secrets
    notes = [] if is_named else [f"# {name or _HIDDEN} stands for: {', '.join(secrets)}"]
    return "\n".join([*notes, " ".join(words)])


def _quoted(text: str, secret: str) -> str:
    """A quoted word of a shell line, with a variable in place of each masked part."""
    if not secret:
        return shlex.quote(text)
    parts = [shlex.quote(part) if part else "" for part in text.split(_HIDDEN)]
    return f'"${secret}"'.join(parts) or "''"


def _is_path(text: str) -> bool:
    try:
        _parts(text)
    except UsageProblem:
        return False
    return True


def _parts(text: str) -> list[Callable[[Any], object]]:
    """The steps from the namespace to the object: names, attributes and constant subscripts
    only."""
    problem = UsageProblem(
        f"'={text[:40]}' is not a variable.", hint="Write =name, =name.attribute or =name[0]."
    )
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise problem from None
    steps: list[Callable[[Any], Any]] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.append(lambda value, name=node.attr: getattr(value, name))  # type: ignore[misc]  # a default argument
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            steps.append(lambda value, key=node.slice.value: value[key])  # type: ignore[misc]  # a default argument
        else:
            raise problem
        node = node.value
    steps.append(lambda namespace, name=node.id: namespace[name])  # type: ignore[misc]  # a default argument
    return steps[::-1]


def _tool_line(name: str, args: Json) -> str:
    nested = [
        key
        for key, value in args.items()
        if _has_variable(value) and not isinstance(value, Variable)
    ]
    if nested or any(isinstance(v, Variable) and not key.isidentifier() for key, v in args.items()):
        return (
            f"%tool {name}({_arguments(args)})"
            if all(map(_is_name, args))
            else f"%tool {name} {args!r}"
        )
    plain = {key: value for key, value in args.items() if not isinstance(value, Variable)}
    variables = [
        f"{key}={{{value!r}}}" for key, value in args.items() if isinstance(value, Variable)
    ]
    return " ".join([format_call(name, plain), *variables])


def _python(spec: ToolSpec, args: Json, namespace: Mapping[str, object]) -> str:
    """`pack.tool(...)` if the pack is a name in the notebook and all names are valid in Python;
    else `ot.run(...)`."""
    pack, tool = spec.pack.replace("-", "_"), spec.short_name.replace("-", "_")
    is_here = isinstance(namespace.get(pack), PackProxy) or pack == "ot"
    spelled = {name: label for label, name in spec.spelled.items()}
    arguments = {spelled.get(key, key): value for key, value in args.items()}
    if is_here and _is_name(tool) and all(map(_is_name, arguments)):
        return f"{pack}.{tool}({_arguments(arguments)})"
    if all(map(_is_name, args)):
        return f"ot.run({spec.name!r}{', ' if args else ''}{_arguments(args)})"
    return f"ot.run({spec.name!r}, **{args!r})"


def _arguments(args: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in args.items())


def _has_variable(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_variable, value))
    if isinstance(value, dict):
        return any(map(_has_variable, value.values()))
    return isinstance(value, Variable)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)
