"""Which projects the user trusts (contract 16): one record for each folder, in the user's state, never in the project.

`judge` says how a project stands when its configuration is read. A record also pins the definition of each MCP server
as it was when the user said yes. One file for each folder, written whole, so that processes need no lock. A record
that is damaged, or that another user owns, is no record.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from onetool_ipy.base.errors import InvalidConfig
from onetool_ipy.base.files import make_private
from onetool_ipy.base.records import Value
from onetool_ipy.config.paths import ConfigLocation, expand_home, project_key, state_base

__all__ = ["TRUST_ENV", "How", "Pin", "Trust", "TrustList", "difference", "drawn_names", "judge", "pin_of"]

TRUST_ENV = "ONETOOL_TRUST"

How = Literal["no project", "home", "named", "environment", "listed", "untrusted"]
"""Why a project is trusted: it is `~/.onetool`, was named outright, lies in $ONETOOL_TRUST, or is on the list."""

Pin = Mapping[str, Any]
"""What a yes covers of a server: its definition as written, with every `${NAME}` unfilled."""

_PINNED = ("type", "command", "args", "cwd", "env", "inherit", "url", "headers", "trusted")
_VERSION = 1
_MAX_BYTES = 4 * 1024 * 1024
_NAME = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NO_PINS: Mapping[str, Pin] = MappingProxyType({})

_Mark = tuple[int, int, int] | None


class Trust(Value):
    """How a project stood when its configuration was read. `record` is the file that says so, or would."""

    how: How = "no project"
    folder: Path | None = None
    record: Path | None = None
    mark: _Mark = None
    pins: Mapping[str, Pin] = _NO_PINS

    @property
    def is_given(self) -> bool:
        """Whether code, servers and HTTP tools of the project may run."""
        return self.how not in ("no project", "untrusted")

    @property
    def is_pinned(self) -> bool:
        """Whether each server needs a yes for its definition."""
        return self.how == "listed"

    def has_changed(self) -> bool:
        """Whether the user said yes or no since, in whatever process."""
        return self.record is not None and _mark_of(self.record) != self.mark

    def covers(self, server: str, pin: Pin) -> bool:
        """Whether this server, defined so, may start."""
        return self.is_given and (not self.is_pinned or self.pins.get(server) == pin)


class TrustList:
    """The records of one user, in the folder that holds the state of all projects."""

    def __init__(self, base: Path) -> None:
        self._folder = base / "trusted"

    @classmethod
    def of(cls, env: Mapping[str, str], home: Path) -> TrustList:
        """The list of this user."""
        return cls(state_base(env, home))

    def path(self, folder: Path) -> Path:
        """Where the record of a folder is, or would be."""
        return self._folder / f"{project_key(folder)}.json"

    def get(self, folder: Path) -> Mapping[str, Pin] | None:
        """The pinned servers of a trusted folder; None where it is not on the list."""
        found = _read(self.path(folder))
        return found[1] if found is not None and found[0] == str(folder) else None

    def add(self, folder: Path, pins: Mapping[str, Pin]) -> None:
        """Trust a folder, with the servers defined so."""
        record = {
            "version": _VERSION,
            "folder": str(folder),
            "servers": {name: dict(pin) for name, pin in pins.items()},
        }
        _write(self.path(folder), json.dumps(record, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass"))

    def remove(self, folder: Path) -> bool:
        """Trust a folder no longer; False where it was not on the list."""
        try:
            self.path(folder).unlink()
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise _failed(self.path(folder), exc) from exc
        return True

    def folders(self) -> list[Path]:
        """The trusted folders, sorted."""
        try:
            files = [entry.path for entry in os.scandir(self._folder) if entry.name.endswith(".json")]
        except OSError:
            return []
        found = (_read(Path(file)) for file in files)
        return sorted(Path(record[0]) for record in found if record is not None)


def judge(found: ConfigLocation, project: Path, *, env: Mapping[str, str], home: Path) -> Trust:
    """How the project that the search found stands now."""
    if found.named:
        return Trust("named", project)
    is_there = found.onetool_dir is not None or found.config_file is not None
    if is_there and project == Path(os.path.realpath(home)):
        return Trust("home", project)
    if is_there and any(project.is_relative_to(folder) for folder in _named_folders(env, home)):
        return Trust("environment", project)
    known = TrustList.of(env, home)
    record = known.path(project)
    mark = _mark_of(record)
    pins = known.get(project) if mark is not None else None
    if not is_there:
        return Trust("no project", project, record, mark)
    if pins is None:
        return Trust("untrusted", project, record, mark)
    return Trust("listed", project, record, mark, pins)


def pin_of(written: Mapping[str, Any]) -> Pin:
    """What is pinned of a server's definition, as plain JSON."""
    kept = {key: written[key] for key in _PINNED if written.get(key) is not None}
    plain: dict[str, Any] = json.loads(json.dumps(kept, default=str))
    return plain


def drawn_names(value: Any) -> list[str]:
    """The names in every `${NAME}` of a value, in order, each once."""
    if isinstance(value, str):
        found = [match[1] for match in _NAME.finditer(value) if match[1]]
    elif isinstance(value, Mapping):
        found = [name for each in value.values() for name in drawn_names(each)]
    elif isinstance(value, (list, tuple)):
        found = [name for each in value for name in drawn_names(each)]
    else:
        found = []
    return list(dict.fromkeys(found))


def difference(before: Pin, after: Pin) -> list[str]:
    """What changed in a server's definition, a line for each value: `- was` and `+ is`."""
    lines = []
    for key in _PINNED:
        was, now = before.get(key), after.get(key)
        if was == now:
            continue
        lines += [f"- {key}: {_shown(was)}"] if was is not None else []
        lines += [f"+ {key}: {_shown(now)}"] if now is not None else []
    return lines


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _named_folders(env: Mapping[str, str], home: Path) -> list[Path]:
    named = [part for part in env.get(TRUST_ENV, "").split(os.pathsep) if part.strip()]
    absolute = [expand_home(Path(part.strip()), home) for part in named]
    return [Path(os.path.realpath(path)) for path in absolute if path.is_absolute()]


def _mark_of(path: Path) -> _Mark:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> tuple[str, Mapping[str, Pin]] | None:
    """The folder and the pins of a record; None for anything that `_write` did not write."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        if hasattr(os, "geteuid") and os.fstat(descriptor).st_uid != os.geteuid():
            return None
        try:
            data = json.loads(file.read(_MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return None
    if not isinstance(data, dict) or data.get("version") != _VERSION or not isinstance(data.get("folder"), str):
        return None
    servers = data.get("servers")
    if not isinstance(servers, dict) or not all(isinstance(pin, dict) for pin in servers.values()):
        return None
    return data["folder"], MappingProxyType(servers)


def _write(path: Path, data: bytes) -> None:
    """Write a record whole, readable by this user only."""
    temp = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        make_private(path.parent)
        descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            temp.replace(path)
        except BaseException:
            temp.unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise _failed(path, exc) from exc


def _failed(path: Path, exc: OSError) -> InvalidConfig:
    return InvalidConfig(f"Cannot write '{path}': {(exc.strerror or str(exc)).lower()}.")
