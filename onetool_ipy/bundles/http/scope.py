"""Scope: where the values of one call come from: arguments, secrets, earlier steps. Nothing else is ever looked at.

Of two kinds: `Values` gives the real ones, for what is sent; `Shown` gives `***` for each secret, for what is shown,
so that no secret has to be found and masked there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from onetool_ipy.bundles.http.template import Ref
from onetool_ipy.core import values
from onetool_ipy.core.errors import InvalidOutput, MissingSecret, TooLarge

__all__ = ["HIDDEN", "MISSING", "Scope", "Secret", "Shown", "Values"]

Secret = Callable[[str], str | None]
"""name -> its value, None where there is none."""

HIDDEN: Final = "***"


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""Stands for an optional argument that was not given."""


class Scope(Protocol):
    """Gives the value of a reference, or MISSING."""

    def value(self, ref: Ref) -> Any:
        """The value, in its JSON form."""


class Values:
    """The real values of one call; raises TooLarge once they hold more than `room` characters."""

    def __init__(
        self, args: Mapping[str, Any], secret: Secret, *, defaults: Mapping[str, Any], room: int, tool: str
    ) -> None:
        self._args = args
        self._defaults = defaults
        self._secret = secret
        self._room = room
        self._tool = tool
        self._known: dict[str, Any] = {}
        self.steps: dict[str, Any] = {}

    def value(self, ref: Ref) -> Any:
        if ref.kind == "secret":
            return self.secret(ref.name)
        if ref.kind == "argument":
            return _walk(self._argument(ref.name), ref.path)
        found = _walk(self.steps.get(ref.name, MISSING), ref.path)
        if found is MISSING:
            raise InvalidOutput(f"The response of '{ref.name}' has nothing at '{ref}'.")
        return found

    def secret(self, name: str) -> str:
        """The value of a secret; raises MissingSecret."""
        found = self._secret(name)
        if found is None:
            raise MissingSecret(
                f"'{self._tool}' needs the secret '{name}', which is not there.", hint=f"Add '{name}' to secrets.yaml."
            )
        return found

    def _argument(self, name: str) -> Any:
        if name not in self._known:
            given = self._args.get(name, self._defaults.get(name, MISSING))
            if given is not MISSING:
                self._room -= _length(given)
                if self._room < 0:
                    raise TooLarge(f"The arguments of '{self._tool}' are more than may be sent.", hint="Send less.")
                given = values.to_json(given)
            self._known[name] = given
        return self._known[name]


class Shown:
    """The values of a call as they may be shown: no secret, and what no step has given yet as it is written."""

    def __init__(self, real: Values) -> None:
        self._real = real

    def value(self, ref: Ref) -> Any:
        if ref.kind == "secret":
            return HIDDEN
        if ref.kind == "step" and ref.name not in self._real.steps:
            return f"${{{ref}}}"
        return self._real.value(ref)


def _walk(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        is_key = isinstance(part, str) and isinstance(value, dict) and part in value
        is_index = isinstance(part, int) and isinstance(value, list) and part < len(value)
        if not (is_key or is_index):
            return MISSING
        value = value[part]
    return value


def _length(value: Any, depth: int = 0) -> int:
    """At least so many bytes a value takes, as far as one can tell without writing it."""
    if isinstance(value, (str, bytes, bytearray)):
        return len(value)
    if depth < 50 and isinstance(value, Mapping):
        return sum(_length(key, depth + 1) + _length(inner, depth + 1) for key, inner in value.items())
    if depth < 50 and isinstance(value, (list, tuple, set, frozenset)):
        return sum(_length(inner, depth + 1) for inner in value)
    return 1
