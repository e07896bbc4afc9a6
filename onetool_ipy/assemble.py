"""open_toolbox(): builds the parts of a toolbox and wires them. The only file that knows everything.

Environment, time and network come in as arguments here, so that tests pass their own and nothing is patched.
"""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.errors import TRUST_IT, Unavailable, Untrusted
from onetool_ipy.config.load import Config, load_config
from onetool_ipy.config.paths import CONFIG_ENV, FOLDER, STATE_ENV, state_base, state_bases
from onetool_ipy.config.trust import TRUST_ENV, TrustList, pin_of
from onetool_ipy.core.executor import Executor
from onetool_ipy.core.registry import Registry, SessionTools
from onetool_ipy.core.tool import Source, ToolSpec
from onetool_ipy.proxies import raise_failure
from onetool_ipy.toolbox import Parts, Stores, Toolbox

if TYPE_CHECKING:
    from onetool_ipy.bundles.runners import BundleContext
    from onetool_ipy.bundles.service import Bundles
    from onetool_ipy.mcp import ServerDefinition, Servers
    from onetool_ipy.net.client import HttpClient, Rules
    from onetool_ipy.packs.fs import Private
    from onetool_ipy.sources.functions import Functions
    from onetool_ipy.sources.pack_files import PackFiles
    from onetool_ipy.trust_gate import Inventory

__all__ = ["open_toolbox"]

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
        path: The configuration file, or a project's folder; by default it is looked for (contract 3).
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
    _be_quiet()
    chosen = None if path is None else Path(path)
    build = partial(_build, chosen, os.environ if env is None else env, clock or _utc_now, cwd)
    surroundings = os.environ if env is None else env
    box = Toolbox(
        build,
        session=SessionTools(),
        build_http_client=partial(_http_client, transport),
        build_servers=partial(_servers, surroundings),
    )
    box.replays.env = surroundings
    box.subscribe(closing=box.replays.close)
    return box


def _reopen(config: Config, env: Mapping[str, str]) -> Callable[[], Toolbox]:
    """A function, fit for pickling, that opens the same project in another process of this machine."""
    named = config.paths.config_file if config.trust.how == "named" else None
    places = {key: env[key] for key in _PLACES if key in env}
    return partial(_open_again, named, config.paths.project, places)


def _open_again(path: Path | None, project: Path, places: Mapping[str, str]) -> Toolbox:
    """The toolbox of the same project in another process of this machine; its secrets are read there, not sent."""
    return open_leniently(path, env={**os.environ, **places}, cwd=project)


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("HOME") or os.path.expanduser("~"))


def _http_client(transport: Any, box: Toolbox) -> HttpClient:
    """The HTTP client of a toolbox; it outlives a reload."""
    from onetool_ipy.net.client import HttpClient

    return HttpClient(box.background, box.workers, mask=box.mask, transport=transport)


def _servers(surroundings: Mapping[str, str], box: Toolbox) -> Servers:
    """The MCP servers of a toolbox; they outlive a reload. Nothing is started."""
    from onetool_ipy.mcp import Servers
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


def _adopt_servers(config: Config, servers: Servers) -> None:
    """Before a reloaded configuration is in force: end what it changes of the servers. Nothing is started."""
    servers.update(_server_definitions(config), wait_s=config.settings.timeouts.mcp_s, hide=config.secrets.hide)


def _server_definitions(config: Config) -> list[ServerDefinition]:
    from onetool_ipy.mcp import read_server

    folder, timeout_s = config.paths.project, config.settings.timeouts.mcp_s
    found = []
    for name, entry in config.settings.servers.items():
        roots = config.settings.fs.roots
        definition = read_server(name, entry.data, entry.where, folder=folder, timeout_s=timeout_s, roots=roots)
        is_allowed = config.trust.covers(name, pin_of(entry.written))
        found.append(definition if is_allowed else definition._replace(is_allowed=False, trusted=False))
    return found


def _inventory(config: Config, files: PackFiles | None, context: Callable[[], BundleContext]) -> Inventory:
    """What a yes to this project would let run, as far as it needs one."""
    from onetool_ipy.sources.bundles import http_hosts
    from onetool_ipy.trust_gate import Inventory, server_entries

    servers = server_entries(config.settings.servers, config.trust, config.secrets.names())
    folder = str(config.paths.project)
    if config.trust.is_given:
        return Inventory(folder, servers=servers)
    count, hosts = http_hosts(context().store)
    return Inventory(
        folder,
        () if files is None else tuple(files.shown()),
        servers,
        count,
        tuple(hosts),
        tuple(config.settings.snippets),
    )


def _record_trust(config: Config, env: Mapping[str, str], server: str) -> None:
    """Put the project on the user's list, with its servers as they are now; or one server of it.

    A server that is switched off was not shown, so the yes does not cover it.
    """
    folder = config.paths.project
    shown = {name: entry for name, entry in config.settings.servers.items() if entry.data.get("enabled") is not False}
    now = {name: pin_of(entry.written) for name, entry in shown.items()}
    known = _trust_list(env)
    before = known.get(folder) if server else None
    wanted = {name: pin for name, pin in now.items() if server in ("", name)}
    known.add(folder, now if before is None else {**before, **wanted})


def _forget_trust(config: Config, env: Mapping[str, str]) -> bool:
    return _trust_list(env).remove(config.paths.project)


def _trust_list(env: Mapping[str, str]) -> TrustList:
    return TrustList.of(env, _home(env))


def _be_quiet() -> None:
    """Without a handler of its own, a library's errors would be printed by Python's last resort."""
    logger = logging.getLogger("onetool_ipy")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _build(path: Path | None, env: Mapping[str, str], clock: Clock, cwd: Path | None, box: Toolbox) -> Parts:
    config = load_config(path, env=env, cwd=cwd or _working_directory())
    for problem in config.problems:
        logging.getLogger("onetool_ipy.config").error("%s", problem)
    files = _pack_files(config)
    context = cache(partial(_bundle_context, config, env, clock, box))
    return Parts(
        config=config,
        build_registry=partial(_registry, config, files, context, partial(_builtins, config, env, clock, cwd), box),
        build_executor=partial(_executor, config, box),
        build_stores=partial(_stores, config, clock, box),
        build_bundles=partial(_bundles, config, clock, context, box),
        pack_names=_pack_names(config, files),
        adopt_servers=partial(_adopt_servers, config),
        inventory=partial(_inventory, config, files, context),
        record_trust=partial(_record_trust, config, env),
        forget_trust=partial(_forget_trust, config, env),
        reopen=_reopen(config, env),
    )


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was deleted under our feet
        return Path("/")


def _pack_files(config: Config) -> PackFiles | None:
    if config.paths.onetool_dir is None:
        return None
    from onetool_ipy.sources.outline import FILE, OutlineCache
    from onetool_ipy.sources.pack_files import PackFiles

    cache = OutlineCache(config.paths.state / "cache" / FILE)
    require = partial(_require_trust, config)
    return PackFiles(config.paths.onetool_dir, config.settings.tools_dir, cache=cache, require_trust=require)


def _require_trust(config: Config, file: Path) -> None:
    """No code of a project is run before the user trusts it, nor after that ended in another process."""
    if not config.trust.is_given or config.trust.has_changed():
        raise Untrusted(f"'{file}' was not run: this project is not trusted.", hint=TRUST_IT)


def _pack_names(config: Config, files: PackFiles | None) -> tuple[str, ...]:
    """The packs of the project itself: those that a notebook gets as names."""
    found = list(files.pack_names()) if files is not None else []
    for definition in config.settings.tools:
        name = definition.name
        if name:
            found.append(name.partition(".")[0] if "." in name else "config")
    found += [name for name, server in config.settings.servers.items() if server.data.get("enabled", True)]
    folder = config.paths.onetool_dir
    if folder is not None and os.path.exists(folder / "bundles"):
        from onetool_ipy.bundles.store import stored_slugs

        found += stored_slugs(folder / "bundles")
    return tuple(dict.fromkeys(found))


def _registry(
    config: Config,
    files: PackFiles | None,
    context: Callable[[], BundleContext],
    build_builtins: Callable[[Toolbox], Functions],
    box: Toolbox,
) -> Registry:
    from onetool_ipy.mcp import ServerTools
    from onetool_ipy.sources.bundles import BundleTools, Switched
    from onetool_ipy.sources.declared import FILE, Declared, DefinitionChecks, read_definition
    from onetool_ipy.sources.entry_points import EntryPoints

    builtins = build_builtins(box)
    handlers = partial(_handlers, builtins)
    checks = DefinitionChecks(config.paths.state / "cache" / FILE, config.fingerprint)
    declared = Declared(config.settings.tools, handlers, checks)
    bundle_context = context()
    bundles = BundleTools(
        bundle_context.store,
        bundle_context.runners,
        find=partial(_known, box),
        http_timeout_s=config.settings.http.timeout_s,
    )
    switched = Switched(builtins, bundle_context.switches)
    sources: list[Source] = [switched, *([] if files is None else [files]), EntryPoints(), declared, bundles]
    sources.append(ServerTools(box.servers))
    return Registry(
        sources,
        session=box.session,
        read_definition=lambda data: read_definition(data, handlers, origin="cell"),
        changed=box.tools_changed,
        has_changed=lambda: bundles.refresh() or switched.refresh(),
        before_list=partial(_before_list, box),
        explain=box.servers.explain,
    )


def _before_list(box: Toolbox) -> None:
    """Start the servers whose tools are not known yet, as far as the user trusts them now."""
    box.gate.refresh()
    box.servers.prepare()


def _bundle_context(config: Config, env: Mapping[str, str], clock: Clock, box: Toolbox) -> BundleContext:
    """What the registry and `box.bundles` share. Without a `.onetool` the first bundle makes one, which is trusted."""
    from onetool_ipy.bundles.runners import BundleContext, RunnerDependencies

    found = config.paths.onetool_dir
    needs = RunnerDependencies(
        http_client=lambda: box.http_client,
        rules=partial(_rules, config),
        secret=partial(_secret, config),
        mask=config.secrets.mask,
        hide=config.secrets.hide,
        clock=clock,
        call=partial(_inner_call, box),
    )
    made = partial(_record_trust, config, env, "")
    return BundleContext(found or config.paths.project / FOLDER, needs, is_found=found is not None, on_made=made)


def _bundles(config: Config, clock: Clock, context: Callable[[], BundleContext], box: Toolbox) -> Bundles:
    from onetool_ipy.bundles.service import Bundles, ServiceDependencies

    needs = ServiceDependencies(
        find=partial(_known, box),
        refresh=partial(_refresh, box),
        taken=partial(_taken, config, box),
        secret_names=config.secrets.names,
        counts=partial(_counts, box),
        call=box.call,
        acall=box.acall,
        clock=clock,
    )
    return Bundles(context(), needs)


def _rules(config: Config) -> Rules:
    from onetool_ipy.net.client import Rules

    return Rules.of(config.settings.http)


def _secret(config: Config, name: str) -> str | None:
    """A secret of the secrets file; a tool from elsewhere must not read the environment."""
    return config.secrets.get(name) if config.trust.is_given and name in config.secrets.names() else None


def _inner_call(box: Toolbox, name: str, args: Mapping[str, Any]) -> Any:
    """Call a tool from inside another one: its value, or its own error."""
    if box.registry.find(name) is None:
        raise Unavailable(f"There is no function '{name}' now.", hint="The tool comes back with it.")
    result = box.call(name, args, source="tool")
    return result.data if result.error is None else raise_failure(box, result)


def _known(box: Toolbox, name: str) -> ToolSpec | None:
    return box.registry.get(name)  # of the parts in force then, not those of now


def _refresh(box: Toolbox) -> bool:
    return box.registry.refresh()


def _counts(box: Toolbox) -> dict[str, tuple[int, datetime.datetime]]:
    return box.log.counts()


def _taken(config: Config, box: Toolbox, slug: str) -> str:
    """What has this name already, other than a bundle."""
    if slug in config.settings.servers:
        return f"server '{slug}'"
    is_pack = any(spec.origin != "bundle" for spec in box.registry.pack(slug) or ())
    return f"pack '{slug}'" if is_pack else ""


def _builtins(config: Config, env: Mapping[str, str], clock: Clock, cwd: Path | None, box: Toolbox) -> Functions:
    from onetool_ipy.packs import fs, ot, system
    from onetool_ipy.sources.functions import Functions

    roots = [config.paths.project / Path(root).expanduser() for root in config.settings.fs.roots]
    working = os.getcwd if cwd is None else partial(str, cwd)
    return Functions(
        [
            *system.packs(clock, working),
            *fs.packs(roots, _private(config, env), working),
            ("ot", ot.functions(box)),
        ]
    )


def _private(config: Config, env: Mapping[str, str]) -> Private:
    """What `fs` never reads: the secrets of this project and of the user, and every state directory."""
    from onetool_ipy.packs.fs import Private

    home = _home(env)
    own = config.paths.secrets_file
    users = home / FOLDER / "secrets.yaml"
    return Private((users,) if own is None else (own, users), state_bases(env, home), config.paths.state)


def _handlers(builtins: Functions) -> dict[str, dict[str, ToolSpec]]:
    """What a definition of spec 003 may name as its handler."""
    specs = builtins.by_name.items()
    return {
        "builtin": {name: spec for name, spec in specs if spec.pack != "ot"},
        "internal": {name: spec for name, spec in specs if spec.pack == "ot"},
    }


def _stores(config: Config, clock: Clock, box: Toolbox) -> Stores:
    from onetool_ipy.stores.calls import CallLog
    from onetool_ipy.stores.results import Results
    from onetool_ipy.stores.topics import Topics

    settings, state, mask = config.settings, config.paths.state, config.secrets.mask
    output = settings.output
    return Stores(
        results=Results(
            state / "results", ttl_s=output.result_ttl_s, max_bytes=output.max_store_bytes, clock=clock, mask=mask
        ),
        log=CallLog(
            state / "calls",
            clock=None if clock is _utc_now else clock,  # its own is cheaper
            mask=mask,
            enabled=settings.stats.enabled,
            run_later=box.workers.submit,
        ),
        topics=Topics(settings.topics, config.paths.onetool_dir, clock=clock, mask=mask),
        clock=clock,
    )


def _executor(config: Config, box: Toolbox, registry: Registry) -> Executor:
    from onetool_ipy.core.executor import span
    from onetool_ipy.sdk.requirements import require_deps
    from onetool_ipy.stores import calls

    return Executor(
        registry,
        owner=box,
        steps=[span(config.secrets.mask), box.replays.step(config.secrets.mask)],
        record=calls.recorder(box.log),
        admit=None if config.trust.record is None else box.gate.admit,
        require=require_deps(),
        background=box.background,
        workers=box.workers,
        local_s=config.settings.timeouts.local_s,
        mask=config.secrets.mask,
    )
