"""Secret values: look one up, and hide every one of them in text that is shown, logged, stored or sent.

A value is found as it is and as URLs, JSON, Python's repr, HTML, hex and base64 write it, also inside a longer base64
text. Values from the environment count once their name was asked for, and values got at run time, such as tokens, once
they were given to `hide`. The one thing here that changes is that set; no `repr` shows a value. How the forms are made
is in `disguise`, loaded with the first secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.config.disguise import Form

__all__ = ["MASK", "SHORTEST", "Secrets"]

MASK = "***"
_GAP = r"(?<=\S)(?<!\\n)[ \t]+"
_LONGER = 16
_SLACK = 64
SHORTEST = 6
"""A shorter value would be found in innocent text; it is not masked, and is a problem."""

_MOST_LIVE = 64

_PUBLIC = frozenset(
    (
        *("HOME", "HOSTNAME", "LANG", "LC_ALL", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL"),
        *("TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "USERNAME", "USERPROFILE"),
    )
)
"""Names of the environment whose values are no secrets: masking them would hide half of every path."""


class Secrets:
    """The values of secrets.yaml, then those of the environment, by name."""

    __slots__ = ("_env", "_forms", "_hidden", "_live", "_values")

    def __init__(self, values: Mapping[str, str], env: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._env = env
        self._hidden: set[str] = set()
        self._forms: list[Form] = []  # only ever replaced or appended to, so that threads need no lock
        self._live: dict[str, list[Form]] = {}
        for value in self._values.values():
            self._hide(value)

    def get(self, name: str) -> str | None:
        """The value, from the secrets or else the environment, which makes it a secret from now on."""
        found = self._values.get(name)
        if found is not None:
            return found
        found = self._env.get(name)
        if found is not None and name not in _PUBLIC:
            self._hide(found)
        return found

    def names(self) -> list[str]:
        """The names in secrets.yaml, sorted; never a value."""
        return sorted(self._values)

    def mask(self, text: str) -> str:
        """Replace every secret in the text, in any of its forms, by `***`."""
        forms = self._forms
        if not forms:
            return text
        if not ("&" in text or "%" in text or "\n" in text or "\\" in text):
            forms = [form for form in forms if form.probe in text]
            if not forms:
                return text
        from onetool_ipy.config.disguise import spans

        out: list[str] = []
        end = 0
        for start, stop in spans(text, forms):
            out += (text[end:start], MASK)
            end = stop
        return "".join((*out, text[end:])) if out else text

    def settled(self, text: str) -> int:
        """How much of a text that still grows can be masked and shown: no secret that may go on begins in it.

        No secret goes on over a blank in a line, unless it has one itself; nor is any form of it longer by far.
        """
        forms = self._forms
        if not forms:
            return len(text)
        from onetool_ipy.config.disguise import spans

        known = [*self._hidden, *self._live]
        end = max(len(text) - _LONGER * max(map(len, known)) - _SLACK, 0)
        blanks = max(value.count(" ") + value.count("\t") for value in known)
        gaps = [gap.end() for gap in re.finditer(_GAP, text)]
        if len(gaps) > blanks:
            end = max(end, gaps[-1 - blanks])
        return next((start for start, stop in spans(text, forms) if start < end < stop), end)

    def mask_value(self, value: Any) -> Any:
        """The same for text in dicts (keys too), lists and tuples; a number that is a secret becomes `***`."""
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
        """Mask a value that was got at run time, such as a token; the newest 64 of them are known."""
        if value in self._hidden or value in self._live or len(value.strip()) < SHORTEST:
            return
        from onetool_ipy.config.disguise import forms

        self._live[value] = list(forms(value))
        self._forms.extend(self._live[value])
        while len(self._live) > _MOST_LIVE:
            gone = {id(form) for form in self._live.pop(next(iter(self._live)))}
            self._forms = [form for form in self._forms if id(form) not in gone]

    def _hide(self, value: str) -> None:
        if value in self._hidden or len(value.strip()) < SHORTEST:
            return
        from onetool_ipy.config.disguise import forms

        self._forms.extend(forms(value))
        self._hidden.add(value)

    def __repr__(self) -> str:
        return f"Secrets({len(self._values)} names)"

    def __reduce__(self) -> Any:
        raise TypeError("Secrets cannot be pickled: they never leave this process.")
