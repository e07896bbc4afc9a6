"""Whose a file of `.onetool/` is: one that another user may have written is a problem and does not count.

Written once for configuration, secrets, pack files and bundles. It looks at what `stat` said; it opens nothing.

The state folder in force: one of the user's own, closed to everybody else.

A folder that another user owns is refused, also behind a link: its owner could read what calls were given and gave, and
put approvals of their own there. Folders that are ours and open to others, as earlier versions made them, are closed.

Where things are: the configuration in force, the project, the state directory.

Owns the search order of contract 3 and its refusals. It looks (stat), it never opens, creates or changes anything.
Every path is absolute; the project's path is real (links resolved), since the key of its state is made from it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onetool_ipy.base.records import Value

if TYPE_CHECKING:
    from onetool_ipy.core.tool import Problem

__all__ = [
    "CONFIG_ENV",
    "CONFIG_NAME",
    "FOLDER",
    "STATE_ENV",
    "ConfigLocation",
    "OwnerFault",
    "Owners",
    "Paths",
    "expand_home",
    "find_config",
    "is_ours",
    "project_key",
    "state_base",
    "state_bases",
    "state_folder",
]

_IS_POSIX = hasattr(os, "geteuid")


class OwnerFault(NamedTuple):
    """Why a file or folder does not count, and what to do."""

    message: str
    hint: str


class Owners:
    """The users whose files count: this one, root, and whoever owns the folder of a configuration that was named."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._uids = {os.geteuid(), 0} if _IS_POSIX else set()
        if folder is not None and _IS_POSIX:
            try:
                self._uids.add(os.stat(folder).st_uid)
            except (OSError, ValueError):
                return

    def fault(self, found: os.stat_result, shown: str) -> OwnerFault | None:
        """What is wrong with a file or folder, if anything; `shown` is its name in the command that mends it."""
        if not _IS_POSIX:
            return None
        if fault := self.owner_fault(found, shown):
            return fault
        is_sticky_folder = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_mode & stat.S_IWOTH and not is_sticky_folder:
            hint = f"Look at what it holds, then run: chmod o-w {_quoted(shown)}"
            return OwnerFault("may be written by every user of this machine, so it does not count.", hint)
        return None

    def owner_fault(self, found: os.stat_result, shown: str) -> OwnerFault | None:
        """What is wrong with who owns it; all that counts for a symbolic link."""
        if not _IS_POSIX or found.st_uid in self._uids:
            return None
        hint = f"If you trust it, make yourself its owner: chown {os.geteuid()} {_quoted(shown)}"
        return OwnerFault("belongs to another user, so it does not count.", hint)


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)


FOLDER = ".onetool"
CONFIG_NAME = "onetool.yaml"
CONFIG_ENV = "ONETOOL_CONFIG"
STATE_ENV = "ONETOOL_STATE"

_IS_LINUX = sys.platform == "linux"


class Paths(Value):
    """`onetool_dir` is the folder that holds the configuration, also where an explicit file is not in a `.onetool`."""

    cwd: Path
    project: Path
    onetool_dir: Path | None
    config_file: Path | None
    state: Path

    @property
    def secrets_file(self) -> Path | None:
        """The file that no fs tool may read, whether or not it is there."""
        return None if self.onetool_dir is None else self.onetool_dir / "secrets.yaml"


class ConfigLocation(Value):
    """What the search gave; `named` says that the user named the file, which then has to be there."""

    onetool_dir: Path | None
    config_file: Path | None
    named: bool = False
    problems: tuple[Problem, ...] = ()


def find_config(path: Path | str | None, *, env: Mapping[str, str], cwd: Path, home: Path) -> ConfigLocation:
    """Search: explicit path, $ONETOOL_CONFIG, nearest `.onetool/onetool.yaml` upwards, the home directory's.

    A `.onetool/` without onetool.yaml counts where nothing else is found: its tools, prompts, snippets and secrets
    hold, with the default settings.
    """
    named = path or env.get(CONFIG_ENV)
    if named:
        return _named(Path(named), cwd=cwd, home=home)
    problems: list[Problem] = []
    bare: Path | None = None
    for folder in _upwards(os.path.realpath(cwd), os.path.realpath(home)):
        onetool_dir = os.path.join(folder, FOLDER)
        if not _usable(onetool_dir, problems):
            continue
        if os.path.lexists(os.path.join(onetool_dir, CONFIG_NAME)):
            return ConfigLocation(Path(onetool_dir), Path(onetool_dir, CONFIG_NAME), problems=tuple(problems))
        bare = bare or Path(onetool_dir)
    return ConfigLocation(bare, None, problems=tuple(problems))


def state_folder(project: Path, *, env: Mapping[str, str], home: Path) -> Path:
    """This project's folder in $ONETOOL_STATE, else in the platform's state directory; not created here."""
    return state_base(env, home) / project_key(project)


def state_bases(env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """The state directories of this user: $ONETOOL_STATE where it is set, and the platform's."""
    platform = state_base({key: value for key, value in env.items() if key != STATE_ENV}, home)
    return tuple(dict.fromkeys((state_base(env, home), platform)))


def expand_home(path: Path, home: Path) -> Path:
    """Replace a leading `~` by the given home; `~other` stays as it is."""
    parts = path.parts
    return home.joinpath(*parts[1:]) if parts and parts[0] == "~" else path


def is_ours(folder: str) -> bool:
    """Whether this is a directory of this user or of root, link and target, that not everyone may write."""
    try:
        link, target = os.lstat(folder), os.stat(folder)
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(target.st_mode) and _fault(folder, link, target) is None


def _fault(folder: str, link: os.stat_result, target: os.stat_result) -> OwnerFault | None:
    owners = Owners()
    if not stat.S_ISLNK(link.st_mode):
        return owners.fault(target, folder)
    return owners.owner_fault(link, folder) or owners.fault(target, folder)


def state_base(env: Mapping[str, str], home: Path) -> Path:
    """The folder that holds the state of all projects of this user."""
    chosen = env.get(STATE_ENV)
    if chosen:
        return Path(os.path.abspath(expand_home(Path(chosen), home)))
    if _IS_LINUX:  # what platformdirs does there, without its import
        xdg = env.get("XDG_STATE_HOME", "").strip()
        base = Path(xdg) if os.path.isabs(xdg) else home / ".local" / "state"
        return base / "onetool_ipy"
    import platformdirs

    return Path(platformdirs.user_state_dir("onetool_ipy"))


def project_key(project: Path) -> str:
    """A folder name for this project: readable, and different for every path."""
    import hashlib

    digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:12]
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in project.name)
    return f"{name[:40] or 'root'}-{digest}"


def _named(path: Path, *, cwd: Path, home: Path) -> ConfigLocation:
    """Take the file, or the folder that holds `onetool.yaml` or `.onetool/onetool.yaml`."""
    file = Path(os.path.abspath(cwd / expand_home(path, home)))
    if os.path.isdir(file):
        inner = file / FOLDER / CONFIG_NAME
        file = inner if os.path.lexists(inner) else file / CONFIG_NAME
    parent = file.parent if os.path.exists(file) else None
    if parent is not None and parent.name == FOLDER and (fault := Owners(parent).fault(os.stat(parent), str(parent))):
        from onetool_ipy.core.tool import Problem

        return ConfigLocation(None, None, named=True, problems=(Problem(str(parent), *fault),))
    return ConfigLocation(parent, file, named=True)


def _upwards(start: str, home: str) -> Iterator[str]:
    """The folders to look in: from the start up, but none that is above the home directory; then home itself."""
    folder, seen_home = start, False
    while not _is_above(folder, home):
        yield folder
        parent = os.path.dirname(folder)
        seen_home = folder == home
        if seen_home or parent == folder:
            break
        folder = parent
    if not seen_home:
        yield home


def _is_above(folder: str, home: str) -> bool:
    return home != folder and home.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _usable(folder: str, problems: list[Problem]) -> bool:
    """Whether this `.onetool` is a directory that counts; one that another user owns or may write is refused."""
    try:
        link, target = os.lstat(folder), os.stat(folder)
    except (OSError, ValueError):
        return False
    if not stat.S_ISDIR(target.st_mode):
        return False
    fault = _fault(folder, link, target)
    if fault is None:
        return True
    from onetool_ipy.core.tool import Problem

    problems.append(Problem(folder, fault.message, f"{fault.hint} Or name it in ${CONFIG_ENV}."))
    return False
