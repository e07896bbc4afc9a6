"""Read a pack file as text: its pack, its tools, their docs and arguments, without running a line of it.

What the text alone cannot tell (a type defined in the file, a function made by another) is left open: such a tool is
`exact=False` until the file is imported at its first use. An Outline is plain JSON, so that it can be cached.
"""

from __future__ import annotations

import ast
import datetime
import inspect
import pathlib
import typing
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from onetool_ipy.core import describe
from onetool_ipy.core.errors import InvalidTool
from onetool_ipy.core.model import ToolSpec

__all__ = ["Outline", "ToolOutline", "read_outline"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_VOCABULARY: dict[str, Any] = {
    **{name: getattr(typing, name) for name in ("Any", "Literal", "Optional", "Union", "List", "Dict")},
    "typing": typing,
    "Path": pathlib.Path,
    "pathlib": pathlib,
    "datetime": datetime.datetime,
    "date": datetime.date,
}
_BUILTIN_TYPES = {t.__name__: t for t in (str, int, float, bool, list, dict, tuple, set, bytes, object)}
_DECORATOR_FIELDS = ("name", "pack", "description", "tags", "read_only", "timeout", "examples")


@dataclass(frozen=True, slots=True)
class ToolOutline:
    """One tool as far as its text tells."""

    function: str
    name: str
    description: str
    documented: bool = True
    parameters: dict[str, Any] = field(default_factory=dict)
    returns: str = ""
    example: str = ""
    tags: tuple[str, ...] = ()
    read_only: bool = False
    timeout_s: float | None = None
    is_async: bool = False
    exact: bool = True
    line: int = 1


@dataclass(frozen=True, slots=True)
class Outline:
    """One pack file as far as its text tells; `error` says why it has no tools."""

    pack: str
    tools: tuple[ToolOutline, ...] = ()
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outline:
        tools = tuple(ToolOutline(**{**tool, "tags": tuple(tool["tags"])}) for tool in data["tools"])
        return cls(data["pack"], tools, data["error"])


def read_outline(text: str, *, pack: str, filename: str = "<pack>") -> Outline:
    """Outline a pack file's text; `pack` is its name where the file does not say one."""
    try:
        tree = ast.parse(text, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        line = getattr(exc, "lineno", None)
        place = f"line {line}: " if line else ""
        return Outline(pack, error=f"{place}{type(exc).__name__}: {getattr(exc, 'msg', None) or exc}")
    constants = dict(_constants(tree))
    said = constants.get("pack")
    if "pack" in constants and (not isinstance(said, str) or not said.isidentifier()):
        return Outline(pack, error=f'pack = {said!r} is not a name; write e.g. pack = "brave"')
    name = said if isinstance(said, str) else pack
    return Outline(name, tuple(_tools(tree, name, constants.get("__all__"))))


def _constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            target, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            target, value = node.target.id, node.value
        else:
            continue
        if target in ("pack", "__all__"):
            try:
                yield target, ast.literal_eval(value)
            except (ValueError, SyntaxError):
                yield target, None


def _tools(tree: ast.Module, pack: str, exported: Any) -> Iterator[ToolOutline]:
    functions: dict[str, _Function] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions[node.name] = node
    if isinstance(exported, (list, tuple)):
        wanted = [name for name in exported if isinstance(name, str)]
    else:
        wanted = [name for name in functions if not name.startswith("_")]
    for name in wanted:
        node = functions.get(name)
        if node is None:
            yield ToolOutline(name, f"{pack}.{name}", name, parameters=_OPEN, exact=False)
        else:
            yield _outline(node, pack)


_OPEN: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


def _outline(node: _Function, pack: str) -> ToolOutline:
    words, plain = _decorations(node)
    name = str(words.get("name") or node.name)
    full = name if "." in name else f"{words.get('pack') or pack}.{name}"
    signature, hints, exact = _signature(node)
    doc = ast.get_docstring(node)
    try:
        spec = describe.from_signature(signature, hints, doc, name=full, run=_never)
    except InvalidTool:
        spec = ToolSpec(name=full, description=node.name, parameters=_OPEN, run=_never)
        exact = False
    return ToolOutline(
        function=node.name,
        name=full,
        description=str(words.get("description") or spec.description),
        documented=bool(doc or words.get("description")),
        parameters=spec.parameters,
        returns=spec.returns,
        example=_example(words.get("examples")) or spec.example,
        tags=tuple(str(tag) for tag in words.get("tags") or ()),
        read_only=bool(words.get("read_only")),
        timeout_s=words.get("timeout"),
        is_async=isinstance(node, ast.AsyncFunctionDef),
        exact=exact and plain and not spec.converters,
        line=node.lineno,
    )


def _never(args: dict[str, Any]) -> Any:
    raise RuntimeError("an outline cannot run")


def _example(examples: Any) -> str:
    return "\n".join(str(e) for e in examples) if isinstance(examples, (list, tuple)) else str(examples or "")


def _decorations(node: _Function) -> tuple[dict[str, Any], bool]:
    """What `@tool(...)` says in literals, and whether the decorators leave the function's arguments as they are."""
    words: dict[str, Any] = {}
    plain = True
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        label = ast.unparse(call.func if call else decorator).rpartition(".")[2]
        if label != "tool":
            plain = plain and label in ("requires_cli", "requires_lib")
            continue
        if call is None:
            continue
        if call.args and isinstance(call.args[0], ast.Constant):
            words["name"] = call.args[0].value
        for item in call.keywords:
            try:
                value = ast.literal_eval(item.value)
            except (ValueError, SyntaxError):
                plain = plain and item.arg not in _DECORATOR_FIELDS
            else:
                words[item.arg or ""] = value
    return words, plain


def _signature(node: _Function) -> tuple[inspect.Signature, dict[str, Any], bool]:
    spec = node.args
    exact = True
    hints: dict[str, Any] = {}
    found: list[inspect.Parameter] = []

    def add(arg: ast.arg, kind: Any, default: ast.expr | None = None) -> None:
        nonlocal exact
        hint, known = _annotation(arg.annotation)
        value, literal = _default(default)
        exact = exact and known and literal
        hints[arg.arg] = hint
        found.append(inspect.Parameter(arg.arg, kind, default=value))

    positional = [*spec.posonlyargs, *spec.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults)) + [*spec.defaults]
    for i, (arg, default) in enumerate(zip(positional, defaults, strict=True)):
        first = i < len(spec.posonlyargs)
        add(arg, inspect.Parameter.POSITIONAL_ONLY if first else inspect.Parameter.POSITIONAL_OR_KEYWORD, default)
    if spec.vararg:
        add(spec.vararg, inspect.Parameter.VAR_POSITIONAL)
    for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        add(arg, inspect.Parameter.KEYWORD_ONLY, default)
    if spec.kwarg:
        add(spec.kwarg, inspect.Parameter.VAR_KEYWORD)
    if node.returns is not None:
        hints["return"] = ast.unparse(node.returns)
    return inspect.Signature(found), hints, exact


def _annotation(node: ast.expr | None) -> tuple[Any, bool]:
    """The type an annotation names in the common vocabulary; (Any, False) where it needs the file itself."""
    if node is None:
        return Any, True
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return Any, False
    allowed = (
        ast.Name,
        ast.Attribute,
        ast.Subscript,
        ast.BinOp,
        ast.BitOr,
        ast.Constant,
        ast.Tuple,
        ast.Load,
        ast.List,
    )
    if not all(isinstance(part, allowed) for part in ast.walk(node)):
        return Any, False
    space = {"__builtins__": {}, **_BUILTIN_TYPES, **_VOCABULARY}
    try:
        found = eval(compile(ast.Expression(node), "<annotation>", "eval"), space)  # noqa: S307 (names and types only)
    except Exception:  # an unknown name, an odd subscript: the file itself will tell
        return Any, False
    return found, True


def _default(node: ast.expr | None) -> tuple[Any, bool]:
    if node is None:
        return inspect.Parameter.empty, True
    try:
        return ast.literal_eval(node), True
    except (ValueError, SyntaxError, TypeError):
        return ..., False
