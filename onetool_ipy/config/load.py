"""The user's own settings, in `~/.onetool/onetool.yaml`, also while a project's are in force.

What a project must not decide for its reader, such as `ask.approve`, is read from here alone. Read when it is needed.

The warm cache: parsed documents as JSON, so that a load needs no YAML.

A head line with key and checksum, a line with the documents, then the tools one after the other: a load reads their
names and places, and a tool is unpacked when it is looked at.

Keyed by the content of the files, our version and a format number; whatever is not exactly what `store` wrote is
ignored and written anew. It holds text as it stands in the files: no `${NAME}` is filled, and secrets.yaml is not in
it. It lives in the user's own state directory, or where `state_dir:` points, but never inside the project: that could
ship its own there, with settings that nobody sees in its files.

The files of one `.onetool/` folder -> settings, secrets and prompts, by way of the warm cache.

Owns which files there are. YAML is parsed only when one of them changed since the cache was written; checking and
filling are done at every load, since secrets and environment are in no cache.

`load_config`: find the files, read and check them. Calling it again is a reload.

It never raises for what the files hold. Nothing is imported for files that are not there: without a configuration a
load is a few stat calls. The caller keeps the last good Config; `fingerprint` says whether two are of the same files.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onetool_ipy._version import __version__
from onetool_ipy.base.errors import InvalidConfig
from onetool_ipy.base.files import Unreadable, make_private, read
from onetool_ipy.base.masking import Secrets
from onetool_ipy.base.records import Value
from onetool_ipy.config.check import ConfigFile, LoadProblems, check_prompts, check_settings
from onetool_ipy.config.paths import CONFIG_NAME, FOLDER, STATE_ENV, Owners, Paths, find_config, is_ours, state_folder
from onetool_ipy.config.secrets_file import read_secrets
from onetool_ipy.config.settings import Settings
from onetool_ipy.config.state import chosen_state, close_to_others, own_state, written_state_dir
from onetool_ipy.config.trust import Trust, judge
from onetool_ipy.config.yaml_text import Document, NotYaml, Packed, YamlFault
from onetool_ipy.core.tool import Problem

__all__ = [
    "FORMAT",
    "Config",
    "Loaded",
    "cache_key",
    "fetch",
    "is_own",
    "load_config",
    "load_files",
    "own_settings",
    "store",
]


def is_own(paths: Paths, home: Path) -> bool:
    """Whether the configuration in force is the user's own."""
    file = paths.config_file
    return file is not None and os.path.realpath(file) == os.path.realpath(home / FOLDER / CONFIG_NAME)


def own_settings(home: Path) -> Settings:
    """The settings of the user's own file; the defaults where it is missing, broken or not the user's."""
    folder = home / FOLDER
    if not is_ours(str(folder)):
        return Settings()
    from onetool_ipy.base.files import Unreadable, read
    from onetool_ipy.config.check import ConfigFile, LoadProblems, check_settings
    from onetool_ipy.config.yaml_text import NotYaml, parse

    try:
        content = read(folder / CONFIG_NAME)
        is_refused = content is None or Owners().fault(content.stat, CONFIG_NAME) is not None
        document = None if content is None or is_refused else parse(content.data)
    except (Unreadable, NotYaml):
        return Settings()
    if document is None:
        return Settings()
    return check_settings(ConfigFile(CONFIG_NAME, document, LoadProblems(()), strict=True), None, lambda name: None)  # noqa: ARG005


FORMAT = 2
"""In the name of each file, so that versions of this package with other formats do not meet in it."""
_MAX_BYTES = 64 * 1024 * 1024


def cache_key(files: Mapping[str, bytes]) -> str:
    """One key for these files by name and content."""
    digest = hashlib.sha256(f"{FORMAT} {__version__}".encode())
    for name in sorted(files):
        digest.update(f"\n{name} {len(files[name])}\n".encode())
        digest.update(files[name])
    return digest.hexdigest()


def fetch(path: Path, key: str) -> dict[str, Document] | None:
    """The documents stored under this key, or None."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size > _MAX_BYTES or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
                return None
            head, body = file.readline(200), file.read()
    except OSError:
        return None
    if head != _head(key, body):
        return None
    index, _, tools = body.partition(b"\n")
    try:
        return {name: _document(raw, tools) for name, raw in json.loads(index).items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def store(path: Path, key: str, documents: Mapping[str, Document]) -> None:
    """Write the documents whole (temp, rename); where that cannot be, there is no cache.

    No fsync: a file that a crash leaves torn fails its checksum and is made again.
    """
    import orjson

    temp = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        tools: list[bytes] = []
        index = {name: _packed(document, tools, orjson.dumps) for name, document in documents.items()}
        body = b"\n".join((orjson.dumps(index), b"".join(tools)))
        make_private(path.parent)
        descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except (OSError, TypeError, ValueError):
        return  # read-only, or an integer or text that this JSON cannot hold exactly
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(key, body) + body)
        temp.replace(path)
    except OSError:
        temp.unlink(missing_ok=True)


def _head(key: str, body: bytes) -> bytes:
    return f"onetool_ipy {key} {zlib.crc32(body):08x}\n".encode()


def _packed(document: Document, tools: list[bytes], dumps: Callable[[Any], bytes]) -> list[Any]:
    """The document for the index; its tools go into the list, and their places into the index."""
    data, faults = dict(document.data), [[f.line, f.key, f.message, f.hint] for f in document.faults]
    if isinstance(data.get("tools"), list):
        places: list[Any] = []
        end = sum(map(len, tools))
        for item in data["tools"]:
            if not isinstance(item, dict):
                places.append({"item": item})
                continue
            tools.append(dumps(item))
            start, end = end, end + len(tools[-1])
            name = item.get("name")
            places.append([name if isinstance(name, str) else "", start, end])
        data["tools"] = places
    return [data, document.lines, faults]


def _document(raw: Any, tools: bytes) -> Document:
    """The document back; raise ValueError, TypeError or KeyError for anything else."""
    data, lines, faults = raw
    if not isinstance(data, dict) or not isinstance(lines, dict):
        raise TypeError("not a document")
    if isinstance(data.get("tools"), list):
        data["tools"] = [Packed(tools, *p) if isinstance(p, list) else p["item"] for p in data["tools"]]
    return Document(data, lines, [YamlFault(*fault) for fault in faults])


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
    paths: Paths, *, env: Mapping[str, str], shown: str, notes: LoadProblems, is_trusted: bool = True, home: Path
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


def _load(
    paths: Paths, env: Mapping[str, str], shown: str, notes: LoadProblems, is_trusted: bool, home: Path
) -> Loaded:
    contents = _contents(paths, shown, notes)
    key = cache_key(contents)
    follows = is_trusted and not env.get(STATE_ENV)
    state = _cache_state(contents.get("main", b""), paths, home) if follows else paths.state
    documents = _documents(contents, key, paths, state, shown, notes)
    secrets, mark = _secrets(paths, env, shown, notes)
    files = {
        role: ConfigFile(_shown(paths, role, shown), document, notes, strict=role == "main")
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


def _contents(paths: Paths, shown: str, notes: LoadProblems) -> dict[str, bytes]:
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
    contents: Mapping[str, bytes], key: str, paths: Paths, state: Path | None, shown: str, notes: LoadProblems
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


def _secrets(paths: Paths, env: Mapping[str, str], shown: str, notes: LoadProblems) -> tuple[Secrets, str]:
    place = paths.secrets_file
    if place is None:
        return Secrets({}, env), ""
    owners = Owners(paths.onetool_dir)
    values, mark = read_secrets(place, shown + place.name, lambda p: notes.add(p, error=False), owners)
    return Secrets(values, env), mark


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
    found = find_config(path, env=env, cwd=cwd, home=home)
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

    notes = LoadProblems((*found.problems, *refused))
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


def _without_approvals(settings: Settings, paths: Paths, home: Path, shown: str, notes: LoadProblems) -> Settings:
    """The settings without `ask.approve`, unless they are the user's own: a project does not answer for its reader."""
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
