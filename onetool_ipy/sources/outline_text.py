"""Read a pack file as text: its pack, its tools, their docs and arguments, without running a line of it.

What the text alone cannot tell (a type defined in the file, a function made by another) is left open: such a tool is
`exact=False` until the file is imported at its first use.
"""

from __future__ import annotations

import ast
import datetime
import inspect
import pathlib
import typing
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import decode_source
from typing import Any

from onetool_ipy.core import describe, names
from onetool_ipy.core.checker import Converter
from onetool_ipy.core.errors import InvalidTool
from onetool_ipy.core.model import Dep
from onetool_ipy.sdk.declare import merged, read_declared, read_decorated
from onetool_ipy.sources.outline import Fault, Outline, ToolOutline

__all__ = ["read_outline"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_TYPING = ("Any", "Literal", "Optional", "Union", "List", "Dict")
_VOCABULARY: dict[str, Any] = {
    **{t.__name__: t for t in (str, int, float, bool, list, dict, tuple, set, bytes, object)},
    **{name: getattr(typing, name) for name in _TYPING},
    "typing": typing,
    "Path": pathlib.Path,
    "pathlib": pathlib,
    "datetime": datetime.datetime,
    "date": datetime.date,
}
_SKETCHES: dict[Any, dict[str, Any]] = {
    pathlib.Path: {"type": "string", "format": "path"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
}
_TYPE_NODES = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.BitOr),
    *(ast.Constant, ast.Tuple, ast.Load, ast.List),
)
_WORDS = ("name", "pack", "description", "tags", "read_only", "timeout", "examples")
_HARMLESS = ("requires_cli", "requires_lib")


def read_outline(text: str | bytes, *, pack: str, filename: str = "<pack>") -> Outline:
    """Outline a pack file's text; `pack` is its name where the file does not say one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the author's text; said when it is imported
            tree = ast.parse(decode_source(text) if isinstance(text, bytes) else text, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        line = getattr(exc, "lineno", None)
        place = f"line {line}: " if line else ""
        return Outline(pack, error=f"{place}{type(exc).__name__}: {getattr(exc, 'msg', None) or exc}")
    return _File(tree, pack).outline()


class _File:
    """One parsed file on its way to an Outline."""

    def __init__(self, tree: ast.Module, pack: str) -> None:
        self._pack = pack
        self._faults: list[Fault] = []
        self._deps: tuple[Dep, ...] = ()
        self._statements = list(_top_level(tree.body))
        self._functions = {node.name: node for node in self._statements if isinstance(node, _Function)}

    def outline(self) -> Outline:
        said = self._assigned("pack")
        if said is not None:
            name = _literal(said.value)
            if not isinstance(name, str) or not name.isidentifier():
                shown = ast.unparse(said.value)[:40] if said.value is not None else ""
                return Outline(
                    self._pack, error=f'line {said.lineno}: pack = {shown} is not a name; write e.g. pack = "brave"'
                )
            self._pack = name
        self._read_requires()
        tools: dict[str, ToolOutline] = {}
        for tool in self._tools():
            if tool.name in tools:
                self._faults.append(Fault(tool.line, f"'{tool.name}' is defined twice; the first one counts."))
            tools.setdefault(tool.name, tool)
        return Outline(self._pack, tuple(tools.values()), tuple(self._faults))

    def _tools(self) -> Iterator[ToolOutline]:
        for name in self._wanted():
            node = self._functions.get(name)
            if node is None:
                yield ToolOutline(name, f"{self._pack}.{name}", name, exact=False)
                continue
            try:
                yield _outline(node, self._pack)._replace(deps=merged(self._deps, read_decorated(node)))
            except InvalidTool as exc:
                self._faults.append(Fault(node.lineno, f"'{name}' is no tool: {exc.message}", exc.hint))

    def _read_requires(self) -> None:
        """What the whole pack needs, as `requires = {...}` says it."""
        said = self._assigned("requires")
        if said is None:
            return
        try:
            self._deps = read_declared(_literal(said.value))
        except InvalidTool as exc:
            self._faults.append(Fault(said.lineno, exc.message, exc.hint))

    def _wanted(self) -> list[str]:
        """The names of `__all__` that can be functions; without it, the public functions."""
        public = [name for name in self._functions if not name.startswith("_")]
        said = self._assigned("__all__")
        if said is None:
            return public
        exported = _literal(said.value)
        if not isinstance(exported, (list, tuple)) or not all(isinstance(name, str) for name in exported):
            self._faults.append(
                Fault(said.lineno, "__all__ is not a plain list of names.", "Every public function is offered.")
            )
            return public
        more = [n for node in self._statements if isinstance(node, ast.AugAssign) for n in _added(node)]
        bound = self._bound()
        wanted = list(dict.fromkeys([*exported, *more]))
        for name in wanted:
            if name not in bound and "*" not in bound:
                self._faults.append(Fault(said.lineno, f"__all__ names '{name}', which the file does not define."))
        return [name for name in wanted if bound.get(name, "*" in bound)]

    def _bound(self) -> dict[str, bool]:
        """Every name that the file binds -> whether it may be a function."""
        bound: dict[str, bool] = {}
        for node in self._statements:
            if isinstance(node, _Function):
                bound[node.name] = True
            elif isinstance(node, ast.ClassDef):
                bound[node.name] = False
            elif isinstance(node, ast.Import):
                bound.update({(a.asname or a.name).partition(".")[0]: False for a in node.names})
            elif isinstance(node, ast.ImportFrom):
                bound.update({a.asname or a.name: True for a in node.names})
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                made = isinstance(node.value, (ast.Call, ast.Name, ast.Attribute, ast.Lambda))
                bound.update({t.id: made for target in targets for t in ast.walk(target) if isinstance(t, ast.Name)})
        return bound

    def _assigned(self, name: str) -> ast.Assign | ast.AnnAssign | None:
        found: ast.Assign | ast.AnnAssign | None = None
        for node in self._statements:
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                found = node
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                found = node if node.value is not None else found
        return found


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those inside `if`, `try` and `with`."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.With)):
                yield from _top_level(getattr(node, field, []))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from _top_level(handler.body)


def _added(node: ast.AugAssign) -> list[str]:
    if not isinstance(node.target, ast.Name) or node.target.id != "__all__":
        return []
    found = _literal(node.value)
    return [name for name in found if isinstance(name, str)] if isinstance(found, (list, tuple)) else []


def _outline(node: _Function, pack: str) -> ToolOutline:
    words, plain = _decorations(node)
    full = names.canonical(words.get("name") or node.name, pack=words.get("pack") or pack)
    signature, hints, exact = _signature(node)
    doc = ast.get_docstring(node)
    described = words.get("description")
    spec = describe.from_signature(signature, hints, doc, name=full, run=_never, rich=_sketch)
    return ToolOutline(
        function=node.name,
        name=full,
        description=described if isinstance(described, str) and described else spec.description,
        documented=bool(doc or described),
        parameters=spec.parameters,
        positional=spec.positional,
        returns=spec.returns,
        example="\n".join(_texts(words.get("examples"))) or spec.example,
        tags=tuple(_texts(words.get("tags"))),
        read_only=words.get("read_only") is True,
        timeout_s=_timeout(words.get("timeout")),
        is_async=isinstance(node, ast.AsyncFunctionDef),
        exact=exact and plain,
        line=node.lineno,
    )


def _never(args: dict[str, Any]) -> Any:  # noqa: ARG001 - the shape of every `run`
    raise RuntimeError("an outline cannot run")


def _sketch(hint: Any, name: str, defs: dict[str, Any]) -> tuple[dict[str, Any], Converter | None]:  # noqa: ARG001
    """The schema of a richer type as far as it can be told without pydantic."""
    inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
    if len(inner) == 1 and type(None) in typing.get_args(hint):
        schema = _SKETCHES.get(inner[0])
        return ({"anyOf": [schema, {"type": "null"}]} if schema else {}), None
    return dict(_SKETCHES.get(hint, {})), None


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(item) for item in value] if isinstance(value, (list, tuple, set)) else []


def _timeout(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise InvalidTool(f"timeout={value!r} is not a number of seconds above 0.")
    return float(value)


def _decorations(node: _Function) -> tuple[dict[str, Any], bool]:
    """What `@tool(...)` says in literals, and whether the decorators leave the function's arguments as they are."""
    words: dict[str, Any] = {}
    plain = True
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        label = ast.unparse(call.func if call else decorator).rpartition(".")[2]
        if label != "tool":
            plain = plain and label in _HARMLESS
            continue
        if call is None:
            continue
        said = [("name", value) for value in call.args[:1]] + [(k.arg or "", k.value) for k in call.keywords]
        for word, value in said:
            found = _literal(value)
            if found is not None:
                words[word] = found
            elif word in _WORDS and not isinstance(value, ast.Constant):
                plain = False
    return words, plain


def _signature(node: _Function) -> tuple[inspect.Signature, dict[str, Any], bool]:
    """The signature, the type hints, and whether both are known in full."""
    spec = node.args
    exact = True
    hints: dict[str, Any] = {}
    found: list[inspect.Parameter] = []

    def add(arg: ast.arg, kind: Any, default: ast.expr | None = None) -> None:
        nonlocal exact
        hint, known = _annotation(arg.annotation)
        value: Any = inspect.Parameter.empty
        if default is not None:
            value = _literal(default, otherwise=...)
        exact = exact and known and value is not ...
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
        except (SyntaxError, ValueError):
            return Any, False
    if not all(isinstance(part, _TYPE_NODES) for part in ast.walk(node)):
        return Any, False
    space = {"__builtins__": {}, **_VOCABULARY}
    try:
        found = eval(compile(ast.Expression(node), "<annotation>", "eval"), space)  # noqa: S307 - names of types only
    except Exception:  # noqa: BLE001 - an unknown name, an odd subscript: the file itself will tell
        return Any, False
    return found, True


def _literal(node: ast.expr | None, otherwise: Any = None) -> Any:
    if node is None:
        return otherwise
    try:
        return ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return otherwise
