"""One request as somebody sent it -> the draft of one tool. Pure; nothing is expanded or sent.

Whatever may change from call to call becomes an argument with the sent value as its default. A
credential becomes the name of a secret; its value is returned apart, never in the record. `{id}` or
`<id>` in the URL is a required argument. A variable stays in its word as a mark, since the caller
supplies its value: it is a secret in a header or credential, else an argument.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from onetool_ipy.base import values
from onetool_ipy.base.credentials import is_secret_name
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.http.definition import HEADER_NAME, OWN_HEADERS
from onetool_ipy.bundles.importing import labels
from onetool_ipy.bundles.importing.labels import UniqueNames
from onetool_ipy.bundles.model import ToolBody, read
from onetool_ipy.net.hosts import pattern_of

_OPEN, _CLOSE = "\ue000", "\ue001"
MARKED = re.compile(f"{_OPEN}([A-Za-z_][A-Za-z0-9_]*){_CLOSE}")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_SHORTEST = 6
_MAX_DEFAULT = 20_000
_MAX_ABOUT = 500
_MAX_DEPTH = 40
_MAX_SECRETS = 100
_NUMBER = re.compile(r"0|-?[1-9]\d{0,14}")
_KINDS = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
# What curl reads behind the value of a field: `-F 'meta={};type=application/json'`.
_OF_PART = re.compile(r";\s*(?:type|filename|encoder|headers)=.*", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.-]*)\}|<([A-Za-z_][\w .-]*)>")
_LITERAL = "/:@!&'()*+,;=-._~%"


@dataclass
class SampleRequest:
    """A request as it was sent, in the terms of curl.

    `data` and `query` are pairs of kind and text. `variables` are marks that are arguments, each
    with its default or None; `hidden` are marks that are secrets whatever their name; `optional`
    are query keys that may be sent; `about` describes
    arguments; `auth` has texts as they were sent.
    """

    urls: list[str] = field(default_factory=list)
    method: str | None = None
    headers: list[str] = field(default_factory=list)
    data: list[tuple[str, str]] = field(default_factory=list)
    form: list[tuple[str, str]] = field(default_factory=list)
    query: list[tuple[str, str]] = field(default_factory=list)
    user: str | None = None
    bearer: str | None = None
    cookie: str | None = None
    max_time_s: float | None = None
    is_get: bool = False
    is_head: bool = False
    notes: list[str] = field(default_factory=list)
    variables: dict[str, str | None] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    optional: list[str] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    auth: dict[str, str] | None = None


def mark(name: str) -> str:
    """A variable as it is written in a word."""
    return f"{_OPEN}{name}{_CLOSE}"


def marks(text: str) -> list[str]:
    """The variables in a word."""
    return MARKED.findall(text)


def unmarked(text: str, write: Callable[[str], str]) -> str:
    """The word with each variable replaced by a function of its name."""
    return MARKED.sub(lambda match: write(match[1]), text)


class SecretNames:
    """Names of secrets: one for each credential, the same in all tools that share this object."""

    def __init__(self) -> None:
        self._unique = UniqueNames(mark="_", longest=120)
        self._named: dict[tuple[str, str], str] = {}

    def take(self, name: str, value: str) -> str:
        """Return the name of a credential: `name`, or the nearest one that no other credential
        has."""
        if (name, value) not in self._named:
            self._named[name, value] = self._unique.take(name)
        return self._named[name, value]


class ArgumentNames:
    """Collects arguments and secrets. Each method returns the placeholder for one."""

    def __init__(
        self,
        prefix: str,
        sample: SampleRequest,
        secrets: SecretNames | None,
        reserved: Collection[str],
    ) -> None:
        self._prefix = prefix
        self._about = sample.about
        self._arguments = UniqueNames(mark="_", longest=120, taken=reserved)
        self._unique = secrets or SecretNames()
        self._properties: Json = {}
        self._required: list[str] = []
        self._placeholders: dict[str, str] = {}
        self._mentioned: dict[str, None] = {}
        self.secrets: dict[str, str] = {}

    def schema(self) -> Json:
        """The schema of the arguments."""
        required = {"required": self._required} if self._required else {}
        return {
            "type": "object",
            "properties": self._properties,
            **required,
            "additionalProperties": False,
        }

    def missing(self) -> list[str]:
        """Secrets that the command only names, without a value."""
        return [name for name in self._mentioned if name not in self.secrets]

    def argument(self, name: str, default: Any, *, typed: bool) -> str:
        """Add an argument with a default. Its type is that of the default if `typed`, else guessed
        from the text."""
        value = default
        if not typed and isinstance(value, str):
            if value in ("true", "false"):
                value = value == "true"
            elif _NUMBER.fullmatch(value):
                value = int(value)
        kind = next((word for kind, word in _KINDS if isinstance(value, kind)), None)
        is_long = isinstance(value, (str, list, dict)) and len(json.dumps(value)) > _MAX_DEFAULT
        schema = {"type": kind} if kind else {}
        return self.add(name, schema if is_long else {**schema, "default": value}, required=is_long)

    def required(self, name: str) -> str:
        """Add a required argument; the same name is the same argument."""
        if name not in self._placeholders:
            self._placeholders[name] = self.add(name, {"type": "string"}, required=True)
        return self._placeholders[name]

    def variable(self, name: str, default: str | None) -> str:
        """Add an argument for a variable, required without a default; the same name is the same
        argument."""
        if default is not None and name not in self._placeholders:
            self._placeholders[name] = self.argument(name, default, typed=False)
        return self.required(name)

    def secret(self, name: str, value: str) -> str:
        """Add a secret. A variable keeps its name and has no value here."""
        if marks(value):
            return unmarked(labels.literal(value), self.mentioned)
        label = self._unique.take(labels.secret(self._prefix, re.sub(r"(?i)^x-", "", name)), value)
        if not value:
            return self.mentioned(label)
        self.secrets[label] = value
        if len(self.secrets) > _MAX_SECRETS:
            raise InvalidRequest(f"The request has more than {_MAX_SECRETS} credentials.")
        return f"${{{label}}}"

    def mentioned(self, name: str) -> str:
        """Add a secret by the name of a variable."""
        self._mentioned[name] = None
        return f"${{{name}}}"

    def add(self, name: str, schema: Json, *, required: bool) -> str:
        """Add an argument of any schema. One that is neither required nor has a default is not sent
        unless given."""
        label = self._arguments.take(labels.argument(name))
        about = " ".join(self._about.get(name, "").split())[:_MAX_ABOUT]
        self._properties[label] = {**schema, "description": about} if about else schema
        if required:
            self._required.append(label)
        return f"${{{label}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDraft:
    """A tool, the secrets in the command (for secrets.yaml), those it only names, its hosts and
    notes."""

    tool: Json
    secrets: dict[str, str]
    missing: list[str]
    hosts: list[str]
    notes: list[str]


def draft_tool(
    sample: SampleRequest,
    *,
    slug: str | None = None,
    prefix: str | None = None,
    secrets: SecretNames | None = None,
    reserved: Collection[str] = (),
) -> SampleDraft:
    """Make a tool of a request; raises InvalidRequest, which says what cannot be imported.

    `prefix` begins the names of secrets; by default it is made of the host. No argument gets a
    `reserved` name.
    """
    draft = _Maker(sample, prefix, secrets, reserved).draft(slug)
    read(ToolBody, draft.tool, own=(draft.tool["slug"], draft.tool["version"]))
    return draft


class _Maker:
    """Makes one tool of one command."""

    def __init__(
        self,
        command: SampleRequest,
        prefix: str | None,
        secrets: SecretNames | None,
        reserved: Collection[str],
    ) -> None:
        self._command = command
        self._notes = list(command.notes)
        url = command.urls[0]
        if "://" not in url:
            self._notes.append("the URL names no scheme; http is taken, as curl does")
            url = f"http://{url}"
        if url.count("{") != url.count("}"):
            raise InvalidRequest(
                f"A brace of '{values.cut(url, 80)}' has no other half.",
                hint="Write {name} for an argument.",
            )
        try:
            self._url = urlsplit(url)
            self._host = self._url.netloc.rpartition("@")[2]
        except ValueError as exc:
            raise InvalidRequest(f"The URL cannot be read: {exc}.") from None
        if self._url.scheme.lower() not in ("http", "https") or not self._url.hostname:
            raise InvalidRequest(
                f"'{values.cut(url, 80)}' is not a complete http:// or https:// address.",
                hint="Write it as in https://api.example.com/users",
            )
        if marks(self._host) or _PLACEHOLDER.search(self._host):
            raise InvalidRequest("The host cannot be a variable.", hint="Write the server's name.")
        if prefix is None:
            # Secrets of `api.github.com` are named after `github`.
            names = [part for part in self._url.hostname.split(".") if part not in ("www", "api")]
            is_address = not names or names[-1].isdigit() or ":" in self._url.hostname
            prefix = "api" if is_address else names[-2:][0]
        self._names = ArgumentNames(prefix, command, secrets, reserved)
        self._auth: Json | None = None
        self._headers: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._query: Json = {}
        self._body: Any = None
        self._body_type: str | None = None

    def draft(self, slug: str | None) -> SampleDraft:
        path = self._path()
        self._credentials()
        for line in self._command.headers:
            self._header(line)
        sent = [*self._command.query, *(self._command.data if self._command.is_get else ())]
        self._query = self._fields("&".join([self._url.query, *self._form_fields(sent)]))
        for name in self._command.optional:
            if labels.literal(name) not in self._query:
                self._query[labels.literal(name)] = self._names.add(name, {}, required=False)
        self._take_body()
        method = self._method()
        words = unmarked(self._url.path, str.lower)
        place = printable_line(f"{self._host}{words}")
        try:
            host = pattern_of(self._url.scheme.lower(), self._url.hostname or "", self._url.port)
        except ValueError as exc:
            raise InvalidRequest(f"The URL cannot be read: {exc}.") from None
        tool = {
            "slug": slug or labels.slug(f"{method.lower()}-{words}", method.lower()),
            "version": "1",
            "displayName": f"{method} {place}"[:256],
            "description": f"{method} {self._url.scheme}://{place}"[:2000],
            "tags": [],
            "type": "http",
            "argSchema": self._names.schema(),
            "http": {"request": self._request(method, path)},
        }
        return SampleDraft(
            tool=self._without_values(tool),
            secrets=self._names.secrets,
            missing=self._names.missing(),
            hosts=[host],
            notes=self._notes,
        )

    def _without_values(self, tool: Json) -> Json:
        """Hide the value of each secret wherever else it is in the record."""
        secrets = sorted(self._names.secrets.items(), key=lambda pair: len(pair[1]), reverse=True)

        def hide(text: str, *, by_name: bool) -> str:
            for name, value in secrets:
                for form in (value, quote(value, safe="")) if len(value) >= _SHORTEST else ():
                    text = text.replace(form, f"${{{name}}}" if by_name else "***")
            return text

        masked: Json = values.map_text(tool, lambda text: hide(text, by_name=False))
        if masked is tool:
            return tool
        self._notes.append(
            "the value of a secret stood elsewhere in the command too, and is hidden there"
        )
        http = values.map_text(tool["http"], lambda text: hide(text, by_name=True))
        return {**masked, "http": http, "slug": labels.slug(masked["slug"], "tool")}

    def _request(self, method: str, path: str) -> Json:
        request: Json = {
            "method": method,
            "urlTemplate": f"{self._url.scheme.lower()}://{self._host}{path}",
        }
        limit_s = self._command.max_time_s
        parts = {
            "query": self._query,
            "headers": self._headers,
            "body": self._body,
            "bodyType": self._body_type,
            "auth": self._auth,
            "timeoutMs": min(max(int(limit_s * 1000), 1), 600_000) if limit_s else None,
        }
        return request | {key: value for key, value in parts.items() if value not in (None, {})}

    def _method(self) -> str:
        command = self._command
        has_body = bool(command.data or command.form) and not command.is_get
        method = (
            command.method or ("HEAD" if command.is_head else "POST" if has_body else "GET")
        ).upper()
        if method not in _METHODS:
            raise InvalidRequest(
                f"The method '{method[:20]}' cannot be sent.", hint=f"One of {', '.join(_METHODS)}."
            )
        if method == "HEAD" and self._body is not None:
            self._notes.append("a HEAD request has no body; the given one is left out")
            self._body = self._body_type = None
        return method

    def _path(self) -> str:
        if self._url.fragment:
            self._notes.append("what stands behind '#' is never sent, and is left out")
        parts = []
        end = 0
        text = self._url.path
        for match in re.finditer(f"{MARKED.pattern}|{_PLACEHOLDER.pattern}", text):
            parts.append(quote(text[end : match.start()], safe=_LITERAL))
            parts.append(
                self._variable(match[1]) if match[1] else self._names.required(match[2] or match[3])
            )
            end = match.end()
        parts.append(quote(text[end:], safe=_LITERAL))
        return "".join(parts) or "/"

    def _credentials(self) -> None:
        command = self._command
        user = (
            command.user
            if command.user is not None
            else unquote(self._url.netloc.rpartition("@")[0]) or None
        )
        if command.auth is not None:
            # Each credential of the auth becomes the name of a secret.
            credentials = {"username": "USERNAME", "password": "PASSWORD", "clientId": "CLIENT_ID"}
            credentials |= {
                "clientSecret": "CLIENT_SECRET",
                "value": command.auth.get("name", "TOKEN"),
            }
            self._auth = {
                key: self._names.secret(credentials[key], text)
                if key in credentials
                else self._text(text, in_header=True)
                for key, text in command.auth.items()
            }
        elif command.bearer is not None:
            self._auth = {"type": "bearer", "value": self._names.secret("TOKEN", command.bearer)}
        elif user is not None:
            self._basic(user)
        if command.cookie is not None:
            if "=" in command.cookie or marks(command.cookie):
                self._keep("Cookie", self._names.secret("COOKIE", command.cookie))
            else:
                self._notes.append(f"the cookies of the file '{command.cookie[:60]}' are left out")

    def _basic(self, user: str) -> None:
        name, colon, password = user.partition(":")
        if not colon:
            self._notes.append("curl would ask for a password; put it into the secret")
        self._auth = {
            "type": "basic",
            # A token may stand alone as the password: `-u :TOKEN`.
            "username": self._names.secret("USERNAME", name) if name else "",
            "password": self._names.secret("PASSWORD", password) if password or not colon else "",
        }

    def _header(self, line: str) -> None:
        if line.startswith("@"):
            self._notes.append(f"the headers of the file '{line[1:60]}' are left out")
            return
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if not colon and line.endswith(";"):
            name, value = line[:-1].strip(), ""
        elif colon and not value:
            # An empty header tells curl not to send it.
            return
        lowered = name.lower()
        if lowered == "host":
            self._notes.append("the header Host is set by the connection itself")
        elif lowered in OWN_HEADERS or lowered == "accept-encoding":
            return
        elif not HEADER_NAME.fullmatch(name) or not (colon or line.endswith(";")):
            raise InvalidRequest("A header of the command is not of the form 'Name: value'.")
        elif lowered == "authorization":
            self._authorization(name, value)
        elif is_secret_name(name):
            self._keep(name, self._names.secret(name, value))
        else:
            self._keep(name, self._text(value, in_header=True))

    def _keep(self, name: str, value: str) -> None:
        earlier = self._written.get(name.lower())
        if earlier is not None and self._headers.pop(earlier, None) is not None:
            self._notes.append(f"the header '{name}' is given twice; the last one counts")
        self._headers[name] = value
        self._written[name.lower()] = name

    def _authorization(self, name: str, value: str) -> None:
        word, blank, rest = value.partition(" ")
        if word.lower() == "basic":
            user = None
            with suppress(ValueError):
                user = base64.b64decode(rest.strip(), validate=True).decode("utf-8")
            if user is not None:
                self._basic(user)
                return
        if word.lower() == "bearer" and blank:
            self._auth = {"type": "bearer", "value": self._names.secret("TOKEN", rest.strip())}
        else:
            lead, secret = (f"{word} ", rest.strip()) if blank else ("", value)
            header = labels.literal(lead) + self._names.secret("TOKEN", secret)
            self._auth = {"type": "apiKey", "in": "header", "name": name, "value": header}

    def _take_body(self) -> None:
        command = self._command
        if command.form:
            self._body_type, self._body = "multipart", {}
            for kind, text in command.form:
                name, _, value = text.partition("=")
                is_file = kind == "form" and value.startswith(("@", "<"))
                if kind == "form" and not is_file and (part := _OF_PART.search(value)):
                    value = value[: part.start()]
                    self._notes.append(f"'{part[0][1:60]}' of '{name[:60]}' is left out")
                file = self._names.add(name, labels.FILE_SCHEMA, required=True) if is_file else ""
                field = file or self._field(name, value, typed=False)
                earlier = self._body.get(labels.literal(name), [])
                listed = earlier if isinstance(earlier, list) else [earlier]
                self._body[labels.literal(name)] = [*listed, field] if listed else field
            return
        if not command.data or command.is_get:
            return
        fields = list(self._form_fields(command.data))
        files = [text for kind, text in command.data if kind != "data-raw" and text.startswith("@")]
        if files:
            self._notes.append(
                f"the file '{files[0][1:60]}' is not read; its content is the argument 'body'"
            )
            self._body, self._body_type = self._names.required("body"), "text"
            if not any(name.lower() == "content-type" for name in self._headers):
                is_json = any(kind == "json" for kind, _ in command.data)
                self._headers["Content-Type"] = (
                    f"application/{'json' if is_json else 'x-www-form-urlencoded'}"
                )
            return
        if any(kind == "json" for kind, _ in command.data):
            self._headers.setdefault("Accept", "application/json")
            self._json_or_text("".join(text for _, text in command.data), "application/json")
            return
        joined = "&".join(fields)
        mime = next(
            (v.lower() for n, v in self._headers.items() if n.lower() == "content-type"), ""
        )
        if mime and "x-www-form-urlencoded" not in mime:
            self._json_or_text(joined, mime)
        elif not mime and joined.lstrip()[:1] in ("{", "["):
            self._notes.append(
                "the data looks like JSON, and is sent as JSON; curl would say that it is a form"
            )
            self._json_or_text(joined, "application/json")
        else:
            self._body_type, self._body = "form", self._fields(joined)

    def _form_fields(self, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
        """Yield each piece of data as a form or a query has it."""
        for kind, text in pairs:
            if kind == "url-query" and text.startswith("+"):
                yield text[1:]
                continue
            if kind not in ("data-urlencode", "url-query"):
                yield text
                continue
            # Its value is `content`, `=content`, `name=content`, `@file` or `name@file`.
            name, equals, content = text.rpartition("=") if "=" not in text else text.partition("=")
            if not equals and text.find("@") > 0:
                name, _, file = text.partition("@")
                variable = re.sub(r"^(?=[0-9])|\W", "_", name, flags=re.ASCII)
                self._notes.append(
                    f"the file '{file[:60]}' is not read; '{name}' takes its content"
                )
                yield f"{name}={mark(variable)}"
                continue
            lead = f"{name}=" if name and equals else ""
            yield lead + quote(content, safe=_OPEN + _CLOSE)

    def _fields(self, text: str) -> Json:
        """The pairs of a query or form; a repeated name is one argument, a list."""
        grouped: dict[str, list[str]] = {}
        for name, value in parse_qsl(text, keep_blank_values=True):
            grouped.setdefault(name, []).append(value)
        out: Json = {}
        for name, group in grouped.items():
            is_list = (
                len(group) > 1
                and not is_secret_name(name)
                and not any(marks(value) for value in group)
            )
            items = [group] if is_list else group
            fields = [self._field(name, value, typed=False) for value in items]
            out[labels.literal(name)] = fields[0] if len(fields) == 1 else fields
        return out

    def _json_or_text(self, text: str, mime: str) -> None:
        value = _parsed(text) if "json" in mime else None
        value = None if _is_deep(value) or MARKED.fullmatch(text) else value
        if isinstance(value, dict) and all(labels.argument(name) == name for name in value):
            self._body_type = "json"
            self._body = {
                labels.literal(name): self._field(name, inner, typed=True)
                for name, inner in value.items()
            }
        elif value is not None:
            self._body_type, self._body = (
                "json",
                self._names.argument("body", self._default(value), typed=True),
            )
        elif (whole := MARKED.fullmatch(text)) is not None and whole[1] in self._command.variables:
            self._body_type, self._body = "text", self._variable(whole[1])
        else:
            if "json" in mime:
                self._notes.append("the body says it is JSON, but is not; it is sent as it is")
                if "content-type" not in self._written:
                    self._keep("Content-Type", mime)
            self._body_type, self._body = (
                "text",
                self._names.argument("body", self._default(text), typed=False),
            )

    def _field(self, name: str, value: Any, *, typed: bool) -> Any:
        """A named value: a secret by its name, a variable, or an argument with its default.

        An object or a list that holds one of them inside is written out.
        """
        if isinstance(value, dict) and self._has_more(value):
            return {
                labels.literal(key): self._field(key, inner, typed=typed)
                for key, inner in value.items()
            }
        if isinstance(value, list) and typed and self._has_more(value):
            return [self._field(name, inner, typed=typed) for inner in value]
        if isinstance(value, str):
            if is_secret_name(name):
                return self._names.secret(name, value)
            if (whole := MARKED.fullmatch(value)) is not None:
                return self._variable(whole[1])
            if (placeholder := _PLACEHOLDER.fullmatch(value)) is not None:
                return self._names.required(placeholder[1] or placeholder[2])
            if marks(value):
                return self._text(value, in_header=False)
        return self._names.argument(name, self._default(value), typed=typed)

    def _has_more(self, value: object) -> bool:
        """Whether a value holds a secret or a variable of the request."""
        if isinstance(value, dict):
            return any(
                (is_secret_name(k) and isinstance(v, str)) or self._has_more(v)
                for k, v in value.items()
            )
        if isinstance(value, list):
            return any(self._has_more(inner) for inner in value)
        return isinstance(value, str) and any(
            name in self._command.variables for name in marks(value)
        )

    def _default(self, value: Any) -> Any:
        """A value as a default, with each variable as `$name`."""
        if isinstance(value, str):
            return unmarked(value, lambda name: f"${name}")
        if isinstance(value, dict):
            return {self._default(key): self._default(inner) for key, inner in value.items()}
        return [self._default(inner) for inner in value] if isinstance(value, list) else value

    def _text(self, value: str, *, in_header: bool) -> str:
        """A text with its variables as placeholders."""

        def write(name: str) -> str:
            is_argument = not in_header or name in self._command.variables
            return self._variable(name) if is_argument else self._names.mentioned(name)

        return unmarked(labels.literal(value), write)

    def _variable(self, name: str) -> str:
        if name in self._command.variables:
            return self._names.variable(name, self._command.variables[name])
        is_hidden = name in self._command.hidden or is_secret_name(name)
        return self._names.mentioned(name) if is_hidden else self._names.required(name.lower())


def _parsed(text: str) -> Any:
    """Parse a text as JSON, with quotes added around bare variables. Returns None if it is not
    JSON."""
    out: list[str] = []
    quoted = False
    for index, part in enumerate(MARKED.split(text)):
        if index % 2:
            out.append(mark(part) if quoted else json.dumps(mark(part)))
            continue
        quoted ^= sum(sign == '"' for sign in re.findall(r"\\.|[^\\]", part, re.DOTALL)) % 2 == 1
        out.append(part)
    try:
        return values.from_json("".join(out))
    except (ValueError, RecursionError):
        return None


def _is_deep(value: object, left: int = _MAX_DEPTH) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return left == 0 or any(_is_deep(each, left - 1) for each in inner)
