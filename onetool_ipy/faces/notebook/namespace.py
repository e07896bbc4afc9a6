"""The names we put into the user's namespace: `ot` and the project's packs, where the name is free.

Never over a name of the user's, hidden from `%who`, back after `%reset`, gone on unload.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Later", "Names"]


class Later:
    """Stands for an object that is made when it is first used."""

    def __init__(self, make: Callable[[], Any], name: str) -> None:
        self._make = make
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(self._make(), attribute)

    def __getitem__(self, key: str) -> Any:
        return self._make()[key]

    def __dir__(self) -> list[str]:
        return dir(self._make())

    def __repr__(self) -> str:
        return repr(self._make())


class Names:
    """What of the namespace is ours."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._ours: dict[str, Any] = {}

    def offer(self, found: Iterable[tuple[str, Any]]) -> list[str]:
        """Put names into the namespace where they are free; tell which were not."""
        taken = []
        for name, value in found:
            if not name.isidentifier() or not self._is_free(name):
                taken.append(name)
                continue
            self._ours[name] = value
            self._put(name, value)
        return taken

    def restore(self) -> None:
        """After `%reset`, which empties the namespace, put everything back."""
        hidden = self._shell.user_ns_hidden
        if self._ours and not any(name in hidden for name in self._ours):
            self.offer(list(self._ours.items()))

    def withdraw(self) -> None:
        """Take back what is still ours."""
        for name, value in self._ours.items():
            if self._shell.user_ns.get(name) is value:
                del self._shell.user_ns[name]
                self._shell.user_ns_hidden.pop(name, None)
        self._ours.clear()

    def _is_free(self, name: str) -> bool:
        if name not in self._shell.user_ns:
            return not hasattr(builtins, name)
        return name in self._ours and self._shell.user_ns[name] is self._ours[name]

    def _put(self, name: str, value: Any) -> None:
        self._shell.user_ns[name] = value
        self._shell.user_ns_hidden[name] = value
