"""`lock` and `lock check`: write down what a project's tools are, and say in words what has drifted
since."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.printable import printable
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.config.lock import NAME, Drift, drifts, lock_of, read_lock, write_lock
from onetool_ipy.core.drift import changes
from onetool_ipy.faces.commands import CommandContext, DataPage, one_word, text_page
from onetool_ipy.faces.line.grammar import Options
from onetool_ipy.render.views import counted
from onetool_ipy.toolbox import Toolbox


def lock(context: CommandContext, _options: Options) -> DataPage:
    """`lock`: write `.onetool/onetool.lock`, and say what changed since the last one."""
    box, path = context.box, _path(context.box)
    now, silent = _now(box)
    if silent:
        hint = f"See why with: %tool server test {silent[0]}"
        raise UsageProblem(
            f"The tools of the server '{silent[0]}' are not known, so nothing was written.",
            hint=hint,
        )
    before = read_lock(path) if os.path.lexists(path) else None
    is_new = write_lock(path, now)
    place = f"{path.parent.name}/{path.name}"
    tools = counted(len(now["tools"]), "tool")
    lines = [f"Wrote {place} with {tools}." if is_new else f"{place} is as it should be: {tools}."]
    drifting = [] if before is None else drifts(before, now)
    return DataPage.of(
        text_page(box, [*lines, *_texts(drifting)]),
        {"tools": len(now["tools"]), "drift": _data(drifting)},
    )


def check(context: CommandContext, options: Options) -> DataPage:
    """`lock check [NAME]`."""
    return diff(context, options) if options.words else verify(context, options)


def verify(context: CommandContext, _options: Options) -> DataPage:
    """`lock check`: compare the tools with the lock file. A new tool is said; anything else makes
    the exit code 1."""
    box = context.box
    before = read_lock(_path(box))
    now, silent = _now(box)
    drifting = [
        drift
        for drift in drifts(before, now)
        if drift.kind != "tool" or drift.name.partition(".")[0] not in silent
    ]
    lost = ("its tools are not known: it could not be asked for them",)
    drifting += [Drift(kind="server", name=name, state="changed", lines=lost) for name in silent]
    is_failure = any(drift.state != "new" for drift in drifting)
    head = f"{counted(len(before['tools']), 'tool')} of {NAME}: " + (
        "not as locked." if is_failure else "as locked."
    )
    return DataPage.of(
        text_page(box, [head, *_texts(drifting)]), {"drift": _data(drifting)}, is_failure=is_failure
    )


def diff(context: CommandContext, options: Options) -> DataPage:
    """`lock check NAME`: how one tool differs from what the lock file says of it."""
    box, name = context.box, one_word(options, "lock check")
    spec = box.registry.find(name)
    name = name if spec is None else spec.name
    locked = read_lock(_path(box))["tools"]
    if spec is None and name not in locked:
        near = did_you_mean(name, [*locked])
        hint = "See all with: %tool list"
        raise UsageProblem(f"No tool '{name[:60]}'. {near}".strip(), hint=hint)
    servers = box.config.reach.get("server", {})
    now = {} if spec is None else lock_of(box.registry.loaded([spec]), servers, box.mask)["tools"]
    if name not in locked:
        lines = [f"The tool '{name}' is not in {NAME}."]
    elif name not in now:
        lines = [f"The tool '{name}' is gone."]
    else:
        lines = changes(locked[name], now[name]) or [f"The tool '{name}' is as {NAME} has it."]
    return DataPage.of(
        text_page(box, [printable(line) for line in lines]), {"tool": name, "changes": lines}
    )


def _path(box: Toolbox) -> Path:
    folder = box.config.paths.onetool_dir
    if folder is None:
        raise UsageProblem(
            "There is no project here, so there is nothing to lock.",
            hint="Make one: onetool-ipy init",
        )
    return folder / NAME


def _now(box: Toolbox) -> tuple[dict[str, Any], list[str]]:
    """Return what the lock file would hold now, and the servers whose tools are not known."""
    box.gate.require()
    servers = box.config.reach.get("server", {})
    # A list that is cached on disk may be an old one.
    states = box.servers.check() if servers else {}
    specs = box.registry.loaded(box.registry.list())
    silent = sorted(name for name in servers if states.get(name) != "connected")
    return lock_of(specs, servers, box.mask), silent


def _texts(drifting: list[Drift]) -> list[str]:
    return [printable(drift.text) for drift in drifting]


def _data(drifting: list[Drift]) -> list[dict[str, Any]]:
    return [asdict(drift) for drift in drifting]
