"""What the words of a curl command mean: URL, method, headers, data. Pure.

Options that only say how curl shows or transfers things are passed over; those that would change what is sent and that
we cannot keep are noted; one that is not known is refused, since it cannot be told whether a value follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onetool_ipy.core.errors import InvalidRequest

__all__ = ["Command", "read_command"]

_SHORT = {
    "X": "request", "H": "header", "d": "data", "F": "form", "u": "user", "G": "get", "I": "head", "A": "user-agent",
    "e": "referer", "b": "cookie", "m": "max-time", "o": "output", "w": "write-out", "x": "proxy", "T": "upload-file",
    "k": "insecure", "L": "location", "s": "silent", "S": "show-error", "v": "verbose", "i": "include", "f": "fail",
    "g": "globoff", "N": "no-buffer", "O": "remote-name", "#": "progress-bar", "4": "ipv4", "6": "ipv6", "0": "http1.0",
    "c": "cookie-jar", "E": "cert", "r": "range", "n": "netrc", "J": "remote-header-name", "j": "junk-session-cookies",
    "D": "dump-header", "K": "config", "q": "disable", "Z": "parallel", "a": "append", "U": "proxy-user",
    "z": "time-cond",
}  # fmt: skip
_VALUED = frozenset(
    (
        *("request", "header", "data", "data-raw", "data-binary", "data-ascii", "data-urlencode", "json", "form"),
        *("form-string", "user", "user-agent", "referer", "cookie", "max-time", "url", "oauth2-bearer", "range"),
        *(
            "output",
            "write-out",
            "connect-timeout",
            "retry",
            "retry-delay",
            "retry-max-time",
            "max-redirs",
            "cookie-jar",
        ),
        *(
            "proxy",
            "upload-file",
            "cert",
            "key",
            "cacert",
            "resolve",
            "interface",
            "limit-rate",
            "config",
            "proxy-user",
        ),
        *("dump-header", "time-cond", "connect-to", "unix-socket", "aws-sigv4", "trace", "trace-ascii", "stderr"),
        *("keepalive-time", "ciphers", "tls-max", "max-filesize", "url-query", "expect100-timeout", "parallel-max"),
    )
)
_QUIET = frozenset(
    (
        *("location", "silent", "show-error", "verbose", "include", "fail", "fail-with-body", "globoff", "no-buffer"),
        *(
            "compressed",
            "progress-bar",
            "http1.1",
            "http1.0",
            "http2",
            "http3",
            "ipv4",
            "ipv6",
            "remote-name",
            "output",
        ),
        *("write-out", "connect-timeout", "retry", "retry-delay", "retry-max-time", "max-redirs", "keepalive-time"),
        *("tcp-nodelay", "no-keepalive", "path-as-is", "remote-header-name", "disable", "dump-header", "trace"),
        *("trace-ascii", "stderr", "styled-output", "no-progress-meter", "basic", "location-trusted", "create-dirs"),
        *("retry-all-errors", "retry-connrefused", "tlsv1.2", "tlsv1.3", "ssl-reqd", "limit-rate", "parallel"),
    )
)
_NOTED = {
    "insecure": "certificates are always checked",
    "proxy": "a proxy is not used",
    "proxy-user": "a proxy is not used",
    "cookie-jar": "cookies are not kept",
    "cert": "a client's certificate is not sent",
    "key": "a client's certificate is not sent",
    "cacert": "the certificates of this system are used",
    "resolve": "names are looked up by the system",
    "connect-to": "names are looked up by the system",
    "interface": "the system chooses the interface",
    "netrc": "the .netrc file is not read",
    "range": "a range is not asked for",
    "ciphers": "the usual ciphers are used",
    "tls-max": "the usual versions of TLS are used",
    "max-filesize": "the settings say how much is taken",
    "junk-session-cookies": "cookies are not kept",
    "expect100-timeout": "it is not needed",
    "time-cond": "a time condition is not sent",
}
_DATA = ("data", "data-ascii", "data-raw", "data-binary", "data-urlencode", "json")


@dataclass
class Command:
    """A curl command, taken apart. `data` are (kind, text)."""

    urls: list[str] = field(default_factory=list)
    method: str | None = None
    headers: list[str] = field(default_factory=list)
    data: list[tuple[str, str]] = field(default_factory=list)
    form: list[tuple[str, str]] = field(default_factory=list)
    query: list[str] = field(default_factory=list)
    user: str | None = None
    bearer: str | None = None
    cookie: str | None = None
    max_time_s: float | None = None
    is_get: bool = False
    is_head: bool = False
    notes: list[str] = field(default_factory=list)


def read_command(words: list[str]) -> Command:
    """The command that these words are; raises InvalidRequest for one that is none."""
    if not words or words[0].rpartition("/")[2] not in ("curl", "curl.exe"):
        raise InvalidRequest("The command does not begin with 'curl'.", hint="Paste it whole, from 'curl' on.")
    found = Command()
    rest = words[1:]
    only_urls = False
    while rest:
        word = rest.pop(0)
        if only_urls or not word.startswith("-") or word == "-":
            found.urls.append(word)
        elif word == "--":
            only_urls = True
        elif word.startswith("--"):
            _take(found, word[2:], None, rest)
        else:
            _short(found, word[1:], rest)
    if len(found.urls) != 1:
        said = f"{len(found.urls)} URLs" if found.urls else "no URL"
        raise InvalidRequest(f"The command has {said}; one is wanted.", hint="Quote a URL that has blanks or & in it.")
    return found


def _short(found: Command, letters: str, rest: list[str]) -> None:
    """`-sSXPOST`: letters together, the last one perhaps with its value."""
    while letters:
        letter, letters = letters[0], letters[1:]
        name = _SHORT.get(letter)
        if name is None:
            raise InvalidRequest(f"The option '-{letter}' of curl is not known here.", hint="Leave it out.")
        if name in _VALUED:
            _take(found, name, letters or None, rest)
            return
        _take(found, name, None, rest)


def _take(found: Command, name: str, attached: str | None, rest: list[str]) -> None:
    value = ""
    if name in _VALUED:
        if attached is None and not rest:
            raise InvalidRequest(f"The option '{name}' has no value.")
        value = attached if attached is not None else rest.pop(0)
    if name in _DATA:
        found.data.append((name, value))
    elif name in ("form", "form-string"):
        found.form.append((name, value))
    elif name in _SETS:
        _SETS[name](found, value)
    elif name in _NOTED:
        found.notes.append(f"'{name}' is left out: {_NOTED[name]}")
    elif name in ("next", "config", "upload-file", "aws-sigv4", "unix-socket", "digest", "ntlm", "negotiate"):
        raise InvalidRequest(f"The option '{name}' of curl cannot be taken over.")
    elif name not in _QUIET:
        raise InvalidRequest(f"The option '--{name}' of curl is not known here.", hint="Leave it out.")


def _max_time(found: Command, value: str) -> None:
    try:
        found.max_time_s = float(value)
    except ValueError:
        raise InvalidRequest(f"'{value}' is no number of seconds.") from None


_SETS: dict[str, Callable[[Command, str], None]] = {
    "url": lambda found, value: found.urls.append(value),
    "request": lambda found, value: setattr(found, "method", value),
    "header": lambda found, value: found.headers.append(value),
    "user": lambda found, value: setattr(found, "user", value),
    "oauth2-bearer": lambda found, value: setattr(found, "bearer", value),
    "cookie": lambda found, value: setattr(found, "cookie", value),
    "user-agent": lambda found, value: found.headers.append(f"User-Agent: {value}"),
    "referer": lambda found, value: found.headers.append(f"Referer: {value}"),
    "url-query": lambda found, value: found.query.append(value),
    "max-time": _max_time,
    "get": lambda found, _: setattr(found, "is_get", True),
    "head": lambda found, _: setattr(found, "is_head", True),
}
