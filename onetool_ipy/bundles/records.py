"""Records: look bundles and tools up by their ids, as they are now, and refuse what spec 002 refuses.

Each demand raises the RequestRefused that says why. Also completes a tool's record with what is not stored: whether it
can be called, how often it was.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from onetool_ipy.bundles.builtins import BUILTINS, Overlay
from onetool_ipy.bundles.catalog import Catalog, Row
from onetool_ipy.bundles.model import Bundle, BundleBody, Tool, ToolBody
from onetool_ipy.bundles.snapshot import Held, Snapshot
from onetool_ipy.bundles.store import BundleStore
from onetool_ipy.core.errors import Conflict, Forbidden, NotFound, RequestRefused
from onetool_ipy.core.model import CallSource, ToolSpec

__all__ = ["BUILT_IN", "REAP_AFTER", "Calling", "Records", "Surroundings", "no_tool", "refuse_built_in", "refuse_off"]

REAP_AFTER = datetime.timedelta(days=2)
"""How long a deleted bundle stays before it is removed for good."""

BUILT_IN = frozenset(builtin.bundle_id for builtin in BUILTINS)


class Calling(Protocol):
    """Run a call through the executor."""

    def __call__(self, tool: str, args: Any, *, source: CallSource, timeout: float | None) -> Any: ...


class Surroundings(NamedTuple):
    """What the bundles need of their toolbox.

    `find` looks a tool up as it is known, `refresh` lets the registry look again. `taken` says what has a name already
    (`pack 'x'`), or nothing. `counts` is how often each tool was called, and when last.
    """

    find: Callable[[str], ToolSpec | None]
    refresh: Callable[[], object]
    taken: Callable[[str], str]
    secret_names: Callable[[], Collection[str]]
    counts: Callable[[], Mapping[str, tuple[int, datetime.datetime]]]
    call: Calling
    acall: Calling
    clock: Callable[[], datetime.datetime]


class Records:
    """The records of one store, with the built-in ones."""

    def __init__(self, store: BundleStore, overlay: Overlay, around: Surroundings) -> None:
        self.catalog = Catalog(store, overlay, around.find)
        self._store = store
        self._around = around

    def held(self, snapshot: Snapshot, bundle_id: str) -> Held:
        """The stored bundle of that id; NotFound where there is none, or where it was deleted."""
        found = snapshot.bundles.get(bundle_id)
        if found is None or found.bundle.soft_deleted_at is not None:
            raise self.no_bundle(bundle_id)
        return found

    def opened(self, snapshot: Snapshot, bundle_id: str) -> Held:
        """`held`, for a change of what is in it; Forbidden while it is off."""
        found = self.held(snapshot, bundle_id)
        refuse_off(found.bundle)
        return found

    def bundle(self, bundle_id: str) -> Bundle:
        """The bundle of that id, built-in or stored."""
        found = next((bundle for bundle in self.catalog.bundles() if bundle.bundle_id == bundle_id), None)
        if found is None:
            raise self.no_bundle(bundle_id)
        return found

    def row(self, bundle_id: str, pair: tuple[str, str]) -> Row | None:
        """The tool of that slug and version, or None."""
        return self.catalog.row(bundle_id, pair)

    def rows_of(self, bundle_id: str) -> dict[tuple[str, str], Row]:
        """The tools of a bundle by slug and version."""
        return {row.tool.pair: row for row in self.catalog.rows() if row.bundle.bundle_id == bundle_id}

    def no_bundle(self, bundle_id: str) -> RequestRefused:
        """Why there is no bundle of that id."""
        try:
            self._store.require_sound(bundle_id)
        except Conflict as exc:
            return exc
        return NotFound(f"There is no bundle '{bundle_id}'.", hint="See all with box.bundles.list_bundles().")

    def fresh_bundle(self, bundle_id: str, body: BundleBody, before: Bundle | None) -> Bundle:
        """What a PUT makes of a bundle."""
        now = self._around.clock().astimezone(datetime.UTC)
        return Bundle(
            bundle_id=bundle_id,
            slug=body.slug,
            display_name=body.display_name,
            description=body.description,
            is_enabled=body.is_enabled,
            created_at=now if before is None else before.created_at,
            modified_at=now if before is None else max(now, before.created_at),
        )

    def fresh_tool(self, bundle_id: str, pair: tuple[str, str], body: ToolBody) -> Tool:
        """What a PUT makes of a tool."""
        from onetool_ipy.bundles.ids import new_id

        now = self._around.clock().astimezone(datetime.UTC)
        fields: dict[str, Any] = {name: getattr(body, name) for name in ToolBody.model_fields}
        fields |= {"display_name": body.display_name or pair[0], "tool_id": new_id(), "bundle_id": bundle_id}
        origin = body.output_schema_from or "author"
        fields["output_schema_from"] = None if body.output_schema is None else origin
        return Tool(**fields, slug=pair[0], version=pair[1], created_at=now, modified_at=now)

    def shown(self, rows: Iterable[Row]) -> list[Tool]:
        """The records as they are given out: with whether they can be called, and how often they were."""
        rows = list(rows)
        if any(row.tool.go_tool is not None and not row.tool.is_built_in for row in rows):
            self._around.refresh()
        counts = self._around.counts()
        return [row.tool.model_copy(update=self._computed(row, counts)) for row in rows]

    def reap(self, snapshot: Snapshot) -> list[str]:
        """Remove what was deleted long enough ago and is still empty; only while the store is being written."""
        gone = []
        for bundle_id, held in snapshot.bundles.items():
            if self.is_due(held) and self._store.is_bare(bundle_id):
                self._store.remove_bundle(bundle_id)
                gone.append(bundle_id)
        return gone

    def is_due(self, held: Held) -> bool:
        """Whether a bundle was deleted long enough ago to be removed."""
        deleted = held.bundle.soft_deleted_at
        return deleted is not None and self._around.clock() - deleted >= REAP_AFTER

    def _computed(self, row: Row, counts: Mapping[str, tuple[int, datetime.datetime]]) -> dict[str, Any]:
        """A version counts its own calls, and while its slug stands for it those by the slug alone."""
        names = [row.name, *([row.plain_name] if row.is_chosen else [])]
        found = [counts[name] for name in dict.fromkeys(names) if name in counts]
        last = max((at for _, at in found), default=None)
        reason = self._reason(row)
        return {
            "call_count": sum(count for count, _ in found),
            "last_called_at": last,
            "available": reason is None,
            "reason": reason,
        }

    def _reason(self, row: Row) -> str | None:
        """Why a local function cannot be called now."""
        go = row.tool.go_tool
        if go is None or row.tool.is_built_in:
            return None
        spec = self._around.find(go.func)
        if spec is None:
            return f"There is no function '{go.func}' now. The tool comes back with it."
        return f"'{go.func}' is switched off: {spec.disabled}" if spec.disabled else None


def refuse_built_in(bundle_id: str) -> None:
    """Nothing of a built-in bundle can be changed but its switches."""
    if bundle_id in BUILT_IN:
        raise Forbidden("Built-in bundles are read-only; they can only be turned on and off.")


def refuse_off(bundle: Bundle) -> None:
    """Nothing in a bundle that is off can be changed."""
    if not bundle.is_enabled:
        raise Forbidden(f"The bundle '{bundle.slug}' is off.", hint=f"Turn it on with: %tool bundle on {bundle.slug}")


def no_tool(pair: tuple[str, str]) -> NotFound:
    """There is no such version of such a tool."""
    return NotFound(f"There is no version '{pair[1]}' of a tool '{pair[0]}' in this bundle.")
