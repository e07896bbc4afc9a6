"""Finds the secrets that a new tool would send to a host that did not receive them before.

A document or a pasted command comes from somebody else and names secrets. A secret that a tool, a
model, a server or a pack uses already must not go to another host and port by its name alone: the
user confirms it before the tool is stored. Nothing is sent or stored here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from onetool_ipy.base.errors import Conflict
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.http.address import joined
from onetool_ipy.bundles.http.template import SECRET_NAME, placeholders_in, secrets_of
from onetool_ipy.faces.creation import own_host, unreached, wire_auth
from onetool_ipy.faces.environments import environments_of, is_approved
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.bundles.model import Bundle

_PORTS = {"http": 80, "https": 443}
_HEAD = re.compile(r"[^.\[|]+")
_SHORTEST = 6
_SENT = ("urlTemplate", "query", "headers", "body")


class SecretHost(Conflict):
    """A tool would send a secret to a host that did not receive it before, without confirmation."""

    reason = "secret_host"


class Sending(NamedTuple):
    """A secret that would go to a new host. `used_with` is empty if nothing uses it yet."""

    secret: str
    host: str
    used_with: tuple[str, ...]

    @property
    def word(self) -> str:
        """The word that confirms it."""
        return f"{self.secret}={self.host}"

    @property
    def said(self) -> str:
        """What would happen, in one sentence."""
        return self.said_with({})

    def said_with(self, environments: Mapping[str, str]) -> str:
        """The sentence with the name of the environment that a host belongs to, as
        `environment_hosts` gives it."""

        def named(host: str) -> str:
            name = environments.get(host)
            return f"'{host}' (the environment '{name}')" if name else f"'{host}'"

        places = ", ".join(map(named, self.used_with))
        before = f"is used with {places}" if places else "is in secrets.yaml and used nowhere yet"
        return f"The secret '{self.secret}' {before}; this would send it to {named(self.host)}."

    def to_dict(self) -> Json:
        return {"pointer": "", "message": self.said, "secret": self.secret, "host": self.host} | {
            "usedWith": list(self.used_with)
        }


def new_sendings(
    box: Toolbox,
    records: Iterable[Mapping[str, object]],
    *,
    made_up: Collection[str] | None = (),
    bundle: Bundle | None = None,
) -> list[Sending]:
    """Find what tools with these records would send to hosts that did not receive it before.

    `bundle` is theirs, with its base URL and variables. `made_up` are names of secrets that the
    user did not type; those need confirmation if the secret exists. None means all, as in a
    document.
    """
    pairs = {pair for record in records for pair in _sent(record, bundle)}
    if not pairs:
        return []
    used = _used(box)
    there = set(box.config.secrets.names())
    sendings = []
    for secret, host in sorted(pairs):
        places = used.get(secret, set())
        if host not in places and (
            places or (secret in there and (made_up is None or secret in made_up))
        ):
            sendings.append(Sending(secret, host, tuple(sorted(places))))
    return sendings


def sendings_of(
    box: Toolbox, bundle: Bundle, *, made_up: Collection[str] | None = ()
) -> list[Sending]:
    """Find what the tools of a bundle would send to new hosts if the bundle were this one."""
    # Addresses below the base URL that the bundle has now are stored as paths, and follow the other
    # one.
    present = box.bundles.get_bundle(bundle.bundle_id).base_url
    tools = [
        tool.below(present or bundle.base_url) for tool in box.bundles.all_tools(bundle.bundle_id)
    ]
    # The auth of the bundle is looked at by itself, since it counts for tools to come.
    records = [
        {"http": tool.http.wire(), "argSchema": tool.arg_schema}
        for tool in tools
        if tool.http is not None
    ]
    records.append(shared_request(bundle.base_url, wire_auth(bundle)))
    return new_sendings(box, records, made_up=made_up, bundle=bundle)


def environment_hosts(box: Toolbox, bundle: Bundle | None) -> Mapping[str, str]:
    """The name of an environment of a bundle by its host; of several with one host the one in use,
    or the first."""
    if bundle is None:
        return {}
    names = [
        (_place(each.base_url), name) for name, each in environments_of(box, bundle.slug).items()
    ]
    active = [(_place(bundle.base_url), bundle.environment.name)] if bundle.environment else []
    return dict(reversed([*active, *names]))


def shared_request(base_url: str | None, auth: Mapping[str, object] | None) -> Json:
    """A record that sends what all tools of a bundle with this base URL and auth send."""
    return {"http": {"request": {"urlTemplate": base_url or "", "auth": auth}}}


def unconfirmed(found: Iterable[Sending], words: Iterable[str]) -> list[Sending]:
    """Those that no `NAME=HOST` or `NAME=HOST:PORT` confirms."""
    allowed = {word.strip() for word in words}
    return [one for one in found if not {one.word, one.word.rpartition(":")[0]} & allowed]


def require_known(found: Iterable[Sending], words: Iterable[str] = ()) -> None:
    """Raise SecretHost for those that are not confirmed."""
    left = unconfirmed(found, words)
    if left:
        message = " ".join(one.said for one in left)
        hint = "To allow it, confirm: " + ", ".join(one.word for one in left)
        raise SecretHost(message, hint=hint, details=[one.to_dict() for one in left])


def _sent(
    record: Mapping[str, Any],
    bundle: Bundle | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[tuple[str, str]]:
    """Pairs of secret, and host and port, for all that an HTTP tool sends. An invalid record sends
    nothing."""
    http = record.get("http")
    if not isinstance(http, Mapping):
        return
    steps = http.get("steps") or [http]
    listed = (
        [step for step in steps if isinstance(step, Mapping)] if isinstance(steps, list) else []
    )
    arguments = (record.get("argSchema") or {}).get("properties") or {}
    own = {
        *arguments,
        *(step.get("name") or f"step{number}" for number, step in enumerate(listed, start=1)),
    }
    base_url = bundle.base_url if bundle else None
    variables = bundle.environment.variables if bundle and bundle.environment else variables
    for step in listed:
        request = step.get("request")
        if not isinstance(request, Mapping):
            continue
        url, auth = request.get("urlTemplate"), request.get("auth")
        place = _place(joined(base_url or "", url) if isinstance(url, str) else url)
        parts: list[tuple[object, str]] = [([request.get(key) for key in _SENT], place)]
        if isinstance(auth, Mapping):
            signs = [value for key, value in auth.items() if key not in ("type", "in", "name")]
            parts.append(
                (signs, _place(auth.get("tokenUrl")) if auth.get("type") == "oauth2" else place)
            )
        for part, receiver in parts:
            try:
                names = (
                    {placeholder.name for placeholder in placeholders_in(part)}
                    if receiver
                    else set()
                )
            except ValueError:  # refused when it is stored
                continue
            for name in names:
                head = _HEAD.match(name)
                if (
                    name not in own
                    and (head is None or head[0] not in own)
                    and SECRET_NAME.fullmatch(name)
                ):
                    yield from ((secret, receiver) for secret in secrets_of(name, variables))


def _place(url: object) -> str:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, port = (
            (parts.hostname or "").removesuffix("."),
            parts.port or _PORTS.get(parts.scheme),
        )
    except ValueError:
        return ""
    name = f"[{host}]" if ":" in host else host
    return f"{name}:{port}" if host and port else ""


def _used(box: Toolbox) -> dict[str, set[str]]:
    """The hosts that receive each secret now, and the servers and packs that use it."""
    from onetool_ipy.llm.client import default_url

    pairs: list[tuple[str, str]] = []
    bundles = {one.bundle_id: one for one in box.bundles.all_bundles()}
    for tool in box.bundles.all_tools():
        if tool.http is not None:
            pairs += _sent(
                {"http": tool.http.wire(), "argSchema": tool.arg_schema},
                bundles.get(tool.bundle_id),
            )
    for bundle in bundles.values():
        pairs += _sent(shared_request(bundle.base_url, wire_auth(bundle)), bundle)
        pairs += _approved(box, bundle)
    settings, secrets = box.config.settings, box.config.secrets
    for model in settings.models.named.values():
        if model.key:
            place = (
                _place(model.base_url or default_url(model.provider)) or f"the model '{model.name}'"
            )
            pairs.append((model.key, place))
    # Servers and packs have their secrets filled in already, so their values are searched for.
    values = {name: secrets.get(name) or "" for name in secrets.names()}
    for name, server in settings.servers.items():
        place = _place(server.data.get("url")) or f"the server '{name}'"
        pairs += ((secret, place) for secret in _within(server.data, values))
    for name, pack in settings.packs.items():
        pairs += ((secret, f"the pack '{name}'") for secret in _within(pack.data, values))
    hosts: dict[str, set[str]] = {}
    for secret, place in pairs:
        hosts.setdefault(secret, set()).add(place)
    return hosts


def _approved(box: Toolbox, bundle: Bundle) -> Iterator[tuple[str, str]]:
    """What the environments of a bundle send that the user approved as they are, whether or not it
    uses them now.

    One whose host HTTP tools may not reach was never used.
    """
    for name, environment in environments_of(box, bundle.slug).items():
        if is_approved(box, bundle.slug, name, environment) and not unreached(
            box, own_host(environment.base_url)
        ):
            shared = {
                "http": {"request": {"urlTemplate": environment.base_url, "auth": environment.auth}}
            }
            texts = {
                "http": {
                    "request": {
                        "urlTemplate": environment.base_url,
                        "body": dict(environment.variables),
                    }
                }
            }
            yield from (
                pair
                for record in (shared, texts)
                for pair in _sent(record, None, environment.variables)
            )


def _within(data: object, values: Mapping[str, str]) -> list[str]:
    texts = list(_texts(data))
    return [
        name
        for name, value in values.items()
        if value
        and any(value == text or (len(value) >= _SHORTEST and value in text) for text in texts)
    ]


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for inner in data.values():
            yield from _texts(inner)
    elif isinstance(data, (list, tuple)):
        for inner in data:
            yield from _texts(inner)
