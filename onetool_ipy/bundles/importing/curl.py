"""A pasted curl command -> the draft of one tool. Pure; nothing is sent.

What may change from call to call becomes an argument with the pasted value as its default; what looks like a
credential becomes the name of a secret, and its value is given apart, never in the record. `{id}` or `<id>` in the URL
is a required argument; `$VAR` is a secret in a header or credential, else an argument.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from onetool_ipy.bundles.http.definition import HEADER_NAME, OWN_HEADERS
from onetool_ipy.bundles.importing import labels, shell
from onetool_ipy.bundles.importing.curl_flags import Command, read_command
from onetool_ipy.bundles.importing.curl_names import Names, is_secret
from onetool_ipy.bundles.model import ToolBody, read
from onetool_ipy.config.value import Value
from onetool_ipy.core import values
from onetool_ipy.core.errors import InvalidRequest

__all__ = ["CurlDraft", "import_curl"]

_MAX_TEXT = 1 << 20
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_SHORTEST = 6
_HOLE = re.compile(r"\{([A-Za-z_][\w.-]*)\}|<([A-Za-z_][\w .-]*)>")
_LITERAL = "/:@!&'()*+,;=-._~%"


class CurlDraft(Value):
    """A tool, the secrets that the command held (for secrets.yaml), the names it only mentioned, hosts and notes."""

    tool: dict[str, Any]
    secrets: dict[str, str]
    missing: list[str]
    hosts: list[str]
    notes: list[str]


def import_curl(text: str, *, slug: str | None = None, secret_prefix: str | None = None) -> CurlDraft:
    """Make a draft of a command; raises InvalidRequest, which says what of it cannot be read."""
    if len(text) > _MAX_TEXT:
        raise InvalidRequest(f"The command has {len(text):,} characters; at most {_MAX_TEXT:,} are read.")
    draft = _Maker(read_command(shell.words(text)), secret_prefix).draft(slug)
    read(ToolBody, draft.tool, own=(draft.tool["slug"], draft.tool["version"]))
    return draft


class _Maker:
    """Makes one tool of one command."""

    def __init__(self, command: Command, prefix: str | None) -> None:
        self._command = command
        self._notes = list(command.notes)
        url = command.urls[0]
        if "://" not in url:
            self._notes.append("the URL names no scheme; http is taken, as curl does")
            url = f"http://{url}"
        try:
            self._url = urlsplit(url)
            self._host = self._url.netloc.rpartition("@")[2]
        except ValueError as exc:
            raise InvalidRequest(f"The URL cannot be read: {exc}.") from None
        if self._url.scheme.lower() not in ("http", "https") or not self._url.hostname:
            raise InvalidRequest("The URL is no whole http:// or https:// address.")
        if shell.marks(self._host) or _HOLE.search(self._host):
            raise InvalidRequest("The host cannot be a variable.", hint="Write the server's name.")
        self._names = Names(prefix or _prefix(self._url.hostname))
        self._auth: dict[str, Any] | None = None
        self._headers: dict[str, str] = {}
        self._query: dict[str, Any] = {}
        self._body: Any = None
        self._body_type: str | None = None

    def draft(self, slug: str | None) -> CurlDraft:
        path = self._path()
        self._credentials()
        for line in self._command.headers:
            self._header(line)
        self._take_query(self._url.query)
        for extra in self._command.query:
            self._take_query(extra)
        self._take_body()
        method = self._method()
        tool = {
            "slug": slug or labels.slug(f"{method.lower()}-{_spoken(self._url.path)}", method.lower()),
            "version": "1",
            "displayName": f"{method} {self._host}{_spoken(self._url.path)}"[:256],
            "description": f"{method} {self._url.scheme}://{self._host}{_spoken(self._url.path)}"[:2000],
            "tags": [],
            "type": "http",
            "argSchema": self._names.schema(),
            "http": {"request": self._request(method, path)},
        }
        return CurlDraft(
            self._without_values(tool), self._names.secrets, self._names.missing(), [self._pattern()], self._notes
        )

    def _pattern(self) -> str:
        """The host as `http.allowed_hosts` names it."""
        from onetool_ipy.net.hosts import pattern_of

        try:
            return pattern_of(self._url.scheme.lower(), self._url.hostname or "", self._url.port)
        except ValueError as exc:
            raise InvalidRequest(f"The URL cannot be read: {exc}.") from None

    def _without_values(self, tool: dict[str, Any]) -> dict[str, Any]:
        """The record, sure to hold no value of a secret, wherever else the command had it."""
        known = sorted(self._names.secrets.items(), key=lambda pair: len(pair[1]), reverse=True)

        def hide(text: str, *, by_name: bool) -> str:
            for name, value in known:
                for form in (value, quote(value, safe="")) if len(value) >= _SHORTEST else ():
                    text = text.replace(form, f"${{{name}}}" if by_name else "***")
            return text

        found: dict[str, Any] = values.map_text(tool, lambda text: hide(text, by_name=False))
        if found is tool:
            return tool
        self._notes.append("the value of a secret stood elsewhere in the command too, and is hidden there")
        http = values.map_text(tool["http"], lambda text: hide(text, by_name=True))
        return {**found, "http": http, "slug": labels.slug(found["slug"], "tool")}

    def _request(self, method: str, path: str) -> dict[str, Any]:
        request: dict[str, Any] = {"method": method, "urlTemplate": f"{self._url.scheme.lower()}://{self._host}{path}"}
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
        method = (command.method or ("HEAD" if command.is_head else "POST" if has_body else "GET")).upper()
        if method not in _METHODS:
            raise InvalidRequest(f"The method '{method[:20]}' cannot be sent.", hint=f"One of {', '.join(_METHODS)}.")
        if method == "HEAD" and self._body is not None:
            self._notes.append("a HEAD request has no body, and its is left out")
            self._body = self._body_type = None
        return method

    def _path(self) -> str:
        if self._url.fragment:
            self._notes.append("what stands behind '#' is never sent, and is left out")
        parts = []
        end = 0
        text = self._url.path
        for match in re.finditer(f"{shell.MARKED.pattern}|{_HOLE.pattern}", text):
            parts.append(quote(text[end : match.start()], safe=_LITERAL))
            parts.append(self._variable(match[1]) if match[1] else self._names.required(match[2] or match[3]))
            end = match.end()
        parts.append(quote(text[end:], safe=_LITERAL))
        return "".join(parts) or "/"

    def _credentials(self) -> None:
        command = self._command
        user = command.user if command.user is not None else unquote(self._url.netloc.rpartition("@")[0]) or None
        if command.bearer is not None:
            self._auth = {"type": "bearer", "value": self._names.secret("TOKEN", command.bearer)}
        elif user is not None:
            self._basic(user)
        if command.cookie is not None:
            if "=" in command.cookie or shell.marks(command.cookie):
                self._headers["Cookie"] = self._names.secret("COOKIE", command.cookie)
            else:
                self._notes.append(f"the cookies of the file '{command.cookie[:60]}' are left out")

    def _basic(self, user: str) -> None:
        name, colon, password = user.partition(":")
        if not colon:
            self._notes.append("curl would ask for a password; put it into the secret")
        self._auth = {
            "type": "basic",
            "username": self._names.secret("USERNAME", name),
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
            return  # it tells curl not to send it
        lowered = name.lower()
        if lowered == "host":
            self._notes.append("the header Host is set by the connection itself")
        elif lowered in OWN_HEADERS or lowered == "accept-encoding":
            return
        elif not HEADER_NAME.fullmatch(name) or not (colon or line.endswith(";")):
            raise InvalidRequest("A header of the command is not of the form 'Name: value'.")
        elif lowered == "authorization":
            self._authorization(name, value)
        elif is_secret(name):
            self._keep(name, self._names.secret(name, value))
        else:
            self._keep(name, self._text(value, in_header=True))

    def _keep(self, name: str, value: str) -> None:
        for known in [known for known in self._headers if known.lower() == name.lower()]:
            self._notes.append(f"the header '{name}' is given twice; the last one counts")
            del self._headers[known]
        self._headers[name] = value

    def _authorization(self, name: str, value: str) -> None:
        word, blank, rest = value.partition(" ")
        if word.lower() == "bearer" and blank:
            self._auth = {"type": "bearer", "value": self._names.secret("TOKEN", rest.strip())}
        elif word.lower() == "basic" and (user := _decoded(rest)) is not None:
            self._basic(user)
        else:
            kept, secret = (f"{word} ", rest.strip()) if blank else ("", value)
            made = _literal(kept) + self._names.secret("TOKEN", secret)
            self._auth = {"type": "apiKey", "in": "header", "name": name, "value": made}

    def _take_query(self, text: str) -> None:
        self._query |= self._fields(text)

    def _take_body(self) -> None:
        command = self._command
        if command.form:
            self._body_type, self._body = "multipart", {}
            for kind, text in command.form:
                name, _, value = text.partition("=")
                is_file = kind == "form" and value.startswith(("@", "<"))
                self._body[name] = self._names.file(name) if is_file else self._field(name, value, typed=False)
            return
        if not command.data:
            return
        if command.is_get:
            for kind, text in command.data:
                self._take_query(_urlencoded(text) if kind == "data-urlencode" else text)
            return
        files = [text for kind, text in command.data if kind not in ("data-raw",) and text.startswith("@")]
        if files:
            self._notes.append(f"the file '{files[0][1:60]}' is not read; its content is the argument 'body'")
            self._body, self._body_type = self._names.required("body"), "text"
            if not any(name.lower() == "content-type" for name in self._headers):
                is_json = any(kind == "json" for kind, _ in command.data)
                self._headers["Content-Type"] = f"application/{'json' if is_json else 'x-www-form-urlencoded'}"
            return
        if any(kind == "json" for kind, _ in command.data):
            self._headers.setdefault("Accept", "application/json")
            self._json_or_text("".join(text for _, text in command.data), "application/json")
            return
        joined = "&".join(_urlencoded(text) if kind == "data-urlencode" else text for kind, text in command.data)
        said = next((v.lower() for n, v in self._headers.items() if n.lower() == "content-type"), "")
        if said and "x-www-form-urlencoded" not in said:
            self._json_or_text(joined, said)
        elif not said and joined.lstrip()[:1] in ("{", "["):
            self._notes.append("the data looks like JSON, and is sent as JSON; curl would say that it is a form")
            self._json_or_text(joined, "application/json")
        else:
            self._form(joined)

    def _form(self, text: str) -> None:
        self._body_type, self._body = "form", self._fields(text)

    def _fields(self, text: str) -> dict[str, Any]:
        """The pairs of a query or form; a name that comes again and again is one argument, a list."""
        grouped: dict[str, list[str]] = {}
        for name, value in parse_qsl(text, keep_blank_values=True):
            grouped.setdefault(name, []).append(value)
        out: dict[str, Any] = {}
        for name, found in grouped.items():
            is_list = len(found) > 1 and not is_secret(name) and not any(shell.marks(value) for value in found)
            made = [found] if is_list else found
            fields = [self._field(name, value, typed=False) for value in made]
            out[_literal(name)] = fields[0] if len(fields) == 1 else fields
        return out

    def _json_or_text(self, text: str, said: str) -> None:
        value = _parsed(text) if "json" in said else None
        if isinstance(value, dict) and all(labels.argument(name) == name for name in value):
            self._body_type = "json"
            self._body = {_literal(name): self._field(name, inner, typed=True) for name, inner in value.items()}
        elif value is not None:
            self._body_type, self._body = "json", self._names.argument("body", self._default(value), typed=True)
        else:
            if "json" in said:
                self._notes.append("the body says it is JSON, but is not; it is sent as it is")
                self._keep("Content-Type", said)
            self._body_type, self._body = "text", self._names.argument("body", self._default(text), typed=False)

    def _field(self, name: str, value: Any, *, typed: bool) -> str:
        """A named value: a secret by its name, a variable, or an argument with its default."""
        if isinstance(value, str):
            if is_secret(name):
                return self._names.secret(name, value)
            if (whole := shell.MARKED.fullmatch(value)) is not None:
                return self._variable(whole[1])
            if (hole := _HOLE.fullmatch(value)) is not None:
                return self._names.required(hole[1] or hole[2])
            if shell.marks(value):
                return self._text(value, in_header=False)
        return self._names.argument(name, self._default(value), typed=typed)

    def _default(self, value: Any) -> Any:
        """A value as a default; a variable inside it is told by its name."""
        if isinstance(value, str):
            return shell.unmarked(value, lambda name: f"${name}")
        if isinstance(value, dict):
            return {self._default(key): self._default(inner) for key, inner in value.items()}
        return [self._default(inner) for inner in value] if isinstance(value, list) else value

    def _text(self, value: str, *, in_header: bool) -> str:
        """A text that stays as it is, but for its variables."""
        parts = shell.MARKED.split(value)
        write = self._names.mentioned if in_header else self._variable
        return "".join(write(part) if index % 2 else _literal(part) for index, part in enumerate(parts))

    def _variable(self, name: str) -> str:
        return self._names.mentioned(name) if is_secret(name) else self._names.required(name.lower())


def _prefix(host: str) -> str:
    """`GITHUB` of `api.github.com`."""
    names = [part for part in host.split(".") if part not in ("www", "api")]
    if not names or names[-1].isdigit() or ":" in host:
        return "api"
    return names[-2] if len(names) > 1 else names[0]


def _spoken(path: str) -> str:
    return shell.unmarked(path, str.lower)


def _literal(text: str) -> str:
    return text.replace("${", "$${")


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(text.strip(), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _urlencoded(text: str) -> str:
    """One value of --data-urlencode: `content`, `=content`, `name=content`."""
    name, equals, content = text.partition("=")
    if not equals:
        return quote(name, safe="\ue000\ue001")
    return (f"{name}=" if name else "") + quote(content, safe="\ue000\ue001")


def _parsed(text: str) -> Any:
    """The JSON that a text is; a variable that stands in it without quotes gets some."""
    out: list[str] = []
    quoted = False
    for index, part in enumerate(shell.MARKED.split(text)):
        if index % 2:
            out.append(shell.mark(part) if quoted else json.dumps(shell.mark(part)))
            continue
        quoted ^= sum(sign == '"' for sign in re.findall(r"\\.|[^\\]", part, re.DOTALL)) % 2 == 1
        out.append(part)
    try:
        return json.loads("".join(out), parse_constant=_refused)
    except (ValueError, RecursionError):
        return None


def _refused(word: str) -> Any:
    raise ValueError(word)
