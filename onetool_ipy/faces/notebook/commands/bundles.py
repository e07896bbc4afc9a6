"""`%tool new http`, `%tool bundle` and `%tool import`: HTTP tools and their bundles.

Base URL and auth of a bundle hold for all its tools: `bundle set` sets them, the first `new` of an API with a token
too. `new` takes a pasted curl command, or options that read like one; `bundles.importing` reads it. `Consent` edits the
user's own files (an allowed host, a secret) only after a yes: a flag, or an answer. If nobody can answer, nothing is
changed and the line to add is shown. The value of a secret is never shown.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from onetool_ipy.base.errors import InvalidConfig, InvalidRequest, NotFound, UsageProblem
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.bundles.validation import require_slug, require_version
from onetool_ipy.config.edit import allow_host, save_secret
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.faces import creation
from onetool_ipy.faces.line.grammar import OptionKind, read_options
from onetool_ipy.faces.line.tokenizer import closed_words
from onetool_ipy.faces.line.values import read_word
from onetool_ipy.faces.notebook.commands import CellCommand, Command, CommandContext, CommandGroup, confirmed
from onetool_ipy.faces.notebook.display import Page
from onetool_ipy.faces.pack_names import require_free_name
from onetool_ipy.faces.secret_hosts import new_sendings, shared_request, unconfirmed
from onetool_ipy.render.views import Listing, counted
from onetool_ipy.schema.read import identifier, params, type_text
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.bundles.importing.draft import BundleDraft
    from onetool_ipy.bundles.importing.sample import SampleDraft
    from onetool_ipy.bundles.model import Bundle, Tool

__all__ = ["BundleCommands", "Consent", "NewHttpCommand"]


class Consent:
    """Asks, then edits the project's files; returns lines that say what was done or is left to do."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    def hosts(self, hosts: Sequence[str], *, is_given: bool) -> list[str]:
        """Allow HTTP tools to reach these hosts, after a yes."""
        lines = []
        for host in creation.unreached(self._box, hosts):
            if is_given or self._is_yes(f"Allow HTTP tools to reach '{host}'?", "Allow"):
                with self._box.gate.saving(f"host {host}"):
                    file = allow_host(self._box.config.paths, host)
                where = f", in {self._shown(file)}" if file else " already"
                lines += [f"Allowed: {host}{where}", *self._read_again()]
            else:
                lines.append(
                    f"Not allowed yet: {host}. Run it again with --allow-host, or add it to http.allowed_hosts."
                )
        return lines

    def sending(
        self,
        records: Iterable[Mapping[str, Any]],
        *,
        made_up: Collection[str] | None,
        given: str,
        base_url: str | None = None,
    ) -> None:
        """Ask before a secret goes to a new host; raise UsageProblem without a yes.

        `given` is what `--secret-host` says: NAME=HOST, several separated by commas.
        """
        left = unconfirmed(new_sendings(self._box, records, made_up=made_up, base_url=base_url), given.split(","))
        for one in left:
            if not self._is_yes(f"{one.said} Send it there?", "Send it"):
                words = ",".join(each.word for each in left)
                raise UsageProblem(f"{one.said} Nothing was made.", hint=f"To allow it add: --secret-host {words}")

    def secrets(self, secrets: Mapping[str, str], *, is_given: bool) -> list[str]:
        """Save the values of secrets, after a yes."""
        lines = []
        for name, value in secrets.items():
            known = self._box.config.secrets
            if name in known.names():
                same = known.get(name) == value
                lines.append(f"Secret {name}: {'known' if same else 'secrets.yaml has another value, which is used'}.")
            elif is_given or self._is_yes(f"Keep the value of '{name}' in {FOLDER}/secrets.yaml?", "Keep it"):
                with self._box.gate.saving():
                    file = save_secret(self._box.config.paths, name, value)
                kept = f"Secret {name}: kept in {self._shown(file)}."
                lines.append(f"{kept} Delete it from this cell before you share the notebook.")
                lines += self._read_again()
            else:
                lines.append(
                    f"Secret {name}: not kept. Run it again with --save-secrets, or add to {FOLDER}/secrets.yaml:"
                )
                lines.append(f'  {name}: "..."')
        return lines

    def _is_yes(self, question: str, yes: str) -> bool:
        """Whether the person says yes; False if nobody can answer."""
        return bool(confirmed(self._box, question, yes))

    def _shown(self, file: Path) -> str:
        project = self._box.config.paths.project
        return str(file.relative_to(project) if file.is_relative_to(project) else file)

    def _read_again(self) -> list[str]:
        """Reload the configuration; a mistake elsewhere in it is reported, and nothing made is lost."""
        try:
            self._box.reload()
        except InvalidConfig as exc:
            return [f"Not in use yet: {exc.message}", "  Correct that, then run: %tool reload"]
        return []


_SWITCHES = ("--allow-host", "--save-secrets", "--replace")
_TEXTS = ("--curl", "--describe", "--tags", "--secret-host")
_TYPES = ("string", "integer", "number", "boolean", "array", "object")
_CURLS = {"--method": "--request", "--body": "--data-raw"}
_USAGE = "%tool new http my-api.get-user --url https://api.example.com/users/{id} --arg id:integer"


class NewHttpCommand(CommandGroup):
    """`%tool new http`: make an HTTP tool."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool new http                 the editor of an HTTP tool: request, auth, arguments, response",
        "%tool new http BUNDLE.TOOL     an HTTP tool: --url, --method, --header, --body, --arg NAME:TYPE, --curl '...'",
        "%%tool new http BUNDLE.TOOL    the same from a curl command below; --allow-host, --save-secrets, --replace",
    )

    def __init__(self, context: CommandContext) -> None:
        super().__init__(context)
        self._consent = Consent(context.box)

    def table(self) -> dict[str, Command]:
        return {"new": lambda rest: self._new(rest, None)}

    def cells(self) -> dict[str, CellCommand]:
        return {"new": self._new}

    def _new(self, rest: str, cell: str | None) -> Any:
        screens = self.box.host.screens() if rest.split() == ["http"] and not cell else None
        if screens is not None and getattr(self.context.shell, "kernel", None) is not None:
            return screens.http_tool()
        from onetool_ipy.bundles.importing.curl import import_curl

        asked = _NewHttp(rest, cell)
        asked.fill(self.context.shell.user_ns)
        known = self.box.bundles.named(asked.bundle)
        if known is None:
            require_free_name(self.box, asked.bundle, creation.NEW_BUNDLE)
        draft = import_curl(asked.command(None if known is None else known.base_url), slug=asked.slug)
        record = asked.applied(draft.tool)
        secrets = self.box.config.secrets
        made_up = [name for name, value in draft.secrets.items() if secrets.get(name) != value]
        self._consent.sending([record], made_up=made_up, given=asked.given.get("--secret-host", ""))
        bundle, tool, is_new = self._store(asked, record, known)
        lines = _told(bundle, tool, draft, is_new=is_new)
        lines += self._consent.secrets(draft.secrets, is_given="--save-secrets" in asked.given)
        lines += self._consent.hosts(draft.hosts, is_given="--allow-host" in asked.given)
        return self.page(*lines, *_example(bundle, tool))

    def _store(self, asked: _NewHttp, record: dict[str, Any], known_bundle: Bundle | None) -> tuple[Bundle, Tool, bool]:
        """Store the tool. Storing the same one again is fine, so that a notebook can be run again."""
        bundles = self.box.bundles
        bundle = known_bundle
        if bundle is None:
            bundles.draft(record)  # an invalid tool leaves no empty bundle behind
            shared = creation.shared_of(record)
            bundle = bundles.put_bundle(bundles.new_id(), slug=asked.bundle, display_name=asked.bundle, **shared)
        creation.lean_on(bundle, record, is_relative=asked.is_relative)
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
            bundles.draft(record, bundle=bundle)
            bundles.delete_tool(*place)
        return bundle, bundles.put_tool(*place, record), True

    def _known(self, bundle_id: str, slug: str, version: str) -> Tool | None:
        try:
            return self.box.bundles.get_tool(bundle_id, slug, version)
        except NotFound:
            return None


class _NewHttp:
    """A line of `%tool new http` with its cell: a name, our options, and the words of a curl command."""

    def __init__(self, rest: str, cell: str | None) -> None:
        words = [word.text for word in closed_words(rest)]
        if words[:1] != ["http"]:
            raise UsageProblem("%tool new makes HTTP tools.", hint=f"For example: {_USAGE}")
        if len(words) < 2 or words[1].startswith("-"):
            raise UsageProblem("%tool new http needs a name: BUNDLE.TOOL.", hint=f"For example: {_USAGE}")
        self.given: dict[str, str] = {}
        self._arguments: list[str] = []
        self._curl: list[str] = []
        self._cell = (cell or "").strip()
        self.bundle, self.slug, self.version = _name(words[1])
        self.is_relative = False
        self._read(words[2:])

    def fill(self, names: Mapping[str, Any]) -> None:
        """Read the command of `--curl {name}` from the notebook's variable."""
        given = self.given.get("--curl", "")
        name = given[1:-1].strip() if given[:1] == "{" and given[-1:] == "}" else ""
        if name.isidentifier():
            if not isinstance(names.get(name), str):
                raise UsageProblem(f"--curl: there is no text called '{name}' in this notebook.")
            self.given["--curl"] = names[name]

    def command(self, base_url: str | None) -> str:
        """The curl command, from `--curl`, the cell or the line. A URL such as `/users` is behind the base URL."""
        pasted = self.given.get("--curl") or self._cell
        if pasted and self._curl:
            raise UsageProblem(
                f"The command is pasted, and '{self._curl[0]}' is given too.", hint="Write it in one place."
            )
        if self._cell and "--curl" in self.given:
            raise UsageProblem("There is a command in --curl and one in the cell.", hint="Keep one of them.")
        if not pasted and not self._curl:
            raise UsageProblem("No address is given.", hint=f"For example: {_USAGE}")
        if not pasted:
            self._curl = [self._whole(word, before, base_url) for before, word in pairwise(["", *self._curl])]
        return pasted or " ".join(["curl", *(_double(word) for word in self._curl)])

    def _whole(self, word: str, before: str, base_url: str | None) -> str:
        if not word.startswith("/") or (before.startswith("-") and before != "--url"):
            return word
        if base_url is None:
            raise UsageProblem(
                f"'{word}' is relative, and the bundle '{self.bundle}' has no base URL.",
                hint=f"Write the whole address, or: %tool bundle set {self.bundle} --base-url https://...",
            )
        self.is_relative = True
        return base_url + word

    def applied(self, tool: dict[str, Any]) -> dict[str, Any]:
        """The tool with our own options applied."""
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
                    raise UsageProblem(f"'{name}' needs a value.", hint=f"For example: {_USAGE}")
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
    bundle, dot, rest = text.partition(".")
    slug, _, version = rest.partition("@")
    if not dot or not bundle or not slug:
        raise UsageProblem(f"'{text}' is not a valid tool name.", hint="Write BUNDLE.TOOL, as in my-api.get-user.")
    try:
        return require_slug(bundle), require_slug(slug), require_version(version or "1")
    except InvalidRequest as exc:
        raise UsageProblem(f"'{text}': {exc.message}", hint=exc.hint) from exc


def _typed(arguments: dict[str, Any], text: str) -> dict[str, Any]:
    """The schema with `NAME[:TYPE][=DEFAULT]` applied to one argument."""
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
        raise UsageProblem(f"--arg: '{kind}' is not a type.", hint=f"One of: {', '.join(_TYPES)}.")
    changed = {**known[name], **({"type": kind} if colon else {})}
    required = [each for each in arguments.get("required", []) if each != name or not equals]
    if equals:
        changed["default"] = default if changed.get("type") == "string" else read_word(default)
    fresh = {**arguments, "properties": {**known, name: changed}, "required": required}
    return {key: value for key, value in fresh.items() if value != []}


def _told(bundle: Bundle, tool: Tool, draft: SampleDraft, *, is_new: bool) -> list[str]:
    assert tool.http is not None
    request = tool.http.wire()["request"]
    lines = [f"{bundle.slug}.{tool.slug}@{tool.version}: {'stored' if is_new else 'there already, as it is'}."]
    lines.append(f"  {request['method']} {request['urlTemplate']}")
    lines += [f"  {part}: {request[part]}" for part in ("query", "headers", "body") if part in request]
    if "auth" in request:
        lines.append(f"  auth: {request['auth']['type']}")
    elif (shared := tool.within(bundle).http) and (signed := shared.plan()[0][1].request.auth):
        lines.append(f"  auth: {signed.type}, of the bundle {bundle.slug}: all its tools at {bundle.base_url} send it")
    for param in params(tool.arg_schema):
        need = "required" if param.required else f"default {param.schema.get('default')!r}"
        lines.append(f"  argument {param.name}: {type_text(param.schema, tool.arg_schema)}, {need}")
    lines += [f"  note: {note}" for note in draft.notes]
    lines += [f"Secret {name}: named in the command, to be put into secrets.yaml." for name in draft.missing]
    return lines


def _example(bundle: Bundle, tool: Tool) -> list[str]:
    wanted = [param.name for param in params(tool.arg_schema) if param.required]
    line = " ".join([f"%tool {bundle.slug}.{tool.slug}", *(f"{name}=..." for name in wanted)])
    spelled = f"{identifier(bundle.slug)}.{identifier(tool.slug)}"
    return [f"Try it: {line}    or    {spelled}({', '.join(f'{identifier(name)}=...' for name in wanted)})"]


def _essence(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        record.get(key) or None for key in ("http", "argSchema", "outputSchema", "description", "tags", "type")
    )


def _double(word: str) -> str:
    """A word in double quotes, in which `$name` stays a variable of the shell."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")
    return f'"{escaped}"'


_VERBS = "list, show, set, on, off, delete"
_IMPORT_OPTIONS: Mapping[str, OptionKind] = {
    **dict.fromkeys(("--bundle", "--server", "--secret-host", "--auth", "--tag", "--include", "--exclude"), "text"),
    **dict.fromkeys(("--allow-host", "--read-only", "--dry"), "switch"),
}


class BundleCommands(CommandGroup):
    """The sub-commands about bundles."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool bundle list              bundles and their switches; %tool bundle show NAME[.tool[@version]]",
        "%tool bundle on|off NAME       switch a bundle, a tool or one version; %tool bundle delete NAME.tool@version",
        "%tool bundle set NAME          --base-url URL, --auth bearer:SECRET (none): for all its tools",
        "%tool import FILE_OR_URL       a bundle from an OpenAPI, Swagger or Postman file; --bundle, --allow-host",
        "%tool import FILE_OR_URL --dry   see its operations; choose: --tag, --include 'get-*', --exclude, --read-only",
        "%tool import FILE_OR_URL --server URL --auth bearer:SECRET   where its tools send to, and as whom",
    )

    def __init__(self, context: CommandContext) -> None:
        super().__init__(context)
        self._consent = Consent(context.box)

    def table(self) -> dict[str, Command]:
        return {"bundle": self._bundle, "import": self._import}

    def _bundle(self, rest: str) -> Any:
        texts: dict[str, OptionKind] = dict.fromkeys(("--base-url", "--auth", "--secret-host"), "text")
        asked = read_options(rest, {**texts, "--with-tools": "switch", "--allow-host": "switch"})
        verb, *names = asked.words or ["list"]
        if verb == "list" and not names:
            return self._listed()
        if verb not in _VERBS.split(", "):
            raise UsageProblem(f"%tool bundle does not know '{verb}'.", hint=f"It knows: {_VERBS}.")
        if len(names) != 1:
            raise UsageProblem(f"%tool bundle {verb} needs one name.", hint=f"For example: %tool bundle {verb} my-api")
        bundle, tools = self._meant(names[0])
        if verb == "set":
            return self._set(bundle, asked.given)
        if verb in ("list", "show"):
            return self._shown(bundle, tools)
        if verb == "delete":
            return self._delete(bundle, tools, with_tools="--with-tools" in asked.given)
        return self._switch(bundle, tools, enabled=verb == "on")

    def _listed(self) -> Listing:
        counts: dict[str, int] = {}
        for tool in self.box.bundles.all_tools():
            counts[tool.bundle_id] = counts.get(tool.bundle_id, 0) + 1
        rows = [
            {
                "bundle": bundle.slug,
                "enabled": bundle.is_enabled,
                "tools": counts.get(bundle.bundle_id, 0),
                "description": self.box.mask(bundle.description or bundle.display_name),
                "built_in": bundle.is_built_in,
            }
            for bundle in self.box.bundles.all_bundles()
        ]
        return Listing(rows)

    def _shown(self, bundle: Bundle, tools: list[Tool] | None) -> Page:
        if tools is not None and len(tools) == 1:
            return self.page(json.dumps(tools[0].to_dict(), ensure_ascii=False, indent=2))
        found = self.box.bundles.all_tools(bundle.bundle_id) if tools is None else tools
        lines = [f"{bundle.slug} ({'on' if bundle.is_enabled else 'off'}): {bundle.description or bundle.display_name}"]
        if bundle.base_url:
            signed = f", auth: {bundle.auth.type}" if bundle.auth is not None else ""
            lines.append(f"  base URL: {bundle.base_url}{signed}")
        for tool in found:
            state = "on" if tool.is_enabled else "off"
            reason = "" if tool.available else f"  not available: {tool.reason}"
            facts = f"{state}, {tool.type}, {counted(tool.call_count, 'call')}{reason}"
            lines.append(f"  {bundle.slug}.{tool.slug}@{tool.version}  {facts}")
        if not found:
            lines.append(f"  no tools yet: %tool new http {bundle.slug}.NAME")
        return self.page(*lines)

    def _set(self, bundle: Bundle, given: Mapping[str, str]) -> Page:
        """Set the base URL and the auth of a bundle. Without a base URL it is the host that all its tools have."""
        if not {"--base-url", "--auth"} & set(given):
            raise UsageProblem(
                "%tool bundle set needs --base-url or --auth.",
                hint=f"For example: %tool bundle set {bundle.slug} --auth bearer:API_TOKEN",
            )
        base_url = given.get("--base-url", bundle.base_url) or creation.common_origin(
            self.box.bundles.all_tools(bundle.bundle_id)
        )
        auth, name = creation.wire_auth(bundle), ""
        if "--auth" in given:
            auth, name = (None, "") if given["--auth"] == "none" else creation.read_auth(given["--auth"])
        if auth is not None and not base_url:
            raise UsageProblem(
                f"The tools of '{bundle.slug}' do not share one host.", hint="Say where the secret goes: --base-url URL"
            )
        record = shared_request(base_url, auth)
        self._consent.sending([record], made_up=(), given=given.get("--secret-host", ""))
        made = creation.set_shared(self.box, bundle, base_url or None, auth)
        lines = [
            f"The bundle {made.slug}: base URL {made.base_url or 'none'}, auth {auth['type'] if auth else 'none'}."
        ]
        if name and name not in self.box.config.secrets.names():
            lines += ["Add to .onetool/secrets.yaml what they need:", f'  {name}: "..."']
        if made.base_url:
            lines += self._consent.hosts(creation.own_host(made.base_url), is_given="--allow-host" in given)
        return self.page(*lines)

    def _switch(self, bundle: Bundle, tools: list[Tool] | None, *, enabled: bool) -> Page:
        word = "on" if enabled else "off"
        if tools is None:
            self.box.bundles.patch_bundle(bundle.bundle_id, enabled=enabled)
            return self.page(f"The bundle {bundle.slug} is {word}.")
        for tool in tools:
            self.box.bundles.patch_tool(bundle.bundle_id, tool.slug, tool.version, enabled=enabled)
        return self.page(*(f"{bundle.slug}.{tool.slug}@{tool.version} is {word}." for tool in tools))

    def _delete(self, bundle: Bundle, tools: list[Tool] | None, *, with_tools: bool) -> Page:
        bundles = self.box.bundles
        if tools is not None:
            if len(tools) > 1:
                listed = ", ".join(f"{bundle.slug}.{tool.slug}@{tool.version}" for tool in tools)
                raise UsageProblem(f"'{tools[0].slug}' has {len(tools)} versions.", hint=f"Name one of: {listed}")
            bundles.delete_tool(bundle.bundle_id, tools[0].slug, tools[0].version)
            return self.page(f"{bundle.slug}.{tools[0].slug}@{tools[0].version} is deleted.")
        held = self.box.bundles.all_tools(bundle.bundle_id)
        if held and not with_tools and not bundle.is_built_in:
            raise UsageProblem(
                f"The bundle '{bundle.slug}' holds {counted(len(held), 'tool')}.",
                hint=f"Delete it with all of them: %tool bundle delete {bundle.slug} --with-tools",
            )
        for tool in () if bundle.is_built_in else held:
            bundles.delete_tool(bundle.bundle_id, tool.slug, tool.version)
        bundles.delete_bundle(bundle.bundle_id)
        return self.page(f"The bundle {bundle.slug} is deleted, with {counted(len(held), 'tool')}.")

    def _import(self, rest: str) -> Any:
        asked = read_options(rest, _IMPORT_OPTIONS)
        words = asked.words[1:] if asked.words[:1] == ["openapi"] and len(asked.words) > 1 else asked.words
        if len(words) != 1:
            raise UsageProblem(
                "%tool import needs one file or address.",
                hint="For example: %tool import https://api.example.com/openapi.json --allow-host",
            )
        is_allowed = "--allow-host" in asked.given
        draft = self._drafted(words[0], asked.given, is_allowed=is_allowed)
        if "--dry" in asked.given:
            return Listing({**row, "tags": ", ".join(row["tags"])} for row in draft.rows())
        if "--auth" in asked.given:
            creation.add_auth(draft, asked.given["--auth"])
        self._consent.sending(draft.tools, made_up=None, given=asked.given.get("--secret-host", ""))
        notes = creation.name_bundle(self.box, draft, asked.given.get("--bundle"))
        made = creation.store_draft(self.box, draft)
        said = self._consent.hosts(draft.hosts, is_given=is_allowed)
        return self.page(*creation.told(made, draft, self.box), *notes, *said, *creation.examples(made))

    def _drafted(self, source: str, given: Mapping[str, Any], *, is_allowed: bool) -> BundleDraft:
        from onetool_ipy.bundles.importing.draft import ImportRequest
        from onetool_ipy.bundles.importing.formats import import_document

        also = creation.own_host(source) if is_allowed else ()
        data, base_url = creation.read_source(self.box, source, also=also)
        words = [[given[name]] if name in given else [] for name in ("--tag", "--include", "--exclude")]
        chosen = creation.choice(*words, read_only="--read-only" in given)
        known = self.box.config.secrets.names()
        return import_document(
            data, ImportRequest(given.get("--bundle"), base_url, given.get("--server"), known, chosen)
        )

    def _meant(self, name: str) -> tuple[Bundle, list[Tool] | None]:
        """The bundle of a name, and the versions of its tool if the name has one."""
        slug, dot, rest = name.partition(".")
        bundle = self.box.bundles.named(slug)
        if bundle is None:
            near = did_you_mean(slug, [each.slug for each in self.box.bundles.all_bundles()])
            raise UsageProblem(f"No bundle '{slug}'. {near}".strip(), hint="See them with: %tool bundle list")
        if not dot:
            return bundle, None
        wanted, _, version = rest.partition("@")
        tools = self.box.bundles.all_tools(bundle.bundle_id)
        found = [tool for tool in tools if tool.slug == wanted and version in ("", tool.version)]
        if not found:
            near = did_you_mean(wanted, [tool.slug for tool in tools])
            raise UsageProblem(
                f"The bundle '{slug}' has no tool '{rest}'. {near}".strip(), hint=f"See: %tool bundle show {slug}"
            )
        return bundle, found
