"""open_toolbox(): builds the parts and wires them. The only file that knows everything.

A part is built from values that are handed to it; what the outside world gives (environment, time, network) comes in
as arguments here, so that tests pass their own and nothing is patched.
"""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.config import Config, load_config
from onetool_ipy.core.executor import Executor
from onetool_ipy.core.model import Source, ToolSpec
from onetool_ipy.core.registry import Registry, Session
from onetool_ipy.parts import Parts, Stores
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.net import Road
    from onetool_ipy.sources.functions import Functions
    from onetool_ipy.sources.pack_files import PackFiles

__all__ = ["open_toolbox"]

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
    return Toolbox(build, session=Session(), build_road=partial(_road, transport))


def _road(transport: Any, box: Toolbox) -> Road:
    """The one HTTP road of a toolbox; it outlives a reload."""
    from onetool_ipy.net import Road

    return Road(box.background, box.workers, mask=box.mask, transport=transport)


def _be_quiet() -> None:
    """Without a handler of its own, a library's errors would be printed by Python's last resort."""
    logger = logging.getLogger("onetool_ipy")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _build(path: Path | None, env: Mapping[str, str], clock: Clock, cwd: Path | None, box: Toolbox) -> Parts:
    config = load_config(path, env=env, cwd=cwd or _working_directory())
    files = _pack_files(config)
    return Parts(
        config=config,
        build_registry=partial(_registry, config, files, clock, box),
        build_executor=partial(_executor, config, box),
        build_stores=partial(_stores, config, clock),
        pack_names=_pack_names(config, files),
    )


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was deleted under our feet
        return Path("/")


def _pack_files(config: Config) -> PackFiles | None:
    if config.paths.onetool_dir is None:
        return None
    from onetool_ipy.sources.outline_cache import OutlineCache
    from onetool_ipy.sources.pack_files import PackFiles

    cache = OutlineCache(config.paths.state / "cache" / "packs.json")
    return PackFiles(config.paths.onetool_dir, config.settings.tools_dir, cache=cache)


def _pack_names(config: Config, files: PackFiles | None) -> tuple[str, ...]:
    """The packs of the project itself: those that a notebook gets as names."""
    found = list(files.pack_names()) if files is not None else []
    for definition in config.settings.tools:
        name = definition.name
        if name:
            found.append(name.partition(".")[0] if "." in name else "config")
    return tuple(dict.fromkeys(found))


def _registry(config: Config, files: PackFiles | None, clock: Clock, box: Toolbox) -> Registry:
    from onetool_ipy.sources.declared import Declared, read_definition
    from onetool_ipy.sources.entry_points import EntryPoints

    builtins = _builtins(config, clock, box)
    handlers = partial(_handlers, builtins)
    declared = Declared([(d.data, d.where) for d in config.settings.tools], handlers)
    sources: list[Source] = [builtins, *([] if files is None else [files]), EntryPoints(), declared]
    return Registry(
        sources,
        session=box.session,
        read_definition=lambda data: read_definition(data, handlers, origin="cell"),
        changed=box.tell_watchers,
    )


def _builtins(config: Config, clock: Clock, box: Toolbox) -> Functions:
    from onetool_ipy.packs import fs, ot, system
    from onetool_ipy.sources.functions import Functions

    roots = [config.paths.project / Path(root).expanduser() for root in config.settings.fs.roots]
    return Functions(
        [
            *system.packs(clock),
            *fs.packs(roots, config.paths.secrets_file),
            ("ot", ot.functions(box)),
        ]
    )


def _handlers(builtins: Functions) -> dict[str, dict[str, ToolSpec]]:
    """What a definition of spec 003 may name as its handler."""
    specs = builtins.by_name.items()
    return {
        "builtin": {name: spec for name, spec in specs if spec.pack != "ot"},
        "internal": {name: spec for name, spec in specs if spec.pack == "ot"},
    }


def _stores(config: Config, clock: Clock) -> Stores:
    from onetool_ipy.stores.calls import Calls
    from onetool_ipy.stores.results import Results
    from onetool_ipy.stores.topics import Topics

    settings, state, mask = config.settings, config.paths.state, config.secrets.mask
    output = settings.output
    return Stores(
        results=Results(
            state / "results", ttl_s=output.result_ttl_s, max_bytes=output.max_store_bytes, clock=clock, mask=mask
        ),
        log=Calls(
            state / "calls",
            clock=None if clock is _utc_now else clock,  # its own is cheaper
            mask=mask,
            enabled=settings.stats.enabled,
        ),
        topics=Topics(settings.topics, config.paths.onetool_dir, clock=clock, mask=mask),
        clock=clock,
    )


def _executor(config: Config, box: Toolbox, registry: Registry) -> Executor:
    from onetool_ipy.core import steps
    from onetool_ipy.sdk.deps import require_deps
    from onetool_ipy.stores import calls

    return Executor(
        registry,
        owner=box,
        steps=[steps.span(config.secrets.mask), calls.step(box.log), require_deps()],
        background=box.background,
        workers=box.workers,
        local_s=config.settings.timeouts.local_s,
        mask=config.secrets.mask,
    )
