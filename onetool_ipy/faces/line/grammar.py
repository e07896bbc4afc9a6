"""Words of a line: where each starts and ends, what stood in quotes, which bracket is still open.

Owns blanks, quotes and brackets, for `%tool`, `$`, sub-commands and completion. Knows nothing of
tools, flags or schemas. `words` never raises and takes time linear in the text; `split_words` is
its strict twin.

    blanks      end a word, odd ones too (no-break space), but not inside quotes or brackets
    "a b"       text; `\\"` and `\\\\` are the only escapes, so "C:\\temp" stays as typed
    'a b'       text, without escapes
    foo" bar"   one word, `foo bar`, as in a shell
    don't       `'` between two letters or digits is an apostrophe, never a quote
    [1, 2]      one word as typed, Python's strings in it too; also in the middle: a[? b == 'c']
    :(          a bracket that nothing closes is an ordinary character; `Word.unclosed` has it
    a\\b         a backslash outside quotes is an ordinary character

Flags of a call and options of a sub-command: `--soft`, `--timeout 5`, `--timeout=5`, `-o x`.

Owns which flags a call has and how an option is read; a table says what stands behind each. Does
not know what they do. An option is taken once; a word in quotes is never one; behind a lone `--`
there are none.

Argument text -> arguments by name, in its three forms.

    key=value key={expr}     words; see `words` for quotes and `values` for how a value is read
    (a=expr, *rest, **more)  Python; what has no name goes in the schema's order, required first
    {"a": 1}                 all arguments as JSON, as a Python dict, or as {mapping}

Owns the forms and what they refuse: a key twice, `key==v`, blanks around `=`, a word without a key.
The first word may go without a key, and is then the one required argument, or the only one there
is: `https://x.org?a=1 depth=2`. A text before `=` is a key if the schema knows it or it looks like
a name. `key=` alone is empty text, refused where text does not fit. A value that starts with a
bracket which nothing closes is refused, but for text without quotes. Characters count from 1.

The body of a `%%tool` cell -> arguments.

Owns where a body goes, and how `--args` reads it as JSON or YAML. Values are read by their schema
as on a line, so `zip: 00501` stays text where text is wanted and `no` never turns into false.
Nothing in a body is evaluated.

- The body is the one required text argument that is still missing, or the argument of `--body`.
  The line break that ends the cell is no part of it. A body of blanks is none.
- `--args`: a mapping. YAML may have 1 MiB and 64 levels; aliases, tags and a key twice are refused.

The grammar of `%tool`: a line -> what is asked, and a call -> its line.

Owns the line as a whole: flags, name, sub-command, argument text. Words and quotes are `words`,
flags `flags`, arguments `arguments`, values `values`, a cell's body `body`; what a caller needs of
them is imported from here. Pure: the one thing run is the `evaluate` that is handed in. Whatever
the text, the answer is a value or a UsageProblem, in time linear in the text.

    %tool                              empty
    %tool list --json PATTERN          command; the words are its own, see `read_options`
    %tool NAME                         call (or a pack's page)
    %tool NAME key=value key={expr}    call; flags stand before or after NAME
    %tool NAME(a=expr, ...)            call
    %tool NAME {"a": 1}                call
    %tool NAME?   %tool NAME --help    help

A name ends at a blank, `(` or `{`; in quotes it is taken as it is, and is no sub-command. Behind a
lone `--` there are no flags. A `;` at the end hides the output, as everywhere in IPython, and is no
part of the arguments.
"""

from __future__ import annotations

import ast
import difflib
import json
import keyword
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.values import to_json
from onetool_ipy.faces.line.tokenizer import Word, bracket_end, require_quotes, show, words
from onetool_ipy.faces.line.values import (
    MISSING,
    Evaluate,
    Expected,
    evaluate_for,
    parse_expression,
    read_expression,
    read_json,
    read_literal,
    read_plain,
    require_arguments,
)

if TYPE_CHECKING:
    from yaml.events import Event

__all__ = [
    "FLAGS",
    "Evaluate",
    "Flags",
    "Kind",
    "Line",
    "OptionKind",
    "Options",
    "format_call",
    "is_silenced",
    "read_arguments",
    "read_body",
    "read_options",
    "skip_options",
    "split_line",
    "take_options",
]


OptionKind = Literal["switch", "text", "number", "seconds", "variable"]
"""What stands behind an option: nothing, a word, a whole number, a number above 0, a variable."""

FLAGS: Mapping[str, OptionKind] = {
    "--args": "switch",
    "--bg": "switch",
    "--body": "text",
    "--dry": "switch",
    "--help": "switch",
    "--save": "text",
    "--soft": "switch",
    "--timeout": "seconds",
    "--unchecked": "switch",
    "-o": "variable",
}
"""The flags of a call, before or after the tool's name."""

_OPTION = re.compile(r"--.|-[^\W\d]", re.DOTALL)
_WANTED: Mapping[OptionKind, str] = {
    "text": "a word",
    "number": "a whole number",
    "seconds": "a number of seconds above 0",
    "variable": "the name of a variable",
}


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a call; `output` is the variable of `-o`, `timeout` is in seconds."""

    soft: bool = False
    timeout: float | None = None
    bg: bool = False
    dry: bool = False
    help: bool = False
    output: str | None = None
    body: str | None = None
    args: bool = False
    save: str | None = None
    unchecked: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Flags:
        """Take flags by their name as typed."""
        return cls(**{"output" if name == "-o" else name[2:]: value for name, value in given.items()})


@dataclass(frozen=True, slots=True)
class Options:
    """The words of a sub-command, and its options by name as typed (`--json`); a switch is True."""

    words: list[str]
    given: dict[str, Any]


def read_options(text: str, known: Mapping[str, OptionKind]) -> Options:
    """Split the text behind a sub-command into its words and options."""
    found = words(text)
    for word in found:
        require_quotes(text, word)
    given: dict[str, Any] = {}
    kept = take_options(text, found, known, given)
    return Options([word.text for word in kept], given)


def take_options(
    text: str, found: Sequence[Word], known: Mapping[str, OptionKind], given: dict[str, Any]
) -> list[Word]:
    """Read every option up to a lone `--` into `given`; return the words that are none."""
    kept: list[Word] = []
    index = 0
    while (index := skip_options(text, found, index, known, given)) < len(found):
        word = found[index]
        index += 1
        if text[word.start : word.end] == "--":
            return [*kept, *found[index:]]
        kept.append(word)
    return kept


def skip_options(
    text: str,
    found: Sequence[Word],
    index: int,
    known: Mapping[str, OptionKind],
    given: dict[str, Any],
) -> int:
    """Read the options from word `index` on; return the index of the first word that is none."""
    while index < len(found) and _OPTION.match(text, found[index].start, found[index].end):
        word = found[index]
        index += 1
        name = word.key if word.equals >= 0 else word.text
        kind = _require_known(name, known)
        if name in given and kind != "switch":
            raise UsageProblem(f"{show(name)} is given twice.", hint="Keep one of them.")
        if kind == "switch":
            if word.equals >= 0:
                raise UsageProblem(f"{show(name)} takes no value: {show(word.text)}.", hint=f"Write just {name}.")
            given[name] = True
            continue
        value = word.value if word.equals >= 0 else ""
        if word.equals < 0 and index < len(found) and not _is_dashed(text, found[index]):
            word = found[index]
            value = word.text
            index += 1
        require_quotes(text, word)
        given[name] = _read_option(name, value, kind)
    return index


def _is_dashed(text: str, word: Word) -> bool:
    return bool(_OPTION.match(text, word.start, word.end)) or text[word.start : word.end] == "--"


def _require_known(name: str, known: Mapping[str, OptionKind]) -> OptionKind:
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name[:40], known, n=1)
    listed = f"Flags: {', '.join(known)}." if known else "There are none here."
    word = name.lstrip("-")[:40]
    if known is FLAGS and word.isidentifier() and not difflib.get_close_matches(word, [f.lstrip("-") for f in known]):
        listed = f"An argument has no dashes: {word}=value. {listed}"
    raise UsageProblem(
        f"No flag {show(name)}." + (f" Did you mean '{near[0]}'?" if near else ""),
        hint=f"{listed} After -- come only arguments.",
    )


def _read_option(name: str, value: str, kind: OptionKind) -> Any:
    if kind == "text" and value:
        return value
    if kind == "number" and value.isascii() and value.isdecimal() and len(value) < 16:
        return int(value)
    if kind == "seconds" and (seconds := _read_seconds(value)) is not None:
        return seconds
    if kind == "variable" and value.isidentifier() and not keyword.iskeyword(value):
        return value
    got = f"got {show(value)}" if value else "got nothing"
    example = {"text": "WORD", "number": "10", "seconds": "5", "variable": "x"}[kind]
    raise UsageProblem(f"{show(name)} wants {_WANTED[kind]}, {got}.", hint=f"Write {name} {example}.")


def _read_seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


_ANY_OBJECT = Expected.of({"type": "object"})
_KEY = re.compile(r"[\w$@.\-\[\]]+")
_LISTED = 8


def read_arguments(text: str, schema: Mapping[str, Any], evaluate: Evaluate) -> dict[str, Any]:
    """Read argument text, each value by its schema; what `evaluate` raises is a UsageProblem."""
    start = len(text) - len(text.lstrip())
    expected = Expected.of(schema)
    if text.startswith("(", start):
        return _read_python(_lone_group(text, start), expected, evaluate)
    if text.startswith("{", start):
        group = _lone_group(text, start)
        return require_arguments(read_expression(group, "", _ANY_OBJECT, evaluate), show(group))
    return _read_words(text, expected, evaluate)


def _lone_group(text: str, start: int) -> str:
    """Give the bracket that holds all arguments; nothing may stand behind it."""
    end = bracket_end(text, start)
    if end < 0:
        _refuse_open(text, start)
    behind = text[end:].strip()
    if behind:
        raise UsageProblem(
            f"{show(behind)} stands behind the brackets that hold all arguments "
            f"(character {text.index(behind, end) + 1}).",
            hint="Put every argument inside the brackets, or write each as key=value.",
        )
    return text[start:end]


def _read_python(group: str, expected: Expected, evaluate: Evaluate) -> dict[str, Any]:
    source = "f" + group.replace("\r\n", "\n").replace("\r", "\n")
    call = parse_expression(source)
    if not isinstance(call, ast.Call):
        raise UsageProblem(
            f"{show(group)} are no arguments in Python: {call}",
            hint='Write NAME(key="text", other=5), or NAME key=text other=5.',
        )
    segment = _Segments(source)
    values: list[Any] = []
    for node in call.args:
        if isinstance(node, ast.Starred):
            rest = segment(node.value)
            values += _require_items(evaluate_for("", rest, evaluate), rest)
        else:
            values.append(evaluate_for("", segment(node), evaluate))
    args = _by_order(values, expected)
    for item in call.keywords:
        value = evaluate_for(item.arg or "", segment(item.value), evaluate)
        shown = show("**" + segment(item.value))
        more = {item.arg: value} if item.arg else require_arguments(value, shown)
        for name in more:
            _require_new(name, args)
        args |= more
    return args


class _Segments:
    """The source of each node of a tree. Linear: `ast.get_source_segment` splits all text anew."""

    def __init__(self, source: str) -> None:
        self._data = source.encode()
        self._lines = [0, *(match.end() for match in re.finditer(b"\n", self._data))]

    def __call__(self, node: ast.expr) -> str:
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        found = self._data[start:end].decode()
        return f"({found})" if isinstance(node, ast.NamedExpr) or "\n" in found else found


def _require_items(value: object, source: str) -> list[Any]:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return list(value)
    raise UsageProblem(
        f"{show('*' + source)} is of type {type(value).__name__}, not a list.",
        hint="Write key=value, or **{...} for a dict.",
    )


def _by_order(values: Sequence[Any], expected: Expected) -> dict[str, Any]:
    names = expected.names
    if len(values) > len(names):
        raise UsageProblem(
            f"Arguments without a name: {len(values)}, but at most {len(names)} fit.",
            hint=_listing(names),
        )
    return dict(zip(names, values, strict=False))


def _read_words(text: str, expected: Expected, evaluate: Evaluate) -> dict[str, Any]:
    args: dict[str, Any] = {}
    bare: list[Word] = []
    found = words(text)
    for word, after in zip_longest(found, found[1:]):
        require_quotes(text, word)
        _require_joined(text, word, after)
        if not _has_key(text, word, expected):
            bare.append(word)
            continue
        _require_new(word.key, args)
        args[word.key] = _read_value(text, word, word.key, expected.at(word.key), evaluate)
    if bare:
        name = _name_of_bare(text, found, bare, expected, args)
        is_group = bare[0].group and bare[0].equals < 0
        word = replace(bare[0], equals=-1, value_start=bare[0].start, group=is_group)
        args[name] = _read_value(text, word, name, expected.at(name), evaluate)
    return args


def _has_key(text: str, word: Word, expected: Expected) -> bool:
    if word.equals == 0:
        raise UsageProblem(
            f"{show(word.text)} has no name before '=' (character {word.start + 1}).",
            hint="Write key=value.",
        )
    if word.equals < 0 or not (word.key in expected.names or _KEY.fullmatch(word.key)):
        return False
    if word.value_start < word.end and text[word.value_start] == "=":
        raise UsageProblem(
            f"There is '==' in {show(word.text)} (character {word.value_start}).",
            hint=f"Write {word.key}=value; a value that starts with '=' goes in quotes.",
        )
    return True


def _require_joined(text: str, word: Word, after: Word | None) -> None:
    """Refuse `k = v`, `k =v` and `k= v`."""
    if after is None or (word.equals >= 0 and word.value_start < word.end):
        return
    if word.equals > 0 > after.equals or word.equals < 0 == after.equals:
        raise UsageProblem(
            f"Blanks around '=' in {show(text[word.start : after.end])} (character {word.start + 1}).",
            hint="Write key=value without them, and a value with blanks in quotes.",
        )


def _require_new(name: str, args: Mapping[str, Any]) -> None:
    if name in args:
        raise UsageProblem(f"{show(name)} is given twice.", hint="Keep one of them.")


def _read_value(text: str, word: Word, name: str, expected: Expected, evaluate: Evaluate) -> Any:
    value = word.value
    if word.unclosed == word.value_start and (word.quoted or not expected.takes_text):
        _refuse_open(text, word.unclosed)
    if word.quoted:
        return value
    if word.group and value[0] == "{":
        return read_expression(value, name, expected, evaluate)
    if expected.takes_text:
        return read_plain(value, expected)
    if not value:
        raise UsageProblem(f"{show(name)} has no value.", hint=f"Write {name}=value.")
    if value[0] in "([{" and read_literal(value) is MISSING:
        raise UsageProblem(
            f"{show(value)} for {show(name)} is neither JSON nor a Python literal.",
            hint=f"Put text in quotes; for variables write {name}={{...}}.",
        )
    return read_plain(value, expected)


def _name_of_bare(
    text: str,
    found: Sequence[Word],
    bare: Sequence[Word],
    expected: Expected,
    args: Mapping[str, Any],
) -> str:
    """Give the one argument that the first word can only be, if it alone has no key."""
    wanted = expected.required or expected.names
    name = wanted[0] if len(wanted) == 1 and wanted[0] not in args else ""
    if name and bare == [found[0]]:
        return name
    opened = next((word.unclosed for word in found if word.unclosed >= 0), len(text))
    if opened < bare[-1].start:
        _refuse_open(text, opened)
    word = bare[0]
    before = [other.key for other in found if other.equals > 0 and other.start < word.start]
    meant = before[-1] if before else name
    hint = f"Write key=value. {_listing(expected.names)}"
    if text[word.start] == "#":
        hint = "A %tool line takes no comment; give it a line of its own."
    elif meant and expected.at(meant).takes_text:
        hint = f'Text with blanks goes in quotes: {meant}="...".'
    shown = show(text[word.start : word.end])
    raise UsageProblem(f"{shown} has no name (character {word.start + 1}).", hint=hint)


def _refuse_open(text: str, start: int) -> NoReturn:
    raise UsageProblem(
        f"The '{text[start]}' at character {start + 1} is never closed: {show(text[start:])}.",
        hint="Close it, or put the value in quotes.",
    )


def _listing(names: Sequence[str]) -> str:
    if not names:
        return "No arguments are known."
    end = ", ..." if len(names) > _LISTED else "."
    return f"Arguments: {', '.join(names[:_LISTED])}{end}"


_MAX_YAML = 1 << 20
_MAX_LEVELS = 64


def read_body(
    body: str,
    args: Mapping[str, Any],
    schema: Mapping[str, Any],
    *,
    body_arg: str | None = None,
    as_args: bool = False,
) -> dict[str, Any]:
    """Give the arguments of the line and of the body together; none may be given twice."""
    if body_arg is not None and as_args:
        raise UsageProblem("--body and --args cannot go together.", hint="Keep one of them.")
    text = body.removesuffix("\n")
    expected = Expected.of(schema)
    if as_args:
        more = _read_mapping(text, expected)
    elif body_arg is not None:
        more = {_require_argument(body_arg, expected): _read_text(text, expected.at(body_arg))}
    elif not text.strip():
        return dict(args)
    else:
        more = {_missing_text(args, expected): text}
    for name in more:
        if name in args:
            raise UsageProblem(
                f"{show(name)} is given twice: in the line and in the body.",
                hint="Keep one of them.",
            )
    return {**args, **more}


def _require_argument(name: str, expected: Expected) -> str:
    if name in expected.names or not expected.names:
        return name
    near = difflib.get_close_matches(name[:40], expected.names, n=1)
    raise UsageProblem(
        f"--body: no argument {show(name)}." + (f" Did you mean {show(near[0])}?" if near else ""),
        hint=f"There are: {', '.join(expected.names[:8])}.",
    )


def _read_text(text: str, expected: Expected) -> Any:
    return text if expected.takes_text else read_plain(text.strip(), expected)


def _missing_text(args: Mapping[str, Any], expected: Expected) -> str:
    missing = [name for name in expected.required if name not in args]
    texts = [name for name in missing if expected.at(name).takes_text]
    if len(texts) == 1:
        return texts[0]
    if texts:
        message = f"The body may be {' or '.join(map(show, texts[:4]))}."
        raise UsageProblem(message, hint=f"Say which: --body {texts[0]}. Or give all arguments as YAML: --args.")
    message = "No required text argument is missing that the body could be."
    other = next((name for name in (*missing, *expected.names) if name not in args), "NAME")
    raise UsageProblem(message, hint=f"Say which one it is: --body {other}. Or give all as YAML: --args.")


def _read_mapping(text: str, expected: Expected) -> dict[str, Any]:
    if not text.strip():
        return {}
    value = read_json(text) if text.lstrip().startswith("{") else MISSING
    if value is MISSING:
        value = _read_yaml(text, expected)
    if isinstance(value, dict):
        return value
    raise UsageProblem(
        f"--args: the body is no mapping: {show(text.strip())}.",
        hint="Write lines like  key: value",
    )


def _read_yaml(text: str, expected: Expected) -> Any:
    import yaml

    if len(text) > _MAX_YAML:
        raise UsageProblem(
            f"--args: {len(text):,} characters are too many for YAML (at most {_MAX_YAML:,}).",
            hint="Write it as JSON, or hand over a variable: key={name}.",
        )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events: Iterator[Event] = iter(yaml.parse(text, Loader=loader))
        next(events)  # the stream starts
        if isinstance(next(events), yaml.StreamEndEvent):
            return {}
        value = _read_node(next(events), events, expected, 0)
        next(events)  # the document ends
        if not isinstance(last := next(events), yaml.StreamEndEvent):
            _refuse("a second document", last)
    except yaml.MarkedYAMLError as exc:
        where = f" in line {exc.problem_mark.line + 1}" if exc.problem_mark else ""
        told = exc.problem or exc.context or "it cannot be read"
        raise UsageProblem(f"--args: the body is no YAML{where}: {told}.", hint="Mend that line.") from exc
    except (yaml.YAMLError, UnicodeError) as exc:
        raise UsageProblem(
            "--args: the body holds a character that YAML does not take.",
            hint="Take it out, or write JSON.",
        ) from exc
    return value


def _read_node(event: Event, events: Iterator[Event], expected: Expected, depth: int) -> Any:
    import yaml

    if isinstance(event, yaml.AliasEvent):
        _refuse(f"the alias {show('*' + str(event.anchor))}; write the value again", event)
    if tag := getattr(event, "tag", None):
        _refuse(f"the tag {show(str(tag))}", event)
    if depth > _MAX_LEVELS:
        _refuse(f"more than {_MAX_LEVELS} levels", event)
    if isinstance(event, yaml.ScalarEvent):
        return event.value if event.style else _read_scalar(event.value, expected)
    if isinstance(event, yaml.SequenceStartEvent):
        place = expected.items()
        items = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(_read_node(event, events, place, depth + 1))
        return items
    found: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        if not isinstance(event, yaml.ScalarEvent):
            _refuse("a key that is no text", event)
        if event.value in found:
            _refuse(f"{show(event.value)} a second time", event)
        found[event.value] = _read_node(next(events), events, expected.at(event.value), depth + 1)
    return found


def _read_scalar(text: str, expected: Expected) -> Any:
    if text in ("", "~") and expected.kinds != {"string"}:
        return None
    return read_plain(text, expected)


def _refuse(what: str, event: Event) -> NoReturn:
    where = f"line {event.start_mark.line + 1}" if event.start_mark else "the body"
    raise UsageProblem(
        f"--args: {where} has {what}, which is not taken here.",
        hint="Write plain keys and values, or JSON.",
    )


Kind = Literal["empty", "command", "call", "help"]
"""What a line asks for."""

_NAME_END = re.compile(r"[({]")
_BARE_NAME = re.compile(r"""(?!-)[^\s"'({=?;]+""")
_BARE_KEY = re.compile(r"[^\W\d][\w.]*")
_BARE_TEXT = re.compile(r"[^\W\d_](?:[\w./:@+-]*\w)?")


@dataclass(frozen=True, slots=True)
class Line:
    """What a line asks for.

    `rest` is the argument text in the columns of the line: all else before it is blanked.
    """

    kind: Kind
    name: str = ""
    rest: str = ""
    flags: Flags = field(default_factory=Flags)


def split_line(line: str, commands: Collection[str]) -> Line:
    """Tell what the text behind `%tool` asks for, by which name, with which flags."""
    line = _without_semicolon(line)
    found = words(line)
    given: dict[str, Any] = {}
    index = skip_options(line, found, 0, FLAGS, given)
    no_more_flags = index < len(found) and line[found[index].start : found[index].end] == "--"
    index += no_more_flags
    if index == len(found):
        flags = Flags.of(given)
        return Line("help" if flags.help else "empty", flags=flags)
    word, after = found[index], found[index + 1 :]
    name, name_end = _read_name(line, word)
    if name in commands and line[word.start : word.end] == name:
        return Line("command", name, _keep(line, [(word.end, len(line))]), Flags.of(given))
    kept = after if no_more_flags else take_options(line, after, FLAGS, given)
    rest = _keep(line, [(name_end, word.end), *((each.start, each.end) for each in kept)])
    flags = Flags.of(given)
    if flags.help or rest.strip() in ("?", "??") or (line[name_end - 1] == "?" and not rest.strip()):
        return Line("help", name.rstrip("?"), flags=flags)
    return Line("call", name, rest, flags)


def format_call(name: str, args: Mapping[str, Any]) -> str:
    """Write the `%tool` line of a call; where the arguments fit the schema it reads back to them.

    What JSON cannot hold is written as `core.values.to_json` makes it.
    """
    shown = name if _BARE_NAME.fullmatch(name) else _double(name)
    plain = to_json(dict(args))
    if all(_BARE_KEY.fullmatch(key) for key in plain):
        return " ".join(["%tool", shown, *(f"{key}={_write(plain[key])}" for key in plain)])
    return f"%tool {shown} {_dump(plain)}"


def is_silenced(line: str) -> bool:
    """Whether a line ends in a `;` that is no part of a value: what it gives is not to be shown."""
    return _without_semicolon(line) != line


def _without_semicolon(line: str) -> str:
    if not line.rstrip().endswith(";"):
        return line
    last = words(line)[-1]
    in_quotes = last.unclosed >= 0 and line[last.unclosed] in "\"'"
    return line if in_quotes else line.rstrip()[:-1]


def _read_name(line: str, word: Word) -> tuple[str, int]:
    """Give the tool's name and where it ends: arguments may stand right behind it."""
    require_quotes(line, word)
    raw = line[word.start : word.end]
    if raw[0] in "\"'" and word.text:
        return word.text, word.end
    match = _NAME_END.search(raw)
    name = raw[: match.start()] if match else raw
    if not word.text or not name or "=" in name:
        raise UsageProblem(
            f"{show(raw)} stands where a tool's name should be (character {word.start + 1}).",
            hint="Write the name first: %tool NAME key=value. %tool list shows the names.",
        )
    return name, word.start + len(name)


def _keep(line: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []
    place = 0
    for start, end in spans:
        pieces += " " * (start - place), line[start:end]
        place = end
    return "".join(pieces)


def _write(value: Any) -> str:
    if not isinstance(value, str):
        return _dump(value)
    if not value.isprintable():
        return "{" + repr(value) + "}"
    is_bare = _BARE_TEXT.fullmatch(value) and read_literal(value) is MISSING
    return value if is_bare else _double(value)


def _double(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _dump(value: Any) -> str:
    found = json.dumps(value, ensure_ascii=False)
    return found if found.isprintable() else json.dumps(value)
