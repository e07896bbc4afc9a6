"""open_toolbox(): opens the toolbox of a project: its configuration, pack files, trust, servers and HTTP client.

`part_builder` builds the other parts when they are first needed. Environment, time and network come in
as arguments here, so that tests pass their own and nothing is patched.
"""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.errors import Untrusted
from onetool_ipy.config.load import Config, load_config
from onetool_ipy.config.paths import CONFIG_ENV, STATE_ENV, state_base
from onetool_ipy.config.trust import TRUST_ENV, TrustList
from onetool_ipy.core.registry import SessionTools
from onetool_ipy.sources.outline import FILE, OutlineCache
from onetool_ipy.sources.pack_files import PackFiles
from onetool_ipy.toolbox import Parts, Toolbox

if TYPE_CHECKING:
    from onetool_ipy.mcp.definition import ServerDefinition
    from onetool_ipy.mcp.servers import Servers
    from onetool_ipy.net.client import HttpClient
    from onetool_ipy.part_builder import PartBuilder

Clock = Callable[[], datetime.datetime]

_PLACES = ("HOME", CONFIG_ENV, STATE_ENV, TRUST_ENV, "XDG_STATE_HOME")
"""What of the environment decides where the project and its state are."""


def open_toolbox(
    path: str | os.PathLike[str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    transport: Any = None,
) -> Toolbox:
    """Open the toolbox of a project. Raises InvalidConfig where its configuration cannot be used.

    Args:
        path: The configuration file, or a project's folder; by default it is looked for (contract 3). A folder without
            a configuration opens as it would from inside.
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
) -> Toolbox:
    """`open_toolbox` for a notebook: what is good opens, the rest are problems of the configuration.

    `cwd` is the folder to look from, where that is not the process's own: a server has the notebooks' folders.
    """
    # Keep Python's handler of last resort from printing our log: a library adds a handler that does nothing.
    logger = logging.getLogger("onetool_ipy")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    chosen = None if path is None else Path(path)
    surroundings = os.environ if env is None else env
    box = Toolbox(
        partial(_build, chosen, surroundings, clock, cwd),
        session=SessionTools(),
        build_http_client=partial(_http_client, transport),
        build_servers=partial(_servers, surroundings),
    )
    box.replays.env = surroundings
    box.subscribe(closing=box.replays.close)
    return box


def _open_again(path: Path | None, project: Path, places: Mapping[str, str]) -> Toolbox:
    """Open the toolbox of the same project in another process. Its secrets are read there, not sent."""
    return open_leniently(path, env={**os.environ, **places}, cwd=project)


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("HOME") or os.path.expanduser("~"))


def _http_client(transport: Any, box: Toolbox) -> HttpClient:
    """The HTTP client of a toolbox; it outlives a reload."""
    from onetool_ipy.net.client import HttpClient

    return HttpClient(box.background, box.workers, mask=box.mask, transport=transport)


def _servers(surroundings: Mapping[str, str], box: Toolbox) -> Servers:
    """The MCP servers of a toolbox; they outlive a reload. Nothing is started."""
    from onetool_ipy.mcp.servers import Servers
    from onetool_ipy.stores.tasks import TaskStore
    from onetool_ipy.stores.tokens import TokenStore

    def changed() -> None:
        box.parts.expire()
        box.tools_changed()

    config = box.config
    return Servers(
        _server_definitions(config),
        box.background,
        cache=config.paths.state / "cache" / "servers",
        tokens=TokenStore(state_base(surroundings, _home(surroundings)) / "tokens", config.secrets.hide),
        tasks=TaskStore(config.paths.state / "tasks", box.mask),
        environ=surroundings,
        mask=box.mask,
        wait_s=config.settings.timeouts.mcp_s,
        on_change=changed,
    )


def _server_definitions(config: Config) -> list[ServerDefinition]:
    from onetool_ipy.mcp.definition import read_server

    folder, timeout_s = config.paths.project, config.settings.timeouts.mcp_s
    # A server that is switched off is not in `reach`: no question showed it, so no yes covers it.
    approved = config.reach.get("server", {}).keys() - config.withheld.get("server", {}).keys()
    is_free = config.trust.is_given and not config.trust.is_pinned
    definitions = []
    for name, entry in config.settings.servers.items():
        roots = config.settings.fs.roots
        definition = read_server(name, entry.data, entry.where, folder=folder, timeout_s=timeout_s, roots=roots)
        is_allowed = is_free or name in approved
        definitions.append(definition if is_allowed else replace(definition, is_allowed=False, trusted=False))
    return definitions


def _build(path: Path | None, env: Mapping[str, str], clock: Clock | None, cwd: Path | None, box: Toolbox) -> Parts:
    """Read the configuration, and hand the toolbox what it asks of its project."""
    project = _Project(load_config(path, env=env, cwd=cwd or _working_directory()), env, box)
    config = project.config
    for problem in config.problems:
        logging.getLogger("onetool_ipy.config").error("%s", problem)

    def builder() -> PartBuilder:
        from onetool_ipy.part_builder import PartBuilder  # late: it loads every source of tools

        home, record_trust = _home(env), project.record_trust
        return PartBuilder(
            box, config, project.files, env=env, home=home, cwd=cwd, clock=clock, record_trust=record_trust
        )

    named = (config.paths.config_file or config.paths.project) if config.trust.how == "named" else None
    places = {key: env[key] for key in _PLACES if key in env}
    return Parts(
        config=config,
        builder=builder,
        pack_names=project.pack_names,
        adopt_servers=project.adopt_servers,
        record_trust=project.record_trust,
        forget_trust=project.forget_trust,
        reopen=partial(_open_again, named, config.paths.project, places),
    )


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was deleted under our feet
        return Path("/")


class _Project:
    """A project as one reading of its configuration has it: its pack files, its servers, and the user's list."""

    def __init__(self, config: Config, env: Mapping[str, str], box: Toolbox) -> None:
        self.config = config
        self._trust_list = TrustList.of(env, _home(env))
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

    def record_trust(self, part: str) -> None:
        """Put the project on the user's list, with all that reaches out as it is now; or add one part alone."""
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
        """Raise Untrusted unless the user trusts the project; the trust may have ended in another process."""
        trust = self.config.trust
        if not trust.is_given or trust.has_changed():
            raise Untrusted.of(f"'{file}' was not run: this project is not trusted.")

    def adopt_servers(self, servers: Servers) -> None:
        """End the servers that a reloaded configuration changes, before it takes effect. Nothing is started."""
        config = self.config
        servers.update(_server_definitions(config), wait_s=config.settings.timeouts.mcp_s, hide=config.secrets.hide)

    def pack_names(self) -> tuple[str, ...]:
        """Return the packs of the project itself, which a notebook gets as names."""
        config = self.config
        packs = list(self.files.pack_names()) if self.files is not None else []
        declared = [definition.name for definition in config.settings.tools if definition.name]
        packs += [name.partition(".")[0] if "." in name else "config" for name in declared]
        packs += [name for name, server in config.settings.servers.items() if server.data.get("enabled", True)]
        if os.path.exists(config.paths.bundles):
            from onetool_ipy.bundles.store import stored_slugs

            packs += stored_slugs(config.paths.bundles)
        return tuple(dict.fromkeys(packs))
