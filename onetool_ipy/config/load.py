"""`load_config`: find the files, read and check them. Calling it again is a reload.

It never raises for what the files hold. Nothing is imported for files that are not there: without a configuration a
load is a few stat calls. The caller keeps the last good Config; `fingerprint` says whether two are of the same files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from onetool_ipy.config.paths import CONFIG_NAME, FOLDER, STATE_ENV, Paths, find, state_folder
from onetool_ipy.config.secrets import Secrets
from onetool_ipy.config.settings import Settings
from onetool_ipy.config.state import chosen_state, close_to_others, own_state
from onetool_ipy.config.trust import Trust, judge
from onetool_ipy.config.value import Value
from onetool_ipy.core.errors import InvalidConfig
from onetool_ipy.core.model import Problem

if TYPE_CHECKING:
    from onetool_ipy.config.files import Notes

__all__ = ["Config", "load_config"]


class Config(Value):
    """One configuration as it was at one moment. `errors` are those of `problems` that a strict caller raises."""

    settings: Settings
    secrets: Secrets
    paths: Paths
    prompts: Mapping[str, str] = MappingProxyType({})
    problems: tuple[Problem, ...] = ()
    errors: tuple[Problem, ...] = ()
    fingerprint: str = ""
    shown: str = ""
    """The folder of the files as messages name it."""
    home: Path = Path("~")
    user_state: Path = Path("~")
    """The state that belongs to the user and to no project; not where `state_dir:` points."""
    trust: Trust = Trust()

    def problems_now(self) -> list[Problem]:
        """`problems`, but for the mode of secrets.yaml as it was: someone may have mended it meanwhile, or not."""
        place = self.paths.secrets_file
        if place is None:
            return list(self.problems)
        from onetool_ipy.config.secrets_file import with_mode_now

        return with_mode_now(self.problems, place, self.shown + place.name)

    @property
    def fatal(self) -> bool:
        """Whether the main file could not be used, or something in it is wrong beyond one tool, server or snippet."""
        return bool(self.errors)

    def raise_if_bad(self) -> None:
        """Raise InvalidConfig with every error, the first three in its text."""
        if not self.errors:
            return
        shown = [str(problem) for problem in self.errors[:3]]
        more = len(self.errors) - len(shown)
        hint = f"... and {more} more, in the exception's `problems`." if more else ""
        raise InvalidConfig("\n".join(shown), hint=hint, problems=self.errors)

    def __repr__(self) -> str:
        file = self.paths.config_file or "built-in defaults"
        return f"Config({file}, {len(self.problems)} problems, {self.settings!r})"


def load_config(
    path: Path | str | None = None,
    *,
    env: Mapping[str, str],
    cwd: Path,
    home: Path | None = None,
) -> Config:
    """Load the configuration that holds for `cwd` (contract 3), or the one named by `path`.

    In a project that the user does not trust, no `${NAME}` is filled, and what reaches out of the folder is left out
    (contract 16).
    """
    home = Path(home or env.get("HOME") or os.path.expanduser("~"))
    cwd = Path(os.path.abspath(cwd))
    found = find(path, env=env, cwd=cwd, home=home)
    project = _project(found.onetool_dir, cwd)
    state, refused = own_state(state_folder(project, env=env, home=home), project, env=env, home=home)
    paths = Paths(cwd, project, found.onetool_dir, found.config_file, state)
    user_state = state_folder(Path(os.path.realpath(home)), env=env, home=home)
    trust = judge(found, project, env=env, home=home)
    close_to_others(state, state, *(() if env.get(STATE_ENV) else (state.parent,)))
    if found.config_file is None and found.onetool_dir is None:
        return Config(
            Settings(),
            Secrets({}, env),
            paths,
            problems=(*found.problems, *refused),
            errors=found.problems if found.named else (),
            home=home,
            user_state=user_state,
            trust=trust,
        )

    from onetool_ipy.config.files import Notes, load_files

    notes = Notes((*found.problems, *refused))
    shown = _shown_folder(paths, home)
    loaded = load_files(paths, env=env, shown=shown, notes=notes, is_trusted=trust.is_given, home=home)
    settings = _without_approvals(loaded.settings, paths, home, shown, notes)
    chosen = settings.state_dir
    if chosen is not None and not env.get(STATE_ENV):
        state, refused = own_state(chosen_state(chosen, project, home), project, env=env, home=home)
        close_to_others(state)
        paths = paths.replace(state=state)
        for problem in refused:
            notes.add(problem, error=False)
    return Config(
        settings=settings,
        secrets=loaded.secrets,
        paths=paths,
        prompts=loaded.prompts,
        problems=tuple(loaded.masked(notes.problems)),
        errors=tuple(loaded.masked(notes.errors)),
        fingerprint=loaded.fingerprint,
        shown=shown,
        home=home,
        user_state=user_state,
        trust=trust,
    )


def _without_approvals(settings: Settings, paths: Paths, home: Path, shown: str, notes: Notes) -> Settings:
    """The settings without `ask.approve`, unless they are the user's own: a project does not answer for its reader."""
    from onetool_ipy.config.own import is_own

    if not settings.ask.approve or is_own(paths, home):
        return settings
    where = shown + (CONFIG_NAME if paths.config_file is None else paths.config_file.name)
    hint = f"Put it into ~/{FOLDER}/{CONFIG_NAME}, or give it with the call: approve=[...], %ask --approve."
    notes.add(Problem(where, "ask.approve: does not count in a project.", hint), error=False)
    return settings.replace(ask=settings.ask.replace(approve=()))


def _project(onetool_dir: Path | None, cwd: Path) -> Path:
    """The folder that holds `.onetool`, else the working directory."""
    inside = onetool_dir is not None and onetool_dir.name == FOLDER
    return Path(os.path.realpath(onetool_dir.parent if onetool_dir and inside else cwd))


def _shown_folder(paths: Paths, home: Path) -> str:
    """How messages name the folder of the files: short, and the same wherever one stands in the project."""
    folder = paths.onetool_dir or (paths.config_file.parent if paths.config_file else paths.cwd)
    if folder.name != FOLDER:
        return f"{folder}/"
    return f"~/{FOLDER}/" if paths.project == Path(os.path.realpath(home)) else f"{FOLDER}/"
