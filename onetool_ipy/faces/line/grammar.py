"""The grammar of a call as text: a line -> name, flags and arguments; a call -> its line.

Used by the magics, `$`, export, widgets and completion. Words come from `tokenizer`, values from
`values`. Any text gives a value or a UsageProblem, in time linear in the text; the only code run is
the `evaluate` that is handed in.

    %tool                              empty
    %tool list --json PATTERN          command; it reads its own words with `read_options`
    %tool NAME                         call (or a pack's page)
    %tool NAME key=value key={expr}    call; flags stand before or after NAME
    %tool NAME(a=expr, *rest, **more)  call; arguments without a name follow the schema's order, \
required ones first
    %tool NAME {"a": 1}                call; all arguments as JSON, a Python dict, or {mapping}
    %tool NAME?   %tool NAME --help    help
    $name key=value                    arguments of a snippet, read by `read_snippet_arguments`

A name ends at a blank, `(` or `{`; in quotes it is taken as it is and is never a sub-command. After
a lone `--` there are no flags. A `;` at the end hides the output, as everywhere in IPython. The
first word of the arguments may lack its key if only one argument can be meant: `https://x.org?a=1
depth=2`. The body of a `%%tool` cell is the one required text argument that is missing, the
argument of `--body`, or with `--args` a JSON or YAML mapping; nothing in it is evaluated.
"""

from __future__ import annotations

import ast
import difflib
import keyword
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.values import Json
from onetool_ipy.faces.line.tokenizer import (
    Word,
    bracket_end,
    closed_words,
    require_quotes,
    show,
    words,
)
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
    read_word,
    require_arguments,
)
from onetool_ipy.snippets.definition import Bare, Snippet, read_snippet

if TYPE_CHECKING:
    from yaml.events import Event

OptionKind = Literal[
    "switch", "text", "texts", "names", "optional", "number", "seconds", "variable"
]
"""The value of an option: none, a word, a word each time it is given, names separated by commas, a
word or none, a whole number, a number above 0, the name of a variable."""

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
_WANTED: Mapping[OptionKind, tuple[str, str]] = {
    "text": ("a value", "VALUE"),
    "texts": ("a value", "VALUE"),
    "names": ("names separated by commas", "a.b,c.*"),
    "number": ("a whole number", "10"),
    "seconds": ("a number of seconds above 0", "5"),
    "variable": ("the name of a variable", "x"),
}
_ANYTHING = Expected.of({})
_ANY_OBJECT = Expected.of({"type": "object"})
_KEY = re.compile(r"[\w$@.\-\[\]]+")
_LISTED = 8
_SNIPPET_OPTIONS: Mapping[str, OptionKind] = {"--save": "switch", "--description": "text"}
_PARAM = re.compile(r"([^\W\d]\w*)(?:=(.*))?", re.DOTALL)
_PARAM_KEY = re.compile(r"[^\W\d]\w*=")
_MAX_YAML = 1 << 20
_MAX_LEVELS = 64
_NAME_END = re.compile(r"[({]")


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
        """Make the flags from their names as typed."""
        return cls(
            **{"output" if name == "-o" else name[2:]: value for name, value in given.items()}
        )


@dataclass(frozen=True, slots=True)
class Options:
    """The words of a command, and its options by their name as typed (`--json`); a switch is True.

    `body` is the text of its cell.
    """

    words: list[str]
    values: dict[str, Any]
    body: str = ""


def read_options(
    text: str, known: Mapping[str, OptionKind], *, leading: int | None = None
) -> Options:
    """Split the text after a command into its words and options. All behind `leading` words is
    taken as it is."""
    return _read_options(text, closed_words(text), known, leading)


def read_shell_options(
    arguments: Sequence[str], known: Mapping[str, OptionKind], *, leading: int | None = None
) -> Options:
    """Split the arguments of a command line, which the shell has cut into words, as `read_options`
    does."""
    tokens: list[Word] = []
    place = 0
    for text in arguments:
        equals = text.find("=")
        tokens.append(Word(place, place + len(text), text, equals, place + equals + 1))
        place += len(text) + 1
    return _read_options("\n".join(arguments), tokens, known, leading)


def _read_options(
    text: str, found: Sequence[Word], known: Mapping[str, OptionKind], leading: int | None
) -> Options:
    values: dict[str, Any] = {}
    kept = _take_options(text, found, known, values, leading)
    return Options([word.text for word in kept], values)


def read_prompt(line: str, known: Mapping[str, OptionKind]) -> tuple[Json, str]:
    """Read the options at the start of a line; return them and the rest of the line as written."""
    tokens = words(line)
    options: dict[str, Any] = {}
    index = _skip_options(line, tokens, 0, known, options)
    if index < len(tokens) and _raw(line, tokens[index]) == "--":
        return options, line[tokens[index].end :].strip()
    return options, line[tokens[index].start :].strip() if index < len(tokens) else ""


def asks_for_help(text: str) -> bool:
    """Whether `--help` stands among the words of a sub-command, before a lone `--`. Never
    raises."""
    raw = [_raw(text, word) for word in words(text)]
    return "--help" in raw[: raw.index("--") if "--" in raw else None]


def plain_words(text: str) -> list[Word]:
    """The words that are not flags: the name or sub-command first. Never raises, so that it reads
    half-typed lines."""
    return [word for word in words(text) if not _OPTION.match(text, word.start, word.end)]


def _take_options(
    text: str,
    found: Sequence[Word],
    known: Mapping[str, OptionKind],
    given: Json,
    leading: int | None = None,
) -> list[Word]:
    """Read the options before a lone `--`, or among the first `leading` words, into `given`; return
    the other words."""
    kept: list[Word] = []
    index = 0
    while leading is None or len(kept) < leading:
        index = _skip_options(text, found, index, known, given)
        if index == len(found):
            break
        index += 1
        if _raw(text, found[index - 1]) == "--":
            break
        kept.append(found[index - 1])
    return [*kept, *found[index:]]


def _skip_options(
    text: str, found: Sequence[Word], index: int, known: Mapping[str, OptionKind], given: Json
) -> int:
    """Read the options from word `index` on; return the index of the first word that is not an
    option."""
    while index < len(found) and _OPTION.match(text, found[index].start, found[index].end):
        word = found[index]
        index += 1
        name = word.key if word.equals >= 0 else word.text
        kind = _require_known(name, known)
        if name in given and kind not in ("switch", "texts"):
            raise UsageProblem(f"{show(name)} is given twice.", hint="Keep one of them.")
        if kind == "switch":
            if word.equals >= 0:
                raise UsageProblem(
                    f"{show(name)} takes no value: {show(word.text)}.", hint=f"Write just {name}."
                )
            given[name] = True
            continue
        value = word.value if word.equals >= 0 else ""
        has_next = index < len(found) and _raw(text, found[index]) != "--"
        has_next = has_next and not _OPTION.match(text, found[index].start, found[index].end)
        is_missing = word.equals < 0 and not has_next
        if word.equals < 0 and not is_missing:
            word = found[index]
            value = word.text
            index += 1
        require_quotes(text, word)
        if kind == "optional":
            given[name] = value or True
            continue
        if kind == "names" and not is_missing:
            given[name] = [each.strip() for each in value.split(",") if each.strip()]
            continue
        read = _read_option(name, value, kind)
        given[name] = [*given.get(name, ()), read] if kind == "texts" else read
    return index


def _raw(text: str, word: Word) -> str:
    return text[word.start : word.end]


def _require_known(name: str, known: Mapping[str, OptionKind]) -> OptionKind:
    if name in known:
        return known[name]
    near = [flag for flag in difflib.get_close_matches(name[:40], known) if flag.startswith(name)]
    near = near or difflib.get_close_matches(name[:40], known, n=1, cutoff=0.7)
    listed = f"Flags: {', '.join(known)}." if known else "There are none here."
    word = name.lstrip("-")[:40]
    if (
        known is FLAGS
        and word.isidentifier()
        and not difflib.get_close_matches(word, [f.lstrip("-") for f in known])
    ):
        listed = f"An argument has no dashes: {word}=value. {listed}"
    raise UsageProblem(
        f"No flag {show(name)}." + (f" Did you mean '{near[0]}'?" if near else ""),
        hint=f"{listed} After -- come only arguments.",
    )


def _read_option(name: str, value: str, kind: OptionKind) -> str | int | float:
    if kind in ("text", "texts") and value:
        return value
    if kind == "number" and value.isascii() and value.isdecimal() and len(value) < 16:
        return int(value)
    if kind == "seconds":
        with suppress(ValueError):
            seconds = float(value)
            if math.isfinite(seconds) and seconds > 0:
                return seconds
    if kind == "variable" and value.isidentifier() and not keyword.iskeyword(value):
        return value
    got = f", not {show(value)}" if value else ""
    noun, example = _WANTED[kind]
    hint = (
        "Write %%tool save PACK above the functions to save."
        if name == "--save"
        else f"Write {name} {example}."
    )
    raise UsageProblem(f"{show(name)} needs {noun}{got}.", hint=hint)


def read_arguments(
    text: str,
    schema: Mapping[str, object] | Expected,
    evaluate: Evaluate,
    found: Sequence[Word] | None = None,
) -> Json:
    """Read argument text, each value by its schema. An error that `evaluate` raises becomes a
    UsageProblem.

    `found` are the words of the text, if they are known.
    """
    start = len(text) - len(text.lstrip())
    expected = Expected.of(schema)
    if text.startswith("(", start):
        return _read_python(_lone_group(text, start), expected, evaluate)
    if text.startswith("{", start):
        group = _lone_group(text, start)
        return require_arguments(read_expression(group, "", _ANY_OBJECT, evaluate), show(group))
    return _read_words(text, words(text) if found is None else found, expected, evaluate)


def _lone_group(text: str, start: int) -> str:
    """Return the bracket that holds all arguments; nothing may follow it."""
    end = bracket_end(text, start)
    if end < 0:
        _refuse_open(text, start)
    behind = text[end:].strip()
    if behind:
        raise UsageProblem(
            f"{show(behind)} follows the brackets that hold all arguments (character"
            f" {text.index(behind, end) + 1}).",
            hint="Put every argument inside the brackets, or write each as key=value.",
        )
    return text[start:end]


def _read_python(group: str, expected: Expected, evaluate: Evaluate) -> Json:
    source = "f" + group.replace("\r\n", "\n").replace("\r", "\n")
    call = parse_expression(source)
    if not isinstance(call, ast.Call):
        raise UsageProblem(
            f"{show(group)} is not a list of Python arguments: {call}",
            hint='Write NAME(key="text", other=5), or NAME key=text other=5.',
        )
    segment = _Segments(source)
    values: list[Any] = []
    for node in call.args:
        if isinstance(node, ast.Starred):
            rest = segment(node.value)
            items = evaluate_for("", rest, evaluate)
            if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
                raise UsageProblem(
                    f"{show('*' + rest)} is of type {type(items).__name__}, not a list.",
                    hint="Write key=value, or **{...} for a dict.",
                )
            values += items
        else:
            values.append(evaluate_for("", segment(node), evaluate))
    names = expected.names
    if len(values) > len(names):
        raise UsageProblem(
            f"Arguments without a name: {len(values)}, but at most {len(names)} fit.",
            hint=_listing(names),
        )
    args = dict(zip(names, values, strict=False))
    for item in call.keywords:
        value = evaluate_for(item.arg or "", segment(item.value), evaluate)
        source_text = show("**" + segment(item.value))
        more = {item.arg: value} if item.arg else require_arguments(value, source_text)
        for name in more:
            _require_new(name, args)
        args |= more
    return args


class _Segments:
    """The source of each node of a tree. `ast.get_source_segment` splits the whole text each time;
    this does not."""

    def __init__(self, source: str) -> None:
        self._data = source.encode()
        self._lines = [0, *(match.end() for match in re.finditer(b"\n", self._data))]

    def __call__(self, node: ast.expr) -> str:
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        segment = self._data[start:end].decode()
        return f"({segment})" if isinstance(node, ast.NamedExpr) or "\n" in segment else segment


def _read_words(text: str, found: Sequence[Word], expected: Expected, evaluate: Evaluate) -> Json:
    args: dict[str, Any] = {}
    bare: list[Word] = []
    for word, after in zip_longest(found, found[1:]):
        require_quotes(text, word)
        _require_joined(text, word, after)
        if not _has_key(text, word, expected):
            bare.append(word)
            continue
        _require_new(word.key, args)
        if after is not None and after.key in expected.names and expected.at(word.key).takes_text:
            _require_no_comma(word)
        args[word.key] = _read_value(text, word, word.key, expected.at(word.key), evaluate)
    if bare:
        name = _name_of_bare(text, found, bare, expected, args)
        is_group = bare[0].group and bare[0].equals < 0
        word = bare[0]._replace(equals=-1, value_start=bare[0].start, group=is_group)
        args[name] = _read_value(text, word, name, expected.at(name), evaluate)
    return args


def _has_key(text: str, word: Word, expected: Expected) -> bool:
    if word.equals == 0:
        raise UsageProblem(
            f"{show(word.text)} has no name before '=' (character {word.start + 1}).",
            hint="Write key=value.",
        )
    if word.equals < 0 or not (_KEY.fullmatch(word.key) or word.key in expected.names):
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
            f"Blanks around '=' in {show(text[word.start : after.end])} (character"
            f" {word.start + 1}).",
            hint="Write key=value without them, and a value with blanks in quotes.",
        )


def _require_no_comma(word: Word) -> None:
    """Refuse `a=x, b=y`: the comma would become part of the text."""
    if word.value.endswith(",") and not word.quoted and not word.group:
        raise UsageProblem(
            f"A comma stands behind {show(word.value[:-1])} (character {word.end}).",
            hint="Blanks separate arguments; a comma that is text goes in quotes.",
        )


def _require_new(name: str, args: Mapping[str, object]) -> None:
    if name in args:
        raise UsageProblem(f"{show(name)} is given twice.", hint="Keep one of them.")


def _read_value(text: str, word: Word, name: str, expected: Expected, evaluate: Evaluate) -> object:
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
    args: Mapping[str, object],
) -> str:
    """Return the one argument that the first word can be, if only that word lacks a key."""
    candidates = expected.required or expected.names
    name = candidates[0] if len(candidates) == 1 and candidates[0] not in args else ""
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
    token = show(text[word.start : word.end])
    raise UsageProblem(f"{token} names no argument (character {word.start + 1}).", hint=hint)


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


def read_snippet_definition(line: str, body: str) -> tuple[Snippet, bool]:
    """Read `%%snippet NAME [param[=default] ...] [--save]`: the snippet, and whether to save it."""
    options = read_options(line, _SNIPPET_OPTIONS)
    if not options.words:
        raise UsageProblem(
            "A snippet needs a name.", hint="Write %%snippet NAME [param[=default] ...]"
        )
    name, *declarations = options.words
    params: dict[str, Any] = {}
    for word in declarations:
        match = _PARAM.fullmatch(word)
        if match is None or match[1] in params:
            raise UsageProblem(
                f"'{word[:40]}' is not a valid parameter.",
                hint="Write name or name=default, each once.",
            )
        params[match[1]] = {} if match[2] is None else {"default": read_word(match[2])}
    data = {"description": options.values.get("--description", ""), "params": params, "body": body}
    return read_snippet(name, data, "this session"), "--save" in options.values


def read_snippet_arguments(text: str, evaluate: Evaluate) -> Json:
    """Read `key=value ...` after a snippet's name.

    `{expression}` gives its object. Any other value without quotes is `Bare`, as typed; a quoted
    one is text.
    """
    arguments: dict[str, Any] = {}
    for word in closed_words(text):
        raw = text[word.value_start : word.end]
        is_text = word.quoted and raw[0] in "\"'" and raw[-1] == raw[0]
        if not _PARAM_KEY.match(text, word.start, word.value_start) or (
            word.quoted and not is_text
        ):
            typed = _raw(text, word)
            if typed.startswith("-"):
                raise UsageProblem(
                    f"No flag {show(typed)}.",
                    hint="There are --show and --save: %snippet NAME --show",
                )
            raise UsageProblem(
                f"{show(typed)} names no parameter.", hint=f"Write name={typed[:40]}"
            )
        if word.key in arguments:
            raise UsageProblem(f"The parameter '{word.key}' was given twice.")
        is_expression = word.group and raw[0] == "{" and read_literal(raw) is MISSING
        value = word.value if is_text else Bare(raw)
        arguments[word.key] = (
            read_expression(raw, word.key, _ANYTHING, evaluate) if is_expression else value
        )
    return arguments


def read_body(
    body: str,
    args: Mapping[str, object],
    schema: Mapping[str, object],
    *,
    body_arg: str | None = None,
    as_args: bool = False,
) -> Json:
    """Join the arguments of the line and of the cell's body; raise UsageProblem for one given
    twice."""
    if body_arg is not None and as_args:
        raise UsageProblem("--body and --args cannot go together.", hint="Keep one of them.")
    text = body.removesuffix("\n")
    expected = Expected.of(schema)
    if as_args:
        more = _read_mapping(text, expected)
    elif body_arg is not None:
        if expected.names and body_arg not in expected.names:
            near = difflib.get_close_matches(body_arg[:40], expected.names, n=1)
            raise UsageProblem(
                f"--body: no argument {show(body_arg)}."
                + (f" Did you mean {show(near[0])}?" if near else ""),
                hint=f"There are: {', '.join(expected.names[:8])}.",
            )
        kind = expected.at(body_arg)
        more = {body_arg: text if kind.takes_text else read_plain(text.strip(), kind)}
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


def _missing_text(args: Mapping[str, object], expected: Expected) -> str:
    missing = [name for name in expected.required if name not in args]
    texts = [name for name in missing if expected.at(name).takes_text]
    if len(texts) == 1:
        return texts[0]
    if texts:
        message = f"The body may be {' or '.join(map(show, texts[:4]))}."
        raise UsageProblem(
            message, hint=f"Say which: --body {texts[0]}. Or give all arguments as YAML: --args."
        )
    message = "No required text argument is missing that the body could be."
    other = next((name for name in (*missing, *expected.names) if name not in args), "NAME")
    raise UsageProblem(
        message, hint=f"Say which one it is: --body {other}. Or give all as YAML: --args."
    )


def _read_mapping(text: str, expected: Expected) -> Json:
    if not text.strip():
        return {}
    value = read_json(text) if text.lstrip().startswith("{") else MISSING
    if value is MISSING:
        value = _read_yaml(text, expected)
    if isinstance(value, dict):
        return value
    raise UsageProblem(
        f"--args: the body is not a mapping: {show(text.strip())}.",
        hint="Write lines like  key: value",
    )


def _read_yaml(text: str, expected: Expected) -> object:
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
        reason = exc.problem or exc.context or "it cannot be read"
        raise UsageProblem(
            f"--args: the body is not YAML{where}: {reason}.", hint="Correct that line."
        ) from exc
    except (yaml.YAMLError, UnicodeError) as exc:
        raise UsageProblem(
            "--args: the body has a character that YAML does not allow.",
            hint="Remove it, or write JSON.",
        ) from exc
    return value


def _read_node(event: Event, events: Iterator[Event], expected: Expected, depth: int) -> object:
    import yaml

    if isinstance(event, yaml.AliasEvent):
        _refuse(f"the alias {show('*' + str(event.anchor))}; write the value again", event)
    if tag := getattr(event, "tag", None):
        _refuse(f"the tag {show(str(tag))}", event)
    if depth > _MAX_LEVELS:
        _refuse(f"more than {_MAX_LEVELS} levels", event)
    if isinstance(event, yaml.ScalarEvent):
        is_null = event.value in ("", "~") and expected.kinds != {"string"}
        return (
            event.value if event.style else None if is_null else read_plain(event.value, expected)
        )
    if isinstance(event, yaml.SequenceStartEvent):
        place = expected.items()
        items = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(_read_node(event, events, place, depth + 1))
        return items
    mapping: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        if not isinstance(event, yaml.ScalarEvent):
            _refuse("a key that is not text", event)
        if event.value in mapping:
            _refuse(f"{show(event.value)} a second time", event)
        mapping[event.value] = _read_node(next(events), events, expected.at(event.value), depth + 1)
    return mapping


def _refuse(what: str, event: Event) -> NoReturn:
    where = f"line {event.start_mark.line + 1}" if event.start_mark else "the body"
    raise UsageProblem(
        f"--args: {where} has {what}, which is not supported here.",
        hint="Write plain keys and values, or JSON.",
    )


@dataclass(frozen=True, slots=True)
class Line:
    """What a line asks for.

    `rest` is the argument text in its columns of the line: everything before it is blanked. `words`
    are its words, if the name ends where a word does. `is_silent`: the line ends in a `;`, so its
    result is not shown.
    """

    kind: Literal["empty", "command", "call", "help"]
    name: str = ""
    rest: str = ""
    flags: Flags = field(default_factory=Flags)
    is_silent: bool = field(default=False, compare=False)
    words: Sequence[Word] | None = field(default=None, compare=False)


def split_line(line: str, commands: Collection[str]) -> Line:
    """Read the text after `%tool`: what it asks for, by which name, with which flags."""
    visible = without_semicolon(line)
    request = _split(visible, commands)
    return request if visible == line else replace(request, is_silent=True)


def _split(line: str, commands: Collection[str]) -> Line:
    line = "--help" if line.strip() == "-h" else line
    tokens = words(line)
    options: dict[str, Any] = {}
    index = _skip_options(line, tokens, 0, FLAGS, options)
    no_more_flags = index < len(tokens) and _raw(line, tokens[index]) == "--"
    index += no_more_flags
    if index == len(tokens):
        flags = Flags.of(options)
        return Line("help" if flags.help else "empty", flags=flags)
    word, after = tokens[index], tokens[index + 1 :]
    name, name_end = _read_name(line, word)
    if name in commands and _raw(line, word) == name:
        return Line("command", name, _keep(line, [(word.end, len(line))]), Flags.of(options))
    kept = after if no_more_flags else _take_options(line, after, FLAGS, options)
    rest = _keep(line, [(name_end, word.end), *((each.start, each.end) for each in kept)])
    flags = Flags.of(options)
    if (
        flags.help
        or rest.strip() in ("?", "??")
        or (line[name_end - 1] == "?" and not rest.strip())
    ):
        return Line("help", name.rstrip("?"), flags=flags)
    return Line("call", name, rest, flags, words=kept if name_end == word.end else None)


def without_semicolon(line: str) -> str:
    """The line without the `;` at its end that hides the output; a `;` in quotes is part of a
    value."""
    if not line.rstrip().endswith(";"):
        return line
    last = words(line)[-1]
    in_quotes = last.unclosed >= 0 and line[last.unclosed] in "\"'"
    return line if in_quotes else line.rstrip()[:-1]


def _read_name(line: str, word: Word) -> tuple[str, int]:
    """Return the tool's name and where it ends: arguments may follow it without a blank."""
    require_quotes(line, word)
    raw = _raw(line, word)
    if raw[0] in "\"'" and word.text:
        return word.text, word.end
    match = _NAME_END.search(raw)
    name = raw[: match.start()] if match else raw
    if not word.text or not name or "=" in name:
        raise UsageProblem(
            f"{show(raw)} is where a tool's name should be (character {word.start + 1}).",
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
