"""Expand a snippet's body with values, so that a value stays a value and never becomes code.

The language is Jinja2's `{{ }}`, `{% if %}`, `{% for %}` and `{% set %}` with harmless filters, in
a strict sandbox with limits on steps, size and time. Rendering leaves a placeholder for each value,
which reads as a Python name. Then Python's own tokenizer says which token each placeholder is in,
and the value is written for it:

    a string          its text, escaped for that string; braces doubled in an f-string; bytes as
                      UTF-8
    a raw string      its text, if a raw string can hold it
    a name            a Python literal: text in quotes, numbers bare; `Name` bare
    a comment         its text on one line
    a magic's line    its text, if a magic or a shell cannot read it as more than text

At last the result is cut into tokens again: only those that had a placeholder may differ. jinja2 is
imported when a snippet is first expanded.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
import time
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from onetool_ipy.base.errors import UsageProblem

if TYPE_CHECKING:
    from jinja2 import nodes

MAX_TEXT = 1_000_000
"""Characters that one value may become."""
MAX_STEPS = 100_000
"""Iterations of all loops of one expansion together."""
MAX_TIME_S = 1.0

_FILTERS = """
    abs capitalize count d default dictsort first float int items last length list lower map max min
    reject rejectattr reverse round select selectattr sort sum title trim truncate unique upper
    urlencode wordcount
"""
_METHODS = """
    capitalize casefold count endswith find get index isalnum isalpha isdigit islower isupper items
    keys lower lstrip partition removeprefix removesuffix rfind rpartition rsplit rstrip split
    splitlines startswith strip swapcase title upper values
"""
_SCALARS: tuple[Any, ...] = (bool, int, float, str, bytes, type(None))
_KINDS: Mapping[str, Literal["string", "comment"]] = {"STRING": "string", "COMMENT": "comment"}
_BARE_ON_MAGIC = re.compile(r"[\w./:@%+,=-]*")
_QUOTED_ON_MAGIC = re.compile(r"[\w ./:@%+,=-]*")
_MAGIC = re.compile(
    r"""
    [ \t]*
    (?: [%!$?,;/] | (?:[\w.]|\[[\w.'" -]*\]|,[ \t]*)+ [ \t]* [-+*/@&|^%]?=[ \t]* [%!$] )
    (?: \\\n | [^\n] )*
    """,
    re.VERBOSE,
)
"""A line that IPython reads before Python does: `%magic`, `!command`, `$shortcut`, and each of them
assigned."""
_CELL_MAGIC = re.compile(r"\s*%%\S")
_PART_OF_NAME = re.compile(r"\w+")
_STRING_START = re.compile(r"([A-Za-z]*)(\"{3}|'{3}|\"|')")


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


def as_text(value: object) -> str:
    """Return the text of a value inside a string: text as it is, anything else as Python prints
    it."""
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
    if len(text) > MAX_TEXT:
        raise Unwritable(f"is longer than {MAX_TEXT:,} characters")
    return text


def literal(value: object) -> str:
    """Return the Python literal of a plain value: text, numbers, booleans, None, lists and dicts of
    these."""
    # The size is counted on the way, since lists that hold each other twice grow without bound.
    size = 0

    def write(value: Any, depth: int) -> str:
        nonlocal size
        if isinstance(value, Json | Typed):
            value = value.value
        if depth > 100:
            raise Unwritable("is nested too deeply")
        if isinstance(value, Mapping):
            pairs = ", ".join(
                f"{write(key, depth + 1)}: {write(value[key], depth + 1)}" for key in value
            )
            text = f"{{{pairs}}}"
        elif isinstance(value, list | tuple):
            items = ", ".join(write(item, depth + 1) for item in value)
            text = (
                f"[{items}]"
                if isinstance(value, list)
                else f"({items},)"
                if len(value) == 1
                else f"({items})"
            )
        elif isinstance(value, Name):
            text = str(value)
        elif isinstance(value, float) and not math.isfinite(value):
            text = f"float('{float(value)}')"
        elif (
            plain := next((kind for kind in _SCALARS if isinstance(value, kind)), None)
        ) is not None:
            try:
                text = str(plain.__repr__(value))
            except ValueError as exc:
                # Python refuses to write an integer of too many digits.
                raise Unwritable(f"cannot be written: {exc}") from exc
        else:
            kind = type(value).__name__
            raise Unwritable(f"is a {kind}, which has no literal; give its name, with 'type: name'")
        size += 10 if isinstance(value, Mapping | list | tuple) else len(text) + 10
        _require(size)
        return text

    return write(value, 0)


class TemplateProblem(UsageProblem, reason="template"):
    """A body that cannot be expanded."""


def render(body: str, values: Mapping[str, object]) -> str:
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
        raise TemplateProblem(f"Line {exc.lineno}: {str(exc.message).rstrip('.')}.") from exc
    except SecurityError as exc:
        raise TemplateProblem(f"Not allowed: {str(exc).rstrip('.')}.") from exc
    except Unwritable as exc:
        raise TemplateProblem(f"A value {exc}.") from exc
    except (
        jinja2.TemplateError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
    ) as exc:
        raise TemplateProblem(f"{type(exc).__name__}: {exc}") from exc
    except RecursionError as exc:
        raise TemplateProblem("It is nested too deeply.") from exc
    return expansion.fill(rendered)


def undeclared(body: str) -> set[str]:
    """Return the names that a body uses and does not set. Raises TemplateProblem if it cannot be
    parsed."""
    import jinja2
    from jinja2 import meta

    env = _Expansion(body).environment()
    try:
        return meta.find_undeclared_variables(_restricted(env.parse(body))) - set(env.globals)
    except jinja2.TemplateSyntaxError as exc:
        raise TemplateProblem(f"Line {exc.lineno}: {str(exc.message).rstrip('.')}.") from exc


class _Expansion:
    """One expansion: its sandbox, its limits, and the values behind the placeholders."""

    def __init__(self, body: str) -> None:
        self._values: list[Any] = []
        self._steps = 0
        # CPU time, so that a busy machine does not stop a snippet.
        self._deadline = time.thread_time() + MAX_TIME_S
        number = 0
        while f"value_{number}_" in body:
            number += 1
        self._head = f"value_{number}_"
        self._placeholder = re.compile(f"{self._head}([0-9]+)_")

    def environment(self) -> Any:
        import jinja2
        from jinja2.exceptions import SecurityError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        expansion, methods = self, frozenset(_METHODS.split())

        class SandboxedTemplates(ImmutableSandboxedEnvironment):
            intercepted_binops = frozenset(("+", "*", "**", "%"))

            def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
                if operator == "%" and isinstance(left, str | bytes):
                    raise Unwritable("is formatted with '%', which snippets cannot use; use '~'")
                sized = (str, bytes, list, tuple)
                sizes = [len(side) for side in (left, right) if isinstance(side, sized)]
                if operator == "+":
                    _require(sum(sizes))
                elif operator == "*" and sizes:
                    count = right if isinstance(right, int) else left
                    _require(sizes[0] * max(count, 0) if isinstance(count, int) else 0)
                elif isinstance(left, int) and isinstance(right, int):
                    size = left.bit_length()
                    bits = size * max(right, 1) if operator == "**" else size + right.bit_length()
                    _require(bits if operator in ("*", "**") else 0)
                return super().call_binop(context, operator, left, right)

            def is_safe_callable(self, obj: object) -> bool:
                owner = getattr(obj, "__self__", None)
                if isinstance(owner, str | dict | list | tuple):
                    return getattr(obj, "__name__", "") in methods
                return obj is _range

            def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
                if isinstance(obj, jinja2.Undefined):
                    # StrictUndefined raises here, with the name.
                    return str(obj)
                if not self.is_safe_callable(obj):
                    name = getattr(obj, "__name__", type(obj).__name__)
                    raise SecurityError(f"'{name}' may not be called; use a filter")
                return super().call(context, obj, *args, **kwargs)

        def refuse(*_args: object) -> Any:
            raise SecurityError("a snippet loads no other template")

        env = SandboxedTemplates(
            undefined=jinja2.StrictUndefined,
            finalize=jinja2.pass_context(lambda _context, value: expansion.placeholder(value)),
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            cache_size=0,
            loader=jinja2.FunctionLoader(refuse),
        )
        filters = env.filters
        env.filters = {name: filters[name] for name in _FILTERS.split()}
        env.filters.update(join=_join, replace=_replace, string=as_text, tojson=_to_json)
        env.filters.update(indent=_indent, _counted=self.counted)
        env.globals = {"range": _range}
        return env

    def counted(self, items: Iterable[object]) -> Iterator[Any]:
        """Iterate and count towards the limits of this expansion."""
        for item in items:
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise TemplateProblem(f"Its loops take more than {MAX_STEPS:,} turns.")
            self._check_time()
            yield item

    def placeholder(self, value: object) -> str:
        """Store a value and return its placeholder."""
        import jinja2

        if isinstance(value, jinja2.Undefined):
            # StrictUndefined raises here.
            return str(value)
        self._check_time()
        self._values.append(value)
        return f"{self._head}{len(self._values) - 1}_"

    def collect(self, chunks: Iterable[str]) -> str:
        parts: list[str] = []
        size = 0
        for chunk in chunks:
            size += len(chunk)
            if size > MAX_TEXT:
                raise _too_long()
            parts.append(chunk)
        return "".join(parts)

    def fill(self, rendered: str) -> str:
        """Write each value for the token that its placeholder is in, and prove that no other token
        has changed."""
        text = rendered.replace("\r\n", "\n").replace("\r", "\n")
        pieces: list[str] = []
        expected: list[str] = []
        end = 0
        for token in _tokens(text):
            source = text[token.start : token.end]
            if self._head not in source:
                expected.append(source)
                continue
            written = self._written(text, token)
            pieces += (text[end : token.start], written)
            end = token.end
            expected += (
                [written[part.start : part.end] for part in _tokens(written)]
                if token.kind == "code"
                else [written]
            )
        filled = "".join((*pieces, text[end:]))
        if len(filled) > MAX_TEXT:
            raise _too_long()
        try:
            is_proven = [filled[token.start : token.end] for token in _tokens(filled)] == expected
        except TemplateProblem:
            is_proven = False
        if not is_proven:
            raise TemplateProblem(
                "A value would change how the code around it is read.",
                hint="Put spaces around the placeholder, or assign it to a variable.",
            )
        return filled

    def _written(self, text: str, token: _Token) -> str:
        """Return a token with the values of its placeholders written into it."""
        source = text[token.start : token.end]
        written: list[str] = []
        end = 0
        for match in self._placeholder.finditer(source):
            value = self._values[int(match[1])]
            try:
                if token.kind == "string":
                    words = _in_string(as_text(value), match)
                elif token.kind == "comment":
                    words = "".join(char if char.isprintable() else " " for char in as_text(value))
                elif token.kind == "magic":
                    words = _on_magic(as_text(value), match)
                elif source == match[0]:
                    words = _in_code(
                        value,
                        text[max(token.start - 80, 0) : token.start],
                        text[token.end : token.end + 80],
                    )
                else:
                    words = _checked(
                        as_text(value), _PART_OF_NAME, "is no part of a name; put spaces around it"
                    )
            except Unwritable as exc:
                raise TemplateProblem(f"{_shown(value)} {exc}.") from exc
            written += (source[end : match.start()], words)
            end = match.end()
        return "".join((*written, source[end:]))

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
            raise jinja2.TemplateSyntaxError(
                f"'{kind}' is not for snippets; use if, for and set", node.lineno
            )

    class Bounded(NodeTransformer):
        def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 (the visitor's own naming)
            self.generic_visit(node)
            node.iter = nodes.Filter(node.iter, "_counted", [], [], None, None, lineno=node.lineno)
            return node

        def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
            self.generic_visit(node)
            items = nodes.List(node.nodes, lineno=node.lineno)
            return nodes.Filter(items, "join", [], [], None, None, lineno=node.lineno)

    return Bounded().visit(tree)  # type: ignore[no-any-return]  # the visitor is untyped


class _Token(NamedTuple):
    """A token of Python, or a line that IPython reads, and where it is in the text."""

    kind: Literal["string", "comment", "magic", "code"]
    start: int
    end: int


def _tokens(text: str) -> Iterator[_Token]:
    """Cut a cell's text into tokens; blanks and line ends are left out. Raises TemplateProblem.

    A magic can only begin where a statement can. So each statement is read for itself, and the line
    behind it is looked at before Python's tokenizer sees it.
    """
    if _CELL_MAGIC.match(text):
        yield _Token("magic", 0, len(text))
        return
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    starts = list(itertools.accumulate(map(len, lines), initial=0))
    number = 0
    while number < len(lines):
        magic = _MAGIC.match(text, starts[number])
        if magic:
            yield _Token("magic", *magic.span())
            number += 1 + magic[0].count("\n")
            continue
        try:
            for kind, start, end in _statement(map(lines.__getitem__, range(number, len(lines)))):
                if kind is not None:
                    first, last = (
                        starts[number + start[0] - 1] + start[1],
                        starts[number + end[0] - 1] + end[1],
                    )
                    yield _Token(kind, first, last)
        except (tokenize.TokenError, SyntaxError) as exc:
            raise TemplateProblem(
                f"Line {number + 1}: a string or a bracket is not closed."
            ) from exc
        number += end[0]


_Place = tuple[int, int]


def _statement(
    lines: Iterator[str],
) -> Iterator[tuple[Literal["string", "comment", "code"] | None, _Place, _Place]]:
    """Yield the tokens of the first statement: kind, start and end. The last one, its end, has no
    kind."""
    brackets = 0
    # Since Python 3.12 an f-string is many tokens; here it is one string, as it was before.
    open_fstrings: list[_Place] = []
    for token in tokenize.generate_tokens(lambda: next(lines, "")):
        name = tokenize.tok_name[token.type]
        if name in ("FSTRING_START", "TSTRING_START"):
            open_fstrings.append(token.start)
        elif name in ("FSTRING_END", "TSTRING_END"):
            start = open_fstrings.pop()
            if not open_fstrings:
                yield "string", start, token.end
        elif open_fstrings:
            continue
        elif name in ("NEWLINE", "ENDMARKER") or (name == "NL" and not brackets):
            yield None, token.start, token.end
            return
        elif name == "ERRORTOKEN" and token.string[0] in "\"'":
            raise tokenize.TokenError("unterminated string literal", token.start)
        elif token.string.strip():
            brackets += (token.string in "([{") - (token.string in ")]}")
            yield _KINDS.get(name, "code"), token.start, token.end


def _in_code(value: object, before: str, after: str) -> str:
    text = literal(value)
    left, right = before[-1:], after[:1]
    if right in ("'", '"'):
        raise Unwritable("is right before a quote; put it inside the quotes")
    if text[:1] in ("'", '"', "b") and not isinstance(value, Name):
        if left in ("'", '"') or left.isalnum():
            raise Unwritable(
                "is text and touches a name or a quote; put it inside quotes, or give it 'type:"
                " name'"
            )
        return text
    # A negative number, and a number before a dot, would be read as a part of what is around it.
    left, right = before.rstrip(" \t")[-1:], after.lstrip(" \t")[:1]
    is_number = text[:1].isdigit() or text[:1] == "-"
    if is_number and (
        right == "." or (text[0] == "-" and (left in tuple("*+-/%@&|^~<>.") or right == "*"))
    ):
        return f"({text})"
    return text


def _in_string(text: str, match: re.Match[str]) -> str:
    """Return a value's text for the string that the placeholder is in."""
    source = match.string
    start = _STRING_START.match(source)
    assert start is not None
    prefix, quote = start[1].lower(), start[2][0]
    if source[match.start() - 1] == "\\":
        raise Unwritable(
            "is right after a backslash; put a space between them, or double the backslash"
        )
    if "r" in prefix:
        fits = all(char.isprintable() or (char == "\n" and len(start[2]) == 3) for char in text)
        if (
            quote in text
            or not fits
            or text.endswith("\\")
            or ("b" in prefix and not text.isascii())
        ):
            raise Unwritable("holds a character that the raw string around it cannot")
    else:
        text = "".join(_escaped(char, quote, is_bytes="b" in prefix) for char in text)
    if "f" not in prefix and "t" not in prefix:
        return text
    try:
        parts = getattr(ast.parse(source, mode="eval").body, "values", ())
    except SyntaxError:
        parts = ()
    texts = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    if sum(each.count(match[0]) for each in texts) != source.count(match[0]):
        raise Unwritable(
            "is in the braces of an f-string; assign it to a variable on a line before"
        )
    return text.replace("{", "{{").replace("}", "}}")


def _escaped(char: str, quote: str, *, is_bytes: bool) -> str:
    if char in ("\\", quote):
        return "\\" + char
    if is_bytes and not char.isascii():
        return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def _on_magic(text: str, match: re.Match[str]) -> str:
    line = match.string[: match.start()].rpartition("\n")[2]
    if text.startswith("-") and (not line.strip() or line[-1].isspace()):
        raise Unwritable("starts with '-', which a magic or the shell would take for an option")
    quote = ""
    for char in re.sub(r"\\.", "", line):
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
    pattern = _QUOTED_ON_MAGIC if quote else _BARE_ON_MAGIC
    return _checked(
        text,
        pattern,
        "holds characters that a magic or the shell may read as more than text; use Python",
    )


def _checked(text: str, pattern: re.Pattern[str], reason: str) -> str:
    if not pattern.fullmatch(text):
        raise Unwritable(reason)
    return text


def _shown(value: object) -> str:
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


def _require(size: int) -> None:
    if size > MAX_TEXT:
        raise Unwritable(f"is longer than {MAX_TEXT:,} characters")


def _join(items: Iterable[object], d: str = "", attribute: str | None = None) -> str:
    if attribute is not None:
        raise Unwritable(
            "is joined by an attribute, which snippets cannot do; use map(attribute=...)"
        )
    texts: list[str] = []
    size = 0
    for item in items:
        texts.append(as_text(item))
        size += len(texts[-1]) + len(d)
        _require(size)
    return as_text(d).join(texts)


def _replace(text: object, old: str, new: str, count: int = -1) -> str:
    whole = as_text(text)
    _require(len(whole) + whole.count(old) * len(new))
    return whole.replace(old, new, count)


def _indent(text: object, width: int = 4, first: bool = False) -> str:
    lines = as_text(text).split("\n")
    pad = " " * max(0, min(int(width), 80))
    _require(len(pad) * len(lines))
    padded = [pad + line if line and (i or first) else line for i, line in enumerate(lines)]
    return "\n".join(padded)


def _to_json(value: Any) -> Json:
    # This checks the size, and that the value is plain.
    literal(value)
    text = Json(json.dumps(value, ensure_ascii=False))
    text.value = value
    return text
