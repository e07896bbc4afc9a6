"""SavedTask: a task that runs on a server, on disk, so that another kernel can pick its result up.

One small file per task, written when the server has created it and removed when its result was
fetched, it was cancelled, or the server forgot it. A task is listed until its server's time to live
for it is over. The files hold no arguments, and only this user may read them: whoever knows a
task's id may be able to fetch its result.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from onetool_ipy.base.files import StoreError, names_in, read_own, remove, write_whole

_MAX_KEPT_S = 7 * 24 * 3600.0
_MAX_FILES = 500
_MAX_BYTES = 20_000


class SavedTask(NamedTuple):
    """A task by our short id. `definition` is the fingerprint of its server, `wire` what the server
    calls the tool."""

    id: str
    task_id: str
    server: str
    definition: str
    tool: str
    wire: str
    started: float
    expires: float


class TaskStore:
    """The tasks of a project. `held` are those that calls of this process wait for.

    Once the kernel ends (`is_closed`), a task that is given up here goes on at its server.
    """

    def __init__(self, folder: Path, mask: Callable[[str], str]) -> None:
        self.is_closed = False
        self.mask = mask
        self.held: set[str] = set()
        self._folder = folder

    def new(self, task_id: str, ttl_ms: int | None, **about: str) -> SavedTask:
        """Return a task that was just created."""
        digest = hashlib.sha256(
            f"{about['definition']}\n{task_id}".encode("utf-8", "replace")
        ).hexdigest()
        now = time.time()
        kept_s = _MAX_KEPT_S if ttl_ms is None else min(max(ttl_ms, 0) / 1000, _MAX_KEPT_S)
        return SavedTask(f"t{digest[:6]}", task_id, started=now, expires=now + kept_s, **about)

    def write(self, task: SavedTask) -> None:
        """Save a task. A disk that fails only costs its durability."""
        with suppress(StoreError):
            write_whole(self._path(task), json.dumps(task._asdict()).encode(), nofollow=True)

    def list(self) -> list[SavedTask]:
        """Return the tasks that nobody in this process waits for, oldest first. Those past their
        time are removed."""
        tasks = []
        for name in [name for name in names_in(self._folder) if name.endswith(".json")][
            :_MAX_FILES
        ]:
            try:
                task = SavedTask(**json.loads(read_own(self._folder / name, _MAX_BYTES) or b""))
            except (ValueError, TypeError, RecursionError):
                continue
            is_valid = all(isinstance(word, str) for word in task[:6]) and all(
                type(t) in (int, float) for t in task[6:]
            )
            is_ours = (
                is_valid
                and task.id[:1] == "t"
                and task.id.isalnum()
                and name == self._path(task).name
            )
            if is_ours and task.expires - task.started <= _MAX_KEPT_S:
                tasks.append(task)
        for task in tasks:
            if task.expires < time.time():
                self.remove(task)
        waiting = [
            task for task in tasks if task.id not in self.held and task.expires >= time.time()
        ]
        return sorted(waiting, key=lambda task: task.started)

    def remove(self, task: SavedTask) -> None:
        """Forget a task."""
        with suppress(OSError):
            remove(self._path(task))

    def _path(self, task: SavedTask) -> Path:
        return self._folder / f"{task.id}.json"
