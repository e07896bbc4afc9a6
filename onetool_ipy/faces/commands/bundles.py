"""`%tool new http`, `%tool bundle` and `%tool import`: HTTP tools and their bundles.

Base URL and auth of a bundle hold for all its tools: `bundle set` sets them, the first `new` of an
API with a token too. `new` takes a pasted curl command, or options that read like one;
`bundles.importing` reads it. `Consent` edits the user's own files (an allowed host, a secret) only
after a yes: a flag, or an answer. If nobody can answer, nothing is changed and the line to add is
shown. The value of a secret is never shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from onetool_ipy.base.credentials import is_secret_name
from onetool_ipy.base.errors import InvalidConfig, InvalidRequest, NotFound, UsageProblem
from onetool_ipy.base.records import collector_paused
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.bundles.http.address import joined
from onetool_ipy.bundles.validation import require_slug, require_version
from onetool_ipy.config.edit import allow_host, save_secret
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.faces import creation
from onetool_ipy.faces import environments as env
from onetool_ipy.faces.bundle_run import run_bundle
from onetool_ipy.faces.commands import (
    CommandContext,
    DataPage,
    Page,
    WrongWords,
    confirmed,
    one_word,
)
from onetool_ipy.faces.line.grammar import Options
from onetool_ipy.faces.line.values import read_word
from onetool_ipy.faces.new_packs import require_free_name
from onetool_ipy.faces.secret_hosts import (
    Sending,
    environment_hosts,
    new_sendings,
    sendings_of,
    unconfirmed,
)
from onetool_ipy.render.views import Listing, counted
from onetool_ipy.schema.read import identifier, params, type_text
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.bundles.environments import Environment
    from onetool_ipy.bundles.importing.sample import SampleDraft
    from onetool_ipy.bundles.model import Bundle, Tool

_SWITCHES = ("--allow-host", "--save-secrets", "--replace")
_TEXTS = ("--curl", "--describe", "--tags", "--secret-host")
_TYPES = ("string", "integer", "number", "boolean", "array", "object")
_CURLS = {"--method": "--request", "--body": "--data-raw"}
NEW_HTTP = (
    "%tool new http my-api.get-user --url https://api.example.com/users/{id} --arg id:integer"
)


class Consent:
    """Asks, then edits the project's files; returns lines that say what was done or is left to
    do."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._agreed_hosts: set[str] = set()

    def hosts(self, hosts: Sequence[str], *, is_given: bool) -> list[str]:
        """Allow HTTP tools to reach these hosts, after a yes."""
        lines = []
        for host in creation.unreached(self._box, hosts):
            is_agreed = is_given or host in self._agreed_hosts
            if is_agreed or self._is_yes(f"Allow HTTP tools to reach '{host}'?", "Allow"):
                with self._box.gate.saving(f"host {host}"):
                    file = allow_host(self._box.config.paths, host)
                where = f", in {self._shown(file)}" if file else " already"
                lines += [f"Allowed: {host}{where}", *self._read_again()]
            else:
                lines.append(
                    f"Not allowed yet: {host}. Run it again with --allow-host, or add it to"
                    " http.allowed_hosts."
                )
        return lines

    def sendings(
        self,
        sendings: Iterable[Sending],
        allowed: Sequence[str],
        hosts: Sequence[str] = (),
        bundle: Bundle | None = None,
    ) -> None:
        """Ask one question for all that `allowed` does not name; raise UsageProblem without a yes.

        `allowed` is what `--secret-host` says: NAME=HOST, several separated by commas. The yes also
        lets HTTP tools reach `hosts`, if they do not yet.
        """
        left = unconfirmed(sendings, [pair for text in allowed for pair in text.split(",")])
        if not left:
            return
        names = environment_hosts(self._box, bundle)
        question = " ".join(one.said_with(names) for one in left)
        new = creation.unreached(self._box, hosts)
        listed = ", ".join(f"'{host}'" for host in new)
        also = f" HTTP tools may not reach {listed} yet; a yes allows it." if new else ""
        if not self._is_yes(
            f"{question}{also} Send it there?", "Allow and send" if new else "Send it"
        ):
            words = ",".join(each.word for each in left)
            raise UsageProblem(
                f"{question} Nothing was made.", hint=f"To allow it add: --secret-host {words}"
            )
        self._agreed_hosts |= set(new)

    def secrets(self, secrets: Mapping[str, str], *, is_given: bool) -> list[str]:
        """Save the values of secrets, after a yes."""
        lines = []
        for name, value in secrets.items():
            store = self._box.config.secrets
            if name in store.names():
                same = store.get(name) == value
                lines.append(
                    f"Secret {name}:"
                    f" {'known' if same else 'secrets.yaml has another value, which is used'}."
                )
            elif is_given or self._is_yes(
                f"Keep the value of '{name}' in {FOLDER}/secrets.yaml?", "Keep it"
            ):
                with self._box.gate.saving():
                    file = save_secret(self._box.config.paths, name, value)
                kept = f"Secret {name}: kept in {self._shown(file)}."
                lines.append(f"{kept} Delete it from this cell before you share the notebook.")
                lines += self._read_again()
            else:
                lines.append(
                    f"Secret {name}: not kept. Run it again with --save-secrets, or add to"
                    f" {FOLDER}/secrets.yaml:"
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
        """Reload the configuration; a mistake elsewhere in it is reported, and nothing made is
        lost."""
        try:
            self._box.reload()
        except InvalidConfig as exc:
            return [f"Not in use yet: {exc.message}", "  Correct that, then run: %tool reload"]
        return []


def new_http(context: CommandContext, options: Options) -> object:
    """`%tool new http BUNDLE.TOOL`; without a name, where there are screens, the editor. A bundle
    alone is enough: the request names the tool."""
    if (
        not options.words
        and not options.body
        and getattr(context.shell, "kernel", None) is not None
    ):
        screens = context.box.host.screens()
        if screens is not None:
            return screens.http_tool()
    from onetool_ipy.bundles.importing.curl import import_curl

    line = _NewHttp(options.words, options.body)
    line.fill(getattr(context.shell, "user_ns", {}))
    bundle_here = context.box.bundles.named(line.bundle)
    if bundle_here is None:
        require_free_name(context.box, line.bundle, creation.NEW_BUNDLE)
    draft = import_curl(
        line.command(None if bundle_here is None else bundle_here.base_url), slug=line.slug or None
    )
    line.slug = draft.tool["slug"]
    record = line.applied(draft.tool)
    secrets, consent = context.box.config.secrets, Consent(context.box)
    made_up = [name for name, value in draft.secrets.items() if secrets.get(name) != value]
    sendings = new_sendings(context.box, [record], made_up=made_up, bundle=bundle_here)
    consent.sendings(sendings, [line.values.get("--secret-host", "")], draft.hosts)
    bundle, tool, is_new = _store(context, line, record, bundle_here)
    lines = _description(bundle, tool, draft, is_new=is_new)
    lines += consent.secrets(draft.secrets, is_given="--save-secrets" in line.values)
    lines += consent.hosts(draft.hosts, is_given="--allow-host" in line.values)
    required = [param.name for param in params(tool.arg_schema) if param.required]
    line_text = " ".join(
        [f"%tool {bundle.slug}.{tool.slug}", *(f"{name}=..." for name in required)]
    )
    spelled = f"{identifier(bundle.slug)}.{identifier(tool.slug)}"
    python = f"{spelled}({', '.join(f'{identifier(name)}=...' for name in required)})"
    return context.page(*lines, f"Try it: {line_text}    or    {python}")


def _store(
    context: CommandContext, line: _NewHttp, record: dict[str, Any], known_bundle: Bundle | None
) -> tuple[Bundle, Tool, bool]:
    """Store the tool. Storing the same one again is fine, so that a notebook can be run again."""
    bundles = context.box.bundles
    bundle = known_bundle
    if bundle is None:
        bundles.draft(record)  # an invalid tool leaves no empty bundle behind
        base_url = creation.base_url_for(context.box, None, [record])
        shared = creation.shared_of(record) if base_url else {}
        bundle = bundles.put_bundle(
            bundles.new_id(),
            slug=line.bundle,
            display_name=line.bundle,
            base_url=base_url,
            **shared,
        )
    elif bundle.base_url is None and (
        base_url := creation.base_url_for(context.box, bundle, [record])
    ):
        bundles.draft(record)
        bundle = creation.store_bundle(context.box, creation.changed_bundle(bundle, base_url, None))
    creation.lean_on(bundle, record)
    place = (bundle.bundle_id, line.slug, line.version)
    try:
        stored = bundles.get_tool(*place)
    except NotFound:
        stored = None
    if stored is not None:
        if _essence(stored.to_dict()) == _essence(record):
            return bundle, stored, False
        if "--replace" not in line.values:
            raise UsageProblem(
                f"'{bundle.slug}.{stored.slug}' exists already (version {stored.version}).",
                hint=f"Write --replace, or another version: {bundle.slug}.{stored.slug}@2",
            )
        bundles.draft(record, bundle=bundle)
        bundles.delete_tool(*place)
    return bundle, bundles.put_tool(*place, record), True


class _NewHttp:
    """A line of `%tool new http` with its cell: a name, our options, and the words of a curl
    command."""

    def __init__(self, words: Sequence[str], cell: str) -> None:
        if not words or words[0].startswith("-"):
            raise WrongWords(
                "%tool new http needs a name: BUNDLE or BUNDLE.TOOL.",
                hint=f"For example: {NEW_HTTP}",
            )
        self.values: dict[str, str] = {}
        self._arguments: list[str] = []
        self._curl: list[str] = []
        self._cell = cell.strip()
        bundle, dot, rest = words[0].partition(".")
        slug, _, version = rest.partition("@")
        if not bundle or (dot and not slug):
            hint = "Write BUNDLE.TOOL, as in my-api.get-user."
            raise UsageProblem(f"'{words[0]}' is not a valid tool name.", hint=hint)
        try:
            self.bundle, self.slug = require_slug(bundle), require_slug(slug) if dot else ""
            self.version = require_version(version or "1")
        except InvalidRequest as exc:
            words_of = exc.message.removeprefix("slug: ")
            raise UsageProblem(f"'{words[0]}': {words_of}", hint=exc.hint) from exc
        self._read(words[1:])

    def fill(self, names: Mapping[str, Any]) -> None:
        """Read the command of `--curl {name}` from the notebook's variable."""
        command = self.values.get("--curl", "")
        name = command[1:-1].strip() if command[:1] == "{" and command[-1:] == "}" else ""
        if name.isidentifier():
            if not isinstance(names.get(name), str):
                raise UsageProblem(f"--curl: there is no text called '{name}' in this notebook.")
            self.values["--curl"] = names[name]

    def command(self, base_url: str | None) -> str:
        """The curl command, from `--curl`, the cell or the line. A URL such as `/users` is behind
        the base URL."""
        pasted = self.values.get("--curl") or self._cell
        if pasted and self._curl:
            flags = [*_SWITCHES, "--describe", "--tags", "--secret-host", "--arg"]
            near = did_you_mean(self._curl[0], flags) if self._curl[0].startswith("--") else ""
            if near:
                raise UsageProblem(f"No flag '{self._curl[0]}'. {near}")
            raise UsageProblem(
                f"The command is pasted, and '{self._curl[0]}' is given too.",
                hint="Write it in one place.",
            )
        if self._cell and "--curl" in self.values:
            raise UsageProblem(
                "There is a command in --curl and one in the cell.", hint="Keep one of them."
            )
        if not pasted and not self._curl:
            raise UsageProblem("No address is given.", hint=f"For example: {NEW_HTTP}")
        if not pasted:
            self._curl = [
                self._whole(word, before, base_url) for before, word in pairwise(["", *self._curl])
            ]
        # In double quotes `$name` stays a variable of the shell.
        return pasted or " ".join(
            ["curl", *('"' + re.sub(r'([\\"`])', r"\\\1", word) + '"' for word in self._curl)]
        )

    def _whole(self, word: str, before: str, base_url: str | None) -> str:
        if not word.startswith("/") or (before.startswith("-") and before != "--url"):
            return word
        if base_url is None:
            raise UsageProblem(
                f"'{word}' is relative, and the bundle '{self.bundle}' has no base URL.",
                hint=f"Write the whole address, or: %tool bundle set {self.bundle} --base-url https://...",
            )
        return base_url + word

    def applied(self, tool: dict[str, Any]) -> dict[str, Any]:
        """The tool with our own options applied."""
        record = {key: value for key, value in tool.items() if key not in ("slug", "version")}
        if "--describe" in self.values:
            record["description"] = self.values["--describe"]
        if "--tags" in self.values:
            record["tags"] = [
                tag.strip() for tag in self.values["--tags"].split(",") if tag.strip()
            ]
        for text in self._arguments:
            record["argSchema"] = _typed(record["argSchema"], text)
        return record

    def _read(self, words: Sequence[str]) -> None:
        todo = list(words)
        while todo:
            word = todo.pop(0)
            name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
            if name in _SWITCHES:
                self.values[name] = "yes"
            elif name in (*_TEXTS, "--arg", *_CURLS):
                if not equals and not todo:
                    raise UsageProblem(f"'{name}' needs a value.", hint=f"For example: {NEW_HTTP}")
                self._take(name, value if equals else todo.pop(0))
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
            self.values[name] = value


def _typed(arguments: dict[str, Any], text: str) -> dict[str, Any]:
    """The schema with `NAME[:TYPE][=DEFAULT]` applied to one argument."""
    head, equals, default = text.partition("=")
    name, colon, kind = head.partition(":")
    properties = arguments.get("properties", {})
    if name not in properties:
        listed = ", ".join(properties) or "none"
        raise UsageProblem(
            f"--arg: the request has no argument '{name}'. There are: {listed}.",
            hint="Write {name} in the address, or ${name} in a header or body.",
        )
    if colon and kind not in _TYPES:
        raise UsageProblem(f"--arg: '{kind}' is not a type.", hint=f"One of: {', '.join(_TYPES)}.")
    changed = {**properties[name], **({"type": kind} if colon else {})}
    required = [each for each in arguments.get("required", []) if each != name or not equals]
    if equals:
        changed["default"] = default if changed.get("type") == "string" else read_word(default)
    fresh = {**arguments, "properties": {**properties, name: changed}, "required": required}
    return {key: value for key, value in fresh.items() if value != []}


def _description(bundle: Bundle, tool: Tool, draft: SampleDraft, *, is_new: bool) -> list[str]:
    assert tool.http is not None
    request = tool.http.wire()["request"]
    lines = [
        (
            f"{bundle.slug}.{tool.slug}@{tool.version}:"
            f" {'stored' if is_new else 'there already, as it is'}."
        )
    ]
    lines.append(f"  {request['method']} {joined(bundle.base_url or '', request['urlTemplate'])}")
    lines += [
        f"  {part}: {_pairs(request[part])}"
        for part in ("query", "headers", "body")
        if part in request
    ]
    if "auth" in request:
        lines.append(f"  auth: {request['auth']['type']}")
    elif (shared := tool.within(bundle).http) and (signed := shared.plan()[0][1].request.auth):
        lines.append(f"  auth: {signed.type}, for all tools of {bundle.slug} at {bundle.base_url}")
    for param in params(tool.arg_schema):
        need = "required" if param.required else f"default {param.schema.get('default')!r}"
        lines.append(f"  argument {param.name}: {type_text(param.schema, tool.arg_schema)}, {need}")
    lines += [f"  note: {note}" for note in draft.notes]
    lines += [
        f"Secret {name}: named in the command, to be put into secrets.yaml."
        for name in draft.missing
    ]
    return lines


def _pairs(part: object) -> str:
    """`name=${name}, limit=5`; a body as JSON has it."""
    if isinstance(part, dict) and all(isinstance(each, str) for each in part.values()):
        return ", ".join(f"{name}={value}" for name, value in part.items())
    return str(part)


def _essence(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        record.get(key) or None
        for key in ("http", "argSchema", "outputSchema", "description", "tags", "type")
    )


def list_bundles(context: CommandContext, options: Options) -> Listing | Page:
    """`%tool bundle [list]`: the bundles and their switches."""
    if options.words:
        return show_bundle(context, options)
    counts: dict[str, int] = {}
    for tool in context.box.bundles.all_tools():
        counts[tool.bundle_id] = counts.get(tool.bundle_id, 0) + 1
    rows = [
        {
            "bundle": bundle.slug,
            "enabled": bundle.is_enabled,
            "tools": counts.get(bundle.bundle_id, 0),
            "description": context.box.mask(bundle.description or bundle.display_name),
            "built_in": bundle.is_built_in,
        }
        for bundle in context.box.bundles.all_bundles()
    ]
    return Listing(rows)


def show_bundle(context: CommandContext, options: Options) -> Page:
    """`%tool bundle show NAME`."""
    bundle, tools = _named(context, options, "show")
    if tools is not None and len(tools) == 1:
        return context.page(json.dumps(tools[0].to_dict(), ensure_ascii=False, indent=2))
    tools = context.box.bundles.all_tools(bundle.bundle_id) if tools is None else tools
    lines = [
        (
            f"{bundle.slug} ({'on' if bundle.is_enabled else 'off'}):"
            f" {bundle.description or bundle.display_name}"
        )
    ]
    if bundle.base_url:
        signed = f", auth: {bundle.auth.type}" if bundle.auth is not None else ""
        active = (
            f", environment: {bundle.environment.name}" if bundle.environment is not None else ""
        )
        lines.append(f"  base URL: {bundle.base_url}{signed}{active}")
    for tool in tools:
        state = "on" if tool.is_enabled else "off"
        reason = "" if tool.available else f"  not available: {tool.reason}"
        facts = f"{state}, {tool.type}, {counted(tool.call_count, 'call')}{reason}"
        lines.append(f"  {bundle.slug}.{tool.slug}@{tool.version}  {facts}")
    if not tools:
        lines.append(f"  no tools yet: %tool new http {bundle.slug}.NAME")
    return context.page(*lines)


def set_bundle(context: CommandContext, options: Options) -> Page:
    """Set the base URL and the auth of a bundle. Without a base URL it is the host that all its
    tools have."""
    (bundle, _), values = _named(context, options, "set"), options.values
    if not {"--base-url", "--auth"} & set(values):
        raise UsageProblem(
            "%tool bundle set needs --base-url or --auth.",
            hint=f"For example: %tool bundle set {bundle.slug} --auth bearer:API_TOKEN",
        )
    base_url = values.get("--base-url", bundle.base_url) or creation.common_origin(
        context.box.bundles.all_tools(bundle.bundle_id)
    )
    auth, name = creation.wire_auth(bundle), ""
    if "--auth" in values:
        auth, name = (
            (None, "") if values["--auth"] == "none" else creation.read_auth(values["--auth"])
        )
    if auth is not None and not base_url:
        raise UsageProblem(
            f"The tools of '{bundle.slug}' do not share one host.",
            hint="Say where the secret goes: --base-url URL",
        )
    return _share(
        context, options, creation.changed_bundle(bundle, base_url, auth), [name] if name else []
    )


def _share(
    context: CommandContext,
    options: Options,
    changed: Bundle,
    secrets: Iterable[str],
    made_up: Collection[str] | None = (),
    before_storing: Callable[[], None] | None = None,
) -> Page:
    """Store a bundle with another base URL and auth, after a yes if a secret would go to another
    host."""
    values, consent = options.values, Consent(context.box)
    hosts = creation.own_host(changed.base_url) if changed.base_url else []
    sendings = sendings_of(context.box, changed, made_up=made_up)
    consent.sendings(sendings, values.get("--secret-host", ()), hosts, changed)
    if before_storing is not None:
        before_storing()
    creation.store_bundle(context.box, changed)
    auth = changed.auth.type if changed.auth else "none"
    lines = [f"The bundle {changed.slug}: base URL {changed.base_url or 'none'}, auth {auth}."]
    if changed.environment is not None and changed.environment.variables:
        variables = ", ".join(
            f"{name}={text}" for name, text in changed.environment.variables.items()
        )
        lines.append(f"  {changed.environment.name}: {variables}")
    if missing := [name for name in secrets if name not in context.box.config.secrets.names()]:
        lines += [
            "Add to .onetool/secrets.yaml what they need:",
            *(f'  {name}: "..."' for name in missing),
        ]
    lines += consent.hosts(hosts, is_given="--allow-host" in values)
    return context.page(*lines)


def environment(context: CommandContext, options: Options) -> Page:
    """`%tool bundle env NAME [ENV]`: list the environments of a bundle, switch to one, make or
    change one."""
    words, box, values = options.words, context.box, options.values
    bundle, _ = _named(context, replace(options, words=words[:1]), "env")
    box.bundles.environments.base_urls(bundle.slug)  # raises where the file cannot be read
    environments = env.environments_of(box, bundle.slug)
    if len(words) < 2:
        active = env.active_environment(box, bundle)
        lines = [
            "  ".join(
                [
                    f"{'*' if name == active else ' '} {name}",
                    one.base_url,
                    *map("=".join, one.variables.items()),
                ]
            )
            for name, one in environments.items()
        ]
        hint = (
            f"Make one: %tool bundle env {bundle.slug} test --base-url https://test.example.com"
            " --set region=eu"
        )
        return context.page(*(lines or [f"The bundle {bundle.slug} has no environments.", hint]))
    name = words[1]
    if name not in environments and "--base-url" not in values:
        near = did_you_mean(name, list(environments))
        raise UsageProblem(
            f"The bundle '{bundle.slug}' has no environment '{name[:40]}'. {near}".strip(),
            hint=f"Make it: %tool bundle env {bundle.slug} {name[:40]} --base-url URL",
        )
    if not environments:
        # The tools get the base URL and the auth that they have in common, so that they follow
        # other ones.
        bundle = env.prepared(box, bundle)
    present = env.present_environment(bundle)
    former = environments.get(name, replace(present, base_url="", variables={}))
    chosen, secret = _changed_environment(former, values)
    # Nobody typed the secrets of an environment that a file has.
    is_new = not values and env.needs_approval(box, bundle.slug, name, chosen)
    first = (
        {env.DEFAULT: present}
        if present.base_url and not environments and name != env.DEFAULT
        else {}
    )
    changed = env.in_environment(bundle, name, chosen)

    def save() -> None:
        for each, environment in {**first, name: chosen}.items():
            env.save_environment(box, bundle.slug, each, environment)

    page = _share(
        context,
        options,
        changed,
        [secret] if secret else [],
        made_up=None if is_new else (),
        before_storing=save,
    )
    return context.page(page, *env.switch_notes(box, changed))


def _changed_environment(former: Environment, values: Mapping[str, Any]) -> tuple[Environment, str]:
    """The environment that the options of a line make of another one, and the name of the secret of
    its auth."""
    auth, secret = former.auth, ""
    if "--auth" in values:
        auth, secret = (
            (None, "") if values["--auth"] == "none" else creation.read_auth(values["--auth"])
        )
    variables = dict(former.variables)
    for word in values.get("--set", ()):
        variable, sign, text = word.partition("=")
        if not sign:
            raise UsageProblem(
                f"'{word[:80]}' is not NAME=VALUE.",
                hint="Write --set region=eu, or --set region= .",
            )
        if is_secret_name(variable) and text and "${" not in text:
            raise UsageProblem(
                f"'{variable[:40]}' looks like a secret, and environments.json is not the place for"
                " its value.",
                hint=(
                    f"Put the value into secrets.yaml, and name it: --set {variable[:40]}=${{NAME}}"
                ),
            )
        variables[variable.strip()] = text
    variables = {variable: text for variable, text in variables.items() if text}
    base_url = values.get("--base-url", former.base_url).rstrip("/")
    return replace(former, base_url=base_url, auth=auth, variables=variables), secret


def run_all(context: CommandContext, options: Options) -> Listing:
    """`%tool bundle run NAME`: call each tool that only reads with example arguments."""
    bundle, _ = _named(context, options, "run")
    runs = run_bundle(context.box, bundle.slug, source="magic")
    return Listing({**run._asdict(), "ms": f"{run.ms:,.0f}"} for run in runs)


def switch(word: Literal["on", "off"], context: CommandContext, options: Options) -> Page:
    """`%tool bundle on NAME` and `%tool bundle off NAME`."""
    is_on = word == "on"
    bundle, tools = _named(context, options, word)
    if tools is None:
        context.box.bundles.patch_bundle(bundle.bundle_id, enabled=is_on)
        return context.page(f"The bundle {bundle.slug} is {word}.")
    for tool in tools:
        context.box.bundles.patch_tool(bundle.bundle_id, tool.slug, tool.version, enabled=is_on)
    return context.page(*(f"{bundle.slug}.{tool.slug}@{tool.version} is {word}." for tool in tools))


def delete_bundle(context: CommandContext, options: Options) -> Page:
    """`%tool bundle delete NAME`."""
    bundle, tools = _named(context, options, "delete")
    bundles = context.box.bundles
    if tools is not None:
        if len(tools) > 1:
            listed = ", ".join(f"{bundle.slug}.{tool.slug}@{tool.version}" for tool in tools)
            raise UsageProblem(
                f"'{tools[0].slug}' has {len(tools)} versions.", hint=f"Name one of: {listed}"
            )
        bundles.delete_tool(bundle.bundle_id, tools[0].slug, tools[0].version)
        return context.page(f"{bundle.slug}.{tools[0].slug}@{tools[0].version} is deleted.")
    rest = context.box.bundles.all_tools(bundle.bundle_id)
    if rest and "--with-tools" not in options.values and not bundle.is_built_in:
        raise UsageProblem(
            f"The bundle '{bundle.slug}' holds {counted(len(rest), 'tool')}.",
            hint=f"Delete it with all of them: %tool bundle delete {bundle.slug} --with-tools",
        )
    for tool in () if bundle.is_built_in else rest:
        bundles.delete_tool(bundle.bundle_id, tool.slug, tool.version)
    bundles.delete_bundle(bundle.bundle_id)
    return context.page(f"The bundle {bundle.slug} is deleted, with {counted(len(rest), 'tool')}.")


@collector_paused()
def import_tools(context: CommandContext, options: Options) -> object:
    """`%tool import FILE_OR_URL`: a bundle of a document's operations. `openapi` may stand before
    the file."""
    from onetool_ipy.bundles.importing.draft import ImportRequest
    from onetool_ipy.bundles.importing.formats import import_document

    box, values = context.box, options.values
    words = (
        options.words[1:]
        if options.words[:1] == ["openapi"] and len(options.words) > 1
        else options.words
    )
    if len(words) != 1:
        raise WrongWords(
            "%tool import needs one file or address.",
            hint="For example: %tool import https://api.example.com/openapi.json --allow-host",
        )
    bundle_name = values.get("--bundle")
    if bundle_name is not None:
        require_slug(bundle_name, "--bundle")
    is_allowed = "--allow-host" in values
    data, base_url = creation.read_source(
        box, words[0], also=creation.own_host(words[0]) if is_allowed else ()
    )
    lists = [values.get(name, []) for name in ("--tag", "--include", "--exclude")]
    choice = creation.choice(*lists, read_only="--read-only" in values)
    request = ImportRequest(
        slug=bundle_name,
        base_url=base_url,
        server=values.get("--server"),
        secrets=box.config.secrets.names(),
        choice=choice,
    )
    draft = import_document(data, request)
    if "--dry" in values:
        return Listing({**row, "tags": ", ".join(row["tags"])} for row in draft.rows())
    if "--auth" in values:
        creation.add_auth(draft, values["--auth"])
    consent = Consent(box)
    consent.sendings(
        new_sendings(box, draft.tools, made_up=None), values.get("--secret-host", ()), draft.hosts
    )
    notes = creation.name_bundle(box, draft, bundle_name)
    stored = creation.store_draft(box, draft)
    hosts = consent.hosts(draft.hosts, is_given=is_allowed)
    page = context.page(
        *creation.told(stored, draft, box), *notes, *hosts, *creation.examples(stored)
    )
    names = [f"{stored.bundle.slug}.{tool.slug}" for tool in stored.tools]
    facts = {
        "bundle": stored.bundle.to_dict(),
        "tools": names,
        "hosts": draft.hosts,
        "notes": draft.notes,
    }
    return DataPage.of(page, facts)


def _named(
    context: CommandContext, options: Options, verb: str
) -> tuple[Bundle, list[Tool] | None]:
    """The bundle that the one word names, and the versions of its tool if the name has one."""
    name = one_word(options, f"bundle {verb}", hint=f"For example: %tool bundle {verb} my-api")
    slug, dot, rest = name.partition(".")
    bundle = context.box.bundles.named(slug)
    if bundle is None:
        near = did_you_mean(slug, [each.slug for each in context.box.bundles.all_bundles()])
        raise UsageProblem(
            f"No bundle '{slug}'. {near}".strip(), hint="See them with: %tool bundle list"
        )
    if not dot:
        return bundle, None
    tool_slug, _, version = rest.partition("@")
    tools = context.box.bundles.all_tools(bundle.bundle_id)
    versions = [tool for tool in tools if tool.slug == tool_slug and version in ("", tool.version)]
    if not versions:
        near = did_you_mean(tool_slug, [tool.slug for tool in tools])
        raise UsageProblem(
            f"The bundle '{slug}' has no tool '{rest}'. {near}".strip(),
            hint=f"See: %tool bundle show {slug}",
        )
    return bundle, versions
