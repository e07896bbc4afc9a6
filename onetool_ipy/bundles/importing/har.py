"""A HAR file, the requests of a browser -> the draft of a bundle and its tools. Pure; what is left out is counted.

Requests of one method and one path become one tool; what looks like an id in the path is an argument. Cookies, tokens
and credentials become names of secrets. Neither they nor what looks like a token is kept. `sample` makes the tools.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.printable import printable_line
from onetool_ipy.bundles.http.definition import HEADER_NAME
from onetool_ipy.bundles.importing import labels
from onetool_ipy.bundles.importing.document import ImportNotes, as_dict, as_list, as_text
from onetool_ipy.bundles.importing.draft import BundleDraft, ImportRequest, OfferedOperations
from onetool_ipy.bundles.importing.sample import SampleDraft, SampleRequest, draft_tool, is_secret, mark

__all__ = ["import_har", "is_har"]

_ASSETS = frozenset(("image", "font", "stylesheet", "script", "media", "manifest", "texttrack", "ping", "preflight"))
_ASSET_MIME = re.compile(r"(?:image|font|audio|video)/|text/css|(?:text|application)/(?:x-)?(?:java|ecma)script|.*wasm")
_ASSET_FILE = re.compile(
    r".*\.(?:png|jpe?g|gif|svg|webp|avif|ico|bmp|css|m?js|map|woff2?|ttf|otf|eot|mp[34]|webm|wasm)", re.IGNORECASE
)
_OF_BROWSER = frozenset((
    "accept-encoding", "accept-language", "cache-control", "connection", "content-length", "dnt", "host",
    "if-modified-since", "if-none-match", "keep-alive", "origin", "pragma", "priority", "referer", "te",
    "transfer-encoding", "upgrade", "upgrade-insecure-requests", "user-agent", "x-client-data", "x-requested-with",
))  # fmt: skip
_ID = re.compile(r"\d+|[0-9a-f]{12,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|.*@.*\..*", re.IGNORECASE)
_TOKEN = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_+/=.~-]{16,}")
_MAX_BODY = 200_000


def is_har(root: Mapping[str, Any]) -> bool:
    """Whether a document is a HAR file."""
    return isinstance(as_dict(root.get("log")).get("entries"), list)


def import_har(root: Mapping[str, Any], notes: ImportNotes, request: ImportRequest) -> BundleDraft:
    """Import a HAR file; raises InvalidRequest if it has no request that can be a tool."""
    entries = as_list(as_dict(root.get("log")).get("entries"))
    groups = _groups(entries, notes)
    hosts = Counter(group.url.netloc.rpartition("@")[2].lower() for group in groups)
    host = hosts.most_common(1)[0][0] if hosts else ""
    name = request.slug or labels.slug(host, "api")
    offered = OfferedOperations(request.choice)
    prefix = labels.common_prefix([group.path for group in groups])
    chosen = []
    for group in groups:
        path = group.path.removeprefix(prefix)
        wanted = labels.slug(group.label or f"{group.method.lower()}-{path}", group.method.lower())
        own_host = group.url.netloc.rpartition("@")[2].lower()
        tag = own_host if len(hosts) > 1 else path.strip("/").partition("/")[0]
        tags = [printable_line(tag).replace(",", " ")[:64]] if tag and "{" not in tag else []
        taken = offered.take(wanted, group.method, group.path, tags)
        if taken is not None:
            chosen.append((group, taken, own_host if len(hosts) > 1 else name, tags))
    drafts = [_draft(group, taken, owner, tags, notes, request) for group, taken, owner, tags in chosen]
    made = [draft for draft in drafts if draft is not None]
    offered.require_some(made, notes)
    about = f"Made of a HAR file with {len(entries):,} requests."
    bundle = {"slug": name, "displayName": printable_line(host)[:256] or name, "description": about, "isEnabled": True}
    secrets = sorted({each for draft in made for each in (*draft.secrets, *draft.missing)})
    rows = [{"name": each, "description": "A credential that the browser sent."} for each in secrets]
    reached = sorted({each for draft in made for each in draft.hosts})
    return BundleDraft("HAR file", bundle, [each.tool for each in made], rows, reached, notes.list(), offered.count)


@dataclass
class _Group:
    """Requests of one method and path. The first is the sample; `sometimes` are query keys that not all have."""

    method: str
    url: SplitResult
    path: str
    label: str
    request: dict[str, Any]
    always: set[str]
    sometimes: dict[str, None]


class _Place(NamedTuple):
    """What tells one tool from another."""

    method: str
    server: str
    path: str
    label: str


def _groups(entries: list[Any], notes: ImportNotes) -> list[_Group]:
    found: dict[_Place, _Group] = {}
    left: Counter[str] = Counter()
    for entry in map(as_dict, entries):
        request = as_dict(entry.get("request"))
        url = _split(as_text(request.get("url")))
        why = "requests without an http address" if url is None else _left_out(entry, request, url)
        if url is None or why:
            left[why] += 1
            continue
        method = as_text(request.get("method")).upper()
        template, _ = _template(url.path)
        place = _Place(method, f"{url.scheme}://{url.netloc}".lower(), template, _graphql_name(request))
        keys = dict.fromkeys(key for key, _ in parse_qsl(url.query, keep_blank_values=True) if key != "_")
        if place not in found:
            found[place] = _Group(method, url, template, place.label, request, set(keys), {})
        group = found[place]
        group.sometimes.update(dict.fromkeys([*(group.always - keys.keys()), *(keys.keys() - group.always)]))
        group.always &= keys.keys()
    for why, count in left.items():
        notes.add(f"{count:,} {why} are left out")
    return list(found.values())


def _split(text: str) -> SplitResult | None:
    try:
        url = urlsplit(text)
        return url if url.scheme in ("http", "https") and url.hostname else None
    except ValueError:
        return None


def _left_out(entry: dict[str, Any], request: dict[str, Any], url: SplitResult) -> str:
    """Why an entry is no call of an API; empty if it is one."""
    kind = as_text(entry.get("_resourceType"))
    mime = as_text(as_dict(as_dict(entry.get("response")).get("content")).get("mimeType")).lower()
    if kind in _ASSETS or _ASSET_MIME.match(mime) or _ASSET_FILE.fullmatch(url.path):
        return "images, fonts, scripts and styles"
    if kind == "websocket" or request.get("method") in ("CONNECT", "TRACE"):
        return "connections"
    is_page = request.get("method") in ("GET", "HEAD") and (kind == "document" or mime.startswith("text/html"))
    return "pages" if is_page else ""


def _graphql_name(request: dict[str, Any]) -> str:
    """The operation of a GraphQL request, since all of them have one path."""
    text = as_dict(request.get("postData")).get("text")
    if isinstance(text, str) and len(text) < _MAX_BODY and '"operationName"' in text:
        try:
            return as_text(as_dict(json.loads(text)).get("operationName"))[:64]
        except (ValueError, RecursionError):
            return ""
    return ""


def _template(path: str) -> tuple[str, list[tuple[str, str]]]:
    """A path with `{name}` for what looks like an id, and each segment with the name of its argument, if it has one."""
    names = labels.UniqueNames(mark="_")
    segments: list[tuple[str, str]] = []
    before = ""
    for segment in path.split("/"):
        plain = unquote(segment)
        is_id = _ID.fullmatch(plain) or (_TOKEN.fullmatch(plain) and not re.fullmatch(r"[a-z.-]+\d{0,2}", plain))
        segments.append((segment, names.take(f"{_singular(before)}id") if is_id else ""))
        before = "" if is_id else plain
    shown = "/".join(f"{{{name}}}" if name else printable_line(unquote(segment)) for segment, name in segments)
    return shown, segments


def _singular(word: str) -> str:
    """`user_` of `users`; empty if the word cannot begin a name."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_").lower()
    if not plain or plain[0].isdigit() or len(plain) > 30:
        return ""
    return re.sub(r"ies$", "y", plain).removesuffix("s") + "_"


def _draft(
    group: _Group, name: str, owner: str, tags: list[str], notes: ImportNotes, asked: ImportRequest
) -> SampleDraft | None:
    sample = _sample(group, asked.own_server())
    try:
        draft = draft_tool(sample, slug=name, prefix=owner, reserved=asked.secrets)
    except InvalidRequest as exc:
        notes.add(f"{group.method} {group.path} is left out: {exc.message}")
        return None
    for note in draft.notes:
        notes.add(f"{group.method} {group.path}: {note}")
    draft.tool["tags"] = tags
    draft.tool["displayName"] = (group.label or f"{group.method} {group.path}")[:256]
    return draft


def _sample(group: _Group, server: str | None) -> SampleRequest:
    sample = SampleRequest(method=group.method)
    _, segments = _template(group.url.path)
    for segment, name in segments:
        if name:
            sample.variables[name] = None
            sample.numbers |= {name} if segment.isdecimal() else set()
    path = "/".join(mark(name) if name else segment for segment, name in segments)
    origin = server.rstrip("/") if server else f"{group.url.scheme}://{group.url.netloc}"
    sample.urls = [origin + path]
    sent = [
        (key, _kept(sample, key, value))
        for key, value in parse_qsl(group.url.query, keep_blank_values=True)
        if key in group.always
    ]
    sample.query = [urlencode(sent)] if sent else []
    sample.optional = list(group.sometimes)
    _headers(sample, group.request)
    _body(sample, as_dict(group.request.get("postData")))
    return sample


def _kept(sample: SampleRequest, name: str, value: Any) -> Any:
    """A value as a default, or the mark of a required argument if it looks like a token."""
    if isinstance(value, dict):
        return {str(key): _kept(sample, str(key), inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_kept(sample, name, inner) for inner in value]
    if not isinstance(value, str):
        return value
    plain = re.sub("[\ue000\ue001]", "?", value)
    if is_secret(name) or not _TOKEN.fullmatch(plain):
        return plain
    word = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "value"
    word = f"_{word}" if word[0].isdigit() else word
    sample.variables[word] = None
    return mark(word)


def _headers(sample: SampleRequest, request: dict[str, Any]) -> None:
    names = set()
    for each in map(as_dict, as_list(request.get("headers"))):
        name, value = as_text(each.get("name")), printable_line(as_text(each.get("value")))
        lowered = name.lower()
        is_noise = lowered in _OF_BROWSER or lowered.startswith(("sec-", "proxy-")) or value == "*/*"
        if not value or is_noise or lowered in names or not HEADER_NAME.fullmatch(name):
            continue
        names.add(lowered)
        if lowered != "content-type" or "multipart/" not in value:
            sample.headers.append(f"{name}: {_kept(sample, name, value)}")
    if "cookie" not in names and as_list(request.get("cookies")):
        pairs = [f"{as_text(each.get('name'))}=" for each in map(as_dict, as_list(request["cookies"]))]
        sample.cookie = "; ".join(pairs)


def _body(sample: SampleRequest, body: dict[str, Any]) -> None:
    mime = as_text(body.get("mimeType")).lower()
    text = body.get("text") if isinstance(body.get("text"), str) else ""
    fields = [(as_text(each.get("name")), each) for each in map(as_dict, as_list(body.get("params")))]
    if mime.startswith("multipart/"):
        for name, each in fields:
            is_file = "fileName" in each or "contentType" in each
            value = "@file" if is_file else _kept(sample, name, as_text(each.get("value")))
            sample.form.append(("form" if is_file else "form-string", f"{name}={value}"))
        if not fields:
            sample.notes.append("a multipart body without its parts is not imported")
        return
    if "x-www-form-urlencoded" in mime:
        pairs = [(name, unquote(as_text(each.get("value")))) for name, each in fields] or parse_qsl(str(text), True)
        text = urlencode([(name, _kept(sample, name, value)) for name, value in pairs])
    elif text:
        text = _json_body(sample, str(text)) if "json" in mime else None
        if text is None:  # what it holds cannot be told apart, so nothing of it is kept
            sample.variables["body"] = None
            text = mark("body")
    if text:
        sample.data = [("data-raw", str(text))]
        if mime and not any(line.lower().startswith("content-type:") for line in sample.headers):
            sample.headers.append(f"Content-Type: {printable_line(mime)}")


def _json_body(sample: SampleRequest, text: str) -> str | None:
    try:
        return (
            json.dumps(_kept(sample, "body", json.loads(text)), ensure_ascii=False) if len(text) <= _MAX_BODY else None
        )
    except (ValueError, RecursionError):
        return None
