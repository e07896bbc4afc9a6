"""Bundles: every operation of spec 002 as a method. REST, magics and the panel are thin over it.

Owns the rules of 002: what may be put where, what is refused inside a disabled bundle, what a
built-in allows. A refusal is a RequestRefused with a code and a status, and changes nothing. A tool
is stored only if it could be called: its schemas compile, its placeholders have a meaning, its
names are free. `invoke` is a call like any other: it goes through the executor by the name of the
version, and returns a ToolResult.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple, NoReturn, TypeVar

from onetool_ipy.base import values
from onetool_ipy.base.errors import Conflict, Forbidden, InvalidRequest, InvalidTool, NotFound
from onetool_ipy.base.records import collector_paused
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.builtins import BUILTINS
from onetool_ipy.bundles.catalog import (
    DEFAULT_SIZE,
    BundleCatalog,
    CatalogRow,
    Key,
    SearchHit,
    bundle_key,
    page_of,
)
from onetool_ipy.bundles.http.address import below, is_relative
from onetool_ipy.bundles.http.auth import auth_of
from onetool_ipy.bundles.http.definition import Auth, HttpDefinition, NoAuth
from onetool_ipy.bundles.http.request import PreparedRequest
from onetool_ipy.bundles.http.runner import HttpRunner, OutputCheck
from onetool_ipy.bundles.model import (
    Bundle,
    BundleBody,
    Page,
    Switch,
    Tool,
    ToolBody,
    WireModel,
    read,
)
from onetool_ipy.bundles.source import BundleContext, Runners
from onetool_ipy.bundles.store import BundleSnapshot, StoredBundle
from onetool_ipy.bundles.validation import (
    fault,
    new_id,
    require_id,
    require_slug,
    require_version,
    together,
    with_others,
)
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import CallSource, ToolSpec
from onetool_ipy.schema.check import compile_schema
from onetool_ipy.schema.read import params

_ANYWHERE = "http://localhost/"
_SHARED = "Arguments and secrets must not share a name; rename the argument."
REAP_AFTER = datetime.timedelta(days=2)
"""How long a deleted bundle stays before it is removed for good."""

Row = TypeVar("Row")
_BUILT_IN = frozenset(builtin.bundle_id for builtin in BUILTINS)


def _wrong_parts(http: HttpDefinition, arguments: Set[str]) -> Iterator[tuple[str, InvalidTool]]:
    """Find the parts of a refused definition that cannot work: the JSON pointer of each, and why.

    Each part is prepared alone, by the same code that prepares the whole.
    """
    steps: frozenset[str] = frozenset()
    for number, (name, step) in enumerate(http.plan()):
        place = "/request" if http.request is not None else f"/steps/{number}/request"
        request = step.request
        bare = request.model_copy(
            update={"url_template": _ANYWHERE, "query": {}, "headers": {}, "body": None}
        )
        content_type = {
            key: value for key, value in request.headers.items() if key.lower() == "content-type"
        }
        parts: dict[str, Json] = {
            "urlTemplate": {"url_template": request.url_template},
            "query": {"query": request.query},
            "headers": {"headers": request.headers},
            "body": {"body": request.body, "headers": content_type},
            "auth": {},
        }
        for part, fields in parts.items():
            try:
                if part == "auth":
                    auth_of(request.auth, arguments, steps)
                else:
                    PreparedRequest(bare.model_copy(update=fields), arguments, steps)
            except InvalidTool as exc:
                yield f"{place}/{part}", exc
        steps |= {name}


def _require_callable(
    body: ToolBody, name: str, *, runners: Runners, secrets: Collection[str]
) -> None:
    """Raise InvalidRequest, which names every wrong field, for a tool that could not be called as
    it is written."""
    both = (
        sorted({param.name for param in params(body.arg_schema)} & set(secrets)) if secrets else []
    )
    wrong = [
        _at("/argSchema", "argSchema", f"'{name}' is also the name of a secret.", _SHARED)
        for name in both
    ]
    try:
        runners.new(body, name)
        if body.http is None:
            compile_schema(body.arg_schema)
    except InvalidTool as exc:
        wrong += _reasons(body, exc)
    if wrong:
        raise together(wrong)


def _reasons(body: ToolBody, error: InvalidTool) -> list[InvalidRequest]:
    """Every reason why a tool cannot work: its schemas, else the parts of its request, else the
    error found."""
    faults = []
    for field, schema in (("argSchema", body.arg_schema), ("outputSchema", body.output_schema)):
        try:
            OutputCheck(schema)
        except InvalidTool as exc:
            faults.append(_at(f"/{field}", field, exc.message, exc.hint))
    if faults:
        return faults
    parts = [("", error)]
    if body.http is not None:
        parts = (
            list(_wrong_parts(body.http, {param.name for param in params(body.arg_schema)}))
            or parts
        )
    place = "/http" if body.http is not None else "/goTool"
    return [_at(place + part, body.type, exc.message, exc.hint) for part, exc in parts]


def _at(pointer: str, field: str, message: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {message}", hint=hint, details=[fault(pointer, message, hint)])


class ServiceDependencies(NamedTuple):
    """What the service needs from its toolbox.

    `find` looks a tool up, `refresh` makes the registry read its sources again. `taken` names what
    already has a name (`pack 'x'`), or is empty. `counts` gives how often each tool was called, and
    when last.
    """

    find: Callable[[str], ToolSpec | None]
    refresh: Callable[[], object]
    taken: Callable[[str], str]
    secret_names: Callable[[], Collection[str]]
    counts: Callable[[], Mapping[str, tuple[int, datetime.datetime]]]
    call: Callable[..., ToolResult]
    clock: Callable[[], datetime.datetime]


def _common_auth(stored: StoredBundle) -> Auth | None:
    """The auth that all requests to the host of a bundle have that have any; None if there are
    several, or none.

    One that is filled by an argument is a tool's own.
    """
    auths = []
    for tool in stored.tools.values():
        arguments = {param.name for param in params(tool.arg_schema)}
        for _, step in tool.http.plan() if tool.http is not None else ():
            auth = step.request.auth
            if (
                auth is None
                or isinstance(auth, NoAuth)
                or not step.request.is_at(stored.bundle.base_url or "")
            ):
                continue
            prepared = auth_of(auth, arguments, frozenset())
            if prepared is None or any(ref.kind != "secret" for ref in prepared.refs()):
                return None
            auths.append(auth)
    return auths[0] if auths and all(auth == auths[0] for auth in auths) else None


def _refuse_built_in(bundle_id: str) -> None:
    if bundle_id in _BUILT_IN:
        raise Forbidden(
            "Built-in bundles are read-only; they can only be turned on and off.",
            hint="Put the tool into a bundle with a name of its own.",
        )


def _refuse_off(bundle: Bundle) -> None:
    if not bundle.is_enabled:
        raise Forbidden(
            f"The bundle '{bundle.slug}' is off.",
            hint=f"Turn it on with: %tool bundle on {bundle.slug}",
        )


def _no_tool(pair: tuple[str, str]) -> NotFound:
    return NotFound(f"There is no version '{pair[1]}' of a tool '{pair[0]}' in this bundle.")


class Bundles:
    """The bundles of a project. Returns records as `Bundle` and `Tool`, lists as `Page`."""

    def __init__(self, context: BundleContext, needs: ServiceDependencies) -> None:
        self._store = context.store
        self._switches = context.switches
        self._runners = context.runners
        self.environments = context.environments
        self._needs = needs
        self._catalog = BundleCatalog(context.store, context.switches, needs.find)

    def new_id(self) -> str:
        """Return a new UUIDv7."""
        return new_id()

    # Bundles

    def put_bundle(
        self,
        id: str,  # noqa: A002 - a record calls it so
        *,
        slug: str,
        display_name: str,
        description: str = "",
        enabled: bool = True,
        base_url: str | None = None,
        auth: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
    ) -> Bundle:
        """Create a bundle, or replace what it says; `was_created` of the result says which."""
        bundle_id = require_id(id)
        fields = {
            "slug": slug,
            "displayName": display_name,
            "description": description,
            "isEnabled": enabled,
        }
        body = read(
            BundleBody, {**fields, "baseUrl": base_url, "auth": auth, "environment": environment}
        )
        try:
            auth_of(body.auth, frozenset(), frozenset())
        except InvalidTool as exc:
            # A `${name}` of the auth is the name of a secret.
            raise _at("/auth", "auth", exc.message, exc.hint) from None
        _refuse_built_in(bundle_id)
        taken = self._needs.taken(body.slug)
        if taken:
            raise Conflict(
                f"The name '{body.slug}' is the name of the {taken}.", hint="Choose another name."
            )
        with self._store.writing() as snapshot:
            self._reap(snapshot)
            before = snapshot.bundles.get(bundle_id)
            if before is None:
                self._store.require_sound(bundle_id)
            elif before.bundle.soft_deleted_at is not None:
                raise Conflict(
                    f"The bundle '{bundle_id}' was deleted.", hint="Make a new one under a new id."
                )
            other = snapshot.of_slug(body.slug)
            if other is not None and other.bundle.bundle_id != bundle_id:
                raise Conflict(
                    f"There is a bundle '{body.slug}' already.", hint="Choose another name."
                )
            if before is not None and body.base_url is None:
                # The base URL is not taken away from tools that need it.
                http_tools = [(tool.slug, tool.http) for tool in before.tools.values() if tool.http]
                steps = [(slug, step) for slug, http in http_tools for _, step in http.plan()]
                relative = [slug for slug, step in steps if is_relative(step.request.url_template)]
                if relative:
                    message = f"The URL of '{min(relative)}' is relative to the base URL."
                    details = [fault("/baseUrl", message)]
                    raise InvalidRequest(f"baseUrl: {message}", details=details)
            now = self._needs.clock().astimezone(datetime.UTC)
            created = now if before is None else before.bundle.created_at
            contents: Json = {name: getattr(body, name) for name in BundleBody.model_fields}
            bundle = Bundle(
                **contents, bundle_id=bundle_id, created_at=created, modified_at=max(now, created)
            )
            if before is not None:
                self._store_tools_for(bundle, before)
            self._store.save_bundle(bundle, before)
            if (
                before is not None
                and (stored := self._store.snapshot().bundles.get(bundle_id)) is not None
            ):
                self._store_below(stored, bundle.base_url)
        self._needs.refresh()
        return bundle.created() if before is None else bundle

    def share_auth(self, id: str) -> Bundle:  # noqa: A002 - as the others
        """Make the auth that tools of a bundle have in common the bundle's own, so that an
        environment can change it.

        No request changes by it. A bundle that has an auth, or whose tools have several, stays as
        it is. Each file that is written leaves all requests as they were, whatever is killed.
        """
        bundle_id = require_id(id)
        with self._store.writing() as snapshot:
            stored = self._stored(snapshot, bundle_id)
            bundle = stored.bundle
            auth = (
                None if bundle.base_url is None or bundle.auth is not None else _common_auth(stored)
            )
            if auth is None:
                return bundle
            unsigned = [tool.unsigned_for(bundle) for tool in stored.tools.values()]
            self._store.save_tools(stored, unsigned)
            bundle = bundle.model_copy(update={"auth": auth})
            self._store.save_bundle(bundle, stored)
            self._store.save_tools(stored, [tool.without_auth(bundle) for tool in unsigned])
        self._needs.refresh()
        return bundle

    def patch_bundle(self, id: str, *, enabled: bool) -> Bundle:  # noqa: A002 - a record calls it so
        """Turn a bundle on or off, with all tools in it."""
        bundle_id, switch = require_id(id), read(Switch, {"isEnabled": enabled})
        with self._store.writing() as snapshot:
            if bundle_id in _BUILT_IN:
                self._switches.switch(bundle_id, enabled=switch.is_enabled)
            else:
                stored = self._stored(snapshot, bundle_id)
                if stored.bundle.is_enabled is not switch.is_enabled:
                    bundle = stored.bundle.model_copy(update={"is_enabled": switch.is_enabled})
                    self._store.save_bundle(bundle, stored)
        self._needs.refresh()
        return self.get_bundle(bundle_id)

    def delete_bundle(self, id: str) -> Bundle:  # noqa: A002 - a record calls it so
        """Mark an empty bundle as deleted; it is removed for good after two days."""
        bundle_id = require_id(id)
        _refuse_built_in(bundle_id)
        with self._store.writing() as snapshot:
            self._reap(snapshot)
            stored = self._stored(snapshot, bundle_id)
            if not self._store.is_bare(stored):
                count = len(stored.tools)
                content = (
                    f"holds {count} tool{'' if count == 1 else 's'}"
                    if count
                    else "holds files that are no tools"
                )
                raise Conflict(
                    f"The bundle '{stored.bundle.slug}' {content}.", hint="Delete them first."
                )
            gone = stored.bundle.model_copy(
                update={"soft_deleted_at": self._needs.clock().astimezone(datetime.UTC)}
            )
            self._store.save_bundle(gone, stored)
        self._needs.refresh()
        return gone

    def get_bundle(self, id: str) -> Bundle:  # noqa: A002 - as the others
        """One bundle, also a disabled one."""
        bundle_id = require_id(id)
        return self._catalog.bundle(bundle_id) or self._refuse_unknown(bundle_id)

    def find_bundle(self, id: str) -> Bundle | None:  # noqa: A002 - as the others
        """One bundle, or None."""
        return self._catalog.bundle(require_id(id))

    def named(self, slug: str) -> Bundle | None:
        """The bundle of that slug, or None."""
        return next((bundle for bundle in self._catalog.bundles() if bundle.slug == slug), None)

    def all_bundles(self) -> list[Bundle]:
        """Every bundle, also disabled ones: built-in ones first, then the oldest first."""
        return sorted(
            self._catalog.bundles(), key=lambda bundle: (bundle.created_at, bundle.bundle_id)
        )

    def list_bundles(
        self,
        *,
        ids: Iterable[str] | None = None,
        include_disabled: bool = False,
        page_size: int = DEFAULT_SIZE,
        page_token: str | None = None,
    ) -> Page:
        """The bundles, built-in ones first, then the oldest first."""
        chosen = _ids(ids)
        rows = [
            bundle
            for bundle in self.all_bundles()
            if (chosen is None or bundle.bundle_id in chosen)
            and (bundle.is_enabled or include_disabled)
        ]
        query = ["bundles", sorted(chosen) if chosen is not None else None, bool(include_disabled)]
        return self._page(rows, page_size, page_token, query, key=bundle_key)

    def reap(self) -> list[str]:
        """Remove bundles deleted two days ago that are still empty; returns their ids. Other writes
        do it too."""
        if not any(map(self._is_due, self._store.snapshot().bundles.values())):
            return []
        with self._store.writing() as snapshot:
            return self._reap(snapshot)

    # Tools

    def put_tool(self, bundle_id: str, slug: str, version: str, record: Mapping[str, Any]) -> Tool:
        """Create a tool. A tool of the same slug and version is a conflict, and stays as it is."""
        return self.put_tools(bundle_id, [(slug, version, record)])[0]

    @collector_paused()
    def put_tools(
        self, bundle_id: str, tools: Sequence[tuple[str, str, Mapping[str, Any]]]
    ) -> list[Tool]:
        """Create several tools of a bundle at once. If one of them is refused, none is created."""
        own = require_id(bundle_id)
        _refuse_built_in(own)
        bundle = self._catalog.bundle(own)
        bodies = [self._checked(*tool, bundle) for tool in tools]
        with self._store.writing() as snapshot:
            stored = self._stored(snapshot, own)
            _refuse_off(stored.bundle)
            taken = {*stored.tools}
            for pair, _ in bodies:
                if pair in taken:
                    raise Conflict(
                        f"The bundle '{stored.bundle.slug}' has version '{pair[1]}' of '{pair[0]}'"
                        " already.",
                        hint="Give it another version, or delete that one first.",
                    )
                taken.add(pair)
            base_url = stored.bundle.base_url
            records = [self._record(own, pair, body).below(base_url) for pair, body in bodies]
            self._store_below(stored, base_url)
            self._store.save_tools(stored, records)
        self._needs.refresh()
        # One list of rows: each look at the catalog looks at all files.
        rows = {row.tool.pair: row for row in self._catalog.rows() if row.bundle.bundle_id == own}
        return self._complete(rows[tool.pair] for tool in records if tool.pair in rows)

    def get_tool(self, bundle_id: str, slug: str, version: str) -> Tool:
        """One tool, also of a disabled bundle."""
        return self._complete([self._row(*_place(bundle_id, slug, version))])[0]

    def find_tool(self, bundle_id: str, slug: str, version: str) -> tuple[Tool, str]:
        """Return one version of a tool, and the name that it is called by."""
        # What a tool has as its place is one; anything else is said to be wrong, or missing.
        row = self._catalog.row(bundle_id, (slug, version)) or self._row(
            *_place(bundle_id, slug, version)
        )
        if row.tool.go_tool is not None and not row.tool.is_built_in:
            self._needs.refresh()
        return row.tool, row.name

    def patch_tool(self, bundle_id: str, slug: str, version: str, *, enabled: bool) -> Tool:
        """Turn one version of a tool on or off."""
        switch = read(Switch, {"isEnabled": enabled})
        own, pair = _place(bundle_id, slug, version)
        with self._store.writing() as snapshot:
            if own in _BUILT_IN:
                row = self._row(own, pair)
                _refuse_off(row.bundle)
                self._switches.switch(row.tool.tool_id, enabled=switch.is_enabled)
            else:
                stored = self._stored(snapshot, own)
                _refuse_off(stored.bundle)
                tool = stored.tools.get(pair)
                if tool is None:
                    raise _no_tool(pair)
                if tool.is_enabled is not switch.is_enabled:
                    changed = tool.model_copy(update={"is_enabled": switch.is_enabled})
                    self._store.save_tools(stored, [changed.below(stored.bundle.base_url)])
        self._needs.refresh()
        return self.get_tool(own, *pair)

    def delete_tool(self, bundle_id: str, slug: str, version: str) -> None:
        """Delete a tool for good, also one of a disabled bundle."""
        own, pair = _place(bundle_id, slug, version)
        _refuse_built_in(own)
        with self._store.writing() as snapshot:
            stored = self._stored(snapshot, own)
            if pair not in stored.tools:
                raise _no_tool(pair)
            self._store.remove_tool(stored, stored.tools[pair])
        self._needs.refresh()

    def all_tools(self, bundle_id: str | None = None) -> list[Tool]:
        """Every tool of all bundles or of one, also disabled ones, the oldest first."""
        own = None if bundle_id is None else require_id(bundle_id)
        rows = self._catalog.rows()
        return self._complete(row for row in rows if own is None or row.bundle.bundle_id == own)

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
        chosen, words = _ids(bundle_ids), _texts(tags, "tags")
        rows = [
            row
            for row in self._catalog.rows()
            if (row.is_on or include_disabled)
            and (chosen is None or row.bundle.bundle_id in chosen)
            and (words is None or not words.isdisjoint(row.tool.tags))
        ]
        lists = (sorted(one) if one is not None else None for one in (words, chosen))
        query = ["tools", *lists, bool(include_disabled)]
        return self._page(
            rows, page_size, page_token, query, self._complete, key=lambda row: row.key
        )

    def search(
        self,
        q: str,
        *,
        include_disabled: bool = False,
        page_size: int = DEFAULT_SIZE,
        page_token: str | None = None,
    ) -> Page:
        """The tools that match a text, best first; equal ones by their last change, the newest
        first."""
        if not isinstance(q, str):
            raise InvalidRequest(f"q: {values.safe_repr(q, 80)} is not text.")
        hits = [hit for hit in self._catalog.search(q) if hit.row.is_on or include_disabled]

        def complete(page: list[SearchHit]) -> list[Tool]:
            return self._complete(hit.row for hit in page)

        query = ["search", q, bool(include_disabled)]
        return self._page(hits, page_size, page_token, query, complete, key=lambda hit: hit.key)

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
        """Call one version of a tool. A failure is data in the result, also if there is no such
        tool."""
        name = self._call_name(bundle_id, slug, version)
        arguments = {} if args is None else args
        return self._needs.call(name, arguments, source=source, timeout=timeout)

    def draft(
        self,
        record: Mapping[str, Any] | WireModel,
        *,
        name: str = "draft",
        bundle: Bundle | None = None,
    ) -> HttpRunner:
        """Make an HTTP tool of a bundle callable without storing it; refused as `put_tool` would
        refuse it."""
        body = self._checked("draft", "1", _unlabelled(record), bundle)[1]
        runner = self._runners.new(body if bundle is None else body.within(bundle), name)
        if not isinstance(runner, HttpRunner):
            raise InvalidRequest("type: only HTTP tools can be tried out without being stored.")
        return runner

    def preview(
        self, bundle_id: str, slug: str, version: str, args: Mapping[str, object]
    ) -> list[Json]:
        """Return the requests that a call would send, masked. Nothing is sent."""
        row = self._row(*_place(bundle_id, slug, version))
        runner = self._runners.of(row.tool.within(row.bundle), row.name)
        if not isinstance(runner, HttpRunner):
            raise InvalidRequest(f"'{row.name}' is a local function; it sends nothing.")
        return runner.preview(args)

    def _checked(
        self, slug: str, version: str, record: Any, bundle: Bundle | None
    ) -> tuple[tuple[str, str], ToolBody]:
        """Check a PUT of a tool into a bundle; returns slug and version, and the body."""
        try:
            pair = (require_slug(slug), require_version(version))
            body = read(ToolBody, record, own=pair)
        except InvalidRequest as exc:
            checks = (
                lambda: require_slug(slug),
                lambda: require_version(version),
                lambda: read(ToolBody, _unlabelled(record), own=(slug, version)),
            )
            raise with_others(exc, checks) from None
        whole = body if bundle is None else body.within(bundle)
        _require_callable(
            whole, f"{pair[0]}@{pair[1]}", runners=self._runners, secrets=self._needs.secret_names()
        )
        return pair, body

    def _page(
        self,
        rows: Sequence[Row],
        size: object,
        token: object,
        query: Sequence[object],
        complete: Callable[[list[Row]], list[Any]] = list,
        *,
        key: Callable[[Row], Key],
    ) -> Page:
        items, more = page_of(
            rows, size=size, token=token, query=[str(self._store.root), *query], key=key
        )
        return Page(items=complete(items), next_page_token=more)

    def _store_tools_for(self, bundle: Bundle, before: StoredBundle) -> None:
        """Before a bundle gets another base URL: store its tools so that they follow it, or stay
        where they are.

        They follow. But a base URL that only becomes longer, with the same environment, says more
        exactly where the tools are: their addresses stay whole until it is stored.
        """
        old, new = before.bundle.base_url, bundle.base_url
        is_same = before.bundle.environment == bundle.environment
        if (
            old is not None
            and new is not None
            and old != new
            and is_same
            and below(new, old) is not None
        ):
            self._store.save_tools(before, [tool.whole(old) for tool in before.tools.values()])
        elif old is not None:
            self._store_below(before, old)

    def _store_below(self, stored: StoredBundle, base_url: str | None) -> None:
        """Store whole addresses below a base URL as paths, so that they follow it. Earlier versions
        kept them whole."""
        pairs = [(tool, tool.below(base_url)) for tool in stored.tools.values()]
        if changed := [after for before, after in pairs if after is not before]:
            self._store.save_tools(stored, changed)

    def _stored(self, snapshot: BundleSnapshot, bundle_id: str) -> StoredBundle:
        """Return the stored bundle of that id; raises NotFound if there is none or it was
        deleted."""
        stored = snapshot.bundles.get(bundle_id)
        if stored is None or stored.bundle.soft_deleted_at is not None:
            self._refuse_unknown(bundle_id)
        return stored

    def _refuse_unknown(self, bundle_id: str) -> NoReturn:
        """Say why there is no bundle of that id: its file may be damaged."""
        self._store.require_sound(bundle_id)
        raise NotFound(
            f"There is no bundle '{bundle_id}'.", hint="See all with box.bundles.list_bundles()."
        )

    def _reap(self, snapshot: BundleSnapshot) -> list[str]:
        """Remove bundles that were deleted two days ago and are still empty. Needs the store's
        lock."""
        gone = [
            own
            for own, stored in snapshot.bundles.items()
            if self._is_due(stored) and self._store.is_bare(stored)
        ]
        for bundle_id in gone:
            self._store.remove_bundle(snapshot.bundles[bundle_id])
        return gone

    def _is_due(self, stored: StoredBundle) -> bool:
        deleted = stored.bundle.soft_deleted_at
        return deleted is not None and self._needs.clock() - deleted >= REAP_AFTER

    def _record(self, bundle_id: str, pair: tuple[str, str], body: ToolBody) -> Tool:
        """Make the record that a PUT of a tool stores."""
        now = self._needs.clock().astimezone(datetime.UTC)
        fields: Json = {name: getattr(body, name) for name in ToolBody.model_fields}
        fields |= {
            "display_name": body.display_name or pair[0],
            "tool_id": new_id(),
            "bundle_id": bundle_id,
        }
        is_hint = body.output_schema is not None and not body.is_output_strict
        fields["output_schema_from"] = "document" if is_hint else None
        return Tool(**fields, slug=pair[0], version=pair[1], created_at=now, modified_at=now)

    def _complete(self, rows: Iterable[CatalogRow]) -> list[Tool]:
        """Complete records with whether they can be called, and how often they were.

        A version counts its own calls, and those by the slug alone while the slug stands for it.
        """
        rows = list(rows)
        if any(row.tool.go_tool is not None and not row.tool.is_built_in for row in rows):
            self._needs.refresh()
        counts = self._needs.counts()
        tools = []
        for row in rows:
            names = {row.name, *([row.plain_name] if row.is_chosen else [])}
            calls = [counts[name] for name in names if name in counts]
            reason = self._reason(row.tool)
            computed = {
                "call_count": sum(count for count, _ in calls),
                "last_called_at": max((at for _, at in calls), default=None),
                "available": reason is None,
                "reason": reason,
            }
            tools.append(row.tool.model_copy(update=computed))
        return tools

    def _reason(self, tool: Tool) -> str | None:
        """Say why a local function cannot be called now."""
        if tool.go_tool is None or tool.is_built_in:
            return None
        func = tool.go_tool.func
        spec = self._needs.find(func)
        if spec is None:
            return f"There is no function '{func}' now. The tool comes back with it."
        return f"'{func}' is switched off: {spec.disabled}" if spec.disabled else None

    def _row(self, bundle_id: str, pair: tuple[str, str]) -> CatalogRow:
        row = self._catalog.row(bundle_id, pair)
        if row is None:
            self.get_bundle(bundle_id)
            raise _no_tool(pair)
        return row

    def _call_name(self, bundle_id: str, slug: str, version: str) -> str:
        """The name of this version in the registry; a name that no tool has if there is no such
        version."""
        own, pair = _place(bundle_id, slug, version)
        row = self._catalog.row(own, pair)
        return row.name if row is not None else f"{own}.{pair[0]}@{pair[1]}"


def _place(bundle_id: object, slug: object, version: object) -> tuple[str, tuple[str, str]]:
    return require_id(bundle_id), (require_slug(slug), require_version(version))


def _unlabelled(record: Any) -> Any:
    """Return a tool's record without its slug and version."""
    if not isinstance(record, Mapping | WireModel):
        return record
    return {key: record[key] for key in record.keys() if key not in ("slug", "version")}  # noqa: SIM118 - records too


def _ids(ids: Iterable[str] | None) -> set[str] | None:
    texts = _texts(ids, "bundleIDs")
    return None if texts is None else {require_id(one, "bundleIDs") for one in texts}


def _texts(items: Iterable[str] | None, field: str) -> set[str] | None:
    if items is None:
        return None
    listed = [items] if isinstance(items, str) or not isinstance(items, Iterable) else list(items)
    if not all(isinstance(one, str) for one in listed):
        raise InvalidRequest(f"{field}: {values.safe_repr(listed, 80)} is not a list of texts.")
    return set(listed)
