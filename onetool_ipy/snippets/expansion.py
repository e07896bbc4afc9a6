"""Expand a snippet's body with values, so that a value stays a value and never becomes code.

The language is Jinja2's `{{ }}`, `{% if %}`, `{% for %}` and `{% set %}` with harmless filters, in a strict sandbox
with limits on steps, size and time. Rendering leaves a placeholder for each value. Then each value is written for the
context of its placeholder, and the context is checked again: only the author decides the structure of the code.

    in a string       its text, escaped for that string; braces doubled in an f-string; bytes as UTF-8
    in a raw string   its text, if a raw string can hold it
    in code           a Python literal: text in quotes, numbers bare; `Name` bare
    in a comment      its text on one line
    on a magic's line its text, if a magic or a shell cannot read it as more than text

jinja2 is imported when a snippet is first expanded.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.snippets.scanner import CodeContext, contexts_at

if TYPE_CHECKING:
    from jinja2 import nodes

__all__ = [
    "MAX_STEPS",
    "MAX_TEXT",
    "MAX_TIME_S",
    "Json",
    "Name",
    "TemplateProblem",
    "Typed",
    "Unwritable",
    "as_text",
    "literal",
    "render",
    "undeclared",
    "write",
]

MAX_TEXT = 1_000_000
"""Characters that one value may become."""

_BARE_ON_MAGIC = re.compile(r"[\w./:@%+,=-]*")
_QUOTED_ON_MAGIC = re.compile(r"[\w ./:@%+,=-]*")
_IN_SPEC = re.compile(r"[\w.,<>=^+% -]*")
_WORD = re.compile(r"\w")


class Unwritable(Exception):
    """Why a value cannot be written in its context."""


class Name(str):
    """A dotted Python name, written bare in code."""

    __slots__ = ()


class Json(str):
    """JSON text of a value; in code the value itself is written."""

    __slots__ = ("value",)
    value: Any


class Typed(str):
    """A word as it was typed that has another value in code: `true`, `null`."""

    __slots__ = ("value",)
    value: Any

    def __bool__(self) -> bool:
        return bool(self.value)


def write(value: Any, context: CodeContext, before: str, after: str) -> str:
    """Return the text for a value in a context. `before` and `after` are the text around it on its line."""
    if context.kind == "code":
        return _in_code(value, before, after)
    if context.kind == "field":
        return _in_field(value, context, before, after)
    text = as_text(value)
    if context.kind == "string":
        return _in_string(text, context)
    if context.kind == "comment":
        return "".join(c if c.isprintable() else " " for c in text)
    if context.kind == "magic":
        return _on_magic(text, before)
    if context.kind == "spec":
        return _checked(text, _IN_SPEC, "holds characters that a format cannot have")
    raise Unwritable("is right after a backslash or inside a quote; put a space between them, or double the backslash")


def as_text(value: Any) -> str:
    """Return the text of a value inside a string: text as it is, anything else as Python prints it."""
    if isinstance(value, str):
        return str(value)
    typed = getattr(value, "typed", None)
    if isinstance(typed, str):
        return typed
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return literal(value)
    try:
        text = str(value)
    except ValueError as exc:  # an integer with more digits than Python is willing to print
        raise Unwritable(f"cannot be written: {exc}") from exc
    return _bounded(text)


def literal(value: Any) -> str:
    """Return the Python literal of a plain value: text, numbers, booleans, None, lists and dicts of these."""
    return _Writer().write(value)


class _Writer:
    """Writes one literal, with a limit on its size: lists that hold each other twice grow without bound."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = MAX_TEXT

    def write(self, value: Any) -> str:
        self._add(value, 0)
        return "".join(self._parts)

    def _put(self, text: str) -> None:
        self._left -= len(text) + 4
        if self._left < 0:
            raise Unwritable(f"is longer than {MAX_TEXT:,} characters")
        self._parts.append(text)

    def _add(self, value: Any, depth: int) -> None:
        if depth > 100:
            raise Unwritable("is nested too deeply")
        if isinstance(value, Json | Typed):
            value = value.value
        if isinstance(value, Name):
            self._put(str(value))
        elif value is None or isinstance(value, bool | str | bytes | int | float):
            self._put(_scalar(value))
        elif isinstance(value, Mapping):
            self._put("{")
            for i, (key, item) in enumerate(value.items()):
                self._put(", " if i else "")
                self._add(key, depth + 1)
                self._put(": ")
                self._add(item, depth + 1)
            self._put("}")
        elif isinstance(value, list | tuple):
            opened, closed = "[]" if isinstance(value, list) else "()"
            self._put(opened)
            for i, item in enumerate(value):
                self._put(", " if i else "")
                self._add(item, depth + 1)
            self._put("," + closed if isinstance(value, tuple) and len(value) == 1 else closed)
        else:
            kind = type(value).__name__
            raise Unwritable(f"is a {kind}, which has no literal; give its name, with 'type: name'")


def _scalar(value: str | bytes | int | float | None) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{float(value)}')"
    plain = next((kind for kind in (bool, int, float, str, bytes) if isinstance(value, kind)), None)
    try:
        return "None" if plain is None else plain.__repr__(value)
    except ValueError as exc:  # an integer of too many digits
        raise Unwritable(f"cannot be written: {exc}") from exc


def _in_code(value: Any, before: str, after: str) -> str:
    text = literal(value)
    left, right = before[-1:], after[:1]
    if right in ("'", '"'):
        raise Unwritable("is right before a quote; put it inside the quotes")
    if text[:1] in ("'", '"', "b") and not isinstance(value, Name):
        if left in ("'", '"') or _WORD.match(left) or _WORD.match(right):
            raise Unwritable("is text and touches a name or a quote; put it inside quotes, or give it 'type: name'")
        return text
    left, right = before.rstrip(" \t")[-1:], after.lstrip(" \t")[:1]
    is_number = text[:1].isdigit() or text[:1] == "-"
    if is_number and (right == "." or (text[0] == "-" and (left in tuple("*+-/%@&|^~<>.") or right == "*"))):
        return f"({text})"
    return text


def _in_field(value: Any, context: CodeContext, before: str, after: str) -> str:
    """In the braces of an f-string, text is possible only if its quotes differ from all quotes around it."""
    text = _in_code(value, before, after)
    if "'" not in text and '"' not in text and "\\" not in text:
        return text
    free = [quote for quote in "'\"" if quote not in context.around]
    plain = value if isinstance(value, str) and value.isprintable() else "\\"
    if free and not any(c in plain for c in "'\"\\{}"):
        return f"{free[0]}{plain}{free[0]}"
    raise Unwritable("is in the braces of an f-string; assign it to a variable on a line before")


def _in_string(text: str, context: CodeContext) -> str:
    if "r" in context.prefix:
        text = _in_raw(text, context)
    else:
        quote = context.quote[0]
        text = "".join(_escaped(c, quote, is_bytes="b" in context.prefix) for c in text)
    return text.replace("{", "{{").replace("}", "}}") if "f" in context.prefix or "t" in context.prefix else text


def _escaped(char: str, quote: str, *, is_bytes: bool) -> str:
    if char == "\\" or char == quote:
        return "\\" + char
    if is_bytes and not char.isascii():
        return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    if char.isprintable():
        return char
    return char.encode("unicode_escape").decode("ascii")


def _in_raw(text: str, context: CodeContext) -> str:
    if context.quote[0] in text:
        raise Unwritable(f"holds {context.quote[0]}, which the raw string around it cannot")
    if any(not c.isprintable() and not (c == "\n" and len(context.quote) == 3) for c in text):
        raise Unwritable("holds a line break or another character that the raw string around it cannot")
    if "b" in context.prefix and not text.isascii():
        raise Unwritable("holds a letter that the raw bytes around it cannot")
    return text


def _on_magic(text: str, before: str) -> str:
    line = re.split(r"[\n\r]", before)[-1]
    if text.startswith("-") and (not line.strip() or line[-1].isspace()):
        raise Unwritable("starts with '-', which a magic or the shell would take for an option")
    pattern = _QUOTED_ON_MAGIC if _is_in_quotes(line) else _BARE_ON_MAGIC
    return _checked(text, pattern, "holds characters that a magic or the shell may read as more than text; use Python")


def _is_in_quotes(line: str) -> bool:
    """Whether a shell would read the text after this line as quoted."""
    quote = ""
    for char in re.sub(r"\\.", "", line):
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
    return bool(quote)


def _checked(text: str, pattern: re.Pattern[str], reason: str) -> str:
    if not pattern.fullmatch(text):
        raise Unwritable(reason)
    return text


def _bounded(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise Unwritable(f"is longer than {MAX_TEXT:,} characters")
    return text


MAX_STEPS = 100_000
"""Iterations of all loops of one expansion together."""
MAX_TIME_S = 1.0

_FILTERS = """
    abs capitalize count d default dictsort first float int items last length list lower map max min reject rejectattr
    reverse round select selectattr sort title trim truncate unique upper urlencode wordcount
"""
_METHODS = """
    capitalize casefold count endswith find get index isalnum isalpha isdigit islower isupper items keys lower lstrip
    partition removeprefix removesuffix rfind rpartition rsplit rstrip split splitlines startswith strip swapcase title
    upper values
"""
_STAND_IN = "\ue000"


class TemplateProblem(OneToolError):
    """A body that cannot be expanded."""


def render(body: str, values: Mapping[str, Any]) -> str:
    """Expand a body with these values, each written for its context. Raises TemplateProblem."""
    import jinja2
    from jinja2.exceptions import SecurityError

    expansion = _Expansion(body)
    try:
        env = expansion.environment()
        tree = _restricted(env.parse(body))
        template = env.from_string(tree)
        rendered = expansion.collect(template.generate(dict(values)))
    except jinja2.UndefinedError as exc:
        raise TemplateProblem(f"{exc.message}.") from exc
    except jinja2.TemplateSyntaxError as exc:
        raise TemplateProblem(f"Line {exc.lineno}: {exc.message}.") from exc
    except SecurityError as exc:
        raise TemplateProblem(f"Not allowed: {str(exc).rstrip('.')}.") from exc
    except Unwritable as exc:
        raise TemplateProblem(f"A value {exc}.") from exc
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as exc:
        raise TemplateProblem(f"{type(exc).__name__}: {exc}") from exc
    except RecursionError as exc:
        raise TemplateProblem("It is nested too deeply.") from exc
    return _fill(*expansion.parts(rendered))


def undeclared(body: str) -> set[str]:
    """Return the names that a body uses and does not set. Raises TemplateProblem if it cannot be parsed."""
    import jinja2
    from jinja2 import meta

    env = _Expansion(body).environment()
    try:
        return meta.find_undeclared_variables(_restricted(env.parse(body))) - set(env.globals)
    except jinja2.TemplateSyntaxError as exc:
        raise TemplateProblem(f"Line {exc.lineno}: {exc.message}.") from exc


class _Expansion:
    """One expansion: its sandbox, its limits, and the values behind the placeholders."""

    def __init__(self, body: str) -> None:
        self._values: list[Any] = []
        self._steps = 0
        self._deadline = time.thread_time() + MAX_TIME_S  # CPU time, so that a busy machine does not stop a snippet
        number = 0
        while f"{_STAND_IN}{number}:" in body:
            number += 1
        self._head = f"{_STAND_IN}{number}:"

    def environment(self) -> Any:
        import jinja2
        from jinja2.exceptions import SecurityError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        expansion, methods = self, frozenset(_METHODS.split())

        class Sandbox(ImmutableSandboxedEnvironment):
            intercepted_binops = frozenset(("+", "*", "**", "%"))

            def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
                _require_small(operator, left, right)
                return super().call_binop(context, operator, left, right)

            def is_safe_callable(self, obj: Any) -> bool:
                owner = getattr(obj, "__self__", None)
                if isinstance(owner, str | dict | list | tuple):
                    return getattr(obj, "__name__", "") in methods
                return obj is _range

            def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
                if isinstance(obj, jinja2.Undefined):
                    return str(obj)  # StrictUndefined raises here, with the name
                if not self.is_safe_callable(obj):
                    name = getattr(obj, "__name__", type(obj).__name__)
                    raise SecurityError(f"'{name}' may not be called; use a filter")
                return super().call(context, obj, *args, **kwargs)

        def refuse(*_args: Any) -> Any:
            raise SecurityError("a snippet loads no other template")

        env = Sandbox(
            undefined=jinja2.StrictUndefined,
            finalize=jinja2.pass_context(lambda _context, value: expansion.placeholder(value)),
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            cache_size=0,
            loader=jinja2.FunctionLoader(refuse),
        )
        known = env.filters
        env.filters = {name: known[name] for name in _FILTERS.split()}
        env.filters.update(join=_join, replace=_replace, string=as_text, sum=_sum, tojson=_to_json)
        env.filters.update(indent=_indent, _counted=self.counted)
        env.globals = {"range": _range}
        return env

    def counted(self, items: Iterable[Any]) -> Iterator[Any]:
        """Iterate and count towards the limits of this expansion."""
        for item in items:
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise TemplateProblem(f"Its loops take more than {MAX_STEPS:,} turns.")
            self._check_time()
            yield item

    def placeholder(self, value: Any) -> str:
        """Store a value and return its placeholder."""
        import jinja2

        if isinstance(value, jinja2.Undefined):
            return str(value)  # StrictUndefined raises here
        self._check_time()
        self._values.append(value)
        return f"{self._head}{len(self._values) - 1}\ue001"

    def collect(self, chunks: Iterable[str]) -> str:
        parts: list[str] = []
        size = 0
        for chunk in chunks:
            size += len(chunk)
            if size > MAX_TEXT:
                raise _too_long()
            parts.append(chunk)
        return "".join(parts)

    def parts(self, rendered: str) -> tuple[list[str], list[Any]]:
        """Return the author's texts and the values between them."""
        pieces = re.split(f"{re.escape(self._head)}([0-9]+)\ue001", rendered)
        return pieces[::2], [self._values[int(number)] for number in pieces[1::2]]

    def _check_time(self) -> None:
        if time.thread_time() > self._deadline:
            raise TemplateProblem(f"It takes more than {MAX_TIME_S:g} s to expand.")


def _restricted(tree: nodes.Template) -> nodes.Template:
    """Refuse statements that a snippet may not use, and count the iterations of its loops."""
    import jinja2
    from jinja2 import nodes
    from jinja2.visitor import NodeTransformer

    permitted = (nodes.Template, nodes.Output, nodes.For, nodes.If, nodes.Assign, nodes.With)
    for node in (tree, *tree.find_all(nodes.Stmt)):
        if type(node) not in permitted or (isinstance(node, nodes.For) and node.recursive):
            kind = type(node).__name__
            raise jinja2.TemplateSyntaxError(f"'{kind}' is not for snippets; use if, for and set", node.lineno)

    class Bounded(NodeTransformer):
        def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 (the visitor's own naming)
            self.generic_visit(node)
            node.iter = nodes.Filter(node.iter, "_counted", [], [], None, None, lineno=node.lineno)
            return node

        def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
            self.generic_visit(node)
            listed = nodes.List(node.nodes, lineno=node.lineno)
            return nodes.Filter(listed, "join", [], [], None, None, lineno=node.lineno)

    return Bounded().visit(tree)  # type: ignore[no-any-return]  # the visitor is untyped


def _fill(texts: list[str], values: list[Any]) -> str:
    """Write each value for its context, then make sure that every context is unchanged."""
    found = contexts_at(_STAND_IN.join(texts), _offsets(texts))
    written: list[str] = []
    size = 0
    for i, (value, context) in enumerate(zip(values, found, strict=True)):
        before = _line_before(texts[: i + 1])
        after = texts[i + 1] or (_STAND_IN if i + 1 < len(values) else "")
        try:
            written.append(write(value, context, before, after))
        except Unwritable as exc:
            raise TemplateProblem(f"{_shown(value)} {exc}.") from exc
        size += len(written[-1])
        if size > MAX_TEXT:
            raise _too_long()
    _verify(texts, written, values, found)
    return "".join(part for pair in zip(texts, [*written, ""], strict=True) for part in pair)


def _verify(texts: list[str], written: list[str], values: list[Any], expected: list[CodeContext]) -> None:
    """Prove that no value broke out: at its start and end, the context must be what it was."""
    edges: list[int] = []
    at = 0
    for text, value in zip(texts, written, strict=False):
        edges += [at + len(text), at + len(text) + len(value)]
        at = edges[-1]
    whole = "".join(part for pair in zip(texts, [*written, ""], strict=True) for part in pair)
    for i, context in enumerate(contexts_at(whole, edges)):
        if context != expected[i // 2]:
            raise TemplateProblem(
                f"{_shown(values[i // 2])} would change how the code around it is read.",
                hint="Put spaces around the placeholder, or assign it to a variable.",
            )


def _offsets(texts: list[str]) -> list[int]:
    found = []
    at = 0
    for text in texts[:-1]:
        at += len(text)
        found.append(at)
        at += 1
    return found


def _line_before(texts: list[str]) -> str:
    """Return the text before a value, back to the start of its line."""
    parts: list[str] = []
    for text in reversed(texts):
        start = max(text.rfind("\n"), text.rfind("\r")) + 1
        parts.append(text[start:])
        if start:
            break
        parts.append(_STAND_IN)
    else:
        parts.pop()
    return "".join(reversed(parts))


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple | dict):
        return f"A {type(value).__name__}"
    text = as_text(value) if isinstance(value, str | int | float) else type(value).__name__
    cut = text if len(text) <= 40 else text[:37] + "..."
    return f"'{''.join(c if c.isprintable() else '?' for c in cut)}'"


def _too_long() -> TemplateProblem:
    return TemplateProblem(f"The code would be longer than {MAX_TEXT:,} characters.")


# What Jinja's sandbox does not limit: results that are far larger than their inputs.


def _range(*args: int) -> range:
    numbers = range(*args)
    if len(numbers) > MAX_STEPS:
        raise TemplateProblem(f"A range is longer than {MAX_STEPS:,}.")
    return numbers


def _require_small(operator: str, left: Any, right: Any) -> None:
    if operator == "%" and isinstance(left, str | bytes):
        raise Unwritable("is formatted with '%', which snippets cannot use; use '~'")
    sizes = [len(side) for side in (left, right) if isinstance(side, str | bytes | list | tuple)]
    if operator == "+":
        _require(sum(sizes))
    elif operator == "*" and sizes:
        count = right if isinstance(right, int) else left
        _require(sizes[0] * max(count, 0) if isinstance(count, int) else 0)
    elif isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * max(right, 1) if operator == "**" else left.bit_length() + right.bit_length()
        _require(bits if operator in ("*", "**") else 0)


def _require(size: int) -> None:
    if size > MAX_TEXT:
        raise Unwritable(f"is longer than {MAX_TEXT:,} characters")


def _join(items: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
    if attribute is not None:
        raise Unwritable("is joined by an attribute, which snippets cannot do; use map(attribute=...)")
    texts: list[str] = []
    size = 0
    for item in items:
        texts.append(as_text(item))
        size += len(texts[-1]) + len(d)
        _require(size)
    return as_text(d).join(texts)


def _replace(text: Any, old: str, new: str, count: int = -1) -> str:
    whole = as_text(text)
    _require(len(whole) + whole.count(old) * len(new))
    return whole.replace(old, new, count)


def _indent(text: Any, width: int = 4, first: bool = False) -> str:
    lines = as_text(text).split("\n")
    pad = " " * max(0, min(int(width), 80))
    _require(len(pad) * len(lines))
    padded = [pad + line if line and (i or first) else line for i, line in enumerate(lines)]
    return "\n".join(padded)


def _sum(items: Iterable[Any], start: float = 0) -> float:
    total = start
    for item in items:
        if not isinstance(item, int | float):
            raise Unwritable("is the sum of something that is not a number")
        total += item
    return total


def _to_json(value: Any) -> Json:
    literal(value)  # checks size and plainness
    text = Json(json.dumps(value, ensure_ascii=False))
    text.value = value
    return text
