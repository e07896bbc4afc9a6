"""ToolSpec and ToolCall: what a tool is, and what is asked of it. `ToolResult`, the answer, is in
`result`.

Also `Source`, the protocol of where tools come from, and `format_call`, which writes a call as the
`%tool` line that repeats it; `faces.line` reads such lines.

Fingerprints are short hashes that stay the same in every process as long as the tool is the same.
`fingerprint` covers everything that a tool is; a source may say what that is by
`ToolSpec.identity`. Code of this package is left out: it changes with the version, and the user
installed it. `schema_hash` covers what a tool takes and gives. `code_hash` covers also its own
code, with the functions of the user's that it calls by name, and the place that it calls: an
environment, a server.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any, Literal, NamedTuple, Protocol

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.printable import printable
from onetool_ipy.base.records import once
from onetool_ipy.base.values import Json
from onetool_ipy.core.names import FOR_PEOPLE, READERS, TOOLBOX
from onetool_ipy.schema.check import Checker, Converter
from onetool_ipy.schema.read import Param, argument_lines, python_names, signature_text, usage_text
from onetool_ipy.schema.read import params as schema_params

Origin = Literal["builtin", "file", "entry_point", "config", "bundle", "mcp", "cell"]
"""Where a tool was defined, in the order in which names are given away."""

PROJECT_ORIGINS: frozenset[Origin] = frozenset(("file", "config", "bundle", "mcp"))
"""What comes from a project's files, and runs only where the user trusts it."""

BADGES = ("read-only", "destructive", "idempotent", "open world")
"""What a tool may do to the world, in the order in which screens offer it as a filter."""

CallSource = Literal["python", "magic", "shortcut", "widget", "model", "rest", "mcp", "cli", "tool"]
"""Who asked for a call; `tool` is another tool. Calls by a person have no time limit of their
own."""

_MAX_META_SHOWN = 1_000
_DEEP = 8
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PLAIN = (str, bytes, int, float, type(None))
_BARE_NAME = re.compile(r"""(?!-)[^\s"'({=?;]+""")
_BARE_KEY = re.compile(r"[^\W\d][\w.]*")
_BARE_TEXT = re.compile(r"[^\W\d_](?:[\w./:@+-]*\w)?")
_LITERALS = frozenset(("true", "True", "false", "False", "null", "None"))
"""Words that are read as values; as texts they need quotes."""


class Problem(NamedTuple):
    """Something that is wrong and stops nothing else; listed by `ot.health()`. `server` is the MCP
    server's name, `secret` that of the secret that is missing."""

    where: str
    message: str
    hint: str = ""
    server: str = ""
    secret: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f" {self.hint}" if self.hint else "")

    @property
    def text(self) -> str:
        """The message as a sentence, and the hint."""
        end = "" if self.message.endswith((".", "!", "?")) else "."
        return f"{self.message}{end} {self.hint}".rstrip()


class Dep(NamedTuple):
    """Something a tool needs besides Python: a command (`cli`) or a library (`lib`), and how to get
    it."""

    kind: Literal["cli", "lib"]
    name: str
    version_flag: str = ""
    install: str = ""


class ServerFacts(NamedTuple):
    """What an MCP server says of its tool besides words and schemas. All of it is for people and
    for other clients.

    `hints` are "destructive", "idempotent" and "open world"; `icon` is a `data:` address, `meta` is
    `_meta`. `definition` is our own word for the server: the fingerprint of how it is started or
    reached here.
    """

    server: str = ""
    definition: str = ""
    title: str = ""
    hints: Mapping[str, bool] = {}
    icon: str = ""
    meta: Mapping[str, object] = {}


class FunctionFacts(NamedTuple):
    """What only Python functions have.

    `converters` turn JSON into the types of arguments. `positional` names the arguments that may be
    given by position, the last one as `*name` if it takes the rest; None means the schema's own
    order. `cache_key` computes what a result depends on. `returned` gives the JSON Schema of the
    return annotation, which nothing enforces; None if that says too little.
    """

    converters: Mapping[str, Converter] = {}
    positional: tuple[str, ...] | None = None
    cache_key: Callable[..., Any] | None = None
    returned: Callable[[], Json | None] | None = None


class HttpHooks(NamedTuple):
    """What only HTTP tools have: `send` runs a call in the thread of a sync caller, `preview` shows
    its requests.

    A preview has no secrets in it, and sends nothing. A number for one of `texts` is sent as text.
    `origins` are the scheme, host and port of each request.
    """

    send: Callable[[dict[str, Any]], Any]
    preview: Callable[[dict[str, Any]], list[Json]]
    texts: frozenset[str] = frozenset()
    origins: tuple[str, ...] = ()
    has_credentials: bool = True


class GuardFacts(NamedTuple):
    """What the guard of `%ask` is told of a tool.

    `reads` and `sends` are what its author states. `has_network` tells of a pack file whether its
    text imports a network library; `behind` gives the tool that does the work of this one.
    """

    reads: str = ""
    sends: str = ""
    has_network: Callable[[], bool] | None = None
    behind: Callable[[], ToolSpec | None] | None = None


_NO_SERVER, _NO_FUNCTION, _NO_GUARD = ServerFacts(), FunctionFacts(), GuardFacts()


# The derived attributes below are kept in `__dict__`, so the class has no slots.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ToolSpec:
    """One tool: its canonical name, its words, the JSON Schema of its arguments, and how to run it.

    `run` takes the checked arguments as one dict. A tool of a pack file has two states, its text
    and its code. `load`, where it is set, gives the tool as its code or record is now: it imports a
    pack file. Until then `parameters` are those of the text, which are for people; no call is
    checked by them. `identity`, where it is set, gives all that the tool is, as JSON: the text of
    its file, its record, its server's definition. It imports nothing, and says the same of a tool
    that is known by its text and of the loaded one. `record` is the version and the id of the
    bundle record that a tool is made from. A tool that is not `is_listed` is found by its name and
    offered nowhere: a server's prompts, and the reading of its resources. MCP clients see a tool
    with a `resource` (an address or its template) as that resource, and one that is a `prompt` as a
    prompt.
    """

    name: str
    description: str
    parameters: Json
    run: Callable[[dict[str, Any]], Any]
    is_async: bool = False
    returns: str = ""
    example: str = ""
    tags: tuple[str, ...] = ()
    origin: Origin = "cell"
    where: str = ""
    read_only: bool = False
    timeout_s: float | None = None
    output_schema: Json | None = None
    disabled: str = ""
    load: Callable[[], ToolSpec] | None = None
    deps: tuple[Dep, ...] = ()
    identity: Callable[[], object] | None = None
    record: tuple[str, str] = ("", "")
    is_listed: bool = True
    resource: str = ""
    prompt: bool = False
    guard: GuardFacts = _NO_GUARD
    function: FunctionFacts = _NO_FUNCTION
    http: HttpHooks | None = None
    server_facts: ServerFacts = _NO_SERVER

    def replace(self, **changes: Any) -> ToolSpec:
        """The same tool with other values for some of its fields."""
        return replace(self, **changes)

    @property
    def server(self) -> str:
        """The name of the MCP server that the tool belongs to, or empty."""
        return self.server_facts.server

    @property
    def version(self) -> str:
        """The version in the name of a bundle's tool: such a tool is found by its name, and not
        listed."""
        return self.name.partition("@")[2] if self.origin == "bundle" else ""

    @property
    def limits_itself(self) -> bool:
        """Whether the tool keeps `timeout_s` itself, without the time that a person takes to answer
        its questions."""
        return self.http is not None or (self.origin == "mcp" and self.is_listed)

    @once
    def is_offered(self) -> bool:
        """Whether models and clients are told of the tool: it is on, and not for people alone."""
        return not self.disabled and self.name not in FOR_PEOPLE

    @once
    def is_toolbox(self) -> bool:
        """Whether it is a function of the toolbox itself: people find it by its name, and it is
        neither counted nor listed among their tools."""
        return self.pack == TOOLBOX

    @once
    def is_for_models(self) -> bool:
        """Whether a model is offered it where no allow-list names it: every tool, and what reads
        stored results."""
        return not self.is_toolbox or self.name in READERS

    @property
    def badges(self) -> tuple[str, ...]:
        """The marks of the tool, for people: read-only, destructive, idempotent, open world."""
        return (
            *(("read-only",) if self.read_only else ()),
            *(hint for hint, is_so in self.server_facts.hints.items() if is_so),
        )

    @property
    def meta_text(self) -> str:
        """What else the server says of the tool, as JSON for people; empty if it says nothing."""
        meta = self.server_facts.meta
        return values.cut(json.dumps(meta, ensure_ascii=False), _MAX_META_SHOWN) if meta else ""

    @once
    def pack(self) -> str:
        return self.name.partition(".")[0]

    @property
    def short_name(self) -> str:
        return self.name.partition(".")[2]

    @property
    def summary(self) -> str:
        """The first paragraph of the description, on one line."""
        return " ".join(self.description.partition("\n\n")[0].split())

    @property
    def place(self) -> tuple[bool, bool, str]:
        """Where it stands in a list: one's own tools first, then those we ship, then those about
        the toolbox."""
        return self.is_toolbox, self.origin == "builtin", self.name

    @property
    def source(self) -> str:
        """`local`, or `proxy:<server>` for a tool of an MCP server (spec 001)."""
        return f"proxy:{self.server}" if self.server else "local"

    @property
    def fingerprint(self) -> str:
        """A hash of what the tool is now: its words, its schema, and its code, record or server."""
        return fingerprint(self)

    @once
    def first_fingerprint(self) -> str:
        """The fingerprint as it was first asked for here. A tool that changes is another ToolSpec
        after its `load`."""
        return self.fingerprint

    @once
    def is_plain_function(self) -> bool:
        """Whether it runs by a plain call, with its arguments as they are."""
        return not self.is_async and not self.function.converters

    @once
    def params(self) -> tuple[Param, ...]:
        """The arguments one by one, required ones first."""
        return tuple(schema_params(self.parameters))

    @once
    def positions(self) -> tuple[tuple[str, ...], str]:
        """Return the arguments that Python may give by position, and the name of the one that takes
        the rest, or ""."""
        names = self.function.positional
        if names is None:
            names = tuple(param.name for param in self.params)
        return (names[:-1], names[-1][1:]) if names and names[-1].startswith("*") else (names, "")

    @once
    def spelled(self) -> dict[str, str]:
        """The arguments by their other names in Python: those that it cannot spell, and `maxBytes`
        as `max_bytes`."""
        labels = python_names(self.params)
        snake = {_HUMP.sub("_", name).lower(): name for name in labels if _HUMP.search(name)}
        return {label: name for label, name in snake.items() if label not in labels.values()} | {
            label: name for name, label in labels.items() if label != name
        }

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Name the positional arguments of a call, and give names that Python cannot spell back
        their own.

        Raises UsageProblem for too many arguments, or one that was given twice.
        """
        arguments: dict[str, Any] = {}
        if args:
            fixed, rest = self.positions
            for name, value in zip(fixed, args):  # noqa: B905 - what is left over is seen below
                arguments[name] = value  # noqa: PERF403 - a comprehension takes twice as long
            if len(args) > len(fixed):
                if not rest:
                    many = "argument" if len(fixed) == 1 else "arguments"
                    raise self._misused(
                        f"it takes {len(fixed)} {many} by position, not {len(args)}"
                    )
                arguments[rest] = list(args[len(fixed) :])
        if not self.spelled and arguments.keys().isdisjoint(kwargs):
            arguments |= kwargs
            return arguments
        for key, value in kwargs.items():
            name = self.spelled.get(key, key)
            if name in arguments:
                raise self._misused(f"the argument '{name}' was given twice")
            arguments[name] = value
        return arguments

    def _misused(self, what: str) -> UsageProblem:
        return UsageProblem(
            f"'{self.name}': {what}.", hint=f"Usage: {usage_text(self.name, self.parameters)}"
        )

    @once
    def signature(self) -> str:
        return signature_text(self.name, self.parameters)

    @once
    def args(self) -> tuple[str, ...]:
        return tuple(argument_lines(self.parameters))

    @property
    def doc(self) -> str:
        """The description, the arguments, what it returns and the example, as a docstring has
        them."""
        parts = [self.description]
        if self.args:
            parts.append("Args:\n" + "\n".join(f"    {line}" for line in self.args))
        if self.returns:
            parts.append(f"Returns:\n    {self.returns}")
        if self.example:
            parts.append(
                "Example:\n" + "\n".join(f"    {line}" for line in self.example.splitlines())
            )
        return "\n\n".join(parts)

    @once
    def checker(self) -> Checker:
        """Return the compiled check of the arguments. Raises InvalidTool if the schema is not
        valid."""
        return Checker(
            self.parameters, self.function.converters, texts=self.http.texts if self.http else ()
        )

    def __repr__(self) -> str:
        return printable(f"ToolSpec({self.signature})")


class ToolCall(NamedTuple):
    """What is asked for. `id` names this one call everywhere: in the log, in a model's reply, in
    progress."""

    id: str
    name: str
    args: dict[str, Any]
    source: CallSource = "python"


class Source(Protocol):
    """Where tools come from. Listing never raises: what is wrong is a Problem, and stops nothing
    else."""

    def tools(self) -> Iterable[ToolSpec]:
        """The tools as known now, in their order of definition."""

    def problems(self) -> Iterable[Problem]:
        """What could not be offered, and why."""

    @property
    def refresh(self) -> Callable[[], bool] | None:
        """Checks for changes: True if the tools may have changed since the registry last read them.
        None for a source whose tools stay, or that calls the registry's `expire` itself."""


def format_call(name: str, args: Mapping[str, object]) -> str:
    """Write the `%tool` line of a call; it reads back to the same arguments if they fit the schema.

    A value that JSON cannot hold is written as `base.values.to_json` converts it.
    """
    word = name if _BARE_NAME.fullmatch(name) else _double(name)
    plain = values.to_json(dict(args))
    if all(_BARE_KEY.fullmatch(key) for key in plain):
        parts = ["%tool", word]
        for key, value in plain.items():
            if not isinstance(value, str):
                text = _dump(value)
            elif not value.isprintable():
                text = "{" + repr(value) + "}"
            else:
                is_bare = _BARE_TEXT.fullmatch(value) and value not in _LITERALS
                text = value if is_bare else _double(value)
            parts.append(f"{key}={text}")
        return " ".join(parts)
    return f"%tool {word} {_dump(plain)}"


def _double(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _dump(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def fingerprint(spec: ToolSpec) -> str:
    """Hash all that a tool is."""
    words = [spec.description, spec.parameters, spec.read_only]
    own = spec.identity() if spec.identity is not None else [*words, code_of(spec.run)]
    place = [spec.name, spec.origin, spec.server, spec.server_facts.definition]
    text = json.dumps(values.to_json([*place, own]), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def code_of(fn: object) -> list[Any]:
    """The code of a function, of the functions that it holds, and of the user's that it names;
    empty for one without Python code."""
    return _code_with(fn, 0, set())


def _code_with(fn: object, depth: int, done: set[object]) -> list[Any]:
    if depth > _DEEP:
        return []
    if isinstance(fn, partial):
        bound = [*fn.args, *(part for pair in sorted(fn.keywords.items()) for part in pair)]
        return [
            _code_with(fn.func, depth + 1, done),
            [repr(one) for one in bound if isinstance(one, _PLAIN)],
        ]
    code = getattr(fn, "__code__", None)
    if code is None:
        own: Any = type(fn).__call__ if callable(fn) else None
        return _code_with(own, depth + 1, done) if hasattr(own, "__code__") else []
    is_ours = str(getattr(fn, "__module__", "")).startswith("onetool_ipy.")
    # Of functions that name each other, each is looked into once.
    is_new = (code, id(fn)) not in done
    done.add((code, id(fn)))
    inner = [] if is_ours or not is_new else _named_in(code, getattr(fn, "__globals__", {}))
    for cell in getattr(fn, "__closure__", None) or () if is_new else ():
        # A variable that has no value yet leaves its cell empty.
        with suppress(ValueError):
            inner.append(cell.cell_contents)
    mine = [] if is_ours else _code(code)
    return [mine, *(_code_with(part, depth + 1, done) for part in inner if callable(part))]


def _named_in(code: Any, variables: Mapping[str, Any]) -> list[Any]:
    """Return the functions of the user's own that a code object names. Those of installed
    libraries change with their versions."""
    inner = [const for const in code.co_consts if hasattr(const, "co_code")]
    named = [variables.get(name) for name in code.co_names]
    own = [
        each
        for each in named
        if isinstance(each, FunctionType)
        and "-packages" not in each.__code__.co_filename
        and str(each.__module__).partition(".")[0] not in sys.stdlib_module_names
    ]
    return [*own, *(each for const in inner for each in _named_in(const, variables))]


def _code(code: Any) -> list[Any]:
    consts: list[Any] = []
    for const in code.co_consts:
        if hasattr(const, "co_code"):
            consts.append(_code(const))
        else:
            # The order of a set differs from process to process.
            consts.append(
                repr(sorted(map(repr, const))) if isinstance(const, frozenset) else repr(const)
            )
    return [code.co_code.hex(), list(code.co_names), consts]


def schema_hash(spec: ToolSpec) -> str:
    """Hash what a tool takes and gives, and the version of its record."""
    return _hash([spec.parameters, spec.output_schema, spec.record[0]])


def code_hash(spec: ToolSpec) -> str:
    """Hash a tool with its name, its record, and its own code; for a tool that is data, with all
    that decides where its calls go."""
    is_data = spec.identity is not None and spec.origin in ("bundle", "config")
    own = spec.identity() if is_data and spec.identity else code_of(spec.run)
    place = spec.server_facts.definition
    return _hash([spec.name, spec.parameters, list(spec.record), own, place])


def _hash(parts: list[object]) -> str:
    text = json.dumps(values.to_json(parts), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
