"""A pasted curl command -> the draft of one tool. Pure; nothing is expanded, run or sent.

Options that only affect curl's display or transfer are ignored, options that we cannot keep are
noted, and an unknown option is refused, since it may take a value. `sample` makes the tool.
"""

from __future__ import annotations

import math
import re
from collections import deque
from contextlib import suppress

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.importing.sample import SampleDraft, SampleRequest, draft_tool, mark

_MAX_TEXT = 1 << 20
_SHORT = {
    "X": "request", "H": "header", "d": "data", "F": "form", "u": "user", "G": "get", "I": "head",
    "A": "user-agent",
    "e": "referer", "b": "cookie", "m": "max-time", "o": "output", "w": "write-out", "x": "proxy",
    "T": "upload-file",
    "k": "insecure", "L": "location", "s": "silent", "S": "show-error", "v": "verbose",
    "i": "include", "f": "fail",
    "g": "globoff", "N": "no-buffer", "O": "remote-name", "#": "progress-bar", "4": "ipv4",
    "6": "ipv6", "0": "http1.0",
    "c": "cookie-jar", "E": "cert", "r": "range", "n": "netrc", "J": "remote-header-name",
    "j": "junk-session-cookies",
    "D": "dump-header", "K": "config", "q": "disable", "Z": "parallel", "a": "append",
    "U": "proxy-user",
    "z": "time-cond",
}  # fmt: skip
_VALUED = frozenset((
    "request", "header", "data", "data-raw", "data-binary", "data-ascii", "data-urlencode", "json",
    "form",
    "form-string", "user", "user-agent", "referer", "cookie", "max-time", "url", "oauth2-bearer",
    "range", "output",
    "write-out", "connect-timeout", "retry", "retry-delay", "retry-max-time", "max-redirs",
    "cookie-jar", "proxy",
    "upload-file", "cert", "key", "cacert", "resolve", "interface", "limit-rate", "config",
    "proxy-user",
    "dump-header", "time-cond", "connect-to", "unix-socket", "aws-sigv4", "trace", "trace-ascii",
    "stderr",
    "keepalive-time", "ciphers", "tls-max", "max-filesize", "url-query", "expect100-timeout",
    "parallel-max",
))  # fmt: skip
_QUIET = frozenset((
    "location", "silent", "show-error", "verbose", "include", "fail", "fail-with-body", "globoff",
    "no-buffer",
    "compressed", "progress-bar", "http1.1", "http1.0", "http2", "http3", "ipv4", "ipv6",
    "remote-name", "output",
    "write-out", "connect-timeout", "retry", "retry-delay", "retry-max-time", "max-redirs",
    "keepalive-time",
    "tcp-nodelay", "no-keepalive", "path-as-is", "remote-header-name", "disable", "dump-header",
    "trace",
    "trace-ascii", "stderr", "styled-output", "no-progress-meter", "basic", "location-trusted",
    "create-dirs",
    "retry-all-errors", "retry-connrefused", "tlsv1.2", "tlsv1.3", "ssl-reqd", "limit-rate",
    "parallel",
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
_PAIRS = dict.fromkeys(
    ("data", "data-ascii", "data-raw", "data-binary", "data-urlencode", "json"), "data"
)
_PAIRS |= {"form": "form", "form-string": "form", "url-query": "query"}
"""Options that are added to a list of the sample, each with its own name."""
_FIELDS = {"request": "method", "user": "user", "oauth2-bearer": "bearer", "cookie": "cookie"}
"""Options that set a field of the sample."""
_LISTS = {
    "url": ("urls", ""),
    "header": ("headers", ""),
    "user-agent": ("headers", "User-Agent: "),
    "referer": ("headers", "Referer: "),
}
"""Options that are added to a list of the sample, behind these words."""
_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+(?:#[^\n]*)?)|(?P<line>\n\s*+)|(?P<joined>[\\`][ \t]*\n)"""
    r"""|'(?P<single>[^']*)'|\$'(?P<ansi>(?:[^'\\]|\\.)*)'|\$?"(?P<double>(?:[^"\\]|\\.)*)\""""
    r"""|(?P<command>`|\$\()|(?P<variable>\$(?:\{[A-Za-z_]\w*\}|[A-Za-z_]\w*))"""
    r"""|(?P<quote>\$?['"])|(?P<end>[|;&<>])|\\(?P<escaped>.?)"""
    r"""|(?P<plain>\$|[^\s\\'"`$|;&<>]+|\s)""",
    re.ASCII | re.DOTALL,
)
# "Copy as cURL (cmd)": the quotes, and each sign that cmd would read, stand behind a caret.
_CMD = re.compile(r"curl(?:\.exe)?[^\n'\"]*\^\"|[^\n']* \^[ \t]*\n")
_CARET = re.compile(r"\^[ \t]*\n(\n?)|\^(.)|([$`])", re.DOTALL)
_PROMPT = re.compile(r"(?<!\s)\s*+[$!%>]\s*+(?=curl)")
_IN_DOUBLE = re.compile(
    r"""\\(?P<escaped>.)|(?P<command>`|\$\()"""
    r"""|(?P<variable>\$(?:\{[A-Za-z_]\w*\}|[A-Za-z_]\w*))|[^\\`$]+|\$""",
    re.ASCII | re.DOTALL,
)
_ANSI = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_ANSI_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "v": "\v",
}


def import_curl(text: str, *, slug: str | None = None) -> SampleDraft:
    """Import a command; raises InvalidRequest, which says what cannot be read."""
    if len(text) > _MAX_TEXT:
        raise InvalidRequest(
            f"The command has {len(text):,} characters; at most {_MAX_TEXT:,} are read."
        )
    if text != values.encodable(text):
        raise InvalidRequest(
            "The command holds half a character (a lone surrogate). Copy it again."
        )
    words = _words(_PROMPT.sub("", text))
    if not words or words[0].rpartition("/")[2] not in ("curl", "curl.exe"):
        raise InvalidRequest(
            "The command does not begin with 'curl'.", hint="Paste it whole, from 'curl' on."
        )
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
            # Short options may be written together, as in `-sSXPOST`; the last one may have its
            # value attached.
            for index, letter in enumerate(word[1:], start=2):
                name = _SHORT.get(letter)
                if name is None:
                    raise InvalidRequest(
                        f"The option '-{letter}' of curl is not known here.", hint="Leave it out."
                    )
                _take(sample, name, word[index:] or None, rest)
                if name in _VALUED:
                    break
    if len(sample.urls) != 1:
        count = f"{len(sample.urls)} URLs" if sample.urls else "no URL"
        raise InvalidRequest(
            f"The command has {count}; it needs exactly one.",
            hint="Quote a URL that has blanks or & in it.",
        )
    return draft_tool(sample, slug=slug)


def _take(sample: SampleRequest, name: str, attached: str | None, rest: deque[str]) -> None:
    value = ""
    if name in _VALUED:
        if attached is None and not rest:
            raise InvalidRequest(
                f"The option '{name}' has no value.", hint="Paste the command whole."
            )
        value = attached if attached is not None else rest.popleft()
    if name in _PAIRS:
        getattr(sample, _PAIRS[name]).append((name, value))
    elif name in _FIELDS:
        setattr(sample, _FIELDS[name], value)
    elif name in _LISTS:
        field, lead = _LISTS[name]
        getattr(sample, field).append(lead + value)
    elif name in ("get", "head"):
        setattr(sample, f"is_{name}", True)
    elif name == "max-time":
        sample.max_time_s = _seconds(value)
    elif name in _NOTED:
        sample.notes.append(f"'{name}' is left out: {_NOTED[name]}")
    elif name in (
        "next",
        "config",
        "upload-file",
        "aws-sigv4",
        "unix-socket",
        "digest",
        "ntlm",
        "negotiate",
    ):
        raise InvalidRequest(f"The option '{name}' of curl cannot be imported.")
    elif name not in _QUIET:
        raise InvalidRequest(
            f"The option '--{name}' of curl is not known here.", hint="Leave it out."
        )


def _seconds(value: str) -> float:
    with suppress(ValueError):
        if 0 <= (seconds := float(value)) < math.inf:
            return seconds
    raise InvalidRequest(f"'{value[:40]}' is not a number of seconds.")


def _words(text: str) -> list[str]:
    """Split one command into words as bash does; nothing is expanded or run.

    Not with shlex, which knows neither `$'...'`, nor variables, nor where a command ends. Raises
    InvalidRequest for a quote without an end, a command substitution, or more than one command.
    """
    text = re.sub("[\ue000\ue001]", "?", text).replace("\r\n", "\n").strip()
    if _CMD.match(text):
        text = _CARET.sub(_without_caret, text)
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
                raise InvalidRequest(
                    f"'{rest}': a second line begins; end the line before it with a backslash."
                )
            continue
        word = (word or "") + _piece(token, text)
    return words + ([] if word is None else [word])


def _without_caret(match: re.Match[str]) -> str:
    """What cmd makes of a caret. `$` and a backtick mean nothing to it."""
    sign = match[2] or match[3]
    if sign is None:
        return match[1] or " "
    return f"\\{sign}" if sign in "$`" else sign


def _piece(token: re.Match[str], text: str) -> str:
    kind = str(token.lastgroup)
    excerpt = text[token.start() : token.start() + 20]
    if kind == "quote":
        raise InvalidRequest(
            f"The quote {token[0]} that begins at '{excerpt}' has no end.",
            hint="Close it, or copy the whole command again.",
        )
    if kind == "end":
        raise InvalidRequest(
            f"'{excerpt}': only one curl command can be imported at a time.",
            hint="Paste it without what stands behind it.",
        )
    if kind == "double":
        parts = []
        for part in _IN_DOUBLE.finditer(token["double"]):
            if part.lastgroup == "escaped":
                escaped = part["escaped"]
                parts.append("" if escaped == "\n" else escaped if escaped in '"\\$`' else part[0])
            else:
                parts.append(_variable(part) if part.lastgroup else part[0])
        return "".join(parts)
    if kind == "ansi":
        return _ANSI.sub(_unescaped, token["ansi"])
    return _variable(token) if kind in ("command", "variable") else str(token[kind])


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
