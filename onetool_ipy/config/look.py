"""Looking at the values of one file: fill `${NAME}`, check a kind, complain with file, line and key.

What `check` and `entries` share. A message shows the template that was written, never what it was filled with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from onetool_ipy.config.document import quoted
from onetool_ipy.config.fill import BadTemplate, UnknownName, fill
from onetool_ipy.config.kinds import Kind, Wrong
from onetool_ipy.config.notes import File

__all__ = ["Get", "Look"]

Get = Callable[[str], str | None]

_LEFT_OUT = object()


class Look:
    """Reads values of one file by dotted key; `get` gives the value of a `${NAME}`."""

    def __init__(self, file: File, get: Get) -> None:
        self.file, self._get = file, get
        self._templates: dict[str, str] = {}

    def mapping(self, key: str) -> Mapping[str, Any]:
        """The section under a key; empty where it is missing, empty or no mapping."""
        raw = self.file.data if not key else self.file.data.get(key)
        if isinstance(raw, dict):
            return raw
        if raw is not None:
            self.file.complain(key, f"{quoted(raw)} is not 'key: value' lines.", error=True)
        return {}

    def items(self, key: str) -> list[Any]:
        """The list under a key; empty where it is missing, empty or no list."""
        raw = self.file.data.get(key)
        if raw is None or isinstance(raw, list):
            return raw or []
        self.file.complain(key, f"{quoted(raw)} is not a list.", "Begin each entry with '- '.", error=True)
        return []

    def value(self, key: str, raw: Any, kind: Kind) -> Any:
        """The checked value, or None where nothing was written or it was wrong."""
        if raw is None:
            return None
        try:
            return kind(raw)
        except Wrong as exc:
            self.file.complain(key, f"{self.shown(key, raw)} {exc.reason}.", exc.hint)
            return None

    def shown(self, key: str, raw: Any) -> str:
        """A value as a message may name it: the template where there is one, no value where one is inside.

        Items of a list lose their number when one before them was left out, so the whole list counts.
        """
        if key in self._templates:
            return quoted(self._templates[key])
        if self.file.is_full:
            return "the value"
        around = key[: key.rfind("[") + 1] if key.endswith("]") else key
        return "the value" if any(k.startswith(around) for k in self._templates) else quoted(raw)

    def unknown(self, key: str, name: str, known: Iterable[str], what: str = "unknown key.") -> None:
        """Complain about a name that is not among the known, with the nearest of them."""
        from onetool_ipy.core.match import did_you_mean

        near = "" if self.file.is_full else did_you_mean(name, known)
        listed = ", ".join(sorted(known))
        hint = near or (f"Known: {listed}." if listed and len(listed) < 300 else "")
        self.file.complain(key, what, hint)

    def filled(self, value: Any, key: str) -> tuple[Any, bool]:
        """The value with every `${NAME}` in it filled, and whether nothing was missing.

        What cannot be filled is left out of its mapping or list; the whole is None when it is that.
        """
        missing: list[str] = []
        found = self._fill(value, key, missing)
        return (None if found is _LEFT_OUT else found), not missing

    def _fill(self, value: Any, key: str, missing: list[str]) -> Any:
        if isinstance(value, str):
            return self._fill_text(value, key, missing) if "${" in value else value
        if isinstance(value, dict):
            made = {k: self._fill(v, f"{key}.{k}", missing) for k, v in value.items()}
            return {k: v for k, v in made.items() if v is not _LEFT_OUT} if missing else made
        if isinstance(value, list):
            items = [self._fill(v, f"{key}[{i}]", missing) for i, v in enumerate(value)]
            return [v for v in items if v is not _LEFT_OUT] if missing else items
        return value

    def _fill_text(self, text: str, key: str, missing: list[str]) -> Any:
        self._templates[key] = text
        try:
            return fill(text, self._get)
        except UnknownName as exc:
            message = f"${{{exc.name}}} is neither in secrets.yaml nor in the environment."
            self.file.complain(key, message, f"Add {exc.name} to one of them.", error=False)
        except BadTemplate:
            hint = "Write ${NAME}, or $${ for a literal '${'."
            self.file.complain(key, f"{quoted(text)} has a '${{' without 'NAME}}'.", hint)
        missing.append(key)
        return _LEFT_OUT
