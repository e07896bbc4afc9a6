"""Secrets: look one up by name, and mask every one of them in text that is shown, logged, stored or
sent.

A value is masked as it is and as URLs, JSON, Python's repr, HTML and base64 write it, also inside a
longer base64 text. An encoding of an encoding is not looked for. Values from the environment count
once their name was looked up, and values got at run time, such as tokens, once they were given to
`hide`. No `repr` shows a value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

MASK = "***"
SHORTEST = 6
"""A shorter value would be found in innocent text; it is not masked, and is a problem."""

_LONG_LINE = 16
_MOST_LIVE = 64
_LONGEST_SPELLING = 12
_GAP = re.compile(r"(?<=\S)[ \t]+")
_SHORT_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
_PUBLIC = frozenset(
    (
        *("HOME", "HOSTNAME", "LANG", "LC_ALL", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL"),
        *("TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "USERNAME", "USERPROFILE"),
    )
)
"""Names of the environment whose values are no secrets: masking them would hide half of every
path."""


class Form(NamedTuple):
    """One spelling of a secret, or all those that differ in their escapes only.

    Letters and digits are never escaped. So the longest run of them, the probe, is in every text
    that holds the form, and a text without it costs one `in`.
    """

    probe: str
    pattern: str

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where the form is in a text, also where two of it overlap."""
        pattern, position = re.compile(self.pattern), 0
        while match := pattern.search(text, position):
            yield match.span()
            position = match.start() + 1

    def __repr__(self) -> str:
        return "Form(***)"


def forms_of(value: str) -> Iterator[Form]:
    """Yield every form of a value; for text of several lines, such as a key, also those of each
    long line."""
    whole = value.strip()
    lines = (line.strip() for line in whole.splitlines())
    for text in dict.fromkeys([whole, *(line for line in lines if len(line) >= _LONG_LINE)]):
        # One choice for each character: as it is, and as URLs, JSON, Python and HTML escape it. A
        # run of backslashes is taken whole: with a choice for each of them the ways to share them
        # out would explode.
        parts = []
        for run in re.findall(r"\\+|[^\\]", text):
            if run[0] == "\\":
                count = len(run)
                parts.append(rf"(?:\\{{{2 * count}}}|\\{{{count}}}|(?i:%5c){{{count}}})")
            else:
                parts.append(
                    run if run.isascii() and run.isalnum() else f"(?:{'|'.join(_spellings(run))})"
                )
        yield Form(_probe(text), "".join(parts))
        data = text.encode("utf-8", "surrogatepass")
        # Base64 writes three bytes as four characters. So the text depends on where in a group of
        # three the secret begins, and its first and last character may hold bits of the neighbours:
        # those may be any character.
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + data).decode("ascii")
            core = encoded[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
            spelled = core.replace("+", r"(?:[+-]|%2[bB])").replace("/", r"(?:[/_]|%2[fF]|\\/)")
            edge = "(?:[A-Za-z0-9+/_-]|%2[bBfF])?"
            yield Form(_probe(core), f"{edge}{spelled}{edge}(?:=|%3[dD]){{0,2}}")


def _probe(text: str) -> str:
    return max(re.findall("[A-Za-z0-9]+", text), key=len, default="")


def _spellings(char: str) -> Iterator[str]:
    yield "(?i:" + "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass")) + ")"
    utf16 = char.encode("utf-16-be", "surrogatepass")
    yield (
        "(?i:" + "".join(rf"\\u{utf16[at : at + 2].hex()}" for at in range(0, len(utf16), 2)) + ")"
    )
    yield rf"(?i:\\x{ord(char):02x})" if ord(char) < 256 else rf"(?i:\\u{ord(char):08x})"
    yield f"(?i:&#(?:0*{ord(char)}|x0*{ord(char):x});)"
    if char in _ENTITIES:
        yield _ENTITIES[char]
    if char == " ":
        yield r"\+"
    if char in _SHORT_ESCAPES:
        yield rf"\\{_SHORT_ESCAPES[char]}"
    yield rf"\\?{char}" if char in "\"'/" else re.escape(char)


class Secrets:
    """The values of secrets.yaml, then those of the environment, by name. `own` are those of the
    user's own file, which are keys of models and nothing else."""

    __slots__ = ("_env", "_forms", "_live", "_own", "_values")

    def __init__(
        self,
        values: Mapping[str, str],
        env: Mapping[str, str],
        own: Mapping[str, str] | None = None,
    ) -> None:
        self._values = dict(values)
        self._env = env
        self._own = dict(own or {})
        # The forms by value are only ever replaced as a whole, so that threads need no lock.
        self._forms: dict[str, tuple[Form, ...]] = {}
        self._live: list[str] = []
        for value in (*self._values.values(), *self._own.values()):
            self._add(value)

    def key_of_model(self, name: str) -> str | None:
        """Return the value of a model's key: what `get` gives, else the user's own."""
        value = self.get(name)
        return self._own.get(name) if value is None else value

    def own_names(self) -> list[str]:
        """The names in the user's own file, sorted; never a value."""
        return sorted(self._own)

    def get(self, name: str) -> str | None:
        """Return the value from the secrets, else from the environment, which makes it a secret
        from then on."""
        if name in self._values:
            return self._values[name]
        value = self._env.get(name)
        if value is not None and name not in _PUBLIC:
            self._add(value)
        return value

    def names(self) -> list[str]:
        """The names in secrets.yaml, sorted; never a value."""
        return sorted(self._values)

    def mask(self, text: str) -> str:
        """Replace every secret in the text, in any of its forms, by `***`."""
        if not self._forms:
            return text
        pieces: list[str] = []
        end = 0
        for start, stop in self._spans(text):
            pieces += (text[end:start], MASK)
            end = stop
        return "".join((*pieces, text[end:])) if pieces else text

    def settled(self, text: str) -> int:
        """Return how much of a growing text can be masked and shown: no secret that may continue
        begins in it.

        A secret that has no blank ends before the next one. No spelling of a secret is longer than
        12 times its length.
        """
        if not self._forms:
            return len(text)
        end = max(len(text) - _LONGEST_SPELLING * max(map(len, self._forms)), 0)
        blanks = max(value.count(" ") + value.count("\t") for value in self._forms)
        gaps = [gap.end() for gap in _GAP.finditer(text)]
        if len(gaps) > blanks:
            end = max(end, gaps[-1 - blanks])
        return next((start for start, stop in self._spans(text) if start < end < stop), end)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return where secrets are in the text, in order. Spans that overlap or touch are
        joined."""
        joined: list[tuple[int, int]] = []
        present = (form for forms in self._forms.values() for form in forms if form.probe in text)
        for start, stop in sorted(span for form in present for span in form.spans(text)):
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
            else:
                joined.append((start, stop))
        return joined

    def mask_value(self, value: object) -> Any:
        """Mask text in dicts (keys too), lists and tuples. A number that is a secret becomes
        `***`."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask_value(k): self.mask_value(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.mask_value(v) for v in value]
        if isinstance(value, tuple):
            return tuple(self.mask_value(v) for v in value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            masked = self.mask(str(value))
            return value if masked == str(value) else masked
        return value

    def hide(self, value: str) -> None:
        """Mask a value obtained at run time, such as a token, from now on. The newest 64 are
        kept."""
        if self._add(value):
            self._live.append(value)
            while len(self._live) > _MOST_LIVE:
                oldest = self._live.pop(0)
                self._forms = {
                    other: forms for other, forms in self._forms.items() if other != oldest
                }

    def _add(self, value: str) -> bool:
        """Mask a value; False if it is masked already, or too short."""
        if value in self._forms or len(value.strip()) < SHORTEST:
            return False
        self._forms = {**self._forms, value: tuple(forms_of(value))}
        return True

    def __repr__(self) -> str:
        return f"Secrets({len(self._values)} names)"

    def __reduce__(self) -> Any:
        raise TypeError("Secrets cannot be pickled: they never leave this process.")
