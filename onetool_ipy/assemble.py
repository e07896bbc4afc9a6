"""open_toolbox(): opens the toolbox of a project: its configuration, pack files, trust, servers and
HTTP client.

`Project` is the parts of a toolbox; `part_builder` builds most of them when they are first needed.
Environment, time and network come in as arguments here, so that tests pass their own and nothing is
patched.
"""

from __future__ import annotations

import datetime
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from onetool_ipy.base import forks, values
from onetool_ipy.base.errors import Untrusted, UsageProblem
from onetool_ipy.base.files import names_in
from onetool_ipy.config.kept_names import PLACES, keep_names
from onetool_ipy.config.load import load_config
from onetool_ipy.config.paths import CONFIG_NAME, state_folder
from onetool_ipy.config.trust import TrustList
from onetool_ipy.core.registry import SessionTools
from onetool_ipy.schema.read import identifier
from onetool_ipy.sources.outline import FILE, OutlineCache
from onetool_ipy.sources.pack_files import PackFiles
from onetool_ipy.toolbox import Parts, Toolbox

if TYPE_CHECKING:
    from onetool_ipy.bundles.service import Bundles
    from onetool_ipy.core.executor import Executor
    from onetool_ipy.core.registry import Registry
    from onetool_ipy.core.resolve import Resolver
    from onetool_ipy.mcp.servers import Servers
    from onetool_ipy.net.client import HttpClient
    from onetool_ipy.part_builder import PartBuilder
    from onetool_ipy.toolbox import Stores
    from onetool_ipy.trust_gate import Inventory

_T = TypeVar("_T")
Clock = Callable[[], datetime.datetime]


def open_toolbox(
    path: str | os.PathLike[str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    transport: Any = None,
) -> Toolbox:
    """Open the toolbox of a project. Raises InvalidConfig where its configuration cannot be used.

    Args:
        path: The configuration file, or a project's folder; by default it is looked for (contract
            3). A folder without a configuration opens as it would from inside.
        env: Environment variables; by default the process's own.
        clock: Gives the time as an aware UTC datetime.
        transport: An httpx transport for everything that goes out.
    """
    box = open_leniently(path, env=env, clock=clock, transport=transport)
    try:
        box.config.raise_if_bad()
    except BaseException:
        box.close()
        raise
    return box


def open_leniently(
    path: str | os.PathLike[str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    transport: Any = None,
    cwd: Path | None = None,
    start: Path | None = None,
) -> Toolbox:
    """`open_toolbox` for a notebook: what is good opens, the rest are problems of the
    configuration.

    `cwd` is the folder to look from, where that is not the process's own: a server has the
    notebooks' folders. `start` is the folder to look from this time: that of the process when it
    was loaded. A reload looks from that of then.
    """
    # Keep Python's handler of last resort from printing our log: a library adds a handler that does
    # nothing.
    logger = logging.getLogger("onetool_ipy")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    if path is not None and not isinstance(path, str | os.PathLike):
        raise UsageProblem(
            f"The path of a project is text or a Path, not {values.safe_repr(path, 60)}.",
            hint='For example: open_toolbox("my-project")',
        )
    chosen = None if path is None else Path(path)
    surroundings = os.environ if env is None else env
    starts = [start]

    def build(box: Toolbox) -> Project:
        return Project(chosen, surroundings, clock, cwd, box, starts.pop() if starts else None)

    box = Toolbox(
        build,
        session=SessionTools(),
        build_http_client=partial(_http_client, transport),
    )
    box.replays.env = surroundings
    box.subscribe(closing=box.replays.close)
    return box


def _open_again(path: Path | None, project: Path, places: Mapping[str, str]) -> Toolbox:
    """Open the toolbox of the same project in another process. Its secrets are read there, not
    sent."""
    return open_leniently(path, env={**os.environ, **places}, cwd=project)


def _http_client(transport: Any, box: Toolbox) -> HttpClient:
    """The HTTP client of a toolbox; it outlives a reload."""
    from onetool_ipy.net.client import HttpClient

    return HttpClient(box.background, box.workers, mask=box.mask, transport=transport)


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was deleted under our feet
        return Path("/")


class _BuiltOnce(Generic[_T]):
    """A part that is built when it is first read, once, under the lock of its owner. Later reads
    find it in `vars`."""

    def __init__(self, build: Callable[[Any], _T]) -> None:
        self._build = build

    def __set_name__(self, _owner: object, name: str) -> None:
        self._name = name

    def __get__(self, project: Project, _owner: object) -> _T:
        with project.building:
            if self._name not in vars(project):
                vars(project)[self._name] = self._build(project)
            value: _T = vars(project)[self._name]
            return value


class Project:
    """The parts of a toolbox: a project as one reading of its configuration has it."""

    def __init__(
        self,
        path: Path | None,
        env: Mapping[str, str],
        clock: Clock | None,
        cwd: Path | None,
        box: Toolbox,
        start: Path | None = None,
    ) -> None:
        self.box = box
        self.env = env
        self.clock = clock
        self.cwd = cwd
        self._began_ns = time.time_ns()
        config = self.config = load_config(path, env=env, cwd=cwd or start or _working_directory())
        for problem in config.problems:
            logging.getLogger("onetool_ipy.config").error("%s", problem)
        self._trust_list = TrustList.of(env, config.home)
        folder = config.paths.onetool_dir
        self.files = (
            None
            if folder is None
            else PackFiles(
                folder,
                config.settings.tools_dir,
                cache=OutlineCache(config.paths.state / "cache" / FILE),
                require_trust=self.require_trust,
                on_import=lambda: box.registry.refresh(),  # noqa: PLW0108 - the registry is not built yet
            )
        )
        self.after_fork()
        forks.register(self)

    def after_fork(self) -> None:
        """Take a lock of this process's own."""
        self.building = threading.RLock()

    @_BuiltOnce
    def _builder(self) -> PartBuilder:
        from onetool_ipy.part_builder import PartBuilder  # late: it loads every source of tools

        return PartBuilder(
            self.box,
            self.config,
            files=self.files,
            env=self.env,
            cwd=self.cwd,
            clock=self.clock,
            record_trust=self.record_trust,
        )

    stores: _BuiltOnce[Stores] = _BuiltOnce(lambda project: project._builder.stores())
    registry: _BuiltOnce[Registry] = _BuiltOnce(lambda project: project._builder.registry())
    executor: _BuiltOnce[Executor] = _BuiltOnce(lambda project: project._builder.executor())
    resolver: _BuiltOnce[Resolver] = _BuiltOnce(
        lambda project: project._builder.resolver(project.registry)
    )
    bundles: _BuiltOnce[Bundles] = _BuiltOnce(lambda project: project._builder.bundles())

    def inventory(self) -> Inventory:
        """Return what of the project a yes would cover, as far as it needs one."""
        return self._builder.inventory()

    def expire(self) -> None:
        """Let the registry list its tools again. Parts that are not built yet will see the change
        anyway."""
        if "registry" in vars(self):
            self.registry.expire()

    def take_over(self, older: Parts) -> None:
        """Close the parts before; take over the results that they kept in memory."""
        if "stores" in vars(older):
            self.stores.results.take_over(older.stores.results)
        older.close()

    def close(self) -> None:
        """Close what was built. Builds nothing."""
        if "stores" in vars(self):
            self.stores.log.close()

    @property
    def reopen(self) -> Callable[[], Toolbox]:
        """A function, fit for pickling, that opens the same project in another process."""
        paths = self.config.paths
        named = (paths.config_file or paths.project) if self.config.trust.how == "named" else None
        return partial(
            _open_again,
            named,
            paths.project,
            {key: self.env[key] for key in PLACES if key in self.env},
        )

    def record_trust(self, part: str) -> None:
        """Put the project on the user's list, with all that reaches out as it is now; or add one
        part alone."""
        folder = self.config.paths.project
        before = self._trust_list.get(folder) if part else None
        pins = {kind: dict(named) for kind, named in (before or {}).items()}
        for kind, named in self.config.reach.items():
            approved = {name: pin for name, pin in named.items() if part in ("", f"{kind} {name}")}
            pins[kind] = {**pins.get(kind, {}), **approved}
        self._trust_list.add(folder, pins)

    def forget_trust(self) -> bool:
        """Take the project off the user's list; False where it was not on it."""
        return self._trust_list.remove(self.config.paths.project)

    def require_trust(self, file: Path) -> None:
        """Raise Untrusted unless the user trusts the project; the trust may have ended in another
        process."""
        trust = self.config.trust
        if not trust.is_given or trust.has_changed():
            raise Untrusted.of(f"'{file}' was not run: this project is not trusted.")

    @property
    def make_servers(self) -> Callable[[], Servers]:
        """Makes the MCP servers of the project, which outlive a reload. Nothing is started."""
        return self._builder.servers

    def adopt_servers(self, servers: Servers) -> None:
        """End the servers that a reloaded configuration changes, before it takes effect. Nothing is
        started."""
        self._builder.adopt_servers(servers)

    @property
    def pack_names(self) -> tuple[str, ...]:
        """The packs of the project itself as its files are now, which a notebook gets as names."""
        config = self.config
        packs = list(self.files.pack_names()) if self.files is not None else []
        declared = [definition.name for definition in config.settings.tools if definition.name]
        packs += [name.partition(".")[0] if "." in name else "config" for name in declared]
        packs += [
            name
            for name, server in config.settings.servers.items()
            if server.data.get("enabled", True)
        ]
        if os.path.exists(config.paths.bundles):
            from onetool_ipy.bundles.store import stored_slugs

            packs += stored_slugs(config.paths.bundles)
        return tuple(dict.fromkeys(packs))

    def keep_pack_names(self) -> None:
        """Keep `pack_names` for the next start, if nothing is to be told then."""
        config, paths = self.config, self.config.paths
        state = state_folder(paths.project, env=self.env, home=config.home)
        folder, trust = paths.onetool_dir, config.trust
        if config.problems or not trust.is_given or paths.state != state or folder is None:
            return
        files = ("prompts.yaml", "snippets.yaml", "secrets.yaml", "environments.json")
        watched = [paths.config_file or folder / CONFIG_NAME, *(folder / name for name in files)]
        watched += [] if trust.record is None else [Path(trust.record)]
        for bundle in (paths.bundles, *map(paths.bundles.joinpath, names_in(paths.bundles))):
            watched += [bundle, bundle / "bundle.json"]
        keep_names(
            state,
            {identifier(name): name for name in self.pack_names},
            [*map(str, watched), *(self.files.watched() if self.files is not None else ())],
            env=self.env,
            cwd=paths.cwd,
            began_ns=self._began_ns,
        )
