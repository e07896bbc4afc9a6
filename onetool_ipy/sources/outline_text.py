"""Read a pack file as text: its pack, its tools, their docs and arguments, without running a line of it.

Everything comes from the syntax tree: constants as they are written, annotations by a table of known names. Nothing
is evaluated. What the text alone cannot tell (a type defined in the file, a function made by another) is left open:
such a tool is `exact=False` until the file is imported at its first call. A file that is too deep, too large or odd
in any other way has an `error` and costs only itself.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import decode_source
from typing import Any

from onetool_ipy.core import describe, names, syntax, values
from onetool_ipy.core.checker import Converter
from onetool_ipy.core.errors import InvalidTool
from onetool_ipy.core.model import Dep
from onetool_ipy.sdk.declare import merged, read_declared, read_decorated
from onetool_ipy.sources.outline import Fault, Outline, ToolOutline
from onetool_ipy.sources.outline_types import Types, Unknown, schema_of

__all__ = ["MAX_BYTES", "read_outline"]

MAX_BYTES = 1_000_000
_MAX_TOOLS = 1_000
_MAX_FAULTS = 50
_MAX_ARGUMENTS = 500
_MAX_EXPORTS = 20_000
_SHOWN = 80

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_WORDS = ("name", "pack", "description", "tags", "read_only", "timeout", "examples")
_HARMLESS = ("requires_cli", "requires_lib")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_ENCODING = re.compile(
    r"utf-?8(-sig)?|ascii|us-ascii|latin-?1|iso-?8859-?\d+|(cp|windows-)125\d|koi8-[ru]"
    r"|gbk|gb2312|gb18030|big5|shift-?jis|euc-(jp|kr)"
)
"""Encodings that only tell which byte is which character; Python knows others that unpack or run through tables."""


def read_outline(text: str | bytes, *, pack: str) -> Outline:
    """Outline a pack file's text; `pack` is its name where the file does not say one. Never raises."""
    if len(text) > MAX_BYTES:
        return Outline(pack, error=f"The file has {len(text):,} bytes; a pack file has at most {MAX_BYTES:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the author's text; said when it is imported
            # Python opens the file of this name for the line of a SyntaxError; no file has an empty name.
            tree = ast.parse(_decoded(text) if isinstance(text, bytes) else text, "")
            return _File(tree, pack).outline()
    except (SyntaxError, ValueError) as exc:
        line = getattr(exc, "lineno", None)
        place = f"line {line}: " if line else ""
        said = syntax.printable(str(getattr(exc, "msg", None) or exc), 200)
        return Outline(pack, error=f"{place}{type(exc).__name__}: {said}")
    except (RecursionError, MemoryError) as exc:
        return Outline(pack, error=f"{type(exc).__name__}: the text is nested too deeply or too large to be read")
    except Exception as exc:  # noqa: BLE001 - the text is a stranger's: whatever it breaks costs only this file
        return Outline(pack, error=f"the text cannot be read ({type(exc).__name__})")


def _decoded(text: bytes) -> str:
    """The text of a file's bytes, by the encoding that its first lines name. Raises SyntaxError."""
    for line in text.split(b"\n", 2)[:2]:
        found = _COOKIE.match(line)
        if found is None:
            continue
        name = found[1].decode("ascii", "replace")
        if _ENCODING.fullmatch(name.lower().replace("_", "-")) is None:
            raise SyntaxError(f"unknown encoding: {name}")
        break
    return decode_source(text)


class _File:
    """One parsed file on its way to an Outline."""

    def __init__(self, tree: ast.Module, pack: str) -> None:
        self._pack = pack
        self._faults: list[Fault] = []
        self._deps: tuple[Dep, ...] = ()
        self._types = Types(tree)
        self._statements = list(_top_level(tree.body))
        self._functions = {node.name: node for node in self._statements if isinstance(node, _Function)}

    def outline(self) -> Outline:
        said = self._assigned("pack")
        if said is not None:
            name = syntax.constant(said.value)
            if not isinstance(name, str) or not name.isidentifier():
                shown = syntax.source(said.value)[:40]
                return Outline(
                    self._pack, error=f'line {said.lineno}: pack = {shown} is not a name; write e.g. pack = "brave"'
                )
            self._pack = name
        self._read_requires()
        tools: dict[str, ToolOutline] = {}
        for tool in self._tools():
            if len(tools) == _MAX_TOOLS:
                hint = "The others are not offered: split the file."
                self._faults.insert(0, Fault(tool.line, f"the file has more than {_MAX_TOOLS:,} tools.", hint))
                break
            if tool.name in tools:
                self._faults.append(Fault(tool.line, f"'{tool.name}' is defined twice; the first one counts."))
            tools.setdefault(tool.name, tool)
        return Outline(self._pack, tuple(tools.values()), tuple(self._faults[:_MAX_FAULTS]))

    def _tools(self) -> Iterator[ToolOutline]:
        for name in self._wanted():
            node = self._functions.get(name)
            if node is None:
                yield from self._elsewhere(name)
                continue
            try:
                yield self._outline(node)._replace(deps=merged(self._deps, read_decorated(node)))
            except InvalidTool as exc:
                self._fault(node, f"'{name}' is no tool: {exc.message}", exc.hint)
            except (ValueError, TypeError, OverflowError, RecursionError) as exc:  # arguments named twice, and the like
                self._fault(node, f"'{name}' is no tool: {syntax.printable(str(exc), 200)}")

    def _elsewhere(self, name: str) -> Iterator[ToolOutline]:
        """A tool that `__all__` names and that is no function of the text: only the import will tell more."""
        try:
            yield ToolOutline(name, names.canonical(name, pack=self._pack), name, exact=False)
        except InvalidTool as exc:
            self._faults.append(Fault(1, f"__all__: {syntax.printable(exc.message, 200)}", exc.hint))

    def _fault(self, node: _Function, message: str, hint: str = "") -> None:
        self._faults.append(Fault(node.lineno, syntax.printable(message, 400), hint))

    def _outline(self, node: _Function) -> ToolOutline:
        words, plain = _decorations(node)
        full = names.canonical(words.get("name") or node.name, pack=words.get("pack") or self._pack)
        found = _Signature(node, self._types)
        doc = ast.get_docstring(node)
        described = words.get("description")
        spec = describe.from_signature(found.signature, found.hints, doc, name=full, run=_never, rich=_sketch)
        return ToolOutline(
            function=node.name,
            name=full,
            description=_clean(described if isinstance(described, str) and described else spec.description),
            documented=bool(doc or described),
            parameters=values.map_text(spec.parameters, _clean),
            positional=spec.positional,
            returns=_clean(spec.returns),
            example="\n".join(_texts(words.get("examples"))) or _clean(spec.example),
            tags=tuple(_texts(words.get("tags"))),
            read_only=words.get("read_only") is True,
            timeout_s=_timeout(words.get("timeout")),
            is_async=isinstance(node, ast.AsyncFunctionDef),
            exact=found.exact and plain,
            line=node.lineno,
        )

    def _read_requires(self) -> None:
        """What the whole pack needs, as `requires = {...}` says it."""
        said = self._assigned("requires")
        if said is None:
            return
        try:
            self._deps = read_declared(syntax.constant(said.value))
        except InvalidTool as exc:
            self._faults.append(Fault(said.lineno, exc.message, exc.hint))

    def _wanted(self) -> list[str]:
        """The names of `__all__` that can be functions; without it, the public functions."""
        public = [name for name in self._functions if not name.startswith("_")]
        said = self._assigned("__all__")
        if said is None:
            return public
        exported = syntax.constant(said.value, nodes=_MAX_EXPORTS)
        if not isinstance(exported, (list, tuple)) or not all(isinstance(name, str) for name in exported):
            self._faults.append(
                Fault(said.lineno, "__all__ is not a plain list of names.", "Every public function is offered.")
            )
            return public
        more = [n for node in self._statements if isinstance(node, ast.AugAssign) for n in _added(node)]
        bound = self._bound()
        wanted = list(dict.fromkeys([*exported, *more]))
        for name in wanted:
            if name not in bound and "*" not in bound and len(self._faults) < _MAX_FAULTS:
                shown = syntax.printable(name, _SHOWN)
                self._faults.append(Fault(said.lineno, f"__all__ names '{shown}', which the file does not define."))
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
    """The statements of a module, also those inside `if`, `try` and `with`, in their order."""
    waiting = [*reversed(body)]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.If, ast.Try, ast.With)):
            continue
        inner = [each for field in ("body", "orelse", "finalbody") for each in getattr(node, field, [])]
        if isinstance(node, ast.Try):
            inner += [each for handler in node.handlers for each in handler.body]
        waiting.extend(reversed(inner))


def _added(node: ast.AugAssign) -> list[str]:
    if not isinstance(node.target, ast.Name) or node.target.id != "__all__":
        return []
    found = syntax.constant(node.value, nodes=_MAX_EXPORTS)
    return [name for name in found if isinstance(name, str)] if isinstance(found, (list, tuple)) else []


def _never(args: dict[str, Any]) -> Any:  # noqa: ARG001 - the shape of every `run`
    raise RuntimeError("an outline cannot run")


def _sketch(hint: Any, name: str, defs: dict[str, Any]) -> tuple[dict[str, Any], Converter | None]:  # noqa: ARG001
    """The schema of a richer type, without pydantic."""
    try:
        return schema_of(hint), None
    except Unknown:
        return {}, None


def _is_told(hint: Any) -> bool:
    """Whether the schema of a type is known without pydantic."""
    try:
        schema_of(hint)
    except Unknown:
        return False
    return True


def _clean(text: str) -> str:
    """The text with lone surrogates written out: no screen and no file can hold them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [_clean(value)]
    return [_clean(str(item)) for item in value] if isinstance(value, (list, tuple, set)) else []


def _timeout(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InvalidTool(f"timeout={value!r} is not a number of seconds above 0.")
    return float(value)


def _decorations(node: _Function) -> tuple[dict[str, Any], bool]:
    """What `@tool(...)` says in constants, and whether the decorators leave the function's arguments as they are."""
    words: dict[str, Any] = {}
    plain = True
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        label = syntax.last_name(decorator)
        if label != "tool":
            plain = plain and label in _HARMLESS
            continue
        if call is None:
            continue
        said = [("name", value) for value in call.args[:1]] + [(k.arg or "", k.value) for k in call.keywords]
        for word, value in said:
            found = syntax.constant(value)
            if found is not None:
                words[word] = found
            elif word in _WORDS and not isinstance(value, ast.Constant):
                plain = False
    return words, plain


class _Signature:
    """The arguments of one function: their names, types and defaults; `exact` says that all are known in full."""

    def __init__(self, node: _Function, types: Types) -> None:
        self._node = node
        self._types = types
        self._hidden = [each.name for each in getattr(node, "type_params", ())]
        self.exact = True
        self.hints: dict[str, Any] = {}
        found = [inspect.Parameter(*each[:2], default=each[2]) for each in self._parameters()]
        self.signature = inspect.Signature(found)
        self.hints["return"] = self._returned()

    def _parameters(self) -> Iterator[tuple[str, Any, Any]]:
        spec = self._node.args
        positional = [*spec.posonlyargs, *spec.args]
        if len(positional) + len(spec.kwonlyargs) > _MAX_ARGUMENTS:
            raise InvalidTool(f"it has more than {_MAX_ARGUMENTS} arguments.")
        kinds = inspect.Parameter
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults)) + [*spec.defaults]
        for i, (arg, default) in enumerate(zip(positional, defaults, strict=True)):
            first = i < len(spec.posonlyargs)
            yield self._parameter(arg, kinds.POSITIONAL_ONLY if first else kinds.POSITIONAL_OR_KEYWORD, default)
        if spec.vararg:
            yield self._parameter(spec.vararg, kinds.VAR_POSITIONAL)
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            yield self._parameter(arg, kinds.KEYWORD_ONLY, default)
        if spec.kwarg:
            yield self._parameter(spec.kwarg, kinds.VAR_KEYWORD)

    def _parameter(self, arg: ast.arg, kind: Any, default: ast.expr | None = None) -> tuple[str, Any, Any]:
        hint, known = self._annotation(arg.annotation)
        value: Any = inspect.Parameter.empty
        if default is not None:
            value = syntax.constant(default, otherwise=...)
        self.exact = self.exact and known and value is not ...
        self.hints[arg.arg] = hint
        return arg.arg, kind, value

    def _annotation(self, node: ast.expr | None) -> tuple[Any, bool]:
        """The type an annotation names by the table; (Any, False) where it needs the file itself."""
        if node is None:
            return Any, True
        try:
            hint = self._types.of(node, line=self._node.lineno, hidden=self._hidden)
        except Unknown:
            return Any, False
        return (hint, True) if _is_told(hint) else (Any, False)

    def _returned(self) -> Any:
        node = self._node.returns
        if node is None:
            return inspect.Signature.empty
        try:
            return self._types.of(node, line=self._node.lineno, hidden=self._hidden)
        except Unknown:
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
            return syntax.source(node) if text is None else syntax.printable(text, 500)
