"""The names of a project's packs, kept for the next start.

A notebook gets the packs of its project as names when it loads us. To open a project for that takes
most of a start, so the names are kept in the user's state folder, with the stamp of every file and
folder that they came from and the variables that decide where those are. They hold while all of
that is the same: then the toolbox is opened when it is first used. They are derived: on any doubt
the project is opened, as without them. Nothing is kept of a project that is not trusted or has a
problem, which a load tells.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from onetool_ipy._version import __version__
from onetool_ipy.base.files import Stamp, StoreError, is_young, read_own, stamp_of, write_whole
from onetool_ipy.config.paths import (
    CONFIG_ENV,
    HOME_VARIABLES,
    STATE_ENV,
    TRUST_ENV,
    ConfigLocation,
    project_of,
    state_folder,
)

PLACES = (*HOME_VARIABLES, CONFIG_ENV, STATE_ENV, TRUST_ENV)
"""What of the environment decides where the project and its state are."""

_FILE = "cache/names.json"
_MAX_BYTES = 4 << 20
_MAX_STAMPS = 2_000


class KeptNames(NamedTuple):
    """The packs of a project, by how Python spells them, and what they came from."""

    packs: Mapping[str, str]
    stamps: Mapping[str, Stamp | None]

    def is_current(self) -> bool:
        """Whether every file and folder is as it was."""
        return all(stamp_of(path) == stamp for path, stamp in self.stamps.items())


def read_names(
    location: ConfigLocation, *, env: Mapping[str, str], cwd: Path, home: Path
) -> KeptNames | None:
    """Return the names that were kept of the project at a location, if they hold now."""
    file = state_folder(project_of(location, cwd), env=env, home=home) / _FILE
    try:
        stored = json.loads(read_own(file, _MAX_BYTES) or b"")
        stamps = {path: stamp and tuple(stamp) for path, stamp in stored["stamps"].items()}
        names = KeptNames({str(key): str(name) for key, name in stored["packs"].items()}, stamps)
        return names if stored["key"] == _key(env, cwd) and names.is_current() else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # There are none, or the file is damaged.


def keep_names(
    state: Path,
    packs: Mapping[str, str],
    paths: Iterable[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    began_ns: int,
) -> None:
    """Keep, in a state folder, the names of packs that came from these files and folders, which
    were read since `began_ns`."""
    stamps = {path: stamp_of(path) for path in paths}
    # What changed since it was read, or a moment before by the clock of its disk, is not sure.
    if len(stamps) > _MAX_STAMPS or any(
        stamp is not None and is_young(stamp, began_ns) for stamp in stamps.values()
    ):
        return
    record = {"key": _key(env, cwd), "packs": dict(packs), "stamps": stamps}
    # The disk may be read-only, and a path need not be text.
    with suppress(StoreError, ValueError):
        write_whole(state / _FILE, json.dumps(record).encode(), nofollow=True)


def _key(env: Mapping[str, str], cwd: Path) -> list[object]:
    return [__version__, os.fspath(cwd), *(env.get(name) for name in PLACES)]
