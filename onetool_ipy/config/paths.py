"""Where things are: the configuration in force, the project, the state folder; and which files
count.

Owns the order in which places are searched, and the rule that a file or folder which another user
may have written does not count; configuration, secrets, pack files and bundles all use it. This
module only calls stat: it never opens, creates or changes anything. Every path is absolute. The
project's path has its links resolved, because the name of its state folder is made from it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onetool_ipy.base.files import place_of
from onetool_ipy.base.processes import quoted

if TYPE_CHECKING:
    from onetool_ipy.core.tool import Problem

FOLDER = ".onetool"
CONFIG_NAME = "onetool.yaml"
CONFIG_ENV = "ONETOOL_CONFIG"
STATE_ENV = "ONETOOL_STATE"
TRUST_ENV = "ONETOOL_TRUST"
STATE_VERSION = "v2"
"""Part of the name of a state folder. One of an earlier version is left where it is, and not
read."""

_IS_POSIX = hasattr(os, "geteuid")
HOME_VARIABLES = (
    ("USERPROFILE", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA")
    if sys.platform == "win32"
    else ("HOME", "XDG_STATE_HOME")
)
"""The variables that say where this user's home and state are. Git Bash and conda set HOME on
Windows, where nothing else follows it."""


APPLICATIONS = {"win32": "AppData/Roaming", "darwin": "Library/Application Support"}.get(
    sys.platform, ".config"
)
"""Where applications keep their files, below the home folder."""


class OwnerFault(NamedTuple):
    """Why a file or folder does not count, and what to do about it."""

    message: str
    hint: str


class Owners:
    """The users whose files count: this user, root, and the owner of a configuration folder that
    the user named."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._uids = {os.geteuid(), 0} if _IS_POSIX else set()
        if folder is not None and _IS_POSIX:
            try:
                self._uids.add(os.stat(folder).st_uid)
            except (OSError, ValueError):
                return

    def fault(self, found: os.stat_result, shown: str) -> OwnerFault | None:
        """Return why a file or folder does not count, or None. `shown` is its name in the hint."""
        if not _IS_POSIX:
            return None
        if fault := self.owner_fault(found, shown):
            return fault
        is_sticky_folder = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_mode & stat.S_IWOTH and not is_sticky_folder:
            hint = f"Look at what it holds, then run: chmod o-w {quoted(shown)}"
            return OwnerFault(
                "may be written by every user of this machine, so it is ignored.", hint
            )
        return None

    def owner_fault(self, found: os.stat_result, shown: str) -> OwnerFault | None:
        """Return why its owner does not count, or None. For a symbolic link only the owner
        matters."""
        if not _IS_POSIX or found.st_uid in self._uids:
            return None
        hint = f"If you trust it, make yourself its owner: chown {os.geteuid()} {quoted(shown)}"
        return OwnerFault("belongs to another user, so it is ignored.", hint)


class Paths(NamedTuple):
    """The folders in force. `onetool_dir` holds the configuration, even if a file named by the user
    is elsewhere.

    `user_state` belongs to the user and not to one project; `state_dir:` does not move it.
    """

    cwd: Path
    project: Path
    onetool_dir: Path | None
    config_file: Path | None
    state: Path
    user_state: Path

    @property
    def about(self) -> str:
        """The project in words; without a `.onetool/` also what follows from that."""
        if self.onetool_dir is not None:
            return f"Project: {self.project}"
        # A screen, a cell or a shell may have made one since this toolbox was opened.
        now = find_config(None, env={}, cwd=self.cwd, home=home_of(os.environ)).onetool_dir
        if now is not None:
            return (
                f"Project: {self.project}, this folder alone. There is a project in {now.parent}"
                " now: %tool reload"
            )
        return (
            f"Project: {self.project}, this folder alone. There is no {FOLDER}/ here or above, so"
            " each folder has its own history and results; for one project, run at its top:"
            " onetool-ipy init"
        )

    @property
    def bundles(self) -> Path:
        """The folder of the bundles, whether or not it exists."""
        return (self.onetool_dir or self.project / FOLDER) / "bundles"

    @property
    def secrets_file(self) -> Path | None:
        """The path of secrets.yaml, whether or not it exists. No fs tool may read it."""
        return None if self.onetool_dir is None else self.onetool_dir / "secrets.yaml"


class ConfigLocation(NamedTuple):
    """The result of the search. `named` means that the user named this configuration, so it must
    exist.

    `start` is the folder that the search began in; None if there was no search.
    """

    onetool_dir: Path | None = None
    config_file: Path | None = None
    named: bool = False
    problems: tuple[Problem, ...] = ()
    start: Path | None = None


def find_config(
    path: Path | str | None, *, env: Mapping[str, str], cwd: Path, home: Path
) -> ConfigLocation:
    """Search: explicit path, $ONETOOL_CONFIG, the nearest `.onetool/onetool.yaml` upwards, the home
    directory's.

    A `.onetool/` without onetool.yaml counts if nothing else is found: its tools, prompts, snippets
    and secrets are used, with the default settings. A named folder without any configuration is
    where the search begins.
    """
    named = path or env.get(CONFIG_ENV)
    if not named:
        return _searched(cwd, home)
    place = Path(os.path.abspath(cwd / expand_home(Path(named), home)))
    has_none = not os.path.lexists(place / CONFIG_NAME) and not os.path.isdir(place / FOLDER)
    file, is_folder = place, os.path.isdir(place)
    if is_folder and has_none:
        return _searched(place, home)
    if is_folder:
        inner = place / FOLDER / CONFIG_NAME
        file = (
            inner
            if os.path.lexists(inner) or not os.path.lexists(place / CONFIG_NAME)
            else place / CONFIG_NAME
        )
    parent = file.parent if is_folder or os.path.exists(file) else None
    if (
        parent is not None
        and parent.name == FOLDER
        and (fault := Owners(parent).fault(os.stat(parent), str(parent)))
    ):
        return ConfigLocation(named=True, problems=(_problem(str(parent), *fault),))
    config_file = None if is_folder and not os.path.lexists(file) else file
    return ConfigLocation(onetool_dir=parent, config_file=config_file, named=True)


def _searched(start: Path, home: Path) -> ConfigLocation:
    """Search from the start upwards, but in no other folder above the home directory; then in the
    home directory itself."""
    problems: list[Problem] = []
    bare: Path | None = None
    own = Path(true_path(home))
    first = Path(true_path(start))
    folders = [first, *(folder for folder in first.parents if folder not in own.parents)]
    if own in folders:
        folders = folders[: folders.index(own)]
    for folder in (*folders, own):
        onetool_dir = os.path.join(folder, FOLDER)
        if not _usable(onetool_dir, problems):
            continue
        if os.path.lexists(os.path.join(onetool_dir, CONFIG_NAME)):
            file = Path(onetool_dir, CONFIG_NAME)
            return ConfigLocation(
                onetool_dir=Path(onetool_dir),
                config_file=file,
                problems=tuple(problems),
                start=start,
            )
        bare = bare or Path(onetool_dir)
    return ConfigLocation(onetool_dir=bare, problems=tuple(problems), start=start)


def project_of(location: ConfigLocation, cwd: Path) -> Path:
    """Return the project of a configuration: the folder that holds `.onetool`, else the working
    directory."""
    folder = location.onetool_dir
    is_inside = folder is not None and folder.name == FOLDER
    return Path(true_path(folder.parent if folder and is_inside else location.start or cwd))


def state_folder(project: Path, *, env: Mapping[str, str], home: Path) -> Path:
    """Return the project's folder in $ONETOOL_STATE or in the platform's state directory. Does not
    create it."""
    return state_base(env, home) / f"{project_key(project)}-{STATE_VERSION}"


def state_bases(env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return the state directories of this user: $ONETOOL_STATE if set, and the platform's."""
    platform = state_base({key: value for key, value in env.items() if key != STATE_ENV}, home)
    return tuple(dict.fromkeys((state_base(env, home), platform)))


def expand_home(path: Path, home: Path) -> Path:
    """Replace a leading `~` with the given home. `~other` stays as it is."""
    parts = path.parts
    return home.joinpath(*parts[1:]) if parts and parts[0] == "~" else path


def is_ours(folder: str) -> bool:
    """Whether this is a directory that this user or root owns (link and target), and that not
    everyone may write."""
    return _usable(folder, [])


def state_base(env: Mapping[str, str], home: Path) -> Path:
    """Return the folder that holds the state of all projects of this user."""
    chosen = env.get(STATE_ENV)
    if chosen:
        return Path(os.path.abspath(expand_home(Path(chosen), home)))
    # platformdirs names the same folders, but of this process, whatever `env` and `home` are.
    if sys.platform == "win32":
        local = env.get("LOCALAPPDATA", "").strip()
        base = Path(local) if os.path.isabs(local) else home / "AppData" / "Local"
        return base / "onetool_ipy" / "onetool_ipy"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "onetool_ipy"
    xdg = env.get("XDG_STATE_HOME", "").strip()
    base = Path(xdg) if os.path.isabs(xdg) else home / ".local" / "state"
    return base / "onetool_ipy"


def home_of(env: Mapping[str, str]) -> Path:
    """Return the home folder in an environment; without one there, that of this process."""
    if sys.platform == "win32":
        drive = env.get("HOMEDRIVE", "") + env.get("HOMEPATH", "")
        named = env.get("USERPROFILE") or (drive if os.path.isabs(drive) else "")
    else:
        named = env.get("HOME", "")
    return Path(named or os.path.expanduser("~"))


def home_at(folder: Path) -> dict[str, str]:
    """Return the variables that make a folder the home of a program."""
    if sys.platform == "win32":
        data = folder / "AppData"
        return {
            "USERPROFILE": str(folder),
            "APPDATA": str(data / "Roaming"),
            "LOCALAPPDATA": str(data / "Local"),
        }
    return {"HOME": str(folder)}


def true_path(path: str | os.PathLike[str]) -> str:
    """Return a path without links, as the folder on the disk spells it: `~/proj` and `~/Proj` may
    be one folder."""
    try:
        real = os.path.realpath(path)
    except OSError:  # some drives of Windows cannot tell
        real = os.path.abspath(path)
    # On Windows realpath returns the spelling of the disk.
    if sys.platform == "darwin":
        try:
            fd = os.open(real, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return real
        try:
            return place_of(fd, real)
        finally:
            os.close(fd)
    return real


def project_key(project: Path) -> str:
    """Return a folder name for this project: readable, and different for every path."""
    import hashlib

    digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:12]
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in project.name)
    return f"{name[:40] or 'root'}-{digest}"


def _usable(folder: str, problems: list[Problem]) -> bool:
    """`is_ours`, where a directory that does not count adds a problem."""
    try:
        link, target = os.lstat(folder), os.stat(folder)
    except (OSError, ValueError):
        return False
    if not stat.S_ISDIR(target.st_mode):
        return False
    owners = Owners()
    fault = owners.owner_fault(link, folder) or owners.fault(target, folder)
    if fault is None:
        return True
    problems.append(_problem(folder, fault.message, f"{fault.hint} Or name it in ${CONFIG_ENV}."))
    return False


def _problem(where: str, message: str, hint: str) -> Problem:
    # Rare; `%load_ext` without configuration does without it.
    from onetool_ipy.core.tool import Problem

    return Problem(where, message, hint)
