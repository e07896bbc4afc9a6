"""One toolbox for each project folder: opened on demand, reloaded when its files change, a few open at a time.

A folder must lie inside Jupyter's root after links are resolved. Everything that touches a file runs in a worker
thread, never on the server's event loop. None of a project's Python runs here: its pack files are read as text.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.background import Workers
from onetool_ipy.base.errors import Forbidden, InvalidConfig, InvalidRequest, NotFound, OneToolError
from onetool_ipy.base.files import Stamp, Unreadable, is_young, read, stamp_of
from onetool_ipy.config.paths import find_config
from onetool_ipy.toolbox import Toolbox

__all__ = ["MAX_OPEN", "Projects"]

MAX_OPEN = 16
"""Toolboxes that stay open at once; the least recently used one is closed first."""

_READ_TOO = ("secrets.yaml", "prompts.yaml", "snippets.yaml")
_REAP_EVERY_S = 3600.0
_T = TypeVar("_T")


class Projects:
    """The toolboxes of one server by folder. Created and used on one event loop."""

    def __init__(self, root: Path, *, env: Mapping[str, str] | None = None, max_open: int = MAX_OPEN) -> None:
        self._root = root
        self._env = os.environ if env is None else env
        self._max_open = max_open
        self._workers = Workers()
        self._open: dict[Path, _OpenProject] = {}

    @asynccontextmanager
    async def use(self, named: str | None) -> AsyncIterator[Toolbox]:
        """Give the toolbox of a folder, up to date with its files. It stays open while it is in use."""
        folder = await self.work(lambda: _folder(self._root, named))
        entry = self._open.pop(folder, None) or _OpenProject(folder, self._env)
        self._open[folder] = entry  # the newest stands last
        entry.users += 1
        try:
            async with entry.lock:
                box = await self.work(entry.current)
            yield box
        finally:
            entry.users -= 1
            await self._close_oldest()

    async def work(self, do: Callable[[], _T]) -> _T:
        """Run a blocking function in a worker thread and wait for it."""
        done: _T = await asyncio.wrap_future(self._workers.submit(do, "free").future)
        return done

    def boxes(self) -> list[Toolbox]:
        """Return the open toolboxes."""
        return [entry.box for entry in self._open.values() if entry.box is not None]

    def close(self) -> None:
        """Close all; may be called twice."""
        for entry in self._open.values():
            entry.close()
        self._open.clear()
        self._workers.close()

    async def _close_oldest(self) -> None:
        """Close idle toolboxes above the limit. The set may change during each `await`, so it is read again."""
        while len(self._open) > self._max_open:
            idle = next((entry for entry in self._open.values() if not entry.users), None)
            if idle is None:
                return
            del self._open[idle.folder]
            await self.work(idle.close)


class _OpenProject:
    """One folder's toolbox, the state of its files when they were read, and its number of users."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.box: Toolbox | None = None
        self.lock = asyncio.Lock()
        self.users = 0
        self._env = env
        self._seen: list[object] = []
        self._next_reap = 0.0
        self._digests: dict[Path, tuple[Stamp, bool, bytes]] = {}

    def current(self) -> Toolbox:
        """Return the toolbox, reloaded if a file changed. A faulty file leaves the last good configuration."""
        seen = self._files_state()
        if self.box is None:
            self.box = open_leniently(env=self._env, cwd=self.folder)
            self.box.servers.close()  # the project's programs are started by its kernels, never here
        elif seen != self._seen:
            with suppress(InvalidConfig):  # it keeps the last good configuration, and says so among its problems
                self.box.reload()
        self.box.gate.refresh()
        self._seen = seen
        self._reap(self.box)
        return self.box

    def close(self) -> None:
        if self.box is not None:
            self.box.close()

    def _reap(self, box: Toolbox) -> None:
        """Once an hour remove what was deleted long ago, as every write does: a project may only be read."""
        if time.monotonic() < self._next_reap:
            return
        self._next_reap = time.monotonic() + _REAP_EVERY_S
        with suppress(OneToolError):  # the next request for a bundle reports a broken store
            box.bundles.reap()

    def _files_state(self) -> list[object]:
        """Return the configuration files with a digest of each."""
        home = Path(self._env.get("HOME") or os.path.expanduser("~"))
        found = find_config(None, env=self._env, cwd=self.folder, home=home)
        files = [] if found.config_file is None else [found.config_file]
        if found.onetool_dir is not None:
            files += [found.onetool_dir / name for name in _READ_TOO]
        return [(file, self._state(file)) for file in files]

    def _state(self, file: Path) -> bytes | None:
        """Return a digest of a file. It is read again only if its stamp changed or is too young to tell."""
        stamp = stamp_of(file)
        if stamp is None:
            return None
        known = self._digests.get(file)
        if known is None or known[0] != stamp or known[1]:
            known = self._digests[file] = (stamp, is_young(stamp), _digest(file))
        return known[2]


def _digest(file: Path) -> bytes:
    try:
        content = read(file)
    except Unreadable as exc:
        return str(exc).encode()
    return b"" if content is None else hashlib.blake2b(content.data).digest()


def _folder(root: Path, named: str | None) -> Path:
    """Return the folder that `project=` names. It must be inside the root, also after following links."""
    top = Path(os.path.realpath(root))
    if not named:
        return top
    if "\0" in named or len(named) > 4096:
        raise InvalidRequest("project: this is not a path.")
    folder = Path(os.path.realpath(top / named))
    if not folder.is_relative_to(top):
        raise Forbidden(f"project: '{named}' is outside of the folder that this server serves.")
    try:
        is_folder, is_there = folder.is_dir(), os.path.lexists(folder)
    except OSError as exc:
        raise InvalidRequest(f"project: '{named}': {exc.strerror}.") from None
    if not is_there:
        raise NotFound(f"project: there is no folder '{named}'.")
    if not is_folder:
        raise InvalidRequest(f"project: '{named}' is not a folder.")
    return folder
