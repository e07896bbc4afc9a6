"""Load the configuration that is in force: find its files, read, check and cache them.

`load_config` is the entry; calling it again is a reload. It never raises for what the files hold:
every fault is a Problem, and the rest still counts. Without configuration files a load is a few
stat calls.

Importing the YAML parser and the validator takes 30 ms, and YAML is read at some 3 MB a second. So
what was parsed of a trusted project's files is kept in the user's state folder, which no project
can write to, and whether it fits its schema as it is written. That is derived from the file: on any
doubt, and for any other text, the file is parsed and checked again. What a `${NAME}` fills is
checked at every load, and neither secrets nor the environment are ever kept. No message about
secrets.yaml holds text from the right side of a colon.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy._version import __version__
from onetool_ipy.base.errors import InvalidConfig
from onetool_ipy.base.files import (
    Content,
    StoreError,
    Unreadable,
    read,
    read_object,
    read_own,
    write_whole,
)
from onetool_ipy.base.masking import SHORTEST, Secrets
from onetool_ipy.base.processes import IS_WINDOWS
from onetool_ipy.base.records import collector_paused
from onetool_ipy.config.check import (
    ConfigFile,
    LoadProblems,
    check_prompts,
    check_settings,
    fits_schema,
)
from onetool_ipy.config.paths import (
    CONFIG_NAME,
    FOLDER,
    STATE_ENV,
    STATE_VERSION,
    Owners,
    Paths,
    expand_home,
    find_config,
    home_of,
    is_ours,
    project_of,
    state_folder,
    true_path,
)
from onetool_ipy.config.settings import GuardSettings, Settings
from onetool_ipy.config.trust import NO_PINS, Pins, Trust, reach_of, trust_of
from onetool_ipy.config.yaml_text import Document, NotYaml, YamlFault, parse, parse_plain
from onetool_ipy.core import names
from onetool_ipy.core.labels import Labels, at_call, best_pattern, derived, stated
from onetool_ipy.core.tool import Problem, ToolSpec

_MAX_PARSED_BYTES = 64 * 1024 * 1024
_MODE = "has the file mode"
_NO_FILE = "Give the path of an onetool.yaml, or run: onetool-ipy init"


class Config(NamedTuple):
    """One configuration as it was when it was loaded. `errors` are the `problems` that a strict
    caller raises."""

    settings: Settings
    secrets: Secrets
    paths: Paths
    prompts: Mapping[str, str] = {}
    problems: tuple[Problem, ...] = ()
    errors: tuple[Problem, ...] = ()
    fingerprint: str = ""
    """Equal for two loads of the same files."""
    folder: str = ""
    """The folder of the files as messages name it."""
    home: Path = Path("~")
    trust: Trust = Trust()
    reach: Pins = NO_PINS
    """What in the settings runs a program or reaches out of the folder, whether or not it is
    approved."""

    @property
    def withheld(self) -> Pins:
        """What reaches out and does not count, since the user has not approved it."""
        return self.trust.uncovered(self.reach)

    def problems_now(self) -> list[Problem]:
        """Return `problems` with the mode of secrets.yaml checked again, since the user may have
        fixed it."""
        file = self.paths.secrets_file
        if file is None:
            return list(self.problems)
        name = self.folder + file.name
        others = [
            each
            for each in self.problems
            if each.where != name or not each.message.startswith(_MODE)
        ]
        problem = None
        # The file may be gone, or we may not look at it.
        with suppress(OSError):
            problem = _mode_problem(file.stat(), name)
        return others if problem is None else [problem, *others]

    def waiting_servers(self) -> dict[str, list[str]]:
        """Return the servers that are left out for secrets that are missing, and the names of
        these."""
        waiting: dict[str, list[str]] = {}
        for problem in self.problems:
            if problem.server and problem.secret:
                waiting.setdefault(problem.server, []).append(problem.secret)
        return waiting

    def raise_if_bad(self) -> None:
        """Raise InvalidConfig with every error, the first three in its text."""
        if not self.errors:
            return
        more = len(self.errors) - 3
        hint = f"... and {more} more, in the exception's `problems`." if more > 0 else ""
        raise InvalidConfig("\n".join(map(str, self.errors[:3])), hint=hint, problems=self.errors)

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
    """Load the configuration in force for `cwd`, or the one named by `path`.

    In a project that the user does not trust, no `${NAME}` is filled. What reaches out of the
    folder is left out unless it is approved.
    """
    home = Path(home or home_of(env))
    cwd = Path(os.path.abspath(cwd))
    location = find_config(path, env=env, cwd=cwd, home=home)
    folder, project = location.onetool_dir, project_of(location, cwd)
    state, refused = _own_state(state_folder(project, env=env, home=home), project, env, home)
    refused += _earlier_state(state.with_name(state.name.removesuffix(f"-{STATE_VERSION}")), state)
    config = Config(
        settings=Settings(),
        secrets=Secrets({}, env, own_secrets(home)),
        paths=Paths(
            cwd=cwd,
            project=project,
            onetool_dir=folder,
            config_file=location.config_file,
            state=state,
            user_state=state_folder(Path(true_path(home)), env=env, home=home),
        ),
        problems=(*location.problems, *refused),
        errors=location.problems if location.named else (),
        home=home,
        trust=trust_of(location, project, env=env, home=home),
    )
    if location.config_file is None and folder is None:
        return config
    with collector_paused():
        return _Loading(config, env).load()


def own_settings(home: Path) -> Settings:
    """Return the settings of `~/.onetool/onetool.yaml`, also while a project's are in force.

    Only this file decides what a project must not decide for the user, such as `ask.approve`.
    Returns the defaults if the file is missing, broken, or writable by other users.
    """
    folder = home / FOLDER
    if not is_ours(str(folder)):
        return Settings()
    try:
        content = read(folder / CONFIG_NAME)
        if content is None or Owners().fault(content.stat, CONFIG_NAME) is not None:
            return Settings()
        document = parse(content.data)
    except (Unreadable, NotYaml):
        return Settings()
    return check_settings(
        ConfigFile(CONFIG_NAME, document, LoadProblems(), strict=True), None, lambda _name: None
    )


def own_secrets(home: Path) -> dict[str, str]:
    """Return the keys of models that the user keeps in `~/.onetool/secrets.yaml`, for all projects.

    Nothing else reads them. Empty if the file is missing, broken, or not the user's alone.
    """
    folder = home / FOLDER
    if not is_ours(str(folder)):
        return {}
    try:
        content = read(folder / "secrets.yaml")
        if content is None or _mode_problem(content.stat, "") is not None:
            return {}
        if Owners().fault(content.stat, "secrets.yaml") is not None:
            return {}
        document = parse_plain(content.data) or parse(content.data, numbers=False)
    except (Unreadable, NotYaml):
        return {}
    return {name: value for name, value in document.data.items() if isinstance(value, str)}


class _Loading:
    """One load of the files of a configuration folder."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._config, self._env = config, env
        self._paths = config.paths
        # The folder of the files as messages name it: short, and the same from anywhere in the
        # project.
        folder = (
            self._paths.onetool_dir
            or (self._paths.config_file or self._paths.cwd / CONFIG_NAME).parent
        )
        is_home = self._paths.project == Path(true_path(config.home))
        self._folder = (
            f"{folder}{os.sep}"
            if folder.name != FOLDER
            else f"~/{FOLDER}/"
            if is_home
            else f"{FOLDER}/"
        )
        self._problems = LoadProblems(config.problems)
        self._owners = Owners(config.paths.onetool_dir)
        self._is_trusted = config.trust.is_given
        self._mark = hashlib.sha256()

    def load(self) -> Config:
        roles = {"main": self._paths.config_file}
        if self._paths.onetool_dir is not None:
            roles |= {
                name: self._paths.onetool_dir / f"{name}.yaml" for name in ("prompts", "snippets")
            }
        files = {
            role: None if path is None else self._file(role, path) for role, path in roles.items()
        }
        secrets = self._secrets()
        main, prompts = files["main"], files.get("prompts") if self._is_trusted else None
        reach = reach_of(
            {} if main is None else main.data, self._paths.project, self._environments()
        )
        settings = check_settings(
            main,
            files.get("snippets"),
            secrets.get,
            is_trusted=self._is_trusted,
            withheld=self._config.trust.uncovered(reach),
        )
        settings = self._without_approvals(settings)
        self._mark.update(f"{self._paths.config_file} {self._is_trusted}".encode())
        return self._config._replace(
            settings=settings,
            secrets=secrets,
            prompts={} if prompts is None else check_prompts(prompts),
            paths=self._paths._replace(state=self._state(settings.state_dir)),
            problems=_masked(self._problems.problems, secrets),
            errors=_masked(self._problems.errors, secrets),
            fingerprint=self._mark.hexdigest(),
            folder=self._folder,
            reach=reach,
        )

    def _environments(self) -> Mapping[str, Any]:
        """The environments of the bundles. A file that cannot be read has none, and is a problem of
        the bundles."""
        if self._paths.onetool_dir is None:
            return {}
        try:
            data = read_object(self._paths.onetool_dir / "environments.json")
        except StoreError:
            return {}
        self._mark.update(json.dumps(data).encode())
        return data

    def _content(self, path: Path, *, is_main: bool = False) -> Content | None:
        """Read a file; None if it is missing or does not count, which is a problem."""
        name, fault = self._folder + path.name, None
        try:
            content = read(path)
        except Unreadable as exc:
            content, fault = None, (str(exc), "")
        if content is not None:
            fault = self._owners.fault(content.stat, name)
        elif is_main and fault is None:
            name, fault = str(path), ("there is no such file.", _NO_FILE)
        if fault is not None:
            self._problems.add(Problem(name, *fault), error=is_main)
        return None if fault else content

    def _file(self, role: str, path: Path) -> ConfigFile | None:
        name, is_main = self._folder + path.name, role == "main"
        content = self._content(path, is_main=is_main)
        if content is None:
            return None
        data, digest = content.data, hashlib.sha256(content.data).hexdigest()
        self._mark.update(f"\n{role} {digest}\n".encode())
        try:
            document = (
                self._parsed(role, path.name, data, digest) if self._is_trusted else parse(data)
            )
        except NotYaml as exc:
            problem = Problem(f"{name}:{exc.fault.line}", exc.fault.message, exc.fault.hint)
            self._problems.add(problem, error=is_main)
            return None
        return ConfigFile(name, document, self._problems, strict=is_main)

    def _parsed(self, role: str, name: str, data: bytes, digest: str) -> Document:
        """A file as it was parsed before, or parsed and checked now.

        With `state_dir:` nothing is kept: where it would have to be kept is known only after the
        file was parsed.
        """
        import orjson

        key = f"{__version__} {role} {digest}"
        file = self._paths.state / "cache" / f"{name}.json"
        try:
            stored = orjson.loads(read_own(file, _MAX_PARSED_BYTES) or b"")
            if stored["key"] == key:
                lines = {tuple(path): line for path, line in stored["lines"]}
                faults = [
                    YamlFault(line, tuple(path), *words) for line, path, *words in stored["faults"]
                ]
                return Document(stored["data"], lines, faults, fits=stored["fits"] is True)
        except (ValueError, TypeError, KeyError):
            pass  # There is none, or it is damaged.
        document = parse(data)
        document = document._replace(fits=fits_schema(role, document.data))
        if "state_dir" not in document.data:
            lists = {
                "lines": list(document.lines.items()),
                "faults": list(map(tuple, document.faults)),
            }
            record = {"key": key, **document._asdict(), **lists}
            # The disk may be read-only, and JSON cannot hold every integer.
            with suppress(StoreError, TypeError):
                write_whole(file, orjson.dumps(record), nofollow=True)
        return document

    def _secrets(self) -> Secrets:
        """The secrets. No message holds text from the right side of a colon."""
        path, values = self._paths.secrets_file, dict[str, str]()
        own = own_secrets(self._config.home)
        content = None if path is None else self._content(path)
        if path is None or content is None:
            return Secrets({}, self._env, own)
        name, status = self._folder + path.name, content.stat
        self._mark.update(f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}".encode())
        if problem := _mode_problem(status, name):
            self._note(problem)
        try:
            document = parse_plain(content.data) or parse(content.data, numbers=False)
        except NotYaml as exc:
            # What follows may quote the file.
            message = exc.fault.message.partition(":")[0].partition(",")[0].rstrip(".")
            self._note(
                Problem(f"{name}:{exc.fault.line}", f"{message}.", "Write 'NAME: \"value\"' lines.")
            )
            return Secrets({}, self._env, own)
        for fault in document.faults:
            hint = "Write each name once, and put its value in quotes."
            self._note(
                Problem(
                    f"{name}:{fault.line}", f"{fault.key}: cannot be used as it is written.", hint
                )
            )
        for key, value in document.data.items():
            if not isinstance(value, str):
                message = (
                    "has no value." if value is None else "is not text. Put the value in quotes."
                )
                self._note(Problem(f"{name}:{document.lines.get((key,), 1)}", f"{key}: {message}"))
                continue
            values[key] = value
            if len(value.strip()) < SHORTEST:
                message = f"{key}: is shorter than {SHORTEST} characters, so it is not masked."
                self._note(Problem(name, message, "Use a longer secret."))
        return Secrets(values, self._env, own)

    def _note(self, problem: Problem) -> None:
        self._problems.add(problem, error=False)

    def _without_approvals(self, settings: Settings) -> Settings:
        """Drop `ask.approve` and `guard.allow` unless the file is the user's own: a project must
        not approve anything for its user."""
        if not settings.ask.approve and not settings.guard.allow:
            return settings
        file, own = self._paths.config_file, self._config.home / FOLDER / CONFIG_NAME
        if file is not None and os.path.realpath(file) == os.path.realpath(own):
            return settings
        where = self._folder + (CONFIG_NAME if file is None else file.name)
        hint = (
            f"Put it into ~/{FOLDER}/{CONFIG_NAME}, or give it with the call: approve=[...], %ask"
            " --approve."
        )
        if settings.ask.approve:
            self._note(Problem(where, "ask.approve: is ignored in a project.", hint))
        if settings.guard.allow:
            hint = f"Put it into ~/{FOLDER}/{CONFIG_NAME}."
            self._note(Problem(where, "guard.allow: is ignored in a project.", hint))
        return settings._replace(
            ask=settings.ask._replace(approve=()), guard=settings.guard._replace(allow=())
        )

    def _state(self, chosen: str | None) -> Path:
        """The state folder in force."""
        if chosen is None or self._env.get(STATE_ENV):
            return self._paths.state
        folder = Path(
            os.path.abspath(self._paths.project / expand_home(Path(chosen), self._config.home))
        )
        state, problems = _own_state(folder, self._paths.project, self._env, self._config.home)
        if state == folder:
            state = folder / STATE_VERSION
            problems += _earlier_state(folder / "calls", state)
        for problem in problems:
            self._note(problem)
        return state


def _masked(problems: Iterable[Problem], secrets: Secrets) -> tuple[Problem, ...]:
    """The problems without secrets that someone wrote into the wrong file."""
    return tuple(problem._replace(message=secrets.mask(problem.message)) for problem in problems)


def _own_state(
    state: Path, project: Path, env: Mapping[str, str], home: Path
) -> tuple[Path, list[Problem]]:
    """The state folder to use: `state`, or the user's default folder if another user owns `state`.

    The owner could read the arguments and results of calls there, and add approvals.
    """
    if not os.path.isdir(state) or is_ours(str(state)):
        return state, []
    default = state_folder(
        project, env={key: value for key, value in env.items() if key != STATE_ENV}, home=home
    )
    message = "refused as a state folder, since another user owns it."
    return default, [Problem(str(state), message, f"Point ${STATE_ENV} at a folder of your own.")]


def _earlier_state(earlier: Path, state: Path) -> list[Problem]:
    """Name the state of an earlier version, until there are calls of this version."""
    if not earlier.is_dir() or (state / "calls").exists():
        return []
    message = "an earlier version kept its call log and results here; they are not read."
    return [Problem(str(earlier), message, "Delete it if you do not need it.")]


def _mode_problem(status: os.stat_result, shown: str) -> Problem | None:
    """Return what is wrong with the file's mode, or None."""
    mode = stat.S_IMODE(status.st_mode)
    if mode == 0o600 or IS_WINDOWS:
        return None
    return Problem(
        shown, f"{_MODE} {mode:04o}; it must be 0600, for you alone.", f"Run: chmod 600 {shown}"
    )


def labels_of(spec: ToolSpec, config: Config, own: GuardSettings) -> Labels:
    """Return what a tool reads and where it sends. `own` is the guard of the user's own settings.

    What the user's cells and settings say counts; anything else can only make it stricter.
    """

    def url_of(server: str) -> str | None:
        definition = config.settings.servers.get(server)
        url = None if definition is None else definition.data.get("url")
        return url if isinstance(url, str) and url else None

    is_ours = spec.origin in ("cell", "builtin")
    labels = stated(derived(spec, url_of), spec.guard.reads, spec.guard.sends, may_loosen=is_ours)
    for rules, may_loosen in ((config.settings.guard.tools, False), (own.tools, True)):
        if (pattern := best_pattern(spec.name, list(rules))) is not None:
            labels = stated(labels, **rules[pattern], may_loosen=may_loosen)
    return labels


class ToolLabels:
    """The labels of tools. `own` is the guard of the user's own settings."""

    def __init__(self, config: Config, own: GuardSettings) -> None:
        self._config = config
        self._own = own
        self._known: dict[str, tuple[ToolSpec, Labels]] = {}

    @property
    def allow(self) -> tuple[tuple[str, str], ...]:
        """The pairs of a source and a place that its data may go to."""
        return self._own.allow

    def of_call(self, spec: ToolSpec, args: object) -> Labels:
        """Return the labels of a call of a tool with these arguments."""
        return at_call(spec, self.of(spec), args if isinstance(args, Mapping) else {})

    def of(self, spec: ToolSpec) -> Labels:
        """Return the labels of a tool."""
        entry = self._known.get(spec.name)
        if entry is None or entry[0] is not spec:
            entry = self._known[spec.name] = spec, labels_of(spec, self._config, self._own)
        return entry[1]


def all_labels(specs: Iterable[ToolSpec], config: Config) -> list[Labels]:
    """Return the labels of several tools, with what the user's own settings say now."""
    return [*map(ToolLabels(config, own_settings(config.home).guard).of, specs)]


def needs_approval(spec: ToolSpec, args: object, config: Config) -> bool:
    """Whether a call may change something, as far as its tool's annotations can be trusted."""
    if not spec.read_only or (
        isinstance(args, dict) and args.get(names.WRITING.get(spec.name, ""))
    ):
        return True
    if not spec.server:
        return False
    server = config.settings.servers.get(spec.server)
    return server is None or server.data.get("trusted") is not True
