"""Grants: the tokens that servers gave the user, with what is needed to renew and revoke them.

A grant is one JSON object. It lives in the system's keyring if the library `keyring` is installed
and finds a real one; else in a file. The file is there in both cases: it tells every kernel of the
user that a grant has changed, and with a keyring it holds only a mark. A file that others may read
or write does not count.

Every token and client secret that passes is masked from then on.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

from onetool_ipy.base.files import alocked, make_folder, read_own, remove, write_whole

Grant = dict[str, Any]
"""Has `tokens` and `client`, and what the authorization server says about itself."""

_SERVICE = "onetool_ipy"
_IN_KEYRING = {"in": "keyring"}
_MAX_BYTES = 1_000_000
_REAL_PRIORITY = 1
_SECRET_KEYS = frozenset(("access_token", "refresh_token", "client_secret"))


class TokenStore:
    """The grants of this user, by server and client. All kernels share them."""

    def __init__(self, folder: Path, hide: Callable[[str], None]) -> None:
        self.folder = folder
        self._hide = hide
        self._hidden: dict[str, None] = {}

    def hide(self, value: str) -> None:
        """Mask a secret that was got while signing in."""
        self._hidden[value] = None
        self._hide(value)

    def hide_with(self, hide: Callable[[str], None]) -> None:
        """After a reload: mask what is known with the new configuration, too."""
        self._hide = hide
        for value in self._hidden:
            hide(value)

    def path(self, url: str, client: str) -> Path:
        """Return the file of the grant of one client at one server."""
        digest = hashlib.sha256(f"{url}\n{client}".encode("utf-8", "replace")).hexdigest()
        return self.folder / f"{digest[:40]}.json"

    def fault(self, path: Path) -> str:
        """Say why a grant's file does not count; empty if it does, or is not there."""
        try:
            state = os.lstat(path)
        except OSError:
            return ""
        is_open = hasattr(os, "geteuid") and (
            state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o077
        )
        if is_open or not stat.S_ISREG(state.st_mode):
            return f"The file with its tokens is open to others, so it is not used: {path}"
        return ""

    def read(self, path: Path) -> Grant | None:
        """Return the grant, or None if there is no valid one."""
        if self.fault(path):
            return None
        grant = _decoded(read_own(path, _MAX_BYTES))
        if grant == _IN_KEYRING:
            grant = _decoded(_keyring("get_password", path.stem))
        if grant is not None:
            self._hide_secrets(grant)
        return grant

    def write(self, path: Path, grant: Grant) -> None:
        """Keep a grant. A keyring that does not take it is left out."""
        self._hide_secrets(grant)
        data = json.dumps(grant)
        make_folder(path.parent)
        is_kept = (
            _keyring("set_password", path.stem, data) is not None
            and _keyring("get_password", path.stem) == data
        )
        if self.fault(path):
            remove(path)  # a file that is replaced keeps its permissions
        write_whole(path, json.dumps(_IN_KEYRING if is_kept else grant).encode(), nofollow=True)

    def remove(self, path: Path) -> None:
        """Forget a grant."""
        if _decoded(read_own(path, _MAX_BYTES)) == _IN_KEYRING:
            _keyring("delete_password", path.stem)
        with suppress(FileNotFoundError):
            remove(path)

    def locked(self, path: Path, timeout_s: float) -> AbstractAsyncContextManager[None]:
        """Hold the lock of a grant among all kernels of the user."""
        return alocked(path, timeout_s)

    def _hide_secrets(self, value: object) -> None:
        for secret in _secrets(value):
            self.hide(secret)

    def __repr__(self) -> str:
        return f"TokenStore({str(self.folder)!r})"


def _secrets(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key in _SECRET_KEYS and isinstance(each, str):
                yield each
            else:
                yield from _secrets(each)


def _decoded(data: bytes | str | None) -> Grant | None:
    try:
        grant = json.loads(data or "")
    except (ValueError, RecursionError):
        return None
    return grant if isinstance(grant, dict) else None


def _keyring(method: str, *args: str) -> str | None:
    """Ask the system's keyring; None if there is no real one, or it is locked or fails."""
    try:
        import keyring

        backend = keyring.get_keyring()
        if backend.priority < _REAL_PRIORITY:  # the null and fail backends, and files in plain text
            return None
        answer = getattr(backend, method)(_SERVICE, *args)
    except Exception:  # noqa: BLE001 - keyring is not installed, or a backend of others failed: then a file is used
        return None
    return answer if isinstance(answer, str) else ""
