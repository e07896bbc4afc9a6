"""Which projects the user trusts (contract 16). The records are in the user's state folder, never in a project.

`trust_of` says whether a project is trusted when its configuration is loaded. Each trusted folder has one file, written
whole, so that processes need no lock. The record also pins the definition of each MCP server as the user approved it.
A record that is damaged or that another user owns does not count.
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
from onetool_ipy.base.files import StoreError, read_own, write_whole
from onetool_ipy.base.records import Value
from onetool_ipy.config.paths import ConfigLocation, expand_home, project_key, state_base

__all__ = ["TRUST_ENV", "How", "Pin", "Trust", "TrustList", "difference", "pin_of", "referenced_names", "trust_of"]

TRUST_ENV = "ONETOOL_TRUST"

How = Literal["no project", "home", "named", "environment", "listed", "untrusted"]
"""Why a project is trusted: it is `~/.onetool`, the user named it, it lies in $ONETOOL_TRUST, or it is on the list."""

Pin = Mapping[str, Any]
"""The approved part of a server's definition, as written, with every `${NAME}` unfilled."""

_PINNED = ("type", "command", "args", "cwd", "env", "inherit", "url", "headers", "auth", "trusted")
_VERSION = 1
_MAX_BYTES = 4 * 1024 * 1024
_NAME = r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}"
_NO_PINS: Mapping[str, Pin] = MappingProxyType({})

_Mark = tuple[int, int, int] | None


class Trust(Value):
    """Whether a project was trusted when its configuration was loaded. `record` is the path of its record."""

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
        """Whether each server's definition needs approval."""
        return self.how == "listed"

    def has_changed(self) -> bool:
        """Whether the user trusted or distrusted the project since then, in any process."""
        return self.record is not None and _mark_of(self.record) != self.mark

    def covers(self, server: str, pin: Pin) -> bool:
        """Whether this server, with this definition, may start."""
        return self.is_given and (not self.is_pinned or self.pins.get(server) == pin)


class TrustList:
    """The trust records of one user, in the folder that holds the state of all projects."""

    def __init__(self, base: Path) -> None:
        self._folder = base / "trusted"

    @classmethod
    def of(cls, env: Mapping[str, str], home: Path) -> TrustList:
        """Return the list of this user."""
        return cls(state_base(env, home))

    def path(self, folder: Path) -> Path:
        """Return the path of a folder's record, whether or not it exists."""
        return self._folder / f"{project_key(folder)}.json"

    def get(self, folder: Path) -> Mapping[str, Pin] | None:
        """Return the pinned servers of a trusted folder, or None if the folder is not on the list."""
        found = _read(self.path(folder))
        return found[1] if found is not None and found[0] == str(folder) else None

    def add(self, folder: Path, pins: Mapping[str, Pin]) -> None:
        """Trust a folder, with these definitions of its servers."""
        record = {
            "version": _VERSION,
            "folder": str(folder),
            "servers": {name: dict(pin) for name, pin in pins.items()},
        }
        data = json.dumps(record, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
        try:
            write_whole(self.path(folder), data, nofollow=True)
        except StoreError as exc:
            raise InvalidConfig(exc.message, hint=exc.hint) from exc

    def remove(self, folder: Path) -> bool:
        """Stop trusting a folder; False if it was not on the list."""
        try:
            self.path(folder).unlink()
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise InvalidConfig(StoreError.of(self.path(folder), exc, doing="remove").message) from exc
        return True

    def folders(self) -> list[Path]:
        """Return the trusted folders, sorted."""
        try:
            files = [entry.path for entry in os.scandir(self._folder) if entry.name.endswith(".json")]
        except OSError:
            return []
        found = (_read(Path(file)) for file in files)
        return sorted(Path(record[0]) for record in found if record is not None)


def trust_of(found: ConfigLocation, project: Path, *, env: Mapping[str, str], home: Path) -> Trust:
    """Return whether, and why, the project that the search found is trusted now."""
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
    """Return the part of a server's definition that is pinned, as plain JSON."""
    kept = {key: written[key] for key in _PINNED if written.get(key) is not None}
    plain: dict[str, Any] = json.loads(json.dumps(kept, default=str))
    return plain


def referenced_names(value: Any) -> list[str]:
    """Return the names in every `${NAME}` of a value, in order, each once."""
    if isinstance(value, str):
        found = [match[1] for match in re.finditer(_NAME, value) if match[1]]
    elif isinstance(value, Mapping):
        found = [name for each in value.values() for name in referenced_names(each)]
    elif isinstance(value, (list, tuple)):
        found = [name for each in value for name in referenced_names(each)]
    else:
        found = []
    return list(dict.fromkeys(found))


def difference(before: Pin, after: Pin) -> list[str]:
    """Describe how a server's definition changed, a line for each value: `- was` and `+ is`."""
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
    """Return the folder and the pins of a record, or None if it is not a record that `add` wrote."""
    try:
        data = json.loads(read_own(path, _MAX_BYTES) or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("version") != _VERSION or not isinstance(data.get("folder"), str):
        return None
    servers = data.get("servers")
    if not isinstance(servers, dict) or not all(isinstance(pin, dict) for pin in servers.values()):
        return None
    return data["folder"], MappingProxyType(servers)
