"""A pasted curl command -> the draft of one tool. Pure; nothing is expanded, run or sent.

Options that only affect curl's display or transfer are ignored, options that we cannot keep are noted, and an unknown
option is refused, since it may take a value. `sample` makes the tool.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.importing.sample import SampleDraft, SampleRequest, draft_tool, mark

_MAX_TEXT = 1 << 20
_SHORT = {
    "X": "request", "H": "header", "d": "data", "F": "form", "u": "user", "G": "get", "I": "head", "A": "user-agent",
    "e": "referer", "b": "cookie", "m": "max-time", "o": "output", "w": "write-out", "x": "proxy", "T": "upload-file",
    "k": "insecure", "L": "location", "s": "silent", "S": "show-error", "v": "verbose", "i": "include", "f": "fail",
    "g": "globoff", "N": "no-buffer", "O": "remote-name", "#": "progress-bar", "4": "ipv4", "6": "ipv6", "0": "http1.0",
    "c": "cookie-jar", "E": "cert", "r": "range", "n": "netrc", "J": "remote-header-name", "j": "junk-session-cookies",
    "D": "dump-header", "K": "config", "q": "disable", "Z": "parallel", "a": "append", "U": "proxy-user",
    "z": "time-cond",
}  # fmt: skip
_VALUED = frozenset((
    "request", "header", "data", "data-raw", "data-binary", "data-ascii", "data-urlencode", "json", "form",
    "form-string", "user", "user-agent", "referer", "cookie", "max-time", "url", "oauth2-bearer", "range", "output",
    "write-out", "connect-timeout", "retry", "retry-delay", "retry-max-time", "max-redirs", "cookie-jar", "proxy",
    "upload-file", "cert", "key", "cacert", "resolve", "interface", "limit-rate", "config", "proxy-user",
    "dump-header", "time-cond", "connect-to", "unix-socket", "aws-sigv4", "trace", "trace-ascii", "stderr",
    "keepalive-time", "ciphers", "tls-max", "max-filesize", "url-query", "expect100-timeout", "parallel-max",
))  # fmt: skip
_QUIET = frozenset((
    "location", "silent", "show-error", "verbose", "include", "fail", "fail-with-body", "globoff", "no-buffer",
    "compressed", "progress-bar", "http1.1", "http1.0", "http2", "http3", "ipv4", "ipv6", "remote-name", "output",
    "write-out", "connect-timeout", "retry", "retry-delay", "retry-max-time", "max-redirs", "keepalive-time",
    "tcp-nodelay", "no-keepalive", "path-as-is", "remote-header-name", "disable", "dump-header", "trace",
    "trace-ascii", "stderr", "styled-output", "no-progress-meter", "basic", "location-trusted", "create-dirs",
    "retry-all-errors", "retry-connrefused", "tlsv1.2", "tlsv1.3", "ssl-reqd", "limit-rate", "parallel",
))  # fmt: skip
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
_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+)|(?P<line>\n\s*+)|(?P<joined>\\\n)"""
    r"""|'(?P<single>[^']*)'|\$'(?P<ansi>(?:[^'\\]|\\.)*)'|\$?"(?P<double>(?:[^"\\]|\\.)*)\""""
    r"""|(?P<command>`|\$\()|(?P<variable>\$(?:\{[A-Za-z_]\w*\}|[A-Za-z_]\w*))"""
    r"""|(?P<quote>\$?['"])|(?P<end>[|;&<>])|\\(?P<escaped>.?)|(?P<plain>\$|[^\s\\'"`$|;&<>]+|\s)""",
    re.ASCII | re.DOTALL,
)
_IN_DOUBLE = re.compile(
    r"""\\(?P<escaped>.)|(?P<command>`|\$\()|(?P<variable>\$(?:\{[A-Za-z_]\w*\}|[A-Za-z_]\w*))|[^\\`$]+|\$""",
    re.ASCII | re.DOTALL,
)
_ANSI = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


def import_curl(text: str, *, slug: str | None = None, secret_prefix: str | None = None) -> SampleDraft:
    """Import a command; raises InvalidRequest, which says what cannot be read."""
    if len(text) > _MAX_TEXT:
        raise InvalidRequest(f"The command has {len(text):,} characters; at most {_MAX_TEXT:,} are read.")
    if text != values.encodable(text):
        raise InvalidRequest("The command holds half a character (a lone surrogate). Copy it again.")
    return draft_tool(_read_command(_words(text)), slug=slug, prefix=secret_prefix)


def _read_command(words: list[str]) -> SampleRequest:
    """Parse the words of a curl command. Raises InvalidRequest if they are not one."""
    if not words or words[0].rpartition("/")[2] not in ("curl", "curl.exe"):
        raise InvalidRequest("The command does not begin with 'curl'.", hint="Paste it whole, from 'curl' on.")
    sample = SampleRequest()
    rest = deque(words[1:])
    only_urls = False
    while rest:
        word = rest.popleft()
        if only_urls or not word.startswith("-") or word == "-":
            sample.urls.append(word)
        elif word == "--":
            only_urls = True
        elif word.startswith("--"):
            _take(sample, word[2:], None, rest)
        else:
            _short(sample, word[1:], rest)
    if len(sample.urls) != 1:
        count = f"{len(sample.urls)} URLs" if sample.urls else "no URL"
        raise InvalidRequest(
            f"The command has {count}; it needs exactly one.", hint="Quote a URL that has blanks or & in it."
        )
    return sample


def _short(sample: SampleRequest, letters: str, rest: deque[str]) -> None:
    """Read short options together, such as `-sSXPOST`; the last one may have its value attached."""
    for index, letter in enumerate(letters):
        name = _SHORT.get(letter)
        if name is None:
            raise InvalidRequest(f"The option '-{letter}' of curl is not known here.", hint="Leave it out.")
        if name in _VALUED:
            _take(sample, name, letters[index + 1 :] or None, rest)
            return
        _take(sample, name, None, rest)


def _take(sample: SampleRequest, name: str, attached: str | None, rest: deque[str]) -> None:
    value = ""
    if name in _VALUED:
        if attached is None and not rest:
            raise InvalidRequest(f"The option '{name}' has no value.")
        value = attached if attached is not None else rest.popleft()
    if name in _DATA:
        sample.data.append((name, value))
    elif name in ("form", "form-string"):
        sample.form.append((name, value))
    elif name in _SETS:
        _SETS[name](sample, value)
    elif name in _NOTED:
        sample.notes.append(f"'{name}' is left out: {_NOTED[name]}")
    elif name in ("next", "config", "upload-file", "aws-sigv4", "unix-socket", "digest", "ntlm", "negotiate"):
        raise InvalidRequest(f"The option '{name}' of curl cannot be imported.")
    elif name not in _QUIET:
        raise InvalidRequest(f"The option '--{name}' of curl is not known here.", hint="Leave it out.")


def _max_time(sample: SampleRequest, value: str) -> None:
    try:
        sample.max_time_s = float(value)
    except ValueError:
        raise InvalidRequest(f"'{value}' is not a number of seconds.") from None


_SETS: dict[str, Callable[[SampleRequest, str], None]] = {
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


def _words(text: str) -> list[str]:
    """Split one command into words as bash does; nothing is expanded or run.

    Not with shlex, which knows neither `$'...'`, nor variables, nor where a command ends. Raises InvalidRequest for a
    quote without an end, a command substitution, or more than one command.
    """
    text = re.sub("[\ue000\ue001]", "?", text).replace("\r\n", "\n").strip()
    words: list[str] = []
    word: str | None = None
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "joined":
            continue
        if kind in ("blank", "line"):
            words += [] if word is None else [word]
            word = None
            rest = text[token.end() : token.end() + 40]
            if kind == "line" and words and rest and not rest.startswith("-"):
                raise InvalidRequest(f"'{rest}': a second line begins; end the line before it with a backslash.")
            continue
        word = (word or "") + _piece(token, text)
    return words + ([] if word is None else [word])


def _piece(token: re.Match[str], text: str) -> str:
    kind = str(token.lastgroup)
    excerpt = text[token.start() : token.start() + 20]
    if kind == "quote":
        raise InvalidRequest(f"The quote {token[0]} that begins at '{excerpt}' has no end.")
    if kind == "end":
        raise InvalidRequest(f"'{excerpt}': only one curl command can be read, nothing more.")
    if kind == "double":
        return "".join(_in_double(part) for part in _IN_DOUBLE.finditer(token["double"]))
    if kind == "ansi":
        return _ANSI.sub(_unescaped, token["ansi"])
    return _variable(token) if kind in ("command", "variable") else str(token[kind])


def _in_double(part: re.Match[str]) -> str:
    if part.lastgroup != "escaped":
        return _variable(part) if part.lastgroup else part[0]
    escaped = part["escaped"]
    return "" if escaped == "\n" else escaped if escaped in '"\\$`' else part[0]


def _variable(token: re.Match[str]) -> str:
    if token["command"]:
        excerpt = "$(...)" if token[0] == "$(" else "`...`"
        raise InvalidRequest(f"A command inside the command, {excerpt}, cannot be run here.")
    return mark(token["variable"].strip("${}"))


def _unescaped(match: re.Match[str]) -> str:
    for digits, base in ((match[1], 16), (match[2], 16), (match[3], 16), (match[4], 8)):
        if digits:
            number = int(digits, base)
            return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "?"
    return _ANSI_LETTERS.get(match[5], match[5])
