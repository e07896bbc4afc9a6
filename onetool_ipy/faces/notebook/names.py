"""Our names among the user's variables: `ot` and the project's packs, where the name is free.

A name of the user is never replaced. Ours are hidden from `%who`, restored after `%reset`, and
removed on unload.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any


class LazyObject:
    """A stand-in for an object that is made at its first use."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(self._make(), attribute)

    def __getitem__(self, key: str) -> Any:
        return self._make()[key]

    def __dir__(self) -> list[str]:
        return dir(self._make())

    def _ipython_key_completions_(self) -> list[str]:
        keys: list[str] = self._make()._ipython_key_completions_()
        return keys

    def __repr__(self) -> str:
        return repr(self._make())


class Namespace:
    """Our names in the namespace of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._ours: dict[str, object] = {}

    def offer(self, values: Iterable[tuple[str, object]]) -> list[str]:
        """Add the names that are free to the namespace; return the others."""
        taken = []
        for name, value in values:
            if not name.isidentifier() or not self.is_free(name):
                taken.append(name)
                continue
            self._ours[name] = self._shell.user_ns[name] = self._shell.user_ns_hidden[name] = value
        return taken

    def restore(self) -> None:
        """Put everything back after `%reset`, which empties the namespace."""
        hidden = self._shell.user_ns_hidden
        if self._ours and not any(name in hidden for name in self._ours):
            self.offer(list(self._ours.items()))

    def withdraw(self, is_gone: Callable[[str, object], bool] = lambda _name, _value: True) -> None:
        """Remove the names that are still ours: all, or those of what is gone."""
        for name, value in list(self._ours.items()):
            if not is_gone(name, value):
                continue
            if self._shell.user_ns.get(name) is value:
                del self._shell.user_ns[name]
                self._shell.user_ns_hidden.pop(name, None)
            del self._ours[name]

    def is_free(self, name: str) -> bool:
        """Whether a name is unused or ours."""
        if name not in self._shell.user_ns:
            return not hasattr(builtins, name)
        return name in self._ours and self._shell.user_ns[name] is self._ours[name]
