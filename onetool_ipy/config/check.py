"""Parsed files -> Settings and prompts: the schema says what each key may hold; everything wrong is
a Problem.

`onetool.schema.json` is the home of the settings: keys, types, limits, defaults, descriptions, and
the words for a value that does not fit (`errorMessage`). Here a document is filled (`${NAME}`),
brought into the types of the schema, checked by jsonschema-rs, and made into Settings. A faulty
value is reported with file, line and key, and its default is used; a faulty server, model, snippet
or topic is left out. Rules between two keys are at the end of the file.

In a project that is not trusted nothing is filled. What reaches out of a project and is not
approved (`withheld`) is left out. A message shows a value as it is written, never as it was filled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any, TypeVar

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidConfig, InvalidTool
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.config.settings import (
    AskSettings,
    Definition,
    FsSettings,
    GuardSettings,
    HttpSettings,
    Model,
    Models,
    OutputSettings,
    Settings,
    StatsSettings,
    TimeoutSettings,
    Topic,
)
from onetool_ipy.config.trust import NO_PINS, Pins
from onetool_ipy.config.yaml_text import Document, Path, dotted, quoted
from onetool_ipy.core.tool import Problem
from onetool_ipy.schema.check import require_schema
from onetool_ipy.schema.words import predicate

Node = Mapping[str, Any]
"""A part of the schema."""
Get = Callable[[str], str | None]
"""Returns the value of a `${NAME}`, or None."""

SCHEMA_FILE = FilePath(__file__).with_name("onetool.schema.json")

_FILLED = ("packs", "servers", "models", "http")
_ENTRIES = ("tools", "servers", "snippets", "models", "topics")
"""Sections of entries, each of which is left out as a whole if something in it is wrong."""
_UNTRUSTED = (*_FILLED, "state_dir")
"""What does not count in a project that is not trusted, and is not looked at there."""
_TEMPLATE = r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?"
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_MAX_PROBLEMS = 200
_PROMPTS, _NESTED_SNIPPETS = "#/$defs/prompts", "#/$defs/snippets_file"
_Section = TypeVar(
    "_Section",
    HttpSettings,
    FsSettings,
    OutputSettings,
    StatsSettings,
    AskSettings,
    TimeoutSettings,
)


class BadTemplate(ValueError):
    """Text with a `${` that is not followed by `NAME}`."""


class UnknownName(LookupError):
    """A name that is neither in the secrets nor in the environment."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class LoadProblems:
    """The problems found during one load, in order. `errors` are those that a strict caller
    raises."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self.problems = list(problems)
        self.errors: list[Problem] = []

    def add(self, problem: Problem, *, error: bool) -> None:
        """Add a problem."""
        self.problems.append(problem)
        if error:
            self.errors.append(problem)


class ConfigFile:
    """One parsed file: its values, their lines, and the way to report a problem with one of
    them."""

    def __init__(
        self, name: str, document: Document, problems: LoadProblems, *, strict: bool
    ) -> None:
        self.name, self.data, self.fits = name, document.data, document.fits
        self._lines = document.lines
        self._problems, self._strict = problems, strict
        self._count = 0
        self.faults = [fault.path for fault in document.faults]
        for fault in document.faults:
            self._note(
                fault.line, fault.path, fault.message, fault.hint, self._is_error(fault.path)
            )

    def line(self, path: Path) -> int:
        """Return the line of a value, or of the nearest value around it that has a line."""
        return next(
            (
                self._lines[path[:end]]
                for end in range(len(path), 0, -1)
                if path[:end] in self._lines
            ),
            1,
        )

    def where(self, path: Path) -> str:
        """Return `file:line` of a value."""
        return f"{self.name}:{self.line(path)}"

    def written(self, path: Path) -> Any:
        """Return a value as it is written, with every `${NAME}` unfilled."""
        value: Any = self.data
        for part in path:
            # A single text may be written in place of a list of texts.
            if not isinstance(value, str):
                value = value[part]
        return value

    def report(self, path: Path, message: str, hint: str = "") -> None:
        """Report a problem with a value. Its section decides whether it is an error."""
        self._note(self.line(path), path, message, hint, self._is_error(path))

    def report_missing(self, path: Path, name: str) -> None:
        """Report a value that a secret is missing for."""
        message = f"${{{name}}} is neither in secrets.yaml nor in the environment."
        hint = f"Add {name} to one of them."
        server = str(path[1]) if path[0] == "servers" else ""
        self._note(self.line(path), path, message, hint, False, secret=name, server=server)

    @property
    def is_full(self) -> bool:
        """Whether the file has more problems than are listed."""
        return self._count > _MAX_PROBLEMS

    def _is_error(self, path: Path) -> bool:
        """Whether a problem is an error: anything wrong in the main file but a tool, server or
        snippet."""
        return self._strict and not (len(path) > 1 and path[0] in ("tools", "servers", "snippets"))

    def _note(
        self,
        line: int,
        path: Path,
        message: str,
        hint: str,
        error: bool,
        *,
        secret: str = "",
        server: str = "",
    ) -> None:
        self._count += 1
        key = "".join(c if c.isprintable() else "?" for c in dotted(path)[:120])
        text = f"{key}: {message}" if key else message
        # The first error is always listed.
        if self.is_full and not (error and not self._problems.errors):
            if self._count > _MAX_PROBLEMS + 1:
                return
            text = f"has more than {_MAX_PROBLEMS} problems; the others are not listed."
            hint = secret = server = ""
        problem = Problem(f"{self.name}:{line}", text, hint, server=server, secret=secret)
        self._problems.add(problem, error=error)


def settings_schema() -> Json:
    """Return the JSON Schema of onetool.yaml; `$defs` has those of snippets.yaml and
    prompts.yaml."""
    schema: dict[str, Any] = json.loads(SCHEMA_FILE.read_bytes())
    return schema


def fits_schema(role: str, data: Json) -> bool:
    """Whether an onetool.yaml ("main"), prompts or snippets fit the schema as they are written, and
    the parameters of tools are JSON Schemas."""
    schema = settings_schema()
    ref = {"main": "#", "prompts": _PROMPTS, "snippets": _snippets_ref(data)}[role]
    coerced = _in_types(data, ref, schema)
    if _errors(coerced, ref):
        return False
    if role != "main":
        return True
    try:
        for tool in coerced.get("tools", ()):
            if isinstance(tool.get("parameters"), dict):
                require_schema(tool["parameters"])
    except InvalidTool:
        return False
    return True


def check_settings(
    main: ConfigFile | None,
    snippets: ConfigFile | None,
    get: Get,
    *,
    is_trusted: bool = True,
    withheld: Pins = NO_PINS,
) -> Settings:
    """Build the Settings from onetool.yaml and snippets.yaml; `get` returns the value of a
    `${NAME}`.

    `withheld` is what the user has not approved: it is left out, but for servers, which are shown
    and not started.
    """
    schema = settings_schema()
    settings = Settings()
    if main is not None:
        settings = _settings(_Reader(main, schema, get), is_trusted, withheld)
    if snippets is None:
        return settings
    named = dict(settings.snippets)
    ref = _snippets_ref(snippets.data)
    base: Path = ("snippets",) if ref == _NESTED_SNIPPETS else ()
    reader = _Reader(snippets, schema, get, depth=1 + len(base))
    data = reader.check(snippets.data, ref)
    for name, definition in _snippets(reader, base, data["snippets"] if base else data).items():
        if name in named:
            snippets.report((*base, name), f"is ignored, since {named[name].where} has this name.")
        else:
            named[name] = definition
    return settings._replace(snippets=MappingProxyType(named))


def _snippets_ref(data: Json) -> str:
    """The part of the schema for a snippets.yaml. The names are at the top of the file, or under
    `snippets:`, which may also be the name of a snippet."""
    nested = data.get("snippets")
    is_nested = isinstance(nested, dict) and not isinstance(nested.get("body"), str)
    return _NESTED_SNIPPETS if is_nested else "#/$defs/snippets"


def check_prompts(file: ConfigFile) -> Mapping[str, str]:
    """Return the instructions by pack, from `packs:` in prompts.yaml."""
    reader = _Reader(file, settings_schema(), lambda _name: None)
    packs = reader.check(file.data, _PROMPTS).get("packs")
    named = packs if isinstance(packs, dict) else {}
    return MappingProxyType(
        {name: text for name, text in named.items() if reader.is_good(("packs", name))}
    )


def check_server(name: str, data: Json, get: Get) -> Json:
    """Check a server that was typed, not read from a file. Raises InvalidConfig with every
    fault."""
    problems = LoadProblems()
    file = ConfigFile("servers", Document({name: data}, {}, []), problems, strict=False)
    reader = _Reader(file, settings_schema(), get)
    servers = reader.check(reader.fill(file.data, ()), "#/$defs/servers")
    server = _server(reader, (name,), servers[name]) if reader.is_good((name,)) else None
    if server is None:
        lines = [f"{problem.message} {problem.hint}".rstrip() for problem in problems.problems]
        raise InvalidConfig(
            "\n".join(lines) or f"{quoted(name)} is not a server.", problems=problems.problems
        )
    return server


def fill(text: str, get: Get) -> str:
    """Replace every `${NAME}` with `get(NAME)`; `$${` is a literal `${`. Raises UnknownName or
    BadTemplate."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if match[1] is None:
            raise BadTemplate(text)
        filled = get(match[1])
        if filled is None:
            raise UnknownName(match[1])
        return filled

    return re.sub(_TEMPLATE, value, text)


class _Reader:
    """Fills and checks the values of one file, and knows afterwards which of them are good."""

    def __init__(
        self, file: ConfigFile, schema: dict[str, Any], get: Get, *, depth: int = 2
    ) -> None:
        self.file, self.schema = file, schema
        self._get = get
        self._bad: set[Path] = set()
        """The paths of what was reported or withheld, and all paths around them."""
        # The parser has left faulty values out. An entry is not used without them; `depth` is how
        # deep entries are.
        for path in file.faults:
            if (depth == 1 or path[0] in _ENTRIES) and (
                len(path) > depth or isinstance(path[-1], int)
            ):
                self.leave_out(path)

    def is_good(self, path: Path) -> bool:
        """Whether nothing at or below a path is wrong."""
        return path not in self._bad

    def leave_out(self, path: Path) -> None:
        """Let a value not count."""
        self._bad.update(path[:end] for end in range(1, len(path) + 1))

    def wrong(self, path: Path, message: str, hint: str = "") -> None:
        """Report a value, and leave it out."""
        self.leave_out(path)
        self.file.report(path, message, hint)

    def fill(self, value: object, path: Path) -> Any:
        """Return the value with every `${NAME}` filled. What cannot be filled is reported, and
        None."""
        if isinstance(value, dict):
            return {key: self.fill(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.fill(inner, (*path, index)) for index, inner in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            return fill(value, self._get)
        except UnknownName as exc:
            self.leave_out(path)
            self.file.report_missing(path, exc.name)
        except BadTemplate:
            hint = "Write ${NAME}, or $${ for a literal '${'."
            self.wrong(path, f"{quoted(value)} has a '${{' without 'NAME}}'.", hint)
        return None

    def without_bad(self, value: object, path: Path) -> Any:
        """Return a value without the parts that are left out."""
        if isinstance(value, dict):
            inner = {key: (*path, key) for key in value}
            return {
                k: self.without_bad(value[k], p)
                for k, p in inner.items()
                if value[k] is not None or self.is_good(p)
            }
        if isinstance(value, list):
            items = [((*path, index), item) for index, item in enumerate(value)]
            return [
                self.without_bad(item, p)
                for p, item in items
                if item is not None or self.is_good(p)
            ]
        return value

    def check(self, data: Json, ref: str) -> Json:
        """Return the value in the types of a part of the schema; report whatever does not fit
        it."""
        coerced = _in_types(data, ref, self.schema)
        if self.file.fits and data == self.file.data:
            return coerced
        placed = []
        for error in _errors(coerced, ref):
            places = list(_places(coerced, list(error.instance_path)))
            path = next((path for path, value in places if value == error.instance), places[0][0])
            placed.append((self.file.line(path), path, error))
        for _line, path, error in sorted(placed, key=lambda place: place[0]):
            self._report(path, error)
        return coerced

    def _report(self, path: Path, error: Any) -> None:
        """Say in our words what does not fit."""
        kind, facts = error.kind.name, error.kind.as_dict()
        *steps, _ = error.schema_path
        node = _at(self.schema, steps)
        if kind == "additionalProperties":
            for name in facts["unexpected"]:
                self._unknown((*path, name), name, node["properties"])
            return
        if kind == "propertyNames":
            name = str(facts["error"].instance)
            path, kind, text = (*path, name), "pattern", quoted(name)
        else:
            if not self.is_good(path):
                return
            text = quoted(self.file.written(path))
        words = node.get("errorMessage") or (
            node.get("patternErrorMessage") if kind == "pattern" else None
        )
        if words is None and steps[-1:] == ["items"] and node["type"] == "string":
            # What is wrong with a text is said of the list of texts.
            path, words = path[:-1], _at(self.schema, steps[:-1])["errorMessage"]
            text = quoted(self.file.written(path))
        if kind == "required":
            self.wrong(path, f"has no '{facts['property']}'.")
        elif words is not None:
            sentence, _, hint = words.partition(". ")
            self.wrong(path, f"{text} {sentence.rstrip('.')}.", hint)
        elif kind == "type" and error.instance is None and isinstance(path[-1], str):
            self.wrong(
                path, "names no tool." if path[0] in ("aliases", "alias") else "has no value."
            )
        else:
            sentence, hint = _sentence(kind, facts, error.instance)
            self.wrong(path, f"{text} {sentence}.", hint)

    def _unknown(
        self, path: Path, name: str, names: Iterable[str], message: str = "unknown key."
    ) -> None:
        """Report a name that is not known, with the nearest known name as the hint."""
        near = "" if self.file.is_full else did_you_mean(name, names)
        listed = ", ".join(sorted(names))
        self.wrong(
            path, message, near or (f"Known: {listed}." if listed and len(listed) < 300 else "")
        )

    def unknown_model(self, name: str, names: Iterable[str]) -> None:
        """Report that `models.default` names no model."""
        self._unknown(("models", "default"), name, names, f"there is no model {quoted(name)}.")


def _in_types(data: Json, ref: str, schema: Node) -> Json:
    """Bring a document into the types of a part of the schema. Tools stay as they are written: they
    can be large."""
    tools = data["tools"] if ref == "#" and isinstance(data.get("tools"), list) else None
    coerced: dict[str, Any] = _coerced(
        data if tools is None else {**data, "tools": []}, {"$ref": ref}, schema
    )
    return coerced if tools is None else {**coerced, "tools": tools}


def _errors(coerced: Json, ref: str) -> list[Any]:
    """Return what does not fit a part of the schema, as jsonschema-rs says it."""
    validator = _validator(ref)
    plain = coerced
    if ref == "#" and isinstance(coerced.get("tools"), list):
        # `sources.declared` checks what is in a tool: here it need only be an object.
        plain = {
            **coerced,
            "tools": [{} if isinstance(tool, dict) else tool for tool in coerced["tools"]],
        }
    try:
        return list(validator.iter_errors(plain))
    except UnicodeEncodeError:  # half a character can come from the environment
        return list(validator.iter_errors(values.map_text(plain, values.encodable)))


@cache
def _validator(ref: str) -> Any:
    """Compile a part of the schema. The file is a part of the package, so it never changes."""
    import jsonschema_rs

    schema = settings_schema()
    root = {"$ref": ref, "$defs": schema["$defs"]} if ref != "#" else schema
    return jsonschema_rs.validator_for(root, offline=True)


def _places(data: Any, steps: list[str | int]) -> Iterator[tuple[Path, object]]:
    """Yield the paths that an error can mean, with their values: the library gives the key '07' as
    the number 7."""
    if not steps:
        yield (), data
        return
    first, *rest = steps
    is_key = isinstance(data, dict) and isinstance(first, int)
    keys = (
        [key for key in data if re.fullmatch(r"\+?[0-9]+", key) and int(key) == first]
        if is_key
        else [first]
    )
    for key in keys:
        yield from (((key, *path), value) for path, value in _places(data[key], rest))


def _sentence(kind: str, facts: Mapping[str, Any], value: object) -> tuple[str, str]:
    """Say what is wrong with a value, and what to write instead."""
    if kind == "enum":
        near = did_you_mean(value, facts["options"]) if isinstance(value, str) else ""
        return f"is not one of {', '.join(facts['options'])}", near
    expected = facts["types"][0] if kind == "type" else ""
    if expected == "object":
        return "is not 'key: value' lines", ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    hint = "Put it in quotes." if expected == "string" and is_number else ""
    return predicate(kind, facts), hint


def _at(schema: Node, steps: Iterable[str | int]) -> Node:
    node: Any = schema
    for step in steps:
        node = node[step]
    return node if isinstance(node, dict) else {}


def resolved(node: Any, schema: Node) -> Node:
    """Return a node with what its `$ref` leads to."""
    if not isinstance(node, dict):
        return {}
    ref = node.get("$ref")
    return node if ref is None else {**_at(schema, ref.split("/")[1:]), **node}


def _coerced(value: object, node: object, schema: Node) -> Any:
    """Bring a value into the type that the schema asks for, where that is plain.

    A filled template is text, so text stands for the number in it. `yes` and `no` are booleans, as
    other YAML readers have them. A key without a value is a key that is not there.
    """
    node = resolved(node, schema)
    if "type" not in node:
        # A constant, or something that may be anything, such as the parts of a tool.
        return value
    kinds = node["type"]
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    if isinstance(value, dict):
        properties, others = node.get("properties", {}), node.get("additionalProperties", {})
        coerced = {}
        for key, inner in value.items():
            inner_node = resolved(properties.get(key, others), schema)
            if (
                inner is None
                and key in properties
                and inner_node.keys() & {"type", "enum", "const"}
            ):
                continue
            is_empty = inner is None and inner_node.get("type") == "object"
            coerced[key] = _coerced({} if is_empty else inner, inner_node, schema)
        return coerced
    if isinstance(value, list):
        return (
            [_coerced(item, node["items"], schema) for item in value] if "items" in node else value
        )
    if isinstance(value, str):
        if "array" in kinds and "string" in kinds:
            return [value]
        if kinds == ["boolean"]:
            return _BOOLEANS.get(value.lower(), value)
        if kinds in (["number"], ["integer"]):
            with suppress(ValueError):
                return float(value) if kinds == ["number"] else int(value)
    elif kinds == ["integer"] and isinstance(value, float) and value.is_integer():
        return int(value)
    elif kinds[:1] == ["string"] and len(kinds) > 1 and isinstance(value, bool | int | float):
        return json.dumps(value) if isinstance(value, bool) else str(value)
    return value


def _settings(reader: _Reader, is_trusted: bool, withheld: Pins) -> Settings:
    """Build the settings of onetool.yaml.

    In an untrusted project its models, pack settings, hosts and `state_dir` do not count, nor does
    what limits or hides calls: `ask`, `stats` and `output`. Its servers are only shown.
    """
    file = reader.file
    data = {key: value for key, value in file.data.items() if is_trusted or key not in _UNTRUSTED}
    for key, value in data.items():
        section = reader.fill(value, (key,)) if key in _FILLED else value
        if key in _ENTRIES and isinstance(section, dict):
            # An entry that could not be read or filled has its problem already.
            section = {
                name: entry for name, entry in section.items() if reader.is_good((key, name))
            }
        data[key] = section
    data = reader.check(data, "#")
    lists = [key for key in ("tools_dir", "recommended") if reader.is_good((key,))]
    texts = {key: tuple(data.get(key, ())) for key in lists}
    fs = _section(reader, data, "fs", FsSettings)
    state_dir = data.get("state_dir") if reader.is_good(("state_dir",)) else None
    aliases: dict[str, str] = {}
    for section in ("aliases", "alias"):
        for name, target in _mapping(data, section).items():
            if reader.is_good((section, name)) and name in aliases:
                file.report((section, name), "is ignored, since 'aliases' has this name.")
            elif reader.is_good((section, name)):
                aliases[name] = target.strip()
    settings = Settings(
        tools_dir=texts.get("tools_dir") or Settings().tools_dir,
        tools=tuple(
            Definition(tool, file.where(place), fits=file.fits)
            for place, tool in _items(reader, data, "tools")
        ),
        recommended=texts.get("recommended", ()),
        aliases=MappingProxyType(aliases),
        snippets=_snippets(reader, ("snippets",), _mapping(data, "snippets")),
        topics=tuple(
            Topic(**topic)
            for _, topic in _items(reader, data, "topics")
            if topic["file"] not in withheld.get("file", ())
        ),
        fs=FsSettings(tuple(root for root in fs.roots if root not in withheld.get("folder", ()))),
        timeouts=_section(reader, data, "timeouts", TimeoutSettings),
        guard=_guard(reader, data),
    )
    if not is_trusted:
        servers = {}
        for name, raw in _mapping(file.data, "servers").items():
            is_name = name.isprintable() and not any(c.isspace() or c == "." for c in name)
            if is_name and isinstance(raw, dict) and reader.is_good(("servers", name)):
                where, written = file.where(("servers", name)), file.written(("servers", name))
                servers[name] = Definition(_server_as_written(raw), where, written)
        return settings._replace(servers=MappingProxyType(servers))
    return settings._replace(
        packs=_packs(reader, data),
        servers=_servers(reader, data),
        http=_http(reader, data, withheld),
        models=_models(reader, data, withheld),
        output=_section(reader, data, "output", OutputSettings),
        stats=_section(reader, data, "stats", StatsSettings),
        ask=_section(reader, data, "ask", AskSettings),
        state_dir=None if state_dir in withheld.get("state folder", ()) else state_dir,
    )


def _guard(reader: _Reader, data: Json) -> GuardSettings:
    """Read what the guard is told. It counts in a project that is not trusted, too: nothing of a
    project loosens it."""
    section = _mapping(data, "guard")
    tools = {
        pattern: MappingProxyType(words)
        for pattern, words in _mapping(section, "tools").items()
        if reader.is_good(("guard", "tools", pattern))
    }
    listed = section.get("allow")
    pairs = [
        (str(pair["from"]), str(pair["to"]))
        for number, pair in enumerate(listed if isinstance(listed, list) else ())
        if reader.is_good(("guard", "allow", number))
    ]
    return GuardSettings(MappingProxyType(tools), tuple(pairs))


def _mapping(data: Json, key: str) -> Json:
    section = data.get(key)
    return section if isinstance(section, dict) else {}


def _items(reader: _Reader, data: Json, key: str) -> Iterator[tuple[Path, Any]]:
    """Yield the good entries of a list, with their paths."""
    section = data.get(key)
    for index, item in enumerate(section if isinstance(section, list) else ()):
        if reader.is_good((key, index)):
            yield (key, index), item


def _section(reader: _Reader, data: Json, key: str, make: type[_Section]) -> _Section:
    """A section of single values. A missing, empty or wrong value becomes the default."""
    good = {
        name: value for name, value in _mapping(data, key).items() if reader.is_good((key, name))
    }
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in good.items()
    }
    return make(**fields)


def _snippets(reader: _Reader, base: Path, entries: Json) -> Mapping[str, Definition]:
    """The snippets. A body is a Jinja2 template, which is checked when it is expanded."""
    empty = {"description": "", "params": {}}
    return MappingProxyType(
        {
            name: Definition(
                {**empty, **data},
                reader.file.where((*base, name)),
                reader.file.written((*base, name)),
            )
            for name, data in entries.items()
            if reader.is_good((*base, name))
        }
    )


def _packs(reader: _Reader, data: Json) -> Mapping[str, Definition]:
    """Each pack's own settings, unchecked. A value that cannot be filled is left out."""
    packs = {name: raw for name, raw in _mapping(data, "packs").items() if isinstance(raw, dict)}
    where = reader.file.where
    return MappingProxyType(
        {
            name: Definition(reader.without_bad(raw, ("packs", name)), where(("packs", name)))
            for name, raw in packs.items()
        }
    )


def _http(reader: _Reader, data: Json, withheld: Pins) -> HttpSettings:
    """What may be reached. Hosts are withheld as they are written, before a `${NAME}` in them is
    filled."""
    section = dict(_mapping(data, "http"))
    listed = section.pop("allowed_hosts", ())
    path: Path = ("http", "allowed_hosts")
    hosts = [
        host.lower()
        for index, host in enumerate(listed if isinstance(listed, list) else ())
        if reader.is_good((*path, index))
        and reader.file.written((*path, index)) not in withheld.get("host", ())
    ]
    if "http.allow_private" in withheld.get("setting", ()):
        section.pop("allow_private", None)
    return _section(reader, {"http": section}, "http", HttpSettings)._replace(
        allowed_hosts=tuple(hosts)
    )


def _models(reader: _Reader, data: Json, withheld: Pins) -> Models:
    """The models that count. The default may be a withheld one, so that the user is asked for
    it."""
    section, left_out = _mapping(data, "models"), withheld.get("model", {})
    written = [name for name in _mapping(reader.file.data, "models") if name != "default"]
    named = {
        name: Model(
            name=name,
            where=reader.file.where(("models", name)),
            **{"base_url": None, "key": None, **model, "options": model.get("options", {})},
        )
        for name, model in section.items()
        if name != "default" and name not in left_out and reader.is_good(("models", name))
    }
    default = section.get("default") if reader.is_good(("models", "default")) else None
    if default is not None and default not in written:
        reader.unknown_model(default, written)
    if default is None and len(named) + len(left_out) == 1:
        (default,) = (*named, *left_out)
    is_counted = default in named or default in left_out
    return Models(default=default if is_counted else None, named=MappingProxyType(named))


def _servers(reader: _Reader, data: Json) -> Mapping[str, Definition]:
    servers = {}
    for name, written in _mapping(data, "servers").items():
        path: Path = ("servers", name)
        server = _server(reader, path, written) if reader.is_good(path) else None
        if server is not None:
            servers[name] = Definition(server, reader.file.where(path), reader.file.written(path))
    return MappingProxyType(servers)


def _server(reader: _Reader, path: Path, written: Json) -> Json | None:
    """Complete a server that fits the schema with the defaults of its type; None if its keys break
    a rule together."""
    definitions = reader.schema["$defs"]
    kind = written.get("type", "http" if "url" in written else "stdio")
    empty: Json = {"array": [], "object": {}}
    server: dict[str, Any] = {}
    for name in definitions[f"{kind}_server"]["properties"]:
        node = resolved(definitions["server"]["properties"][name], reader.schema)
        server[name] = written.get(name, node.get("default", empty.get(node.get("type", ""))))
    server["type"] = kind
    if kind != "stdio":
        server["url"] = _address(reader, (*path, "url"), server["url"])
    if "auth" in server:
        server["auth"] = _auth(reader, (*path, "auth"), server["auth"])
    return server if reader.is_good(path) else None


def _auth(reader: _Reader, path: Path, written: Json) -> Json:
    """Check how to sign in to a server. What is secret has to be a `${NAME}`."""
    auth = {name: value for name, value in written.items() if value}
    for name in ("issuer", "redirect_uri", "client_metadata_url"):
        if name in auth:
            auth[name] = _address(reader, (*path, name), auth[name])
    document = auth.get("client_metadata_url")
    if document and (
        not document.startswith("https://")
        or "/" not in document.removeprefix("https://").rstrip("/")
    ):
        inner = (*path, "client_metadata_url")
        text = quoted(reader.file.written(inner))
        reader.wrong(
            inner, f"{text} is not the address of a document.", "Write https:// with a path."
        )
    for name in ("client_secret", "private_key"):
        if name in auth and not re.search(r"(?<!\$)\$\{", str(reader.file.written((*path, name)))):
            hint = "Put it into secrets.yaml, and write its name: ${NAME}."
            reader.wrong((*path, name), "is written out here.", hint)
    if auth.get("grant") == "client_credentials":
        for name in ("client_id", "issuer"):
            if name not in auth:
                reader.wrong(path, f"has no '{name}'.")
        if ("client_secret" in auth) == ("private_key" in auth):
            reader.wrong(path, "needs a 'client_secret' or a 'private_key'.")
    elif "client_secret" in auth and "client_id" not in auth:
        reader.wrong(path, "has a 'client_secret' and no 'client_id'.")
    return {**auth, "scopes": tuple(auth["scopes"])} if "scopes" in auth else auth


def _address(reader: _Reader, path: Path, url: str) -> str:
    """Check the address of a server: https, or plain http on this machine."""
    import ipaddress
    from urllib.parse import urlsplit

    text = quoted(reader.file.written(path))
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    is_loopback = host.lower().rstrip(".") == "localhost"
    with suppress(ValueError):
        is_loopback = is_loopback or ipaddress.ip_address(host).is_loopback
    if not host:
        reader.wrong(path, f"{text} is not an http:// or https:// address.")
    elif parts.scheme.lower() == "http" and not is_loopback:
        hint = "Use https://; http:// is for 127.0.0.1 and localhost."
        reader.wrong(path, f"{text} is plain http to another machine.", hint)
    return url.strip()


def _server_as_written(raw: Json) -> Json:
    """Return a server that is shown but not started: nothing is filled or checked."""
    kinds = ("stdio", "http", "sse")
    args, env, headers = raw.get("args"), raw.get("env"), raw.get("headers")
    return {
        "type": raw.get("type")
        if raw.get("type") in kinds
        else "http"
        if "url" in raw
        else "stdio",
        "command": str(raw.get("command") or ""),
        "args": [str(word) for word in args] if isinstance(args, list) else [],
        "env": {str(k): str(v) for k, v in env.items()} if isinstance(env, dict) else {},
        "url": str(raw.get("url") or ""),
        "headers": {str(k): str(v) for k, v in headers.items()}
        if isinstance(headers, dict)
        else {},
        "enabled": raw.get("enabled") is not False,
        "trusted": False,
    }
