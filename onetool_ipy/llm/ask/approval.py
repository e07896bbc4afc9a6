"""Which calls need a person's approval, how the question is asked, and what was approved before.

A tool that is not read-only needs approval; a server's own hint that it is counts only if the
server is trusted. An approval holds for a tool as it was: it carries the tool's fingerprint, and a
changed tool asks again. "Always" lasts as long as the toolbox. For `ask.approve` in the user's own
settings the fingerprints are kept in the user's state folder, as first seen, with what the tool
was, so that the question says what changed; naming a tool in `approve=` adds its current one. A
file of a later format approves nothing and is not changed; neither is one that cannot be read,
which counts as empty. What cannot be kept holds for the life of the toolbox.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onetool_ipy.base import files
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.values import Json
from onetool_ipy.core import names
from onetool_ipy.core.drift import changes, facts
from onetool_ipy.core.labels import UNKNOWN
from onetool_ipy.core.question import ProposedCall, Question
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.ask.guard import Flow

_FORMAT = 2


class PendingCall(NamedTuple):
    """A call that waits for approval; `changed` says that the tool has changed since it was
    approved.

    `fingerprint` is the tool's fingerprint at the time of the question: a yes is for that one.
    `changes` says how the tool changed, as far as that is known. `flow` is what the call would
    carry to another place; `is_write` says that the call would be asked about without it, too.
    """

    spec: ToolSpec
    args: Mapping[str, Any]
    changed: bool = False
    fingerprint: str = ""
    changes: tuple[str, ...] = ()
    flow: Flow | None = None
    is_write: bool = True


class Approvals:
    """What one ask may run without a question.

    `always` is shared by all asks of a toolbox. `by_settings` is what the user's own settings
    approve; `place` is the file with the fingerprints of those tools. `named` are the tools that
    the person named in `approve=`.
    """

    def __init__(
        self,
        always: dict[str, tuple[str, Json]],
        by_settings: Sequence[str],
        place: Path,
        named: Iterable[ToolSpec] = (),
    ) -> None:
        self._always = always
        self._by_settings = by_settings
        self._place = place
        self._named = {spec.name: spec for spec in named}
        approved = (_read(place) or {}) if self._named else {}
        new = [
            spec
            for name, spec in self._named.items()
            if name in approved and spec.fingerprint not in approved[name]
        ]
        if new:
            _add(place, new)

    def always(self, spec: ToolSpec, fingerprint: str) -> None:
        """Approve a tool with this fingerprint for the life of the toolbox."""
        self._always[spec.name] = fingerprint, facts(spec)

    def names(self, spec: ToolSpec) -> bool:
        """Whether this very ask names the tool, as it is."""
        named = self._named.get(spec.name)
        return named is not None and named.fingerprint == spec.fingerprint

    def changes(self, spec: ToolSpec) -> tuple[str, ...]:
        """Say how a tool differs from the one that the person approved, as far as that one is
        known."""
        named, always = self._named.get(spec.name), self._always.get(spec.name)
        before = (
            facts(named) if named else always[1] if always else _facts(self._place).get(spec.name)
        )
        return tuple(changes(before, facts(spec))) if isinstance(before, dict) else ()

    def state(self, spec: ToolSpec, fingerprint: str) -> Literal["allowed", "unknown", "changed"]:
        """Whether a tool is approved: by this ask, by an earlier "always", or by the settings and
        unchanged since."""
        name, before = spec.name, set[str]()
        if name in self._named:
            before.add(self._named[name].fingerprint)
        if name in self._always:
            before.add(self._always[name][0])
        if fingerprint in before:
            return "allowed"
        if names.allowed(name, self._by_settings) and (approved := _read(self._place)) is not None:
            if name not in approved and not _add(self._place, [spec]):
                # What cannot be kept, on a full disk, holds as it is for the life of the toolbox.
                self.always(spec, fingerprint)
            if fingerprint in approved.get(name, [fingerprint]) and not before:
                return "allowed"
            before.add(fingerprint)
        return "changed" if before else "unknown"


def question(pending: Sequence[PendingCall]) -> Question:
    """Make the one question of a turn: every call with every argument by name."""
    calls = []
    for call in pending:
        note = "this tool has changed since it was approved" if call.changed else ""
        note += ": " + "; ".join(line.strip() for line in call.changes) if call.changes else ""
        if call.flow is not None:
            note = ". ".join(filter(None, (note, call.flow.text)))
        sends = call.flow.place if call.flow is not None and not call.is_write else ""
        calls.append(ProposedCall.of(call.spec, call.args, note, sends))
    # A yes to an unknown place would be one to any.
    is_unknown = any(call.sends == UNKNOWN for call in calls)
    return Question("the model", "", calls=tuple(calls), each_time=is_unknown)


def _load(place: Path) -> dict[str, Any]:
    """Read the file; empty for one that is missing or cannot be read."""
    try:
        return files.read_object(place)
    except files.StoreError:
        return {}


def _facts(place: Path) -> dict[str, Any]:
    """Read what each tool was when it was approved."""
    entry = _load(place).get("facts")
    return entry if isinstance(entry, dict) else {}


def _read(place: Path) -> dict[str, list[str]] | None:
    """Read the fingerprints of each tool. Returns None for a file of a later version.

    Older versions wrote one of words and schema only; it matches no tool, so the tool asks again.
    """
    data = _load(place)
    number = data.get("format")
    if isinstance(number, int) and number > _FORMAT:
        return None
    tools = data.get("tools") if number is not None else data
    if not isinstance(tools, dict):
        return {}
    return {name: _fingerprints(entry) for name, entry in tools.items()}


def _fingerprints(entry: object) -> list[str]:
    """The fingerprints of an entry; none of them matches a tool if it is not one of ours."""
    return [str(each) for each in (entry if isinstance(entry, list) else [entry])]


def _add(place: Path, specs: Sequence[ToolSpec]) -> bool:
    """Add the fingerprint of each tool, and what it is; False if the file could not be written."""
    try:
        files.make_folder(place.parent)
        with files.locked(place):
            data = files.read_object(place)  # raises where nothing may be written over it
            is_ours = "format" not in data or isinstance(data.get("tools", {}), dict)
            if _read(place) is None or not is_ours:
                return False
            if "format" not in data:
                data = {"format": _FORMAT, "tools": data}
            data["format"] = _FORMAT
            tools, described = data.setdefault("tools", {}), data.setdefault("facts", {})
            for spec in specs:
                tools[spec.name] = [*_fingerprints(tools.get(spec.name, [])), spec.fingerprint]
                if isinstance(described, dict):
                    described[spec.name] = facts(spec)
            files.write_whole(place, json.dumps(data, indent=1).encode("utf-8"))
    except OneToolError:
        return False
    return True
