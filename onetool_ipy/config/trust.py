"""Which projects the user trusts, and with what. The records are in the user's state, never in a
project.

`trust_of` says whether a project is trusted when its configuration is loaded. Each trusted folder
has one file, written whole, so that processes need no lock. `reach_of` lists what in a project's
settings runs a program or leads out of its folder: the record pins these as the user approved them,
and `Trust.uncovered` gives the rest, which does not count. A record that is damaged, of another
version, or that another user owns does not count.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from onetool_ipy.base.errors import InvalidConfig
from onetool_ipy.base.files import StoreError, read_own, write_whole
from onetool_ipy.config.paths import (
    FOLDER,
    TRUST_ENV,
    ConfigLocation,
    expand_home,
    project_key,
    state_base,
    true_path,
)

How = Literal["no project", "home", "named", "environment", "listed", "untrusted"]
"""Why a project is trusted: it is `~/.onetool`, the user named it, it lies in $ONETOOL_TRUST, or it
is on the list."""

Pin = Mapping[str, Any]
"""One approved definition, as written, with every `${NAME}` unfilled."""

Pins = Mapping[str, Mapping[str, Pin]]
"""Definitions by kind and name. The kinds are words for people: `server`, `model`, `folder`, `host`
and so on."""

_OF_SERVER = (
    *("type", "command", "args", "cwd", "env", "inherit", "url", "headers", "auth"),
    *("trusted", "sampling", "roots"),
)
_VERSION = 2
_MAX_BYTES = 4 * 1024 * 1024
_NAME = r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:\|[a-z]*)?\}"
NO_PINS: Pins = MappingProxyType({})

_Mark = tuple[int, int, int] | None


class Trust(NamedTuple):
    """Whether a project was trusted when its configuration was loaded. `record` is the path of its
    record, a text: every call looks at it, and a Path would put it together again each time."""

    how: How = "no project"
    folder: Path | None = None
    record: str | None = None
    mark: _Mark = None
    pins: Pins = NO_PINS

    @property
    def is_given(self) -> bool:
        """Whether code, servers and HTTP tools of the project may run."""
        return self.how not in ("no project", "untrusted")

    @property
    def is_pinned(self) -> bool:
        """Whether each thing that reaches out needs approval of its own."""
        return self.how == "listed"

    def has_changed(self) -> bool:
        """Whether the user trusted or distrusted the project since then, in any process."""
        return self.record is not None and _mark_of(self.record) != self.mark

    def uncovered(self, reach: Pins) -> Pins:
        """Return the part of `reach` that the user has not approved as it is now."""
        if self.is_given and not self.is_pinned:
            return NO_PINS
        rest = {
            kind: {
                name: pin for name, pin in pins.items() if self.pins.get(kind, {}).get(name) != pin
            }
            for kind, pins in reach.items()
        }
        return {kind: pins for kind, pins in rest.items() if pins}


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

    def get(self, folder: Path) -> Pins | None:
        """Return what is pinned of a trusted folder, or None if the folder is not on the list."""
        record = _read(self.path(folder))
        return record[1] if record is not None and record[0] == str(folder) else None

    def add(self, folder: Path, pins: Pins) -> None:
        """Trust a folder, with these definitions."""
        record = {"version": _VERSION, "folder": str(folder), "pins": pins}
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
            raise InvalidConfig(
                StoreError.of(self.path(folder), exc, doing="remove").message
            ) from exc
        return True

    def folders(self) -> list[Path]:
        """Return the trusted folders, sorted."""
        try:
            files = [
                entry.path for entry in os.scandir(self._folder) if entry.name.endswith(".json")
            ]
        except OSError:
            return []
        records = (_read(Path(file)) for file in files)
        return sorted(Path(record[0]) for record in records if record is not None)


def trust_of(
    location: ConfigLocation, project: Path, *, env: Mapping[str, str], home: Path
) -> Trust:
    """Return whether, and why, the project that the search found is trusted now."""
    if location.named:
        return Trust(how="named", folder=project)
    is_there = location.onetool_dir is not None or location.config_file is not None
    if is_there and project == Path(true_path(home)):
        return Trust(how="home", folder=project)
    texts = [part.strip() for part in env.get(TRUST_ENV, "").split(os.pathsep) if part.strip()]
    folders = [
        path for path in (expand_home(Path(text), home) for text in texts) if path.is_absolute()
    ]
    if is_there and any(project.is_relative_to(true_path(folder)) for folder in folders):
        return Trust(how="environment", folder=project)
    records = TrustList.of(env, home)
    record = str(records.path(project))
    mark = _mark_of(record)
    pins = records.get(project) if mark is not None else None
    how: How = "no project" if not is_there else "untrusted" if pins is None else "listed"
    trusted = pins if is_there and pins is not None else NO_PINS
    return Trust(how=how, folder=project, record=record, mark=mark, pins=trusted)


def environment_pin(entry: object) -> Pin | None:
    """Return what a yes pins of an environment of a bundle; None for one that names no secret."""
    if not isinstance(entry, dict) or "${" not in json.dumps(entry):
        return None
    pin = {key: entry[key] for key in ("base_url", "auth", "variables") if entry.get(key)}
    return {**pin, "base_url": as_text(pin.get("base_url", "")).rstrip("/")}


def reach_of(
    data: Mapping[str, Any], project: Path, environments: Mapping[str, Any] = NO_PINS
) -> Pins:
    """Return what in `onetool.yaml` runs a program or reaches out of the project's folder, as
    written.

    So do `environments`, by bundle and name, where they name a secret. A server that is switched
    off is left out: the user is not shown it, so a yes does not cover it.
    """
    servers = {
        name: {key: written[key] for key in _OF_SERVER if written.get(key) is not None}
        for name, written in _section(data, "servers").items()
        if isinstance(written, dict) and written.get("enabled") is not False
    }
    models = {
        name: written
        for name, written in _section(data, "models").items()
        if isinstance(written, dict)
    }
    http, topics = _section(data, "http"), data.get("topics")
    files = (
        [topic.get("file") for topic in topics if isinstance(topic, dict)]
        if isinstance(topics, list)
        else []
    )
    state = {text: real_path(project, text) for text in _texts(data.get("state_dir"))}
    reach = {
        "server": servers,
        "model": models,
        "folder": _outside(
            project, {root: root for root in _texts(_section(data, "fs").get("roots"))}
        ),
        "host": {host: {} for host in _texts(http.get("allowed_hosts"))},
        "setting": {"http.allow_private": {"value": http["allow_private"]}}
        if http.get("allow_private")
        else {},
        "file": _outside(project, {file: os.path.join(FOLDER, file) for file in _texts(files)}),
        "state folder": {text: {"path": path} for text, path in state.items()},
        "environment": {
            f"{slug}/{name}": pin
            for slug, entries in environments.items()
            for name, entry in (entries.items() if isinstance(entries, dict) else ())
            if (pin := environment_pin(entry)) is not None
        },
    }
    # A record is JSON, and what is compared with it has to be: YAML has dates, and tuples became
    # lists.
    plain: dict[str, Any] = json.loads(json.dumps(reach, default=str))
    return {kind: pins for kind, pins in plain.items() if pins}


def real_path(project: Path, text: str) -> str:
    """Return the path that a setting means, absolute and with links resolved. Text that is no path
    stays as it is."""
    try:
        return os.path.realpath(os.path.join(project, os.path.expanduser(text)))
    except ValueError:  # it holds a NUL character
        return text


def _outside(project: Path, paths: Mapping[str, str]) -> dict[str, Pin]:
    """Return the paths that lead out of the project's folder, by their texts."""
    real = {text: real_path(project, path) for text, path in paths.items()}
    return {
        text: {"path": path}
        for text, path in real.items()
        if not Path(path).is_relative_to(project)
    }


def _section(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = data.get(key)
    return section if isinstance(section, dict) else {}


def _texts(value: object) -> list[str]:
    return [
        text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)
    ]


def referenced_names(value: object) -> list[str]:
    """Return the names in every `${NAME}` of a value, in order, each once."""
    if isinstance(value, str):
        names = [match[1] for match in re.finditer(_NAME, value) if match[1]]
    elif isinstance(value, Mapping):
        names = [name for each in value.values() for name in referenced_names(each)]
    elif isinstance(value, (list, tuple)):
        names = [name for each in value for name in referenced_names(each)]
    else:
        names = []
    return list(dict.fromkeys(names))


def difference(before: Pin, after: Pin) -> list[str]:
    """Describe how a definition changed, a line for each value: `- was` and `+ is`."""
    lines = []
    for key in dict.fromkeys([*before, *after]):
        values = {sign: pin.get(key) for sign, pin in (("-", before), ("+", after))}
        if values["-"] != values["+"]:
            lines += [
                f"{sign} {key}: {as_text(value)}"
                for sign, value in values.items()
                if value is not None
            ]
    return lines


def as_text(value: object) -> str:
    """Return a value of a definition as a person reads it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _mark_of(path: str) -> _Mark:
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> tuple[str, Pins] | None:
    """Return the folder and the pins of a record, or None if it is not a record that `add`
    wrote."""
    try:
        data = json.loads(read_own(path, _MAX_BYTES) or b"")
    except (ValueError, RecursionError):
        return None
    if (
        not isinstance(data, dict)
        or data.get("version") != _VERSION
        or not isinstance(data.get("folder"), str)
    ):
        return None
    pins = data.get("pins")
    if not isinstance(pins, dict) or not all(isinstance(named, dict) for named in pins.values()):
        return None
    return data["folder"], MappingProxyType(pins)
