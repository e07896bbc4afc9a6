"""`%tool new http NAME`: an HTTP tool from a pasted curl command, or from arguments that read like one.

The command is read by `bundles.importing`; here is only which of its words are ours, and what is told of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from onetool_ipy.core import schema
from onetool_ipy.core.errors import InvalidRequest, UsageProblem
from onetool_ipy.faces.ipython import parse
from onetool_ipy.faces.ipython.commands.consent import Consent
from onetool_ipy.faces.ipython.commands.group import Bench, CellCommand, Command, page
from onetool_ipy.faces.ipython.display import Page
from onetool_ipy.faces.ipython.values import MISSING, read_literal

if TYPE_CHECKING:
    from onetool_ipy.bundles.importing import CurlDraft
    from onetool_ipy.bundles.model import Bundle, Tool

__all__ = ["NewHttp"]

_SWITCHES = ("--allow-host", "--save-secrets", "--replace")
_TEXTS = ("--curl", "--describe", "--tags", "--secret-host")
_TYPES = ("string", "integer", "number", "boolean", "array", "object")
_CURLS = {"--method": "--request", "--body": "--data-raw"}
_USAGE = "%tool new http my-api.get-user --url https://api.example.com/users/{id} --arg id:integer"


class NewHttp:
    """Making HTTP tools."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool new http BUNDLE.TOOL     an HTTP tool: --url, --method, --header, --body, --arg NAME:TYPE, --curl '...'",
        "%%tool new http BUNDLE.TOOL    the same of a curl command below; --allow-host, --save-secrets, --replace",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box
        self._consent = Consent(bench.box)
        self._names: Mapping[str, Any] = bench.shell.user_ns

    def table(self) -> dict[str, Command]:
        return {"new": lambda rest: self._new(rest, None)}

    def cells(self) -> dict[str, CellCommand]:
        return {"new": self._new}

    def _new(self, rest: str, cell: str | None) -> Page:
        from onetool_ipy.bundles.importing import import_curl

        asked = _Asked(rest, cell)
        asked.fill(self._names)
        draft = import_curl(asked.command(), slug=asked.slug)
        record = asked.applied(draft.tool)
        known = self._box.config.secrets
        made_up = [name for name, value in draft.secrets.items() if known.get(name) != value]
        self._consent.sending([record], made_up=made_up, given=asked.given.get("--secret-host", ""))
        bundle, tool, is_new = self._store(asked, record)
        lines = _told(bundle, tool, draft, is_new=is_new)
        lines += self._consent.secrets(draft.secrets, is_given="--save-secrets" in asked.given)
        lines += self._consent.hosts(draft.hosts, is_given="--allow-host" in asked.given)
        self._consent.offer_name(bundle.slug)
        return page(self._box, [*lines, *_example(bundle, tool)])

    def _store(self, asked: _Asked, record: dict[str, Any]) -> tuple[Bundle, Tool, bool]:
        """Store the tool; the very same one once more is no mistake, so that a notebook can be run again."""
        bundles = self._box.bundles
        bundle = bundles.named(asked.bundle)
        if bundle is None:
            bundles.draft(record)  # what cannot be called leaves no empty bundle behind
            bundle = bundles.put_bundle(bundles.new_id(), slug=asked.bundle, display_name=asked.bundle)
        place = (bundle.bundle_id, asked.slug, asked.version)
        known = self._known(*place)
        if known is not None:
            if _essence(known.to_dict()) == _essence(record):
                return bundle, known, False
            if "--replace" not in asked.given:
                raise UsageProblem(
                    f"'{bundle.slug}.{known.slug}' has another version '{known.version}' already.",
                    hint=f"Write --replace, or another version: {bundle.slug}.{known.slug}@2",
                )
            bundles.draft(record)
            bundles.delete_tool(*place)
        return bundle, bundles.put_tool(*place, record), True

    def _known(self, bundle_id: str, slug: str, version: str) -> Tool | None:
        from onetool_ipy.core.errors import NotFound

        try:
            return self._box.bundles.get_tool(bundle_id, slug, version)
        except NotFound:
            return None


class _Asked:
    """What the line and the cell ask for: a name, options of ours, and the words of a curl command."""

    def __init__(self, rest: str, cell: str | None) -> None:
        words = parse.split_words(rest)
        if words[:1] != ["http"]:
            raise UsageProblem("%tool new makes HTTP tools.", hint=f"For example: {_USAGE}")
        if len(words) < 2 or words[1].startswith("-"):
            raise UsageProblem("%tool new http wants a name: BUNDLE.TOOL.", hint=f"For example: {_USAGE}")
        self.given: dict[str, str] = {}
        self._arguments: list[str] = []
        self._curl: list[str] = []
        self._cell = (cell or "").strip()
        self.bundle, self.slug, self.version = _name(words[1])
        self._read(words[2:])

    def fill(self, names: Mapping[str, Any]) -> None:
        """Take a command from the notebook's variable that `--curl {name}` names."""
        given = self.given.get("--curl", "")
        name = given[1:-1].strip() if given[:1] == "{" and given[-1:] == "}" else ""
        if name.isidentifier():
            if not isinstance(names.get(name), str):
                raise UsageProblem(f"--curl: there is no text called '{name}' in this notebook.")
            self.given["--curl"] = names[name]

    def command(self) -> str:
        """The curl command, wherever it was written."""
        pasted = self.given.get("--curl") or self._cell
        if pasted and self._curl:
            raise UsageProblem(
                f"The command is pasted, and '{self._curl[0]}' stands beside it.", hint="Write it in one place."
            )
        if self._cell and "--curl" in self.given:
            raise UsageProblem("There is a command in --curl and one in the cell.", hint="Keep one of them.")
        if not pasted and not self._curl:
            raise UsageProblem("What is to be sent? No address is given.", hint=f"For example: {_USAGE}")
        return pasted or " ".join(["curl", *(_double(word) for word in self._curl)])

    def applied(self, tool: dict[str, Any]) -> dict[str, Any]:
        """The tool with what our own options say of it."""
        record = {key: value for key, value in tool.items() if key not in ("slug", "version")}
        if "--describe" in self.given:
            record["description"] = self.given["--describe"]
        if "--tags" in self.given:
            record["tags"] = [tag.strip() for tag in self.given["--tags"].split(",") if tag.strip()]
        for text in self._arguments:
            record["argSchema"] = _typed(record["argSchema"], text)
        return record

    def _read(self, words: list[str]) -> None:
        todo = list(words)
        while todo:
            word = todo.pop(0)
            name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
            if name in _SWITCHES:
                self.given[name] = "yes"
            elif name in (*_TEXTS, "--arg", *_CURLS):
                if not equals and not todo:
                    raise UsageProblem(f"'{name}' wants a value.", hint=f"For example: {_USAGE}")
                found = value if equals else todo.pop(0)
                self._take(name, found)
            else:
                self._curl.append(word)

    def _take(self, name: str, value: str) -> None:
        if name == "--arg":
            self._arguments.append(value)
        elif name == "--body" and value.lstrip()[:1] in ("{", "["):
            self._curl += ["--json", value]
        elif name in _CURLS:
            self._curl += [_CURLS[name], value]
        else:
            self.given[name] = value


def _name(text: str) -> tuple[str, str, str]:
    from onetool_ipy.bundles import ids

    bundle, dot, rest = text.partition(".")
    slug, _, version = rest.partition("@")
    if not dot or not bundle or not slug:
        raise UsageProblem(f"'{text}' is no name of a tool.", hint="Write BUNDLE.TOOL, as in my-api.get-user.")
    try:
        return ids.require_slug(bundle), ids.require_slug(slug), ids.require_version(version or "1")
    except InvalidRequest as exc:
        raise UsageProblem(f"'{text}': {exc.message}", hint=exc.hint) from exc


def _typed(arguments: dict[str, Any], text: str) -> dict[str, Any]:
    """The schema with what `NAME[:TYPE][=DEFAULT]` says of one argument."""
    head, equals, default = text.partition("=")
    name, colon, kind = head.partition(":")
    known = arguments.get("properties", {})
    if name not in known:
        listed = ", ".join(known) or "none"
        raise UsageProblem(
            f"--arg: the request has no argument '{name}'. There are: {listed}.",
            hint="Write {name} in the address, or ${name} in a header or body.",
        )
    if colon and kind not in _TYPES:
        raise UsageProblem(f"--arg: '{kind}' is no type.", hint=f"One of: {', '.join(_TYPES)}.")
    changed = {**known[name], **({"type": kind} if colon else {})}
    required = [each for each in arguments.get("required", []) if each != name or not equals]
    if equals:
        value = read_literal(default) if changed.get("type") != "string" else MISSING
        changed["default"] = default if value is MISSING else value
    fresh = {**arguments, "properties": {**known, name: changed}, "required": required}
    return {key: value for key, value in fresh.items() if value != []}


def _told(bundle: Bundle, tool: Tool, draft: CurlDraft, *, is_new: bool) -> list[str]:
    assert tool.http is not None
    request = tool.http.wire()["request"]
    lines = [f"{bundle.slug}.{tool.slug}@{tool.version}: {'stored' if is_new else 'there already, as it is'}."]
    lines.append(f"  {request['method']} {request['urlTemplate']}")
    lines += [f"  {part}: {request[part]}" for part in ("query", "headers", "body") if part in request]
    if "auth" in request:
        lines.append(f"  auth: {request['auth']['type']}")
    for param in schema.params(tool.arg_schema):
        need = "required" if param.required else f"default {param.schema.get('default')!r}"
        lines.append(f"  argument {param.name}: {schema.type_text(param.schema, tool.arg_schema)}, {need}")
    lines += [f"  note: {note}" for note in draft.notes]
    lines += [f"Secret {name}: named in the command, to be put into secrets.yaml." for name in draft.missing]
    return lines


def _example(bundle: Bundle, tool: Tool) -> list[str]:
    wanted = [param.name for param in schema.params(tool.arg_schema) if param.required]
    line = " ".join([f"%tool {bundle.slug}.{tool.slug}", *(f"{name}=..." for name in wanted)])
    spelled = f"{schema.identifier(bundle.slug)}.{schema.identifier(tool.slug)}"
    return [f"Try it: {line}    or    {spelled}({', '.join(f'{schema.identifier(name)}=...' for name in wanted)})"]


def _essence(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        record.get(key) or None for key in ("http", "argSchema", "outputSchema", "description", "tags", "type")
    )


def _double(word: str) -> str:
    """A word in double quotes, in which a shell leaves `$name` a variable."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")
    return f'"{escaped}"'
