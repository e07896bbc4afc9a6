"""The lock file `.onetool/onetool.lock`: what every server, pack, bundle and tool of a project was
when it was written.

It is committed with the project. The same project gives the same bytes; nothing in it names a path
of this machine that the project's own files do not name. Tools that this package ships, and what a
session added (tools of cells, adopted tools, servers), are not in it. The code of a pack file is in
it as `sources/pack_code.py` sees it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import StoreError, bytes_of, write_whole
from onetool_ipy.base.foreign_json import NotJson, parse_json
from onetool_ipy.base.values import Json
from onetool_ipy.config.trust import Pin, difference
from onetool_ipy.core.drift import changes, facts
from onetool_ipy.core.tool import ToolSpec

NAME = "onetool.lock"
VERSION = 1
_MAX_FILE = 64 << 20
_LEFT_OUT = ("builtin", "cell")

LockedKind = Literal["server", "pack", "bundle", "tool"]
_KINDS: dict[str, LockedKind] = {
    "servers": "server",
    "packs": "pack",
    "bundles": "bundle",
    "tools": "tool",
}
"""What each part of a lock file is about."""


class LockProblem(UsageProblem, reason="lock"):
    """The lock file is missing, damaged, or of a later version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One thing that is not as it was: a tool, server, pack or bundle that is gone, new, or
    changed."""

    kind: LockedKind
    name: str
    state: Literal["gone", "new", "changed"]
    lines: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The drift in words: what it is about, and a line for each change."""
        head = (
            f"The {self.kind} '{self.name}' {'is ' if self.state != 'changed' else ''}{self.state}"
        )
        return head + (
            "." if not self.lines else ":\n" + "\n".join(f"  {line}" for line in self.lines)
        )


def lock_of(
    specs: Iterable[ToolSpec], servers: Mapping[str, Pin], mask: Callable[[str], str]
) -> Json:
    """Return a lock file for these servers and the tools of the project's files, without
    secrets."""
    # A server of this session is in no file of the project, so its tools are not, either.
    named = (
        spec
        for spec in specs
        if spec.origin not in _LEFT_OUT and (not spec.server or spec.server in servers)
    )
    # The servers of the lock file stand there as they are written. How one is started here, with
    # its folders and variables filled in, differs from machine to machine.
    tools = {
        spec.name: spec.replace(server_facts=spec.server_facts._replace(definition=""))
        if spec.server
        else spec
        for spec in named
    }
    described = {name: facts(spec) for name, spec in tools.items()}
    packs: dict[str, dict[str, list[str]]] = {"pack": {}, "bundle": {}}
    for name, spec in tools.items():
        if not spec.server:
            kind = "bundle" if spec.origin == "bundle" else "pack"
            packs[kind].setdefault(spec.pack, []).append(described[name]["fingerprint"])
    lock: Json = values.to_json(
        {
            "version": VERSION,
            "servers": {name: dict(pin) for name, pin in servers.items()},
            "packs": {name: _digest(parts) for name, parts in packs["pack"].items()},
            "bundles": {name: _digest(parts) for name, parts in packs["bundle"].items()},
            "tools": described,
        }
    )
    masked: Json = values.map_text(lock, mask)
    return masked


def write_lock(path: Path, lock: Json) -> bool:
    """Write a lock file; False if it holds the same already."""
    data = (json.dumps(lock, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()
    if bytes_of(path, _MAX_FILE) == data:
        return False
    write_whole(path, data, mode=0o644)
    return True


def read_lock(path: Path) -> Json:
    """Read a lock file. Raises LockProblem."""
    hint = "Restore it, or delete it and write a new one: onetool-ipy lock"
    try:
        content = bytes_of(path, _MAX_FILE)
        if content is None:
            raise LockProblem(
                f"There is no lock file '{path}'.", hint="Write one: onetool-ipy lock"
            )
        lock = parse_json(content)
    except StoreError as exc:
        raise LockProblem(f"'{path}' cannot be read: {exc.reason}.", hint=hint) from exc
    except NotJson as exc:
        raise LockProblem(f"'{path}' is damaged: it {exc}.", hint=hint) from exc
    version = lock.get("version") if isinstance(lock, dict) else None
    if isinstance(version, int) and version > VERSION:
        later = (
            f"'{path}' was written by a later version of onetool-ipy (its version is {version})."
        )
        raise LockProblem(later, hint="Upgrade: pip install --upgrade onetool-ipy")
    if version != VERSION or not all(isinstance(lock.get(part), dict) for part in _KINDS):
        raise LockProblem(
            f"'{path}' is damaged: it is not a lock file of version {VERSION}.", hint=hint
        )
    read: Json = lock
    return read


def drifts(before: Json, after: Json) -> list[Drift]:
    """Say what is not as the lock has it: servers, packs and bundles that came or went, and each
    tool that changed."""
    entries: list[Drift] = []
    for part, kind in _KINDS.items():
        old, new = before[part], after[part]
        for name in sorted({*old, *new}):
            if name not in new:
                entries.append(Drift(kind=kind, name=name, state="gone"))
            elif name not in old:
                entries.append(Drift(kind=kind, name=name, state="new"))
            elif old[name] != new[name] and part in ("servers", "tools"):
                # Packs and bundles change by their tools, which say so themselves.
                sides = [
                    side if isinstance(side, Mapping) else {} for side in (old[name], new[name])
                ]
                if lines := changes(*sides) if part == "tools" else difference(*sides):
                    entries.append(Drift(kind=kind, name=name, state="changed", lines=tuple(lines)))
    return entries


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:32]
