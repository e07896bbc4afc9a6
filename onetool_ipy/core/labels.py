"""Labels: what a tool reads, and which place its arguments go to. The guard of `%ask` is made of
them.

A place is a host (with its port, where that is not 443), `server 'x'` or `tool 'x'`; "" as the
place of data is this machine, and as the place that a tool sends to nowhere. Labels are derived
from what a tool is. What its author states with `@tool(reads=, sends=)`, and what a project's
settings say, makes them stricter only; the user's own cells and settings may loosen them. Nothing
that a server says of itself counts.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from onetool_ipy.core import names
from onetool_ipy.core.tool import ToolSpec

Reads = Literal["nothing", "public", "private"]
"""What a result can hold, the strictest last."""

READS: tuple[Reads, ...] = ("nothing", "public", "private")
NOWHERE = "nowhere"
UNKNOWN = "an address that is known only at the call"
"""The place of a host with a placeholder in it. Nothing explains a call to it."""

NETWORK = frozenset(
    re.findall(
        r"[\w.]+",
        "aiohttp boto3 botocore ftplib grpc http httpx imaplib paramiko poplib pycurl requests "
        "smtplib socket ssl telnetlib tornado urllib urllib3 websocket websockets xmlrpc",
    )
)
"""Libraries that reach other machines."""

_SDK = "onetool_ipy.sdk"
_SDK_NETWORK = frozenset(("safe_request", "lazy_client", "http"))
_HARMLESS = frozenset(
    re.findall(
        r"[\w.]+",
        "time.now tools.echo ot.tools ot.packs ot.aliases ot.snippets ot.help ot.version ot.deps "
        "ot.notify ot.reload",
    )
)
"""Tools of ours whose results hold nothing of the person's data."""

_PORTS = {"https": 443, "wss": 443, "http": 80, "ws": 80}
_MAX_FUNCTIONS = 200
_MAX_PLACES = 4
_OPENED = r"""(?:{}|['"`]|::)[ \t]*"""
_URL = re.compile(
    rf"""{_OPENED.format("^")}(?:[\w.+-]+:)?([a-z][\w+.-]*://[^/?#\s\\'"`<>]+)""",
    re.IGNORECASE | re.MULTILINE,
)
_SHARE = re.compile(rf"{_OPENED.format('^')}(?://|\\\\)([\w.-]+)[/\\]\w")


class Labels(NamedTuple):
    """What a tool reads, the place that private data of it belongs to, and where it sends."""

    reads: Reads = "private"
    of: str = ""
    sends: str = ""

    @property
    def reads_text(self) -> str:
        """What the tool reads, for people."""
        if self.reads == "private":
            return f"private data of {self.of or 'this machine'}"
        return "public data" if self.reads == "public" else "nothing"

    @property
    def sends_text(self) -> str:
        """Where the tool sends its arguments, for people."""
        return self.sends or NOWHERE


def place_of(text: str) -> str:
    """Return a place in its one spelling: `https://API.example.com:443/v1` is `api.example.com`.

    A host without a port has port 443; `nowhere` is "". A bucket, or what else is reached by
    another protocol, keeps the name of that one: `s3://data` is not the host `data`.
    """
    plain = text.strip()
    if plain in ("", NOWHERE):
        return ""
    if plain.startswith(("server '", "tool '")) and plain.endswith("'"):
        return plain
    if any(char in plain for char in "${}*<> "):
        return UNKNOWN
    try:
        parts = urlsplit(plain if "://" in plain else f"https://{plain}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return UNKNOWN
    if not host:
        return UNKNOWN
    name = f"[{host}]" if ":" in host else host.removesuffix(".")
    if parts.scheme not in _PORTS:
        return f"{parts.scheme}://{name}{'' if port is None else f':{port}'}"
    number = port or _PORTS[parts.scheme]
    return name if number == 443 else f"{name}:{number}"


def derived(spec: ToolSpec, url_of: Callable[[str], str | None]) -> Labels:
    """Derive the labels of a tool from what it is. `url_of` gives the URL of an MCP server."""
    if spec.guard.behind is not None and (inner := spec.guard.behind()) is not None:
        return derived(inner, url_of)
    if spec.server:
        place = place_of(url_of(spec.server) or f"server '{spec.server}'")
        return Labels("private", place, place)
    if spec.http is not None:
        places = list(dict.fromkeys(map(place_of, spec.http.origins)))
        place = UNKNOWN if UNKNOWN in places or not places else " and ".join(places)
        return Labels("private" if spec.http.has_credentials else "public", place, place)
    if spec.origin == "builtin":
        return Labels("nothing" if spec.name in _HARMLESS else "private")
    has_network = spec.guard.has_network
    is_out = reaches_out(spec.run) if has_network is None else has_network()
    place = f"tool '{spec.name}'" if is_out else ""
    return Labels("private", place, place)


def stated(labels: Labels, reads: str = "", sends: str = "", *, may_loosen: bool = False) -> Labels:
    """Return the labels with what somebody says of the tool ("" says nothing), as far as that may
    count: `may_loosen` is for the user's own word."""
    place = place_of(sends)
    if not may_loosen:
        strict = max(labels.reads, _as_reads(reads or labels.reads), key=READS.index)
        # A second place beside a derived one could only be a looser word for it.
        return Labels(strict, labels.of, labels.sends or place)
    own = _as_reads(reads) if reads in READS else labels.reads
    if not sends:
        return labels._replace(reads=own)
    return Labels(own, place if place and labels.of == labels.sends else labels.of, place)


def at_call(spec: ToolSpec, labels: Labels, args: Mapping[str, Any]) -> Labels:
    """Return the labels of one call of a tool.

    Code of the person's own sends to the hosts of the URLs in its arguments, also where it says
    otherwise: libraries that read files, such as pandas, take a URL for a path, and so does SQL.
    """
    if spec.origin == "builtin" or spec.server or spec.http is not None:
        return labels
    urls = {url for text in _texts(args) for url in _urls_in(text)}
    if not urls:
        return labels
    hosts = {*map(place_of, urls)}
    # A URL says more than the name of the tool that opens it.
    hosts |= {labels.sends} - {"", f"tool '{spec.name}'"}
    is_known = UNKNOWN not in hosts and len(hosts) <= _MAX_PLACES
    place = " and ".join(sorted(hosts)) if is_known else UNKNOWN
    is_own = labels.sends and labels.of == labels.sends
    return Labels(labels.reads, place if is_own else labels.of, place)


def best_pattern(name: str, patterns: Sequence[str]) -> str | None:
    """Return the pattern that says most about a tool: its name, else the longest that fits."""
    fitting = [pattern for pattern in patterns if names.allowed(name, [pattern])]
    return max(fitting, key=lambda pattern: (pattern == name, len(pattern)), default=None)


def imports_network(imports: Mapping[str, Sequence[str]]) -> bool:
    """Whether imported modules, each with the names that are taken from it, reach out."""
    return any(
        module.partition(".")[0] in NETWORK
        or (module.startswith(_SDK) and bool(_SDK_NETWORK & {*taken, *module.split(".")}))
        for module, taken in imports.items()
    )


def reaches_out(fn: object) -> bool:
    """Whether the code of a function, or of those that it names in its module, uses the network."""
    waiting: list[Any] = [fn]
    done: set[int] = set()
    while waiting and len(done) < _MAX_FUNCTIONS:
        one = waiting.pop()
        while isinstance(one, functools.partial):
            waiting += [part for part in (*one.args, *one.keywords.values()) if callable(part)]
            one = one.func
        one = getattr(one, "__func__", one)
        root = str(getattr(one, "__module__", "") or "").partition(".")[0]
        if root in NETWORK or (isinstance(one, types.ModuleType) and _is_network(one.__name__)):
            return True
        code = getattr(one, "__code__", None)
        if code is None or id(code) in done:
            continue
        done.add(id(code))
        cells = getattr(one, "__closure__", None) or ()
        waiting += [cell.cell_contents for cell in cells if _is_set(cell)]
        variables = getattr(one, "__globals__", {})
        for word in _words_of(code):
            if _is_network(word):
                return True
            value = variables.get(word)
            if isinstance(value, types.ModuleType) or callable(value):
                waiting.append(value)
    return False


def _texts(data: object) -> Iterator[str]:
    """Yield each text in a value, keys too."""
    waiting, done = [data], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, (Mapping, list, tuple)) and id(value) not in done:
            done.add(id(value))
            waiting += [*value, *value.values()] if isinstance(value, Mapping) else value


def _urls_in(text: str) -> Iterator[str]:
    """Yield the addresses that a program would open: at the beginning of a line, in quotes, or
    behind the `::` of a chain. One in the middle of a sentence is prose."""
    if "://" in text:
        yield from _URL.findall(text)
    if "//" in text or "\\\\" in text:
        yield from (f"smb://{host}" for host in _SHARE.findall(text))


def _as_reads(text: str) -> Reads:
    return next((reads for reads in READS if reads == text), "private")


def _is_network(module: str) -> bool:
    return module.partition(".")[0] in NETWORK


def _is_set(cell: Any) -> bool:
    try:
        return callable(cell.cell_contents)
    except ValueError:
        return False


def _words_of(code: types.CodeType) -> list[str]:
    """Return the names that a code object uses, with those of the functions inside it."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return [*code.co_names, *(word for each in inner for word in _words_of(each))]
