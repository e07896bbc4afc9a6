"""A Postman collection (v2.0, v2.1) -> the draft of a bundle and its tools. Pure; what is not
imported is noted.

Folders become tags. A variable is an argument with the collection's value as its default; a
variable of a credential is the name of a secret, and no credential is kept. Scripts are never run.
`sample` makes the tools.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from onetool_ipy.base.credentials import is_secret_name
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.foreign_json import NotJson, parse_json
from onetool_ipy.base.printable import printable, printable_line
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.http.definition import HEADER_NAME, ApiKey, OAuth2, is_sendable
from onetool_ipy.bundles.importing import labels
from onetool_ipy.bundles.importing.document import ImportNotes, as_dict, as_list, as_text
from onetool_ipy.bundles.importing.draft import (
    BundleDraft,
    ImportRequest,
    MissingServer,
    OfferedOperations,
)
from onetool_ipy.bundles.importing.sample import (
    SampleDraft,
    SampleRequest,
    SecretNames,
    draft_tool,
    mark,
)

_VARIABLE = re.compile(r"\{\{([^{}]{1,100})\}\}")
_AUTHORITY = re.compile(r"(?:https?://)[^/?#]*", re.IGNORECASE)
_MIMES = {
    "json": "application/json",
    "xml": "application/xml",
    "html": "text/html",
    "text": "text/plain",
}
_MAX_DEPTH = 30
_MAX_HOPS = 5


def is_postman(root: Mapping[str, Any]) -> bool:
    """Whether a document is a collection, or another file of Postman, which `import_postman`
    refuses."""
    own = as_dict(root.get("collection")) or root
    is_collection = isinstance(own.get("item"), list) and isinstance(own.get("info"), Mapping)
    return (
        is_collection
        or "_postman_variable_scope" in root
        or ("requests" in root and "order" in root)
    )


def import_postman(
    root: Mapping[str, Any], notes: ImportNotes, request: ImportRequest
) -> BundleDraft:
    """Import a collection; raises InvalidRequest if it has nothing that can be a tool."""
    if "_postman_variable_scope" in root:
        raise InvalidRequest(
            "This is a Postman environment, not a collection.", hint="Export the collection."
        )
    if "requests" in root:
        raise InvalidRequest(
            "This is a Postman collection of version 1.", hint="Export it as Collection v2.1."
        )
    whole = as_dict(root.get("collection")) or as_dict(root)
    info = as_dict(whole.get("info"))
    title = printable_line(as_text(info.get("name")))
    name = request.slug or labels.slug(title.lower(), "api")
    reader = _Collection(whole, name, notes, request)
    tools = list(reader.tools())
    if not tools and reader.unknown:
        raise MissingServer(
            f"The collection does not say what {{{{{reader.unknown[0]}}}}} is.",
            hint="Name its server: --server https://api.example.com",
        )
    reader.offered.require_some(tools, notes)
    about = printable(_words(info.get("description")))[:2000]
    return BundleDraft(
        kind="Postman collection",
        bundle={
            "slug": name,
            "displayName": (title or name)[:256],
            "isEnabled": True,
            "description": about,
        },
        tools=tools,
        secrets=[
            {"name": each, "description": "A credential of the collection."}
            for each in sorted(reader.secrets)
        ],
        hosts=sorted(reader.hosts),
        notes=notes.list(),
        offered=reader.offered.count,
    )


class _Variable(NamedTuple):
    value: str
    is_secret: bool


class _Item(NamedTuple):
    """A request with what its folders say."""

    name: str
    folders: tuple[str, ...]
    request: Json
    auth: object
    variables: dict[str, _Variable]

    @property
    def label(self) -> str:
        """The name that its tool would have; empty if Postman made the name of the URL."""
        return "" if re.match(r"\w+://|/|\{\{", self.name) else labels.slug(self.name.lower(), "")

    @property
    def method(self) -> str:
        return (as_text(self.request.get("method")) or "GET").upper()

    @property
    def url(self) -> str:
        """The URL as text; older collections have it in parts."""
        node = self.request.get("url")
        if isinstance(node, str):
            return node.strip()
        parts = as_dict(node)

        def join(key: str, sign: str) -> str:
            part = parts.get(key)
            if isinstance(part, list):
                return sign.join(
                    _text(each.get("value") if isinstance(each, dict) else each) for each in part
                )
            return _text(part)

        scheme, port = as_text(parts.get("protocol")), _text(parts.get("port"))
        lead, port = f"{scheme}://" if scheme else "", f":{port}" if port else ""
        return (
            as_text(parts.get("raw"))
            or f"{lead}{join('host', '.')}{port}/{join('path', '/')}".strip()
        )

    @property
    def path(self) -> str:
        """The path for people: without server and query."""
        head = self.url.partition("#")[0].partition("?")[0]
        match = _VARIABLE.match(head) or _AUTHORITY.match(head)
        path = head[match.end() :] if match else "/" + head.partition("/")[2]
        return printable_line(_VARIABLE.sub(r"{\1}", path))[:500] or "/"


class _Collection:
    def __init__(self, root: Json, name: str, notes: ImportNotes, request: ImportRequest) -> None:
        self._root = root
        self._name = name
        self._notes = notes
        self._request = request
        self._secrets = SecretNames()
        self.offered = OfferedOperations(request.choice)
        self.secrets: set[str] = set()
        self.hosts: set[str] = set()
        self.unknown: list[str] = []

    def tools(self) -> Iterator[Json]:
        items = list(self._items())
        often = Counter(item.label for item in items)
        prefix = labels.common_prefix([item.path for item in items if item.path.startswith("/")])
        chosen = []
        for item in items:
            method, label = item.method, item.label
            if often[label] > 1 and item.folders:
                label = labels.slug(f"{item.folders[-1]}-{label}".lower(), label)
            label = label or labels.slug(
                f"{method.lower()}-{item.path.removeprefix(prefix)}", method.lower()
            )
            name = self.offered.take(label, method, item.path, item.folders)
            if name is not None:
                chosen.append((item, name))
        for item, name in chosen:
            draft = self._tool(item, name)
            if draft is not None:
                self.secrets.update(draft.secrets, draft.missing)
                self.hosts.update(draft.hosts)
                yield draft.tool

    def _items(self) -> Iterator[_Item]:
        """The requests of all folders, in order."""
        waiting: list[tuple[object, tuple[str, ...], object, dict[str, _Variable]]] = [
            (self._root, (), None, {})
        ]
        while waiting:
            node, folders, auth, variables = waiting.pop()
            own = as_dict(node)
            if as_list(own.get("event")):
                self._notes.add("scripts of the collection are not run")
            auth = own["auth"] if isinstance(own.get("auth"), Mapping) else auth
            name = printable_line(as_text(own.get("name")))[:256]
            request = own.get("request")
            if isinstance(request, (str, Mapping)):
                whole = {"url": request} if isinstance(request, str) else as_dict(request)
                own_auth = whole["auth"] if isinstance(whole.get("auth"), Mapping) else auth
                yield _Item(name, folders, whole, own_auth, variables)
            elif len(folders) > _MAX_DEPTH:
                self._notes.add(f"folders in more than {_MAX_DEPTH} levels are left out")
            else:
                inside = (
                    folders
                    if own is self._root or not name
                    else (*folders, name.replace(",", " ")[:64])
                )
                scope = dict(variables)
                for each in _dicts(own.get("variable")):
                    if (key := _key(each)) and each.get("disabled") is not True:
                        scope[key] = _Variable(
                            _text(each.get("value")).strip(), each.get("type") == "secret"
                        )
                waiting += [
                    (each, inside, auth, scope) for each in reversed(as_list(own.get("item")))
                ]

    def _tool(self, item: _Item, name: str) -> SampleDraft | None:
        place = f"'{item.name or name}'"
        try:
            sample = _Sampler(item, self._name, self._request).sample()
            draft = draft_tool(
                sample,
                slug=name,
                prefix=self._name,
                secrets=self._secrets,
                reserved=self._request.secrets,
            )
        except _UnknownServer as exc:
            self.unknown.append(exc.name)
            self._notes.add(f"{place}: {exc.message} The tool is left out")
            return None
        except MissingServer:
            raise
        except InvalidRequest as exc:
            self._notes.add(f"{place} is left out: {exc.message}")
            return None
        for note in draft.notes:
            self._notes.add(f"{place}: {note}")
        draft.tool["displayName"] = item.name or name
        about = printable(_words(item.request.get("description")))[:4000]
        draft.tool["description"] = about or draft.tool["description"]
        draft.tool["tags"] = list(item.folders)
        return draft


class _UnknownServer(InvalidRequest):
    def __init__(self, name: str) -> None:
        super().__init__(f"{{{{{name}}}}} has no value.")
        self.name = name


class _Sampler:
    """Reads one request of a collection as a sample, with marks for its variables."""

    def __init__(self, item: _Item, prefix: str, request: ImportRequest) -> None:
        self._item = item
        self._prefix = prefix
        self._request = request
        self._sample = SampleRequest(method=item.method)

    def sample(self) -> SampleRequest:
        self._url()
        self._auth(as_dict(self._item.auth))
        for key, value in _pairs(self._item.request.get("header")):
            if HEADER_NAME.fullmatch(key):
                text = self._fill(printable_line(value), is_credential=is_secret_name(key))
                self._sample.headers.append(f"{key}: {text}")
            else:
                self._sample.notes.append(
                    f"the header '{printable_line(key)[:60]}' cannot be sent, and is left out"
                )
        self._body(as_dict(self._item.request.get("body")))
        return self._sample

    def _fill(self, text: str, *, is_credential: bool = False) -> str:
        """A text with each `{{variable}}` as a mark."""

        def write(match: re.Match[str]) -> str:
            name = match[1].strip()
            variable = self._item.variables.get(name, _Variable("", is_secret=False))
            if is_credential or variable.is_secret or is_secret_name(name):
                secret = labels.secret(self._prefix, name)
                self._sample.hidden.add(secret)
                return mark(secret)
            word = _word(name)
            self._sample.variables[word] = self._value(name) or None
            return mark(word)

        return _VARIABLE.sub(write, re.sub("[\ue000\ue001]", "?", text))

    def _value(self, name: str, hops: int = _MAX_HOPS) -> str:
        """The value of a variable with the variables in it; empty if one has none."""
        variable = self._item.variables.get(name)
        if variable is None or variable.is_secret or is_secret_name(name) or not hops:
            return ""
        inner = _VARIABLE.findall(variable.value)
        values = {each: self._value(each.strip(), hops - 1) for each in inner}
        return (
            ""
            if "" in values.values()
            else _VARIABLE.sub(lambda match: values[match[1]], variable.value)
        )

    def _url(self) -> None:
        parts = as_dict(self._item.request.get("url"))
        head, _, query = self._item.url.partition("#")[0].partition("?")
        server, path = self._server(head)
        variables = {_key(each): each for each in _dicts(parts.get("variable"))}
        segments = [self._segment(segment, variables) for segment in path.split("/")]
        self._sample.urls = [server + "/".join(segments)]
        if "query" not in parts:
            parts = {
                "query": [
                    {"key": key, "value": value}
                    for key, value in parse_qsl(query, keep_blank_values=True)
                ]
            }
        sent = []
        for each in _dicts(parts.get("query")):
            key = as_text(each.get("key"))
            self._sample.about[key] = _words(each.get("description"))
            if each.get("disabled") is True:
                self._sample.optional.append(key)
            elif key:
                sent.append(
                    (key, self._fill(_text(each.get("value")), is_credential=is_secret_name(key)))
                )
        self._sample.query = [("data", urlencode(sent))] if sent else []

    def _server(self, head: str) -> tuple[str, str]:
        """The scheme and host of a URL, and its path. A variable in them must have a value."""
        leading = _VARIABLE.match(head)
        authority = _AUTHORITY.match(head)
        own = self._request.own_server()
        if own is not None:
            end = (
                leading.end()
                if leading
                else authority.end()
                if authority
                else len(head.partition("/")[0])
            )
            return own.rstrip("/"), head[end:]
        if leading is not None:
            value = self._value(leading[1].strip())
            if not value:
                raise _UnknownServer(leading[1].strip())
            head = value.rstrip("/") + head[leading.end() :]
            authority = _AUTHORITY.match(head)
        if authority is None:
            head = f"http://{head}"
            authority = _AUTHORITY.match(head)
        assert authority is not None
        for name in _VARIABLE.findall(authority[0]):
            if not self._value(name.strip()):
                raise _UnknownServer(name.strip())
        return _VARIABLE.sub(lambda match: self._value(match[1].strip()), authority[0]), head[
            authority.end() :
        ]

    def _segment(self, segment: str, variables: dict[str, Json]) -> str:
        if not segment.startswith(":") or len(segment) < 2:
            return self._fill(segment)
        variable = variables.get(segment[1:], {})
        word = _word(segment[1:])
        value = _text(variable.get("value"))
        self._sample.variables[word] = value if value and not _VARIABLE.search(value) else None
        self._sample.about[word] = _words(variable.get("description"))
        return mark(word)

    def _auth(self, auth: Json) -> None:
        """Take the auth in our terms, with the credentials as they are."""
        kind = as_text(auth.get("type"))
        node = auth.get(kind)
        values_by_key = {
            as_text(each.get("key")): each.get("value") for each in _dicts(node)
        } or as_dict(node)
        texts = {
            key: self._fill(_text(value), is_credential=True)
            for key, value in values_by_key.items()
        }
        fields = defaultdict(str, texts)
        token_url = _text(values_by_key.get("accessTokenUrl"))
        place = "query" if fields["in"] == "query" else "header"
        key = {"type": "apiKey", "in": place, "name": fields["key"], "value": ""}
        is_key = HEADER_NAME.fullmatch(fields["key"]) and is_sendable(ApiKey, key)
        grant = {"type": "oauth2", "tokenUrl": token_url, "clientId": "", "clientSecret": ""}
        is_client = fields["grant_type"] == "client_credentials" and "{" not in token_url
        if kind == "bearer":
            self._sample.auth = {"type": "bearer", "value": fields["token"]}
        elif kind == "basic":
            self._sample.auth = {
                "type": "basic",
                "username": fields["username"],
                "password": fields["password"],
            }
        elif kind == "apikey" and is_key:
            self._sample.auth = {**key, "value": fields["value"]}
        elif kind == "oauth2" and is_client and is_sendable(OAuth2, grant):
            client = {"clientId": fields["clientId"], "clientSecret": fields["clientSecret"]}
            scope = {"scope": fields["scope"]} if fields["scope"] else {}
            self._sample.auth = {**grant, **client, **scope}
        elif kind == "oauth2":
            self._sample.auth = {"type": "bearer", "value": fields["accessToken"]}
        elif kind not in ("", "noauth"):
            self._sample.notes.append(f"auth of the kind '{kind[:20]}' is not imported")

    def _body(self, body: Json) -> None:
        mode = as_text(body.get("mode"))
        if body.get("disabled") is True or not mode:
            return
        if mode == "raw":
            language = as_text(as_dict(as_dict(body.get("options")).get("raw")).get("language"))
            self._raw(_text(body.get("raw")), _MIMES.get(language, ""))
        elif mode == "graphql":
            query = as_dict(body.get("graphql"))
            source = query.get("variables")
            variables = source
            if isinstance(source, str):
                variables = None
                with suppress(NotJson):
                    variables = parse_json(source)
            whole = {"query": _text(query.get("query")), "variables": as_dict(variables)}
            if name := as_text(query.get("operationName")):
                whole["operationName"] = name
            self._raw(json.dumps(whole, ensure_ascii=False), _MIMES["json"])
        elif mode == "urlencoded":
            fields = [
                (k, self._fill(text, is_credential=is_secret_name(k)))
                for k, text in _pairs(body.get(mode))
            ]
            self._sample.data = [("data-raw", urlencode(fields))] if fields else []
        elif mode == "formdata":
            for each in _dicts(body.get(mode)):
                if each.get("disabled") is not True and (key := as_text(each.get("key"))):
                    is_file = each.get("type") == "file"
                    text = (
                        "@file"
                        if is_file
                        else self._fill(_text(each.get("value")), is_credential=is_secret_name(key))
                    )
                    self._sample.form.append(
                        ("form" if is_file else "form-string", f"{key}={text}")
                    )
        elif mode == "file":
            self._sample.data = [("data-binary", "@file")]
        else:
            self._sample.notes.append(f"a body of the kind '{mode[:20]}' is not imported")

    def _raw(self, text: str, mime: str) -> None:
        if not text.strip():
            return
        self._sample.data = [("data-raw", self._fill(text))]
        if mime and not any(
            line.lower().startswith("content-type:") for line in self._sample.headers
        ):
            self._sample.headers.append(f"Content-Type: {mime}")


def _key(node: Json) -> str:
    """The name of a variable; older collections call it its id."""
    return as_text(node.get("key")) or as_text(node.get("id"))


def _pairs(node: object) -> list[tuple[str, str]]:
    """The enabled pairs of a list, or of a text with one pair in each line."""
    if isinstance(node, str):
        lines = (line.partition(":") for line in node.splitlines())
        return [(key.strip(), value.strip()) for key, colon, value in lines if colon]
    return [
        (as_text(each.get("key")), _text(each.get("value")))
        for each in _dicts(node)
        if each.get("disabled") is not True and as_text(each.get("key"))
    ]


def _dicts(node: object) -> list[Json]:
    return [each for each in as_list(node) if isinstance(each, dict)]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or isinstance(value, (dict, list)) else json.dumps(value)


def _words(node: object) -> str:
    """A description: a text, or an object with one."""
    return as_text(node) or as_text(as_dict(node).get("content"))


def _word(name: str) -> str:
    """The name of a variable as a mark can hold it."""
    word = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "value"
    return f"_{word}" if word[0].isdigit() else word
