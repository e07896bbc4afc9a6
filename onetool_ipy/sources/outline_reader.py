"""Read the outline of a pack file from its text: its pack, its tools, their docs and parameters.
Nothing is run.

Constants, annotations and defaults are taken from the syntax tree as written; no type is looked up.
The schema of an outline says which arguments there are and what the text calls their types. It is
for people: a call, and whatever else needs a schema, imports the file. A file that is too deep, too
large or odd in any other way has an `error` and affects no other file.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import decode_source
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.syntax import constant, last_name, printable, source
from onetool_ipy.base.values import Json
from onetool_ipy.core import describe, names
from onetool_ipy.core.tool import Dep
from onetool_ipy.schema.read import ANNOTATION, DEFAULT
from onetool_ipy.sdk.requirements import merge_deps, read_declared, read_decorated
from onetool_ipy.sources.outline import OutlineFault, PackOutline, ToolOutline

MAX_BYTES = 1_000_000
_MAX_TOOLS = 1_000
_MAX_FAULTS = 50
_MAX_ARGUMENTS = 500
_MAX_EXPORTS = 20_000
_SHOWN = 80

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_ENCODING = re.compile(
    r"utf-?8(-sig)?|ascii|us-ascii|latin-?1|iso-?8859-?\d+|(cp|windows-)125\d|koi8-[ru]"
    r"|gbk|gb2312|gb18030|big5|shift-?jis|euc-(jp|kr)"
)
"""Encodings that only map bytes to characters. Python knows others that decompress or transform the
text."""


def read_outline(text: str | bytes, *, pack: str) -> PackOutline:
    """Outline a pack file's text. `pack` is the name to use if the file does not set one. Never
    raises."""
    if len(text) > MAX_BYTES:
        return PackOutline(
            pack, error=f"The file has {len(text):,} bytes; a pack file has at most {MAX_BYTES:,}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the import will show them
            # Python opens the file of this name for the line of a SyntaxError; no file has an empty
            # name.
            tree = ast.parse(_decoded(text) if isinstance(text, bytes) else text, "")
            return _OutlineReader(tree, pack).outline()
    except (SyntaxError, ValueError) as exc:
        line = getattr(exc, "lineno", None)
        place = f"line {line}: " if line else ""
        message = printable(str(getattr(exc, "msg", None) or exc), 200)
        return PackOutline(pack, error=f"{place}{type(exc).__name__}: {message}")
    except (RecursionError, MemoryError) as exc:
        return PackOutline(
            pack,
            error=f"{type(exc).__name__}: the text is nested too deeply or too large to be read",
        )
    except Exception as exc:  # noqa: BLE001 - untrusted text: whatever it breaks affects only this file
        return PackOutline(pack, error=f"the text cannot be read ({type(exc).__name__})")


def _decoded(text: bytes) -> str:
    """Decode a file by the encoding that its first lines declare. Raises SyntaxError."""
    for line in text.split(b"\n", 2)[:2]:
        cookie = _COOKIE.match(line)
        if cookie is None:
            continue
        name = cookie[1].decode("ascii", "replace")
        if _ENCODING.fullmatch(name.lower().replace("_", "-")) is None:
            raise SyntaxError(f"unknown encoding: {name}")
        break
    return decode_source(text)


class _OutlineReader:
    """Reads the outline of one parsed file."""

    def __init__(self, tree: ast.Module, pack: str) -> None:
        self._pack = pack
        self._faults: list[OutlineFault] = []
        self._deps: tuple[Dep, ...] = ()
        self._statements = list(_top_level(tree.body))
        self._functions = {
            node.name: node for node in self._statements if isinstance(node, _Function)
        }

    def outline(self) -> PackOutline:
        assignment = self._assigned("pack")
        if assignment is not None:
            name = constant(assignment.value)
            if not isinstance(name, str) or not name.isidentifier():
                label = source(assignment.value)[:40]
                return PackOutline(
                    self._pack,
                    error=(
                        f"line {assignment.lineno}: pack = {label} is not a name; write e.g. pack ="
                        ' "brave"'
                    ),
                )
            self._pack = name
        self._read_requires()
        tools: dict[str, ToolOutline] = {}
        for tool in self._tools():
            if len(tools) == _MAX_TOOLS:
                hint = "The others are not offered: split the file."
                self._faults.insert(
                    0,
                    OutlineFault(tool.line, f"the file has more than {_MAX_TOOLS:,} tools.", hint),
                )
                break
            if tool.name in tools:
                self._faults.append(
                    OutlineFault(
                        tool.line, f"'{tool.name}' is defined twice; the first one counts."
                    )
                )
            tools.setdefault(tool.name, tool)
        return PackOutline(self._pack, tuple(tools.values()), tuple(self._faults[:_MAX_FAULTS]))

    def _tools(self) -> Iterator[ToolOutline]:
        for name in self._wanted():
            node = self._functions.get(name)
            if node is None:
                yield from self._elsewhere(name)
                continue
            try:
                yield self._outline(node)._replace(
                    deps=merge_deps(self._deps, read_decorated(node))
                )
            except InvalidTool as exc:
                self._fault(node, f"'{name}' is not a tool: {exc.message}", exc.hint)
            except (ValueError, TypeError, OverflowError, RecursionError) as exc:
                # The function names an argument twice, or the like.
                self._fault(node, f"'{name}' is not a tool: {printable(str(exc), 200)}")

    def _elsewhere(self, name: str) -> Iterator[ToolOutline]:
        """Yield a tool that `__all__` names but the text does not define as a function: the import
        will tell more."""
        try:
            yield ToolOutline(name, names.canonical(name, pack=self._pack), name)
        except InvalidTool as exc:
            self._faults.append(
                OutlineFault(1, f"__all__: {printable(exc.message, 200)}", exc.hint)
            )

    def _fault(self, node: _Function, message: str, hint: str = "") -> None:
        self._faults.append(OutlineFault(node.lineno, printable(message, 400), hint))

    def _outline(self, node: _Function) -> ToolOutline:
        words = _decorations(node)
        name = names.canonical(words.get("name") or node.name, pack=words.get("pack") or self._pack)
        doc = ast.get_docstring(node)
        sections = describe.read(doc)
        description = words.get("description")
        limit = words.get("timeout")
        is_number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
        if limit is not None and not (is_number and 0 < limit < math.inf):
            raise InvalidTool(f"timeout={limit!r} is not a number of seconds above 0.")
        resource, prompt = "".join(_texts(words.get("resource"))[:1]), words.get("prompt") is True
        arguments = node.args
        positional = [*(arg.arg for arg in (*arguments.posonlyargs, *arguments.args))]
        positional += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
        return ToolOutline(
            function=node.name,
            name=name,
            description=values.encodable(
                description
                if isinstance(description, str) and description
                else sections.description or node.name
            ),
            documented=bool(doc or description),
            parameters=values.map_text(_parameters(arguments, sections.args), values.encodable),
            positional=tuple(positional),
            returns=values.encodable(sections.returns or _written(node.returns)),
            example="\n".join(_texts(words.get("examples"))) or values.encodable(sections.example),
            tags=tuple(_texts(words.get("tags"))),
            read_only=words.get("read_only") is True or prompt or bool(resource),
            timeout_s=None if limit is None else float(limit),
            is_async=isinstance(node, ast.AsyncFunctionDef),
            line=node.lineno,
            resource=resource,
            prompt=prompt,
            reads="".join(_texts(words.get("reads"))[:1]),
            sends="".join(_texts(words.get("sends"))[:1]),
        )

    def _read_requires(self) -> None:
        """Read `requires = {...}`: what the whole pack needs."""
        assignment = self._assigned("requires")
        if assignment is None:
            return
        try:
            self._deps = read_declared(constant(assignment.value))
        except InvalidTool as exc:
            self._faults.append(OutlineFault(assignment.lineno, exc.message, exc.hint))

    def _wanted(self) -> list[str]:
        """Return the names in `__all__` that may be functions; without `__all__`, the public
        functions."""
        public = [name for name in self._functions if not name.startswith("_")]
        assignment = self._assigned("__all__")
        if assignment is None:
            return public
        exported = constant(assignment.value, nodes=_MAX_EXPORTS)
        if not isinstance(exported, (list, tuple)) or not all(
            isinstance(name, str) for name in exported
        ):
            self._faults.append(
                OutlineFault(
                    assignment.lineno,
                    "__all__ is not a plain list of names.",
                    "Every public function is offered.",
                )
            )
            return public
        names = dict.fromkeys(exported)
        for node in self._statements:
            if (
                isinstance(node, ast.AugAssign)
                and isinstance(node.target, ast.Name)
                and node.target.id == "__all__"
            ):
                more = constant(node.value, nodes=_MAX_EXPORTS)
                texts = (
                    [name for name in more if isinstance(name, str)]
                    if isinstance(more, (list, tuple))
                    else []
                )
                names |= dict.fromkeys(texts)
        bound = self._bound()
        for name in names:
            if name not in bound and "*" not in bound and len(self._faults) < _MAX_FAULTS:
                label = printable(name, _SHOWN)
                self._faults.append(
                    OutlineFault(
                        assignment.lineno,
                        f"__all__ names '{label}', which the file does not define.",
                    )
                )
        return [name for name in names if bound.get(name, "*" in bound)]

    def _bound(self) -> dict[str, bool]:
        """Map every name that the file binds to whether it may be a function."""
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
                is_function = isinstance(
                    node.value, (ast.Call, ast.Name, ast.Attribute, ast.Lambda)
                )
                bound.update(
                    {
                        t.id: is_function
                        for target in targets
                        for t in ast.walk(target)
                        if isinstance(t, ast.Name)
                    }
                )
        return bound

    def _assigned(self, name: str) -> ast.Assign | ast.AnnAssign | None:
        assignment: ast.Assign | ast.AnnAssign | None = None
        for node in self._statements:
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == name for t in node.targets
            ):
                assignment = node
            elif (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and node.target.id == name
            ):
                assignment = node if node.value is not None else assignment
        return assignment


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module in order, also those inside `if`, `try` and `with`."""
    waiting = [*reversed(body)]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.If, ast.Try, ast.With)):
            continue
        inner = [
            each for field in ("body", "orelse", "finalbody") for each in getattr(node, field, [])
        ]
        if isinstance(node, ast.Try):
            inner += [each for handler in node.handlers for each in handler.body]
        waiting.extend(reversed(inner))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [values.encodable(value)]
    return (
        [values.encodable(str(item)) for item in value]
        if isinstance(value, (list, tuple, set))
        else []
    )


def _decorations(node: _Function) -> dict[str, Any]:
    """Return the constant arguments of `@tool(...)`."""
    words: dict[str, Any] = {}
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call) or last_name(decorator) != "tool":
            continue
        pairs = [("name", value) for value in decorator.args[:1]] + [
            (k.arg or "", k.value) for k in decorator.keywords
        ]
        words |= {word: value for word, node in pairs if (value := constant(node)) is not None}
    return words


def _parameters(arguments: ast.arguments, descriptions: Mapping[str, str]) -> Json:
    """Return the parameters of a function as a loose schema: names, what is required, types and
    defaults as written."""
    ordinary = [*arguments.posonlyargs, *arguments.args]
    defaults = [*([None] * (len(ordinary) - len(arguments.defaults))), *arguments.defaults]
    pairs = [*zip(ordinary, defaults, strict=True)]
    pairs += [(arguments.vararg, None)] if arguments.vararg else []
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    if len(pairs) > _MAX_ARGUMENTS:
        raise InvalidTool(f"it has more than {_MAX_ARGUMENTS} arguments.")
    properties: Json = {}
    required: list[str] = []
    for arg, default in pairs:
        if arg.arg in properties or (arguments.kwarg and arg.arg == arguments.kwarg.arg):
            raise InvalidTool(f"the argument '{printable(arg.arg, _SHOWN)}' is there twice.")
        schema = _property(arg.annotation, default)
        if arg is arguments.vararg:
            schema = {"type": "array", ANNOTATION: f"list[{schema.get(ANNOTATION, 'Any')}]"}
        elif default is None:
            required.append(arg.arg)
        description = descriptions.get(arg.arg)
        properties[arg.arg] = {**schema, "description": description} if description else schema
    parameters: Json = {
        "type": "object",
        "properties": properties,
        "additionalProperties": bool(arguments.kwarg),
    }
    return {**parameters, "required": required} if required else parameters


def _property(annotation: ast.expr | None, default: ast.expr | None) -> Json:
    """Return one argument as written. Tab offers the options of a `Literal`, and true and false for
    a `bool`."""
    text = _written(annotation)
    schema: Json = {ANNOTATION: text} if text else {}
    if text in _TYPES:
        schema["type"] = _TYPES[text]
    elif isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Literal":
        options = constant(annotation.slice)
        if options is not None:
            schema["enum"] = list(options) if isinstance(options, tuple) else [options]
    if default is None:
        return schema
    value = constant(default, otherwise=...)
    return (
        {**schema, DEFAULT: source(default)}
        if value is ...
        else describe.with_default(schema, value)
    )


def _written(annotation: ast.expr | None) -> str:
    """Return an annotation as text: without quotes around it, and of `Annotated[...]` the type."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return printable(annotation.value, 500)
    if isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Annotated":
        inner = annotation.slice
        annotation = inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner
    return (
        ""
        if isinstance(annotation, ast.Constant) and annotation.value is None
        else source(annotation)
    )
