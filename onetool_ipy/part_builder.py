"""PartBuilder: builds the registry, the executor, the stores and the bundles of a toolbox, and
wires them.

`assemble` imports it when a toolbox first needs one of them, so that opening one stays cheap. What
is imported inside functions here loads httpx, pydantic or SQLite, which not every toolbox needs.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from onetool_ipy.base.errors import ToolNotFound, Unavailable
from onetool_ipy.base.records import collector_paused, once
from onetool_ipy.bundles.source import (
    BundleContext,
    BundleTools,
    RunnerDependencies,
    Switched,
    http_hosts,
)
from onetool_ipy.config.load import Config, needs_approval
from onetool_ipy.config.paths import FOLDER, STATE_VERSION, state_base, state_bases
from onetool_ipy.config.trust import real_path
from onetool_ipy.core.executor import Executor, is_watched, span
from onetool_ipy.core.names import TOOLBOX
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.resolve import Resolver
from onetool_ipy.core.tool import Source, ToolSpec
from onetool_ipy.core.tracing import traced
from onetool_ipy.mcp.definition import ServerDefinition, read_server
from onetool_ipy.mcp.servers import Servers, ServerTools
from onetool_ipy.packs import fs, system
from onetool_ipy.packs.ot import pack as ot
from onetool_ipy.proxies import raise_failure
from onetool_ipy.sdk.requirements import require_deps
from onetool_ipy.sources.declared import Declared, read_definition
from onetool_ipy.sources.functions import Functions
from onetool_ipy.sources.pack_files import EntryPoints, PackFiles
from onetool_ipy.stores.calls.log import CallLog
from onetool_ipy.stores.results import Results
from onetool_ipy.stores.tasks import TaskStore
from onetool_ipy.stores.tokens import TokenStore
from onetool_ipy.stores.topics import Topics
from onetool_ipy.toolbox import Stores, Toolbox
from onetool_ipy.trust_gate import Inventory, parts_of

if TYPE_CHECKING:
    from onetool_ipy.bundles.service import Bundles
    from onetool_ipy.net.client import Rules


class PartBuilder:
    """Builds the parts of one toolbox from its project."""

    def __init__(
        self,
        box: Toolbox,
        config: Config,
        *,
        files: PackFiles | None,
        env: Mapping[str, str],
        cwd: Path | None,
        clock: system.Clock | None,
        record_trust: Callable[[str], None],
    ) -> None:
        """`clock` is None for the system's own."""
        self._box = box
        self._config = config
        self._files = files
        self._env = env
        self._cwd = cwd
        self._given_clock = clock
        self._clock = clock or partial(datetime.datetime.now, datetime.UTC)
        self._record_trust = record_trust

    @collector_paused()
    def registry(self) -> Registry:
        """The tools of all sources."""
        config, box = self._config, self._box
        roots = [Path(real_path(config.paths.project, root)) for root in config.settings.fs.roots]
        working = os.getcwd if self._cwd is None else partial(str, self._cwd)
        # What `fs` never reads: the secrets of this project and of the user, and every state
        # directory.
        users = config.home / FOLDER / "secrets.yaml"
        secrets = (
            (users,) if config.paths.secrets_file is None else (config.paths.secrets_file, users)
        )
        state = (
            config.paths.state.parent
            if config.paths.state.name == STATE_VERSION
            else config.paths.state
        )
        private = fs.Private(secrets, (*state_bases(self._env, config.home), state))
        packs = [
            *system.packs(self._clock, working),
            *fs.packs(roots, private, working),
            (TOOLBOX, ot.functions(box)),
        ]
        builtins = Functions(packs)

        def handlers() -> dict[str, dict[str, ToolSpec]]:
            """Return what a definition of spec 003 may name as its handler."""
            specs = builtins.by_name.items()
            return {
                "builtin": {name: spec for name, spec in specs if not spec.is_toolbox},
                "internal": {name: spec for name, spec in specs if spec.is_toolbox},
            }

        def before_list() -> None:
            """Start the servers whose tools are not known yet, as far as the user trusts them
            now."""
            box.gate.refresh()
            box.servers.prepare()

        def explain(name: str) -> ToolNotFound | None:
            why = None if self._files is None else self._files.explain(name)
            return why or box.servers.explain(name)

        sources: list[Source] = [
            Switched(builtins, self._context.switches),
            *([] if self._files is None else [self._files]),
            EntryPoints(on_import=self._refresh),
            Declared(config.settings.tools, handlers),
            BundleTools(
                self._context, find=self._known, http_timeout_s=config.settings.http.timeout_s
            ),
            ServerTools(box.servers),
        ]
        return Registry(
            sources,
            session=box.session,
            read_definition=lambda data: read_definition(data, handlers, origin="cell"),
            changed=partial(box.announce, "changed"),
            before_list=before_list,
            explain=explain,
            recommended=config.settings.recommended,
        )

    def resolver(self, registry: Registry) -> Resolver:
        """What decides whether a call may run."""
        config, box = self._config, self._box
        return Resolver(
            registry,
            workers=box.workers,
            prepare=box.gate.prepare,
            in_force=lambda: box.parts.resolver,
            admit=None if config.trust.record is None else box.gate.admit,
            has_news=config.trust.has_changed,
            require=require_deps(),
            local_s=config.settings.timeouts.local_s,
            mask=config.secrets.mask,
        )

    def executor(self) -> Executor:
        """What runs resolved calls."""
        config, box = self._config, self._box

        return Executor(
            owner=box,
            steps=[traced(config.secrets.mask), span(config.secrets.mask)],
            is_watched=is_watched,
            find_origin=box.lineage.begin if box.log.enabled else None,
            switched=box.replays.steps,
            record=box.log.recorder(box.lineage),
            background=box.background,
            tool_loop=box.tool_loop,
            workers=box.workers,
            mask=config.secrets.mask,
            is_write=partial(needs_approval, config=config),
        )

    def stores(self) -> Stores:
        """What the toolbox keeps on disk."""
        config, clock = self._config, self._clock
        settings, state, mask = config.settings, config.paths.state, config.secrets.mask
        output = settings.output
        return Stores(
            results=Results(
                state / "results",
                ttl_s=output.result_ttl_s,
                max_bytes=output.max_store_bytes,
                clock=clock,
                mask=mask,
            ),
            log=CallLog(
                state / "calls",
                clock=self._given_clock,  # without one it has its own, which is cheaper
                mask=mask,
                enabled=settings.stats.enabled,
                run_later=self._box.workers.submit,
                notebook=partial(attrgetter("host.notebook"), self._box),
            ),
            topics=Topics(settings.topics, config.paths.onetool_dir, clock=clock, mask=mask),
            clock=clock,
        )

    def servers(self) -> Servers:
        """The MCP servers of the toolbox."""
        config, box = self._config, self._box

        def changed() -> None:
            box.parts.expire()
            box.announce("changed")

        return Servers(
            self._server_definitions(),
            box.background,
            cache=config.paths.state / "cache" / "servers",
            tokens=TokenStore(state_base(self._env, config.home) / "tokens", config.secrets.hide),
            tasks=TaskStore(config.paths.state / "tasks", box.mask),
            environ=self._env,
            mask=box.mask,
            wait_s=config.settings.timeouts.mcp_s,
            on_change=changed,
            on_state=partial(box.announce, "states"),
        )

    def adopt_servers(self, servers: Servers) -> None:
        """End the servers that this configuration changes. Nothing is started."""
        config = self._config
        servers.update(
            self._server_definitions(),
            wait_s=config.settings.timeouts.mcp_s,
            hide=config.secrets.hide,
        )

    def _server_definitions(self) -> list[ServerDefinition]:
        config = self._config
        folder, timeout_s = config.paths.project, config.settings.timeouts.mcp_s
        # A server that is switched off is not in `reach`: no question showed it, so no yes covers
        # it.
        reach, withheld = config.reach.get("server", {}), config.withheld.get("server", {})
        approved = reach.keys() - withheld.keys()
        is_free = config.trust.is_given and not config.trust.is_pinned
        definitions = []
        for name, entry in config.settings.servers.items():
            definition = read_server(
                name, entry.data, entry.where, folder=folder, timeout_s=timeout_s
            )
            is_allowed = is_free or name in approved
            definitions.append(
                definition if is_allowed else replace(definition, is_allowed=False, trusted=False)
            )
        return definitions

    def bundles(self) -> Bundles:
        """Every operation on bundles."""
        from onetool_ipy.bundles.service import Bundles, ServiceDependencies

        box, config = self._box, self._config

        def owner(slug: str) -> str:
            """Say which server or pack has this name already; a bundle does not count."""
            if slug in config.settings.servers:
                return f"server '{slug}'"
            is_pack = any(spec.origin != "bundle" for spec in box.registry.pack(slug) or ())
            return f"pack '{slug}'" if is_pack else ""

        needs = ServiceDependencies(
            find=self._known,
            refresh=self._refresh,
            taken=owner,
            secret_names=config.secrets.names,
            counts=lambda: box.log.counts(),  # noqa: PLW0108 - of the parts in force then
            call=box.call,
            clock=self._clock,
        )
        return Bundles(self._context, needs)

    def inventory(self) -> Inventory:
        """What a yes to this project would cover, as far as it needs one."""
        config = self._config
        parts = parts_of(config.withheld, config.trust.pins, config.secrets.names())
        inventory = Inventory(folder=str(config.paths.project), parts=parts)
        if config.trust.is_given:
            return inventory
        count, hosts = http_hosts(self._context.store)
        return inventory._replace(
            pack_files=() if self._files is None else tuple(self._files.shown()),
            http_tools=count,
            hosts=tuple(hosts),
            snippets=tuple(config.settings.snippets),
        )

    @once
    def _context(self) -> BundleContext:
        """What the registry and `box.bundles` share. Without a `.onetool` the first bundle makes a
        trusted one."""
        config, box = self._config, self._box
        folder = config.paths.onetool_dir

        def rules() -> Rules:
            from onetool_ipy.net.client import Rules

            return Rules.of(config.settings.http)

        def secret(name: str) -> str | None:
            """Return a secret of the secrets file; a tool from elsewhere must not read the
            environment."""
            return (
                config.secrets.get(name)
                if config.trust.is_given and name in config.secrets.names()
                else None
            )

        needs = RunnerDependencies(
            http_client=lambda: box.http_client,
            rules=rules,
            secret=secret,
            mask=config.secrets.mask,
            hide=config.secrets.hide,
            clock=self._clock,
            call=self._inner_call,
        )
        trust_it = partial(self._record_trust, "")
        return BundleContext(
            folder or config.paths.project / FOLDER,
            needs,
            is_found=folder is not None,
            on_made=trust_it,
        )

    def _known(self, name: str) -> ToolSpec | None:
        return self._box.registry.get(name)  # of the parts in force then, not those of now

    def _refresh(self) -> bool:
        return self._box.registry.refresh()

    def _inner_call(self, name: str, args: Mapping[str, object]) -> object:
        """Call a tool from inside another one: its value, or its own error."""
        box = self._box
        if box.registry.find(name) is None:
            raise Unavailable(
                f"There is no function '{name}' now.", hint="The tool comes back with it."
            )
        result = box.call(name, args, source="tool")
        return result.data if result.error is None else raise_failure(box.host, result)
