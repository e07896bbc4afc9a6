"""One toolbox for each project folder that is asked for: opened at need, read again when its files change, few at once.

A folder lies inside Jupyter's root, links resolved. Everything that touches a file is done in a worker, never on the
server's event loop. Nothing of a project's Python is run here: its pack files are read as text.
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
"""Toolboxes that stay open at once; the one that was not asked for the longest goes first."""

_READ_TOO = ("secrets.yaml", "prompts.yaml", "snippets.yaml")
_REAP_EVERY_S = 3600.0
_T = TypeVar("_T")


class Projects:
    """The toolboxes of one server, by folder. Made and used on one event loop."""

    def __init__(self, root: Path, *, env: Mapping[str, str] | None = None, max_open: int = MAX_OPEN) -> None:
        self._root = root
        self._env = os.environ if env is None else env
        self._max_open = max_open
        self._workers = Workers()
        self._open: dict[Path, _Entry] = {}

    @asynccontextmanager
    async def use(self, asked: str | None) -> AsyncIterator[Toolbox]:
        """The toolbox of a folder, as its files are now; it stays open as long as it is used."""
        folder = await self.work(lambda: _folder(self._root, asked))
        entry = self._open.pop(folder, None) or _Entry(folder, self._env)
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
        """Do in a worker what may block, and wait for it."""
        done: _T = await asyncio.wrap_future(self._workers.submit(do, "free").future)
        return done

    def boxes(self) -> list[Toolbox]:
        """The toolboxes that are open now."""
        return [entry.box for entry in self._open.values() if entry.box is not None]

    def close(self) -> None:
        """Close all; may be called twice."""
        for entry in self._open.values():
            entry.close()
        self._open.clear()
        self._workers.close()

    async def _close_oldest(self) -> None:
        """Close idle toolboxes above the limit. Others come and go during each `await`, so look anew after it."""
        while len(self._open) > self._max_open:
            idle = next((entry for entry in self._open.values() if not entry.users), None)
            if idle is None:
                return
            del self._open[idle.folder]
            await self.work(idle.close)


class _Entry:
    """One folder's toolbox, how its files were when it read them, and how many use it now."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.box: Toolbox | None = None
        self.lock = asyncio.Lock()
        self.users = 0
        self._env = env
        self._seen: list[object] = []
        self._next_reap = 0.0
        self._marks: dict[Path, tuple[Stamp, bool, bytes]] = {}

    def current(self) -> Toolbox:
        """The toolbox, read again where a file is another one than it was; a faulty file leaves what was good."""
        seen = self._look()
        if self.box is None:
            self.box = open_leniently(env=self._env, cwd=self.folder)
            self.box.servers.close()  # the project's programs are started by its kernels, never here
        elif seen != self._seen:
            with suppress(InvalidConfig):  # it keeps the last good configuration, and says so among its problems
                self.box.reload()
        self.box.heed_trust()
        self._seen = seen
        self._reap(self.box)
        return self.box

    def close(self) -> None:
        if self.box is not None:
            self.box.close()

    def _reap(self, box: Toolbox) -> None:
        """Now and then remove what was deleted long ago, as every write does; a project may just be looked at."""
        if time.monotonic() < self._next_reap:
            return
        self._next_reap = time.monotonic() + _REAP_EVERY_S
        with suppress(OneToolError):  # a broken store is told to whoever asks for something of it
            box.bundles.reap()

    def _look(self) -> list[object]:
        """Which files there are, and what is in them."""
        home = Path(self._env.get("HOME") or os.path.expanduser("~"))
        found = find_config(None, env=self._env, cwd=self.folder, home=home)
        files = [] if found.config_file is None else [found.config_file]
        if found.onetool_dir is not None:
            files += [found.onetool_dir / name for name in _READ_TOO]
        return [(file, self._state(file)) for file in files]

    def _state(self, file: Path) -> bytes | None:
        """A mark of what is in a file; it is read again only where its times are others, or too young to tell."""
        stamp = stamp_of(file)
        if stamp is None:
            return None
        known = self._marks.get(file)
        if known is None or known[0] != stamp or known[1]:
            known = self._marks[file] = (stamp, is_young(stamp), _mark(file))
        return known[2]


def _mark(file: Path) -> bytes:
    try:
        content = read(file)
    except Unreadable as exc:
        return str(exc).encode()
    return b"" if content is None else hashlib.blake2b(content.data).digest()


def _folder(root: Path, asked: str | None) -> Path:
    """The folder that `project=` names; inside the root, also when links are followed."""
    top = Path(os.path.realpath(root))
    if not asked:
        return top
    if "\0" in asked or len(asked) > 4096:
        raise InvalidRequest("project: this is no path.")
    folder = Path(os.path.realpath(top / asked))
    if not folder.is_relative_to(top):
        raise Forbidden(f"project: '{asked}' is outside of the folder that this server serves.")
    try:
        is_folder, is_there = folder.is_dir(), os.path.lexists(folder)
    except OSError as exc:
        raise InvalidRequest(f"project: '{asked}': {exc.strerror}.") from None
    if not is_there:
        raise NotFound(f"project: there is no folder '{asked}'.")
    if not is_folder:
        raise InvalidRequest(f"project: '{asked}' is no folder.")
    return folder
