"""The files of one `.onetool/` folder -> settings, secrets and prompts, by way of the warm cache.

Owns which files there are. YAML is parsed only when one of them changed since the cache was written; checking and
filling are done at every load, since secrets and environment are in no cache.
"""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from onetool_ipy.config.cache import FORMAT, cache_key, fetch, store
from onetool_ipy.config.check import check_prompts, check_settings
from onetool_ipy.config.document import Document, NotYaml
from onetool_ipy.config.notes import File, Notes
from onetool_ipy.config.ownership import Owners
from onetool_ipy.config.paths import STATE_ENV, Paths, is_ours
from onetool_ipy.config.read import Unreadable, read
from onetool_ipy.config.secrets import Secrets
from onetool_ipy.config.secrets_file import read_secrets
from onetool_ipy.config.settings import Settings
from onetool_ipy.config.state import chosen_state, written_state_dir
from onetool_ipy.config.value import Value
from onetool_ipy.core.model import Problem

__all__ = ["Loaded", "Notes", "load_files"]


class Loaded(Value):
    """What the files gave."""

    settings: Settings
    secrets: Secrets
    prompts: Mapping[str, str]
    fingerprint: str

    def masked(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """The problems, without a secret that someone wrote where it does not belong."""
        for problem in problems:
            yield Problem(problem.where, self.secrets.mask(problem.message), problem.hint)


def load_files(
    paths: Paths, *, env: Mapping[str, str], shown: str, notes: Notes, is_trusted: bool = True, home: Path
) -> Loaded:
    """Read, parse and check the files; `shown` is the folder as messages name it.

    Meanwhile no garbage is collected: it would take half of the time and find none. What is made here is bounded.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return _load(paths, env, shown, notes, is_trusted, home)
    finally:
        if was_on:
            gc.enable()


def _load(paths: Paths, env: Mapping[str, str], shown: str, notes: Notes, is_trusted: bool, home: Path) -> Loaded:
    contents = _contents(paths, shown, notes)
    key = cache_key(contents)
    follows = is_trusted and not env.get(STATE_ENV)
    state = _cache_state(contents.get("main", b""), paths, home) if follows else paths.state
    documents = _documents(contents, key, paths, state, shown, notes)
    secrets, mark = _secrets(paths, env, shown, notes)
    files = {
        role: File(_shown(paths, role, shown), document, notes, strict=role == "main")
        for role, document in documents.items()
    }
    project = None if is_trusted else paths.project
    settings = check_settings(files.get("main"), files.get("snippets"), secrets.get, untrusted=project)
    prompts = files.get("prompts")
    return Loaded(
        settings=settings,
        secrets=secrets,
        prompts=MappingProxyType({}) if prompts is None else check_prompts(prompts),
        fingerprint=hashlib.sha256(f"{paths.config_file} {key} {mark} {is_trusted}".encode()).hexdigest(),
    )


def _places(paths: Paths) -> dict[str, Path]:
    """The files that may be there, by role."""
    folder, out = paths.onetool_dir, {}
    if paths.config_file is not None:
        out["main"] = paths.config_file
    if folder is not None:
        out["prompts"] = folder / "prompts.yaml"
        out["snippets"] = folder / "snippets.yaml"
    return out


def _shown(paths: Paths, role: str, folder: str) -> str:
    return folder + _places(paths)[role].name


def _contents(paths: Paths, shown: str, notes: Notes) -> dict[str, bytes]:
    out: dict[str, bytes] = {}
    owners = Owners(paths.onetool_dir)
    for role, place in _places(paths).items():
        try:
            content = read(place)
        except Unreadable as exc:
            notes.add(Problem(shown + place.name, str(exc)), error=role == "main")
            continue
        if content is not None and (fault := owners.fault(content.stat, shown + place.name)):
            notes.add(Problem(shown + place.name, *fault), error=role == "main")
            continue
        if content is not None:
            out[role] = content.data
        elif role == "main":
            hint = "Give the path of an onetool.yaml, or run: onetool-ipy init"
            notes.add(Problem(str(place), "there is no such file.", hint), error=True)
    return out


def _documents(
    contents: Mapping[str, bytes], key: str, paths: Paths, state: Path | None, shown: str, notes: Notes
) -> dict[str, Document]:
    """The parsed files, from the cache where it has exactly these; only what parsed as a whole is stored."""
    if not contents:
        return {}
    place = None if state is None else _cache_place(paths, state)
    cached = None if place is None else fetch(place, key)
    if cached is not None and cached.keys() == contents.keys():
        return cached
    from onetool_ipy.config.yaml_text import parse

    out: dict[str, Document] = {}
    for role, data in contents.items():
        try:
            out[role] = parse(data)
        except NotYaml as exc:
            where = f"{_shown(paths, role, shown)}:{exc.fault.line}"
            problem = Problem(where, exc.fault.message, exc.fault.hint)
            notes.add(problem, error=role == "main")
    if place is not None and out.keys() == contents.keys():
        store(place, key, out)
    return out


def _cache_state(main: bytes, paths: Paths, home: Path) -> Path | None:
    """The state folder for the cache: the one that `state_dir:` names, but where the project could ship its own there.

    None where it cannot be told without parsing the file, which is what the cache is there to avoid.
    """
    written = written_state_dir(main)
    if written is None:
        return paths.state
    if not written:
        return None
    chosen = chosen_state(written, paths.project, home)
    is_inside = Path(os.path.realpath(chosen)).is_relative_to(paths.project)
    return paths.state if is_inside or (os.path.isdir(chosen) and not is_ours(str(chosen))) else chosen


def _cache_place(paths: Paths, state: Path) -> Path:
    name = hashlib.sha256(str(paths.config_file or paths.onetool_dir).encode("utf-8", "replace"))
    return state / "cache" / f"config-{name.hexdigest()[:12]}.{FORMAT}.json"


def _secrets(paths: Paths, env: Mapping[str, str], shown: str, notes: Notes) -> tuple[Secrets, str]:
    place = paths.secrets_file
    if place is None:
        return Secrets({}, env), ""
    owners = Owners(paths.onetool_dir)
    values, mark = read_secrets(place, shown + place.name, lambda p: notes.add(p, error=False), owners)
    return Secrets(values, env), mark
