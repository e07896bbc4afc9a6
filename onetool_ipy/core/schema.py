"""JSON Schema of a tool's arguments: check them, and say them in words.

Owns the compiled check (jsonschema-rs: offline, no pattern can hang) and the reading of any schema as parameters,
signature text and argument lines. Does not make schemas from Python: that is `describe`.
Invariant: reading a schema never fails, however odd it is; only compiling a bad one raises InvalidTool.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from onetool_ipy.core import match, values
from onetool_ipy.core.errors import InvalidArgs, InvalidTool

__all__ = [
    "Checker",
    "Converter",
    "Param",
    "argument_lines",
    "identifier",
    "params",
    "resolve",
    "signature_text",
    "type_text",
]

_PYTHON_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "list",
    "object": "dict",
}
_MAX_SHOWN = 120
_MAX_TYPE_DEPTH = 4


class Converter(Protocol):
    """Turns one argument between its JSON form and the Python type the function asks for."""

    def to_python(self, value: Any) -> Any: ...

    def to_json(self, value: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Param:
    """One argument as a schema describes it. `schema` is already resolved."""

    name: str
    schema: dict[str, Any]
    required: bool
    description: str

    @property
    def has_default(self) -> bool:
        return "default" in self.schema

    @property
    def type(self) -> str:
        return type_text(self.schema, self.schema)


class Checker:
    """The compiled check of one tool's arguments.

    `check` gives a copy that the tool may change, converted to the types its function asks for. Values that JSON cannot
    hold are judged by their JSON form and handed on as they are.
    """

    __slots__ = ("_convert", "_ints", "_parameters", "_valid", "_validator")

    def __init__(self, parameters: Mapping[str, Any], converters: Mapping[str, Converter] | None = None) -> None:
        self._parameters = parameters
        self._validator = _compile(parameters)
        self._valid: Callable[[Any], bool] = self._validator.is_valid
        self._convert = tuple((converters or {}).items())
        self._ints = tuple(p.name for p in params(parameters) if p.schema.get("type") == "integer")

    def check(self, args: Mapping[str, Any], tool: str) -> dict[str, Any]:
        """Give the arguments ready for the tool, or raise InvalidArgs with every violation."""
        ready, plain = values.plain_copy(args)
        try:
            good = plain and self._valid(ready)
        except ValueError:  # a value that JSON cannot hold
            good = False
        if not good:
            self._judge(ready, tool)
        for name in self._ints:
            if type(ready.get(name)) is float:
                ready[name] = int(ready[name])
        if self._convert:
            self._convert_all(ready, tool)
        return ready

    def _judge(self, args: dict[str, Any], tool: str) -> None:
        converters = dict(self._convert)
        view: dict[str, Any] = {}
        for name, value in args.items():
            key = name if isinstance(name, str) else str(name)
            view[key] = _view(value, converters.get(key))
        found = [_violation(error, self._parameters) for error in self._validator.iter_errors(view)]
        if found:
            raise _invalid(tool, found, self._parameters)

    def _convert_all(self, args: dict[str, Any], tool: str) -> None:
        found = []
        for name, converter in self._convert:
            if name not in args:
                continue
            try:
                args[name] = converter.to_python(args[name])
            except Exception as exc:  # the conversion runs foreign code (pydantic models, __init__ of a dataclass)
                found.append({"pointer": _pointer([name]), "message": f"argument '{name}': {_first_line(exc)}"})
        if found:
            raise _invalid(tool, found, self._parameters)


def params(parameters: Mapping[str, Any]) -> list[Param]:
    """The arguments that a schema names, required ones first, else in its order."""
    root = parameters if isinstance(parameters, Mapping) else {}
    found: dict[str, Any] = {}
    required: set[str] = set()
    _collect(root, root, found, required, must=True, depth=0)
    listed = [_param(name, sub, root, name in required) for name, sub in found.items()]
    listed += [_param(name, {}, root, True) for name in required if name not in found]
    return sorted(listed, key=lambda p: not p.required)


def resolve(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Follow local `$ref`s; siblings of a `$ref` win; what cannot be followed is an empty schema."""
    seen: set[str] = set()
    merged: dict[str, Any] = {}
    while isinstance(schema, Mapping):
        merged = {**schema, **merged}
        ref = merged.pop("$ref", None)
        if not isinstance(ref, str) or ref in seen or not ref.startswith("#"):
            return merged
        seen.add(ref)
        schema = _follow(ref, root)
    return merged


def type_text(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """The Python type a schema stands for, as text that Python can parse."""
    schema = resolve(schema, root)
    if depth > _MAX_TYPE_DEPTH:
        return "Any"
    options = schema.get("enum") if isinstance(schema.get("enum"), list) else None
    if "const" in schema:
        options = [schema["const"]]
    if options and all(isinstance(o, (str, int, bool)) or o is None for o in options):
        return "Literal[" + ", ".join(repr(o) for o in options) + "]"
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return _union([type_text(option, root, depth + 1) for option in schema[key]])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([type_text({**schema, "type": k}, root, depth + 1) for k in kind])
    if kind == "array":
        return f"list[{type_text(schema['items'], root, depth + 1)}]" if "items" in schema else "list"
    if not isinstance(kind, str):
        return "dict" if "properties" in schema else "Any"
    return _PYTHON_TYPES.get(kind, "Any")


def signature_text(name: str, parameters: Mapping[str, Any]) -> str:
    """`pack.tool(query: str, count: int = 5)`: required without defaults, optional with theirs or `'...'`."""
    parts = []
    taken: set[str] = set()
    for param in params(parameters):
        label = identifier(param.name, taken)
        taken.add(label)
        text = f"{label}: {type_text(param.schema, parameters)}"
        parts.append(text if param.required else f"{text} = {_default_text(param)}")
    if not parts and isinstance(parameters, Mapping) and parameters.get("additionalProperties"):
        parts.append("**arguments")
    return f"{name}({', '.join(parts)})"


def argument_lines(parameters: Mapping[str, Any]) -> list[str]:
    """`name: description` for each argument; its type stands in for a missing description."""
    return [f"{p.name}: {p.description or type_text(p.schema, parameters)}" for p in params(parameters)]


def identifier(name: str, taken: set[str] | frozenset[str] = frozenset()) -> str:
    """A Python identifier for any name, different from those taken."""
    text = re.sub(r"\W", "_", name) or "_"
    if not text.isidentifier():
        text = "_" + text
    if not text.isidentifier():
        text = re.sub(r"[^A-Za-z0-9_]", "_", text)
    if keyword.iskeyword(text):
        text += "_"
    plain, count = text, 2
    while text in taken:
        text, count = f"{plain}_{count}", count + 1
    return text


def _compile(parameters: Mapping[str, Any]) -> Any:
    import jsonschema_rs

    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000)
    try:
        return jsonschema_rs.validator_for(dict(parameters), pattern_options=options, offline=True)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as exc:
        path = getattr(exc, "instance_path", None)
        where = f" at '{_pointer(path)}'" if path else ""
        raise InvalidTool(f"Not a JSON Schema{where}: {_first_line(exc)}") from exc


def _view(value: Any, converter: Converter | None) -> Any:
    """The JSON form by which an odd value is judged; a number that is no number counts as one."""
    if converter is not None:
        try:
            return converter.to_json(value)
        except Exception:  # not of the type asked for: judged as what it is
            pass
    if isinstance(value, float) and not math.isfinite(value):
        return 0.0
    return values.to_json(value)


def _violation(error: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    path = list(error.instance_path)
    kind = error.kind.name
    subject = "".join(f"[{p}]" if isinstance(p, int) else ("." if i else "") + str(p) for i, p in enumerate(path))
    if kind == "required" and not path:
        text = f"missing argument '{error.kind.as_dict().get('property')}'"
    elif kind == "additionalProperties" and not path:
        text = "; ".join(_unknown(name, parameters) for name in error.kind.as_dict()["unexpected"])
    elif kind in ("anyOf", "oneOf"):
        wanted = type_text(_at(path, parameters), parameters)
        text = f"argument '{subject}': {_cut(values.safe_repr(error.instance))} is not {wanted}"
    else:
        text = f"argument '{subject}': {_cut(error.message)}" if subject else _cut(error.message)
    return {"pointer": _pointer(path), "message": text, "keyword": kind}


def _unknown(name: str, parameters: Mapping[str, Any]) -> str:
    near = match.suggest(name, [p.name for p in params(parameters)], limit=1)
    return f"unknown argument '{_cut(name)}'" + (f", did you mean '{near[0]}'?" if near else "")


def _invalid(tool: str, found: list[dict[str, Any]], parameters: Mapping[str, Any]) -> InvalidArgs:
    shown = "; ".join(str(f["message"]) for f in found[:3])
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    return InvalidArgs(f"'{tool}': {shown}{more}", hint=f"Usage: {signature_text(tool, parameters)}", details=found)


def _collect(
    node: Any, root: Mapping[str, Any], found: dict[str, Any], required: set[str], *, must: bool, depth: int
) -> None:
    schema = resolve(node, root)
    if depth > _MAX_TYPE_DEPTH:
        return
    listed = schema.get("properties")
    if isinstance(listed, Mapping):
        for name, sub in listed.items():
            found.setdefault(str(name), sub)
    names = schema.get("required")
    if must and isinstance(names, list):
        required.update(n for n in names if isinstance(n, str))
    for key in ("allOf", "anyOf", "oneOf"):
        for option in schema.get(key) or [] if isinstance(schema.get(key), list) else []:
            _collect(option, root, found, required, must=must and key == "allOf", depth=depth + 1)


def _param(name: str, sub: Any, root: Mapping[str, Any], required: bool) -> Param:
    schema = resolve(sub, root)
    text = schema.get("description") or schema.get("title") or ""
    return Param(name, schema, required, " ".join(str(text).split()))


def _follow(ref: str, root: Mapping[str, Any]) -> Any:
    node: Any = root
    for part in ref[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            return {}
    return node


def _at(path: list[Any], root: Mapping[str, Any]) -> dict[str, Any]:
    node = resolve(root, root)
    for part in path:
        if isinstance(part, int):
            node = resolve(node.get("items", {}), root)
        else:
            node = resolve((node.get("properties") or {}).get(part, {}), root)
    return node


def _union(options: list[str]) -> str:
    flat = [part for option in options for part in _split_union(option)]
    unique = list(dict.fromkeys(flat))
    if not unique or "Any" in unique:
        return "Any"
    if "None" in unique:
        unique.remove("None")
        unique.append("None")
    return " | ".join(unique)


def _split_union(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for i, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "|" and depth == 0 and text[i - 1 : i + 2] == " | ":
            yield text[start : i - 1]
            start = i + 2
    yield text[start:]


def _default_text(param: Param) -> str:
    if not param.has_default:
        return "'...'"
    text = values.safe_repr(param.schema["default"])
    return text if len(text) <= _MAX_SHOWN and not text.startswith("<") else "'...'"


def _pointer(path: Any) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _first_line(exc: BaseException) -> str:
    details = getattr(exc, "errors", None)
    if callable(details):  # pydantic says it best in its own list
        listed = details()
        if listed:
            return "; ".join(_cut(str(item.get("msg", ""))) for item in listed[:3])
    text = str(exc).strip() or type(exc).__name__
    return _cut(text.splitlines()[0])


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
