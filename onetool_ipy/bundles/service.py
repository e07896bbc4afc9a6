"""Bundles: every verb of spec 002 as a method. REST, magics and the panel are thin over it.

Owns the rules of 002: what may be put where, what is refused inside a disabled bundle, what a built-in allows. Refusals
are RequestRefused with a code and a status; what is refused changes nothing. `invoke` is a call like any other: it goes
through the executor by the name of the very version, and gives a ToolResult.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onetool_ipy.bundles import ids
from onetool_ipy.bundles.builtins import Overlay
from onetool_ipy.bundles.catalog import Row, by_age
from onetool_ipy.bundles.checks import require_callable
from onetool_ipy.bundles.faults import with_others
from onetool_ipy.bundles.model import Bundle, BundleBody, Page, Record, Switch, Tool, ToolBody, read
from onetool_ipy.bundles.paging import DEFAULT_SIZE, Key, page_of
from onetool_ipy.bundles.records import BUILT_IN, Records, Surroundings, no_tool, refuse_built_in, refuse_off
from onetool_ipy.bundles.runners import Runners
from onetool_ipy.bundles.store import BundleStore
from onetool_ipy.core import values
from onetool_ipy.core.collector import set_aside
from onetool_ipy.core.errors import Conflict, InvalidRequest
from onetool_ipy.core.model import CallSource, ToolResult

if TYPE_CHECKING:
    from onetool_ipy.bundles.http import HttpRunner

__all__ = ["Bundles"]


class Bundles:
    """The bundles of a project. Records go out as `Bundle` and `Tool`, lists as a `Page`."""

    def __init__(self, store: BundleStore, overlay: Overlay, runners: Runners, around: Surroundings) -> None:
        self._store = store
        self._overlay = overlay
        self._runners = runners
        self._around = around
        self._records = Records(store, overlay, around)
        self._place = str(store.root)

    def new_id(self) -> str:
        """A new UUIDv7."""
        return ids.new_id()

    # Bundles

    def put_bundle(
        self,
        id: str,  # noqa: A002 - contract 15
        *,
        slug: str,
        display_name: str,
        description: str = "",
        enabled: bool = True,
    ) -> Bundle:
        """Create a bundle, or replace what it says; `was_created` of the answer tells which."""
        bundle_id = ids.require_id(id)
        given = {"slug": slug, "displayName": display_name, "description": description, "isEnabled": enabled}
        body = read(BundleBody, given)
        refuse_built_in(bundle_id)
        taken = self._around.taken(body.slug)
        if taken:
            raise Conflict(f"The slug '{body.slug}' is the name of the {taken}.", hint="Choose another slug.")
        with self._store.writing() as snapshot:
            self._records.reap(snapshot)
            known = snapshot.bundles.get(bundle_id)
            if known is None:
                self._store.require_sound(bundle_id)
            elif known.bundle.soft_deleted_at is not None:
                raise Conflict(f"The bundle '{bundle_id}' was deleted.", hint="Make a new one under a new id.")
            other = snapshot.of_slug(body.slug)
            if other is not None and other.bundle.bundle_id != bundle_id:
                raise Conflict(f"The slug '{body.slug}' is that of the bundle '{other.bundle.bundle_id}'.")
            made = self._records.fresh_bundle(bundle_id, body, None if known is None else known.bundle)
            self._store.save_bundle(made)
        self._around.refresh()
        return made.created() if known is None else made

    def patch_bundle(self, id: str, *, enabled: bool) -> Bundle:  # noqa: A002 - contract 15
        """Turn a bundle on or off, with all tools in it."""
        bundle_id, switch = ids.require_id(id), read(Switch, {"isEnabled": enabled})
        with self._store.writing() as snapshot:
            if bundle_id in BUILT_IN:
                self._overlay.switch(bundle_id, enabled=switch.is_enabled)
            else:
                bundle = self._records.held(snapshot, bundle_id).bundle
                if bundle.is_enabled is not switch.is_enabled:
                    self._store.save_bundle(bundle.model_copy(update={"is_enabled": switch.is_enabled}))
        self._around.refresh()
        return self.get_bundle(bundle_id)

    def delete_bundle(self, id: str) -> Bundle:  # noqa: A002 - contract 15
        """Mark an empty bundle as deleted; it is removed for good after two days."""
        bundle_id = ids.require_id(id)
        refuse_built_in(bundle_id)
        with self._store.writing() as snapshot:
            self._records.reap(snapshot)
            held = self._records.held(snapshot, bundle_id)
            if not self._store.is_bare(bundle_id):
                count = len(held.tools)
                said = f"holds {count} tool{'' if count == 1 else 's'}" if count else "holds files that are no tools"
                raise Conflict(f"The bundle '{held.bundle.slug}' {said}.", hint="Delete them first.")
            gone = held.bundle.model_copy(update={"soft_deleted_at": self._around.clock().astimezone(datetime.UTC)})
            self._store.save_bundle(gone)
        self._around.refresh()
        return gone

    def get_bundle(self, id: str) -> Bundle:  # noqa: A002 - as the others
        """One bundle, also a disabled one."""
        return self._records.bundle(ids.require_id(id))

    def named(self, slug: str) -> Bundle | None:
        """The bundle of that slug, or None."""
        return next((bundle for bundle in self._records.catalog.bundles() if bundle.slug == slug), None)

    def list_bundles(
        self,
        *,
        ids: Iterable[str] | None = None,
        include_disabled: bool = False,
        page_size: int = DEFAULT_SIZE,
        page_token: str | None = None,
    ) -> Page:
        """The bundles, built-in ones first, then the oldest first."""
        wanted = _ids(ids)
        rows = [
            bundle
            for bundle in self._records.catalog.bundles()
            if (wanted is None or bundle.bundle_id in wanted) and (bundle.is_enabled or include_disabled)
        ]
        rows.sort(key=_bundle_key)
        query = ["bundles", sorted(wanted) if wanted is not None else None, bool(include_disabled)]
        items, more = page_of(rows, _bundle_key, size=page_size, token=page_token, query=query, store=self._place)
        return Page(items=items, next_page_token=more)

    def reap(self) -> list[str]:
        """Remove for good what was deleted two days ago and is still empty; gives the ids. Other writes do it too."""
        if not any(self._records.is_due(held) for held in self._store.look().bundles.values()):
            return []
        with self._store.writing() as snapshot:
            return self._records.reap(snapshot)

    # Tools

    def put_tool(self, bundle_id: str, slug: str, version: str, record: Mapping[str, Any]) -> Tool:
        """Create a tool. Another one of the same slug and version is a conflict, and stays as it is."""
        return self.put_tools(bundle_id, [(slug, version, record)])[0]

    def put_tools(self, bundle_id: str, tools: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[Tool]:
        """Create several tools of a bundle at once: where one of them is refused, none is made."""
        own = ids.require_id(bundle_id)
        refuse_built_in(own)
        with set_aside():
            bodies = [self._checked(*tool) for tool in tools]
        with self._store.writing() as snapshot:
            held = self._records.opened(snapshot, own)
            taken = {*held.tools, *held.claimed}
            for pair, _ in bodies:
                if pair in taken:
                    raise Conflict(
                        f"The bundle '{held.bundle.slug}' has version '{pair[1]}' of '{pair[0]}' already.",
                        hint="Give it another version, or delete that one first.",
                    )
                taken.add(pair)
            made = [self._records.fresh_tool(own, pair, body) for pair, body in bodies]
            self._store.save_tools(own, made)
        self._around.refresh()
        rows = self._records.rows_of(own)
        return self._records.shown(rows[tool.pair] for tool in made if tool.pair in rows)

    def get_tool(self, bundle_id: str, slug: str, version: str) -> Tool:
        """One tool, also of a disabled bundle."""
        own, pair = _place(bundle_id, slug, version)
        row = self._records.row(own, pair)
        if row is None:
            self._records.bundle(own)
            raise no_tool(pair)
        return self._records.shown([row])[0]

    def patch_tool(self, bundle_id: str, slug: str, version: str, *, enabled: bool) -> Tool:
        """Turn one version of a tool on or off."""
        switch = read(Switch, {"isEnabled": enabled})
        own, pair = _place(bundle_id, slug, version)
        with self._store.writing() as snapshot:
            if own in BUILT_IN:
                row = self._records.row(own, pair)
                if row is None:
                    raise no_tool(pair)
                refuse_off(row.bundle)
                self._overlay.switch(row.tool.tool_id, enabled=switch.is_enabled)
            else:
                held = self._records.opened(snapshot, own)
                tool = held.tools.get(pair)
                if tool is None:
                    raise no_tool(pair)
                if tool.is_enabled is not switch.is_enabled:
                    self._store.save_tools(own, [tool.model_copy(update={"is_enabled": switch.is_enabled})])
        self._around.refresh()
        return self.get_tool(own, *pair)

    def delete_tool(self, bundle_id: str, slug: str, version: str) -> None:
        """Delete a tool for good, also one of a disabled bundle."""
        own, pair = _place(bundle_id, slug, version)
        refuse_built_in(own)
        with self._store.writing() as snapshot:
            tool = self._records.held(snapshot, own).tools.get(pair)
            if tool is None:
                raise no_tool(pair)
            self._store.remove_tool(tool)
        self._around.refresh()

    def list_tools(
        self,
        *,
        tags: Iterable[str] | None = None,
        bundle_ids: Iterable[str] | None = None,
        include_disabled: bool = False,
        page_size: int = DEFAULT_SIZE,
        page_token: str | None = None,
    ) -> Page:
        """The tools of all bundles, the oldest first; with `tags` those that have one of them."""
        wanted, words = _ids(bundle_ids), _texts(tags, "tags")
        rows = [
            row
            for row in self._records.catalog.rows()
            if (row.is_on or include_disabled)
            and (wanted is None or row.bundle.bundle_id in wanted)
            and (words is None or not words.isdisjoint(row.tool.tags))
        ]
        query = [
            "tools",
            *(sorted(one) if one is not None else None for one in (words, wanted)),
            bool(include_disabled),
        ]
        items, more = page_of(rows, _tool_key, size=page_size, token=page_token, query=query, store=self._place)
        return Page(items=self._records.shown(items), next_page_token=more)

    def search(
        self,
        q: str,
        *,
        include_disabled: bool = False,
        page_size: int = DEFAULT_SIZE,
        page_token: str | None = None,
    ) -> Page:
        """The tools that fit what was typed, best first; equal ones by when they were changed last."""
        if not isinstance(q, str):
            raise InvalidRequest(f"q: {values.safe_repr(q, 80)} is not text.")
        found = [one for one in self._records.catalog.search(q) if one[1].is_on or include_disabled]
        query = ["search", q, bool(include_disabled)]
        items, more = page_of(
            found, lambda one: one[0], size=page_size, token=page_token, query=query, store=self._place
        )
        return Page(items=self._records.shown([row for _, row in items]), next_page_token=more)

    # Calls

    def invoke(
        self,
        bundle_id: str,
        slug: str,
        version: str,
        args: Mapping[str, Any] | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
    ) -> ToolResult:
        """Call one version of a tool. Its failure is data in the result, also that there is no such tool."""
        name = self._call_name(bundle_id, slug, version)
        result: ToolResult = self._around.call(name, {} if args is None else args, source=source, timeout=timeout)
        return result

    async def ainvoke(
        self,
        bundle_id: str,
        slug: str,
        version: str,
        args: Mapping[str, Any] | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
    ) -> ToolResult:
        """`invoke` without blocking the event loop."""
        name = self._call_name(bundle_id, slug, version)
        result: ToolResult = await self._around.acall(
            name, {} if args is None else args, source=source, timeout=timeout
        )
        return result

    def draft(self, record: Mapping[str, Any] | Record, *, name: str = "draft") -> HttpRunner:
        """An HTTP tool that is not stored, ready to be tried out; refused as `put_tool` would refuse it."""
        from onetool_ipy.bundles.http import HttpRunner

        made = self._runners.draft(self._checked("draft", "1", _unlabelled(record))[1], name)
        if not isinstance(made, HttpRunner):
            raise InvalidRequest("type: only HTTP tools can be tried out without being stored.")
        return made

    def preview(self, bundle_id: str, slug: str, version: str, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What an HTTP tool would send, masked; nothing is sent."""
        from onetool_ipy.bundles.http import HttpRunner

        own, pair = _place(bundle_id, slug, version)
        row = self._records.row(own, pair)
        if row is None:
            self._records.bundle(own)
            raise no_tool(pair)
        made = self._runners.of(row.tool, row.name)
        if not isinstance(made, HttpRunner):
            raise InvalidRequest(f"'{row.name}' is a local function; it sends nothing.")
        return made.preview(args)

    def _checked(self, slug: str, version: str, record: Any) -> tuple[tuple[str, str], ToolBody]:
        """The body of a PUT, if it could be called as it is written."""
        try:
            pair = (ids.require_slug(slug), ids.require_version(version))
            body = read(ToolBody, record, own=pair)
        except InvalidRequest as exc:
            checks = (
                lambda: ids.require_slug(slug),
                lambda: ids.require_version(version),
                lambda: read(ToolBody, _unlabelled(record), own=(slug, version)),
            )
            raise with_others(exc, checks) from None
        require_callable(body, f"{pair[0]}@{pair[1]}", runners=self._runners, secrets=self._around.secret_names())
        return pair, body

    def _call_name(self, bundle_id: str, slug: str, version: str) -> str:
        """What the executor calls this version; a name that nothing has where there is no such version."""
        own, pair = _place(bundle_id, slug, version)
        row = self._records.row(own, pair)
        return row.name if row is not None else f"{own}.{pair[0]}@{pair[1]}"


def _place(bundle_id: Any, slug: Any, version: Any) -> tuple[str, tuple[str, str]]:
    return ids.require_id(bundle_id), (ids.require_slug(slug), ids.require_version(version))


def _unlabelled(record: Any) -> Any:
    """A tool's record without the slug and the version that may stand in it."""
    if not isinstance(record, Mapping | Record):
        return record
    return {key: record[key] for key in record.keys() if key not in ("slug", "version")}  # noqa: SIM118 - records too


def _bundle_key(bundle: Bundle) -> Key:
    return by_age(bundle.created_at.timestamp(), bundle.bundle_id)


def _tool_key(row: Row) -> Key:
    return by_age(row.tool.created_at.timestamp(), row.tool.tool_id)


def _ids(given: Iterable[str] | None) -> set[str] | None:
    found = _texts(given, "bundleIDs")
    return None if found is None else {ids.require_id(one, "bundleIDs") for one in found}


def _texts(given: Iterable[str] | None, field: str) -> set[str] | None:
    if given is None:
        return None
    listed = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if not all(isinstance(one, str) for one in listed):
        raise InvalidRequest(f"{field}: {values.safe_repr(listed, 80)} is not a list of texts.")
    return set(listed)
