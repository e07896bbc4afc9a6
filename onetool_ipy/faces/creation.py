"""Imports for every face: fetch or read a document, store the bundle and tools made from it.

A bundle that could not be filled is deleted again. A document is fetched under the rules of `http`,
like any tool's request; a host that the user confirmed may be reached for this one document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from onetool_ipy.base.errors import (
    BodyTooLarge,
    CallFailure,
    ExecutionFailed,
    HostNotAllowed,
    InvalidRequest,
    OneToolError,
    UsageProblem,
)
from onetool_ipy.bundles.http.address import below, is_relative, joined, origin
from onetool_ipy.faces.new_packs import proposed_name, require_free_name
from onetool_ipy.render.views import counted
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.bundles.importing.draft import BundleDraft, OperationChoice
    from onetool_ipy.bundles.model import Bundle, Tool
    from onetool_ipy.net.client import Rules

NEW_BUNDLE = "-tools"
"""What is put behind the name of a new bundle that is taken."""

_MAX_BYTES = 64 * 1024 * 1024
_FETCH_S = 60.0
_SHOWN_NOTES = 8


class Imported(NamedTuple):
    """The result of an import."""

    bundle: Bundle
    tools: list[Tool]


def is_url(text: str) -> bool:
    """Whether a text is a URL, and not a file name or a document."""
    return text[:8].lower().startswith(("http://", "https://")) and not any(
        sign in text for sign in "\n{ "
    )


def own_host(source: str) -> list[str]:
    """The host of a URL as a pattern of `allowed_hosts`; none for a file."""
    if not is_url(source):
        return []
    try:
        parts = urlsplit(source)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port = "", None
    if not host:
        raise UsageProblem(
            f"'{source[:200]}' is not an address.", hint="Write it as https://host/path."
        )
    from onetool_ipy.net.hosts import pattern_of

    return [pattern_of(parts.scheme.lower(), host, port)]


def unreached(box: Toolbox, hosts: Sequence[str]) -> list[str]:
    """The hosts that HTTP tools may not reach with the present configuration."""
    from onetool_ipy.net.hosts import Hosts, UrlOrigin, is_private

    http = box.config.settings.http
    allowed = Hosts(http.allowed_hosts)

    def is_reached(host: str) -> bool:
        # Read `name`, `name:port` or `[ipv6]:port`.
        name, colon, port = host.rpartition(":")
        if not colon or not port.isdecimal():
            name, port = host, "443"
        place = UrlOrigin("https", name.strip("[]").lower(), int(port))
        needs_more = is_private(place.host) and not http.allow_private
        return allowed.allow_private(place) if needs_more else allowed.allow(place)

    return [host for host in hosts if not is_reached(host)]


def choice(
    tags: Iterable[str] = (),
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    *,
    read_only: bool = False,
) -> OperationChoice:
    """The operations that options choose; each option may hold several words, separated by
    commas."""
    from onetool_ipy.bundles.importing.draft import OperationChoice

    split = [
        tuple(word.strip() for text in texts for word in text.split(","))
        for texts in (tags, include, exclude)
    ]
    tag_words, in_words, out_words = (tuple(filter(None, words)) for words in split)
    return OperationChoice(tags=tag_words, include=in_words, exclude=out_words, read_only=read_only)


def told(made: Imported, draft: BundleDraft, box: Toolbox) -> list[str]:
    """Describe an import in a few lines."""
    part = f" of {draft.offered:,} operations" if draft.offered > len(made.tools) else ""
    lines = [
        (
            f"The bundle {made.bundle.slug} has {counted(len(made.tools), 'tool')}{part}:"
            f" {made.bundle.display_name}"
        )
    ]
    secret_names = set(box.config.secrets.names())
    missing = [each for each in draft.secrets if each["name"] not in secret_names]
    if missing:
        lines.append("Add to .onetool/secrets.yaml what they need:")
        lines += [
            f'  {each["name"]}: "..."   # {" ".join(each["description"].split())[:80]}'
            for each in missing
        ]
    if draft.notes:
        lines.append("Not imported:")
        lines += [f"  {note}" for note in draft.notes[:_SHOWN_NOTES]]
        more = len(draft.notes) - _SHOWN_NOTES
        lines += [f"  ... and {more} more"] if more > 0 else []
    return lines


def read_auth(said: str) -> tuple[dict[str, Any], str]:
    """The auth that `bearer:API_TOKEN` or the like means, and the name of its secret."""
    kind, _, rest = said.partition(":")
    first, _, second = rest.partition(":")
    auth: dict[str, Any] | None = None
    if kind == "bearer" and first and not second:
        auth = {"type": "bearer", "value": f"${{{first}}}"}
    elif kind == "basic" and first and second:
        auth = {"type": "basic", "username": first, "password": f"${{{second}}}"}
    elif kind in ("header", "query") and first and second:
        auth = {"type": "apiKey", "in": kind, "name": first, "value": f"${{{second}}}"}
    name = second or first
    if auth is None or not name.isidentifier():
        raise UsageProblem(
            f"'{said[:80]}' is not a kind of auth with the name of a secret.",
            hint=(
                "Write bearer:API_TOKEN, basic:USER:SECRET, header:X-Api-Key:API_KEY or"
                " query:key:API_KEY."
            ),
        )
    return auth, name


def shared_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The auth of a tool for all tools of its bundle; empty if it sends no secret, or is signed by
    an argument."""
    auth = (record["http"].get("request") or {}).get("auth")
    arguments = record.get("argSchema", {}).get("properties", {})
    return (
        {} if not auth or any(f"${{{name}}}" in str(auth) for name in arguments) else {"auth": auth}
    )


def base_url_for(
    box: Toolbox, bundle: Bundle | None, records: Sequence[Mapping[str, Any]]
) -> str | None:
    """The base URL of a bundle that gets these tools: its own, else the host that they and its
    tools all have."""
    if bundle is not None and bundle.base_url is not None:
        return bundle.base_url
    tools = [] if bundle is None else box.bundles.all_tools(bundle.bundle_id)
    urls = [
        step.request.url_template for tool in tools if tool.http for _, step in tool.http.plan()
    ]
    urls += [step["request"].get("urlTemplate") for record in records for step in _steps(record)]
    origins = {_origin(url) for url in urls if isinstance(url, str)}
    return origins.pop() or None if len(origins) == 1 else None


def _steps(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        step
        for step in record["http"].get("steps") or [record["http"]]
        if isinstance(step.get("request"), dict)
    ]


def lean_on(bundle: Bundle, record: dict[str, Any]) -> None:
    """Leave out of a new tool what its bundle has for all tools.

    That is the base URL, the same auth, and arguments without a default that are its variables.
    """
    if bundle.base_url is None:
        return
    for step in _steps(record):
        request = step["request"]
        url = request.get("urlTemplate", "")
        is_here = origin(joined(bundle.base_url, url)) == origin(bundle.base_url)
        if is_here and request.get("auth") is not None and request["auth"] == wire_auth(bundle):
            request.pop("auth")
        path = below(url, bundle.base_url)
        if path is not None and is_relative(path):
            request["urlTemplate"] = path
    schema, variables = (
        record.get("argSchema") or {},
        bundle.environment.variables if bundle.environment else {},
    )
    shared = {
        name for name in variables if schema.get("properties", {}).get(name) == {"type": "string"}
    }
    if shared:
        properties = {
            name: each for name, each in schema["properties"].items() if name not in shared
        }
        required = [name for name in schema.get("required", ()) if name not in shared]
        record["argSchema"] = {**schema, "properties": properties, "required": required}


def wire_auth(bundle: Bundle) -> dict[str, Any] | None:
    """The auth of a bundle as JSON."""
    return (
        None
        if bundle.auth is None
        else bundle.auth.model_dump(mode="json", by_alias=True, exclude_none=True)
    )


def common_origin(tools: Sequence[Tool]) -> str:
    """The scheme, host and port that all HTTP tools send to, or empty."""
    steps = [step for tool in tools if tool.http is not None for _, step in tool.http.plan()]
    origins = {_origin(step.request.url_template) for step in steps}
    return origins.pop() if len(origins) == 1 else ""


def changed_bundle(
    bundle: Bundle,
    base_url: str | None,
    auth: Mapping[str, Any] | None,
    environment: Mapping[str, Any] | None = None,
) -> Bundle:
    """The bundle with another base URL, auth and environment. Without another environment it keeps
    its own."""
    from onetool_ipy.bundles.model import Bundle, read

    wire = bundle.to_dict()
    active = (environment or wire.get("environment")) if base_url else None
    return read(Bundle, {**wire, "baseUrl": base_url or None, "auth": auth, "environment": active})


def store_bundle(box: Toolbox, bundle: Bundle) -> Bundle:
    """Store a bundle that was changed."""
    return box.bundles.put_bundle(
        bundle.bundle_id,
        slug=bundle.slug,
        display_name=bundle.display_name,
        description=bundle.description,
        enabled=bundle.is_enabled,
        base_url=bundle.base_url,
        auth=wire_auth(bundle),
        environment=bundle.to_dict().get("environment"),
    )


def add_auth(draft: BundleDraft, said: str) -> None:
    """Let all tools of a draft that have no auth send the secret that `bearer:API_TOKEN` or the
    like names."""
    auth, name = read_auth(said)
    for tool in draft.tools:
        http = tool["http"]
        for step in http.get("steps") or [http]:
            step["request"].setdefault("auth", auth)
    if all(each["name"] != name for each in draft.secrets):
        draft.secrets.append({"name": name, "description": f"for --auth {auth['type']}"})


def examples(made: Imported) -> list[str]:
    """What to type next."""
    first = made.tools[0]
    return [
        (
            f"See them with: %tool {made.bundle.slug}    one of them: %tool info"
            f" {made.bundle.slug}.{first.slug}"
        )
    ]


def read_source(box: Toolbox, source: str, *, also: Sequence[str] = ()) -> tuple[bytes, str | None]:
    """Read a document from a URL or a file; returns it with the URL it came from."""
    if not is_url(source):
        return _read_file(Path(source).expanduser()), None
    try:
        return fetch(box, source, also=also)
    except CallFailure as exc:
        is_refused = isinstance(exc, HostNotAllowed) and not also
        hint = "If you trust it, add --allow-host." if is_refused else exc.hint
        raise UsageProblem(exc.message, hint=hint) from exc


def fetch(box: Toolbox, url: str, *, also: Sequence[str] = ()) -> tuple[bytes, str]:
    """Fetch a document; returns it with the URL it came from. Raises a CallFailure."""
    reply = box.http_client.request("GET", url, rules=_rules(box, also), headers=_WANTED)
    if not 200 <= reply.status < 300:
        raise ExecutionFailed(f"'{url}' answered {reply.status} instead of the document.")
    return reply.body, reply.url


def name_bundle(box: Toolbox, draft: BundleDraft, typed: str | None) -> list[str]:
    """Give the bundle of a document a free name; returns a line about it if it is not the
    document's own.

    Raises UsageProblem for a taken name that a person typed. A bundle of that name is refused when
    it is stored.
    """
    slug = draft.bundle["slug"]
    bundle = box.bundles.named(slug)
    if bundle is not None and not bundle.is_built_in:
        return []
    if typed:
        require_free_name(box, slug, NEW_BUNDLE)
        return []
    draft.bundle["slug"], note = proposed_name(box, slug, NEW_BUNDLE)
    return [note] if note else []


def store_draft(
    box: Toolbox, draft: BundleDraft, *, slug: str = "", display_name: str = ""
) -> Imported:
    """Store a bundle with all its tools, or nothing. A tool that could not be called is left out
    with a note."""
    bundles = box.bundles
    put = partial(
        bundles.put_bundle,
        bundles.new_id(),
        slug=slug or draft.bundle["slug"],
        display_name=display_name or draft.bundle["displayName"],
        description=draft.bundle["description"],
    )
    base_url = draft.base_url or base_url_for(box, None, draft.tools)
    try:
        bundle = put(base_url=base_url)
    except InvalidRequest:  # tools of that server are left out below; others may work
        bundle = put()
    for tool in draft.tools:
        lean_on(bundle, tool)
    entries = [(tool["slug"], tool["version"], tool) for tool in draft.tools]
    try:
        try:
            tools = bundles.put_tools(bundle.bundle_id, entries)
        except (InvalidRequest, BodyTooLarge):
            sound = []
            for entry in entries:
                try:
                    bundles.draft(entry[2], name=entry[0], bundle=bundle)
                    sound.append(entry)
                except OneToolError as exc:
                    draft.notes.append(f"the tool '{entry[0]}' is left out: {exc.message}")
            if not sound or len(sound) == len(entries):
                raise
            tools = bundles.put_tools(bundle.bundle_id, sound)
    except OneToolError:
        bundles.delete_bundle(bundle.bundle_id)
        raise
    return Imported(bundle, tools)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


_WANTED = {"Accept": "application/json, application/yaml, text/yaml, */*"}


def _rules(box: Toolbox, also: Sequence[str]) -> Rules:
    from onetool_ipy.net.client import Rules

    http = box.config.settings.http
    timeout_s = max(http.timeout_s, _FETCH_S)
    return replace(Rules.of(http, also), max_bytes=_MAX_BYTES, timeout_s=timeout_s)


def _read_file(file: Path) -> bytes:
    try:
        if file.is_dir():
            raise UsageProblem(f"'{file}' is a folder.", hint="Name a file in it.")
        if not file.is_file():
            is_host = "." in file.parts[0].strip(".") and len(file.parts) > 1
            address = f"https://{file.as_posix()}" if is_host else "https://host/path."
            raise UsageProblem(
                f"There is no file '{file}'.", hint=f"Name a file, or an address: {address}"
            )
        if file.stat().st_size > _MAX_BYTES:
            raise InvalidRequest(f"'{file}' has more than {_MAX_BYTES:,} bytes.")
        return file.read_bytes()
    except OSError as exc:
        raise UsageProblem(f"'{file}' cannot be read: {exc.strerror}.") from exc
