"""Whether what tools need is there: `check_deps()`, and the step that says so before a tool runs.

Nothing of a pack is run to find out: declarations are part of the tool's spec. A library is looked for and not
imported. A command is run only for its version, only for so long, and only where the tool itself may run: the command
and its flag are the pack's own words.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from onetool_ipy.base.errors import Unavailable
from onetool_ipy.core import current
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import BoundCall, Step, ToolSpec
from onetool_ipy.render.views import Listing
from onetool_ipy.sdk.requirements import Dep

__all__ = ["COLUMNS", "DepRows", "Found", "check_deps", "is_there", "look_for", "require_deps"]

COLUMNS = ("tool", "kind", "name", "status", "version", "install")

_VERSION_S = 2.0
_MAX_OUTPUT = 4096
_AT_ONCE = 8
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*|\b\d+\b")


class Found(NamedTuple):
    """Whether a requirement is there, and in which version, where that is known."""

    is_there: bool
    version: str | None = None


class DepRows(Listing):
    """Rows `{tool, kind, name, status, version, install}`; `.df` has these columns also where there are none."""

    @property
    def df(self) -> Any:
        """The rows as a pandas DataFrame."""
        return super().df.reindex(columns=list(COLUMNS))


def check_deps(tool: str | None = None) -> DepRows:
    """What tools need and whether it is there: a row for each tool and requirement, `status` is `ok` or `missing`.

    Args:
        tool: Only this tool (`pack.tool`), or the tools of this pack.
    """
    box = current.require()
    specs = [spec for spec in _chosen(box.registry, tool) if spec.deps]
    needs = [(spec.name, dep) for spec in specs for dep in spec.deps]
    may_run = {dep for spec in specs if box.gate.is_admitted(spec.name) for dep in spec.deps}
    found = _look_for_all({dep for _, dep in needs}, may_run)
    return DepRows(
        {
            "tool": name,
            "kind": dep.kind,
            "name": dep.name,
            "status": "ok" if found[dep].is_there else "missing",
            "version": found[dep].version,
            "install": dep.install,
        }
        for name, dep in needs
    )


def require_deps() -> Step:
    """A step around a call: a tool that needs what is not there says so, and does not run."""
    seen: set[Dep] = set()  # what was there once; what was not is looked for again

    def step(bound: BoundCall) -> Generator[None, ToolResult, ToolResult | None] | None:
        spec = bound.spec
        if spec is None or not spec.deps:
            return None
        needs = spec.deps
        missing = [dep for dep in needs if dep not in seen and not is_there(dep)]
        if missing:
            raise Unavailable(_words(bound.tool, missing), hint=_hint(missing))
        seen.update(needs)
        return None

    return step


def look_for(dep: Dep, *, may_run: bool = True) -> Found:
    """Look for one requirement, and for its version; a command is asked for it only where that `may_run`."""
    if dep.kind == "lib":
        return Found(True, _library_version(dep.name)) if _has_library(dep.name) else Found(False)
    path = shutil.which(dep.name)
    if path is None:
        return Found(False)
    return Found(True, _command_version(path, dep.version_flag) if dep.version_flag and may_run else None)


def _chosen(registry: Any, tool: str | None) -> Iterable[ToolSpec]:
    if tool is None:
        registry.refresh()
        listed: list[ToolSpec] = registry.known()
        return listed
    spec = registry.find(tool)
    if spec is not None:
        return [spec]
    pack: Sequence[ToolSpec] | None = registry.known_packs().get(tool)
    if pack is None:
        raise ValueError(f"{'Tool' if '.' in tool else 'Pack'} not found: {tool}")
    return pack


def _look_for_all(deps: set[Dep], may_run: set[Dep]) -> dict[Dep, Found]:
    """Each once, several at a time, since asking a command for its version takes a while."""
    from onetool_ipy.sdk.batch import in_threads

    ordered = list(deps)
    outcomes = dict(in_threads(ordered, lambda dep: look_for(dep, may_run=dep in may_run), _AT_ONCE))
    return {dep: outcomes[i][1] if outcomes[i][0] else Found(is_there(dep)) for i, dep in enumerate(ordered)}


def is_there(dep: Dep) -> bool:
    """Whether a requirement is there. Nothing is run for it."""
    return _has_library(dep.name) if dep.kind == "lib" else shutil.which(dep.name) is not None


def _has_library(name: str) -> bool:
    """By its import name, without importing anything; else by that of its distribution."""
    from importlib.util import find_spec

    if name.isidentifier():
        with suppress(ImportError, ValueError):
            if find_spec(name) is not None:
                return True
    return _distribution_version(name) is not None


def _distribution_version(name: str) -> str | None:
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError, ValueError):
        return metadata.version(name)
    return None


def _library_version(name: str) -> str | None:
    """The version of the distribution of that name, else of the one that brings the module."""
    from importlib import metadata

    found = _distribution_version(name)
    if found is not None:
        return found
    for distribution in metadata.packages_distributions().get(name.partition(".")[0], ()):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(distribution)
    return None


def _command_version(path: str, flag: str) -> str | None:
    """What the command says of its version; None where it says nothing of use in time."""
    try:
        running = subprocess.Popen(
            [path, *flag.split()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError:
        return None
    text = _first_output(running)
    match = _VERSION.search(text)
    return match[0] if match else None


def _first_output(running: subprocess.Popen[bytes]) -> str:
    """The beginning of what a command prints, within its time; then it is ended, with its children."""
    import selectors
    import time

    until = time.monotonic() + _VERSION_S
    text = b""
    with running, selectors.DefaultSelector() as selector:
        assert running.stdout is not None
        selector.register(running.stdout, selectors.EVENT_READ)
        while len(text) < _MAX_OUTPUT and selector.select(max(until - time.monotonic(), 0)):
            piece = os.read(running.stdout.fileno(), _MAX_OUTPUT)
            if not piece:
                break
            text += piece
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(running.pid, signal.SIGKILL)
    return text.decode("utf-8", "replace")


def _words(tool: str, missing: Sequence[Dep]) -> str:
    kinds = {"cli": "command", "lib": "library"}
    named = " and ".join(f"the {kinds[dep.kind]} '{dep.name}'" for dep in missing)
    return f"'{tool}' needs {named}, which {'is' if len(missing) == 1 else 'are'} not installed."


def _hint(missing: Sequence[Dep]) -> str:
    ways = [dep.install for dep in missing if dep.install]
    return f"Install with: {'; '.join(ways)}" if ways else "See all with: ot.deps()"
